package reconcile

import (
	"time"

	"github.com/google/uuid"

	"paysaga/reconcile/statement"
	"paysaga/saga"
)

// FoundBy is who came upon a finding first.
type FoundBy string

// The finders.
const (
	BySaga           FoundBy = "saga" // which waits for a person since: deciding about it ends the finding
	ByReconciliation FoundBy = "reconciliation"
)

// FindingState is how a finding stands.
type FindingState string

// The states of a finding.
const (
	FindingOpen     FindingState = "open"
	FindingIgnored  FindingState = "ignored" // open, and not to be told until a time
	FindingResolved FindingState = "resolved"
)

// How a finding ends. One of a saga in review ends with the word of the decision about that.
const (
	ResolutionHealed   = "healed"   // a later run did not find it again
	ResolutionRepaired = "repaired" // a run mended it
	ResolutionByPerson = "resolved" // an operator ended it, with a reason
)

// Open is a finding that is kept.
type Open struct {
	Finding

	ID        uuid.UUID
	FirstSeen time.Time
	LastSeen  time.Time
	Ignored   time.Time // until then; zero: not
}

// Kept is a finding with all that became of it. Lists leave its facts out.
type Kept struct {
	Open

	FoundBy    FoundBy
	State      FindingState // by the database's clock
	Run        uuid.UUID    // that came upon it last; zero: none did
	Note       string       // what came of the last repair
	ResolvedAt time.Time    // zero while it is open
	Resolution string       // how it ended; empty while it is open
	ResolvedBy string       // who ended or ignored it; empty where nobody did
	Reason     string       // in that person's words
}

// ResolvedWith tells that a person resolved it with these very words.
func (k Kept) ResolvedWith(note Note) bool {
	return k.Resolution == ResolutionByPerson && k.ResolvedBy == note.Actor && k.Reason == note.Reason
}

// FindingFilter narrows a list of findings, newest first. Empty fields do not narrow it.
type FindingFilter struct {
	AccountID string // empty: everybody's, and what belongs to nobody
	Kind      Kind
	Severity  Severity
	Provider  string
	State     FindingState
	Before    *saga.FindingPlace // only findings older than this one
	Limit     int
}

// Note is what a person has to say about a finding.
type Note struct {
	Actor  string // as the audit log tells it
	Reason string
	Until  time.Time // of what is to be ignored
}

// RunFilter narrows a list of runs, newest first.
type RunFilter struct {
	Before *RunPlace // only runs older than this one
	Limit  int
}

// RunPlace is where a run stands in such a list.
type RunPlace struct {
	CreatedAt time.Time
	ID        uuid.UUID
}

// Figures are what is open, for metrics. What is ignored does not count.
type Figures struct {
	Open    []OpenFigure
	Oldest  time.Duration    // the age of the oldest; zero where none is open
	AtStake map[string]int64 // by currency, in minor units
	// Compared is up to when all that a provider has was compared with our payments, by provider.
	Compared map[string]time.Time
}

// OpenFigure is how many findings of a kind are open.
type OpenFigure struct {
	Kind     Kind
	Severity Severity
	Findings int64
}

// KeptStatement is a settlement file as it is kept.
type KeptStatement struct {
	ID     int64
	Name   string // without its folders
	Zone   string // by which times without one were read; empty: none was told
	IsRead bool   // to its end
	ReadTo int    // the last line that is kept, while it is read
	// Reconciled are the modes of the runs about it that ended well since it was read.
	Reconciled []Mode
	Report     statement.Report // of one that is read
}
