package client

import (
	"context"
	"errors"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/uuid"
)

func TestRetryAfter(t *testing.T) {
	t.Parallel()
	now := time.Date(2026, 11, 30, 9, 30, 0, 0, time.UTC)
	const day, later = "Mon, 30 Nov 2026 ", " GMT"
	for _, test := range []struct {
		value, date string
		want        time.Duration
	}{
		{"", "", 0},
		{"0", "", 0},
		{"1", "", time.Second},
		{"120", "", 2 * time.Minute},
		{"99999999999999999999999", "", maxRetryAfter},
		{"9223372037", "", maxRetryAfter},
		{"-1", "", 0},
		{"1.5", "", 0},
		{"soon", "", 0},
		{day + "09:30:05" + later, "", 5 * time.Second},
		{day + "09:29:55" + later, "", 0},
		{day + "09:30:05" + later, day + "09:30:01" + later, 4 * time.Second}, // the server's clock counts for its own date
		{day + "09:30:05" + later, "nonsense", 5 * time.Second},
		{"Monday, 30-Nov-26 09:30:05 GMT", "", 5 * time.Second},
		{"Mon Nov 30 09:30:05 2026", "", 5 * time.Second},
		{"Thu, 01 Dec 2095 00:00:00 GMT", "", maxRetryAfter},
	} {
		header := http.Header{}
		header.Set("Retry-After", test.value)
		header.Set("Date", test.date)
		if got := retryAfter(header, now); got != test.want {
			t.Errorf("%q at %q: %s, want %s", test.value, test.date, got, test.want)
		}
	}
}

func TestBackoff(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		base, longest time.Duration
		want          []time.Duration
	}{
		{0, 0, []time.Duration{2e8, 4e8, 8e8, 16e8, 32e8, 64e8, 10e9, 10e9, 10e9}},
		{time.Second, 3 * time.Second, []time.Duration{1e9, 2e9, 3e9, 3e9}},
		{time.Minute, time.Second, []time.Duration{60e9, 60e9}}, // the first pause is meant
		{1 << 62, 1<<63 - 1, []time.Duration{1 << 62, 1<<63 - 1, 1<<63 - 1}},
	} {
		c, err := New(Config{BaseURL: "https://pay.example.com", APIKey: testAPIKey, BaseBackoff: test.base, MaxBackoff: test.longest})
		if err != nil {
			t.Fatal(err)
		}
		for i, want := range test.want {
			if got := c.backoff(i + 1); got != want {
				t.Errorf("%s to %s, attempt %d: %s, want %s", test.base, test.longest, i+1, got, want)
			}
		}
	}
}

// TestJitterIsFull: pauses lie anywhere between zero and the ceiling, in each tenth of it.
func TestJitterIsFull(t *testing.T) {
	t.Parallel()
	c, err := New(Config{BaseURL: "https://pay.example.com", APIKey: testAPIKey})
	if err != nil {
		t.Fatal(err)
	}
	const ceiling, draws = 9, 10_000 // that one of ten numbers never comes has a chance of 1 to 10^457
	var drawn [ceiling + 1]int
	for range draws {
		drawn[c.jitter(ceiling)]++
	}
	for value, times := range drawn {
		if times == 0 {
			t.Errorf("%d is never drawn", value)
		}
	}
}

// TestGivingUp: by the context, by a bound, and where the server asks for more than is waited.
func TestGivingUp(t *testing.T) {
	t.Parallel()
	in := func(d time.Duration) func(context.Context) (context.Context, context.CancelFunc) {
		return func(ctx context.Context) (context.Context, context.CancelFunc) { return context.WithTimeout(ctx, d) }
	}
	canceledAfter := func(d time.Duration) func(context.Context) (context.Context, context.CancelFunc) {
		return func(ctx context.Context) (context.Context, context.CancelFunc) {
			ctx, cancel := context.WithCancel(ctx)
			time.AfterFunc(d, cancel)
			return ctx, cancel
		}
	}
	unavailable := mishap{Status: 503, Problem: "unavailable", RetryAfter: "4"}
	for name, test := range map[string]struct {
		ctx      func(context.Context) (context.Context, context.CancelFunc)
		mishap   mishap
		want     error
		attempts int
		took     time.Duration
		asked    time.Duration
		cause    bool
	}{
		"before":                      {in(0), unavailable, context.DeadlineExceeded, 0, 0, 0, false},
		"canceled in a pause":         {canceledAfter(5 * time.Second), unavailable, context.Canceled, 2, 5 * time.Second, 4 * time.Second, true},
		"canceled in an attempt":      {canceledAfter(5 * time.Second), mishap{Hangs: true}, context.Canceled, 1, 5 * time.Second, 0, true},
		"deadline in an attempt":      {in(5 * time.Second), mishap{Hangs: true}, context.DeadlineExceeded, 1, 5 * time.Second, 0, true},
		"deadline before a next one":  {in(9 * time.Second), unavailable, context.DeadlineExceeded, 3, 8*time.Second + 600*time.Millisecond, 4 * time.Second, true},
		"after so many attempts":      {canceledAfter(time.Hour), unavailable, ErrTooManyAttempts, 4, 12*time.Second + 1400*time.Millisecond, 4 * time.Second, true},
		"a wait that is over a limit": {canceledAfter(time.Hour), mishap{Status: 429, RetryAfter: "601"}, ErrLongWait, 1, 0, 601 * time.Second, true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				s := newShop(test.mishap, test.mishap, test.mishap, test.mishap)
				c, closeAll := open(t, s, func(c *Config) { c.MaxAttempts = 4 })
				defer closeAll()
				c.jitter = func(ceiling time.Duration) time.Duration { return ceiling }
				ctx, cancel := test.ctx(t.Context())
				defer cancel()
				begun := time.Now()
				_, err := c.CreateOrder(ctx, NewKey(), order())
				unknown, ok := errors.AsType[*UnknownOutcomeError](err)
				if !ok {
					t.Fatal(err)
				}
				if took := time.Since(begun); took != test.took {
					t.Errorf("took %s, want %s", took, test.took)
				}
				if !errors.Is(err, test.want) || unknown.Attempts != test.attempts || s.count() != test.attempts ||
					unknown.RetryAfter != test.asked || (unknown.Cause != nil) != test.cause {
					t.Errorf("%d attempts, %d requests, asked %s: %v", unknown.Attempts, s.count(), unknown.RetryAfter, err)
				}
				if !strings.Contains(err.Error(), "outcome is not known") || !strings.Contains(err.Error(), "same key") {
					t.Errorf("does not say what to do: %v", err)
				}
			})
		})
	}
}

// TestReadsGiveUp as well, of which no outcome can be unknown.
func TestReadsGiveUp(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := newShop(mishap{}, mishap{Status: 502}, mishap{Status: 503, Problem: "unavailable"})
		c, closeAll := open(t, s, func(c *Config) { c.MaxAttempts = 3 })
		defer closeAll()
		_, err := c.GetOrder(t.Context(), uuid.New())
		unanswered, ok := errors.AsType[*UnansweredError](err)
		if !ok || unanswered.Attempts != 3 || !errors.Is(err, ErrTooManyAttempts) || !errors.Is(err, &ProblemError{Type: Unavailable}) {
			t.Errorf("%v", err)
		}
		if want := "get order: no answer after 3 attempts: no further attempt is allowed: unavailable (503): Why."; err.Error() != want {
			t.Errorf("%q, want %q", err, want)
		}
	})
}
