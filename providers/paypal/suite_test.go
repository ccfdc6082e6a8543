package paypal_test

import (
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
			b := newBench(t)
			return b.Adapter, b.sandbox
		},
		Methods: providertest.Methods{
			Succeeds: "vault_COMPLETED", DeclinedSoft: "vault_INSTRUMENT_DECLINED", DeclinedHard: "vault_COMPLIANCE_VIOLATION",
			Action: "wallet", Processing: "vault_PENDING",
		},
		Identifier: providers.SubKey.PayPalRequestID, VoidsUnkeyed: true,
	})
}
