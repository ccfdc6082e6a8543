package stripe

import (
	"errors"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/stripe/stripe-go/v76/webhook"

	"paysaga/providers"
)

const (
	oldSecret = "whsec_old0123456789abcdefABCDEF"
	newSecret = "whsec_new0123456789abcdefABCDEF"
	otherOne  = "whsec_other123456789abcdefABCDE"
)

var testNow = time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)

func newTestWebhook(t testing.TB) *Webhook {
	t.Helper()
	made, err := NewWebhook(WebhookConfig{Secrets: []string{oldSecret, newSecret}})
	if err != nil {
		t.Fatal(err)
	}
	return made
}

// signedBy is the header of a message by Stripe's own library.
func signedBy(secret, body string, at time.Time) string {
	return webhook.GenerateTestSignedPayload(&webhook.UnsignedPayload{Payload: []byte(body), Secret: secret, Timestamp: at}).Header
}

func headerOf(values ...string) http.Header { return http.Header{signatureHeader: values} }

// eventJSON is an event about an object.
func eventJSON(kind, object string) string {
	return `{"id":"evt_1","object":"event","type":"` + kind + `","created":1772366400,"data":{"object":` + object + `}}`
}

const (
	paymentObject = `{"id":"pi_1","object":"payment_intent","status":"succeeded","metadata":{"saga_key":"s","sub_key":"s_charge"}}`
	chargeObject  = `{"id":"ch_1","object":"charge","payment_intent":"pi_1","metadata":{"sub_key":"s_charge"}}`
	refundObject  = `{"id":"re_1","object":"refund","payment_intent":"pi_1","metadata":{"sub_key":"s_refund"}}`
)

func TestParse(t *testing.T) {
	t.Parallel()
	const unmarked = `{"id":"pi_1","object":"payment_intent","metadata":{"sub_key":"other system's: mark"}}`
	charge := providers.Notice{About: providers.AboutCharge, Key: "s_charge", Payment: "pi_1"}
	refund := providers.Notice{About: providers.AboutRefund, Key: "s_refund", Payment: "pi_1", Reference: "re_1"}
	other := providers.Notice{About: providers.AboutOther}
	tests := map[string]struct {
		kind, object string
		want         providers.Notice
	}{
		"payment taken":              {"payment_intent.succeeded", paymentObject, charge},
		"payment held":               {"payment_intent.amount_capturable_updated", paymentObject, charge},
		"payment canceled":           {"payment_intent.canceled", paymentObject, charge},
		"payment of tomorrow":        {"payment_intent.blessed", paymentObject, charge},
		"payment of another system":  {"payment_intent.succeeded", unmarked, providers.Notice{About: providers.AboutCharge, Payment: "pi_1"}},
		"payment without metadata":   {"payment_intent.succeeded", `{"id":"pi_1","object":"payment_intent"}`, providers.Notice{About: providers.AboutCharge, Payment: "pi_1"}},
		"payment with an odd id":     {"payment_intent.succeeded", `{"id":"pi_1/../x","object":"payment_intent"}`, providers.Notice{About: providers.AboutCharge}},
		"charge":                     {"charge.captured", chargeObject, charge},
		"charge without a payment":   {"charge.succeeded", `{"id":"ch_1","object":"charge","payment_intent":null}`, providers.Notice{About: providers.AboutCharge}},
		"charge given back":          {"charge.refunded", chargeObject, providers.Notice{About: providers.AboutRefund, Payment: "pi_1"}},
		"refund, by its old name":    {"charge.refund.updated", refundObject, refund},
		"refund":                     {"refund.failed", refundObject, refund},
		"dispute":                    {"charge.dispute.created", `{"id":"du_1","object":"dispute","payment_intent":"pi_1"}`, other},
		"payout":                     {"payout.paid", `{"id":"po_1","object":"payout"}`, other},
		"other object than the type": {"payment_intent.succeeded", refundObject, other},
		"object that cannot be read": {"payment_intent.succeeded", `{"id":7}`, other},
		"no object":                  {"payment_intent.succeeded", `null`, other},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			body := eventJSON(test.kind, test.object)
			test.want.ID, test.want.Type, test.want.At = "evt_1", test.kind, testNow
			for _, secret := range []string{oldSecret, newSecret} {
				got, err := newTestWebhook(t).Parse(headerOf(signedBy(secret, body, testNow)), []byte(body), testNow)
				if difference := cmp.Diff([]providers.Notice{test.want}, got); difference != "" || err != nil {
					t.Errorf("%v %s", err, difference)
				}
			}
		})
	}
}

