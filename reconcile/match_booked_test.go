package reconcile

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"paysaga/providers"
	"paysaga/reconcile/statement"
	"paysaga/saga"
)

const (
	captureKey = providers.SubKey("0c4f5dd2-5d7a-5c53-9a48-6c2b6c9a1b7e_capture")
	voidKey    = providers.SubKey("fba0861f-d07a-58ae-88a7-cf229bfe7a8d_void")
)

// announced is a pair at a provider that cannot be asked.
func announced(pair Pair, change func(*Pair)) Pair {
	for i := range pair.Payment.Charges {
		pair.Payment.Charges[i].Provider = "adyen"
	}
	for i := range pair.Payment.Refunds {
		pair.Payment.Refunds[i].Provider = "adyen"
	}
	for i := range pair.There {
		pair.There[i].Provider, pair.There[i].ToldAt = "adyen", noon // and never again
	}
	pair.Payment.UpdatedAt = noon.Add(2 * time.Hour) // since all that is booked
	change(&pair)
	return pair
}

// bookedLine is a line of a file of that provider's, booked before the order was touched last.
func bookedLine(kind statement.LineKind, reference string, key providers.SubKey, gross int64) Settlement {
	line := settledLine(kind, gross, 0)
	line.Provider, line.Reference, line.Key = "adyen", reference, key
	return line
}

func capturing(p *Pair) {
	p.Payment.Captures = []Capture{{Provider: "adyen", Key: captureKey, Reference: "cap_1", Amount: 1200, Status: saga.StepPending}}
	p.Payment.Charges[0].Captures = []providers.SubKey{captureKey}
}

// voiding is an order that is given up, whose void has no end yet.
func voiding(void Void) Pair {
	return announced(waiting(saga.StepPending), func(p *Pair) {
		void.Provider, void.Key = "adyen", voidKey
		p.Payment.State, p.Payment.Void, p.There = saga.Compensating, &void, nil
	})
}

// bookedTest is a step that waits, and what a file tells of it.
type bookedTest struct {
	pair    Pair
	settled []Settlement
	kind    Kind
	repair  Repair
	about   providers.About
	outcome providers.Outcome
}

func bookedTests() map[string]bookedTest {
	of := func(pair Pair, change func(*Pair)) Pair { change(&pair); return pair }
	succeeded := func(reference string, amount int64) providers.Outcome {
		return providers.Outcome{Kind: providers.Succeeded, Reference: reference, Money: euros(amount)}
	}
	charge := func(reference string, key providers.SubKey, gross int64) Settlement {
		return bookedLine(statement.LineCharge, reference, key, gross)
	}
	held := announced(holding(), func(*Pair) {})
	own := of(announced(holding(), func(*Pair) {}), capturing)
	unknown := announced(waiting(saga.StepUnknown), func(p *Pair) {
		p.There, p.Payment.State, p.Payment.Charges[0].Reference = nil, saga.Charging, ""
	})
	refunding := announced(refunded(), func(p *Pair) {
		p.There, p.Payment.Refunds[0].Status, p.Payment.Refunds[0].State = p.There[:1], saga.StepPending, saga.Refunding
	})
	given := announced(refunded(), func(*Pair) {})
	refund := func(gross int64) Settlement { return bookedLine(statement.LineRefund, "re_1", refundKey, gross) }
	back := func(reference string, key providers.SubKey, gross int64) Settlement {
		return bookedLine(statement.LineRefund, reference, key, gross)
	}
	cameBack := providers.Outcome{Kind: providers.Canceled, Reference: "re_1", Code: codeBookedBack, Money: euros(500)}
	gaveBack := providers.Outcome{Kind: providers.Succeeded, Reference: "rev_1", Code: providers.CodeRefunded, Money: euros(1200)}
	tooLate := providers.Outcome{Kind: providers.Rejected, Code: providers.CodeAlreadyCaptured}
	return map[string]bookedTest{
		"charge": {unknown, []Settlement{charge("cap_0", chargeKey, 1200)}, StatusMismatch, RepairComplete, providers.AboutCharge, succeeded("", 1200)},
		"charge over less": {
			pair: unknown, settled: []Settlement{charge("cap_0", chargeKey, 1000)}, kind: AmountMismatch, repair: RepairReview,
		},
		"capture":                       {own, []Settlement{charge("cap_1", "", 1200)}, StatusMismatch, RepairComplete, providers.AboutCapture, succeeded("cap_1", 1200)},
		"capture, known by its key":     {own, []Settlement{charge("cap_9", captureKey, 1200)}, StatusMismatch, RepairComplete, providers.AboutCapture, succeeded("cap_9", 1200)},
		"capture over less":             {pair: own, settled: []Settlement{charge("cap_1", "", 700)}, kind: AmountMismatch, repair: RepairReview},
		"another while a capture waits": {pair: own, settled: []Settlement{charge("cap_9", chargeKey, 1200)}, kind: StatusMismatch, repair: RepairReview},
		"capture that was taken back": {
			own,
			[]Settlement{charge("cap_1", "", 1200), charge("cap_1", "", -1200)},
			StatusMismatch, RepairResume, providers.AboutCapture,
			providers.Outcome{
				Kind: providers.Declined, Reference: "cap_1", Code: providers.CodeCaptureFailed, Decline: &providers.Decline{Code: providers.CodeCaptureFailed},
			},
		},
		"capture by somebody":           {held, []Settlement{charge("cap_9", chargeKey, 1200)}, StatusMismatch, RepairComplete, providers.AboutCapture, succeeded("cap_9", 1200)},
		"capture of a part by somebody": {held, []Settlement{charge("cap_9", chargeKey, 700)}, StatusMismatch, RepairComplete, providers.AboutCapture, succeeded("cap_9", 700)},
		"capture of more by somebody":   {pair: held, settled: []Settlement{charge("cap_9", chargeKey, 1300)}, kind: AmountMismatch, repair: RepairReview},
		"capture that counts as refused": {
			pair:    of(announced(holding(), capturing), func(p *Pair) { p.Payment.Captures[0].Status = saga.StepFailed }),
			settled: []Settlement{charge("cap_1", captureKey, 1200)}, kind: StatusMismatch, repair: RepairReview,
		},
		"refund":                 {refunding, []Settlement{refund(-500)}, StatusMismatch, RepairResume, providers.AboutRefund, succeeded("re_1", 500)},
		"refund over more":       {pair: refunding, settled: []Settlement{refund(-600)}, kind: AmountMismatch, repair: RepairReview},
		"refund that came back":  {refunding, []Settlement{refund(-500), refund(500)}, StatusMismatch, RepairResume, providers.AboutRefund, cameBack},
		"refund, given and back": {given, []Settlement{refund(-500), refund(500)}, StatusMismatch, RepairResume, providers.AboutRefund, cameBack},
		"void that gave back": {
			voiding(Void{Reference: "rev_1", GivesBack: true}),
			[]Settlement{charge("cap_0", chargeKey, 1200), back("rev_1", "", -1200)},
			StatusMismatch, RepairResume, providers.AboutVoid, gaveBack,
		},
		"void that gave back, known by its key": {
			voiding(Void{GivesBack: true}), []Settlement{back("rev_1", voidKey, -1200)}, StatusMismatch, RepairResume, providers.AboutVoid, gaveBack,
		},
		"void, all given back by somebody": {
			voiding(Void{}),
			[]Settlement{charge("cap_0", chargeKey, 1200), back("rev_1", chargeKey, -1200)},
			StatusMismatch, RepairResume,
			providers.AboutVoid, gaveBack,
		},
		"void that gave a part back": {
			pair: voiding(Void{GivesBack: true}), settled: []Settlement{back("rev_1", voidKey, -700)}, kind: AmountMismatch, repair: RepairReview,
		},
		"void, a part given back by somebody": {
			pair: voiding(Void{}), settled: []Settlement{charge("cap_0", chargeKey, 1200), back("re_9", "", -700)}, kind: RefundedAtProvider, repair: RepairReview,
		},
		"cancel that came too late": {voiding(Void{}), []Settlement{charge("cap_0", chargeKey, 1200)}, StatusMismatch, RepairUndo, providers.AboutVoid, tooLate},
		"reversal that was refused": {voiding(Void{GivesBack: true, Refused: true}), []Settlement{charge("cap_0", chargeKey, 1200)}, StatusMismatch, RepairUndo, providers.AboutVoid, tooLate},
		"cancel of other money":     {pair: voiding(Void{}), settled: []Settlement{charge("cap_0", chargeKey, 900)}, kind: AmountMismatch, repair: RepairReview},
	}
}

