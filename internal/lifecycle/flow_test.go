package lifecycle_test

import (
	"encoding/json"
	"net/http"
	"slices"
	"time"

	"paysaga/providers/sandbox"
	"paysaga/saga"
)

// flow is one order's way: the servers that it meets, and what its shop sent and got.
type flow struct {
	*house

	server  *server
	first   request
	sent    []request
	got     map[string]reply // the first answer to each request
	details json.RawMessage  // what the customer last brought back
}

func (h *house) newFlow(order saga.Order) *flow {
	first := request{endpoint: toOrder, key: "order", body: orderBody(order)}
	first.id = first.sagaKey()
	f := &flow{house: h, first: first, got: map[string]reply{}}
	f.serve()
	return f
}

// serve puts a new server in place.
func (f *flow) serve() {
	f.Helper()
	f.server = f.newServer()
	f.front.current.Store(f.server)
}

// revive puts another server in place of one that has died.
func (f *flow) revive() {
	f.Helper()
	if f.server.dead() {
		f.Log("  the server is dead")
		f.serve()
	}
}

// send sends a request, and compares what it gets with what it got before.
func (f *flow) send(r request) reply {
	f.Helper()
	if !f.knows(r.endpoint, r.key) {
		f.sent = append(f.sent, r)
	}
	got := f.house.send(r)
	f.Logf("  %s: %s", r.name(), got)
	before, known := f.got[r.name()]
	switch {
	case f.server.dead():
	case got.Status >= http.StatusInternalServerError:
		f.Fatalf("%s: %s", r.name(), got)
	case known && (before.Status != got.Status || before.Body != got.Body):
		f.Fatalf("%s was answered %s, now %s", r.name(), before, got)
	case got.Kept:
		f.got[r.name()] = got
	case got.Status < http.StatusBadRequest:
		f.Fatalf("%s: an answer that is not kept: %s", r.name(), got)
	}
	f.revive()
	return got
}

// knows tells whether a request was sent before.
func (f *flow) knows(endpoint, key string) bool {
	return slices.ContainsFunc(f.sent, func(r request) bool { return r.endpoint == endpoint && r.key == key })
}

func (f *flow) place() reply { f.Helper(); return f.send(f.first) }

// ask sends a request about the order; one that was sent before stays as it was.
func (f *flow) ask(endpoint, key string, body map[string]any) reply {
	f.Helper()
	for _, r := range f.sent {
		if r.endpoint == endpoint && r.key == key {
			return f.send(r)
		}
	}
	return f.send(request{endpoint: endpoint, key: key, id: f.first.id, body: body})
}

// proceed sends what the customer brought back.
func (f *flow) proceed(key string) reply {
	f.Helper()
	body := map[string]any{}
	if f.details != nil {
		body["details"] = f.details
	}
	return f.ask(toContinue, key, body)
}

// begun tells whether the order is in the database.
func (f *flow) begun() bool {
	f.Helper()
	return f.count(`SELECT count(*) FROM sagas WHERE key = $1`, f.first.id) == 1
}

// free tells whether nobody works on the order.
func (f *flow) free() bool {
	f.Helper()
	return f.count(`SELECT count(*) FROM sagas s WHERE order_id = $1 AND (locked_until > now() OR EXISTS (
		SELECT FROM idempotency_keys k WHERE k.saga_key = s.key AND k.status = 'PROCESSING'))`, f.first.id) == 0
}

func (f *flow) now() saga.Saga { f.Helper(); return f.order(f.first.id) }

// poll lets every lease run out, makes every saga due, and lets recovery work.
func (f *flow) poll() {
	f.Helper()
	f.exec(`UPDATE sagas SET locked_until = now(), next_attempt_at = CASE WHEN next_attempt_at IS NOT NULL THEN now() END`)
	f.exec(`UPDATE idempotency_keys SET locked_until = now() WHERE status = 'PROCESSING'`)
	f.server.recover()
	f.revive()
}

