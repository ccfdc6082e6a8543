package saga_test

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"paysaga/providers"
	"paysaga/saga"
)

// deciding is a decision of the test's operator.
func deciding(resolution saga.Resolution) saga.Decision {
	return saga.Decision{Resolution: resolution, Actor: "key test (1)", Reason: "a test of decisions"}
}

func takenAs(payment string, amount int64) saga.Decision {
	decision := deciding(saga.ResolveTaken)
	decision.Payment, decision.Amount = payment, amount
	return decision
}

func (b *bundle) decide(claim, order saga.Claim, decision saga.Decision) saga.Answer {
	b.t.Helper()
	answer, err := b.runner.Decide(b.ctx, claim, refOf(order), decision)
	if err != nil {
		b.t.Fatalf("%s: %v", decision.Resolution, err)
	}
	return answer
}

// inReview is an order of which a provider announced what contradicts it.
func (b *bundle) inReview(claim saga.Claim, order saga.Order) {
	b.t.Helper()
	b.start(claim, order)
	b.find(refOf(claim))
}

// find brings a saga into review.
func (b *bundle) find(ref saga.Ref) {
	b.t.Helper()
	s, err := b.store.Load(b.ctx, ref)
	if err != nil {
		b.t.Fatal(err)
	}
	if s, err = b.store.Seize(b.ctx, ref, s.Lease.Fence, longLease); err != nil {
		b.t.Fatal(err)
	}
	change, err := saga.Advance(s, saga.Event{Kind: saga.Contradicted, Code: "captured_at_provider", Detail: "It says so."}, saga.DefaultPolicy())
	if err != nil {
		b.t.Fatal(err)
	}
	change.Release = true
	if _, err := b.store.Apply(b.ctx, change); err != nil {
		b.t.Fatal(err)
	}
}

// wantDecided checks the audit log and that nothing found is left open.
func (b *bundle) wantDecided(order saga.Claim, decisions ...saga.Decision) {
	b.t.Helper()
	review, err := b.store.GetReview(b.ctx, order.AccountID, refOf(order).Key)
	if err != nil {
		b.t.Fatal(err)
	}
	got, want := make([]string, 0, len(review.Audit)), make([]string, 0, len(decisions))
	for _, entry := range review.Audit {
		got = append(got, fmt.Sprintln(entry.Actor, entry.Action, entry.Reason, entry.OutsideProvider))
	}
	for _, d := range decisions {
		want = append(want, fmt.Sprintln(d.Actor, "saga."+string(d.Resolution), d.Reason, d.OutsideProvider))
	}
	if diff := cmp.Diff(want, got); diff != "" {
		b.t.Errorf("audit log (-want +got):\n%s", diff)
	}
	for _, finding := range review.Findings {
		if finding.ResolvedAt.IsZero() {
			b.t.Errorf("%s is open", finding.Kind)
		}
	}
}

// written is all that a decision could change.
func (b *bundle) written() string {
	b.t.Helper()
	var all string
	row := b.pool.QueryRow(b.ctx, `SELECT jsonb_build_object(
		'sagas', (SELECT jsonb_agg(s ORDER BY s.key) FROM sagas s), 'steps', (SELECT jsonb_agg(t ORDER BY t.sub_key) FROM saga_steps t),
		'orders', (SELECT jsonb_agg(o ORDER BY o.id) FROM orders o), 'refunds', (SELECT jsonb_agg(r ORDER BY r.id) FROM refunds r),
		'stock', (SELECT jsonb_agg(c ORDER BY c.sku) FROM stock c), 'reservations', (SELECT jsonb_agg(v ORDER BY v.saga_key) FROM reservations v),
		'keys', (SELECT jsonb_agg(k ORDER BY k.key) FROM idempotency_keys k), 'findings', (SELECT jsonb_agg(f ORDER BY f.id) FROM findings f),
		'audit', (SELECT jsonb_agg(a ORDER BY a.id) FROM audit_log a), 'events', (SELECT jsonb_agg(e ORDER BY e.id) FROM outbox_events e))::text`)
	if err := row.Scan(&all); err != nil {
		b.t.Fatal(err)
	}
	return all
}

func wantRefused(t *testing.T, err error, reason saga.RefusalReason) {
	t.Helper()
	if refused, ok := errors.AsType[*saga.RefusedError](err); !ok || refused.Reason != reason {
		t.Errorf("error %v, want a refusal as %q", err, reason)
	}
}

