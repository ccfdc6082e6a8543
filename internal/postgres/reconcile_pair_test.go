package postgres_test

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"github.com/google/uuid"

	"paysaga/providers"
	"paysaga/reconcile"
	settlement "paysaga/reconcile/statement"
	"paysaga/saga"
)

// told is a transaction as it is read again.
func told(t providers.Transaction) reconcile.Told {
	return reconcile.Told{Transaction: t, Provider: "fake"}
}

// Everything that is known about an order's payment comes together, whatever it is known by, and nothing of another's.
func TestPairOfAPayment(t *testing.T) {
	t.Parallel()
	b := newBundle(t)
	order, other := b.paid("order", "pay_1"), b.paid("other", "pay_2")
	refund := b.apply(b.outcome(b.refund(order, "refund", 300), saga.CallRefund, given))
	run, _ := b.runOf(1)

	chargeKey, refundKey := saga.SubKey(order.Key, saga.StepCharge, 1), saga.SubKey(refund.Key, saga.StepRefund, 1)
	byReference := payment("pay_1", "")
	byReference.Fee, byReference.FeeCurrency, byReference.Refunded = 40, "EUR", 500
	byKey := payment("pay_dup", saga.SubKey(order.Key, saga.StepCharge, 2))
	bySagaKey := payment("pay_third", "")
	bySagaKey.SagaKey = order.Key.String()
	byPayment := payment("cap_1", "")
	byPayment.Payment, byPayment.Status = "pay_1", providers.Authorized
	byRefundKey := payment("re_1", refundKey)
	byRefundKey.Kind, byRefundKey.Payment = providers.TransactionRefund, "pay_1"
	behind := payment("re_9", "") // of the capture, which no step knows
	behind.Kind, behind.Payment = providers.TransactionRefund, "cap_1"
	foreign := payment("pay_foreign", "a-key-of-another-system")
	b.tell(run, behind, foreign, byRefundKey, byPayment, bySagaKey, byKey, byReference, payment("pay_2", saga.SubKey(other.Key, saga.StepCharge, 1)))

	lines := []settlement.Line{line(2, "b_1"), line(3, "b_2"), line(4, "b_3"), line(5, "b_4")}
	lines[1].Payment, lines[1].Reference = "", "re_9" // which a list tells of
	lines[2].Payment, lines[2].Key, lines[2].Original = "", chargeKey, providers.Money{Amount: 1400, Currency: "USD"}
	lines[3].Payment = "pay_foreign"
	b.must(b.store.PutLines(b.ctx, run, "fake", lines))
	if pair, err := b.store.ReadPair(b.ctx, reconcile.Place{AccountID: account, OrderID: order.Key}); err != nil || len(pair.Settled) > 0 {
		t.Errorf("half a file is told as %+v (%v)", pair.Settled, err)
	}
	b.close(run, settlement.Report{Provider: "fake"})

	b.keepEvents(
		providers.Notice{ID: "by_payment", About: providers.AboutCharge, Payment: "pay_1", At: noon},
		providers.Notice{ID: "by_key", About: providers.AboutRefund, Key: refundKey, At: noon},
		providers.Notice{ID: "of_another", About: providers.AboutCharge, Payment: "pay_2", At: noon},
		providers.Notice{ID: "applied", About: providers.AboutCharge, Payment: "pay_1", At: noon},
	)
	b.exec(`UPDATE webhook_events SET status = 'parked', next_attempt_at = NULL WHERE event_id = 'by_key'`)
	b.exec(`UPDATE webhook_events SET status = 'applied', next_attempt_at = NULL, applied_at = now(), account_id = $1, saga_key = $2
		WHERE event_id = 'applied'`, account, order.Key)

	got, err := b.store.ReadPair(b.ctx, reconcile.Place{AccountID: account, OrderID: order.Order.ID})
	if err != nil {
		t.Fatal(err)
	}
	charge := order.Newest(saga.StepCharge)
	want := reconcile.Pair{
		Payment: reconcile.Payment{
			AccountID: account, OrderID: order.Order.ID, State: saga.Completed, Capture: saga.CaptureAutomatic,
			Money: providers.Money{Amount: 1200, Currency: "EUR"}, Captured: 1200, Refunded: 300,
			Charges: []reconcile.Charge{{
				Provider: "fake", Key: chargeKey, Attempt: 1, Reference: "pay_1", Status: saga.StepDone, Outcome: providers.Succeeded,
				StartedAt: charge.StartedAt, SettledAt: charge.FinishedAt,
			}},
			Refunds: []reconcile.Refund{{
				SagaKey: refund.Key, State: saga.Completed, Provider: "fake", Key: refundKey, Reference: "re_1", Amount: 300, Status: saga.StepDone,
			}},
		},
		There: []reconcile.Told{
			told(byPayment), told(byReference), told(byKey), told(bySagaKey), told(byRefundKey), told(behind),
		},
		Events: []reconcile.Event{{Provider: "fake", ID: "by_key", Parked: true}, {Provider: "fake", ID: "by_payment"}},
	}
	for _, l := range lines[:3] {
		want.Settled = append(want.Settled, reconcile.Settlement{Line: l, Provider: "fake"})
	}
	timeless := cmp.Options{
		cmpopts.IgnoreFields(reconcile.Payment{}, "CreatedAt", "UpdatedAt"), cmpopts.IgnoreFields(reconcile.Told{}, "ToldAt"),
		cmpopts.IgnoreFields(reconcile.Refund{}, "UpdatedAt", "StartedAt", "SettledAt"), cmpopts.IgnoreFields(reconcile.Event{}, "ReceivedAt"),
		cmpopts.SortSlices(func(x, y reconcile.Event) bool { return x.ID < y.ID }),
	}
	if diff := cmp.Diff(want, got, timeless); diff != "" {
		t.Errorf("pair (-want +got):\n%s", diff)
	}
	if _, err := b.store.ReadPair(b.ctx, reconcile.Place{AccountID: "shop2", OrderID: order.Order.ID}); !errors.Is(err, saga.ErrNotFound) {
		t.Errorf("another account's: %v", err)
	}
}

