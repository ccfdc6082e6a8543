package httpapi

import (
	"context"
	"encoding/json"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"github.com/google/uuid"

	"paysaga/api"
	"paysaga/internal/account"
	"paysaga/internal/idempotency"
	"paysaga/saga"
)

// oneOrderStore knows one account, one order and one key.
type oneOrderStore struct {
	Store
	KeyStore

	record *idempotency.Record
}

// KeyStore is what the guard needs of a store, beside LookupKey.
type KeyStore interface{ idempotency.Store }

func (oneOrderStore) FindAPIKey(context.Context, [32]byte) (account.Key, error) {
	return account.Key{AccountID: "shop", ID: theKey, Name: "ops-laptop", Role: account.Operator}, nil
}

func (s oneOrderStore) LookupKey(context.Context, string, string, string) (idempotency.Record, bool, error) {
	if s.record == nil {
		return idempotency.Record{}, false, nil
	}
	return *s.record, true, nil
}

func (oneOrderStore) GetOrder(context.Context, string, uuid.UUID) (saga.Saga, error) {
	return standing("", saga.Awaiting, saga.OrderAwaiting), nil
}

// askedRunner keeps what it was asked.
type askedRunner struct {
	Runner

	claim   saga.Claim
	order   saga.Order
	ref     saga.Ref
	request saga.Request
	amount  int64
	reason  string
	calls   int

	decision saga.Decision
}

var accepted = saga.Answer{Status: http.StatusAccepted, Headers: map[string]string{"Content-Type": jsonContentType}, Body: []byte("{}\n")}

func (r *askedRunner) Start(_ context.Context, claim saga.Claim, order saga.Order) (saga.Answer, error) {
	r.claim, r.order, r.calls = claim, order, r.calls+1
	return accepted, nil
}

func (r *askedRunner) Ask(_ context.Context, claim saga.Claim, ref saga.Ref, request saga.Request) (saga.Answer, error) {
	r.claim, r.ref, r.request, r.calls = claim, ref, request, r.calls+1
	return accepted, nil
}

func (r *askedRunner) Decide(_ context.Context, claim saga.Claim, ref saga.Ref, decision saga.Decision) (saga.Answer, error) {
	r.claim, r.ref, r.decision, r.calls = claim, ref, decision, r.calls+1
	return accepted, nil
}

func (r *askedRunner) Refund(_ context.Context, claim saga.Claim, ref saga.Ref, amount int64, reason string) (saga.Answer, error) {
	r.claim, r.ref, r.amount, r.reason, r.calls = claim, ref, amount, reason, r.calls+1
	return accepted, nil
}

const fuzzedBodyLimit = 64 << 10 // the default of the server

func handlerOf(t testing.TB, store oneOrderStore, runner Runner) http.Handler {
	t.Helper()
	policy := idempotency.Default()
	policy.Retention = time.Hour
	guard, err := idempotency.NewGuard(idempotency.Config{
		Store: store, Policy: policy, Lease: time.Minute, Logger: slog.New(slog.DiscardHandler),
	})
	if err != nil {
		t.Fatal(err)
	}
	handler, err := New(Config{
		Store: store, Runner: runner, Guard: guard, MaxBody: fuzzedBodyLimit, Logger: slog.New(slog.DiscardHandler),
	})
	if err != nil {
		t.Fatal(err)
	}
	return handler
}

const theKeyText = "key-0123456789-abcdef"

func post(t testing.TB, handler http.Handler, path, body string) *httptest.ResponseRecorder {
	t.Helper()
	r := httptest.NewRequestWithContext(t.Context(), http.MethodPost, path, strings.NewReader(body))
	r.Header = http.Header{"Authorization": {"Bearer x"}, "Idempotency-Key": {theKeyText}, "Content-Type": {jsonContentType}}
	w := httptest.NewRecorder()
	handler.ServeHTTP(w, r)
	return w
}