// Of many decisions about one saga at the same time one is carried out, whatever the others are; those under its own key are repeats of
// it, and all others are refused.
func TestOneOfManyDecisionsWins(t *testing.T) {
	t.Parallel()
	b, order := newBundle(t), claimOf("order")
	b.inReview(order, heldCups())
	b.bank.set(chargeKey(order), paid)
	const deciders = 12
	var errs [deciders]error
	atOnce(deciders, func(i int) {
		decision, claim := takenAs("pay_1", 1200), claimOn("resolve", "same")
		if i%2 == 1 {
			decision, claim = deciding(saga.ResolveRetry), claimOn("retry", strconv.Itoa(i))
		}
		_, errs[i] = b.runner.Decide(b.ctx, claim, refOf(order), decision)
	})
	won := 0
	for i, err := range errs {
		_, refused := errors.AsType[*saga.RefusedError](err)
		switch {
		case err == nil:
			won++
		case !refused && !errors.Is(err, saga.ErrKeyTaken):
			t.Errorf("decision %d: %v", i, err)
		}
	}
	if won != 1 {
		t.Errorf("%d decisions were carried out", won)
	}
	b.wantState(order, saga.Completed, saga.OrderConfirmed, saga.PaymentCaptured)
	if decided := b.count(`SELECT count(*) FROM audit_log`); decided != won {
		t.Errorf("%d decisions were carried out, the audit log has %d", won, decided)
	}
	if closed := b.count(`SELECT count(*) FROM findings WHERE resolved_at IS NOT NULL`); closed != 1 {
		t.Errorf("%d findings are resolved", closed)
	}
	if events := b.count(`SELECT count(*) FROM outbox_events WHERE type = 'order.confirmed'`); events != 2 { // when it was held, and in the end
		t.Errorf("%d events that the order is confirmed", events)
	}
	b.wantStock("cup", 8)
	b.wantTaken(1, 1)
}

// The same decision again under its key finds that taken, and another one about what is decided is refused; neither writes anything.
func TestDecisionIsMadeOnce(t *testing.T) {
	t.Parallel()
	b, order, claim := newBundle(t), claimOf("order"), claimOn("resolve", "it")
	b.inReview(order, heldCups())
	b.bank.set(chargeKey(order), canceled)
	answer := b.decide(claim, order, deciding(saga.ResolveNothingKept))
	b.wantState(order, saga.RolledBack, saga.OrderCanceled, saga.PaymentVoided)
	b.wantStock("cup", 10)
	if record := b.record(claim); string(record.Answer.Body) != string(answer.Body) || record.Answer.Status != answer.Status {
		t.Errorf("the key holds %d %q", record.Answer.Status, record.Answer.Body)
	}
	before := b.written()
	for _, again := range []saga.Claim{claim, claimOn("resolve", "other")} {
		_, err := b.runner.Decide(b.ctx, again, refOf(order), deciding(saga.ResolveNothingKept))
		wantRefused(t, err, saga.RefusedNotInReview)
	}
	if after := b.written(); after != before {
		t.Errorf("something was written (-before +after):\n%s", cmp.Diff(before, after))
	}
	b.wantDecided(order, deciding(saga.ResolveNothingKept))
}

