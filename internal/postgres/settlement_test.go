package postgres_test

import (
	"errors"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"paysaga/reconcile"
	settlement "paysaga/reconcile/statement"
	"paysaga/saga"
)

func line(number int, id string) settlement.Line {
	return settlement.Line{
		Number: number, ID: id, Kind: settlement.LineCharge, Payment: "pay_1", Reference: "ch_1", Gross: 1200, Fee: 40, Net: 1160, Currency: "EUR",
		Payout: "po_1", BookedAt: noon,
	}
}

func TestSettlementFile(t *testing.T) {
	t.Parallel()
	b := newBundle(t)
	run, readTo := b.runOf(1)
	if readTo != 0 {
		t.Errorf("read to %d before it was read", readTo)
	}
	for range 2 { // the answer of the first may have been lost
		b.must(b.store.PutLines(b.ctx, run, "fake", []settlement.Line{line(2, "b_1"), line(3, "b_2")}))
	}
	b.leave()
	again, readTo := b.runOf(1)
	if again.ID != run.ID || readTo != 3 {
		t.Errorf("goes on as %s after line %d; it was %s", again.ID, readTo, run.ID)
	}
	b.must(b.store.PutLines(b.ctx, again, "fake", []settlement.Line{line(3, "b_2"), line(5, "b_3")}))
	report := settlement.Report{
		Format: "a test", Lines: 3, Malformed: 1, Faults: []settlement.Fault{{Number: 4, Column: "Net", Reason: "It is no amount."}},
		Totals:   map[string]settlement.Total{"EUR": {Gross: 3600, Fee: 120, Net: 3480}},
		Controls: []settlement.Control{{Name: "payout po_1", Currency: "EUR", Told: 3480, Counted: 3480}}, From: noon, Until: noon.Add(time.Hour),
	}
	b.close(again, report)
	if n := b.count(`SELECT count(*) FROM settlement_lines WHERE gross = 1200 AND file_id = $1`, run.StatementID); n != 3 {
		t.Errorf("%d lines are kept as they were told first", n)
	}
	n := b.count(`SELECT count(*) FROM settlement_files WHERE state = 'read' AND lines = 3 AND malformed = 1 AND faults #>> '{0,column}' = 'Net'
		AND totals #>> '{EUR,net}' = '3480' AND controls #>> '{0,told}' = '3480' AND booked_from = $1`, noon)
	if n != 1 {
		t.Error("the file's end is not kept")
	}
	report.Provider = "fake"
	want := reconcile.KeptStatement{ID: run.StatementID, Name: "july.csv", IsRead: true, ReadTo: 5, Reconciled: []reconcile.Mode{}, Report: report}
	b.wantStatement("opened once more", want)
	b.end(again)
	want.Reconciled = []reconcile.Mode{reconcile.ModePlan}
	b.wantStatement("when its run has ended", want)

	other, _ := b.runOf(2)
	b.must(b.store.PutLines(b.ctx, other, "fake", []settlement.Line{line(2, "b_3"), line(3, "b_4")}))
	if n := b.count(`SELECT count(*) FROM settlement_lines WHERE file_id = $1`, other.StatementID); n != 1 {
		t.Errorf("%d lines are the second file's own, want one", n)
	}
}

// wantStatement checks how the file of the first digest is kept, under whatever name it comes.
func (b *bundle) wantStatement(when string, want reconcile.KeptStatement) {
	b.t.Helper()
	opened, err := b.store.OpenStatement(b.ctx, "fake", "renamed.csv", [32]byte{1})
	b.must(err)
	read, err := b.store.ReadStatement(b.ctx, want.ID)
	b.must(err)
	for _, got := range []reconcile.KeptStatement{opened, read} {
		if diff := cmp.Diff(want, got); diff != "" {
			b.t.Errorf("%s (-want +got):\n%s", when, diff)
		}
	}
}

