package postgres_test

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/uuid"

	"paysaga/providers"
	"paysaga/saga"
)

// refunding is a refund's saga and its first change, as a runner makes them of the order that it read.
func (b *bundle) refunding(order saga.Saga, claim saga.Claim, amount int64) saga.Change {
	b.t.Helper()
	key := saga.Key(claim.AccountID, claim.Endpoint, claim.Key, claim.Generation)
	s := saga.Saga{
		Kind: saga.KindRefund, AccountID: order.AccountID, Key: key, Generation: claim.Generation, State: saga.Started, Order: order.Order,
		Refund:  &saga.Refund{ID: key, OrderID: order.Order.ID, Amount: amount, Reason: "a chip", Status: saga.RefundPending},
		Pending: claim.Endpoint, ReadAt: order.ReadAt,
	}
	return b.advance(s, saga.Event{Kind: saga.Resume})
}

// refund begins to give back an amount of an order.
func (b *bundle) refund(order saga.Saga, name string, amount int64) saga.Saga {
	b.t.Helper()
	claim := requestClaim(name)
	begun, err := b.store.Begin(b.ctx, claim, b.refunding(b.load(order), claim, amount), lease)
	if err != nil {
		b.t.Fatalf("begin refund: %v", err)
	}
	return begun
}

// wantSums checks what the order's row says about its money, of which 1200 cents were captured.
func (b *bundle) wantSums(order saga.Saga, refunding, refunded int64, status saga.PaymentStatus) {
	b.t.Helper()
	got := b.load(order).Order.Payment
	if got.CapturedAmount != 1200 || got.RefundingAmount != refunding || got.RefundedAmount != refunded || got.Status != status {
		b.t.Errorf("captured %d, refunding %d, refunded %d, %s; want 1200, %d, %d, %s",
			got.CapturedAmount, got.RefundingAmount, got.RefundedAmount, got.Status, refunding, refunded, status)
	}
}

// sagaRow is a saga's row as the database writes it.
func (b *bundle) sagaRow(s saga.Saga) (text string) {
	b.t.Helper()
	if err := b.pool.QueryRow(b.ctx, `SELECT s::text FROM sagas s WHERE key = $1`, s.Key).Scan(&text); err != nil {
		b.t.Fatal(err)
	}
	return text
}

var (
	given    = providers.Outcome{Kind: providers.Succeeded, Reference: "re_1"}
	accepted = providers.Outcome{Kind: providers.Processing, Reference: "re_1"}
	returned = providers.Outcome{Kind: providers.Declined, Code: "lost_card"}
)

func TestRefundHoldsItsSum(t *testing.T) {
	t.Parallel()
	b := newBundle(t)
	order := b.confirmed("order")
	before := b.sagaRow(order)
	refund := b.refund(order, "refund", 300)
	if diff := cmp.Diff(refund, b.load(refund), exactly); diff != "" {
		t.Errorf("begin (-returned +read):\n%s", diff)
	}
	if refund.State != saga.Refunding || refund.Lease.Fence != 1 || refund.Order.Payment.RefundingAmount != 300 || len(refund.Order.Items) != 1 {
		t.Errorf("the refund is %+v", refund)
	}
	if after := b.sagaRow(order); before != after {
		t.Errorf("the order's saga was %s and is %s", before, after)
	}
	b.wantSums(order, 300, 0, saga.PaymentCaptured)
	accepted := b.apply(b.outcome(refund, saga.CallRefund, accepted))
	if diff := cmp.Diff(accepted, b.load(accepted), asStored); diff != "" {
		t.Errorf("apply (-returned +read):\n%s", diff)
	}
	if !accepted.Refund.UpdatedAt.Equal(refund.Refund.UpdatedAt) {
		t.Error("a refund that is still pending says that it changed")
	}
	b.wantSums(order, 300, 0, saga.PaymentCaptured)
}

