package postgres_test

import (
	"errors"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/uuid"

	"paysaga/internal/postgres"
	"paysaga/providers"
	"paysaga/reconcile"
	settlement "paysaga/reconcile/statement"
	"paysaga/saga"
)

func TestOneRunAtATime(t *testing.T) {
	t.Parallel()
	b := newBundle(t)
	run := b.reconcile()
	if _, err := b.store.BeginRun(b.ctx, aRun(reconcile.ModeApply), time.Minute); !errors.Is(err, reconcile.ErrBusy) {
		t.Errorf("a second run: %v", err)
	}
	b.must(b.store.SaveRun(b.ctx, run, time.Hour))
	if _, err := b.store.BeginRun(b.ctx, aRun(reconcile.ModePlan), time.Minute); !errors.Is(err, reconcile.ErrBusy) {
		t.Errorf("beside a run that has gone on: %v", err)
	}
	b.end(run)
	next := b.reconcile()
	if next.ID == run.ID || next.Fence <= run.Fence {
		t.Errorf("after run %s, fence %d, came %s, fence %d", run.ID, run.Fence, next.ID, next.Fence)
	}
	ended, err := b.store.GetRun(b.ctx, run.ID)
	if err != nil || ended.State != reconcile.RunDone || ended.FinishedAt.IsZero() {
		t.Errorf("the first run is %+v, %v", ended, err)
	}
}

// Of many that begin at the same moment, one does.
func TestRunsBeginTogether(t *testing.T) {
	t.Parallel()
	b := newBundle(t)
	const starters = 8
	results := make(chan error, starters)
	for range starters {
		go func() {
			_, err := b.store.BeginRun(b.ctx, aRun(reconcile.ModePlan), time.Minute)
			results <- err
		}()
	}
	begun := 0
	for range starters {
		err := <-results
		if err == nil {
			begun++
		} else if !errors.Is(err, reconcile.ErrBusy) {
			t.Errorf("begin: %v", err)
		}
	}
	if begun != 1 || b.count(`SELECT count(*) FROM reconciliation_runs`) != 1 {
		t.Errorf("%d runs began", begun)
	}
}

func TestALeftRunGoesOn(t *testing.T) {
	t.Parallel()
	b := newBundle(t)
	left := b.reconcile()
	left.Stage, left.Cursor, left.Totals = reconcile.StageMatch, "here", reconcile.Totals{Payments: 7, Moved: map[string]int64{"EUR": 3}}
	b.must(b.store.SaveRun(b.ctx, left, time.Minute))
	b.leave()
	again := b.reconcile()
	if again.Fence <= left.Fence {
		t.Errorf("fence %d after %d", again.Fence, left.Fence)
	}
	again.Fence = left.Fence
	if diff := cmp.Diff(left, again); diff != "" {
		t.Errorf("taken up (-left +again):\n%s", diff)
	}
}

// What was left is taken up by what is about the same thing only, and not after a day.
func TestAnotherRunDoesNotGoOn(t *testing.T) {
	t.Parallel()
	others := map[string]func(b *bundle) reconcile.Run{
		"another mode": func(*bundle) reconcile.Run { return aRun(reconcile.ModeApply) },
		"other providers": func(*bundle) reconcile.Run {
			r := aRun(reconcile.ModePlan)
			r.Providers = []string{"fake", "other"}
			return r
		},
		"a settlement file": func(b *bundle) reconcile.Run { return b.statementRun() },
		"the same, too late": func(b *bundle) reconcile.Run {
			b.exec(`UPDATE reconciliation_runs SET saved_at = now() - interval '25 hours'`)
			return aRun(reconcile.ModePlan)
		},
	}
	for name, other := range others {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := newBundle(t)
			left := b.reconcile()
			b.leave()
			begun, err := b.store.BeginRun(b.ctx, other(b), time.Minute)
			if err != nil || begun.ID == left.ID {
				t.Fatalf("began %s, %v; %s was left", begun.ID, err, left.ID)
			}
			was, err := b.store.GetRun(b.ctx, left.ID)
			if wantFailed := name == "the same, too late"; err != nil || (was.State == reconcile.RunFailed) != wantFailed {
				t.Errorf("the run that was left is %s, %v", was.State, err)
			}
		})
	}
}

func (b *bundle) statementRun() reconcile.Run {
	b.t.Helper()
	kept, err := b.store.OpenStatement(b.ctx, "fake", "july.csv", [32]byte{1})
	b.must(err)
	run := aRun(reconcile.ModePlan)
	run.StatementID = kept.ID
	return run
}

