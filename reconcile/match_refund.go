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
		if m.refundOf(told) < 0 {
			m.unasked(own, told)
		}
	}
	return judged
}

// isToldOf tells that the provider tells of a refund of ours.
func (m *matcher) isToldOf(i int) bool {
	return slices.ContainsFunc(m.told, func(told Told) bool { return m.refundOf(told) == i })
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
		case refund.UpdatedAt.Add(m.Policy.Grace).After(told.ToldAt):
			said = unjudged
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
	m.add(finding)
}

// refundDiffers says in what a refund differs on the two sides.
func (m *matcher) refundDiffers(refund Refund, told Told) Finding {
	there := given(told.Status)
	finding := Finding{Kind: StatusMismatch, Severity: Critical, Repair: RepairReview}
	if refund.done() && there {
		return m.refundMoneyDiffers(refund, told)
	}
	switch {
	case refund.open() && told.Status != providers.Processing:
		finding.Severity, finding.Repair = High, RepairResume
		finding.Detail = fmt.Sprintf("A refund is %s at the provider, and waits here.", told.Status)
	case refund.done() && told.Status != providers.ActionRequired:
		finding.Detail = fmt.Sprintf("A refund counts as given here, and is %s at the provider.", told.Status)
	case there && !refund.done():
		finding.Detail = "A refund counts as not given here, and the provider gave it."
	default:
		return Finding{}
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
		There:  Facts{Source: sourceList, At: m.Coverage[refund.Provider].Until},
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
