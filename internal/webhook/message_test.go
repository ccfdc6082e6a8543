package webhook_test

import (
	"crypto"
	"crypto/hmac"
	"crypto/rand"
	"crypto/rsa"
	"crypto/sha256"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"encoding/pem"
	"fmt"
	"hash/crc32"
	"math/big"
	"net/http"
	"net/http/httptest"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"paysaga/providers"
	"paysaga/providers/paypal"
)

// stripeMessage is one event about a payment.
func stripeMessage(id, kind, payment string, key providers.SubKey, created time.Time) message {
	return signStripe(fmt.Sprintf(`{"id":%q,"object":"event","type":%q,"created":%d,"data":{"object":{"id":%q,"object":"payment_intent",`+
		`"metadata":{"sub_key":%q}}}}`, id, kind, created.Unix(), payment, key))
}

// signStripe follows Stripe's documentation, not the code under test.
func signStripe(body string) message {
	stamp := strconv.FormatInt(time.Now().Unix(), 10)
	mac := hmac.New(sha256.New, []byte(stripeSecret))
	mac.Write([]byte(stamp + "." + body))
	return message{"stripe", http.Header{"Stripe-Signature": {"t=" + stamp + ",v1=" + hex.EncodeToString(mac.Sum(nil))}}, body}
}

// adyenItem is one event of a batch.
type adyenItem struct{ psp, original, reference, code, success string }

// adyenMessage is a batch, each item signed as Adyen's documentation says.
func adyenMessage(items ...adyenItem) message {
	wrapped := make([]any, 0, len(items))
	for _, i := range items {
		key, err := hex.DecodeString(adyenKey)
		if err != nil {
			panic(err)
		}
		mac := hmac.New(sha256.New, key)
		mac.Write([]byte(strings.Join([]string{i.psp, i.original, adyenMerchant, i.reference, "3998", "EUR", i.code, i.success}, ":")))
		wrapped = append(wrapped, map[string]any{"NotificationRequestItem": map[string]any{
			"pspReference": i.psp, "originalReference": i.original, "merchantAccountCode": adyenMerchant, "merchantReference": i.reference,
			"amount": map[string]any{"value": 3998, "currency": "EUR"}, "eventCode": i.code, "success": i.success,
			"eventDate": "2026-08-06T17:15:34+02:00", "reason": "Jane Doe, 4 Station Road",
			"additionalData": map[string]any{"hmacSignature": base64.StdEncoding.EncodeToString(mac.Sum(nil))},
		}})
	}
	body, err := json.Marshal(map[string]any{"live": "false", "notificationItems": wrapped})
	if err != nil {
		panic(err)
	}
	return message{"adyen", http.Header{}, string(body)}
}

// payPalCertificate is a certificate, the place where it can be fetched, and the key to it.
type payPalCertificate struct {
	url   string
	roots *x509.CertPool
	hosts []string
}

// payPalKey is shared by the tests of the package: it takes long to make.
var payPalKey = sync.OnceValue(func() *rsa.PrivateKey {
	key, err := rsa.GenerateKey(rand.Reader, 2048)
	if err != nil {
		panic(err)
	}
	return key
})

func newPayPalCertificate(t testing.TB) *payPalCertificate {
	t.Helper()
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "test"}, IsCA: true, BasicConstraintsValid: true,
		NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour),
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, payPalKey().Public(), payPalKey())
	if err != nil {
		t.Fatal(err)
	}
	file := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der})
	place := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write(file) }))
	t.Cleanup(place.Close)
	c := &payPalCertificate{
		url: place.URL + "/v1/notifications/certs/CERT-test", roots: x509.NewCertPool(), hosts: []string{strings.TrimPrefix(place.URL, "http://")},
	}
	c.roots.AppendCertsFromPEM(file)
	return c
}

func (c *payPalCertificate) webhook(t testing.TB) *paypal.Webhook {
	t.Helper()
	made, err := paypal.NewWebhook(paypal.Config{WebhookID: payPalID, Roots: c.roots, CertificateHosts: c.hosts})
	if err != nil {
		t.Fatal(err)
	}
	return made
}

func (c *payPalCertificate) message(id, kind, resource string) message {
	return c.sign(fmt.Sprintf(`{"id":%q,"event_type":%q,"create_time":"2026-03-01T11:59:00Z","resource":%s}`, id, kind, resource))
}

// sign follows PayPal's documentation, not the code under test.
func (c *payPalCertificate) sign(body string) message {
	const transmission = "69cd13f0-d67a-11e5-baa3-778b53f4ae55"
	at := time.Now().UTC().Format(time.RFC3339)
	digest := sha256.Sum256(fmt.Appendf(nil, "%s|%s|%s|%d", transmission, at, payPalID, crc32.ChecksumIEEE([]byte(body))))
	signature, err := rsa.SignPKCS1v15(nil, payPalKey(), crypto.SHA256, digest[:])
	if err != nil {
		panic(err)
	}
	return message{"paypal", http.Header{
		"Paypal-Transmission-Id": {transmission}, "Paypal-Transmission-Time": {at}, "Paypal-Cert-Url": {c.url},
		"Paypal-Auth-Algo": {"SHA256withRSA"}, "Paypal-Transmission-Sig": {base64.StdEncoding.EncodeToString(signature)},
	}, body}
}
