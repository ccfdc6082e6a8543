package postgres

import (
	"context"
	"errors"
	"fmt"
	"regexp"
	"slices"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"paysaga/internal/upkeep"
)

// upkeepLock is the advisory lock of the database behind which upkeep is done, by one process at a time.
const upkeepLock = `hashtext('paysaga_upkeep')`

// MakePartitions makes one for each week that has none. They are made in one transaction, which only other upkeep waits for.
func (s *Store) MakePartitions(ctx context.Context, ahead time.Duration) (made int, err error) {
	batch := upkeepBatch(shortWait)
	batch.Queue(`
		SELECT count(*) FILTER (WHERE paysaga_make_answers(day::date))
		FROM generate_series(date_trunc('week', now() AT TIME ZONE 'UTC'), (now() + $1::interval) AT TIME ZONE 'UTC', '7 days') AS day`,
		ahead,
	).QueryRow(func(row pgx.Row) error { return row.Scan(&made) })
	return made, s.sendUpkeep(ctx, batch)
}

// ListPartitions reads all of them from the catalog, those that were detached and not dropped included.
func (s *Store) ListPartitions(ctx context.Context) (upkeep.Partitions, error) {
	connection, err := s.pool.Acquire(ctx)
	if err != nil {
		return upkeep.Partitions{}, fmt.Errorf("list partitions: %w", err)
	}
	defer connection.Release()
	return listPartitions(ctx, connection.Conn())
}

func listPartitions(ctx context.Context, connection *pgx.Conn) (upkeep.Partitions, error) {
	var all upkeep.Partitions
	rows, err := connection.Query(ctx, `
		SELECT (now() AT TIME ZONE 'UTC')::date, c.relname, bounds[1]::date, bounds[2]::date,
			CASE WHEN i.inhrelid IS NULL THEN 'detached' WHEN i.inhdetachpending THEN 'detaching' ELSE 'attached' END, `+
		rowsOfTable+`, COALESCE(pg_total_relation_size(c.oid), 0) -- of a table that is being dropped
		FROM pg_class c
		LEFT JOIN pg_inherits i ON i.inhrelid = c.oid AND i.inhparent = 'idempotency_answers'::regclass
		LEFT JOIN pg_stat_all_tables t ON t.relid = c.oid
		LEFT JOIN LATERAL regexp_match(pg_get_expr(c.relpartbound, c.oid), 'FROM \(''(.+)''\) TO \(''(.+)''\)') AS bounds ON true
		WHERE c.relkind = 'r' AND (i.inhrelid IS NOT NULL OR NOT c.relispartition AND c.relname ~ '^idempotency_answers_[0-9]{8}$')
			AND c.relnamespace = (SELECT relnamespace FROM pg_class WHERE oid = 'idempotency_answers'::regclass)`)
	if err != nil {
		return all, fmt.Errorf("list partitions: %w", mapError(err))
	}
	var p upkeep.Partition
	var from, to *time.Time
	_, err = pgx.ForEachRow(rows, []any{&all.Today, &p.Name, &from, &to, &p.Attachment, &p.Rows, &p.Bytes}, func() error {
		p.From, p.To = value(from), value(to)
		if p.Attachment == upkeep.Detached {
			p.From, p.To = weekOf(p.Name)
		}
		if !p.To.IsZero() { // else it is a table that somebody made for another purpose
			all.List = append(all.List, p)
		}
		return nil
	})
	if err != nil {
		return all, fmt.Errorf("list partitions: %w", mapError(err))
	}
	slices.SortFunc(all.List, func(a, b upkeep.Partition) int { return a.From.Compare(b.From) })
	return all, nil
}

// rowsOfTable estimates the rows of a table without reading them: by what was counted since the server began to, or since the table
// was analyzed last.
const rowsOfTable = `CASE WHEN t.n_live_tup > 0 THEN t.n_live_tup ELSE GREATEST(c.reltuples, 0)::bigint END`

var partitionName = regexp.MustCompile(`^idempotency_answers_(\d{8})$`)

// weekOf reads the week of a table that is no partition any more from its name. The zero time: it is no name of ours.
func weekOf(name string) (from, to time.Time) {
	found := partitionName.FindStringSubmatch(name)
	if found == nil {
		return time.Time{}, time.Time{}
	}
	from, err := time.Parse("20060102", found[1])
	if err != nil {
		return time.Time{}, time.Time{}
	}
	const daysAWeek = 7
	return from, from.AddDate(0, 0, daysAWeek)
}

// KeepAnswers moves an answer and its key's pointer in one statement: whoever reads sees both at the old place or both at the new. It
// deletes and inserts, as an update that changes a row's partition is an error for whoever waits for the row.
func (s *Store) KeepAnswers(ctx context.Context, p upkeep.Partition, ahead time.Duration, limit int) (moved int, err error) {
	batch := upkeepBatch(longScan)
	batch.Queue(`
		WITH open AS (
			SELECT k.account_id, k.endpoint, k.key, k.answer_on, k.answer_id FROM idempotency_keys k
			WHERE k.answer_on >= $1 AND k.answer_on < $2 AND NOT `+windowOver+`
			LIMIT $3 FOR UPDATE OF k SKIP LOCKED
		), taken AS (
			DELETE FROM idempotency_answers a USING open o
			WHERE a.account_id = o.account_id AND a.expires_on = o.answer_on AND a.id = o.answer_id
			RETURNING a.account_id, a.expires_on, a.id, a.headers, a.body, a.digest
		), kept AS (
			INSERT INTO idempotency_answers (account_id, expires_on, id, headers, body, digest)
			SELECT account_id, ((now() + $4::interval) AT TIME ZONE 'UTC')::date, id, headers, body, digest FROM taken
			RETURNING account_id, expires_on, id
		), pointed AS (
			UPDATE idempotency_keys k SET answer_on = kept.expires_on
			FROM open o JOIN kept ON kept.account_id = o.account_id AND kept.id = o.answer_id
			WHERE k.account_id = o.account_id AND k.endpoint = o.endpoint AND k.key = o.key RETURNING 1)
		SELECT count(*) FROM pointed`,
		p.From, p.To, limit, ahead,
	).QueryRow(func(row pgx.Row) error { return row.Scan(&moved) })
	return moved, s.sendUpkeep(ctx, batch)
}

