//nolint:tagliatelle // the names are Adyen's
package sandbox

import "encoding/json"

// The bodies of Adyen's Checkout API, version 71, as far as the sandbox reads and writes them.

type adyenAmount struct {
	Currency string `json:"currency"`
	Value    int64  `json:"value"`
}

type adyenPaymentRequest struct {
	Amount              *adyenAmount      `json:"amount"`
	MerchantAccount     string            `json:"merchantAccount"`
	Reference           string            `json:"reference"`
	ReturnURL           string            `json:"returnUrl"`
	PaymentMethod       *adyenMethod      `json:"paymentMethod"`
	AdditionalData      map[string]string `json:"additionalData"`
	CaptureDelayHours   *int              `json:"captureDelayHours"`
	ShopperInteraction  string            `json:"shopperInteraction"`
	StorePaymentMethod  *bool             `json:"storePaymentMethod"`
	ThreeDSAuthOnly     *bool             `json:"threeDSAuthenticationOnly"`
	Metadata            map[string]string `json:"metadata"`
	ShopperReference    string            `json:"shopperReference"`
	RecurringProcessing string            `json:"recurringProcessingModel"`
}

// adyenMethod is what the sandbox looks at in a payment method; Adyen has some 60 kinds with fields of their own.
type adyenMethod struct {
	Type          string `json:"type"`
	Stored        string `json:"storedPaymentMethodId"`
	Recurring     string `json:"recurringDetailReference"`
	HolderName    string `json:"holderName"`
	Number        string `json:"number"`
	Encrypted     string `json:"encryptedCardNumber"`
	EncryptedCard string `json:"encryptedCard"`
	ExpiryMonth   string `json:"encryptedExpiryMonth"`
	ExpiryYear    string `json:"encryptedExpiryYear"`
	SecurityCode  string `json:"encryptedSecurityCode"`
}

type adyenDetailsRequest struct {
	Details *adyenDetails `json:"details"`
}

type adyenDetails struct {
	RedirectResult       string `json:"redirectResult"`
	ReturnURLQueryString string `json:"returnUrlQueryString"`
}

type adyenModificationRequest struct {
	Amount               *adyenAmount `json:"amount"`
	MerchantAccount      string       `json:"merchantAccount"`
	Reference            string       `json:"reference"`
	PaymentReference     string       `json:"paymentReference"`
	CapturePSPReference  string       `json:"capturePspReference"`
	MerchantRefundReason string       `json:"merchantRefundReason"`
}

type adyenPaymentAnswer struct {
	AdditionalData    map[string]string    `json:"additionalData,omitempty"`
	PSPReference      string               `json:"pspReference"`
	RefusalReason     string               `json:"refusalReason,omitempty"`
	RefusalReasonCode string               `json:"refusalReasonCode,omitempty"`
	ResultCode        string               `json:"resultCode"`
	Amount            *adyenAmount         `json:"amount,omitempty"`
	MerchantReference string               `json:"merchantReference,omitempty"`
	PaymentMethod     *adyenMethodAnswer   `json:"paymentMethod,omitempty"`
	Action            *adyenRedirectAction `json:"action,omitempty"`
}

type adyenMethodAnswer struct {
	Brand string `json:"brand"`
	Type  string `json:"type"`
}

type adyenRedirectAction struct {
	PaymentMethodType string `json:"paymentMethodType"`
	URL               string `json:"url"`
	Method            string `json:"method"`
	Type              string `json:"type"`
}

type adyenModificationAnswer struct {
	MerchantAccount      string       `json:"merchantAccount"`
	PaymentPSPReference  string       `json:"paymentPspReference,omitempty"`
	PaymentReference     string       `json:"paymentReference,omitempty"`
	PSPReference         string       `json:"pspReference"`
	Reference            string       `json:"reference,omitempty"`
	Status               string       `json:"status"`
	Amount               *adyenAmount `json:"amount,omitempty"`
	CapturePSPReference  string       `json:"capturePspReference,omitempty"`
	MerchantRefundReason string       `json:"merchantRefundReason,omitempty"`
}

// adyenError is Adyen's ServiceError.
type adyenError struct {
	Status       int    `json:"status"`
	ErrorCode    string `json:"errorCode"`
	Message      string `json:"message"`
	ErrorType    string `json:"errorType"`
	PSPReference string `json:"pspReference,omitempty"`

	transient bool // Adyen says "send it again", and does not keep it under the key
	unsaved   bool // not kept under the key either
}

// The webhook.

type adyenNotification struct {
	Live  string               `json:"live"`
	Items []adyenNotifiedThing `json:"notificationItems"`
}

type adyenNotifiedThing struct {
	Item adyenItem `json:"NotificationRequestItem"`
}

type adyenItem struct {
	AdditionalData      map[string]string `json:"additionalData"`
	Amount              adyenAmount       `json:"amount"`
	EventCode           string            `json:"eventCode"`
	EventDate           string            `json:"eventDate"`
	MerchantAccountCode string            `json:"merchantAccountCode"`
	MerchantReference   string            `json:"merchantReference"`
	Operations          []string          `json:"operations,omitempty"`
	OriginalReference   string            `json:"originalReference,omitempty"`
	PaymentMethod       string            `json:"paymentMethod"`
	PSPReference        string            `json:"pspReference"`
	Reason              string            `json:"reason"`
	Success             string            `json:"success"`
}

// adyenFields are the fields of a body with whatever they hold.
type adyenFields map[string]json.RawMessage
