package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"text/tabwriter"
	"time"
	"unicode/utf8"

	"github.com/google/uuid"
	"github.com/spf13/cobra"

	"paysaga/internal/config"
	"paysaga/internal/httpapi"
	"paysaga/internal/idempotency"
	"paysaga/internal/postgres"
	"paysaga/reconcile"
	"paysaga/reconcile/statement"
	"paysaga/saga"
)

func findingID(text string) (uuid.UUID, error) {
	id, err := uuid.Parse(text)
	if err != nil {
		return uuid.Nil, usageError{fmt.Errorf("%q is no finding's id, which is a UUID", text)}
	}
	return id, nil
}

func notThere(err error, id uuid.UUID) error {
	if errors.Is(err, saga.ErrNotFound) {
		return fmt.Errorf("there is no finding %s", id)
	}
	return err
}

func newResolveFindingCommand(dir *string) *cobra.Command {
	var reason string
	var asJSON bool
	command := &cobra.Command{
		Use: "resolve FINDING", Short: "Say that a finding is settled", Args: cobra.ExactArgs(1),
		Long: `Closes a finding with a reason, which the audit log keeps. It moves no money and changes no order. It is not opened again before
something about it changes. A finding by which its saga waits for a person is closed by deciding that, with "paysaga sagas".`,
		Example: `  paysaga reconcile resolve 7a1f0c64-52d8-4c1b-9a0e-2f4b6d8e0c13 --reason 'Booked as a difference.'`,
		RunE: func(cmd *cobra.Command, args []string) error {
			note := reconcile.Note{Actor: actor(), Reason: reason}
			return noteFinding(cmd, *dir, args[0], note, asJSON, (*postgres.Store).ResolveFinding)
		},
	}
	addReason(command, &reason)
	command.Flags().BoolVar(&asJSON, "json", false, "print JSON")
	return command
}

func newIgnoreFindingCommand(dir *string) *cobra.Command {
	var reason, until string
	var asJSON bool
	command := &cobra.Command{
		Use: "ignore FINDING", Short: "Hear nothing of a finding for a time", Args: cobra.ExactArgs(1),
		Long:    `Keeps a finding from being counted and mended until a time. Then it is open again, if it has not gone by itself.`,
		Example: `  paysaga reconcile ignore 7a1f0c64-52d8-4c1b-9a0e-2f4b6d8e0c13 --until 2026-12-24 --reason 'The provider looks into it.'`,
		RunE: func(cmd *cobra.Command, args []string) error {
			at, err := readTime("--until", until)
			if err != nil {
				return err
			}
			const longest = 366 * 24 * time.Hour // as over HTTP
			if !at.After(time.Now()) || time.Until(at) > longest {
				return usageError{errors.New("--until must be a time to come, within a year")}
			}
			note := reconcile.Note{Actor: actor(), Reason: reason, Until: at}
			return noteFinding(cmd, *dir, args[0], note, asJSON, (*postgres.Store).IgnoreFinding)
		},
	}
	addReason(command, &reason)
	command.Flags().StringVar(&until, "until", "", "until when, such as 2026-12-24 or 2026-12-24T06:00:00Z (required)")
	command.Flags().BoolVar(&asJSON, "json", false, "print JSON")
	_ = command.MarkFlagRequired("until")
	return command
}

func addReason(command *cobra.Command, reason *string) {
	command.Flags().StringVar(reason, "reason", "", "why, in your own words; kept in the audit log, so without names (required)")
	_ = command.MarkFlagRequired("reason")
}

// mostReason is what the audit log keeps of a reason, as over HTTP.
const mostReason = 1000

// noting is a way of the store's to write what a person says about a finding.
type noting = func(
	store *postgres.Store, ctx context.Context, account string, id uuid.UUID, note reconcile.Note,
	held *idempotency.Held, answer func(reconcile.Kept) (saga.Answer, error),
) (reconcile.Kept, error)

func noteFinding(cmd *cobra.Command, dir, about string, note reconcile.Note, asJSON bool, write noting) error {
	id, err := findingID(about)
	if err == nil {
		err = checkReason(note.Reason)
	}
	if err != nil {
		return err
	}
	c, err := loadPart(dir, config.LoadSealing)
	if err != nil {
		return err
	}
	return withStoreOf(cmd.Context(), c, func(store *postgres.Store) error {
		kept, err := write(store, cmd.Context(), "", id, note, nil, nil)
		if err == nil && note.Until.IsZero() && !kept.ResolvedWith(note) {
			err = reconcile.ErrFindingResolved
		}
		switch {
		case errors.Is(err, reconcile.ErrFindingInReview):
			return errors.New("its saga waits for a person: decide that with \"paysaga sagas\", which closes the finding")
		case errors.Is(err, reconcile.ErrFindingResolved):
			return errors.New("it is resolved already")
		case err != nil:
			return notThere(err, id)
		}
		return printFinding(cmd, kept, nil, asJSON)
	})
}

