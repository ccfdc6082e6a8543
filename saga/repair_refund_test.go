package saga_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"paysaga/providers"
	"paysaga/reconcile"
	"paysaga/saga"
)

func found(reference string, amount int64) saga.FoundRefund {
	return saga.FoundRefund{Reference: reference, Amount: amount, At: time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)}
}

// A refund that the provider gave is written down once, as a refund that is over, and its shop is told.
func TestRecordRefund(t *testing.T) {
	t.Parallel()
	b, order := newBundle(t), claimOf("order")
	b.start(order, cups())
	const together = 6
	var errs [together]error
	atOnce(together, func(i int) { errs[i] = b.repairs().RecordRefund(b.ctx, refOf(order), found("re_1", 500)) })
	if err := errors.Join(errs[:]...); err != nil {
		t.Fatal(err)
	}
	b.wantState(order, saga.Completed, saga.OrderConfirmed, saga.PaymentPartiallyRefunded)
	b.wantSums(order, 500, 0)
	refunds, err := b.store.ListRefunds(b.ctx, "shop1", refOf(order).Key)
	if err != nil || len(refunds) != 1 {
		t.Fatalf("%d refunds, %v", len(refunds), err)
	}
	b.wantRecorded(refunds[0])
	if sent, _ := b.bank.called(saga.CallRefund); sent != 0 {
		t.Errorf("%d refunds were sent", sent)
	}
	// The bank sends it back later: as every refund, it does not count any more.
	declined := providers.Notice{About: providers.AboutRefund, Payment: "pay_1", Reference: "re_1", Outcome: &providers.Outcome{Kind: providers.Declined}}
	ref, err := b.store.FindSaga(b.ctx, "fake", declined)
	if err != nil || ref.Key != refunds[0].Key {
		t.Fatalf("its notice finds %v, %v", ref, err)
	}
	b.hears(ref, declined)
	b.wantSums(order, 0, 0)
}

// wantRecorded checks the traces of a refund of 500 that was written down once.
func (b *bundle) wantRecorded(refund saga.Saga) {
	b.t.Helper()
	step := stepOf(refund, saga.StepRefund)
	if refund.State != saga.Completed || refund.Refund.Status != saga.RefundSucceeded || refund.Refund.Amount != 500 || refund.Pending != "" {
		b.t.Errorf("%s, %+v", refund.State, refund.Refund)
	}
	step.StartedAt, step.FinishedAt = time.Time{}, time.Time{}
	want := saga.Step{
		Name: saga.StepRefund, Attempt: 1, SubKey: saga.SubKey(refund.Key, saga.StepRefund, 1), Status: saga.StepDone, Provider: "fake",
		ProviderReference: "re_1", Amount: 500, Outcome: providers.Succeeded, Code: saga.FindingRefundedAtProvider,
		Detail: "Given at 2026-03-01T12:00:00Z.",
	}
	if diff := cmp.Diff(want, step); diff != "" {
		b.t.Error(diff)
	}
	for what, sql := range map[string]string{
		"events":     `SELECT count(*) FROM outbox_events WHERE type = 'refund.succeeded' AND refund_id = $1`,
		"audit":      `SELECT count(*) FROM audit_log WHERE action = 'saga.record_refund' AND actor = 'reconciliation' AND subject = $1::uuid::text`,
		"due sagas":  `SELECT 1 + count(*) FROM sagas WHERE key = $1 AND (next_attempt_at IS NOT NULL OR locked_until > now())`,
		"order keys": `SELECT count(*) FROM idempotency_keys WHERE $1::uuid IS NOT NULL`,
	} {
		if n := b.count(sql, refund.Key); n != 1 {
			b.t.Errorf("%s: %d", what, n)
		}
	}
}

