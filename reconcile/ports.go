package reconcile

import (
	"context"
	"errors"
	"time"

	"github.com/google/uuid"

	"paysaga/providers"
	"paysaga/reconcile/statement"
	"paysaga/saga"
)

// What a store may answer beside a plain failure.
var (
	// ErrBusy: another run holds the lease of reconciliation.
	ErrBusy = errors.New("another reconciliation is running")
	// ErrLeaseLost: this run's lease has run out, and another may have taken it. Nothing was written.
	ErrLeaseLost = errors.New("lease of the reconciliation is lost")
	// ErrReadBefore: a settlement file with the same content was read to its end and held against the payments before.
	ErrReadBefore = errors.New("settlement file was read before")
	// ErrFindingInReview: the finding is why a saga waits for a person. It ends with the decision about the saga.
	ErrFindingInReview = errors.New("finding ends with the decision about its saga")
	// ErrFindingResolved: the finding has ended.
	ErrFindingResolved = errors.New("finding is resolved")
)

// Store keeps what the providers told, what was found, and how runs went. All times are the database's.
type Store interface {
	RunStore
	ToldStore
	StatementStore
	FindingStore
}

// RunStore keeps runs and their lease.
type RunStore interface {
	// Now is the database's clock.
	Now(ctx context.Context) (time.Time, error)
	// BeginRun takes the one lease of reconciliation, and writes the run. Where an earlier run of the same mode, providers, window and
	// statement was left running within the last day, that one is given instead, to go on. A run with an id was given by NextRequested and
	// is taken up. Errors: ErrBusy.
	BeginRun(ctx context.Context, run Run, lease time.Duration) (Run, error)
	// NextRequested finds the oldest run that an operator asked for and nobody has taken up, or has left within the last day. ok is false
	// where there is none.
	NextRequested(ctx context.Context) (run Run, ok bool, err error)
	// LeftRun finds the newest run of a mode that somebody wanted and a process left on the way within the last day: nobody works on it. One
	// about a settlement file is none, as only who has the file can go on.
	LeftRun(ctx context.Context, requestedBy string, mode Mode) (run Run, ok bool, err error)
	// NewestRun is when the newest run began that somebody wanted; zero where there is none.
	NewestRun(ctx context.Context, requestedBy string) (time.Time, error)
	// SaveRun writes how far a run is and prolongs the lease. A run that has ended gives it back. Errors: ErrLeaseLost, as of all that
	// writes for a run.
	SaveRun(ctx context.Context, run Run, lease time.Duration) error
	// RenewRun prolongs the lease of a run that is busy with one thing for long; for no time, it gives the lease back and leaves the run to
	// the next one that goes on with it. Errors: ErrLeaseLost.
	RenewRun(ctx context.Context, run Run, lease time.Duration) error
}

// ToldStore keeps what the providers told.
type ToldStore interface {
	// Coverage are the times of a provider that were listed without a gap, the oldest first; no two of them touch.
	Coverage(ctx context.Context, provider string) ([]Coverage, error)
	// Cover notes that a time of a provider was listed to its end, beside what was listed before. What was told of that time before and this
	// run did not come upon is forgotten, unless that is so much that the list is not to be believed.
	Cover(ctx context.Context, run Run, provider string, listed Coverage) error
	// PutCompared notes that what a provider has of a time was compared with our payments. ComparedUntil is up to when that was done without
	// a gap; zero where it never was.
	PutCompared(ctx context.Context, run Run, provider string, listed Coverage) error
	ComparedUntil(ctx context.Context, provider string) (time.Time, error)
	// PutTransactions keeps what a list told: the newest of each transaction, and that this run came upon it. askedAt is the database's time
	// when the provider was asked.
	PutTransactions(ctx context.Context, run Run, provider string, askedAt time.Time, told []providers.Transaction) error
	// PutNotices keeps in the same way what a provider that cannot be listed announced in a time.
	PutNotices(ctx context.Context, run Run, provider string, listed Coverage) (transactions int64, err error)
}

