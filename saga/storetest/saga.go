package storetest

import (
	"errors"
	"time"

	"paysaga/internal/idempotency"
	"paysaga/providers"
	"paysaga/saga"
)

var beginnings = map[string]func(*bundle){
	"a beginning is what is read": func(b *bundle) {
		s := b.place("one")
		read := b.wantStored(s)
		if s.Lease.Fence != 1 || s.Lease.Until.Sub(s.ReadAt) != lease || s.Drives != 1 || s.Unrecorded != 1 || s.Pending != begin {
			b.Errorf("lease %+v, drives %d, unrecorded %d, pending %q", s.Lease, s.Drives, s.Unrecorded, s.Pending)
		}
		if !read.NextAt.Equal(read.Lease.Until) || read.State != saga.Charging || read.Order.Payment.OnDecline != saga.DeclineRollsBack {
			b.Errorf("next at %s, state %s, on decline %q", read.NextAt, read.State, read.Order.Payment.OnDecline)
		}
		record := b.record(claimOf(begin, "one"))
		if record.Status != idempotency.InProgress || record.SagaKey != s.Key || record.Fence != 1 || record.LeaseLeft <= 0 || record.Expired {
			b.Errorf("%+v", record)
		}
		b.wantStock(10, 2)
	},
	"a key is claimed once": func(b *bundle) {
		s := b.place("one")
		before := b.load(s)
		claim := claimOf(begin, "one")
		for generation := 1; generation <= 2; generation++ {
			claim.Generation = generation
			if _, err := b.store.Begin(b.ctx, claim, b.placing(claim, 1), lease); !errors.Is(err, saga.ErrKeyTaken) {
				b.Errorf("generation %d: %v", generation, err)
			}
		}
		b.wantSame(before)
		b.wantStock(10, 2)
	},
	"more than there is": func(b *bundle) {
		claim := claimOf(begin, "much")
		_, err := b.store.Begin(b.ctx, claim, b.placing(claim, 11), lease)
		if short, ok := errors.AsType[*saga.OutOfStockError](err); !ok || short.SKU != sku || short.Wanted != 11 || short.Available != 10 {
			b.Errorf("%v", err)
		}
		b.wantNoRecord(claim)
		b.wantStock(10, 0)
	},
	"an unknown SKU": func(b *bundle) {
		claim := claimOf(begin, "odd")
		change := b.placing(claim, 1)
		change.After.Order.Items = append(change.After.Order.Items, saga.Item{SKU: "hat", Quantity: 1, UnitAmount: 1})
		_, err := b.store.Begin(b.ctx, claim, change, lease)
		if unknown, ok := errors.AsType[*saga.UnknownSKUError](err); !ok || len(unknown.SKUs) != 1 || unknown.SKUs[0] != "hat" {
			b.Errorf("%v", err)
		}
		b.wantNoRecord(claim)
		b.wantStock(10, 0)
	},
	"over as it begins": func(b *bundle) {
		claim := claimOf(begin, "over")
		s := b.placing(claim, 1).After
		s.State, s.Steps = saga.Started, nil
		change := b.finish(s, b.advance(s, saga.Event{Kind: saga.OutOfStock, Detail: "cup: 2 wanted, 1 available."}))
		over, err := b.store.Begin(b.ctx, claim, change, lease)
		if err != nil {
			b.Fatal(err)
		}
		read := b.wantStored(over)
		if read.State != saga.RolledBack || !read.NextAt.IsZero() || read.Lease.Until.After(read.ReadAt) || read.Pending != "" {
			b.Errorf("state %s, next at %s, lease %+v", read.State, read.NextAt, read.Lease)
		}
		if record := b.record(claim); record.Status != idempotency.Completed || string(record.Answer.Body) != "answer to "+begin {
			b.Errorf("%+v", record)
		}
	},
	"nothing of that name": func(b *bundle) {
		if _, err := b.store.Load(b.ctx, keyOf(claimOf(begin, "none"))); !errors.Is(err, saga.ErrNotFound) {
			b.Errorf("%v", err)
		}
	},
}