// What the provider tells against a decision refuses it, and nothing is written. What it does not tell does not.
func TestProviderHasItsSay(t *testing.T) {
	t.Parallel()
	outside := deciding(saga.ResolveNothingKept)
	outside.OutsideProvider = true
	down := []reply{nothing(), nothing(), nothing()}
	for name, test := range map[string]struct {
		status   string // of the payment, of 1200
		replies  []reply
		decision saga.Decision
		refused  bool
		asked    int
	}{
		"nothing kept, canceled":          {canceled, nil, deciding(saga.ResolveNothingKept), false, 1},
		"nothing kept, refunded":          {refunded, nil, deciding(saga.ResolveNothingKept), false, 1},
		"nothing kept, held":              {held, nil, deciding(saga.ResolveNothingKept), true, 1},
		"nothing kept, paid":              {paid, nil, deciding(saga.ResolveNothingKept), true, 1},
		"nothing kept, waiting":           {waiting, nil, deciding(saga.ResolveNothingKept), true, 1},
		"nothing kept, moving":            {moving, nil, deciding(saga.ResolveNothingKept), true, 1},
		"nothing kept, several":           {held, []reply{refuses(providers.Outcome{Kind: providers.Unknown, Code: providers.CodeSeveralPayments})}, deciding(saga.ResolveNothingKept), true, 1},
		"nothing kept, no answer":         {held, down, deciding(saga.ResolveNothingKept), false, 1},
		"nothing kept, busy":              {held, []reply{refuses(providers.Outcome{Kind: providers.Busy})}, deciding(saga.ResolveNothingKept), false, 1},
		"nothing kept, outside of it":     {paid, nil, outside, false, 0},
		"taken, paid":                     {paid, nil, takenAs("pay_1", 1200), false, 1},
		"taken, of another amount":        {paid, nil, takenAs("pay_1", 1100), true, 1},
		"taken, held":                     {held, nil, takenAs("pay_1", 1200), true, 1},
		"taken, canceled":                 {canceled, nil, takenAs("pay_1", 1200), true, 1},
		"taken, refunded":                 {refunded, nil, takenAs("pay_1", 1200), true, 1},
		"taken, another payment's id":     {paid, nil, takenAs("pay_7", 1200), true, 1},
		"taken, of another order":         {paid, []reply{refuses(providers.Outcome{Kind: providers.Unknown, Code: providers.CodeOtherPayment})}, takenAs("pay_1", 1200), true, 1},
		"taken, a part is refunded":       {paid, []reply{refuses(providers.Outcome{Kind: providers.Succeeded, Code: providers.CodePartiallyRefunded})}, takenAs("pay_1", 1200), true, 1},
		"taken, no answer":                {held, down, takenAs("pay_1", 1200), false, 1},
		"taken, and it refuses to answer": {held, []reply{refuses(providers.Outcome{Kind: providers.Rejected})}, takenAs("pay_1", 1200), false, 1},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b, order := newBundle(t), claimOf("order")
			b.inReview(order, heldCups())
			b.bank.set(chargeKey(order), test.status)
			b.bank.on(saga.CallLookup, test.replies...)
			before := b.written()
			_, err := b.runner.Decide(b.ctx, claimOn("resolve", "it"), refOf(order), test.decision)
			if asked, _ := b.bank.called(saga.CallLookup); asked != test.asked {
				t.Errorf("the provider was asked %d times", asked)
			}
			if !test.refused {
				if err != nil {
					t.Fatal(err)
				}
				b.wantDecided(order, test.decision)
				return
			}
			wantRefused(t, err, saga.RefusedContradicted)
			if after := b.written(); after != before {
				t.Errorf("something was written (-before +after):\n%s", cmp.Diff(before, after))
			}
		})
	}
}

// A refund that the provider has made is not decided as not given; one that it does not know is.
func TestProviderHasItsSayAboutRefunds(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		made     bool
		decision saga.Resolution
		refused  bool
		state    saga.State
		left     int64 // captured and not given back
	}{
		"not given, made":     {true, saga.ResolveNotGiven, true, saga.NeedsReview, 1200},
		"not given, not made": {false, saga.ResolveNotGiven, false, saga.RolledBack, 1200},
		"given, not made":     {false, saga.ResolveGiven, false, saga.Completed, 700},
		"given, made":         {true, saga.ResolveGiven, false, saga.Completed, 700},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b, order, refund := newBundle(t), claimOf("order"), claimOn("refunds", "it")
			b.start(order, cups())
			lost := nothing()
			lost.works = test.made
			b.bank.on(saga.CallRefund, lost, lost, lost)
			if _, err := b.runner.Refund(b.ctx, refund, refOf(order), 500, ""); err != nil {
				t.Fatal(err)
			}
			b.find(refOf(refund))
			if test.decision == saga.ResolveNotGiven && !test.made {
				_, err := b.runner.Decide(b.ctx, claimOn("resolve", "early"), refOf(refund), deciding(test.decision))
				wantRefused(t, err, saga.RefusedUnfit) // the provider could still find it
			}
			b.exec(`UPDATE saga_steps SET started_at = now() - interval '3 days', sent_at = now() - interval '2 days'`)
			_, err := b.runner.Decide(b.ctx, claimOn("resolve", "it"), refOf(refund), deciding(test.decision))
			if test.refused {
				wantRefused(t, err, saga.RefusedContradicted)
			} else if err != nil {
				t.Fatal(err)
			}
			s, err := b.store.Load(b.ctx, refOf(refund))
			if err != nil {
				t.Fatal(err)
			}
			payment := s.Order.Payment
			if s.State != test.state || payment.CapturedAmount-payment.RefundedAmount != test.left || !test.refused && payment.RefundingAmount != 0 {
				t.Errorf("the refund is %s; %d captured, %d refunded, %d on its way", s.State, payment.CapturedAmount, payment.RefundedAmount, payment.RefundingAmount)
			}
		})
	}
}

