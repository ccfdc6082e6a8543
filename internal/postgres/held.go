package postgres

import (
	"context"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"

	"paysaga/internal/idempotency"
	"paysaga/saga"
)

// ClaimKey takes a key for a request that begins no saga, under a lease of its own. Errors: saga.ErrKeyTaken, *idempotency.LimitError.
func (s *Store) ClaimKey(ctx context.Context, claim saga.Claim, lease time.Duration) (idempotency.Held, error) {
	held := idempotency.Held{
		AccountID: claim.AccountID, Endpoint: claim.Endpoint, Key: claim.Key, Generation: claim.Generation, KeysPerMinute: claim.KeysPerMinute,
	}
	batch := &pgx.Batch{}
	queueClaim(batch, claim, nil, 0, lease).QueryRow(func(row pgx.Row) error { return row.Scan(nil, &held.Fence) })
	if err := s.sendClaim(ctx, batch, claim); err != nil {
		return idempotency.Held{}, err
	}
	return held, nil
}

// TakeKey is a compare-and-swap on the fencing number of a lease that has run out. Errors: saga.ErrLeaseLost.
func (s *Store) TakeKey(ctx context.Context, held idempotency.Held, lease time.Duration) (idempotency.Held, error) {
	return s.changeKey(ctx, held, `UPDATE idempotency_keys k SET lock_version = `+ownFence+`, locked_until = now() + $5::interval`,
		`AND locked_until <= now()`, lease)
}

// RenewKey prolongs a lease that is still the newest. Errors: saga.ErrLeaseLost.
func (s *Store) RenewKey(ctx context.Context, held idempotency.Held, lease time.Duration) error {
	_, err := s.changeKey(ctx, held, `UPDATE idempotency_keys k SET locked_until = now() + $5::interval`, ``, lease)
	return err
}

// ReleaseKey ends a lease without an answer: whoever repeats the request goes on at once. Errors: saga.ErrLeaseLost.
func (s *Store) ReleaseKey(ctx context.Context, held idempotency.Held) error {
	return s.RenewKey(ctx, held, 0)
}

// ForgetKey makes a key unused again, as nothing was done under it, and gives back what it took of its account's limit. Errors:
// saga.ErrLeaseLost.
func (s *Store) ForgetKey(ctx context.Context, held idempotency.Held) error {
	if _, err := s.changeKey(ctx, held, `DELETE FROM idempotency_keys k`, ``); err != nil || held.KeysPerMinute <= 0 {
		return err
	}
	_, err := s.pool.Exec(ctx, `UPDATE key_limits SET spent_until = spent_until - $2::interval WHERE account_id = $1`,
		held.AccountID, time.Minute/time.Duration(held.KeysPerMinute))
	if err != nil {
		return fmt.Errorf("give back a new key: %w", mapError(err))
	}
	return nil
}

// changeKey changes a key's row under its fence, and gives the fence that the row has then.
func (s *Store) changeKey(
	ctx context.Context, held idempotency.Held, change, condition string, arguments ...any,
) (idempotency.Held, error) {
	batch := &pgx.Batch{}
	batch.Queue(`
		WITH changed AS (`+change+`
			WHERE account_id = $1 AND endpoint = $2 AND key = $3 AND lock_version = $4 AND `+unanswered+` AND saga_key IS NULL
				`+condition+` RETURNING lock_version)
		SELECT paysaga_require(count(*) = 1, '`+ruleLease+`'), max(lock_version) FROM changed`,
		append([]any{held.AccountID, held.Endpoint, held.Key, held.Fence}, arguments...)...,
	).QueryRow(func(row pgx.Row) error { return row.Scan(nil, &held.Fence) })
	err := s.send(ctx, batch)
	return held, err
}

// AnswerKey stores the answer of a request that began no saga. Errors: saga.ErrLeaseLost: somebody else answers.
func (s *Store) AnswerKey(ctx context.Context, held idempotency.Held, answer saga.Answer) error {
	return s.withAnswers(ctx, 0, func() error {
		batch := &pgx.Batch{}
		if err := s.queueHeldAnswer(batch, held, answer); err != nil {
			return err
		}
		return s.send(ctx, batch)
	})
}

func (s *Store) queueHeldAnswer(batch *pgx.Batch, held idempotency.Held, answer saga.Answer) error {
	derived := saga.Key(held.AccountID, held.Endpoint, held.Key, held.Generation)
	body, digest, err := s.keep(held.Endpoint, answerContext(held.AccountID, derived), answer)
	if err != nil {
		return err
	}
	batch.Queue(storeAnswer(unanswered+` AND endpoint = $7 AND key = $8 AND lock_version = $9`)+
		`SELECT paysaga_require(count(*) = 1, '`+ruleLease+`') FROM answered`,
		held.AccountID, answer.Headers, body, digest, idempotency.StatusOf(answer.Status), answer.Status, held.Endpoint, held.Key, held.Fence)
	return nil
}

// queueFence lets a handler's own write happen only while its request holds the key, and keeps the key from being taken over until
// the write is committed.
func queueFence(batch *pgx.Batch, held *idempotency.Held) {
	if held == nil {
		return
	}
	batch.Queue(`
		WITH held AS (
			SELECT 1 FROM idempotency_keys
			WHERE account_id = $1 AND endpoint = $2 AND key = $3 AND lock_version = $4 AND `+unanswered+` FOR UPDATE)
		SELECT paysaga_require(count(*) = 1, '`+ruleLease+`') FROM held`, held.AccountID, held.Endpoint, held.Key, held.Fence)
}
