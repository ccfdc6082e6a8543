package saga

import (
	"errors"
	"slices"
	"testing"
	"time"

	"pgregory.net/rapid"

	"paysaga/providers"
)

func decideOn(s Saga, d Decision) (Change, error) {
	if s.Refund == nil {
		s.Kind = KindOrder
	}
	return Advance(s, Event{Kind: Decided, Decision: &d}, testPolicy)
}

func decisionOf(resolution Resolution) Decision {
	d := Decision{Resolution: resolution, Actor: "key test (1)", Reason: "a test"}
	if resolution == ResolveTaken {
		d.Payment, d.Amount = "pay_1", 1200
	}
	return d
}

// reviewed is a saga in review, as it came there from another state.
func reviewed(s Saga) Saga {
	s.State, s.DeadlineAt, s.Failures = NeedsReview, time.Time{}, 3
	s.Order.Payment.NextAction, s.Order.Payment.CapturedAmount = nil, 0
	show(&s, s.State)
	return s
}

// decided is where a decision leads, or why it is refused.
type decided struct {
	state   State
	refused RefusalReason
	stock   StockEffect
	refund  RefundEffect
	next    Call // what is done next
}

func refusal(reason RefusalReason) decided { return decided{refused: reason} }

var (
	unfit        = refusal(RefusedUnfit)
	looksAgain   = decided{state: Awaiting, next: CallLookup}
	soldByHand   = decided{state: Completed, stock: StockSell}
	freedByHand  = decided{state: RolledBack, stock: StockRelease}
	asItWasSold  = decided{state: Completed}
	asItWasGone  = decided{state: RolledBack}
	undoesAgain  = decided{state: Compensating, next: CallUndo}
	voidsNow     = decided{state: Compensating, next: CallVoid}
	refundsNow   = decided{state: Compensating, next: CallRefund}
	refundAgain  = decided{state: Refunding, next: CallRefund}
	refundAsksOn = decided{state: Refunding, next: CallCheckRefund}
)

