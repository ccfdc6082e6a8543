package stripe

import (
	"bufio"
	"context"
	"io"
	"net"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"

	"pgregory.net/rapid"

	"paysaga/providers"
)

func TestHangingUpIsUnknown(t *testing.T) {
	t.Parallel()
	ctx, hangUp := context.WithCancel(t.Context())
	adapter := adapterAt(t, http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		hangUp()
		_, _ = io.Copy(io.Discard, r.Body)
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
	adapter := adapterTo(t, "http://"+address)
	want := providers.Outcome{Kind: providers.Busy, Code: providers.CodeUnreachable}
	if got := adapter.Charge(t.Context(), chargeRequest()); got != want {
		t.Errorf("charge: %+v", got)
	}
	want.Reference = "pi_1"
	if got := adapter.Lookup(t.Context(), providers.LookupRequest{Key: testKey, Reference: "pi_1"}); got != want {
		t.Errorf("look-up: %+v", got)
	}
}

// TestBrokenConnections: the request was read, then the connection ends in several ways without a whole answer.
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
		"closed in the body":        {answer: "HTTP/1.1 200 OK\r\nContent-Length: 500\r\n\r\n{\"id\":\"pi_1\","},
		"reset in the body":         {answer: "HTTP/1.1 200 OK\r\nContent-Length: 500\r\n\r\n{\"id\":\"pi_1\",", reset: true},
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
	bodies := []string{
		stripeError("card_error", "card_declined", paymentDeclined),
		`half of {"client_secret":"pi_1_secret_x"`,
	}
	for _, body := range bodies {
		adapter := adapterAt(t, canned{status: 402, body: body})
		_, err := adapter.client.createPayment(t.Context(), chargeRequest(), 3998)
		if err == nil {
			t.Fatal("no error")
		}
		for _, secret := range []string{"TOPSECRET", "secret_x", "no one sees", "127.0.0.1"} {
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
			`null`, `[]`, `{}`, `0`, `""`, `"`, `"pi_1"`, `{"error":null}`, `{"error":"x"}`, `{"error":{}}`, `{"error":[]}`,
			`{"id":1}`, `{"id":"pi_1"}`, `{"id":"pi_1","status":"succeeded"}`, `{"id":"pi_1","amount":"x","status":"succeeded"}`,
			`{"object":"search_result","data":[null]}`, `{"object":"search_result","data":[1]}`, `{"object":"search_result","data":{}}`,
			`{"error":{"type":"card_error","payment_intent":"pi_1"}}`, `{"error":{"type":"card_error","payment_intent":{}}}`,
			`{"id":"pi_1","amount":1e400,"currency":"eur","status":"succeeded"}`, `{"id":"pi_1","latest_charge":"ch_1","status":"canceled"}`,
			`{"object":"payment_intent","id":"pi_1","status":"succeeded"}`, `{"object":"payment_intent","status":"succeeded","currency":"eur"}`,
			`{"object":"payment_intent","id":"pi 1","status":"succeeded","currency":"eur"}`, `{"object":"refund","id":"re_1","status":"succeeded"}`,
			`{"object":"payment_intent","id":"pi_1","amount":-1,"status":"canceled","currency":"eur"}`,
			`{"object":"payment_intent","id":"pi_1","metadata":[],"status":"succeeded","currency":"eur"}`,
			`{"object":"payment_intent","id":"pi_2","amount":1,"status":"requires_action","currency":"eur"}`,
			`{"id":"pi_1","next_action":{},"status":"requires_action","currency":"eur"}`,
		}),
		rapid.Custom(func(t *rapid.T) string {
			return paymentSucceeded[:rapid.IntRange(0, len(paymentSucceeded)-1).Draw(t, "cut")]
		}),
	)
	rapid.Check(t, func(rt *rapid.T) {
		answer.Store(&canned{status: rapid.SampledFrom([]int{200, 201, 400, 404, 409, 429, 500, 503}).Draw(rt, "status"), body: bodies.Draw(rt, "body")})
		outcomes := map[string]providers.Outcome{
			"charge":  adapter.Charge(t.Context(), chargeRequest()),
			"look-up": adapter.Lookup(t.Context(), providers.LookupRequest{Key: testKey, Reference: "pi_1"}),
			"void":    adapter.Void(t.Context(), voidRequest()),
			"refund":  adapter.Refund(t.Context(), refundRequest()),
		}
		for call, outcome := range outcomes {
			switch outcome.Kind {
			case providers.Unknown, providers.Busy:
			case providers.Declined, providers.Rejected: // only by an error in Stripe's words
				if !strings.Contains(answer.Load().body, `"type":"card_error"`) {
					rt.Errorf("%s: %+v", call, outcome)
				}
			default:
				rt.Errorf("%s: %+v", call, outcome)
			}
		}
		search := adapter.Lookup(t.Context(), providers.LookupRequest{Key: testKey, SagaKey: testSagaKey})
		if search.Kind != providers.Unknown && search.Kind != providers.Busy {
			rt.Errorf("search: %+v", search)
		}
	})
}
