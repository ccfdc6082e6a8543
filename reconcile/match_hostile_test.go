package reconcile

import (
	"math"
	"slices"
	"testing"
	"time"

	"paysaga/providers"
	"paysaga/reconcile/statement"
	"paysaga/saga"
)

// ofPayment is a refund of another payment than pi_1.
func ofPayment(id string, told Told) Told {
	told.Payment = id
	return told
}

// What looks like damage and is none is no finding.
func TestNoDamage(t *testing.T) {
	t.Parallel()
	duplicate := payment("pi_2", chargeKey, providers.Succeeded, 1200)
	of := func(pair Pair, change func(*Pair)) Pair { change(&pair); return pair }
	second := settledLine(statement.LineCharge, 1200, 30)
	second.ID, second.Payment, second.Reference = "txn_2", "pi_2", "ch_2"
	tried := func(p *Pair) { // an earlier charge was declined, and taken all the same
		earlier := p.Payment.Charges[0]
		earlier.Reference, earlier.Status, earlier.Outcome = "pi_2", saga.StepFailed, providers.Declined
		p.Payment.Charges[0].Attempt, p.Payment.Charges[0].Key = 2, chargeKey+"_2"
		p.Payment.Charges = append(p.Payment.Charges, earlier)
		p.There[0].Key = chargeKey + "_2"
	}
	for name, pair := range map[string]Pair{
		"a duplicate, given back": of(paid(), func(p *Pair) {
			p.There = append(p.There, duplicate, ofPayment("pi_2", refundThere("re_2", "", 1200)))
		}),
		"a refused attempt, taken and given back": of(paid(), func(p *Pair) {
			tried(p)
			p.There = append(p.There, duplicate, ofPayment("pi_2", refundThere("re_2", "", 1200)))
		}),
		"a duplicate, given back and settled": of(paid(), func(p *Pair) {
			p.There = append(p.There, duplicate, ofPayment("pi_2", refundThere("re_2", "", 1200)))
			p.Settled = []Settlement{settledLine(statement.LineCharge, 1200, 30), second}
		}),
		"a refund of a payment from before all that was listed": of(refunded(), func(p *Pair) {
			p.There = p.There[1:]
			p.Payment.Charges[0].StartedAt = noon.Add(-48 * time.Hour)
		}),
		"charged as the listing began, by a clock that is behind": of(paid(), func(p *Pair) {
			p.There, p.Payment.Charges[0].StartedAt = nil, Newest(view().Coverage["stripe"]).From.Add(time.Second)
		}),
		"charged as the listing ended, by a clock that is ahead": of(paid(), func(p *Pair) {
			p.There, p.Payment.Charges[0].StartedAt = nil, Newest(view().Coverage["stripe"]).Until.Add(-2*time.Second)
			p.Payment.Charges[0].SettledAt = p.Payment.Charges[0].StartedAt.Add(time.Second)
		}),
		"refunded as the listing ended": of(refunded(), func(p *Pair) {
			p.There = p.There[:1]
			r := &p.Payment.Refunds[0]
			r.StartedAt = Newest(view().Coverage["stripe"]).Until.Add(-2 * time.Second)
			r.SettledAt, r.UpdatedAt = r.StartedAt.Add(time.Second), r.StartedAt.Add(time.Second)
		}),
		"a refund that came back, of which nobody here knows": of(paid(), func(p *Pair) {
			p.Settled = []Settlement{settledLine(statement.LineRefund, -500, 0), settledLine(statement.LineRefund, 500, 0)}
			p.Settled[0].Reference, p.Settled[1].Reference = "re_7", "re_7"
		}),
		"a hold that was captured, told beside its capture, and given back": of(rolledBack(saga.StepUndone), func(p *Pair) {
			capture := payment("cap_1", chargeKey, providers.Succeeded, 1200)
			capture.Payment = "pi_1"
			p.There = []Told{payment("pi_1", chargeKey, providers.Authorized, 1200), capture, refundThere("re_1", "", 1200)}
		}),
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if found := Match(pair, view()).Found; len(found) > 0 {
				t.Errorf("found %+v", found)
			}
		})
	}
}

// A payment is a duplicate only beside one that has the order's money: else it is the order's money.
func TestTheOnlyMoneyIsNoDuplicate(t *testing.T) {
	t.Parallel()
	other := payment("pi_2", chargeKey, providers.Succeeded, 1200)
	for name, own := range map[string][]Told{
		"the order's own was let go":    {payment("pi_1", chargeKey, providers.Canceled, 1200)},
		"the order's own was refused":   {payment("pi_1", chargeKey, providers.Declined, 1200)},
		"the order's own is held still": {payment("pi_1", chargeKey, providers.Authorized, 1200)},
		"the order's own is not there":  {},
		"less was taken of its own":     {payment("pi_1", chargeKey, providers.Succeeded, 300)},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			pair := paid()
			pair.There = append(slices.Clone(own), other)
			for _, f := range Match(pair, view()).Found {
				if f.Kind == DuplicateCharge && f.Repair != RepairReview || len(f.Others) > 0 {
					t.Errorf("it would be given back: %+v", f)
				}
			}
		})
	}
}

