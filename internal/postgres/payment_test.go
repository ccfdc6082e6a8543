package postgres_test

import (
	"encoding/json"
	"fmt"
	"testing"

	"github.com/google/go-cmp/cmp"

	"paysaga/providers"
	"paysaga/saga"
)

const (
	cardData   = `{"type":"scheme","encryptedCardNumber":"adyenjs_in_plain_text"}`
	returnData = `{"details":{"redirectResult":"way_back_in_plain_text"}}`
)

func withData() saga.Payment {
	return saga.Payment{
		Provider: "fake", MethodData: json.RawMessage(cardData), ReturnURL: "https://shop.example/back",
		Capture: saga.CaptureManual, OnDecline: saga.DeclineAwaits,
	}
}

// wantNowhere checks that a text is in no column of any table, neither as text nor as bytes.
func (b *bundle) wantNowhere(text string) {
	b.t.Helper()
	for _, table := range append([]string{"audit_log", "stock"}, orderTables...) {
		n := b.count(`SELECT count(*) FROM `+table+` t
			WHERE t::text LIKE '%' || $1 || '%' OR t::text LIKE '%' || encode($1::bytea, 'hex') || '%'`, text)
		if n != 0 {
			b.t.Errorf("%s holds %q", table, text)
		}
	}
}

// What the provider's client library made is sealed, and is kept only until the charge is decided.
func TestPaymentDataIsKeptUntilTheChargeIsDecided(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		outcomes []providers.Outcome
		kept     bool
	}{
		"before the call":      {nil, true},
		"unknown":              {[]providers.Outcome{unknown}, true},
		"busy":                 {[]providers.Outcome{{Kind: providers.Busy}}, true},
		"the customer must":    {[]providers.Outcome{action}, true},
		"processing":           {[]providers.Outcome{{Kind: providers.Processing, Reference: "pay_1"}}, true},
		"held":                 {[]providers.Outcome{authorized}, false},
		"declined":             {[]providers.Outcome{declined}, false},
		"refused":              {[]providers.Outcome{{Kind: providers.Rejected}}, false},
		"first one, then held": {[]providers.Outcome{unknown, authorized}, false},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := newBundle(t)
			s := b.beginPaid("data", withData())
			for _, outcome := range test.outcomes {
				s = b.apply(b.outcome(s, saga.CallCharge, outcome))
			}
			read := b.load(s)
			if diff := cmp.Diff(s, read, asStored); diff != "" {
				t.Errorf("(-returned +read):\n%s", diff)
			}
			want := ""
			if test.kept {
				want = cardData
			}
			if got := string(read.Order.Payment.MethodData); got != want {
				t.Errorf("the data are %q, want %q", got, want)
			}
			if rows := b.count(`SELECT count(*) FROM orders WHERE payment_data IS NOT NULL`); (rows == 1) != test.kept {
				t.Errorf("%d rows hold data", rows)
			}
			b.wantNowhere("adyenjs_in_plain_text")
		})
	}
}

// An order that is over as it begins needs no payment any more.
func TestPaymentDataOfAnOrderWithoutStock(t *testing.T) {
	t.Parallel()
	b := newBundle(t)
	claim := claimOf("short")
	beginning := b.beginningPaid(claim, cups(11), withData()).After
	beginning.State, beginning.Steps = saga.Started, nil
	s, err := b.store.Begin(b.ctx, claim, finish(b.advance(beginning, saga.Event{Kind: saga.OutOfStock}), beginning), lease)
	if err != nil {
		t.Fatal(err)
	}
	if read := b.load(s); read.Order.Payment.MethodData != nil || s.Order.Payment.MethodData != nil || read.State != saga.RolledBack {
		t.Errorf("kept %s in state %s", read.Order.Payment.MethodData, read.State)
	}
}

