package config

// Names that more than one place needs.
const (
	stripeKeyName     = "STRIPE_API_KEY"
	stripeSecretsName = "STRIPE_WEBHOOK_SECRETS" //nolint:gosec // G101: the name of a setting, not its value
	stripeBaseURLName = "STRIPE_BASE_URL"

	adyenKeyName       = "ADYEN_API_KEY"
	adyenMerchantName  = "ADYEN_MERCHANT_ACCOUNT"
	adyenHMACKeysName  = "ADYEN_HMAC_KEYS"
	adyenBaseURLName   = "ADYEN_BASE_URL"
	adyenReturnURLName = "ADYEN_RETURN_URL"
	adyenSeveralName   = "ADYEN_SEVERAL_CAPTURES"

	paypalClientIDName     = "PAYPAL_CLIENT_ID"
	paypalClientSecretName = "PAYPAL_CLIENT_SECRET" //nolint:gosec // G101: the name of a setting, not its value
	paypalWebhookIDName    = "PAYPAL_WEBHOOK_ID"
	paypalVerifyName       = "PAYPAL_WEBHOOK_VERIFY"
	paypalHostsName        = "PAYPAL_CERTIFICATE_HOSTS"
	paypalBaseURLName      = "PAYPAL_BASE_URL"
)

func stripeSettings() []setting {
	return []setting{
		{Setting{
			Name: stripeKeyName, Secret: true,
			Description: "Stripe's secret or restricted key, `sk_…` or `rk_…`. Turns Stripe on.",
		}, func(c *Config, value string) error { return parseStripeKey(&c.Stripe.APIKey, value) }},
		{Setting{
			Name: stripeSecretsName, Secret: true,
			Description: "The signing secrets of Stripe's webhooks, `whsec_…[,whsec_…]`, up to 10: while one is replaced, both. " +
				"Without them `/webhooks/stripe` takes nothing, and paysaga only asks Stripe.",
		}, func(c *Config, value string) error { return parseStripeSecrets(&c.Stripe.WebhookSecrets, value) }},
		{Setting{
			Name: stripeBaseURLName, Default: "https://api.stripe.com",
			Description: "Where Stripe's API is. Set it only to use the sandbox or a proxy.",
		}, func(c *Config, value string) error { return parseBaseURL(&c.Stripe.BaseURL, value) }},
	}
}

func adyenSettings() []setting {
	return []setting{
		{Setting{
			Name: adyenKeyName, Secret: true,
			Description: "The key of Adyen's API credential. Turns Adyen on.",
		}, func(c *Config, value string) error { return parseAdyenKey(&c.Adyen.APIKey, value) }},
		{Setting{
			Name:        adyenMerchantName,
			Description: "Adyen's merchant account, to which the payments go.",
		}, func(c *Config, value string) error { return parseMerchantAccount(&c.Adyen.MerchantAccount, value) }},
		{Setting{
			Name: adyenHMACKeysName, Secret: true,
			Description: "The HMAC keys of Adyen's webhooks, 64 hexadecimal digits each, up to 10 with commas between: while one is " +
				"replaced, both. Adyen cannot be used without its webhooks.",
		}, func(c *Config, value string) error { return parseHMACKeys(&c.Adyen.HMACKeys, value) }},
		{Setting{
			Name: adyenBaseURLName, Default: "https://checkout-test.adyen.com/v71",
			Description: "Where Adyen's Checkout API is, with its version. For live payments it is your company's own address, " +
				"`https://PREFIX-checkout-live.adyenpayments.com/checkout/v71`.",
		}, func(c *Config, value string) error { return parseAdyenBaseURL(&c.Adyen.BaseURL, value) }},
		{Setting{
			Name: adyenReturnURLName,
			Description: "The page to which customers come back from Adyen's redirect, if their order names none. Without it that is a " +
				"page that does not exist.",
		}, func(c *Config, value string) error { return parseReturnURL(&c.Adyen.ReturnURL, value) }},
		{Setting{
			Name: adyenSeveralName, Default: "false",
			Description: "`true` if Adyen has switched multiple partial captures on for the account. Without it, what a first capture " +
				"leaves of a hold is let go.",
		}, func(c *Config, value string) error { return parseBool(&c.Adyen.SeveralCaptures, value) }},
	}
}

func paypalSettings() []setting {
	return []setting{
		{Setting{
			Name:        paypalClientIDName,
			Description: "The client ID of PayPal's REST app. Turns PayPal on.",
		}, func(c *Config, value string) error { return parsePayPalClientID(&c.PayPal.ClientID, value) }},
		{Setting{
			Name: paypalClientSecretName, Secret: true,
			Description: "The client secret of PayPal's REST app.",
		}, func(c *Config, value string) error { return parsePayPalSecret(&c.PayPal.ClientSecret, value) }},
		{Setting{
			Name: paypalWebhookIDName,
			Description: "PayPal's id of the webhook, which its signatures are for. Without it `/webhooks/paypal` takes nothing, and " +
				"paysaga only asks PayPal.",
		}, func(c *Config, value string) error { return parsePayPalWebhookID(&c.PayPal.WebhookID, value) }},
		{Setting{
			Name: paypalVerifyName,
			Description: "How PayPal's signatures are checked: `certificate`, here, with the certificate that PayPal shows; or `api`, by " +
				"asking PayPal about each. By itself `certificate`, at a simulator's address `api`.",
		}, func(c *Config, value string) error { return parsePayPalVerify(&c.PayPal.WebhookVerify, value) }},
		{Setting{
			Name: paypalHostsName,
			Description: "Where certificates may be besides PayPal's own hosts, `host:port[,host:port…]`. Only for simulators whose " +
				"address is not that of `" + paypalBaseURLName + "`.",
		}, func(c *Config, value string) error { return parseCertificateHosts(&c.PayPal.CertificateHosts, value) }},
		{Setting{
			Name: paypalBaseURLName, Default: "https://api-m.paypal.com",
			Description: "Where PayPal's API is. For tests it is `https://api-m.sandbox.paypal.com`.",
		}, func(c *Config, value string) error { return parsePayPalBaseURL(&c.PayPal.BaseURL, value) }},
	}
}
