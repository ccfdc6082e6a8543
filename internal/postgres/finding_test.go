package postgres_test

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"paysaga/internal/postgres"
	"paysaga/providers"
	"paysaga/reconcile"
	"paysaga/saga"
)

func TestFindingsAreKeptOnce(t *testing.T) {
	t.Parallel()
	b := newBundle(t)
	order := b.paid("order", "pay_1")
	first := b.reconcile()
	found, orders := ofOrder(order, reconcile.AmountMismatch), []saga.Saga{order}
	b.wantCounts("at first", reconcile.Counts{Opened: 1}, first, orders, found)
	kept := b.onlyFinding()
	want := reconcile.Kept{
		Open: reconcile.Open{Finding: found}, FoundBy: reconcile.ByReconciliation, State: reconcile.FindingOpen, Run: first.ID,
	}
	timeless := cmpopts.IgnoreFields(reconcile.Open{}, "ID", "FirstSeen", "LastSeen")
	if diff := cmp.Diff(want, kept, timeless); diff != "" {
		t.Errorf("kept (-want +got):\n%s", diff)
	}
	b.wantNowhere("secret status")
	b.end(first)

	second := b.reconcile()
	found.Severity, found.There.Amount = reconcile.High, 800
	b.wantCounts("again", reconcile.Counts{SeenAgain: 1}, second, orders, found)
	again := b.onlyFinding()
	b.wantKept("again", again, map[string]any{
		"id": kept.ID, "first seen": kept.FirstSeen, "run": second.ID, "there": int64(800), "severity": reconcile.High,
	})
	if !again.LastSeen.After(kept.LastSeen) {
		t.Errorf("seen at %s, and again at %s", kept.LastSeen, again.LastSeen)
	}

	b.wantCounts("gone", reconcile.Counts{Healed: 1}, second, orders)
	b.wantKept("gone", b.onlyFinding(), map[string]any{"state": reconcile.FindingResolved, "resolution": reconcile.ResolutionHealed})
	b.wantCounts("back", reconcile.Counts{Opened: 1}, second, orders, found)
}

// Nothing heals but what was judged.
func TestFindingsElsewhereStay(t *testing.T) {
	t.Parallel()
	b := newBundle(t)
	one, other := b.paid("one", "pay_1"), b.paid("other", "pay_2")
	run := b.reconcile()
	b.judge(run, []saga.Saga{one, other}, ofOrder(one, reconcile.AmountMismatch), ofOrder(one, reconcile.StatusMismatch),
		ofOrder(other, reconcile.AmountMismatch), ofNobody("pay_8"), ofNobody("pay_9"))
	if counts := b.judge(run, []saga.Saga{one}, ofOrder(one, reconcile.StatusMismatch)); counts != (reconcile.Counts{SeenAgain: 1, Healed: 1}) {
		t.Errorf("after one order: %+v", counts)
	}
	unlike := reconcile.JudgedSaga{AccountID: other.AccountID, SagaKey: other.Key, Kinds: []reconcile.Kind{reconcile.StatusMismatch}}
	if counts, err := b.store.PutFindings(b.ctx, run, reconcile.Judged{Sagas: []reconcile.JudgedSaga{unlike}}); err != nil || counts.Healed > 0 {
		t.Errorf("after another kind was judged: %+v, %v", counts, err)
	}
	counts, err := b.store.PutFindings(b.ctx, run, reconcile.Judged{
		Unclaimed: []reconcile.Provided{{Provider: "fake", Reference: "pay_8"}, {Provider: "other", Reference: "pay_9"}},
	})
	if err != nil || counts != (reconcile.Counts{Healed: 1}) {
		t.Errorf("after what belongs to no order: %+v, %v", counts, err)
	}
	open, err := b.store.ReadFindings(b.ctx, reconcile.FindingFilter{State: reconcile.FindingOpen, Limit: 9})
	if err != nil || len(open) != 3 {
		t.Errorf("%d are open, %v", len(open), err)
	}
}

