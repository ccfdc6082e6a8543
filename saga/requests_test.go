package saga_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"testing"

	"paysaga/internal/idempotency"
	"paysaga/providers"
	"paysaga/saga"
)

// claimOn is the key of a request about an order, or of a refund.
func claimOn(what, name string) saga.Claim {
	claim := claimOf(what + "-" + name)
	claim.Endpoint = "POST /v1/orders/{id}/" + what
	return claim
}

// requestOf is a request as the shop's claim makes it.
func requestOf(kind saga.RequestKind, claim saga.Claim) saga.Request {
	return saga.Request{Kind: kind, Key: refOf(claim).Key}
}

func heldCups() saga.Order {
	order := cups()
	order.Payment.Capture = saga.CaptureManual
	return order
}

// hold begins an order whose money is held.
func (b *bundle) hold(claim saga.Claim) {
	b.t.Helper()
	b.start(claim, heldCups())
	b.wantState(claim, saga.Awaiting, saga.OrderConfirmed, saga.PaymentAuthorized)
}

func (b *bundle) ask(claim, order saga.Claim, request saga.Request) saga.Answer {
	b.t.Helper()
	answer, err := b.runner.Ask(b.ctx, claim, refOf(order), request)
	if err != nil {
		b.t.Fatalf("%s: %v", request.Kind, err)
	}
	return answer
}

// wantReplay checks that a key has this answer, and that its request does nothing more.
func (b *bundle) wantReplay(claim, order saga.Claim, request saga.Request, answer saga.Answer) {
	b.t.Helper()
	record := b.record(claim)
	if record.Status == idempotency.InProgress || record.Answer.Status != answer.Status || string(record.Answer.Body) != string(answer.Body) {
		b.t.Errorf("the key holds %d %q, answered was %d %q", record.Answer.Status, record.Answer.Body, answer.Status, answer.Body)
	}
	before, calls := b.get(order), len(b.bank.calls)
	_, err := b.runner.Ask(b.ctx, claim, refOf(order), request)
	if _, refused := errors.AsType[*saga.RefusedError](err); !errors.Is(err, saga.ErrKeyTaken) && !refused {
		b.t.Errorf("the same request again: %v", err)
	}
	if after := b.get(order); after.State != before.State || len(after.Steps) != len(before.Steps) || len(b.bank.calls) != calls {
		b.t.Errorf("the same request again brought %s to %s; calls %v", before.State, after.State, b.bank.calls[calls:])
	}
}

func TestRequestsAboutAnOrder(t *testing.T) {
	t.Parallel()
	t.Run("captures", func(t *testing.T) {
		t.Parallel()
		b, order, first, second := newBundle(t), claimOf("order"), claimOn("capture", "first"), claimOn("capture", "second")
		b.hold(order)
		part := requestOf(saga.RequestCapture, first)
		part.Amount = 500
		answer := b.ask(first, order, part)
		b.wantState(order, saga.Awaiting, saga.OrderConfirmed, saga.PaymentCaptured)
		b.wantReplay(first, order, part, answer)
		b.ask(second, order, requestOf(saga.RequestCapture, second))
		s := b.wantState(order, saga.Completed, saga.OrderConfirmed, saga.PaymentCaptured)
		if s.Order.Payment.CapturedAmount != 1200 || b.bank.payments[0].captured() != 1200 {
			t.Errorf("captured %d here, %d at the bank", s.Order.Payment.CapturedAmount, b.bank.payments[0].captured())
		}
		if times, keys := b.bank.called(saga.CallCapture); times != 2 || keys != 2 {
			t.Errorf("%d captures under %d keys", times, keys)
		}
		b.wantStock("cup", 8)
	})
	t.Run("cancel", func(t *testing.T) {
		t.Parallel()
		b, order, cancel := newBundle(t), claimOf("order"), claimOn("cancel", "it")
		b.hold(order)
		answer := b.ask(cancel, order, requestOf(saga.RequestCancel, cancel))
		b.wantState(order, saga.RolledBack, saga.OrderCanceled, saga.PaymentVoided)
		b.wantReplay(cancel, order, requestOf(saga.RequestCancel, cancel), answer)
		b.wantStock("cup", 10)
	})
	t.Run("continue", func(t *testing.T) {
		t.Parallel()
		b, order, proceed := newBundle(t), claimOf("order"), claimOn("continue", "it")
		b.await(order)
		request := requestOf(saga.RequestContinue, proceed)
		request.Details = json.RawMessage(`{"redirectResult":"X"}`)
		answer := b.ask(proceed, order, request)
		s := b.wantState(order, saga.Completed, saga.OrderConfirmed, saga.PaymentCaptured)
		b.wantForgotten(s)
		b.wantReplay(proceed, order, request, answer)
		again := claimOn("continue", "late")
		calls := len(b.bank.calls)
		if late := b.ask(again, order, requestOf(saga.RequestContinue, again)); late.Status != 201 || len(b.bank.calls) != calls {
			t.Errorf("after the payment: %d, calls %v", late.Status, b.bank.calls[calls:])
		}
	})
	t.Run("another payment after a decline", func(t *testing.T) {
		t.Parallel()
		b, order, proceed := newBundle(t), claimOf("order"), claimOn("continue", "it")
		b.bank.on(saga.CallCharge, refuses(providers.Outcome{Kind: providers.Declined, Decline: &providers.Decline{Code: "card_declined"}}))
		patient := cups()
		patient.Payment.OnDecline = saga.DeclineAwaits
		b.start(order, patient)
		b.wantState(order, saga.Awaiting, saga.OrderAwaiting, saga.PaymentDeclined)
		request := requestOf(saga.RequestContinue, proceed)
		request.Payment = &saga.NewPayment{Provider: "other", Method: "pm_2"}
		answer := b.ask(proceed, order, request)
		s := b.wantState(order, saga.Completed, saga.OrderConfirmed, saga.PaymentCaptured)
		if s.Order.Payment.Provider != "other" || answer.Status != 201 {
			t.Errorf("paid by %s, answer %d", s.Order.Payment.Provider, answer.Status)
		}
		if times, keys := b.bank.called(saga.CallCharge); times != 2 || keys != 2 {
			t.Errorf("%d charges under %d keys", times, keys)
		}
		b.wantTaken(1, 1)
	})
}

