package config

import (
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strings"
	"time"

	"paysaga/internal/schedule"
)

// Reconcile is what reconciliation may do, and when. The words are those that package reconcile knows.
type Reconcile struct {
	Schedule   schedule.Schedule
	Mode       string        // of the scheduled runs: plan, apply
	Lookback   time.Duration // how far the first run goes back
	Overlap    time.Duration // by how much a run goes back behind the end of the one before
	Repairs    []string      // that are carried out without a person
	PerFinding Limit
	PerRun     Limit
	Duplicate  Limit  // for a payment that was taken twice
	Foreign    string // report, ignore
	Account    string // whose operators see what belongs to no account; may be empty
}

// RepairNames are those that PAYSAGA_RECONCILE_REPAIRS may name.
func RepairNames() []string {
	return []string{
		"complete", "undo", "record_refund", "release", "let_go", "resume", "apply_webhook", "review", "refund_duplicate",
	}
}

const (
	minLookback = time.Hour
	// maxLookback: PayPal lists no more than three years.
	maxLookback = 3 * 365 * 24 * time.Hour
	// minOverlap: what changes after it was listed, a capture or a refund, would be seen by nobody without one.
	minOverlap = time.Hour
	maxOverlap = 90 * 24 * time.Hour
)

func reconcileSettings() []setting {
	return append([]setting{
		{Setting{
			Name: "PAYSAGA_RECONCILE_SCHEDULE", Default: schedule.Off,
			Description: "When the workers compare with the providers: `off`, a duration, or five cron fields, in UTC. A turn begins up to a " +
				"tenth of the time between two of them later, at most five minutes.",
			Example: "15 */4 * * *",
		}, func(c *Config, value string) error { return parseSchedule(&c.Reconcile.Schedule, value) }},
		{Setting{
			Name: "PAYSAGA_RECONCILE_MODE", Default: "plan",
			Description: "What these turns may do: `plan` only finds, `apply` also repairs, within the limits below.",
		}, func(c *Config, value string) error { return parseWord(&c.Reconcile.Mode, value, "plan", "apply") }},
		durationSetting("PAYSAGA_RECONCILE_LOOKBACK", "720h", minLookback, maxLookback, "How far the first run goes back.",
			func(c *Config) *time.Duration { return &c.Reconcile.Lookback }),
		durationSetting("PAYSAGA_RECONCILE_OVERLAP", "72h", minOverlap, maxOverlap,
			"By how much a later run goes back behind the end of what was listed: for what has changed since.",
			func(c *Config) *time.Duration { return &c.Reconcile.Overlap }),
		{Setting{
			Name: "PAYSAGA_RECONCILE_FOREIGN", Default: "report",
			Description: "What to do about payments at a provider that no paysaga made, as other systems share its account: `report` or `ignore`.",
		}, func(c *Config, value string) error { return parseWord(&c.Reconcile.Foreign, value, "report", "ignore") }},
		{Setting{
			Name: "PAYSAGA_RECONCILE_ACCOUNT",
			Description: "The account whose operators see what no order knows, where there are several accounts. Without it only " +
				"`paysaga reconcile report` shows it then, and `serve` warns. It must exist.",
		}, func(c *Config, value string) error { return parseAccount(&c.Reconcile.Account, value) }},
	}, reconcileLimits()...)
}

func reconcileLimits() []setting {
	const form = " In whole units of whatever currency, with others by currency."
	return []setting{
		{Setting{
			Name: "PAYSAGA_RECONCILE_REPAIRS", Default: strings.Join(RepairNames(), ","),
			Description: "Which repairs are carried out without a person, with commas between; `none` for none.",
		}, func(c *Config, value string) error { return parseRepairs(&c.Reconcile.Repairs, value) }},
		{Setting{
			Name: "PAYSAGA_RECONCILE_MAX_PER_FINDING", Default: "1000",
			Description: "The most money that one repair may be about; what is about more is left to a person." + form,
			Example:     "1000,JPY:150000,KWD:300.500",
		}, func(c *Config, value string) error { return parseLimit(&c.Reconcile.PerFinding, value) }},
		{Setting{
			Name: "PAYSAGA_RECONCILE_MAX_PER_RUN", Default: "10000",
			Description: "The most money that all repairs of a run may be about; a run with more repairs nothing and says so." + form,
		}, func(c *Config, value string) error { return parseLimit(&c.Reconcile.PerRun, value) }},
		{Setting{
			Name: "PAYSAGA_RECONCILE_MAX_DUPLICATE", Default: "0",
			Description: "The most money that is given back without a person where an order was paid twice; 0 leaves all of these to people." + form,
		}, func(c *Config, value string) error { return parseLimit(&c.Reconcile.Duplicate, value) }},
	}
}

func parseSchedule(field *schedule.Schedule, value string) error {
	s, err := schedule.Parse(value)
	if err != nil {
		return err
	}
	*field = s
	return nil
}

func parseRepairs(field *[]string, value string) error {
	*field = []string{}
	if value == "none" {
		return nil
	}
	for name := range strings.SplitSeq(value, ",") {
		name = strings.TrimSpace(name)
		if !slices.Contains(RepairNames(), name) {
			return fmt.Errorf("names a repair that does not exist, %q; it may name %s, or be none", name, strings.Join(RepairNames(), ", "))
		}
		if !slices.Contains(*field, name) {
			*field = append(*field, name)
		}
	}
	return nil
}

// accountForm is that of package account, and of the database.
var accountForm = regexp.MustCompile(`^[a-z0-9][a-z0-9_-]{0,62}$`)

func parseAccount(field *string, value string) error {
	if !accountForm.MatchString(value) {
		return errors.New("is no account's name; it has 1 to 63 characters of a-z 0-9 _ -")
	}
	*field = value
	return nil
}
