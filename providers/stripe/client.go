package stripe

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"time"

	sdk "github.com/stripe/stripe-go/v76"
	"github.com/stripe/stripe-go/v76/paymentintent"
	"github.com/stripe/stripe-go/v76/refund"

	"paysaga/providers"
	"paysaga/providers/wire"
)

// The metadata that every payment and refund carries, for look-ups and for a person in Stripe's dashboard.
const (
	metadataSagaKey = "saga_key"
	metadataOrderID = "order_id"
	metadataSubKey  = "sub_key"
)

// searchLimit bounds a search's one page. A saga has one payment per attempt; ten is more attempts than a saga makes.
const searchLimit = 10

// refundsLimit is the longest page that Stripe gives.
const refundsLimit = 100

var (
	errNotASearchResult = errors.New("answer is not a search result")
	errTooManyHits      = errors.New("search has more than one page")
)

// client makes the calls. It is the only place that sets stripe-go up: its own backend and key, nothing of the library's
// package-level state, so that several accounts can live in one process.
//
// Nothing is sent twice below the saga, which owns the repeats as it knows the re-POST window: the library's own retries
// are off, and so are net/http's (see package wire).
type client struct {
	payments paymentintent.Client
	refunds  refund.Client
	timeout  time.Duration
}

func newClient(config Config) *client {
	backend := sdk.GetBackendWithConfig(sdk.APIBackend, &sdk.BackendConfig{
		URL:               new(config.BaseURL),
		HTTPClient:        wire.Client(config.HTTPClient, wire.MaxBody),
		MaxNetworkRetries: new(int64(0)),
		LeveledLogger:     &sdk.LeveledLogger{Level: sdk.LevelNull}, // its messages quote response bodies
		EnableTelemetry:   new(false),
	})
	return &client{
		payments: paymentintent.Client{B: backend, Key: config.APIKey},
		refunds:  refund.Client{B: backend, Key: config.APIKey},
		timeout:  config.CallTimeout,
	}
}

// createPayment creates and confirms in one call: there is no moment at which a payment exists that this call did not also
// try to take.
func (c *client) createPayment(ctx context.Context, request providers.ChargeRequest, amount int64) (*sdk.PaymentIntent, error) {
	ctx, seen, done := c.begin(ctx)
	defer done()
	params := &sdk.PaymentIntentParams{
		Amount:        new(amount),
		Currency:      new(strings.ToLower(request.Money.Currency)),
		PaymentMethod: new(request.Method),
		Confirm:       new(true),
		CaptureMethod: new(captureMethod(request.ManualCapture)),
		// Whatever the shop has enabled at Stripe, cards and bank debits alike: the token decides, not a list kept here.
		AutomaticPaymentMethods: &sdk.PaymentIntentAutomaticPaymentMethodsParams{Enabled: new(true)},
		Metadata: map[string]string{
			metadataSagaKey: request.SagaKey,
			metadataOrderID: request.OrderID,
			metadataSubKey:  string(request.Key),
		},
	}
	// Without a page to come back to, methods that leave the shop's page are out and Stripe would refuse the call.
	redirects := sdk.PaymentIntentAutomaticPaymentMethodsAllowRedirectsNever
	if request.ReturnURL != "" {
		redirects = sdk.PaymentIntentAutomaticPaymentMethodsAllowRedirectsAlways
		params.ReturnURL = new(request.ReturnURL)
	}
	params.AutomaticPaymentMethods.AllowRedirects = new(string(redirects))
	params.Context = ctx
	params.SetIdempotencyKey(request.Key.StripeIdempotencyKey())
	payment, err := c.payments.New(params)
	if err != nil {
		return nil, seen.Failed("create payment", err)
	}
	return payment, nil
}

func captureMethod(manual bool) string {
	if manual {
		return string(sdk.PaymentIntentCaptureMethodManual)
	}
	return string(sdk.PaymentIntentCaptureMethodAutomatic)
}

// payment is one payment as it stands now, its latest charge and that one's last ten refunds included: only they tell whether
// the money went back.
func (c *client) payment(ctx context.Context, id string) (*sdk.PaymentIntent, error) {
	ctx, seen, done := c.begin(ctx)
	defer done()
	params := &sdk.PaymentIntentParams{}
	params.Context = ctx
	params.AddExpand("latest_charge")
	params.AddExpand("latest_charge.refunds")
	payment, err := c.payments.Get(id, params)
	if err != nil {
		return nil, seen.Failed("get payment", err)
	}
	return payment, nil
}

