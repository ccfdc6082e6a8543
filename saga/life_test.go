package saga

import (
	"errors"
	"slices"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/uuid"
	"pgregory.net/rapid"

	"paysaga/providers"
)

// life is a saga with a store and a clock in memory. A test plays the provider, the shop and the customer.
type life struct {
	t      rapid.TB
	policy Policy
	saga   Saga
	change Change // the last one
	stock  []StockEffect
	sums   []RefundEffect
	events []string
	found  []string // kinds of findings
}

// deferredPolicy is that of a provider which cannot be asked and tells all ends by notices.
func deferredPolicy() Policy {
	policy := testPolicy
	policy.Windows = providers.Windows{Repost: 6 * 24 * time.Hour, NoLookup: true, Hold: 28 * 24 * time.Hour}
	return policy
}

// newLife is an order whose charge is to be sent, at noon.
func newLife(t rapid.TB, policy Policy, payment Payment) *life {
	t.Helper()
	s := newSaga()
	s.Kind, s.ReadAt, s.Order.Payment = KindOrder, noon, payment
	l := &life{t: t, policy: policy, saga: s}
	l.apply(Event{Kind: Resume})
	return l
}

// manual is a payment that is held first.
func manual() Payment { return Payment{Provider: "fake", Method: "pm_1", Capture: CaptureManual} }

// patient is a payment that may be declined without the order's end.
func patient() Payment { return Payment{Provider: "fake", Method: "pm_1", OnDecline: DeclineAwaits} }

// heldLife is an order whose money is held.
func heldLife(t rapid.TB, policy Policy) *life {
	t.Helper()
	l := newLife(t, policy, manual())
	l.answers(CallCharge, outcomeOf(providers.Authorized))
	return l
}

// awaitingLife is an order whose customer must act.
func awaitingLife(t rapid.TB, policy Policy, payment Payment) *life {
	t.Helper()
	l := newLife(t, policy, payment)
	l.answers(CallCharge, asksCustomer())
	return l
}

// refundLife is a refund of the whole of a completed order, to be sent.
func refundLife(t rapid.TB, policy Policy) *life {
	t.Helper()
	order := scene(Completed, line(StepReserve, StepDone), chargeWith(StepDone), line(StepConfirm, StepDone)).Order
	key := Key("shop1", "POST /v1/orders/{id}/refunds", "refund-000000001", 1)
	l := &life{t: t, policy: policy, saga: Saga{
		Kind: KindRefund, AccountID: "shop1", Key: key, Generation: 1, State: Started, Order: order, ReadAt: noon,
		Refund: &Refund{ID: key, OrderID: order.ID, Amount: 500, Status: RefundPending},
	}}
	l.apply(Event{Kind: Resume})
	return l
}

func outcomeOf(kind providers.OutcomeKind) providers.Outcome {
	return providers.Outcome{Kind: kind, Reference: "pay_1"}
}

func (l *life) coded(kind providers.OutcomeKind, code string) providers.Outcome {
	return providers.Outcome{Kind: kind, Code: code}
}

func asksCustomer() providers.Outcome {
	return providers.Outcome{
		Kind: providers.ActionRequired, Reference: "pay_1", NextAction: &providers.NextAction{Type: "redirect", URL: "https://bank.example"},
	}
}

func declines() providers.Outcome {
	return providers.Outcome{Kind: providers.Declined, Reference: "pay_1", Decline: &providers.Decline{Code: "card_declined"}}
}

func euros(amount int64) providers.Money { return providers.Money{Amount: amount, Currency: "EUR"} }

// apply folds an event in and writes what came of it.
func (l *life) apply(e Event) {
	l.t.Helper()
	change, err := Advance(l.saga, e, l.policy)
	if err != nil {
		l.t.Fatalf("%+v in state %s: %v", e, l.saga.State, err)
	}
	l.write(change)
}

func (l *life) write(change Change) {
	l.t.Helper()
	if change.From != l.saga.State {
		l.t.Fatalf("a change from %s for a saga in %s", change.From, l.saga.State)
	}
	l.change = change
	if change.Stock != StockNone {
		l.stock = append(l.stock, change.Stock)
	}
	if change.Refund != RefundNone {
		l.sums = append(l.sums, change.Refund)
	}
	if change.Event != "" {
		l.events = append(l.events, change.Event)
	}
	if change.Finding != nil {
		l.found = append(l.found, change.Finding.Kind)
	}
	if (change.After.State == NeedsReview) != (change.Finding != nil) && l.saga.State != NeedsReview {
		l.t.Fatalf("state %s with finding %v", change.After.State, change.Finding)
	}
	l.saga = stored(change, l.saga.ReadAt.Add(time.Millisecond)) // no two changes are written at once
	l.saga.Unrecorded = 1
}

