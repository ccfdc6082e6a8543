package postgres

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"paysaga/internal/idempotency"
	"paysaga/providers"
	"paysaga/saga"
)

// sagaColumns are the columns of a saga with its order and, where it is one's, its refund, in the order in which scanSaga scans
// them.
const sagaColumns = `
	o.account_id, o.id, o.status, o.currency, o.amount, o.customer_reference, o.customer_email, o.metadata,
	o.payment_provider, o.payment_method, o.payment_data, o.return_url, o.capture_mode, o.on_decline, o.payment_status,
	o.provider_reference, o.captured_amount, o.refunded_amount, o.refunding_amount, o.decline, o.next_action,
	o.created_at, o.updated_at,
	s.kind, s.key, s.generation, s.state, s.failures, s.drives, s.unrecorded, s.deadline_at, s.next_attempt_at, s.lock_version,
	s.locked_until, s.created_at, s.updated_at, now(),
	COALESCE((SELECT k.endpoint FROM idempotency_keys k
		WHERE k.account_id = s.account_id AND k.saga_key = s.key AND k.status = 'PROCESSING' LIMIT 1), ''),
	f.amount, f.reason, f.status, f.payment_provider, f.payment_reference, f.created_at, f.updated_at`

func (s *Store) scanSaga(row pgx.CollectableRow) (saga.Saga, error) {
	var g saga.Saga
	var reference, email *string
	var deadline, next *time.Time
	var data, action []byte
	var refund refundRow
	o := &g.Order
	err := row.Scan(
		&g.AccountID, &o.ID, &o.Status, &o.Currency, &o.Amount, &reference, &email, &o.Metadata,
		&o.Payment.Provider, &o.Payment.Method, &data, &o.Payment.ReturnURL, &o.Payment.Capture, &o.Payment.OnDecline, &o.Payment.Status,
		&o.Payment.ProviderReference, &o.Payment.CapturedAmount, &o.Payment.RefundedAmount, &o.Payment.RefundingAmount,
		&o.Payment.Decline, &action, &o.CreatedAt, &o.UpdatedAt,
		&g.Kind, &g.Key, &g.Generation, &g.State, &g.Failures, &g.Drives, &g.Unrecorded, &deadline, &next, &g.Lease.Fence,
		&g.Lease.Until, &g.CreatedAt, &g.UpdatedAt, &g.ReadAt, &g.Pending,
		&refund.amount, &refund.reason, &refund.status, &refund.provider, &refund.payment, &refund.createdAt, &refund.updatedAt,
	)
	if err != nil {
		return saga.Saga{}, fmt.Errorf("scan saga: %w", err)
	}
	g.DeadlineAt, g.NextAt = value(deadline), value(next)
	o.Customer = saga.Customer{Reference: value(reference), Email: value(email)}
	g.Refund = refund.of(&g)
	if o.Payment.MethodData, err = s.openData(g.AccountID, o.ID, data); err != nil {
		return saga.Saga{}, err
	}
	o.Payment.NextAction, err = s.openAction(g.AccountID, o.ID, action)
	return g, err
}

// GetOrder reads an order with its saga. Errors: saga.ErrNotFound, for another account's order as for none.
func (s *Store) GetOrder(ctx context.Context, account string, id uuid.UUID) (saga.Saga, error) {
	g, err := s.Load(ctx, saga.Ref{AccountID: account, Key: id})
	if err != nil {
		return saga.Saga{}, err
	}
	if g.Kind != saga.KindOrder {
		return saga.Saga{}, saga.ErrNotFound
	}
	return g, nil
}

// ListOrders reads an account's orders, newest first.
func (s *Store) ListOrders(ctx context.Context, account string, filter saga.OrderFilter) ([]saga.Saga, error) {
	var createdAt *time.Time
	var id *uuid.UUID
	if filter.Before != nil {
		createdAt, id = &filter.Before.CreatedAt, &filter.Before.ID
	}
	rows, err := s.pool.Query(ctx, `
		SELECT `+sagaColumns+`
		FROM orders o JOIN sagas s ON s.account_id = o.account_id AND s.key = o.id -- the saga that took the order has its id
		LEFT JOIN refunds f ON false
		WHERE o.account_id = $1 AND ($2 = '' OR o.status = $2) AND ($3 = '' OR o.payment_provider = $3)
			AND ($4::timestamptz IS NULL OR (o.created_at, o.id) < ($4, $5::uuid))
		ORDER BY o.created_at DESC, o.id DESC LIMIT $6`,
		account, filter.Status, filter.Provider, createdAt, id, filter.Limit)
	if err != nil {
		return nil, fmt.Errorf("list orders: %w", mapError(err))
	}
	sagas, err := pgx.CollectRows(rows, s.scanSaga)
	if err != nil {
		return nil, fmt.Errorf("list orders: %w", mapError(err))
	}
	if len(sagas) == 0 {
		return nil, nil
	}
	return sagas, s.fill(ctx, sagas)
}

