package stage

import (
	"net/http"
	"strings"

	"github.com/google/uuid"

	"paysaga/saga"
	"paysaga/saga/fixture"
)

// Send sends a request of the shop, or a person's.
func (w *World) Send(asked fixture.Request) fixture.Answered {
	r := w.request(asked)
	if !w.Knows(r.Endpoint, r.Key) {
		w.Sent = append(w.Sent, r)
	}
	got := w.Stage.Send(r)
	w.Logf("  %s: %s", r.Name(), got)
	if r.Endpoint == ToOrder {
		w.placed = got
	}
	w.remember(r, got)
	w.revive()
	w.notice()
	return fixture.Answered{Status: got.Status, Problem: got.Problem, Why: got.Why, Replayed: got.Replayed}
}

// remember keeps the one answer of a request, and holds what comes later against it.
func (w *World) remember(r Request, got Reply) {
	before, known := w.Got[r.Name()]
	switch {
	case got.Status == 0 || got.Status >= http.StatusInternalServerError:
	case known && (before.Status != got.Status || before.Body != got.Body):
		w.wrong = append(w.wrong, r.Name()+" was answered "+before.String()+", and then "+got.String())
	case got.Kept:
		w.Got[r.Name()] = got
	case got.Status < http.StatusBadRequest:
		w.wrong = append(w.wrong, r.Name()+": an answer that is not kept: "+got.String())
	}
}

// request is what a happening asks; under a name that was used before, what was asked then.
func (w *World) request(asked fixture.Request) Request {
	h := asked.Happening
	r := Request{Key: asked.Key, ID: w.First.ID, Body: map[string]any{}}
	switch {
	case h.Place != nil:
		return w.First
	case h.Continue != nil:
		r.Endpoint, r.Body = ToContinue, w.continueBody(*h.Continue)
	case h.Capture != nil:
		r.Endpoint, r.Body = ToCapture, CapturePart(h.Capture.Amount, h.Capture.Final)
		if h.Capture.Amount == 0 && !h.Capture.Final {
			r.Body = map[string]any{}
		}
	case h.Refund != nil:
		r.Endpoint, r.Body = ToRefund, Part(h.Refund.Amount)
	case h.Operator != nil:
		r = w.decision(asked.Key, *h.Operator)
	default:
		r.Endpoint = ToCancel
	}
	for _, before := range w.Sent {
		if before.Endpoint == r.Endpoint && before.Key == r.Key {
			return before
		}
	}
	return r
}

func (w *World) continueBody(c fixture.Continue) map[string]any {
	switch {
	case c.Payment != nil:
		return map[string]any{"payment": bodyOf(w.Stage, c.Payment)}
	case c.Empty || w.details == nil:
		return map[string]any{}
	}
	return map[string]any{"details": w.details}
}

// decision is what a person asks of the API.
func (w *World) decision(key string, o fixture.Operator) Request {
	r := Request{Key: key, ID: w.First.ID, Body: map[string]any{"reason": "A fixture says so."}}
	if o.Refund != "" {
		r.ID = Request{Endpoint: ToRefund, Key: o.Refund}.SagaKey()
	}
	switch o.Resolution {
	case fixture.ResolutionName(saga.ResolveRetry):
		r.Endpoint = ToRetry
		return r
	case fixture.ResolutionName(saga.ResolveCancel):
		r.Endpoint = ToGiveUp
		return r
	}
	r.Endpoint, r.Body["resolution"] = ToResolve, o.Resolution
	if o.Amount > 0 {
		r.Body["amount"] = o.Amount
	}
	if o.OutsideProvider {
		r.Body["outside_provider"] = true
	}
	if o.Resolution == fixture.ResolutionName(saga.ResolveTaken) {
		for _, charge := range w.Sandbox.Ledger() {
			if charge.Captured > 0 {
				r.Body["payment"] = charge.ID
			}
		}
	}
	return r
}

// Derived is a request's name in place of the key that derives from it, where a sub-key begins with one.
func (w *World) Derived(subKey string) string {
	names := map[uuid.UUID]string{w.First.ID: "saga"}
	for _, r := range w.Sent {
		if r.Endpoint == ToCapture || r.Endpoint == ToRefund {
			names[r.SagaKey()] = r.Key
		}
	}
	for key, name := range names {
		if rest, found := strings.CutPrefix(subKey, key.String()); found {
			return "<" + name + ">" + rest
		}
	}
	return subKey
}
