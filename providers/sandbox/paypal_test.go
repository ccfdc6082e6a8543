package sandbox_test

import (
	"encoding/json"
	"net/http"
	"strings"
	"testing"
	"time"

	"paysaga/providers/sandbox"
)

// token gets an access token.
func (b *bench) token(t *testing.T) string {
	t.Helper()
	request := b.request(t, http.MethodPost, "/paypal/v1/oauth2/token", "grant_type=client_credentials",
		map[string]string{"Content-Type": "application/x-www-form-urlencoded"})
	request.SetBasicAuth("client", "secret")
	answer, err := send(t, request)
	if err != nil {
		t.Fatal(err)
	}
	return text(answer.want(t, 200, "token_type", "Bearer").json(t), "access_token")
}

// paypal calls PayPal's API with a fresh token; an empty id sends none.
func (b *bench) paypal(t *testing.T, method, path, id, body string) reply {
	t.Helper()
	header := map[string]string{"Authorization": "Bearer " + b.token(t), "Prefer": "return=representation"}
	if method == http.MethodPost {
		header["Content-Type"] = "application/json"
	}
	if id != "" {
		header["PayPal-Request-Id"] = id
	}
	return b.do(t, method, "/paypal"+path, body, header)
}

func (b *bench) pay(t *testing.T, path, id, body string) reply {
	t.Helper()
	return b.paypal(t, http.MethodPost, path, id, body)
}

const wallet = `{"paypal":{"experience_context":{"return_url":"https://shop.example/ok?cart=9","cancel_url":"https://shop.example/no"}}}`

func vault(status string) string { return `{"card":{"vault_id":"vault_` + status + `"}}` }

func paypalOrder(intent, source string) string {
	body := `{"intent":"` + intent + `","purchase_units":[{"custom_id":"saga-1","invoice_id":"inv-1",
		"amount":{"currency_code":"EUR","value":"39.98"}}]`
	if source != "" {
		body += `,"payment_source":` + source
	}
	return body + "}"
}

// unit is a purchase unit with its payments by kind.
type unit struct {
	Payments map[string][]map[string]any `json:"payments"`
}

// payment is the first payment of a kind in an order.
func payment(t *testing.T, r reply, kind string) map[string]any {
	t.Helper()
	var order struct {
		Units []unit `json:"purchase_units"`
	}
	if err := json.Unmarshal([]byte(r.body), &order); err != nil || len(order.Units) != 1 || len(order.Units[0].Payments[kind]) == 0 {
		t.Fatalf("no %s in %s (%v)", kind, r.body, err)
	}
	return order.Units[0].Payments[kind][0]
}

// issue checks an error's single issue.
func (r reply) issue(t *testing.T, status int, name, issue string) {
	t.Helper()
	var failure struct {
		Name    string              `json:"name"`
		Details []map[string]string `json:"details"`
	}
	err := json.Unmarshal([]byte(r.body), &failure)
	if err != nil || r.status != status || failure.Name != name || len(failure.Details) != 1 || failure.Details[0]["issue"] != issue {
		t.Errorf("%d %s, want %d %s %s (%v)", r.status, r.body, status, name, issue, err)
	}
}

func TestPayPalToken(t *testing.T) {
	t.Parallel()
	b := newBench(t, sandbox.Options{PayPalClientID: "client", PayPalSecret: "secret"})
	token := b.token(t)
	header := map[string]string{"Authorization": "Bearer " + token}
	get := func() reply { return b.do(t, http.MethodGet, "/paypal/v2/checkout/orders/NONE", "", header) }
	get().issue(t, 404, "RESOURCE_NOT_FOUND", "INVALID_RESOURCE_ID")
	b.AdvanceClock(9*time.Hour - time.Second)
	get().issue(t, 404, "RESOURCE_NOT_FOUND", "INVALID_RESOURCE_ID")
	b.AdvanceClock(time.Second)
	get().want(t, 401, "name", "AUTHENTICATION_FAILURE")
	header["Authorization"] = "Bearer " + token[:len(token)-1]
	get().want(t, 401)
	request := b.request(t, http.MethodPost, "/paypal/v1/oauth2/token", "grant_type=client_credentials",
		map[string]string{"Content-Type": "application/x-www-form-urlencoded"})
	request.SetBasicAuth("client", "other")
	answer, err := send(t, request)
	if err != nil {
		t.Fatal(err)
	}
	answer.want(t, 401, "error", "invalid_client")
	b.control(t, "/faults", `{"provider":"paypal","call":"token","times":1,"fault":"error_before"}`, http.StatusCreated)
	request = b.request(t, http.MethodPost, "/paypal/v1/oauth2/token", "grant_type=client_credentials", nil)
	request.SetBasicAuth("client", "secret")
	if answer, err = send(t, request); err != nil || answer.status != 500 {
		t.Errorf("%d %s %v", answer.status, answer.body, err)
	}
}

