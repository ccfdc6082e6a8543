package httpapi

import (
	"go/ast"
	"go/parser"
	"go/token"
	"strconv"
	"strings"
	"testing"

	"paysaga/providers"
	"paysaga/saga"
)

// slugs are what clients and their pages know each of the saga's reasons by. They never change.
var slugs = map[saga.RefusalReason]string{
	"busy":             "order-busy",
	"captured":         "refund-instead",
	"not_captured":     "cancel-instead",
	"not_held":         "nothing-to-capture",
	"one_capture":      "one-capture",
	"too_much":         "amount-too-large",
	"payment_open":     "payment-open",
	"payment_required": "payment-required",
	"over":             "order-over",
	"in_review":        "order-in-review",
	"not_in_review":    "not-in-review",
	"unfit":            "decision-unfit",
	"contradicted":     "decision-contradicted",
}

// Only what a client may repeat unchanged is a conflict that passes.
func TestProblemTypes(t *testing.T) {
	t.Parallel()
	for slug, kind := range problemTypes {
		passes := slug == "request-in-progress" || slug == "order-busy" || slug == "too-many-new-keys"
		if kind.Passes != passes {
			t.Errorf("%s passes: %t", slug, kind.Passes)
		}
	}
}

// Each reason that the saga has to refuse a request is a problem of its own, whose page says that nothing was done.
func TestEveryRefusalIsAProblem(t *testing.T) {
	t.Parallel()
	reasons := reasonsInSource(t)
	if len(reasons) != len(slugs) {
		t.Errorf("the saga has %d reasons, of which %d have a slug here", len(reasons), len(slugs))
	}
	for _, reason := range reasons {
		p := problemOf(&saga.RefusedError{Reason: reason, Detail: "Why."})
		if p == nil {
			t.Errorf("%s is not told", reason)
			continue
		}
		if p.kind.Slug != slugs[reason] || p.detail != "Why." || (p.retryAfter > 0) != (reason == saga.RefusedBusy) {
			t.Errorf("%s is told as %+v", reason, p)
		}
		if !strings.Contains(p.kind.Meaning, "Nothing was done") {
			t.Errorf("the page of %s does not say that nothing was done", p.kind.Slug)
		}
	}
	if p := problemOf(&saga.RefusedError{Reason: "of tomorrow"}); p != nil {
		t.Errorf("an unknown reason is told as %s", p.kind.Slug)
	}
}

// reasonsInSource reads the constants of type RefusalReason, so that a new one cannot be forgotten here.
func reasonsInSource(t *testing.T) []saga.RefusalReason {
	t.Helper()
	file, err := parser.ParseFile(token.NewFileSet(), "../../saga/request.go", nil, parser.SkipObjectResolution)
	noError(t, err)
	var reasons []saga.RefusalReason
	ast.Inspect(file, func(node ast.Node) bool {
		constant, ok := node.(*ast.ValueSpec)
		if !ok {
			return true
		}
		if kind, ok := constant.Type.(*ast.Ident); ok && kind.Name == "RefusalReason" {
			reasons = append(reasons, reasonOf(t, constant))
		}
		return true
	})
	return reasons
}

func reasonOf(t *testing.T, constant *ast.ValueSpec) saga.RefusalReason {
	t.Helper()
	literal, ok := constant.Values[0].(*ast.BasicLit)
	if !ok {
		t.Fatalf("%s is no literal", constant.Names[0])
	}
	text, err := strconv.Unquote(literal.Value)
	noError(t, err)
	return saga.RefusalReason(text)
}

// A provider's objection names a place in the client's body, or is no problem of the client's.
func TestPlacesOfPayments(t *testing.T) {
	t.Parallel()
	for field, pointer := range map[string]string{
		"amount": "/amount", "currency": "/currency", "payment.method": "/payment/method", "payment.method_data": "/payment/method_data",
		"payment.return_url": "/payment/return_url", "customer.reference": "/customer/reference",
		"key": "", "metadata": "", "of_tomorrow": "",
	} {
		p := problemOf(&providers.RequestError{Field: field, Detail: "must not be so"})
		switch {
		case p == nil && pointer == "":
		case p == nil, pointer == "", p.kind.Slug != "payment-not-possible", p.errors[0].Pointer != pointer:
			t.Errorf("%s is told as %+v, want %q", field, p, pointer)
		}
	}
	if p := nextPaymentProblem(&providers.RequestError{Field: "amount"}); p.errors != nil {
		t.Errorf("the order's amount is told as a place in another body: %+v", p.errors)
	}
	if p := nextPaymentProblem(&providers.RequestError{Field: "key"}); p != nil {
		t.Errorf("an inner fault is told as %+v", p)
	}
}