// What a provider announces once, its settlement file tells too, however long ago it was booked; and it is brought to the saga as it would
// have been announced.
func TestBookedEnds(t *testing.T) {
	t.Parallel()
	view := view()
	view.Announcing = []string{"adyen"}
	for name, test := range bookedTests() {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			test.pair.Settled = test.settled
			found := Match(test.pair, view).Found
			if len(found) != 1 {
				t.Fatalf("found %+v", found)
			}
			f := found[0]
			if f.Kind != test.kind || f.Repair != test.repair || f.AtStake.Amount == 0 || f.Provider != "adyen" || f.Detail == "" {
				t.Errorf("found %s of %s at %q, %q, repair %q", f.Kind, f.AtStake, f.Provider, f.Detail, f.Repair)
			}
			if test.about == "" {
				return
			}
			wantNotice(t, f.Notice, test.about, test.outcome)
			view := view
			view.Now = f.Notice.At.Add(time.Minute) // its notice can be on its way
			if found := Match(test.pair, view).Found; len(found) > 0 {
				t.Errorf("as soon as it is booked: %+v", found)
			}
		})
	}
}

func wantNotice(t *testing.T, notice *providers.Notice, about providers.About, outcome providers.Outcome) {
	t.Helper()
	if notice == nil || notice.About != about {
		t.Fatalf("the notice is %+v", notice)
	}
	if diff := cmp.Diff(outcome, *notice.Outcome); diff != "" {
		t.Errorf("the outcome (-want +got):\n%s", diff)
	}
}

// What a file says nothing about by itself is left to wait, and what can be asked is asked.
func TestBookedWithoutAnEnd(t *testing.T) {
	t.Parallel()
	settled := bookedLine(statement.LineCharge, "cap_0", chargeKey, 1200)
	for name, test := range map[string]struct {
		pair       Pair
		settled    []Settlement
		announcing []string
	}{
		"a reversal whose refund is in a later file": {voiding(Void{GivesBack: true}), []Settlement{settled}, []string{"adyen"}},
		"a void of a hold":                           {voiding(Void{}), nil, []string{"adyen"}},
		"a capture of another payment": {
			announced(holding(), capturing), []Settlement{bookedLine(statement.LineChargeback, "cb_1", "", 1200)}, []string{"adyen"},
		},
		"at a provider that is asked": {voiding(Void{}), []Settlement{settled}, nil},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			view := view()
			test.pair.Settled, view.Announcing = test.settled, test.announcing
			if found := Match(test.pair, view).Found; len(found) > 0 {
				t.Errorf("found %+v", found)
			}
		})
	}
}
