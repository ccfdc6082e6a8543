//go:build unix

package main

import (
	"net/http"
	"strings"
	"syscall"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"paysaga/api"
	"paysaga/providers/sandbox"
)

// place is where a server is held: at the answer to a provider's call, by the end of its path, or at the transaction in which a
// statement with a text is executed.
type place struct{ call, statement string }

const (
	chargeCall  = "/v1/payment_intents"
	captureCall = "/capture"
	refundCall  = "/v1/refunds"

	sagaStatement  = "UPDATE sagas SET state"
	stockStatement = "INSERT INTO stock"
)

// refusal is what the stopped server hears of a charge that succeeds for the other: were it to answer from its own result, or to write
// it, it would be found out.
const refusal = `{"error":{"type":"card_error","code":"card_declined","decline_code":"generic_decline","message":"Your card was declined."}}`

// stoppedCase is a server that is stopped in the middle of a request for longer than its lease.
type stoppedCase struct {
	request  func(s *stoppedScene) stoppedRequest
	fence    int64 // the request's first; that of a key without a saga is the database's
	at       place // where it is stopped
	hears    string
	recovery bool  // the other server's recovery worker takes over; else a repeat of the request
	midway   place // where the other server is when the first one goes on; nowhere: it has answered
	want     stoppedEnd
}

// stoppedEnd is how it ends, once.
type stoppedEnd struct {
	status             int // of the one answer
	payments           int
	captured, refunded int64
	onHand             int64
}

var (
	orderedEnd  = stoppedEnd{http.StatusCreated, 1, 3998, 0, stoppedCount - 2}
	capturedEnd = stoppedEnd{http.StatusOK, 1, 3998, 0, stoppedCount - 2}
	refundedEnd = stoppedEnd{http.StatusCreated, 1, 3998, 1000, stoppedCount - 2}
	countedEnd  = stoppedEnd{http.StatusOK, 0, 0, 0, 50}
)

// A server that is stopped for longer than its lease, and goes on when another has taken over, writes nothing any more and does not
// answer from its own result (I1, I8, I9).
func TestStopped(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]stoppedCase{
		"order, charging; a repeat takes over": {
			request: anOrder, fence: 1, at: place{call: chargeCall}, want: orderedEnd,
		},
		"order, charging; recovery takes over": {
			request: anOrder, fence: 1, at: place{call: chargeCall}, recovery: true, want: orderedEnd,
		},
		"order, refused, while the repeat is charging": {
			request: anOrder, fence: 1, at: place{call: chargeCall}, hears: refusal, midway: place{call: chargeCall}, want: orderedEnd,
		},
		"order, its end on the way, while the repeat is charging": {
			request: anOrder, fence: 1, at: place{statement: sagaStatement}, midway: place{call: chargeCall}, want: orderedEnd,
		},
		"order, its end on the way; recovery takes over": {
			request: anOrder, fence: 1, at: place{statement: sagaStatement}, recovery: true, want: orderedEnd,
		},
		"capture; a repeat takes over": {
			request: aCapture, fence: 2, at: place{call: captureCall}, want: capturedEnd,
		},
		"capture; recovery takes over": {
			request: aCapture, fence: 2, at: place{call: captureCall}, recovery: true, want: capturedEnd,
		},
		"refund, while the repeat is refunding": {
			request: aRefund, fence: 1, at: place{call: refundCall}, midway: place{call: refundCall}, want: refundedEnd,
		},
		"refund; recovery takes over": {
			request: aRefund, fence: 1, at: place{call: refundCall}, recovery: true, want: refundedEnd,
		},
		"stock, its write on the way; a repeat takes over": {
			request: aCount, at: place{statement: stockStatement}, want: countedEnd,
		},
		"stock, its write on the way, while the repeat is writing": {
			request: aCount, at: place{statement: stockStatement}, midway: place{statement: stockStatement}, want: countedEnd,
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			c.run(newStoppedScene(t))
		})
	}
}

