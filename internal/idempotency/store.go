package idempotency

import (
	"context"
	"errors"
	"time"

	"paysaga/saga"
)

// Held is a key that a request holds under a lease of its own, with its fencing number: whoever has another one can neither write
// nor answer any more.
type Held struct {
	AccountID  string
	Endpoint   string
	Key        string
	Generation int
	Fence      int64

	KeysPerMinute int  // the limit under which the key was claimed; 0 for none, and for one that was taken over
	Answered      bool // the answer is stored already, in the transaction of the handler's own write
}

// Store keeps the records of keys, by the database's clock. Each method is one transaction. What sagas do with keys they do
// through saga.Store.
type Store interface {
	// LookupKey reads a key's record; ok is false where there is none.
	LookupKey(ctx context.Context, account, endpoint, key string) (record Record, ok bool, err error)
	// LastGeneration tells which generation of a key that has no record is the newest of which something is left; 0 for none.
	LastGeneration(ctx context.Context, account, endpoint, key string) (int, error)

	// ClaimKey takes a key that was never used, or whose window is over. Errors: saga.ErrKeyTaken (look it up), *LimitError.
	ClaimKey(ctx context.Context, claim saga.Claim, lease time.Duration) (Held, error)
	// TakeKey takes over a key whose lease has run out, if the fence is still the given one: a compare-and-swap in one statement. It
	// and those below give saga.ErrLeaseLost where somebody else holds the key, or it is answered; nothing was written then.
	TakeKey(ctx context.Context, held Held, lease time.Duration) (Held, error)
	RenewKey(ctx context.Context, held Held, lease time.Duration) error
	// AnswerKey stores the answer. It ends the lease, as do the next two.
	AnswerKey(ctx context.Context, held Held, answer saga.Answer) error
	// ReleaseKey leaves the request to its next repeat.
	ReleaseKey(ctx context.Context, held Held) error
	// ForgetKey makes the key unused again: nothing was done under it.
	ForgetKey(ctx context.Context, held Held) error
}

// ErrExpired tells that a key is used after its window, and the policy rejects it.
var ErrExpired = errors.New("idempotency key has expired")

// MismatchError tells that a key stands for another intent.
type MismatchError struct{ Status int } // the HTTP status by which the policy tells it

func (e *MismatchError) Error() string { return "idempotency key stands for another request" }

// InProgressError tells that an earlier request with the key has no answer yet.
type InProgressError struct{ LeaseLeft time.Duration }

func (e *InProgressError) Error() string { return "an earlier request with this key has no answer yet" }

// LimitError tells that an account has begun as many new keys as it may. Nothing was written.
type LimitError struct {
	PerMinute  int
	RetryAfter time.Duration
}

func (e *LimitError) Error() string { return "the account has begun too many new keys" }
