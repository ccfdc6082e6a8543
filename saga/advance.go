package saga

import (
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
	Answered                         // a provider call ended, or the provider announced how one has ended
	Asked                            // a request about the order came in
	OutOfStock                       // the store could not reserve
	Abandoned                        // drive after drive ended without writing anything
	Late                             // the provider announced that it took or held money of an order that is, or was, given up
	Contradicted                     // the provider announced what does not go together with how the saga ended
	ReservationLost                  // the store found the reservation gone when it was to be sold, perhaps right after a call
	Decided                          // a person has decided
	Found                            // the provider told of a refund that nobody here asked for: it begins as it ended
	Orphaned                         // stock is still held for an order that has ended
)

// Event is one happening that is handed to a saga. Whoever brings it, it goes through Advance.
type Event struct {
	Kind    EventKind
	Call    Call              // for Answered
	SubKey  providers.SubKey  // for Answered: of the step that it is about; empty: the newest of that call
	Outcome providers.Outcome // for Answered; for Decided: what the provider tells, empty where it was not asked
	Sends   int               // for Answered: how many sends the outcome took
	Unsure  bool              // for Answered: an earlier one of those sends ended unknown
	Request *Request          // for Asked

	Decision *Decision    // for Decided
	Refund   *FoundRefund // for Found
	Audit    *AuditEntry  // of a repair: what the audit log tells of it
	Detail   string       // for OutOfStock: what is missing; for Contradicted: what was announced; a sentence
	Code     string       // for Contradicted: the kind of the finding
	Payment  string       // the provider's reference of the payment, where a notice told it
	Capture  string       // the provider's reference of a capture that was not asked for here, where a notice told it
}

