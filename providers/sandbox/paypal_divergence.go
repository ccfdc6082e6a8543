package sandbox

import (
	"encoding/json"
	"slices"
	"time"
)

// plant makes the account differ from what the caller of the API knows. No webhook tells of it.
func (a *paypalAPI) plant(d divergence) (Charge, error) {
	now := a.server.clock.now()
	a.mu.Lock()
	defer a.mu.Unlock()
	a.refresh(now)
	if a.store.full() {
		return Charge{}, errDivergence("the sandbox is full")
	}
	if d.Kind == divergenceChargeWithoutOrder {
		return a.plantCharge(d, now)
	}
	order := a.divergent(d)
	if order == nil {
		return Charge{}, noneFits(d.Kind)
	}
	amount, exact := paypalCurrencies[order.currency].fromISO(d.Amount)
	if !exact || amount < 0 || amount > maxPayPalAmount {
		return Charge{}, errDivergence("amount is not possible for this payment")
	}
	switch {
	case d.Kind == divergenceDuplicate:
		twin := &paypalOrder{amount: order.paid().amount, currency: order.currency, customID: order.customID, invoiceID: order.invoiceID}
		return a.ledgerEntry(a.dashboardPayment(twin, now)), nil
	case d.Kind == divergencePaymentLost:
		lost := a.ledgerEntry(order)
		a.store.forget(order)
		return lost, nil
	case d.Kind.ofHeld():
		err := a.divergeHeld(order.authorization, d.Kind, amount, now)
		return a.ledgerEntry(order), err
	default:
		err := a.diverge(order.paid(), d, amount, now)
		return a.ledgerEntry(order), err
	}
}

// divergeHeld ends a hold. Where it cannot, nothing has changed.
func (a *paypalAPI) divergeHeld(held *paypalAuthorization, kind divergenceKind, amount int64, now time.Time) error {
	switch kind {
	case divergenceVoided:
		held.become(paypalVoided, now)
	case divergenceExpired:
		held.expires = now
		held.become(paypalVoided, now)
	default:
		if amount == 0 {
			amount = held.left()
		}
		if amount > held.left() {
			return errDivergence("more would be captured than is held")
		}
		capture := a.addCapture(held.order, amount, now)
		capture.authorization = held
		capture.complete(held.order.invoiceID, now)
		held.captured += amount
		held.become(paypalCaptured, now)
	}
	return nil
}

// complete is a capture that nobody's call made.
func (c *paypalCapture) complete(invoiceID string, now time.Time) {
	c.status, c.changed, c.booked, c.final, c.invoiceID = paypalCompleted, now, now, true, invoiceID
}

// diverge changes a capture. Where it cannot, nothing has changed.
func (a *paypalAPI) diverge(capture *paypalCapture, d divergence, amount int64, now time.Time) error {
	switch d.Kind {
	case divergenceRefundInDashboard, divergenceChargeback:
		return a.takeBack(capture, d.Kind, amount, now)
	case divergenceRefundLost:
		return a.store.loseRefund(capture, now)
	case divergenceAmountChanged:
		return capture.plantAmount(amount)
	case divergenceCurrencyChanged:
		return capture.plantCurrency(d)
	case divergenceNet:
		return errDivergence("PayPal's settlement report tells no net")
	default: // what only the settlement file tells
		return capture.settled.distort(d.Kind, amount, capture.amount, paypalFees.of(capture.amount))
	}
}

// takeBack gives money back, or lets the customer's bank take it, once. 0 is all that is left.
func (a *paypalAPI) takeBack(capture *paypalCapture, kind divergenceKind, amount int64, now time.Time) error {
	if amount == 0 {
		amount = capture.left()
	}
	switch {
	case amount == 0 || amount > capture.left():
		return errDivergence("more would be given back than was captured")
	case kind == divergenceRefundInDashboard:
		a.addRefund(capture, amount, now).booked = now
	case capture.chargeback.amount > 0:
		return errDivergence("the payment was charged back before")
	default:
		capture.chargeback = paypalChargeback{id: paypalID(), feeID: paypalID(), at: now, amount: amount}
	}
	return nil
}

