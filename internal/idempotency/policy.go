package idempotency

import (
	"fmt"
	"net/http"
	"time"
)

// Policy is what a house may choose about its keys.
type Policy struct {
	Mode           Mode
	MissingKey     MissingKey
	MismatchStatus int // 422, or 409 for houses whose clients expect that
	ExpiredKeys    ExpiredKeys
	Retention      time.Duration // how long a key keeps its answer
	KeysPerMinute  int           // how many new keys an account may begin in a minute, over all processes; 0: any number
}

// Mode tells whether repeats are blocked.
type Mode string

// The modes.
const (
	// Enforce is what keys are for.
	Enforce Mode = "enforce"
	// LogOnly carries every request out, also a repeat, and only reports what would have been blocked. It protects from nothing: it is
	// for the days in which a house finds out whether its clients use their keys as they should.
	LogOnly Mode = "log_only"
)

// MissingKey is what becomes of a request that needs a key and has none.
type MissingKey string

// What may become of it.
const (
	RefuseMissing  MissingKey = "refuse"
	ProceedMissing MissingKey = "proceed" // it is carried out unprotected, and its answer says so
)

// ExpiredKeys is what becomes of a key that is used once more after its window.
type ExpiredKeys string

// What may become of it.
const (
	ExpiredNew    ExpiredKeys = "new"    // it stands for a new request, the key's next generation
	ExpiredReject ExpiredKeys = "reject" // it is refused for good, so that a request that was recorded long ago cannot be played again
)

// check refuses what is no policy.
func (p Policy) check() error {
	switch {
	case p.Mode != Enforce && p.Mode != LogOnly:
		return fmt.Errorf("unknown mode %q", p.Mode)
	case p.MissingKey != RefuseMissing && p.MissingKey != ProceedMissing:
		return fmt.Errorf("unknown reaction to missing keys %q", p.MissingKey)
	case p.ExpiredKeys != ExpiredNew && p.ExpiredKeys != ExpiredReject:
		return fmt.Errorf("unknown reaction to expired keys %q", p.ExpiredKeys)
	case p.MismatchStatus != http.StatusUnprocessableEntity && p.MismatchStatus != http.StatusConflict:
		return fmt.Errorf("a mismatch cannot be answered with %d", p.MismatchStatus)
	case p.Retention <= 0 || p.KeysPerMinute < 0:
		return fmt.Errorf("a retention of %s and %d keys a minute cannot be", p.Retention, p.KeysPerMinute)
	}
	return nil
}

// Default is the safe policy.
func Default() Policy {
	return Policy{
		Mode: Enforce, MissingKey: RefuseMissing, MismatchStatus: http.StatusUnprocessableEntity, ExpiredKeys: ExpiredNew,
		Retention: 30 * 24 * time.Hour, KeysPerMinute: 100,
	}
}
