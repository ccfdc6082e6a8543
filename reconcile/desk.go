package reconcile

import (
	"context"
	"time"

	"github.com/google/uuid"

	"paysaga/saga"
)

// FindingState is how a finding stands with people.
type FindingState string

// The states of a finding.
const (
	FindingOpen     FindingState = "open"
	FindingIgnored  FindingState = "ignored"  // open, and nobody wants to hear of it for a while
	FindingResolved FindingState = "resolved" // healed, repaired, or decided by a person
)

// What a finding's Resolution is where reconciliation closes it, and not a decision about its saga.
const (
	ResolutionHealed   = "healed"   // it was looked for again, and not found
	ResolutionRepaired = "repaired" // a run has mended it
	ResolutionByHand   = "by_hand"  // a person says that it is settled
)

// Record is a finding as it is kept, with what became of it. One that a saga wrote about itself has no facts and no severity before
// reconciliation came upon it as well.
type Record struct {
	Finding

	ID           uuid.UUID
	State        FindingState // by the database's clock
	OfSaga       bool         // its saga waits for a person by it: it is decided there
	FirstSeen    time.Time
	LastSeen     time.Time
	IgnoredUntil time.Time // zero: it is not
	Refused      string    // why the last repair could not be carried out
	ResolvedAt   time.Time // zero while it is open
	Resolution   string
}

// FindingFilter narrows a list of findings, newest first. Empty fields do not narrow it.
type FindingFilter struct {
	Account  *string // nil: of all accounts, and what is nobody's
	State    FindingState
	Kind     Kind
	Severity Severity
	Provider string
	Before   *saga.FindingPlace // by when it was first seen, and its id
	Limit    int
}

// FindingDecision is what a person says about a finding.
type FindingDecision struct {
	Account     *string // whose it must be; nil: anybody's
	Finding     uuid.UUID
	IgnoreUntil time.Time // zero: it is settled
	Reason      string
	Actor       string // as the audit log tells it
}

// Why a person's wish is refused (*saga.RefusedError).
const (
	// RefusedInReview: the finding's saga waits for a person, and is decided itself.
	RefusedInReview saga.RefusalReason = "finding-in-review"
	// RefusedResolved: somebody, or a run, was first.
	RefusedResolved saga.RefusalReason = "finding-resolved"
	// RefusedWaiting: a run that was requested before has not begun.
	RefusedWaiting saga.RefusalReason = "reconciliation-waiting"
)

// RunFilter narrows a list of runs, newest first.
type RunFilter struct {
	Before *RunPlace
	Limit  int
}

// RunPlace is where a run stands in such a list.
type RunPlace struct {
	CreatedAt time.Time
	ID        uuid.UUID
}

// Keyed is a request under an idempotency key: its claim, and what it is answered with. Both are written in the transaction of what the
// request changes; of a claim, the errors are those of saga.Store.
type Keyed[T any] struct {
	Claim  saga.Claim
	Answer func(T) (saga.Answer, error)
}

// Desk is what people read and decide. All times are the database's.
type Desk interface {
	// Findings reads a page of them.
	Findings(ctx context.Context, filter FindingFilter) ([]Record, error)
	// Finding reads one. Errors: saga.ErrNotFound, for another account's as for none.
	Finding(ctx context.Context, account *string, id uuid.UUID) (Record, error)
	// DecideFinding closes a finding, or has it ignored for a time, and writes the audit log (finding.resolved, finding.ignored, by the
	// finding's id). keyed is nil for a decision without a key. Errors: saga.ErrNotFound, *saga.RefusedError.
	DecideFinding(ctx context.Context, decision FindingDecision, keyed *Keyed[Record]) (Record, error)

	// Runs reads a page of them.
	Runs(ctx context.Context, filter RunFilter) ([]Run, error)
	// ReadRun reads one. Errors: saga.ErrNotFound.
	ReadRun(ctx context.Context, id uuid.UUID) (Run, error)
	// RequestRun writes a run for a worker to take up, and the audit log of the request's account (reconciliation.requested, by the run's
	// id). One at most waits. Errors: *saga.RefusedError.
	RequestRun(ctx context.Context, run Run, keyed Keyed[Run]) (Run, error)
	// NextRequested is the run that waits, for BeginRun to take up by its id. Errors: saga.ErrNotFound.
	NextRequested(ctx context.Context) (Run, error)

	// Figures counts what is open.
	Figures(ctx context.Context) (Figures, error)
}

// Figures are what is open at a moment, and how recent that is.
type Figures struct {
	Open        []OpenFigure
	AtStake     map[string]int64     // of the open findings, by currency, in minor units
	LastSuccess map[string]time.Time // by provider: when the last run that was about it ended well
	Now         time.Time
}

// OpenFigure counts open findings of a kind and severity; those that are ignored are not counted.
type OpenFigure struct {
	Kind     Kind
	Severity Severity
	Count    int64
	Oldest   time.Time // when the first of them was first seen
}
