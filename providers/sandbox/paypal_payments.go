package sandbox

import (
	"net/http"
	"slices"
	"time"
)

var (
	paypalCaptureFields = words("invoice_id note_to_payer amount final_capture payment_instruction soft_descriptor")
	paypalRefundFields  = words("amount custom_id invoice_id note_to_payer payment_instruction")
)

func (a *paypalAPI) authorize(order *paypalOrder, method paypalMethod, now time.Time) {
	authorization := &paypalAuthorization{
		id: paypalID(), order: order, created: now, changed: now, amount: order.amount, status: paypalCreated, response: method.response,
		expires: now.Add(paypalAuthorizationLife), voidID: paypalID(),
	}
	event := "PAYMENT.AUTHORIZATION.CREATED"
	switch method.status {
	case paypalPending:
		authorization.status, authorization.reason = paypalPending, "PENDING_REVIEW"
	case paypalDeclined, paypalFailed:
		authorization.status, event = paypalDenied, "PAYMENT.AUTHORIZATION.DENIED"
	default:
	}
	order.authorization = authorization
	a.store.authorizations = append(a.store.authorizations, authorization)
	a.store.authByID[authorization.id] = authorization
	if authorization.status != paypalDenied {
		a.payInvoice(order)
		a.store.live = append(a.store.live, func(now time.Time) bool { return a.refreshAuthorization(authorization, now) })
		a.server.settleLater(a.settleDue)
	}
	a.announceAuthorization(authorization, event)
}

// refreshAuthorization lets time end a review and the authorization itself.
func (a *paypalAPI) refreshAuthorization(z *paypalAuthorization, now time.Time) (done bool) {
	_, settleAfter := a.server.settings.delays()
	if z.status == paypalPending && settleAfter > 0 && now.Sub(z.changed) >= settleAfter {
		z.become(paypalCreated, now)
	}
	if z.left() > 0 && !now.Before(z.expires) {
		z.become(paypalVoided, now)
		a.announceAuthorization(z, "PAYMENT.AUTHORIZATION.VOIDED")
	}
	return z.left() == 0 && z.status != paypalPending
}

func (z *paypalAuthorization) become(status string, now time.Time) {
	z.status, z.reason, z.changed = status, "", now
}

func (a *paypalAPI) payInvoice(order *paypalOrder) {
	if order.invoiceID != "" {
		a.store.paidInvoices[order.invoiceID] = order
	}
}

func (a *paypalAPI) addCapture(order *paypalOrder, amount int64, now time.Time) *paypalCapture {
	capture := &paypalCapture{id: paypalID(), order: order, created: now, amount: amount, response: order.source.method.response}
	order.captures = append(order.captures, capture)
	a.store.captures = append(a.store.captures, capture)
	a.store.captureByID[capture.id] = capture
	return capture
}

// concludeCapture gives a capture its status, first or later, and tells the shop.
func (a *paypalAPI) concludeCapture(capture *paypalCapture, status, reason string, now time.Time) {
	if status == "" {
		status = paypalCompleted
	}
	waited := capture.status == paypalPending
	capture.status, capture.reason, capture.changed = status, reason, now
	event := "PAYMENT.CAPTURE." + status
	switch {
	case status == paypalPending:
		a.payInvoice(capture.order)
		a.store.live = append(a.store.live, func(now time.Time) bool { return a.refreshCapture(capture, now) })
		a.server.settleLater(a.settleDue)
	case status == paypalCompleted:
		a.payInvoice(capture.order)
		capture.booked = now
	case waited: // a review or an eCheck that failed
		event = "PAYMENT.CAPTURE.DENIED"
	default:
		event = "PAYMENT.CAPTURE.DECLINED"
	}
	a.announceCapture(capture, event)
}

func (a *paypalAPI) refreshCapture(capture *paypalCapture, now time.Time) (done bool) {
	_, settleAfter := a.server.settings.delays()
	if capture.status == paypalPending && settleAfter > 0 && now.Sub(capture.changed) >= settleAfter {
		a.concludeCapture(capture, paypalCompleted, "", now)
	}
	return capture.status != paypalPending
}

func (a *paypalAPI) settleDue() {
	now := a.server.clock.now()
	a.mu.Lock()
	defer a.mu.Unlock()
	a.refresh(now)
}

func (a *paypalAPI) refresh(now time.Time) {
	a.store.live = slices.DeleteFunc(a.store.live, func(each func(time.Time) bool) bool { return each(now) })
}

func (a *paypalAPI) getAuthorization(c paypalCall) (paypalResult, *paypalError) {
	authorization, known := a.store.authByID[c.id]
	if !known {
		return paypalResult{}, paypalMissing()
	}
	return paypalResult{status: http.StatusOK, show: authorization.show}, nil
}

