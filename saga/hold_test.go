package saga

import (
	"testing"
	"time"

	"paysaga/providers"
)

func TestHeldMoneyConfirmsTheOrder(t *testing.T) {
	t.Parallel()
	l := heldLife(t, testPolicy)
	l.wants(Awaiting, OrderConfirmed, PaymentAuthorized)
	l.wantsStep(StepCharge, 1, StepDone)
	l.wantsStock()
	l.wantsPause(holdPoll)
	if want := noon.Add(testPolicy.Windows.Hold); l.change.After.DeadlineAt.Before(want) || l.change.After.DeadlineAt.After(want.Add(time.Second)) {
		t.Errorf("the hold ends at %s, want %s", l.change.After.DeadlineAt, want)
	}
	if len(l.events) != 1 || l.events[0] != "order.confirmed" || l.due() != CallLookup {
		t.Errorf("events %v; next %s", l.events, l.due())
	}
	before := l.saga.DeadlineAt
	l.sleeps(holdPoll)
	l.answers(CallLookup, outcomeOf(providers.Authorized))
	if !l.saga.DeadlineAt.Equal(before) || len(l.events) != 1 {
		t.Errorf("a look moved the hold's end to %s; events %v", l.saga.DeadlineAt, l.events)
	}
}

// A hold of another amount than the order's is for a person.
func TestHoldOfAnotherAmount(t *testing.T) {
	t.Parallel()
	l := newLife(t, testPolicy, manual())
	l.answers(CallCharge, providers.Outcome{Kind: providers.Authorized, Reference: "pay_1", Money: euros(1000)})
	l.wantsReview("amount_mismatch")
}

// The sub-key of a capture derives from its request, so that no two requests share one and a repeat makes no new one.
func TestCaptureKeyDerivesFromItsRequest(t *testing.T) {
	t.Parallel()
	l := heldLife(t, testPolicy)
	l.asks(captureRequest("first", 400, false))
	capture := l.wantsStep(StepCapture, 1, StepPending)
	if want := SubKey(requestKey("first"), StepCapture, 1); capture.SubKey != want || capture.Amount != 400 || capture.Final || capture.Provider != "fake" {
		t.Errorf("the capture's intent: %+v, want key %s", capture, want)
	}
	l.answers(CallCapture, outcomeOf(providers.Succeeded))
	l.asks(captureRequest("second", 0, false))
	second := l.wantsStep(StepCapture, 2, StepPending)
	if want := SubKey(requestKey("second"), StepCapture, 1); second.SubKey != want || second.Amount != 800 || !second.Final {
		t.Errorf("the rest: %+v, want key %s, and final", second, want)
	}
}

func TestCaptures(t *testing.T) {
	t.Parallel()
	taken := outcomeOf(providers.Succeeded)
	type ask struct {
		amount int64
		final  bool
	}
	for name, test := range map[string]struct {
		asks     []ask
		captured int64
		done     bool
	}{
		"all":                   {[]ask{{0, false}}, 1200, true},
		"all, by its amount":    {[]ask{{1200, false}}, 1200, true},
		"a part for good":       {[]ask{{500, true}}, 500, true},
		"a part, more may come": {[]ask{{500, false}}, 500, false},
		"several":               {[]ask{{500, false}, {300, false}}, 800, false},
		"several and the rest":  {[]ask{{500, false}, {300, false}, {0, false}}, 1200, true},
		"several to the end":    {[]ask{{500, false}, {700, false}}, 1200, true},
		"several, the last one": {[]ask{{500, false}, {1, true}}, 501, true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			l := heldLife(t, testPolicy)
			for i, ask := range test.asks {
				l.asks(captureRequest(string(rune('a'+i)), ask.amount, ask.final))
				l.answers(CallCapture, taken)
			}
			l.wantsMoney(test.captured, 0)
			if test.done {
				l.wants(Completed, OrderConfirmed, PaymentCaptured)
				l.wantsStock(StockSell)
			} else {
				l.wants(Awaiting, OrderConfirmed, PaymentCaptured)
				l.wantsStock()
			}
			if len(l.events) != 1+len(test.asks) || l.events[len(test.asks)] != "order.captured" {
				t.Errorf("events %v", l.events)
			}
		})
	}
}

