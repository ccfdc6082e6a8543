package saga

import (
	"fmt"
	"time"

	"pgregory.net/rapid"

	"paysaga/providers"
)

// simulated is a provider with a truth of its own, of one of the three kinds that there are: one that can be asked and whose
// customers pay by themselves, one that can be asked and where only we take what was approved, and one that cannot be asked,
// carries all modifications out later, and tells of everything by notices.
type simulated struct {
	kind     string
	windows  providers.Windows
	now      time.Time
	payments []*simPayment
	pending  []func()                                   // modifications that were accepted and not carried out
	answers  map[providers.SubKey]providers.Outcome     // to modifications, by key
	tell     func(n providers.Notice)                   // sends a notice
	draw     func(label string, among ...string) string // what chance decides
}

const (
	selfPaying = "self-paying"
	approving  = "approving"
	deferring  = "deferring"
)

var simulatedKinds = []string{selfPaying, approving, deferring}

type simPayment struct {
	key                      providers.SubKey
	reference, state         string
	manual, asked            bool
	amount                   int64
	held, captured, refunded int64
	first, heldAt            time.Time
}

// The states of a payment at a provider.
const (
	simWaiting  = "waiting"
	simApproved = "approved"
	simMoving   = "moving"
	simHeld     = "held" // in part or in whole
	simTaken    = "taken"
	simDeclined = "declined"
	simGone     = "gone"
)

func newSimulated(kind string) *simulated {
	windows := map[string]providers.Windows{
		selfPaying: {Repost: 23 * time.Hour, LookupDelay: time.Hour, StaysPayable: true, Hold: 7 * 24 * time.Hour},
		approving:  {Repost: 5 * time.Hour, LookupDelay: 3 * time.Hour, Hold: 29 * 24 * time.Hour},
		deferring:  {Repost: 6 * 24 * time.Hour, NoLookup: true, Hold: 28 * 24 * time.Hour},
	}[kind]
	return &simulated{kind: kind, windows: windows, answers: map[providers.SubKey]providers.Outcome{}}
}

// live tells whether a payment holds or keeps money, or can come to without us.
func (p *simPayment) live(windows providers.Windows) bool {
	switch p.state {
	case simWaiting, simApproved, simMoving, simHeld:
		return true
	case simDeclined:
		return windows.StaysPayable && p.asked
	}
	return p.captured > p.refunded
}

func (b *simulated) find(reference string, key providers.SubKey) *simPayment {
	for _, p := range b.payments {
		if reference != "" && p.reference == reference || reference == "" && p.key == key {
			return p
		}
	}
	return nil
}

func (b *simulated) outcome(p *simPayment) providers.Outcome {
	outcome := providers.Outcome{Reference: p.reference, Money: euros(p.amount)}
	switch p.state {
	case simWaiting:
		outcome.Kind, outcome.NextAction = providers.ActionRequired, &providers.NextAction{Type: "redirect", URL: "https://bank.example"}
	case simApproved:
		outcome.Kind, outcome.Code = providers.Processing, providers.CodeApproved
	case simMoving:
		outcome.Kind = providers.Processing
	case simHeld:
		outcome.Kind = providers.Authorized
		if p.captured > 0 {
			outcome.Code = providers.CodePartiallyCaptured
		}
	case simDeclined:
		outcome.Kind, outcome.Decline = providers.Declined, &providers.Decline{Code: "no"}
	case simGone:
		outcome.Kind = providers.Canceled
	case simTaken:
		outcome.Kind, outcome.Money = providers.Succeeded, euros(p.captured)
		if p.refunded > 0 {
			outcome.Code = providers.CodePartiallyRefunded
		}
		if p.refunded == p.captured {
			outcome.Kind, outcome.Code = providers.Canceled, providers.CodeRefunded
		}
	}
	return outcome
}

// pay ends a payment well.
func (b *simulated) pay(p *simPayment) {
	if p.manual {
		p.state, p.held, p.heldAt = simHeld, p.amount, b.now
	} else {
		p.state, p.captured = simTaken, p.amount
	}
	b.announce(providers.AboutCharge, p.key, p, "", providers.Outcome{Kind: providers.Authorized, Money: euros(p.amount)})
}

func (b *simulated) refuse(p *simPayment) {
	p.state = simDeclined
	b.announce(providers.AboutCharge, p.key, p, "", b.outcome(p))
}

