package paypal

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"paysaga/providers"
)

const searchCall = "GET /v1/reporting/transactions"

// pageJSON is a page of transactions, each given as JSON of its transaction_info.
func pageJSON(items, pages int, infos ...string) string {
	details := make([]string, 0, len(infos))
	for _, info := range infos {
		details = append(details, `{"transaction_info":`+info+`}`)
	}
	return fmt.Sprintf(`{"transaction_details":[%s],"total_items":%d,"total_pages":%d,"last_refreshed_datetime":"2026-03-01T16:00:00+0000"}`,
		strings.Join(details, ","), items, pages)
}

func transactionJSON(id, key string) string {
	return fmt.Sprintf(`{"transaction_id":%q,"transaction_status":"S","invoice_id":%q}`, id, key)
}

// consequenceJSON is a refund or a void, which PayPal shows under the payment's invoice number.
func consequenceJSON(id, event, key string) string {
	return fmt.Sprintf(`{"transaction_id":%q,"transaction_event_code":%q,"transaction_status":"S","invoice_id":%q}`, id, event, key)
}

func TestSearch(t *testing.T) {
	t.Parallel()
	const key = string(testKey)
	paid := orderJSON("COMPLETED", capturesJSON(captureJSON("CAP1", "COMPLETED", "39.98")))
	related := ok(`{"id":"X","supplementary_data":{"related_ids":{"order_id":"` + testOrder + `"}}}`)
	missing := []canned{{status: 404, body: problemJSON("RESOURCE_NOT_FOUND", "INVALID_RESOURCE_ID")}}
	succeeded := providers.Outcome{Kind: providers.Succeeded, Reference: testOrder, Money: euros39}
	twins := map[string][]canned{
		searchCall:                   ok(pageJSON(2, 1, `{"invoice_id":"`+key+`","paypal_reference_id":"A1","paypal_reference_id_type":"ODR"}`, `{"invoice_id":"`+key+`","paypal_reference_id":"A2","paypal_reference_id_type":"ODR"}`)),
		"GET /v2/checkout/orders/A1": ok(strings.ReplaceAll(paid, testOrder, "A1")),
		"GET /v2/checkout/orders/A2": ok(strings.ReplaceAll(paid, testOrder, "A2")),
	}
	oneDead := map[string][]canned{
		searchCall: twins[searchCall], "GET /v2/checkout/orders/A1": ok(strings.ReplaceAll(orderJSON("VOIDED", ""), testOrder, "A1")),
		"GET /v2/checkout/orders/A2": twins["GET /v2/checkout/orders/A2"],
	}
	hit := ok(pageJSON(1, 1, transactionJSON("CAP1", key)))
	tests := map[string]struct {
		answers map[string][]canned
		want    providers.Outcome
	}{
		"a refund of the dashboard": {map[string][]canned{
			searchCall:                       ok(pageJSON(3, 1, transactionJSON("CAP1", key), consequenceJSON("REF1", "T1107", key), consequenceJSON("VOID1", "T1302", key))),
			"GET /v2/payments/captures/CAP1": related, "GET " + orderPath: ok(paid),
		}, succeeded},
		"nothing":               {map[string][]canned{searchCall: ok(pageJSON(0, 0))}, providers.Outcome{Kind: providers.NotFound}},
		"only others":           {map[string][]canned{searchCall: ok(pageJSON(2, 1, transactionJSON("CAP1", key+"_2"), `{}`))}, providers.Outcome{Kind: providers.NotFound}},
		"a capture":             {map[string][]canned{searchCall: hit, "GET /v2/payments/captures/CAP1": related, "GET " + orderPath: ok(paid)}, succeeded},
		"an authorization":      {map[string][]canned{searchCall: hit, "GET /v2/payments/captures/CAP1": missing, "GET /v2/payments/authorizations/CAP1": related, "GET " + orderPath: ok(paid)}, succeeded},
		"twice the same":        {map[string][]canned{searchCall: ok(pageJSON(2, 1, transactionJSON("CAP1", key), transactionJSON("CAP1", key))), "GET /v2/payments/captures/CAP1": related, "GET " + orderPath: ok(paid)}, succeeded},
		"on the second page":    {map[string][]canned{searchCall: {{status: 200, body: pageJSON(2, 2, `{}`)}, {status: 200, body: pageJSON(2, 2, transactionJSON("CAP1", key))}}, "GET /v2/payments/captures/CAP1": related, "GET " + orderPath: ok(paid)}, succeeded},
		"two payments":          {twins, unknown(providers.CodeSeveralPayments)},
		"two, one of them dead": {oneDead, providers.Outcome{Kind: providers.Succeeded, Reference: "A2", Money: euros39}},
		"another attempt's":     {map[string][]canned{searchCall: hit, "GET /v2/payments/captures/CAP1": related, "GET " + orderPath: ok(strings.ReplaceAll(paid, "_charge", "_charge_2"))}, unknown(providers.CodeOtherPayment)},

		"neither capture nor authorization": {map[string][]canned{searchCall: hit, "GET /v2/payments/captures/CAP1": missing, "GET /v2/payments/authorizations/CAP1": missing}, unknown(codeOtherObject)},
		"a capture of no order":             {map[string][]canned{searchCall: hit, "GET /v2/payments/captures/CAP1": ok(`{"id":"CAP1"}`)}, unknown(codeOtherObject)},
		"a transaction of no id":            {map[string][]canned{searchCall: ok(pageJSON(1, 1, transactionJSON("../x", key)))}, unknown(codeOtherObject)},
		"an order that is not there":        {map[string][]canned{searchCall: hit, "GET /v2/payments/captures/CAP1": related, "GET " + orderPath: missing}, providers.Outcome{Kind: providers.Unknown, Code: "INVALID_RESOURCE_ID", Reference: ""}},
		"an order that is busy":             {map[string][]canned{searchCall: hit, "GET /v2/payments/captures/CAP1": related, "GET " + orderPath: {{status: 429, body: problemJSON("RATE_LIMIT_REACHED", "")}}}, providers.Outcome{Kind: providers.Busy, Code: "RATE_LIMIT_REACHED", Reference: testOrder}},
		"a capture that is broken":          {map[string][]canned{searchCall: hit, "GET /v2/payments/captures/CAP1": {{status: 500}}}, unknown(codeServerError)},

		"no search":               {map[string][]canned{searchCall: ok(`{}`)}, unknown(codeSearchIncomplete)},
		"another object":          {map[string][]canned{searchCall: ok(`[]`)}, unknown(codeUnreadableResponse)},
		"404":                     {map[string][]canned{searchCall: missing}, unknown("INVALID_RESOURCE_ID")},
		"403":                     {map[string][]canned{searchCall: {{status: 403, body: problemJSON("NOT_AUTHORIZED", "")}}}, providers.Outcome{Kind: providers.Busy, Code: providers.CodeCredentialsRefused, RetryAfter: operatorDelay}},
		"fewer than it says":      {map[string][]canned{searchCall: ok(pageJSON(2, 1, `{}`))}, unknown(codeSearchIncomplete)},
		"more than it says":       {map[string][]canned{searchCall: ok(pageJSON(0, 0, `{}`))}, unknown(codeSearchIncomplete)},
		"too many pages":          {map[string][]canned{searchCall: ok(pageJSON(10_001, 21, `{}`))}, unknown(codeSearchIncomplete)},
		"pages without end":       {map[string][]canned{searchCall: {{status: 200, body: pageJSON(40, 20, `{}`)}}}, unknown(codeSearchIncomplete)},
		"an index that is behind": {map[string][]canned{searchCall: ok(strings.ReplaceAll(pageJSON(0, 0), "16:00:00+0000", "11:00:00Z"))}, unknown(codeSearchBehind)},
		"an index of no time":     {map[string][]canned{searchCall: ok(strings.ReplaceAll(pageJSON(0, 0), "2026-03-01T16:00:00+0000", "yesterday"))}, providers.Outcome{Kind: providers.NotFound}},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			adapter, _ := adapterAt(t, test.answers)
			if diff := cmp.Diff(test.want, adapter.Lookup(t.Context(), lookupRequest(""))); diff != "" {
				t.Errorf("outcome (-want +got):\n%s", diff)
			}
		})
	}
}

