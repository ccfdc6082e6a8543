package sandbox

import (
	"net/http"
	"net/url"
	"slices"
	"time"
)

// cardTypes are the payment methods' types that are cards.
var cardTypes = []string{"scheme", typeCard, "networkToken", "bcmc"}

// pay is POST /payments.
func (a *adyenAPI) pay(c adyenCall) (status int, object any, refusal *adyenError) {
	var request adyenPaymentRequest
	if refusal := readAdyen("PaymentRequest", c.body, &request); refusal != nil {
		return 0, nil, refusal
	}
	if refusal := a.checkPayment(&request); refusal != nil {
		return 0, nil, refusal
	}
	code, refusal := chosenCode(&request)
	if refusal != nil {
		return 0, nil, refusal
	}
	if a.store.full() {
		return 0, nil, adyenFull()
	}
	payment := &adyenPayment{
		psp: adyenReference(), identifier: c.key, reference: request.Reference, merchant: request.MerchantAccount,
		returnURL: request.ReturnURL, methodType: request.PaymentMethod.Type, created: c.now, changed: c.now,
		amount: request.Amount.Value, currency: request.Amount.Currency, code: code,
		manual: request.AdditionalData["manualCapture"] == "true", captureAt: c.now,
	}
	if hours := request.CaptureDelayHours; hours != nil {
		payment.captureAt = c.now.Add(time.Duration(*hours) * time.Hour)
	}
	if refusal := a.failAsAsked(payment, request.AdditionalData["RequestedTestErrorResponseCode"]); refusal != nil {
		return 0, nil, refusal
	}
	a.store.addPayment(payment)
	switch code.result {
	case resultRedirect:
		payment.redirectSecret = randomText(32)
		payment.become(resultRedirect, c.now)
	case resultReceived:
		payment.become(resultReceived, c.now)
		a.server.settleLater(a.settleDue)
	default:
		a.conclude(payment, code, c.now)
	}
	return http.StatusOK, a.paymentAnswer(payment, c.baseURL), nil
}

// failAsAsked has the acquirer fail in the way that a test payment asks for.
func (a *adyenAPI) failAsAsked(p *adyenPayment, asked string) *adyenError {
	failure := &adyenError{Status: http.StatusInternalServerError, ErrorType: adyenInternal, Message: asked}
	switch asked {
	case "":
		return nil
	case testNoConnection: // the acquirer could not be reached: there is no payment
		failure.ErrorCode, failure.transient = "905_3", true
	case testIOException:
		failure.ErrorCode, failure.PSPReference = "905_4", p.psp
		a.store.addPayment(p)
		a.conclude(p, adyenCodes["ERROR"], p.created)
	default:
		return adyenInvalid("702", "RequestedTestErrorResponseCode is not one that the sandbox knows")
	}
	return failure
}

// checkPayment holds the rules for a payment's fields. Order and codes follow what Adyen answers first.
func (a *adyenAPI) checkPayment(request *adyenPaymentRequest) *adyenError {
	if refusal := requireAdyen("merchantAccount", request.MerchantAccount); refusal != nil {
		return refusal
	}
	if refusal := a.permit(request.MerchantAccount); refusal != nil {
		return refusal
	}
	if refusal := checkAdyenAmount(request.Amount); refusal != nil {
		return refusal
	}
	if refusal := requireAdyen("reference", request.Reference, "returnUrl", request.ReturnURL); refusal != nil {
		return refusal
	}
	return request.checkShape()
}

func (request *adyenPaymentRequest) checkShape() *adyenError {
	target, err := url.Parse(request.ReturnURL)
	switch {
	case err != nil || target.Scheme == "":
		return adyenInvalid("702", "Field 'returnUrl' is not a valid URL")
	case len(request.Reference) > maxAdyenReference:
		return adyenInvalid("702", "Field 'reference' is longer than %d characters", maxAdyenReference)
	case request.PaymentMethod == nil:
		return adyenInvalid("14_004", "Required object 'paymentMethod' is not provided.")
	case request.PaymentMethod.Type != "" && !slices.Contains(cardTypes, request.PaymentMethod.Type):
		return adyenInvalid("14_0408", "Payment method type %q is not simulated: the sandbox knows cards", request.PaymentMethod.Type)
	case request.CaptureDelayHours != nil && (*request.CaptureDelayHours < 0 || *request.CaptureDelayHours > 24*28):
		return adyenInvalid("702", "Field 'captureDelayHours' is out of range")
	}
	return nil
}

