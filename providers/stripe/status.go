package stripe

import (
	"net/url"
	"regexp"
	"slices"

	sdk "github.com/stripe/stripe-go/v76"

	"paysaga/providers"
)

// The adapter's own codes about answers that arrived, for the timeline: with Unknown if nothing else is said.
const (
	codeOtherObject          = "other_object" // the answer is no payment (no refund), or has no id
	codeStatusUnrecognized   = "status_unrecognized"
	codeAmountUnreadable     = "amount_unreadable"
	codeNextActionMissing    = "next_action_missing"
	codeNotCanceled          = "not_canceled"          // a cancellation answered 200 with a payment that is not canceled
	codeDeclineContradicted  = "decline_contradicted"  // a decline whose payment is not in a declined state
	codeRequiresConfirmation = "requires_confirmation" // with Processing
	codeRefundPending        = "refund_pending"        // with Processing look-ups
	codeAlreadyCanceled      = "already_canceled"      // with Succeeded voids
	codeUnrecognized         = "unrecognized"          // Stripe's code was none
	codeRefundFailed         = "refund_failed"         // with Declined refunds
)

// What Stripe calls its objects, in each one's "object".
const (
	objectPayment = "payment_intent"
	objectCharge  = "charge"
	objectRefund  = "refund"
)

// outcomeOfPayment tells how a payment stands. Anything that is not plainly one of Stripe's answers is Unknown.
func outcomeOfPayment(payment *sdk.PaymentIntent) providers.Outcome {
	about, ok := aboutPayment(payment)
	if !ok {
		return about
	}
	outcome := outcomeOfStatus(payment)
	outcome.Reference, outcome.Money = about.Reference, about.Money
	return outcome
}

// aboutPayment reads which payment an answer is about, and how much money: an Outcome without a kind. If that cannot be read, ok
// is false and the Outcome is Unknown.
func aboutPayment(payment *sdk.PaymentIntent) (about providers.Outcome, ok bool) {
	if payment == nil || payment.Object != objectPayment || safeID(payment.ID) == "" {
		return unknown(codeOtherObject), false
	}
	amount := payment.Amount
	if payment.Status == sdk.PaymentIntentStatusSucceeded || isTakenInPart(payment) && !isHeld(payment) {
		amount = payment.AmountReceived // what was really taken: less than Amount after a partial capture
	}
	money, err := fromStripe(amount, string(payment.Currency))
	if err != nil {
		return providers.Outcome{Kind: providers.Unknown, Reference: payment.ID, Code: codeAmountUnreadable}, false
	}
	return providers.Outcome{Reference: payment.ID, Money: money}, true
}

// outcomeOfStatus maps every status of a PaymentIntent.
func outcomeOfStatus(payment *sdk.PaymentIntent) providers.Outcome {
	switch payment.Status {
	case sdk.PaymentIntentStatusSucceeded:
		return outcomeOfTaken(payment.LatestCharge)
	case sdk.PaymentIntentStatusRequiresCapture:
		if isTakenInPart(payment) {
			return providers.Outcome{Kind: providers.Authorized, Code: providers.CodePartiallyCaptured}
		}
		return providers.Outcome{Kind: providers.Authorized}
	case sdk.PaymentIntentStatusRequiresAction:
		return outcomeOfAction(payment)
	case sdk.PaymentIntentStatusProcessing:
		return providers.Outcome{Kind: providers.Processing}
	case sdk.PaymentIntentStatusRequiresConfirmation:
		// Created and not confirmed: seen from outside while Stripe still works on our create-and-confirm, or for good if that
		// died half-way. It holds no money, and may yet take it: not an end. The saga waits, and at its deadline voids.
		return providers.Outcome{Kind: providers.Processing, Code: codeRequiresConfirmation}
	case sdk.PaymentIntentStatusRequiresPaymentMethod:
		// Declined, the customer failed or refused authentication, or a bank debit bounced. It holds no money, but whoever has
		// its client secret can pay it with another method until it is voided.
		return declined(payment.LastPaymentError)
	case sdk.PaymentIntentStatusCanceled:
		if isTakenInPart(payment) { // only what was left of the hold is gone
			return outcomeOfTaken(payment.LatestCharge)
		}
		return outcomeOfCanceled(payment)
	default:
		return unknown(codeStatusUnrecognized)
	}
}

func isHeld(payment *sdk.PaymentIntent) bool {
	return payment.Status == sdk.PaymentIntentStatusRequiresCapture
}

