package paypal

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"net/url"
	"strconv"
	"time"

	"golang.org/x/oauth2"

	"paysaga/providers"
	"paysaga/providers/wire"
)

// maxAuthentications is how often a call is sent when PayPal answers 401: once more, with a fresh token. A token that is refused
// twice in a row will not get better.
const maxAuthentications = 2

// searchPageSize is the most that the transaction search gives in a page.
const searchPageSize = 500

// searchTime is how the search takes times.
const searchTime = "2006-01-02T15:04:05.000Z07:00"

// client makes the calls: the only place that knows PayPal's paths and headers.
//
// It never repeats a call by itself but for a 401, which did nothing; nor does net/http (see package wire).
type client struct {
	base    string
	http    *http.Client
	tokens  *tokens
	timeout time.Duration
}

func newClient(config Config) *client {
	bounded := wire.Client(config.HTTPClient, wire.MaxBody)
	return &client{
		base:    config.BaseURL,
		http:    bounded,
		tokens:  newTokens(config, bounded),
		timeout: config.CallTimeout,
	}
}

// request is one call.
type request struct {
	name      string // for errors
	method    string
	path      string // its variable parts match idForm
	query     url.Values
	requestID string // PayPal-Request-Id; empty for calls that have none
	body      []byte
	mayBeMute bool // an answer without a body is a whole one
}

// createOrder creates an order. With a stored method PayPal charges it in the same call: there is no moment at which such an
// order exists that this call did not also try to take.
func (c *client) createOrder(ctx context.Context, key providers.SubKey, wanted orderRequest) (*order, error) {
	return c.postOrder(ctx, "create order", "/v2/checkout/orders", key.PayPalRequestID(), wanted)
}

// finishOrder takes ("capture") or holds ("authorize") the money of an approved order.
func (c *client) finishOrder(ctx context.Context, id string, verb finishing, requestID string) (*order, error) {
	return c.postOrder(ctx, string(verb)+" order", "/v2/checkout/orders/"+id+"/"+string(verb), requestID, struct{}{})
}

func (c *client) postOrder(ctx context.Context, name, path, requestID string, body any) (*order, error) {
	answered := new(order)
	if err := c.post(ctx, name, path, requestID, body, answered); err != nil {
		return nil, err
	}
	return answered, nil
}

// order is one order as it stands now, with all its payments.
func (c *client) order(ctx context.Context, id string) (*order, error) {
	answered := new(order)
	if err := c.get(ctx, "get order", "/v2/checkout/orders/"+id, nil, answered); err != nil {
		return nil, err
	}
	return answered, nil
}

func (c *client) captureAuthorization(ctx context.Context, id string, key providers.SubKey, body captureBody) (*capture, error) {
	answered := new(capture)
	err := c.post(ctx, "capture authorization", "/v2/payments/authorizations/"+id+"/capture", key.PayPalRequestID(), body, answered)
	if err != nil {
		return nil, err
	}
	return answered, nil
}

// voidAuthorization gives an empty authorization for PayPal's usual answer, which has no body. The call takes no PayPal-Request-Id;
// a second void of the same authorization is refused as PREVIOUSLY_VOIDED, which serves as well.
func (c *client) voidAuthorization(ctx context.Context, id string) (*authorization, error) {
	answered := new(authorization)
	err := c.do(ctx, request{
		name: "void authorization", method: http.MethodPost, path: "/v2/payments/authorizations/" + id + "/void", mayBeMute: true,
	}, answered)
	if err != nil {
		return nil, err
	}
	return answered, nil
}

func (c *client) refundCapture(ctx context.Context, id string, key providers.SubKey, body refundBody) (*refund, error) {
	answered := new(refund)
	err := c.post(ctx, "refund capture", "/v2/payments/captures/"+id+"/refund", key.PayPalRequestID(), body, answered)
	if err != nil {
		return nil, err
	}
	return answered, nil
}

func (c *client) refund(ctx context.Context, id string) (*refund, error) {
	answered := new(refund)
	if err := c.get(ctx, "get refund", "/v2/payments/refunds/"+id, nil, answered); err != nil {
		return nil, err
	}
	return answered, nil
}

// orderOf is the id of the order to which a capture or an authorization belongs; empty when PayPal does not tell.
func (c *client) orderOf(ctx context.Context, kind, id string) (string, error) {
	var answered struct {
		Data supplementaryData `json:"supplementary_data"`
	}
	if err := c.get(ctx, "get "+kind, "/v2/payments/"+kind+"/"+id, nil, &answered); err != nil {
		return "", err
	}
	return answered.Data.Related.OrderID, nil
}

