package postgres_test

import (
	"errors"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"paysaga/internal/idempotency"
	"paysaga/internal/postgres"
	"paysaga/internal/seal"
	"paysaga/saga"
)

// claimKey takes a key for a request that begins no saga, under a lease of that length.
func (b *bundle) claimKey(length time.Duration) idempotency.Held {
	b.t.Helper()
	held, err := b.store.ClaimKey(b.ctx, claimOf("held"), length)
	if err != nil {
		b.t.Fatalf("claim: %v", err)
	}
	return held
}

func (b *bundle) must(err error) {
	b.t.Helper()
	if err != nil {
		b.t.Fatal(err)
	}
}

func (b *bundle) takeKey(held idempotency.Held) idempotency.Held {
	b.t.Helper()
	taken, err := b.store.TakeKey(b.ctx, held, lease)
	if err != nil {
		b.t.Fatalf("take: %v", err)
	}
	return taken
}

func (b *bundle) record(held idempotency.Held) (idempotency.Record, bool) {
	b.t.Helper()
	record, used, err := b.store.LookupKey(b.ctx, held.AccountID, held.Endpoint, held.Key)
	if err != nil {
		b.t.Fatal(err)
	}
	return record, used
}

var theAnswer = saga.Answer{Status: 201, Headers: map[string]string{"Location": "/here", "Retry-After": "3"}, Body: []byte(answerText)}

// fencedWrites are all that only the holder of a key can do.
var fencedWrites = map[string]func(b *bundle, held idempotency.Held) error{
	"take": func(b *bundle, held idempotency.Held) error {
		_, err := b.store.TakeKey(b.ctx, held, lease)
		return err
	},
	"renew":   func(b *bundle, held idempotency.Held) error { return b.store.RenewKey(b.ctx, held, lease) },
	"release": func(b *bundle, held idempotency.Held) error { return b.store.ReleaseKey(b.ctx, held) },
	"forget":  func(b *bundle, held idempotency.Held) error { return b.store.ForgetKey(b.ctx, held) },
	"answer":  func(b *bundle, held idempotency.Held) error { return b.store.AnswerKey(b.ctx, held, theAnswer) },
	"put stock": func(b *bundle, held idempotency.Held) error {
		_, err := b.store.PutStock(b.ctx, account, "cup", 99, &held, nil)
		return err
	},
}

// I9: whoever held a key before can do nothing under it, whatever became of it since; also where a key that was forgotten, or has
// expired, was claimed anew, which must not bring an old fencing number back.
func TestOlderHolderCannotWrite(t *testing.T) {
	t.Parallel()
	for since, happened := range map[string]func(b *bundle, stale idempotency.Held){
		"taken over": func(b *bundle, stale idempotency.Held) { b.takeKey(stale) },
		"taken over, and left": func(b *bundle, stale idempotency.Held) {
			b.must(b.store.ReleaseKey(b.ctx, b.takeKey(stale)))
		},
		"answered": func(b *bundle, stale idempotency.Held) {
			b.must(b.store.AnswerKey(b.ctx, b.takeKey(stale), theAnswer))
		},
		"forgotten": func(b *bundle, stale idempotency.Held) {
			b.must(b.store.ForgetKey(b.ctx, b.takeKey(stale)))
		},
		"forgotten, and claimed anew": func(b *bundle, stale idempotency.Held) {
			b.must(b.store.ForgetKey(b.ctx, b.takeKey(stale)))
			b.claimKey(0)
		},
		"expired, and claimed anew": func(b *bundle, stale idempotency.Held) {
			b.must(b.store.AnswerKey(b.ctx, b.takeKey(stale), theAnswer))
			b.exec(`UPDATE idempotency_keys SET expires_at = now()`)
			next := claimOf("held")
			next.Generation = 2
			_, err := b.store.ClaimKey(b.ctx, next, 0)
			b.must(err)
		},
	} {
		t.Run(since, func(t *testing.T) {
			t.Parallel()
			b := newBundle(t)
			stale := b.claimKey(0)
			happened(b, stale)
			before, used := b.record(stale)
			for name, write := range fencedWrites {
				if err := write(b, stale); !errors.Is(err, saga.ErrLeaseLost) {
					t.Errorf("%s: %v, want ErrLeaseLost", name, err)
				}
			}
			after, stillUsed := b.record(stale)
			before.LeaseLeft, after.LeaseLeft = 0, 0 // of a lease that runs, or has run out
			if diff := cmp.Diff(before, after); diff != "" || used != stillUsed {
				t.Errorf("something was written (-before +after):\n%s", diff)
			}
			b.wantStock("cup", 10, 0)
		})
	}
}

