package paypal

import (
	"context"

	"paysaga/providers"
)

// The adapter's codes about captures, voids and refunds.
const (
	codeNothingHeld         = "nothing_held"           // with Rejected captures: there is no authorization
	codeNothingTaken        = "nothing_taken"          // with Rejected refunds: there is no capture
	codeNothingToVoid       = "nothing_to_void"        // with Succeeded voids: the order holds no money
	codeAlreadyVoided       = "already_voided"         // with Succeeded voids
	codeRefundSpansCaptures = "refund_spans_captures"  // with Rejected refunds: no single capture has that much left
	codeCaptureMismatch     = "capture_other_amount"   // with Unknown captures: the sub-key was captured with other money
	codeAuthorizationClosed = "authorization_captured" // with Rejected captures: all that was held is taken
)

// Capture takes authorized money, all or a part. Reference in the outcome is the payment's.
//
// It looks first: a capture that bears this sub-key is adopted instead of made again, for as long as PayPal knows the order. Canceled
// is an authorization that is voided, or expired with CodeAuthorizationExpired.
func (a *Adapter) Capture(ctx context.Context, request providers.CaptureRequest) providers.Outcome {
	if invalid, refused := refusedCall(request.Key, request.Reference); refused {
		return invalid
	}
	value, err := toPayPal(request.Money)
	if err != nil {
		return rejectedRequest(err)
	}
	unit, outcome := a.unit(ctx, request.Reference, request.SagaKey)
	if unit == nil {
		return outcome
	}
	outcome = a.captureOf(ctx, unit, request, value)
	outcome.Reference = request.Reference
	return outcome
}

func (a *Adapter) captureOf(ctx context.Context, unit *purchaseUnit, request providers.CaptureRequest, value amount) providers.Outcome {
	for i := range unit.Payments.Captures {
		if made := &unit.Payments.Captures[i]; made.InvoiceID == string(request.Key) {
			return outcomeOfOwnCapture(made, request)
		}
	}
	held := unit.Payments.authorization()
	switch {
	case held == nil || !idForm.MatchString(held.ID):
		return providers.Outcome{Kind: providers.Rejected, Code: codeNothingHeld}
	case held.Status == statusCaptured:
		return providers.Outcome{Kind: providers.Rejected, Code: codeAuthorizationClosed}
	case held.Status == statusVoided || held.Status == statusExpired || held.Status == statusDenied:
		return outcomeOfAuthorization(held)
	}
	made, err := a.client.captureAuthorization(ctx, held.ID, request.Key, captureBody{
		Amount: value, InvoiceID: string(request.Key), Final: request.Final,
	})
	if err != nil {
		return outcomeOfError(captureCall, err)
	}
	if made.InvoiceID != "" && made.InvoiceID != string(request.Key) {
		return unknown(providers.CodeOtherPayment)
	}
	return outcomeOfOwnCapture(made, request)
}

// outcomeOfOwnCapture judges the capture of this call. That it has been refunded since does not change what the call did.
func outcomeOfOwnCapture(made *capture, request providers.CaptureRequest) providers.Outcome {
	outcome := outcomeOfCapture(made)
	if outcome.Kind == providers.Canceled {
		outcome.Kind = providers.Succeeded
	}
	if outcome.Kind == providers.Succeeded && outcome.Money != request.Money {
		outcome.Kind, outcome.Code = providers.Unknown, codeCaptureMismatch
	}
	return outcome
}

// Void gives up money that is held and not taken. Already voided is Succeeded, and so is an order that holds none: never
// approved, approved and not continued, or declined. Taken, in whole or in part, is Rejected with CodeAlreadyCaptured; a capture
// that has no end yet is Busy with CodeNotCancelableYet.
//
// PayPal has no call that closes an order. One that is not continued ends by itself within hours; the saga only must not void
// while the outcome of a Continue is unknown, as that call may still take the money.
func (a *Adapter) Void(ctx context.Context, request providers.VoidRequest) providers.Outcome {
	if invalid, refused := refusedCall(request.Key, request.Reference); refused {
		return invalid
	}
	unit, outcome := a.unit(ctx, request.Reference, "")
	if unit == nil {
		return outcome
	}
	outcome, decided := outcomeWithoutVoid(unit)
	if !decided {
		outcome = a.voidOf(ctx, unit.Payments.authorization().ID)
	}
	outcome.Reference = request.Reference
	return outcome
}

