package main

import (
	"maps"
	"net"
	"net/http"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"

	"paysaga/internal/config"
	"paysaga/internal/seal"
)

// loaded are settings that config takes, and so must the adapters.
func loaded(t *testing.T, entries ...string) config.Config {
	t.Helper()
	c, err := config.Load(append([]string{"DATABASE_URL=postgres://h/shop", "PAYSAGA_ENCRYPTION_KEYS=" + seal.GenerateKey("k1")}, entries...))
	noError(t, err)
	return c
}

func TestProvidersAndTheirWebhooks(t *testing.T) {
	t.Parallel()
	adyen := []string{"ADYEN_API_KEY=key", "ADYEN_MERCHANT_ACCOUNT=Shop", "ADYEN_HMAC_KEYS=" + testHMACKey + "," + testHMACKey}
	paypal := []string{"PAYPAL_CLIENT_ID=client", "PAYPAL_CLIENT_SECRET=secret"}
	for _, test := range []struct {
		name                 string
		entries              []string
		providers, endpoints []string
	}{
		{"Stripe, asked only", []string{"STRIPE_API_KEY=sk_test_a"}, []string{"stripe"}, nil},
		{"Stripe", []string{"STRIPE_API_KEY=rk_live_a", "STRIPE_WEBHOOK_SECRETS=whsec_a,whsec_b"}, []string{"stripe"}, []string{"stripe"}},
		{"Adyen", adyen, []string{"adyen"}, []string{"adyen"}},
		{
			"Adyen, live",
			append([]string{"ADYEN_BASE_URL=https://a1-Shop-checkout-live.adyenpayments.com/checkout/v71", "ADYEN_RETURN_URL=https://shop.example.com"}, adyen...),
			[]string{"adyen"},
			[]string{"adyen"},
		},
		{"PayPal, asked only", paypal, []string{"paypal"}, nil},
		{"PayPal", append([]string{"PAYPAL_WEBHOOK_ID=WH1"}, paypal...), []string{"paypal"}, []string{"paypal"}},
		{"PayPal at a simulator", append([]string{"PAYPAL_WEBHOOK_ID=WH1", "PAYPAL_BASE_URL=http://LocalHost:9090/paypal"}, paypal...), []string{"paypal"}, []string{"paypal"}},
		{"PayPal at a simulator, IPv6", append([]string{"PAYPAL_WEBHOOK_ID=WH1", "PAYPAL_BASE_URL=http://[::1]:9090/paypal"}, paypal...), []string{"paypal"}, []string{"paypal"}},
		{
			"all, in containers",
			slices.Concat([]string{
				"STRIPE_API_KEY=sk_test_a", "STRIPE_BASE_URL=http://sandbox:9090/stripe", "STRIPE_WEBHOOK_SECRETS=whsec_a",
				"ADYEN_BASE_URL=http://sandbox:9090/adyen/v71", "PAYPAL_BASE_URL=http://sandbox:9090/paypal", "PAYPAL_WEBHOOK_ID=WH1",
				"PAYPAL_CERTIFICATE_HOSTS=127.0.0.1:9090",
			}, adyen, paypal),
			[]string{"adyen", "paypal", "stripe"},
			[]string{"adyen", "paypal", "stripe"},
		},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			c := loaded(t, test.entries...)
			providers, err := newProviders(c, func(base http.RoundTripper) http.RoundTripper { return base })
			noError(t, err)
			if diff := cmp.Diff(test.providers, slices.Sorted(maps.Keys(providers))); diff != "" {
				t.Errorf("providers (-want +got):\n%s", diff)
			}
			endpoints, err := newWebhookEndpoints(c)
			noError(t, err)
			if diff := cmp.Diff(test.endpoints, slices.Sorted(maps.Keys(endpoints))); diff != "" {
				t.Errorf("webhook endpoints (-want +got):\n%s", diff)
			}
		})
	}
}

func TestCertificateHosts(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		name   string
		paypal config.PayPal
		want   []string
	}{
		{"PayPal itself", config.PayPal{BaseURL: "https://api-m.paypal.com"}, nil},
		{"PayPal itself, asked", config.PayPal{BaseURL: "https://api-m.paypal.com", WebhookVerify: config.VerifyByAPI}, nil},
		{"a proxy's port, not asked", config.PayPal{BaseURL: "https://egress.example.com:8443"}, nil},
		{"a simulator", config.PayPal{BaseURL: "http://Sandbox:9090/paypal"}, []string{"sandbox:9090"}},
		{
			"a simulator with another address for browsers",
			config.PayPal{BaseURL: "http://sandbox:9090/paypal", CertificateHosts: []string{"127.0.0.1:9090"}},
			[]string{"127.0.0.1:9090", "sandbox:9090"},
		},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			if diff := cmp.Diff(test.want, certificateHosts(test.paypal)); diff != "" {
				t.Errorf("certificate hosts (-want +got):\n%s", diff)
			}
		})
	}
}

// tellingListener is a listener of which only the address matters.
type tellingListener struct {
	net.Listener

	address net.Addr
}

func (l tellingListener) Addr() net.Addr { return l.address }

func TestLocalURL(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		address, url string
		loopback     bool
	}{
		{"127.0.0.1:8080", "http://127.0.0.1:8080", true},
		{"[::1]:8080", "http://[::1]:8080", true},
		{"0.0.0.0:8080", "http://127.0.0.1:8080", true},
		{"[::]:8080", "http://127.0.0.1:8080", true},
		{"192.0.2.1:8080", "http://192.0.2.1:8080", false},
	} {
		t.Run(test.address, func(t *testing.T) {
			t.Parallel()
			address, err := net.ResolveTCPAddr("tcp", test.address)
			noError(t, err)
			listener := tellingListener{address: address}
			if got := localURL(listener); got != test.url {
				t.Errorf("URL %s, want %s", got, test.url)
			}
			if isLoopback(listener) != test.loopback {
				t.Errorf("loopback: %t, want %t", !test.loopback, test.loopback)
			}
		})
	}
}
