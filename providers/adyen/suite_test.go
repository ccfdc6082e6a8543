package adyen_test

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
			Succeeds: "stored_APPROVED", DeclinedSoft: "stored_NOT_ENOUGH_BALANCE", DeclinedHard: "stored_BLOCK_CARD",
			Action: "stored_REDIRECT", Processing: "stored_PENDING",
		},
		Identifier: providers.SubKey.AdyenReference, Blind: true, Deferred: true,
	})
}
