package postgres

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"paysaga/saga"
)

// maxRefunds bounds a list of refunds. A shop that gives one order back in more parts still sees its newest.
const maxRefunds = 1000

// ListRefunds reads the refunds of an order, newest last: of more than a thousand, the newest thousand. An order that does not
// exist has none.
func (s *Store) ListRefunds(ctx context.Context, account string, orderID uuid.UUID) ([]saga.Saga, error) {
	rows, err := s.pool.Query(ctx, `
		SELECT `+sagaColumns+`
		FROM refunds f
		JOIN sagas s ON s.account_id = f.account_id AND s.key = f.id
		JOIN orders o ON o.account_id = f.account_id AND o.id = f.order_id
		WHERE f.account_id = $1 AND f.order_id = $2 ORDER BY f.created_at DESC, f.id DESC LIMIT $3`, account, orderID, maxRefunds)
	if err != nil {
		return nil, fmt.Errorf("list refunds: %w", mapError(err))
	}
	sagas, err := pgx.CollectRows(rows, s.scanSaga)
	if err != nil {
		return nil, fmt.Errorf("list refunds: %w", mapError(err))
	}
	if len(sagas) == 0 {
		return nil, nil
	}
	slices.Reverse(sagas)
	return sagas, s.fill(ctx, sagas)
}

// GetRefund reads one refund of an order with its saga. Errors: saga.ErrNotFound.
func (s *Store) GetRefund(ctx context.Context, account string, orderID, refundID uuid.UUID) (saga.Saga, error) {
	g, err := s.Load(ctx, saga.Ref{AccountID: account, Key: refundID})
	if err != nil {
		return saga.Saga{}, err
	}
	if g.Kind != saga.KindRefund || g.Order.ID != orderID {
		return saga.Saga{}, saga.ErrNotFound
	}
	return g, nil
}

// refundRow is a refund's row; all of it is NULL beside an order's own saga.
type refundRow struct {
	amount               *int64
	reason               *string
	status               *saga.RefundStatus
	createdAt, updatedAt *time.Time
}

func (r refundRow) of(g *saga.Saga) *saga.Refund {
	if g.Kind != saga.KindRefund {
		return nil
	}
	return &saga.Refund{
		ID: g.Key, OrderID: g.Order.ID, Amount: value(r.amount), Reason: value(r.reason), Status: value(r.status),
		CreatedAt: value(r.createdAt), UpdatedAt: value(r.updatedAt),
	}
}

// queueRefundBegin writes a new refund with its saga, and holds its sum on the order.
func (s *Store) queueRefundBegin(batch *pgx.Batch, after *saga.Saga, change saga.Change, lease time.Duration, begun *time.Time) error {
	if after.Refund == nil || change.Refund != saga.RefundHold {
		return errors.New("a refund must begin by holding its sum")
	}
	refund := *after.Refund
	after.Refund = &refund
	queueHold(batch, after, begun)
	queueSaga(batch, after, lease)
	batch.Queue(`
		INSERT INTO refunds (account_id, id, order_id, amount, reason, status) VALUES ($1, $2, $3, $4, $5, $6)
		RETURNING created_at, updated_at`,
		after.AccountID, refund.ID, refund.OrderID, refund.Amount, refund.Reason, refund.Status,
	).QueryRow(func(row pgx.Row) error { return row.Scan(&after.Refund.CreatedAt, &after.Refund.UpdatedAt) })
	return s.queueRest(batch, after, change)
}

// queueRefundChange writes what a change of a refund's saga brings. Of the order it touches the sums alone.
func (s *Store) queueRefundChange(batch *pgx.Batch, after *saga.Saga, change saga.Change) error {
	batch.Queue(`UPDATE refunds SET status = $3, updated_at = $4 WHERE account_id = $1 AND id = $2 AND status <> $3`,
		after.AccountID, after.Key, after.Refund.Status, after.Refund.UpdatedAt)
	if err := s.queueRest(batch, after, change); err != nil {
		return err
	}
	return queueSums(batch, after, change.Refund) // last: other refunds wait for the order's row
}

// moveSums adds $3 to what is being refunded of an order and $4 to what is refunded. The CHECK on the row is what refuses to
// give back more than was captured; refunds that come together wait for each other there.
const moveSums = `
	UPDATE orders o SET refunding_amount = o.refunding_amount + $3, refunded_amount = o.refunded_amount + $4,
		payment_status = CASE o.refunded_amount + $4 WHEN 0 THEN 'captured' WHEN o.captured_amount THEN 'refunded'
			ELSE 'partially_refunded' END, updated_at = GREATEST(o.updated_at, now())`

// movedSums returns the order's row as moveSums left it in "moved".
const movedSums = `
	RETURNING o.refunding_amount, o.refunded_amount, o.payment_status
	) SELECT paysaga_require(count(*) = 1, '` + ruleRefundable + `'), max(refunding_amount), max(refunded_amount),
		max(payment_status), now() FROM moved`

// queueHold holds a new refund's sum. The order's own saga must be completed, and stay so until this is committed: nobody else
// counts on the sums then. An amount beyond the capture is kept from the addition, which could overflow.
func queueHold(batch *pgx.Batch, after *saga.Saga, begun *time.Time) {
	batch.Queue(`
		WITH paid AS (
			SELECT FROM sagas WHERE account_id = $1 AND key = $2 AND kind = 'order' AND state = 'completed' FOR SHARE
		), moved AS (`+moveSums+` FROM paid WHERE o.account_id = $1 AND o.id = $2 AND $3 <= o.captured_amount`+movedSums,
		after.AccountID, after.Order.ID, after.Refund.Amount, 0,
	).QueryRow(scanSums(after, begun))
}

// queueSums moves the order's sums by what became of a refund.
func queueSums(batch *pgx.Batch, after *saga.Saga, effect saga.RefundEffect) error {
	var refunding, refunded int64
	switch amount := after.Refund.Amount; effect {
	case saga.RefundNone:
		return nil
	case saga.RefundGive:
		refunding, refunded = -amount, amount
	case saga.RefundFree:
		refunding = -amount
	case saga.RefundReturn:
		refunded = -amount
	case saga.RefundFound:
		refunded = amount
	case saga.RefundHold:
		return errors.New("a refund holds its sum as it begins, not later")
	}
	var moved time.Time
	batch.Queue(`WITH moved AS (`+moveSums+` WHERE o.account_id = $1 AND o.id = $2`+movedSums,
		after.AccountID, after.Order.ID, refunding, refunded,
	).QueryRow(scanSums(after, &moved))
	return nil
}

func scanSums(after *saga.Saga, moved *time.Time) func(pgx.Row) error {
	payment := &after.Order.Payment
	return func(row pgx.Row) error {
		if err := row.Scan(nil, &payment.RefundingAmount, &payment.RefundedAmount, &payment.Status, moved); err != nil {
			return err //nolint:wrapcheck // wrapped by send
		}
		after.Order.UpdatedAt = *moved
		return nil
	}
}
