package saga

import (
	"cmp"
	"slices"
	"testing"
	"time"

	gocmp "github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"paysaga/providers"
)

func TestRefundHoldsItsSumAsItBegins(t *testing.T) {
	t.Parallel()
	l := refundLife(t, testPolicy)
	refund := l.wantsStep(StepRefund, 1, StepPending)
	if l.saga.State != Refunding || refund.Amount != 500 || refund.SubKey != SubKey(l.saga.Key, StepRefund, 1) || refund.Provider != "fake" {
		t.Errorf("state %s, step %+v", l.saga.State, refund)
	}
	if !slices.Equal(l.sums, []RefundEffect{RefundHold}) || l.saga.Refund.Status != RefundPending || len(l.stock) != 0 || len(l.events) != 0 {
		t.Errorf("sums %v, status %s, stock %v, events %v", l.sums, l.saga.Refund.Status, l.stock, l.events)
	}
	if l.due() != CallRefund {
		t.Errorf("%q is due", l.due())
	}
}

func TestOutcomesOfARefund(t *testing.T) {
	t.Parallel()
	type end struct {
		State  State
		Status RefundStatus
		Sums   []RefundEffect
		Event  string
	}
	given := end{Completed, RefundSucceeded, []RefundEffect{RefundHold, RefundGive}, "refund.succeeded"}
	failed := end{RolledBack, RefundFailed, []RefundEffect{RefundHold, RefundFree}, "refund.failed"}
	open := end{Refunding, RefundPending, []RefundEffect{RefundHold}, ""}
	review := end{NeedsReview, RefundInReview, []RefundEffect{RefundHold}, "refund.in_review"}
	for call, ends := range map[Call]map[providers.OutcomeKind]end{
		CallRefund: {
			providers.Succeeded: given, providers.Declined: failed, providers.Rejected: failed, providers.Canceled: failed,
			providers.Processing: open, providers.Busy: open, providers.Unknown: open,
			providers.Authorized: review, providers.ActionRequired: review, providers.NotFound: review,
		},
		CallCheckRefund: {
			providers.Succeeded: given, providers.Declined: failed, providers.Canceled: failed,
			providers.Processing: open, providers.Busy: open, providers.Unknown: open,
			providers.Rejected: review, providers.Authorized: review, providers.ActionRequired: review, providers.NotFound: review,
		},
	} {
		for kind, want := range ends {
			l := refundLife(t, testPolicy)
			if call == CallCheckRefund {
				l.answers(CallRefund, providers.Outcome{Kind: providers.Processing, Reference: "refund_1"})
			}
			l.answers(call, providers.Outcome{Kind: kind, Reference: "refund_1"})
			got := end{l.saga.State, l.saga.Refund.Status, l.sums, ""}
			if len(l.events) > 0 {
				got.Event = l.events[0]
			}
			if diff := gocmp.Diff(want, got); diff != "" {
				t.Errorf("%s → %s (-want +got):\n%s", call, kind, diff)
			}
		}
	}
}

// All was given back before by somebody else: this refund moved nothing, and a person must say what it was.
func TestRefundOfWhatWasGivenBackElsewhere(t *testing.T) {
	t.Parallel()
	l := refundLife(t, testPolicy)
	l.answers(CallRefund, l.coded(providers.Succeeded, providers.CodeAlreadyRefunded))
	l.wantsReview("refunded_at_provider")
	if !slices.Equal(l.sums, []RefundEffect{RefundHold}) {
		t.Errorf("sums %v", l.sums)
	}
}

// A bank may send a refund back weeks later. A success that comes after that was sent before it.
func TestRefundThatComesBack(t *testing.T) {
	t.Parallel()
	for name, comesBack := range map[string]func(*life, providers.Outcome){"told": tellReturn, "asked": askForReturn} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			policy := map[string]Policy{"told": deferredPolicy(), "asked": testPolicy}[name]
			success, failure := outcomeOf(providers.Succeeded), declines()
			l := refundLife(t, policy)
			l.answers(CallRefund, success)
			l.saga.ReadAt = l.saga.ReadAt.Add(30 * 24 * time.Hour)
			comesBack(l, failure)
			if l.saga.State != RolledBack || !slices.Equal(l.sums, []RefundEffect{RefundHold, RefundGive, RefundReturn}) {
				t.Fatalf("state %s, sums %v", l.saga.State, l.sums)
			}
			if !slices.Equal(l.events, []string{"refund.succeeded", "refund.failed"}) {
				t.Errorf("events %v", l.events)
			}
			for _, again := range []providers.Outcome{failure, success} {
				if h := l.hears(noticeOf(providers.AboutRefund, &again)); !h.nothing() {
					t.Errorf("%s after the failure means %+v", again.Kind, h)
				}
			}
		})
	}
}

