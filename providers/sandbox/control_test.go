package sandbox_test

import (
	"fmt"
	"net/http"
	"net/url"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"paysaga/providers/sandbox"
)

func TestChallengePage(t *testing.T) {
	t.Parallel()
	for decision, want := range map[string]struct{ status, redirect, code string }{
		"approve": {status: "succeeded", redirect: "succeeded"},
		"refuse":  {status: "requires_payment_method", redirect: "failed", code: "payment_intent_authentication_failure"},
	} {
		t.Run(decision, func(t *testing.T) {
			t.Parallel()
			b := newBench(t, sandbox.Options{})
			created, page := b.challenge(t)
			first, again := b.decide(t, page, created, decision), b.decide(t, page, created, decision)
			if first != again || !strings.HasPrefix(first, "https://shop.example/done?") {
				t.Errorf("redirected to %q, after a second click to %q", first, again)
			}
			_, query, _ := strings.Cut(first, "?")
			got, err := url.ParseQuery(query)
			diff := cmp.Diff(url.Values{
				"cart": {"9"}, "payment_intent": {text(created, "id")}, "payment_intent_client_secret": {text(created, "client_secret")},
				"redirect_status": {want.redirect},
			}, got)
			if err != nil || diff != "" {
				t.Errorf("redirected with (-want +got): %v\n%s", err, diff)
			}
			payment := b.get(t, "/stripe/v1/payment_intents/"+text(created, "id")).json(t)
			if text(payment, "status") != want.status || text(payment, "last_payment_error", "code") != want.code {
				t.Errorf("payment is %v", payment)
			}
		})
	}
}

// challenge makes a payment whose customer is sent to the bank's page, and gives that page's path after looking at it.
func (b *bench) challenge(t *testing.T) (payment map[string]any, path string) {
	t.Helper()
	form := order("payment_method", "pm_card_threeDSecure2Required", "return_url", "https://shop.example/done?cart=9")
	payment = b.post(t, "/payment_intents", "k1", form).json(t)
	page := strings.TrimPrefix(text(payment, "next_action", "redirect_to_url", "url"), b.url)
	if text(payment, "status") != "requires_action" || page == "" {
		t.Fatalf("payment is %v", payment)
	}
	if shown := b.get(t, page); shown.status != http.StatusOK || !strings.Contains(shown.body, "39.98 EUR") {
		t.Errorf("page: %d %s", shown.status, shown.body)
	}
	path, _, _ = strings.Cut(page, "?")
	if stranger := b.get(t, path); stranger.status != http.StatusNotFound {
		t.Errorf("without the client secret: %d", stranger.status)
	}
	return payment, path
}

// decide presses a button on the bank's page and gives where it leads.
func (b *bench) decide(t *testing.T, path string, payment map[string]any, decision string) string {
	t.Helper()
	form := url.Values{"decision": {decision}, "client_secret": {text(payment, "client_secret")}}
	gone := b.do(t, http.MethodPost, path, form.Encode(), map[string]string{"Content-Type": "application/x-www-form-urlencoded"})
	if gone.status != http.StatusSeeOther {
		t.Fatalf("%d %s", gone.status, gone.body)
	}
	return gone.header.Get("Location")
}

func TestChallengeVariants(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		form       url.Values
		status     int
		code, bank string
		nextAction string
	}{
		"client library": {form: order(), status: 200, nextAction: "use_stripe_sdk"},
		"redirect":       {form: order("return_url", "https://shop.example/"), status: 200, nextAction: "redirect_to_url"},
		"library chosen": {form: order("return_url", "https://shop.example/", "use_stripe_sdk", "true"), status: 200, nextAction: "use_stripe_sdk"},
		"off session":    {form: order("off_session", "true"), status: 402, code: "authentication_required", bank: "authentication_required"},
		"not wanted":     {form: order("error_on_requires_action", "true"), status: 402, code: "authentication_required", bank: "authentication_not_handled"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := newBench(t, sandbox.Options{})
			test.form.Set("payment_method", "pm_card_authenticationRequired")
			answer := b.post(t, "/payment_intents", "k1", test.form)
			if answer.status != test.status {
				t.Fatalf("%d %s", answer.status, answer.body)
			}
			if test.status == http.StatusOK {
				if action := text(answer.json(t), "next_action", "type"); action != test.nextAction {
					t.Errorf("next action is %q", action)
				}
				return
			}
			if failure := answer.failure(t); failure["code"] != test.code || failure["decline_code"] != test.bank || failure["type"] != "card_error" {
				t.Errorf("error is %v", failure)
			}
		})
	}
}

