package saga_test

import (
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"paysaga/providers"
	"paysaga/saga"
)

// repairs are what another server's reconciliation does.
func (b *bundle) repairs() saga.Repairs {
	b.t.Helper()
	return saga.Repairs{Runner: b.newRunner(b.store), Events: b.store}
}

// looked is how a payment stands, asked for just now.
func looked(payment string, kind providers.OutcomeKind, code string) providers.Notice {
	outcome := providers.Outcome{Kind: kind, Code: code, Reference: payment, Money: providers.Money{Amount: 1200, Currency: "EUR"}}
	return providers.Notice{ID: "reconcile", Type: "reconciliation", About: providers.AboutCharge, Payment: payment, Outcome: &outcome}
}

// repaired is what a repair is to bring, however often it is done.
type repaired struct {
	state  saga.State
	order  saga.OrderStatus
	pay    saga.PaymentStatus
	onHand int64
	held   int // payments that hold money at the bank
	voids  int
	refund int64 // given back at the bank
}

// What a look finds that the saga does not know brings that on: it completes what waits, gives up what is not held any more, and undoes what
// was taken of an order that was given up. A second time it does nothing.
func TestLookedUpOutcomesBringASagaOn(t *testing.T) {
	t.Parallel()
	lost := []reply{losesTheAnswer(), losesTheAnswer(), losesTheAnswer()}
	completed := repaired{saga.Completed, saga.OrderConfirmed, saga.PaymentCaptured, 8, 1, 0, 0}
	for name, test := range map[string]struct {
		bring func(b *bundle, order saga.Claim)
		kind  providers.OutcomeKind
		code  string
		want  repaired
	}{
		"charging, paid": {func(b *bundle, order saga.Claim) {
			b.bank.on(saga.CallCharge, lost...)
			b.start(order, cups())
		}, providers.Succeeded, "", completed},
		"charging, held": {func(b *bundle, order saga.Claim) {
			b.bank.on(saga.CallCharge, lost...)
			b.start(order, heldCups())
		}, providers.Authorized, "", repaired{saga.Awaiting, saga.OrderConfirmed, saga.PaymentAuthorized, 10, 0, 0, 0}},
		"awaiting, paid": {func(b *bundle, order saga.Claim) {
			b.bank.on(saga.CallCharge, asksTheCustomer())
			b.start(order, cups())
			b.bank.set(chargeKey(order), paid)
		}, providers.Succeeded, "", completed},
		"awaiting, canceled": {func(b *bundle, order saga.Claim) {
			b.bank.on(saga.CallCharge, asksTheCustomer())
			b.start(order, cups())
			b.bank.set(chargeKey(order), canceled)
		}, providers.Canceled, "", repaired{saga.RolledBack, saga.OrderFailed, saga.PaymentNone, 10, 0, 0, 0}},
		"held, captured there": {func(b *bundle, order saga.Claim) {
			b.start(order, heldCups())
			b.bank.set(chargeKey(order), paid)
		}, providers.Succeeded, "", completed},
		"held, expired": {func(b *bundle, order saga.Claim) {
			b.start(order, heldCups())
			b.bank.set(chargeKey(order), canceled)
		}, providers.Canceled, providers.CodeAuthorizationExpired, repaired{saga.RolledBack, saga.OrderCanceled, saga.PaymentVoided, 10, 0, 0, 0}},
		"rolled back as declined, paid": {func(b *bundle, order saga.Claim) {
			b.bank.on(saga.CallCharge, reply{becomes: paid, outcome: providers.Outcome{Kind: providers.Declined, Decline: &providers.Decline{Code: "no"}}})
			b.start(order, cups())
		}, providers.Succeeded, "", repaired{saga.RolledBack, saga.OrderCanceled, saga.PaymentRefunded, 10, 0, 1, 1200}},
		"rolled back as declined, held": {func(b *bundle, order saga.Claim) {
			b.bank.on(saga.CallCharge, reply{becomes: held, outcome: providers.Outcome{Kind: providers.Declined, Decline: &providers.Decline{Code: "no"}}})
			b.start(order, heldCups())
		}, providers.Authorized, "", repaired{saga.RolledBack, saga.OrderCanceled, saga.PaymentVoided, 10, 0, 1, 0}},
		"rolled back by a void, paid all the same": {func(b *bundle, order saga.Claim) {
			b.bank.on(saga.CallCharge, asksTheCustomer())
			b.start(order, cups())
			if _, err := b.runner.Ask(b.ctx, claimOn("cancel", "it"), refOf(order), requestOf(saga.RequestCancel, claimOn("cancel", "it"))); err != nil {
				b.t.Fatal(err)
			}
			b.bank.set(chargeKey(order), paid)
		}, providers.Succeeded, "", repaired{saga.RolledBack, saga.OrderCanceled, saga.PaymentRefunded, 10, 0, 2, 1200}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b, order := newBundle(t), claimOf("order")
			test.bring(b, order)
			outcome := b.look(order)
			if outcome.Kind != test.kind || outcome.Reference != "pay_1" {
				t.Fatalf("a look tells %+v", outcome)
			}
			outcome.Code = test.code
			for range 3 { // each after a look of its own
				notice := looked("pay_1", test.kind, "")
				notice.Outcome = &outcome
				if err := b.repairs().Notify(b.ctx, refOf(order), notice); err != nil {
					t.Fatal(err)
				}
				b.wantRepaired(order, test.want)
				outcome = b.look(order)
			}
			b.recover(b.runner)
			if test.want.state.Ended() {
				b.wantRepaired(order, test.want)
			}
		})
	}
}

