package saga

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"paysaga/providers"
)

func TestEveryOutcomeOfEveryCallHasAReaction(t *testing.T) {
	t.Parallel()
	for _, call := range allCalls {
		for _, kind := range allOutcomes {
			if _, ok := reactions[call][kind]; !ok {
				t.Errorf("no reaction to %q of a %s call", kind, call)
			}
		}
		if len(reactions[call]) != len(allOutcomes) {
			t.Errorf("%s has %d reactions for %d outcomes", call, len(reactions[call]), len(allOutcomes))
		}
	}
	if len(reactions) != len(allCalls) {
		t.Errorf("the table has %d calls, there are %d", len(reactions), len(allCalls))
	}
}

// Every move is named by a table.
func TestTablesNameNothingInVain(t *testing.T) {
	t.Parallel()
	made := map[move]bool{}
	for _, table := range []map[Call]map[providers.OutcomeKind]reaction{reactions, refundReactions} {
		for _, row := range table {
			for _, reaction := range row {
				made[reaction.move] = true
			}
		}
	}
	for m := moveReview; m <= moveRefundFailed; m++ {
		if !made[m] {
			t.Errorf("nothing leads to move %d", m)
		}
	}
}

func TestRefundsDifferWhereTheTableSaysSo(t *testing.T) {
	t.Parallel()
	for call, row := range refundReactions {
		for kind, reaction := range row {
			if reactions[call][kind] == reaction {
				t.Errorf("%s → %s is the same for a refund", call, kind)
			}
			if got, ok := reactionTo(KindRefund, call, kind); !ok || got != reaction {
				t.Errorf("%s → %s of a refund: %v", call, kind, got)
			}
			if got, _ := reactionTo(KindOrder, call, kind); got != reactions[call][kind] {
				t.Errorf("%s → %s of an order: %v", call, kind, got)
			}
		}
	}
}

func TestEveryReactionCanBeCarriedOut(t *testing.T) {
	t.Parallel()
	for _, call := range allCalls {
		for _, s := range scenesFor(call) {
			if due := Next(s, testPolicy.Windows); due != call {
				t.Fatalf("the scene for %s in state %s asks for %q", call, s.State, due)
			}
			for _, kind := range allOutcomes {
				checkCarriedOut(t, s, answered(call, providers.Outcome{Kind: kind}))
			}
		}
	}
}

func checkCarriedOut(t *testing.T, s Saga, e Event) {
	t.Helper()
	before := s.clone()
	change, err := Advance(s, e, testPolicy)
	if err != nil {
		t.Errorf("%s → %s in state %s: %v", e.Call, e.Outcome.Kind, s.State, err)
	}
	if (change.After.State == NeedsReview) != (change.Finding != nil) {
		t.Errorf("%s → %s in state %s: state %s with finding %v", e.Call, e.Outcome.Kind, s.State, change.After.State, change.Finding)
	}
	if diff := cmp.Diff(before, s); diff != "" {
		t.Errorf("%s → %s in state %s: Advance changed what it was given:\n%s", e.Call, e.Outcome.Kind, s.State, diff)
	}
}

// Invariant I4: what nobody knows is no failure. Nothing is undone, nothing is tried anew, nothing goes on.
func TestUnknownIsNeverTakenForAFailure(t *testing.T) {
	t.Parallel()
	for _, call := range allCalls {
		for _, s := range scenesFor(call) {
			for _, outcome := range inconclusive(call) {
				for _, failures := range []int{0, testPolicy.MaxFailures} {
					s.Failures = failures
					t.Run(fmt.Sprintf("%s in %s %s %s after %d", call, s.State, outcome.Kind, outcome.Code, failures), func(t *testing.T) {
						t.Parallel()
						checkNothingDecided(t, s, call, outcome)
					})
				}
			}
		}
	}
}

// inconclusive are the outcomes of a call that say nothing about money.
func inconclusive(call Call) []providers.Outcome {
	outcomes := []providers.Outcome{
		{Kind: providers.Unknown},
		{Kind: providers.Unknown, Code: providers.CodeServerErrorReplayed},
		{Kind: providers.Unknown, Code: providers.CodeIdempotencyMismatch},
		{Kind: providers.Unknown, Code: providers.CodeSeveralPayments},
		{Kind: providers.Busy},
		{Kind: providers.Busy, Code: providers.CodeUnreachable, RetryAfter: time.Minute},
		{Kind: providers.Busy, Code: providers.CodeCredentialsRefused},
	}
	if call == CallLookup { // its scenes are within the search's delay, or have a reference
		outcomes = append(outcomes, providers.Outcome{Kind: providers.NotFound})
	}
	return outcomes
}

func checkNothingDecided(t *testing.T, s Saga, call Call, outcome providers.Outcome) {
	t.Helper()
	change, err := Advance(s, answered(call, outcome), testPolicy)
	if err != nil {
		t.Fatal(err)
	}
	after := change.After
	switch after.State {
	case s.State:
		if change.Pause <= 0 {
			t.Error("the same call would be made again at once")
		}
		if s.Failures >= testPolicy.MaxFailures {
			t.Error("tries for ever")
		}
	case NeedsReview:
		if change.Finding == nil {
			t.Error("waits for a person without a finding")
		}
	default:
		t.Errorf("state went from %s to %s", s.State, after.State)
	}
	if change.Stock != StockNone {
		t.Errorf("stock effect %q", change.Stock)
	}
	checkNoStepDecided(t, s, after)
}

func checkNoStepDecided(t *testing.T, s, after Saga) {
	t.Helper()
	if len(after.Steps) != len(s.Steps) {
		t.Fatalf("steps were added: %v", after.Steps)
	}
	for i, step := range s.Steps {
		if got := after.Steps[i].Status; got != step.Status && got != StepUnknown {
			t.Errorf("step %s went from %s to %s", step.Name, step.Status, got)
		}
	}
}

// An outcome that comes where its call is not made must not touch anything.
func TestOutcomesOfCallsThatAreNotDueAreRefused(t *testing.T) {
	t.Parallel()
	fits := map[Call][]State{
		CallCharge: {Charging}, CallContinue: {Awaiting}, CallLookup: {Charging, Awaiting}, CallCapture: {Awaiting},
		CallVoid: {Compensating, Awaiting}, CallRefund: {Compensating}, CallCheckRefund: {Compensating},
	}
	everything := []Step{
		line(StepReserve, StepDone), chargeWith(StepDone), line(StepConfirm, StepDone), line(StepVoid, StepPending),
		line(StepRefund, StepPending),
	}
	for _, state := range allStates {
		for _, call := range allCalls {
			if slices.Contains(fits[call], state) {
				continue
			}
			for _, kind := range allOutcomes {
				if _, err := Advance(scene(state, append([]Step(nil), everything...)...), answered(call, providers.Outcome{Kind: kind}), testPolicy); err == nil {
					t.Errorf("%s → %s was accepted in state %s", call, kind, state)
				}
			}
		}
	}
}
