package postgres_test

import (
	"errors"
	"fmt"
	"sync"
	"testing"

	"paysaga/saga"
)

// Repeats that come while the first is being worked on must not wait for it crosswise: a deadlock ends one of the two, and that can
// be the first.
func TestDuplicatesDoNotDeadlock(t *testing.T) {
	t.Parallel()
	const orders, repeats = 60, 4
	b := newBundle(t)
	b.putStock("cup", 10*orders)
	var all sync.WaitGroup
	for i := range orders {
		claim := claimOf(fmt.Sprintf("dup-%d", i))
		change := b.beginning(claim, []saga.Item{{SKU: "cup", Quantity: 1, UnitAmount: 600}})
		for range repeats {
			all.Go(func() {
				s, err := b.store.Begin(b.ctx, claim, change, lease)
				if err == nil {
					_, err = b.store.Apply(b.ctx, b.outcome(s, saga.CallCharge, succeeded))
				}
				if err != nil && !errors.Is(err, saga.ErrKeyTaken) {
					t.Errorf("order %d: %v", i, err)
				}
			})
		}
	}
	all.Wait()
	if n := b.count(`SELECT count(*) FROM sagas WHERE state = 'completed'`); n != orders {
		t.Errorf("%d orders are completed, want %d", n, orders)
	}
}