// outcomeWithoutVoid tells whether an order, as it stands, makes a void needless or impossible; decided is false when there is an
// authorization to void.
func outcomeWithoutVoid(unit *purchaseUnit) (outcome providers.Outcome, decided bool) {
	captured, asked := outcomeOfCaptures(unit.Payments)
	switch {
	case !asked || captured.Kind == providers.Declined:
		return outcomeWithoutHold(unit.Payments.authorization())
	case captured.Kind == providers.Unknown:
		return captured, true
	case captured.Kind == providers.Processing && captured.Code != codeRefundPending:
		return providers.Outcome{Kind: providers.Busy, Code: providers.CodeNotCancelableYet, RetryAfter: operatorDelay}, true
	default:
		return providers.Outcome{Kind: providers.Rejected, Code: providers.CodeAlreadyCaptured, Money: captured.Money}, true
	}
}

// outcomeWithoutHold is outcomeWithoutVoid for an order of which nothing is captured.
func outcomeWithoutHold(held *authorization) (outcome providers.Outcome, decided bool) {
	switch {
	case held == nil || held.Status == statusDenied:
		return providers.Outcome{Kind: providers.Succeeded, Code: codeNothingToVoid}, true
	case held.Status == statusVoided || held.Status == statusExpired:
		return providers.Outcome{Kind: providers.Succeeded, Code: codeAlreadyVoided}, true
	case held.Status == statusCaptured || held.Status == statusPartiallyCaptured:
		return providers.Outcome{Kind: providers.Rejected, Code: providers.CodeAlreadyCaptured}, true
	case !idForm.MatchString(held.ID):
		return unknown(codeOtherObject), true
	default:
		return providers.Outcome{}, false
	}
}

func (a *Adapter) voidOf(ctx context.Context, authorizationID string) providers.Outcome {
	voided, err := a.client.voidAuthorization(ctx, authorizationID)
	if err != nil {
		return outcomeOfError(voidCall, err)
	}
	if voided.Status != "" && voided.Status != statusVoided {
		return unknown(codeNotVoided)
	}
	return providers.Outcome{Kind: providers.Succeeded}
}

// Refund gives back Money, all or a part of what the payment took; Reference in the outcome is the refund's.
//
// It looks first: a refund that bears this sub-key is adopted instead of made again, for as long as PayPal knows the order. Of
// several captures it takes the first that has enough left; more than any one has left is Rejected, to be refunded in parts.
// Succeeded with CodeAlreadyRefunded moved no money: all had been given back before. Busy with PENDING_CAPTURE is a capture that has
// no end yet. Processing ends by webhook or LookupRefund.
func (a *Adapter) Refund(ctx context.Context, request providers.RefundRequest) providers.Outcome {
	if invalid, refused := refusedCall(request.Key, request.Reference); refused {
		return invalid
	}
	value, err := toPayPal(request.Money)
	if err != nil {
		return rejectedRequest(err)
	}
	unit, outcome := a.unit(ctx, request.Reference, request.SagaKey)
	if unit == nil {
		return outcome
	}
	if made, found := unit.Payments.refundBy("", request.Key); found {
		return outcomeOfRefund(made)
	}
	captureID, code := unit.Payments.refundable(request.Money)
	if code != "" {
		return providers.Outcome{Kind: providers.Rejected, Code: code}
	}
	made, err := a.client.refundCapture(ctx, captureID, request.Key, refundBody{
		Amount: value, InvoiceID: string(request.Key), CustomID: request.SagaKey,
	})
	if err != nil {
		return outcomeOfError(refundCall, err)
	}
	if made.InvoiceID != "" && made.InvoiceID != string(request.Key) {
		return unknown(providers.CodeOtherPayment)
	}
	return outcomeOfRefund(made)
}

