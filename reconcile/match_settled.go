package reconcile

import (
	"fmt"

	"paysaga/providers"
	"paysaga/reconcile/statement"
	"paysaga/saga"
)

// settled holds the lines of settlement files against the payment.
func (m *matcher) settled() {
	var charged, disputed int64
	for _, line := range m.pair.Settled {
		switch line.Kind {
		case statement.LineCharge:
			charged += line.customers().Amount
			m.settledCharge(line)
		case statement.LineChargeback:
			disputed += line.Gross
			m.chargeback(line, disputed)
		case statement.LineRefund: // as a refund that the provider lists
		default:
			continue
		}
		m.netAndFee(line)
	}
	if p := m.payment; p.State == saga.Completed && charged > p.Captured && !m.foundKind(AmountMismatch) && !m.foundKind(DuplicateCharge) {
		m.add(Finding{
			Kind: AmountMismatch, Severity: Critical, AtStake: m.money(charged - p.Captured), Repair: RepairReview,
			Detail: fmt.Sprintf("%s are captured here, %s are settled.", m.money(p.Captured), m.money(charged)),
			There:  Facts{Source: sourceStatement, Captured: charged, Currency: p.Money.Currency},
		})
	}
}

func (m *matcher) foundKind(kind Kind) bool {
	for _, f := range m.found {
		if f.Kind == kind {
			return true
		}
	}
	return false
}

// settledCharge: a payment that is captured at once is settled at once, over the same amount.
func (m *matcher) settledCharge(line Settlement) {
	p, money := m.payment, line.customers()
	if p.State != saga.Completed {
		return
	}
	finding := Finding{
		Severity: Critical, Provider: line.Provider, Reference: line.reference(), Repair: RepairReview, There: line.facts(),
	}
	switch {
	case money.Currency != p.Money.Currency:
		finding.Kind, finding.AtStake = CurrencyMismatch, m.money(p.Captured)
		finding.Detail = fmt.Sprintf("The order is in %s, it is settled in %s.", p.Money.Currency, money.Currency)
	case p.Capture != saga.CaptureManual && money.Amount < p.Captured:
		finding.Kind, finding.AtStake = AmountMismatch, m.money(p.Captured-money.Amount)
		finding.Detail = fmt.Sprintf("%s are captured here, %s are settled.", m.money(p.Captured), money)
	default:
		return
	}
	if !m.foundKind(finding.Kind) {
		m.add(finding)
	}
}

func (m *matcher) chargeback(line Settlement, disputed int64) {
	if disputed >= 0 { // it was won
		kept := m.found[:0]
		for _, f := range m.found {
			if f.Kind != Chargeback {
				kept = append(kept, f)
			}
		}
		m.found = kept
		return
	}
	m.add(Finding{
		Kind: Chargeback, Severity: High, Provider: line.Provider, Reference: line.reference(),
		AtStake: providers.Money{Amount: abs(line.Gross), Currency: line.Currency}, There: line.facts(),
		Detail: "The customer's bank has taken the money back.",
	})
}

// netAndFee: a line is its gross less its fee, and the fee is the one that the provider told.
func (m *matcher) netAndFee(line Settlement) {
	if line.Net != line.Gross-line.Fee {
		m.add(Finding{
			Kind: NetMismatch, Severity: High, Provider: line.Provider, Reference: line.reference(),
			AtStake: providers.Money{Amount: abs(line.Gross - line.Fee - line.Net), Currency: line.Currency}, There: line.facts(),
			Detail: "A settled net is not its gross less its fee.",
		})
	}
	for _, told := range m.pair.There {
		same := told.Provider == line.Provider && told.FeeCurrency == line.Currency && told.FeeCurrency != "" &&
			(told.Reference == line.Reference && line.Reference != "" || told.Kind == providers.TransactionPayment &&
				line.Kind == statement.LineCharge && told.Reference == line.Payment)
		if same && told.Fee != line.Fee {
			m.add(Finding{
				Kind: FeeMismatch, Severity: High, Provider: line.Provider, Reference: line.reference(),
				AtStake: providers.Money{Amount: abs(told.Fee - line.Fee), Currency: line.Currency}, There: line.facts(),
				Detail: fmt.Sprintf("The provider told a fee of %s and settled %s.",
					providers.Money{Amount: told.Fee, Currency: line.Currency}, providers.Money{Amount: line.Fee, Currency: line.Currency}),
			})
		}
	}
}

func (s Settlement) reference() string {
	if s.Reference != "" {
		return s.Reference
	}
	return s.Payment
}

func (s Settlement) facts() Facts {
	return Facts{
		Source: sourceStatement, Status: string(s.Kind), Amount: s.Gross, Currency: s.Currency, Fee: s.Fee, Net: s.Net,
		References: []string{s.reference()}, Keys: keysOf(s.Key), At: s.BookedAt,
	}
}

func keysOf(key providers.SubKey) []string {
	if key == "" {
		return nil
	}
	return []string{string(key)}
}
