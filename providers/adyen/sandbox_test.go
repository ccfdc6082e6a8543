package adyen_test

import (
	"encoding/json"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"

	"paysaga/providers"
	"paysaga/providers/sandbox"
)

// TestTestMethods: each test method ends as it says, in the answer and in the webhook.
func TestTestMethods(t *testing.T) {
	t.Parallel()
	for method, want := range map[string]struct {
		kind providers.OutcomeKind
		code string
		hard bool
	}{
		"stored_APPROVED":            {providers.Succeeded, "", false},
		"stored_DECLINED":            {providers.Declined, "refused", false},
		"stored_REFERRAL":            {providers.Declined, "referral", false},
		"stored_ERROR":               {providers.Declined, "acquirer_error", false},
		"stored_BLOCK_CARD":          {providers.Declined, "blocked_card", true},
		"stored_CARD_EXPIRED":        {providers.Declined, "expired_card", true},
		"stored_INVALID_AMOUNT":      {providers.Declined, "invalid_amount", false},
		"stored_INVALID_CARD_NUMBER": {providers.Declined, "invalid_card_number", true},
		"stored_ISSUER_UNAVAILABLE":  {providers.Declined, "issuer_unavailable", false},
		"stored_NOT_ENOUGH_BALANCE":  {providers.Declined, "not_enough_balance", false},
		"stored_ACQUIRER_FRAUD":      {providers.Declined, "acquirer_fraud", true},
		"stored_CANCELLED":           {providers.Canceled, "cancelled", false},
		"stored_SHOPPER_CANCELLED":   {providers.Canceled, "cancelled", false},
		"stored_PENDING":             {providers.Processing, "received", false},
		"stored_NONE":                {providers.Rejected, "800", false},
	} {
		t.Run(method, func(t *testing.T) {
			t.Parallel()
			b := newBench(t)
			got := b.charged(t, order(method), want.kind)
			if got.Code != want.code || got.Decline != nil && got.Decline.Hard != want.hard {
				t.Errorf("%+v", got)
			}
			if want.kind == providers.Processing || want.kind == providers.Rejected {
				return
			}
			notice := b.next(t, "AUTHORISATION")
			if want.kind == providers.Succeeded {
				want.kind = providers.Authorized
			}
			if notice.Key != chargeKey || notice.Payment != got.Reference || notice.Outcome.Kind != want.kind || notice.Outcome.Money != euros(3998) {
				t.Errorf("%+v, %+v", notice, notice.Outcome)
			}
		})
	}
}

func TestEncryptedCard(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	request := order("")
	request.MethodData = json.RawMessage(`{"type":"scheme","encryptedCardNumber":"test_4111111111111111","encryptedExpiryMonth":"test_03",` +
		`"encryptedExpiryYear":"test_2030","encryptedSecurityCode":"test_737","holderName":"NOT_ENOUGH_BALANCE"}`)
	if got := b.charged(t, request, providers.Declined); got.Code != "not_enough_balance" {
		t.Errorf("%+v", got)
	}
}

// TestLifeOfAnAuthorization: captured in two parts, refunded in one, each confirmed by webhook and once for all repeats.
func TestLifeOfAnAuthorization(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	held := b.charged(t, manual("stored_APPROVED"), providers.Authorized)
	b.captured(t, providers.CaptureRequest{Key: sagaKey + "_capture", Reference: held.Reference, Money: euros(2000)})
	b.captured(t, providers.CaptureRequest{Key: sagaKey + "_capture_2", Reference: held.Reference, Money: euros(1998)})
	refund := providers.RefundRequest{Key: sagaKey + "_refund", Reference: held.Reference, Money: euros(1000)}
	b.refunded(t, refund, providers.Succeeded, "")
	refund.Key, refund.Money = sagaKey+"_refund_2", euros(2999)
	b.refunded(t, refund, providers.Declined, "refund_refused")
	if entry := b.one(t); entry.Captured != 3998 || entry.Refunded != 1000 {
		t.Errorf("ledger: %+v", entry)
	}
}

