package upkeep_test

import (
	"bytes"
	"context"
	"errors"
	"log/slog"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"paysaga/internal/hygiene"
	"paysaga/internal/upkeep"
)

// fake is a store that does what a test says. It writes down what it was asked.
type fake struct {
	expired  int
	toKeep   int
	over     []upkeep.Partition
	fail     map[string]error
	done     []string
	froms    []time.Time
	makeFor  time.Duration
	afterRun func()
}

var (
	today  = time.Date(2026, 3, 4, 0, 0, 0, 0, time.UTC) // a Wednesday
	monday = today.AddDate(0, 0, -2)
)

func (f *fake) do(what string) error {
	if len(f.done) == 0 || f.done[len(f.done)-1] != what {
		f.done = append(f.done, what)
	}
	return f.fail[what]
}

func (f *fake) MakePartitions(_ context.Context, ahead time.Duration) (int, error) {
	f.makeFor = ahead
	return 1, f.do("make")
}

func (f *fake) ListPartitions(context.Context) (upkeep.Partitions, error) {
	return upkeep.Partitions{Today: today, List: append(f.over, weeks(7)...)}, f.fail["list"]
}

func (f *fake) KeepAnswers(_ context.Context, _ upkeep.Partition, _ time.Duration, limit int) (int, error) {
	moved := min(f.toKeep, limit)
	f.toKeep -= moved
	return moved, f.do("keep")
}

func (f *fake) DropPartition(context.Context, upkeep.Partition) error { return f.do("drop") }

func (f *fake) DeleteExpiredKeys(_ context.Context, from time.Time, limit int) (int, time.Time, error) {
	f.froms = append(f.froms, from)
	deleted := min(f.expired, limit)
	f.expired -= deleted
	return deleted, from.Add(time.Hour), f.do("delete")
}

func (f *fake) CountExpiredKeys(_ context.Context, limit int) (int, error) {
	return min(f.expired, limit), f.fail["count"]
}

func (f *fake) DeleteLimits(context.Context, time.Duration, int) (int, error) {
	return 0, f.do("limits")
}

func (f *fake) ReadFigures(context.Context) (upkeep.Figures, error) {
	if f.afterRun != nil {
		defer f.afterRun()
	}
	return upkeep.Figures{
		Rows: map[string]int64{"idempotency_keys": 7, "idempotency_answers": 5}, Overdue: 3, OpenSagas: map[string]int64{"awaiting": 2},
	}, f.do("figures")
}

// weeks are partitions from this week on.
func weeks(n int) []upkeep.Partition {
	list := make([]upkeep.Partition, 0, n)
	for i := range n {
		from := monday.AddDate(0, 0, 7*i)
		list = append(list, upkeep.Partition{Name: from.Format(time.DateOnly), From: from, To: from.AddDate(0, 0, 7), Attachment: upkeep.Attached})
	}
	return list
}

func past(name string, attachment upkeep.Attachment) upkeep.Partition {
	return upkeep.Partition{Name: name, From: monday.AddDate(0, 0, -7), To: monday, Attachment: attachment}
}

// meter writes down what it hears.
type meter map[string]int64

func (m meter) SetStoreSize(table string, rows int64)  { m["size "+table] = rows }
func (m meter) SetProcessingOverdue(keys int64)        { m["overdue"] = keys }
func (m meter) SetPartitionsAhead(days int64)          { m["ahead"] = days }
func (m meter) SetOpenSagas(state string, sagas int64) { m["open "+state] = sagas }
func (m meter) KeysCleaned(keys int64)                 { m["cleaned"] += keys }
func (m meter) PartitionsDropped(partitions int64)     { m["dropped"] += partitions }
func (m meter) Succeeded(time.Time)                    { m["succeeded"]++ }

func newWorker(t *testing.T, c upkeep.Config) *upkeep.Worker {
	t.Helper()
	if c.Logger == nil {
		c.Logger = hygiene.New(t).Logger()
	}
	c.Interval, c.Retention = time.Hour, 30*24*time.Hour
	worker, err := upkeep.New(c)
	if err != nil {
		t.Fatal(err)
	}
	return worker
}

func once(t *testing.T, worker *upkeep.Worker) upkeep.Report {
	t.Helper()
	report, err := worker.Once(t.Context(), func(upkeep.Report) {})
	if err != nil {
		t.Fatal(err)
	}
	return report
}

