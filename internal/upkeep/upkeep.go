// Package upkeep keeps the tables of keys and answers in shape while they are in use: it deletes keys whose window is over, makes the
// partitions that answers will need, and drops those that no answer needs any more.
//
// It decides in which order and how much at a time. What may be deleted and dropped the store decides, in the statement that does it.
// Several processes may run it: each batch is one transaction behind one lock of the database, so nothing is held by a process
// that is gone.
package upkeep

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"time"
)

// Attachment is how a partition belongs to the table of answers.
type Attachment string

// The attachments.
const (
	Attached  Attachment = "attached"
	Detaching Attachment = "detaching" // its detachment was interrupted and must be finished
	Detached  Attachment = "detached"  // nobody reads it any more, and it still has to be dropped
)

// Partition has the answers of the keys whose windows end in one week.
type Partition struct {
	Name       string
	From, To   time.Time // days in UTC; the second is the first that is not in it
	Attachment Attachment
	Rows       int64 // by the statistics
	Bytes      int64 // with indexes
}

// Partitions are all there are, oldest first.
type Partitions struct {
	Today time.Time // the database's day in UTC
	List  []Partition
}

// Over are those whose week is over.
func (p Partitions) Over() []Partition {
	var over []Partition
	for _, partition := range p.List {
		if !partition.To.After(p.Today) {
			over = append(over, partition)
		}
	}
	return over
}

const day = 24 * time.Hour

// DaysAhead tells for how many days from today on there is a partition for every answer.
func (p Partitions) DaysAhead() int { return int(p.End().Sub(p.Today) / day) }

// DaysForNewKeys tells for how many days the answers of new keys, which are kept that long, find a partition; at 0 or less a request
// makes it.
func (p Partitions) DaysForNewKeys(retention time.Duration) int {
	return p.DaysAhead() - int(retention/day)
}

// End is the first day from today on for whose answers there is no partition.
func (p Partitions) End() time.Time {
	end := p.Today
	for _, partition := range p.List {
		if partition.Attachment == Attached && !partition.From.After(end) && partition.To.After(end) {
			end = partition.To
		}
	}
	return end
}

// Figures are for the metrics.
type Figures struct {
	Rows      map[string]int64 // of the tables, by the statistics; of a partitioned table those of all its partitions
	Overdue   int64            // keys without an answer whose lease ended more than OverdueAfter ago
	OpenSagas map[string]int64 // by the state in which they rest, states without any included
}

// OverdueAfter is when a key that nobody works on is overdue: a worker takes it up within seconds.
const OverdueAfter = 5 * time.Minute

// Store does the upkeep's steps. Each method that changes something gives ErrBusy where another process is at it.
type Store interface {
	// MakePartitions makes those that are missing for the answers of keys that expire from today on until that time from now.
	MakePartitions(ctx context.Context, ahead time.Duration) (made int, err error)
	ListPartitions(ctx context.Context) (Partitions, error)
	// KeepAnswers moves answers out of a partition whose keys may still be asked for, to that of a day that far ahead.
	KeepAnswers(ctx context.Context, p Partition, ahead time.Duration, limit int) (moved int, err error)
	// DropPartition drops one whose week is over, for good. Errors: *InUseError, ErrHeld.
	DropPartition(ctx context.Context, p Partition) error
	// DeleteExpiredKeys deletes the first keys that expired at a time or later and may begin anew, and tells when the last of them did.
	DeleteExpiredKeys(ctx context.Context, from time.Time, limit int) (deleted int, last time.Time, err error)
	// CountExpiredKeys counts what DeleteExpiredKeys would delete, up to a limit.
	CountExpiredKeys(ctx context.Context, limit int) (int, error)
	// DeleteLimits deletes what was counted against an account's limit on new keys that long ago.
	DeleteLimits(ctx context.Context, ago time.Duration, limit int) (deleted int, err error)
	ReadFigures(ctx context.Context) (Figures, error)
}

var (
	// ErrBusy tells that another process does upkeep at this moment.
	ErrBusy = errors.New("another process does upkeep")
	// ErrHeld tells that a transaction of somebody else's, such as a dump, kept a table locked for too long.
	ErrHeld = errors.New("a long transaction holds the table")
)

// InUseError tells why a partition is not dropped: keys that may still be asked for need it.
type InUseError struct{ Keys int }

func (e *InUseError) Error() string {
	return fmt.Sprintf("%d keys still need it", e.Keys)
}

// Meter hears how the tables stand. Its methods must not block.
type Meter interface {
	SetStoreSize(table string, rows int64)
	SetProcessingOverdue(keys int64)
	// SetPartitionsAhead: for so many days the answers of new keys find a partition; at 0 or less a request makes it.
	SetPartitionsAhead(days int64)
	SetOpenSagas(state string, sagas int64)
	KeysCleaned(keys int64)
	PartitionsDropped(partitions int64)
	Succeeded(at time.Time)
}

// Config sets up a Worker.
type Config struct {
	Store       Store
	Interval    time.Duration
	Retention   time.Duration // how long new keys keep their answer
	KeepExpired bool          // expired keys stay, as they are to be refused
	Meter       Meter         // may be nil
	Logger      *slog.Logger
}

// Worker does upkeep.
type Worker struct{ Config }

// New checks the configuration.
func New(c Config) (*Worker, error) {
	if c.Store == nil || c.Logger == nil || c.Interval <= 0 || c.Retention <= 0 {
		return nil, errors.New("upkeep needs a store, a logger, an interval and a retention")
	}
	if c.Meter == nil {
		c.Meter = noMeter{}
	}
	return &Worker{c}, nil
}

type noMeter struct{}

func (noMeter) SetStoreSize(string, int64) {}
func (noMeter) SetProcessingOverdue(int64) {}
func (noMeter) SetPartitionsAhead(int64)   {}
func (noMeter) SetOpenSagas(string, int64) {}
func (noMeter) KeysCleaned(int64)          {}
func (noMeter) PartitionsDropped(int64)    {}
func (noMeter) Succeeded(time.Time)        {}
