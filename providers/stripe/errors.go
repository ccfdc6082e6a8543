package stripe

import (
	"context"
	"errors"
	"net/http"
	"time"

	sdk "github.com/stripe/stripe-go/v76"

	"paysaga/providers"
	"paysaga/providers/wire"
)

// The adapter's own codes for calls whose answer did not arrive or cannot be read, all with Unknown.
const (
	codeHungUp             = "hung_up" // our side gave up
	codeTimeout            = "timeout"
	codeConnectionLost     = "connection_lost"
	codeBodyTooLarge       = "body_too_large"
	codeRedirected         = "redirected"
	codeSearchIncomplete   = "search_incomplete"
	codeUnreadableResponse = "unreadable_response"
	codeServerError        = "server_error"
)

// operatorDelay is the pause before a call that waits for people or banks is worth repeating: short enough that orders go on
// within a minute after a key was put right, long enough to not knock on a closed door.
const operatorDelay = 30 * time.Second

// callKind is what a failed call was for: the same error can mean different things.
type callKind int

const (
	chargeCall callKind = iota
	lookupCall          // of one payment by its id
	searchCall
	listCall
	captureCall
	voidCall
	refundCall
)

// outcomeOfError maps every way in which a call can fail. It is the only such map.
//
// The rule behind it: a call did nothing only if Stripe says so in its own words, or if no byte of it was sent. All else is
// Unknown, and the saga asks again with the same key, or looks up.
func outcomeOfError(kind callKind, err error) providers.Outcome {
	outcome := outcomeOfCallError(kind, err)
	switch {
	case kind == lookupCall && outcome.Kind == providers.Rejected && outcome.Code == string(sdk.ErrorCodeResourceMissing):
		return providers.Outcome{Kind: providers.NotFound, Code: outcome.Code}
	case (kind == lookupCall || kind == searchCall) && outcome.Kind != providers.Busy:
		// A question's failure is about the question, not about the payment: a "400" must never be read as "not charged".
		return unknown(outcome.Code)
	default:
		return outcome
	}
}

func outcomeOfCallError(kind callKind, err error) providers.Outcome {
	failure, ok := errors.AsType[*wire.CallError](err)
	if !ok {
		return unknown(codeConnectionLost)
	}
	answer, answered := errors.AsType[*sdk.Error](failure.Cause)
	switch {
	case errors.Is(failure.Cause, context.Canceled):
		return unknown(codeHungUp)
	case failure.NothingSent:
		return providers.Outcome{Kind: providers.Busy, Code: providers.CodeUnreachable}
	case answered && answer.Type != "":
		return outcomeOfAnswer(kind, failure, answer)
	case failure.Status >= http.StatusInternalServerError:
		// Whatever the body was: a load balancer's page, half of a JSON, nothing.
		return outcomeOfServerError(failure)
	default:
		return outcomeOfBrokenAnswer(failure)
	}
}

// outcomeOfBrokenAnswer maps what is no answer of Stripe's: always Unknown, the code is for the timeline.
func outcomeOfBrokenAnswer(failure *wire.CallError) providers.Outcome {
	switch {
	case errors.Is(failure.Cause, wire.ErrBodyTooLarge):
		return unknown(codeBodyTooLarge)
	case errors.Is(failure.Cause, wire.ErrRedirected):
		return unknown(codeRedirected)
	case errors.Is(failure.Cause, errTooManyHits):
		return unknown(codeSearchIncomplete)
	case failure.TimedOut():
		return unknown(codeTimeout)
	case failure.Status != 0:
		// A status without Stripe's words, a 200 with a broken body among them, or a 4xx by something in between.
		return providers.Outcome{Kind: providers.Unknown, Code: codeUnreadableResponse, RetryAfter: failure.RetryAfter()}
	default:
		return unknown(codeConnectionLost)
	}
}

// outcomeOfAnswer maps an error in Stripe's own words.
func outcomeOfAnswer(kind callKind, failure *wire.CallError, answer *sdk.Error) providers.Outcome {
	code := codeOf(answer)
	switch {
	case failure.Status >= http.StatusInternalServerError || answer.Type == sdk.ErrorTypeAPI:
		return outcomeOfServerError(failure)
	case answer.Type == sdk.ErrorTypeIdempotency && failure.Status != http.StatusConflict:
		// This call did nothing, but its key has been used: an earlier call under it may have taken the money.
		return unknown(providers.CodeIdempotencyMismatch)
	case failure.Status == http.StatusUnauthorized || failure.Status == http.StatusForbidden:
		return providers.Outcome{Kind: providers.Busy, Code: providers.CodeCredentialsRefused, RetryAfter: operatorDelay}
	case asksToRepeat(failure):
		return providers.Outcome{Kind: providers.Busy, Code: code, RetryAfter: failure.RetryAfter()}
	case failure.Status == http.StatusPaymentRequired || answer.Type == sdk.ErrorTypeCard:
		return outcomeOfDecline(answer)
	case failure.Status >= http.StatusBadRequest:
		return outcomeOfRefusal(kind, code, answer)
	default:
		return unknown(codeUnreadableResponse)
	}
}

