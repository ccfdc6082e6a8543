package stripe_test

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"paysaga/providers"
	"paysaga/providers/sandbox"
)

// held is a payment whose money is held.
func (b bench) held(t *testing.T, method string, want providers.OutcomeKind) providers.Outcome {
	t.Helper()
	request := order(method)
	request.ManualCapture = true
	outcome := b.Charge(t.Context(), request)
	if outcome.Kind != want {
		t.Fatalf("%+v, want %s", outcome, want)
	}
	return outcome
}

func captureOf(payment string, amount int64) providers.CaptureRequest {
	return providers.CaptureRequest{
		Key: sagaKey + "_capture", SagaKey: sagaKey, Reference: payment,
		Money: providers.Money{Amount: amount, Currency: "EUR"}, Final: true,
	}
}

func TestCaptureTakesTheMoneyOnce(t *testing.T) {
	t.Parallel()
	for name, part := range map[string]struct {
		amount int64
		final  bool
	}{"all": {3998, true}, "all, not said to be final": {3998, false}, "a part": {1000, true}} {
		for _, fault := range []sandbox.FaultKind{sandbox.FaultErrorBefore, sandbox.FaultResetAfter, sandbox.FaultErrorSaved} {
			t.Run(name+", "+string(fault), func(t *testing.T) {
				t.Parallel()
				b := newBench(t, patient)
				b.fault(t, sandbox.CallCapture, fault)
				request := captureOf(b.held(t, "pm_card_visa", providers.Authorized).Reference, part.amount)
				request.Final = part.final
				b.capturedOnce(t, request)
			})
		}
	}
}

// capturedOnce captures three times, of which the first answer is lost.
func (b bench) capturedOnce(t *testing.T, request providers.CaptureRequest) {
	t.Helper()
	if lost := b.Capture(t.Context(), request); lost.Kind != providers.Unknown {
		t.Errorf("lost: %+v", lost)
	}
	want := providers.Outcome{Kind: providers.Succeeded, Reference: request.Reference, Money: request.Money}
	for range 2 {
		if difference := cmp.Diff(want, b.Capture(t.Context(), request)); difference != "" {
			t.Error(difference)
		}
	}
	if difference := cmp.Diff(want, b.Lookup(t.Context(), lookup(request.Reference))); difference != "" {
		t.Errorf("looked up: %s", difference)
	}
	if entry := b.one(t); entry.Captured != request.Money.Amount || entry.Authorized != 0 {
		t.Errorf("ledger: %+v", entry)
	}
}

// TestCaptureOfOtherStates: what is not held, or not any more, is not taken.
func TestCaptureOfOtherStates(t *testing.T) {
	t.Parallel()
	tests := map[string]struct {
		method  string
		before  func(t *testing.T, b bench, payment string)
		request func(*providers.CaptureRequest)
		kind    providers.OutcomeKind
		code    string
	}{
		"more than is held": {
			"pm_card_visa", nil, func(r *providers.CaptureRequest) { r.Money.Amount = 3999 }, providers.Rejected, "amount_too_large",
		},
		"a part, and more to follow": {
			"pm_card_visa", nil, func(r *providers.CaptureRequest) { r.Final, r.Money.Amount = false, 1000 }, providers.Rejected, "one_capture_only",
		},
		"of another saga": {"pm_card_visa", nil, func(r *providers.CaptureRequest) { r.SagaKey = "other" }, providers.Unknown, "other_payment"},
		"of nothing":      {"pm_card_visa", nil, func(r *providers.CaptureRequest) { r.Reference = "pi_nothing" }, providers.Rejected, "resource_missing"},
		"taken otherwise": {"pm_card_visa", func(t *testing.T, b bench, payment string) {
			t.Helper()
			b.Capture(t.Context(), captureOf(payment, 1))
		}, nil, providers.Unknown, "capture_other_amount"},
		"taken and given back": {"pm_card_visa", func(t *testing.T, b bench, payment string) {
			t.Helper()
			b.Capture(t.Context(), captureOf(payment, 3998))
			b.Refund(t.Context(), refundOf(payment, "", 3998))
		}, nil, providers.Succeeded, ""},
		"voided": {"pm_card_visa", func(t *testing.T, b bench, payment string) {
			t.Helper()
			b.Void(t.Context(), providers.VoidRequest{Key: voidKey, ChargeKey: chargeKey, Reference: payment, ManualCapture: true})
		}, nil, providers.Canceled, ""},
		"expired": {"pm_card_visa", func(t *testing.T, b bench, _ string) {
			t.Helper()
			b.sandbox.AdvanceClock(8 * 24 * time.Hour)
		}, nil, providers.Canceled, providers.CodeAuthorizationExpired},
		"not approved": {"pm_card_authenticationRequired", nil, nil, providers.Rejected, "nothing_held"},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := newBench(t, patient)
			want := providers.Authorized
			if test.method != "pm_card_visa" {
				want = providers.ActionRequired
			}
			request := captureOf(b.held(t, test.method, want).Reference, 3998)
			if test.before != nil {
				test.before(t, b, request.Reference)
			}
			before := b.one(t)
			if test.request != nil {
				test.request(&request)
			}
			if got := b.Capture(t.Context(), request); got.Kind != test.kind || got.Code != test.code {
				t.Errorf("%+v", got)
			}
			if after := b.one(t); after.Captured != before.Captured {
				t.Errorf("ledger: %+v, before: %+v", after, before)
			}
		})
	}
}

