package saga

import (
	"time"

	"paysaga/providers"
)

// FoundRefund is a refund of a completed order that a provider gave, by its own list, and that nobody here asked for.
type FoundRefund struct {
	Reference string           // the provider's id of it
	Key       providers.SubKey // of the call that made it; empty where the provider does not tell, or nobody of ours did
	Amount    int64            // minor units of the order's currency
	At        time.Time
}

// OtherPayment is a payment that a provider took for an order beside the one which the order knows.
type OtherPayment struct {
	Provider  string
	Reference string           // the provider's id of the payment
	Key       providers.SubKey // that it bears: of a charge of the order
	Amount    int64            // minor units of the order's currency
	// Instead is what is given back where this one turns out to be the order's own: of two that bear one key, a list that names payments
	// otherwise than the calls do cannot tell which is which.
	Instead *OtherPayment
}
