package saga_test

import (
	"errors"
	"testing"
	"time"

	"paysaga/providers"
	"paysaga/saga"
)

// stuck is a saga whose server died: its lease has run out in some state, and the bank is as that left it.
type stuck struct {
	arrange func(b *bundle, claim saga.Claim)
	state   saga.State // in which it is found
	end     end
}

type end struct {
	State          saga.State
	Order          saga.OrderStatus
	Payment        saga.PaymentStatus
	OnHand         int64 // of ten cups, after all
	Held, Made     int   // payments
	Charges, Looks int   // calls of the second server
}

var (
	confirmed = end{State: saga.Completed, Order: saga.OrderConfirmed, Payment: saga.PaymentCaptured, OnHand: 8, Held: 1, Made: 1}
	undone    = end{State: saga.RolledBack, Order: saga.OrderCanceled, OnHand: 10}
)

func (e end) with(change func(*end)) end {
	change(&e)
	return e
}

func stuckSagas() map[string]stuck {
	charged := confirmed.with(func(e *end) { e.Charges = 1 })
	found := confirmed.with(func(e *end) { e.Looks = 1 })
	return map[string]stuck{
		"started": {func(b *bundle, claim saga.Claim) {
			b.dieInCharge(claim, nothing())
			b.exec(`DELETE FROM saga_steps`)
			b.exec(`DELETE FROM reservations`)
			b.exec(`UPDATE stock SET reserved = 0`)
			b.exec(`UPDATE sagas SET state = 'started'`)
		}, saga.Started, charged},
		"reserved": {func(b *bundle, claim saga.Claim) {
			b.dieInCharge(claim, nothing())
			b.exec(`DELETE FROM saga_steps WHERE name = 'charge'`)
			b.exec(`UPDATE sagas SET state = 'reserved'`)
		}, saga.Reserved, charged},
		"charging, before the call": {func(b *bundle, claim saga.Claim) {
			b.dieInCharge(claim, nothing())
		}, saga.Charging, charged},
		"charging, the money is taken": {func(b *bundle, claim saga.Claim) {
			b.dieInCharge(claim, reply{works: true})
		}, saga.Charging, charged},
		"charging, unknown": {func(b *bundle, claim saga.Claim) {
			b.bank.on(saga.CallCharge, losesTheAnswer(), losesTheAnswer(), losesTheAnswer())
			b.start(claim, cups())
		}, saga.Charging, charged},
		"charging, past the window, taken": {func(b *bundle, claim saga.Claim) {
			b.dieInCharge(claim, reply{works: true})
			b.age(b.bank.windows.Repost)
		}, saga.Charging, found},
		"charging, past the window and the search's delay, not taken": {func(b *bundle, claim saga.Claim) {
			b.dieInCharge(claim, nothing())
			b.age(b.bank.windows.Repost + b.bank.windows.LookupDelay)
		}, saga.Charging, undone.with(func(e *end) { e.Order, e.Payment, e.Looks = saga.OrderFailed, saga.PaymentNone, 1 })},
		"awaiting, the customer has paid": {func(b *bundle, claim saga.Claim) {
			b.await(claim)
			b.bank.set(chargeKey(claim), paid)
		}, saga.Awaiting, found},
		"awaiting, paid after the deadline": {func(b *bundle, claim saga.Claim) {
			b.await(claim)
			b.bank.set(chargeKey(claim), paid)
			b.exec(`UPDATE sagas SET deadline_at = now() - interval '1 hour'`)
		}, saga.Awaiting, found},
		"awaiting, at the deadline": {func(b *bundle, claim saga.Claim) {
			b.await(claim)
			b.exec(`UPDATE sagas SET deadline_at = now()`)
		}, saga.Awaiting, undone.with(func(e *end) { e.Payment, e.Made, e.Looks = saga.PaymentVoided, 1, 1 })},
		"awaiting, canceled at the bank": {func(b *bundle, claim saga.Claim) {
			b.await(claim)
			b.bank.set(chargeKey(claim), canceled)
		}, saga.Awaiting, undone.with(func(e *end) { e.Order, e.Payment, e.Made, e.Looks = saga.OrderFailed, saga.PaymentNone, 1, 1 })},
		"charged": {func(b *bundle, claim saga.Claim) {
			b.dieInCharge(claim, reply{works: true})
			b.exec(`UPDATE saga_steps SET status = 'done', outcome = 'succeeded', provider_reference = 'pay_1' WHERE name = 'charge'`)
			b.exec(`UPDATE sagas SET state = 'charged'`)
		}, saga.Charged, confirmed},
		"compensating, void": {func(b *bundle, claim saga.Claim) {
			b.await(claim)
			b.exec(`UPDATE sagas SET deadline_at = now()`)
			b.dieIn(saga.CallVoid)
		}, saga.Compensating, undone.with(func(e *end) { e.Payment, e.Made = saga.PaymentVoided, 1 })},
		"compensating, refund": {func(b *bundle, claim saga.Claim) {
			b.loseReservation(claim)
			b.dieIn(saga.CallRefund)
		}, saga.Compensating, undone.with(func(e *end) { e.Payment, e.Made = saga.PaymentRefunded, 1 })},
		"compensating, refund on its way": {func(b *bundle, claim saga.Claim) {
			b.bank.on(saga.CallRefund, reply{works: true, outcome: providers.Outcome{Kind: providers.Processing}})
			b.loseReservation(claim)
			b.recovery(b.runner).Once(b.ctx)
		}, saga.Compensating, undone.with(func(e *end) { e.Payment, e.Made = saga.PaymentRefunded, 1 })},
		"compensating, nothing open": {func(b *bundle, claim saga.Claim) {
			b.await(claim)
			b.bank.set(chargeKey(claim), canceled)
			b.exec(`UPDATE saga_steps SET status = 'failed', outcome = 'canceled' WHERE name = 'charge'`)
			b.exec(`UPDATE sagas SET state = 'compensating'`)
		}, saga.Compensating, undone.with(func(e *end) { e.Order, e.Payment, e.Made = saga.OrderFailed, saga.PaymentNone, 1 })},
	}
}

