package paypal_test

import (
	"net/http/httptest"
	"testing"
	"time"

	"paysaga/providers"
	"paysaga/providers/paypal"
	"paysaga/providers/providertest"
	"paysaga/providers/sandbox"
)

func TestSuite(t *testing.T) {
	t.Parallel()
	providertest.Run(t, providertest.Harness{
		New: func(t *testing.T) (providertest.Adapter, *sandbox.Server) {
			t.Helper()
			return newSimulated(t, sandbox.Options{})
		},
		Past: func(t *testing.T) (providertest.Adapter, *sandbox.Server) {
			t.Helper()
			return newSimulated(t, sandbox.Options{Now: func() time.Time { return time.Now().AddDate(0, 0, -3) }})
		},
		ListLags: true,
		Methods: providertest.Methods{
			Succeeds: "vault_COMPLETED", DeclinedSoft: "vault_INSTRUMENT_DECLINED", DeclinedHard: "vault_COMPLIANCE_VIOLATION",
			Action: "wallet", Processing: "vault_PENDING",
		},
		Identifier: providers.SubKey.PayPalRequestID, Parts: true, VoidsUnkeyed: true,
	})
}

func newSimulated(t *testing.T, options sandbox.Options) (*paypal.Adapter, *sandbox.Server) {
	t.Helper()
	simulated := sandbox.New(options)
	server := httptest.NewServer(simulated)
	t.Cleanup(func() { simulated.Close(); server.Close() })
	adapter, err := paypal.New(paypal.Config{
		ClientID: "client", ClientSecret: "secret", BaseURL: server.URL + "/paypal", CallTimeout: 20 * time.Second,
	})
	if err != nil {
		t.Fatal(err)
	}
	return adapter, simulated
}