// Another attempt after a decline is paid in another way; nothing else changes how an order is paid.
func TestAnotherPaymentAfterADecline(t *testing.T) {
	t.Parallel()
	for name, next := range map[string]saga.NewPayment{
		"a token": {Provider: "other", Method: "pm_2"},
		"data":    {Provider: "fake", MethodData: json.RawMessage(cardData), ReturnURL: "https://shop.example/again"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := newBundle(t)
			s := b.ask(declinedOrder(b), "continue", saga.Request{Kind: saga.RequestContinue, Payment: &next})
			read := b.load(s)
			if diff := cmp.Diff(s, read, exactly); diff != "" {
				t.Errorf("ask (-returned +read):\n%s", diff)
			}
			want := saga.Payment{
				Provider: next.Provider, Method: next.Method, MethodData: next.MethodData, ReturnURL: next.ReturnURL,
				Capture: saga.CaptureAutomatic, OnDecline: saga.DeclineAwaits, Status: saga.PaymentNone,
			}
			if diff := cmp.Diff(want, read.Order.Payment); diff != "" || read.State != saga.Charging {
				t.Errorf("in state %s (-want +got):\n%s", read.State, diff)
			}
			paid := b.load(b.apply(b.outcome(s, saga.CallCharge, providers.Outcome{Kind: providers.Succeeded, Reference: "pay_2"})))
			want.MethodData, want.Status, want.ProviderReference, want.CapturedAmount = nil, saga.PaymentCaptured, "pay_2", 1200
			if diff := cmp.Diff(want, paid.Order.Payment); diff != "" || paid.State != saga.Completed {
				t.Errorf("in state %s (-want +got):\n%s", paid.State, diff)
			}
		})
	}
}

func TestHowAnOrderIsPaidStaysAsItIs(t *testing.T) {
	t.Parallel()
	b := newBundle(t)
	s := b.beginPaid("stays", withData())
	change := b.outcome(s, saga.CallCharge, action)
	payment := &change.After.Order.Payment
	payment.Provider, payment.Method, payment.ReturnURL = "another", "pm_9", "https://elsewhere.example"
	payment.Capture, payment.OnDecline, payment.RefundingAmount = saga.CaptureAutomatic, saga.DeclineRollsBack, 5
	b.apply(change)
	got, want := b.load(s).Order.Payment, withData()
	if got.Provider != want.Provider || got.Method != want.Method || got.ReturnURL != want.ReturnURL || got.Capture != want.Capture ||
		got.OnDecline != want.OnDecline || string(got.MethodData) != cardData || got.RefundingAmount != 0 {
		t.Errorf("paid by %+v", got)
	}
}

// A shop that says nothing has its money taken at once, and its order undone by a decline.
func TestUsualWayToPay(t *testing.T) {
	t.Parallel()
	b := newBundle(t)
	if got := b.load(b.begin("usual")).Order.Payment; got.Capture != saga.CaptureAutomatic || got.OnDecline != saga.DeclineRollsBack {
		t.Errorf("capture %q, on decline %q", got.Capture, got.OnDecline)
	}
}

// The customer's way back is sealed as well.
func TestStepsKeepTheirIntent(t *testing.T) {
	t.Parallel()
	b := newBundle(t)
	s := b.apply(b.outcome(b.begin("intent"), saga.CallCharge, action))
	asked := b.ask(s, "continue", saga.Request{Kind: saga.RequestContinue, Details: json.RawMessage(returnData)})
	read := b.load(asked)
	if diff := cmp.Diff(asked, read, exactly); diff != "" {
		t.Errorf("ask (-returned +read):\n%s", diff)
	}
	if last := read.Steps[len(read.Steps)-1]; last.Name != saga.StepContinue || last.Details != returnData {
		t.Errorf("the last step is %+v", last)
	}
	b.wantNowhere("way_back_in_plain_text")
}

// However a later change has them, sub-key, provider, target and amount stay as they were when the step was opened.
func TestIntentIsWrittenOnce(t *testing.T) {
	t.Parallel()
	b := newBundle(t)
	s := b.apply(b.outcome(b.begin("intent"), saga.CallCharge, action))
	asked := b.ask(s, "continue", saga.Request{Kind: saga.RequestContinue, Details: json.RawMessage(returnData)})
	change := b.outcome(asked, saga.CallContinue, unknown)
	for i := range change.Steps {
		step := &change.Steps[i]
		step.SubKey, step.Provider, step.Target, step.Amount, step.Final = "another", "another", "pay_9", 9, true
	}
	b.apply(change)
	b.wantNowhere("way_back_in_plain_text")
	for _, step := range b.load(asked).Steps {
		if step.SubKey == "another" || step.Provider == "another" || step.Target != "" || step.Amount != 0 || step.Final {
			t.Errorf("the intent of %s changed: %+v", step.Name, step)
		}
		if step.Name == saga.StepContinue && (step.Details != returnData || step.Status != saga.StepUnknown) {
			t.Errorf("the continue is %+v", step)
		}
	}
}

