package sandbox

import (
	"fmt"
	"net/http"
	"strings"
)

// stripeError is Stripe's error object, also used as last_payment_error.
type stripeError struct {
	status        int
	Type          string               `json:"type"`
	Code          string               `json:"code,omitempty"`
	DeclineCode   string               `json:"decline_code,omitempty"`
	Message       string               `json:"message"`
	Param         string               `json:"param,omitempty"`
	DocURL        string               `json:"doc_url,omitempty"`
	RequestLogURL string               `json:"request_log_url,omitempty"`
	Charge        string               `json:"charge,omitempty"`
	PaymentIntent *paymentIntentObject `json:"payment_intent,omitempty"`
	PaymentMethod *paymentMethodObject `json:"payment_method,omitempty"`
}

const (
	typeCardError      = "card_error"
	typeInvalidRequest = "invalid_request_error"
	typeIdempotency    = "idempotency_error"
	typeAPIError       = "api_error"
)

func (e *stripeError) answer(requestID string) answer {
	shown := *e
	if shown.Code != "" {
		shown.DocURL = "https://stripe.com/docs/error-codes/" + strings.ReplaceAll(shown.Code, "_", "-")
	}
	if requestID != "" {
		shown.RequestLogURL = "https://dashboard.stripe.com/test/logs/" + requestID
	}
	return jsonAnswer(e.status, map[string]any{"error": &shown})
}

// invalid is a 400; an empty code stays out, as Stripe names one for some refusals only.
func invalid(code, param, format string, arguments ...any) *stripeError {
	return &stripeError{
		status: http.StatusBadRequest, Type: typeInvalidRequest, Code: code, Param: param,
		Message: fmt.Sprintf(format, arguments...),
	}
}

func missingObject(kind, id, param string) *stripeError {
	refusal := invalid("resource_missing", param, "No such %s: '%s'", kind, id)
	if param == "intent" || param == "id" { // in the path, so the path does not exist
		refusal.status = http.StatusNotFound
	}
	return refusal
}

func unauthorized(format string, arguments ...any) *stripeError {
	return &stripeError{status: http.StatusUnauthorized, Type: typeInvalidRequest, Message: fmt.Sprintf(format, arguments...)}
}

// storeFull is not Stripe's: it is how the sandbox refuses to go past its bounds.
func storeFull() *stripeError {
	return &stripeError{
		status: http.StatusServiceUnavailable, Type: typeAPIError,
		Message: "The sandbox is full: nothing was done. Empty it with POST /_sandbox/reset.",
	}
}

func keyReused(record *keyRecord, how claim) *stripeError {
	message := "Keys for idempotent requests can only be used with the same parameters they were first used with."
	if how == claimOtherEndpoint {
		message = fmt.Sprintf("Keys for idempotent requests can only be used for the same endpoint they were first used for ('%s').",
			record.path)
	}
	return &stripeError{
		status: http.StatusBadRequest, Type: typeIdempotency,
		Message: message + fmt.Sprintf(" Try using a key other than '%s' if you meant to execute a different request.", record.key),
	}
}

func keyInUse(key string) *stripeError {
	return &stripeError{
		status: http.StatusConflict, Type: typeIdempotency, Code: "idempotency_key_in_use",
		Message: "There is currently another in-progress request using this Idempotent Key (that probably means you submitted twice, " +
			"and the other request is still going through): " + key + ". Please try again later.",
	}
}

// stripeDialect is how Stripe words what faults answer.
func stripeDialect(key, requestID string) dialect {
	internal := &stripeError{
		status: http.StatusInternalServerError, Type: typeAPIError,
		Message: "An unknown error occurred. We have been notified of the problem and are looking into it.",
	}
	limited := &stripeError{
		status: http.StatusTooManyRequests, Type: typeInvalidRequest, Code: "rate_limit",
		Message: "Request rate limit exceeded. Learn more about rate limits here https://stripe.com/docs/rate-limits.",
	}
	return dialect{
		internalError: internal.answer(requestID),
		rateLimited:   limited.answer(requestID).with("Retry-After", "1").with(shouldRetryHeader, "true"),
		inProgress:    keyInUse(key).answer(requestID).with(shouldRetryHeader, "true"),
	}
}

// decline is a card_error without the objects that go with it.
func decline(code, declineCode, message string) *stripeError {
	return &stripeError{
		status: http.StatusPaymentRequired, Type: typeCardError, Code: code, DeclineCode: declineCode, Message: message,
	}
}
