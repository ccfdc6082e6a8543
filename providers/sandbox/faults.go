package sandbox

import (
	"encoding/binary"
	"errors"
	"fmt"
	"hash/fnv"
	"slices"
	"strings"
	"sync"
)

// CallType says what a provider call is for, in words that fit all providers.
type CallType string

// The call types; CallAny is only for faults.
const (
	CallCharge  CallType = "charge"
	CallCapture CallType = "capture"
	CallVoid    CallType = "void"
	CallRefund  CallType = "refund"
	CallLookup  CallType = "lookup" // one object by id, or a search
	CallList    CallType = "list"
	CallToken   CallType = "token" // fetching an access token
	CallAny     CallType = "any"
)

var callTypes = []CallType{CallCharge, CallCapture, CallVoid, CallRefund, CallLookup, CallList, CallToken, CallAny}

// FaultKind is what goes wrong. "Before" means that the call had no effect; "after" means that it was executed, and its
// true answer saved under the key, but did not arrive.
type FaultKind string

// The faults.
const (
	FaultTimeoutBefore FaultKind = "timeout_before" // no answer until the client gives up, or delay_ms
	FaultTimeoutAfter  FaultKind = "timeout_after"
	FaultErrorBefore   FaultKind = "error_before" // 500 in front of the API
	FaultErrorAfter    FaultKind = "error_after"  // 500 from the edge; a repeat replays the true answer
	FaultErrorSaved    FaultKind = "error_saved"  // executed, and the 500 itself is saved: only a look-up tells the truth
	FaultResetBefore   FaultKind = "reset_before" // the connection is reset
	FaultResetAfter    FaultKind = "reset_after"
	FaultRateLimited   FaultKind = "rate_limited"   // 429 with Retry-After, nothing executed
	FaultSlow          FaultKind = "slow"           // executed after delay_ms, the key being in use meanwhile
	FaultGarbageAfter  FaultKind = "garbage_after"  // executed; a broken body arrives, 502 and 200 in turn
	FaultEmptyAfter    FaultKind = "empty_after"    // executed; 200 with an empty body arrives
	FaultInProgress    FaultKind = "in_progress"    // the provider's "same key still runs", nothing executed
	FaultKeyStoreDown  FaultKind = "key_store_down" // Adyen's 503 with errorCode 703, elsewhere a 500; nothing executed
)

var faultKinds = []FaultKind{
	FaultTimeoutBefore, FaultTimeoutAfter, FaultErrorBefore, FaultErrorAfter, FaultErrorSaved, FaultResetBefore, FaultResetAfter,
	FaultRateLimited, FaultSlow, FaultGarbageAfter, FaultEmptyAfter, FaultInProgress, FaultKeyStoreDown,
}

// needsKey: faults that only a call with an idempotency key can meet.
func (k FaultKind) needsKey() bool {
	return k == FaultErrorSaved || k == FaultInProgress || k == FaultKeyStoreDown
}

// Bounds on faults: a hundred is more than any scenario has; a minute is longer than any sensible client waits, and lets a
// forgotten fault not hold connections for ever.
const (
	maxFaults          = 100
	maxFaultDelay      = 60_000 // milliseconds
	maxIdentifierMatch = 255
)

// Fault is one thing that shall go wrong.
type Fault struct {
	Provider    string    `json:"provider,omitempty"` // empty or "any": every provider
	Call        CallType  `json:"call,omitempty"`     // empty: any
	Kind        FaultKind `json:"fault"`
	Times       int       `json:"times,omitempty"`       // how often at most; 0: no end
	Probability float64   `json:"probability,omitempty"` // 0 < p <= 1; 0 means always
	DelayMS     int64     `json:"delay_ms,omitempty"`    // for slow and timeouts
	Seed        int64     `json:"seed,omitempty"`        // 0: the server's
	Match       string    `json:"match,omitempty"`       // prefix of the identifier; empty fits all
}

// ActiveFault is a fault and what has become of it.
type ActiveFault struct {
	Fault

	ID    int `json:"id"`
	Fired int `json:"fired"`
}

// ErrFault is the reason why a fault cannot be set.
var ErrFault = errors.New("invalid fault")

func (f Fault) validate(providers []string) error {
	switch {
	case f.Provider != "" && f.Provider != "any" && !slices.Contains(providers, f.Provider):
		return fmt.Errorf("%w: provider %q is not one of %s", ErrFault, f.Provider, strings.Join(providers, ", "))
	case f.Call != "" && !slices.Contains(callTypes, f.Call):
		return fmt.Errorf("%w: call %q is not one of %s", ErrFault, f.Call, join(callTypes))
	case !slices.Contains(faultKinds, f.Kind):
		return fmt.Errorf("%w: fault %q is not one of %s", ErrFault, f.Kind, join(faultKinds))
	}
	return f.validateNumbers()
}

