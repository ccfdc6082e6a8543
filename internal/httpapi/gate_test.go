package httpapi_test

import (
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
