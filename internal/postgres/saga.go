package postgres

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"paysaga/saga"
)

var _ saga.Store = (*Store)(nil)

// Begin is the first of an order's two transactions.
func (s *Store) Begin(ctx context.Context, claim saga.Claim, change saga.Change, lease time.Duration) (saga.Saga, error) {
	after := change.After
	batch := &pgx.Batch{}
	queueClaim(batch, claim, after.Key, lease)
	var begun time.Time
	queueOrder(batch, &after, &begun)
	batch.Queue(`
		INSERT INTO sagas (account_id, key, order_id, generation, state, next_attempt_at, locked_until)
		VALUES ($1, $2, $3, $4, $5, CASE WHEN $6 THEN NULL ELSE now() + $7::interval END, now() + $7::interval)`,
		after.AccountID, after.Key, after.Order.ID, after.Generation, after.State, after.State.Ended(), lease)
	queueSteps(batch, &after, change.Steps)
	if err := s.queueRest(batch, &after, change); err != nil {
		return saga.Saga{}, err
	}
	queueStock(batch, &after, change.Stock) // last: its rows are the ones that other orders wait for
	if err := s.send(ctx, batch); err != nil {
		return saga.Saga{}, s.explain(ctx, err, change)
	}
	after.Lease = saga.Lease{Fence: 1, Until: begun.Add(lease)}
	after.Drives, after.Unrecorded = 1, 1
	after.CreatedAt, after.Order.CreatedAt, after.Order.UpdatedAt = begun, begun, begun
	return stamp(after, change, begun), nil
}

// Apply is the second transaction, and every later one.
func (s *Store) Apply(ctx context.Context, change saga.Change) (saga.Saga, error) {
	after := change.After
	batch := &pgx.Batch{}
	var written time.Time
	batch.Queue(`
		WITH taken AS (
			UPDATE sagas SET state = $5, failures = $6, deadline_at = $7, unrecorded = 0, updated_at = now(),
				locked_until = CASE WHEN $8 THEN now() ELSE GREATEST(locked_until, now() + $11::interval) END,
				next_attempt_at = CASE WHEN $9 THEN NULL WHEN $8 THEN now() + $10::interval
					ELSE GREATEST(locked_until, now() + $11::interval) END
			WHERE account_id = $1 AND key = $2 AND lock_version = $3 AND state = $4
			RETURNING account_id, key, lock_version, locked_until
		), locked AS (`+mirrorLease+` AND NOT $8)
		SELECT paysaga_require(count(*) = 1, '`+ruleLease+`'), now() FROM taken`,
		after.AccountID, after.Key, after.Lease.Fence, change.From, after.State, after.Failures, nullTime(after.DeadlineAt),
		change.Release, after.State.Ended(), change.Pause, change.Lease,
	).QueryRow(func(row pgx.Row) error {
		return row.Scan(nil, &written)
	})
	if err := s.queueOrderUpdate(batch, &after); err != nil {
		return saga.Saga{}, err
	}
	queueSteps(batch, &after, change.Steps)
	if err := s.queueRest(batch, &after, change); err != nil {
		return saga.Saga{}, err
	}
	queueStock(batch, &after, change.Stock)
	if err := s.send(ctx, batch); err != nil {
		return saga.Saga{}, s.explain(ctx, err, change)
	}
	after.Unrecorded = 0
	return stamp(after, change, written), nil
}

// stamp gives the saga the times that the database gave its rows.
func stamp(after saga.Saga, change saga.Change, now time.Time) saga.Saga {
	after.ReadAt, after.UpdatedAt = now, now
	after.Answered = after.Answered || change.Answer != nil
	for i := range after.Steps {
		step := &after.Steps[i]
		if step.StartedAt.IsZero() {
			step.StartedAt = now
		}
		if finished(*step) && step.FinishedAt.IsZero() {
			step.FinishedAt = now
		}
	}
	return after
}

func finished(step saga.Step) bool {
	return step.Status != saga.StepPending && step.Status != saga.StepUnknown
}

