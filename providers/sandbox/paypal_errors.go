package sandbox

import (
	"net/http"
	"strings"
)

// paypalError is PayPal's error body.
type paypalError struct {
	status  int
	Name    string         `json:"name"`
	Message string         `json:"message"`
	DebugID string         `json:"debug_id"`
	Details []paypalDetail `json:"details,omitempty"`
	Links   []paypalLink   `json:"links,omitempty"`
}

type paypalDetail struct {
	Field       string `json:"field,omitempty"`
	Value       string `json:"value,omitempty"`
	Location    string `json:"location,omitempty"`
	Issue       string `json:"issue"`
	Description string `json:"description,omitempty"`
}

// paypalErrorNames are name and message by HTTP status.
var paypalErrorNames = map[int][2]string{
	http.StatusBadRequest: {"INVALID_REQUEST", "Request is not well-formed, syntactically incorrect, or violates schema."},
	http.StatusUnauthorized: {
		"AUTHENTICATION_FAILURE",
		"Authentication failed due to missing authorization header, or invalid authentication credentials.",
	},
	http.StatusForbidden:            {"NOT_AUTHORIZED", "Authorization failed due to insufficient permissions."},
	http.StatusNotFound:             {"RESOURCE_NOT_FOUND", "The specified resource does not exist."},
	http.StatusConflict:             {"RESOURCE_CONFLICT", "The server has detected a conflict while processing this request."},
	http.StatusUnsupportedMediaType: {"UNSUPPORTED_MEDIA_TYPE", "The server does not support the request payload's media type."},
	http.StatusUnprocessableEntity: {
		"UNPROCESSABLE_ENTITY",
		"The requested action could not be performed, semantically incorrect, or failed business validation.",
	},
	http.StatusTooManyRequests:     {"RATE_LIMIT_REACHED", "Too many requests. Blocked due to rate limiting."},
	http.StatusInternalServerError: {"INTERNAL_SERVER_ERROR", "An internal server error occurred."},
	http.StatusServiceUnavailable:  {"SERVICE_UNAVAILABLE", "Service Unavailable."},
}

// paypalIssues are PayPal's descriptions of issues that it words alike for all calls; the others go without.
var paypalIssues = map[string]string{
	"AMOUNT_MISMATCH": "Should equal item_total + tax_total + shipping + handling + insurance - shipping_discount " +
		"- discount.",
	"AUTHORIZATION_ALREADY_CAPTURED": "Authorization has previously been captured.",
	"AUTHORIZATION_DENIED":           "An denied authorization cannot be captured.",
	"AUTHORIZATION_EXPIRED":          "An expired authorization cannot be captured.",
	"AUTHORIZATION_VOIDED":           "A voided authorization cannot be captured or reauthorized. ",
	"AUTH_CAPTURE_CURRENCY_MISMATCH": "Currency of capture must be the same as currency of authorization.",
	"CANNOT_BE_VOIDED":               "A reauthorization cannot be voided. Please void the original parent authorization.",
	"CANNOT_BE_ZERO_OR_NEGATIVE": "Must be greater than zero. If the currency supports decimals, only two decimal place " +
		"precision is supported.",
	"CAPTURE_FULLY_REFUNDED": "The capture has already been fully refunded",
	"DECIMALS_NOT_SUPPORTED": "Currency does not support decimals. Please refer to " +
		"https://developer.paypal.com/docs/api/reference/currency-codes/ for more information.",
	"DECIMAL_PRECISION": "If the currency supports decimals, only two decimal place precision is supported.",
	"INSTRUMENT_DECLINED": "The instrument presented  was either declined by the processor or bank, or it can't be " +
		"used for this payment.",
	"INVALID_RESOURCE_ID":    "Specified resource ID does not exist. Please check the resource ID and try again.",
	"MALFORMED_REQUEST_JSON": "The request JSON is not well formed.",
	"MAX_CAPTURE_AMOUNT_EXCEEDED": "Capture amount exceeds allowable limit. Please contact customer service or your account " +
		"manager to request the " +
		"change to your overage limit. The default overage limit is 115%, which allows the sum of all captures to be up to " +
		"115% of the order amount. The ability to over capture is subjected to regulatory approvals.",
	"MAX_VALUE_EXCEEDED":    "Should be less than or equal to 999999999999999.99.",
	"NOT_SUPPORTED":         "This field is not currently supported.",
	"PAYER_ACTION_REQUIRED": "Transaction cannot complete successfully, instruct the buyer to return to PayPal.",
	"PAYPAL_REQUEST_ID_REQUIRED": "A PayPal-Request-Id is required if you are trying to process payment for an Order. Please specify a " +
		"PayPal-Request-Id or Create the Order without a 'payment_source' specified.",
	"PENDING_CAPTURE": "Cannot initiate a refund as the capture is pending. Capture is typically pending when the payer has funded the " +
		"transaction using e-check/bank funded.",
	"PREVIOUSLY_CAPTURED": "Authorization has been previously captured and hence cannot be voided.",
	"PREVIOUSLY_VOIDED":   "Authorization has been previously voided and hence cannot be voided again.",
	"PREVIOUS_REQUEST_IN_PROGRESS": "A previous request on this resource is currently in progress. Please wait for sometime " +
		"and try again. It is best " +
		"to space out the initial and the subsequent request(s) to avoid receiving this error.",
	"REFUND_AMOUNT_EXCEEDED": "The refund amount must be less than or equal to the capture amount that has not yet been " +
		"refunded.",
	"REFUND_CAPTURE_CURRENCY_MISMATCH": "Refund must be in the same currency as the capture",
	"REFUND_NOT_ALLOWED":               "Capture cannot be refunded.",
}

