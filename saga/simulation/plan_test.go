package simulation

import (
	"cmp"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"slices"
	"time"

	"paysaga/saga"
	"paysaga/saga/simulation/bank"
)

// plan is all that a run depends on. A run of the same plan is the same run.
type plan struct {
	Seed    uint64      `json:"seed"` // of how long calls take, and of how notices come
	Servers int         `json:"servers"`
	Stock   int64       `json:"stock"`
	Look    span        `json:"look"`           // how often a recovery looks for what is due
	Span    span        `json:"span"`           // after which all comes to rest
	Slow    bool        `json:"slow,omitempty"` // calls can take longer than anybody waits
	Wild    bool        `json:"wild,omitempty"` // notices come twice, late, in any order, or not at all
	Orders  []orderPlan `json:"orders"`
	Events  []event     `json:"events"`
}

// orderPlan is one order, and what its provider makes of its charges.
type orderPlan struct {
	Provider  bank.Kind        `json:"provider"`
	Capture   saga.CaptureMode `json:"capture"`
	OnDecline saga.OnDecline   `json:"on_decline"`
	Quantity  int64            `json:"quantity"`
	Ways      []bank.Way       `json:"ways"` // of its charges, one after the other; the last one is that of all further ones
}

// unitAmount is the price of a piece in minor units: odd, so that parts do not come out even by chance.
const unitAmount = 1301

func (o orderPlan) amount() int64 { return o.Quantity * unitAmount }

// way is how the charge of an attempt goes.
func (o orderPlan) way(attempt int) bank.Way {
	return o.Ways[min(attempt, len(o.Ways))-1]
}

// event is one thing that happens, at a time after the beginning.
type event struct {
	ID       int       `json:"id"`
	At       span      `json:"at"`
	What     what      `json:"what"`
	Order    int       `json:"order,omitempty"`  // of requests, customers and banks
	Server   int       `json:"server,omitempty"` // whom it meets, or who is asked
	Of       int       `json:"of,omitempty"`     // of a repeat: the request
	For      span      `json:"for,omitempty"`
	Call     string    `json:"call,omitempty"` // of a fault or a crash: at which boundary; empty: any
	Nth      int       `json:"nth,omitempty"`  // of a fault: which call of that kind, from 1; 0: all while it lasts
	Fault    fault     `json:"fault,omitempty"`
	Provider bank.Kind `json:"provider,omitempty"` // of an outage, of another payment
	Amount   int64     `json:"amount,omitempty"`
	Final    bool      `json:"final,omitempty"`
	Details  string    `json:"details,omitempty"`
	Good     bool      `json:"good,omitempty"` // of a customer or a bank: whether it pays
}

// what happens.
type what string

const (
	placeOrder    what = "order"
	askContinue   what = "continue"
	askAnother    what = "another payment"
	askCapture    what = "capture"
	askCancel     what = "cancel"
	askRefund     what = "refund"
	repeatRequest what = "repeat"
	reuseKey      what = "reuse of a key"
	customerActs  what = "customer"
	bankDecides   what = "bank"
	refundBounces what = "bounce"   // of request Of, if it was given
	operatorActs  what = "operator" // decides what is in review, and gives a push (Details) to all else
	callFails     what = "fault"
	serverDies    what = "crash" // Fault says whether before or after the boundary
	serverStops   what = "stop"  // as it is told to, within For
	serverFreezes what = "freeze"
	databaseDown  what = "database down"
	partition     what = "partition" // between one server and the database
	clockJumps    what = "clock"     // of the database, by For
	providerDown  what = "outage"
	noticeLate    what = "late notice" // the Nth one, by For; where it can be asked about, For 0 loses it
)

// fault is what befalls a call.
type fault string

const (
	before fault = "before"
	after  fault = "after"

	lostBefore  fault = "lost before"  // the call does not arrive, and no answer comes
	lostAfter   fault = "lost after"   // it is carried out, and no answer comes
	errorBefore fault = "error before" // not carried out, a 5xx
	errorAfter  fault = "error after"  // carried out, a 5xx
	finalBefore fault = "final before" // not carried out, a 5xx that is not to be repeated
	finalAfter  fault = "final after"
	replayed    fault = "replayed"    // carried out, a 5xx that is the saved answer
	busy        fault = "busy"        // a rate limit
	unreachable fault = "unreachable" // no connection
	refused     fault = "refused"     // not carried out, our request is said to be wrong
	mismatch    fault = "mismatch"    // not carried out, our key is said to stand for other parameters
)