// endDeadline is the moment at which the customer's time is over.
func (f *flow) endDeadline() {
	f.Helper()
	f.exec(`UPDATE sagas SET deadline_at = now() WHERE deadline_at IS NOT NULL`)
	f.poll()
}

// bring brings a webhook a number of times, and applies what is there.
func (f *flow) bring(one *letter, copies int) {
	f.Helper()
	for range copies {
		f.house.bring(one)
		f.revive()
	}
	f.hear()
}

// hear applies the events that wait.
func (f *flow) hear() {
	f.Helper()
	f.exec(`UPDATE webhook_events SET next_attempt_at = now() WHERE status = 'waiting'`)
	f.server.apply()
	f.revive()
}

// customer decides on what the shop shows now, if that is something.
func (f *flow) customer(decision string) {
	f.Helper()
	payment := f.now().Order.Payment
	if payment.NextAction == nil || payment.NextAction.Type == saga.NextActionPaymentMethod {
		return
	}
	f.details = f.decide(payment.Provider, payment.ProviderReference, payment.NextAction, decision)
}

// bank ends what takes its time: payments, and refunds that are known here.
func (f *flow) bank(decision string) {
	f.Helper()
	for _, charge := range f.sandbox.Ledger() {
		if charge.Captured == 0 {
			f.control("payments/" + charge.ID + "/" + decision)
		}
	}
	if !f.begun() {
		return
	}
	for _, s := range append(f.refundsOf(f.first.id), f.now()) {
		for _, step := range s.Steps {
			if step.Name == saga.StepRefund && step.ProviderReference != "" {
				f.control("refunds/" + step.ProviderReference + "/settle")
			}
		}
	}
}

const (
	// mostRounds bounds settle. A hold of 29 days takes some seventy, as the steps grow to half a day.
	mostRounds = 400
	firstStep  = time.Second
	mostStep   = 12 * time.Hour
)

// settle brings all webhooks that are not lost, and lets the time go by until nothing is open any more. The bank is asked in between.
func (f *flow) settle(bank func()) {
	f.Helper()
	f.sandbox.ClearFaults()
	f.server.dieAt(0, false)
	step := firstStep
	for range mostRounds {
		for _, one := range f.letters() {
			if one.copies == 0 && !one.lost {
				f.house.bring(one)
			}
		}
		f.server.apply()
		f.server.recover()
		if f.undelivered() {
			continue // webhooks take seconds, and all that could follow by itself takes longer
		}
		due, open := f.nextDue()
		if !open && !f.holds() {
			return
		}
		bank()
		f.pass(max(due, step))
		step = min(step*3/2, mostStep)
	}
	f.Fatalf("not settled after %d rounds: %s", mostRounds, f.tell())
}

// holds tells whether a provider still holds money. Adyen does so after a last partial capture, until the hold expires.
func (f *flow) holds() bool {
	f.Helper()
	return slices.ContainsFunc(f.sandbox.Ledger(), func(charge sandbox.Charge) bool { return charge.Authorized > 0 })
}

func (f *flow) undelivered() bool {
	f.Helper()
	return slices.ContainsFunc(f.letters(), func(one *letter) bool { return one.copies == 0 && !one.lost })
}

// nextDue is how long nothing happens by itself; open is false when nothing ever will.
func (f *flow) nextDue() (pause time.Duration, open bool) {
	f.Helper()
	var due *time.Duration
	err := f.pool.QueryRow(f.Context(), `SELECT min(at) - now() FROM (
		SELECT greatest(next_attempt_at, locked_until) AS at FROM sagas WHERE next_attempt_at IS NOT NULL
		UNION ALL SELECT next_attempt_at FROM webhook_events WHERE status = 'waiting') AS open`).Scan(&due)
	f.must(err)
	if due == nil {
		return 0, false
	}
	return *due, true
}