func TestBankDebitEndsLater(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		method, end, status string
		captured            int64
	}{
		"settled by control": {"pm_usBankAccount_success", "settle", "succeeded", 3998},
		"failed by control":  {"pm_usBankAccount_processing", "fail", "requires_payment_method", 0},
		"settled by time":    {"pm_usBankAccount_success", "", "succeeded", 3998},
		"failed by time":     {"pm_usBankAccount_insufficientFunds", "", "requires_payment_method", 0},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := newBench(t, sandbox.Options{})
			created := b.post(t, "/payment_intents", "k1",
				order("payment_method", test.method, "payment_method_types[0]", "us_bank_account", "currency", "usd")).json(t)
			id := text(created, "id")
			if created["status"] != "processing" {
				t.Fatalf("payment is %v", created)
			}
			if canceled := b.post(t, "/payment_intents/"+id+"/cancel", "", url.Values{}); canceled.failure(t)["code"] != "payment_intent_unexpected_state" {
				t.Errorf("canceled: %s", canceled.body)
			}
			if test.end != "" {
				b.control(t, "/payments/"+id+"/"+test.end, "", http.StatusOK)
				b.control(t, "/payments/"+id+"/"+test.end, "", http.StatusConflict)
			} else {
				b.control(t, "/settings", `{"settle_after_ms":5000}`, http.StatusOK)
				b.control(t, "/clock", `{"advance_ms":5000}`, http.StatusOK)
			}
			if entry := b.only(t); entry.Status != test.status || entry.Captured != test.captured {
				t.Errorf("ledger is %+v", entry)
			}
		})
	}
}

func TestUncapturedHoldRunsOut(t *testing.T) {
	t.Parallel()
	b := newBench(t, sandbox.Options{})
	b.post(t, "/payment_intents", "k1", order("capture_method", "manual"))
	b.control(t, "/clock", fmt.Sprintf(`{"advance_ms":%d}`, 7*24*3600*1000-1), http.StatusOK)
	if entry := b.only(t); entry.Authorized != 3998 {
		t.Errorf("ledger is %+v", entry)
	}
	b.control(t, "/clock", `{"advance_ms":1}`, http.StatusOK)
	if entry := b.only(t); entry.Authorized != 0 || entry.Status != "canceled" {
		t.Errorf("ledger is %+v", entry)
	}
}

func TestRefundCanFailLater(t *testing.T) {
	t.Parallel()
	b := newBench(t, sandbox.Options{})
	id := text(b.post(t, "/payment_intents", "k1", order("payment_method", "pm_card_pendingRefund")).json(t), "id")
	refund := b.post(t, "/refunds", "r1", url.Values{"payment_intent": {id}}).json(t)
	if refund["status"] != "pending" || b.only(t).Refunded != 3998 {
		t.Fatalf("refund is %v", refund)
	}
	b.control(t, "/refunds/"+text(refund, "id")+"/settle", "", http.StatusOK)
	b.control(t, "/refunds/"+text(refund, "id")+"/fail", "", http.StatusOK)
	if got := b.get(t, "/stripe/v1/refunds/"+text(refund, "id")).json(t); got["status"] != "failed" || got["failure_reason"] == "" {
		t.Errorf("refund is %v", got)
	}
	if entry := b.only(t); entry.Refunded != 0 || entry.Captured != 3998 {
		t.Errorf("ledger is %+v", entry)
	}
}

func TestDivergence(t *testing.T) {
	t.Parallel()
	b := newBench(t, sandbox.Options{})
	id := text(b.post(t, "/payment_intents", "k1", order()).json(t), "id")
	b.control(t, "/divergence", `{"kind":"refund_in_dashboard","id":"`+id+`","amount":1000}`, http.StatusCreated)
	b.control(t, "/divergence", `{"kind":"amount_changed","identifier":"k1","amount":4500}`, http.StatusCreated)
	b.control(t, "/divergence", `{"kind":"duplicate","reference":"saga-1"}`, http.StatusCreated)
	b.control(t, "/divergence", `{"kind":"charge_without_order","amount":777,"currency":"USD"}`, http.StatusCreated)
	for _, body := range []string{
		`{"kind":"nonsense"}`, `{"kind":"duplicate","id":"pi_none"}`, `{"kind":"charge_without_order","amount":1,"currency":"USD"}`,
		`{"kind":"refund_in_dashboard","id":"` + id + `","amount":9999}`, `{"kind":"duplicate","provider":"adyen"}`,
	} {
		b.control(t, "/divergence", body, http.StatusBadRequest)
	}
	charges := b.Ledger()
	for i := range charges {
		charges[i].ID = ""
	}
	diff := cmp.Diff([]sandbox.Charge{
		{Provider: "stripe", Identifier: "k1", Reference: "saga-1", Amount: 4500, Currency: "EUR", Status: "succeeded", Captured: 4500, Refunded: 1000, Calls: 1},
		{Provider: "stripe", Reference: "saga-1", Amount: 4500, Currency: "EUR", Status: "succeeded", Captured: 4500},
		{Provider: "stripe", Amount: 777, Currency: "USD", Status: "succeeded", Captured: 777},
	}, charges)
	if diff != "" {
		t.Errorf("ledger (-want +got):\n%s", diff)
	}
}

