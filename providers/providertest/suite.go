package providertest

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"paysaga/providers"
	"paysaga/providers/sandbox"
)

// Run is the suite.
func Run(t *testing.T, harness Harness) {
	t.Helper()
	tests := map[string]func(*testing.T, bench){
		"charge takes the money once":  chargesOnce,
		"declines":                     declines,
		"open ends":                    openEnds,
		"capture takes the money once": capturesOnce,
		"void lets the hold go":        voids,
		"refund is given once":         refundsOnce,
		"look-ups":                     looksUp,
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			test(t, harness.bench(t))
		})
	}
	for name, test := range lives {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			test(t, harness.bench(t))
		})
	}
	if harness.Past != nil {
		runLists(t, harness)
	}
	for kind, want := range faults {
		t.Run("lost answer, "+string(kind), func(t *testing.T) {
			t.Parallel()
			lostAnswer(t, harness.bench(t), kind, want)
		})
	}
}

func chargesOnce(t *testing.T, b bench) {
	t.Helper()
	first := b.charged(t, order(chargeKey, b.Methods.Succeeds), providers.Succeeded)
	if again := b.Charge(t.Context(), order(chargeKey, b.Methods.Succeeds)); !cmp.Equal(first, again) {
		t.Errorf("the repeat ended otherwise: %s", cmp.Diff(first, again))
	}
	if first.Reference == "" || first.Money != (providers.Money{}) && first.Money != dollars(price) {
		t.Errorf("%+v", first)
	}
	b.expectLedger(t, chargeKey, 0, price, 0)
	b.expectIdentifiers(t, sandbox.CallCharge, chargeKey)
	if entry := b.entry(t, chargeKey); entry.Calls != 2 || entry.ID != first.Reference {
		t.Errorf("ledger: %+v", entry)
	}
}

func declines(t *testing.T, b bench) {
	t.Helper()
	for key, method := range map[providers.SubKey]string{chargeKey: b.Methods.DeclinedSoft, chargeKey + "_2": b.Methods.DeclinedHard} {
		got := b.charged(t, order(key, method), providers.Declined)
		if hard := method == b.Methods.DeclinedHard; got.Decline == nil || got.Decline.Code == "" || got.Decline.Hard != hard {
			t.Errorf("%s: %+v", method, got.Decline)
		}
	}
	for _, entry := range b.sandbox.Ledger() {
		if entry.Captured != 0 || entry.Authorized != 0 {
			t.Errorf("ledger: %+v", entry)
		}
	}
}

// openEnds: nothing is taken while the customer or the bank has not decided.
func openEnds(t *testing.T, b bench) {
	t.Helper()
	asked := b.charged(t, order(chargeKey, b.Methods.Action), providers.ActionRequired)
	if asked.NextAction == nil || asked.NextAction.URL == "" && asked.NextAction.ClientSecret == "" && asked.NextAction.Action == nil {
		t.Errorf("nothing to do: %+v", asked.NextAction)
	}
	b.charged(t, order(chargeKey+"_2", b.Methods.Processing), providers.Processing)
	for _, entry := range b.sandbox.Ledger() {
		if entry.Captured != 0 {
			t.Errorf("ledger: %+v", entry)
		}
	}
}

func capturesOnce(t *testing.T, b bench) {
	t.Helper()
	held := b.held(t)
	b.expectLedger(t, chargeKey, price, 0, 0)
	request := providers.CaptureRequest{
		Key: sagaKey + "_capture", SagaKey: sagaKey, Reference: held.Reference, Money: dollars(price), Final: true,
	}
	b.fault(t, sandbox.CallCapture, sandbox.FaultErrorAfter)
	if lost := b.Capture(t.Context(), request); lost.Kind != providers.Unknown {
		t.Errorf("lost: %+v", lost)
	}
	for range 2 {
		if got := b.Capture(t.Context(), request); got.Kind != b.done() || got.Money != request.Money {
			t.Errorf("again: %+v", got)
		}
	}
	b.expectIdentifiers(t, sandbox.CallCapture, request.Key)
	b.expectLedger(t, chargeKey, 0, price, 0)
}

