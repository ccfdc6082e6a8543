package upkeep

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"time"
)

const (
	// spare is how far ahead of the last answer that is needed today there are partitions: time for a person to come, when
	// upkeep does not run.
	spare = 14 * day
	// batch is how many rows one transaction deletes: it takes some milliseconds, for which only the same keys' next requests wait.
	batch = 1000
	// maxBatches bounds one run, at 200,000 keys. At the default interval that is 28 million a day.
	maxBatches = 200
	// breath lets other transactions of the database come first, between two batches.
	breath = 20 * time.Millisecond
	// maxDropped bounds how many partitions one run drops. One a week is due.
	maxDropped = 8
	// pastLimit: what an account has spent longer ago counts for nothing, the limit being a minute's.
	pastLimit = time.Hour
)

// Run does upkeep now and then again and again, until ctx ends. A database that is away is waited for.
func (w *Worker) Run(ctx context.Context) {
	for {
		report, err := w.Once(ctx, func(Report) {})
		if ctx.Err() != nil {
			return
		}
		w.tell(ctx, report, err)
		select {
		case <-ctx.Done():
			return
		case <-time.After(jitter(w.Interval)):
		}
	}
}

// jitter keeps the processes of a house, which may have started together, from working at the same moments: a tenth more or less.
func jitter(interval time.Duration) time.Duration {
	return interval - interval/10 + rand.N(interval/5+1) //nolint:gosec // a pause is no secret
}

// Report is what a run has done.
type Report struct {
	Made      int // partitions
	Deleted   int // keys
	MoreKeys  bool
	Kept      int // answers that were moved, as their keys may still be asked for
	Dropped   []string
	Refused   []Refusal
	Limits    int  // rows of accounts that have begun no key for long
	Busy      bool // another process is at it, and did the rest
	DaysAhead int  // for which there is a partition for every answer
	ForNew    int  // days for which the answers of new keys find one, as the metric has it
	End       time.Time
	Figures   Figures
}

// Refusal is a partition whose week is over and that was not dropped.
type Refusal struct{ Partition, Reason string }

// Once does what is due, within its bounds, and tells progress after each batch. Where a step fails the others are done all the same.
func (w *Worker) Once(ctx context.Context, progress func(Report)) (Report, error) {
	run := &run{Worker: w, progress: progress}
	var errs []error
	for _, step := range []struct {
		name string
		do   func(context.Context) error
	}{
		{"make partitions", run.makePartitions},
		{"keep answers of open orders", run.keepAnswers},
		{"delete expired keys", run.deleteKeys},
		{"drop partitions", run.dropPartitions},
		{"delete past limits", run.deleteLimits},
	} {
		err := step.do(ctx)
		if errors.Is(err, ErrBusy) {
			run.report.Busy = true
			break
		}
		if err != nil {
			errs = append(errs, fmt.Errorf("%s: %w", step.name, err))
		}
	}
	if err := run.measure(ctx); err != nil {
		errs = append(errs, fmt.Errorf("measure tables: %w", err))
	}
	if len(errs) == 0 && !run.report.Busy {
		w.Meter.Succeeded(time.Now())
	}
	return run.report, errors.Join(errs...)
}

type run struct {
	*Worker

	report   Report
	progress func(Report)
}

func (r *run) makePartitions(ctx context.Context) error {
	made, err := r.Store.MakePartitions(ctx, r.Retention+spare)
	r.report.Made += made
	return err
}

// keepAnswers comes before anything is dropped. An answer moves again when its order is still open after the time that it was
// moved ahead.
func (r *run) keepAnswers(ctx context.Context) error {
	partitions, err := r.Store.ListPartitions(ctx)
	if err != nil {
		return err
	}
	for _, partition := range first(partitions.Over(), maxDropped) {
		if partition.Attachment != Attached {
			continue
		}
		_, err := r.batches(ctx, func() (int, error) {
			moved, err := r.Store.KeepAnswers(ctx, partition, spare, batch)
			r.report.Kept += moved
			return moved, err
		})
		if err != nil {
			return err
		}
	}
	return nil
}

func (r *run) deleteKeys(ctx context.Context) error {
	if r.KeepExpired {
		return nil
	}
	var from time.Time
	more, err := r.batches(ctx, func() (int, error) {
		deleted, last, err := r.Store.DeleteExpiredKeys(ctx, from, batch)
		from = last
		r.report.Deleted += deleted
		r.Meter.KeysCleaned(int64(deleted))
		return deleted, err
	})
	r.report.MoreKeys = more
	return err
}

