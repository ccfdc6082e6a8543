package paypal

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"paysaga/providers"
)

const (
	testSagaKey = "1f0d3c9e-7a52-5c1b-9d2e-0a4b6c8d9e01"
	testKey     = providers.SubKey(testSagaKey + "_charge")
	testOrder   = "5O190127TN364715T"
	orderPath   = "/v2/checkout/orders/" + testOrder
)

// The requests of the tests.
func chargeRequest(method string) providers.ChargeRequest {
	return providers.ChargeRequest{
		Key: testKey, SagaKey: testSagaKey, OrderID: "order-1",
		Money: providers.Money{Amount: 3998, Currency: "EUR"}, Method: method,
	}
}

func continueRequest() providers.ContinueRequest {
	return providers.ContinueRequest{
		Key: testSagaKey + "_continue", ChargeKey: testKey, Reference: testOrder,
		Money: providers.Money{Amount: 3998, Currency: "EUR"},
	}
}

func captureRequest() providers.CaptureRequest {
	return providers.CaptureRequest{
		Key: testSagaKey + "_capture", SagaKey: testSagaKey, Reference: testOrder,
		Money: providers.Money{Amount: 1000, Currency: "EUR"}, Final: true,
	}
}

func voidRequest() providers.VoidRequest {
	return providers.VoidRequest{Key: testSagaKey + "_void", Reference: testOrder}
}

func refundRequest() providers.RefundRequest {
	return providers.RefundRequest{
		Key: testSagaKey + "_refund", SagaKey: testSagaKey, Reference: testOrder,
		Money: providers.Money{Amount: 1000, Currency: "EUR"},
	}
}

func refundLookup(reference string) providers.RefundLookupRequest {
	return providers.RefundLookupRequest{Key: testSagaKey + "_refund", Payment: testOrder, Reference: reference}
}

func lookupRequest(reference string) providers.LookupRequest {
	return providers.LookupRequest{
		Key: testKey, SagaKey: testSagaKey, Reference: reference, SentAt: time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC),
	}
}

// orderJSON is an order with a status and payments: lists of JSON by kind, such as `"captures":[…]`.
func orderJSON(status, payments string) string {
	return fmt.Sprintf(`{"id":%q,"intent":"CAPTURE","status":%q,"purchase_units":[{"reference_id":"default",`+
		`"amount":{"currency_code":"EUR","value":"39.98"},"custom_id":%q,"invoice_id":%q,"payments":{%s}}],`+
		`"links":[{"href":"https://api-m.paypal.com%s","rel":"self","method":"GET"},`+
		`{"href":"https://www.paypal.com/checkoutnow?token=%s","rel":"payer-action","method":"GET"}]}`,
		testOrder, status, testSagaKey, string(testKey), payments, orderPath, testOrder)
}

func captureJSON(id, status, value string) string {
	return fmt.Sprintf(`{"id":%q,"status":%q,"amount":{"currency_code":"EUR","value":%q},"invoice_id":%q}`, id, status, value, string(testKey))
}

func capturesJSON(captures ...string) string {
	return `"captures":[` + strings.Join(captures, ",") + `]`
}

func authorizationJSON(status string) string {
	return fmt.Sprintf(`"authorizations":[{"id":"AUTH1","status":%q,"amount":{"currency_code":"EUR","value":"39.98"}}]`, status)
}

func refundJSON(id, status, value, key string) string {
	return fmt.Sprintf(`{"id":%q,"status":%q,"amount":{"currency_code":"EUR","value":%q},"invoice_id":%q}`, id, status, value, key)
}

func refundsJSON(refunds ...string) string {
	return `"refunds":[` + strings.Join(refunds, ",") + `]`
}

// problemJSON is an error in PayPal's words.
func problemJSON(name, issue string) string {
	return fmt.Sprintf(`{"name":%q,"details":[{"issue":%q,"description":"no one sees this"}],"message":"nor this","debug_id":"90957fca61718"}`, name, issue)
}

func unprocessable(issue string) canned {
	return canned{status: 422, body: problemJSON("UNPROCESSABLE_ENTITY", issue)}
}

func ok(body string) []canned { return []canned{{status: 200, body: body}} }

var (
	euros39 = providers.Money{Amount: 3998, Currency: "EUR"}
	euros10 = providers.Money{Amount: 1000, Currency: "EUR"}
	payHere = &providers.NextAction{Type: "redirect", URL: "https://www.paypal.com/checkoutnow?token=" + testOrder}
)

