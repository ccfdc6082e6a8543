package stripe_test

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
			b := newBench(t, patient)
			return b.Adapter, b.sandbox
		},
		Methods: providertest.Methods{
			Succeeds: "pm_card_visa", DeclinedSoft: "pm_card_chargeDeclinedInsufficientFunds", DeclinedHard: "pm_card_chargeDeclinedStolenCard",
			Action: "pm_card_authenticationRequired", Processing: "pm_usBankAccount_processing",
		},
		Identifier: providers.SubKey.StripeIdempotencyKey,
	})
}
