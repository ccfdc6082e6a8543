package stripe

import (
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"paysaga/providers"
)

func listJSON(more bool, items ...string) string {
	return fmt.Sprintf(`{"object":"list","data":[%s],"has_more":%t,"url":"/v1/x"}`, strings.Join(items, ","), more)
}

const (
	listedPayment = `{"id":"pi_1","object":"payment_intent","amount":3998,"amount_received":3998,"currency":"eur","status":"succeeded",
		"created":1700000000,"metadata":{"sub_key":"k_charge","saga_key":"k"},"latest_charge":{"id":"ch_1","object":"charge","amount":3998,
		"amount_captured":3998,"amount_refunded":1000,"balance_transaction":{"id":"txn_1","object":"balance_transaction","fee":85,"currency":"eur"}}}`
	listedRefund = `{"id":"re_1","object":"refund","amount":1000,"currency":"eur","status":"succeeded","created":1700000000,
		"payment_intent":"pi_1","charge":"ch_1","metadata":{"sub_key":"k_refund","saga_key":"k"}}`
)

// paymentAs is listedPayment with other words in it.
func listedAs(listed string, replaced ...string) string {
	return strings.NewReplacer(replaced...).Replace(listed)
}

var listed = providers.Transaction{
	Kind: providers.TransactionPayment, Reference: "pi_1", Payment: "pi_1", Key: "k_charge", SagaKey: "k", Status: providers.Succeeded,
	Money: providers.Money{Amount: 3998, Currency: "EUR"}, Refunded: 1000, Fee: 85, FeeCurrency: "EUR", At: time.Unix(1_700_000_000, 0).UTC(),
}

func TestListedPayments(t *testing.T) {
	t.Parallel()
	but := func(change func(*providers.Transaction)) providers.Transaction {
		changed := listed
		change(&changed)
		return changed
	}
	untouched := func(status providers.OutcomeKind) providers.Transaction {
		return but(func(w *providers.Transaction) { w.Status, w.Refunded, w.Fee, w.FeeCurrency = status, 0, 0, "" })
	}
	bare := func(status string) string {
		return listedAs(`{"id":"pi_1","object":"payment_intent","amount":3998,"currency":"eur","status":"S","created":1700000000,
			"metadata":{"sub_key":"k_charge","saga_key":"k"}}`, `"S"`, `"`+status+`"`)
	}
	tests := map[string]struct {
		body string
		want providers.Transaction
	}{
		"paid, a part given back": {listedPayment, listed},
		"a currency that is none": {listedAs(listedPayment, `"succeeded","currency":"eur"`, "", `"currency":"eur","status"`, `"currency":"usdc","status"`), but(func(w *providers.Transaction) {
			w.Money, w.Refunded = providers.Money{}, 0
		})},
		"all given back": {listedAs(listedPayment, `"amount_refunded":1000`, `"amount_refunded":3998`), but(func(w *providers.Transaction) { w.Refunded = 3998 })},
		"a part captured, the rest let go": {
			listedAs(listedPayment, `"amount_received":3998`, `"amount_received":1500`, `"amount_captured":3998`, `"amount_captured":1500`, `"amount_refunded":1000`, `"amount_refunded":2598`),
			but(func(w *providers.Transaction) { w.Money.Amount, w.Refunded = 1500, 100 }),
		},
		"a part captured, the rest canceled": {
			listedAs(listedPayment, `"succeeded"`, `"canceled"`, `"amount_received":3998`, `"amount_received":1500`, `"amount_captured":3998`, `"amount_captured":1500`, `"amount_refunded":1000`, `"amount_refunded":2498`),
			but(func(w *providers.Transaction) { w.Money.Amount, w.Refunded = 1500, 0 }),
		},
		"not booked yet":              {listedAs(listedPayment, `{"id":"txn_1","object":"balance_transaction","fee":85,"currency":"eur"}`, `null`), but(func(w *providers.Transaction) { w.Fee, w.FeeCurrency = 0, "" })},
		"booked, and not told how":    {listedAs(listedPayment, `{"id":"txn_1","object":"balance_transaction","fee":85,"currency":"eur"}`, `"txn_1"`), but(func(w *providers.Transaction) { w.Fee, w.FeeCurrency = 0, "" })},
		"settled in another currency": {listedAs(listedPayment, `"fee":85,"currency":"eur"`, `"fee":91,"currency":"usd"`), but(func(w *providers.Transaction) { w.Fee, w.FeeCurrency = 91, "USD" })},
		"somebody else's":             {listedAs(listedPayment, `{"sub_key":"k_charge","saga_key":"k"}`, `{"sub_key":"of / ours","saga_key":"neither that"}`), but(func(w *providers.Transaction) { w.Key, w.SagaKey = "", "" })},
		"held":                        {bare("requires_capture"), untouched(providers.Authorized)},
		"customer must act":           {bare("requires_action"), untouched(providers.ActionRequired)},
		"processing":                  {bare("processing"), untouched(providers.Processing)},
		"not confirmed":               {bare("requires_confirmation"), untouched(providers.Processing)},
		"declined":                    {bare("requires_payment_method"), untouched(providers.Declined)},
		"canceled":                    {bare("canceled"), untouched(providers.Canceled)},
		"an amount that ISO 4217 has not": {listedAs(bare("processing"), `"eur"`, `"lyd"`), func() providers.Transaction {
			want := untouched(providers.Processing)
			want.Money = providers.Money{Currency: "LYD"}
			return want
		}()},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			page, err := adapterAt(t, canned{status: 200, body: listJSON(false, test.body)}).List(t.Context(), lastHour())
			want := providers.ListPage{Transactions: []providers.Transaction{test.want}, Next: "refund:"}
			if diff := cmp.Diff(want, page); diff != "" || err != nil {
				t.Errorf("%v (-want +got):\n%s", err, diff)
			}
		})
	}
}

