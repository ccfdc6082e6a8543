package adyen

import (
	"bytes"
	"encoding/json"
	"net/http"
	"regexp"
	"strconv"

	"paysaga/providers"
)

// The adapter's own codes about answers that arrived, for the timeline: with Unknown if nothing else is said.
const (
	codeOtherObject        = "other_object" // the answer is no payment (no modification), or has no reference
	codeStatusUnrecognized = "status_unrecognized"
	codeAmountUnreadable   = "amount_unreadable"
	codeNextActionMissing  = "next_action_missing"
	codePartlyAuthorised   = "partially_authorised" // with Succeeded or Authorized, whose Money is then the part
	codeReceived           = "received"             // with Processing modifications
	codeTransient          = "transient_error"      // with Busy
)

// The actions that a customer can be asked for, as NextAction.Type.
const (
	actionRedirect = "redirect"
	actionAdyen    = "adyen_action"
)

// outcomeOfPayment tells how a payment stands. Anything that is not plainly one of Adyen's answers is Unknown.
func outcomeOfPayment(answer *paymentAnswer, manualCapture bool) providers.Outcome {
	outcome := outcomeOfResult(answer, manualCapture)
	outcome.Reference = safeReference(answer.PSPReference)
	if outcome.Kind == providers.Unknown {
		return outcome
	}
	if outcome.Reference == "" && (outcome.Kind == providers.Succeeded || outcome.Kind == providers.Authorized) {
		return unknown(codeOtherObject)
	}
	if outcome.Money != (providers.Money{}) || answer.Amount == nil {
		return outcome
	}
	money, err := fromAdyen(*answer.Amount)
	if err != nil {
		return providers.Outcome{Kind: providers.Unknown, Reference: outcome.Reference, Code: codeAmountUnreadable}
	}
	outcome.Money = money
	return outcome
}

// outcomeOfResult maps every resultCode. AuthenticationFinished, AuthenticationNotRequired and Success are of calls that we do not
// make; they come out as unrecognized.
func outcomeOfResult(answer *paymentAnswer, manualCapture bool) providers.Outcome {
	switch answer.ResultCode {
	case "Authorised":
		return providers.Outcome{Kind: kindOfAuthorised(manualCapture)}
	case "PartiallyAuthorised":
		return outcomeOfPart(answer, manualCapture)
	case "Refused":
		return declined(answer.RefusalReasonCode, answer.RefusalReason, answer.AdditionalData)
	case "Error":
		return outcomeOfErrorResult(answer)
	case "Cancelled":
		return providers.Outcome{Kind: providers.Canceled, Code: "cancelled"}
	case "RedirectShopper", "IdentifyShopper", "ChallengeShopper", "PresentToShopper":
		return outcomeOfAction(answer.Action)
	case "Pending":
		if hasAction(answer.Action) { // to be shown while the customer confirms elsewhere: in a bank's app, by a QR code
			return outcomeOfAction(answer.Action)
		}
		return providers.Outcome{Kind: providers.Processing, Code: "pending"}
	case "Received":
		return providers.Outcome{Kind: providers.Processing, Code: codeReceived}
	default:
		return unknown(codeStatusUnrecognized)
	}
}

func kindOfAuthorised(manualCapture bool) providers.OutcomeKind {
	if manualCapture {
		return providers.Authorized
	}
	return providers.Succeeded
}

// outcomeOfPart is a payment that the bank authorized less for. Its Money is that part, so that it differs from what was asked for
// and the saga's comparison stops it; without a readable part nothing is known but the code.
func outcomeOfPart(answer *paymentAnswer, manualCapture bool) providers.Outcome {
	value, err := strconv.ParseInt(text(answer.AdditionalData, "authorisedAmountValue"), 10, 64)
	if err != nil {
		return unknown(codePartlyAuthorised)
	}
	money, err := fromAdyen(amount{Value: value, Currency: text(answer.AdditionalData, "authorisedAmountCurrency")})
	if err != nil {
		return unknown(codePartlyAuthorised)
	}
	return providers.Outcome{Kind: kindOfAuthorised(manualCapture), Code: codePartlyAuthorised, Money: money}
}