// queueSteps writes new steps and what became of earlier ones, all in one statement.
func queueSteps(batch *pgx.Batch, after *saga.Saga, steps []saga.Step) {
	if len(steps) == 0 {
		return
	}
	columns := make([][]any, 11)
	for _, step := range steps {
		for i, value := range []any{
			step.Name, step.Attempt, step.SubKey, step.Status, step.Provider, step.ProviderReference, step.Outcome,
			step.Code, step.Detail, step.Sends, nullTime(step.SentAt),
		} {
			columns[i] = append(columns[i], value)
		}
	}
	arguments := []any{after.AccountID, after.Key}
	for _, column := range columns {
		arguments = append(arguments, column)
	}
	batch.Queue(`
		INSERT INTO saga_steps AS s (account_id, saga_key, name, attempt, sub_key, status, provider, provider_reference,
			outcome, code, detail, sends, sent_at, finished_at)
		SELECT $1, $2, n.name, n.attempt, n.sub_key, n.status, n.provider, n.provider_reference, n.outcome, n.code, n.detail,
			n.sends, n.sent_at, CASE WHEN n.status NOT IN ('pending', 'unknown') THEN now() END
		FROM unnest($3::text[], $4::int[], $5::text[], $6::text[], $7::text[], $8::text[], $9::text[], $10::text[],
			$11::text[], $12::int[], $13::timestamptz[])
			AS n (name, attempt, sub_key, status, provider, provider_reference, outcome, code, detail, sends, sent_at)
		ON CONFLICT (account_id, saga_key, name, attempt) DO UPDATE SET status = EXCLUDED.status,
			provider_reference = EXCLUDED.provider_reference, outcome = EXCLUDED.outcome, code = EXCLUDED.code,
			detail = EXCLUDED.detail, sends = EXCLUDED.sends, sent_at = EXCLUDED.sent_at,
			finished_at = COALESCE(s.finished_at, EXCLUDED.finished_at)`,
		arguments...)
}

// queueRest writes what a change may carry beside the saga itself: the answer, a finding, an event.
func (s *Store) queueRest(batch *pgx.Batch, after *saga.Saga, change saga.Change) error {
	if change.Answer != nil {
		if err := s.queueAnswer(batch, after, *change.Answer); err != nil {
			return err
		}
	}
	if finding := change.Finding; finding != nil {
		batch.Queue(`
			INSERT INTO findings (account_id, saga_key, order_id, kind, detail) VALUES ($1, $2, $3, $4, $5)
			ON CONFLICT (account_id, saga_key, kind) WHERE resolved_at IS NULL DO UPDATE SET detail = EXCLUDED.detail`,
			after.AccountID, after.Key, after.Order.ID, finding.Kind, finding.Detail)
	}
	if change.Event != "" {
		batch.Queue(`INSERT INTO outbox_events (account_id, order_id, type) VALUES ($1, $2, $3)`,
			after.AccountID, after.Order.ID, change.Event)
	}
	return nil
}

// mirrorLease copies the lease of the sagas in "taken" to their keys, where a repeat of the request looks for it.
const mirrorLease = `
	UPDATE idempotency_keys k SET lock_version = t.lock_version, locked_until = t.locked_until FROM taken t
	WHERE k.account_id = t.account_id AND k.saga_key = t.key AND k.status = 'PROCESSING'`

// TakeOver is a compare-and-swap on the fencing number of a lease that has run out.
func (s *Store) TakeOver(ctx context.Context, ref saga.Ref, fence int64, lease time.Duration) (saga.Saga, error) {
	batch := &pgx.Batch{}
	batch.Queue(`
		WITH taken AS (
			UPDATE sagas SET lock_version = lock_version + 1, drives = drives + 1, unrecorded = unrecorded + 1,
				locked_until = now() + $4::interval, next_attempt_at = now() + $4::interval
			WHERE account_id = $1 AND key = $2 AND lock_version = $3 AND locked_until <= now() AND next_attempt_at IS NOT NULL
			RETURNING account_id, key, lock_version, locked_until
		), locked AS (`+mirrorLease+`)
		SELECT paysaga_require(count(*) = 1, '`+ruleLease+`') FROM taken`,
		ref.AccountID, ref.Key, fence, lease)
	if err := s.send(ctx, batch); err != nil {
		return saga.Saga{}, err
	}
	sagas, err := s.load(ctx, []saga.Ref{ref})
	if err != nil {
		return saga.Saga{}, err
	}
	return sagas[0], nil
}

