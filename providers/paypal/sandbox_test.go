package paypal_test

import (
	"context"
	"crypto/x509"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"paysaga/providers"
	"paysaga/providers/paypal"
	"paysaga/providers/sandbox"
)

const (
	sagaKey   = "1f0d3c9e-7a52-5c1b-9d2e-0a4b6c8d9e01"
	chargeKey = providers.SubKey(sagaKey + "_charge")
	webhookID = "8PT597110X687430LKGECATA"
)

// bench is an adapter, the sandbox that it talks to over real HTTP, and the notices that come of the sandbox's webhooks.
type bench struct {
	*paypal.Adapter

	sandbox *sandbox.Server
	url     string
	notices chan providers.Notice
}

func newBench(t *testing.T) bench {
	t.Helper()
	b := bench{notices: make(chan providers.Notice, 100)}
	var webhook atomic.Pointer[paypal.Webhook]
	shop := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(r.Body)
		if err != nil {
			t.Error(err)
		}
		parsed, err := webhook.Load().Parse(r.Header, body, time.Now())
		switch {
		case errors.Is(err, paypal.ErrUnavailable): // the sandbox goes away while its last webhooks arrive
			w.WriteHeader(http.StatusServiceUnavailable)
		case err != nil:
			t.Errorf("%v: %s", err, body)
		}
		for _, notice := range parsed {
			b.notices <- notice
		}
	}))
	b.sandbox = sandbox.New(sandbox.Options{
		Webhooks: map[string]sandbox.WebhookTarget{"paypal": {URL: shop.URL, WebhookID: webhookID}},
	})
	server := httptest.NewServer(b.sandbox)
	t.Cleanup(func() { b.sandbox.Close(); server.Close(); shop.Close() })
	b.url = server.URL
	roots := x509.NewCertPool()
	if !roots.AppendCertsFromPEM(b.send(t, http.MethodGet, "/_sandbox/paypal-root.pem", "")) {
		t.Fatal("no root")
	}
	settings := paypal.Config{
		ClientID: "client", ClientSecret: "secret", BaseURL: server.URL + "/paypal", CallTimeout: 20 * time.Second,
		WebhookID: webhookID, Roots: roots, CertificateHosts: []string{strings.TrimPrefix(server.URL, "http://")},
	}
	hook, err := paypal.NewWebhook(settings)
	if err != nil {
		t.Fatal(err)
	}
	webhook.Store(hook)
	if b.Adapter, err = paypal.New(settings); err != nil {
		t.Fatal(err)
	}
	return b
}

