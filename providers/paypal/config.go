package paypal

import (
	"crypto/x509"
	"errors"
	"fmt"
	"net/http"
	"regexp"
	"strings"
	"time"

	"paysaga/providers/wire"
)

const (
	defaultBaseURL = "https://api-m.paypal.com"
	// defaultCallTimeout is under the lease of a saga (30 s), so that the holder still has its lease when a call ends.
	defaultCallTimeout = 20 * time.Second
)

// ErrConfig is wrapped by every error of New and NewWebhook.
var ErrConfig = errors.New("paypal configuration")

// What PayPal's credentials and webhook ids look like. What does not fit was cut or pasted with something else.
var (
	credentialForm = regexp.MustCompile(`^[A-Za-z0-9_.~-]{1,255}$`)
	webhookIDForm  = regexp.MustCompile(`^[A-Za-z0-9]{1,50}$`)
	hostPortForm   = regexp.MustCompile(`^[a-z0-9.-]{1,253}:[0-9]{1,5}$`)
)

// Config sets up an Adapter (New) and a Webhook (NewWebhook). Each takes what it needs and ignores the rest.
type Config struct {
	// ClientID and ClientSecret are the REST app's. A Webhook needs them only with VerifyByAPI.
	ClientID, ClientSecret string
	// BaseURL is where PayPal's API is, without "/v2"; empty is https://api-m.paypal.com, the sandbox is
	// https://api-m.sandbox.paypal.com. Plain http is for loopback addresses and for host names of one label.
	BaseURL string
	// CallTimeout bounds each call of the Adapter, the fetching of a token included; 0 is 20 s.
	CallTimeout time.Duration
	// HTTPClient brings another transport, for tracing for example; nil is the adapter's own. It is copied, not changed.
	HTTPClient *http.Client

	// WebhookID is PayPal's id of the webhook, a part of what it signs.
	WebhookID string
	// VerifyByAPI asks PayPal about each signature instead of checking it here: for networks that reach the API and nothing else.
	VerifyByAPI bool
	// Roots are the certificate authorities that may vouch for PayPal's signing certificate; nil are the system's, and the
	// certificate must then bear a name under paypal.com.
	Roots *x509.CertPool
	// CertificateHosts are further places of signing certificates, exactly "host:port", for tests and simulators.
	CertificateHosts []string
}

// withDefaults checks what an Adapter needs and fills in what is left out. No error repeats a credential.
func (c Config) withDefaults() (Config, error) {
	switch {
	case c.ClientID == "":
		return Config{}, fmt.Errorf("%w: the client ID is missing", ErrConfig)
	case c.ClientSecret == "":
		return Config{}, fmt.Errorf("%w: the client secret is missing", ErrConfig)
	case !credentialForm.MatchString(c.ClientID):
		return Config{}, fmt.Errorf("%w: the client ID has not the form of one", ErrConfig)
	case !credentialForm.MatchString(c.ClientSecret):
		return Config{}, fmt.Errorf("%w: the client secret has not the form of one", ErrConfig)
	case c.CallTimeout < 0:
		return Config{}, fmt.Errorf("%w: the call timeout is negative", ErrConfig)
	}
	if c.BaseURL == "" {
		c.BaseURL = defaultBaseURL
	}
	if err := wire.CheckBaseURL(c.BaseURL, wire.IsNearby); err != nil {
		return Config{}, fmt.Errorf("%w: %w", ErrConfig, err)
	}
	c.BaseURL = strings.TrimRight(c.BaseURL, "/")
	if c.CallTimeout == 0 {
		c.CallTimeout = defaultCallTimeout
	}
	if c.HTTPClient == nil {
		c.HTTPClient = &http.Client{}
	}
	return c, nil
}

// forWebhook checks what a Webhook needs.
func (c Config) forWebhook() (Config, error) {
	if !webhookIDForm.MatchString(c.WebhookID) {
		return Config{}, fmt.Errorf("%w: the webhook ID is missing or has not the form of one", ErrConfig)
	}
	for _, place := range c.CertificateHosts {
		if !hostPortForm.MatchString(place) {
			return Config{}, fmt.Errorf("%w: a certificate host must be a lower-case host:port", ErrConfig)
		}
	}
	if c.VerifyByAPI {
		return c.withDefaults()
	}
	if c.HTTPClient == nil {
		c.HTTPClient = &http.Client{}
	}
	return c, nil
}
