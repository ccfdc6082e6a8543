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
		Refunded: currency.toISO(p.refunded), ChargedBack: currency.toISO(p.chargedBack()),
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
			p.unsettle(m.psp, a.server.clock.now())
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
		m.payment.book(adyenBooking{
			kind: journalRefundReversed, psp: m.psp, reference: m.reference, at: a.server.clock.now(), amount: m.amount.Value,
		})
		m.success = false
		a.announceModification(m, "REFUND_FAILED", true, "Refund Failed")
	default:
		m.settled = true
		a.announceModification(m, eventRefund, false, "Refund Failed")
	}
	return nil
}