func (b *bundle) look(order saga.Claim) providers.Outcome {
	b.t.Helper()
	outcome, ok, err := b.repairs().Look(b.ctx, refOf(order))
	if err != nil || !ok {
		b.t.Fatalf("a look: asked %t, %v", ok, err)
	}
	return outcome
}

func (b *bundle) wantRepaired(order saga.Claim, want repaired) {
	b.t.Helper()
	s := b.wantState(order, want.state, want.order, want.pay)
	if s.State.Ended() {
		b.wantStock("cup", want.onHand)
	}
	b.wantTaken(want.held, 1)
	if _, keys := b.bank.called(saga.CallCharge); keys != 1 {
		b.t.Errorf("charged under %d keys", keys)
	}
	if voids, _ := b.bank.called(saga.CallVoid); voids != want.voids {
		b.t.Errorf("%d voids, want %d", voids, want.voids)
	}
	if given := b.bank.payments[0].refunded; given != want.refund || s.Order.Payment.RefundedAmount != want.refund {
		b.t.Errorf("the bank gave %d back, here it is %d; want %d", given, s.Order.Payment.RefundedAmount, want.refund)
	}
}

// Where nobody can be asked, what was announced before brings a saga on in the same way; that a payment is held tells nothing there of
// one that is taken by itself.
func TestAnnouncedOutcomesBringASagaOn(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		order saga.Order
		bring func(b *bundle, order saga.Claim)
		kind  providers.OutcomeKind
		code  string
		want  repaired
	}{
		"charging, paid": {cups(), func(b *bundle, _ saga.Claim) {
			b.bank.on(saga.CallCharge, losesTheAnswer(), losesTheAnswer(), losesTheAnswer())
		}, providers.Authorized, "", repaired{saga.Completed, saga.OrderConfirmed, saga.PaymentCaptured, 8, 1, 0, 0}},
		"awaiting, paid": {cups(), func(b *bundle, _ saga.Claim) {
			b.bank.on(saga.CallCharge, reply{becomes: paid, outcome: asksTheCustomer().outcome})
		}, providers.Succeeded, "", repaired{saga.Completed, saga.OrderConfirmed, saga.PaymentCaptured, 8, 1, 0, 0}},
		"held, expired": {heldCups(), func(*bundle, saga.Claim) {}, providers.Canceled, providers.CodeAuthorizationExpired, repaired{
			saga.RolledBack, saga.OrderCanceled, saga.PaymentVoided, 10, 0, 0, 0,
		}},
		"rolled back as declined, paid": {cups(), func(b *bundle, _ saga.Claim) {
			b.bank.on(saga.CallCharge, reply{becomes: paid, outcome: providers.Outcome{Kind: providers.Declined, Decline: &providers.Decline{Code: "no"}}})
		}, providers.Succeeded, "", repaired{saga.RolledBack, saga.OrderCanceled, saga.PaymentRefunded, 10, 0, 1, 1200}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b, order := newBundle(t), claimOf("order")
			b.bank.windows.NoLookup = true
			test.bring(b, order)
			b.start(order, test.order)
			if _, ok, err := b.repairs().Look(b.ctx, refOf(order)); ok || err != nil {
				t.Errorf("somebody can be asked: %t, %v", ok, err)
			}
			for range 3 {
				notice := looked("pay_1", test.kind, test.code)
				notice.Key = chargeKey(order)
				if err := b.repairs().Notify(b.ctx, refOf(order), notice); err != nil {
					t.Fatal(err)
				}
				b.wantRepaired(order, test.want)
			}
		})
	}
}