// StatementStore keeps settlement files.
type StatementStore interface {
	// OpenStatement notes a settlement file by the SHA-256 of its content, and gives how it is kept.
	OpenStatement(ctx context.Context, provider, name string, digest [32]byte) (KeptStatement, error)
	// ReadStatement reads how a file is kept. Errors: saga.ErrNotFound.
	ReadStatement(ctx context.Context, id int64) (KeptStatement, error)
	// RestartStatement forgets the lines of the run's file, which is to be read once more, and notes by which time zone.
	RestartStatement(ctx context.Context, run Run, zone string) error
	// PutLines keeps lines of the run's file, in the file's order, each booking once, in whatever file it stands. One that tells a kept
	// booking with other money is not kept, and is a fault in what CloseStatement gives.
	PutLines(ctx context.Context, run Run, provider string, lines []statement.Line) error
	// CloseStatement notes what the run's file came to at its end, and gives it, with the faults that only PutLines found.
	CloseStatement(ctx context.Context, run Run, report statement.Report) (statement.Report, error)
}

// FindingStore gives both sides of payments, and keeps what was found about them.
type FindingStore interface {
	// NextPairs reads up to limit payments in scope, from behind a place on, each with everything that is known of it on both sides.
	NextPairs(ctx context.Context, scope Scope, after Place, limit int) ([]Pair, error)
	// ReadPair reads one payment anew. Errors: saga.ErrNotFound.
	ReadPair(ctx context.Context, order Place) (Pair, error)
	// NextUnclaimed reads up to limit things that this run's lists or file tell of and that no payment is about, from behind a reference on.
	// With them come those about which a finding is open; one that a payment is about by now comes with nothing told of it.
	NextUnclaimed(ctx context.Context, scope Scope, after Provided, limit int) ([]Unclaimed, error)

	// CountUnclaimed counts the open findings about payments of a provider that no order knows.
	CountUnclaimed(ctx context.Context, provider string) (int64, error)

	// PutFindings writes what a batch came to: new findings, those seen again, those that have healed. A finding that a person resolved
	// while it was still there is not opened again before something about it changes; one that is ignored stays so.
	PutFindings(ctx context.Context, run Run, judged Judged) (Counts, error)
	// NextRepairs reads up to limit open findings that this run came upon and that are not ignored, from behind an id on. Left out are those
	// whose repair is RepairReview and whose saga is in review already.
	NextRepairs(ctx context.Context, run Run, after uuid.UUID, limit int) ([]Open, error)
	// PutRepair notes what came of a repair, for people, and closes the finding where it is mended: not one because of which a saga waits for
	// a person.
	PutRepair(ctx context.Context, run Run, finding uuid.UUID, mended bool, note string) error
	// PutSummary writes the day's event about what is open, for each account that has none of today yet, and tells for how many.
	PutSummary(ctx context.Context) (accounts int, err error)
}

// Source is a provider that lists what it has.
type Source interface {
	ListLimits() providers.ListLimits
	// List reads a page. An error is *providers.ListError.
	List(ctx context.Context, request providers.ListRequest) (providers.ListPage, error)
}

// Repairer hands repairs to the sagas. Each is one operation with a key derived from the finding: doing it again does nothing more.
// Errors: *saga.RefusedError, saga.ErrLeaseLost, saga.ErrInReview, saga.ErrNotFound; the others mean that nobody knows.
type Repairer interface {
	// Look asks the provider how a payment stands now. ok is false where it cannot be asked.
	Look(ctx context.Context, ref saga.Ref) (outcome providers.Outcome, ok bool, err error)
	// Notify brings what a provider has to the saga, as if it had announced it.
	Notify(ctx context.Context, ref saga.Ref, notice providers.Notice) error
	// Standing tells where a saga stands, in a text that is another one once it has gone on.
	Standing(ctx context.Context, ref saga.Ref) (string, error)
	// Retry has a saga in review, or one that rests, go on where it stands.
	Retry(ctx context.Context, ref saga.Ref, reason string) error
	// Contradict stops a saga for a person.
	Contradict(ctx context.Context, ref saga.Ref, kind, detail string) error
	// RecordRefund writes down a refund of a completed order that the provider gave and nobody here asked for.
	RecordRefund(ctx context.Context, order saga.Ref, found saga.FoundRefund) error
	// ReleaseOrphan ends the reservation of an order that is over.
	ReleaseOrphan(ctx context.Context, order saga.Ref) error
	// RefundOther gives back, once, what a provider took for an order beside the payment that it knows.
	RefundOther(ctx context.Context, order saga.Ref, other saga.OtherPayment) error
	// ApplyWebhook has an event that was given up brought to its saga once more.
	ApplyWebhook(ctx context.Context, provider, event string) error
}