// A finding that is told twice in a batch is one, and one about nobody's payment is the same in whoever's name it comes.
func TestIdentityOfFindings(t *testing.T) {
	t.Parallel()
	b := newBundle(t)
	order := b.paid("order", "pay_1")
	run := b.reconcile()
	milder := ofOrder(order, reconcile.AmountMismatch)
	milder.Severity, milder.SagaKey = reconcile.Low, uuid.Nil // the order tells the saga
	counts := b.judge(run, []saga.Saga{order}, milder, ofOrder(order, reconcile.AmountMismatch), ofNobody("pay_9"))
	if counts != (reconcile.Counts{Opened: 2}) {
		t.Errorf("at first: %+v", counts)
	}
	claimed := ofNobody("pay_9")
	claimed.AccountID = account
	if counts := b.judge(run, nil, claimed); counts != (reconcile.Counts{SeenAgain: 1}) {
		t.Errorf("in a name: %+v", counts)
	}
	n := b.count(`SELECT count(*) FROM findings WHERE severity = 'critical' AND saga_key = $1
		OR severity = 'high' AND saga_key IS NULL AND account_id = $2`, order.Key, account)
	if n != 2 {
		t.Errorf("%d findings are as they should be", n)
	}
	found, err := b.store.ReadFindings(b.ctx, reconcile.FindingFilter{Provider: "fake", Kind: reconcile.MissingLocally, Limit: 2})
	if err != nil || len(found) != 1 {
		t.Fatalf("%d findings, %v", len(found), err)
	}
	if kept := b.readFinding(found[0].ID); kept.There.Amount != 500 {
		t.Errorf("its facts are %+v", kept.There)
	}
}

// What a saga waits because of is the saga's, whoever came upon it first, and stays until somebody decides about that.
func TestFindingsOfASagaInReview(t *testing.T) {
	t.Parallel()
	b := newBundle(t)
	order := b.begin("order")
	run := b.reconcile()
	kind := reconcile.Kind(saga.FindingUnexpectedOutcome)
	b.judge(run, []saga.Saga{order}, ofOrder(order, kind))
	before := b.onlyFinding()
	b.ignore(before.ID, reconcile.Note{Actor: "a", Reason: "r", Until: b.now().Add(time.Hour)})
	b.park(order, saga.Finding{Kind: string(kind), Detail: "The saga's own words."})
	taken := b.onlyFinding()
	b.wantKept("taken over", taken, map[string]any{
		"id": before.ID, "found by": reconcile.BySaga, "detail": "The saga's own words.", "severity": before.Severity, "here": before.Here.Amount,
		"state": reconcile.FindingOpen,
	})

	// Another one that reconciliation finds beside it stays as well, while the saga waits.
	b.judge(run, []saga.Saga{order}, ofOrder(order, reconcile.StatusMismatch))
	b.wantCounts("while it waits", reconcile.Counts{}, run, []saga.Saga{order})
	again := ofOrder(order, kind)
	again.There.Amount = 77
	b.wantCounts("seen again", reconcile.Counts{SeenAgain: 1}, run, []saga.Saga{order}, again)
	b.must(b.store.PutRepair(b.ctx, run, taken.ID, true, "It was stopped for a person."))
	b.wantKept("after a repair", b.readFinding(taken.ID), map[string]any{
		"there": int64(77), "detail": taken.Detail, "found by": reconcile.BySaga, "state": reconcile.FindingOpen,
		"note": "It was stopped for a person.",
	})
	_, err := b.store.ResolveFinding(b.ctx, account, taken.ID, reconcile.Note{Actor: "a", Reason: "r"}, nil, nil)
	if !errors.Is(err, reconcile.ErrFindingInReview) {
		t.Errorf("resolved beside the saga: %v", err)
	}
}

