package sandbox_test

import (
	"encoding/json"
	"net/http"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"paysaga/providers/sandbox"
)

func TestPayPalAuthorizations(t *testing.T) {
	t.Parallel()
	b := newBench(t, sandbox.Options{})
	order := b.pay(t, "/v2/checkout/orders", "k1", paypalOrder("AUTHORIZE", vault("COMPLETED"))).want(t, 201)
	id := text(payment(t, order, "authorizations"), "id")
	path := "/v2/payments/authorizations/" + id
	part := func(value, more string) string {
		return `{"amount":{"currency_code":"EUR","value":"` + value + `"}` + more + `}`
	}
	b.pay(t, path+"/capture", "k2", part("40.00", "")).issue(t, 422, "UNPROCESSABLE_ENTITY", "MAX_CAPTURE_AMOUNT_EXCEEDED")
	b.pay(t, path+"/capture", "k2", strings.Replace(part("1", ""), "EUR", "USD", 1)).
		issue(t, 422, "UNPROCESSABLE_ENTITY", "AUTH_CAPTURE_CURRENCY_MISMATCH")
	b.pay(t, path+"/capture", "k2", part("10.00", "")).want(t, 201, "status", "COMPLETED", "amount.value", "10.00",
		"supplementary_data.related_ids.authorization_id", id)
	b.pay(t, path+"/capture", "k2", part("10.00", "")).want(t, 200)
	b.paypal(t, "GET", path, "", "").want(t, 200, "status", "PARTIALLY_CAPTURED")
	b.wantMoney(t, "COMPLETED", 2998, 1000, 0)
	b.pay(t, path+"/capture", "k3", part("5.00", `,"final_capture":true`)).want(t, 201)
	b.wantMoney(t, "COMPLETED", 0, 1500, 0)
	b.pay(t, path+"/capture", "k4", "").issue(t, 422, "UNPROCESSABLE_ENTITY", "AUTHORIZATION_ALREADY_CAPTURED")
	b.pay(t, path+"/void", "", "").issue(t, 422, "UNPROCESSABLE_ENTITY", "PREVIOUSLY_CAPTURED")
}

func TestPayPalVoid(t *testing.T) {
	t.Parallel()
	b := newBench(t, sandbox.Options{})
	order := b.pay(t, "/v2/checkout/orders", "k1", paypalOrder("AUTHORIZE", vault("COMPLETED"))).want(t, 201)
	path := "/v2/payments/authorizations/" + text(payment(t, order, "authorizations"), "id")
	header := map[string]string{"Authorization": "Bearer " + b.token(t)}
	if void := b.do(t, http.MethodPost, "/paypal"+path+"/void", "", header); void.status != http.StatusNoContent || void.body != "" {
		t.Errorf("%d %q", void.status, void.body)
	}
	b.wantMoney(t, "VOIDED", 0, 0, 0)
	b.pay(t, path+"/void", "", "").issue(t, 422, "UNPROCESSABLE_ENTITY", "PREVIOUSLY_VOIDED")
	b.pay(t, path+"/capture", "k2", "").issue(t, 422, "UNPROCESSABLE_ENTITY", "AUTHORIZATION_VOIDED")
	b = newBench(t, sandbox.Options{})
	order = b.pay(t, "/v2/checkout/orders", "k1", paypalOrder("AUTHORIZE", vault("COMPLETED"))).want(t, 201)
	path = "/v2/payments/authorizations/" + text(payment(t, order, "authorizations"), "id")
	b.AdvanceClock(29 * 24 * time.Hour)
	b.pay(t, path+"/capture", "k2", "").issue(t, 422, "UNPROCESSABLE_ENTITY", "AUTHORIZATION_EXPIRED")
	b.wantMoney(t, "VOIDED", 0, 0, 0)
}

