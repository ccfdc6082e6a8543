package postgres

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"paysaga/providers"
	"paysaga/reconcile"
)

// Coverage are the times of a provider that were listed without a gap.
func (s *Store) Coverage(ctx context.Context, provider string) ([]reconcile.Coverage, error) {
	rows, err := s.pool.Query(ctx, `
		SELECT covered_from, covered_until FROM provider_coverage WHERE provider = $1 ORDER BY covered_from`, provider)
	if err != nil {
		return nil, fmt.Errorf("read coverage: %w", mapError(err))
	}
	covered, err := pgx.CollectRows(rows, pgx.RowToStructByPos[reconcile.Coverage])
	if err != nil {
		return nil, fmt.Errorf("read coverage: %w", mapError(err))
	}
	return covered, nil
}

// Cover adds a time that was listed to its end to the coverage so far; what it touches becomes one with it. What was told of that time
// before, and was not told again, is forgotten: the provider has it no more. Errors: reconcile.ErrLeaseLost.
func (s *Store) Cover(ctx context.Context, run reconcile.Run, provider string, listed reconcile.Coverage) error {
	if !listed.From.Before(listed.Until) {
		return nil
	}
	batch := &pgx.Batch{}
	queueRunFence(batch, run)
	batch.Queue(`
		WITH touching AS (
			DELETE FROM provider_coverage WHERE provider = $1 AND covered_from <= $3 AND $2 <= covered_until RETURNING covered_from, covered_until)
		INSERT INTO provider_coverage (provider, covered_from, covered_until)
		SELECT $1, LEAST($2, min(covered_from)), GREATEST($3, max(covered_until)) FROM touching`,
		provider, listed.From, listed.Until)
	batch.Queue(`
		WITH known AS (SELECT count(*) AS n, count(*) FILTER (WHERE run_id = $4) AS again FROM provider_transactions
			WHERE provider = $1 AND made_at >= $2 AND made_at < $3)
		DELETE FROM provider_transactions USING known
		WHERE provider = $1 AND made_at >= $2 AND made_at < $3 AND run_id <> $4 AND (known.n <= $5 OR known.again * 2 >= known.n)`,
		provider, listed.From, listed.Until, run.ID, fewTransactions)
	if err := s.send(ctx, batch); err != nil {
		return fmt.Errorf("note coverage: %w", err)
	}
	return nil
}

// ComparedUntil is up to when all that a provider has was compared with our payments.
func (s *Store) ComparedUntil(ctx context.Context, provider string) (time.Time, error) {
	var until time.Time
	err := s.pool.QueryRow(ctx, `SELECT compared_until FROM provider_compared WHERE provider = $1`, provider).Scan(&until)
	if err != nil && !errors.Is(err, pgx.ErrNoRows) {
		return time.Time{}, fmt.Errorf("read up to when was compared: %w", mapError(err))
	}
	return until, nil
}

// PutCompared joins a time that was compared to what was compared so far. What lies behind a gap does not count: the gap would be
// forgotten. Errors: reconcile.ErrLeaseLost.
func (s *Store) PutCompared(ctx context.Context, run reconcile.Run, provider string, listed reconcile.Coverage) error {
	batch := &pgx.Batch{}
	queueRunFence(batch, run)
	batch.Queue(`
		INSERT INTO provider_compared AS c (provider, compared_until) VALUES ($1, $3)
		ON CONFLICT (provider) DO UPDATE SET compared_until =
			CASE WHEN c.compared_until < $2 THEN c.compared_until ELSE GREATEST(c.compared_until, $3) END`,
		provider, listed.From, listed.Until)
	if err := s.send(ctx, batch); err != nil {
		return fmt.Errorf("note up to when was compared: %w", err)
	}
	return nil
}

// fewTransactions are forgotten whatever is told of them. Of more, a list that tells less than half of what it told before is rather
// another account's, or an index's that is empty, than the truth.
const fewTransactions = 20

// namedSaga is the saga that a provider's copy of our identifiers names; nil where they are not ours.
func namedSaga(key providers.SubKey, sagaKey string) *uuid.UUID {
	if id, ok := key.SagaKey(); ok {
		return &id
	}
	id, err := uuid.Parse(sagaKey)
	if err != nil || id.String() != sagaKey {
		return nil
	}
	return &id
}

// namedBySubKey is what SubKey.SagaKey gives, of the column sub_key; NULL where that is not ours.
const namedBySubKey = `CASE WHEN sub_key ~ '^[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}_.' THEN left(sub_key, 36)::uuid END`

