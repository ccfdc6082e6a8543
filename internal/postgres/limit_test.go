package postgres_test

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"

	"paysaga/internal/idempotency"
	"paysaga/internal/pgdev/pgtest"
	"paysaga/internal/postgres"
	"paysaga/internal/seal"
	"paysaga/saga"
)

// perMinute is so low that no burst of a test lasts until the next key is free, 20 seconds later.
const perMinute = 3

// limitedClaim is a claim of a new key by an account that may begin three in a minute.
func limitedClaim(name string) saga.Claim {
	claim := claimOf(name)
	claim.KeysPerMinute = perMinute
	return claim
}

// begun tells whether a claim was let in; it fails the test for any error but the limit's.
func (b *bundle) begun(claim saga.Claim) bool {
	b.t.Helper()
	_, err := b.store.ClaimKey(b.ctx, claim, lease)
	limited, refused := errors.AsType[*idempotency.LimitError](err)
	if err != nil && !refused {
		b.t.Fatal(err)
	}
	if refused && (limited.PerMinute != perMinute || limited.RetryAfter <= 0 || limited.RetryAfter > time.Minute/perMinute) {
		b.t.Errorf("limited to %d a minute, again in %s", limited.PerMinute, limited.RetryAfter)
	}
	return err == nil
}

// spend begins as many keys as are let in, and gives their number.
func (b *bundle) spend(prefix string) int {
	b.t.Helper()
	for n := range 2 * perMinute {
		if !b.begun(limitedClaim(fmt.Sprint(prefix, "-", n))) {
			return n
		}
	}
	b.t.Fatal("there is no limit")
	return 0
}

// Two processes share one count: of many new keys at once exactly as many are let in as the limit says, and nothing is left of the others.
func TestLimitOfTwoProcesses(t *testing.T) {
	t.Parallel()
	const crowd = 40
	url := pgtest.URL(t)
	var stores [2]*postgres.Store
	for i := range stores {
		pool, err := pgxpool.New(t.Context(), url)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(pool.Close)
		ring, err := seal.NewRing(seal.GenerateKey("test"))
		if err != nil {
			t.Fatal(err)
		}
		stores[i] = postgres.New(pool, ring)
	}
	var all sync.WaitGroup
	let, refused := make(chan struct{}, crowd), make(chan struct{}, crowd)
	begun := time.Now()
	for i := range crowd {
		all.Go(func() {
			_, err := stores[i%len(stores)].ClaimKey(context.WithoutCancel(t.Context()), limitedClaim(fmt.Sprint("crowd-", i)), lease)
			if _, limited := errors.AsType[*idempotency.LimitError](err); limited {
				refused <- struct{}{}
			} else if err == nil {
				let <- struct{}{}
			} else {
				t.Error(err)
			}
		})
	}
	all.Wait()
	most := perMinute + int(time.Since(begun)/(time.Minute/perMinute)) // on a machine that stands still, time goes on
	if len(let) < perMinute || len(let) > most || len(let)+len(refused) != crowd {
		t.Errorf("%d let in, %d refused; want %d to %d let in", len(let), len(refused), perMinute, most)
	}
}

// After the time that it was told, one more is let in, and only one.
func TestLimitEnds(t *testing.T) {
	t.Parallel()
	b := newBundle(t)
	if n := b.spend("first"); n != perMinute {
		t.Fatalf("%d let in, want %d", n, perMinute)
	}
	b.exec(`UPDATE key_limits SET spent_until = spent_until - interval '20 seconds'`)
	if n := b.spend("later"); n != 1 {
		t.Errorf("%d let in after one's time, want 1", n)
	}
	b.exec(`UPDATE key_limits SET spent_until = spent_until - interval '1 hour'`)
	if n := b.spend("much later"); n != perMinute {
		t.Errorf("%d let in after a rest, want %d: what was not used is not saved up", n, perMinute)
	}
	if n := b.count(`SELECT count(*) FROM idempotency_keys`); n != 2*perMinute+1 {
		t.Errorf("%d keys: one that was refused is there, or one that was let in is not", n)
	}
}

