package postgres_test

import (
	"errors"
	"fmt"
	"testing"
	"time"

	"paysaga/saga"
)

// seize takes the lease of a saga that nobody drives.
func (b *bundle) seize(s saga.Saga) saga.Saga {
	b.t.Helper()
	seized, err := b.store.Seize(b.ctx, ref(s), s.Lease.Fence, lease)
	if err != nil {
		b.t.Fatalf("seize: %v", err)
	}
	return seized
}

func TestSeize(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		order func(b *bundle) saga.Saga
		live  bool
	}{
		"due":       {func(b *bundle) saga.Saga { s := b.begin("due"); b.lapse(s); return s }, true},
		"resting":   {func(b *bundle) saga.Saga { return b.apply(b.outcome(b.begin("resting"), saga.CallCharge, action)) }, true},
		"completed": {func(b *bundle) saga.Saga { return b.confirmed("completed") }, false},
		"undone":    {func(b *bundle) saga.Saga { return b.apply(b.outcome(b.begin("undone"), saga.CallCharge, declined)) }, false},
		"in review": {func(b *bundle) saga.Saga { return b.apply(b.outcome(b.begin("review"), saga.CallCharge, authorized)) }, false},
		"refused as it began": {func(b *bundle) saga.Saga {
			claim := claimOf("refused")
			beginning := b.beginning(claim, cups(2)).After
			beginning.State, beginning.Steps = saga.Started, nil
			refused := finish(b.advance(beginning, saga.Event{Kind: saga.OutOfStock}), beginning)
			s, err := b.store.Begin(b.ctx, claim, refused, lease)
			if err != nil {
				b.t.Fatal(err)
			}
			return s
		}, false},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := newBundle(t)
			s := b.load(test.order(b))
			if s.NextAt.IsZero() == test.live {
				t.Fatalf("next at %s", s.NextAt)
			}
			seized := b.seize(s)
			if seized.Lease.Fence != s.Lease.Fence+1 || seized.Lease.Until.Sub(seized.ReadAt) < lease-time.Minute || seized.NextAt.IsZero() == test.live ||
				seized.Unrecorded != s.Unrecorded+1 {
				t.Errorf("seized %+v", seized)
			}
			if n := b.count(`SELECT count(*) FROM idempotency_keys WHERE status = 'PROCESSING' AND lock_version <> $1`, seized.Lease.Fence); n != 0 {
				t.Error("the key has another fence")
			}
			for fence := range seized.Lease.Fence + 1 {
				if _, err := b.store.Seize(b.ctx, ref(s), fence, lease); !errors.Is(err, saga.ErrLeaseLost) {
					t.Errorf("seize again with fence %d: %v, want ErrLeaseLost", fence, err)
				}
			}
			b.holdsOn(seized, test.live)
		})
	}
}

// holdsOn renews a lease and hands it back. What has ended stays so.
func (b *bundle) holdsOn(seized saga.Saga, live bool) {
	b.t.Helper()
	if err := b.store.Renew(b.ctx, ref(seized), seized.Lease.Fence, 2*lease); err != nil {
		b.t.Errorf("renew: %v", err)
	}
	if renewed := b.load(seized); !renewed.Lease.Until.After(seized.Lease.Until) || renewed.NextAt.IsZero() == live {
		b.t.Errorf("renewed until %s, next at %s", renewed.Lease.Until, renewed.NextAt)
	}
	if err := b.store.HandBack(b.ctx, ref(seized), seized.Lease.Fence-1); !errors.Is(err, saga.ErrLeaseLost) {
		b.t.Errorf("hand back by an older holder: %v, want ErrLeaseLost", err)
	}
	if err := b.store.HandBack(b.ctx, ref(seized), seized.Lease.Fence); err != nil {
		b.t.Errorf("hand back: %v", err)
	}
	if due, err := b.store.ClaimDue(b.ctx, 10, lease); err != nil || (len(due) == 1) != live {
		b.t.Errorf("%d due after it was handed back, %v", len(due), err)
	}
}

func TestOneOfManySeizes(t *testing.T) {
	t.Parallel()
	b := newBundle(t)
	s := b.load(b.confirmed("seized"))
	won := 0
	for _, err := range atOnce(8, func(int) error { _, err := b.store.Seize(b.ctx, ref(s), s.Lease.Fence, lease); return err }) {
		switch {
		case err == nil:
			won++
		case !errors.Is(err, saga.ErrLeaseLost):
			t.Errorf("seize: %v", err)
		}
	}
	if won != 1 {
		t.Errorf("%d seized it", won)
	}
}

// A request and a notice at the same moment: one of them.
func TestAskOrSeize(t *testing.T) {
	t.Parallel()
	b := newBundle(t)
	for round := range 10 {
		s := b.load(b.held(fmt.Sprint("held-", round)))
		claim := requestClaim(fmt.Sprint("capture-", round))
		change := b.asking(s, claim, saga.Request{Kind: saga.RequestCapture, Amount: 500})
		errs := atOnce(2, func(i int) (err error) {
			if i == 0 {
				_, err = b.store.Ask(b.ctx, claim, change, lease)
			} else {
				_, err = b.store.Seize(b.ctx, ref(s), s.Lease.Fence, lease)
			}
			return err
		})
		if (errs[0] == nil) == (errs[1] == nil) {
			t.Errorf("ask: %v, seize: %v; want one of them", errs[0], errs[1])
		}
		if _, used := b.lookup(claim); used != (errs[0] == nil) {
			t.Errorf("ask: %v, and its key is used: %t", errs[0], used)
		}
		b.putStock("cup", 10+2*int64(round+1))
	}
}
