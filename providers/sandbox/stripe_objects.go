package sandbox

// The objects of Stripe's API as JSON. Fields that are always null here are there all the same: clients may count on them.

type paymentIntentObject struct {
	ID                        string           `json:"id"`
	Object                    string           `json:"object"`
	Amount                    int64            `json:"amount"`
	AmountCapturable          int64            `json:"amount_capturable"`
	AmountDetails             amountDetails    `json:"amount_details"`
	AmountReceived            int64            `json:"amount_received"`
	Application               *string          `json:"application"`
	ApplicationFeeAmount      *int64           `json:"application_fee_amount"`
	AutomaticPaymentMethods   *automaticObject `json:"automatic_payment_methods"`
	CanceledAt                *int64           `json:"canceled_at"`
	CancellationReason        *string          `json:"cancellation_reason"`
	CaptureMethod             string           `json:"capture_method"`
	ClientSecret              string           `json:"client_secret"`
	ConfirmationMethod        string           `json:"confirmation_method"`
	Created                   int64            `json:"created"`
	Currency                  string           `json:"currency"`
	Customer                  *string          `json:"customer"`
	Description               *string          `json:"description"`
	Invoice                   *string          `json:"invoice"`
	LastPaymentError          *stripeError     `json:"last_payment_error"`
	LatestCharge              any              `json:"latest_charge"` // an id, a chargeObject when expanded, or null
	Livemode                  bool             `json:"livemode"`
	Metadata                  metadata         `json:"metadata"`
	NextAction                *nextAction      `json:"next_action"`
	OnBehalfOf                *string          `json:"on_behalf_of"`
	PaymentMethod             any              `json:"payment_method"`
	PaymentMethodDetails      *string          `json:"payment_method_configuration_details"`
	PaymentMethodOptions      emptyObject      `json:"payment_method_options"`
	PaymentMethodTypes        []string         `json:"payment_method_types"`
	Processing                *string          `json:"processing"`
	ReceiptEmail              *string          `json:"receipt_email"`
	Review                    *string          `json:"review"`
	SetupFutureUsage          *string          `json:"setup_future_usage"`
	Shipping                  *string          `json:"shipping"`
	Source                    *string          `json:"source"`
	StatementDescriptor       *string          `json:"statement_descriptor"`
	StatementDescriptorSuffix *string          `json:"statement_descriptor_suffix"`
	Status                    string           `json:"status"`
	TransferData              *string          `json:"transfer_data"`
	TransferGroup             *string          `json:"transfer_group"`
}

// emptyObject is an object that says nothing here.
type emptyObject struct{}

type amountDetails struct {
	Tip emptyObject `json:"tip"`
}

type automaticObject struct {
	AllowRedirects string `json:"allow_redirects"`
	Enabled        bool   `json:"enabled"`
}

type nextAction struct {
	Type          string         `json:"type"`
	RedirectToURL *redirectToURL `json:"redirect_to_url,omitempty"`
	UseStripeSDK  map[string]any `json:"use_stripe_sdk,omitempty"`
}

type redirectToURL struct {
	ReturnURL string `json:"return_url"`
	URL       string `json:"url"`
}

type chargeObject struct {
	ID                            string         `json:"id"`
	Object                        string         `json:"object"`
	Amount                        int64          `json:"amount"`
	AmountCaptured                int64          `json:"amount_captured"`
	AmountRefunded                int64          `json:"amount_refunded"`
	Application                   *string        `json:"application"`
	ApplicationFee                *string        `json:"application_fee"`
	ApplicationFeeAmount          *int64         `json:"application_fee_amount"`
	BalanceTransaction            any            `json:"balance_transaction"` // an id, a balanceTransactionObject when expanded, or null
	BillingDetails                billingDetails `json:"billing_details"`
	CalculatedStatementDescriptor *string        `json:"calculated_statement_descriptor"`
	Captured                      bool           `json:"captured"`
	Created                       int64          `json:"created"`
	Currency                      string         `json:"currency"`
	Customer                      *string        `json:"customer"`
	Description                   *string        `json:"description"`
	Disputed                      bool           `json:"disputed"`
	FailureBalanceTransaction     *string        `json:"failure_balance_transaction"`
	FailureCode                   *string        `json:"failure_code"`
	FailureMessage                *string        `json:"failure_message"`
	FraudDetails                  emptyObject    `json:"fraud_details"`
	Invoice                       *string        `json:"invoice"`
	Livemode                      bool           `json:"livemode"`
	Metadata                      metadata       `json:"metadata"`
	OnBehalfOf                    *string        `json:"on_behalf_of"`
	Outcome                       *outcomeObject `json:"outcome"`
	Paid                          bool           `json:"paid"`
	PaymentIntent                 any            `json:"payment_intent"`
	PaymentMethod                 string         `json:"payment_method"`
	PaymentMethodDetails          map[string]any `json:"payment_method_details"`
	RadarOptions                  emptyObject    `json:"radar_options"`
	ReceiptEmail                  *string        `json:"receipt_email"`
	ReceiptNumber                 *string        `json:"receipt_number"`
	ReceiptURL                    *string        `json:"receipt_url"`
	Refunded                      bool           `json:"refunded"`
	Refunds                       *listObject    `json:"refunds,omitempty"` // only when expanded, since 2022-11-15
	Review                        *string        `json:"review"`
	Shipping                      *string        `json:"shipping"`
	Source                        *string        `json:"source"`
	SourceTransfer                *string        `json:"source_transfer"`
	StatementDescriptor           *string        `json:"statement_descriptor"`
	StatementDescriptorSuffix     *string        `json:"statement_descriptor_suffix"`
	Status                        string         `json:"status"`
	TransferData                  *string        `json:"transfer_data"`
	TransferGroup                 *string        `json:"transfer_group"`
}

