package main

import (
	"cmp"
	"context"
	"encoding/csv"
	"encoding/json"
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/google/uuid"
	"github.com/spf13/cobra"

	"paysaga/internal/config"
	"paysaga/internal/postgres"
	"paysaga/providers"
	"paysaga/reconcile"
	"paysaga/saga"
)

// findingRow is a finding as it is printed.
type findingRow struct {
	ID           string    `json:"id"`
	State        string    `json:"state"`
	Kind         string    `json:"kind"`
	Severity     string    `json:"severity"`
	Account      string    `json:"account,omitempty"`
	OrderID      string    `json:"order_id,omitempty"`
	SagaKey      string    `json:"saga_key,omitempty"`
	Provider     string    `json:"provider,omitempty"`
	Reference    string    `json:"provider_reference,omitempty"`
	Amount       int64     `json:"amount"`
	Currency     string    `json:"currency,omitempty"`
	Repair       string    `json:"repair,omitempty"`
	Note         string    `json:"note,omitempty"`
	FirstSeen    time.Time `json:"first_seen"`
	LastSeen     time.Time `json:"last_seen,omitzero"`
	IgnoredUntil time.Time `json:"ignored_until,omitzero"`
	ResolvedAt   time.Time `json:"resolved_at,omitzero"`
	Resolution   string    `json:"resolution,omitempty"`
	By           string    `json:"by,omitempty"`
	Reason       string    `json:"reason,omitempty"`
	Detail       string    `json:"detail"`
}

func newOpenRow(o reconcile.Open) findingRow {
	row := findingRow{
		ID: o.ID.String(), State: string(reconcile.FindingOpen), Kind: string(o.Kind), Severity: string(o.Severity), Account: o.AccountID,
		Provider: o.Provider, Reference: o.Reference, Amount: o.AtStake.Amount, Currency: o.AtStake.Currency, Repair: string(o.Repair),
		FirstSeen: o.FirstSeen.UTC(), LastSeen: o.LastSeen.UTC(), Detail: o.Detail,
	}
	if o.OrderID != uuid.Nil {
		row.OrderID = o.OrderID.String()
	}
	if o.SagaKey != uuid.Nil {
		row.SagaKey = o.SagaKey.String()
	}
	return row
}

func newFindingRow(k reconcile.Kept) findingRow {
	row := newOpenRow(k.Open)
	row.State, row.Note, row.Resolution, row.By, row.Reason = string(k.State), k.Note, k.Resolution, k.ResolvedBy, k.Reason
	if !k.Ignored.IsZero() {
		row.IgnoredUntil = k.Ignored.UTC()
	}
	if !k.ResolvedAt.IsZero() {
		row.ResolvedAt = k.ResolvedAt.UTC()
	}
	return row
}

func (f findingRow) money() string {
	if f.Currency == "" {
		return "-"
	}
	return providers.Money{Amount: f.Amount, Currency: f.Currency}.String()
}

// refusal is why the last repair was not carried out; where it was, its note is only its name.
func (f findingRow) refusal() string {
	if slices.Contains(reconcile.Repairs(), reconcile.Repair(f.Note)) {
		return ""
	}
	return f.Note
}

// outcome is what a run that mends came to about it.
func (f findingRow) outcome() string {
	switch {
	case f.Note == "":
		return "nothing"
	case f.Note == string(reconcile.RepairReview):
		return "stopped for a person"
	case f.refusal() == "":
		return "done: " + f.Note
	}
	return "refused: " + f.Note
}

func newReportCommand(dir *string) *cobra.Command {
	var format, state, kind, severity, provider string
	states := []string{"open", "ignored", "resolved", "all"}
	formats := []string{"table", "csv", "json"}
	kinds := words(reconcile.AllKinds())
	severities := words([]reconcile.Severity{reconcile.Critical, reconcile.High, reconcile.Low})
	command := &cobra.Command{
		Use: "report", Short: "Print the findings, newest first", Args: cobra.NoArgs,
		Long: `Prints the findings of all accounts, and those of none, newest first: as a table, as CSV (RFC 4180; a cell that a spreadsheet would
take for a formula begins with '), or as JSON. Amounts in CSV and JSON are minor units.

The database is the one that DATABASE_URL names, or that of a running "paysaga dev".`,
		Example: "  paysaga reconcile report --format csv >findings.csv",
		RunE: func(cmd *cobra.Command, _ []string) error {
			for _, choice := range []struct {
				flag, value string
				of          []string
			}{
				{"format", format, formats},
				{"state", state, states},
				{"severity", severity, append(severities, "")},
				{"provider", provider, append(allProviders(), "")},
				{"kind", kind, append(kinds, "")},
			} {
				if !slices.Contains(choice.of, choice.value) {
					return usageError{fmt.Errorf("--%s %q: use %s", choice.flag, choice.value, strings.Trim(strings.Join(choice.of, ", "), ", "))}
				}
			}
			filter := reconcile.FindingFilter{
				Kind: reconcile.Kind(kind), Severity: reconcile.Severity(severity), Provider: provider, State: reconcile.FindingState(state),
			}
			if state == "all" {
				filter.State = ""
			}
			return withStore(cmd.Context(), *dir, func(store *postgres.Store) error {
				return printReport(cmd.Context(), cmd.OutOrStdout(), store, filter, format)
			})
		},
	}
	flags := command.Flags()
	flags.StringVar(&format, "format", "table", "how: table, csv or json")
	flags.StringVar(&state, "state", "open", "only findings in this state: open, ignored, resolved, or all")
	flags.StringVar(&kind, "kind", "", "only findings of this kind")
	flags.StringVar(&severity, "severity", "", "only findings of this severity: critical, high or low")
	flags.StringVar(&provider, "provider", "", "only findings about this provider")
	complete(command, "format", formats)
	complete(command, "state", states)
	complete(command, "kind", kinds)
	complete(command, "severity", severities)
	complete(command, "provider", allProviders())
	return command
}

