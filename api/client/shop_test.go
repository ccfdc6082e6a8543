package client

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/uuid"

	"paysaga/api"
)

// network connects clients and a server within the process, so that a synctest bubble knows when all of them wait. It closes
// connections, as real ones do; package net's are tested beside it.
type network struct {
	dialed chan net.Conn
	closed chan struct{}
	once   sync.Once
}

func newNetwork() *network { return &network{dialed: make(chan net.Conn), closed: make(chan struct{})} }

func (n *network) dial(ctx context.Context, _, _ string) (net.Conn, error) {
	near, far := net.Pipe()
	select {
	case n.dialed <- far:
		return near, nil
	case <-n.closed:
		return nil, net.ErrClosed
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

func (n *network) Accept() (net.Conn, error) {
	select {
	case c := <-n.dialed:
		return c, nil
	case <-n.closed:
		return nil, net.ErrClosed
	}
}

func (n *network) Close() error { n.once.Do(func() { close(n.closed) }); return nil }

func (*network) Addr() net.Addr { return &net.UnixAddr{Name: "memory"} }

const testAPIKey = "paysaga_api-key-of-the-tests"

// open starts a server for a handler, and gives a client for it. Close ends both.
func open(t *testing.T, handler http.Handler, change func(*Config)) (c *Client, closeAll func()) {
	t.Helper()
	n := newNetwork()
	server := &http.Server{Handler: handler, ReadHeaderTimeout: time.Hour}
	ended := make(chan struct{})
	go func() { defer close(ended); _ = server.Serve(n) }()
	transport := &http.Transport{DialContext: n.dial}
	config := Config{BaseURL: "http://127.0.0.1", APIKey: testAPIKey, HTTPClient: &http.Client{Transport: transport}}
	if change != nil {
		change(&config)
	}
	c, err := New(config)
	if err != nil {
		t.Fatal(err)
	}
	return c, func() {
		c.CloseIdleConnections()
		_ = server.Close()
		<-ended
	}
}

// mishap is what becomes of one request: whether the work is done, and how its answer is lost or refused.
type mishap struct {
	Works      bool
	Hangs      bool   // no answer, and the connection stays
	Cut        int    // how many bytes of the answer are sent before the connection closes; for a Status of 0
	Unmeasured bool   // the answer has no Content-Length: its end is that of the connection
	Status     int    // an answer in place of the right one
	Problem    string // the answer's problem; "": none of paysaga's
	RetryAfter string
}

// shop does each key's work once and keeps its answer, as the server does. Requests meet the mishaps in turn; the rest is answered.
type shop struct {
	mutex    sync.Mutex
	mishaps  []mishap
	refuses  string // the problem with which the work ends; "": it succeeds
	effects  map[string]int
	answers  map[string][]byte
	requests []seen
}

// seen is one request.
type seen struct {
	at                time.Time
	method, path, key string
	query, body       string
	header            http.Header
}

// count is how many requests came. A client that gave up may be ahead of the server.
func (s *shop) count() int {
	synctest.Wait()
	s.mutex.Lock()
	defer s.mutex.Unlock()
	return len(s.requests)
}

func newShop(mishaps ...mishap) *shop {
	return &shop{mishaps: mishaps, effects: map[string]int{}, answers: map[string][]byte{}}
}

func (s *shop) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	body, err := io.ReadAll(r.Body)
	if err != nil {
		return
	}
	s.mutex.Lock()
	key := r.Header.Get("Idempotency-Key")
	s.requests = append(s.requests, seen{time.Now(), r.Method, r.URL.Path, key, r.URL.RawQuery, string(body), r.Header.Clone()})
	var now *mishap
	if len(s.mishaps) > 0 {
		now, s.mishaps = &s.mishaps[0], s.mishaps[1:]
	}
	_, replayed := s.answers[key]
	if now == nil || now.Works {
		s.work(key, r.Method)
	}
	answer := s.answers[key]
	s.mutex.Unlock()
	switch {
	case now == nil:
		write(w, answer, replayed)
	case now.Hangs:
		<-r.Context().Done()
	case now.Status != 0:
		now.refuse(w)
	default:
		whole := raw(answer, replayed, now.Unmeasured)
		cut(w, whole[:min(now.Cut, len(whole)-1)]) // never the whole
	}
}

// work has one effect for a key, which the answer tells from any other.
func (s *shop) work(key, method string) {
	if s.answers[key] != nil && method != http.MethodGet {
		return
	}
	s.effects[key]++
	id := uuid.NewSHA1(uuid.Nil, fmt.Append(nil, key, s.effects[key]))
	answer, err := json.Marshal(struct {
		api.Order

		Key uuid.UUID `json:"key"` // by which it is a saga, too
	}{api.Order{ID: id, Status: api.OrderStatusConfirmed, Items: []api.Item{{SKU: "cup", Quantity: 1}}}, id})
	if s.refuses != "" {
		answer, err = json.Marshal(problemOf(s.refuses, http.StatusPaymentRequired))
	}
	if err != nil {
		panic(err)
	}
	s.answers[key] = answer
}

func problemOf(slug string, status int) api.Problem {
	return api.Problem{Type: "/problems/" + slug, Title: "T", Status: status, Detail: "Why.", Instance: "/v1/orders/1"}
}

func (m *mishap) refuse(w http.ResponseWriter) {
	if m.RetryAfter != "" {
		w.Header().Set("Retry-After", m.RetryAfter)
	}
	if m.Problem == "" {
		w.Header().Set("Content-Type", "text/html")
		w.WriteHeader(m.Status)
		_, _ = io.WriteString(w, "<h1>something in between</h1>")
		return
	}
	w.Header().Set("Content-Type", "application/problem+json")
	w.WriteHeader(m.Status)
	body, err := json.Marshal(problemOf(m.Problem, m.Status))
	if err != nil {
		panic(err)
	}
	_, _ = w.Write(body)
}

// write is the right answer.
func write(w http.ResponseWriter, answer []byte, replayed bool) {
	status, kind := statusOf(answer)
	w.Header().Set("Content-Type", kind)
	if replayed {
		w.Header().Set("Idempotency-Replayed", "true")
	}
	w.WriteHeader(status)
	_, _ = w.Write(answer)
}

func statusOf(answer []byte) (status int, contentType string) {
	if bytes.Contains(answer, []byte("/problems/")) {
		return http.StatusPaymentRequired, "application/problem+json"
	}
	return http.StatusCreated, "application/json"
}

// raw is the right answer as it goes over the wire.
func raw(answer []byte, replayed, unmeasured bool) []byte {
	status, kind := statusOf(answer)
	var head strings.Builder
	fmt.Fprintf(&head, "HTTP/1.1 %d %s\r\nContent-Type: %s\r\n", status, http.StatusText(status), kind)
	if replayed {
		head.WriteString("Idempotency-Replayed: true\r\n")
	}
	if unmeasured {
		head.WriteString("Connection: close\r\n")
	} else {
		fmt.Fprintf(&head, "Content-Length: %d\r\n", len(answer))
	}
	head.WriteString("\r\n")
	return append([]byte(head.String()), answer...)
}

// cut sends the beginning of an answer and closes the connection.
func cut(w http.ResponseWriter, beginning []byte) {
	connection, _, err := http.NewResponseController(w).Hijack()
	if err != nil {
		panic(err)
	}
	_, _ = connection.Write(beginning)
	if tcp, ok := connection.(*net.TCPConn); ok && len(beginning)%2 == 0 {
		_ = tcp.SetLinger(0) // every second one ends with a reset
	}
	_ = connection.Close()
}

func order() api.OrderRequest {
	return api.OrderRequest{
		Currency: "EUR", Amount: 500, Items: []api.Item{{SKU: "cup", Quantity: 1, UnitAmount: 500}},
		Payment: api.PaymentRequest{Provider: "stripe", Method: "pm_card_visa"},
	}
}