// What was looked up before the saga moved on is looked up again.
func TestStaleLooksDoNothing(t *testing.T) {
	t.Parallel()
	b, order := newBundle(t), claimOf("order")
	b.start(order, heldCups())
	stale := looked("pay_1", providers.Succeeded, "") // of a payment that is canceled since
	cancel := claimOn("cancel", "it")
	if _, err := b.runner.Ask(b.ctx, cancel, refOf(order), requestOf(saga.RequestCancel, cancel)); err != nil {
		t.Fatal(err)
	}
	before := b.get(order)
	for range 2 {
		if err := b.repairs().Notify(b.ctx, refOf(order), stale); err != nil {
			t.Fatal(err)
		}
	}
	after := b.wantState(order, saga.RolledBack, saga.OrderCanceled, saga.PaymentVoided)
	if diff := cmp.Diff(before.Steps, after.Steps); diff != "" || after.Lease.Until.After(after.ReadAt) {
		t.Errorf("its lease ends %s, its steps:\n%s", after.Lease.Until, diff)
	}
}

// A look that finds money held which was to be taken by itself is no payment.
func TestHeldIsNotPaidWhereItCanBeAsked(t *testing.T) {
	t.Parallel()
	b, order := newBundle(t), claimOf("order")
	b.bank.on(saga.CallCharge, reply{becomes: held, outcome: providers.Outcome{Kind: providers.Unknown, Code: "timeout"}}, nothing(), nothing())
	b.start(order, cups())
	if err := b.repairs().Notify(b.ctx, refOf(order), looked("pay_1", providers.Authorized, "")); err != nil {
		t.Fatal(err)
	}
	if s := b.get(order); s.State != saga.NeedsReview || s.Order.Payment.CapturedAmount != 0 {
		t.Errorf("%s, %d captured", s.State, s.Order.Payment.CapturedAmount)
	}
}

// That a payment was not found means nothing to a saga whose call may be under way.
func TestNotFoundGivesNothingUp(t *testing.T) {
	t.Parallel()
	b, order := newBundle(t), claimOf("order")
	b.bank.on(saga.CallCharge, nothing(), nothing(), nothing())
	b.start(order, cups())
	b.exec(`UPDATE saga_steps SET started_at = now() - interval '3 hours', sent_at = now() - interval '2 hours' WHERE sent_at IS NOT NULL`)
	before := b.written()
	for _, kind := range []providers.OutcomeKind{providers.NotFound, providers.Busy, providers.Unknown} {
		if err := b.repairs().Notify(b.ctx, refOf(order), looked("", kind, "")); err != nil {
			t.Fatal(err)
		}
	}
	if diff := cmp.Diff(before, b.written()); diff != "" {
		t.Error(diff)
	}
}

// What a person has settled, and what was given back, stays so, whatever a look finds later.
func TestWhatIsSettledStaysSettled(t *testing.T) {
	t.Parallel()
	outside := deciding(saga.ResolveNothingKept)
	outside.OutsideProvider = true
	for name, bring := range map[string]func(b *bundle, order saga.Claim){
		"a person says that it went back in another way": func(b *bundle, order saga.Claim) {
			b.inReview(order, heldCups())
			b.bank.set(chargeKey(order), paid)
			b.decides("it", refOf(order), outside)
		},
		"a refund was made": func(b *bundle, order saga.Claim) {
			b.bank.on(saga.CallCharge, asksTheCustomer())
			b.start(order, cups())
			b.bank.set(chargeKey(order), paid)
			cancel := claimOn("cancel", "it")
			if _, err := b.runner.Ask(b.ctx, cancel, refOf(order), requestOf(saga.RequestCancel, cancel)); err != nil {
				b.t.Fatal(err)
			}
			b.recover(b.runner)
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b, order := newBundle(t), claimOf("order")
			bring(b, order)
			if s := b.get(order); s.State != saga.RolledBack {
				t.Fatalf("it is %s", s.State)
			}
			before := b.written()
			if err := b.repairs().Notify(b.ctx, refOf(order), looked("pay_1", providers.Succeeded, "")); err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(before, b.written()); diff != "" {
				t.Error(diff)
			}
		})
	}
}

