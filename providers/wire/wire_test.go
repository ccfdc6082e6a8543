package wire_test

import (
	"bytes"
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"paysaga/providers/wire"
)

// newRequest is a call with an Idempotency-Key.
func newRequest(ctx context.Context, t *testing.T, method, url string, body io.Reader) *http.Request {
	t.Helper()
	request, err := http.NewRequestWithContext(ctx, method, url, body)
	if err != nil {
		t.Fatal(err)
	}
	request.Header.Set("Idempotency-Key", "key")
	return request
}

// do makes a call and reads its answer whole.
func do(client *http.Client, request *http.Request) ([]byte, error) {
	response, err := client.Do(request)
	if err != nil {
		return nil, err
	}
	defer response.Body.Close()
	return io.ReadAll(response.Body)
}

// breaking answers GETs, reads POSTs, and breaks their connection without an answer.
type breaking struct {
	posts atomic.Int32
	reset bool
}

func (b *breaking) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	_, _ = io.Copy(io.Discard, r.Body)
	if r.Method != http.MethodPost {
		return
	}
	b.posts.Add(1)
	if b.reset {
		connection, _, err := http.NewResponseController(w).Hijack()
		if err != nil {
			panic(err)
		}
		if tcp, ok := connection.(*net.TCPConn); ok {
			_ = tcp.SetLinger(0) // close sends RST
		}
		_ = connection.Close()
	}
	panic(http.ErrAbortHandler)
}

// TestEachCallIsSentOnce: net/http sends a keyed call again by itself when a kept-alive connection breaks.
func TestEachCallIsSentOnce(t *testing.T) {
	t.Parallel()
	bodies := map[string]func() io.Reader{
		"with a body":    func() io.Reader { return strings.NewReader("body") },
		"without a body": func() io.Reader { return nil },
		"with no body":   func() io.Reader { return http.NoBody },
	}
	for name, body := range bodies {
		for how, reset := range map[string]bool{"closed": false, "reset": true} {
			t.Run(name+", "+how, func(t *testing.T) {
				t.Parallel()
				broken := &breaking{reset: reset}
				server := httptest.NewServer(broken)
				t.Cleanup(server.Close)
				client := wire.Client(&http.Client{}, wire.MaxBody)
				if _, err := do(client, newRequest(t.Context(), t, http.MethodGet, server.URL, nil)); err != nil {
					t.Fatal(err) // it leaves a connection behind
				}
				ctx, seen := wire.Watch(t.Context())
				if _, err := do(client, newRequest(ctx, t, http.MethodPost, server.URL, body())); err == nil {
					t.Error("no error")
				}
				if broken.posts.Load() != 1 || seen.NothingSent() || seen.Status != 0 {
					t.Errorf("sent %d times, nothing sent: %t, status %d", broken.posts.Load(), seen.NothingSent(), seen.Status)
				}
			})
		}
	}
}

// TestNetHTTPSendsTwice holds the reason for all this: if it fails, net/http no longer does so.
func TestNetHTTPSendsTwice(t *testing.T) {
	t.Parallel()
	broken := &breaking{}
	server := httptest.NewServer(broken)
	t.Cleanup(server.Close)
	client := &http.Client{Transport: &http.Transport{}}
	if _, err := do(client, newRequest(t.Context(), t, http.MethodGet, server.URL, nil)); err != nil {
		t.Fatal(err)
	}
	if _, err := do(client, newRequest(t.Context(), t, http.MethodPost, server.URL, strings.NewReader("body"))); err == nil {
		t.Error("no error")
	}
	if broken.posts.Load() != 2 {
		t.Errorf("sent %d times", broken.posts.Load())
	}
}

func TestNothingSent(t *testing.T) {
	t.Parallel()
	server := httptest.NewServer(http.NotFoundHandler())
	t.Cleanup(server.Close)
	closed := httptest.NewServer(http.NotFoundHandler())
	closed.Close()
	hanging := &http.Transport{DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
		<-ctx.Done()
		return nil, ctx.Err()
	}}
	tests := map[string]struct {
		url       string
		transport http.RoundTripper
		want      bool
		timedOut  bool
	}{
		"answered":                   {server.URL, nil, false, false},
		"nobody there":               {closed.URL, nil, true, false},
		"no connection in time":      {server.URL, hanging, true, true},
		"a transport without traces": {server.URL, refusing{}, false, false},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
			if test.timedOut {
				ctx, cancel = context.WithTimeout(t.Context(), 10*time.Millisecond)
			}
			defer cancel()
			ctx, seen := wire.Watch(ctx)
			client := wire.Client(&http.Client{Transport: test.transport}, wire.MaxBody)
			_, err := do(client, newRequest(ctx, t, http.MethodPost, test.url, strings.NewReader("body")))
			failure := seen.Failed("test", err)
			if failure.NothingSent != test.want || failure.TimedOut() != test.timedOut {
				t.Errorf("%t, timed out: %t; %v", failure.NothingSent, failure.TimedOut(), err)
			}
		})
	}
}

