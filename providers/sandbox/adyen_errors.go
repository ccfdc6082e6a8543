package sandbox

import (
	"fmt"
	"net/http"
)

const (
	transientHeader = "Transient-Error" // HTTP header names know no case; Adyen writes transient-error
	adyenValidation = "validation"
	adyenSecurity   = "security"
	adyenInternal   = "internal"
)

func (e *adyenError) answer() answer {
	given := jsonAnswer(e.Status, e)
	if e.transient {
		given = given.with(transientHeader, "true")
	}
	return given
}

// adyenInvalid is a 422: the request can be read and makes no sense.
func adyenInvalid(code, format string, arguments ...any) *adyenError {
	return &adyenError{
		Status: http.StatusUnprocessableEntity, ErrorCode: code, ErrorType: adyenValidation, Message: fmt.Sprintf(format, arguments...),
	}
}

// adyenMalformed is a 400: the body does not have the shape of its kind.
func adyenMalformed(format string, arguments ...any) *adyenError {
	refusal := adyenInvalid("702", format, arguments...)
	refusal.Status = http.StatusBadRequest
	return refusal
}

// adyenKeyBusy says that the key is taken: by a call that still runs, or by one to another endpoint.
func adyenKeyBusy() *adyenError {
	refusal := adyenInvalid("704", "request already processed or in progress")
	refusal.unsaved = true
	return refusal
}

func adyenForbidden(status int, code, message string) *adyenError {
	return &adyenError{Status: status, ErrorCode: code, ErrorType: adyenSecurity, Message: message, unsaved: true}
}

// adyenFull is not Adyen's: it is how the sandbox refuses to go past its bounds.
func adyenFull() *adyenError {
	return &adyenError{
		Status: http.StatusServiceUnavailable, ErrorCode: "000", ErrorType: adyenInternal, unsaved: true,
		Message: "The sandbox is full: nothing was done. Empty it with POST /_sandbox/reset.",
	}
}

// adyenDialect is how Adyen words what faults answer. A 500 says nothing of being transient: Adyen does not when it knows
// no more than the client.
func adyenDialect() dialect {
	internal := &adyenError{
		Status: http.StatusInternalServerError, ErrorCode: "000", ErrorType: adyenInternal, Message: "Internal error",
	}
	limited := &adyenError{
		Status: http.StatusTooManyRequests, ErrorCode: "000", ErrorType: adyenValidation, Message: "Too many requests", transient: true,
	}
	down := &adyenError{
		Status: http.StatusServiceUnavailable, ErrorCode: "703", ErrorType: adyenInternal,
		Message: "Required resource temporarily unavailable", transient: true,
	}
	return dialect{
		internalError: internal.answer(),
		rateLimited:   limited.answer().with("Retry-After", "1"),
		inProgress:    adyenKeyBusy().answer(),
		keyStoreDown:  down.answer(),
	}
}
