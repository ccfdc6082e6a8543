package reconcile

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"paysaga/providers"
	"paysaga/reconcile/statement"
	"paysaga/saga"
)

// endings are what settlement files tell of the step for whose end a saga waits.
type endings struct {
	known   bool // they tell of it: nothing else is to be made of the payment
	said    verdict
	refunds []string // the provider's ids of what gave the money back that a void was to give back
}

// booked: a provider that cannot be asked announces once how a step ended, and what it settles tells that too. The line of a step is known
// by the step's own key or id, so that it counts however long ago it was booked. False where they tell nothing of it.
func (m *matcher) booked() bool {
	charge := m.newest()
	if charge == nil || !m.announces(charge.Provider) {
		return false
	}
	switch m.payment.State {
	case saga.Charging, saga.Awaiting:
		m.bookedCharge(charge)
	case saga.Compensating:
		if m.payment.Void != nil {
			m.bookedVoid(charge, *m.payment.Void)
		}
	default: // waits for none of these
	}
	return m.ended.known
}

// announces tells the providers that cannot be asked.
func (m *matcher) announces(provider string) bool { return slices.Contains(m.Announcing, provider) }

// bookedCharge is about an order that waits for its payment, or for the capture of what is held.
func (m *matcher) bookedCharge(charge *Charge) {
	ofCharge := func(line Settlement) bool { return m.isOfCharge(line, charge) }
	switch capture := m.openCapture(); {
	case capture != nil:
		m.bookedCapture(charge, capture)
	case charge.Status == saga.StepDone && m.payment.Capture == saga.CaptureManual:
		m.bookedByOthers(charge)
	case charge.Status == saga.StepPending, charge.Status == saga.StepUnknown:
		if sum := m.sumOf(ofCharge); sum.positive() {
			m.chargeEnded(charge, sum)
		}
	}
}

// isOfCharge tells that a line books money of a charge's payment.
func (m *matcher) isOfCharge(line Settlement, charge *Charge) bool {
	return line.Key == charge.Key || charge.Reference != "" && line.Payment == charge.Reference || slices.Contains(charge.Captures, line.Key)
}

// openCapture is the one for whose end an order waits.
func (m *matcher) openCapture() *Capture {
	for i := range m.payment.Captures {
		if capture := &m.payment.Captures[i]; capture.open() {
			return capture
		}
	}
	return nil
}

// bookings are what settlement files book of one thing.
type bookings struct {
	money  providers.Money // of the customer
	mixed  bool            // in more than one currency
	back   bool            // some of it was taken back
	last   Settlement
	lately time.Time // when the last one was booked
}

func (b bookings) positive() bool { return b.money.Amount > 0 }

// sumOf adds up the lines of charges that a question is true of.
func (m *matcher) sumOf(isOf func(Settlement) bool) bookings {
	var sum bookings
	for _, line := range m.pair.Settled {
		if line.Kind != statement.LineCharge || !isOf(line) {
			continue
		}
		sum = sum.with(line)
	}
	return sum
}

func (b bookings) with(line Settlement) bookings {
	money := line.customers()
	b.mixed = b.mixed || b.money.Currency != "" && b.money.Currency != money.Currency
	b.back = b.back || money.Amount < 0
	b.money = providers.Money{Amount: plus(b.money.Amount, money.Amount), Currency: money.Currency}
	if line.BookedAt.After(b.lately) {
		b.last, b.lately = line, line.BookedAt
	}
	return b
}

// isFresh tells of what was booked so lately that its notice may be on its way.
func (m *matcher) isFresh(at time.Time) bool { return m.Now.Sub(at) < m.Policy.Grace }

// ends adds what a settlement file tells of the end of a step, and what is to be done about it.
func (m *matcher) ends(sum bookings, finding Finding) {
	m.ended.known, m.ended.said = true, verdict(!m.isFresh(sum.lately))
	if m.ended.said == unjudged {
		return
	}
	line := sum.last
	finding.Provider, finding.Reference, finding.There = line.Provider, line.reference(), line.facts()
	finding.There.Captured = sum.money.Amount
	m.add(finding)
}

// bookedOther is a finding where other money was booked than a step is about. Nothing is done about that by rule.
func (m *matcher) bookedOther(sum bookings, most providers.Money, some bool) (Finding, bool) {
	finding := Finding{Kind: AmountMismatch, Severity: Critical, Repair: RepairReview}
	switch {
	case sum.mixed || sum.money.Currency != most.Currency:
		finding.Kind, finding.AtStake = CurrencyMismatch, most
		finding.Detail = fmt.Sprintf("The order is in %s, it is settled in %s.", most.Currency, sum.money.Currency)
	case sum.money.Amount == most.Amount, some && sum.money.Amount < most.Amount:
		return Finding{}, false
	default:
		finding.AtStake = m.money(abs(plus(sum.money.Amount, -most.Amount)))
		finding.Detail = fmt.Sprintf("%s are settled, and the order waits for %s.", sum.money, most)
	}
	return finding, true
}

