// Package webhook is the inbox for what the payment providers announce. A message is verified on its raw bytes, its events are
// stored once, and it is acknowledged before anything is done about them; a worker then brings each event to the saga that it
// is about.
//
// Providers send events twice, in any order, before their own answer to our call has arrived, months late, about payments that
// were never ours and of types that nobody has heard of. All of them are kept. One whose application fails is tried again, and
// one that is given up stays where it is, with the reason, until its provider is asked to send it again.
//
// The package knows no provider: how a message is verified and read is its adapter's (Parser). It decides nothing about a
// saga: that is Runner's, to whom the same event may come any number of times. And it keeps no body of a message, since that
// holds the customer's name, address and mail: only what the notice of an event has.
package webhook

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"sync"
	"time"

	"paysaga/providers"
	"paysaga/saga"
)

// Parser verifies a provider's message on its raw bytes and reads the events in it: all, or none. Its errors wrap
// providers.ErrSignature, ErrMalformed or ErrUnavailable and repeat nothing of the message.
type Parser interface {
	Parse(header http.Header, body []byte, now time.Time) ([]providers.Notice, error)
}

// Runner brings a notice to a saga; *saga.Runner is one. What its errors mean is said at Reaction.
type Runner interface {
	Notify(ctx context.Context, ref saga.Ref, notice providers.Notice) error
}

// Store keeps events, by the database's clock.
type Store interface {
	// KeepEvents stores the notices that are not there yet, all or none, and returns how many those are. One that had been given
	// up, parked or unmatched, counts as new and is tried again: somebody had the provider send it once more.
	KeepEvents(ctx context.Context, provider string, notices []providers.Notice) (fresh int, err error)
	// ClaimEvents hands out up to limit events that are due, the oldest first, each to one worker until the lease has run out.
	ClaimEvents(ctx context.Context, limit int, lease time.Duration) ([]Event, error)
	// FindSaga finds the saga that a notice is about. Errors: saga.ErrNotFound.
	FindSaga(ctx context.Context, provider string, notice providers.Notice) (saga.Ref, error)
	// SettleEvent writes what came of an attempt. Errors: saga.ErrLeaseLost when the event was handed to another worker meanwhile;
	// nothing is written then.
	SettleEvent(ctx context.Context, event Event, result Result) error
}

// Status is how an event stands.
type Status string

// The statuses. All but Waiting are ends, though the last two begin anew when the provider sends the event again.
const (
	Waiting   Status = "waiting"   // to be applied, or to be tried again
	Applied   Status = "applied"   // its saga knows
	Unmatched Status = "unmatched" // about nothing of ours
	Parked    Status = "parked"    // its saga could not take it; for a person to see
)

// Event is a notice that was stored, as one attempt to apply it finds it.
type Event struct {
	Provider string
	Notice   providers.Notice
	Fence    int64         // fencing number of this attempt
	Attempts int           // since it was received, this one included
	Failures int           // those before it that count
	Age      time.Duration // since it was received, by the database's clock
}

// Result is what came of an attempt.
type Result struct {
	Status Status
	Saga   saga.Ref      // whom it is about; zero where none was found
	Pause  time.Duration // until the next attempt, while Waiting
	Failed bool          // whether the attempt counts as a failure
	Reason string        // why it is not applied, in one sentence without secrets
}

// Endpoint is where one provider's messages come in.
type Endpoint struct {
	Parser   Parser
	Accepted string // the body of a 200, where the provider wants its own; else an empty JSON object
}

// Config sets up an Inbox.
type Config struct {
	Store     Store
	Runner    Runner
	Endpoints map[string]Endpoint // by provider
	// Lease is how long an event belongs to the worker that claimed it, and so how long those of a process that died wait. It should
	// be longer than a saga is mostly driven; two workers at one event do no harm, as a saga takes it once.
	Lease       time.Duration
	Interval    time.Duration // between two looks when nothing is due; what this process stores is taken up at once
	Concurrency int           // events applied at once, and so the most that one look claims
	Logger      *slog.Logger
}

// Inbox takes events in (ServeHTTP) and applies them (Run). A process may do both or one of the two, and any number of
// processes may: the database hands out each event once.
type Inbox struct {
	Config

	verifying map[string]chan struct{} // slots by provider
	slots     chan struct{}            // of attempts
	stored    chan struct{}            // a signal that something may be due
	busy      sync.Map                 // saga.Ref of the sagas that an attempt of this process is at
}

// New checks the configuration.
func New(c Config) (*Inbox, error) {
	if c.Store == nil || c.Runner == nil || c.Logger == nil || c.Lease <= 0 || c.Interval <= 0 || c.Concurrency <= 0 {
		return nil, errors.New("a webhook inbox needs a store, a runner, a logger, a lease, an interval and a concurrency")
	}
	inbox := &Inbox{
		Config: c, verifying: make(map[string]chan struct{}, len(c.Endpoints)), slots: make(chan struct{}, c.Concurrency),
		stored: make(chan struct{}, 1),
	}
	for provider, endpoint := range c.Endpoints {
		if endpoint.Parser == nil || len(provider) == 0 || len(provider) > maxProviderLength {
			return nil, fmt.Errorf("a webhook endpoint needs a parser and a provider's name, not %q", provider)
		}
		inbox.verifying[provider] = make(chan struct{}, maxVerifying)
	}
	return inbox, nil
}