// A booking counts once, wherever it stands again: in one batch, over two, in another file. With other money it is a fault with its line.
func TestBookingThatStandsTwice(t *testing.T) {
	t.Parallel()
	b := newBundle(t)
	otherwise := func(number int, id string) settlement.Line {
		l := line(number, id)
		l.Gross, l.Net = 900, 860
		return l
	}
	run, _ := b.runOf(1)
	b.must(b.store.PutLines(b.ctx, run, "fake", []settlement.Line{line(2, "b_1"), line(3, "b_1"), line(4, "b_2"), otherwise(5, "b_1"), line(6, "b_1")}))
	b.leave() // and its process read the last batch again
	run, _ = b.runOf(1)
	first := run.StatementID
	for range 2 {
		b.must(b.store.PutLines(b.ctx, run, "fake", []settlement.Line{line(7, "b_2"), otherwise(9, "b_2"), line(10, "b_3")}))
	}
	report := b.close(run, settlement.Report{Format: "a test", Lines: 8, Malformed: 1, Faults: []settlement.Fault{{Number: 8, Column: "Net", Reason: "The field is empty."}}})
	const reason = "The line tells a booking that is kept already, with other money."
	want := []settlement.Fault{{Number: 5, Reason: reason}, {Number: 8, Column: "Net", Reason: "The field is empty."}, {Number: 9, Reason: reason}}
	if diff := cmp.Diff(want, report.Faults); diff != "" || report.Malformed != 3 {
		t.Errorf("%d faults (-want +got):\n%s", report.Malformed, diff)
	}
	b.end(run)
	run, _ = b.runOf(2)
	b.must(b.store.PutLines(b.ctx, run, "fake", []settlement.Line{line(2, "b_3"), otherwise(3, "b_2"), line(4, "b_4")}))
	if report := b.close(run, settlement.Report{Format: "a test", Lines: 3}); report.Malformed != 1 || len(report.Faults) != 1 || report.Faults[0].Number != 3 {
		t.Errorf("another file comes to %+v", report)
	}
	if n := b.count(`SELECT count(*) FROM settlement_lines WHERE gross = 1200 AND (file_id = $1) = (id <> 'b_4')`, first); n != 4 {
		t.Errorf("%d lines are kept as they were told first", n)
	}
}

// However many faults a file has, so many are kept.
func TestManyLinesThatTellOtherwise(t *testing.T) {
	t.Parallel()
	b := newBundle(t)
	run, _ := b.runOf(1)
	lines := make([]settlement.Line, 151)
	for i := range lines {
		lines[i] = line(1+i, "b_1")
		lines[i].Net -= int64(min(i, 1))
	}
	b.must(b.store.PutLines(b.ctx, run, "fake", lines[:80]))
	b.must(b.store.PutLines(b.ctx, run, "fake", lines[80:]))
	report := b.close(run, settlement.Report{})
	if report.Malformed != 150 || len(report.Faults) != 100 || report.Faults[99].Number != 101 {
		t.Errorf("%d faults, %d of them told", report.Malformed, len(report.Faults))
	}
}

// What is read once more, in another zone, takes the place of what was read before: no line of that is left.
func TestFileThatIsReadOnceMore(t *testing.T) {
	t.Parallel()
	b := newBundle(t)
	run, _ := b.runOf(1)
	b.must(b.store.PutLines(b.ctx, run, "fake", []settlement.Line{line(2, "b_1"), line(3, "b_2 at noon")}))
	b.close(run, settlement.Report{Lines: 2, Malformed: 3, Faults: []settlement.Fault{{Number: 4}}})
	b.must(b.store.RestartStatement(b.ctx, run, "Europe/Vienna"))
	b.wantStatement("begun once more", reconcile.KeptStatement{
		ID: run.StatementID, Name: "july.csv", Zone: "Europe/Vienna", Reconciled: []reconcile.Mode{},
		Report: settlement.Report{Provider: "fake", Lines: 2, Totals: map[string]settlement.Total{}},
	})
	later := line(2, "b_1")
	later.BookedAt = noon.Add(-time.Hour)
	b.must(b.store.PutLines(b.ctx, run, "fake", []settlement.Line{later, line(3, "b_2 at one")}))
	if report := b.close(run, settlement.Report{Lines: 2}); report.Malformed != 0 || len(report.Faults) != 0 {
		t.Errorf("comes to %+v", report)
	}
	if n := b.count(`SELECT count(*) FROM settlement_lines WHERE id = 'b_1' AND booked_at = $1 OR id = 'b_2 at one'`, later.BookedAt); n != 2 {
		t.Errorf("%d lines are as they were read last", n)
	}
	if n := b.count(`SELECT count(*) FROM settlement_lines`); n != 2 {
		t.Errorf("%d lines are kept", n)
	}
}

func TestStatementThatNobodyOpened(t *testing.T) {
	t.Parallel()
	b := newBundle(t)
	if _, err := b.store.ReadStatement(b.ctx, 7); !errors.Is(err, saga.ErrNotFound) {
		t.Errorf("read: %v", err)
	}
}

// A refund may bear no key of ours and name no payment that is known: the key of the order's saga, which the file repeats, is enough.
func TestLineOfAnOrderBySagaKey(t *testing.T) {
	t.Parallel()
	b := newBundle(t)
	order := b.paid("order", "pay_1")
	run, _ := b.runOf(1)
	told := line(2, "b_1")
	told.Kind, told.Payment, told.Reference, told.SagaKey = settlement.LineRefund, "cap_unknown", "re_unknown", order.Key.String()
	b.must(b.store.PutLines(b.ctx, run, "fake", []settlement.Line{told}))
	b.close(run, settlement.Report{Provider: "fake"})
	pair, err := b.store.ReadPair(b.ctx, reconcile.Place{AccountID: account, OrderID: order.Order.ID})
	if err != nil {
		t.Fatal(err)
	}
	if len(pair.Settled) != 1 || pair.Settled[0].ID != "b_1" {
		t.Errorf("settled are %+v, want the refund", pair.Settled)
	}
}
