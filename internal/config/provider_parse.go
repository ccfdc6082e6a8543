package config

import (
	"errors"
	"fmt"
	"net/url"
	"regexp"
	"slices"
	"strings"
)

// What can be wrong with one value of a provider's. None repeats it.
var (
	errStripeKey    = errors.New("is no secret key of Stripe; it starts with sk_test_, sk_live_, rk_test_ or rk_live_")
	errPublishable  = errors.New("is a publishable key, which cannot take payments; use the secret key, sk_…")
	errAdyenKey     = errors.New("is no API key of Adyen; it has neither blanks nor characters outside of ASCII, and at most 512")
	errMerchant     = errors.New("is no merchant account; it has up to 80 of A-Z a-z 0-9 _ . -")
	errAdyenVersion = errors.New("must end with the version that paysaga speaks, /v71, as in https://checkout-test.adyen.com/v71")
	errAdyenHost    = errors.New("is no Checkout address of Adyen; for tests it is https://checkout-test.adyen.com/v71, " +
		"for live payments https://PREFIX-checkout-live.adyenpayments.com/checkout/v71 with your company's prefix")
	errReturnURL    = errors.New("is no web page; write it as https://shop.example.com/paid")
	errClientID     = errors.New("is no client ID of PayPal; copy it from the app in PayPal's developer dashboard")
	errClientSecret = errors.New("is no client secret of PayPal; copy it from the app in PayPal's developer dashboard")
	errWebhookID    = errors.New("is no webhook ID of PayPal; it has up to 50 of A-Z a-z 0-9")
	errVerify       = errors.New("must be certificate or api")
	errHosts        = errors.New("is no list of certificate hosts; write it as host:port[,host:port…] in lower case")
	errPayPalHost   = errors.New("is no API address of PayPal; it is https://api-m.paypal.com, for tests https://api-m.sandbox.paypal.com, " +
		"without a path")
	errPlain = errors.New("is not encrypted; plain http is for a simulator on this machine, or under a host name without a dot")
)

// maxListed bounds lists of secrets: two for a rotation, for each of a few endpoints. The adapters have the same bound.
const maxListed = 10

// The forms are those of the adapters, which check them again.
var (
	stripeSecretForm    = regexp.MustCompile(`^whsec_[A-Za-z0-9+/=_-]{1,250}$`)
	adyenKeyForm        = regexp.MustCompile(`^[!-~]{1,512}$`)
	merchantAccountForm = regexp.MustCompile(`^[A-Za-z0-9_.-]{1,80}$`)
	hmacKeyForm         = regexp.MustCompile(`^[0-9A-Fa-f]{64}$`)
	credentialForm      = regexp.MustCompile(`^[A-Za-z0-9_.~-]{1,255}$`)
	webhookIDForm       = regexp.MustCompile(`^[A-Za-z0-9]{1,50}$`)
	hostPortForm        = regexp.MustCompile(`^[a-z0-9.-]{1,253}:[0-9]{1,5}$`)
)

func parseStripeKey(field *Secret, value string) error {
	if strings.HasPrefix(value, "pk_") {
		return errPublishable
	}
	kind, name, _ := strings.Cut(value, "_")
	mode, random, _ := strings.Cut(name, "_")
	if (kind != "sk" && kind != "rk") || (mode != "test" && mode != "live") || random == "" || strings.ContainsAny(random, " \t\r\n") {
		return errStripeKey
	}
	*field = Secret(value)
	return nil
}

func parseStripeSecrets(field *[]Secret, value string) error {
	return parseSecrets(field, value, stripeSecretForm, "webhook secret of Stripe; each starts with whsec_")
}

func parseHMACKeys(field *[]Secret, value string) error {
	return parseSecrets(field, value, hmacKeyForm, "HMAC key of Adyen; each has 64 hexadecimal digits")
}