func TestRequestsAreRecordedWithoutSecrets(t *testing.T) {
	t.Parallel()
	b := newBench(t, sandbox.Options{})
	b.post(t, "/payment_intents", "k1", order())
	seen := b.get(t, "/_sandbox/requests?limit=1")
	if strings.Contains(seen.body, testKey) || !strings.Contains(seen.body, `"identifier":"k1"`) || !strings.Contains(seen.body, `"status":200`) ||
		!strings.Contains(seen.body, "payment_method=pm_card_visa") || !strings.Contains(seen.body, "[redacted]") {
		t.Errorf("requests are %s", seen.body)
	}
}

func TestListsAndSearchPage(t *testing.T) {
	t.Parallel()
	b := newBench(t, sandbox.Options{})
	ids := make([]string, 0, 5)
	for i := range 5 {
		ids = append(ids, text(b.post(t, "/payment_intents", fmt.Sprintf("k%d", i), order("metadata[shop]", "One")).json(t), "id"))
	}
	newest := []string{ids[4], ids[3], ids[2], ids[1], ids[0]}
	for path, want := range map[string][]string{
		"/stripe/v1/payment_intents":                                                                                 newest,
		"/stripe/v1/payment_intents?limit=2":                                                                         newest[:2],
		"/stripe/v1/payment_intents?limit=2&starting_after=" + newest[1]:                                             newest[2:4],
		"/stripe/v1/payment_intents?limit=2&ending_before=" + newest[4]:                                              newest[2:4],
		"/stripe/v1/payment_intents?created%5Bgt%5D=1900000000":                                                      {},
		"/stripe/v1/payment_intents?created%5Blt%5D=1900000000&limit=1":                                              newest[:1],
		"/stripe/v1/payment_intents?customer=cus_1":                                                                  {},
		"/stripe/v1/payment_intents/search?limit=3&query=" + url.QueryEscape(`metadata["shop"]:"one"`):               newest[:3],
		"/stripe/v1/payment_intents/search?limit=3&page=offset_3&query=" + url.QueryEscape(`metadata['shop']:'One'`): newest[3:],
		"/stripe/v1/payment_intents/search?query=" + url.QueryEscape(`amount>4000 OR status:"canceled"`):             {},
		"/stripe/v1/payment_intents/search?query=" + url.QueryEscape(`amount>=3998 AND -metadata["none"]:"x"`):       newest,
	} {
		answer := b.get(t, path)
		if answer.status != http.StatusOK {
			t.Errorf("%s: %d %s", path, answer.status, answer.body)
			continue
		}
		if diff := cmp.Diff(want, answer.ids(t)); diff != "" {
			t.Errorf("%s (-want +got):\n%s", path, diff)
		}
	}
	b.post(t, "/payment_intents/"+ids[0], "", url.Values{"metadata[shop]": {"Two"}})
	moved := b.get(t, "/stripe/v1/payment_intents/search?query="+url.QueryEscape(`metadata["shop"]:"two"`)).ids(t)
	stayed := b.get(t, "/stripe/v1/payment_intents/search?query="+url.QueryEscape(`metadata["shop"]:"one"`)).ids(t)
	if diff := cmp.Diff([][]string{{ids[0]}, newest[:4]}, [][]string{moved, stayed}); diff != "" {
		t.Errorf("after a change of metadata (-want +got):\n%s", diff)
	}
	for _, query := range []string{"", "nonsense", `metadata["a"]:"b" AND`, `amount:"x"`, `foo:"x"`, `status:"a" AND status:"b" OR status:"c"`, `status~"a"`} {
		if got := b.get(t, "/stripe/v1/payment_intents/search?query="+url.QueryEscape(query)); got.status != http.StatusBadRequest {
			t.Errorf("query %q: %d %s", query, got.status, got.body)
		}
	}
}

func TestManyOrdersAtOnceKeepTheLedgerWhole(t *testing.T) {
	t.Parallel()
	b := newBench(t, sandbox.Options{Seed: 42})
	for _, fault := range []string{"error_before", "error_after", "reset_after", "rate_limited", "garbage_after", "empty_after"} {
		b.control(t, "/faults", `{"fault":"`+fault+`","probability":0.1}`, http.StatusCreated)
	}
	const orders, workers = 320, 32
	inParallel(workers, func(worker int) {
		for i := worker; i < orders; i += workers {
			if key := fmt.Sprintf("order-%d", i); !b.succeeds(t, key) {
				t.Errorf("%s never got its answer", key)
			}
		}
	})
	seen := map[string]bool{}
	for _, charge := range b.Ledger() {
		if seen[charge.Identifier] || charge.Captured != 3998 {
			t.Errorf("charge %+v", charge)
		}
		seen[charge.Identifier] = true
	}
	if len(seen) != orders {
		t.Errorf("%d orders charged, want %d", len(seen), orders)
	}
	b.control(t, "/reset", "", http.StatusNoContent)
	if got := b.get(t, "/_sandbox/ledger"); got.body != `{"charges":[]}` {
		t.Errorf("ledger after the reset is %s", got.body)
	}
}
