package sandbox

import (
	"net/http"
	"time"
)

func checkRefund(c stripeCall) *stripeError {
	intent, charge := c.params.text(objectPaymentIntent), c.params.text(objectCharge)
	switch {
	case intent == "" && charge == "":
		return invalid("parameter_missing", objectCharge, "One of the following params should be provided for this request: "+
			"payment_intent or charge.")
	case intent != "" && charge != "":
		return invalid("parameters_exclusive", objectCharge, "You may only specify one of these parameters: charge, payment_intent.")
	}
	_, refusal := (metadata{}).merge(c.params.metadata())
	return refusal
}

func (a *stripeAPI) createRefund(c stripeCall) (any, *stripeError) {
	if a.store.full() {
		return nil, storeFull()
	}
	charge, refusal := a.chargeToRefund(c)
	if refusal != nil {
		return nil, refusal
	}
	currency := stripeCurrencies[charge.payment.currency]
	left := charge.amount - charge.refunded
	amount, partial := c.params.integer(paramAmount)
	if !partial {
		amount = left
	}
	switch {
	case charge.dispute != nil:
		return nil, invalid("charge_disputed", "", "Charge %s has been charged back; cannot issue a refund.", charge.id)
	case left == 0:
		return nil, invalid("charge_already_refunded", "", "Charge %s has already been refunded.", charge.id)
	case amount > left && charge.refunded == 0:
		return nil, invalid("", paramAmount, "Refund amount (%s) is greater than charge amount (%s)",
			currency.show(amount, charge.payment.currency), currency.show(left, charge.payment.currency))
	case amount > left:
		return nil, invalid("", paramAmount, "Refund amount (%s) is greater than unrefunded amount on charge (%s)",
			currency.show(amount, charge.payment.currency), currency.show(left, charge.payment.currency))
	case amount%currency.multipleOf != 0:
		return nil, invalid("parameter_invalid_integer", paramAmount, "Amounts in %s must be a multiple of %d.",
			charge.payment.currency, currency.multipleOf)
	}
	status := statusSucceeded
	if charge.method.refund != "" {
		status = charge.method.refund
	}
	refund := a.store.addRefund(charge, amount, status, c.now)
	refund.reason = c.params.text("reason")
	refund.metadata, _ = refund.metadata.merge(c.params.metadata()) // its size was checked before
	a.announceRefund(refund, true)
	return refund.object(c.expand), nil
}

// chargeToRefund finds the charge whose money was taken.
func (a *stripeAPI) chargeToRefund(c stripeCall) (*stripeCharge, *stripeError) {
	if id := c.params.text(objectPaymentIntent); id != "" {
		payment, known := a.store.paymentByID[id]
		if !known {
			return nil, bodyObjectMissing(objectPaymentIntent, id, objectPaymentIntent)
		}
		a.refresh(payment, c.now)
		charge := payment.latestCharge()
		if charge == nil || charge.captured == 0 {
			return nil, invalid("", objectPaymentIntent, "This PaymentIntent (%s) does not have a successful charge to refund.", id)
		}
		return charge, nil
	}
	id := c.params.text(objectCharge)
	charge, known := a.store.chargeByID[id]
	if !known {
		return nil, bodyObjectMissing(objectCharge, id, objectCharge)
	}
	a.refresh(charge.payment, c.now)
	if charge.captured == 0 {
		return nil, invalid("", objectCharge, "Charge %s was not captured; the sandbox refunds captured charges only. Cancel the "+
			"PaymentIntent instead.", id)
	}
	return charge, nil
}

// bodyObjectMissing is resource_missing for the object that a call is about though its id is a parameter: a 404.
func bodyObjectMissing(kind, id, param string) *stripeError {
	refusal := missingObject(kind, id, param)
	refusal.status = http.StatusNotFound
	return refusal
}

func (a *stripeAPI) retrieveRefund(c stripeCall) (any, *stripeError) {
	refund, known := a.store.refundByID[c.id]
	if !known {
		return nil, missingObject(objectRefund, c.id, "id")
	}
	return refund.object(c.expand), nil
}

func (a *stripeAPI) retrieveCharge(c stripeCall) (any, *stripeError) {
	charge, known := a.store.chargeByID[c.id]
	if !known {
		return nil, missingObject(objectCharge, c.id, "id")
	}
	a.refresh(charge.payment, c.now)
	return charge.object(c.expand), nil
}

// conclude ends a refund that is pending, or lets one fail that had succeeded: banks send money back for 30 days.
func (r *stripeRefund) conclude(succeeded bool, now time.Time) {
	if succeeded {
		r.status = statusSucceeded
		return
	}
	r.status, r.failure, r.failed = statusFailed, "expired_or_canceled_card", now
	r.charge.refunded -= r.amount
}
