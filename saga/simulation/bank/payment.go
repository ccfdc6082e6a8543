package bank

import (
	"fmt"
	"time"

	"paysaga/providers"
)

// State is how a payment stands at the bank.
type State string

// The states of a payment.
const (
	Waiting  State = "waiting"  // for its customer
	Approved State = "approved" // by its customer, and not taken yet
	Moving   State = "moving"   // the bank decides
	OnHold   State = "on_hold"  // in part or in whole
	Paid     State = "paid"
	Refused  State = "refused"
	Gone     State = "gone"
)

// Payment is one payment.
type Payment struct {
	Key       providers.SubKey
	Reference string
	State     State
	Manual    bool // held first
	Asked     bool // the customer was told what to do
	Money     providers.Money
	OnHold    int64 // minor units, as the next two
	Taken     int64
	Returned  int64
	MadeAt    time.Time
	FoundAt   time.Time // by a search
	heldAt    time.Time
}

// Live tells whether a payment holds or keeps money, or can come to without us.
func (b *Bank) Live(p *Payment) bool {
	switch p.State {
	case Waiting, Approved, Moving, OnHold:
		return true
	case Refused:
		return b.windows.StaysPayable && p.Asked
	case Paid, Gone:
	}
	return p.Taken > p.Returned
}

func (p *Payment) money(amount int64) providers.Money {
	return providers.Money{Amount: amount, Currency: p.Money.Currency}
}

// outcome says how a payment stands.
func (p *Payment) outcome() providers.Outcome {
	outcome := providers.Outcome{Reference: p.Reference, Money: p.Money}
	switch p.State {
	case Waiting:
		outcome.Kind = providers.ActionRequired
		outcome.NextAction = &providers.NextAction{Type: "redirect", URL: "https://bank.example/" + p.Reference}
	case Approved:
		outcome.Kind, outcome.Code = providers.Processing, providers.CodeApproved
	case Moving:
		outcome.Kind = providers.Processing
	case OnHold:
		outcome.Kind = providers.Authorized
		if p.Taken > 0 {
			outcome.Code = providers.CodePartiallyCaptured
		}
	case Refused:
		outcome.Kind, outcome.Decline = providers.Declined, &providers.Decline{Code: "refused"}
	case Gone:
		outcome.Kind = providers.Canceled
	case Paid:
		outcome.Kind, outcome.Money = providers.Succeeded, p.money(p.Taken)
		if p.Returned > 0 {
			outcome.Code = providers.CodePartiallyRefunded
		}
		if p.Returned == p.Taken {
			outcome.Kind, outcome.Code = providers.Canceled, providers.CodeRefunded
		}
	}
	return outcome
}

// pay ends a payment well.
func (b *Bank) pay(p *Payment) {
	if p.Manual {
		p.State, p.OnHold, p.heldAt = OnHold, p.Money.Amount, b.Now()
		b.record(Held, p, p.Key, p.Money.Amount)
	} else {
		p.State, p.Taken = Paid, p.Money.Amount
		b.record(Taken, p, p.Key, p.Money.Amount)
	}
	b.announce(providers.AboutCharge, p.Key, p, "", providers.Outcome{Kind: providers.Authorized, Money: p.Money})
}

func (b *Bank) refuse(p *Payment) {
	p.State = Refused
	b.announce(providers.AboutCharge, p.Key, p, "", p.outcome())
}

// remembers tells that a key which was used at a time is still known.
func (b *Bank) remembers(used time.Time) bool {
	return b.Now().Sub(used) < b.windows.Repost+memoryMargin
}