// What a saga waits because of tells the money at stake and how soon a person should look, as what reconciliation finds does.
func TestStakeOfASagaInReview(t *testing.T) {
	t.Parallel()
	for kind, severity := range map[string]reconcile.Severity{
		saga.FindingAmountMismatch: reconcile.Critical, saga.FindingCurrencyMismatch: reconcile.Critical, saga.FindingUnexpectedOutcome: reconcile.High,
	} {
		t.Run(kind, func(t *testing.T) {
			t.Parallel()
			b := newBundle(t)
			order := b.begin("order")
			b.park(order, saga.Finding{Kind: kind, Detail: "Why."})
			found := b.onlyFinding()
			if found.Severity != severity || found.AtStake != order.Order.Money() || found.Provider != order.Order.Payment.Provider {
				t.Errorf("it is %s, about %s at %s; want %s, %s", found.Severity, found.AtStake, found.Provider, severity, order.Order.Money())
			}
		})
	}
}

// park has a saga wait for a person.
func (b *bundle) park(s saga.Saga, finding saga.Finding) {
	b.t.Helper()
	change := b.outcome(s, saga.CallCharge, unknown)
	change.After.State, change.Pause, change.Release, change.Finding = saga.NeedsReview, 0, true, &finding
	b.apply(change)
}

func (b *bundle) ignore(id uuid.UUID, note reconcile.Note) reconcile.Kept {
	b.t.Helper()
	kept, err := b.store.IgnoreFinding(b.ctx, account, id, note, nil, nil)
	if err != nil {
		b.t.Fatalf("ignore: %v", err)
	}
	return kept
}

func (b *bundle) resolve(id uuid.UUID, note reconcile.Note) reconcile.Kept {
	b.t.Helper()
	kept, err := b.store.ResolveFinding(b.ctx, account, id, note, nil, nil)
	if err != nil {
		b.t.Fatalf("resolve: %v", err)
	}
	return kept
}

// What a person accepted as it is stays resolved, until something about it changes.
func TestAcceptedFindings(t *testing.T) {
	t.Parallel()
	b := newBundle(t)
	order := b.paid("order", "pay_1")
	run := b.reconcile()
	all := []reconcile.Finding{ofOrder(order, reconcile.AmountMismatch), ofNobody("pay_9")}
	b.judge(run, []saga.Saga{order}, all...)
	found, err := b.store.ReadFindings(b.ctx, reconcile.FindingFilter{Limit: 9})
	b.must(err)
	for _, kept := range found {
		if _, err := b.store.ResolveFinding(b.ctx, "", kept.ID, reconcile.Note{Actor: "a", Reason: "as agreed"}, nil, nil); err != nil {
			t.Fatal(err)
		}
	}
	if counts := b.judge(run, []saga.Saga{order}, all...); counts != (reconcile.Counts{}) {
		t.Errorf("nothing has changed, and came %+v", counts)
	}
	all[0].There.Amount, all[1].There.Amount = 1, 1
	if counts := b.judge(run, []saga.Saga{order}, all...); counts != (reconcile.Counts{Opened: 2}) {
		t.Errorf("both have changed, and came %+v", counts)
	}
}