// paypalRefusal is an error without details.
func paypalRefusal(status int) *paypalError {
	words := paypalErrorNames[status]
	return &paypalError{status: status, Name: words[0], Message: words[1], DebugID: strings.ToLower(randomText(13))}
}

// paypalIssue is an error that names what is wrong, with the field when it is one field.
func paypalIssue(status int, issue, field string) *paypalError {
	refusal := paypalRefusal(status)
	detail := paypalDetail{Issue: issue, Description: paypalIssues[issue], Field: field}
	if field != "" {
		detail.Location = "body"
	}
	refusal.Details = []paypalDetail{detail}
	return refusal
}

// unprocessable is a 422.
func unprocessable(issue, field string) *paypalError {
	return paypalIssue(http.StatusUnprocessableEntity, issue, field)
}

func paypalBadRequest(issue, field string) *paypalError {
	return paypalIssue(http.StatusBadRequest, issue, field)
}

func paypalMissing() *paypalError { return paypalIssue(http.StatusNotFound, "INVALID_RESOURCE_ID", "") }

func (e *paypalError) answer() answer {
	return jsonAnswer(e.status, e).with("Paypal-Debug-Id", e.DebugID)
}

// paypalFull is not PayPal's: it is how the sandbox refuses to go past its bounds.
func paypalFull() *paypalError {
	refusal := paypalRefusal(http.StatusServiceUnavailable)
	refusal.Message = "The sandbox is full: nothing was done. Empty it with POST /_sandbox/reset."
	return refusal
}

func paypalBusy() *paypalError {
	return paypalIssue(http.StatusConflict, "PREVIOUS_REQUEST_IN_PROGRESS", "")
}

// paypalDialect is how PayPal words what faults answer.
func paypalDialect() dialect {
	return dialect{
		internalError: paypalRefusal(http.StatusInternalServerError).answer(),
		rateLimited:   paypalRefusal(http.StatusTooManyRequests).answer().with("Retry-After", "1"),
		inProgress:    paypalBusy().answer(),
		keyStoreDown:  paypalRefusal(http.StatusInternalServerError).answer(),
	}
}

// mockStatus is the HTTP status of an error that PayPal-Mock-Response asks for.
func mockStatus(code string) int {
	switch code {
	case "INTERNAL_SERVER_ERROR", "INTERNAL_SERVICE_ERROR":
		return http.StatusInternalServerError
	case "INVALID_RESOURCE_ID", "RESOURCE_NOT_FOUND":
		return http.StatusNotFound
	case "PERMISSION_DENIED", "NOT_AUTHORIZED":
		return http.StatusForbidden
	case "PREVIOUS_REQUEST_IN_PROGRESS":
		return http.StatusConflict
	case "RATE_LIMIT_REACHED":
		return http.StatusTooManyRequests
	case "SERVICE_UNAVAILABLE":
		return http.StatusServiceUnavailable
	case "MALFORMED_REQUEST_JSON", "MISSING_REQUIRED_PARAMETER", "INVALID_PARAMETER_VALUE", "INVALID_PARAMETER_SYNTAX":
		return http.StatusBadRequest
	default:
		return http.StatusUnprocessableEntity
	}
}
