package saga

import (
	"context"
	"errors"
	"fmt"
	"time"

	"paysaga/providers"
)

const (
	// maxAsks bounds how often a request tries to get hold of a saga that somebody else has: a notice that is being applied, or
	// another request.
	maxAsks = 8
	// askPause, doubled from try to try, makes eight tries take two and a half seconds: longer than a provider's call mostly takes,
	// shorter than a client's patience.
	askPause = 20 * time.Millisecond
)

// Ask hands a request about an order to its saga, which must rest, and drives it as far as it goes now. The answer is stored
// under the claim's key.
//
// Errors, all of which wrote nothing: *RefusedError, *providers.RequestError, ErrUnknownProvider, ErrNotFound, ErrKeyTaken (look the
// key up), ErrOverloaded, ErrDraining. Others as for Start.
func (r *Runner) Ask(ctx context.Context, claim Claim, order Ref, request Request) (Answer, error) {
	return r.detached(ctx, r.slots, func(ctx context.Context) (Answer, error) {
		return r.untilFree(ctx, func() (Answer, error) { return r.tryAsk(ctx, claim, order, request) })
	})
}

// untilFree tries again while somebody else has the saga.
func (r *Runner) untilFree(ctx context.Context, try func() (Answer, error)) (Answer, error) {
	pause := askPause
	for tries := 1; ; tries++ {
		answer, err := try()
		switch {
		case !errors.Is(err, errAskedTooSoon):
			return answer, err
		case tries == maxAsks:
			return Answer{}, &RefusedError{Reason: RefusedBusy, Detail: "The order is being worked on."}
		}
		select {
		case <-time.After(pause):
		case <-ctx.Done():
			return Answer{}, fmt.Errorf("stopped while waiting for a saga: %w", context.Cause(ctx))
		}
		pause *= 2
	}
}

// errAskedTooSoon tells that somebody else has the saga at this moment. Nothing was written.
var errAskedTooSoon = errors.New("saga is being driven")

func (r *Runner) tryAsk(ctx context.Context, claim Claim, order Ref, request Request) (Answer, error) {
	s, err := r.Store.Load(ctx, order)
	if err != nil {
		return Answer{}, fmt.Errorf("load saga: %w", err)
	}
	if s.Kind == KindRefund { // its id is no order's
		return Answer{}, ErrNotFound
	}
	if s.Pending != "" || s.Lease.Until.After(s.ReadAt) {
		return Answer{}, errAskedTooSoon
	}
	if err := r.checkPayment(s, request.Payment); err != nil {
		return Answer{}, err
	}
	s.Pending = claim.Endpoint
	event := Event{Kind: Asked, Request: &request}
	change, asked, err := r.putRequest(ctx, claim, s, event)
	if errors.Is(err, ErrReservationLost) {
		event.Kind = ReservationLost
		change, asked, err = r.putRequest(ctx, claim, s, event)
	}
	switch {
	case errors.Is(err, ErrLeaseLost):
		return Answer{}, errAskedTooSoon
	case err != nil:
		return Answer{}, err
	case change.Release:
		return *change.Answer, nil
	}
	return r.drive(ctx, asked, inRequest)
}

// putRequest writes a request's key, and what it changes at once.
func (r *Runner) putRequest(ctx context.Context, claim Claim, s Saga, event Event) (Change, Saga, error) {
	change, err := Advance(s, event, r.policy(s))
	if err != nil {
		return Change{}, s, err
	}
	if err := r.finish(&change, s); err != nil {
		return Change{}, s, err
	}
	asked, err := r.Store.Ask(ctx, claim, change, r.Lease)
	if err != nil {
		return Change{}, s, fmt.Errorf("write request about order %s: %w", s.Order.ID, err)
	}
	return change, asked, nil
}

