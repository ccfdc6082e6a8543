package adyen

import (
	"encoding/json"
	"net/http"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"paysaga/providers"
)

const (
	authorised   = `{"pspReference":"QFQTPCQ8HXSKGK82","resultCode":"Authorised","merchantReference":"` + string(testKey) + `","amount":{"currency":"EUR","value":3998}}`
	modification = `{"merchantAccount":"PaysagaECOM","paymentPspReference":"QFQTPCQ8HXSKGK82","reference":"r","pspReference":"993617894906488A","status":"received"}`
)

// TestWhatIsSent holds each call's path, key and body.
func TestWhatIsSent(t *testing.T) {
	t.Parallel()
	charge := func(change func(*providers.ChargeRequest)) func(*testing.T, *Adapter) providers.Outcome {
		return func(t *testing.T, a *Adapter) providers.Outcome {
			t.Helper()
			request := chargeRequest()
			change(&request)
			return a.Charge(t.Context(), request)
		}
	}
	void := func(change func(*providers.VoidRequest)) func(*testing.T, *Adapter) providers.Outcome {
		return func(t *testing.T, a *Adapter) providers.Outcome {
			t.Helper()
			request := voidRequest()
			change(&request)
			return a.Void(t.Context(), request)
		}
	}
	const common = `"merchantAccount":"PaysagaECOM","amount":{"currency":"EUR","value":3998},"reference":"` + string(testKey) + `","channel":"Web",` +
		`"metadata":{"saga_key":"` + testSagaKey + `","order_id":"order-1"},`
	const stored = `"paymentMethod":{"type":"scheme","storedPaymentMethodId":"stored_APPROVED"},"shopperInteraction":"ContAuth","recurringProcessingModel":"CardOnFile",`
	const nowhere = `"returnUrl":"https://return.invalid/",`
	tests := []struct {
		name string
		call func(*testing.T, *Adapter) providers.Outcome
		path string
		key  string
		body string
	}{
		{
			"stored method", charge(func(*providers.ChargeRequest) {}), "/payments", "_charge",
			`{` + common + stored + nowhere + `"shopperReference":"order-1","captureDelayHours":0}`,
		},
		{
			"authorization only, of a customer", charge(func(r *providers.ChargeRequest) {
				r.ManualCapture, r.CustomerReference, r.ReturnURL = true, "cus_42", "https://shop.example/back?o=1&x=2"
			}), "/payments", "_charge",
			`{` + common + stored + `"returnUrl":"https://shop.example/back?o=1&x=2","shopperReference":"cus_42","additionalData":{"manualCapture":"true"}}`,
		},
		{
			"state of the client library, on a page that shows 3-D Secure", charge(func(r *providers.ChargeRequest) {
				r.Method, r.MethodData = "", []byte(`{"riskData":{},"paymentMethod":{"type":"scheme","encryptedCardNumber":"test_4111111111111111"},`+
					`"browserInfo":{"userAgent":"Mozilla/5.0","language":"en"}, "origin":"https://shop.example"}`)
			}), "/payments", "_charge",
			`{` + common + nowhere + `"paymentMethod":{"encryptedCardNumber":"test_4111111111111111","type":"scheme"},"shopperInteraction":"Ecommerce",` +
				`"captureDelayHours":0,"browserInfo":{"language":"en","userAgent":"Mozilla/5.0"},"origin":"https://shop.example",` +
				`"authenticationData":{"threeDSRequestData":{"nativeThreeDS":"preferred"}}}`,
		},
		{
			"state of the client library, on another page", charge(func(r *providers.ChargeRequest) {
				r.Method, r.MethodData = "", []byte(`{"paymentMethod":{"type":"scheme","encryptedCardNumber":"x"},"browserInfo":{"language":"en"}}`)
			}), "/payments", "_charge",
			`{` + common + nowhere + `"paymentMethod":{"encryptedCardNumber":"x","type":"scheme"},"shopperInteraction":"Ecommerce",` +
				`"captureDelayHours":0,"browserInfo":{"language":"en"}}`,
		},
		{
			"encrypted card", charge(func(r *providers.ChargeRequest) {
				r.Method, r.MethodData = "", []byte(`{ "type": "scheme", "encryptedCardNumber": "test_4111111111111111" }`)
			}), "/payments", "_charge",
			`{` + common + nowhere + `"paymentMethod":{"type":"scheme","encryptedCardNumber":"test_4111111111111111"},"shopperInteraction":"Ecommerce","captureDelayHours":0}`,
		},
		{
			"stored method with its security code", charge(func(r *providers.ChargeRequest) {
				r.Method, r.MethodData = "", []byte(`{"type":"scheme","storedPaymentMethodId":"M5","encryptedSecurityCode":"x"}`)
			}), "/payments", "_charge",
			`{` + common + nowhere + `"paymentMethod":{"type":"scheme","storedPaymentMethodId":"M5","encryptedSecurityCode":"x"},"shopperInteraction":"ContAuth",` +
				`"recurringProcessingModel":"CardOnFile","shopperReference":"order-1","captureDelayHours":0}`,
		},
		{
			"pesos", charge(func(r *providers.ChargeRequest) { r.Money = providers.Money{Amount: 500, Currency: "CLP"} }), "/payments", "_charge",
			strings.Replace(`{`+common+stored+nowhere+`"shopperReference":"order-1","captureDelayHours":0}`, `"EUR","value":3998`, `"CLP","value":50000`, 1),
		},
		{
			"continue", func(t *testing.T, a *Adapter) providers.Outcome {
				t.Helper()
				return a.Continue(t.Context(), continueRequest())
			},
			"/payments/details", "_continue", `{"details":{"redirectResult":"X6XtfGC3!Y"}}`,
		},
		{
			"capture", func(t *testing.T, a *Adapter) providers.Outcome {
				t.Helper()
				return a.Capture(t.Context(), captureRequest())
			},
			"/payments/" + testPayment + "/captures", "_capture",
			`{"merchantAccount":"PaysagaECOM","reference":"` + testSagaKey + `_capture","amount":{"currency":"EUR","value":2000}}`,
		},
		{
			"refund", func(t *testing.T, a *Adapter) providers.Outcome {
				t.Helper()
				return a.Refund(t.Context(), refundRequest())
			},
			"/payments/" + testPayment + "/refunds", "_refund",
			`{"merchantAccount":"PaysagaECOM","reference":"` + testSagaKey + `_refund","amount":{"currency":"EUR","value":1000}}`,
		},
		{
			"void of what may be captured", void(func(*providers.VoidRequest) {}), "/payments/" + testPayment + "/reversals", "_void",
			`{"merchantAccount":"PaysagaECOM","reference":"` + testSagaKey + `_void"}`,
		},
		{
			"void of what is authorized only", void(func(r *providers.VoidRequest) { r.ManualCapture = true }), "/payments/" + testPayment + "/cancels", "_void",
			`{"merchantAccount":"PaysagaECOM","reference":"` + testSagaKey + `_void"}`,
		},
		{
			"void of what is not known", void(func(r *providers.VoidRequest) { r.Reference = "" }), "/cancels", "_void",
			`{"merchantAccount":"PaysagaECOM","reference":"` + testSagaKey + `_void","paymentReference":"` + string(testKey) + `"}`,
		},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			wire := newRecorder(canned{status: 500})
			adapter := adapterAt(t, wire)
			test.call(t, adapter)
			test.call(t, adapter)
			first, second := <-wire.calls, <-wire.calls
			if want := "POST /v71" + test.path; first.path != want {
				t.Errorf("%s, want %s", first.path, want)
			}
			for name, want := range map[string]string{
				"Idempotency-Key": testSagaKey + test.key, "X-Api-Key": testAPIKey, "Content-Type": "application/json",
			} {
				if got := first.header.Get(name); got != want {
					t.Errorf("%s: %q, want %q", name, got, want)
				}
			}
			if difference := cmp.Diff(decoded(t, test.body), decoded(t, first.body)); difference != "" {
				t.Error(difference)
			}
			if first.body != second.body {
				t.Errorf("a repeat has another body:\n%s\n%s", first.body, second.body)
			}
		})
	}
}

