package postgres

import (
	"context"
	"encoding/json"
	"fmt"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"paysaga/providers"
	"paysaga/saga"
)

// orderColumns are the columns of an order and its saga, in the order in which orderRow scans them.
const orderColumns = `
	o.account_id, o.id, o.status, o.currency, o.amount, o.customer_reference, o.customer_email, o.metadata,
	o.payment_provider, o.payment_method, o.return_url, o.payment_status, o.provider_reference, o.captured_amount,
	o.refunded_amount, o.decline, o.next_action, o.created_at, o.updated_at,
	s.key, s.generation, s.state, s.failures, s.drives, s.unrecorded, s.deadline_at, s.next_attempt_at, s.lock_version, s.locked_until,
	s.created_at, s.updated_at, now(),
	NOT EXISTS (SELECT 1 FROM idempotency_keys k
		WHERE k.account_id = s.account_id AND k.saga_key = s.key AND k.status = 'PROCESSING')`

func (s *Store) scanOrder(row pgx.CollectableRow) (saga.Saga, error) {
	var g saga.Saga
	var reference, email *string
	var deadline, next *time.Time
	var action []byte
	o := &g.Order
	err := row.Scan(
		&g.AccountID, &o.ID, &o.Status, &o.Currency, &o.Amount, &reference, &email, &o.Metadata,
		&o.Payment.Provider, &o.Payment.Method, &o.Payment.ReturnURL, &o.Payment.Status, &o.Payment.ProviderReference,
		&o.Payment.CapturedAmount, &o.Payment.RefundedAmount, &o.Payment.Decline, &action, &o.CreatedAt, &o.UpdatedAt,
		&g.Key, &g.Generation, &g.State, &g.Failures, &g.Drives, &g.Unrecorded, &deadline, &next, &g.Lease.Fence, &g.Lease.Until,
		&g.CreatedAt, &g.UpdatedAt, &g.ReadAt, &g.Answered,
	)
	if err != nil {
		return saga.Saga{}, fmt.Errorf("scan order: %w", err)
	}
	g.DeadlineAt, g.NextAt = value(deadline), value(next)
	o.Customer = saga.Customer{Reference: value(reference), Email: value(email)}
	o.Payment.NextAction, err = s.openAction(g.AccountID, o.ID, action)
	return g, err
}

// value is what a nullable column holds, or the zero value.
func value[T any](column *T) T {
	if column == nil {
		var zero T
		return zero
	}
	return *column
}

// load reads sagas whole, each with its order, lines and steps. Errors: saga.ErrNotFound where one does not exist.
func (s *Store) load(ctx context.Context, refs []saga.Ref) ([]saga.Saga, error) {
	accounts, keys := make([]string, len(refs)), make([]uuid.UUID, len(refs))
	for i, ref := range refs {
		accounts[i], keys[i] = ref.AccountID, ref.Key
	}
	rows, err := s.pool.Query(ctx, `
		SELECT `+orderColumns+`
		FROM unnest($1::text[], $2::uuid[]) WITH ORDINALITY AS r (account_id, key, place)
		JOIN sagas s ON s.account_id = r.account_id AND s.key = r.key
		JOIN orders o ON o.account_id = s.account_id AND o.id = s.order_id
		ORDER BY r.place`, accounts, keys)
	if err != nil {
		return nil, fmt.Errorf("load sagas: %w", mapError(err))
	}
	sagas, err := pgx.CollectRows(rows, s.scanOrder)
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
	accounts, keys := make([]string, len(sagas)), make([]uuid.UUID, len(sagas))
	place := make(map[saga.Ref]*saga.Saga, len(sagas))
	for i := range sagas {
		accounts[i], keys[i] = sagas[i].AccountID, sagas[i].Key
		place[saga.Ref{AccountID: accounts[i], Key: keys[i]}] = &sagas[i]
	}
	batch := &pgx.Batch{}
	var ref saga.Ref
	batch.Queue(`
		SELECT i.account_id, i.order_id, i.sku, i.quantity, i.unit_amount
		FROM unnest($1::text[], $2::uuid[]) AS r (account_id, key)
		JOIN order_items i ON i.account_id = r.account_id AND i.order_id = r.key
		ORDER BY i.account_id, i.order_id, i.line`, accounts, keys,
	).Query(func(rows pgx.Rows) error {
		var item saga.Item
		_, err := pgx.ForEachRow(rows, []any{&ref.AccountID, &ref.Key, &item.SKU, &item.Quantity, &item.UnitAmount}, func() error {
			place[ref].Order.Items = append(place[ref].Order.Items, item)
			return nil
		})
		return err //nolint:wrapcheck // wrapped by fill
	})
	batch.Queue(`
		SELECT t.account_id, t.saga_key, t.name, t.attempt, t.sub_key, t.status, t.provider, t.provider_reference, t.outcome,
			t.code, t.detail, t.sends, t.sent_at, t.started_at, t.finished_at
		FROM unnest($1::text[], $2::uuid[]) AS r (account_id, key)
		JOIN saga_steps t ON t.account_id = r.account_id AND t.saga_key = r.key
		ORDER BY t.started_at, t.attempt, array_position(ARRAY['reserve', 'charge', 'confirm', 'void', 'refund', 'release'], t.name)`,
		accounts, keys,
	).Query(func(rows pgx.Rows) error {
		var t saga.Step
		var sent, finished *time.Time
		_, err := pgx.ForEachRow(rows, []any{
			&ref.AccountID, &ref.Key, &t.Name, &t.Attempt, &t.SubKey, &t.Status, &t.Provider, &t.ProviderReference, &t.Outcome,
			&t.Code, &t.Detail, &t.Sends, &sent, &t.StartedAt, &finished,
		}, func() error {
			t.SentAt, t.FinishedAt = value(sent), value(finished)
			place[ref].Steps = append(place[ref].Steps, t)
			return nil
		})
		return err //nolint:wrapcheck // wrapped by fill
	})
	if err := s.send(ctx, batch); err != nil {
		return fmt.Errorf("load lines and steps: %w", err)
	}
	return nil
}