// dieInCharge begins an order whose server dies in the charge's call, after what the reply says has happened.
func (b *bundle) dieInCharge(claim saga.Claim, before reply) {
	b.t.Helper()
	b.bank.on(saga.CallCharge, before)
	b.bank.hook(nil, func(saga.Call) { panic("the server died") })
	if _, err := b.runner.Start(b.ctx, claim, cups()); err == nil {
		b.t.Fatal("the server did not die")
	}
	b.bank.hook(nil, nil)
}

// dieIn lets a recovery worker go on until its server dies before a call.
func (b *bundle) dieIn(call saga.Call) {
	b.t.Helper()
	b.bank.hook(dieBefore(call), nil)
	b.lapse()
	b.recovery(b.runner).Once(b.ctx)
	b.bank.hook(nil, nil)
}

func (b *bundle) await(claim saga.Claim) {
	b.t.Helper()
	b.bank.on(saga.CallCharge, asksTheCustomer())
	if answer := b.start(claim, cups()); answer.Status != 202 {
		b.t.Fatalf("answer %d, want 202", answer.Status)
	}
}

// loseReservation brings a saga to where its money is taken and its goods are gone; a server died before it could refund.
func (b *bundle) loseReservation(claim saga.Claim) {
	b.t.Helper()
	b.dieInCharge(claim, reply{works: true})
	b.exec(`UPDATE reservations SET status = 'released', ended_at = now()`)
	b.exec(`UPDATE stock SET reserved = 0`)
	b.lapse()
}

// age makes everything that happened so far that much older.
func (b *bundle) age(by time.Duration) {
	b.t.Helper()
	b.exec(`UPDATE saga_steps SET started_at = started_at - $1::interval, sent_at = sent_at - $1::interval`, by)
}

//nolint:tparallel // the cases share a database, one after the other
func TestRecoveryContinuesFromEveryState(t *testing.T) {
	t.Parallel()
	shared := newBundle(t)
	for name, test := range stuckSagas() { //nolint:paralleltest // the cases share a database, one after the other
		t.Run(name, func(t *testing.T) {
			test.run(t, shared.fresh(t), func(b *bundle, _ saga.Claim) { b.recover(b.newRunner(b.store)) })
		})
	}
}

