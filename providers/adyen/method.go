package adyen

import (
	"encoding/json"
	"regexp"
	"strings"

	"paysaga/providers"
)

const (
	// maxMethodDataBytes is over the longest field that Adyen's client library makes (sdkData: 50,000), several times.
	maxMethodDataBytes = 256 << 10
	// maxDetailsBytes is over the longest field that a customer's action brings (paymentData: 200,000).
	maxDetailsBytes = 512 << 10
	// maxOrigin is the longest origin that Adyen takes.
	maxOrigin = 80
	// typeCard is Adyen's name for all cards.
	typeCard = "scheme"
)

// storedForm is a storedPaymentMethodId: Adyen takes up to 64 characters.
var storedForm = regexp.MustCompile(`^[A-Za-z0-9_-]{1,64}$`)

// cardForm is 12 to 19 digits, grouped or not. Cards begin with 2 to 6. Adyen's older ids of stored methods are 16 digits as well,
// but begin with 8 or 9.
var cardForm = regexp.MustCompile(`^[2-6](?:[ -]?[0-9]){11,18}$`)

// rawCardFields are the fields of card data that is not encrypted. Whoever sends them is not allowed to have them.
var rawCardFields = []string{"number", "cvc"}

// paymentMethod is a method as it is sent, and what the client library tells beside it.
type paymentMethod struct {
	body        json.RawMessage
	stored      bool            // whether Adyen has it stored already
	browserInfo json.RawMessage // of the customer's browser, for 3-D Secure; nil for none
	origin      string          // of the page that can show 3-D Secure itself; empty for none
}

func checkMethod(method string) error {
	invalid := &providers.RequestError{Field: "payment.method"}
	switch {
	case method == "":
		invalid.Code, invalid.Detail = "method_missing", "is missing; the id of a stored payment method is needed"
	case isCardNumber(method):
		invalid.Code, invalid.Detail = "card_number_refused",
			"looks like a card number; card numbers are never accepted, only the id of a stored payment method"
	case !storedForm.MatchString(method):
		invalid.Code, invalid.Detail = "method_invalid", "must be the id of a stored payment method, up to 64 of A-Z a-z 0-9 _ -"
	default:
		return nil
	}
	return invalid
}

// methodOf makes the paymentMethod of a charge from the one of Method and MethodData that is used.
func methodOf(request providers.ChargeRequest) (paymentMethod, error) {
	if len(request.MethodData) == 0 {
		if err := checkMethod(request.Method); err != nil {
			return paymentMethod{}, err
		}
		body, err := json.Marshal(map[string]string{"type": typeCard, "storedPaymentMethodId": request.Method})
		return paymentMethod{body: body, stored: true}, err //nolint:wrapcheck // strings always have a form in JSON
	}
	if request.Method != "" {
		return paymentMethod{}, methodDataError("method_ambiguous", "and payment.method exclude each other")
	}
	return parseMethodData(request.MethodData)
}

// parseMethodData reads what the client library made: its whole state ({"paymentMethod":{…},"browserInfo":{…},"origin":"…"}), of which
// these three are taken, or the paymentMethod alone.
func parseMethodData(data json.RawMessage) (paymentMethod, error) {
	var fields map[string]json.RawMessage
	if len(data) > maxMethodDataBytes || json.Unmarshal(data, &fields) != nil {
		return paymentMethod{}, notOfTheLibrary()
	}
	inner, wrapped := fields["paymentMethod"]
	if !wrapped {
		return parsePaymentMethod(fields)
	}
	var chosen map[string]json.RawMessage
	if json.Unmarshal(inner, &chosen) != nil {
		return paymentMethod{}, notOfTheLibrary()
	}
	method, err := parsePaymentMethod(chosen)
	if err != nil {
		return paymentMethod{}, err
	}
	if method.browserInfo, err = parseBrowserInfo(fields["browserInfo"]); err != nil {
		return paymentMethod{}, err
	}
	if method.origin = text(fields, "origin"); method.origin != "" && (len(method.origin) > maxOrigin || !isWebPage(method.origin)) {
		return paymentMethod{}, methodDataError("method_data_invalid", "has an origin that is no web page of up to 80 characters")
	}
	return method, nil
}

