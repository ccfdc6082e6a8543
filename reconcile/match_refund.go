package reconcile

import (
	"fmt"
	"slices"
	"strings"

	"paysaga/providers"
	"paysaga/saga"
)

// unaskedRefunds are those of the order's payment that are none of ours: what was given back of another payment is no refund of the order.
func (m *matcher) unaskedRefunds() verdict {
	own := m.known()
	switch {
	case m.atWork():
		return unjudged
	case own == nil:
		return m.listed()
	}
	for _, told := range own.refunds {
		if m.refundOf(told) < 0 && !slices.Contains(m.ended.refunds, told.Reference) {
			m.unasked(own, told)
		}
	}
	return judged
}

// isToldOf tells that the provider tells of a refund of ours. Its list counts before a settlement file.
func (m *matcher) isToldOf(i int) bool {
	return slices.ContainsFunc(m.told, func(told Told) bool { return m.refundOf(told) == i && !m.isUnlisted(told) })
}

// isUnlisted tells that a refund is in a settlement file, and not in the list that has everything since the order was charged.
func (m *matcher) isUnlisted(told Told) bool {
	coverage, charge := m.Coverage[told.Provider], m.newest()
	return told.Booked && charge != nil && m.covered(coverage, charge.StartedAt) && m.covered(coverage, told.At)
}

// refundOf is the refund of ours that a provider's is: by the key that we sent, else by the provider's id.
func (m *matcher) refundOf(told Told) int {
	for i, refund := range m.payment.Refunds {
		if refund.Provider == told.Provider &&
			(told.Key != "" && told.Key == refund.Key || told.Reference != "" && told.Reference == refund.Reference) {
			return i
		}
	}
	return -1
}

func given(kind providers.OutcomeKind) bool {
	return kind == providers.Succeeded || kind == providers.Processing
}

// unasked is a refund that nobody here asked for. It is written down where the order can take it.
func (m *matcher) unasked(g *group, told Told) {
	p := m.payment
	if told.Status != providers.Succeeded || m.gaveBack(g) {
		return
	}
	finding := m.about(g, Finding{
		Kind: RefundedAtProvider, Severity: High, AtStake: told.Money, Repair: RepairReview,
		Detail: "The provider gave money back that nobody here asked for.",
	})
	finding.Reference, finding.There.References = told.Reference, []string{told.Reference}
	if m.isUnlisted(told) {
		finding.Detail = "A settlement file tells of money that was given back and that nobody here asked for, and the provider's list has none."
		m.add(finding)
		return
	}
	fits := told.Money.Currency == p.Money.Currency && plus(p.Refunded+p.Refunding, told.Money.Amount) <= p.Captured
	if p.State == saga.Completed && !isOurRefund(told.Key) && fits && told.Reference != "" && !m.refundIsOpen() {
		finding.Repair = RepairRecordRefund
		finding.Refunds = []saga.FoundRefund{{Reference: told.Reference, Key: told.Key, Amount: told.Money.Amount, At: told.At}}
	}
	m.add(finding)
}

// gaveBack tells that an order was undone by a void that gave its money back.
func (m *matcher) gaveBack(g *group) bool {
	return m.payment.State == saga.RolledBack && !g.live() && m.payment.Captured == m.payment.Refunded
}

// isOurRefund tells that a refund was made under a key of ours, and so was asked for once: the database may be older than it, and the shop
// may ask again.
func isOurRefund(key providers.SubKey) bool {
	return isOurs(key) && strings.Contains(string(key), "_"+string(saga.StepRefund))
}

// refundIsOpen tells that a refund of ours has no end yet, of which the provider's may be an answer that never came.
func (m *matcher) refundIsOpen() bool {
	for _, refund := range m.payment.Refunds {
		if refund.Reference == "" && refund.open() {
			return true
		}
	}
	return false
}

// bothRefunds compares a refund that both sides know.
func (m *matcher) bothRefunds(i int) verdict {
	refund, isTold, said := m.payment.Refunds[i], false, judged
	if m.atWork() || refund.Busy {
		return unjudged
	}
	for _, told := range m.told {
		switch {
		case m.refundOf(told) != i:
			continue
		case m.isOlderThan(refund, told):
			said = said && verdict(m.announces(told.Provider) && m.refundDiffers(refund, told).Kind == "")
		default:
			m.compareRefund(refund, told)
		}
		isTold = true
	}
	if !isTold {
		return m.refundListed(refund)
	}
	return said
}

func (m *matcher) compareRefund(refund Refund, told Told) {
	finding := m.refundDiffers(refund, told)
	if finding.Kind == "" {
		return
	}
	finding.SagaKey, finding.AtStake, finding.Here = refund.SagaKey, m.money(refund.Amount), m.hereOf(refund)
	finding.Provider, finding.Reference = told.Provider, told.Reference
	finding.There = Facts{
		Source: sourceList, Status: string(told.Status), Amount: told.Money.Amount, Currency: told.Money.Currency,
		References: []string{told.Reference}, At: told.At,
	}
	if m.announces(told.Provider) && finding.Repair == RepairResume {
		finding.Notice = refundEnded(refund, told)
	}
	m.add(finding)
}