func (r *run) dropPartitions(ctx context.Context) error {
	partitions, err := r.Store.ListPartitions(ctx)
	if err != nil {
		return err
	}
	for _, partition := range first(partitions.Over(), maxDropped) {
		err := r.Store.DropPartition(ctx, partition)
		_, inUse := errors.AsType[*InUseError](err)
		switch {
		case inUse, errors.Is(err, ErrHeld):
			r.report.Refused = append(r.report.Refused, Refusal{partition.Name, err.Error()})
		case err != nil:
			return err
		default:
			r.report.Dropped = append(r.report.Dropped, partition.Name)
			r.Meter.PartitionsDropped(1)
		}
		r.progress(r.report)
	}
	return nil
}

func (r *run) deleteLimits(ctx context.Context) error {
	_, err := r.batches(ctx, func() (int, error) {
		deleted, err := r.Store.DeleteLimits(ctx, pastLimit, batch)
		r.report.Limits += deleted
		return deleted, err
	})
	return err
}

// batches repeats a batch until it finds less than it may take, and tells whether there may be more.
func (r *run) batches(ctx context.Context, do func() (int, error)) (more bool, err error) {
	for range maxBatches {
		done, err := do()
		if err != nil {
			return false, err
		}
		r.progress(r.report)
		if done < batch {
			return false, nil
		}
		select {
		case <-ctx.Done():
			return true, ctx.Err() //nolint:wrapcheck // the caller ended it
		case <-time.After(breath):
		}
	}
	return true, nil
}

// measure reads how the tables stand, also where another process does the work: each process has its own metrics.
func (r *run) measure(ctx context.Context) error {
	partitions, err := r.Store.ListPartitions(ctx)
	if err != nil {
		return err
	}
	figures, err := r.Store.ReadFigures(ctx)
	if err != nil {
		return err
	}
	r.report.DaysAhead, r.report.ForNew, r.report.End = partitions.DaysAhead(), partitions.DaysForNewKeys(r.Retention), partitions.End()
	r.report.Figures = figures
	r.Meter.SetPartitionsAhead(int64(r.report.ForNew))
	for table, rows := range figures.Rows {
		r.Meter.SetStoreSize(table, rows)
	}
	for state, sagas := range figures.OpenSagas {
		r.Meter.SetOpenSagas(state, sagas)
	}
	r.Meter.SetProcessingOverdue(figures.Overdue)
	return nil
}

func (w *Worker) tell(ctx context.Context, report Report, err error) {
	if err != nil {
		w.Logger.ErrorContext(ctx, "upkeep failed; it is tried again", "error", err)
	}
	for _, refusal := range report.Refused {
		w.Logger.WarnContext(ctx, "partition of answers not dropped", "partition", refusal.Partition, "reason", refusal.Reason)
	}
	if report.Made+report.Deleted+report.Kept+report.Limits+len(report.Dropped) > 0 {
		w.Logger.InfoContext(ctx, "upkeep done", "keys_deleted", report.Deleted, "more", report.MoreKeys, "answers_kept", report.Kept,
			"partitions_made", report.Made, "partitions_dropped", report.Dropped, "limits_deleted", report.Limits)
	}
}

// Plan is what a run would do now.
type Plan struct {
	Missing    int // days, until the time that there should be partitions for
	Expired    int // keys to delete, at most those of one run
	MoreKeys   bool
	Over       []Partition // to drop, once no key needs them
	Partitions Partitions
}

// Plan looks and changes nothing.
func (w *Worker) Plan(ctx context.Context) (Plan, error) {
	partitions, err := w.Store.ListPartitions(ctx)
	if err != nil {
		return Plan{}, fmt.Errorf("list partitions: %w", err)
	}
	plan := Plan{Partitions: partitions, Over: first(partitions.Over(), maxDropped)}
	plan.Missing = max(0, int((w.Retention+spare)/day)+1-partitions.DaysAhead())
	if w.KeepExpired {
		return plan, nil
	}
	const most = maxBatches * batch
	plan.Expired, err = w.Store.CountExpiredKeys(ctx, most+1)
	if err != nil {
		return Plan{}, fmt.Errorf("count expired keys: %w", err)
	}
	plan.MoreKeys = plan.Expired > most
	plan.Expired = min(plan.Expired, most)
	return plan, nil
}

func first[T any](list []T, most int) []T { return list[:min(len(list), most)] }
