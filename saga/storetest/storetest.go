// Package storetest is one suite for every saga.Store that keeps idempotency keys as well: the real one in PostgreSQL, and the one in
// memory over which package saga is simulated. That both pass it is what makes a simulation say something about the real system.
//
// It knows no store. Time is the store's own: leases and windows that must have run out are given with a length of zero. What only one
// PostgreSQL can show, such as rows that wait for each other, is tested beside it.
package storetest

import (
	"context"
	"crypto/sha256"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"paysaga/internal/idempotency"
	"paysaga/providers"
	"paysaga/saga"
)

// Store is what the suite asks of.
type Store interface {
	saga.Store
	idempotency.Store
	PutStock(
		ctx context.Context, account, sku string, onHand int64, held *idempotency.Held, answer func(saga.Stock) (saga.Answer, error),
	) (saga.Stock, error)
	GetStock(ctx context.Context, account, sku string) (saga.Stock, error)
	FindSaga(ctx context.Context, provider string, notice providers.Notice) (saga.Ref, error)
}

// Account is the one for which a new store must be ready.
const Account = "shop1"

const (
	sku   = "cup"
	lease = time.Hour // does not run out during a test
	begin = "POST /v1/orders"

	fake, payment = "fake", "pay_1" // a provider, and its reference of a payment
	another       = "other"         // provider
)

// Run holds a store against the contracts of saga.Store and idempotency.Store. Each test gets a new, empty one.
func Run(t *testing.T, newStore func(t *testing.T) Store) {
	t.Helper()
	for _, group := range []map[string]func(*bundle){beginnings, changes, leases, requests, refunds, repairs, keys, notices} {
		for name, test := range group {
			t.Run(name, func(t *testing.T) {
				t.Parallel()
				b := &bundle{T: t, ctx: t.Context(), store: newStore(t), lease: lease, provider: fake}
				b.stock(10)
				test(b)
			})
		}
	}
}

// bundle is a store with ten cups.
type bundle struct {
	*testing.T

	ctx      context.Context //nolint:containedctx // the test's own
	store    Store
	lease    time.Duration // that the next calls give
	provider string
	capture  saga.CaptureMode
}

var policy = saga.Policy{
	AwaitDeadline: 30 * time.Minute, ProcessingDeadline: time.Hour, RefundDeadline: time.Hour, NoticeWait: time.Minute, MaxCharges: 3,
	MaxFailures: 5, MaxUnrecorded: 8,
	Windows: providers.Windows{Repost: 23 * time.Hour, LookupDelay: time.Hour, Hold: 7 * 24 * time.Hour},
}

func (b *bundle) stock(onHand int64) {
	b.Helper()
	if _, err := b.store.PutStock(b.ctx, Account, sku, onHand, nil, nil); err != nil {
		b.Fatal(err)
	}
}

func (b *bundle) wantStock(onHand, reserved int64) {
	b.Helper()
	stock, err := b.store.GetStock(b.ctx, Account, sku)
	if err != nil || stock.OnHand != onHand || stock.Reserved != reserved {
		b.Errorf("%d on hand, %d reserved (%v); want %d and %d", stock.OnHand, stock.Reserved, err, onHand, reserved)
	}
}

// claimOf is a claim by a name that stands for what is asked.
func claimOf(endpoint, name string) saga.Claim {
	return saga.Claim{
		AccountID: Account, Endpoint: endpoint, Key: "key-of-the-shop-" + name, Fingerprint: sha256.Sum256([]byte(name)), Generation: 1,
		Retention: 24 * time.Hour,
	}
}

func keyOf(claim saga.Claim) saga.Ref {
	return saga.Ref{AccountID: claim.AccountID, Key: saga.Key(claim.AccountID, claim.Endpoint, claim.Key, claim.Generation)}
}

// placing is the change with which an order for some cups begins.
func (b *bundle) placing(claim saga.Claim, quantity int64) saga.Change {
	b.Helper()
	s := saga.Saga{
		Kind: saga.KindOrder, Pending: claim.Endpoint, AccountID: claim.AccountID, Generation: claim.Generation, State: saga.Started,
		Key: keyOf(claim).Key,
		Order: saga.Order{
			Currency: "EUR", Amount: quantity * 600, Items: []saga.Item{{SKU: sku, Quantity: quantity, UnitAmount: 600}},
			Customer: saga.Customer{Reference: "c-1", Email: "c@example.com"}, Metadata: map[string]string{"basket": "b-1"},
			Payment: saga.Payment{Provider: b.provider, Method: "pm_1", Capture: b.capture, MethodData: []byte(`{"sealed":"data"}`)},
		},
	}
	s.Order.ID = s.Key
	return b.advance(s, saga.Event{Kind: saga.Resume})
}

