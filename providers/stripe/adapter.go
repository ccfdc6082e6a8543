// Package stripe charges through Stripe's PaymentIntents with stripe-go v76 (API version 2023-10-16): charge, continue, look up,
// capture, void, refund; and it verifies Stripe's webhooks.
//
// Every call ends in one providers.Outcome and never in an error: what Stripe's answers and the network's failures mean is
// decided here and nowhere else (status.go, errors.go). The adapter keeps no state, never repeats a call by itself, and logs
// nothing; when to call again, and with which key, is the saga's.
package stripe

import (
	"context"
	"errors"
	"regexp"
	"strings"
	"time"

	sdk "github.com/stripe/stripe-go/v76"

	"paysaga/providers"
)

const (
	// repostWindow is how long a call may be sent again under its key. Stripe remembers keys for at least 24 h, counted from
	// its first receipt; an hour is left for clocks that differ and for a call that waits in a queue. Past it the same POST is a
	// second charge.
	repostWindow = 23 * time.Hour
	// lookupDelay is how far Stripe's search can be behind: normally under a minute, up to an hour in an outage.
	lookupDelay = time.Hour
	// holdTime is how long an uncaptured payment lives: Stripe cancels it after 7 days, the window of the card networks for payments
	// that the customer makes online. Only Visa's for those that the shop initiates is shorter, under 5 days; a look-up then tells.
	holdTime = 7 * 24 * time.Hour
)

// methodForm is a PaymentMethod's id. Longer ones than 255 characters are none.
var methodForm = regexp.MustCompile(`^pm_[A-Za-z0-9_]{1,252}$`)

// paymentForm is a PaymentIntent's id. It becomes a part of a URL.
var paymentForm = regexp.MustCompile(`^pi_[A-Za-z0-9_]{1,252}$`)

// refundForm is a Refund's id. It becomes a part of a URL; "pyr_" is what bank payments' refunds are called.
var refundForm = regexp.MustCompile(`^(re|pyr)_[A-Za-z0-9_]{1,251}$`)

// cardForm is 12 to 19 digits, grouped or not: a card number that took the place of a token.
var cardForm = regexp.MustCompile(`^[0-9](?:[ -]?[0-9]){11,18}$`)

// Codes of calls that are not sent at all, with Rejected (Unknown for look-ups).
const (
	codeKeyInvalid       = "key_invalid"
	codeReferenceInvalid = "reference_invalid"
)

// Adapter is Stripe as the saga sees it. It is safe for concurrent use.
type Adapter struct {
	client *client
}

// New makes an adapter, or gives an error that wraps ErrConfig and says what is wrong with the settings. It makes no call.
func New(config Config) (*Adapter, error) {
	config, err := config.withDefaults()
	if err != nil {
		return nil, err
	}
	return &Adapter{client: newClient(config)}, nil
}

// Name is "stripe".
func (*Adapter) Name() string { return "stripe" }

// Windows are Stripe's limits in time.
func (*Adapter) Windows() providers.Windows {
	return providers.Windows{Repost: repostWindow, LookupDelay: lookupDelay, StaysPayable: true, OneCapture: true, Hold: holdTime}
}

// Check tells whether a charge could be sent at all: nil, or a *providers.RequestError. It makes no call.
func (*Adapter) Check(request providers.ChargeRequest) error {
	_, err := amountOf(request)
	return err
}

// amountOf is what a charge takes, in Stripe's own units, or a *providers.RequestError that says why it cannot be sent.
func amountOf(request providers.ChargeRequest) (int64, error) {
	amount, err := toStripeCharge(request.Money)
	if err != nil {
		return 0, err
	}
	if len(request.MethodData) != 0 {
		return 0, &providers.RequestError{
			Field: "payment.method_data", Code: "method_data_not_taken",
			Detail: "is not taken by Stripe; its client library makes a PaymentMethod (pm_…), which is payment.method",
		}
	}
	if err := checkMethod(request.Method); err != nil {
		return 0, err
	}
	if !validKey(request.Key) {
		return 0, &providers.RequestError{Field: "key", Code: codeKeyInvalid, Detail: "is no key that Stripe takes"}
	}
	return amount, nil
}

func checkMethod(method string) error {
	invalid := &providers.RequestError{Field: "payment.method"}
	switch {
	case methodForm.MatchString(method):
		return nil
	case method == "":
		invalid.Code, invalid.Detail = "method_missing", "is missing; a Stripe PaymentMethod (pm_…) is needed"
	case cardForm.MatchString(strings.TrimSpace(method)):
		invalid.Code, invalid.Detail = "card_number_refused",
			"looks like a card number; card numbers are never accepted, only a Stripe PaymentMethod (pm_…)"
	default:
		invalid.Code, invalid.Detail = "method_invalid", "must be the id of a Stripe PaymentMethod (pm_…)"
	}
	return invalid
}

