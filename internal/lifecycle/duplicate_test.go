package lifecycle_test

import (
	"net/http"
	"testing"
	"time"

	"paysaga/internal/stage"
	"paysaga/providers/sandbox"
	"paysaga/reconcile"
	"paysaga/saga"
)

// What a provider that lists took twice is given back once, whatever its list calls the payment, and is not found again, neither by the
// lists nor by the settlement file, in which it stands as well.
func TestDuplicateIsGivenBack(t *testing.T) {
	t.Parallel()
	for _, provider := range []string{stage.Stripe, stage.PayPal} {
		t.Run(provider, func(t *testing.T) {
			t.Parallel()
			h := newHouse(t, sandbox.Options{})
			f := h.newFlow(stage.TwoCups(provider, stage.Pays))
			f.want(f.Place(), http.StatusCreated)
			own := f.Sandbox.Ledger()[0].ID
			plant(t, f, map[string]any{"kind": "duplicate", "provider": provider})
			f.Pass(4 * time.Hour)
			result := f.Server.Reconcile(reconcile.ModeApply, stage.Allowed())
			if len(result.Open) != 1 || result.Open[0].Kind != reconcile.DuplicateCharge || result.Run.Totals.Repaired != 1 {
				t.Fatalf("found %+v, %+v, and now %+v", result.Open, result.Run.Totals, f.Findings())
			}
			for _, charge := range f.Sandbox.Ledger() {
				want := charge.Captured
				if charge.ID == own {
					want = 0
				}
				if charge.Refunded != want {
					t.Errorf("%d of %d went back, want %d: %+v", charge.Refunded, charge.Captured, want, charge)
				}
			}
			f.findsNothing(provider)
			if again := f.Server.Reconcile(reconcile.ModeApply, stage.Allowed()); again.Run.Totals.Repaired != 0 || f.Saga().State != saga.Completed {
				t.Errorf("once more: %+v, the order is %s", again.Run.Totals, f.Saga().State)
			}
		})
	}
}