// A saga in review takes no news; its retry takes it up where it stood, and is written down. What rests is taken up at once, and what its
// server has left as well.
func TestRepairsRetry(t *testing.T) {
	t.Parallel()
	lost := []reply{losesTheAnswer(), losesTheAnswer(), losesTheAnswer()}
	for name, test := range map[string]struct {
		bring   func(b *bundle, order saga.Claim)
		review  bool
		decided int
	}{
		"in review": {func(b *bundle, order saga.Claim) {
			b.bank.on(saga.CallCharge, lost...)
			b.inReview(order, cups())
		}, true, 1},
		"resting": {func(b *bundle, order saga.Claim) {
			b.bank.on(saga.CallCharge, lost...)
			b.start(order, cups())
			b.exec(`UPDATE sagas SET next_attempt_at = now() + interval '1 year'`)
		}, false, 1},
		"left by its server": {func(b *bundle, order saga.Claim) {
			b.bank.on(saga.CallCharge, lost...)
			b.dieInCharge(order, losesTheAnswer())
			b.lapse()
			b.exec(`UPDATE sagas SET next_attempt_at = now() + interval '1 year'`)
		}, false, 1},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b, order := newBundle(t), claimOf("order")
			test.bring(b, order)
			err := b.repairs().Notify(b.ctx, refOf(order), looked("pay_1", providers.Succeeded, ""))
			if errors.Is(err, saga.ErrInReview) != test.review {
				t.Errorf("news: %v", err)
			}
			if !test.review {
				b.wantState(order, saga.Completed, saga.OrderConfirmed, saga.PaymentCaptured)
				return
			}
			if err := b.repairs().Retry(b.ctx, refOf(order), "The provider has the money."); err != nil {
				t.Fatal(err)
			}
			b.wantState(order, saga.Completed, saga.OrderConfirmed, saga.PaymentCaptured)
			decision := saga.Decision{Resolution: saga.ResolveRetry, Actor: saga.Repairer, Reason: "The provider has the money."}
			b.wantDecided(order, decision)
			before := b.written()
			wantRefused(t, b.repairs().Retry(b.ctx, refOf(order), "Once more."), saga.RefusedOver)
			if diff := cmp.Diff(before, b.written()); diff != "" {
				t.Error(diff)
			}
		})
	}
}

// A retry of what rests, or was left by its server, drives it now.
func TestRepairsWake(t *testing.T) {
	t.Parallel()
	for name, bring := range map[string]func(b *bundle, order saga.Claim){
		"resting": func(b *bundle, order saga.Claim) {
			b.bank.on(saga.CallCharge, losesTheAnswer(), losesTheAnswer(), losesTheAnswer())
			b.start(order, cups())
		},
		"left by its server": func(b *bundle, order saga.Claim) { b.dieInCharge(order, losesTheAnswer()); b.lapse() },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b, order := newBundle(t), claimOf("order")
			bring(b, order)
			b.exec(`UPDATE sagas SET next_attempt_at = now() + interval '1 year'`)
			if err := b.repairs().Retry(b.ctx, refOf(order), "It has not moved."); err != nil {
				t.Fatal(err)
			}
			b.wantState(order, saga.Completed, saga.OrderConfirmed, saga.PaymentCaptured)
			b.wantTaken(1, 1)
			if record := b.record(order); record.Answer.Status == 0 {
				t.Error("its request has no answer")
			}
		})
	}
}

