package client

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"net/http"
	"net/url"
	"strings"
	"time"
)

// What a Config's zero values stand for.
const (
	defaultBaseBackoff = 200 * time.Millisecond // longer than a lost connection needs, too short for a customer to notice
	defaultMaxBackoff  = 10 * time.Second       // twice what the server ever asks to wait for a request that runs
	// defaultAttemptTimeout is over the time that the server takes at most: 25 s with a provider that does not answer, and some
	// seconds for an order that is busy.
	defaultAttemptTimeout = 40 * time.Second
	// defaultMaxAttempts takes two minutes and more: the lease of a server that died (30 s) and a database's failover are over by then.
	defaultMaxAttempts = 30
	defaultUserAgent   = "paysaga-go"
)

// Bounds of a connection.
const (
	dialTimeout    = 5 * time.Second
	idleTimeout    = 30 * time.Second // under the 60 s after which load balancers drop silent connections
	maxConnections = 128              // all go to one host; net/http's default of 2 idle ones would dial anew all the time
	maxHeaderBytes = 64 << 10
)

// Config sets up a Client.
type Config struct {
	// BaseURL is where the server is, such as https://pay.example.com. Plain http is refused but for loopback addresses.
	BaseURL string
	// APIKey is a key of the account, as paysaga keys create gives it.
	APIKey string

	// HTTPClient makes the calls; nil: one with a pool of its own. Its CheckRedirect is not used. It must not repeat calls by itself.
	HTTPClient *http.Client
	// BaseBackoff and MaxBackoff are the ceiling of the first random pause, and of all; 0: 200 ms and 10 s.
	BaseBackoff, MaxBackoff time.Duration
	// AttemptTimeout ends an attempt without an answer, so that another one can follow; 0: 40 s, longer than the server takes at most.
	AttemptTimeout time.Duration
	// MaxAttempts bounds the attempts of one call; 0: 30, which take two minutes and more. The context bounds a call as well.
	MaxAttempts int
	// UserAgent is sent with each request; "": paysaga-go.
	UserAgent string
	// AllowPlainHTTP takes any http address: the network between shop and server is trusted with the API key.
	AllowPlainHTTP bool
	// Observe is told of each attempt when it is over, by the goroutine that makes the call, and must return soon. Nil: nobody is told.
	Observe func(context.Context, Attempt)
}

// Attempt is what became of one attempt of a call. It holds neither keys nor content.
type Attempt struct {
	Operation string // such as "create order"
	Number    int    // from 1
	Status    int    // HTTP; 0: no whole answer
	Replayed  bool   // the answer was kept under the key before
	Err       error  // nil: the call has its answer
	Took      time.Duration
	Again     bool          // another attempt follows, unless the context ends first
	Pause     time.Duration // until it
}

// Client calls the API for one account. It may be used by several goroutines at once.
type Client struct {
	base   *url.URL
	apiKey func() string // a function, so that printing a Client does not show it
	http   *http.Client
	config Config // with its defaults; without the API key

	// What tests replace: a random time from zero to a ceiling, and waiting.
	jitter func(ceiling time.Duration) time.Duration
	sleep  func(context.Context, time.Duration) error
}

// New checks a configuration and makes a Client of it. It makes no call.
func New(c Config) (*Client, error) {
	base, err := parseBaseURL(c.BaseURL, c.AllowPlainHTTP)
	if err != nil {
		return nil, err
	}
	if c.APIKey == "" || strings.ContainsFunc(c.APIKey, func(r rune) bool { return r <= ' ' || r > '~' }) {
		return nil, errors.New("the API key is empty or has characters that no key has")
	}
	if c.BaseBackoff < 0 || c.MaxBackoff < 0 || c.AttemptTimeout < 0 || c.MaxAttempts < 0 {
		return nil, errors.New("times and the number of attempts must not be negative")
	}
	apiKey := c.APIKey
	c.APIKey = ""
	c.BaseBackoff = cmp.Or(c.BaseBackoff, defaultBaseBackoff)
	c.MaxBackoff = max(cmp.Or(c.MaxBackoff, defaultMaxBackoff), c.BaseBackoff)
	c.AttemptTimeout = cmp.Or(c.AttemptTimeout, defaultAttemptTimeout)
	c.MaxAttempts = cmp.Or(c.MaxAttempts, defaultMaxAttempts)
	c.UserAgent = cmp.Or(c.UserAgent, defaultUserAgent)
	return &Client{
		base: base, http: withoutRedirects(c.HTTPClient), config: c,
		apiKey: func() string { return apiKey },
		jitter: func(ceiling time.Duration) time.Duration {
			return rand.N(max(ceiling, ceiling+1)) //nolint:gosec // spreads load, guards nothing
		},
		sleep: sleep,
	}, nil
}

// parseBaseURL refuses what would send the API key to somebody else. Its errors do not repeat the address: it may hold a password.
func parseBaseURL(text string, plain bool) (*url.URL, error) {
	base, err := url.Parse(text)
	switch {
	case err != nil || base.Hostname() == "":
		return nil, errors.New("the base URL is no absolute URL")
	case base.User != nil || base.RawQuery != "" || base.ForceQuery || base.Fragment != "":
		return nil, errors.New("the base URL must not have a user, a query or a fragment")
	case base.Scheme == "https":
		return base, nil
	case base.Scheme != "http":
		return nil, errors.New("the base URL must begin with https://")
	case plain || isLoopback(base.Hostname()):
		return base, nil
	}
	return nil, errors.New("the base URL must be https: plain http would show the API key to the network")
}

func isLoopback(host string) bool {
	return strings.EqualFold(host, "localhost") || net.ParseIP(host).IsLoopback()
}

// withoutRedirects is a copy of a client that takes a redirect for an answer: net/http would send a POST on as a GET.
func withoutRedirects(base *http.Client) *http.Client {
	if base == nil {
		base = &http.Client{Transport: newTransport()}
	}
	copied := *base
	copied.CheckRedirect = func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }
	return &copied
}

func newTransport() *http.Transport {
	return &http.Transport{
		Proxy:                  http.ProxyFromEnvironment, // as operators expect of every program
		DialContext:            (&net.Dialer{Timeout: dialTimeout}).DialContext,
		ForceAttemptHTTP2:      true,
		TLSHandshakeTimeout:    dialTimeout,
		MaxIdleConns:           maxConnections,
		MaxIdleConnsPerHost:    maxConnections,
		IdleConnTimeout:        idleTimeout,
		MaxResponseHeaderBytes: maxHeaderBytes,
	}
}

// String shows where the client calls, and no more.
func (c *Client) String() string { return fmt.Sprintf("paysaga client for %s", c.base) }

// CloseIdleConnections closes the connections that no call uses now.
func (c *Client) CloseIdleConnections() { c.http.CloseIdleConnections() }
