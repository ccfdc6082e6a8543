package adyen

import (
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"regexp"
	"strings"
	"time"

	"paysaga/providers/wire"
)

const (
	// defaultCallTimeout is under the lease of a saga (30 s), so that the holder still has its lease when a call ends.
	defaultCallTimeout = 20 * time.Second
	// defaultReturnURL leads nowhere on purpose (RFC 2606): Adyen takes no payment without a returnUrl, also where no page of
	// the shop is to be returned to.
	defaultReturnURL = "https://return.invalid/"
	// apiVersion is the version of Checkout that the adapter speaks.
	apiVersion = "/v71"
)

// ErrConfig is wrapped by every error of New and NewWebhook.
var ErrConfig = errors.New("adyen configuration")

var (
	// apiKeyForm is all that an HTTP header carries without harm; Adyen promises no form of its keys.
	apiKeyForm = regexp.MustCompile(`^[!-~]{1,512}$`)
	// merchantAccountForm has no ':', which joins the fields of a signed webhook.
	merchantAccountForm = regexp.MustCompile(`^[A-Za-z0-9_.-]{1,80}$`)
)

// Config sets an Adapter up.
type Config struct {
	// APIKey is the key of an API credential, for the X-API-Key header.
	APIKey string
	// MerchantAccount is where the payments go.
	MerchantAccount string
	// BaseURL is where Checkout is, with its version: https://checkout-test.adyen.com/v71. There is no default, as each company
	// has an address of its own for live payments. Plain http is for hosts on the same machine or network (wire.IsNearby).
	BaseURL string
	// ReturnURL is where customers come back to after a redirect, if a charge does not say; empty is a page that does not exist.
	ReturnURL string
	// SeveralCaptures says that Adyen has allowed the account several partial captures of one payment. Without it the first capture
	// lets go of the rest.
	SeveralCaptures bool
	// CallTimeout bounds each HTTP call; 0 is 20 s.
	CallTimeout time.Duration
	// HTTPClient brings another transport, for tracing for example; nil is the adapter's own. It is copied, not changed.
	HTTPClient *http.Client
}

// withDefaults checks the settings and fills in what is left out. No error repeats the key.
func (c Config) withDefaults() (Config, error) {
	switch {
	case c.APIKey == "":
		return Config{}, fmt.Errorf("%w: the API key is missing", ErrConfig)
	case !apiKeyForm.MatchString(c.APIKey):
		return Config{}, fmt.Errorf("%w: the API key has blanks or characters outside of ASCII", ErrConfig)
	case !merchantAccountForm.MatchString(c.MerchantAccount):
		return Config{}, fmt.Errorf("%w: the merchant account is missing or not up to 80 of A-Z a-z 0-9 _ . -", ErrConfig)
	case c.CallTimeout < 0:
		return Config{}, fmt.Errorf("%w: the call timeout is negative", ErrConfig)
	case c.ReturnURL != "" && !isWebPage(c.ReturnURL):
		return Config{}, fmt.Errorf("%w: the return URL must begin with https:// or http://", ErrConfig)
	}
	c.BaseURL = strings.TrimSuffix(c.BaseURL, "/")
	if err := wire.CheckBaseURL(c.BaseURL, wire.IsNearby); err != nil {
		return Config{}, fmt.Errorf("%w: %w", ErrConfig, err)
	}
	if !strings.HasSuffix(c.BaseURL, apiVersion) {
		return Config{}, fmt.Errorf("%w: the base URL must end with %s, the version that is spoken", ErrConfig, apiVersion)
	}
	if c.ReturnURL == "" {
		c.ReturnURL = defaultReturnURL
	}
	if c.CallTimeout == 0 {
		c.CallTimeout = defaultCallTimeout
	}
	if c.HTTPClient == nil {
		c.HTTPClient = &http.Client{}
	}
	return c, nil
}

// isWebPage keeps "javascript:" and the like away from customers' browsers.
func isWebPage(address string) bool {
	parsed, err := url.Parse(address)
	return err == nil && (parsed.Scheme == "https" || parsed.Scheme == "http") && parsed.Host != ""
}
