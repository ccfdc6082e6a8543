package stage

import (
	"context"
	"maps"
	"net/http"
	"net/http/httptest"
	"sync"

	"paysaga/providers"
	"paysaga/saga"
)

// Lie is an outcome that comes in place of a provider's own.
type Lie struct {
	Call    saga.Call
	Outcome providers.Outcome
	Unsent  bool // the call does not reach the provider
	Times   int
	Skip    int // so many calls of that kind are left alone first
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

// lie gives the one that the next call of a kind meets; nil for the truth.
func (t *tamper) lie(call saga.Call) *Lie {
	t.mu.Lock()
	defer t.mu.Unlock()
	for _, one := range t.lies {
		switch {
		case one.Call != call || one.Times == 0:
			continue
		case one.Skip > 0:
			one.Skip--
			return nil
		}
		one.Times--
		return one
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
		n += one.Times
	}
	return n
}

// tampered is a provider whose answers do not always come as they were given.
type tampered struct {
	saga.Provider

	stage *Stage
}

func (s *Stage) tampered() map[string]saga.Provider {
	all := make(map[string]saga.Provider, len(s.Adapters))
	for name, adapter := range s.Adapters {
		all[name] = tampered{adapter, s}
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

// answer makes a call, unless a lie keeps it from being made.
func (p tampered) answer(call saga.Call, send func() providers.Outcome) providers.Outcome {
	lie := p.stage.tamper.lie(call)
	if lie == nil {
		return p.overtake(p.stage.tamper.note(call, send()))
	}
	told := lie.Outcome
	if !lie.Unsent {
		if truth := send(); told.Reference == "" && told.Kind != providers.Unknown && told.Kind != providers.Busy {
			told.Reference = truth.Reference
		}
	}
	return p.overtake(p.stage.tamper.note(call, told))
}

// Charge may not be answered as it was.
func (p tampered) Charge(ctx context.Context, request providers.ChargeRequest) providers.Outcome {
	return p.answer(saga.CallCharge, func() providers.Outcome { return p.Provider.Charge(ctx, request) })
}

// Continue may not be answered as it was.
func (p tampered) Continue(ctx context.Context, request providers.ContinueRequest) providers.Outcome {
	return p.answer(saga.CallContinue, func() providers.Outcome { return p.Provider.Continue(ctx, request) })
}

// Capture may not be answered as it was.
func (p tampered) Capture(ctx context.Context, request providers.CaptureRequest) providers.Outcome {
	return p.answer(saga.CallCapture, func() providers.Outcome { return p.Provider.Capture(ctx, request) })
}

// Lookup may not be answered as it was.
func (p tampered) Lookup(ctx context.Context, request providers.LookupRequest) providers.Outcome {
	lie := p.stage.tamper.lie(saga.CallLookup)
	if lie == nil {
		return p.stage.tamper.note(saga.CallLookup, p.Provider.Lookup(ctx, request)) // changes nothing, so no webhook overtakes it
	}
	return p.stage.tamper.note(saga.CallLookup, lie.Outcome)
}

// Void may not be answered as it was.
func (p tampered) Void(ctx context.Context, request providers.VoidRequest) providers.Outcome {
	return p.answer(saga.CallVoid, func() providers.Outcome { return p.Provider.Void(ctx, request) })
}

// Refund may not be answered as it was.
func (p tampered) Refund(ctx context.Context, request providers.RefundRequest) providers.Outcome {
	return p.answer(saga.CallRefund, func() providers.Outcome { return p.Provider.Refund(ctx, request) })
}

// LookupRefund may not be answered as it was.
func (p tampered) LookupRefund(ctx context.Context, request providers.RefundLookupRequest) providers.Outcome {
	lie := p.stage.tamper.lie(saga.CallCheckRefund)
	if lie == nil {
		return p.stage.tamper.note(saga.CallCheckRefund, p.Provider.LookupRefund(ctx, request))
	}
	return p.stage.tamper.note(saga.CallCheckRefund, lie.Outcome)
}
