package config

import (
	"net/netip"
	"net/url"
	"strings"
)

// contradiction is a rule that looks at more than one setting. It is not checked when one of those it needs is broken by
// itself, so that one mistake gives one line.
type contradiction struct {
	needs []string
	check func(e environment, c Config) *SettingError
}

// contradictions are all rules between settings.
//
// There is none between PAYSAGA_CALL_TIMEOUT and PAYSAGA_LEASE: the lease is renewed while a call runs.
func contradictions() []contradiction {
	return []contradiction{
		{[]string{stripeKeyName, stripeBaseURLName}, checkProvider},
		{[]string{stripeKeyName, stripeBaseURLName}, checkStripeKeyFitsURL},
		{[]string{callTimeoutName, drainTimeoutName}, checkDrain},
		{[]string{awaitDeadlineName, retentionName}, checkRetention},
	}
}

// checkProvider: without a provider no order could ever be paid.
func checkProvider(e environment, c Config) *SettingError {
	_, hasURL := e[stripeBaseURLName]
	if !c.Stripe.Configured() && hasURL {
		return problemf(stripeBaseURLName, "is set, but %s is not; set the key too, or unset the URL", stripeKeyName)
	}
	if !c.Stripe.Configured() {
		return problemf(stripeKeyName, "is not set, and no payment provider is configured; set it to turn Stripe on")
	}
	return nil
}

// checkStripeKeyFitsURL keeps a key that moves real money away from a sandbox and off unencrypted wires.
func checkStripeKeyFitsURL(_ environment, c Config) *SettingError {
	if !c.Stripe.live() {
		return nil
	}
	base, err := url.Parse(c.Stripe.BaseURL)
	if err != nil {
		return problemf(stripeBaseURLName, "%s", errBaseURL)
	}
	if isLoopback(base.Hostname()) {
		return problemf(stripeBaseURLName, "points at this machine, but %s is a live key; use a test key with a sandbox, or unset the URL",
			stripeKeyName)
	}
	if base.Scheme != "https" {
		return problemf(stripeBaseURLName, "is not encrypted, but %s is a live key; use https", stripeKeyName)
	}
	return nil
}

func isLoopback(host string) bool {
	address, err := netip.ParseAddr(host)
	if err != nil {
		return strings.EqualFold(host, "localhost") || strings.HasSuffix(strings.ToLower(host), ".localhost")
	}
	return address.Unmap().IsLoopback() || address.IsUnspecified()
}

// checkDrain: a server that stops must outwait its own provider calls, else every deploy makes outcomes unknown.
func checkDrain(_ environment, c Config) *SettingError {
	if c.DrainTimeout >= c.CallTimeout {
		return nil
	}
	return problemf(drainTimeoutName, "is %s, shorter than %s, %s; a stopping server must be able to finish a provider call",
		brief(c.DrainTimeout), callTimeoutName, brief(c.CallTimeout))
}

// checkRetention: a key must not be forgotten while its order still waits, else a retry would be a second order.
func checkRetention(_ environment, c Config) *SettingError {
	if c.Retention > c.AwaitDeadline {
		return nil
	}
	return problemf(retentionName, "is %s, not longer than %s, %s; a key must outlive its waiting order",
		brief(c.Retention), awaitDeadlineName, brief(c.AwaitDeadline))
}