// Charge makes a payment. The same key makes no second one while the bank remembers it.
func (b *Bank) Charge(r providers.ChargeRequest) providers.Outcome {
	if p := b.find("", r.Key); p != nil && b.remembers(p.MadeAt) {
		return p.outcome()
	}
	way := b.Way(r.Key)
	if way == Rejects {
		return providers.Outcome{Kind: providers.Rejected, Code: "invalid"}
	}
	now, money := b.Now(), r.Money
	if way == Short {
		money.Amount--
	}
	p := &Payment{
		Key: r.Key, Reference: fmt.Sprintf("%s_%d", b.kind, len(b.payments)+1), Manual: r.ManualCapture, Money: money, MadeAt: now,
		FoundAt: now.Add(b.Lag(r.Key)), State: Waiting,
	}
	b.payments = append(b.payments, p)
	switch way {
	case Pays, Short:
		b.pay(p)
	case Moves:
		p.State = Moving
	case Declines:
		b.refuse(p)
	case Asks, Rejects:
	}
	return p.outcome()
}

// Lookup tells how a payment stands.
func (b *Bank) Lookup(r providers.LookupRequest) providers.Outcome {
	if r.Reference != "" {
		if p := b.find(r.Reference, ""); p != nil {
			return p.outcome()
		}
		return providers.Outcome{Kind: providers.NotFound}
	}
	var found *Payment
	live := 0
	for _, p := range b.payments {
		if p.Key != r.Key || b.Now().Before(p.FoundAt) {
			continue
		}
		if b.Live(p) {
			live++
		}
		found = p
	}
	switch {
	case live > 1:
		return providers.Outcome{Kind: providers.Unknown, Code: providers.CodeSeveralPayments}
	case found == nil:
		return providers.Outcome{Kind: providers.NotFound}
	}
	return found.outcome()
}

// Continue goes on with a payment after its customer acted. At a deferring bank the details say how the customer acted: "good", "bad" ones
// that are refused, or those of "other" payments.
func (b *Bank) Continue(r providers.ContinueRequest) providers.Outcome {
	p := b.find(r.Reference, r.ChargeKey)
	switch {
	case p == nil:
		return providers.Outcome{Kind: providers.NotFound}
	case b.windows.NoLookup:
		return b.continueWith(p, string(r.Details))
	case p.State == Approved && b.Way(r.Key) == Declines:
		b.refuse(p)
	case p.State == Approved:
		b.pay(p)
	}
	return p.outcome()
}

func (b *Bank) continueWith(p *Payment, details string) providers.Outcome {
	switch {
	case details == `"bad"`:
		return providers.Outcome{Kind: providers.Rejected, Code: "details"}
	case details == `"other"`:
		return providers.Outcome{Kind: providers.Unknown, Code: providers.CodeOtherPayment}
	case details == `"good"` && p.State == Waiting && p.Asked:
		b.pay(p)
	}
	return p.outcome()
}

// Act is what the customer does by himself; good or not.
func (b *Bank) Act(p *Payment, good bool) {
	waits := p.Asked && (p.State == Waiting || p.State == Refused && b.Live(p))
	switch {
	case !waits:
	case b.kind == Approving && good:
		p.State = Approved
		b.announce(providers.AboutCharge, p.Key, p, "", p.outcome())
	case b.kind == Approving: // goes away
	case good:
		b.pay(p)
	default:
		b.refuse(p)
	}
}

// Decide ends a payment of which the bank took its time.
func (b *Bank) Decide(p *Payment, good bool) {
	switch {
	case p.State != Moving:
	case good:
		b.pay(p)
	default:
		b.refuse(p)
	}
}

// HoldEnds is when the bank lets go of held money; zero where none is held.
func (b *Bank) HoldEnds(p *Payment) time.Time {
	if p.State != OnHold {
		return time.Time{}
	}
	return p.heldAt.Add(b.windows.Hold)
}

// Expire lets a hold end whose time is over.
func (b *Bank) Expire(p *Payment) {
	if end := b.HoldEnds(p); end.IsZero() || b.Now().Before(end) {
		return
	}
	b.release(p, "")
	p.State = Gone
	if p.Taken > 0 {
		p.State = Paid
	}
	b.announce(providers.AboutCharge, p.Key, p, "", providers.Outcome{Kind: providers.Canceled, Code: providers.CodeAuthorizationExpired})
}

func (b *Bank) release(p *Payment, key providers.SubKey) {
	if p.OnHold > 0 {
		b.record(Released, p, key, p.OnHold)
	}
	p.OnHold = 0
}