// checkPayment refuses another payment that could never be charged, before anything is written.
func (r *Runner) checkPayment(s Saga, payment *NewPayment) error {
	if payment == nil {
		return nil
	}
	provider, ok := r.Providers[payment.Provider]
	if !ok {
		return ErrUnknownProvider
	}
	next := s.clone()
	paid := &next.Order.Payment
	paid.Provider, paid.Method, paid.MethodData, paid.ReturnURL = payment.Provider, payment.Method, payment.MethodData, payment.ReturnURL
	if err := provider.Check(next.chargeRequest(*next.addStep(StepCharge, StepPending, payment.Provider))); err != nil {
		return fmt.Errorf("check payment: %w", err)
	}
	return nil
}

// Refund begins to give back an amount, in minor units, of a completed order; zero is all that is left. The answer is stored
// under the claim's key. Errors as for Ask.
func (r *Runner) Refund(ctx context.Context, claim Claim, order Ref, amount int64, reason string) (Answer, error) {
	return r.detached(ctx, r.slots, func(ctx context.Context) (Answer, error) {
		return r.untilFree(ctx, func() (Answer, error) { return r.tryRefund(ctx, claim, order, amount, reason) })
	})
}

func (r *Runner) tryRefund(ctx context.Context, claim Claim, order Ref, amount int64, reason string) (Answer, error) {
	s, err := r.Store.Load(ctx, order)
	if err != nil {
		return Answer{}, fmt.Errorf("load saga: %w", err)
	}
	if s.Kind == KindRefund { // its id is no order's
		return Answer{}, ErrNotFound
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
	payment := s.Order.Payment
	left := payment.CapturedAmount - payment.RefundedAmount - payment.RefundingAmount
	refuse := func(reason RefusalReason, format string, args ...any) (int64, error) {
		return 0, &RefusedError{Reason: reason, Detail: fmt.Sprintf(format, args...)}
	}
	money := func(amount int64) providers.Money { return providers.Money{Amount: amount, Currency: s.Order.Currency} }
	switch {
	case s.State == NeedsReview:
		return refuse(RefusedInReview, "A person must decide about this order first.")
	case s.State == RolledBack:
		return refuse(RefusedOver, "The order has come to nothing; no money is kept.")
	case s.State == Awaiting && s.captured() > 0:
		return refuse(RefusedNotCaptured, "A part of the money is still held: make the last capture final first.")
	case s.State == Awaiting:
		return refuse(RefusedNotCaptured, "No money is taken yet: a cancel gives the order up.")
	case s.State != Completed:
		return refuse(RefusedBusy, "The order is not decided yet.")
	case amount < 0 || amount > left || left == 0:
		return refuse(RefusedTooMuch, "%s can still be refunded.", money(left))
	case amount == 0:
		return left, nil
	}
	return amount, nil
}

// Notify brings what a provider announced to the saga that it is about, and drives that as far as it goes now. The same notice may
// come any number of times.
//
// Errors: ErrNotFound, ErrLeaseLost (somebody drives the saga: bring it again), ErrInReview (bring it again when a person has
// decided), ErrDraining, and whatever keeps a change from being written: bring it again.
func (r *Runner) Notify(ctx context.Context, ref Ref, notice providers.Notice) error {
	_, err := r.detached(ctx, nil, func(ctx context.Context) (Answer, error) {
		return Answer{}, r.applyNotice(ctx, ref, notice)
	})
	return err
}

func (r *Runner) applyNotice(ctx context.Context, ref Ref, notice providers.Notice) error {
	s, err := r.Store.Load(ctx, ref)
	if err != nil {
		return fmt.Errorf("load saga: %w", err)
	}
	if s.State == NeedsReview {
		return ErrInReview
	}
	if s.Lease.Until.After(s.ReadAt) { // what its holder learns may be the same, or older
		return ErrLeaseLost
	}
	news := hear(s, notice, r.policy(s).Windows)
	if news.nothing() {
		return nil
	}
	s, err = r.Store.Seize(ctx, ref, s.Lease.Fence, r.Lease)
	if err != nil {
		return fmt.Errorf("seize saga: %w", err)
	}
	r.Logger.InfoContext(ctx, "notice applied", "order_id", s.Order.ID, "provider", s.Order.Payment.Provider, "type", notice.Type)
	_, err = r.driveFrom(ctx, s, inRecovery, news)
	return err
}
