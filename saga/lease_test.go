package saga_test

import (
	"context"
	"errors"
	"sync/atomic"
	"testing"
	"time"

	"paysaga/providers"
	"paysaga/saga"
)

// result is what a Start that runs beside the test came to.
type result struct {
	answer saga.Answer
	err    error
}

// startHeld begins an order and returns once its first charge is out; the call goes on when held is done.
func (b *bundle) startHeld(ctx context.Context, runner *saga.Runner, claim saga.Claim, held func(ctx context.Context)) <-chan result {
	b.t.Helper()
	out, came := make(chan struct{}), make(chan result, 1)
	var calls atomic.Int32
	b.bank.hook(func(ctx context.Context, _ saga.Call) {
		if calls.Add(1) == 1 {
			close(out)
			held(ctx)
		}
	}, nil)
	go func() {
		answer, err := runner.Start(ctx, claim, cups())
		came <- result{answer, err}
	}()
	select {
	case <-out:
	case early := <-came:
		b.t.Fatalf("the charge was never sent: %v", early.err)
	}
	return came
}

// until holds a call until a channel is closed, whatever becomes of its context: a call that cannot be cut off.
func until(done <-chan struct{}) func(context.Context) {
	return func(context.Context) { <-done }
}

// A step outlives its lease, another server does it meanwhile, and the first one's stale result comes last.
func TestStaleResultIsFencedOff(t *testing.T) {
	t.Parallel()
	for name, stale := range map[string]reply{
		"the same": {works: true},
		"declined": refuses(providers.Outcome{Kind: providers.Declined, Decline: &providers.Decline{Code: "late"}}),
		"unknown":  nothing(),
		"busy":     refuses(providers.Outcome{Kind: providers.Busy}),
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b, claim := newBundle(t), claimOf("stale")
			release := make(chan struct{})
			came := b.startHeld(b.ctx, b.runner, claim, until(release))
			b.lapse()
			answer, err := b.newRunner(b.store).TakeOver(b.ctx, refOf(claim), b.get(claim).Lease.Fence)
			if err != nil || answer.Status != 201 {
				t.Fatalf("the second server: %d, %v", answer.Status, err)
			}
			before := b.get(claim)
			b.bank.on(saga.CallCharge, stale, stale, stale)
			close(release)
			if late := <-came; !errors.Is(late.err, saga.ErrLeaseLost) {
				t.Errorf("the first server: %d, %v; want ErrLeaseLost", late.answer.Status, late.err)
			}
			after := b.wantState(claim, saga.Completed, saga.OrderConfirmed, saga.PaymentCaptured)
			if !after.UpdatedAt.Equal(before.UpdatedAt) || len(after.Steps) != len(before.Steps) {
				t.Errorf("the stale result was written: %+v", after)
			}
			if record := b.record(claim); string(record.Answer.Body) != string(answer.Body) {
				t.Errorf("answered %s, stored %s", answer.Body, record.Answer.Body)
			}
			b.wantTaken(1, 1)
			b.wantStock("cup", 8)
		})
	}
}

// renewals tells of every renewal that came back.
type renewals struct {
	saga.Store

	renewed chan error
}

func (r renewals) Renew(ctx context.Context, ref saga.Ref, fence int64, lease time.Duration) error {
	err := r.Store.Renew(ctx, ref, fence, lease)
	select {
	case r.renewed <- err:
	case <-ctx.Done():
	}
	return err
}

// shortLease makes renewals come often. Nothing in these tests waits for it to run out.
const shortLease = 30 * time.Millisecond

func TestLongCallKeepsItsLease(t *testing.T) {
	t.Parallel()
	b, claim := newBundle(t), claimOf("long")
	renewed, release := make(chan error), make(chan struct{})
	runner := b.newRunnerWith(saga.Config{Store: renewals{b.store, renewed}, Lease: shortLease})
	came := b.startHeld(b.ctx, runner, claim, until(release))
	b.lapse()
	for range 2 { // the second one began after the lapse
		if err := <-renewed; err != nil {
			t.Fatalf("renew: %v", err)
		}
	}
	// Both the saga and its key are held again, under the same fence.
	const held = `SELECT count(*) FROM sagas s JOIN idempotency_keys k USING (account_id)
		WHERE k.saga_key = s.key AND s.lock_version = 1 AND k.lock_version = 1 AND s.locked_until > s.updated_at
			AND k.locked_until = s.locked_until AND s.next_attempt_at = s.locked_until`
	if n := b.count(held); n != 1 {
		t.Error("the lease is not held")
	}
	b.bank.hook(nil, nil)
	close(release)
	go func() { // renewals until the end
		for range renewed {
			continue
		}
	}()
	if done := <-came; done.err != nil || done.answer.Status != 201 {
		t.Errorf("after the call: %d, %v", done.answer.Status, done.err)
	}
}