func TestListedRefunds(t *testing.T) {
	t.Parallel()
	tests := map[string]struct {
		body   string
		status providers.OutcomeKind
		of     string
	}{
		"given back":             {listedRefund, providers.Succeeded, "pi_1"},
		"on its way":             {listedAs(listedRefund, `"succeeded"`, `"pending"`), providers.Processing, "pi_1"},
		"waits for the customer": {listedAs(listedRefund, `"succeeded"`, `"requires_action"`), providers.Processing, "pi_1"},
		"sent back":              {listedAs(listedRefund, `"succeeded"`, `"failed"`), providers.Declined, "pi_1"},
		"canceled":               {listedAs(listedRefund, `"succeeded"`, `"canceled"`), providers.Canceled, "pi_1"},
		"of a bare charge":       {listedAs(listedRefund, `"pi_1"`, `null`), providers.Succeeded, "ch_1"},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			request := lastHour()
			request.Cursor = "refund:"
			page, err := adapterAt(t, canned{status: 200, body: listJSON(true, test.body)}).List(t.Context(), request)
			want := providers.ListPage{Transactions: []providers.Transaction{{
				Kind: providers.TransactionRefund, Reference: "re_1", Payment: test.of, Key: "k_refund", SagaKey: "k", Status: test.status,
				Money: providers.Money{Amount: 1000, Currency: "EUR"}, At: listed.At,
			}}, Next: "refund:re_1"}
			if diff := cmp.Diff(want, page); diff != "" || err != nil {
				t.Errorf("%v (-want +got):\n%s", err, diff)
			}
		})
	}
}

func lastHour() providers.ListRequest {
	return providers.ListRequest{From: listed.At.Add(-time.Hour), Until: listed.At.Add(time.Hour)}
}

