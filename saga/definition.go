package saga

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/google/uuid"

	"paysaga/providers"
)

// Definition is the way of an order: its steps, in their order. Between the three that paysaga knows, a deployment may put steps of its
// own, each carried out by another service. docs/steps.md tells how to write one.
//
// The definition may change while sagas are under way: a step that is added before one that a saga has begun is not made up for, and one
// that is taken out must stay in the program, as Retired, until no saga has it in its timeline that could still be undone.
type Definition []StepDefinition

// StepDefinition is one step of the way: one of Reserve, Charge and Confirm, or a step of a deployment's own.
type StepDefinition struct {
	// Name stays for ever: the identifiers of the step's calls are made of it.
	Name StepName
	// Do carries the step out. It must be idempotent by the request's key: the same key is sent again until its outcome is known, and
	// a key that was carried out is answered as it was before.
	//
	// The outcome is one of succeeded; declined or rejected (nothing was done: the order is undone); processing (accepted: the same
	// key is sent again until it is decided); busy or unknown (the same key again, later). A reference is kept, and given to Undo.
	Do func(ctx context.Context, request StepRequest) providers.Outcome
	// Undo takes the step back, under a key of its own; nil where there is nothing to take back. It must be idempotent as well, and
	// take back what was never done by doing nothing. It may not be declined: an undo that is refused is for a person.
	Undo func(ctx context.Context, request StepRequest) providers.Outcome
	// Retired steps begin for no order any more, and are only finished or undone where they were begun.
	Retired bool
}

// StepRequest is one call of a step of a deployment's own.
type StepRequest struct {
	Key       providers.SubKey // of this step and attempt: the idempotency key of the call
	Undoes    providers.SubKey // for Undo: the key of what is taken back; empty for Do
	Reference string           // for Undo: what Do's outcome had for a reference
	SagaKey   uuid.UUID
	Order     Order // as it stands; without what the provider's client library made
}

// The steps that paysaga carries out itself. Reserve, if it is there, is the first; Confirm is the last.
//
//nolint:gochecknoglobals // a definition is read as a list of names
var (
	Reserve = StepDefinition{Name: StepReserve}
	Charge  = StepDefinition{Name: StepCharge}
	Confirm = StepDefinition{Name: StepConfirm}
)

// DefaultDefinition is reserve, charge, confirm.
func DefaultDefinition() Definition { return Definition{Reserve, Charge, Confirm} }

const (
	// maxOwnSteps bounds how long a client waits: each step is a call and a transaction.
	maxOwnSteps = 6
	// undoSuffix names the step that undoes another.
	undoSuffix = "_undo"
)

// ownStepName leaves room for the suffix, and for the attempt, in a sub-key of 64 characters.
var ownStepName = regexp.MustCompile(`^[a-z][a-z_]{1,16}[a-z]$`)

// check refuses a definition that no order could follow.
func (d Definition) check() error {
	var own int
	seen := map[StepName]bool{}
	for i, step := range d {
		if err := step.check(); err != nil {
			return err
		}
		switch {
		case seen[step.Name]:
			return fmt.Errorf("step %q is defined twice", step.Name)
		case step.Name == StepReserve && i > 0:
			return errors.New("reserve must be the first step: it is written with the order")
		case step.Name.own():
			own++
		}
		seen[step.Name] = true
	}
	switch {
	case !seen[StepCharge] || !seen[StepConfirm] || d[len(d)-1].Name != StepConfirm:
		return errors.New("a definition needs charge, and confirm as its last step")
	case own > maxOwnSteps:
		return fmt.Errorf("a definition has at most %d steps of its own", maxOwnSteps)
	}
	return nil
}

func (s StepDefinition) check() error {
	name := string(s.Name)
	switch reserved := strings.HasSuffix(name, undoSuffix) || strings.Contains(name, "_by_hand"); {
	case s.Name == StepReserve, s.Name == StepCharge, s.Name == StepConfirm:
		if s.Do != nil || s.Undo != nil || s.Retired {
			return fmt.Errorf("step %q is paysaga's own: use saga.Reserve, saga.Charge and saga.Confirm", name)
		}
	case reserved || !ownStepName.MatchString(name):
		return fmt.Errorf("step %q: name it by 3 to 18 characters of a-z and _, without %q or \"_by_hand\"", name, undoSuffix)
	case !s.Name.own():
		return fmt.Errorf("step %q is a name of paysaga's own", name)
	case s.Do == nil:
		return fmt.Errorf("step %q has nothing to do", s.Name)
	}
	return nil
}

// find gives a step of the definition, also where only its undoing is asked for.
func (d Definition) find(name StepName) (StepDefinition, bool) {
	i := slices.IndexFunc(d, func(step StepDefinition) bool { return step.Name == name })
	if i < 0 {
		return StepDefinition{}, false
	}
	return d[i], true
}

// has tells whether the definition has a step. An empty definition is the default one.
func (d Definition) has(name StepName) bool {
	if len(d) == 0 {
		d = DefaultDefinition()
	}
	_, found := d.find(name)
	return found
}

// before are the steps of a deployment's own that stand directly before one of paysaga's.
func (d Definition) before(name StepName) []StepDefinition {
	var own []StepDefinition
	for _, step := range d {
		switch {
		case step.Name == name:
			return own
		case step.Name.own():
			own = append(own, step)
		default:
			own = nil
		}
	}
	return nil
}

// own tells that a step is a deployment's own, or undoes one.
func (n StepName) own() bool {
	switch n {
	case StepReserve, StepRelease, StepCharge, StepVoid, StepRefund, StepConfirm, StepContinue, StepCapture:
		return false
	}
	return true
}

