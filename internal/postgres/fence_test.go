package postgres_test

import (
	"errors"
	"testing"

	"github.com/google/go-cmp/cmp"

	"paysaga/providers"
	"paysaga/saga"
)

// Invariant I9: only the holder of the newest lease writes.
func TestOlderFenceCannotWrite(t *testing.T) {
	t.Parallel()
	for name, write := range map[string]func(b *bundle, stale saga.Saga) error{
		"apply what ended": func(b *bundle, stale saga.Saga) error {
			_, err := b.store.Apply(b.ctx, b.outcome(stale, saga.CallCharge, succeeded))
			return err
		},
		"apply a refusal": func(b *bundle, stale saga.Saga) error {
			_, err := b.store.Apply(b.ctx, b.outcome(stale, saga.CallCharge, declined))
			return err
		},
		"apply nothing new": func(b *bundle, stale saga.Saga) error {
			_, err := b.store.Apply(b.ctx, b.outcome(stale, saga.CallCharge, unknown))
			return err
		},
		"apply a finding": func(b *bundle, stale saga.Saga) error {
			_, err := b.store.Apply(b.ctx, b.outcome(stale, saga.CallCharge, providers.Outcome{Kind: providers.Authorized}))
			return err
		},
		"renew": func(b *bundle, stale saga.Saga) error {
			return b.store.Renew(b.ctx, ref(stale), stale.Lease.Fence, lease)
		},
		"hand back": func(b *bundle, stale saga.Saga) error { return b.store.HandBack(b.ctx, ref(stale), stale.Lease.Fence) },
		"take over": func(b *bundle, stale saga.Saga) error {
			b.lapse(stale)
			_, err := b.store.TakeOver(b.ctx, ref(stale), stale.Lease.Fence, lease)
			return err
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := newBundle(t)
			stale := b.begin("fence")
			b.lapse(stale)
			newest, err := b.store.TakeOver(b.ctx, ref(stale), stale.Lease.Fence, lease)
			if err != nil {
				t.Fatal(err)
			}
			if newest.Lease.Fence <= stale.Lease.Fence || newest.Drives != 2 {
				t.Fatalf("the new fence is %d after %d, in drive %d", newest.Lease.Fence, stale.Lease.Fence, newest.Drives)
			}
			if err := write(b, stale); !errors.Is(err, saga.ErrLeaseLost) {
				t.Errorf("got %v, want ErrLeaseLost", err)
			}
			after := b.get(stale)
			after.ReadAt, after.Lease.Until, after.NextAt = newest.ReadAt, newest.Lease.Until, newest.NextAt
			if diff := cmp.Diff(newest, after); diff != "" {
				t.Errorf("something was written (-before +after):\n%s", diff)
			}
			b.wantStock("cup", 10, 2)
			if n := b.count(`SELECT count(*) FROM idempotency_keys WHERE status = 'PROCESSING' AND lock_version = $1`, newest.Lease.Fence); n != 1 {
				t.Error("the key is not the newest holder's")
			}
			if n := b.count(`SELECT (SELECT count(*) FROM findings) + (SELECT count(*) FROM outbox_events)`); n != 0 {
				t.Errorf("%d findings and events", n)
			}
			b.apply(b.outcome(newest, saga.CallCharge, succeeded)) // the holder can
		})
	}
}

