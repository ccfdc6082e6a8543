package providers

import "time"

// TransactionKind is what a provider's list tells of.
type TransactionKind string

// The kinds.
const (
	TransactionPayment TransactionKind = "payment" // what is asked for, held or taken
	TransactionRefund  TransactionKind = "refund"  // what is given back
)

// Transaction is one payment, one capture of a payment, or one refund, as a provider tells of it in a list, whoever made it.
type Transaction struct {
	Kind TransactionKind
	// Reference is the provider's own id of it, "pi_…", "re_…", a PayPal capture's; unique among those of the provider and the kind.
	Reference string
	// Payment is the provider's id of the payment that it belongs to: of a PayPal capture its authorization or order where that is told,
	// of a refund the payment or the capture that it gives back. Equal to Reference where the two are one.
	Payment string
	// Key is the sub-key of our call that made it; empty where nobody of ours did, or the provider does not tell. PayPal shows a refund
	// that was made in its dashboard under the payment's: a refund is ours only if its Key is a refund's.
	Key SubKey
	// SagaKey is what our call wrote beside the sub-key; empty as Key.
	SagaKey string
	// Status is one of Succeeded, Authorized, ActionRequired, Processing, Declined and Canceled. Otherwise than in Outcome a payment
	// stays Succeeded when its money was given back: Refunded tells that. A hold of PayPal's is Processing when PayPal is done with it: its
	// captures are transactions of their own, whose Payment is the hold's Reference.
	Status OutcomeKind
	// Money is what was taken (Succeeded, before refunds), is or was held (Authorized), was given back (of a refund); else what was asked
	// for. Its Amount is 0 where the provider's amount has no form in ISO 4217: no payment of ours is such a one.
	Money Money
	// Refunded is how much of a payment was given back so far, or is on its way back, in minor units of Money; -1 where the provider does
	// not tell it here. Of a refund it is 0.
	Refunded int64
	// Fee is what the provider keeps of it, in minor units of FeeCurrency; that is empty where the provider does not tell. Negative where
	// the provider gave a fee back.
	Fee         int64
	FeeCurrency string
	At          time.Time // when it was made, by the provider's clock
}

// ListRequest asks for everything that was made from one time on and before another, by what the provider tells of it (Transaction.At,
// whole seconds at both): windows that touch give each transaction once.
type ListRequest struct {
	From, Until time.Time
	Cursor      string // of the page before; empty for the first one
}

// ListPage is one page of a list. A page can be empty and not the last one. What is listed while it changes can stand on two pages;
// within a page it stands once, as it is newest.
type ListPage struct {
	Transactions []Transaction
	Next         string // the cursor of the next page; empty after the last one
}

// ListLimits are how a provider can be listed.
type ListLimits struct {
	// Delay is how far behind the list can be: only what is older is listed for sure.
	Delay time.Duration
	// Span is the longest time that one request may ask for; zero: any.
	Span time.Duration
}

// Codes of a ListError that mean the same whichever provider is listed.
const (
	// CodeListTooLong: there is more in the time asked for than the provider lists. Ask for shorter times.
	CodeListTooLong = "list_too_long"
	// CodeListBehind: the provider's list does not reach up to Until yet. Ask later.
	CodeListBehind = "list_behind"
	// CodeListChanged: the list changed while it was read. Begin anew, without a cursor.
	CodeListChanged = "list_changed"
	// CodeListRequest, always with Refused: the times or the cursor cannot be right. No call was made.
	CodeListRequest = "list_request_invalid"
)

// ListError is why a list could not be read. Nothing of it may be taken for complete.
type ListError struct {
	Code       string // machine-readable, as Outcome.Code
	RetryAfter time.Duration
	Refused    bool // the same request will be refused again: credentials, a permission, a bad cursor
	// Until is up to when the list is complete, with CodeListBehind; zero where the provider does not tell.
	Until time.Time
}

// Error gives the code.
func (e *ListError) Error() string { return "list is not readable: " + e.Code }
