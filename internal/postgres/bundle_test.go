package postgres_test

import (
	"context"
	"crypto/sha256"
	"fmt"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"

	"paysaga/internal/hygiene"
	"paysaga/internal/pgdev/pgtest"
	"paysaga/internal/postgres"
	"paysaga/internal/seal"
	"paysaga/providers"
	"paysaga/saga"
)

func TestMain(m *testing.M) { pgtest.Main(m) }

const (
	account = "shop1"
	lease   = time.Hour // never runs out during a test
)

var policy = saga.Policy{
	AwaitDeadline: 30 * time.Minute, ProcessingDeadline: time.Hour, RefundDeadline: time.Hour, NoticeWait: time.Minute, MaxCharges: 3,
	MaxFailures: 5, MaxUnrecorded: 8,
	Windows: providers.Windows{Repost: 23 * time.Hour, LookupDelay: time.Hour, Hold: 7 * 24 * time.Hour, StaysPayable: true},
}

// bundle is a store on a database of its own, with ten cups in stock.
type bundle struct {
	t     *testing.T
	ctx   context.Context
	pool  *pgxpool.Pool
	store *postgres.Store
	log   *hygiene.Book
	steps saga.Definition // of orders; empty: the default ones
}

func newBundle(t *testing.T) *bundle {
	t.Helper()
	ring, err := seal.NewRing(seal.GenerateKey("test"))
	if err != nil {
		t.Fatal(err)
	}
	pool := pgtest.New(t)
	b := &bundle{t: t, ctx: t.Context(), pool: pool, store: postgres.New(pool, ring), log: hygiene.New(t)}
	t.Cleanup(func() { pgtest.NameKeys(b.log, pool) })
	b.exec(`INSERT INTO accounts (id) VALUES ('shop1'), ('shop2')`)
	b.putStock("cup", 10)
	return b
}

func (b *bundle) exec(sql string, arguments ...any) {
	b.t.Helper()
	if _, err := b.pool.Exec(b.ctx, sql, arguments...); err != nil {
		b.t.Fatal(err)
	}
}

func (b *bundle) count(sql string, arguments ...any) (n int) {
	b.t.Helper()
	if err := b.pool.QueryRow(b.ctx, sql, arguments...).Scan(&n); err != nil {
		b.t.Fatal(err)
	}
	return n
}

func (b *bundle) putStock(sku string, onHand int64) {
	b.t.Helper()
	if _, err := b.store.PutStock(b.ctx, account, sku, onHand, nil, nil); err != nil {
		b.t.Fatal(err)
	}
}

func (b *bundle) wantStock(sku string, onHand, reserved int64) {
	b.t.Helper()
	stock, err := b.store.GetStock(b.ctx, account, sku)
	if err != nil {
		b.t.Fatal(err)
	}
	if stock.OnHand != onHand || stock.Reserved != reserved {
		b.t.Errorf("%s: %d on hand, %d reserved; want %d and %d", sku, stock.OnHand, stock.Reserved, onHand, reserved)
	}
}

func claimOf(name string) saga.Claim {
	return saga.Claim{
		AccountID: account, Endpoint: "POST /v1/orders", Key: fmt.Sprintf("key-%016s", name),
		Fingerprint: sha256.Sum256([]byte(name)), Generation: 1, Retention: 24 * time.Hour,
	}
}

func cups(quantity int64) []saga.Item {
	return []saga.Item{{SKU: "cup", Quantity: quantity, UnitAmount: 600}}
}

// beginning is a saga and its first change, as a runner makes them.
func (b *bundle) beginning(claim saga.Claim, items []saga.Item) saga.Change {
	b.t.Helper()
	return b.beginningPaid(claim, items, saga.Payment{Provider: "fake", Method: "pm_1"})
}

func (b *bundle) beginningPaid(claim saga.Claim, items []saga.Item, payment saga.Payment) saga.Change {
	b.t.Helper()
	s := saga.Saga{
		Kind: saga.KindOrder, Pending: claim.Endpoint, AccountID: claim.AccountID, Generation: claim.Generation, State: saga.Started,
		Key: saga.Key(claim.AccountID, claim.Endpoint, claim.Key, claim.Generation),
		Order: saga.Order{
			Currency: "EUR", Items: items, Customer: saga.Customer{Reference: "c-1", Email: "c@example.com"},
			Metadata: map[string]string{"basket": "b-1"}, Payment: payment,
		},
	}
	s.Order.ID = s.Key
	for _, item := range items {
		s.Order.Amount += item.Quantity * item.UnitAmount
	}
	return b.advance(s, saga.Event{Kind: saga.Resume})
}

