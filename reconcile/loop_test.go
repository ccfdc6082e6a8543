package reconcile_test

import (
	"context"
	"errors"
	"log/slog"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/uuid"

	"paysaga/providers"
	"paysaga/reconcile"
)

// quietStore has nothing that differs. Its clock is the process's.
type quietStore struct {
	reconcile.Store

	mu        sync.Mutex
	runs      []reconcile.Run // as they were saved last
	held      bool
	summaries int
	scopeErr  error // of the payments that are to be compared

	coverage      []reconcile.Coverage // of each provider
	comparedUntil time.Time            // as well
	compared      map[string]reconcile.Coverage
	scope         reconcile.Scope // of the payments that were asked for last
}

func (s *quietStore) Now(context.Context) (time.Time, error) { return time.Now(), nil }

func (s *quietStore) NextRequested(context.Context) (reconcile.Run, bool, error) {
	return reconcile.Run{}, false, nil
}

func (s *quietStore) LeftRun(_ context.Context, requestedBy string, mode reconcile.Mode) (reconcile.Run, bool, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	last := len(s.runs) - 1
	if s.held || last < 0 || s.runs[last].State != reconcile.RunRunning {
		return reconcile.Run{}, false, nil
	}
	return s.runs[last], s.runs[last].RequestedBy == requestedBy && s.runs[last].Mode == mode, nil
}

func (s *quietStore) NewestRun(_ context.Context, requestedBy string) (last time.Time, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, run := range s.runs {
		if run.RequestedBy == requestedBy {
			last = run.CreatedAt
		}
	}
	return last, nil
}

func (s *quietStore) BeginRun(_ context.Context, run reconcile.Run, _ time.Duration) (reconcile.Run, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.held {
		return reconcile.Run{}, reconcile.ErrBusy
	}
	if last := len(s.runs) - 1; last >= 0 && s.runs[last].State == reconcile.RunRunning { // it was left
		s.held = true
		return s.runs[last], nil
	}
	run.ID, run.CreatedAt, s.held = uuid.New(), time.Now(), true
	s.runs = append(s.runs, run)
	return run, nil
}

func (s *quietStore) SaveRun(ctx context.Context, run reconcile.Run, _ time.Duration) error {
	if ctx.Err() != nil {
		return ctx.Err()
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.runs[len(s.runs)-1], s.held = run, run.State == reconcile.RunRunning
	return nil
}

func (s *quietStore) RenewRun(_ context.Context, _ reconcile.Run, lease time.Duration) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.held = lease > 0
	return nil
}

func (s *quietStore) Coverage(context.Context, string) ([]reconcile.Coverage, error) {
	return s.coverage, nil
}

func (s *quietStore) ComparedUntil(context.Context, string) (time.Time, error) {
	return s.comparedUntil, nil
}

func (s *quietStore) PutCompared(_ context.Context, _ reconcile.Run, provider string, listed reconcile.Coverage) error {
	if s.compared == nil {
		s.compared = make(map[string]reconcile.Coverage)
	}
	s.compared[provider] = listed
	return nil
}

func (s *quietStore) PutTransactions(context.Context, reconcile.Run, string, time.Time, []providers.Transaction) error {
	return nil
}

func (s *quietStore) Cover(context.Context, reconcile.Run, string, reconcile.Coverage) error {
	return nil
}

func (s *quietStore) NextPairs(_ context.Context, scope reconcile.Scope, _ reconcile.Place, _ int) ([]reconcile.Pair, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.scope = scope
	return nil, s.scopeErr
}

func (s *quietStore) NextUnclaimed(context.Context, reconcile.Scope, reconcile.Provided, int) ([]reconcile.Unclaimed, error) {
	return nil, nil
}

func (s *quietStore) NextRepairs(context.Context, reconcile.Run, uuid.UUID, int) ([]reconcile.Open, error) {
	return nil, nil
}

func (s *quietStore) PutFindings(context.Context, reconcile.Run, reconcile.Judged) (reconcile.Counts, error) {
	return reconcile.Counts{}, nil
}

func (s *quietStore) PutSummary(context.Context) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.summaries++
	return 1, nil
}

