package main

import (
	"io"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"github.com/spf13/cobra"

	"paysaga/providers/sandbox"
	"paysaga/providers/stripe"
)

const (
	testStripeSecret = "whsec_sandboxtest"
	testHMACKey      = "44782DEF547AAA06C910C43932B1EB0C71FC68D9D0C057550C48EC2ACF6BA056"
)

func optionsOf(t *testing.T, arguments ...string) (sandbox.Options, error) {
	t.Helper()
	flags, command := &sandboxFlags{}, &cobra.Command{}
	flags.addTo(command)
	noError(t, command.ParseFlags(arguments))
	return flags.sandboxOptions()
}

func TestSandboxFlags(t *testing.T) {
	t.Parallel()
	got, err := optionsOf(t, "--seed=7", "--search-delay=1m", "--settle-after=0", "--public-url=http://shop.example.com:9090",
		"--adyen-several-captures", "--paypal-reused-invoices", "--webhooks-anywhere",
		"--webhook", "stripe=http://paysaga:8080/webhooks/stripe?a=b", "--stripe-webhook-secret=whsec_new", "--stripe-webhook-secret=whsec_old",
		"--webhook", "adyen=http://paysaga:8080/webhooks/adyen", "--adyen-hmac-key="+testHMACKey,
		"--webhook", "paypal=http://paysaga:8080/webhooks/paypal", "--paypal-webhook-id=WH1")
	noError(t, err)
	want := sandbox.Options{
		Seed: 7, SearchDelay: time.Minute, PublicURL: "http://shop.example.com:9090",
		AdyenSeveralCaptures: true, PayPalReusedInvoices: true, WebhooksAnywhere: true,
		Webhooks: map[string]sandbox.WebhookTarget{
			"stripe": {URL: "http://paysaga:8080/webhooks/stripe?a=b", Secrets: []string{"whsec_new", "whsec_old"}},
			"adyen":  {URL: "http://paysaga:8080/webhooks/adyen", Secrets: []string{testHMACKey}},
			"paypal": {URL: "http://paysaga:8080/webhooks/paypal", WebhookID: "WH1"},
		},
	}
	if diff := cmp.Diff(want, got, cmpopts.IgnoreFields(sandbox.Options{}, "Logger")); diff != "" {
		t.Errorf("options (-want +got):\n%s", diff)
	}
}

func TestSandboxRefusesFlags(t *testing.T) {
	t.Parallel()
	for call, words := range map[string]string{
		"--webhook stripe":                                                                               `--webhook "stripe": write it as PROVIDER=URL`,
		"--webhook klarna=http://127.0.0.1/":                                                             `provider "klarna"`,
		"--webhook stripe=http://127.0.0.1/":                                                             "stripe needs a secret",
		"--webhook adyen=http://127.0.0.1/":                                                              "adyen needs a secret",
		"--webhook adyen=http://127.0.0.1/ --adyen-hmac-key=xyz":                                         "hexadecimal",
		"--webhook paypal=http://127.0.0.1/":                                                             "paypal needs a webhook_id",
		"--webhook paypal=ftp://127.0.0.1/ --paypal-webhook-id=WH1":                                      "http or https URL",
		"--webhook paypal=http://example.com/ --paypal-webhook-id=WH1":                                   "on this machine",
		"--webhook paypal=http://127.0.0.1/ --webhook paypal=http://127.0.0.1/a --paypal-webhook-id=WH1": "--webhook paypal: is given twice",
		"--stripe-webhook-secret=whsec_a":                                                                "--stripe-webhook-secret goes with --webhook stripe=URL",
		"--adyen-hmac-key=" + testHMACKey:                                                                "--adyen-hmac-key goes with --webhook adyen=URL",
		"--webhook stripe=http://127.0.0.1/ --stripe-webhook-secret=whsec_a --paypal-webhook-id=WH1":     "--paypal-webhook-id goes with --webhook paypal=URL",
		"--public-url=shop.example.com":                                                                  "--public-url must be an http or https URL",
	} {
		t.Run(call, func(t *testing.T) {
			t.Parallel()
			paysaga(t, nil, append([]string{"sandbox", "--addr=127.0.0.1:0"}, strings.Fields(call)...)...).refused(t, exitUsage, words)
		})
	}
}