// What does not fit is refused, and writes nothing.
func TestRecordRefundRefused(t *testing.T) {
	t.Parallel()
	b, order, waiting, reviewed := newBundle(t), claimOf("order"), claimOf("waiting"), claimOf("reviewed")
	b.start(order, cups())
	b.inReview(reviewed, cups())
	b.bank.on(saga.CallCharge, asksTheCustomer())
	b.start(waiting, cups())
	if _, err := b.runner.Refund(b.ctx, claimOn("refunds", "own"), refOf(order), 500, ""); err != nil {
		t.Fatal(err)
	}
	r, before := b.repairs(), b.written()
	wantRefused(t, r.RecordRefund(b.ctx, refOf(order), found("re_1", 701)), saga.RefusedTooMuch)
	wantRefused(t, r.RecordRefund(b.ctx, refOf(order), found("re_1", 0)), saga.RefusedUnfit)
	wantRefused(t, r.RecordRefund(b.ctx, refOf(order), found("", 10)), saga.RefusedUnfit)
	wantRefused(t, r.RecordRefund(b.ctx, refOf(waiting), found("re_1", 10)), saga.RefusedNotCaptured)
	if err := r.RecordRefund(b.ctx, refOf(reviewed), found("re_1", 10)); !errors.Is(err, saga.ErrInReview) {
		t.Errorf("in review: %v", err)
	}
	if err := r.RecordRefund(b.ctx, refOf(claimOf("none")), found("re_1", 10)); !errors.Is(err, saga.ErrNotFound) {
		t.Errorf("no order: %v", err)
	}
	if diff := cmp.Diff(before, b.written()); diff != "" {
		t.Error(diff)
	}
}

// A refund of ours is not written down a second time: not by its id, not by its key while its answer is lost, and not while nobody can tell
// whether it is ours.
func TestRecordRefundKnowsOurs(t *testing.T) {
	t.Parallel()
	b, order := newBundle(t), claimOf("order")
	b.start(order, cups())
	given, lost := claimOn("refunds", "given"), claimOn("refunds", "lost")
	if _, err := b.runner.Refund(b.ctx, given, refOf(order), 100, ""); err != nil {
		t.Fatal(err)
	}
	b.bank.on(saga.CallRefund, losesTheAnswer(), losesTheAnswer(), losesTheAnswer())
	if _, err := b.runner.Refund(b.ctx, lost, refOf(order), 200, ""); err != nil {
		t.Fatal(err)
	}
	r, before := b.repairs(), b.written()
	ofLost := found("refund_2", 200)
	ofLost.Key = saga.SubKey(refOf(lost).Key, saga.StepRefund, 1)
	for _, one := range []saga.FoundRefund{found("refund_1", 100), ofLost} {
		if err := r.RecordRefund(b.ctx, refOf(order), one); err != nil {
			t.Errorf("%s: %v", one.Reference, err)
		}
	}
	wantRefused(t, r.RecordRefund(b.ctx, refOf(order), found("refund_2", 200)), saga.RefusedBusy)
	if diff := cmp.Diff(before, b.written()); diff != "" {
		t.Error(diff)
	}
	if err := r.RecordRefund(b.ctx, refOf(order), found("re_9", 300)); err != nil { // of another amount: it is none of ours
		t.Error(err)
	}
	b.recover(b.runner)
	b.wantSums(order, 600, 0)
	// One that was refused here, and given there, is for a person.
	b.bank.on(saga.CallRefund, refuses(providers.Outcome{Kind: providers.Declined, Code: "no"}))
	refused := claimOn("refunds", "refused")
	if _, err := b.runner.Refund(b.ctx, refused, refOf(order), 50, ""); err != nil {
		t.Fatal(err)
	}
	ofRefused := found("re_10", 50)
	ofRefused.Key = saga.SubKey(refOf(refused).Key, saga.StepRefund, 1)
	wantRefused(t, r.RecordRefund(b.ctx, refOf(order), ofRefused), saga.RefusedContradicted)
	b.wantSums(order, 600, 0)
}