// isOlderThan tells that what a provider told of a refund can be older than what happened here. How a refund ended, a provider that cannot
// be asked tells once: that counts as long as the refund waits for it, or has not been booked back here.
func (m *matcher) isOlderThan(refund Refund, told Told) bool {
	if m.announces(told.Provider) && (refund.open() || cameBack(told.Status)) {
		return m.isFresh(told.ToldAt)
	}
	return refund.UpdatedAt.Add(m.Policy.Grace).After(told.ToldAt)
}

// cameBack tells that a refund came to nothing, be it after it had been given.
func cameBack(kind providers.OutcomeKind) bool {
	return kind == providers.Canceled || kind == providers.Declined
}

// refundEnded is what the provider would have announced of a refund.
func refundEnded(refund Refund, told Told) *providers.Notice {
	outcome := providers.Outcome{Kind: told.Status, Reference: told.Reference, Money: told.Money}
	if cameBack(told.Status) {
		outcome.Code = codeBookedBack
	}
	return &providers.Notice{
		ID: "reconcile " + told.Reference, Type: "reconciliation", About: providers.AboutRefund, Key: refund.Key, Payment: told.Payment,
		Reference: told.Reference, Outcome: &outcome, At: told.At,
	}
}

// codeBookedBack is why a refund came to nothing of which no more is known than that it came back.
const codeBookedBack = "booked_back"

// refundDiffers says in what a refund differs on the two sides.
func (m *matcher) refundDiffers(refund Refund, told Told) Finding {
	there := given(told.Status)
	switch {
	case refund.done():
		return m.givenDiffers(refund, told)
	case refund.open() && told.Status != providers.Processing:
		if other := m.refundMoneyDiffers(refund, told); there && other.Kind != "" && m.announces(told.Provider) {
			return other
		}
		return Finding{
			Kind: StatusMismatch, Severity: High, Repair: RepairResume,
			Detail: fmt.Sprintf("A refund is %s at the provider, and waits here.", told.Status),
		}
	case there && !refund.open():
		return Finding{
			Kind: StatusMismatch, Severity: Critical, Repair: RepairReview,
			Detail: "A refund counts as not given here, and the provider gave it.",
		}
	}
	return Finding{}
}

// givenDiffers is about a refund that was given here. That one came back, a provider that cannot be asked tells once; a refund which undid
// an order is a person's then.
func (m *matcher) givenDiffers(refund Refund, told Told) Finding {
	switch {
	case given(told.Status):
		return m.refundMoneyDiffers(refund, told)
	case told.Status == providers.ActionRequired:
		return Finding{}
	}
	finding := Finding{
		Kind: StatusMismatch, Severity: Critical, Repair: RepairReview,
		Detail: fmt.Sprintf("A refund counts as given here, and is %s at the provider.", told.Status),
	}
	if cameBack(told.Status) && m.announces(told.Provider) && refund.SagaKey != m.payment.OrderID {
		finding.Repair = RepairResume
	}
	return finding
}

// refundMoneyDiffers compares the money of a refund that was given on both sides.
func (m *matcher) refundMoneyDiffers(refund Refund, told Told) Finding {
	finding := Finding{Kind: AmountMismatch, Severity: Critical, Repair: RepairReview}
	switch ours := m.money(refund.Amount); {
	case told.Money.Currency != ours.Currency:
		finding.Kind = CurrencyMismatch
		finding.Detail = fmt.Sprintf("A refund in %s was given in %s.", ours.Currency, told.Money.Currency)
	case told.Money != ours:
		finding.Detail = fmt.Sprintf("A refund of %s was given with %s.", ours, told.Money)
	default:
		return Finding{}
	}
	return finding
}

// missingRefund: what was given back here was given back there, if everything of that time was listed.
func (m *matcher) missingRefund(i int) verdict {
	refund := m.payment.Refunds[i]
	switch {
	case m.atWork() || refund.Busy:
		return unjudged
	case m.isToldOf(i), refund.Status != saga.StepDone:
		return judged
	case m.refundListed(refund) == unjudged:
		return unjudged
	}
	m.add(Finding{
		Kind: RefundMissing, Severity: Critical, SagaKey: refund.SagaKey, Provider: refund.Provider, Reference: refund.Reference,
		AtStake: m.money(refund.Amount), Repair: RepairReview, Here: m.hereOf(refund),
		Detail: "A refund counts as given here, and the provider lists none.",
		There:  Facts{Source: sourceList, At: Newest(m.Coverage[refund.Provider]).Until},
	})
	return judged
}

// refundListed tells that a refund would be known if it were there.
func (m *matcher) refundListed(refund Refund) verdict {
	coverage := m.Coverage[refund.Provider]
	return verdict(m.covered(coverage, refund.StartedAt) && m.covered(coverage, refund.SettledAt) && m.covered(coverage, refund.UpdatedAt))
}

func (m *matcher) hereOf(refund Refund) Facts {
	facts := Facts{
		Source: sourceDatabase, Status: string(refund.Status), Amount: refund.Amount, Currency: m.payment.Money.Currency,
		Keys: []string{string(refund.Key)}, At: refund.StartedAt,
	}
	if refund.Reference != "" {
		facts.References = []string{refund.Reference}
	}
	return facts
}