// While somebody drives a saga, no repair touches it.
func TestRepairsLeaveABusySagaAlone(t *testing.T) {
	t.Parallel()
	b, order := newBundle(t), claimOf("order")
	b.start(order, cups())
	s := b.get(order)
	if _, err := b.store.Seize(b.ctx, refOf(order), s.Lease.Fence, longLease); err != nil {
		t.Fatal(err)
	}
	before := b.written()
	r := b.repairs()
	for name, err := range map[string]error{
		"retry": r.Retry(b.ctx, refOf(order), ""), "contradict": r.Contradict(b.ctx, refOf(order), "status_mismatch", "It differs."),
		"release": r.ReleaseOrphan(b.ctx, refOf(order)), "notify": r.Notify(b.ctx, refOf(order), looked("pay_1", providers.Succeeded, "")),
	} {
		if !errors.Is(err, saga.ErrLeaseLost) {
			t.Errorf("%s: %v", name, err)
		}
	}
	if diff := cmp.Diff(before, b.written()); diff != "" {
		t.Error(diff)
	}
}

// What contradicts a saga stops it wherever it stands; in review it is told what else was found, and the same is one finding.
func TestRepairsContradict(t *testing.T) {
	t.Parallel()
	for name, bring := range map[string]func(b *bundle, order saga.Claim){
		"completed": func(b *bundle, order saga.Claim) { b.start(order, cups()) },
		"awaiting": func(b *bundle, order saga.Claim) {
			b.bank.on(saga.CallCharge, asksTheCustomer())
			b.start(order, cups())
		},
		"rolled back": func(b *bundle, order saga.Claim) {
			b.bank.on(saga.CallCharge, refuses(providers.Outcome{Kind: providers.Declined, Decline: &providers.Decline{Code: "no"}}))
			b.start(order, cups())
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b, order := newBundle(t), claimOf("order")
			bring(b, order)
			answered := b.record(order).Answer
			for i, kind := range []string{"status_mismatch", "status_mismatch", "amount_mismatch", "amount_mismatch"} {
				if err := b.repairs().Contradict(b.ctx, refOf(order), kind, fmt.Sprint("Found ", i, ".")); err != nil {
					t.Fatal(err)
				}
			}
			b.wantContradicted(order)
			if again := b.record(order).Answer; string(again.Body) != string(answered.Body) {
				t.Errorf("the answer %s became %s", answered.Body, again.Body)
			}
		})
	}
}

func (b *bundle) wantContradicted(order saga.Claim) {
	b.t.Helper()
	s := b.get(order)
	if s.State != saga.NeedsReview || s.Order.Status != saga.OrderInReview || s.Lease.Until.After(s.ReadAt) {
		b.t.Errorf("%s, %s, held until %s", s.State, s.Order.Status, s.Lease.Until)
	}
	if diff := cmp.Diff([]string{"status_mismatch", "amount_mismatch"}, b.findings(order)); diff != "" {
		b.t.Error(diff)
	}
	if events := b.count(`SELECT count(*) FROM outbox_events WHERE type = 'order.in_review'`); events != 1 {
		b.t.Errorf("%d events", events)
	}
	if len(b.runner.Fitting(s)) == 0 {
		b.t.Error("no decision fits")
	}
}

