package reconcile

import (
	"cmp"
	"math"
	"slices"
	"strings"
	"time"

	"github.com/google/uuid"

	"paysaga/providers"
	"paysaga/saga"
)

// View is what is known beside a pair.
type View struct {
	Coverage map[string][]Coverage // by provider, the oldest first
	// Announcing are the providers that cannot be asked: what they announced, and settled, is all that anybody knows.
	Announcing []string
	Now        time.Time // by the database's clock
	Policy     Policy
}

// Match compares both sides of a payment. It is pure, and finds the same for the same; no two findings are the same one.
//
// What the provider told counts only where nothing happened here since, so that a payment which is on its way is no finding.
func Match(pair Pair, view View) Judgement {
	m := newMatcher(pair, view)
	for _, c := range checks() {
		m.check(c)
	}
	return Judgement{Found: m.found, Judged: m.judged()}
}

func newMatcher(pair Pair, view View) *matcher {
	lines := pair.Settled
	pair.Settled = telling(pair)
	return &matcher{
		View: view, pair: pair, lines: lines, payment: pair.Payment, there: groups(pair), told: toldRefunds(pair), left: map[uuid.UUID][]Kind{},
	}
}

// matcher is the working state of one Match.
type matcher struct {
	View

	pair    Pair
	lines   []Settlement // also those that do not tell what became of the customer's money
	payment Payment
	there   []*group
	told    []Told // the refunds
	found   []Finding
	left    map[uuid.UUID][]Kind // of each saga, what some check could not judge
	ended   endings
}

// add notes a finding about the order's saga; one of the same kind is the same finding, about more.
func (m *matcher) add(f Finding) {
	f.AccountID, f.OrderID = m.payment.AccountID, m.payment.OrderID
	if f.SagaKey == uuid.Nil {
		f.SagaKey = m.payment.OrderID
	}
	f.Here = cmpFacts(f.Here, m.here())
	if f.Kind == CurrencyMismatch { // amounts in two currencies cannot be compared
		m.leave(f.SagaKey, AmountMismatch)
	}
	for i := range m.found {
		known := &m.found[i]
		if known.Kind != f.Kind || known.SagaKey != f.SagaKey {
			continue
		}
		known.join(f)
		return
	}
	m.found = append(m.found, f)
}

func cmpFacts(told, usual Facts) Facts {
	if told.Source == "" {
		return usual
	}
	return told
}

// join adds another of the same kind. Where their repairs differ, only a person can tell.
func (f *Finding) join(other Finding) {
	switch {
	case f.AtStake.Currency == other.AtStake.Currency:
		f.AtStake.Amount = plus(f.AtStake.Amount, other.AtStake.Amount)
	case movesMoney(f.Repair): // limits are held against one sum
		f.Repair = RepairReview
	}
	switch {
	case f.Repair == RepairNone:
		f.Repair = other.Repair
	case other.Repair != RepairNone && f.Repair != other.Repair:
		f.Repair = RepairReview
	}
	f.There.References = append(f.There.References, other.There.References...)
	f.Refunds = append(f.Refunds, other.Refunds...)
	f.Others = append(f.Others, other.Others...)
	f.Events = append(f.Events, other.Events...)
	if !strings.Contains(f.Detail, other.Detail) && len(f.Detail)+len(other.Detail) < mostDetail {
		f.Detail += " " + other.Detail
	}
}

// mostDetail is how much of what is wrong a person reads, in bytes.
const mostDetail = 1000

// plus adds amounts. What no integer holds is as large, or as small, as can be: a limit holds it back.
func plus(a, b int64) int64 {
	switch sum := a + b; {
	case a > 0 && b > 0 && sum < 0:
		return math.MaxInt64
	case a < 0 && b < 0 && sum >= 0:
		return math.MinInt64
	default:
		return sum
	}
}

// here is what the database has.
func (m *matcher) here() Facts {
	p := m.payment
	facts := Facts{
		Source: sourceDatabase, Status: string(p.State), Amount: p.Money.Amount, Currency: p.Money.Currency, Captured: p.Captured,
		Refunded: p.Refunded, At: p.UpdatedAt,
	}
	for _, charge := range p.Charges {
		facts.Keys = append(facts.Keys, string(charge.Key))
		if charge.Reference != "" {
			facts.References = append(facts.References, charge.Reference)
		}
	}
	return facts
}

// The sources of facts.
const (
	sourceDatabase  = "database"
	sourceList      = "list"
	sourceStatement = "statement"
)

// newest is the charge that counts.
func (m *matcher) newest() *Charge {
	var newest *Charge
	for i := range m.payment.Charges {
		if charge := &m.payment.Charges[i]; newest == nil || charge.Attempt > newest.Attempt {
			newest = charge
		}
	}
	return newest
}

// chargeOf is the attempt that a provider's payment is about; nil where only the saga is known.
func (m *matcher) chargeOf(g *group) *Charge {
	for i := range m.payment.Charges {
		if charge := &m.payment.Charges[i]; charge.Provider == g.provider && g.isOf(*charge) {
			return charge
		}
	}
	return nil
}

// ourStock: an order that is over holds no stock.
func (m *matcher) ourStock() verdict {
	if m.atWork() {
		return unjudged
	}
	if m.payment.State.Ended() && m.payment.HeldStock {
		m.add(Finding{
			Kind: OrphanReservation, Severity: High, Repair: RepairRelease,
			Detail: "The order is " + string(m.payment.State) + " and still holds stock.",
		})
	}
	return judged
}

