package reconcile

import (
	"fmt"
	"math"
	"slices"
	"strings"
	"time"

	"github.com/google/uuid"

	"paysaga/providers"
	"paysaga/reconcile/statement"
	"paysaga/saga"
)

// charges holds each payment that the provider tells of against the order, and the order's payment against what it tells.
func (m *matcher) charges() {
	known := m.known()
	for _, g := range m.there {
		switch {
		case g == known:
			m.ownPayment(g)
		case g.live() && (!g.listed || !m.isOlder(g)): // what is booked, whenever, moved
			m.other(g, known)
		}
	}
	if known == nil {
		m.missing()
	}
}

// known is the payment at the provider that the order's newest charge is: by the provider's id where it is known, else the one that keeps
// or holds money under its key.
func (m *matcher) known() *group {
	charge := m.newest()
	if charge == nil {
		return nil
	}
	var best *group
	for _, g := range m.there {
		if !g.isOf(*charge) {
			continue
		}
		if charge.Reference != "" && g.hasID(charge.Reference) {
			return g
		}
		if best == nil || g.live() && !best.live() {
			best = g
		}
	}
	if best == nil && len(m.payment.Charges) == 1 {
		return m.onlyRefunded(charge)
	}
	return best
}

// onlyRefunded is the payment of an order that was charged once, where nothing is told of it but a refund: that bears its own id at the
// provider, and need not name the payment as the charge does.
func (m *matcher) onlyRefunded(charge *Charge) *group {
	if g := onlyOf(m.there, charge.Provider); g != nil && g.unlisted {
		return g
	}
	return nil
}

// ownPayment compares the order with its own payment.
func (m *matcher) ownPayment(g *group) {
	if m.isOlder(g) {
		m.settledAfterAll(g)
		return
	}
	switch m.payment.State {
	case saga.Completed:
		m.completed(g)
	case saga.RolledBack:
		m.rolledBack(g)
	case saga.Charging, saga.Awaiting:
		m.waiting(g)
	default: // on its way: it looks by itself
	}
}

// completed: what was captured here is taken there.
func (m *matcher) completed(g *group) {
	switch {
	case g.currency != "" && g.currency != m.payment.Money.Currency:
		m.add(m.about(g, Finding{
			Kind: CurrencyMismatch, Severity: Critical, AtStake: m.money(m.payment.Captured), Repair: RepairReview,
			Detail: fmt.Sprintf("The order is in %s, its payment at the provider in %s.", m.payment.Money.Currency, g.currency),
		}))
	case g.status == providers.Succeeded && g.taken != m.payment.Captured:
		m.add(m.about(g, Finding{
			Kind: AmountMismatch, Severity: Critical, AtStake: m.money(abs(plus(g.taken, -m.payment.Captured))), Repair: RepairReview,
			Detail: fmt.Sprintf("%s are captured here, %s at the provider.", m.money(m.payment.Captured), m.money(g.taken)),
		}))
	case g.status == providers.Canceled && g.returned() > 0 && g.returned() == m.payment.Refunded: // a list may call it so
	case g.settledStatus() && g.status != providers.Succeeded:
		m.add(m.about(g, Finding{
			Kind: StatusMismatch, Severity: Critical, AtStake: m.money(m.payment.Captured), Repair: RepairReview,
			Detail: fmt.Sprintf("The order is completed; its payment is %s at the provider.", g.status),
		}))
	}
}

// rolledBack: nothing of an order that came to nothing is kept or held. What a refund of ours is to give back is on its way, or the
// refund's own finding.
func (m *matcher) rolledBack(g *group) {
	if !g.live() || m.givesBack(saga.StepDone) {
		return
	}
	finding := m.about(g, Finding{
		Kind: StatusMismatch, Severity: Critical, Repair: RepairUndo,
		Detail: "The order came to nothing, and the provider has its money.",
	})
	finding.Notice = g.notice()
	if !g.listed { // a refund may stand in a file that was not read
		finding.Repair = RepairReview
	}
	m.add(finding)
}

// settledAfterAll: what an order that came to nothing is settled for since is a person's, however long ago the provider told of its payment
// otherwise: that it was given back may stand in a file that was not read.
func (m *matcher) settledAfterAll(g *group) {
	p := m.payment
	givenBack := m.givesBack(saga.StepDone) || p.Captured > 0 && p.Captured == p.Refunded
	if p.State != saga.RolledBack || givenBack || !g.live() {
		return
	}
	for _, line := range m.pair.Settled {
		if line.Kind == statement.LineCharge && line.Gross > 0 && g.isSettledBy(line) && line.BookedAt.After(p.UpdatedAt.Add(m.Policy.Grace)) {
			finding := m.about(g, Finding{
				Kind: StatusMismatch, Severity: Critical, AtStake: line.customers(), Repair: RepairReview,
				Detail: "The order came to nothing, and its payment was settled since.",
			})
			finding.There = line.facts()
			m.add(finding)
			return
		}
	}
}

// givesBack tells that the order has a refund to undo it in a status.
func (m *matcher) givesBack(status saga.StepStatus) bool {
	for _, refund := range m.payment.Refunds {
		if refund.SagaKey == m.payment.OrderID && refund.Status == status {
			return true
		}
	}
	return false
}

