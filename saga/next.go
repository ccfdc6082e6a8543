package saga

import "paysaga/providers"

// Next says which provider call has to be made now; CallNone where the saga has ended, only local steps are left, or only the
// provider's notice can tell. It never says to charge once the provider may have forgotten the charge's key: past the re-POST
// window a repeat could be a second charge, so the payment is only looked up.
func Next(s Saga, windows providers.Windows) Call {
	switch s.State {
	case Charging:
		return s.repeatOrLook(CallCharge, s.step(StepCharge), windows)
	case Awaiting:
		return s.nextWhileAwaiting(windows)
	case Compensating:
		return s.nextCompensation(windows)
	case Refunding:
		return s.nextRefund(windows)
	case Reserved, Charged:
		return s.nextOwn()
	case Started, Completed, RolledBack, NeedsReview:
	}
	return CallNone
}

// nextWhileAwaiting finishes what was begun before it asks how the charge stands.
func (s *Saga) nextWhileAwaiting(windows providers.Windows) Call {
	if void := s.openStep(StepVoid); void != nil {
		return nextVoid(void, windows)
	}
	if capture := s.openStep(StepCapture); capture != nil {
		if capture.Outcome == providers.Processing && windows.NoLookup {
			return CallNone
		}
		return s.repeatOrLook(CallCapture, capture, windows)
	}
	if proceed := s.openStep(StepContinue); proceed != nil {
		return s.repeatOrLook(CallContinue, proceed, windows)
	}
	if windows.NoLookup || s.step(StepCharge).Status == StepFailed {
		return CallNone
	}
	return CallLookup
}

// repeatOrLook repeats a call while that is safe and can teach something, and else asks how the charge stands.
func (s *Saga) repeatOrLook(call Call, step *Step, windows providers.Windows) Call {
	switch {
	case !s.lookupOnly(*step, windows):
		return call
	case windows.NoLookup:
		return CallNone
	}
	return CallLookup
}

// lookupOnly tells that a step's call must not be sent again, or that it would teach nothing.
func (s *Saga) lookupOnly(step Step, windows providers.Windows) bool {
	if repeatIsUseless(step.Code) {
		return true
	}
	return !step.StartedAt.IsZero() && !s.ReadAt.Before(step.StartedAt.Add(windows.Repost))
}

// codeRefusedAfterSend marks a call that was refused as a request after an earlier send of it may have done its work.
const codeRefusedAfterSend = "refused_after_send"

// repeatIsUseless tells the codes which say that another send of the same key cannot tell the outcome.
func repeatIsUseless(code string) bool {
	return code == codeRefusedAfterSend || code == providers.CodeServerErrorReplayed || code == providers.CodeServerErrorFinal ||
		code == providers.CodeIdempotencyMismatch
}

func (s *Saga) nextCompensation(windows providers.Windows) Call {
	if s.openStep(StepRefund) != nil {
		return s.nextRefund(windows)
	}
	if void := s.openStep(StepVoid); void != nil {
		return nextVoid(void, windows)
	}
	return s.nextOwn()
}

// nextVoid voids again, which is harmless, unless the provider has the void and tells its end by a notice only.
func nextVoid(void *Step, windows providers.Windows) Call {
	if void.Outcome == providers.Processing && windows.NoLookup {
		return CallNone
	}
	return CallVoid
}

func (s *Saga) nextRefund(windows providers.Windows) Call {
	refund := s.openStep(StepRefund)
	switch {
	case refund == nil:
		return CallNone
	case refund.Outcome != providers.Processing && !s.lookupOnly(*refund, windows):
		return CallRefund
	case windows.NoLookup:
		return CallNone
	}
	return CallCheckRefund
}
