package stripe_test

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"paysaga/providers"
	"paysaga/providers/sandbox"
)

func TestVoid(t *testing.T) {
	t.Parallel()
	b := newBench(t, patient)
	waiting := b.charged(t, "pm_card_authenticationRequired", providers.ActionRequired)
	request := providers.VoidRequest{Key: voidKey, Reference: waiting.Reference}
	b.fault(t, sandbox.CallVoid, sandbox.FaultErrorAfter)
	if lost := b.Void(t.Context(), request); lost.Kind != providers.Unknown {
		t.Errorf("lost: %+v", lost)
	}
	if again := b.Void(t.Context(), request); again.Kind != providers.Succeeded || again.Reference != waiting.Reference {
		t.Errorf("again: %+v", again)
	}
	if looked := b.Lookup(t.Context(), lookup(waiting.Reference)); looked.Kind != providers.Canceled {
		t.Errorf("looked up: %+v", looked)
	}
	if entry := b.one(t); entry.Status != "canceled" || entry.Captured != 0 {
		t.Errorf("ledger: %+v", entry)
	}
}

func TestVoidOfTakenMoney(t *testing.T) {
	t.Parallel()
	b := newBench(t, patient)
	taken := b.charged(t, "pm_card_visa", providers.Succeeded)
	voided := b.Void(t.Context(), providers.VoidRequest{Key: voidKey, Reference: taken.Reference})
	if voided.Kind != providers.Rejected || voided.Code != providers.CodeAlreadyCaptured {
		t.Errorf("%+v", voided)
	}
	if missing := b.Void(t.Context(), providers.VoidRequest{Key: voidKey, Reference: "pi_nothing"}); missing.Kind != providers.Rejected {
		t.Errorf("%+v", missing)
	}
}

func refundOf(payment string, attempt string, amount int64) providers.RefundRequest {
	return providers.RefundRequest{
		Key: refundKey + providers.SubKey(attempt), SagaKey: sagaKey, Reference: payment,
		Money: providers.Money{Amount: amount, Currency: "EUR"},
	}
}

func TestRefundIsGivenOnce(t *testing.T) {
	t.Parallel()
	b := newBench(t, patient)
	taken := b.charged(t, "pm_card_visa", providers.Succeeded)
	part := refundOf(taken.Reference, "", 1000)
	b.fault(t, sandbox.CallRefund, sandbox.FaultErrorAfter)
	if lost := b.Refund(t.Context(), part); lost.Kind != providers.Unknown {
		t.Errorf("lost: %+v", lost)
	}
	again := b.Refund(t.Context(), part)
	if again.Kind != providers.Succeeded || again.Money != part.Money || !strings.HasPrefix(again.Reference, "re_") {
		t.Errorf("again: %+v", again)
	}
	if entry := b.one(t); entry.Captured != 3998 || entry.Refunded != 1000 {
		t.Errorf("ledger: %+v", entry)
	}
	looked := b.Lookup(t.Context(), lookup(taken.Reference))
	if looked.Kind != providers.Succeeded || looked.Code != providers.CodePartiallyRefunded {
		t.Errorf("looked up: %+v", looked)
	}
}

func TestRefundsNeverExceedTheCharge(t *testing.T) {
	t.Parallel()
	b := newBench(t, patient)
	taken := b.charged(t, "pm_card_visa", providers.Succeeded)
	nothingMoved := providers.Outcome{Kind: providers.Succeeded, Code: providers.CodeAlreadyRefunded}
	for _, step := range []struct {
		attempt string
		amount  int64
		want    providers.OutcomeKind
	}{
		{"", 1000, providers.Succeeded}, {"_2", 3998, providers.Rejected}, {"_3", 2998, providers.Succeeded}, {"_4", 1, providers.Succeeded},
	} {
		outcome := b.Refund(t.Context(), refundOf(taken.Reference, step.attempt, step.amount))
		if outcome.Kind != step.want {
			t.Errorf("refund%s of %d: %+v", step.attempt, step.amount, outcome)
		}
		if step.attempt == "_4" && !cmp.Equal(nothingMoved, outcome) {
			t.Errorf("refund of a refunded payment: %+v", outcome)
		}
	}
	if entry := b.one(t); entry.Captured != 3998 || entry.Refunded != 3998 {
		t.Errorf("ledger: %+v", entry)
	}
	if looked := b.Lookup(t.Context(), lookup(taken.Reference)); looked.Kind != providers.Canceled || looked.Code != providers.CodeRefunded {
		t.Errorf("looked up: %+v", looked)
	}
}

// TestSlowRefund: a refund that the bank has not carried out yet is no refund yet, though Stripe counts it as one.
func TestSlowRefund(t *testing.T) {
	t.Parallel()
	for action, want := range map[string]providers.OutcomeKind{"settle": providers.Canceled, "fail": providers.Succeeded} {
		t.Run(action, func(t *testing.T) {
			t.Parallel()
			b := newBench(t, patient)
			taken := b.charged(t, "pm_card_pendingRefund", providers.Succeeded)
			refund := b.Refund(t.Context(), refundOf(taken.Reference, "", 3998))
			if refund.Kind != providers.Processing {
				t.Fatalf("%+v", refund)
			}
			if looked := b.Lookup(t.Context(), lookup(taken.Reference)); looked.Kind != providers.Processing || looked.Code != "refund_pending" {
				t.Errorf("on its way: %+v", looked)
			}
			b.control(t, "/_sandbox/refunds/"+refund.Reference+"/"+action)
			if looked := b.Lookup(t.Context(), lookup(taken.Reference)); looked.Kind != want {
				t.Errorf("at its end: %+v, want %s", looked, want)
			}
		})
	}
}

// TestLookupRefund: a refund is found by its id or by our mark, and tells its own end.
func TestLookupRefund(t *testing.T) {
	t.Parallel()
	for action, want := range map[string]providers.OutcomeKind{"": providers.Processing, "settle": providers.Succeeded, "fail": providers.Declined} {
		t.Run("after "+action, func(t *testing.T) {
			t.Parallel()
			b := newBench(t, patient)
			taken := b.charged(t, "pm_card_pendingRefund", providers.Succeeded)
			refund := b.Refund(t.Context(), refundOf(taken.Reference, "", 3998))
			if action != "" {
				b.control(t, "/_sandbox/refunds/"+refund.Reference+"/"+action)
			}
			for request, want := range map[providers.RefundLookupRequest]providers.OutcomeKind{
				{Key: refundKey, Payment: taken.Reference, Reference: refund.Reference}: want,
				{Key: refundKey, Payment: taken.Reference}:                              want,
				{Key: refundKey + "_2", Payment: taken.Reference}:                       providers.NotFound,
			} {
				if found := b.LookupRefund(t.Context(), request); found.Kind != want {
					t.Errorf("%+v: %+v, want %s", request, found, want)
				}
			}
		})
	}
}
