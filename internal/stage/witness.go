package stage

import (
	"fmt"
	"reflect"
	"slices"
	"sync"

	"github.com/google/uuid"

	"paysaga/providers"
	"paysaga/providers/sandbox"
	"paysaga/saga"
)

// witness holds each call and each write of a play against those invariants that can be broken for a while and look well in the end. It
// sees what saga/simulation looks at as often, but for the fencing numbers: those the database itself compares.
type witness struct {
	mu     sync.Mutex
	sent   map[string]any            // the first request under each identifier, by call
	lied   map[providers.SubKey]bool // charges about which a play's script tells what is not so
	broken []string
}

func (w *witness) clear() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.sent, w.lied, w.broken = map[string]any{}, map[providers.SubKey]bool{}, nil
}

func (w *witness) failf(format string, arguments ...any) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.broken = append(w.broken, fmt.Sprintf(format, arguments...))
}

// seen are the invariants that were broken so far, each once.
func (w *witness) seen() (all []string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, one := range w.broken {
		if !slices.Contains(all, one) {
			all = append(all, one)
		}
	}
	return all
}

// distrust remembers that the script tells what is not so about a charge: what is made of that is no fault of ours.
func (w *witness) distrust(charge providers.SubKey, told providers.OutcomeKind) {
	if told == providers.Unknown || told == providers.Busy {
		return // says nothing about the charge
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	w.lied[charge] = true
}

// trusts tells that the script has told nothing else of a payment than what it is.
func (w *witness) trusts(charge sandbox.Charge) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	for key := range w.lied {
		if charge.Identifier == Identifier(charge.Provider, key) {
			return false
		}
	}
	return true
}

// stepOf is the step in which the intent of each call is written.
var stepOf = map[saga.Call]saga.StepName{
	saga.CallCharge: saga.StepCharge, saga.CallLookup: saga.StepCharge, saga.CallContinue: saga.StepContinue,
	saga.CallCapture: saga.StepCapture, saga.CallVoid: saga.StepVoid, saga.CallRefund: saga.StepRefund, saga.CallCheckRefund: saga.StepRefund,
}

// leaves looks at a call that is about to be made: its intent is committed (I2), and a repeat says the same as the first time (I3).
func (s *Stage) leaves(provider string, call saga.Call, key providers.SubKey, request any) {
	var intents int
	err := s.Pool.QueryRow(s.Context(), `SELECT count(*) FROM saga_steps WHERE sub_key = $1 AND name = $2 AND provider = $3`,
		string(key), string(stepOf[call]), provider).Scan(&intents)
	if err != nil {
		s.witness.failf("look for the intent of a %s call: %v", call, err)
		return
	}
	if intents == 0 {
		s.witness.failf("I2: a %s call left under %s, of which no intent was committed", call, s.watched(key))
	}
	switch request.(type) {
	case providers.ChargeRequest, providers.CaptureRequest, providers.RefundRequest:
	default:
		return // asks only, or may know more than before
	}
	s.witness.mu.Lock()
	name := string(call) + " " + string(key)
	first, again := s.witness.sent[name]
	if !again {
		s.witness.sent[name] = request
	}
	s.witness.mu.Unlock()
	if again && !reflect.DeepEqual(first, request) {
		s.witness.failf("I3: a %s call under %s said other things than before", call, s.watched(key))
	}
}

// watched is a sub-key with its saga's key cut short: the rest of the line tells which one it is.
func (*Stage) watched(key providers.SubKey) string {
	const uuidLength = 36
	if len(key) <= uuidLength {
		return string(key)
	}
	return "<saga>" + string(key[uuidLength:])
}

// arrived looks at what the providers have after a call was carried out: one live payment of an order at most (I1), and no more goes back
// than was taken, nor is taken than was asked for (I7).
func (s *Stage) arrived(call saga.Call, key providers.SubKey) {
	ledger := s.Sandbox.Ledger()
	for _, charge := range ledger {
		if charge.Refunded > charge.Captured || charge.Captured > charge.Amount {
			s.witness.failf("I7: of a payment over %d, %d are taken and %d given back", charge.Amount, charge.Captured, charge.Refunded)
		}
	}
	if order, readable := sagaOf(key); readable && call == saga.CallCharge {
		s.oneLives(ledger, order)
	}
}

