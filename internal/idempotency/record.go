package idempotency

import (
	"crypto/sha256"
	"time"

	"github.com/google/uuid"

	"paysaga/saga"
)

// Status is how a key's request stands.
type Status string

// The statuses of a key.
const (
	InProgress Status = "PROCESSING"
	Completed  Status = "COMPLETED" // answered with 2xx
	Failed     Status = "FAILED"    // refused for good: 402, 422
)

// Record is what is stored under a key.
type Record struct {
	Endpoint    string
	Generation  int
	Fingerprint Fingerprint
	Status      Status
	Answer      saga.Answer       // once it is answered, and until it expires
	Digest      [sha256.Size]byte // of the answer's body, where that is not kept
	SagaKey     uuid.UUID         // of the saga that the request began or is about; none for one that only needs the database
	Fence       int64             // fencing number of the newest lease
	LeaseLeft   time.Duration     // by the database's clock; zero or less: nobody holds it
	Expired     bool              // its window is over
	CreatedAt   time.Time
	CompletedAt time.Time // zero until it is answered
	ExpiresAt   time.Time
}

// Decision is what to do with a request whose key was used before.
type Decision int

// The decisions.
const (
	Replay   Decision = iota // give the stored answer
	Wait                     // somebody is at it: 409 with Retry-After
	TakeOver                 // whoever was at it is gone: go on with its saga
	Mismatch                 // the key belongs to a request with another intent: 422
	Renew                    // the window is over: a new request, the next generation
)

// Decide says what a request with this fingerprint is to a key's record. A mismatch is told before anything else, so
// that nobody waits for an answer that would not be theirs.
func Decide(r Record, fingerprint Fingerprint) Decision {
	answered := r.Status != InProgress
	switch {
	case r.Expired && answered:
		return Renew
	case !r.Fingerprint.Equal(fingerprint):
		return Mismatch
	case answered:
		return Replay
	case r.LeaseLeft > 0:
		return Wait
	}
	return TakeOver
}