// wantForgotten checks that a continue is over, and that what it brought is kept no longer.
func (b *bundle) wantForgotten(s saga.Saga) {
	b.t.Helper()
	kept := stepOf(s, saga.StepContinue)
	if rows := b.count(`SELECT count(*) FROM saga_steps WHERE details IS NOT NULL`); kept.Status != saga.StepDone || kept.Details != "" || rows != 0 {
		b.t.Errorf("after its end the step is %+v; %d rows hold details", kept, rows)
	}
}

func TestRequestsThatWriteNothing(t *testing.T) {
	t.Parallel()
	b, order := newBundle(t), claimOf("order")
	b.bank.on(saga.CallCharge, refuses(providers.Outcome{Kind: providers.Declined, Decline: &providers.Decline{Code: "no"}}))
	patient := cups()
	patient.Payment.OnDecline = saga.DeclineAwaits
	b.start(order, patient)
	other := claimOn("continue", "other")
	request := requestOf(saga.RequestContinue, other)
	request.Payment = &saga.NewPayment{Provider: "nobody", Method: "pm_2"}
	if _, err := b.runner.Ask(b.ctx, other, refOf(order), request); !errors.Is(err, saga.ErrUnknownProvider) {
		t.Errorf("an unknown provider: %v", err)
	}
	if _, err := b.runner.Ask(b.ctx, other, refOf(claimOf("nothing")), request); !errors.Is(err, saga.ErrNotFound) {
		t.Errorf("an unknown order: %v", err)
	}
	if _, err := b.runner.Ask(b.ctx, other, refOf(order), requestOf(saga.RequestCapture, other)); !isRefused(err, saga.RefusedNotHeld) {
		t.Errorf("a capture: %v", err)
	}
	if _, err := b.runner.Refund(b.ctx, claimOn("refunds", "it"), refOf(order), 0, ""); !isRefused(err, saga.RefusedNotCaptured) {
		t.Errorf("a refund: %v", err)
	}
	if keys := b.count(`SELECT count(*) FROM idempotency_keys`); keys != 1 {
		t.Errorf("%d keys are used, want the order's", keys)
	}
	b.wantState(order, saga.Awaiting, saga.OrderAwaiting, saga.PaymentDeclined)
}

func isRefused(err error, reason saga.RefusalReason) bool {
	refused, ok := errors.AsType[*saga.RefusedError](err)
	return ok && refused.Reason == reason
}

// A saga that somebody drives is waited for; one that stays in hand is refused as busy.
func TestRequestAboutAnOrderThatIsDriven(t *testing.T) {
	t.Parallel()
	b, order, capture := newBundle(t), claimOf("order"), claimOn("capture", "it")
	b.hold(order)
	b.exec(`UPDATE sagas SET locked_until = now() + interval '1 hour'`)
	if _, err := b.runner.Ask(b.ctx, capture, refOf(order), requestOf(saga.RequestCapture, capture)); !isRefused(err, saga.RefusedBusy) {
		t.Errorf("while it is driven: %v", err)
	}
	b.exec(`UPDATE sagas SET locked_until = now()`)
	b.ask(capture, order, requestOf(saga.RequestCapture, capture))
	b.wantState(order, saga.Completed, saga.OrderConfirmed, saga.PaymentCaptured)
}

