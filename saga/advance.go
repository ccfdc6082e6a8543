package saga

import (
	"errors"
	"fmt"
	"slices"
	"time"

	"paysaga/providers"
)

// EventKind is what happened to a saga.
type EventKind int

// The events.
const (
	Resume          EventKind = iota // somebody took the saga up: do the local steps that are due
	Answered                         // a provider call ended
	OutOfStock                       // the store could not reserve
	Abandoned                        // drive after drive ended without writing anything
	ReservationLost                  // the store found the reservation gone when it was to be sold, perhaps right after a call
)

// Event is one happening that is handed to a saga. Whoever brings it, it goes through Advance.
type Event struct {
	Kind    EventKind
	Call    Call              // for Answered
	Outcome providers.Outcome // for Answered
	Sends   int               // for Answered: how many sends the outcome took
	Unsure  bool              // for Answered: an earlier one of those sends ended unknown
	Detail  string            // for OutOfStock: what is missing, as a sentence
}

// Advance is the one way in which a saga changes: it folds an event, and all local steps that are due after it, into one
// change. It is pure: the same saga, event and policy give the same change. An error means that the event does not fit
// the saga's state; nothing must be written then.
func Advance(s Saga, e Event, policy Policy) (Change, error) {
	f := fold{before: s, saga: s.clone(), policy: policy}
	switch e.Kind {
	case Resume:
	case Answered:
		f.answered(e)
	case OutOfStock:
		f.outOfStock(e)
	case ReservationLost:
		f.reservationLost(e)
	case Abandoned:
		f.review("cannot_be_driven", fmt.Sprintf("%d drives in a row ended without writing anything.", f.saga.Unrecorded-1))
	}
	f.localSteps()
	if f.err != nil {
		return Change{}, f.err
	}
	return f.change(), nil
}

// fold is the working state of one Advance.
type fold struct {
	before  Saga
	saga    Saga
	policy  Policy
	stock   StockEffect
	finding *Finding
	pause   time.Duration
	jitter  bool
	err     error
}

func (f *fold) fire(event string) {
	if f.err == nil {
		f.saga.State, f.err = fire(f.saga.State, event)
	}
}

func (f *fold) answered(e Event) {
	reaction, known := reactions[e.Call][e.Outcome.Kind]
	step := f.saga.step(stepOf(e.Call))
	if !known || step == nil || !fits(e.Call, f.saga.State) {
		f.err = fmt.Errorf("saga in state %s cannot take the outcome %q of a %s call", f.saga.State, e.Outcome.Kind, e.Call)
		return
	}
	if e.Call == CallCharge && f.mayHaveCharged(*step, e) {
		switch e.Outcome.Kind {
		case providers.Rejected:
			reaction.move, reaction.step = moveRepeat, StepUnknown
			e.Outcome.Code = codeRefusedAfterSend // from here on only look-ups
		case providers.Busy:
			reaction.step = StepUnknown // the doubt must outlive this turn
		default: // says how the payment stands, or leaves the doubt as it is
		}
	}
	record(step, e, reaction.step, f.saga.ReadAt)
	f.failures(reaction.move)
	f.react(reaction.move, step, e.Outcome)
}

// mayHaveCharged tells whether an earlier send than the one just answered can have taken the money: its outcome is unknown,
// or a server died or was stopped before it could write one. A provider that refuses our request then, perhaps as our
// key belongs to another account by now, says nothing about that send: only a look-up can tell.
func (f *fold) mayHaveCharged(charge Step, e Event) bool {
	return charge.Status == StepUnknown || e.Unsure || f.saga.Unrecorded > 1
}

// stepOf is the step that a call is about.
func stepOf(call Call) StepName {
	switch call {
	case CallVoid:
		return StepVoid
	case CallRefund, CallCheckRefund:
		return StepRefund
	case CallCharge, CallLookup, CallNone:
	}
	return StepCharge
}

// record writes what was learned into the step. A busy or unanswered look-up teaches nothing, so what is known stays.
func record(step *Step, e Event, status StepStatus, now time.Time) {
	if e.Call != CallLookup && e.Call != CallCheckRefund && e.Sends > 0 {
		step.Sends += e.Sends
		step.SentAt = now
	}
	if status != "" {
		step.Status = status
		step.Outcome = e.Outcome.Kind
	}
	if step.Outcome == "" {
		step.Outcome = e.Outcome.Kind
	}
	if status != "" || (e.Outcome.Code != "" && !repeatIsUseless(step.Code)) {
		step.Code, step.Detail = e.Outcome.Code, e.Outcome.Detail
	}
	if e.Outcome.Reference != "" {
		step.ProviderReference = e.Outcome.Reference
	}
}

