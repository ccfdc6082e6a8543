package adyen

import (
	"crypto/sha256"
	"encoding/hex"
	"regexp"
	"strings"
	"time"

	"paysaga/providers"
)

// The adapter's own codes in notices.
const (
	codeCaptureRefused = "capture_refused" // with Declined captures: Adyen did not take the request on

	codeRefundRefused       = "refund_refused"       // with Declined refunds: Adyen did not take the request on
	codeRefundFailed        = "refund_failed"        // with Declined refunds: the card scheme sent it back
	codeRefundReversed      = "refunded_reversed"    // with Declined refunds: the money came back to the shop
	codeSuccessContradicted = "success_contradicted" // with Unknown: success is true, and there is an error code
	codeSuccessUnexpected   = "success_unexpected"   // with Unknown: a failure that did not succeed
)

// maxIDLength is the longest ID that is kept as it is. Adyen's are under 100 bytes.
const maxIDLength = 255

// recaptured is the reason with which Adyen tells that a capture which failed has been made good ("Transaction Recaptured",
// "Transaction Auto-recaptured").
var recaptured = regexp.MustCompile(`(?i)^transaction (auto-)?recaptured$`)

// isCaptured finds the reason with which Adyen tells that it is too late to cancel; "hasn't been captured" is none.
var isCaptured = regexp.MustCompile(`(?i)\b(has been|was|is|already)( already)? captured\b`)

// event is what one of Adyen's event codes is about, and how its outcome is told.
type event struct {
	about   providers.About
	outcome func(*item) providers.Outcome
}

// events are the event codes that are about calls of ours. All others are kept as "other".
var events = map[string]event{
	"AUTHORISATION":     {providers.AboutCharge, outcomeOfAuthorisation},
	"EXPIRE":            {providers.AboutCharge, outcomeOfExpiry},
	"CAPTURE":           {providers.AboutCapture, outcomeOfCapture},
	"CAPTURE_FAILED":    {providers.AboutCapture, failing(providers.CodeCaptureFailed)},
	"CANCELLATION":      {providers.AboutVoid, outcomeOfCancellation},
	"TECHNICAL_CANCEL":  {providers.AboutVoid, outcomeOfCancellation},
	"CANCEL_OR_REFUND":  {providers.AboutVoid, outcomeOfReversal},
	"REFUND":            {providers.AboutRefund, outcomeOfRefund},
	"REFUND_FAILED":     {providers.AboutRefund, failing(codeRefundFailed)},
	"REFUNDED_REVERSED": {providers.AboutRefund, failing(codeRefundReversed)},
}

// noticeOf tells what a verified event says. Events of other merchant accounts, and of codes that are about no call of ours, come
// out as "other" without an outcome.
//
// Key is the merchantReference where it has the form of a sub-key. For captures, voids and refunds it is, by Adyen's account, the
// reference of that call (for TECHNICAL_CANCEL the charge's); a modification that was made in the Customer Area carries the
// charge's, so Reference, which is unique, is to be matched first.
//
// An AUTHORISATION does not tell whether the payment is captured by itself. It is Authorized in any case; for a charge without
// ManualCapture that means what Succeeded means in the answer to the charge.
func (w *Webhook) noticeOf(item *item, now time.Time) providers.Notice {
	notice := providers.Notice{
		ID: idOf(item), Type: item.EventCode, About: providers.AboutOther, Payment: item.OriginalReference, At: dateOf(item, now),
	}
	known, ok := events[item.EventCode]
	if !ok || item.MerchantAccountCode != w.merchantAccount {
		return notice
	}
	notice.About = known.about
	if key := providers.SubKey(item.MerchantReference); validKey(key) {
		notice.Key = key
	}
	if known.about == providers.AboutCharge {
		if notice.Payment == "" {
			notice.Payment = item.PSPReference
		}
	} else {
		notice.Reference = item.PSPReference
	}
	outcome := outcomeOfEvent(item, known)
	notice.Outcome = &outcome
	return notice
}

// idOf is on what the same event is known when it comes again: Adyen resends it with the same code, reference and success, while
// dates and reasons may differ. The merchant account is a part, as reports name files, the same for each account. So is a
// recapture, which else would pass for a duplicate of the capture that failed.
func idOf(item *item) string {
	parts := []string{item.EventCode, item.PSPReference, item.Success, item.MerchantAccountCode}
	if item.EventCode == "CAPTURE" && recaptured.MatchString(item.Reason) {
		parts = append(parts, "recaptured")
	}
	id := strings.Join(parts, "|")
	if len(id) > maxIDLength {
		sum := sha256.Sum256([]byte(id))
		return "sha256:" + hex.EncodeToString(sum[:])
	}
	return id
}

