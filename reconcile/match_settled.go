package reconcile

import (
	"fmt"
	"slices"

	"paysaga/providers"
	"paysaga/reconcile/statement"
	"paysaga/saga"
)

// settledLines holds each line of the settlement files against itself, and against what the provider had told.
func (m *matcher) settledLines() verdict {
	var disputed int64
	for _, line := range m.lines {
		switch line.Kind {
		case statement.LineCharge, statement.LineRefund:
		case statement.LineChargeback:
			disputed = plus(disputed, line.Gross)
			m.chargeback(line, disputed)
		default:
			continue
		}
		m.netAndFee(line)
	}
	return judged
}

// isAnothers tells that a line is about another payment than the one that the order knows, such as a second one that was given back since:
// what is kept of that is a finding of its own.
func (m *matcher) isAnothers(line Settlement) bool {
	g, known := find(m.there, line.Provider, line.Payment, line.Reference), m.known()
	return g != nil && known != nil && g != known
}

func (m *matcher) foundKind(kind Kind) bool {
	return slices.ContainsFunc(m.found, func(f Finding) bool { return f.Kind == kind })
}

// settledCharges: what is captured is settled. What was captured at once is settled at once; of several captures some may be settled
// later.
func (m *matcher) settledCharges() verdict {
	charges := slices.DeleteFunc(slices.Clone(m.pair.Settled), func(line Settlement) bool {
		return line.Kind != statement.LineCharge || m.isAnothers(line)
	})
	switch {
	case m.payment.Busy:
		return unjudged
	case len(charges) == 0, m.payment.State == saga.RolledBack: // what is settled of that is judged with its payment
		return judged
	case m.payment.State != saga.Completed, m.foundKind(AmountMismatch), m.foundKind(DuplicateCharge):
		return unjudged
	}
	m.compareSettled(charges)
	return judged
}

func (m *matcher) compareSettled(charges []Settlement) {
	p, first := m.payment, charges[0]
	var sum int64
	finding := Finding{Severity: Critical, Provider: first.Provider, Reference: first.reference(), Repair: RepairReview, There: first.facts()}
	for _, line := range charges {
		money := line.customers()
		if money.Currency != p.Money.Currency {
			finding.Kind, finding.AtStake = CurrencyMismatch, m.money(p.Captured)
			finding.Detail = fmt.Sprintf("The order is in %s, it is settled in %s.", p.Money.Currency, money.Currency)
			if !m.foundKind(CurrencyMismatch) {
				m.add(finding)
			}
			return
		}
		sum = plus(sum, money.Amount)
	}
	if sum == p.Captured || sum < p.Captured && p.Capture == saga.CaptureManual {
		return
	}
	finding.Kind, finding.AtStake = AmountMismatch, m.money(abs(plus(sum, -p.Captured)))
	finding.Detail = fmt.Sprintf("%s are captured here, %s are settled.", m.money(p.Captured), m.money(sum))
	finding.There.Captured = sum
	m.add(finding)
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
			AtStake: providers.Money{Amount: abs(plus(plus(line.Gross, -line.Fee), -line.Net)), Currency: line.Currency}, There: line.facts(),
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
				AtStake: providers.Money{Amount: abs(plus(told.Fee, -line.Fee)), Currency: line.Currency}, There: line.facts(),
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
