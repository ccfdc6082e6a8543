package httpapi

// Operation says which fields of a request's body mean its intent. Those go into its fingerprint, beside what the path names: the order,
// or the SKU. The documents show these lists, and the tests hold the fingerprints against them.
type Operation struct {
	Endpoint      string
	Significant   []string // "items.sku" is a field of each line; what is an object as a whole has one name
	Insignificant []string // all others that the contract knows
}

// amountField is in the bodies of most requests about money.
const amountField = "amount"

// Operations are those of all endpoints, in their order.
func Operations() []Operation {
	return []Operation{
		{
			createOrderEndpoint,
			[]string{
				"currency", amountField, "items.sku", "items.quantity", "items.unit_amount", "payment.provider", "payment.method",
				"payment.method_data", "payment.capture", "payment.on_decline", "customer.reference",
			},
			[]string{"customer.email", "payment.return_url", "metadata"},
		},
		{
			continueOrderEndpoint,
			[]string{"details", "payment.provider", "payment.method", "payment.method_data"},
			[]string{"payment.return_url"},
		},
		{captureOrderEndpoint, []string{amountField, "final"}, nil},
		{cancelOrderEndpoint, nil, nil},
		{createRefundEndpoint, []string{amountField, "reason"}, nil},
		{patchOrderEndpoint, []string{"metadata"}, nil},
		{retrySagaEndpoint, []string{"reason"}, nil},
		{resolveSagaEndpoint, []string{"resolution", "reason", "payment", amountField, "outside_provider"}, nil},
		{cancelSagaEndpoint, []string{"reason"}, nil},
		{putStockEndpoint, []string{"on_hand"}, nil},
	}
}