func TestCapturesThatAreRefused(t *testing.T) {
	t.Parallel()
	l := newLife(t, testPolicy, manual())
	l.refuses(captureRequest("early", 0, true), RefusedBusy)
	l = heldLife(t, testPolicy)
	l.refuses(captureRequest("too-much", 1201, true), RefusedTooMuch)
	l.refuses(captureRequest("negative", -1, true), RefusedTooMuch)
	l.asks(captureRequest("part", 500, false))
	l.refuses(captureRequest("two-at-once", 1, false), RefusedBusy)
	l.answers(CallCapture, outcomeOf(providers.Succeeded))
	l.refuses(captureRequest("more-than-the-rest", 701, true), RefusedTooMuch)
	l.asks(captureRequest("rest", 700, true))
	l.answers(CallCapture, outcomeOf(providers.Succeeded))
	l.refuses(captureRequest("over", 1, true), RefusedNotHeld)
	automatic := awaitingLife(t, testPolicy, Payment{Provider: "fake"})
	automatic.refuses(captureRequest("automatic", 0, true), RefusedNotHeld)
	gone := heldLife(t, testPolicy)
	gone.asks(Request{Kind: RequestCancel})
	gone.refuses(captureRequest("being-undone", 0, true), RefusedOver)
	gone.answers(CallVoid, outcomeOf(providers.Succeeded))
	gone.refuses(captureRequest("undone", 0, true), RefusedOver)
	review := newLife(t, testPolicy, manual())
	review.answers(CallCharge, outcomeOf(providers.NotFound))
	review.refuses(captureRequest("review", 0, true), RefusedInReview)
}

// A capture that the provider has taken on is asked for where it can be, by the same call under the same key.
func TestCaptureOnItsWay(t *testing.T) {
	t.Parallel()
	l := heldLife(t, testPolicy)
	l.asks(captureRequest("all", 0, true))
	l.answers(CallCapture, outcomeOf(providers.Processing))
	l.wants(Awaiting, OrderConfirmed, PaymentAuthorized)
	if l.change.Pause <= 0 || l.due() != CallCapture {
		t.Errorf("rests for %s, then %q", l.change.Pause, l.due())
	}
	l.saga.ReadAt = l.saga.ReadAt.Add(testPolicy.Windows.Repost) // the key may be forgotten: only a look can tell
	for range 3 {
		l.answers(CallLookup, outcomeOf(providers.Processing))
		l.wants(Awaiting, OrderConfirmed, PaymentAuthorized)
		l.wantsStep(StepCharge, 1, StepDone)
	}
	l.saga.ReadAt = noon.Add(testPolicy.RefundDeadline + time.Minute)
	overdue := *l
	overdue.answers(CallLookup, outcomeOf(providers.Processing))
	overdue.wantsReview("capture_overdue")
	l.answers(CallLookup, providers.Outcome{Kind: providers.Succeeded, Money: euros(1200)})
	l.wants(Completed, OrderConfirmed, PaymentCaptured)
}

// A capture that is refused leaves the hold; a look tells whether it is there still.
func TestRefusedCaptureLooks(t *testing.T) {
	t.Parallel()
	for _, refusal := range []providers.Outcome{
		{Kind: providers.Declined, Code: "insufficient_funds"}, {Kind: providers.Rejected, Code: "one_capture_only"},
	} {
		l := heldLife(t, testPolicy)
		l.asks(captureRequest("all", 0, true))
		l.answers(CallCapture, refusal)
		l.wantsStep(StepCapture, 1, StepFailed)
		if l.change.Pause != 0 {
			t.Errorf("rests for %s before it looks", l.change.Pause)
		}
		there := *l
		there.answers(CallLookup, outcomeOf(providers.Authorized))
		there.wants(Awaiting, OrderConfirmed, PaymentAuthorized)
		there.asks(captureRequest("again", 0, true))
		gone := *l
		gone.answers(CallLookup, outcomeOf(providers.Canceled))
		gone.wants(RolledBack, OrderCanceled, PaymentVoided)
		gone.wantsStock(StockRelease)
	}
	l := heldLife(t, testPolicy)
	l.asks(captureRequest("all", 0, true))
	l.answers(CallCapture, l.coded(providers.Declined, providers.CodeCaptureFailed))
	l.wantsReview(providers.CodeCaptureFailed)
}

