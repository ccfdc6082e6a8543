package postgres

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"paysaga/internal/webhook"
	"paysaga/providers"
	"paysaga/saga"
)

var (
	_ webhook.Store = (*Store)(nil)
	_ saga.Events   = (*Store)(nil)
)

// keptOutcome is what is stored of an event's outcome. What the customer must do has no field: it can hold a client secret, and
// this column is not sealed.
type keptOutcome struct {
	Kind      providers.OutcomeKind `json:"kind"`
	Reference string                `json:"reference,omitempty"`
	Code      string                `json:"code,omitempty"`
	Detail    string                `json:"detail,omitempty"`
	Amount    int64                 `json:"amount,omitempty"`
	Currency  string                `json:"currency,omitempty"`
	Decline   *providers.Decline    `json:"decline,omitempty"`
}

func encodeOutcome(o *providers.Outcome) (*string, error) {
	if o == nil {
		return nil, nil //nolint:nilnil // no outcome is NULL
	}
	text, err := json.Marshal(keptOutcome{
		Kind: o.Kind, Reference: o.Reference, Code: o.Code, Detail: o.Detail, Amount: o.Money.Amount, Currency: o.Money.Currency,
		Decline: o.Decline,
	})
	if err != nil {
		return nil, fmt.Errorf("encode outcome: %w", err)
	}
	encoded := string(text)
	return &encoded, nil
}

func (k *keptOutcome) outcome() *providers.Outcome {
	if k == nil {
		return nil
	}
	return &providers.Outcome{
		Kind: k.Kind, Reference: k.Reference, Code: k.Code, Detail: k.Detail, Decline: k.Decline,
		Money: providers.Money{Amount: k.Amount, Currency: k.Currency},
	}
}

// KeepEvents stores events in one statement. Copies of one event in the same message count once, and all are taken in one order,
// so that two messages with the same events cannot wait for each other. An event about nothing of ours stays as it is: that it
// comes again changes nothing.
func (s *Store) KeepEvents(ctx context.Context, provider string, notices []providers.Notice) (fresh int, err error) {
	columns := make([][]any, 8)
	for _, n := range notices {
		outcome, err := encodeOutcome(n.Outcome)
		if err != nil {
			return 0, err
		}
		for i, value := range []any{n.ID, n.Type, n.About, n.Key, n.Payment, n.Reference, outcome, n.At} {
			columns[i] = append(columns[i], value)
		}
	}
	arguments := []any{provider}
	for _, column := range columns {
		arguments = append(arguments, column)
	}
	tag, err := s.pool.Exec(ctx, `
		INSERT INTO webhook_events AS e (provider, event_id, type, about, sub_key, payment_reference, reference, outcome, occurred_at)
		SELECT DISTINCT ON (n.event_id) $1, n.event_id, n.type, n.about, n.sub_key, n.payment_reference, n.reference,
			n.outcome::jsonb, n.occurred_at
		FROM unnest($2::text[], $3::text[], $4::text[], $5::text[], $6::text[], $7::text[], $8::text[], $9::timestamptz[])
			AS n (event_id, type, about, sub_key, payment_reference, reference, outcome, occurred_at)
		ORDER BY n.event_id
		ON CONFLICT (provider, event_id) DO UPDATE SET status = 'waiting', next_attempt_at = now(), received_at = now(), attempts = 0,
			failures = 0, last_error = ''
		WHERE e.status = 'parked' OR e.status = 'unmatched' AND e.about <> 'other'`, arguments...)
	if err != nil {
		return 0, fmt.Errorf("keep events: %w", mapError(err))
	}
	return int(tag.RowsAffected()), nil
}

// ClaimEvents hands out due events. Rows that another process is claiming at this moment are skipped, not waited for.
func (s *Store) ClaimEvents(ctx context.Context, limit int, lease time.Duration) ([]webhook.Event, error) {
	rows, err := s.pool.Query(ctx, `
		WITH due AS (
			SELECT provider, event_id, next_attempt_at FROM webhook_events WHERE next_attempt_at <= now()
			ORDER BY next_attempt_at LIMIT $1 FOR UPDATE SKIP LOCKED
		), taken AS (
			UPDATE webhook_events e SET lock_version = e.lock_version + 1, attempts = e.attempts + 1,
				next_attempt_at = now() + $2::interval
			FROM due WHERE e.provider = due.provider AND e.event_id = due.event_id
			RETURNING e.*, due.next_attempt_at AS due_at
		)
		SELECT provider, event_id, type, about, sub_key, payment_reference, reference, outcome, occurred_at, lock_version,
			attempts, failures, now() - received_at
		FROM taken ORDER BY due_at, event_id`, limit, lease)
	if err != nil {
		return nil, fmt.Errorf("claim events: %w", mapError(err))
	}
	events, err := pgx.CollectRows(rows, scanEvent)
	if err != nil {
		return nil, fmt.Errorf("claim events: %w", mapError(err))
	}
	return events, nil
}