// toldColumns gather transactions column by column.
type toldColumns struct {
	kinds, references, payments, keys, sagaKeys, statuses, currencies, feeCurrencies []string
	named                                                                            []*uuid.UUID
	amounts, refunded, fees                                                          []int64
	made                                                                             []time.Time
}

func (c *toldColumns) add(t providers.Transaction) {
	c.kinds, c.references, c.payments = append(c.kinds, string(t.Kind)), append(c.references, t.Reference), append(c.payments, t.Payment)
	c.keys, c.sagaKeys = append(c.keys, string(t.Key)), append(c.sagaKeys, t.SagaKey)
	c.named = append(c.named, namedSaga(t.Key, t.SagaKey))
	c.statuses, c.amounts = append(c.statuses, string(t.Status)), append(c.amounts, t.Money.Amount)
	c.currencies, c.refunded = append(c.currencies, t.Money.Currency), append(c.refunded, t.Refunded)
	c.fees, c.feeCurrencies, c.made = append(c.fees, t.Fee), append(c.feeCurrencies, t.FeeCurrency), append(c.made, t.At)
}

// PutTransactions keeps what a list told. Of a transaction that stands in it twice, the later place counts. Errors: reconcile.ErrLeaseLost.
func (s *Store) PutTransactions(
	ctx context.Context, run reconcile.Run, provider string, askedAt time.Time, told []providers.Transaction,
) error {
	type identity struct {
		kind      providers.TransactionKind
		reference string
	}
	last := make(map[identity]int, len(told))
	for i, t := range told {
		last[identity{t.Kind, t.Reference}] = i
	}
	var c toldColumns
	for i, t := range told {
		if last[identity{t.Kind, t.Reference}] == i {
			c.add(t)
		}
	}
	batch := &pgx.Batch{}
	queueRunFence(batch, run)
	batch.Queue(`
		INSERT INTO provider_transactions AS p (provider, kind, reference, payment, sub_key, saga_key, named_saga, status, amount, currency,
			refunded, fee, fee_currency, made_at, told_at, run_id)
		SELECT $1, n.kind, n.reference, n.payment, n.sub_key, n.saga_key, n.named_saga, n.status, n.amount, n.currency, n.refunded, n.fee,
			n.fee_currency, n.made_at, $2, $3
		FROM unnest($4::text[], $5::text[], $6::text[], $7::text[], $8::text[], $9::uuid[], $10::text[], $11::bigint[], $12::text[],
			$13::bigint[], $14::bigint[], $15::text[], $16::timestamptz[])
			AS n (kind, reference, payment, sub_key, saga_key, named_saga, status, amount, currency, refunded, fee, fee_currency, made_at)
		ON CONFLICT (provider, reference, kind) DO UPDATE SET payment = EXCLUDED.payment, sub_key = EXCLUDED.sub_key,
			saga_key = EXCLUDED.saga_key, named_saga = EXCLUDED.named_saga, status = EXCLUDED.status, amount = EXCLUDED.amount,
			currency = EXCLUDED.currency, refunded = EXCLUDED.refunded, fee = EXCLUDED.fee, fee_currency = EXCLUDED.fee_currency,
			made_at = EXCLUDED.made_at, told_at = EXCLUDED.told_at, run_id = EXCLUDED.run_id`,
		provider, askedAt, run.ID, c.kinds, c.references, c.payments, c.keys, c.sagaKeys, c.named, c.statuses, c.amounts, c.currencies,
		c.refunded, c.fees, c.feeCurrencies, c.made)
	if err := s.send(ctx, batch); err != nil {
		return fmt.Errorf("keep transactions: %w", err)
	}
	return nil
}

