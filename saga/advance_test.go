package saga

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"paysaga/providers"
)

// mustAdvance fails the test where the event does not fit.
func mustAdvance(t *testing.T, s Saga, e Event) Change {
	t.Helper()
	change, err := Advance(s, e, testPolicy)
	if err != nil {
		t.Fatal(err)
	}
	return change
}

func TestFirstChangeReservesAndWritesTheIntent(t *testing.T) {
	t.Parallel()
	change := mustAdvance(t, newSaga(), Event{Kind: Resume})
	key := change.After.Key
	want := []Step{
		{Name: StepReserve, Attempt: 1, SubKey: SubKey(key, StepReserve, 1), Status: StepDone},
		{Name: StepCharge, Attempt: 1, SubKey: SubKey(key, StepCharge, 1), Status: StepPending, Provider: "fake"},
	}
	if diff := cmp.Diff(want, change.Steps); diff != "" {
		t.Errorf("steps (-want +got):\n%s", diff)
	}
	if change.From != Started || change.After.State != Charging || change.Stock != StockReserve || change.Pause != 0 {
		t.Errorf("change from %s to %s with stock %q and pause %s", change.From, change.After.State, change.Stock, change.Pause)
	}
	if change.Event != "" || change.After.Order.Status != OrderProcessing || change.After.Order.Payment.Status != PaymentNone {
		t.Errorf("order %s, payment %s, event %q", change.After.Order.Status, change.After.Order.Payment.Status, change.Event)
	}
}

func TestOutcomesOfACharge(t *testing.T) {
	t.Parallel()
	ours := providers.Money{Amount: 1200, Currency: "EUR"}
	type end struct {
		State   State
		Charge  StepStatus
		Order   OrderStatus
		Payment PaymentStatus
		Stock   StockEffect
		Event   string
		Finding string
	}
	review := func(charge StepStatus, finding string) end {
		return end{NeedsReview, charge, OrderInReview, PaymentNone, StockNone, "order.in_review", finding}
	}
	failed := end{RolledBack, StepFailed, OrderFailed, PaymentNone, StockRelease, "order.failed", ""}
	declined := failed
	declined.Payment = PaymentDeclined
	confirmed := end{Completed, StepDone, OrderConfirmed, PaymentCaptured, StockSell, "order.confirmed", ""}
	for name, test := range map[string]struct {
		outcome providers.Outcome
		want    end
	}{
		"succeeded":                   {providers.Outcome{Kind: providers.Succeeded, Money: ours, Reference: "pay_1"}, confirmed},
		"succeeded without an amount": {providers.Outcome{Kind: providers.Succeeded, Reference: "pay_1"}, confirmed},
		"another amount":              {providers.Outcome{Kind: providers.Succeeded, Money: providers.Money{Amount: 1199, Currency: "EUR"}}, review(StepUnknown, "amount_mismatch")},
		"another currency":            {providers.Outcome{Kind: providers.Succeeded, Money: providers.Money{Amount: 1200, Currency: "USD"}}, review(StepUnknown, "currency_mismatch")},
		"declined":                    {providers.Outcome{Kind: providers.Declined, Decline: &providers.Decline{Code: "card_declined"}}, declined},
		"rejected":                    {providers.Outcome{Kind: providers.Rejected, Code: "amount_too_small"}, failed},
		"canceled":                    {providers.Outcome{Kind: providers.Canceled}, failed},
		"action":                      {providers.Outcome{Kind: providers.ActionRequired, NextAction: &providers.NextAction{Type: "redirect"}}, end{Awaiting, StepPending, OrderAwaiting, PaymentNone, StockNone, "order.awaiting", ""}},
		"processing":                  {providers.Outcome{Kind: providers.Processing}, end{Awaiting, StepPending, OrderAwaiting, PaymentNone, StockNone, "order.awaiting", ""}},
		"authorized only":             {providers.Outcome{Kind: providers.Authorized}, review(StepUnknown, "unexpected_outcome")},
		"several payments":            {providers.Outcome{Kind: providers.Unknown, Code: providers.CodeSeveralPayments}, review(StepUnknown, "duplicate_charge")},
		"unknown":                     {providers.Outcome{Kind: providers.Unknown}, end{Charging, StepUnknown, OrderProcessing, PaymentNone, StockNone, "", ""}},
		"busy":                        {providers.Outcome{Kind: providers.Busy}, end{Charging, StepPending, OrderProcessing, PaymentNone, StockNone, "", ""}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := scene(Charging, line(StepReserve, StepDone), line(StepCharge, StepPending))
			change := mustAdvance(t, s, answered(CallCharge, test.outcome))
			got := end{
				change.After.State, statusOf(change.After, StepCharge), change.After.Order.Status,
				change.After.Order.Payment.Status, change.Stock, change.Event, "",
			}
			if change.Finding != nil {
				got.Finding = change.Finding.Kind
			}
			if diff := cmp.Diff(test.want, got); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}

// A search that is behind must not be taken for "no payment" (I4). The delay counts from the last send there can have been.
func TestAbsenceNeedsTime(t *testing.T) {
	t.Parallel()
	windows := testPolicy.Windows
	for name, test := range map[string]struct {
		age, sinceSend time.Duration // of the charge; zero sinceSend: no send was recorded
		code           string
		want           State
	}{
		"just sent":                           {time.Minute, time.Minute, providers.CodeServerErrorFinal, Charging},
		"long ago":                            {windows.LookupDelay, windows.LookupDelay, providers.CodeServerErrorFinal, RolledBack},
		"sent again lately":                   {22 * time.Hour, time.Minute, providers.CodeServerErrorFinal, Charging},
		"at the window's end":                 {windows.Repost, windows.LookupDelay, "", Charging},
		"a server may have died after a send": {windows.Repost + windows.LookupDelay - 1, 0, "", Charging},
		"past the window and the delay":       {windows.Repost + windows.LookupDelay, 0, "", RolledBack},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := scene(Charging, line(StepReserve, StepDone), line(StepCharge, StepUnknown))
			charge := &s.Steps[1]
			charge.StartedAt, charge.Code = noon.Add(-test.age), test.code
			if test.sinceSend > 0 {
				charge.SentAt = noon.Add(-test.sinceSend)
			}
			if call := Next(s, windows); call != CallLookup {
				t.Fatalf("Next = %q", call)
			}
			if got := mustAdvance(t, s, answered(CallLookup, providers.Outcome{Kind: providers.NotFound})).After.State; got != test.want {
				t.Errorf("state %s, want %s", got, test.want)
			}
		})
	}
}