func TestWhatIsSent(t *testing.T) {
	t.Parallel()
	held := orderJSON("COMPLETED", authorizationJSON("CREATED"))
	paid := orderJSON("COMPLETED", capturesJSON(captureJSON("CAP1", "COMPLETED", "39.98")))
	unit := `"purchase_units":[{"amount":{"currency_code":"EUR","value":"39.98"},"custom_id":"` + testSagaKey + `","invoice_id":"` + string(testKey) + `"}]`
	tests := map[string]struct {
		call func(*Adapter) providers.Outcome
		want seenRequest
	}{
		"charge, wallet": {
			func(a *Adapter) providers.Outcome {
				request := chargeRequest("wallet")
				request.ReturnURL = "https://shop.example/back"
				return a.Charge(t.Context(), request)
			},
			seenRequest{
				Call: "POST /v2/checkout/orders", RequestID: testKey.PayPalRequestID(), Prefer: "return=representation", Token: "token-1",
				Body: `{"intent":"CAPTURE",` + unit + `,"payment_source":{"paypal":{"experience_context":{"return_url":"https://shop.example/back",` +
					`"cancel_url":"https://shop.example/back","user_action":"PAY_NOW"}}}}`,
			},
		},
		"charge, stored account, manual": {
			func(a *Adapter) providers.Outcome {
				request := chargeRequest("vault_COMPLETED")
				request.ManualCapture = true
				return a.Charge(t.Context(), request)
			},
			seenRequest{
				Call: "POST /v2/checkout/orders", RequestID: testKey.PayPalRequestID(), Prefer: "return=representation", Token: "token-1",
				Body: `{"intent":"AUTHORIZE",` + unit + `,"payment_source":{"paypal":{"vault_id":"vault_COMPLETED"}}}`,
			},
		},
		"charge, stored card": {
			func(a *Adapter) providers.Outcome { return a.Charge(t.Context(), chargeRequest("card:8kk845")) },
			seenRequest{
				Call: "POST /v2/checkout/orders", RequestID: testKey.PayPalRequestID(), Prefer: "return=representation", Token: "token-1",
				Body: `{"intent":"CAPTURE",` + unit + `,"payment_source":{"card":{"vault_id":"8kk845"}}}`,
			},
		},
		"continue": {
			func(a *Adapter) providers.Outcome { return a.Continue(t.Context(), continueRequest()) },
			seenRequest{
				Call: "POST " + orderPath + "/capture", RequestID: continueRequest().Key.PayPalRequestID(),
				Prefer: "return=representation", Token: "token-1", Body: `{}`,
			},
		},
		"capture": {
			func(a *Adapter) providers.Outcome { return a.Capture(t.Context(), captureRequest()) },
			seenRequest{
				Call: "POST /v2/payments/authorizations/AUTH1/capture", RequestID: captureRequest().Key.PayPalRequestID(),
				Prefer: "return=representation", Token: "token-1",
				Body: `{"amount":{"currency_code":"EUR","value":"10.00"},"invoice_id":"` + testSagaKey + `_capture","final_capture":true}`,
			},
		},
		"void": {
			func(a *Adapter) providers.Outcome { return a.Void(t.Context(), voidRequest()) },
			seenRequest{Call: "POST /v2/payments/authorizations/AUTH1/void", Token: "token-1"},
		},
		"refund": {
			func(a *Adapter) providers.Outcome { return a.Refund(t.Context(), refundRequest()) },
			seenRequest{
				Call: "POST /v2/payments/captures/CAP1/refund", RequestID: refundRequest().Key.PayPalRequestID(),
				Prefer: "return=representation", Token: "token-1",
				Body: `{"amount":{"currency_code":"EUR","value":"10.00"},"invoice_id":"` + testSagaKey + `_refund","custom_id":"` + testSagaKey + `"}`,
			},
		},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			current := held
			if name == "refund" {
				current = paid
			}
			adapter, fake := adapterAt(t, map[string][]canned{
				"POST /v2/checkout/orders":                       ok(paid),
				"POST " + orderPath + "/capture":                 ok(paid),
				"GET " + orderPath:                               ok(current),
				"POST /v2/payments/authorizations/AUTH1/void":    {{status: 204}},
				"POST /v2/payments/captures/CAP1/refund":         ok(refundJSON("REF1", "COMPLETED", "10.00", testSagaKey+"_refund")),
				"POST /v2/payments/authorizations/AUTH1/capture": ok(strings.ReplaceAll(captureJSON("CAP2", "COMPLETED", "10.00"), "_charge", "_capture")),
			})
			if got := test.call(adapter); got.Kind != providers.Succeeded {
				t.Errorf("outcome %+v", got)
			}
			if diff := cmp.Diff(test.want, fake.last()); diff != "" {
				t.Errorf("request (-want +got):\n%s", diff)
			}
		})
	}
}