func tellReturn(l *life, failure providers.Outcome) {
	l.t.Helper()
	l.hears(noticeOf(providers.AboutRefund, &failure))
}

func askForReturn(l *life, failure providers.Outcome) {
	l.t.Helper()
	h := l.hears(noticeOf(providers.AboutRefund, nil))
	if h.call != CallCheckRefund {
		l.t.Fatalf("a hint about a refund that is given: %+v", h)
	}
	for _, nothing := range []providers.OutcomeKind{providers.Succeeded, providers.Processing, providers.Unknown, providers.Busy} {
		l.apply(answered(h.call, providers.Outcome{Kind: nothing}))
		if l.saga.State != Completed || l.saga.Refund.Status != RefundSucceeded {
			l.t.Fatalf("%s after a look that said %s", l.saga.State, nothing)
		}
	}
	l.apply(answered(h.call, failure))
}

// A refund that was refused as a request after an earlier send may have been made all the same (I4).
func TestRefusalOfARepeatedRefundDecidesNothing(t *testing.T) {
	t.Parallel()
	l := refundLife(t, testPolicy)
	l.answers(CallRefund, outcomeOf(providers.Unknown))
	l.answers(CallRefund, l.coded(providers.Rejected, "resource_missing"))
	if l.saga.State != Refunding || !slices.Equal(l.sums, []RefundEffect{RefundHold}) {
		t.Fatalf("state %s, sums %v", l.saga.State, l.sums)
	}
	l.answers(CallCheckRefund, outcomeOf(providers.Succeeded))
	if l.saga.State != Completed {
		t.Errorf("state %s", l.saga.State)
	}
}

func TestRefundable(t *testing.T) {
	t.Parallel()
	order := func(state State, captured, refunded, refunding int64) Saga {
		s := scene(state, line(StepReserve, StepDone), chargeWith(StepDone))
		s.Order.Payment.CapturedAmount, s.Order.Payment.RefundedAmount, s.Order.Payment.RefundingAmount = captured, refunded, refunding
		return s
	}
	held := holding(line(StepReserve, StepDone), chargeWith(StepDone))
	part := holding(line(StepReserve, StepDone), chargeWith(StepDone), captureOf(500, StepDone))
	for name, test := range map[string]struct {
		saga   Saga
		amount int64
		want   int64
		reason RefusalReason
	}{
		"all":                    {order(Completed, 1200, 0, 0), 0, 1200, ""},
		"all that is left":       {order(Completed, 1200, 300, 200), 0, 700, ""},
		"a part":                 {order(Completed, 1200, 0, 0), 500, 500, ""},
		"the last cent":          {order(Completed, 1200, 1199, 0), 1, 1, ""},
		"a cent more":            {order(Completed, 1200, 300, 200), 701, 0, RefusedTooMuch},
		"negative":               {order(Completed, 1200, 0, 0), -1, 0, RefusedTooMuch},
		"nothing left":           {order(Completed, 1200, 1200, 0), 0, 0, RefusedTooMuch},
		"nothing left, a part":   {order(Completed, 1200, 0, 1200), 1, 0, RefusedTooMuch},
		"held":                   {held, 0, 0, RefusedNotCaptured},
		"captured in part":       {part, 100, 0, RefusedNotCaptured},
		"awaiting":               {scene(Awaiting, line(StepReserve, StepDone), chargeWith(StepPending)), 0, 0, RefusedNotCaptured},
		"charging":               {order(Charging, 0, 0, 0), 0, 0, RefusedBusy},
		"compensating":           {order(Compensating, 0, 0, 0), 0, 0, RefusedOver},
		"came to nothing":        {order(RolledBack, 0, 0, 0), 0, 0, RefusedOver},
		"for a person to decide": {order(NeedsReview, 1200, 0, 0), 0, 0, RefusedInReview},
	} {
		got, err := refundable(test.saga, test.amount)
		reason := RefusalReason("")
		if refused, ok := err.(*RefusedError); ok { //nolint:errorlint // as it comes
			reason = refused.Reason
		}
		if got != test.want || reason != test.reason {
			t.Errorf("%s: %d, %v; want %d, %q", name, got, err, test.want, test.reason)
		}
	}
}

// ledger is what the database keeps of a completed order's refunds, and what it refuses.
type ledger struct{ captured, refunding, refunded int64 }