// noticed are the events of an inbox as transactions: those about a payment, about a capture, and about a refund. Of a payment that was let
// go, the event says nothing about money; of one that is captured by itself, it tells only that it is authorized.
const noticed = `
	WITH event AS (
		SELECT e.about, e.sub_key, e.payment_reference AS payment, e.reference, e.occurred_at, e.received_at, e.event_id,
			e.outcome ->> 'kind' AS kind, COALESCE(e.outcome ->> 'code', '') = '` + providers.CodeRefunded + `' AS gave_back,
			COALESCE((e.outcome ->> 'amount')::bigint, 0) AS amount, COALESCE(e.outcome ->> 'currency', '') AS currency,
			` + namedBySubKey + ` AS named_saga
		FROM webhook_events e
		WHERE e.provider = $1 AND e.about <> 'other' AND e.received_at >= $2 AND e.received_at < $3
			AND e.outcome ->> 'kind' IN ('succeeded', 'authorized', 'action_required', 'processing', 'declined', 'canceled')
	), told AS (
		SELECT 'payment' AS kind, payment AS reference, payment, CASE about WHEN 'charge' THEN sub_key ELSE '' END AS sub_key, named_saga,
			CASE WHEN about = 'void' THEN 'canceled' WHEN kind = 'authorized' AND EXISTS (
				SELECT FROM saga_steps t JOIN orders o ON o.account_id = t.account_id AND o.id = t.saga_key
				WHERE t.provider = $1 AND t.provider <> '' AND t.sub_key = event.sub_key AND o.capture_mode = 'automatic')
				THEN 'succeeded' ELSE kind END AS status,
			CASE about WHEN 'charge' THEN amount ELSE 0 END AS amount, CASE about WHEN 'charge' THEN currency ELSE '' END AS currency,
			occurred_at, received_at, event_id
		FROM event WHERE payment <> '' AND (about = 'charge' OR about = 'void' AND kind = 'succeeded' AND NOT gave_back)
		UNION ALL
		SELECT 'payment', reference, payment, sub_key, named_saga, kind, amount, currency, occurred_at, received_at, event_id
		FROM event WHERE about = 'capture' AND reference <> ''
		UNION ALL
		SELECT 'refund', reference, payment, sub_key, named_saga, kind, amount, currency, occurred_at, received_at, event_id
		FROM event WHERE reference <> '' AND (about = 'refund' OR about = 'void' AND kind = 'succeeded' AND gave_back)
	), newest AS ( -- what an event leaves open is filled from another one of the same thing
		SELECT DISTINCT ON (kind, reference) kind, reference, payment, status, received_at,
			first_value(sub_key) OVER (w ORDER BY sub_key = '', occurred_at DESC, event_id) AS sub_key,
			first_value(named_saga) OVER (w ORDER BY named_saga IS NULL, sub_key = '', occurred_at DESC, event_id) AS named_saga,
			first_value(amount) OVER (w ORDER BY currency = '', occurred_at DESC, event_id) AS amount,
			first_value(currency) OVER (w ORDER BY currency = '', occurred_at DESC, event_id) AS currency,
			min(occurred_at) OVER w AS made_at
		FROM told WINDOW w AS (PARTITION BY kind, reference)
		ORDER BY kind, reference, occurred_at DESC, status = 'canceled' DESC, event_id)`

// PutNotices keeps what a provider announced in a time, by when it came here, as if it had listed it. Errors: reconcile.ErrLeaseLost.
func (s *Store) PutNotices(ctx context.Context, run reconcile.Run, provider string, listed reconcile.Coverage) (told int64, err error) {
	batch := longBatch()
	queueRunFence(batch, run)
	batch.Queue(noticed+`, put AS (
		INSERT INTO provider_transactions AS p (provider, kind, reference, payment, sub_key, named_saga, status, amount, currency, made_at,
			told_at, run_id)
		SELECT $1, kind, reference, payment, sub_key, named_saga, status, amount, currency, made_at, received_at, $4 FROM newest
		ON CONFLICT (provider, reference, kind) DO UPDATE SET payment = EXCLUDED.payment,
			status = CASE WHEN EXCLUDED.told_at >= p.told_at THEN EXCLUDED.status ELSE p.status END, -- an older time may be asked for later
			sub_key = CASE EXCLUDED.sub_key WHEN '' THEN p.sub_key ELSE EXCLUDED.sub_key END,
			named_saga = COALESCE(EXCLUDED.named_saga, p.named_saga),
			amount = CASE EXCLUDED.currency WHEN '' THEN p.amount ELSE EXCLUDED.amount END,
			currency = CASE EXCLUDED.currency WHEN '' THEN p.currency ELSE EXCLUDED.currency END,
			made_at = LEAST(p.made_at, EXCLUDED.made_at), told_at = GREATEST(p.told_at, EXCLUDED.told_at), run_id = EXCLUDED.run_id
		RETURNING 1) SELECT count(*) FROM put`, provider, listed.From, listed.Until, run.ID,
	).QueryRow(func(row pgx.Row) error { return row.Scan(&told) })
	if err := s.send(ctx, batch); err != nil {
		return 0, fmt.Errorf("keep what was announced: %w", err)
	}
	return told, nil
}

// longBatch begins a transaction that reads what a whole run is about.
func longBatch() *pgx.Batch {
	batch := &pgx.Batch{}
	batch.Queue(`SELECT set_config('statement_timeout', '` + longScan + `', true)`)
	return batch
}
