package paypal

import (
	"bytes"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/rsa"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"errors"
	"math/big"
	"net/http"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"
)

// authority signs certificates and, with one of them, messages.
type authority struct {
	key         *rsa.PrivateKey // of root and leaf alike: keys take long to make
	root        *x509.Certificate
	certificate []byte // the leaf, PEM
	der         []byte
}

// newAuthority is shared by the tests of the package.
var newAuthority = sync.OnceValue(func() *authority {
	key, err := rsa.GenerateKey(rand.Reader, 2048)
	if err != nil {
		panic(err)
	}
	a := &authority{key: key}
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "test root"}, IsCA: true, BasicConstraintsValid: true,
		NotBefore: testNow.AddDate(-1, 0, 0), NotAfter: testNow.AddDate(1, 0, 0), KeyUsage: x509.KeyUsageCertSign,
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, &key.PublicKey, key)
	if err != nil {
		panic(err)
	}
	if a.root, err = x509.ParseCertificate(der); err != nil {
		panic(err)
	}
	a.der = a.leaf("messageverificationcerts.paypal.com", &key.PublicKey, testNow.AddDate(0, 6, 0))
	a.certificate = inPEM(a.der)
	return a
})

func (a *authority) leaf(name string, public any, until time.Time) []byte {
	template := &x509.Certificate{
		SerialNumber: big.NewInt(2), Subject: pkix.Name{CommonName: name}, DNSNames: []string{name},
		NotBefore: testNow.AddDate(0, -6, 0), NotAfter: until, KeyUsage: x509.KeyUsageDigitalSignature,
	}
	der, err := x509.CreateCertificate(rand.Reader, template, a.root, public, a.key)
	if err != nil {
		panic(err)
	}
	return der
}

func inPEM(der []byte) []byte { return pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der}) }

func (a *authority) pool() *x509.CertPool {
	pool := x509.NewCertPool()
	pool.AddCert(a.root)
	return pool
}

// certificateServer serves what it holds at certPath, and nothing elsewhere.
type certificateServer struct {
	file    atomic.Pointer[[]byte]
	status  atomic.Int32
	fetches atomic.Int32
}

func (s *certificateServer) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	s.fetches.Add(1)
	if r.URL.Path != certPath {
		http.NotFound(w, r)
		return
	}
	w.WriteHeader(int(s.status.Load()))
	_, _ = w.Write(*s.file.Load())
}

func TestCertificateHosts(t *testing.T) {
	t.Parallel()
	webhook, err := NewWebhook(Config{WebhookID: testWebhookID, CertificateHosts: []string{"sandbox:9090", "cert.example.com:443", "127.0.0.1:80"}})
	if err != nil {
		t.Fatal(err)
	}
	const path = "/v1/notifications/certs/CERT-1"
	tests := map[string]bool{
		"https://api.paypal.com" + path:                      true,
		"https://api.sandbox.paypal.com" + path:              true,
		"https://api.paypal.com:443" + path:                  true,
		"https://cert.example.com:443" + path:                true,
		"http://sandbox:9090/paypal" + path:                  true,
		"https://sandbox:9090" + path:                        true,
		"http://127.0.0.1:80" + path:                         true,
		"http://cert.example.com:443" + path:                 false,
		"https://cert.example.com" + path:                    false,
		"http://sandbox:9091" + path:                         false,
		"http://api.paypal.com" + path:                       false,
		"https://paypal.com" + path:                          false,
		"https://paypal.com.evil.com" + path:                 false,
		"https://api.paypal.com.evil.com" + path:             false,
		"https://evilpaypal.com" + path:                      false,
		"https://api.evilpaypal.com" + path:                  false,
		"https://api.paypal.com@evil.com" + path:             false,
		"https://evil.com@api.paypal.com" + path:             false,
		"https://user:pass@api.paypal.com" + path:            false,
		"https://api.paypal.com:8443" + path:                 false,
		"https://api.paypal.com:" + path:                     false,
		"https://api.paypal.com.:443" + path:                 false,
		"https://api.paypal.com." + path:                     false,
		"https://.paypal.com" + path:                         false,
		"https://-.paypal.com" + path:                        false,
		"https://API.paypal.com" + path:                      false,
		"HTTPS://api.paypal.com" + path:                      false,
		"https:/api.paypal.com" + path:                       false,
		"https:api.paypal.com" + path:                        false,
		"//api.paypal.com" + path:                            false,
		"ftp://api.paypal.com" + path:                        false,
		"file:///etc/passwd":                                 false,
		"https://evil.com/api.paypal.com" + path:             false,
		"https://evil.com#.paypal.com" + path:                false,
		"https://evil.com?.paypal.com" + path:                false,
		"https://evil.com\\.paypal.com" + path:               false,
		"https://evil.com%2f.paypal.com" + path:              false,
		"https://evil.com\x00.paypal.com" + path:             false,
		"https://api.paypal.com\n" + path:                    false,
		"https://аpi.paypal.com" + path:                      false, // a Cyrillic а
		"https://127.0.0.1" + path:                           false,
		"https://[::1]" + path:                               false,
		"https://169.254.169.254/latest":                     false,
		"https://api.paypal.com":                             false,
		"https://api.paypal.com/":                            false,
		"https://api.paypal.com/a/../b":                      false,
		"https://api.paypal.com//b":                          false,
		"https://api.paypal.com/a/.hidden":                   false,
		"https://api.paypal.com" + path + "?x=1":             false,
		"https://api.paypal.com" + path + "?":                false,
		"https://api.paypal.com" + path + "#x":               false,
		"https://api.paypal.com/%2e%2e/x":                    false,
		"https://api.paypal.com/" + strings.Repeat("a", 500): false,
		"": false,
	}
	for address, want := range tests {
		if got := webhook.certificates.allowed(address); got != want {
			t.Errorf("%q: %t", address, got)
		}
		if want {
			continue
		}
		_, err := webhook.Parse(newAuthority().signed(address, captureEvent), []byte(captureEvent), testNow)
		if !errors.Is(err, ErrSignature) {
			t.Errorf("%q: %v", address, err)
		}
	}
}