// theOrderPath and theRef are one order's, as the client and as the saga know it.
var (
	theOrderPath = "/v1/orders/" + theKey.String()
	theRef       = saga.Ref{AccountID: "shop", Key: theKey}
)

// What a body says is what the saga is asked for, with identifiers of the request's own key.
func TestRequestsReachTheRunner(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		path, body, endpoint string
		want                 saga.Request
	}{
		"continue":               {"/continue", `{}`, continueOrderEndpoint, saga.Request{Kind: saga.RequestContinue}},
		"continue with details":  {"/continue", `{"details": {"b": 1.0, "a": "x"}}`, continueOrderEndpoint, saga.Request{Kind: saga.RequestContinue, Details: json.RawMessage(`{"a":"x","b":1}`)}},
		"continue with a method": {"/continue", `{"payment":{"method":"m"}}`, continueOrderEndpoint, saga.Request{Kind: saga.RequestContinue, Payment: &saga.NewPayment{Provider: "stripe", Method: "m"}}},
		"continue with data": {
			"/continue", `{"payment":{"provider":"adyen","method_data":{"a":"b"},"return_url":"https://example.com"}}`, continueOrderEndpoint,
			saga.Request{Kind: saga.RequestContinue, Payment: &saga.NewPayment{Provider: "adyen", MethodData: json.RawMessage(`{"a":"b"}`), ReturnURL: "https://example.com"}},
		},
		"capture":             {"/capture", `{}`, captureOrderEndpoint, saga.Request{Kind: saga.RequestCapture, Final: true}},
		"capture of a part":   {"/capture", `{"amount":5,"final":true}`, captureOrderEndpoint, saga.Request{Kind: saga.RequestCapture, Amount: 5, Final: true}},
		"capture, more later": {"/capture", `{"amount":5,"final":false}`, captureOrderEndpoint, saga.Request{Kind: saga.RequestCapture, Amount: 5}},
		"cancel":              {"/cancel", `{}`, cancelOrderEndpoint, saga.Request{Kind: saga.RequestCancel}},
		"cancel without body": {"/cancel", ``, cancelOrderEndpoint, saga.Request{Kind: saga.RequestCancel}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			for generation, record := range map[int]*idempotency.Record{1: nil, 4: {Generation: 3, Status: idempotency.Completed, Expired: true}} {
				runner := &askedRunner{}
				if w := post(t, handlerOf(t, oneOrderStore{record: record}, runner), theOrderPath+c.path, c.body); w.Code != http.StatusAccepted {
					t.Fatalf("%d %s", w.Code, w.Body)
				}
				want := askedRunner{ref: theRef, request: c.want, calls: 1, claim: saga.Claim{
					AccountID: "shop", Endpoint: c.endpoint, Key: theKeyText, Generation: generation, Retention: time.Hour,
				}}
				want.request.Key = saga.Key("shop", c.endpoint, theKeyText, generation)
				runner.checkAgainst(t, want)
			}
		})
	}
}

func TestRefundsReachTheRunner(t *testing.T) {
	t.Parallel()
	runner := &askedRunner{}
	post(t, handlerOf(t, oneOrderStore{}, runner), theOrderPath+"/refunds", `{"amount":7,"reason":"why"}`)
	runner.checkAgainst(t, askedRunner{ref: theRef, amount: 7, reason: "why", calls: 1, claim: saga.Claim{
		AccountID: "shop", Endpoint: createRefundEndpoint, Key: theKeyText, Generation: 1, Retention: time.Hour,
	}})
}

