package httpapi

import (
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"reflect"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/getkin/kin-openapi/openapi3"
	"github.com/google/go-cmp/cmp"
	"github.com/google/uuid"
	"pgregory.net/rapid"

	"paysaga/api"
	"paysaga/internal/idempotency"
	"paysaga/saga"
)

// body is a request's body, flat: a value for each field that is there, and the lines of an order apart.
type body struct {
	fields map[string]any
	lines  []map[string]any
}

func (b body) clone() body {
	lines := make([]map[string]any, len(b.lines))
	for i, line := range b.lines {
		lines[i] = maps.Clone(line)
	}
	return body{maps.Clone(b.fields), lines}
}

// operationTest is how the requests of an operation are made up.
type operationTest struct {
	schema      string
	required    []string
	absent      map[string]any // what it means that an optional field is not there
	fingerprint func(t *rapid.T, subject string, body []byte) idempotency.Fingerprint
}

func operationTests(t *testing.T) map[string]operationTest {
	t.Helper()
	document, err := api.Load()
	if err != nil {
		t.Fatal(err)
	}
	s := &server{document: document}
	none := map[string]any(nil)
	return map[string]operationTest{
		createOrderEndpoint: {
			"OrderRequest",
			[]string{"currency", "amount", "payment.provider"},
			map[string]any{"payment.capture": "automatic", "payment.on_decline": "roll_back", "customer.reference": ""},
			func(t *rapid.T, _ string, body []byte) idempotency.Fingerprint {
				return orderFingerprint(decodedRequest[api.OrderRequest](t, s, "OrderRequest", body))
			},
		},
		continueOrderEndpoint: {"ContinueRequest", nil, none, func(t *rapid.T, subject string, body []byte) idempotency.Fingerprint {
			return continueFingerprint(uuid.MustParse(subject), decodedRequest[api.ContinueRequest](t, s, "ContinueRequest", body))
		}},
		captureOrderEndpoint: {"CaptureRequest", nil, map[string]any{"final": true}, func(t *rapid.T, subject string, body []byte) idempotency.Fingerprint {
			r := decodedRequest[api.CaptureRequest](t, s, "CaptureRequest", body)
			return captureFingerprint(uuid.MustParse(subject), r.Amount, r.Final == nil || *r.Final)
		}},
		cancelOrderEndpoint: {"CancelRequest", nil, none, func(t *rapid.T, subject string, body []byte) idempotency.Fingerprint {
			decodedRequest[api.CancelRequest](t, s, "CancelRequest", body)
			return cancelFingerprint(uuid.MustParse(subject))
		}},
		createRefundEndpoint: {"RefundRequest", nil, map[string]any{"reason": ""}, func(t *rapid.T, subject string, body []byte) idempotency.Fingerprint {
			return refundFingerprint(uuid.MustParse(subject), decodedRequest[api.RefundRequest](t, s, "RefundRequest", body))
		}},
		patchOrderEndpoint: {"OrderPatch", []string{"metadata"}, none, func(t *rapid.T, subject string, body []byte) idempotency.Fingerprint {
			return patchFingerprint(uuid.MustParse(subject), decodedRequest[api.OrderPatch](t, s, "OrderPatch", body))
		}},
		putStockEndpoint: {"StockRequest", []string{"on_hand"}, none, func(t *rapid.T, subject string, body []byte) idempotency.Fingerprint {
			return stockFingerprint(subject, decodedRequest[api.StockRequest](t, s, "StockRequest", body))
		}},
		retrySagaEndpoint: {"DecisionRequest", []string{"reason"}, none, func(t *rapid.T, subject string, body []byte) idempotency.Fingerprint {
			r := decodedRequest[api.DecisionRequest](t, s, "DecisionRequest", body)
			return decisionFingerprint(uuid.MustParse(subject), saga.ResolveRetry, r.Reason)
		}},
		cancelSagaEndpoint: {"DecisionRequest", []string{"reason"}, none, func(t *rapid.T, subject string, body []byte) idempotency.Fingerprint {
			r := decodedRequest[api.DecisionRequest](t, s, "DecisionRequest", body)
			return decisionFingerprint(uuid.MustParse(subject), saga.ResolveCancel, r.Reason)
		}},
		resolveFindingEndpoint: {"DecisionRequest", []string{"reason"}, none, func(t *rapid.T, subject string, body []byte) idempotency.Fingerprint {
			return resolveFindingFingerprint(uuid.MustParse(subject), decodedRequest[api.DecisionRequest](t, s, "DecisionRequest", body).Reason)
		}},
		ignoreFindingEndpoint: {"IgnoreRequest", []string{"until", "reason"}, none, func(t *rapid.T, subject string, body []byte) idempotency.Fingerprint {
			return ignoreFindingFingerprint(uuid.MustParse(subject), decodedRequest[api.IgnoreRequest](t, s, "IgnoreRequest", body))
		}},
		createReconciliationEndpoint: {
			"ReconciliationRequest",
			[]string{"mode"},
			none,
			func(t *rapid.T, _ string, body []byte) idempotency.Fingerprint {
				return runFingerprint(decodedRequest[api.ReconciliationRequest](t, s, "ReconciliationRequest", body))
			},
		},
		resolveSagaEndpoint: {
			"ResolveRequest",
			[]string{"resolution", "reason"},
			map[string]any{"outside_provider": false},
			func(t *rapid.T, subject string, body []byte) idempotency.Fingerprint {
				return resolveFingerprint(uuid.MustParse(subject), decodedRequest[api.ResolveRequest](t, s, "ResolveRequest", body))
			},
		},
	}
}

