//nolint:tagliatelle // the names are Adyen's
package sandbox_test

import (
	"crypto"
	"crypto/hmac"
	"crypto/rsa"
	"crypto/sha256"
	"crypto/x509"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"encoding/pem"
	"fmt"
	"hash/crc32"
	"io"
	"net/http"
	"net/http/httptest"
	"net/url"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/stripe/stripe-go/v76/webhook"

	"paysaga/providers/sandbox"
)

const adyenHMACKey = "44782DEF547AAA06C910C43932B1EB0C71FC68D9D0C057550C48EC2ACF6BA056"

// delivery is one webhook as it arrived.
type delivery struct {
	header http.Header
	body   []byte
}

// shop takes webhooks in.
type shop struct {
	url     string
	arrived chan struct{} // one signal for each, as long as there is room

	mu         sync.Mutex
	deliveries []delivery
	refusals   int // how many to refuse first
}

func newShop(t *testing.T) *shop {
	t.Helper()
	s := &shop{arrived: make(chan struct{}, 1000)}
	server := httptest.NewServer(s)
	t.Cleanup(server.Close)
	s.url = server.URL
	return s
}

func (s *shop) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	body, err := io.ReadAll(r.Body)
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.refusals > 0 || err != nil {
		s.refusals--
		w.WriteHeader(http.StatusInternalServerError)
		return
	}
	s.deliveries = append(s.deliveries, delivery{r.Header.Clone(), body})
	_, _ = w.Write([]byte("[accepted]"))
	select {
	case s.arrived <- struct{}{}:
	default:
	}
}

func (s *shop) all() []delivery {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Clone(s.deliveries)
}

// notified is one item of a notification of Adyen.
type notified struct {
	Item notifiedItem `json:"NotificationRequestItem"`
}

type notifiedItem struct {
	PSP       string            `json:"pspReference"`
	Original  string            `json:"originalReference"`
	Merchant  string            `json:"merchantAccountCode"`
	Reference string            `json:"merchantReference"`
	Code      string            `json:"eventCode"`
	Success   string            `json:"success"`
	More      map[string]string `json:"additionalData"`
	Amount    notifiedAmount    `json:"amount"`
}

type notifiedAmount struct {
	Value    int64  `json:"value"`
	Currency string `json:"currency"`
}

// event is what the deliveries are told apart by: Stripe's and PayPal's type, Adyen's code.
func (d delivery) event(t *testing.T) string {
	t.Helper()
	var body struct {
		Type      string     `json:"type"`
		EventType string     `json:"event_type"`
		Items     []notified `json:"notificationItems"`
	}
	if err := json.Unmarshal(d.body, &body); err != nil {
		t.Fatalf("body %q: %v", d.body, err)
	}
	if len(body.Items) == 1 {
		return body.Items[0].Item.Code + " " + body.Items[0].Item.Success
	}
	return body.Type + body.EventType
}

func (s *shop) events(t *testing.T) []string {
	t.Helper()
	events := make([]string, 0, len(s.all()))
	for _, each := range s.all() {
		events = append(events, each.event(t))
	}
	return events
}

// listen sends all of a provider's webhooks to a shop, on flush only.
func (b *bench) listen(t *testing.T, s *shop, provider, more string) {
	t.Helper()
	secret := map[string]string{
		"stripe": `"secrets":["whsec_old","whsec_new"]`, "adyen": `"secrets":["` + adyenHMACKey + `"]`, "paypal": `"webhook_id":"WH-1"`,
	}[provider]
	b.control(t, "/webhooks", `{"provider":"`+provider+`","url":"`+s.url+`",`+secret+`,"delay_ms":60000`+more+`}`, http.StatusOK)
}

func (b *bench) flush(t *testing.T) { t.Helper(); b.control(t, "/webhooks/flush", "", http.StatusOK) }

