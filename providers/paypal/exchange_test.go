package paypal

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"golang.org/x/oauth2"
	"pgregory.net/rapid"

	"paysaga/providers"
	"paysaga/providers/wire"
)

// withToken is an adapter that has a token already, so that what happens next happens to the call itself.
func withToken(t *testing.T, url string) *Adapter {
	t.Helper()
	adapter := adapterTo(t, url)
	adapter.client.tokens.kept = &oauth2.Token{AccessToken: "token", TokenType: "Bearer"}
	return adapter
}

func TestHangingUpIsUnknown(t *testing.T) {
	t.Parallel()
	ctx, hangUp := context.WithCancel(t.Context())
	server := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		hangUp()
		_, _ = io.Copy(io.Discard, r.Body)
		<-r.Context().Done()
	}))
	t.Cleanup(server.Close)
	if got := withToken(t, server.URL).Charge(ctx, chargeRequest("v1")); got.Kind != providers.Unknown || got.Code != codeHungUp {
		t.Errorf("%+v", got)
	}
	if got := adapterTo(t, server.URL).Charge(ctx, chargeRequest("v1")); got.Kind != providers.Unknown || got.Code != codeHungUp {
		t.Errorf("before sending: %+v", got)
	}
}

func TestNobodyThereIsBusy(t *testing.T) {
	t.Parallel()
	listener := listen(t)
	address := "http://" + listener.Addr().String()
	if err := listener.Close(); err != nil {
		t.Fatal(err)
	}
	want := providers.Outcome{Kind: providers.Busy, Code: providers.CodeUnreachable}
	if got := withToken(t, address).Charge(t.Context(), chargeRequest("v1")); got != want {
		t.Errorf("charge: %+v", got)
	}
	want.Reference = testOrder
	if got := withToken(t, address).Lookup(t.Context(), lookupRequest(testOrder)); got != want {
		t.Errorf("look-up: %+v", got)
	}
	want = providers.Outcome{Kind: providers.Busy, Code: codeNotAdmitted}
	if got := adapterTo(t, address).Charge(t.Context(), chargeRequest("v1")); got != want {
		t.Errorf("without a token: %+v", got)
	}
}

// TestTimeouts: no connection in time is no connection; no answer in time may be anything.
func TestTimeouts(t *testing.T) {
	t.Parallel()
	dialing := &http.Client{Transport: &http.Transport{DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
		<-ctx.Done()
		return nil, ctx.Err()
	}}}
	silent := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(io.Discard, r.Body)
		<-r.Context().Done()
	}))
	t.Cleanup(silent.Close)
	tests := map[string]struct {
		client *http.Client
		token  bool
		want   providers.Outcome
	}{
		"while dialing":      {dialing, true, providers.Outcome{Kind: providers.Busy, Code: providers.CodeUnreachable}},
		"while answering":    {nil, true, unknown(codeTimeout)},
		"while authorizing":  {nil, false, providers.Outcome{Kind: providers.Busy, Code: codeNotAdmitted}},
		"dialing for tokens": {dialing, false, providers.Outcome{Kind: providers.Busy, Code: codeNotAdmitted}},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			adapter, err := New(Config{ClientID: "client", ClientSecret: "TOPSECRET", BaseURL: silent.URL, HTTPClient: test.client, CallTimeout: 10 * time.Millisecond})
			if err != nil {
				t.Fatal(err)
			}
			if test.token {
				adapter.client.tokens.kept = &oauth2.Token{AccessToken: "token", TokenType: "Bearer"}
			}
			if got := adapter.Charge(t.Context(), chargeRequest("v1")); got != test.want {
				t.Errorf("%+v", got)
			}
		})
	}
}

// TestBrokenConnections: the request was read, then the connection ends in several ways without a whole answer. It is sent once.
func TestBrokenConnections(t *testing.T) {
	t.Parallel()
	tests := map[string]struct {
		answer string
		reset  bool
	}{
		"closed before the answer":  {},
		"reset before the answer":   {reset: true},
		"closed in the status line": {answer: "HTTP/1.1 20"},
		"no HTTP":                   {answer: "hello\r\n\r\n"},
		"closed in the body":        {answer: "HTTP/1.1 200 OK\r\nContent-Length: 500\r\n\r\n{\"id\":\"A\","},
		"reset in the body":         {answer: "HTTP/1.1 200 OK\r\nContent-Length: 500\r\n\r\n{\"id\":\"A\",", reset: true},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			listener := listen(t)
			var sent atomic.Int32
			go func() {
				for serveOnce(listener, func(connection *net.TCPConn) {
					sent.Add(1)
					_, _ = io.WriteString(connection, test.answer)
					if test.reset {
						_ = connection.SetLinger(0) // close sends RST
					}
				}) {
				}
			}()
			got := withToken(t, "http://"+listener.Addr().String()).Charge(t.Context(), chargeRequest("v1"))
			if got.Kind != providers.Unknown || sent.Load() != 1 {
				t.Errorf("%+v after %d sendings", got, sent.Load())
			}
		})
	}
}

func listen(t *testing.T) net.Listener {
	t.Helper()
	listener, err := new(net.ListenConfig).Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = listener.Close() })
	return listener
}

