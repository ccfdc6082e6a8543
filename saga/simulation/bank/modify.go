package bank

import (
	"fmt"
	"time"

	"paysaga/providers"
)

// modification is a capture, void or refund that was taken on.
type modification struct {
	at     time.Time
	answer providers.Outcome
	refund *providers.Outcome // how a refund stands, where it can be asked; nil for others
}

// modify carries a modification out at once, or accepts it; the same key does not do so twice while the bank remembers it.
func (b *Bank) modify(
	key providers.SubKey, p *Payment, about providers.About, named providers.SubKey, work func() providers.Outcome,
) providers.Outcome {
	if earlier := b.answers[key]; earlier != nil && b.remembers(earlier.at) {
		return earlier.answer
	}
	m := &modification{at: b.Now()}
	if !b.windows.NoLookup {
		m.answer = work()
		if m.answer.Kind != providers.Busy {
			m.answer.Reference = reference(about, p, key)
			m.refund = new(m.answer)
			b.answers[key] = m
		}
		return m.answer
	}
	b.accepted++
	id := fmt.Sprintf("modification_%d", b.accepted)
	m.answer = providers.Outcome{Kind: providers.Processing, Reference: id}
	b.answers[key] = m
	b.Accepted(key, func() { b.announce(about, named, p, id, work()) })
	return m.answer
}

// reference is the provider's own id of a modification; of a capture or a void it is the payment's.
func reference(about providers.About, p *Payment, key providers.SubKey) string {
	if about == providers.AboutRefund {
		return "refund_" + string(key)
	}
	return p.Reference
}

// Capture takes held money.
func (b *Bank) Capture(r providers.CaptureRequest) providers.Outcome {
	p := b.find(r.Reference, "")
	if p == nil {
		return providers.Outcome{Kind: providers.Rejected, Code: "no_such_payment"}
	}
	return b.modify(r.Key, p, providers.AboutCapture, r.Key, func() providers.Outcome {
		switch {
		case p.State == Gone && !b.windows.NoLookup:
			return providers.Outcome{Kind: providers.Canceled, Code: providers.CodeAuthorizationExpired}
		case p.OnHold < r.Money.Amount:
			return providers.Outcome{Kind: providers.Declined, Code: "not_held", Decline: &providers.Decline{Code: "not_held"}}
		}
		p.Taken, p.OnHold = p.Taken+r.Money.Amount, p.OnHold-r.Money.Amount
		b.record(Taken, p, r.Key, r.Money.Amount)
		if r.Final || p.OnHold == 0 {
			b.release(p, r.Key)
			p.State = Paid
		}
		return providers.Outcome{Kind: providers.Succeeded, Money: r.Money}
	})
}

// Void undoes a payment as far as that call can.
func (b *Bank) Void(r providers.VoidRequest) providers.Outcome {
	p, named := b.find(r.Reference, r.ChargeKey), r.Key
	if p == nil && !b.windows.NoLookup {
		return providers.Outcome{Kind: providers.Rejected, Code: "no_such_payment"}
	}
	if r.Reference == "" {
		named = r.ChargeKey
	}
	return b.modify(r.Key, p, providers.AboutVoid, named, func() providers.Outcome { return b.close(p, r) })
}

func (b *Bank) close(p *Payment, r providers.VoidRequest) providers.Outcome {
	if p == nil {
		p = b.find("", r.ChargeKey) // it may have come since the call was accepted
	}
	reverses := b.windows.NoLookup && r.Reference != "" && !r.ManualCapture
	switch {
	case b.windows.NoLookup && (p == nil || p.State != OnHold && p.State != Paid):
		return providers.Outcome{Kind: providers.Rejected, Code: providers.CodeVoidRefused}
	case p.Taken > p.Returned && reverses:
		b.release(p, r.Key)
		b.record(Returned, p, r.Key, p.Taken-p.Returned)
		p.Returned, p.State = p.Taken, Paid
		return providers.Outcome{Kind: providers.Succeeded, Code: providers.CodeRefunded}
	case p.Taken > 0:
		return providers.Outcome{Kind: providers.Rejected, Code: providers.CodeAlreadyCaptured}
	case p.State == Moving:
		return providers.Outcome{Kind: providers.Busy, Code: providers.CodeNotCancelableYet}
	}
	b.release(p, r.Key)
	p.State = Gone
	return providers.Outcome{Kind: providers.Succeeded}
}

// Undo is what a person does on the provider's own pages: nothing of a payment is held or kept afterwards.
func (b *Bank) Undo(p *Payment) {
	b.release(p, "")
	if p.Taken > p.Returned {
		b.record(Returned, p, "", p.Taken-p.Returned)
	}
	if p.Returned = p.Taken; p.Taken == 0 {
		p.State = Gone
	}
}

// Refund gives money back that was taken.
func (b *Bank) Refund(r providers.RefundRequest) providers.Outcome {
	p := b.find(r.Reference, "")
	if p == nil {
		return providers.Outcome{Kind: providers.Rejected, Code: "no_such_payment"}
	}
	return b.modify(r.Key, p, providers.AboutRefund, r.Key, func() providers.Outcome {
		if p.Taken-p.Returned < r.Money.Amount {
			return providers.Outcome{Kind: providers.Declined, Code: "too_much", Decline: &providers.Decline{Code: "too_much"}}
		}
		p.Returned += r.Money.Amount
		b.record(Returned, p, r.Key, r.Money.Amount)
		b.given[r.Key] = func(reference string) {
			p.Returned -= r.Money.Amount
			b.record(Bounced, p, r.Key, r.Money.Amount)
			b.announce(providers.AboutRefund, r.Key, p, reference, bounced)
		}
		return providers.Outcome{Kind: providers.Succeeded, Money: r.Money}
	})
}

// bounced is how a refund stands that the customer's bank did not take.
var bounced = providers.Outcome{Kind: providers.Declined, Code: "bounced", Decline: &providers.Decline{Code: "bounced"}}

// Bounce has the customer's bank send back a refund that was given, once. It tells whether there was one.
func (b *Bank) Bounce(key providers.SubKey) bool {
	undo, m := b.given[key], b.answers[key]
	if undo == nil || m == nil {
		return false
	}
	delete(b.given, key)
	if m.refund != nil {
		told := bounced
		told.Reference = m.answer.Reference
		m.refund = &told
	}
	undo(m.answer.Reference)
	return true
}

// LookupRefund tells how a refund stands.
func (b *Bank) LookupRefund(r providers.RefundLookupRequest) providers.Outcome {
	if m := b.answers[r.Key]; m != nil && m.refund != nil {
		return *m.refund
	}
	return providers.Outcome{Kind: providers.NotFound}
}