func (l *ledger) write(effect RefundEffect, amount int64) bool {
	next := *l
	switch effect { //nolint:exhaustive // what no person has decided
	case RefundHold:
		next.refunding += amount
	case RefundGive:
		next.refunding, next.refunded = next.refunding-amount, next.refunded+amount
	case RefundFree:
		next.refunding -= amount
	case RefundReturn:
		next.refunded -= amount
	case RefundNone:
	}
	if next.refunding < 0 || next.refunded < 0 || next.refunding+next.refunded > next.captured {
		return false
	}
	*l = next
	return true
}

// refunds are several refunds of one order, and what is true of each at the provider: "", "given", "failed" or "returned".
type refunds struct {
	book  *ledger
	lives []*life
	truth []string
}

// Whatever becomes of an order's refunds, in whatever order it is told, the sums here are the provider's (I7).
func TestRefundsEndAsTheProviderHasThem(t *testing.T) {
	t.Parallel()
	for name, policy := range map[string]Policy{"told": deferredPolicy(), "asked": testPolicy} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			policy.MaxFailures = 100 // more than turns
			rapid.Check(t, func(t *rapid.T) {
				r := newRefunds(t, policy)
				for range 40 {
					i := rapid.IntRange(0, len(r.lives)-1).Draw(t, "refund")
					r.truth[i] = nextTruth(t, r.truth[i])
					r.turn(t, i, rapid.Bool().Draw(t, "lost"))
				}
				r.check(t)
			})
		})
	}
}

// newRefunds begins as many as the order's sum takes.
func newRefunds(t *rapid.T, policy Policy) *refunds {
	t.Helper()
	r := &refunds{book: &ledger{captured: 1200}}
	for range rapid.IntRange(1, 4).Draw(t, "refunds") {
		l := refundLife(t, policy)
		l.saga.Refund.Amount = int64(rapid.IntRange(1, 700).Draw(t, "amount"))
		if r.book.write(RefundHold, l.saga.Refund.Amount) {
			r.lives, r.truth = append(r.lives, l), append(r.truth, "")
		}
	}
	return r
}

// check lets the provider have its last word, and compares.
func (r *refunds) check(t *rapid.T) {
	t.Helper()
	var given int64
	for i, l := range r.lives {
		r.truth[i] = cmp.Or(r.truth[i], "given")
		for range 3 { // asked for, told, and told again
			r.turn(t, i, false)
		}
		if r.truth[i] == "given" {
			given += l.saga.Refund.Amount
		}
	}
	if r.book.refunded != given || r.book.refunding != 0 {
		t.Fatalf("refunded %d, refunding %d; at the provider %d are given back: %v", r.book.refunded, r.book.refunding, given, r.truth)
	}
}

// nextTruth is how a refund goes on at the provider.
func nextTruth(t *rapid.T, before string) string {
	switch before {
	case "":
		return rapid.SampledFrom([]string{"", "given", "failed"}).Draw(t, "turns")
	case "given":
		return rapid.SampledFrom([]string{"given", "given", "returned"}).Draw(t, "turns")
	}
	return before
}

// turn brings a refund's saga what is true of it now, by an answer or a notice; or loses it.
func (r *refunds) turn(t *rapid.T, i int, lost bool) {
	t.Helper()
	l := r.lives[i]
	event, told := refundEvent(l, r.truth[i], lost)
	if !told {
		return
	}
	l.apply(event)
	if l.saga.State == NeedsReview {
		t.Fatalf("in review because of %v", l.found)
	}
	if effect := l.change.Refund; effect == RefundHold || !r.book.write(effect, l.saga.Refund.Amount) {
		t.Fatalf("the database refuses %q of %d with %+v (%v)", effect, l.saga.Refund.Amount, *r.book, l.sums)
	}
}

// refundEvent is how the truth comes to a refund's saga; nothing where there is nothing to tell it.
func refundEvent(l *life, truth string, lost bool) (event Event, told bool) {
	outcome := map[string]providers.Outcome{
		"": {Kind: providers.Processing}, "given": {Kind: providers.Succeeded}, "failed": declines(), "returned": declines(),
	}[truth]
	outcome.Reference = "refund_1"
	call, notice := l.due(), noticeOf(providers.AboutRefund, &outcome)
	asked := !l.policy.Windows.NoLookup
	switch {
	case lost && call == CallRefund:
		return answered(call, providers.Outcome{Kind: providers.Unknown}), true
	case call != CallNone && (asked || truth == ""):
		return answered(call, outcome), true
	case asked:
		notice.Outcome = nil
	}
	h := hear(l.saga, notice, l.policy.Windows)
	if h.event != nil {
		return *h.event, true
	}
	return answered(h.call, outcome), h.call != CallNone
}
