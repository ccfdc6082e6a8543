package saga

import (
	"errors"
	"fmt"
	"slices"
	"strconv"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"paysaga/providers"
)

// world is a store and a clock in memory: enough to take a saga to its rest with outcomes drawn at random.
type world struct {
	saga     Saga
	policy   Policy
	now      time.Time
	effects  []StockEffect
	findings []Finding
	held     bool // the reservation
	gone     bool // the reservation was lost
}

// mostTurns bounds a walk. Polling for an hour takes some eighty turns, and every other wait is bounded by MaxFailures.
const mostTurns = 400

func TestAnySequenceOfOutcomesComesToRest(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		w := &world{saga: newSaga(), now: noon, policy: testPolicy}
		w.saga.Kind = KindOrder
		w.saga.Order.Payment.Capture = rapid.SampledFrom([]CaptureMode{CaptureAutomatic, CaptureManual}).Draw(t, "capture")
		w.saga.Order.Payment.OnDecline = rapid.SampledFrom([]OnDecline{DeclineRollsBack, DeclineAwaits}).Draw(t, "on decline")
		if rapid.Bool().Draw(t, "deferred") {
			w.policy = deferredPolicy()
		}
		w.begin(t)
		for range mostTurns {
			if w.saga.State.Ended() {
				w.checkEnd(t)
				return
			}
			w.turn(t)
			w.checkAlways(t)
		}
		t.Fatalf("no rest after %d turns; state %s, failures %d", mostTurns, w.saga.State, w.saga.Failures)
	})
}

func (w *world) begin(t *rapid.T) {
	event := Event{Kind: Resume}
	if rapid.IntRange(0, 9).Draw(t, "stock") == 0 {
		event = Event{Kind: OutOfStock, Detail: "cup: 2 wanted, 1 available."}
	}
	w.apply(t, event)
}

// turn is what the runner does: the call that is due, or the local steps; or it is a request, or a notice.
func (w *world) turn(t *rapid.T) {
	switch rapid.IntRange(0, 9).Draw(t, "turn") {
	case 0:
		w.ask(t)
		return
	case 1:
		w.hear(t)
		return
	}
	event := Event{Kind: Resume}
	if call := Next(w.saga, w.policy.Windows); call != CallNone {
		event = answered(call, drawOutcome(t))
		event.Sends = rapid.IntRange(1, 3).Draw(t, "sends")
		if age := w.now.Sub(w.saga.step(StepCharge).StartedAt); call == CallCharge && age >= w.policy.Windows.Repost {
			t.Fatalf("charges at the age of %s", age)
		}
	}
	w.apply(t, event)
}

// ask is a request that comes in, and may be refused.
func (w *world) ask(t *rapid.T) {
	request := Request{
		Kind: rapid.SampledFrom([]RequestKind{RequestContinue, RequestCapture, RequestCancel}).Draw(t, "request"),
		Key:  requestKey(strconv.Itoa(len(w.saga.Steps))), Amount: rapid.Int64Range(0, 1300).Draw(t, "capture amount"), Final: rapid.Bool().Draw(t, "final"),
	}
	if rapid.Bool().Draw(t, "another payment") {
		request.Payment = &NewPayment{Provider: "fake", Method: "pm_2"}
	}
	event := Event{Kind: Asked, Request: &request}
	_, err := Advance(w.saga, event, w.policy)
	if _, refused := errors.AsType[*RefusedError](err); !refused {
		w.apply(t, event)
	}
}

// hear is a notice of anything.
func (w *world) hear(t *rapid.T) {
	outcome := drawOutcome(t)
	notice := noticeOf(rapid.SampledFrom(allAbouts).Draw(t, "about"), &outcome)
	if step := w.saga.Steps[rapid.IntRange(0, len(w.saga.Steps)-1).Draw(t, "step")]; rapid.Bool().Draw(t, "named") {
		notice.Key = step.SubKey
	}
	if h := hear(w.saga, notice, w.policy.Windows); h.event != nil {
		w.apply(t, *h.event)
	}
}

// apply refuses what the store refuses, and then writes.
func (w *world) apply(t *rapid.T, event Event) {
	change := w.advance(t, event)
	ends := change.Stock == StockSell || change.Stock == StockRelease
	if ends && !w.gone && rapid.IntRange(0, 5).Draw(t, "reservation") == 0 {
		w.gone = true
	}
	if ends && w.gone {
		event.Kind = ReservationLost
		change = w.advance(t, event)
		w.held = false
	}
	if change.Stock != StockNone {
		w.effects = append(w.effects, change.Stock)
		w.held = change.Stock == StockReserve
	}
	if change.Finding != nil {
		w.findings = append(w.findings, *change.Finding)
	}
	w.now = w.now.Add(change.Pause + time.Duration(rapid.Int64Range(0, int64(2*time.Minute)).Draw(t, "delay")))
	if rapid.IntRange(0, 30).Draw(t, "outage") == 0 {
		w.now = w.now.Add(24 * time.Hour)
	}
	w.saga = stored(change, w.now)
}

