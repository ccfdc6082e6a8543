package stage

import (
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"time"

	"paysaga/internal/webhook"
	"paysaga/providers"
	"paysaga/providers/adyen"
	"paysaga/providers/paypal"
	"paysaga/providers/sandbox"
	"paysaga/providers/stripe"
	"paysaga/providers/wire"
	"paysaga/saga"
)

// The providers.
const (
	Stripe = "stripe"
	Adyen  = "adyen"
	PayPal = "paypal"
)

// Providers are all three.
func Providers() []string { return []string{Stripe, Adyen, PayPal} }

// What the sandbox's webhooks are signed with. They open nothing.
const (
	Merchant        = "StageMerchant"
	StripeSecret    = "whsec_stage"
	AdyenHMACKey    = "44782DEF547AAA06C910C43932B1EB0C71FC68D9D0C057550C48EC2ACF6BA056"
	PayPalWebhookID = "STAGEWEBHOOK"
)

// newAdapters makes them as production does, and the parsers of their webhooks. A message is judged by the time at which it came
// out of the sandbox, as its sender would sign each repeat anew.
func (s *Stage) newAdapters(severalCaptures bool) {
	s.Helper()
	const apiKey = "sk_test_stage"
	for _, secret := range []string{apiKey, StripeSecret, AdyenHMACKey} {
		s.book.Secret("a provider's key", secret)
	}
	client := &http.Client{Transport: s.Watch.Transport(wire.NewTransport())}
	stripeAdapter, err := stripe.New(stripe.Config{
		APIKey: apiKey, BaseURL: s.URL + "/stripe", CallTimeout: callTimeout, HTTPClient: client,
	})
	s.Must(err)
	adyenAdapter, err := adyen.New(adyen.Config{
		APIKey: apiKey, MerchantAccount: Merchant, BaseURL: s.URL + "/adyen/v71", CallTimeout: callTimeout,
		SeveralCaptures: severalCaptures, HTTPClient: client,
	})
	s.Must(err)
	config := paypal.Config{
		ClientID: "client", ClientSecret: apiKey, BaseURL: s.URL + "/paypal", CallTimeout: callTimeout, HTTPClient: client,
		WebhookID: PayPalWebhookID, VerifyByAPI: true, CertificateHosts: []string{s.URL[len("http://"):]},
	}
	paypalAdapter, err := paypal.New(config)
	s.Must(err)
	s.Adapters = map[string]saga.Provider{Stripe: stripeAdapter, Adyen: adyenAdapter, PayPal: paypalAdapter}
	stripeParser, err := stripe.NewWebhook(stripe.WebhookConfig{Secrets: []string{StripeSecret}})
	s.Must(err)
	adyenParser, err := adyen.NewWebhook(adyen.WebhookConfig{HMACKeys: []string{AdyenHMACKey}, MerchantAccount: Merchant})
	s.Must(err)
	paypalParser, err := paypal.NewWebhook(config)
	s.Must(err)
	s.Endpoints = map[string]webhook.Endpoint{
		Stripe: {Parser: punctual{stripeParser}},
		Adyen:  {Parser: punctual{adyenParser}, Accepted: "[accepted]"},
		PayPal: {Parser: punctual{paypalParser}},
	}
}

// punctual reads a message as if it came in when it was sent.
type punctual struct{ webhook.Parser }

func (p punctual) Parse(header http.Header, body []byte, now time.Time) ([]providers.Notice, error) {
	if sent, err := time.Parse(time.RFC3339Nano, header.Get(SentHeader)); err == nil {
		now = sent
	}
	return p.Parser.Parse(header, body, now)
}

// Identifier is what a call's key must be on the wire.
func Identifier(provider string, key providers.SubKey) string {
	switch provider {
	case Stripe:
		return key.StripeIdempotencyKey()
	case Adyen:
		return key.AdyenReference()
	}
	return key.PayPalRequestID()
}

// Control plays the customer's or the bank's part. It tells whether that was possible.
func (s *Stage) Control(path string) bool {
	s.Helper()
	answer := httptest.NewRecorder()
	s.Sandbox.ServeHTTP(answer, httptest.NewRequestWithContext(s.Context(), http.MethodPost, "/_sandbox/"+path, http.NoBody))
	switch answer.Code {
	case http.StatusOK:
		return true
	case http.StatusConflict, http.StatusNotFound:
		return false
	}
	s.Fatalf("control %s: %d %s", path, answer.Code, answer.Body)
	return false
}

// Decide lets the customer act on what the shop showed ("approve", "refuse"), and gives what comes back to the shop.
func (s *Stage) Decide(provider, payment string, next *providers.NextAction, decision string) (details json.RawMessage) {
	s.Helper()
	if provider != Adyen {
		s.Control("payments/" + payment + "/" + decision)
		return nil
	}
	page, err := url.Parse(next.URL)
	s.Must(err)
	form := url.Values{"decision": {decision}, "secret": {page.Query().Get("secret")}}
	page.RawQuery = ""
	posted, err := http.NewRequestWithContext(s.Context(), http.MethodPost, page.String(), strings.NewReader(form.Encode()))
	s.Must(err)
	posted.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	answer, err := s.client.Do(posted)
	s.Must(err)
	s.Must(answer.Body.Close())
	back, err := url.Parse(answer.Header.Get("Location"))
	s.Must(err)
	details, err = json.Marshal(map[string]string{"redirectResult": back.Query().Get("redirectResult")})
	s.Must(err)
	return details
}

// Requests are all calls that the sandbox was sent.
func (s *Stage) Requests() []sandbox.RequestRecord {
	s.Helper()
	answer := httptest.NewRecorder()
	s.Sandbox.ServeHTTP(answer, httptest.NewRequestWithContext(s.Context(), http.MethodGet, "/_sandbox/requests", http.NoBody))
	var recorded struct {
		Requests []sandbox.RequestRecord `json:"requests"`
	}
	s.Must(json.Unmarshal(answer.Body.Bytes(), &recorded))
	return recorded.Requests
}