// The holder can do all of it, and a lease that runs cannot be taken.
func TestHolderCanWrite(t *testing.T) {
	t.Parallel()
	for name, write := range fencedWrites {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := newBundle(t)
			held := b.claimKey(lease)
			if name == "take" {
				if err := write(b, held); !errors.Is(err, saga.ErrLeaseLost) {
					t.Errorf("a running lease: %v, want ErrLeaseLost", err)
				}
				b.exec(`UPDATE idempotency_keys SET locked_until = now()`)
			}
			if err := write(b, held); err != nil {
				t.Fatal(err)
			}
			b.checkHeld(name, held)
		})
	}
}

// checkHeld holds a key against what its holder did.
func (b *bundle) checkHeld(did string, held idempotency.Held) {
	b.t.Helper()
	record, used := b.record(held)
	if used == (did == "forget") || (record.Status == idempotency.Completed) != (did == "answer") {
		b.t.Errorf("after %s: used %t, %s", did, used, record.Status)
	}
	if diff := cmp.Diff(theAnswer, record.Answer); did == "answer" && diff != "" {
		b.t.Errorf("answer (-stored +read):\n%s", diff)
	}
	if ends := slices.Contains([]string{"answer", "forget", "release"}, did); (record.LeaseLeft > 0) == ends {
		b.t.Errorf("after %s the lease has %s left", did, record.LeaseLeft)
	}
}

// A lease is taken by a compare-and-swap: of many that see it run out, one gets it.
func TestOneTakesTheKey(t *testing.T) {
	t.Parallel()
	const takers = 16
	b := newBundle(t)
	held := b.claimKey(0)
	var all sync.WaitGroup
	var took atomic.Int64
	for range takers {
		all.Go(func() {
			switch taken, err := b.store.TakeKey(b.ctx, held, lease); {
			case err == nil && taken.Fence > held.Fence:
				took.Add(1)
			case !errors.Is(err, saga.ErrLeaseLost):
				t.Errorf("take: fence %d after %d, %v", taken.Fence, held.Fence, err)
			}
		})
	}
	all.Wait()
	if took.Load() != 1 {
		t.Errorf("%d took the key, want one", took.Load())
	}
}

// While a holder's own write is not committed, nobody can take its key over: the write and the take-over come one after the other.
func TestTakeOverWaitsForTheHoldersWrite(t *testing.T) {
	t.Parallel()
	b := newBundle(t)
	held := b.claimKey(0)
	lock, err := b.pool.Begin(b.ctx)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := lock.Exec(b.ctx, `SELECT 1 FROM stock FOR UPDATE`); err != nil {
		t.Fatal(err)
	}
	written, taken := make(chan error, 1), make(chan error, 1)
	go func() { _, err := b.store.PutStock(b.ctx, account, "cup", 99, &held, nil); written <- err }()
	b.waitForLocks(1)
	go func() { _, err := b.store.TakeKey(b.ctx, held, lease); taken <- err }()
	b.waitForLocks(2)
	if err := lock.Rollback(b.ctx); err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(<-written, <-taken); err != nil {
		t.Error(err)
	}
	b.wantStock("cup", 99, 0)
}

// waitForLocks waits until so many statements wait for others in this database.
func (b *bundle) waitForLocks(n int) {
	b.t.Helper()
	const limit = 30 * time.Second
	for end := time.Now().Add(limit); time.Now().Before(end); {
		if b.count(`SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() AND wait_event_type = 'Lock'`) >= n {
			return
		}
	}
	b.t.Fatalf("%d statements do not wait", n)
}

// The keys of sagas are those sagas' own: nothing of a held key's applies to them.
func TestHeldKeysAreNotSagas(t *testing.T) {
	t.Parallel()
	b := newBundle(t)
	s := b.begin("saga")
	b.lapse(s)
	held := idempotency.Held{AccountID: account, Endpoint: claimOf("saga").Endpoint, Key: claimOf("saga").Key, Generation: 1, Fence: s.Lease.Fence}
	for _, name := range []string{"take", "renew", "release", "forget"} {
		if err := fencedWrites[name](b, held); !errors.Is(err, saga.ErrLeaseLost) {
			t.Errorf("%s: %v, want ErrLeaseLost", name, err)
		}
	}
}

