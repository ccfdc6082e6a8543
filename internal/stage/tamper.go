package stage

import (
	"context"
	"maps"
	"net/http"
	"net/http/httptest"
	"sync"
	"time"

	"paysaga/providers"
	"paysaga/saga"
)

// Lie is an outcome that comes in place of a provider's own.
type Lie struct {
	Call     saga.Call // AnyCall is each of them
	Provider string    // whose calls; empty: anybody's
	Outcome  providers.Outcome
	Unsent   bool // the call does not reach the provider
	Times    int
	Skip     int       // so many calls of that kind are left alone first
	Until    time.Time // in place of Times: all of them until then
}

// AnyCall stands for each kind of call.
const AnyCall saga.Call = "any"

// holds tells whether a lie is still to be told.
func (l *Lie) holds(now time.Time) bool {
	if l.Until.IsZero() {
		return l.Times > 0
	}
	return now.Before(l.Until)
}

// tamper is what stands between the servers and the adapters.
type tamper struct {
	mu        sync.Mutex
	overtakes bool // of the next answer
	lies      []*Lie
	met       map[Met]int
}

// Met is an outcome that a call of a saga met.
type Met struct {
	Call    saga.Call
	Outcome providers.OutcomeKind
}

// note counts what a call met.
func (t *tamper) note(call saga.Call, outcome providers.Outcome) providers.Outcome {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.met == nil {
		t.met = map[Met]int{}
	}
	t.met[Met{call, outcome.Kind}]++
	return outcome
}

// Met counts what calls met, in all plays of this stage.
func (s *Stage) Met() map[Met]int {
	s.tamper.mu.Lock()
	defer s.tamper.mu.Unlock()
	return maps.Clone(s.tamper.met)
}

func (t *tamper) clear() {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.overtakes, t.lies = false, nil
}

// lie gives the one that the next call of a kind meets; nil for the truth. Of those about one kind of call, the first has to be told
// before the next one counts.
func (t *tamper) lie(provider string, call saga.Call, now time.Time) *Lie {
	t.mu.Lock()
	defer t.mu.Unlock()
	left := map[saga.Call]bool{} // kinds of lies of which one leaves this call alone
	for _, one := range t.lies {
		about := (one.Call == call || one.Call == AnyCall) && (one.Provider == "" || one.Provider == provider)
		switch {
		case !about || !one.holds(now) || left[one.Call]:
		case one.Skip > 0:
			one.Skip--
			left[one.Call] = true
		default:
			one.Times--
			return one
		}
	}
	return nil
}

// Overtake lets the webhooks of the provider's next answer be faster than that: another server has them before the one that made the
// call knows how it ended.
func (s *Stage) Overtake() {
	s.tamper.mu.Lock()
	defer s.tamper.mu.Unlock()
	s.tamper.overtakes = true
}

// Tell lets a provider's calls end otherwise than they do. Lies of one kind of call come one after the other.
func (s *Stage) Tell(one Lie) {
	s.tamper.mu.Lock()
	defer s.tamper.mu.Unlock()
	s.tamper.lies = append(s.tamper.lies, &one)
}

// Untold counts the lies that no call has met.
func (s *Stage) Untold() (n int) {
	s.tamper.mu.Lock()
	defer s.tamper.mu.Unlock()
	for _, one := range s.tamper.lies {
		if one.Until.IsZero() {
			n += one.Times
		}
	}
	return n
}

// tampered is a provider whose answers do not always come as they were given.
type tampered struct {
	saga.Provider

	name  string
	stage *Stage
}

func (s *Stage) tampered() map[string]saga.Provider {
	all := make(map[string]saga.Provider, len(s.Adapters))
	for name, adapter := range s.Adapters {
		all[name] = tampered{adapter, name, s}
	}
	return all
}

