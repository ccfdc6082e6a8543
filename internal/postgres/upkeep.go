package postgres

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"paysaga/internal/upkeep"
)

var _ upkeep.Store = (*Store)(nil)

// How long upkeep waits, as PostgreSQL writes it.
const (
	// shortWait is for a lock on a table. Those that upkeep takes let requests pass, also while it waits; only other maintenance
	// would have to queue behind it.
	shortWait = "3s"
	// longScan is for a statement that may read all keys, as is due once a week.
	longScan = "10min"
)

const ruleUpkeep = "upkeep_busy"

// upkeepBatch begins a transaction of upkeep. The lock, like the time-outs, goes with the transaction: a process that dies or is stopped
// leaves nothing behind, as the transaction is one round trip.
func upkeepBatch(timeout string) *pgx.Batch {
	batch := &pgx.Batch{}
	batch.Queue(`SELECT paysaga_require(pg_try_advisory_xact_lock(`+upkeepLock+`), '`+ruleUpkeep+`'),
		set_config('lock_timeout', '`+shortWait+`', true), set_config('statement_timeout', $1, true)`, timeout)
	return batch
}

// sendUpkeep runs a batch that upkeepBatch began. Errors: upkeep.ErrBusy.
func (s *Store) sendUpkeep(ctx context.Context, batch *pgx.Batch) error {
	err := s.pool.SendBatch(ctx, batch).Close()
	if pg, ok := errors.AsType[*pgconn.PgError](err); ok && pg.Message == ruleUpkeep {
		return upkeep.ErrBusy
	}
	if err != nil {
		return mapError(err)
	}
	return nil
}

// deletable is a key that is past its window, whose saga has ended, and that nobody works on. One whose request began no saga, and was
// left without an answer by a process that died, is too once its lease is over: nobody has asked for it during its whole window.
const deletable = windowOver + ` AND (k.status <> 'PROCESSING' OR k.saga_key IS NULL AND k.locked_until <= now())`

// deleteExpired deletes one batch, oldest first. What others have locked at this moment is left to the next run.
const deleteExpired = `
	WITH old AS (
		SELECT k.account_id, k.endpoint, k.key FROM idempotency_keys k
		WHERE k.expires_at >= $1 AND ` + deletable + `
		ORDER BY k.expires_at LIMIT $2 FOR UPDATE OF k SKIP LOCKED
	), gone AS (
		DELETE FROM idempotency_keys k USING old
		WHERE k.account_id = old.account_id AND k.endpoint = old.endpoint AND k.key = old.key RETURNING k.expires_at)
	SELECT count(*), max(expires_at) FROM gone`

// DeleteExpiredKeys begins where the batch before ended, so that it does not pass over the rows which that has deleted once more. Of
// keys that are in use, and of open sagas, nothing is deleted.
func (s *Store) DeleteExpiredKeys(ctx context.Context, from time.Time, limit int) (deleted int, last time.Time, err error) {
	batch := upkeepBatch(statementTimeout)
	var newest *time.Time
	batch.Queue(deleteExpired, from, limit).QueryRow(func(row pgx.Row) error { return row.Scan(&deleted, &newest) })
	if err := s.sendUpkeep(ctx, batch); err != nil {
		return 0, time.Time{}, err
	}
	return deleted, value(newest), nil
}

// CountExpiredKeys counts what may be deleted, up to a limit.
func (s *Store) CountExpiredKeys(ctx context.Context, limit int) (keys int, err error) {
	err = s.pool.QueryRow(ctx, `SELECT count(*) FROM (SELECT FROM idempotency_keys k WHERE `+deletable+` LIMIT $1) AS old`, limit).Scan(&keys)
	if err != nil {
		return 0, fmt.Errorf("count expired keys: %w", mapError(err))
	}
	return keys, nil
}

// DeleteLimits deletes rows that count for nothing any more: an account without one stands as one whose keys are long past.
func (s *Store) DeleteLimits(ctx context.Context, ago time.Duration, limit int) (deleted int, err error) {
	batch := upkeepBatch(statementTimeout)
	batch.Queue(`
		WITH past AS (
			SELECT account_id FROM key_limits WHERE spent_until < now() - $1::interval LIMIT $2 FOR UPDATE SKIP LOCKED
		), gone AS (
			DELETE FROM key_limits l USING past WHERE l.account_id = past.account_id RETURNING 1)
		SELECT count(*) FROM gone`, ago, limit,
	).QueryRow(func(row pgx.Row) error { return row.Scan(&deleted) })
	return deleted, s.sendUpkeep(ctx, batch)
}

// ReadFigures takes the rows from the statistics, and counts what is open by the indexes that have nothing else.
func (s *Store) ReadFigures(ctx context.Context) (upkeep.Figures, error) {
	figures := upkeep.Figures{Rows: map[string]int64{}, OpenSagas: map[string]int64{}}
	batch := &pgx.Batch{}
	batch.Queue(`
		SELECT COALESCE(i.inhparent::regclass, c.oid::regclass)::text, sum(` + rowsOfTable + `)::bigint
		FROM pg_class c
		LEFT JOIN pg_inherits i ON i.inhrelid = c.oid
		LEFT JOIN pg_stat_all_tables t ON t.relid = c.oid
		WHERE c.oid IN ('idempotency_keys'::regclass, 'key_limits'::regclass) OR i.inhparent = 'idempotency_answers'::regclass
		GROUP BY 1`,
	).Query(intoCounts(figures.Rows))
	batch.Queue(`
		SELECT state, sum(sagas)::bigint FROM (
			SELECT unnest(ARRAY['charging', 'awaiting', 'compensating', 'refunding', 'needs_review']) AS state, 0 AS sagas
			UNION ALL SELECT state, count(*) FROM sagas WHERE next_attempt_at IS NOT NULL GROUP BY state
			UNION ALL SELECT s.state, count(DISTINCT (s.account_id, s.key)) -- one in review has a finding that is open
				FROM findings f JOIN sagas s ON s.account_id = f.account_id AND s.key = f.saga_key
				WHERE f.resolved_at IS NULL AND s.state = 'needs_review' GROUP BY s.state) AS open
		GROUP BY state`,
	).Query(intoCounts(figures.OpenSagas))
	batch.Queue(`SELECT count(*) FROM idempotency_keys WHERE status = 'PROCESSING' AND locked_until < now() - $1::interval`,
		upkeep.OverdueAfter,
	).QueryRow(func(row pgx.Row) error { return row.Scan(&figures.Overdue) })
	if err := s.send(ctx, batch); err != nil {
		return upkeep.Figures{}, fmt.Errorf("read the tables' figures: %w", err)
	}
	return figures, nil
}

func intoCounts(counts map[string]int64) func(pgx.Rows) error {
	return func(rows pgx.Rows) error {
		var name string
		var count int64
		_, err := pgx.ForEachRow(rows, []any{&name, &count}, func() error {
			counts[name] = count
			return nil
		})
		return err //nolint:wrapcheck // wrapped by send's caller
	}
}
