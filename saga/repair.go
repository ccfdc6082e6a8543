package saga

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"strings"

	"paysaga/providers"
)

// Repairer is who does a repair, as the audit log tells it.
const Repairer = "reconciliation"

// Events is where the events of providers are kept.
type Events interface {
	// BringAgain has an event that was given up brought to its saga once more, from the beginning. One that is on its way, or has come to
	// its saga, stays as it is. Errors: ErrNotFound.
	BringAgain(ctx context.Context, provider, event string) error
}

// Repairs are what reconciliation does to sagas. Each goes the way of everything that happens to a saga: an event, under its lease, which
// Advance folds in. Each is one operation: doing it again does nothing more.
//
// Errors of all: *RefusedError (it does not fit how the saga stands; nothing was written), ErrInReview (a person decides first),
// ErrLeaseLost (somebody has the saga at this moment), ErrNotFound, ErrDraining. After any other nobody knows; it may be done again.
type Repairs struct {
	*Runner

	Events Events
}

// Look asks the provider how the newest charge of an order, or a refund, stands now. ok is false where nobody can be asked.
func (r Repairs) Look(ctx context.Context, ref Ref) (outcome providers.Outcome, ok bool, err error) {
	s, err := r.Store.Load(ctx, ref)
	if err != nil {
		return providers.Outcome{}, false, fmt.Errorf("load saga: %w", err)
	}
	call := CallLookup
	if s.Kind == KindRefund {
		call = CallCheckRefund
	}
	step := s.stepOfCall(call)
	if step == nil {
		return providers.Outcome{}, false, nil
	}
	provider, known := r.Providers[step.Provider]
	if !known || provider.Windows().NoLookup {
		return providers.Outcome{}, false, nil
	}
	if err := r.enter(nil); err != nil {
		return providers.Outcome{}, false, err
	}
	defer r.leave(nil)
	return r.send(ctx, s, call), true, nil
}

// Standing tells where a saga stands: in which state, and which of its steps have come to an end. That it looked, or sent a call once more,
// changes nothing of that.
func (r Repairs) Standing(ctx context.Context, ref Ref) (string, error) {
	s, err := r.Store.Load(ctx, ref)
	if err != nil {
		return "", fmt.Errorf("load saga: %w", err)
	}
	return s.standing(), nil
}

func (s *Saga) standing() string {
	var text strings.Builder
	text.WriteString(string(s.State))
	for _, step := range s.Steps {
		status := step.Status
		if step.open() {
			status = "open"
		}
		fmt.Fprintf(&text, " %s:%s", step.SubKey, status)
	}
	return text.String()
}

// Notify brings how a payment stands to its saga, as Runner.Notify does. A provider that can be asked is asked once more under the saga's
// lease: since whoever brings the news has looked, the saga may have moved on.
func (r Repairs) Notify(ctx context.Context, ref Ref, notice providers.Notice) error {
	return r.repair(ctx, func(ctx context.Context) error {
		s, err := r.Store.Load(ctx, ref)
		if err != nil {
			return fmt.Errorf("load saga: %w", err)
		}
		windows := r.policy(s).Windows
		if windows.NoLookup || notice.Outcome == nil || notice.About != providers.AboutCharge || s.step(StepCharge) == nil {
			return r.applyNotice(ctx, ref, notice)
		}
		switch {
		case s.State == NeedsReview:
			return ErrInReview
		case s.Lease.Until.After(s.ReadAt):
			return ErrLeaseLost
		case hear(s, notice, windows).nothing():
			return nil
		}
		if s, err = r.Store.Seize(ctx, ref, s.Lease.Fence, r.Lease); err != nil {
			return fmt.Errorf("seize saga: %w", err)
		}
		return r.lookAndHear(ctx, s, notice)
	})
}

// lookAndHear asks how the newest charge of a saga stands, whose lease is held, and goes on with what that means.
func (r Repairs) lookAndHear(ctx context.Context, s Saga, notice providers.Notice) error {
	outcome := r.call(ctx, s, CallLookup, inRecovery).Outcome
	if ctx.Err() != nil {
		return r.handBack(ctx, s, context.Cause(ctx))
	}
	notice.Outcome, notice.Payment = &outcome, cmp.Or(outcome.Reference, notice.Payment)
	news := hear(s, notice, r.policy(s).Windows)
	if news.nothing() {
		return r.Store.HandBack(ctx, Ref{s.AccountID, s.Key}, s.Lease.Fence)
	}
	r.Logger.InfoContext(ctx, "payment looked up for reconciliation", "order_id", s.Order.ID, "outcome", outcome.Kind)
	_, err := r.driveFrom(ctx, s, inRecovery, news)
	return err
}

// Retry has a saga in review go on where it stood, as a person's retry does, and takes one up that rests or was left by its server. It
// charges nothing anew.
func (r Repairs) Retry(ctx context.Context, ref Ref, reason string) error {
	decision := Decision{Resolution: ResolveRetry, Actor: Repairer, Reason: text(reason, mostReason)}
	return r.happen(ctx, ref, Event{Kind: Decided, Decision: &decision}, func(s Saga) error { return r.otherPayments(ctx, decision, s) })
}

