package adyen

import "encoding/json"

// The forms of Checkout v71 that the adapter writes and reads; field names and limits are by Adyen's API description.

// amount is an amount in Adyen's own minor units.
type amount struct {
	Currency string `json:"currency"`
	Value    int64  `json:"value"`
}

//nolint:tagliatelle // Adyen's names
type paymentRequest struct {
	MerchantAccount          string            `json:"merchantAccount"`
	Amount                   amount            `json:"amount"`
	Reference                string            `json:"reference"`
	PaymentMethod            json.RawMessage   `json:"paymentMethod"`
	ReturnURL                string            `json:"returnUrl"`
	Channel                  string            `json:"channel"`
	ShopperInteraction       string            `json:"shopperInteraction"`
	ShopperReference         string            `json:"shopperReference,omitempty"`
	RecurringProcessingModel string            `json:"recurringProcessingModel,omitempty"`
	CaptureDelayHours        *int              `json:"captureDelayHours,omitempty"`
	AdditionalData           map[string]string `json:"additionalData,omitempty"`
	Metadata                 map[string]string `json:"metadata"`

	BrowserInfo        json.RawMessage     `json:"browserInfo,omitempty"`
	Origin             string              `json:"origin,omitempty"`
	AuthenticationData *authenticationData `json:"authenticationData,omitempty"`
}

//nolint:tagliatelle // Adyen's names
type authenticationData struct {
	Request threeDSRequest `json:"threeDSRequestData"`
}

//nolint:tagliatelle // Adyen's names
type threeDSRequest struct {
	Native string `json:"nativeThreeDS"`
}

//nolint:tagliatelle // Adyen's names
type detailsRequest struct {
	Details     map[string]string `json:"details"`
	PaymentData string            `json:"paymentData,omitempty"`
}

// modificationRequest is a capture, cancel, reversal or refund.
//
//nolint:tagliatelle // Adyen's names
type modificationRequest struct {
	MerchantAccount  string  `json:"merchantAccount"`
	Reference        string  `json:"reference"`
	Amount           *amount `json:"amount,omitempty"`
	PaymentReference string  `json:"paymentReference,omitempty"`
}

//nolint:tagliatelle // Adyen's names
type paymentAnswer struct {
	PSPReference      string                     `json:"pspReference"`
	ResultCode        string                     `json:"resultCode"`
	MerchantReference string                     `json:"merchantReference"`
	RefusalReason     string                     `json:"refusalReason"`
	RefusalReasonCode string                     `json:"refusalReasonCode"`
	Amount            *amount                    `json:"amount"`
	Action            json.RawMessage            `json:"action"`
	AdditionalData    map[string]json.RawMessage `json:"additionalData"`
	Transient         bool                       `json:"-"` // of the header
}

//nolint:tagliatelle // Adyen's names
type modificationAnswer struct {
	PSPReference        string  `json:"pspReference"`
	Status              string  `json:"status"`
	PaymentPSPReference string  `json:"paymentPspReference"`
	PaymentReference    string  `json:"paymentReference"`
	Amount              *amount `json:"amount"`
}

// serviceError is Adyen's error. Its message is left out, as it can quote what was sent.
//
//nolint:tagliatelle // Adyen's names
type serviceError struct {
	ErrorCode string `json:"errorCode"`
	ErrorType string `json:"errorType"`
}

// text is a string in Adyen's additional data, or empty.
func text(data map[string]json.RawMessage, name string) string {
	var value string
	if err := json.Unmarshal(data[name], &value); err != nil {
		return ""
	}
	return value
}
