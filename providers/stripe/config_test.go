package stripe

import (
	"errors"
	"net/http"
	"strings"
	"testing"
	"time"

	sdk "github.com/stripe/stripe-go/v76"

	"paysaga/providers"
)

func TestNewChecksItsSettings(t *testing.T) {
	t.Parallel()
	const key = "sk_test_123"
	tests := []struct {
		name   string
		config Config
		want   string // a part of the error; empty: accepted
	}{
		{"secret key", Config{APIKey: key}, ""},
		{"restricted key", Config{APIKey: "rk_live_1A2b"}, ""},
		{"no key", Config{}, "the API key is missing"},
		{"publishable key", Config{APIKey: "pk_test_SECRET"}, "publishable key"},
		{"webhook secret", Config{APIKey: "whsec_SECRET"}, "webhook secret"},
		{"something else", Config{APIKey: "SECRET"}, "form of a secret key"},
		{"line end in the key", Config{APIKey: key + "\n"}, "form of a secret key"},
		{"https", Config{APIKey: key, BaseURL: "https://stripe.example.com/base/"}, ""},
		{"http on localhost", Config{APIKey: key, BaseURL: "http://localhost:9090/stripe"}, ""},
		{"http on 127.0.0.2", Config{APIKey: key, BaseURL: "http://127.0.0.2:9090"}, ""},
		{"http on ::1", Config{APIKey: key, BaseURL: "http://[::1]:9090"}, ""},
		{"http with a test key", Config{APIKey: "sk_test_1", BaseURL: "http://sandbox:9090/stripe"}, ""},
		{"http with a live key", Config{APIKey: "sk_live_1", BaseURL: "http://stripe.example.com"}, "must be https"},
		{"http with a live key on loopback", Config{APIKey: "rk_live_1", BaseURL: "http://127.0.0.1:9090"}, "must be https"},
		{"no scheme", Config{APIKey: key, BaseURL: "api.stripe.com"}, "no absolute URL"},
		{"other scheme", Config{APIKey: key, BaseURL: "ftp://api.stripe.com"}, "must begin with https://"},
		{"broken", Config{APIKey: key, BaseURL: "https://SECRET%zz"}, "no absolute URL"},
		{"user", Config{APIKey: key, BaseURL: "https://user:SECRET@api.stripe.com"}, "user or password"},
		{"query", Config{APIKey: key, BaseURL: "https://api.stripe.com?x=SECRET"}, "query or fragment"},
		{"negative timeout", Config{APIKey: key, CallTimeout: -time.Second}, "timeout is negative"},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			adapter, err := New(test.config)
			if test.want == "" {
				if err != nil || adapter == nil {
					t.Fatalf("refused: %v", err)
				}
				return
			}
			if !errors.Is(err, ErrConfig) || !strings.Contains(err.Error(), test.want) {
				t.Fatalf("error %q, want %q", err, test.want)
			}
			if strings.Contains(err.Error(), "SECRET") {
				t.Fatalf("error repeats a secret: %q", err)
			}
		})
	}
}

func TestNewLeavesGlobalsAndTheGivenClientAlone(t *testing.T) {
	t.Parallel()
	given := &http.Client{}
	if _, err := New(Config{APIKey: "sk_test_123", HTTPClient: given}); err != nil {
		t.Fatal(err)
	}
	if sdk.Key != "" {
		t.Error("stripe.Key is set")
	}
	if given.Transport != nil || given.CheckRedirect != nil {
		t.Error("the given client was changed")
	}
}

func TestNameAndWindows(t *testing.T) {
	t.Parallel()
	adapter, err := New(Config{APIKey: "sk_test_123"})
	if err != nil {
		t.Fatal(err)
	}
	if adapter.Name() != "stripe" {
		t.Errorf("name %q", adapter.Name())
	}
	if want := (providers.Windows{Repost: 23 * time.Hour, LookupDelay: time.Hour, StaysPayable: true, OneCapture: true, Hold: 7 * 24 * time.Hour}); adapter.Windows() != want {
		t.Errorf("windows %+v", adapter.Windows())
	}
}

