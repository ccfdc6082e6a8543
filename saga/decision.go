package saga

import (
	"slices"

	"paysaga/providers"
)

// Resolution is what a person can decide about a saga. docs/runbook.md says which one fits which finding.
type Resolution string

// The resolutions. All but retry and cancel need a saga in review.
const (
	ResolveRetry       Resolution = "retry"        // go on where the saga stands, with all tries anew; never charges anew
	ResolveTaken       Resolution = "taken"        // the customer's money is taken, and the order shall have it
	ResolveNothingKept Resolution = "nothing_kept" // nothing of the customer's money is kept: the order comes to nothing
	ResolveAsItIs      Resolution = "as_it_is"     // the order had ended before the review, and stays as it ended
	ResolveGiven       Resolution = "given"        // of a refund: the customer has the money
	ResolveNotGiven    Resolution = "not_given"    // of a refund: the money is still the shop's
	ResolveCancel      Resolution = "cancel"       // give the order up: close or give back its payment, and free the stock
)

// Resolutions are all that there are.
func Resolutions() []Resolution {
	return []Resolution{
		ResolveRetry, ResolveTaken, ResolveNothingKept, ResolveAsItIs, ResolveGiven, ResolveNotGiven, ResolveCancel,
	}
}

// Decision is what a person has decided about a saga, and why. It is kept in the audit log.
type Decision struct {
	Resolution Resolution
	Actor      string // who, as the audit log tells it
	Reason     string // in that person's words
	Payment    string // for taken: the provider's id of the payment
	Amount     int64  // for taken: what is taken in all, in minor units
	// OutsideProvider, for nothing_kept, says that the money went back in another way than at the provider, by a bank transfer
	// perhaps: what the provider tells does not count then.
	OutsideProvider bool
}

// codeByHand marks the steps that a person settled.
const codeByHand = "settled_by_hand"

// decided folds a person's decision in. What the provider tells, where it could be asked, is held against it: a decision that it
// contradicts would make the books wrong.
func (f *fold) decided(d Decision, told providers.Outcome) {
	if f.saga.State != NeedsReview {
		f.decidedOutsideReview(d)
		return
	}
	f.saga.Failures = 0
	f.stopWaiting()
	switch d.Resolution {
	case ResolveRetry:
		f.retry()
	case ResolveTaken:
		f.decidedTaken(d, told)
	case ResolveNothingKept:
		f.nothingKept(d, told)
	case ResolveAsItIs:
		f.asItIs()
	case ResolveGiven, ResolveNotGiven:
		f.decidedRefund(d, told)
	case ResolveCancel:
		f.cancelReviewed(told)
	default:
		f.refusef(RefusedUnfit, "There is no resolution %q.", d.Resolution)
	}
}

// decidedOutsideReview takes up what rests, or gives it up as its shop could. Nothing else is a person's to decide about a saga that
// moves by itself.
func (f *fold) decidedOutsideReview(d Decision) {
	switch {
	case d.Resolution == ResolveCancel && f.saga.Kind == KindOrder:
		f.askCancel()
	case f.saga.State.Ended() && d.Resolution == ResolveRetry:
		f.refusef(RefusedOver, "The saga has ended, it is %s.", f.saga.State)
	case f.saga.State.Ended():
		f.refusef(RefusedNotInReview, "The saga has ended, it is %s: there is nothing to decide.", f.saga.State)
	case d.Resolution != ResolveRetry:
		f.refusef(RefusedNotInReview, "The saga is %s, not in review: it moves by itself.", f.saga.State)
	default:
		f.saga.Failures = 0
	}
}

// retry goes on where the saga stood. A charge is not sent again: where its outcome is open, it is looked up.
func (f *fold) retry() {
	s := &f.saga
	charge := s.step(StepCharge)
	switch {
	case s.nextOwn() == CallStep && charge == nil:
		f.fire(fireRetryStep)
	case s.nextOwn() == CallStep && f.policy.Windows.NoLookup:
		f.fire(fireSettleTaken)
	case s.nextOwn() == CallStep: // once the money is seen to be there still
		f.fire(fireRetryAwait)
	case s.undoing() && s.Kind == KindRefund:
		f.fire(fireRetryRefund)
	case s.undoing():
		f.fire(fireRetryUndo)
	case s.goodsHeld() && s.chargeIsInDoubt():
		f.retryCharge(charge)
	default:
		f.refusef(RefusedUnfit, "Nothing is left to be done for this saga.")
	}
}