type outcomeObject struct {
	NetworkStatus string  `json:"network_status"`
	Reason        *string `json:"reason"`
	RiskLevel     string  `json:"risk_level"`
	RiskScore     int     `json:"risk_score"`
	SellerMessage string  `json:"seller_message"`
	Type          string  `json:"type"`
}

type billingDetails struct {
	Address billingAddress `json:"address"`
	Email   *string        `json:"email"`
	Name    *string        `json:"name"`
	Phone   *string        `json:"phone"`
}

type billingAddress struct {
	City       *string `json:"city"`
	Country    *string `json:"country"`
	Line1      *string `json:"line1"`
	Line2      *string `json:"line2"`
	PostalCode *string `json:"postal_code"`
	State      *string `json:"state"`
}

type refundObject struct {
	ID                     string         `json:"id"`
	Object                 string         `json:"object"`
	Amount                 int64          `json:"amount"`
	BalanceTransaction     *string        `json:"balance_transaction"`
	Charge                 any            `json:"charge"`
	Created                int64          `json:"created"`
	Currency               string         `json:"currency"`
	DestinationDetails     map[string]any `json:"destination_details"`
	FailureReason          string         `json:"failure_reason,omitempty"`
	Metadata               metadata       `json:"metadata"`
	PaymentIntent          any            `json:"payment_intent"`
	Reason                 *string        `json:"reason"`
	ReceiptNumber          *string        `json:"receipt_number"`
	SourceTransferReversal *string        `json:"source_transfer_reversal"`
	Status                 string         `json:"status"`
	TransferReversal       *string        `json:"transfer_reversal"`
}

type paymentMethodObject struct {
	ID             string         `json:"id"`
	Object         string         `json:"object"`
	BillingDetails billingDetails `json:"billing_details"`
	Card           map[string]any `json:"card,omitempty"`
	Created        int64          `json:"created"`
	Customer       *string        `json:"customer"`
	Livemode       bool           `json:"livemode"`
	Metadata       emptyObject    `json:"metadata"`
	SEPADebit      map[string]any `json:"sepa_debit,omitempty"`
	Type           string         `json:"type"`
	USBankAccount  map[string]any `json:"us_bank_account,omitempty"`
}

type listObject struct {
	Object  string `json:"object"`
	Data    []any  `json:"data"`
	HasMore bool   `json:"has_more"`
	URL     string `json:"url"`
}

type searchObject struct {
	Object   string  `json:"object"`
	Data     []any   `json:"data"`
	HasMore  bool    `json:"has_more"`
	NextPage *string `json:"next_page"`
	URL      string  `json:"url"`
}

// orNull is the API's way to show an absent text.
func orNull(text string) *string {
	if text == "" {
		return nil
	}
	return &text
}

// shown is what goes out for a table: an empty object, never null.
func (m metadata) shown() metadata {
	if m == nil {
		return metadata{}
	}
	return m
}

// cardDetails are what payment methods and charges say alike of a card.
func (m *attachedMethod) cardDetails() map[string]any {
	return map[string]any{
		"brand": m.brand, "country": "US", "exp_month": 12, "exp_year": 2034, "fingerprint": "Sandbox" + m.last4, "funding": "credit",
		"last4": m.last4, "wallet": nil,
		"checks": map[string]any{"address_line1_check": nil, "address_postal_code_check": nil, "cvc_check": "pass"},
	}
}

func (m *attachedMethod) bankDetails() map[string]any {
	if m.kind == typeSEPADebit {
		return map[string]any{
			"bank_code": "37040044", "branch_code": "", "country": "DE", "fingerprint": "Sandbox" + m.last4, "last4": m.last4,
		}
	}
	return map[string]any{
		"account_holder_type": "individual", "account_type": "checking", "bank_name": "STRIPE TEST BANK",
		"fingerprint": "Sandbox" + m.last4, "last4": m.last4, "routing_number": "110000000",
	}
}

func (m *attachedMethod) object() *paymentMethodObject {
	object := &paymentMethodObject{ID: m.id, Object: objectPaymentMethod, Created: m.created, Type: m.kind}
	switch m.kind {
	case typeUSBankAccount:
		object.USBankAccount = m.bankDetails()
	case typeSEPADebit:
		object.SEPADebit = m.bankDetails()
	default:
		object.Card = m.cardDetails()
		object.Card["generated_from"] = nil
		object.Card["networks"] = map[string]any{"available": []string{m.brand}, "preferred": nil}
		object.Card["three_d_secure_usage"] = map[string]any{"supported": true}
	}
	return object
}

// tagged is Stripe's way to write a variant: its type, and its details under the type's name.
func tagged(kind string, details map[string]any) map[string]any {
	return map[string]any{fieldType: kind, kind: details}
}

// chargeDetails is a charge's payment_method_details.
func (m *attachedMethod) chargeDetails() map[string]any {
	if m.kind != typeCard {
		return tagged(m.kind, m.bankDetails())
	}
	card := m.cardDetails()
	card["network"], card["installments"], card["mandate"], card["three_d_secure"] = m.brand, nil, nil, nil
	return tagged(typeCard, card)
}
