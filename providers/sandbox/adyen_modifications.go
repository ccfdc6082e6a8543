package sandbox

import (
	"net/http"
	"time"
)

// The events that tell how a modification ended.
const (
	eventCapture         = "CAPTURE"
	eventCancellation    = "CANCELLATION"
	eventRefund          = "REFUND"
	eventReversal        = "CANCEL_OR_REFUND"
	eventTechnicalCancel = "TECHNICAL_CANCEL"
)

func (a *adyenAPI) capture(c adyenCall) (status int, object any, refusal *adyenError) {
	return a.modify(c, "PaymentCaptureRequest", eventCapture)
}

func (a *adyenAPI) cancel(c adyenCall) (status int, object any, refusal *adyenError) {
	return a.modify(c, "PaymentCancelRequest", eventCancellation)
}

func (a *adyenAPI) refund(c adyenCall) (status int, object any, refusal *adyenError) {
	return a.modify(c, "PaymentRefundRequest", eventRefund)
}

func (a *adyenAPI) reverse(c adyenCall) (status int, object any, refusal *adyenError) {
	return a.modify(c, "PaymentReversalRequest", eventReversal)
}

func (a *adyenAPI) cancelByReference(c adyenCall) (status int, object any, refusal *adyenError) {
	return a.modify(c, "StandalonePaymentCancelRequest", eventTechnicalCancel)
}

// modify receives a modification. Whether it can be done is told later, by webhook: an answer says "received" to all that
// can be read and is about a payment.
func (a *adyenAPI) modify(c adyenCall, kind, event string) (status int, object any, refusal *adyenError) {
	var request adyenModificationRequest
	if refusal := readAdyen(kind, c.body, &request); refusal != nil {
		return 0, nil, refusal
	}
	if refusal := requireAdyen("merchantAccount", request.MerchantAccount); refusal != nil {
		return 0, nil, refusal
	}
	if refusal := a.permit(request.MerchantAccount); refusal != nil {
		return 0, nil, refusal
	}
	payment, refusal := a.toModify(c, request, event)
	if refusal != nil {
		return 0, nil, refusal
	}
	if len(request.Reference) > maxAdyenReference {
		return 0, nil, adyenInvalid("702", "Field 'reference' is longer than %d characters", maxAdyenReference)
	}
	if a.store.full() {
		return 0, nil, adyenFull()
	}
	_, settleAfter := a.server.settings.delays()
	modification := &adyenModification{
		psp: adyenReference(), event: event, reference: request.Reference, payment: payment, merchant: request.MerchantAccount,
		amount: request.Amount, due: c.now.Add(settleAfter),
	}
	if event == eventTechnicalCancel {
		modification.reference = request.PaymentReference
	}
	a.store.addModification(modification)
	if settleAfter == 0 {
		a.refresh(c.now)
	} else {
		a.server.settleLater(a.settleDue)
	}
	return http.StatusCreated, &adyenModificationAnswer{
		MerchantAccount: request.MerchantAccount, PaymentPSPReference: c.id, PaymentReference: request.PaymentReference,
		PSPReference: modification.psp, Reference: request.Reference, Status: "received", Amount: request.Amount,
		CapturePSPReference: request.CapturePSPReference, MerchantRefundReason: request.MerchantRefundReason,
	}, nil
}

// toModify finds the payment that a modification is about. A cancel by reference is received for unknown references too.
func (a *adyenAPI) toModify(c adyenCall, request adyenModificationRequest, event string) (*adyenPayment, *adyenError) {
	if event == eventTechnicalCancel {
		refusal := requireAdyen("paymentReference", request.PaymentReference)
		return a.store.byReference[request.PaymentReference], refusal
	}
	payment, known := a.store.paymentByPSP[c.id]
	if !known {
		return nil, adyenInvalid("167", "Original pspReference required for this operation")
	}
	a.refresh(c.now)
	if event != eventCapture && event != eventRefund {
		return payment, nil
	}
	if refusal := checkAdyenAmount(request.Amount); refusal != nil {
		return nil, refusal
	}
	if request.Amount.Currency != payment.currency {
		return nil, adyenInvalid("138", "Unsupported currency specified: the payment is in %s", payment.currency)
	}
	return payment, nil
}

// settle does a modification, or finds that it cannot be done, and tells the shop.
func (a *adyenAPI) settle(m *adyenModification, now time.Time) {
	m.settled = true
	m.reason = "Transaction not found"
	if m.payment != nil {
		m.reason = a.carryOut(m, now)
	}
	m.success = m.reason == ""
	a.announceModification(m, m.event, m.success, m.reason)
}

// carryOut gives the reason why a modification failed, empty when it did not.
func (a *adyenAPI) carryOut(m *adyenModification, now time.Time) (reason string) {
	p := m.payment
	switch m.event {
	case eventCapture:
		return a.carryOutCapture(m, now)
	case eventRefund:
		return p.giveBack(m.amount.Value, m.booking(now))
	case eventReversal:
		if p.captured == 0 {
			m.action = "cancel"
			return p.release(now)
		}
		m.action = "refund"
		p.held = 0 // what a partial capture left over
		return p.giveBack(p.captured, m.booking(now))
	default: // the two cancels
		return p.release(now)
	}
}

// booking is what a modification brings about.
func (m *adyenModification) booking(now time.Time) adyenBooking {
	return adyenBooking{psp: m.psp, reference: m.reference, at: now}
}

func (a *adyenAPI) carryOutCapture(m *adyenModification, now time.Time) (reason string) {
	p, amount := m.payment, m.amount.Value
	switch {
	case p.held == 0:
		return "Transaction is not authorised, capture not possible"
	case amount > p.held:
		return "Insufficient balance on payment"
	}
	p.take(amount, m.booking(now))
	if !a.several {
		p.held = 0
	}
	return ""
}

// release lets go of a hold of which nothing was captured.
func (p *adyenPayment) release(now time.Time) (reason string) {
	switch {
	case p.captured > 0:
		return "Transaction has been captured, cancel not possible"
	case p.held == 0:
		return "Transaction is not authorised, cancel not possible"
	}
	p.held = 0
	p.become(resultCancelled, now)
	return ""
}

func (p *adyenPayment) giveBack(amount int64, booking adyenBooking) (reason string) {
	switch {
	case p.captured == 0:
		return "Transaction hasn't been captured, refund not possible"
	case amount > p.left():
		return "Insufficient balance on payment"
	}
	p.refunded += amount
	booking.kind, booking.amount = journalRefunded, amount
	p.book(booking)
	return ""
}
