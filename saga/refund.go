package saga

import (
	"time"

	"github.com/google/uuid"
)

// RefundStatus is how a refund stands.
type RefundStatus string

// The statuses of a refund.
const (
	RefundPending   RefundStatus = "pending"   // asked for; the provider or the bank has not decided
	RefundSucceeded RefundStatus = "succeeded" // the money is given back; a bank may still send it back later
	RefundFailed    RefundStatus = "failed"    // refused or sent back; the money stays with the shop
	RefundInReview  RefundStatus = "in_review" // a person must look
)

// Refund gives back money of a completed order, all or a part. It has a saga of its own, whose key is its id.
type Refund struct {
	ID        uuid.UUID
	OrderID   uuid.UUID
	Amount    int64  // minor units of the order's currency
	Reason    string // the shop's words, for its own books; may be empty
	Status    RefundStatus
	CreatedAt time.Time
	UpdatedAt time.Time
}

// RefundEffect is what a change of a refund's saga does to the order's sums. The database holds
// 0 <= refunded, 0 <= refunding and refunded + refunding <= captured.
type RefundEffect string

// The effects on the sums.
const (
	RefundNone   RefundEffect = ""
	RefundHold   RefundEffect = "hold"   // refunding grows
	RefundGive   RefundEffect = "give"   // refunding shrinks, refunded grows
	RefundFree   RefundEffect = "free"   // refunding shrinks
	RefundReturn RefundEffect = "return" // refunded shrinks: the bank sent the money back
)
