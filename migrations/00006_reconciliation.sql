-- Reconciliation: what the providers tell, kept beside what we know, and what was found where the two disagree.

-- +goose Up

-- Every reconciliation, and those that were asked for. Progress is written into the row, so that another process can go on with it.
CREATE TABLE reconciliation_runs (
    id           uuid        PRIMARY KEY DEFAULT gen_random_uuid(),
    mode         text        NOT NULL CONSTRAINT reconciliation_runs_mode CHECK (mode IN ('plan', 'apply')),
    providers    text[]      NOT NULL CONSTRAINT reconciliation_runs_providers CHECK (cardinality(providers) BETWEEN 1 AND 32),
    statement_id bigint, -- of the settlement file that it is about; none: it is about what the providers list
    since        timestamptz,
    until        timestamptz,
    requested_by text        NOT NULL CONSTRAINT reconciliation_runs_requested_by CHECK (length(requested_by) BETWEEN 1 AND 255),
    requested_at timestamptz, -- when an operator asked a server for it; none: whoever wanted it runs it
    state        text        NOT NULL
        CONSTRAINT reconciliation_runs_state CHECK (state IN ('requested', 'running', 'done', 'stopped', 'failed')),
    stage        text        NOT NULL DEFAULT 'list'
        CONSTRAINT reconciliation_runs_stage CHECK (stage IN ('list', 'match', 'unclaimed', 'repair', 'end')),
    cursor       text        NOT NULL DEFAULT '' CONSTRAINT reconciliation_runs_cursor CHECK (length(cursor) <= 10000),
    totals       jsonb       NOT NULL DEFAULT '{}',
    reason       text        NOT NULL DEFAULT '' CONSTRAINT reconciliation_runs_reason CHECK (length(reason) <= 1000),
    created_at   timestamptz NOT NULL DEFAULT now(),
    saved_at     timestamptz NOT NULL DEFAULT now(), -- its progress
    finished_at  timestamptz,
    CONSTRAINT reconciliation_runs_end CHECK ((state IN ('done', 'stopped', 'failed')) = (finished_at IS NOT NULL)),
    CONSTRAINT reconciliation_runs_window CHECK (since <= until),
    CONSTRAINT reconciliation_runs_requested CHECK (state <> 'requested' OR requested_at IS NOT NULL)
);
CREATE INDEX reconciliation_runs_newest ON reconciliation_runs (created_at DESC, id DESC);
CREATE INDEX reconciliation_runs_open ON reconciliation_runs (created_at) WHERE finished_at IS NULL;

-- One row: the lease that all reconciliations share, so that two never overlap.
CREATE TABLE reconciliation_lease (
    single       boolean     PRIMARY KEY DEFAULT true CONSTRAINT reconciliation_lease_single CHECK (single),
    run_id       uuid, -- who holds it, or held it last
    fence        bigint      NOT NULL DEFAULT 0, -- grows with every holder: only the newest one can write
    locked_until timestamptz NOT NULL DEFAULT now(),
    scope_of     uuid, -- the run whose scope reconciliation_scope is
    unclaimed_of uuid  -- the run whose leftovers reconciliation_unclaimed are
);
INSERT INTO reconciliation_lease DEFAULT VALUES;

-- The payments that the running reconciliation looks at, and what is left over at the providers. Filled when the stage begins, so that a
-- run which is taken up again goes on in the same list; emptied when it ends.
CREATE TABLE reconciliation_scope (
    account_id text NOT NULL,
    order_id   uuid NOT NULL,
    PRIMARY KEY (account_id, order_id)
);
CREATE TABLE reconciliation_unclaimed (
    provider  text    COLLATE "C" NOT NULL,
    reference text    COLLATE "C" NOT NULL,
    claimed   boolean NOT NULL, -- by now: a finding about it is open still
    PRIMARY KEY (provider, reference)
);

