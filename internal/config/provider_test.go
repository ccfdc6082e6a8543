package config_test

import (
	"slices"
	"strings"
	"testing"

	"paysaga/internal/config"
)

// only is the settings of the given providers, without Stripe.
func only(entries ...string) []string { return append([]string{"STRIPE_API_KEY="}, entries...) }

func TestLoadRefusesProviders(t *testing.T) {
	t.Parallel()
	const adyenLive, paypalLive = "ADYEN_BASE_URL=https://a1-Shop-checkout-live.adyenpayments.com/checkout/v71", "PAYPAL_BASE_URL=https://api-m.paypal.com"
	for _, test := range []struct {
		name    string
		entries []string
		want    string
	}{
		{"no provider", []string{"STRIPE_API_KEY="}, "STRIPE_API_KEY: is not set, and no payment provider is configured"},
		{"a provider's URL without its key", []string{"STRIPE_API_KEY=", "STRIPE_BASE_URL=http://127.0.0.1:9090"}, "STRIPE_BASE_URL: is set, but STRIPE_API_KEY is not"},
		{"a publishable key", []string{"STRIPE_API_KEY=pk_test_secret"}, "STRIPE_API_KEY: is a publishable key"},
		{"no key of Stripe's", []string{"STRIPE_API_KEY=51NotARealKey"}, "STRIPE_API_KEY: is no secret key of Stripe"},
		{"a prefix only", []string{"STRIPE_API_KEY=sk_live_"}, "STRIPE_API_KEY: is no secret key of Stripe"},
		{"two keys at once", []string{"STRIPE_API_KEY=sk_test_a sk_test_b"}, "STRIPE_API_KEY: is no secret key of Stripe"},
		{"a URL with a password", []string{"STRIPE_BASE_URL=https://user:" + databasePassword + "@proxy"}, "STRIPE_BASE_URL: is no base URL"},
		{"a live key with a sandbox", []string{"STRIPE_API_KEY=" + liveStripeKey, "STRIPE_BASE_URL=http://127.0.0.1:9090/stripe"}, "STRIPE_BASE_URL: points at this machine, but STRIPE_API_KEY is a live key"},
		{"a live key with localhost", []string{"STRIPE_API_KEY=" + liveStripeKey, "STRIPE_BASE_URL=https://localhost"}, "STRIPE_BASE_URL: points at this machine"},
		{"a live key with IPv6 loopback", []string{"STRIPE_API_KEY=" + liveStripeKey, "STRIPE_BASE_URL=https://[::1]:9090"}, "STRIPE_BASE_URL: points at this machine"},
		{"a live key in the clear", []string{"STRIPE_API_KEY=rk_live_51NotARealKey", "STRIPE_BASE_URL=http://proxy.example.com"}, "STRIPE_BASE_URL: is not encrypted, but STRIPE_API_KEY is a live key"},
		{"Stripe's secrets without its key", []string{"STRIPE_API_KEY=", "STRIPE_WEBHOOK_SECRETS=" + stripeSecret}, "STRIPE_WEBHOOK_SECRETS: is set, but STRIPE_API_KEY is not; set it too, or unset STRIPE_WEBHOOK_SECRETS"},
		{"another secret of Stripe's", []string{"STRIPE_WEBHOOK_SECRETS=" + stripeKey}, "STRIPE_WEBHOOK_SECRETS: holds at place 1 no webhook secret of Stripe; each starts with whsec_"},
		{"an empty secret of Stripe's", []string{"STRIPE_WEBHOOK_SECRETS=" + stripeSecret + ","}, "STRIPE_WEBHOOK_SECRETS: holds at place 2 no webhook secret"},
		{"too many secrets of Stripe's", []string{"STRIPE_WEBHOOK_SECRETS=" + stripeSecret + strings.Repeat(","+stripeSecret, 10)}, "STRIPE_WEBHOOK_SECRETS: holds more than 10"},

		{"Adyen's key alone", []string{"ADYEN_API_KEY=" + adyenKey}, "ADYEN_API_KEY: is set, but ADYEN_MERCHANT_ACCOUNT and ADYEN_HMAC_KEYS are not; set them too, or unset ADYEN_API_KEY"},
		{"Adyen without its merchant account", withAdyen("ADYEN_MERCHANT_ACCOUNT="), "ADYEN_API_KEY: is set, but ADYEN_MERCHANT_ACCOUNT is not"},
		{"Adyen without its webhooks", withAdyen("ADYEN_HMAC_KEYS="), "ADYEN_API_KEY: is set, but ADYEN_HMAC_KEYS is not; set it too"},
		{"Adyen without its key", withAdyen("ADYEN_API_KEY="), "ADYEN_MERCHANT_ACCOUNT: is set, but ADYEN_API_KEY is not"},
		{"Adyen's URL alone, and no provider", only("ADYEN_BASE_URL=https://checkout-test.adyen.com/v71"), "ADYEN_BASE_URL: is set, but ADYEN_API_KEY and ADYEN_MERCHANT_ACCOUNT and ADYEN_HMAC_KEYS are not"},
		{"Adyen's return page alone", []string{"ADYEN_RETURN_URL=https://shop.example.com"}, "ADYEN_RETURN_URL: is set, but"},
		{"a blank in Adyen's key", withAdyen("ADYEN_API_KEY=" + adyenKey + " " + adyenKey), "ADYEN_API_KEY: is no API key of Adyen"},
		{"a merchant account with a colon", withAdyen("ADYEN_MERCHANT_ACCOUNT=Shop:EU"), "ADYEN_MERCHANT_ACCOUNT: is no merchant account"},
		{"a short HMAC key", withAdyen("ADYEN_HMAC_KEYS=" + hmacKey + "," + hmacKey[2:]), "ADYEN_HMAC_KEYS: holds at place 2 no HMAC key of Adyen; each has 64 hexadecimal digits"},
		{"an HMAC key in base64", withAdyen("ADYEN_HMAC_KEYS=" + encryptionKey), "ADYEN_HMAC_KEYS: holds at place 1 no HMAC key"},
		{"Adyen without a version", withAdyen("ADYEN_BASE_URL=http://127.0.0.1:9090/adyen"), "ADYEN_BASE_URL: must end with the version that paysaga speaks, /v71"},
		{"Adyen in another version", withAdyen("ADYEN_BASE_URL=https://checkout-test.adyen.com/v70"), "ADYEN_BASE_URL: must end with the version"},
		{"Adyen's live address without a prefix", withAdyen("ADYEN_BASE_URL=https://checkout-live.adyen.com/v71"), "ADYEN_BASE_URL: is no Checkout address of Adyen"},
		{"Adyen's live address without its path", withAdyen("ADYEN_BASE_URL=https://a1-Shop-checkout-live.adyenpayments.com/v71"), "ADYEN_BASE_URL: is no Checkout address of Adyen"},
		{"another API of Adyen", withAdyen("ADYEN_BASE_URL=https://pal-test.adyen.com/v71"), "ADYEN_BASE_URL: is no Checkout address of Adyen"},
		{"Adyen in the clear", withAdyen("ADYEN_BASE_URL=http://proxy.example.com/v71"), "ADYEN_BASE_URL: is not encrypted"},
		{"Adyen's URL with a password", withAdyen("ADYEN_BASE_URL=https://user:" + databasePassword + "@proxy/v71"), "ADYEN_BASE_URL: is no base URL"},
		{"a return page that is a script", withAdyen("ADYEN_RETURN_URL=javascript:alert(1)"), "ADYEN_RETURN_URL: is no web page"},
		{"several captures of Adyen's, perhaps", withAdyen("ADYEN_SEVERAL_CAPTURES=yes"), "ADYEN_SEVERAL_CAPTURES: must be true or false"},
		{"several captures of Adyen's alone", []string{"ADYEN_SEVERAL_CAPTURES=true"}, "ADYEN_SEVERAL_CAPTURES: is set, but"},
		{"retention below Adyen's memory", withAdyen("PAYSAGA_RETENTION=167h"), "PAYSAGA_RETENTION: is 167h, shorter than Adyen remembers a payment, 168h"},

		{"PayPal's client alone", only("PAYPAL_CLIENT_ID=client"), "PAYPAL_CLIENT_ID: is set, but PAYPAL_CLIENT_SECRET is not"},
		{"PayPal's secret alone", []string{"PAYPAL_CLIENT_SECRET=" + paypalSecret}, "PAYPAL_CLIENT_SECRET: is set, but PAYPAL_CLIENT_ID is not"},
		{"PayPal's webhook alone", []string{"PAYPAL_WEBHOOK_ID=WH1"}, "PAYPAL_WEBHOOK_ID: is set, but PAYPAL_CLIENT_ID and PAYPAL_CLIENT_SECRET are not"},
		{"PayPal's way to verify alone", []string{"PAYPAL_WEBHOOK_VERIFY=api"}, "PAYPAL_WEBHOOK_VERIFY: is set, but PAYPAL_CLIENT_ID and PAYPAL_CLIENT_SECRET are not"},
		{"a way to verify without a webhook", withPayPal("PAYPAL_WEBHOOK_VERIFY=api"), "PAYPAL_WEBHOOK_VERIFY: is set, but PAYPAL_WEBHOOK_ID is not"},
		{"certificates without a webhook", withPayPal("PAYPAL_CERTIFICATE_HOSTS=127.0.0.1:9090"), "PAYPAL_CERTIFICATE_HOSTS: is set, but PAYPAL_WEBHOOK_ID is not"},
		{"two clients of PayPal at once", withPayPal("PAYPAL_CLIENT_ID=a b"), "PAYPAL_CLIENT_ID: is no client ID of PayPal"},
		{"a broken secret of PayPal", withPayPal("PAYPAL_CLIENT_SECRET=" + paypalSecret + "\n."), "PAYPAL_CLIENT_SECRET: is no client secret of PayPal"},
		{"a webhook's address for its id", withPayPal("PAYPAL_WEBHOOK_ID=https://shop.example.com/webhooks/paypal"), "PAYPAL_WEBHOOK_ID: is no webhook ID of PayPal"},
		{"an unknown way to verify", withPayPal("PAYPAL_WEBHOOK_ID=WH1", "PAYPAL_WEBHOOK_VERIFY=never"), "PAYPAL_WEBHOOK_VERIFY: must be certificate or api"},
		{"a certificate host with a scheme", withPayPal("PAYPAL_WEBHOOK_ID=WH1", "PAYPAL_CERTIFICATE_HOSTS=http://127.0.0.1:9090"), "PAYPAL_CERTIFICATE_HOSTS: is no list of certificate hosts"},
		{"a simulator's certificate", withPayPal("PAYPAL_WEBHOOK_ID=WH1", "PAYPAL_WEBHOOK_VERIFY=certificate", "PAYPAL_BASE_URL=http://127.0.0.1:9090/paypal"), "PAYPAL_WEBHOOK_VERIFY: is certificate, but PAYPAL_BASE_URL is a simulator's"},
		{"PayPal's website", withPayPal("PAYPAL_BASE_URL=https://www.paypal.com"), "PAYPAL_BASE_URL: is no API address of PayPal"},
		{"PayPal with a version", withPayPal("PAYPAL_BASE_URL=https://api-m.sandbox.paypal.com/v2"), "PAYPAL_BASE_URL: is no API address of PayPal"},
		{"PayPal in the clear", withPayPal("PAYPAL_BASE_URL=http://api-m.paypal.com"), "PAYPAL_BASE_URL: is not encrypted"},
		{"retention below PayPal's memory", withPayPal("PAYSAGA_RETENTION=71h"), "PAYSAGA_RETENTION: is 71h, shorter than PayPal remembers a payment, 72h"},

		{"PayPal live beside Stripe's tests", withPayPal(paypalLive), "STRIPE_API_KEY: is for tests, but PAYPAL_BASE_URL is for real money"},
		{"PayPal's default beside Stripe's tests", withPayPal("PAYPAL_BASE_URL="), "STRIPE_API_KEY: is for tests, but PAYPAL_BASE_URL is for real money"},
		{"Adyen's tests beside Stripe live", withAdyen("STRIPE_API_KEY=" + liveStripeKey), "ADYEN_BASE_URL: is for tests, but STRIPE_API_KEY is for real money"},
		{"a simulator beside Stripe live", withPayPal("STRIPE_API_KEY="+liveStripeKey, "PAYPAL_BASE_URL=http://sandbox:9090/paypal"), "PAYPAL_BASE_URL: is for tests, but STRIPE_API_KEY is for real money"},
		{"Adyen live beside PayPal's tests", slices.Concat(only(), withAdyen(adyenLive), withPayPal()), "PAYPAL_BASE_URL: is for tests, but ADYEN_BASE_URL is for real money"},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			requireRefused(t, with(test.entries...), test.want)
		})
	}
}

