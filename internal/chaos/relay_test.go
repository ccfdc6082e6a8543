//go:build unix

package chaos

import (
	"context"
	"errors"
	"io"
	"math/rand/v2"
	"net"
	"sync"
	"testing"
)

// relay is a wire between two programs: a TCP proxy whose address stays while what is behind it changes, and that can break in the ways
// in which networks do.
type relay struct {
	listener net.Listener
	to       func() string // what is behind it now; empty: nobody

	mutex   sync.Mutex
	state   wireState
	random  *rand.Rand    // draws where connections are cut
	changed chan struct{} // closed at the next change of state
	links   map[*link]struct{}
}

// wireState is what a wire does with what is sent.
type wireState int

const (
	wirePasses  wireState = iota
	wireRefuses           // connections are reset, those that stand too
	wireHolds             // nothing gets through and nothing ends, as where a network drops all packets; later it goes on
	wireCuts              // each connection is closed after so many bytes of answers
)

// longestCut is the most bytes of answers after which a connection is cut: most answers are shorter, so that some come whole.
const longestCut = 4096

// link is one connection through a relay.
type link struct {
	near, far net.Conn // far is nil until it is dialed
	left      int64    // bytes of answers until it is cut; negative: it is not
	over      bool
}

// openRelay opens one that passes everything on.
func openRelay(t testing.TB, to func() string) *relay {
	t.Helper()
	listener, err := (&net.ListenConfig{}).Listen(t.Context(), "tcp4", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	r := &relay{listener: listener, to: to, changed: make(chan struct{}), links: map[*link]struct{}{}}
	t.Cleanup(func() { _ = listener.Close(); r.set(wireRefuses, nil) })
	go r.accept()
	return r
}

func (r *relay) address() string { return r.listener.Addr().String() }

func (r *relay) accept() {
	for {
		near, err := r.listener.Accept()
		if err != nil {
			return
		}
		go r.serve(near)
	}
}

// set changes what the wire does from now on. What wireCuts draws comes from random.
func (r *relay) set(state wireState, random *rand.Rand) {
	r.mutex.Lock()
	defer r.mutex.Unlock()
	r.state, r.random = state, random
	close(r.changed)
	r.changed = make(chan struct{})
	for l := range r.links {
		l.left = r.draw()
		if state == wireRefuses {
			r.reset(l)
		}
	}
}

// draw says after how many bytes a connection is cut. The caller holds the mutex.
func (r *relay) draw() int64 {
	if r.state != wireCuts {
		return -1
	}
	return r.random.Int64N(longestCut)
}

// hangUp ends all connections, as when nobody needs them any more.
func (r *relay) hangUp() {
	r.mutex.Lock()
	defer r.mutex.Unlock()
	for l := range r.links {
		r.reset(l)
	}
}

// open counts the connections that stand.
func (r *relay) open() int {
	r.mutex.Lock()
	defer r.mutex.Unlock()
	return len(r.links)
}

// reset breaks a connection on both sides. The caller holds the mutex.
func (r *relay) reset(l *link) {
	l.over = true
	delete(r.links, l)
	for _, connection := range []net.Conn{l.near, l.far} {
		if tcp, ok := connection.(*net.TCPConn); ok && tcp != nil {
			_ = tcp.SetLinger(0) // a RST, as from a machine that knows nothing of the connection
			_ = tcp.Close()
		}
	}
}

func (r *relay) serve(near net.Conn) {
	r.mutex.Lock()
	l := &link{near: near, left: r.draw()}
	r.links[l] = struct{}{}
	refused := r.state == wireRefuses
	r.mutex.Unlock()
	defer r.end(l)
	if refused || r.pass(l) != nil {
		return
	}
	far, err := (&net.Dialer{}).DialContext(context.Background(), "tcp4", r.to())
	if err != nil {
		return
	}
	r.mutex.Lock()
	l.far = far
	over := l.over
	r.mutex.Unlock()
	if over {
		_ = far.Close()
		return
	}
	asked := make(chan struct{})
	go func() {
		defer close(asked)
		r.pump(l, far, near, false)
		r.end(l)
	}()
	r.pump(l, near, far, true)
	r.end(l)
	<-asked
}

// end closes a connection, unless that is done.
func (r *relay) end(l *link) {
	r.mutex.Lock()
	defer r.mutex.Unlock()
	if !l.over {
		r.finish(l)
	}
}

// finish closes a connection whose one side has ended; what is on its way to the other still arrives. The caller holds the mutex.
func (r *relay) finish(l *link) {
	l.over = true
	delete(r.links, l)
	_ = l.near.Close()
	if l.far != nil {
		_ = l.far.Close()
	}
}

var errOver = errors.New("the connection is over")

// pass waits while the wire holds what is sent.
func (r *relay) pass(l *link) error {
	for {
		r.mutex.Lock()
		over, held, changed := l.over, r.state == wireHolds, r.changed
		r.mutex.Unlock()
		switch {
		case over:
			return errOver
		case !held:
			return nil
		}
		<-changed
	}
}

// pump carries one direction until it ends or is cut.
func (r *relay) pump(l *link, to io.Writer, from io.Reader, answers bool) {
	buffer := make([]byte, 32<<10)
	for {
		n, err := from.Read(buffer)
		if r.pass(l) != nil {
			return
		}
		content, cut := buffer[:n], false
		if answers {
			content, cut = r.spend(l, content)
		}
		if _, failed := to.Write(content); failed != nil || err != nil {
			return
		}
		if cut {
			r.mutex.Lock()
			r.finish(l)
			r.mutex.Unlock()
			return
		}
	}
}

// spend takes an answer's bytes from what a connection has left before it is cut.
func (r *relay) spend(l *link, content []byte) (left []byte, cut bool) {
	r.mutex.Lock()
	defer r.mutex.Unlock()
	if l.left < 0 {
		return content, false
	}
	if int64(len(content)) < l.left {
		l.left -= int64(len(content))
		return content, false
	}
	return content[:l.left], true
}