-- The times of each provider that were listed without a gap. No two of a provider touch.
CREATE TABLE provider_coverage (
    provider      text        NOT NULL CONSTRAINT provider_coverage_provider CHECK (length(provider) BETWEEN 1 AND 32),
    covered_from  timestamptz NOT NULL,
    covered_until timestamptz NOT NULL,
    updated_at    timestamptz NOT NULL DEFAULT now(),
    PRIMARY KEY (provider, covered_from),
    CONSTRAINT provider_coverage_window CHECK (covered_from < covered_until)
);

-- Up to when what each provider has was compared with our payments.
CREATE TABLE provider_compared (
    provider       text        PRIMARY KEY CONSTRAINT provider_compared_provider CHECK (length(provider) BETWEEN 1 AND 32),
    compared_until timestamptz NOT NULL
);

-- What the providers have, as they told it last. It belongs to no account: a provider knows none. No foreign keys: it is loaded by the
-- million.
CREATE TABLE provider_transactions (
    provider     text        COLLATE "C" NOT NULL CONSTRAINT provider_transactions_provider CHECK (length(provider) BETWEEN 1 AND 32),
    kind         text        COLLATE "C" NOT NULL CONSTRAINT provider_transactions_kind CHECK (kind IN ('payment', 'refund')),
    reference    text        COLLATE "C" NOT NULL
        CONSTRAINT provider_transactions_reference CHECK (length(reference) BETWEEN 1 AND 255),
    payment      text        COLLATE "C" NOT NULL DEFAULT '' CONSTRAINT provider_transactions_payment CHECK (length(payment) <= 255),
    sub_key      text        NOT NULL DEFAULT '' CONSTRAINT provider_transactions_sub_key CHECK (length(sub_key) <= 255),
    saga_key     text        NOT NULL DEFAULT '' CONSTRAINT provider_transactions_saga_key CHECK (length(saga_key) <= 255),
    named_saga   uuid, -- the saga that one of these two names
    status       text        NOT NULL CONSTRAINT provider_transactions_status CHECK
        (status IN ('succeeded', 'authorized', 'action_required', 'processing', 'declined', 'canceled')),
    amount       bigint      NOT NULL,
    currency     text        NOT NULL CONSTRAINT provider_transactions_currency CHECK (currency ~ '^([A-Z]{3})?$'),
    refunded     bigint      NOT NULL DEFAULT -1 CONSTRAINT provider_transactions_refunded CHECK (refunded >= -1), -- -1: not told
    fee          bigint      NOT NULL DEFAULT 0,
    fee_currency text        NOT NULL DEFAULT '' CONSTRAINT provider_transactions_fee_currency CHECK (fee_currency ~ '^([A-Z]{3})?$'),
    made_at      timestamptz NOT NULL, -- by the provider's clock
    told_at      timestamptz NOT NULL, -- by this database's: what happened here since, it says nothing about
    run_id       uuid        NOT NULL, -- that came upon it last
    PRIMARY KEY (provider, reference, kind)
);
CREATE INDEX provider_transactions_of_payment ON provider_transactions (provider, payment) WHERE payment <> '';
CREATE INDEX provider_transactions_of_saga ON provider_transactions (named_saga) WHERE named_saga IS NOT NULL;
CREATE INDEX provider_transactions_by_time ON provider_transactions (provider, made_at);
CREATE INDEX provider_transactions_of_run ON provider_transactions (run_id);

