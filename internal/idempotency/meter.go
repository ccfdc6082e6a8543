package idempotency

import "time"

// Meter hears what happens to keys. Its methods must not block. No key, fingerprint or answer is told to it.
type Meter interface {
	// DuplicateBlocked: a repeat was not carried out; how is one of the Blocked constants.
	DuplicateBlocked(endpoint, how string)
	// FingerprintMismatch: a key came with another intent.
	FingerprintMismatch(endpoint string)
	// KeyCreated: a request was begun under a new key, or under an expired one's next generation.
	KeyCreated(account, endpoint string)
	// KeyLimited: a new key was refused, as its account has begun too many.
	KeyLimited(account, endpoint string)
	// LockTimeout: a request's lease ran out before its answer was stored.
	LockTimeout(endpoint string)
	// OrphanReclaimed: a request that its holder had left was taken over; by is ByRetry or ByRecovery.
	OrphanReclaimed(endpoint, by string)
	// Processed: a request was carried out; status is that of the key, or Released. took is from its claim, or its take-over, on.
	Processed(endpoint, status string, took time.Duration)
}

// How a repeat was blocked.
const (
	BlockedReplayed   = "replayed"    // it got the stored answer
	BlockedInProgress = "in_progress" // it was told to come back
)

// Who took an orphan over.
const (
	ByRetry    = "retry"    // a repeat of its request
	ByRecovery = "recovery" // the recovery worker
)

// Released is how a request ended that is not answered yet: a repeat goes on with it.
const Released = "released"

// NoMeter hears nothing.
type NoMeter struct{}

// DuplicateBlocked is not heard.
func (NoMeter) DuplicateBlocked(string, string) {}

// FingerprintMismatch is not heard.
func (NoMeter) FingerprintMismatch(string) {}

// KeyCreated is not heard.
func (NoMeter) KeyCreated(string, string) {}

// KeyLimited is not heard.
func (NoMeter) KeyLimited(string, string) {}

// LockTimeout is not heard.
func (NoMeter) LockTimeout(string) {}

// OrphanReclaimed is not heard.
func (NoMeter) OrphanReclaimed(string, string) {}

// Processed is not heard.
func (NoMeter) Processed(string, string, time.Duration) {}