// plantAmount makes the payment one over another amount.
func (c *paypalCapture) plantAmount(amount int64) error {
	if amount == 0 || amount < c.refunded || c.chargeback.amount > 0 {
		return errDivergence("more would be refunded than captured")
	}
	c.order.amount, c.amount = amount, amount
	c.order.restate()
	return nil
}

// plantCurrency makes the payment one in another currency, over the same number of its minor units if no other amount is given.
func (c *paypalCapture) plantCurrency(d divergence) error {
	iso := d.Amount
	if iso == 0 {
		iso = paypalCurrencies[c.order.currency].toISO(c.amount)
	}
	currency, known := paypalCurrencies[d.Currency]
	amount, exact := currency.fromISO(iso)
	possible := known && exact && amount > 0 && amount <= maxPayPalAmount
	if !possible || c.refunded > 0 || c.chargeback.amount > 0 || len(c.order.captures) > 1 {
		return errDivergence("currency, or the amount in it, is not possible for this payment")
	}
	c.order.currency = d.Currency
	return c.plantAmount(amount)
}

// restate has the order's purchase unit show what the order is over now.
func (o *paypalOrder) restate() {
	text, err := json.Marshal(money(o.amount, o.currency))
	if err != nil || o.unit == nil { // two texts can always be written
		return
	}
	o.unit["amount"] = text
}

func (a *paypalAPI) plantCharge(d divergence, now time.Time) (Charge, error) {
	currency, known := paypalCurrencies[d.Currency]
	amount, exact := currency.fromISO(d.Amount)
	if !known || !exact || amount <= 0 || amount > maxPayPalAmount {
		return Charge{}, errDivergence("amount and currency are not ones that PayPal takes")
	}
	return a.ledgerEntry(a.dashboardPayment(&paypalOrder{amount: amount, currency: d.Currency, customID: d.Reference}, now)), nil
}

// divergent finds the order that a divergence names; naming none means the newest that fits.
func (a *paypalAPI) divergent(d divergence) *paypalOrder {
	named := a.store.orderOf(d.ID)
	for _, order := range slices.Backward(a.store.orders) {
		id := order.id
		if order == named {
			id = d.ID // of its capture, authorization or refund
		}
		taken := order.paid() != nil && order.paid().taken()
		held := order.authorization != nil && order.authorization.left() > 0
		if d.names(id, order.identifier, order.reference()) && d.Kind.fits(taken, held) {
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
	a.addCapture(order, order.amount, now).complete(order.invoiceID, now)
	return order
}

// forget is what a provider's loss of data would do: nothing of the order is there any more.
func (s *paypalStore) forget(order *paypalOrder) {
	for _, capture := range order.captures {
		delete(s.captureByID, capture.id)
		for _, refund := range capture.refunds {
			delete(s.refundByID, refund.id)
		}
	}
	s.refunds = slices.DeleteFunc(s.refunds, func(refund *paypalRefund) bool { return refund.capture.order == order })
	s.captures = slices.DeleteFunc(s.captures, func(capture *paypalCapture) bool { return capture.order == order })
	if held := order.authorization; held != nil {
		held.status = paypalVoided // so that time brings nothing more
		delete(s.authByID, held.id)
		s.authorizations = slices.DeleteFunc(s.authorizations, func(each *paypalAuthorization) bool { return each == held })
	}
	delete(s.orderByID, order.id)
	s.orders = slices.DeleteFunc(s.orders, func(each *paypalOrder) bool { return each == order })
}

// loseRefund forgets the newest refund of a capture.
func (s *paypalStore) loseRefund(capture *paypalCapture, now time.Time) error {
	for i, refund := range slices.Backward(capture.refunds) {
		if refund.status != paypalCompleted && refund.status != paypalPending {
			continue
		}
		refund.status = paypalFailed // so that time brings nothing more
		capture.refunds = slices.Delete(capture.refunds, i, i+1)
		s.refunds = slices.DeleteFunc(s.refunds, func(each *paypalRefund) bool { return each == refund })
		delete(s.refundByID, refund.id)
		capture.giveBack(-refund.amount, now)
		return nil
	}
	return errDivergence("the payment has no refund")
}