CREATE TABLE settlement_files (
    id         bigint      GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    provider   text        NOT NULL CONSTRAINT settlement_files_provider CHECK (length(provider) BETWEEN 1 AND 32),
    name       text        NOT NULL CONSTRAINT settlement_files_name CHECK (length(name) BETWEEN 1 AND 255),
    digest     bytea       NOT NULL CONSTRAINT settlement_files_digest CHECK (octet_length(digest) = 32), -- SHA-256 of its content
    zone       text        NOT NULL DEFAULT '' CONSTRAINT settlement_files_zone CHECK (length(zone) <= 64), -- of its times; empty: none was told
    state      text        NOT NULL DEFAULT 'reading' CONSTRAINT settlement_files_state CHECK (state IN ('reading', 'read')),
    read_to    int         NOT NULL DEFAULT 0 CONSTRAINT settlement_files_read_to CHECK (read_to >= 0), -- the last line that is kept
    format     text        NOT NULL DEFAULT '',
    lines      bigint      NOT NULL DEFAULT 0 CONSTRAINT settlement_files_lines CHECK (lines >= 0),
    malformed  bigint      NOT NULL DEFAULT 0 CONSTRAINT settlement_files_malformed CHECK (malformed >= 0),
    faults     jsonb       NOT NULL DEFAULT '[]', -- the first lines that could not be read: number, column and why. While the file is read,
                                                  -- those that tell a kept booking with other money, which malformed counts then
    totals     jsonb       NOT NULL DEFAULT '{}', -- by currency
    controls   jsonb       NOT NULL DEFAULT '[]', -- the file's own figures, each beside what its lines come to
    booked_from  timestamptz,
    booked_until timestamptz,
    opened_at  timestamptz NOT NULL DEFAULT now(),
    read_at    timestamptz,
    UNIQUE (provider, digest),
    CONSTRAINT settlement_files_end CHECK ((state = 'read') = (read_at IS NOT NULL))
);
ALTER TABLE reconciliation_runs
    ADD CONSTRAINT reconciliation_runs_statement FOREIGN KEY (statement_id) REFERENCES settlement_files (id);
CREATE INDEX reconciliation_runs_of_file ON reconciliation_runs (statement_id) WHERE statement_id IS NOT NULL;

-- Every booking once, in whatever file it stands first. A booking does not change.
CREATE TABLE settlement_lines (
    provider   text        COLLATE "C" NOT NULL CONSTRAINT settlement_lines_provider CHECK (length(provider) BETWEEN 1 AND 32),
    id         text        COLLATE "C" NOT NULL CONSTRAINT settlement_lines_id CHECK (length(id) BETWEEN 1 AND 255),
    file_id    bigint      NOT NULL,
    number     int         NOT NULL CONSTRAINT settlement_lines_number CHECK (number >= 1),
    kind       text        NOT NULL CONSTRAINT settlement_lines_kind CHECK
        (kind IN ('charge', 'refund', 'fee', 'chargeback', 'payout', 'adjustment', 'exchange')),
    payment    text        COLLATE "C" NOT NULL DEFAULT '' CONSTRAINT settlement_lines_payment CHECK (length(payment) <= 255),
    reference  text        COLLATE "C" NOT NULL DEFAULT '' CONSTRAINT settlement_lines_reference CHECK (length(reference) <= 255),
    sub_key    text        NOT NULL DEFAULT '' CONSTRAINT settlement_lines_sub_key CHECK (length(sub_key) <= 255),
    named_saga uuid, -- the saga that the sub-key names
    gross      bigint      NOT NULL, -- from the shop's side
    fee        bigint      NOT NULL, -- positive where it costs the shop
    net        bigint      NOT NULL, -- as the file tells it
    currency   text        NOT NULL CONSTRAINT settlement_lines_currency CHECK (currency ~ '^[A-Z]{3}$'),
    original_amount   bigint NOT NULL DEFAULT 0 CONSTRAINT settlement_lines_original_amount CHECK (original_amount >= 0),
    original_currency text   NOT NULL DEFAULT ''
        CONSTRAINT settlement_lines_original_currency CHECK (original_currency ~ '^([A-Z]{3})?$'),
    payout     text        NOT NULL DEFAULT '' CONSTRAINT settlement_lines_payout CHECK (length(payout) <= 255),
    booked_at  timestamptz NOT NULL,
    PRIMARY KEY (provider, id)
);
CREATE INDEX settlement_lines_of_payment ON settlement_lines (provider, payment) WHERE payment <> '';
CREATE INDEX settlement_lines_of_reference ON settlement_lines (provider, reference) WHERE reference <> '';
CREATE INDEX settlement_lines_of_saga ON settlement_lines (named_saga) WHERE named_saga IS NOT NULL;
CREATE INDEX settlement_lines_of_file ON settlement_lines USING brin (file_id); -- a file's lines lie together

