package reconcile

import "time"

// Policy is how patient the comparison is.
type Policy struct {
	// Grace is how long a payment must have rested, on our side, before what the provider tells of it counts: what is told was true a
	// little earlier.
	Grace time.Duration
	// Stuck is how long an order or a refund may be due without anybody taking it up.
	Stuck time.Duration
	// EventWait is how long an event may wait in the inbox.
	EventWait time.Duration
	// IgnoreForeign leaves payments out that bear no key of our form: other systems may use the same account at the provider.
	IgnoreForeign bool
	// MostForeign is how many such payments of a provider are open findings of their own. A run that comes upon more tells the others as
	// one thing: a file is another account's, or nobody wants to hear of each.
	MostForeign int
}

// DefaultPolicy waits for what a healthy system does within seconds.
func DefaultPolicy() Policy {
	return Policy{Grace: 2 * time.Minute, Stuck: 15 * time.Minute, EventWait: 15 * time.Minute, MostForeign: 1000}
}
