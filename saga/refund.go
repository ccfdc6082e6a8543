package saga

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/google/uuid"
)

// RefundStatus is how a refund stands.
type RefundStatus string

// The statuses of a refund.
const (
	RefundPending   RefundStatus = "pending"   // asked for; the provider or the bank has not decided
	RefundSucceeded RefundStatus = "succeeded" // the money is given back; a bank may still send it back later
	RefundFailed    RefundStatus = "failed"    // refused or sent back; the money stays with the shop
	RefundInReview  RefundStatus = "in_review" // a person must look
)

// Refund gives back money of a completed order, all or a part. It has a saga of its own, whose key is its id.
type Refund struct {
	ID        uuid.UUID
	OrderID   uuid.UUID
	Amount    int64  // minor units of the order's currency
	Reason    string // the shop's words, for its own books; may be empty
	Status    RefundStatus
	CreatedAt time.Time
	UpdatedAt time.Time

	// Of a refund that gives back another payment than the order's own, which was taken beside it: that payment. Such a refund is none
	// of the order's sums, and its shop is not told of it. Empty for all others.
	Provider string
	Payment  string // the provider's id
}

// ofAnother tells that a refund gives back another payment than the order's own.
func (r *Refund) ofAnother() bool { return r != nil && r.Payment != "" }

// RefundEffect is what a change of a refund's saga does to the order's sums. The database holds
// 0 <= refunded, 0 <= refunding and refunded + refunding <= captured.
type RefundEffect string

// The effects on the sums.
const (
	RefundNone   RefundEffect = ""
	RefundHold   RefundEffect = "hold"   // refunding grows
	RefundGive   RefundEffect = "give"   // refunding shrinks, refunded grows
	RefundFree   RefundEffect = "free"   // refunding shrinks
	RefundReturn RefundEffect = "return" // refunded shrinks: the bank sent the money back
	RefundFound  RefundEffect = "found"  // refunded grows: it was given after all, though nothing was held for it any more
)

// Refund begins to give back an amount, in minor units, of a completed order; zero is all that is left. The answer is stored
// under the claim's key.
//
// Errors, all of which wrote nothing: *RefusedError, ErrNotFound, ErrKeyTaken (look the key up), ErrOverloaded. The others are as for
// Ask.
func (r *Runner) Refund(ctx context.Context, claim Claim, order Ref, amount int64, reason string) (Answer, error) {
	return r.untilFree(ctx, func(ctx context.Context) (Answer, error) { return r.tryRefund(ctx, claim, order, amount, reason) })
}

func (r *Runner) tryRefund(ctx context.Context, claim Claim, order Ref, amount int64, reason string) (Answer, error) {
	s, err := r.loadOrder(ctx, order)
	if err != nil {
		return Answer{}, err
	}
	amount, err = refundable(s, amount)
	if err != nil {
		return Answer{}, err
	}
	key := Key(claim.AccountID, claim.Endpoint, claim.Key, claim.Generation)
	refund := Saga{
		Kind: KindRefund, AccountID: claim.AccountID, Key: key, Generation: claim.Generation, State: Started, Order: s.Order,
		Refund:  &Refund{ID: key, OrderID: s.Order.ID, Amount: amount, Reason: reason, Status: RefundPending},
		Pending: claim.Endpoint, ReadAt: s.ReadAt,
	}
	change, err := Advance(refund, Event{Kind: Resume}, r.policy(refund))
	if err != nil {
		return Answer{}, err
	}
	begun, err := r.Store.Begin(ctx, claim, change, r.Lease)
	switch {
	case errors.Is(err, ErrExceedsCapture): // another refund came first
		return Answer{}, errAskedTooSoon
	case err != nil:
		return Answer{}, fmt.Errorf("begin refund: %w", err)
	}
	return r.drive(ctx, begun, inRequest)
}

// refundable checks an order as it was read; the database has the last word.
func refundable(s Saga, amount int64) (int64, error) {
	if err := refusesRefunds(s); err != nil {
		return 0, err
	}
	payment := s.Order.Payment
	left := payment.CapturedAmount - payment.RefundedAmount - payment.RefundingAmount
	switch {
	case left == 0:
		return 0, refusedf(RefusedTooMuch, "All that was taken is given back, or on its way back.")
	case amount < 0 || amount > left:
		return 0, refusedf(RefusedTooMuch, "%s can still be refunded, not %s.", s.money(left), s.money(amount))
	case amount == 0:
		return left, nil
	}
	return amount, nil
}

// refusesRefunds tells why an order takes no refund as it stands, nil if it does.
func refusesRefunds(s Saga) error {
	switch {
	case s.State == NeedsReview:
		return refusedf(RefusedInReview, "A person must decide about this order first.")
	case s.State == RolledBack, s.State == Compensating:
		return refusedf(RefusedOver, "The order has come to nothing, or is being undone already; no money is kept.")
	case s.State == Awaiting && s.openStep(StepCapture) != nil:
		return refusedf(RefusedBusy, "A capture is on its way.")
	case s.State == Awaiting && s.captured() > 0:
		return refusedf(RefusedNotCaptured, "A part of the money is still held: cancel what is left, or make the last capture final, first.")
	case s.State == Awaiting:
		return refusedf(RefusedNotCaptured, "No money is taken yet: a cancel gives the order up.")
	case s.State != Completed:
		return refusedf(RefusedBusy, "The order is not decided yet.")
	}
	return nil
}
