package reconcile

import (
	"slices"
	"testing"
	"time"

	"github.com/google/uuid"

	"paysaga/providers"
	"paysaga/reconcile/statement"
	"paysaga/saga"
)

var (
	noon    = time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)
	orderID = uuid.MustParse("fba0861f-d07a-58ae-88a7-cf229bfe7a8d")
)

const (
	chargeKey = providers.SubKey("fba0861f-d07a-58ae-88a7-cf229bfe7a8d_charge")
	refundKey = providers.SubKey("abd5152c-75c8-5464-98ea-5e70e6648d9d_refund")
)

func euros(amount int64) providers.Money { return providers.Money{Amount: amount, Currency: "EUR"} }

// view is an hour after everything of a pair was made, told and listed.
func view() View {
	return View{
		Now: noon.Add(3 * time.Hour), Policy: DefaultPolicy(),
		Coverage: map[string][]Coverage{"stripe": {{From: noon.Add(-24 * time.Hour), Until: noon.Add(time.Hour)}}},
	}
}

// paid is a completed order over 12.00 EUR, as both sides have it.
func paid() Pair {
	return Pair{
		Payment: Payment{
			AccountID: "shop1", OrderID: orderID, State: saga.Completed, Capture: saga.CaptureAutomatic, Money: euros(1200), Captured: 1200,
			CreatedAt: noon, UpdatedAt: noon.Add(time.Second),
			Charges: []Charge{{
				Provider: "stripe", Key: chargeKey, Attempt: 1, Reference: "pi_1", Status: saga.StepDone, Outcome: providers.Succeeded,
				StartedAt: noon, SettledAt: noon.Add(time.Second),
			}},
		},
		There: []Told{payment("pi_1", chargeKey, providers.Succeeded, 1200)},
	}
}

func payment(id string, key providers.SubKey, status providers.OutcomeKind, amount int64) Told {
	return Told{Provider: "stripe", ToldAt: noon.Add(2 * time.Hour), Transaction: providers.Transaction{
		Kind: providers.TransactionPayment, Reference: id, Payment: id, Key: key, Status: status, Money: euros(amount), Refunded: -1, At: noon,
	}}
}

func refundThere(id string, key providers.SubKey, amount int64) Told {
	told := payment(id, key, providers.Succeeded, amount)
	told.Kind, told.Payment = providers.TransactionRefund, "pi_1"
	return told
}

func refundHere(status saga.StepStatus, state saga.State, amount int64) Refund {
	return Refund{
		SagaKey: uuid.MustParse("abd5152c-75c8-5464-98ea-5e70e6648d9d"), State: state, Provider: "stripe", Key: refundKey, Reference: "re_1",
		Amount: amount, Status: status, StartedAt: noon.Add(time.Minute), SettledAt: noon.Add(time.Minute), UpdatedAt: noon.Add(time.Minute),
	}
}

func refunded() Pair {
	pair := paid()
	pair.Payment.Refunded = 500
	pair.Payment.Refunds = []Refund{refundHere(saga.StepDone, saga.Completed, 500)}
	pair.There = append(pair.There, refundThere("re_1", refundKey, 500))
	return pair
}

func rolledBack(status saga.StepStatus) Pair {
	pair := paid()
	pair.Payment.State, pair.Payment.Captured, pair.Payment.Charges[0].Status = saga.RolledBack, 0, status
	pair.There = nil
	return pair
}

// undone is an order whose payment was given back.
func undone() Pair {
	pair := rolledBack(saga.StepUndone)
	pair.Payment.Captured, pair.Payment.Refunded = 1200, 1200
	pair.Payment.Refunds = []Refund{refundHere(saga.StepDone, saga.RolledBack, 1200)}
	pair.Payment.Refunds[0].SagaKey = orderID
	pair.There = []Told{payment("pi_1", chargeKey, providers.Succeeded, 1200), refundThere("re_1", refundKey, 1200)}
	return pair
}

func waiting(status saga.StepStatus) Pair {
	pair := paid()
	pair.Payment.State, pair.Payment.Captured, pair.Payment.Charges[0].Status = saga.Awaiting, 0, status
	pair.Payment.DueAt = noon.Add(4 * time.Hour)
	pair.There = []Told{payment("pi_1", chargeKey, providers.ActionRequired, 1200)}
	return pair
}

