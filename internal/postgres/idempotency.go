package postgres

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"paysaga/internal/idempotency"
	"paysaga/saga"
)

// LookupKey reads what is stored under a key: one indexed read. ok is false for a key that was never used.
func (s *Store) LookupKey(ctx context.Context, account, endpoint, key string) (record idempotency.Record, ok bool, err error) {
	var sagaKey *uuid.UUID
	var status *int
	var body, fingerprint []byte
	var left *time.Duration
	err = s.pool.QueryRow(ctx, `
		SELECT generation, fingerprint, status, response_status, response_headers, response_body, lock_version,
			locked_until - now(), saga_key, `+windowOver+`
		FROM idempotency_keys k WHERE account_id = $1 AND endpoint = $2 AND key = $3`, account, endpoint, key,
	).Scan(&record.Generation, &fingerprint, &record.Status, &status, &record.Answer.Headers, &body, &record.Fence, &left, &sagaKey,
		&record.Expired)
	if errors.Is(err, pgx.ErrNoRows) {
		return idempotency.Record{}, false, nil
	}
	if err != nil {
		return idempotency.Record{}, false, fmt.Errorf("look up key: %w", mapError(err))
	}
	copy(record.Fingerprint[:], fingerprint)
	record.LeaseLeft, record.SagaKey, record.Answer.Status = value(left), value(sagaKey), value(status)
	if body != nil && !record.Expired { // nobody needs an expired one, and its encryption key may be gone
		record.Answer.Body, err = s.ring.Open(body, answerContext(account, record.SagaKey))
		if err != nil {
			return idempotency.Record{}, false, fmt.Errorf("open stored answer: %w", err)
		}
	}
	return record, true, nil
}

// windowOver tells that a key may begin anew. While the fate of its saga is open, it may not: a second order could be
// charged beside the first, money captured or given back twice. The key of a request about an order goes with that order.
const windowOver = `(k.expires_at <= now() AND NOT EXISTS (SELECT 1 FROM sagas s
	WHERE s.account_id = k.account_id AND s.key = k.saga_key AND s.state NOT IN ('completed', 'rolled_back')))`

// queueClaim takes a key for a new saga, or for a request about one: a key that was never used, or one whose earlier use has
// expired and is answered. It must be the next generation then. Whoever comes second finds nothing claimed, and its transaction
// is undone. The key carries the fence and the lease that the saga has.
func queueClaim(batch *pgx.Batch, claim saga.Claim, sagaKey uuid.UUID, fence int64, lease time.Duration) {
	batch.Queue(`
		WITH claimed AS (
			INSERT INTO idempotency_keys AS k
				(account_id, endpoint, key, generation, fingerprint, status, locked_until, saga_key, expires_at, lock_version)
			VALUES ($1, $2, $3, $4, $5, 'PROCESSING', now() + $6::interval, $7, now() + $8::interval, $9)
			ON CONFLICT (account_id, endpoint, key) DO UPDATE SET generation = EXCLUDED.generation,
				fingerprint = EXCLUDED.fingerprint, status = 'PROCESSING', response_status = NULL, response_headers = NULL,
				response_body = NULL, lock_version = EXCLUDED.lock_version, locked_until = EXCLUDED.locked_until, saga_key = EXCLUDED.saga_key,
				created_at = now(), completed_at = NULL, expires_at = EXCLUDED.expires_at
			WHERE `+windowOver+` AND k.status <> 'PROCESSING' AND k.generation = EXCLUDED.generation - 1
			RETURNING 1)
		SELECT paysaga_require(count(*) = 1, '`+ruleKey+`') FROM claimed`,
		claim.AccountID, claim.Endpoint, claim.Key, claim.Generation, claim.Fingerprint[:], lease, sagaKey, claim.Retention, fence)
}

// queueAnswer stores the answer under the one key of the saga that has none yet, if there is one: the first answer stays for
// the key's window.
func (s *Store) queueAnswer(batch *pgx.Batch, after *saga.Saga, answer saga.Answer) error {
	sealed, err := s.ring.Seal(answer.Body, answerContext(after.AccountID, after.Key))
	if err != nil {
		return fmt.Errorf("seal answer: %w", err)
	}
	status := idempotency.Completed
	if answer.Status >= 400 {
		status = idempotency.Failed
	}
	batch.Queue(`
		UPDATE idempotency_keys SET status = $3, response_status = $4, response_headers = $5, response_body = $6,
			completed_at = now(), locked_until = NULL
		WHERE account_id = $1 AND saga_key = $2 AND status = 'PROCESSING'`,
		after.AccountID, after.Key, status, answer.Status, answer.Headers, sealed)
	return nil
}

// answerContext binds a sealed answer to its saga: copied to another row, it does not open.
func answerContext(account string, sagaKey uuid.UUID) []byte {
	return []byte("answer\x00" + account + "\x00" + sagaKey.String())
}
