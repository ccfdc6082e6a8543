package webhook_test

import (
	"errors"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"paysaga/internal/webhook"
	"paysaga/providers"
)

// oneOfEach is an event of each provider, about nothing of ours.
func (b *bundle) oneOfEach() map[string]message {
	return map[string]message{
		"stripe": stripeMessage("evt_1", "payment_intent.succeeded", "pi_1", "k_charge", time.Now()),
		"adyen":  adyenMessage(adyenItem{psp: "P1", reference: "k_charge", code: "AUTHORISATION", success: "true"}),
		"paypal": b.payPal.message("WH-1", "CHECKOUT.ORDER.APPROVED", `{"id":"O1","purchase_units":[{"invoice_id":"k_charge"}]}`),
	}
}

func TestEachProviderIsAnsweredAsItWants(t *testing.T) {
	t.Parallel()
	b := newBundle(t)
	want := map[string]string{"stripe": "{}", "adyen": "[accepted]", "paypal": "{}"}
	for provider, m := range b.oneOfEach() {
		got := b.send(m)
		if got.status != http.StatusOK || got.body != want[provider] {
			t.Errorf("%s is answered %d %q", provider, got.status, got.body)
		}
	}
	if n := b.count(`SELECT count(*) FROM webhook_events WHERE status = 'waiting' AND about = 'charge' AND sub_key = 'k_charge'`); n != 3 {
		t.Errorf("%d rows", n)
	}
}

// A message that is not good leaves nothing behind, and its answer tells nothing.
func TestRefusedMessages(t *testing.T) {
	t.Parallel()
	b := newBundle(t)
	for provider, good := range b.oneOfEach() {
		for name, m := range map[string]message{
			"no signature": {provider, http.Header{}, strings.ReplaceAll(good.body, `"hmacSignature"`, `"x"`)},
			"other body":   {provider, good.header, strings.Replace(good.body, "k_charge", "k_chargf", 1)},
			"no event": map[string]message{
				"stripe": signStripe(`{"object":"list"}`), "paypal": b.payPal.sign(`[]`), "adyen": {"adyen", nil, `{"notificationItems":[]}`},
			}[provider],
			"empty": {provider, http.Header{}, ""},
		} {
			const want = `{"type":"/problems/webhook-refused","title":"The webhook was refused","status":400,"detail":` +
				`"The message does not carry its provider's signature, or is none of its events. Nothing is kept."}`
			got := b.send(m)
			if got.status != http.StatusBadRequest || got.header.Get("Content-Type") != "application/problem+json" || got.body != want {
				t.Errorf("%s, %s: %d %s", provider, name, got.status, got.body)
			}
		}
	}
	if n := b.count(`SELECT count(*) FROM webhook_events`); n != 0 {
		t.Errorf("%d events are kept", n)
	}
}

// One bad item refuses its batch, as nobody knows which of its items to believe; sent again without it, all are taken.
func TestBatchIsTakenWholeOrNot(t *testing.T) {
	t.Parallel()
	b := newBundle(t)
	one := adyenItem{psp: "P1", reference: "k_charge", code: "AUTHORISATION", success: "true"}
	two := adyenItem{psp: "P2", original: "P1", reference: "k_refund", code: "REFUND", success: "true"}
	bad := adyenMessage(one, two)
	bad.body = strings.Replace(bad.body, `"P2"`, `"P3"`, 1)
	if got := b.send(bad); got.status != http.StatusBadRequest {
		t.Errorf("a batch with a forged item is answered %d", got.status)
	}
	if n := b.count(`SELECT count(*) FROM webhook_events`); n != 0 {
		t.Errorf("%d events of a batch with a forged item are kept", n)
	}
	b.accepted(adyenMessage(one, two, one))
	if n := b.count(`SELECT count(*) FROM webhook_events WHERE outcome IS NOT NULL AND payment_reference = 'P1'`); n != 2 {
		t.Errorf("%d events, want 2", n)
	}
}