func holding() Pair {
	pair := waiting(saga.StepDone)
	pair.Payment.Capture = saga.CaptureManual
	pair.There = []Told{payment("pi_1", chargeKey, providers.Authorized, 1200)}
	return pair
}

func settledLine(kind statement.LineKind, gross, fee int64) Settlement {
	return Settlement{Provider: "stripe", Line: statement.Line{
		Number: 2, ID: "txn_1", Kind: kind, Payment: "pi_1", Reference: "ch_1", Gross: gross, Fee: fee, Net: gross - fee, Currency: "EUR",
		BookedAt: noon.Add(time.Hour),
	}}
}

// Payments on which both sides agree are no findings, wherever they stand.
func TestNothingToFind(t *testing.T) {
	t.Parallel()
	manual := paid()
	manual.Payment.Capture, manual.Payment.Captured = saga.CaptureManual, 700
	manual.There = []Told{payment("pi_1", chargeKey, providers.Succeeded, 700)}
	settled := refunded()
	settled.Settled = []Settlement{settledLine(statement.LineCharge, 1200, 35), settledLine(statement.LineRefund, -500, 0)}
	settled.Settled[1].Reference = "re_1"
	foreign := paid()
	foreign.Settled = []Settlement{settledLine(statement.LineCharge, 1300, 40)}
	foreign.Settled[0].Currency, foreign.Settled[0].Original = "USD", euros(1200)
	unfaced := paid() // Stripe's report without the columns of what the customer paid
	unfaced.Settled = []Settlement{settledLine(statement.LineCharge, 1300, 40)}
	unfaced.Settled[0].Currency = "USD"
	unnamed := refunded() // and without those that name a refund
	unnamed.Settled = []Settlement{settledLine(statement.LineCharge, 1200, 35), settledLine(statement.LineRefund, -500, 0)}
	unnamed.Settled[1].Reference = ""
	declined := rolledBack(saga.StepFailed)
	declined.There = []Told{payment("pi_1", chargeKey, providers.Declined, 1200)}
	lost := paid() // its outcome is told by a list that is older than the change
	lost.Payment.UpdatedAt = noon.Add(2 * time.Hour)
	lost.There[0].Status = providers.Processing
	uncovered := paid()
	uncovered.There, uncovered.Payment.Charges[0].StartedAt = nil, noon.Add(2*time.Hour)
	partly := paid() // how Stripe books a capture of a part
	partly.Payment.Capture, partly.Payment.Captured = saga.CaptureManual, 700
	partly.There = []Told{payment("pi_1", chargeKey, providers.Succeeded, 700)}
	partly.Settled = []Settlement{settledLine(statement.LineCharge, 1200, 35), settledLine(statement.LineCharge, -500, -10)}
	repaid := paid() // a duplicate that was given back
	second := refundThere("re_2", "", 1200)
	second.Payment = "pi_2"
	repaid.There = append(repaid.There, payment("pi_2", chargeKey, providers.Succeeded, 1200), second)
	twice := repaid // and the file tells of both
	twice.Settled = []Settlement{settledLine(statement.LineCharge, 1200, 35), settledLine(statement.LineCharge, 1200, 35)}
	twice.Settled[1].Payment, twice.Settled[1].Reference, twice.Settled[1].ID = "pi_2", "ch_2", "txn_2"
	won := paid()
	won.Settled = []Settlement{settledLine(statement.LineChargeback, -1200, 0), settledLine(statement.LineChargeback, 1200, 0)}
	busy := rolledBack(saga.StepFailed)
	busy.Payment.Busy, busy.Payment.HeldStock = true, true
	busy.There = paid().There
	for name, pair := range map[string]Pair{
		"paid": paid(), "captured in part": manual, "refunded": refunded(), "settled": settled, "settled in another currency": foreign,
		"settled in another currency, which is all that is told": unfaced, "a refund that is not named": unnamed,
		"declined": declined, "never sent": rolledBack(saga.StepFailed), "undone": undone(), "waiting": waiting(saga.StepPending),
		"holding": holding(), "told before it changed": lost, "not listed yet": uncovered, "chargeback won": won, "duplicate given back": repaid, "duplicate settled and given back": twice, "settled in part": partly, "being driven": busy,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if found := Match(pair, view()).Found; len(found) > 0 {
				t.Errorf("found %+v", found)
			}
		})
	}
}