// Stock that is held for an order that is over is freed, or sold, once. Of an order that is not over nothing is touched.
func TestReleaseOrphan(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		bring  func(b *bundle, order saga.Claim)
		state  saga.State
		onHand int64
		status string
	}{
		"completed": {func(b *bundle, order saga.Claim) { b.start(order, twoKinds()) }, saga.Completed, 8, "sold"},
		"rolled back": {func(b *bundle, order saga.Claim) {
			b.bank.on(saga.CallCharge, refuses(providers.Outcome{Kind: providers.Declined, Decline: &providers.Decline{Code: "no"}}))
			b.start(order, twoKinds())
		}, saga.RolledBack, 10, "released"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b, order := newBundle(t), claimOf("order")
			b.putStock("mug", 10)
			test.bring(b, order)
			// As it was before its end, by a restore of a part: one of two lines is held.
			b.exec(`UPDATE reservations SET status = 'held', ended_at = NULL WHERE sku = 'cup'`)
			b.exec(`UPDATE stock SET on_hand = 10, reserved = 2 WHERE sku = 'cup'`)
			for range 3 {
				if err := b.repairs().ReleaseOrphan(b.ctx, refOf(order)); err != nil {
					t.Fatal(err)
				}
				b.wantStock("cup", test.onHand)
				b.wantStock("mug", test.onHand)
			}
			if s := b.get(order); s.State != test.state || s.Lease.Until.After(s.ReadAt) {
				t.Errorf("it is %s, its lease ends %s", s.State, s.Lease.Until)
			}
			if ended := b.count(`SELECT count(*) FROM reservations WHERE status = $1`, test.status); ended != 2 {
				t.Errorf("%d lines are %s", ended, test.status)
			}
			if written := b.count(`SELECT count(*) FROM audit_log WHERE action = 'saga.release_orphan' AND actor = $1`, saga.Repairer); written != 1 {
				t.Errorf("the audit log has it %d times", written)
			}
		})
	}
	b, order, reviewed := newBundle(t), claimOf("order"), claimOf("reviewed")
	b.bank.on(saga.CallCharge, asksTheCustomer())
	b.start(order, cups())
	b.inReview(reviewed, cups())
	wantRefused(t, b.repairs().ReleaseOrphan(b.ctx, refOf(order)), saga.RefusedUnfit)
	wantRefused(t, b.repairs().ReleaseOrphan(b.ctx, refOf(reviewed)), saga.RefusedInReview)
}

func twoKinds() saga.Order {
	return orderOf(saga.Item{SKU: "cup", Quantity: 2, UnitAmount: 500}, saga.Item{SKU: "mug", Quantity: 2, UnitAmount: 100})
}

// An event that was given up is tried again from the beginning, once; one that waits or was applied stays as it is.
func TestApplyWebhook(t *testing.T) {
	t.Parallel()
	b, order := newBundle(t), claimOf("order")
	b.start(order, cups())
	notices := make([]providers.Notice, 0, 4)
	for _, id := range []string{"parked", "applied", "waiting", "other"} {
		notices = append(notices, providers.Notice{ID: id, Type: "t", About: providers.AboutCharge, Payment: "pay_1", At: time.Now()})
	}
	if _, err := b.store.KeepEvents(b.ctx, "fake", notices); err != nil {
		t.Fatal(err)
	}
	b.exec(`UPDATE webhook_events SET status = 'parked', next_attempt_at = NULL, attempts = 84, failures = 84, account_id = 'shop1', saga_key = $1
		WHERE event_id = 'parked'`, refOf(order).Key)
	b.exec(`UPDATE webhook_events SET status = 'applied', next_attempt_at = NULL, applied_at = now(), account_id = 'shop1', saga_key = $1
		WHERE event_id = 'applied'`, refOf(order).Key)
	b.exec(`UPDATE webhook_events SET status = 'unmatched', about = 'other', next_attempt_at = NULL WHERE event_id = 'other'`)
	b.exec(`UPDATE webhook_events SET attempts = 7, failures = 3 WHERE event_id = 'waiting'`)
	for range 2 {
		for _, event := range notices {
			if err := b.repairs().ApplyWebhook(b.ctx, "fake", event.ID); err != nil {
				t.Errorf("%s: %v", event.ID, err)
			}
		}
	}
	if err := b.repairs().ApplyWebhook(b.ctx, "fake", "none"); !errors.Is(err, saga.ErrNotFound) {
		t.Errorf("an event that there is not: %v", err)
	}
	for want, sql := range map[string]string{
		"parked":  `SELECT count(*) FROM webhook_events WHERE event_id = 'parked' AND status = 'waiting' AND next_attempt_at <= now() AND attempts = 0 AND failures = 0`,
		"applied": `SELECT count(*) FROM webhook_events WHERE event_id = 'applied' AND status = 'applied'`,
		"other":   `SELECT count(*) FROM webhook_events WHERE event_id = 'other' AND status = 'unmatched'`,
		"waiting": `SELECT count(*) FROM webhook_events WHERE event_id = 'waiting' AND status = 'waiting' AND attempts = 7 AND failures = 3`,
		"audit":   `SELECT count(*) FROM audit_log WHERE action = 'webhook.bring_again' AND subject = 'parked' AND account_id = 'shop1'`,
	} {
		if n := b.count(sql); n != 1 {
			t.Errorf("%s: %d", want, n)
		}
	}
}