// parseSecrets reads a list with commas between. The error says which one is wrong, by its place.
func parseSecrets(field *[]Secret, value string, form *regexp.Regexp, what string) error {
	var secrets []Secret
	for text := range strings.SplitSeq(value, ",") {
		text = strings.TrimSpace(text)
		if len(secrets) == maxListed {
			return fmt.Errorf("holds more than %d; take out those that are not in use any more", maxListed)
		}
		if !form.MatchString(text) {
			return fmt.Errorf("holds at place %d no %s", len(secrets)+1, what)
		}
		secrets = append(secrets, Secret(text))
	}
	*field = secrets
	return nil
}

func parseAdyenKey(field *Secret, value string) error {
	if !adyenKeyForm.MatchString(value) {
		return errAdyenKey
	}
	*field = Secret(value)
	return nil
}

func parseMerchantAccount(field *string, value string) error {
	if !merchantAccountForm.MatchString(value) {
		return errMerchant
	}
	*field = value
	return nil
}

func parseAdyenBaseURL(field *string, value string) error {
	var text string
	base, err := parseSafeURL(&text, value)
	if err != nil {
		return err
	}
	host := hostOf(text)
	atAdyen := strings.HasSuffix("."+host, ".adyen.com") || strings.HasSuffix("."+host, ".adyenpayments.com")
	isLive := adyenLiveHost.MatchString(host)
	switch {
	case atAdyen && host != adyenTestHost && !isLive, isLive && base.Path != "/checkout/v71":
		return errAdyenHost
	case !strings.HasSuffix(base.Path, "/v71"):
		return errAdyenVersion
	}
	*field = text
	return nil
}

func parseReturnURL(field *string, value string) error {
	page, err := url.Parse(value)
	if err != nil || (page.Scheme != "https" && page.Scheme != "http") || page.Hostname() == "" {
		return errReturnURL
	}
	*field = value
	return nil
}

func parsePayPalClientID(field *string, value string) error {
	if !credentialForm.MatchString(value) {
		return errClientID
	}
	*field = value
	return nil
}

func parsePayPalSecret(field *Secret, value string) error {
	if !credentialForm.MatchString(value) {
		return errClientSecret
	}
	*field = Secret(value)
	return nil
}

func parsePayPalWebhookID(field *string, value string) error {
	if !webhookIDForm.MatchString(value) {
		return errWebhookID
	}
	*field = value
	return nil
}

func parsePayPalVerify(field *PayPalVerification, value string) error {
	switch way := PayPalVerification(value); way {
	case VerifyByCertificate, VerifyByAPI:
		*field = way
		return nil
	default:
		return errVerify
	}
}

func parseCertificateHosts(field *[]string, value string) error {
	hosts := strings.Split(value, ",")
	if len(hosts) > maxListed {
		return errHosts
	}
	for i := range hosts {
		hosts[i] = strings.TrimSpace(hosts[i])
		if !hostPortForm.MatchString(hosts[i]) {
			return errHosts
		}
	}
	*field = hosts
	return nil
}

func parsePayPalBaseURL(field *string, value string) error {
	var text string
	base, err := parseSafeURL(&text, value)
	if err != nil {
		return err
	}
	host := hostOf(text)
	known := slices.Contains(paypalLiveHosts, host) || slices.Contains(paypalTestHosts, host)
	if strings.HasSuffix("."+host, ".paypal.com") && (!known || base.Path != "") {
		return errPayPalHost
	}
	*field = text
	return nil
}

// parseSafeURL reads an address to which keys are sent that do not show whether they move real money. So they go unencrypted
// only to hosts that no public name can be.
func parseSafeURL(field *string, value string) (*url.URL, error) {
	if err := parseBaseURL(field, value); err != nil {
		return nil, err
	}
	base, err := url.Parse(*field)
	if err != nil {
		return nil, errBaseURL
	}
	if base.Scheme == "http" && !isNearby(base.Hostname()) {
		return nil, errPlain
	}
	return base, nil
}