// reportPage is how many findings are read at a time: a report of any length needs the same memory, except as a table.
const reportPage = 500

// eachFinding reads all findings that a filter lets through.
func eachFinding(ctx context.Context, store *postgres.Store, filter reconcile.FindingFilter, do func(findingRow) error) error {
	filter.Limit = reportPage
	for {
		page, err := store.ReadFindings(ctx, filter)
		if err != nil {
			return err
		}
		for _, kept := range page {
			if err := do(newFindingRow(kept)); err != nil {
				return err
			}
		}
		if len(page) < reportPage {
			return nil
		}
		last := page[len(page)-1]
		filter.Before = &saga.FindingPlace{CreatedAt: last.FirstSeen, ID: last.ID}
	}
}

func printReport(ctx context.Context, out io.Writer, store *postgres.Store, filter reconcile.FindingFilter, format string) error {
	switch format {
	case "csv":
		return printCSV(out, func(do func(findingRow) error) error { return eachFinding(ctx, store, filter, do) })
	case "json":
		return printRows(out, func(do func(findingRow) error) error { return eachFinding(ctx, store, filter, do) })
	}
	table := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	fmt.Fprintln(table, "FINDING\tSTATE\tKIND\tSEVERITY\tACCOUNT\tORDER\tPROVIDER\tREFERENCE\tMONEY\tAGE\tREPAIR\tDETAIL")
	err := eachFinding(ctx, store, filter, func(f findingRow) error {
		fmt.Fprintf(table, "%s\t%s\t%s\t%s\t%s\t%s\t%s\t%s\t%s\t%s\t%s\t%s\n", f.ID, f.State, f.Kind, f.Severity, cmp.Or(f.Account, "-"),
			cmp.Or(f.OrderID, "-"), cmp.Or(f.Provider, "-"), cmp.Or(f.Reference, "-"), f.money(), span(time.Since(f.FirstSeen)),
			cmp.Or(f.Repair, "-"), strings.TrimSpace(f.Detail+" "+f.refusal()))
		return nil
	})
	if err != nil {
		return err
	}
	return table.Flush() //nolint:wrapcheck // standard output
}

// csvHeader names the columns of a report.
var csvHeader = []string{
	"finding", "state", "kind", "severity", "account", "order_id", "saga_key", "provider", "provider_reference", "amount_minor_units",
	"currency", "repair", "note", "first_seen", "last_seen", "ignored_until", "resolved_at", "resolution", "by", "reason", "detail",
}

func printCSV(out io.Writer, each func(func(findingRow) error) error) error {
	writer := csv.NewWriter(out)
	writer.UseCRLF = true // RFC 4180
	if err := writer.Write(csvHeader); err != nil {
		return err //nolint:wrapcheck // standard output
	}
	err := each(func(f findingRow) error {
		amount := ""
		if f.Currency != "" {
			amount = strconv.FormatInt(f.Amount, 10)
		}
		row := []string{
			f.ID, f.State, f.Kind, f.Severity, f.Account, f.OrderID, f.SagaKey, f.Provider, f.Reference, amount, f.Currency, f.Repair, f.Note,
			moment(f.FirstSeen), moment(f.LastSeen), moment(f.IgnoredUntil), moment(f.ResolvedAt), f.Resolution, f.By, f.Reason, f.Detail,
		}
		for i, cell := range row {
			row[i] = plainCell(cell)
		}
		return writer.Write(row)
	})
	writer.Flush()
	if err != nil {
		return err
	}
	return writer.Error() //nolint:wrapcheck // standard output
}

// plainCell keeps spreadsheets from taking a cell for a formula: what a customer or a provider wrote would be carried out.
func plainCell(cell string) string {
	if cell != "" && strings.ContainsRune("=+-@\t\r\n＝＋－＠", []rune(cell)[0]) {
		return "'" + cell
	}
	return cell
}

func moment(at time.Time) string {
	if at.IsZero() {
		return ""
	}
	return at.UTC().Format(time.RFC3339)
}