// oneLives checks that at most one of an order's payments is live.
func (s *Stage) oneLives(ledger []sandbox.Charge, order uuid.UUID) {
	var live []string
	for attempt := range mostAttempts {
		for _, charge := range ledger {
			ours := charge.Identifier == Identifier(charge.Provider, saga.SubKey(order, saga.StepCharge, attempt+1))
			if ours && s.witness.trusts(charge) && (keepsMoney(charge) || stillOpen(charge)) {
				live = append(live, charge.Provider+" "+charge.Status)
			}
		}
	}
	if len(live) > 1 {
		s.witness.failf("I1: the order has more than one live payment: %q", live)
	}
}

func sagaOf(key providers.SubKey) (uuid.UUID, bool) {
	const uuidLength = 36
	if len(key) < uuidLength {
		return uuid.UUID{}, false
	}
	id, err := uuid.Parse(string(key[:uuidLength]))
	return id, err == nil
}

// keepsMoney tells that money of a payment is held, or was taken and not given back.
func keepsMoney(charge sandbox.Charge) bool {
	return charge.Authorized > 0 || charge.Captured > charge.Refunded
}

// openWords are the providers' own words for payments that can come to take money although nobody here asks for it any more: the bank
// decides, or the customer sits before its page.
var openWords = map[string][]string{
	Stripe: {"requires_action", "processing"},
	Adyen:  {"Received", "RedirectShopper"},
	PayPal: {"PENDING"}, // an approved order is only taken by a call of ours
}

// stillOpen tells that a payment can still take money.
func stillOpen(charge sandbox.Charge) bool {
	return slices.Contains(openWords[charge.Provider], charge.Status)
}

// wrote looks at a write with which an order is given up, or charged anew: nothing of an earlier charge may be alive or unknown (I4).
func (s *Stage) wrote(after saga.Saga) {
	newest := after.Newest(saga.StepCharge)
	if newest == nil || after.Kind == saga.KindRefund {
		return
	}
	over := after.State == saga.RolledBack
	for _, step := range after.Steps {
		if step.Name != saga.StepCharge {
			continue
		}
		if step.Status == saga.StepFailed && step.Outcome == providers.Unknown {
			s.witness.failf("I4: %s was taken for failed, and its outcome is not known", s.watched(step.SubKey))
		}
		if anew := newest.Attempt > step.Attempt && newest.Status == saga.StepPending; anew || over {
			s.leavesBehind(after, step, anew)
		}
	}
}

// leavesBehind looks at a charge that is left behind: for another one, or as the order is given up.
func (s *Stage) leavesBehind(after saga.Saga, step saga.Step, anew bool) {
	if anew && step.Outcome == providers.Unknown || step.Status == saga.StepUnknown || step.Status == saga.StepPending {
		s.witness.failf("I4: the order went to %s while the outcome of %s was not known", after.State, s.watched(step.SubKey))
	}
	s.leavesNothing(after, step, after.State == saga.RolledBack)
}

// leavesNothing checks that nothing of a charge is alive that is taken for failed or undone. Where nobody can ask, a customer may have
// paid after the void was refused, as nothing was held; the notice of that undoes it later.
func (s *Stage) leavesNothing(after saga.Saga, step saga.Step, over bool) {
	if over && s.Adapters[step.Provider].Windows().NoLookup {
		return
	}
	for _, charge := range s.Sandbox.Ledger() {
		if charge.Provider != step.Provider || charge.Identifier != Identifier(step.Provider, step.SubKey) {
			continue
		}
		if s.witness.trusts(charge) && (keepsMoney(charge) || over && stillOpen(charge)) {
			s.witness.failf("I4: the order went to %s while the payment of %s was %s", after.State, s.watched(step.SubKey), charge.Status)
		}
	}
}

// checkOpen makes sure that nothing can take money any more once nothing is open here. Where nobody can ask, a void is all that can be
// done: what comes after one that was refused, its notice tells.
func (f *Flow) checkOpen(s saga.Saga) {
	f.Helper()
	voided := func(charge sandbox.Charge) bool {
		return f.Adapters[charge.Provider].Windows().NoLookup && slices.ContainsFunc(s.Steps, func(step saga.Step) bool {
			return step.Name == saga.StepVoid && step.Provider == charge.Provider
		})
	}
	for _, charge := range f.Sandbox.Ledger() {
		if stillOpen(charge) && f.witness.trusts(charge) && !voided(charge) {
			f.Errorf("I4: nothing is open here any more, and a payment can still take money: %+v", charge)
		}
	}
}
