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

// scheduled is who wants the runs of the schedule.
const scheduled = "schedule"

// Run reconciles at the times that timing gives, in a mode, and takes up what operators asked for, until ctx ends. Several processes share
// the turns: a time counts from the newest run of the schedule, whoever did it.
func (w *Worker) Run(ctx context.Context, timing Timing, mode Mode) {
	counted := w.newestTurn(ctx)
	due := timing.Next(counted)
	for {
		select {
		case <-ctx.Done():
			return
		case <-time.After(requestedPoll):
		}
		if request, ok := w.requested(ctx); ok {
			w.turn(ctx, request)
		}
		if due.IsZero() || time.Now().Before(due) {
			continue
		}
		newest := w.newestTurn(ctx)
		if !newest.After(counted) { // else another process had this turn
			w.turn(ctx, Request{Mode: mode, RequestedBy: scheduled})
			newest = time.Now()
		}
		counted = newest
		due = timing.Next(counted)
	}
}

// newestTurn is when the newest run of the schedule began; now, where there was none, or nobody knows.
func (w *Worker) newestTurn(ctx context.Context) time.Time {
	newest, err := w.Store.NewestRun(ctx, scheduled)
	if err != nil && ctx.Err() == nil {
		w.Logger.ErrorContext(ctx, "the newest reconciliation was not found", "error", err)
	}
	if newest.IsZero() {
		return time.Now()
	}
	return newest
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
