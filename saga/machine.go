package saga

import (
	"context"
	"fmt"

	"github.com/looplab/fsm"
)

// State is where a saga stands.
type State string

// The states. A saga ends in completed or rolled_back, or waits for a person in needs_review.
const (
	Started      State = "started"      // nothing done yet
	Reserved     State = "reserved"     // the stock is held
	Charging     State = "charging"     // the charge's intent is written; the call may be out
	Awaiting     State = "awaiting"     // the customer must act, the provider takes its time, or the money is held for a capture
	Charged      State = "charged"      // the money is taken
	Completed    State = "completed"    // the stock is sold, the refund given: the end
	Compensating State = "compensating" // what was done is being undone
	RolledBack   State = "rolled_back"  // nothing kept, nothing held: the end
	Refunding    State = "refunding"    // of a refund: asked for, and not given back yet
	NeedsReview  State = "needs_review" // no rule decides; a finding says why
)

// Ended reports whether nothing will happen by itself any more.
func (s State) Ended() bool { return s == Completed || s == RolledBack || s == NeedsReview }

// What moves a saga from state to state.
const (
	fireReserve    = "reserve"
	fireSend       = "send"
	fireAwait      = "await"
	fireTake       = "take"
	fireConfirm    = "confirm"
	fireCompensate = "compensate"
	fireRollBack   = "roll_back"
	fireRefund     = "refund"
	fireReturn     = "return"
	fireLate       = "late"
	fireReview     = "review"

	// A person's ways out of review.
	fireRetryStep        = "retry_step"
	fireRetryAwait       = "retry_await"
	fireRetryUndo        = "retry_undo"
	fireRetryRefund      = "retry_refund"
	fireSettleTaken      = "settle_taken"
	fireSettleUndone     = "settle_undone"
	fireSettleCompleted  = "settle_completed"
	fireSettleRolledBack = "settle_rolled_back"
)

// transitions is the whole table of states; docs/ARCHITECTURE.md shows it as a picture.
var transitions = fsm.Events{
	{Name: fireReserve, Src: states(Started), Dst: string(Reserved)},
	{Name: fireSend, Src: states(Reserved, Awaiting), Dst: string(Charging)},
	{Name: fireAwait, Src: states(Charging), Dst: string(Awaiting)},
	{Name: fireTake, Src: states(Charging, Awaiting), Dst: string(Charged)},
	{Name: fireConfirm, Src: states(Charged, Refunding), Dst: string(Completed)},
	{Name: fireCompensate, Src: states(Started, Reserved, Charging, Awaiting, Charged), Dst: string(Compensating)},
	{Name: fireRollBack, Src: states(Compensating, Refunding), Dst: string(RolledBack)},
	{Name: fireRefund, Src: states(Started), Dst: string(Refunding)},
	{Name: fireReturn, Src: states(Completed), Dst: string(RolledBack)},
	{Name: fireLate, Src: states(RolledBack), Dst: string(Compensating)},
	{
		Name: fireReview,
		Src:  states(Started, Reserved, Charging, Awaiting, Charged, Compensating, Refunding, Completed, RolledBack),
		Dst:  string(NeedsReview),
	},
	{Name: fireRetryStep, Src: states(NeedsReview), Dst: string(Reserved)},
	{Name: fireRetryAwait, Src: states(NeedsReview), Dst: string(Awaiting)},
	{Name: fireRetryUndo, Src: states(NeedsReview), Dst: string(Compensating)},
	{Name: fireRetryRefund, Src: states(NeedsReview), Dst: string(Refunding)},
	{Name: fireSettleTaken, Src: states(NeedsReview), Dst: string(Charged)},
	{Name: fireSettleUndone, Src: states(NeedsReview), Dst: string(Compensating)},
	{Name: fireSettleCompleted, Src: states(NeedsReview), Dst: string(Completed)},
	{Name: fireSettleRolledBack, Src: states(NeedsReview), Dst: string(RolledBack)},
}

func states(list ...State) []string {
	names := make([]string, len(list))
	for i, state := range list {
		names[i] = string(state)
	}
	return names
}

// way is one way out of a state.
type way struct {
	from  State
	event string
}

// ways is the table, read once: a machine made anew for each move would cost more than all else that Advance does.
var ways = readWays()

func readWays() map[way]State {
	all := map[way]State{}
	for _, event := range transitions {
		for _, from := range event.Src {
			machine := fsm.NewFSM(from, transitions, nil)
			if err := machine.Event(context.Background(), event.Name); err != nil {
				panic(fmt.Sprintf("the table of states leads from %s by %s to nowhere: %v", from, event.Name, err))
			}
			all[way{State(from), event.Name}] = State(machine.Current())
		}
	}
	return all
}

// fire gives the state that follows, or an error where the table has no such way.
func fire(from State, event string) (State, error) {
	to, ok := ways[way{from, event}]
	if !ok {
		return from, fmt.Errorf("move saga from %s by %s: there is no such way", from, event)
	}
	return to, nil
}
