package saga

import (
	"slices"
	"time"

	"pgregory.net/rapid"

	"paysaga/providers"
	"paysaga/saga/simulation/bank"
)

// simulated is a bank whose charges go as chance has it, and whose accepted modifications are carried out when chance says so.
type simulated struct {
	*bank.Bank

	windows  providers.Windows
	now      time.Time
	pending  []func()                  // modifications that were accepted and not carried out
	received map[providers.SubKey]bool // calls that move money

	voided     map[providers.SubKey]time.Time // when first
	voidsTwice bool                           // a void was sent again after its key was forgotten: it is carried out twice
}

var simulatedKinds = []string{string(bank.SelfPaying), string(bank.Approving), string(bank.Deferring)}

func newSimulated(t *rapid.T, kind string, tell func(n providers.Notice)) *simulated {
	b := &simulated{windows: bank.Kind(kind).Windows(), now: noon, received: map[providers.SubKey]bool{}, voided: map[providers.SubKey]time.Time{}}
	ways := []bank.Way{bank.Pays, bank.Pays, bank.Asks, bank.Asks, bank.Declines, bank.Moves, bank.Rejects}
	b.Bank = bank.New(bank.Kind(kind), bank.World{
		Now:      func() time.Time { return b.now },
		Way:      func(providers.SubKey) bank.Way { return rapid.SampledFrom(ways).Draw(t, "way") },
		Lag:      func(providers.SubKey) time.Duration { return 0 },
		Accepted: func(_ providers.SubKey, carryOut func()) { b.pending = append(b.pending, carryOut) },
		Tell:     tell,
	})
	return b
}

// act is what the customer or the bank does to a payment by itself.
func (b *simulated) act(t *rapid.T, p *bank.Payment) {
	good := rapid.SampledFrom([]bool{true, true, false}).Draw(t, "good")
	b.Decide(p, good)
	b.Act(p, good)
}

// moving tells that the bank still decides about a payment.
func (b *simulated) moving() bool {
	return slices.ContainsFunc(b.Payments(), func(p *bank.Payment) bool { return p.State == bank.Moving })
}

// settle carries out one accepted modification.
func (b *simulated) settle(t *rapid.T) {
	if len(b.pending) == 0 {
		return
	}
	i := rapid.IntRange(0, len(b.pending)-1).Draw(t, "modification")
	work := b.pending[i]
	b.pending = slices.Delete(b.pending, i, i+1)
	work()
}

// pass lets holds end whose time is over.
func (b *simulated) pass(now time.Time) {
	b.now = now
	for _, p := range b.Payments() {
		b.Expire(p)
	}
}

func (b *simulated) dispatch(s *Saga, call Call) providers.Outcome {
	step, reference := s.step(stepOf(call)), s.chargeReference()
	switch call {
	case CallCharge:
		return b.Charge(s.chargeRequest(*step))
	case CallContinue:
		return b.Continue(s.continueRequest(*step))
	case CallCapture:
		b.received[step.SubKey] = true
		return b.Capture(providers.CaptureRequest{Key: step.SubKey, Reference: reference, Money: s.moneyOf(*step), Final: step.Final})
	case CallVoid:
		first, again := b.voided[step.SubKey]
		if !again {
			b.voided[step.SubKey] = b.now
		}
		b.voidsTwice = b.voidsTwice || again && b.now.Sub(first) >= b.windows.Repost
		return b.Void(s.voidRequest(*step, b.windows))
	case CallRefund:
		b.received[step.SubKey] = true
		return b.Refund(providers.RefundRequest{Key: step.SubKey, Reference: reference, Money: s.moneyOf(*step)})
	case CallCheckRefund:
		return b.LookupRefund(providers.RefundLookupRequest{Key: step.SubKey, Payment: reference, Reference: step.ProviderReference})
	case CallLookup, CallNone, CallStep, CallUndo: // no steps of its own here
	}
	return b.Lookup(providers.LookupRequest{Key: step.SubKey, Reference: reference})
}
