package postgres_test

import (
	"errors"
	"testing"
	"time"

	"paysaga/reconcile"
	settlement "paysaga/reconcile/statement"
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
	changed := line(3, "b_2")
	changed.Gross = 7
	b.must(b.store.PutLines(b.ctx, again, "fake", []settlement.Line{changed, line(5, "b_3")}))
	b.must(b.store.CloseStatement(b.ctx, again, settlement.Report{
		Format: "a test", Lines: 3, Malformed: 1, Faults: []settlement.Fault{{Number: 4, Column: "Net", Reason: "It is no amount."}},
		Totals:   map[string]settlement.Total{"EUR": {Gross: 3600, Fee: 120, Net: 3480}},
		Controls: []settlement.Control{{Name: "payout po_1", Currency: "EUR", Told: 3480, Counted: 3480}}, From: noon, Until: noon.Add(time.Hour),
	}))
	if n := b.count(`SELECT count(*) FROM settlement_lines WHERE gross = 1200 AND file_id = $1`, run.StatementID); n != 3 {
		t.Errorf("%d lines are kept as they were told first", n)
	}
	n := b.count(`SELECT count(*) FROM settlement_files WHERE state = 'read' AND lines = 3 AND malformed = 1 AND faults #>> '{0,column}' = 'Net'
		AND totals #>> '{EUR,net}' = '3480' AND controls #>> '{0,told}' = '3480' AND booked_from = $1`, noon)
	if n != 1 {
		t.Error("the file's end is not kept")
	}
	id, _, err := b.store.OpenStatement(b.ctx, "fake", "renamed.csv", [32]byte{1})
	if !errors.Is(err, reconcile.ErrReadBefore) || id != run.StatementID {
		t.Errorf("opened once more: %d, %v", id, err)
	}
	b.end(again)

	other, _ := b.runOf(2)
	b.must(b.store.PutLines(b.ctx, other, "fake", []settlement.Line{line(2, "b_3"), line(3, "b_4")}))
	if n := b.count(`SELECT count(*) FROM settlement_lines WHERE file_id = $1`, other.StatementID); n != 1 {
		t.Errorf("%d lines are the second file's own, want one", n)
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
	b.must(b.store.CloseStatement(b.ctx, run, settlement.Report{Provider: "fake"}))
	pair, err := b.store.ReadPair(b.ctx, reconcile.Place{AccountID: account, OrderID: order.Order.ID})
	if err != nil {
		t.Fatal(err)
	}
	if len(pair.Settled) != 1 || pair.Settled[0].ID != "b_1" {
		t.Errorf("settled are %+v, want the refund", pair.Settled)
	}
}
