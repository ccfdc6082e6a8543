package main

import (
	"fmt"
	"io"
	"log/slog"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"

	"paysaga/internal/config"
	"paysaga/internal/idempotency"
	"paysaga/internal/postgres"
	"paysaga/internal/upkeep"
)

func newUpkeepCommand() *cobra.Command {
	var asJSON, onlyPlan bool
	command := &cobra.Command{
		Use:   "upkeep",
		Short: "Delete expired keys, make and drop partitions of answers, once",
		Long: `Does once what the workers of "paysaga serve" do every PAYSAGA_UPKEEP_INTERVAL, for houses that want their own
schedule: makes the partitions that answers will need, deletes up to 200,000 keys whose window is over, and drops the
partitions that no answer needs any more. Requests are served meanwhile. Where a worker is at it, nothing is done.

The database is the one that DATABASE_URL names, or that of a running "paysaga dev". PAYSAGA_RETENTION and
PAYSAGA_EXPIRED_KEYS must be those of the servers.`,
		Example: "  paysaga upkeep --plan\n  paysaga upkeep",
		Args:    cobra.NoArgs,
	}
	dir := addDirFlag(command)
	command.RunE = func(cmd *cobra.Command, _ []string) error {
		c, err := loadPart(*dir, config.LoadUpkeep)
		if err != nil {
			return err
		}
		return withStoreOf(cmd.Context(), c, func(store *postgres.Store) error {
			worker, err := newUpkeep(store, c, nil, slog.New(slog.DiscardHandler))
			if err != nil {
				return err
			}
			plan, err := worker.Plan(cmd.Context())
			if err != nil {
				return err
			}
			if onlyPlan {
				return printUpkeepPlan(cmd, plan, asJSON)
			}
			return doUpkeep(cmd, worker, plan, asJSON)
		})
	}
	command.Flags().BoolVar(&onlyPlan, "plan", false, "show what would be done, and change nothing")
	command.Flags().BoolVar(&asJSON, "json", false, "print JSON")
	command.AddCommand(newUpkeepPartitionsCommand(dir))
	return command
}

// newUpkeep makes the worker that keeps the tables of keys and answers in shape.
func newUpkeep(store *postgres.Store, c config.Config, meter upkeep.Meter, logger *slog.Logger) (*upkeep.Worker, error) {
	worker, err := upkeep.New(upkeep.Config{
		Store: store, Interval: c.UpkeepInterval, Retention: c.Retention,
		KeepExpired: c.Idempotency.ExpiredKeys == string(idempotency.ExpiredReject), Meter: meter, Logger: logger,
	})
	if err != nil {
		return nil, fmt.Errorf("set up upkeep: %w", err)
	}
	return worker, nil
}

func doUpkeep(cmd *cobra.Command, worker *upkeep.Worker, plan upkeep.Plan, asJSON bool) error {
	bar := newBar(cmd.ErrOrStderr(), "expired keys deleted", int64(plan.Expired))
	report, err := worker.Once(cmd.Context(), func(so upkeep.Report) { bar.to(int64(so.Deleted)) })
	bar.close()
	if err != nil {
		return err
	}
	if asJSON {
		return printJSON(cmd, map[string]any{
			"busy": report.Busy, "partitions_made": report.Made,
			"keys_deleted": report.Deleted, "more_keys": report.MoreKeys, "answers_kept": report.Kept,
			"partitions_dropped": notNil(report.Dropped), "partitions_refused": refusals(report), "limits_deleted": report.Limits,
			"days_ahead": report.ForNew, "partitions_until": report.End.Format(time.DateOnly),
			"rows": report.Figures.Rows, "overdue": report.Figures.Overdue,
		})
	}
	out := cmd.OutOrStdout()
	fmt.Fprintf(out, "partitions made: %d\n", report.Made)
	tellAhead(out, report.ForNew, report.End)
	fmt.Fprintf(out, "expired keys deleted: %d", report.Deleted)
	if report.MoreKeys {
		fmt.Fprint(out, "; there are more, run it again")
	}
	fmt.Fprintf(out, "\nanswers kept for open orders: %d\n", report.Kept)
	fmt.Fprintf(out, "partitions dropped: %d %s", len(report.Dropped), strings.Join(report.Dropped, ", "))
	fmt.Fprintln(out)
	if report.Busy {
		fmt.Fprintln(out, "another process does upkeep at this moment: the rest is left to it")
	}
	for _, refusal := range report.Refused {
		fmt.Fprintf(out, "%s stays: %s\n", refusal.Partition, refusal.Reason)
	}
	return nil
}

// tellAhead tells the number of the metric answer_partitions_ahead_days, in its words.
func tellAhead(out io.Writer, days int, end time.Time) {
	fmt.Fprintf(out, "days for which the answers of new keys find a partition: %d; the last one ends on %s\n", days, end.Format(time.DateOnly))
}