// policy is the usual one, with the bundle's steps.
func (b *bundle) policy() saga.Policy {
	own := policy
	own.Steps = b.steps
	return own
}

// begunBy is an order that goes another way than the default one.
func (b *bundle) begunBy(steps saga.Definition) saga.Saga {
	b.t.Helper()
	b.steps = steps
	return b.begin("order")
}

func goesWell(context.Context, saga.StepRequest) providers.Outcome {
	return providers.Outcome{Kind: providers.Succeeded}
}

func (b *bundle) advance(s saga.Saga, e saga.Event) saga.Change {
	b.t.Helper()
	change, err := saga.Advance(s, e, b.policy())
	if err != nil {
		b.t.Fatalf("advance: %v", err)
	}
	return change
}

// begin is an order for two cups whose charge is about to be sent.
func (b *bundle) begin(name string) saga.Saga {
	b.t.Helper()
	claim := claimOf(name)
	begun, err := b.store.Begin(b.ctx, claim, b.beginning(claim, cups(2)), lease)
	if err != nil {
		b.t.Fatalf("begin: %v", err)
	}
	return begun
}

// beginPaid is begin with a payment of the test's own.
func (b *bundle) beginPaid(name string, payment saga.Payment) saga.Saga {
	b.t.Helper()
	claim := claimOf(name)
	begun, err := b.store.Begin(b.ctx, claim, b.beginningPaid(claim, cups(2), payment), lease)
	if err != nil {
		b.t.Fatalf("begin: %v", err)
	}
	return begun
}

// held is an order for two cups whose money, 1200 cents, is held for a capture.
func (b *bundle) held(name string) saga.Saga {
	b.t.Helper()
	s := b.beginPaid(name, saga.Payment{Provider: "fake", Method: "pm_1", Capture: saga.CaptureManual})
	return b.apply(b.outcome(s, saga.CallCharge, authorized))
}

// confirmed is an order for two cups that is paid, 1200 cents.
func (b *bundle) confirmed(name string) saga.Saga {
	b.t.Helper()
	return b.apply(b.outcome(b.begin(name), saga.CallCharge, succeeded))
}

// outcome is the change that an outcome of a call brings, ready to be written.
func (b *bundle) outcome(s saga.Saga, call saga.Call, outcome providers.Outcome) saga.Change {
	b.t.Helper()
	return finish(b.advance(s, saga.Event{Kind: saga.Answered, Call: call, Outcome: outcome, Sends: 1}), s)
}

// finish completes a change as a runner does.
func finish(change saga.Change, before saga.Saga) saga.Change {
	change.Release = change.Pause > 0 || change.After.State.Ended()
	change.Lease = lease
	change.After.Order.UpdatedAt = before.ReadAt
	if change.Release && before.Pending != "" {
		change.Answer = &saga.Answer{Status: 201, Headers: map[string]string{"Location": "/here"}, Body: []byte(answerText)}
	}
	return change
}

const answerText = "the answer in plain text"

func (b *bundle) apply(change saga.Change) saga.Saga {
	b.t.Helper()
	applied, err := b.store.Apply(b.ctx, change)
	if err != nil {
		b.t.Fatalf("apply: %v", err)
	}
	return applied
}

func (b *bundle) get(s saga.Saga) saga.Saga {
	b.t.Helper()
	found, err := b.store.GetOrder(b.ctx, s.AccountID, s.Order.ID)
	if err != nil {
		b.t.Fatalf("get order: %v", err)
	}
	return found
}

func ref(s saga.Saga) saga.Ref { return saga.Ref{AccountID: s.AccountID, Key: s.Key} }

// lapse lets the lease of one saga run out and makes it due.
func (b *bundle) lapse(s saga.Saga) {
	b.t.Helper()
	b.exec(`UPDATE sagas SET locked_until = now(), next_attempt_at = now() WHERE key = $1 AND next_attempt_at IS NOT NULL`, s.Key)
	b.exec(`UPDATE idempotency_keys SET locked_until = now() WHERE saga_key = $1 AND status = 'PROCESSING'`, s.Key)
}

var (
	succeeded  = providers.Outcome{Kind: providers.Succeeded, Reference: "pay_1"}
	authorized = providers.Outcome{Kind: providers.Authorized, Reference: "pay_1"}
	declined   = providers.Outcome{Kind: providers.Declined, Decline: &providers.Decline{Code: "card_declined", Bank: "lost_card", Hard: true}}
	unknown    = providers.Outcome{Kind: providers.Unknown, Code: "timeout"}
	action     = providers.Outcome{
		Kind: providers.ActionRequired, Reference: "pay_1",
		NextAction: &providers.NextAction{Type: "client_secret", ClientSecret: "pay_1_secret_in_plain_text"},
	}
)