func decodedRequest[T any](t *rapid.T, s *server, schema string, body []byte) T {
	var request T
	if err := s.decodeBody(body, schema, &request); err != nil {
		t.Fatalf("%s: %v\n%s", schema, err, body)
	}
	return request
}

// text has letters that are escaped in various ways, and such as run together with the fingerprint's own punctuation.
var text = rapid.StringOfN(rapid.SampledFrom([]rune(`ab1:,"\/ é😀`+"\n")), 0, 6, -1)

func number(from, to int64) *rapid.Generator[any] { return rapid.Int64Range(from, to).AsAny() }

var object = rapid.Custom(func(t *rapid.T) any {
	value := rapid.OneOf(text.AsAny(), number(-100, 100), rapid.Bool().AsAny(), rapid.Just[any](map[string]any{"in": "side"}))
	return anyMap(rapid.MapOfN(text, value, 1, 4).Draw(t, "object"))
})

func anyMap[V any](m map[string]V) map[string]any {
	result := make(map[string]any, len(m))
	for name, value := range m {
		result[name] = value
	}
	return result
}

// values are valid ones of each field; fields that are not here take any text.
var values = map[string]*rapid.Generator[any]{
	"currency": rapid.StringMatching(`[A-Z]{3}`).AsAny(), "amount": number(1, 1_000_000), "on_hand": number(0, 1_000_000),
	"items.sku": rapid.StringMatching(`[A-Z][A-Z0-9._-]{0,4}`).AsAny(), "items.quantity": number(1, 1_000_000), "items.unit_amount": number(0, 1_000_000),
	"payment.provider": rapid.StringMatching(`[a-z]{1,8}`).AsAny(), "payment.method_data": object, "details": object,
	"payment.method":     rapid.StringOfN(rapid.RuneFrom([]rune("ab1:,{}_")), 1, 6, -1).AsAny(),
	"payment.capture":    rapid.SampledFrom([]any{"automatic", "manual"}),
	"payment.on_decline": rapid.SampledFrom([]any{"roll_back", "await"}), "final": rapid.Bool().AsAny(),
	"payment.return_url": rapid.StringMatching(`https://example\.com/[a-z]{0,4}`).AsAny(),
	"customer.email":     rapid.StringMatching(`[a-z]{1,4}@example\.com`).AsAny(),
	"metadata": rapid.Custom(func(t *rapid.T) any {
		return anyMap(rapid.MapOfN(rapid.StringMatching(`[a-z]{1,4}`), text, 0, 4).Draw(t, "metadata"))
	}),
}