// conclude ends a payment's authorization and tells the shop.
func (a *adyenAPI) conclude(p *adyenPayment, code adyenCode, now time.Time) {
	p.code = code
	p.become(code.result, now)
	if code.result == resultAuthorised {
		p.held = p.amount
		if !p.manual && !p.captureAt.After(now) {
			p.take(p.amount, adyenBooking{at: now})
		}
	}
	a.announcePayment(p, "AUTHORISATION", code.result == resultAuthorised, code.reason)
}

// take moves money from the hold to the merchant.
func (p *adyenPayment) take(amount int64, booking adyenBooking) {
	p.held -= amount
	p.captured += amount
	booking.kind, booking.amount = journalSettled, amount
	p.book(booking)
}

// settleDue lets happen what time brings: a hold that nobody captured runs out, a slow bank answers, a modification is done.
func (a *adyenAPI) settleDue() {
	now := a.server.clock.now()
	a.mu.Lock()
	defer a.mu.Unlock()
	a.refresh(now)
}

func (a *adyenAPI) refresh(now time.Time) {
	_, settleAfter := a.server.settings.delays()
	a.store.live = slices.DeleteFunc(a.store.live, func(p *adyenPayment) bool {
		switch {
		case p.status == resultReceived && settleAfter > 0 && now.Sub(p.changed) >= settleAfter:
			a.conclude(p, adyenCodes[codeApproved], now)
		case p.held > 0 && !p.manual && !p.captureAt.After(now):
			p.take(p.held, adyenBooking{at: p.captureAt})
		case p.held > 0 && now.Sub(p.created) >= adyenHoldTime:
			p.held = 0
			if p.captured == 0 {
				p.become(adyenExpired, now)
			}
			a.announcePayment(p, "EXPIRE", true, "")
		}
		return p.atRest()
	})
	a.store.open = slices.DeleteFunc(a.store.open, func(m *adyenModification) bool {
		if !m.settled && !m.due.After(now) {
			a.settle(m, now)
		}
		return m.settled
	})
}

// details is POST /payments/details: what became of a payment whose customer was sent away.
func (a *adyenAPI) details(c adyenCall) (status int, object any, refusal *adyenError) {
	var request adyenDetailsRequest
	if refusal := readAdyen("PaymentDetailsRequest", c.body, &request); refusal != nil {
		return 0, nil, refusal
	}
	if request.Details == nil {
		return 0, nil, adyenInvalid("14_003", "Required object 'details' is not provided.")
	}
	result := request.Details.RedirectResult
	if query, err := url.ParseQuery(request.Details.ReturnURLQueryString); err == nil && result == "" {
		result = query.Get("redirectResult")
	}
	payment, known := a.store.byResult[result]
	if !known {
		return 0, nil, adyenInvalid("14_0411", "Invalid redirectResult")
	}
	answer := a.paymentAnswer(payment, c.baseURL)
	answer.Action = nil
	return http.StatusOK, answer, nil
}

func (a *adyenAPI) paymentAnswer(p *adyenPayment, baseURL string) *adyenPaymentAnswer {
	answer := &adyenPaymentAnswer{
		PSPReference: p.psp, ResultCode: p.code.result, RefusalReason: p.code.reason, RefusalReasonCode: p.code.reasonCode,
		MerchantReference: p.reference,
	}
	switch p.code.result {
	case resultRedirect:
		answer.Action = &adyenRedirectAction{
			Type: "redirect", Method: http.MethodGet, PaymentMethodType: "scheme", URL: redirectURL(baseURL, p),
		}
	case resultAuthorised:
		answer.AdditionalData = map[string]string{
			"authCode": "065696", "cardSummary": "1111", "cardBin": "411111", "paymentMethod": brandVisa,
			"merchantReference": p.reference,
		}
		answer.Amount = p.show()
		answer.PaymentMethod = &adyenMethodAnswer{Brand: brandVisa, Type: "scheme"}
	default:
		answer.Amount = p.show()
		answer.PaymentMethod = &adyenMethodAnswer{Brand: brandVisa, Type: "scheme"}
	}
	return answer
}
