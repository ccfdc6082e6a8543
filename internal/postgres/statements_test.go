package postgres_test

import (
	"context"
	"sync/atomic"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"paysaga/internal/postgres"
	"paysaga/internal/seal"
	"paysaga/saga"
)

// counter counts what goes to the database: batches are round trips.
type counter struct{ batches, batched, single atomic.Int64 }

func (c *counter) TraceBatchStart(ctx context.Context, _ *pgx.Conn, data pgx.TraceBatchStartData) context.Context {
	c.batches.Add(1)
	c.batched.Add(int64(data.Batch.Len()))
	return ctx
}

func (*counter) TraceBatchQuery(context.Context, *pgx.Conn, pgx.TraceBatchQueryData) {}

func (*counter) TraceBatchEnd(context.Context, *pgx.Conn, pgx.TraceBatchEndData) {}

func (c *counter) TraceQueryStart(ctx context.Context, _ *pgx.Conn, _ pgx.TraceQueryStartData) context.Context {
	c.single.Add(1)
	return ctx
}

func (*counter) TraceQueryEnd(context.Context, *pgx.Conn, pgx.TraceQueryEndData) {}

// take returns what was counted since the last time: batches, the statements in them, and statements that went alone.
func (c *counter) take() [3]int64 {
	return [3]int64{c.batches.Swap(0), c.batched.Swap(0), c.single.Swap(0)}
}

// counting is a store over the same database whose statements are counted.
func (b *bundle) counting() *counter {
	b.t.Helper()
	c := &counter{}
	config := b.pool.Config()
	config.ConnConfig.Tracer = c
	pool, err := pgxpool.NewWithConfig(b.ctx, config)
	if err != nil {
		b.t.Fatal(err)
	}
	b.t.Cleanup(pool.Close)
	ring, err := seal.NewRing(seal.GenerateKey("counted"))
	if err != nil {
		b.t.Fatal(err)
	}
	b.store = postgres.New(pool, ring)
	return c
}

// An order that goes well pays for two round trips. Whatever else payments can do costs it no statement.
func TestStatementsOfATransaction(t *testing.T) {
	t.Parallel()
	b := newBundle(t)
	c := b.counting()
	want := func(what string, batched int64) {
		t.Helper()
		if got := c.take(); got != [3]int64{1, batched, 0} {
			t.Errorf("%s: %d batches with %d statements, and %d beside them; want one with %d", what, got[0], got[1], got[2], batched)
		}
	}
	begun := b.begin("order")
	want("begin", 6) // key, order, lines, saga, steps, stock
	order := b.apply(b.outcome(begun, saga.CallCharge, succeeded))
	want("apply", 6) // saga, order, steps, answer, event, stock

	claim := requestClaim("refund")
	change := b.refunding(b.load(order), claim, 300)
	c.take()
	refund, err := b.store.Begin(b.ctx, claim, change, lease)
	if err != nil {
		t.Fatal(err)
	}
	want("begin a refund", 5) // key, sums, saga, refund, steps
	b.apply(b.outcome(refund, saga.CallRefund, given))
	want("apply a refund", 6) // saga, refund, steps, answer, event, sums

	held := b.load(b.held("held"))
	claim = requestClaim("capture")
	change = b.asking(held, claim, capture)
	c.take()
	if _, err := b.store.Ask(b.ctx, claim, change, lease); err != nil {
		t.Fatal(err)
	}
	want("ask", 4) // key, saga, order, steps
}