func (b bench) captured(t *testing.T, request providers.CaptureRequest) {
	t.Helper()
	first, again := b.Capture(t.Context(), request), b.Capture(t.Context(), request)
	want := providers.Outcome{Kind: providers.Processing, Reference: first.Reference, Code: "received", Money: request.Money}
	if !cmp.Equal(want, first) || !cmp.Equal(want, again) || first.Reference == "" {
		t.Fatalf("%+v, %+v", first, again)
	}
	notice := b.next(t, "CAPTURE")
	want.Kind, want.Code = providers.Succeeded, ""
	if difference := cmp.Diff(&want, notice.Outcome); difference != "" {
		t.Error(difference)
	}
	if notice.Key != request.Key || notice.Payment != request.Reference || notice.Reference != first.Reference {
		t.Errorf("%+v", notice)
	}
}

func (b bench) refunded(t *testing.T, request providers.RefundRequest, kind providers.OutcomeKind, code string) {
	t.Helper()
	if got := b.Refund(t.Context(), request); got.Kind != providers.Processing {
		t.Fatalf("%+v", got)
	}
	if notice := b.next(t, "REFUND"); notice.Outcome.Kind != kind || notice.Outcome.Code != code || notice.Key != request.Key {
		t.Errorf("%+v, %+v", notice, notice.Outcome)
	}
}

func TestVoids(t *testing.T) {
	t.Parallel()
	tests := map[string]struct {
		request providers.ChargeRequest
		known   bool // whether the payment's reference is
		manual  bool
		event   string
		kind    providers.OutcomeKind
		code    string
	}{
		"cancellation":               {manual("stored_APPROVED"), true, true, "CANCELLATION", providers.Succeeded, ""},
		"cancellation too late":      {order("stored_APPROVED"), true, true, "CANCELLATION", providers.Rejected, providers.CodeAlreadyCaptured},
		"reversal of a hold":         {manual("stored_APPROVED"), true, false, "CANCEL_OR_REFUND", providers.Succeeded, ""},
		"reversal of a capture":      {order("stored_APPROVED"), true, false, "CANCEL_OR_REFUND", providers.Succeeded, providers.CodeRefunded},
		"reversal of nothing":        {order("stored_DECLINED"), true, false, "CANCEL_OR_REFUND", providers.Rejected, "void_refused"},
		"technical cancel":           {manual("stored_APPROVED"), false, false, "TECHNICAL_CANCEL", providers.Succeeded, ""},
		"technical cancel, too late": {order("stored_APPROVED"), false, false, "TECHNICAL_CANCEL", providers.Rejected, providers.CodeAlreadyCaptured},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := newBench(t)
			charge := b.Charge(t.Context(), test.request)
			request := providers.VoidRequest{Key: sagaKey + "_void", ChargeKey: chargeKey, ManualCapture: test.manual}
			if test.known {
				request.Reference = charge.Reference
			}
			if got := b.Void(t.Context(), request); got.Kind != providers.Processing || got.Reference == "" {
				t.Fatalf("%+v", got)
			}
			notice := b.next(t, test.event)
			if notice.About != "void" || notice.Payment != charge.Reference || notice.Outcome.Kind != test.kind || notice.Outcome.Code != test.code {
				t.Errorf("%+v, %+v", notice, notice.Outcome)
			}
			if entry := b.one(t); test.kind == providers.Succeeded && (entry.Authorized != 0 || entry.Captured != entry.Refunded) {
				t.Errorf("ledger: %+v", entry)
			}
		})
	}
}

// TestRedirect: the customer goes to the page, decides, comes back, and the details end the payment.
func TestRedirect(t *testing.T) {
	t.Parallel()
	for decision, want := range map[string]providers.OutcomeKind{"approve": providers.Authorized, "refuse": providers.Declined} {
		t.Run(decision, func(t *testing.T) {
			t.Parallel()
			b := newBench(t)
			request := manual("stored_REDIRECT")
			request.ReturnURL = "https://shop.example/back?order=1"
			asked := b.charged(t, request, providers.ActionRequired)
			if asked.NextAction.Type != "redirect" {
				t.Fatalf("%+v", asked.NextAction)
			}
			details, err := json.Marshal(map[string]string{"redirectResult": b.decide(t, asked.NextAction.URL, decision)})
			if err != nil {
				t.Fatal(err)
			}
			next := providers.ContinueRequest{
				Key: sagaKey + "_continue", ChargeKey: chargeKey, Reference: asked.Reference, Money: euros(3998), ManualCapture: true, Details: details,
			}
			if got := b.Continue(t.Context(), next); got.Kind != want {
				t.Errorf("%+v", got)
			}
			next.Key, next.ChargeKey = sagaKey+"_continue_2", "another_charge"
			if got := b.Continue(t.Context(), next); got.Kind != providers.Unknown || got.Code != "other_payment" {
				t.Errorf("for another charge: %+v", got)
			}
		})
	}
}