func TestPayPalRefunds(t *testing.T) {
	t.Parallel()
	b := newBench(t, sandbox.Options{})
	order := b.pay(t, "/v2/checkout/orders", "k1", paypalOrder("CAPTURE", vault("REFUND_PENDING"))).want(t, 201)
	path := "/v2/payments/captures/" + text(payment(t, order, "captures"), "id") + "/refund"
	part := func(currency, value string) string {
		return `{"amount":{"currency_code":"` + currency + `","value":"` + value + `"},"invoice_id":"r-1"}`
	}
	b.pay(t, path, "k2", part("USD", "1")).issue(t, 422, "UNPROCESSABLE_ENTITY", "REFUND_CAPTURE_CURRENCY_MISMATCH")
	b.pay(t, path, "k2", part("EUR", "39.99")).issue(t, 422, "UNPROCESSABLE_ENTITY", "REFUND_AMOUNT_EXCEEDED")
	refund := text(b.pay(t, path, "k2", part("EUR", "1")).want(t, 201, "status", "PENDING").json(t), "id")
	b.pay(t, path, "k3", part("EUR", "1")).issue(t, 422, "UNPROCESSABLE_ENTITY", "DUPLICATE_INVOICE_ID")
	b.wantMoney(t, "PARTIALLY_REFUNDED", 0, 3998, 100)
	b.control(t, "/refunds/"+refund+"/fail", "", http.StatusOK)
	b.paypal(t, "GET", "/v2/payments/refunds/"+refund, "", "").want(t, 200, "status", "FAILED")
	b.wantMoney(t, "COMPLETED", 0, 3998, 0)
	b.pay(t, path, "k4", "").want(t, 201, "status", "PENDING")
	b.pay(t, path, "k5", "").issue(t, 422, "UNPROCESSABLE_ENTITY", "CAPTURE_FULLY_REFUNDED")
	pending := newBench(t, sandbox.Options{})
	order = pending.pay(t, "/v2/checkout/orders", "k1", paypalOrder("CAPTURE", vault("PENDING"))).want(t, 201)
	id := text(payment(t, order, "captures"), "id")
	pending.pay(t, "/v2/payments/captures/"+id+"/refund", "k2", "").issue(t, 422, "UNPROCESSABLE_ENTITY", "PENDING_CAPTURE")
	pending.control(t, "/payments/"+id+"/fail", "", http.StatusOK)
	pending.pay(t, "/v2/payments/captures/"+id+"/refund", "k2", "").issue(t, 422, "UNPROCESSABLE_ENTITY", "REFUND_NOT_ALLOWED")
}

func TestPayPalApprovalPage(t *testing.T) {
	t.Parallel()
	for decision, want := range map[string]string{"approve": "https://shop.example/ok", "refuse": "https://shop.example/no"} {
		b := newBench(t, sandbox.Options{})
		order := b.pay(t, "/v2/checkout/orders", "k1", paypalOrder("CAPTURE", wallet)).want(t, 201).json(t)
		page := "/paypal/checkoutnow?token=" + text(order, "id")
		if shown := b.get(t, page); shown.status != 200 || !strings.Contains(shown.body, "39.98 EUR") {
			t.Errorf("page: %d %s", shown.status, shown.body)
		}
		form := url.Values{"decision": {decision}, "token": {text(order, "id")}}
		gone := b.do(t, http.MethodPost, "/paypal/checkoutnow", form.Encode(), map[string]string{"Content-Type": "application/x-www-form-urlencoded"})
		if target := gone.header.Get("Location"); gone.status != http.StatusSeeOther || !strings.HasPrefix(target, want) ||
			!strings.Contains(target, "token="+text(order, "id")) {
			t.Errorf("%d to %s", gone.status, target)
		}
		captured := b.pay(t, "/v2/checkout/orders/"+text(order, "id")+"/capture", "k2", "{}")
		if decision == "approve" {
			captured.want(t, 201, "status", "COMPLETED")
		} else {
			captured.issue(t, 422, "UNPROCESSABLE_ENTITY", "ORDER_NOT_APPROVED")
		}
	}
}

// report is the answer of a transaction search.
type report struct {
	Total   int           `json:"total_items"`
	Details []reportEntry `json:"transaction_details"`
}

type reportEntry struct {
	Info reportLine `json:"transaction_info"`
}

