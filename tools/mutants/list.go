package main

import "slices"

// mutant is one guard, and what is left when it is taken out.
type mutant struct {
	name     string
	file     string
	old, new string
	noticed  []string // commands, at least one of which must fail; the quickest first
}

// What notices, in the order of what it costs.
const (
	// What the make target of that name runs, from the seed and for as long as the guards need.
	simulate = "go test -count 1 -run ^TestInvariants$ ./saga/simulation -args -quick -seed 1 -runs 4000"
	// What "make simulate SEED=… RUNS=4000 FIXTURE=…" and "paysaga fixtures replay …" run.
	sketch = "go test -count 1 -run ^TestInvariants$ ./saga/simulation -args -seed %d -runs 4000 -fixture %s"
	replay = "go run ./cmd/paysaga fixtures replay %s"
	// What "paysaga fixtures replay" plays.
	fixtures = "go test -count 1 -run ^TestLibrary$ ./saga/fixture"
	// Servers that are cut off from their database, and servers that are killed, frozen and cut off while shops order.
	cutOff = "go test -count 1 -run CutOff ./internal/chaos -args -seed 3 -rest 40s"
	chaos  = "go test -count 1 -run ^TestChaos$ ./internal/chaos -args -seed 3 -rest 40s"
	// Guards that only tests of their own meet.
	ownSteps  = "go test -count 1 -run StepsOfOnesOwn ./saga"
	decisions = "go test -count 1 -run ProviderHasItsSay ./saga"
	store     = "go test -count 1 -run TestStoreKeepsItsContract ./internal/postgres"
)

// shown are the mutants whose failures in the simulation are also written as fixtures: those must be green without the mutant, and one
// at least red with it. For some failures a fixture has no words, such as a customer at PayPal who has not paid yet.
func shown() []string {
	return []string{"unknown charge is declined", "doubt about a dead server's send", "doubt about an earlier send"}
}

func mutants() []mutant { return slices.Concat(answers(), undoing(), writes()) }

// answers are the guards of what is made of a provider's answers.
func answers() []mutant {
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
	}
}

// undoing are the guards of how an order is given up, and of what is announced later.
func undoing() []mutant {
	return []mutant{
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
			[]string{fixtures, simulate},
		},
		{
			"refund's later failure is ignored", "saga/compensate.go",
			"	if f.before.State == Completed {\n		f.refund = RefundReturn\n		f.fire(fireReturn)\n		return\n	}",
			"	if f.before.State == Completed {\n		return\n	}",
			[]string{fixtures, simulate},
		},
	}
}

// writes are the guards of what is kept, of keys, and of what people and deployments add.
func writes() []mutant {
	return []mutant{
		{
			"fence of a write", "internal/postgres/saga.go",
			"WHERE account_id = $1 AND key = $2 AND lock_version = $3 AND state = $4\n			RETURNING account_id, key, lock_version, locked_until",
			"WHERE account_id = $1 AND key = $2 AND $3::bigint IS NOT NULL AND state = $4\n			RETURNING account_id, key, lock_version, locked_until",
			[]string{cutOff, store},
		},
		{
			"events are kept twice", "internal/postgres/webhook.go",
			"n.ID, n.Type, n.About",
			"n.ID + uuid.NewString(), n.Type, n.About",
			[]string{fixtures, chaos},
		},
		{
			"fingerprint is not compared", "internal/idempotency/record.go",
			"	case !r.Fingerprint.Equal(fingerprint):",
			"	case false:",
			[]string{simulate},
		},
		{
			"key that is answered begins anew", "internal/idempotency/record.go",
			"	case r.Expired && answered:",
			"	case answered:",
			[]string{simulate},
		},
		{
			"unknown void is done", "saga/reaction.go",
			"		providers.Unknown:        {moveRepeat, StepUnknown},\n		providers.Authorized:     {moveReview, StepUnknown},\n		providers.ActionRequired: {moveReview, StepUnknown},\n		providers.Declined:       {moveReview, StepUnknown},",
			"		providers.Unknown:        {moveVoided, StepDone},\n		providers.Authorized:     {moveReview, StepUnknown},\n		providers.ActionRequired: {moveReview, StepUnknown},\n		providers.Declined:       {moveReview, StepUnknown},",
			[]string{simulate},
		},
		{
			"unknown refund is done", "saga/reaction.go",
			"		providers.Unknown:        {moveRepeat, StepUnknown},\n		providers.Declined:       {moveReview, StepFailed},\n		providers.Rejected:       {moveReview, StepFailed},\n		providers.Canceled:       {moveReview, StepFailed},\n		providers.Authorized",
			"		providers.Unknown:        {moveRefunded, StepDone},\n		providers.Declined:       {moveReview, StepFailed},\n		providers.Rejected:       {moveReview, StepFailed},\n		providers.Canceled:       {moveReview, StepFailed},\n		providers.Authorized",
			[]string{simulate},
		},
		{
			"lease that is held is taken", "internal/postgres/lease.go",
			"			WHERE next_attempt_at <= now() AND locked_until <= now()\n",
			"			WHERE next_attempt_at <= now() + interval '1 hour'\n",
			[]string{store},
		},
		{
			"decision against the provider", "saga/decision.go",
			"	case !d.OutsideProvider && !tellsNothingKept(told):",
			"	case false && !tellsNothingKept(told):",
			[]string{decisions},
		},
		{
			"step of one's own is not undone", "saga/definition.go",
			"	if !step.Name.own() || undoing || !step.mayBeDone() {",
			"	if true || !step.Name.own() || undoing || !step.mayBeDone() {",
			[]string{ownSteps},
		},
	}
}