// retryCharge closes a charge that was to be closed, and looks at any other.
func (f *fold) retryCharge(charge *Step) {
	if f.saga.voidRefused() {
		f.fire(fireRetryUndo)
		f.addVoid()
		return
	}
	if charge.Code == codeRefusedAfterSend {
		charge.Code = ""
	}
	f.fire(fireRetryAwait)
}

// undoing tells that something is still to be given back, or let go.
func (s *Saga) undoing() bool {
	return s.openStep(StepVoid) != nil || s.openStep(StepRefund) != nil || s.nextOwn() == CallUndo || s.undoRefused()
}

// chargeIsInDoubt tells that a look at the newest charge can bring the saga on.
func (s *Saga) chargeIsInDoubt() bool {
	charge := s.step(StepCharge)
	return s.step(StepRefund) == nil && charge != nil && (charge.open() || charge.Status == StepDone)
}

// voidRefused tells that the newest charge was to be closed, as its order was given up, and could not be.
func (s *Saga) voidRefused() bool {
	void := s.step(StepVoid)
	refused := void != nil && void.Status == StepFailed && void.Code != providers.CodeAlreadyCaptured
	return refused && s.chargeUndoneBy(*void) == s.step(StepCharge)
}

// undoRefused tells that a step of the deployment's own could not be taken back.
func (s *Saga) undoRefused() bool {
	return slices.ContainsFunc(s.Steps, func(step Step) bool {
		_, undoing := step.Name.undoes()
		return undoing && step.Status == StepFailed && s.step(step.Name).Attempt == step.Attempt
	})
}

// goodsHeld tells that the order's stock is reserved, here or elsewhere, and was not to be sold yet.
func (s *Saga) goodsHeld() bool {
	reserve := s.step(StepReserve)
	undoing := slices.ContainsFunc(s.Steps, func(step Step) bool { _, undoes := step.Name.undoes(); return undoes })
	held := !undoing && (reserve == nil || reserve.Status == StepDone)
	return s.Kind == KindOrder && held && s.step(StepConfirm) == nil && s.openOwn() == nil
}

// goodsSold tells that the order was completed.
func (s *Saga) goodsSold() bool {
	return slices.ContainsFunc(s.Steps, func(step Step) bool { return step.Name == StepConfirm && step.Status == StepDone })
}

// decidedTaken confirms the order with money that a person has seen at the provider.
func (f *fold) decidedTaken(d Decision, told providers.Outcome) {
	s := &f.saga
	charge := s.step(StepCharge)
	manual := s.Order.Payment.Capture == CaptureManual
	least := s.Order.Amount
	if manual {
		least = max(1, s.captured())
	}
	switch {
	case !s.goodsHeld():
		f.refusef(RefusedUnfit, "The order holds no stock that could be sold.")
	case charge == nil || s.isUndone(charge):
		f.refusef(RefusedUnfit, "The order's payment was never sent, or has been given back.")
	case d.Payment == "":
		f.refusef(RefusedUnfit, "Say by its id at the provider which payment is taken.")
	case d.Amount < least || d.Amount > s.Order.Amount:
		f.refusef(RefusedTooMuch, "What is taken must be from %s to %s, not %s.", s.money(least), s.money(s.Order.Amount), s.money(d.Amount))
	case !tellsTaken(told, s.money(d.Amount)):
		f.contradicted(told)
	default:
		f.settle(StepFailed, StepContinue, StepCapture, StepVoid, StepRefund)
		f.takenByHand(d, manual)
		f.fire(fireSettleTaken)
	}
}

func (f *fold) takenByHand(d Decision, manual bool) {
	s := &f.saga
	known := s.captured()
	charge := s.step(StepCharge)
	charge.Status, charge.Outcome, charge.Code, charge.ProviderReference = StepDone, providers.Succeeded, codeByHand, d.Payment
	if manual && d.Amount > known {
		capture := s.addStep(StepCapture, StepDone, charge.Provider)
		capture.SubKey = byHand(s, StepCapture)
		capture.Amount, capture.Final, capture.Outcome, capture.Code = d.Amount-known, true, providers.Succeeded, codeByHand
	}
}

// byHand is the sub-key of a step that stands for what a person did: it never goes to a provider.
func byHand(s *Saga, name StepName) providers.SubKey { return SubKey(s.Key, name+"_by_hand", 1) }

