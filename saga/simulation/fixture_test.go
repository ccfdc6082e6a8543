package simulation

import (
	"cmp"
	"fmt"
	"maps"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"paysaga/saga/fixture"
	"paysaga/saga/simulation/bank"
)

// What a run becomes as a fixture: one order at the real provider of its kind, and all that has a counterpart there. It expects nothing
// but what every fixture must keep, the invariants: what a run breaks, a fixture of it breaks as well, and no longer once that is mended.

// realProviders are those that the kinds of banks are made after.
var realProviders = map[bank.Kind]fixture.ProviderName{bank.SelfPaying: "stripe", bank.Approving: "paypal", bank.Deferring: "adyen"}

// methods are the sandbox's, by how a charge goes.
var methods = map[fixture.ProviderName]map[bank.Way]string{
	"stripe": {
		bank.Pays: "pm_card_visa", bank.Asks: "pm_card_authenticationRequired", bank.Declines: "pm_card_chargeDeclinedInsufficientFunds",
		bank.Moves: "pm_usBankAccount_processing", bank.Rejects: "pm_nonsense",
	},
	"adyen": {
		bank.Pays: "stored_APPROVED", bank.Asks: "stored_REDIRECT", bank.Declines: "stored_NOT_ENOUGH_BALANCE", bank.Moves: "stored_PENDING", bank.Rejects: "stored_NONSENSE",
	},
	"paypal": {
		bank.Pays: "vault_COMPLETED", bank.Asks: "wallet", bank.Declines: "vault_INSTRUMENT_DECLINED", bank.Moves: "vault_PENDING", bank.Rejects: "vault_NONSENSE",
	},
}

const backAt = "https://shop.example/back"

// sketch is a plan on its way to be a fixture.
type sketch struct {
	plan   plan
	order  int
	met    met
	made   fixture.Fixture
	lost   []string // what has no counterpart
	placed bool
}

// asFixture writes a plan as a fixture, with what a run of it met. Of several orders it takes the one about which most is told.
func (p plan) asFixture(broken string, met met) (string, error) {
	s := sketch{plan: p, order: p.mainOrder(), met: met}
	o := p.Orders[s.order]
	provider := realProviders[o.Provider]
	s.made = fixture.Fixture{
		Version: fixture.Version, Description: fmt.Sprintf("From the simulation, seed %d: %s", p.Seed, broken), SeveralCaptures: true,
		Workers: true, Stock: map[string]int64{sku: p.Stock},
		Order: fixture.Order{
			Currency: "USD", Amount: o.amount(), Items: []fixture.Item{{SKU: sku, Quantity: o.Quantity, UnitAmount: unitAmount}},
			Payment: fixture.Payment{
				Provider: provider, Method: s.method(provider, o.way(1)), Capture: fixture.CaptureMode(o.Capture),
				OnDecline: fixture.OnDecline(o.OnDecline), ReturnURL: backAt,
			},
		},
	}
	s.made.Provider = s.lines()
	for _, e := range p.Events {
		s.add(e)
	}
	s.banks()
	s.happen(p.Span, fixture.Happening{Mend: &fixture.Mend{}})
	slices.SortStableFunc(s.made.Happenings, func(a, b fixture.Happening) int { return cmp.Compare(a.At, b.At) })
	yaml, err := fixture.ToYAML(&s.made)
	if err != nil {
		return "", fmt.Errorf("write a plan as a fixture: %w", err)
	}
	var text strings.Builder
	text.WriteString("# Guards against: (say it in a sentence)\n")
	for _, lost := range s.lost {
		text.WriteString("# No counterpart here: " + lost + "\n")
	}
	return text.String() + yaml, nil
}

// mainOrder is the order that is placed and about which most of the events are.
func (p plan) mainOrder() int {
	events, placed := make([]int, len(p.Orders)), make([]bool, len(p.Orders))
	for _, e := range p.Events {
		events[e.Order]++
		placed[e.Order] = placed[e.Order] || e.What == placeOrder
	}
	for i := range events {
		if !placed[i] {
			events[i] = 0
		}
	}
	return slices.Index(events, slices.Max(events))
}

// method is the sandbox's for a way, or the plainest.
func (s *sketch) method(provider fixture.ProviderName, way bank.Way) string {
	if method := methods[provider][way]; method != "" {
		return method
	}
	s.lost = append(s.lost, "a charge that goes: "+string(way))
	return methods[provider][bank.Pays]
}

func (s *sketch) happen(at span, h fixture.Happening) {
	h.At = fixture.Duration(time.Duration(at).Round(time.Millisecond))
	s.made.Happenings = append(s.made.Happenings, h)
}

func (s *sketch) add(e event) {
	if e.Order != s.order && e.ofOrder() || e.What == bankDecides || e.hitsProvider() {
		return // another order's, or told by what the banks did, or by a line
	}
	of := s.repeated(e)
	h, found := s.request(of)
	if !found {
		h, found = s.other(e)
	}
	at := e.At
	if e.What == callFails {
		at = 0 // from the beginning on its calls are counted
	}
	if !found || !s.fits(of) {
		s.lost = append(s.lost, s.plan.words(e))
		return
	}
	s.placed = s.placed || of.What == placeOrder
	s.happen(at, h)
}

// fits tells that there is what an event is about, as far as the events before it tell.
func (s *sketch) fits(e event) bool {
	return s.placed || e.What == placeOrder || !e.ofOrder() && e.What != operatorActs
}

