package saga

import (
	"fmt"
	"time"

	"paysaga/providers"
)

// take accepts the money, after holding the provider's amount against the order's.
func (f *fold) take(charge *Step, outcome providers.Outcome) {
	if outcome.Code == providers.CodePartiallyRefunded {
		f.review(FindingRefundedAtProvider, "The provider took the money and has given a part of it back, which nobody here asked for.")
		return
	}
	if f.saga.Order.Payment.Capture == CaptureManual {
		f.takeHeld(charge, outcome)
		return
	}
	if !f.rightAmount(charge, outcome) {
		return
	}
	f.stopWaiting()
	f.fire(fireTake)
}

// rightAmount holds the provider's amount, where it tells one, against the order's.
func (f *fold) rightAmount(charge *Step, outcome providers.Outcome) bool {
	ours := f.saga.Order.Money()
	if outcome.Money == (providers.Money{}) || outcome.Money == ours {
		return true
	}
	charge.Status = StepUnknown
	f.review(mismatch(outcome.Money, ours), fmt.Sprintf("The provider took %s, the order is about %s.", outcome.Money, ours))
	return false
}

// mismatch is the finding about money that is not what was asked for.
func mismatch(told, ours providers.Money) string {
	if told.Currency != ours.Currency {
		return FindingCurrencyMismatch
	}
	return FindingAmountMismatch
}

// hold waits with the stock reserved until the money is captured, or the hold ends.
func (f *fold) hold(charge *Step, outcome providers.Outcome, held bool) {
	if f.saga.Order.Payment.Capture != CaptureManual { // the capture was asked for and did not happen
		charge.Status = StepUnknown
		f.unexpected(charge, outcome)
		return
	}
	some := f.saga.captured() > 0 || outcome.Code == providers.CodePartiallyCaptured
	if capture := f.saga.openStep(StepCapture); capture != nil && !capture.Final && some {
		f.review(FindingCaptureUnclear, fmt.Sprintf("Money is still held, which tells nothing of the capture of %s.",
			f.saga.money(capture.Amount)))
		return
	}
	if f.settleOpenCapture(charge, f.saga.captured(), outcome) || f.saga.captured() == 0 && !f.rightAmount(charge, outcome) {
		return
	}
	f.startAwaiting()
	f.saga.Order.Payment.NextAction = nil
	if !held {
		f.saga.DeadlineAt = time.Time{}
	}
	f.setDeadline(f.policy.Windows.Hold)
	f.waitUntilDeadline(holdPoll)
}

// await waits for the customer or the provider. Each has its own deadline; at the customer's the payment is closed.
func (f *fold) await(charge *Step, outcome providers.Outcome, held bool) {
	s := &f.saga
	if held { // held money does not go back to waiting for its customer
		if capture := s.openStep(StepCapture); capture != nil && outcome.Kind == providers.Processing {
			charge.Status, charge.Outcome = StepDone, providers.Authorized
			f.awaitEnd(capture)
			return
		}
		f.unexpected(charge, outcome)
		return
	}
	f.startAwaiting()
	if outcome.Code == providers.CodeApproved {
		f.approved(charge)
		return
	}
	if outcome.Kind == providers.Processing {
		if s.Order.Payment.NextAction != nil || s.DeadlineAt.IsZero() {
			s.DeadlineAt = s.ReadAt.Add(f.policy.ProcessingDeadline)
		}
		s.Order.Payment.NextAction = nil
	} else {
		f.setDeadline(f.policy.AwaitDeadline)
		if outcome.NextAction != nil {
			s.Order.Payment.NextAction = outcome.NextAction
		}
	}
	f.waitUntilDeadline(pollPause(s.ReadAt.Sub(s.step(StepCharge).StartedAt)))
}

// approved takes the money of a payment that only we can take now, by a continue of our own. One that was refused is not followed by
// another but on request.
func (f *fold) approved(charge *Step) {
	s := &f.saga
	s.Order.Payment.NextAction = nil
	f.setDeadline(f.policy.AwaitDeadline)
	proceed := s.step(StepContinue)
	switch {
	case proceed != nil && proceed.open():
	case proceed == nil, proceed.Status != StepFailed, proceed.StartedAt.Before(charge.StartedAt):
		s.addStep(StepContinue, StepPending, charge.Provider)
	default:
		f.waitUntilDeadline(pollPause(s.ReadAt.Sub(charge.StartedAt)))
	}
}