func TestResolveAndIgnore(t *testing.T) {
	t.Parallel()
	b := newBundle(t)
	order := b.paid("order", "pay_1")
	run := b.reconcile()
	b.judge(run, []saga.Saga{order}, ofOrder(order, reconcile.AmountMismatch))
	id := b.onlyFinding().ID
	ignored := reconcile.Note{Actor: "user a", Reason: "after the holiday", Until: b.now().Add(time.Hour)}
	resolved := reconcile.Note{Actor: "user b", Reason: "paid by hand"}

	for range 2 {
		b.wantKept("ignored", b.ignore(id, ignored), map[string]any{
			"state": reconcile.FindingIgnored, "reason": ignored.Reason, "by": ignored.Actor, "here": int64(1200),
		})
	}
	b.judge(run, []saga.Saga{order}, ofOrder(order, reconcile.AmountMismatch))
	b.wantKept("found again", b.onlyFinding(), map[string]any{"state": reconcile.FindingIgnored})
	if repairs, err := b.store.NextRepairs(b.ctx, run, uuid.Nil, 9); err != nil || len(repairs) != 0 {
		t.Errorf("to be mended: %v, %v", repairs, err)
	}
	b.exec(`UPDATE findings SET ignored_until = now()`)
	b.wantKept("when the time is over", b.onlyFinding(), map[string]any{"state": reconcile.FindingOpen})
	for range 2 {
		b.wantKept("resolved", b.resolve(id, resolved), map[string]any{
			"state": reconcile.FindingResolved, "resolution": reconcile.ResolutionByPerson, "reason": resolved.Reason, "by": resolved.Actor,
			"here": int64(1200),
		})
	}
	b.wantNoted("finding.ignored", id, ignored)
	b.wantNoted("finding.resolved", id, resolved)
	if _, err := b.store.IgnoreFinding(b.ctx, account, id, ignored, nil, nil); !errors.Is(err, reconcile.ErrFindingResolved) {
		t.Errorf("ignored when it is over: %v", err)
	}
	if _, err := b.store.ResolveFinding(b.ctx, "shop2", id, resolved, nil, nil); !errors.Is(err, saga.ErrNotFound) {
		t.Errorf("another account's: %v", err)
	}
	if _, err := b.store.ReadFinding(b.ctx, "shop2", id); !errors.Is(err, saga.ErrNotFound) {
		t.Errorf("another account's is read: %v", err)
	}
}

// wantNoted checks that the audit log tells of something once.
func (b *bundle) wantNoted(action string, id uuid.UUID, note reconcile.Note) {
	b.t.Helper()
	n := b.count(`SELECT count(*) FROM audit_log WHERE account_id = $1 AND subject = $2 AND action = $3 AND actor = $4 AND reason = $5`,
		account, id.String(), action, note.Actor, note.Reason)
	if n != 1 {
		b.t.Errorf("%d entries %s", n, action)
	}
}

// A request's answer is stored with what it did, or nothing is.
func TestResolveUnderAKey(t *testing.T) {
	t.Parallel()
	b := newBundle(t)
	order := b.paid("order", "pay_1")
	b.judge(b.reconcile(), []saga.Saga{order}, ofOrder(order, reconcile.AmountMismatch))
	id, note := b.onlyFinding().ID, reconcile.Note{Actor: "a", Reason: "r"}
	answer := func(kept reconcile.Kept) (saga.Answer, error) {
		return saga.Answer{Status: 200, Headers: map[string]string{}, Body: []byte(kept.State)}, nil
	}
	lost := b.claimKey(0)
	b.takeKey(lost)
	if _, err := b.store.ResolveFinding(b.ctx, account, id, note, &lost, answer); !errors.Is(err, saga.ErrLeaseLost) {
		t.Errorf("without the key: %v", err)
	}
	if kept := b.onlyFinding(); kept.State != reconcile.FindingOpen {
		t.Errorf("without the key it was %s", kept.State)
	}
	held := b.holding("another")
	if _, err := b.store.ResolveFinding(b.ctx, account, id, note, &held, answer); err != nil || !held.Answered {
		t.Errorf("with the key: %v, answered %t", err, held.Answered)
	}
	if record, _ := b.record(held); string(record.Answer.Body) != "resolved" {
		t.Errorf("the key's record is %+v", record)
	}
}

func TestRepairs(t *testing.T) {
	t.Parallel()
	b := newBundle(t)
	orders := []saga.Saga{b.paid("a", "pay_1"), b.paid("b", "pay_2"), b.paid("c", "pay_3")}
	earlier := b.reconcile()
	b.judge(earlier, orders[:1], ofOrder(orders[0], reconcile.AmountMismatch))
	b.end(earlier)
	run := b.reconcile()
	b.judge(run, orders[1:], ofOrder(orders[1], reconcile.AmountMismatch), ofOrder(orders[2], reconcile.AmountMismatch))
	var ids []uuid.UUID
	for after := uuid.Nil; ; {
		page, err := b.store.NextRepairs(b.ctx, run, after, 1)
		b.must(err)
		if len(page) == 0 {
			break
		}
		after = page[0].ID
		ids = append(ids, after)
		if page[0].Here.Amount != 1200 || page[0].Repair != reconcile.RepairComplete {
			t.Errorf("to be mended: %+v", page[0])
		}
	}
	if len(ids) != 2 {
		t.Fatalf("%d findings of the run, want 2", len(ids))
	}
	b.must(b.store.PutRepair(b.ctx, run, ids[0], true, "The saga was brought on."))
	b.must(b.store.PutRepair(b.ctx, run, ids[1], false, "The provider was not there."))
	if kept := b.readFinding(ids[0]); kept.Resolution != reconcile.ResolutionRepaired || kept.Note != "The saga was brought on." {
		t.Errorf("mended: %+v", kept)
	}
	if kept := b.readFinding(ids[1]); kept.State != reconcile.FindingOpen || kept.Note != "The provider was not there." {
		t.Errorf("not mended: %+v", kept)
	}
}

