package postgres

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"paysaga/reconcile"
	"paysaga/saga"
)

var _ saga.Store = (*Store)(nil)

// firstFence is the fencing number of the lease under which a saga begins.
const firstFence = 1

// Begin is the first of an order's two transactions, and of a refund's.
func (s *Store) Begin(ctx context.Context, claim saga.Claim, change saga.Change, lease time.Duration) (saga.Saga, error) {
	after := change.After
	if after.State.Ended() {
		lease = 0 // over as it begins: nobody drives it
	}
	after.Pending = claim.Endpoint
	begin := s.queueOrderBegin
	if after.Kind == saga.KindRefund {
		begin = s.queueRefundBegin
	}
	var begun time.Time
	err := s.withAnswers(ctx, claim.Retention, func() error {
		batch := &pgx.Batch{}
		if claim.Endpoint != "" {
			queueClaim(batch, claim, &after.Key, firstFence, lease)
		}
		if err := begin(batch, &after, change, lease, &begun); err != nil {
			return err
		}
		return s.sendClaim(ctx, batch, claim)
	})
	if err != nil {
		return saga.Saga{}, s.explain(ctx, err, change)
	}
	after.Lease = saga.Lease{Fence: firstFence, Until: begun.Add(lease)}
	after.Drives, after.CreatedAt = 1, begun
	after = stamp(after, change, begun)
	after.Unrecorded = 1
	return after, nil
}

// queueOrderBegin writes a new order with its saga.
func (s *Store) queueOrderBegin(batch *pgx.Batch, after *saga.Saga, change saga.Change, lease time.Duration, begun *time.Time) error {
	after.Kind = saga.KindOrder
	payment := &after.Order.Payment
	payment.Capture = cmp.Or(payment.Capture, saga.CaptureAutomatic)
	payment.OnDecline = cmp.Or(payment.OnDecline, saga.DeclineRollsBack)
	if err := s.queueOrder(batch, after, begun); err != nil {
		return err
	}
	queueSaga(batch, after, lease)
	if err := s.queueRest(batch, after, change); err != nil {
		return err
	}
	queueStock(batch, after, change.Stock) // last: its rows are the ones that other orders wait for
	return nil
}

// queueSaga writes a new saga, under the lease of whoever began it.
func queueSaga(batch *pgx.Batch, after *saga.Saga, lease time.Duration) {
	batch.Queue(`
		INSERT INTO sagas (account_id, key, order_id, generation, state, next_attempt_at, locked_until, kind)
		VALUES ($1, $2, $3, $4, $5, CASE WHEN $6 THEN NULL ELSE now() + $7::interval END, now() + $7::interval, $8)`,
		after.AccountID, after.Key, after.Order.ID, after.Generation, after.State, after.State.Ended(), lease, after.Kind)
}

// Ask takes the claim before the lease: a repeat of the same request finds its key taken, not the saga busy. The fence
// lets one request in at a time: of two, the second waits for the saga's row and finds another number there.
func (s *Store) Ask(ctx context.Context, claim saga.Claim, change saga.Change, lease time.Duration) (saga.Saga, error) {
	after := change.After
	after.Lease.Fence++
	after.Pending = claim.Endpoint
	if change.Release {
		lease = 0
	}
	var written time.Time
	err := s.withAnswers(ctx, claim.Retention, func() error {
		batch := &pgx.Batch{}
		queueClaim(batch, claim, &after.Key, after.Lease.Fence, lease)
		queueAsk(batch, claim, &after, change, lease, &written)
		if err := s.queueChange(batch, &after, change); err != nil {
			return err
		}
		return s.sendClaim(ctx, batch, claim)
	})
	if err != nil {
		return saga.Saga{}, s.explain(ctx, err, change)
	}
	after.Lease.Until = written.Add(lease)
	return stamp(after, change, written), nil
}

// queueAsk takes the lease of a saga that rests, under the fence that it will have.
func queueAsk(batch *pgx.Batch, claim saga.Claim, after *saga.Saga, change saga.Change, lease time.Duration, written *time.Time) {
	batch.Queue(`
		WITH taken AS (
			UPDATE sagas SET lock_version = lock_version + 1, drives = drives + 1, state = $5, failures = $6, deadline_at = $7,
				unrecorded = CASE WHEN $10 THEN 0 ELSE 1 END, updated_at = now(), locked_until = now() + $8::interval,
				next_attempt_at = CASE WHEN $9 THEN NULL WHEN $10 THEN now() + $11::interval ELSE now() + $8::interval END
			WHERE account_id = $1 AND key = $2 AND lock_version = $3 AND state = $4 AND locked_until <= now()
				AND updated_at = $14 -- a holder whose lease has run out may have changed it since, under the same fence
				AND NOT EXISTS (SELECT 1 FROM idempotency_keys k -- an earlier request that has no answer yet
					WHERE k.account_id = $1 AND k.saga_key = $2 AND k.status = 'PROCESSING' AND (k.endpoint, k.key) <> ($12, $13))
			RETURNING drives)
		SELECT paysaga_require(count(*) = 1, '`+ruleLease+`'), max(drives), now() FROM taken`,
		after.AccountID, after.Key, change.After.Lease.Fence, change.From, after.State, after.Failures, nullTime(after.DeadlineAt),
		lease, after.State.Ended(), change.Release, change.Pause, claim.Endpoint, claim.Key, change.After.UpdatedAt,
	).QueryRow(func(row pgx.Row) error {
		return row.Scan(nil, &after.Drives, written)
	})
}

