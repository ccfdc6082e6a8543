package saga

import (
	"context"
	"fmt"
	"slices"

	"paysaga/providers"
)

// Notify brings what a provider announced to the saga that it is about, and drives that as far as it goes now. The same notice may
// come any number of times.
//
// Errors: ErrNotFound, ErrLeaseLost (somebody drives the saga: bring it again), ErrInReview (bring it again when a person has
// decided), ErrDraining, and whatever keeps a change from being written: bring it again.
func (r *Runner) Notify(ctx context.Context, ref Ref, notice providers.Notice) error {
	_, err := r.detached(ctx, nil, func(ctx context.Context) (Answer, error) {
		return Answer{}, r.applyNotice(ctx, ref, notice)
	})
	return err
}

func (r *Runner) applyNotice(ctx context.Context, ref Ref, notice providers.Notice) error {
	s, err := r.Store.Load(ctx, ref)
	if err != nil {
		return fmt.Errorf("load saga: %w", err)
	}
	if s.State == NeedsReview {
		return ErrInReview
	}
	if s.Lease.Until.After(s.ReadAt) { // what its holder learns may be the same, or older
		return ErrLeaseLost
	}
	news := hear(s, notice, r.policy(s).Windows)
	if news.nothing() {
		return nil
	}
	s, err = r.Store.Seize(ctx, ref, s.Lease.Fence, r.Lease)
	if err != nil {
		return fmt.Errorf("seize saga: %w", err)
	}
	// A holder whose lease had run out may have moved the saga on since it was read, under the same fence.
	if news = hear(s, notice, r.policy(s).Windows); news.nothing() {
		return r.Store.HandBack(ctx, ref, s.Lease.Fence)
	}
	r.Logger.InfoContext(ctx, "notice applied", "order_id", s.Order.ID, "provider", s.Order.Payment.Provider, "type", notice.Type)
	_, err = r.driveFrom(ctx, s, inRecovery, news)
	return err
}

// heard is what a saga makes of a notice: an event that goes in as it is, or a call that finds out. Neither: nothing new.
type heard struct {
	event *Event
	call  Call
}

func (h heard) nothing() bool { return h.event == nil && h.call == CallNone }

// hear says what a notice means for a saga as it stands. It is pure. Notices come twice, late and in any order, so what is known
// already, or was overtaken, means nothing.
func hear(s Saga, n providers.Notice, windows providers.Windows) heard {
	switch {
	case s.State == NeedsReview:
		return heard{}
	case n.Outcome == nil:
		return s.hearHint(n, windows)
	case saysNothing(n.Outcome.Kind):
		return heard{}
	case s.isAgainstDecision(n):
		return contradiction(FindingRefundedAtProvider, "The provider announces (%s, %s) what goes against a person's decision.",
			n.About, n.Outcome.Kind)
	case s.Kind == KindRefund:
		return s.hearOfRefund(n)
	}
	if h, found := s.hearOfAnother(n); found {
		return h
	}
	switch n.About {
	case providers.AboutCharge:
		return s.hearOfCharge(n, windows)
	case providers.AboutCapture:
		return s.hearOfCapture(n)
	case providers.AboutVoid:
		return s.hearOfVoid(n)
	case providers.AboutRefund:
		return s.hearOfUndoing(n)
	case providers.AboutOther:
	}
	return heard{}
}

// saysNothing tells the outcomes that say nothing about a payment. That one was not found means something only to whoever knows when it
// was last sent.
func saysNothing(kind providers.OutcomeKind) bool {
	return kind == providers.Unknown || kind == providers.Busy || kind == providers.NotFound
}

// hearOfAnother is about a payment that bears our key and is not the one we know by its reference. A second one that took money beside
// ours is what must never be: a person decides. What else becomes of it is no news of ours. Where ours has moved no money, a success
// of another can be how the customer's way ended.
func (s *Saga) hearOfAnother(n providers.Notice) (h heard, found bool) {
	charge := s.noticedCharge(n)
	if charge == nil || !isOfAnother(n, charge) {
		return heard{}, false
	}
	took := n.About != providers.AboutVoid && moved(n.Outcome.Kind)
	switch {
	case took && (moved(charge.Outcome) || charge.Status == StepUndone):
		return contradiction(FindingDuplicateCharge, "The provider announces a second payment (%s) under the key of payment %s.",
			n.Payment, charge.ProviderReference), true
	case took && n.About == providers.AboutCharge:
		return heard{}, false
	}
	return heard{}, true
}

