package paypal

import (
	"bytes"
	"crypto"
	"crypto/rsa"
	"crypto/sha256"
	"crypto/x509"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"hash/crc32"
	"net/http"
	"net/http/httptest"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"paysaga/providers"
)

const (
	testWebhookID = "8PT597110X687430LKGECATA"
	certPath      = "/v1/notifications/certs/CERT-360caa42-fca2a594"
)

var (
	testNow = time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)
	sentAt  = testNow.Add(-time.Second).Format(time.RFC3339)
)

// signed are the headers of a message about body.
func (a *authority) signed(certificateURL, body string) http.Header {
	return a.signedAt(certificateURL, body, sentAt)
}

func (a *authority) signedAt(certificateURL, body, at string) http.Header {
	const id = "69cd13f0-d67a-11e5-baa3-778b53f4ae55"
	message := fmt.Sprintf("%s|%s|%s|%d", id, at, testWebhookID, crc32.ChecksumIEEE([]byte(body)))
	digest := sha256.Sum256([]byte(message))
	signature, err := rsa.SignPKCS1v15(nil, a.key, crypto.SHA256, digest[:])
	if err != nil {
		panic(err)
	}
	header := http.Header{}
	header.Set("Paypal-Transmission-Id", id)
	header.Set("Paypal-Transmission-Time", at)
	header.Set("Paypal-Transmission-Sig", base64.StdEncoding.EncodeToString(signature))
	header.Set("Paypal-Cert-Url", certificateURL)
	header.Set("Paypal-Auth-Algo", "SHA256withRSA")
	return header
}

// newTestWebhook is a webhook and the place of its certificate.
func newTestWebhook(t testing.TB, file []byte) (*Webhook, *certificateServer, string) {
	t.Helper()
	place := &certificateServer{}
	place.file.Store(&file)
	place.status.Store(http.StatusOK)
	server := httptest.NewServer(place)
	t.Cleanup(server.Close)
	webhook, err := NewWebhook(Config{
		WebhookID: testWebhookID, Roots: newAuthority().pool(), CertificateHosts: []string{strings.TrimPrefix(server.URL, "http://")},
	})
	if err != nil {
		t.Fatal(err)
	}
	return webhook, place, server.URL + certPath
}

func eventJSON(eventType, resource string) string {
	return fmt.Sprintf(`{"id":"WH-2WR32451HC0233532-67976317FL4543714","create_time":"2026-03-01T11:59:00Z","resource_type":"x","event_type":%q,"summary":"x","resource":%s}`, eventType, resource)
}

var captureEvent = eventJSON("PAYMENT.CAPTURE.COMPLETED", `{"id":"CAP1","status":"COMPLETED","invoice_id":"`+string(testKey)+`","custom_id":"`+testSagaKey+
	`","supplementary_data":{"related_ids":{"order_id":"`+testOrder+`"}}}`)

