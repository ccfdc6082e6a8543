package adyen

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"time"

	"paysaga/providers"
	"paysaga/providers/wire"
)

// client makes the calls. It, and the forms in wire.go, are what Adyen's own Go library could take the place of; nothing else
// here knows of HTTP.
//
// It never repeats a call, as the saga owns that; nor does net/http (see package wire).
type client struct {
	http            *http.Client
	baseURL         string
	apiKey          string
	merchantAccount string
	timeout         time.Duration
}

func newClient(config Config) *client {
	return &client{
		http:            wire.Client(config.HTTPClient, wire.MaxBody),
		baseURL:         config.BaseURL,
		apiKey:          config.APIKey,
		merchantAccount: config.MerchantAccount,
		timeout:         config.CallTimeout,
	}
}

// createPayment authorizes a payment, and has it captured as the request says.
func (c *client) createPayment(ctx context.Context, key providers.SubKey, payment paymentRequest) (*paymentAnswer, error) {
	payment.MerchantAccount = c.merchantAccount
	return c.payment(ctx, "create payment", "/payments", key, payment)
}

// submitDetails goes on with a payment after the customer's action.
func (c *client) submitDetails(ctx context.Context, key providers.SubKey, details detailsRequest) (*paymentAnswer, error) {
	return c.payment(ctx, "submit payment details", "/payments/details", key, details)
}

func (c *client) payment(ctx context.Context, call, path string, key providers.SubKey, body any) (*paymentAnswer, error) {
	answer := &paymentAnswer{}
	header, err := c.post(ctx, call, path, key, body, answer)
	if err != nil {
		return nil, err
	}
	answer.Transient = isTransient(header)
	return answer, nil
}

// capture takes authorized money.
func (c *client) capture(ctx context.Context, key providers.SubKey, payment string, money amount) (*modificationAnswer, error) {
	return c.modify(ctx, "capture payment", "/payments/"+payment+"/captures", key, modificationRequest{Amount: &money})
}

// cancel lets go of a payment that is authorized only.
func (c *client) cancel(ctx context.Context, key providers.SubKey, payment string) (*modificationAnswer, error) {
	return c.modify(ctx, "cancel payment", "/payments/"+payment+"/cancels", key, modificationRequest{})
}

// cancelByReference lets go of a payment of which only our own reference is known.
func (c *client) cancelByReference(ctx context.Context, key, charge providers.SubKey) (*modificationAnswer, error) {
	return c.modify(ctx, "cancel payment by reference", "/cancels", key, modificationRequest{PaymentReference: charge.AdyenReference()})
}

// reverse cancels or refunds the whole payment, whichever fits.
func (c *client) reverse(ctx context.Context, key providers.SubKey, payment string) (*modificationAnswer, error) {
	return c.modify(ctx, "reverse payment", "/payments/"+payment+"/reversals", key, modificationRequest{})
}

// refund gives back money, all or a part.
func (c *client) refund(ctx context.Context, key providers.SubKey, payment string, money amount) (*modificationAnswer, error) {
	return c.modify(ctx, "refund payment", "/payments/"+payment+"/refunds", key, modificationRequest{Amount: &money})
}

func (c *client) modify(
	ctx context.Context, call, path string, key providers.SubKey, body modificationRequest,
) (*modificationAnswer, error) {
	body.MerchantAccount, body.Reference = c.merchantAccount, key.AdyenReference()
	answer := &modificationAnswer{}
	if _, err := c.post(ctx, call, path, key, body, answer); err != nil {
		return nil, err
	}
	return answer, nil
}

// post makes one call and reads its answer into answer. Every error is a *callError.
func (c *client) post(ctx context.Context, call, path string, key providers.SubKey, body, answer any) (http.Header, error) {
	ctx, cancel := context.WithTimeout(ctx, c.timeout)
	defer cancel()
	ctx, seen := wire.Watch(ctx)
	request, err := c.newRequest(ctx, path, key, body)
	if err != nil {
		return nil, callFailed(seen, call, err)
	}
	response, err := c.http.Do(request)
	if err != nil {
		return nil, callFailed(seen, call, err)
	}
	defer func() { _ = response.Body.Close() }()
	whole, err := io.ReadAll(response.Body)
	switch {
	case err != nil:
		return nil, callFailed(seen, call, err)
	case response.StatusCode >= http.StatusMultipleChoices:
		return nil, callRefused(seen, call, whole)
	case isOtherKey(response.Header, key):
		return nil, callFailed(seen, call, errOtherKey)
	}
	if err := json.Unmarshal(whole, answer); err != nil {
		return nil, callFailed(seen, call, err)
	}
	return response.Header, nil
}

func (c *client) newRequest(ctx context.Context, path string, key providers.SubKey, body any) (*http.Request, error) {
	encoded, err := json.Marshal(body)
	if err != nil {
		return nil, err //nolint:wrapcheck // becomes a *callError, which says what call it was
	}
	request, err := http.NewRequestWithContext(ctx, http.MethodPost, c.baseURL+path, bytes.NewReader(encoded))
	if err != nil {
		return nil, err //nolint:wrapcheck // as above
	}
	request.Header.Set("Content-Type", "application/json")
	request.Header.Set("Accept", "application/json")
	request.Header.Set("User-Agent", "paysaga")
	request.Header.Set("Idempotency-Key", key.AdyenReference())
	request.Header.Set("X-Api-Key", c.apiKey)
	return request, nil
}

var (
	errRefused  = errors.New("answer is a refusal")
	errOtherKey = errors.New("answer is to another idempotency key")
)

// callError is how a call failed.
type callError struct {
	*wire.CallError

	refusal serviceError // Adyen's own words; zero when there are none
}

func callFailed(seen *wire.Exchange, call string, cause error) *callError {
	return &callError{CallError: seen.Failed(call, cause)}
}

// callRefused reads Adyen's own words out of an error's body. A body without an error code is by something in between.
func callRefused(seen *wire.Exchange, call string, body []byte) *callError {
	failure := callFailed(seen, call, errRefused)
	if err := json.Unmarshal(body, &failure.refusal); err != nil {
		failure.refusal = serviceError{}
	}
	return failure
}

// isOtherKey tells an answer that was meant for another call: Adyen echoes the key.
func isOtherKey(header http.Header, key providers.SubKey) bool {
	echo := header.Get("Idempotency-Key")
	return echo != "" && echo != key.AdyenReference()
}

// isTransient tells that Adyen asks for the same call again, under the same key.
func isTransient(header http.Header) bool { return header.Get(headerTransient) == transientYes }
