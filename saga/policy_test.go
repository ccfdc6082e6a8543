package saga

import (
	"testing"
	"time"
)

func TestBackoffDoublesUpToItsCap(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		failures int
		want     time.Duration
	}{
		{0, 500 * time.Millisecond},
		{1, 500 * time.Millisecond},
		{2, time.Second},
		{3, 2 * time.Second},
		{11, 512 * time.Second},
		{12, 10 * time.Minute},
		{200, 10 * time.Minute},
		{1 << 30, 10 * time.Minute},
	} {
		if got := backoff(test.failures); got != test.want {
			t.Errorf("backoff(%d) = %s, want %s", test.failures, got, test.want)
		}
	}
	for failures := range 300 {
		if backoff(failures) > backoff(failures+1) {
			t.Errorf("backoff(%d) is longer than the one after it", failures)
		}
	}
}

func TestPollPauseGrowsWithAge(t *testing.T) {
	t.Parallel()
	for _, test := range []struct{ age, want time.Duration }{
		{-time.Minute, 2 * time.Second}, // clocks differ
		{0, 2 * time.Second},
		{16 * time.Second, 2 * time.Second},
		{80 * time.Second, 10 * time.Second},
		{80 * time.Minute, 10 * time.Minute},
		{7 * 24 * time.Hour, 10 * time.Minute},
	} {
		if got := pollPause(test.age); got != test.want {
			t.Errorf("pollPause(%s) = %s, want %s", test.age, got, test.want)
		}
	}
}

// A provider settles slower than a customer acts, and both are waited for longer than the longest pause.
func TestDefaultPolicyIsConsistent(t *testing.T) {
	t.Parallel()
	policy := DefaultPolicy()
	if policy.AwaitDeadline <= longestPoll || policy.ProcessingDeadline <= policy.AwaitDeadline {
		t.Errorf("deadlines are %s and %s", policy.AwaitDeadline, policy.ProcessingDeadline)
	}
	if policy.MaxFailures <= 0 || policy.MaxCharges <= 1 {
		t.Errorf("MaxFailures is %d, MaxCharges %d", policy.MaxFailures, policy.MaxCharges)
	}
	if policy.NoticeWait <= 0 || policy.NoticeWait >= policy.AwaitDeadline {
		t.Errorf("a notice is waited for %s, a customer for %s", policy.NoticeWait, policy.AwaitDeadline)
	}
}
