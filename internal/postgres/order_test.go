package postgres_test

import (
	"bytes"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"paysaga/internal/postgres"
	"paysaga/internal/seal"
	"paysaga/providers"
	"paysaga/saga"
)

// asStored ignores what only a read tells: the moment of reading, and the lease, which Apply may have given back.
var asStored = cmp.Options{
	cmpopts.IgnoreFields(saga.Saga{}, "ReadAt", "NextAt"), cmpopts.IgnoreFields(saga.Lease{}, "Until"),
	cmpopts.EquateEmpty(), cmpopts.SortSlices(func(one, other saga.Step) bool { return one.SubKey < other.SubKey }),
}

// What Begin and Apply return is what the database has, so that a drive may go on without reading it.
func TestWhatIsWrittenIsWhatIsRead(t *testing.T) {
	t.Parallel()
	for name, outcomes := range map[string][]func(saga.Saga) (saga.Call, providers.Outcome){
		"begun":     nil,
		"confirmed": {charge(succeeded)},
		"declined":  {charge(declined)},
		"unknown":   {charge(unknown), charge(unknown)},
		"awaiting":  {charge(action)},
		"review":    {charge(providers.Outcome{Kind: providers.Authorized, Code: "hold", Detail: "Not taken."})},
		"closed": {
			charge(action), func(saga.Saga) (saga.Call, providers.Outcome) { return saga.CallLookup, declined },
			func(saga.Saga) (saga.Call, providers.Outcome) {
				return saga.CallVoid, providers.Outcome{Kind: providers.Succeeded}
			},
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := newBundle(t)
			written := b.begin("written")
			if diff := cmp.Diff(written, b.get(written), asStored); diff != "" {
				t.Errorf("begin (-returned +read):\n%s", diff)
			}
			for _, next := range outcomes {
				call, outcome := next(written)
				written = b.apply(b.outcome(written, call, outcome))
				if diff := cmp.Diff(written, b.get(written), asStored); diff != "" {
					t.Errorf("apply %s %s (-returned +read):\n%s", call, outcome.Kind, diff)
				}
			}
		})
	}
}

func charge(outcome providers.Outcome) func(saga.Saga) (saga.Call, providers.Outcome) {
	return func(saga.Saga) (saga.Call, providers.Outcome) { return saga.CallCharge, outcome }
}

// A dump of the database alone shows neither a stored answer nor a client secret.
func TestAnswersAndSecretsAreSealed(t *testing.T) {
	t.Parallel()
	b := newBundle(t)
	s := b.apply(b.outcome(b.begin("sealed"), saga.CallCharge, action))
	var body, next []byte
	if err := b.pool.QueryRow(b.ctx, `SELECT body FROM idempotency_answers`).Scan(&body); err != nil {
		t.Fatal(err)
	}
	if err := b.pool.QueryRow(b.ctx, `SELECT next_action FROM orders`).Scan(&next); err != nil {
		t.Fatal(err)
	}
	for column, sealed := range map[string][]byte{"the answer": body, "next_action": next} {
		for _, plain := range []string{answerText, action.NextAction.ClientSecret, "client_secret", "answer"} {
			if len(sealed) == 0 || bytes.Contains(sealed, []byte(plain)) {
				t.Errorf("%s is %q", column, sealed)
			}
		}
	}
	if got := b.get(s).Order.Payment.NextAction; !cmp.Equal(got, action.NextAction) {
		t.Errorf("read back %+v", got)
	}
	// Nor anywhere else.
	for _, table := range append([]string{"audit_log"}, orderTables...) {
		if n := b.count(`SELECT count(*) FROM `+table+` t WHERE t::text LIKE '%' || $1 || '%'`, action.NextAction.ClientSecret); n != 0 {
			t.Errorf("%s holds the client secret", table)
		}
	}
}

// What is sealed opens in its own row only, and under its own key only.
func TestSealedColumnsDoNotMove(t *testing.T) {
	t.Parallel()
	b := newBundle(t)
	one := b.apply(b.outcome(b.begin("sealed-1"), saga.CallCharge, action))
	other := b.apply(b.outcome(b.begin("sealed-2"), saga.CallCharge, action))
	ring, err := seal.NewRing(seal.GenerateKey("other"))
	if err != nil {
		t.Fatal(err)
	}
	if _, err := postgres.New(b.pool, ring).GetOrder(b.ctx, account, one.Order.ID); err == nil {
		t.Error("opened with another key")
	}
	b.exec(`UPDATE orders SET next_action = (SELECT next_action FROM orders WHERE id = $1) WHERE id = $2`, one.Order.ID, other.Order.ID)
	if _, err := b.store.GetOrder(b.ctx, account, other.Order.ID); err == nil {
		t.Error("a next action opened in another order's row")
	}
	b.exec(`UPDATE idempotency_answers SET body = (SELECT body FROM idempotency_answers a JOIN idempotency_keys k ON k.answer_id = a.id
		WHERE saga_key = $1) WHERE id = (SELECT answer_id FROM idempotency_keys WHERE saga_key = $2)`, one.Key, other.Key)
	if _, _, err := b.store.LookupKey(b.ctx, account, "POST /v1/orders", claimOf("sealed-2").Key); err == nil {
		t.Error("an answer opened in another key's row")
	}
}

