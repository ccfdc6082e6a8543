package saga

import (
	"testing"
	"time"

	"paysaga/providers"
)

// A cancel fits or is refused by how the order stands, and never where the outcome of a call is not known (I4).
func TestCancelInEveryState(t *testing.T) {
	t.Parallel()
	proceeding := chargedLife(t, automatic, asksCustomer())
	proceeding.asks(goesOn)
	undoing := chargedLife(t, automatic, asksCustomer())
	undoing.asks(cancels)
	for name, test := range map[string]struct {
		life   *life
		refuse RefusalReason // empty: it is taken
		call   Call          // that follows
		state  State
	}{
		"not sent":            {chargedLife(t, automatic), RefusedBusy, "", ""},
		"unknown":             {chargedLife(t, automatic, outcomeOf(providers.Unknown)), RefusedBusy, "", ""},
		"customer must act":   {chargedLife(t, automatic, asksCustomer()), "", CallVoid, Compensating},
		"processing":          {chargedLife(t, automatic, outcomeOf(providers.Processing)), "", CallVoid, Compensating},
		"continue is open":    {proceeding, RefusedBusy, "", ""},
		"paid":                {chargedLife(t, automatic, outcomeOf(providers.Succeeded)), RefusedCaptured, "", ""},
		"declined for good":   {chargedLife(t, automatic, declines()), RefusedOver, "", ""},
		"declined, awaiting":  {chargedLife(t, patient(), declines()), "", CallNone, RolledBack},
		"declined, closing":   {chargedLife(t, patient(), asksCustomer(), declines()), RefusedBusy, "", ""},
		"held":                {heldLife(t, testPolicy), "", CallVoid, Compensating},
		"capture is open":     {capturingLife(t), RefusedBusy, "", ""},
		"capture is unknown":  {capturingLife(t, outcomeOf(providers.Unknown)), RefusedBusy, "", ""},
		"capture is accepted": {capturingLife(t, outcomeOf(providers.Processing)), RefusedBusy, "", ""},
		"capture was refused": {capturingLife(t, declines()), "", CallVoid, Compensating},
		"being undone":        {undoing, RefusedOver, "", ""},
		"in review":           {chargedLife(t, automatic, outcomeOf(providers.NotFound)), RefusedInReview, "", ""},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			l := test.life
			l.t = t
			if test.refuse != "" {
				l.refuses(cancels, test.refuse)
				return
			}
			l.asks(cancels)
			if l.saga.State != test.state || l.due() != test.call {
				t.Fatalf("state %s, %q is due; want %s and %q", l.saga.State, l.due(), test.state, test.call)
			}
			checkCanceled(t, l)
		})
	}
}

var cancels = Request{Kind: RequestCancel}

// chargedLife is an order whose charge, and then whose looks, ended so.
func chargedLife(t *testing.T, payment Payment, outcomes ...providers.Outcome) *life {
	t.Helper()
	l := newLife(t, testPolicy, payment)
	for i, outcome := range outcomes {
		l.answers([]Call{CallCharge, CallLookup}[i], outcome)
	}
	return l
}

// capturingLife is an order of whose held money a part is to be captured, which ended so.
func capturingLife(t *testing.T, outcomes ...providers.Outcome) *life {
	t.Helper()
	l := heldLife(t, testPolicy)
	l.asks(captureRequest("part", 500, false))
	for _, outcome := range outcomes {
		l.answers(CallCapture, outcome)
	}
	return l
}

func checkCanceled(t *testing.T, l *life) {
	t.Helper()
	if l.due() == CallVoid {
		l.answers(CallVoid, outcomeOf(providers.Succeeded))
	}
	if l.saga.State != RolledBack || l.saga.Order.Status != OrderCanceled {
		t.Fatalf("state %s, order %s", l.saga.State, l.saga.Order.Status)
	}
	l.wantsStock(StockRelease)
	l.wantsMoney(0, 0)
	events := len(l.events)
	l.asks(cancels) // again, under another key: told as it stands
	if len(l.change.Steps) != 0 || len(l.events) != events {
		t.Errorf("a second cancel changed %+v; events %v", l.change.Steps, l.events)
	}
}