// Each kind of damage is found, as what it is, with what mends it.
func TestEveryKindIsFound(t *testing.T) {
	t.Parallel()
	of := func(pair Pair, damage func(*Pair)) Pair { damage(&pair); return pair }
	for name, test := range map[string]struct {
		pair   Pair
		kind   Kind
		repair Repair
		stake  int64
	}{
		"lost at the provider":       {of(paid(), func(p *Pair) { p.There = nil }), PaymentMissing, RepairReview, 1200},
		"held, lost at the provider": {of(holding(), func(p *Pair) { p.There = nil }), PaymentMissing, RepairReview, 1200},
		"another amount":             {of(paid(), func(p *Pair) { p.There[0].Money.Amount = 1000 }), AmountMismatch, RepairReview, 200},
		"another currency":           {of(paid(), func(p *Pair) { p.There[0].Money.Currency = "USD" }), CurrencyMismatch, RepairReview, 1200},
		"completed, canceled there":  {of(paid(), func(p *Pair) { p.There[0].Status = providers.Canceled }), StatusMismatch, RepairReview, 1200},
		"completed, declined there":  {of(paid(), func(p *Pair) { p.There[0].Status = providers.Declined }), StatusMismatch, RepairReview, 1200},
		"completed, held there":      {of(paid(), func(p *Pair) { p.There[0].Status = providers.Authorized }), StatusMismatch, RepairReview, 1200},
		"waits, paid there":          {of(waiting(saga.StepPending), func(p *Pair) { p.There = paid().There }), StatusMismatch, RepairComplete, 1200},
		"charging, paid there": {of(waiting(saga.StepUnknown), func(p *Pair) {
			p.There, p.Payment.State, p.Payment.Charges[0].Reference = paid().There, saga.Charging, ""
		}), StatusMismatch, RepairComplete, 1200},
		"waits, declined there":   {of(waiting(saga.StepPending), func(p *Pair) { p.There[0].Status = providers.Declined }), StatusMismatch, RepairResume, 1200},
		"held, captured there":    {of(holding(), func(p *Pair) { p.There = paid().There }), StatusMismatch, RepairComplete, 1200},
		"held, let go there":      {of(holding(), func(p *Pair) { p.There[0].Status = providers.Canceled }), AuthorizationExpired, RepairLetGo, 1200},
		"rolled back, paid there": {of(rolledBack(saga.StepUndone), func(p *Pair) { p.There = paid().There }), StatusMismatch, RepairUndo, 1200},
		"rolled back, more there": {of(rolledBack(saga.StepUndone), func(p *Pair) {
			p.There = paid().There
			p.There[0].Money.Amount = 99800
		}), AmountMismatch, RepairReview, 99800},
		"rolled back, less there": {of(rolledBack(saga.StepUndone), func(p *Pair) {
			p.There = paid().There
			p.There[0].Money.Amount = 1000
		}), AmountMismatch, RepairReview, 1000},
		"rolled back, another currency there": {of(rolledBack(saga.StepUndone), func(p *Pair) {
			p.There = paid().There
			p.There[0].Money.Currency = "USD"
		}), CurrencyMismatch, RepairReview, 1200},
		"rolled back, less held there": {of(rolledBack(saga.StepUndone), func(p *Pair) {
			p.There = holding().There
			p.There[0].Money.Amount = 1000
		}), AmountMismatch, RepairReview, 1000},
		"undone, and more was taken": {of(undone(), func(p *Pair) { p.There[0].Money.Amount = 99800 }), AmountMismatch, RepairReview, 98600},
		"undone, and more was taken, the refund is not told yet": {of(undone(), func(p *Pair) {
			p.There = p.There[:1]
			p.There[0].Money.Amount = 99800
			p.Payment.Refunds[0].StartedAt = noon.Add(2 * time.Hour)
		}), AmountMismatch, RepairReview, 98600},
		"waits, more there": {of(waiting(saga.StepPending), func(p *Pair) {
			p.There = paid().There
			p.There[0].Money.Amount = 99800
		}), AmountMismatch, RepairReview, 99800},
		"waits, another currency held there": {of(waiting(saga.StepPending), func(p *Pair) {
			p.There = holding().There
			p.There[0].Money.Currency = "USD"
		}), CurrencyMismatch, RepairReview, 1200},
		"held, a part captured there": {of(holding(), func(p *Pair) {
			p.There = paid().There
			p.There[0].Money.Amount = 500
		}), StatusMismatch, RepairComplete, 500},
		"held, more captured there": {of(holding(), func(p *Pair) {
			p.There = paid().There
			p.There[0].Money.Amount = 2400
		}), AmountMismatch, RepairReview, 2400},
		"held, captured in another currency there": {of(holding(), func(p *Pair) {
			p.There = paid().There
			p.There[0].Money.Currency = "USD"
		}), CurrencyMismatch, RepairReview, 1200},
		"rolled back, held there": {of(rolledBack(saga.StepUndone), func(p *Pair) { p.There = holding().There }), StatusMismatch, RepairUndo, 1200},
		"rolled back, settled":    {of(rolledBack(saga.StepUndone), func(p *Pair) { p.Settled = []Settlement{settledLine(statement.LineCharge, 1200, 30)} }), StatusMismatch, RepairReview, 1200},
		"rolled back, settled since": {of(rolledBack(saga.StepFailed), func(p *Pair) {
			p.There = paid().There
			p.There[0].ToldAt = noon // before it was rolled back
			p.Settled = []Settlement{settledLine(statement.LineCharge, 1200, 30)}
		}), StatusMismatch, RepairReview, 1200},
		"taken twice":                  {of(paid(), func(p *Pair) { p.There = append(p.There, payment("pi_2", chargeKey, providers.Succeeded, 1200)) }), DuplicateCharge, RepairRefundDuplicate, 1200},
		"held twice":                   {of(paid(), func(p *Pair) { p.There = append(p.There, payment("pi_2", chargeKey, providers.Authorized, 1200)) }), DuplicateCharge, RepairReview, 1200},
		"refunded there":               {of(paid(), func(p *Pair) { p.There = append(p.There, refundThere("re_9", "", 500)) }), RefundedAtProvider, RepairRecordRefund, 500},
		"refunded there under our key": {of(paid(), func(p *Pair) { p.There = append(p.There, refundThere("re_9", refundKey, 500)) }), RefundedAtProvider, RepairReview, 500},
		"refunded there, more":         {of(refunded(), func(p *Pair) { p.There = append(p.There, refundThere("re_9", "", 800)) }), RefundedAtProvider, RepairReview, 800},
		"refund lost there":            {of(refunded(), func(p *Pair) { p.There = p.There[:1] }), RefundMissing, RepairReview, 500},
		"refund of another amount":     {of(refunded(), func(p *Pair) { p.There[1].Money.Amount = 400 }), AmountMismatch, RepairReview, 500},
		"refund of another currency":   {of(refunded(), func(p *Pair) { p.There[1].Money.Currency = "USD" }), CurrencyMismatch, RepairReview, 500},
		"refund came back":             {of(refunded(), func(p *Pair) { p.There[1].Status = providers.Declined }), StatusMismatch, RepairReview, 500},
		"refund waits, given there": {of(refunded(), func(p *Pair) {
			p.Payment.Refunds[0].Status, p.Payment.Refunds[0].State = saga.StepPending, saga.Refunding
		}), StatusMismatch, RepairResume, 500},
		"refund failed, given there": {of(refunded(), func(p *Pair) {
			p.Payment.Refunds[0].Status, p.Payment.Refunds[0].State = saga.StepFailed, saga.RolledBack
		}), StatusMismatch, RepairReview, 500},
		"over, stock held":         {of(rolledBack(saga.StepFailed), func(p *Pair) { p.Payment.HeldStock = true }), OrphanReservation, RepairRelease, 0},
		"nobody drives it":         {of(waiting(saga.StepPending), func(p *Pair) { p.Payment.DueAt = noon }), SagaWithoutEnd, RepairResume, 1200},
		"nobody sends its charge":  {of(waiting(saga.StepPending), func(p *Pair) { p.Payment.State, p.Payment.DueAt, p.There = saga.Charging, noon, nil }), SagaWithoutEnd, RepairNone, 1200},
		"nobody drives its refund": {of(refunded(), func(p *Pair) { p.Payment.Refunds[0].DueAt = noon }), SagaWithoutEnd, RepairResume, 500},
		"an event waits":           {of(paid(), func(p *Pair) { p.Events = []Event{{Provider: "stripe", ID: "evt_1", ReceivedAt: noon}} }), WebhookNotApplied, RepairNone, 1200},
		"an event was given up":    {of(paid(), func(p *Pair) { p.Events = []Event{{Provider: "stripe", ID: "evt_1", Parked: true, ReceivedAt: noon}} }), WebhookNotApplied, RepairApplyWebhook, 1200},
		"an event is given up for good": {of(paid(), func(p *Pair) {
			p.Events = []Event{{Provider: "stripe", ID: "evt_1", Parked: true, Again: 3, ReceivedAt: noon}}
		}), WebhookNotApplied, RepairNone, 1200},
		"settled twice": {of(paid(), func(p *Pair) {
			p.Payment.UpdatedAt = noon.Add(2 * time.Hour)
			p.There[0].ToldAt = noon.Add(150 * time.Minute)
			p.Settled = []Settlement{settledLine(statement.LineCharge, 1200, 30), settledLine(statement.LineCharge, 1200, 30)}
			p.Settled[1].Payment, p.Settled[1].Reference, p.Settled[1].BookedAt = "pi_2", "ch_2", noon
		}), DuplicateCharge, RepairReview, 1200},
		"settled less": {of(paid(), func(p *Pair) { p.Settled = []Settlement{settledLine(statement.LineCharge, 1100, 30)} }), AmountMismatch, RepairReview, 100},
		"settled more": {of(paid(), func(p *Pair) { p.Settled = []Settlement{settledLine(statement.LineCharge, 1300, 30)} }), AmountMismatch, RepairReview, 100},
		"settled in another currency": {of(paid(), func(p *Pair) {
			p.Settled = []Settlement{settledLine(statement.LineCharge, 1200, 30)}
			p.Settled[0].Currency, p.Settled[0].Original = "EUR", providers.Money{Amount: 1200, Currency: "USD"}
		}), CurrencyMismatch, RepairReview, 1200},
		"a net that is none": {of(paid(), func(p *Pair) {
			p.Settled = []Settlement{settledLine(statement.LineCharge, 1200, 30)}
			p.Settled[0].Net = 1200
		}), NetMismatch, RepairNone, 30},
		"another fee": {of(paid(), func(p *Pair) {
			p.Settled = []Settlement{settledLine(statement.LineCharge, 1200, 30)}
			p.There[0].Fee, p.There[0].FeeCurrency = 20, "EUR"
		}), FeeMismatch, RepairNone, 10},
		"chargeback": {of(paid(), func(p *Pair) { p.Settled = []Settlement{settledLine(statement.LineChargeback, -1200, 15)} }), Chargeback, RepairNone, 1200},
		"refund in a file only": {of(paid(), func(p *Pair) {
			p.Settled = []Settlement{settledLine(statement.LineRefund, -500, 0)}
			p.Settled[0].Reference = "re_7"
		}), RefundedAtProvider, RepairRecordRefund, 500},
		"refund in a file only, not in the list": {of(paid(), func(p *Pair) {
			p.Settled = []Settlement{settledLine(statement.LineRefund, -500, 0)}
			p.Settled[0].Reference, p.Settled[0].BookedAt = "re_7", noon.Add(30*time.Minute)
		}), RefundedAtProvider, RepairReview, 500},
		"refund lost there, in a file": {of(refunded(), func(p *Pair) {
			p.There = p.There[:1]
			p.Settled = []Settlement{settledLine(statement.LineRefund, -500, 0)}
			p.Settled[0].Reference, p.Settled[0].BookedAt = "re_1", noon.Add(30*time.Minute)
		}), RefundMissing, RepairReview, 500},
		"in review for an answer": {of(waiting(saga.StepUnknown), func(p *Pair) {
			p.Payment.State, p.Payment.InReview, p.There = saga.NeedsReview, []string{saga.FindingTriesExhausted}, paid().There
		}), StatusMismatch, RepairComplete, 1200},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			f := onlyFinding(t, test.pair)
			if f.Kind != test.kind || f.Repair != test.repair || f.AtStake.Amount != test.stake || f.Severity == "" || f.Detail == "" {
				t.Errorf("found %s, %s, %s %q, repair %q", f.Kind, f.AtStake, f.Severity, f.Detail, f.Repair)
			}
		})
	}
}