func TestParseRefuses(t *testing.T) {
	t.Parallel()
	body := eventJSON("payment_intent.succeeded", paymentObject)
	good := signedBy(newSecret, body, testNow)
	stamp, signature, _ := strings.Cut(good, ",")
	tests := map[string]struct {
		header http.Header
		body   string
		want   error
	}{
		"good":                        {headerOf(good), body, nil},
		"good after another secret's": {headerOf(stamp + ",v1=" + strings.Repeat("0", 64) + "," + signature), body, nil},
		"good before a v0":            {headerOf(good + ",v0=" + strings.Repeat("0", 64)), body, nil},
		"299 s old":                   {headerOf(signedBy(newSecret, body, testNow.Add(-299*time.Second))), body, nil},
		"299 s ahead":                 {headerOf(signedBy(newSecret, body, testNow.Add(299*time.Second))), body, nil},
		"301 s old":                   {headerOf(signedBy(newSecret, body, testNow.Add(-301*time.Second))), body, ErrSignature},
		"301 s ahead":                 {headerOf(signedBy(newSecret, body, testNow.Add(301*time.Second))), body, ErrSignature},
		"of the year 33658":           {headerOf(signedBy(newSecret, body, time.Unix(999_999_999_999, 0))), body, ErrSignature},
		"no header":                   {http.Header{}, body, ErrSignature},
		"two headers":                 {headerOf(good, good), body, ErrSignature},
		"empty header":                {headerOf(""), body, ErrSignature},
		"no time":                     {headerOf(signature), body, ErrSignature},
		"two times":                   {headerOf(stamp + "," + good), body, ErrSignature},
		"no signature":                {headerOf(stamp), body, ErrSignature},
		"v0 only":                     {headerOf(strings.Replace(good, "v1=", "v0=", 1)), body, ErrSignature},
		"in upper case":               {headerOf(stamp + ",v1=" + strings.ToUpper(signature[len("v1="):])), body, ErrSignature},
		"another secret":              {headerOf(signedBy(otherOne, body, testNow)), body, ErrSignature},
		"many signatures":             {headerOf(stamp + strings.Repeat(",v1=0", 20) + "," + signature), body, ErrSignature},
		"another body":                {headerOf(good), body + " ", ErrSignature},
		"no JSON":                     {headerOf(signedBy(newSecret, "{", testNow)), "{", ErrMalformed},
		"empty":                       {headerOf(signedBy(newSecret, "", testNow)), "", ErrMalformed},
		"no event":                    {headerOf(signedBy(newSecret, paymentObject, testNow)), paymentObject, ErrMalformed},
		"no id":                       {headerOf(signedBy(newSecret, `{"object":"event","type":"x"}`, testNow)), `{"object":"event","type":"x"}`, ErrMalformed},
		"over the limit":              {headerOf(good), strings.Repeat(" ", maxWebhookBytes+1), ErrMalformed},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			got, err := newTestWebhook(t).Parse(test.header, []byte(test.body), testNow)
			if !errors.Is(err, test.want) || (err == nil) != (len(got) == 1) {
				t.Errorf("%v, %+v", err, got)
			}
			if err != nil && (strings.Contains(err.Error(), "whsec_") || strings.Contains(err.Error(), "pi_1")) {
				t.Errorf("the error shows too much: %s", err)
			}
		})
	}
}

// TestEveryByteCounts: whichever byte of the header or body is another, the message is refused.
func TestEveryByteCounts(t *testing.T) {
	t.Parallel()
	body := eventJSON("payment_intent.succeeded", paymentObject)
	header := signedBy(newSecret, body, testNow)
	verifier := newTestWebhook(t)
	for _, flip := range []byte{1, 0x20, 0x80} { // 0x20 turns the case of letters
		for i := range body {
			changed := []byte(body)
			changed[i] ^= flip
			if _, err := verifier.Parse(headerOf(header), changed, testNow); !errors.Is(err, ErrSignature) {
				t.Errorf("body, byte %d ^ %d: %v", i, flip, err)
			}
		}
		for i := range header {
			changed := []byte(header)
			changed[i] ^= flip
			if _, err := verifier.Parse(headerOf(string(changed)), []byte(body), testNow); !errors.Is(err, ErrSignature) {
				t.Errorf("header %q: %v", changed, err)
			}
		}
	}
}

