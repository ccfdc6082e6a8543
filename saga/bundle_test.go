package saga_test

import (
	"cmp"
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"

	"paysaga/internal/hygiene"
	"paysaga/internal/idempotency"
	"paysaga/internal/pgdev/pgtest"
	"paysaga/internal/postgres"
	"paysaga/internal/seal"
	"paysaga/providers"
	"paysaga/saga"
)

func TestMain(m *testing.M) { pgtest.Main(m) }

const (
	endpoint  = "POST /v1/orders"
	retention = 30 * 24 * time.Hour
	// longLease never runs out during a test: leases end here because a test says so.
	longLease = time.Hour
	// longTimeout is for calls that a test holds up.
	longTimeout = time.Hour
)

// bundle is a store on a database of its own, a bank, and one server.
type bundle struct {
	t      *testing.T
	ctx    context.Context
	pool   *pgxpool.Pool
	store  *postgres.Store
	bank   *bank
	runner *saga.Runner
	book   *hygiene.Book   // what the servers log
	steps  saga.Definition // of orders; empty: the default ones
}

func newBundle(t *testing.T) *bundle {
	t.Helper()
	pool := pgtest.New(t)
	b := &bundle{t: t, ctx: t.Context(), pool: pool, store: newStore(t, pool), book: hygiene.New(t)}
	t.Cleanup(func() { pgtest.NameKeys(b.book, pool) })
	b.exec(`INSERT INTO accounts (id) VALUES ('shop1')`)
	return b.fresh(t)
}

// fresh is the same database with ten cups and nothing else in it, and a new bank: for cases that follow one another.
func (b *bundle) fresh(t *testing.T) *bundle {
	t.Helper()
	f := &bundle{t: t, ctx: t.Context(), pool: b.pool, store: b.store, bank: newBank(), book: b.book}
	f.exec(`TRUNCATE stock, orders, idempotency_keys, outbox_events CASCADE`)
	f.putStock("cup", 10)
	f.runner = f.newRunner(f.store)
	return f
}

func newStore(t *testing.T, pool *pgxpool.Pool) *postgres.Store {
	t.Helper()
	ring, err := seal.NewRing(seal.GenerateKey("test"))
	if err != nil {
		t.Fatal(err)
	}
	return postgres.New(pool, ring)
}

// newRunner is another server on the same database.
func (b *bundle) newRunner(store saga.Store) *saga.Runner {
	b.t.Helper()
	return b.newRunnerWith(saga.Config{Store: store})
}

func (b *bundle) newRunnerWith(c saga.Config) *saga.Runner {
	b.t.Helper()
	c.Providers, c.Answerer = map[string]saga.Provider{"fake": b.bank, "other": b.bank}, clerk{}
	c.Policy = saga.Policy{
		AwaitDeadline: 30 * time.Minute, ProcessingDeadline: 24 * time.Hour, RefundDeadline: 24 * time.Hour, MaxFailures: 3,
		NoticeWait: 5 * time.Minute, MaxCharges: 3, Steps: b.steps,
		MaxUnrecorded: saga.DefaultPolicy().MaxUnrecorded, // more drives than any test here loses leases
	}
	if c.MaxInFlight == 0 {
		c.MaxInFlight = 100
	}
	c.Logger, c.CallTimeout = b.book.Logger(), cmp.Or(c.CallTimeout, longTimeout)
	if c.Lease == 0 {
		c.Lease = longLease
	}
	runner, err := saga.NewRunner(c)
	if err != nil {
		b.t.Fatal(err)
	}
	return runner
}

// recovery is a recovery worker of a server.
func (b *bundle) recovery(runner *saga.Runner) *saga.Recovery {
	b.t.Helper()
	worker, err := saga.NewRecovery(runner, saga.RecoveryConfig{Interval: time.Millisecond, Concurrency: 8})
	if err != nil {
		b.t.Fatal(err)
	}
	return worker
}

// clerk answers with what the shop can see of the order, so that a wrong answer shows.
type clerk struct{}

func (clerk) Answer(s saga.Saga) (saga.Answer, error) {
	status := map[saga.State]int{saga.Completed: 201, saga.RolledBack: 402}[s.State]
	if status == 0 {
		status = 202
	}
	if s.Kind == saga.KindRefund {
		return saga.Answer{Status: status, Body: fmt.Appendf(nil, "%s %d %s", s.Refund.ID, s.Refund.Amount, s.Refund.Status)}, nil
	}
	return saga.Answer{
		Status: status, Headers: map[string]string{"Location": "/v1/orders/" + s.Order.ID.String()},
		Body: fmt.Appendf(nil, "%s %s %s %d", s.Order.ID, s.Order.Status, s.Order.Payment.Status, s.Order.Payment.CapturedAmount),
	}, nil
}

func claimOf(name string) saga.Claim {
	key := fmt.Sprintf("key-%016s", name)
	return saga.Claim{
		AccountID: "shop1", Endpoint: endpoint, Key: key, Fingerprint: sha256.Sum256([]byte(name)), Generation: 1, Retention: retention,
	}
}

func refOf(claim saga.Claim) saga.Ref {
	return saga.Ref{AccountID: claim.AccountID, Key: saga.Key(claim.AccountID, claim.Endpoint, claim.Key, claim.Generation)}
}

func chargeKey(claim saga.Claim) providers.SubKey {
	return saga.SubKey(refOf(claim).Key, saga.StepCharge, 1)
}

func orderOf(items ...saga.Item) saga.Order {
	order := saga.Order{Currency: "EUR", Items: items, Payment: saga.Payment{Provider: "fake", Method: "pm_1"}}
	for _, item := range items {
		order.Amount += item.Quantity * item.UnitAmount
	}
	return order
}

