// Package providertest is the suite that every adapter has to pass: what the saga relies on is tested once, in the saga's nouns,
// whatever the provider. Each adapter runs it against the sandbox, and tests beside it only what is its own.
package providertest

import (
	"context"
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"testing"

	"paysaga/providers"
	"paysaga/providers/sandbox"
)

// Adapter is the full set of an adapter's calls.
type Adapter interface {
	Name() string
	Windows() providers.Windows
	Check(request providers.ChargeRequest) error
	Charge(ctx context.Context, request providers.ChargeRequest) providers.Outcome
	Continue(ctx context.Context, request providers.ContinueRequest) providers.Outcome
	Lookup(ctx context.Context, request providers.LookupRequest) providers.Outcome
	Capture(ctx context.Context, request providers.CaptureRequest) providers.Outcome
	Void(ctx context.Context, request providers.VoidRequest) providers.Outcome
	Refund(ctx context.Context, request providers.RefundRequest) providers.Outcome
	LookupRefund(ctx context.Context, request providers.RefundLookupRequest) providers.Outcome
}

// Methods are the sandbox's payment methods, as the adapter takes them.
type Methods struct {
	Succeeds, DeclinedSoft, DeclinedHard, Action, Processing string
}

// Harness is what the suite must know of an adapter.
type Harness struct {
	// New makes an adapter and the sandbox that it talks to over real HTTP, both for one test.
	New     func(t *testing.T) (Adapter, *sandbox.Server)
	Methods Methods
	// Identifier is what a call's key must be on the wire.
	Identifier func(key providers.SubKey) string
	// Deferred: captures, voids and refunds are answered Processing, and their end is told by webhook only.
	Deferred bool
	// Parts: held money can be captured in several parts.
	Parts bool
	// Details does on the provider's page what the customer decides ("approve", "refuse"), and gives what comes back of it; nil where
	// the adapter needs nothing of it.
	Details func(t *testing.T, asked providers.Outcome, decision string) []byte
	// VoidsUnkeyed: the provider takes no idempotency key with a void.
	VoidsUnkeyed bool
	// Past is New with a sandbox that lives some days ago, for an adapter that lists; nil for one that does not.
	Past func(t *testing.T) (Adapter, *sandbox.Server)
	// ListLags: what the provider lists lags behind as its search does.
	ListLags bool
}

// done is how a capture, void or refund that works is answered.
func (h Harness) done() providers.OutcomeKind {
	if h.Deferred {
		return providers.Processing
	}
	return providers.Succeeded
}

const (
	sagaKey   = "1f0d3c9e-7a52-5c1b-9d2e-0a4b6c8d9e01"
	chargeKey = providers.SubKey(sagaKey + "_charge")
	price     = 3998 // US cents: all three providers' slow methods take dollars
)

func dollars(amount int64) providers.Money { return providers.Money{Amount: amount, Currency: "USD"} }

// bench is one test's adapter and sandbox.
type bench struct {
	Adapter
	Harness

	sandbox *sandbox.Server
}

func (h Harness) bench(t *testing.T) bench {
	t.Helper()
	adapter, simulated := h.New(t)
	return bench{Adapter: adapter, Harness: h, sandbox: simulated}
}

func order(key providers.SubKey, method string) providers.ChargeRequest {
	return providers.ChargeRequest{
		Key: key, SagaKey: sagaKey, OrderID: "order-1", Money: dollars(price), Method: method, ReturnURL: "https://shop.example/back",
	}
}

func (b bench) charged(t *testing.T, request providers.ChargeRequest, want providers.OutcomeKind) providers.Outcome {
	t.Helper()
	outcome := b.Charge(t.Context(), request)
	if outcome.Kind != want {
		t.Fatalf("charge with %s: %+v, want %s", request.Method, outcome, want)
	}
	return outcome
}

// held is a payment whose money is held.
func (b bench) held(t *testing.T) providers.Outcome {
	t.Helper()
	request := order(chargeKey, b.Methods.Succeeds)
	request.ManualCapture = true
	return b.charged(t, request, providers.Authorized)
}

func (b bench) fault(t *testing.T, call sandbox.CallType, kind sandbox.FaultKind) {
	t.Helper()
	fault := sandbox.Fault{Provider: b.Name(), Call: call, Kind: kind, Times: 1}
	if kind == sandbox.FaultSlow {
		fault.DelayMS = 1
	}
	if err := b.sandbox.AddFault(fault); err != nil {
		t.Fatal(err)
	}
}

// entry is the one payment in the ledger that a key made, once all is settled.
func (b bench) entry(t *testing.T, key providers.SubKey) sandbox.Charge {
	t.Helper()
	b.sandbox.FlushWebhooks(t.Context())
	var found []sandbox.Charge
	for _, charge := range b.sandbox.Ledger() {
		if charge.Identifier == b.Identifier(key) {
			found = append(found, charge)
		}
	}
	if len(found) != 1 {
		t.Fatalf("%d payments of %s in the ledger, want 1: %+v", len(found), key, b.sandbox.Ledger())
	}
	return found[0]
}

// expectLedger compares the money that the key's one payment moved.
func (b bench) expectLedger(t *testing.T, key providers.SubKey, held, taken, returned int64) {
	t.Helper()
	if entry := b.entry(t, key); entry.Authorized != held || entry.Captured != taken || entry.Refunded != returned {
		t.Errorf("ledger: %+v, want %d held, %d taken, %d given back", entry, held, taken, returned)
	}
}

// expectIdentifiers makes sure that all calls of a kind bore the key's identifier on the wire.
func (b bench) expectIdentifiers(t *testing.T, call sandbox.CallType, key providers.SubKey) {
	t.Helper()
	calls := 0
	for _, request := range b.requests(t) {
		if request.Call != call {
			continue
		}
		calls++
		if request.Identifier != b.Identifier(key) {
			t.Errorf("%s bore %q, want %q", call, request.Identifier, b.Identifier(key))
		}
	}
	if calls == 0 {
		t.Errorf("no %s was sent", call)
	}
}

// requests are all that the sandbox was sent.
func (b bench) requests(t *testing.T) []sandbox.RequestRecord {
	t.Helper()
	answer := httptest.NewRecorder()
	b.sandbox.ServeHTTP(answer, httptest.NewRequestWithContext(t.Context(), http.MethodGet, "/_sandbox/requests", http.NoBody))
	var recorded struct {
		Requests []sandbox.RequestRecord `json:"requests"`
	}
	if err := json.Unmarshal(answer.Body.Bytes(), &recorded); err != nil {
		t.Fatal(err)
	}
	return recorded.Requests
}
