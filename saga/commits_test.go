package saga_test

import (
	"context"
	"sync/atomic"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"paysaga/providers"
	"paysaga/saga"
)

// trips counts what goes to the database: a batch is one round trip, and so is a query.
type trips struct{ batches, queries atomic.Int32 }

func (c *trips) TraceQueryStart(ctx context.Context, _ *pgx.Conn, _ pgx.TraceQueryStartData) context.Context {
	c.queries.Add(1)
	return ctx
}

func (*trips) TraceQueryEnd(context.Context, *pgx.Conn, pgx.TraceQueryEndData) {}

func (c *trips) TraceBatchStart(ctx context.Context, _ *pgx.Conn, _ pgx.TraceBatchStartData) context.Context {
	c.batches.Add(1)
	return ctx
}

func (*trips) TraceBatchQuery(context.Context, *pgx.Conn, pgx.TraceBatchQueryData) {}

func (*trips) TraceBatchEnd(context.Context, *pgx.Conn, pgx.TraceBatchEndData) {}

// logWrites makes the database write down which transactions write to its tables.
func (b *bundle) logWrites() {
	b.t.Helper()
	b.exec(`CREATE TABLE writes (transaction bigint NOT NULL)`)
	b.exec(`CREATE FUNCTION log_write() RETURNS trigger LANGUAGE plpgsql AS
		$$ BEGIN INSERT INTO writes VALUES (txid_current()); RETURN NULL; END $$`)
	for _, table := range []string{
		"stock", "orders", "order_items", "sagas", "saga_steps", "reservations", "idempotency_keys", "idempotency_answers", "outbox_events",
		"findings",
	} {
		b.exec(`CREATE TRIGGER log_write AFTER INSERT OR UPDATE OR DELETE ON ` + table + ` FOR EACH ROW EXECUTE FUNCTION log_write()`)
	}
}

func TestOrderCostsTwoTransactionsOfOneRoundTrip(t *testing.T) {
	t.Parallel()
	b := newBundle(t)
	b.logWrites()
	counted := &trips{}
	config := b.pool.Config()
	config.ConnConfig.Tracer = counted
	pool, err := pgxpool.NewWithConfig(b.ctx, config)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(pool.Close)
	b.store = newStore(t, pool)
	runner := b.newRunner(b.store)
	for name, test := range map[string]struct {
		run          func(claim saga.Claim)
		transactions int
		trips        int32
	}{
		"confirmed": {func(claim saga.Claim) { b.startOn(runner, claim, cups(), 201) }, 2, 2},
		"two lines": {func(claim saga.Claim) {
			b.startOn(runner, claim, orderOf(saga.Item{SKU: "cup", Quantity: 1, UnitAmount: 1}, saga.Item{SKU: "mug", Quantity: 1, UnitAmount: 1}), 201)
		}, 2, 2},
		"declined": {func(claim saga.Claim) {
			b.bank.on(saga.CallCharge, refuses(providers.Outcome{Kind: providers.Declined, Decline: &providers.Decline{Code: "no"}}))
			b.startOn(runner, claim, cups(), 402)
		}, 2, 2},
	} {
		b.putStock("mug", 10)
		b.exec(`DELETE FROM writes`)
		counted.batches.Store(0)
		counted.queries.Store(0)
		claim := claimOf(name)
		test.run(claim)
		if got := b.count(`SELECT count(DISTINCT transaction) FROM writes`); got != test.transactions {
			t.Errorf("%s: %d writing transactions, want %d", name, got, test.transactions)
		}
		if batches, queries := counted.batches.Load(), counted.queries.Load(); batches != test.trips || queries != 0 {
			t.Errorf("%s: %d batches and %d queries, want %d and none", name, batches, queries, test.trips)
		}
		// A repeat is one read, and writes nothing.
		b.exec(`DELETE FROM writes`)
		counted.batches.Store(0)
		counted.queries.Store(0)
		b.record(claim)
		batches, queries := counted.batches.Load(), counted.queries.Load()
		if writes := b.count(`SELECT count(*) FROM writes`); writes != 0 || batches != 0 || queries != 1 {
			t.Errorf("%s, again: %d writes, %d batches and %d queries; want one query", name, writes, batches, queries)
		}
	}
}

func (b *bundle) startOn(runner *saga.Runner, claim saga.Claim, order saga.Order, status int) {
	b.t.Helper()
	if answer, err := runner.Start(b.ctx, claim, order); err != nil || answer.Status != status {
		b.t.Fatalf("start: %d, %v; want %d", answer.Status, err, status)
	}
}