// TestKeyStoreDown: Adyen says by an error code of its own that it did nothing.
func TestKeyStoreDown(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	b.fault(t, sandbox.CallCharge, sandbox.FaultKeyStoreDown)
	b.charged(t, order("stored_APPROVED"), providers.Busy)
	b.charged(t, order("stored_APPROVED"), providers.Succeeded)
	if entry := b.one(t); entry.Captured != 3998 {
		t.Errorf("ledger: %+v", entry)
	}
}

// TestNothingIsRepeatedBelowTheAdapter: net/http would send a keyed call again when a kept-alive connection breaks, and the
// saga would take the answer to that second send for the answer to its only one.
func TestNothingIsRepeatedBelowTheAdapter(t *testing.T) {
	t.Parallel()
	for _, kind := range []sandbox.FaultKind{sandbox.FaultResetBefore, sandbox.FaultResetAfter} {
		t.Run(string(kind), func(t *testing.T) {
			t.Parallel()
			b := newBench(t)
			b.Void(t.Context(), providers.VoidRequest{Key: sagaKey + "_void", Reference: "NOTHING"}) // leaves a connection behind
			b.fault(t, sandbox.CallCharge, kind)
			b.charged(t, order("stored_APPROVED"), providers.Unknown)
			b.charged(t, order("stored_APPROVED"), providers.Succeeded)
			if entry := b.one(t); entry.Captured != 3998 || entry.Calls != 2 {
				t.Errorf("ledger: %+v", entry)
			}
		})
	}
}

// TestSavedServerError: the error is kept under the key and comes back for ever; the webhook tells the truth.
func TestSavedServerError(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	b.fault(t, sandbox.CallCharge, sandbox.FaultErrorSaved)
	for range 3 {
		if got := b.charged(t, order("stored_APPROVED"), providers.Unknown); got.Code != providers.CodeServerErrorFinal {
			t.Errorf("%+v", got)
		}
	}
	notice := b.next(t, "AUTHORISATION")
	if entry := b.one(t); notice.Key != chargeKey || notice.Payment != entry.ID || notice.Outcome.Kind != providers.Authorized {
		t.Errorf("%+v, ledger %+v", notice, entry)
	}
}

func TestTwentyAtOnceWithOneKey(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	var all sync.WaitGroup
	outcomes := make([]providers.Outcome, 20)
	for i := range outcomes {
		all.Go(func() { outcomes[i] = b.Charge(t.Context(), order("stored_APPROVED")) })
	}
	all.Wait()
	for _, outcome := range outcomes {
		if outcome.Kind != providers.Succeeded && outcome.Kind != providers.Busy {
			t.Errorf("%+v", outcome)
		}
	}
	if entry := b.one(t); entry.Captured != 3998 {
		t.Errorf("ledger: %+v", entry)
	}
}

// TestCurrencies: what the sandbox, with a table of its own, makes of Adyen's odd currencies.
func TestCurrencies(t *testing.T) {
	t.Parallel()
	for currency, amount := range map[string]int64{"CLP": 500, "IDR": 50_000, "ISK": 5, "CVE": 700, "JPY": 500, "BHD": 5124, "EUR": 1} {
		t.Run(currency, func(t *testing.T) {
			t.Parallel()
			b := newBench(t)
			request := order("stored_APPROVED")
			request.Money = providers.Money{Amount: amount, Currency: currency}
			if got := b.charged(t, request, providers.Succeeded); got.Money != request.Money {
				t.Errorf("%+v", got)
			}
			if entry := b.one(t); entry.Amount != amount || entry.Captured != amount {
				t.Errorf("ledger: %+v", entry)
			}
			if notice := b.next(t, "AUTHORISATION"); notice.Outcome.Money != request.Money {
				t.Errorf("%+v", notice.Outcome)
			}
		})
	}
}