func anOrder(*stoppedScene) stoppedRequest {
	return newStoppedRequest(http.MethodPost, "/v1/orders", `{"currency":"EUR","amount":3998,"items":[{"sku":"`+stoppedSKU+
		`","quantity":2,"unit_amount":1999}],"payment":{"provider":"stripe","method":"pm_card_visa","capture":"automatic"}}`)
}

// about is a request about an order that the other server has taken.
func about(s *stoppedScene, order stoppedRequest, end, body string) stoppedRequest {
	s.t.Helper()
	id := readJSON[api.Order](s.t, s.do(order).Body).ID.String()
	return newStoppedRequest(http.MethodPost, "/v1/orders/"+id+end, body)
}

func aCapture(s *stoppedScene) stoppedRequest {
	s.t.Helper()
	order := anOrder(s)
	order.body = strings.Replace(order.body, `"automatic"`, `"manual"`, 1)
	return about(s, order, "/capture", `{}`)
}

func aRefund(s *stoppedScene) stoppedRequest {
	s.t.Helper()
	return about(s, anOrder(s), "/refunds", `{"amount":1000}`)
}

func aCount(*stoppedScene) stoppedRequest {
	return newStoppedRequest(http.MethodPut, "/v1/stock/"+stoppedSKU, `{"on_hand":50}`)
}

func (c stoppedCase) run(s *stoppedScene) {
	s.t.Helper()
	role := "api"
	if c.recovery {
		role = "all"
	}
	s.serve(otherServer, c.midway.statement != "", role, otherLease)
	s.serve(stoppedServer, c.at.statement != "", "api", stoppedLease)
	request := c.request(s)

	held := s.hold(stoppedServer, c.at, c.hears)
	first := s.send(stoppedServer, request)
	s.await("the place at which the server is stopped", held.arrived)
	s.signal(stoppedServer, syscall.SIGSTOP)
	second, goOn := c.takeOver(s, request)

	before := s.rows()
	close(held.release)
	s.await("what the stopped server waits for", held.passed)
	c.wantRows(s, before, "what was on the way when the server was stopped")
	s.signal(stoppedServer, syscall.SIGCONT)
	got := s.get("the stopped server's answer", first)
	c.wantRows(s, before, "the server that went on")

	answer := c.finish(s, request, second, goOn)
	c.wantAnswer(s, got, answer)
	c.wantEnd(s, request)
	end := s.rows()
	for _, server := range []string{stoppedServer, otherServer} {
		s.servers[server].terminate(s.t) // each drains: nothing is under way any more
	}
	c.wantRows(s, end, "a server at its end")
}

// takeOver lets the other server take over when the lease is over. It returns when that has answered, or is where the case wants it;
// goOn is what it is held by there.
func (c stoppedCase) takeOver(s *stoppedScene, request stoppedRequest) (second <-chan stoppedAnswer, goOn *heldMessage) {
	s.t.Helper()
	if c.recovery {
		s.awaitKey(request, `status <> 'PROCESSING'`)
		s.noteFence(request)
		return nil, nil
	}
	s.awaitKey(request, `locked_until <= now()`)
	s.noteFence(request)
	if c.midway == (place{}) {
		answered := make(chan stoppedAnswer, 1)
		answered <- s.get("the other server's answer", s.send(otherServer, request))
		s.noteFence(request)
		return answered, nil
	}
	goOn = s.hold(otherServer, c.midway, "")
	second = s.send(otherServer, request)
	s.await("the place at which the other server goes on", goOn.arrived)
	s.noteFence(request)
	return second, goOn
}

