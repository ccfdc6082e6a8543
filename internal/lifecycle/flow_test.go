package lifecycle_test

import (
	"encoding/json"
	"fmt"
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
		f.Logf("  the server is dead")
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

// tell says how everything stands, for a test that fails.
func (f *flow) tell() string {
	f.Helper()
	text := ""
	if !f.begun() {
		return "no order"
	}
	for _, s := range append([]saga.Saga{f.now()}, f.refundsOf(f.first.id)...) {
		text += fmt.Sprintf("\n%s %s: %s, order %s, payment %s, captured %d, refunded %d, refunding %d, findings %v", s.Kind, s.Key, s.State,
			s.Order.Status, s.Order.Payment.Status, s.Order.Payment.CapturedAmount, s.Order.Payment.RefundedAmount,
			s.Order.Payment.RefundingAmount, f.findings(f.first.id))
		for _, step := range s.Steps {
			text += fmt.Sprintf("\n  %s/%d %s %s: %s %s %s", step.Name, step.Attempt, step.Provider, step.Status, step.Outcome, step.Code, step.ProviderReference)
		}
	}
	for _, charge := range f.sandbox.Ledger() {
		text += fmt.Sprintf("\nledger %+v", charge)
	}
	rows, err := f.pool.Query(f.Context(), `SELECT concat_ws(' ', provider, event_id, type, about, payment_reference, reference, status, attempts, last_error, received_at)
		FROM webhook_events ORDER BY received_at`)
	f.must(err)
	defer rows.Close()
	for rows.Next() {
		var line string
		f.must(rows.Scan(&line))
		text += "\nevent " + line
	}
	for _, r := range f.requests() {
		if r.Method == http.MethodGet && r.Fault == "" {
			continue
		}
		text += fmt.Sprintf("\n%s %s %s %s -> %d %s", r.Call, r.Method, r.Path, r.Identifier, r.Status, r.Fault)
	}
	return text
}

// checkEnd holds what is here against what is at the provider.
func (f *flow) checkEnd() {
	f.Helper()
	f.checkReplays()
	var captured, refunded, held int64
	live, sold := 0, int64(0)
	identifiers := map[string]bool{}
	for _, charge := range f.sandbox.Ledger() {
		captured, refunded, held = captured+charge.Captured, refunded+charge.Refunded, held+charge.Authorized
		if charge.Authorized > 0 || charge.Captured > charge.Refunded {
			live++
		}
		if identifiers[charge.Identifier] || charge.Identifier == "" {
			f.Errorf("two payments under one identifier: %+v", charge)
		}
		identifiers[charge.Identifier] = true
	}
	if live > 1 {
		f.Errorf("%d live charges", live)
	}
	if f.begun() {
		s := f.now()
		f.checkOrder(s, captured, refunded, held)
		if s.State == saga.Completed {
			sold = 2
		}
	} else if len(identifiers) > 0 {
		f.Errorf("charges without an order")
	}
	stock, err := f.store().GetStock(f.Context(), shop, cup)
	f.must(err)
	if stock.OnHand != cupsOnHand-sold || stock.Reserved != 0 {
		f.Errorf("stock: %d on hand, %d reserved; %d sold", stock.OnHand, stock.Reserved, sold)
	}
	f.checkIdentifiers()
	if open := f.count(`SELECT count(*) FROM webhook_events WHERE status NOT IN ('applied', 'unmatched')`); open > 0 {
		f.Errorf("%d events were not applied", open)
	}
}

func (f *flow) checkOrder(s saga.Saga, captured, refunded, held int64) {
	f.Helper()
	payment := s.Order.Payment
	if s.State != saga.Completed && s.State != saga.RolledBack {
		f.Errorf("ended in %s", s.State)
	}
	if payment.CapturedAmount != captured || payment.RefundedAmount != refunded || payment.RefundingAmount != 0 || held != 0 {
		f.Errorf("here %d captured, %d refunded, %d being refunded; at the provider %d captured, %d refunded, %d held",
			payment.CapturedAmount, payment.RefundedAmount, payment.RefundingAmount, captured, refunded, held)
	}
	if want := paymentStatuses(s.State, captured, refunded); !slices.Contains(want, payment.Status) {
		f.Errorf("payment is %s, want one of %v", payment.Status, want)
	}
	if s.State == saga.RolledBack && captured != refunded || s.State == saga.Completed && captured == 0 {
		f.Errorf("order is %s with %d captured, %d refunded", s.State, captured, refunded)
	}
	var given int64
	for _, refund := range f.refundsOf(f.first.id) {
		if refund.State != saga.Completed && refund.State != saga.RolledBack {
			f.Errorf("a refund ended in %s", refund.State)
		}
		if refund.State == saga.Completed {
			given += refund.Refund.Amount
		}
	}
	if s.State == saga.Completed && given != refunded {
		f.Errorf("the refunds add up to %d, at the provider %d is refunded", given, refunded)
	}
}

func paymentStatuses(state saga.State, captured, refunded int64) []saga.PaymentStatus {
	switch {
	case captured == 0 && state == saga.RolledBack:
		return []saga.PaymentStatus{saga.PaymentNone, saga.PaymentDeclined, saga.PaymentVoided}
	case refunded == captured:
		return []saga.PaymentStatus{saga.PaymentRefunded}
	case refunded > 0:
		return []saga.PaymentStatus{saga.PaymentPartiallyRefunded}
	}
	return []saga.PaymentStatus{saga.PaymentCaptured}
}

// checkReplays repeats every request that was answered: the same bytes, and nothing is done.
func (f *flow) checkReplays() {
	f.Helper()
	calls := len(f.requests())
	for _, r := range f.sent {
		if _, known := f.got[r.name()]; !known {
			continue
		}
		if got := f.send(r); !got.Replayed {
			f.Errorf("%s is not replayed: %s", r.name(), got)
		}
	}
	if more := len(f.requests()) - calls; more != 0 {
		f.Errorf("replays made %d calls", more)
	}
}

// checkIdentifiers compares what every call bore with what follows from the shop's keys alone.
func (f *flow) checkIdentifiers() {
	f.Helper()
	const mostAttempts = 12 // more than any flow makes
	pure := map[string]bool{}
	add := func(key orderID, step saga.StepName) {
		for attempt := range mostAttempts {
			for _, provider := range allProviders {
				sub := saga.SubKey(key, step, attempt+1)
				pure[identifier(provider, sub)] = true
				pure[identifier(provider, sub+"_capture")] = true // PayPal's second call of a charge
			}
		}
	}
	for _, step := range []saga.StepName{saga.StepCharge, saga.StepContinue, saga.StepVoid, saga.StepRefund} {
		add(f.first.id, step)
	}
	for _, r := range f.sent {
		switch r.endpoint {
		case toCapture:
			add(r.sagaKey(), saga.StepCapture)
		case toRefund:
			add(r.sagaKey(), saga.StepRefund)
		}
	}
	for _, call := range f.requests() {
		if call.Method == http.MethodPost && call.Identifier != "" && !pure[call.Identifier] {
			f.Errorf("%s %s bore %q", call.Call, call.Path, call.Identifier)
		}
	}
}
