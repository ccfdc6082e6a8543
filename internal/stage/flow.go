package stage

import (
	"encoding/json"
	"net/http"
	"slices"

	"paysaga/saga"
)

// Flow is one order's way: the servers that it meets, and what its shop sent and got.
type Flow struct {
	*Stage

	Server *Server
	First  Request // the order
	Sent   []Request
	Got    map[string]Reply // the first answer to each request

	details json.RawMessage // what the customer last brought back
}

// NewFlow begins an order's way, with a server of its own. Nothing is sent yet.
func (s *Stage) NewFlow(order saga.Order) *Flow { return s.NewFlowOf(OrderBody(order)) }

// NewFlowOf is NewFlow for an order as it is posted.
func (s *Stage) NewFlowOf(body map[string]any) *Flow {
	first := Request{Endpoint: ToOrder, Key: "order", Body: body}
	first.ID = first.SagaKey()
	f := &Flow{Stage: s, First: first, Got: map[string]Reply{}}
	f.Serve()
	return f
}

// Serve puts a new server in place.
func (f *Flow) Serve() {
	f.Helper()
	f.Server = f.NewServer()
	f.front.current.Store(f.Server)
}

// revive puts another server in place of one that has died.
func (f *Flow) revive() {
	f.Helper()
	if f.Server.Dead() {
		f.Log("  the server is dead")
		f.Serve()
	}
}

// Send sends a request, and compares what it gets with what it got before.
func (f *Flow) Send(r Request) Reply {
	f.Helper()
	if !f.Knows(r.Endpoint, r.Key) {
		f.Sent = append(f.Sent, r)
	}
	got := f.Stage.Send(r)
	f.Logf("  %s: %s", r.Name(), got)
	before, known := f.Got[r.Name()]
	switch {
	case f.Server.Dead():
	case got.Status >= http.StatusInternalServerError:
		f.Fatalf("%s: %s", r.Name(), got)
	case known && (before.Status != got.Status || before.Body != got.Body):
		f.Fatalf("%s was answered %s, now %s", r.Name(), before, got)
	case got.Kept:
		f.Got[r.Name()] = got
	case got.Status < http.StatusBadRequest:
		f.Fatalf("%s: an answer that is not kept: %s", r.Name(), got)
	}
	f.revive()
	return got
}

// Knows tells whether a request was sent before.
func (f *Flow) Knows(endpoint, key string) bool {
	return slices.ContainsFunc(f.Sent, func(r Request) bool { return r.Endpoint == endpoint && r.Key == key })
}

// Place sends the order.
func (f *Flow) Place() Reply { f.Helper(); return f.Send(f.First) }

// Ask sends a request about the order; one that was sent before stays as it was.
func (f *Flow) Ask(endpoint, key string, body map[string]any) Reply {
	f.Helper()
	for _, r := range f.Sent {
		if r.Endpoint == endpoint && r.Key == key {
			return f.Send(r)
		}
	}
	return f.Send(Request{Endpoint: endpoint, Key: key, ID: f.First.ID, Body: body})
}

// Proceed sends what the customer brought back.
func (f *Flow) Proceed(key string) Reply {
	f.Helper()
	body := map[string]any{}
	if f.details != nil {
		body["details"] = f.details
	}
	return f.Ask(ToContinue, key, body)
}

// Begun tells whether the order is in the database.
func (f *Flow) Begun() bool {
	f.Helper()
	return f.Count(`SELECT count(*) FROM sagas WHERE key = $1`, f.First.ID) == 1
}

// Free tells whether nobody works on the order.
func (f *Flow) Free() bool {
	f.Helper()
	return f.Count(`SELECT count(*) FROM sagas s WHERE order_id = $1 AND (locked_until > now() OR EXISTS (
		SELECT FROM idempotency_keys k WHERE k.saga_key = s.key AND k.status = 'PROCESSING'))`, f.First.ID) == 0
}

// Saga reads the order with its saga.
func (f *Flow) Saga() saga.Saga { f.Helper(); return f.Order(f.First.ID) }

// Poll lets every lease run out, makes every saga due, and lets recovery work.
func (f *Flow) Poll() {
	f.Helper()
	f.Exec(`UPDATE sagas SET locked_until = now(), next_attempt_at = CASE WHEN next_attempt_at IS NOT NULL THEN now() END`)
	f.Exec(`UPDATE idempotency_keys SET locked_until = now() WHERE status = 'PROCESSING'`)
	f.Server.Recover()
	f.revive()
}

// EndDeadline is the moment at which the customer's time is over.
func (f *Flow) EndDeadline() {
	f.Helper()
	f.Exec(`UPDATE sagas SET deadline_at = now() WHERE deadline_at IS NOT NULL`)
	f.Poll()
}

// Bring brings a webhook a number of times, and applies what is there.
func (f *Flow) Bring(one *Letter, copies int) {
	f.Helper()
	for range copies {
		f.Stage.Bring(one)
		f.revive()
	}
	f.Hear()
}

// Hear applies the events that wait.
func (f *Flow) Hear() {
	f.Helper()
	f.Exec(`UPDATE webhook_events SET next_attempt_at = now() WHERE status = 'waiting'`)
	f.Server.Apply()
	f.revive()
}

// Customer decides on what the shop shows now, if that is something.
func (f *Flow) Customer(decision string) {
	f.Helper()
	payment := f.Saga().Order.Payment
	if payment.NextAction == nil || payment.NextAction.Type == saga.NextActionPaymentMethod {
		return
	}
	f.details = f.Decide(payment.Provider, payment.ProviderReference, payment.NextAction, decision)
}

// Bank ends what takes its time: payments, and refunds that are known here.
func (f *Flow) Bank(decision string) {
	f.Helper()
	for _, charge := range f.Sandbox.Ledger() {
		if charge.Captured == 0 {
			f.Control("payments/" + charge.ID + "/" + decision)
		}
	}
	if !f.Begun() {
		return
	}
	for _, s := range append(f.RefundsOf(f.First.ID), f.Saga()) {
		for _, step := range s.Steps {
			if step.Name == saga.StepRefund && step.ProviderReference != "" {
				f.Control("refunds/" + step.ProviderReference + "/settle")
			}
		}
	}
}