func voids(t *testing.T, b bench) {
	t.Helper()
	held := b.held(t)
	request := providers.VoidRequest{Key: sagaKey + "_void", ChargeKey: chargeKey, Reference: held.Reference, ManualCapture: true}
	b.fault(t, sandbox.CallVoid, sandbox.FaultErrorAfter)
	if lost := b.Void(t.Context(), request); lost.Kind != providers.Unknown {
		t.Errorf("lost: %+v", lost)
	}
	for range 2 {
		if got := b.Void(t.Context(), request); got.Kind != b.done() {
			t.Errorf("again: %+v", got)
		}
	}
	if !b.VoidsUnkeyed {
		b.expectIdentifiers(t, sandbox.CallVoid, request.Key)
	}
	b.expectLedger(t, chargeKey, 0, 0, 0)
}

func refundsOnce(t *testing.T, b bench) {
	t.Helper()
	taken := b.charged(t, order(chargeKey, b.Methods.Succeeds), providers.Succeeded)
	b.sandbox.FlushWebhooks(t.Context()) // the capture that follows the charge at some providers
	request := providers.RefundRequest{Key: sagaKey + "_refund", SagaKey: sagaKey, Reference: taken.Reference, Money: dollars(1000)}
	b.fault(t, sandbox.CallRefund, sandbox.FaultErrorAfter)
	if lost := b.Refund(t.Context(), request); lost.Kind != providers.Unknown {
		t.Errorf("lost: %+v", lost)
	}
	first := b.Refund(t.Context(), request)
	if first.Kind != b.done() || first.Reference == "" || first.Money != request.Money {
		t.Errorf("again: %+v", first)
	}
	if third := b.Refund(t.Context(), request); !cmp.Equal(first, third) {
		t.Errorf("the repeat ended otherwise: %s", cmp.Diff(first, third))
	}
	b.expectIdentifiers(t, sandbox.CallRefund, request.Key)
	b.expectLedger(t, chargeKey, 0, price, 1000)
	for _, reference := range []string{first.Reference, ""} {
		got := b.LookupRefund(t.Context(), providers.RefundLookupRequest{Key: request.Key, Payment: taken.Reference, Reference: reference})
		if b.Windows().NoLookup && got.Code != providers.CodeNoLookup || !b.Windows().NoLookup && !cmp.Equal(first, got) {
			t.Errorf("looked up by %q: %+v, want %+v", reference, got, first)
		}
	}
}

// looksUp: a payment is found by its reference and by its key alone; another attempt is not taken for it.
func looksUp(t *testing.T, b bench) {
	t.Helper()
	request := providers.LookupRequest{Key: chargeKey, SagaKey: sagaKey, SentAt: time.Now()}
	taken := b.charged(t, order(chargeKey, b.Methods.Succeeds), providers.Succeeded)
	for _, reference := range []string{taken.Reference, ""} {
		request.Reference = reference
		want := taken
		if b.Windows().NoLookup {
			want = providers.Outcome{Kind: providers.Unknown, Code: providers.CodeNoLookup}
		}
		if got := b.Lookup(t.Context(), request); !cmp.Equal(want, got) {
			t.Errorf("looked up by %q: %+v, want %+v", reference, got, want)
		}
	}
	request.Key += "_2"
	if got := b.Lookup(t.Context(), request); !b.Windows().NoLookup && got.Kind != providers.NotFound {
		t.Errorf("another attempt: %+v", got)
	}
}

// faults are what can become of a charge's first answer, and what that must be taken for.
var faults = map[sandbox.FaultKind]providers.OutcomeKind{
	sandbox.FaultErrorBefore: providers.Unknown, sandbox.FaultErrorAfter: providers.Unknown,
	sandbox.FaultResetBefore: providers.Unknown, sandbox.FaultResetAfter: providers.Unknown,
	sandbox.FaultGarbageAfter: providers.Unknown, sandbox.FaultEmptyAfter: providers.Unknown,
	sandbox.FaultRateLimited: providers.Busy, sandbox.FaultInProgress: providers.Busy, sandbox.FaultSlow: providers.Succeeded,
}

// lostAnswer: whatever becomes of the first answer, the same key again ends in one charge. An earlier charge leaves a connection
// behind, on which net/http would send the call a second time by itself.
func lostAnswer(t *testing.T, b bench, kind sandbox.FaultKind, want providers.OutcomeKind) {
	t.Helper()
	b.charged(t, order(chargeKey, b.Methods.Succeeds), providers.Succeeded)
	second := order(chargeKey+"_2", b.Methods.Succeeds)
	b.fault(t, sandbox.CallCharge, kind)
	b.charged(t, second, want)
	b.charged(t, second, providers.Succeeded)
	b.expectLedger(t, second.Key, 0, price, 0)
	if entry := b.entry(t, second.Key); entry.Calls != 2 {
		t.Errorf("sent %d times, want 2", entry.Calls)
	}
}