// runs are the fields of what is asked of reconciliation.
var runs = map[string]*rapid.Generator[any]{
	"mode": rapid.SampledFrom([]any{"plan", "apply"}), "reason": decisions["reason"],
	"providers": rapid.SampledFrom([]any{[]string{"a"}, []string{"b"}, []string{"a", "b"}, []string{"ab"}, []string{"since"}}),
	"since":     moments, "until": moments,
}

var moments = rapid.SampledFrom([]any{"2026-12-01T00:00:00Z", "2026-12-01T00:00:00.001Z", "2026-12-01T00:00:01Z"})

// decisions are the fields of decisions, of which some have the names of others.
var decisions = map[string]*rapid.Generator[any]{
	"resolution": rapid.SampledFrom([]any{"taken", "nothing_kept", "as_it_is", "given", "not_given"}),
	"reason":     rapid.StringMatching(`[a-z ]{0,3}[a-z][a-z:,"]{0,3}`).AsAny(), "payment": rapid.StringMatching(`[a-z1:,]{1,4}`).AsAny(),
	"amount": number(1, 1_000_000), "outside_provider": rapid.Bool().AsAny(),
}

// patches are the metadata of a patch, in which null removes.
var patches = rapid.Custom(func(t *rapid.T) any {
	return anyMap(rapid.MapOfN(text, rapid.OneOf(text.AsAny(), rapid.Just[any](nil)), 1, 4).Draw(t, "patch"))
})

func valuesOf(endpoint, field string) *rapid.Generator[any] {
	if endpoint == patchOrderEndpoint {
		return patches
	}
	if known, ok := decisions[field]; ok && isDecision(endpoint) {
		return known
	}
	if known, ok := runs[field]; ok && (endpoint == createReconciliationEndpoint || strings.Contains(endpoint, "/findings/")) {
		return known
	}
	if known, ok := values[field]; ok {
		return known
	}
	return text.AsAny()
}

// draw makes a valid request of which the field about can be changed; an empty one can be any.
func (o operationTest) draw(t *rapid.T, operation Operation, about string) body {
	b := body{fields: map[string]any{}}
	for _, field := range slices.Concat(operation.Significant, operation.Insignificant) {
		_, ofLine := strings.CutPrefix(field, "items.")
		if !ofLine && (slices.Contains(o.required, field) || rapid.Bool().Draw(t, "with "+field)) {
			b.fields[field] = valuesOf(operation.Endpoint, field).Draw(t, field)
		}
	}
	if slices.Contains(operation.Significant, "items.sku") {
		for _, sku := range rapid.SliceOfNDistinct(valuesOf("", "items.sku"), 1, 4, rapid.ID[any]).Draw(t, "skus") {
			b.lines = append(b.lines, map[string]any{
				"sku": sku, "quantity": valuesOf("", "items.quantity").Draw(t, "quantity"), "unit_amount": valuesOf("", "items.unit_amount").Draw(t, "price"),
			})
		}
	}
	o.choose(t, operation, b, about)
	return b
}

// choose leaves one of the fields that exclude each other, so that about is there or can come.
func (o operationTest) choose(t *rapid.T, operation Operation, b body, about string) {
	if operation.Endpoint == continueOrderEndpoint {
		paid := strings.HasPrefix(about, "payment.") || about == "" && rapid.Bool().Draw(t, "with a payment")
		if !paid {
			maps.DeleteFunc(b.fields, func(field string, _ any) bool { return field != "details" })
			return
		}
		delete(b.fields, "details")
	}
	if !slices.Contains(operation.Significant, "payment.method") {
		return
	}
	use, drop := "payment.method", "payment.method_data"
	if about == drop || about != use && rapid.Bool().Draw(t, "with data") {
		use, drop = drop, use
	}
	delete(b.fields, drop)
	if _, there := b.fields[use]; !there {
		b.fields[use] = valuesOf("", use).Draw(t, use)
	}
}