// tellsTaken says that nothing the provider tells speaks against money that is taken, and none of it held any more.
func tellsTaken(told providers.Outcome, amount providers.Money) bool {
	switch told.Kind {
	case "", providers.Busy, providers.Rejected: // not asked, or no answer
		return true
	case providers.Unknown:
		// Else there is such a payment, and it is none of this order's newest charge, or one of several.
		return told.Code != providers.CodeOtherPayment && told.Code != providers.CodeSeveralPayments
	case providers.Succeeded:
		return told.Code != providers.CodePartiallyRefunded && (told.Money == (providers.Money{}) || told.Money == amount)
	default:
		return false
	}
}

// tellsNothingKept says that nothing the provider tells speaks against a payment of which nothing is kept.
func tellsNothingKept(told providers.Outcome) bool {
	switch told.Kind {
	case providers.Succeeded, providers.Authorized, providers.Processing, providers.ActionRequired:
		return false
	default:
		return told.Code != providers.CodeSeveralPayments
	}
}

// contradicted refuses with what the provider tells, in its own words.
func (f *fold) contradicted(told providers.Outcome) {
	what := string(told.Kind)
	if told.Code != "" {
		what += ", " + told.Code
	}
	if told.Money != (providers.Money{}) {
		what += ", " + told.Money.String()
	}
	f.refusef(RefusedContradicted, "The provider tells otherwise (%s). Put it right there first, or decide what it tells.", what)
}

// settle ends the open steps of some names by a person's word.
func (f *fold) settle(status StepStatus, names ...StepName) {
	for i := range f.saga.Steps {
		if step := &f.saga.Steps[i]; slices.Contains(names, step.Name) && step.open() {
			step.Status, step.Code = status, codeByHand
		}
	}
}

// nothingKept ends the order without its payment: what was to undo that counts as done, and where there is nothing of the sort a
// line stands for what the person did.
func (f *fold) nothingKept(d Decision, told providers.Outcome) {
	s := &f.saga
	charge := s.step(StepCharge)
	if f.keepsSomething(d, told) {
		return
	}
	f.settle(StepFailed, StepContinue, StepCapture)
	for i := range s.Steps {
		switch step := &s.Steps[i]; {
		case (step.Name == StepVoid || step.Name == StepRefund) && step.Status != StepDone:
			step.Status, step.Code = StepDone, codeByHand
		case step.Name == StepCharge && step.Status != StepFailed:
			step.Status = StepUndone
		}
	}
	f.settleOwn()
	if charge != nil && !s.undoneAfter(charge) {
		s.addUndoing(charge.Provider)
	}
	f.fire(fireSettleUndone)
}

// settleOwn ends what is open of the deployment's own steps: one that may have been carried out is undone with the rest, and what could
// not be undone is the person's.
func (f *fold) settleOwn() {
	for i := range f.saga.Steps {
		step := &f.saga.Steps[i]
		_, undoing := step.Name.undoes()
		switch {
		case undoing && step.Status != StepDone:
			step.Status, step.Code = StepDone, codeByHand
		case step.Name.own() && step.open():
			step.Status, step.Code = StepFailed, codeByHand
		}
	}
}

// keepsSomething refuses nothing_kept where it does not fit, or the provider tells otherwise.
func (f *fold) keepsSomething(d Decision, told providers.Outcome) bool {
	switch s := &f.saga; {
	case s.Kind != KindOrder, s.goodsSold():
		f.refusef(RefusedUnfit, "The order is completed, or this is a refund: its goods cannot be taken back here.")
	case !d.OutsideProvider && !tellsNothingKept(told):
		f.contradicted(told)
	case !d.OutsideProvider && f.mayBeFoundLater(s.step(StepCharge), told):
	default:
		return false
	}
	return true
}

// mayBeFoundLater refuses to take "not found" for an answer while the provider's search can be behind, or a send be on its way.
func (f *fold) mayBeFoundLater(step *Step, told providers.Outcome) bool {
	if told.Kind != providers.NotFound || step.ProviderReference != "" || f.absenceIsConclusive(*step) {
		return false
	}
	f.refusef(RefusedUnfit, "The provider does not find it, and could still: its search is behind by up to %s. Decide later, or retry.",
		f.policy.Windows.LookupDelay)
	return true
}

// undoneAfter tells that a line of the saga undoes a charge, or what was captured of it.
func (s *Saga) undoneAfter(charge *Step) bool {
	return slices.ContainsFunc(s.Steps, func(step Step) bool {
		enough := step.Name == StepRefund || step.Name == StepVoid && s.Order.Payment.CapturedAmount == 0
		return enough && step.Status == StepDone && !step.StartedAt.Before(charge.StartedAt)
	})
}

