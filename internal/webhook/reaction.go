package webhook

import (
	"errors"
	"strings"
	"time"

	"paysaga/providers"
	"paysaga/saga"
)

const (
	// busyPause and maxBusyPause are for a saga that somebody drives at this moment: most drives take less than a second, a
	// provider that does not answer half a minute.
	busyPause    = 50 * time.Millisecond
	maxBusyPause = 5 * time.Second
	// firstPause is for all else that may pass: a restart, a failover.
	firstPause = time.Second
	// maxPause keeps what does not pass from being a load, and is short against the days in which money matters.
	maxPause = time.Hour
	// maxSearchPause and maxSearches spread the search for a saga over about an hour: 17 minutes of growing pauses and five of ten
	// minutes. An event can come before the call that it is about is recorded, and an old database can be restored.
	maxSearchPause = 10 * time.Minute
	maxSearches    = 16
	// maxFailures is over three days of tries, for a fault that begins on a Friday. Until then a mended program may take the event.
	maxFailures = 84
	// maxReview is how long an event waits for a person to decide about its saga. Of an order that nobody has looked at for a
	// quarter of a year, the finding tells more than one more event.
	maxReview = 90 * 24 * time.Hour
	// maxReasonLength is the schema's, in bytes; a sentence fits.
	maxReasonLength = 255
)

var (
	// errOther tells that an event is about no call of ours: a payout, a report, a type that nobody has heard of.
	errOther = errors.New("the event is about no call of ours")
	// errPanicked stands for a panic, whose own text could be anything.
	errPanicked = errors.New("applying the event panicked; the log has the stack")
)

// Reaction is what follows from how an attempt ended. It is the whole table:
//
//   - no error: the saga knows.
//   - saga.ErrDraining: the process is about to stop. At once, for another one; no failure.
//   - saga.ErrLeaseLost: somebody drives the saga; saga.ErrOverloaded: too many are being driven. Again soon; no failure.
//   - about no call of ours: kept as unmatched, at once.
//   - saga.ErrNotFound: searched for again for about an hour, then kept as unmatched.
//   - saga.ErrInReview: again until a person has decided, for maxReview; then parked.
//   - anything else is a failure. Again, ever more seldom; after maxFailures parked.
//
// Pauses are the longest ones; the worker draws from their second half.
func Reaction(event Event, ref saga.Ref, err error) Result {
	again := func(pause time.Duration) Result {
		return Result{Status: Waiting, Saga: ref, Pause: pause, Reason: reason(err)}
	}
	switch {
	case err == nil:
		return Result{Status: Applied, Saga: ref}
	case errors.Is(err, saga.ErrDraining):
		return again(0)
	case errors.Is(err, saga.ErrLeaseLost), errors.Is(err, saga.ErrOverloaded):
		return again(backoff(event.Attempts, busyPause, maxBusyPause))
	case errors.Is(err, errOther):
		return Result{Status: Unmatched, Reason: reason(err)}
	case errors.Is(err, saga.ErrNotFound) && event.Attempts >= maxSearches:
		return Result{Status: Unmatched, Reason: "no saga has its references"}
	case errors.Is(err, saga.ErrNotFound):
		return Result{
			Status: Waiting, Pause: backoff(event.Attempts, firstPause, maxSearchPause), Reason: "no saga has its references yet",
		}
	case errors.Is(err, saga.ErrInReview) && event.Age < maxReview:
		return again(backoff(event.Attempts, firstPause, maxPause))
	case errors.Is(err, saga.ErrInReview):
		return Result{Status: Parked, Saga: ref, Reason: "nobody has decided about its saga, which is in review"}
	}
	failed := again(backoff(event.Failures+1, firstPause, maxPause))
	failed.Failed = true
	if event.Failures+1 >= maxFailures {
		failed.Status, failed.Pause = Parked, 0
	}
	return failed
}

// backoff doubles the first pause with each try, up to the longest.
func backoff(try int, first, longest time.Duration) time.Duration {
	pause := first
	for i := 1; i < try && pause < longest; i++ {
		pause *= 2
	}
	return min(pause, longest)
}

// reason is an error's text as it can be kept. By this project's rules no error holds a secret.
func reason(err error) string {
	text := strings.ToValidUTF8(strings.ReplaceAll(err.Error(), "\x00", ""), "")
	if len(text) > maxReasonLength {
		text = strings.ToValidUTF8(text[:maxReasonLength], "") // a character that was cut through is left out
	}
	return text
}

// isOther tells an event for which no saga is searched.
func isOther(n providers.Notice) bool { return n.About == providers.AboutOther }