func TestCharge(t *testing.T) {
	t.Parallel()
	paid := orderJSON("COMPLETED", capturesJSON(captureJSON("CAP1", "COMPLETED", "39.98")))
	approved := orderJSON("APPROVED", "")
	tests := map[string]struct {
		method string
		first  canned
		second canned // of the capture
		want   providers.Outcome
		calls  int
	}{
		"paid at once":           {"v1", canned{status: 201, body: paid}, canned{}, providers.Outcome{Kind: providers.Succeeded, Reference: testOrder, Money: euros39}, 1},
		"repeated":               {"v1", canned{status: 200, body: paid}, canned{}, providers.Outcome{Kind: providers.Succeeded, Reference: testOrder, Money: euros39}, 1},
		"wallet":                 {"wallet", canned{status: 200, body: orderJSON("PAYER_ACTION_REQUIRED", "")}, canned{}, providers.Outcome{Kind: providers.ActionRequired, Reference: testOrder, Money: euros39, NextAction: payHere}, 1},
		"wallet, approved since": {"wallet", canned{status: 200, body: approved}, canned{}, providers.Outcome{Kind: providers.Processing, Code: providers.CodeApproved, Reference: testOrder, Money: euros39}, 1},
		"stored and approved":    {"v1", canned{status: 201, body: approved}, canned{status: 201, body: paid}, providers.Outcome{Kind: providers.Succeeded, Reference: testOrder, Money: euros39}, 2},
		"stored, approved, declined": {
			"v1",
			canned{status: 201, body: approved},
			unprocessable("INSTRUMENT_DECLINED"),
			providers.Outcome{Kind: providers.Declined, Reference: testOrder, Code: "INSTRUMENT_DECLINED", Decline: &providers.Decline{Code: "INSTRUMENT_DECLINED"}},
			2,
		},
		"another attempt's order": {"v1", canned{status: 200, body: strings.ReplaceAll(paid, "_charge", "_charge_2")}, canned{}, providers.Outcome{Kind: providers.Unknown, Code: providers.CodeOtherPayment}, 1},
		"seen before":             {"v1", unprocessable("DUPLICATE_INVOICE_ID"), canned{}, providers.Outcome{Kind: providers.Unknown, Code: providers.CodeIdempotencyMismatch}, 1},
		"unknown vault id":        {"v1", canned{status: 404, body: problemJSON("RESOURCE_NOT_FOUND", "INVALID_RESOURCE_ID")}, canned{}, providers.Outcome{Kind: providers.Rejected, Code: "INVALID_RESOURCE_ID"}, 1},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			adapter, fake := adapterAt(t, map[string][]canned{
				"POST /v2/checkout/orders":       {test.first},
				"POST " + orderPath + "/capture": {test.second},
			})
			if diff := cmp.Diff(test.want, adapter.Charge(t.Context(), chargeRequest(test.method))); diff != "" {
				t.Errorf("outcome (-want +got):\n%s", diff)
			}
			if calls := fake.calls(); len(calls) != test.calls {
				t.Errorf("calls %v", calls)
			}
			if got := fake.last().RequestID; test.calls == 2 && got != (testKey+"_capture").PayPalRequestID() {
				t.Errorf("the capture's PayPal-Request-Id is %s", got)
			}
		})
	}
}