// What is claimed in a transaction that is undone is not counted.
func TestUndoneClaimIsNotCounted(t *testing.T) {
	t.Parallel()
	b := newBundle(t)
	for i := range 2 * perMinute {
		claim := limitedClaim(fmt.Sprint("undone-", i))
		items := []saga.Item{{SKU: "nobody-knows-it", Quantity: 1, UnitAmount: 1}}
		if _, err := b.store.Begin(b.ctx, claim, b.beginning(claim, items), lease); err == nil {
			t.Fatal("an order of an unknown SKU was begun")
		}
		claim.Generation = 2 // of a key that has no first one: allowed; the second claim of it is not
		if _, err := b.store.Begin(b.ctx, claim, b.beginning(claim, cups(11)), lease); err == nil {
			t.Fatal("more cups were ordered than there are")
		}
	}
	if n := b.count(`SELECT count(*) FROM key_limits`); n != 0 {
		t.Errorf("%d limits are begun", n)
	}
	if n := b.spend("after"); n != perMinute {
		t.Errorf("%d let in, want %d", n, perMinute)
	}
}

// A repeat that comes as far as the claim is not counted, and not refused for the limit.
func TestTakenKeyIsNotCounted(t *testing.T) {
	t.Parallel()
	b := newBundle(t)
	for range 2 * perMinute {
		if _, err := b.store.ClaimKey(b.ctx, limitedClaim("one"), lease); err != nil && !errors.Is(err, saga.ErrKeyTaken) {
			t.Fatal(err)
		}
	}
	if n := b.spend("after"); n != perMinute-1 {
		t.Errorf("%d let in, want %d", n, perMinute-1)
	}
	if _, err := b.store.ClaimKey(b.ctx, limitedClaim("one"), lease); !errors.Is(err, saga.ErrKeyTaken) {
		t.Errorf("a repeat at the limit: %v, want ErrKeyTaken", err)
	}
}

func TestAccountsDoNotShareTheLimit(t *testing.T) {
	t.Parallel()
	b := newBundle(t)
	b.spend("mine")
	claim := limitedClaim("theirs")
	claim.AccountID = "shop2"
	if !b.begun(claim) {
		t.Error("another account is limited by this one's keys")
	}
	claim = limitedClaim("mine, without a limit")
	claim.KeysPerMinute = 0
	if !b.begun(claim) {
		t.Error("without a limit there is one")
	}
}

// A key that is forgotten, as nothing was done under it, has cost nothing.
func TestForgottenKeyIsNotCounted(t *testing.T) {
	t.Parallel()
	b := newBundle(t)
	for range 3 * perMinute {
		held, err := b.store.ClaimKey(b.ctx, limitedClaim("refused"), lease)
		b.must(err)
		b.must(b.store.ForgetKey(b.ctx, held))
	}
	if n := b.spend("after"); n != perMinute {
		t.Errorf("%d keys are let in afterwards, want %d", n, perMinute)
	}
}

// After a failover to a clock that is behind nobody is locked out for the difference.
func TestLimitSurvivesAClockThatIsSetBack(t *testing.T) {
	t.Parallel()
	b := newBundle(t)
	b.spend("before")
	b.exec(`UPDATE key_limits SET spent_until = spent_until + interval '1 hour'`)
	if n := b.spend("after"); n != perMinute {
		t.Errorf("%d keys are let in, want %d", n, perMinute)
	}
}

// A transaction that waited has an earlier now() than the one that it waited for, and so sees more than a minute as spent: it is refused all
// the same.
func TestLimitForAnEarlierTransaction(t *testing.T) {
	t.Parallel()
	b := newBundle(t)
	b.spend("before")
	b.exec(`UPDATE key_limits SET spent_until = now() + interval '61 seconds'`)
	if _, err := b.store.ClaimKey(b.ctx, limitedClaim("earlier"), lease); !isLimited(err) {
		t.Errorf("claim: %v, want it refused", err)
	}
}

func isLimited(err error) bool {
	_, limited := errors.AsType[*idempotency.LimitError](err)
	return limited
}

// An order that waits for its goods does not keep the account's other requests waiting.
func TestLimitIsTakenLast(t *testing.T) {
	t.Parallel()
	b := newBundle(t)
	release := b.hold(`SELECT FROM stock WHERE sku = 'cup' FOR UPDATE`)
	claim := limitedClaim("waits")
	change := b.beginning(claim, cups(1))
	waited := make(chan error, 1)
	go func() { _, err := b.store.Begin(b.ctx, claim, change, lease); waited <- err }()
	b.waitForLocks(1)
	if !b.begun(limitedClaim("passes")) {
		t.Error("another request is not let in")
	}
	release()
	b.must(<-waited)
}
