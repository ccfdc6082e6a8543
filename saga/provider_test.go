package saga_test

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"time"

	"paysaga/providers"
	"paysaga/saga"
)

// bank is a payment provider in memory. It keeps one payment per identifier, as the real ones do, and counts every call.
// What a test scripts comes first; after that it answers as a provider that works.
type bank struct {
	mu       sync.Mutex
	windows  providers.Windows
	payments []*payment
	refunds  map[providers.SubKey]string
	script   map[saga.Call][]reply
	calls    []string // "charge <sub-key>"

	before func(ctx context.Context, call saga.Call) // called with no lock held, before anything happens; may be nil
	after  func(call saga.Call)                      // likewise, after it happened
}

type payment struct {
	id      string
	key     providers.SubKey
	money   providers.Money
	status  string // what it is at the provider
	refunds int

	refunded int64
	captures map[providers.SubKey]int64
}

// What a payment is at the provider.
const (
	paid     = "paid"
	waiting  = "waiting" // for its customer
	held     = "held"    // for a capture
	moving   = "moving"  // the provider does not know the end
	canceled = "canceled"
	refunded = "refunded"
)

// reply is one scripted call: what happens at the provider, and what the caller hears.
type reply struct {
	becomes string // what a charged payment becomes; empty: nothing happens
	works   bool   // the call does what it does without a script
	outcome providers.Outcome
}

func newBank() *bank {
	return &bank{
		windows: providers.Windows{Repost: 23 * time.Hour, LookupDelay: time.Hour, Hold: 7 * 24 * time.Hour},
		refunds: map[providers.SubKey]string{}, script: map[saga.Call][]reply{},
	}
}

// on scripts the next calls of a kind.
func (b *bank) on(call saga.Call, replies ...reply) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.script[call] = append(b.script[call], replies...)
}

func refuses(outcome providers.Outcome) reply { return reply{outcome: outcome} }

// losesTheAnswer does what was asked for; the caller hears nothing.
func losesTheAnswer() reply {
	return reply{works: true, outcome: providers.Outcome{Kind: providers.Unknown, Code: "timeout"}}
}

// nothing neither does nor tells anything.
func nothing() reply {
	return reply{outcome: providers.Outcome{Kind: providers.Unknown, Code: "timeout"}}
}

func asksTheCustomer() reply {
	return reply{becomes: waiting, outcome: providers.Outcome{
		Kind: providers.ActionRequired, NextAction: &providers.NextAction{Type: "client_secret", ClientSecret: "pay_1_secret_plain"},
	}}
}

func (b *bank) Windows() providers.Windows { return b.windows }

func (*bank) Check(providers.ChargeRequest) error { return nil }

func (b *bank) Charge(ctx context.Context, r providers.ChargeRequest) providers.Outcome {
	return b.call(ctx, saga.CallCharge, r.Key, func(as string) providers.Outcome {
		p := b.find(r.Key, "")
		if p == nil {
			if r.ManualCapture && as == paid {
				as = held
			}
			p = &payment{id: fmt.Sprintf("pay_%d", len(b.payments)+1), key: r.Key, money: r.Money, status: as}
			b.payments = append(b.payments, p)
		}
		return p.outcome()
	})
}

func (b *bank) Continue(ctx context.Context, r providers.ContinueRequest) providers.Outcome {
	return b.call(ctx, saga.CallContinue, r.Key, func(as string) providers.Outcome {
		p := b.find(r.ChargeKey, r.Reference)
		if p == nil {
			return providers.Outcome{Kind: providers.NotFound}
		}
		if p.status == waiting {
			p.status = or(map[bool]string{true: held}[r.ManualCapture], as)
		}
		return p.outcome()
	})
}

func (b *bank) Capture(ctx context.Context, r providers.CaptureRequest) providers.Outcome {
	return b.call(ctx, saga.CallCapture, r.Key, func(string) providers.Outcome {
		p := b.find("", r.Reference)
		switch {
		case p == nil:
			return providers.Outcome{Kind: providers.NotFound}
		case p.captures[r.Key] > 0: // again
			return providers.Outcome{Kind: providers.Succeeded, Reference: p.id}
		case p.status != held || p.captured()+r.Money.Amount > p.money.Amount:
			return providers.Outcome{Kind: providers.Rejected, Code: "not_held"}
		}
		if p.captures == nil {
			p.captures = map[providers.SubKey]int64{}
		}
		p.captures[r.Key] = r.Money.Amount
		if r.Final || p.captured() == p.money.Amount {
			p.status = paid
		}
		return providers.Outcome{Kind: providers.Succeeded, Reference: p.id}
	})
}

func (b *bank) Lookup(ctx context.Context, r providers.LookupRequest) providers.Outcome {
	return b.call(ctx, saga.CallLookup, r.Key, func(string) providers.Outcome {
		if p := b.find(r.Key, r.Reference); p != nil {
			return p.outcome()
		}
		return providers.Outcome{Kind: providers.NotFound}
	})
}

