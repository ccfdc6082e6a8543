package postgres

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"paysaga/providers"
	"paysaga/reconcile"
	"paysaga/saga"
)

// NextPairs reads a batch of the payments in scope: the same number of statements, whatever its size. Errors: reconcile.ErrLeaseLost.
func (s *Store) NextPairs(ctx context.Context, scope reconcile.Scope, after reconcile.Place, limit int) ([]reconcile.Pair, error) {
	if err := s.fillScope(ctx, scope, after == reconcile.Place{}); err != nil {
		return nil, err
	}
	rows, err := s.pool.Query(ctx, `
		SELECT account_id, order_id FROM reconciliation_scope WHERE (account_id, order_id) > ($1, $2::uuid)
		ORDER BY account_id, order_id LIMIT $3`, after.AccountID, after.OrderID, limit)
	if err != nil {
		return nil, fmt.Errorf("read the payments to compare: %w", mapError(err))
	}
	places, err := pgx.CollectRows(rows, pgx.RowToStructByPos[reconcile.Place])
	if err != nil {
		return nil, fmt.Errorf("read the payments to compare: %w", mapError(err))
	}
	return s.readPairs(ctx, places)
}

// ReadPair reads one payment anew. Errors: saga.ErrNotFound.
func (s *Store) ReadPair(ctx context.Context, order reconcile.Place) (reconcile.Pair, error) {
	pairs, err := s.readPairs(ctx, []reconcile.Place{order})
	if err != nil {
		return reconcile.Pair{}, err
	}
	if pairs[0].Payment.OrderID == uuid.Nil {
		return reconcile.Pair{}, saga.ErrNotFound
	}
	return pairs[0], nil
}

// pairBatch is a batch of pairs in the making. What is read for them comes with their place in it.
type pairBatch struct {
	pairs []reconcile.Pair
	steps [][]step

	// By these the providers' side is found: the keys that each pair's calls bear, and what its steps know of the provider.
	sagaPlaces []int
	sagas      []uuid.UUID
	refPlaces  []int
	providers  []string
	references []string
	known      map[known]bool
}

// known is something of a provider that a pair knows.
type known struct {
	place               int
	provider, reference string
}

// step is a call to a provider, as a pair needs it.
type step struct {
	saga.Step

	sagaKey uuid.UUID
}

func (b *pairBatch) addSaga(place int, key uuid.UUID) {
	b.sagaPlaces, b.sagas = append(b.sagaPlaces, place), append(b.sagas, key)
}

func (b *pairBatch) addReference(place int, provider, reference string) {
	k := known{place, provider, reference}
	if reference == "" || b.known[k] {
		return
	}
	b.known[k] = true
	b.refPlaces, b.providers, b.references = append(b.refPlaces, place), append(b.providers, provider), append(b.references, reference)
}

func (s *Store) readPairs(ctx context.Context, places []reconcile.Place) ([]reconcile.Pair, error) {
	if len(places) == 0 {
		return nil, nil
	}
	b := &pairBatch{pairs: make([]reconcile.Pair, len(places)), steps: make([][]step, len(places)), known: map[known]bool{}}
	accounts, orders := make([]string, len(places)), make([]uuid.UUID, len(places))
	for i, place := range places {
		accounts[i], orders[i] = place.AccountID, place.OrderID
		b.addSaga(i, place.OrderID)
	}
	ours := batchByIndexes()
	b.queuePayments(ours, accounts, orders)
	b.queueRefunds(ours, accounts, orders)
	b.queueSteps(ours, accounts, orders)
	if err := s.send(ctx, ours); err != nil {
		return nil, fmt.Errorf("read payments: %w", err)
	}
	for i := range b.pairs {
		assemble(&b.pairs[i].Payment, b.steps[i])
	}
	if err := s.readTheirs(ctx, b, accounts); err != nil {
		return nil, err
	}
	return b.pairs, nil
}

// batchByIndexes begins a batch that looks a few hundred things up in tables of any size. Planned for the very things, it would be up to
// statistics, which may be of before the tables grew, whether whole tables are read instead; planned for any, it is by their indexes.
func batchByIndexes() *pgx.Batch {
	batch := &pgx.Batch{}
	batch.Queue(`SELECT set_config('plan_cache_mode', 'force_generic_plan', true)`)
	return batch
}

// ourPlaces are the orders of a batch, numbered from 0.
const ourPlaces = `unnest($1::text[], $2::uuid[]) WITH ORDINALITY AS p (account_id, order_id, place)`

