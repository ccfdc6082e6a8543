package saga

import (
	"fmt"

	"paysaga/providers"
)

// captureAnswered reacts to what came of a capture call.
func (f *fold) captureAnswered(m move, capture *Step, outcome providers.Outcome) {
	switch m {
	case moveCaptured:
		f.captured(capture, outcome)
	case moveAwaitCapture:
		f.awaitEnd(capture)
	default:
		f.captureFailed(capture, outcome)
	}
}

// captured accepts what was taken. After the last capture the order is paid.
func (f *fold) captured(capture *Step, outcome providers.Outcome) {
	sum := f.saga.captured()
	if told := outcome.Money; told != (providers.Money{}) &&
		(told.Currency != f.saga.Order.Currency || (told.Amount != capture.Amount && told.Amount != sum)) {
		capture.Status = StepUnknown
		asked := f.saga.money(capture.Amount)
		f.review(mismatch(told, asked), fmt.Sprintf("The provider captured %s; %s was asked for.", told, asked))
		return
	}
	f.capturesDone(capture.Final)
}

// capturesDone ends the wait when no further capture can follow.
func (f *fold) capturesDone(final bool) {
	if final || f.saga.captured() >= f.saga.Order.Amount {
		f.stopWaiting()
		f.fire(fireTake)
		return
	}
	f.waitUntilDeadline(holdPoll)
}

// captureFailed is for a person where the money had been taken and was sent back. Else the hold stands as it is known, and the
// drive goes on with a look: it may have ended, or somebody may have taken the money at the provider.
func (f *fold) captureFailed(capture *Step, outcome providers.Outcome) {
	if outcome.Code == providers.CodeCaptureFailed {
		f.review(FindingCaptureFailed, fmt.Sprintf("The card scheme sent the capture of %s back.", f.saga.money(capture.Amount)))
	}
}

// takeHeld makes sense of a look at held money that finds some of it taken: by our captures, or by somebody at the provider.
func (f *fold) takeHeld(charge *Step, outcome providers.Outcome) {
	taken := outcome.Money.Amount
	if outcome.Money == (providers.Money{}) {
		taken = f.saga.Order.Amount
	}
	if outcome.Money.Currency != "" && outcome.Money.Currency != f.saga.Order.Currency || taken > f.saga.Order.Amount {
		f.rightAmount(charge, outcome)
		return
	}
	f.startAwaiting()
	f.setDeadline(f.policy.Windows.Hold)
	if f.settleOpenCapture(charge, taken, outcome) {
		return
	}
	switch known := f.saga.captured(); {
	case taken == known && known > 0: // nothing is held any more
		f.capturesDone(true)
	case taken > known:
		capture := f.saga.addStep(StepCapture, StepDone, charge.Provider)
		capture.Amount, capture.Final, capture.Outcome, capture.Code = taken-known, true, providers.Succeeded, codeCapturedAtProvider
		capture.ProviderReference = f.capturedAs
		f.capturesDone(true)
	default:
		f.review(FindingAmountMismatch, fmt.Sprintf("The provider tells that %s is captured; here it is %s.",
			f.saga.money(taken), f.saga.money(known)))
	}
}

// codeCapturedAtProvider marks a capture that was not asked for here.
const codeCapturedAtProvider = "captured_at_provider"

// settleOpenCapture decides a capture whose own call cannot tell any more, by how much a look finds taken in all. It tells
// whether there was one.
func (f *fold) settleOpenCapture(charge *Step, taken int64, outcome providers.Outcome) bool {
	capture := f.saga.openStep(StepCapture)
	if capture == nil {
		return false
	}
	nothingHeld := outcome.Kind == providers.Succeeded
	switch known := f.saga.captured(); taken {
	case known + capture.Amount:
		capture.Status, capture.Outcome = StepDone, providers.Succeeded
		f.capturesDone(capture.Final || nothingHeld)
	case known: // no send of it can be under way any more: it was not carried out
		capture.Status, capture.Outcome = StepFailed, providers.NotFound
		f.capturesDone(nothingHeld && known > 0)
	default:
		charge.Status = StepDone
		f.review(FindingAmountMismatch, fmt.Sprintf("The provider tells that %s is captured (%s); here it is %s, and %s is open.",
			f.saga.money(taken), outcome.Code, f.saga.money(known), f.saga.money(capture.Amount)))
	}
	return true
}
