package config

import (
	"net/netip"
	"net/url"
	"regexp"
	"slices"
	"strings"
)

// Stripe is how to reach Stripe, when it is configured.
type Stripe struct {
	APIKey         Secret
	WebhookSecrets []Secret // whsec_…, those that are valid at the moment; none: Stripe's webhooks are not taken
	BaseURL        string   // without a slash at the end
}

// Configured tells whether orders can be paid through Stripe.
func (s Stripe) Configured() bool { return s.APIKey != "" }

// money tells what a payment moves: Stripe writes it into the key, sk_live_… or rk_test_….
func (s Stripe) money() money {
	_, rest, _ := strings.Cut(s.APIKey.Reveal(), "_")
	if strings.HasPrefix(rest, "live_") {
		return realMoney
	}
	return playMoney
}

// Adyen is how to reach Adyen, when it is configured.
type Adyen struct {
	APIKey          Secret
	MerchantAccount string
	HMACKeys        []Secret // hexadecimal; at least one
	BaseURL         string   // with the version, without a slash at the end
	ReturnURL       string   // where customers come back to if their order does not say; may be empty
	SeveralCaptures bool     // of one hold: Adyen allows that to some accounts
}

// Configured tells whether orders can be paid through Adyen.
func (a Adyen) Configured() bool { return a.APIKey != "" }

// PayPal is how to reach PayPal, when it is configured.
type PayPal struct {
	ClientID         string
	ClientSecret     Secret
	WebhookID        string             // empty: PayPal's webhooks are not taken
	WebhookVerify    PayPalVerification // may be empty; VerifyByAPI says what holds
	CertificateHosts []string           // further places of certificates, "host:port"; usually none
	BaseURL          string             // without a slash at the end
}

// Configured tells whether orders can be paid through PayPal.
func (p PayPal) Configured() bool { return p.ClientID != "" }

// VerifyByAPI tells whether PayPal is asked about each webhook's signature. A simulator always is, unless told otherwise: no
// authority vouches for its certificate.
func (p PayPal) VerifyByAPI() bool {
	return p.WebhookVerify == VerifyByAPI || p.WebhookVerify == "" && isSimulator(p.BaseURL)
}

// PayPalVerification is how the signatures of PayPal's webhooks are checked.
type PayPalVerification string

// The ways to check a signature.
const (
	VerifyByCertificate PayPalVerification = "certificate" // here, with PayPal's certificate
	VerifyByAPI         PayPalVerification = "api"         // by asking PayPal about each
)

// money is what a provider's payments move.
type money string

const (
	realMoney    money = "real"
	playMoney    money = "play"
	unknownMoney money = "unknown" // behind a proxy
)

// Adyen's addresses of Checkout. For live payments each company has its own, behind a prefix.
const adyenTestHost = "checkout-test.adyen.com"

var adyenLiveHost = regexp.MustCompile(`^[a-z0-9-]+-checkout-live(-[a-z]+)?\.adyenpayments\.com$`)

// PayPal's addresses of its API, those from before its content delivery network included.
var (
	paypalLiveHosts = []string{"api-m.paypal.com", "api.paypal.com"}
	paypalTestHosts = []string{"api-m.sandbox.paypal.com", "api.sandbox.paypal.com"}
)

// moneyAt tells by an address of Adyen or PayPal what payments move there. Their keys do not show it.
func moneyAt(base string) money {
	host := hostOf(base)
	switch {
	case isSimulator(base), host == adyenTestHost, slices.Contains(paypalTestHosts, host):
		return playMoney
	case adyenLiveHost.MatchString(host), slices.Contains(paypalLiveHosts, host):
		return realMoney
	default:
		return unknownMoney
	}
}

// isSimulator tells an address that can be no provider's: on this machine, or without the encryption that real money needs.
func isSimulator(base string) bool {
	parsed, err := url.Parse(base)
	return err == nil && base != "" && (parsed.Scheme == "http" || isLoopback(parsed.Hostname()))
}

func hostOf(base string) string {
	parsed, err := url.Parse(base)
	if err != nil {
		return ""
	}
	return strings.ToLower(parsed.Hostname())
}

func isLoopback(host string) bool {
	address, err := netip.ParseAddr(host)
	if err != nil {
		return strings.EqualFold(host, "localhost") || strings.HasSuffix(strings.ToLower(host), ".localhost")
	}
	return address.Unmap().IsLoopback() || address.IsUnspecified()
}

// isNearby tells a loopback address, or a host name of one label such as a container's, which no public name can be.
func isNearby(host string) bool {
	address, err := netip.ParseAddr(host)
	if err != nil {
		return !strings.Contains(host, ".")
	}
	return address.IsLoopback()
}