// PutMetadata replaces the metadata of an order that stands as it was read, claims the key of the request and stores its answer: one
// transaction, as no provider is asked. Errors: saga.ErrKeyTaken, *idempotency.LimitError, saga.ErrOrderChanged.
func (s *Store) PutMetadata(
	ctx context.Context, claim saga.Claim, read saga.Saga, metadata map[string]string, answer saga.Answer,
) error {
	return s.withAnswers(ctx, claim.Retention, func() error {
		batch := &pgx.Batch{}
		queueClaim(batch, claim, nil, firstFence, 0)
		batch.Queue(`
			WITH changed AS (
				UPDATE orders SET metadata = $3, updated_at = $4
				WHERE account_id = $1 AND id = $2 AND updated_at = $5 AND metadata = $6::jsonb RETURNING 1)
			SELECT paysaga_require(count(*) = 1, '`+ruleOrder+`') FROM changed`,
			read.AccountID, read.Order.ID, metadata, read.ReadAt, read.Order.UpdatedAt, read.Order.Metadata)
		held := idempotency.Held{
			AccountID: claim.AccountID, Endpoint: claim.Endpoint, Key: claim.Key, Generation: claim.Generation, Fence: firstFence,
		}
		if err := s.queueHeldAnswer(batch, held, answer); err != nil {
			return err
		}
		return s.sendClaim(ctx, batch, claim)
	})
}

// queueItemsRead reads the lines of orders into every saga that is about them.
func queueItemsRead(batch *pgx.Batch, accounts []string, orders []uuid.UUID, ofOrder map[saga.Ref][]*saga.Saga) {
	batch.Queue(`
		SELECT i.account_id, i.order_id, i.sku, i.quantity, i.unit_amount
		FROM unnest($1::text[], $2::uuid[]) AS r (account_id, id)
		JOIN order_items i ON i.account_id = r.account_id AND i.order_id = r.id
		ORDER BY i.account_id, i.order_id, i.line`, accounts, orders,
	).Query(func(rows pgx.Rows) error {
		var order saga.Ref
		var item saga.Item
		_, err := pgx.ForEachRow(rows, []any{&order.AccountID, &order.Key, &item.SKU, &item.Quantity, &item.UnitAmount}, func() error {
			for _, g := range ofOrder[order] {
				g.Order.Items = append(g.Order.Items, item)
			}
			return nil
		})
		return err //nolint:wrapcheck // wrapped by fill
	})
}

// queueOrder writes a new order.
func (s *Store) queueOrder(batch *pgx.Batch, after *saga.Saga, begun *time.Time) error {
	o := &after.Order
	metadata := o.Metadata
	if metadata == nil {
		metadata = map[string]string{}
	}
	data, err := s.sealData(after)
	if err != nil {
		return err
	}
	batch.Queue(`
		INSERT INTO orders (account_id, id, status, currency, amount, customer_reference, customer_email, metadata,
			payment_provider, payment_method, return_url, payment_status, capture_mode, on_decline, payment_data)
		VALUES ($1, $2, $3, $4, $5, NULLIF($6, ''), NULLIF($7, ''), $8, $9, $10, $11, $12, $13, $14, $15) RETURNING created_at`,
		after.AccountID, o.ID, o.Status, o.Currency, o.Amount, o.Customer.Reference, o.Customer.Email, metadata,
		o.Payment.Provider, o.Payment.Method, o.Payment.ReturnURL, o.Payment.Status, o.Payment.Capture, o.Payment.OnDecline, data,
	).QueryRow(func(row pgx.Row) error {
		err := row.Scan(begun)
		o.CreatedAt, o.UpdatedAt = *begun, *begun
		return err //nolint:wrapcheck // wrapped by send
	})
	skus, quantities := lines(o.Items)
	unitAmounts := make([]int64, len(o.Items))
	for i, item := range o.Items {
		unitAmounts[i] = item.UnitAmount
	}
	batch.Queue(`
		INSERT INTO order_items (account_id, order_id, line, sku, quantity, unit_amount)
		SELECT $1, $2, line, sku, quantity, unit_amount
		FROM unnest($3::text[], $4::bigint[], $5::bigint[]) WITH ORDINALITY AS i (sku, quantity, unit_amount, line)`,
		after.AccountID, o.ID, skus, quantities, unitAmounts)
	return nil
}