// takenTwice is a completed order of which the bank took a second payment.
func (b *bundle) takenTwice(order saga.Claim) saga.OtherPayment {
	b.t.Helper()
	b.start(order, cups())
	return b.takeAgain(order)
}

func (b *bundle) takeAgain(order saga.Claim) saga.OtherPayment {
	b.bank.mu.Lock()
	defer b.bank.mu.Unlock()
	id := fmt.Sprintf("pay_%d", len(b.bank.payments)+1)
	b.bank.payments = append(b.bank.payments, &payment{
		id: id, key: chargeKey(order), money: providers.Money{Amount: 1200, Currency: "EUR"}, status: paid,
	})
	return saga.OtherPayment{Provider: "fake", Reference: id, Key: chargeKey(order), Amount: 1200}
}

// wantRepaid checks that the second payment, and it alone, went back once, and that the order knows nothing of it.
func (b *bundle) wantRepaid(order saga.Claim, other saga.OtherPayment) {
	b.t.Helper()
	b.wantState(order, saga.Completed, saga.OrderConfirmed, saga.PaymentCaptured)
	b.wantSums(order, 0, 0)
	for _, p := range b.bank.payments {
		want := int64(0)
		if p.id == other.Reference {
			want = 1200
		}
		if p.refunded != want {
			b.t.Errorf("%d of %s went back, want %d", p.refunded, p.id, want)
		}
	}
	if _, keys := b.bank.called(saga.CallRefund); keys != 1 {
		b.t.Errorf("refunds under %d keys", keys)
	}
	if refunds, err := b.store.ListRefunds(b.ctx, "shop1", refOf(order).Key); err != nil || len(refunds) != 0 {
		b.t.Errorf("the shop sees %d refunds (%v)", len(refunds), err)
	}
	pair, err := b.store.ReadPair(b.ctx, reconcile.Place{AccountID: "shop1", OrderID: refOf(order).Key})
	if err != nil || len(pair.Payment.Refunds) != 0 || len(pair.Payment.Charges) != 1 {
		b.t.Errorf("reconciliation takes it for the order's: %+v, %v", pair.Payment.Refunds, err)
	}
	if told := b.count(`SELECT count(*) FROM outbox_events WHERE refund_id IS NOT NULL`); told != 0 {
		b.t.Errorf("the shop was told of %d refunds", told)
	}
	if written := b.count(`SELECT count(*) FROM audit_log WHERE action = 'saga.refund_duplicate' AND actor = 'reconciliation'`); written != 1 {
		b.t.Errorf("the audit log has it %d times", written)
	}
}

// What was taken beside the order's payment goes back once, however many do it, and is none of the order's sums.
func TestRefundOther(t *testing.T) {
	t.Parallel()
	b, order := newBundle(t), claimOf("order")
	other := b.takenTwice(order)
	const together = 6
	var errs [together]error
	atOnce(together, func(i int) { errs[i] = b.repairs().RefundOther(b.ctx, refOf(order), other) })
	if err := errors.Join(errs[:]...); err != nil {
		t.Fatal(err)
	}
	b.recover(b.runner)
	b.wantRepaid(order, other)
	if err := b.repairs().RefundOther(b.ctx, refOf(order), other); err != nil {
		t.Errorf("once more: %v", err)
	}
	b.wantRepaid(order, other)
	refunds, err := b.store.Refunds(b.ctx, refOf(order))
	if err != nil || len(refunds) != 1 {
		t.Fatalf("%d refunds, %v", len(refunds), err)
	}
	key := stepOf(refunds[0], saga.StepRefund).SubKey
	want := saga.SubKey(saga.Key("shop1", "reconcile repayment", refOf(order).Key.String()+":fake:"+other.Reference, 1), saga.StepRefund, 1)
	if key != want || len(key) > providers.MaxSubKeyLength || strings.Contains(string(key), ":") {
		t.Errorf("sent under %s, want %s", key, want)
	}
	if _, err := b.store.GetRefund(b.ctx, "shop1", refOf(order).Key, refunds[0].Key); !errors.Is(err, saga.ErrNotFound) {
		t.Errorf("the shop finds it by its id: %v", err)
	}
	// Its order's own refunds go on as ever.
	if _, err := b.runner.Refund(b.ctx, claimOn("refunds", "own"), refOf(order), 1200, ""); err != nil {
		t.Fatal(err)
	}
	b.wantSums(order, 1200, 0)
	b.wantTaken(0, 2)
}

