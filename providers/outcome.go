package providers

import (
	"encoding/json"
	"time"
)

// OutcomeKind is the whole vocabulary in which an adapter tells how a call ended. What the saga does for each is one
// table in package saga.
type OutcomeKind string

// The outcomes. Only Unknown says nothing about the money: it must never be taken for a failure.
const (
	Succeeded      OutcomeKind = "succeeded"       // the money is taken (charge), given back (refund), or the hold is gone (void)
	Authorized     OutcomeKind = "authorized"      // the money is held, not taken
	Declined       OutcomeKind = "declined"        // the provider or the bank refused; nothing taken; Decline is filled
	ActionRequired OutcomeKind = "action_required" // the customer must act; NextAction is filled
	Processing     OutcomeKind = "processing"      // accepted, the provider does not know the end yet
	Canceled       OutcomeKind = "canceled"        // the payment was canceled at the provider; nothing taken
	NotFound       OutcomeKind = "not_found"       // a look-up found nothing; conclusive only past the look-up's delay
	Rejected       OutcomeKind = "rejected"        // our request is wrong and was refused; nothing was done
	Busy           OutcomeKind = "busy"            // not handled now: key in flight, rate limit, our credentials; RetryAfter may be filled
	Unknown        OutcomeKind = "unknown"         // a timeout, a 5xx, a broken body: it may or may not have happened
)

// Outcome is how one provider call ended.
type Outcome struct {
	Kind      OutcomeKind
	Reference string // the provider's own id of the payment or refund, "pi_…"; empty when the provider did not tell
	Code      string // the provider's machine-readable reason, for the timeline; never personal data
	Detail    string // a sentence for the shop's developer where the request is at fault; never personal data
	// Money is how much the outcome is about; zero when the provider did not tell. Authorized: the whole hold as the bank granted it,
	// whatever of it is captured by now. Succeeded: what this capture or refund moved; of a charge, continue or look-up, all that is
	// captured, before refunds; of a void it says nothing. All others: what was asked for, for people.
	Money      Money
	Decline    *Decline    // for Declined
	NextAction *NextAction // for ActionRequired
	RetryAfter time.Duration
}

// Decline is why a payment was refused.
type Decline struct {
	Code string `json:"code"`           // the provider's code, "card_declined"
	Bank string `json:"bank,omitempty"` // the issuer's finer code when given, "insufficient_funds"
	Hard bool   `json:"hard"`           // true: the same method must not be tried again
}

// NextAction is what the customer must do before the payment can go on.
type NextAction struct {
	Type         string          `json:"type"`                    // "client_secret", "redirect" or "adyen_action"
	ClientSecret string          `json:"client_secret,omitempty"` // for the provider's own client library
	URL          string          `json:"url,omitempty"`           // where to send the customer's browser, with GET
	Action       json.RawMessage `json:"action,omitempty"`        // for the provider's own client library, as it came
}