// finish gives the one answer of the request: what the other server tells its client.
func (c stoppedCase) finish(s *stoppedScene, request stoppedRequest, second <-chan stoppedAnswer, goOn *heldMessage) stoppedAnswer {
	s.t.Helper()
	if goOn != nil {
		close(goOn.release)
	}
	var answer stoppedAnswer
	if second == nil {
		answer = s.get("the answer that recovery has stored", s.send(otherServer, request))
	} else if answer = s.get("the other server's answer", second); answer.replayed {
		s.t.Error("the other server has taken over, and tells another's answer")
	}
	if answer.Status != c.want.status {
		s.t.Errorf("the answer is %d %s, want %d", answer.Status, answer.Body, c.want.status)
	}
	for _, server := range []string{stoppedServer, otherServer} {
		again := s.get("the answer to a repeat", s.send(server, request))
		if diff := cmp.Diff(answer, again, cmpopts.IgnoreUnexported(stoppedAnswer{})); diff != "" || !again.replayed {
			s.t.Errorf("a repeat at the %s server: replayed is %t (-first +repeat):\n%s", server, again.replayed, diff)
		}
	}
	return answer
}

// wantAnswer: what the stopped server tells its client, who is still there, is the one answer, or that there is none yet.
func (c stoppedCase) wantAnswer(s *stoppedScene, got, answer stoppedAnswer) {
	s.t.Helper()
	if c.midway != (place{}) {
		if got.Status != http.StatusConflict || got.retry == "" || !strings.Contains(got.Body, "/problems/request-in-progress") {
			s.t.Errorf("the stopped server answers %d %s, Retry-After %q; want 409 request-in-progress", got.Status, got.Body, got.retry)
		}
		return
	}
	if diff := cmp.Diff(answer, got, cmpopts.IgnoreUnexported(stoppedAnswer{})); diff != "" || !got.replayed {
		s.t.Errorf("the stopped server's answer: replayed is %t (-the one answer +its own):\n%s", got.replayed, diff)
	}
}

func (c stoppedCase) wantRows(s *stoppedScene, before map[string][]string, who string) {
	s.t.Helper()
	if diff := cmp.Diff(before, s.rows()); diff != "" {
		s.t.Errorf("%s has written (-before +after):\n%s", who, diff)
	}
}

func (c stoppedCase) wantEnd(s *stoppedScene, request stoppedRequest) {
	s.t.Helper()
	c.wantFences(s, request)
	var keys, answers, open int
	var onHand, reserved int64
	noError(s.t, s.pool.QueryRow(s.t.Context(), `
		SELECT (SELECT count(*) FROM idempotency_keys), (SELECT count(*) FROM idempotency_answers),
			(SELECT count(*) FROM sagas WHERE state <> 'completed'), on_hand, reserved FROM stock`,
	).Scan(&keys, &answers, &open, &onHand, &reserved))
	if answers != keys || open != 0 {
		s.t.Errorf("%d answers for %d keys, %d sagas without their end", answers, keys, open)
	}
	if onHand != c.want.onHand || reserved != 0 {
		s.t.Errorf("%d on hand, %d reserved; want %d, 0", onHand, reserved, c.want.onHand)
	}
	payments := s.payments()
	var total sandbox.Charge
	for _, p := range payments {
		total.Captured, total.Refunded, total.Authorized = total.Captured+p.Captured, total.Refunded+p.Refunded, total.Authorized+p.Authorized
	}
	if len(payments) != c.want.payments || total.Captured != c.want.captured || total.Refunded != c.want.refunded || total.Authorized != 0 {
		s.t.Errorf("the provider has %d payments %+v; want %d, %d captured, %d refunded",
			len(payments), payments, c.want.payments, c.want.captured, c.want.refunded)
	}
}

// wantFences: one take-over, and no other since.
func (c stoppedCase) wantFences(s *stoppedScene, request stoppedRequest) {
	s.t.Helper()
	s.noteFence(request)
	want := []int64{c.fence, c.fence + 1, c.fence + 1}
	switch got := s.fences; {
	case c.recovery: // which waits for nobody to look
		want = want[1:]
	case c.fence == 0 && got[0] < got[1]:
		want = []int64{got[0], got[1], got[1]}
	}
	if diff := cmp.Diff(want, s.fences); diff != "" {
		s.t.Errorf("fencing numbers before the take-over, after it and at the end (-want +got):\n%s", diff)
	}
}
