package httpapi

// The endpoints that are idempotent by key: method and route pattern. Each is the scope of its keys, a part of every identifier
// that derives from them, and what the saga keeps of the request that waits for its answer: they never change.
const (
	createOrderEndpoint   = "POST /v1/orders"
	continueOrderEndpoint = "POST /v1/orders/{id}/continue"
	captureOrderEndpoint  = "POST /v1/orders/{id}/capture"
	cancelOrderEndpoint   = "POST /v1/orders/{id}/cancel"
	createRefundEndpoint  = "POST /v1/orders/{id}/refunds"
	patchOrderEndpoint    = "PATCH /v1/orders/{id}"
	putStockEndpoint      = "PUT /v1/stock/{sku}" // the key is optional there
)

// Endpoints are all of them.
func Endpoints() []string {
	return []string{
		createOrderEndpoint, continueOrderEndpoint, captureOrderEndpoint, cancelOrderEndpoint, createRefundEndpoint, patchOrderEndpoint,
		putStockEndpoint,
	}
}
