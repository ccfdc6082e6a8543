package saga

import (
	"time"

	"paysaga/providers"
)

// StepName is one of the steps forward or one of the compensations that undo them.
type StepName string

// The steps, each beside what undoes it.
const (
	StepReserve StepName = "reserve" // hold the stock; undone by release
	StepRelease StepName = "release"
	StepCharge  StepName = "charge" // take or hold the money; undone by void while it is not taken, by refund once it is
	StepVoid    StepName = "void"
	StepRefund  StepName = "refund"
	StepConfirm StepName = "confirm" // the stock is sold; the last step, never undone

	StepContinue StepName = "continue" // go on with the charge after the customer acted; a charge may need none or several
	StepCapture  StepName = "capture"  // take held money, all or a part
)

// StepStatus is how one attempt of a step stands.
type StepStatus string

// The statuses of a step. Unknown means that it was sent and nobody knows whether it happened.
const (
	StepPending StepStatus = "pending"
	StepDone    StepStatus = "done"
	StepFailed  StepStatus = "failed"
	StepUnknown StepStatus = "unknown"
	StepUndone  StepStatus = "undone"
)

// Step is one attempt of one step: a line of the timeline that an operator reads. It is written before its call is made.
type Step struct {
	Name              StepName
	Attempt           int
	SubKey            providers.SubKey
	Status            StepStatus
	Provider          string // empty for local steps
	ProviderReference string
	Target            string                // a payment: of a void as it was known then, of a refund if it is not the order's own
	Amount            int64                 // of a capture or refund, minor units; zero for a whole order's
	Final             bool                  // of a capture: what is left of the hold is let go
	Details           string                // of a continue: what the customer's way back brought, JSON; kept sealed
	Outcome           providers.OutcomeKind // of the last call
	Code              string                // the reason for it, the provider's or our own
	Detail            string                // the same as a sentence, where there is one
	Sends             int                   // calls whose outcome was recorded
	SentAt            time.Time             // when the last of them ended; zero before
	StartedAt         time.Time             // when the intent was committed, by the database's clock; zero before
	FinishedAt        time.Time             // zero while it is open
}

// moved tells of an outcome of a charge that money is held or taken.
func moved(kind providers.OutcomeKind) bool {
	return kind == providers.Authorized || kind == providers.Succeeded
}

// open reports whether the step still has to come to an end.
func (s Step) open() bool { return s.Status == StepPending || s.Status == StepUnknown }
