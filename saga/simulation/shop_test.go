package simulation

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
	"time"

	"github.com/google/uuid"

	"paysaga/api"
	"paysaga/internal/idempotency"
	"paysaga/saga"
	"paysaga/saga/simulation/bank"
)

const (
	shop = "shop1"
	sku  = "cup"
)

// endpointOf is where each request of a shop goes.
var endpointOf = map[what]string{
	placeOrder: string(api.EndpointCreateOrder), askContinue: string(api.EndpointContinueOrder), askAnother: string(api.EndpointContinueOrder),
	askCapture: string(api.EndpointCaptureOrder), askCancel: string(api.EndpointCancelOrder), askRefund: string(api.EndpointCreateRefund),
}

// request is one intent of the shop's, with the key under which it is sent, as often as it takes.
type request struct {
	event

	key    string
	other  bool // it bears the key of an earlier request
	tries  int
	trying bool
	done   bool // it has its outcome, whatever that is
	answer saga.Answer
	got    bool // the answer
}

// result is how one try ended.
type result struct {
	name     string
	request  *request
	notice   *delivery
	decision *decision
	result   idempotency.Result
	ref      saga.Ref
	err      error
}

// secret is a part of what must not be in any log.
const secret = "do-not-tell-"

func keyOf(e event) string { return fmt.Sprintf("%skey-%04d-of-the-shop", secret, e.ID) }

// orderID is the id that an order has: the first key of its saga.
func orderID(plan plan, number int) uuid.UUID {
	for _, e := range plan.Events {
		if e.What == placeOrder && e.Order == number {
			return saga.Key(shop, endpointOf[placeOrder], keyOf(e), 1)
		}
	}
	return uuid.Nil
}

func (r *request) fingerprint() idempotency.Fingerprint {
	return idempotency.NewIntent(string(r.What)).Int("order", int64(r.Order)).Int("amount", r.Amount).String("details", r.Details).
		String("provider", string(r.Provider)).String("other", strconv.FormatBool(r.other)).Fingerprint()
}

// send has the shop's client send a request for the first time, or once more beside whatever it does already.
func (w *world) sendRequest(e event) {
	r := &request{event: e, key: keyOf(e)}
	w.requests = append(w.requests, r)
	w.try(r, w.servers[e.Server-1])
}

// again is a request that is sent once more, as by a client that has forgotten that it sent it.
func (w *world) again(e event) {
	for _, r := range w.requests {
		if r.ID != e.Of || r.other {
			continue
		}
		if e.What == repeatRequest {
			w.seen.add("event", "repeat")
			w.try(r, w.servers[e.Server-1])
			return
		}
		other := &request{event: r.event, key: r.key, other: true}
		other.ID, other.Amount = e.ID, r.Amount+1
		w.requests = append(w.requests, other)
		w.try(other, w.servers[e.Server-1])
		return
	}
}

// try sends a request once, and waits as long as its client does.
func (w *world) try(r *request, s *server) {
	r.tries++
	r.trying = true
	name := fmt.Sprintf("%s request %d try %d", s.name(), r.ID, r.tries)
	w.say(name + " sent")
	patience := w.spread(5*time.Second, time.Minute, "patience", name)
	w.launch(result{name: name, request: r}, patience, func(ctx context.Context, done *result) {
		var key idempotency.Key
		if key, done.err = s.guard.ReadKey([]string{r.key}); done.err != nil {
			return
		}
		call := idempotency.Call{AccountID: shop, Endpoint: endpointOf[r.What], Key: key, Fingerprint: r.fingerprint()}
		done.result, done.err = s.guard.Do(ctx, call, idempotency.Work{
			Begin: func(ctx context.Context, claim saga.Claim) (saga.Answer, error) { return w.carry(ctx, s, claim, r) },
			Resume: func(ctx context.Context, held idempotency.Held, record idempotency.Record) (saga.Answer, error) {
				return s.runner.TakeOver(ctx, saga.Ref{AccountID: held.AccountID, Key: record.SagaKey}, record.Fence)
			},
		})
	})
}