// outcomeOfErrorResult maps resultCode Error, which Adyen calls final and repeats under the key for good. Two errors hide in it.
// With a reason of Adyen's table ("Acquirer Error": the transaction did not go through) it is a decline. Without one, nobody has
// said that the bank did nothing: a message to it may have been lost half-way. That is Unknown, and as the same call brings the
// same answer for ever, only the webhook or an undo can settle it.
func outcomeOfErrorResult(answer *paymentAnswer) providers.Outcome {
	if answer.Transient {
		// Adyen had no line to the bank, sent nothing, and did not keep the answer under the key.
		return providers.Outcome{Kind: providers.Busy, Code: codeTransient}
	}
	if _, known := refusalOf(answer.RefusalReasonCode, answer.RefusalReason); !known {
		return unknown(providers.CodeServerErrorFinal)
	}
	return declined(answer.RefusalReasonCode, answer.RefusalReason, answer.AdditionalData)
}

// outcomeOfAction tells what the customer must do: what Adyen's client library carries out, which for a plain redirect any page can.
func outcomeOfAction(raw json.RawMessage) providers.Outcome {
	var action struct {
		Type   string `json:"type"`
		URL    string `json:"url"`
		Method string `json:"method"`
	}
	if !hasAction(raw) || json.Unmarshal(raw, &action) != nil || action.Type == "" || action.URL != "" && !isWebPage(action.URL) {
		return unknown(codeNextActionMissing) // a customer who is told nothing can do nothing
	}
	var compact bytes.Buffer
	if err := json.Compact(&compact, raw); err != nil {
		return unknown(codeNextActionMissing)
	}
	next := &providers.NextAction{Type: actionAdyen, Action: compact.Bytes()}
	if action.Type == "redirect" && action.URL != "" && (action.Method == http.MethodGet || action.Method == "") {
		next.Type, next.URL = actionRedirect, action.URL
	}
	return providers.Outcome{Kind: providers.ActionRequired, NextAction: next}
}

func hasAction(raw json.RawMessage) bool { return len(raw) > 0 && string(raw) != "null" }

// outcomeOfModification tells that Adyen took a capture, cancellation, reversal or refund of payment on; Reference is its own.
func outcomeOfModification(answer *modificationAnswer, err error, payment string) providers.Outcome {
	if err != nil {
		return outcomeOfError(err)
	}
	if answer.PaymentPSPReference != payment {
		return unknown(providers.CodeOtherPayment)
	}
	return outcomeOfReceipt(answer)
}

// outcomeOfTechnicalCancel is the same for a cancellation by our own reference.
func outcomeOfTechnicalCancel(answer *modificationAnswer, err error, reference string) providers.Outcome {
	if err != nil {
		return outcomeOfError(err)
	}
	if answer.PaymentReference != reference {
		return unknown(providers.CodeOtherPayment)
	}
	return outcomeOfReceipt(answer)
}

func outcomeOfReceipt(answer *modificationAnswer) providers.Outcome {
	reference := safeReference(answer.PSPReference)
	switch {
	case reference == "":
		return unknown(codeOtherObject)
	case answer.Status != "received":
		return providers.Outcome{Kind: providers.Unknown, Reference: reference, Code: codeStatusUnrecognized}
	}
	outcome := providers.Outcome{Kind: providers.Processing, Reference: reference, Code: codeReceived}
	if answer.Amount == nil {
		return outcome
	}
	money, err := fromAdyen(*answer.Amount)
	if err != nil {
		return providers.Outcome{Kind: providers.Unknown, Reference: reference, Code: codeAmountUnreadable}
	}
	outcome.Money = money
	return outcome
}

func unknown(code string) providers.Outcome {
	return providers.Outcome{Kind: providers.Unknown, Code: code}
}

// What Adyen's error codes look like. Anything else is not passed on: a broken answer could put anything into the timeline.
var codeForm = regexp.MustCompile(`^[0-9A-Za-z_]{1,40}$`)

// safeCode is a code of Adyen as it is, or empty.
func safeCode(code string) string {
	if codeForm.MatchString(code) {
		return code
	}
	return ""
}

// safeReference is a pspReference as it is, or empty.
func safeReference(reference string) string {
	if paymentForm.MatchString(reference) {
		return reference
	}
	return ""
}
