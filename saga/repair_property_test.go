package saga

import (
	"errors"
	"slices"
	"testing"

	"pgregory.net/rapid"

	"paysaga/providers"
)

// Whatever an order has met, any repair, drawn at random and brought at any time, is carried out or refused: none charges, takes more back
// than was captured, ends a reservation twice, or leaves a saga without an end. An orphaned reservation is ended as its order ended.
func TestRepairsKeepTheBooks(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		w := &world{saga: newSaga(), now: noon, policy: testPolicy}
		w.saga.Kind = KindOrder
		w.saga.Order.Payment.Capture = rapid.SampledFrom([]CaptureMode{CaptureAutomatic, CaptureManual}).Draw(t, "capture")
		if rapid.Bool().Draw(t, "deferred") {
			w.policy = deferredPolicy()
		}
		w.begin(t)
		const mostRepairs = 8
		repairs := 0
		for range 2 * mostTurns {
			switch {
			case repairs < mostRepairs && rapid.IntRange(0, 3).Draw(t, "repair now") == 0:
				repairs++
				w.repair(t)
			case w.saga.State.Ended() && repairs < mostRepairs:
				repairs++
				w.repair(t)
			case w.saga.State.Ended():
				w.checkBooks(t)
				return
			default:
				w.turn(t)
			}
			w.checkAlways(t)
		}
		t.Fatalf("no rest; state %s after %d repairs", w.saga.State, repairs)
	})
}

// repair draws one, as reconciliation hands it to Advance.
func (w *world) repair(t *rapid.T) {
	event := Event{Kind: Contradicted, Code: FindingAmountMismatch, Detail: "It differs."}
	switch rapid.SampledFrom([]string{"look", "look", "retry", "contradict", "orphan"}).Draw(t, "which") {
	case "look":
		outcome := drawOutcome(t)
		notice := providers.Notice{About: providers.AboutCharge, Payment: outcome.Reference, Outcome: &outcome}
		h := hear(w.saga, notice, w.policy.Windows)
		if h.event == nil {
			return
		}
		event = *h.event
	case "retry":
		event = Event{Kind: Decided, Decision: &Decision{Resolution: ResolveRetry, Actor: Repairer}}
	case "orphan":
		w.orphan(t)
		return
	}
	charges, before := attempts(w.saga, StepCharge), w.saga.State
	if _, err := Advance(w.saga, event, w.policy); err != nil {
		if _, refused := errors.AsType[*RefusedError](err); !refused {
			t.Fatalf("%+v in state %s: %v", event, before, err)
		}
		return
	}
	if event.Kind == Decided {
		w.findings = nil
		w.applyDecision(t, *event.Decision)
	} else {
		w.apply(t, event)
	}
	if attempts(w.saga, StepCharge) != charges && before != Reserved {
		t.Fatalf("%+v in state %s charges: %v", event, before, w.saga.Steps)
	}
}

// orphan checks what would become of a reservation that has outlived the order. The store carries it out only where one has.
func (w *world) orphan(t *rapid.T) {
	change, err := Advance(w.saga, Event{Kind: Orphaned}, w.policy)
	want := map[State]StockEffect{Completed: StockSellRest, RolledBack: StockReleaseRest}[w.saga.State]
	if refused, ok := errors.AsType[*RefusedError](err); ok {
		if want != StockNone {
			t.Fatalf("refused in state %s: %s", w.saga.State, refused.Detail)
		}
		return
	}
	if err != nil || change.Stock != want || change.After.State != w.saga.State || change.Event != "" || change.Refund != RefundNone {
		t.Fatalf("%s: %+v, %v", w.saga.State, change, err)
	}
}

// A refund that is written down as found counts once, and is over as it begins.
func TestFoundRefundsCountOnce(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		found := unasked(refundedOrder(), Key("shop1", foundRefunds, rapid.StringN(1, 64, 200).Draw(t, "reference"), 1), rapid.Int64Range(1, 1200).Draw(t, "amount"))
		l := &life{t: t, policy: testPolicy, saga: found}
		l.apply(Event{Kind: Found, Refund: &FoundRefund{Reference: "re_1", Amount: found.Refund.Amount}})
		step := l.wantsStep(StepRefund, 1, StepDone)
		if !slices.Equal(l.sums, []RefundEffect{RefundFound}) || !slices.Equal(l.events, []string{"refund.succeeded"}) ||
			step.Amount != found.Refund.Amount || l.saga.State != Completed || l.due() != CallNone {
			t.Fatalf("%s: sums %v, events %v, step %+v", l.saga.State, l.sums, l.events, step)
		}
		if _, err := Advance(l.saga, Event{Kind: Found, Refund: &FoundRefund{Reference: "re_1"}}, testPolicy); err == nil {
			t.Fatal("it was written down twice")
		}
	})
}

func refundedOrder() Saga {
	return scene(Completed, line(StepReserve, StepDone), chargeWith(StepDone), line(StepConfirm, StepDone))
}

// A refund of another payment than the order's own counts never, whatever becomes of it, and is about that payment alone.
func TestRefundsOfOtherPaymentsCountNever(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		other := unasked(refundedOrder(), Key("shop1", repayments, "a payment", 1), 5000)
		other.Refund.Provider, other.Refund.Payment = "other", "pay_9"
		l := &life{t: t, policy: testPolicy, saga: other}
		l.apply(Event{Kind: Resume})
		for range mostTurns {
			if l.saga.State.Ended() {
				break
			}
			if call := l.due(); call != CallNone {
				l.apply(answered(call, drawOutcome(t)))
			}
			l.sleeps(l.change.Pause)
		}
		if len(l.sums) != 0 || len(l.events) != 0 || !l.saga.State.Ended() {
			t.Fatalf("%s: sums %v, events %v", l.saga.State, l.sums, l.events)
		}
		if step := l.saga.step(StepRefund); step.Provider != "other" || step.Target != "pay_9" || l.saga.chargeReference() != "pay_9" {
			t.Fatalf("%+v", step)
		}
	})
}