// asksToRepeat tells that Stripe did nothing now: idempotency_key_in_use and lock_timeout are a 409 (the latter also a 429), rate
// limits a 429, and Stripe-Should-Retry overrides any status.
func asksToRepeat(failure *wire.CallError) bool {
	return failure.Status == http.StatusConflict || failure.Status == http.StatusTooManyRequests ||
		failure.Header.Get("Stripe-Should-Retry") == "true"
}

// outcomeOfServerError is Unknown, always: a 500 can come after the money moved. The code says whether the same call can help.
func outcomeOfServerError(failure *wire.CallError) providers.Outcome {
	outcome := providers.Outcome{Kind: providers.Unknown, Code: codeServerError, RetryAfter: failure.RetryAfter()}
	switch {
	case failure.Header.Get("Idempotent-Replayed") == "true":
		outcome.Code = providers.CodeServerErrorReplayed
	case failure.Header.Get("Stripe-Should-Retry") == "false":
		outcome.Code = providers.CodeServerErrorFinal
	}
	return outcome
}

// outcomeOfDecline maps a card error. The payment stays at Stripe in requires_payment_method and holds no money; if the
// payment in the answer says anything else, the answer contradicts itself.
func outcomeOfDecline(answer *sdk.Error) providers.Outcome {
	outcome := declined(answer)
	payment := answer.PaymentIntent
	if payment == nil {
		return outcome
	}
	if outcome.Reference = safeID(payment.ID); outcome.Reference == "" {
		return outcome
	}
	switch payment.Status {
	case sdk.PaymentIntentStatusRequiresPaymentMethod, sdk.PaymentIntentStatusCanceled:
	case "":
		return outcome // only the id was given
	default:
		return providers.Outcome{Kind: providers.Unknown, Reference: outcome.Reference, Code: codeDeclineContradicted}
	}
	money, err := fromStripe(payment.Amount, string(payment.Currency))
	if err != nil {
		return providers.Outcome{Kind: providers.Unknown, Reference: outcome.Reference, Code: codeAmountUnreadable}
	}
	outcome.Money = money
	return outcome
}

// outcomeOfRefusal maps an invalid request: Rejected, but for the refusals that mean "it is so already" or "it is too late".
func outcomeOfRefusal(kind callKind, code string, answer *sdk.Error) providers.Outcome {
	if outcome, decided := outcomeOfState(kind, answer); decided {
		return outcome
	}
	switch {
	case kind == captureCall && answer.Code == sdk.ErrorCodeChargeExpiredForCapture:
		return providers.Outcome{Kind: providers.Canceled, Code: providers.CodeAuthorizationExpired}
	case kind == refundCall && answer.Code == sdk.ErrorCodeChargeAlreadyRefunded:
		// The customer has all the money back, which is what was wanted: an earlier call of ours whose answer was lost past the
		// key's memory, or a person in the dashboard. No reference and no money: this call gave nothing back, so that whoever adds up
		// refunds does not count it twice.
		return providers.Outcome{Kind: providers.Succeeded, Code: providers.CodeAlreadyRefunded}
	default:
		return providers.Outcome{Kind: providers.Rejected, Code: code, Detail: refusedParameter(code, answer.Param)}
	}
}

// outcomeOfState judges a refusal because of the payment's state by the payment, which such an answer shows.
func outcomeOfState(kind callKind, answer *sdk.Error) (outcome providers.Outcome, decided bool) {
	if answer.Code != sdk.ErrorCodePaymentIntentUnexpectedState || answer.PaymentIntent == nil {
		return providers.Outcome{}, false
	}
	switch kind {
	case voidCall:
		return outcomeWithoutVoid(answer.PaymentIntent)
	case captureCall:
		return outcomeWithoutCapture(answer.PaymentIntent)
	default:
		return providers.Outcome{}, false
	}
}

// refusedParameter says which part of the request Stripe refused, in our words: Stripe's own quote what was sent.
func refusedParameter(code, parameter string) string {
	if !parameterForm.MatchString(parameter) {
		return ""
	}
	return "Stripe refused the parameter " + parameter + " (" + code + ")"
}
