package providers

import "time"

// ChargeRequest asks a provider to take a payment. The same request with the same Key may be sent any number of times
// inside the adapter's re-POST window, and takes the money at most once.
type ChargeRequest struct {
	Key       SubKey
	SagaKey   string // goes into the provider's metadata, so that a look-up and a person can find the payment
	OrderID   string
	Money     Money
	Method    string // the provider's token for the payment method, "pm_…"; never a card number
	ReturnURL string // where the provider sends the customer after a redirect; empty when the shop's page handles the action
}

// LookupRequest asks how an earlier charge stands. Reference is used when known; else the payment is searched for.
type LookupRequest struct {
	Key       SubKey
	SagaKey   string
	Reference string
	SentAt    time.Time // when the charge was first sent, by the database's clock
}

// VoidRequest asks to cancel a payment whose money is not taken yet.
type VoidRequest struct {
	Key       SubKey
	Reference string
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
}
