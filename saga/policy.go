package saga

import (
	"time"

	"paysaga/providers"
)

// Policy is every limit that the pure core goes by.
type Policy struct {
	// AwaitDeadline is how long a customer may take for a 3-D Secure challenge or a redirect before the order is undone.
	AwaitDeadline time.Duration
	// ProcessingDeadline is how long a provider may take to tell how a payment ended.
	ProcessingDeadline time.Duration
	// RefundDeadline is how long a provider may take to carry out a refund, a void or a capture that it has accepted.
	RefundDeadline time.Duration
	// NoticeWait is how long the notice of a charge is waited for whose outcome nobody can ask for, before it is undone.
	NoticeWait time.Duration
	// MaxCharges is how many charges an order may come to, one after the other, while its customer looks for a way to pay.
	MaxCharges int
	// MaxFailures is how many turns in a row may bring nothing before a person must look.
	MaxFailures int
	// MaxUnrecorded is how many drives in a row may end without writing anything, as they crash or the database refuses,
	// before a person must look.
	MaxUnrecorded int
	// Steps are the steps of an order; none: the default ones.
	Steps Definition
	// Windows are the limits of the saga's provider.
	Windows providers.Windows
}

// Limits of the pauses between two turns of one saga.
const (
	// firstPause is short: most unknown outcomes are a lost connection that is back at once.
	firstPause = 500 * time.Millisecond
	// longestPause keeps a provider that was down from meeting every saga at once, and still finds it back within minutes.
	longestPause = 10 * time.Minute
	// firstPoll and longestPoll bound how often an awaited payment is asked for: a challenge takes a customer seconds,
	// a bank debit days.
	firstPoll   = 2 * time.Second
	longestPoll = 10 * time.Minute
	// pollsPerAge asks again after an eighth of the payment's age: about six times each time the age doubles.
	pollsPerAge = 8
	// holdPoll is how often held money is asked for: it stays for days, and the provider's notice comes first.
	holdPoll = 6 * time.Hour
)

// DefaultPolicy gives the limits that suit card payments. The windows are the provider's.
func DefaultPolicy() Policy {
	return Policy{
		AwaitDeadline:      30 * time.Minute,    // issuers end a challenge after 10 to 15 minutes; people try twice
		ProcessingDeadline: 7 * 24 * time.Hour,  // bank debits settle in three to five working days
		RefundDeadline:     30 * 24 * time.Hour, // a refund can still fail at Stripe after 30 days
		NoticeWait:         5 * time.Minute,     // providers send the first notice within seconds, and repeat a lost one in minutes
		MaxCharges:         10,                  // more looks like somebody who tries stolen cards
		MaxFailures:        400,                 // a day and a half at the longest pause: past the re-POST window and the search
		MaxUnrecorded:      50,                  // a lease apart each: half an hour of crashes, more than deploys in a row
	}
}

// backoff is the longest pause before turn n+1 after n failed turns: exponential with a cap. The runner draws the pause
// itself from zero to this (full jitter), so that sagas which failed together do not come back together.
func backoff(failures int) time.Duration {
	pause := firstPause
	for range failures - 1 {
		pause *= 2
		if pause >= longestPause {
			return longestPause
		}
	}
	return pause
}

// pollPause is how long to wait before a payment of this age is asked for again.
func pollPause(age time.Duration) time.Duration {
	return min(max(age/pollsPerAge, firstPoll), longestPoll)
}
