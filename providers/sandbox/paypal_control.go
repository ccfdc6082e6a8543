package sandbox

import (
	"fmt"
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
			entry.ChargedBack += currency.toISO(capture.chargeback.amount)
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