// A retry takes up at once what rests, and what has been given up goes on where it stood. Neither charges anew.
func TestRetryTakesUp(t *testing.T) {
	t.Parallel()
	for name, bring := range map[string]func(b *bundle, order saga.Claim){
		"a charge whose answer was lost": func(b *bundle, order saga.Claim) {
			b.bank.on(saga.CallCharge, losesTheAnswer(), losesTheAnswer(), losesTheAnswer())
			b.start(order, cups())
		},
		"the same in review": func(b *bundle, order saga.Claim) {
			b.bank.on(saga.CallCharge, losesTheAnswer(), losesTheAnswer(), losesTheAnswer())
			b.inReview(order, cups())
		},
		"a customer who has paid": func(b *bundle, order saga.Claim) {
			b.bank.on(saga.CallCharge, asksTheCustomer())
			b.start(order, cups())
			b.bank.set(chargeKey(order), paid)
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b, order := newBundle(t), claimOf("order")
			bring(b, order)
			if answer := b.decide(claimOn("retry", "it"), order, deciding(saga.ResolveRetry)); answer.Status != 201 {
				t.Errorf("answered %d %s", answer.Status, answer.Body)
			}
			b.wantState(order, saga.Completed, saga.OrderConfirmed, saga.PaymentCaptured)
			b.wantTaken(1, 1)
			b.wantStock("cup", 8)
			b.wantDecided(order, deciding(saga.ResolveRetry))
		})
	}
}

// While somebody else has the saga, a decision waits a little, and is then refused for the moment; nothing is written by it. Afterwards
// it is decided by how the saga stands then.
func TestDecisionAboutABusySaga(t *testing.T) {
	t.Parallel()
	b, order := newBundle(t), claimOf("order")
	b.bank.on(saga.CallCharge, nothing(), nothing(), nothing())
	b.start(order, cups())
	out, back := make(chan struct{}), make(chan struct{})
	var first atomic.Bool
	b.bank.hook(func(context.Context, saga.Call) {
		if first.CompareAndSwap(false, true) {
			close(out)
			<-back
		}
	}, nil)
	b.lapse()
	driven := make(chan struct{})
	go func() { defer close(driven); b.recovery(b.newRunner(b.store)).Once(b.ctx) }()
	<-out // recovery has the saga, and its call is out
	before := b.written()
	_, err := b.runner.Decide(b.ctx, claimOn("retry", "it"), refOf(order), deciding(saga.ResolveRetry))
	wantRefused(t, err, saga.RefusedBusy)
	if after := b.written(); after != before {
		t.Errorf("something was written (-before +after):\n%s", cmp.Diff(before, after))
	}
	close(back)
	<-driven
	b.wantState(order, saga.Completed, saga.OrderConfirmed, saga.PaymentCaptured)
	_, err = b.runner.Decide(b.ctx, claimOn("retry", "it"), refOf(order), deciding(saga.ResolveRetry))
	wantRefused(t, err, saga.RefusedOver)
	b.wantTaken(1, 1)
}

// A decision, recovery, a notice and the shop's cancel at the same time: whoever comes first, the money and the stock agree in the end,
// and what was answered is what was written.
func TestDecisionsRaceWithEverybody(t *testing.T) {
	t.Parallel()
	shared := newBundle(t)
	const rounds = 8
	for round := range rounds {
		b, order := shared.fresh(t), claimOf(fmt.Sprint("order-", round))
		b.exec(`DELETE FROM audit_log`)
		b.inReview(order, heldCups())
		retry, cancel, notice := claimOn("retry", strconv.Itoa(round)), claimOn("cancel", strconv.Itoa(round)), providers.Notice{
			About: providers.AboutCharge, Payment: "pay_1", Key: chargeKey(order), Outcome: &providers.Outcome{Kind: providers.Authorized, Reference: "pay_1"},
		}
		var decided, canceled error
		recovery := b.recovery(b.newRunner(b.store))
		atOnce(4, func(i int) {
			switch i {
			case 0:
				_, decided = b.runner.Decide(b.ctx, retry, refOf(order), deciding(saga.ResolveRetry))
			case 1:
				_, canceled = b.newRunner(b.store).Ask(b.ctx, cancel, refOf(order), requestOf(saga.RequestCancel, cancel))
			case 2:
				_ = b.newRunner(b.store).Notify(b.ctx, refOf(order), notice) // it may find the saga in review, or busy: it comes again
			case 3:
				for range 20 {
					recovery.Once(b.ctx)
				}
			}
		})
		if decided != nil {
			t.Fatalf("round %d: the decision: %v", round, decided)
		}
		if _, refused := errors.AsType[*saga.RefusedError](canceled); canceled != nil && !refused {
			t.Fatalf("round %d: the cancel: %v", round, canceled)
		}
		b.recover(b.newRunner(b.store)) // until the hold ends
		b.wantState(order, saga.RolledBack, saga.OrderCanceled, saga.PaymentVoided)
		b.wantStock("cup", 10)
		b.wantTaken(0, 1)
		b.wantDecided(order, deciding(saga.ResolveRetry))
	}
}