// The program sends a webhook that whoever has the secret can verify, and its pages are where --public-url says.
func TestSandboxSendsWebhooks(t *testing.T) {
	t.Parallel()
	type message struct {
		header http.Header
		body   []byte
	}
	arrived := make(chan message, 1)
	shop := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body) // what is missing does not verify
		arrived <- message{r.Header, body}
	}))
	t.Cleanup(shop.Close)
	box := start(t, nil, "sandbox", "--addr=127.0.0.1:0", "--public-url=http://pages.example.com",
		"--webhook=stripe="+shop.URL, "--stripe-webhook-secret="+testStripeSecret)
	base := box.waitFor(t, `sandbox listening on (\S+)`)
	charge := url.Values{
		"amount": {"3998"}, "currency": {"eur"}, "payment_method": {"pm_card_visa"}, "confirm": {"true"}, "return_url": {"http://shop.example.com"},
	}
	request, err := http.NewRequestWithContext(t.Context(), http.MethodPost, base+"/stripe/v1/payment_intents", strings.NewReader(charge.Encode()))
	noError(t, err)
	request.Header.Set("Authorization", "Bearer sk_test_sandbox")
	request.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	answer, err := http.DefaultClient.Do(request)
	noError(t, err)
	noError(t, answer.Body.Close())
	if answer.StatusCode != http.StatusOK {
		t.Fatalf("charge: %s", answer.Status)
	}
	parser, err := stripe.NewWebhook(stripe.WebhookConfig{Secrets: []string{testStripeSecret}})
	noError(t, err)
	select {
	case got := <-arrived:
		if _, err := parser.Parse(got.header, got.body, time.Now()); err != nil {
			t.Errorf("webhook: %v", err)
		}
	case <-time.After(programLimit):
		t.Fatal("no webhook came")
	}
	checkPublicURL(t, base)
	box.terminate(t)
}

func checkPublicURL(t *testing.T, base string) {
	t.Helper()
	body := `{"amount":{"currency":"EUR","value":3998},"reference":"r1","merchantAccount":"Shop","returnUrl":"http://shop.example.com",` +
		`"paymentMethod":{"type":"scheme","storedPaymentMethodId":"stored_REDIRECT"},"shopperReference":"s-1","shopperInteraction":"ContAuth"}`
	request, err := http.NewRequestWithContext(t.Context(), http.MethodPost, base+"/adyen/v71/payments", strings.NewReader(body))
	noError(t, err)
	request.Header.Set("X-Api-Key", "sandbox")
	request.Header.Set("Content-Type", "application/json")
	answer, err := http.DefaultClient.Do(request)
	noError(t, err)
	defer answer.Body.Close()
	text, err := io.ReadAll(answer.Body)
	noError(t, err)
	if !strings.Contains(string(text), `"url":"http://pages.example.com/adyen/redirect/`) {
		t.Errorf("redirect: %s", text)
	}
}

// In the compose file the sandbox signs with what paysaga verifies with.
func TestComposeFits(t *testing.T) {
	t.Parallel()
	providers, err := os.ReadFile("../../deploy/sandbox.env")
	noError(t, err)
	c := loaded(t, slices.Collect(strings.FieldsFuncSeq(string(providers), func(r rune) bool { return r == '\n' }))...)
	compose, err := os.ReadFile("../../docker-compose.yml")
	noError(t, err)
	var arguments []string
	for line := range strings.Lines(string(compose)) {
		if flag, ok := strings.CutPrefix(strings.TrimSpace(line), "- --"); ok {
			arguments = append(arguments, "--"+flag)
		}
	}
	options, err := optionsOf(t, arguments...)
	noError(t, err)
	want := map[string]sandbox.WebhookTarget{
		"stripe": {URL: "http://paysaga:8080/webhooks/stripe", Secrets: reveal(c.Stripe.WebhookSecrets)},
		"adyen":  {URL: "http://paysaga:8080/webhooks/adyen", Secrets: reveal(c.Adyen.HMACKeys)},
		"paypal": {URL: "http://paysaga:8080/webhooks/paypal", WebhookID: c.PayPal.WebhookID},
	}
	if diff := cmp.Diff(want, options.Webhooks); diff != "" {
		t.Errorf("webhooks (-what paysaga has +what the sandbox has):\n%s", diff)
	}
	if page := "http://" + c.PayPal.CertificateHosts[0]; options.PublicURL != page {
		t.Errorf("the sandbox calls itself %s, and certificates may be at %s", options.PublicURL, page)
	}
}