// providerFaults and storeFaults are what can befall calls of each side.
var (
	providerFaults = []fault{
		lostBefore, lostAfter, errorBefore, errorAfter, finalBefore, finalAfter, replayed, busy, unreachable, refused, mismatch,
	}
	storeFaults = []fault{lostBefore, lostAfter, errorBefore, errorAfter}
)

// The boundaries, those that are crossed most first.
var (
	providerCalls = []string{"charge", "lookup", "void", "refund", "capture", "continue", "check_refund"}
	storeCalls    = []string{"apply", "begin", "ask", "claim", "take over", "seize", "look key up", "load", "renew", "find", "hand back"}
)

// span is a duration that is written as people do.
type span time.Duration

func (s span) MarshalText() ([]byte, error) { return []byte(time.Duration(s).String()), nil }

func (s *span) UnmarshalText(text []byte) error {
	d, err := time.ParseDuration(string(text))
	*s = span(d)
	return err
}

func (s span) round(to time.Duration) span { return span(time.Duration(s).Round(to)) }

func (s span) String() string { return time.Duration(s).String() }

// draw makes plans from a seed.
type draw struct {
	*rand.Rand

	plan plan
}

func newPlan(seed uint64) plan {
	const stream = 5 // any number: it only tells this use of the seed from others
	d := draw{Rand: rand.New(rand.NewPCG(seed, stream))}
	d.plan = plan{Seed: seed, Servers: 2 + d.IntN(2), Stock: 100, Look: span(5 * time.Second), Slow: d.one(3), Wild: d.one(2)}
	if d.one(3) { // then a client's repeat comes before the recovery
		d.plan.Look = span(2 * time.Minute)
	}
	d.plan.Span = span([]time.Duration{2 * time.Minute, 5 * time.Minute, 20 * time.Minute, 2 * time.Hour, 12 * time.Hour, 3 * 24 * time.Hour, 9 * 24 * time.Hour}[min(d.IntN(10), d.IntN(7))])
	if d.one(6) {
		d.plan.Stock = 1 + d.Int64N(4)
	}
	for i := range 1 + min(d.IntN(3), d.IntN(3)) {
		d.order(i)
	}
	d.faults()
	if d.one(4) {
		d.add(event{What: operatorActs, At: d.near(), Details: pick(&d, []string{"", "", string(saga.ResolveRetry), string(saga.ResolveRetry), string(saga.ResolveCancel)})})
	}
	slices.SortStableFunc(d.plan.Events, func(a, b event) int { return int(a.At - b.At) })
	for i := range d.plan.Events { // what a repeat is of keeps its number
		d.plan.Events[i].Server = 1 + d.IntN(d.plan.Servers)
	}
	return d.plan
}

// one tells of one case in n.
func (d *draw) one(n int) bool { return d.IntN(n) == 0 }

func pick[T any](d *draw, among []T) T { return among[d.IntN(len(among))] }

func (d *draw) add(e event) event {
	e.ID = len(d.plan.Events) + 1
	d.plan.Events = append(d.plan.Events, e)
	return e
}

// within is a time in a span, more often an early one.
func (d *draw) within(s span) span { return span(d.Float64() * d.Float64() * float64(s)) }

// short is a time in which people and machines act, or one far longer.
func (d *draw) short() span {
	longest := []time.Duration{time.Second, 5 * time.Second, 30 * time.Second, 2 * time.Minute, time.Duration(d.plan.Span)}[d.IntN(5)]
	return span(d.Float64() * float64(min(longest, time.Duration(d.plan.Span))))
}

// order draws an order with all that its shop, its customer and its bank do.
func (d *draw) order(i int) {
	o := orderPlan{
		Provider: pick(d, bank.Kinds()), Capture: saga.CaptureAutomatic, OnDecline: saga.DeclineRollsBack, Quantity: 1 + d.Int64N(3),
	}
	if d.one(3) {
		o.Capture = saga.CaptureManual
	}
	if d.one(3) {
		o.OnDecline = saga.DeclineAwaits
	}
	for range 1 + d.IntN(2) {
		o.Ways = append(o.Ways, pick(d, []bank.Way{bank.Pays, bank.Pays, bank.Asks, bank.Asks, bank.Declines, bank.Moves, bank.Rejects}))
		if d.one(40) {
			o.Ways[len(o.Ways)-1] = bank.Short
		}
	}
	d.plan.Orders = append(d.plan.Orders, o)
	placed := d.request(event{What: placeOrder, Order: i, At: d.within(d.plan.Span / 10)})
	at := placed.At
	if slices.Contains(o.Ways, bank.Asks) {
		for range 1 + d.IntN(3) {
			d.add(event{What: customerActs, Order: i, At: at + span(time.Second) + d.short(), Good: !d.one(3)})
		}
		if o.Provider != bank.SelfPaying {
			d.request(event{What: askContinue, Order: i, At: at + span(2*time.Second) + d.short(), Details: pick(d, []string{"good", "good", "bad", "other"})})
		}
	}
	if slices.Contains(o.Ways, bank.Moves) || o.OnDecline == saga.DeclineAwaits {
		d.add(event{What: bankDecides, Order: i, At: at + d.short(), Good: !d.one(3)})
	}
	for range d.IntN(4) {
		d.follow(i, o, at)
	}
}

