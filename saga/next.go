package saga

import "paysaga/providers"

// Next says which provider call has to be made now; CallNone where the saga has ended or only local steps are left. It
// never says to charge once the provider may have forgotten the charge's key: past the re-POST window a repeat could be a
// second charge, so the payment is only looked up.
func Next(s Saga, windows providers.Windows) Call {
	switch s.State {
	case Charging:
		if s.lookupOnly(*s.step(StepCharge), windows) {
			return CallLookup
		}
		return CallCharge
	case Awaiting:
		return CallLookup
	case Compensating:
		return s.nextCompensation(windows)
	case Started, Reserved, Charged, Completed, RolledBack, NeedsReview:
	}
	return CallNone
}

// lookupOnly tells that a step's call must not be sent again, or that it would teach nothing.
func (s *Saga) lookupOnly(step Step, windows providers.Windows) bool {
	if repeatIsUseless(step.Code) {
		return true
	}
	return !step.StartedAt.IsZero() && !s.ReadAt.Before(step.StartedAt.Add(windows.Repost))
}

// codeRefusedAfterSend marks a charge that was refused as a request after an earlier send of it may have taken the money.
const codeRefusedAfterSend = "refused_after_send"

// repeatIsUseless tells the codes which say that another send of the same key cannot tell the outcome.
func repeatIsUseless(code string) bool {
	return code == codeRefusedAfterSend || code == providers.CodeServerErrorReplayed || code == providers.CodeServerErrorFinal ||
		code == providers.CodeIdempotencyMismatch
}

func (s *Saga) nextCompensation(windows providers.Windows) Call {
	if refund := s.step(StepRefund); refund != nil && refund.open() {
		if refund.Outcome == providers.Processing || s.lookupOnly(*refund, windows) {
			return CallCheckRefund
		}
		return CallRefund
	}
	if void := s.step(StepVoid); void != nil && void.open() {
		return CallVoid
	}
	return CallNone
}