func TestFilterFindings(t *testing.T) {
	t.Parallel()
	b := newBundle(t)
	order := b.paid("order", "pay_1")
	b.judge(b.reconcile(), []saga.Saga{order}, ofOrder(order, reconcile.AmountMismatch), ofNobody("pay_9"))
	parked := b.apply(b.outcome(b.begin("parked"), saga.CallCharge, providers.Outcome{Kind: providers.Succeeded, Reference: "pay_2", Money: providers.Money{Amount: 1, Currency: "EUR"}}))
	if parked.State != saga.NeedsReview {
		t.Fatalf("the saga is %s", parked.State)
	}
	for name, test := range map[string]struct {
		filter reconcile.FindingFilter
		want   int
	}{
		"all":           {reconcile.FindingFilter{}, 3},
		"an account's":  {reconcile.FindingFilter{AccountID: account}, 2},
		"another's":     {reconcile.FindingFilter{AccountID: "shop2"}, 0},
		"of a kind":     {reconcile.FindingFilter{Kind: reconcile.MissingLocally}, 1},
		"severe":        {reconcile.FindingFilter{Severity: reconcile.Critical}, 2},
		"at a provider": {reconcile.FindingFilter{Provider: "fake"}, 3},
		"resolved":      {reconcile.FindingFilter{State: reconcile.FindingResolved}, 0},
		"open":          {reconcile.FindingFilter{State: reconcile.FindingOpen}, 3},
	} {
		test.filter.Limit = 1
		seen := map[uuid.UUID]bool{}
		for {
			page, err := b.store.ReadFindings(b.ctx, test.filter)
			if err != nil {
				t.Fatal(err)
			}
			if len(page) == 0 {
				break
			}
			seen[page[0].ID] = true
			test.filter.Before = &saga.FindingPlace{CreatedAt: page[0].FirstSeen, ID: page[0].ID}
		}
		if len(seen) != test.want {
			t.Errorf("%s: %d findings, want %d", name, len(seen), test.want)
		}
	}
	figures, err := b.store.ReadFindingFigures(b.ctx)
	if err != nil || len(figures.Open) != 2 || figures.Oldest <= 0 || figures.AtStake["EUR"] != 1500 || len(figures.Compared) != 0 {
		t.Errorf("figures %+v, %v", figures, err)
	}
}

// What tells that all is well is up to when everything was compared, not that some run has ended.
func TestFiguresOfRuns(t *testing.T) {
	t.Parallel()
	b := newBundle(t)
	run := b.reconcile()
	at := func(hour int) time.Time { return noon.Add(time.Duration(hour) * time.Hour) }
	for _, turn := range []struct {
		name              string
		from, until, want int
	}{
		{"the first", 10, 20, 20},
		{"it goes on", 18, 30, 30},
		{"what was compared before", 1, 2, 30},
		{"a gap", 31, 40, 30},
		{"the gap is closed", 29, 45, 45},
	} {
		b.must(b.store.PutCompared(b.ctx, run, "fake", reconcile.Coverage{From: at(turn.from), Until: at(turn.until)}))
		got, err := b.store.ComparedUntil(b.ctx, "fake")
		if err != nil || !got.Equal(at(turn.want)) {
			t.Errorf("%s: %s, %v; want %s", turn.name, got, err, at(turn.want))
		}
	}
	b.end(run)
	ended := b.reconcile() // and is about nothing
	b.end(ended)
	figures, err := b.store.ReadFindingFigures(b.ctx)
	if err != nil || !figures.Compared["fake"].Equal(at(45)) || figures.Oldest != 0 || len(figures.Open) != 0 {
		t.Errorf("figures %+v, %v", figures, err)
	}
	if got, err := b.store.ComparedUntil(b.ctx, "other"); err != nil || !got.IsZero() {
		t.Errorf("of another: %s, %v", got, err)
	}
	if err := b.store.PutCompared(b.ctx, run, "fake", reconcile.Coverage{From: at(45), Until: at(50)}); !errors.Is(err, reconcile.ErrLeaseLost) {
		t.Errorf("a run that has ended: %v", err)
	}
}

