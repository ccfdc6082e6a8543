package providertest

import (
	"net/url"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/uuid"

	"paysaga/providers"
)

// Account is a provider's test account, for Contract.
type Account struct {
	Adapter Adapter
	// Pays and Declined set the method of a charge that works, and of one that is declined. Pays is nil where the account has no method
	// that pays without its customer; then only what comes before the customer is tried.
	Pays, Declined func(*providers.ChargeRequest)
	// Action sets the method of a charge for which the customer must act; nil where no method always does.
	Action func(*providers.ChargeRequest)
	// Deferred is as in Harness.
	Deferred bool
}

// Contract holds an adapter against its provider's own test environment: the calls that move money, and that each repeat under its key
// is the same call. It makes a few small payments with identifiers of its own, and leaves them there.
func Contract(t *testing.T, account Account) {
	t.Helper()
	tests := map[string]func(attempt, *testing.T){
		"the customer must act": attempt.asks,
		"charge and refund":     attempt.chargesAndRefunds,
		"decline":               attempt.declines,
		"hold and void":         attempt.holdsAndVoids,
		"hold and capture":      attempt.holdsAndCaptures,
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			test(attempt{Account: account, sagaKey: uuid.NewString()}, t)
		})
	}
}

// attempt is one payment of a contract test.
type attempt struct {
	Account

	sagaKey string
}

func (a attempt) key(step string) providers.SubKey { return providers.SubKey(a.sagaKey + "_" + step) }

func (a attempt) done() providers.OutcomeKind { return Harness{Deferred: a.Deferred}.done() }

func (a attempt) order(set func(*providers.ChargeRequest), manualCapture bool) providers.ChargeRequest {
	request := providers.ChargeRequest{
		Key: a.key("charge"), SagaKey: a.sagaKey, OrderID: a.sagaKey, Money: dollars(price), ReturnURL: "https://shop.example/back",
		ManualCapture: manualCapture,
	}
	set(&request)
	return request
}

// charged charges twice under one key, which is one payment, and looks it up.
func (a attempt) charged(t *testing.T, request providers.ChargeRequest, want providers.OutcomeKind) providers.Outcome {
	t.Helper()
	if err := a.Adapter.Check(request); err != nil {
		t.Fatal(err)
	}
	first := a.Adapter.Charge(t.Context(), request)
	if first.Kind != want || first.Money != (providers.Money{}) && first.Money != request.Money {
		t.Fatalf("charge: %+v, want %s", first, want)
	}
	if again := a.Adapter.Charge(t.Context(), request); again.Kind != first.Kind || again.Reference != first.Reference {
		t.Errorf("the repeat ended otherwise: %s", cmp.Diff(first, again))
	}
	if first.Reference != "" {
		a.expectLook(t, first.Reference, want)
	}
	return first
}

func (a attempt) expectLook(t *testing.T, reference string, want providers.OutcomeKind) {
	t.Helper()
	if a.Adapter.Windows().NoLookup {
		return
	}
	got := a.Adapter.Lookup(t.Context(), providers.LookupRequest{
		Key: a.key("charge"), SagaKey: a.sagaKey, Reference: reference, SentAt: time.Now(),
	})
	if got.Kind != want || got.Reference != reference {
		t.Errorf("look-up: %+v, want %s", got, want)
	}
}

// needsMethod leaves out what needs a payment without a customer, where the account has no method for that.
func (a attempt) needsMethod(t *testing.T) {
	t.Helper()
	if a.Pays == nil {
		t.Skip("the account has no method that pays without its customer; see docs/contract-tests.md")
	}
}

func (a attempt) asks(t *testing.T) {
	t.Helper()
	if a.Action == nil {
		t.Skip("the account has no method that always asks its customer; see docs/contract-tests.md")
	}
	asked := a.charged(t, a.order(a.Action, false), providers.ActionRequired)
	if next := asked.NextAction; next.URL != "" {
		if page, err := url.Parse(next.URL); err != nil || page.Host == "" {
			t.Errorf("%+v", next)
		}
	} else if next.ClientSecret == "" && next.Action == nil {
		t.Errorf("nothing to do: %+v", next)
	}
	void := a.Adapter.Void(t.Context(), providers.VoidRequest{Key: a.key("void"), ChargeKey: a.key("charge"), Reference: asked.Reference})
	if void.Kind != a.done() {
		t.Errorf("void: %+v", void)
	}
}

func (a attempt) chargesAndRefunds(t *testing.T) {
	t.Helper()
	a.needsMethod(t)
	taken := a.charged(t, a.order(a.Pays, false), providers.Succeeded)
	request := providers.RefundRequest{Key: a.key("refund"), SagaKey: a.sagaKey, Reference: taken.Reference, Money: dollars(1000)}
	first := a.Adapter.Refund(t.Context(), request)
	if first.Kind != a.done() && first.Kind != providers.Processing || first.Reference == "" || first.Money != request.Money {
		t.Fatalf("refund: %+v", first)
	}
	if again := a.Adapter.Refund(t.Context(), request); again.Reference != first.Reference {
		t.Errorf("the repeat is another refund: %s", cmp.Diff(first, again))
	}
	if a.Adapter.Windows().NoLookup {
		return
	}
	for _, reference := range []string{first.Reference, ""} {
		got := a.Adapter.LookupRefund(t.Context(), providers.RefundLookupRequest{
			Key: request.Key, Payment: taken.Reference, Reference: reference,
		})
		if got.Reference != first.Reference || got.Money != request.Money {
			t.Errorf("looked up by %q: %+v", reference, got)
		}
	}
}

func (a attempt) declines(t *testing.T) {
	t.Helper()
	if a.Declined == nil {
		t.Skip("the account has no method that is declined without its customer; see docs/contract-tests.md")
	}
	if got := a.charged(t, a.order(a.Declined, false), providers.Declined); got.Decline == nil || got.Decline.Code == "" {
		t.Errorf("%+v", got)
	}
}

func (a attempt) holdsAndVoids(t *testing.T) {
	t.Helper()
	a.needsMethod(t)
	held := a.charged(t, a.order(a.Pays, true), providers.Authorized)
	request := providers.VoidRequest{Key: a.key("void"), ChargeKey: a.key("charge"), Reference: held.Reference, ManualCapture: true}
	for range 2 {
		if got := a.Adapter.Void(t.Context(), request); got.Kind != a.done() {
			t.Errorf("void: %+v", got)
		}
	}
	a.expectLook(t, held.Reference, providers.Canceled)
}

func (a attempt) holdsAndCaptures(t *testing.T) {
	t.Helper()
	a.needsMethod(t)
	held := a.charged(t, a.order(a.Pays, true), providers.Authorized)
	request := providers.CaptureRequest{
		Key: a.key("capture"), SagaKey: a.sagaKey, Reference: held.Reference, Money: dollars(1000), Final: true,
	}
	for range 2 {
		if got := a.Adapter.Capture(t.Context(), request); got.Kind != a.done() || got.Money != request.Money {
			t.Errorf("capture: %+v", got)
		}
	}
	a.expectLook(t, held.Reference, providers.Succeeded)
}