// transactions is one page of the transactions that began between two times. Those that moved no balance, such as
// authorizations, are included.
func (c *client) transactions(ctx context.Context, from, to time.Time, page int) (*transactionPage, error) {
	answered := new(transactionPage)
	query := url.Values{
		"start_date":                     {from.UTC().Format(searchTime)},
		"end_date":                       {to.UTC().Add(time.Millisecond).Format(searchTime)}, // what is cut off must not be missed
		"fields":                         {"transaction_info"},
		"balance_affecting_records_only": {"N"},
		"page_size":                      {strconv.Itoa(searchPageSize)},
		"page":                           {strconv.Itoa(page)},
	}
	if err := c.get(ctx, "search transactions", "/v1/reporting/transactions", query, answered); err != nil {
		return nil, err
	}
	return answered, nil
}

func (c *client) post(ctx context.Context, name, path, requestID string, body, into any) error {
	encoded, err := json.Marshal(body)
	if err != nil {
		return notSent(name, err)
	}
	return c.do(ctx, request{name: name, method: http.MethodPost, path: path, requestID: requestID, body: encoded}, into)
}

func (c *client) get(ctx context.Context, name, path string, query url.Values, into any) error {
	return c.do(ctx, request{name: name, method: http.MethodGet, path: path, query: query}, into)
}

// do makes a call and reads its answer into "into". Every error is a *callError.
func (c *client) do(ctx context.Context, r request, into any) error {
	ctx, cancel := context.WithTimeout(ctx, c.timeout)
	defer cancel()
	var seen *wire.Exchange
	var body []byte
	for range maxAuthentications {
		token, err := c.tokens.token(ctx)
		if err != nil {
			return notSent(r.name, err)
		}
		if seen, body, err = c.send(ctx, r, token); err != nil {
			return err
		}
		if seen.Status != http.StatusUnauthorized {
			break
		}
		c.tokens.forget(token)
	}
	return read(seen, r, body, into)
}

// send makes one request and reads the body of its answer.
func (c *client) send(ctx context.Context, r request, token *oauth2.Token) (*wire.Exchange, []byte, error) {
	ctx, seen := wire.Watch(ctx)
	address := c.base + r.path
	if len(r.query) > 0 {
		address += "?" + r.query.Encode()
	}
	sent, err := http.NewRequestWithContext(ctx, r.method, address, bytes.NewReader(r.body))
	if err != nil {
		return nil, nil, callFailed(seen, r.name, err)
	}
	token.SetAuthHeader(sent)
	sent.Header.Set("Accept", "application/json")
	sent.Header.Set("User-Agent", "paysaga")
	if r.method == http.MethodPost {
		sent.Header.Set("Content-Type", "application/json") // wanted even where there is no body
	}
	if r.requestID != "" {
		sent.Header.Set("Paypal-Request-Id", r.requestID)
		sent.Header.Set("Prefer", "return=representation") // else the answer leaves out the payments, by which it is judged
	}
	response, err := c.http.Do(sent)
	if err != nil {
		return nil, nil, callFailed(seen, r.name, err)
	}
	defer response.Body.Close() //nolint:errcheck // the body is read whole, or lost anyway
	body, err := io.ReadAll(response.Body)
	if err != nil {
		return nil, nil, callFailed(seen, r.name, err)
	}
	return seen, body, nil
}

// read takes a 2xx with a whole JSON body for an answer, and nothing else.
func read(seen *wire.Exchange, r request, body []byte, into any) error {
	if seen.Status < http.StatusOK || seen.Status >= http.StatusMultipleChoices {
		failure := callFailed(seen, r.name, errUnreadable)
		failure.problem = readProblem(body)
		return failure
	}
	if r.mayBeMute && len(bytes.TrimSpace(body)) == 0 {
		return nil
	}
	if err := json.Unmarshal(body, into); err != nil {
		return callFailed(seen, r.name, errUnreadable) // not the cause: it quotes the body
	}
	return nil
}

// errUnreadable is the cause of failures whose own cause must not be shown.
var errUnreadable = errors.New("answer cannot be read")

// callError is how a call failed.
type callError struct {
	*wire.CallError

	problem *problem // PayPal's own words; nil when there are none
}

func callFailed(seen *wire.Exchange, call string, cause error) *callError {
	return &callError{CallError: seen.Failed(call, cause)}
}

func notSent(call string, cause error) *callError {
	return &callError{CallError: &wire.CallError{Call: call, Cause: cause, NothingSent: true}}
}

// readProblem reads an error in PayPal's own words; nil for anything else.
func readProblem(body []byte) *problem {
	read := new(problem)
	if json.Unmarshal(body, read) != nil || !codeForm.MatchString(read.Name) {
		return nil
	}
	return read
}
