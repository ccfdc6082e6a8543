package sandbox

import "fmt"

// charges is the ledger.
func (a *stripeAPI) charges() []Charge {
	now := a.server.clock.now()
	a.mu.Lock()
	defer a.mu.Unlock()
	charges := make([]Charge, 0, len(a.store.payments))
	for _, payment := range a.store.payments {
		a.refresh(payment, now)
		charges = append(charges, a.ledgerEntry(payment))
	}
	return charges
}

// settleDue lets happen to every payment what time brings.
func (a *stripeAPI) settleDue() { _ = a.charges() }

func (a *stripeAPI) settleOne(payment *stripePayment) {
	now := a.server.clock.now()
	a.mu.Lock()
	defer a.mu.Unlock()
	a.refresh(payment, now)
}

func (a *stripeAPI) ledgerEntry(payment *stripePayment) Charge {
	calls := 0
	if payment.identifier != "" {
		calls = a.server.calls.count(callKey{provider: stripeName, identifier: payment.identifier})
	}
	return payment.ledgerEntry(calls)
}

func (a *stripeAPI) actOnPayment(id string, action action) (found bool, err error) {
	now := a.server.clock.now()
	a.mu.Lock()
	defer a.mu.Unlock()
	payment, known := a.store.paymentByID[id]
	if !known {
		return false, nil
	}
	a.refresh(payment, now)
	wanted := statusProcessing
	if action == actionApprove || action == actionRefuse {
		wanted = statusRequiresAction
	}
	if payment.status != wanted {
		return true, fmt.Errorf("%w: cannot %s a payment that is %s; it must be %s", errControl, action, payment.status, wanted)
	}
	switch action {
	case actionApprove, actionRefuse:
		a.authenticate(payment, action == actionApprove, now)
	case actionSettle, actionFail:
		a.concludeDebit(payment, action == actionSettle, now)
	}
	return true, nil
}

func (a *stripeAPI) actOnRefund(id string, action action) (found bool, err error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	refund, known := a.store.refundByID[id]
	if !known {
		return false, nil
	}
	possible := refund.status == statusPending || (action == actionFail && refund.status == statusSucceeded)
	if !possible {
		return true, fmt.Errorf("%w: cannot %s a refund that is %s", errControl, action, refund.status)
	}
	refund.conclude(action == actionSettle, a.server.clock.now())
	a.announceRefund(refund, false)
	return true, nil
}
