package postgres_test

import (
	"context"
	"fmt"
	"strconv"
	"sync/atomic"
	"testing"
	"time"

	"paysaga/internal/pgdev/pgtest"
	"paysaga/internal/postgres"
	"paysaga/internal/seal"
	"paysaga/providers"
	"paysaga/saga"
)

const (
	benchAccount = "bench"
	benchSKUs    = 100 // orders of one SKU wait for each other at its row; a shop has more than one
	benchLease   = 30 * time.Second

	keyedEndpoint = "PUT /v1/stock/{sku}" // one whose requests begin no saga
)

// BenchmarkOrder measures what the database costs an order that goes well: both transactions, no provider. Compare it with
// BenchmarkReplay of the same run; the numbers themselves are the machine's.
func BenchmarkOrder(b *testing.B) {
	store, number := newBenchStore(b)
	b.RunParallel(func(pb *testing.PB) {
		for pb.Next() {
			benchOrder(b, store, number.Add(1))
		}
	})
}

// BenchmarkReplay measures the repeat of a finished key: one indexed read.
func BenchmarkReplay(b *testing.B) {
	store, _ := newBenchStore(b)
	claim := benchOrder(b, store, 1)
	b.ResetTimer()
	b.RunParallel(func(pb *testing.PB) {
		for pb.Next() {
			if _, ok, err := store.LookupKey(b.Context(), claim.AccountID, claim.Endpoint, claim.Key); err != nil || !ok {
				b.Fatalf("LookupKey: %v, %v", ok, err)
			}
		}
	})
}

// BenchmarkLookUpAbsent measures what every new request pays first: to find that its key is new.
func BenchmarkLookUpAbsent(b *testing.B) {
	store, number := newBenchStore(b)
	b.RunParallel(func(pb *testing.PB) {
		for pb.Next() {
			claim := benchClaimOf("POST /v1/orders", number.Add(1))
			if _, ok, err := store.LookupKey(b.Context(), claim.AccountID, claim.Endpoint, claim.Key); err != nil || ok {
				b.Fatalf("LookupKey: %v, %v", ok, err)
			}
		}
	})
}

// BenchmarkClaim measures the claim of a key for a request that begins no saga.
func BenchmarkClaim(b *testing.B) { benchClaim(b, 0) }

// BenchmarkClaimLimited measures the same where new keys are counted: all requests of an account wait for each other at its row, as
// they do here, where there is one account.
func BenchmarkClaimLimited(b *testing.B) { benchClaim(b, 1_000_000_000) } // one a nanosecond of the minute, so that none is refused

func benchClaim(b *testing.B, keysPerMinute int) {
	b.Helper()
	store, number := newBenchStore(b)
	b.RunParallel(func(pb *testing.PB) {
		for pb.Next() {
			claim := benchClaimOf(keyedEndpoint, number.Add(1))
			claim.KeysPerMinute = keysPerMinute
			if _, err := store.ClaimKey(b.Context(), claim, benchLease); err != nil {
				b.Fatal(err)
			}
		}
	})
}

// BenchmarkHeld measures what the guard costs an ordinary handler: the claim of its key, and the answer.
func BenchmarkHeld(b *testing.B) {
	store, number := newBenchStore(b)
	b.RunParallel(func(pb *testing.PB) {
		for pb.Next() {
			held, err := store.ClaimKey(b.Context(), benchClaimOf(keyedEndpoint, number.Add(1)), benchLease)
			if err != nil {
				b.Fatal(err)
			}
			if err := store.AnswerKey(b.Context(), held, benchAnswer()); err != nil {
				b.Fatal(err)
			}
		}
	})
}

