package providers

import (
	"encoding/json"
	"time"
)

// ChargeRequest asks a provider to take a payment. The same request with the same Key may be sent any number of times
// inside the adapter's re-POST window, and takes the money at most once.
type ChargeRequest struct {
	Key     SubKey
	SagaKey string // goes into the provider's metadata, so that a look-up and a person can find the payment
	OrderID string
	Money   Money
	Method  string // the provider's token for the payment method, "pm_…"; never a card number
	// MethodData is the object that the provider's own client library made of a method (Adyen); nil when Method is used.
	MethodData json.RawMessage
	// CustomerReference is the shop's name for the customer, where a provider wants one (Adyen's shopperReference); empty: OrderID.
	CustomerReference string
	ReturnURL         string // where the provider sends the customer after a redirect; empty when the shop's page handles the action
	ManualCapture     bool   // hold the money only; Capture takes it
}

// ContinueRequest goes on with a payment after the customer acted. The outcome is the charge's.
type ContinueRequest struct {
	Key           SubKey // of this call
	ChargeKey     SubKey // of the charge that asked for the action
	Reference     string // of the payment
	Money         Money
	ManualCapture bool            // as in the charge
	Details       json.RawMessage // what the redirect or the client library brought; may be nil
}

// CaptureRequest takes money that is held, all or a part.
type CaptureRequest struct {
	Key       SubKey
	SagaKey   string
	Reference string // of the payment
	Money     Money
	Final     bool // no further capture will follow; what is left of the hold may be let go
}

// LookupRequest asks how an earlier charge stands. Reference is used when known; else the payment is searched for.
type LookupRequest struct {
	Key       SubKey
	SagaKey   string
	Reference string
	SentAt    time.Time // when the charge was first sent, by the database's clock
}

// VoidRequest asks to cancel a payment whose money is not taken yet. A repeat under the same Key must be the same in all fields: at
// Adyen they choose the call, and what a key does that is used on two calls is not documented.
type VoidRequest struct {
	Key           SubKey
	ChargeKey     SubKey // of the charge, by which Adyen finds a payment whose Reference is not known
	Reference     string // of the payment; empty when the charge's answer never came
	ManualCapture bool   // the money was only held, and no capture was asked for
}

// RefundRequest asks to give back money that was taken.
type RefundRequest struct {
	Key       SubKey
	SagaKey   string
	Reference string // of the payment
	Money     Money
}

// RefundLookupRequest asks how a refund stands. Reference is used when known; else the payment's refunds are searched for Key.
type RefundLookupRequest struct {
	Key       SubKey // of the refund
	Payment   string // the provider's reference of the payment
	Reference string // of the refund
}

// Windows are one provider's limits in time.
type Windows struct {
	// Repost is how long after its first sending a call may be sent again under the same key: the provider's memory less a
	// margin. Past it the same POST could charge a second time, so the payment is only looked up.
	Repost time.Duration
	// LookupDelay is how far behind the provider's search can be: a NotFound is conclusive only for an older payment.
	LookupDelay time.Duration
	// NoLookup says that the provider has no call that tells how a payment or a refund stands: only its notices do.
	NoLookup bool
	// OneCapture says that a hold can be captured once: what a capture leaves over is let go.
	OneCapture bool
	// StaysPayable says that a customer who was given a payment's client secret can still pay it after a decline, until it is voided.
	StaysPayable bool
	// Hold is how long the provider keeps authorized money before it lets go of it by itself.
	Hold time.Duration
}
