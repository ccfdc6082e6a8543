package reconcile

import (
	"context"
	"errors"
	"slices"
	"testing"

	"github.com/google/uuid"

	"paysaga/providers"
	"paysaga/saga"
)

// standingSaga is a saga that goes on, or does not, when something is brought to it.
type standingSaga struct {
	Repairer

	asked  *providers.Outcome // what the provider tells; nil where it cannot be asked
	goesOn bool
	stands string
	calls  []string
}

func (s *standingSaga) Standing(context.Context, saga.Ref) (string, error) { return s.stands, nil }

func (s *standingSaga) Look(context.Context, saga.Ref) (outcome providers.Outcome, ok bool, err error) {
	if s.asked == nil {
		return providers.Outcome{}, false, nil
	}
	return *s.asked, true, nil
}

func (s *standingSaga) Notify(context.Context, saga.Ref, providers.Notice) error {
	return s.called("notify")
}

func (s *standingSaga) Retry(context.Context, saga.Ref, string) error { return s.called("retry") }

func (s *standingSaga) called(name string) error {
	s.calls = append(s.calls, name)
	if s.goesOn {
		s.stands += " and on"
	}
	return nil
}

// A repair that is to bring a saga on is carried out only if the saga stands elsewhere then. What a provider announces once is brought to it;
// else it is driven.
func TestRepairsThatMoveNothing(t *testing.T) {
	t.Parallel()
	notice := &providers.Notice{ID: "reconcile re_1", Outcome: &providers.Outcome{Kind: providers.Succeeded}}
	for name, test := range map[string]struct {
		repair   Repair
		provider string
		notice   *providers.Notice
		call     string
	}{
		"resumed, told once":    {RepairResume, "adyen", notice, "notify"},
		"resumed, can be asked": {RepairResume, "stripe", notice, "retry"},
		"resumed, nothing told": {RepairResume, "adyen", nil, "retry"},
		"completed":             {RepairComplete, "adyen", notice, "notify"},
		"undone":                {RepairUndo, "adyen", notice, "notify"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			for _, goesOn := range []bool{true, false} {
				stands := &standingSaga{goesOn: goesOn, stands: "here"}
				o := &once{Worker: &Worker{Config{Repairs: stands, Announcing: []string{"adyen"}}}}
				f := Finding{Kind: StatusMismatch, SagaKey: uuid.New(), Provider: test.provider, Notice: test.notice}
				err := o.carryOut(t.Context(), test.repair, f, saga.Refunding)
				if errors.Is(err, errUnmoved) == goesOn || (err != nil) == goesOn || !slices.Equal(stands.calls, []string{test.call}) {
					t.Errorf("goes on: %t; %v after %v", goesOn, err, stands.calls)
				}
			}
		})
	}
}

// A provider that can be asked is asked right before a repair, and what it tells counts: nothing is undone over other money than was found.
func TestRepairsAskOnceMore(t *testing.T) {
	t.Parallel()
	euros := func(amount int64) providers.Money { return providers.Money{Amount: amount, Currency: "EUR"} }
	taken := func(money providers.Money) providers.Outcome {
		return providers.Outcome{Kind: providers.Succeeded, Reference: "pi_1", Money: money}
	}
	partly := taken(euros(1000))
	partly.Code = providers.CodePartiallyRefunded
	for name, test := range map[string]struct {
		repair Repair
		asked  providers.Outcome
		done   bool
	}{
		"undone":                       {RepairUndo, taken(euros(3998)), true},
		"undone, more was taken":       {RepairUndo, taken(euros(99800)), false},
		"undone, in another currency":  {RepairUndo, taken(providers.Money{Amount: 3998, Currency: "USD"}), false},
		"undone, nothing is there":     {RepairUndo, providers.Outcome{Kind: providers.Canceled}, false},
		"undone, told without amount":  {RepairUndo, taken(providers.Money{}), true},
		"undone, a part is given back": {RepairUndo, partly, true},
		"let go, nothing is held":      {RepairLetGo, providers.Outcome{Kind: providers.Canceled}, true},
		"let go, it was taken":         {RepairLetGo, taken(euros(3998)), false},
		"completed":                    {RepairComplete, taken(euros(3998)), true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			stands := &standingSaga{goesOn: true, stands: "here", asked: &test.asked}
			o := &once{Worker: &Worker{Config{Repairs: stands}}}
			notice := providers.Notice{ID: "reconcile pi_1", Outcome: &providers.Outcome{Kind: providers.Succeeded, Money: euros(3998)}}
			f := Finding{Kind: StatusMismatch, SagaKey: uuid.New(), Provider: "stripe", Notice: &notice}
			err := o.carryOut(t.Context(), test.repair, f, saga.RolledBack)
			_, contradicted := errors.AsType[*contradictedError](err)
			if contradicted == test.done || test.done != (len(stands.calls) == 1) {
				t.Errorf("%v after %v", err, stands.calls)
			}
		})
	}
}
