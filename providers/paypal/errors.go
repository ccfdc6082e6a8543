package paypal

import (
	"context"
	"errors"
	"net/http"
	"time"

	"paysaga/providers"
	"paysaga/providers/wire"
)

// The adapter's own codes for calls whose answer did not arrive or cannot be read, all with Unknown if nothing else is said.
const (
	codeHungUp             = "hung_up" // our side gave up
	codeTimeout            = "timeout"
	codeConnectionLost     = "connection_lost"
	codeBodyTooLarge       = "body_too_large"
	codeRedirected         = "redirected"
	codeUnreadableResponse = "unreadable_response"
	codeServerError        = "server_error"
	codeNotAdmitted        = "token_unavailable" // with Busy: without a token nothing is sent
)

// operatorDelay is the pause before a call that waits for people or banks is worth repeating: short enough that orders go on
// within a minute after credentials were put right, long enough to not knock on a closed door.
const operatorDelay = 30 * time.Second

// callKind is what a failed call was for: the same error can mean different things.
type callKind int

const (
	chargeCall callKind = iota
	continueCall
	lookupCall // any question about one payment: nothing was to be done
	listCall
	captureCall
	voidCall
	refundCall
)

// meaning is what one of PayPal's issues says about a call. An issue that is not in the table says that the request is wrong.
type meaning int

const (
	meansRejected     meaning = iota
	meansDeclined             // the payment method or the payer is refused; another attempt may do
	meansDeclinedHard         // the same method must not be tried again
	meansBusy                 // not now
	meansWait                 // the customer has not approved, or must act again
	meansLook                 // the order has moved on: it tells how the payment stands
	meansUsedBefore           // our identifier was used before: an earlier call may have moved money
	meansGone                 // the authorization is voided
	meansExpired              // the order or the authorization is past its time
	meansCaptured             // the money is taken
	meansVoided               // it is voided already
	meansRefunded             // all is given back already
)

// meanings are the issues of Orders v2 and Payments v2 on which something depends.
var meanings = map[string]meaning{
	"ALIAS_DECLINED_BY_PROCESSOR":            meansDeclined,
	"DECLINED_DUE_TO_RELATED_TXN":            meansDeclined,
	"DOMESTIC_TRANSACTION_REQUIRED":          meansDeclined,
	"INSTRUMENT_DECLINED":                    meansDeclined,
	"PAYEE_BLOCKED_TRANSACTION":              meansDeclined, // by the shop's own rules against fraud
	"PAYER_CANNOT_PAY":                       meansDeclined,
	"PAYMENT_DENIED":                         meansDeclined,
	"PAYMENT_SOURCE_DECLINED_BY_PROCESSOR":   meansDeclined,
	"PAYMENT_SOURCE_INFO_CANNOT_BE_VERIFIED": meansDeclined,
	"REDIRECT_PAYER_FOR_ALTERNATE_FUNDING":   meansDeclined,
	"REFUND_FAILED_INSUFFICIENT_FUNDS":       meansDeclined, // the shop's own balance
	"TRANSACTION_BLOCKED_BY_PAYEE":           meansDeclined,
	"TRANSACTION_LIMIT_EXCEEDED":             meansDeclined,
	"TRANSACTION_RECEIVING_LIMIT_EXCEEDED":   meansDeclined,
	"TRANSACTION_REFUSED":                    meansDeclined,

	"AGREEMENT_ALREADY_CANCELLED":             meansDeclinedHard,
	"BILLING_AGREEMENT_NOT_FOUND":             meansDeclinedHard,
	"CARD_EXPIRED":                            meansDeclinedHard,
	"COMPLIANCE_VIOLATION":                    meansDeclinedHard,
	"MAX_NUMBER_OF_PAYMENT_ATTEMPTS_EXCEEDED": meansDeclinedHard,
	"PAYER_ACCOUNT_LOCKED_OR_CLOSED":          meansDeclinedHard,
	"PAYER_ACCOUNT_RESTRICTED":                meansDeclinedHard,
	"PAYMENT_SOURCE_CANNOT_BE_USED":           meansDeclinedHard,
	"REFERENCED_CARD_EXPIRED":                 meansDeclinedHard,
	"TOKEN_EXPIRED":                           meansDeclinedHard,
	"TOKEN_ID_NOT_FOUND":                      meansDeclinedHard,

	"ORDER_COMPLETION_IN_PROGRESS": meansBusy,
	"PENDING_CAPTURE":              meansBusy, // a refund must wait until the capture has an end
	"PREVIOUS_REQUEST_IN_PROGRESS": meansBusy,
	"RATE_LIMIT_REACHED":           meansBusy,

	"ORDER_NOT_APPROVED":    meansWait,
	"PAYER_ACTION_REQUIRED": meansWait,

	"ORDER_ALREADY_AUTHORIZED":  meansLook,
	"ORDER_ALREADY_CAPTURED":    meansLook,
	"ORDER_ALREADY_COMPLETED":   meansLook,
	"ORDER_COMPLETED_OR_VOIDED": meansLook,

	"DUPLICATE_INVOICE_ID": meansUsedBefore,

	"AUTHORIZATION_VOIDED":  meansGone,
	"AUTHORIZATION_EXPIRED": meansExpired,
	"ORDER_EXPIRED":         meansExpired,

	"AUTHORIZATION_ALREADY_CAPTURED": meansCaptured,
	"PREVIOUSLY_CAPTURED":            meansCaptured,
	"PREVIOUSLY_VOIDED":              meansVoided,
	"CAPTURE_FULLY_REFUNDED":         meansRefunded,
}