// launch does work in a goroutine of its own, and has the scheduler hear of its end.
func (w *world) launch(r result, patience time.Duration, work func(ctx context.Context, r *result)) {
	w.mutex.Lock()
	w.active++
	w.mutex.Unlock()
	go func() {
		ctx, cancel := context.WithTimeout(withActor(context.Background(), r.name), patience)
		defer cancel()
		work(ctx, &r)
		w.mutex.Lock()
		defer w.mutex.Unlock()
		w.active--
		w.finished = append(w.finished, r)
		w.wake()
	}()
}

// carry hands a request to the runner, as the handlers do.
func (w *world) carry(ctx context.Context, s *server, claim saga.Claim, r *request) (saga.Answer, error) {
	order := saga.Ref{AccountID: shop, Key: orderID(w.plan, r.Order)}
	asks := saga.Request{Key: saga.Key(claim.AccountID, claim.Endpoint, claim.Key, claim.Generation)}
	switch r.What {
	case placeOrder:
		return s.runner.Start(ctx, claim, w.order(r))
	case askRefund:
		return s.runner.Refund(ctx, claim, order, r.Amount, secret+"reason")
	case askContinue:
		asks.Kind, asks.Details = saga.RequestContinue, json.RawMessage(strconv.Quote(r.Details))
	case askAnother:
		asks.Kind, asks.Payment = saga.RequestContinue, &saga.NewPayment{Provider: string(r.Provider), Method: secret + "other-method"}
	case askCapture:
		asks.Kind, asks.Amount, asks.Final = saga.RequestCapture, r.Amount, r.Final
	default:
		asks.Kind = saga.RequestCancel
	}
	return s.runner.Ask(ctx, claim, order, asks)
}

func (w *world) order(r *request) saga.Order {
	o := w.plan.Orders[r.Order]
	amount := o.amount() + r.Amount // a reused key: another amount
	return saga.Order{
		Currency: "EUR", Amount: amount, Items: []saga.Item{{SKU: sku, Quantity: o.Quantity, UnitAmount: unitAmount}},
		Customer: saga.Customer{Reference: secret + "customer", Email: secret + "mail@example.com"},
		Payment: saga.Payment{
			Provider: string(o.Provider), Method: secret + "method", MethodData: json.RawMessage(`{"data":"` + secret + `data"}`),
			Capture: o.Capture, OnDecline: o.OnDecline, ReturnURL: "https://shop.example/" + secret + "return",
		},
	}
}

// settleTries hears of the tries and deliveries that have ended.
func (w *world) settleTries() {
	w.mutex.Lock()
	finished := w.finished
	w.finished = nil
	w.mutex.Unlock()
	for _, r := range sorted(finished, func(r result) string { return r.name }) {
		w.check.quiet(r.name, r.err)
		switch {
		case r.notice != nil:
			w.delivered(r)
		case r.decision != nil:
			w.decided(r)
		default:
			w.tried(r)
		}
	}
}

// mostTries is how often a client tries before it waits for the end of all faults, and mostTriesAtRest how often afterwards.
const (
	mostTries       = 6
	mostTriesAtRest = 12
)

func (w *world) tried(r result) {
	q := r.request
	q.trying = false
	end, again := w.meaning(r)
	w.say(r.name + ": " + end)
	w.seen.add("client", end)
	if !again {
		q.done = true
		return
	}
	if q.done { // of two tries at once, the other one has the outcome
		return
	}
	pause := time.Second + time.Duration(w.unit("pause", r.name)*float64(12*time.Second))
	if w.resting {
		pause = min(pause<<min(q.tries, 12), 6*time.Hour)
	}
	switch {
	case q.tries < mostTries, w.resting && q.tries < mostTries+mostTriesAtRest:
		w.tryLater(q, pause)
	case w.resting && end == "refused: busy": // it was told that nothing is done, and gives up
		q.done = true
	case w.resting:
		w.check.failf("I5", "request %d (%s) never comes to its outcome: %v", q.ID, q.What, r.err)
	}
}

func (w *world) tryLater(r *request, pause time.Duration) {
	r.trying = true
	w.after(pause, "", func() {
		w.try(r, w.servers[(r.Server+r.tries)%len(w.servers)])
	})
}