// What a refund comes to, and what becomes of the order's money by it.
func TestRefundEffects(t *testing.T) {
	t.Parallel()
	type turn struct {
		call    saga.Call
		outcome providers.Outcome
	}
	give, sendBack := turn{saga.CallRefund, given}, turn{saga.CallCheckRefund, returned}
	for name, test := range map[string]struct {
		amount   int64
		turns    []turn
		status   saga.RefundStatus
		refunded int64
		payment  saga.PaymentStatus
		event    string
	}{
		"given in part":    {300, []turn{give}, saga.RefundSucceeded, 300, saga.PaymentPartiallyRefunded, "refund.succeeded"},
		"given in full":    {1200, []turn{give}, saga.RefundSucceeded, 1200, saga.PaymentRefunded, "refund.succeeded"},
		"refused":          {300, []turn{{saga.CallRefund, returned}}, saga.RefundFailed, 0, saga.PaymentCaptured, "refund.failed"},
		"sent back, part":  {300, []turn{give, sendBack}, saga.RefundFailed, 0, saga.PaymentCaptured, "refund.failed"},
		"sent back, whole": {1200, []turn{give, sendBack}, saga.RefundFailed, 0, saga.PaymentCaptured, "refund.failed"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := newBundle(t)
			order := b.confirmed("order")
			orders := b.sagaRow(order)
			s := b.refund(order, "refund", test.amount)
			began := s.Refund.UpdatedAt
			for _, next := range test.turns {
				s = b.refundTurn(s, next.call, next.outcome)
			}
			if s.Refund.Status != test.status || s.Refund.UpdatedAt.Before(began) {
				t.Errorf("refund %+v", s.Refund)
			}
			b.wantSums(order, 0, test.refunded, test.payment)
			if n := b.count(`SELECT count(*) FROM outbox_events WHERE type = $1 AND refund_id = $2 AND order_id = $3`, test.event, s.Key, order.Key); n != 1 {
				t.Errorf("%d events %s", n, test.event)
			}
			if after := b.sagaRow(order); orders != after {
				t.Errorf("the order's saga was %s and is %s", orders, after)
			}
			if stored := b.load(order); stored.Order.Status != saga.OrderConfirmed || !stored.Order.UpdatedAt.Equal(s.Order.UpdatedAt) {
				t.Errorf("the order is %s, updated at %s; the refund says %s", stored.Order.Status, stored.Order.UpdatedAt, s.Order.UpdatedAt)
			}
		})
	}
}

// refundTurn applies an outcome to a refund, which may have ended before, and checks that it cannot be applied twice.
func (b *bundle) refundTurn(s saga.Saga, call saga.Call, outcome providers.Outcome) saga.Saga {
	b.t.Helper()
	if s.State.Ended() {
		s = b.seize(s)
	}
	change := b.outcome(s, call, outcome)
	s = b.apply(change)
	if diff := cmp.Diff(s, b.load(s), asStored); diff != "" {
		b.t.Errorf("apply (-returned +read):\n%s", diff)
	}
	if _, err := b.store.Apply(b.ctx, change); !errors.Is(err, saga.ErrLeaseLost) {
		b.t.Errorf("applied again: %v, want ErrLeaseLost", err)
	}
	return s
}

// A refund that cannot be leaves no trace: no key, no row, nothing held.
func TestRefundIsRefused(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		order   func(b *bundle) saga.Saga
		amount  int64
		account string
	}{
		"more than was captured":  {func(b *bundle) saga.Saga { return b.confirmed("order") }, 1201, account},
		"more than a counter":     {func(b *bundle) saga.Saga { s := b.confirmed("order"); b.refund(s, "first", 700); return s }, 1<<63 - 1, account},
		"more than is left":       {func(b *bundle) saga.Saga { s := b.confirmed("order"); b.refund(s, "first", 700); return s }, 501, account},
		"of another account":      {func(b *bundle) saga.Saga { return b.confirmed("order") }, 100, "shop2"},
		"while it charges":        {func(b *bundle) saga.Saga { return b.begin("order") }, 100, account},
		"while the money is held": {func(b *bundle) saga.Saga { return b.held("order") }, 100, account},
		"of what was undone":      {func(b *bundle) saga.Saga { return b.apply(b.outcome(b.begin("order"), saga.CallCharge, declined)) }, 100, account},
		"of an order in review":   {inReview, 100, account},
		"of a refund, by its key": {func(b *bundle) saga.Saga { return b.refund(b.confirmed("order"), "first", 700) }, 100, account},
		"after more was given back": {func(b *bundle) saga.Saga {
			return b.apply(b.outcome(b.refund(b.confirmed("o"), "first", 1200), saga.CallRefund, given))
		}, 1, account},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := newBundle(t)
			order := b.load(test.order(b))
			order.AccountID = test.account
			if name == "of a refund, by its key" {
				order.Order.ID = order.Key
			}
			claim := requestClaim("refund")
			claim.AccountID = test.account
			before := b.dump()
			if _, err := b.store.Begin(b.ctx, claim, b.refunding(order, claim, test.amount), lease); !errors.Is(err, saga.ErrExceedsCapture) {
				t.Errorf("got %v, want ErrExceedsCapture", err)
			}
			if diff := cmp.Diff(before, b.dump()); diff != "" {
				t.Errorf("something was written:\n%s", diff)
			}
		})
	}
}

