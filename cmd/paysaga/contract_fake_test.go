package main

import (
	"bytes"
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/uuid"

	"paysaga/api"
	"paysaga/providers/sandbox"
)

// fakeServer keeps the contract but for its flaw, as far as the scenarios go that need nothing but HTTP. It is the sandbox as well.
type fakeServer struct {
	flaw flaw

	mu      sync.Mutex
	keys    map[string]*fakeKey // by account and key
	orders  map[string]*fakeOrder
	skus    map[string]bool
	charges []sandbox.Charge
	away    bool // the provider
	limit   *fakeLimit
}

// fakeLimit is of new keys; nil is none.
type fakeLimit struct {
	mu    sync.Mutex
	begun time.Time
	taken int
}

func (l *fakeLimit) take() bool {
	if l == nil {
		return true
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.taken >= keysPerMinute+int(time.Since(l.begun).Minutes()*keysPerMinute) {
		return false
	}
	l.taken++
	return true
}

type fakeKey struct {
	fingerprint string
	answer      *fakeAnswer // nil while the request runs
}

type fakeAnswer struct {
	status   int
	location string
	body     []byte
}

type fakeOrder struct {
	account string
	shown   api.Order
}

func newFakeServer(t *testing.T, f flaw, limit *fakeLimit) *httptest.Server {
	t.Helper()
	fake := &fakeServer{flaw: f, keys: map[string]*fakeKey{}, orders: map[string]*fakeOrder{}, skus: map[string]bool{}, limit: limit}
	mux := http.NewServeMux()
	mux.HandleFunc("POST /v1/orders/{id}/refunds", fake.refund)
	mux.HandleFunc("POST /_sandbox/faults", fake.setAway(true))
	mux.HandleFunc("DELETE /_sandbox/faults", fake.setAway(false))
	mux.HandleFunc("GET /_sandbox/ledger", fake.ledger)
	mux.HandleFunc("PUT /v1/stock/{sku}", fake.putStock)
	mux.HandleFunc("POST /v1/orders", fake.placeOrder)
	mux.HandleFunc("GET /v1/orders/{id}", fake.show)
	mux.HandleFunc("GET /v1/orders/{id}/{part}", fake.show)
	mux.HandleFunc("GET /v1/idempotency-keys/{key}", fake.showKey)
	server := httptest.NewServer(mux)
	t.Cleanup(server.Close)
	return server
}

func (f *fakeServer) refuse(w http.ResponseWriter, status int, slug string) {
	if f.flaw == plainProblems {
		http.Error(w, slug, status)
		return
	}
	w.Header().Set("Content-Type", "application/problem+json")
	w.WriteHeader(status)
	_, _ = fmt.Fprintf(w, `{"type":"/problems/%s","title":"t","status":%d,"detail":"d"}`, slug, status)
}

func encoded(value any) []byte {
	content, err := json.Marshal(value)
	if err != nil {
		panic(err)
	}
	return content
}

func (f *fakeServer) putStock(w http.ResponseWriter, r *http.Request) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.skus[r.PathValue("sku")] = true
	_, _ = io.WriteString(w, `{}`)
}

func (f *fakeServer) show(w http.ResponseWriter, r *http.Request) {
	f.mu.Lock()
	defer f.mu.Unlock()
	order, known := f.orders[r.PathValue("id")]
	if !known || order.account != r.Header.Get("Authorization") && f.flaw != showsOthers {
		f.refuse(w, http.StatusNotFound, "not-found")
		return
	}
	_, _ = w.Write(encoded(order.shown))
}

func (f *fakeServer) setAway(away bool) http.HandlerFunc {
	return func(http.ResponseWriter, *http.Request) {
		f.mu.Lock()
		defer f.mu.Unlock()
		f.away = away
	}
}

func (f *fakeServer) ledger(w http.ResponseWriter, _ *http.Request) {
	f.mu.Lock()
	defer f.mu.Unlock()
	_, _ = w.Write(encoded(map[string]any{"charges": f.charges}))
}

// refund gives money back, under a key.
func (f *fakeServer) refund(w http.ResponseWriter, r *http.Request) {
	id := r.PathValue("id")
	f.mu.Lock()
	order, known := f.orders[id]
	f.mu.Unlock()
	if !known || order.account != r.Header.Get("Authorization") {
		f.refuse(w, http.StatusNotFound, "not-found")
		return
	}
	var request api.RefundRequest
	_ = json.NewDecoder(r.Body).Decode(&request)
	f.answerKeyed(w, "refunds | "+r.Header.Get("Idempotency-Key"), fmt.Sprintf("%s %d", id, request.Amount), func() *fakeAnswer {
		order.shown.Payment.RefundedAmount += request.Amount
		return &fakeAnswer{status: http.StatusCreated, location: r.URL.Path, body: fmt.Appendf(nil, `{"status":%q}`, uuid.New())}
	})
}

