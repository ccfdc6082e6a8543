package adyen_test

import (
	"encoding/json"
	"testing"

	"paysaga/providers"
	"paysaga/providers/providertest"
	"paysaga/providers/sandbox"
)

func TestSuite(t *testing.T) {
	t.Parallel()
	providertest.Run(t, providertest.Harness{
		New: func(t *testing.T) (providertest.Adapter, *sandbox.Server) {
			t.Helper()
			b := newBenchWith(t, sandbox.Options{AdyenMerchant: merchant}) // an account that takes one capture, as most do
			return b.Adapter, b.sandbox
		},
		Methods: providertest.Methods{
			Succeeds: "stored_APPROVED", DeclinedSoft: "stored_NOT_ENOUGH_BALANCE", DeclinedHard: "stored_BLOCK_CARD",
			Action: "stored_REDIRECT", Processing: "stored_PENDING",
		},
		Identifier: providers.SubKey.AdyenReference, Deferred: true,
		Details: func(t *testing.T, asked providers.Outcome, decision string) []byte {
			t.Helper()
			details, err := json.Marshal(map[string]string{"redirectResult": bench{}.decide(t, asked.NextAction.URL, decision)})
			if err != nil {
				t.Fatal(err)
			}
			return details
		},
	})
}
