package sandbox

import (
	"slices"
	"time"
)

// plant makes the account differ from what the caller of the API knows. No webhook tells of it.
func (a *stripeAPI) plant(d divergence) (Charge, error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.store.full() {
		return Charge{}, errDivergence("the sandbox is full")
	}
	if d.Kind == divergenceChargeWithoutOrder {
		return a.plantCharge(d)
	}
	payment := a.divergent(d)
	if payment == nil {
		return Charge{}, noneFits(d.Kind)
	}
	announce := payment.announce
	payment.announce = nil
	defer func() { payment.announce = announce }()
	switch d.Kind {
	case divergenceDuplicate:
		return a.ledgerEntry(a.dashboardPayment(payment.amount, payment.currency, payment.metadata)), nil
	case divergencePaymentLost:
		lost := a.ledgerEntry(payment)
		a.store.forget(payment)
		return lost, nil
	default:
		err := a.diverge(payment, d)
		return a.ledgerEntry(payment), err
	}
}

// diverge changes a payment. Where it cannot, nothing has changed.
func (a *stripeAPI) diverge(payment *stripePayment, d divergence) error {
	now, charge := a.server.clock.now(), payment.latestCharge()
	currency := stripeCurrencies[payment.currency]
	amount, exact := currency.units(d.Amount)
	if !exact || amount < 0 || amount > currency.maximum {
		return errDivergence("amount is not possible for this payment")
	}
	switch d.Kind {
	case divergenceRefundInDashboard:
		return a.plantRefund(charge, amount)
	case divergenceRefundLost:
		return a.store.loseRefund(charge)
	case divergenceAmountChanged:
		return payment.plantAmount(amount)
	case divergenceCurrencyChanged:
		return payment.plantCurrency(d)
	case divergenceChargeback:
		return charge.plantDispute(amount, now)
	case divergenceCaptured, divergenceVoided, divergenceExpired:
		return payment.divergeHeld(d.Kind, amount, now)
	default: // what only the settlement file tells
		return charge.settled.distort(d.Kind, amount, charge.captured, charge.fee())
	}
}

// divergeHeld ends a hold. Where it cannot, nothing has changed.
func (p *stripePayment) divergeHeld(kind divergenceKind, amount int64, now time.Time) error {
	switch {
	case kind == divergenceVoided:
		p.cancel("requested_by_customer", now)
	case kind == divergenceExpired:
		p.cancel(captureAutomatic, now)
	case amount > p.capturable:
		return errDivergence("more would be captured than is held")
	case amount == 0:
		p.take(p.latestCharge(), p.capturable, now)
	default:
		p.take(p.latestCharge(), amount, now)
	}
	return nil
}

// divergent finds the payment that a divergence names; naming none means the newest that fits.
func (a *stripeAPI) divergent(d divergence) *stripePayment {
	now := a.server.clock.now()
	for _, payment := range slices.Backward(a.store.payments) {
		if !d.names(payment.id, payment.identifier, payment.reference()) {
			continue
		}
		a.refresh(payment, now)
		if d.Kind.fits(payment.status == statusSucceeded, payment.status == statusRequiresCapture) {
			return payment
		}
	}
	return nil
}

// plantRefund is a refund that somebody made in the dashboard: no API call, no idempotency key. 0 gives back what is left.
func (a *stripeAPI) plantRefund(charge *stripeCharge, amount int64) error {
	left := charge.left()
	if amount == 0 {
		amount = left
	}
	if amount == 0 || amount > left {
		return errDivergence("amount is not refundable on this payment")
	}
	refund := a.store.addRefund(charge, amount, statusSucceeded, a.server.clock.now())
	refund.reason = "requested_by_customer"
	return nil
}

// left is what can still be given back.
func (c *stripeCharge) left() int64 {
	left := c.amount - c.refunded
	if c.dispute != nil {
		left -= c.dispute.amount
	}
	return left
}

// plantAmount makes the payment one over another amount.
func (p *stripePayment) plantAmount(amount int64) error {
	charge := p.latestCharge()
	if amount == 0 || amount < charge.refunded || charge.dispute != nil {
		return errDivergence("amount is not possible for this payment")
	}
	p.amount, p.received, charge.amount, charge.captured = amount, amount, amount, amount
	return nil
}

// plantCurrency makes the payment one in another currency, over the same number of its minor units if no other amount is given.
func (p *stripePayment) plantCurrency(d divergence) error {
	charge, code := p.latestCharge(), lowerCurrency(d.Currency)
	iso := d.Amount
	if iso == 0 {
		iso = stripeCurrencies[p.currency].iso(p.received)
	}
	currency, known := stripeCurrencies[code]
	amount, exact := currency.unitsIn(known, iso)
	if !exact || amount <= 0 || amount > currency.maximum || charge.refunded > 0 || charge.dispute != nil {
		return errDivergence("currency, or the amount in it, is not possible for this payment")
	}
	p.currency = code
	return p.plantAmount(amount)
}

// unitsIn is units, of a currency that may not be known.
func (c stripeCurrency) unitsIn(known bool, iso int64) (amount int64, ok bool) {
	if !known {
		return 0, false
	}
	return c.units(iso)
}

// plantDispute takes money back to the customer's bank. 0 takes back what is left.
func (c *stripeCharge) plantDispute(amount int64, now time.Time) error {
	if amount == 0 {
		amount = c.left()
	}
	if amount == 0 || amount > c.left() || c.dispute != nil {
		return errDivergence("amount cannot be charged back on this payment")
	}
	c.dispute = &stripeDispute{id: stripeID("dp_1"), at: now, amount: amount}
	return nil
}

func (a *stripeAPI) plantCharge(d divergence) (Charge, error) {
	code := lowerCurrency(d.Currency)
	currency, known := stripeCurrencies[code]
	amount, exact := currency.unitsIn(known, d.Amount)
	if !exact || checkAmount(amount, code) != nil {
		return Charge{}, errDivergence("amount and currency are not ones that Stripe takes")
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

// forget is what a provider's loss of data would do: nothing of the payment is there any more.
func (s *stripeStore) forget(payment *stripePayment) {
	ours := func(charge *stripeCharge) bool { return charge.payment == payment }
	for _, charge := range payment.charges {
		delete(s.chargeByID, charge.id)
		for _, refund := range charge.refunds {
			delete(s.refundByID, refund.id)
		}
	}
	s.refunds = slices.DeleteFunc(s.refunds, func(refund *stripeRefund) bool { return ours(refund.charge) })
	s.charges = slices.DeleteFunc(s.charges, ours)
	s.payments = slices.Delete(s.payments, payment.position, payment.position+1)
	for i, later := range s.payments[payment.position:] {
		later.position = payment.position + i
	}
	delete(s.paymentByID, payment.id)
	marks := payment.metadata
	payment.metadata = nil
	s.index(payment, marks)
	payment.metadata = marks
}

// loseRefund forgets the newest refund of a charge.
func (s *stripeStore) loseRefund(charge *stripeCharge) error {
	for i, refund := range slices.Backward(charge.refunds) {
		if refund.status != statusSucceeded && refund.status != statusPending {
			continue
		}
		charge.refunded -= refund.amount
		charge.refunds = slices.Delete(charge.refunds, i, i+1)
		s.refunds = slices.DeleteFunc(s.refunds, func(each *stripeRefund) bool { return each == refund })
		delete(s.refundByID, refund.id)
		return nil
	}
	return errDivergence("the payment has no refund")
}
