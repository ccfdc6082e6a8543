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

// ListRefunds reads the refunds of an order's own payment, newest last: of more than a thousand, the newest thousand. An order that does
// not exist has none.
func (s *Store) ListRefunds(ctx context.Context, account string, orderID uuid.UUID) ([]saga.Saga, error) {
	return s.readRefunds(ctx, saga.Ref{AccountID: account, Key: orderID}, false)
}

// Refunds reads as well those of payments beside the order's own.
func (s *Store) Refunds(ctx context.Context, order saga.Ref) ([]saga.Saga, error) {
	return s.readRefunds(ctx, order, true)
}

func (s *Store) readRefunds(ctx context.Context, order saga.Ref, ofOthers bool) ([]saga.Saga, error) {
	rows, err := s.pool.Query(ctx, `
		SELECT `+sagaColumns+`
		FROM refunds f
		JOIN sagas s ON s.account_id = f.account_id AND s.key = f.id
		JOIN orders o ON o.account_id = f.account_id AND o.id = f.order_id
		WHERE f.account_id = $1 AND f.order_id = $2 AND ($4 OR f.payment_reference = '')
		ORDER BY f.created_at DESC, f.id DESC LIMIT $3`, order.AccountID, order.Key, maxRefunds, ofOthers)
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

// GetRefund reads one refund of an order's own payment with its saga. Errors: saga.ErrNotFound.
func (s *Store) GetRefund(ctx context.Context, account string, orderID, refundID uuid.UUID) (saga.Saga, error) {
	g, err := s.Load(ctx, saga.Ref{AccountID: account, Key: refundID})
	if err != nil {
		return saga.Saga{}, err
	}
	if g.Kind != saga.KindRefund || g.Order.ID != orderID || g.Refund.Payment != "" {
		return saga.Saga{}, saga.ErrNotFound
	}
	return g, nil
}

// refundRow is a refund's row; all of it is NULL beside an order's own saga.
type refundRow struct {
	amount               *int64
	reason               *string
	provider, payment    *string
	status               *saga.RefundStatus
	createdAt, updatedAt *time.Time
}

func (r refundRow) of(g *saga.Saga) *saga.Refund {
	if g.Kind != saga.KindRefund {
		return nil
	}
	return &saga.Refund{
		ID: g.Key, OrderID: g.Order.ID, Amount: value(r.amount), Reason: value(r.reason), Status: value(r.status),
		Provider: value(r.provider), Payment: value(r.payment), CreatedAt: value(r.createdAt), UpdatedAt: value(r.updatedAt),
	}
}

// queueRefundBegin writes a new refund with its saga, and holds its sum on the order, or counts it there when it was given before.
func (s *Store) queueRefundBegin(batch *pgx.Batch, after *saga.Saga, change saga.Change, lease time.Duration, begun *time.Time) error {
	if after.Refund == nil {
		return errors.New("a refund's saga has a refund")
	}
	refund := *after.Refund
	after.Refund = &refund
	switch {
	case refund.Payment != "" && change.Refund == saga.RefundNone:
		batch.Queue(`SELECT now()`).QueryRow(func(row pgx.Row) error { return row.Scan(begun) })
		queuePaymentCheck(batch, after, refund.Provider, refund.Payment, true)
	case refund.Payment == "" && change.Refund == saga.RefundHold:
		queueHold(batch, after, refund.Amount, 0, begun)
	case refund.Payment == "" && change.Refund == saga.RefundFound:
		queueHold(batch, after, 0, refund.Amount, begun)
	default:
		return errors.New("a refund must begin by holding its sum, or by having been given, unless it is of another payment")
	}
	queueSaga(batch, after, lease)
	batch.Queue(`
		INSERT INTO refunds (account_id, id, order_id, amount, reason, status, payment_provider, payment_reference)
		VALUES ($1, $2, $3, $4, $5, $6, $7, $8) RETURNING created_at, updated_at`,
		after.AccountID, refund.ID, refund.OrderID, refund.Amount, refund.Reason, refund.Status, refund.Provider, refund.Payment,
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

// queueHold holds a new refund's sum, or counts one as given. The order's own saga must be completed, and stay so until this is committed:
// nobody else counts on the sums then. An amount beyond the capture is kept from the addition, which could overflow.
func queueHold(batch *pgx.Batch, after *saga.Saga, refunding, refunded int64, begun *time.Time) {
	batch.Queue(`
		WITH paid AS (
			SELECT FROM sagas WHERE account_id = $1 AND key = $2 AND kind = 'order' AND state = 'completed' FOR SHARE
		), moved AS (`+moveSums+` FROM paid
			WHERE o.account_id = $1 AND o.id = $2 AND $3::bigint <= o.captured_amount AND $4::bigint <= o.captured_amount`+movedSums,
		after.AccountID, after.Order.ID, refunding, refunded,
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