// outcomeOfError maps every way in which a call can fail. It is the only such map.
//
// The rule behind it: a call did nothing only if PayPal says so in its own words, or if no byte of it was sent. All else is
// Unknown, and the saga asks again with the same identifier, or looks up.
func outcomeOfError(kind callKind, err error) providers.Outcome {
	outcome := outcomeOfCallError(kind, err)
	if kind == lookupCall && outcome.Kind != providers.Busy && outcome.Kind != providers.NotFound {
		// A question's failure is about the question, not about the payment: a "400" must never be read as "not charged".
		return unknown(outcome.Code)
	}
	return outcome
}

func outcomeOfCallError(kind callKind, err error) providers.Outcome {
	failure, ok := errors.AsType[*callError](err)
	if !ok {
		return unknown(codeConnectionLost)
	}
	switch {
	case errors.Is(failure.Cause, context.Canceled):
		return unknown(codeHungUp)
	case errors.Is(failure.Cause, errCredentials):
		return providers.Outcome{Kind: providers.Busy, Code: providers.CodeCredentialsRefused, RetryAfter: operatorDelay}
	case errors.Is(failure.Cause, errNoToken):
		return providers.Outcome{Kind: providers.Busy, Code: codeNotAdmitted}
	case failure.NothingSent:
		return providers.Outcome{Kind: providers.Busy, Code: providers.CodeUnreachable}
	case failure.Status >= http.StatusInternalServerError:
		// Whatever the body was: a load balancer's page, half of a JSON, nothing. It can come after the money moved.
		return providers.Outcome{Kind: providers.Unknown, Code: codeServerError, RetryAfter: failure.RetryAfter()}
	case failure.Status == http.StatusUnauthorized:
		// Before PayPal's words are asked for: its gateway refuses tokens in OAuth's words, {"error":"invalid_token"}.
		return providers.Outcome{Kind: providers.Busy, Code: providers.CodeCredentialsRefused, RetryAfter: operatorDelay}
	case failure.problem != nil && failure.Status >= http.StatusBadRequest:
		return outcomeOfProblem(kind, failure)
	default:
		return outcomeOfBrokenAnswer(failure)
	}
}

// outcomeOfBrokenAnswer maps what is no answer of PayPal's: always Unknown, the code is for the timeline.
func outcomeOfBrokenAnswer(failure *callError) providers.Outcome {
	switch {
	case errors.Is(failure.Cause, wire.ErrBodyTooLarge):
		return unknown(codeBodyTooLarge)
	case errors.Is(failure.Cause, wire.ErrRedirected):
		return unknown(codeRedirected)
	case failure.TimedOut():
		return unknown(codeTimeout)
	case failure.Status != 0:
		// A status without PayPal's words, a 200 with an empty or broken body among them, or a 4xx by something in between.
		return providers.Outcome{Kind: providers.Unknown, Code: codeUnreadableResponse, RetryAfter: failure.RetryAfter()}
	default:
		return unknown(codeConnectionLost)
	}
}