// What an operator says is what the saga is told, with who said it.
func TestDecisionsReachTheRunner(t *testing.T) {
	t.Parallel()
	const actor = "key ops-laptop (5f0c1a9e-7d5b-5c3e-9b1a-0f6d2c8e4a71)"
	for name, c := range map[string]struct {
		path, body, endpoint string
		want                 saga.Decision
	}{
		"retry":  {"/retry", `{"reason":"why"}`, retrySagaEndpoint, saga.Decision{Resolution: saga.ResolveRetry, Reason: "why"}},
		"cancel": {"/cancel", `{"reason":"why"}`, cancelSagaEndpoint, saga.Decision{Resolution: saga.ResolveCancel, Reason: "why"}},
		"taken": {
			"/resolve", `{"resolution":"taken","reason":"why","payment":"pi_1","amount":7}`, resolveSagaEndpoint,
			saga.Decision{Resolution: saga.ResolveTaken, Reason: "why", Payment: "pi_1", Amount: 7},
		},
		"nothing kept": {
			"/resolve", `{"resolution":"nothing_kept","reason":"why","outside_provider":true}`, resolveSagaEndpoint,
			saga.Decision{Resolution: saga.ResolveNothingKept, Reason: "why", OutsideProvider: true},
		},
		"as it is":  {"/resolve", `{"resolution":"as_it_is","reason":"why"}`, resolveSagaEndpoint, saga.Decision{Resolution: saga.ResolveAsItIs, Reason: "why"}},
		"given":     {"/resolve", `{"resolution":"given","reason":"why"}`, resolveSagaEndpoint, saga.Decision{Resolution: saga.ResolveGiven, Reason: "why"}},
		"not given": {"/resolve", `{"resolution":"not_given","reason":"why"}`, resolveSagaEndpoint, saga.Decision{Resolution: saga.ResolveNotGiven, Reason: "why"}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			runner := &askedRunner{}
			if w := post(t, handlerOf(t, oneOrderStore{}, runner), "/v1/sagas/"+theKey.String()+c.path, c.body); w.Code != http.StatusAccepted {
				t.Fatalf("%d %s", w.Code, w.Body)
			}
			c.want.Actor = actor
			runner.checkAgainst(t, askedRunner{ref: theRef, decision: c.want, calls: 1, claim: saga.Claim{
				AccountID: "shop", Endpoint: c.endpoint, Key: theKeyText, Generation: 1, Retention: time.Hour,
			}})
		})
	}
}

// checkAgainst compares all but the fingerprint, whose own test says what it is over.
func (r *askedRunner) checkAgainst(t *testing.T, want askedRunner) {
	t.Helper()
	got := *r
	got.claim.Fingerprint = want.claim.Fingerprint
	if diff := cmp.Diff(want, got, cmp.AllowUnexported(askedRunner{}), cmpopts.IgnoreInterfaces(struct{ Runner }{})); diff != "" {
		t.Errorf("asked (-want +got):\n%s", diff)
	}
}

// How an order is to be paid reaches the saga whole.
func TestPaymentReachesTheRunner(t *testing.T) {
	t.Parallel()
	const head = `{"currency":"EUR","amount":1,"items":[{"sku":"A","quantity":1,"unit_amount":1}],"payment":`
	for payment, want := range map[string]saga.Payment{
		`{"provider":"a","method":"m"}`: {Provider: "a", Method: "m", Capture: saga.CaptureAutomatic, OnDecline: saga.DeclineRollsBack},
		`{"provider":"a","method_data":{"b":"c", "a":"d"},"capture":"manual","on_decline":"await"}`: {
			Provider: "a", MethodData: json.RawMessage(`{"a":"d","b":"c"}`), Capture: saga.CaptureManual, OnDecline: saga.DeclineAwaits,
		},
	} {
		runner := &askedRunner{}
		post(t, handlerOf(t, oneOrderStore{}, runner), "/v1/orders", head+payment+"}")
		if diff := cmp.Diff(want, runner.order.Payment); diff != "" {
			t.Errorf("%s (-want +got):\n%s", payment, diff)
		}
	}
}

