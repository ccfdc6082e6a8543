//go:build contract

package adyen_test

import (
	"encoding/json"
	"net"
	"net/url"
	"os"
	"testing"

	"paysaga/providers"
	"paysaga/providers/adyen"
	"paysaga/providers/providertest"
)

// testAPI is the only host of Adyen's that moves no money.
const testAPI = "https://checkout-test.adyen.com/v71"

// TestContract runs against a merchant account in Adyen's test environment; docs/contract-tests.md says how.
func TestContract(t *testing.T) {
	t.Parallel()
	key, account := os.Getenv("ADYEN_API_KEY"), os.Getenv("ADYEN_MERCHANT_ACCOUNT")
	if key == "" || account == "" {
		t.Skip("ADYEN_API_KEY and ADYEN_MERCHANT_ACCOUNT are not set; see docs/contract-tests.md")
	}
	base := os.Getenv("ADYEN_BASE_URL")
	if base == "" {
		base = testAPI
	}
	if !isForTests(base) {
		t.Fatal("ADYEN_BASE_URL is neither Adyen's test environment nor on this machine; the contract tests make payments")
	}
	adapter, err := adyen.New(adyen.Config{APIKey: key, MerchantAccount: account, BaseURL: base})
	if err != nil {
		t.Fatal(err)
	}
	tested := providertest.Account{Adapter: adapter, Pays: card("APPROVED"), Declined: card("NOT_ENOUGH_BALANCE"), Deferred: true}
	if base != testAPI {
		tested.Action = card("REDIRECT") // at Adyen itself the account's rules decide whether a customer is asked
	}
	providertest.Contract(t, tested)
}

func isForTests(base string) bool {
	parsed, err := url.Parse(base)
	return err == nil && (parsed.Hostname() == "checkout-test.adyen.com" || net.ParseIP(parsed.Hostname()).IsLoopback())
}

// card is Adyen's test card in the form that its test environment takes without encryption; the holder's name decides how it ends.
func card(holder string) func(*providers.ChargeRequest) {
	return func(r *providers.ChargeRequest) {
		r.MethodData = json.RawMessage(`{"type":"scheme","encryptedCardNumber":"test_4111111111111111","encryptedExpiryMonth":"test_03",` +
			`"encryptedExpiryYear":"test_2030","encryptedSecurityCode":"test_737","holderName":"` + holder + `"}`)
	}
}