var changes = map[string]func(*bundle){
	"a change is what is read": func(b *bundle) {
		s := b.place("one")
		waits := b.outcome(s, saga.CallCharge, providers.ActionRequired)
		read := b.wantStored(waits)
		if read.State != saga.Awaiting || read.Pending != "" || read.Unrecorded != 0 {
			b.Errorf("state %s, pending %q, unrecorded %d", read.State, read.Pending, read.Unrecorded)
		}
		if read.Lease.Until.After(read.ReadAt) || !read.NextAt.After(read.ReadAt) {
			b.Errorf("lease %+v, next at %s", read.Lease, read.NextAt)
		}
		record := b.record(claimOf(begin, "one"))
		answer := record.Answer
		if record.Status != idempotency.Completed || record.CompletedAt.IsZero() || string(answer.Body) != "answer to "+begin ||
			answer.Status != 200 || answer.Headers["Content-Type"] != "text/plain" {
			b.Errorf("%+v", record)
		}
		paid := b.outcome(b.seize(read), saga.CallLookup, providers.Succeeded)
		b.wantStored(paid)
		b.wantStock(8, 0)
		if paid.Order.Payment.CapturedAmount != 1200 || paid.Order.Payment.Status != saga.PaymentCaptured {
			b.Errorf("%+v", paid.Order.Payment)
		}
	},
	"a lease that is kept": func(b *bundle) {
		s := b.place("one")
		change := b.told(s, saga.CallCharge, providers.Outcome{Kind: providers.Unknown})
		change.Release, change.Pause, change.Answer, change.Lease = false, 0, nil, 2*lease
		kept := b.apply(change)
		read := b.wantStored(kept)
		if left := read.Lease.Until.Sub(kept.ReadAt); left != 2*lease || !read.NextAt.Equal(read.Lease.Until) || kept.Unrecorded != 1 {
			b.Errorf("the lease lasts %s, next at %s, unrecorded %d", left, read.NextAt, kept.Unrecorded)
		}
		if record := b.record(claimOf(begin, "one")); record.LeaseLeft <= lease {
			b.Errorf("the key's lease lasts %s", record.LeaseLeft)
		}
	},
	"under another fence, or from another state": func(b *bundle) {
		s := b.place("one")
		before := b.load(s)
		stale := b.told(s, saga.CallCharge, providers.Outcome{Kind: providers.Succeeded})
		stale.After.Lease.Fence++
		elsewhere := b.told(s, saga.CallCharge, providers.Outcome{Kind: providers.Succeeded})
		elsewhere.From = saga.Awaiting
		for _, change := range []saga.Change{stale, elsewhere} {
			if _, err := b.store.Apply(b.ctx, change); !errors.Is(err, saga.ErrLeaseLost) {
				b.Errorf("%v", err)
			}
		}
		b.wantSame(before)
		b.wantStock(10, 2)
	},
	"a reservation ends once": func(b *bundle) {
		s := b.place("one")
		sell := b.told(s, saga.CallCharge, providers.Outcome{Kind: providers.Succeeded, Reference: payment})
		sold := b.apply(sell)
		again := sell
		again.From, again.After.Lease = saga.Completed, b.seize(sold).Lease
		if _, err := b.store.Apply(b.ctx, again); !errors.Is(err, saga.ErrReservationLost) {
			b.Errorf("sold again: %v", err)
		}
		again.Stock = saga.StockForfeit // whatever is left, which is nothing
		b.apply(again)
		b.wantStock(8, 0)
	},
	"released": func(b *bundle) {
		undone := b.outcome(b.place("one"), saga.CallCharge, providers.Declined)
		if undone.State != saga.RolledBack {
			b.Errorf("%s", undone.State)
		}
		b.wantStored(undone)
		b.wantStock(10, 0)
	},
	"the intent of a step stays": func(b *bundle) {
		s := b.place("one")
		change := b.told(s, saga.CallCharge, providers.Outcome{Kind: providers.Unknown})
		for i := range change.Steps {
			change.Steps[i].Provider, change.Steps[i].Amount, change.Steps[i].Final, change.Steps[i].Target = another, 7, true, "elsewhere"
		}
		b.apply(change)
		read := b.load(s)
		charge := read.Newest(saga.StepCharge)
		if charge.Provider != fake || charge.Amount != 0 || charge.Final || charge.Target != "" || charge.Status != saga.StepUnknown {
			b.Errorf("%+v", charge)
		}
	},
}

