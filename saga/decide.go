package saga

import (
	"context"
	"errors"
	"fmt"
	"slices"

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
		if _, err := Advance(s, event, r.policy(s)); err != nil { // whatever the provider tells
			return Answer{}, err
		}
		if err := r.otherPayments(ctx, decision, s); err != nil {
			return Answer{}, err
		}
		if call := decision.question(s, r.policy(s).Windows); call != CallNone {
			event.Outcome = r.send(ctx, decision.toldOf(s), call)
		}
		answer, err := r.put(ctx, claim, s, event)
		if errors.Is(err, ErrPaymentOfAnother) {
			return Answer{}, refusedf(RefusedUnfit, "This payment is another order's.")
		}
		if errors.Is(err, ErrExceedsCapture) {
			return Answer{}, refusedf(RefusedTooMuch, "With this refund, more would be given back than was captured.")
		}
		return answer, err
	})
}

// ErrPaymentOfAnother is a store's answer to a decision that names a payment which is known as another saga's. Nothing was written.
var ErrPaymentOfAnother = errors.New("payment is another saga's")

// otherPayments refuses a decision about an order while the provider keeps, or can still take, money of a charge that another one has
// followed: the decision closes what was found about it. What cannot be asked for is the person's to see.
func (r *Runner) otherPayments(ctx context.Context, d Decision, s Saga) error {
	if s.State != NeedsReview || s.Kind != KindOrder || d.OutsideProvider || d.Resolution == ResolveAsItIs {
		return nil
	}
	newest := s.step(StepCharge)
	for i, step := range s.Steps {
		provider, ok := r.Providers[step.Provider]
		if step.Name != StepCharge || step.Attempt == newest.Attempt || !ok || provider.Windows().NoLookup {
			continue
		}
		earlier := s
		earlier.Steps = s.Steps[: i+1 : i+1]
		switch told := r.send(ctx, earlier, CallLookup); told.Kind {
		case providers.Succeeded, providers.Authorized, providers.Processing:
			return refusedf(RefusedContradicted, "The provider has another payment of this order: %s (attempt %d) is %q, of %s. Give it back first.",
				step.ProviderReference, step.Attempt, told.Kind, told.Money)
		default: // nothing is kept of it, as far as anybody knows
		}
	}
	return nil
}

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
	case charge != nil && slices.Contains([]Resolution{ResolveTaken, ResolveNothingKept, ResolveCancel}, d.Resolution):
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