-- By these a run finds what of ours it must look at. Steps lie in the order in which they began, for which a few pages of index do.
CREATE INDEX saga_steps_by_start ON saga_steps USING brin (started_at) WITH (autosummarize = on);
CREATE INDEX reservations_held ON reservations (account_id, saga_key) WHERE status = 'held';
CREATE INDEX webhook_events_of_payment ON webhook_events (provider, payment_reference) WHERE status IN ('waiting', 'parked');
CREATE INDEX webhook_events_of_call ON webhook_events (provider, sub_key) WHERE status IN ('waiting', 'parked');
CREATE INDEX webhook_events_by_time ON webhook_events USING brin (received_at) WITH (autosummarize = on);

-- A finding is of a saga, which waits for a person then, or of reconciliation. Of a finding that no saga is about, the account is empty
-- unless somebody answers for it.
ALTER TABLE findings
    ALTER COLUMN saga_key DROP NOT NULL,
    ALTER COLUMN order_id DROP NOT NULL,
    ADD COLUMN source        text        NOT NULL DEFAULT 'saga'
        CONSTRAINT findings_source CHECK (source IN ('saga', 'reconciliation')),
    ADD COLUMN severity      text        NOT NULL DEFAULT 'high'
        CONSTRAINT findings_severity CHECK (severity IN ('critical', 'high', 'low')),
    ADD COLUMN provider      text        COLLATE "C" NOT NULL DEFAULT '' CONSTRAINT findings_provider CHECK (length(provider) <= 32),
    ADD COLUMN reference     text        COLLATE "C" NOT NULL DEFAULT '' CONSTRAINT findings_reference CHECK (length(reference) <= 255),
    ADD COLUMN at_stake      bigint      NOT NULL DEFAULT 0 CONSTRAINT findings_at_stake CHECK (at_stake >= 0),
    ADD COLUMN currency      text        NOT NULL DEFAULT '' CONSTRAINT findings_currency CHECK (currency ~ '^([A-Z]{3})?$'),
    ADD COLUMN here          bytea, -- sealed, as the next one: what the two sides say
    ADD COLUMN there         bytea,
    ADD COLUMN repair        text        NOT NULL DEFAULT '' CONSTRAINT findings_repair CHECK (length(repair) <= 64), -- what mends it
    ADD COLUMN last_seen_at  timestamptz NOT NULL DEFAULT now(),
    ADD COLUMN run_id        uuid, -- that came upon it last
    ADD COLUMN tried_by      uuid, -- the run that tried to mend it last
    ADD COLUMN repair_note   text        NOT NULL DEFAULT '' CONSTRAINT findings_repair_note CHECK (length(repair_note) <= 1000), -- what came of it
    ADD COLUMN ignored_until timestamptz,
    ADD COLUMN resolved_by   text        NOT NULL DEFAULT '' CONSTRAINT findings_resolved_by CHECK (length(resolved_by) <= 255),
    ADD COLUMN reason        text        NOT NULL DEFAULT '' CONSTRAINT findings_reason CHECK (length(reason) <= 1000), -- of who ended or ignored it
    ADD CONSTRAINT findings_saga_whole CHECK ((saga_key IS NULL) = (order_id IS NULL)),
    ADD CONSTRAINT findings_of_a_saga_name_it CHECK (source <> 'saga' OR saga_key IS NOT NULL),
    ADD CONSTRAINT findings_of_nobody_name_something CHECK (saga_key IS NOT NULL OR provider <> '' AND reference <> '');
UPDATE findings SET last_seen_at = created_at;
CREATE UNIQUE INDEX findings_one_open_about_a_thing ON findings (kind, provider, reference)
    WHERE saga_key IS NULL AND resolved_at IS NULL;
CREATE UNIQUE INDEX findings_by_id ON findings (id);
CREATE INDEX findings_of_order ON findings (account_id, order_id) WHERE order_id IS NOT NULL;
CREATE INDEX findings_of_thing ON findings (provider, reference) WHERE saga_key IS NULL;
CREATE INDEX findings_ended_of_saga ON findings (account_id, saga_key) WHERE resolved_at IS NOT NULL;
CREATE INDEX findings_everybodys ON findings (created_at DESC, id DESC);

ALTER TABLE audit_log ADD COLUMN until timestamptz; -- of what ends by itself