// Charge creates and confirms a payment; with ManualCapture it ends Authorized, and Capture takes the money. Money in the outcome
// is Stripe's amount, for the saga to compare.
//
// Inside Windows().Repost the same request may be sent any number of times and takes the money at most once. A request that
// Check refuses is Rejected without a call.
//
// A payment that ends Declined stays at Stripe. It holds no money, but a customer who was given its client secret
// (ActionRequired before) can still pay it: such a payment is to be voided before its order is given up.
func (a *Adapter) Charge(ctx context.Context, request providers.ChargeRequest) providers.Outcome {
	amount, err := amountOf(request)
	if err != nil {
		return rejectedRequest(err)
	}
	payment, err := a.client.createPayment(ctx, request, amount)
	if err != nil {
		return outcomeOfError(chargeCall, err)
	}
	if !belongsTo(payment, request.Key) {
		return unknown(providers.CodeOtherPayment)
	}
	return outcomeOfPayment(payment)
}

// Continue tells how a payment stands after the customer acted. It only looks: Stripe goes on by itself, and Details are not needed.
func (a *Adapter) Continue(ctx context.Context, request providers.ContinueRequest) providers.Outcome {
	if invalid, ok := refusedCall(request.ChargeKey, request.Reference); ok {
		return invalid
	}
	return a.Lookup(ctx, providers.LookupRequest{Key: request.ChargeKey, Reference: request.Reference})
}

// Lookup asks how a charge stands: by Reference when it is known, else by search on the saga's key.
//
// NotFound from the search, without a Reference, is conclusive only when the charge is older than Windows().LookupDelay. NotFound
// with a Reference is for a person: that payment did exist, so it is our key that belongs to another account or mode now. A
// payment whose money has all been given back is Canceled with CodeRefunded.
func (a *Adapter) Lookup(ctx context.Context, request providers.LookupRequest) providers.Outcome {
	if request.Reference == "" {
		return a.search(ctx, request)
	}
	if !paymentForm.MatchString(request.Reference) {
		return unknown(codeReferenceInvalid)
	}
	payment, err := a.client.payment(ctx, request.Reference)
	if err != nil {
		outcome := outcomeOfError(lookupCall, err)
		outcome.Reference = request.Reference
		return outcome
	}
	return outcomeOfLook(payment, request.Reference, request.Key)
}

// outcomeOfLook makes sure that the payment is the one asked for.
func outcomeOfLook(payment *sdk.PaymentIntent, id string, key providers.SubKey) providers.Outcome {
	if payment.ID != id || !belongsTo(payment, key) {
		return unknown(providers.CodeOtherPayment)
	}
	return outcomeOfPayment(payment)
}

// search finds the payments that carry the key, and asks for each afresh: the index can be behind in a payment's state as well.
func (a *Adapter) search(ctx context.Context, request providers.LookupRequest) providers.Outcome {
	if request.SagaKey == "" || !validKey(request.Key) {
		return unknown(codeKeyInvalid)
	}
	hits, err := a.client.searchPayments(ctx, request.SagaKey)
	if err != nil {
		return outcomeOfError(searchCall, err)
	}
	var found []providers.Outcome
	for _, hit := range hits { // at most searchLimit
		if hit == nil || !paymentForm.MatchString(hit.ID) {
			return unknown(codeOtherObject)
		}
		if !belongsTo(hit, request.Key) {
			continue // another attempt of the same saga
		}
		payment, err := a.client.payment(ctx, hit.ID)
		if err != nil {
			return outcomeOfError(searchCall, err) // one open question leaves the whole open
		}
		outcome := outcomeOfLook(payment, hit.ID, request.Key)
		if outcome.Kind == providers.Unknown {
			return outcome
		}
		found = append(found, outcome)
	}
	return onlyLive(found)
}

// onlyLive picks the payment that has, or can still get, money. Two of them are what must never be; a person decides. With none
// alive the first is told, which is the newest, as Stripe's search gives them.
func onlyLive(found []providers.Outcome) providers.Outcome {
	if len(found) == 0 {
		return providers.Outcome{Kind: providers.NotFound}
	}
	var live []providers.Outcome
	for _, outcome := range found {
		if outcome.Kind != providers.Declined && outcome.Kind != providers.Canceled {
			live = append(live, outcome)
		}
	}
	switch len(live) {
	case 0:
		return found[0]
	case 1:
		return live[0]
	default:
		return unknown(providers.CodeSeveralPayments)
	}
}