// What is taken stays the shop's; a cancel lets go of the rest, also where the hold cannot be looked at.
func TestCancelAfterAPartIsCaptured(t *testing.T) {
	t.Parallel()
	for _, policy := range []Policy{testPolicy, deferredPolicy()} {
		l := heldLife(t, policy)
		l.asks(captureRequest("part", 500, false))
		l.refuses(cancels, RefusedBusy)
		l.answers(CallCapture, outcomeOf(providers.Succeeded))
		l.asks(cancels)
		l.wants(Completed, OrderConfirmed, PaymentCaptured)
		l.wantsMoney(500, 0)
		l.wantsStock(StockSell)
		l.refuses(cancels, RefusedCaptured)
		if amount, err := refundable(l.saga, 0); amount != 500 || err != nil {
			t.Errorf("refundable: %d, %v", amount, err)
		}
	}
}

// A declined order that is called off is shown as canceled, though there was no payment to close.
func TestCanceledDeclinedOrder(t *testing.T) {
	t.Parallel()
	l := newLife(t, testPolicy, patient())
	l.answers(CallCharge, declines())
	l.asks(Request{Kind: RequestCancel})
	l.wants(RolledBack, OrderCanceled, PaymentDeclined)
	if void := l.wantsStep(StepVoid, 1, StepDone); void.Code != codeCanceled || void.Provider != "" {
		t.Errorf("the void's line: %+v", void)
	}
}

// Captured in the last moment, the money is given back instead.
func TestCancelThatComesTooLateRefunds(t *testing.T) {
	t.Parallel()
	for name, l := range map[string]*life{"awaiting": awaitingLife(t, testPolicy, automatic), "held": heldLife(t, testPolicy)} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			l.t = t
			l.asks(Request{Kind: RequestCancel})
			l.answers(CallVoid, l.coded(providers.Busy, providers.CodeNotCancelableYet))
			l.answers(CallVoid, l.coded(providers.Rejected, providers.CodeAlreadyCaptured))
			l.answers(CallRefund, outcomeOf(providers.Processing))
			l.answers(CallCheckRefund, outcomeOf(providers.Succeeded))
			l.wants(RolledBack, OrderCanceled, PaymentRefunded)
			l.wantsMoney(1200, 1200)
			l.wantsStock(StockRelease)
		})
	}
}

// A void that the provider has taken on, or takes on only once the bank has decided, is asked for by the same call, at growing pauses and
// up to a bound.
func TestVoidOnItsWay(t *testing.T) {
	t.Parallel()
	for name, outcome := range map[string]providers.Outcome{
		"taken on":       outcomeOf(providers.Processing),
		"the bank first": {Kind: providers.Busy, Code: providers.CodeNotCancelableYet},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			l := heldLife(t, testPolicy)
			l.asks(Request{Kind: RequestCancel})
			for turns := 0; l.saga.State == Compensating; turns++ {
				if turns > 400 {
					t.Fatal("asks without end")
				}
				l.answers(CallVoid, outcome)
				if l.saga.State == Compensating && (l.change.Pause < firstPoll || l.change.Pause > longestPoll) {
					t.Fatalf("rests for %s", l.change.Pause)
				}
				l.saga.ReadAt = l.saga.ReadAt.Add(l.change.Pause)
			}
			l.wantsReview("void_overdue")
			if age := l.saga.ReadAt.Sub(noon); age < testPolicy.RefundDeadline || age > testPolicy.RefundDeadline+time.Hour {
				t.Errorf("overdue after %s", age)
			}
		})
	}
}

func TestUnknownRequestIsAnError(t *testing.T) {
	t.Parallel()
	l := heldLife(t, testPolicy)
	if _, err := Advance(l.saga, Event{Kind: Asked, Request: &Request{Kind: "wish"}}, testPolicy); err == nil {
		t.Error("taken")
	}
}