func (a *paypalAPI) getCapture(c paypalCall) (paypalResult, *paypalError) {
	capture, known := a.store.captureByID[c.id]
	if !known {
		return paypalResult{}, paypalMissing()
	}
	return paypalResult{status: http.StatusOK, show: capture.show}, nil
}

func (a *paypalAPI) getRefund(c paypalCall) (paypalResult, *paypalError) {
	refund, known := a.store.refundByID[c.id]
	if !known {
		return paypalResult{}, paypalMissing()
	}
	return paypalResult{status: http.StatusOK, show: refund.show}, nil
}

// captureAuthorization takes held money, all of what is left or a part.
func (a *paypalAPI) captureAuthorization(c paypalCall) (paypalResult, *paypalError) {
	var request struct {
		Amount    *paypalMoney `json:"amount"`
		Final     bool         `json:"final_capture"`
		InvoiceID string       `json:"invoice_id"`
		Note      string       `json:"note_to_payer"`
	}
	if refusal := readPayPal(c.body, paypalCaptureFields, true, &request); refusal != nil {
		return paypalResult{}, refusal
	}
	authorization, known := a.store.authByID[c.id]
	if !known {
		return paypalResult{}, paypalMissing()
	}
	if refusal := authorization.capturable(c.now); refusal != nil {
		return paypalResult{}, refusal
	}
	amount, refusal := authorization.toCapture(request.Amount)
	if refusal != nil {
		return paypalResult{}, refusal
	}
	if other, paid := a.store.paidInvoices[request.InvoiceID]; paid && other != authorization.order && !a.reusedInvoices {
		return paypalResult{}, unprocessable("DUPLICATE_INVOICE_ID", "/invoice_id")
	}
	if a.store.full() {
		return paypalResult{}, paypalFull()
	}
	capture := a.addCapture(authorization.order, amount, c.now)
	capture.authorization, capture.note, capture.invoiceID = authorization, request.Note, authorization.order.invoiceID
	if request.InvoiceID != "" {
		capture.invoiceID = request.InvoiceID
	}
	authorization.captured += amount
	capture.final = request.Final || authorization.captured == authorization.amount
	status := paypalPartiallyCaptured
	if capture.final {
		status = paypalCaptured
	}
	authorization.become(status, c.now)
	a.concludeCapture(capture, paypalCompleted, "", c.now)
	return paypalResult{status: http.StatusCreated, show: capture.show}, nil
}

// toCapture is how much is to be taken; nil asks for all that is left.
func (z *paypalAuthorization) toCapture(wanted *paypalMoney) (amount int64, refusal *paypalError) {
	if wanted == nil {
		return z.left(), nil
	}
	amount, issue := wanted.positive()
	switch {
	case issue != "":
		return 0, moneyIssue(issue, "/amount")
	case wanted.Currency != z.order.currency:
		return 0, unprocessable("AUTH_CAPTURE_CURRENCY_MISMATCH", "/amount/currency_code")
	case amount > z.left(): // PayPal allows some accounts up to 115 %; the sandbox's is not one of them
		return 0, unprocessable("MAX_CAPTURE_AMOUNT_EXCEEDED", "/amount/value")
	}
	return amount, nil
}

func (z *paypalAuthorization) capturable(now time.Time) *paypalError {
	switch z.status {
	case paypalVoided:
		if !now.Before(z.expires) {
			return unprocessable("AUTHORIZATION_EXPIRED", "")
		}
		return unprocessable("AUTHORIZATION_VOIDED", "")
	case paypalDenied:
		return unprocessable("AUTHORIZATION_DENIED", "")
	case paypalCaptured:
		return unprocessable("AUTHORIZATION_ALREADY_CAPTURED", "")
	case paypalPending:
		return unprocessable("TRANSACTION_REFUSED", "")
	default:
		return nil
	}
}

// voidAuthorization releases what is left of a hold.
func (a *paypalAPI) voidAuthorization(c paypalCall) (paypalResult, *paypalError) {
	authorization, known := a.store.authByID[c.id]
	switch {
	case !known:
		return paypalResult{}, paypalMissing()
	case authorization.status == paypalVoided:
		return paypalResult{}, unprocessable("PREVIOUSLY_VOIDED", "")
	case authorization.status == paypalCaptured:
		return paypalResult{}, unprocessable("PREVIOUSLY_CAPTURED", "")
	case authorization.status == paypalDenied:
		return paypalResult{}, unprocessable("CANNOT_BE_VOIDED", "")
	}
	authorization.become(paypalVoided, c.now)
	a.announceAuthorization(authorization, "PAYMENT.AUTHORIZATION.VOIDED")
	if c.view.full {
		return paypalResult{status: http.StatusOK, show: authorization.show}, nil
	}
	return paypalResult{status: http.StatusNoContent}, nil
}

