package postgres

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"paysaga/internal/idempotency"
	"paysaga/reconcile"
	"paysaga/saga"
)

var _ reconcile.Store = (*Store)(nil)

const (
	// resumable is how old the last progress of a run may be for it to be taken up again, as PostgreSQL writes it: what its lists told is
	// of yesterday then.
	resumable = `interval '1 day'`
	// maxRequested bounds the runs that wait for a server. Each does the work of all before it.
	maxRequested = 10
)

// runColumns are the columns of a run, in the order in which scanRun scans them.
const runColumns = `
	id, mode, providers, COALESCE(statement_id, 0), COALESCE((SELECT f.name FROM settlement_files f WHERE f.id = statement_id), ''),
	since, until, requested_by, state, stage, cursor, totals, reason, created_at, finished_at`

func scanRun(row pgx.CollectableRow) (reconcile.Run, error) {
	var r reconcile.Run
	var since, until, finished *time.Time
	err := row.Scan(&r.ID, &r.Mode, &r.Providers, &r.StatementID, &r.File, &since, &until, &r.RequestedBy, &r.State, &r.Stage, &r.Cursor,
		&r.Totals, &r.Reason, &r.CreatedAt, &finished)
	if err != nil {
		return reconcile.Run{}, fmt.Errorf("scan run: %w", err)
	}
	r.Since, r.Until, r.FinishedAt = value(since), value(until), value(finished)
	return r, nil
}

// readRun reads the one run that a query of runColumns gives, or none.
func readRun(ctx context.Context, from querier, sql string, arguments ...any) (run reconcile.Run, ok bool, err error) {
	rows, err := from.Query(ctx, sql, arguments...)
	if err != nil {
		return reconcile.Run{}, false, err
	}
	run, err = pgx.CollectExactlyOneRow(rows, scanRun)
	if errors.Is(err, pgx.ErrNoRows) {
		return reconcile.Run{}, false, nil
	}
	return run, err == nil, err //nolint:wrapcheck // wrapped by the caller
}

// querier is the pool, or a transaction.
type querier interface {
	Query(ctx context.Context, sql string, arguments ...any) (pgx.Rows, error)
}

// Now is the database's clock.
func (s *Store) Now(ctx context.Context) (now time.Time, err error) {
	if err := s.pool.QueryRow(ctx, `SELECT now()`).Scan(&now); err != nil {
		return time.Time{}, fmt.Errorf("ask for the time: %w", mapError(err))
	}
	return now, nil
}

// BeginRun takes the lease of reconciliation for a run: a new one, one that was requested, or one that was left. Errors: reconcile.ErrBusy.
func (s *Store) BeginRun(ctx context.Context, run reconcile.Run, lease time.Duration) (begun reconcile.Run, err error) {
	err = pgx.BeginFunc(ctx, s.pool, func(tx pgx.Tx) error {
		if err := lockLease(ctx, tx); err != nil {
			return err
		}
		if begun, err = takeUp(ctx, tx, run); err != nil {
			return err
		}
		return tx.QueryRow(ctx, `
			UPDATE reconciliation_lease SET run_id = $1, fence = fence + 1, locked_until = now() + $2::interval RETURNING fence`,
			begun.ID, lease).Scan(&begun.Fence)
	})
	if err != nil {
		return reconcile.Run{}, fmt.Errorf("begin reconciliation: %w", mapError(err))
	}
	return begun, nil
}

// lockLease holds the lease's row until the transaction ends, if nobody holds the lease. Whoever holds the row is about to write under it.
func lockLease(ctx context.Context, tx pgx.Tx) error {
	var isHeld bool
	err := tx.QueryRow(ctx, `SELECT locked_until > now() FROM reconciliation_lease FOR UPDATE NOWAIT`).Scan(&isHeld)
	const lockNotAvailable = "55P03"
	if pg, ok := errors.AsType[*pgconn.PgError](err); ok && pg.Code == lockNotAvailable || err == nil && isHeld {
		return reconcile.ErrBusy
	}
	return err //nolint:wrapcheck // wrapped by the caller
}

