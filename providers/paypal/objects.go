package paypal

import (
	"strings"
	"time"

	"paysaga/providers"
)

// PayPal's objects, as far as they are read or sent. Fields that decide nothing are left out.

type amount struct {
	Currency string `json:"currency_code"`
	Value    string `json:"value"`
}

type link struct {
	Href string `json:"href"`
	Rel  string `json:"rel"`
}

type order struct {
	ID            string         `json:"id"`
	Intent        string         `json:"intent"`
	Status        string         `json:"status"`
	PurchaseUnits []purchaseUnit `json:"purchase_units"`
	Links         []link         `json:"links"`
}

type purchaseUnit struct {
	Amount    *amount  `json:"amount"`
	CustomID  string   `json:"custom_id"`
	InvoiceID string   `json:"invoice_id"`
	Payments  payments `json:"payments"`
}

type payments struct {
	Authorizations []authorization `json:"authorizations"`
	Captures       []capture       `json:"captures"`
	Refunds        []refund        `json:"refunds"`
}

// stamp is a time in an answer. PayPal writes "+00:00" and "+0000", and none of its times is worth losing an answer for: one that
// cannot be read is the zero time.
type stamp struct{ time.Time }

// UnmarshalJSON never fails.
func (s *stamp) UnmarshalJSON(text []byte) error {
	quoted := strings.Trim(string(text), `"`)
	for _, layout := range []string{time.RFC3339, "2006-01-02T15:04:05-0700"} {
		if read, err := time.Parse(layout, quoted); err == nil {
			s.Time = read
			return nil
		}
	}
	s.Time = time.Time{}
	return nil
}

type statusDetails struct {
	Reason string `json:"reason"`
}

type processorResponse struct {
	Code   string `json:"response_code"`
	Advice string `json:"payment_advice_code"`
}

type supplementaryData struct {
	Related relatedIDs `json:"related_ids"`
}

type relatedIDs struct {
	OrderID         string `json:"order_id"`
	AuthorizationID string `json:"authorization_id"`
}

type authorization struct {
	ID         string            `json:"id"`
	Status     string            `json:"status"`
	Details    statusDetails     `json:"status_details"`
	Amount     *amount           `json:"amount"`
	Processor  processorResponse `json:"processor_response"`
	UpdateTime stamp             `json:"update_time"`
	Expires    stamp             `json:"expiration_time"`
	Data       supplementaryData `json:"supplementary_data"`
}

type capture struct {
	ID        string            `json:"id"`
	Status    string            `json:"status"`
	Details   statusDetails     `json:"status_details"`
	Amount    *amount           `json:"amount"`
	InvoiceID string            `json:"invoice_id"`
	Final     bool              `json:"final_capture"`
	Processor processorResponse `json:"processor_response"`
	Data      supplementaryData `json:"supplementary_data"`
}

type refund struct {
	ID        string        `json:"id"`
	Status    string        `json:"status"`
	Details   statusDetails `json:"status_details"`
	Amount    *amount       `json:"amount"`
	InvoiceID string        `json:"invoice_id"`
	Links     []link        `json:"links"`
}

// isOf tells that a refund is of this capture, by its link upward. A refund without such a link is taken for one of it.
func (r refund) isOf(captureID string) bool {
	for _, l := range r.Links {
		if l.Rel == "up" && strings.Contains(l.Href, "/captures/") {
			return strings.HasSuffix(l.Href, "/captures/"+captureID)
		}
	}
	return true
}

// unit is the order's one purchase unit: this adapter never makes another number of them.
func (o *order) unit() (*purchaseUnit, bool) {
	if o == nil || !idForm.MatchString(o.ID) || len(o.PurchaseUnits) != 1 {
		return nil, false
	}
	return &o.PurchaseUnits[0], true
}

// belongsTo tells that an order is not another attempt's. An order without our mark passes: an answer may leave it out.
func (o *order) belongsTo(key providers.SubKey) bool {
	unit, ok := o.unit()
	return ok && (unit.InvoiceID == "" || unit.InvoiceID == string(key))
}

// belongsToSaga tells that an order is not another order's.
func (o *order) belongsToSaga(sagaKey string) bool {
	unit, ok := o.unit()
	return ok && (unit.CustomID == "" || sagaKey == "" || unit.CustomID == sagaKey)
}

type orderRequest struct {
	Intent        string              `json:"intent"`
	PurchaseUnits []purchaseRequest   `json:"purchase_units"`
	Source        map[string]fundings `json:"payment_source"`
}

type purchaseRequest struct {
	Amount    amount `json:"amount"`
	CustomID  string `json:"custom_id,omitempty"`
	InvoiceID string `json:"invoice_id"`
}

type fundings struct {
	VaultID    string      `json:"vault_id,omitempty"`
	Experience *experience `json:"experience_context,omitempty"`
}

type experience struct {
	ReturnURL  string `json:"return_url,omitempty"`
	CancelURL  string `json:"cancel_url,omitempty"`
	UserAction string `json:"user_action,omitempty"`
}

type captureBody struct {
	Amount    amount `json:"amount"`
	InvoiceID string `json:"invoice_id"`
	Final     bool   `json:"final_capture"`
}

type refundBody struct {
	Amount    amount `json:"amount"`
	InvoiceID string `json:"invoice_id"`
	CustomID  string `json:"custom_id,omitempty"`
}

type transactionPage struct {
	Details    []transaction `json:"transaction_details"`
	TotalItems *int          `json:"total_items"`
	TotalPages *int          `json:"total_pages"`
	Refreshed  stamp         `json:"last_refreshed_datetime"`
}

type transaction struct {
	Info transactionInfo `json:"transaction_info"`
}

type transactionInfo struct {
	ID            string  `json:"transaction_id"`
	ReferenceID   string  `json:"paypal_reference_id"`
	ReferenceType string  `json:"paypal_reference_id_type"`
	Event         string  `json:"transaction_event_code"`
	Began         stamp   `json:"transaction_initiation_date"`
	Amount        *amount `json:"transaction_amount"`
	Fee           *amount `json:"fee_amount"`
	Status        string  `json:"transaction_status"`
	InvoiceID     string  `json:"invoice_id"`
	CustomField   string  `json:"custom_field"`
}

// problem is PayPal's error in its own words.
type problem struct {
	Name    string          `json:"name"`
	Details []problemDetail `json:"details"`
	Links   []link          `json:"links"`
}

type problemDetail struct {
	Issue string `json:"issue"`
	Field string `json:"field"`
}