func TestStripeWebhooks(t *testing.T) {
	t.Parallel()
	b, s := newBench(t, sandbox.Options{}), newShop(t)
	b.listen(t, s, "stripe", "")
	payment := b.post(t, "/payment_intents", "k1", order("capture_method", "manual")).json(t)
	b.post(t, "/payment_intents/"+text(payment, "id")+"/capture", "k2", url.Values{})
	b.post(t, "/refunds", "k3", url.Values{"payment_intent": {text(payment, "id")}, "amount": {"100"}})
	b.post(t, "/payment_intents", "k4", order("payment_method", "pm_card_visa_chargeDeclined"))
	b.post(t, "/payment_intents", "k5", order("payment_method", "pm_card_threeDSecure2Required"))
	b.flush(t)
	want := []string{
		"payment_intent.amount_capturable_updated", "payment_intent.succeeded", "charge.refunded", "payment_intent.payment_failed",
		"payment_intent.requires_action",
	}
	if got := s.events(t); !slices.Equal(got, want) {
		t.Fatalf("events are %v, want %v", got, want)
	}
	ids := map[string]bool{}
	for _, each := range s.all() {
		for _, secret := range []string{"whsec_old", "whsec_new"} {
			if err := webhook.ValidatePayloadIgnoringTolerance(each.body, each.header.Get("Stripe-Signature"), secret); err != nil {
				t.Errorf("%s with %s: %v", each.event(t), secret, err)
			}
		}
		if err := webhook.ValidatePayloadIgnoringTolerance(each.body, each.header.Get("Stripe-Signature"), "whsec_other"); err == nil {
			t.Error("another secret fits too")
		}
		var event map[string]any
		if err := json.Unmarshal(each.body, &event); err != nil {
			t.Fatal(err)
		}
		ids[text(event, "id")] = true
		if text(event, "api_version") != "2023-10-16" || !strings.HasPrefix(text(event, "request", "idempotency_key"), "k") ||
			text(event, "data", "object", "id") == "" {
			t.Errorf("event is %s", each.body)
		}
	}
	if len(ids) != len(want) {
		t.Errorf("%d ids of %d events", len(ids), len(want))
	}
}

func TestAdyenWebhooks(t *testing.T) {
	t.Parallel()
	b, s := newBench(t, sandbox.Options{}), newShop(t)
	b.listen(t, s, "adyen", "")
	psp := text(b.adyen(t, "/payments", "k1", adyenOrder("APPROVED", `,"additionalData":{"manualCapture":"true"}`)).json(t), "pspReference")
	amount := `"amount":{"currency":"EUR","value":1000},`
	modify := func(path, key, more string) {
		b.adyen(t, "/payments/"+psp+path, key, `{`+more+`"merchantAccount":"Shop","reference":"`+key+`"}`).want(t, 201)
	}
	modify("/captures", "k2", amount)
	modify("/cancels", "k3", "")
	modify("/refunds", "k4", amount)
	modify("/reversals", "k5", "")
	b.adyen(t, "/payments", "k6", adyenOrder("DECLINED", "")).want(t, 200)
	b.adyen(t, "/cancels", "k7", `{"merchantAccount":"Shop","paymentReference":"unknown"}`).want(t, 201)
	b.flush(t)
	want := []string{
		"AUTHORISATION true", "CAPTURE true", "CANCELLATION false", "REFUND true", "CANCEL_OR_REFUND false", "AUTHORISATION false",
		"TECHNICAL_CANCEL false",
	}
	if got := s.events(t); !slices.Equal(got, want) {
		t.Fatalf("events are %v, want %v", got, want)
	}
	key, _ := hex.DecodeString(adyenHMACKey)
	for _, each := range s.all() {
		var batch struct {
			Live  string     `json:"live"`
			Items []notified `json:"notificationItems"`
		}
		if err := json.Unmarshal(each.body, &batch); err != nil || batch.Live != "false" || len(batch.Items) != 1 {
			t.Fatalf("%s: %v", each.body, err)
		}
		item := batch.Items[0].Item
		mac := hmac.New(sha256.New, key)
		_, _ = fmt.Fprintf(mac, "%s:%s:%s:%s:%d:%s:%s:%s", item.PSP, item.Original, item.Merchant, item.Reference, item.Amount.Value,
			item.Amount.Currency, item.Code, item.Success)
		if want := base64.StdEncoding.EncodeToString(mac.Sum(nil)); item.More["hmacSignature"] != want {
			t.Errorf("signature is %s, want %s in %s", item.More["hmacSignature"], want, each.body)
		}
		if modification := item.Code == "CAPTURE" || item.Code == "REFUND"; modification && (item.Original != psp || item.Amount.Value != 1000) {
			t.Errorf("item is %+v", item)
		}
	}
}

// root is the sandbox's certificate that everything is checked by.
func (b *bench) root(t *testing.T) *x509.CertPool {
	t.Helper()
	pool := x509.NewCertPool()
	if answer := b.get(t, "/_sandbox/paypal-root.pem"); !pool.AppendCertsFromPEM([]byte(answer.body)) {
		t.Fatalf("no certificate in %q", answer.body)
	}
	return pool
}

