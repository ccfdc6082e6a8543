package reconcile

import (
	"fmt"
	"slices"

	"paysaga/providers"
)

// Limit is the most money, of each currency, in its minor units.
type Limit interface{ In(currency string) int64 }

// Rules say what may be repaired without a person.
type Rules struct {
	Repairs      []Repair // that may be done at all
	PerFinding   Limit
	PerRun       Limit
	PerDuplicate Limit // up to which a duplicate charge is given back; above it a person decides
}

// movesMoney tells the repairs that move money, or can with the saga's next step, or decide in the books whose it is: the limits are about
// those. A saga that goes on may be undoing its order, and an event may be of a payment whose order was given up: both give money back.
// What is let go of is held no more, and stock is no money.
func movesMoney(repair Repair) bool {
	return slices.Contains([]Repair{
		RepairComplete, RepairUndo, RepairRecordRefund, RepairRefundDuplicate, RepairResume, RepairApplyWebhook,
	}, repair)
}

// Verdict is what rules say of a finding.
type Verdict struct {
	Repair Repair // what is to be done; RepairNone where it is left to people
	Reason string // why nothing is done, or something else than what would mend it; a sentence
}

// Judge says what is to be done about a finding.
func (r Rules) Judge(f Finding) Verdict {
	repair, reason := f.Repair, ""
	if repair == RepairRefundDuplicate {
		switch {
		case !slices.Contains(r.Repairs, repair):
			repair, reason = RepairReview, notAllowed(repair)
		case f.AtStake.Amount > r.PerDuplicate.In(f.AtStake.Currency):
			repair = RepairReview
			reason = fmt.Sprintf("A duplicate of %s is above the limit up to which one is given back without a person (%s).",
				f.AtStake, inMajor(r.PerDuplicate, f.AtStake.Currency))
		}
	}
	switch {
	case repair == RepairNone:
		return Verdict{Reason: "No rule mends this; a person decides."}
	case !slices.Contains(r.Repairs, repair):
		return Verdict{Reason: notAllowed(repair)}
	case movesMoney(repair) && f.AtStake.Amount > r.PerFinding.In(f.AtStake.Currency):
		return Verdict{Reason: fmt.Sprintf("%s is above the limit for one finding (%s).", f.AtStake, inMajor(r.PerFinding, f.AtStake.Currency))}
	}
	return Verdict{Repair: repair, Reason: reason}
}

func notAllowed(repair Repair) string {
	return fmt.Sprintf("The repair %s is not among those that may be done without a person.", repair)
}

func inMajor(limit Limit, currency string) string {
	return providers.Money{Amount: limit.In(currency), Currency: currency}.String()
}

// Plan is what a run would do, in sums: it does not grow with the findings.
type Plan struct {
	Repairs map[Repair]Sum // RepairNone: left to people
	// Money is what the repairs would move, by currency, in minor units.
	Money   map[string]int64
	Exceeds []Exceeded
}

// Sum counts findings of one kind of repair, with their money by currency.
type Sum struct {
	Findings int64            `json:"findings"`
	AtStake  map[string]int64 `json:"at_stake"`
}

// Exceeded is a currency in which a run would move more than its limit; without one, how many orders it would stop for people.
type Exceeded struct {
	Currency string `json:"currency"`
	Planned  int64  `json:"planned"` // minor units
	Limit    int64  `json:"limit"`
}

// Add counts a finding in.
func (p *Plan) Add(f Finding, verdict Verdict) {
	if p.Repairs == nil {
		p.Repairs, p.Money = make(map[Repair]Sum), make(map[string]int64)
	}
	sum := p.Repairs[verdict.Repair]
	if sum.AtStake == nil {
		sum.AtStake = make(map[string]int64)
	}
	sum.Findings++
	if f.AtStake.Currency != "" {
		sum.AtStake[f.AtStake.Currency] = plus(sum.AtStake[f.AtStake.Currency], f.AtStake.Amount)
	}
	p.Repairs[verdict.Repair] = sum
	if movesMoney(verdict.Repair) && f.AtStake.Currency != "" {
		p.Money[f.AtStake.Currency] = plus(p.Money[f.AtStake.Currency], f.AtStake.Amount)
	}
}

// Check holds the plan's money against the limit of a run.
func (p *Plan) Check(limit Limit) {
	p.Exceeds = nil
	if stopped := p.Repairs[RepairReview].Findings; stopped > mostReviews {
		p.Exceeds = append(p.Exceeds, Exceeded{Planned: stopped, Limit: mostReviews})
	}
	for currency, planned := range p.Money {
		if most := limit.In(currency); planned > most {
			p.Exceeds = append(p.Exceeds, Exceeded{Currency: currency, Planned: planned, Limit: most})
		}
	}
	slices.SortFunc(p.Exceeds, func(a, b Exceeded) int {
		if a.Currency < b.Currency {
			return -1
		}
		return 1
	})
}

// mostReviews is how many orders a run stops for people. So many do not go wrong one by one: the list is another account's, the database
// another day's.
const mostReviews = 100

// Sentence says by how much a run is exceeded.
func (e Exceeded) Sentence() string {
	if e.Currency == "" {
		return fmt.Sprintf("the repairs would stop %d orders and refunds for people, and a run may stop %d", e.Planned, e.Limit)
	}
	return fmt.Sprintf("the repairs would move %s, and a run may move %s",
		providers.Money{Amount: e.Planned, Currency: e.Currency}, providers.Money{Amount: e.Limit, Currency: e.Currency})
}
