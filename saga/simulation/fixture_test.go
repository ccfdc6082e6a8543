package simulation

import (
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"paysaga/saga/fixture"
	"paysaga/saga/simulation/bank"
)

// What a plan becomes as a fixture: one order at the real provider of its kind, and all that has a counterpart there. The expectation is
// left empty, for "paysaga fixtures replay --update" to fill in.

// realProviders are those that the kinds of banks are made after.
var realProviders = map[bank.Kind]fixture.ProviderName{bank.SelfPaying: "stripe", bank.Approving: "paypal", bank.Deferring: "adyen"}

// methods are the sandbox's, by how a charge goes.
var methods = map[fixture.ProviderName]map[bank.Way]string{
	"stripe": {
		bank.Pays: "pm_card_visa", bank.Asks: "pm_card_authenticationRequired", bank.Declines: "pm_card_chargeDeclinedInsufficientFunds",
		bank.Moves: "pm_usBankAccount_processing",
	},
	"adyen": {
		bank.Pays: "stored_APPROVED", bank.Asks: "stored_REDIRECT", bank.Declines: "stored_NOT_ENOUGH_BALANCE", bank.Moves: "stored_PENDING",
	},
	"paypal": {
		bank.Pays: "vault_COMPLETED", bank.Asks: "wallet", bank.Declines: "vault_INSTRUMENT_DECLINED", bank.Moves: "vault_PENDING",
	},
}

const backAt = "https://shop.example/back"

// sketch is a plan on its way to be a fixture.
type sketch struct {
	plan   plan
	order  int
	made   fixture.Fixture
	lost   []string // what has no counterpart
	placed bool
}

// asFixture writes a plan as a fixture. Of several orders it takes the one about which most is told.
func (p plan) asFixture(broken string) (string, error) {
	s := sketch{plan: p, order: p.mainOrder()}
	o := p.Orders[s.order]
	provider := realProviders[o.Provider]
	s.made = fixture.Fixture{
		Version: fixture.Version, Description: fmt.Sprintf("From the simulation, seed %d: %s", p.Seed, broken), SeveralCaptures: true,
		Stock: map[string]int64{sku: p.Stock},
		Order: fixture.Order{
			Currency: "USD", Amount: o.amount(), Items: []fixture.Item{{SKU: sku, Quantity: o.Quantity, UnitAmount: unitAmount}},
			Payment: fixture.Payment{
				Provider: provider, Method: s.method(provider, o.way(1)), Capture: fixture.CaptureMode(o.Capture),
				OnDecline: fixture.OnDecline(o.OnDecline), ReturnURL: backAt,
			},
		},
	}
	for _, e := range p.Events {
		s.add(e)
	}
	yaml, err := fixture.ToYAML(s.made)
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

func (s *sketch) happen(e event, h fixture.Happening) {
	h.At = fixture.Duration(time.Duration(e.At).Round(time.Second))
	s.made.Happenings = append(s.made.Happenings, h)
}

func (s *sketch) add(e event) {
	if e.Order != s.order && e.ofOrder() {
		return
	}
	of := s.repeated(e)
	h, found := s.request(of)
	if !found {
		h, found = s.other(e)
	}
	line, differs := lineOf(e)
	switch {
	case differs:
		s.made.Provider = append(s.made.Provider, line)
	case found && (s.placed || of.What == placeOrder || !of.ofOrder() && of.What != operatorActs):
		s.placed = s.placed || of.What == placeOrder
		s.happen(e, h)
	default:
		s.lost = append(s.lost, s.plan.words(e))
	}
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
	case bankDecides:
		h.Bank = map[bool]fixture.BankAct{true: "settle", false: "fail"}[e.Good]
	case refundBounces:
		h.Bank = "fail_refunds"
	case operatorActs:
		h.Operator = &fixture.Operator{Resolution: fixture.ResolutionName(e.Details)}
		return h, e.Details != ""
	case serverDies:
		h.Crash = breakOf(e.Call, e.Fault)
		return h, h.Crash != nil
	case callFails:
		h.Cut = breakOf(e.Call, map[bool]fault{true: after, false: before}[e.Fault == lostAfter || e.Fault == errorAfter])
		return h, h.Cut != nil && !slices.Contains(providerCalls, e.Call)
	default:
		return h, false
	}
	return h, true
}

// breakOf is a death, or a broken connection, at the next write; nil for one at what writes nothing.
func breakOf(call string, when fault) *fixture.Break {
	switch call {
	case "", "apply", "begin", "ask":
		return &fixture.Break{Write: 1, When: fixture.When(when)}
	case "charge", "capture", "refund", "void", "continue": // right before it an intent is written, right after it an outcome
		if when == before {
			return &fixture.Break{Write: 1, When: "after"}
		}
		return &fixture.Break{Write: 2, When: "before"}
	}
	return nil
}

// lineOf is how a provider's answers differ.
func lineOf(e event) (line fixture.Line, found bool) {
	const whileItLasts = 50
	switch {
	case e.What == callFails && slices.Contains(providerCalls, e.Call):
		line.Call = fixture.CallName(e.Call)
	case e.What == providerDown:
		line.Call, line.Times = "any", whileItLasts
	default:
		return line, false
	}
	wire := map[fault]fixture.FaultName{
		lostBefore: "reset_before", lostAfter: "reset_after", errorBefore: "error_before", errorAfter: "error_after", busy: "rate_limited",
		unreachable: "reset_before", finalBefore: "error_before", finalAfter: "error_saved", replayed: "error_saved",
	}[e.Fault]
	onlyAnswered := line.Call == "continue" || line.Call == "check_refund"
	if wire != "" && !onlyAnswered {
		line.Fault = wire
		return line, true
	}
	outcome := e.Fault.outcome()
	line.Answer = &fixture.Answer{Outcome: fixture.OutcomeName(outcome.Kind), Code: outcome.Code, Unsent: e.Fault != lostAfter && e.Fault != errorAfter}
	line.After = int64(max(e.Nth-1, 0))
	return line, true
}

// Every plan becomes a fixture that can be read.
func TestPlansBecomeFixtures(t *testing.T) {
	t.Parallel()
	const seeds = 300
	for seed := range uint64(seeds) {
		text, err := newPlan(seed).asFixture("an invariant")
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
	broken := "nothing is broken."
	if v := run(t, p, nil).violation; v != nil {
		p = shrink(t, p, v.invariant)
		broken = v.invariant + " was broken."
	}
	text, err := p.asFixture(broken)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	fmt.Printf("wrote %s; now: paysaga fixtures replay --update %s\n", file, file)
}
