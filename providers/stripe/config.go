package stripe

import (
	"errors"
	"fmt"
	"net/http"
	"regexp"
	"strings"
	"time"

	"paysaga/providers/wire"
)

const (
	defaultBaseURL = "https://api.stripe.com"
	// defaultCallTimeout is under the lease of a saga (30 s), so that the holder still has its lease when a call ends.
	defaultCallTimeout = 20 * time.Second
)

// ErrConfig is wrapped by every error of New.
var ErrConfig = errors.New("stripe configuration")

// secretKey is the form of Stripe's secret (sk) and restricted (rk) keys, test and live.
var secretKey = regexp.MustCompile(`^[sr]k_[A-Za-z0-9_]{1,250}$`)

// testModeKey is the form of keys that move no money: they may go over plain http, to a sandbox on the same network.
var testModeKey = regexp.MustCompile(`^[sr]k_test_`)

// Config sets an Adapter up.
type Config struct {
	// APIKey is a secret (sk_…) or restricted (rk_…) key.
	APIKey string
	// BaseURL is where Stripe's API is, without "/v1"; empty is https://api.stripe.com. Plain http is for test keys only.
	BaseURL string
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
	case strings.HasPrefix(c.APIKey, "pk_"):
		return Config{}, fmt.Errorf("%w: the API key is a publishable key (pk_…); a secret key (sk_… or rk_…) is needed", ErrConfig)
	case strings.HasPrefix(c.APIKey, "whsec_"):
		return Config{}, fmt.Errorf("%w: the API key is a webhook secret (whsec_…); a secret key (sk_… or rk_…) is needed", ErrConfig)
	case !secretKey.MatchString(c.APIKey):
		return Config{}, fmt.Errorf("%w: the API key has not the form of a secret key (sk_… or rk_…)", ErrConfig)
	case c.CallTimeout < 0:
		return Config{}, fmt.Errorf("%w: the call timeout is negative", ErrConfig)
	}
	if c.BaseURL == "" {
		c.BaseURL = defaultBaseURL
	}
	plain := func(string) bool { return testModeKey.MatchString(c.APIKey) } // Stripe's keys show whether they move money
	if err := wire.CheckBaseURL(c.BaseURL, plain); err != nil {
		return Config{}, fmt.Errorf("%w: %w", ErrConfig, err)
	}
	if c.CallTimeout == 0 {
		c.CallTimeout = defaultCallTimeout
	}
	if c.HTTPClient == nil {
		c.HTTPClient = &http.Client{}
	}
	return c, nil
}
