package saga

import "time"

// FoundRefund is a refund of a completed order that a provider gave, by its own list, and that nobody here asked for.
type FoundRefund struct {
	Reference string // the provider's id of it
	Amount    int64  // minor units of the order's currency
	At        time.Time
}

// OtherPayment is a payment that a provider took for an order beside the one which the order knows.
type OtherPayment struct {
	Provider  string
	Reference string // the provider's id of the payment
	Amount    int64  // minor units of the order's currency
}
