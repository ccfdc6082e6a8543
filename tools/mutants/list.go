package main

// mutant is one guard, and what is left when it is taken out.
type mutant struct {
	name     string
	file     string
	old, new string
	noticed  []string // commands, at least one of which must fail; the quickest first
}

// What notices, in the order of what it costs. Each is what the make target of that name runs, with a seed that is known to meet the guard.
const (
	simulate = "go test -count 1 -run ^TestInvariants$ ./saga/simulation -args -quick -seed 1 -runs 3000"
	ownSteps = "go test -count 1 -run StepsOfOnesOwn ./saga"
)

func mutants() []mutant {
	return []mutant{
		{
			"intent written after the call", "saga/runner.go",
			"	begun, err := r.Store.Begin(ctx, claim, change, r.Lease)\n	if short",
			"	r.send(ctx, change.After, CallCharge)\n	begun, err := r.Store.Begin(ctx, claim, change, r.Lease)\n	if short",
			[]string{simulate},
		},
		{
			"unknown charge is declined", "saga/reaction.go",
			"		providers.Unknown:        {moveRepeat, StepUnknown},\n	},\n	CallLookup: {",
			"		providers.Unknown:        {moveDecline, StepFailed},\n	},\n	CallLookup: {",
			[]string{simulate},
		},
		{
			"unknown look-up is declined", "saga/reaction.go",
			"		providers.Unknown:        {moveRepeat, \"\"},\n	},\n	// An answer to a continue",
			"		providers.Unknown:        {moveDecline, StepFailed},\n	},\n	// An answer to a continue",
			[]string{simulate},
		},
		{
			"sub-key is random", "saga/keys.go",
			"	key := sagaKey.String() + \"_\" + string(step)",
			"	key := uuid.NewString() + \"_\" + string(step) + sagaKey.String()[:0]",
			[]string{simulate},
		},
		{
			"re-POST window is ignored", "saga/next.go",
			"	return !step.StartedAt.IsZero() && !s.ReadAt.Before(step.StartedAt.Add(windows.Repost))",
			"	return false",
			[]string{simulate},
		},
		{
			"absence is conclusive at once", "saga/charge.go",
			"	if !f.absenceIsConclusive(*charge) {",
			"	if false {",
			[]string{simulate},
		},
		{
			"doubt about a dead server's send", "saga/advance.go",
			"(step.Status == StepUnknown || e.Unsure || f.saga.Unrecorded > 1)",
			"(step.Status == StepUnknown || e.Unsure)",
			[]string{simulate},
		},
		{
			"doubt about an earlier send", "saga/advance.go",
			"(step.Status == StepUnknown || e.Unsure || f.saga.Unrecorded > 1)",
			"f.saga.Unrecorded > 1",
			[]string{simulate},
		},
		{
			"payment is not closed at the deadline", "saga/charge.go",
			"	default:\n		f.compensate()\n		f.addVoid()\n	}\n}\n\n// stopWaiting",
			"	default:\n		f.compensate()\n	}\n}\n\n// stopWaiting",
			[]string{simulate},
		},
		{
			"stock is not released", "saga/compensate.go",
			"		f.stock = StockRelease\n",
			"",
			[]string{simulate},
		},
		{
			"notice of what is decided reopens it", "saga/notice.go",
			"	return (s.State == Charging || s.State == Awaiting) && charge.open() || s.held()",
			"	return charge.open() || moved(outcome.Kind) || s.held()",
			[]string{simulate},
		},
		{
			"payment after the roll-back is ignored", "saga/notice.go",
			"	case newest && s.State == RolledBack,\n",
			"	case newest && s.State == RolledBack && false,\n",
			[]string{simulate},
		},
		{
			"busy charge is declined", "saga/reaction.go",
			"		providers.Busy:           {moveRepeat, \"\"},\n		providers.Unknown:        {moveRepeat, StepUnknown},\n	},\n	CallLookup: {",
			"		providers.Busy:           {moveDecline, StepFailed},\n		providers.Unknown:        {moveRepeat, StepUnknown},\n	},\n	CallLookup: {",
			[]string{simulate},
		},
		{
			"amount is not compared", "saga/charge.go",
			"	if outcome.Money == (providers.Money{}) || outcome.Money == ours {",
			"	if outcome.Money.Amount >= 0 || outcome.Money == ours {",
			[]string{simulate},
		},
		{
			"refund's later failure is ignored", "saga/compensate.go",
			"	if f.before.State == Completed {\n		f.refund = RefundReturn\n		f.fire(fireReturn)\n		return\n	}",
			"	if f.before.State == Completed {\n		return\n	}",
			[]string{simulate},
		},
		{
			"step of one's own is not undone", "saga/definition.go",
			"	if !step.Name.own() || undoing || !step.mayBeDone() {",
			"	if true || !step.Name.own() || undoing || !step.mayBeDone() {",
			[]string{ownSteps},
		},
	}
}
