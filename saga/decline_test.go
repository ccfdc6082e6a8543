package saga

import (
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"paysaga/providers"
)

// anotherPayment is a continue with another way to pay.
func anotherPayment(provider string) Request {
	return Request{Kind: RequestContinue, Payment: &NewPayment{
		Provider: provider, Method: "pm_2", MethodData: []byte(`{"type":"scheme"}`), ReturnURL: "https://shop.example/back",
	}}
}

// A decline that the order survives keeps the stock and asks for another payment.
func TestDeclineAwaits(t *testing.T) {
	t.Parallel()
	l := newLife(t, testPolicy, patient())
	l.answers(CallCharge, declines())
	l.wants(Awaiting, OrderAwaiting, PaymentDeclined)
	l.wantsStock()
	l.wantsStep(StepCharge, 1, StepFailed)
	payment := l.saga.Order.Payment
	if payment.NextAction == nil || payment.NextAction.Type != NextActionPaymentMethod || payment.Decline == nil || l.due() != CallNone {
		t.Errorf("next action %+v, decline %+v, next call %q", payment.NextAction, payment.Decline, l.due())
	}
	l.wantsPause(testPolicy.AwaitDeadline)
	l.refuses(Request{Kind: RequestContinue}, RefusedPaymentRequired)
	l.sleeps(testPolicy.AwaitDeadline - time.Second)
	l.wants(Awaiting, OrderAwaiting, PaymentDeclined)
	l.sleeps(time.Second)
	l.wants(RolledBack, OrderFailed, PaymentDeclined)
	l.wantsStock(StockRelease)
	if attempts(l.saga, StepVoid) != 0 {
		t.Error("a payment that nobody can complete was voided")
	}
}

// The next attempt has identifiers of its own, and the whole time again; it may be at another provider.
func TestAnotherPaymentAfterADecline(t *testing.T) {
	t.Parallel()
	for _, provider := range []string{"fake", "other"} {
		t.Run(provider, func(t *testing.T) {
			t.Parallel()
			payAgain(t, provider)
		})
	}
}

func payAgain(t *testing.T, provider string) {
	t.Helper()
	l := newLife(t, testPolicy, patient())
	l.answers(CallCharge, declines())
	l.sleeps(20 * time.Minute)
	l.asks(anotherPayment(provider))
	l.wants(Charging, OrderProcessing, PaymentNone)
	charge := l.wantsStep(StepCharge, 2, StepPending)
	wantStep := Step{
		Name: StepCharge, Attempt: 2, SubKey: SubKey(l.saga.Key, StepCharge, 2), Status: StepPending, Provider: provider, StartedAt: charge.StartedAt,
	}
	wantRequest := providers.ChargeRequest{
		Key: wantStep.SubKey, SagaKey: l.saga.Key.String(), OrderID: l.saga.Order.ID.String(), Money: euros(1200),
		Method: "pm_2", MethodData: []byte(`{"type":"scheme"}`), ReturnURL: "https://shop.example/back",
	}
	wantPayment := Payment{
		Provider: provider, Method: "pm_2", MethodData: wantRequest.MethodData, ReturnURL: wantRequest.ReturnURL,
		OnDecline: DeclineAwaits, Status: PaymentNone,
	}
	if diff := cmp.Diff(wantStep, charge) + cmp.Diff(wantRequest, l.saga.chargeRequest(charge)) + cmp.Diff(wantPayment, l.saga.Order.Payment); diff != "" {
		t.Errorf("the second charge (-want +got):\n%s", diff)
	}
	if !l.saga.DeadlineAt.IsZero() {
		t.Errorf("a deadline at %s", l.saga.DeadlineAt)
	}
	l.refuses(anotherPayment(provider), RefusedBusy)
	waits := *l
	waits.answers(CallCharge, asksCustomer())
	waits.wantsPause(firstPoll)
	if left := waits.saga.DeadlineAt.Sub(waits.saga.ReadAt); left < testPolicy.AwaitDeadline-time.Second {
		t.Errorf("the customer of the second payment has %s", left)
	}
	waits.wants(Awaiting, OrderAwaiting, PaymentNone)
	l.answers(CallCharge, outcomeOf(providers.Succeeded))
	l.wants(Completed, OrderConfirmed, PaymentCaptured)
	l.wantsStep(StepCharge, 1, StepFailed)
	l.wantsStock(StockSell)
	l.wantsMoney(1200, 0)
}