// chargeEnded: the money is there. Of what was to be held only, some may have been captured.
func (m *matcher) chargeEnded(charge *Charge, sum bookings) {
	if finding, other := m.bookedOther(sum, m.payment.Money, m.payment.Capture == saga.CaptureManual); other {
		m.ends(sum, finding)
		return
	}
	m.ends(sum, Finding{
		Kind: StatusMismatch, Severity: Critical, AtStake: sum.money, Repair: RepairComplete,
		Detail: "The provider took the money and has settled it, and the order waits.",
		Notice: sum.notice(providers.AboutCharge, charge.Key, "", providers.Outcome{Kind: providers.Succeeded, Money: sum.money}),
	})
}

// notice is what the provider would have announced.
func (b bookings) notice(about providers.About, key providers.SubKey, reference string, outcome providers.Outcome) *providers.Notice {
	outcome.Reference = reference
	return &providers.Notice{
		ID: "reconcile " + b.last.reference(), Type: "reconciliation", About: about, Key: key, Payment: b.last.Payment, Reference: reference,
		Outcome: &outcome, At: b.lately,
	}
}

// isOf tells that a line, or a refund, bears the key of a call of ours, or is it by the provider's id.
func isOf(key, ours providers.SubKey, reference, known string) bool {
	return key != "" && key == ours || reference != "" && reference == known
}

// bookedCapture: a capture for whose end the order waits was carried out, or came back.
func (m *matcher) bookedCapture(charge *Charge, capture *Capture) {
	sum := m.sumOf(func(line Settlement) bool { return isOf(line.Key, capture.Key, line.Reference, capture.Reference) })
	notice := func(outcome providers.Outcome) *providers.Notice {
		return sum.notice(providers.AboutCapture, capture.Key, sum.last.Reference, outcome)
	}
	switch {
	case sum.lately.IsZero():
		m.bookedBeside(charge)
	case sum.back && !sum.positive():
		m.ends(sum, Finding{
			Kind: StatusMismatch, Severity: Critical, AtStake: m.money(capture.Amount), Repair: RepairResume,
			Detail: "A capture was settled and taken back, and the order waits for it.",
			Notice: notice(providers.Outcome{
				Kind: providers.Declined, Code: providers.CodeCaptureFailed, Decline: &providers.Decline{Code: providers.CodeCaptureFailed},
			}),
		})
	default:
		if finding, other := m.bookedOther(sum, m.money(capture.Amount), false); other {
			m.ends(sum, finding)
			return
		}
		m.ends(sum, Finding{
			Kind: StatusMismatch, Severity: Critical, AtStake: sum.money, Repair: RepairComplete,
			Detail: "The provider carried a capture out and has settled it, and the order waits for it.",
			Notice: notice(providers.Outcome{Kind: providers.Succeeded, Money: sum.money}),
		})
	}
}

// ofOthers tells that a line books money of the charge that no capture of ours took, as far as it tells.
func (m *matcher) ofOthers(charge *Charge) func(Settlement) bool {
	return func(line Settlement) bool {
		return m.isOfCharge(line, charge) && !slices.ContainsFunc(m.payment.Captures, func(capture Capture) bool {
			return isOf(line.Key, capture.Key, line.Reference, capture.Reference)
		})
	}
}

// bookedBeside: while a capture of ours waits for its end, another one is a person's.
func (m *matcher) bookedBeside(charge *Charge) {
	if sum := m.sumOf(m.ofOthers(charge)); sum.positive() {
		m.ends(sum, Finding{
			Kind: StatusMismatch, Severity: Critical, AtStake: sum.money, Repair: RepairReview,
			Detail: "The order waits for a capture, and the provider has settled one that does not bear its key.",
		})
	}
}

