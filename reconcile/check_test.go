package reconcile

import (
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/uuid"
	"pgregory.net/rapid"

	"paysaga/providers"
	"paysaga/reconcile/statement"
	"paysaga/saga"
)

// Every kind that a saga can have is looked for, so that one that is open can heal.
func TestEveryKindIsLookedFor(t *testing.T) {
	t.Parallel()
	kinds := []Kind{MissingLocally, StatementMismatch} // of no saga
	for _, c := range checks() {
		kinds = append(kinds, c.kinds...)
	}
	want := Kinds()
	slices.Sort(kinds)
	slices.Sort(want)
	if diff := cmp.Diff(want, slices.Compact(kinds)); diff != "" {
		t.Errorf("kinds (-all +looked for):\n%s", diff)
	}
}

// drawPair draws an order as it can stand, with what can be told of it.
func drawPair(t *rapid.T) Pair {
	pairs := []Pair{
		paid(), refunded(), rolledBack(saga.StepUndone), rolledBack(saga.StepFailed), waiting(saga.StepPending), waiting(saga.StepFailed),
		holding(),
	}
	pair := pairs[rapid.IntRange(0, len(pairs)-1).Draw(t, "pair")]
	p := &pair.Payment
	p.HeldStock, p.Busy = rapid.Bool().Draw(t, "stock"), rapid.IntRange(0, 9).Draw(t, "busy") == 0
	if rapid.IntRange(0, 4).Draw(t, "undone by a refund") == 0 {
		refund := refundHere(saga.StepDone, p.State, 1200)
		refund.SagaKey, refund.Key, refund.Reference = orderID, "fba0861f-d07a-58ae-88a7-cf229bfe7a8d_refund", "re_2"
		p.Refunds = append(p.Refunds, refund)
	}
	if rapid.IntRange(0, 4).Draw(t, "due") == 0 {
		p.DueAt = noon
	}
	for i := range p.Refunds {
		p.Refunds[i].Busy = rapid.IntRange(0, 9).Draw(t, "busy refund") == 0
		p.Refunds[i].Status = rapid.SampledFrom([]saga.StepStatus{saga.StepDone, saga.StepDone, saga.StepPending, saga.StepFailed}).Draw(t, "refund")
	}
	statuses := []providers.OutcomeKind{
		providers.Succeeded, providers.Succeeded, providers.Authorized, providers.Declined, providers.Canceled, providers.Processing,
	}
	told := func(name string, of Told) {
		if of.Money = euros(rapid.SampledFrom([]int64{1200, 1200, 500, 2400}).Draw(t, name+" amount")); rapid.IntRange(0, 9).Draw(t, "usd") == 0 {
			of.Money.Currency = "USD"
		}
		of.Status = rapid.SampledFrom(statuses).Draw(t, name+" status")
		of.ToldAt = noon.Add(rapid.SampledFrom([]time.Duration{0, 2 * time.Hour, 2 * time.Hour}).Draw(t, name+" told at"))
		pair.There = append(pair.There, of)
	}
	switch rapid.IntRange(0, 4).Draw(t, "told") {
	case 0: // as it is
	case 1:
		pair.There = nil
	default:
		pair.There = nil
		told("payment", payment("pi_1", chargeKey, "", 0))
	}
	for i, name := range []string{"second", "refund", "undoing", "other refund"} {
		if rapid.IntRange(0, 3).Draw(t, name) == 0 {
			told(name, []Told{
				payment("pi_2", chargeKey, "", 0), refundThere("re_1", refundKey, 0), refundThere("re_2", "", 0), refundThere("re_9", "", 0),
			}[i])
		}
	}
	if rapid.IntRange(0, 3).Draw(t, "settled") == 0 {
		kind := rapid.SampledFrom([]statement.LineKind{statement.LineCharge, statement.LineRefund, statement.LineChargeback}).Draw(t, "line")
		line := settledLine(kind, rapid.SampledFrom([]int64{1200, 500, -500}).Draw(t, "gross"), 30)
		line.Net += rapid.Int64Range(0, 1).Draw(t, "net")
		pair.Settled = append(pair.Settled, line)
	}
	if rapid.IntRange(0, 4).Draw(t, "event") == 0 {
		pair.Events = []Event{{Provider: "stripe", ID: "evt_1", ReceivedAt: noon}}
	}
	return pair
}