// Apply is the second transaction, and every later one.
func (s *Store) Apply(ctx context.Context, change saga.Change) (saga.Saga, error) {
	after := change.After
	var written time.Time
	err := s.withAnswers(ctx, 0, func() error {
		batch := &pgx.Batch{}
		queueApply(batch, &after, change, &written)
		if err := s.queueChange(batch, &after, change); err != nil {
			return err
		}
		return s.send(ctx, batch)
	})
	if err != nil {
		return saga.Saga{}, s.explain(ctx, err, change)
	}
	return stamp(after, change, written), nil
}

// queueApply changes the saga's own row under its fence.
func queueApply(batch *pgx.Batch, after *saga.Saga, change saga.Change, written *time.Time) {
	batch.Queue(`
		WITH taken AS (
			UPDATE sagas SET state = $5, failures = $6, deadline_at = $7, updated_at = now(),
				unrecorded = CASE WHEN $8 THEN 0 ELSE 1 END, -- a drive that goes on may end without writing what it does next
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
		return row.Scan(nil, written)
	})
}

// queueChange writes what a change of a saga that stands brings, beside the saga's own row.
func (s *Store) queueChange(batch *pgx.Batch, after *saga.Saga, change saga.Change) error {
	if after.Kind == saga.KindRefund {
		return s.queueRefundChange(batch, after, change)
	}
	if err := s.queueOrderUpdate(batch, after, change); err != nil {
		return err
	}
	if err := s.queueRest(batch, after, change); err != nil {
		return err
	}
	queueStock(batch, after, change.Stock)
	return nil
}

// stamp gives the saga the times that the database gave its rows.
func stamp(after saga.Saga, change saga.Change, now time.Time) saga.Saga {
	after.ReadAt, after.UpdatedAt, after.Unrecorded = now, now, 1
	if change.Release {
		after.Unrecorded = 0
	}
	if change.Answer != nil {
		after.Pending = ""
	}
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

// queueReason writes why a saga waits for a person. At stake is all that it is about.
func queueReason(batch *pgx.Batch, after *saga.Saga, finding saga.Finding) {
	atStake, reference := after.Order.Amount, ""
	if after.Kind == saga.KindRefund {
		atStake = after.Refund.Amount
	}
	for _, step := range after.Steps {
		if step.Name == saga.StepCharge || step.Name == saga.StepRefund && after.Kind == saga.KindRefund {
			reference = step.ProviderReference
		}
	}
	batch.Queue(`
		INSERT INTO findings (account_id, saga_key, order_id, kind, detail, provider, severity, reference, at_stake, currency)
		VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10)
		-- What reconciliation found out about it before stays. From now on the saga waits because of it, whoever had it ignored.
		ON CONFLICT (account_id, saga_key, kind) WHERE resolved_at IS NULL DO UPDATE
		SET detail = EXCLUDED.detail, source = 'saga', last_seen_at = now(), ignored_until = NULL`,
		after.AccountID, after.Key, after.Order.ID, finding.Kind, finding.Detail, after.Order.Payment.Provider,
		reconcile.SeverityOf(reconcile.Kind(finding.Kind)), reference, atStake, after.Order.Currency)
}

// queueRest writes what a change may carry beside the saga itself: its steps, the answer, a finding, an event.
func (s *Store) queueRest(batch *pgx.Batch, after *saga.Saga, change saga.Change) error {
	if err := s.queueSteps(batch, after, change.Steps); err != nil {
		return err
	}
	if change.Answer != nil {
		if err := s.queueAnswer(batch, after, *change.Answer); err != nil {
			return err
		}
	}
	if decision := change.Decision; decision != nil {
		queueDecision(batch, after, *decision)
	}
	if audit := change.Audit; audit != nil {
		queueSagaAudit(batch, after, *audit)
	}
	if finding := change.Finding; finding != nil {
		queueReason(batch, after, *finding)
	}
	if change.Event != "" {
		var refund *uuid.UUID
		if after.Kind == saga.KindRefund {
			refund = &after.Key
		}
		batch.Queue(`INSERT INTO outbox_events (account_id, order_id, type, refund_id) VALUES ($1, $2, $3, $4)`,
			after.AccountID, after.Order.ID, change.Event, refund)
	}
	return nil
}

// Load reads any saga by its key. Errors: saga.ErrNotFound.
func (s *Store) Load(ctx context.Context, ref saga.Ref) (saga.Saga, error) {
	sagas, err := s.loadAll(ctx, []saga.Ref{ref})
	if err != nil {
		return saga.Saga{}, err
	}
	return sagas[0], nil
}

// loadAll reads sagas whole, each with its order, lines and steps. Errors: saga.ErrNotFound where one does not exist.
func (s *Store) loadAll(ctx context.Context, refs []saga.Ref) ([]saga.Saga, error) {
	accounts, keys := make([]string, len(refs)), make([]uuid.UUID, len(refs))
	for i, ref := range refs {
		accounts[i], keys[i] = ref.AccountID, ref.Key
	}
	rows, err := s.pool.Query(ctx, `
		SELECT `+sagaColumns+`
		FROM unnest($1::text[], $2::uuid[]) WITH ORDINALITY AS r (account_id, key, place)
		JOIN sagas s ON s.account_id = r.account_id AND s.key = r.key
		JOIN orders o ON o.account_id = s.account_id AND o.id = s.order_id
		LEFT JOIN refunds f ON f.account_id = s.account_id AND f.id = s.key
		ORDER BY r.place`, accounts, keys)
	if err != nil {
		return nil, fmt.Errorf("load sagas: %w", mapError(err))
	}
	sagas, err := pgx.CollectRows(rows, s.scanSaga)
	if err != nil {
		return nil, fmt.Errorf("load sagas: %w", mapError(err))
	}
	if len(sagas) != len(refs) {
		return nil, saga.ErrNotFound
	}
	if err := s.fill(ctx, sagas); err != nil {
		return nil, err
	}
	return sagas, nil
}

// fill adds the lines and the steps of sagas that were scanned, in one round trip.
func (s *Store) fill(ctx context.Context, sagas []saga.Saga) error {
	accounts, keys := make([]string, 0, len(sagas)), make([]uuid.UUID, 0, len(sagas))
	orderAccounts, orders := make([]string, 0, len(sagas)), make([]uuid.UUID, 0, len(sagas))
	place := make(map[saga.Ref]*saga.Saga, len(sagas))
	ofOrder := make(map[saga.Ref][]*saga.Saga, len(sagas)) // an order's own saga, and those of its refunds
	for i := range sagas {
		g := &sagas[i]
		accounts, keys = append(accounts, g.AccountID), append(keys, g.Key)
		place[saga.Ref{AccountID: g.AccountID, Key: g.Key}] = g
		order := saga.Ref{AccountID: g.AccountID, Key: g.Order.ID}
		if ofOrder[order] == nil {
			orderAccounts, orders = append(orderAccounts, g.AccountID), append(orders, g.Order.ID)
		}
		ofOrder[order] = append(ofOrder[order], g)
	}
	batch := &pgx.Batch{}
	queueItemsRead(batch, orderAccounts, orders, ofOrder)
	s.queueStepsRead(batch, accounts, keys, place)
	if err := s.send(ctx, batch); err != nil {
		return fmt.Errorf("load lines and steps: %w", err)
	}
	return nil
}

// Timeline reads the saga of an order, with what was found about that and about its refunds. Errors: saga.ErrNotFound.
func (s *Store) Timeline(ctx context.Context, account string, orderID uuid.UUID) (saga.Timeline, error) {
	g, err := s.GetOrder(ctx, account, orderID)
	if err != nil {
		return saga.Timeline{}, err
	}
	rows, err := s.pool.Query(ctx, `
		SELECT id, kind, CASE saga_key WHEN order_id THEN detail ELSE 'Refund ' || saga_key || ': ' || detail END, created_at
		FROM findings WHERE account_id = $1 AND order_id = $2 AND resolved_at IS NULL ORDER BY created_at, id`, account, orderID)
	if err != nil {
		return saga.Timeline{}, fmt.Errorf("read findings: %w", mapError(err))
	}
	findings, err := pgx.CollectRows(rows, pgx.RowToStructByPos[saga.Finding])
	if err != nil {
		return saga.Timeline{}, fmt.Errorf("read findings: %w", mapError(err))
	}
	return saga.Timeline{Saga: g, Findings: findings}, nil
}

// explain turns a broken rule into an error that names the line, where the change can have broken it: it is a reservation, or a
// refund that begins. It reads after the transaction was undone, so the numbers are those of a moment later. The same rule broken
// by a sale, a release or a refund's end is a fault in the books, and stays the plain error that it is.
func (s *Store) explain(ctx context.Context, err error, change saga.Change) error {
	account, items := change.After.AccountID, change.After.Order.Items
	switch {
	case (change.Refund == saga.RefundHold || change.Refund == saga.RefundFound) && errors.Is(err, errOverRefund):
		return saga.ErrExceedsCapture
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

// value is what a nullable column holds, or the zero value.
func value[T any](column *T) T {
	if column == nil {
		var zero T
		return zero
	}
	return *column
}