// isOfAnother tells that a notice is about another payment than that of a charge, where both are known by their references.
func isOfAnother(n providers.Notice, charge *Step) bool {
	ofPayment := n.About != providers.AboutRefund && n.About != providers.AboutOther
	return ofPayment && n.Payment != "" && charge.ProviderReference != "" && charge.ProviderReference != n.Payment
}

// hearHint looks at once where something is open. A refund can turn after its end.
func (s *Saga) hearHint(n providers.Notice, windows providers.Windows) heard {
	if s.Kind == KindRefund && s.State == Completed && n.About == providers.AboutRefund && !windows.NoLookup {
		return heard{call: CallCheckRefund}
	}
	return heard{call: Next(*s, windows)}
}

func answer(call Call, key providers.SubKey, outcome providers.Outcome) heard {
	return heard{event: &Event{Kind: Answered, Call: call, SubKey: key, Outcome: outcome}}
}

func contradiction(finding, format string, args ...any) heard {
	return heard{event: &Event{Kind: Contradicted, Code: finding, Detail: fmt.Sprintf(format, args...)}}
}

// noticed finds the attempt of a step that a notice names: by the provider's reference of the attempt itself, else by our key.
func (s *Saga) noticed(name StepName, n providers.Notice) *Step {
	for i := range s.Steps {
		if step := &s.Steps[i]; step.Name == name && n.Reference != "" && step.ProviderReference == n.Reference {
			return step
		}
	}
	for i := range s.Steps {
		if step := &s.Steps[i]; step.Name == name && n.Key != "" && step.SubKey == n.Key {
			return step
		}
	}
	return nil
}

// noticedCharge is the charge that a notice is about. One without our key can be about the newest whose payment is not known yet.
func (s *Saga) noticedCharge(n providers.Notice) *Step {
	for i := range s.Steps {
		step := &s.Steps[i]
		if step.Name == StepCharge && (step.SubKey == n.Key || n.Payment != "" && step.ProviderReference == n.Payment) {
			return step
		}
	}
	if newest := s.step(StepCharge); newest != nil && n.Key == "" && (n.Payment == "" || newest.ProviderReference == "") {
		return newest
	}
	return nil
}

// hearOfCharge is about how a charge stands. Providers that can be asked announce no outcomes: theirs is what somebody has asked for just
// now, and is taken as a look of the saga's own would be.
func (s *Saga) hearOfCharge(n providers.Notice, windows providers.Windows) heard {
	charge, outcome := s.noticedCharge(n), s.announced(n, windows)
	if charge == nil {
		return heard{}
	}
	if moved(outcome.Kind) {
		if h, found := s.hearTooLate(charge, n, outcome, !windows.NoLookup); found {
			return h
		}
	}
	void := s.openStep(StepVoid)
	switch {
	case charge != s.step(StepCharge):
	case void == nil && s.mayMove(charge, outcome, windows):
		return answer(CallLookup, "", outcome)
	case void != nil && s.State == Compensating && outcome.Kind == providers.Canceled: // it has ended before the void could end it
		return answer(CallVoid, void.SubKey, providers.Outcome{Kind: providers.Succeeded, Code: outcome.Code})
	}
	return heard{}
}

// announced is how a charge stands by a notice, which does not tell whether the money is captured by itself.
func (s *Saga) announced(n providers.Notice, windows providers.Windows) providers.Outcome {
	outcome := *n.Outcome
	outcome.Reference = n.Payment
	if outcome.Kind == providers.Authorized && s.Order.Payment.Capture != CaptureManual && windows.NoLookup {
		outcome.Kind = providers.Succeeded
	}
	return outcome
}

