package saga

import (
	"time"

	"github.com/google/uuid"
)

// Finding says why a saga waits for a person.
type Finding struct {
	ID        uuid.UUID // given by the store
	Kind      string    // one of the kinds below
	Detail    string    // a sentence for the operator, without personal data
	CreatedAt time.Time // given by the store
}

// FindingKinds are all that there are.
func FindingKinds() []string {
	return []string{
		FindingCannotBeDriven, FindingStepOverdue, FindingTriesExhausted, FindingUnexpectedOutcome, FindingDuplicateCharge,
		FindingAmountMismatch, FindingCurrencyMismatch, FindingPaymentMissing, FindingRefusedAfterSend, FindingChargedAfterRefusal,
		FindingCaptureUnclear, FindingCaptureFailed, FindingCapturedAtProvider, FindingCaptureOverdue, FindingVoidRefused, FindingVoidOverdue,
		FindingRefundFailed, FindingRefundOverdue, FindingRefundedAtProvider,
	}
}

// The kinds of findings. docs/runbook.md says what to do about each.
const (
	// FindingCannotBeDriven: drive after drive ended without writing anything.
	FindingCannotBeDriven = "cannot_be_driven"
	// FindingStepOverdue: a step of the deployment's own was accepted and has not come to its end.
	FindingStepOverdue = "step_overdue"
	// FindingTriesExhausted: turn after turn brought no answer of the provider.
	FindingTriesExhausted = "tries_exhausted"
	// FindingUnexpectedOutcome: the provider gave an answer that fits no rule.
	FindingUnexpectedOutcome = "unexpected_outcome"
	// FindingDuplicateCharge: the provider has more than one live payment under the order's key.
	FindingDuplicateCharge = "duplicate_charge"
	// FindingAmountMismatch: the provider holds, took or captured another amount than was asked for.
	FindingAmountMismatch = "amount_mismatch"
	// FindingCurrencyMismatch: the provider took, captured or gave back another currency than was asked for.
	FindingCurrencyMismatch = "currency_mismatch"
	// FindingPaymentMissing: the provider does not know a payment that it had given an id.
	FindingPaymentMissing = "payment_missing"
	// FindingRefusedAfterSend: the provider refused a charge after an earlier send whose end nobody knows.
	FindingRefusedAfterSend = "refused_after_send"
	// FindingChargedAfterRefusal: the provider announces a payment whose charge it had refused.
	FindingChargedAfterRefusal = "charged_after_refusal"
	// FindingCaptureUnclear: held money is left, and nothing tells whether a capture of a part was carried out.
	FindingCaptureUnclear = "capture_unclear"
	// FindingCaptureFailed: a capture that had been carried out was sent back.
	FindingCaptureFailed = "capture_failed"
	// FindingCapturedAtProvider: somebody took money at the provider after the order was decided here.
	FindingCapturedAtProvider = "captured_at_provider"
	// FindingCaptureOverdue: the provider accepted a capture and has not told its end.
	FindingCaptureOverdue = "capture_overdue"
	// FindingVoidRefused: the provider refused to let go of held money, and nothing tells why.
	FindingVoidRefused = "void_refused"
	// FindingVoidOverdue: the provider accepted a void and has not told its end.
	FindingVoidOverdue = "void_overdue"
	// FindingRefundFailed: a refund that undid an order came back.
	FindingRefundFailed = "refund_failed"
	// FindingRefundOverdue: the provider accepted a refund and has not told its end.
	FindingRefundOverdue = "refund_overdue"
	// FindingRefundedAtProvider: somebody gave money back at the provider.
	FindingRefundedAtProvider = "refunded_at_provider"
)