func TestAnotherAccountsOrderDoesNotExist(t *testing.T) {
	t.Parallel()
	b := newBundle(t)
	s := b.begin("mine")
	if _, err := b.store.GetOrder(b.ctx, "shop2", s.Order.ID); !errors.Is(err, saga.ErrNotFound) {
		t.Errorf("order: %v, want ErrNotFound", err)
	}
	if _, err := b.store.Timeline(b.ctx, "shop2", s.Order.ID); !errors.Is(err, saga.ErrNotFound) {
		t.Errorf("timeline: %v, want ErrNotFound", err)
	}
	if list, err := b.store.ListOrders(b.ctx, "shop2", saga.OrderFilter{Limit: 10}); err != nil || len(list) != 0 {
		t.Errorf("list: %d, %v", len(list), err)
	}
}

func TestListOrdersInPages(t *testing.T) {
	t.Parallel()
	b := newBundle(t)
	b.beginFive()
	all, err := b.store.ListOrders(b.ctx, account, saga.OrderFilter{Limit: 10})
	if err != nil {
		t.Fatal(err)
	}
	for _, s := range all {
		if len(s.Order.Items) != 1 || len(s.Steps) < 2 {
			t.Errorf("order %s has %d lines and %d steps", s.Order.ID, len(s.Order.Items), len(s.Steps))
		}
	}
	paged := make([]saga.Saga, 0, len(all))
	filter := saga.OrderFilter{Limit: 2}
	for range all {
		page, err := b.store.ListOrders(b.ctx, account, filter)
		if err != nil {
			t.Fatal(err)
		}
		for _, s := range page {
			paged = append(paged, s)
			filter.Before = &saga.OrderPlace{CreatedAt: s.Order.CreatedAt, ID: s.Order.ID}
		}
	}
	if diff := cmp.Diff(all, paged, asStored); diff != "" || len(all) != 5 {
		t.Errorf("in pages (-all +pages):\n%s", diff)
	}
}

// beginFive makes five orders, two of each moment, so that only their ids tell them apart. Three are confirmed.
func (b *bundle) beginFive() {
	b.t.Helper()
	for i := range 5 {
		s := b.begin(fmt.Sprint("list-", i))
		if i%2 == 0 {
			b.apply(b.outcome(s, saga.CallCharge, succeeded))
		}
		b.exec(`UPDATE orders SET created_at = $2 WHERE id = $1`, s.Order.ID, time.Date(2026, 1, 1, 0, i/2, 0, 0, time.UTC))
	}
}

func TestListOrdersNarrows(t *testing.T) {
	t.Parallel()
	b := newBundle(t)
	b.beginFive()
	for _, test := range []struct {
		filter saga.OrderFilter
		want   int
	}{
		{saga.OrderFilter{Status: saga.OrderConfirmed, Limit: 10}, 3},
		{saga.OrderFilter{Status: saga.OrderProcessing, Limit: 10}, 2},
		{saga.OrderFilter{Status: saga.OrderFailed, Limit: 10}, 0},
		{saga.OrderFilter{Provider: "fake", Limit: 10}, 5},
		{saga.OrderFilter{Provider: "stripe", Limit: 10}, 0},
	} {
		if got, err := b.store.ListOrders(b.ctx, account, test.filter); err != nil || len(got) != test.want {
			t.Errorf("%+v: %d orders, %v; want %d", test.filter, len(got), err, test.want)
		}
	}
}

// A transaction that waited for the order's row has an older time than the one it waited for.
func TestUpdatedAtNeverGoesBack(t *testing.T) {
	t.Parallel()
	b := newBundle(t)
	order := b.confirmed("order")
	b.exec(`UPDATE orders SET updated_at = now() + interval '1 minute'`)
	before := b.load(order).Order.UpdatedAt
	b.refund(order, "refund", 300)
	if after := b.load(order).Order.UpdatedAt; after.Before(before) {
		t.Errorf("it went from %s to %s", before, after)
	}
}

// Of an endpoint whose bodies are not kept, a refusal is kept whole: it can be read nowhere else.
func TestRefusalsAreKeptWhole(t *testing.T) {
	t.Parallel()
	b := newBundle(t)
	b.store.KeepDigestsOnly([]string{claimOf("any").Endpoint})
	for name, status := range map[string]int{"done": 200, "refused": 409} {
		held, err := b.store.ClaimKey(b.ctx, claimOf(name), lease)
		b.must(err)
		b.must(b.store.AnswerKey(b.ctx, held, saga.Answer{Status: status, Body: []byte(answerText)}))
		record, _ := b.record(held)
		if whole := string(record.Answer.Body) == answerText; whole != (status == 409) {
			t.Errorf("%s: %+v", name, record)
		}
	}
}