// Whoever waits for a busy order keeps no other order out.
func TestWaitingRequestsLeaveTheirSlots(t *testing.T) {
	t.Parallel()
	b, order, capture := newBundle(t), claimOf("order"), claimOn("capture", "it")
	b.hold(order)
	b.exec(`UPDATE sagas SET locked_until = now() + interval '1 hour'`)
	looks := &looking{Store: b.store, looked: make(chan struct{}, 100)}
	runner := b.newRunnerWith(saga.Config{Store: looks, MaxInFlight: 1})
	came := make(chan error, 1)
	go func() {
		_, err := runner.Ask(b.ctx, capture, refOf(order), requestOf(saga.RequestCapture, capture))
		came <- err
	}()
	<-looks.looked
	eventually(t, "another order is taken on", func() bool {
		_, err := runner.Start(b.ctx, claimOf("another"), cups())
		return err == nil
	})
	b.exec(`UPDATE sagas SET locked_until = now()`)
	if err := <-came; err != nil {
		t.Errorf("the request that waited: %v", err)
	}
	b.wantState(order, saga.Completed, saga.OrderConfirmed, saga.PaymentCaptured)
}

// A server that is about to stop does not wait for a busy order.
func TestDrainEndsTheWaitForABusyOrder(t *testing.T) {
	t.Parallel()
	b, order, capture := newBundle(t), claimOf("order"), claimOn("capture", "it")
	b.hold(order)
	b.exec(`UPDATE sagas SET locked_until = now() + interval '1 hour'`)
	looks := &looking{Store: b.store, looked: make(chan struct{}, 100)}
	runner := b.newRunner(looks)
	came := make(chan error, 1)
	go func() {
		_, err := runner.Ask(b.ctx, capture, refOf(order), requestOf(saga.RequestCapture, capture))
		came <- err
	}()
	<-looks.looked
	runner.Drain(b.ctx)
	if err := <-came; !errors.Is(err, saga.ErrDraining) {
		t.Errorf("the request that waited: %v", err)
	}
}

// looking is a store that tells of each look at a saga.
type looking struct {
	saga.Store

	looked chan struct{}
}

func (l *looking) Load(ctx context.Context, ref saga.Ref) (saga.Saga, error) {
	l.looked <- struct{}{}
	return l.Store.Load(ctx, ref)
}

// Requests and notices that come together: each is done, or refused with nothing written; none is lost, and both sides agree.
func TestRequestsThatComeTogether(t *testing.T) {
	t.Parallel()
	b := newBundle(t)
	const orders = 6
	for i := range orders {
		order := claimOf(fmt.Sprint("order-", i))
		b.putStock("cup", 100)
		b.hold(order)
		hint := providers.Notice{About: providers.AboutCharge, Payment: fmt.Sprint("pay_", i+1)}
		done := b.askTogether(order, i, hint)
		captured := done[0] || done[1]
		if canceled := done[2] || done[3]; !captured && !canceled { // both: a part was taken, and the rest let go
			t.Errorf("order %d: done %v", i, done)
		}
		b.wantAgreement(order, i)
	}
	b.recover(b.runner)
	for i := range orders {
		b.wantAgreement(claimOf(fmt.Sprint("order-", i)), i)
	}
}

// askTogether makes five requests and two notices at once, and tells which of the requests were taken.
func (b *bundle) askTogether(order saga.Claim, i int, hint providers.Notice) []bool {
	b.t.Helper()
	kinds := []saga.RequestKind{saga.RequestCapture, saga.RequestCapture, saga.RequestCancel, saga.RequestCancel, saga.RequestContinue}
	done := make([]bool, len(kinds))
	atOnce(len(kinds)+2, func(n int) {
		if n < len(kinds) {
			claim := claimOn(string(kinds[n]), fmt.Sprint(i, "-", n))
			request := requestOf(kinds[n], claim)
			request.Amount = int64(500 * ((n + 1) % 2)) // 500, or all
			done[n] = b.askAmongOthers(claim, order, request)
			return
		}
		if err := b.runner.Notify(b.ctx, refOf(order), hint); err != nil && !errors.Is(err, saga.ErrLeaseLost) {
			b.t.Errorf("notice: %v", err)
		}
	})
	return done
}

// askAmongOthers makes a request that may be refused, and checks that its key is used, with its answer, only if it was not.
func (b *bundle) askAmongOthers(claim, order saga.Claim, request saga.Request) bool {
	answer, err := b.runner.Ask(b.ctx, claim, refOf(order), request)
	if _, refused := errors.AsType[*saga.RefusedError](err); err != nil && !refused {
		b.t.Errorf("%s: %v", request.Kind, err)
	}
	record, found, lookupErr := b.store.LookupKey(b.ctx, claim.AccountID, claim.Endpoint, claim.Key)
	if lookupErr != nil || found != (err == nil) || string(record.Answer.Body) != string(answer.Body) {
		b.t.Errorf("%s: %v, its key is found: %t (%v), answered %s, stored %s",
			request.Kind, err, found, lookupErr, answer.Body, record.Answer.Body)
	}
	return err == nil
}

