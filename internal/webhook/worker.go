package webhook

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"runtime/debug"
	"sync"
	"time"

	"paysaga/saga"
)

// settleTimeout is for writing what came of an attempt while the process stops. What is not written is tried again.
const settleTimeout = 3 * time.Second

// storeTimeout is longer than the database gives a statement, and a new connection, together.
const storeTimeout = 15 * time.Second

// Run applies events until ctx ends or the runner drains, and returns when its last attempt has. A database that is away is
// waited for.
func (b *Inbox) Run(ctx context.Context) {
	claiming, stop := context.WithCancel(ctx)
	defer stop()
	var attempts sync.WaitGroup
	defer attempts.Wait()
	for {
		free := b.acquire(claiming)
		if free == 0 {
			return
		}
		if claimed := b.runOnce(ctx, free, &attempts, stop); claimed == free {
			continue // there may be more
		}
		select {
		case <-b.stored:
		case <-time.After(b.Interval):
		case <-claiming.Done():
			return
		}
	}
}

// acquire waits for a free slot, takes all that are free, and returns how many those are; none when ctx has ended.
func (b *Inbox) acquire(ctx context.Context) int {
	if ctx.Err() != nil {
		return 0
	}
	select {
	case <-ctx.Done():
		return 0
	case b.slots <- struct{}{}:
	}
	for taken := 1; ; taken++ {
		select {
		case b.slots <- struct{}{}:
		default:
			return taken
		}
	}
}

// runOnce claims due events for the slots that were acquired, starts to apply them, frees the other slots, and returns how many
// events there were. It calls stop when the runner takes nothing any more.
func (b *Inbox) runOnce(ctx context.Context, acquired int, attempts *sync.WaitGroup, stop func()) int {
	claiming, cancel := context.WithTimeout(ctx, storeTimeout) // a connection can go silent
	due, err := b.Store.ClaimEvents(claiming, acquired, b.Lease)
	cancel()
	if err != nil && ctx.Err() == nil {
		b.Logger.ErrorContext(ctx, "webhook events cannot be claimed", "error", err)
	}
	for _, event := range due {
		attempts.Go(func() {
			defer func() { <-b.slots }()
			b.attempt(ctx, event, stop)
		})
	}
	for range acquired - len(due) {
		<-b.slots
	}
	return len(due)
}

// attempt applies an event once and writes what came of it.
func (b *Inbox) attempt(ctx context.Context, event Event, stop func()) {
	ref, err := b.apply(ctx, event)
	if err != nil && ctx.Err() != nil {
		err = errors.Join(saga.ErrDraining, err) // it was cut off, and says nothing about the event
	}
	if errors.Is(err, saga.ErrDraining) {
		stop() // before the event is given back, or it would be claimed here again
	}
	result := Reaction(event, ref, err)
	if half := result.Pause / 2; half > 0 {
		result.Pause = half + rand.N(half) //nolint:gosec // a pause is no secret
	}
	settling, cancel := context.WithTimeout(context.WithoutCancel(ctx), settleTimeout)
	defer cancel()
	if failed := b.Store.SettleEvent(settling, event, result); failed != nil {
		b.Logger.WarnContext(ctx, "webhook event not settled; it is tried again", append(names(event), "error", failed)...)
		return
	}
	b.tell(ctx, event, result)
	if result.Status == Waiting && result.Pause < b.Interval {
		time.AfterFunc(result.Pause, b.wake) // else it would wait for the next look
	}
}

// apply finds the event's saga and brings the notice to it.
func (b *Inbox) apply(ctx context.Context, event Event) (saga.Ref, error) {
	if isOther(event.Notice) {
		return saga.Ref{}, errOther
	}
	finding, cancel := context.WithTimeout(ctx, storeTimeout)
	ref, err := b.Store.FindSaga(finding, event.Provider, event.Notice)
	cancel()
	if err != nil {
		return saga.Ref{}, fmt.Errorf("find saga: %w", err)
	}
	// Several events of one payment come at once. Here they take turns, rather than each other's lease.
	if _, taken := b.busy.LoadOrStore(ref, true); taken {
		return ref, saga.ErrLeaseLost
	}
	defer b.busy.Delete(ref)
	return ref, b.notify(ctx, ref, event)
}

// notify turns a panic into an error: one broken event must not take the others' process down.
func (b *Inbox) notify(ctx context.Context, ref saga.Ref, event Event) (err error) {
	defer func() {
		if p := recover(); p != nil {
			b.Logger.ErrorContext(ctx, "webhook event panicked",
				append(names(event), "panic", fmt.Sprint(p), "stack", string(debug.Stack()))...)
			err = errPanicked
		}
	}()
	return b.Runner.Notify(ctx, ref, event.Notice)
}

// names are what an operator finds an event by.
func names(event Event) []any {
	return []any{"provider", event.Provider, "event_id", event.Notice.ID, "type", event.Notice.Type, "attempts", event.Attempts}
}

func (b *Inbox) tell(ctx context.Context, event Event, result Result) {
	level, message := slog.LevelDebug, "webhook event waits"
	switch {
	case result.Status == Parked:
		level, message = slog.LevelError, "webhook event parked: look at its saga, then have the provider send it again"
	case result.Status == Unmatched:
		level, message = slog.LevelInfo, "webhook event unmatched"
	case result.Status == Applied:
		level, message = slog.LevelInfo, "webhook event applied"
	case result.Failed:
		level, message = slog.LevelWarn, "webhook event failed; it is tried again"
	}
	more := []any{"pause_ms", result.Pause.Milliseconds(), "reason", result.Reason}
	if result.Saga != (saga.Ref{}) {
		more = append(more, "saga_key", result.Saga.Key)
	}
	b.Logger.Log(ctx, level, message, append(names(event), more...)...)
}