// refundCapture gives money back, all of what is left or a part.
func (a *paypalAPI) refundCapture(c paypalCall) (paypalResult, *paypalError) {
	var request struct {
		Amount    *paypalMoney `json:"amount"`
		InvoiceID string       `json:"invoice_id"`
		CustomID  string       `json:"custom_id"`
		Note      string       `json:"note_to_payer"`
	}
	if refusal := readPayPal(c.body, paypalRefundFields, true, &request); refusal != nil {
		return paypalResult{}, refusal
	}
	capture, known := a.store.captureByID[c.id]
	if !known {
		return paypalResult{}, paypalMissing()
	}
	amount, refusal := capture.refundable(request.Amount)
	if refusal != nil {
		return paypalResult{}, refusal
	}
	if request.InvoiceID != "" && a.store.refundInvoices[request.InvoiceID] && !a.reusedInvoices {
		return paypalResult{}, unprocessable("DUPLICATE_INVOICE_ID", "/invoice_id")
	}
	if a.store.full() {
		return paypalResult{}, paypalFull()
	}
	refund := a.addRefund(capture, amount, c.now)
	refund.invoiceID, refund.customID, refund.note = request.InvoiceID, request.CustomID, request.Note
	a.store.refundInvoices[request.InvoiceID] = true
	a.concludeRefund(refund, capture.order.source.method.refund, c.now)
	return paypalResult{status: http.StatusCreated, show: refund.show}, nil
}

// refundable is how much is to be given back; nil asks for all that is left.
func (c *paypalCapture) refundable(wanted *paypalMoney) (amount int64, refusal *paypalError) {
	left := c.left()
	switch {
	case c.status == paypalPending:
		return 0, unprocessable("PENDING_CAPTURE", "")
	case !c.taken():
		return 0, unprocessable("REFUND_NOT_ALLOWED", "")
	case c.chargeback.amount > 0 && left == 0:
		return 0, unprocessable("REFUND_NOT_ALLOWED", "")
	case left == 0:
		return 0, unprocessable("CAPTURE_FULLY_REFUNDED", "")
	case wanted == nil:
		return left, nil
	}
	amount, issue := wanted.positive()
	switch {
	case issue != "":
		return 0, moneyIssue(issue, "/amount")
	case wanted.Currency != c.order.currency:
		return 0, unprocessable("REFUND_CAPTURE_CURRENCY_MISMATCH", "/amount/currency_code")
	case amount > left:
		return 0, unprocessable("REFUND_AMOUNT_EXCEEDED", "/amount/value")
	}
	return amount, nil
}

// addRefund books a refund; one that is pending counts as given back until it fails.
func (a *paypalAPI) addRefund(capture *paypalCapture, amount int64, now time.Time) *paypalRefund {
	refund := &paypalRefund{id: paypalID(), capture: capture, created: now, changed: now, amount: amount, status: paypalCompleted}
	capture.refunds = append(capture.refunds, refund)
	a.store.refunds = append(a.store.refunds, refund)
	a.store.refundByID[refund.id] = refund
	capture.giveBack(amount, now)
	return refund
}

// left is what can still be given back.
func (c *paypalCapture) left() int64 { return c.amount - c.refunded - c.chargeback.amount }

func (c *paypalCapture) giveBack(amount int64, now time.Time) {
	c.refunded += amount
	c.changed = now
	switch c.refunded {
	case 0:
		c.status = paypalCompleted
	case c.amount:
		c.status = paypalRefunded
	default:
		c.status = paypalPartiallyRefunded
	}
}

// concludeRefund gives a refund its status, first or later, and tells the shop.
func (a *paypalAPI) concludeRefund(refund *paypalRefund, status string, now time.Time) {
	if status == "" {
		status = paypalCompleted
	}
	refund.status, refund.changed = status, now
	event := "PAYMENT.CAPTURE.REFUNDED"
	switch status {
	case paypalCompleted:
		refund.booked = now
	case paypalPending:
		event = "PAYMENT.REFUND.PENDING"
		a.store.live = append(a.store.live, func(now time.Time) bool { return a.refreshRefund(refund, now) })
		a.server.settleLater(a.settleDue)
	case paypalFailed:
		event = "PAYMENT.REFUND.FAILED"
		refund.capture.giveBack(-refund.amount, now)
	default:
	}
	a.announceRefund(refund, event)
}

func (a *paypalAPI) refreshRefund(refund *paypalRefund, now time.Time) (done bool) {
	_, settleAfter := a.server.settings.delays()
	if refund.status == paypalPending && settleAfter > 0 && now.Sub(refund.changed) >= settleAfter {
		a.concludeRefund(refund, paypalCompleted, now)
	}
	return refund.status != paypalPending
}