func (b *bundle) keepEvents(notices ...providers.Notice) {
	b.t.Helper()
	_, err := b.store.KeepEvents(b.ctx, "fake", notices)
	b.must(err)
}

// A capture bears the key of the request for it, not the order's.
func TestPairOfACapture(t *testing.T) {
	t.Parallel()
	b := newBundle(t)
	capturing := b.ask(b.held("held"), "capture", capture)
	run := b.reconcile()
	asked := capturing.Newest(saga.StepCapture).SubKey
	b.tell(run, payment("cap_1", asked))
	pairs := b.nextPairs(scopeOf(run), reconcile.Place{}, 9)
	if len(pairs) != 1 || len(pairs[0].Payment.Charges) != 1 {
		t.Fatalf("in scope are %+v", pairs)
	}
	p, there := pairs[0].Payment, pairs[0].There
	wantCaptures := []reconcile.Capture{{Provider: "fake", Key: asked, Amount: capturing.Newest(saga.StepCapture).Amount, Status: saga.StepPending}}
	if diff := cmp.Diff(wantCaptures, p.Captures); diff != "" {
		t.Errorf("its captures (-want +got):\n%s", diff)
	}
	if !slices.Equal(p.Charges[0].Captures, []providers.SubKey{asked}) || !p.Busy || p.DueAt.IsZero() || !p.HeldStock {
		t.Errorf("the payment is %+v", p)
	}
	if len(there) != 1 || there[0].Reference != "cap_1" {
		t.Errorf("there is %+v", there)
	}
	if left, err := b.store.NextUnclaimed(b.ctx, scopeOf(run), reconcile.Provided{}, 9); err != nil || len(left) != 0 {
		t.Errorf("left over is %+v, %v", left, err)
	}
}

// What gives money back to undo an order is a refund of its own saga.
func TestPairOfAnOrderThatIsUndone(t *testing.T) {
	t.Parallel()
	b := newBundle(t)
	undoing := b.undoing()
	pair, err := b.store.ReadPair(b.ctx, reconcile.Place{AccountID: account, OrderID: undoing.Order.ID})
	if err != nil {
		t.Fatal(err)
	}
	step := undoing.Newest(saga.StepRefund)
	want := []reconcile.Refund{{
		SagaKey: undoing.Key, State: pair.Payment.State, Busy: pair.Payment.Busy, DueAt: pair.Payment.DueAt, UpdatedAt: pair.Payment.UpdatedAt,
		Provider: "fake", Key: step.SubKey, Reference: step.ProviderReference, Amount: 1200, Status: step.Status, StartedAt: step.StartedAt,
	}}
	if diff := cmp.Diff(want, pair.Payment.Refunds); diff != "" {
		t.Errorf("what undoes it (-want +got):\n%s", diff)
	}
}

