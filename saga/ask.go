package saga

import "fmt"

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
	f.err = &RefusedError{Reason: reason, Detail: fmt.Sprintf(format, args...)}
}

// busy refuses what has to wait for the end of something else.
func (f *fold) busy() {
	f.refusef(RefusedBusy, "The outcome of an earlier step is not known yet.")
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
	case s.State != Awaiting:
		f.busy()
	case s.openStep(StepVoid) != nil, s.openStep(StepContinue) != nil:
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
	case s.State == RolledBack:
		f.refusef(RefusedOver, "The order has come to nothing; no money is held.")
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
		f.refusef(RefusedTooMuch, "%s can still be captured, not %s.", f.money(left), f.money(amount))
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

func (f *fold) askCancel() {
	s := &f.saga
	switch {
	case s.State == RolledBack && orderStatus(s) == OrderCanceled:
		return
	case s.State == RolledBack, s.State == Compensating:
		f.refusef(RefusedOver, "The order has come to nothing, or is being undone already.")
	case s.State == Completed, s.State == Awaiting && s.captured() > 0:
		f.refusef(RefusedCaptured, "The money is taken, at least in part: a refund gives it back.")
	case s.State != Awaiting, s.openStep(StepCapture) != nil, s.openStep(StepContinue) != nil, s.openStep(StepVoid) != nil:
		f.busy()
	case s.step(StepCharge).Status == StepFailed:
		f.compensate()
		s.addStep(StepVoid, StepDone, "").Code = codeCanceled
	default:
		f.giveUp()
	}
}