// outcomeOfProblem maps an error in PayPal's own words.
func outcomeOfProblem(kind callKind, failure *callError) providers.Outcome {
	code := failure.problem.issue()
	switch failure.Status {
	case http.StatusForbidden:
		return providers.Outcome{Kind: providers.Busy, Code: providers.CodeCredentialsRefused, RetryAfter: operatorDelay}
	case http.StatusConflict, http.StatusTooManyRequests:
		return providers.Outcome{Kind: providers.Busy, Code: code, RetryAfter: failure.RetryAfter()}
	case http.StatusNotFound:
		if kind != chargeCall { // a charge asks for nothing that there is already
			return providers.Outcome{Kind: providers.NotFound, Code: code}
		}
	}
	if outcome, ok := outcomeOfIssue(kind, failure); ok {
		return outcome
	}
	return providers.Outcome{Kind: providers.Rejected, Code: code, Detail: failure.problem.refusedField()}
}

// meaningful are the meanings that only one kind of call has an answer to; on any other they say that the request is wrong.
var meaningful = map[meaning]callKind{
	meansGone: captureCall, meansCaptured: voidCall, meansVoided: voidCall, meansRefunded: refundCall,
}

func (m meaning) matters(kind callKind) bool {
	only, limited := meaningful[m]
	return !limited || only == kind
}

// outcomeOfIssue tells what one of the issues in the table means for a call; ok is false if it only says that the request is wrong.
// The two that the adapter answers with a look at the order (meansWait, meansLook) are Unknown here, for calls that do not expect
// them.
func outcomeOfIssue(kind callKind, failure *callError) (outcome providers.Outcome, ok bool) {
	code := failure.problem.issue()
	found := meanings[code]
	if !found.matters(kind) {
		return providers.Outcome{}, false
	}
	switch found {
	case meansDeclined, meansDeclinedHard:
		decline := &providers.Decline{Code: code, Hard: found == meansDeclinedHard}
		outcome = providers.Outcome{Kind: providers.Declined, Code: code, Decline: decline}
	case meansBusy:
		outcome = providers.Outcome{Kind: providers.Busy, Code: code, RetryAfter: max(failure.RetryAfter(), operatorDelay)}
	case meansWait, meansLook:
		outcome = unknown(code)
	case meansUsedBefore:
		outcome = unknown(providers.CodeIdempotencyMismatch)
	case meansExpired:
		outcome = providers.Outcome{Kind: providers.Canceled, Code: expiredCode(kind, code)}
	case meansGone:
		outcome = providers.Outcome{Kind: providers.Canceled, Code: code}
	case meansCaptured:
		outcome = providers.Outcome{Kind: providers.Rejected, Code: providers.CodeAlreadyCaptured}
	case meansVoided:
		outcome = providers.Outcome{Kind: providers.Succeeded, Code: codeAlreadyVoided}
	case meansRefunded:
		// The customer has all the money back, which is what was wanted. No reference and no money: this call gave nothing back, so
		// that whoever adds up refunds does not count it twice.
		outcome = providers.Outcome{Kind: providers.Succeeded, Code: providers.CodeAlreadyRefunded}
	default:
		return providers.Outcome{}, false
	}
	return outcome, true
}

func expiredCode(kind callKind, code string) string {
	if kind == captureCall {
		return providers.CodeAuthorizationExpired
	}
	return code
}

// meansOf is what the issue of a failed call means; meansRejected for a call that failed otherwise.
func meansOf(err error) (meaning, *problem) {
	failure, ok := errors.AsType[*callError](err)
	if !ok || failure.problem == nil || failure.Status != http.StatusUnprocessableEntity {
		return meansRejected, nil
	}
	return meanings[failure.problem.issue()], failure.problem
}

// issue is the finest code that PayPal gave: the first issue, or else the error's name.
func (p *problem) issue() string {
	if len(p.Details) > 0 && p.Details[0].Issue != "" {
		return safeCode(p.Details[0].Issue)
	}
	return p.Name
}

// refusedField says which part of the request PayPal refused, in our words: PayPal's own quote what was sent.
func (p *problem) refusedField() string {
	if len(p.Details) == 0 || !fieldForm.MatchString(p.Details[0].Field) {
		return ""
	}
	return "PayPal refused the field " + p.Details[0].Field + " (" + p.issue() + ")"
}