func TestBadCertificates(t *testing.T) {
	t.Parallel()
	trusted := newAuthority()
	small, err := rsa.GenerateKey(rand.Reader, 1024)
	if err != nil {
		t.Fatal(err)
	}
	curve, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	forged := &authority{key: trusted.key}
	selfSigned := &x509.Certificate{
		SerialNumber: big.NewInt(3), Subject: pkix.Name{CommonName: "messageverificationcerts.paypal.com"}, IsCA: true, BasicConstraintsValid: true,
		NotBefore: testNow.AddDate(-1, 0, 0), NotAfter: testNow.AddDate(1, 0, 0),
	}
	forgedDER, err := x509.CreateCertificate(rand.Reader, selfSigned, selfSigned, &forged.key.PublicKey, forged.key)
	if err != nil {
		t.Fatal(err)
	}
	tests := map[string]struct {
		file   []byte
		status int
		want   error
	}{
		"self-signed":      {inPEM(forgedDER), 200, ErrSignature},
		"run out":          {inPEM(trusted.leaf("x.paypal.com", &trusted.key.PublicKey, testNow.Add(-time.Second))), 200, ErrSignature},
		"a small key":      {inPEM(trusted.leaf("x.paypal.com", &small.PublicKey, testNow.AddDate(1, 0, 0))), 200, ErrSignature},
		"a key of a curve": {inPEM(trusted.leaf("x.paypal.com", &curve.PublicKey, testNow.AddDate(1, 0, 0))), 200, ErrSignature},
		"empty":            {nil, 200, ErrSignature},
		"no certificate":   {[]byte("<html>"), 200, ErrSignature},
		"a key":            {pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: trusted.der}), 200, ErrSignature},
		"broken":           {inPEM(trusted.der[:100]), 200, ErrSignature},
		"not there":        {nil, 404, ErrSignature},
		"PayPal is down":   {trusted.certificate, 503, ErrUnavailable},
		"a redirect":       {trusted.certificate, 302, ErrUnavailable},
		"too long":         {bytes.Repeat([]byte("x"), maxChainBytes+1), 200, ErrUnavailable},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			webhook, place, address := newTestWebhook(t, test.file)
			place.status.Store(int32(test.status))
			header := newAuthority().signed(address, captureEvent)
			if _, err := webhook.Parse(header, []byte(captureEvent), testNow); !errors.Is(err, test.want) {
				t.Errorf("%v, want %v", err, test.want)
			}
			if len(webhook.certificates.kept) != 0 {
				t.Error("a bad certificate was kept")
			}
		})
	}
}

// TestSystemRootsNeedPayPalsName: roots that vouch for the whole web are not enough.
func TestSystemRootsNeedPayPalsName(t *testing.T) {
	t.Parallel()
	tests := map[string]bool{
		"messageverificationcerts.paypal.com": true, "API.PayPal.com": true, "paypal.com.evil.com": false, "evilpaypal.com": false, "paypal.com": false, "": false,
	}
	for name, want := range tests {
		if got := bearsPayPalsName(&x509.Certificate{Subject: pkix.Name{CommonName: name}}); got != want {
			t.Errorf("common name %q: %t", name, got)
		}
		if got := bearsPayPalsName(&x509.Certificate{DNSNames: []string{"x", name}}); got != want {
			t.Errorf("name %q: %t", name, got)
		}
	}
	webhook, _, address := newTestWebhook(t, newAuthority().certificate)
	webhook.certificates.roots = nil
	if _, err := webhook.Parse(newAuthority().signed(address, captureEvent), []byte(captureEvent), testNow); !errors.Is(err, ErrSignature) {
		t.Errorf("the test's own root is trusted by the system: %v", err)
	}
}

func TestCertificateIsKept(t *testing.T) {
	t.Parallel()
	webhook, place, address := newTestWebhook(t, newAuthority().certificate)
	header := newAuthority().signedAt(address, captureEvent, testNow.Format(time.RFC3339))
	var group sync.WaitGroup
	for range 20 {
		group.Go(func() {
			if _, err := webhook.Parse(header, []byte(captureEvent), testNow); err != nil {
				t.Error(err)
			}
		})
	}
	group.Wait()
	fetched := place.fetches.Load()
	if fetched > maxFetches {
		t.Errorf("%d fetches for one certificate", fetched)
	}
	place.status.Store(http.StatusServiceUnavailable)
	if _, err := webhook.Parse(header, []byte(captureEvent), testNow.Add(keptFor-time.Second)); err != nil {
		t.Errorf("inside its time: %v", err)
	}
	if _, err := webhook.Parse(header, []byte(captureEvent), testNow.Add(keptFor)); !errors.Is(err, ErrUnavailable) {
		t.Errorf("past its time: %v", err)
	}
}

func TestKeptCertificatesAreBounded(t *testing.T) {
	t.Parallel()
	c := newCertificates(Config{HTTPClient: &http.Client{}})
	for i := range 10 * maxKept {
		c.keep(strconv.Itoa(i), keptCertificate{until: testNow.Add(time.Duration(i%3-1) * time.Hour)}, testNow)
		if len(c.kept) > maxKept {
			t.Fatalf("%d are kept", len(c.kept))
		}
		if _, ok := c.kept[strconv.Itoa(i)]; !ok {
			t.Fatal("the newest is not kept")
		}
	}
}