// queueOrderUpdate writes what a saga may change about its order. What was ordered never changes. How it is paid changes only
// with another attempt to charge. What refunds have made of the money is theirs to write: from the order's completion on its own
// saga leaves it alone, and refunding_amount is never written here. A person who leaves an order in review as it ended leaves that
// alone, too.
func (s *Store) queueOrderUpdate(batch *pgx.Batch, after *saga.Saga, change saga.Change) error {
	o := &after.Order
	if change.From == saga.Completed || change.Decision != nil && change.Decision.Resolution == saga.ResolveAsItIs {
		batch.Queue(`UPDATE orders SET status = $3, updated_at = GREATEST(updated_at, $4) WHERE account_id = $1 AND id = $2`,
			after.AccountID, o.ID, o.Status, o.UpdatedAt)
		return nil
	}
	action, err := s.sealAction(after.AccountID, o.ID, o.Payment.NextAction)
	if err != nil {
		return err
	}
	set := `status = $3, payment_status = $4, provider_reference = $5, captured_amount = $6, refunded_amount = $7, decline = $8,
		next_action = $9, updated_at = GREATEST(updated_at, $10)`
	arguments := []any{
		after.AccountID, o.ID, o.Status, o.Payment.Status, o.Payment.ProviderReference, o.Payment.CapturedAmount,
		o.Payment.RefundedAmount, o.Payment.Decline, action, o.UpdatedAt,
	}
	switch {
	case chargesAnew(change.Steps):
		data, err := s.sealData(after)
		if err != nil {
			return err
		}
		set += `, payment_provider = $11, payment_method = $12, return_url = $13, payment_data = $14`
		arguments = append(arguments, o.Payment.Provider, o.Payment.Method, o.Payment.ReturnURL, data)
	case o.Payment.MethodData == nil:
		set += `, payment_data = NULL`
	}
	batch.Queue(`UPDATE orders SET `+set+` WHERE account_id = $1 AND id = $2`, arguments...)
	return nil
}

// chargesAnew tells whether a change opens another attempt to charge, the only time at which how an order is paid changes.
func chargesAnew(steps []saga.Step) bool {
	return slices.ContainsFunc(steps, func(step saga.Step) bool {
		return step.Name == saga.StepCharge && step.Attempt > 1 && step.StartedAt.IsZero()
	})
}

// sealData seals what the provider's client library made.
func (s *Store) sealData(g *saga.Saga) ([]byte, error) {
	payment := &g.Order.Payment
	if payment.MethodData == nil {
		return nil, nil
	}
	sealed, err := s.ring.Seal(payment.MethodData, dataContext(g.AccountID, g.Order.ID))
	if err != nil {
		return nil, fmt.Errorf("seal payment data: %w", err)
	}
	return sealed, nil
}

func (s *Store) openData(account string, order uuid.UUID, sealed []byte) (json.RawMessage, error) {
	if sealed == nil {
		return nil, nil
	}
	plain, err := s.ring.Open(sealed, dataContext(account, order))
	if err != nil {
		return nil, fmt.Errorf("open payment data: %w", err)
	}
	return plain, nil
}

// dataContext binds sealed payment data to their order: copied to another row, they do not open.
func dataContext(account string, order uuid.UUID) []byte {
	return []byte("payment_data\x00" + account + "\x00" + order.String())
}

func (s *Store) sealAction(account string, order uuid.UUID, action *providers.NextAction) ([]byte, error) {
	if action == nil {
		return nil, nil
	}
	plain, err := json.Marshal(action)
	if err != nil {
		return nil, fmt.Errorf("encode next action: %w", err)
	}
	sealed, err := s.ring.Seal(plain, actionContext(account, order))
	if err != nil {
		return nil, fmt.Errorf("seal next action: %w", err)
	}
	return sealed, nil
}

func (s *Store) openAction(account string, order uuid.UUID, sealed []byte) (*providers.NextAction, error) {
	if sealed == nil {
		return nil, nil //nolint:nilnil // an order without a next action is the usual case
	}
	plain, err := s.ring.Open(sealed, actionContext(account, order))
	if err != nil {
		return nil, fmt.Errorf("open next action: %w", err)
	}
	var action providers.NextAction
	if err := json.Unmarshal(plain, &action); err != nil {
		return nil, fmt.Errorf("decode next action: %w", err)
	}
	return &action, nil
}

// actionContext binds a sealed action to its order: copied to another row, it does not open.
func actionContext(account string, order uuid.UUID) []byte {
	return []byte("next_action\x00" + account + "\x00" + order.String())
}