// Answers are kept before keys are deleted, and those before their partition is dropped.
func TestOrderOfTheSteps(t *testing.T) {
	t.Parallel()
	heard := meter{}
	store := &fake{expired: 2100, toKeep: 1200, over: []upkeep.Partition{past("a", upkeep.Attached), past("b", upkeep.Detaching)}}
	report := once(t, newWorker(t, upkeep.Config{Store: store, Meter: heard}))
	if diff := cmp.Diff([]string{"make", "keep", "delete", "drop", "limits", "figures"}, store.done); diff != "" {
		t.Errorf("steps (-want +got):\n%s", diff)
	}
	if report.Deleted != 2100 || report.Kept != 1200 || len(report.Dropped) != 2 || report.MoreKeys || report.Busy {
		t.Errorf("report %+v", report)
	}
	if want := 44 * 24 * time.Hour; store.makeFor != want {
		t.Errorf("partitions are made for %s, want %s", store.makeFor, want)
	}
	// Each batch goes on where the one before ended.
	if first := (time.Time{}); !cmp.Equal(store.froms, []time.Time{first, first.Add(time.Hour), first.Add(2 * time.Hour)}) {
		t.Errorf("batches begin at %v", store.froms)
	}
	want := meter{
		"size idempotency_keys": 7, "size idempotency_answers": 5, "overdue": 3, "open awaiting": 2, "ahead": 47 - 30, "cleaned": 2100,
		"dropped": 2, "succeeded": 1,
	}
	if diff := cmp.Diff(want, heard); diff != "" {
		t.Errorf("metrics (-want +got):\n%s", diff)
	}
}

func TestOneRunIsBounded(t *testing.T) {
	t.Parallel()
	const bound = 200_000
	store := &fake{expired: bound + 5}
	worker := newWorker(t, upkeep.Config{Store: store})
	plan, err := worker.Plan(t.Context())
	if err != nil || plan.Expired != bound || !plan.MoreKeys {
		t.Errorf("planned %+v, %v", plan, err)
	}
	if report := once(t, worker); report.Deleted != bound || !report.MoreKeys {
		t.Errorf("report %+v", report)
	}
	if report := once(t, worker); report.Deleted != 5 || report.MoreKeys {
		t.Errorf("report %+v", report)
	}
}

func TestExpiredKeysMayStay(t *testing.T) {
	t.Parallel()
	store := &fake{expired: 3, over: []upkeep.Partition{past("a", upkeep.Attached)}}
	worker := newWorker(t, upkeep.Config{Store: store, KeepExpired: true})
	if plan, err := worker.Plan(t.Context()); err != nil || plan.Expired != 0 || len(plan.Over) != 1 {
		t.Errorf("planned %+v, %v", plan, err)
	}
	if report := once(t, worker); report.Deleted != 0 || len(report.Dropped) != 1 {
		t.Errorf("report %+v", report)
	}
}

// What keeps a partition is told, and nothing else is kept from being done by it.
func TestRefusedPartitionsAreTold(t *testing.T) {
	t.Parallel()
	for name, err := range map[string]error{"7 keys": &upkeep.InUseError{Keys: 7}, "a long transaction": upkeep.ErrHeld} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			heard := meter{}
			store := &fake{over: []upkeep.Partition{past("a", upkeep.Attached)}, fail: map[string]error{"drop": err}}
			report := once(t, newWorker(t, upkeep.Config{Store: store, Meter: heard}))
			if len(report.Dropped) != 0 || len(report.Refused) != 1 || !strings.Contains(report.Refused[0].Reason, name) {
				t.Errorf("report %+v", report)
			}
			if heard["succeeded"] != 1 || heard["dropped"] != 0 || store.done[len(store.done)-2] != "limits" {
				t.Errorf("heard %v after %v", heard, store.done)
			}
		})
	}
}

