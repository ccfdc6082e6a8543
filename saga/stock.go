package saga

import (
	"errors"
	"time"
)

// Stock is how much of one SKU an account has, in pieces.
type Stock struct {
	SKU       string
	OnHand    int64
	Reserved  int64 // of OnHand: held for orders that are not decided yet
	UpdatedAt time.Time
}

// ErrStockReserved tells that a count below what is reserved was refused.
var ErrStockReserved = errors.New("more is reserved than would be on hand")