// inReview is an order that was paid, until its provider announced that the capture failed.
func inReview(b *bundle) saga.Saga {
	b.t.Helper()
	return b.contradict(b.confirmed("order"))
}

func (b *bundle) contradict(s saga.Saga) saga.Saga {
	b.t.Helper()
	seized := b.seize(s)
	return b.apply(finish(b.advance(seized, saga.Event{Kind: saga.Contradicted, Code: "capture_failed"}), seized))
}

// Fifty refunds at once, some of which fail later and make room: never more than was captured.
func TestConcurrentRefundsStayWithinTheCapture(t *testing.T) {
	t.Parallel()
	const refunds, amount, fit = 50, 30, 1200 / 30
	b := newBundle(t)
	order := b.load(b.confirmed("order"))
	begun := make([]saga.Saga, refunds)
	errs := atOnce(refunds, func(i int) (err error) {
		claim := requestClaim(fmt.Sprint("refund-", i))
		begun[i], err = b.store.Begin(b.ctx, claim, b.refunding(order, claim, amount), lease)
		return err
	})
	var held []saga.Saga
	for i, err := range errs {
		switch {
		case err == nil:
			held = append(held, begun[i])
		case !errors.Is(err, saga.ErrExceedsCapture):
			t.Errorf("refund %d: %v", i, err)
		}
	}
	if len(held) != fit {
		t.Errorf("%d refunds of %d fit into 1200, want %d", len(held), amount, fit)
	}
	b.wantSums(order, 1200, 0, saga.PaymentCaptured)
	outcomes := []providers.Outcome{given, returned}
	for i, err := range atOnce(len(held), func(i int) error {
		_, err := b.store.Apply(b.ctx, b.outcome(held[i], saga.CallRefund, outcomes[i%2]))
		return err
	}) {
		if err != nil {
			t.Errorf("the end of refund %d: %v", i, err)
		}
	}
	b.wantSums(order, 0, 600, saga.PaymentPartiallyRefunded)
	if n := b.count(`SELECT sum(amount) FROM refunds WHERE status = 'succeeded'`); n != 600 {
		t.Errorf("refunds of %d succeeded", n)
	}
}

// What refunds make of an order's money survives whatever its own saga writes after its end.
func TestOrdersSagaLeavesTheSumsToRefunds(t *testing.T) {
	t.Parallel()
	b := newBundle(t)
	order := b.confirmed("order")
	one, other := b.refund(order, "one", 200), b.refund(order, "other", 100)
	seized := b.seize(order)
	stale := finish(b.advance(seized, saga.Event{Kind: saga.Contradicted, Code: "capture_failed"}), seized)
	b.apply(b.outcome(one, saga.CallRefund, given))
	latest := b.load(order).Order.UpdatedAt
	b.apply(stale)
	b.wantSums(order, 100, 200, saga.PaymentPartiallyRefunded)
	if s := b.load(order); s.Order.Status != saga.OrderInReview || s.State != saga.NeedsReview || s.Order.UpdatedAt.Before(latest) {
		t.Errorf("the order is %s, its saga in %s, updated at %s after %s", s.Order.Status, s.State, s.Order.UpdatedAt, latest)
	}
	b.apply(b.outcome(other, saga.CallRefund, given)) // it was promised before
	b.wantSums(order, 0, 300, saga.PaymentPartiallyRefunded)
}