// Void cancels a payment whose money is not taken, a declined one included. Already canceled is Succeeded. Taken meanwhile is
// Rejected with CodeAlreadyCaptured. A payment that Stripe is still processing is Busy with CodeNotCancelableYet.
//
// It looks first: Stripe saves a refused cancellation under its key and repeats it for a day, when the payment may long have
// moved on. Between the look and the call a payment can still change; the refusal then carries the payment and is judged by it.
func (a *Adapter) Void(ctx context.Context, request providers.VoidRequest) providers.Outcome {
	if invalid, ok := refusedCall(request.Key, request.Reference); ok {
		return invalid
	}
	payment, err := a.client.payment(ctx, request.Reference)
	if err != nil {
		return outcomeOfError(voidCall, err)
	}
	if payment.ID != request.Reference {
		return unknown(providers.CodeOtherPayment)
	}
	if outcome, decided := outcomeWithoutVoid(payment); decided {
		return outcome
	}
	payment, err = a.client.cancelPayment(ctx, request)
	if err != nil {
		return outcomeOfError(voidCall, err)
	}
	if payment.ID != request.Reference {
		return unknown(providers.CodeOtherPayment)
	}
	return outcomeOfVoid(payment)
}

// Refund gives back Money, all or a part of what the payment took; Reference in the outcome is the refund's. Stripe takes the
// amount as one in the payment's currency, so the saga makes sure beforehand that Money is in it.
//
// Succeeded with CodeAlreadyRefunded moved no money: all had been given back before. Processing ends by webhook.
func (a *Adapter) Refund(ctx context.Context, request providers.RefundRequest) providers.Outcome {
	if invalid, ok := refusedCall(request.Key, request.Reference); ok {
		return invalid
	}
	amount, err := toStripe(request.Money)
	if err != nil {
		return rejectedRequest(err)
	}
	refund, err := a.client.createRefund(ctx, request, amount)
	if err != nil {
		return outcomeOfError(refundCall, err)
	}
	if !isRefundOf(refund, request.Reference) {
		return unknown(providers.CodeOtherPayment)
	}
	return outcomeOfRefund(refund)
}

// LookupRefund asks how a refund stands: by Reference when it is known, else among the payment's refunds by our mark. NotFound
// means that Stripe has none; its list of refunds, unlike its search, is not behind.
func (a *Adapter) LookupRefund(ctx context.Context, request providers.RefundLookupRequest) providers.Outcome {
	if invalid, ok := refusedCall(request.Key, request.Payment); ok {
		return invalid
	}
	if request.Reference != "" {
		if !refundForm.MatchString(request.Reference) {
			return unknown(codeReferenceInvalid)
		}
		refund, err := a.client.refund(ctx, request.Reference)
		if err != nil {
			return outcomeOfError(lookupCall, err)
		}
		if refund.ID != request.Reference || !isRefundOf(refund, request.Payment) {
			return unknown(providers.CodeOtherPayment)
		}
		return outcomeOfRefund(refund)
	}
	refunds, err := a.client.refundsOf(ctx, request.Payment)
	if err != nil {
		return outcomeOfError(searchCall, err)
	}
	for _, refund := range refunds {
		if refund != nil && refund.Metadata[metadataSubKey] == string(request.Key) {
			return outcomeOfRefund(refund)
		}
	}
	return providers.Outcome{Kind: providers.NotFound}
}

// refusedCall keeps calls from being sent that stripe-go would send in another form: without a key it makes up a random one.
func refusedCall(key providers.SubKey, reference string) (outcome providers.Outcome, refused bool) {
	switch {
	case !validKey(key):
		return providers.Outcome{Kind: providers.Rejected, Code: codeKeyInvalid}, true
	case !paymentForm.MatchString(reference):
		return providers.Outcome{Kind: providers.Rejected, Code: codeReferenceInvalid}, true
	default:
		return providers.Outcome{}, false
	}
}

func rejectedRequest(err error) providers.Outcome {
	outcome := providers.Outcome{Kind: providers.Rejected}
	if invalid, ok := errors.AsType[*providers.RequestError](err); ok {
		outcome.Code, outcome.Detail = invalid.Code, invalid.Error()
	}
	return outcome
}

func validKey(key providers.SubKey) bool {
	return key != "" && len(key) <= providers.MaxSubKeyLength && strings.TrimSpace(string(key)) == string(key)
}

// belongsTo tells that a payment is not another attempt's or another order's. A payment without our mark passes: its metadata can
// be emptied in the dashboard, and that must not make money disappear.
func belongsTo(payment *sdk.PaymentIntent, key providers.SubKey) bool {
	mark, ok := payment.Metadata[metadataSubKey]
	return !ok || mark == string(key)
}

// isRefundOf tells that a refund is of this payment. An answer that does not name its payment passes.
func isRefundOf(refund *sdk.Refund, payment string) bool {
	return refund.PaymentIntent == nil || refund.PaymentIntent.ID == payment
}