// TestExpiredHold: Stripe lets a hold go by itself; a look-up tells why.
func TestExpiredHold(t *testing.T) {
	t.Parallel()
	b := newBench(t, patient)
	held := b.held(t, "pm_card_visa", providers.Authorized)
	b.sandbox.AdvanceClock(8 * 24 * time.Hour)
	if got := b.Lookup(t.Context(), lookup(held.Reference)); got.Kind != providers.Canceled || got.Code != providers.CodeAuthorizationExpired {
		t.Errorf("%+v", got)
	}
}

// TestRefundAfterPartialCapture: what the capture let go is no refund; what we gave back is one.
func TestRefundAfterPartialCapture(t *testing.T) {
	t.Parallel()
	b := newBench(t, patient)
	held := b.held(t, "pm_card_visa", providers.Authorized)
	b.Capture(t.Context(), captureOf(held.Reference, 1000))
	for _, step := range []struct {
		attempt string
		amount  int64
		kind    providers.OutcomeKind
		code    string
	}{{"", 400, providers.Succeeded, providers.CodePartiallyRefunded}, {"_2", 600, providers.Canceled, providers.CodeRefunded}} {
		if got := b.Refund(t.Context(), refundOf(held.Reference, step.attempt, step.amount)); got.Kind != providers.Succeeded {
			t.Fatalf("%+v", got)
		}
		if got := b.Lookup(t.Context(), lookup(held.Reference)); got.Kind != step.kind || got.Code != step.code {
			t.Errorf("%+v", got)
		}
	}
}

func TestContinue(t *testing.T) {
	t.Parallel()
	for action, want := range map[string]providers.OutcomeKind{
		"approve": providers.Authorized, "refuse": providers.Declined, "": providers.ActionRequired,
	} {
		t.Run("after "+action, func(t *testing.T) {
			t.Parallel()
			b := newBench(t, patient)
			asked := b.held(t, "pm_card_authenticationRequired", providers.ActionRequired)
			if action != "" {
				b.control(t, "/_sandbox/payments/"+asked.Reference+"/"+action)
			}
			request := providers.ContinueRequest{
				Key: sagaKey + "_continue", ChargeKey: chargeKey, Reference: asked.Reference, Money: asked.Money, ManualCapture: true,
			}
			if got := b.Continue(t.Context(), request); got.Kind != want || got.Reference != asked.Reference {
				t.Errorf("%+v", got)
			}
			request.ChargeKey = "another_charge"
			if got := b.Continue(t.Context(), request); got.Kind != providers.Unknown || got.Code != "other_payment" {
				t.Errorf("for another charge: %+v", got)
			}
			request.Reference = ""
			if got := b.Continue(t.Context(), request); got.Kind != providers.Rejected {
				t.Errorf("of nothing: %+v", got)
			}
		})
	}
}
