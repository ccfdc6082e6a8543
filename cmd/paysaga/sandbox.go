package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"net/url"
	"os"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"paysaga/providers/sandbox"
)

func newSandboxCommand() *cobra.Command {
	flags := &sandboxFlags{}
	command := &cobra.Command{
		Use:   "sandbox",
		Short: "Run a local stand-in for the payment providers",
		Long: `Runs a server that speaks the needed part of the providers' APIs with their own rules: idempotency keys, declines,
3-D Secure, approval pages, signed webhooks. It moves no money, keeps everything in memory and forgets it at the end.

  /stripe               Stripe's API: set STRIPE_BASE_URL to http://HOST:PORT/stripe and STRIPE_API_KEY to any sk_test_…
  /adyen/v71            Adyen's Checkout API: ADYEN_BASE_URL, and anything as ADYEN_API_KEY and ADYEN_MERCHANT_ACCOUNT
  /paypal               PayPal's Orders and Payments APIs: PAYPAL_BASE_URL, and anything as PAYPAL_CLIENT_ID and _SECRET
  /_sandbox/ledger      what was charged, held and refunded
  /_sandbox/requests    the last requests
  /_sandbox/faults      POST what should go wrong, DELETE to end it
  /_sandbox/payments/ID/approve, refuse, settle, fail   POST: play the customer or the bank
  /_sandbox/refunds/ID/settle, fail                     POST: play the bank
  /_sandbox/webhooks    GET or POST where signed webhooks go and how; POST /_sandbox/webhooks/flush sends what waits,
                        …/resend what was accepted since a time
  /_sandbox/clock, /_sandbox/settings, /_sandbox/reset  POST: move its clock, set its delays, forget everything

Webhooks go where --webhook says, for each provider once, signed with what paysaga has as STRIPE_WEBHOOK_SECRETS,
ADYEN_HMAC_KEYS and PAYPAL_WEBHOOK_ID (with PAYPAL_WEBHOOK_VERIFY=api). Without it none are sent.`,
		Example: `  paysaga sandbox --addr 127.0.0.1:9090
  paysaga sandbox --webhook stripe=http://127.0.0.1:8080/webhooks/stripe --stripe-webhook-secret whsec_sandbox
  paysaga sandbox --webhook adyen=http://127.0.0.1:8080/webhooks/adyen --adyen-hmac-key "$(openssl rand -hex 32)"
  paysaga sandbox --webhook paypal=http://127.0.0.1:8080/webhooks/paypal --paypal-webhook-id SANDBOXWEBHOOK
  curl -s http://127.0.0.1:9090/_sandbox/ledger
  curl -s http://127.0.0.1:9090/_sandbox/faults -d '{"provider":"stripe","call":"charge","fault":"timeout_after","times":1}'`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			options, err := flags.sandboxOptions()
			if err != nil {
				return usageError{err}
			}
			return runSandbox(cmd, flags.address, options)
		},
	}
	flags.addTo(command)
	return command
}

func runSandbox(cmd *cobra.Command, address string, options sandbox.Options) error {
	listener, err := listen(cmd.Context(), address)
	if err != nil {
		return err
	}
	fmt.Fprintln(cmd.ErrOrStderr(), "sandbox listening on", baseURL(listener))
	box := sandbox.New(options)
	defer box.Close()
	server := &http.Server{Handler: box, ReadHeaderTimeout: readHeaderTimeout}
	stop := context.AfterFunc(cmd.Context(), func() { _ = server.Close() })
	defer stop()
	if err := server.Serve(listener); !errors.Is(err, http.ErrServerClosed) {
		return fmt.Errorf("serve: %w", err)
	}
	return nil
}

// sandboxFlags are the command's flags as they are given.
type sandboxFlags struct {
	address  string
	options  sandbox.Options
	webhooks []string // PROVIDER=URL

	stripeSecrets   []string
	adyenHMACKey    string
	paypalWebhookID string
}