func (b *pairBatch) queuePayments(batch *pgx.Batch, accounts []string, orders []uuid.UUID) {
	batch.Queue(`
		SELECT p.place - 1, o.account_id, o.id, s.state, o.capture_mode, o.amount, o.currency, o.captured_amount, o.refunded_amount,
			o.refunding_amount, s.locked_until > now(), s.next_attempt_at, o.created_at, s.updated_at,
			EXISTS (SELECT FROM reservations r WHERE r.account_id = s.account_id AND r.saga_key = s.key AND r.status = 'held'),
			CASE s.state WHEN 'needs_review' THEN ARRAY(SELECT f.kind FROM findings f
				WHERE f.account_id = s.account_id AND f.saga_key = s.key AND f.resolved_at IS NULL AND f.source = 'saga' ORDER BY f.kind) END
		FROM `+ourPlaces+` JOIN orders o ON o.account_id = p.account_id AND o.id = p.order_id
		JOIN sagas s ON s.account_id = o.account_id AND s.key = o.id`, accounts, orders,
	).Query(func(rows pgx.Rows) error {
		var place int
		var p reconcile.Payment
		var due *time.Time
		_, err := pgx.ForEachRow(rows, []any{
			&place, &p.AccountID, &p.OrderID, &p.State, &p.Capture, &p.Money.Amount, &p.Money.Currency, &p.Captured, &p.Refunded, &p.Refunding,
			&p.Busy, &due, &p.CreatedAt, &p.UpdatedAt, &p.HeldStock, &p.InReview,
		}, func() error {
			p.DueAt = value(due)
			b.pairs[place].Payment = p
			p.InReview = nil // the next row's is one of its own
			return nil
		})
		return err //nolint:wrapcheck // wrapped by readPairs
	})
}

// queueRefunds reads the refunds that have sagas of their own: what happened to one happened to the payment. What gives back a payment
// beside the order's own is none of that payment; only what the providers tell of it belongs here, too.
func (b *pairBatch) queueRefunds(batch *pgx.Batch, accounts []string, orders []uuid.UUID) {
	batch.Queue(`
		SELECT p.place - 1, f.id, s.state, s.locked_until > now(), s.next_attempt_at, GREATEST(f.updated_at, s.updated_at), f.amount,
			f.created_at, f.payment_reference <> ''
		FROM `+ourPlaces+` JOIN refunds f ON f.account_id = p.account_id AND f.order_id = p.order_id
		JOIN sagas s ON s.account_id = f.account_id AND s.key = f.id ORDER BY f.created_at, f.id`, accounts, orders,
	).Query(func(rows pgx.Rows) error {
		var place int
		var r reconcile.Refund
		var due *time.Time
		var ofAnother bool
		columns := []any{&place, &r.SagaKey, &r.State, &r.Busy, &due, &r.UpdatedAt, &r.Amount, &r.StartedAt, &ofAnother}
		_, err := pgx.ForEachRow(rows, columns, func() error {
			b.addSaga(place, r.SagaKey)
			payment := &b.pairs[place].Payment
			if r.UpdatedAt.After(payment.UpdatedAt) {
				payment.UpdatedAt = r.UpdatedAt
			}
			if ofAnother {
				return nil
			}
			r.DueAt, r.Status = value(due), saga.StepPending
			payment.Refunds = append(payment.Refunds, r)
			return nil
		})
		return err //nolint:wrapcheck // wrapped by readPairs
	})
}

// queueSteps reads the calls to providers of the orders and of their refunds, in the order in which they began.
func (b *pairBatch) queueSteps(batch *pgx.Batch, accounts []string, orders []uuid.UUID) {
	batch.Queue(`
		SELECT p.place - 1, t.saga_key, t.name, t.attempt, t.sub_key, t.status, t.provider, t.provider_reference, t.target, t.outcome, t.code,
			t.amount, t.started_at, t.finished_at
		FROM `+ourPlaces+` CROSS JOIN LATERAL (
			SELECT p.order_id AS key
			UNION ALL SELECT f.id FROM refunds f
				WHERE f.account_id = p.account_id AND f.order_id = p.order_id AND f.payment_reference = '') AS own
		JOIN saga_steps t ON t.account_id = p.account_id AND t.saga_key = own.key AND t.provider <> ''
		ORDER BY t.started_at, t.attempt`, accounts, orders,
	).Query(func(rows pgx.Rows) error {
		var place int
		var t step
		var finished *time.Time
		_, err := pgx.ForEachRow(rows, []any{
			&place, &t.sagaKey, &t.Name, &t.Attempt, &t.SubKey, &t.Status, &t.Provider, &t.ProviderReference, &t.Target, &t.Outcome, &t.Code,
			&t.Amount, &t.StartedAt, &finished,
		}, func() error {
			t.FinishedAt = value(finished)
			b.steps[place] = append(b.steps[place], t)
			b.addReference(place, t.Provider, t.ProviderReference)
			if named := namedSaga(t.SubKey, ""); named != nil && *named != t.sagaKey {
				b.addSaga(place, *named) // of the request for a capture, whose key the capture bears
			}
			return nil
		})
		return err //nolint:wrapcheck // wrapped by readPairs
	})
}

