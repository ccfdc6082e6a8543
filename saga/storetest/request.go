package storetest

import (
	"errors"

	"paysaga/internal/idempotency"
	"paysaga/providers"
	"paysaga/saga"
)

const (
	capturing = "POST /v1/orders/{id}/capture"
	refunding = "POST /v1/orders/{id}/refunds"
)

// asking is the change that a capture of a part brings to a saga that rests.
func (b *bundle) asking(s saga.Saga, claim saga.Claim, amount int64) saga.Change {
	b.Helper()
	s.Pending = claim.Endpoint
	request := saga.Request{Kind: saga.RequestCapture, Key: keyOf(claim).Key, Amount: amount}
	return b.finish(s, b.advance(s, saga.Event{Kind: saga.Asked, Request: &request}))
}

var requests = map[string]func(*bundle){
	"a request takes key and lease": func(b *bundle) {
		before, claim := b.load(b.held()), claimOf(capturing, "part")
		asked, err := b.store.Ask(b.ctx, claim, b.asking(before, claim, 500), lease)
		if err != nil {
			b.Fatal(err)
		}
		read := b.wantStored(asked)
		if asked.Lease.Fence != before.Lease.Fence+1 || asked.Drives != before.Drives+1 || asked.Unrecorded != 1 || read.Pending != capturing {
			b.Errorf("lease %+v, drives %d, unrecorded %d, pending %q", asked.Lease, asked.Drives, asked.Unrecorded, read.Pending)
		}
		record := b.record(claim)
		if record.Status != idempotency.InProgress || record.SagaKey != before.Key || record.Fence != asked.Lease.Fence {
			b.Errorf("%+v", record)
		}
		done := b.outcome(asked, saga.CallCapture, providers.Succeeded)
		b.wantStored(done)
		if record := b.record(claim); string(record.Answer.Body) != "answer to "+capturing {
			b.Errorf("%+v", record)
		}
		if record := b.record(claimOf(begin, "one")); string(record.Answer.Body) != "answer to "+begin {
			b.Errorf("the order's own answer: %+v", record)
		}
	},
	"a request under a key that is taken": func(b *bundle) {
		before, claim := b.load(b.held()), claimOf(capturing, "part")
		if _, err := b.store.Ask(b.ctx, claim, b.asking(before, claim, 500), lease); err != nil {
			b.Fatal(err)
		}
		if _, err := b.store.Ask(b.ctx, claim, b.asking(before, claim, 500), lease); !errors.Is(err, saga.ErrKeyTaken) {
			b.Errorf("the same one again: %v", err)
		}
		other := claimOf(capturing, "other")
		if _, err := b.store.Ask(b.ctx, other, b.asking(before, other, 100), lease); !errors.Is(err, saga.ErrLeaseLost) {
			b.Errorf("another one: %v", err)
		}
		b.wantNoRecord(other)
	},
	"a request while another has no answer": func(b *bundle) {
		before, claim := b.load(b.held()), claimOf(capturing, "part")
		if _, err := b.store.Ask(b.ctx, claim, b.asking(before, claim, 500), 0); err != nil { // its server dies
			b.Fatal(err)
		}
		left, other := b.load(before), claimOf(capturing, "other")
		change := b.asking(before, other, 100)
		change.After.Lease, change.After.UpdatedAt = left.Lease, left.UpdatedAt // all else would do
		if _, err := b.store.Ask(b.ctx, other, change, lease); !errors.Is(err, saga.ErrLeaseLost) {
			b.Errorf("%v", err)
		}
		b.wantNoRecord(other)
	},
	"a request about a saga that has changed": func(b *bundle) {
		before := b.load(b.held())
		b.lease = 0
		holder := b.seize(before) // and is out for longer than its lease
		read, claim := b.load(before), claimOf(capturing, "part")
		b.lease = lease
		b.outcome(holder, saga.CallLookup, providers.Authorized) // writes under the fence that was read, and leaves the state as it was
		if _, err := b.store.Ask(b.ctx, claim, b.asking(read, claim, 500), lease); !errors.Is(err, saga.ErrLeaseLost) {
			b.Errorf("%v", err)
		}
		b.wantNoRecord(claim)
		read = b.load(before)
		if _, err := b.store.Ask(b.ctx, claim, b.asking(read, claim, 500), lease); err != nil {
			b.Errorf("as it is now: %v", err)
		}
	},
}

// returning is the change with which a refund begins.
func (b *bundle) returning(s saga.Saga, claim saga.Claim, amount int64) saga.Change {
	b.Helper()
	key := keyOf(claim).Key
	return b.advance(saga.Saga{
		Kind: saga.KindRefund, AccountID: claim.AccountID, Key: key, Generation: 1, State: saga.Started, Order: s.Order, Pending: claim.Endpoint,
		Refund: &saga.Refund{ID: key, OrderID: s.Order.ID, Amount: amount, Reason: "too small", Status: saga.RefundPending}, ReadAt: s.ReadAt,
	}, saga.Event{Kind: saga.Resume})
}

func (b *bundle) refund(s saga.Saga, name string, amount int64) saga.Saga {
	b.Helper()
	claim := claimOf(refunding, name)
	begun, err := b.store.Begin(b.ctx, claim, b.returning(s, claim, amount), b.lease)
	if err != nil {
		b.Fatalf("refund: %v", err)
	}
	b.wantStored(begun)
	return begun
}

