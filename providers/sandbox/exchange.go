package sandbox

import (
	"net"
	"net/http"
	"time"
)

// interference is what a fault does inside the execution of a call, where the key is held.
type interference struct {
	delay   time.Duration
	replace *answer // what is saved and sent in place of the true answer
}

// dialect is how one provider words the answers that faults give.
type dialect struct {
	internalError answer
	rateLimited   answer
	inProgress    answer
	keyStoreDown  answer // none: internalError
}

// exchange is one provider call from its arrival to the last byte of its answer.
type exchange struct {
	server   *Server
	writer   http.ResponseWriter
	request  *http.Request
	call     call
	sequence int64 // in the journal
}

// conduct executes a call, or has it go wrong as the active faults say.
func (x exchange) conduct(words dialect, perform func(interference) answer) {
	fault := x.server.faults.draw(x.call)
	if fault.Kind != "" {
		x.server.journal.amend(x.sequence, func(record *RequestRecord) { record.Fault = fault.Kind })
	}
	if x.spoilBefore(fault, words) {
		return
	}
	var disturb interference
	switch fault.Kind {
	case FaultSlow:
		disturb.delay = time.Duration(fault.DelayMS) * time.Millisecond
	case FaultErrorSaved:
		disturb.replace = &words.internalError
	default:
	}
	given := perform(disturb)
	if !x.spoilAfter(fault, words) {
		x.send(given)
	}
}

// spoilBefore ends the exchange without executing the call, when the fault is one of these.
func (x exchange) spoilBefore(fault ActiveFault, words dialect) (done bool) {
	switch fault.Kind {
	case FaultTimeoutBefore:
		x.hang(fault)
	case FaultResetBefore:
		x.drop()
	case FaultErrorBefore:
		x.send(words.internalError)
	case FaultRateLimited:
		x.send(words.rateLimited)
	case FaultInProgress:
		x.send(words.inProgress)
	case FaultKeyStoreDown:
		if words.keyStoreDown.status == 0 {
			words.keyStoreDown = words.internalError
		}
		x.send(words.keyStoreDown)
	default:
		return false
	}
	return true
}

// spoilAfter loses the true answer of an executed call, when the fault is one of these.
func (x exchange) spoilAfter(fault ActiveFault, words dialect) (done bool) {
	switch fault.Kind {
	case FaultTimeoutAfter:
		x.hang(fault)
	case FaultResetAfter:
		x.drop()
	case FaultErrorAfter:
		x.send(words.internalError)
	case FaultGarbageAfter:
		x.send(garbage(fault.Fired))
	case FaultEmptyAfter:
		x.send(answer{status: http.StatusOK})
	default:
		return false
	}
	return true
}

// garbage is what proxies in front of an API answer: a page with an error status, or a body cut off under a 200.
func garbage(turn int) answer {
	if turn%2 == 1 {
		page := answer{status: http.StatusBadGateway, body: []byte("<html><head><title>502 Bad " +
			"Gateway</title></head><body>502</body></html>\n")}
		return page.with("Content-Type", "text/html")
	}
	return answer{status: http.StatusOK, body: []byte(`{"id": "pi_`)}
}

func (x exchange) send(reply answer) {
	x.server.journal.amend(x.sequence, func(record *RequestRecord) { record.Status = reply.status })
	if err := reply.writeTo(x.writer); err != nil {
		x.server.log.Debug("answer not delivered", "provider", x.call.provider, "call", x.call.kind, "error", err)
	}
}

// hang keeps the client waiting until it gives up, the fault's delay is over or the server closes. Nothing is answered.
func (x exchange) hang(fault ActiveFault) {
	bound := time.Duration(maxFaultDelay) * time.Millisecond
	if fault.DelayMS > 0 {
		bound = time.Duration(fault.DelayMS) * time.Millisecond
	}
	timer := time.NewTimer(bound)
	defer timer.Stop()
	select {
	case <-x.request.Context().Done():
	case <-x.server.closing.Done():
	case <-timer.C:
	}
	x.drop()
}

// drop resets the connection without an answer.
func (x exchange) drop() {
	connection, _, err := http.NewResponseController(x.writer).Hijack()
	if err != nil { // HTTP/2 or a recorder: the nearest thing to a reset that net/http offers
		panic(http.ErrAbortHandler)
	}
	if tcp, ok := connection.(*net.TCPConn); ok {
		_ = tcp.SetLinger(0) // a RST in place of a FIN
	}
	_ = connection.Close() // breaking it is the purpose
}

// pause waits inside an execution. It does not end when the client goes away: a provider does not notice either.
func (s *Server) pause(delay time.Duration) {
	if delay <= 0 {
		return
	}
	timer := time.NewTimer(delay)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-s.closing.Done():
	}
}