// What brings an order into a run's scope, and what does not.
func TestScopeOfARun(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		prepare func(b *bundle, run reconcile.Run, order saga.Saga)
		scope   reconcile.Scope
		out     bool
	}{
		"nothing":             {prepare: func(*bundle, reconcile.Run, saga.Saga) {}, out: true},
		"began in the window": {scope: reconcile.Scope{Since: noon.AddDate(-9, 0, 0), Until: time.Now().Add(time.Hour)}},
		"began before it":     {scope: reconcile.Scope{Since: time.Now().Add(time.Hour), Until: time.Now().Add(2 * time.Hour)}, out: true},
		"at another provider": {scope: reconcile.Scope{Since: noon.AddDate(-9, 0, 0), Until: time.Now().Add(time.Hour), Providers: []string{"other"}}, out: true},
		"told by key": {prepare: func(b *bundle, run reconcile.Run, s saga.Saga) {
			b.tell(run, payment("p", saga.SubKey(s.Key, saga.StepCharge, 7)))
		}},
		"told by saga": {prepare: func(b *bundle, run reconcile.Run, s saga.Saga) {
			p := payment("p", "")
			p.SagaKey = s.Key.String()
			b.tell(run, p)
		}},
		"told by payment": {prepare: func(b *bundle, run reconcile.Run, _ saga.Saga) {
			p := payment("p", "")
			p.Payment = "pay_1"
			b.tell(run, p)
		}},
		"told by reference": {prepare: func(b *bundle, run reconcile.Run, _ saga.Saga) {
			p := payment("pay_1", "")
			p.Payment = ""
			b.tell(run, p)
		}},
		"told to another run": {prepare: func(b *bundle, run reconcile.Run, _ saga.Saga) {
			b.tell(run, payment("pay_1", ""))
			b.exec(`UPDATE provider_transactions SET run_id = gen_random_uuid()`)
		}, out: true},
		"settled by payment": {prepare: func(b *bundle, run reconcile.Run, _ saga.Saga) {
			b.must(b.store.PutLines(b.ctx, run, "fake", []settlement.Line{line(2, "b")}))
		}},
		"settled elsewhere": {prepare: func(b *bundle, run reconcile.Run, _ saga.Saga) {
			b.must(b.store.PutLines(b.ctx, run, "fake", []settlement.Line{line(2, "b")}))
			b.exec(`UPDATE settlement_lines SET file_id = file_id + 1`)
		}, out: true},
		"a refund told by key": {prepare: func(b *bundle, run reconcile.Run, s saga.Saga) {
			r := b.refund(s, "refund", 300)
			b.tell(run, payment("p", saga.SubKey(r.Key, saga.StepRefund, 1)))
		}},
		"a refund stuck":     {prepare: func(b *bundle, _ reconcile.Run, s saga.Saga) { b.refund(s, "refund", 300) }, scope: reconcile.Scope{StuckSince: time.Now().Add(time.Hour)}},
		"a refund not stuck": {prepare: func(b *bundle, _ reconcile.Run, s saga.Saga) { b.refund(s, "refund", 300) }, scope: reconcile.Scope{StuckSince: noon.AddDate(-9, 0, 0)}, out: true},
		"stock held": {prepare: func(b *bundle, _ reconcile.Run, s saga.Saga) {
			b.exec(`UPDATE reservations SET status = 'held', ended_at = NULL WHERE saga_key = $1`, s.Key)
		}},
		"an event waits": {prepare: func(b *bundle, _ reconcile.Run, _ saga.Saga) {
			b.keepEvents(providers.Notice{ID: "e", About: providers.AboutCharge, Payment: "pay_1", At: noon})
		}, scope: reconcile.Scope{EventSince: time.Now().Add(time.Hour)}},
		"an event by key": {prepare: func(b *bundle, _ reconcile.Run, s saga.Saga) {
			b.keepEvents(providers.Notice{ID: "e", About: providers.AboutCharge, Key: saga.SubKey(s.Key, saga.StepCharge, 1), At: noon})
		}, scope: reconcile.Scope{EventSince: time.Now().Add(time.Hour)}},
		"an event is new": {prepare: func(b *bundle, _ reconcile.Run, _ saga.Saga) {
			b.keepEvents(providers.Notice{ID: "e", About: providers.AboutCharge, Payment: "pay_1", At: noon})
		}, scope: reconcile.Scope{EventSince: noon.AddDate(-9, 0, 0)}, out: true},
		"a finding is open": {prepare: func(b *bundle, run reconcile.Run, s saga.Saga) {
			b.judge(run, nil, ofOrder(s, reconcile.AmountMismatch))
		}},
		"a finding healed": {prepare: func(b *bundle, run reconcile.Run, s saga.Saga) {
			b.judge(run, nil, ofOrder(s, reconcile.AmountMismatch))
			b.judge(run, []saga.Saga{s})
		}, out: true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := newBundle(t)
			order := b.paid("order", "pay_1")
			run, _ := b.runOf(1)
			if test.prepare != nil {
				test.prepare(b, run, order)
			}
			scope := test.scope
			scope.Run = run.ID
			if scope.Providers == nil {
				scope.Providers = run.Providers
			}
			pairs := b.nextPairs(scope, reconcile.Place{}, 9)
			switch {
			case test.out && len(pairs) != 0:
				t.Errorf("in scope are %+v", pairs)
			case !test.out && (len(pairs) != 1 || pairs[0].Payment.OrderID != order.Order.ID):
				t.Errorf("%d in scope", len(pairs))
			}
		})
	}
}