// takeUp finds the run that is to go on, or writes a new one.
func takeUp(ctx context.Context, tx pgx.Tx, run reconcile.Run) (reconcile.Run, error) {
	_, err := tx.Exec(ctx, `
		UPDATE reconciliation_runs SET state = 'failed', finished_at = now(),
			reason = 'It was left by its process, and not taken up within a day.'
		WHERE finished_at IS NULL AND state = 'running' AND saved_at <= now() - `+resumable)
	if err != nil {
		return reconcile.Run{}, err //nolint:wrapcheck // wrapped by the caller
	}
	statementID := nullID(run.StatementID)
	left, ok, err := readRun(ctx, tx, `
		UPDATE reconciliation_runs SET state = 'running', saved_at = now() WHERE id = (
			SELECT id FROM reconciliation_runs
			WHERE finished_at IS NULL AND CASE WHEN $1::uuid IS NOT NULL THEN id = $1
				ELSE state = 'running' AND mode = $2 AND providers = $3 AND statement_id IS NOT DISTINCT FROM $4
					AND since IS NOT DISTINCT FROM $5 AND until IS NOT DISTINCT FROM $6 END
			ORDER BY created_at DESC LIMIT 1)
		RETURNING `+runColumns, nullUUID(run.ID), run.Mode, run.Providers, statementID, nullTime(run.Since), nullTime(run.Until))
	if err != nil || ok {
		return left, err
	}
	if run.ID != uuid.Nil {
		return reconcile.Run{}, fmt.Errorf("take up run %s: %w", run.ID, saga.ErrNotFound)
	}
	begun, _, err := readRun(ctx, tx, `
		INSERT INTO reconciliation_runs (mode, providers, statement_id, since, until, requested_by, state)
		VALUES ($1, $2, $3, $4, $5, $6, 'running') RETURNING `+runColumns,
		run.Mode, run.Providers, statementID, nullTime(run.Since), nullTime(run.Until), run.RequestedBy)
	return begun, err
}

// nullID is an id, or NULL for none.
func nullID(id int64) *int64 {
	if id == 0 {
		return nil
	}
	return &id
}

// NextRequested finds the oldest run that an operator asked for and nobody works on.
func (s *Store) NextRequested(ctx context.Context) (run reconcile.Run, ok bool, err error) {
	run, ok, err = readRun(ctx, s.pool, `
		SELECT `+runColumns+` FROM reconciliation_runs
		WHERE requested_at IS NOT NULL AND finished_at IS NULL AND (state = 'requested' OR saved_at > now() - `+resumable+`)
			AND NOT EXISTS (SELECT FROM reconciliation_lease WHERE run_id = id AND locked_until > now())
		ORDER BY created_at LIMIT 1`)
	if err != nil {
		return reconcile.Run{}, false, fmt.Errorf("find a requested reconciliation: %w", mapError(err))
	}
	return run, ok, nil
}

// LeftRun finds the newest run of a mode that somebody wanted, that a process left, and that nobody works on.
func (s *Store) LeftRun(ctx context.Context, requestedBy string, mode reconcile.Mode) (run reconcile.Run, ok bool, err error) {
	run, ok, err = readRun(ctx, s.pool, `
		SELECT `+runColumns+` FROM reconciliation_runs
		WHERE finished_at IS NULL AND state = 'running' AND requested_by = $1 AND mode = $2 AND statement_id IS NULL
			AND saved_at > now() - `+resumable+`
			AND NOT EXISTS (SELECT FROM reconciliation_lease WHERE run_id = id AND locked_until > now())
		ORDER BY created_at DESC LIMIT 1`, requestedBy, mode)
	if err != nil {
		return reconcile.Run{}, false, fmt.Errorf("find a reconciliation that was left: %w", mapError(err))
	}
	return run, ok, nil
}

// NewestRun is when the newest run began that somebody wanted.
func (s *Store) NewestRun(ctx context.Context, requestedBy string) (time.Time, error) {
	var newest *time.Time
	row := s.pool.QueryRow(ctx, `SELECT max(created_at) FROM reconciliation_runs WHERE requested_by = $1`, requestedBy)
	if err := row.Scan(&newest); err != nil {
		return time.Time{}, fmt.Errorf("find the newest reconciliation: %w", mapError(err))
	}
	return value(newest), nil
}

// SaveRun writes how far a run is, and prolongs its lease or gives it back. Errors: reconcile.ErrLeaseLost.
func (s *Store) SaveRun(ctx context.Context, run reconcile.Run, lease time.Duration) error {
	isOver := run.State != reconcile.RunRunning
	batch := &pgx.Batch{}
	batch.Queue(`
		WITH held AS (
			UPDATE reconciliation_lease SET locked_until = CASE WHEN $3 THEN now() ELSE now() + $4::interval END,
				scope_of = CASE WHEN $3 THEN NULL ELSE scope_of END, unclaimed_of = CASE WHEN $3 THEN NULL ELSE unclaimed_of END
			WHERE run_id = $1 AND fence = $2 RETURNING 1)
		SELECT paysaga_require(count(*) = 1, '`+ruleRun+`') FROM held`, run.ID, run.Fence, isOver, lease)
	batch.Queue(`
		UPDATE reconciliation_runs SET state = $2, stage = $3, cursor = $4, totals = $5, reason = $6, saved_at = now(),
			finished_at = CASE WHEN $7 THEN now() END
		WHERE id = $1`, run.ID, run.State, run.Stage, run.Cursor, run.Totals, clip(run.Reason), isOver)
	if isOver {
		batch.Queue(`TRUNCATE reconciliation_scope, reconciliation_unclaimed`)
	}
	if err := s.send(ctx, batch); err != nil {
		return fmt.Errorf("save reconciliation: %w", err)
	}
	return nil
}