func TestPayPalVault(t *testing.T) {
	t.Parallel()
	for status, want := range map[string]struct {
		capture, reason, authorization string
		captured, held                 int64
	}{
		"COMPLETED": {"COMPLETED", "", "CREATED", 3998, 3998},
		"DECLINED":  {"DECLINED", "", "DENIED", 0, 0},
		"FAILED":    {"FAILED", "", "DENIED", 0, 0},
		"PENDING":   {"PENDING", "PENDING_REVIEW", "PENDING", 0, 0},
	} {
		for _, source := range []string{vault(status), strings.Replace(vault(status), "card", "paypal", 1)} {
			t.Run(status+source[:7], func(t *testing.T) {
				t.Parallel()
				b := newBench(t, sandbox.Options{})
				order := b.pay(t, "/v2/checkout/orders", "k1", paypalOrder("CAPTURE", source)).want(t, 201, "status", "COMPLETED")
				capture := payment(t, order, "captures")
				if capture["status"] != want.capture || text(capture, "status_details", "reason") != want.reason {
					t.Errorf("capture is %v", capture)
				}
				b.wantMoney(t, want.capture, 0, want.captured, 0)
				b.paypal(t, "GET", "/v2/payments/captures/"+text(capture, "id"), "", "").want(t, 200, "status", want.capture,
					"supplementary_data.related_ids.order_id", text(order.json(t), "id"), "custom_id", "saga-1", "invoice_id", "inv-1")

				b = newBench(t, sandbox.Options{})
				order = b.pay(t, "/v2/checkout/orders", "k1", paypalOrder("AUTHORIZE", source)).want(t, 201)
				if authorization := payment(t, order, "authorizations"); authorization["status"] != want.authorization {
					t.Errorf("authorization is %v", authorization)
				}
				b.wantMoney(t, want.authorization, want.held, 0, 0)
			})
		}
	}
}

func TestPayPalDeclines(t *testing.T) {
	t.Parallel()
	b := newBench(t, sandbox.Options{})
	for _, issue := range []string{"INSTRUMENT_DECLINED", "PAYER_CANNOT_PAY", "TRANSACTION_REFUSED"} {
		b.pay(t, "/v2/checkout/orders", "k", paypalOrder("CAPTURE", vault(issue))).issue(t, 422, "UNPROCESSABLE_ENTITY", issue)
	}
	b.pay(t, "/v2/checkout/orders", "k", paypalOrder("CAPTURE", vault("NONSENSE"))).issue(t, 422, "UNPROCESSABLE_ENTITY", "MISMATCHED_VAULT_ID_TO_PAYMENT_SOURCE")
	header := map[string]string{
		"Authorization": "Bearer " + b.token(t), "Content-Type": "application/json", "PayPal-Request-Id": "k",
		"PayPal-Mock-Response": `{"mock_application_codes":"PAYER_ACCOUNT_RESTRICTED"}`,
	}
	b.do(t, http.MethodPost, "/paypal/v2/checkout/orders", paypalOrder("CAPTURE", vault("COMPLETED")), header).
		issue(t, 422, "UNPROCESSABLE_ENTITY", "PAYER_ACCOUNT_RESTRICTED")
	if len(b.Ledger()) != 0 {
		t.Errorf("ledger is %+v", b.Ledger())
	}
	for name, code := range map[string]string{"REFUSED": "0500", "IF": "5120", "CVV_F": "00N7", "BANK_ERROR": "5100"} {
		source := `{"card":{"name":"CCREJECT-` + name + `","number":"4111111111111111","expiry":"2030-03"}}`
		order := b.pay(t, "/v2/checkout/orders", "k-"+name, paypalOrder("CAPTURE", source)).want(t, 201, "status", "COMPLETED")
		if capture := payment(t, order, "captures"); capture["status"] != "DECLINED" || text(capture, "processor_response", "response_code") != code {
			t.Errorf("capture is %v", capture)
		}
	}
}