// LookupRefund asks how a refund stands: by its Reference, or by its sub-key among the order's refunds. NotFound is conclusive
// once no call that could make it is still on its way: an order is read as it is, not from a search that lags.
func (a *Adapter) LookupRefund(ctx context.Context, request providers.RefundLookupRequest) providers.Outcome {
	if !validKey(request.Key) {
		return unknown(codeKeyInvalid)
	}
	if !idForm.MatchString(request.Payment) || request.Reference != "" && !idForm.MatchString(request.Reference) {
		return unknown(codeReferenceInvalid)
	}
	unit, outcome := a.unit(ctx, request.Payment, "")
	if unit == nil {
		outcome.Reference = request.Reference
		return outcome
	}
	if made, found := unit.Payments.refundBy(request.Reference, request.Key); found {
		return outcomeOfRefund(made)
	}
	if request.Reference == "" {
		return providers.Outcome{Kind: providers.NotFound}
	}
	made, err := a.client.refund(ctx, request.Reference)
	if err != nil {
		outcome := outcomeOfError(lookupCall, err)
		outcome.Reference = request.Reference
		return outcome
	}
	if made.ID != request.Reference || made.InvoiceID != "" && made.InvoiceID != string(request.Key) {
		return unknown(providers.CodeOtherPayment)
	}
	return outcomeOfRefund(made)
}

// unit is an order's purchase unit as it stands now, or nil and the outcome that says why not.
func (a *Adapter) unit(ctx context.Context, id, sagaKey string) (*purchaseUnit, providers.Outcome) {
	found, err := a.client.order(ctx, id)
	if err != nil {
		return nil, outcomeOfError(lookupCall, err)
	}
	unit, ok := found.unit()
	switch {
	case !ok || found.ID != id:
		return nil, unknown(codeOtherObject)
	case !found.belongsToSaga(sagaKey):
		return nil, unknown(providers.CodeOtherPayment)
	default:
		return unit, providers.Outcome{}
	}
}

// refundBy is the refund with this id, or else the one that bears the sub-key.
func (p payments) refundBy(id string, key providers.SubKey) (*refund, bool) {
	for i := range p.Refunds {
		if id != "" && p.Refunds[i].ID == id {
			return &p.Refunds[i], true
		}
	}
	for i := range p.Refunds {
		if p.Refunds[i].InvoiceID == string(key) {
			return &p.Refunds[i], true
		}
	}
	return nil, false
}

// refundable is the capture from which money can be given back, or the code that says why there is none. A single one is tried
// whatever is left of it: PayPal knows better.
func (p payments) refundable(money providers.Money) (captureID, code string) {
	var taken []capture
	for _, c := range p.Captures {
		switch c.Status {
		case statusCompleted, statusPartiallyRefunded, statusRefunded, statusPending:
			if idForm.MatchString(c.ID) {
				taken = append(taken, c)
			}
		}
	}
	switch len(taken) {
	case 0:
		return "", codeNothingTaken
	case 1:
		return taken[0].ID, ""
	}
	for _, c := range taken {
		if c.Status != statusPending && p.left(c, money.Currency) >= money.Amount {
			return c.ID, ""
		}
	}
	return "", codeRefundSpansCaptures
}

// left is what can still be given back of a capture, in a currency's minor units; 0 if that cannot be told.
func (p payments) left(c capture, currency string) int64 {
	of, err := fromPayPal(c.Amount)
	if err != nil || of.Currency != currency {
		return 0
	}
	for _, r := range p.Refunds {
		if r.Status == statusFailed || r.Status == statusCanceled || !r.isOf(c.ID) {
			continue
		}
		back, err := fromPayPal(r.Amount)
		if err != nil {
			return 0
		}
		of.Amount -= back.Amount
	}
	return of.Amount
}