// change gives a field another meaning, or, with other false, any value.
func (o operationTest) change(t *rapid.T, operation Operation, b body, field string, other bool) body {
	changed := b.clone()
	if name, ofLine := strings.CutPrefix(field, "items."); ofLine {
		changeLine(t, changed, name)
		return changed
	}
	before, there := b.fields[field]
	if !there {
		before = o.absent[field]
	}
	needed := slices.Contains(o.required, field) || field == "payment.method" || field == "payment.method_data"
	same := other && reflect.DeepEqual(before, o.absent[field])
	if there && !needed && !same && rapid.Bool().Draw(t, "drop") {
		delete(changed.fields, field)
		return changed
	}
	changed.fields[field] = valuesOf(operation.Endpoint, field).Filter(func(v any) bool {
		return !other || !reflect.DeepEqual(v, before)
	}).Draw(t, field+" changed")
	return changed
}

// changeLine changes one of an order's lines. A SKU comes once.
func changeLine(t *rapid.T, b body, name string) {
	line := rapid.SampledFrom(b.lines).Draw(t, "line")
	line[name] = values["items."+name].Filter(func(v any) bool {
		return v != line[name] && (name != "sku" || !slices.ContainsFunc(b.lines, func(line map[string]any) bool { return line["sku"] == v }))
	}).Draw(t, name+" changed")
}

// write spells a body: names in any order, blanks, numbers and letters in any spelling, lines in any order, defaults told or not.
func (o operationTest) write(t *rapid.T, b body) []byte {
	nested := map[string]any{}
	for field, value := range b.fields {
		if def, optional := o.absent[field]; optional && reflect.DeepEqual(value, def) && rapid.Bool().Draw(t, "leave out "+field) {
			continue
		}
		outer, inner, deep := strings.Cut(field, ".")
		if !deep {
			nested[field] = value
			continue
		}
		object, begun := nested[outer].(map[string]any)
		if !begun {
			object = map[string]any{}
			nested[outer] = object
		}
		object[inner] = value
	}
	if len(b.lines) > 0 {
		nested["items"] = rapid.Permutation(b.lines).Draw(t, "lines")
	}
	return []byte(spell(t, nested))
}

func spell(t *rapid.T, value any) string {
	blank := rapid.SampledFrom([]string{"", "", " ", "\n\t"}).Draw(t, "blank")
	switch v := value.(type) {
	case map[string]any:
		names := rapid.Permutation(slices.Sorted(maps.Keys(v))).Draw(t, "names")
		for i, name := range names {
			names[i] = spell(t, name) + ":" + spell(t, v[name])
		}
		return "{" + blank + strings.Join(names, ","+blank) + "}" + blank
	case []map[string]any:
		parts := make([]string, len(v))
		for i, part := range v {
			parts[i] = spell(t, part)
		}
		return "[" + blank + strings.Join(parts, blank+",") + "]"
	case string:
		return blank + spellText(t, v)
	case int64:
		return blank + spellNumber(t, v)
	}
	plain, err := json.Marshal(value)
	if err != nil {
		t.Fatal(err)
	}
	return blank + string(plain)
}

func spellText(t *rapid.T, value string) string {
	plain, err := json.Marshal(value)
	if err != nil {
		t.Fatal(err)
	}
	if !rapid.Bool().Draw(t, "escape") {
		return string(plain)
	}
	var escaped strings.Builder
	for _, c := range value {
		if c > 0xffff {
			c -= 0x10000
			fmt.Fprintf(&escaped, `\u%04x\u%04X`, 0xd800+c>>10, 0xdc00+c&0x3ff)
			continue
		}
		fmt.Fprintf(&escaped, `\u%04x`, c)
	}
	return `"` + escaped.String() + `"`
}

