package api_test

import (
	"cmp"
	"encoding/json"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/getkin/kin-openapi/openapi3"
	gocmp "github.com/google/go-cmp/cmp"

	"paysaga/api"
)

func load(t *testing.T) *openapi3.T {
	t.Helper()
	document, err := api.Load()
	if err != nil {
		t.Fatalf("load: %v", err)
	}
	return document
}

// TestGoTypesKeepTheOrderOfTheDocument compares the generated structs, and so the JSON that clients read, with the document:
// every object schema has its type, with the same fields in the same order.
func TestGoTypesKeepTheOrderOfTheDocument(t *testing.T) {
	t.Parallel()
	types := map[string]reflect.Type{
		"CaptureRequest":        reflect.TypeFor[api.CaptureRequest](),
		"ContinuePayment":       reflect.TypeFor[api.ContinuePayment](),
		"ContinueRequest":       reflect.TypeFor[api.ContinueRequest](),
		"Customer":              reflect.TypeFor[api.Customer](),
		"Decline":               reflect.TypeFor[api.Decline](),
		"FieldError":            reflect.TypeFor[api.FieldError](),
		"Finding":               reflect.TypeFor[api.Finding](),
		"Health":                reflect.TypeFor[api.Health](),
		"Item":                  reflect.TypeFor[api.Item](),
		"KeyRecord":             reflect.TypeFor[api.KeyRecord](),
		"NextAction":            reflect.TypeFor[api.NextAction](),
		"Order":                 reflect.TypeFor[api.Order](),
		"OrderList":             reflect.TypeFor[api.OrderList](),
		"OrderPatch":            reflect.TypeFor[api.OrderPatch](),
		"OrderRequest":          reflect.TypeFor[api.OrderRequest](),
		"Payment":               reflect.TypeFor[api.Payment](),
		"PaymentRequest":        reflect.TypeFor[api.PaymentRequest](),
		"Problem":               reflect.TypeFor[api.Problem](),
		"Refund":                reflect.TypeFor[api.Refund](),
		"RefundList":            reflect.TypeFor[api.RefundList](),
		"RefundRequest":         reflect.TypeFor[api.RefundRequest](),
		"Saga":                  reflect.TypeFor[api.Saga](),
		"SagaRecord":            reflect.TypeFor[api.SagaRecord](),
		"SagaList":              reflect.TypeFor[api.SagaList](),
		"DecisionRequest":       reflect.TypeFor[api.DecisionRequest](),
		"ResolveRequest":        reflect.TypeFor[api.ResolveRequest](),
		"Facts":                 reflect.TypeFor[api.Facts](),
		"IgnoreRequest":         reflect.TypeFor[api.IgnoreRequest](),
		"Reconciliation":        reflect.TypeFor[api.Reconciliation](),
		"ReconciliationList":    reflect.TypeFor[api.ReconciliationList](),
		"ReconciliationRequest": reflect.TypeFor[api.ReconciliationRequest](),
		"ReconciliationTotals":  reflect.TypeFor[api.ReconciliationTotals](),
		"ListedTime":            reflect.TypeFor[api.ListedTime](),
		"FindingList":           reflect.TypeFor[api.FindingList](),
		"AuditEntry":            reflect.TypeFor[api.AuditEntry](),
		"AuditLog":              reflect.TypeFor[api.AuditLog](),
		"SagaSummary":           reflect.TypeFor[api.SagaSummary](),
		"Step":                  reflect.TypeFor[api.Step](),
		"Stock":                 reflect.TypeFor[api.Stock](),
		"StockList":             reflect.TypeFor[api.StockList](),
		"StockRequest":          reflect.TypeFor[api.StockRequest](),
	}
	for name, schema := range load(t).Components.Schemas {
		if len(schema.Value.Properties) == 0 {
			continue
		}
		goType, ok := types[name]
		if !ok {
			t.Errorf("schema %s has no Go type in this test", name)
			continue
		}
		if diff := gocmp.Diff(documentFields(schema.Value), jsonFields(goType)); diff != "" {
			t.Errorf("fields of %s (-document +Go):\n%s", name, diff)
		}
	}
}

func documentFields(schema *openapi3.Schema) []string {
	names := make([]string, 0, len(schema.Properties))
	for name := range schema.Properties {
		names = append(names, name)
	}
	slices.SortFunc(names, func(a, b string) int {
		return cmp.Compare(schema.Properties[a].Origin.Key.Line, schema.Properties[b].Origin.Key.Line)
	})
	return names
}

func jsonFields(goType reflect.Type) []string {
	var names []string
	for field := range goType.Fields() {
		name, _, _ := strings.Cut(field.Tag.Get("json"), ",")
		names = append(names, name)
	}
	return names
}

// TestRequestsRefuseUnknownFields holds the promise that a misspelt field is an error and never silently ignored.
func TestRequestsRefuseUnknownFields(t *testing.T) {
	t.Parallel()
	var visit func(path string, schema *openapi3.Schema)
	visit = func(path string, schema *openapi3.Schema) {
		if len(schema.Properties) > 0 && (schema.AdditionalProperties.Has == nil || *schema.AdditionalProperties.Has) {
			t.Errorf("%s lets unknown fields pass", path)
		}
		for name, property := range schema.Properties {
			visit(path+"."+name, property.Value)
		}
		if schema.Items != nil {
			visit(path+"[]", schema.Items.Value)
		}
	}
	bodies := 0
	for path, item := range load(t).Paths.Map() {
		for method, operation := range item.Operations() {
			if operation.RequestBody == nil {
				continue
			}
			bodies++
			if path == "/webhooks/{provider}" {
				continue // what providers send is theirs
			}
			visit(method+" "+path, operation.RequestBody.Value.Content.Get("application/json").Schema.Value)
		}
	}
	if bodies == 0 {
		t.Error("the document has no request body")
	}
}

// TestOnlyServiceCallsAreOpen keeps every call under /v1 behind an API key, and the others reachable without one.
func TestOnlyServiceCallsAreOpen(t *testing.T) {
	t.Parallel()
	document := load(t)
	for path, item := range document.Paths.Map() {
		for method, operation := range item.Operations() {
			requirements := document.Security
			if operation.Security != nil {
				requirements = *operation.Security
			}
			if got, want := len(requirements) > 0, strings.HasPrefix(path, "/v1/"); got != want {
				t.Errorf("%s %s: needs an API key = %t, want %t", method, path, got, want)
			}
		}
	}
}

func TestOrderWithoutOptionalPartsOmitsThem(t *testing.T) {
	t.Parallel()
	body, err := json.Marshal(api.Order{Metadata: api.Metadata{}, Items: []api.Item{}})
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"customer", "next_action", "deadline_at", "decline", "provider_reference"} {
		if strings.Contains(string(body), `"`+name+`"`) {
			t.Errorf("%s is present in %s", name, body)
		}
	}
	last, err := json.Marshal(api.OrderList{Data: []api.Order{}})
	if err != nil {
		t.Fatal(err)
	}
	if got, want := string(last), `{"data":[],"next_cursor":null}`; got != want {
		t.Errorf("last page = %s, want %s", got, want)
	}
}