// follow draws a request about an order, of which many do not fit.
func (d *draw) follow(i int, o orderPlan, at span) {
	e := event{Order: i, At: at + d.short()}
	kinds := []what{askContinue, askAnother, askCancel, askRefund, askRefund}
	if o.Capture == saga.CaptureManual {
		kinds = append(kinds, askCapture, askCapture, askCapture, askCapture)
	}
	switch e.What = pick(d, kinds); e.What {
	case askContinue:
		e.Details = pick(d, []string{"good", "good", "bad", "other"})
	case askAnother:
		e.Provider = pick(d, bank.Kinds())
	case askCapture:
		e.Amount, e.Final = pick(d, []int64{0, o.amount() / 3, o.amount() / 2, o.amount(), o.amount() + 1}), d.one(2)
	case askRefund:
		e.Amount = pick(d, []int64{0, o.amount() / 4, o.amount() / 2, o.amount(), o.amount() + 1})
	default: // a cancel says nothing more
	}
	e = d.request(e)
	if e.What == askRefund && d.one(4) {
		const days = span(3 * 24 * time.Hour) // banks are not quicker; by then the refund is known, or is only looked up
		bounce := d.add(event{What: refundBounces, Order: i, Of: e.ID, At: e.At + days + d.short()})
		d.plan.Span = max(d.plan.Span, bounce.At+span(time.Minute))
	}
}

// request adds a request and its repeats.
func (d *draw) request(e event) event {
	e = d.add(e)
	for range min(d.IntN(4), d.IntN(4)) {
		d.add(event{What: repeatRequest, Order: e.Order, Of: e.ID, At: e.At + d.short()})
	}
	if d.one(12) {
		d.add(event{What: reuseKey, Order: e.Order, Of: e.ID, At: e.At + d.short()})
	}
	return e
}

// faults draws what goes wrong: of few kinds in one run, so that each is met with and without the others.
func (d *draw) faults() {
	for range d.IntN(4) {
		kind := d.IntN(13)
		for range 1 + min(d.IntN(3), d.IntN(3)) {
			d.fault(kind)
		}
	}
}

// near is a time shortly around one at which something happens.
func (d *draw) near() span {
	at := pick(d, d.plan.Events).At
	return max(at-span(time.Second)+d.short(), 0)
}

// call is one of those boundaries, the first ones more often.
func (d *draw) call(among []string) string { return among[min(d.IntN(len(among)), d.IntN(len(among)))] }

func (d *draw) fault(kind int) {
	e := event{At: d.near(), Server: 1}
	switch kind {
	case 0, 1:
		e.What, e.Call, e.Nth, e.Fault = callFails, d.call(providerCalls), 1+min(d.IntN(4), d.IntN(4)), pick(d, providerFaults)
	case 2:
		e.What, e.Call, e.Nth, e.Fault = callFails, d.call(storeCalls), 1+min(d.IntN(6), d.IntN(6)), pick(d, storeFaults)
	case 3, 4:
		e = d.crash(e)
	case 5:
		e.What, e.Provider, e.For = providerDown, pick(d, d.plan.Orders).Provider, d.outage()
		e.Fault = pick(d, []fault{lostBefore, lostAfter, lostAfter, errorBefore, errorAfter, errorAfter, busy, unreachable, finalBefore})
		if d.one(2) { // the provider is away from the beginning
			e.At = 0
		}
		d.plan.Span = max(d.plan.Span, e.At+e.For+span(time.Minute))
	case 6:
		if e.What, e.Nth, e.For = noticeLate, 1+d.IntN(4), d.outage(); d.one(3) {
			e.For = 0
		}
	case 7:
		d.doubt()
		return
	default:
		longest := 300 * time.Second // ten leases
		e.What = pick(d, []what{serverFreezes, serverFreezes, databaseDown, partition, partition, clockJumps, serverStops})
		e.For = span(d.Float64() * d.Float64() * float64(longest)).round(time.Second)
	}
	d.add(e)
}