// A lease that runs is nobody else's, whatever fence they know.
func TestRunningLeaseCannotBeTaken(t *testing.T) {
	t.Parallel()
	b := newBundle(t)
	s := b.begin("running")
	if _, err := b.store.TakeOver(b.ctx, ref(s), s.Lease.Fence, lease); !errors.Is(err, saga.ErrLeaseLost) {
		t.Errorf("take over: %v, want ErrLeaseLost", err)
	}
	if due, err := b.store.ClaimDue(b.ctx, 10, lease); err != nil || len(due) != 0 {
		t.Errorf("claim due: %d, %v", len(due), err)
	}
	if err := b.store.Renew(b.ctx, ref(s), s.Lease.Fence, 2*lease); err != nil {
		t.Errorf("renew: %v", err)
	}
	if renewed := b.get(s); !renewed.Lease.Until.After(s.Lease.Until) || !renewed.NextAt.Equal(renewed.Lease.Until) {
		t.Errorf("renewed until %s, next at %s", renewed.Lease.Until, renewed.NextAt)
	}
	// Handed back, it is anybody's at once, once.
	if err := b.store.HandBack(b.ctx, ref(s), s.Lease.Fence); err != nil {
		t.Errorf("hand back: %v", err)
	}
	if due, err := b.store.ClaimDue(b.ctx, 10, lease); err != nil || len(due) != 1 || due[0].Lease.Fence != 2 {
		t.Errorf("claim due: %d, %v", len(due), err)
	}
	if _, err := b.store.TakeOver(b.ctx, ref(s), 1, lease); !errors.Is(err, saga.ErrLeaseLost) {
		t.Errorf("take over with the old fence: %v, want ErrLeaseLost", err)
	}
}

// A commit whose reply was lost may be sent again: nothing is doubled.
func TestApplyAgainAfterALostReply(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		outcome  providers.Outcome
		again    error
		onHand   int64
		reserved int64
		events   int
	}{
		"sold":     {succeeded, saga.ErrLeaseLost, 8, 0, 1},
		"released": {declined, saga.ErrLeaseLost, 10, 0, 1},
		"awaiting": {action, saga.ErrLeaseLost, 10, 2, 1},
		"review":   {providers.Outcome{Kind: providers.Authorized}, saga.ErrLeaseLost, 10, 2, 1},
		"no move":  {unknown, nil, 10, 2, 0}, // the same values, written twice
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := newBundle(t)
			change := b.outcome(b.begin("again"), saga.CallCharge, test.outcome)
			b.apply(change)
			once := b.get(change.After)
			if _, err := b.store.Apply(b.ctx, change); !errors.Is(err, test.again) {
				t.Errorf("the second time: %v, want %v", err, test.again)
			}
			twice := b.get(change.After)
			if diff := cmp.Diff(once.Steps, twice.Steps); diff != "" || once.State != twice.State || once.Failures != twice.Failures {
				t.Errorf("written twice: %s with %d failures\n%s", twice.State, twice.Failures, diff)
			}
			b.wantStock("cup", test.onHand, test.reserved)
			if n := b.count(`SELECT count(*) FROM outbox_events`); n != test.events {
				t.Errorf("%d events, want %d", n, test.events)
			}
			if n := b.count(`SELECT count(*) FROM findings`); n > 1 {
				t.Errorf("%d findings", n)
			}
		})
	}
}

// A change fits only where it began, even under the right lease.
func TestApplyChecksTheState(t *testing.T) {
	t.Parallel()
	b := newBundle(t)
	s := b.begin("state")
	confirm := b.outcome(s, saga.CallCharge, succeeded)
	b.apply(b.outcome(s, saga.CallCharge, action))
	if _, err := b.store.Apply(b.ctx, confirm); !errors.Is(err, saga.ErrLeaseLost) {
		t.Errorf("apply from charging, standing in awaiting: %v", err)
	}
	b.wantStock("cup", 10, 2)
}

// The first answer stays for the key's window (I8).
func TestFirstAnswerStays(t *testing.T) {
	t.Parallel()
	b := newBundle(t)
	s := b.apply(b.outcome(b.begin("first"), saga.CallCharge, action))
	b.lapse(s)
	s, err := b.store.TakeOver(b.ctx, ref(s), s.Lease.Fence, lease)
	if err != nil {
		t.Fatal(err)
	}
	if s.Pending != "" {
		t.Error("the saga does not know that its request is answered")
	}
	change := b.outcome(s, saga.CallLookup, succeeded)
	change.Answer = &saga.Answer{Status: 200, Body: []byte("another answer")}
	b.apply(change)
	record, ok, err := b.store.LookupKey(b.ctx, account, "POST /v1/orders", claimOf("first").Key)
	if err != nil || !ok || string(record.Answer.Body) != answerText || record.Answer.Status != 201 {
		t.Errorf("stored %d %q, %v", record.Answer.Status, record.Answer.Body, err)
	}
}
