package lifecycle_test

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"path"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"paysaga/internal/account"
	"paysaga/internal/httpapi"
	"paysaga/internal/idempotency"
	"paysaga/internal/postgres"
	"paysaga/saga"
)

// The scopes of keys, which are a part of every identifier.
const (
	toOrder    = "POST /v1/orders"
	toContinue = "POST /v1/orders/{id}/continue"
	toCapture  = "POST /v1/orders/{id}/capture"
	toCancel   = "POST /v1/orders/{id}/cancel"
	toRefund   = "POST /v1/orders/{id}/refunds"
)

const (
	// retention is longer than any test's time.
	retention = 3 * 365 * 24 * time.Hour
	maxBody   = 64 << 10
)

// front is the address of the API. Behind it is one server after the other.
type front struct {
	url     string
	secret  string // the shop's API key
	current atomic.Pointer[server]
}

// openFront serves the API over HTTP. Whatever it does goes through the server of the moment.
func (h *house) openFront(t *testing.T) {
	t.Helper()
	h.front = &front{}
	policy := idempotency.Default()
	policy.Retention, policy.KeysPerMinute = retention, 0
	store := frontStore{h.store(), h.front}
	guard, err := idempotency.NewGuard(idempotency.Config{
		Store: store, Policy: policy, Lease: lease, Meter: h.watch.Idempotency(), Logger: h.logger,
	})
	h.must(err)
	handler, err := httpapi.New(httpapi.Config{
		Store: store, Runner: h.front, Guard: guard, MaxBody: maxBody, Logger: h.logger,
		Metrics: h.watch.Handler(), Observe: h.watch.Middleware,
		Webhooks: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { h.front.current.Load().inbox.ServeHTTP(w, r) }),
	})
	h.must(err)
	listening := httptest.NewServer(handler)
	t.Cleanup(listening.Close)
	h.front.url = listening.URL
	key, secret, err := account.NewKey(shop, "lifecycle", account.Merchant)
	h.must(err)
	h.must(h.store().CreateAPIKey(t.Context(), key, account.HashSecret(secret), "lifecycle"))
	h.front.secret = secret
}

// frontStore is the database as the server of the moment sees it.
type frontStore struct {
	*postgres.Store

	front *front
}

func (s frontStore) LookupKey(ctx context.Context, accountID, endpoint, key string) (idempotency.Record, bool, error) {
	return s.front.current.Load().store.LookupKey(ctx, accountID, endpoint, key)
}

func (f *front) Start(ctx context.Context, claim saga.Claim, order saga.Order) (saga.Answer, error) {
	return f.current.Load().runner.Start(ctx, claim, order)
}

func (f *front) Ask(ctx context.Context, claim saga.Claim, order saga.Ref, ask saga.Request) (saga.Answer, error) {
	return f.current.Load().runner.Ask(ctx, claim, order, ask)
}

func (f *front) Refund(ctx context.Context, claim saga.Claim, order saga.Ref, amount int64, reason string) (saga.Answer, error) {
	return f.current.Load().runner.Refund(ctx, claim, order, amount, reason)
}

func (f *front) TakeOver(ctx context.Context, ref saga.Ref, fence int64) (saga.Answer, error) {
	return f.current.Load().runner.TakeOver(ctx, ref, fence)
}

// request is one request of the shop. The same request may be sent any number of times.
type request struct {
	endpoint string
	key      string
	id       orderID // of the order that it is about
	body     map[string]any
}

func (r request) name() string { return path.Base(r.endpoint) + " " + r.key }

// header is the Idempotency-Key, of at least 16 characters.
func (r request) header() string {
	return fmt.Sprintf("key-%020s", strings.ReplaceAll(r.key, " ", "-"))
}

// sagaKey is derived from the request's key alone: an order's id, a refund's, or what a capture's identifiers come from.
func (r request) sagaKey() orderID { return saga.Key(shop, r.endpoint, r.header(), 1) }

// reply is what the shop gets. Without a status the connection broke.
type reply struct {
	Status   int
	Problem  string // the problem's type, if it is one
	Body     string
	Replayed bool
	Kept     bool // it is the one answer that is stored under the request's key
}

// String is the status, and what the body is about.
func (r reply) String() string {
	var body struct {
		Status any `json:"status"`
	}
	if r.Problem != "" || json.Unmarshal([]byte(r.Body), &body) != nil {
		return fmt.Sprintf("%d %s", r.Status, r.Problem)
	}
	return fmt.Sprintf("%d %v", r.Status, body.Status)
}

// send sends a request to the API. Whoever asks a server that dies gets nothing.
func (h *house) send(r request) reply {
	h.Helper()
	address := h.front.url + "/v1/orders"
	if r.endpoint != toOrder {
		address += "/" + r.id.String() + "/" + path.Base(r.endpoint)
	}
	body, err := json.Marshal(r.body)
	h.must(err)
	posted, err := http.NewRequestWithContext(h.Context(), http.MethodPost, address, bytes.NewReader(body))
	h.must(err)
	posted.Header.Set("Content-Type", "application/json")
	posted.Header.Set("Authorization", "Bearer "+h.front.secret)
	posted.Header.Set("Idempotency-Key", r.header())
	h.book.Request(posted.Header, string(body))
	answer, err := h.client.Do(posted)
	h.must(err)
	defer func() { _ = answer.Body.Close() }()
	content, err := io.ReadAll(answer.Body)
	h.must(err)
	h.book.Body("an answer", string(content))
	if h.front.current.Load().dead() {
		return reply{}
	}
	got := reply{Status: answer.StatusCode, Body: string(content), Replayed: answer.Header.Get("Idempotency-Replayed") == "true"}
	if answer.Header.Get("Content-Type") == "application/problem+json" {
		var problem struct {
			Type string `json:"type"`
		}
		h.must(json.Unmarshal(content, &problem))
		got.Problem = path.Base(problem.Type)
	}
	record, used, err := h.store().LookupKey(h.Context(), shop, r.endpoint, r.header())
	h.must(err)
	got.Kept = used && record.Status != idempotency.InProgress && record.Answer.Status == got.Status && string(record.Answer.Body) == got.Body
	return got
}

// orderBody is an order as the API takes it.
func orderBody(o saga.Order) map[string]any {
	item := o.Items[0]
	return map[string]any{
		"currency": o.Currency, "amount": o.Amount,
		"items":    []map[string]any{{"sku": item.SKU, "quantity": item.Quantity, "unit_amount": item.UnitAmount}},
		"customer": map[string]any{"reference": o.Customer.Reference},
		"payment": map[string]any{
			"provider": o.Payment.Provider, "method": o.Payment.Method, "capture": o.Payment.Capture, "on_decline": o.Payment.OnDecline,
			"return_url": o.Payment.ReturnURL,
		},
	}
}

func otherPayment(provider, kind string) map[string]any {
	return map[string]any{"payment": map[string]any{
		"provider": provider, "method": methods[provider][kind], "return_url": "https://shop.example/back",
	}}
}

// part is a capture or a refund; amount 0 is all that there is.
func part(amount int64) map[string]any {
	if amount == 0 {
		return map[string]any{}
	}
	return map[string]any{"amount": amount}
}

func capturePart(amount int64, final bool) map[string]any {
	body := part(amount)
	body["final"] = final
	return body
}
