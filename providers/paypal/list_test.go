package paypal

import (
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"paysaga/providers"
)

// infoJSON is a transaction as the search tells of it, with other words in it.
func infoJSON(replaced ...string) string {
	return strings.NewReplacer(replaced...).Replace(`{"transaction_id":"CAP1","paypal_reference_id":"AUTH1","paypal_reference_id_type":"TXN",
		"transaction_event_code":"T0006","transaction_initiation_date":"2026-03-01T12:00:00+0000","transaction_status":"S",
		"transaction_amount":{"currency_code":"EUR","value":"39.98"},"fee_amount":{"currency_code":"EUR","value":"-1.35"},
		"invoice_id":"k_charge","custom_field":"k"}`)
}

var told = providers.Transaction{
	Kind: providers.TransactionPayment, Reference: "CAP1", Payment: "AUTH1", Key: "k_charge", SagaKey: "k", Status: providers.Succeeded,
	Money: euros39, Refunded: -1, Fee: 135, FeeCurrency: "EUR", At: time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC),
}

func march() providers.ListRequest {
	return providers.ListRequest{From: told.At.Add(-time.Hour), Until: told.At.Add(time.Hour)}
}

func TestListedTransactions(t *testing.T) {
	t.Parallel()
	but := func(change func(*providers.Transaction)) []providers.Transaction {
		changed := told
		change(&changed)
		return []providers.Transaction{changed}
	}
	refund := infoJSON("T0006", "T1107", `"39.98"`, `"-10.00"`, `"-1.35"`, `"0.35"`, "CAP1", "REF1", "AUTH1", "CAP1", "k_charge", "k_refund")
	back := providers.Transaction{
		Kind: providers.TransactionRefund, Reference: "REF1", Payment: "CAP1", Key: "k_refund", SagaKey: "k", Status: providers.Succeeded,
		Money: providers.Money{Amount: 1000, Currency: "EUR"}, Fee: -35, FeeCurrency: "EUR", At: told.At,
	}
	hold := infoJSON("T0006", "T1300", "CAP1", "AUTH1", `"paypal_reference_id":"AUTH1","paypal_reference_id_type":"TXN",`, "", `"fee_amount":{"currency_code":"EUR","value":"-1.35"},`, "")
	held := but(func(w *providers.Transaction) {
		w.Reference, w.Status, w.Fee, w.FeeCurrency = "AUTH1", providers.Authorized, 0, ""
	})
	gone := []providers.Transaction{held[0]}
	gone[0].Status = providers.Canceled
	tests := map[string]struct {
		infos []string
		want  []providers.Transaction
	}{
		"captured":           {[]string{infoJSON()}, []providers.Transaction{told}},
		"waits":              {[]string{infoJSON(`"S"`, `"P"`)}, but(func(w *providers.Transaction) { w.Status = providers.Processing })},
		"declined":           {[]string{infoJSON(`"S"`, `"D"`)}, but(func(w *providers.Transaction) { w.Status = providers.Declined })},
		"all given back":     {[]string{infoJSON(`"S"`, `"V"`)}, but(func(w *providers.Transaction) { w.Refunded = 3998 })},
		"an unknown letter":  {[]string{infoJSON(`"S"`, `"X"`)}, but(func(w *providers.Transaction) { w.Status = providers.Processing })},
		"another way to pay": {[]string{infoJSON("T0006", "T0003")}, []providers.Transaction{told}},
		"of an order":        {[]string{infoJSON("TXN", "ODR")}, []providers.Transaction{told}},
		"of an agreement":    {[]string{infoJSON("TXN", "PAP")}, but(func(w *providers.Transaction) { w.Payment = "CAP1" })},
		"somebody else's":    {[]string{infoJSON("k_charge", "Rechnung 7", `"k"`, `"a b"`)}, but(func(w *providers.Transaction) { w.Key, w.SagaKey = "", "" })},
		"no fee told":        {[]string{infoJSON("fee_amount", "x")}, but(func(w *providers.Transaction) { w.Fee, w.FeeCurrency = 0, "" })},
		"forints": {[]string{infoJSON("EUR", "HUF", "39.98", "3998", "-1.35", "-135")}, but(func(w *providers.Transaction) {
			w.Money, w.Fee, w.FeeCurrency = providers.Money{Amount: 399_800, Currency: "HUF"}, 13_500, "HUF"
		})},
		"no such amount": {[]string{infoJSON("39.98", "39.987")}, but(func(w *providers.Transaction) { w.Money.Amount = 0 })},

		"given back":           {[]string{refund}, []providers.Transaction{back}},
		"by PayPal":            {[]string{strings.Replace(refund, "T1107", "T1106", 1)}, []providers.Transaction{back}},
		"a refund that waits":  {[]string{strings.Replace(refund, `"S"`, `"P"`, 1)}, []providers.Transaction{withStatus(back, providers.Processing)}},
		"a refund that failed": {[]string{strings.Replace(refund, `"S"`, `"D"`, 1)}, []providers.Transaction{withStatus(back, providers.Declined)}},
		"a refund undone":      {[]string{strings.Replace(refund, `"S"`, `"V"`, 1)}, []providers.Transaction{withStatus(back, providers.Canceled)}},

		"held":                         {[]string{strings.Replace(hold, `"S"`, `"P"`, 1)}, held},
		"held, and captured":           {[]string{hold}, []providers.Transaction{withStatus(held[0], providers.Processing)}},
		"held again":                   {[]string{strings.NewReplacer("T1300", "T1301", `"S"`, `"P"`).Replace(hold)}, held},
		"let go":                       {[]string{strings.Replace(hold, `"S"`, `"V"`, 1)}, gone},
		"not held":                     {[]string{strings.Replace(hold, `"S"`, `"D"`, 1)}, []providers.Transaction{withStatus(held[0], providers.Declined)}},
		"voided, by a line of its own": {[]string{hold, infoJSON("T0006", "T1302", "CAP1", "VOID1", `"fee_amount":{"currency_code":"EUR","value":"-1.35"},`, "")}, gone},
		"a void of something else":     {[]string{infoJSON("T0006", "T1302", "TXN", "ODR")}, []providers.Transaction{}},

		"money that the shop paid":     {[]string{infoJSON("39.98", "-39.98")}, []providers.Transaction{}},
		"a refund that the shop got":   {[]string{infoJSON("T0006", "T1107")}, []providers.Transaction{}},
		"a withdrawal":                 {[]string{infoJSON("T0006", "T0400", "39.98", "-39.98")}, []providers.Transaction{}},
		"a conversion":                 {[]string{infoJSON("T0006", "T0200")}, []providers.Transaction{}},
		"a hold of PayPal's":           {[]string{infoJSON("T0006", "T1110", "39.98", "-39.98")}, []providers.Transaction{}},
		"before the time asked for":    {[]string{infoJSON("12:00:00", "10:59:59")}, []providers.Transaction{}},
		"at its end":                   {[]string{infoJSON("12:00:00", "13:00:00")}, []providers.Transaction{}},
		"twice, the second time newer": {[]string{infoJSON(`"S"`, `"P"`), infoJSON()}, []providers.Transaction{told}},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			adapter, _ := adapterAt(t, map[string][]canned{searchCall: ok(pageJSON(len(test.infos), 1, test.infos...))})
			page, err := adapter.List(t.Context(), march())
			if diff := cmp.Diff(providers.ListPage{Transactions: test.want}, page); diff != "" || err != nil {
				t.Errorf("%v (-want +got):\n%s", err, diff)
			}
		})
	}
}

