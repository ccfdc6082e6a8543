package stripe_test

import (
	"sync"
	"testing"
	"time"

	"paysaga/providers"
	"paysaga/providers/sandbox"
)

// TestNothingIsRepeatedBelowTheAdapter: net/http would send a keyed call again when a kept-alive connection breaks, and the
// saga would take the answer to that second send for the answer to its only one.
func TestNothingIsRepeatedBelowTheAdapter(t *testing.T) {
	t.Parallel()
	for _, kind := range []sandbox.FaultKind{sandbox.FaultResetBefore, sandbox.FaultResetAfter} {
		t.Run(string(kind), func(t *testing.T) {
			t.Parallel()
			b := newBench(t, patient)
			b.Lookup(t.Context(), lookup("pi_nothing")) // leaves a connection behind
			b.fault(t, sandbox.CallCharge, kind)
			b.charged(t, "pm_card_visa", providers.Unknown)
			b.charged(t, "pm_card_visa", providers.Succeeded)
			if entry := b.one(t); entry.Captured != 3998 || entry.Calls != 2 {
				t.Errorf("ledger: %+v", entry)
			}
		})
	}
}

func TestTimeouts(t *testing.T) {
	t.Parallel()
	for _, kind := range []sandbox.FaultKind{sandbox.FaultTimeoutBefore, sandbox.FaultTimeoutAfter} {
		t.Run(string(kind), func(t *testing.T) {
			t.Parallel()
			b := newBench(t, 2*time.Second) // runs out once, in the first call
			b.fault(t, sandbox.CallCharge, kind)
			if first := b.charged(t, "pm_card_visa", providers.Unknown); first.Code != "timeout" {
				t.Errorf("%+v", first)
			}
			if taken := len(b.sandbox.Ledger()) == 1; taken != (kind == sandbox.FaultTimeoutAfter) {
				t.Errorf("charge in the ledger: %t", taken)
			}
			b.charged(t, "pm_card_visa", providers.Succeeded)
			if entry := b.one(t); entry.Captured != 3998 {
				t.Errorf("ledger: %+v", entry)
			}
		})
	}
}

// TestSavedServerError: Stripe saved its own 500 under the key. The same call brings it for ever; the search tells the truth.
func TestSavedServerError(t *testing.T) {
	t.Parallel()
	b := newBench(t, patient)
	b.fault(t, sandbox.CallCharge, sandbox.FaultErrorSaved)
	b.charged(t, "pm_card_visa", providers.Unknown)
	for range 3 {
		if again := b.charged(t, "pm_card_visa", providers.Unknown); again.Code != providers.CodeServerErrorReplayed {
			t.Errorf("%+v", again)
		}
	}
	found := b.Lookup(t.Context(), lookup(""))
	if entry := b.one(t); found.Kind != providers.Succeeded || found.Reference != entry.ID || entry.Captured != 3998 {
		t.Errorf("found %+v, ledger %+v", found, entry)
	}
}

func TestSameKeyWithAnotherAmountIsUnknown(t *testing.T) {
	t.Parallel()
	b := newBench(t, patient)
	b.charged(t, "pm_card_visa", providers.Succeeded)
	other := order("pm_card_visa")
	other.Money.Amount = 4998
	if outcome := b.Charge(t.Context(), other); outcome.Kind != providers.Unknown || outcome.Code != providers.CodeIdempotencyMismatch {
		t.Errorf("%+v", outcome)
	}
	if entry := b.one(t); entry.Captured != 3998 {
		t.Errorf("ledger: %+v", entry)
	}
}

func TestTwentyAtOnceWithOneKey(t *testing.T) {
	t.Parallel()
	b := newBench(t, patient)
	var all sync.WaitGroup
	outcomes := make([]providers.Outcome, 20)
	for i := range outcomes {
		all.Go(func() { outcomes[i] = b.Charge(t.Context(), order("pm_card_visa")) })
	}
	all.Wait()
	for _, outcome := range outcomes {
		if outcome.Kind != providers.Succeeded && outcome.Kind != providers.Busy {
			t.Errorf("%+v", outcome)
		}
	}
	if entry := b.one(t); entry.Captured != 3998 {
		t.Errorf("ledger: %+v", entry)
	}
}
