// Package adyen charges through Adyen's Checkout API, version 71: charge, continue after the customer's action, capture, void,
// refund, and the verification of Adyen's webhooks.
//
// Every call ends in one providers.Outcome and never in an error: what Adyen's answers and the network's failures mean is decided here and
// nowhere else (status.go, refusal.go, errors.go, notice.go). The adapter keeps no state, never repeats a call by itself, and logs
// nothing; when to call again, and with which key, is the saga's.
//
// Two things set Adyen apart. It has no way to ask for a payment: after a lost answer the same call with the same key tells (for
// six days), or the webhook does, or the payment is undone. And it answers every capture, cancellation and refund with "received":
// how they end is said by webhook only.
package adyen

import (
	"context"
	"errors"
	"regexp"
	"time"

	"paysaga/providers"
)

const (
	// repostWindow is how long a call may be sent again under its key. Adyen remembers keys for at least 7 days; a day is left for
	// clocks that differ and for a call that waits in a queue. Past it the same POST is a second charge: Adyen does not deduplicate
	// by reference.
	repostWindow = 6 * 24 * time.Hour
	// holdTime is after how long Adyen expires an authorization that is not captured: 28 days with the major card networks ("Which
	// payment methods support separate authorisation and capture?", Adyen Help). Cartes Bancaires has 12; the EXPIRE webhook tells.
	holdTime = 28 * 24 * time.Hour
	// maxMetadataValue is the longest value that Adyen's metadata takes.
	maxMetadataValue = 80
	// minShopperReference and maxShopperReference bound a shopperReference.
	minShopperReference, maxShopperReference = 3, 256
)

// The metadata that every payment carries, for a person in Adyen's Customer Area. Names have at most 20 characters.
const (
	metadataSagaKey = "saga_key"
	metadataOrderID = "order_id"
)

var (
	// keyForm is what sub-keys are made of. It has no ':', which joins the fields of a signed webhook without escaping. Adyen takes
	// 64 characters in an Idempotency-Key, 80 in a reference.
	keyForm = regexp.MustCompile(`^[A-Za-z0-9_.-]{1,64}$`)
	// paymentForm is a pspReference. It becomes a part of a URL.
	paymentForm = regexp.MustCompile(`^[A-Za-z0-9_-]{1,64}$`)
)

// Codes of calls that are not sent at all, with Rejected (Unknown for look-ups).
const (
	codeKeyInvalid       = "key_invalid"
	codeReferenceInvalid = "reference_invalid"
	codeCustomerInvalid  = "customer_reference_invalid"
	codeMetadataTooLong  = "metadata_too_long"
	codeReturnURLInvalid = "return_url_invalid"
)

// Adapter is Adyen as the saga sees it. It is safe for concurrent use.
type Adapter struct {
	client          *client
	returnURL       string
	severalCaptures bool
}

// New makes an adapter, or gives an error that wraps ErrConfig and says what is wrong with the settings. It makes no call.
func New(config Config) (*Adapter, error) {
	config, err := config.withDefaults()
	if err != nil {
		return nil, err
	}
	return &Adapter{client: newClient(config), returnURL: config.ReturnURL, severalCaptures: config.SeveralCaptures}, nil
}

// Name is "adyen".
func (*Adapter) Name() string { return "adyen" }

// Windows are Adyen's limits in time. There is no search, hence none that lags.
func (a *Adapter) Windows() providers.Windows {
	return providers.Windows{Repost: repostWindow, NoLookup: true, OneCapture: !a.severalCaptures, Hold: holdTime}
}

// Check tells whether a charge could be sent at all: nil, or a *providers.RequestError. It makes no call.
func (a *Adapter) Check(request providers.ChargeRequest) error {
	_, err := a.paymentOf(request)
	return err
}

// Charge authorizes a payment and, without ManualCapture, has it captured at once: Authorised is Succeeded then, as Adyen captures
// by itself and tells only when that fails (CAPTURE_FAILED). Money in the outcome is Adyen's amount where it tells one, for the
// saga to compare.
//
// Inside Windows().Repost the same request may be sent any number of times and takes the money at most once. A request that
// Check refuses is Rejected without a call.
func (a *Adapter) Charge(ctx context.Context, request providers.ChargeRequest) providers.Outcome {
	payment, err := a.paymentOf(request)
	if err != nil {
		return rejectedRequest(err)
	}
	answer, err := a.client.createPayment(ctx, request.Key, payment)
	if err != nil {
		return outcomeOfError(err)
	}
	if answer.MerchantReference != "" && answer.MerchantReference != request.Key.AdyenReference() {
		return unknown(providers.CodeOtherPayment)
	}
	return outcomeOfPayment(answer, request.ManualCapture)
}