// Every resolution, for every way in which a saga stands: where it leads, or that it is refused.
func TestDecisions(t *testing.T) {
	t.Parallel()
	reserved, sold, back := line(StepReserve, StepDone), line(StepConfirm, StepDone), line(StepReserve, StepUndone)
	notInReview, over := refusal(RefusedNotInReview), refusal(RefusedOver)
	anotherAmount := chargeWith(StepUnknown)
	anotherAmount.Outcome = providers.Succeeded
	accepted := refundScene(Refunding, StepPending)
	accepted.Steps[0].Outcome, accepted.Steps[0].ProviderReference = providers.Processing, "refund_1"
	for name, test := range map[string]struct {
		saga Saga
		want map[Resolution]decided
	}{
		"review, an unknown charge": {reviewed(scene(Charging, reserved, line(StepCharge, StepUnknown))), map[Resolution]decided{
			ResolveRetry: looksAgain, ResolveTaken: soldByHand, ResolveNothingKept: freedByHand,
		}},
		"review, a customer": {reviewed(scene(Awaiting, reserved, chargeWith(StepPending))), map[Resolution]decided{
			ResolveRetry: looksAgain, ResolveTaken: soldByHand, ResolveNothingKept: freedByHand, ResolveCancel: voidsNow,
		}},
		"review, held": {reviewed(holding(reserved, chargeWith(StepDone))), map[Resolution]decided{
			ResolveRetry: looksAgain, ResolveTaken: soldByHand, ResolveNothingKept: freedByHand, ResolveCancel: voidsNow,
		}},
		"review, an open capture": {reviewed(holding(reserved, chargeWith(StepDone), captureOf(1200, StepUnknown))), map[Resolution]decided{
			ResolveRetry: {state: Awaiting, next: CallCapture}, ResolveTaken: soldByHand, ResolveNothingKept: freedByHand,
		}},
		"review, a part captured": {reviewed(holding(reserved, chargeWith(StepDone), captureOf(500, StepDone))), map[Resolution]decided{
			ResolveRetry: looksAgain, ResolveTaken: soldByHand, ResolveNothingKept: freedByHand, ResolveCancel: refusal(RefusedCaptured),
		}},
		"review, another amount taken": {reviewed(scene(Charging, reserved, anotherAmount)), map[Resolution]decided{
			ResolveRetry: looksAgain, ResolveTaken: soldByHand, ResolveNothingKept: freedByHand,
		}},
		"review, an own step that cannot be undone": {
			reviewed(scene(Compensating, reserved, line("check", StepDone), line("reserve_seat", StepFailed), line("check_undo", StepFailed))),
			map[Resolution]decided{ResolveRetry: undoesAgain, ResolveNothingKept: freedByHand},
		},
		"review, an own step that cannot be undone, after a refund": {
			reviewed(scene(Compensating, reserved, line("check", StepDone), chargeWith(StepUndone), line("ship", StepFailed), line(StepRefund, StepDone), line("check_undo", StepFailed))),
			map[Resolution]decided{ResolveRetry: undoesAgain, ResolveNothingKept: freedByHand},
		},
		"review, a declined charge": {reviewed(scene(Awaiting, reserved, chargeWith(StepFailed))), map[Resolution]decided{
			ResolveTaken: soldByHand, ResolveNothingKept: freedByHand,
		}},
		"review, a taken charge": {reviewed(scene(Charged, reserved, chargeWith(StepDone))), map[Resolution]decided{
			ResolveRetry: looksAgain, ResolveTaken: soldByHand, ResolveNothingKept: freedByHand, ResolveCancel: refundsNow,
		}},
		"review, an open void": {reviewed(scene(Compensating, reserved, chargeWith(StepPending), line(StepVoid, StepUnknown))), map[Resolution]decided{
			ResolveRetry: voidsNow, ResolveTaken: soldByHand, ResolveNothingKept: freedByHand,
		}},
		"review, an open refund": {reviewed(scene(Compensating, reserved, chargeWith(StepDone), line(StepRefund, StepUnknown))), map[Resolution]decided{
			ResolveRetry: refundsNow, ResolveTaken: soldByHand, ResolveNothingKept: freedByHand,
		}},
		"review, a refused void": {reviewed(scene(Compensating, reserved, chargeWith(StepPending), line(StepVoid, StepFailed))), map[Resolution]decided{
			ResolveRetry: voidsNow, ResolveTaken: soldByHand, ResolveNothingKept: freedByHand, ResolveCancel: voidsNow,
		}},
		"review, sold":         {reviewed(scene(Completed, reserved, chargeWith(StepDone), sold)), map[Resolution]decided{ResolveAsItIs: asItWasSold}},
		"review, rolled back":  {reviewed(scene(RolledBack, back, chargeWith(StepFailed))), map[Resolution]decided{ResolveNothingKept: asItWasGone, ResolveAsItIs: asItWasGone}},
		"review, late payment": {reviewed(scene(RolledBack, back, chargeWith(StepUnknown), line(StepVoid, StepFailed))), map[Resolution]decided{ResolveNothingKept: asItWasGone}},
		"review, of a refund": {reviewed(refundScene(Refunding, StepUnknown)), map[Resolution]decided{
			ResolveRetry: refundAgain, ResolveGiven: {state: Completed, refund: RefundGive}, ResolveNotGiven: {state: RolledBack, refund: RefundFree},
		}},
		"review, of an accepted refund": {reviewed(accepted), map[Resolution]decided{
			ResolveRetry: refundAsksOn, ResolveGiven: {state: Completed, refund: RefundGive}, ResolveNotGiven: {state: RolledBack, refund: RefundFree},
		}},
		"review, of a refund that was given": {reviewed(refundScene(Completed, StepDone)), map[Resolution]decided{
			ResolveGiven: {state: Completed}, ResolveNotGiven: {state: RolledBack, refund: RefundReturn},
		}},
		"review, of a refund that failed": {reviewed(refundScene(Refunding, StepFailed)), map[Resolution]decided{
			ResolveGiven: {state: Completed, refund: RefundGive}, ResolveNotGiven: {state: RolledBack, refund: RefundFree},
		}},

		"charging":           {scene(Charging, reserved, line(StepCharge, StepUnknown)), map[Resolution]decided{ResolveRetry: {state: Charging, next: CallCharge}, ResolveCancel: refusal(RefusedBusy)}},
		"awaiting":           {scene(Awaiting, reserved, chargeWith(StepPending)), map[Resolution]decided{ResolveRetry: looksAgain, ResolveCancel: voidsNow}},
		"held":               {holding(reserved, chargeWith(StepDone)), map[Resolution]decided{ResolveRetry: looksAgain, ResolveCancel: voidsNow}},
		"compensating":       {scene(Compensating, reserved, chargeWith(StepPending), line(StepVoid, StepUnknown)), map[Resolution]decided{ResolveRetry: voidsNow, ResolveCancel: over}},
		"refunding":          {refundScene(Refunding, StepUnknown), map[Resolution]decided{ResolveRetry: refundAgain, ResolveCancel: notInReview}},
		"completed":          {scene(Completed, reserved, chargeWith(StepDone), sold), map[Resolution]decided{ResolveRetry: over, ResolveCancel: refusal(RefusedCaptured)}},
		"rolled back":        {scene(RolledBack, back, chargeWith(StepFailed)), map[Resolution]decided{ResolveRetry: over, ResolveCancel: over}},
		"canceled":           {scene(RolledBack, back, chargeWith(StepUndone)), map[Resolution]decided{ResolveRetry: over, ResolveCancel: asItWasGone}},
		"refund, given":      {refundScene(Completed, StepDone), map[Resolution]decided{ResolveRetry: over, ResolveCancel: notInReview}},
		"nothing, no charge": {reviewed(scene(RolledBack, line(StepReserve, StepFailed))), map[Resolution]decided{ResolveNothingKept: asItWasGone, ResolveAsItIs: asItWasGone}},
	} {
		for _, resolution := range append(Resolutions(), "gone") {
			t.Run(name+"/"+string(resolution), func(t *testing.T) {
				t.Parallel()
				want, named := test.want[resolution]
				if !named {
					want = unfit
					if test.saga.State != NeedsReview {
						want = notInReview
					}
				}
				checkDecision(t, test.saga, decisionOf(resolution), want)
			})
		}
	}
}

