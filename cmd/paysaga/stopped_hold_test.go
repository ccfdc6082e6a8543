//go:build unix

package main

import (
	"bytes"
	"encoding/binary"
	"errors"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"sync"
	"testing"
)

// heldMessage is a message that was stopped on its way.
type heldMessage struct {
	arrived chan struct{} // closed when the message is held
	release chan struct{} // closed to let it go on
	passed  chan struct{} // closed when it has had its effect, and whoever waits for it can read what came of it
	over    <-chan struct{}
}

func newHeldMessage(t *testing.T) *heldMessage {
	t.Helper()
	return &heldMessage{make(chan struct{}), make(chan struct{}), make(chan struct{}), t.Context().Done()}
}

// pass holds the caller until the message may go on, or the test is over.
func (h *heldMessage) pass() {
	close(h.arrived)
	select {
	case <-h.release:
	case <-h.over:
	}
}

// gate stands between servers and the provider. What it is told to hold, it holds on the way back: the provider has done its part.
type gate struct {
	provider http.Handler
	url      string

	mutex sync.Mutex
	holds map[string]gateHold // by server
}

// gateHold is for the next POST to a path of this end.
type gateHold struct {
	*heldMessage

	path    string
	instead string // told to the server in place of the provider, which is not asked
}

func openGate(t *testing.T, provider http.Handler) *gate {
	t.Helper()
	g := &gate{provider: provider, holds: map[string]gateHold{}}
	server := httptest.NewServer(g)
	t.Cleanup(server.Close)
	g.url = server.URL
	return g
}

func (g *gate) hold(t *testing.T, server, path, instead string) *heldMessage {
	t.Helper()
	g.mutex.Lock()
	defer g.mutex.Unlock()
	h := gateHold{newHeldMessage(t), path, instead}
	g.holds[server] = h
	return h.heldMessage
}

// take gives the hold for a request, once.
func (g *gate) take(server string, r *http.Request) (gateHold, bool) {
	g.mutex.Lock()
	defer g.mutex.Unlock()
	h, ok := g.holds[server]
	if !ok || r.Method != http.MethodPost || !strings.HasSuffix(r.URL.Path, h.path) {
		return gateHold{}, false
	}
	delete(g.holds, server)
	return h, true
}

// ServeHTTP takes the first part of the path for the server's name.
func (g *gate) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	server, _, _ := strings.Cut(strings.TrimPrefix(r.URL.Path, "/"), "/")
	provider := http.StripPrefix("/"+server, g.provider)
	h, held := g.take(server, r)
	if !held {
		provider.ServeHTTP(w, r)
		return
	}
	answer := httptest.NewRecorder()
	if h.instead == "" {
		provider.ServeHTTP(answer, r)
	} else {
		_, _ = io.Copy(io.Discard, r.Body) // a server that is stopped sends no rest of it
		answer.Header().Set("Content-Type", "application/json")
		answer.WriteHeader(http.StatusPaymentRequired)
		_, _ = answer.WriteString(h.instead)
	}
	h.pass()
	for name := range answer.Header() {
		w.Header().Set(name, answer.Header().Get(name))
	}
	w.WriteHeader(answer.Code)
	_, _ = w.Write(answer.Body.Bytes())
	_ = http.NewResponseController(w).Flush()
	close(h.passed)
}

// relay stands between a server and its database, and can hold a transaction that the server has sent: as a network may that delivers
// late, when the server believes its lease to be over, or is stopped.
type relay struct {
	listener net.Listener
	database string

	mutex sync.Mutex
	text  string // of a statement; empty: hold nothing
	held  *heldMessage
}