// bookedByOthers: an order waits for a capture of what is held, and somebody made one at the provider; or one that counts as refused was
// carried out all the same.
func (m *matcher) bookedByOthers(charge *Charge) {
	for _, capture := range m.payment.Captures {
		sum := m.sumOf(func(line Settlement) bool { return isOf(line.Key, capture.Key, line.Reference, capture.Reference) })
		if capture.Status == saga.StepFailed && sum.positive() {
			m.ends(sum, Finding{
				Kind: StatusMismatch, Severity: Critical, AtStake: sum.money, Repair: RepairReview,
				Detail: "A capture counts as refused here, and the provider has settled it.",
			})
			return
		}
	}
	sum := m.sumOf(m.ofOthers(charge))
	if !sum.positive() {
		return
	}
	if finding, other := m.bookedOther(sum, m.money(plus(m.payment.Money.Amount, -m.payment.Captured)), true); other {
		m.ends(sum, finding)
		return
	}
	finding := Finding{
		Kind: StatusMismatch, Severity: Critical, AtStake: sum.money, Repair: RepairComplete,
		Detail: "The order waits for a capture, and the provider has settled one that nobody here asked for.",
		Notice: sum.notice(providers.AboutCapture, "", sum.last.Reference, providers.Outcome{Kind: providers.Succeeded, Money: sum.money}),
	}
	if sum.last.Reference == "" { // nothing tells it from a capture of ours
		finding.Repair, finding.Notice = RepairReview, nil
	}
	m.ends(sum, finding)
}

// bookedVoid: what an order's void was to let go was given back, or had been taken before.
func (m *matcher) bookedVoid(charge *Charge, void Void) {
	taken := m.sumOf(func(line Settlement) bool { return m.isOfCharge(line, charge) })
	back := m.givenBack(charge, void, taken)
	switch {
	case len(m.ended.refunds) > 0:
		m.voidGaveBack(void, taken, back)
	case back.positive(): // a part, by somebody at the provider
	case taken.positive() && (!void.GivesBack || void.Refused): // else what gives it back can stand in a file that was not read
		m.voidCameTooLate(void, taken)
	}
}

// givenBack is what was given back of a payment that was to be voided: by the void itself, or as a whole, by whomever.
func (m *matcher) givenBack(charge *Charge, void Void, taken bookings) (sum bookings) {
	var ids []string
	byVoid := false
	for _, told := range m.told {
		ours := isOf(told.Key, void.Key, told.Reference, void.Reference) || strings.HasPrefix(string(told.Key), m.voidKeys())
		if told.Provider != void.Provider || told.Status != providers.Succeeded || !ours && !told.isOf(charge) {
			continue
		}
		byVoid = byVoid || ours
		ids = append(ids, told.Reference)
		sum = sum.with(Settlement{Provider: told.Provider, Line: statement.Line{
			Kind: statement.LineRefund, Payment: told.Payment, Reference: told.Reference, Key: told.Key, Gross: -told.Money.Amount,
			Currency: told.Money.Currency, BookedAt: told.ToldAt,
		}})
	}
	if byVoid || taken.positive() && sum.money == taken.money {
		m.ended.refunds = ids
	}
	return sum
}

// isOf tells that a refund is of a charge's payment.
func (t Told) isOf(charge *Charge) bool {
	return charge.Reference != "" && t.Payment == charge.Reference || t.Key == charge.Key
}

// voidKeys is how the keys of an order's voids begin.
func (m *matcher) voidKeys() string { return m.payment.OrderID.String() + "_" + string(saga.StepVoid) }

func (m *matcher) voidGaveBack(void Void, taken, back bookings) {
	whole := m.payment.Money
	if taken.positive() && !taken.mixed {
		whole = taken.money
	}
	if finding, other := m.bookedOther(back, whole, false); other {
		finding.Detail = fmt.Sprintf("%s were given back of an order that was given up, of %s.", back.money, whole)
		m.ends(back, finding)
		return
	}
	m.ends(back, Finding{
		Kind: StatusMismatch, Severity: High, AtStake: back.money, Repair: RepairResume,
		Detail: "The provider gave the money of an order back that was given up, and the order waits for it.",
		Notice: back.notice(providers.AboutVoid, void.Key, back.last.Reference, providers.Outcome{
			Kind: providers.Succeeded, Code: providers.CodeRefunded, Money: back.money,
		}),
	})
}

// voidCameTooLate: what is settled was captured, and what was captured cannot be let go any more. It is given back.
func (m *matcher) voidCameTooLate(void Void, taken bookings) {
	if finding, other := m.bookedOther(taken, m.payment.Money, false); other {
		m.ends(taken, finding)
		return
	}
	m.ends(taken, Finding{
		Kind: StatusMismatch, Severity: Critical, AtStake: taken.money, Repair: RepairUndo,
		Detail: "The order was given up, and its payment was captured before it could be let go.",
		Notice: taken.notice(providers.AboutVoid, void.Key, void.Reference, providers.Outcome{
			Kind: providers.Rejected, Code: providers.CodeAlreadyCaptured,
		}),
	})
}
