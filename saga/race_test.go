package saga_test

import (
	"errors"
	"fmt"
	"sync"
	"testing"

	"paysaga/internal/idempotency"
	"paysaga/saga"
)

// atOnce runs n of something that begin together.
func atOnce(n int, work func(i int)) {
	var group sync.WaitGroup
	begin := make(chan struct{})
	for i := range n {
		group.Go(func() {
			<-begin
			work(i)
		})
	}
	close(begin)
	group.Wait()
}

// Of requests with one key that start together, one runs.
func TestFiftyClaimsOfOneKey(t *testing.T) {
	t.Parallel()
	b, claim := newBundle(t), claimOf("one-key")
	const requests = 50
	var errs [requests]error
	var answers [requests]saga.Answer
	atOnce(requests, func(i int) { answers[i], errs[i] = b.runner.Start(b.ctx, claim, cups()) })
	won := 0
	for i, err := range errs {
		switch {
		case err == nil && answers[i].Status == 201:
			won++
		case !errors.Is(err, saga.ErrKeyTaken):
			t.Errorf("request %d: %d, %v; want ErrKeyTaken", i, answers[i].Status, err)
		}
	}
	if won != 1 {
		t.Errorf("%d requests won, want 1", won)
	}
	b.wantTaken(1, 1)
	b.wantStock("cup", 8)
	if orders := b.count(`SELECT count(*) FROM orders`); orders != 1 {
		t.Errorf("%d orders", orders)
	}
}

// One gets the last piece; the others are told, and not charged.
func TestFiftyCheckoutsForTheLastPiece(t *testing.T) {
	t.Parallel()
	b := newBundle(t)
	b.putStock("last", 1)
	const checkouts = 50
	var answers [checkouts]saga.Answer
	atOnce(checkouts, func(i int) {
		answer, err := b.runner.Start(b.ctx, claimOf(fmt.Sprint("last-", i)), orderOf(saga.Item{SKU: "last", Quantity: 1, UnitAmount: 900}))
		if err != nil {
			t.Errorf("checkout %d: %v", i, err)
		}
		answers[i] = answer
	})
	byStatus := map[int]int{}
	for _, answer := range answers {
		byStatus[answer.Status]++
	}
	if byStatus[201] != 1 || byStatus[402] != checkouts-1 {
		t.Errorf("answers by status: %v", byStatus)
	}
	b.wantTaken(1, 1)
	b.wantStock("last", 0)
	if refused := b.count(`SELECT count(*) FROM saga_steps WHERE name = 'reserve' AND status = 'failed' AND code = 'out_of_stock'`); refused != checkouts-1 {
		t.Errorf("%d refused reservations are on record, want %d", refused, checkouts-1)
	}
	if charges := b.count(`SELECT count(*) FROM saga_steps WHERE name = 'charge'`); charges != 1 {
		t.Errorf("%d charges are on record, want 1", charges)
	}
}

// An order without stock is over as it begins; its answer is kept like any other (I8).
func TestOutOfStockIsAnsweredAndKept(t *testing.T) {
	t.Parallel()
	b, claim := newBundle(t), claimOf("eleven")
	answer := b.start(claim, orderOf(saga.Item{SKU: "cup", Quantity: 11, UnitAmount: 600}))
	if answer.Status != 402 {
		t.Errorf("answer %d", answer.Status)
	}
	s := b.wantState(claim, saga.RolledBack, saga.OrderFailed, saga.PaymentNone)
	if reserve := stepOf(s, saga.StepReserve); reserve.Detail != "cup: 11 wanted, 10 available." {
		t.Errorf("the step says %q", reserve.Detail)
	}
	if record := b.record(claim); record.Status != idempotency.Failed || string(record.Answer.Body) != string(answer.Body) {
		t.Errorf("record %s with %s", record.Status, record.Answer.Body)
	}
	b.wantStock("cup", 10)
	b.wantTaken(0, 0)
}

// An unknown SKU is a wrong request: nothing is written, and the key stays free for the right one.
func TestUnknownSKUWritesNothing(t *testing.T) {
	t.Parallel()
	b, claim := newBundle(t), claimOf("unknown")
	_, err := b.runner.Start(b.ctx, claim, orderOf(
		saga.Item{SKU: "cup", Quantity: 1, UnitAmount: 600}, saga.Item{SKU: "cap", Quantity: 1, UnitAmount: 600},
	))
	if unknown, ok := errors.AsType[*saga.UnknownSKUError](err); !ok || fmt.Sprint(unknown.SKUs) != "[cap]" {
		t.Errorf("error %v", err)
	}
	for _, table := range []string{"orders", "order_items", "sagas", "saga_steps", "reservations", "idempotency_keys", "outbox_events"} {
		if rows := b.count(`SELECT count(*) FROM ` + table); rows != 0 {
			t.Errorf("%s has %d rows", table, rows)
		}
	}
	b.wantStock("cup", 10)
	b.start(claim, cups())
	b.wantState(claim, saga.Completed, saga.OrderConfirmed, saga.PaymentCaptured)
}

// Orders with the same SKUs in opposite order must not wait for each other crosswise.
func TestOrdersInOppositeOrderDoNotDeadlock(t *testing.T) {
	t.Parallel()
	b := newBundle(t)
	// A large stock table makes the planner go through an order's lines one by one, in their order; a small one needs this.
	b.exec(`DO $$ BEGIN
		EXECUTE format('ALTER DATABASE %I SET enable_hashjoin = off', current_database());
		EXECUTE format('ALTER DATABASE %I SET enable_mergejoin = off', current_database());
		EXECUTE format('ALTER DATABASE %I SET enable_seqscan = off', current_database());
	END $$`)
	b.pool.Reset()
	skus := []string{"a", "b", "c", "d"}
	for _, sku := range skus {
		b.putStock(sku, 1000)
	}
	const orders = 60
	atOnce(orders, func(i int) {
		items := make([]saga.Item, 0, len(skus))
		for place := range skus {
			if i%2 == 1 {
				place = len(skus) - 1 - place
			}
			items = append(items, saga.Item{SKU: skus[place], Quantity: 1, UnitAmount: 100})
		}
		if answer, err := b.runner.Start(b.ctx, claimOf(fmt.Sprint("cross-", i)), orderOf(items...)); err != nil || answer.Status != 201 {
			t.Errorf("order %d: %d, %v", i, answer.Status, err)
		}
	})
	for _, sku := range skus {
		b.wantStock(sku, 1000-orders)
	}
}