// cups is an order of two of the ten cups.
func cups() saga.Order { return orderOf(saga.Item{SKU: "cup", Quantity: 2, UnitAmount: 600}) }

func (b *bundle) putStock(sku string, onHand int64) {
	b.t.Helper()
	if _, err := b.store.PutStock(b.ctx, "shop1", sku, onHand, nil, nil); err != nil {
		b.t.Fatal(err)
	}
}

// exec runs a statement that a test needs to bend time or facts.
func (b *bundle) exec(sql string, arguments ...any) {
	b.t.Helper()
	if _, err := b.pool.Exec(b.ctx, sql, arguments...); err != nil {
		b.t.Fatal(err)
	}
}

// lapse lets every lease run out and makes every saga due. It passes over rows that somebody is writing, as it would wait
// for them crosswise.
func (b *bundle) lapse() {
	b.t.Helper()
	b.exec(`UPDATE sagas SET locked_until = now(), next_attempt_at = now() WHERE key IN
		(SELECT key FROM sagas WHERE next_attempt_at IS NOT NULL FOR UPDATE SKIP LOCKED)`)
	b.exec(`UPDATE idempotency_keys SET locked_until = now() WHERE key IN
		(SELECT key FROM idempotency_keys WHERE status = 'PROCESSING' FOR UPDATE SKIP LOCKED)`)
}

func (b *bundle) start(claim saga.Claim, order saga.Order) saga.Answer {
	b.t.Helper()
	answer, err := b.runner.Start(b.ctx, claim, order)
	if err != nil {
		b.t.Fatalf("start: %v", err)
	}
	return answer
}

// recover lets a recovery worker work until nothing is live any more, with all the time that it needs in between.
func (b *bundle) recover(runner *saga.Runner) {
	b.t.Helper()
	const mostRounds = 50 // no way in these tests has as many turns
	worker := b.recovery(runner)
	for range mostRounds {
		b.exec(`UPDATE sagas SET deadline_at = now() WHERE deadline_at IS NOT NULL`)
		b.lapse()
		if worker.Once(b.ctx) == 0 {
			return
		}
	}
	b.t.Fatalf("sagas are still live after %d rounds", mostRounds)
}

func (b *bundle) get(claim saga.Claim) saga.Saga {
	b.t.Helper()
	s, err := b.store.GetOrder(b.ctx, claim.AccountID, refOf(claim).Key)
	if err != nil {
		b.t.Fatalf("get order: %v", err)
	}
	return s
}

func (b *bundle) findings(claim saga.Claim) []string {
	b.t.Helper()
	timeline, err := b.store.Timeline(b.ctx, claim.AccountID, refOf(claim).Key)
	if err != nil {
		b.t.Fatalf("timeline: %v", err)
	}
	kinds := make([]string, 0, len(timeline.Findings))
	for _, finding := range timeline.Findings {
		kinds = append(kinds, finding.Kind)
	}
	return kinds
}

// record reads the key of a claim. It fails the test when there is none.
func (b *bundle) record(claim saga.Claim) idempotency.Record {
	b.t.Helper()
	record, ok, err := b.store.LookupKey(b.ctx, claim.AccountID, claim.Endpoint, claim.Key)
	if err != nil || !ok {
		b.t.Fatalf("look up key: found %t, %v", ok, err)
	}
	return record
}

// wantState checks where a saga and its order stand.
func (b *bundle) wantState(claim saga.Claim, state saga.State, order saga.OrderStatus, pay saga.PaymentStatus) saga.Saga {
	b.t.Helper()
	s := b.get(claim)
	if s.State != state || s.Order.Status != order || s.Order.Payment.Status != pay {
		b.t.Fatalf("saga %s, order %s, payment %s; want %s, %s, %s", s.State, s.Order.Status, s.Order.Payment.Status, state, order, pay)
	}
	return s
}

// wantStock checks what is on hand, with nothing reserved: these tests look at the end of an order.
func (b *bundle) wantStock(sku string, onHand int64) {
	b.t.Helper()
	stock, err := b.store.GetStock(b.ctx, "shop1", sku)
	if err != nil {
		b.t.Fatal(err)
	}
	if stock.OnHand != onHand || stock.Reserved != 0 {
		b.t.Errorf("%s: %d on hand, %d reserved; want %d and none", sku, stock.OnHand, stock.Reserved, onHand)
	}
}

func (b *bundle) wantTaken(held, made int) {
	b.t.Helper()
	if gotHeld, gotMade := b.bank.taken(); gotHeld != held || gotMade != made {
		b.t.Errorf("the bank holds %d payments of %d made; want %d of %d", gotHeld, gotMade, held, made)
	}
}

func (b *bundle) count(sql string, arguments ...any) (n int) {
	b.t.Helper()
	if err := b.pool.QueryRow(b.ctx, sql, arguments...).Scan(&n); err != nil {
		b.t.Fatal(err)
	}
	return n
}

func stepOf(s saga.Saga, name saga.StepName) saga.Step {
	for _, step := range s.Steps {
		if step.Name == name {
			return step
		}
	}
	return saga.Step{}
}

var errNever = errors.New("never happened")

// eventually asks until the answer is yes.
func eventually(t *testing.T, what string, happened func() bool) {
	t.Helper()
	ctx, cancel := context.WithTimeoutCause(t.Context(), time.Minute, errNever)
	defer cancel()
	again := time.NewTicker(5 * time.Millisecond)
	defer again.Stop()
	for !happened() {
		select {
		case <-again.C:
		case <-ctx.Done():
			t.Fatalf("%s: %v", what, context.Cause(ctx))
		}
	}
}