func (f *fakeServer) showKey(w http.ResponseWriter, r *http.Request) {
	f.mu.Lock()
	defer f.mu.Unlock()
	for name, kept := range f.keys {
		account, key, _ := strings.Cut(name, " | ")
		if key == r.PathValue("key") && (account == r.Header.Get("Authorization") || f.flaw == showsOthersKeys) {
			_, _ = w.Write(encoded(api.KeyRecord{
				Endpoint: "POST /v1/orders", Status: api.KeyStatusCOMPLETED, Generation: 1, ResponseStatus: kept.answer.status,
				SagaKey: new(uuid.MustParse(response{body: kept.answer.body}.orderID())),
			}))
			return
		}
	}
	f.refuse(w, http.StatusNotFound, "not-found")
}

func (f *fakeServer) placeOrder(w http.ResponseWriter, r *http.Request) {
	body, _ := io.ReadAll(r.Body) // what is missing is no order
	key, slug, status := f.parseKey(r.Header.Values("Idempotency-Key"))
	if slug != "" {
		f.refuse(w, status, slug)
		return
	}
	account := r.Header.Get("Authorization")
	kept := account + " | " + key
	if f.flaw == sharesKeys {
		kept = "everybody | " + key
	}
	var order api.OrderRequest
	if slug, status := f.check(body, &order); slug != "" {
		if f.flaw == keepsInvalid {
			f.mu.Lock()
			f.keys[kept] = &fakeKey{fingerprint: "invalid"}
			f.mu.Unlock()
		}
		f.refuse(w, status, slug)
		return
	}
	f.answerKeyed(w, kept, f.fingerprint(body, order), func() *fakeAnswer { return f.execute(account, order) })
}

// parseKey gives the key, or the problem with it.
func (f *fakeServer) parseKey(keys []string) (key, slug string, status int) {
	switch {
	case len(keys) == 0 && f.flaw == acceptsNoKey:
		return uuid.NewString(), "", 0
	case len(keys) == 0:
		return "", "idempotency-key-missing", http.StatusUnprocessableEntity
	case f.flaw == acceptsBadKeys:
		return keys[0], "", 0
	}
	key = keys[0]
	if strings.HasPrefix(key, `"`) && strings.HasSuffix(key, `"`) {
		key = strings.Trim(key, `"`)
	}
	if len(keys) > 1 || len(key) < 16 || len(key) > 255 || strings.ContainsAny(key, ` "`) {
		return "", "idempotency-key-invalid", http.StatusBadRequest
	}
	return key, "", 0
}

// fakeRequest is an order as it may be spelled: an amount of 1999.0 is as good as 1999.
type fakeRequest struct {
	Amount   float64            `json:"amount"`
	Items    []api.Item         `json:"items"`
	Payment  api.PaymentRequest `json:"payment"`
	Customer *api.Customer      `json:"customer"`
	Currency string             `json:"currency"`
	Metadata api.Metadata       `json:"metadata"`
}

