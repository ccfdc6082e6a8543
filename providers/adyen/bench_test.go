package adyen_test

import (
	"context"
	"io"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"testing"
	"time"

	"paysaga/providers"
	"paysaga/providers/adyen"
	"paysaga/providers/sandbox"
)

const (
	sagaKey   = "1f0d3c9e-7a52-5c1b-9d2e-0a4b6c8d9e01"
	chargeKey = providers.SubKey(sagaKey + "_charge")
	merchant  = "PaysagaECOM"
	hmacKey   = "44782DEF547AAA06C910C43932B1EB0C71FC68D9D0C057550C48EC2ACF6BA056"
)

// bench is an adapter, the sandbox that it talks to over real HTTP, and the notices that come of the sandbox's webhooks.
type bench struct {
	*adyen.Adapter

	sandbox *sandbox.Server
	url     string
	notices chan providers.Notice
}

func newBench(t *testing.T) bench {
	t.Helper()
	return newBenchWith(t, sandbox.Options{AdyenMerchant: merchant, AdyenSeveralCaptures: true})
}

func newBenchWith(t *testing.T, options sandbox.Options) bench {
	t.Helper()
	notices := make(chan providers.Notice, 100)
	shop := httptest.NewServer(shopOf(t, notices))
	options.Webhooks = map[string]sandbox.WebhookTarget{"adyen": {URL: shop.URL, Secrets: []string{hmacKey}}}
	simulated := sandbox.New(options)
	server := httptest.NewServer(simulated)
	t.Cleanup(func() { simulated.Close(); server.Close(); shop.Close() })
	adapter, err := adyen.New(adyen.Config{
		APIKey: "AQEkey", MerchantAccount: merchant, BaseURL: server.URL + "/adyen/v71", CallTimeout: 20 * time.Second,
		SeveralCaptures: options.AdyenSeveralCaptures,
	})
	if err != nil {
		t.Fatal(err)
	}
	return bench{Adapter: adapter, sandbox: simulated, url: server.URL, notices: notices}
}

// shopOf takes webhooks as a shop does.
func shopOf(t *testing.T, notices chan<- providers.Notice) http.Handler {
	t.Helper()
	webhook, err := adyen.NewWebhook(adyen.WebhookConfig{HMACKeys: []string{hmacKey}, MerchantAccount: merchant})
	if err != nil {
		t.Fatal(err)
	}
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(r.Body)
		if err != nil {
			t.Error(err)
		}
		parsed, err := webhook.Parse(r.Header, body, time.Now())
		if err != nil {
			t.Errorf("%v: %s", err, body)
		}
		for _, notice := range parsed {
			notices <- notice
		}
		_, _ = io.WriteString(w, "[accepted]")
	})
}

// next is the next notice of a type; others on the way to it are dropped.
func (b bench) next(t *testing.T, kind string) providers.Notice {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
	defer cancel()
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

func (b bench) fault(t *testing.T, call sandbox.CallType, kind sandbox.FaultKind) {
	t.Helper()
	fault := sandbox.Fault{Provider: "adyen", Call: call, Kind: kind, Times: 1}
	if kind == sandbox.FaultSlow {
		fault.DelayMS = 1
	}
	if err := b.sandbox.AddFault(fault); err != nil {
		t.Fatal(err)
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

func euros(amount int64) providers.Money { return providers.Money{Amount: amount, Currency: "EUR"} }

func order(method string) providers.ChargeRequest {
	return providers.ChargeRequest{Key: chargeKey, SagaKey: sagaKey, OrderID: "order-1", Money: euros(3998), Method: method}
}

func manual(method string) providers.ChargeRequest {
	request := order(method)
	request.ManualCapture = true
	return request
}

// decide does on the bank's page what a customer does, and gives the redirectResult that comes back.
func (bench) decide(t *testing.T, page, decision string) string {
	t.Helper()
	parsed, err := url.Parse(page)
	if err != nil {
		t.Fatal(err)
	}
	form := url.Values{"decision": {decision}, "secret": {parsed.Query().Get("secret")}}
	request, err := http.NewRequestWithContext(t.Context(), http.MethodPost, page, strings.NewReader(form.Encode()))
	if err != nil {
		t.Fatal(err)
	}
	request.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	client := &http.Client{CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}
	answer, err := client.Do(request)
	if err != nil {
		t.Fatal(err)
	}
	defer answer.Body.Close()
	back, err := answer.Location()
	if err != nil {
		t.Fatalf("%s: %v", answer.Status, err)
	}
	return back.Query().Get("redirectResult")
}