// slowSource has nothing, and takes its time to say so, or refuses.
type slowSource struct {
	takes  time.Duration
	refuse string
}

func (slowSource) ListLimits() providers.ListLimits { return providers.ListLimits{} }

func (s slowSource) List(context.Context, providers.ListRequest) (providers.ListPage, error) {
	<-time.After(s.takes) // by the bubble's clock
	if s.refuse != "" {
		return providers.ListPage{}, &providers.ListError{Code: s.refuse, Refused: true}
	}
	return providers.ListPage{}, nil
}

// endlessSource leads back to the page that it gave.
type endlessSource struct{ slowSource }

func (endlessSource) List(context.Context, providers.ListRequest) (providers.ListPage, error) {
	return providers.ListPage{Next: "again"}, nil
}

// A list without an end does not keep a run from ending.
func TestEndlessList(t *testing.T) {
	t.Parallel()
	store := &quietStore{}
	worker := newWorker(t, store, map[string]reconcile.Source{"fake": endlessSource{}})
	result, err := worker.Once(t.Context(), reconcile.Request{Mode: reconcile.ModePlan, RequestedBy: "a test"}, func(reconcile.Run) {})
	if result.Run.State != reconcile.RunFailed || err == nil || !strings.Contains(err.Error(), "list_endless") {
		t.Errorf("%s, %v", result.Run.State, err)
	}
}

// pagedSource has two pages, and does something before it gives the second.
type pagedSource struct {
	slowSource

	between func()
}

func (s pagedSource) List(_ context.Context, request providers.ListRequest) (providers.ListPage, error) {
	if request.Cursor == "" {
		return providers.ListPage{Next: "second"}, nil
	}
	s.between()
	return providers.ListPage{}, nil
}

// A process that goes on with a run which another one left knows what that could not list.
func TestLeftRunKnowsWhatIsUnlisted(t *testing.T) {
	t.Parallel()
	ctx, die := context.WithCancel(t.Context())
	store := &quietStore{}
	request := reconcile.Request{Mode: reconcile.ModePlan, RequestedBy: "a test"}
	refuses := slowSource{refuse: "no_permission"}
	first := newWorker(t, store, map[string]reconcile.Source{"a": refuses, "b": pagedSource{between: die}})
	if _, err := first.Once(ctx, request, func(reconcile.Run) {}); !errors.Is(err, context.Canceled) {
		t.Fatalf("the first process: %v", err)
	}
	next := newWorker(t, store, map[string]reconcile.Source{"a": pagedSource{between: func() {}}, "b": pagedSource{between: func() {}}})
	result, err := next.Once(t.Context(), request, func(reconcile.Run) {})
	const want = "a: list is not readable: no_permission"
	if _, unlisted := errors.AsType[*reconcile.UnlistedError](err); !unlisted || result.Run.Reason != want || len(store.runs) != 1 {
		t.Errorf("%d runs, the last one %q, %v; want %q", len(store.runs), result.Run.Reason, err, want)
	}
	if result.Run.State != reconcile.RunFailed {
		t.Errorf("the run is %s", result.Run.State)
	}
}

type noRepairs struct{ reconcile.Repairer }

type anyLimit struct{}

func (anyLimit) In(string) int64 { return 1 << 40 }

func newWorker(t *testing.T, store reconcile.Store, sources map[string]reconcile.Source) *reconcile.Worker {
	t.Helper()
	worker, err := reconcile.New(reconcile.Config{
		Store: store, Sources: sources, Repairs: noRepairs{},
		Rules:  reconcile.Rules{PerFinding: anyLimit{}, PerRun: anyLimit{}, PerDuplicate: anyLimit{}},
		Policy: reconcile.DefaultPolicy(), Lookback: time.Hour, Lease: time.Minute, Logger: slog.New(slog.DiscardHandler),
	})
	if err != nil {
		t.Fatal(err)
	}
	return worker
}

// everyHour is due an hour after another time, and late by what is its own.
type everyHour struct{ late time.Duration }

func (e everyHour) Next(after time.Time) time.Time { return after.Add(time.Hour + e.late) }