func TestPayPalRefusesWhatIsWrong(t *testing.T) {
	t.Parallel()
	b := newBench(t, sandbox.Options{})
	money := func(currency, value string) string {
		body := strings.Replace(paypalOrder("CAPTURE", ""), `"EUR"`, `"`+currency+`"`, 1)
		return strings.Replace(body, `"39.98"`, `"`+value+`"`, 1)
	}
	for name, test := range map[string]struct {
		body   string
		status int
		issue  string
	}{
		"broken":        {`{`, 400, "MALFORMED_REQUEST_JSON"},
		"unknown field": {`{"colour":1}`, 400, "NOT_SUPPORTED"},
		"no intent":     {`{"purchase_units":[{}]}`, 400, "MISSING_REQUIRED_PARAMETER"},
		"intent":        {paypalOrder("SALE", ""), 400, "INVALID_PARAMETER_VALUE"},
		"no unit":       {`{"intent":"CAPTURE"}`, 400, "MISSING_REQUIRED_PARAMETER"},
		"no amount":     {`{"intent":"CAPTURE","purchase_units":[{}]}`, 400, "MISSING_REQUIRED_PARAMETER"},
		"unit field":    {`{"intent":"CAPTURE","purchase_units":[{"colour":1}]}`, 400, "NOT_SUPPORTED"},
		"no number":     {money("EUR", "1,5"), 400, "INVALID_PARAMETER_SYNTAX"},
		"three digits":  {money("EUR", "1.500"), 422, "DECIMAL_PRECISION"},
		"yen":           {money("JPY", "1.0"), 422, "DECIMAL_PRECISION"},
		"forint":        {money("HUF", "1.00"), 422, "DECIMAL_PRECISION"},
		"zero":          {money("EUR", "0.00"), 422, "CANNOT_BE_ZERO_OR_NEGATIVE"},
		"negative":      {money("EUR", "-1"), 422, "CANNOT_BE_ZERO_OR_NEGATIVE"},
		"huge":          {money("EUR", "1000000000000000"), 422, "MAX_VALUE_EXCEEDED"},
		"currency":      {money("CLP", "1"), 422, "INVALID_CURRENCY_CODE"},
		"two sources":   {paypalOrder("CAPTURE", `{"card":{},"paypal":{}}`), 400, "INVALID_PARAMETER_VALUE"},
		"long invoice":  {strings.Replace(paypalOrder("CAPTURE", ""), "inv-1", strings.Repeat("i", 128), 1), 400, "INVALID_STRING_LENGTH"},
		"sum": {
			strings.Replace(paypalOrder("CAPTURE", ""), `"39.98"`,
				`"39.98","breakdown":{"item_total":{"currency_code":"EUR","value":"39.00"}}`, 1), 422, "AMOUNT_MISMATCH",
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			kind := map[int]string{400: "INVALID_REQUEST", 422: "UNPROCESSABLE_ENTITY"}[test.status]
			b.pay(t, "/v2/checkout/orders", "k "+name, test.body).issue(t, test.status, kind, test.issue)
		})
	}
	b.pay(t, "/v2/checkout/orders", "", paypalOrder("CAPTURE", wallet)).issue(t, 400, "INVALID_REQUEST", "PAYPAL_REQUEST_ID_REQUIRED")
	header := map[string]string{"Authorization": "Bearer " + b.token(t)}
	b.do(t, http.MethodPost, "/paypal/v2/checkout/orders/X/capture", "", header).want(t, 415, "name", "UNSUPPORTED_MEDIA_TYPE")
}

func TestPayPalCurrencies(t *testing.T) {
	t.Parallel()
	for currency, test := range map[string]struct {
		value string
		iso   int64
	}{"EUR": {"5", 500}, "USD": {"5.1", 510}, "GBP": {".50", 50}, "JPY": {"500", 500}, "HUF": {"500", 50000}, "TWD": {"5", 500}} {
		b := newBench(t, sandbox.Options{})
		body := strings.Replace(strings.Replace(paypalOrder("CAPTURE", vault("COMPLETED")), "39.98", test.value, 1), "EUR", currency, 1)
		b.pay(t, "/v2/checkout/orders", "k", body).want(t, 201)
		if entry := b.only(t); entry.Captured != test.iso {
			t.Errorf("%s %s: ledger is %+v", currency, test.value, entry)
		}
	}
}