// A claimed key is claimed, and where no upkeep has made the partition for an answer, it is made on the way.
func TestHeldKeyWithoutPartition(t *testing.T) {
	t.Parallel()
	b := newBundle(t)
	held := b.claimKey(lease)
	if _, err := b.store.ClaimKey(b.ctx, claimOf("held"), lease); !errors.Is(err, saga.ErrKeyTaken) {
		t.Errorf("claimed again: %v, want ErrKeyTaken", err)
	}
	b.exec(`DO $$ DECLARE part text; BEGIN
		FOR part IN SELECT inhrelid::regclass::text FROM pg_inherits WHERE inhparent = 'idempotency_answers'::regclass LOOP
			EXECUTE 'DROP TABLE ' || part;
		END LOOP; END $$`)
	if err := b.store.AnswerKey(b.ctx, held, theAnswer); err != nil {
		t.Fatal(err)
	}
	if record, _ := b.record(held); string(record.Answer.Body) != answerText {
		t.Errorf("stored %q", record.Answer.Body)
	}
}

// A count and the answer about it are one: whoever dies after the count has answered, and a late repeat brings nothing back.
func TestCountAndItsAnswerAreOne(t *testing.T) {
	t.Parallel()
	b := newBundle(t)
	held := b.claimKey(lease)
	answer := func(stock saga.Stock) (saga.Answer, error) {
		given := theAnswer
		given.Body = fmt.Appendf(nil, "%d on hand", stock.OnHand)
		return given, nil
	}
	broken := errors.New("no answer")
	_, err := b.store.PutStock(b.ctx, account, "cup", 50, &held, func(saga.Stock) (saga.Answer, error) { return saga.Answer{}, broken })
	if record, _ := b.record(held); !errors.Is(err, broken) || held.Answered || record.Status != idempotency.InProgress {
		t.Fatalf("without an answer: %v, %+v", err, record)
	}
	b.wantStock("cup", 10, 0)
	_, err = b.store.PutStock(b.ctx, account, "cup", 50, &held, answer)
	b.must(err)
	record, _ := b.record(held)
	if !held.Answered || record.Status != idempotency.Completed || string(record.Answer.Body) != "50 on hand" {
		t.Errorf("record %+v", record)
	}
	b.wantStock("cup", 50, 0)
	b.exec(`UPDATE stock SET on_hand = 40`)
	if _, err := b.store.PutStock(b.ctx, account, "cup", 50, &held, answer); !errors.Is(err, saga.ErrLeaseLost) {
		t.Errorf("the same once more: %v, want ErrLeaseLost", err)
	}
	b.wantStock("cup", 40, 0)
}

// A process that stands still in the middle of a transaction does not keep its rows from whoever takes its key over: the database ends
// the transaction, and nothing of it stays.
func TestFrozenTransactionIsEnded(t *testing.T) {
	t.Parallel()
	b := newBundle(t)
	ring, err := seal.NewRing(seal.GenerateKey("frozen"))
	b.must(err)
	frozen, err := postgres.Open(b.ctx, b.pool.Config().ConnString(), 2, ring)
	b.must(err)
	t.Cleanup(frozen.Close)
	held := b.claimKey(0)
	stands, goOn, ended := make(chan struct{}), make(chan struct{}), make(chan error, 1)
	go func() {
		_, err := frozen.PutStock(b.ctx, account, "cup", 99, &held, func(saga.Stock) (saga.Answer, error) {
			close(stands)
			<-goOn
			return theAnswer, nil
		})
		ended <- err
	}()
	<-stands
	taken := b.takeKey(held) // waits for the row until the database has ended the other transaction
	_, err = b.store.PutStock(b.ctx, account, "cup", 50, &taken, func(saga.Stock) (saga.Answer, error) { return theAnswer, nil })
	b.must(err)
	close(goOn)
	if err := <-ended; err == nil || held.Answered {
		t.Errorf("the frozen one has written: %v", err)
	}
	b.wantStock("cup", 50, 0)
}