// TestForgottenOrder: an order that PayPal has forgotten is looked for among the transactions, if the charge's time is known.
func TestForgottenOrder(t *testing.T) {
	t.Parallel()
	missing := canned{status: 404, body: problemJSON("RESOURCE_NOT_FOUND", "INVALID_RESOURCE_ID")}
	adapter, fake := adapterAt(t, map[string][]canned{
		"GET " + orderPath: {missing}, searchCall: ok(pageJSON(0, 0)),
		"GET /v2/payments/captures/" + testOrder: {missing}, "GET /v2/payments/authorizations/" + testOrder: {missing},
	})
	want := providers.Outcome{Kind: providers.NotFound, Reference: testOrder}
	if diff := cmp.Diff(want, adapter.Lookup(t.Context(), lookupRequest(testOrder))); diff != "" {
		t.Errorf("outcome (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff([]string{"GET " + orderPath, searchCall}, fake.calls()); diff != "" {
		t.Errorf("calls (-want +got):\n%s", diff)
	}
	timeless := lookupRequest(testOrder)
	timeless.SentAt = time.Time{}
	want.Code = "INVALID_RESOURCE_ID"
	if diff := cmp.Diff(want, adapter.Lookup(t.Context(), timeless)); diff != "" {
		t.Errorf("outcome (-want +got):\n%s", diff)
	}
}

// TestLookUpByPayment: a list tells of a capture, and the calls are about its order.
func TestLookUpByPayment(t *testing.T) {
	t.Parallel()
	const lookedFor = "GET /v2/checkout/orders/CAP1"
	paid := ok(orderJSON("COMPLETED", capturesJSON(captureJSON("CAP1", "COMPLETED", "39.98"))))
	related := ok(`{"id":"X","supplementary_data":{"related_ids":{"order_id":"` + testOrder + `"}}}`)
	missing := []canned{{status: 404, body: problemJSON("RESOURCE_NOT_FOUND", "INVALID_RESOURCE_ID")}}
	for name, test := range map[string]struct {
		answers map[string][]canned
		want    providers.Outcome
	}{
		"a capture": {
			map[string][]canned{lookedFor: missing, "GET /v2/payments/captures/CAP1": related, "GET " + orderPath: paid},
			providers.Outcome{Kind: providers.Succeeded, Reference: testOrder, Money: euros39},
		},
		"an authorization": {
			map[string][]canned{
				lookedFor: missing, "GET /v2/payments/captures/CAP1": missing, "GET /v2/payments/authorizations/CAP1": related, "GET " + orderPath: paid,
			},
			providers.Outcome{Kind: providers.Succeeded, Reference: testOrder, Money: euros39},
		},
		"neither": {
			map[string][]canned{lookedFor: missing, "GET /v2/payments/captures/CAP1": missing, "GET /v2/payments/authorizations/CAP1": missing},
			providers.Outcome{Kind: providers.NotFound, Code: "INVALID_RESOURCE_ID", Reference: "CAP1"},
		},
		"nobody knows": {
			map[string][]canned{lookedFor: missing, "GET /v2/payments/captures/CAP1": {{status: 500}}}, unknown(codeServerError),
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			adapter, _ := adapterAt(t, test.answers)
			request := providers.LookupRequest{Key: testKey, SagaKey: testSagaKey, Reference: "CAP1"}
			if diff := cmp.Diff(test.want, adapter.Lookup(t.Context(), request)); diff != "" {
				t.Errorf("outcome (-want +got):\n%s", diff)
			}
		})
	}
}

