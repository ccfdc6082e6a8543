package saga

import (
	"encoding/json"

	"github.com/google/uuid"
)

// RequestKind is what a request asks of an order that rests.
type RequestKind string

// The kinds of requests.
const (
	RequestContinue RequestKind = "continue" // the customer has acted, or pays in another way after a decline
	RequestCapture  RequestKind = "capture"  // take held money
	RequestCancel   RequestKind = "cancel"   // give the order up while no money is taken
)

// Request is one request about an order that was taken on before.
type Request struct {
	Kind    RequestKind
	Key     uuid.UUID       // derived from the request's idempotency key; the identifiers of a capture derive from it
	Details json.RawMessage // for continue: what the customer's way back brought; may be nil
	Payment *NewPayment     // for continue after a decline: the next attempt; nil otherwise
	Amount  int64           // for capture, minor units; zero: all that is held
	Final   bool            // for capture: what is left of the hold is let go
}

// NewPayment is another way to pay for an order whose payment was declined.
type NewPayment struct {
	Provider   string
	Method     string
	MethodData json.RawMessage
	ReturnURL  string
}

// RefusalReason is why a request does not fit an order as it stands.
type RefusalReason string

// The reasons. Only Busy passes by itself.
const (
	RefusedBusy            RefusalReason = "busy"             // a call is out or its outcome unknown: ask again in a moment
	RefusedCaptured        RefusalReason = "captured"         // a cancel: the money is taken, a refund gives it back
	RefusedNotCaptured     RefusalReason = "not_captured"     // a refund: no money is taken yet, a cancel gives the order up
	RefusedNotHeld         RefusalReason = "not_held"         // a capture: no money is held
	RefusedOneCapture      RefusalReason = "one_capture"      // a capture of a part, not final, where the provider takes one capture only
	RefusedTooMuch         RefusalReason = "too_much"         // a capture beyond the hold, a refund beyond the capture
	RefusedPaymentOpen     RefusalReason = "payment_open"     // a continue with a new payment: the present one is not declined
	RefusedPaymentRequired RefusalReason = "payment_required" // a continue without a new payment: the present one is declined
	RefusedOver            RefusalReason = "over"             // the order has come to nothing
	RefusedInReview        RefusalReason = "in_review"        // a person must decide about the order first
	RefusedNotInReview     RefusalReason = "not_in_review"    // a decision: the saga moves by itself
	RefusedUnfit           RefusalReason = "unfit"            // a decision that does not fit how the saga stands
	RefusedContradicted    RefusalReason = "contradicted"     // a decision: the provider tells otherwise
)

// RefusedError tells that a request does not fit the order as it stands. Nothing was written, and its key not used.
type RefusedError struct {
	Reason RefusalReason
	Detail string // a sentence for the shop's developer
}

func (e *RefusedError) Error() string { return "request refused: " + string(e.Reason) }
