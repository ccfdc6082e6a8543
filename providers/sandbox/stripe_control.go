package sandbox

import (
	"fmt"
	"slices"
)

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
	refund.conclude(action == actionSettle)
	a.announceRefund(refund, false)
	return true, nil
}

// plant makes the account differ from what the caller of the API knows.
func (a *stripeAPI) plant(d divergence) (Charge, error) {
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
	var err error
	switch d.Kind {
	case divergenceDuplicate:
		payment = a.dashboardPayment(payment.amount, payment.currency, payment.metadata)
	case divergenceRefundInDashboard:
		err = a.plantRefund(payment, d.Amount)
	case divergenceAmountChanged:
		err = payment.plantAmount(d.Amount)
	default: // made above
	}
	if err != nil {
		return Charge{}, err
	}
	return a.ledgerEntry(payment), nil
}

// plantRefund is a refund that somebody made in the dashboard: no API call, no idempotency key. 0 gives back what is left.
func (a *stripeAPI) plantRefund(payment *stripePayment, iso int64) error {
	charge := payment.latestCharge()
	left := charge.amount - charge.refunded
	amount, exact := stripeCurrencies[payment.currency].units(iso)
	if iso == 0 {
		amount, exact = left, true
	}
	if !exact || amount <= 0 || amount > left {
		return fmt.Errorf("%w: amount is not refundable on this payment", errControl)
	}
	refund := a.store.addRefund(charge, amount, statusSucceeded, a.server.clock.now())
	refund.reason = "requested_by_customer"
	return nil
}

// plantAmount makes the payment one over another amount.
func (p *stripePayment) plantAmount(iso int64) error {
	currency := stripeCurrencies[p.currency]
	charge := p.latestCharge()
	amount, exact := currency.units(iso)
	if !exact || amount <= 0 || amount < charge.refunded || amount > currency.maximum {
		return fmt.Errorf("%w: amount is not possible for this payment", errControl)
	}
	p.amount, p.received, charge.amount, charge.captured = amount, amount, amount, amount
	return nil
}

// divergent finds the payment that a divergence names; naming none means the newest captured one.
func (a *stripeAPI) divergent(d divergence) *stripePayment {
	for _, payment := range slices.Backward(a.store.payments) {
		named := (d.ID == "" || payment.id == d.ID) && (d.Identifier == "" || payment.identifier == d.Identifier) &&
			(d.Reference == "" || payment.reference() == d.Reference)
		if named && payment.status == statusSucceeded {
			return payment
		}
	}
	return nil
}

func (a *stripeAPI) plantCharge(d divergence) (Charge, error) {
	code := lowerCurrency(d.Currency)
	currency, known := stripeCurrencies[code]
	if !known {
		return Charge{}, fmt.Errorf("%w: currency %q is not one that Stripe takes", errControl, d.Currency)
	}
	amount, exact := currency.units(d.Amount)
	if !exact || checkAmount(amount, code) != nil {
		return Charge{}, fmt.Errorf("%w: amount is not one that Stripe takes in %s", errControl, d.Currency)
	}
	labels := metadata{}
	if d.Reference != "" {
		labels["saga_key"] = d.Reference
	}
	return a.ledgerEntry(a.dashboardPayment(amount, code, labels)), nil
}

// dashboardPayment is a captured payment that no API call made.
func (a *stripeAPI) dashboardPayment(amount int64, currency string, labels metadata) *stripePayment {
	now := a.server.clock.now()
	payment := &stripePayment{
		id: stripeID("pi_3"), created: now, amount: amount, currency: currency, captureMethod: captureAutomatic,
		confirmationMethod: captureAutomatic,
		methodTypes:        []string{typeCard}, metadata: labels,
		method: &attachedMethod{stripeMethod: stripeMethods["pm_card_visa"], id: stripeID("pm_1"), created: now.Unix()},
	}
	payment.clientSecret = payment.id + "_secret_" + randomText(25)
	a.store.addPayment(payment)
	payment.take(a.store.addCharge(payment, now), amount, now)
	return payment
}
