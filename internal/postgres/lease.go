package postgres

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/jackc/pgx/v5"

	"paysaga/saga"
)

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
	return s.loadHeld(ctx, ref, fence+1)
}

// loadHeld reads a saga whose lease was just taken. Whoever stood still for longer than the lease since then finds the fence of another
// holder in the row, and must not take it for its own. Errors: saga.ErrLeaseLost.
func (s *Store) loadHeld(ctx context.Context, ref saga.Ref, fence int64) (saga.Saga, error) {
	held, err := s.Load(ctx, ref)
	if err == nil && held.Lease.Fence != fence {
		return saga.Saga{}, saga.ErrLeaseLost
	}
	return held, err
}

// Seize is a compare-and-swap on the fencing number of a lease that nobody holds. What has ended stays without a next attempt.
func (s *Store) Seize(ctx context.Context, ref saga.Ref, fence int64, lease time.Duration) (saga.Saga, error) {
	batch := &pgx.Batch{}
	batch.Queue(`
		WITH taken AS (
			UPDATE sagas SET lock_version = lock_version + 1, drives = drives + 1, unrecorded = unrecorded + 1,
				locked_until = now() + $4::interval, next_attempt_at = `+dueUnlessEnded+`
			WHERE account_id = $1 AND key = $2 AND lock_version = $3 AND locked_until <= now()
			RETURNING account_id, key, lock_version, locked_until
		), locked AS (`+mirrorLease+`)
		SELECT paysaga_require(count(*) = 1, '`+ruleLease+`') FROM taken`,
		ref.AccountID, ref.Key, fence, lease)
	if err := s.send(ctx, batch); err != nil {
		return saga.Saga{}, err
	}
	return s.loadHeld(ctx, ref, fence+1)
}

// dueUnlessEnded is when a saga with a lease of $4 from now is due: once that has run out, unless it had no next attempt.
const dueUnlessEnded = `CASE WHEN next_attempt_at IS NOT NULL THEN now() + $4::interval END`

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
		SELECT account_id, key, lock_version FROM taken`, limit, lease)
	if err != nil {
		return nil, fmt.Errorf("claim due sagas: %w", mapError(err))
	}
	var refs []saga.Ref
	var ref saga.Ref
	var fence int64
	fences := map[saga.Ref]int64{}
	_, err = pgx.ForEachRow(rows, []any{&ref.AccountID, &ref.Key, &fence}, func() error {
		refs, fences[ref] = append(refs, ref), fence
		return nil
	})
	if err != nil {
		return nil, fmt.Errorf("claim due sagas: %w", mapError(err))
	}
	if len(refs) == 0 {
		return nil, nil
	}
	sagas, err := s.loadAll(ctx, refs)
	if err != nil {
		sagas, err = s.loadEach(ctx, refs)
	}
	return slices.DeleteFunc(sagas, func(g saga.Saga) bool { // another holder's, as in loadHeld
		return g.Lease.Fence != fences[saga.Ref{AccountID: g.AccountID, Key: g.Key}]
	}), err
}

// loadEach reads sagas one by one, so that one that cannot be read does not keep the others from being driven.
func (s *Store) loadEach(ctx context.Context, refs []saga.Ref) ([]saga.Saga, error) {
	var readable []saga.Saga
	var errs []error
	for _, ref := range refs {
		one, err := s.loadAll(ctx, []saga.Ref{ref})
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
			UPDATE sagas SET locked_until = now() + $4::interval, next_attempt_at = `+dueUnlessEnded+`
			WHERE account_id = $1 AND key = $2 AND lock_version = $3
			RETURNING account_id, key, lock_version, locked_until
		), locked AS (`+mirrorLease+`)
		SELECT paysaga_require(count(*) = 1, '`+ruleLease+`') FROM taken`,
		ref.AccountID, ref.Key, fence, lease)
	return s.send(ctx, batch)
}