// assemble makes charges, captures, refunds and the void of a payment's calls.
func assemble(payment *reconcile.Payment, steps []step) {
	for _, t := range steps {
		if t.Name == saga.StepCharge {
			payment.Charges = append(payment.Charges, reconcile.Charge{
				Provider: t.Provider, Key: t.SubKey, Attempt: t.Attempt, Reference: t.ProviderReference, Status: t.Status, Outcome: t.Outcome,
				StartedAt: t.StartedAt, SettledAt: t.FinishedAt,
			})
		}
	}
	for _, t := range steps {
		switch {
		case t.Name == saga.StepCapture:
			putCapture(payment, t)
		case t.Name == saga.StepRefund, t.Name == saga.StepVoid && t.Status == saga.StepDone && t.Code == providers.CodeRefunded:
			putRefund(payment, t)
		case t.Name == saga.StepVoid:
			putVoid(payment, t)
		}
	}
}

// putCapture adds a capture, to the payment and to the charge that it takes of.
func putCapture(payment *reconcile.Payment, t step) {
	payment.Captures = append(payment.Captures, reconcile.Capture{
		Provider: t.Provider, Key: t.SubKey, Reference: t.ProviderReference, Amount: t.Amount, Status: t.Status,
	})
	if charge := chargeAt(payment, t.StartedAt); charge != nil {
		charge.Captures = append(charge.Captures, t.SubKey)
	}
}

// putVoid keeps a void that has no end yet. What it does is decided by what was known as it was asked for, as providers.VoidRequest says.
func putVoid(payment *reconcile.Payment, t step) {
	payment.Void = nil
	if t.Status != saga.StepPending && t.Status != saga.StepUnknown {
		return
	}
	onlyHeld := payment.Capture == saga.CaptureManual && len(payment.Captures) == 0
	payment.Void = &reconcile.Void{
		Provider: t.Provider, Key: t.SubKey, Reference: t.ProviderReference, GivesBack: t.Target != "" && !onlyHeld,
		Refused: t.Code == providers.CodeVoidRefused,
	}
}

// chargeAt is the charge that a capture takes of: the newest that had begun.
func chargeAt(payment *reconcile.Payment, at time.Time) *reconcile.Charge {
	var newest *reconcile.Charge
	for i := range payment.Charges {
		if charge := &payment.Charges[i]; newest == nil || !charge.StartedAt.After(at) && charge.Attempt > newest.Attempt {
			newest = charge
		}
	}
	return newest
}

// putRefund adds a call that gives money back: to the refund whose saga makes it, or as one that undoes the order. A later attempt takes
// the place of an earlier one that came to nothing.
func putRefund(payment *reconcile.Payment, t step) {
	at := slices.IndexFunc(payment.Refunds, func(r reconcile.Refund) bool {
		return r.SagaKey == t.sagaKey && (r.Key == "" || r.Status != saga.StepDone)
	})
	if at < 0 {
		payment.Refunds = append(payment.Refunds, reconcile.Refund{
			SagaKey: t.sagaKey, State: payment.State, Busy: payment.Busy, DueAt: payment.DueAt, UpdatedAt: payment.UpdatedAt,
			Amount: cmp.Or(t.Amount, payment.Captured, payment.Money.Amount),
		})
		at = len(payment.Refunds) - 1
	}
	r := &payment.Refunds[at]
	r.Provider, r.Key, r.Reference, r.Status = t.Provider, t.SubKey, t.ProviderReference, t.Status
	r.StartedAt, r.SettledAt = t.StartedAt, t.FinishedAt
}
