package wire

import (
	"errors"
	"io"
	"net"
	"net/http"
	"time"
)

// MaxBody bounds the body of an API's answer, in bytes. The longest are an action for a client library (Adyen, 300 KiB) and a full
// page of a search (PayPal, 500 transactions of one kilobyte each).
const MaxBody = 1 << 20

// maxConnections is a little over the hundred calls a second that providers take from one account, at about a second each. A call
// that finds no free connection in its time has sent nothing.
const maxConnections = 128

// Bounds of one call's way. A quarter of a call's time to connect: the rest is for the provider and the bank.
const (
	dialTimeout    = 5 * time.Second
	idleTimeout    = 30 * time.Second // under the 60 s after which load balancers drop silent connections
	maxHeaderBytes = 64 << 10         // providers send about 2 KiB
)

var (
	// ErrBodyTooLarge is wrapped by the error of reading a body over its limit.
	ErrBodyTooLarge = errors.New("answer is over its limit")
	// ErrRedirected is wrapped by the error of a call that was answered with a redirect.
	ErrRedirected = errors.New("answer is a redirect")
)

// Client is a copy of base that sends each call once, fails on bodies over maxBody bytes, takes a redirect for an error, and fills
// in the call's Exchange. A base without a transport gets one of its own; a given one is kept below.
//
// A redirect is never what we meant: a POST would be sent on as a GET, or an API key would go to another host.
func Client(base *http.Client, maxBody int64) *http.Client {
	copied := *base
	next := copied.Transport
	if next == nil {
		next = NewTransport()
	}
	copied.Transport = &transport{next: next, maxBody: maxBody}
	return &copied
}

type transport struct {
	next    http.RoundTripper
	maxBody int64
}

// RoundTrip is one call.
func (t *transport) RoundTrip(request *http.Request) (*http.Response, error) {
	response, err := t.next.RoundTrip(once(request))
	if err != nil {
		return nil, err //nolint:wrapcheck // a RoundTripper is transparent
	}
	if seen, ok := request.Context().Value(exchangeKey{}).(*Exchange); ok {
		seen.Status, seen.Header = response.StatusCode, response.Header
	}
	if response.StatusCode >= http.StatusMultipleChoices && response.StatusCode < http.StatusBadRequest {
		_ = response.Body.Close() // nothing of it is wanted
		return nil, ErrRedirected
	}
	response.Body = &boundedBody{body: response.Body, left: t.maxBody}
	return response, nil
}

// CloseIdleConnections passes through, as http.Client looks for it on its transport.
func (t *transport) CloseIdleConnections() {
	if closer, ok := t.next.(interface{ CloseIdleConnections() }); ok {
		closer.CloseIdleConnections()
	}
}

// once is a call as net/http cannot send it twice. It would send a POST again by itself when a kept-alive connection breaks, as it
// takes an Idempotency-Key for permission. The saga must know of each send: a refusal of the second one would hide that the first
// may have taken the money.
//
// Without GetBody net/http has no body to send a second time. A call that has none could always be sent again, so a keyed one gets
// an empty body of which net/http does not know that it is empty. A GET asks only, and may be repeated.
func once(request *http.Request) *http.Request {
	if request.Method == http.MethodGet || request.Method == http.MethodHead {
		return request
	}
	request = request.Clone(request.Context())
	request.GetBody = nil
	if request.Header.Get("Idempotency-Key") != "" && (request.Body == nil || request.Body == http.NoBody) {
		request.Body = emptyBody{}
	}
	return request
}

type emptyBody struct{}

// Read ends at once.
func (emptyBody) Read([]byte) (int, error) { return 0, io.EOF }

// Close does nothing.
func (emptyBody) Close() error { return nil }

// boundedBody fails over its limit, where io.LimitReader would pass a cut body off as a whole one.
type boundedBody struct {
	body io.ReadCloser
	left int64
}

// Read gives at most one byte over the limit before it fails, so that a body of exactly the limit still ends with io.EOF.
func (b *boundedBody) Read(into []byte) (int, error) {
	if b.left < 0 {
		return 0, ErrBodyTooLarge
	}
	if int64(len(into)) > b.left+1 {
		into = into[:b.left+1]
	}
	n, err := b.body.Read(into)
	b.left -= int64(n)
	if b.left < 0 {
		return n, ErrBodyTooLarge
	}
	return n, err //nolint:wrapcheck // io.EOF must stay itself
}

// Close closes the body.
func (b *boundedBody) Close() error { return b.body.Close() } //nolint:wrapcheck // transparent

// NewTransport is a pool of connections to one provider, as Client makes one where there is none. HTTP/1.1 only: one connection
// carries one payment, so that a broken one makes one outcome unknown and not those of all payments that share it.
func NewTransport() *http.Transport {
	protocols := new(http.Protocols)
	protocols.SetHTTP1(true)
	dialer := &net.Dialer{Timeout: dialTimeout}
	return &http.Transport{
		Protocols:              protocols,
		Proxy:                  http.ProxyFromEnvironment, // as operators expect of every program
		DialContext:            dialer.DialContext,
		TLSHandshakeTimeout:    dialTimeout,
		MaxIdleConns:           maxConnections,
		MaxIdleConnsPerHost:    maxConnections, // all go to one host; net/http's default of 2 would dial anew all the time
		MaxConnsPerHost:        maxConnections,
		IdleConnTimeout:        idleTimeout,
		MaxResponseHeaderBytes: maxHeaderBytes,
	}
}