// lookedUp is what becomes of an awaited payment with so much time left, when the provider says what it is.
func lookedUp(t *testing.T, kind providers.OutcomeKind, left time.Duration) Change {
	t.Helper()
	s := scene(Awaiting, line(StepReserve, StepDone), chargeWith(StepPending))
	s.DeadlineAt = noon.Add(left)
	return mustAdvance(t, s, answered(CallLookup, providers.Outcome{Kind: kind, Reference: "pay_1"}))
}

// At the deadline the provider is asked first; only then the payment is closed.
func TestDeadlineOfAnAwaitedPayment(t *testing.T) {
	t.Parallel()
	before := lookedUp(t, providers.ActionRequired, time.Microsecond)
	if before.After.State != Awaiting || before.Pause != time.Microsecond || before.After.Order.Payment.NextAction == nil {
		t.Errorf("before the deadline: %s, pause %s, next action %v", before.After.State, before.Pause, before.After.Order.Payment.NextAction)
	}
	at := lookedUp(t, providers.ActionRequired, 0)
	if at.After.State != Compensating || statusOf(at.After, StepVoid) != StepPending || at.Stock != StockNone || at.Pause != 0 {
		t.Errorf("at the deadline: %s, void %s, stock %q, pause %s", at.After.State, statusOf(at.After, StepVoid), at.Stock, at.Pause)
	}
	if at.After.Order.Payment.NextAction != nil || !at.After.DeadlineAt.IsZero() {
		t.Error("a payment that is being closed still asks for an action")
	}
	if late := lookedUp(t, providers.Succeeded, -time.Hour); late.After.State != Completed {
		t.Errorf("paid at the last moment: %s, want completed", late.After.State)
	}
}

// What the customer has done starts the provider's own, longer deadline, once.
func TestProcessingHasADeadlineOfItsOwn(t *testing.T) {
	t.Parallel()
	first := lookedUp(t, providers.Processing, time.Minute)
	if want := noon.Add(testPolicy.ProcessingDeadline); !first.After.DeadlineAt.Equal(want) || first.After.Order.Payment.NextAction != nil {
		t.Errorf("processing until %s, want %s; next action %v", first.After.DeadlineAt, want, first.After.Order.Payment.NextAction)
	}
	again := mustAdvance(t, stored(first, noon.Add(time.Minute)), answered(CallLookup, providers.Outcome{Kind: providers.Processing}))
	if !again.After.DeadlineAt.Equal(first.After.DeadlineAt) {
		t.Errorf("asking again moved the deadline to %s", again.After.DeadlineAt)
	}
}

