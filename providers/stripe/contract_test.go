//go:build contract

package stripe_test

import (
	"os"
	"strings"
	"testing"

	"paysaga/providers"
	"paysaga/providers/providertest"
	"paysaga/providers/stripe"
)

// TestContract runs against a Stripe account in test mode; docs/contract-tests.md says how.
func TestContract(t *testing.T) {
	t.Parallel()
	key := os.Getenv("STRIPE_API_KEY")
	if key == "" {
		t.Skip("STRIPE_API_KEY is not set; see docs/contract-tests.md")
	}
	if !strings.HasPrefix(key, "sk_test_") && !strings.HasPrefix(key, "rk_test_") {
		t.Fatal("STRIPE_API_KEY is no test key; the contract tests make payments")
	}
	adapter, err := stripe.New(stripe.Config{APIKey: key, BaseURL: os.Getenv("STRIPE_BASE_URL")})
	if err != nil {
		t.Fatal(err)
	}
	method := func(name string) func(*providers.ChargeRequest) {
		return func(r *providers.ChargeRequest) { r.Method = name }
	}
	providertest.Contract(t, providertest.Account{
		Adapter: adapter, Pays: method("pm_card_visa"), Declined: method("pm_card_chargeDeclinedInsufficientFunds"),
		Action: method("pm_card_authenticationRequired"),
	})
}