// onlyFinding is the one that a pair gives, each time that it is matched.
func onlyFinding(t *testing.T, pair Pair) Finding {
	t.Helper()
	found, again := Match(pair, view()).Found, Match(pair, view()).Found
	if len(found) != 1 || len(again) != 1 || again[0].Detail != found[0].Detail {
		t.Fatalf("found %+v, and then %+v", found, again)
	}
	f := found[0]
	if f.AccountID != "shop1" || f.OrderID != orderID || f.SagaKey == uuid.Nil || f.Here.Source != sourceDatabase {
		t.Errorf("it is about %+v", f)
	}
	return f
}

// A saga in review is a person's: what else it is about is not found beside it.
func TestReviewIsAPersons(t *testing.T) {
	t.Parallel()
	pair := paid()
	pair.Payment.State, pair.Payment.InReview = saga.NeedsReview, []string{saga.FindingAmountMismatch}
	pair.There[0].Money.Amount = 1000
	pair.There = append(pair.There, refundThere("re_9", "", 500))
	pair.Events = []Event{{Provider: "stripe", ID: "evt_1", Parked: true, ReceivedAt: noon}}
	if found := Match(pair, view()).Found; len(found) > 0 {
		t.Errorf("found %+v", found)
	}
}

// Several of one kind are one finding, about all of it.
func TestOneFindingOfAKind(t *testing.T) {
	t.Parallel()
	pair := paid()
	pair.There = append(pair.There, refundThere("re_8", "", 300), refundThere("re_9", "", 500))
	found := Match(pair, view()).Found
	if len(found) != 1 || found[0].AtStake != euros(800) || len(found[0].Refunds) != 2 || found[0].Repair != RepairRecordRefund ||
		!slices.Equal(found[0].There.References, []string{"re_8", "re_9"}) {
		t.Errorf("found %+v", found)
	}
}