func (l *life) due() Call { return Next(l.saga, l.policy.Windows) }

// answers is the provider's answer to the call that is due, which must be the given one.
func (l *life) answers(call Call, outcome providers.Outcome) {
	l.t.Helper()
	if due := l.due(); due != call {
		l.t.Fatalf("%q is due in state %s, not %q", due, l.saga.State, call)
	}
	l.apply(answered(call, outcome))
}

// hears is a notice that comes while the saga rests. It tells what is made of it.
func (l *life) hears(n providers.Notice) heard {
	l.t.Helper()
	h := hear(l.saga, n, l.policy.Windows)
	if h.event != nil {
		l.apply(*h.event)
	}
	return h
}

// asks is a request that must be taken.
func (l *life) asks(r Request) {
	l.t.Helper()
	l.apply(Event{Kind: Asked, Request: &r})
}

// refuses checks that a request is refused and writes nothing.
func (l *life) refuses(r Request, reason RefusalReason) {
	l.t.Helper()
	_, err := Advance(l.saga, Event{Kind: Asked, Request: &r}, l.policy)
	refused, ok := errors.AsType[*RefusedError](err)
	if !ok || refused.Reason != reason || refused.Detail == "" {
		l.t.Errorf("%s in state %s: %v; want it refused as %s", r.Kind, l.saga.State, err, reason)
	}
}

// sleeps lets time pass, and somebody take the saga up after it where no call is due.
func (l *life) sleeps(time time.Duration) {
	l.t.Helper()
	l.saga.ReadAt = l.saga.ReadAt.Add(time)
	if l.due() == CallNone && !l.saga.State.Ended() {
		l.apply(Event{Kind: Resume})
	}
}

func (l *life) wants(state State, order OrderStatus, payment PaymentStatus) {
	l.t.Helper()
	if got := l.saga.Order; l.saga.State != state || got.Status != order || got.Payment.Status != payment {
		l.t.Fatalf("saga %s, order %s, payment %s; want %s, %s, %s (findings %v)",
			l.saga.State, got.Status, got.Payment.Status, state, order, payment, l.found)
	}
}

func (l *life) wantsReview(finding string) {
	l.t.Helper()
	if l.saga.State != NeedsReview || !slices.Equal(l.found, []string{finding}) {
		l.t.Fatalf("state %s, findings %v; want %s", l.saga.State, l.found, finding)
	}
}

func (l *life) wantsStep(name StepName, attempt int, status StepStatus) Step {
	l.t.Helper()
	for _, step := range l.saga.Steps {
		if step.Name == name && step.Attempt == attempt {
			if step.Status != status {
				l.t.Fatalf("%s %d is %s, want %s", name, attempt, step.Status, status)
			}
			return step
		}
	}
	l.t.Fatalf("no %s %d in %+v", name, attempt, l.saga.Steps)
	return Step{}
}

func (l *life) wantsStock(effects ...StockEffect) {
	l.t.Helper()
	if diff := cmp.Diff(append([]StockEffect{StockReserve}, effects...), l.stock); diff != "" {
		l.t.Errorf("effects on the stock (-want +got):\n%s", diff)
	}
}

func (l *life) wantsMoney(captured, refunded int64) {
	l.t.Helper()
	if p := l.saga.Order.Payment; p.CapturedAmount != captured || p.RefundedAmount != refunded {
		l.t.Errorf("captured %d, refunded %d; want %d and %d", p.CapturedAmount, p.RefundedAmount, captured, refunded)
	}
}

// wantsPause checks how long the saga rests.
func (l *life) wantsPause(pause time.Duration) {
	l.t.Helper()
	if l.change.Pause != pause {
		l.t.Errorf("rests for %s, want %s", l.change.Pause, pause)
	}
}

func requestKey(name string) uuid.UUID { return Key("shop1", "POST /v1/orders/{id}/capture", name, 1) }

func captureRequest(name string, amount int64, final bool) Request {
	return Request{Kind: RequestCapture, Key: requestKey(name), Amount: amount, Final: final}
}

func noticeOf(about providers.About, outcome *providers.Outcome) providers.Notice {
	return providers.Notice{ID: "event_1", Type: "TEST", About: about, Payment: "pay_1", Outcome: outcome}
}
