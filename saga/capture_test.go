package saga

import (
	"testing"

	"paysaga/providers"
)

// What somebody captures at the provider is taken in.
func TestCapturedAtTheProvider(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		ours, told, captured int64
		want                 State
	}{
		"all":                       {0, 1200, 1200, Completed},
		"a part":                    {0, 500, 500, Completed},
		"the amount is not told":    {0, 0, 1200, Completed},
		"more after ours":           {500, 800, 800, Completed},
		"more than the order":       {0, 1201, 0, NeedsReview},
		"less than what ours took":  {500, 400, 500, NeedsReview},
		"as much as ours took":      {500, 500, 500, Completed},
		"all of the rest after our": {500, 1200, 1200, Completed},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			l := heldLife(t, testPolicy)
			if test.ours > 0 {
				l.asks(captureRequest("ours", test.ours, false))
				l.answers(CallCapture, outcomeOf(providers.Succeeded))
			}
			outcome := outcomeOf(providers.Succeeded)
			if test.told > 0 {
				outcome.Money = euros(test.told)
			}
			l.answers(CallLookup, outcome)
			if l.saga.State != test.want {
				t.Fatalf("state %s, want %s; findings %v", l.saga.State, test.want, l.found)
			}
			l.wantsMoney(test.captured, 0)
			if test.told > test.ours && test.want == Completed && l.saga.step(StepCapture).Code != codeCapturedAtProvider {
				t.Errorf("the capture is not marked: %+v", l.saga.Steps)
			}
		})
	}
	atOnce := newLife(t, testPolicy, manual()) // the account captures by itself
	atOnce.answers(CallCharge, outcomeOf(providers.Succeeded))
	atOnce.wants(Completed, OrderConfirmed, PaymentCaptured)
	atOnce.wantsMoney(1200, 0)
}

// A capture whose outcome is not known is repeated under its key; once that is too late, a look settles it.
func TestUnknownCapture(t *testing.T) {
	t.Parallel()
	unknown := func(t *testing.T, amount int64, final bool) *life {
		t.Helper()
		l := heldLife(t, testPolicy)
		l.asks(captureRequest("lost", amount, final))
		l.answers(CallCapture, providers.Outcome{Kind: providers.Unknown})
		l.wants(Awaiting, OrderConfirmed, PaymentAuthorized)
		l.wantsStep(StepCapture, 1, StepUnknown)
		l.refuses(Request{Kind: RequestCancel}, RefusedBusy)
		if l.due() != CallCapture {
			t.Fatalf("%q is due", l.due())
		}
		l.saga.ReadAt = l.saga.ReadAt.Add(testPolicy.Windows.Repost)
		return l
	}
	taken := func(amount int64) providers.Outcome {
		return providers.Outcome{Kind: providers.Succeeded, Reference: "pay_1", Money: euros(amount)}
	}
	someHeld := providers.Outcome{Kind: providers.Authorized, Code: providers.CodePartiallyCaptured}
	for name, test := range map[string]struct {
		amount   int64
		final    bool
		look     providers.Outcome
		state    State
		capture  StepStatus
		captured int64
	}{
		"all was taken":                {1200, true, taken(1200), Completed, StepDone, 1200},
		"the part was taken":           {500, true, taken(500), Completed, StepDone, 500},
		"nothing was taken":            {1200, true, outcomeOf(providers.Authorized), Awaiting, StepFailed, 0},
		"the part for good was not":    {500, true, outcomeOf(providers.Authorized), Awaiting, StepFailed, 0},
		"another amount was taken":     {500, true, taken(600), NeedsReview, StepUnknown, 0},
		"the hold has ended without":   {1200, true, outcomeOf(providers.Canceled), RolledBack, StepFailed, 0},
		"some part, and more is held":  {500, false, someHeld, NeedsReview, StepUnknown, 0},
		"the part was not":             {500, false, outcomeOf(providers.Authorized), Awaiting, StepFailed, 0},
		"a part, and nothing more is":  {500, false, taken(500), Completed, StepDone, 500},
		"nobody knows":                 {1200, true, outcomeOf(providers.Unknown), Awaiting, StepUnknown, 0},
		"the provider is busy":         {1200, true, outcomeOf(providers.Busy), Awaiting, StepUnknown, 0},
		"the provider has none of it":  {1200, true, outcomeOf(providers.NotFound), NeedsReview, StepUnknown, 0},
		"the provider refuses to tell": {1200, true, outcomeOf(providers.Rejected), NeedsReview, StepUnknown, 0},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			l := unknown(t, test.amount, test.final)
			l.answers(CallLookup, test.look)
			if l.saga.State != test.state {
				t.Fatalf("state %s, want %s; findings %v", l.saga.State, test.state, l.found)
			}
			l.wantsStep(StepCapture, 1, test.capture)
			l.wantsMoney(test.captured, 0)
		})
	}
}

// The first part is taken, the second is lost, and a look finds only the first and nothing held.
func TestUnknownSecondPart(t *testing.T) {
	t.Parallel()
	l := heldLife(t, testPolicy)
	l.asks(captureRequest("first", 500, false))
	l.answers(CallCapture, outcomeOf(providers.Succeeded))
	l.asks(captureRequest("second", 300, false))
	l.answers(CallCapture, providers.Outcome{Kind: providers.Unknown, Code: providers.CodeServerErrorFinal})
	l.answers(CallLookup, providers.Outcome{Kind: providers.Succeeded, Money: euros(500)})
	l.wantsStep(StepCapture, 2, StepFailed)
	l.wants(Completed, OrderConfirmed, PaymentCaptured)
	l.wantsMoney(500, 0)
}

// A provider that refuses a repeated capture as a request says nothing about the first send (I4).
func TestRefusalOfARepeatedCaptureDecidesNothing(t *testing.T) {
	t.Parallel()
	l := heldLife(t, testPolicy)
	l.asks(captureRequest("all", 0, true))
	l.answers(CallCapture, outcomeOf(providers.Unknown))
	l.answers(CallCapture, l.coded(providers.Rejected, "nothing_held"))
	l.wantsStep(StepCapture, 1, StepUnknown)
	l.answers(CallLookup, providers.Outcome{Kind: providers.Succeeded, Money: euros(1200)})
	l.wants(Completed, OrderConfirmed, PaymentCaptured)
}