// isTakenInPart tells of a payment that is held, or was, whether a part of the hold has been captured. Accounts with multicapture
// can do so in Stripe's dashboard.
func isTakenInPart(payment *sdk.PaymentIntent) bool {
	return payment.AmountReceived > 0 && (isHeld(payment) || payment.Status == sdk.PaymentIntentStatusCanceled)
}

// outcomeOfCanceled tells a hold whose time ran out from a payment that somebody canceled.
func outcomeOfCanceled(payment *sdk.PaymentIntent) providers.Outcome {
	if payment.CancellationReason == reasonExpired {
		return providers.Outcome{Kind: providers.Canceled, Code: providers.CodeAuthorizationExpired}
	}
	return providers.Outcome{Kind: providers.Canceled, Code: safeCode(string(payment.CancellationReason))}
}

// outcomeOfTaken looks whether the money is still taken. All given back is Canceled: nothing is taken any more, and a saga that
// takes it for paid would ship for free. While a refund of all is on its way, and can still fail, it is Processing: neither
// paid nor unpaid. An unexpanded charge, as in the answer to a create, counts as not refunded.
func outcomeOfTaken(charge *sdk.Charge) providers.Outcome {
	switch {
	case charge == nil:
		return providers.Outcome{Kind: providers.Succeeded}
	case charge.Refunded && hasOpenRefund(charge.Refunds):
		return providers.Outcome{Kind: providers.Processing, Code: codeRefundPending}
	case charge.Refunded:
		return providers.Outcome{Kind: providers.Canceled, Code: providers.CodeRefunded}
	case charge.AmountRefunded > charge.Amount-charge.AmountCaptured: // what a partial capture let go counts as refunded
		return providers.Outcome{Kind: providers.Succeeded, Code: providers.CodePartiallyRefunded}
	default:
		return providers.Outcome{Kind: providers.Succeeded}
	}
}

// hasOpenRefund tells that a refund has no end yet. Stripe counts it as refunded from its first moment.
func hasOpenRefund(refunds *sdk.RefundList) bool {
	return refunds != nil && slices.ContainsFunc(refunds.Data, func(refund *sdk.Refund) bool {
		return refund != nil && (refund.Status == sdk.RefundStatusPending || refund.Status == sdk.RefundStatusRequiresAction)
	})
}

// outcomeOfAction tells what the customer must do: go to a page, or act in Stripe's library with the client secret.
func outcomeOfAction(payment *sdk.PaymentIntent) providers.Outcome {
	if action := payment.NextAction; action != nil && action.RedirectToURL != nil && isWebPage(action.RedirectToURL.URL) {
		return providers.Outcome{
			Kind:       providers.ActionRequired,
			NextAction: &providers.NextAction{Type: "redirect", URL: action.RedirectToURL.URL},
		}
	}
	if payment.ClientSecret == "" {
		return unknown(codeNextActionMissing) // a customer who is told nothing can do nothing
	}
	return providers.Outcome{
		Kind:       providers.ActionRequired,
		NextAction: &providers.NextAction{Type: "client_secret", ClientSecret: payment.ClientSecret},
	}
}

// isWebPage keeps "javascript:" and the like away from customers' browsers.
func isWebPage(address string) bool {
	parsed, err := url.Parse(address)
	return err == nil && (parsed.Scheme == "https" || parsed.Scheme == "http") && parsed.Host != ""
}

// outcomeOfVoid tells how a cancellation ended. Only a payment that is canceled is gone.
func outcomeOfVoid(payment *sdk.PaymentIntent) providers.Outcome {
	outcome, ok := aboutPayment(payment)
	if !ok {
		return outcome
	}
	switch {
	case isTakenInPart(payment):
		outcome.Kind, outcome.Code = providers.Rejected, providers.CodeAlreadyCaptured
	case payment.Status == sdk.PaymentIntentStatusCanceled:
		outcome.Kind = providers.Succeeded
	default:
		outcome.Kind, outcome.Code = providers.Unknown, codeNotCanceled
	}
	return outcome
}

// outcomeWithoutVoid tells whether a payment, as it stands, makes a cancellation needless or impossible; decided is false when
// it can be canceled.
func outcomeWithoutVoid(payment *sdk.PaymentIntent) (outcome providers.Outcome, decided bool) {
	outcome, ok := aboutPayment(payment)
	if !ok {
		return outcome, true // nothing is known of the payment, so nothing is done to it
	}
	switch {
	case payment.Status == sdk.PaymentIntentStatusSucceeded || isTakenInPart(payment):
		outcome.Kind, outcome.Code = providers.Rejected, providers.CodeAlreadyCaptured
	case payment.Status == sdk.PaymentIntentStatusCanceled:
		outcome.Kind, outcome.Code = providers.Succeeded, codeAlreadyCanceled
	case payment.Status == sdk.PaymentIntentStatusProcessing:
		// Busy, not Rejected: nothing is wrong with the wish, it comes at the wrong moment. The bank will answer, and then the
		// payment is captured (refund it) or declined (void it).
		outcome.Kind, outcome.Code, outcome.RetryAfter = providers.Busy, providers.CodeNotCancelableYet, operatorDelay
	default: // all other states can be canceled, a declined payment too
		return providers.Outcome{}, false
	}
	return outcome, true
}