// doubt is a call that does its work while its answer is lost, or its server dies, and whose repeat is said to be wrong.
func (d *draw) doubt() {
	call, nth := pick(d, []string{"charge", "charge", "charge", "refund", "capture"}), 1
	if d.one(2) {
		d.add(event{What: serverDies, Server: 1, Call: call, Fault: after, For: d.short()})
	} else {
		d.add(event{What: callFails, Call: call, Nth: nth, Fault: pick(d, []fault{lostAfter, errorAfter})})
	}
	d.add(event{What: callFails, Call: call, Nth: nth + 1, Fault: refused})
}

func (d *draw) crash(e event) event {
	e.What, e.Fault, e.For = serverDies, pick(d, []fault{before, after}), d.short()
	if e.Call = d.call(storeCalls); d.one(2) {
		e.Call = d.call(providerCalls)
	}
	if d.one(3) {
		e.Call = ""
	}
	return e
}

// outage is how long a provider is away, or a notice: rarely longer than any window.
func (d *draw) outage() span {
	return span(float64(pick(d, []time.Duration{time.Minute, 10 * time.Minute, time.Hour, 8 * time.Hour, 30 * time.Hour})) * d.Float64())
}

func (p plan) String() string {
	text, err := json.MarshalIndent(p, "", "  ")
	if err != nil {
		return err.Error()
	}
	return string(text)
}

// words tells an event as a sentence.
func (p plan) words(e event) string {
	for _, tell := range []func(event) string{p.wordsOfRequest, p.wordsOfFault} {
		if words := tell(e); words != "" {
			return words
		}
	}
	if e.What == refundBounces {
		return fmt.Sprintf("the customer's bank sends the refund of request %d back", e.Of)
	}
	if e.What == operatorActs {
		return "an operator decides about what is in review; to all other sagas: " + cmp.Or(e.Details, "nothing")
	}
	pays := map[bool]string{true: "pays", false: "does not pay"}[e.Good]
	if e.What == customerActs {
		return fmt.Sprintf("the customer of order %d acts: %s", e.Order+1, pays)
	}
	return fmt.Sprintf("the bank decides about order %d: it %s", e.Order+1, pays)
}

func (p plan) wordsOfRequest(e event) string {
	order, server := fmt.Sprintf("order %d", e.Order+1), fmt.Sprintf("server %d", e.Server)
	switch e.What {
	case placeOrder:
		o := p.Orders[e.Order]
		return fmt.Sprintf("the shop places %s at %s: %d pieces at the %s provider, capture %s, on decline %s; its charges go: %v",
			order, server, o.Quantity, o.Provider, o.Capture, o.OnDecline, o.Ways)
	case askContinue:
		return fmt.Sprintf("the shop continues %s at %s with %s details", order, server, e.Details)
	case askAnother:
		return fmt.Sprintf("the shop pays %s in another way, at the %s provider, at %s", order, e.Provider, server)
	case askCapture:
		return fmt.Sprintf("the shop captures %d (0: all) of %s, final: %t, at %s", e.Amount, order, e.Final, server)
	case askCancel:
		return fmt.Sprintf("the shop cancels %s at %s", order, server)
	case askRefund:
		return fmt.Sprintf("the shop refunds %d (0: all) of %s at %s", e.Amount, order, server)
	case repeatRequest:
		return fmt.Sprintf("the shop sends request %d once more, with the same key, to %s", e.Of, server)
	case reuseKey:
		return fmt.Sprintf("the shop sends another request with the key of request %d to %s", e.Of, server)
	default:
		return ""
	}
}

func (plan) wordsOfFault(e event) string {
	server := fmt.Sprintf("server %d", e.Server)
	switch e.What {
	case callFails:
		return fmt.Sprintf("%s call number %d fails: %s", e.Call, e.Nth, e.Fault)
	case serverDies:
		return fmt.Sprintf("%s dies %s its next %s, and is started anew after %s", server, e.Fault, cmp.Or(e.Call, "call"), e.For)
	case serverStops:
		return fmt.Sprintf("%s is told to stop within %s", server, e.For)
	case serverFreezes:
		return fmt.Sprintf("%s stands still for %s", server, e.For)
	case databaseDown:
		return fmt.Sprintf("the database is down for %s", e.For)
	case partition:
		return fmt.Sprintf("%s does not reach the database for %s", server, e.For)
	case clockJumps:
		return fmt.Sprintf("the database's clock jumps ahead by %s", e.For)
	case providerDown:
		return fmt.Sprintf("calls to the %s provider fail for %s: %s", e.Provider, e.For, e.Fault)
	case noticeLate:
		if e.For == 0 {
			return fmt.Sprintf("notice number %d is lost, if it was only a hint", e.Nth)
		}
		return fmt.Sprintf("notice number %d is late by %s", e.Nth, e.For)
	default:
		return ""
	}
}