func TestNotices(t *testing.T) {
	t.Parallel()
	related := func(ids string) string {
		return `{"id":"X1","invoice_id":"` + string(testKey) + `","custom_id":"` + testSagaKey + `","supplementary_data":{"related_ids":{` + ids + `}}}`
	}
	ofOrder := `{"id":"` + testOrder + `","purchase_units":[{"invoice_id":"` + string(testKey) + `","custom_id":"` + testSagaKey + `"}]}`
	withOrder := `"order_id":"` + testOrder + `"`
	charge := providers.Notice{About: "charge", Key: testKey, Payment: testOrder, Reference: "X1"}
	tests := map[string]struct {
		event string
		want  providers.Notice // less what all have
	}{
		"PAYMENT.CAPTURE.COMPLETED":          {related(withOrder), charge},
		"PAYMENT.CAPTURE.PENDING":            {related(withOrder), charge},
		"PAYMENT.CAPTURE.DECLINED":           {related(withOrder), charge},
		"PAYMENT.CAPTURE.DENIED":             {related(withOrder + `,"authorization_id":"AUTH1"`), providers.Notice{About: "capture", Key: testKey, Payment: testOrder, Reference: "X1"}},
		"PAYMENT.CAPTURE.REFUNDED":           {related(""), providers.Notice{About: "refund", Key: testKey, Reference: "X1"}},
		"PAYMENT.CAPTURE.REVERSED":           {related(withOrder), providers.Notice{About: "refund", Key: testKey, Payment: testOrder, Reference: "X1"}},
		"PAYMENT.REFUND.FAILED":              {related(""), providers.Notice{About: "refund", Key: testKey, Reference: "X1"}},
		"PAYMENT.AUTHORIZATION.CREATED":      {related(withOrder), charge},
		"PAYMENT.AUTHORIZATION.VOIDED":       {related(withOrder), providers.Notice{About: "void", Key: testKey, Payment: testOrder, Reference: "X1"}},
		"CHECKOUT.ORDER.APPROVED":            {ofOrder, providers.Notice{About: "charge", Key: testKey, Payment: testOrder}},
		"CHECKOUT.ORDER.COMPLETED":           {`{"id":"A","purchase_units":[]}`, providers.Notice{About: "charge", Payment: "A"}},
		"CHECKOUT.PAYMENT-APPROVAL.REVERSED": {`{"order_id":"A"}`, providers.Notice{About: "charge"}},
		"PAYMENT.CAPTURE.OF-ANOTHER-SHOP":    {`{"id":"X1","invoice_id":"INV 1","custom_id":"€"}`, providers.Notice{About: "charge", Reference: "X1"}},
		"PAYMENT.CAPTURE.OF-NO-INVOICE":      {`{"id":"../x","custom_id":"` + testSagaKey + `"}`, providers.Notice{About: "charge", Key: testSagaKey}},
		"PAYMENT.CAPTURE.OF-ANOTHER-SHAPE":   {`{"id":1}`, providers.Notice{About: "other"}},
		"PAYMENT.CAPTURE.OF-NOTHING":         {`null`, providers.Notice{About: "charge"}},
		"CUSTOMER.DISPUTE.CREATED":           {`{"dispute_id":"PP-D-1"}`, providers.Notice{About: "other"}},
		"BILLING.SUBSCRIPTION.CANCELLED":     {`[]`, providers.Notice{About: "other"}},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			webhook, _, address := newTestWebhook(t, newAuthority().certificate)
			body := eventJSON(name, test.event)
			got, err := webhook.Parse(newAuthority().signed(address, body), []byte(body), testNow)
			if err != nil {
				t.Fatal(err)
			}
			want := test.want
			want.ID, want.Type, want.At = "WH-2WR32451HC0233532-67976317FL4543714", name, testNow.Add(-time.Minute)
			if diff := cmp.Diff([]providers.Notice{want}, got); diff != "" {
				t.Errorf("notices (-want +got):\n%s", diff)
			}
		})
	}
}

// TestEveryByteCounts: no byte of the body, of a header, or of the certificate can be another.
func TestEveryByteCounts(t *testing.T) {
	t.Parallel()
	webhook, place, address := newTestWebhook(t, newAuthority().certificate)
	header := newAuthority().signed(address, captureEvent)
	if _, err := webhook.Parse(header, []byte(captureEvent), testNow); err != nil {
		t.Fatal(err)
	}
	for i := range captureEvent {
		body := []byte(captureEvent)
		body[i] ^= 1 << (i % 7)
		if _, err := webhook.Parse(header, body, testNow); !errors.Is(err, ErrSignature) {
			t.Errorf("body, byte %d: %v", i, err)
		}
	}
	for name := range header {
		for i := range header.Get(name) {
			for _, bit := range []byte{1, 2, 32, 128} {
				changed := header.Clone()
				value := []byte(changed.Get(name))
				value[i] ^= bit
				changed.Set(name, string(value))
				if _, err := webhook.Parse(changed, []byte(captureEvent), testNow); err == nil {
					t.Errorf("%s, byte %d: accepted as %s", name, i, value)
				}
			}
		}
	}
	for i := range newAuthority().der {
		der := bytes.Clone(newAuthority().der)
		der[i] ^= 1 << (i % 8)
		file := inPEM(der)
		place.file.Store(&file)
		webhook.certificates.kept = map[string]keptCertificate{}
		if _, err := webhook.Parse(header, []byte(captureEvent), testNow); !errors.Is(err, ErrSignature) {
			t.Errorf("certificate, byte %d: %v", i, err)
		}
	}
}