// Whoever has lost the lease writes nothing more.
func TestWritesOfARunThatHasLostItsLease(t *testing.T) {
	t.Parallel()
	b := newBundle(t)
	order := b.paid("order", "pay_1")
	stale := b.reconcile()
	b.judge(stale, []saga.Saga{order}, ofOrder(order, reconcile.AmountMismatch))
	finding := b.onlyFinding()
	b.leave()
	b.reconcile()
	before := b.dumpReconciliation()
	for name, write := range map[string]func() error{
		"save": func() error { return b.store.SaveRun(b.ctx, stale, time.Minute) },
		"cover": func() error {
			return b.store.Cover(b.ctx, stale, "fake", reconcile.Coverage{From: noon, Until: noon.Add(1)})
		},
		"transactions": func() error {
			return b.store.PutTransactions(b.ctx, stale, "fake", noon, []providers.Transaction{payment("p", "")})
		},
		"notices":            func() error { _, err := b.store.PutNotices(b.ctx, stale, "fake", reconcile.Coverage{}); return err },
		"lines":              func() error { return b.store.PutLines(b.ctx, stale, "fake", []settlement.Line{line(2, "b_1")}) },
		"a file's beginning": func() error { return b.store.RestartStatement(b.ctx, stale, "Europe/Vienna") },
		"a file's end":       func() error { _, err := b.store.CloseStatement(b.ctx, stale, settlement.Report{}); return err },
		"findings": func() error {
			_, err := b.store.PutFindings(b.ctx, stale, reconcile.Judged{Found: []reconcile.Finding{ofNobody("p")}})
			return err
		},
		"a repair": func() error { return b.store.PutRepair(b.ctx, stale, finding.ID, true, "") },
	} {
		if err := write(); !errors.Is(err, reconcile.ErrLeaseLost) {
			t.Errorf("%s: %v", name, err)
		}
	}
	if diff := cmp.Diff(before, b.dumpReconciliation()); diff != "" {
		t.Errorf("written (-before +after):\n%s", diff)
	}
	other := aRun(reconcile.ModeApply)
	other.ID = uuid.New()
	if _, err := b.store.NextPairs(b.ctx, scopeOf(other), reconcile.Place{}, 10); !errors.Is(err, reconcile.ErrLeaseLost) {
		t.Errorf("pairs without a lease: %v", err)
	}
	if _, err := b.store.NextUnclaimed(b.ctx, scopeOf(other), reconcile.Provided{}, 10); !errors.Is(err, reconcile.ErrLeaseLost) {
		t.Errorf("leftovers without a lease: %v", err)
	}
}

// dumpReconciliation is everything that a run can write, as text.
func (b *bundle) dumpReconciliation() (rows []string) {
	b.t.Helper()
	for _, table := range []string{
		"reconciliation_runs", "provider_coverage", "provider_transactions", "settlement_files", "settlement_lines", "findings",
	} {
		var text []string
		if err := b.pool.QueryRow(b.ctx, `SELECT ARRAY(SELECT t::text FROM `+table+` t ORDER BY 1)`).Scan(&text); err != nil {
			b.t.Fatal(err)
		}
		rows = append(rows, text...)
	}
	return rows
}

func TestRequestedRuns(t *testing.T) {
	t.Parallel()
	b := newBundle(t)
	b.wantRequested("before anybody asked", uuid.Nil)
	first, second := b.request(), b.request()
	if first.State != reconcile.RunRequested || !first.Since.Equal(noon) {
		t.Errorf("requested: %+v", first)
	}
	b.wantRequested("of two", first.ID)
	taken, err := b.store.BeginRun(b.ctx, first, time.Minute)
	if err != nil || taken.ID != first.ID || taken.State != reconcile.RunRunning || taken.Fence == 0 {
		t.Fatalf("taken up: %+v, %v", taken, err)
	}
	b.wantRequested("beside the first", second.ID)
	b.leave()
	b.wantRequested("when the first was left", first.ID)
	b.wantNoted("reconciliation.requested", first.ID, reconcile.Note{Actor: "a test"})
	unknown := aRun(reconcile.ModeApply)
	unknown.ID = uuid.New()
	if _, err := b.store.BeginRun(b.ctx, unknown, time.Minute); !errors.Is(err, saga.ErrNotFound) {
		t.Errorf("a run that nobody requested: %v", err)
	}
	for range 9 {
		b.request()
	}
	if _, err := b.store.RequestRun(b.ctx, account, aRun(reconcile.ModeApply), nil, nil); !errors.Is(err, reconcile.ErrBusy) {
		t.Errorf("one too many: %v", err)
	}
}

func (b *bundle) request() reconcile.Run {
	b.t.Helper()
	run := aRun(reconcile.ModeApply)
	run.Since, run.Until = noon, noon.Add(time.Hour)
	requested, err := b.store.RequestRun(b.ctx, account, run, nil, nil)
	if err != nil {
		b.t.Fatalf("request: %v", err)
	}
	return requested
}

// wantRequested checks which run a server takes up next; none for the zero id.
func (b *bundle) wantRequested(when string, want uuid.UUID) {
	b.t.Helper()
	run, ok, err := b.store.NextRequested(b.ctx)
	if err != nil || run.ID != want || ok != (want != uuid.Nil) {
		b.t.Errorf("%s: %s, %t, %v; want %s", when, run.ID, ok, err, want)
	}
}