// What is given back by rule is in the order's currency: only of that the limits can be held.
func TestDuplicateInAnotherCurrency(t *testing.T) {
	t.Parallel()
	pair := paid()
	dollars := payment("pi_3", chargeKey, providers.Succeeded, 9_000_000)
	dollars.Money.Currency = "USD"
	pair.There = append(pair.There, payment("pi_2", chargeKey, providers.Succeeded, 100), dollars)
	for _, f := range Match(pair, view()).Found {
		if f.Repair == RepairRefundDuplicate {
			t.Errorf("found %+v", f)
		}
	}
}

// Sums that no integer holds are as large as can be, and not small or negative: a limit must hold them back.
func TestSumsStayLarge(t *testing.T) {
	t.Parallel()
	pair := paid()
	pair.There = append(pair.There, payment("pi_2", chargeKey, providers.Succeeded, math.MaxInt64-5),
		payment("pi_3", chargeKey, providers.Succeeded, math.MaxInt64-5), refundThere("re_8", "", math.MaxInt64), refundThere("re_9", "", math.MaxInt64))
	found := Match(pair, view()).Found
	if len(found) != 2 {
		t.Fatalf("found %+v", found)
	}
	plan := Plan{}
	for _, f := range found {
		if f.AtStake.Amount != math.MaxInt64 || f.Repair == RepairRecordRefund {
			t.Errorf("found %+v", f)
		}
		plan.Add(f, Verdict{Repair: RepairRefundDuplicate})
	}
	plan.Check(limits{"EUR": 1_000_000})
	if len(plan.Exceeds) != 1 || plan.Money["EUR"] != math.MaxInt64 {
		t.Errorf("planned %+v", plan)
	}
}

// A list of another account lacks every payment: not every order is stopped for that.
func TestNotAllOrdersAreStopped(t *testing.T) {
	t.Parallel()
	pair := paid()
	pair.There = nil
	missing := onlyFinding(t, pair)
	plan := Plan{}
	for range mostReviews {
		plan.Add(missing, Verdict{Repair: missing.Repair})
	}
	if plan.Check(limits{"EUR": 0}); len(plan.Exceeds) > 0 {
		t.Errorf("exceeds %+v", plan.Exceeds)
	}
	plan.Add(missing, Verdict{Repair: missing.Repair})
	if plan.Check(limits{"EUR": 0}); len(plan.Exceeds) != 1 || plan.Exceeds[0].Planned != mostReviews+1 {
		t.Errorf("exceeds %+v", plan.Exceeds)
	}
}

type limits map[string]int64

func (l limits) In(currency string) int64 { return l[currency] }

// A refund of a payment that is older than everything that was listed is found all the same.
func TestRefundOfAnOldPayment(t *testing.T) {
	t.Parallel()
	pair := paid()
	pair.There = []Told{refundThere("re_9", "", 500)}
	pair.Payment.Charges[0].StartedAt = noon.Add(-48 * time.Hour)
	f := onlyFinding(t, pair)
	if f.Kind != RefundedAtProvider || f.Repair != RepairRecordRefund || len(f.Refunds) != 1 {
		t.Errorf("found %+v", f)
	}
}

// A refund that a settlement file books back has not been given.
func TestRefundBookedBack(t *testing.T) {
	t.Parallel()
	pair := refunded()
	pair.There = pair.There[:1]
	pair.Settled = []Settlement{settledLine(statement.LineRefund, -500, 0), settledLine(statement.LineRefund, 500, 0)}
	pair.Settled[0].Reference, pair.Settled[1].Reference = "re_1", "re_1"
	if f := onlyFinding(t, pair); f.Kind != StatusMismatch || f.Repair != RepairReview {
		t.Errorf("found %+v", f)
	}
}

// Ten thousand of one kind stay one finding that a person can read.
func TestManyOfAKind(t *testing.T) {
	t.Parallel()
	pair := paid()
	for i := range 10_000 {
		pair.Events = append(pair.Events, Event{Provider: "stripe", ID: "evt", Parked: i%2 == 0, ReceivedAt: noon})
	}
	f := onlyFinding(t, pair)
	if len(f.Detail) > 1000 || len(f.Events) != len(pair.Events) || !slices.Contains(Repairs(), f.Repair) {
		t.Errorf("%d letters, %d events, repair %q", len(f.Detail), len(f.Events), f.Repair)
	}
}