// outcomeOfRefund tells how a refund stands. Succeeded can still turn to failed within 30 days; a webhook then says so.
func outcomeOfRefund(refund *sdk.Refund) providers.Outcome {
	if refund == nil || refund.Object != objectRefund || safeID(refund.ID) == "" {
		return unknown(codeOtherObject)
	}
	money, err := fromStripe(refund.Amount, string(refund.Currency))
	if err != nil {
		return providers.Outcome{Kind: providers.Unknown, Reference: refund.ID, Code: codeAmountUnreadable}
	}
	outcome := outcomeOfRefundStatus(refund)
	outcome.Reference, outcome.Money = refund.ID, money
	return outcome
}

// outcomeOfRefundStatus maps every status of a refund.
func outcomeOfRefundStatus(refund *sdk.Refund) (outcome providers.Outcome) {
	switch refund.Status {
	case sdk.RefundStatusSucceeded:
		outcome.Kind = providers.Succeeded
	case sdk.RefundStatusPending, sdk.RefundStatusRequiresAction:
		// requires_action is the customer's bank details for methods without native refunds; Stripe asks for them by e-mail.
		outcome.Kind, outcome.Code = providers.Processing, string(refund.Status)
	case sdk.RefundStatusFailed:
		// The customer's bank sent the money back: it is on the account's balance again, and the refund must be made otherwise.
		outcome.Kind, outcome.Code = providers.Declined, codeRefundFailed
		outcome.Decline = &providers.Decline{Code: codeRefundFailed, Bank: safeCode(string(refund.FailureReason)), Hard: true}
	case sdk.RefundStatusCanceled:
		outcome.Kind = providers.Canceled
	default:
		outcome.Kind, outcome.Code = providers.Unknown, codeStatusUnrecognized
	}
	return outcome
}

// hardDeclines are the findings after which the same method must not be tried again: the card is reported, or the issuer says
// never. All others are soft: the customer, never the saga, may try again (issuer_not_available, try_again_later,
// processing_error, reenter_transaction are sure to be worth it, insufficient_funds may be).
var hardDeclines = []sdk.DeclineCode{
	sdk.DeclineCodeStolenCard,
	sdk.DeclineCodeLostCard,
	sdk.DeclineCodePickupCard,
	sdk.DeclineCodeFraudulent,
	sdk.DeclineCodeDoNotTryAgain,
}

// declined tells why a payment was refused. A payment without a reason is declined all the same: it has no method to take money from.
func declined(reason *sdk.Error) providers.Outcome {
	decline := &providers.Decline{Code: string(sdk.PaymentIntentStatusRequiresPaymentMethod)}
	if reason != nil {
		decline.Bank = safeCode(string(reason.DeclineCode))
		decline.Hard = slices.Contains(hardDeclines, reason.DeclineCode)
		decline.Code = codeOf(reason)
	}
	return providers.Outcome{Kind: providers.Declined, Code: decline.Code, Decline: decline}
}

func unknown(code string) providers.Outcome {
	return providers.Outcome{Kind: providers.Unknown, Code: code}
}

// What Stripe's codes and ids look like. Anything else is not passed on: a broken answer could put anything into the timeline.
var (
	codeForm      = regexp.MustCompile(`^[a-z0-9_]{1,100}$`)
	idForm        = regexp.MustCompile(`^[A-Za-z0-9_]{1,255}$`)
	parameterForm = regexp.MustCompile(`^[a-z0-9_]{1,100}(\[[a-z0-9_]{1,100}\]){0,5}$`)
)

// safeCode is a code of Stripe as it is, empty for none, or "unrecognized".
func safeCode(code string) string {
	if code == "" || codeForm.MatchString(code) {
		return code
	}
	return codeUnrecognized
}

// codeOf is an error's code, or at least its type.
func codeOf(reason *sdk.Error) string {
	if code := safeCode(string(reason.Code)); code != "" {
		return code
	}
	return safeCode(string(reason.Type))
}

// safeID is an id of Stripe as it is, or empty.
func safeID(id string) string {
	if idForm.MatchString(id) {
		return id
	}
	return ""
}