// dyingAsk dies around the transaction of a decision, too.
type dyingAsk struct{ mortalStore }

func (m dyingAsk) Ask(ctx context.Context, claim saga.Claim, change saga.Change, lease time.Duration) (saga.Saga, error) {
	m.fuse.pass("before Ask")
	asked, err := m.Store.Ask(ctx, claim, change, lease)
	m.fuse.pass("after Ask")
	return asked, err
}

// A server may die at any point of a decision: it is made wholly or not at all, and who sends it again under its key finishes it. It is
// written down once.
func TestDeciderDies(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		decision saga.Decision
		order    saga.Order
		bring    func(b *bundle, order saga.Claim)
		state    saga.State
		sold     int64
		least    int // points
	}{
		"cancel": {deciding(saga.ResolveCancel), heldCups(), func(*bundle, saga.Claim) {}, saga.RolledBack, 0, 6},
		"retry": {deciding(saga.ResolveRetry), cups(), func(b *bundle, _ saga.Claim) {
			b.bank.on(saga.CallCharge, losesTheAnswer(), losesTheAnswer(), losesTheAnswer())
		}, saga.Completed, 2, 6},
		"taken": {takenAs("pay_1", 1200), cups(), func(b *bundle, _ saga.Claim) {
			b.bank.on(saga.CallCharge, losesTheAnswer(), losesTheAnswer(), losesTheAnswer())
		}, saga.Completed, 2, 4},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			shared := newBundle(t)
			const mostPoints = 20
			for point := 1; point <= mostPoints; point++ {
				b, order := shared.fresh(t), claimOf(fmt.Sprint("order-", point))
				b.exec(`DELETE FROM audit_log`)
				test.bring(b, order)
				b.inReview(order, test.order)
				died := b.decideAndDie(claimOn("decide", strconv.Itoa(point)), order, test.decision, point)
				s := b.get(order)
				if _, made := b.bank.taken(); s.State != test.state || made != 1 {
					t.Errorf("died %s: the saga is %s, with %d payments", died, s.State, made)
				}
				b.wantStock("cup", 10-test.sold)
				b.wantDecided(order, test.decision)
				if died == "" {
					wantPoints(t, point-1, test.least)
					return
				}
			}
			t.Fatalf("still dying after %d points", mostPoints)
		})
	}
}

func wantPoints(t *testing.T, points, least int) {
	t.Helper()
	if points < least {
		t.Errorf("it died at %d points only", points)
	}
}

// decideAndDie has a server die at a point of a decision, and lets others finish it. It tells where it died; empty: it lived.
func (b *bundle) decideAndDie(claim, order saga.Claim, decision saga.Decision, point int) string {
	b.t.Helper()
	f := &fuse{left: point}
	b.bank.hook(
		func(_ context.Context, call saga.Call) { f.pass("before the " + string(call)) },
		func(call saga.Call) { f.pass("after the " + string(call)) },
	)
	_, err := b.newRunner(dyingAsk{mortalStore{b.store, f}}).Decide(b.ctx, claim, refOf(order), decision)
	b.bank.hook(nil, nil)
	if (err == nil) != (f.at == "") {
		b.t.Fatalf("died %q, and the decision gave %v", f.at, err)
	}
	b.decideAgain(claim, order, decision, f.at)
	return f.at
}

// decideAgain is the operator's repeat: it finds the decision not made, made by whom recovery has taken over, or to be taken over.
func (b *bundle) decideAgain(claim, order saga.Claim, decision saga.Decision, died string) {
	b.t.Helper()
	if _, used, err := b.store.LookupKey(b.ctx, claim.AccountID, claim.Endpoint, claim.Key); err != nil {
		b.t.Fatal(err)
	} else if !used {
		b.decide(claim, order, decision)
		return
	}
	b.lapse()
	b.recovery(b.newRunner(b.store)).Once(b.ctx)
	if record := b.record(claim); record.Answer.Status == 0 {
		b.t.Errorf("died %s: the decision has no answer", died)
	}
}