// serveOnce reads one request from one connection, lets then answer, and closes; false once the listener is closed.
func serveOnce(listener net.Listener, then func(*net.TCPConn)) bool {
	accepted, err := listener.Accept()
	if err != nil {
		return false
	}
	defer accepted.Close()
	request, err := http.ReadRequest(bufio.NewReader(accepted))
	if err != nil {
		return true
	}
	connection, ok := accepted.(*net.TCPConn)
	if _, err = io.Copy(io.Discard, request.Body); err == nil && ok {
		then(connection)
	}
	return true
}

func TestNoSecretsInErrors(t *testing.T) {
	t.Parallel()
	tests := map[string]*fake{
		"refused":       {answers: map[string][]canned{"GET " + orderPath: {unprocessable("X")}}},
		"broken":        {answers: map[string][]canned{"GET " + orderPath: ok(`half of {"no one sees this`)}},
		"no token":      {token: []canned{{status: 401, body: `{"error":"TOPSECRET","error_description":"no one sees this"}`}}},
		"broken token":  {token: []canned{{status: 200, body: `{"access_token":"TOPSECRET`}}},
		"token refused": {answers: map[string][]canned{"GET " + orderPath: {tokenRefused}}},
	}
	for name, fake := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			fake.t = t
			server := httptest.NewServer(fake)
			t.Cleanup(server.Close)
			_, err := adapterTo(t, server.URL).client.order(t.Context(), testOrder)
			if err == nil {
				t.Fatal("no error")
			}
			for _, secret := range []string{"TOPSECRET", "token-1", "no one sees", "127.0.0.1"} {
				if shown := err.Error() + fmt.Sprint(errors.Unwrap(err)); strings.Contains(shown, secret) {
					t.Errorf("error shows %q: %s", secret, shown)
				}
			}
		})
	}
}

func TestEndlessAnswerIsUnknown(t *testing.T) {
	t.Parallel()
	adapter, _ := adapterAt(t, map[string][]canned{"POST /v2/checkout/orders": ok(strings.Repeat(" ", wire.MaxBody+1))})
	if got := adapter.Charge(t.Context(), chargeRequest("v1")); got != unknown(codeBodyTooLarge) {
		t.Errorf("%+v", got)
	}
}

// TestGarbageNeverPanicsNorConcludes: a broken answer is never read as an end of a charge.
func TestGarbageNeverPanicsNorConcludes(t *testing.T) {
	t.Parallel()
	var answer atomic.Pointer[canned]
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { answer.Load().write(w) }))
	t.Cleanup(server.Close)
	adapter := withToken(t, server.URL)
	paid := orderJSON("COMPLETED", capturesJSON(captureJSON("CAP1", "COMPLETED", "39.98")))
	bodies := rapid.OneOf(
		rapid.StringN(0, 200, 400),
		rapid.SampledFrom([]string{
			`null`, `[]`, `{}`, `0`, `""`, `"`, `{"error":null}`, `{"name":1}`, `{"name":{}}`, `{"details":[{}]}`, `{"name":"","details":null}`,
			`{"id":1}`, `{"id":"A"}`, `{"id":"A","status":"COMPLETED"}`, `{"id":"A","status":"COMPLETED","purchase_units":null}`,
			`{"id":"A","purchase_units":[null]}`, `{"id":"A","purchase_units":[{},{}]}`, `{"id":"A","purchase_units":[{"payments":[]}]}`,
			`{"id":"A","status":"COMPLETED","purchase_units":[{"payments":{"captures":[{}]}}]}`,
			`{"id":"A","status":"COMPLETED","purchase_units":[{"payments":{"captures":[{"id":"C","status":"COMPLETED"}]}}]}`,
			`{"id":"A","status":"COMPLETED","purchase_units":[{"payments":{"captures":[{"id":"C","status":"COMPLETED","amount":{"currency_code":"EUR","value":"-1.00"}}]}}]}`,
			`{"transaction_details":{}}`, `{"transaction_details":[null],"total_items":1,"total_pages":null}`, `{"total_items":-1,"total_pages":-1}`,
			strings.ReplaceAll(paid, testOrder, "a b"), `{"verification_status":"SUCCESS"}`,
		}),
		rapid.Custom(func(t *rapid.T) string { return paid[:rapid.IntRange(0, len(paid)-1).Draw(t, "cut")] }),
	)
	rapid.Check(t, func(rt *rapid.T) {
		answer.Store(&canned{status: rapid.SampledFrom([]int{200, 201, 400, 404, 409, 422, 429, 500, 503}).Draw(rt, "status"), body: bodies.Draw(rt, "body")})
		outcomes := map[string]providers.Outcome{
			"charge":         adapter.Charge(t.Context(), chargeRequest("v1")),
			"continue":       adapter.Continue(t.Context(), continueRequest()),
			"look-up":        adapter.Lookup(t.Context(), lookupRequest(testOrder)),
			"search":         adapter.Lookup(t.Context(), lookupRequest("")),
			"capture":        adapter.Capture(t.Context(), captureRequest()),
			"void":           adapter.Void(t.Context(), voidRequest()),
			"refund":         adapter.Refund(t.Context(), refundRequest()),
			"refund look-up": adapter.LookupRefund(t.Context(), refundLookup("REF1")),
		}
		for call, outcome := range outcomes {
			if outcome.Kind != providers.Unknown && outcome.Kind != providers.Busy {
				rt.Errorf("%s: %+v", call, outcome)
			}
		}
	})
}