func TestUnclaimed(t *testing.T) {
	t.Parallel()
	of := func(told ...Told) Unclaimed { return Unclaimed{Provider: "stripe", Reference: "pi_1", There: told} }
	for name, test := range map[string]struct {
		unclaimed Unclaimed
		severity  Severity
		ignored   bool // where foreign payments are
	}{
		"under our key":         {of(payment("pi_1", chargeKey, providers.Succeeded, 1200)), Critical, false},
		"under our second key":  {of(payment("pi_1", chargeKey+"_2", providers.Authorized, 1200)), Critical, false},
		"of somebody else":      {of(payment("pi_1", "", providers.Succeeded, 1200)), High, true},
		"under a key like ours": {of(payment("pi_1", "order-7_charge", providers.Succeeded, 1200)), High, true},
		"declined":              {of(payment("pi_1", chargeKey, providers.Declined, 1200)), "", true},
		"given back":            {of(payment("pi_1", chargeKey, providers.Succeeded, 1200), refundThere("re_1", "", 1200)), "", true},
		"settled":               {Unclaimed{Provider: "stripe", Reference: "pi_1", Settled: []Settlement{settledLine(statement.LineCharge, 1200, 30)}}, High, true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			for _, ignore := range []bool{false, true} {
				finding, ok := MatchUnclaimed(test.unclaimed, Policy{IgnoreForeign: ignore})
				if want := test.severity != "" && (!ignore || !test.ignored); ok != want {
					t.Fatalf("ignoring foreign ones %t: found %t %+v", ignore, ok, finding)
				}
				if ok && (finding.Severity != test.severity || finding.AtStake != euros(1200) || finding.Kind != MissingLocally) {
					t.Errorf("found %+v", finding)
				}
			}
		})
	}
}