// startAwaiting enters the waiting state. A new attempt after a decline gives its customer the whole time again.
func (f *fold) startAwaiting() {
	if f.saga.State == Charging {
		f.fire(fireAwait)
		f.saga.DeadlineAt = time.Time{}
	}
}

// setDeadline gives a deadline to what has none yet.
func (f *fold) setDeadline(after time.Duration) {
	if f.saga.DeadlineAt.IsZero() {
		f.saga.DeadlineAt = f.saga.ReadAt.Add(after)
	}
}

// waitUntilDeadline rests, at most for a pause; past the deadline it gives the payment up. A saga that a person let wait again has
// no deadline: it gets a new one.
func (f *fold) waitUntilDeadline(pause time.Duration) {
	f.setDeadline(f.usualWait())
	left := f.saga.DeadlineAt.Sub(f.saga.ReadAt)
	switch {
	case left <= 0:
		f.giveUp()
	case f.policy.Windows.NoLookup:
		f.pause = left
	default:
		f.pause = min(pause, left)
	}
}

// usualWait is how long a payment as it stands may stay so.
func (f *fold) usualWait() time.Duration {
	switch charge := f.saga.step(StepCharge); {
	case f.saga.held():
		return f.policy.Windows.Hold
	case charge.open() && charge.Outcome == providers.Processing:
		return f.policy.ProcessingDeadline
	}
	return f.policy.AwaitDeadline
}

// giveUp undoes an order that waits, and closes a payment that is still open first.
func (f *fold) giveUp() {
	charge := f.saga.step(StepCharge)
	switch {
	case f.saga.captured() > 0: // what is taken is kept, and the rest of the hold ends by itself
		f.capturesDone(true)
	case charge.Status == StepFailed:
		f.compensate()
	case charge.Status == StepDone && charge.Outcome == providers.Canceled: // the hold had ended before
		charge.Status = StepUndone
		f.compensate()
	default:
		f.compensate()
		f.addVoid()
	}
}

// stopWaiting ends what an awaited payment asked of the customer.
func (f *fold) stopWaiting() {
	f.saga.DeadlineAt = time.Time{}
	f.saga.Order.Payment.NextAction = nil
}

// NextActionPaymentMethod is the type of a next action that no provider asks for: the payment was declined, another is needed.
const NextActionPaymentMethod = "payment_method"

// decline goes back after a known refusal, or keeps the stock for another attempt. A payment that the customer could still
// complete is closed first.
func (f *fold) decline(charge *Step, outcome providers.Outcome, held bool) {
	if held {
		f.unexpected(charge, outcome)
		return
	}
	s := &f.saga
	s.Order.Payment.Decline = outcome.Decline
	customerHoldsIt := s.State == Awaiting && f.policy.Windows.StaysPayable
	if s.Order.Payment.OnDecline != DeclineAwaits || charge.Attempt >= f.policy.MaxCharges {
		f.compensate()
		if customerHoldsIt {
			f.addVoid()
		}
		return
	}
	f.startAwaiting()
	s.Order.Payment.NextAction = nil
	f.setDeadline(f.policy.AwaitDeadline)
	if customerHoldsIt {
		f.addVoid()
		return
	}
	f.awaitPayment()
}

// awaitPayment waits for the customer to pay in another way.
func (f *fold) awaitPayment() {
	f.saga.Order.Payment.NextAction = &providers.NextAction{Type: NextActionPaymentMethod}
	f.waitUntilDeadline(longestHold)
}

// longestHold is more than any deadline: nothing is polled for.
const longestHold = 366 * 24 * time.Hour

// undo goes back as nothing is taken, or held any more.
func (f *fold) undo(outcome providers.Outcome, held bool) {
	charge, capture := f.saga.step(StepCharge), f.saga.openStep(StepCapture)
	wasHeld := held || charge.Status == StepDone
	if capture != nil && f.policy.Windows.NoLookup { // the hold has ended, and the capture may have come before: its notice tells
		charge.Status, f.saga.DeadlineAt = StepDone, f.saga.ReadAt
		return
	}
	if capture != nil {
		capture.Status, capture.Outcome = StepFailed, providers.Canceled
	}
	switch {
	case wasHeld && outcome.Code == providers.CodeRefunded:
		charge.Status = StepDone
		f.review(FindingRefundedAtProvider, "The provider took the held money and has given it back, which nobody here asked for.")
	case wasHeld && f.saga.captured() > 0: // the rest of the hold has ended
		charge.Status = StepDone
		f.capturesDone(true)
	case wasHeld:
		charge.Status = StepUndone
		f.compensate()
	default:
		f.compensate()
	}
}