// addUndoing writes down that a person let the payment go, or gave back what was taken.
func (s *Saga) addUndoing(provider string) {
	name, amount := StepVoid, s.Order.Payment.CapturedAmount
	if amount > 0 {
		name = StepRefund
	}
	undoing := s.addStep(name, StepDone, provider)
	undoing.SubKey, undoing.Amount, undoing.Code = byHand(s, name), amount, codeByHand
}

// asItIs closes the review of an order that had ended. Its sums are left alone: refunds may have changed them since.
func (f *fold) asItIs() {
	s := &f.saga
	unfinished := slices.ContainsFunc(s.Steps, func(step Step) bool {
		kept := (step.Name == StepReserve || step.Name == StepCharge) && step.Status == StepDone
		return kept || step.open() || f.mustUndo(step)
	})
	switch {
	case s.Kind != KindOrder:
		f.refusef(RefusedUnfit, "A refund was given, or it was not.")
	case s.goodsSold():
		f.fire(fireSettleCompleted)
	case unfinished:
		f.refusef(RefusedUnfit, "The order had not come to its end.")
	default:
		f.fire(fireSettleRolledBack)
	}
}

// decidedRefund ends a refund by what a person knows of it. One that was counted as given before the review is not counted twice.
func (f *fold) decidedRefund(d Decision, told providers.Outcome) {
	s := &f.saga
	if s.Kind != KindRefund {
		f.refusef(RefusedUnfit, "This is an order; only a refund is given or not given.")
		return
	}
	refund := s.step(StepRefund)
	switch {
	case d.Resolution == ResolveGiven:
		f.refund = givenFrom(*refund)
		refund.Status, refund.Code = StepDone, codeByHand
		f.fire(fireSettleCompleted)
	case told.Kind == providers.Succeeded, told.Kind == providers.Processing:
		f.contradicted(told)
	case f.mayBeFoundLater(refund, told):
	default:
		f.refund = notGivenFrom(*refund)
		refund.Status, refund.Code = StepFailed, codeByHand
		f.fire(fireSettleRolledBack)
	}
}

// writtenOff tells that a person had decided that a refund was not given: its sum is the order's again.
func (s Step) writtenOff() bool { return s.Status == StepFailed && s.Code == codeByHand }

// givenFrom is what it does to the order's sums that a refund turns out to be given.
func givenFrom(refund Step) RefundEffect {
	switch {
	case refund.Status == StepDone: // counted already
		return RefundNone
	case refund.writtenOff():
		return RefundFound
	}
	return RefundGive
}

// notGivenFrom is what it does to the order's sums that a refund turns out not to be given.
func notGivenFrom(refund Step) RefundEffect {
	switch {
	case refund.Status == StepDone:
		return RefundReturn
	case refund.writtenOff():
		return RefundNone
	}
	return RefundFree
}

// cancelReviewed gives up an order in review whose payment is known: it is closed, or what was taken of it is given back.
func (f *fold) cancelReviewed(told providers.Outcome) {
	s := &f.saga
	charge := s.step(StepCharge)
	switch {
	case !s.cancelable():
		f.refusef(RefusedUnfit, "There is no payment to close: the order is over, being undone, or declined, or a capture is open.")
	case s.Order.Payment.Capture == CaptureManual && s.captured() > 0:
		f.refusef(RefusedCaptured, "A part of the money is taken: decide taken, or give it back at the provider and decide nothing_kept.")
	case charge.open() && charge.ProviderReference == "" && !f.policy.Windows.NoLookup:
		f.refusef(RefusedUnfit, "Nobody knows yet whether there is a payment: retry finds out.")
	case told.Code == providers.CodeSeveralPayments:
		f.contradicted(told)
	case charge.Status == StepUnknown && charge.Outcome == providers.Succeeded: // of another amount than the order's
		f.refusef(RefusedUnfit, "The provider took another amount than was asked for: give it back there, and decide nothing_kept.")
	default:
		f.settle(StepFailed, StepContinue)
		f.fire(fireRetryUndo)
		if s.captured() == 0 { // else compensated gives it back
			f.addVoid()
		}
	}
}

// cancelable tells that an order in review is neither over nor being undone, and that nothing else is on its way.
func (s *Saga) cancelable() bool {
	onItsWay := s.undoing() || s.openStep(StepCapture) != nil
	return s.goodsHeld() && s.chargeIsInDoubt() && !onItsWay
}