func notOfTheLibrary() error {
	return methodDataError("method_data_invalid", "must be what Adyen's client library made, or its paymentMethod alone")
}

// parseBrowserInfo writes the object anew, as parsePaymentMethod does.
func parseBrowserInfo(data json.RawMessage) (json.RawMessage, error) {
	var fields map[string]json.RawMessage
	if len(data) == 0 {
		return nil, nil
	}
	if json.Unmarshal(data, &fields) != nil {
		return nil, methodDataError("method_data_invalid", "has a browserInfo that is no object")
	}
	if len(fields) == 0 {
		return nil, nil
	}
	body, err := json.Marshal(fields)
	if err != nil {
		return nil, notOfTheLibrary()
	}
	return body, nil
}

// parsePaymentMethod checks a paymentMethod and writes it anew: in one form whatever its spacing, and with each field once, so that
// nothing is sent that was not looked at.
func parsePaymentMethod(fields map[string]json.RawMessage) (paymentMethod, error) {
	if text(fields, "type") == "" {
		return paymentMethod{}, methodDataError("method_data_invalid", "must have a type")
	}
	for _, name := range rawCardFields {
		if _, given := fields[name]; given {
			return paymentMethod{}, methodDataError("card_number_refused", "holds card data that is not encrypted, which is never accepted")
		}
	}
	for name := range fields {
		if strings.HasPrefix(name, "encrypted") && isCardNumber(text(fields, name)) {
			return paymentMethod{}, methodDataError("card_number_refused", "holds a card number that is not encrypted, which is never accepted")
		}
	}
	body, err := json.Marshal(fields)
	if err != nil {
		return paymentMethod{}, notOfTheLibrary()
	}
	return paymentMethod{body: body, stored: text(fields, "storedPaymentMethodId") != ""}, nil
}

func methodDataError(code, detail string) error {
	return &providers.RequestError{Field: "payment.method_data", Code: code, Detail: detail}
}

// parseDetails reads what the customer's action brought: either the details alone, as a redirect's query gives them
// ({"redirectResult":"…"}), or the object of Adyen's client library ({"details":{…},"paymentData":"…"}).
func parseDetails(data json.RawMessage) (detailsRequest, error) {
	var fields map[string]json.RawMessage
	if len(data) > maxDetailsBytes || json.Unmarshal(data, &fields) != nil || len(fields) == 0 {
		return detailsRequest{}, detailsError()
	}
	request := detailsRequest{PaymentData: text(fields, "paymentData")}
	inner, wrapped := fields["details"]
	if !wrapped {
		inner, request.PaymentData = data, ""
	}
	if json.Unmarshal(inner, &request.Details) != nil || len(request.Details) == 0 {
		return detailsRequest{}, detailsError()
	}
	return request, nil
}

func detailsError() error {
	return &providers.RequestError{
		Field: "details", Code: "details_invalid",
		Detail: "must be the details that the redirect or Adyen's client library brought, an object of strings",
	}
}

// isCardNumber tells digits that pass the check of ISO/IEC 7812 which all card numbers pass, and one in ten others.
func isCardNumber(value string) bool {
	value = strings.TrimSpace(value)
	if !cardForm.MatchString(value) {
		return false
	}
	sum, double := 0, false
	for i := len(value) - 1; i >= 0; i-- {
		if value[i] < '0' || value[i] > '9' {
			continue
		}
		digit := int(value[i] - '0')
		if double {
			digit = digit*2 - digit/5*9
		}
		sum, double = sum+digit, !double
	}
	return sum%10 == 0
}
