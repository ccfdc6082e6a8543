package saga_test

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/jackc/pgx/v5"

	"paysaga/saga"
)

// dieMany leaves orders behind whose server died in the charge.
func (b *bundle) dieMany(n int) []saga.Claim {
	b.t.Helper()
	b.putStock("cup", 10_000)
	claims := make([]saga.Claim, n)
	for i := range claims {
		claims[i] = claimOf(fmt.Sprint("many-", i))
		b.dieInCharge(claims[i], reply{works: i%2 == 0, outcome: nothing().outcome})
	}
	b.lapse()
	return claims
}

func TestOneLookClaimsNoMoreThanItCanDrive(t *testing.T) {
	t.Parallel()
	b := newBundle(t)
	b.dieMany(20)
	worker := b.recovery(b.newRunner(b.store)) // drives eight at once
	for _, want := range []int{8, 8, 4, 0} {
		if claimed := worker.Once(b.ctx); claimed != want {
			t.Errorf("claimed %d, want %d", claimed, want)
		}
	}
}

func TestManyWorkersDriveEachSagaOnce(t *testing.T) {
	t.Parallel()
	b := newBundle(t)
	claims := b.dieMany(30)
	const workers = 4
	var claimed atomic.Int32
	atOnce(workers, func(int) {
		worker := b.recovery(b.newRunner(b.store))
		for n := worker.Once(b.ctx); n > 0; n = worker.Once(b.ctx) {
			claimed.Add(int32(n))
		}
	})
	if claimed.Load() != int32(len(claims)) {
		t.Errorf("%d claims of %d sagas", claimed.Load(), len(claims))
	}
	for _, claim := range claims {
		if s := b.wantState(claim, saga.Completed, saga.OrderConfirmed, saga.PaymentCaptured); s.Drives != 2 {
			t.Errorf("order %s was driven %d times, want by its dead server and once more", s.Order.ID, s.Drives)
		}
	}
	b.wantTaken(len(claims), len(claims))
	b.wantStock("cup", int64(10_000-2*len(claims)))
}

// Leases that run out all the time: two servers may drive one saga, and it comes out once all the same.
func TestLeasesThatRunOutUnderWork(t *testing.T) {
	t.Parallel()
	b := newBundle(t)
	claims := b.dieMany(10)
	b.bank.hook(func(context.Context, saga.Call) { b.lapse() }, nil)
	atOnce(3, func(int) {
		worker := b.recovery(b.newRunner(b.store))
		for range 5 {
			worker.Once(b.ctx)
		}
	})
	b.bank.hook(nil, nil)
	b.recover(b.newRunner(b.store))
	for _, claim := range claims {
		b.wantState(claim, saga.Completed, saga.OrderConfirmed, saga.PaymentCaptured)
	}
	b.wantTaken(len(claims), len(claims))
	b.wantStock("cup", int64(10_000-2*len(claims)))
}

func TestRecoveryRunsUntilItIsTold(t *testing.T) {
	t.Parallel()
	b := newBundle(t)
	claims := b.dieMany(20)
	ctx, stop := context.WithCancel(b.ctx)
	stopped := make(chan struct{})
	runner := b.newRunner(b.store)
	go func() { b.recovery(runner).Run(ctx); close(stopped) }()
	eventually(t, "all orders are confirmed", func() bool {
		return b.count(`SELECT count(*) FROM sagas WHERE state = 'completed'`) == len(claims)
	})
	stop()
	<-stopped
	runner.Drain(b.ctx)
}

// storm ends all database connections again and again, each time from a provider call: between an order's transactions,
// while others are inside theirs.
type storm struct {
	mu    sync.Mutex
	admin *pgx.Conn
	calls int
}

func (s *storm) strike(ctx context.Context, _ saga.Call) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.calls++
	if s.calls%3 != 0 {
		return
	}
	_, _ = s.admin.Exec(ctx, `SELECT pg_terminate_backend(pid) FROM pg_stat_activity
		WHERE datname = current_database() AND pid <> pg_backend_pid()`)
}

// Connections that break at any moment leave all work to go on, and no client without its answer.
func TestBrokenConnectionsStrandNothing(t *testing.T) {
	t.Parallel()
	b := newBundle(t)
	b.putStock("cup", 10_000)
	admin, err := pgx.ConnectConfig(b.ctx, b.pool.Config().ConnConfig)
	if err != nil {
		t.Fatal(err)
	}
	defer admin.Close(context.WithoutCancel(b.ctx))
	s := &storm{admin: admin}
	b.bank.hook(s.strike, nil)
	ctx, stop := context.WithCancel(b.ctx)
	stopped := make(chan struct{})
	worker := b.newRunner(b.store)
	go func() { b.recovery(worker).Run(ctx); close(stopped) }()
	const orders = 40
	var broken atomic.Int32
	atOnce(orders, func(i int) {
		if _, err := b.runner.Start(b.ctx, claimOf(fmt.Sprint("storm-", i)), cups()); err != nil {
			broken.Add(1)
		}
	})
	b.bank.hook(nil, nil)
	if broken.Load() == 0 {
		t.Error("no request met a broken connection: this tests nothing")
	}
	b.pool.Reset()
	for i := range orders { // each client asks again
		b.askAgain(claimOf(fmt.Sprint("storm-", i)))
	}
	eventually(t, "all orders are confirmed", func() bool {
		b.lapse()
		return b.count(`SELECT count(*) FROM sagas WHERE state = 'completed'`) == orders
	})
	stop()
	<-stopped
	worker.Drain(b.ctx)
	b.wantTaken(orders, orders)
	b.wantStock("cup", 10_000-2*orders)
	for i := range orders {
		if record := b.record(claimOf(fmt.Sprint("storm-", i))); record.Answer.Status == 0 {
			t.Errorf("order %d has no answer", i)
		}
	}
}

// askAgain sends a request again, as a client does whose answer was lost.
func (b *bundle) askAgain(claim saga.Claim) {
	b.t.Helper()
	eventually(b.t, "the request is taken", func() bool {
		_, err := b.runner.Start(b.ctx, claim, cups())
		return err == nil || errors.Is(err, saga.ErrKeyTaken)
	})
}