// GetOrder reads an order with its saga. Errors: saga.ErrNotFound, for another account's order as for none.
func (s *Store) GetOrder(ctx context.Context, account string, id uuid.UUID) (saga.Saga, error) {
	sagas, err := s.load(ctx, []saga.Ref{{AccountID: account, Key: id}})
	if err != nil {
		return saga.Saga{}, err
	}
	return sagas[0], nil
}

// ListOrders reads an account's orders, newest first.
func (s *Store) ListOrders(ctx context.Context, account string, filter saga.OrderFilter) ([]saga.Saga, error) {
	var createdAt *time.Time
	var id *uuid.UUID
	if filter.Before != nil {
		createdAt, id = &filter.Before.CreatedAt, &filter.Before.ID
	}
	rows, err := s.pool.Query(ctx, `
		SELECT `+orderColumns+`
		FROM orders o JOIN sagas s ON s.account_id = o.account_id AND s.key = o.id -- the saga that took the order has its id
		WHERE o.account_id = $1 AND ($2 = '' OR o.status = $2) AND ($3 = '' OR o.payment_provider = $3)
			AND ($4::timestamptz IS NULL OR (o.created_at, o.id) < ($4, $5::uuid))
		ORDER BY o.created_at DESC, o.id DESC LIMIT $6`,
		account, filter.Status, filter.Provider, createdAt, id, filter.Limit)
	if err != nil {
		return nil, fmt.Errorf("list orders: %w", mapError(err))
	}
	sagas, err := pgx.CollectRows(rows, s.scanOrder)
	if err != nil {
		return nil, fmt.Errorf("list orders: %w", mapError(err))
	}
	if len(sagas) == 0 {
		return nil, nil
	}
	return sagas, s.fill(ctx, sagas)
}

func queueOrder(batch *pgx.Batch, after *saga.Saga, begun *time.Time) {
	o := &after.Order
	metadata := o.Metadata
	if metadata == nil {
		metadata = map[string]string{}
	}
	batch.Queue(`
		INSERT INTO orders (account_id, id, status, currency, amount, customer_reference, customer_email, metadata,
			payment_provider, payment_method, return_url, payment_status)
		VALUES ($1, $2, $3, $4, $5, NULLIF($6, ''), NULLIF($7, ''), $8, $9, $10, $11, $12) RETURNING created_at`,
		after.AccountID, o.ID, o.Status, o.Currency, o.Amount, o.Customer.Reference, o.Customer.Email, metadata,
		o.Payment.Provider, o.Payment.Method, o.Payment.ReturnURL, o.Payment.Status,
	).QueryRow(func(row pgx.Row) error { return row.Scan(begun) })
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
}

// queueOrderUpdate writes what a saga may change about its order. What was ordered never changes.
func (s *Store) queueOrderUpdate(batch *pgx.Batch, after *saga.Saga) error {
	o := &after.Order
	action, err := s.sealAction(after.AccountID, o.ID, o.Payment.NextAction)
	if err != nil {
		return err
	}
	batch.Queue(`
		UPDATE orders SET status = $3, payment_status = $4, provider_reference = $5, captured_amount = $6,
			refunded_amount = $7, decline = $8, next_action = $9, updated_at = $10
		WHERE account_id = $1 AND id = $2`,
		after.AccountID, o.ID, o.Status, o.Payment.Status, o.Payment.ProviderReference, o.Payment.CapturedAmount,
		o.Payment.RefundedAmount, o.Payment.Decline, action, o.UpdatedAt)
	return nil
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