// meaning says what an end of a try means to the client, and whether it tries again.
func (w *world) meaning(r result) (end string, again bool) {
	q := r.request
	_, waits := errors.AsType[*idempotency.InProgressError](r.err)
	_, mismatches := errors.AsType[*idempotency.MismatchError](r.err)
	no, refuses := errors.AsType[*saga.RefusedError](r.err)
	switch {
	case r.err == nil:
		w.check.answered(q, r.result)
		return answerWords(r.result), false
	case waits:
		return "in progress", true
	case mismatches:
		w.check.mismatched(q)
		return "mismatch", false
	case refuses && no.Reason == saga.RefusedBusy:
		return "refused: busy", true
	case refuses:
		return "refused: " + string(no.Reason), false
	case errors.Is(r.err, saga.ErrNotFound):
		return "no such order", q.What != placeOrder && q.tries < 3
	case errors.Is(r.err, saga.ErrOverloaded), errors.Is(r.err, saga.ErrDraining):
		return "turned away", true
	case errors.Is(r.err, context.DeadlineExceeded):
		return "no answer", true
	}
	w.check.plain(r.name, r.err)
	return "error", true
}

func answerWords(r idempotency.Result) string {
	if r.Replayed {
		return "replay"
	}
	return fmt.Sprintf("answer %d", r.Answer.Status)
}

// customer is the customer of an order, who can do what the shop tells: for that it reads the order.
func (w *world) customer(e event) {
	s, err := w.memory.Load(context.Background(), saga.Ref{AccountID: shop, Key: orderID(w.plan, e.Order)})
	if err != nil {
		return
	}
	for _, kind := range bank.Kinds() {
		for _, p := range w.banks[kind].Payments() {
			if !w.check.isOf(p.Key, s.Key) {
				continue
			}
			told := s.Order.Payment.NextAction
			p.Asked = p.Asked || told != nil && told.URL != "" && s.Order.Payment.ProviderReference == p.Reference
			was := p.State
			w.banks[kind].Act(p, e.Good)
			if p.State != was {
				w.seen.add("event", "customer: "+string(p.State))
				w.say("  payment " + p.Reference + " is " + string(p.State))
			}
		}
	}
}

// decide is the bank of an order.
func (w *world) decide(e event) {
	for _, kind := range bank.Kinds() {
		for _, p := range w.banks[kind].Payments() {
			if w.check.isOf(p.Key, orderID(w.plan, e.Order)) && p.State == bank.Moving {
				w.seen.add("event", "bank decides")
				w.met.decides(w, p, e.Good)
				w.banks[kind].Decide(p, e.Good)
			}
		}
	}
}

// bounce has a refund come back.
func (w *world) bounce(e event) {
	for _, r := range w.requests {
		if r.ID != e.Of {
			continue
		}
		key := saga.SubKey(derived(endpointOf[askRefund], r.key), saga.StepRefund, 1)
		for _, kind := range bank.Kinds() {
			if w.banks[kind].Bounce(key) {
				w.seen.add("event", "bounce")
			}
		}
	}
}

// happen lets an event of the plan happen.
func (w *world) happen(e event) {
	w.say(fmt.Sprintf("%d: %s", e.ID, w.plan.words(e)))
	w.met.since[e.ID] = w.met.writes
	s := w.servers[max(e.Server, 1)-1]
	switch e.What {
	case placeOrder, askContinue, askAnother, askCapture, askCancel, askRefund:
		w.seen.add("event", string(e.What))
		w.sendRequest(e)
		return
	case repeatRequest, reuseKey:
		w.again(e)
		return
	case refundBounces:
		w.bounce(e)
		return
	case operatorActs:
		w.seen.add("event", "operator")
		w.operator(saga.Resolution(e.Details))
		return
	case customerActs:
		w.customer(e)
		return
	case bankDecides:
		w.decide(e)
		return
	default:
	}
	if !w.resting {
		w.strike(e, s)
	}
}

// strike lets a fault happen that is not one call's.
func (w *world) strike(e event, s *server) {
	now, length := time.Now(), time.Duration(e.For)
	switch e.What {
	case serverDies:
		s.doom = &e
		return
	case serverFreezes:
		if !s.frozen && !s.gone {
			s.freeze(length)
		}
	case serverStops:
		if !s.frozen && !s.gone {
			s.stop(length)
		}
	case databaseDown:
		w.downSince, w.downUntil = now, now.Add(length)
	case partition:
		s.cutSince, s.cutUntil = now, now.Add(length)
	case clockJumps:
		w.offset += length
		w.dirty = true
	default: // faults of calls and notices are looked up where those are
		return
	}
	w.seen.add("event", string(e.What))
}
