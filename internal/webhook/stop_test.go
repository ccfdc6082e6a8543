package webhook_test

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"paysaga/internal/webhook"
	"paysaga/saga"
)

// A runner that drains takes nothing: the event is another process's at once, and the worker asks for no more.
func TestDrainingRunner(t *testing.T) {
	t.Parallel()
	b := newBundle(t)
	ref := b.charged("stripe", "pi_1")
	b.runner.react = func(context.Context, call, int) error { return saga.ErrDraining }
	b.accepted(stripeMessage("evt_1", "payment_intent.succeeded", "pi_1", "", time.Now()))
	b.inbox.Run(t.Context()) // ends by itself

	for first := true; first || len(b.store.settled) > 0; first = false { // a claim can be on its way when the first one ends
		if s := b.wantNext(webhook.Waiting, false); s.result.Pause != 0 {
			t.Errorf("%+v", s.result)
		}
	}
	if n := b.count(`SELECT count(*) FROM webhook_events WHERE status = 'waiting' AND failures = 0 AND next_attempt_at <= now()`); n != 1 {
		t.Error("it is not due at once")
	}
	b.runner.react = nil
	b.inbox = b.newInbox()
	b.run()
	if s := b.wantNext(webhook.Applied, false); s.result.Saga != ref {
		t.Errorf("%+v", s.result)
	}
}

// A worker that is stopped gives back what it has, and nothing of that is a failure.
func TestStoppedWorker(t *testing.T) {
	t.Parallel()
	b := newBundle(t)
	b.charged("stripe", "pi_1")
	entered := make(chan struct{})
	b.runner.react = func(ctx context.Context, _ call, _ int) error {
		close(entered)
		<-ctx.Done()
		return fmt.Errorf("caller went away: %w", ctx.Err())
	}
	b.accepted(stripeMessage("evt_1", "payment_intent.succeeded", "pi_1", "", time.Now()))
	stop := b.run()
	<-entered
	stop()
	b.wantNext(webhook.Waiting, false)
	if n := b.count(`SELECT count(*) FROM webhook_events WHERE status = 'waiting' AND failures = 0 AND next_attempt_at <= now()`); n != 1 {
		t.Error("it is not due at once")
	}
}

// A worker that died is replaced when its lease has run out; should it still live, it writes nothing any more.
func TestLeaseThatRanOut(t *testing.T) {
	t.Parallel()
	b := newBundle(t)
	b.charged("stripe", "pi_1")
	b.accepted(stripeMessage("evt_1", "payment_intent.succeeded", "pi_1", "", time.Now()))
	dead, err := b.store.ClaimEvents(t.Context(), 10, time.Minute)
	if err != nil || len(dead) != 1 {
		t.Fatal(dead, err)
	}
	b.run()
	b.due() // as a minute would
	b.wantNext(webhook.Applied, false)
	if err := b.store.Store.SettleEvent(t.Context(), dead[0], webhook.Result{Status: webhook.Waiting, Failed: true}); !errors.Is(err, saga.ErrLeaseLost) {
		t.Errorf("the dead one wrote: %v", err)
	}
	b.wantRow("evt_1", webhook.Applied, 2, 0)
}

// Many processes apply each event once.
func TestManyWorkers(t *testing.T) {
	t.Parallel()
	b := newBundle(t)
	const events = 100
	for i := range events {
		payment := fmt.Sprintf("pi_%d", i)
		b.charged("stripe", payment)
		b.accepted(stripeMessage(fmt.Sprintf("evt_%d", i), "payment_intent.succeeded", payment, "", time.Now()))
	}
	for range 3 {
		b.inbox = b.newInbox()
		b.run()
	}
	for range events {
		b.wantNext(webhook.Applied, false)
	}
	if n := len(b.runner.all()); n != events {
		t.Errorf("%d calls for %d events", n, events)
	}
}