// mostReason is what the audit log keeps of a reason, in bytes.
const mostReason = 1000

// Contradict stops a saga for a person, and says by which kind of finding. One that waits for a person already is told what else was found.
func (r Repairs) Contradict(ctx context.Context, ref Ref, kind, detail string) error {
	return r.happen(ctx, ref, Event{Kind: Contradicted, Code: kind, Detail: text(detail, mostDetail)}, nil)
}

// happen brings an event to a saga that nobody drives, and drives that as far as it goes now. What does not fit, or is spoken against, is
// refused before anything is written.
func (r Repairs) happen(ctx context.Context, ref Ref, event Event, against func(Saga) error) error {
	return r.repair(ctx, func(ctx context.Context) error {
		s, err := r.rests(ctx, ref)
		if err != nil {
			return err
		}
		if _, err = Advance(s, event, r.policy(s)); err == nil && against != nil {
			err = against(s)
		}
		if err != nil {
			return err
		}
		if s, err = r.seize(ctx, s, event); err != nil {
			return err
		}
		_, err = r.driveFrom(ctx, s, inRecovery, heard{event: &event})
		return err
	})
}

// repair is waited for when the process stops, as all work on sagas is.
func (r Repairs) repair(ctx context.Context, work func(context.Context) error) error {
	_, err := r.detached(ctx, nil, func(ctx context.Context) (Answer, error) { return Answer{}, work(ctx) })
	return err
}

// rests reads a saga that nobody drives.
func (r Repairs) rests(ctx context.Context, ref Ref) (Saga, error) {
	s, err := r.Store.Load(ctx, ref)
	if err != nil {
		return Saga{}, fmt.Errorf("load saga: %w", err)
	}
	if s.Lease.Until.After(s.ReadAt) {
		return Saga{}, ErrLeaseLost
	}
	return s, nil
}

// seize takes the lease of a saga that an event fits. What a holder whose lease had run out has made of it since it was read counts.
func (r Repairs) seize(ctx context.Context, s Saga, event Event) (Saga, error) {
	ref := Ref{s.AccountID, s.Key}
	s, err := r.Store.Seize(ctx, ref, s.Lease.Fence, r.Lease)
	if err != nil {
		return Saga{}, fmt.Errorf("seize saga: %w", err)
	}
	if _, err := Advance(s, event, r.policy(s)); err != nil {
		return Saga{}, errors.Join(err, r.Store.HandBack(ctx, ref, s.Lease.Fence))
	}
	return s, nil
}

// ReleaseOrphan ends the reservation of an order that is over: what a completed order still holds is sold, what one that came to nothing
// holds is free again. An order that holds nothing is left as it is.
func (r Repairs) ReleaseOrphan(ctx context.Context, order Ref) error {
	event := Event{Kind: Orphaned, Audit: &AuditEntry{
		Actor: Repairer, Action: "saga.release_orphan", Reason: "Stock was held for an order that is over.",
	}}
	return r.repair(ctx, func(ctx context.Context) error {
		s, err := r.rests(ctx, order)
		if err != nil {
			return err
		}
		if _, err := Advance(s, event, r.policy(s)); err != nil {
			return err
		}
		if s, err = r.seize(ctx, s, event); err != nil {
			return err
		}
		_, _, err = r.write(ctx, s, event, r.policy(s))
		if errors.Is(err, ErrReservationLost) { // nothing is held any more
			return r.Store.HandBack(ctx, order, s.Lease.Fence)
		}
		return err
	})
}

// repaired folds in what reconciliation found of an order that is over.
func (f *fold) repaired(e Event) {
	if e.Kind == Found {
		f.refundFound(*e.Refund)
		return
	}
	f.orphaned()
}

// orphaned ends what is left of the reservation of an order that is over.
func (f *fold) orphaned() {
	s := &f.saga
	switch {
	case s.State == NeedsReview:
		f.refusef(RefusedInReview, "A person must decide about this order first.")
	case s.Kind != KindOrder:
		f.refusef(RefusedUnfit, "A refund holds no stock.")
	case s.State == Completed:
		f.stock = StockSellRest
		s.addStep(StepConfirm, StepDone, "").Code = codeOrphan
	case s.State == RolledBack:
		f.stock = StockReleaseRest
		s.addStep(StepRelease, StepDone, "").Code = codeOrphan
	default:
		f.refusef(RefusedUnfit, "The order is %s: it still needs its stock.", s.State)
	}
}

// codeOrphan marks the step that ended a reservation which had outlived its order.
const codeOrphan = "orphan_reservation"

// ApplyWebhook has an event that was given up brought to its saga once more.
func (r Repairs) ApplyWebhook(ctx context.Context, provider, event string) error {
	if err := r.Events.BringAgain(ctx, provider, event); err != nil {
		return fmt.Errorf("bring event again: %w", err)
	}
	return nil
}