// BenchmarkPatch measures a change of an order's notes: the order is read, and one transaction claims the key, changes the order and
// stores the answer. Each client has an order of its own.
func BenchmarkPatch(b *testing.B) {
	store, number := newBenchStore(b)
	b.RunParallel(func(pb *testing.PB) {
		order := benchOrder(b, store, number.Add(1))
		id := saga.Key(order.AccountID, order.Endpoint, order.Key, order.Generation)
		for pb.Next() {
			read, err := store.GetOrder(b.Context(), benchAccount, id)
			if err != nil {
				b.Fatal(err)
			}
			n := number.Add(1)
			claim := benchClaimOf("PATCH /v1/orders/{id}", n)
			if err := store.PutMetadata(b.Context(), claim, read, map[string]string{"n": strconv.FormatInt(n, 10)}, benchAnswer()); err != nil {
				b.Fatal(err)
			}
		}
	})
}

func newBenchStore(b *testing.B) (*postgres.Store, *atomic.Int64) {
	b.Helper()
	pool := pgtest.New(b)
	b.SetParallelism(16) // clients for each core, as requests wait for the database's disk
	ring, err := seal.NewRing(seal.GenerateKey("bench"))
	if err != nil {
		b.Fatal(err)
	}
	if _, err := pool.Exec(b.Context(), `INSERT INTO accounts (id) VALUES ($1)`, benchAccount); err != nil {
		b.Fatal(err)
	}
	store := postgres.New(pool, ring)
	for i := range benchSKUs {
		if _, err := store.PutStock(b.Context(), benchAccount, benchSKU(int64(i)), 1_000_000_000, nil, nil); err != nil {
			b.Fatal(err)
		}
	}
	b.ResetTimer()
	return store, &atomic.Int64{}
}

func benchSKU(n int64) string { return fmt.Sprintf("SKU-%d", n%benchSKUs) }

// benchClaimOf scatters the keys over the index, as clients' random ones are.
func benchClaimOf(endpoint string, n int64) saga.Claim {
	const spread = 0x9e3779b97f4a7c15 // 2^64 divided by the golden ratio
	return saga.Claim{
		AccountID: benchAccount, Endpoint: endpoint, Key: fmt.Sprintf("%016x-bench-key", uint64(n)*spread), Generation: 1, Retention: time.Hour,
	}
}

// benchOrder takes one order from its first transaction through its second.
func benchOrder(tb testing.TB, store *postgres.Store, n int64) saga.Claim {
	tb.Helper()
	claim := benchClaimOf("POST /v1/orders", n)
	begun := begin(tb.Context(), tb, store, claim, saga.Order{
		Currency: "EUR", Amount: 100, Items: []saga.Item{{SKU: benchSKU(n), Quantity: 1, UnitAmount: 100}},
		Payment: saga.Payment{Provider: "bench", Method: "token"},
	})
	change, err := saga.Advance(begun, saga.Event{Kind: saga.Answered, Call: saga.CallCharge, Sends: 1, Outcome: providers.Outcome{
		Kind: providers.Succeeded, Reference: "pi_1", Money: begun.Order.Money(),
	}}, saga.DefaultPolicy())
	if err != nil {
		tb.Fatal(err)
	}
	change.Release = true
	change.Answer = new(benchAnswer())
	if _, err := store.Apply(tb.Context(), change); err != nil {
		tb.Fatal(err)
	}
	return claim
}

// benchAnswer has the size of an order's.
func benchAnswer() saga.Answer {
	return saga.Answer{Status: 201, Headers: map[string]string{"Content-Type": "application/json"}, Body: make([]byte, 600)}
}

func begin(ctx context.Context, tb testing.TB, store *postgres.Store, claim saga.Claim, order saga.Order) saga.Saga {
	tb.Helper()
	s := saga.Saga{
		AccountID: claim.AccountID, Key: saga.Key(claim.AccountID, claim.Endpoint, claim.Key, claim.Generation),
		Generation: claim.Generation, State: saga.Started, Order: order,
	}
	s.Order.ID = s.Key
	change, err := saga.Advance(s, saga.Event{Kind: saga.Resume}, saga.DefaultPolicy())
	if err != nil {
		tb.Fatal(err)
	}
	begun, err := store.Begin(ctx, claim, change, benchLease)
	if err != nil {
		tb.Fatal(err)
	}
	return begun
}