// A step that fails does not keep the others from being done, and the run counts as failed.
func TestFailedSteps(t *testing.T) {
	t.Parallel()
	broken := errors.New("broken")
	for _, step := range []string{"make", "keep", "delete", "drop", "limits", "figures"} {
		t.Run(step, func(t *testing.T) {
			t.Parallel()
			heard := meter{}
			store := &fake{over: []upkeep.Partition{past("a", upkeep.Attached)}, fail: map[string]error{step: broken}}
			_, err := newWorker(t, upkeep.Config{Store: store, Meter: heard}).Once(t.Context(), func(upkeep.Report) {})
			if !errors.Is(err, broken) || heard["succeeded"] != 0 {
				t.Errorf("%v, succeeded %d times", err, heard["succeeded"])
			}
			if len(store.done) != 6 {
				t.Errorf("only %v was done", store.done)
			}
		})
	}
}

// Where another process is at it, the rest is left to it. The figures are each process's own.
func TestAnotherProcessIsAtIt(t *testing.T) {
	t.Parallel()
	heard := meter{}
	store := &fake{expired: 1, fail: map[string]error{"make": upkeep.ErrBusy}}
	report := once(t, newWorker(t, upkeep.Config{Store: store, Meter: heard}))
	if !report.Busy || heard["succeeded"] != 0 || heard["overdue"] != 3 {
		t.Errorf("report %+v, heard %v", report, heard)
	}
	if diff := cmp.Diff([]string{"make", "figures"}, store.done); diff != "" {
		t.Errorf("steps (-want +got):\n%s", diff)
	}
}

// The worker begins at once, says what went wrong, and ends with its context.
func TestRun(t *testing.T) {
	t.Parallel()
	ctx, cancel := context.WithCancel(t.Context())
	var log bytes.Buffer
	runs := 0
	store := &fake{expired: 1, over: []upkeep.Partition{past("a", upkeep.Attached)}, fail: map[string]error{
		"limits": errors.New("limits cannot be deleted"), "drop": upkeep.ErrHeld,
	}}
	store.afterRun = func() {
		if runs++; runs == 2 {
			cancel()
		}
	}
	worker := newWorker(t, upkeep.Config{Store: store, Logger: slog.New(slog.NewTextHandler(&log, nil))})
	worker.Interval = time.Millisecond
	worker.Run(ctx)
	if runs != 2 {
		t.Errorf("%d runs", runs)
	}
	for _, want := range []string{"level=ERROR", "limits cannot be deleted", "level=WARN", "partition=a", "level=INFO", "keys_deleted=1"} {
		if !strings.Contains(log.String(), want) {
			t.Errorf("%q is not in the log:\n%s", want, log.String())
		}
	}
}

func TestDaysAhead(t *testing.T) {
	t.Parallel()
	gap := append(weeks(2), weeks(5)[3:]...)
	half := weeks(3)
	half[1].Attachment = upkeep.Detached
	for name, test := range map[string]struct {
		list []upkeep.Partition
		want int
	}{
		"none":                     {nil, 0},
		"this week's":              {weeks(1), 5},
		"a week is missing":        {gap, 12},
		"one is detached":          {half, 5},
		"only what lies behind":    {[]upkeep.Partition{past("a", upkeep.Attached)}, 0},
		"what lies behind as well": {append([]upkeep.Partition{past("a", upkeep.Attached)}, weeks(2)...), 12},
	} {
		partitions := upkeep.Partitions{Today: today, List: test.list}
		if days, end := partitions.DaysForNewKeys(48*time.Hour), partitions.End(); days != test.want-2 || !end.Equal(today.AddDate(0, 0, test.want)) {
			t.Errorf("%s: %d days for keys that are kept for two, until %s", name, days, end)
		}
		if got := partitions.DaysAhead(); got != test.want {
			t.Errorf("%s: %d days, want %d", name, got, test.want)
		}
	}
}

func TestNewRefuses(t *testing.T) {
	t.Parallel()
	whole := upkeep.Config{Store: &fake{}, Logger: slog.New(slog.DiscardHandler), Interval: time.Hour, Retention: time.Hour}
	for name, change := range map[string]func(c *upkeep.Config){
		"no store":     func(c *upkeep.Config) { c.Store = nil },
		"no logger":    func(c *upkeep.Config) { c.Logger = nil },
		"no interval":  func(c *upkeep.Config) { c.Interval = 0 },
		"no retention": func(c *upkeep.Config) { c.Retention = 0 },
	} {
		c := whole
		change(&c)
		if _, err := upkeep.New(c); err == nil {
			t.Errorf("%s is accepted", name)
		}
	}
}
