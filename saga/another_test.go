package saga

import (
	"testing"

	"paysaga/providers"
)

// A provider can have a second payment under our key: after its memory ran out, in another region, or by a person. What it announces
// about that one must not be taken for news of ours.
func TestNoticesOfAnotherPaymentUnderOurKey(t *testing.T) {
	t.Parallel()
	succeeded, expired := outcomeOf(providers.Authorized), providers.Outcome{Kind: providers.Canceled, Code: providers.CodeAuthorizationExpired}
	refused, gone, captured := outcomeOf(providers.Declined), outcomeOf(providers.Succeeded), outcomeOf(providers.Succeeded)
	failed := providers.Outcome{Kind: providers.Declined, Code: providers.CodeCaptureFailed}
	paid := func(t *testing.T) *life {
		t.Helper()
		l := newLife(t, deferredPolicy(), automatic)
		l.answers(CallCharge, providers.Outcome{Kind: providers.Succeeded, Reference: "pay_1"})
		l.wants(Completed, OrderConfirmed, PaymentCaptured)
		return l
	}
	held := func(t *testing.T) *life { t.Helper(); return heldLife(t, deferredPolicy()) }
	for name, test := range map[string]struct {
		from    func(*testing.T) *life
		about   providers.About
		outcome *providers.Outcome
		finding string
	}{
		"paid, the other too":          {paid, providers.AboutCharge, &succeeded, FindingDuplicateCharge},
		"paid, the other is refused":   {paid, providers.AboutCharge, &refused, ""},
		"paid, the other's capture":    {paid, providers.AboutCapture, &captured, FindingDuplicateCharge},
		"paid, its capture failed":     {paid, providers.AboutCapture, &failed, ""},
		"held, the other too":          {held, providers.AboutCharge, &succeeded, FindingDuplicateCharge},
		"held, the other's hold ended": {held, providers.AboutCharge, &expired, ""},
		"held, the other is voided":    {held, providers.AboutVoid, &gone, ""},
		"held, the other is captured":  {held, providers.AboutCapture, &captured, FindingDuplicateCharge},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			l := test.from(t)
			before := l.saga.State
			notice := noticeOf(test.about, test.outcome)
			notice.Key, notice.Payment, notice.Reference = l.saga.step(StepCharge).SubKey, "pay_2", "other_1"
			l.hears(notice)
			l.hears(notice) // again
			if test.finding != "" {
				l.wantsReview(test.finding)
				return
			}
			if charge := l.saga.step(StepCharge); l.saga.State != before || charge.ProviderReference != "pay_1" {
				t.Errorf("state %s, payment %s", l.saga.State, charge.ProviderReference)
			}
		})
	}
}

// What is given back is held against what was asked for.
func TestRefundOfAnotherAmount(t *testing.T) {
	t.Parallel()
	l := refundLife(t, testPolicy)
	l.answers(CallRefund, providers.Outcome{Kind: providers.Succeeded, Reference: "refund_1", Money: euros(1)})
	l.wantsReview(FindingAmountMismatch)
}