// waitsForALock reports whether somebody comes to wait for a lock before there is a result.
func (b *bundle) waitsForALock(result <-chan error) bool {
	b.t.Helper()
	for len(result) == 0 {
		waiting := b.count(`SELECT count(*) FROM pg_locks JOIN pg_stat_activity USING (pid)
			WHERE NOT granted AND datname = current_database()`)
		if waiting > 0 {
			return true
		}
	}
	return false
}

// A hold waits for whoever moves the order's saga on, and then sees where it stands.
func TestRefundWaitsForTheOrdersSaga(t *testing.T) {
	t.Parallel()
	for name, end := range map[string]struct {
		commit bool
		want   error
	}{
		"that goes to review": {true, saga.ErrExceedsCapture},
		"that stays":          {false, nil},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := newBundle(t)
			order := b.load(b.confirmed("order"))
			claim := requestClaim("refund")
			change := b.refunding(order, claim, 100)
			review, err := b.pool.Begin(b.ctx)
			if err != nil {
				t.Fatal(err)
			}
			if _, err := review.Exec(b.ctx, `UPDATE sagas SET state = 'needs_review'`); err != nil {
				t.Fatal(err)
			}
			began := make(chan error, 1)
			go func() { _, err := b.store.Begin(b.ctx, claim, change, lease); began <- err }()
			if !b.waitsForALock(began) {
				t.Error("the refund did not wait")
			}
			finish := review.Rollback
			if end.commit {
				finish = review.Commit
			}
			if err := finish(b.ctx); err != nil {
				t.Fatal(err)
			}
			if err := <-began; !errors.Is(err, end.want) {
				t.Errorf("got %v, want %v", err, end.want)
			}
		})
	}
}

// A rule that is broken by the end of a refund is a fault in the books, and no answer for a shop.
func TestSumsThatDoNotAddUp(t *testing.T) {
	t.Parallel()
	b := newBundle(t)
	order := b.confirmed("order")
	refund := b.refund(order, "refund", 300)
	b.exec(`UPDATE orders SET refunding_amount = 0`)
	if _, err := b.store.Apply(b.ctx, b.outcome(refund, saga.CallRefund, given)); err == nil || errors.Is(err, saga.ErrExceedsCapture) || errors.Is(err, saga.ErrLeaseLost) {
		t.Errorf("got %v, want a plain error", err)
	}
	if s := b.load(refund); s.State != saga.Refunding {
		t.Errorf("the refund is in %s", s.State)
	}
	hold := b.outcome(refund, saga.CallRefund, given)
	hold.Refund = saga.RefundHold
	if _, err := b.store.Apply(b.ctx, hold); err == nil {
		t.Error("a refund holds its sum a second time")
	}
	free := b.refunding(b.load(order), requestClaim("free"), 100)
	free.Refund = saga.RefundNone
	if _, err := b.store.Begin(b.ctx, requestClaim("free"), free, lease); err == nil {
		t.Error("a refund begins without holding its sum")
	}
}

