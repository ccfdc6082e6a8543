package paypal

import (
	"errors"
	"net/http"
	"strings"
	"testing"
	"time"

	"paysaga/providers"
)

func TestNewChecksItsSettings(t *testing.T) {
	t.Parallel()
	good := Config{ClientID: "AZ_id-1", ClientSecret: "EM_secret-1"}
	at := func(base string) Config { return Config{ClientID: "id", ClientSecret: "secret", BaseURL: base} }
	tests := []struct {
		name   string
		config Config
		want   string // a part of the error; empty: accepted
	}{
		{"fine", good, ""},
		{"no id", Config{ClientSecret: "SECRET"}, "client ID is missing"},
		{"no secret", Config{ClientID: "id"}, "client secret is missing"},
		{"a broken id", Config{ClientID: "SECRET id", ClientSecret: "x"}, "client ID has not the form"},
		{"a broken secret", Config{ClientID: "id", ClientSecret: "SECRET\n"}, "client secret has not the form"},
		{"https", at("https://paypal.example.com/base/"), ""},
		{"http on localhost", at("http://localhost:9090/paypal"), ""},
		{"http on 127.0.0.2", at("http://127.0.0.2:9090"), ""},
		{"http on ::1", at("http://[::1]:9090"), ""},
		{"http on a container", at("http://sandbox:9090/paypal"), ""},
		{"http elsewhere", at("http://api-m.paypal.com"), "must be https"},
		{"http on another address", at("http://10.0.0.1:9090"), "must be https"},
		{"http on another address, v6", at("http://[2001:db8::1]:9090"), "must be https"},
		{"no scheme", at("api-m.paypal.com"), "no absolute URL"},
		{"other scheme", at("ftp://api-m.paypal.com"), "must begin with https://"},
		{"broken", at("https://SECRET%zz"), "no absolute URL"},
		{"user", at("https://user:SECRET@api-m.paypal.com"), "user or password"},
		{"query", at("https://api-m.paypal.com?x=SECRET"), "query or fragment"},
		{"negative timeout", Config{ClientID: "id", ClientSecret: "x", CallTimeout: -time.Second}, "timeout is negative"},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			adapter, err := New(test.config)
			checkConfigError(t, adapter != nil, err, test.want)
		})
	}
}

func TestNewWebhookChecksItsSettings(t *testing.T) {
	t.Parallel()
	tests := []struct {
		name   string
		config Config
		want   string
	}{
		{"fine", Config{WebhookID: "8PT597110X687430LKGECATA"}, ""},
		{"no id", Config{}, "webhook ID is missing"},
		{"a broken id", Config{WebhookID: "SECRET|"}, "webhook ID is missing"},
		{"by the API", Config{WebhookID: "8PT", VerifyByAPI: true, ClientID: "id", ClientSecret: "x"}, ""},
		{"by the API, no secret", Config{WebhookID: "8PT", VerifyByAPI: true, ClientID: "id"}, "client secret is missing"},
		{"a certificate host", Config{WebhookID: "8PT", CertificateHosts: []string{"127.0.0.1:9090"}}, ""},
		{"a certificate host without a port", Config{WebhookID: "8PT", CertificateHosts: []string{"sandbox"}}, "lower-case host:port"},
		{"a certificate URL", Config{WebhookID: "8PT", CertificateHosts: []string{"http://sandbox:1"}}, "lower-case host:port"},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			webhook, err := NewWebhook(test.config)
			checkConfigError(t, webhook != nil, err, test.want)
		})
	}
}

func checkConfigError(t *testing.T, made bool, err error, want string) {
	t.Helper()
	if want == "" {
		if err != nil || !made {
			t.Fatalf("refused: %v", err)
		}
		return
	}
	if !errors.Is(err, ErrConfig) || !strings.Contains(err.Error(), want) {
		t.Fatalf("error %q, want %q", err, want)
	}
	if strings.Contains(err.Error(), "SECRET") {
		t.Fatalf("error repeats a secret: %q", err)
	}
}

func TestNewLeavesTheGivenClientAlone(t *testing.T) {
	t.Parallel()
	given := &http.Client{}
	if _, err := New(Config{ClientID: "id", ClientSecret: "x", HTTPClient: given}); err != nil {
		t.Fatal(err)
	}
	if given.Transport != nil || given.CheckRedirect != nil {
		t.Error("the given client was changed")
	}
}

func TestCheckOfTheWholeRequest(t *testing.T) {
	t.Parallel()
	adapter := adapterTo(t, "http://127.0.0.1:1")
	tests := map[string]struct {
		change      func(*providers.ChargeRequest)
		field, code string
	}{
		"method data":            {func(r *providers.ChargeRequest) { r.Method, r.MethodData = "", []byte(`{"type":"paypal"}`) }, "payment.method_data", "method_data_not_taken"},
		"method and method data": {func(r *providers.ChargeRequest) { r.MethodData = []byte(`{"type":"paypal"}`) }, "payment.method_data", "method_data_not_taken"},
		"neither":                {func(r *providers.ChargeRequest) { r.Method = "" }, "payment.method", "method_missing"},
		"no key":                 {func(r *providers.ChargeRequest) { r.Key = "" }, "key", "key_invalid"},
		"long key":               {func(r *providers.ChargeRequest) { r.Key = providers.SubKey(strings.Repeat("k", 65)) }, "key", "key_invalid"},
		"dinars":                 {func(r *providers.ChargeRequest) { r.Money = providers.Money{Amount: 1050, Currency: "TND"} }, "currency", "currency_unsupported"},
	}
	for name, test := range tests {
		request := chargeRequest(walletMethod)
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