// RenewRun prolongs a run's lease; for no time, it gives it back. Errors: reconcile.ErrLeaseLost.
func (s *Store) RenewRun(ctx context.Context, run reconcile.Run, lease time.Duration) error {
	renewed, err := s.pool.Exec(ctx, `
		UPDATE reconciliation_lease SET locked_until = now() + $3::interval WHERE run_id = $1 AND fence = $2`, run.ID, run.Fence, lease)
	switch {
	case err != nil:
		return fmt.Errorf("renew the lease of reconciliation: %w", mapError(err))
	case renewed.RowsAffected() == 0:
		return reconcile.ErrLeaseLost
	}
	return nil
}

// maxSentence bounds what is kept of a sentence for people, in characters, as the schema does.
const maxSentence = 1000

func clip(sentence string) string {
	if letters := []rune(sentence); len(letters) > maxSentence {
		return string(letters[:maxSentence])
	}
	return sentence
}

// queueRunFence lets a run write only while nobody has taken its lease, and keeps the lease from being taken until the write is committed.
func queueRunFence(batch *pgx.Batch, run reconcile.Run) {
	batch.Queue(`
		WITH held AS (SELECT 1 FROM reconciliation_lease WHERE run_id = $1 AND fence = $2 FOR SHARE)
		SELECT paysaga_require(count(*) = 1, '`+ruleRun+`') FROM held`, run.ID, run.Fence)
}

// RequestRun writes down that an operator wants a run, for a server to take up. With a held key, only while that is held; and with an
// answer to it as well, that is stored in the same transaction. Errors: reconcile.ErrBusy: enough runs wait; saga.ErrLeaseLost.
func (s *Store) RequestRun(
	ctx context.Context, account string, run reconcile.Run, held *idempotency.Held, answer func(reconcile.Run) (saga.Answer, error),
) (requested reconcile.Run, err error) {
	request := func(tx pgx.Tx) error {
		batch := &pgx.Batch{}
		queueFence(batch, held)
		batch.Queue(`
			INSERT INTO reconciliation_runs (mode, providers, since, until, requested_by, requested_at, state)
			SELECT $1, $2, $3, $4, $5, now(), 'requested'
			WHERE (SELECT count(*) FROM reconciliation_runs WHERE finished_at IS NULL AND state = 'requested') < $6
			RETURNING `+runColumns, run.Mode, run.Providers, nullTime(run.Since), nullTime(run.Until), run.RequestedBy, maxRequested,
		).Query(func(rows pgx.Rows) error {
			requested, err = pgx.CollectExactlyOneRow(rows, scanRun)
			return err //nolint:wrapcheck // mapped below
		})
		if err := tx.SendBatch(ctx, batch).Close(); errors.Is(err, pgx.ErrNoRows) {
			return reconcile.ErrBusy
		} else if err != nil {
			return err //nolint:wrapcheck // mapped below
		}
		batch = &pgx.Batch{}
		queueAudit(batch, account, run.RequestedBy, "reconciliation.requested", requested.ID.String())
		if held != nil && answer != nil {
			given, err := answer(requested)
			if err != nil {
				return err
			}
			if err := s.queueHeldAnswer(batch, *held, given); err != nil {
				return err
			}
		}
		return tx.SendBatch(ctx, batch).Close()
	}
	err = s.withAnswers(ctx, 0, func() error { return mapError(pgx.BeginFunc(ctx, s.pool, request)) })
	if err != nil {
		return reconcile.Run{}, fmt.Errorf("request reconciliation: %w", err)
	}
	if held != nil && answer != nil {
		held.Answered = true
	}
	return requested, nil
}

// ListRuns reads runs, newest first.
func (s *Store) ListRuns(ctx context.Context, filter reconcile.RunFilter) ([]reconcile.Run, error) {
	var createdAt *time.Time
	var id *uuid.UUID
	if filter.Before != nil {
		createdAt, id = &filter.Before.CreatedAt, &filter.Before.ID
	}
	rows, err := s.pool.Query(ctx, `
		SELECT `+runColumns+` FROM reconciliation_runs
		WHERE $1::timestamptz IS NULL OR (created_at, id) < ($1, $2::uuid)
		ORDER BY created_at DESC, id DESC LIMIT $3`, createdAt, id, filter.Limit)
	if err != nil {
		return nil, fmt.Errorf("list reconciliations: %w", mapError(err))
	}
	runs, err := pgx.CollectRows(rows, scanRun)
	if err != nil {
		return nil, fmt.Errorf("list reconciliations: %w", mapError(err))
	}
	return runs, nil
}

// GetRun reads one run. Errors: saga.ErrNotFound.
func (s *Store) GetRun(ctx context.Context, id uuid.UUID) (reconcile.Run, error) {
	run, ok, err := readRun(ctx, s.pool, `SELECT `+runColumns+` FROM reconciliation_runs WHERE id = $1`, id)
	switch {
	case err != nil:
		return reconcile.Run{}, fmt.Errorf("read reconciliation: %w", mapError(err))
	case !ok:
		return reconcile.Run{}, saga.ErrNotFound
	}
	return run, nil
}