// Orders and refunds are read each by their own calls.
func TestReadingRefunds(t *testing.T) {
	t.Parallel()
	b := newBundle(t)
	order, other := b.confirmed("order"), b.confirmed("other")
	refunds := []saga.Saga{b.refund(order, "one", 300), b.refund(order, "two", 200), b.refund(other, "three", 100)}
	refunds[0] = b.apply(b.outcome(refunds[0], saga.CallRefund, given))
	refunds[0].Order.Payment, refunds[0].Order.UpdatedAt = refunds[1].Order.Payment, refunds[1].Order.UpdatedAt // read below
	list, err := b.store.ListRefunds(b.ctx, account, order.Order.ID)
	if err != nil {
		t.Fatal(err)
	}
	now := b.load(order).Order
	refunds[0].Order, refunds[1].Order = now, now
	if diff := cmp.Diff(refunds[:2], list, asStored); diff != "" {
		t.Errorf("list (-want +got):\n%s", diff)
	}
	one, err := b.store.GetRefund(b.ctx, account, order.Order.ID, refunds[0].Key)
	if diff := cmp.Diff(refunds[0], one, asStored); err != nil || diff != "" {
		t.Errorf("get: %v (-want +got):\n%s", err, diff)
	}
	for name, read := range map[string]func() error{
		"of another order":   func() error { return second(b.store.GetRefund(b.ctx, account, other.Order.ID, refunds[0].Key)) },
		"of another account": func() error { return second(b.store.GetRefund(b.ctx, "shop2", order.Order.ID, refunds[0].Key)) },
		"an order as one":    func() error { return second(b.store.GetRefund(b.ctx, account, order.Order.ID, order.Key)) },
		"none":               func() error { return second(b.store.GetRefund(b.ctx, account, order.Order.ID, uuid.New())) },
		"as an order":        func() error { return second(b.store.GetOrder(b.ctx, account, refunds[0].Key)) },
		"as a timeline":      func() error { return second(b.store.Timeline(b.ctx, account, refunds[0].Key)) },
		"load of nothing":    func() error { return second(b.store.Load(b.ctx, saga.Ref{AccountID: account, Key: uuid.New()})) },
		"load from another":  func() error { return second(b.store.Load(b.ctx, saga.Ref{AccountID: "shop2", Key: refunds[0].Key})) },
	} {
		if err := read(); !errors.Is(err, saga.ErrNotFound) {
			t.Errorf("%s: %v, want ErrNotFound", name, err)
		}
	}
	if list, err := b.store.ListRefunds(b.ctx, "shop2", order.Order.ID); err != nil || len(list) != 0 {
		t.Errorf("another account lists %d, %v", len(list), err)
	}
	orders, err := b.store.ListOrders(b.ctx, account, saga.OrderFilter{Limit: 10})
	if err != nil || len(orders) != 2 {
		t.Errorf("%d orders, %v; want 2", len(orders), err)
	}
}

// What is found about a refund is told with its order, and names it.
func TestTimelineTellsOfRefunds(t *testing.T) {
	t.Parallel()
	b := newBundle(t)
	order, other := b.confirmed("order"), b.confirmed("other")
	refund := b.refund(order, "one", 300)
	b.apply(b.outcome(refund, saga.CallRefund, providers.Outcome{Kind: providers.NotFound}))
	timeline, err := b.store.Timeline(b.ctx, account, order.Key)
	if err != nil || len(timeline.Findings) != 1 {
		t.Fatalf("findings %+v, %v", timeline.Findings, err)
	}
	if got := timeline.Findings[0]; got.Kind != saga.FindingUnexpectedOutcome || !strings.HasPrefix(got.Detail, "Refund "+refund.Key.String()+": The provider ") {
		t.Errorf("finding %+v", got)
	}
	seized := b.seize(b.load(other))
	b.apply(finish(b.advance(seized, saga.Event{Kind: saga.Contradicted, Code: saga.FindingCaptureFailed, Detail: "It failed."}), seized))
	timeline, err = b.store.Timeline(b.ctx, account, other.Key)
	if err != nil || len(timeline.Findings) != 1 || timeline.Findings[0].Detail != "It failed." {
		t.Errorf("an order's own findings %+v, %v", timeline.Findings, err)
	}
}

func second[T any](_ T, err error) error { return err }

// The recovery worker meets refunds as it meets orders, each with the lines of its order and its own steps.
func TestRefundsAreDue(t *testing.T) {
	t.Parallel()
	b := newBundle(t)
	order := b.confirmed("order")
	refunds := []saga.Saga{b.refund(order, "one", 300), b.refund(order, "two", 200)}
	for _, s := range refunds {
		b.lapse(s)
	}
	due, err := b.store.ClaimDue(b.ctx, 10, lease)
	if err != nil || !cmp.Equal(keysOf(due), keysOf(refunds)) {
		t.Fatalf("claimed %v, %v", keysOf(due), err)
	}
	for _, s := range due {
		if s.Kind != saga.KindRefund || s.Refund == nil || len(s.Order.Items) != 1 || len(s.Steps) != 1 || s.Steps[0].Amount != s.Refund.Amount {
			t.Errorf("claimed %+v", s)
		}
		b.apply(b.outcome(s, saga.CallRefund, given))
	}
	b.wantSums(order, 0, 500, saga.PaymentPartiallyRefunded)
}
