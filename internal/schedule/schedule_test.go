package schedule_test

import (
	"math"
	"testing"
	"time"

	"pgregory.net/rapid"

	"paysaga/internal/schedule"
)

func parse(t *testing.T, text string) schedule.Schedule {
	t.Helper()
	s, err := schedule.Parse(text)
	if err != nil {
		t.Fatalf("parse %q: %v", text, err)
	}
	return s
}

func at(t *testing.T, text string) time.Time {
	t.Helper()
	when, err := time.Parse(time.DateTime, text)
	if err != nil {
		t.Fatal(err)
	}
	return when
}

func TestNext(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct{ schedule, after, want string }{
		"an interval from the last turn on":         {"90m", "2026-03-01 00:10:05", "2026-03-01 01:40:05"},
		"the next full minute":                      {"* * * * *", "2026-03-01 00:00:30", "2026-03-01 00:01:00"},
		"the same minute is over":                   {"30 4 * * *", "2026-03-01 04:30:00", "2026-03-02 04:30:00"},
		"every four hours":                          {"15 */4 * * *", "2026-03-01 23:00:00", "2026-03-02 00:15:00"},
		"working days":                              {"0 6 * * mon-fri", "2026-02-27 07:00:00", "2026-03-02 06:00:00"},
		"Sunday is 7 as well":                       {"0 6 * * 7", "2026-03-02 00:00:00", "2026-03-08 06:00:00"},
		"a day of the month or a day of the week":   {"0 0 13 * 5", "2026-03-01 00:00:00", "2026-03-06 00:00:00"},
		"each second day, if it is also a Monday":   {"0 0 */2 * 1", "2026-03-02 01:00:00", "2026-03-09 00:00:00"},
		"leap day, over a century without one":      {"0 0 29 2 *", "2096-03-01 00:00:00", "2104-02-29 00:00:00"},
		"the end of the year":                       {"59 23 31 12 *", "2026-12-31 23:59:00", "2027-12-31 23:59:00"},
		"the hour that summer time leaves out, UTC": {"30 2 29 3 *", "2026-03-28 00:00:00", "2026-03-29 02:30:00"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if got, want := parse(t, test.schedule).Next(at(t, test.after), 0), at(t, test.want); !got.Equal(want) {
				t.Errorf("next is %s, want %s", got, want)
			}
		})
	}
}

func TestOff(t *testing.T) {
	t.Parallel()
	s := parse(t, " off ")
	if !s.Off() || !s.Next(time.Now(), 0).IsZero() || s.Interval(time.Now()) != 0 || s.String() != "off" {
		t.Errorf("off is %+v", s)
	}
	if parse(t, "1h").Off() {
		t.Error("1h is off")
	}
}

func TestParseRefuses(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]string{
		"":               "is no schedule; write off, a duration such as 1h, or five cron fields such as 15 */4 * * *",
		"on":             "is no schedule; write off, a duration such as 1h, or five cron fields such as 15 */4 * * *",
		"@daily":         "is no schedule; write off, a duration such as 1h, or five cron fields such as 15 */4 * * *",
		"60 * * * *":     "is no schedule; write off, a duration such as 1h, or five cron fields such as 15 */4 * * *",
		"*/0 * * * *":    "is no schedule; write off, a duration such as 1h, or five cron fields such as 15 */4 * * *",
		"0 * * * * *":    "is no schedule; write off, a duration such as 1h, or five cron fields such as 15 */4 * * *",
		"TZ=CET 0 * * *": "is no schedule; write off, a duration such as 1h, or five cron fields such as 15 */4 * * *",
		"0 0 30 2 *":     "has cron fields that no day fits",
		"0s":             "is 0s; it must be between 10ms and 168h0m0s",
		"-1h":            "is -1h0m0s; it must be between 10ms and 168h0m0s",
		"169h":           "is 169h0m0s; it must be between 10ms and 168h0m0s",
	} {
		s, err := schedule.Parse(text)
		if err == nil || err.Error() != want {
			t.Errorf("%q: %+v, %v; want %q", text, s, err, want)
		}
	}
}

func TestInterval(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]time.Duration{
		"1h":              time.Hour,
		"15 */4 * * *":    4 * time.Hour,
		"0 6 * * mon-fri": 72 * time.Hour, // the weekend
		"0 0 1 * *":       31 * 24 * time.Hour,
	} {
		if got := parse(t, text).Interval(at(t, "2026-01-01 12:00:00")); got != want {
			t.Errorf("%s: %s, want %s", text, got, want)
		}
	}
}

// Whatever the schedule, its next turn lies behind the time, is the same for the same chance, and the jitter brings it neither to the turn
// after it nor further than five minutes.
func TestJitter(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		text := rapid.SampledFrom([]string{"10ms", "1m", "1h", "168h", "* * * * *", "7 */3 * * *", "0 5 * * 1-5", "0 0 1 1 *"}).Draw(t, "schedule")
		s, err := schedule.Parse(text)
		if err != nil {
			t.Fatal(err)
		}
		after := time.Unix(rapid.Int64Range(0, 4e9).Draw(t, "after"), 0).UTC()
		random := rapid.Float64Range(0, math.Nextafter(1, 0)).Draw(t, "random")
		next, due := s.Next(after, random), s.Next(after, 0)
		late := next.Sub(due)
		if !due.After(after) || late < 0 || late > 5*time.Minute || !next.Before(s.Next(due, 0)) {
			t.Fatalf("%s after %s is due at %s and %s", text, after, due, next)
		}
	})
}

func TestString(t *testing.T) {
	t.Parallel()
	for _, text := range []string{"off", "1h0m0s", "15 */4 * * *"} {
		if got := parse(t, text).String(); got != text {
			t.Errorf("%q comes back as %q", text, got)
		}
	}
}
