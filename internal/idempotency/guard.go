package idempotency

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"github.com/google/uuid"

	"paysaga/saga"
)

// Config sets up a Guard.
type Config struct {
	Store  Store
	Policy Policy
	Lease  time.Duration // of requests that hold their key themselves; sagas have their own
	Meter  Meter         // may be nil
	Logger *slog.Logger
}

// Guard is the one way of every request that an Idempotency-Key guards. It has two kinds of work: that of Do claims the key in a
// transaction of its own, so that an order pays for no third one; that of Run is any function, whose key the guard claims.
type Guard struct{ Config }

// NewGuard checks the configuration.
func NewGuard(c Config) (*Guard, error) {
	if c.Store == nil || c.Logger == nil || c.Lease <= 0 {
		return nil, errors.New("a guard needs a store, a logger and a lease")
	}
	if c.Meter == nil {
		c.Meter = noMeter{}
	}
	if err := c.Policy.check(); err != nil {
		return nil, err
	}
	return &Guard{c}, nil
}

// Key is the key of a request: its client's, or a generated one for a request that runs unprotected.
type Key struct {
	text      string
	generated bool
}

// ReadKey reads the values of a request's Idempotency-Key header. Errors: ErrKeyMissing, unless the policy lets such requests proceed,
// and *KeyError.
func (g *Guard) ReadKey(values []string) (Key, error) {
	text, err := ParseKey(values)
	if errors.Is(err, ErrKeyMissing) && g.Policy.MissingKey == ProceedMissing {
		return unprotected(), nil
	}
	return Key{text: text}, err
}

// unprotected is a key that no other request has.
func unprotected() Key { return Key{text: "unprotected-" + uuid.NewString(), generated: true} }

// Call is a request as the guard sees it.
type Call struct {
	AccountID   string
	Endpoint    string // method and route pattern, "POST /v1/orders"
	Key         Key
	Fingerprint Fingerprint
}

// Work carries a call out.
type Work struct {
	// Begin claims the key in its own first transaction and carries the request out. The answer is stored when it returns without error.
	// Of its errors saga.ErrKeyTaken, saga.ErrLeaseLost, saga.ErrAnswered and saga.ErrGenerationUsed are the guard's; a
	// *saga.RefusedError wrote nothing. All others are the caller's.
	Begin func(ctx context.Context, claim saga.Claim) (saga.Answer, error)
	// Resume takes over what an earlier request with the key began and left, and goes on with it.
	Resume func(ctx context.Context, held Held, record Record) (saga.Answer, error)
}

// Result is the one answer of a key.
type Result struct {
	Answer   saga.Answer
	Replayed bool
	// BodyDigest is set in a replay whose body is not kept: its SHA-256.
	BodyDigest *[32]byte
	// Protection is what the answer must say of a request that was not protected; empty for one that was.
	Protection string

	overtaken bool // the request was begun and lost its lease: this is the answer of whoever took it over
}

// maxLooks bounds how often a request that lost a race looks again at who won it. Each loss means that somebody else
// made progress, so a second look nearly always has the answer.
const maxLooks = 4

// Do finds the one answer for a call: the stored one, or that of the work, which it begins or takes over.
// Errors: *MismatchError, ErrExpired, *InProgressError, *LimitError, and those of the work.
func (g *Guard) Do(ctx context.Context, call Call, work Work) (Result, error) {
	result, err := g.find(ctx, call, work)
	if call.Key.generated {
		result.Protection = "none"
	}
	if g.Policy.Mode == LogOnly && !result.overtaken {
		return g.observe(ctx, call, work, result, err)
	}
	return result, err
}

// observe carries out what would have been blocked, under a key of its own, and reports it.
func (g *Guard) observe(ctx context.Context, call Call, work Work, result Result, err error) (Result, error) {
	_, waits := errors.AsType[*InProgressError](err)
	_, mismatches := errors.AsType[*MismatchError](err)
	var would string
	switch {
	case result.Replayed:
		would = "replay"
	case waits:
		would = "in-progress"
	case mismatches:
		would = "mismatch"
	case errors.Is(err, ErrExpired):
		would = "expired"
	default:
		return result, err
	}
	g.Logger.WarnContext(ctx, "request would have been blocked", "endpoint", call.Endpoint, "account", call.AccountID, "would", would)
	call.Key = unprotected()
	result, err = g.find(ctx, call, work)
	result.Protection = "observed; would=" + would
	return result, err
}

