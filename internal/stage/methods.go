package stage

import "paysaga/saga"

// The kinds of payment methods, by how they end.
const (
	Pays       = "pays"
	Declines   = "declines"
	Asks       = "asks"       // the customer must act
	TakesTime  = "takes time" // the bank answers later
	RefundsLag = "refunds lag"
)

// Method is the sandbox's method of a kind.
func Method(provider, kind string) string {
	return map[string]map[string]string{
		Stripe: {
			Pays: "pm_card_visa", Declines: "pm_card_chargeDeclinedInsufficientFunds", Asks: "pm_card_authenticationRequired",
			TakesTime: "pm_usBankAccount_processing", RefundsLag: "pm_card_pendingRefund",
		},
		Adyen: {
			Pays: "stored_APPROVED", Declines: "stored_NOT_ENOUGH_BALANCE", Asks: "stored_REDIRECT", TakesTime: "stored_PENDING",
			RefundsLag: "stored_APPROVED",
		},
		PayPal: {
			Pays: "vault_COMPLETED", Declines: "vault_INSTRUMENT_DECLINED", Asks: "wallet", TakesTime: "vault_PENDING",
			RefundsLag: "vault_REFUND_PENDING",
		},
	}[provider][kind]
}

// What the shop sells, where nothing else is said.
const (
	Cup        = "cup"
	CupsOnHand = 1000
	Price      = 3998 // of two cups, in US cents: all three providers' slow methods take dollars
)

const returnURL = "https://shop.example/back"

// TwoCups is an order of two cups.
func TwoCups(provider, kind string) saga.Order {
	return saga.Order{
		Currency: "USD", Amount: Price, Items: []saga.Item{{SKU: Cup, Quantity: 2, UnitAmount: Price / 2}},
		Customer: saga.Customer{Reference: "customer-1"},
		Payment: saga.Payment{
			Provider: provider, Method: Method(provider, kind), ReturnURL: returnURL,
			Capture: saga.CaptureAutomatic, OnDecline: saga.DeclineRollsBack,
		},
	}
}

// OrderBody is an order as the API takes it.
func OrderBody(o saga.Order) map[string]any {
	items := make([]map[string]any, len(o.Items))
	for i, item := range o.Items {
		items[i] = map[string]any{"sku": item.SKU, "quantity": item.Quantity, "unit_amount": item.UnitAmount}
	}
	return map[string]any{
		"currency": o.Currency, "amount": o.Amount, "items": items,
		"customer": map[string]any{"reference": o.Customer.Reference},
		"payment": map[string]any{
			"provider": o.Payment.Provider, "method": o.Payment.Method, "capture": o.Payment.Capture, "on_decline": o.Payment.OnDecline,
			"return_url": o.Payment.ReturnURL,
		},
	}
}

// OtherPayment is a continue's body with another way to pay.
func OtherPayment(provider, kind string) map[string]any {
	return map[string]any{"payment": map[string]any{
		"provider": provider, "method": Method(provider, kind), "return_url": returnURL,
	}}
}

// Part is the body of a capture or a refund; amount 0 is all that there is.
func Part(amount int64) map[string]any {
	if amount == 0 {
		return map[string]any{}
	}
	return map[string]any{"amount": amount}
}

// CapturePart is the body of a capture of a part.
func CapturePart(amount int64, final bool) map[string]any {
	body := Part(amount)
	body["final"] = final
	return body
}
