package postgres

import (
	"context"
	"fmt"
)

// PutSummary writes the event of a day, in UTC, for each account: once, whoever else does at the same moment.
func (s *Store) PutSummary(ctx context.Context) (accounts int, err error) {
	tag, err := s.pool.Exec(ctx, `
		WITH today AS (SELECT to_char(now() AT TIME ZONE 'UTC', 'YYYY-MM-DD') AS day
		), missing AS (
			SELECT a.id FROM accounts a, today WHERE NOT EXISTS (SELECT FROM outbox_events e
				WHERE e.account_id = a.id AND e.data ->> 'day' = today.day AND e.type = 'reconciliation.summary')
		), open AS (
			SELECT f.account_id, f.kind, f.severity, f.currency, f.at_stake, f.created_at FROM findings f JOIN missing ON missing.id = f.account_id
			WHERE f.resolved_at IS NULL AND (f.ignored_until IS NULL OR f.ignored_until <= now()))
		INSERT INTO outbox_events (account_id, type, data)
		SELECT missing.id, 'reconciliation.summary', jsonb_build_object(
			'day', today.day,
			'open', (SELECT count(*) FROM open WHERE account_id = missing.id),
			'by_severity', (SELECT COALESCE(jsonb_object_agg(severity, n), '{}') FROM (
				SELECT severity, count(*) AS n FROM open WHERE account_id = missing.id GROUP BY severity) AS counted),
			'by_kind', (SELECT COALESCE(jsonb_object_agg(kind, n), '{}') FROM (
				SELECT kind, count(*) AS n FROM open WHERE account_id = missing.id GROUP BY kind) AS counted),
			'at_stake', (SELECT COALESCE(jsonb_object_agg(currency, n), '{}') FROM (
				SELECT currency, sum(at_stake) AS n FROM open WHERE account_id = missing.id AND currency <> '' GROUP BY currency) AS counted),
			'oldest_at', (SELECT min(created_at) FROM open WHERE account_id = missing.id),
			'opened', (SELECT count(*) FROM findings WHERE account_id = missing.id AND created_at > now() - interval '1 day'),
			'resolved', (SELECT count(*) FROM findings WHERE account_id = missing.id AND resolved_at > now() - interval '1 day'))
		FROM missing, today
		ON CONFLICT DO NOTHING`)
	if err != nil {
		return 0, fmt.Errorf("write the day's summary: %w", mapError(err))
	}
	return int(tag.RowsAffected()), nil
}
