package saga

import "time"

// StockEffect is what a change does to the stock that the saga holds.
type StockEffect string

// The effects on stock.
const (
	StockNone    StockEffect = ""
	StockReserve StockEffect = "reserve" // reserved grows
	StockSell    StockEffect = "sell"    // reserved and on hand shrink
	StockRelease StockEffect = "release" // reserved shrinks
	StockForfeit StockEffect = "forfeit" // as release, of whatever is still held

	StockSellRest    StockEffect = "sell_rest"    // as sell, of whatever is still held, which must be something
	StockReleaseRest StockEffect = "release_rest" // as release, likewise
)

// Change is everything that one transaction writes about a saga: plain values, so that a store needs no rules of its own.
type Change struct {
	From    State // where the saga must still stand
	After   Saga  // the saga and its order as they will be
	Steps   []Step
	Stock   StockEffect
	Refund  RefundEffect
	Finding *Finding
	// Decision is what a person decided: it goes to the audit log, and closes what was found before.
	Decision *Decision
	Audit    *AuditEntry   // what else goes to the audit log; of it actor, action and reason
	Event    string        // what happened to the order, for the outbox; empty for nothing
	Pause    time.Duration // until the next turn; zero for at once
	Jitter   bool          // Pause is the longest pause, of which a random part is taken (full jitter)
	Answer   *Answer       // to be stored under the idempotency key, if that has none yet
	Release  bool          // whether the lease is given back
	Lease    time.Duration // how long a lease that is kept lasts from now on
}

// Answer is what the client gets for the request that began the saga, byte for byte, for as long as its key is kept.
type Answer struct {
	Status  int
	Headers map[string]string // Content-Type, Location
	Body    []byte
}