func spellNumber(t *rapid.T, value int64) string {
	plain := strconv.FormatInt(value, 10)
	spellings := []string{plain, plain + ".0", plain + ".00E-0", plain + "e0"}
	if value != 0 {
		spellings = append(spellings, plain+"00e-2")
	}
	if value != 0 && value%10 == 0 {
		spellings = append(spellings, strconv.FormatInt(value/10, 10)+"e+1")
	}
	return rapid.SampledFrom(spellings).Draw(t, "spelling")
}

var subjects = [2]string{"5f0c1a9e-7d5b-5c3e-9b1a-0f6d2c8e4a71", "8c4b5f0e-2a36-5d51-8e0f-61b7d9a3c250"} // orders, or SKUs

// However a request is written, and whatever its insignificant fields are, its fingerprint is the same.
func TestFingerprintStaysTheSame(t *testing.T) {
	t.Parallel()
	tests := operationTests(t)
	for _, operation := range Operations() {
		o := tests[operation.Endpoint]
		t.Run(operation.Endpoint, func(t *testing.T) {
			t.Parallel()
			rapid.Check(t, func(t *rapid.T) {
				request := o.draw(t, operation, "")
				again := request
				for _, field := range operation.Insignificant {
					if !strings.HasPrefix(field, "payment.") || hasPayment(request) {
						again = o.change(t, operation, again, field, false)
					}
				}
				one, two := o.write(t, request), o.write(t, again)
				if o.fingerprint(t, subjects[0], one) != o.fingerprint(t, subjects[0], two) {
					t.Fatalf("not the same:\n%s\n%s", one, two)
				}
			})
		})
	}
}

// With any other significant field it is another.
func TestFingerprintChanges(t *testing.T) {
	t.Parallel()
	tests := operationTests(t)
	for _, operation := range Operations() {
		o := tests[operation.Endpoint]
		for _, field := range operation.Significant {
			t.Run(operation.Endpoint+" "+field, func(t *testing.T) {
				t.Parallel()
				rapid.Check(t, func(t *rapid.T) {
					request := o.draw(t, operation, field)
					one, two := o.write(t, request), o.write(t, o.change(t, operation, request, field, true))
					if o.fingerprint(t, subjects[0], one) == o.fingerprint(t, subjects[0], two) {
						t.Fatalf("the same:\n%s\n%s", one, two)
					}
				})
			})
		}
	}
}

// The same request about another order, or SKU, is another one.
func TestFingerprintIsOfItsSubject(t *testing.T) {
	t.Parallel()
	tests := operationTests(t)
	for _, operation := range Operations() {
		if operation.Endpoint == createOrderEndpoint || operation.Endpoint == createReconciliationEndpoint {
			continue // about nothing that is there
		}
		o := tests[operation.Endpoint]
		t.Run(operation.Endpoint, func(t *testing.T) {
			t.Parallel()
			rapid.Check(t, func(t *rapid.T) {
				written := o.write(t, o.draw(t, operation, ""))
				if o.fingerprint(t, subjects[0], written) == o.fingerprint(t, subjects[1], written) {
					t.Fatalf("the same for another order or SKU: %s", written)
				}
			})
		})
	}
}

func hasPayment(b body) bool {
	for field := range b.fields {
		if strings.HasPrefix(field, "payment.") {
			return true
		}
	}
	return false
}

// Every field that the contract knows is in one of the two lists, and nothing else is.
func TestOperationsKnowAllFields(t *testing.T) {
	t.Parallel()
	document, err := api.Load()
	if err != nil {
		t.Fatal(err)
	}
	tests := operationTests(t)
	endpoints := make([]string, 0, len(Operations()))
	for _, operation := range Operations() {
		endpoints = append(endpoints, operation.Endpoint)
		got := slices.Sorted(slices.Values(slices.Concat(operation.Significant, operation.Insignificant)))
		want := leaves("", document.Components.Schemas[tests[operation.Endpoint].schema].Value)
		slices.Sort(want)
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("%s (-contract +lists):\n%s", operation.Endpoint, diff)
		}
	}
	if diff := cmp.Diff(Endpoints(), endpoints); diff != "" {
		t.Errorf("endpoints (-API +lists):\n%s", diff)
	}
}

