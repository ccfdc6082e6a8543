package storetest

import (
	"errors"

	"github.com/google/uuid"

	"paysaga/providers"
	"paysaga/saga"
)

// unasked is a refund as it begins that no request asked for.
func (b *bundle) unasked(s saga.Saga, name string, amount int64, of saga.OtherPayment) saga.Saga {
	key := uuid.NewSHA1(s.Key, []byte(name))
	return saga.Saga{
		Kind: saga.KindRefund, AccountID: s.AccountID, Key: key, Generation: 1, State: saga.Started, Order: s.Order, ReadAt: s.ReadAt,
		Refund: &saga.Refund{
			ID: key, OrderID: s.Order.ID, Amount: amount, Status: saga.RefundPending, Provider: of.Provider, Payment: of.Reference,
		},
	}
}

// beginUnasked begins a refund without a claim.
func (b *bundle) beginUnasked(s saga.Saga, event saga.Event) (saga.Saga, error) {
	b.Helper()
	return b.store.Begin(b.ctx, saga.Claim{AccountID: s.AccountID}, b.finish(s, b.advance(s, event)), b.lease)
}

func foundAs(reference string) saga.Event {
	return saga.Event{Kind: saga.Found, Refund: &saga.FoundRefund{Reference: reference}}
}

// orphan is what reconciliation does to an order that is over and still holds stock.
func (b *bundle) orphan(s saga.Saga) error {
	b.Helper()
	held := b.seize(b.load(s))
	_, err := b.store.Apply(b.ctx, b.finish(held, b.advance(held, saga.Event{Kind: saga.Orphaned})))
	return err
}

var repairs = map[string]func(*bundle){
	"a refund that was found": func(b *bundle) {
		order := b.load(b.paid())
		refund := b.unasked(order, "first", 500, saga.OtherPayment{})
		begun, err := b.beginUnasked(refund, foundAs("re_1"))
		if err != nil {
			b.Fatal(err)
		}
		read := b.wantStored(begun)
		if read.State != saga.Completed || !read.NextAt.IsZero() || read.Pending != "" || read.Lease.Until.After(read.ReadAt) {
			b.Errorf("%s, next at %s, lease %+v", read.State, read.NextAt, read.Lease)
		}
		b.wantSums(order, 0, 500, saga.PaymentPartiallyRefunded)
		if _, err := b.beginUnasked(refund, foundAs("re_1")); !errors.Is(err, saga.ErrGenerationUsed) {
			b.Errorf("the same one again: %v", err)
		}
		for name, amount := range map[string]int64{"more than is left": 701, "more than can be added": 1<<63 - 1} {
			much := b.unasked(order, name, amount, saga.OtherPayment{})
			if _, err := b.beginUnasked(much, foundAs("re_2")); !errors.Is(err, saga.ErrExceedsCapture) {
				b.Errorf("%s: %v", name, err)
			}
		}
		b.refund(order, "ours", 700) // while ours is on its way, nothing is left
		if _, err := b.beginUnasked(b.unasked(order, "third", 1, saga.OtherPayment{}), foundAs("re_3")); !errors.Is(err, saga.ErrExceedsCapture) {
			b.Errorf("what is on its way: %v", err)
		}
		b.wantSums(order, 700, 500, saga.PaymentPartiallyRefunded)
		if refunds, err := b.store.Refunds(b.ctx, refOf(order)); err != nil || len(refunds) != 2 || refunds[0].Key != refund.Key {
			b.Errorf("%d refunds, %v", len(refunds), err)
		}
	},
	"a refund of another payment": func(b *bundle) {
		order := b.load(b.paid())
		refund := b.unasked(order, "of another", 5000, saga.OtherPayment{Provider: another, Reference: "pay_9"})
		begun, err := b.beginUnasked(refund, saga.Event{Kind: saga.Resume})
		if err != nil {
			b.Fatal(err)
		}
		if read := b.wantStored(begun); read.State != saga.Refunding || read.NextAt.IsZero() {
			b.Errorf("%s, next at %s", read.State, read.NextAt)
		}
		b.wantSums(order, 0, 0, saga.PaymentCaptured)
		b.wantStored(b.outcome(begun, saga.CallRefund, providers.Succeeded))
		b.wantSums(order, 0, 0, saga.PaymentCaptured)
		if _, err := b.beginUnasked(refund, saga.Event{Kind: saga.Resume}); !errors.Is(err, saga.ErrGenerationUsed) {
			b.Errorf("the same one again: %v", err)
		}
		again := b.unasked(order, "under another key", 5000, saga.OtherPayment{Provider: another, Reference: "pay_9"})
		if _, err := b.beginUnasked(again, saga.Event{Kind: saga.Resume}); !errors.Is(err, saga.ErrPaymentOfAnother) {
			b.Errorf("the same payment again: %v", err)
		}
	},
	"a refund of a payment that is an order's own": func(b *bundle) {
		order := b.load(b.paid())
		own := b.unasked(order, "own", 1200, saga.OtherPayment{Provider: fake, Reference: payment})
		if _, err := b.beginUnasked(own, saga.Event{Kind: saga.Resume}); !errors.Is(err, saga.ErrPaymentOfAnother) {
			b.Errorf("its own: %v", err)
		}
		second := b.load(b.place("two"))
		others := b.unasked(second, "others", 1200, saga.OtherPayment{Provider: fake, Reference: payment})
		if _, err := b.beginUnasked(others, saga.Event{Kind: saga.Resume}); !errors.Is(err, saga.ErrPaymentOfAnother) {
			b.Errorf("another order's: %v", err)
		}
	},
	"nothing is held any more": func(b *bundle) {
		order := b.paid()
		before := b.load(order)
		if err := b.orphan(order); !errors.Is(err, saga.ErrReservationLost) {
			b.Errorf("of a completed order: %v", err)
		}
		if steps := b.load(order).Steps; len(steps) != len(before.Steps) {
			b.Errorf("%d steps, there were %d", len(steps), len(before.Steps))
		}
		b.wantStock(8, 0)
	},
}