func decoded(t *testing.T, body string) any {
	t.Helper()
	var value any
	if err := json.Unmarshal([]byte(body), &value); err != nil {
		t.Fatalf("%v: %s", err, body)
	}
	return value
}

// TestContinueAsksForProof: a customer can bring the details of another, cheaper payment.
func TestContinueAsksForProof(t *testing.T) {
	t.Parallel()
	succeeded := providers.Outcome{Kind: providers.Succeeded, Reference: testPayment}
	tests := map[string]struct {
		answer    string
		reference string
		want      providers.Outcome
	}{
		"our reference":              {`{"pspReference":"OTHERPSPREFERENC","resultCode":"Authorised","merchantReference":"` + string(testKey) + `"}`, testPayment, providers.Outcome{Kind: providers.Succeeded, Reference: "OTHERPSPREFERENC"}},
		"Adyen's reference":          {`{"pspReference":"` + testPayment + `","resultCode":"Authorised"}`, testPayment, succeeded},
		"another reference":          {`{"pspReference":"` + testPayment + `","resultCode":"Authorised","merchantReference":"cheap"}`, testPayment, unknown("other_payment")},
		"another of Adyen's":         {`{"pspReference":"OTHERPSPREFERENC","resultCode":"Authorised"}`, testPayment, unknown("other_payment")},
		"no reference":               {`{"resultCode":"Refused","refusalReasonCode":"2"}`, "", unknown("other_payment")},
		"none, and none was known":   {`{"pspReference":"` + testPayment + `","resultCode":"Authorised"}`, "", unknown("other_payment")},
		"ours, and none was known":   {authorised, "", providers.Outcome{Kind: providers.Succeeded, Reference: testPayment, Money: euros(3998)}},
		"another one is not refused": {`{"resultCode":"Refused","refusalReasonCode":"2","merchantReference":"cheap"}`, testPayment, unknown("other_payment")},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			request := continueRequest()
			request.Reference = test.reference
			got := adapterAt(t, canned{status: http.StatusOK, body: test.answer}).Continue(t.Context(), request)
			if difference := cmp.Diff(test.want, got); difference != "" {
				t.Error(difference)
			}
		})
	}
}