func TestCheck(t *testing.T) {
	t.Parallel()
	euros := providers.Money{Amount: 3998, Currency: "EUR"}
	tests := []struct {
		name   string
		money  providers.Money
		method string
		field  string
		code   string
	}{
		{"fine", euros, "pm_card_visa", "", ""},
		{"fine, a real id", euros, "pm_1MqLiJLkdIwHu7ixUEgbFdYF", "", ""},
		{"card number", euros, "4242424242424242", "payment.method", "card_number_refused"},
		{"card number, grouped", euros, " 4242 4242-4242 4242", "payment.method", "card_number_refused"},
		{"none", euros, "", "payment.method", "method_missing"},
		{"another object", euros, "tok_visa", "payment.method", "method_invalid"},
		{"with a line end", euros, "pm_card_visa\n", "payment.method", "method_invalid"},
		{"only the prefix", euros, "pm_", "payment.method", "method_invalid"},
		{"too long", euros, "pm_" + strings.Repeat("a", 253), "payment.method", "method_invalid"},
		{"too small", providers.Money{Amount: 1, Currency: "EUR"}, "pm_card_visa", "amount", "amount_too_small"},
		{"no such currency", providers.Money{Amount: 100, Currency: "ABC"}, "pm_card_visa", "currency", "currency_unsupported"},
	}
	adapter, err := New(Config{APIKey: "sk_test_123"})
	if err != nil {
		t.Fatal(err)
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			request := chargeRequest()
			request.Money, request.Method = test.money, test.method
			err := adapter.Check(request)
			if test.code == "" {
				if err != nil {
					t.Fatal(err)
				}
				return
			}
			var invalid *providers.RequestError
			if !errors.As(err, &invalid) || invalid.Field != test.field || invalid.Code != test.code {
				t.Fatalf("%#v, want %s %s", err, test.field, test.code)
			}
			if test.method != "" && strings.Contains(err.Error(), strings.TrimSpace(test.method)) && test.field == "payment.method" && test.method != "pm_" {
				t.Fatalf("error repeats the method: %q", err)
			}
		})
	}
}

func TestCheckOfTheWholeRequest(t *testing.T) {
	t.Parallel()
	adapter, err := New(Config{APIKey: "sk_test_123"})
	if err != nil {
		t.Fatal(err)
	}
	tests := map[string]struct {
		change      func(*providers.ChargeRequest)
		field, code string
	}{
		"method data":            {func(r *providers.ChargeRequest) { r.Method, r.MethodData = "", []byte(`{"type":"card"}`) }, "payment.method_data", "method_data_not_taken"},
		"method and method data": {func(r *providers.ChargeRequest) { r.MethodData = []byte(`{"type":"card"}`) }, "payment.method_data", "method_data_not_taken"},
		"neither":                {func(r *providers.ChargeRequest) { r.Method = "" }, "payment.method", "method_missing"},
		"no key":                 {func(r *providers.ChargeRequest) { r.Key = "" }, "key", "key_invalid"},
		"long key":               {func(r *providers.ChargeRequest) { r.Key = providers.SubKey(strings.Repeat("k", 65)) }, "key", "key_invalid"},
	}
	for name, test := range tests {
		request := chargeRequest()
		test.change(&request)
		invalid, _ := errors.AsType[*providers.RequestError](adapter.Check(request))
		if invalid == nil || invalid.Field != test.field || invalid.Code != test.code {
			t.Errorf("%s: %+v, want %s %s", name, invalid, test.field, test.code)
		}
		if got := adapter.Charge(t.Context(), request); got.Kind != providers.Rejected || got.Code != test.code {
			t.Errorf("%s: charge %+v", name, got)
		}
	}
}