// send does what the customer, the bank or an operator of the sandbox would do.
func (b bench) send(t *testing.T, method, path, body string) []byte {
	t.Helper()
	request, err := http.NewRequestWithContext(t.Context(), method, b.url+path, strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	answer, err := http.DefaultClient.Do(request)
	if err != nil {
		t.Fatal(err)
	}
	defer answer.Body.Close()
	read, err := io.ReadAll(answer.Body)
	if err != nil || answer.StatusCode/100 != 2 {
		t.Fatalf("%s answered %s: %s", path, answer.Status, read)
	}
	return read
}

// next is the next notice of a type; others on the way to it are dropped.
func (b bench) next(t *testing.T, kind string) providers.Notice {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
	defer cancel()
	b.sandbox.FlushWebhooks(ctx)
	for {
		select {
		case notice := <-b.notices:
			if notice.Type == kind {
				return notice
			}
		case <-ctx.Done():
			t.Fatalf("no %s came", kind)
		}
	}
}

// one is the only charge in the ledger.
func (b bench) one(t *testing.T) sandbox.Charge {
	t.Helper()
	ledger := b.sandbox.Ledger()
	if len(ledger) != 1 {
		t.Fatalf("%d charges in the ledger, want 1: %+v", len(ledger), ledger)
	}
	return ledger[0]
}

func (b bench) charged(t *testing.T, request providers.ChargeRequest, want providers.OutcomeKind) providers.Outcome {
	t.Helper()
	outcome := b.Charge(t.Context(), request)
	if outcome.Kind != want {
		t.Fatalf("charge with %s: %+v, want %s", request.Method, outcome, want)
	}
	return outcome
}

func expect(t *testing.T, what string, got providers.Outcome, kind providers.OutcomeKind, code string) {
	t.Helper()
	if got.Kind != kind || got.Code != code {
		t.Errorf("%s: %+v, want %s %s", what, got, kind, code)
	}
}

// expectNotice compares what a notice is about; the rest differs each time.
func expectNotice(t *testing.T, got providers.Notice, about providers.About, key providers.SubKey, payment string) {
	t.Helper()
	if got.About != about || got.Key != key || got.Payment != payment {
		t.Errorf("notice %+v, want %s of %s in %q", got, about, key, payment)
	}
}

func (b bench) expectLedger(t *testing.T, authorized, captured, refunded int64) {
	t.Helper()
	if charge := b.one(t); charge.Authorized != authorized || charge.Captured != captured || charge.Refunded != refunded {
		t.Errorf("ledger: %+v, want %d, %d, %d", charge, authorized, captured, refunded)
	}
}

func order(method string) providers.ChargeRequest {
	return providers.ChargeRequest{
		Key: chargeKey, SagaKey: sagaKey, OrderID: "order-1", Method: method,
		Money: providers.Money{Amount: 3998, Currency: "EUR"}, ReturnURL: "https://shop.example/back",
	}
}

func refundOf(reference, step string, amount int64) providers.RefundRequest {
	return providers.RefundRequest{
		Key: providers.SubKey(sagaKey + "_" + step), SagaKey: sagaKey, Reference: reference,
		Money: providers.Money{Amount: amount, Currency: "EUR"},
	}
}

func TestSandboxOutcomes(t *testing.T) {
	t.Parallel()
	tests := map[string]providers.OutcomeKind{
		"vault_COMPLETED": providers.Succeeded, "vault_DECLINED": providers.Declined, "vault_FAILED": providers.Declined,
		"vault_PENDING": providers.Processing, "vault_ECHECK": providers.Processing, "vault_INSTRUMENT_DECLINED": providers.Declined,
		"vault_PAYER_CANNOT_PAY": providers.Declined, "vault_COMPLIANCE_VIOLATION": providers.Declined,
		"vault_PAYER_ACTION_REQUIRED": providers.ActionRequired, "wallet": providers.ActionRequired, "card:vault_COMPLETED": providers.Succeeded,
	}
	for method, want := range tests {
		t.Run(method, func(t *testing.T) {
			t.Parallel()
			b := newBench(t)
			first := b.charged(t, order(method), want)
			if again := b.charged(t, order(method), want); !cmp.Equal(first, again) {
				t.Errorf("the repeat differs: %s", cmp.Diff(first, again))
			}
			if first.Reference == "" {
				return
			}
			looked := b.Lookup(t.Context(), providers.LookupRequest{Key: chargeKey, SagaKey: sagaKey, Reference: first.Reference})
			if !cmp.Equal(first, looked) {
				t.Errorf("the look-up differs: %s", cmp.Diff(first, looked))
			}
		})
	}
}

// TestSandboxWallet is the way of a payment that the customer approves, to its refunds.
func TestSandboxWallet(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	asked := b.charged(t, order("wallet"), providers.ActionRequired)
	request := providers.ContinueRequest{Key: sagaKey + "_continue", ChargeKey: chargeKey, Reference: asked.Reference, Money: asked.Money}
	if got := b.Continue(t.Context(), request); got.Kind != providers.ActionRequired || !cmp.Equal(got.NextAction, asked.NextAction) {
		t.Errorf("before approval: %+v", got)
	}
	b.send(t, http.MethodPost, "/_sandbox/payments/"+asked.Reference+"/approve", "{}")
	expectNotice(t, b.next(t, "CHECKOUT.ORDER.APPROVED"), "charge", chargeKey, asked.Reference)
	lookup := providers.LookupRequest{Key: chargeKey, SagaKey: sagaKey, Reference: asked.Reference}
	expect(t, "after approval", b.Lookup(t.Context(), lookup), providers.Processing, providers.CodeApproved)
	paid := providers.Outcome{Kind: providers.Succeeded, Reference: asked.Reference, Money: asked.Money}
	for _, key := range []providers.SubKey{request.Key, request.Key, request.Key + "_2"} {
		request.Key = key
		if got := b.Continue(t.Context(), request); got != paid {
			t.Errorf("continue as %s: %+v", key, got)
		}
	}
	expectNotice(t, b.next(t, "PAYMENT.CAPTURE.COMPLETED"), "charge", chargeKey, asked.Reference)
	void := b.Void(t.Context(), providers.VoidRequest{Key: sagaKey + "_void", Reference: asked.Reference})
	expect(t, "void", void, providers.Rejected, providers.CodeAlreadyCaptured)
	b.refunds(t, asked.Reference)
}

// refunds gives 10.00 and then the rest of 39.98 back, the first of them twice.
func (b bench) refunds(t *testing.T, reference string) {
	t.Helper()
	first := b.Refund(t.Context(), refundOf(reference, "refund", 1000))
	expect(t, "refund", first, providers.Succeeded, "")
	if again := b.Refund(t.Context(), refundOf(reference, "refund", 1000)); first != again {
		t.Errorf("refund %+v, again %+v", first, again)
	}
	expectNotice(t, b.next(t, "PAYMENT.CAPTURE.REFUNDED"), "refund", sagaKey+"_refund", "")
	lookup := providers.LookupRequest{Key: chargeKey, SagaKey: sagaKey, Reference: reference}
	expect(t, "after a refund", b.Lookup(t.Context(), lookup), providers.Succeeded, providers.CodePartiallyRefunded)
	for _, id := range []string{"", first.Reference} {
		got := b.LookupRefund(t.Context(), providers.RefundLookupRequest{Key: sagaKey + "_refund", Payment: reference, Reference: id})
		if got != first {
			t.Errorf("look-up of refund %q: %+v", id, got)
		}
	}
	none := b.LookupRefund(t.Context(), providers.RefundLookupRequest{Key: sagaKey + "_refund_9", Payment: reference})
	expect(t, "look-up of no refund", none, providers.NotFound, "")
	expect(t, "too much", b.Refund(t.Context(), refundOf(reference, "refund_2", 3000)), providers.Rejected, "REFUND_AMOUNT_EXCEEDED")
	expect(t, "the rest", b.Refund(t.Context(), refundOf(reference, "refund_3", 2998)), providers.Succeeded, "")
	expect(t, "after all refunds", b.Lookup(t.Context(), lookup), providers.Canceled, providers.CodeRefunded)
	expect(t, "nothing left", b.Refund(t.Context(), refundOf(reference, "refund_4", 1)), providers.Succeeded, providers.CodeAlreadyRefunded)
	b.expectLedger(t, 0, 3998, 3998)
}

// TestSandboxManualCapture holds, takes two parts, and gives back from each.
func TestSandboxManualCapture(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	request := order("vault_COMPLETED")
	request.ManualCapture = true
	held := b.charged(t, request, providers.Authorized)
	part := providers.CaptureRequest{
		Key: sagaKey + "_capture", SagaKey: sagaKey, Reference: held.Reference, Money: providers.Money{Amount: 1000, Currency: "EUR"},
	}
	for range 2 {
		if got := b.Capture(t.Context(), part); got.Kind != providers.Succeeded || got.Money != part.Money || got.Reference != held.Reference {
			t.Errorf("first part: %+v", got)
		}
	}
	expectNotice(t, b.next(t, "PAYMENT.CAPTURE.COMPLETED"), "capture", part.Key, held.Reference)
	void := b.Void(t.Context(), providers.VoidRequest{Key: sagaKey + "_void", Reference: held.Reference})
	expect(t, "void after a part", void, providers.Rejected, providers.CodeAlreadyCaptured)
	rest, over := part, part
	rest.Key, rest.Money.Amount, rest.Final = sagaKey+"_capture_2", 2998, true
	over.Key = sagaKey + "_capture_3"
	expect(t, "second part", b.Capture(t.Context(), rest), providers.Succeeded, "")
	if got := b.Capture(t.Context(), over); got.Kind != providers.Rejected {
		t.Errorf("third part: %+v", got)
	}
	expect(t, "from the second", b.Refund(t.Context(), refundOf(held.Reference, "refund", 2000)), providers.Succeeded, "")
	expect(t, "from the first", b.Refund(t.Context(), refundOf(held.Reference, "refund_2", 1000)), providers.Succeeded, "")
	b.expectLedger(t, 0, 3998, 3000)
}

// TestSandboxWalletHeld: the customer approves, the money is held and then taken, all in one part.
func TestSandboxWalletHeld(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	request := order("wallet")
	request.ManualCapture = true
	asked := b.charged(t, request, providers.ActionRequired)
	if got := b.Void(t.Context(), providers.VoidRequest{Key: sagaKey + "_void", Reference: asked.Reference}); got.Kind != providers.Succeeded {
		t.Errorf("void of nothing: %+v", got)
	}
	b.send(t, http.MethodPost, "/_sandbox/payments/"+asked.Reference+"/approve", "{}")
	held := b.Continue(t.Context(), providers.ContinueRequest{
		Key: sagaKey + "_continue", ChargeKey: chargeKey, Reference: asked.Reference, Money: asked.Money, ManualCapture: true,
	})
	if held.Kind != providers.Authorized || held.Reference != asked.Reference || held.Money != asked.Money {
		t.Errorf("continue: %+v", held)
	}
	taken := b.Capture(t.Context(), providers.CaptureRequest{
		Key: sagaKey + "_capture", SagaKey: sagaKey, Reference: asked.Reference, Money: asked.Money, Final: true,
	})
	if taken.Kind != providers.Succeeded || taken.Money != asked.Money {
		t.Errorf("capture: %+v", taken)
	}
	if charge := b.one(t); charge.Captured != 3998 || charge.Authorized != 0 {
		t.Errorf("ledger: %+v", charge)
	}
}

func TestSandboxVoid(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	request := order("vault_COMPLETED")
	request.ManualCapture = true
	held := b.charged(t, request, providers.Authorized)
	for range 2 {
		if got := b.Void(t.Context(), providers.VoidRequest{Key: sagaKey + "_void", Reference: held.Reference}); got.Kind != providers.Succeeded {
			t.Errorf("void: %+v", got)
		}
	}
	if got := b.next(t, "PAYMENT.AUTHORIZATION.VOIDED"); got.About != "void" || got.Key != chargeKey || got.Payment != held.Reference {
		t.Errorf("notice of the void: %+v", got)
	}
	if got := b.Lookup(t.Context(), providers.LookupRequest{Key: chargeKey, Reference: held.Reference}); got.Kind != providers.Canceled {
		t.Errorf("after the void: %+v", got)
	}
	if charge := b.one(t); charge.Authorized != 0 || charge.Captured != 0 {
		t.Errorf("ledger: %+v", charge)
	}
}
