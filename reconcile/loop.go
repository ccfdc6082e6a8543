package reconcile

import (
	"context"
	"errors"
	"time"

	"paysaga/providers"
)

// Timing tells when a run is due: the first time behind another; zero: never.
type Timing interface {
	Next(after time.Time) time.Time
}

// requestedPoll is how soon a run begins that an operator asked for.
const requestedPoll = 5 * time.Second

// Run reconciles at the times that timing gives, in a mode, and takes up what operators asked for, until ctx ends.
func (w *Worker) Run(ctx context.Context, timing Timing, mode Mode) {
	due := timing.Next(time.Now())
	for {
		select {
		case <-ctx.Done():
			return
		case <-time.After(requestedPoll):
		}
		if request, ok := w.requested(ctx); ok {
			w.turn(ctx, request)
		}
		if !due.IsZero() && !time.Now().Before(due) {
			w.turn(ctx, Request{Mode: mode, RequestedBy: "schedule"})
			due = timing.Next(time.Now())
		}
	}
}

// requested is what an operator asked for.
func (w *Worker) requested(ctx context.Context) (Request, bool) {
	run, ok, err := w.Store.NextRequested(ctx)
	if err != nil && ctx.Err() == nil {
		w.Logger.ErrorContext(ctx, "the requests for reconciliations were not read; they are looked for again", "error", err)
	}
	if err != nil || !ok {
		return Request{}, false
	}
	return Request{
		ID: run.ID, Mode: run.Mode, Providers: run.Providers, Since: run.Since, Until: run.Until, RequestedBy: run.RequestedBy,
	}, true
}

// turn does one run, and says how it went.
func (w *Worker) turn(ctx context.Context, request Request) {
	result, err := w.Once(ctx, request, func(Run) {})
	run := result.Run
	_, unlisted := errors.AsType[*providers.ListError](err)
	switch {
	case ctx.Err() != nil:
	case errors.Is(err, ErrBusy):
		w.Logger.InfoContext(ctx, "another process reconciles at this moment")
	case err != nil:
		w.Logger.ErrorContext(ctx, "reconciliation failed", "run_id", run.ID, "unlisted", unlisted, "error", err)
	default:
		w.Logger.InfoContext(ctx, "reconciled", "run_id", run.ID, "mode", run.Mode, "payments", run.Totals.Payments,
			"transactions", run.Totals.Transactions, "opened", run.Totals.Opened, "seen_again", run.Totals.SeenAgain,
			"healed", run.Totals.Healed, "repaired", run.Totals.Repaired, "refused", run.Totals.Refused)
	}
}