func refusals(report upkeep.Report) []map[string]string {
	list := make([]map[string]string, 0, len(report.Refused))
	for _, refusal := range report.Refused {
		list = append(list, map[string]string{"partition": refusal.Partition, "reason": refusal.Reason})
	}
	return list
}

func printUpkeepPlan(cmd *cobra.Command, plan upkeep.Plan, asJSON bool) error {
	over := make([]string, 0, len(plan.Over))
	for _, partition := range plan.Over {
		over = append(over, partition.Name)
	}
	if asJSON {
		return printJSON(cmd, map[string]any{
			"days_missing": plan.Missing, "keys_expired": plan.Expired, "more_keys": plan.MoreKeys, "partitions_over": over,
		})
	}
	out := cmd.OutOrStdout()
	fmt.Fprintf(out, "partitions to make: those of %d days\n", plan.Missing)
	atLeast := ""
	if plan.MoreKeys {
		atLeast = ", and more the next time"
	}
	fmt.Fprintf(out, "expired keys to delete: %d%s\n", plan.Expired, atLeast)
	fmt.Fprintf(out, "partitions to drop, once no key needs them: %d %s\n", len(over), strings.Join(over, ", "))
	return nil
}

func newUpkeepPartitionsCommand(dir *string) *cobra.Command {
	var asJSON bool
	command := &cobra.Command{
		Use: "partitions", Short: "List the partitions of answers, with their sizes", Args: cobra.NoArgs,
		Long: `Lists the partitions of answers, one for each week in which keys' windows end, oldest first.

  FROM, TO     the week: the first day, and the first one that is not in it
  STATE        over (its keys have expired: the next upkeep drops it), now, or ahead
  ATTACHMENT   attached; detaching, where that was interrupted, and detached are on their way to being dropped
  ROWS, KIB    estimated answers, and the size with indexes

At the end it tells for how many days the answers of new keys find a partition, as the metric answer_partitions_ahead_days does.

The database is the one that DATABASE_URL names, or that of a running "paysaga dev". PAYSAGA_RETENTION must be that of the servers.`,
		RunE: func(cmd *cobra.Command, _ []string) error {
			c, err := loadPart(*dir, config.LoadUpkeep)
			if err != nil {
				return err
			}
			return withStoreOf(cmd.Context(), c, func(store *postgres.Store) error {
				partitions, err := store.ListPartitions(cmd.Context())
				if err != nil {
					return err
				}
				return printPartitions(cmd, partitions, c.Retention, asJSON)
			})
		},
	}
	command.Flags().BoolVar(&asJSON, "json", false, "print JSON")
	return command
}

func printPartitions(cmd *cobra.Command, partitions upkeep.Partitions, retention time.Duration, asJSON bool) error {
	type row struct {
		Name       string            `json:"name"`
		From       string            `json:"from"`
		To         string            `json:"to"`
		State      string            `json:"state"`
		Attachment upkeep.Attachment `json:"attachment"`
		Rows       int64             `json:"rows"`
		Bytes      int64             `json:"bytes"`
	}
	list := make([]row, 0, len(partitions.List))
	for _, p := range partitions.List {
		list = append(list, row{
			p.Name, p.From.Format(time.DateOnly), p.To.Format(time.DateOnly), partitionState(p, partitions.Today), p.Attachment, p.Rows, p.Bytes,
		})
	}
	if asJSON {
		return printJSON(cmd, map[string]any{
			"partitions": list, "days_ahead": partitions.DaysForNewKeys(retention), "partitions_until": partitions.End().Format(time.DateOnly),
		})
	}
	table := tabwriter.NewWriter(cmd.OutOrStdout(), 0, 0, 2, ' ', 0)
	fmt.Fprintln(table, "PARTITION\tFROM\tTO\tSTATE\tATTACHMENT\tROWS\tKIB")
	for _, p := range list {
		fmt.Fprintf(table, "%s\t%s\t%s\t%s\t%s\t~%d\t%d\n", p.Name, p.From, p.To, p.State, p.Attachment, p.Rows, p.Bytes>>10) //nolint:mnd // KiB
	}
	if err := table.Flush(); err != nil {
		return err //nolint:wrapcheck // standard output
	}
	tellAhead(cmd.OutOrStdout(), partitions.DaysForNewKeys(retention), partitions.End())
	return nil
}

// partitionState tells where a week lies.
func partitionState(p upkeep.Partition, today time.Time) string {
	switch {
	case !p.To.After(today):
		return "over"
	case p.From.After(today):
		return "ahead"
	default:
		return "now"
	}
}

func notNil(list []string) []string { return append([]string{}, list...) }