func checkReason(reason string) error {
	switch {
	case strings.TrimSpace(reason) == "" || utf8.RuneCountInString(reason) > mostReason:
		return usageError{fmt.Errorf("--reason: write 1 to %d characters", mostReason)}
	case httpapi.HasCardNumber(reason):
		return usageError{errors.New("--reason: there is what looks like a card number, which must never be kept here")}
	}
	return nil
}

// shownFinding is a finding with its facts.
type shownFinding struct {
	findingRow

	Here  reconcile.Facts `json:"here"`
	There reconcile.Facts `json:"there"`
	File  *shownFile      `json:"file,omitempty"`
}

// shownFile is the settlement file that a finding is about.
type shownFile struct {
	Name   string           `json:"name"`
	Report statement.Report `json:"report"`
}

// statementOf reads the settlement file that a finding is about; nil where it is about none.
func statementOf(ctx context.Context, store *postgres.Store, kept reconcile.Kept) (*shownFile, error) {
	id, ok := reconcile.StatementOf(kept.Reference)
	if !ok {
		return nil, nil //nolint:nilnil // there is none
	}
	file, err := store.ReadStatement(ctx, id)
	if err != nil {
		return nil, err
	}
	return &shownFile{file.Name, file.Report}, nil
}

func printFinding(cmd *cobra.Command, kept reconcile.Kept, file *shownFile, asJSON bool) error {
	f := newFindingRow(kept)
	if asJSON {
		return printJSON(cmd, shownFinding{f, kept.Here, kept.There, file})
	}
	table := tabwriter.NewWriter(cmd.OutOrStdout(), 0, 0, 2, ' ', 0)
	for _, line := range []struct{ name, value string }{
		{"finding", f.ID},
		{"kind", f.Kind + ", " + f.Severity},
		{"state", f.State},
		{"about", strings.TrimSpace(f.Account + " " + f.OrderID + " " + f.Provider + " " + f.Reference)},
		{"money", f.money()},
		{"detail", f.Detail},
		{"repair", cmp.Or(repairsInWords[reconcile.Repair(f.Repair)], f.Repair)},
		{"last tried", f.Note},
		{"first seen", moment(f.FirstSeen)},
		{"last seen", moment(f.LastSeen)},
		{"ignored until", moment(f.IgnoredUntil)},
		{"resolved", strings.TrimSpace(moment(f.ResolvedAt) + " " + f.Resolution)},
		{"by", f.By},
		{"reason", f.Reason},
	} {
		if line.value != "" {
			fmt.Fprintf(table, "%s\t%s\n", line.name, line.value)
		}
	}
	if file != nil { // its own figures say all that the facts do
		if err := table.Flush(); err != nil {
			return err //nolint:wrapcheck // standard output
		}
		fmt.Fprintf(cmd.OutOrStdout(), "\nfile %s\n", file.Name)
		return printStatement(cmd.OutOrStdout(), file.Report)
	}
	tellFacts(table, "here", kept.Here)
	tellFacts(table, "there", kept.There)
	return table.Flush() //nolint:wrapcheck // standard output
}

func tellFacts(out io.Writer, side string, facts reconcile.Facts) {
	if facts.Source == "" {
		return
	}
	fmt.Fprintf(out, "%s\t%s: %s, over %s, taken %s, given back %s", side, facts.Source, cmp.Or(facts.Status, "-"),
		signed(facts.Amount, facts.Currency), signed(facts.Captured, facts.Currency), signed(facts.Refunded, facts.Currency))
	if facts.Fee != 0 || facts.Net != 0 { // else nobody told them
		fmt.Fprintf(out, ", fee %s, net %s", signed(facts.Fee, facts.Currency), signed(facts.Net, facts.Currency))
	}
	fmt.Fprintln(out)
	if ids := slices.Concat(facts.References, facts.Keys); len(ids) > 0 {
		fmt.Fprintf(out, "\t%s\n", strings.Join(ids, " "))
	}
}
