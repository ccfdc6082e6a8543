package reconcile

import (
	"context"
	"errors"
	"slices"
	"time"

	"github.com/google/uuid"

	"paysaga/saga"
)

// Timing tells when a run is due: the first time behind another; zero: never.
type Timing interface {
	Next(after time.Time) time.Time
}

// requestedPoll is how soon a run begins that an operator asked for.
const requestedPoll = 5 * time.Second

// bySchedule is who wanted the runs of the schedule, as the audit log tells it.
const bySchedule = "schedule"

// Run reconciles at the times that timing gives, in a mode, and takes up what operators asked for, until ctx ends. Turns are counted from
// the last one, whichever process made it: of several processes one does a turn, and what was missed while none ran is made up for. A turn
// that a process left on the way, as it died or was ended, is gone on with at once by whoever sees it.
func (w *Worker) Run(ctx context.Context, timing Timing, mode Mode) {
	last := w.newestTurn(ctx, time.Now())
	due := timing.Next(last)
	for {
		select {
		case <-ctx.Done():
			return
		case <-time.After(requestedPoll):
		}
		if request, ok := w.requested(ctx); ok {
			w.turn(ctx, request)
		}
		if due.IsZero() {
			continue
		}
		if request, ok := w.left(ctx, mode); ok {
			w.turn(ctx, request)
		}
		if time.Now().Before(due) {
			continue
		}
		if newest := w.newestTurn(ctx, last); newest.After(last) { // another process has done it
			last, due = newest, timing.Next(newest)
			continue
		}
		w.turn(ctx, Request{Mode: mode, RequestedBy: bySchedule})
	}
}

// newestTurn is when the schedule's newest run began; otherwise where there was none, or nobody can tell.
func (w *Worker) newestTurn(ctx context.Context, otherwise time.Time) time.Time {
	last, err := w.Store.NewestRun(ctx, bySchedule)
	if err != nil && ctx.Err() == nil {
		w.Logger.ErrorContext(ctx, "the newest reconciliation was not found", "error", err)
	}
	if err != nil || last.IsZero() {
		return otherwise
	}
	return last
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
	return requestOf(run), true
}

// left is a turn of the schedule that was left on the way. One of other providers was left before the settings changed: what is not set
// up any more cannot be listed.
func (w *Worker) left(ctx context.Context, mode Mode) (Request, bool) {
	run, ok, err := w.Store.LeftRun(ctx, bySchedule, mode)
	if err != nil && ctx.Err() == nil {
		w.Logger.ErrorContext(ctx, "a reconciliation that was left is looked for again", "error", err)
	}
	if err != nil || !ok || !slices.Equal(run.Providers, w.providers()) {
		return Request{}, false
	}
	return requestOf(run), true
}

// requestOf asks for a run that is written already.
func requestOf(run Run) Request {
	return Request{
		ID: run.ID, Mode: run.Mode, Providers: run.Providers, Since: run.Since, Until: run.Until, RequestedBy: run.RequestedBy,
	}
}

// turn does one run, and says how it went.
func (w *Worker) turn(ctx context.Context, request Request) {
	result, err := w.Once(ctx, request, func(Run) {})
	run := result.Run
	switch {
	case ctx.Err() != nil:
	case errors.Is(err, ErrBusy):
		w.Logger.DebugContext(ctx, "another process reconciles at this moment; the turn waits for its end")
	case run.ID == uuid.Nil && errors.Is(err, saga.ErrNotFound):
		w.Logger.DebugContext(ctx, "another process has ended this reconciliation meanwhile", "run_id", request.ID)
	case err != nil:
		w.Logger.ErrorContext(ctx, "reconciliation failed", "run_id", run.ID, "error", err)
	default:
		w.Logger.InfoContext(ctx, "reconciled", "run_id", run.ID, "mode", run.Mode, "payments", run.Totals.Payments,
			"transactions", run.Totals.Transactions, "opened", run.Totals.Opened, "seen_again", run.Totals.SeenAgain,
			"healed", run.Totals.Healed, "repaired", run.Totals.Repaired, "refused", run.Totals.Refused)
	}
}