// A payment that the customer could still complete is closed before its order is given up.
func TestDeclinedWhileAwaitingIsClosedFirst(t *testing.T) {
	t.Parallel()
	s := scene(Awaiting, line(StepReserve, StepDone), chargeWith(StepPending))
	change := mustAdvance(t, s, answered(CallLookup, providers.Outcome{Kind: providers.Declined, Decline: &providers.Decline{Code: "card_declined"}}))
	if change.After.State != Compensating || change.Stock != StockNone || statusOf(change.After, StepVoid) != StepPending {
		t.Fatalf("state %s, stock %q, void %q", change.After.State, change.Stock, statusOf(change.After, StepVoid))
	}
	closed := mustAdvance(t, stored(change, noon), answered(CallVoid, providers.Outcome{Kind: providers.Succeeded}))
	if closed.After.State != RolledBack || closed.Stock != StockRelease || statusOf(closed.After, StepCharge) != StepFailed {
		t.Errorf("state %s, stock %q, charge %q", closed.After.State, closed.Stock, statusOf(closed.After, StepCharge))
	}
	if closed.After.Order.Status != OrderFailed || closed.After.Order.Payment.Status != PaymentDeclined {
		t.Errorf("order %s, payment %s", closed.After.Order.Status, closed.After.Order.Payment.Status)
	}
}

// A refund that the provider has accepted does not fail by taking its time, up to a bound.
func TestAcceptedRefundHasADeadline(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		age  time.Duration
		want State
	}{
		{testPolicy.RefundDeadline, Compensating},
		{testPolicy.RefundDeadline + 1, NeedsReview},
	} {
		s := scenesFor(CallCheckRefund)[0]
		s.Steps[2].StartedAt, s.Failures = noon.Add(-test.age), testPolicy.MaxFailures
		change := mustAdvance(t, s, answered(CallCheckRefund, providers.Outcome{Kind: providers.Processing}))
		if change.After.State != test.want || statusOf(change.After, StepRefund) != StepPending {
			t.Errorf("after %s: %s, refund %s; want %s", test.age, change.After.State, statusOf(change.After, StepRefund), test.want)
		}
		if overdue := change.Finding != nil && change.Finding.Kind == "refund_overdue"; overdue != (test.want == NeedsReview) {
			t.Errorf("after %s: finding %v", test.age, change.Finding)
		}
	}
}

func TestRefundKeepsItsOwnReference(t *testing.T) {
	t.Parallel()
	s := scenesFor(CallCheckRefund)[0]
	change := mustAdvance(t, s, answered(CallCheckRefund, providers.Outcome{Kind: providers.Succeeded}))
	if got := change.After.step(StepRefund).ProviderReference; got != "refund_1" {
		t.Errorf("the refund's reference is %q, want refund_1", got)
	}
	if change.After.Order.Status != OrderCanceled || change.After.Order.Payment.Status != PaymentRefunded {
		t.Errorf("order %s, payment %s", change.After.Order.Status, change.After.Order.Payment.Status)
	}
}

// Goods that are gone when they are to be released leave what is still held to be freed; the saga still ends (I5).
func TestReservationLostOnTheWayBack(t *testing.T) {
	t.Parallel()
	reserved := line(StepReserve, StepDone)
	for name, test := range map[string]struct {
		saga  Saga
		event Event
	}{
		"after a decline": {scene(Charging, reserved, line(StepCharge, StepPending)), answered(CallCharge, providers.Outcome{Kind: providers.Declined})},
		"after a void":    {scene(Compensating, reserved, chargeWith(StepPending), line(StepVoid, StepPending)), answered(CallVoid, providers.Outcome{Kind: providers.Succeeded})},
		"nothing open":    {scene(Compensating, reserved, chargeWith(StepUndone), line(StepVoid, StepDone)), Event{Kind: Resume}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			test.event.Kind = ReservationLost
			change := mustAdvance(t, test.saga, test.event)
			if change.After.State != RolledBack || change.Stock != StockForfeit || statusOf(change.After, StepReserve) != StepUndone {
				t.Errorf("state %s, stock %q, reserve %s", change.After.State, change.Stock, statusOf(change.After, StepReserve))
			}
		})
	}
}

func TestReservationLostBeforeTheChargeIsKnownDecidesNothing(t *testing.T) {
	t.Parallel()
	for _, state := range []State{Started, Reserved, Charging, Awaiting, Completed, RolledBack, NeedsReview} {
		if _, err := Advance(scene(state, line(StepReserve, StepDone), line(StepCharge, StepUnknown)), Event{Kind: ReservationLost}, testPolicy); err == nil {
			t.Errorf("state %s took the loss of its reservation", state)
		}
	}
}