func (f *fold) failures(m move) {
	if m == moveRepeat || m == moveAbsent {
		f.saga.Failures++
		return
	}
	f.saga.Failures = 0
}

func (f *fold) react(m move, step *Step, outcome providers.Outcome) {
	switch m {
	case moveTake:
		f.take(step, outcome)
	case moveAwait:
		f.await(outcome)
	case moveUndo:
		f.undo(outcome)
	case moveAbsent:
		f.absent(step)
	case moveVoided, moveRefunded:
		f.undoneCharge()
	case moveVoidRefused:
		f.voidRefused(outcome)
	case moveAwaitRefund:
		f.awaitRefund(*step)
	case moveRepeat:
		f.repeat(outcome)
	case moveReview:
		f.review("unexpected_outcome", fmt.Sprintf("The provider answered %q (%s) to the %s call.", outcome.Kind, outcome.Code, step.Name))
	}
}

// take accepts the money, after holding the provider's amount against the order's.
func (f *fold) take(charge *Step, outcome providers.Outcome) {
	if outcome.Code == providers.CodePartiallyRefunded {
		f.review("refunded_at_provider", "The provider took the money and has given a part of it back, which nobody here asked for.")
		return
	}
	if ours := f.saga.Order.Money(); outcome.Money != (providers.Money{}) && outcome.Money != ours {
		charge.Status = StepUnknown
		f.review("amount_mismatch", fmt.Sprintf("The provider took %s, the order is about %s.", outcome.Money, ours))
		return
	}
	f.stopWaiting()
	f.fire(fireTake)
}

// stopWaiting ends what an awaited payment asked of the customer.
func (f *fold) stopWaiting() {
	f.saga.DeadlineAt = time.Time{}
	f.saga.Order.Payment.NextAction = nil
}

// await waits for the customer or the provider. Each has its own deadline; at the customer's the payment is closed.
func (f *fold) await(outcome providers.Outcome) {
	s := &f.saga
	waited := s.State == Awaiting
	changed := !waited || s.DeadlineAt.IsZero() || (outcome.Kind == providers.Processing && s.Order.Payment.NextAction != nil)
	if changed {
		deadline := f.policy.AwaitDeadline
		if outcome.Kind == providers.Processing {
			deadline = f.policy.ProcessingDeadline
		}
		s.DeadlineAt = s.ReadAt.Add(deadline)
	}
	if outcome.NextAction != nil || outcome.Kind == providers.Processing {
		s.Order.Payment.NextAction = outcome.NextAction
	}
	if !waited {
		f.fire(fireAwait)
	}
	left := s.DeadlineAt.Sub(s.ReadAt)
	if left <= 0 {
		f.compensate()
		f.saga.addStep(StepVoid, StepPending, s.Order.Payment.Provider)
		return
	}
	f.pause = min(pollPause(s.ReadAt.Sub(s.step(StepCharge).StartedAt)), left)
}

// undo goes back after a known refusal. A payment that the customer could still complete is closed first.
func (f *fold) undo(outcome providers.Outcome) {
	customerHoldsIt := f.saga.State == Awaiting && outcome.Kind != providers.Canceled
	if outcome.Kind == providers.Declined {
		f.saga.Order.Payment.Decline = outcome.Decline
	}
	f.compensate()
	if customerHoldsIt {
		f.saga.addStep(StepVoid, StepPending, f.saga.Order.Payment.Provider)
	}
}

