package sandbox_test

import (
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"testing"

	"paysaga/providers/sandbox"
)

func TestCreateRefusesBadParameters(t *testing.T) {
	t.Parallel()
	many := make([]string, 0, 102)
	for i := range 51 {
		many = append(many, "metadata[key"+strconv.Itoa(i)+"]", "v")
	}
	for name, test := range map[string]struct {
		form        url.Values
		code, param string
	}{
		"unknown":                {order("foo", "1"), "parameter_unknown", "foo"},
		"unknown nested":         {order("automatic_payment_methods[foo]", "1"), "parameter_unknown", "automatic_payment_methods[foo]"},
		"broken brackets":        {order("metadata[x", "1"), "parameter_unknown", "metadata[x"},
		"known, not simulated":   {order("transfer_group", "1"), "", "transfer_group"},
		"no amount":              {order("amount", ""), "parameter_missing", "amount"},
		"amount not a number":    {order("amount", "39.98"), "parameter_invalid_integer", "amount"},
		"amount zero":            {order("amount", "0"), "parameter_invalid_integer", "amount"},
		"amount with a plus":     {order("amount", "+5000"), "parameter_invalid_integer", "amount"},
		"amount below":           {order("amount", "49"), "amount_too_small", "amount"},
		"amount above":           {order("amount", "100000000"), "amount_too_large", "amount"},
		"amount overflows":       {order("amount", "99999999999999999999"), "parameter_invalid_integer", "amount"},
		"yen below":              {order("currency", "jpy", "amount", "49"), "amount_too_small", "amount"},
		"crowns with a fraction": {order("currency", "isk", "amount", "50050"), "parameter_invalid_integer", "amount"},
		"dinars with a third":    {order("currency", "kwd", "amount", "5001"), "parameter_invalid_integer", "amount"},
		"currency unknown":       {order("currency", "xxx"), "", "currency"},
		"currency upper case":    {order("currency", "EUR"), "", "currency"},
		"capture method":         {order("capture_method", "later"), "", "capture_method"},
		"flag":                   {order("confirm", "yes"), "", "confirm"},
		"metadata scalar":        {order("metadata", "x", "metadata[saga_key]", "", "metadata[order_id]", ""), "", "metadata"},
		"metadata key":           {order("metadata["+strings.Repeat("k", 41)+"]", "v"), "", "metadata"},
		"metadata value":         {order("metadata[k]", strings.Repeat("v", 501)), "", "metadata[k]"},
		"metadata count":         {order(many...), "", "metadata"},
		"type":                   {order("payment_method_types[0]", "cash"), "", "payment_method_types"},
		"both offers":            {order("automatic_payment_methods[enabled]", "true"), "parameters_exclusive", "automatic_payment_methods"},
		"return_url malformed":   {order("return_url", "shop"), "url_invalid", "return_url"},
		"return_url scheme":      {order("return_url", "javascript:alert(1)"), "url_invalid", "return_url"},
		"return_url too early":   {order("return_url", "https://shop.example/", "confirm", ""), "", "return_url"},
		"redirects need a way":   {order("payment_method_types[0]", ""), "", "return_url"},
		"expand unknown":         {order("expand[]", "foo"), "", "expand"},
		"method of other type":   {order("payment_method", "pm_usBankAccount_success"), "payment_intent_incompatible_payment_method", "payment_method"},
		"method missing":         {order("payment_method", ""), "payment_intent_unexpected_state", ""},
		"method empty":           {url.Values{"amount": {"50"}, "currency": {"eur"}, "payment_method": {""}}, "parameter_invalid_empty", "payment_method"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := newBench(t, sandbox.Options{})
			answer := b.post(t, "/payment_intents", "k1", test.form)
			if answer.status != http.StatusBadRequest {
				t.Fatalf("status %d: %s", answer.status, answer.body)
			}
			failure := answer.failure(t)
			if text(failure, "code") != test.code || text(failure, "param") != test.param || failure["type"] != "invalid_request_error" || failure["message"] == "" {
				t.Errorf("error is %v", failure)
			}
			if charges := b.Ledger(); len(charges) != 0 {
				t.Errorf("ledger is %+v", charges)
			}
		})
	}
}

func TestStripeUnitsBecomeMinorUnitsInTheLedger(t *testing.T) {
	t.Parallel()
	for code, test := range map[string]struct{ units, minor int64 }{
		"eur": {3998, 3998}, "jpy": {500, 500}, "isk": {50000, 500}, "ugx": {100, 1}, "mga": {500, 50000}, "kwd": {5010, 5010}, "huf": {17500, 17500},
		"idr": {999_999_999_999, 999_999_999_999}, "clp": {500, 500},
	} {
		t.Run(code, func(t *testing.T) {
			t.Parallel()
			b := newBench(t, sandbox.Options{})
			answer := b.post(t, "/payment_intents", "k1", order("currency", code, "amount", strconv.FormatInt(test.units, 10)))
			if answer.status != http.StatusOK {
				t.Fatal(answer.body)
			}
			if entry := b.only(t); entry.Amount != test.minor || entry.Captured != test.minor || entry.Currency != strings.ToUpper(code) {
				t.Errorf("ledger is %+v", entry)
			}
		})
	}
}

func TestRequestsOfTheWrongShape(t *testing.T) {
	t.Parallel()
	b := newBench(t, sandbox.Options{})
	const path = "/stripe/v1/payment_intents"
	for name, test := range map[string]struct {
		answer reply
		want   int
	}{
		"json":          {b.do(t, http.MethodPost, path, `{"amount":1}`, map[string]string{"Content-Type": "application/json"}), 400},
		"query":         {b.do(t, http.MethodPost, path+"?amount=1", order().Encode(), nil), 400},
		"bad escape":    {b.do(t, http.MethodPost, path, "amount=%zz", nil), 400},
		"too large":     {b.do(t, http.MethodPost, path, "a="+strings.Repeat("x", 1<<20), nil), 413},
		"other version": {b.do(t, http.MethodGet, path, "", map[string]string{"Stripe-Version": "2024-06-20"}), 400},
		"unknown path":  {b.get(t, "/stripe/v1/customers"), 404},
		"unknown id":    {b.get(t, path+"/pi_none"), 404},
		"unknown query": {b.get(t, path+"?foo=1"), 400},
		"big page":      {b.get(t, path+"?limit=101"), 400},
		"method":        {b.do(t, http.MethodDelete, path+"/pi_none", "", nil), 404},
	} {
		if test.answer.status != test.want || test.answer.failure(t)["message"] == "" || !strings.HasPrefix(test.answer.header.Get("Request-Id"), "req_") {
			t.Errorf("%s: status %d, want %d: %s", name, test.answer.status, test.want, test.answer.body)
		}
	}
}

func TestOneSecretKeyOnly(t *testing.T) {
	t.Parallel()
	b := newBench(t, sandbox.Options{StripeKey: "sk_test_mine"})
	if got := b.get(t, "/stripe/v1/payment_intents"); got.status != http.StatusUnauthorized || strings.Contains(got.body, testKey) {
		t.Errorf("another key: %d %s", got.status, got.body)
	}
	request := b.request(t, http.MethodGet, "/stripe/v1/payment_intents", "", nil)
	request.SetBasicAuth("sk_test_mine", "")
	if got, err := send(t, request); err != nil || got.status != http.StatusOK {
		t.Errorf("the right key as user name: %d %v", got.status, err)
	}
}