// TestKnownVector: a message that was signed without a line of this project's.
func TestKnownVector(t *testing.T) {
	t.Parallel()
	file, err := os.ReadFile("testdata/webhook.json")
	if err != nil {
		t.Fatal(err)
	}
	var vector struct {
		WebhookID   string `json:"webhook_id"`
		ID          string `json:"transmission_id"`
		Time        string `json:"transmission_time"`
		Signature   string `json:"transmission_sig"`
		Body        string `json:"body"`
		Certificate string `json:"certificate"`
	}
	if err := json.Unmarshal(file, &vector); err != nil {
		t.Fatal(err)
	}
	at, err := time.Parse(time.RFC3339, vector.Time)
	if err != nil {
		t.Fatal(err)
	}
	_, place, address := newTestWebhook(t, []byte(vector.Certificate))
	roots := x509.NewCertPool()
	roots.AppendCertsFromPEM([]byte(vector.Certificate))
	webhook, err := NewWebhook(Config{
		WebhookID: vector.WebhookID, Roots: roots, CertificateHosts: []string{strings.TrimPrefix(strings.TrimSuffix(address, certPath), "http://")},
	})
	if err != nil {
		t.Fatal(err)
	}
	header := http.Header{
		"Paypal-Transmission-Id": {vector.ID}, "Paypal-Transmission-Time": {vector.Time}, "Paypal-Transmission-Sig": {vector.Signature},
		"Paypal-Cert-Url": {address}, "Paypal-Auth-Algo": {"SHA256withRSA"},
	}
	got, err := webhook.Parse(header, []byte(vector.Body), at.Add(time.Second))
	want := []providers.Notice{{
		ID: "WH-2WR32451HC0233532-67976317FL4543714", Type: "PAYMENT.CAPTURE.COMPLETED", About: providers.AboutCharge, Key: testKey,
		Payment: "5O190127TN364715T", Reference: "2GG279541U471931P", At: time.Date(2027, 3, 1, 11, 59, 58, 123000000, time.UTC),
	}}
	if diff := cmp.Diff(want, got); diff != "" || err != nil {
		t.Errorf("%v (-want +got):\n%s", err, diff)
	}
	if _, err := webhook.Parse(header, []byte(vector.Body+"\n"), at); !errors.Is(err, ErrSignature) {
		t.Errorf("another body: %v", err)
	}
	if n := place.fetches.Load(); n != 1 {
		t.Errorf("the certificate was fetched %d times", n)
	}
}

func TestHeadersMustBeThereOnce(t *testing.T) {
	t.Parallel()
	webhook, _, address := newTestWebhook(t, newAuthority().certificate)
	header := newAuthority().signed(address, captureEvent)
	for name := range header {
		for _, values := range [][]string{nil, {""}, {header.Get(name), header.Get(name)}} {
			changed := header.Clone()
			changed[name] = values
			if _, err := webhook.Parse(changed, []byte(captureEvent), testNow); !errors.Is(err, ErrSignature) {
				t.Errorf("%s %q: %v", name, values, err)
			}
		}
	}
	if _, err := webhook.Parse(nil, nil, testNow); !errors.Is(err, ErrSignature) {
		t.Errorf("no headers: %v", err)
	}
	other, err := NewWebhook(Config{WebhookID: "ANOTHER", Roots: newAuthority().pool(), CertificateHosts: webhook.certificates.places})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := other.Parse(header, []byte(captureEvent), testNow); !errors.Is(err, ErrSignature) {
		t.Errorf("another webhook's message: %v", err)
	}
}

