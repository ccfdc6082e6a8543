package saga

import (
	"encoding/json"
	"testing"
	"time"

	"paysaga/providers"
)

var (
	goesOn    = Request{Kind: RequestContinue, Details: json.RawMessage(`{"details":{"redirectResult":"X"}}`)}
	approves  = providers.Outcome{Kind: providers.Processing, Code: providers.CodeApproved, Reference: "pay_1"}
	automatic = Payment{Provider: "fake", Method: "pm_1"}
)

// What the customer has approved, and only we can take, is taken by a continue of our own: once, whoever finds it out first.
func TestApprovedPaymentIsTakenOnce(t *testing.T) {
	t.Parallel()
	for _, end := range []struct {
		outcome providers.Outcome
		state   State
		order   OrderStatus
		payment PaymentStatus
		proceed StepStatus
	}{
		{outcomeOf(providers.Succeeded), Completed, OrderConfirmed, PaymentCaptured, StepDone},
		{declines(), RolledBack, OrderFailed, PaymentDeclined, StepDone},
		{asksCustomer(), Awaiting, OrderAwaiting, PaymentNone, StepDone},
		{outcomeOf(providers.Processing), Awaiting, OrderAwaiting, PaymentNone, StepDone},
		{outcomeOf(providers.Canceled), RolledBack, OrderFailed, PaymentNone, StepDone},
		{approves, Awaiting, OrderAwaiting, PaymentNone, StepUnknown},
		{outcomeOf(providers.Unknown), Awaiting, OrderAwaiting, PaymentNone, StepUnknown},
		{outcomeOf(providers.Rejected), Awaiting, OrderAwaiting, PaymentNone, StepFailed},
	} {
		policy := testPolicy
		policy.Windows.StaysPayable = false
		l := awaitingLife(t, policy, automatic)
		l.answers(CallLookup, approves)
		if l.change.Pause != 0 || l.saga.Order.Payment.NextAction != nil || l.saga.DeadlineAt.IsZero() {
			t.Errorf("after the approval: pause %s, next action %v, deadline %s", l.change.Pause, l.saga.Order.Payment.NextAction, l.saga.DeadlineAt)
		}
		step := l.wantsStep(StepContinue, 1, StepPending)
		if step.SubKey != SubKey(l.saga.Key, StepContinue, 1) || step.Provider != "fake" {
			t.Errorf("the continue's intent: %+v", step)
		}
		l.refuses(Request{Kind: RequestContinue}, RefusedBusy) // the shop's own comes second
		l.answers(CallContinue, end.outcome)
		l.wants(end.state, end.order, end.payment)
		l.wantsStep(StepContinue, 1, end.proceed)
		if attempts(l.saga, StepContinue) != 1 {
			t.Errorf("%d continues after %s", attempts(l.saga, StepContinue), end.outcome.Kind)
		}
	}
}

// The shop's continue comes first, and the look that follows adds none.
func TestContinueByRequestOfAnApprovedPayment(t *testing.T) {
	t.Parallel()
	l := awaitingLife(t, testPolicy, automatic)
	l.asks(Request{Kind: RequestContinue})
	l.answers(CallContinue, outcomeOf(providers.Unknown))
	l.saga.ReadAt = l.saga.ReadAt.Add(testPolicy.Windows.Repost)
	l.answers(CallLookup, outcomeOf(providers.Succeeded))
	l.wants(Completed, OrderConfirmed, PaymentCaptured)
	l.wantsStep(StepContinue, 1, StepDone)
}

// A continue that was refused is not repeated under ever new keys: it rests, and ends with the deadline.
func TestRefusedContinueOfAnApprovedPaymentRests(t *testing.T) {
	t.Parallel()
	l := awaitingLife(t, testPolicy, automatic)
	l.answers(CallLookup, approves)
	l.answers(CallContinue, l.coded(providers.Rejected, "invalid"))
	l.answers(CallLookup, approves)
	if l.change.Pause <= 0 || attempts(l.saga, StepContinue) != 1 {
		t.Fatalf("pause %s, %d continues", l.change.Pause, attempts(l.saga, StepContinue))
	}
	byRequest := *l
	byRequest.asks(Request{Kind: RequestContinue})
	byRequest.answers(CallContinue, outcomeOf(providers.Succeeded))
	byRequest.wants(Completed, OrderConfirmed, PaymentCaptured)
	byRequest.wantsStep(StepContinue, 2, StepDone)
	l.saga.ReadAt = l.saga.DeadlineAt
	l.answers(CallLookup, approves)
	l.answers(CallVoid, outcomeOf(providers.Succeeded))
	l.wants(RolledBack, OrderCanceled, PaymentVoided)
}

// A refused continue of a declined payment says nothing about the next one's.
func TestApprovalOfTheNextPayment(t *testing.T) {
	t.Parallel()
	policy := testPolicy
	policy.Windows.StaysPayable = false
	l := awaitingLife(t, policy, patient())
	l.asks(goesOn)
	l.answers(CallContinue, outcomeOf(providers.Rejected))
	l.answers(CallLookup, declines())
	l.asks(anotherPayment("fake"))
	l.answers(CallCharge, approves)
	l.wantsStep(StepContinue, 2, StepPending)
	l.answers(CallContinue, outcomeOf(providers.Succeeded))
	l.wants(Completed, OrderConfirmed, PaymentCaptured)
}

