package reconcile

import (
	"cmp"
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

// own holds the order against its own payment.
func (m *matcher) own() verdict {
	switch known := m.known(); {
	case m.payment.Busy:
		return unjudged
	case m.payment.State == saga.NeedsReview:
		m.inReview()
		return unjudged
	case m.booked():
		return m.ended.said
	case known == nil: // where it must be there, it is missing
		return m.listed()
	default:
		return m.ownPayment(known)
	}
}

// others holds each payment that the provider tells of beside the order's own against the order.
func (m *matcher) others() verdict {
	if m.atWork() {
		return unjudged
	}
	said, known := judged, m.known()
	for _, g := range m.there {
		switch {
		case g == known, !g.live():
		case g.listed && m.isOlder(g): // else it is booked, and what is booked, whenever, moved
			said = unjudged
		default:
			said = said && m.other(g, known)
		}
	}
	return said
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
func (m *matcher) ownPayment(g *group) verdict {
	if m.isOlder(g) {
		m.settledAfterAll(g)
		return verdict(m.announces(g.provider) && m.agrees(g))
	}
	return m.compareOwn(g)
}

// agrees tells that an order is as its payment was when that was told of. Where nothing newer will ever be told, that is all that there is.
func (m *matcher) agrees(g *group) bool {
	alone := *m
	alone.found, alone.left = nil, map[uuid.UUID][]Kind{}
	return !m.foundKind(StatusMismatch) && alone.compareOwn(g) == judged && len(alone.found) == 0
}

func (m *matcher) compareOwn(g *group) verdict {
	switch m.payment.State {
	case saga.Completed:
		return m.completed(g)
	case saga.RolledBack:
		return m.rolledBack(g)
	case saga.Charging, saga.Awaiting:
		return m.waiting(g)
	default: // on its way: it looks by itself
		return unjudged
	}
}

// completed: what was captured here is taken there.
func (m *matcher) completed(g *group) verdict {
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
	case !g.settledStatus():
		return unjudged
	case g.status != providers.Succeeded:
		m.add(m.about(g, Finding{
			Kind: StatusMismatch, Severity: Critical, AtStake: m.money(m.payment.Captured), Repair: RepairReview,
			Detail: fmt.Sprintf("The order is completed; its payment is %s at the provider.", g.status),
		}))
	}
	return judged
}

// rolledBack: nothing of an order that came to nothing is kept or held. What refunds of ours are to give back is on its way, or their own
// finding. Given back by rule is only what the order was about, and once: the saga that undoes it knows of no other money.
func (m *matcher) rolledBack(g *group) verdict {
	left, gaveBack := m.leftOf(g), m.givesBack(saga.StepDone)
	if !gaveBack {
		left = max(left, g.holds())
	}
	if left == 0 {
		return judged
	}
	finding := m.about(g, Finding{
		Kind: StatusMismatch, Severity: Critical, Repair: RepairUndo, AtStake: providers.Money{Amount: left, Currency: g.currency},
		Detail: "The order came to nothing, and the provider has its money.",
	})
	finding.Notice = g.notice()
	if kind, differs := m.moneyDiffers(g, left); differs || gaveBack {
		finding.Kind, finding.Repair = cmp.Or(kind, AmountMismatch), RepairReview
		finding.Detail = fmt.Sprintf("The order over %s came to nothing, and the provider has %s of it.", m.payment.Money, finding.AtStake)
	}
	if !g.listed { // a refund may stand in a file that was not read
		finding.Repair = RepairReview
	}
	m.add(finding)
	return judged
}

// leftOf is what the provider keeps of a payment, once it has all that was given back here.
func (m *matcher) leftOf(g *group) int64 {
	back := g.refunded()
	for i, refund := range m.payment.Refunds {
		if refund.done() && refund.Provider == g.provider && g.currency == m.payment.Money.Currency && !m.isToldOf(i) {
			back = plus(back, refund.Amount)
		}
	}
	return max(0, g.taken-max(0, back, g.given))
}

// moneyDiffers tells by which kind of finding a provider has other money than the order's. Of a hold that is captured by us, or in the
// provider's pages, it may be a part.
func (m *matcher) moneyDiffers(g *group, has int64) (kind Kind, differs bool) {
	switch ours := m.payment.Money; {
	case g.currency != ours.Currency && g.currency != "":
		return CurrencyMismatch, true
	case has != ours.Amount:
		return AmountMismatch, true
	}
	return "", false
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
func (m *matcher) waiting(g *group) verdict {
	var finding Finding
	said := judged
	switch charge := m.newest(); {
	case m.payment.State == saga.Awaiting && m.payment.Capture == saga.CaptureManual && charge.Status == saga.StepDone:
		finding = m.holding(g)
		said = verdict(g.settledStatus())
	case charge.Status != saga.StepFailed:
		finding = m.undecided(g)
	default: // it waits for another payment
		said = g.status == providers.Declined || g.status == providers.Canceled
	}
	if finding.Kind != "" {
		finding.Notice = g.notice()
		m.add(m.about(g, finding))
	}
	return said
}

// holding: an order that waits for a capture is not held any more, or was captured by somebody else.
func (m *matcher) holding(g *group) Finding {
	switch kind, differs := m.moneyDiffers(g, g.taken); {
	case g.status == providers.Canceled:
		return Finding{
			Kind: AuthorizationExpired, Severity: High, Repair: RepairLetGo, AtStake: m.payment.Money,
			Detail: "The order waits for a capture, and nothing is held at the provider any more.",
		}
	case g.status != providers.Succeeded || g.taken == m.payment.Captured && kind != CurrencyMismatch:
		return Finding{}
	case kind == CurrencyMismatch, differs && (g.taken > m.payment.Money.Amount || g.taken < m.payment.Captured):
		return m.otherMoney(g, kind)
	}
	return Finding{
		Kind: StatusMismatch, Severity: Critical, Repair: RepairComplete, AtStake: m.money(g.taken - m.payment.Captured),
		Detail: "The order waits for a capture, and the money is taken at the provider.",
	}
}

// undecided: an order waits for what the provider has decided.
func (m *matcher) undecided(g *group) Finding {
	finding := Finding{Kind: StatusMismatch, Severity: Critical, Repair: RepairComplete, AtStake: m.payment.Money}
	switch g.status {
	case providers.Succeeded, providers.Authorized:
		has := max(g.taken, g.held)
		part := m.payment.Capture == saga.CaptureManual && g.taken > 0 && has < m.payment.Money.Amount
		if kind, differs := m.moneyDiffers(g, has); differs && (kind == CurrencyMismatch || !part) {
			return m.otherMoney(g, kind)
		}
		finding.Detail = "The provider took the money, and the order waits."
		if g.status == providers.Authorized {
			finding.Detail = "The provider holds the money, and the order waits."
		}
	case providers.Declined, providers.Canceled:
		finding.Severity, finding.Repair = Low, RepairResume
		finding.Detail = fmt.Sprintf("The payment is %s at the provider, and the order waits.", g.status)
	default:
		return Finding{}
	}
	return finding
}

// otherMoney is about a payment over other money than that of the order which waits for it.
func (m *matcher) otherMoney(g *group, kind Kind) Finding {
	has := providers.Money{Amount: max(g.taken, g.held), Currency: g.currency}
	return Finding{
		Kind: kind, Severity: Critical, Repair: RepairReview, AtStake: has,
		Detail: fmt.Sprintf("The order is about %s, its payment at the provider about %s.", m.payment.Money, has),
	}
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
func (m *matcher) other(g, known *group) verdict {
	finding := m.about(g, Finding{
		Kind: DuplicateCharge, Severity: Critical, Repair: RepairReview,
		Detail: "The provider has money of this order in another payment than the one that the order knows.",
	})
	ended := m.payment.State == saga.Completed || m.payment.State == saga.RolledBack
	if charge := m.chargeOf(g); known == nil && charge != nil && charge.Attempt != m.newest().Attempt && !ended {
		return unjudged // an earlier attempt is looked at when the order has ended
	}
	if ended && m.isWhole(g) && m.isBeside(known) {
		other := m.otherPayment(g)
		if m.canBeTheOther(known, g) {
			own := m.otherPayment(known)
			other.Instead = &own
		}
		finding.Repair, finding.Others = RepairRefundDuplicate, []saga.OtherPayment{other}
	}
	m.add(finding)
	return judged
}

// isWhole tells that all of a payment was taken, in the order's currency, and nothing of it given back.
func (m *matcher) isWhole(g *group) bool {
	return g.listed && g.holds() == 0 && g.kept() == g.taken && g.currency == m.payment.Money.Currency
}

// canBeTheOther tells that the payment which is taken for the order's own is known by its key alone, which another one bears as well.
func (m *matcher) canBeTheOther(known, other *group) bool {
	return known != nil && known.listed && known.taken == other.taken && known.provider == other.provider && !known.hasID(m.newest().Reference)
}

func (m *matcher) otherPayment(g *group) saga.OtherPayment {
	return saga.OtherPayment{Provider: g.provider, Reference: g.id, Key: g.keyOf(m.payment.OrderID), Amount: g.taken}
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
func (m *matcher) missing() verdict {
	charge := m.newest()
	switch held := m.payment.State == saga.Awaiting && charge != nil && charge.Status == saga.StepDone; {
	case m.atWork():
		return unjudged
	case charge == nil || m.payment.State != saga.Completed && !held, m.known() != nil:
		return judged
	case m.listed() == unjudged:
		return unjudged
	}
	m.add(Finding{
		Kind: PaymentMissing, Severity: Critical, Provider: charge.Provider, Reference: charge.Reference,
		AtStake: m.money(max(m.payment.Captured, m.payment.Money.Amount)), Repair: RepairReview,
		Detail: "The provider lists no payment of this order, and everything of that time was listed.",
		There:  Facts{Source: sourceList, At: Newest(m.Coverage[charge.Provider]).Until},
	})
	return judged
}

// listed tells that the order's payment would be known if it were there: everything of its time was listed.
func (m *matcher) listed() verdict {
	charge := m.newest()
	if charge == nil {
		return judged
	}
	coverage := m.Coverage[charge.Provider]
	since := m.covered(coverage, m.payment.UpdatedAt) || m.covered(coverage, charge.SettledAt)
	return verdict(m.covered(coverage, charge.StartedAt) && since)
}

// covered tells that what began here at a time was listed, if it is there: the provider's clock can be ahead or behind a little.
func (m *matcher) covered(listed []Coverage, at time.Time) bool {
	return slices.ContainsFunc(listed, func(c Coverage) bool { return c.Covers(at.Add(-m.Policy.Grace)) && c.Covers(at.Add(m.Policy.Grace)) })
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
