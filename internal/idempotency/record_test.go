package idempotency_test

import (
	"testing"
	"time"

	"pgregory.net/rapid"

	"paysaga/internal/idempotency"
)

func TestDecide(t *testing.T) {
	t.Parallel()
	mine := idempotency.NewIntent("order").Int("amount", 1).Fingerprint()
	other := idempotency.NewIntent("order").Int("amount", 2).Fingerprint()
	running := idempotency.Record{Status: idempotency.InProgress, Fingerprint: mine, LeaseLeft: time.Second}
	left := idempotency.Record{Status: idempotency.InProgress, Fingerprint: mine}
	done := idempotency.Record{Status: idempotency.Completed, Fingerprint: mine}
	refused := idempotency.Record{Status: idempotency.Failed, Fingerprint: mine}
	expired := func(r idempotency.Record) idempotency.Record { r.Expired = true; return r }
	for _, c := range []struct {
		name        string
		record      idempotency.Record
		fingerprint idempotency.Fingerprint
		want        idempotency.Decision
	}{
		{"answered", done, mine, idempotency.Replay},
		{"refused for good", refused, mine, idempotency.Replay},
		{"running", running, mine, idempotency.Wait},
		{"nobody is at it", left, mine, idempotency.TakeOver},
		{"other intent, answered", done, other, idempotency.Mismatch},
		{"other intent, refused", refused, other, idempotency.Mismatch},
		{"other intent, running: told at once", running, other, idempotency.Mismatch},
		{"other intent, nobody at it", left, other, idempotency.Mismatch},
		{"window over", expired(done), mine, idempotency.Renew},
		{"window over, other intent", expired(refused), other, idempotency.Renew},
		{"window over, but never answered", expired(left), mine, idempotency.TakeOver},
		{"window over, but still running", expired(running), mine, idempotency.Wait},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			if got := idempotency.Decide(c.record, c.fingerprint); got != c.want {
				t.Errorf("Decide = %v, want %v", got, c.want)
			}
		})
	}
}

// TestFingerprintTellsFieldsApart: two lists of fields have one fingerprint only if they are the same list, however their
// texts could run together.
func TestFingerprintTellsFieldsApart(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		field := rapid.StringOfN(rapid.SampledFrom([]rune("1:,ab")), 0, 4, -1)
		first := rapid.SliceOfN(field, 0, 4).Draw(t, "first")
		second := rapid.SliceOfN(field, 0, 4).Draw(t, "second")
		same := len(first) == len(second)
		for i := range min(len(first), len(second)) {
			same = same && first[i] == second[i]
		}
		if got := fingerprint(first).Equal(fingerprint(second)); got != same {
			t.Fatalf("%q and %q: equal is %v", first, second, got)
		}
	})
}

func fingerprint(fields []string) idempotency.Fingerprint {
	intent := idempotency.NewIntent("test")
	for _, field := range fields {
		intent.String("field", field)
	}
	return intent.Fingerprint()
}
