package idempotency

import "time"

// Meter hears what happens to keys. Its methods must not block. No key, fingerprint or answer is told to it.
type Meter interface {
	// DuplicateBlocked: a repeat was not carried out; how is one of the Blocked constants.
	DuplicateBlocked(endpoint, how string)
	// FingerprintMismatch: a key came with another intent.
	FingerprintMismatch(endpoint string)
	// KeyCreated: a request was carried out under a new key, or under an expired one's next generation.
	KeyCreated(account, endpoint string)
	// KeyLimited: a new key was refused, as its account has begun too many.
	KeyLimited(account, endpoint string)
	// LockTimeout: a holder whose lease had run out came back, and found its request taken over.
	LockTimeout(endpoint string)
	// OrphanReclaimed: a request that its holder had left was taken over; by is ByRetry or ByRecovery.
	OrphanReclaimed(endpoint, by string)
	// Processed: a request was carried out; status is what its answer makes of a key, or Released. took is from its claim, or its
	// take-over, on.
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

// noMeter hears nothing.
type noMeter struct{}

func (noMeter) DuplicateBlocked(string, string)         {}
func (noMeter) FingerprintMismatch(string)              {}
func (noMeter) KeyCreated(string, string)               {}
func (noMeter) KeyLimited(string, string)               {}
func (noMeter) LockTimeout(string)                      {}
func (noMeter) OrphanReclaimed(string, string)          {}
func (noMeter) Processed(string, string, time.Duration) {}
