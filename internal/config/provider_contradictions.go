package config

import (
	"slices"
	"strings"
	"time"
)

// settingGroup are settings of which some make no sense without others.
type settingGroup struct{ names, required []string }

func stripeGroup() settingGroup {
	return settingGroup{
		names:    []string{stripeKeyName, stripeSecretsName, stripeBaseURLName},
		required: []string{stripeKeyName},
	}
}

// adyenGroup has the HMAC keys among what is required: how a capture, a cancel or a refund ended, Adyen tells by webhook only.
func adyenGroup() settingGroup {
	return settingGroup{
		names:    []string{adyenKeyName, adyenMerchantName, adyenHMACKeysName, adyenBaseURLName, adyenReturnURLName, adyenSeveralName},
		required: []string{adyenKeyName, adyenMerchantName, adyenHMACKeysName},
	}
}

func paypalGroup() settingGroup {
	return settingGroup{
		names: []string{
			paypalClientIDName, paypalClientSecretName, paypalWebhookIDName, paypalVerifyName, paypalHostsName, paypalBaseURLName,
		},
		required: []string{paypalClientIDName, paypalClientSecretName},
	}
}

func paypalWebhookGroup() settingGroup {
	return settingGroup{names: []string{paypalVerifyName, paypalHostsName}, required: []string{paypalWebhookIDName}}
}

func providerContradictions() []contradiction {
	return []contradiction{
		{nil, checkProvider},
		{nil, stripeGroup().check},
		{[]string{stripeKeyName, stripeBaseURLName}, checkStripeKeyFitsURL},
		{nil, adyenGroup().check},
		{nil, paypalGroup().check},
		{[]string{paypalClientIDName}, checkPayPalWebhook},
		{[]string{paypalVerifyName, paypalBaseURLName}, checkPayPalCertificate},
		{[]string{stripeKeyName, adyenKeyName, adyenBaseURLName, paypalClientIDName, paypalBaseURLName}, checkMoney},
	}
}

// checkProvider: without a provider no order could ever be paid. One that is set by half is another rule's.
func checkProvider(e environment, _ Config) *SettingError {
	for _, name := range slices.Concat(stripeGroup().names, adyenGroup().names, paypalGroup().names) {
		if _, set := e[name]; set {
			return nil
		}
	}
	return problemf(stripeKeyName, "is not set, and no payment provider is configured; set it, or %s, or %s, and what belongs to it",
		adyenKeyName, paypalClientIDName)
}

// check: what is set by half was forgotten by half.
func (g settingGroup) check(e environment, _ Config) *SettingError {
	isSet := func(name string) bool { _, set := e[name]; return set }
	first := slices.IndexFunc(g.names, isSet)
	missing := slices.DeleteFunc(slices.Clone(g.required), isSet)
	if first < 0 || len(missing) == 0 {
		return nil
	}
	verb, them := "is", "it"
	if len(missing) > 1 {
		verb, them = "are", "them"
	}
	return problemf(g.names[first], "is set, but %s %s not; set %s too, or unset %s",
		strings.Join(missing, " and "), verb, them, g.names[first])
}

// checkStripeKeyFitsURL keeps a key that moves real money away from a sandbox and off unencrypted wires.
func checkStripeKeyFitsURL(_ environment, c Config) *SettingError {
	if !c.Stripe.Configured() || c.Stripe.money() != realMoney {
		return nil
	}
	if isLoopback(hostOf(c.Stripe.BaseURL)) {
		return problemf(stripeBaseURLName, "points at this machine, but %s is a live key; use a test key with a sandbox, or unset the URL",
			stripeKeyName)
	}
	if isSimulator(c.Stripe.BaseURL) {
		return problemf(stripeBaseURLName, "is not encrypted, but %s is a live key; use https", stripeKeyName)
	}
	return nil
}

func checkPayPalWebhook(e environment, c Config) *SettingError {
	if !c.PayPal.Configured() {
		return nil // said already
	}
	return paypalWebhookGroup().check(e, c)
}

// checkPayPalCertificate: every webhook of a simulator would be refused, as no authority vouches for its certificate.
func checkPayPalCertificate(_ environment, c Config) *SettingError {
	if c.PayPal.WebhookVerify != VerifyByCertificate || !isSimulator(c.PayPal.BaseURL) {
		return nil
	}
	return problemf(paypalVerifyName, "is certificate, but %s is a simulator's, for whose certificate nobody vouches; use api, or unset it",
		paypalBaseURLName)
}

// checkMoney: a customer chooses the provider, and would choose the one at which goods cost nothing.
func checkMoney(_ environment, c Config) *SettingError {
	moves := map[money]string{} // the first setting that says so
	note := func(name string, is money) {
		if moves[is] == "" {
			moves[is] = name
		}
	}
	if c.Stripe.Configured() {
		note(stripeKeyName, c.Stripe.money())
	}
	if c.Adyen.Configured() {
		note(adyenBaseURLName, moneyAt(c.Adyen.BaseURL))
	}
	if c.PayPal.Configured() {
		note(paypalBaseURLName, moneyAt(c.PayPal.BaseURL))
	}
	if moves[playMoney] == "" || moves[realMoney] == "" {
		return nil
	}
	return problemf(moves[playMoney], "is for tests, but %s is for real money, so that orders could be paid in play money; "+
		"make all providers live, or all of them tests", moves[realMoney])
}

// memory is how long a provider recognizes a charge that is sent again.
type memory struct {
	provider   string
	configured bool
	lasts      time.Duration
}

// memories are the providers' own promises about the identifiers of a charge, the longest that an account can have. What a
// provider remembers of refunds (PayPal 45 days) is no matter of keys: a refund is sent again by its saga, which needs no key,
// and no later than the adapter's Windows allow.
func (c Config) memories() []memory {
	return []memory{
		{"Stripe", c.Stripe.Configured(), 24 * time.Hour},
		{"Adyen", c.Adyen.Configured(), 7 * 24 * time.Hour},
		{"PayPal", c.PayPal.Configured(), 72 * time.Hour}, // 6 h, or up to 72 h by agreement
	}
}

// checkMemory: if paysaga forgot a key before the provider does, a late retry would be a new order here, with identifiers of its
// own, while the provider could still have told that it is not.
func checkMemory(_ environment, c Config) *SettingError {
	longest := memory{}
	for _, each := range c.memories() {
		if each.configured && each.lasts > longest.lasts {
			longest = each
		}
	}
	if c.Retention >= longest.lasts {
		return nil
	}
	return problemf(retentionName, "is %s, shorter than %s remembers a payment, %s; keys must not be forgotten before",
		brief(c.Retention), longest.provider, brief(longest.lasts))
}