func withStatus(transaction providers.Transaction, status providers.OutcomeKind) providers.Transaction {
	transaction.Status = status
	return transaction
}

func TestListsThatCannotBeRead(t *testing.T) {
	t.Parallel()
	full := make([]string, searchPageSize)
	for i := range full {
		full[i] = infoJSON("CAP1", fmt.Sprintf("CAP%d", i))
	}
	failed := func(code string) providers.ListError { return providers.ListError{Code: code} }
	problem := func(status int, name, issue string) []canned {
		return []canned{{status: status, body: problemJSON(name, issue)}}
	}
	tests := map[string]struct {
		cursor  string
		answers []canned
		want    providers.ListError
	}{
		"no search":                  {"", ok(`{}`), failed(codeUnreadableResponse)},
		"fewer than it says":         {"", ok(pageJSON(2, 1, infoJSON())), failed(providers.CodeListChanged)},
		"more than it says":          {"", ok(pageJSON(0, 1, infoJSON())), failed(providers.CodeListChanged)},
		"a page that is not full":    {"", ok(pageJSON(501, 2, infoJSON())), failed(providers.CodeListChanged)},
		"other than at first":        {"2/501/500", ok(pageJSON(502, 2, infoJSON(), infoJSON())), failed(providers.CodeListChanged)},
		"too many pages":             {"", ok(pageJSON(10_001, 21, full...)), failed(providers.CodeListTooLong)},
		"too many results":           {"", problem(400, "RESULTSET_TOO_LARGE", ""), failed(providers.CodeListTooLong)},
		"too many results, an issue": {"", problem(400, "INVALID_REQUEST", "RESULTSET_TOO_LARGE"), failed(providers.CodeListTooLong)},
		"an index that is behind": {"", ok(strings.ReplaceAll(pageJSON(0, 0), "16:00:00+0000", "12:59:59Z")), providers.ListError{
			Code: providers.CodeListBehind, RetryAfter: operatorDelay, Until: time.Date(2026, 3, 1, 12, 59, 59, 0, time.UTC),
		}},
		"no id":          {"", ok(pageJSON(1, 1, infoJSON("CAP1", "../x"))), failed(codeOtherObject)},
		"no time":        {"", ok(pageJSON(1, 1, infoJSON("2026-03-01T12", "yesterday"))), failed(codeOtherObject)},
		"no permission":  {"", problem(403, "NOT_AUTHORIZED", ""), providers.ListError{Code: providers.CodeCredentialsRefused, RetryAfter: operatorDelay, Refused: true}},
		"a bad request":  {"", problem(400, "INVALID_REQUEST", "INVALID_PARAMETER_VALUE"), providers.ListError{Code: "INVALID_PARAMETER_VALUE", Refused: true}},
		"no such call":   {"", problem(404, "RESOURCE_NOT_FOUND", ""), providers.ListError{Code: "RESOURCE_NOT_FOUND", Refused: true}},
		"a rate limit":   {"", problem(429, "RATE_LIMIT_REACHED", ""), failed("RATE_LIMIT_REACHED")},
		"a server error": {"", []canned{{status: 500}}, failed(codeServerError)},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			adapter, _ := adapterAt(t, map[string][]canned{searchCall: test.answers})
			request := march()
			request.Cursor = test.cursor
			page, err := adapter.List(t.Context(), request)
			got, is := errors.AsType[*providers.ListError](err)
			if !is || *got != test.want || len(page.Transactions) != 0 {
				t.Errorf("%+v, %+v, want %+v", page, got, test.want)
			}
		})
	}
}