// A lost lease ends the call: its result could not be written.
func TestLostLeaseCutsTheCallOff(t *testing.T) {
	t.Parallel()
	b, claim := newBundle(t), claimOf("cut-off")
	runner := b.newRunnerWith(saga.Config{Store: b.store, Lease: shortLease})
	var cause error
	came := b.startHeld(b.ctx, runner, claim, func(ctx context.Context) {
		<-ctx.Done()
		cause = context.Cause(ctx)
	})
	b.exec(`UPDATE sagas SET lock_version = lock_version + 1, locked_until = now() + interval '1 hour'`) // another server's
	b.bank.on(saga.CallCharge, nothing())
	if done := <-came; !errors.Is(done.err, saga.ErrLeaseLost) {
		t.Errorf("the server that lost its lease: %d, %v", done.answer.Status, done.err)
	}
	if !errors.Is(cause, saga.ErrLeaseLost) {
		t.Errorf("the call ended because of %v", cause)
	}
	if s := b.get(claim); s.State != saga.Charging || stepOf(s, saga.StepCharge).Sends != 0 {
		t.Errorf("the server that lost its lease wrote: %+v", s)
	}
}

func TestManyTakeOversOfOneLease(t *testing.T) {
	t.Parallel()
	b, claim := newBundle(t), claimOf("take-over")
	b.dieInCharge(claim, nothing())
	b.lapse()
	const servers = 20
	var errs [servers]error
	atOnce(servers, func(i int) { _, errs[i] = b.runner.TakeOver(b.ctx, refOf(claim), 1) })
	won := 0
	for _, err := range errs {
		if err == nil {
			won++
		} else if !errors.Is(err, saga.ErrLeaseLost) {
			t.Errorf("take over: %v", err)
		}
	}
	if s := b.wantState(claim, saga.Completed, saga.OrderConfirmed, saga.PaymentCaptured); won != 1 || s.Drives != 2 {
		t.Errorf("%d servers won, %d drives", won, s.Drives)
	}
	if times, _ := b.bank.called(saga.CallCharge); times != 2 { // the dead server's and the winner's
		t.Errorf("%d charges", times)
	}
}

// seizing lets something happen between a notice's look at a saga and its taking of the lease.
type seizing struct {
	saga.Store

	before func()
}

func (s seizing) Seize(ctx context.Context, ref saga.Ref, fence int64, lease time.Duration) (saga.Saga, error) {
	s.before()
	return s.Store.Seize(ctx, ref, fence, lease)
}

// A notice reads a saga whose holder is out too long, and the holder writes before the notice has the lease: what it meant for the saga as
// it was means nothing for the saga as it is.
func TestNoticeGoesByTheSagaThatItHasTaken(t *testing.T) {
	t.Parallel()
	b, claim := newBundle(t), claimOf("overtaken")
	release := make(chan struct{})
	came := b.startHeld(b.ctx, b.runner, claim, until(release))
	b.lapse()
	postman := b.newRunner(seizing{b.store, func() {
		close(release)
		if late := <-came; late.err != nil || late.answer.Status != 201 {
			t.Errorf("the holder: %d, %v", late.answer.Status, late.err)
		}
	}})
	hint := providers.Notice{ID: "event_1", Type: "hint", About: providers.AboutCharge, Key: chargeKey(claim)}
	if err := postman.Notify(b.ctx, refOf(claim), hint); err != nil {
		t.Errorf("notify: %v", err)
	}
	if times, _ := b.bank.called(saga.CallCharge); times != 1 {
		t.Errorf("charged %d times", times)
	}
	if after := b.wantState(claim, saga.Completed, saga.OrderConfirmed, saga.PaymentCaptured); after.Lease.Until.After(after.ReadAt) {
		t.Error("the lease is not handed back")
	}
}