// What the customer's way back brought is kept with the step and sent unchanged until it is decided.
func TestDetailsAreRepeatedUnchanged(t *testing.T) {
	t.Parallel()
	l := awaitingLife(t, deferredPolicy(), automatic)
	l.asks(goesOn)
	first := l.saga.continueRequest(l.wantsStep(StepContinue, 1, StepPending))
	l.answers(CallContinue, outcomeOf(providers.Unknown))
	again := l.saga.continueRequest(l.wantsStep(StepContinue, 1, StepUnknown))
	if string(first.Details) != string(goesOn.Details) || string(again.Details) != string(first.Details) || again.Key != first.Key ||
		first.ChargeKey != SubKey(l.saga.Key, StepCharge, 1) || first.Reference != "pay_1" || first.Money != euros(1200) {
		t.Errorf("sent %+v, then %+v", first, again)
	}
	l.refuses(Request{Kind: RequestCancel}, RefusedBusy)
	l.refuses(goesOn, RefusedBusy)
	l.answers(CallContinue, asksCustomer()) // a challenge after the device was looked at
	l.wants(Awaiting, OrderAwaiting, PaymentNone)
	l.asks(Request{Kind: RequestContinue, Details: json.RawMessage(`{"details":{"threeDSResult":"Y"}}`)})
	second := l.saga.continueRequest(l.wantsStep(StepContinue, 2, StepPending))
	if second.Key == first.Key || string(second.Details) != `{"details":{"threeDSResult":"Y"}}` {
		t.Errorf("the second attempt sends %+v", second)
	}
	l.answers(CallContinue, outcomeOf(providers.Succeeded))
	l.wants(Completed, OrderConfirmed, PaymentCaptured)
}

// What leads nowhere leaves the payment open.
func TestDetailsThatLeadNowhere(t *testing.T) {
	t.Parallel()
	for name, outcome := range map[string]providers.Outcome{
		"refused":          {Kind: providers.Rejected, Code: "14_006"},
		"of another order": {Kind: providers.Unknown, Code: providers.CodeOtherPayment},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			l := awaitingLife(t, deferredPolicy(), automatic)
			l.asks(goesOn)
			l.answers(CallContinue, outcome)
			l.wants(Awaiting, OrderAwaiting, PaymentNone)
			l.wantsStep(StepContinue, 1, StepFailed)
			l.wantsStep(StepCharge, 1, StepPending)
			if l.saga.Order.Payment.NextAction == nil || l.change.Pause <= 0 {
				t.Errorf("next action %v, pause %s", l.saga.Order.Payment.NextAction, l.change.Pause)
			}
			l.asks(goesOn)
			l.answers(CallContinue, outcomeOf(providers.Succeeded))
			l.wants(Completed, OrderConfirmed, PaymentCaptured)
		})
	}
}

// An order that is decided is told as it stands, without a call.
func TestContinueOfADecidedOrderAnswersAtOnce(t *testing.T) {
	t.Parallel()
	paid := newLife(t, testPolicy, automatic)
	paid.answers(CallCharge, outcomeOf(providers.Succeeded))
	gone := newLife(t, testPolicy, automatic)
	gone.answers(CallCharge, declines())
	held := heldLife(t, testPolicy)
	for _, l := range []*life{paid, gone, held} {
		before, steps := l.saga.State, len(l.saga.Steps)
		for _, request := range []Request{{Kind: RequestContinue}, goesOn, anotherPayment("fake")} {
			l.asks(request)
			if l.saga.State != before || len(l.saga.Steps) != steps || len(l.change.Steps) != 0 || l.change.Event != "" {
				t.Errorf("%s: %s with steps %+v", before, l.saga.State, l.change.Steps)
			}
			if rests := l.change.Pause > 0 || before.Ended(); !rests {
				t.Errorf("%s: %q is due at once", before, l.due())
			}
		}
	}
	review := newLife(t, testPolicy, automatic)
	review.answers(CallCharge, outcomeOf(providers.NotFound))
	review.refuses(goesOn, RefusedInReview)
	undoing := awaitingLife(t, testPolicy, automatic)
	undoing.asks(Request{Kind: RequestCancel})
	undoing.refuses(goesOn, RefusedOver)
}

// Nothing is voided while a continue is open that may take the money; a look ends that one where it is too late to repeat it.
func TestNoVoidWhileAContinueIsOpen(t *testing.T) {
	t.Parallel()
	l := awaitingLife(t, testPolicy, automatic)
	l.asks(goesOn)
	l.answers(CallContinue, outcomeOf(providers.Unknown))
	l.saga.ReadAt = l.saga.DeadlineAt.Add(time.Hour)
	l.answers(CallContinue, outcomeOf(providers.Busy))
	l.wants(Awaiting, OrderAwaiting, PaymentNone)
	l.saga.ReadAt = noon.Add(testPolicy.Windows.Repost + time.Second)
	l.answers(CallLookup, asksCustomer())
	l.wantsStep(StepContinue, 1, StepFailed)
	l.answers(CallVoid, outcomeOf(providers.Succeeded))
	l.wants(RolledBack, OrderCanceled, PaymentVoided)
}

// The customer's way back ends with the money held, where that was asked for.
func TestContinueHolds(t *testing.T) {
	t.Parallel()
	l := awaitingLife(t, testPolicy, manual())
	l.asks(goesOn)
	if !l.saga.continueRequest(*l.saga.step(StepContinue)).ManualCapture {
		t.Error("the continue does not say that the money is to be held")
	}
	l.answers(CallContinue, outcomeOf(providers.Authorized))
	l.wants(Awaiting, OrderConfirmed, PaymentAuthorized)
	if left := l.saga.DeadlineAt.Sub(l.saga.ReadAt); left < testPolicy.Windows.Hold-time.Minute {
		t.Errorf("held for %s", left)
	}
}