func TestOtherRequests(t *testing.T) {
	t.Parallel()
	b := newBundle(t)
	good := b.oneOfEach()["stripe"]
	tests := map[string]struct {
		method, path, body string
		want               int
	}{
		"unknown provider":         {http.MethodPost, "/webhooks/ravelin", good.body, http.StatusNotFound},
		"no provider":              {http.MethodPost, "/webhooks/", good.body, http.StatusNotFound},
		"below a provider":         {http.MethodPost, "/webhooks/stripe/x", good.body, http.StatusNotFound},
		"elsewhere":                {http.MethodPost, "/stripe", good.body, http.StatusNotFound},
		"GET":                      {http.MethodGet, "/webhooks/stripe", "", http.StatusMethodNotAllowed},
		"PUT":                      {http.MethodPut, "/webhooks/stripe", good.body, http.StatusMethodNotAllowed},
		"GET, unknown provider":    {http.MethodGet, "/webhooks/ravelin", "", http.StatusNotFound},
		"a body over 1 MiB":        {http.MethodPost, "/webhooks/stripe", strings.Repeat(" ", 1<<20+1), http.StatusRequestEntityTooLarge},
		"a body of 1 MiB":          {http.MethodPost, "/webhooks/stripe", strings.Repeat(" ", 1<<20), http.StatusBadRequest},
		"good":                     {http.MethodPost, "/webhooks/stripe", good.body, http.StatusOK},
		"good, below another path": {http.MethodPost, "/pay/webhooks/stripe", good.body, http.StatusOK},
	}
	for name, test := range tests {
		request := httptest.NewRequestWithContext(t.Context(), test.method, test.path, strings.NewReader(test.body))
		request.Header = good.header.Clone()
		recorder := httptest.NewRecorder()
		b.inbox.ServeHTTP(recorder, request)
		if recorder.Code != test.want {
			t.Errorf("%s: %d %s", name, recorder.Code, recorder.Body)
		}
		if test.want == http.StatusMethodNotAllowed && recorder.Header().Get("Allow") != http.MethodPost {
			t.Errorf("%s: Allow %q", name, recorder.Header().Get("Allow"))
		}
	}
}

// What cannot be stored, or cannot be judged, is not acknowledged: the provider sends it again.
func TestNotAcknowledged(t *testing.T) {
	t.Parallel()
	b := newBundle(t)
	wantUnavailable := func(m message) {
		t.Helper()
		if got := b.send(m); got.status != http.StatusServiceUnavailable || got.header.Get("Retry-After") == "" {
			t.Errorf("%s is answered %d, Retry-After %q", m.provider, got.status, got.header.Get("Retry-After"))
		}
	}
	b.store.keep = func() error { return errors.New("the database is away") }
	for _, m := range b.oneOfEach() {
		wantUnavailable(m)
	}
	b.store.keep = nil
	nowhere := b.oneOfEach()["paypal"]
	b.payPal.url = "https://api.paypal.com.invalid/cert"
	forged := b.oneOfEach()["paypal"]
	if got := b.send(forged); got.status != http.StatusBadRequest {
		t.Errorf("a certificate that is not at PayPal's is answered %d", got.status)
	}
	away := httptest.NewServer(http.NotFoundHandler())
	away.Close()
	b.payPal.url, b.payPal.hosts = away.URL+"/cert", []string{strings.TrimPrefix(away.URL, "http://")}
	b.parsers["paypal"] = b.payPal.webhook(t)
	other := httptest.NewServer(b.newInbox())
	defer other.Close()
	b.url = other.URL
	wantUnavailable(b.oneOfEach()["paypal"])
	if got := b.send(nowhere); got.status != http.StatusBadRequest {
		t.Errorf("another place's certificate is answered %d", got.status)
	}
	if n := b.count(`SELECT count(*) FROM webhook_events`); n != 0 {
		t.Errorf("%d events are kept", n)
	}
}

// parserOf is a parser that is a function.
type parserOf func() ([]providers.Notice, error)

func (p parserOf) Parse(http.Header, []byte, time.Time) ([]providers.Notice, error) { return p() }