func checkDecision(t *testing.T, s Saga, d Decision, want decided) {
	t.Helper()
	change, err := decideOn(s, d)
	if err != nil {
		refused, ok := errors.AsType[*RefusedError](err)
		if !ok || refused.Reason != want.refused || refused.Detail == "" {
			t.Fatalf("error %v, want a refusal as %q", err, want.refused)
		}
		return
	}
	after := change.After
	got := decided{after.State, "", change.Stock, change.Refund, Next(after, testPolicy.Windows)}
	if got != want {
		t.Fatalf("it leads to %+v, want %+v", got, want)
	}
	if change.Decision == nil || *change.Decision != d || change.Finding != nil {
		t.Errorf("decision %+v, finding %+v", change.Decision, change.Finding)
	}
	if attempts(after, StepCharge) != attempts(s, StepCharge) {
		t.Error("it begins another charge")
	}
}

// What is taken must be the order's amount; where captures come one by one it is at least what is known to be captured, and more than
// nothing.
func TestAmountThatIsTaken(t *testing.T) {
	t.Parallel()
	reserved := line(StepReserve, StepDone)
	at := reviewed(scene(Charging, reserved, line(StepCharge, StepUnknown)))
	part := reviewed(holding(reserved, chargeWith(StepDone), captureOf(500, StepDone), captureOf(300, StepUnknown)))
	part.Steps[3].Attempt = 2
	held := reviewed(holding(reserved, chargeWith(StepDone)))
	for name, test := range map[string]struct {
		saga    Saga
		amount  int64
		refused RefusalReason
	}{
		"all": {at, 1200, ""}, "less": {at, 1199, RefusedTooMuch}, "more": {at, 1201, RefusedTooMuch}, "none": {at, 0, RefusedTooMuch},
		"negative": {at, -1200, RefusedTooMuch}, "a part": {part, 800, ""}, "what is known": {part, 500, ""}, "all parts": {part, 1200, ""},
		"less than is known": {part, 499, RefusedTooMuch}, "more than the order": {part, 1201, RefusedTooMuch},
		"any of what is held": {held, 1, ""}, "nothing of what is held": {held, 0, RefusedTooMuch},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			d := decisionOf(ResolveTaken)
			d.Amount = test.amount
			change, err := decideOn(test.saga, d)
			if test.refused != "" {
				if refused, ok := errors.AsType[*RefusedError](err); !ok || refused.Reason != test.refused {
					t.Fatalf("error %v", err)
				}
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			payment := change.After.Order.Payment
			if payment.CapturedAmount != test.amount || payment.Status != PaymentCaptured || payment.ProviderReference != "pay_1" ||
				change.After.captured() != test.amount {
				t.Errorf("payment %+v, captured by steps %d", payment, change.After.captured())
			}
		})
	}
}