func TestNewestRun(t *testing.T) {
	t.Parallel()
	b := newBundle(t)
	b.end(b.reconcile())
	running := b.reconcile()
	for by, want := range map[string]time.Time{running.RequestedBy: running.CreatedAt, "somebody else": {}} {
		if last, err := b.store.NewestRun(b.ctx, by); err != nil || !last.Equal(want) {
			t.Errorf("the newest run by %s: %s, %v; want %s", by, last, err, want)
		}
	}
}

// A run that was left is found by its mode and by who wanted it, until somebody takes it up or a day has passed.
func TestLeftRun(t *testing.T) {
	t.Parallel()
	b := newBundle(t)
	want := func(when string, id uuid.UUID, by string, mode reconcile.Mode) {
		t.Helper()
		run, ok, err := b.store.LeftRun(b.ctx, by, mode)
		if err != nil || run.ID != id || ok != (id != uuid.Nil) {
			t.Errorf("%s: %s, %t, %v; want %s", when, run.ID, ok, err, id)
		}
	}
	run := b.reconcile()
	want("at work", uuid.Nil, run.RequestedBy, run.Mode)
	b.leave()
	want("left", run.ID, run.RequestedBy, run.Mode)
	want("of another mode", uuid.Nil, run.RequestedBy, reconcile.ModeApply)
	want("of somebody else", uuid.Nil, "somebody else", run.Mode)
	b.exec(`UPDATE reconciliation_runs SET saved_at = now() - interval '25 hours'`)
	want("long ago", uuid.Nil, run.RequestedBy, run.Mode)
	b.exec(`UPDATE reconciliation_runs SET saved_at = now()`)
	b.end(b.reconcile())
	want("gone on with and ended", uuid.Nil, run.RequestedBy, run.Mode)
	ofFile, _ := b.runOf(1)
	b.leave()
	want("about a file", uuid.Nil, ofFile.RequestedBy, ofFile.Mode)
}

func TestListRuns(t *testing.T) {
	t.Parallel()
	b := newBundle(t)
	want := make([]uuid.UUID, 0, 3)
	for range 3 {
		run := b.reconcile()
		want = append(want, run.ID)
		b.end(run)
	}
	slices.Reverse(want)
	var got []uuid.UUID
	for before := (*reconcile.RunPlace)(nil); ; {
		page, err := b.store.ListRuns(b.ctx, reconcile.RunFilter{Before: before, Limit: 2})
		b.must(err)
		for _, run := range page {
			got = append(got, run.ID)
			before = &reconcile.RunPlace{CreatedAt: run.CreatedAt, ID: run.ID}
		}
		if len(page) < 2 {
			break
		}
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("list (-want +got):\n%s", diff)
	}
	if _, err := b.store.GetRun(b.ctx, uuid.New()); !errors.Is(err, saga.ErrNotFound) {
		t.Errorf("a run that does not exist: %v", err)
	}
}

func TestCoverage(t *testing.T) {
	t.Parallel()
	b := newBundle(t)
	run := b.reconcile()
	at := func(hour int) time.Time { return noon.Add(time.Duration(hour) * time.Hour) }
	for _, turn := range []struct {
		from, until int
		want        [][2]int
	}{
		{10, 20, [][2]int{{10, 20}}},                  // the first
		{15, 25, [][2]int{{10, 25}}},                  // overlaps at the end
		{25, 30, [][2]int{{10, 30}}},                  // touches
		{5, 12, [][2]int{{5, 30}}},                    // overlaps at the beginning
		{8, 9, [][2]int{{5, 30}}},                     // lies within
		{5, 30, [][2]int{{5, 30}}},                    // is the same
		{9, 9, [][2]int{{5, 30}}},                     // nothing
		{40, 50, [][2]int{{5, 30}, {40, 50}}},         // leaves a gap
		{1, 2, [][2]int{{1, 2}, {5, 30}, {40, 50}}},   // before all others
		{30, 35, [][2]int{{1, 2}, {5, 35}, {40, 50}}}, // touches one of them
		{2, 45, [][2]int{{1, 50}}},                    // joins all
	} {
		b.must(b.store.Cover(b.ctx, run, "fake", reconcile.Coverage{From: at(turn.from), Until: at(turn.until)}))
		listed, err := b.store.Coverage(b.ctx, "fake")
		b.must(err)
		got := make([][2]int, 0, len(listed))
		for _, covered := range listed {
			got = append(got, [2]int{int(covered.From.Sub(noon) / time.Hour), int(covered.Until.Sub(noon) / time.Hour)})
		}
		if diff := cmp.Diff(turn.want, got); diff != "" {
			t.Errorf("after %d to %d (-want +got):\n%s", turn.from, turn.until, diff)
		}
	}
	if got, err := b.store.Coverage(b.ctx, "other"); err != nil || len(got) > 0 {
		t.Errorf("of another: %+v, %v", got, err)
	}
}

var _ reconcile.Store = (*postgres.Store)(nil)
