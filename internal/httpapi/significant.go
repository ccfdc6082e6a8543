package httpapi

// Operation says which fields of a request's body mean its intent. Those go into its fingerprint, beside what the path names: the order,
// or the SKU. The documents show these lists, and the tests hold the fingerprints against them.
type Operation struct {
	Endpoint      string
	Significant   []string // "items.sku" is a field of each line; what is an object as a whole has one name
	Insignificant []string // all others that the contract knows
}

// Fields that are in the bodies of many requests.
const (
	amountField = "amount"
	reasonField = "reason"
)

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
		{createRefundEndpoint, []string{amountField, reasonField}, nil},
		{patchOrderEndpoint, []string{"metadata"}, nil},
		{retrySagaEndpoint, []string{reasonField}, nil},
		{resolveSagaEndpoint, []string{"resolution", reasonField, "payment", amountField, "outside_provider"}, nil},
		{cancelSagaEndpoint, []string{reasonField}, nil},
		{resolveFindingEndpoint, []string{reasonField}, nil},
		{ignoreFindingEndpoint, []string{"until", reasonField}, nil},
		{createReconciliationEndpoint, []string{"mode", "providers", "since", "until"}, nil},
		{putStockEndpoint, []string{"on_hand"}, nil},
	}
}