func TestSummaryOfADay(t *testing.T) {
	t.Parallel()
	b := newBundle(t)
	order := b.paid("order", "pay_1")
	b.judge(b.reconcile(), []saga.Saga{order}, ofOrder(order, reconcile.AmountMismatch), ofOrder(order, reconcile.StatusMismatch))
	for turn, want := range []int{2, 0} { // one for each account
		if written, err := b.store.PutSummary(b.ctx); err != nil || written != want {
			t.Errorf("turn %d: %d, %v; want %d", turn, written, err, want)
		}
	}
	n := b.count(`SELECT count(*) FROM outbox_events WHERE account_id = $1 AND type = 'reconciliation.summary' AND order_id IS NULL
		AND data #>> '{open}' = '2' AND data #>> '{at_stake,EUR}' = '600' AND data #>> '{by_severity,critical}' = '2'
		AND data #>> '{by_kind,status_mismatch}' = '1'`, account)
	if n != 1 {
		t.Errorf("%d summaries tell what is open", n)
	}
	b.exec(`UPDATE outbox_events SET data = jsonb_set(data, '{day}', '"2026-01-01"') WHERE order_id IS NULL`)
	if written, err := b.store.PutSummary(b.ctx); err != nil || written != 2 {
		t.Errorf("the next day: %d, %v", written, err)
	}
}

// Findings are kept for good: however many have ended, those of a batch are looked up by indexes.
func TestResolvedFindingsAreLookedUpByIndexes(t *testing.T) {
	t.Parallel()
	b := newBundle(t)
	b.exec(`ALTER TABLE findings DROP CONSTRAINT findings_account_id_saga_key_fkey`) // the sagas would be in the way
	b.exec(`INSERT INTO findings (account_id, saga_key, order_id, kind, detail, source, provider, reference, resolved_at, resolution, created_at)
		SELECT 'shop1', CASE WHEN n % 2 = 0 THEN gen_random_uuid() END, CASE WHEN n % 2 = 0 THEN gen_random_uuid() END, 'missing_locally', 'A test.',
			'reconciliation', 'fake', 'pay_' || n, now(), 'healed', now()
		FROM generate_series(1, 5000) AS n`)
	b.exec(`ANALYZE findings`)
	tx, err := b.pool.Begin(b.ctx)
	b.must(err)
	defer func() { _ = tx.Rollback(b.ctx) }()
	if _, err := tx.Exec(b.ctx, `SET LOCAL plan_cache_mode = force_generic_plan`); err != nil {
		t.Fatal(err)
	}
	rows, err := tx.Query(b.ctx, `EXPLAIN `+postgres.LastResolved, []string{"k"}, []string{"a"}, []*uuid.UUID{nil}, []string{"p"}, []string{"r"})
	b.must(err)
	plan, err := pgx.CollectRows(rows, pgx.RowTo[string])
	b.must(err)
	text := strings.Join(plan, "\n")
	if strings.Contains(text, "Seq Scan on findings") || !strings.Contains(text, "findings_of_thing") || !strings.Contains(text, "findings_ended_of_saga") {
		t.Errorf("planned as\n%s", text)
	}
}