// hearTooLate is about money that was held or taken of a charge which had been refused or given up. A void that was carried out
// since has found it; and of a hold that had ended by itself, or by somebody at the provider, this tells only the beginning. But who has
// looked after that, and found the money, tells that it is still there.
func (s *Saga) hearTooLate(charge *Step, n providers.Notice, outcome providers.Outcome, looked bool) (h heard, found bool) {
	newest := charge == s.step(StepCharge)
	switch {
	case s.staysUndone(charge, looked):
	case newest && s.State == RolledBack,
		newest && s.State == Compensating && s.openStep(StepVoid) != nil && charge.open() && !moved(charge.Outcome):
		return heard{event: &Event{Kind: Late, SubKey: charge.SubKey, Payment: n.Payment, Outcome: outcome}}, true
	case charge.Status == StepFailed && (!newest || s.State != Compensating):
		return contradiction(FindingChargedAfterRefusal, "The provider announces a payment (%s) whose charge had been refused.", n.Payment), true
	}
	return heard{}, false
}

// staysUndone tells of a charge that was undone that nothing more is done about it, even if somebody finds its money at the provider: a
// refund of it was made, which may only not show yet, or a person settled it.
func (s *Saga) staysUndone(charge *Step, looked bool) bool {
	if !s.isUndone(charge) || s.undoneUnseen(charge) {
		return false
	}
	return !looked || slices.ContainsFunc(s.Steps, func(step Step) bool {
		undone := (step.Name == StepVoid || step.Name == StepRefund) && step.Status == StepDone && s.chargeUndoneBy(step) == charge
		return undone && (step.Name == StepRefund || step.Code == codeByHand)
	})
}

// undoneUnseen tells that a person said of a charge, whose end nobody knew, that nothing was kept of it.
func (s *Saga) undoneUnseen(charge *Step) bool {
	byHand := func(step Step) bool { return step.Code == codeByHand && s.chargeUndoneBy(step) == charge }
	return charge.Status == StepUndone && !moved(charge.Outcome) && slices.ContainsFunc(s.Steps, byHand)
}

// isAgainstDecision tells of a payment that a person had decided as taken, and that comes to nothing; and of a refund that was decided as
// not given, and that was given.
func (s *Saga) isAgainstDecision(n providers.Notice) bool {
	given := n.About == providers.AboutRefund && n.Outcome.Kind == providers.Succeeded
	if s.Kind == KindRefund {
		refund := s.step(StepRefund)
		return given && s.State == RolledBack && refund.writtenOff() && isAbout(n, refund)
	}
	charge := s.noticedCharge(n)
	return isGone(n) && s.State == Completed && charge != nil && charge == s.step(StepCharge) && charge.Code == codeByHand
}

// isGone tells that a notice is about a payment that was let go, or refused.
func isGone(n providers.Notice) bool {
	switch kind := n.Outcome.Kind; n.About {
	case providers.AboutCharge:
		return kind == providers.Canceled || kind == providers.Declined
	case providers.AboutVoid:
		return kind == providers.Succeeded
	case providers.AboutCapture, providers.AboutRefund, providers.AboutOther:
	}
	return false
}

// isAbout tells that a notice can be about this refund, and is not known to be about another one of the payment.
func isAbout(n providers.Notice, refund *Step) bool {
	return n.Key == refund.SubKey || n.Reference == "" || refund.ProviderReference == "" || n.Reference == refund.ProviderReference
}

// mayMove tells that a notice about the newest charge can bring the saga on.
func (s *Saga) mayMove(charge *Step, outcome providers.Outcome, windows providers.Windows) bool {
	if s.held() && !windows.NoLookup && Next(*s, windows) == CallLookup {
		return true
	}
	return (s.State == Charging || s.State == Awaiting) && charge.open() || s.held() && outcome.Kind == providers.Canceled
}