// openRelay gives the relay, and the URL by which a server reaches the database through it, with the text of each statement in each message.
func openRelay(t *testing.T, databaseURL string) (*relay, string) {
	t.Helper()
	address, err := url.Parse(databaseURL)
	noError(t, err)
	listener, err := (&net.ListenConfig{}).Listen(t.Context(), "tcp", "127.0.0.1:0")
	noError(t, err)
	r := &relay{listener: listener, database: address.Host}
	t.Cleanup(func() { _ = listener.Close() })
	go r.accept(t)
	address.Host = listener.Addr().String()
	query := address.Query()
	query.Set("default_query_exec_mode", "cache_describe")
	address.RawQuery = query.Encode()
	return r, address.String()
}

// hold holds the next transaction in which a statement with the text is executed.
func (r *relay) hold(t *testing.T, text string) *heldMessage {
	t.Helper()
	r.mutex.Lock()
	defer r.mutex.Unlock()
	r.text, r.held = text, newHeldMessage(t)
	return r.held
}

func (r *relay) take(pipeline []byte) *heldMessage {
	r.mutex.Lock()
	defer r.mutex.Unlock()
	if r.text == "" || !bytes.Contains(pipeline, []byte(r.text)) {
		return nil
	}
	r.text = ""
	return r.held
}

func (r *relay) accept(t *testing.T) {
	t.Helper()
	for {
		server, err := r.listener.Accept()
		if err != nil {
			return
		}
		database, err := (&net.Dialer{}).DialContext(t.Context(), "tcp", r.database)
		if err != nil {
			_ = server.Close()
			continue
		}
		expected := make(chan *heldMessage, 1) // whose effect the database's next message tells
		go func() {
			r.forward(database, server, expected)
			_ = database.Close()
		}()
		go func() {
			backward(server, database, expected)
			_ = server.Close()
		}()
	}
}

// Messages of PostgreSQL's protocol that a client sends: type, length, content; the first one has no type.
const (
	lengthBytes = 4
	maxMessage  = 1 << 20 // far more than a statement of ours

	executeMessage  = 'E'
	pipelinePartsOf = "PBDCE" // parse, bind, describe, close, execute: they wait for the sync or flush after them
)

// forward sends on what a server says, each pipeline as a whole.
func (r *relay) forward(database io.Writer, server io.Reader, expected chan<- *heldMessage) {
	startup, err := readContent(server)
	for pipeline, executes := startup, false; err == nil; {
		if executes {
			if h := r.take(pipeline); h != nil {
				h.pass()
				expected <- h
			}
		}
		if _, err = database.Write(pipeline); err != nil {
			return
		}
		pipeline, executes, err = readPipeline(server)
	}
}

func readPipeline(server io.Reader) (pipeline []byte, executes bool, err error) {
	for {
		var kind [1]byte
		if _, err := io.ReadFull(server, kind[:]); err != nil {
			return nil, false, err
		}
		content, err := readContent(server)
		if err != nil {
			return nil, false, err
		}
		pipeline = append(append(pipeline, kind[0]), content...)
		executes = executes || kind[0] == executeMessage
		if !strings.ContainsRune(pipelinePartsOf, rune(kind[0])) {
			return pipeline, executes, nil
		}
	}
}

// readContent reads a message from its length on.
func readContent(server io.Reader) ([]byte, error) {
	var length [lengthBytes]byte
	if _, err := io.ReadFull(server, length[:]); err != nil {
		return nil, err
	}
	size := binary.BigEndian.Uint32(length[:])
	if size < lengthBytes || size > maxMessage {
		return nil, errors.New("no message of PostgreSQL's protocol")
	}
	message := append(length[:], make([]byte, size-lengthBytes)...)
	_, err := io.ReadFull(server, message[lengthBytes:])
	return message, err
}

// backward brings a server what its database says. A pipeline's results come when it is committed, or undone.
func backward(server io.Writer, database io.Reader, expected <-chan *heldMessage) {
	buffer := make([]byte, 32<<10)
	for {
		n, err := database.Read(buffer)
		if err != nil {
			return
		}
		if _, err := server.Write(buffer[:n]); err != nil {
			return
		}
		select {
		case h := <-expected:
			close(h.passed)
		default:
		}
	}
}
