package adyen

import (
	"bufio"
	"context"
	"io"
	"net"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"paysaga/providers"
)

func TestHangingUpIsUnknown(t *testing.T) {
	t.Parallel()
	ctx, hangUp := context.WithCancel(t.Context())
	adapter := adapterAt(t, http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(io.Discard, r.Body)
		hangUp()
		<-r.Context().Done()
	}))
	if got := adapter.Charge(ctx, chargeRequest()); got.Kind != providers.Unknown || got.Code != codeHungUp {
		t.Errorf("%+v", got)
	}
	if got := adapter.Charge(ctx, chargeRequest()); got.Kind != providers.Unknown || got.Code != codeHungUp {
		t.Errorf("before sending: %+v", got)
	}
}

func TestNobodyThereIsBusy(t *testing.T) {
	t.Parallel()
	listener := listen(t)
	address := listener.Addr().String()
	if err := listener.Close(); err != nil {
		t.Fatal(err)
	}
	got := adapterTo(t, "http://"+address).Charge(t.Context(), chargeRequest())
	if difference := cmp.Diff(providers.Outcome{Kind: providers.Busy, Code: providers.CodeUnreachable}, got); difference != "" {
		t.Error(difference)
	}
}

// TestTimeoutAfterSendingIsUnknown: the server read the call and never answers.
func TestTimeoutAfterSendingIsUnknown(t *testing.T) {
	t.Parallel()
	listener := listen(t)
	done := make(chan struct{})
	t.Cleanup(func() { close(done) })
	go serveOnce(listener, func(*net.TCPConn) { <-done })
	adapter, err := New(Config{
		APIKey: testAPIKey, MerchantAccount: testMerchant, BaseURL: "http://" + listener.Addr().String() + "/v71", CallTimeout: time.Second,
	})
	if err != nil {
		t.Fatal(err)
	}
	if difference := cmp.Diff(unknown("timeout"), adapter.Charge(t.Context(), chargeRequest())); difference != "" {
		t.Error(difference)
	}
}