//nolint:tparallel // the cases share a database, one after the other
func TestRetryContinuesFromEveryState(t *testing.T) {
	t.Parallel()
	shared := newBundle(t)
	for name, test := range stuckSagas() { //nolint:paralleltest // the cases share a database, one after the other
		t.Run(name, func(t *testing.T) {
			test.run(t, shared.fresh(t), func(b *bundle, claim saga.Claim) {
				b.lapse()
				before := b.get(claim)
				_, err := b.newRunner(b.store).TakeOver(b.ctx, refOf(claim), before.Lease.Fence)
				if (before.Pending == "") != errors.Is(err, saga.ErrAnswered) || (err != nil && before.Pending != "") {
					t.Fatalf("take over of a saga whose pending request is %q: %v", before.Pending, err)
				}
				if before.Pending == "" { // it is for recovery to go on with
					b.recover(b.runner)
				}
			})
		})
	}
}

func (test stuck) run(t *testing.T, b *bundle, goOn func(*bundle, saga.Claim)) {
	t.Helper()
	claim := claimOf("stuck")
	test.arrange(b, claim)
	if found := b.get(claim); found.State != test.state {
		t.Fatalf("arranged state %s, want %s", found.State, test.state)
	}
	charges, _ := b.bank.called(saga.CallCharge)
	looks, _ := b.bank.called(saga.CallLookup)
	goOn(b, claim)
	want := test.end
	b.wantState(claim, want.State, want.Order, want.Payment)
	b.wantStock("cup", want.OnHand)
	b.wantTaken(want.Held, want.Made)
	chargesNow, keys := b.bank.called(saga.CallCharge)
	looksNow, _ := b.bank.called(saga.CallLookup)
	if chargesNow-charges != want.Charges || looksNow-looks != want.Looks || keys > 1 {
		t.Errorf("%d charges under %d keys and %d look-ups; want %d and %d", chargesNow-charges, keys, looksNow-looks, want.Charges, want.Looks)
	}
	if record := b.record(claim); record.Answer.Status == 0 {
		t.Errorf("the key has no answer: %+v", record)
	}
}

func TestEndedSagasAreLeftAlone(t *testing.T) {
	t.Parallel()
	b := newBundle(t)
	completed, rolledBack, review := claimOf("completed"), claimOf("rolled-back"), claimOf("review")
	b.start(completed, cups())
	b.bank.on(saga.CallCharge, refuses(providers.Outcome{Kind: providers.Declined, Decline: &providers.Decline{Code: "card_declined"}}))
	b.start(rolledBack, cups())
	b.bank.on(saga.CallCharge, refuses(providers.Outcome{Kind: providers.Authorized}))
	b.start(review, cups())
	calls := len(b.bank.calls)
	b.exec(`UPDATE sagas SET locked_until = now() - interval '1 day'`)
	if claimed := b.recovery(b.newRunner(b.store)).Once(b.ctx); claimed != 0 {
		t.Errorf("recovery claimed %d ended sagas", claimed)
	}
	for claim, state := range map[saga.Claim]saga.State{completed: saga.Completed, rolledBack: saga.RolledBack, review: saga.NeedsReview} {
		before := b.get(claim)
		if before.State != state {
			t.Fatalf("state %s, want %s", before.State, state)
		}
		if _, err := b.runner.TakeOver(b.ctx, refOf(claim), before.Lease.Fence); !errors.Is(err, saga.ErrLeaseLost) {
			t.Errorf("take over of a saga in %s: %v, want ErrLeaseLost", state, err)
		}
		if after := b.get(claim); after.Drives != before.Drives || after.Lease.Fence != before.Lease.Fence || !after.UpdatedAt.Equal(before.UpdatedAt) {
			t.Errorf("saga in %s was touched: %+v", state, after)
		}
	}
	if len(b.bank.calls) != calls {
		t.Errorf("calls were made: %v", b.bank.calls[calls:])
	}
}