func TestLookupsKnowNothing(t *testing.T) {
	t.Parallel()
	adapter := adapterAt(t, http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) { t.Errorf("%s was sent", r.URL.Path) }))
	if difference := cmp.Diff(unknown(providers.CodeNoLookup), adapter.Lookup(t.Context(), providers.LookupRequest{Key: testKey, Reference: testPayment})); difference != "" {
		t.Error(difference)
	}
	if difference := cmp.Diff(unknown(providers.CodeNoLookup), adapter.LookupRefund(t.Context(), providers.RefundLookupRequest{Payment: testPayment})); difference != "" {
		t.Error(difference)
	}
}

// TestInvalidCallsAreNotSent: what Adyen would refuse, or what would reach another URL than meant.
func TestInvalidCallsAreNotSent(t *testing.T) {
	t.Parallel()
	adapter := adapterAt(t, http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		t.Errorf("%s %s was sent", r.Method, r.URL.Path)
	}))
	charge, goOn, capture, refund, void := chargeRequest(), continueRequest(), captureRequest(), refundRequest(), voidRequest()
	charge.Money.Amount = 0
	goOn.Details = nil
	capture.Reference = "a/../b"
	refund.Money = providers.Money{Amount: 1050, Currency: "IDR"}
	void.Reference = "a?b"
	longKey := voidRequest()
	longKey.Key = providers.SubKey(strings.Repeat("k", 65))
	nothing := providers.VoidRequest{Key: testSagaKey + "_void"}
	noCharge := continueRequest()
	noCharge.ChargeKey = ""
	noKey := captureRequest()
	noKey.Key = "a:b"
	tests := map[string]struct {
		got  providers.Outcome
		code string
	}{
		"no money":               {adapter.Charge(t.Context(), charge), "amount_not_positive"},
		"no details":             {adapter.Continue(t.Context(), goOn), "details_invalid"},
		"continue of no charge":  {adapter.Continue(t.Context(), noCharge), "key_invalid"},
		"capture of a path":      {adapter.Capture(t.Context(), capture), "reference_invalid"},
		"capture with a colon":   {adapter.Capture(t.Context(), noKey), "key_invalid"},
		"refund not expressible": {adapter.Refund(t.Context(), refund), "amount_not_expressible"},
		"void of a query":        {adapter.Void(t.Context(), void), "reference_invalid"},
		"void with a long key":   {adapter.Void(t.Context(), longKey), "key_invalid"},
		"void of nothing":        {adapter.Void(t.Context(), nothing), "reference_invalid"},
	}
	for name, test := range tests {
		if test.got.Kind != providers.Rejected || test.got.Code != test.code {
			t.Errorf("%s: %+v, want %s", name, test.got, test.code)
		}
	}
}