// The order's own payment is never given back in this way, nor one that could be its own, or another's.
func TestRefundOtherRefused(t *testing.T) {
	t.Parallel()
	b, order, second, unclear, reviewed := newBundle(t), claimOf("order"), claimOf("second"), claimOf("unclear"), claimOf("reviewed")
	b.start(order, cups())
	b.start(second, cups())
	b.inReview(reviewed, cups())
	b.bank.on(saga.CallCharge, nothing(), nothing(), nothing())
	b.start(unclear, cups())
	held := b.takeAgain(order)
	b.bank.payments[len(b.bank.payments)-1].status = "held"
	less := b.takeAgain(order)
	less.Amount = 1100
	own := saga.OtherPayment{Provider: "fake", Reference: "pay_1", Key: chargeKey(order), Amount: 1200}
	others := own
	others.Reference = "pay_2"
	foreign := b.takeAgain(order)
	foreign.Key = chargeKey(second)
	elsewhere := b.takeAgain(order)
	elsewhere.Provider = "nobody"
	missing := own
	missing.Reference = "pay_77"
	before := b.written()
	for name, test := range map[string]struct {
		order  saga.Claim
		other  saga.OtherPayment
		reason saga.RefusalReason
	}{
		"its own": {order, own, saga.RefusedUnfit}, "another order's": {order, others, saga.RefusedUnfit},
		"of another order's key": {order, foreign, saga.RefusedUnfit}, "at nobody": {order, elsewhere, saga.RefusedUnfit},
		"which is its own": {unclear, saga.OtherPayment{Provider: "fake", Reference: "pay_5", Key: chargeKey(unclear), Amount: 1200}, saga.RefusedUnfit},
		"held":             {order, held, saga.RefusedContradicted}, "over another amount": {order, less, saga.RefusedContradicted},
		"not there": {order, missing, saga.RefusedContradicted},
	} {
		err := b.repairs().RefundOther(b.ctx, refOf(test.order), test.other)
		if refused, ok := errors.AsType[*saga.RefusedError](err); !ok || refused.Reason != test.reason {
			t.Errorf("%s: %v", name, err)
		}
	}
	if err := b.repairs().RefundOther(b.ctx, refOf(reviewed), own); !errors.Is(err, saga.ErrInReview) {
		t.Errorf("in review: %v", err)
	}
	if diff := cmp.Diff(before, b.written()); diff != "" {
		t.Error(diff)
	}
	if sent, _ := b.bank.called(saga.CallRefund); sent != 0 {
		t.Errorf("%d refunds were sent", sent)
	}
}

// A payment that a person has decided to be the order's is not given back, and one that is being given back is not decided to be.
func TestRefundOtherAndDecisionsKeepApart(t *testing.T) {
	t.Parallel()
	b, order := newBundle(t), claimOf("order")
	other := b.takenTwice(order)
	if err := b.repairs().RefundOther(b.ctx, refOf(order), other); err != nil {
		t.Fatal(err)
	}
	b.exec(`UPDATE sagas SET state = 'needs_review' WHERE kind = 'order'`)
	b.exec(`UPDATE saga_steps SET status = 'unknown' WHERE name = 'charge'`)
	b.exec(`DELETE FROM saga_steps WHERE name = 'confirm'`)
	b.bank.on(saga.CallLookup, nothing())
	_, err := b.runner.Decide(b.ctx, claimOn("resolve", "it"), refOf(order), takenAs(other.Reference, 1200))
	wantRefused(t, err, saga.RefusedUnfit)
}