// A refusal changes nothing of what it was given; what it says is a sentence.
func TestTakenNeedsAPayment(t *testing.T) {
	t.Parallel()
	s := reviewed(scene(Charging, line(StepReserve, StepDone), line(StepCharge, StepUnknown)))
	d := decisionOf(ResolveTaken)
	d.Payment = ""
	if _, err := decideOn(s, d); err == nil {
		t.Error("it was taken without a payment")
	}
}

// Whatever an order has met when it comes to a person: some decision fits, each that fits is carried out to a rest or to another review,
// no decision charges or breaks the books, and none that is refused is an error of ours.
func TestDecisionsLeadToAnEnd(t *testing.T) {
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
		const mostReviews = 6
		reviews := 0
		for range 2 * mostTurns {
			switch {
			case w.saga.State == NeedsReview && reviews < mostReviews:
				reviews++
				w.decide(t)
			case w.saga.State.Ended():
				w.checkBooks(t)
				return
			default:
				w.turn(t)
			}
			w.checkAlways(t)
		}
		t.Fatalf("no rest; state %s after %d reviews", w.saga.State, reviews)
	})
}

// decide draws a decision of those that fit, and has the others refused.
func (w *world) decide(t *rapid.T) {
	var fitting []Decision
	for _, resolution := range Resolutions() {
		d := decisionOf(resolution)
		if _, err := Advance(w.saga, Event{Kind: Decided, Decision: &d}, w.policy); err == nil {
			fitting = append(fitting, d)
		} else if _, refused := errors.AsType[*RefusedError](err); !refused {
			t.Fatalf("%s of %v: %v", resolution, w.saga.Steps, err)
		}
	}
	if len(fitting) == 0 {
		t.Fatalf("no decision fits %v", w.saga.Steps)
	}
	d := rapid.SampledFrom(fitting).Draw(t, "decision")
	charges := attempts(w.saga, StepCharge)
	w.findings = nil // they are closed
	w.applyDecision(t, d)
	if attempts(w.saga, StepCharge) != charges || Next(w.saga, w.policy.Windows) == CallCharge {
		t.Fatalf("%s charges: %v", d.Resolution, w.saga.Steps)
	}
}

// applyDecision writes a decision. Where the goods turn out to be gone, the one that fits then is that nothing is kept.
func (w *world) applyDecision(t *rapid.T, d Decision) {
	event := Event{Kind: Decided, Decision: &d}
	change := w.advance(t, event)
	ends := change.Stock == StockSell || change.Stock == StockRelease
	if ends && !w.gone && rapid.IntRange(0, 5).Draw(t, "reservation") == 0 {
		w.gone = true
	}
	if ends && w.gone {
		event.Kind, w.held = ReservationLost, false
		if _, err := Advance(w.saga, event, w.policy); err != nil {
			if _, refused := errors.AsType[*RefusedError](err); !refused {
				t.Fatalf("%s without goods: %v", d.Resolution, err)
			}
			nothingKept := decisionOf(ResolveNothingKept)
			event.Decision = &nothingKept
		}
		change = w.advance(t, event)
	}
	if change.Stock != StockNone {
		w.effects, w.held = append(w.effects, change.Stock), false
	}
	w.now = w.now.Add(change.Pause)
	w.saga = stored(change, w.now)
}

// checkBooks: goods are sold or freed once, only what is paid is sold, and of what came to nothing no money is kept.
func (w *world) checkBooks(t *rapid.T) {
	ends := slices.DeleteFunc(slices.Clone(w.effects), func(effect StockEffect) bool { return effect == StockReserve })
	sold, payment := slices.Contains(ends, StockSell), w.saga.Order.Payment
	if len(ends) > 1 {
		t.Fatalf("stock effects %v", w.effects)
	}
	if w.saga.State != NeedsReview && len(w.findings) > 0 {
		t.Fatalf("%s with open findings %v", w.saga.State, w.findings)
	}
	if w.saga.State == Completed && (!sold || payment.CapturedAmount == 0) {
		t.Fatalf("completed, sold %t, captured %d", sold, payment.CapturedAmount)
	}
	if w.saga.State == RolledBack && (sold || w.held || payment.CapturedAmount != payment.RefundedAmount) {
		t.Fatalf("rolled back, sold %t, held %t, captured %d, refunded %d", sold, w.held, payment.CapturedAmount, payment.RefundedAmount)
	}
}