// TestListRequests: what goes over the wire for every place in the list, whole seconds included.
func TestListRequests(t *testing.T) {
	t.Parallel()
	from := time.Unix(1000, 0)
	tests := map[string]struct {
		request providers.ListRequest
		path    string
		query   url.Values
	}{
		"first page": {
			providers.ListRequest{From: from, Until: from.Add(time.Minute)},
			"/v1/payment_intents",
			url.Values{"created[gte]": {"1000"}, "created[lt]": {"1060"}, "limit": {"50"}, "expand[0]": {"data.latest_charge"}, "expand[1]": {"data.latest_charge.balance_transaction"}},
		},
		"within seconds": {
			providers.ListRequest{From: from.Add(1), Until: from.Add(time.Minute + 1)},
			"/v1/payment_intents",
			url.Values{"created[gte]": {"1001"}, "created[lt]": {"1061"}, "limit": {"50"}, "expand[0]": {"data.latest_charge"}, "expand[1]": {"data.latest_charge.balance_transaction"}},
		},
		"second page": {
			providers.ListRequest{From: from, Until: from.Add(time.Minute), Cursor: "payment_intent:pi_7"},
			"/v1/payment_intents",
			url.Values{"created[gte]": {"1000"}, "created[lt]": {"1060"}, "limit": {"50"}, "expand[0]": {"data.latest_charge"}, "expand[1]": {"data.latest_charge.balance_transaction"}, "starting_after": {"pi_7"}},
		},
		"refunds": {
			providers.ListRequest{From: from, Until: from.Add(time.Minute), Cursor: "refund:"},
			"/v1/refunds",
			url.Values{"created[gte]": {"1000"}, "created[lt]": {"1060"}, "limit": {"100"}},
		},
		"more refunds": {
			providers.ListRequest{From: from, Until: from.Add(time.Minute), Cursor: "refund:re_7"},
			"/v1/refunds",
			url.Values{"created[gte]": {"1000"}, "created[lt]": {"1060"}, "limit": {"100"}, "starting_after": {"re_7"}},
		},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			calls := 0
			adapter := adapterAt(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				calls++
				if diff := cmp.Diff(test.query, r.URL.Query()); diff != "" || r.URL.Path != test.path {
					t.Errorf("%s (-want +got):\n%s", r.URL.Path, diff)
				}
				canned{status: 200, body: listJSON(true, listedAs(listedPayment, "payment_intent", strings.TrimSuffix(strings.TrimPrefix(test.path, "/v1/"), "s"), "pi_1", map[bool]string{true: "re_9", false: "pi_9"}[test.path == "/v1/refunds"]))}.ServeHTTP(w, r)
			}))
			page, err := adapter.List(t.Context(), test.request)
			if err != nil || calls != 1 || !strings.HasSuffix(page.Next, "_9") {
				t.Errorf("%d calls: %+v, %v", calls, page, err)
			}
		})
	}
}

func TestListsThatCannotBeRead(t *testing.T) {
	t.Parallel()
	tests := map[string]struct {
		cursor string
		answer canned
		want   providers.ListError
	}{
		"no list":                  {"", canned{status: 200, body: `{}`}, providers.ListError{Code: codeUnreadableResponse}},
		"a search result":          {"", canned{status: 200, body: `{"object":"search_result","data":[],"has_more":false}`}, providers.ListError{Code: codeUnreadableResponse}},
		"no list of refunds":       {"refund:", canned{status: 200, body: `{"object":"list"}`}, providers.ListError{Code: codeUnreadableResponse}},
		"more behind nothing":      {"", canned{status: 200, body: listJSON(true)}, providers.ListError{Code: codeUnreadableResponse}},
		"whether more is not told": {"", canned{status: 200, body: `{"object":"list","data":[]}`}, providers.ListError{Code: codeUnreadableResponse}},
		"another object":           {"", canned{status: 200, body: listJSON(false, listedRefund)}, providers.ListError{Code: codeOtherObject}},
		"nothing":                  {"", canned{status: 200, body: listJSON(false, "null")}, providers.ListError{Code: codeOtherObject}},
		"no time":                  {"", canned{status: 200, body: listJSON(false, listedAs(listedPayment, "1700000000", "0"))}, providers.ListError{Code: codeOtherObject}},
		"an unknown status":        {"", canned{status: 200, body: listJSON(false, listedAs(listedPayment, `"succeeded"`, `"thawed"`))}, providers.ListError{Code: codeStatusUnrecognized}},
		"a refund's":               {"refund:", canned{status: 200, body: listJSON(false, listedAs(listedRefund, `"succeeded"`, `"thawed"`))}, providers.ListError{Code: codeStatusUnrecognized}},
		"a cursor that is gone":    {"payment_intent:pi_2", canned{status: 400, body: stripeError("invalid_request_error", "resource_missing", "")}, providers.ListError{Code: "resource_missing", Refused: true}},
		"our key":                  {"", canned{status: 401, body: stripeError("invalid_request_error", "api_key_expired", "")}, providers.ListError{Code: providers.CodeCredentialsRefused, RetryAfter: operatorDelay, Refused: true}},
		"a rate limit":             {"", canned{429, map[string]string{"Retry-After": "7"}, stripeError("invalid_request_error", "rate_limit", "")}, providers.ListError{Code: "rate_limit", RetryAfter: 7 * time.Second}},
		"a server error":           {"", canned{status: 500, body: "<html>"}, providers.ListError{Code: codeServerError}},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			request := lastHour()
			request.Cursor = test.cursor
			page, err := adapterAt(t, test.answer).List(t.Context(), request)
			got, ok := errors.AsType[*providers.ListError](err)
			if !ok || *got != test.want || len(page.Transactions) != 0 {
				t.Errorf("%+v, %+v, want %+v", page, got, test.want)
			}
		})
	}
}