// undoes is the step that a step undoes, if it is the undoing of a deployment's own.
func (n StepName) undoes() (StepName, bool) {
	undone, found := strings.CutSuffix(string(n), undoSuffix)
	return StepName(undone), found && n.own()
}

// openOwn is the step of a deployment's own that has no end yet. There is one at a time.
func (s *Saga) openOwn() *Step {
	for i := range s.Steps {
		if step := &s.Steps[i]; step.Name.own() && step.open() {
			return step
		}
	}
	return nil
}

// nextOwn gives the call of the step of a deployment's own that is open.
func (s *Saga) nextOwn() Call {
	open := s.openOwn()
	if open == nil {
		return CallNone
	}
	if _, undoing := open.Name.undoes(); undoing {
		return CallUndo
	}
	return CallStep
}

// stepRequest is the call of a step of a deployment's own. It is the same for every repeat.
func (s *Saga) stepRequest(step Step) StepRequest {
	request := StepRequest{Key: step.SubKey, SagaKey: s.Key, Order: s.Order}
	request.Order.Payment.MethodData = nil
	request.Order.Items, request.Order.Metadata = slices.Clone(s.Order.Items), maps.Clone(s.Order.Metadata) // the step's to change
	if name, undoing := step.Name.undoes(); undoing {
		done := s.step(name)
		request.Undoes, request.Reference = done.SubKey, done.ProviderReference
	}
	return request
}

// callOwn carries out, or takes back, a step of a deployment's own. One that is not in the definition any more is busy, as it was not
// sent: a person hears of it in the end.
func (d Definition) callOwn(ctx context.Context, s *Saga, step Step) providers.Outcome {
	name, undoing := step.Name, false
	if undone, is := step.Name.undoes(); is {
		name, undoing = undone, true
	}
	definition, known := d.find(name)
	do := definition.Do
	if undoing {
		do = definition.Undo
	}
	if !known || do == nil {
		return unconfigured
	}
	outcome := inTime(ctx, func() providers.Outcome { return do(ctx, s.stepRequest(step)) })
	if _, known := reactions[CallStep][outcome.Kind]; !known {
		return providers.Outcome{Kind: providers.Unknown, Code: codeNoOutcome, Detail: fmt.Sprintf("The step answered %q.", outcome.Kind)}
	}
	return outcome
}

// codeNoOutcome marks what a step of a deployment's own answered that is none of the ten outcomes.
const codeNoOutcome = "no_outcome"

// inTime goes on without a call that does not heed its context: its lease would be renewed for ever. The call itself is left behind.
func inTime(ctx context.Context, call func() providers.Outcome) providers.Outcome {
	done, panicked := make(chan providers.Outcome, 1), make(chan any, 1)
	go func() {
		defer func() {
			if p := recover(); p != nil {
				panicked <- p
			}
		}()
		done <- call()
	}()
	select {
	case outcome := <-done:
		return outcome
	case p := <-panicked:
		panic(p) // where the drive's own would be
	case <-ctx.Done():
		return providers.Outcome{Kind: providers.Unknown, Code: "timeout"}
	}
}

// beginOwn opens the next step of a deployment's own that stands before one of paysaga's and was not begun. It tells whether there is one.
func (f *fold) beginOwn(before StepName) bool {
	for _, definition := range f.policy.Steps.before(before) {
		if f.saga.step(definition.Name) == nil && !definition.Retired {
			f.saga.addStep(definition.Name, StepPending, "")
			return true
		}
	}
	return false
}

// ownAnswered reacts to what came of a step of a deployment's own, or of its undoing.
func (f *fold) ownAnswered(m move, step *Step) {
	switch m {
	case moveStepDone: // localSteps goes on
	case moveStepFailed:
		f.compensate()
	default: // moveAwaitStep
		overdue := step.StartedAt.Add(f.policy.ProcessingDeadline)
		if !f.pausedUntil(overdue) {
			f.review(FindingStepOverdue, fmt.Sprintf("The step %s was accepted and has not come to its end.", step.Name))
			return
		}
		f.pause = min(f.pause, max(pollPause(f.saga.ReadAt.Sub(step.StartedAt)), time.Second))
	}
}

// undoOwn opens the undoing of the newest step of a deployment's own that was carried out, or may have been, and whose order counts: what
// came after the charge is undone before the money goes back. It tells whether there was one.
func (f *fold) undoOwn() bool {
	s := &f.saga
	for _, step := range slices.Backward(slices.Clone(s.Steps)) {
		if step.Name == StepCharge && step.Status == StepDone && s.captured() > 0 && s.step(StepRefund) == nil {
			s.addStep(StepRefund, StepPending, step.Provider).Amount = s.captured()
			return true
		}
		if f.mustUndo(step) {
			s.addStep(step.Name+undoSuffix, StepPending, "")
			return true
		}
	}
	return false
}

func (f *fold) mustUndo(step Step) bool {
	_, undoing := step.Name.undoes()
	if !step.Name.own() || undoing || !step.mayBeDone() {
		return false
	}
	undo := f.saga.step(step.Name + undoSuffix)
	definition, known := f.policy.Steps.find(step.Name)
	return (undo == nil || undo.Status == StepFailed) && (!known || definition.Undo != nil)
}

// RefusedByHouse tells that a step of a deployment's own refused the order.
func (s Step) RefusedByHouse() bool {
	_, undoing := s.Name.undoes()
	return s.Name.own() && !undoing && s.Status == StepFailed
}

// mayBeDone tells that a step was carried out, or that it was refused after a send of which nobody knows.
func (s Step) mayBeDone() bool {
	return s.Status == StepDone || s.Status == StepFailed && (s.Code == codeRefusedAfterSend || s.Code == codeByHand)
}