type reportLine struct {
	ID      string            `json:"transaction_id"`
	Invoice string            `json:"invoice_id"`
	Custom  string            `json:"custom_field"`
	Status  string            `json:"transaction_status"`
	Amount  map[string]string `json:"transaction_amount"`
}

func (r reply) found(t *testing.T) (result report) {
	t.Helper()
	if err := json.Unmarshal([]byte(r.want(t, 200).body), &result); err != nil {
		t.Fatal(err)
	}
	return result
}

func TestPayPalTransactions(t *testing.T) {
	t.Parallel()
	b := newBench(t, sandbox.Options{SearchDelay: 3 * time.Hour})
	order := b.pay(t, "/v2/checkout/orders", "k1", paypalOrder("CAPTURE", vault("COMPLETED"))).want(t, 201)
	capture := text(payment(t, order, "captures"), "id")
	refund := text(b.pay(t, "/v2/payments/captures/"+capture+"/refund", "k2", `{"amount":{"currency_code":"EUR","value":"1"}}`).want(t, 201).json(t), "id")
	search := func(query string) reply {
		return b.paypal(t, "GET", "/v1/reporting/transactions?start_date=2026-03-01T00:00:00Z&end_date=2026-03-31T00:00:00Z"+query, "", "")
	}
	if early := search("").found(t); early.Total != 0 {
		t.Errorf("found before the report could know: %+v", early)
	}
	b.AdvanceClock(3 * time.Hour)
	payment := reportLine{ID: capture, Invoice: "inv-1", Custom: "saga-1", Status: "S", Amount: map[string]string{"currency_code": "EUR", "value": "39.98"}}
	back := reportLine{ID: refund, Invoice: "inv-1", Custom: "saga-1", Status: "S", Amount: map[string]string{"currency_code": "EUR", "value": "-1.00"}}
	for query, want := range map[string]report{
		"":                           {2, []reportEntry{{payment}, {back}}},
		"&transaction_id=" + capture: {1, []reportEntry{{payment}}},
		"&page=2&page_size=1":        {2, []reportEntry{{back}}},
		"&transaction_status=D":      {0, []reportEntry{}},
		"&transaction_currency=USD":  {0, []reportEntry{}},
	} {
		if diff := cmp.Diff(want, search(query).found(t)); diff != "" {
			t.Errorf("%q (-want +got):\n%s", query, diff)
		}
	}
	wide := b.paypal(t, "GET", "/v1/reporting/transactions?start_date=2026-03-01T00:00:00Z&end_date=2026-04-01T00:00:01Z", "", "")
	wide.issue(t, 400, "INVALID_REQUEST", "INVALID_PARAMETER_VALUE")
}

func TestPayPalDivergences(t *testing.T) {
	t.Parallel()
	b := newBench(t, sandbox.Options{})
	b.control(t, "/divergence", `{"provider":"paypal","kind":"charge_without_order","amount":500,"currency":"EUR","reference":"x"}`, http.StatusCreated)
	b.control(t, "/divergence", `{"provider":"paypal","kind":"charge_without_order","amount":550,"currency":"HUF"}`, http.StatusBadRequest)
	b.wantMoney(t, "COMPLETED", 0, 500, 0)
	b.control(t, "/divergence", `{"provider":"paypal","kind":"refund_in_dashboard","amount":200,"reference":"x"}`, http.StatusCreated)
	b.wantMoney(t, "PARTIALLY_REFUNDED", 0, 500, 200)
	b.control(t, "/divergence", `{"provider":"paypal","kind":"refund_in_dashboard","amount":301}`, http.StatusBadRequest)
	b.control(t, "/divergence", `{"provider":"paypal","kind":"amount_changed","amount":199}`, http.StatusBadRequest)
	b.control(t, "/divergence", `{"provider":"paypal","kind":"duplicate"}`, http.StatusCreated)
	if ledger := b.Ledger(); len(ledger) != 2 || ledger[1].Reference != "x" {
		t.Errorf("ledger is %+v", ledger)
	}
}