func TestVoidsAndCapturesKeepTheirIntent(t *testing.T) {
	t.Parallel()
	b := newBundle(t)
	captured := b.ask(b.held("captured"), "capture", saga.Request{Kind: saga.RequestCapture, Amount: 500, Final: true})
	canceled := b.ask(b.held("canceled"), "cancel", saga.Request{Kind: saga.RequestCancel})
	for _, test := range []struct {
		asked saga.Saga
		want  saga.Step
	}{
		{captured, saga.Step{Name: saga.StepCapture, Amount: 500, Final: true}},
		{canceled, saga.Step{Name: saga.StepVoid, Target: "pay_1"}},
	} {
		steps := b.load(test.asked).Steps
		got := steps[len(steps)-1]
		if got.Name != test.want.Name || got.Amount != test.want.Amount || got.Final != test.want.Final || got.Target != test.want.Target {
			t.Errorf("the last step is %+v, want %+v", got, test.want)
		}
	}
}

// Steps that one transaction wrote have one time, and are still told in their order.
func TestStepsThatBeganTogether(t *testing.T) {
	t.Parallel()
	b := newBundle(t)
	s := b.seize(b.held("taken"))
	taken := b.apply(b.outcome(s, saga.CallLookup, succeeded)) // by a person at the provider
	steps := b.load(taken).Steps
	names := make([]saga.StepName, 0, len(steps))
	for _, step := range steps {
		names = append(names, step.Name)
	}
	want := []saga.StepName{saga.StepReserve, saga.StepCharge, saga.StepCapture, saga.StepConfirm}
	if diff := cmp.Diff(want, names); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

// What is sealed opens in its own row only.
//
//nolint:tparallel,paralleltest // the moves are made one after the other in the same rows
func TestSealedPaymentsDoNotMove(t *testing.T) {
	t.Parallel()
	b := newBundle(t)
	sagas := make([]saga.Saga, 0, 2)
	for i := range 2 {
		s := b.apply(b.outcome(b.beginPaid(fmt.Sprint("sealed-", i), withData()), saga.CallCharge, action))
		sagas = append(sagas, b.ask(s, fmt.Sprint("continue-", i), saga.Request{Kind: saga.RequestContinue, Details: json.RawMessage(returnData)}))
	}
	for column, move := range map[string]string{
		"payment data": `UPDATE orders SET payment_data = (SELECT payment_data FROM orders WHERE id = $1) WHERE id = $2`,
		"details": `UPDATE saga_steps SET details = (SELECT details FROM saga_steps WHERE saga_key = $1 AND name = 'continue')
			WHERE saga_key = $2 AND name = 'continue'`,
		"details to another step": `UPDATE saga_steps SET details = (SELECT details FROM saga_steps WHERE saga_key = $2 AND name = 'continue')
			WHERE saga_key = $2 AND name = 'charge' AND $1::uuid IS NOT NULL`,
	} {
		t.Run(column, func(t *testing.T) {
			before := b.dump()
			b.exec(move, sagas[0].Key, sagas[1].Key)
			if cmp.Equal(before, b.dump()) {
				t.Fatal("nothing was moved")
			}
			if _, err := b.store.Load(b.ctx, ref(sagas[1])); err == nil {
				t.Error("it opened in another row")
			}
			b.exec(`UPDATE orders SET payment_data = NULL WHERE id = $1`, sagas[1].Key)
			b.exec(`UPDATE saga_steps SET details = NULL WHERE saga_key = $1 AND name <> 'continue'`, sagas[1].Key)
		})
	}
	if _, err := b.store.Load(b.ctx, ref(sagas[0])); err != nil {
		t.Errorf("its own row: %v", err)
	}
}