// Another attempt never follows an outcome that is not a known decline (I1, I4).
func TestNoOtherPaymentUnlessDeclined(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		outcomes []providers.Outcome
		want     RefusalReason
	}{
		"unknown":          {[]providers.Outcome{outcomeOf(providers.Unknown)}, RefusedBusy},
		"busy":             {[]providers.Outcome{outcomeOf(providers.Busy)}, RefusedBusy},
		"not sent yet":     {nil, RefusedBusy},
		"processing":       {[]providers.Outcome{outcomeOf(providers.Processing)}, RefusedPaymentOpen},
		"customer must":    {[]providers.Outcome{asksCustomer()}, RefusedPaymentOpen},
		"unknown declined": {[]providers.Outcome{asksCustomer(), declines()}, RefusedBusy}, // its void is on its way
	} {
		l := newLife(t, testPolicy, patient())
		for i, outcome := range test.outcomes {
			l.answers([]Call{CallCharge, CallLookup}[i], outcome)
		}
		l.refuses(anotherPayment("fake"), test.want)
		if attempts(l.saga, StepCharge) != 1 {
			t.Errorf("%s: %d charges", name, attempts(l.saga, StepCharge))
		}
	}
}

// A payment that its customer could still complete is closed before another one is asked for.
func TestDeclinedPaymentOfACustomerIsClosedFirst(t *testing.T) {
	t.Parallel()
	declined := func(t *testing.T, policy Policy) *life {
		t.Helper()
		l := awaitingLife(t, policy, patient())
		l.answers(CallLookup, declines())
		return l
	}
	t.Run("closed", func(t *testing.T) {
		t.Parallel()
		l := declined(t, testPolicy)
		l.wantsStep(StepVoid, 1, StepPending)
		l.refuses(Request{Kind: RequestCancel}, RefusedBusy)
		l.answers(CallVoid, outcomeOf(providers.Unknown))
		l.answers(CallVoid, outcomeOf(providers.Succeeded))
		l.wants(Awaiting, OrderAwaiting, PaymentDeclined)
		l.wantsStock()
		l.asks(anotherPayment("fake"))
		l.answers(CallCharge, asksCustomer())
		l.wants(Awaiting, OrderAwaiting, PaymentNone) // the first payment's void says nothing of the second
		l.answers(CallLookup, declines())
		second := l.wantsStep(StepVoid, 2, StepPending)
		if second.SubKey != SubKey(l.saga.Key, StepVoid, 2) {
			t.Errorf("the second void's key is %s", second.SubKey)
		}
	})
	t.Run("paid in the last moment", func(t *testing.T) {
		t.Parallel()
		l := declined(t, testPolicy)
		l.answers(CallVoid, l.coded(providers.Rejected, providers.CodeAlreadyCaptured))
		l.answers(CallLookup, outcomeOf(providers.Succeeded))
		l.wants(Completed, OrderConfirmed, PaymentCaptured)
		l.wantsStock(StockSell)
	})
	t.Run("not where nobody can", func(t *testing.T) {
		t.Parallel()
		policy := testPolicy
		policy.Windows.StaysPayable = false
		l := declined(t, policy)
		l.wants(Awaiting, OrderAwaiting, PaymentDeclined)
		l.asks(anotherPayment("fake"))
		if attempts(l.saga, StepVoid) != 0 {
			t.Error("voided")
		}
	})
	t.Run("the deadline comes with it", func(t *testing.T) {
		t.Parallel()
		l := declined(t, testPolicy)
		l.saga.ReadAt = l.saga.DeadlineAt
		l.answers(CallVoid, outcomeOf(providers.Succeeded))
		l.wants(RolledBack, OrderFailed, PaymentDeclined)
		l.wantsStock(StockRelease)
	})
	t.Run("the void is refused", func(t *testing.T) {
		t.Parallel()
		l := declined(t, testPolicy)
		l.answers(CallVoid, l.coded(providers.Rejected, "no_such_payment"))
		l.wantsReview("void_refused")
	})
}

func TestChargesOfAnOrderAreBounded(t *testing.T) {
	t.Parallel()
	l := newLife(t, testPolicy, patient())
	for range testPolicy.MaxCharges - 1 {
		l.answers(CallCharge, declines())
		l.wants(Awaiting, OrderAwaiting, PaymentDeclined)
		l.asks(anotherPayment("fake"))
	}
	l.answers(CallCharge, declines())
	l.wants(RolledBack, OrderFailed, PaymentDeclined)
	l.wantsStock(StockRelease)
	var keys []string
	for _, step := range l.saga.Steps {
		if step.Name == StepCharge {
			keys = append(keys, string(step.SubKey))
		}
	}
	if slices.Sort(keys); len(slices.Compact(keys)) != testPolicy.MaxCharges {
		t.Errorf("charges under %v", keys)
	}
}

// All outcomes but a decline end as without on_decline.
func TestOnlyADeclineAwaits(t *testing.T) {
	t.Parallel()
	for _, kind := range []providers.OutcomeKind{providers.Rejected, providers.Canceled} {
		l := newLife(t, testPolicy, patient())
		l.answers(CallCharge, outcomeOf(kind))
		l.wants(RolledBack, OrderFailed, PaymentNone)
	}
}