func (b *bundle) wantSums(s saga.Saga, refunding, refunded int64, status saga.PaymentStatus) {
	b.Helper()
	paid := b.load(s).Order.Payment
	if paid.RefundingAmount != refunding || paid.RefundedAmount != refunded || paid.Status != status {
		b.Errorf("%d on the way, %d given back, %s; want %d, %d, %s",
			paid.RefundingAmount, paid.RefundedAmount, paid.Status, refunding, refunded, status)
	}
}

var refunds = map[string]func(*bundle){
	"the sums of refunds": func(b *bundle) {
		order := b.load(b.paid())
		first := b.refund(order, "first", 500)
		b.wantSums(order, 500, 0, saga.PaymentCaptured)
		given := b.outcome(first, saga.CallRefund, providers.Succeeded)
		b.wantStored(given)
		b.wantSums(order, 0, 500, saga.PaymentPartiallyRefunded)
		second := b.refund(order, "second", 700)
		b.wantStored(b.outcome(second, saga.CallRefund, providers.Declined))
		b.wantSums(order, 0, 500, saga.PaymentPartiallyRefunded)
		b.outcome(b.refund(order, "third", 700), saga.CallRefund, providers.Succeeded)
		b.wantSums(order, 0, 1200, saga.PaymentRefunded)
		b.wantStored(b.outcome(b.seize(given), saga.CallCheckRefund, providers.Declined)) // the bank sends it back
		b.wantSums(order, 0, 700, saga.PaymentPartiallyRefunded)
	},
	"more than was captured": func(b *bundle) {
		order := b.load(b.paid())
		b.refund(order, "first", 700)
		for name, amount := range map[string]int64{"more than is left": 501, "more than can be added": 1<<63 - 1} {
			claim := claimOf(refunding, name)
			if _, err := b.store.Begin(b.ctx, claim, b.returning(order, claim, amount), lease); !errors.Is(err, saga.ErrExceedsCapture) {
				b.Errorf("%s: %v", name, err)
			}
			b.wantNoRecord(claim)
		}
		b.wantSums(order, 700, 0, saga.PaymentCaptured)
	},
	"of an order that is not completed": func(b *bundle) {
		order, claim := b.load(b.held()), claimOf(refunding, "early")
		if _, err := b.store.Begin(b.ctx, claim, b.returning(order, claim, 1), lease); !errors.Is(err, saga.ErrExceedsCapture) {
			b.Errorf("%v", err)
		}
	},
	"a completed order leaves its sums to refunds": func(b *bundle) {
		order := b.load(b.paid())
		holder := b.seize(order)
		b.outcome(b.refund(order, "first", 500), saga.CallRefund, providers.Succeeded)
		found := saga.Event{Kind: saga.Contradicted, Code: saga.FindingDuplicateCharge, Detail: "A second one."}
		b.apply(b.finish(holder, b.advance(holder, found)))
		b.wantSums(order, 0, 500, saga.PaymentPartiallyRefunded)
	},
}

var notices = map[string]func(*bundle){
	"a notice finds its saga": func(b *bundle) {
		one := b.held()
		claim := claimOf(capturing, "part")
		asked, err := b.store.Ask(b.ctx, claim, b.asking(b.load(one), claim, 500), lease)
		if err != nil {
			b.Fatal(err)
		}
		b.apply(b.told(asked, saga.CallCapture, providers.Outcome{Kind: providers.Succeeded, Reference: "capture_1"}))
		b.provider = another
		two := b.place("two")
		for name, c := range map[string]struct {
			provider string
			notice   providers.Notice
			want     saga.Saga
		}{
			"by the reference of a capture": {fake, providers.Notice{Reference: "capture_1"}, one},
			"by the sub-key of a capture":   {fake, providers.Notice{Key: saga.SubKey(keyOf(claim).Key, saga.StepCapture, 1)}, one},
			"by the payment":                {fake, providers.Notice{Payment: payment}, one},
			"by the sub-key of a charge":    {fake, providers.Notice{Key: saga.SubKey(one.Key, saga.StepCharge, 1)}, one},
			"by the saga's key":             {fake, providers.Notice{Key: providers.SubKey(one.Key.String())}, one},
			"the payment before the charge": {fake, providers.Notice{Payment: payment, Key: saga.SubKey(two.Key, saga.StepCharge, 1)}, one},
			"at the other provider":         {another, providers.Notice{Payment: payment, Key: saga.SubKey(two.Key, saga.StepCharge, 1)}, two},
		} {
			if ref, err := b.store.FindSaga(b.ctx, c.provider, c.notice); err != nil || ref != refOf(c.want) {
				b.Errorf("%s: %v, %v", name, ref, err)
			}
		}
		for name, n := range map[string]providers.Notice{
			"nothing": {}, "an unknown payment": {Payment: "pay_9"}, "another provider's": {Key: saga.SubKey(two.Key, saga.StepCharge, 1)},
		} {
			if ref, err := b.store.FindSaga(b.ctx, fake, n); !errors.Is(err, saga.ErrNotFound) {
				b.Errorf("%s: %v, %v", name, ref, err)
			}
		}
	},
}
