package postgres_test

import (
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/uuid"

	"paysaga/providers"
	"paysaga/reconcile"
	settlement "paysaga/reconcile/statement"
	"paysaga/saga"
)

// reconcile begins a reconciliation of the fake provider.
func (b *bundle) reconcile() reconcile.Run {
	b.t.Helper()
	run, err := b.store.BeginRun(b.ctx, aRun(reconcile.ModePlan), time.Minute)
	if err != nil {
		b.t.Fatalf("begin run: %v", err)
	}
	return run
}

func aRun(mode reconcile.Mode) reconcile.Run {
	return reconcile.Run{Mode: mode, Providers: []string{"fake"}, RequestedBy: "a test"}
}

// runOf begins a reconciliation of a settlement file.
func (b *bundle) runOf(digest byte) (run reconcile.Run, readTo int) {
	b.t.Helper()
	kept, err := b.store.OpenStatement(b.ctx, "fake", "july.csv", [32]byte{digest})
	b.must(err)
	run = aRun(reconcile.ModePlan)
	run.StatementID = kept.ID
	run, err = b.store.BeginRun(b.ctx, run, time.Minute)
	b.must(err)
	return run, kept.ReadTo
}

// end gives a run's lease back.
func (b *bundle) end(run reconcile.Run) {
	b.t.Helper()
	run.State, run.Stage = reconcile.RunDone, reconcile.StageEnd
	b.must(b.store.SaveRun(b.ctx, run, time.Minute))
}

// leave lets a run's lease run out, as if its process had died.
func (b *bundle) leave() {
	b.t.Helper()
	b.exec(`UPDATE reconciliation_lease SET locked_until = now()`)
}

func (b *bundle) now() time.Time {
	b.t.Helper()
	now, err := b.store.Now(b.ctx)
	b.must(err)
	return now
}

// scopeOf is about nothing but what a run was told, and what is open of findings and reservations.
func scopeOf(run reconcile.Run) reconcile.Scope {
	return reconcile.Scope{Run: run.ID, Providers: run.Providers}
}

func (b *bundle) nextPairs(scope reconcile.Scope, after reconcile.Place, limit int) []reconcile.Pair {
	b.t.Helper()
	pairs, err := b.store.NextPairs(b.ctx, scope, after, limit)
	if err != nil {
		b.t.Fatalf("next pairs: %v", err)
	}
	return pairs
}

func (b *bundle) tell(run reconcile.Run, told ...providers.Transaction) {
	b.t.Helper()
	if err := b.store.PutTransactions(b.ctx, run, "fake", b.now(), told); err != nil {
		b.t.Fatalf("put transactions: %v", err)
	}
}

// payment is one that the provider has under our key.
func payment(reference string, key providers.SubKey) providers.Transaction {
	return providers.Transaction{
		Kind: providers.TransactionPayment, Reference: reference, Payment: reference, Key: key, Status: providers.Succeeded,
		Money: providers.Money{Amount: 1200, Currency: "EUR"}, Refunded: -1, At: noon,
	}
}

var noon = time.Date(2026, 7, 1, 12, 0, 0, 0, time.UTC)

// paid is an order for two cups that is paid by a payment of its own.
func (b *bundle) paid(name, reference string) saga.Saga {
	b.t.Helper()
	return b.apply(b.outcome(b.begin(name), saga.CallCharge, providers.Outcome{Kind: providers.Succeeded, Reference: reference}))
}

// ofOrder is a finding about an order.
func ofOrder(s saga.Saga, kind reconcile.Kind) reconcile.Finding {
	return reconcile.Finding{
		Kind: kind, Severity: reconcile.Critical, AccountID: s.AccountID, SagaKey: s.Key, OrderID: s.Order.ID, Provider: "fake", Reference: "pay_1",
		AtStake: providers.Money{Amount: 300, Currency: "EUR"}, Detail: "The sides disagree.", Repair: reconcile.RepairComplete,
		Here:  reconcile.Facts{Status: "secret status here", Amount: 1200, Currency: "EUR", At: noon},
		There: reconcile.Facts{Status: "secret status there", Amount: 900, Currency: "EUR", References: []string{"pay_1"}},
	}
}

// ofNobody is a finding that no saga is about.
func ofNobody(reference string) reconcile.Finding {
	return reconcile.Finding{
		Kind: reconcile.MissingLocally, Severity: reconcile.High, Provider: "fake", Reference: reference, Detail: "Nobody knows it.",
		There: reconcile.Facts{Status: "succeeded", Amount: 500},
	}
}

// judge writes what was found about orders; those that are not named in it were looked at and are fine.
func (b *bundle) judge(run reconcile.Run, orders []saga.Saga, found ...reconcile.Finding) reconcile.Counts {
	b.t.Helper()
	judged := reconcile.Judged{Found: found}
	for _, s := range orders {
		judged.Sagas = append(judged.Sagas, reconcile.JudgedSaga{AccountID: s.AccountID, SagaKey: s.Key, Kinds: reconcile.Kinds()})
	}
	counts, err := b.store.PutFindings(b.ctx, run, judged)
	if err != nil {
		b.t.Fatalf("put findings: %v", err)
	}
	return counts
}

// wantCounts judges, and checks what that came to.
func (b *bundle) wantCounts(when string, want reconcile.Counts, run reconcile.Run, orders []saga.Saga, found ...reconcile.Finding) {
	b.t.Helper()
	if got := b.judge(run, orders, found...); got != want {
		b.t.Errorf("%s: %+v, want %+v", when, got, want)
	}
}

// wantKept checks fields of a finding that is kept.
func (b *bundle) wantKept(when string, kept reconcile.Kept, want map[string]any) {
	b.t.Helper()
	got := map[string]any{}
	for field := range want {
		got[field] = map[string]any{
			"id": kept.ID, "state": kept.State, "found by": kept.FoundBy, "detail": kept.Detail, "severity": kept.Severity, "run": kept.Run,
			"there": kept.There.Amount, "here": kept.Here.Amount, "note": kept.Note, "resolution": kept.Resolution, "by": kept.ResolvedBy,
			"reason": kept.Reason, "first seen": kept.FirstSeen,
		}[field]
	}
	if diff := cmp.Diff(want, got); diff != "" {
		b.t.Errorf("%s (-want +got):\n%s", when, diff)
	}
}

// onlyFinding is the one finding that there is.
func (b *bundle) onlyFinding() reconcile.Kept {
	b.t.Helper()
	found, err := b.store.ReadFindings(b.ctx, reconcile.FindingFilter{Limit: 10})
	if err != nil || len(found) != 1 {
		b.t.Fatalf("%d findings, %v; want one", len(found), err)
	}
	return b.readFinding(found[0].ID)
}

func (b *bundle) readFinding(id uuid.UUID) reconcile.Kept {
	b.t.Helper()
	kept, err := b.store.ReadFinding(b.ctx, "", id)
	if err != nil {
		b.t.Fatalf("read finding: %v", err)
	}
	return kept
}

// close ends the reading of a run's file.
func (b *bundle) close(run reconcile.Run, report settlement.Report) settlement.Report {
	b.t.Helper()
	kept, err := b.store.CloseStatement(b.ctx, run, report)
	b.must(err)
	return kept
}
