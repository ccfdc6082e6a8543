package saga

import (
	"context"
	"errors"
	"time"

	"github.com/google/uuid"

	"paysaga/providers"
)

// What a store may answer beside a plain failure.
var (
	// ErrKeyTaken: the idempotency key belongs to another request that came first. Look it up.
	ErrKeyTaken = errors.New("idempotency key is taken")
	// ErrLeaseLost: somebody holds a newer lease, or has moved the saga on. Nothing was written.
	ErrLeaseLost = errors.New("lease is lost")
	// ErrAnswered: the request has its answer already. Look it up.
	ErrAnswered = errors.New("request is answered")
	// ErrExceedsCapture: with this refund, refunds would exceed what was captured, or the order is not completed. Nothing was
	// written.
	ErrExceedsCapture = errors.New("refunds would exceed the capture")
	// ErrGenerationUsed: the key was used before, and its record cleaned up since: what derived from it is still there. Begin with the
	// next generation. Nothing was written.
	ErrGenerationUsed = errors.New("generation of the idempotency key is used")
	// ErrOrderChanged: the order is not as it was read any more. Nothing was written; read it again.
	ErrOrderChanged = errors.New("order has changed")
	// ErrReservationLost: the stock to be sold is not held any more. Nothing was written.
	ErrReservationLost = errors.New("reservation is lost")
)

// OutOfStockError tells that a line asks for more than there is. Nothing was written.
type OutOfStockError struct {
	SKU       string
	Wanted    int64
	Available int64
}

func (e *OutOfStockError) Error() string { return "out of stock: " + e.SKU }

// UnknownSKUError tells which SKUs have no stock record. Nothing was written.
type UnknownSKUError struct{ SKUs []string }

func (e *UnknownSKUError) Error() string { return "unknown SKU" }

// Claim is the idempotency key under which an order is taken, with what guards it.
type Claim struct {
	AccountID   string
	Endpoint    string // method and route pattern, "POST /v1/orders"
	Key         string
	Fingerprint [32]byte // of the request's intent
	Generation  int      // 1, or one more than that of the expired use
	Retention   time.Duration

	KeysPerMinute int // how many new keys the account may begin in a minute; 0: any number
}

// Ref names a saga of an account.
type Ref struct {
	AccountID string
	Key       uuid.UUID
}

// Store keeps sagas, by the database's clock. Begin and Apply, the two that every order pays for, are one transaction and
// one round trip each. A context that ends, or a connection that breaks, leaves open whether a call was carried out.
type Store interface {
	// Begin claims the key and writes the new saga as the change has it, under a fresh lease. It returns the saga with
	// its times and lease. A claim without an endpoint claims no key: nobody asked, and nobody is answered. Errors: ErrKeyTaken,
	// ErrGenerationUsed, *OutOfStockError, *UnknownSKUError; for a refund's saga ErrExceedsCapture, or of another payment than the order's
	// own ErrPaymentOfAnother; an error of the store's own, passed through, where the claim exceeds Claim.KeysPerMinute.
	Begin(ctx context.Context, claim Claim, change Change, lease time.Duration) (Saga, error)
	// Apply writes a change if the saga still stands where the change began, under the same lease. It returns the saga
	// with its new times. Errors: ErrLeaseLost, ErrReservationLost, *OutOfStockError.
	Apply(ctx context.Context, change Change) (Saga, error)
	// Ask claims the key of a request about a saga that rests, takes its lease and writes the change, in one transaction. The
	// change's saga is as Load gave it; the key's record names it. Errors: those of Begin about the key, ErrReservationLost, and
	// ErrLeaseLost where somebody drives the saga or has moved it on, or an earlier request about it has no answer yet.
	Ask(ctx context.Context, claim Claim, change Change, lease time.Duration) (Saga, error)
	// Load reads a saga as it stands, without its lease. Errors: ErrNotFound.
	Load(ctx context.Context, ref Ref) (Saga, error)
	// Refunds reads the sagas of all refunds of an order, newest last: of more than a thousand the newest thousand.
	Refunds(ctx context.Context, order Ref) ([]Saga, error)
	// Seize takes the lease of a saga that nobody drives, whether it is due, rests or has ended, if its fence is still the given one.
	// Errors: ErrLeaseLost.
	Seize(ctx context.Context, ref Ref, fence int64, lease time.Duration) (Saga, error)
	// TakeOver takes a lease that has run out, if its fence is still the given one. Errors: ErrLeaseLost.
	TakeOver(ctx context.Context, ref Ref, fence int64, lease time.Duration) (Saga, error)
	// ClaimDue takes the leases of up to limit sagas that are due and that nobody drives. Those that cannot be read are left
	// out and named in the error; the others are returned beside it.
	ClaimDue(ctx context.Context, limit int, lease time.Duration) ([]Saga, error)
	// Renew prolongs a lease that is still the newest. Errors: ErrLeaseLost.
	Renew(ctx context.Context, ref Ref, fence int64, lease time.Duration) error
	// HandBack ends a lease early, so that anybody can go on at once; an ended saga stays ended. Errors: ErrLeaseLost.
	HandBack(ctx context.Context, ref Ref, fence int64) error
}

// Provider is one payment provider. Its calls classify every ending into an outcome, so they return no error.
type Provider interface {
	Windows() providers.Windows
	// Check refuses what the provider could never charge, before anything is written: *providers.RequestError.
	Check(request providers.ChargeRequest) error
	Charge(ctx context.Context, request providers.ChargeRequest) providers.Outcome
	Continue(ctx context.Context, request providers.ContinueRequest) providers.Outcome
	Capture(ctx context.Context, request providers.CaptureRequest) providers.Outcome
	Lookup(ctx context.Context, request providers.LookupRequest) providers.Outcome
	Void(ctx context.Context, request providers.VoidRequest) providers.Outcome
	Refund(ctx context.Context, request providers.RefundRequest) providers.Outcome
	LookupRefund(ctx context.Context, request providers.RefundLookupRequest) providers.Outcome
}

// Interruptible is a provider that can be closed off for a while. While Open reports true, no new order is taken on. Requests about
// orders that were taken on before, and refunds, are: their sagas wait until it is back.
type Interruptible interface{ Open() bool }

// Answerer writes the answer that the client gets for a saga as it stands. It is pure: the recovery worker answers in
// place of a server that died, with the same bytes.
type Answerer interface {
	Answer(s Saga) (Answer, error)
}
