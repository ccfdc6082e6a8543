package designdoc

import (
	"maps"
	"slices"
	"strings"

	"paysaga/internal/httpapi"
)

// operations are the words of each endpoint's fingerprint.
var operations = map[string]string{
	"POST /v1/orders":               "create order 1",
	"PATCH /v1/orders/{id}":         "patch order 1",
	"POST /v1/orders/{id}/continue": "continue order 1",
	"POST /v1/orders/{id}/capture":  "capture order 1",
	"POST /v1/orders/{id}/cancel":   "cancel order 1",
	"POST /v1/orders/{id}/refunds":  "refund order 1",
	"PUT /v1/stock/{sku}":           "put stock 1",

	"POST /v1/sagas/{saga}/retry":   "decide saga 1",
	"POST /v1/sagas/{saga}/resolve": "resolve saga 1",
	"POST /v1/sagas/{saga}/cancel":  "decide saga 1",

	"POST /v1/findings/{finding}/resolve": "resolve finding 1",
	"POST /v1/findings/{finding}/ignore":  "ignore finding 1",
	"POST /v1/reconciliations":            "reconcile 1",
}

// intents writes what goes into the fingerprint of each endpoint, as the code has it.
func (w *writer) intents(string) {
	known := slices.Sorted(maps.Keys(w.sources.intents))
	var rows [][]string
	for _, operation := range httpapi.Operations() {
		intent, ok := w.sources.intents[operations[operation.Endpoint]]
		if !ok {
			w.failf("the fingerprint of %s is not told here", operation.Endpoint)
			continue
		}
		known = slices.DeleteFunc(known, func(operation string) bool { return operation == intent.Operation })
		rows = append(rows, []string{
			"`" + operation.Endpoint + "`", "`" + intent.Operation + "`, made by `" + intent.Function + "`", names(intent.Fields), paths(operation),
		})
	}
	for _, operation := range known {
		w.failf("no endpoint is told here for the fingerprint of %q", operation)
	}
	w.table("What goes into each fingerprint, in this order",
		[]string{"Endpoint", "Operation", "Names in the hash", "Fields of the body"}, rows)
}

// paths are the fields of an endpoint's body that count, where they stand in the JSON.
func paths(o httpapi.Operation) string {
	if len(o.Significant) == 0 {
		return "nothing in the body"
	}
	return names(o.Significant)
}

func names(fields []string) string { return "`" + strings.Join(fields, "`, `") + "`" }

// mustTellFieldsOf makes sure that the action map has every endpoint that a key guards.
func (w *writer) mustTellFieldsOf(endpoints []string) {
	for _, endpoint := range endpoints {
		if !w.used["fields "+endpoint] {
			w.failf("the action map does not have %s", endpoint)
		}
	}
}
