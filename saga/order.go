package saga

import (
	"encoding/json"
	"errors"
	"time"

	"github.com/google/uuid"

	"paysaga/providers"
)

// OrderStatus is how an order stands in the eyes of the shop.
type OrderStatus string

// The statuses of an order.
const (
	OrderProcessing OrderStatus = "processing" // accepted, not decided yet
	OrderAwaiting   OrderStatus = "awaiting"   // the customer must act, or the provider takes its time
	OrderConfirmed  OrderStatus = "confirmed"  // paid, stock sold
	OrderFailed     OrderStatus = "failed"     // refused; nothing taken, stock back
	OrderCanceled   OrderStatus = "canceled"   // given up after its deadline; nothing kept, stock back
	OrderInReview   OrderStatus = "in_review"  // a person must decide
)

// PaymentStatus is how the order's money stands.
type PaymentStatus string

// The statuses of a payment.
const (
	PaymentNone              PaymentStatus = "none"
	PaymentAuthorized        PaymentStatus = "authorized"
	PaymentCaptured          PaymentStatus = "captured"
	PaymentPartiallyRefunded PaymentStatus = "partially_refunded"
	PaymentRefunded          PaymentStatus = "refunded"
	PaymentVoided            PaymentStatus = "voided"
	PaymentDeclined          PaymentStatus = "declined"
)

// Order is what a customer buys and how it is paid. Amounts are in ISO 4217 minor units of Currency.
type Order struct {
	ID        uuid.UUID
	Status    OrderStatus
	Currency  string
	Amount    int64 // the sum of the lines
	Items     []Item
	Customer  Customer
	Metadata  map[string]string
	Payment   Payment
	CreatedAt time.Time
	UpdatedAt time.Time
}

// Money is the order's whole amount.
func (o Order) Money() providers.Money {
	return providers.Money{Amount: o.Amount, Currency: o.Currency}
}

// Item is one line of an order.
type Item struct {
	SKU        string
	Quantity   int64
	UnitAmount int64 // minor units, of one piece
}

// Customer is what the shop tells of its customer; both may be empty.
type Customer struct {
	Reference string
	Email     string
}

// CaptureMode is when the money is taken.
type CaptureMode string

// The capture modes.
const (
	CaptureAutomatic CaptureMode = "automatic" // with the charge
	CaptureManual    CaptureMode = "manual"    // the charge holds it, a request takes it later
)

// OnDecline is what becomes of an order whose payment is declined.
type OnDecline string

// What a decline can lead to.
const (
	DeclineRollsBack OnDecline = "roll_back" // the order is undone at once
	DeclineAwaits    OnDecline = "await"     // the stock stays reserved until the deadline, for another attempt
)

// Payment is how an order is paid and what came of it.
type Payment struct {
	Provider          string
	Method            string          // the provider's token; never shown again, never a card number
	MethodData        json.RawMessage // what the provider's client library made instead; kept sealed, and only until the charge is decided
	ReturnURL         string          // where the provider sends the customer after a redirect; may be empty
	Capture           CaptureMode
	OnDecline         OnDecline
	Status            PaymentStatus
	ProviderReference string
	CapturedAmount    int64 // minor units
	RefundedAmount    int64 // minor units, never above CapturedAmount
	RefundingAmount   int64 // minor units, asked for and not given back yet; with RefundedAmount never above CapturedAmount
	Decline           *providers.Decline
	NextAction        *providers.NextAction // only while the customer must act
}

// ErrNotFound tells that the account has no such thing; another account's things do not exist for it.
var ErrNotFound = errors.New("not found")

// OrderFilter narrows a list of orders. Empty fields do not narrow it.
type OrderFilter struct {
	Status   OrderStatus
	Provider string
	Before   *OrderPlace // only orders older than this one
	Limit    int
}

// OrderPlace is where an order stands in a list, newest first.
type OrderPlace struct {
	CreatedAt time.Time
	ID        uuid.UUID
}

// Timeline is an order's saga with the open findings about it.
type Timeline struct {
	Saga     Saga
	Findings []Finding
}