func TestMethodDataIsBounded(t *testing.T) {
	t.Parallel()
	const head, tail = `{"payment":{"method_data":{"encryptedCardNumber":"`, `"}}}`
	frame := len(`{"encryptedCardNumber":""}`)
	for size, status := range map[int]int{longestMethodData: http.StatusAccepted, longestMethodData + 1: http.StatusBadRequest} {
		runner := &askedRunner{}
		w := post(t, handlerOf(t, oneOrderStore{}, runner), theOrderPath+"/continue", head+strings.Repeat("x", size-frame)+tail)
		if w.Code != status || status == http.StatusBadRequest && !strings.Contains(w.Body.String(), `"/payment/method_data"`) {
			t.Errorf("%d bytes: %d %s", size, w.Code, w.Body)
		}
	}
}

func TestCardNumbers(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]bool{
		"4242424242424242": true, "4242 4242-4242 4242": true, "4242_4242.4242_4242": true, "4000000000000000006": true, "5555555555554444": true, "378282246310005": true,
		"3530111333300000": true, "6011111111111117": true, "2223003122003222": true,
		"4242424242424241": false, // the check digit does not fit
		"8415718415718415": false, // an old id of a stored method
		"42424242424":      false, "42424242424242424242": false, "4242424242424242a": false, "pm_4242424242424242": false, "": false,
		"４２４２４２４２４２４２４２４２": false, // digits, but none that a card has
	} {
		if got := looksLikeCard(text) && checkDigitFits(cardDigits(text)); got != want {
			t.Errorf("%q is a card number: %t", text, got)
		}
	}
}

// Whatever is sent, the answer is a problem that repeats nothing of it, or the request reached the saga as the contract allows.
func FuzzBodies(f *testing.F) {
	const payment = `{"currency":"EUR","amount":1,"items":[{"sku":"A","quantity":1,"unit_amount":1}],"payment":`
	for _, body := range []string{
		payment + `{"provider":"a","method":"m"}}`, payment + `{"provider":"a","method_data":{"a":"4242424242424242"}}}`,
		`{}`, ``, `{"details":{"redirectResult":"x"}}`, `{"payment":{"method_data":{"a":{"b":[1,null,true,"c"]}}}}`, `{"amount":1,"final":false}`,
		`{"amount":1,"reason":"\ud83d\ude00"}`, `{"payment":{"method":"m"},"details":{}}`, `[`, `{"a":1,"a":2}`, "\xff", `{"amount":1e999}`,
	} {
		f.Add(body)
	}
	runner := &askedRunner{}
	handler := handlerOf(f, oneOrderStore{}, runner)
	f.Fuzz(func(t *testing.T, body string) {
		for _, path := range []string{
			"/v1/orders", theOrderPath + "/continue", theOrderPath + "/capture", theOrderPath + "/cancel", theOrderPath + "/refunds",
		} {
			*runner = askedRunner{}
			w := post(t, handler, path, body)
			if w.Code == http.StatusAccepted && runner.calls == 1 {
				checkAsked(t, runner)
				continue
			}
			var p api.Problem
			if err := json.Unmarshal(w.Body.Bytes(), &p); err != nil || p.Status != w.Code || w.Code >= http.StatusInternalServerError || runner.calls != 0 {
				t.Errorf("%s: %d %s, %d calls", path, w.Code, w.Body, runner.calls)
			}
		}
	})
}

func checkAsked(t *testing.T, r *askedRunner) {
	t.Helper()
	if r.request.Amount < 0 || r.amount < 0 || len(r.reason) > 4*255 {
		t.Errorf("asked for %+v, %d, %d bytes of reason", r.request, r.amount, len(r.reason))
	}
	payment := saga.NewPayment{Method: r.order.Payment.Method, MethodData: r.order.Payment.MethodData}
	if r.request.Payment != nil {
		payment = *r.request.Payment
	}
	if paid := r.order.Currency != "" || r.request.Payment != nil; paid && (payment.Method == "") == (len(payment.MethodData) == 0) {
		t.Errorf("payment %+v", payment)
	}
	if _, found := findCard(payment.MethodData); found || len(payment.MethodData) > longestMethodData {
		t.Errorf("method data was let through: %s", payment.MethodData)
	}
}