// knownBody and knownSignature are the vector in the tests of Stripe's library for .NET; its secret is "webhook_secret".
const (
	knownBody = `{
  "id": "evt_123",
  "object": "event",
  "account": "acct_123",
  "api_version": "2017-05-25",
  "created": 1533204620,
  "data": {
    "object": {
      "id": "cus_123",
      "object": "customer",
      "created": 123456789,
      "email": "test@stripe.com",
      "livemode": false,
      "metadata": {}
    }
  },
  "livemode": false,
  "pending_webhooks": 1,
  "request": {
    "id": "req_123",
    "idempotency_key": "idempotency-key-123"
  },
  "type": "customer.created"
}
`
	knownSignature = "t=1533204620,v1=2220f87ef101a04665f11cdf770523143f875572008577fa0f20882ddb9cc3c7," +
		"v0=63f3a72374a733066c4be69ed7f8e5ac85c22c9f0a6a612ab9a025a9e4ee7eef"
)

// TestKnownVector passes with its secret, and with no secret that differs in a bit.
func TestKnownVector(t *testing.T) {
	t.Parallel()
	secret, at := []byte("webhook_secret"), time.Unix(1533204620, 0).UTC()
	known := &Webhook{secrets: [][]byte{secret}} // its secret has not the form of today's
	got, err := known.Parse(headerOf(knownSignature), []byte(knownBody), at)
	want := []providers.Notice{{ID: "evt_123", Type: "customer.created", About: providers.AboutOther, At: at}}
	if difference := cmp.Diff(want, got); difference != "" || err != nil {
		t.Errorf("%v %s", err, difference)
	}
	for i := range len(secret) * 8 {
		changed := slices.Clone(secret)
		changed[i/8] ^= 1 << (i % 8)
		other := &Webhook{secrets: [][]byte{changed}}
		if _, err := other.Parse(headerOf(knownSignature), []byte(knownBody), at); !errors.Is(err, ErrSignature) {
			t.Errorf("secret %q: %v", changed, err)
		}
	}
}

func TestWebhookConfig(t *testing.T) {
	t.Parallel()
	tests := map[string]struct {
		secrets []string
		ok      bool
	}{
		"one": {[]string{oldSecret}, true}, "two": {[]string{oldSecret, newSecret}, true}, "ten": {slices.Repeat([]string{oldSecret}, 10), true},
		"none": {nil, false}, "eleven": {slices.Repeat([]string{oldSecret}, 11), false}, "empty": {[]string{""}, false},
		"API key": {[]string{"sk_test_TOPSECRET"}, false}, "pasted with a space": {[]string{oldSecret, newSecret + " "}, false},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			_, err := NewWebhook(WebhookConfig{Secrets: test.secrets})
			if (err == nil) != test.ok || err != nil && (!errors.Is(err, ErrConfig) || strings.Contains(err.Error(), "TOPSECRET")) {
				t.Errorf("%v", err)
			}
		})
	}
}

// FuzzParse: whatever comes, it is refused in one of two ways, and what is taken has an id and a type.
func FuzzParse(f *testing.F) {
	verifier := newTestWebhook(f)
	for _, body := range []string{
		eventJSON("payment_intent.succeeded", paymentObject), eventJSON("charge.refunded", chargeObject), eventJSON("refund.failed", refundObject),
		`{}`, `null`, `{"id":"evt_1","object":"event","type":"x","created":-1,"data":null}`,
	} {
		f.Add(signedBy(newSecret, body, testNow), []byte(body))
	}
	f.Add("t=1,v1=", []byte("{}"))
	f.Add(",,=,t==", []byte{0xff})
	f.Fuzz(func(t *testing.T, header string, body []byte) {
		for name, given := range map[string]string{"as it came": header, "signed": signedBy(oldSecret, string(body), testNow)} {
			notices, err := verifier.Parse(headerOf(given), body, testNow)
			switch {
			case err == nil:
				expectWhole(t, notices)
			case name == "signed" && !errors.Is(err, ErrMalformed), !errors.Is(err, ErrMalformed) && !errors.Is(err, ErrSignature), len(notices) != 0:
				t.Errorf("%s: %v, %+v", name, err, notices)
			}
		}
	})
}

func expectWhole(t *testing.T, notices []providers.Notice) {
	t.Helper()
	if len(notices) != 1 {
		t.Fatalf("%d notices", len(notices))
	}
	if got := notices[0]; got.ID == "" || got.Type == "" || got.About == "" || got.At.IsZero() || got.Outcome != nil {
		t.Errorf("%+v", got)
	}
}