func (b *bank) Void(ctx context.Context, r providers.VoidRequest) providers.Outcome {
	return b.call(ctx, saga.CallVoid, r.Key, func(string) providers.Outcome {
		p := b.find("", r.Reference)
		switch {
		case p == nil:
			return providers.Outcome{Kind: providers.NotFound}
		case p.key != r.ChargeKey:
			return providers.Outcome{Kind: providers.Rejected, Code: "other_payment"}
		case p.status == paid || len(p.captures) > 0:
			return providers.Outcome{Kind: providers.Rejected, Code: providers.CodeAlreadyCaptured, Reference: p.id}
		case p.status == moving:
			return providers.Outcome{Kind: providers.Busy, Code: providers.CodeNotCancelableYet}
		}
		p.status = canceled
		return providers.Outcome{Kind: providers.Succeeded, Reference: p.id}
	})
}

func (b *bank) Refund(ctx context.Context, r providers.RefundRequest) providers.Outcome {
	return b.call(ctx, saga.CallRefund, r.Key, func(string) providers.Outcome {
		p := b.find("", r.Reference)
		if p == nil || (p.status != paid && p.status != refunded) {
			return providers.Outcome{Kind: providers.Rejected, Code: "not_paid"}
		}
		if _, again := b.refunds[r.Key]; !again {
			if p.refunded+r.Money.Amount > p.captured() {
				return providers.Outcome{Kind: providers.Rejected, Code: "too_much"}
			}
			b.refunds[r.Key] = fmt.Sprintf("refund_%d", len(b.refunds)+1)
			p.refunds++
			p.refunded += r.Money.Amount
		}
		if p.refunded == p.captured() {
			p.status = refunded
		}
		return providers.Outcome{Kind: providers.Succeeded, Reference: b.refunds[r.Key]}
	})
}

func (b *bank) LookupRefund(ctx context.Context, r providers.RefundLookupRequest) providers.Outcome {
	return b.call(ctx, saga.CallCheckRefund, r.Key, func(string) providers.Outcome {
		if id, ok := b.refunds[r.Key]; ok {
			return providers.Outcome{Kind: providers.Succeeded, Reference: id}
		}
		return providers.Outcome{Kind: providers.NotFound}
	})
}

// call runs one scripted or plain call. The hooks run without the lock, so that they may block or panic.
func (b *bank) call(ctx context.Context, call saga.Call, key providers.SubKey, work func(as string) providers.Outcome) providers.Outcome {
	b.mu.Lock()
	b.calls = append(b.calls, string(call)+" "+string(key))
	before, after := b.before, b.after
	b.mu.Unlock()
	if before != nil {
		before(ctx, call)
	}
	outcome := b.do(call, work)
	if after != nil {
		after(call)
	}
	return outcome
}

func (b *bank) do(call saga.Call, work func(as string) providers.Outcome) providers.Outcome {
	b.mu.Lock()
	defer b.mu.Unlock()
	if len(b.script[call]) == 0 {
		return work(paid)
	}
	scripted := b.script[call][0]
	b.script[call] = b.script[call][1:]
	if !scripted.works && scripted.becomes == "" {
		return scripted.outcome
	}
	done := work(or(scripted.becomes, paid))
	if scripted.outcome.Kind == "" {
		return done
	}
	if scripted.outcome.Kind != providers.Unknown && scripted.outcome.Reference == "" {
		scripted.outcome.Reference = done.Reference
	}
	return scripted.outcome
}

func or(value, otherwise string) string {
	if value == "" {
		return otherwise
	}
	return value
}

// captured is how much of a payment is, or was, taken.
func (p *payment) captured() (sum int64) {
	if len(p.captures) == 0 && (p.status == paid || p.status == refunded) {
		return p.money.Amount
	}
	for _, amount := range p.captures {
		sum += amount
	}
	return sum
}

func (p *payment) outcome() providers.Outcome {
	outcome := providers.Outcome{Reference: p.id, Money: p.money}
	switch p.status {
	case paid:
		outcome.Kind, outcome.Money.Amount = providers.Succeeded, p.captured()
	case held:
		outcome.Kind = providers.Authorized
	case waiting:
		outcome.Kind = providers.ActionRequired
		outcome.NextAction = &providers.NextAction{Type: "client_secret", ClientSecret: p.id + "_secret_plain"}
	case moving:
		outcome.Kind = providers.Processing
	case canceled:
		outcome.Kind = providers.Canceled
	case refunded:
		outcome.Kind, outcome.Code = providers.Canceled, providers.CodeRefunded
	}
	return outcome
}

func (b *bank) find(key providers.SubKey, id string) *payment {
	for _, p := range b.payments {
		if p.id == id || (id == "" && p.key == key) {
			return p
		}
	}
	return nil
}

// set changes what a saga's payment is, as its customer or the provider does.
func (b *bank) set(key providers.SubKey, status string) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.find(key, "").status = status
}

// taken is how many payments hold money, out of all that were ever made.
func (b *bank) taken() (held, made int) {
	b.mu.Lock()
	defer b.mu.Unlock()
	for _, p := range b.payments {
		if p.status == paid {
			held++
		}
	}
	return held, len(b.payments)
}

// called tells how often a call was made under any key, and under how many keys.
func (b *bank) called(call saga.Call) (times, keys int) {
	b.mu.Lock()
	defer b.mu.Unlock()
	var made []string
	for _, one := range b.calls {
		if len(one) > len(call) && one[:len(call)+1] == string(call)+" " {
			made = append(made, one)
		}
	}
	times = len(made)
	slices.Sort(made)
	return times, len(slices.Compact(made))
}

func (b *bank) hook(before func(context.Context, saga.Call), after func(saga.Call)) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.before, b.after = before, after
}