// DropPartition detaches a partition so that nobody waits for it, and drops it when it is nobody's any more. What an earlier call left
// in the middle it finishes. It works on a connection of its own, as such a detachment cannot be a part of a transaction.
// Errors: *upkeep.InUseError, upkeep.ErrHeld, upkeep.ErrBusy.
func (s *Store) DropPartition(ctx context.Context, p upkeep.Partition) error {
	connection, err := pgx.ConnectConfig(ctx, s.pool.Config().ConnConfig)
	if err != nil {
		return fmt.Errorf("connect to drop a partition: %w", err)
	}
	defer func() {
		closing, cancel := context.WithTimeout(context.WithoutCancel(ctx), connectTimeout)
		defer cancel()
		_, _ = connection.Exec(closing, `SELECT pg_advisory_unlock_all()`) // at once: a closed connection's server process takes a moment
		_ = connection.Close(closing)
	}()
	var alone bool
	err = connection.QueryRow(ctx, `
		SELECT pg_try_advisory_lock(`+upkeepLock+`), set_config('lock_timeout', '`+shortWait+`', false),
			set_config('statement_timeout', '`+longScan+`', false),
			set_config('idle_session_timeout', '`+longScan+`', false) -- a process that was stopped does not keep the lock`,
	).Scan(&alone, nil, nil, nil)
	if err != nil {
		return fmt.Errorf("begin to drop a partition: %w", mapError(err))
	}
	if !alone {
		return upkeep.ErrBusy
	}
	all, err := listPartitions(ctx, connection) // once more, now that nobody else changes it
	if err != nil {
		return err
	}
	for _, now := range all.Over() {
		if now.Name == p.Name {
			return heldError(ctx, dropPartition(ctx, connection, now))
		}
	}
	return nil // somebody else dropped it
}

func dropPartition(ctx context.Context, connection *pgx.Conn, p upkeep.Partition) error {
	name := pgx.Identifier{p.Name}.Sanitize()
	if p.Attachment == upkeep.Detaching {
		if _, err := connection.Exec(ctx, `ALTER TABLE idempotency_answers DETACH PARTITION `+name+` FINALIZE`); err != nil {
			return fmt.Errorf("finish to detach %s: %w", p.Name, err)
		}
	}
	keys, err := countNeeding(ctx, connection, p)
	if err != nil {
		return err
	}
	if keys > 0 {
		return &upkeep.InUseError{Keys: keys}
	}
	if p.Attachment == upkeep.Attached {
		if _, err := connection.Exec(ctx, `ALTER TABLE idempotency_answers DETACH PARTITION `+name+` CONCURRENTLY`); err != nil {
			return fmt.Errorf("detach %s: %w", p.Name, err)
		}
	}
	if _, err := connection.Exec(ctx, `DROP TABLE `+name); err != nil {
		return fmt.Errorf("drop %s: %w", p.Name, err)
	}
	return nil
}

// countNeeding counts the keys for which a partition must stay: those whose answer there may still be asked for, and those whose
// answer will be written there. It counts to a bound: one is enough to refuse.
func countNeeding(ctx context.Context, connection *pgx.Conn, p upkeep.Partition) (keys int, err error) {
	err = connection.QueryRow(ctx, `
		SELECT count(*) FROM ((
			SELECT FROM idempotency_keys k
			WHERE k.answer_on >= $1 AND k.answer_on < $2 AND NOT `+windowOver+` AND (NOT $3 OR EXISTS (SELECT FROM idempotency_answers a
				WHERE a.account_id = k.account_id AND a.expires_on = k.answer_on AND a.id = k.answer_id))
		) UNION ALL (
			SELECT FROM idempotency_keys k
			WHERE $3 AND k.status = 'PROCESSING' AND (k.expires_at AT TIME ZONE 'UTC')::date >= $1
				AND (k.expires_at AT TIME ZONE 'UTC')::date < $2
		) LIMIT 1000) AS needing`, p.From, p.To, p.Attachment == upkeep.Attached,
	).Scan(&keys)
	if err != nil {
		return 0, fmt.Errorf("see who needs %s: %w", p.Name, mapError(err))
	}
	return keys, nil
}

// heldError names what a table's lock, or an old transaction, kept from being done in time.
func heldError(ctx context.Context, err error) error {
	pg, ok := errors.AsType[*pgconn.PgError](err)
	if !ok || ctx.Err() != nil {
		return err
	}
	const (
		lockNotAvailable = "55P03"
		queryCanceled    = "57014" // by statement_timeout, as the context goes on
		notInThatState   = "55000" // another partition's detachment waits for an old transaction
	)
	if pg.Code == lockNotAvailable || pg.Code == queryCanceled || pg.Code == notInThatState {
		return upkeep.ErrHeld
	}
	return fmt.Errorf("drop partition: %w", mapError(err))
}
