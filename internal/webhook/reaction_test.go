package webhook

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/google/go-cmp/cmp"
	"github.com/google/uuid"

	"paysaga/providers"
	"paysaga/saga"
)

func TestReaction(t *testing.T) {
	t.Parallel()
	ref := saga.Ref{AccountID: "shop1", Key: uuid.MustParse("1f0d3c9e-7a52-5c1b-9d2e-0a4b6c8d9e01")}
	broken := errors.New("broken")
	const day = 24 * time.Hour
	tests := map[string]struct {
		event Event
		err   error
		want  Result
	}{
		"applied":                 {Event{Attempts: 3, Failures: 2}, nil, Result{Status: Applied, Saga: ref}},
		"other":                   {Event{Attempts: 1}, errOther, Result{Status: Unmatched, Reason: errOther.Error()}},
		"busy":                    {Event{Attempts: 1}, saga.ErrLeaseLost, Result{Status: Waiting, Saga: ref, Pause: 50 * time.Millisecond, Reason: "lease is lost"}},
		"busy for long":           {Event{Attempts: 9999, Failures: 83}, fmt.Errorf("x: %w", saga.ErrLeaseLost), Result{Status: Waiting, Saga: ref, Pause: 5 * time.Second, Reason: "x: lease is lost"}},
		"overloaded":              {Event{Attempts: 2}, saga.ErrOverloaded, Result{Status: Waiting, Saga: ref, Pause: 100 * time.Millisecond, Reason: "overloaded"}},
		"draining":                {Event{Attempts: 7, Failures: 83}, fmt.Errorf("x: %w", saga.ErrDraining), Result{Status: Waiting, Saga: ref, Reason: "x: draining"}},
		"cut off while searching": {Event{Attempts: 99}, errors.Join(saga.ErrDraining, saga.ErrNotFound), Result{Status: Waiting, Saga: ref, Reason: "draining\nnot found"}},
		"not found":               {Event{Attempts: 1}, saga.ErrNotFound, Result{Status: Waiting, Pause: time.Second, Reason: "no saga has its references yet"}},
		"not found for long":      {Event{Attempts: 15}, saga.ErrNotFound, Result{Status: Waiting, Pause: 10 * time.Minute, Reason: "no saga has its references yet"}},
		"not found at last":       {Event{Attempts: 16}, saga.ErrNotFound, Result{Status: Unmatched, Reason: "no saga has its references"}},
		"in review":               {Event{Attempts: 1}, saga.ErrInReview, Result{Status: Waiting, Saga: ref, Pause: time.Second, Reason: "saga is in review"}},
		"in review for long":      {Event{Attempts: 999, Age: 89 * day}, saga.ErrInReview, Result{Status: Waiting, Saga: ref, Pause: time.Hour, Reason: "saga is in review"}},
		"in review too long":      {Event{Attempts: 999, Age: 90 * day}, saga.ErrInReview, Result{Status: Parked, Saga: ref, Reason: "nobody has decided about its saga, which is in review"}},
		"broken":                  {Event{Attempts: 50}, broken, Result{Status: Waiting, Saga: ref, Pause: time.Second, Failed: true, Reason: "broken"}},
		"broken for long":         {Event{Attempts: 83, Failures: 82, Age: 3 * day}, broken, Result{Status: Waiting, Saga: ref, Pause: time.Hour, Failed: true, Reason: "broken"}},
		"broken for days":         {Event{Attempts: 84, Failures: 83}, broken, Result{Status: Parked, Saga: ref, Failed: true, Reason: "broken"}},
		"panicked":                {Event{Attempts: 1}, errPanicked, Result{Status: Waiting, Saga: ref, Pause: time.Second, Failed: true, Reason: errPanicked.Error()}},
	}
	for name, test := range tests {
		if diff := cmp.Diff(test.want, Reaction(test.event, ref, test.err)); diff != "" {
			t.Errorf("%s (-want +got):\n%s", name, diff)
		}
	}
}

// The search takes about an hour, and what fails about three days, as the constants say. Drawn pauses are three quarters on average.
func TestHowLongEventsAreTried(t *testing.T) {
	t.Parallel()
	tests := map[string]struct {
		err       error
		least     time.Duration
		most      time.Duration
		wantFinal Status
	}{
		"search":  {saga.ErrNotFound, 45 * time.Minute, 90 * time.Minute, Unmatched},
		"failure": {errors.New("broken"), 50 * time.Hour, 100 * time.Hour, Parked},
	}
	for name, test := range tests {
		var taken time.Duration
		event := Event{}
		result := Result{Status: Waiting}
		for result.Status == Waiting {
			event.Attempts++
			result = Reaction(event, saga.Ref{}, test.err)
			if result.Failed {
				event.Failures++
			}
			taken += result.Pause * 3 / 4
		}
		if taken < test.least || taken > test.most || result.Status != test.wantFinal {
			t.Errorf("%s: %s after %s", name, result.Status, taken)
		}
	}
}