// A refund whose end nobody knows is no failure: it goes on under its key, past the time in which the provider remembers that by look-ups
// alone. One that the provider refuses is told.
func TestRefundOtherGoesOn(t *testing.T) {
	t.Parallel()
	b, order := newBundle(t), claimOf("order")
	other := b.takenTwice(order)
	b.bank.on(saga.CallRefund, losesTheAnswer())
	if err := b.repairs().RefundOther(b.ctx, refOf(order), other); err != nil {
		t.Fatal(err)
	}
	b.exec(`UPDATE saga_steps SET started_at = now() - interval '2 days', sent_at = now() - interval '2 days'`)
	b.recover(b.runner)
	b.wantRepaid(order, other)
	if sent, _ := b.bank.called(saga.CallRefund); sent != 1 {
		t.Errorf("it was sent %d times", sent)
	}
	if asked, _ := b.bank.called(saga.CallCheckRefund); asked == 0 {
		t.Error("nobody asked how it stands")
	}
	refused := b.takeAgain(order)
	b.bank.on(saga.CallRefund, refuses(providers.Outcome{Kind: providers.Rejected, Code: "disputed"}))
	for range 2 {
		wantRefused(t, b.repairs().RefundOther(b.ctx, refOf(order), refused), saga.RefusedContradicted)
	}
	again := b.takeAgain(order)
	b.bank.on(saga.CallRefund, refuses(providers.Outcome{Kind: providers.Succeeded, Code: providers.CodeAlreadyRefunded}))
	if err := b.repairs().RefundOther(b.ctx, refOf(order), again); err != nil {
		t.Errorf("a payment that somebody had given back: %v", err)
	}
	b.wantSums(order, 0, 0)
}

// Where nobody can be asked, its notice ends the refund.
func TestRefundOtherAtAProviderThatAnnounces(t *testing.T) {
	t.Parallel()
	b, order := newBundle(t), claimOf("order")
	other := b.takenTwice(order)
	b.bank.windows.NoLookup = true
	b.bank.on(saga.CallRefund, reply{works: true, outcome: providers.Outcome{Kind: providers.Processing, Reference: "refund_1"}})
	if err := b.repairs().RefundOther(b.ctx, refOf(order), other); err != nil {
		t.Fatal(err)
	}
	given := providers.Notice{About: providers.AboutRefund, Payment: other.Reference, Reference: "refund_1", Outcome: &providers.Outcome{Kind: providers.Succeeded}}
	ref, err := b.store.FindSaga(b.ctx, "fake", given)
	if err != nil {
		t.Fatal(err)
	}
	b.hears(ref, given, given)
	s, err := b.store.Load(b.ctx, ref)
	if err != nil || s.State != saga.Completed {
		t.Errorf("it is %s (%v)", s.State, err)
	}
	b.wantRepaid(order, other)
}

// dyingBegin dies around the transaction with which a repair begins a refund, too.
type dyingBegin struct{ mortalStore }

func (m dyingBegin) Seize(ctx context.Context, ref saga.Ref, fence int64, lease time.Duration) (saga.Saga, error) {
	m.fuse.pass("before Seize")
	seized, err := m.Store.Seize(ctx, ref, fence, lease)
	m.fuse.pass("after Seize")
	return seized, err
}

