package adyen

import (
	"context"
	"errors"
	"net/http"
	"strings"
	"time"

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
	codeUnreadableResponse = "unreadable_response"
	codeServerError        = "server_error"
)

// The codes of calls that Adyen did not handle, with Busy.
const (
	codeInProgress  = "request_in_progress"
	codeStoreDown   = "idempotency_store_unavailable"
	codeRateLimited = "rate_limited"
)

// The errorCodes to which there is a reaction.
const (
	errorStoreDown   = "703" // the memory for idempotency keys is down; nothing was done
	errorInProgress  = "704" // the first call under the key still runs; comes with 409 or 422
	errorUnsupported = "905" // the account has no such payment method; comes with 500, and 905_1, 905_3
)

const (
	headerTransient           = "Transient-Error" // whether the same call is to be made again, under the same key
	transientYes, transientNo = "true", "false"
	typeConfiguration         = "configuration" // an errorType
	separatorOfVariant        = "_"             // of an errorCode: 905_1
)

// operatorDelay is the pause before a call that waits for people is worth repeating: short enough that orders go on within a
// minute after a key was put right, long enough to not knock on a closed door.
const operatorDelay = 30 * time.Second

// outcomeOfError maps every way in which a call can fail. It is the only such map.
//
// The rule behind it: a call did nothing only if Adyen says so in its own words, or if no byte of it was sent. All else is
// Unknown, and the saga asks again with the same key, waits for the webhook, or undoes.
func outcomeOfError(err error) providers.Outcome {
	failure, ok := errors.AsType[*callError](err)
	if !ok {
		return unknown(codeConnectionLost)
	}
	switch {
	case errors.Is(failure, context.Canceled):
		return unknown(codeHungUp)
	case failure.NothingSent:
		return providers.Outcome{Kind: providers.Busy, Code: providers.CodeUnreachable}
	case safeCode(failure.refusal.ErrorCode) != "":
		return outcomeOfAnswer(failure)
	case failure.Status >= http.StatusInternalServerError:
		// Whatever the body was: a load balancer's page, half of a JSON, nothing.
		return outcomeOfGatewayError(failure)
	default:
		return outcomeOfBrokenAnswer(failure)
	}
}

// outcomeOfBrokenAnswer maps what is no answer of Adyen's: always Unknown, the code is for the timeline.
func outcomeOfBrokenAnswer(failure *callError) providers.Outcome {
	switch {
	case errors.Is(failure, wire.ErrBodyTooLarge):
		return unknown(codeBodyTooLarge)
	case errors.Is(failure, wire.ErrRedirected):
		return unknown(codeRedirected)
	case errors.Is(failure, errOtherKey):
		return unknown(providers.CodeOtherPayment)
	case failure.TimedOut():
		return unknown(codeTimeout)
	case failure.Status != 0:
		// A status without Adyen's words, a 200 with a broken body among them, or a 4xx by something in between.
		return providers.Outcome{Kind: providers.Unknown, Code: codeUnreadableResponse, RetryAfter: failure.RetryAfter()}
	default:
		return unknown(codeConnectionLost)
	}
}

// outcomeOfAnswer maps an error in Adyen's own words.
func outcomeOfAnswer(failure *callError) providers.Outcome {
	code := failure.refusal.ErrorCode
	busy := providers.Outcome{Kind: providers.Busy, Code: code, RetryAfter: failure.RetryAfter()}
	switch {
	case failure.Status == http.StatusUnauthorized || failure.Status == http.StatusForbidden:
		return providers.Outcome{Kind: providers.Busy, Code: providers.CodeCredentialsRefused, RetryAfter: operatorDelay}
	case code == errorInProgress:
		busy.Code = codeInProgress
		return busy
	case code == errorStoreDown:
		busy.Code = codeStoreDown
		return busy
	case failure.Status >= http.StatusInternalServerError:
		return outcomeOfServerError(failure)
	case failure.Status == http.StatusTooManyRequests:
		busy.Code = codeRateLimited
		return busy
	case failure.Status == http.StatusConflict || isTransient(failure.Header):
		return busy
	default:
		return outcomeOfRefusal(failure)
	}
}

// outcomeOfServerError maps a 5xx in Adyen's words. Transient-Error: true asks for the same call again. Without it the answer is
// kept under the key and a repeat brings it back for ever, while the bank may have acted: CodeServerErrorFinal. One 5xx is a plain
// refusal: the account has no such payment method, so no bank was asked.
func outcomeOfServerError(failure *callError) providers.Outcome {
	base, _, _ := strings.Cut(failure.refusal.ErrorCode, separatorOfVariant)
	switch {
	case isTransient(failure.Header):
		return providers.Outcome{Kind: providers.Unknown, Code: codeServerError, RetryAfter: failure.RetryAfter()}
	case base == errorUnsupported && failure.refusal.ErrorType == typeConfiguration:
		return rejected(failure.refusal)
	default:
		return unknown(providers.CodeServerErrorFinal)
	}
}

// outcomeOfGatewayError maps a 5xx that is not in Adyen's words: most likely it never reached Adyen, and asking again under the
// same key tells. Only an explicit Transient-Error: false says otherwise.
func outcomeOfGatewayError(failure *callError) providers.Outcome {
	if failure.Header.Get(headerTransient) == transientNo {
		return unknown(providers.CodeServerErrorFinal)
	}
	return providers.Outcome{Kind: providers.Unknown, Code: codeServerError, RetryAfter: failure.RetryAfter()}
}

// outcomeOfRefusal maps an invalid request. Adyen validates before it does anything; other statuses than these are none of its
// validation.
func outcomeOfRefusal(failure *callError) providers.Outcome {
	switch failure.Status {
	case http.StatusBadRequest, http.StatusNotFound, http.StatusRequestEntityTooLarge, http.StatusUnsupportedMediaType,
		http.StatusUnprocessableEntity:
		return rejected(failure.refusal)
	default:
		return unknown(codeUnreadableResponse)
	}
}

// meanings are what Adyen's more frequent errors are about, for the shop's developer.
var meanings = map[string]string{
	"101":    "the card number is invalid",
	"103":    "the card's security code is invalid",
	"130":    "the reference is missing",
	"137":    "the amount is invalid",
	"138":    "the currency is not supported",
	"167":    "there is no such payment",
	"177":    "the metadata is too large",
	"702":    "the request is not understood",
	"800":    "there is no such stored payment method",
	"803":    "there is no such stored payment method",
	"905":    "the merchant account has no such payment method",
	"14_030": "the return URL is missing",
}

// rejected says what Adyen refused, in our words: Adyen's own can quote what was sent.
func rejected(refused serviceError) providers.Outcome {
	detail := "Adyen refused the request (error " + refused.ErrorCode + ")"
	base, _, _ := strings.Cut(refused.ErrorCode, separatorOfVariant)
	if meaning, ok := meanings[refused.ErrorCode]; ok {
		detail += ": " + meaning
	} else if meaning, ok := meanings[base]; ok {
		detail += ": " + meaning
	}
	return providers.Outcome{Kind: providers.Rejected, Code: refused.ErrorCode, Detail: detail}
}
