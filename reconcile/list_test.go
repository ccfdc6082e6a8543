package reconcile_test

import (
	"context"
	"errors"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"paysaga/providers"
	"paysaga/reconcile"
)

// askedSource has nothing, is complete up to a time, and keeps what it was asked for.
type askedSource struct {
	delay    time.Duration
	complete time.Time // zero: always
	silent   bool      // it does not tell up to when it is complete
	asked    []providers.ListRequest
}

func (s *askedSource) ListLimits() providers.ListLimits { return providers.ListLimits{Delay: s.delay} }

func (s *askedSource) List(_ context.Context, request providers.ListRequest) (providers.ListPage, error) {
	s.asked = append(s.asked, request)
	if s.complete.IsZero() || !request.Until.After(s.complete) {
		return providers.ListPage{}, nil
	}
	behind := &providers.ListError{Code: providers.CodeListBehind}
	if !s.silent {
		behind.Until = s.complete
	}
	return providers.ListPage{}, behind
}

const day = 24 * time.Hour

// beginning is where a run begins, and what it depends on. All are how long ago; zero is none.
type beginning struct {
	compared, covered time.Duration // when the last comparison ended, and when the coverage began
	since             time.Duration
	want, wantScope   time.Duration
}

// A run begins where the ones before have come, however long ago that was: only a first one goes back as far as is set.
func TestWhereARunBegins(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]beginning{
		"the first":                        {want: 30 * day, wantScope: 30 * day},
		"the next":                         {compared: time.Hour, covered: 40 * day, want: time.Hour + 3*day, wantScope: 30 * day},
		"after a long pause":               {compared: 60 * day, covered: 90 * day, want: 63 * day, wantScope: 63 * day},
		"after a pause, covered for short": {compared: 60 * day, covered: 61 * day, want: 63 * day, wantScope: 63 * day},
		"never so far back":                {compared: time.Hour, covered: 10 * day, want: 30 * day, wantScope: 30 * day},
		"listed, but not compared":         {covered: 40 * day, want: 30 * day, wantScope: 30 * day},
		"further than a provider lists":    {compared: 1500 * day, covered: 1500 * day, want: 1094 * day, wantScope: 1094 * day},
		"as it was asked for":              {compared: 60 * day, covered: 90 * day, since: day, want: day, wantScope: day},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, test.check)
		})
	}
}

func (b beginning) check(t *testing.T) {
	now := time.Now()
	ago := func(d time.Duration) time.Time {
		if d == 0 {
			return time.Time{}
		}
		return now.Add(-d)
	}
	store := &quietStore{comparedUntil: ago(b.compared)}
	if b.covered > 0 {
		store.coverage = []reconcile.Coverage{{From: ago(b.covered), Until: now}}
	}
	source := &askedSource{}
	worker := newWorker(t, store, map[string]reconcile.Source{"fake": source})
	worker.Lookback, worker.Overlap = 30*day, 3*day
	request := reconcile.Request{Mode: reconcile.ModePlan, Since: ago(b.since), RequestedBy: "a test"}
	if _, err := worker.Once(t.Context(), request, func(reconcile.Run) {}); err != nil {
		t.Fatal(err)
	}
	if len(source.asked) != 1 || !source.asked[0].From.Equal(ago(b.want)) || !source.asked[0].Until.Equal(now) {
		t.Errorf("asked for %+v, want from %s", source.asked, ago(b.want))
	}
	if !store.scope.Since.Equal(ago(b.wantScope)) {
		t.Errorf("compared since %s, want %s", store.scope.Since, ago(b.wantScope))
	}
	if got := store.compared["fake"]; !got.From.Equal(ago(b.want)) || !got.Until.Equal(now) {
		t.Errorf("noted as compared: %+v", got)
	}
}

// A list that is behind is read as far as it goes. The run says so, and only what was listed counts as compared.
func TestListThatIsBehind(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		now := time.Now()
		first, complete := now.Add(-30*day), now.Add(-5*time.Hour)
		store := &quietStore{}
		worker := newWorker(t, store, map[string]reconcile.Source{
			"behind": &askedSource{delay: 3 * time.Hour, complete: complete},
			"silent": &askedSource{delay: 3 * time.Hour, complete: complete, silent: true},
			"fine":   &askedSource{},
		})
		worker.Lookback = 30 * day
		result, err := worker.Once(t.Context(), reconcile.Request{Mode: reconcile.ModePlan, RequestedBy: "a test"}, func(reconcile.Run) {})
		if err != nil || result.Run.State != reconcile.RunDone {
			t.Fatalf("%s, %v", result.Run.State, err)
		}
		want := map[string]reconcile.Listed{
			"behind": {From: first, Until: complete, Behind: true},
			"silent": {From: first, Until: first, Behind: true},
			"fine":   {From: first, Until: now},
		}
		if diff := cmp.Diff(want, result.Run.Totals.Listed); diff != "" {
			t.Errorf("listed (-want +got):\n%s", diff)
		}
		compared := map[string]reconcile.Coverage{"behind": {From: first, Until: complete}, "fine": {From: first, Until: now}}
		if diff := cmp.Diff(compared, store.compared); diff != "" {
			t.Errorf("compared (-want +got):\n%s", diff)
		}
		for _, until := range []string{"behind: its list is behind, complete up to " + complete.UTC().Format(time.RFC3339), "silent: "} {
			if !strings.Contains(result.Run.Reason, until) {
				t.Errorf("the run says %q, without %q", result.Run.Reason, until)
			}
		}
	})
}

// What was listed counts as compared only when it was.
func TestOnlyWhatWasComparedCounts(t *testing.T) {
	t.Parallel()
	request := reconcile.Request{Mode: reconcile.ModePlan, RequestedBy: "a test"}
	store := &quietStore{scopeErr: errors.New("no")}
	worker := newWorker(t, store, map[string]reconcile.Source{"fake": &askedSource{}})
	if _, err := worker.Once(t.Context(), request, func(reconcile.Run) {}); err == nil || len(store.compared) > 0 {
		t.Errorf("a run that fails on the way has compared %v, %v", store.compared, err)
	}
	store = &quietStore{}
	worker = newWorker(t, store, map[string]reconcile.Source{"fake": slowSource{refuse: "no_permission"}, "fine": &askedSource{}})
	_, err := worker.Once(t.Context(), request, func(reconcile.Run) {})
	if _, refused := store.compared["fake"]; refused || len(store.compared) != 1 || err == nil {
		t.Errorf("of a provider that was not listed: %v, %v", store.compared, err)
	}
}