// paymentOf makes the body of a charge, or gives a *providers.RequestError. It is the same for the same request, byte for byte.
func (a *Adapter) paymentOf(request providers.ChargeRequest) (paymentRequest, error) {
	money, err := toAdyen(request.Money)
	if err != nil {
		return paymentRequest{}, err
	}
	method, err := methodOf(request)
	if err != nil {
		return paymentRequest{}, err
	}
	if err := checkIdentifiers(request); err != nil {
		return paymentRequest{}, err
	}
	payment := paymentRequest{
		Amount:             money,
		Reference:          request.Key.AdyenReference(),
		PaymentMethod:      method.body,
		ReturnURL:          a.returnURL,
		Channel:            "Web",
		ShopperInteraction: "Ecommerce",
		ShopperReference:   request.CustomerReference,
		Metadata:           map[string]string{metadataSagaKey: request.SagaKey, metadataOrderID: request.OrderID},
	}
	if request.ReturnURL != "" {
		payment.ReturnURL = request.ReturnURL
	}
	payment.show3DSecure(method)
	if method.stored {
		// The customer is known to the shop and chose to have the method kept.
		payment.ShopperInteraction, payment.RecurringProcessingModel = "ContAuth", "CardOnFile"
		if payment.ShopperReference == "" {
			payment.ShopperReference = request.OrderID
		}
	}
	if length := len(payment.ShopperReference); length != 0 && (length < minShopperReference || length > maxShopperReference) {
		return paymentRequest{}, &providers.RequestError{
			Field: "customer.reference", Code: codeCustomerInvalid, Detail: "must have 3 to 256 characters",
		}
	}
	// Both ways are said, as what an account does by itself is a setting in the Customer Area.
	if request.ManualCapture {
		payment.AdditionalData = map[string]string{"manualCapture": "true"}
	} else {
		payment.CaptureDelayHours = new(0)
	}
	return payment, nil
}

// show3DSecure passes on what 3-D Secure needs of the browser. Only a page that tells its origin can show it by itself; else Adyen
// sends the customer to the bank's page.
func (p *paymentRequest) show3DSecure(method paymentMethod) {
	p.BrowserInfo, p.Origin = method.browserInfo, method.origin
	if method.browserInfo != nil && method.origin != "" {
		p.AuthenticationData = &authenticationData{Request: threeDSRequest{Native: "preferred"}}
	}
}

func checkIdentifiers(request providers.ChargeRequest) error {
	switch {
	case !validKey(request.Key):
		return &providers.RequestError{Field: "key", Code: codeKeyInvalid, Detail: "is no key that Adyen takes"}
	case len(request.SagaKey) > maxMetadataValue || len(request.OrderID) > maxMetadataValue:
		return &providers.RequestError{Field: "metadata", Code: codeMetadataTooLong, Detail: "is over 80 characters"}
	case request.ReturnURL != "" && !isWebPage(request.ReturnURL):
		return &providers.RequestError{Field: "payment.return_url", Code: codeReturnURLInvalid, Detail: "must begin with https:// or http://"}
	default:
		return nil
	}
}

// Continue goes on with a payment after the customer acted, with what that brought. It can end in a further action.
//
// Details come from the customer's browser, which may bring those of another payment. Unless the answer names ours, it is Unknown
// and says nothing about this charge.
func (a *Adapter) Continue(ctx context.Context, request providers.ContinueRequest) providers.Outcome {
	if !validKey(request.Key) || !validKey(request.ChargeKey) {
		return providers.Outcome{Kind: providers.Rejected, Code: codeKeyInvalid}
	}
	details, err := parseDetails(request.Details)
	if err != nil {
		return rejectedRequest(err)
	}
	answer, err := a.client.submitDetails(ctx, request.Key, details)
	if err != nil {
		return outcomeOfError(err)
	}
	if !isOurs(answer, request) {
		return unknown(providers.CodeOtherPayment)
	}
	return outcomeOfPayment(answer, request.ManualCapture)
}