func scanEvent(row pgx.CollectableRow) (webhook.Event, error) {
	var e webhook.Event
	var outcome *keptOutcome
	n := &e.Notice
	err := row.Scan(&e.Provider, &n.ID, &n.Type, &n.About, &n.Key, &n.Payment, &n.Reference, &outcome, &n.At, &e.Fence,
		&e.Attempts, &e.Failures, &e.Age)
	if err != nil {
		return webhook.Event{}, fmt.Errorf("scan event: %w", err)
	}
	n.At, n.Outcome = n.At.UTC(), outcome.outcome()
	return e, nil
}

// FindSaga goes by what says most about which call an event is of: the provider's reference of a capture, refund or void; the
// sub-key of such a call; the payment; the sub-key of a charge, which what was made by hand at the provider bears too; last the
// key of a saga, where an event bears that instead. An event of one provider finds nothing that went to another.
func (s *Store) FindSaga(ctx context.Context, provider string, notice providers.Notice) (saga.Ref, error) {
	var first []string
	if key, err := uuid.Parse(string(notice.Key)); err == nil {
		first = []string{string(saga.SubKey(key, saga.StepCharge, 1)), string(saga.SubKey(key, saga.StepRefund, 1))}
	}
	// The conditions that look needless are those of the indexes, which cross accounts as events do.
	rows, err := s.pool.Query(ctx, `
		WITH found AS (
			SELECT account_id, saga_key, started_at, 1 AS place FROM saga_steps
			WHERE provider = $1 AND provider_reference = $2 AND provider_reference <> ''
			UNION ALL
			SELECT account_id, saga_key, started_at, CASE name WHEN 'charge' THEN 4 ELSE 2 END FROM saga_steps
			WHERE provider = $1 AND provider <> '' AND sub_key = $4
			UNION ALL
			SELECT account_id, saga_key, started_at, 3 FROM saga_steps
			WHERE provider = $1 AND provider_reference = $3 AND provider_reference <> '' AND name = 'charge'
			UNION ALL
			SELECT f.account_id, f.saga_key, f.started_at, 5 FROM saga_steps f
			WHERE f.provider <> '' AND f.sub_key = ANY($5) AND EXISTS (
				SELECT 1 FROM saga_steps t WHERE t.account_id = f.account_id AND t.saga_key = f.saga_key AND t.provider = $1)
		)
		SELECT account_id, saga_key FROM found ORDER BY place, started_at DESC LIMIT 1`,
		provider, notice.Reference, notice.Payment, notice.Key, first)
	if err != nil {
		return saga.Ref{}, fmt.Errorf("find saga of event: %w", mapError(err))
	}
	ref, err := pgx.CollectExactlyOneRow(rows, pgx.RowToStructByPos[saga.Ref])
	if errors.Is(err, pgx.ErrNoRows) {
		return saga.Ref{}, saga.ErrNotFound
	}
	if err != nil {
		return saga.Ref{}, fmt.Errorf("find saga of event: %w", mapError(err))
	}
	return ref, nil
}

// SettleEvent is a compare-and-swap on the fencing number, which grows with every claim.
func (s *Store) SettleEvent(ctx context.Context, event webhook.Event, result webhook.Result) error {
	var account *string
	var key *uuid.UUID
	if result.Saga != (saga.Ref{}) {
		account, key = &result.Saga.AccountID, &result.Saga.Key
	}
	tag, err := s.pool.Exec(ctx, `
		UPDATE webhook_events SET status = $4, next_attempt_at = CASE WHEN $4 = 'waiting' THEN now() + $5::interval END,
			failures = failures + CASE WHEN $6 THEN 1 ELSE 0 END, last_error = $7, account_id = $8, saga_key = $9,
			applied_at = CASE WHEN $4 = 'applied' THEN now() END
		WHERE provider = $1 AND event_id = $2 AND lock_version = $3 AND status = 'waiting'`,
		event.Provider, event.Notice.ID, event.Fence, result.Status, result.Pause, result.Failed, result.Reason, account, key)
	if err != nil {
		return fmt.Errorf("settle event: %w", mapError(err))
	}
	if tag.RowsAffected() != 1 {
		return saga.ErrLeaseLost
	}
	return nil
}

// BringAgain has an event that was given up, or found no saga, tried once more from the beginning, and writes that down where its account
// is known. One that waits or was applied stays as it is. Errors: saga.ErrNotFound.
func (s *Store) BringAgain(ctx context.Context, provider, event string) error {
	var known bool
	err := s.pool.QueryRow(ctx, `
		WITH again AS (
			UPDATE webhook_events SET status = 'waiting', next_attempt_at = now(), received_at = now(), attempts = 0, failures = 0,
				last_error = '', brought_again = brought_again + 1
			WHERE provider = $1 AND event_id = $2 AND (status = 'parked' OR status = 'unmatched' AND about <> 'other')
			RETURNING account_id
		), audit AS (
			INSERT INTO audit_log (account_id, actor, action, subject, reason)
			SELECT account_id, $3, 'webhook.bring_again', $2, 'It had been given up.' FROM again WHERE account_id IS NOT NULL)
		SELECT EXISTS (SELECT FROM webhook_events WHERE provider = $1 AND event_id = $2)`, provider, event, saga.Repairer).Scan(&known)
	switch {
	case err != nil:
		return fmt.Errorf("bring event again: %w", mapError(err))
	case !known:
		return saga.ErrNotFound
	}
	return nil
}
