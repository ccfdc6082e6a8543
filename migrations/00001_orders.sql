-- The tables of an order's life. Every table of an account has account_id first in its key, so that the schema can be
-- distributed by account later. No hot table has a foreign key to accounts: each insert would lock the account's one row.

-- +goose Up

-- Turns a rule that a statement found broken into an error, so that the whole transaction ends: statements that are sent
-- together in one round trip cannot stop each other otherwise. PS001 is this application's own SQLSTATE.
-- +goose StatementBegin
CREATE FUNCTION paysaga_require(holds boolean, rule text) RETURNS void LANGUAGE plpgsql AS $$
BEGIN
    IF holds IS NOT TRUE THEN
        RAISE EXCEPTION USING ERRCODE = 'PS001', MESSAGE = rule;
    END IF;
END $$;
-- +goose StatementEnd

CREATE TABLE accounts (
    id         text        PRIMARY KEY CHECK (id ~ '^[a-z0-9][a-z0-9_-]{0,62}$'),
    created_at timestamptz NOT NULL DEFAULT now()
);

CREATE TABLE api_keys (
    account_id text        NOT NULL REFERENCES accounts (id),
    id         uuid        NOT NULL,
    name       text        NOT NULL CHECK (length(name) BETWEEN 1 AND 100),
    role       text        NOT NULL CHECK (role IN ('merchant', 'operator')),
    hash       bytea       NOT NULL UNIQUE CHECK (octet_length(hash) = 32), -- SHA-256 of the secret
    created_at timestamptz NOT NULL DEFAULT now(),
    revoked_at timestamptz,
    PRIMARY KEY (account_id, id)
);

CREATE TABLE stock (
    account_id text        NOT NULL REFERENCES accounts (id),
    sku        text        NOT NULL CHECK (length(sku) BETWEEN 1 AND 64),
    on_hand    bigint      NOT NULL,
    reserved   bigint      NOT NULL DEFAULT 0,
    updated_at timestamptz NOT NULL DEFAULT now(),
    PRIMARY KEY (account_id, sku),
    CONSTRAINT stock_reserved_within_on_hand CHECK (0 <= reserved AND reserved <= on_hand)
) WITH (fillfactor = 50); -- room for in-page updates: these rows change with every order

CREATE TABLE orders (
    account_id         text        NOT NULL,
    id                 uuid        NOT NULL,
    status             text        NOT NULL
        CHECK (status IN ('processing', 'awaiting', 'confirmed', 'failed', 'canceled', 'in_review')),
    currency           text        NOT NULL CHECK (currency ~ '^[A-Z]{3}$'),
    amount             bigint      NOT NULL CHECK (amount > 0), -- minor units, as every amount here
    customer_reference text,
    customer_email     text,
    metadata           jsonb       NOT NULL DEFAULT '{}',
    payment_provider   text        NOT NULL,
    payment_method     text        NOT NULL, -- the provider's token, never a card number
    return_url         text        NOT NULL DEFAULT '',
    payment_status     text        NOT NULL DEFAULT 'none'
        CHECK (payment_status IN
            ('none', 'authorized', 'captured', 'partially_refunded', 'refunded', 'voided', 'declined')),
    provider_reference text        NOT NULL DEFAULT '',
    captured_amount    bigint      NOT NULL DEFAULT 0,
    refunded_amount    bigint      NOT NULL DEFAULT 0,
    decline            jsonb,
    next_action        bytea, -- sealed: it holds the payment's client secret
    created_at         timestamptz NOT NULL DEFAULT now(),
    updated_at         timestamptz NOT NULL DEFAULT now(),
    PRIMARY KEY (account_id, id),
    CONSTRAINT orders_captured_within_amount CHECK (0 <= captured_amount AND captured_amount <= amount),
    CONSTRAINT orders_refunded_within_captured CHECK (0 <= refunded_amount AND refunded_amount <= captured_amount)
);
CREATE INDEX orders_newest ON orders (account_id, created_at DESC, id DESC);

CREATE TABLE order_items (
    account_id  text   NOT NULL,
    order_id    uuid   NOT NULL,
    line        int    NOT NULL,
    sku         text   NOT NULL,
    quantity    bigint NOT NULL CHECK (quantity > 0),
    unit_amount bigint NOT NULL CHECK (unit_amount >= 0),
    PRIMARY KEY (account_id, order_id, line),
    UNIQUE (account_id, order_id, sku),
    FOREIGN KEY (account_id, order_id) REFERENCES orders (account_id, id)
);

CREATE TABLE sagas (
    account_id      text        NOT NULL,
    key             uuid        NOT NULL,
    order_id        uuid        NOT NULL,
    generation      int         NOT NULL CHECK (generation >= 1),
    state           text        NOT NULL
        CHECK (state IN ('started', 'reserved', 'charging', 'awaiting', 'charged', 'completed', 'compensating',
            'rolled_back', 'needs_review')),
    failures        int         NOT NULL DEFAULT 0 CHECK (failures >= 0), -- turns in a row that brought nothing
    drives          int         NOT NULL DEFAULT 1, -- how often somebody took the lease
    unrecorded      int         NOT NULL DEFAULT 1, -- of these, those since the last change that was written
    deadline_at     timestamptz, -- of the customer's action
    next_attempt_at timestamptz, -- when somebody must look at it again; none once it has ended or waits for a person
    lock_version    bigint      NOT NULL DEFAULT 1, -- the fencing number: only its newest holder can write
    locked_until    timestamptz NOT NULL, -- end of the lease, by this database's clock
    created_at      timestamptz NOT NULL DEFAULT now(),
    updated_at      timestamptz NOT NULL DEFAULT now(),
    PRIMARY KEY (account_id, key),
    FOREIGN KEY (account_id, order_id) REFERENCES orders (account_id, id),
    CONSTRAINT sagas_live_have_a_next_attempt CHECK
        ((state IN ('completed', 'rolled_back', 'needs_review')) = (next_attempt_at IS NULL))
);
CREATE INDEX sagas_due ON sagas (next_attempt_at) WHERE next_attempt_at IS NOT NULL;