type refusing struct{}

func (refusing) RoundTrip(*http.Request) (*http.Response, error) {
	return nil, &net.OpError{Op: "dial", Net: "tcp", Err: syscall.ECONNREFUSED}
}

// TestRefusedRedialProvesNothing: a kept-alive connection breaks after a question was read. net/http dials again by itself, and
// the second dial is refused: "never connected" is what the error says, and not what happened.
func TestRefusedRedialProvesNothing(t *testing.T) {
	t.Parallel()
	var calls atomic.Int32
	server := httptest.NewUnstartedServer(nil)
	server.Config.Handler = http.HandlerFunc(func(http.ResponseWriter, *http.Request) {
		if calls.Add(1) == 2 {
			_ = server.Listener.Close()
			panic(http.ErrAbortHandler)
		}
	})
	server.Start()
	t.Cleanup(server.Close)
	client := wire.Client(&http.Client{}, wire.MaxBody)
	if _, err := do(client, newRequest(t.Context(), t, http.MethodGet, server.URL, nil)); err != nil {
		t.Fatal(err)
	}
	ctx, seen := wire.Watch(t.Context())
	_, err := do(client, newRequest(ctx, t, http.MethodGet, server.URL, nil))
	if !errors.Is(err, syscall.ECONNREFUSED) || seen.NothingSent() || calls.Load() != 2 {
		t.Errorf("%v, nothing sent: %t, %d calls", err, seen.NothingSent(), calls.Load())
	}
}

func TestAnswersAreSeenAndBounded(t *testing.T) {
	t.Parallel()
	tests := map[string]struct {
		status int
		size   int
		want   error
	}{
		"empty":                          {200, 0, nil},
		"at the limit":                   {422, 100, nil},
		"over it":                        {500, 101, wire.ErrBodyTooLarge},
		"far over it":                    {200, 100_000, wire.ErrBodyTooLarge},
		"redirect":                       {302, 10, wire.ErrRedirected},
		"redirect that keeps the method": {307, 10, wire.ErrRedirected},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				if r.URL.Path != "/" {
					t.Error("the redirect was followed")
				}
				if r.ProtoMajor != 1 {
					t.Errorf("protocol %s", r.Proto)
				}
				w.Header().Set("Location", "/elsewhere")
				w.WriteHeader(test.status)
				_, _ = w.Write(bytes.Repeat([]byte("a"), test.size))
			}))
			t.Cleanup(server.Close)
			ctx, seen := wire.Watch(t.Context())
			body, err := do(wire.Client(&http.Client{}, 100), newRequest(ctx, t, http.MethodPost, server.URL+"/", strings.NewReader("body")))
			if !errors.Is(err, test.want) || test.want == nil && len(body) != test.size {
				t.Errorf("read %d, %v", len(body), err)
			}
			if seen.Status != test.status || seen.Header.Get("Location") != "/elsewhere" {
				t.Errorf("seen %d %v", seen.Status, seen.Header)
			}
		})
	}
}

// TestBaseIsLeftAsItWas: settings of a given client stay, and it is not changed.
func TestBaseIsLeftAsItWas(t *testing.T) {
	t.Parallel()
	base := &http.Client{Timeout: time.Minute}
	if made := wire.Client(base, 1); made.Timeout != time.Minute || base.Transport != nil || made.Transport == nil {
		t.Errorf("made %+v of %+v", made, base)
	}
}

func TestRetryAfter(t *testing.T) {
	t.Parallel()
	for value, want := range map[string]time.Duration{
		"": 0, "0": 0, "4": 4 * time.Second, "600": 10 * time.Minute, "601": 10 * time.Minute, "9223372036854775807": 10 * time.Minute,
		"-1": 0, "soon": 0, "1.5": 0, "99999999999999999999": 0, "Sun, 29 Nov 2026 21:00:00 GMT": 0,
	} {
		failure := &wire.CallError{Header: http.Header{"Retry-After": {value}}}
		if got := failure.RetryAfter(); got != want {
			t.Errorf("%q: %s, want %s", value, got, want)
		}
	}
	if got := (&wire.CallError{}).RetryAfter(); got != 0 {
		t.Errorf("no answer: %s", got)
	}
}

func TestCallErrorHidesItsCause(t *testing.T) {
	t.Parallel()
	cause := errors.New("client_secret TOPSECRET")
	failure := (&wire.Exchange{Status: 402}).Failed("create payment", cause)
	if failure.Error() != "create payment: HTTP status 402" || !errors.Is(failure, cause) {
		t.Errorf("%s", failure)
	}
}
