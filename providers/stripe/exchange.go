package stripe

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptrace"
	"sync/atomic"
	"time"
)

// maxBodyBytes bounds an answer's body, which stripe-go reads whole. A payment with its charge is about 10 KiB, a full
// search page about 100 KiB.
const maxBodyBytes = 1 << 20

// maxConnections is a little over the 100 writes a second that Stripe takes from a live account, at about a second each. A
// call that finds no free connection in its time has sent nothing.
const maxConnections = 128

var (
	errBodyTooLarge = errors.New("answer is over 1 MiB")
	errRedirected   = errors.New("answer is a redirect")
)

// exchange is what was seen on the wire of one call. The library's errors do not tell it: a body that is not JSON comes out
// of it as a bare error without status and headers.
type exchange struct {
	sought    atomic.Bool // net/http looked for a connection
	connected atomic.Bool // net/http had a connection at least once, so the request may have left
	status    int         // 0: no answer
	header    http.Header
}

type exchangeKey struct{}

// watch puts the exchange into the call's context, where net/http and our transport find it.
func (e *exchange) watch(ctx context.Context) context.Context {
	ctx = httptrace.WithClientTrace(ctx, &httptrace.ClientTrace{
		GetConn: func(string) { e.sought.Store(true) },
		GotConn: func(httptrace.GotConnInfo) { e.connected.Store(true) },
	})
	return context.WithValue(ctx, exchangeKey{}, e)
}

// nothingSent is true only on positive proof: net/http looked for a connection and never got one. The error alone proves
// nothing: for a call that net/http repeats by itself, the "connection refused" of the second try comes back for a request
// that Stripe may have executed.
func (e *exchange) nothingSent() bool { return e.sought.Load() && !e.connected.Load() }

// callError is how a call failed, with what the wire showed of it.
type callError struct {
	call        string
	cause       error
	nothingSent bool
	status      int
	header      http.Header
}

func (e *exchange) failed(call string, cause error) *callError {
	return &callError{call: call, cause: cause, nothingSent: e.nothingSent(), status: e.status, header: e.header}
}

// Error leaves the cause's text out: stripe-go puts response bodies and client secrets into it, net/http the URL.
func (e *callError) Error() string {
	return fmt.Sprintf("%s at stripe: HTTP status %d", e.call, e.status)
}

// Unwrap gives the cause to errors.Is and errors.As.
func (e *callError) Unwrap() error { return e.cause }

// watched is a copy of the client whose answers are bounded and noted, and to which a redirect is an error: a POST that is
// sent on as a GET, or an API key that goes to another host, is never what we meant.
func watched(base *http.Client) *http.Client {
	copied := *base
	next := copied.Transport
	if next == nil {
		next = newTransport()
	}
	copied.Transport = &watchingTransport{next: next}
	return &copied
}

type watchingTransport struct{ next http.RoundTripper }

// RoundTrip is one call of the library, sent once. net/http would send a POST again by itself when a kept-alive connection
// breaks, as it takes an Idempotency-Key for permission. The saga must know of each send: a refusal of the second one would
// hide that the first may have taken the money. Without GetBody net/http has nothing to send a second time.
func (t *watchingTransport) RoundTrip(request *http.Request) (*http.Response, error) {
	if request.GetBody != nil {
		request = request.Clone(request.Context())
		request.GetBody = nil
	}
	response, err := t.next.RoundTrip(request)
	if err != nil {
		return nil, err //nolint:wrapcheck // a RoundTripper is transparent
	}
	if seen, ok := request.Context().Value(exchangeKey{}).(*exchange); ok {
		seen.status, seen.header = response.StatusCode, response.Header
	}
	if response.StatusCode >= http.StatusMultipleChoices && response.StatusCode < http.StatusBadRequest {
		_ = response.Body.Close() // nothing of it is wanted
		return nil, errRedirected // stripe-go takes every status below 400 for success
	}
	response.Body = &boundedBody{body: response.Body, left: maxBodyBytes}
	return response, nil
}

// CloseIdleConnections passes through, as http.Client looks for it on its transport.
func (t *watchingTransport) CloseIdleConnections() {
	if closer, ok := t.next.(interface{ CloseIdleConnections() }); ok {
		closer.CloseIdleConnections()
	}
}

// boundedBody fails over its limit, where io.LimitReader would pass a cut body off as a whole one.
type boundedBody struct {
	body io.ReadCloser
	left int64
}

// Read gives at most one byte over the limit before it fails, so that a body of exactly the limit still ends with io.EOF.
func (b *boundedBody) Read(into []byte) (int, error) {
	if b.left < 0 {
		return 0, errBodyTooLarge
	}
	if int64(len(into)) > b.left+1 {
		into = into[:b.left+1]
	}
	n, err := b.body.Read(into)
	b.left -= int64(n)
	if b.left < 0 {
		return n, errBodyTooLarge
	}
	return n, err //nolint:wrapcheck // io.EOF must stay itself
}

// Close closes the body.
func (b *boundedBody) Close() error { return b.body.Close() } //nolint:wrapcheck // transparent

// newTransport is the adapter's own pool of connections. HTTP/1.1 only: one connection carries one payment, so that a broken
// one makes one outcome unknown and not those of all payments that share it.
func newTransport() *http.Transport {
	protocols := new(http.Protocols)
	protocols.SetHTTP1(true)
	dialer := &net.Dialer{Timeout: 5 * time.Second} // a quarter of a call's time: the rest is for Stripe and the bank
	return &http.Transport{
		Protocols:              protocols,
		Proxy:                  http.ProxyFromEnvironment, // as operators expect of every program
		DialContext:            dialer.DialContext,
		TLSHandshakeTimeout:    5 * time.Second,
		MaxIdleConns:           maxConnections,
		MaxIdleConnsPerHost:    maxConnections, // all go to one host; net/http's default of 2 would dial anew all the time
		MaxConnsPerHost:        maxConnections,
		IdleConnTimeout:        30 * time.Second, // under the 60 s after which load balancers drop silent connections
		MaxResponseHeaderBytes: 64 << 10,         // Stripe sends about 2 KiB
	}
}
