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
}

// Recovery takes up the sagas that are due and that nobody drives: those whose server died, whose outcome is unknown, whose
// customer must act, or that are being undone. Any number of processes may run one: the database hands out each saga
// once.
type Recovery struct {
	RecoveryConfig
	runner *Runner
}

// NewRecovery checks the configuration.
func NewRecovery(runner *Runner, c RecoveryConfig) (*Recovery, error) {
	if c.Interval <= 0 || c.Concurrency <= 0 {
		return nil, errors.New("recovery needs an interval and a concurrency above zero")
	}
	return &Recovery{RecoveryConfig: c, runner: runner}, nil
}

// Run works until ctx ends. Sagas that it drives then are the runner's to drain. A database that is away is waited for.
func (w *Recovery) Run(ctx context.Context) {
	slots := make(chan struct{}, w.Concurrency)
	for ctx.Err() == nil {
		free := w.Concurrency - len(slots)
		claimed := w.runOnce(ctx, free, slots)
		if claimed == free {
			w.waitForSlot(ctx, slots) // all are taken, and there may be more due
			continue
		}
		select {
		case <-ctx.Done():
		case <-time.After(w.Interval):
		}
	}
}

// waitForSlot waits until another saga could be driven.
func (w *Recovery) waitForSlot(ctx context.Context, slots chan struct{}) {
	select {
	case slots <- struct{}{}:
		<-slots
	case <-ctx.Done():
	}
}

// runOnce claims at most limit due sagas, starts to drive them, and returns how many there were.
func (w *Recovery) runOnce(ctx context.Context, limit int, slots chan struct{}) int {
	if limit == 0 {
		return 0
	}
	due, err := w.runner.Store.ClaimDue(ctx, limit, w.runner.Lease)
	if err != nil {
		if ctx.Err() == nil {
			w.runner.Logger.ErrorContext(ctx, "recovery cannot claim", "error", err)
		}
		return 0
	}
	for _, s := range due {
		slots <- struct{}{}
		go func() {
			defer func() { <-slots }()
			w.take(ctx, s)
		}()
	}
	return len(due)
}

func (w *Recovery) take(ctx context.Context, s Saga) {
	_, err := w.runner.detached(ctx, func(ctx context.Context) (Answer, error) {
		return w.runner.drive(ctx, s, inRecovery)
	})
	switch {
	case errors.Is(err, ErrDraining), errors.Is(err, ErrOverloaded):
		if err := w.runner.handBack(ctx, s); err != nil {
			w.runner.Logger.InfoContext(ctx, "lease handed back", "order_id", s.Order.ID)
		}
	case err != nil && ctx.Err() == nil && !errors.Is(err, ErrLeaseLost):
		w.runner.Logger.ErrorContext(ctx, "recovery could not drive a saga", "order_id", s.Order.ID, "error", err)
	}
}