// banks tells what the order's bank decided; about a payment that the run did not come to, it decides in the end.
func (s *sketch) banks() {
	acts := map[bool]fixture.BankAct{true: "settle", false: "fail"}
	order := orderID(s.plan, s.order).String() + "_"
	known := false
	for _, one := range s.met.banks {
		if strings.HasPrefix(string(one.key), order) {
			known = true
			s.happen(span(one.at), fixture.Happening{Bank: acts[one.good]})
		}
	}
	if !known && slices.Contains(s.plan.Orders[s.order].Ways, bank.Moves) {
		s.happen(s.plan.Span, fixture.Happening{Bank: "settle"})
	}
}

// hitsProvider tells the faults of calls to a provider.
func (e event) hitsProvider() bool {
	return e.What == callFails && slices.Contains(providerCalls, e.Call)
}

// repeated is the request that a repeat is of; else the event itself.
func (s *sketch) repeated(e event) event {
	for _, first := range s.plan.Events {
		if e.What == repeatRequest && first.ID == e.Of {
			return first
		}
	}
	return e
}

// ofOrder tells the events that are about an order.
func (e event) ofOrder() bool {
	switch e.What {
	case placeOrder, askContinue, askAnother, askCapture, askCancel, askRefund, repeatRequest, reuseKey, customerActs, bankDecides, refundBounces:
		return true
	default:
		return false
	}
}

// request is what the shop asks.
func (s *sketch) request(e event) (h fixture.Happening, found bool) {
	key := fmt.Sprintf("request-%d", e.ID)
	switch e.What {
	case placeOrder:
		h.Place = &fixture.Place{}
	case askContinue:
		h.Continue = &fixture.Continue{Key: key, Empty: e.Details != "good"}
	case askAnother:
		provider := realProviders[e.Provider]
		h.Continue = &fixture.Continue{Key: key, Payment: &fixture.NewPayment{
			Provider: provider, Method: s.method(provider, s.plan.Orders[s.order].way(2)), ReturnURL: backAt,
		}}
	case askCapture:
		h.Capture = &fixture.Capture{Key: key, Amount: e.Amount, Final: e.Final}
	case askCancel:
		h.Cancel = &fixture.Cancel{Key: key}
	case askRefund:
		h.Refund = &fixture.Refund{Key: key, Amount: e.Amount}
	default:
		return h, false
	}
	return h, true
}

// other is what customers, banks, operators and servers do.
func (s *sketch) other(e event) (h fixture.Happening, found bool) {
	switch e.What {
	case customerActs:
		h.Customer = map[bool]fixture.CustomerAct{true: "approve", false: "refuse"}[e.Good]
	case refundBounces:
		h.Bank = "fail_refunds"
	case operatorActs:
		h.Operator = &fixture.Operator{Key: fmt.Sprintf("decision-%d", e.ID), Resolution: fixture.ResolutionName(e.Details)}
		return h, e.Details != ""
	case providerDown:
		h.Provider = []fixture.Line{{
			Call: "any", Provider: realProviders[e.Provider], Answer: answerOf(e.Fault),
			For: fixture.Duration(time.Duration(e.For).Round(time.Millisecond)),
		}}
		return h, e.For > 0
	case serverDies:
		h.Crash, found = s.broken(e)
		return h, found
	case callFails, databaseDown, partition:
		h.Cut, found = s.broken(e)
		return h, found
	default:
		return h, false
	}
	return h, true
}

// broken is where an event broke something, if the run came to that.
func (s *sketch) broken(e event) (*fixture.Break, bool) {
	one, found := s.met.breaks[e.ID]
	return &one, found
}

// lines are the calls of which the plan says by their number how they end. Of one kind, they are counted from the one before.
func (s *sketch) lines() (lines []fixture.Line) {
	for _, call := range providerCalls {
		told := map[int]event{}
		for _, e := range s.plan.Events {
			if _, twice := told[e.Nth]; e.hitsProvider() && e.Call == call && !twice {
				told[e.Nth] = e
			}
		}
		last := 0
		for _, nth := range slices.Sorted(maps.Keys(told)) {
			lines = append(lines, fixture.Line{Call: fixture.CallName(call), Answer: answerOf(told[nth].Fault), After: int64(nth - last - 1)})
			last = nth
		}
	}
	return lines
}

// answerOf is what an adapter makes of a fault.
func answerOf(f fault) *fixture.Answer {
	outcome := f.outcome()
	carriedOut := f == lostAfter || f == errorAfter || f == finalAfter || f == replayed
	return &fixture.Answer{Outcome: fixture.OutcomeName(outcome.Kind), Code: outcome.Code, Unsent: !carriedOut}
}

// Every run becomes a fixture that can be read.
func TestRunsBecomeFixtures(t *testing.T) {
	t.Parallel()
	const seeds = 300
	for seed := range uint64(seeds) {
		p := newPlan(seed)
		text, err := p.asFixture("nothing is broken.", run(t, p, nil).met)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := fixture.Read("plan.yaml", strings.NewReader(text)); err != nil {
			t.Fatalf("seed %d: %v\n%s", seed, err, text)
		}
	}
}

// writeFixture makes the plan of a run small, if it fails, and writes it as a fixture.
func writeFixture(t *testing.T, p plan, file string) {
	t.Helper()
	o := run(t, p, nil)
	broken := "nothing is broken."
	if o.violation != nil {
		p = shrink(t, p, o.violation.invariant)
		o = run(t, p, nil)
		broken = o.violation.invariant + " was broken."
	}
	text, err := p.asFixture(broken, o.met)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	fmt.Printf("wrote %s (%s); now: paysaga fixtures replay %s\n", file, broken, file)
}
