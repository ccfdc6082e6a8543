package saga

import (
	"context"
	"errors"
	"time"
)

// RecoveryConfig sets up a Recovery.
type RecoveryConfig struct {
	Interval    time.Duration // between two looks when nothing is due
	Concurrency int           // sagas driven at once, and so the most that one look claims
	// Reclaimed hears of each saga whose request has no answer yet, and whose server is gone; nil: nobody does. It must not block.
	Reclaimed func(endpoint string)
}

// Recovery takes up the sagas that are due and that nobody drives: those whose server died, whose outcome is unknown, whose
// customer must act, or that are being undone. Any number of processes may run one: the database hands out each saga
// once.
type Recovery struct {
	RecoveryConfig

	runner *Runner
	slots  chan struct{}
}

// NewRecovery checks the configuration.
func NewRecovery(runner *Runner, c RecoveryConfig) (*Recovery, error) {
	if c.Interval <= 0 || c.Concurrency <= 0 {
		return nil, errors.New("recovery needs an interval and a concurrency above zero")
	}
	return &Recovery{RecoveryConfig: c, runner: runner, slots: make(chan struct{}, c.Concurrency)}, nil
}

// Run works until ctx ends. Sagas that it drives then are the runner's to drain. A database that is away is waited for.
func (w *Recovery) Run(ctx context.Context) {
	for {
		free := w.acquire(ctx)
		if free == 0 {
			return
		}
		if claimed := w.runOnce(ctx, free); claimed == free {
			continue // there may be more
		}
		select {
		case <-time.After(w.Interval):
		case <-ctx.Done():
			return
		}
	}
}

// acquire waits for a free slot, takes all that are free, and returns how many those are; none when ctx has ended.
func (w *Recovery) acquire(ctx context.Context) int {
	select {
	case <-ctx.Done():
		return 0
	case w.slots <- struct{}{}:
	}
	for taken := 1; ; taken++ {
		select {
		case w.slots <- struct{}{}:
		default:
			return taken
		}
	}
}

// runOnce claims due sagas for the slots that were acquired, starts to drive them, frees the other slots, and returns how
// many sagas there were.
func (w *Recovery) runOnce(ctx context.Context, acquired int) int {
	due, err := w.runner.Store.ClaimDue(ctx, acquired, w.runner.Lease)
	if err != nil && ctx.Err() == nil {
		w.runner.Logger.ErrorContext(ctx, "recovery cannot claim", "error", err)
	}
	for _, s := range due {
		if s.Pending != "" && w.Reclaimed != nil {
			w.Reclaimed(s.Pending)
		}
		go func() {
			defer func() { <-w.slots }()
			w.take(ctx, s)
		}()
	}
	for range acquired - len(due) {
		<-w.slots
	}
	return len(due)
}

func (w *Recovery) take(ctx context.Context, s Saga) {
	begun := false
	_, err := w.runner.detached(ctx, nil, func(ctx context.Context) (Answer, error) {
		begun = true
		return w.runner.drive(ctx, s, inRecovery)
	})
	switch {
	case errors.Is(err, ErrDraining):
		if !begun { // else the drive has handed it back
			err = w.runner.handBack(ctx, s, err)
		}
		w.runner.Logger.InfoContext(ctx, "saga left to others", "error", err)
	case err != nil && ctx.Err() == nil && !errors.Is(err, ErrLeaseLost):
		w.runner.Logger.ErrorContext(ctx, "recovery could not drive a saga", "order_id", s.Order.ID, "error", err)
	}
}
