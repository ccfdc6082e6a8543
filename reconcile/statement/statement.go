// Package statement reads the settlement files of the payment providers, line by line: a file of any size needs the same memory. It knows
// the files' columns, numbers and time zones, and nothing of orders. A line that cannot be read is told with its number and does not stop
// the file; at the end the lines are held against the file's own control figures.
package statement

import (
	"time"

	"paysaga/providers"
)

// LineKind is what a line of a settlement file books.
type LineKind string

// The kinds.
const (
	LineCharge     LineKind = "charge"     // money of a customer
	LineRefund     LineKind = "refund"     // money to a customer
	LineFee        LineKind = "fee"        // of the provider, not of one payment alone
	LineChargeback LineKind = "chargeback" // the customer's bank takes money back, or gives it back again (positive gross)
	LinePayout     LineKind = "payout"     // from the provider to the shop's bank
	LineAdjustment LineKind = "adjustment" // of the provider, up or down
	LineExchange   LineKind = "exchange"   // one side of a conversion of the balance
)

// Line is one booking. Amounts are minor units of Currency, from the shop's side: a refund's gross is negative, a fee is positive where it
// costs the shop. Net is Gross less Fee as the file tells it, not as it is counted.
type Line struct {
	Number int // in the file; its first line, the header or not, is 1
	// ID tells a booking from every other one of the provider, in whatever file it stands. Where the provider gives bookings no id, it is
	// derived from the booking.
	ID        string
	Kind      LineKind
	Payment   string           // the provider's id of the payment, as our charge has it where the file tells that one; may be empty
	Reference string           // of the capture, refund or chargeback itself; may be empty
	Key       providers.SubKey // our reference of the call that made it, where the file tells it; of a chargeback, the payment's
	// SagaKey is that of the order that the payment belongs to, where the file tells it or the payment's reference begins with it. Refunds
	// have it too.
	SagaKey  string
	Gross    int64
	Fee      int64
	Net      int64
	Currency string // in which it is settled
	// Original is the amount that the customer paid or got, always positive, where it is in another currency than the settlement's; zero
	// else.
	Original providers.Money
	Payout   string    // the payout or batch with which it is paid; may be empty
	BookedAt time.Time // UTC
}

// Report is what reading a file came to.
type Report struct {
	Provider  string
	Format    string // "adyen settlement detail report, batch", …
	Lines     int64  // that were read
	Malformed int64
	Faults    []Fault // the first hundred lines that could not be read
	// Totals are the sums of the lines, by currency.
	Totals map[string]Total
	// Controls are the file's own figures, each beside what the lines come to.
	Controls []Control
	From     time.Time // the earliest booking
	Until    time.Time // the latest
}

// Fault is a line that could not be read.
type Fault struct {
	Number int    // of the line
	Column string // by its header; empty where the line as a whole is at fault
	Reason string // a sentence; never repeats personal data
}

// Sentence is the reason, with the column that it is about.
func (f Fault) Sentence() string {
	if f.Column == "" {
		return f.Reason
	}
	return f.Column + ": " + f.Reason
}

// Total is a sum of lines, in minor units.
type Total struct{ Gross, Fee, Net int64 }

// Control is one figure by which a file checks itself.
type Control struct {
	Name     string // "closing balance", "payout po_1"
	Currency string // empty for a count
	Told     int64
	Counted  int64
}

// Holds tells whether the figure is right.
func (c Control) Holds() bool { return c.Told == c.Counted }