// wantAgreement compares an order's money with the bank's.
func (b *bundle) wantAgreement(order saga.Claim, payment int) {
	b.t.Helper()
	s, p := b.get(order), b.bank.payments[payment]
	if s.Order.Payment.CapturedAmount != p.captured() || s.Order.Payment.RefundedAmount != p.refunded || s.State == saga.NeedsReview {
		b.t.Errorf("%s: captured %d, refunded %d; the bank has %d and %d (%s)",
			s.State, s.Order.Payment.CapturedAmount, s.Order.Payment.RefundedAmount, p.captured(), p.refunded, p.status)
	}
	if (s.State == saga.RolledBack) != (p.status == canceled) {
		b.t.Errorf("the order is %s, the payment %s", s.State, p.status)
	}
}

// A server dies between a request's transaction and its call, or after that; another one finishes, and answers the request.
//
//nolint:tparallel // the cases share a database, one after the other
func TestDeathInARequest(t *testing.T) {
	t.Parallel()
	shared := newBundle(t)
	for name, test := range map[string]deathInRequest{ //nolint:paralleltest // the cases share a database, one after the other
		"capture":  {(*bundle).hold, saga.RequestCapture, saga.CallCapture, saga.Completed, 201},
		"cancel":   {(*bundle).hold, saga.RequestCancel, saga.CallVoid, saga.RolledBack, 402},
		"continue": {(*bundle).await, saga.RequestContinue, saga.CallContinue, saga.Completed, 201},
		"refund":   {func(b *bundle, order saga.Claim) { b.start(order, cups()) }, "", saga.CallRefund, saga.Completed, 201},
	} {
		for _, side := range []string{"before", "after"} {
			for _, by := range []string{"recovery", "retry"} {
				t.Run(name+" "+side+" its call, "+by, func(t *testing.T) {
					test.run(shared.fresh(t), side, by)
				})
			}
		}
	}
}

// deathInRequest is a request in whose call a server dies, and how it ends all the same.
type deathInRequest struct {
	arrange func(b *bundle, order saga.Claim)
	kind    saga.RequestKind // empty: a refund
	call    saga.Call
	state   saga.State
	status  int
}

func (test deathInRequest) run(b *bundle, side, by string) {
	b.t.Helper()
	order, claim := claimOf("order"), claimOn(or(string(test.kind), "refunds"), "it")
	test.arrange(b, order)
	ref := test.die(b, order, claim, side)
	if record := b.record(claim); record.Status != idempotency.InProgress {
		b.t.Fatalf("the key is %s before anybody goes on", record.Status)
	}
	b.lapse()
	if by == "retry" {
		if _, err := b.newRunner(b.store).TakeOver(b.ctx, ref, b.record(claim).Fence); err != nil {
			b.t.Fatalf("take over: %v", err)
		}
	} else {
		b.recovery(b.newRunner(b.store)).Once(b.ctx)
	}
	s, err := b.store.Load(b.ctx, ref)
	if err != nil || s.State != test.state || s.Pending != "" {
		b.t.Fatalf("state %s, pending %q, %v; want %s", s.State, s.Pending, err, test.state)
	}
	if record := b.record(claim); record.Status == idempotency.InProgress || record.Answer.Status != test.status {
		b.t.Errorf("the key is %s with %d, want %d", record.Status, record.Answer.Status, test.status)
	}
	if times, keys := b.bank.called(test.call); keys != 1 || times != 2 {
		b.t.Errorf("%d calls under %d keys, want two under one", times, keys)
	}
}

// die makes the request, and lets its server die on one side of its call. It tells which saga that leaves.
func (test deathInRequest) die(b *bundle, order, claim saga.Claim, side string) saga.Ref {
	b.t.Helper()
	dies := dieBefore(test.call)
	if side == "before" {
		b.bank.hook(dies, nil)
	} else {
		b.bank.hook(nil, func(made saga.Call) { dies(b.ctx, made) })
	}
	defer b.bank.hook(nil, nil)
	ref := refOf(order)
	var err error
	if test.kind == "" {
		ref = refOf(claim)
		_, err = b.runner.Refund(b.ctx, claim, refOf(order), 0, "")
	} else {
		_, err = b.runner.Ask(b.ctx, claim, refOf(order), requestOf(test.kind, claim))
	}
	if err == nil {
		b.t.Fatal("the server did not die")
	}
	return ref
}
