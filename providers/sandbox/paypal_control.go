package sandbox

import (
	"fmt"
	"slices"
	"time"
)

// charges is the ledger: one entry for each order.
func (a *paypalAPI) charges() []Charge {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.refresh(a.server.clock.now())
	charges := make([]Charge, 0, len(a.store.orders))
	for _, order := range a.store.orders {
		charges = append(charges, a.ledgerEntry(order))
	}
	return charges
}

// ledgerEntry shows the status of the money: that of the capture, else of the authorization, else of the order.
func (a *paypalAPI) ledgerEntry(order *paypalOrder) Charge {
	currency := paypalCurrencies[order.currency]
	entry := Charge{
		Provider: paypalName, ID: order.id, Identifier: order.identifier, Reference: order.reference(), Currency: order.currency,
		Amount: currency.toISO(order.amount), Status: order.status,
	}
	if order.authorization != nil {
		entry.Status = order.authorization.status
		entry.Authorized = currency.toISO(order.authorization.left())
	}
	for _, capture := range order.captures {
		entry.Status = capture.status
		if capture.taken() {
			entry.Captured += currency.toISO(capture.amount)
			entry.Refunded += currency.toISO(capture.refunded)
		}
	}
	if order.identifier != "" {
		entry.Calls = a.server.calls.count(callKey{provider: paypalName, identifier: order.identifier})
	}
	return entry
}

// actOnPayment plays the payer (approve, refuse) or PayPal's review (settle, fail). The id is that of the order, of its
// authorization or of its capture.
func (a *paypalAPI) actOnPayment(id string, action action) (found bool, err error) {
	now := a.server.clock.now()
	a.mu.Lock()
	defer a.mu.Unlock()
	a.refresh(now)
	order := a.store.orderOf(id)
	if order == nil {
		return false, nil
	}
	possible := order.approvable()
	switch action {
	case actionApprove:
		if possible {
			a.approve(order, now)
		}
	case actionRefuse: // nothing changes at PayPal
	case actionSettle, actionFail:
		possible = a.review(order, action == actionSettle, now)
	}
	if !possible {
		return true, fmt.Errorf("%w: cannot %s an order that is %s", errControl, action, a.ledgerEntry(order).Status)
	}
	return true, nil
}

// review ends what PayPal looks into; false when it looks into nothing.
func (a *paypalAPI) review(order *paypalOrder, passed bool, now time.Time) bool {
	if capture := order.paid(); capture != nil && capture.status == paypalPending {
		status := paypalDeclined
		if passed {
			status = paypalCompleted
		}
		a.concludeCapture(capture, status, "", now)
		return true
	}
	if order.authorization == nil || order.authorization.status != paypalPending {
		return false
	}
	a.endReview(order.authorization, passed, now)
	return true
}

func (a *paypalAPI) endReview(authorization *paypalAuthorization, passed bool, now time.Time) {
	if passed {
		authorization.become(paypalCreated, now)
		a.announceAuthorization(authorization, "PAYMENT.AUTHORIZATION.CREATED")
		return
	}
	authorization.become(paypalDenied, now)
	a.announceAuthorization(authorization, "PAYMENT.AUTHORIZATION.DENIED")
}

func (a *paypalAPI) actOnRefund(id string, action action) (found bool, err error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	refund, known := a.store.refundByID[id]
	if !known {
		return false, nil
	}
	possible := refund.status == paypalPending || (action == actionFail && refund.status == paypalCompleted)
	if !possible {
		return true, fmt.Errorf("%w: cannot %s a refund that is %s", errControl, action, refund.status)
	}
	status := paypalCompleted
	if action == actionFail {
		status = paypalFailed
	}
	a.concludeRefund(refund, status, a.server.clock.now())
	return true, nil
}

// plant makes the account differ from what the caller of the API knows. No webhook tells of it.
func (a *paypalAPI) plant(d divergence) (Charge, error) {
	now := a.server.clock.now()
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.store.full() {
		return Charge{}, fmt.Errorf("%w: the sandbox is full", errControl)
	}
	if d.Kind == divergenceChargeWithoutOrder {
		return a.plantCharge(d, now)
	}
	order := a.divergent(d)
	if order == nil {
		return Charge{}, fmt.Errorf("%w: no captured payment has this id, identifier or reference", errControl)
	}
	capture := order.paid()
	if d.Kind == divergenceDuplicate {
		twin := &paypalOrder{amount: capture.amount, currency: order.currency, customID: order.customID, invoiceID: order.invoiceID}
		return a.ledgerEntry(a.dashboardPayment(twin, now)), nil
	}
	if err := a.diverge(capture, d, now); err != nil {
		return Charge{}, err
	}
	return a.ledgerEntry(order), nil
}

// diverge plants a refund, 0 giving back what is left, or another amount.
func (a *paypalAPI) diverge(capture *paypalCapture, d divergence, now time.Time) error {
	amount, exact := paypalCurrencies[capture.order.currency].fromISO(d.Amount)
	left := capture.amount - capture.refunded
	refund := d.Kind == divergenceRefundInDashboard
	if refund && d.Amount == 0 {
		amount = left
	}
	switch {
	case !exact || amount <= 0 || amount > maxPayPalAmount:
		return fmt.Errorf("%w: amount is not possible for this payment", errControl)
	case refund && amount > left, !refund && amount < capture.refunded:
		return fmt.Errorf("%w: more would be refunded than captured", errControl)
	case refund:
		a.addRefund(capture, amount, now)
	default: // another amount
		capture.order.amount, capture.amount = amount, amount
	}
	return nil
}

func (a *paypalAPI) plantCharge(d divergence, now time.Time) (Charge, error) {
	currency, known := paypalCurrencies[d.Currency]
	if !known {
		return Charge{}, fmt.Errorf("%w: currency %q is not one that PayPal takes", errControl, d.Currency)
	}
	amount, exact := currency.fromISO(d.Amount)
	if !exact || amount <= 0 || amount > maxPayPalAmount {
		return Charge{}, fmt.Errorf("%w: amount is not one that PayPal takes in %s", errControl, d.Currency)
	}
	return a.ledgerEntry(a.dashboardPayment(&paypalOrder{amount: amount, currency: d.Currency, customID: d.Reference}, now)), nil
}

// divergent finds the order that a divergence names; naming none means the newest captured one.
func (a *paypalAPI) divergent(d divergence) *paypalOrder {
	named := a.store.orderOf(d.ID)
	for _, order := range slices.Backward(a.store.orders) {
		fits := (d.ID == "" || order == named) && (d.Identifier == "" || order.identifier == d.Identifier) &&
			(d.Reference == "" || order.reference() == d.Reference)
		if fits && order.paid() != nil && order.paid().taken() {
			return order
		}
	}
	return nil
}

// dashboardPayment is a captured payment that no API call made.
func (a *paypalAPI) dashboardPayment(order *paypalOrder, now time.Time) *paypalOrder {
	order.id, order.created, order.intent = paypalID(), now, intentCapture
	order.become(paypalCompleted, now)
	a.store.orders = append(a.store.orders, order)
	a.store.orderByID[order.id] = order
	capture := a.addCapture(order, order.amount, now)
	capture.status, capture.changed, capture.final, capture.invoiceID = paypalCompleted, now, true, order.invoiceID
	return order
}