CREATE TABLE saga_steps (
    account_id         text        NOT NULL,
    saga_key           uuid        NOT NULL,
    name               text        NOT NULL
        CHECK (name IN ('reserve', 'charge', 'confirm', 'release', 'void', 'refund')),
    attempt            int         NOT NULL CHECK (attempt >= 1),
    sub_key            text        NOT NULL CHECK (length(sub_key) <= 64),
    status             text        NOT NULL CHECK (status IN ('pending', 'done', 'failed', 'unknown', 'undone')),
    provider           text        NOT NULL DEFAULT '',
    provider_reference text        NOT NULL DEFAULT '',
    outcome            text        NOT NULL DEFAULT '',
    code               text        NOT NULL DEFAULT '',
    detail             text        NOT NULL DEFAULT '',
    sends              int         NOT NULL DEFAULT 0 CHECK (sends >= 0),
    sent_at            timestamptz, -- of the last send whose outcome was recorded
    started_at         timestamptz NOT NULL DEFAULT now(),
    finished_at        timestamptz,
    PRIMARY KEY (account_id, saga_key, name, attempt),
    FOREIGN KEY (account_id, saga_key) REFERENCES sagas (account_id, key)
);
CREATE UNIQUE INDEX saga_steps_one_live_charge ON saga_steps (account_id, saga_key)
    WHERE name = 'charge' AND status IN ('pending', 'unknown', 'done');

CREATE TABLE reservations (
    account_id text        NOT NULL,
    saga_key   uuid        NOT NULL,
    sku        text        NOT NULL,
    quantity   bigint      NOT NULL CHECK (quantity > 0),
    status     text        NOT NULL DEFAULT 'held' CHECK (status IN ('held', 'sold', 'released')),
    created_at timestamptz NOT NULL DEFAULT now(),
    ended_at   timestamptz,
    PRIMARY KEY (account_id, saga_key, sku),
    FOREIGN KEY (account_id, saga_key) REFERENCES sagas (account_id, key),
    CHECK ((status = 'held') = (ended_at IS NULL))
);

CREATE TABLE idempotency_keys (
    account_id       text        NOT NULL,
    endpoint         text        NOT NULL, -- method and route pattern
    key              text        COLLATE "C" NOT NULL CHECK (length(key) BETWEEN 16 AND 255),
    generation       int         NOT NULL DEFAULT 1 CHECK (generation >= 1),
    fingerprint      bytea       NOT NULL CHECK (octet_length(fingerprint) = 32),
    status           text        NOT NULL CHECK (status IN ('PROCESSING', 'COMPLETED', 'FAILED')),
    response_status  int         CHECK (response_status BETWEEN 200 AND 499),
    response_headers jsonb,
    response_body    bytea, -- sealed, byte for byte
    lock_version     bigint      NOT NULL DEFAULT 1,
    locked_until     timestamptz,
    saga_key         uuid,
    created_at       timestamptz NOT NULL DEFAULT now(),
    completed_at     timestamptz,
    expires_at       timestamptz NOT NULL,
    PRIMARY KEY (account_id, endpoint, key),
    CONSTRAINT idempotency_keys_answered_or_locked CHECK (
        (status = 'PROCESSING' AND response_status IS NULL AND response_body IS NULL AND locked_until IS NOT NULL)
        OR (status <> 'PROCESSING' AND response_status IS NOT NULL AND response_body IS NOT NULL
            AND completed_at IS NOT NULL AND locked_until IS NULL))
);
CREATE INDEX idempotency_keys_by_saga ON idempotency_keys (account_id, saga_key) WHERE status = 'PROCESSING';

CREATE TABLE outbox_events (
    account_id text        NOT NULL,
    id         bigint      GENERATED ALWAYS AS IDENTITY,
    order_id   uuid        NOT NULL,
    type       text        NOT NULL,
    created_at timestamptz NOT NULL DEFAULT now(),
    PRIMARY KEY (account_id, id)
);

CREATE TABLE findings (
    account_id  text        NOT NULL,
    id          uuid        NOT NULL DEFAULT gen_random_uuid(),
    saga_key    uuid        NOT NULL,
    order_id    uuid        NOT NULL,
    kind        text        NOT NULL,
    detail      text        NOT NULL,
    created_at  timestamptz NOT NULL DEFAULT now(),
    resolved_at timestamptz,
    resolution  text,
    PRIMARY KEY (account_id, id),
    FOREIGN KEY (account_id, saga_key) REFERENCES sagas (account_id, key),
    CHECK ((resolved_at IS NULL) = (resolution IS NULL))
);
CREATE UNIQUE INDEX findings_one_open_of_a_kind ON findings (account_id, saga_key, kind) WHERE resolved_at IS NULL;

CREATE TABLE audit_log (
    account_id text        NOT NULL,
    id         bigint      GENERATED ALWAYS AS IDENTITY,
    actor      text        NOT NULL,
    action     text        NOT NULL,
    subject    text        NOT NULL,
    created_at timestamptz NOT NULL DEFAULT now(),
    PRIMARY KEY (account_id, id)
);

-- +goose Down
DROP TABLE audit_log, findings, outbox_events, idempotency_keys, reservations, saga_steps, sagas, order_items, orders,
    stock, api_keys, accounts;
DROP FUNCTION paysaga_require(boolean, text);