// overtake brings every webhook that is in the mail to another server, if that was asked for, and has it apply them.
func (p tampered) overtake(outcome providers.Outcome) providers.Outcome {
	t := p.stage.tamper
	t.mu.Lock()
	asked := t.overtakes
	t.overtakes = false
	t.mu.Unlock()
	if !asked {
		return outcome
	}
	p.stage.Log("  the webhook overtakes the answer")
	other := p.stage.NewServer()
	for _, one := range p.stage.Letters() {
		if one.Copies == 0 {
			answer := httptest.NewRecorder()
			other.inbox.ServeHTTP(answer, p.stage.webhookRequest("", one.Provider, one.Header, one.Body))
			if answer.Code == http.StatusOK {
				one.Copies++
			}
		}
	}
	other.Apply()
	return outcome
}

// call is one call on its way: of which kind, under which identifier, and the charge that it is about, where its answer tells of one.
type call struct {
	kind    saga.Call
	key     providers.SubKey
	charge  providers.SubKey
	request any
}

// answer makes a call, unless a lie keeps it from being made.
func (p tampered) answer(c call, send func() providers.Outcome) providers.Outcome {
	p.stage.leaves(p.name, c.kind, c.key, c.request)
	lie := p.stage.tamper.lie(p.name, c.kind, p.stage.Now())
	if lie == nil {
		truth := send()
		p.stage.arrived(c.kind, c.key)
		return p.overtake(p.stage.tamper.note(c.kind, truth))
	}
	told := lie.Outcome
	if !lie.Unsent {
		if truth := send(); told.Reference == "" && told.Kind != providers.Unknown && told.Kind != providers.Busy {
			told.Reference = truth.Reference
		}
		p.stage.arrived(c.kind, c.key)
		p.stage.witness.distrust(c.charge, told.Kind)
	}
	return p.overtake(p.stage.tamper.note(c.kind, told))
}

// look makes a call that changes nothing, so that no webhook overtakes it, unless a lie stands in its place.
func (p tampered) look(c call, send func() providers.Outcome) providers.Outcome {
	p.stage.leaves(p.name, c.kind, c.key, c.request)
	lie := p.stage.tamper.lie(p.name, c.kind, p.stage.Now())
	if lie == nil {
		return p.stage.tamper.note(c.kind, send())
	}
	p.stage.witness.distrust(c.charge, lie.Outcome.Kind)
	return p.stage.tamper.note(c.kind, lie.Outcome)
}

// Charge may not be answered as it was.
func (p tampered) Charge(ctx context.Context, r providers.ChargeRequest) providers.Outcome {
	return p.answer(call{saga.CallCharge, r.Key, r.Key, r}, func() providers.Outcome { return p.Provider.Charge(ctx, r) })
}

// Continue may not be answered as it was.
func (p tampered) Continue(ctx context.Context, r providers.ContinueRequest) providers.Outcome {
	return p.answer(call{saga.CallContinue, r.Key, r.ChargeKey, r}, func() providers.Outcome { return p.Provider.Continue(ctx, r) })
}

// Capture may not be answered as it was.
func (p tampered) Capture(ctx context.Context, r providers.CaptureRequest) providers.Outcome {
	return p.answer(call{saga.CallCapture, r.Key, "", r}, func() providers.Outcome { return p.Provider.Capture(ctx, r) })
}

// Lookup may not be answered as it was.
func (p tampered) Lookup(ctx context.Context, r providers.LookupRequest) providers.Outcome {
	return p.look(call{saga.CallLookup, r.Key, r.Key, r}, func() providers.Outcome { return p.Provider.Lookup(ctx, r) })
}

// Void may not be answered as it was.
func (p tampered) Void(ctx context.Context, r providers.VoidRequest) providers.Outcome {
	return p.answer(call{saga.CallVoid, r.Key, r.ChargeKey, r}, func() providers.Outcome { return p.Provider.Void(ctx, r) })
}

// Refund may not be answered as it was.
func (p tampered) Refund(ctx context.Context, r providers.RefundRequest) providers.Outcome {
	return p.answer(call{saga.CallRefund, r.Key, "", r}, func() providers.Outcome { return p.Provider.Refund(ctx, r) })
}

// LookupRefund may not be answered as it was.
func (p tampered) LookupRefund(ctx context.Context, r providers.RefundLookupRequest) providers.Outcome {
	return p.look(call{saga.CallCheckRefund, r.Key, "", r}, func() providers.Outcome { return p.Provider.LookupRefund(ctx, r) })
}
