-- The rest of a payment's life: other ways to pay, the customer's action, capture, refunds.

-- +goose Up

ALTER TABLE orders
    ADD COLUMN capture_mode text NOT NULL DEFAULT 'automatic'
        CONSTRAINT orders_capture_mode CHECK (capture_mode IN ('automatic', 'manual')),
    ADD COLUMN on_decline text NOT NULL DEFAULT 'roll_back'
        CONSTRAINT orders_on_decline CHECK (on_decline IN ('roll_back', 'await')),
    ADD COLUMN payment_data bytea, -- sealed: what the provider's client library made; with it, payment_method is empty
    ADD COLUMN refunding_amount bigint NOT NULL DEFAULT 0, -- asked for and not given back yet
    DROP CONSTRAINT orders_refunded_within_captured,
    ADD CONSTRAINT orders_refunds_within_captured CHECK
        (0 <= refunded_amount AND 0 <= refunding_amount AND refunded_amount + refunding_amount <= captured_amount);

-- A refund's saga has a key of its own; the saga that took the order has the order's id.
ALTER TABLE sagas
    ADD COLUMN kind text NOT NULL DEFAULT 'order' CONSTRAINT sagas_kind CHECK (kind IN ('order', 'refund')),
    ADD CONSTRAINT sagas_one_for_the_order CHECK ((kind = 'order') = (key = order_id)),
    DROP CONSTRAINT sagas_state_check,
    ADD CONSTRAINT sagas_state_check CHECK
        (state IN ('started', 'reserved', 'charging', 'awaiting', 'charged', 'completed', 'compensating', 'refunding',
            'rolled_back', 'needs_review')),
    ADD CONSTRAINT sagas_state_of_its_kind CHECK
        (CASE kind WHEN 'refund' THEN state IN ('started', 'refunding', 'completed', 'rolled_back', 'needs_review')
            ELSE state <> 'refunding' END);

ALTER TABLE saga_steps
    DROP CONSTRAINT saga_steps_name_check,
    ADD CONSTRAINT saga_steps_name_check CHECK
        (name IN ('reserve', 'charge', 'continue', 'capture', 'confirm', 'release', 'void', 'refund')),
    ADD COLUMN target text NOT NULL DEFAULT '', -- of a void: the payment's reference, as it was when the intent was written
    ADD COLUMN amount bigint NOT NULL DEFAULT 0 -- of a capture or a refund; 0 for the whole order's
        CONSTRAINT saga_steps_amount_not_negative CHECK (amount >= 0),
    ADD COLUMN final boolean NOT NULL DEFAULT false, -- of a capture: what is left of the hold is let go
    ADD COLUMN details bytea; -- sealed: what the customer's way back brought

-- By these a provider's notice finds its saga. They cross accounts on purpose: a notice names none.
CREATE INDEX saga_steps_by_reference ON saga_steps (provider, provider_reference) WHERE provider_reference <> '';
-- No two calls share an identifier: the second would be taken for a repeat of the first.
CREATE UNIQUE INDEX saga_steps_by_sub_key ON saga_steps (sub_key) WHERE provider <> '';

CREATE TABLE refunds (
    account_id text        NOT NULL,
    id         uuid        NOT NULL, -- its saga's key
    order_id   uuid        NOT NULL,
    amount     bigint      NOT NULL CONSTRAINT refunds_amount_positive CHECK (amount > 0),
    reason     text        NOT NULL DEFAULT '',
    status     text        NOT NULL
        CONSTRAINT refunds_status CHECK (status IN ('pending', 'succeeded', 'failed', 'in_review')),
    created_at timestamptz NOT NULL DEFAULT now(),
    updated_at timestamptz NOT NULL DEFAULT now(),
    PRIMARY KEY (account_id, id),
    FOREIGN KEY (account_id, id) REFERENCES sagas (account_id, key),
    FOREIGN KEY (account_id, order_id) REFERENCES orders (account_id, id)
);
CREATE INDEX refunds_of_order ON refunds (account_id, order_id, created_at DESC, id DESC);

ALTER TABLE outbox_events ADD COLUMN refund_id uuid; -- of an event about a refund

-- +goose Down

-- What only the newer schema can hold is lost: refunds with their sagas, and the steps that the older one has no name for.
-- The orders' sums stay.
DROP TABLE refunds;
DELETE FROM findings f USING sagas s WHERE s.account_id = f.account_id AND s.key = f.saga_key AND s.kind = 'refund';
DELETE FROM idempotency_keys k USING sagas s WHERE s.account_id = k.account_id AND s.key = k.saga_key AND s.kind = 'refund';
DELETE FROM saga_steps t USING sagas s WHERE s.account_id = t.account_id AND s.key = t.saga_key AND s.kind = 'refund';
DELETE FROM saga_steps WHERE name IN ('continue', 'capture');
DELETE FROM sagas WHERE kind = 'refund';
DELETE FROM outbox_events WHERE refund_id IS NOT NULL;

ALTER TABLE outbox_events DROP COLUMN refund_id;

DROP INDEX saga_steps_by_reference, saga_steps_by_sub_key;
ALTER TABLE saga_steps
    DROP COLUMN target, DROP COLUMN amount, DROP COLUMN final, DROP COLUMN details,
    DROP CONSTRAINT saga_steps_name_check,
    ADD CONSTRAINT saga_steps_name_check CHECK (name IN ('reserve', 'charge', 'confirm', 'release', 'void', 'refund'));

ALTER TABLE sagas
    DROP CONSTRAINT sagas_one_for_the_order, DROP CONSTRAINT sagas_state_of_its_kind, DROP COLUMN kind,
    DROP CONSTRAINT sagas_state_check,
    ADD CONSTRAINT sagas_state_check CHECK
        (state IN ('started', 'reserved', 'charging', 'awaiting', 'charged', 'completed', 'compensating', 'rolled_back',
            'needs_review'));

ALTER TABLE orders
    DROP CONSTRAINT orders_refunds_within_captured,
    DROP COLUMN capture_mode, DROP COLUMN on_decline, DROP COLUMN payment_data, DROP COLUMN refunding_amount,
    ADD CONSTRAINT orders_refunded_within_captured CHECK (0 <= refunded_amount AND refunded_amount <= captured_amount);