// A provider that refuses our request says nothing about an earlier send of it, perhaps to another account (I1, I4).
func TestRefusalAfterAnEarlierSendDecidesNothing(t *testing.T) {
	t.Parallel()
	reserved := line(StepReserve, StepDone)
	rejected := providers.Outcome{Kind: providers.Rejected, Code: "resource_missing"}
	for name, test := range map[string]struct {
		charge     StepStatus
		unrecorded int
		unsure     bool
		want       State
	}{
		"first send":                      {StepPending, 1, false, RolledBack},
		"after a busy answer":             {StepPending, 1, false, RolledBack},
		"after an unknown outcome":        {StepUnknown, 1, false, Charging},
		"after an unknown send just now":  {StepPending, 1, true, Charging},
		"after a server that died or was": {StepPending, 2, false, Charging},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := scene(Charging, reserved, line(StepCharge, test.charge))
			s.Unrecorded = test.unrecorded
			event := answered(CallCharge, rejected)
			event.Unsure = test.unsure
			change := mustAdvance(t, s, event)
			if change.After.State != test.want {
				t.Errorf("state %s, want %s", change.After.State, test.want)
			}
			if held := change.Stock == StockNone; held != (test.want == Charging) {
				t.Errorf("stock effect %q", change.Stock)
			}
			if test.want != Charging {
				return
			}
			after := stored(change, noon)
			if next := Next(after, testPolicy.Windows); next != CallLookup {
				t.Errorf("next call %s, want a look-up", next)
			}
			after.ReadAt = noon.Add(testPolicy.Windows.LookupDelay)
			missing := mustAdvance(t, after, answered(CallLookup, providers.Outcome{Kind: providers.NotFound}))
			if missing.After.State != NeedsReview || missing.Finding.Kind != "refused_after_send" {
				t.Errorf("not found in time: %s, finding %v; want a person to look", missing.After.State, missing.Finding)
			}
			found := mustAdvance(t, after, answered(CallLookup, providers.Outcome{Kind: providers.Succeeded}))
			if found.After.State != Completed {
				t.Errorf("found: %s", found.After.State)
			}
		})
	}
}

// A busy answer after a send that may have taken the money leaves the doubt standing for the turns that follow (I4).
func TestDoubtOutlivesABusyAnswer(t *testing.T) {
	t.Parallel()
	busy, rejected := providers.Outcome{Kind: providers.Busy}, providers.Outcome{Kind: providers.Rejected, Code: "resource_missing"}
	for name, test := range map[string]struct {
		unsure     bool
		unrecorded int
		want       State
	}{
		"nothing was sent before":          {false, 1, RolledBack},
		"an unknown send in the same turn": {true, 1, Charging},
		"a server died before":             {false, 2, Charging},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := scene(Charging, line(StepReserve, StepDone), line(StepCharge, StepPending))
			s.Unrecorded = test.unrecorded
			event := answered(CallCharge, busy)
			event.Unsure = test.unsure
			next := stored(mustAdvance(t, s, event), noon)
			next.Unrecorded = 1 // the turn was written
			if change := mustAdvance(t, next, answered(CallCharge, rejected)); change.After.State != test.want {
				t.Errorf("refused in the next turn: %s, want %s", change.After.State, test.want)
			}
		})
	}
}

func TestSagaThatNobodyCanDriveIsParked(t *testing.T) {
	t.Parallel()
	for _, call := range allCalls {
		for _, s := range scenesFor(call) {
			s.Unrecorded = testPolicy.MaxUnrecorded + 1
			change := mustAdvance(t, s, Event{Kind: Abandoned})
			if change.After.State != NeedsReview || change.Finding == nil || change.Finding.Kind != "cannot_be_driven" || change.Stock != StockNone {
				t.Errorf("%s: %s, finding %v, stock %q", s.State, change.After.State, change.Finding, change.Stock)
			}
		}
	}
}

// A payment that a person sent back to be looked up has no deadline; it gets the one that fits what the provider says.
func TestAwaitGivesADeadlineWhereNoneRuns(t *testing.T) {
	t.Parallel()
	for kind, want := range map[providers.OutcomeKind]time.Duration{
		providers.Processing: testPolicy.ProcessingDeadline, providers.ActionRequired: testPolicy.AwaitDeadline,
	} {
		s := scene(Awaiting, line(StepReserve, StepDone), chargeWith(StepPending))
		s.DeadlineAt, s.Order.Payment.NextAction = time.Time{}, nil
		change := mustAdvance(t, s, answered(CallLookup, providers.Outcome{Kind: kind}))
		if got := change.After.DeadlineAt.Sub(noon); got != want || change.After.State != Awaiting {
			t.Errorf("%s: %s, deadline in %s, want %s", kind, change.After.State, got, want)
		}
	}
}
