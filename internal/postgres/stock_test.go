package postgres_test

import (
	"errors"
	"testing"

	"github.com/google/go-cmp/cmp"

	"paysaga/saga"
)

var orderTables = []string{
	"orders", "order_items", "sagas", "saga_steps", "reservations", "idempotency_keys", "idempotency_answers", "key_limits",
	"outbox_events", "findings", "refunds",
}

// wantNothingWritten checks that no order left a trace.
func (b *bundle) wantNothingWritten() {
	b.t.Helper()
	for _, table := range orderTables {
		if rows := b.count(`SELECT count(*) FROM ` + table); rows != 0 {
			b.t.Errorf("%s has %d rows", table, rows)
		}
	}
}

func TestBeginRefusesWhatIsNotThere(t *testing.T) {
	t.Parallel()
	item := func(sku string, quantity int64) saga.Item {
		return saga.Item{SKU: sku, Quantity: quantity, UnitAmount: 1}
	}
	for name, test := range map[string]struct {
		items []saga.Item
		want  error
	}{
		"too many":            {[]saga.Item{item("cup", 11)}, &saga.OutOfStockError{SKU: "cup", Wanted: 11, Available: 10}},
		"none left":           {[]saga.Item{item("sold-out", 1)}, &saga.OutOfStockError{SKU: "sold-out", Wanted: 1, Available: 0}},
		"the second line":     {[]saga.Item{item("cup", 1), item("mug", 6)}, &saga.OutOfStockError{SKU: "mug", Wanted: 6, Available: 5}},
		"the worst line":      {[]saga.Item{item("cup", 11), item("mug", 50)}, &saga.OutOfStockError{SKU: "mug", Wanted: 50, Available: 5}},
		"unknown":             {[]saga.Item{item("cap", 1)}, &saga.UnknownSKUError{SKUs: []string{"cap"}}},
		"some unknown":        {[]saga.Item{item("hat", 1), item("cup", 1), item("cap", 1)}, &saga.UnknownSKUError{SKUs: []string{"hat", "cap"}}},
		"another account's":   {[]saga.Item{item("theirs", 1)}, &saga.UnknownSKUError{SKUs: []string{"theirs"}}},
		"more than a counter": {[]saga.Item{item("cup", 1<<62)}, &saga.OutOfStockError{SKU: "cup", Wanted: 1 << 62, Available: 10}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := newBundle(t)
			b.putStock("mug", 5)
			b.putStock("sold-out", 0)
			b.exec(`INSERT INTO stock (account_id, sku, on_hand) VALUES ('shop2', 'theirs', 10)`)
			claim := claimOf("refused")
			_, err := b.store.Begin(b.ctx, claim, b.beginning(claim, test.items), lease)
			if diff := cmp.Diff(test.want, err); diff != "" {
				t.Errorf("error (-want +got):\n%s", diff)
			}
			b.wantNothingWritten()
			b.wantStock("cup", 10, 0)
			b.wantStock("mug", 5, 0)
		})
	}
}

// Invariant I6: a reservation ends once, sold or released.
func TestReservationEndsOnce(t *testing.T) {
	t.Parallel()
	b := newBundle(t)
	s := b.begin("once")
	sell, release := b.outcome(s, saga.CallCharge, succeeded), b.outcome(s, saga.CallCharge, declined)
	b.exec(`UPDATE reservations SET status = 'released', ended_at = now()`)
	for _, change := range []saga.Change{sell, release} {
		if _, err := b.store.Apply(b.ctx, change); !errors.Is(err, saga.ErrReservationLost) {
			t.Errorf("%s what is not held: %v, want ErrReservationLost", change.Stock, err)
		}
	}
	if after := b.get(s); after.State != saga.Charging || after.Steps[1].Sends != 0 {
		t.Errorf("something was written: %+v", after)
	}
	b.wantStock("cup", 10, 2)
}

// One line of two that is not held any more undoes the whole sale.
func TestPartOfAReservationIsNone(t *testing.T) {
	t.Parallel()
	b := newBundle(t)
	b.putStock("mug", 5)
	claim := claimOf("part")
	items := []saga.Item{{SKU: "mug", Quantity: 1, UnitAmount: 1}, {SKU: "cup", Quantity: 1, UnitAmount: 1}}
	s, err := b.store.Begin(b.ctx, claim, b.beginning(claim, items), lease)
	if err != nil {
		t.Fatal(err)
	}
	b.exec(`UPDATE reservations SET status = 'released', ended_at = now() WHERE sku = 'mug'`)
	if _, err := b.store.Apply(b.ctx, b.outcome(s, saga.CallCharge, succeeded)); !errors.Is(err, saga.ErrReservationLost) {
		t.Errorf("sell: %v, want ErrReservationLost", err)
	}
	b.wantStock("cup", 10, 1)
	b.wantStock("mug", 5, 1)
	b.exec(`UPDATE stock SET reserved = 0 WHERE sku = 'mug'`) // as whoever released it should have done
	lost := b.advance(s, saga.Event{Kind: saga.ReservationLost, Call: saga.CallCharge, Outcome: succeeded, Sends: 1})
	if after := b.apply(lost); after.State != saga.Compensating {
		t.Errorf("state %s, want compensating", after.State)
	}
	b.wantStock("cup", 10, 0)
	b.wantStock("mug", 5, 0)
}

func TestPutStockKeepsWhatIsReserved(t *testing.T) {
	t.Parallel()
	b := newBundle(t)
	b.begin("held")
	if _, err := b.store.PutStock(b.ctx, account, "cup", 1, nil, nil); !errors.Is(err, saga.ErrStockReserved) {
		t.Errorf("fewer than reserved: %v, want ErrStockReserved", err)
	}
	if _, err := b.store.PutStock(b.ctx, account, "new", -1, nil, nil); !errors.Is(err, saga.ErrStockReserved) {
		t.Errorf("fewer than none: %v, want ErrStockReserved", err)
	}
	stock, err := b.store.PutStock(b.ctx, account, "cup", 2, nil, nil)
	if err != nil || stock.OnHand != 2 || stock.Reserved != 2 {
		t.Errorf("as many as reserved: %+v, %v", stock, err)
	}
	if _, err := b.store.GetStock(b.ctx, "shop2", "cup"); !errors.Is(err, saga.ErrNotFound) {
		t.Errorf("another account's: %v, want ErrNotFound", err)
	}
}

func TestListStockPages(t *testing.T) {
	t.Parallel()
	b := newBundle(t)
	for _, sku := range []string{"b", "a", "d", "c"} {
		b.putStock(sku, 1)
	}
	var seen []string
	for after := ""; ; {
		page, err := b.store.ListStock(b.ctx, account, after, 2)
		if err != nil {
			t.Fatal(err)
		}
		if len(page) == 0 {
			break
		}
		for _, stock := range page {
			seen = append(seen, stock.SKU)
		}
		after = seen[len(seen)-1]
	}
	if diff := cmp.Diff([]string{"a", "b", "c", "cup", "d"}, seen); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}