func TestReasonFits(t *testing.T) {
	t.Parallel()
	for _, text := range []string{"", "a\x00b", "a\xffb", strings.Repeat("x", 500), strings.Repeat("€", 100), "x" + strings.Repeat("€", 100)} {
		if got := reason(errors.New(text)); len(got) > 255 || len(got) < min(len(text)-2, 253) || strings.ContainsRune(got, 0) || !utf8.ValidString(got) {
			t.Errorf("%q becomes %q", text, got)
		}
	}
}

// What does not fit is left out and the rest stays, so that no signed event is ever refused by the database.
func TestStorable(t *testing.T) {
	t.Parallel()
	now := time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)
	long := strings.Repeat("x", 256)
	plain := providers.Notice{
		ID: "evt_1", Type: "t", About: providers.AboutRefund, Key: "k_refund", Payment: "pi_1", Reference: "re_1", At: now.AddDate(-1, 0, 0),
		Outcome: &providers.Outcome{
			Kind: providers.Declined, Reference: "re_1", Code: "c", Detail: "d", Money: providers.Money{Amount: 5, Currency: "EUR"},
			Decline: &providers.Decline{Code: "c", Bank: "b", Hard: true},
		},
	}
	with := func(change func(*providers.Notice)) providers.Notice {
		n := plain
		outcome, decline := *plain.Outcome, *plain.Outcome.Decline
		outcome.Decline, n.Outcome = &decline, &outcome
		change(&n)
		return n
	}
	set := func(text string, id string) func(*providers.Notice) {
		return func(n *providers.Notice) {
			n.ID, n.Type, n.Key, n.Payment, n.Reference = id, text, providers.SubKey(text), text, text
			n.Outcome.Reference, n.Outcome.Code, n.Outcome.Detail, n.Outcome.Money.Currency = text, text, text, text
			n.Outcome.Decline.Code, n.Outcome.Decline.Bank = text, text
		}
	}
	tests := map[string]struct{ given, want providers.Notice }{
		"plain":           {plain, plain},
		"too long":        {with(set(long, long)), with(set("", hashed(long)))},
		"with a NUL":      {with(set("a\x00b", "a\x00b")), with(set("", hashed("a\x00b")))},
		"no UTF-8":        {with(set("\xff", "\xff")), with(set("", hashed("\xff")))},
		"at the limit":    {with(func(n *providers.Notice) { n.ID, n.Payment = long[1:], long[1:] }), with(func(n *providers.Notice) { n.ID, n.Payment = long[1:], long[1:] })},
		"before there is": {with(func(n *providers.Notice) { n.At = time.Time{} }), with(func(n *providers.Notice) { n.At = now })},
		"after all":       {with(func(n *providers.Notice) { n.At = time.Unix(1<<60, 0) }), with(func(n *providers.Notice) { n.At = now })},
		"odd about":       {with(func(n *providers.Notice) { n.About = "" }), with(func(n *providers.Notice) { n.About = providers.AboutOther })},
		"a secret":        {with(func(n *providers.Notice) { n.Outcome.NextAction = &providers.NextAction{ClientSecret: "s"} }), plain},
		"a hint":          {with(func(n *providers.Notice) { n.Outcome = nil }), with(func(n *providers.Notice) { n.Outcome = nil })},
	}
	for name, test := range tests {
		if diff := cmp.Diff(test.want, storable(test.given, now)); diff != "" {
			t.Errorf("%s (-want +got):\n%s", name, diff)
		}
	}
	unnamed := func(payment string) string { return storable(providers.Notice{Payment: payment, At: now}, now).ID }
	if one, two := unnamed("pay_1"), unnamed("pay_2"); one == "" || one == two || one != unnamed("pay_1") {
		t.Errorf("events without an ID are named %q and %q", one, two)
	}
	if one, two := hashed(long), hashed(long+"y"); one == two || len(one) > maxTextLength || one != hashed(long) {
		t.Errorf("hashed as %s and %s", one, two)
	}
}
