package saga

import (
	"context"
	"errors"
	"fmt"

	"paysaga/providers"
)

// Decide hands a person's decision to the saga of an order or of a refund, and drives that as far as it goes now. The decision is
// written with its reason to the audit log, and closes what was found. The answer is stored under the claim's key.
//
// Before a decision about money the provider is asked, where it can be, and a decision that it contradicts is refused. A provider that
// does not answer refuses nothing.
//
// Errors: as for Ask. A *RefusedError wrote nothing.
func (r *Runner) Decide(ctx context.Context, claim Claim, ref Ref, decision Decision) (Answer, error) {
	return r.untilFree(ctx, func(ctx context.Context) (Answer, error) {
		s, err := r.Store.Load(ctx, ref)
		if err != nil {
			return Answer{}, fmt.Errorf("load saga: %w", err)
		}
		if s.busy() {
			return Answer{}, errAskedTooSoon
		}
		event := Event{Kind: Decided, Decision: &decision}
		if call := decision.question(s, r.policy(s).Windows); call != CallNone {
			event.Outcome = r.send(ctx, decision.toldOf(s), call)
		}
		answer, err := r.put(ctx, claim, s, event)
		if errors.Is(err, ErrPaymentOfAnother) {
			return Answer{}, refusedf(RefusedUnfit, "This payment is another order's.")
		}
		return answer, err
	})
}

// ErrPaymentOfAnother is a store's answer to a decision that names a payment which is known as another saga's. Nothing was written.
var ErrPaymentOfAnother = errors.New("payment is another saga's")

// Fitting are the decisions that a saga takes as it stands, as far as the provider does not speak against them.
func (r *Runner) Fitting(s Saga) []Resolution {
	var fitting []Resolution
	for _, resolution := range Resolutions() {
		// For "taken", some payment and the amount that always fits: how much it was is the person's to say.
		decision := Decision{Resolution: resolution, Payment: "some", Amount: s.Order.Amount}
		if _, err := Advance(s, Event{Kind: Decided, Decision: &decision}, r.policy(s)); err == nil {
			fitting = append(fitting, resolution)
		}
	}
	return fitting
}

// question is what the provider is asked before a decision.
func (d Decision) question(s Saga, windows providers.Windows) Call {
	charge, refund := s.step(StepCharge), s.step(StepRefund)
	switch {
	case windows.NoLookup || s.State != NeedsReview || d.OutsideProvider:
	case d.Resolution == ResolveTaken && charge != nil, d.Resolution == ResolveNothingKept && charge != nil:
		return CallLookup
	case d.Resolution == ResolveNotGiven && s.Kind == KindRefund && refund != nil:
		return CallCheckRefund
	}
	return CallNone
}

// toldOf is the saga with the payment that a person has named, so that this is the one which is looked up.
func (d Decision) toldOf(s Saga) Saga {
	if d.Resolution != ResolveTaken || d.Payment == "" {
		return s
	}
	named := s.clone()
	if charge := named.step(StepCharge); charge != nil {
		charge.ProviderReference = d.Payment
	}
	return named
}
