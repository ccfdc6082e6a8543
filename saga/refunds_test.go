package saga_test

import (
	"errors"
	"fmt"
	"strconv"
	"sync/atomic"
	"testing"
	"time"

	"paysaga/providers"
	"paysaga/saga"
)

// Fifty refunds of a hundred that come together: twelve fit into twelve hundred, here and at the bank (I7).
func TestFiftyPartialRefunds(t *testing.T) {
	t.Parallel()
	b, order := newBundle(t), claimOf("order")
	b.start(order, cups())
	const refunds = 50
	var given atomic.Int32
	atOnce(refunds, func(i int) {
		claim := claimOn("refunds", strconv.Itoa(i))
		answer, err := b.runner.Refund(b.ctx, claim, refOf(order), 100, "")
		switch {
		case err == nil && answer.Status == 201:
			given.Add(1)
		case !isRefused(err, saga.RefusedTooMuch) && !isRefused(err, saga.RefusedBusy):
			t.Errorf("refund %d: %d, %v", i, answer.Status, err)
		}
	})
	for i := range refunds { // those that were told to come back
		if _, err := b.runner.Refund(b.ctx, claimOn("refunds", fmt.Sprint("again-", i)), refOf(order), 100, ""); err == nil {
			given.Add(1)
		} else if !isRefused(err, saga.RefusedTooMuch) {
			t.Errorf("refund %d again: %v", i, err)
		}
	}
	b.wantState(order, saga.Completed, saga.OrderConfirmed, saga.PaymentRefunded)
	b.wantSums(order, 1200, 0)
	if given.Load() != 12 {
		t.Errorf("%d refunds were given", given.Load())
	}
	if p := b.bank.payments[0]; p.refunded != 1200 || p.refunds != 12 {
		t.Errorf("the bank refunded %d in %d refunds", p.refunded, p.refunds)
	}
	if rows := b.count(`SELECT count(*) FROM refunds WHERE status = 'succeeded'`); rows != 12 {
		t.Errorf("%d refunds are on record", rows)
	}
}

// A refund is answered as it stands, and its answer kept; what it came to later changes the order's sums.
func TestRefundsOfAnOrder(t *testing.T) {
	t.Parallel()
	b, order := newBundle(t), claimOf("order")
	b.start(order, cups())
	slow, failing := claimOn("refunds", "slow"), claimOn("refunds", "failing")
	b.bank.on(saga.CallRefund, reply{works: true, outcome: providers.Outcome{Kind: providers.Processing, Reference: "refund_1"}})
	answer, err := b.runner.Refund(b.ctx, slow, refOf(order), 500, "too small")
	if err != nil || answer.Status != 202 {
		t.Fatalf("answer %d, %v", answer.Status, err)
	}
	b.wantState(order, saga.Completed, saga.OrderConfirmed, saga.PaymentCaptured)
	b.wantSums(order, 0, 500)
	if _, err := b.runner.Refund(b.ctx, slow, refOf(order), 500, "too small"); !errors.Is(err, saga.ErrKeyTaken) {
		t.Errorf("the same refund again: %v", err)
	}
	b.bank.on(saga.CallRefund, refuses(providers.Outcome{Kind: providers.Declined, Code: "expired_card"}))
	if answer, err := b.runner.Refund(b.ctx, failing, refOf(order), 700, ""); err != nil || answer.Status != 402 {
		t.Errorf("a refund that fails: %d, %v", answer.Status, err)
	}
	b.recover(b.runner)
	b.wantState(order, saga.Completed, saga.OrderConfirmed, saga.PaymentPartiallyRefunded)
	b.wantSums(order, 500, 0)
	if record := b.record(slow); string(record.Answer.Body) != string(answer.Body) {
		t.Errorf("answered %s, stored %s", answer.Body, record.Answer.Body)
	}
	b.comesBack(order, slow)
	if _, err := b.runner.Refund(b.ctx, claimOn("refunds", "all"), refOf(order), 0, ""); err != nil {
		t.Errorf("all that is left: %v", err)
	}
}

// wantSums checks what of an order is refunded, and what is being refunded.
func (b *bundle) wantSums(order saga.Claim, refunded, refunding int64) {
	b.t.Helper()
	if p := b.get(order).Order.Payment; p.RefundedAmount != refunded || p.RefundingAmount != refunding {
		b.t.Errorf("refunded %d, refunding %d; want %d and %d", p.RefundedAmount, p.RefundingAmount, refunded, refunding)
	}
}