func TestContinue(t *testing.T) {
	t.Parallel()
	paid := orderJSON("COMPLETED", capturesJSON(captureJSON("CAP1", "COMPLETED", "39.98")))
	succeeded := providers.Outcome{Kind: providers.Succeeded, Reference: testOrder, Money: euros39}
	action := providers.Outcome{Kind: providers.ActionRequired, Reference: testOrder, Money: euros39, NextAction: payHere}
	withLink := strings.TrimSuffix(problemJSON("UNPROCESSABLE_ENTITY", "PAYER_ACTION_REQUIRED"), "}") +
		`,"links":[{"rel":"payer-action","href":"` + payHere.URL + `"}]}`
	tests := map[string]struct {
		answer canned
		order  string // as it stands then
		want   providers.Outcome
	}{
		"paid":                       {canned{status: 201, body: paid}, "", succeeded},
		"not approved":               {unprocessable("ORDER_NOT_APPROVED"), orderJSON("PAYER_ACTION_REQUIRED", ""), action},
		"approved meanwhile":         {unprocessable("ORDER_NOT_APPROVED"), orderJSON("APPROVED", ""), providers.Outcome{Kind: providers.Processing, Code: providers.CodeApproved, Reference: testOrder, Money: euros39}},
		"payer must act, with link":  {canned{status: 422, body: withLink}, "", providers.Outcome{Kind: providers.ActionRequired, Reference: testOrder, NextAction: payHere}},
		"payer must act":             {unprocessable("PAYER_ACTION_REQUIRED"), orderJSON("PAYER_ACTION_REQUIRED", ""), action},
		"captured by another call":   {unprocessable("ORDER_ALREADY_CAPTURED"), paid, succeeded},
		"completed by another call":  {unprocessable("ORDER_COMPLETED_OR_VOIDED"), paid, succeeded},
		"captured, but declined":     {unprocessable("ORDER_ALREADY_CAPTURED"), orderJSON("COMPLETED", capturesJSON(captureJSON("CAP1", "DECLINED", "39.98"))), providers.Outcome{Kind: providers.Declined, Reference: testOrder, Code: "DECLINED", Money: euros39, Decline: &providers.Decline{Code: "DECLINED"}}},
		"in progress":                {unprocessable("ORDER_COMPLETION_IN_PROGRESS"), "", providers.Outcome{Kind: providers.Busy, Reference: testOrder, Code: "ORDER_COMPLETION_IN_PROGRESS", RetryAfter: operatorDelay}},
		"declined":                   {unprocessable("PAYER_CANNOT_PAY"), "", providers.Outcome{Kind: providers.Declined, Reference: testOrder, Code: "PAYER_CANNOT_PAY", Decline: &providers.Decline{Code: "PAYER_CANNOT_PAY"}}},
		"expired":                    {unprocessable("ORDER_EXPIRED"), "", providers.Outcome{Kind: providers.Canceled, Reference: testOrder, Code: "ORDER_EXPIRED"}},
		"gone":                       {canned{status: 404, body: problemJSON("RESOURCE_NOT_FOUND", "INVALID_RESOURCE_ID")}, "", providers.Outcome{Kind: providers.NotFound, Reference: testOrder, Code: "INVALID_RESOURCE_ID"}},
		"200 with an empty body":     {canned{status: 200}, "", providers.Outcome{Kind: providers.Unknown, Reference: testOrder, Code: codeUnreadableResponse}},
		"200 with half a body":       {canned{status: 200, body: paid[:40]}, "", providers.Outcome{Kind: providers.Unknown, Reference: testOrder, Code: codeUnreadableResponse}},
		"200 with another order":     {canned{status: 200, body: strings.ReplaceAll(paid, testOrder, "OTHER")}, "", providers.Outcome{Kind: providers.Unknown, Code: codeOtherObject}},
		"200 with another attempt's": {canned{status: 200, body: strings.ReplaceAll(paid, "_charge", "_charge_2")}, "", providers.Outcome{Kind: providers.Unknown, Code: providers.CodeOtherPayment}},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			answers := map[string][]canned{"POST " + orderPath + "/capture": {test.answer}}
			if test.order != "" {
				answers["GET "+orderPath] = ok(test.order)
			}
			adapter, _ := adapterAt(t, answers)
			if diff := cmp.Diff(test.want, adapter.Continue(t.Context(), continueRequest())); diff != "" {
				t.Errorf("outcome (-want +got):\n%s", diff)
			}
		})
	}
}

func TestContinueAuthorizes(t *testing.T) {
	t.Parallel()
	adapter, _ := adapterAt(t, map[string][]canned{
		"POST " + orderPath + "/authorize": ok(orderJSON("COMPLETED", authorizationJSON("CREATED"))),
	})
	request := continueRequest()
	request.ManualCapture = true
	want := providers.Outcome{Kind: providers.Authorized, Reference: testOrder, Money: euros39}
	if diff := cmp.Diff(want, adapter.Continue(t.Context(), request)); diff != "" {
		t.Errorf("outcome (-want +got):\n%s", diff)
	}
}