func (b *bundle) advance(s saga.Saga, e saga.Event) saga.Change {
	b.Helper()
	change, err := saga.Advance(s, e, policy)
	if err != nil {
		b.Fatalf("advance: %v", err)
	}
	return change
}

// place begins an order for two cups; its charge is about to be sent.
func (b *bundle) place(name string) saga.Saga {
	b.Helper()
	claim := claimOf(begin, name)
	begun, err := b.store.Begin(b.ctx, claim, b.placing(claim, 2), b.lease)
	if err != nil {
		b.Fatalf("begin: %v", err)
	}
	return begun
}

// told is the change that an outcome of a call brings, completed as a runner does.
func (b *bundle) told(s saga.Saga, call saga.Call, outcome providers.Outcome) saga.Change {
	b.Helper()
	return b.finish(s, b.advance(s, saga.Event{Kind: saga.Answered, Call: call, Outcome: outcome, Sends: 1}))
}

// finish gives the lease back where the saga rests, and answers whoever waits.
func (b *bundle) finish(s saga.Saga, change saga.Change) saga.Change {
	change.Lease = b.lease
	change.Release = change.Pause > 0 || change.After.State.Ended()
	if change.Release && s.Pending != "" {
		change.Answer = &saga.Answer{
			Status: 200, Headers: map[string]string{"Content-Type": "text/plain"}, Body: []byte("answer to " + s.Pending),
		}
	}
	return change
}

func (b *bundle) apply(change saga.Change) saga.Saga {
	b.Helper()
	applied, err := b.store.Apply(b.ctx, change)
	if err != nil {
		b.Fatalf("apply: %v", err)
	}
	return applied
}

// outcome applies what came of a call.
func (b *bundle) outcome(s saga.Saga, call saga.Call, kind providers.OutcomeKind) saga.Saga {
	b.Helper()
	action := &providers.NextAction{Type: "redirect", URL: "https://bank.example"}
	return b.apply(b.told(s, call, providers.Outcome{Kind: kind, Reference: payment, NextAction: action}))
}

func (b *bundle) paid() saga.Saga {
	b.Helper()
	return b.outcome(b.place("one"), saga.CallCharge, providers.Succeeded)
}

func (b *bundle) held() saga.Saga {
	b.Helper()
	b.capture = saga.CaptureManual
	return b.outcome(b.place("one"), saga.CallCharge, providers.Authorized)
}

func refOf(s saga.Saga) saga.Ref { return saga.Ref{AccountID: s.AccountID, Key: s.Key} }

func (b *bundle) load(s saga.Saga) saga.Saga {
	b.Helper()
	loaded, err := b.store.Load(b.ctx, refOf(s))
	if err != nil {
		b.Fatalf("load: %v", err)
	}
	return loaded
}

// asStored compares what a call returned with what is read: the clock goes on between them, and the next attempt is only read.
var asStored = cmp.Options{cmpopts.IgnoreFields(saga.Saga{}, "ReadAt", "NextAt", "Lease"), cmpopts.EquateEmpty()}

func (b *bundle) wantStored(s saga.Saga) saga.Saga {
	b.Helper()
	read := b.load(s)
	if diff := cmp.Diff(s, read, asStored); diff != "" {
		b.Errorf("(-returned +read):\n%s", diff)
	}
	return read
}

// wantSame checks that nothing was written since a saga was read.
func (b *bundle) wantSame(before saga.Saga) {
	b.Helper()
	after := b.load(before)
	if diff := cmp.Diff(before, after, cmpopts.IgnoreFields(saga.Saga{}, "ReadAt"), cmpopts.EquateEmpty()); diff != "" {
		b.Errorf("it has changed (-before +after):\n%s", diff)
	}
}

func (b *bundle) record(claim saga.Claim) idempotency.Record {
	b.Helper()
	record, used, err := b.store.LookupKey(b.ctx, claim.AccountID, claim.Endpoint, claim.Key)
	if err != nil || !used {
		b.Fatalf("look key up: used %t, %v", used, err)
	}
	return record
}

func (b *bundle) wantNoRecord(claim saga.Claim) {
	b.Helper()
	if record, used, err := b.store.LookupKey(b.ctx, claim.AccountID, claim.Endpoint, claim.Key); err != nil || used {
		b.Errorf("the key is used: %+v (%v)", record, err)
	}
}
