package webhook_test

import (
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"
)

// FuzzServeHTTP: whatever comes, signed or not, is taken or refused, never a panic and never a 5xx: what its provider signed can be
// stored, and what nobody signed leaves nothing behind.
func FuzzServeHTTP(f *testing.F) {
	b := newBundle(f)
	for provider, m := range b.oneOfEach() {
		f.Add(provider, "Stripe-Signature", m.header.Get("Stripe-Signature"), m.body, "k_charge", false)
		f.Add(provider, "Paypal-Transmission-Sig", m.header.Get("Paypal-Transmission-Sig"), m.body, "a:b", true)
	}
	f.Add("adyen", "X", "", `{"notificationItems":[{"NotificationRequestItem":{"additionalData":null}}]}`, "\x00", true)
	f.Add("stripe", "Stripe-Signature", ",,=,t==", "\xff", "\xff", false)
	f.Add("stripe", "", "", `{"id":"evt_1","object":"event","type":"x","created":9223372036854775807,"data":{"object":{}}}`, "", true)
	f.Add("paypal", "Paypal-Cert-Url", "http://[::1", `{"id":"WH-1","event_type":"X","resource":{"purchase_units":[null]}}`, "", true)
	f.Fuzz(func(t *testing.T, provider, name, value, body, text string, signed bool) {
		b := *b
		b.t = t
		m := message{provider, http.Header{}, body}
		if name != "Paypal-Cert-Url" { // no test calls into the world
			m.header[http.CanonicalHeaderKey(name)] = []string{value}
		}
		if signed {
			m = b.signedAs(provider, body, text)
		}
		request := httptest.NewRequestWithContext(t.Context(), http.MethodPost, "/webhooks/x", strings.NewReader(m.body))
		request.URL.Path, request.Header = "/webhooks/"+m.provider, m.header
		before := b.count(`SELECT count(*) FROM webhook_events`)
		recorder := httptest.NewRecorder()
		b.inbox.ServeHTTP(recorder, request)
		kept := b.count(`SELECT count(*) FROM webhook_events`) - before
		if recorder.Code >= 500 || recorder.Code != http.StatusOK && kept != 0 {
			t.Errorf("answered %d %s, %d kept; log:\n%s", recorder.Code, recorder.Body, kept, b.log)
		}
	})
}

// signedAs is a message that the provider signed: Adyen's events are made of the text, the others' bodies are taken as they are.
func (b *bundle) signedAs(provider, body, text string) message {
	switch provider {
	case "stripe":
		if body == "" {
			return stripeMessage("evt_1", "payment_intent.succeeded", "pi_1", "", time.Now())
		}
		return signStripe(body)
	case "paypal":
		return b.payPal.sign(body)
	}
	text = strings.ToValidUTF8(text, "") // as JSON has it
	return adyenMessage(adyenItem{psp: "P" + text, original: text, reference: text, code: "AUTHORISATION", success: "true"},
		adyenItem{psp: "P", reference: text, code: "X" + text, success: "false"})
}
