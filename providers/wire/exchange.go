package wire

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/http/httptrace"
	"strconv"
	"sync/atomic"
	"time"
)

// maxRetryAfter bounds what an answer can make us wait: longer than this is a defect on the other side, not advice.
const maxRetryAfter = 10 * time.Minute

// Exchange is what was seen on the wire of one call. A provider's library does not tell it: a body that is not JSON comes out of
// one as a bare error without status and headers. Status and Header are to be read after the call.
type Exchange struct {
	Status int // 0: no answer
	Header http.Header

	sought    atomic.Bool // net/http looked for a connection
	connected atomic.Bool // net/http had a connection at least once, so the request may have left
}

type exchangeKey struct{}

// Watch starts watching one call: a Client fills the Exchange in if the call is made with the context.
func Watch(ctx context.Context) (context.Context, *Exchange) {
	seen := &Exchange{}
	ctx = httptrace.WithClientTrace(ctx, &httptrace.ClientTrace{
		GetConn: func(string) { seen.sought.Store(true) },
		GotConn: func(httptrace.GotConnInfo) { seen.connected.Store(true) },
	})
	return context.WithValue(ctx, exchangeKey{}, seen), seen
}

// NothingSent is true only on positive proof: net/http looked for a connection and never got one. The error alone proves nothing:
// where net/http dials a second time by itself, that one's "connection refused" comes back for a request that the provider may
// have executed.
func (e *Exchange) NothingSent() bool { return e.sought.Load() && !e.connected.Load() }

// Failed is the failure of the watched call.
func (e *Exchange) Failed(call string, cause error) *CallError {
	return &CallError{Call: call, Cause: cause, NothingSent: e.NothingSent(), Status: e.Status, Header: e.Header}
}

// CallError is how a call failed, with what the wire showed of it.
type CallError struct {
	Call        string // which one, for people
	Cause       error
	NothingSent bool // proven: the provider cannot have seen the call
	Status      int  // 0: no answer
	Header      http.Header
}

// Error leaves the cause's text out: net/http puts the URL into it, libraries put whole bodies.
func (e *CallError) Error() string { return fmt.Sprintf("%s: HTTP status %d", e.Call, e.Status) }

// Unwrap gives the cause to errors.Is and errors.As.
func (e *CallError) Unwrap() error { return e.Cause }

// TimedOut tells that time ran out: the call's own, or a bound of the connection.
func (e *CallError) TimedOut() bool {
	network, ok := errors.AsType[net.Error](e.Cause)
	return errors.Is(e.Cause, context.DeadlineExceeded) || ok && network.Timeout()
}

// RetryAfter is what the answer asks to wait, at most ten minutes; 0 when it asks nothing. Of the header's two forms only seconds
// are read: no provider sends a date.
func (e *CallError) RetryAfter() time.Duration {
	seconds, err := strconv.ParseInt(e.Header.Get("Retry-After"), 10, 64)
	if err != nil || seconds < 0 {
		return 0
	}
	return time.Duration(min(seconds, int64(maxRetryAfter/time.Second))) * time.Second
}
