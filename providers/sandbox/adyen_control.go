package sandbox

import (
	"fmt"
	"slices"
	"time"
)

// charges is the ledger.
func (a *adyenAPI) charges() []Charge {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.refresh(a.server.clock.now())
	charges := make([]Charge, 0, len(a.store.payments))
	for _, payment := range a.store.payments {
		charges = append(charges, a.ledgerEntry(payment))
	}
	return charges
}

func (a *adyenAPI) ledgerEntry(p *adyenPayment) Charge {
	currency := adyenCurrencies[p.currency]
	entry := Charge{
		Provider: adyenName, ID: p.psp, Identifier: p.identifier, Reference: p.reference, Amount: currency.toISO(p.amount),
		Currency: p.currency, Status: p.status, Authorized: currency.toISO(p.held), Captured: currency.toISO(p.captured),
		Refunded: currency.toISO(p.refunded),
	}
	if p.identifier != "" {
		entry.Calls = a.server.calls.count(callKey{provider: adyenName, identifier: p.identifier})
	}
	return entry
}

// actOnPayment plays the customer (approve, refuse) or the bank. For a payment that is Received, settle and fail end it; for
// one with modifications that wait, they settle those.
func (a *adyenAPI) actOnPayment(id string, action action) (found bool, err error) {
	now := a.server.clock.now()
	a.mu.Lock()
	defer a.mu.Unlock()
	payment, known := a.store.paymentByPSP[id]
	if !known {
		return false, nil
	}
	a.refresh(now)
	switch {
	case payment.status == resultRedirect && (action == actionApprove || action == actionRefuse):
		a.authenticate(payment, action == actionApprove, now)
		return true, nil
	case payment.status == resultReceived && (action == actionSettle || action == actionFail):
		a.endReceived(payment, action == actionSettle, now)
		return true, nil
	case action == actionSettle && a.settleOpen(payment):
		return true, nil
	case action == actionFail && payment.captured > 0:
		return true, a.failCapture(payment)
	}
	return true, fmt.Errorf("%w: cannot %s a payment that is %s", errControl, action, payment.status)
}

func (a *adyenAPI) endReceived(p *adyenPayment, paid bool, now time.Time) {
	code := adyenCodes["DECLINED"]
	if paid {
		code = adyenCodes[codeApproved]
	}
	a.conclude(p, code, now)
}

// settleOpen does all that waits for a payment.
func (a *adyenAPI) settleOpen(p *adyenPayment) (done bool) {
	now := a.server.clock.now()
	a.store.open = slices.DeleteFunc(a.store.open, func(m *adyenModification) bool {
		if m.payment == p && !m.settled {
			a.settle(m, now)
			done = true
		}
		return m.settled
	})
	return done
}

// failCapture lets the last capture that succeeded fail after all, as schemes do days later.
func (a *adyenAPI) failCapture(p *adyenPayment) error {
	for _, m := range slices.Backward(a.store.modifications) {
		if m.payment == p && m.event == eventCapture && m.success && p.captured-p.refunded >= m.amount.Value {
			p.captured -= m.amount.Value
			m.success = false
			a.announceModification(m, "CAPTURE_FAILED", true, "Capture Failed")
			return nil
		}
	}
	return fmt.Errorf("%w: the payment has no capture of its own that could fail", errControl)
}

// actOnRefund settles a refund that waits, or lets one fail, also one that had succeeded.
func (a *adyenAPI) actOnRefund(id string, action action) (found bool, err error) {
	now := a.server.clock.now()
	a.mu.Lock()
	defer a.mu.Unlock()
	refund, known := a.store.modificationOf[id]
	if !known || refund.event != eventRefund {
		return false, nil
	}
	a.refresh(now)
	if action == actionFail {
		return true, a.failRefund(refund)
	}
	if !refund.settled {
		a.settle(refund, now)
	}
	return true, nil
}

func (a *adyenAPI) failRefund(m *adyenModification) error {
	switch {
	case m.settled && !m.success:
		return fmt.Errorf("%w: the refund has failed already", errControl)
	case m.settled:
		m.payment.refunded -= m.amount.Value
		m.success = false
		a.announceModification(m, "REFUND_FAILED", true, "Refund Failed")
	default:
		m.settled = true
		a.announceModification(m, eventRefund, false, "Refund Failed")
	}
	return nil
}

// plant makes the account differ from what the caller of the API knows. No webhook tells of it.
func (a *adyenAPI) plant(d divergence) (Charge, error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.store.full() {
		return Charge{}, fmt.Errorf("%w: the sandbox is full", errControl)
	}
	if d.Kind == divergenceChargeWithoutOrder {
		return a.plantCharge(d)
	}
	payment := a.divergent(d)
	if payment == nil {
		return Charge{}, fmt.Errorf("%w: no captured payment has this id, identifier or reference", errControl)
	}
	if d.Kind == divergenceDuplicate {
		return a.ledgerEntry(a.dashboardPayment(payment.amount, payment.currency, payment.reference)), nil
	}
	if err := payment.diverge(d); err != nil {
		return Charge{}, err
	}
	return a.ledgerEntry(payment), nil
}

// diverge plants a refund, 0 giving back what is left, or another amount.
func (p *adyenPayment) diverge(d divergence) error {
	amount, exact := adyenCurrencies[p.currency].fromISO(d.Amount)
	if d.Kind == divergenceRefundInDashboard && d.Amount == 0 {
		amount = p.captured - p.refunded
	}
	switch {
	case !exact || amount <= 0:
		return fmt.Errorf("%w: amount is not possible for this payment", errControl)
	case d.Kind == divergenceRefundInDashboard:
		if reason := p.giveBack(amount); reason != "" {
			return fmt.Errorf("%w: %s", errControl, reason)
		}
	case amount < p.refunded:
		return fmt.Errorf("%w: more than the amount was refunded", errControl)
	default: // another amount
		p.amount, p.captured = amount, amount
	}
	return nil
}

func (a *adyenAPI) plantCharge(d divergence) (Charge, error) {
	currency, known := adyenCurrencies[d.Currency]
	amount, exact := currency.fromISO(d.Amount)
	if !known || !exact || checkAdyenAmount(&adyenAmount{Currency: d.Currency, Value: amount}) != nil {
		return Charge{}, fmt.Errorf("%w: amount and currency are not ones that Adyen takes", errControl)
	}
	return a.ledgerEntry(a.dashboardPayment(amount, d.Currency, d.Reference)), nil
}

// divergent finds the payment that a divergence names; naming none means the newest captured one.
func (a *adyenAPI) divergent(d divergence) *adyenPayment {
	a.refresh(a.server.clock.now())
	for _, payment := range slices.Backward(a.store.payments) {
		named := (d.ID == "" || payment.psp == d.ID) && (d.Identifier == "" || payment.identifier == d.Identifier) &&
			(d.Reference == "" || payment.reference == d.Reference)
		if named && payment.captured > 0 {
			return payment
		}
	}
	return nil
}

// dashboardPayment is a captured payment that no API call made.
func (a *adyenAPI) dashboardPayment(amount int64, currency, reference string) *adyenPayment {
	now := a.server.clock.now()
	payment := &adyenPayment{
		psp: adyenReference(), reference: reference, merchant: a.merchant, created: now, amount: amount, captured: amount,
		currency: currency, code: adyenCodes[codeApproved],
	}
	payment.become(resultAuthorised, now)
	a.store.addPayment(payment)
	return payment
}