// check gives the problem of a request that claims no key.
func (f *fakeServer) check(body []byte, order *api.OrderRequest) (slug string, status int) {
	var written fakeRequest
	decoder := json.NewDecoder(bytes.NewReader(body))
	decoder.DisallowUnknownFields()
	if decoder.Decode(&written) != nil || len(written.Items) != 1 {
		return "invalid-request", http.StatusBadRequest
	}
	item := written.Items[0]
	*order = api.OrderRequest{
		Amount: int64(written.Amount), Currency: written.Currency, Payment: written.Payment, Customer: written.Customer,
		Metadata: written.Metadata, Items: written.Items,
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	switch {
	case order.Amount != item.Quantity*item.UnitAmount:
		return "invalid-request", http.StatusBadRequest
	case !f.skus[item.SKU]:
		return "unknown-sku", http.StatusUnprocessableEntity
	}
	return "", 0
}

func (f *fakeServer) fingerprint(body []byte, order api.OrderRequest) string {
	switch f.flaw {
	case countsSpelling:
		return fmt.Sprintf("%x", sha256.Sum256(body))
	case countsMetadata:
	default:
		order.Metadata = nil
	}
	return string(encoded(order))
}

func (f *fakeServer) answerKeyed(w http.ResponseWriter, key, fingerprint string, execute func() *fakeAnswer) {
	f.mu.Lock()
	defer f.mu.Unlock()
	kept, used := f.keys[key]
	if (!used || f.flaw == limitsRepeats) && f.flaw != ignoresLimit && !f.limit.take() {
		f.refuseMore(w)
		return
	}
	if !used || f.flaw == executesAgain {
		kept = &fakeKey{fingerprint: fingerprint}
		f.keys[key] = kept
	} else if f.answerKnown(w, kept, fingerprint) {
		return
	}
	f.mu.Unlock()
	const slow = 300 * time.Millisecond // so that those that come at once meet it
	if strings.Contains(key, "-running") {
		<-time.After(slow)
	}
	f.mu.Lock()
	answer := execute()
	if kept.answer == nil && f.keeps(answer) {
		kept.answer = answer
	}
	if kept.answer == nil {
		delete(f.keys, key)
	}
	f.send(w, answer, false)
}

// answerKnown answers under a key that is known, unless the request shall be executed all the same.
func (f *fakeServer) answerKnown(w http.ResponseWriter, kept *fakeKey, fingerprint string) bool {
	switch {
	case kept.fingerprint != fingerprint && f.flaw != conflates:
		f.refuseReuse(w, kept)
	case kept.answer != nil:
		f.send(w, kept.answer, true)
	case f.flaw == failsWhileRunning:
		f.refuse(w, http.StatusServiceUnavailable, "unavailable")
	case f.flaw == executesTwice:
		return false
	default:
		if f.flaw != hurries {
			w.Header().Set("Retry-After", "1")
		}
		f.refuse(w, http.StatusConflict, "request-in-progress")
	}
	return true
}

func (f *fakeServer) keeps(answer *fakeAnswer) bool {
	switch {
	case answer.status >= http.StatusInternalServerError:
		return f.flaw == keepsTrouble
	case answer.status >= http.StatusBadRequest:
		return f.flaw != keepsNothing
	}
	return true
}

func (f *fakeServer) refuseMore(w http.ResponseWriter) {
	if f.flaw != limitsSilently {
		w.Header().Set("Retry-After", "3")
		w.Header().Set("Ratelimit", `"keys";r=0;t=3`)
		w.Header().Set("Ratelimit-Policy", `"keys";q=20;w=60`)
	}
	f.refuse(w, http.StatusTooManyRequests, "too-many-new-keys")
}

func (f *fakeServer) refuseReuse(w http.ResponseWriter, kept *fakeKey) {
	if kept.answer != nil && f.flaw == leaks {
		w.Header().Set("Content-Type", "application/problem+json")
		w.WriteHeader(http.StatusUnprocessableEntity)
		_, _ = fmt.Fprintf(w, `{"type":"/problems/idempotency-key-reuse","status":422,"instance":%q}`, kept.answer.location)
		return
	}
	if kept.answer != nil && f.flaw == leaksInHeaders {
		w.Header().Set("Location", kept.answer.location)
	}
	f.refuse(w, http.StatusUnprocessableEntity, "idempotency-key-reuse")
}

func (f *fakeServer) execute(account string, order api.OrderRequest) *fakeAnswer {
	refusal := func(status int, slug string) *fakeAnswer {
		return &fakeAnswer{status: status, body: fmt.Appendf(nil, `{"type":"/problems/%s","status":%d}`, slug, status)}
	}
	switch {
	case f.away && f.flaw == trouble404:
		return refusal(http.StatusNotFound, "not-found")
	case f.away:
		return refusal(http.StatusServiceUnavailable, "unavailable")
	case order.Items[0].Quantity > contractStock:
		return refusal(http.StatusUnprocessableEntity, "out-of-stock")
	case order.Payment.Method == declinedMethod:
		return refusal(http.StatusPaymentRequired, "payment-declined")
	}
	made := api.Order{
		ID: uuid.New(), Status: api.OrderStatusConfirmed, Amount: order.Amount, Currency: order.Currency, Metadata: order.Metadata,
		Payment: api.Payment{CapturedAmount: order.Amount, ProviderReference: "pi_" + uuid.NewString()},
	}
	made.Saga.Key = made.ID
	body := encoded(made)
	f.orders[made.ID.String()] = &fakeOrder{account, made}
	charge := sandbox.Charge{Reference: made.ID.String(), Captured: made.Amount}
	f.charges = append(f.charges, charge)
	if f.flaw == chargesTwice {
		f.charges = append(f.charges, charge)
	}
	return &fakeAnswer{status: http.StatusCreated, location: "/v1/orders/" + made.ID.String(), body: body}
}

func (f *fakeServer) send(w http.ResponseWriter, answer *fakeAnswer, replayed bool) {
	body, header := answer.body, w.Header()
	header.Set("Content-Type", "application/json")
	if answer.status >= http.StatusBadRequest {
		header.Set("Content-Type", "application/problem+json")
	}
	if answer.location != "" && f.flaw != noLocation && (!replayed || f.flaw != otherHeaders) {
		header.Set("Location", answer.location)
	}
	if answer.status >= http.StatusInternalServerError {
		header.Set("Retry-After", "1")
	}
	if replayed && f.flaw != unmarked || f.flaw == marksAll {
		header.Set("Idempotency-Replayed", "true")
	}
	if replayed && f.flaw == otherBytes {
		body = append(slices.Clone(body), '\n')
	}
	w.WriteHeader(answer.status)
	_, _ = w.Write(body)
}
