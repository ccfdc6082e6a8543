-- What the providers announce: the inbox of their webhooks.

-- +goose Up

-- One row for each event, whatever it is about, kept for good. It belongs to no account until its saga is found, so that
-- account_id is not a part of its key. The message's body is not kept: it holds the customer's name, address and mail. What is
-- kept of it are references, our own keys, codes and an amount.
CREATE TABLE webhook_events (
    provider          text        NOT NULL CONSTRAINT webhook_events_provider CHECK (length(provider) BETWEEN 1 AND 32),
    event_id          text        COLLATE "C" NOT NULL
        CONSTRAINT webhook_events_event_id CHECK (length(event_id) BETWEEN 1 AND 255), -- the same for each copy of an event
    type              text        NOT NULL
        CONSTRAINT webhook_events_type CHECK (length(type) <= 255), -- the provider's own word, for people
    about             text        NOT NULL
        CONSTRAINT webhook_events_about CHECK (about IN ('charge', 'capture', 'void', 'refund', 'other')),
    sub_key           text        NOT NULL DEFAULT '' CONSTRAINT webhook_events_sub_key CHECK (length(sub_key) <= 64),
    payment_reference text        NOT NULL DEFAULT ''
        CONSTRAINT webhook_events_payment CHECK (length(payment_reference) <= 255),
    reference         text        NOT NULL DEFAULT '' CONSTRAINT webhook_events_reference CHECK (length(reference) <= 255),
    outcome           jsonb, -- what the event says; none for a mere hint to look. Never what the customer must do: that is a secret
    occurred_at       timestamptz NOT NULL, -- by the provider's clock
    received_at       timestamptz NOT NULL DEFAULT now(), -- or sent once more after it had been given up
    status            text        NOT NULL DEFAULT 'waiting'
        CONSTRAINT webhook_events_status CHECK (status IN ('waiting', 'applied', 'unmatched', 'parked')),
    lock_version      bigint      NOT NULL DEFAULT 0, -- the fencing number: only the newest worker can settle
    attempts          int         NOT NULL DEFAULT 0 CONSTRAINT webhook_events_attempts CHECK (attempts >= 0), -- since received_at
    failures          int         NOT NULL DEFAULT 0
        CONSTRAINT webhook_events_failures CHECK (0 <= failures AND failures <= attempts), -- of these
    next_attempt_at   timestamptz DEFAULT now(), -- during an attempt: when it is given to another worker
    account_id        text,
    saga_key          uuid,
    last_error        text        NOT NULL DEFAULT '' CONSTRAINT webhook_events_last_error CHECK (length(last_error) <= 255),
    applied_at        timestamptz,
    PRIMARY KEY (provider, event_id),
    FOREIGN KEY (account_id, saga_key) REFERENCES sagas (account_id, key),
    CONSTRAINT webhook_events_waiting_are_due CHECK ((status = 'waiting') = (next_attempt_at IS NOT NULL)),
    CONSTRAINT webhook_events_applied_at CHECK ((status = 'applied') = (applied_at IS NOT NULL)),
    CONSTRAINT webhook_events_saga_whole CHECK ((account_id IS NULL) = (saga_key IS NULL)),
    CONSTRAINT webhook_events_saga_of_status CHECK
        (CASE status WHEN 'applied' THEN saga_key IS NOT NULL WHEN 'unmatched' THEN saga_key IS NULL ELSE true END)
);
CREATE INDEX webhook_events_due ON webhook_events (next_attempt_at) WHERE next_attempt_at IS NOT NULL;
-- For the person who looks after what could not be applied, and for the timeline of a saga.
CREATE INDEX webhook_events_parked ON webhook_events (received_at) WHERE status = 'parked';
CREATE INDEX webhook_events_of_saga ON webhook_events (account_id, saga_key) WHERE saga_key IS NOT NULL;

-- +goose Down
DROP TABLE webhook_events;