func (s *Saga) hearOfCapture(n providers.Notice) heard {
	outcome := *n.Outcome
	capture := s.noticed(StepCapture, n)
	undone := s.State == Compensating || s.State == RolledBack
	switch {
	case capture == nil && s.Order.Payment.Capture == CaptureManual:
		return s.hearOfForeignCapture(n)
	case outcome.Kind == providers.Declined && !undone && (capture == nil || capture.Status == StepDone):
		return contradiction(FindingCaptureFailed, "The provider announces that the capture of payment %s failed (%s).",
			n.Payment, outcome.Code)
	case capture != nil && capture.open() && s.State == Awaiting:
		return answer(CallCapture, capture.SubKey, outcome)
	}
	return heard{}
}

// hearOfForeignCapture is about a capture that a person made at the provider. While a void is on its way, that meets it.
func (s *Saga) hearOfForeignCapture(n providers.Notice) heard {
	outcome := *n.Outcome
	charge := s.step(StepCharge)
	switch {
	case outcome.Kind != providers.Succeeded, n.Reference == "", charge == nil, s.State == Compensating, s.openStep(StepVoid) != nil:
		return heard{}
	case (s.State == Charging || s.State == Awaiting) && (charge.open() || s.held()) && s.openStep(StepCapture) == nil:
		if outcome.Money != (providers.Money{}) {
			outcome.Money.Amount += s.captured()
		}
		outcome.Reference = n.Payment
		h := answer(CallLookup, "", outcome)
		h.event.Capture = n.Reference
		return h
	}
	return contradiction(FindingCapturedAtProvider, "The provider announces a capture (%s) of %s that nobody here asked for.",
		n.Reference, outcome.Money)
}

func (s *Saga) hearOfVoid(n providers.Notice) heard {
	void, gone := s.noticedVoid(n), n.Outcome.Kind == providers.Succeeded
	switch {
	case void != nil && void.open() && void == s.step(StepVoid):
		h := answer(CallVoid, void.SubKey, *n.Outcome)
		h.event.Payment = n.Payment
		return h
	case void == nil && gone && s.State == Awaiting && s.step(StepCharge).Status != StepFailed && s.openStep(StepCapture) == nil:
		// canceled by a person at the provider
		return answer(CallLookup, "", providers.Outcome{Kind: providers.Canceled, Code: n.Outcome.Code, Reference: n.Payment})
	}
	return heard{}
}

// noticedVoid is the void that a notice is about. One that it does not name can be the open one, of whose answer nothing is known;
// and whoever closed the payment, what the open one is to do is done.
func (s *Saga) noticedVoid(n providers.Notice) *Step {
	open, gone := s.openStep(StepVoid), n.Outcome.Kind == providers.Succeeded
	if void := s.noticed(StepVoid, n); void != nil {
		if gone && open != nil && s.chargeUndoneBy(*open) == s.chargeUndoneBy(*void) { // another send of an earlier one can have done it
			return open
		}
		return void
	}
	if open == nil || gone || open.ProviderReference == "" || n.Reference == "" {
		return open
	}
	return nil
}

// hearOfUndoing is about the refund that undoes an order.
func (s *Saga) hearOfUndoing(n providers.Notice) heard {
	refund := s.noticed(StepRefund, n)
	switch {
	case refund == nil:
	case refund.open() && s.State == Compensating:
		return answer(CallRefund, refund.SubKey, *n.Outcome)
	case refund.Status == StepDone && (n.Outcome.Kind == providers.Declined || n.Outcome.Kind == providers.Canceled):
		return contradiction(FindingRefundFailed, "The provider announces that the refund of an undone order came back (%s).", n.Outcome.Code)
	}
	return heard{}
}

// hearOfRefund is about a refund that the shop asked for. A success after a failure was sent before it.
func (s *Saga) hearOfRefund(n providers.Notice) heard {
	outcome, refund := *n.Outcome, s.step(StepRefund)
	switch {
	case n.About != providers.AboutRefund, refund == nil:
	case !isAbout(n, refund): // another refund of the payment
	case s.State == Refunding:
		return answer(CallRefund, "", outcome)
	case s.State == Completed && (outcome.Kind == providers.Declined || outcome.Kind == providers.Canceled):
		return answer(CallCheckRefund, "", outcome)
	}
	return heard{}
}
