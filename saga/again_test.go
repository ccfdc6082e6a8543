package saga

import (
	"testing"
	"time"

	"paysaga/providers"
)

// An operator who lets an order wait again leaves it without a deadline. It gets a new one, and is not given up at once.
func TestOrderThatIsLetWaitAgain(t *testing.T) {
	t.Parallel()
	deferred, hold := deferredPolicy(), testPolicy.Windows.Hold
	declined := newLife(t, testPolicy, patient())
	declined.answers(CallCharge, declines())
	processing := newLife(t, deferred, automatic)
	processing.answers(CallCharge, outcomeOf(providers.Processing))
	part := heldLife(t, deferred)
	part.asks(captureRequest("part", 500, false))
	part.answers(CallCapture, outcomeOf(providers.Succeeded))
	for name, test := range map[string]struct {
		life   *life
		looked providers.Outcome // where the payment can be looked up
		waits  time.Duration
	}{
		"held":                            {heldLife(t, testPolicy), outcomeOf(providers.Authorized), hold},
		"held, a notice tells":            {heldLife(t, deferred), providers.Outcome{}, deferred.Windows.Hold},
		"held in part":                    {part, providers.Outcome{}, deferred.Windows.Hold},
		"customer must act":               {awaitingLife(t, testPolicy, automatic), asksCustomer(), testPolicy.AwaitDeadline},
		"customer must act, a notice":     {awaitingLife(t, deferred, automatic), providers.Outcome{}, testPolicy.AwaitDeadline},
		"processing":                      {awaitingLife(t, testPolicy, automatic), outcomeOf(providers.Processing), testPolicy.ProcessingDeadline},
		"processing, a notice tells":      {processing, providers.Outcome{}, testPolicy.ProcessingDeadline},
		"declined, and may pay otherwise": {declined, providers.Outcome{}, testPolicy.AwaitDeadline},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			l := test.life
			l.t = t
			again := l.saga.ReadAt.Add(90 * 24 * time.Hour)
			l.saga.DeadlineAt, l.saga.ReadAt = time.Time{}, again
			if l.due() == CallLookup {
				l.answers(CallLookup, test.looked)
			} else {
				l.sleeps(0)
			}
			if want := again.Add(test.waits); l.change.After.State != Awaiting || !l.change.After.DeadlineAt.Equal(want) || l.change.Pause <= 0 {
				t.Errorf("%s until %s, rests for %s; want it to wait until %s",
					l.change.After.State, l.change.After.DeadlineAt, l.change.Pause, want)
			}
		})
	}
}

// The same for an order whose void was refused: what explains that may come still.
func TestRefusedVoidThatIsLetWaitAgain(t *testing.T) {
	t.Parallel()
	l := heldLife(t, deferredPolicy())
	l.asks(cancels)
	l.answers(CallVoid, providers.Outcome{Kind: providers.Processing, Reference: "void_1"})
	refused := noticeOf(providers.AboutVoid, &providers.Outcome{Kind: providers.Rejected, Code: providers.CodeVoidRefused})
	refused.Reference = "void_1"
	l.hears(refused)
	l.sleeps(refusedVoidWait + time.Minute)
	l.wantsReview(FindingVoidRefused)
	l.saga.State, l.saga.DeadlineAt, l.found = Compensating, time.Time{}, nil
	l.sleeps(time.Hour)
	l.wants(Compensating, OrderProcessing, PaymentAuthorized)
	l.wantsPause(refusedVoidWait)
}

// The notice of a hold that comes after the notice of its end tells only how it began.
func TestEndOfAHoldOvertakesItsBeginning(t *testing.T) {
	t.Parallel()
	canceled, held := providers.Outcome{Kind: providers.Canceled}, providers.Outcome{Kind: providers.Authorized, Money: euros(1200)}
	voided := outcomeOf(providers.Succeeded)
	for name, end := range map[string]providers.Notice{
		"canceled by somebody": noticeOf(providers.AboutVoid, &voided),
		"expired":              noticeOf(providers.AboutCharge, &canceled),
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			l := heldLife(t, deferredPolicy())
			hearEachTwice(l, []providers.Notice{end, noticeOf(providers.AboutCharge, &held)})
			l.wants(RolledBack, OrderCanceled, PaymentVoided)
			l.wantsStock(StockRelease)
		})
	}
}

// What only a call needs goes with it.
func TestCallsSecretsGoWithTheCall(t *testing.T) {
	t.Parallel()
	payment := Payment{Provider: "fake", MethodData: []byte(`{"token":"x"}`)}
	l := awaitingLife(t, testPolicy, payment)
	proceed := Request{Kind: RequestContinue, Details: []byte(`{"result":"y"}`)}
	l.asks(proceed)
	if kept := l.wantsStep(StepContinue, 1, StepPending); kept.Details == "" || l.saga.Order.Payment.MethodData == nil {
		t.Fatalf("before the end: %q, data %s", kept.Details, l.saga.Order.Payment.MethodData)
	}
	failed := *l
	failed.answers(CallContinue, outcomeOf(providers.Rejected))
	if kept := failed.wantsStep(StepContinue, 1, StepFailed); kept.Details != "" || failed.saga.Order.Payment.MethodData == nil {
		t.Errorf("after the refusal: %q, data %s", kept.Details, failed.saga.Order.Payment.MethodData)
	}
	l.answers(CallContinue, outcomeOf(providers.Succeeded))
	if kept := l.wantsStep(StepContinue, 1, StepDone); kept.Details != "" || l.saga.Order.Payment.MethodData != nil {
		t.Errorf("after the end: %q, data %s", kept.Details, l.saga.Order.Payment.MethodData)
	}
	settled := awaitingLife(t, testPolicy, payment)
	settled.asks(proceed)
	settled.answers(CallContinue, outcomeOf(providers.Unknown))
	settled.saga.ReadAt = settled.saga.ReadAt.Add(testPolicy.Windows.Repost)
	settled.answers(CallLookup, outcomeOf(providers.Succeeded))
	if kept := settled.wantsStep(StepContinue, 1, StepDone); kept.Details != "" {
		t.Errorf("after a look: %q", kept.Details)
	}
}
