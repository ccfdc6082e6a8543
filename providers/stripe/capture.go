package stripe

import (
	"context"

	sdk "github.com/stripe/stripe-go/v76"

	"paysaga/providers"
)

// The adapter's codes about captures.
const (
	codeNothingHeld     = "nothing_held"         // with Rejected captures: the payment holds no money
	codeNotHeldYet      = "not_held_yet"         // with Busy captures: the bank has not answered
	codeCaptureMismatch = "capture_other_amount" // with Unknown captures: another amount than the one asked for is taken
	codeOneCaptureOnly  = "one_capture_only"     // with Rejected captures: a part, and more to follow
)

// reasonExpired is the cancellation_reason of a hold that nobody captured in its time, 7 days for most cards.
const reasonExpired = "automatic"

// Capture takes money that is held, all or a part. Reference in the outcome is the payment's. Canceled is a hold that is gone, with
// CodeAuthorizationExpired when its time ran out. Taken already is Succeeded, if it is the same amount.
//
// A payment is captured once: what that leaves is let go by Stripe at once. A part that is not Final is therefore Rejected without
// a call that could move money. (Several captures need multicapture, which Stripe opens to some accounts only, and which a payment
// must have asked for when it was made.)
//
// It looks first: Stripe saves a refused capture under its key and repeats it for a day, when the payment may long have moved on.
func (a *Adapter) Capture(ctx context.Context, request providers.CaptureRequest) providers.Outcome {
	if invalid, ok := refusedCall(request.Key, request.Reference); ok {
		return invalid
	}
	amount, err := toStripe(request.Money)
	if err != nil {
		return rejectedRequest(err)
	}
	payment, err := a.client.payment(ctx, request.Reference)
	if err != nil {
		return outcomeOfError(captureCall, err)
	}
	if payment.ID != request.Reference || !belongsToSaga(payment, request.SagaKey) {
		return unknown(providers.CodeOtherPayment)
	}
	if outcome, decided := outcomeWithoutCapture(payment); decided {
		return onlyThisMuch(outcome, request)
	}
	if !request.Final && amount < payment.Amount {
		return providers.Outcome{
			Kind: providers.Rejected, Reference: payment.ID, Code: codeOneCaptureOnly,
			Detail: "Stripe captures a payment once; a part can only be taken as the final capture",
		}
	}
	payment, err = a.client.capturePayment(ctx, request, amount)
	if err != nil {
		return onlyThisMuch(outcomeOfError(captureCall, err), request)
	}
	if payment.ID != request.Reference {
		return unknown(providers.CodeOtherPayment)
	}
	return onlyThisMuch(outcomeOfCapture(payment), request)
}

// outcomeWithoutCapture tells whether a payment, as it stands, makes a capture needless or impossible; decided is false when it
// can be captured.
func outcomeWithoutCapture(payment *sdk.PaymentIntent) (outcome providers.Outcome, decided bool) {
	outcome = outcomeOfPayment(payment)
	switch outcome.Kind {
	case providers.Authorized:
		return providers.Outcome{}, false
	case providers.Succeeded, providers.Canceled, providers.Unknown:
	case providers.Processing:
		if outcome.Code == codeRefundPending {
			return unknown(codeRefundPending), true
		}
		outcome.Kind, outcome.Code, outcome.RetryAfter = providers.Busy, codeNotHeldYet, operatorDelay
	default:
		outcome = providers.Outcome{Kind: providers.Rejected, Reference: outcome.Reference, Code: codeNothingHeld}
	}
	if outcome.Code == providers.CodeRefunded || outcome.Code == providers.CodePartiallyRefunded {
		// That money went back later does not change that it was taken.
		outcome.Kind, outcome.Code = providers.Succeeded, ""
	}
	return outcome, true
}

// outcomeOfCapture tells how a capture ended. A payment that still holds money after it contradicts itself.
func outcomeOfCapture(payment *sdk.PaymentIntent) providers.Outcome {
	outcome := outcomeOfPayment(payment)
	if outcome.Kind == providers.Authorized {
		outcome.Kind, outcome.Code = providers.Unknown, codeCaptureMismatch
	}
	return outcome
}

// onlyThisMuch makes sure that money which is taken is what was asked for.
func onlyThisMuch(outcome providers.Outcome, request providers.CaptureRequest) providers.Outcome {
	if outcome.Kind == providers.Succeeded && outcome.Money != request.Money {
		outcome.Kind, outcome.Code = providers.Unknown, codeCaptureMismatch
	}
	return outcome
}

// belongsToSaga tells that a payment is not another saga's. As in belongsTo, a payment without our mark passes.
func belongsToSaga(payment *sdk.PaymentIntent, sagaKey string) bool {
	mark, ok := payment.Metadata[metadataSagaKey]
	return !ok || sagaKey == "" || mark == sagaKey
}