// isOurs asks for proof that an answer is about our charge: our reference, or Adyen's as we know it.
func isOurs(answer *paymentAnswer, request providers.ContinueRequest) bool {
	if answer.MerchantReference != "" {
		return answer.MerchantReference == request.ChargeKey.AdyenReference()
	}
	return request.Reference != "" && answer.PSPReference == request.Reference
}

// Lookup is Unknown with CodeNoLookup, always: Adyen has no call for it.
func (*Adapter) Lookup(context.Context, providers.LookupRequest) providers.Outcome {
	return unknown(providers.CodeNoLookup)
}

// LookupRefund is Unknown with CodeNoLookup, always.
func (*Adapter) LookupRefund(context.Context, providers.RefundLookupRequest) providers.Outcome {
	return unknown(providers.CodeNoLookup)
}

// Capture takes authorized money, all or a part. Processing, with the capture's own reference, is the best that it answers; the
// end comes by webhook. Final is not sent, as Adyen has no such field: an account takes either one capture, which lets go of what it
// leaves, or several, and then the rest is let go when the authorization expires.
func (a *Adapter) Capture(ctx context.Context, request providers.CaptureRequest) providers.Outcome {
	money, invalid, ok := checkModification(request.Key, request.Reference, request.Money)
	if !ok {
		return invalid
	}
	answer, err := a.client.capture(ctx, request.Key, request.Reference, money)
	return outcomeOfModification(answer, err, request.Reference)
}

// Refund gives back Money, all or a part of what was captured. Processing, with the refund's own reference, is the best that it
// answers; the end comes by webhook, and can turn once more after that (REFUND_FAILED, REFUNDED_REVERSED).
func (a *Adapter) Refund(ctx context.Context, request providers.RefundRequest) providers.Outcome {
	money, invalid, ok := checkModification(request.Key, request.Reference, request.Money)
	if !ok {
		return invalid
	}
	answer, err := a.client.refund(ctx, request.Key, request.Reference, money)
	return outcomeOfModification(answer, err, request.Reference)
}

// Void undoes a whole payment: a cancellation when it is known to be authorized only, a reversal (cancel or refund, whichever
// fits) when it may be captured, and a technical cancellation of whatever is authorized under our own reference when Adyen's is
// not known. Processing is the best that it answers; the end comes by webhook.
func (a *Adapter) Void(ctx context.Context, request providers.VoidRequest) providers.Outcome {
	switch {
	case !validKey(request.Key):
		return providers.Outcome{Kind: providers.Rejected, Code: codeKeyInvalid}
	case request.Reference == "" && validKey(request.ChargeKey):
		answer, err := a.client.cancelByReference(ctx, request.Key, request.ChargeKey)
		return outcomeOfTechnicalCancel(answer, err, request.ChargeKey.AdyenReference())
	case !paymentForm.MatchString(request.Reference):
		return providers.Outcome{Kind: providers.Rejected, Code: codeReferenceInvalid}
	case request.ManualCapture:
		answer, err := a.client.cancel(ctx, request.Key, request.Reference)
		return outcomeOfModification(answer, err, request.Reference)
	default:
		answer, err := a.client.reverse(ctx, request.Key, request.Reference)
		return outcomeOfModification(answer, err, request.Reference)
	}
}

// checkModification converts the money of a capture or refund; ok is false when the call is not to be sent.
func checkModification(
	key providers.SubKey, reference string, money providers.Money,
) (converted amount, invalid providers.Outcome, ok bool) {
	if !validKey(key) {
		return amount{}, providers.Outcome{Kind: providers.Rejected, Code: codeKeyInvalid}, false
	}
	if !paymentForm.MatchString(reference) {
		return amount{}, providers.Outcome{Kind: providers.Rejected, Code: codeReferenceInvalid}, false
	}
	converted, err := toAdyen(money)
	if err != nil {
		return amount{}, rejectedRequest(err), false
	}
	return converted, providers.Outcome{}, true
}

func rejectedRequest(err error) providers.Outcome {
	outcome := providers.Outcome{Kind: providers.Rejected}
	if invalid, ok := errors.AsType[*providers.RequestError](err); ok {
		outcome.Code, outcome.Detail = invalid.Code, invalid.Error()
	}
	return outcome
}

func validKey(key providers.SubKey) bool { return keyForm.MatchString(key.AdyenReference()) }