// ourEvents: a provider's event reaches its saga soon. One for a saga in review waits for the person, too.
func (m *matcher) ourEvents() verdict {
	if m.isReviewed() {
		return unjudged
	}
	counted := false // the order's money stands behind all of its events once
	for _, event := range m.pair.Events {
		if m.Now.Sub(event.ReceivedAt) < m.Policy.EventWait {
			continue
		}
		finding := Finding{
			Kind: WebhookNotApplied, Severity: High, Provider: event.Provider, Reference: event.ID, Events: []Event{event},
			Detail: "An event of the provider waits in the inbox.", There: Facts{References: []string{event.ID}, At: event.ReceivedAt},
		}
		switch {
		case event.Parked && event.Again < mostBrought:
			finding.Repair, finding.Detail = RepairApplyWebhook, "An event of the provider was given up after many tries."
		case event.Parked:
			finding.Detail = "An event of the provider was brought again several times, and given up each time."
		}
		finding.AtStake = providers.Money{Currency: m.payment.Money.Currency}
		if !counted {
			finding.AtStake, counted = m.payment.Money, true
		}
		m.add(finding)
	}
	return judged
}

// mostBrought is how often an event that was given up is brought again by rule.
const mostBrought = 3

// isReviewed tells that the order, or a refund of it, waits for a person.
func (m *matcher) isReviewed() bool {
	return m.payment.State == saga.NeedsReview ||
		slices.ContainsFunc(m.payment.Refunds, func(refund Refund) bool { return refund.State == saga.NeedsReview })
}

// ourEnd: what is due is taken up by recovery within seconds.
func (m *matcher) ourEnd() verdict {
	switch {
	case !m.isOverdue(m.payment.DueAt):
		return judged
	case m.payment.Busy: // whoever drives it may be the one who stands still
		return unjudged
	}
	finding := Finding{
		Kind: SagaWithoutEnd, Severity: High, AtStake: m.payment.Money, Repair: RepairResume,
		Detail: "The order is " + string(m.payment.State) + " and due, and nobody takes it up: is there a server with --role worker or all?",
	}
	if mayCharge(m.payment.State) {
		finding.Repair = RepairNone
	}
	m.add(finding)
	return judged
}

// refundEnd is ourEnd of a refund with a saga of its own.
func (m *matcher) refundEnd(i int) verdict {
	refund := m.payment.Refunds[i]
	switch {
	case refund.SagaKey == m.payment.OrderID, !m.isOverdue(refund.DueAt):
		return judged
	case refund.Busy:
		return unjudged
	}
	m.add(Finding{
		Kind: SagaWithoutEnd, Severity: High, SagaKey: refund.SagaKey, AtStake: m.money(refund.Amount), Repair: RepairResume,
		Detail: "A refund is " + string(refund.State) + " and due, and nobody takes it up.", Here: m.hereOf(refund),
	})
	return judged
}

func (m *matcher) isOverdue(due time.Time) bool {
	return !due.IsZero() && m.Now.Sub(due) > m.Policy.Stuck
}

// mayCharge tells the states in which the saga's next call can be a charge: to send one is for the workers, never for a repair.
func mayCharge(state saga.State) bool {
	return state == saga.Started || state == saga.Reserved || state == saga.Charging
}

func (m *matcher) money(amount int64) providers.Money {
	return providers.Money{Amount: amount, Currency: m.payment.Money.Currency}
}

// resumable are the findings of a saga after which it may go on where it stands, as a provider's answer was all that was wanting. All
// others are about something that a person must see.
var resumable = []string{saga.FindingTriesExhausted, saga.FindingCannotBeDriven}

// inReview: a saga that waits for a person goes on by itself only where nothing but an answer was wanting, and the provider has it now.
func (m *matcher) inReview() {
	charge := m.newest()
	for _, g := range m.there {
		if charge == nil || !g.isOf(*charge) || !g.settledStatus() || m.isOlder(g) {
			continue
		}
		wanting := len(m.payment.InReview) > 0
		for _, kind := range m.payment.InReview {
			wanting = wanting && slices.Contains(resumable, kind)
		}
		if wanting {
			finding := Finding{
				Kind: StatusMismatch, Severity: Critical, AtStake: m.payment.Money, Repair: RepairComplete,
				Detail: "The provider knows by now how the payment ended, and the order waits for that.",
			}
			if kind, differs := m.moneyDiffers(g, max(g.taken, g.held)); differs && g.live() && m.payment.Captured == 0 {
				finding = m.otherMoney(g, kind)
			}
			m.add(m.about(g, finding))
		}
	}
}

// isOlder tells that what a provider told can be older than what happened here.
func (m *matcher) isOlder(g *group) bool {
	return m.payment.UpdatedAt.Add(m.Policy.Grace).After(g.toldAt)
}

// about fills in the provider's side.
func (m *matcher) about(g *group, f Finding) Finding {
	f.Provider, f.Reference = g.provider, g.id
	f.There = g.facts()
	if f.AtStake == (providers.Money{}) {
		f.AtStake = providers.Money{Amount: max(g.kept(), g.holds()), Currency: g.currency}
	}
	return f
}

// sorted orders a provider's payments, so that the same ones give the same findings.
func sorted(all []*group) []*group {
	slices.SortFunc(all, func(a, b *group) int {
		return cmp.Or(cmp.Compare(a.provider, b.provider), a.at.Compare(b.at), cmp.Compare(a.id, b.id))
	})
	return all
}