func TestLoadAcceptsProviders(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		name    string
		entries []string
	}{
		{"Adyen alone, for tests", only(withAdyen()...)},
		{"PayPal alone, for tests", only(withPayPal()...)},
		{"PayPal alone, live by default", only(withPayPal("PAYPAL_BASE_URL=")...)},
		{"all three, for tests", slices.Concat(withAdyen(), withPayPal())},
		{"all three at a simulator on this machine", slices.Concat(
			[]string{"STRIPE_BASE_URL=http://127.0.0.1:9090/stripe"}, withAdyen("ADYEN_BASE_URL=http://localhost:9090/adyen/v71"),
			withPayPal("PAYPAL_BASE_URL=http://[::1]:9090/paypal"))},
		{"a simulator in a container", slices.Concat(withAdyen("ADYEN_BASE_URL=http://sandbox:9090/adyen/v71"), withPayPal("PAYPAL_BASE_URL=http://sandbox:9090/paypal"))},
		{"Adyen's live address in a region", only(withAdyen("ADYEN_BASE_URL=https://a1-Shop-checkout-live-apse.adyenpayments.com/checkout/v71")...)},
		{"a proxy, of which nothing is known, beside Stripe live", withPayPal("STRIPE_API_KEY="+liveStripeKey, "PAYPAL_BASE_URL=https://egress.example.com/paypal")},
		{"Stripe's memory with Stripe alone", []string{"PAYSAGA_RETENTION=24h"}},
		{"PayPal's memory with PayPal", withPayPal("PAYSAGA_RETENTION=72h")},
		{"ten secrets", []string{"STRIPE_WEBHOOK_SECRETS=" + stripeSecret + strings.Repeat(","+stripeSecret, 9)}},
		{"a return page on a developer's machine", withAdyen("ADYEN_RETURN_URL=http://localhost:3000/paid")},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			if _, err := config.Load(with(test.entries...)); err != nil {
				t.Errorf("load: %v", err)
			}
		})
	}
}

func TestPayPalVerification(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		name  string
		entry string
		api   bool
	}{
		{"PayPal itself", "PAYPAL_BASE_URL=https://api-m.sandbox.paypal.com", false},
		{"PayPal itself, asked", "PAYPAL_WEBHOOK_VERIFY=api", true},
		{"a proxy", "PAYPAL_BASE_URL=https://egress.example.com", false},
		{"a simulator on this machine", "PAYPAL_BASE_URL=http://127.0.0.1:9090/paypal", true},
		{"a simulator in a container", "PAYPAL_BASE_URL=http://sandbox:9090/paypal", true},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			c, err := config.Load(with(withPayPal("PAYPAL_WEBHOOK_ID=WH1", test.entry)...))
			if err != nil {
				t.Fatalf("load: %v", err)
			}
			if c.PayPal.VerifyByAPI() != test.api {
				t.Errorf("by the API: %t, want %t", !test.api, test.api)
			}
		})
	}
}
