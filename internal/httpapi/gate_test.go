package httpapi_test

import (
	"bytes"
	"maps"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
)

// gate stands before the sandbox. It counts what is sent to the provider, and can hold the answers to charges back: the money
// is taken then, and the caller waits, for as long as a test needs.
type gate struct {
	server *httptest.Server
	next   http.Handler
	sent   atomic.Int64

	mutex sync.Mutex
	hold  *hold  // nil: open
	path  string // what is held: POSTs to addresses that end so
}

// hold is a time in which calls get no answer.
type hold struct {
	arrived chan struct{} // a value for each call that is held
	opened  chan struct{}
	once    sync.Once
}

func newGate(next http.Handler) *gate {
	g := &gate{next: next}
	g.server = httptest.NewServer(g)
	return g
}

// holdCharges holds all charges through Stripe from now on until release, or the end of the test.
func (s *shop) holdCharges(t *testing.T) *hold {
	t.Helper()
	return s.holdCalls(t, "/stripe/v1/payment_intents")
}

// holdCalls holds all POSTs to the provider whose address ends so.
func (s *shop) holdCalls(t *testing.T, path string) *hold {
	t.Helper()
	const room = 100 // more than any test sends, so that a call never waits to be noticed
	h := &hold{arrived: make(chan struct{}, room), opened: make(chan struct{})}
	s.gate.set(h, path)
	t.Cleanup(h.release)
	return h
}

func (h *hold) release() { h.once.Do(func() { close(h.opened) }) }

// open lets later charges through; those that are held stay held.
func (g *gate) open() { g.set(nil, "") }

func (g *gate) set(h *hold, path string) {
	g.mutex.Lock()
	defer g.mutex.Unlock()
	g.hold, g.path = h, path
}

func (g *gate) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	g.sent.Add(1)
	g.mutex.Lock()
	h, path := g.hold, g.path
	g.mutex.Unlock()
	if h == nil || r.Method != http.MethodPost || !strings.HasSuffix(r.URL.Path, path) {
		g.next.ServeHTTP(w, r)
		return
	}
	answer := httptest.NewRecorder()
	g.next.ServeHTTP(answer, r)
	h.arrived <- struct{}{}
	select {
	case <-h.opened:
	case <-r.Context().Done():
		return
	}
	maps.Copy(w.Header(), answer.Header())
	w.WriteHeader(answer.Code)
	_, _ = w.Write(answer.Body.Bytes())
}

// logBook keeps all that is logged, and the secrets that must not be in it.
type logBook struct {
	mutex   sync.Mutex
	text    bytes.Buffer
	secrets map[string]bool
}

// newLogBook searches the log when the test ends.
func newLogBook(t *testing.T) *logBook {
	t.Helper()
	book := &logBook{secrets: map[string]bool{}}
	t.Cleanup(func() {
		if found := book.leaks(); len(found) > 0 {
			t.Errorf("secrets in the log: %q", found)
		}
	})
	return book
}

func (b *logBook) Write(line []byte) (int, error) {
	b.mutex.Lock()
	defer b.mutex.Unlock()
	return b.text.Write(line)
}

// secret names something that must never be logged. What is shorter than eight bytes could be there by chance.
func (b *logBook) secret(text string) {
	const shortest = 8
	b.mutex.Lock()
	defer b.mutex.Unlock()
	if len(text) >= shortest {
		b.secrets[text] = true
	}
}

func (b *logBook) leaks() []string {
	b.mutex.Lock()
	defer b.mutex.Unlock()
	var found []string
	for secret := range b.secrets {
		if bytes.Contains(b.text.Bytes(), []byte(secret)) {
			found = append(found, secret)
		}
	}
	return found
}

func (b *logBook) contains(text string) bool {
	b.mutex.Lock()
	defer b.mutex.Unlock()
	return bytes.Contains(b.text.Bytes(), []byte(text))
}