// TestSearchedRange: from a little before the charge to the end of the window, never into the future.
func TestSearchedRange(t *testing.T) {
	t.Parallel()
	sentAt := lookupRequest("").SentAt
	tests := map[string]struct {
		now       time.Time
		reference string
		end       string
	}{
		"long ago":               {sentAt.Add(100 * 24 * time.Hour), "", "2026-03-01T18:00:00.001Z"},
		"long ago, known":        {sentAt.Add(100 * 24 * time.Hour), testOrder, "2026-03-07T13:00:00.001Z"},
		"just now":               {sentAt.Add(time.Minute), "", "2026-03-01T12:01:00.001Z"},
		"a clock that is behind": {sentAt.Add(-time.Minute), "", "2026-03-01T18:00:00.001Z"},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var query string
			mux := http.NewServeMux()
			mux.HandleFunc("/v1/reporting/transactions", func(w http.ResponseWriter, r *http.Request) {
				query = r.URL.Query().Encode()
				canned{status: 200, body: pageJSON(0, 0)}.write(w)
			})
			mux.HandleFunc("/v1/oauth2/token", func(w http.ResponseWriter, _ *http.Request) {
				canned{status: 200, body: `{"access_token":"t","token_type":"Bearer"}`}.write(w)
			})
			mux.HandleFunc("/", func(w http.ResponseWriter, _ *http.Request) {
				canned{status: 404, body: problemJSON("RESOURCE_NOT_FOUND", "")}.write(w)
			})
			server := httptest.NewServer(mux)
			t.Cleanup(server.Close)
			adapter := adapterTo(t, server.URL)
			adapter.now = func() time.Time { return test.now }
			adapter.Lookup(t.Context(), lookupRequest(test.reference))
			want := "balance_affecting_records_only=N&end_date=" + strings.ReplaceAll(test.end, ":", "%3A") +
				"&fields=transaction_info&page=1&page_size=500&start_date=2026-03-01T11%3A00%3A00.000Z"
			if query != want {
				t.Errorf("query %s, want %s", query, want)
			}
		})
	}
}
