package client

import (
	"context"
	"errors"
	"net/http"
	"strconv"
	"time"
)

// longestWait bounds the Retry-After that is waited for within a call; who is asked for more gives up, and never comes back too early.
// The server asks for seconds, a minute at most.
const longestWait = 10 * time.Minute

// maxRetryAfter keeps a nonsensical number of seconds from running over.
const maxRetryAfter = 365 * 24 * time.Hour

// retryAfter reads the header's two forms, RFC 9110, section 10.2.3. A date is compared with the time at which the answer says it was
// made, where it says so: the clocks of client and server may differ.
func retryAfter(header http.Header, now time.Time) time.Duration {
	text := header.Get("Retry-After")
	seconds, err := strconv.ParseUint(text, 10, 64)
	if err == nil || errors.Is(err, strconv.ErrRange) { // with ErrRange it is the largest number that there is
		return time.Duration(min(seconds, uint64(maxRetryAfter/time.Second))) * time.Second
	}
	until, err := http.ParseTime(text)
	if err != nil {
		return 0
	}
	if made, err := http.ParseTime(header.Get("Date")); err == nil {
		now = made
	}
	return min(max(until.Sub(now), 0), maxRetryAfter)
}

// backoff is the ceiling of the random pause after an attempt, from 1.
func (c *Client) backoff(attempt int) time.Duration {
	ceiling := c.config.BaseBackoff
	for range attempt - 1 {
		if ceiling >= c.config.MaxBackoff/2 {
			return c.config.MaxBackoff
		}
		ceiling *= 2
	}
	return ceiling
}

// pause is how long to wait after a failed attempt, or why no other may follow. Jitter comes on top of what the server asks: it asks
// all its clients the same.
func (c *Client) pause(ctx context.Context, attempt int, asked time.Duration) (time.Duration, error) {
	if err := ctx.Err(); err != nil {
		return 0, err //nolint:wrapcheck // becomes part of an error that says the rest
	}
	if attempt >= c.config.MaxAttempts {
		return 0, ErrTooManyAttempts
	}
	if asked > longestWait {
		return 0, ErrLongWait
	}
	pause := asked + c.jitter(c.backoff(attempt))
	if deadline, ok := ctx.Deadline(); ok && time.Until(deadline) <= pause {
		return 0, context.DeadlineExceeded
	}
	return pause, nil
}

// sleep waits, unless the context ends first.
func sleep(ctx context.Context, pause time.Duration) error {
	timer := time.NewTimer(pause)
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-ctx.Done():
		return ctx.Err() //nolint:wrapcheck // as in pause
	}
}
