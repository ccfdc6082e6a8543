package main

import (
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strings"

	"paysaga/internal/config"
	"paysaga/internal/webhook"
	"paysaga/providers/adyen"
	"paysaga/providers/paypal"
	"paysaga/providers/stripe"
	"paysaga/providers/wire"
	"paysaga/reconcile"
	"paysaga/saga"
)

// newProviders makes the adapters of the providers that are configured, each behind a circuit breaker of its own.
// Their calls go through what through makes of a transport, and are seen by it.
func newProviders(c config.Config, through func(http.RoundTripper) http.RoundTripper) (map[string]saga.Provider, error) {
	adapters, err := newAdapters(c, through)
	for name, adapter := range adapters {
		adapters[name] = saga.WithBreaker(adapter)
	}
	return adapters, err
}

// newSources makes what lists the providers have, and names the providers that have none. A list is long and nobody waits for it: it goes
// beside the circuit breakers, of which it would open one, or be held back by it.
func newSources(
	c config.Config, through func(http.RoundTripper) http.RoundTripper,
) (sources map[string]reconcile.Source, announcing []string, err error) {
	adapters, err := newAdapters(c, through)
	sources = map[string]reconcile.Source{}
	for name, adapter := range adapters {
		if source, lists := adapter.(reconcile.Source); lists {
			sources[name] = source
		} else {
			announcing = append(announcing, name)
		}
	}
	return sources, announcing, err
}

// newAdapters makes the adapters of the providers that are configured.
func newAdapters(c config.Config, through func(http.RoundTripper) http.RoundTripper) (map[string]saga.Provider, error) {
	client := func() *http.Client { return &http.Client{Transport: through(wire.NewTransport())} }
	adapters := map[string]saga.Provider{}
	if c.Stripe.Configured() {
		adapter, err := stripe.New(stripe.Config{
			APIKey: c.Stripe.APIKey.Reveal(), BaseURL: c.Stripe.BaseURL, CallTimeout: c.CallTimeout, HTTPClient: client(),
		})
		if err != nil {
			return nil, fmt.Errorf("set up Stripe: %w", err)
		}
		adapters[adapter.Name()] = adapter
	}
	if c.Adyen.Configured() {
		adapter, err := adyen.New(adyen.Config{
			APIKey: c.Adyen.APIKey.Reveal(), MerchantAccount: c.Adyen.MerchantAccount, BaseURL: c.Adyen.BaseURL,
			ReturnURL: c.Adyen.ReturnURL, SeveralCaptures: c.Adyen.SeveralCaptures, CallTimeout: c.CallTimeout, HTTPClient: client(),
		})
		if err != nil {
			return nil, fmt.Errorf("set up Adyen: %w", err)
		}
		adapters[adapter.Name()] = adapter
	}
	if c.PayPal.Configured() {
		own := paypalConfig(c)
		own.HTTPClient = client()
		adapter, err := paypal.New(own)
		if err != nil {
			return nil, fmt.Errorf("set up PayPal: %w", err)
		}
		adapters[adapter.Name()] = adapter
	}
	return adapters, nil
}

// newWebhookEndpoints makes them for the providers of which we know what their webhooks are signed with.
func newWebhookEndpoints(c config.Config) (map[string]webhook.Endpoint, error) {
	endpoints := map[string]webhook.Endpoint{}
	if len(c.Stripe.WebhookSecrets) > 0 {
		parser, err := stripe.NewWebhook(stripe.WebhookConfig{Secrets: reveal(c.Stripe.WebhookSecrets)})
		if err != nil {
			return nil, fmt.Errorf("set up Stripe's webhooks: %w", err)
		}
		endpoints["stripe"] = webhook.Endpoint{Parser: parser}
	}
	if len(c.Adyen.HMACKeys) > 0 {
		parser, err := adyen.NewWebhook(adyen.WebhookConfig{
			HMACKeys: reveal(c.Adyen.HMACKeys), MerchantAccount: c.Adyen.MerchantAccount,
		})
		if err != nil {
			return nil, fmt.Errorf("set up Adyen's webhooks: %w", err)
		}
		endpoints["adyen"] = webhook.Endpoint{Parser: parser, Accepted: adyen.Accepted}
	}
	if c.PayPal.WebhookID != "" {
		parser, err := paypal.NewWebhook(paypalConfig(c))
		if err != nil {
			return nil, fmt.Errorf("set up PayPal's webhooks: %w", err)
		}
		endpoints["paypal"] = webhook.Endpoint{Parser: parser}
	}
	return endpoints, nil
}

func paypalConfig(c config.Config) paypal.Config {
	return paypal.Config{
		ClientID: c.PayPal.ClientID, ClientSecret: c.PayPal.ClientSecret.Reveal(), BaseURL: c.PayPal.BaseURL, CallTimeout: c.CallTimeout,
		WebhookID: c.PayPal.WebhookID, VerifyByAPI: c.PayPal.VerifyByAPI(), CertificateHosts: certificateHosts(c.PayPal),
	}
}

// certificateHosts adds a simulator's own host to those that are set: whoever is asked whether a signature is good may also have
// the certificate that it speaks of. PayPal itself has no port in its address, and a host with colons is not among the forms that
// the adapter takes.
func certificateHosts(p config.PayPal) []string {
	base, err := url.Parse(p.BaseURL)
	if err != nil || base.Port() == "" || strings.Contains(base.Hostname(), ":") || !p.VerifyByAPI() {
		return p.CertificateHosts
	}
	return append(slices.Clone(p.CertificateHosts), strings.ToLower(base.Host))
}

func reveal(secrets []config.Secret) []string {
	texts := make([]string, len(secrets))
	for i, secret := range secrets {
		texts[i] = secret.Reveal()
	}
	return texts
}
