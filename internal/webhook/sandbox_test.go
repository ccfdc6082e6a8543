package webhook_test

import (
	"context"
	"crypto/x509"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"paysaga/internal/webhook"
	"paysaga/providers"
	"paysaga/providers/adyen"
	"paysaga/providers/paypal"
	"paysaga/providers/sandbox"
	"paysaga/providers/stripe"
)

// charger is what the three adapters have in common here.
type charger interface {
	Charge(ctx context.Context, request providers.ChargeRequest) providers.Outcome
}

// sandboxed is a bundle whose inbox gets the webhooks of a sandbox, and the adapters that talk to that.
func sandboxed(t *testing.T, manner sandbox.WebhookManner) (*bundle, *sandbox.Server, map[string]charger) {
	t.Helper()
	b := newBundle(t)
	server := sandbox.New(sandbox.Options{})
	place := httptest.NewServer(server)
	t.Cleanup(func() { server.Close(); place.Close() })
	b.parsers["paypal"] = payPalParser(t, place.URL)
	b.inbox = b.newInbox()
	shop := httptest.NewServer(b.inbox)
	t.Cleanup(shop.Close)
	for provider, target := range map[string]sandbox.WebhookTarget{
		"stripe": {Secrets: []string{stripeSecret}}, "adyen": {Secrets: []string{adyenKey}}, "paypal": {WebhookID: payPalID},
	} {
		target.URL = shop.URL + "/webhooks/" + provider
		if err := server.SetWebhookTarget(provider, target); err != nil {
			t.Fatal(err)
		}
	}
	if err := server.SetWebhookManner("", manner); err != nil {
		t.Fatal(err)
	}
	stripeAdapter, err := stripe.New(stripe.Config{APIKey: "sk_test_1", BaseURL: place.URL + "/stripe"})
	if err != nil {
		t.Fatal(err)
	}
	adyenAdapter, err := adyen.New(adyen.Config{APIKey: "key", MerchantAccount: adyenMerchant, BaseURL: place.URL + "/adyen/v71"})
	if err != nil {
		t.Fatal(err)
	}
	payPalAdapter, err := paypal.New(paypal.Config{ClientID: "client", ClientSecret: "secret", BaseURL: place.URL + "/paypal"})
	if err != nil {
		t.Fatal(err)
	}
	return b, server, map[string]charger{"stripe": stripeAdapter, "adyen": adyenAdapter, "paypal": payPalAdapter}
}

// payPalParser trusts the sandbox's own root.
func payPalParser(t *testing.T, url string) webhook.Parser {
	t.Helper()
	request, err := http.NewRequestWithContext(t.Context(), http.MethodGet, url+"/_sandbox/paypal-root.pem", http.NoBody)
	if err != nil {
		t.Fatal(err)
	}
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		t.Fatal(err)
	}
	defer response.Body.Close()
	root, err := io.ReadAll(response.Body)
	roots := x509.NewCertPool()
	if err != nil || !roots.AppendCertsFromPEM(root) {
		t.Fatal("no root", err)
	}
	made, err := paypal.NewWebhook(paypal.Config{WebhookID: payPalID, Roots: roots, CertificateHosts: []string{strings.TrimPrefix(url, "http://")}})
	if err != nil {
		t.Fatal(err)
	}
	return made
}

// Whatever the providers send about a charge, doubled, overtaken, and before our own response is recorded, comes to its saga.
func TestWebhooksOfTheSandbox(t *testing.T) {
	t.Parallel()
	b, server, adapters := sandboxed(t, sandbox.WebhookManner{Duplicates: 2, Reorder: true, DelayMS: 60_000, Seed: 7})
	methods := map[string][]string{
		"stripe": {"pm_card_visa", "pm_card_visa_chargeDeclined", "pm_card_authenticationRequired"},
		"adyen":  {"stored_APPROVED", "stored_DECLINED"},
		"paypal": {"vault_COMPLETED", "vault_DECLINED", "vault_PENDING"},
	}
	charges := map[string]string{} // sub-key to provider
	for provider, list := range methods {
		for _, method := range list {
			ref := b.charged(provider, "")
			key := chargeKey(ref.Key)
			charges[string(key)] = provider
			adapters[provider].Charge(t.Context(), providers.ChargeRequest{
				Key: key, SagaKey: ref.Key.String(), OrderID: ref.Key.String(), Money: providers.Money{Amount: 3998, Currency: "EUR"}, Method: method,
				ReturnURL: "https://shop.example/back",
			})
		}
	}
	server.FlushWebhooks(t.Context())
	for _, status := range server.Webhooks() {
		if status.Delivered == 0 || status.Waiting != 0 || status.Abandoned != 0 {
			t.Errorf("%s: %d delivered, %d waiting, %d abandoned; log %s", status.Provider, status.Delivered, status.Waiting, status.Abandoned, b.log)
		}
	}
	b.run()
	b.wantApplied(b.count(`SELECT count(*) FROM webhook_events`))
	if n := b.count(`SELECT count(*) FROM webhook_events WHERE status <> 'applied'`); n != 0 {
		t.Errorf("%d are not applied", n)
	}
	seen := map[string]bool{}
	for _, c := range b.runner.all() {
		if seen[c.notice.ID] {
			t.Errorf("%s is applied twice", c.notice.ID)
		}
		seen[c.notice.ID] = true
		delete(charges, string(chargeKey(c.ref.Key)))
	}
	if len(charges) != 0 {
		t.Errorf("nothing came to %v", charges)
	}
}

// A provider whose webhook was not acknowledged sends it again until it is.
func TestWebhookIsSentAgain(t *testing.T) {
	t.Parallel()
	b, server, adapters := sandboxed(t, sandbox.WebhookManner{DelayMS: 60_000})
	down := true
	b.store.keep = func() error {
		if down {
			return context.DeadlineExceeded
		}
		return nil
	}
	ref := b.charged("adyen", "")
	adapters["adyen"].Charge(t.Context(), providers.ChargeRequest{
		Key: chargeKey(ref.Key), SagaKey: ref.Key.String(), OrderID: ref.Key.String(), Money: providers.Money{Amount: 3998, Currency: "EUR"},
		Method: "stored_APPROVED",
	})
	waiting := func() int { return server.Webhooks()[1].Waiting }
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	server.FlushWebhooks(ctx)
	if n := b.count(`SELECT count(*) FROM webhook_events`); n != 0 || waiting() == 0 {
		t.Errorf("%d kept, %d waiting: it was acknowledged and not stored", n, waiting())
	}
	down = false
	server.FlushWebhooks(ctx)
	b.run()
	if s := b.wantNext(webhook.Applied, false); s.result.Saga != ref || s.event.Age > time.Hour {
		t.Errorf("%+v", s)
	}
}
