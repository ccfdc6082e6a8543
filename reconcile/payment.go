package reconcile

import (
	"time"

	"github.com/google/uuid"

	"paysaga/providers"
	"paysaga/reconcile/statement"
	"paysaga/saga"
)

// Payment is one order's payment as the database has it: all attempts to charge it, and what was given back of it.
type Payment struct {
	AccountID string
	OrderID   uuid.UUID // equal to the saga's key
	State     saga.State
	Capture   saga.CaptureMode
	Money     providers.Money // the order's
	Captured  int64           // minor units, as the next two
	Refunded  int64
	Refunding int64 // asked for and not given back yet
	Charges   []Charge
	Captures  []Capture // of held money, the oldest first
	Refunds   []Refund
	Void      *Void     // the newest, while nobody knows how it ended
	HeldStock bool      // some of its reservations are neither sold nor released
	Busy      bool      // somebody drives it at this moment: what is seen may be half a change
	DueAt     time.Time // when somebody must look at it again; zero when nobody must
	InReview  []string  // the kinds of findings for which its saga waits for a person
	CreatedAt time.Time
	UpdatedAt time.Time // when the payment, or a refund of it, moved on last: a change of the order's metadata is none
}

// Charge is one attempt to charge.
type Charge struct {
	Provider  string
	Key       providers.SubKey
	Attempt   int
	Reference string // the provider's id of the payment; empty while nobody knows it
	Status    saga.StepStatus
	Outcome   providers.OutcomeKind
	Captures  []providers.SubKey // of its captures
	StartedAt time.Time
	SettledAt time.Time // zero while it is open
}

// Capture is one call that takes held money.
type Capture struct {
	Provider  string
	Key       providers.SubKey
	Reference string // the provider's id of it; empty while nobody knows it
	Amount    int64  // minor units of the order's currency
	Status    saga.StepStatus
}

// Void is the call that closes the payment of an order which was given up.
type Void struct {
	Provider  string
	Key       providers.SubKey
	Reference string // the provider's id of it; empty while nobody knows it
	GivesBack bool   // what is taken by then; else it only lets go of what is held
	Refused   bool   // by the provider, which has not told why
}

// Refund is money that was given back, or is to be: by the shop's wish, or to undo the order.
type Refund struct {
	SagaKey   uuid.UUID // the order's, where the refund undoes it
	State     saga.State
	Busy      bool // as the payment's, with the next two
	DueAt     time.Time
	UpdatedAt time.Time
	Provider  string
	Key       providers.SubKey
	Reference string // the provider's id of it; empty while nobody knows it
	Amount    int64  // minor units of the order's currency
	Status    saga.StepStatus
	StartedAt time.Time
	SettledAt time.Time // zero while it is open
}

// Pair is one payment from both sides.
type Pair struct {
	Payment Payment
	// There is what the providers' lists and notices told of it last.
	There []Told
	// Settled are the lines about it of all settlement files that were read.
	Settled []Settlement
	// Events are those of its provider that were not applied.
	Events []Event
}

// Told is a transaction as a provider told of it.
type Told struct {
	providers.Transaction

	Provider string
	ToldAt   time.Time // by the database's clock: what happened here since, it says nothing about
	Booked   bool      // by a settlement file only
}

// Settlement is a line of a settlement file, with its provider.
type Settlement struct {
	statement.Line

	Provider string
}

// Event is one of a provider that waits, or was given up, in the inbox.
type Event struct {
	Provider   string
	ID         string
	Parked     bool
	Again      int // how often it was brought again after it had been given up
	ReceivedAt time.Time
}

// Coverage is a time in which everything that a provider has was listed, without a gap: what is not there then is missing.
type Coverage struct{ From, Until time.Time }

// Newest is the last of the times that were listed, the oldest of which comes first; zero where none was.
func Newest(listed []Coverage) Coverage {
	if len(listed) == 0 {
		return Coverage{}
	}
	return listed[len(listed)-1]
}

// Covers tells whether all of a provider's transactions made at a time were listed.
func (c Coverage) Covers(at time.Time) bool { return !at.Before(c.From) && at.Before(c.Until) }

func (c Capture) open() bool { return c.Status == saga.StepPending || c.Status == saga.StepUnknown }

func (r Refund) done() bool { return r.Status == saga.StepDone }

func (r Refund) open() bool { return r.Status == saga.StepPending || r.Status == saga.StepUnknown }
