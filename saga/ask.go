package saga

import (
	"context"
	"errors"
	"fmt"
	"time"
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
// key up), ErrOverloaded. The others are as for Start: after ErrLeaseLost or ErrAnswered look the key up; any other, ErrDraining
// among them, can leave the request to the recovery worker, and it may be sent again.
func (r *Runner) Ask(ctx context.Context, claim Claim, order Ref, request Request) (Answer, error) {
	return r.untilFree(ctx, func(ctx context.Context) (Answer, error) { return r.tryAsk(ctx, claim, order, request) })
}

// untilFree tries again while somebody else has the saga. It waits outside of the slots: requests about one busy order keep no other
// order out.
func (r *Runner) untilFree(ctx context.Context, try func(context.Context) (Answer, error)) (Answer, error) {
	pause := askPause
	for tries := 1; ; tries++ {
		answer, err := r.detached(ctx, r.slots, try)
		switch {
		case errors.Is(err, errAskedTooSoon) && tries == maxAsks:
			return Answer{}, &RefusedError{Reason: RefusedBusy, Detail: "The order is being worked on."}
		case errors.Is(err, errAskedTooSoon), errors.Is(err, ErrOverloaded) && 1 < tries && tries < maxAsks: // again
		default:
			return answer, err
		}
		select {
		case <-time.After(pause):
		case <-r.base.Done():
			return Answer{}, ErrDraining
		case <-ctx.Done():
			return Answer{}, fmt.Errorf("caller went away: %w", ctx.Err())
		}
		pause *= 2
	}
}

// errAskedTooSoon tells that somebody else has the saga at this moment. Nothing was written.
var errAskedTooSoon = errors.New("saga is being driven")

func (r *Runner) tryAsk(ctx context.Context, claim Claim, order Ref, request Request) (Answer, error) {
	s, err := r.loadOrder(ctx, order)
	if err != nil {
		return Answer{}, err
	}
	if s.busy() {
		return Answer{}, errAskedTooSoon
	}
	if err := r.checkPayment(s, request.Payment); err != nil {
		return Answer{}, err
	}
	return r.put(ctx, claim, s, Event{Kind: Asked, Request: &request})
}

// busy tells that somebody has the saga, or that an earlier request about it has no answer yet.
func (s *Saga) busy() bool { return s.Pending != "" || s.Lease.Until.After(s.ReadAt) }

// put hands what somebody asks, or has decided, to a saga that rests, and drives it.
func (r *Runner) put(ctx context.Context, claim Claim, s Saga, event Event) (Answer, error) {
	s.Pending = claim.Endpoint
	change, asked, err := r.claimAndWrite(ctx, claim, s, event)
	if errors.Is(err, ErrReservationLost) {
		event.Kind = ReservationLost
		change, asked, err = r.claimAndWrite(ctx, claim, s, event)
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

// loadOrder reads the saga of an order. Errors: ErrNotFound, also for a refund's.
func (r *Runner) loadOrder(ctx context.Context, order Ref) (Saga, error) {
	s, err := r.Store.Load(ctx, order)
	if err != nil {
		return Saga{}, fmt.Errorf("load saga: %w", err)
	}
	if s.Kind == KindRefund { // its id is no order's
		return Saga{}, ErrNotFound
	}
	return s, nil
}

// claimAndWrite writes a request's key, and what it changes at once.
func (r *Runner) claimAndWrite(ctx context.Context, claim Claim, s Saga, event Event) (Change, Saga, error) {
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

// asked folds a request about the order in.
func (f *fold) asked(r Request) {
	if f.saga.State == NeedsReview {
		f.refusef(RefusedInReview, "A person must decide about this order first.")
		return
	}
	switch r.Kind {
	case RequestContinue:
		f.askContinue(r)
	case RequestCapture:
		f.askCapture(r)
	case RequestCancel:
		f.askCancel()
	default:
		f.err = fmt.Errorf("unknown request %q", r.Kind)
	}
}

func (f *fold) refusef(reason RefusalReason, format string, args ...any) {
	f.err = refusedf(reason, format, args...)
}

func refusedf(reason RefusalReason, format string, args ...any) error {
	return &RefusedError{Reason: reason, Detail: fmt.Sprintf(format, args...)}
}

// busy refuses what has to wait for the end of something else.
func (f *fold) busy() {
	f.refusef(RefusedBusy, "The outcome of an earlier step is not known yet.")
}

// beingUndone refuses what the order will never be able to take again.
func (f *fold) beingUndone() {
	f.refusef(RefusedOver, "The order has come to nothing, or is being undone already.")
}

// askContinue goes on with the charge after the customer acted, or begins another one after a decline. An order that is paid by
// now, as a notice or a poll came first, is told as it stands.
func (f *fold) askContinue(r Request) {
	s := &f.saga
	switch {
	case s.State == Completed, s.State == RolledBack, s.held() && s.openStep(StepCapture) != nil:
		return
	case s.held():
		f.pause = max(min(holdPoll, s.DeadlineAt.Sub(s.ReadAt)), 0) // a look has its own time
	case s.State == Compensating:
		f.beingUndone()
	case s.State != Awaiting, s.openStep(StepVoid) != nil, s.openStep(StepContinue) != nil:
		f.busy()
	case s.step(StepCharge).Status == StepFailed && r.Payment == nil:
		f.refusef(RefusedPaymentRequired, "The payment was declined: send another one.")
	case s.step(StepCharge).Status == StepFailed:
		f.nextCharge(*r.Payment)
	case r.Payment != nil:
		f.refusef(RefusedPaymentOpen, "The present payment is still open; another one can follow only after a decline.")
	default:
		s.addStep(StepContinue, StepPending, s.step(StepCharge).Provider).Details = string(r.Details)
	}
}

// nextCharge is the next attempt to charge, with identifiers of its own.
func (f *fold) nextCharge(p NewPayment) {
	payment := &f.saga.Order.Payment
	payment.Provider, payment.Method, payment.MethodData, payment.ReturnURL = p.Provider, p.Method, p.MethodData, p.ReturnURL
	payment.Decline = nil
	f.stopWaiting()
	f.saga.addStep(StepCharge, StepPending, p.Provider)
	f.fire(fireSend)
}

func (f *fold) askCapture(r Request) {
	s := &f.saga
	switch {
	case s.State == RolledBack, s.State == Compensating:
		f.beingUndone()
		return
	case s.State == Awaiting && s.openStep(StepCapture) != nil, s.State == Charging:
		f.busy()
		return
	case !s.held():
		f.refusef(RefusedNotHeld, "No money is held for this order that could be captured.")
		return
	}
	left := s.Order.Amount - s.captured()
	amount := r.Amount
	if amount == 0 {
		amount = left
	}
	if amount < 0 || amount > left {
		f.refusef(RefusedTooMuch, "%s can still be captured, not %s.", s.money(left), s.money(amount))
		return
	}
	if f.policy.Windows.OneCapture && amount < left && !r.Final {
		f.refusef(RefusedOneCapture, "The provider captures a payment once: a part can only be the final capture.")
		return
	}
	capture := s.addStep(StepCapture, StepPending, s.step(StepCharge).Provider)
	capture.SubKey, capture.Amount, capture.Final = SubKey(r.Key, StepCapture, 1), amount, r.Final || amount == left
}

// codeCanceled marks the void of an order that was called off and had no payment to close.
const codeCanceled = "canceled_by_request"

// askCancel gives the order up. One of which a part is taken is completed with that, and the rest of its hold is let go.
func (f *fold) askCancel() {
	s := &f.saga
	switch {
	case s.State == RolledBack && orderStatus(s) == OrderCanceled:
		return
	case s.State == RolledBack, s.State == Compensating:
		f.beingUndone()
	case s.State == Completed:
		f.refusef(RefusedCaptured, "The money is taken: a refund gives it back.")
	case s.State != Awaiting, s.openStep(StepCapture) != nil, s.openStep(StepContinue) != nil, s.openStep(StepVoid) != nil:
		f.busy()
	case s.step(StepCharge).Status == StepFailed:
		f.compensate()
		s.addStep(StepVoid, StepDone, "").Code = codeCanceled
	default:
		f.giveUp()
	}
}
