package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"path"
	"strconv"
	"strings"
	"sync/atomic"
	"time"

	"github.com/google/uuid"

	"paysaga/api"
)

const (
	// maxContractRequests is three times what all scenarios send, so that one that does not end stops.
	maxContractRequests = 3000
	// afterKeyWait is what has to be left of the run's time after a wait for the limit on new keys: most scenarios end within it.
	afterKeyWait = 5 * time.Second
)

// errKeysLimited: the server limits new keys, and lets the next one begin when the run is over. It breaks no promise.
var errKeysLimited = errors.New("the server limits new keys")

// sender carries the requests of a run, and counts them.
type sender struct {
	http *http.Client
	sent atomic.Int64
}

func newSender() *sender {
	transport := http.DefaultTransport.(*http.Transport).Clone() //nolint:errcheck,forcetypeassert // what the standard library has there
	transport.MaxIdleConnsPerHost = twentyAtOnce
	return &sender{http: &http.Client{
		Transport:     transport,
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }, // a key must not wander off
		Timeout:       sendTimeout,
	}}
}

// client is an account's shop at one server.
type client struct {
	server  string
	secret  string
	sender  *sender
	patient bool // waits when the server limits new keys
}

// at is the same shop at another server.
func (c client) at(server string) client {
	c.server = server
	return c
}

// message is one request.
type message struct {
	method, path string
	keys         []string // Idempotency-Key, as often as there are
	header       map[string]string
	body         any // []byte is sent as it is, anything else as JSON; nil is none
}

// response is one answer.
type response struct {
	status int
	header http.Header
	body   []byte
}

// post sends a POST under a key.
func (c client) post(ctx context.Context, path, key string, body any) (response, error) {
	return c.send(ctx, message{method: http.MethodPost, path: path, keys: []string{key}, body: body})
}

// place sends an order.
func (c client) place(ctx context.Context, key string, order any) (response, error) {
	return c.post(ctx, ordersPath, key, order)
}

func (c client) get(ctx context.Context, path string) (response, error) {
	return c.send(ctx, message{method: http.MethodGet, path: path})
}

// read gets what must be there.
func (c client) read(ctx context.Context, path string, into any) error {
	answer, err := c.get(ctx, path)
	if err != nil {
		return err
	}
	if answer.status != http.StatusOK {
		return fmt.Errorf("GET %s is answered %s", path, answer)
	}
	if err := json.Unmarshal(answer.body, into); err != nil {
		return fmt.Errorf("GET %s: read the answer: %w", path, err)
	}
	return nil
}

// contractStock is far more than a run sells.
const contractStock = 1000

func (c client) putStock(ctx context.Context, sku string) error {
	answer, err := c.send(ctx, message{method: http.MethodPut, path: "/v1/stock/" + sku, body: api.StockRequest{OnHand: contractStock}})
	if err == nil && answer.status != http.StatusOK {
		err = fmt.Errorf("it is answered %s", answer)
	}
	return err
}

// send sends a request once, or again where it waits for the limit on new keys: each time as long as the server says, as long as the
// run has time. The error is errKeysLimited where it has not.
func (c client) send(ctx context.Context, m message) (response, error) {
	for {
		answer, err := c.sendOnce(ctx, m)
		if err != nil {
			return answer, fmt.Errorf("%s %s: %w", m.method, m.path, err)
		}
		if !c.patient || answer.status != http.StatusTooManyRequests {
			return answer, nil
		}
		pause := max(answer.retryAfter(), time.Second)
		if until, bound := ctx.Deadline(); bound && time.Until(until) < pause+afterKeyWait {
			return answer, errKeysLimited
		}
		if err := wait(ctx, pause); err != nil {
			return answer, err
		}
	}
}

func (c client) sendOnce(ctx context.Context, m message) (response, error) {
	if c.sender.sent.Add(1) > maxContractRequests {
		return response{}, fmt.Errorf("more than %d requests are not sent", maxContractRequests)
	}
	content, err := m.content()
	if err != nil {
		return response{}, err
	}
	request, err := http.NewRequestWithContext(ctx, m.method, c.server+m.path, content)
	if err != nil {
		return response{}, fmt.Errorf("make the request: %w", err)
	}
	request.GetBody = nil // net/http would repeat by itself what is to be seen here
	request.Header.Set("Authorization", "Bearer "+c.secret)
	if m.body != nil {
		request.Header.Set("Content-Type", "application/json")
	}
	for name, value := range m.header {
		request.Header.Set(name, value)
	}
	for _, key := range m.keys {
		request.Header.Add("Idempotency-Key", key)
	}
	return c.sender.carry(request)
}

func (m message) content() (io.Reader, error) {
	switch body := m.body.(type) {
	case nil:
		return http.NoBody, nil
	case []byte:
		return bytes.NewReader(body), nil
	default:
		content, err := json.Marshal(body)
		if err != nil {
			return nil, fmt.Errorf("encode the request: %w", err)
		}
		return bytes.NewReader(content), nil
	}
}

func (w *sender) carry(request *http.Request) (response, error) {
	answer, err := w.http.Do(request)
	if err != nil {
		if inner := errors.Unwrap(err); inner != nil { // without the URL, which the caller names
			err = inner
		}
		return response{}, err
	}
	defer func() { _ = answer.Body.Close() }() // it was read to its end
	content, err := io.ReadAll(io.LimitReader(answer.Body, maxAnswer))
	if err != nil {
		return response{}, fmt.Errorf("read the answer: %w", err)
	}
	return response{status: answer.StatusCode, header: answer.Header, body: content}, nil
}

// String is how problems tell of an answer.
func (r response) String() string {
	if r.status == 0 {
		return "nothing"
	}
	return strings.TrimSpace(strconv.Itoa(r.status) + " " + r.word())
}

// word is what the answer says in a word: the last part of a problem's type, or the status of what came back.
func (r response) word() string {
	if r.status >= http.StatusBadRequest {
		if kind := r.problem().Type; kind != "" {
			return path.Base(kind)
		}
		return ""
	}
	return string(r.order().Status)
}

func (r response) problem() api.Problem { return parsed[api.Problem](r) }

func (r response) order() api.Order { return parsed[api.Order](r) }

func (r response) orderID() string {
	if id := r.order().ID; id != uuid.Nil {
		return id.String()
	}
	return ""
}

// parsed is the zero value where the body is something else.
func parsed[T any](r response) T {
	var value, none T
	if json.Unmarshal(r.body, &value) != nil {
		return none
	}
	return value
}

func (r response) replayed() bool { return r.header.Get("Idempotency-Replayed") == "true" }

// retryAfter is 0 when the header is missing or no number of seconds.
func (r response) retryAfter() time.Duration {
	seconds, err := strconv.Atoi(r.header.Get("Retry-After"))
	if err != nil {
		return 0
	}
	return time.Duration(seconds) * time.Second
}

// inProgress: the key is being worked on.
func (r response) inProgress() bool {
	return r.status == http.StatusConflict && r.word() == "request-in-progress"
}

func (r response) same(other response) bool {
	return r.status == other.status && bytes.Equal(r.body, other.body)
}

// passes: the answer says nothing final.
func (r response) passes() bool { return r.inProgress() || r.status >= http.StatusInternalServerError }
