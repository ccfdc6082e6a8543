package stripe_test

import (
	"testing"
	"time"

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
		Past: func(t *testing.T) (providertest.Adapter, *sandbox.Server) {
			t.Helper()
			b := newBenchWith(t, patient, sandbox.Options{Now: func() time.Time { return time.Now().AddDate(0, 0, -3) }})
			return b.Adapter, b.sandbox
		},
		Methods: providertest.Methods{
			Succeeds: "pm_card_visa", DeclinedSoft: "pm_card_chargeDeclinedInsufficientFunds", DeclinedHard: "pm_card_chargeDeclinedStolenCard",
			Action: "pm_card_authenticationRequired", Processing: "pm_usBankAccount_processing",
		},
		Identifier: providers.SubKey.StripeIdempotencyKey,
	})
}
