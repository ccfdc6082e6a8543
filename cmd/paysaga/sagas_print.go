package main

import (
	"cmp"
	"fmt"
	"io"
	"strconv"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"

	"paysaga/api"
	"paysaga/providers"
)

func printSagas(cmd *cobra.Command, list api.SagaList, now time.Time) error {
	table := tabwriter.NewWriter(cmd.OutOrStdout(), 0, 0, 2, ' ', 0)
	fmt.Fprintln(table, "SAGA\tOF\tSTATE\tFINDINGS\tAMOUNT\tPROVIDER\tAGE\tUNMOVED\tNEXT\tFAILURES\tDRIVES\tLEASE")
	for _, s := range list.Data {
		next, lease := "-", "-"
		if !s.NextAttemptAt.IsZero() {
			next = span(s.NextAttemptAt.Sub(now))
		}
		if !s.LockedUntil.IsZero() {
			lease = span(s.LockedUntil.Sub(now))
		}
		fmt.Fprintf(table, "%s\t%s\t%s\t%s\t%s\t%s\t%s\t%s\t%s\t%d\t%d\t%s\n", s.Key, s.Kind, s.State, cmp.Or(kindsOf(s), "-"),
			providers.Money{Amount: s.Amount, Currency: s.Currency}, s.Provider, span(now.Sub(s.CreatedAt)), span(now.Sub(s.UpdatedAt)), next,
			s.Failures, s.Attempts, lease)
	}
	if err := table.Flush(); err != nil {
		return err //nolint:wrapcheck // standard output
	}
	if list.NextCursor != nil {
		fmt.Fprintln(cmd.ErrOrStderr(), "more: --cursor", *list.NextCursor)
	}
	return nil
}

// span is a length of time as people read it, in one unit; what is over is "now".
func span(length time.Duration) string {
	const day = 24 * time.Hour
	switch {
	case length < time.Second:
		return "now"
	case length < time.Minute:
		return fmt.Sprintf("%ds", length/time.Second)
	case length < time.Hour:
		return fmt.Sprintf("%dm", length/time.Minute)
	case length < 2*day:
		return fmt.Sprintf("%dh", length/time.Hour)
	}
	return fmt.Sprintf("%dd", length/day)
}

func printSaga(out io.Writer, s api.SagaRecord) error {
	table := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	tellSaga(table, s)
	fmt.Fprintln(table, "\nSTEP\tATTEMPT\tSTATUS\tOUTCOME\tCODE\tSENT\tSTARTED\tSUB-KEY\tPROVIDER'S REFERENCE")
	for _, step := range s.Steps {
		fmt.Fprintf(table, "%s\t%d\t%s\t%s\t%s\t%d\t%s\t%s\t%s\n", step.Name, step.Attempt, step.Status, step.Outcome, step.Code, step.SentCount,
			step.StartedAt.Format(time.RFC3339), step.SubKey, step.ProviderReference)
	}
	tellDecided(table, s)
	if err := table.Flush(); err != nil {
		return err //nolint:wrapcheck // standard output
	}
	if len(s.Decisions) > 0 {
		_, err := fmt.Fprintln(out, "\nfits:", s.Decisions)
		return err //nolint:wrapcheck // standard output
	}
	return nil
}

// tellSaga tells what it is and how it stands.
func tellSaga(table io.Writer, s api.SagaRecord) {
	fmt.Fprintf(table, "saga\t%s\nof\t%s %s, %s\nstate\t%s\n", s.Key, s.Kind, s.OrderID, s.Status, s.State)
	fmt.Fprintf(table, "amount\t%s at %s\n", providers.Money{Amount: s.Amount, Currency: s.Currency}, s.Provider)
	fmt.Fprintf(table, "taken up\t%d times, %d failures in a row\n", s.Attempts, s.Failures)
	for _, at := range []struct {
		what string
		time time.Time
	}{
		{"created", s.CreatedAt},
		{"changed", s.UpdatedAt},
		{"worked on until", s.LockedUntil},
		{"deadline", s.DeadlineAt},
		{"next look", s.NextAttemptAt},
	} {
		if !at.time.IsZero() {
			fmt.Fprintf(table, "%s\t%s\n", at.what, at.time.Format(time.RFC3339))
		}
	}
}

// tellDecided tells what was found and decided about it.
func tellDecided(table io.Writer, s api.SagaRecord) {
	if len(s.Findings) > 0 {
		fmt.Fprintln(table, "\nFOUND\tWHAT\tRESOLVED\tDETAIL")
	}
	for _, f := range s.Findings {
		fmt.Fprintf(table, "%s\t%s\t%s\t%s\n", f.CreatedAt.Format(time.RFC3339), f.Kind, cmp.Or(f.Resolution, "open"), f.Detail)
	}
	if len(s.AuditLog) > 0 {
		fmt.Fprintln(table, "\nDECIDED\tWHAT\tBY\tWHY")
	}
	for _, entry := range s.AuditLog {
		why := strconv.Quote(entry.Reason)
		if entry.OutsideProvider {
			why += " (outside the provider)"
		}
		fmt.Fprintf(table, "%s\t%s\t%s\t%s\n", entry.CreatedAt.Format(time.RFC3339), entry.Action, entry.Actor, why)
	}
}