// absent takes "not found" for an answer only once the provider's search cannot be behind any more.
func (f *fold) absent(charge *Step) {
	if charge.ProviderReference != "" {
		f.review("payment_missing", "The provider does not know the payment that it had given an id.")
		return
	}
	if !f.absenceIsConclusive(*charge) {
		f.repeat(providers.Outcome{})
		return
	}
	if charge.Code == codeRefusedAfterSend {
		f.review("refused_after_send", "The provider refused the request after an earlier send whose end nobody knows, and finds no payment.")
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

func (f *fold) voidRefused(outcome providers.Outcome) {
	if outcome.Code != providers.CodeAlreadyCaptured {
		f.review("void_refused", fmt.Sprintf("The provider refused to void the payment (%s).", outcome.Code))
		return
	}
	f.saga.step(StepCharge).Status = StepDone
	f.saga.addStep(StepRefund, StepPending, f.saga.Order.Payment.Provider)
}

// undoneCharge marks the charge as undone, unless it had failed by itself.
func (f *fold) undoneCharge() {
	if charge := f.saga.step(StepCharge); charge.Status != StepFailed {
		charge.Status = StepUndone
	}
}

// awaitRefund waits for a refund that the provider has accepted: it does not fail by taking its time, up to a bound.
func (f *fold) awaitRefund(refund Step) {
	age := f.saga.ReadAt.Sub(refund.StartedAt)
	if age > f.policy.RefundDeadline {
		f.review("refund_overdue", "The provider accepted the refund and has not carried it out.")
		return
	}
	f.pause = pollPause(age)
}

func (f *fold) repeat(outcome providers.Outcome) {
	if outcome.Code == providers.CodeSeveralPayments {
		f.review("duplicate_charge", "The provider has more than one live payment under this order's key.")
		return
	}
	if f.saga.Failures > f.policy.MaxFailures {
		f.review("tries_exhausted", fmt.Sprintf("%d turns in a row brought no answer.", f.saga.Failures))
		return
	}
	f.pause, f.jitter = backoff(f.saga.Failures), true
	if wish := min(outcome.RetryAfter, longestPause); wish > f.pause {
		f.pause, f.jitter = wish, false
	}
}

func (f *fold) outOfStock(e Event) {
	if f.saga.State != Started {
		f.err = fmt.Errorf("saga in state %s has nothing to reserve", f.saga.State)
		return
	}
	reserve := f.saga.addStep(StepReserve, StepFailed, "")
	reserve.Code, reserve.Detail = CodeOutOfStock, e.Detail
	f.compensate()
}

// CodeOutOfStock is the code of a reserve step that found too little.
const CodeOutOfStock = "out_of_stock"

// codeReservationLost marks the steps that met stock which was not held any more.
const codeReservationLost = "reservation_lost"

// reservationLost goes on without the goods: a charge that was to sell them is given back, and what is still held of them
// is freed.
func (f *fold) reservationLost(e Event) {
	if reserve := f.saga.step(StepReserve); reserve != nil {
		reserve.Status, reserve.Code = StepUndone, codeReservationLost
	}
	f.stock = StockForfeit
	if e.Call != CallNone {
		f.answered(e)
	}
	switch f.saga.State {
	case Charged:
		f.compensate()
		confirm := f.saga.addStep(StepConfirm, StepFailed, "")
		confirm.Code = codeReservationLost
		f.saga.addStep(StepRefund, StepPending, f.saga.Order.Payment.Provider)
	case Compensating:
	default:
		f.err = errors.Join(f.err, fmt.Errorf("saga in state %s has no use for its reservation", f.saga.State))
	}
}

func (f *fold) compensate() {
	f.stopWaiting()
	f.fire(fireCompensate)
}

func (f *fold) review(kind, detail string) {
	f.finding = &Finding{Kind: kind, Detail: detail}
	f.stopWaiting()
	f.fire(fireReview)
}

// localSteps does the steps that need no provider, up to the next call or the end.
func (f *fold) localSteps() {
	for f.err == nil {
		switch f.saga.State {
		case Started:
			f.saga.addStep(StepReserve, StepDone, "")
			f.stock = StockReserve
			f.fire(fireReserve)
		case Reserved:
			f.saga.addStep(StepCharge, StepPending, f.saga.Order.Payment.Provider)
			f.fire(fireSend)
		case Charged:
			f.saga.addStep(StepConfirm, StepDone, "")
			f.stock = StockSell
			f.fire(fireConfirm)
		case Compensating:
			if f.saga.nextCompensation(f.policy.Windows) != CallNone {
				return
			}
			f.release()
			f.fire(fireRollBack)
		case Charging, Awaiting, Completed, RolledBack, NeedsReview:
			return
		}
	}
}

func (f *fold) release() {
	if reserve := f.saga.step(StepReserve); reserve != nil && reserve.Status == StepDone {
		reserve.Status = StepUndone
		f.saga.addStep(StepRelease, StepDone, "")
		f.stock = StockRelease
	}
}

func (f *fold) change() Change {
	showOrder(&f.saga)
	c := Change{
		From: f.before.State, After: f.saga, Stock: f.stock, Finding: f.finding, Pause: f.pause, Jitter: f.jitter,
		Steps: changedSteps(f.before.Steps, f.saga.Steps),
	}
	if status := f.saga.Order.Status; status != f.before.Order.Status && status != OrderProcessing {
		c.Event = "order." + string(status)
	}
	return c
}

func changedSteps(before, after []Step) []Step {
	var changed []Step
	for i, step := range after {
		if i >= len(before) || before[i] != step {
			changed = append(changed, step)
		}
	}
	return slices.Clip(changed)
}