// Batches follow each other without gap or repeat, also for a process that takes the run up, and with as many statements for many payments
// as for one.
func TestBatchesOfPairs(t *testing.T) {
	t.Parallel()
	b := newBundle(t)
	b.putStock("cup", 100)
	run := b.reconcile()
	want := make([]string, 0, 7)
	for i := range 7 {
		order := b.paid(fmt.Sprintf("order%d", i), fmt.Sprintf("pay_%d", i))
		b.tell(run, payment(fmt.Sprintf("pay_%d", i), ""))
		want = append(want, order.Order.ID.String())
	}
	slices.Sort(want)
	var got []string
	after := reconcile.Place{}
	for {
		pairs := b.nextPairs(scopeOf(run), after, 3)
		if len(pairs) == 0 {
			break
		}
		for _, pair := range pairs {
			got = append(got, pair.Payment.OrderID.String())
			if len(pair.There) != 1 {
				t.Errorf("%d transactions of %s", len(pair.There), pair.Payment.OrderID)
			}
			after = reconcile.Place{AccountID: pair.Payment.AccountID, OrderID: pair.Payment.OrderID}
		}
		if len(got) == 3 {
			b.tell(run, payment("pay_0", "")) // what comes meanwhile does not begin the list anew
			b.leave()
			run = b.reconcile()
		}
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("pairs (-want +got):\n%s", diff)
	}
	b.end(run)
	if n := b.count(`SELECT count(*) FROM reconciliation_scope`); n != 0 {
		t.Errorf("%d are left in the list after the run", n)
	}
	c := b.counting()
	again := b.reconcile()
	b.tell(again, payment("pay_0", ""), payment("pay_1", ""), payment("pay_2", ""))
	b.nextPairs(scopeOf(again), reconcile.Place{}, 1)
	c.take()
	b.nextPairs(scopeOf(again), reconcile.Place{AccountID: account}, 1)
	one := c.take()
	b.nextPairs(scopeOf(again), reconcile.Place{AccountID: account}, 3)
	if many := c.take(); many != one {
		t.Errorf("a batch of three takes %v, of one %v", many, one)
	}
}

// A list that another run has begun since is not gone on in.
func TestAListOfAnotherRun(t *testing.T) {
	t.Parallel()
	b := newBundle(t)
	order := b.paid("order", "pay_1")
	left := b.reconcile()
	b.tell(left, payment("pay_1", ""))
	if pairs := b.nextPairs(scopeOf(left), reconcile.Place{}, 9); len(pairs) != 1 {
		t.Fatalf("%d pairs", len(pairs))
	}
	b.leave()
	other, err := b.store.BeginRun(b.ctx, aRun(reconcile.ModeApply), time.Minute)
	b.must(err)
	if pairs := b.nextPairs(scopeOf(other), reconcile.Place{}, 9); len(pairs) != 0 {
		t.Errorf("the other run is about %d", len(pairs))
	}
	b.end(other)
	again := b.reconcile()
	if again.ID != left.ID {
		t.Fatalf("%s goes on, not %s", again.ID, left.ID)
	}
	if pairs := b.nextPairs(scopeOf(again), reconcile.Place{AccountID: account}, 9); len(pairs) != 1 || pairs[0].Payment.OrderID != order.Order.ID {
		t.Errorf("goes on with %d", len(pairs))
	}
}