func TestTolerance(t *testing.T) {
	t.Parallel()
	webhook, _, address := newTestWebhook(t, newAuthority().certificate)
	tests := map[time.Duration]bool{
		0: true, -maxMessageAge: true, -maxMessageAge - time.Second: false, maxMessageLead: true, maxMessageLead + time.Second: false,
		-72 * time.Hour: true, 24 * time.Hour: false,
	}
	for distance, want := range tests {
		header := newAuthority().signedAt(address, captureEvent, testNow.Add(distance).Format(time.RFC3339))
		if _, err := webhook.Parse(header, []byte(captureEvent), testNow); (err == nil) != want {
			t.Errorf("%s from now: %v", distance, err)
		}
	}
	header := newAuthority().signedAt(address, captureEvent, "yesterday")
	if _, err := webhook.Parse(header, []byte(captureEvent), testNow); !errors.Is(err, ErrSignature) {
		t.Errorf("a time that is none: %v", err)
	}
}

func TestMalformedEvents(t *testing.T) {
	t.Parallel()
	webhook, _, address := newTestWebhook(t, newAuthority().certificate)
	bodies := []string{
		``, `null`, `[]`, `"x"`, `{`, `{}`, `{"id":"WH-1"}`, `{"event_type":"X.Y"}`, `{"id":1,"event_type":"X.Y"}`, `{"id":"a b","event_type":"X.Y"}`,
		`{"id":"WH-1","event_type":"<b>"}`, captureEvent + "x", strings.Repeat(" ", maxEventBytes) + captureEvent,
	}
	for _, body := range bodies {
		if _, err := webhook.Parse(newAuthority().signed(address, body), []byte(body), testNow); !errors.Is(err, ErrMalformed) {
			t.Errorf("%.40s: %v", body, err)
		}
	}
	timeless := `{"id":"WH-1","event_type":"X.Y","create_time":"soon"}`
	got, err := webhook.Parse(newAuthority().signed(address, timeless), []byte(timeless), testNow)
	if err != nil || len(got) != 1 || got[0].At.Format(time.RFC3339) != sentAt {
		t.Errorf("an event without a time: %+v %v", got, err)
	}
}

// TestVerifyByAPI: PayPal is asked, with the event's bytes as they came.
func TestVerifyByAPI(t *testing.T) {
	t.Parallel()
	tests := map[string]struct {
		answer canned
		want   error
	}{
		"its own":     {canned{status: 200, body: `{"verification_status":"SUCCESS"}`}, nil},
		"not its own": {canned{status: 200, body: `{"verification_status":"FAILURE"}`}, ErrSignature},
		"neither":     {canned{status: 200, body: `{}`}, ErrUnavailable},
		"broken":      {canned{status: 200, body: `{"verification_status":`}, ErrUnavailable},
		"down":        {canned{status: 500}, ErrUnavailable},
		"refused":     {canned{status: 400, body: problemJSON("VALIDATION_ERROR", "X")}, ErrUnavailable},
	}
	spaced := strings.ReplaceAll(captureEvent, ",", " ,\n\t") + "\n"
	spaced = strings.Replace(spaced, `"summary":"x"`, `"summary":"a < b & c \u00e9"`, 1)
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			webhook, fake := apiWebhook(t, test.answer)
			header := newAuthority().signed("https://api.paypal.com"+certPath, spaced)
			got, err := webhook.Parse(header, []byte(spaced), testNow)
			if !errors.Is(err, test.want) || test.want == nil && (err != nil || len(got) != 1 || got[0].Key != testKey) {
				t.Errorf("%+v %v", got, err)
			}
			var asked map[string]json.RawMessage
			body := fake.last().Body
			if err := json.Unmarshal([]byte(body), &asked); err != nil || len(asked) != 7 || !strings.Contains(body, `"webhook_event":`+spaced+`}`) {
				t.Errorf("asked %s: %v", body, err)
			}
		})
	}
}

