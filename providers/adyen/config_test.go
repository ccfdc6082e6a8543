package adyen

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
	good := Config{APIKey: "AQEkey", MerchantAccount: testMerchant, BaseURL: "https://checkout-test.adyen.com/v71"}
	with := func(change func(*Config)) Config {
		changed := good
		change(&changed)
		return changed
	}
	at := func(url string) Config { return with(func(c *Config) { c.BaseURL = url }) }
	tests := []struct {
		name   string
		config Config
		want   string // a part of the error; empty: accepted
	}{
		{"test", good, ""},
		{"live", at("https://1797a841fbb37ca7-Shop-checkout-live.adyenpayments.com/checkout/v71"), ""},
		{"slash at the end", at("https://checkout-test.adyen.com/v71/"), ""},
		{"http on localhost", at("http://localhost:9090/adyen/v71"), ""},
		{"http on 127.0.0.2", at("http://127.0.0.2:9090/v71"), ""},
		{"http on ::1", at("http://[::1]:9090/v71"), ""},
		{"http to a container", at("http://sandbox:9090/adyen/v71"), ""},
		{"http to Adyen", at("http://checkout-test.adyen.com/v71"), "must be https"},
		{"http to a private network", at("http://10.0.0.1/v71"), "must be https"},
		{"http to another IPv6 host", at("http://[2001:db8::1]/v71"), "must be https"},
		{"http to a name that ends with a dot", at("http://sandbox./v71"), "must be https"},
		{"no version", at("https://checkout-test.adyen.com"), "must end with /v71"},
		{"other version", at("https://checkout-test.adyen.com/v68"), "must end with /v71"},
		{"no URL", at(""), "no absolute URL"},
		{"no scheme", at("checkout-test.adyen.com/v71"), "no absolute URL"},
		{"other scheme", at("ftp://checkout-test.adyen.com/v71"), "must begin with https://"},
		{"broken URL", at("https://SECRET%zz"), "no absolute URL"},
		{"user", at("https://user:SECRET@checkout-test.adyen.com/v71"), "user or password"},
		{"query", at("https://checkout-test.adyen.com/v71?x=SECRET"), "query or fragment"},
		{"no key", with(func(c *Config) { c.APIKey = "" }), "the API key is missing"},
		{"line end in the key", with(func(c *Config) { c.APIKey = "SECRET\n" }), "blanks"},
		{"no merchant account", with(func(c *Config) { c.MerchantAccount = "" }), "merchant account"},
		{"merchant account with a colon", with(func(c *Config) { c.MerchantAccount = "a:b" }), "merchant account"},
		{"negative timeout", with(func(c *Config) { c.CallTimeout = -time.Second }), "timeout is negative"},
		{"return URL", with(func(c *Config) { c.ReturnURL = "https://shop.example/back" }), ""},
		{"odd return URL", with(func(c *Config) { c.ReturnURL = "javascript:alert(1)" }), "return URL"},
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

func TestNewLeavesTheGivenClientAlone(t *testing.T) {
	t.Parallel()
	given := &http.Client{}
	if _, err := New(Config{APIKey: "k", MerchantAccount: "m", BaseURL: "http://localhost/v71", HTTPClient: given}); err != nil {
		t.Fatal(err)
	}
	if given.Transport != nil || given.CheckRedirect != nil {
		t.Error("the given client was changed")
	}
}

func TestNameAndWindows(t *testing.T) {
	t.Parallel()
	adapter := adapterTo(t, "http://localhost")
	if adapter.Name() != "adyen" {
		t.Errorf("name %q", adapter.Name())
	}
	want := providers.Windows{Repost: 144 * time.Hour, NoLookup: true, OneCapture: true, Hold: 28 * 24 * time.Hour}
	if adapter.Windows() != want {
		t.Errorf("windows %+v", adapter.Windows())
	}
	several, err := New(Config{APIKey: "k", MerchantAccount: "m", BaseURL: "http://localhost/v71", SeveralCaptures: true})
	if err != nil {
		t.Fatal(err)
	}
	if want.OneCapture = false; several.Windows() != want {
		t.Errorf("where several captures are allowed: windows %+v", several.Windows())
	}
}

func TestNewWebhookChecksItsSettings(t *testing.T) {
	t.Parallel()
	tests := map[string]struct {
		config WebhookConfig
		want   string
	}{
		"one key":             {WebhookConfig{HMACKeys: []string{knownKey}, MerchantAccount: "m"}, ""},
		"lower case":          {WebhookConfig{HMACKeys: []string{strings.ToLower(knownKey)}, MerchantAccount: "m"}, ""},
		"no key":              {WebhookConfig{MerchantAccount: "m"}, "1 to 10"},
		"eleven keys":         {WebhookConfig{HMACKeys: make([]string, 11), MerchantAccount: "m"}, "1 to 10"},
		"short key":           {WebhookConfig{HMACKeys: []string{knownKey, knownKey[2:]}, MerchantAccount: "m"}, "key 2"},
		"empty key":           {WebhookConfig{HMACKeys: []string{""}, MerchantAccount: "m"}, "key 1"},
		"no hexadecimal":      {WebhookConfig{HMACKeys: []string{strings.Repeat("xy", 32)}, MerchantAccount: "m"}, "key 1"},
		"no merchant account": {WebhookConfig{HMACKeys: []string{knownKey}}, "merchant account"},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			_, err := NewWebhook(test.config)
			if test.want == "" {
				if err != nil {
					t.Fatal(err)
				}
				return
			}
			if !errors.Is(err, ErrConfig) || !strings.Contains(err.Error(), test.want) {
				t.Fatalf("error %v, want %q", err, test.want)
			}
			for _, key := range test.config.HMACKeys {
				if key != "" && strings.Contains(err.Error(), key) {
					t.Fatal("error repeats a key")
				}
			}
		})
	}
}
