-- What people decide about sagas, and steps of a deployment's own.

-- +goose Up
ALTER TABLE audit_log
    ADD COLUMN reason           text    NOT NULL DEFAULT '' CONSTRAINT audit_log_reason CHECK (length(reason) <= 1000), -- in the person's words
    ADD COLUMN outside_provider boolean NOT NULL DEFAULT false; -- decided against what the provider tells
ALTER TABLE saga_steps
    DROP CONSTRAINT saga_steps_name_check,
    ADD CONSTRAINT saga_steps_name_check CHECK (name ~ '^[a-z][a-z_]{1,22}$'); -- a deployment may have steps of its own
CREATE INDEX audit_log_of_subject ON audit_log (account_id, subject, id);
CREATE INDEX findings_newest ON findings (account_id, created_at DESC, id DESC);

-- +goose Down
-- Steps that the older schema has no name for are lost.
DELETE FROM saga_steps WHERE name NOT IN ('reserve', 'charge', 'continue', 'capture', 'confirm', 'release', 'void', 'refund');
ALTER TABLE saga_steps
    DROP CONSTRAINT saga_steps_name_check,
    ADD CONSTRAINT saga_steps_name_check CHECK
        (name IN ('reserve', 'charge', 'continue', 'capture', 'confirm', 'release', 'void', 'refund'));
DROP INDEX findings_newest;
DROP INDEX audit_log_of_subject;
ALTER TABLE audit_log DROP COLUMN reason, DROP COLUMN outside_provider;