// searchPayments finds the payments of a saga. The index lags, in what it finds and in what it says of it.
func (c *client) searchPayments(ctx context.Context, sagaKey string) ([]*sdk.PaymentIntent, error) {
	ctx, seen, done := c.begin(ctx)
	defer done()
	params := &sdk.PaymentIntentSearchParams{}
	params.Context = ctx
	params.Single = true
	params.Limit = new(int64(searchLimit))
	params.Query = fmt.Sprintf("metadata['%s']:'%s'", metadataSagaKey, escapeQuery.Replace(sagaKey))
	search := c.payments.Search(params)
	if err := search.Err(); err != nil {
		return nil, seen.Failed("search payments", err)
	}
	result := search.PaymentIntentSearchResult()
	if !isSearchResult(result) {
		return nil, seen.Failed("search payments", errNotASearchResult)
	}
	if result.HasMore {
		return nil, seen.Failed("search payments", errTooManyHits)
	}
	return result.Data, nil
}

// capturePayment takes amount, in Stripe's units, of a payment that holds money, and lets go of the rest.
func (c *client) capturePayment(ctx context.Context, request providers.CaptureRequest, amount int64) (*sdk.PaymentIntent, error) {
	ctx, seen, done := c.begin(ctx)
	defer done()
	params := &sdk.PaymentIntentCaptureParams{AmountToCapture: new(amount)} // the final capture, by Stripe's default
	params.Context = ctx
	params.SetIdempotencyKey(request.Key.StripeIdempotencyKey())
	payment, err := c.payments.Capture(request.Reference, params)
	if err != nil {
		return nil, seen.Failed("capture payment", err)
	}
	return payment, nil
}

// cancelPayment cancels a payment whose money is not taken.
func (c *client) cancelPayment(ctx context.Context, request providers.VoidRequest) (*sdk.PaymentIntent, error) {
	ctx, seen, done := c.begin(ctx)
	defer done()
	params := &sdk.PaymentIntentCancelParams{}
	params.Context = ctx
	params.SetIdempotencyKey(request.Key.StripeIdempotencyKey())
	payment, err := c.payments.Cancel(request.Reference, params)
	if err != nil {
		return nil, seen.Failed("cancel payment", err)
	}
	return payment, nil
}

// createRefund gives back amount, in Stripe's units, of a payment.
func (c *client) createRefund(ctx context.Context, request providers.RefundRequest, amount int64) (*sdk.Refund, error) {
	ctx, seen, done := c.begin(ctx)
	defer done()
	params := &sdk.RefundParams{
		PaymentIntent: new(request.Reference),
		Amount:        new(amount), // always given: without it Stripe gives back all that is left
		Metadata:      map[string]string{metadataSagaKey: request.SagaKey, metadataSubKey: string(request.Key)},
	}
	params.Context = ctx
	params.SetIdempotencyKey(request.Key.StripeIdempotencyKey())
	created, err := c.refunds.New(params)
	if err != nil {
		return nil, seen.Failed("create refund", err)
	}
	return created, nil
}

// refund is one refund as it stands now.
func (c *client) refund(ctx context.Context, id string) (*sdk.Refund, error) {
	ctx, seen, done := c.begin(ctx)
	defer done()
	params := &sdk.RefundParams{}
	params.Context = ctx
	found, err := c.refunds.Get(id, params)
	if err != nil {
		return nil, seen.Failed("get refund", err)
	}
	return found, nil
}

// refundsOf lists a payment's refunds, one page of the most that Stripe gives: a payment has few.
func (c *client) refundsOf(ctx context.Context, payment string) ([]*sdk.Refund, error) {
	ctx, seen, done := c.begin(ctx)
	defer done()
	params := &sdk.RefundListParams{PaymentIntent: new(payment)}
	params.Context = ctx
	params.Single = true
	params.Limit = new(int64(refundsLimit))
	list := c.refunds.List(params)
	if err := list.Err(); err != nil {
		return nil, seen.Failed("list refunds", err)
	}
	if list.RefundList().HasMore {
		return nil, seen.Failed("list refunds", errTooManyHits)
	}
	return list.RefundList().Data, nil
}

// begin bounds one call in time and starts watching it on the wire.
func (c *client) begin(ctx context.Context) (context.Context, *wire.Exchange, context.CancelFunc) {
	ctx, cancel := context.WithTimeout(ctx, c.timeout)
	ctx, seen := wire.Watch(ctx)
	return ctx, seen, cancel
}

// escapeQuery keeps a value inside its quotes in Stripe's search language.
var escapeQuery = strings.NewReplacer(`\`, `\\`, `'`, `\'`)

// isSearchResult tells an empty result from an answer that is something else: stripe-go reads both as no hits, and "no hits"
// lets a saga conclude that nothing was charged.
func isSearchResult(result *sdk.PaymentIntentSearchResult) bool {
	if result == nil || result.LastResponse == nil || result.LastResponse.StatusCode != http.StatusOK {
		return false
	}
	var shape struct {
		Object string             `json:"object"`
		Data   *[]json.RawMessage `json:"data"`
	}
	return json.Unmarshal(result.LastResponse.RawJSON, &shape) == nil && shape.Object == "search_result" && shape.Data != nil
}