// Of several processes one does a turn; a process that begins again goes on with the turns of before.
func TestTurnsOfSeveralProcesses(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		store := &quietStore{}
		sources := map[string]reconcile.Source{"fake": slowSource{takes: time.Minute}}
		serve := func(late, until time.Duration) {
			ctx, stop := context.WithTimeout(t.Context(), until)
			defer stop()
			newWorker(t, store, sources).Run(ctx, everyHour{late}, reconcile.ModePlan)
		}
		const period = 10*time.Hour + 30*time.Minute // no turn is near its end
		var processes sync.WaitGroup
		processes.Go(func() { serve(0, period) })
		processes.Go(func() { serve(20*time.Second, period) })
		processes.Go(func() {
			for range 20 { // it never lives for an hour
				serve(3*time.Minute, 29*time.Minute)
			}
		})
		processes.Wait()
		if len(store.runs) != 10 {
			t.Errorf("%d runs in ten hours, want 10", len(store.runs))
		}
		for range 20 {
			serve(0, 29*time.Minute)
		}
		if len(store.runs) != 20 {
			t.Errorf("%d runs in twenty hours, want 20: a process that begins again puts them off", len(store.runs))
		}
	})
}

// A turn whose process was ended on the way is gone on with by another one at once, not at the next turn: if it may do as much.
func TestTurnThatWasLeft(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		mode      reconcile.Mode // of the other process
		providers []string
		goesOn    bool
	}{
		"the same settings": {reconcile.ModeApply, []string{"a", "b"}, true},
		"it may only look":  {reconcile.ModePlan, []string{"a", "b"}, false},
		"other providers":   {reconcile.ModeApply, []string{"a"}, false},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				store := &quietStore{}
				serve := func(mode reconcile.Mode, until time.Duration, which ...string) {
					ctx, stop := context.WithTimeout(t.Context(), until)
					defer stop()
					sources := map[string]reconcile.Source{}
					for _, provider := range which {
						sources[provider] = slowSource{takes: time.Minute}
					}
					newWorker(t, store, sources).Run(ctx, everyHour{}, mode)
				}
				serve(reconcile.ModeApply, time.Hour+90*time.Second, "a", "b") // it is ended in the middle of its first turn
				if len(store.runs) != 1 || store.runs[0].State != reconcile.RunRunning || store.held {
					t.Fatalf("%+v, held: %t", store.runs, store.held)
				}
				serve(test.mode, 5*time.Minute, test.providers...)
				if len(store.runs) != 1 || (store.runs[0].State == reconcile.RunDone) != test.goesOn {
					t.Errorf("it is %s, of %d runs", store.runs[0].State, len(store.runs))
				}
			})
		})
	}
}

// A run writes the day's summary, however it ended. One that did not end well says why, without what other layers say; its error says all.
func TestEndsOfRuns(t *testing.T) {
	t.Parallel()
	broken := errors.New("relation sagas: connection to 192.0.2.1 refused")
	for name, test := range map[string]struct {
		refuse   string
		scopeErr error
		state    reconcile.RunState
		reason   string
		err      string
	}{
		"well": {state: reconcile.RunDone},
		"unlisted": {
			refuse: "no_permission", state: reconcile.RunFailed, reason: "fake: list is not readable: no_permission", err: "no_permission",
		},
		"broken": {
			scopeErr: broken, state: reconcile.RunFailed, reason: "It failed on the way; the log of its process says at what.", err: broken.Error(),
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			store := &quietStore{scopeErr: test.scopeErr}
			worker := newWorker(t, store, map[string]reconcile.Source{"fake": slowSource{refuse: test.refuse}})
			result, err := worker.Once(t.Context(), reconcile.Request{Mode: reconcile.ModePlan, RequestedBy: "a test"}, func(reconcile.Run) {})
			if run := result.Run; run.State != test.state || run.Reason != test.reason || store.summaries != 1 {
				t.Errorf("%s, %q, %d summaries; want %s, %q, 1", run.State, run.Reason, store.summaries, test.state, test.reason)
			}
			if (err != nil) != (test.err != "") || err != nil && !strings.Contains(err.Error(), test.err) {
				t.Errorf("error %v, want %q", err, test.err)
			}
		})
	}
}
