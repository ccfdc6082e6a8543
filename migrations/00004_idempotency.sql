-- Keys apart from their answers. A key must be unique for good, and a table that is partitioned by time can only enforce what
-- has the time in it: so the keys stay in one narrow table, and the heavy answers go to partitions that are dropped whole.

-- +goose Up

CREATE SEQUENCE idempotency_answer_ids;

-- What was answered under a key, until the key's window is over. The key's row has the place, (answer_on, answer_id).
CREATE TABLE idempotency_answers (
    account_id text   NOT NULL,
    expires_on date   NOT NULL, -- in UTC: the day on which the key's window ends, or a later one while its order is open
    id         bigint NOT NULL DEFAULT nextval('idempotency_answer_ids'),
    headers    jsonb  NOT NULL,
    body       bytea, -- sealed, byte for byte
    digest     bytea  -- SHA-256, instead of a body that is not kept
        CONSTRAINT idempotency_answers_digest CHECK (octet_length(digest) = 32),
    PRIMARY KEY (account_id, expires_on, id),
    CONSTRAINT idempotency_answers_body_or_digest CHECK ((body IS NULL) <> (digest IS NULL))
) PARTITION BY RANGE (expires_on);
ALTER SEQUENCE idempotency_answer_ids OWNED BY idempotency_answers.id;

-- Makes the partition for the week of a day, unless it is there; tells whether it made it. One that was detached by hand before its
-- week is over is attached again. Nobody waits: a table that is attached while there is no default partition leaves the others readable
-- and writable. What is there is asked of the catalog's tables: to_regclass may answer from what this session knew before it waited.
-- +goose StatementBegin
CREATE FUNCTION paysaga_make_answers(day date) RETURNS boolean LANGUAGE plpgsql AS $$
DECLARE
    week date := date_trunc('week', day::timestamp)::date;
    part text := 'idempotency_answers_' || to_char(week, 'YYYYMMDD');
    attached boolean; -- NULL: there is no such table
BEGIN
    FOR look IN 1..2 LOOP
        SELECT i.inhrelid IS NOT NULL INTO attached
        FROM pg_class parent
        JOIN pg_class c ON c.relnamespace = parent.relnamespace AND c.relname = part
        LEFT JOIN pg_inherits i ON i.inhrelid = c.oid AND i.inhparent = parent.oid
        WHERE parent.oid = 'idempotency_answers'::regclass;
        IF attached OR attached IS NOT NULL AND week + 7 <= (now() AT TIME ZONE 'UTC')::date THEN
            RETURN false; -- or it is about to be dropped
        END IF;
        IF look = 1 THEN
            PERFORM pg_advisory_xact_lock(hashtext('paysaga_make_answers')); -- of two that see none, one makes it
        END IF;
    END LOOP;
    IF attached IS NULL THEN
        EXECUTE format('CREATE TABLE %I (LIKE idempotency_answers INCLUDING DEFAULTS INCLUDING CONSTRAINTS INCLUDING INDEXES)', part);
    END IF;
    EXECUTE format('ALTER TABLE idempotency_answers ATTACH PARTITION %I FOR VALUES FROM (%L) TO (%L)', part, week, week + 7);
    RETURN true;
END $$;
-- +goose StatementEnd

ALTER TABLE idempotency_keys ADD COLUMN answer_on date, ADD COLUMN answer_id bigint;

SELECT paysaga_make_answers(day::date) FROM generate_series(now() AT TIME ZONE 'UTC', (now() AT TIME ZONE 'UTC') + interval '60 days', '7 days') day;
SELECT paysaga_make_answers(day) FROM (
    SELECT DISTINCT (expires_at AT TIME ZONE 'UTC')::date AS day FROM idempotency_keys WHERE response_body IS NOT NULL) AS days;
UPDATE idempotency_keys SET answer_on = (expires_at AT TIME ZONE 'UTC')::date, answer_id = nextval('idempotency_answer_ids')
WHERE response_body IS NOT NULL;
INSERT INTO idempotency_answers (account_id, expires_on, id, headers, body)
SELECT account_id, answer_on, answer_id, response_headers, response_body FROM idempotency_keys WHERE response_body IS NOT NULL;

ALTER TABLE idempotency_keys
    DROP CONSTRAINT idempotency_keys_answered_or_locked,
    DROP COLUMN response_headers,
    DROP COLUMN response_body,
    ADD CONSTRAINT idempotency_keys_answered_or_locked CHECK (
        (status = 'PROCESSING' AND response_status IS NULL AND answer_on IS NULL AND answer_id IS NULL AND completed_at IS NULL
            AND locked_until IS NOT NULL)
        OR (status <> 'PROCESSING' AND response_status IS NOT NULL AND answer_on IS NOT NULL AND answer_id IS NOT NULL
            AND completed_at IS NOT NULL AND locked_until IS NULL));
-- By this the upkeep finds what has expired, oldest first.
CREATE INDEX idempotency_keys_by_expiry ON idempotency_keys (expires_at);

-- How many new keys an account may still begin: the time until which those that it has begun are spread evenly.
CREATE TABLE key_limits (
    account_id  text        PRIMARY KEY,
    spent_until timestamptz NOT NULL
) WITH (fillfactor = 50); -- room for in-page updates

-- +goose Down

-- What only the newer schema can hold is lost: keys whose answers are kept as a digest, and those of requests that begin no saga.
ALTER TABLE idempotency_keys ADD COLUMN response_headers jsonb, ADD COLUMN response_body bytea,
    DROP CONSTRAINT idempotency_keys_answered_or_locked;
UPDATE idempotency_keys k SET response_headers = a.headers, response_body = a.body
FROM idempotency_answers a
WHERE a.account_id = k.account_id AND a.expires_on = k.answer_on AND a.id = k.answer_id AND k.saga_key IS NOT NULL;
DELETE FROM idempotency_keys WHERE saga_key IS NULL OR (status <> 'PROCESSING' AND response_body IS NULL);
DROP INDEX idempotency_keys_by_expiry;
ALTER TABLE idempotency_keys DROP COLUMN answer_on, DROP COLUMN answer_id,
    ADD CONSTRAINT idempotency_keys_answered_or_locked CHECK (
        (status = 'PROCESSING' AND response_status IS NULL AND response_body IS NULL AND locked_until IS NOT NULL)
        OR (status <> 'PROCESSING' AND response_status IS NOT NULL AND response_body IS NOT NULL
            AND completed_at IS NOT NULL AND locked_until IS NULL));
DROP TABLE key_limits;
DROP TABLE idempotency_answers;
DROP FUNCTION paysaga_make_answers(date);
