//go:build contract

package paypal_test

import (
	"net"
	"net/url"
	"os"
	"testing"

	"paysaga/providers"
	"paysaga/providers/paypal"
	"paysaga/providers/providertest"
)

// testAPI is the only host of PayPal's that moves no money.
const testAPI = "https://api-m.sandbox.paypal.com"

// TestContract runs against an app in PayPal's sandbox; docs/contract-tests.md says how.
func TestContract(t *testing.T) {
	t.Parallel()
	id, secret := os.Getenv("PAYPAL_CLIENT_ID"), os.Getenv("PAYPAL_CLIENT_SECRET")
	if id == "" || secret == "" {
		t.Skip("PAYPAL_CLIENT_ID and PAYPAL_CLIENT_SECRET are not set; see docs/contract-tests.md")
	}
	base := os.Getenv("PAYPAL_BASE_URL")
	if base == "" {
		base = testAPI
	}
	if !isForTests(base) {
		t.Fatal("PAYPAL_BASE_URL is neither PayPal's sandbox nor on this machine; the contract tests make payments")
	}
	adapter, err := paypal.New(paypal.Config{ClientID: id, ClientSecret: secret, BaseURL: base})
	if err != nil {
		t.Fatal(err)
	}
	tested := providertest.Account{Adapter: adapter, Action: method("wallet")}
	if vaulted := os.Getenv("PAYPAL_TEST_METHOD"); vaulted != "" {
		tested.Pays = method(vaulted)
	}
	if refused := os.Getenv("PAYPAL_TEST_DECLINED_METHOD"); refused != "" {
		tested.Declined = method(refused)
	}
	providertest.Contract(t, tested)
}

func isForTests(base string) bool {
	parsed, err := url.Parse(base)
	return err == nil && (parsed.Hostname() == "api-m.sandbox.paypal.com" || net.ParseIP(parsed.Hostname()).IsLoopback())
}

func method(name string) func(*providers.ChargeRequest) {
	return func(r *providers.ChargeRequest) { r.Method = name }
}