// find looks the key up and does what its record asks for, again where somebody else came first. A request that its order refuses may be
// the second of two with the same key, of which the first has changed the order meanwhile: so the key is looked up once more before
// the refusal is told.
func (g *Guard) find(ctx context.Context, call Call, work Work) (Result, error) {
	var refused error
	overtaken := false
	generation := 1 // of a request that is begun
	for range maxLooks {
		record, used, err := g.Store.LookupKey(ctx, call.AccountID, call.Endpoint, call.Key.text)
		if err != nil {
			return Result{}, fmt.Errorf("look key up: %w", err)
		}
		if refused != nil && !used {
			return Result{}, refused
		}
		generation = max(generation, record.Generation+1)
		result, err := g.decide(ctx, call, work, record, used, generation)
		switch {
		case refused == nil && isRefused(err):
			refused = err
		case errors.Is(err, saga.ErrGenerationUsed):
			if generation, err = g.nextGeneration(ctx, call); err != nil {
				return Result{}, err
			}
		case errors.Is(err, saga.ErrKeyTaken), lostLease(err):
			overtaken = overtaken || result.overtaken
		default:
			result.overtaken = overtaken
			return result, err
		}
	}
	return Result{overtaken: overtaken}, &InProgressError{}
}

// lostLease tells that somebody else has the request now, or has answered it.
func lostLease(err error) bool {
	return errors.Is(err, saga.ErrLeaseLost) || errors.Is(err, saga.ErrAnswered)
}

func isRefused(err error) bool {
	_, refused := errors.AsType[*saga.RefusedError](err)
	return refused
}

// nextGeneration is for a key whose record was cleaned up, while what it began is still there.
func (g *Guard) nextGeneration(ctx context.Context, call Call) (int, error) {
	if g.Policy.ExpiredKeys == ExpiredReject {
		return 0, ErrExpired
	}
	last, err := g.Store.LastGeneration(ctx, call.AccountID, call.Endpoint, call.Key.text)
	if err != nil {
		return 0, fmt.Errorf("look for the key's last generation: %w", err)
	}
	return last + 1, nil
}

func (g *Guard) decide(ctx context.Context, call Call, work Work, record Record, used bool, generation int) (Result, error) {
	if used {
		switch Decide(record, call.Fingerprint) {
		case Replay:
			g.Meter.DuplicateBlocked(call.Endpoint, BlockedReplayed)
			return replay(record), nil
		case Wait:
			g.Meter.DuplicateBlocked(call.Endpoint, BlockedInProgress)
			return Result{}, &InProgressError{record.LeaseLeft}
		case Mismatch:
			g.Meter.FingerprintMismatch(call.Endpoint)
			return Result{}, &MismatchError{g.Policy.MismatchStatus}
		case TakeOver:
			return g.resume(ctx, call, work, record)
		case Renew:
			if g.Policy.ExpiredKeys == ExpiredReject {
				return Result{}, ErrExpired
			}
		}
	}
	return g.begin(ctx, call, work, generation)
}

func replay(record Record) Result {
	result := Result{Answer: record.Answer, Replayed: true}
	if record.Digest != ([32]byte{}) {
		result.BodyDigest = &record.Digest
	}
	return result
}

func (g *Guard) begin(ctx context.Context, call Call, work Work, generation int) (Result, error) {
	begun := time.Now()
	claim := saga.Claim{
		AccountID: call.AccountID, Endpoint: call.Endpoint, Key: call.Key.text, Fingerprint: call.Fingerprint,
		Generation: generation, Retention: g.Policy.Retention,
	}
	if g.Policy.Mode == Enforce {
		claim.KeysPerMinute = g.Policy.KeysPerMinute
	}
	answer, err := work.Begin(ctx, claim)
	if _, limited := errors.AsType[*LimitError](err); limited {
		g.Meter.KeyLimited(call.AccountID, call.Endpoint)
	}
	result := Result{Answer: answer}
	if lostLease(err) { // in resume, where it can be a lost race as well, nothing is counted
		result.overtaken = true
		g.Meter.LockTimeout(call.Endpoint)
	}
	if err == nil {
		g.Meter.KeyCreated(call.AccountID, call.Endpoint)
		g.processed(call, answer, begun)
	}
	return result, err
}

func (g *Guard) resume(ctx context.Context, call Call, work Work, record Record) (Result, error) {
	begun := time.Now()
	answer, err := work.Resume(ctx, Held{
		AccountID: call.AccountID, Endpoint: call.Endpoint, Key: call.Key.text, Generation: record.Generation, Fence: record.Fence,
	}, record)
	if err == nil {
		g.Meter.OrphanReclaimed(call.Endpoint, ByRetry)
		g.processed(call, answer, begun)
	}
	return Result{Answer: answer}, err
}

func (g *Guard) processed(call Call, answer saga.Answer, begun time.Time) {
	status := string(StatusOf(answer.Status))
	if answer.Status >= 500 {
		status = Released // never stored
	}
	g.Meter.Processed(call.Endpoint, status, time.Since(begun))
}

// StatusOf is the status of a key that is answered with an HTTP status.
func StatusOf(httpStatus int) Status {
	if httpStatus >= 400 {
		return Failed
	}
	return Completed
}