func TestOutcomeOfEveryAnswerToAModification(t *testing.T) {
	t.Parallel()
	received := providers.Outcome{Kind: providers.Processing, Reference: "993617894906488A", Code: "received"}
	withMoney := received
	withMoney.Money = euros(2000)
	replaced := func(from, to string) string { return strings.Replace(modification, from, to, 1) }
	tests := map[string]struct {
		answer string
		want   providers.Outcome
	}{
		"received":            {modification, received},
		"received with money": {replaced(`"status"`, `"amount":{"currency":"EUR","value":2000},"status"`), withMoney},
		"odd money":           {replaced(`"status"`, `"amount":{"currency":"EURO","value":2000},"status"`), providers.Outcome{Kind: providers.Unknown, Reference: "993617894906488A", Code: "amount_unreadable"}},
		"another payment":     {replaced(testPayment, "OTHER"), unknown("other_payment")},
		"another status":      {replaced("received", "done"), providers.Outcome{Kind: providers.Unknown, Reference: "993617894906488A", Code: "status_unrecognized"}},
		"no reference":        {replaced("993617894906488A", ""), unknown("other_object")},
		"odd reference":       {replaced("993617894906488A", "a b"), unknown("other_object")},
		"nothing":             {`{}`, unknown("other_payment")},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			adapter := adapterAt(t, canned{status: http.StatusCreated, body: test.answer})
			manual := voidRequest()
			manual.ManualCapture = true
			for call, got := range map[string]providers.Outcome{
				"capture": adapter.Capture(t.Context(), captureRequest()), "refund": adapter.Refund(t.Context(), refundRequest()),
				"reversal": adapter.Void(t.Context(), voidRequest()), "cancellation": adapter.Void(t.Context(), manual),
			} {
				if difference := cmp.Diff(test.want, got); difference != "" {
					t.Errorf("%s: %s", call, difference)
				}
			}
		})
	}
}

func TestOutcomeOfATechnicalCancellation(t *testing.T) {
	t.Parallel()
	request := voidRequest()
	request.Reference = ""
	for reference, want := range map[string]providers.Outcome{
		string(testKey): {Kind: providers.Processing, Reference: "993617894906488A", Code: "received"},
		"another":       unknown("other_payment"),
	} {
		adapter := adapterAt(t, canned{status: http.StatusCreated, body: strings.Replace(modification, `"paymentPspReference":"`+testPayment, `"paymentReference":"`+reference, 1)})
		if difference := cmp.Diff(want, adapter.Void(t.Context(), request)); difference != "" {
			t.Errorf("%s: %s", reference, difference)
		}
	}
}