// absent takes "not found" for an answer only once the provider's search cannot be behind any more.
func (f *fold) absent(charge *Step) {
	if charge.ProviderReference != "" || f.saga.captured() > 0 {
		f.review(FindingPaymentMissing, "The provider does not know a payment that it had given an id, or of which money is taken.")
		return
	}
	if !f.absenceIsConclusive(*charge) {
		f.repeat(providers.Outcome{})
		return
	}
	if charge.Code == codeRefusedAfterSend {
		f.review(FindingRefusedAfterSend, "The provider refused the request after an earlier send whose end nobody knows, and finds no payment.")
		return
	}
	charge.Status, charge.Outcome = StepFailed, providers.NotFound
	f.saga.Failures = 0
	f.compensate()
}

// absenceIsConclusive counts the search's delay from the last send that there can have been: the last one recorded, or,
// once repeats have ended with the re-POST window, its end, as a server may have died right after a send.
func (f *fold) absenceIsConclusive(charge Step) bool {
	last, windowEnd := charge.SentAt, charge.StartedAt.Add(f.policy.Windows.Repost)
	if last.IsZero() {
		last = charge.StartedAt
	}
	if now := f.saga.ReadAt; !now.Before(windowEnd) && windowEnd.After(last) {
		last = windowEnd
	}
	return f.saga.ReadAt.Sub(last) >= f.policy.Windows.LookupDelay
}

// waitForNotice rests where only the provider's notice, or a request, can bring the saga on; each wait has its bound.
func (f *fold) waitForNotice() {
	s := &f.saga
	charge := s.step(StepCharge)
	capture := s.openStep(StepCapture)
	switch {
	case s.State == Refunding:
		f.waitFor(s.openStep(StepRefund))
	case s.State == Charging: // the outcome is unknown, and a cancel that names our reference undoes whatever it is
		if !f.pausedUntil(charge.StartedAt.Add(f.policy.NoticeWait)) {
			f.compensate()
			f.addVoid()
		}
	case s.openStep(StepVoid) != nil:
		f.waitFor(s.openStep(StepVoid))
	case capture != nil:
		f.waitFor(capture)
	case charge.Status == StepFailed:
		f.awaitPayment()
	default:
		f.waitUntilDeadline(longestHold)
	}
}

// awaitEnd waits for a capture, void or refund that the provider has accepted: it does not fail by taking its time, up to a bound.
func (f *fold) awaitEnd(step *Step) {
	switch {
	case f.saga.ReadAt.After(f.overdueAt(step)):
		f.waitFor(step)
	case !f.policy.Windows.NoLookup: // else localSteps waits for the notice
		f.pause = pollPause(f.saga.ReadAt.Sub(step.StartedAt))
	}
}

// overdueAt is when the end of an accepted call is overdue. Where only a notice tells that, the call is not sent again once it is
// accepted, which may be long after its intent.
func (f *fold) overdueAt(step *Step) time.Time {
	from := step.StartedAt
	if f.policy.Windows.NoLookup && step.SentAt.After(from) {
		from = step.SentAt
	}
	return from.Add(f.policy.RefundDeadline)
}

// waitFor rests until the end of a call is overdue that the provider has accepted, or that nobody can ask about.
func (f *fold) waitFor(step *Step) {
	if !f.pausedUntil(f.overdueAt(step)) {
		f.review(overdue(step.Name), fmt.Sprintf("The provider accepted the %s and has not told its end.", step.Name))
	}
}

// overdue is the finding about a call whose end does not come.
func overdue(name StepName) string {
	switch name {
	case StepCapture:
		return FindingCaptureOverdue
	case StepVoid:
		return FindingVoidOverdue
	case StepReserve, StepRelease, StepCharge, StepRefund, StepConfirm, StepContinue: // of these, only a refund is waited for
	}
	return FindingRefundOverdue
}

// pausedUntil rests until a time; false when that has come.
func (f *fold) pausedUntil(end time.Time) bool {
	left := end.Sub(f.saga.ReadAt)
	f.pause = max(left, 0)
	return left > 0
}