func (w *world) advance(t *rapid.T, event Event) Change {
	before := w.saga.clone()
	change, err := Advance(w.saga, event, w.policy)
	if err != nil {
		t.Fatalf("Advance(%s, %+v): %v", w.saga.State, event, err)
	}
	if diff := cmp.Diff(before, w.saga); diff != "" {
		t.Fatalf("Advance changed what it was given:\n%s", diff)
	}
	again, err := Advance(w.saga, event, w.policy)
	if diff := cmp.Diff(change, again); err != nil || diff != "" {
		t.Fatalf("Advance is not pure: %v\n%s", err, diff)
	}
	if change.After.State != change.From && !mayFollow(change.From, change.After.State) {
		t.Fatalf("went from %s to %s", change.From, change.After.State)
	}
	return change
}

// mayFollow tells whether the table leads from one state to the other, in any number of turns.
func mayFollow(from, to State) bool {
	reached := []string{string(from)}
	for range allStates {
		for _, event := range transitions {
			if slices.ContainsFunc(event.Src, func(source string) bool { return slices.Contains(reached, source) }) {
				reached = append(reached, event.Dst)
			}
		}
		slices.Sort(reached)
		reached = slices.Compact(reached)
	}
	return slices.Contains(reached, string(to))
}

func (w *world) checkAlways(t *rapid.T) {
	live := 0
	for _, step := range w.saga.Steps {
		if step.Name == StepCharge && (step.open() || step.Status == StepDone) {
			live++
		}
	}
	if live > 1 || attempts(w.saga, StepCharge) > w.policy.MaxCharges {
		t.Fatalf("%d live charges: %v", live, w.saga.Steps)
	}
	if w.saga.Failures > w.policy.MaxFailures+1 {
		t.Fatalf("%d failures in a row", w.saga.Failures)
	}
	if payment := w.saga.Order.Payment; payment.RefundedAmount > payment.CapturedAmount || payment.CapturedAmount > w.saga.Order.Amount {
		t.Fatalf("captured %d, refunded %d of %d", payment.CapturedAmount, payment.RefundedAmount, w.saga.Order.Amount)
	}
	if !slices.Contains(allStates, w.saga.State) {
		t.Fatalf("state %q", w.saga.State)
	}
}

func (w *world) checkEnd(t *rapid.T) {
	charge := statusOf(w.saga, StepCharge)
	if (w.saga.State == NeedsReview) != (len(w.findings) > 0) {
		t.Fatalf("ended in %s with findings %v", w.saga.State, w.findings)
	}
	switch w.saga.State {
	case Completed:
		if charge != StepDone || w.gone {
			t.Fatalf("completed with charge %q, reservation lost: %t", charge, w.gone)
		}
		w.checkEffects(t, StockReserve, StockSell)
	case RolledBack:
		w.checkRolledBack(t, charge)
	case NeedsReview:
	default:
		t.Fatalf("ended in %s", w.saga.State)
	}
}

func (w *world) checkRolledBack(t *rapid.T, charge StepStatus) {
	if w.held {
		t.Fatal("rolled back with stock held")
	}
	switch {
	case charge == "":
		w.checkEffects(t)
	case charge != StepFailed && charge != StepUndone:
		t.Fatalf("rolled back with charge %q", charge)
	case w.gone:
		w.checkEffects(t, StockReserve, StockForfeit)
	default:
		w.checkEffects(t, StockReserve, StockRelease)
	}
}

func (w *world) checkEffects(t *rapid.T, want ...StockEffect) {
	if !slices.Equal(w.effects, want) {
		t.Fatalf("%s with stock effects %v, want %v", w.saga.State, w.effects, want)
	}
}

func drawOutcome(t *rapid.T) providers.Outcome {
	outcome := providers.Outcome{
		Kind: rapid.SampledFrom(allOutcomes).Draw(t, "outcome"),
		Code: rapid.SampledFrom([]string{
			"", "", "", "timeout", providers.CodeAlreadyCaptured, providers.CodeServerErrorFinal, providers.CodeSeveralPayments,
			providers.CodeNotCancelableYet, providers.CodeApproved, providers.CodeOtherPayment, providers.CodeVoidRefused,
		}).Draw(t, "code"),
		RetryAfter: time.Duration(rapid.Int64Range(0, int64(time.Hour)).Draw(t, "retry after")),
	}
	if rapid.Bool().Draw(t, "with reference") {
		outcome.Reference = fmt.Sprintf("pay_%d", rapid.IntRange(1, 2).Draw(t, "reference"))
	}
	if rapid.IntRange(0, 9).Draw(t, "amount") == 0 {
		outcome.Money = providers.Money{Amount: 1, Currency: "EUR"}
	}
	if outcome.Kind == providers.ActionRequired {
		outcome.NextAction = &providers.NextAction{Type: "redirect"}
	}
	return outcome
}