func TestHoldThatIsGone(t *testing.T) {
	t.Parallel()
	expired := providers.Outcome{Kind: providers.Canceled, Code: providers.CodeAuthorizationExpired}
	t.Run("seen by a look", func(t *testing.T) {
		t.Parallel()
		l := heldLife(t, testPolicy)
		l.answers(CallLookup, expired)
		l.wants(RolledBack, OrderCanceled, PaymentVoided)
		l.wantsStock(StockRelease)
		l.wantsMoney(0, 0)
	})
	t.Run("seen by a capture", func(t *testing.T) {
		t.Parallel()
		l := heldLife(t, testPolicy)
		l.asks(captureRequest("all", 0, true))
		l.answers(CallCapture, expired)
		l.wants(RolledBack, OrderCanceled, PaymentVoided)
		l.wantsStep(StepCapture, 1, StepFailed)
		l.wantsStock(StockRelease)
	})
	t.Run("after a part was taken", func(t *testing.T) {
		t.Parallel()
		l := heldLife(t, testPolicy)
		l.asks(captureRequest("part", 500, false))
		l.answers(CallCapture, outcomeOf(providers.Succeeded))
		l.answers(CallLookup, expired)
		l.wants(Completed, OrderConfirmed, PaymentCaptured)
		l.wantsMoney(500, 0)
		l.wantsStock(StockSell)
	})
	t.Run("a part was taken, and the provider says it is all", func(t *testing.T) {
		t.Parallel()
		l := heldLife(t, testPolicy)
		l.asks(captureRequest("part", 500, false))
		l.answers(CallCapture, outcomeOf(providers.Succeeded))
		l.answers(CallLookup, providers.Outcome{Kind: providers.Succeeded, Money: euros(500)})
		l.wants(Completed, OrderConfirmed, PaymentCaptured)
		l.wantsMoney(500, 0)
	})
	t.Run("given back by somebody", func(t *testing.T) {
		t.Parallel()
		l := heldLife(t, testPolicy)
		l.answers(CallLookup, l.coded(providers.Canceled, providers.CodeRefunded))
		l.wantsReview("refunded_at_provider")
	})
	t.Run("given back in part by somebody", func(t *testing.T) {
		t.Parallel()
		l := heldLife(t, testPolicy)
		l.answers(CallLookup, l.coded(providers.Succeeded, providers.CodePartiallyRefunded))
		l.wantsReview("refunded_at_provider")
	})
	t.Run("contradicted", func(t *testing.T) {
		t.Parallel()
		for _, outcome := range []providers.Outcome{asksCustomer(), declines(), outcomeOf(providers.Processing)} {
			l := heldLife(t, testPolicy)
			l.answers(CallLookup, outcome)
			l.wantsReview("unexpected_outcome")
		}
	})
}

