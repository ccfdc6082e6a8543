package saga

import (
	"cmp"
	"errors"
	"fmt"
	"time"

	"paysaga/providers"
)

func (f *fold) compensate() {
	f.stopWaiting()
	f.fire(fireCompensate)
}

// addVoid opens the void of the newest charge. Where the payment's reference is not known yet, it stays unknown for all repeats:
// at a provider that voids by either, another call must not go out under the same key.
func (f *fold) addVoid() {
	charge := *f.saga.step(StepCharge)
	f.saga.addStep(StepVoid, StepPending, charge.Provider).Target = charge.ProviderReference
}

// voidAnswered reacts to what came of a void, of an order that is undone or of a declined payment that is closed.
func (f *fold) voidAnswered(m move, void *Step, outcome providers.Outcome) {
	switch {
	case m == moveAwaitVoid:
		f.awaitEnd(void)
	case m == moveVoided && f.saga.State == Awaiting:
		f.awaitPayment()
	case m == moveVoided:
		f.undoneCharge()
	case f.saga.State == Awaiting && outcome.Code == providers.CodeAlreadyCaptured:
		f.saga.step(StepCharge).Status = StepPending // paid in the last moment: look
	default:
		f.voidRefused(void, outcome)
	}
}

// voidRefused refunds what was taken meanwhile. Where only notices tell how a payment stands, a void that finds nothing held is the
// answer that nothing was: should the customer complete the payment later still, its notice undoes it (late). If that notice comes
// before the refusal, another void follows.
func (f *fold) voidRefused(void *Step, outcome providers.Outcome) {
	charge := f.saga.step(StepCharge)
	nothingHeld := outcome.Code == providers.CodeVoidRefused && f.policy.Windows.NoLookup
	switch {
	case outcome.Code == providers.CodeAlreadyCaptured:
		charge.Status = StepDone
		f.saga.addStep(StepRefund, StepPending, void.Provider)
	case nothingHeld && (!moved(charge.Outcome) || f.holdIsOver(*charge)):
		f.undoneCharge()
	case nothingHeld && charge.Code == codeLate:
		charge.Code = "" // once
		f.addVoid()
	case nothingHeld: // the notice that explains it, of the hold's end or of a capture, can come later
		void.Status, void.Outcome = StepPending, providers.Processing
		f.setDeadline(refusedVoidWait)
	default:
		f.review(FindingVoidRefused, fmt.Sprintf("The provider refused to void the payment (%s).", outcome.Code))
	}
}

// refusedVoidWait is how long a refused void waits for what explains it. Holds end in batches, once a day.
const refusedVoidWait = 24 * time.Hour

// holdIsOver tells that the provider has let go of held money by itself by now.
func (f *fold) holdIsOver(charge Step) bool {
	return charge.Status == StepDone && !f.saga.ReadAt.Before(charge.FinishedAt.Add(f.policy.Windows.Hold))
}

// late undoes a payment that came about after its order was given up. A void that is open may do it.
func (f *fold) late(e Event) {
	charge := f.saga.stepFor(e)
	charge.Status, charge.Outcome = StepUnknown, e.Outcome.Kind
	charge.ProviderReference = cmp.Or(e.Payment, charge.ProviderReference)
	if f.saga.State == Compensating {
		charge.Code = codeLate
		return
	}
	f.fire(fireLate)
	f.addVoid()
}

// codeLate marks a charge that was announced while its void was open.
const codeLate = "announced_late"

// undoneCharge marks the charge as undone, unless it had failed by itself.
func (f *fold) undoneCharge() {
	if charge := f.saga.step(StepCharge); charge.Status != StepFailed {
		charge.Status = StepUndone
	}
}

// refundAnswered reacts to what came of a refund, of an order that is undone or one that the shop asked for.
func (f *fold) refundAnswered(m move, refund *Step, outcome providers.Outcome) {
	switch {
	case f.before.State == Completed && m != moveRefundFailed: // still given back, as far as anybody knows
	case m == moveAwaitRefund:
		f.awaitEnd(refund)
	case m == moveRefunded && outcome.Code != providers.CodeAlreadyRefunded && !f.rightRefund(refund, outcome):
		refund.Status = StepUnknown
		asked := f.saga.moneyOf(*refund)
		f.review(mismatch(outcome.Money, asked), fmt.Sprintf("The provider gave %s back; %s was asked for.", outcome.Money, asked))
	case f.saga.Kind != KindRefund:
		f.undoneCharge()
	case m == moveRefundFailed:
		f.refundFailed()
	case outcome.Code == providers.CodeAlreadyRefunded && !f.saga.Refund.ofAnother(): // of another, all that is wanted
		refund.Status = StepUnknown
		f.review(FindingRefundedAtProvider, "The payment had been given back in full before, which nobody here asked for.")
	default:
		f.refund = RefundGive
		f.fire(fireConfirm)
	}
}

// refundFailed gives the sum of a refund back to the order: it was never given, or has come back.
func (f *fold) refundFailed() {
	if f.before.State == Completed {
		f.refund = RefundReturn
		f.fire(fireReturn)
		return
	}
	f.refund = RefundFree
	f.fire(fireRollBack)
}

// rightRefund holds the provider's amount, where it tells one, against what was asked for.
func (f *fold) rightRefund(refund *Step, outcome providers.Outcome) bool {
	return outcome.Money == (providers.Money{}) || outcome.Money == f.saga.moneyOf(*refund)
}

// compensated waits for what is still being undone, or lets go of the stock.
func (f *fold) compensated() {
	for _, name := range []StepName{StepRefund, StepVoid} {
		switch step := f.saga.openStep(name); {
		case step == nil:
			continue
		case step.Code != providers.CodeVoidRefused:
			f.waitFor(step)
		default:
			f.waitForReason()
		}
		return
	}
	if f.undoOwn() {
		return
	}
	if reserve := f.saga.step(StepReserve); reserve != nil && reserve.Status == StepDone {
		reserve.Status = StepUndone
		f.saga.addStep(StepRelease, StepDone, "")
		f.stock = StockRelease
	}
	f.fire(fireRollBack)
}

// waitForReason rests until it is clear that nobody tells why a void was refused.
func (f *fold) waitForReason() {
	f.setDeadline(refusedVoidWait) // a saga that a person put back has none
	if !f.pausedUntil(f.saga.DeadlineAt) {
		f.review(FindingVoidRefused, "The provider refused to void the payment, and nothing has told why.")
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
	switch {
	case e.Request != nil:
		f.asked(*e.Request)
	case e.Decision != nil:
		f.decided(*e.Decision, e.Outcome)
	case e.Call != CallNone:
		f.answered(e)
	}
	f.localSteps()
	if s := f.saga.State; f.before.State.Ended() && e.Decision == nil || s != Compensating && s != RolledBack {
		f.err = errors.Join(f.err, fmt.Errorf("saga in state %s has no use for its reservation", s))
	}
}

// confirm sells the goods, or, where they are gone, begins to give the money back.
func (f *fold) confirm() {
	s := &f.saga
	if f.reservationIsLost() {
		s.addStep(StepConfirm, StepFailed, "").Code = codeReservationLost
		f.compensate()
		return
	}
	if f.beginOwn(StepConfirm) {
		return
	}
	s.addStep(StepConfirm, StepDone, "")
	if s.step(StepReserve) != nil {
		f.stock = StockSell
	}
	f.fire(fireConfirm)
}

func (f *fold) reservationIsLost() bool {
	reserve := f.saga.step(StepReserve)
	return reserve != nil && reserve.Code == codeReservationLost
}
