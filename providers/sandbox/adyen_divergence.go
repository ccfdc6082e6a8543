package sandbox

import (
	"slices"
	"time"
)

// plant makes the account differ from what the caller of the API knows. No webhook tells of it.
func (a *adyenAPI) plant(d divergence) (Charge, error) {
	now := a.server.clock.now()
	a.mu.Lock()
	defer a.mu.Unlock()
	a.refresh(now)
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
	amount, exact := adyenCurrencies[payment.currency].fromISO(d.Amount)
	if !exact || amount < 0 || amount > maxAdyenAmount {
		return Charge{}, errDivergence("amount is not possible for this payment")
	}
	switch {
	case d.Kind == divergenceDuplicate:
		return a.ledgerEntry(a.dashboardPayment(payment.amount, payment.currency, payment.reference)), nil
	case d.Kind == divergencePaymentLost:
		lost := a.ledgerEntry(payment)
		a.store.forget(payment)
		return lost, nil
	case d.Kind.ofHeld():
		err := payment.divergeHeld(d.Kind, amount, now)
		return a.ledgerEntry(payment), err
	default:
		err := a.diverge(payment, d, amount, now)
		return a.ledgerEntry(payment), err
	}
}

// divergeHeld ends a hold. Where it cannot, nothing has changed.
func (p *adyenPayment) divergeHeld(kind divergenceKind, amount int64, now time.Time) error {
	if kind != divergenceCaptured {
		p.held = 0
		if p.captured == 0 {
			p.become(map[divergenceKind]string{divergenceVoided: resultCancelled, divergenceExpired: adyenExpired}[kind], now)
		}
		return nil
	}
	if amount == 0 {
		amount = p.held
	}
	if amount > p.held {
		return errDivergence("more would be captured than is held")
	}
	p.take(amount, adyenBooking{at: now})
	p.held = 0
	return nil
}

// diverge changes a captured payment. Where it cannot, nothing has changed.
func (a *adyenAPI) diverge(p *adyenPayment, d divergence, amount int64, now time.Time) error {
	switch d.Kind {
	case divergenceRefundInDashboard, divergenceChargeback:
		return p.takeBack(d.Kind, amount, now)
	case divergenceRefundLost:
		return a.store.loseRefund(p)
	case divergenceAmountChanged:
		return p.plantAmount(amount)
	case divergenceCurrencyChanged:
		return p.plantCurrency(d)
	default: // what only the settlement file tells
		return p.settled.distort(d.Kind, amount, p.captured, adyenCosts(p.captured).sum())
	}
}

// takeBack gives money back, or lets the customer's bank take it. 0 is all that is left.
func (p *adyenPayment) takeBack(kind divergenceKind, amount int64, now time.Time) error {
	if amount == 0 {
		amount = p.left()
	}
	if amount == 0 || amount > p.left() {
		return errDivergence("more would be given back than was captured")
	}
	if kind == divergenceChargeback {
		p.book(adyenBooking{kind: journalChargeback, at: now, amount: amount})
		return nil
	}
	p.refunded += amount
	p.book(adyenBooking{kind: journalRefunded, at: now, amount: amount})
	return nil
}

// plantAmount makes the payment one over another amount, taken at once.
func (p *adyenPayment) plantAmount(amount int64) error {
	if amount == 0 || amount < p.refunded || p.chargedBack() > 0 {
		return errDivergence("more than the amount was refunded")
	}
	first := true
	p.bookings = slices.DeleteFunc(p.bookings, func(booking adyenBooking) bool {
		again := booking.kind == journalSettled && !first
		first = first && booking.kind != journalSettled
		return again
	})
	for i := range p.bookings {
		if p.bookings[i].kind == journalSettled {
			p.bookings[i].amount = amount
		}
	}
	p.amount, p.captured = amount, amount
	return nil
}

// plantCurrency makes the payment one in another currency, over the same number of its minor units if no other amount is given.
func (p *adyenPayment) plantCurrency(d divergence) error {
	iso := d.Amount
	if iso == 0 {
		iso = adyenCurrencies[p.currency].toISO(p.captured)
	}
	currency, known := adyenCurrencies[d.Currency]
	amount, exact := currency.fromISO(iso)
	if !known || !exact || amount <= 0 || amount > maxAdyenAmount || p.refunded > 0 || p.chargedBack() > 0 {
		return errDivergence("currency, or the amount in it, is not possible for this payment")
	}
	p.currency = d.Currency
	return p.plantAmount(amount)
}

func (a *adyenAPI) plantCharge(d divergence) (Charge, error) {
	currency, known := adyenCurrencies[d.Currency]
	amount, exact := currency.fromISO(d.Amount)
	if !known || !exact || checkAdyenAmount(&adyenAmount{Currency: d.Currency, Value: amount}) != nil {
		return Charge{}, errDivergence("amount and currency are not ones that Adyen takes")
	}
	return a.ledgerEntry(a.dashboardPayment(amount, d.Currency, d.Reference)), nil
}

// divergent finds the payment that a divergence names; naming none means the newest that fits.
func (a *adyenAPI) divergent(d divergence) *adyenPayment {
	for _, payment := range slices.Backward(a.store.payments) {
		if d.names(payment.psp, payment.identifier, payment.reference) && d.Kind.fits(payment.captured > 0, payment.held > 0) {
			return payment
		}
	}
	return nil
}

// dashboardPayment is a captured payment that no API call made.
func (a *adyenAPI) dashboardPayment(amount int64, currency, reference string) *adyenPayment {
	now := a.server.clock.now()
	payment := &adyenPayment{
		psp: adyenReference(), reference: reference, merchant: a.merchant, created: now, amount: amount,
		currency: currency, code: adyenCodes[codeApproved], held: amount,
	}
	payment.become(resultAuthorised, now)
	payment.take(amount, adyenBooking{at: now})
	a.store.addPayment(payment)
	return payment
}

// forget is what a provider's loss of data would do: nothing of the payment is there any more.
func (s *adyenStore) forget(payment *adyenPayment) {
	ours := func(m *adyenModification) bool { return m.payment == payment }
	for _, m := range s.modifications {
		if ours(m) {
			delete(s.modificationOf, m.psp)
		}
	}
	s.modifications, s.open = slices.DeleteFunc(s.modifications, ours), slices.DeleteFunc(s.open, ours)
	other := func(p *adyenPayment) bool { return p == payment }
	s.payments, s.live = slices.DeleteFunc(s.payments, other), slices.DeleteFunc(s.live, other)
	delete(s.paymentByPSP, payment.psp)
	delete(s.byResult, payment.redirectResult)
	if s.byReference[payment.reference] == payment {
		delete(s.byReference, payment.reference)
	}
}

// loseRefund forgets the newest refund of a payment.
func (s *adyenStore) loseRefund(p *adyenPayment) error {
	for _, booking := range slices.Backward(p.bookings) {
		if booking.kind != journalRefunded {
			continue
		}
		p.refunded -= booking.amount
		p.unbook(booking.psp)
		delete(s.modificationOf, booking.psp)
		s.modifications = slices.DeleteFunc(s.modifications, func(m *adyenModification) bool { return m.psp == booking.psp })
		return nil
	}
	return errDivergence("the payment has no refund")
}