// ClaimDue hands out due sagas. Rows that another process is claiming at this moment are skipped, not waited for.
func (s *Store) ClaimDue(ctx context.Context, limit int, lease time.Duration) ([]saga.Saga, error) {
	rows, err := s.pool.Query(ctx, `
		WITH due AS (
			SELECT account_id, key FROM sagas
			WHERE next_attempt_at <= now() AND locked_until <= now()
			ORDER BY next_attempt_at LIMIT $1 FOR UPDATE SKIP LOCKED
		), taken AS (
			UPDATE sagas s SET lock_version = s.lock_version + 1, drives = s.drives + 1, unrecorded = s.unrecorded + 1,
				locked_until = now() + $2::interval, next_attempt_at = now() + $2::interval
			FROM due WHERE s.account_id = due.account_id AND s.key = due.key
			RETURNING s.account_id, s.key, s.lock_version, s.locked_until
		), locked AS (`+mirrorLease+`)
		SELECT account_id, key FROM taken`, limit, lease)
	if err != nil {
		return nil, fmt.Errorf("claim due sagas: %w", mapError(err))
	}
	refs, err := pgx.CollectRows(rows, pgx.RowToStructByPos[saga.Ref])
	if err != nil {
		return nil, fmt.Errorf("claim due sagas: %w", mapError(err))
	}
	if len(refs) == 0 {
		return nil, nil
	}
	sagas, err := s.load(ctx, refs)
	if err != nil {
		return s.loadEach(ctx, refs)
	}
	return sagas, nil
}

// loadEach reads sagas one by one, so that one that cannot be read does not keep the others from being driven.
func (s *Store) loadEach(ctx context.Context, refs []saga.Ref) ([]saga.Saga, error) {
	var readable []saga.Saga
	var errs []error
	for _, ref := range refs {
		one, err := s.load(ctx, []saga.Ref{ref})
		if err != nil {
			errs = append(errs, fmt.Errorf("saga %s: %w", ref.Key, err))
			continue
		}
		readable = append(readable, one...)
	}
	return readable, errors.Join(errs...)
}

// Renew prolongs the lease on the saga and on its key.
func (s *Store) Renew(ctx context.Context, ref saga.Ref, fence int64, lease time.Duration) error {
	return s.setLease(ctx, ref, fence, lease)
}

// HandBack ends the lease now.
func (s *Store) HandBack(ctx context.Context, ref saga.Ref, fence int64) error {
	return s.setLease(ctx, ref, fence, 0)
}

func (s *Store) setLease(ctx context.Context, ref saga.Ref, fence int64, lease time.Duration) error {
	batch := &pgx.Batch{}
	batch.Queue(`
		WITH taken AS (
			UPDATE sagas SET locked_until = now() + $4::interval, next_attempt_at = now() + $4::interval
			WHERE account_id = $1 AND key = $2 AND lock_version = $3 AND next_attempt_at IS NOT NULL
			RETURNING account_id, key, lock_version, locked_until
		), locked AS (`+mirrorLease+`)
		SELECT paysaga_require(count(*) = 1, '`+ruleLease+`') FROM taken`,
		ref.AccountID, ref.Key, fence, lease)
	return s.send(ctx, batch)
}

// explain turns "out of stock" and "unknown SKU" into errors that name the line. It reads after the transaction was
// undone, so the numbers are those of a moment later. Only a reservation can meet either: the same rule broken by a sale or
// a release is a fault in the books, and stays the plain error that it is.
func (s *Store) explain(ctx context.Context, err error, change saga.Change) error {
	account, items := change.After.AccountID, change.After.Order.Items
	switch {
	case change.Stock != saga.StockReserve:
		return err
	case errors.Is(err, errOutOfStock):
		return s.shortage(ctx, account, items)
	case errors.Is(err, errUnknownSKU):
		return s.missing(ctx, account, items)
	}
	return err
}

// nullTime is a time, or NULL for the zero time.
func nullTime(t time.Time) *time.Time {
	if t.IsZero() {
		return nil
	}
	return &t
}

// Timeline reads the saga of an order. Errors: saga.ErrNotFound.
func (s *Store) Timeline(ctx context.Context, account string, orderID uuid.UUID) (saga.Timeline, error) {
	sagas, err := s.load(ctx, []saga.Ref{{AccountID: account, Key: orderID}})
	if err != nil {
		return saga.Timeline{}, err
	}
	rows, err := s.pool.Query(ctx, `
		SELECT id, kind, detail, created_at FROM findings WHERE account_id = $1 AND saga_key = $2 AND resolved_at IS NULL
		ORDER BY created_at`, account, orderID)
	if err != nil {
		return saga.Timeline{}, fmt.Errorf("read findings: %w", mapError(err))
	}
	findings, err := pgx.CollectRows(rows, pgx.RowToStructByPos[saga.Finding])
	if err != nil {
		return saga.Timeline{}, fmt.Errorf("read findings: %w", mapError(err))
	}
	return saga.Timeline{Saga: sagas[0], Findings: findings}, nil
}