// announce sends a notice: all that there is to tell where nobody can ask, and else a hint.
func (b *simulated) announce(about providers.About, key providers.SubKey, p *simPayment, reference string, outcome providers.Outcome) {
	notice := providers.Notice{About: about, Key: key, Reference: reference, Type: string(outcome.Kind)}
	if p != nil {
		notice.Payment = p.reference
	}
	if b.windows.NoLookup {
		outcome.Reference = reference
		notice.Outcome = &outcome
	}
	b.tell(notice)
}

func (b *simulated) charge(r providers.ChargeRequest) providers.Outcome {
	if p := b.find("", r.Key); p != nil && b.now.Sub(p.first) < b.windows.Repost+time.Hour {
		return b.outcome(p)
	}
	how := b.draw("charge", "pays", "pays", "asks", "asks", "declines", "moves", "rejects")
	if how == "rejects" {
		return providers.Outcome{Kind: providers.Rejected, Code: "invalid"}
	}
	p := &simPayment{
		key: r.Key, reference: fmt.Sprintf("%s_%d", b.kind, len(b.payments)+1), manual: r.ManualCapture, amount: r.Money.Amount, first: b.now,
	}
	b.payments = append(b.payments, p)
	switch how {
	case "pays":
		b.pay(p)
	case "asks":
		p.state = simWaiting
	case "moves":
		p.state = simMoving
	case "declines":
		b.refuse(p)
	}
	return b.outcome(p)
}

// act is what the customer or the bank does to a payment by itself.
func (b *simulated) act(p *simPayment) {
	good := b.draw("customer", "pays", "pays", "fails") == "pays"
	switch {
	case !b.canMove(p):
	case p.state == simWaiting && b.kind == approving && good:
		p.state = simApproved
		b.announce(providers.AboutCharge, p.key, p, "", b.outcome(p))
	case p.state == simWaiting && b.kind == approving: // goes away
	case good:
		b.pay(p)
	default:
		b.refuse(p)
	}
}

// canMove tells that the bank still decides, or that the customer was told what to do and can.
func (b *simulated) canMove(p *simPayment) bool {
	return p.state == simMoving || p.asked && (p.state == simWaiting || p.state == simDeclined && p.live(b.windows))
}

func (b *simulated) proceed(r providers.ContinueRequest) providers.Outcome {
	p := b.find(r.Reference, r.ChargeKey)
	if string(r.Details) == "bad" && b.windows.NoLookup {
		return providers.Outcome{Kind: providers.Rejected, Code: "details"}
	}
	if string(r.Details) == "other" && b.windows.NoLookup {
		return providers.Outcome{Kind: providers.Unknown, Code: providers.CodeOtherPayment}
	}
	if p.state == simApproved {
		if b.draw("approved", "pays", "pays", "fails") == "pays" {
			b.pay(p)
		} else {
			b.refuse(p)
		}
	}
	return b.outcome(p)
}

// modify carries a modification out at once, or accepts it; the same key never does so twice.
func (b *simulated) modify(key providers.SubKey, p *simPayment, about providers.About, named providers.SubKey, work func() providers.Outcome) providers.Outcome {
	if answer, again := b.answers[key]; again {
		return answer
	}
	if !b.windows.NoLookup {
		outcome := work()
		outcome.Reference = p.reference
		if outcome.Kind != providers.Busy {
			b.answers[key] = outcome
		}
		return outcome
	}
	reference := fmt.Sprintf("modification_%d", len(b.answers)+1)
	b.answers[key] = providers.Outcome{Kind: providers.Processing, Reference: reference}
	b.pending = append(b.pending, func() { b.announce(about, named, p, reference, work()) })
	return b.answers[key]
}

func (b *simulated) capture(r providers.CaptureRequest) providers.Outcome {
	p := b.find(r.Reference, "")
	return b.modify(r.Key, p, providers.AboutCapture, r.Key, func() providers.Outcome {
		switch {
		case p.state == simGone && !b.windows.NoLookup:
			return providers.Outcome{Kind: providers.Canceled, Code: providers.CodeAuthorizationExpired}
		case p.held < r.Money.Amount:
			return providers.Outcome{Kind: providers.Declined, Code: "not_held", Decline: &providers.Decline{Code: "not_held"}}
		}
		p.captured, p.held = p.captured+r.Money.Amount, p.held-r.Money.Amount
		if r.Final || p.held == 0 {
			p.held, p.state = 0, simTaken
		}
		return providers.Outcome{Kind: providers.Succeeded, Money: r.Money}
	})
}