// waiting: an order that waits takes what the provider has decided.
func (m *matcher) waiting(g *group) {
	held := m.payment.State == saga.Awaiting && m.payment.Capture == saga.CaptureManual && m.newest().Status == saga.StepDone
	var finding Finding
	switch {
	case held:
		finding = m.holding(g)
	case m.newest().Status != saga.StepFailed: // else it waits for another payment
		finding = undecided(g.status)
	}
	if finding.Kind == "" {
		return
	}
	finding.AtStake, finding.Notice = m.payment.Money, g.notice()
	m.add(m.about(g, finding))
}

// holding: an order that waits for a capture is not held any more, or was captured by somebody else.
func (m *matcher) holding(g *group) Finding {
	switch {
	case g.status == providers.Canceled:
		return Finding{
			Kind: AuthorizationExpired, Severity: High, Repair: RepairLetGo,
			Detail: "The order waits for a capture, and nothing is held at the provider any more.",
		}
	case g.status == providers.Succeeded && g.taken != m.payment.Captured:
		return Finding{
			Kind: StatusMismatch, Severity: Critical, Repair: RepairComplete,
			Detail: "The order waits for a capture, and the money is taken at the provider.",
		}
	}
	return Finding{}
}

// undecided: an order waits for what the provider has decided.
func undecided(status providers.OutcomeKind) Finding {
	finding := Finding{Kind: StatusMismatch, Severity: Critical, Repair: RepairComplete}
	switch status {
	case providers.Succeeded:
		finding.Detail = "The provider took the money, and the order waits."
	case providers.Authorized:
		finding.Detail = "The provider holds the money, and the order waits."
	case providers.Declined, providers.Canceled:
		finding.Severity, finding.Repair = Low, RepairResume
		finding.Detail = fmt.Sprintf("The payment is %s at the provider, and the order waits.", status)
	default:
		return Finding{}
	}
	return finding
}

// notice is what the provider tells, as it would have announced it.
func (g *group) notice() *providers.Notice {
	money := providers.Money{Amount: max(g.taken, g.held, g.asked), Currency: g.currency}
	notice := &providers.Notice{
		ID: "reconcile " + g.id, Type: "reconciliation", About: providers.AboutCharge, Payment: g.id, At: g.at,
		Outcome: &providers.Outcome{Kind: g.status, Reference: g.id, Money: money},
	}
	if len(g.keys) > 0 {
		notice.Key = g.keys[0]
	}
	return notice
}

// keyOf is the key of ours that a payment bears, of an order; empty where it bears none.
func (g *group) keyOf(order uuid.UUID) providers.SubKey {
	for _, key := range g.keys {
		if strings.HasPrefix(string(key), order.String()) {
			return key
		}
	}
	return ""
}

// other is about money that the provider keeps or holds for the order beside the payment that it knows.
func (m *matcher) other(g, known *group) {
	finding := m.about(g, Finding{
		Kind: DuplicateCharge, Severity: Critical, Repair: RepairReview,
		Detail: "The provider has money of this order in another payment than the one that the order knows.",
	})
	ended := m.payment.State == saga.Completed || m.payment.State == saga.RolledBack
	if charge := m.chargeOf(g); known == nil && charge != nil && charge.Attempt != m.newest().Attempt && !ended {
		return // an earlier attempt is looked at when the order has ended
	}
	if ended && g.listed && g.holds() == 0 && g.kept() == g.taken && g.currency == m.payment.Money.Currency && m.isBeside(known) {
		finding.Repair = RepairRefundDuplicate
		finding.Others = []saga.OtherPayment{{Provider: g.provider, Reference: g.id, Key: g.keyOf(m.payment.OrderID), Amount: g.taken}}
	}
	m.add(finding)
}

// isBeside tells that another payment is not the order's only money: the order came to nothing, or its own payment has all that was
// captured. Where some of that was given back, it can have been given back for the other one.
func (m *matcher) isBeside(own *group) bool {
	if m.payment.State == saga.RolledBack {
		return true
	}
	return own != nil && own.status == providers.Succeeded && own.currency == m.payment.Money.Currency && own.kept() >= m.payment.Captured
}

// missing: money that is taken or held here is there, if everything of that time was listed.
func (m *matcher) missing() {
	charge := m.newest()
	held := m.payment.State == saga.Awaiting && charge != nil && charge.Status == saga.StepDone
	if charge == nil || m.payment.State != saga.Completed && !held {
		return
	}
	coverage := m.Coverage[charge.Provider]
	if !m.covered(coverage, charge.StartedAt) || !m.covered(coverage, m.payment.UpdatedAt) && !m.covered(coverage, charge.SettledAt) {
		return
	}
	m.add(Finding{
		Kind: PaymentMissing, Severity: Critical, Provider: charge.Provider, Reference: charge.Reference,
		AtStake: m.money(max(m.payment.Captured, m.payment.Money.Amount)), Repair: RepairReview,
		Detail: "The provider lists no payment of this order, and everything of that time was listed.",
		There:  Facts{Source: sourceList, At: coverage.Until},
	})
}

// covered tells that what began here at a time was listed, if it is there: the provider's clock can be ahead or behind a little.
func (m *matcher) covered(listed Coverage, at time.Time) bool {
	return listed.Covers(at.Add(-m.Policy.Grace)) && listed.Covers(at.Add(m.Policy.Grace))
}

func (g *group) hasID(id string) bool {
	return slices.Contains(g.ids, id)
}

func abs(n int64) int64 {
	if n == math.MinInt64 {
		return math.MaxInt64
	}
	return max(n, -n)
}