// checkPayPal verifies a delivery as the shop would, by the chain that it names.
func (b *bench) checkPayPal(t *testing.T, d delivery, pool *x509.CertPool, webhookID string) error {
	t.Helper()
	chain := b.get(t, strings.TrimPrefix(d.header.Get("Paypal-Cert-Url"), b.url))
	block, rest := pem.Decode([]byte(chain.body))
	if block == nil {
		t.Fatalf("no certificate in %q", chain.body)
	}
	leaf, err := x509.ParseCertificate(block.Bytes)
	if err != nil {
		t.Fatal(err)
	}
	between := x509.NewCertPool()
	between.AppendCertsFromPEM(rest)
	if _, err := leaf.Verify(x509.VerifyOptions{Roots: pool, Intermediates: between, DNSName: "messageverificationcerts.paypal.com"}); err != nil {
		t.Errorf("chain: %v", err)
	}
	key, ok := leaf.PublicKey.(*rsa.PublicKey)
	if !ok {
		t.Fatalf("the key is a %T", leaf.PublicKey)
	}
	signature, err := base64.StdEncoding.DecodeString(d.header.Get("Paypal-Transmission-Sig"))
	if err != nil {
		t.Fatal(err)
	}
	message := fmt.Sprintf("%s|%s|%s|%d", d.header.Get("Paypal-Transmission-Id"), d.header.Get("Paypal-Transmission-Time"), webhookID,
		crc32.ChecksumIEEE(d.body))
	digest := sha256.Sum256([]byte(message))
	return rsa.VerifyPKCS1v15(key, crypto.SHA256, digest[:], signature)
}

func TestPayPalWebhooks(t *testing.T) {
	t.Parallel()
	b, s := newBench(t, sandbox.Options{}), newShop(t)
	b.listen(t, s, "paypal", "")
	created := b.pay(t, "/v2/checkout/orders", "k1", paypalOrder("CAPTURE", vault("COMPLETED")))
	b.pay(t, "/v2/payments/captures/"+text(payment(t, created, "captures"), "id")+"/refund", "k2", "").want(t, 201)
	b.flush(t)
	want := []string{"PAYMENT.CAPTURE.COMPLETED", "CHECKOUT.ORDER.COMPLETED", "PAYMENT.CAPTURE.REFUNDED"}
	if got := s.events(t); !slices.Equal(got, want) {
		t.Fatalf("events are %v, want %v", got, want)
	}
	pool := b.root(t)
	for _, each := range s.all() {
		if err := b.checkPayPal(t, each, pool, "WH-1"); err != nil {
			t.Errorf("%s: %v", each.event(t), err)
		}
		if b.checkPayPal(t, each, pool, "WH-2") == nil {
			t.Error("the signature fits another webhook too")
		}
	}
	sent := s.all()[0]
	verify := func(webhookID string, event []byte) reply {
		asked, err := json.Marshal(map[string]any{
			"auth_algo": sent.header.Get("Paypal-Auth-Algo"), "cert_url": sent.header.Get("Paypal-Cert-Url"), "webhook_id": webhookID,
			"transmission_id": sent.header.Get("Paypal-Transmission-Id"), "transmission_sig": sent.header.Get("Paypal-Transmission-Sig"),
			"transmission_time": sent.header.Get("Paypal-Transmission-Time"), "webhook_event": json.RawMessage(event),
		})
		if err != nil {
			t.Fatal(err)
		}
		return b.pay(t, "/v1/notifications/verify-webhook-signature", "", string(asked))
	}
	verify("WH-1", sent.body).want(t, 200, "verification_status", "SUCCESS")
	verify("WH-2", sent.body).want(t, 200, "verification_status", "FAILURE")
	verify("WH-1", []byte(strings.Replace(string(sent.body), "39.98", "39.99", 1))).want(t, 200, "verification_status", "FAILURE")
	b.pay(t, "/v1/notifications/verify-webhook-signature", "", `{"webhook_id":"WH-1"}`).want(t, 400, "name", "INVALID_REQUEST")
}

func TestPayPalApprovalIsAnnounced(t *testing.T) {
	t.Parallel()
	b, s := newBench(t, sandbox.Options{}), newShop(t)
	b.listen(t, s, "paypal", "")
	id := text(b.pay(t, "/v2/checkout/orders", "k1", paypalOrder("AUTHORIZE", wallet)).json(t), "id")
	b.control(t, "/payments/"+id+"/approve", "", http.StatusOK)
	b.pay(t, "/v2/checkout/orders/"+id+"/authorize", "k2", "").want(t, 201)
	b.flush(t)
	want := []string{"CHECKOUT.ORDER.APPROVED", "PAYMENT.AUTHORIZATION.CREATED", "CHECKOUT.ORDER.COMPLETED"}
	if got := s.events(t); !slices.Equal(got, want) {
		t.Errorf("events are %v, want %v", got, want)
	}
}