func (b *simulated) void(r providers.VoidRequest) providers.Outcome {
	p, named := b.find(r.Reference, r.ChargeKey), r.Key
	if p == nil && !b.windows.NoLookup {
		return providers.Outcome{Kind: providers.Rejected, Code: "no_such_payment"}
	}
	if r.Reference == "" {
		named = r.ChargeKey
	}
	return b.modify(r.Key, p, providers.AboutVoid, named, func() providers.Outcome { return b.close(p, r) })
}

// close undoes a payment as far as the call can.
func (b *simulated) close(p *simPayment, r providers.VoidRequest) providers.Outcome {
	reverses := b.windows.NoLookup && r.Reference != "" && !r.ManualCapture
	switch {
	case b.windows.NoLookup && (p == nil || p.state != simHeld && p.state != simTaken):
		return providers.Outcome{Kind: providers.Rejected, Code: providers.CodeVoidRefused}
	case p.captured > p.refunded && reverses:
		p.refunded, p.held = p.captured, 0
		return providers.Outcome{Kind: providers.Succeeded, Code: providers.CodeRefunded}
	case p.captured > 0:
		return providers.Outcome{Kind: providers.Rejected, Code: providers.CodeAlreadyCaptured}
	case p.state == simMoving:
		return providers.Outcome{Kind: providers.Busy, Code: providers.CodeNotCancelableYet}
	}
	p.state, p.held = simGone, 0
	return providers.Outcome{Kind: providers.Succeeded}
}

func (b *simulated) refund(r providers.RefundRequest) providers.Outcome {
	p := b.find(r.Reference, "")
	return b.modify(r.Key, p, providers.AboutRefund, r.Key, func() providers.Outcome {
		if p.captured-p.refunded < r.Money.Amount {
			return providers.Outcome{Kind: providers.Declined, Code: "too_much", Decline: &providers.Decline{Code: "too_much"}}
		}
		p.refunded += r.Money.Amount
		return providers.Outcome{Kind: providers.Succeeded, Money: r.Money}
	})
}

// settle carries out one accepted modification.
func (b *simulated) settle(t *rapid.T) {
	if len(b.pending) == 0 {
		return
	}
	i := rapid.IntRange(0, len(b.pending)-1).Draw(t, "modification")
	work := b.pending[i]
	b.pending = append(b.pending[:i:i], b.pending[i+1:]...)
	work()
}

// pass lets holds end whose time is over.
func (b *simulated) pass(now time.Time) {
	b.now = now
	for _, p := range b.payments {
		if p.state != simHeld || now.Sub(p.heldAt) < b.windows.Hold {
			continue
		}
		p.held, p.state = 0, simGone
		if p.captured > 0 {
			p.state = simTaken
		}
		b.announce(providers.AboutCharge, p.key, p, "", providers.Outcome{Kind: providers.Canceled, Code: providers.CodeAuthorizationExpired})
	}
}

func (b *simulated) dispatch(s *Saga, call Call) providers.Outcome {
	step, reference := s.step(stepOf(call)), s.chargeReference()
	switch call {
	case CallCharge:
		return b.charge(s.chargeRequest(*step))
	case CallContinue:
		return b.proceed(s.continueRequest(*step))
	case CallCapture:
		return b.capture(providers.CaptureRequest{Key: step.SubKey, Reference: reference, Money: s.moneyOf(*step), Final: step.Final})
	case CallVoid:
		return b.void(s.voidRequest(*step, b.windows))
	case CallRefund:
		return b.refund(providers.RefundRequest{Key: step.SubKey, Reference: reference, Money: s.moneyOf(*step)})
	case CallCheckRefund:
		if answer, ok := b.answers[step.SubKey]; ok {
			return answer
		}
		return providers.Outcome{Kind: providers.NotFound}
	case CallLookup, CallNone, CallStep, CallUndo: // no steps of its own here
	}
	if p := b.find(reference, step.SubKey); p != nil {
		return b.outcome(p)
	}
	return providers.Outcome{Kind: providers.NotFound}
}
