package saga

import (
	"time"

	"github.com/google/uuid"
)

// Review is a saga with all that was found about it, and all that people decided.
type Review struct {
	Saga     Saga
	Findings []FindingRecord // oldest first; in a list those that are open
	Audit    []AuditEntry    // oldest first; none in a list
}

// FindingRecord is a finding as it is kept, also after somebody decided about it.
type FindingRecord struct {
	Finding

	SagaKey    uuid.UUID
	OrderID    uuid.UUID
	ResolvedAt time.Time // zero while it is open
	Resolution string    // the decision that closed it; empty while it is open
}

// AuditEntry is one thing that somebody did by hand.
type AuditEntry struct {
	ID              int64 // grows
	Actor           string
	Action          string // "saga.nothing_kept"
	Subject         string // a saga's key, an API key's id
	Reason          string
	OutsideProvider bool
	CreatedAt       time.Time
}

// OpenStates are those in which a saga without an end can rest; in reserved and charged, while a step of the deployment's own is open.
func OpenStates() []State {
	return []State{Reserved, Charging, Awaiting, Charged, Compensating, Refunding, NeedsReview}
}

// ReviewFilter narrows a list of sagas that have no end yet, the longest unmoved first. Empty fields do not narrow it.
type ReviewFilter struct {
	State    State // one of OpenStates
	Kind     Kind
	Provider string
	Finding  string       // only sagas with an open finding of this kind
	After    *ReviewPlace // only sagas behind this one
	Limit    int
}

// ReviewPlace is where a saga stands in such a list.
type ReviewPlace struct {
	UpdatedAt time.Time
	Key       uuid.UUID
}

// FindingPlace is where a finding stands in such a list.
type FindingPlace struct {
	CreatedAt time.Time
	ID        uuid.UUID
}

// AuditFilter narrows a list of the audit log, newest first. Empty fields do not narrow it.
type AuditFilter struct {
	Subject string
	Before  int64 // only entries with a lower id; zero for all
	Limit   int
}
