package sandbox

import "strings"

// The result codes of a payment that the sandbox gives, and the words for what became of one later.
const (
	resultAuthorised = "Authorised"
	resultRefused    = "Refused"
	resultError      = "Error"
	resultCancelled  = "Cancelled"
	resultReceived   = "Received"
	resultRedirect   = "RedirectShopper"
	adyenExpired     = "Expired"
)

// adyenCode is how a test payment ends. Source: https://docs.adyen.com/development-resources/testing/result-code-testing/.
type adyenCode struct {
	result     string
	reason     string // refusalReason
	reasonCode string
}

// codeRedirect sends the customer to a page of the sandbox first.
const (
	codeApproved = "APPROVED"
	codeRedirect = "REDIRECT"
)

var adyenCodes = map[string]adyenCode{
	codeApproved:          {result: resultAuthorised},
	"DECLINED":            {resultRefused, "Refused", "2"},
	"REFERRAL":            {resultRefused, "Referral", "3"},
	"ERROR":               {resultError, "Acquirer Error", "4"},
	"BLOCK_CARD":          {resultRefused, "Blocked Card", "5"},
	"CARD_EXPIRED":        {resultRefused, "Expired Card", "6"},
	"INVALID_AMOUNT":      {resultRefused, "Invalid Amount", "7"},
	"INVALID_CARD_NUMBER": {resultRefused, "Invalid Card Number", "8"},
	"ISSUER_UNAVAILABLE":  {resultRefused, "Issuer Unavailable", "9"},
	"NOT_ENOUGH_BALANCE":  {resultRefused, "Not enough balance", "12"},
	"ACQUIRER_FRAUD":      {resultRefused, "Acquirer Fraud", "14"},
	"CANCELLED":           {resultCancelled, "Cancelled", "15"},
	"SHOPPER_CANCELLED":   {resultCancelled, "Shopper Cancelled", "16"},
	"PENDING":             {result: resultReceived},
	codeRedirect:          {result: resultRedirect},
}

// notAuthenticated is how a payment ends that the customer refuses on the bank's page.
var notAuthenticated = adyenCode{resultRefused, "3D Not Authenticated", "11"}

// Errors that a test payment can ask for in additionalData.RequestedTestErrorResponseCode.
const (
	testNoConnection = "NO_CONNECTION_AVAILABLE"
	testIOException  = "IOEXCEPTION_RECEIVED"
)

const storedPrefix = "stored_"

// chosenCode is how this payment shall end: what additionalData asks for, else what the stored method or the holder's name says.
func chosenCode(request *adyenPaymentRequest) (adyenCode, *adyenError) {
	if asked := request.AdditionalData["RequestedTestAcquirerResponseCode"]; asked != "" {
		if code, known := adyenCodes[asked]; known {
			return code, nil
		}
		return adyenCode{}, adyenInvalid("702", "RequestedTestAcquirerResponseCode %q is not one that the sandbox knows", asked)
	}
	method := request.PaymentMethod
	stored := method.Stored
	if stored == "" {
		stored = method.Recurring
	}
	if stored != "" {
		code, known := adyenCodes[strings.TrimPrefix(stored, storedPrefix)]
		if !known || !strings.HasPrefix(stored, storedPrefix) {
			return adyenCode{}, adyenInvalid("800", "Contract not found")
		}
		return code, nil
	}
	if refusal := checkTestCard(method); refusal != nil {
		return adyenCode{}, refusal
	}
	if code, known := adyenCodes[method.HolderName]; known {
		return code, nil
	}
	return adyenCodes[codeApproved], nil
}

// checkTestCard knows the one card that Adyen's own client library would encrypt, in its test form.
func checkTestCard(method *adyenMethod) *adyenError {
	switch {
	case method.Number != "":
		return adyenForbidden(403, "010", "Not allowed: the sandbox takes encrypted card fields only")
	case method.Encrypted == "":
		return adyenInvalid("14_004", "Missing payment method details: the sandbox knows stored methods and encrypted cards")
	case method.Encrypted != "test_4111111111111111":
		return adyenInvalid("101", "Invalid card number")
	case method.ExpiryMonth != "test_03" || method.ExpiryYear != "test_2030":
		return adyenInvalid("129", "Expiry Date Invalid")
	case method.SecurityCode != "" && method.SecurityCode != "test_737":
		return adyenInvalid("103", "CVC is not the right length")
	}
	return nil
}