var leases = map[string]func(*bundle){
	"one that runs": func(b *bundle) {
		s := b.place("one")
		before := b.load(s)
		if _, err := b.store.TakeOver(b.ctx, refOf(s), 1, lease); !errors.Is(err, saga.ErrLeaseLost) {
			b.Errorf("taken over: %v", err)
		}
		if _, err := b.store.Seize(b.ctx, refOf(s), 1, lease); !errors.Is(err, saga.ErrLeaseLost) {
			b.Errorf("seized: %v", err)
		}
		if due, err := b.store.ClaimDue(b.ctx, 10, lease); err != nil || len(due) != 0 {
			b.Errorf("%d are due (%v)", len(due), err)
		}
		b.wantSame(before)
	},
	"one that has run out": func(b *bundle) {
		for name, take := range map[string]func(saga.Saga) (saga.Saga, error){
			"taken over": func(s saga.Saga) (saga.Saga, error) { return b.store.TakeOver(b.ctx, refOf(s), s.Lease.Fence, lease) },
			"seized":     func(s saga.Saga) (saga.Saga, error) { return b.store.Seize(b.ctx, refOf(s), s.Lease.Fence, lease) },
			"claimed": func(s saga.Saga) (saga.Saga, error) {
				due, err := b.store.ClaimDue(b.ctx, 10, lease)
				if err != nil || len(due) != 1 || due[0].Key != s.Key {
					return saga.Saga{}, errors.Join(errors.New("another number is due"), err)
				}
				return due[0], nil
			},
		} {
			b.lease = 0
			s := b.place(name)
			taken, err := take(s)
			if err != nil {
				b.Fatalf("%s: %v", name, err)
			}
			if taken.Lease.Fence != 2 || taken.Drives != 2 || taken.Unrecorded != 2 || taken.Lease.Until.Sub(taken.ReadAt) < lease-time.Minute {
				b.Errorf("%s: lease %+v, drives %d, unrecorded %d", name, taken.Lease, taken.Drives, taken.Unrecorded)
			}
			if record := b.record(claimOf(begin, name)); record.Fence != 2 || record.LeaseLeft <= 0 {
				b.Errorf("%s: the key has fence %d", name, record.Fence)
			}
			late := b.told(s, saga.CallCharge, providers.Outcome{Kind: providers.Succeeded})
			if _, err := b.store.Apply(b.ctx, late); !errors.Is(err, saga.ErrLeaseLost) {
				b.Errorf("%s: the former holder writes: %v", name, err)
			}
			if err := b.store.Renew(b.ctx, refOf(s), 1, lease); !errors.Is(err, saga.ErrLeaseLost) {
				b.Errorf("%s: the former holder renews: %v", name, err)
			}
			if err := b.store.HandBack(b.ctx, refOf(s), 1); !errors.Is(err, saga.ErrLeaseLost) {
				b.Errorf("%s: the former holder hands back: %v", name, err)
			}
		}
	},
	"handed back": func(b *bundle) {
		s := b.place("one")
		if err := b.store.HandBack(b.ctx, refOf(s), 1); err != nil {
			b.Fatal(err)
		}
		due, err := b.store.ClaimDue(b.ctx, 1, lease)
		if err != nil || len(due) != 1 || due[0].Lease.Fence != 2 || due[0].Pending != begin {
			b.Errorf("due: %d (%v)", len(due), err)
		}
	},
	"renewed": func(b *bundle) {
		b.lease = 0
		s := b.place("one")
		if err := b.store.Renew(b.ctx, refOf(s), 1, lease); err != nil {
			b.Fatal(err)
		}
		read := b.load(s)
		if read.Lease.Fence != 1 || !read.Lease.Until.After(read.ReadAt) || !read.NextAt.Equal(read.Lease.Until) {
			b.Errorf("%+v, next at %s", read.Lease, read.NextAt)
		}
		if record := b.record(claimOf(begin, "one")); record.LeaseLeft <= 0 {
			b.Errorf("the key's lease: %s", record.LeaseLeft)
		}
	},
	"of a saga that has ended": func(b *bundle) {
		s := b.paid()
		if _, err := b.store.TakeOver(b.ctx, refOf(s), s.Lease.Fence, lease); !errors.Is(err, saga.ErrLeaseLost) {
			b.Errorf("taken over: %v", err)
		}
		seized := b.seize(s)
		if !b.load(s).NextAt.IsZero() {
			b.Error("it is due again")
		}
		if err := b.store.HandBack(b.ctx, refOf(s), seized.Lease.Fence); err != nil {
			b.Error(err)
		}
		if due, err := b.store.ClaimDue(b.ctx, 10, lease); err != nil || len(due) != 0 {
			b.Errorf("%d are due (%v)", len(due), err)
		}
	},
	"of those that are due longest first": func(b *bundle) {
		b.lease = 0
		first := b.place("first")
		b.place("second")
		due, err := b.store.ClaimDue(b.ctx, 1, lease)
		if err != nil || len(due) != 1 || due[0].Key != first.Key {
			b.Errorf("%d are due (%v)", len(due), err)
		}
	},
}

// seize takes the lease of a saga that rests.
func (b *bundle) seize(s saga.Saga) saga.Saga {
	b.Helper()
	seized, err := b.store.Seize(b.ctx, refOf(s), s.Lease.Fence, b.lease)
	if err != nil {
		b.Fatalf("seize: %v", err)
	}
	return seized
}
