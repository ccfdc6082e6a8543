-- What people decide about sagas, and steps of a deployment's own.

-- +goose Up
ALTER TABLE audit_log
    ADD COLUMN reason           text    NOT NULL DEFAULT '' CONSTRAINT audit_log_reason CHECK (length(reason) <= 1000), -- in the person's words
    ADD COLUMN outside_provider boolean NOT NULL DEFAULT false; -- decided against what the provider tells
CREATE INDEX audit_log_of_subject ON audit_log (account_id, subject, id);

-- +goose Down
DROP INDEX audit_log_of_subject;
ALTER TABLE audit_log DROP COLUMN reason, DROP COLUMN outside_provider;
