// Package schedule reads when something is to be done again and again: never, every so often, or at the times of a crontab's five fields.
// It is pure; who waits for those times does so elsewhere.
package schedule

import (
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/adhocore/gronx"
)

// Schedule is when something is to be done. The zero value is never.
type Schedule struct {
	Every time.Duration // zero: by Cron
	Cron  string        // five fields of a crontab, in UTC; empty: by Every
}

// Off is how never is written.
const Off = "off"

// Bounds of an interval. The shortest lets tests be quick. Cron's fields cannot be more often than each minute.
const (
	Shortest = 10 * time.Millisecond
	Longest  = 7 * 24 * time.Hour
)

// cronFields are minute, hour, day of the month, month and day of the week. The parser would take more: seconds and years.
const cronFields = 5

// What can be wrong with a schedule.
var (
	errForm  = errors.New("is no schedule; write off, a duration such as 1h, or five cron fields such as 15 */4 * * *")
	errNever = errors.New("has cron fields that no day fits")
)

// Parse reads "off", a duration ("1h"), or the five fields of a crontab ("15 */4 * * *"). The error is the end of a sentence that begins
// with the setting's name.
func Parse(text string) (Schedule, error) {
	text = strings.TrimSpace(text)
	if text == Off {
		return Schedule{}, nil
	}
	if every, err := time.ParseDuration(text); err == nil {
		if every < Shortest || every > Longest {
			return Schedule{}, fmt.Errorf("is %s; it must be between %s and %s", every, Shortest, Longest)
		}
		return Schedule{Every: every}, nil
	}
	fields := strings.Fields(text)
	if len(fields) != cronFields {
		return Schedule{}, errForm
	}
	s := Schedule{Cron: strings.Join(fields, " ")}
	if !gronx.New().IsValid(s.Cron) {
		return Schedule{}, errForm
	}
	if s.tick(time.Unix(0, 0)).IsZero() {
		return Schedule{}, errNever
	}
	return s, nil
}

// String is how Parse would read it.
func (s Schedule) String() string {
	switch {
	case s.Every > 0:
		return s.Every.String()
	case s.Cron != "":
		return s.Cron
	}
	return Off
}

// Off tells whether nothing is ever due.
func (s Schedule) Off() bool { return s == Schedule{} }

// Jitter keeps many servers from asking a provider in the same second, which a full hour invites to: up to a tenth of the time to the next
// turn, and no more than five minutes.
const (
	jitterPart    = 10
	longestJitter = 5 * time.Minute
)

// Next is the first time behind another one at which it is due, and later by a part of the jitter: random is from 0 to below 1. Of an
// interval it counts from the other time itself. It is zero where nothing is ever due.
func (s Schedule) Next(after time.Time, random float64) time.Time {
	due := s.tick(after)
	if due.IsZero() {
		return due
	}
	jitter := min(s.tick(due).Sub(due)/jitterPart, longestJitter)
	return due.Add(time.Duration(random * float64(jitter)))
}

// Interval is the longest time from one turn to the next among those that follow: who has not seen a turn for longer misses one. Zero where
// nothing is ever due.
func (s Schedule) Interval(from time.Time) time.Duration {
	if s.Cron == "" {
		return s.Every
	}
	const turns = 64 // a week of every four hours, or two months of working days
	var longest time.Duration
	for range turns {
		next := s.tick(from)
		following := s.tick(next)
		longest = max(longest, following.Sub(next))
		from = next
	}
	return longest
}

// tick is the first turn behind a time, without jitter.
func (s Schedule) tick(after time.Time) time.Time {
	if s.Cron == "" {
		if s.Every == 0 {
			return time.Time{}
		}
		return after.Add(s.Every)
	}
	next, err := gronx.NextTickAfter(s.Cron, after.UTC(), false)
	if err != nil {
		return time.Time{}
	}
	return next
}