// A flood of one provider's messages is turned away, and keeps nobody else's out.
func TestFloodIsTurnedAway(t *testing.T) {
	t.Parallel()
	b := newBundle(t)
	entered, leave := make(chan struct{}), make(chan struct{})
	b.parsers["paypal"] = parserOf(func() ([]providers.Notice, error) {
		entered <- struct{}{}
		<-leave
		return nil, providers.ErrSignature
	})
	server := httptest.NewServer(b.newInbox())
	defer server.Close()
	b.url = server.URL
	const slots = 64
	answers := make(chan int, slots)
	for range slots {
		go func() { answers <- b.send(message{"paypal", http.Header{}, "{}"}).status }()
		<-entered
	}
	if got := b.send(message{"paypal", http.Header{}, "{}"}); got.status != http.StatusServiceUnavailable || got.header.Get("Retry-After") == "" {
		t.Errorf("one too many is answered %d", got.status)
	}
	b.accepted(b.oneOfEach()["stripe"])
	close(leave)
	for range slots {
		if got := <-answers; got != http.StatusBadRequest {
			t.Errorf("answered %d", got)
		}
	}
}

// An error that the parser did not type is our own fault: the message must not be lost by it.
func TestUntypedErrorIsNotARefusal(t *testing.T) {
	t.Parallel()
	b := newBundle(t)
	b.parsers["stripe"] = parserOf(func() ([]providers.Notice, error) { return nil, errors.New("a new kind of trouble") })
	recorder := httptest.NewRecorder()
	b.newInbox().ServeHTTP(recorder, httptest.NewRequestWithContext(t.Context(), http.MethodPost, "/webhooks/stripe", http.NoBody))
	if recorder.Code != http.StatusServiceUnavailable || strings.Contains(recorder.Body.String(), "trouble") {
		t.Errorf("%d %s", recorder.Code, recorder.Body)
	}
}

// Neither the log nor the database has anything of a message but what its notice has.
func TestNothingPersonalIsKept(t *testing.T) {
	t.Parallel()
	b := newBundle(t)
	good := adyenMessage(adyenItem{psp: "P1", reference: "k_charge", code: "AUTHORISATION", success: "false"})
	b.accepted(good)
	bad := good
	bad.body = strings.Replace(good.body, `"P1"`, `"P2"`, 1)
	b.send(bad)
	b.accepted(signStripe(`{"id":"evt_7","object":"event","type":"payment_intent.requires_action","created":1772366400,"data":{"object":{"id":"pi_1",` +
		`"object":"payment_intent","client_secret":"pi_1_secret_in_plain_text","receipt_email":"jane@example.com"}}}`))
	var rows string
	if err := b.pool.QueryRow(t.Context(), `SELECT string_agg(e::text, ' ') FROM webhook_events e`).Scan(&rows); err != nil {
		t.Fatal(err)
	}
	if !strings.Contains(rows, "evt_7") || !strings.Contains(b.log.String(), "webhook refused") {
		t.Fatalf("rows %s, log %s", rows, b.log)
	}
	for _, secret := range []string{"Jane", "Station Road", "jane@example.com", "in_plain_text", stripeSecret, adyenKey, "hmacSignature", "v1="} {
		if strings.Contains(rows, secret) || strings.Contains(b.log.String(), secret) {
			t.Errorf("%q is kept", secret)
		}
	}
}

func TestConfigIsChecked(t *testing.T) {
	t.Parallel()
	b := newBundle(t)
	good := b.inbox.Config
	for name, spoil := range map[string]func(*webhook.Config){
		"no store":            func(c *webhook.Config) { c.Store = nil },
		"no runner":           func(c *webhook.Config) { c.Runner = nil },
		"no logger":           func(c *webhook.Config) { c.Logger = nil },
		"no lease":            func(c *webhook.Config) { c.Lease = 0 },
		"no interval":         func(c *webhook.Config) { c.Interval = 0 },
		"no concurrency":      func(c *webhook.Config) { c.Concurrency = 0 },
		"no parser":           func(c *webhook.Config) { c.Endpoints = map[string]webhook.Endpoint{"stripe": {}} },
		"a nameless provider": func(c *webhook.Config) { c.Endpoints = map[string]webhook.Endpoint{"": good.Endpoints["stripe"]} },
	} {
		config := good
		spoil(&config)
		if _, err := webhook.New(config); err == nil {
			t.Errorf("%s: accepted", name)
		}
	}
}