// printRows writes a JSON array, one finding after the other.
func printRows(out io.Writer, each func(func(findingRow) error) error) error {
	before := "["
	err := each(func(f findingRow) error {
		encoded, err := json.MarshalIndent(f, "  ", "  ")
		if err != nil {
			return fmt.Errorf("encode finding: %w", err)
		}
		_, err = fmt.Fprintf(out, "%s\n  %s", before, encoded)
		before = ","
		return err //nolint:wrapcheck // standard output
	})
	if err != nil {
		return err
	}
	if before == "[" {
		_, err = fmt.Fprintln(out, "[]")
		return err //nolint:wrapcheck // standard output
	}
	_, err = fmt.Fprintln(out, "\n]")
	return err //nolint:wrapcheck // standard output
}

// runRow is a run as it is printed.
type runRow struct {
	ID          string           `json:"id"`
	Mode        string           `json:"mode"`
	State       string           `json:"state"`
	Stage       string           `json:"stage"`
	Providers   []string         `json:"providers"`
	File        string           `json:"file,omitempty"` // the settlement file's name
	Since       time.Time        `json:"since,omitzero"`
	Until       time.Time        `json:"until,omitzero"`
	RequestedBy string           `json:"requested_by"`
	Reason      string           `json:"reason,omitempty"`
	Totals      reconcile.Totals `json:"totals"`
	CreatedAt   time.Time        `json:"created_at"`
	FinishedAt  time.Time        `json:"finished_at,omitzero"`
}

func newRunRow(run reconcile.Run) runRow {
	return runRow{
		run.ID.String(), string(run.Mode), string(run.State), string(run.Stage), run.Providers, run.File, run.Since, run.Until, run.RequestedBy,
		run.Reason, run.Totals, run.CreatedAt.UTC(), run.FinishedAt,
	}
}

func newRunsCommand(dir *string) *cobra.Command {
	var asJSON bool
	var limit int
	command := &cobra.Command{
		Use: "runs", Short: "List the runs, newest first", Args: cobra.NoArgs,
		Long: `Lists the runs, newest first, those of the schedule and those that somebody asked for, with what each has read, found and done.`,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if limit < 1 {
				return usageError{fmt.Errorf("--limit %d: list 1 run or more", limit)}
			}
			return withStore(cmd.Context(), *dir, func(store *postgres.Store) error {
				runs, err := store.ListRuns(cmd.Context(), reconcile.RunFilter{Limit: limit})
				if err != nil {
					return err
				}
				rows := make([]runRow, 0, len(runs))
				for _, run := range runs {
					rows = append(rows, newRunRow(run))
				}
				if asJSON {
					return printJSON(cmd, rows)
				}
				return printRuns(cmd.OutOrStdout(), rows)
			})
		},
	}
	command.Flags().IntVar(&limit, "limit", 20, "how many")
	command.Flags().BoolVar(&asJSON, "json", false, "print JSON")
	return command
}

func printRuns(out io.Writer, rows []runRow) error {
	table := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	fmt.Fprintln(table, "RUN\tBEGAN\tMODE\tSTATE\tOF\tREAD\tCOMPARED\tNEW\tGONE\tMENDED OR STOPPED\tREFUSED\tMOVED OR BOOKED\tBY\tFILE\tWHY")
	for _, run := range rows {
		t := run.Totals
		state := run.State
		if state == string(reconcile.RunRunning) {
			state += ", " + run.Stage
		}
		fmt.Fprintf(table, "%s\t%s\t%s\t%s\t%s\t%d\t%d\t%d\t%d\t%d\t%d\t%s\t%s\t%s\t%s\n", run.ID, run.CreatedAt.Format(time.RFC3339), run.Mode,
			state, strings.Join(run.Providers, "+"), t.Transactions+t.Lines, t.Payments, t.Opened, t.Healed, t.Repaired, t.Refused, sums(t.Moved),
			run.RequestedBy, cmp.Or(run.File, "-"), run.Reason)
	}
	return table.Flush() //nolint:wrapcheck // standard output
}

func newShowFindingCommand(dir *string) *cobra.Command {
	var asJSON bool
	command := &cobra.Command{
		Use: "show FINDING", Short: "Show one finding, with what both sides say", Args: cobra.ExactArgs(1),
		Long: `Shows one finding with the facts of both sides. They are kept sealed: PAYSAGA_ENCRYPTION_KEYS must be the servers'.
With a finding about a settlement file, what the file came to is shown, and its lines that cannot be read.`,
		RunE: func(cmd *cobra.Command, args []string) error {
			id, err := findingID(args[0])
			if err != nil {
				return err
			}
			c, err := loadPart(*dir, config.LoadSealing)
			if err != nil {
				return err
			}
			return withStoreOf(cmd.Context(), c, func(store *postgres.Store) error {
				kept, err := store.ReadFinding(cmd.Context(), "", id)
				if err != nil {
					return notThere(err, id)
				}
				file, err := statementOf(cmd.Context(), store, kept)
				if err != nil {
					return err
				}
				return printFinding(cmd, kept, file, asJSON)
			})
		},
	}
	command.Flags().BoolVar(&asJSON, "json", false, "print JSON")
	return command
}