// At the end of the hold the provider is asked once more; then it is let go.
func TestEndOfTheHold(t *testing.T) {
	t.Parallel()
	late := func(t *testing.T) *life {
		t.Helper()
		l := heldLife(t, testPolicy)
		l.saga.ReadAt = l.saga.DeadlineAt
		return l
	}
	t.Run("nothing taken", func(t *testing.T) {
		t.Parallel()
		l := late(t)
		l.answers(CallLookup, outcomeOf(providers.Authorized))
		l.wantsStep(StepVoid, 1, StepPending)
		l.wantsStock()
		l.answers(CallVoid, outcomeOf(providers.Succeeded))
		l.wants(RolledBack, OrderCanceled, PaymentVoided)
		l.wantsStock(StockRelease)
	})
	t.Run("taken in the last moment", func(t *testing.T) {
		t.Parallel()
		l := late(t)
		l.answers(CallLookup, outcomeOf(providers.Authorized))
		l.answers(CallVoid, l.coded(providers.Rejected, providers.CodeAlreadyCaptured))
		l.answers(CallRefund, outcomeOf(providers.Succeeded))
		l.wants(RolledBack, OrderCanceled, PaymentRefunded)
		l.wantsMoney(1200, 1200)
	})
	t.Run("a part taken", func(t *testing.T) {
		t.Parallel()
		l := heldLife(t, testPolicy)
		l.asks(captureRequest("part", 500, false))
		l.answers(CallCapture, outcomeOf(providers.Succeeded))
		l.saga.ReadAt = l.saga.DeadlineAt
		l.answers(CallLookup, outcomeOf(providers.Authorized))
		l.wants(Completed, OrderConfirmed, PaymentCaptured)
		l.wantsMoney(500, 0)
		l.wantsStock(StockSell)
	})
	t.Run("a capture is on its way", func(t *testing.T) {
		t.Parallel()
		l := heldLife(t, testPolicy)
		l.saga.ReadAt = l.saga.DeadlineAt.Add(-time.Second)
		l.asks(captureRequest("all", 0, true))
		l.saga.ReadAt = l.saga.ReadAt.Add(time.Minute)
		l.answers(CallCapture, outcomeOf(providers.Processing))
		l.wants(Awaiting, OrderConfirmed, PaymentAuthorized)
		l.answers(CallCapture, outcomeOf(providers.Succeeded))
		l.wants(Completed, OrderConfirmed, PaymentCaptured)
	})
}

// Of money that was taken, no later look at its payment lets the order forget: it is kept, or a person decides. The charge's line may say
// by then that its outcome is open, as a person had the saga go on after an answer that fits no capture.
func TestCapturedMoneyIsNeverForgotten(t *testing.T) {
	t.Parallel()
	for _, state := range []State{Charging, Awaiting} {
		for _, status := range []StepStatus{StepPending, StepUnknown, StepDone} {
			unnamed := captured(state, line(StepCharge, status))
			named := captured(state, chargeWith(status))
			for _, kind := range allOutcomes {
				for _, s := range []Saga{unnamed, named} {
					keepsWhatIsCaptured(t, s, outcomeOf(kind))
				}
			}
		}
	}
}

// captured is a saga of which a part was captured, so long ago that "not found" is an answer.
func captured(state State, charge Step) Saga {
	charge.StartedAt = noon.Add(-100 * time.Hour)
	s := holding(line(StepReserve, StepDone), charge, captureOf(500, StepDone))
	s.State, s.Kind, s.Order.Payment.OnDecline = state, KindOrder, DeclineRollsBack
	return s
}

func keepsWhatIsCaptured(t *testing.T, s Saga, found providers.Outcome) {
	t.Helper()
	change, err := Advance(s, answered(CallLookup, found), testPolicy)
	if err != nil {
		t.Fatalf("%s, %+v: %v", found.Kind, s.Steps, err)
	}
	if after := change.After; after.State == Compensating || after.State == RolledBack || after.captured() < 500 {
		t.Errorf("%s of %+v: %s with %d captured, steps %+v", found.Kind, s.Steps, after.State, after.captured(), after.Steps)
	}
}

// At the end of the wait, what was captured is kept, whatever the charge's line says.
func TestCapturedMoneyIsKeptAtTheDeadline(t *testing.T) {
	t.Parallel()
	for _, status := range []StepStatus{StepPending, StepUnknown, StepDone} {
		s := holding(line(StepReserve, StepDone), line(StepCharge, status), captureOf(500, StepDone))
		s.Kind, s.DeadlineAt = KindOrder, noon.Add(-time.Minute)
		f := fold{before: s, saga: s.clone(), policy: testPolicy}
		f.giveUp()
		f.localSteps()
		if after := f.change().After; f.err != nil || after.State != Completed || after.Order.Payment.CapturedAmount != 500 {
			t.Errorf("charge %s: %s with %d captured: %v", status, after.State, after.Order.Payment.CapturedAmount, f.err)
		}
	}
}