ALTER TABLE outbox_events
    ALTER COLUMN order_id DROP NOT NULL,
    ADD COLUMN data jsonb, -- of an event that is about no order
    ADD CONSTRAINT outbox_events_about_something CHECK (order_id IS NOT NULL OR data IS NOT NULL);
CREATE UNIQUE INDEX outbox_events_one_summary_a_day ON outbox_events (account_id, (data ->> 'day')) WHERE type = 'reconciliation.summary';

-- Of a refund that gives back another payment than its order's own, which was taken beside it: that payment.
ALTER TABLE refunds
    ADD COLUMN payment_provider  text NOT NULL DEFAULT '' CONSTRAINT refunds_payment_provider CHECK (length(payment_provider) <= 32),
    ADD COLUMN payment_reference text NOT NULL DEFAULT '' CONSTRAINT refunds_payment_reference CHECK (length(payment_reference) <= 255),
    ADD CONSTRAINT refunds_payment_whole CHECK ((payment_provider = '') = (payment_reference = ''));

-- How often reconciliation brought an event again that had been given up.
ALTER TABLE webhook_events
    ADD COLUMN brought_again int NOT NULL DEFAULT 0 CONSTRAINT webhook_events_brought_again CHECK (brought_again >= 0);

-- +goose Down

ALTER TABLE webhook_events DROP COLUMN brought_again;

-- A refund of another payment would be taken for one of its order's own.
DELETE FROM findings f USING refunds r WHERE r.account_id = f.account_id AND r.id = f.saga_key AND r.payment_reference <> '';
DELETE FROM saga_steps t USING refunds r WHERE r.account_id = t.account_id AND r.id = t.saga_key AND r.payment_reference <> '';
UPDATE webhook_events e SET account_id = NULL, saga_key = NULL, status = 'unmatched', next_attempt_at = NULL, applied_at = NULL
FROM refunds r WHERE r.account_id = e.account_id AND r.id = e.saga_key AND r.payment_reference <> '';
WITH others AS (DELETE FROM refunds WHERE payment_reference <> '' RETURNING account_id, id)
DELETE FROM sagas s USING others o WHERE s.account_id = o.account_id AND s.key = o.id;
ALTER TABLE refunds DROP COLUMN payment_provider, DROP COLUMN payment_reference;

-- What only the newer schema can hold is lost: all that the providers told, the runs, and the findings that no saga has.
DELETE FROM outbox_events WHERE order_id IS NULL;
DROP INDEX outbox_events_one_summary_a_day;
ALTER TABLE outbox_events DROP CONSTRAINT outbox_events_about_something, DROP COLUMN data, ALTER COLUMN order_id SET NOT NULL;

ALTER TABLE audit_log DROP COLUMN until;

DELETE FROM findings WHERE source = 'reconciliation';
DROP INDEX findings_one_open_about_a_thing, findings_by_id, findings_of_order, findings_of_thing, findings_ended_of_saga, findings_everybodys;
ALTER TABLE findings
    DROP CONSTRAINT findings_saga_whole, DROP CONSTRAINT findings_of_a_saga_name_it, DROP CONSTRAINT findings_of_nobody_name_something,
    DROP COLUMN source, DROP COLUMN severity, DROP COLUMN provider, DROP COLUMN reference, DROP COLUMN at_stake, DROP COLUMN currency,
    DROP COLUMN here, DROP COLUMN there, DROP COLUMN repair, DROP COLUMN last_seen_at, DROP COLUMN run_id, DROP COLUMN tried_by,
    DROP COLUMN repair_note, DROP COLUMN ignored_until, DROP COLUMN resolved_by, DROP COLUMN reason,
    ALTER COLUMN saga_key SET NOT NULL, ALTER COLUMN order_id SET NOT NULL;

DROP INDEX saga_steps_by_start, reservations_held, webhook_events_of_payment, webhook_events_of_call, webhook_events_by_time;
DROP TABLE settlement_lines, reconciliation_runs, settlement_files, provider_transactions, provider_coverage, provider_compared, reconciliation_unclaimed,
    reconciliation_scope, reconciliation_lease;