func TestPayPalRequestIDBringsTheLatestState(t *testing.T) {
	t.Parallel()
	b := newBench(t, sandbox.Options{})
	create := func() reply { return b.pay(t, "/v2/checkout/orders", "k1", paypalOrder("CAPTURE", wallet)) }
	id := text(create().want(t, 201, "status", "PAYER_ACTION_REQUIRED").json(t), "id")
	b.pay(t, "/v2/checkout/orders/"+id+"/capture", "k1", "").issue(t, 422, "UNPROCESSABLE_ENTITY", "ORDER_NOT_APPROVED")
	b.control(t, "/payments/"+id+"/approve", "", http.StatusOK)
	create().want(t, 200, "status", "APPROVED", "id", id)
	// The same id serves another kind of call: it is remembered for each kind.
	first := b.pay(t, "/v2/checkout/orders/"+id+"/capture", "k1", "").want(t, 201, "status", "COMPLETED")
	capture := text(payment(t, first, "captures"), "id")
	b.pay(t, "/v2/checkout/orders/"+id+"/capture", "k2", "").issue(t, 422, "UNPROCESSABLE_ENTITY", "ORDER_ALREADY_CAPTURED")
	refund := b.pay(t, "/v2/payments/captures/"+capture+"/refund", "k3", `{"amount":{"currency_code":"EUR","value":"10.00"}}`).
		want(t, 201, "status", "COMPLETED", "amount.value", "10.00")
	again := b.pay(t, "/v2/checkout/orders/"+id+"/capture", "k1", "").want(t, 200)
	if got := payment(t, again, "captures"); got["status"] != "PARTIALLY_REFUNDED" || got["id"] != capture {
		t.Errorf("the repeat shows %v", got)
	}
	b.pay(t, "/v2/payments/captures/"+capture+"/refund", "k3", "").want(t, 200, "id", text(refund.json(t), "id"))
	b.wantMoney(t, "PARTIALLY_REFUNDED", 0, 3998, 1000)
	b.AdvanceClock(6 * time.Hour)
	create().want(t, 201, "status", "PAYER_ACTION_REQUIRED") // forgotten: another order
	b.pay(t, "/v2/payments/captures/"+capture+"/refund", "k3", "").want(t, 200)
	b.AdvanceClock(45*24*time.Hour - 6*time.Hour)
	b.pay(t, "/v2/payments/captures/"+capture+"/refund", "k3", "").want(t, 201, "amount.value", "29.98")
}

func TestPayPalSameIDInFlight(t *testing.T) {
	t.Parallel()
	b := newBench(t, sandbox.Options{})
	b.control(t, "/faults", `{"provider":"paypal","call":"charge","fault":"slow","delay_ms":300}`, http.StatusCreated)
	answers := make([]reply, 6)
	inParallel(len(answers), func(i int) {
		answers[i] = b.pay(t, "/v2/checkout/orders", "k1", paypalOrder("CAPTURE", vault("COMPLETED")))
	})
	for _, each := range answers {
		if each.status == http.StatusConflict {
			each.issue(t, 409, "RESOURCE_CONFLICT", "PREVIOUS_REQUEST_IN_PROGRESS")
		} else if each.status != 201 && each.status != 200 {
			t.Errorf("%d %s", each.status, each.body)
		}
	}
	b.wantMoney(t, "COMPLETED", 0, 3998, 0)
}

func TestPayPalFaults(t *testing.T) {
	t.Parallel()
	for fault, want := range map[string][2]int{ // the faulted answer, the repeat
		`"error_after"`: {500, 200}, `"error_before"`: {500, 201}, `"error_saved"`: {500, 200}, `"in_progress"`: {409, 201},
		`"rate_limited"`: {429, 201}, `"key_store_down"`: {500, 201},
	} {
		b := newBench(t, sandbox.Options{})
		b.control(t, "/faults", `{"provider":"paypal","call":"charge","times":1,"match":"k","fault":`+fault+`}`, http.StatusCreated)
		b.pay(t, "/v2/checkout/orders", "k1", paypalOrder("CAPTURE", vault("COMPLETED"))).want(t, want[0])
		b.pay(t, "/v2/checkout/orders", "k1", paypalOrder("CAPTURE", vault("COMPLETED"))).want(t, want[1])
		b.wantMoney(t, "COMPLETED", 0, 3998, 0)
	}
}

func TestPayPalInvoices(t *testing.T) {
	t.Parallel()
	pay := func(b *bench, key, status string) reply {
		return b.pay(t, "/v2/checkout/orders", key, paypalOrder("CAPTURE", vault(status)))
	}
	b := newBench(t, sandbox.Options{})
	pay(b, "k1", "DECLINED").want(t, 201)
	pay(b, "k2", "COMPLETED").want(t, 201) // what was declined does not use the invoice up
	pay(b, "k3", "COMPLETED").issue(t, 422, "UNPROCESSABLE_ENTITY", "DUPLICATE_INVOICE_ID")
	b = newBench(t, sandbox.Options{PayPalReusedInvoices: true})
	pay(b, "k1", "COMPLETED").want(t, 201)
	pay(b, "k2", "COMPLETED").want(t, 201)
}