func TestUnclaimed(t *testing.T) {
	t.Parallel()
	b := newBundle(t)
	order := b.paid("order", "pay_1")
	run, _ := b.runOf(1)
	child := payment("re_8", "")
	child.Kind, child.Payment = providers.TransactionRefund, "pay_8"
	ofOurs := payment("re_1", "") // of a capture that no step knows
	ofOurs.Kind, ofOurs.Payment = providers.TransactionRefund, "cap_1"
	ourCapture := payment("cap_1", "")
	ourCapture.Payment = "pay_1"
	lost := payment("pay_9", saga.SubKey(uuid.New(), saga.StepCharge, 1))
	b.tell(run, payment("pay_1", ""), payment("pay_other", saga.SubKey(order.Key, saga.StepCharge, 3)), ofOurs, ourCapture, payment("pay_8", ""), child, lost)
	lines := []settlement.Line{line(2, "b_1"), line(3, "b_2"), line(4, "b_3"), line(5, "b_4")}
	lines[1].Payment = "pay_9"
	lines[2].Payment, lines[2].Reference = "", "dp_1"
	lines[2].Kind = settlement.LineChargeback
	lines[3].Payment, lines[3].Reference, lines[3].Kind = "", "fee_1", settlement.LineFee
	b.must(b.store.PutLines(b.ctx, run, "fake", lines))
	b.close(run, settlement.Report{})
	half, err := b.store.OpenStatement(b.ctx, "fake", "half.csv", [32]byte{2}) // of which a line is kept, and no run has gone on with it
	b.must(err)
	b.exec(`INSERT INTO settlement_lines (provider, file_id, id, number, kind, payment, gross, fee, net, currency, booked_at)
		SELECT provider, $1, 'b_half', 2, kind, 'pay_8', gross, fee, net, currency, booked_at FROM settlement_lines WHERE id = 'b_2'`, half.ID)
	// Found by earlier runs: one that is an order's by now, one that is still nobody's, one that is gone; and two that are about no payment.
	ofAFile, ofMany := ofNobody("statement 1"), ofNobody("statement 1"+reconcile.ReferenceUntold)
	ofAFile.Kind = reconcile.StatementMismatch
	b.judge(run, nil, ofNobody("pay_1"), ofNobody("pay_old"), ofNobody("pay_gone"), ofAFile, ofMany)
	if n, err := b.store.CountUnclaimed(b.ctx, "fake"); err != nil || n != 4 {
		t.Errorf("counted %d, %v", n, err)
	}
	old := payment("pay_old", "")
	b.tell(run, old)
	b.exec(`UPDATE provider_transactions SET run_id = gen_random_uuid() WHERE reference = 'pay_old'`)

	var got []string
	after := reconcile.Provided{}
	for {
		page, err := b.store.NextUnclaimed(b.ctx, scopeOf(run), after, 2)
		if err != nil {
			t.Fatal(err)
		}
		if len(page) == 0 {
			break
		}
		for _, u := range page {
			after = reconcile.Provided{Provider: u.Provider, Reference: u.Reference}
			said := []string{u.Reference}
			if u.Open {
				said = append(said, "open")
			}
			for _, told := range u.There {
				said = append(said, string(told.Kind)+":"+told.Reference)
			}
			for _, line := range u.Settled {
				said = append(said, "line:"+line.ID)
			}
			got = append(got, strings.Join(said, " "))
		}
	}
	want := []string{
		"dp_1 line:b_3", "pay_1 open", "pay_8 payment:pay_8 refund:re_8", "pay_9 payment:pay_9 line:b_2", "pay_gone open",
		"pay_old open payment:pay_old",
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("left over (-want +got):\n%s", diff)
	}
}

// Of two lists that tell of one transaction, the later one counts; of two places in one list as well.
func TestTransactionsAreToldAgain(t *testing.T) {
	t.Parallel()
	b := newBundle(t)
	order := b.paid("order", "pay_1")
	run := b.reconcile()
	earlier, later := payment("pay_1", ""), payment("pay_1", "")
	earlier.Status, later.Refunded = providers.Processing, 100
	b.tell(run, earlier, payment("pay_1", ""))
	b.tell(run, earlier, later)
	pair, err := b.store.ReadPair(b.ctx, reconcile.Place{AccountID: account, OrderID: order.Order.ID})
	if err != nil || len(pair.There) != 1 {
		t.Fatalf("%d transactions, %v", len(pair.There), err)
	}
	if diff := cmp.Diff(told(later), pair.There[0], cmpopts.IgnoreFields(reconcile.Told{}, "ToldAt")); diff != "" {
		t.Errorf("told (-want +got):\n%s", diff)
	}
}

