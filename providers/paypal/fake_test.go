package paypal

import (
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"
)

// canned is one answer, byte for byte.
type canned struct {
	status int
	header map[string]string
	body   string
}

// seenRequest is what a fake received.
type seenRequest struct {
	Call      string // method and path with query
	RequestID string
	Prefer    string
	Token     string
	Body      string
}

// fake is PayPal as a list of canned answers by call; the last answer of a call is repeated. Tokens are token-1, token-2 and so on.
type fake struct {
	t       *testing.T
	mutex   sync.Mutex
	answers map[string][]canned
	token   []canned // instead of tokens
	tokens  int
	refused string // a token that is not taken any more
	seen    []seenRequest
}

func (f *fake) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	body, err := io.ReadAll(r.Body)
	if err != nil {
		f.t.Error(err)
	}
	f.mutex.Lock()
	defer f.mutex.Unlock()
	if r.URL.Path == "/v1/oauth2/token" {
		f.answerToken(w, r, string(body))
		return
	}
	call := r.Method + " " + r.URL.Path
	f.seen = append(f.seen, seenRequest{
		Call: call, RequestID: r.Header.Get("Paypal-Request-Id"), Prefer: r.Header.Get("Prefer"),
		Token: strings.TrimPrefix(r.Header.Get("Authorization"), "Bearer "), Body: string(body),
	})
	if f.refused != "" && f.refused == f.seen[len(f.seen)-1].Token {
		tokenRefused.write(w)
		return
	}
	left := f.answers[call]
	if len(left) == 0 {
		f.t.Errorf("unexpected call %s", call)
		w.WriteHeader(http.StatusTeapot)
		return
	}
	if len(left) > 1 {
		f.answers[call] = left[1:]
	}
	left[0].write(w)
}

func (c canned) write(w http.ResponseWriter) {
	w.Header().Set("Content-Type", "application/json")
	for name, value := range c.header {
		w.Header().Set(name, value)
	}
	w.WriteHeader(c.status)
	_, _ = io.WriteString(w, c.body)
}

func (f *fake) answerToken(w http.ResponseWriter, r *http.Request, body string) {
	id, secret, ok := r.BasicAuth()
	if !ok || id != "client" || secret != "TOPSECRET" || body != "grant_type=client_credentials" {
		f.t.Errorf("token asked for with %q %q", id, body)
	}
	f.tokens++
	if len(f.token) > 0 {
		f.token[min(f.tokens, len(f.token))-1].write(w)
		return
	}
	canned{status: 200, body: fmt.Sprintf(`{"access_token":"token-%d","token_type":"Bearer","expires_in":32400}`, f.tokens)}.write(w)
}

func (f *fake) calls() []string {
	f.mutex.Lock()
	defer f.mutex.Unlock()
	calls := make([]string, 0, len(f.seen))
	for _, s := range f.seen {
		calls = append(calls, s.Call)
	}
	return calls
}

func (f *fake) last() seenRequest {
	f.mutex.Lock()
	defer f.mutex.Unlock()
	if len(f.seen) == 0 {
		return seenRequest{}
	}
	return f.seen[len(f.seen)-1]
}

// adapterAt is an adapter that talks to a fake over real HTTP.
func adapterAt(t *testing.T, answers map[string][]canned) (*Adapter, *fake) {
	t.Helper()
	f := &fake{t: t, answers: answers}
	server := httptest.NewServer(f)
	t.Cleanup(server.Close)
	return adapterTo(t, server.URL), f
}

func adapterTo(t *testing.T, url string) *Adapter {
	t.Helper()
	// The timeout is far over what loopback needs: a test that runs into it fails by its outcome, not by its time.
	adapter, err := New(Config{ClientID: "client", ClientSecret: "TOPSECRET", BaseURL: url, CallTimeout: 10 * time.Second})
	if err != nil {
		t.Fatal(err)
	}
	return adapter
}
