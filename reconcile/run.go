package reconcile

import (
	"time"

	"github.com/google/uuid"
)

// Mode is what a run may do.
type Mode string

// The modes.
const (
	ModePlan  Mode = "plan"  // find, and say what would be done
	ModeApply Mode = "apply" // and do it, as far as rules and limits allow
)

// RunState is how a run stands.
type RunState string

// The states of a run.
const (
	RunRequested RunState = "requested" // by an operator, for a worker to take up
	RunRunning   RunState = "running"   // also of one that was killed: the next run goes on with it
	RunDone      RunState = "done"
	RunStopped   RunState = "stopped" // before any repair, as they would exceed the limit of money for a run
	RunFailed    RunState = "failed"
)

// Stage is how far a run is. The stages come in this order.
type Stage string

// The stages.
const (
	StageList      Stage = "list"      // what the providers have is read; of a statement: the file
	StageMatch     Stage = "match"     // our payments against it
	StageUnclaimed Stage = "unclaimed" // what is left over at the providers
	StageRepair    Stage = "repair"
	StageEnd       Stage = "end"
)

// Run is one reconciliation.
type Run struct {
	ID          uuid.UUID
	Mode        Mode
	Providers   []string // that it is about, in this order
	StatementID int64    // of the settlement file that it is about; zero: about what the providers list
	File        string   // that file's name
	Since       time.Time
	Until       time.Time
	RequestedBy string // as the audit log tells it

	State  RunState
	Stage  Stage
	Cursor string // within the stage, in the words of whoever is read
	Totals Totals
	Reason string // why it stopped or failed, and which lists are behind; while it runs, which providers could not be listed

	Fence      int64 // of its lease; a write under an older one is refused
	CreatedAt  time.Time
	FinishedAt time.Time // zero while it runs
}

// Totals are what a run has read, found and done so far.
type Totals struct {
	Transactions int64 `json:"transactions"` // read from lists
	Lines        int64 `json:"lines"`        // read from a settlement file
	Malformed    int64 `json:"malformed"`    // of these, that could not be read
	Payments     int64 `json:"payments"`     // ours that were compared
	Unclaimed    int64 `json:"unclaimed"`    // the provider's that no order knows
	Opened       int64 `json:"opened"`       // findings that are new
	SeenAgain    int64 `json:"seen_again"`
	Healed       int64 `json:"healed"` // findings that are gone by themselves
	Repaired     int64 `json:"repaired"`
	Refused      int64 `json:"refused"` // repairs that could not be carried out
	// Untold are those of the unclaimed that are no findings of their own, by provider: too many are without a key of ours.
	Untold map[string]Sum `json:"untold,omitempty"`
	// Listed is what of each provider was listed.
	Listed map[string]Listed `json:"listed,omitempty"`
	// Moved is the money that the repairs which were carried out are about, as far as they move any or can with the saga's next step, by
	// currency, in minor units.
	Moved map[string]int64 `json:"moved,omitempty"`
}

// Listed is the time of a provider that a run lists: from where on, and how far it has come.
type Listed struct {
	From  time.Time `json:"from"`
	Until time.Time `json:"until"`
	// Behind tells that the list was not complete up to where the run would have listed it.
	Behind bool `json:"behind,omitempty"`
}

// Scope is which payments a run is about: those whose charge began in the window, those that the run's list or file tells of, and
// whatever of ours is open.
type Scope struct {
	Run       uuid.UUID
	Providers []string
	Since     time.Time
	Until     time.Time
	// StuckSince: an order or refund that has not moved since then is without an end.
	StuckSince time.Time
	// EventSince: an event that waits since before then was not applied.
	EventSince time.Time
}

// Place is where a batch of pairs ended, in the order of account and order.
type Place struct {
	AccountID string
	OrderID   uuid.UUID
}

// Unclaimed is what a provider tells of and no payment of ours is about.
type Unclaimed struct {
	Provider  string
	Reference string // by which it is told from others: the payment's
	There     []Told
	Settled   []Settlement
	Open      bool // a finding about it is open
}

// Judged is what a batch came to: what was judged, and what was found. What is open of reconciliation's findings, was judged and is not
// found again has healed; all else stays as it is.
type Judged struct {
	Sagas     []JudgedSaga
	Unclaimed []Provided // what belongs to no order: all about it was judged
	Found     []Finding
}

// Provided names something of a provider.
type Provided struct{ Provider, Reference string }

// Counts are what writing a batch of findings came to.
type Counts struct{ Opened, SeenAgain, Healed int64 }