// What a provider announces is kept as if it had listed it: the newest of each thing, in whatever order it came.
func TestNoticesAsTransactions(t *testing.T) {
	t.Parallel()
	b := newBundle(t)
	automatic := b.paid("automatic", "psp_1")
	manual := b.apply(b.outcome(b.beginPaid("manual", saga.Payment{Provider: "fake", Method: "pm_1", Capture: saga.CaptureManual}), saga.CallCharge,
		providers.Outcome{Kind: providers.Authorized, Reference: "psp_2"}))
	outcome := func(kind providers.OutcomeKind, amount int64) *providers.Outcome {
		o := providers.Outcome{Kind: kind}
		if amount > 0 {
			o.Money = providers.Money{Amount: amount, Currency: "EUR"}
		}
		return &o
	}
	at := func(minute int) time.Time { return noon.Add(time.Duration(minute) * time.Minute) }
	charge := func(s saga.Saga) providers.SubKey { return saga.SubKey(s.Key, saga.StepCharge, 1) }
	gaveBack := outcome(providers.Succeeded, 0)
	gaveBack.Code = providers.CodeRefunded
	b.keepEvents(
		providers.Notice{ID: "1", About: providers.AboutCharge, Key: charge(automatic), Payment: "psp_1", Outcome: outcome(providers.Authorized, 1200), At: at(1)},
		providers.Notice{ID: "2", About: providers.AboutCharge, Key: charge(manual), Payment: "psp_2", Outcome: outcome(providers.Authorized, 1200), At: at(1)},
		providers.Notice{ID: "3", About: providers.AboutCapture, Payment: "psp_2", Reference: "cap_1", Outcome: outcome(providers.Declined, 700), At: at(9)},
		providers.Notice{ID: "4", About: providers.AboutCapture, Key: saga.SubKey(manual.Key, saga.StepCapture, 1), Payment: "psp_2", Reference: "cap_1", Outcome: outcome(providers.Succeeded, 700), At: at(8)},
		providers.Notice{ID: "5", About: providers.AboutRefund, Payment: "psp_1", Reference: "re_1", Outcome: outcome(providers.Succeeded, 300), At: at(5)},
		providers.Notice{ID: "6", About: providers.AboutVoid, Payment: "psp_3", Reference: "void_1", Outcome: outcome(providers.Succeeded, 0), At: at(7)},
		providers.Notice{ID: "7", About: providers.AboutCharge, Payment: "psp_3", Outcome: outcome(providers.Authorized, 900), At: at(3)},
		providers.Notice{ID: "8", About: providers.AboutVoid, Payment: "psp_1", Reference: "void_2", Outcome: gaveBack, At: at(7)},
		providers.Notice{ID: "9", About: providers.AboutOther, Payment: "psp_1", At: at(7)},
		providers.Notice{ID: "10", About: providers.AboutRefund, Payment: "psp_1", Reference: "re_2", Outcome: outcome(providers.Unknown, 300), At: at(7)},
	)
	run := b.reconcile()
	window := reconcile.Coverage{From: b.now().Add(-time.Hour), Until: b.now().Add(time.Hour)}
	for range 2 {
		if n, err := b.store.PutNotices(b.ctx, run, "fake", window); err != nil || n != 6 {
			t.Fatalf("%d transactions, %v", n, err)
		}
	}
	if n, err := b.store.PutNotices(b.ctx, run, "fake", reconcile.Coverage{From: noon, Until: noon.Add(1)}); err != nil || n != 0 {
		t.Errorf("of another time %d, %v", n, err)
	}
	var got []string
	rows, err := b.pool.Query(b.ctx, `SELECT concat_ws(' ', kind, reference || '/' || payment, status, amount, currency, named_saga IS NOT NULL, to_char(made_at, 'MI'))
		FROM provider_transactions ORDER BY reference`)
	b.must(err)
	for rows.Next() {
		var text string
		b.must(rows.Scan(&text))
		got = append(got, text)
	}
	want := []string{
		"payment cap_1/psp_2 declined 700 EUR t 08", "payment psp_1/psp_1 succeeded 1200 EUR t 01", "payment psp_2/psp_2 authorized 1200 EUR t 01",
		"payment psp_3/psp_3 canceled 900 EUR f 03", "refund re_1/psp_1 succeeded 300 EUR f 05", "refund void_2/psp_1 succeeded 0  f 07",
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("kept (-want +got):\n%s", diff)
	}
}