// A check finds what it says that it looks for: else what it finds would heal while it is not judged.
func TestChecksFindWhatTheyLookFor(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		pair := drawPair(t)
		for i, c := range checks() {
			m := newMatcher(pair, view())
			m.check(c)
			for _, f := range m.found {
				if !slices.Contains(c.kinds, f.Kind) {
					t.Errorf("check %d finds %s", i, f.Kind)
				}
				if c.ofOrder != nil && f.SagaKey != orderID {
					t.Errorf("check %d of the order finds %s of %s", i, f.Kind, f.SagaKey)
				}
			}
		}
	})
}

// healed are the findings of before that are gone after something happened which mends nothing.
func healed(before, after Judgement) []Finding {
	return slices.DeleteFunc(slices.Clone(before.Found), func(f Finding) bool {
		same := func(g Finding) bool { return g.Kind == f.Kind && g.SagaKey == f.SagaKey }
		isJudged := func(s JudgedSaga) bool { return s.SagaKey == f.SagaKey && slices.Contains(s.Kinds, f.Kind) }
		return slices.ContainsFunc(after.Found, same) || !slices.ContainsFunc(after.Judged, isJudged)
	})
}

// What keeps a comparison from being made heals nothing.
func TestNothingHealsThatIsNotJudged(t *testing.T) {
	t.Parallel()
	for name, happens := range map[string]func(*Pair, *View){
		"somebody drives it": func(pair *Pair, _ *View) {
			pair.Payment.Busy = true
			for i := range pair.Payment.Refunds {
				pair.Payment.Refunds[i].Busy = true
			}
		},
		"it moves on": func(pair *Pair, _ *View) {
			pair.Payment.UpdatedAt = view().Now
			for i := range pair.Payment.Refunds {
				pair.Payment.Refunds[i].UpdatedAt = view().Now
			}
		},
		"a person looks at it":    func(pair *Pair, _ *View) { pair.Payment.State = saga.NeedsReview },
		"another time was listed": func(_ *Pair, view *View) { view.Coverage = nil },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			rapid.Check(t, func(t *rapid.T) {
				pair, after := drawPair(t), view()
				before := Match(pair, view())
				happens(&pair, &after)
				if gone := healed(before, Match(pair, after)); len(gone) > 0 {
					t.Fatalf("healed: %+v", gone)
				}
			})
		})
	}
}

// What is put right heals.
func TestPutRightHeals(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		pair, right := drawPair(t), refunded()
		pair.Payment.Busy = false
		before := Match(pair, view())
		if rapid.Bool().Draw(t, "refund gone") {
			right = paid()
		}
		for i := range pair.Payment.Refunds { // sagas do not come to be nothing
			if key := pair.Payment.Refunds[i].SagaKey; !slices.ContainsFunc(right.Payment.Refunds, func(r Refund) bool { return r.SagaKey == key }) {
				failed := refundHere(saga.StepFailed, saga.RolledBack, 500)
				failed.SagaKey, failed.Key, failed.Reference = key, pair.Payment.Refunds[i].Key, "re_none"
				right.Payment.Refunds = append(right.Payment.Refunds, failed)
			}
		}
		after := Match(right, view())
		if gone := healed(before, after); len(gone) != len(before.Found) || len(after.Found) > 0 {
			t.Fatalf("%d of %+v healed; found %+v, judged %+v", len(gone), before.Found, after.Found, after.Judged)
		}
	})
}

// What the provider has no more heals, where all of its time was listed: there is nothing left to undo.
func TestGoneHeals(t *testing.T) {
	t.Parallel()
	pair, listed := rolledBack(saga.StepUndone), view()
	pair.There = paid().There
	before := Match(pair, listed)
	pair.There = nil
	if gone := healed(before, Match(pair, listed)); len(gone) != 1 || gone[0].Kind != StatusMismatch {
		t.Errorf("healed: %+v, of %+v", gone, before.Found)
	}
	listed.Coverage = nil
	if gone := healed(before, Match(pair, listed)); len(gone) > 0 {
		t.Errorf("healed though nobody looked: %+v", gone)
	}
}

// A saga is judged under its own key: what is looked for in a refund is none of the order's.
func TestJudgedOfEachSaga(t *testing.T) {
	t.Parallel()
	pair := refunded()
	pair.Payment.Refunds[0].Busy = true
	kinds := map[uuid.UUID][]Kind{}
	for _, s := range Match(pair, view()).Judged {
		kinds[s.SagaKey] = s.Kinds
	}
	if got := kinds[orderID]; len(got) != len(Kinds())-2 {
		t.Errorf("of the order %v", got)
	}
	if got := kinds[pair.Payment.Refunds[0].SagaKey]; !slices.Equal(got, []Kind{SagaWithoutEnd}) {
		t.Errorf("of the refund %v", got)
	}
}
