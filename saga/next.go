package saga

import "paysaga/providers"

// Next says which provider call has to be made now; CallNone where the saga has ended or only local steps are left. It
// never says to charge once the provider may have forgotten the charge's key: past the re-POST window a repeat could be a
// second charge, so the payment is only looked up.
func Next(s Saga, windows providers.Windows) Call {
	switch s.State {
	case Charging:
		charge := s.step(StepCharge)
		if s.lookupOnly(*charge, windows) {
			return CallLookup
		}
		return CallCharge
	case Awaiting:
		return CallLookup
	case Compensating:
		return s.nextCompensation()
	case Started, Reserved, Charged, Completed, RolledBack, NeedsReview:
	}
	return CallNone
}

func (s *Saga) lookupOnly(charge Step, windows providers.Windows) bool {
	if repeatIsUseless(charge.Code) {
		return true
	}
	return !charge.StartedAt.IsZero() && !s.ReadAt.Before(charge.StartedAt.Add(windows.Repost))
}

// repeatIsUseless tells the codes with which an adapter says that another send of the same key cannot tell the outcome.
func repeatIsUseless(code string) bool {
	return code == providers.CodeServerErrorReplayed || code == providers.CodeServerErrorFinal ||
		code == providers.CodeIdempotencyMismatch
}

func (s *Saga) nextCompensation() Call {
	if refund := s.step(StepRefund); refund != nil && refund.open() {
		if refund.Outcome == providers.Processing {
			return CallCheckRefund
		}
		return CallRefund
	}
	if void := s.step(StepVoid); void != nil && void.open() {
		return CallVoid
	}
	return CallNone
}