// Advance is the one way in which a saga changes: it folds an event, and all local steps that are due after it, into one
// change. It is pure: the same saga, event and policy give the same change. An error means that the event does not fit
// the saga's state; nothing must be written then. It is a *RefusedError for a request.
func Advance(s Saga, e Event, policy Policy) (Change, error) {
	f := fold{before: s, saga: s.clone(), policy: policy, capturedAs: e.Capture, decision: e.Decision, audit: e.Audit}
	switch e.Kind {
	case Resume:
	case Answered:
		f.answered(e)
	case Asked:
		f.asked(*e.Request)
	case OutOfStock:
		f.outOfStock(e)
	case ReservationLost:
		f.reservationLost(e)
	case Abandoned:
		f.review(FindingCannotBeDriven, fmt.Sprintf("%d drives in a row ended without writing anything.", f.saga.Unrecorded-1))
	case Late:
		f.late(e)
	case Contradicted:
		f.contradictedBy(e)
	case Decided:
		f.decided(*e.Decision, e.Outcome)
	case Found, Orphaned:
		f.repaired(e)
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
	refund  RefundEffect
	finding *Finding
	pause   time.Duration
	jitter  bool
	err     error

	capturedAs string    // Event.Capture
	decision   *Decision // Event.Decision
	audit      *AuditEntry
}

func (f *fold) fire(event string) {
	if f.err == nil {
		f.saga.State, f.err = fire(f.saga.State, event)
	}
}

func (f *fold) answered(e Event) {
	e.Outcome = storable(e.Outcome)
	reaction, known := reactionTo(f.saga.Kind, e.Call, e.Outcome.Kind)
	step := f.saga.stepFor(e)
	if !known || step == nil || !fits(e.Call, f.saga) {
		f.err = fmt.Errorf("saga in state %s cannot take the outcome %q of a %s call", f.saga.State, e.Outcome.Kind, e.Call)
		return
	}
	if e.Call == CallContinue && reaction.step == StepDone && e.Outcome.Code != providers.CodeApproved {
		record(step, e, reaction.step, f.saga.ReadAt)
		f.answered(Event{Kind: Answered, Call: CallLookup, Outcome: e.Outcome}) // the rest is about the charge
		return
	}
	reaction, e = f.qualify(reaction, *step, e)
	if charge := f.saga.step(StepCharge); e.Payment != "" && charge != nil && charge.ProviderReference == "" {
		charge.ProviderReference = e.Payment
	}
	held := step.Name == StepCharge && f.saga.tookOrHeld(step)
	if e.Call == CallLookup {
		f.settleOpenContinue(e.Outcome)
	}
	record(step, e, reaction.step, f.saga.ReadAt)
	f.failures(reaction.move)
	f.react(reaction.move, step, e.Outcome, held)
}

// qualify changes a reaction where more than the kind of the outcome decides.
func (f *fold) qualify(r reaction, step Step, e Event) (reaction, Event) {
	switch {
	case e.Call == CallContinue && r.step == StepDone: // approved as before, and not taken: nothing has happened
		return reaction{moveRepeat, StepUnknown}, e
	case e.Call == CallContinue && e.Outcome.Code == providers.CodeOtherPayment:
		return reaction{moveContinueFailed, StepFailed}, e
	case repeats(e.Call) && f.mayHaveHappened(step, e):
		return doubted(r, e)
	case e.Call == CallVoid && e.Outcome.Code == providers.CodeNotCancelableYet: // the bank decides first, which can take it days
		return reaction{moveAwaitVoid, StepPending}, e
	case e.Call == CallStep && e.Outcome.Kind == providers.Rejected && f.mayHaveHappened(step, e):
		e.Outcome.Code = codeRefusedAfterSend // it is undone with the rest
	}
	return r, e
}

// settleOpenContinue decides a continue whose own call cannot tell any more, by how the charge stands.
func (f *fold) settleOpenContinue(outcome providers.Outcome) {
	proceed := f.saga.openStep(StepContinue)
	if proceed == nil {
		return
	}
	switch outcome.Kind {
	case providers.Succeeded, providers.Authorized, providers.Declined, providers.Canceled:
		proceed.Status, proceed.Outcome = StepDone, outcome.Kind
	case providers.ActionRequired, providers.Processing:
		if f.saga.lookupOnly(*proceed, f.policy.Windows) {
			proceed.Status = StepFailed
		}
	default: // nothing learned
	}
}

// repeats tells the calls that move money, and so are sent again under the same key until their outcome is known.
func repeats(call Call) bool { return call == CallCharge || call == CallCapture || call == CallRefund }

// mayHaveHappened tells whether an earlier send than the one just answered can have moved the money: its outcome is unknown,
// or a server died or was stopped before it could write one. A provider that refuses our request then, perhaps as our
// key belongs to another account by now, says nothing about that send: only a look-up or a notice can tell.
func (f *fold) mayHaveHappened(step Step, e Event) bool {
	return e.Sends > 0 && (step.Status == StepUnknown || e.Unsure || f.saga.Unrecorded > 1)
}

// doubted keeps the doubt about an earlier send through an answer that says nothing about it.
func doubted(r reaction, e Event) (reaction, Event) {
	switch e.Outcome.Kind {
	case providers.Rejected:
		r.move, r.step = moveRepeat, StepUnknown
		e.Outcome.Code = codeRefusedAfterSend // from here on only look-ups
	case providers.Busy:
		r.step = StepUnknown // the doubt must outlive this turn
	default: // says how the payment stands, or leaves the doubt as it is
	}
	return r, e
}

// stepFor is the step that an event is about.
func (s *Saga) stepFor(e Event) *Step {
	if e.SubKey != "" {
		for i := range s.Steps {
			if s.Steps[i].SubKey == e.SubKey {
				return &s.Steps[i]
			}
		}
		return nil
	}
	return s.stepOfCall(e.Call)
}

// stepOfCall is the newest step that a call is about.
func (s *Saga) stepOfCall(call Call) *Step {
	if call == CallStep || call == CallUndo {
		return s.openOwn()
	}
	return s.step(stepOf(call))
}

// stepOf is the step of paysaga's own that a call is about.
func stepOf(call Call) StepName {
	switch call {
	case CallContinue:
		return StepContinue
	case CallCapture:
		return StepCapture
	case CallVoid:
		return StepVoid
	case CallRefund, CallCheckRefund:
		return StepRefund
	case CallCharge, CallLookup, CallNone, CallStep, CallUndo:
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

func (f *fold) react(m move, step *Step, outcome providers.Outcome, held bool) {
	switch m {
	case moveTake, moveHold, moveAwait, moveDecline, moveUndo:
		f.chargeAnswered(m, step, outcome, held)
	case moveRepeat, moveAbsent:
		f.nothingLearned(m, step, outcome)
	case moveContinueFailed: // localSteps waits on
	case moveCaptured, moveAwaitCapture, moveCaptureFailed:
		f.captureAnswered(m, step, outcome)
	case moveVoided, moveAwaitVoid, moveVoidRefused:
		f.voidAnswered(m, step, outcome)
	case moveRefunded, moveAwaitRefund, moveRefundFailed:
		f.refundAnswered(m, step, outcome)
	case moveStepDone, moveStepFailed, moveAwaitStep:
		f.ownAnswered(m, step)
	default: // moveReview
		f.unexpected(step, outcome)
	}
}

// chargeAnswered reacts to how a charge stands.
func (f *fold) chargeAnswered(m move, charge *Step, outcome providers.Outcome, held bool) {
	switch m {
	case moveTake:
		f.take(charge, outcome)
	case moveHold:
		f.hold(charge, outcome, held)
	case moveAwait:
		f.await(charge, outcome, held)
	case moveDecline:
		f.decline(charge, outcome, held)
	default: // moveUndo
		f.undo(outcome, held)
	}
}

// nothingLearned asks again later, unless "not found" is an answer by now.
func (f *fold) nothingLearned(m move, step *Step, outcome providers.Outcome) {
	if m == moveAbsent {
		f.absent(step)
		return
	}
	f.repeat(outcome)
}

func (f *fold) unexpected(step *Step, outcome providers.Outcome) {
	f.review(FindingUnexpectedOutcome, fmt.Sprintf("The provider answered %q (%s) to the %s call.", outcome.Kind, outcome.Code, step.Name))
}

func (f *fold) repeat(outcome providers.Outcome) {
	if outcome.Code == providers.CodeSeveralPayments {
		f.review(FindingDuplicateCharge, "The provider has more than one live payment under this order's key.")
		return
	}
	if f.saga.Failures > f.policy.MaxFailures {
		f.review(FindingTriesExhausted, fmt.Sprintf("%d turns in a row brought no answer.", f.saga.Failures))
		return
	}
	f.pause, f.jitter = backoff(f.saga.Failures), true
	if wish := min(outcome.RetryAfter, longestPause); wish > f.pause {
		f.pause, f.jitter = wish, false
	}
}

// contradictedBy stops the saga for a person. One that waits for a person already is told what else was found.
func (f *fold) contradictedBy(e Event) {
	if f.saga.State == NeedsReview {
		f.finding = &Finding{Kind: e.Code, Detail: e.Detail}
		return
	}
	f.review(e.Code, e.Detail)
}

func (f *fold) review(kind, detail string) {
	f.finding = &Finding{Kind: kind, Detail: detail}
	f.stopWaiting()
	f.fire(fireReview)
}

// localSteps does the steps that need no provider, up to the next call, the next pause, or the end.
func (f *fold) localSteps() {
	for f.err == nil && f.pause == 0 && Next(f.saga, f.policy.Windows) == CallNone {
		switch f.saga.State {
		case Started:
			f.begin()
		case Reserved:
			f.charge()
		case Charged:
			f.confirm()
		case Charging, Awaiting, Refunding:
			f.waitForNotice()
		case Compensating:
			f.compensated()
		case Completed, RolledBack, NeedsReview:
			return
		}
	}
}

// begin does the first step, with which the saga is written.
func (f *fold) begin() {
	if refund := f.saga.Refund; refund != nil {
		step := f.saga.addStep(StepRefund, StepPending, f.saga.provider())
		step.Amount, step.Target = refund.Amount, refund.Payment
		f.refund = RefundHold
		f.fire(fireRefund)
		return
	}
	if f.policy.Steps.has(StepReserve) {
		f.saga.addStep(StepReserve, StepDone, "")
		f.stock = StockReserve
	}
	f.fire(fireReserve)
}

// charge opens the charge, once all that stands before it is done.
func (f *fold) charge() {
	if f.beginOwn(StepCharge) {
		return
	}
	f.saga.addStep(StepCharge, StepPending, f.saga.Order.Payment.Provider)
	f.fire(fireSend)
}

func (f *fold) change() Change {
	f.saga.forget()
	from := f.before.State
	if f.decision != nil && f.decision.Resolution == ResolveAsItIs {
		from = Completed // its sums stay: refunds may have changed them since
	}
	show(&f.saga, from)
	if f.saga.Refund.ofAnother() { // the order's sums are about its own payment
		f.refund = RefundNone
	}
	return Change{
		From: f.before.State, After: f.saga, Stock: f.stock, Refund: f.refund, Finding: f.finding, Pause: f.pause, Jitter: f.jitter,
		Decision: f.decision, Audit: f.audit,
		Steps: changedSteps(f.before.Steps, f.saga.Steps), Event: happened(&f.before, &f.saga),
	}
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
