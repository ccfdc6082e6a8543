package reconcile

import (
	"testing"

	"paysaga/providers"
)

// cents is a limit that is the same in every currency.
type cents int64

func (c cents) In(string) int64 { return int64(c) }

func rules() Rules {
	return Rules{Repairs: Repairs(), PerFinding: cents(1000), PerRun: cents(1500), PerDuplicate: cents(300)}
}

func TestJudge(t *testing.T) {
	t.Parallel()
	only := rules()
	only.Repairs = []Repair{RepairRelease, RepairReview}
	for name, test := range map[string]struct {
		rules  Rules
		repair Repair
		stake  int64
		want   Repair
		why    bool
	}{
		"within the limit":           {rules(), RepairUndo, 1000, RepairUndo, false},
		"above the limit":            {rules(), RepairUndo, 1001, RepairNone, true},
		"no money is moved":          {rules(), RepairRelease, 5000, RepairRelease, false},
		"a person's, whatever it is": {rules(), RepairReview, 5000, RepairReview, false},
		"nothing mends it":           {rules(), RepairNone, 1, RepairNone, true},
		"not allowed":                {only, RepairComplete, 1, RepairNone, true},
		"duplicate within its limit": {rules(), RepairRefundDuplicate, 300, RepairRefundDuplicate, false},
		"duplicate above its limit":  {rules(), RepairRefundDuplicate, 301, RepairReview, true},
		"duplicates are not allowed": {only, RepairRefundDuplicate, 1, RepairReview, true},
		"neither, and for no person": {Rules{PerFinding: cents(9), PerRun: cents(9), PerDuplicate: cents(9)}, RepairRefundDuplicate, 1, RepairNone, true},
		"a refund that was found":    {rules(), RepairRecordRefund, 1001, RepairNone, true},
		"a webhook above the limit":  {rules(), RepairApplyWebhook, 1001, RepairNone, true},
		"a saga that goes on":        {rules(), RepairResume, 1000, RepairResume, false},
		"it may give back too much":  {rules(), RepairResume, 1001, RepairNone, true},
		"what is held no more":       {rules(), RepairLetGo, 1 << 50, RepairLetGo, false},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			verdict := test.rules.Judge(Finding{Repair: test.repair, AtStake: euros(test.stake)})
			if verdict.Repair != test.want || (verdict.Reason != "") != test.why {
				t.Errorf("judged as %+v", verdict)
			}
		})
	}
}

// A run is held back by each currency for itself, and by how many orders it would stop.
func TestPlanIsHeldAgainstTheLimits(t *testing.T) {
	t.Parallel()
	planned := func(findings ...Finding) []Exceeded {
		var plan Plan
		for _, f := range findings {
			plan.Add(f, rules().Judge(f))
		}
		plan.Check(rules().PerRun)
		return plan.Exceeds
	}
	undo := func(money providers.Money) Finding { return Finding{Repair: RepairUndo, AtStake: money} }
	if exceeds := planned(undo(euros(1000)), undo(euros(500)), undo(providers.Money{Amount: 1000, Currency: "USD"})); len(exceeds) > 0 {
		t.Errorf("what is within the limits exceeds %+v", exceeds)
	}
	exceeds := planned(undo(euros(1000)), undo(euros(501)), undo(euros(1001))) // the last one is left to people
	if want := (Exceeded{Currency: "EUR", Planned: 1501, Limit: 1500}); len(exceeds) != 1 || exceeds[0] != want {
		t.Errorf("it exceeds %+v", exceeds)
	}
	reviews := make([]Finding, mostReviews+1)
	for i := range reviews {
		reviews[i] = Finding{Repair: RepairReview, AtStake: euros(1)}
	}
	if exceeds := planned(reviews[1:]...); len(exceeds) > 0 {
		t.Errorf("%d orders exceed %+v", mostReviews, exceeds)
	}
	if exceeds := planned(reviews...); len(exceeds) != 1 || exceeds[0].Planned != mostReviews+1 {
		t.Errorf("%d orders exceed %+v", len(reviews), exceeds)
	}
}

// What was moved so far counts, and what would move no money does not.
func TestRepairsAreHeldAgainstWhatTheRunHasMoved(t *testing.T) {
	t.Parallel()
	o := &once{Worker: &Worker{Config{Rules: rules()}}}
	o.count(RepairUndo, euros(1000), 1)
	o.count(RepairRelease, euros(1000), 1)
	o.count(RepairResume, providers.Money{}, 1) // of nobody knows how much
	if len(o.run.Totals.Moved) != 1 {
		t.Errorf("moved: %v", o.run.Totals.Moved)
	}
	for stake, want := range map[int64]bool{500: false, 501: true} {
		if over, isOver := o.over(RepairUndo, euros(stake)); isOver != want || over.Planned != 1000+stake {
			t.Errorf("%d more: %t, %+v", stake, isOver, over)
		}
	}
	if _, isOver := o.over(RepairRelease, euros(5000)); isOver {
		t.Error("freeing stock is held against a limit of money")
	}
	o.count(RepairUndo, euros(1000), -1)
	if _, isOver := o.over(RepairUndo, euros(1500)); isOver {
		t.Error("what was refused counts as moved")
	}
}
