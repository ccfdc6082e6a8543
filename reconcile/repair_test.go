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

	goesOn bool
	stands string
	calls  []string
}

func (s *standingSaga) Standing(context.Context, saga.Ref) (string, error) { return s.stands, nil }

func (s *standingSaga) Look(context.Context, saga.Ref) (outcome providers.Outcome, ok bool, err error) {
	return providers.Outcome{}, false, nil
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
