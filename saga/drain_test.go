package saga_test

import (
	"context"
	"errors"
	"testing"

	"github.com/google/uuid"

	"paysaga/providers"
	"paysaga/saga"
)

// nowhere is a saga that does not exist: taking it over tells whether a server takes on work, and does nothing.
var nowhere = saga.Ref{AccountID: "shop1", Key: uuid.UUID{1}}

func TestDrainWaitsForWhatRuns(t *testing.T) {
	t.Parallel()
	b, claim := newBundle(t), claimOf("drained")
	release, drained := make(chan struct{}), make(chan struct{})
	came := b.startHeld(b.ctx, b.runner, claim, until(release))
	go func() { b.runner.Drain(b.ctx); close(drained) }()
	eventually(t, "the server turns work away", func() bool {
		_, err := b.runner.TakeOver(b.ctx, nowhere, 1)
		return errors.Is(err, saga.ErrDraining)
	})
	select {
	case <-drained:
		t.Error("did not wait for the order that runs")
	default:
	}
	close(release)
	if done := <-came; done.err != nil || done.answer.Status != 201 {
		t.Errorf("the order that ran: %d, %v", done.answer.Status, done.err)
	}
	<-drained
	b.wantState(claim, saga.Completed, saga.OrderConfirmed, saga.PaymentCaptured)
}

// What cannot finish in time is handed back, so that another server goes on at once, with no lease to wait for.
func TestDrainHandsLeasesBack(t *testing.T) {
	t.Parallel()
	b, claim := newBundle(t), claimOf("handed-back")
	b.bank.on(saga.CallCharge, losesTheAnswer())
	came := b.startHeld(b.ctx, b.runner, claim, func(ctx context.Context) { <-ctx.Done() })
	noTime, cancel := context.WithCancel(b.ctx)
	cancel()
	b.runner.Drain(noTime)
	if done := <-came; !errors.Is(done.err, saga.ErrDraining) {
		t.Errorf("the order that was cut off: %d, %v", done.answer.Status, done.err)
	}
	if s := b.get(claim); s.State != saga.Charging || stepOf(s, saga.StepCharge).Sends != 0 {
		t.Errorf("a call that was cut off was written: %+v", s)
	}
	if record := b.record(claim); record.LeaseLeft > 0 {
		t.Errorf("the key is locked for another %s", record.LeaseLeft)
	}
	if claimed := b.recovery(b.newRunner(b.store)).Once(b.ctx); claimed != 1 {
		t.Fatalf("the next server claimed %d sagas", claimed)
	}
	b.wantState(claim, saga.Completed, saga.OrderConfirmed, saga.PaymentCaptured)
	b.wantTaken(1, 1)
}

// A notice that is cut off is brought again, to another server.
func TestDrainCutsANoticeOff(t *testing.T) {
	t.Parallel()
	b, claim := newBundle(t), claimOf("noticed")
	b.await(claim)
	out, came := make(chan struct{}), make(chan error, 1)
	b.bank.hook(func(ctx context.Context, _ saga.Call) { close(out); <-ctx.Done() }, nil)
	go func() {
		came <- b.runner.Notify(b.ctx, refOf(claim), providers.Notice{About: providers.AboutCharge})
	}()
	<-out
	noTime, cancel := context.WithCancel(b.ctx)
	cancel()
	b.runner.Drain(noTime)
	if err := <-came; !errors.Is(err, saga.ErrDraining) {
		t.Errorf("the notice: %v", err)
	}
	b.bank.hook(nil, nil)
	if err := b.newRunner(b.store).Notify(b.ctx, refOf(claim), providers.Notice{About: providers.AboutCharge}); err != nil {
		t.Errorf("the notice at another server: %v", err)
	}
}

func TestDrainingServerHandsBackWhatItsRecoveryClaims(t *testing.T) {
	t.Parallel()
	b, claim := newBundle(t), claimOf("claimed")
	b.dieInCharge(claim, nothing())
	b.lapse()
	draining := b.newRunner(b.store)
	draining.Drain(b.ctx)
	if claimed := b.recovery(draining).Once(b.ctx); claimed != 1 {
		t.Fatalf("claimed %d", claimed)
	}
	if claimed := b.recovery(b.newRunner(b.store)).Once(b.ctx); claimed != 1 {
		t.Fatalf("the next server claimed %d", claimed)
	}
	b.wantState(claim, saga.Completed, saga.OrderConfirmed, saga.PaymentCaptured)
}

// A client that hangs up does not stop its saga.
func TestClientThatHangsUp(t *testing.T) {
	t.Parallel()
	b, claim := newBundle(t), claimOf("hung-up")
	client, hangUp := context.WithCancel(b.ctx)
	release := make(chan struct{})
	came := b.startHeld(client, b.runner, claim, until(release))
	hangUp()
	if gone := <-came; !errors.Is(gone.err, context.Canceled) {
		t.Errorf("the client heard %d, %v", gone.answer.Status, gone.err)
	}
	close(release)
	b.runner.Drain(b.ctx)
	b.wantState(claim, saga.Completed, saga.OrderConfirmed, saga.PaymentCaptured)
	if record := b.record(claim); record.Answer.Status != 201 {
		t.Errorf("the answer for its retry is %d", record.Answer.Status)
	}
}