func (f Fault) validateNumbers() error {
	switch {
	case f.Times < 0:
		return fmt.Errorf("%w: times must not be negative", ErrFault)
	case !(f.Probability >= 0 && f.Probability <= 1): // written so that NaN is refused too
		return fmt.Errorf("%w: probability must be between 0 and 1", ErrFault)
	case f.DelayMS < 0 || f.DelayMS > maxFaultDelay:
		return fmt.Errorf("%w: delay_ms must be between 0 and %d", ErrFault, maxFaultDelay)
	case f.Kind == FaultSlow && f.DelayMS == 0:
		return fmt.Errorf("%w: slow needs delay_ms", ErrFault)
	case len(f.Match) > maxIdentifierMatch:
		return fmt.Errorf("%w: match is longer than %d bytes", ErrFault, maxIdentifierMatch)
	}
	return nil
}

func join[T ~string](words []T) string {
	plain := make([]string, len(words))
	for i, word := range words {
		plain[i] = string(word)
	}
	return strings.Join(plain, ", ")
}

// call is one provider call as faults see it.
type call struct {
	provider   string
	kind       CallType
	identifier string
	keyed      bool // it carries an idempotency key
	count      int  // how often this identifier was sent, this time included
}

func (f Fault) fits(c call) bool {
	return (f.Provider == "" || f.Provider == "any" || f.Provider == c.provider) &&
		(f.Call == "" || f.Call == CallAny || f.Call == c.kind) &&
		(c.keyed || !f.Kind.needsKey()) &&
		strings.HasPrefix(c.identifier, f.Match)
}

// hits draws by lot. The lot is a function of seed, fault, identifier and count, never of the order of arrival, so that the
// same seed hits the same orders however many run at once.
func (f Fault) hits(c call, serverSeed int64) bool {
	if f.Probability == 0 || f.Probability == 1 {
		return true
	}
	seed := f.Seed
	if seed == 0 {
		seed = serverSeed
	}
	hash := fnv.New64a()
	var number [16]byte
	binary.BigEndian.PutUint64(number[:8], uint64(seed))    //nolint:gosec // only bits matter
	binary.BigEndian.PutUint64(number[8:], uint64(c.count)) //nolint:gosec // only bits matter
	for _, part := range [][]byte{number[:], []byte(f.Kind), {0}, []byte(c.kind), {0}, []byte(c.identifier)} {
		_, _ = hash.Write(part) // a hash never fails
	}
	return unitInterval(hash.Sum64()) < f.Probability
}

// unitInterval spreads a hash over [0, 1). FNV's high bits differ little for inputs that differ in their last byte, so the bits
// are mixed first (the finalizer of MurmurHash3).
func unitInterval(hash uint64) float64 {
	hash ^= hash >> 33
	hash *= 0xff51afd7ed558ccd
	hash ^= hash >> 33
	hash *= 0xc4ceb9fe1a85ec53
	hash ^= hash >> 33
	return float64(hash>>11) / (1 << 53) // 53 bits are what a float64 holds exactly
}

// faultBoard holds the active faults.
type faultBoard struct {
	seed   int64
	mu     sync.Mutex
	nextID int
	active []*ActiveFault
}

func newFaultBoard(seed int64) *faultBoard { return &faultBoard{seed: seed, nextID: 1} }

// knownProviders may be named in faults and have webhooks.
var knownProviders = []string{stripeName, adyenName, paypalName}

func (b *faultBoard) add(fault Fault) (ActiveFault, error) {
	if err := fault.validate(knownProviders); err != nil {
		return ActiveFault{}, err
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	if len(b.active) >= maxFaults {
		return ActiveFault{}, fmt.Errorf("%w: already %d faults are active", ErrFault, maxFaults)
	}
	added := &ActiveFault{ID: b.nextID, Fault: fault}
	b.nextID++
	b.active = append(b.active, added)
	return *added, nil
}

func (b *faultBoard) clear() {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.active = nil
}

func (b *faultBoard) list() []ActiveFault {
	b.mu.Lock()
	defer b.mu.Unlock()
	faults := make([]ActiveFault, 0, len(b.active))
	for _, each := range b.active {
		faults = append(faults, *each)
	}
	return faults
}

// draw gives the fault that this call meets; the zero ActiveFault is none.
func (b *faultBoard) draw(c call) ActiveFault {
	b.mu.Lock()
	defer b.mu.Unlock()
	for _, each := range b.active {
		spent := each.Times > 0 && each.Fired >= each.Times
		if spent || !each.fits(c) || !each.hits(c, b.seed) {
			continue
		}
		each.Fired++
		return *each
	}
	return ActiveFault{}
}