// TestBrokenConnections: the request was read, then the connection ends in several ways without a whole answer.
func TestBrokenConnections(t *testing.T) {
	t.Parallel()
	tests := map[string]struct {
		answer string
		reset  bool
	}{
		"closed before the answer":             {},
		"reset before the answer":              {reset: true},
		"closed in the status line":            {answer: "HTTP/1.1 20"},
		"no HTTP":                              {answer: "hello\r\n\r\n"},
		"closed in the body":                   {answer: "HTTP/1.1 200 OK\r\nContent-Length: 500\r\n\r\n{\"resultCode\":\"Authorised\","},
		"whole JSON, closed before the length": {answer: "HTTP/1.1 200 OK\r\nContent-Length: 500\r\n\r\n" + authorised},
		"reset in the body":                    {answer: "HTTP/1.1 200 OK\r\nContent-Length: 500\r\n\r\n{\"resultCode\":\"Authorised\",", reset: true},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			listener := listen(t)
			go serveOnce(listener, func(connection *net.TCPConn) {
				_, _ = io.WriteString(connection, test.answer)
				if test.reset {
					_ = connection.SetLinger(0) // close sends RST
				}
			})
			if got := adapterTo(t, "http://"+listener.Addr().String()).Charge(t.Context(), chargeRequest()); got.Kind != providers.Unknown {
				t.Errorf("%+v", got)
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

// serveOnce reads one request from one connection, lets then answer, and closes.
func serveOnce(listener net.Listener, then func(*net.TCPConn)) {
	accepted, err := listener.Accept()
	if err != nil {
		return
	}
	defer accepted.Close()
	connection, ok := accepted.(*net.TCPConn)
	if !ok {
		return
	}
	if err := readRequest(bufio.NewReader(connection)); err == nil {
		then(connection)
	}
}

func readRequest(reader *bufio.Reader) error {
	request, err := http.ReadRequest(reader)
	if err != nil {
		return err
	}
	_, err = io.Copy(io.Discard, request.Body)
	return err
}

func TestNoSecretsInErrors(t *testing.T) {
	t.Parallel()
	for _, answer := range []canned{
		refusedWith(422, "101", "validation"),
		{status: 200, body: `half of {"paymentData":"secret"`},
		{status: 500, body: "secret"},
		{status: 200, body: `{"resultCode":{"secret":1}}`},
	} {
		adapter := adapterAt(t, answer)
		payment, err := adapter.paymentOf(chargeRequest())
		if err != nil {
			t.Fatal(err)
		}
		if _, err = adapter.client.createPayment(t.Context(), testKey, payment); err == nil {
			t.Fatal("no error")
		}
		for _, secret := range []string{"TOPSECRET", "secret", "no one sees", "127.0.0.1", "stored_"} {
			if strings.Contains(err.Error(), secret) {
				t.Errorf("error shows %q: %s", secret, err)
			}
		}
	}
}

// TestGarbageNeverPanicsNorConcludes: a broken answer is never read as an end of a charge.
func TestGarbageNeverPanicsNorConcludes(t *testing.T) {
	t.Parallel()
	var answer atomic.Pointer[canned]
	adapter := adapterAt(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { answer.Load().ServeHTTP(w, r) }))
	bodies := rapid.OneOf(
		rapid.StringN(0, 200, 400),
		rapid.SampledFrom([]string{
			`null`, `[]`, `{}`, `0`, `""`, `"`, `{"resultCode":null}`, `{"resultCode":1}`, `{"resultCode":["Authorised"]}`,
			`{"resultCode":"Authorised"}`, `{"resultCode":"Authorised","pspReference":""}`, `{"resultCode":"Authorised","pspReference":1}`,
			`{"pspReference":"A1","resultCode":"Authorised","amount":"39.98"}`, `{"pspReference":"A1","resultCode":"Authorised","amount":{}}`,
			`{"pspReference":"A1","resultCode":"Authorised","amount":{"currency":"EUR","value":1e400}}`,
			`{"pspReference":"A1","resultCode":"Authorised","amount":{"currency":"EUR","value":-1}}`,
			`{"pspReference":"A1","resultCode":"Authorised","amount":{"currency":"EUR","value":39.98}}`,
			`{"pspReference":"A1","resultCode":"Authorised","additionalData":[]}`, `{"pspReference":"A1","resultCode":"PartiallyAuthorised","additionalData":null}`,
			`{"pspReference":"A1","resultCode":"RedirectShopper","action":[]}`, `{"pspReference":"A1","resultCode":"Error","refusalReason":{}}`,
			`{"errorCode":null}`, `{"errorCode":{}}`, `{"errorCode":""}`, `{"status":"received"}`, `{"pspReference":"A1","status":"received"}`,
			`{"pspReference":"A1","paymentPspReference":"QFQTPCQ8HXSKGK82","status":["received"]}`,
		}),
		rapid.Custom(func(t *rapid.T) string {
			return authorised[:rapid.IntRange(0, len(authorised)-1).Draw(t, "cut")]
		}),
		rapid.Custom(func(t *rapid.T) string {
			return modification[:rapid.IntRange(0, len(modification)-1).Draw(t, "cut")]
		}),
	)
	rapid.Check(t, func(rt *rapid.T) {
		status := rapid.SampledFrom([]int{200, 201, 204, 400, 401, 404, 409, 422, 429, 500, 503}).Draw(rt, "status")
		answer.Store(&canned{status: status, body: bodies.Draw(rt, "body")})
		for call, outcome := range map[string]providers.Outcome{
			"charge":   adapter.Charge(t.Context(), chargeRequest()),
			"continue": adapter.Continue(t.Context(), continueRequest()),
			"capture":  adapter.Capture(t.Context(), captureRequest()),
			"void":     adapter.Void(t.Context(), voidRequest()),
			"refund":   adapter.Refund(t.Context(), refundRequest()),
		} {
			if outcome.Kind != providers.Unknown || outcome.Code == "" {
				rt.Errorf("%s: %+v", call, outcome)
			}
		}
	})
}