// TestVerifyByAPIRefusesNonsense without asking.
func TestVerifyByAPIRefusesNonsense(t *testing.T) {
	t.Parallel()
	webhook, fake := apiWebhook(t, canned{status: 200, body: `{"verification_status":"SUCCESS"}`})
	forged := newAuthority().signed("https://api.paypal.com.evil.com"+certPath, captureEvent)
	if _, err := webhook.Parse(forged, []byte(captureEvent), testNow); !errors.Is(err, ErrSignature) {
		t.Errorf("forged host: %v", err)
	}
	header := newAuthority().signed("https://api.paypal.com"+certPath, captureEvent)
	if _, err := webhook.Parse(header, []byte(`{"a":1},"webhook_id":"X"`), testNow); !errors.Is(err, ErrMalformed) {
		t.Errorf("a body that breaks out: %v", err)
	}
	if len(fake.calls()) != 0 {
		t.Error("PayPal was asked")
	}
}

// apiWebhook is a webhook that asks a PayPal with this answer.
func apiWebhook(t *testing.T, answer canned) (*Webhook, *fake) {
	t.Helper()
	fake := &fake{t: t, answers: map[string][]canned{"POST /v1/notifications/verify-webhook-signature": {answer}}}
	server := httptest.NewServer(fake)
	t.Cleanup(server.Close)
	webhook, err := NewWebhook(Config{
		WebhookID: testWebhookID, VerifyByAPI: true, ClientID: "client", ClientSecret: "TOPSECRET", BaseURL: server.URL,
	})
	if err != nil {
		t.Fatal(err)
	}
	return webhook, fake
}

func FuzzParse(f *testing.F) {
	webhook, _, address := newTestWebhook(f, newAuthority().certificate)
	good := newAuthority().signed(address, captureEvent)
	f.Add([]byte(captureEvent), good.Get("Paypal-Transmission-Id"), good.Get("Paypal-Transmission-Time"), good.Get("Paypal-Transmission-Sig"), address, "SHA256withRSA", true)
	f.Add([]byte(`{"id":"WH-1","event_type":"X","resource":{"purchase_units":[null]}}`), "id", sentAt, "AAAA", "https://x.paypal.com/a", "SHA256withRSA", true)
	f.Add([]byte(`{`), "", "", "", "https://evil.com@api.paypal.com/", "none", false)
	f.Fuzz(func(t *testing.T, body []byte, id, at, signature, certificateURL, algorithm string, sign bool) {
		header := http.Header{}
		if sign { // so that what lies behind the signature is reached
			header = newAuthority().signed(address, string(body))
		} else if strings.HasPrefix(certificateURL, "https://") {
			certificateURL = "https://unreachable.invalid/" + certificateURL // no test calls into the world
		}
		if !sign {
			header.Set("Paypal-Transmission-Id", id)
			header.Set("Paypal-Transmission-Time", at)
			header.Set("Paypal-Transmission-Sig", signature)
			header.Set("Paypal-Cert-Url", certificateURL)
			header.Set("Paypal-Auth-Algo", algorithm)
		}
		notices, err := webhook.Parse(header, body, testNow)
		switch {
		case err == nil && len(notices) != 1,
			err != nil && !errors.Is(err, ErrSignature) && !errors.Is(err, ErrMalformed) && !errors.Is(err, ErrUnavailable):
			t.Errorf("%d notices, %v", len(notices), err)
		case err == nil && !sign && !bytes.Equal(body, []byte(captureEvent)):
			t.Error("accepted without a signature")
		}
	})
}
