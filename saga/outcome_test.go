package saga_test

import (
	"strings"
	"testing"

	"paysaga/providers"
	"paysaga/saga"
)

// Whatever bytes a provider tells, how a charge ended is written (I5).
func TestOutcomesThatAreNoText(t *testing.T) {
	t.Parallel()
	for name, odd := range map[string]string{"NUL": "a\x00b", "no UTF-8": "a\xffb", "long": strings.Repeat("é", 100_000)} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := newBundle(t)
			declined := refuses(providers.Outcome{
				Kind: providers.Declined, Code: odd, Detail: odd, Reference: odd, Decline: &providers.Decline{Code: odd, Bank: odd},
			})
			b.bank.on(saga.CallCharge, declined, declined, declined)
			b.start(claimOf("order"), cups())
			s := b.wantState(claimOf("order"), saga.RolledBack, saga.OrderFailed, saga.PaymentDeclined)
			if charge := stepOf(s, saga.StepCharge); charge.Code == "" || len(charge.Code) > 255 || len(charge.Detail) > 1000 {
				t.Errorf("code of %d bytes, detail of %d", len(charge.Code), len(charge.Detail))
			}
		})
	}
}