func leaves(prefix string, schema *openapi3.Schema) []string {
	if schema.Items != nil {
		schema = schema.Items.Value
	}
	if len(schema.Properties) == 0 {
		if prefix == "" {
			return nil
		}
		return []string{strings.TrimSuffix(prefix, ".")}
	}
	var fields []string
	for name, property := range schema.Properties {
		fields = append(fields, leaves(prefix+name+".", property.Value)...)
	}
	return fields
}

// docs/idempotency.md shows the same lists.
func TestFingerprintsAreDocumented(t *testing.T) {
	t.Parallel()
	page, err := os.ReadFile("../../docs/idempotency.md")
	if err != nil {
		t.Fatal(err)
	}
	documented := documentedOperations(t, string(page))
	for _, operation := range Operations() {
		got := documented[operation.Endpoint]
		for i, lists := range [][2][]string{{operation.Significant, got.Significant}, {operation.Insignificant, got.Insignificant}} {
			if diff := cmp.Diff(slices.Sorted(slices.Values(lists[0])), slices.Sorted(slices.Values(lists[1]))); diff != "" {
				t.Errorf("%s, significant %t (-code +page):\n%s", operation.Endpoint, i == 0, diff)
			}
		}
		delete(documented, operation.Endpoint)
	}
	for endpoint := range documented {
		t.Errorf("the page has %q, the API does not", endpoint)
	}
}

var (
	tableRow = regexp.MustCompile(`(?m)^\|(.*)\|$`)
	aside    = regexp.MustCompile(`\([^)]*\)`)
	fieldSet = regexp.MustCompile("`([a-z_.]+)`(: *((?:`[a-z_]+`(?:, )?)+))?")
)

// documentedOperations reads the page's two tables: of an order's fields, one a row, and of the other requests, one a row.
func documentedOperations(t *testing.T, page string) map[string]Operation {
	t.Helper()
	_, section, ok := strings.Cut(page, "\n## The fingerprint")
	if !ok {
		t.Fatal("the page has no section about the fingerprint")
	}
	section, _, _ = strings.Cut(section, "\n## ")
	found := map[string]Operation{}
	order := Operation{Endpoint: createOrderEndpoint}
	for _, row := range tableRow.FindAllStringSubmatch(section, -1) {
		cells := strings.Split(row[1], "|")
		for i, cell := range cells {
			cells[i] = strings.TrimSpace(aside.ReplaceAllString(cell, ""))
		}
		switch name := strings.Trim(cells[0], "` "); {
		case strings.HasPrefix(name, "---"), name == "Field", name == "Request":
		case cells[1] == "yes":
			order.Significant = append(order.Significant, fieldsIn(cells[0])...)
		case cells[1] == "no":
			order.Insignificant = append(order.Insignificant, fieldsIn(cells[0])...)
		default:
			endpoint := name
			if method, action, _ := strings.Cut(name, "/"); method == "" {
				endpoint = "POST /v1/orders/{id}/" + action
			} else if action == "" {
				endpoint = method + " /v1/orders/{id}"
			}
			found[endpoint] = Operation{endpoint, fieldsIn(cells[1]), fieldsIn(cells[2])}
		}
	}
	found[order.Endpoint] = order
	return found
}

// fieldsIn reads "`a`, `b`: `c`, `d`" as a, b.c and b.d.
func fieldsIn(cell string) []string {
	var fields []string
	for _, set := range fieldSet.FindAllStringSubmatch(cell, -1) {
		if set[3] == "" {
			fields = append(fields, set[1])
			continue
		}
		for inner := range strings.SplitSeq(set[3], ", ") {
			fields = append(fields, set[1]+"."+strings.Trim(inner, "` "))
		}
	}
	return fields
}