// A server may die at any point of a repair: it is done wholly or not at all, and whoever does it again, or recovery, finishes it. It is done
// once.
func TestRepairerDies(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		bring func(b *bundle, order saga.Claim) func(saga.Repairs) error
		check func(b *bundle, order saga.Claim)
		least int // points
	}{
		"refund other": {func(b *bundle, order saga.Claim) func(saga.Repairs) error {
			other := b.takenTwice(order)
			return func(r saga.Repairs) error { return r.RefundOther(b.ctx, refOf(order), other) }
		}, func(b *bundle, order saga.Claim) {
			b.wantRepaid(order, saga.OtherPayment{Reference: "pay_2"})
		}, 8},
		"record refund": {func(b *bundle, order saga.Claim) func(saga.Repairs) error {
			b.start(order, cups())
			return func(r saga.Repairs) error { return r.RecordRefund(b.ctx, refOf(order), found("re_1", 500)) }
		}, func(b *bundle, order saga.Claim) {
			b.wantSums(order, 500, 0)
			if written := b.count(`SELECT count(*) FROM audit_log`); written != 1 {
				b.t.Errorf("the audit log has %d entries", written)
			}
		}, 2},
		"undo": {func(b *bundle, order saga.Claim) func(saga.Repairs) error {
			b.bank.on(saga.CallCharge, reply{becomes: paid, outcome: providers.Outcome{Kind: providers.Declined, Decline: &providers.Decline{Code: "no"}}})
			b.start(order, cups())
			return func(r saga.Repairs) error {
				return r.Notify(b.ctx, refOf(order), looked("pay_1", providers.Succeeded, ""))
			}
		}, func(b *bundle, order saga.Claim) {
			b.wantRepaired(order, repaired{saga.RolledBack, saga.OrderCanceled, saga.PaymentRefunded, 10, 0, b.voids(), 1200})
		}, 10},
		"release": {func(b *bundle, order saga.Claim) func(saga.Repairs) error {
			b.bank.on(saga.CallCharge, refuses(providers.Outcome{Kind: providers.Declined, Decline: &providers.Decline{Code: "no"}}))
			b.start(order, cups())
			b.exec(`UPDATE reservations SET status = 'held', ended_at = NULL`)
			b.exec(`UPDATE stock SET reserved = 2`)
			return func(r saga.Repairs) error { return r.ReleaseOrphan(b.ctx, refOf(order)) }
		}, func(b *bundle, _ saga.Claim) {
			b.wantStock("cup", 10)
			if written := b.count(`SELECT count(*) FROM audit_log`); written != 1 {
				b.t.Errorf("the audit log has %d entries", written)
			}
		}, 4},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			shared := newBundle(t)
			const mostPoints = 30
			for point := 1; point <= mostPoints; point++ {
				b, order := shared.fresh(t), claimOf(fmt.Sprint("order-", point))
				b.exec(`DELETE FROM audit_log`)
				died := b.repairAndDie(test.bring(b, order), point)
				test.check(b, order)
				if died == "" {
					wantPoints(t, point-1, test.least)
					return
				}
				if t.Failed() {
					t.Fatalf("died %s", died)
				}
			}
			t.Fatalf("still dying after %d points", mostPoints)
		})
	}
}

func (b *bundle) voids() int {
	voids, _ := b.bank.called(saga.CallVoid)
	return voids
}

// repairAndDie has a server die at a point of a repair, and lets another one do it again. It tells where it died; empty: it lived.
func (b *bundle) repairAndDie(repair func(saga.Repairs) error, point int) string {
	b.t.Helper()
	f := &fuse{left: point}
	b.bank.hook(
		func(_ context.Context, call saga.Call) { f.pass("before the " + string(call)) },
		func(call saga.Call) { f.pass("after the " + string(call)) },
	)
	err := repair(saga.Repairs{Runner: b.newRunner(dyingBegin{mortalStore{b.store, f}}), Events: b.store})
	b.bank.hook(nil, nil)
	if (err == nil) != (f.at == "") {
		b.t.Fatalf("died %q, and the repair gave %v", f.at, err)
	}
	b.exec(`UPDATE sagas SET locked_until = now()`)
	if err := repair(b.repairs()); err != nil && f.at != "" {
		b.t.Errorf("died %s, again: %v", f.at, err)
	}
	b.recover(b.runner)
	return f.at
}