func (f *sandboxFlags) addTo(command *cobra.Command) {
	flags := command.Flags()
	flags.StringVar(&f.address, "addr", "127.0.0.1:9090", "address to listen on; port 0 picks a free one")
	flags.StringVar(&f.options.PublicURL, "public-url", "", "where a browser finds the sandbox, for the pages on which to approve or refuse; "+
		"else it is the address that was called")
	flags.Int64Var(&f.options.Seed, "seed", 1, "seed of the faults and of the webhooks' mishaps that come by probability")
	flags.DurationVar(&f.options.SearchDelay, "search-delay", 0, "how far the search index lags behind, as the providers' do")
	flags.DurationVar(&f.options.SettleAfter, "settle-after", 2*time.Second,
		"when a payment in processing, or what Adyen was asked for, ends by itself; 0 for never, at Adyen for at once")
	flags.BoolVar(&f.options.AdyenSeveralCaptures, "adyen-several-captures", false, "an account of Adyen's that may capture several times")
	flags.BoolVar(&f.options.PayPalReusedInvoices, "paypal-reused-invoices", false, "an account of PayPal's that takes an invoice_id twice")
	flags.StringArrayVar(&f.webhooks, "webhook", nil, "where a provider's webhooks go, `PROVIDER=URL`; may be repeated")
	flags.StringArrayVar(&f.stripeSecrets, "stripe-webhook-secret", nil, "signs Stripe's webhooks, whsec_…; may be repeated")
	flags.StringVar(&f.adyenHMACKey, "adyen-hmac-key", "", "signs Adyen's webhooks, 64 hexadecimal digits")
	flags.StringVar(&f.paypalWebhookID, "paypal-webhook-id", "", "the webhook's id, which PayPal's signatures are for")
	flags.BoolVar(&f.options.WebhooksAnywhere, "webhooks-anywhere", false, "allow webhooks to other machines than this one")
	_ = command.RegisterFlagCompletionFunc("webhook", cobra.FixedCompletions(
		[]string{
			"stripe=http://127.0.0.1:8080/webhooks/stripe", "adyen=http://127.0.0.1:8080/webhooks/adyen",
			"paypal=http://127.0.0.1:8080/webhooks/paypal",
		}, cobra.ShellCompDirectiveNoFileComp))
	for _, name := range []string{"addr", "public-url", "stripe-webhook-secret", "adyen-hmac-key", "paypal-webhook-id"} {
		_ = command.RegisterFlagCompletionFunc(name, cobra.NoFileCompletions)
	}
}

// sandboxOptions puts the flags together. An error is a mistake in how the command was called.
func (f *sandboxFlags) sandboxOptions() (sandbox.Options, error) {
	options := f.options
	options.Logger = slog.New(slog.NewTextHandler(os.Stderr, &slog.HandlerOptions{Level: slog.LevelWarn}))
	if options.PublicURL != "" && !isWebAddress(options.PublicURL) {
		return sandbox.Options{}, errors.New("--public-url must be an http or https URL")
	}
	targets, err := f.webhookTargets()
	if err != nil {
		return sandbox.Options{}, err
	}
	options.Webhooks = targets
	if err := options.Validate(); err != nil {
		return sandbox.Options{}, fmt.Errorf("--webhook: %w", err)
	}
	return options, nil
}

func isWebAddress(address string) bool {
	parsed, err := url.Parse(address)
	return err == nil && (parsed.Scheme == "http" || parsed.Scheme == "https") && parsed.Host != ""
}

func (f *sandboxFlags) webhookTargets() (map[string]sandbox.WebhookTarget, error) {
	targets := make(map[string]sandbox.WebhookTarget, len(f.webhooks))
	for _, given := range f.webhooks {
		provider, address, ok := strings.Cut(given, "=")
		if !ok {
			return nil, fmt.Errorf("--webhook %q: write it as PROVIDER=URL", given)
		}
		if _, twice := targets[provider]; twice {
			return nil, fmt.Errorf("--webhook %s: is given twice, and each provider has one", provider)
		}
		targets[provider] = f.webhookTarget(provider, address)
	}
	for _, signer := range []struct {
		flag, provider string
		given          bool
	}{
		{"--stripe-webhook-secret", "stripe", len(f.stripeSecrets) > 0},
		{"--adyen-hmac-key", "adyen", f.adyenHMACKey != ""},
		{"--paypal-webhook-id", "paypal", f.paypalWebhookID != ""},
	} {
		if _, wanted := targets[signer.provider]; signer.given && !wanted {
			return nil, fmt.Errorf("%s goes with --webhook %s=URL", signer.flag, signer.provider)
		}
	}
	return targets, nil
}

func (f *sandboxFlags) webhookTarget(provider, address string) sandbox.WebhookTarget {
	target := sandbox.WebhookTarget{URL: address}
	switch provider {
	case "stripe":
		target.Secrets = f.stripeSecrets
	case "adyen":
		if f.adyenHMACKey != "" {
			target.Secrets = []string{f.adyenHMACKey}
		}
	case "paypal":
		target.WebhookID = f.paypalWebhookID
	}
	return target
}
