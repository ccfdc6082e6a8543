package postgres

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"paysaga/internal/idempotency"
	"paysaga/saga"
)

var _ idempotency.Store = (*Store)(nil)

// LookupKey reads a key's record and its answer, each by its primary key. ok is false where there is no record.
func (s *Store) LookupKey(ctx context.Context, account, endpoint, key string) (record idempotency.Record, ok bool, err error) {
	var sagaKey *uuid.UUID
	var status *int
	var body, digest, fingerprint []byte
	var left *time.Duration
	var completedAt *time.Time
	var past bool // its time is over, if not its window
	err = s.pool.QueryRow(ctx, `
		SELECT k.generation, k.fingerprint, k.status, k.response_status, a.headers, a.body, a.digest, k.lock_version,
			k.locked_until - now(), k.saga_key, k.created_at, k.completed_at, k.expires_at, k.expires_at <= now(), `+windowOver+`
		FROM idempotency_keys k
		LEFT JOIN idempotency_answers a ON a.account_id = k.account_id AND a.expires_on = k.answer_on AND a.id = k.answer_id
		WHERE k.account_id = $1 AND k.endpoint = $2 AND k.key = $3`, account, endpoint, key,
	).Scan(&record.Generation, &fingerprint, &record.Status, &status, &record.Answer.Headers, &body, &digest, &record.Fence, &left,
		&sagaKey, &record.CreatedAt, &completedAt, &record.ExpiresAt, &past, &record.Expired)
	if errors.Is(err, pgx.ErrNoRows) {
		return idempotency.Record{}, false, nil
	}
	if err != nil {
		return idempotency.Record{}, false, fmt.Errorf("look up key: %w", mapError(err))
	}
	copy(record.Fingerprint[:], fingerprint)
	copy(record.Digest[:], digest)
	record.Endpoint, record.LeaseLeft, record.SagaKey, record.CompletedAt = endpoint, value(left), value(sagaKey), value(completedAt)
	record.Answer.Status = value(status)
	if record.Expired || record.Status == idempotency.InProgress {
		return record, true, nil // of an expired key nobody needs the answer, and what sealed it may be gone
	}
	if body == nil && digest == nil && past { // dropped after its time, before news of a provider opened the saga once more
		record.Expired = true
		return record, true, nil
	}
	if body == nil && digest == nil {
		return idempotency.Record{}, false, errors.New("the answer of a key is gone before its time")
	}
	if body != nil {
		record.Answer.Body, err = s.ring.Open(body, answerContext(account, answerOf(record.SagaKey, account, endpoint, key, record.Generation)))
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
// is undone. The key carries the fence and the lease that the saga has; a fence of zero is for a key of its own.
func queueClaim(batch *pgx.Batch, claim saga.Claim, sagaKey *uuid.UUID, fence int64, lease time.Duration) *pgx.QueuedQuery {
	return batch.Queue(`
		WITH claimed AS (
			INSERT INTO idempotency_keys AS k
				(account_id, endpoint, key, generation, fingerprint, status, locked_until, saga_key, expires_at, lock_version)
			VALUES ($1, $2, $3, $4, $5, 'PROCESSING', now() + $6::interval, $7, now() + $8::interval,
				COALESCE(NULLIF($9::bigint, 0), `+ownFence+`))
			ON CONFLICT (account_id, endpoint, key) DO UPDATE SET generation = EXCLUDED.generation,
				fingerprint = EXCLUDED.fingerprint, status = 'PROCESSING', response_status = NULL, answer_on = NULL,
				answer_id = NULL, lock_version = EXCLUDED.lock_version, locked_until = EXCLUDED.locked_until, saga_key = EXCLUDED.saga_key,
				created_at = now(), completed_at = NULL, expires_at = EXCLUDED.expires_at
			WHERE `+windowOver+` AND k.status <> 'PROCESSING' AND k.generation = EXCLUDED.generation - 1
			RETURNING lock_version)
		SELECT paysaga_require(count(*) = 1, '`+ruleKey+`'), max(lock_version) FROM claimed`,
		claim.AccountID, claim.Endpoint, claim.Key, claim.Generation, claim.Fingerprint[:], lease, sagaKey, claim.Retention, fence)
}

// ownFence is the fencing number of a key that has no saga: that of the transaction which gave the lease. Counting up from one would
// begin anew where a key is forgotten, or expires, and is claimed once more; a holder from before could pass for the new one.
const ownFence = `pg_current_xact_id()::text::bigint`

// queueLimit counts a new key against its account's limit, in the transaction that claims it: a key that is not claimed after all is
// not counted, and any number of processes share the one count. Keys are spread evenly over a minute, and a whole minute's keys may
// come at once (the generic cell rate algorithm).
//
// It is the last statement of its transaction: requests of one account wait for each other at its row, and so for no longer than a commit.
// Where the database's clock was set back, as by a failover, what was spent far beyond the minute is not believed.
func queueLimit(batch *pgx.Batch, claim saga.Claim) {
	if claim.KeysPerMinute <= 0 {
		return
	}
	batch.Queue(`
		WITH taken AS (
			INSERT INTO key_limits AS l (account_id, spent_until) VALUES ($1, now() + $2::interval)
			ON CONFLICT (account_id) DO UPDATE SET spent_until = `+spent+` + $2::interval
			WHERE `+spent+` + $2::interval <= now() + interval '1 minute'
			RETURNING 1)
		SELECT paysaga_require(count(*) = 1, '`+ruleLimit+`') FROM taken`,
		claim.AccountID, time.Minute/time.Duration(claim.KeysPerMinute))
}

// spent is until when an account's keys of the last minute are spread. A transaction that began before the one that wrote it may see a
// little more than a minute; much more is a clock that was set back.
const spent = `CASE WHEN l.spent_until > now() + interval '2 minutes' THEN now() ELSE GREATEST(l.spent_until, now()) END`

// limited says when the account may begin its next key.
func (s *Store) limited(ctx context.Context, claim saga.Claim) error {
	wait := time.Minute / time.Duration(claim.KeysPerMinute)
	err := s.pool.QueryRow(ctx, `SELECT spent_until + $2::interval - interval '1 minute' - now() FROM key_limits WHERE account_id = $1`,
		claim.AccountID, wait).Scan(&wait)
	if err != nil {
		return fmt.Errorf("read the limit on new keys: %w", mapError(err))
	}
	return &idempotency.LimitError{PerMinute: claim.KeysPerMinute, RetryAfter: min(max(wait, 0), time.Minute)}
}

// maxGenerations bounds how often a key may have begun anew after its row was cleaned up: once a window, so for years.
const maxGenerations = 64

// LastGeneration finds the newest generation of a key that is not stored any more: what derived from it is. Zero: there is none.
func (s *Store) LastGeneration(ctx context.Context, account, endpoint, key string) (int, error) {
	sagaKeys := make([]uuid.UUID, maxGenerations)
	captures := make([]string, maxGenerations)
	for i := range maxGenerations {
		sagaKeys[i] = saga.Key(account, endpoint, key, i+1)
		captures[i] = string(saga.SubKey(sagaKeys[i], saga.StepCapture, 1))
	}
	var last int
	err := s.pool.QueryRow(ctx, `
		SELECT COALESCE(max(generation), 0) FROM unnest($2::uuid[], $3::text[]) WITH ORDINALITY AS d (saga_key, capture, generation)
		WHERE EXISTS (SELECT 1 FROM sagas s WHERE s.account_id = $1 AND s.key = d.saga_key)
			OR EXISTS (SELECT 1 FROM saga_steps t WHERE t.sub_key = d.capture AND t.provider <> '')`, account, sagaKeys, captures,
	).Scan(&last)
	if err != nil {
		return 0, fmt.Errorf("find a key's last generation: %w", mapError(err))
	}
	if last == maxGenerations {
		return 0, fmt.Errorf("a key has been used for more than %d windows", maxGenerations)
	}
	return last, nil
}

// sendClaim sends the transaction that claims a key, and counts it.
func (s *Store) sendClaim(ctx context.Context, batch *pgx.Batch, claim saga.Claim) error {
	queueLimit(batch, claim)
	err := s.send(ctx, batch)
	if errors.Is(err, errLimited) {
		return s.limited(ctx, claim)
	}
	return err
}

// withAnswers writes what may store an answer. Where the partition for it is missing, as no upkeep has run for long, it is made.
func (s *Store) withAnswers(ctx context.Context, retention time.Duration, write func() error) error {
	err := write()
	if !errors.Is(err, errNoPartition) {
		return err
	}
	_, err = s.pool.Exec(ctx, `
		SELECT paysaga_make_answers(day) FROM (
			SELECT ((now() + $1::interval) AT TIME ZONE 'UTC')::date AS day
			UNION SELECT (expires_at AT TIME ZONE 'UTC')::date FROM idempotency_keys WHERE status = 'PROCESSING') AS days`, retention)
	if again := write(); !errors.Is(again, errNoPartition) || err == nil {
		return again // also where another process was making it
	}
	return fmt.Errorf("make the partition for an answer: %w", mapError(err))
}

// queueAnswer stores the answer under the one key of the saga that has none yet, if there is one: the first answer stays for
// the key's window.
func (s *Store) queueAnswer(batch *pgx.Batch, after *saga.Saga, answer saga.Answer) error {
	body, digest, err := s.keep(after.Pending, answerContext(after.AccountID, after.Key), answer)
	if err != nil {
		return err
	}
	batch.Queue(storeAnswer(`status = 'PROCESSING' AND saga_key = $7`)+`SELECT count(*) FROM answered`,
		after.AccountID, answer.Headers, body, digest, idempotency.StatusOf(answer.Status), answer.Status, after.Key)
	return nil
}

// unanswered says the same as status = 'PROCESSING', by the table's constraint, where a key is found by its primary key. In the words of
// the index over keys in progress, PostgreSQL could take that one: in a large table it believes that there are none, and would read all
// that the account has.
const unanswered = `answer_id IS NULL`

// storeAnswer points a key's row at the place of its answer, and puts the answer there. Which key, by $7 and what follows it, is a part of
// the text: of a condition that fits a saga's key and any other, PostgreSQL's plan can be to read all keys that the account has in
// progress. The key's row is found once, without a join: a plan for a join of a table that was empty a moment ago reads it whole.
func storeAnswer(which string) string {
	return `
	WITH answered AS (
		UPDATE idempotency_keys SET status = $5, response_status = $6, completed_at = now(), locked_until = NULL,
			answer_on = (expires_at AT TIME ZONE 'UTC')::date, answer_id = nextval('idempotency_answer_ids')
		WHERE account_id = $1 AND ` + which + ` RETURNING answer_on, answer_id
	), answer AS (
		INSERT INTO idempotency_answers (account_id, expires_on, id, headers, body, digest)
		SELECT $1::text, answer_on, answer_id, COALESCE($2::jsonb, '{}'), $3::bytea, $4::bytea FROM answered)
	`
}

// keep seals an answer's body, or reduces it to its digest where its endpoint's answers are not kept.
func (s *Store) keep(endpoint string, seal []byte, answer saga.Answer) (body, digest []byte, err error) {
	if s.digestOnly[endpoint] && idempotency.StatusOf(answer.Status) == idempotency.Completed { // a refusal says nothing elsewhere
		sum := sha256.Sum256(answer.Body)
		return nil, sum[:], nil
	}
	body, err = s.ring.Seal(answer.Body, seal)
	if err != nil {
		return nil, nil, fmt.Errorf("seal answer: %w", err)
	}
	return body, nil, nil
}

// answerContext binds a sealed answer to its saga, or to what its key derives where that began none: copied to another row, it does
// not open.
func answerContext(account string, derived uuid.UUID) []byte {
	return []byte("answer\x00" + account + "\x00" + derived.String())
}

// answerOf is the saga's key, or what takes its place for a key that began none.
func answerOf(sagaKey uuid.UUID, account, endpoint, key string, generation int) uuid.UUID {
	if sagaKey != uuid.Nil {
		return sagaKey
	}
	return saga.Key(account, endpoint, key, generation)
}