// comesBack lets the bank send a given refund back.
func (b *bundle) comesBack(order, slow saga.Claim) {
	b.t.Helper()
	// A look that brings nothing must not lose the news.
	hint := providers.Notice{About: providers.AboutRefund, Payment: "pay_1", Reference: "refund_1"}
	b.bank.on(saga.CallCheckRefund, nothing(), refuses(providers.Outcome{Kind: providers.Declined, Code: "account_closed"}))
	if err := b.runner.Notify(b.ctx, refOf(slow), hint); err == nil {
		b.t.Error("news that nobody could look into were taken for applied")
	}
	for range 2 {
		if err := b.runner.Notify(b.ctx, refOf(slow), hint); err != nil {
			b.t.Errorf("the news again: %v", err)
		}
	}
	b.wantState(order, saga.Completed, saga.OrderConfirmed, saga.PaymentCaptured)
	b.wantSums(order, 0, 0)
	if refund, err := b.store.Load(b.ctx, refOf(slow)); err != nil || refund.State != saga.RolledBack || refund.Refund.Status != saga.RefundFailed {
		b.t.Errorf("the refund is %s, %+v, %v", refund.State, refund.Refund, err)
	}
}

// Where nobody can be asked, notices bring a saga to its end, whoever holds it and however often they come.
func TestNoticesEndWhatNobodyCanAsk(t *testing.T) {
	t.Parallel()
	b, order, capture := newBundle(t), claimOf("order"), claimOn("capture", "it")
	b.bank.windows = providers.Windows{Repost: 6 * 24 * time.Hour, NoLookup: true, Hold: 28 * 24 * time.Hour}
	b.runner = b.newRunner(b.store)
	b.hold(order)
	b.bank.on(saga.CallCapture, reply{works: true, outcome: providers.Outcome{Kind: providers.Processing, Reference: "capture_1"}})
	if answer := b.ask(capture, order, requestOf(saga.RequestCapture, capture)); answer.Status != 202 {
		t.Errorf("answer %d", answer.Status)
	}
	taken := providers.Notice{
		About: providers.AboutCapture, Payment: "pay_1", Reference: "capture_1",
		Outcome: &providers.Outcome{Kind: providers.Succeeded, Reference: "capture_1"},
	}
	b.exec(`UPDATE sagas SET locked_until = now() + interval '1 hour'`)
	if err := b.runner.Notify(b.ctx, refOf(order), taken); !errors.Is(err, saga.ErrLeaseLost) {
		t.Errorf("while somebody drives it: %v", err)
	}
	b.exec(`UPDATE sagas SET locked_until = now()`)
	var applied atomic.Int32
	atOnce(10, func(int) {
		switch err := b.runner.Notify(b.ctx, refOf(order), taken); {
		case err == nil:
			applied.Add(1)
		case !errors.Is(err, saga.ErrLeaseLost):
			t.Errorf("notice: %v", err)
		}
	})
	if applied.Load() == 0 {
		t.Error("none of ten notices came in")
	}
	b.wantState(order, saga.Completed, saga.OrderConfirmed, saga.PaymentCaptured)
	b.wantStock("cup", 8)
	if looks, _ := b.bank.called(saga.CallLookup); looks != 0 {
		t.Errorf("asked %d times", looks)
	}
	failed := taken
	failed.Outcome = &providers.Outcome{Kind: providers.Declined, Code: providers.CodeCaptureFailed}
	if err := b.runner.Notify(b.ctx, refOf(order), failed); err != nil {
		t.Errorf("the capture's failure: %v", err)
	}
	if err := b.runner.Notify(b.ctx, refOf(order), taken); !errors.Is(err, saga.ErrInReview) {
		t.Errorf("in review: %v", err)
	}
	if got := b.findings(order); len(got) != 1 || got[0] != providers.CodeCaptureFailed {
		t.Errorf("findings %v", got)
	}
	if err := b.runner.Notify(b.ctx, refOf(claimOf("nothing")), taken); !errors.Is(err, saga.ErrNotFound) {
		t.Errorf("of nothing: %v", err)
	}
}
