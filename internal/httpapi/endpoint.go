package httpapi

import "paysaga/api"

// The endpoints that are idempotent by key: method and route pattern. Each is the scope of its keys, a part of every identifier
// that derives from them, and what the saga keeps of the request that waits for its answer: they never change.
const (
	createOrderEndpoint          = string(api.EndpointCreateOrder)
	continueOrderEndpoint        = string(api.EndpointContinueOrder)
	captureOrderEndpoint         = string(api.EndpointCaptureOrder)
	cancelOrderEndpoint          = string(api.EndpointCancelOrder)
	createRefundEndpoint         = string(api.EndpointCreateRefund)
	patchOrderEndpoint           = string(api.EndpointPatchOrder)
	retrySagaEndpoint            = string(api.EndpointRetrySaga)
	resolveSagaEndpoint          = string(api.EndpointResolveSaga)
	cancelSagaEndpoint           = string(api.EndpointCancelSaga)
	resolveFindingEndpoint       = string(api.EndpointResolveFinding)
	ignoreFindingEndpoint        = string(api.EndpointIgnoreFinding)
	createReconciliationEndpoint = string(api.EndpointCreateReconciliation)
	putStockEndpoint             = string(api.EndpointPutStock) // the key is optional there
)

// Endpoints are all of them.
func Endpoints() []string {
	return []string{
		createOrderEndpoint, continueOrderEndpoint, captureOrderEndpoint, cancelOrderEndpoint, createRefundEndpoint, patchOrderEndpoint,
		retrySagaEndpoint, resolveSagaEndpoint, cancelSagaEndpoint,
		resolveFindingEndpoint, ignoreFindingEndpoint, createReconciliationEndpoint, putStockEndpoint,
	}
}
