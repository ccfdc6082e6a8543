package providers

import (
	"errors"
	"time"
)

// Why a message is no notice. Each adapter's own errors wrap one of these.
var (
	// ErrSignature: nobody whom we trust signed the message, or not lately.
	ErrSignature = errors.New("webhook signature")
	// ErrMalformed: the message is signed, and no event of the provider's.
	ErrMalformed = errors.New("webhook malformed")
	// ErrUnavailable: the signature cannot be judged now. The message is neither good nor bad and must be sent again.
	ErrUnavailable = errors.New("webhook verification is unavailable")
)

// About is which of our calls a notice is about.
type About string

// What a notice can be about.
const (
	AboutCharge  About = "charge" // a Continue included
	AboutCapture About = "capture"
	AboutVoid    About = "void"
	AboutRefund  About = "refund"
	AboutOther   About = "other" // no call of ours, or an event that the adapter does not know
)

// Notice is one event that a provider announced, its signature verified. Providers send events twice, late, and in any order.
type Notice struct {
	ID        string // unique per provider: the same event always has the same
	Type      string // the provider's own name of the event, for people
	About     About
	Key       SubKey    // of the call that it is about; empty where the provider does not tell
	Payment   string    // the provider's reference of the payment; may be empty
	Reference string    // of the capture, refund or void itself; may be empty
	Outcome   *Outcome  // what the event says; nil when it is only a hint to look up
	At        time.Time // by the provider's clock
}