// TestListWithoutAnIndexTime: where PayPal does not say how new its index is, only what is older than its longest delay is whole.
func TestListWithoutAnIndexTime(t *testing.T) {
	t.Parallel()
	for name, now := range map[string]time.Time{"": march().Until.Add(listDelay), providers.CodeListBehind: march().Until.Add(listDelay - time.Second)} {
		adapter, _ := adapterAt(t, map[string][]canned{searchCall: ok(strings.ReplaceAll(pageJSON(0, 0), "2026-03-01T16:00:00+0000", "yesterday"))})
		adapter.now = func() time.Time { return now }
		_, err := adapter.List(t.Context(), march())
		failure, refused := errors.AsType[*providers.ListError](err)
		if name == "" && err != nil || name != "" && (!refused || failure.Code != name) {
			t.Errorf("%q: %v", name, err)
		}
	}
}

// TestListedRange: a little more than what was asked for, not into the future by itself, and page by page: of what counts as listed, all was asked for.
func TestListedRange(t *testing.T) {
	t.Parallel()
	from := time.Date(2026, 3, 1, 12, 0, 0, 300000000, time.UTC)
	long := from.Add(100 * 24 * time.Hour)
	tests := map[string]struct {
		now        time.Time
		cursor     string
		start, end string
		page       string
	}{
		"long ago":                  {long, "", "12:00:00.000Z", "13:00:01.001Z", "1"},
		"by a clock that is behind": {from.Add(30 * time.Minute), "", "12:00:00.000Z", "13:00:00.001Z", "1"},
		"a moment ago":              {from.Add(time.Hour + 100*time.Millisecond), "", "12:00:00.000Z", "13:00:00.401Z", "1"},
		"page 3":                    {long, "3/1001/1000", "12:00:00.000Z", "13:00:01.001Z", "3"},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var query string
			mux := http.NewServeMux()
			mux.HandleFunc("/v1/reporting/transactions", func(w http.ResponseWriter, r *http.Request) {
				query = r.URL.Query().Encode()
				canned{status: 200, body: pageJSON(1001, 3, infoJSON())}.write(w)
			})
			mux.HandleFunc("/v1/oauth2/token", func(w http.ResponseWriter, _ *http.Request) {
				canned{status: 200, body: `{"access_token":"t","token_type":"Bearer"}`}.write(w)
			})
			server := httptest.NewServer(mux)
			t.Cleanup(server.Close)
			adapter := adapterTo(t, server.URL)
			adapter.now = func() time.Time { return test.now }
			_, _ = adapter.List(t.Context(), providers.ListRequest{From: from, Until: from.Add(time.Hour), Cursor: test.cursor})
			want := "balance_affecting_records_only=N&end_date=2026-03-01T" + strings.ReplaceAll(test.end, ":", "%3A") +
				"&fields=transaction_info&page=" + test.page + "&page_size=500&start_date=2026-03-01T" + strings.ReplaceAll(test.start, ":", "%3A")
			if query != want {
				t.Errorf("query %s, want %s", query, want)
			}
		})
	}
}

// TestListPages: the cursor carries what the pages must add up to.
func TestListPages(t *testing.T) {
	t.Parallel()
	full := make([]string, searchPageSize)
	for i := range full {
		full[i] = infoJSON("CAP1", fmt.Sprintf("CAP%d", i))
	}
	adapter, _ := adapterAt(t, map[string][]canned{searchCall: {
		{status: 200, body: pageJSON(501, 2, full...)}, {status: 200, body: pageJSON(501, 2, infoJSON("CAP1", "LAST"))},
	}})
	request := march()
	first, err := adapter.List(t.Context(), request)
	if err != nil || first.Next != "2/501/500" || len(first.Transactions) != searchPageSize {
		t.Fatalf("%d, %q, %v", len(first.Transactions), first.Next, err)
	}
	request.Cursor = first.Next
	second, err := adapter.List(t.Context(), request)
	if err != nil || second.Next != "" || len(second.Transactions) != 1 {
		t.Errorf("%+v, %v", second, err)
	}
}