// TestNothingIsSent: requests that cannot be right are refused without a call, a token's included.
func TestNothingIsSent(t *testing.T) {
	t.Parallel()
	adapter, fake := adapterAt(t, nil)
	badKey, badReference := continueRequest(), continueRequest()
	badKey.Key, badReference.Reference = "", "../x"
	charge, noKey := chargeRequest("4111 1111 1111 1111"), chargeRequest("wallet")
	noKey.Key = providers.SubKey(strings.Repeat("x", 65))
	capture, back := captureRequest(), refundRequest()
	capture.Money.Currency, back.Money.Amount = "KWD", 0
	tests := map[string]struct {
		got  providers.Outcome
		kind providers.OutcomeKind
		code string
	}{
		"card number":            {adapter.Charge(t.Context(), charge), providers.Rejected, "card_number_refused"},
		"long key":               {adapter.Charge(t.Context(), noKey), providers.Rejected, codeKeyInvalid},
		"continue, no key":       {adapter.Continue(t.Context(), badKey), providers.Rejected, codeKeyInvalid},
		"continue, no order":     {adapter.Continue(t.Context(), badReference), providers.Rejected, codeReferenceInvalid},
		"capture, currency":      {adapter.Capture(t.Context(), capture), providers.Rejected, "currency_unsupported"},
		"capture, no order":      {adapter.Capture(t.Context(), providers.CaptureRequest{Key: "k"}), providers.Rejected, codeReferenceInvalid},
		"void, no order":         {adapter.Void(t.Context(), providers.VoidRequest{Key: "k", Reference: "a/b"}), providers.Rejected, codeReferenceInvalid},
		"refund of nothing":      {adapter.Refund(t.Context(), back), providers.Rejected, "amount_not_positive"},
		"look-up, bad order":     {adapter.Lookup(t.Context(), providers.LookupRequest{Key: "k", Reference: "a?b"}), providers.Unknown, codeReferenceInvalid},
		"look-up, no key":        {adapter.Lookup(t.Context(), providers.LookupRequest{}), providers.Unknown, codeKeyInvalid},
		"look-up, no time":       {adapter.Lookup(t.Context(), providers.LookupRequest{Key: "k"}), providers.Unknown, codeSentAtMissing},
		"refund look-up":         {adapter.LookupRefund(t.Context(), providers.RefundLookupRequest{Key: "k", Payment: "a b"}), providers.Unknown, codeReferenceInvalid},
		"refund look-up, refund": {adapter.LookupRefund(t.Context(), providers.RefundLookupRequest{Key: "k", Payment: "A", Reference: "a b"}), providers.Unknown, codeReferenceInvalid},
		"refund look-up, no key": {adapter.LookupRefund(t.Context(), providers.RefundLookupRequest{Payment: "A"}), providers.Unknown, codeKeyInvalid},
	}
	for name, test := range tests {
		if test.got.Kind != test.kind || test.got.Code != test.code {
			t.Errorf("%s: %+v", name, test.got)
		}
	}
	if fake.tokens != 0 || len(fake.calls()) != 0 {
		t.Errorf("%d tokens, calls %v", fake.tokens, fake.calls())
	}
}

func TestNameWindowsAndCheck(t *testing.T) {
	t.Parallel()
	adapter := adapterTo(t, "http://127.0.0.1:1")
	if adapter.Name() != "paypal" {
		t.Errorf("name %q", adapter.Name())
	}
	if want := (providers.Windows{Repost: 5 * time.Hour, LookupDelay: 3 * time.Hour, Hold: 29 * 24 * time.Hour}); adapter.Windows() != want {
		t.Errorf("windows %+v", adapter.Windows())
	}
	tests := map[string]string{
		"wallet": "", "vault_COMPLETED": "", "8kk845": "", "card:8kk845": "", "nkq2y9g": "",
		"": "method_missing", "card:": "method_invalid", "pm card": "method_invalid", "card:a:b": "method_invalid", "x\n": "method_invalid",
		strings.Repeat("a", 256): "method_invalid", "4111111111111111": "card_number_refused", "card:4111 1111-1111 1111": "card_number_refused",
	}
	for method, want := range tests {
		got := ""
		if err := adapter.Check(chargeRequest(method)); err != nil {
			invalid, _ := errors.AsType[*providers.RequestError](err)
			got = invalid.Code
			if method != "" && method != "card:" && strings.Contains(err.Error(), method) {
				t.Errorf("error repeats the method %q", method)
			}
		}
		if got != want {
			t.Errorf("%q: %q, want %q", method, got, want)
		}
	}
}