func dateOf(item *item, now time.Time) time.Time {
	at, err := time.Parse(time.RFC3339, item.EventDate)
	if err != nil {
		return now.UTC()
	}
	return at.UTC()
}

// outcomeOfEvent adds to an event's outcome what all have in common.
func outcomeOfEvent(item *item, known event) providers.Outcome {
	outcome := known.outcome(item)
	if item.Success == yes && outcome.Kind != providers.Declined && hasErrorCode(item) {
		// The acquirer refused and Adyen's platform did not notice, as seen with captures at PayPal. Nothing is confirmed by it.
		outcome = unknown(codeSuccessContradicted)
	}
	outcome.Reference = safeReference(item.PSPReference)
	if item.Amount == nil {
		return outcome
	}
	money, err := fromAdyen(*item.Amount)
	switch {
	case err == nil:
		outcome.Money = money
	case outcome.Kind == providers.Succeeded || outcome.Kind == providers.Authorized:
		return providers.Outcome{Kind: providers.Unknown, Reference: outcome.Reference, Code: codeAmountUnreadable}
	}
	return outcome
}

// hasErrorCode finds acquirerErrorCode, paypalErrorCode and the like. "0" is the code of no error.
func hasErrorCode(item *item) bool {
	for name := range item.AdditionalData {
		if !strings.HasSuffix(strings.ToLower(name), "errorcode") {
			continue
		}
		if code := text(item.AdditionalData, name); code != "" && code != "0" {
			return true
		}
	}
	return false
}

func outcomeOfAuthorisation(item *item) providers.Outcome {
	if item.Success == yes {
		return providers.Outcome{Kind: providers.Authorized}
	}
	outcome := declined(text(item.AdditionalData, "refusalReasonCode"), item.Reason, item.AdditionalData)
	if outcome.Code == "cancelled" || outcome.Code == "shopper_cancelled" {
		return providers.Outcome{Kind: providers.Canceled, Code: outcome.Code} // as resultCode Cancelled
	}
	return outcome
}

func outcomeOfExpiry(item *item) providers.Outcome {
	if item.Success != yes {
		return unknown(codeSuccessUnexpected)
	}
	return providers.Outcome{Kind: providers.Canceled, Code: providers.CodeAuthorizationExpired}
}

func outcomeOfCapture(item *item) providers.Outcome {
	if item.Success == yes {
		return providers.Outcome{Kind: providers.Succeeded}
	}
	return failed(codeCaptureRefused)
}

func outcomeOfRefund(item *item) providers.Outcome {
	if item.Success == yes {
		return providers.Outcome{Kind: providers.Succeeded}
	}
	return failed(codeRefundRefused)
}

func outcomeOfCancellation(item *item) providers.Outcome {
	switch {
	case item.Success == yes:
		return providers.Outcome{Kind: providers.Succeeded}
	case isCaptured.MatchString(item.Reason):
		return providers.Outcome{Kind: providers.Rejected, Code: providers.CodeAlreadyCaptured}
	default:
		return providers.Outcome{Kind: providers.Rejected, Code: providers.CodeVoidRefused}
	}
}

// outcomeOfReversal tells by its code whether money went back (CodeRefunded) or only the hold is gone.
func outcomeOfReversal(item *item) providers.Outcome {
	switch {
	case item.Success != yes:
		return providers.Outcome{Kind: providers.Rejected, Code: providers.CodeVoidRefused}
	case text(item.AdditionalData, "modification.action") == "refund":
		return providers.Outcome{Kind: providers.Succeeded, Code: providers.CodeRefunded}
	default:
		return providers.Outcome{Kind: providers.Succeeded}
	}
}

// failing is for events that tell a failure by themselves: their success is that of the failure.
func failing(code string) func(*item) providers.Outcome {
	return func(item *item) providers.Outcome {
		if item.Success != yes {
			return unknown(codeSuccessUnexpected)
		}
		return failed(code)
	}
}

// failed is soft: Adyen itself tries again where that can help.
func failed(code string) providers.Outcome {
	return providers.Outcome{Kind: providers.Declined, Code: code, Decline: &providers.Decline{Code: code}}
}
