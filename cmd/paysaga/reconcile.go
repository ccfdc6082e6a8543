package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"paysaga/internal/config"
	"paysaga/internal/postgres"
	"paysaga/reconcile"
	"paysaga/reconcile/statement"
)

// foundError tells that all went well and findings are open, which is the exit code's to say.
type foundError struct{ open int64 }

func (e *foundError) Error() string { return fmt.Sprintf("%d findings are open", e.open) }

func (*foundError) exitCode() int { return exitFound }

// exitFound is 2, as a scheduler of the house knows it from diff and others; wrong calls of these commands are 1 therefore.
const exitFound = 2

// wrongCallFails marks commands, and those below them, whose wrong calls have the exit code of a failure.
const wrongCallFails = "paysaga_wrong_call_fails"

// usageCode is the exit code of a command that was called wrongly.
func usageCode(command *cobra.Command) int {
	for ; command != nil; command = command.Parent() {
		if command.Annotations[wrongCallFails] != "" {
			return exitFailed
		}
	}
	return exitUsage
}

// reconciling is what a call of "paysaga reconcile" asks for.
type reconciling struct {
	dir          *string
	once         bool
	plan, apply  bool
	since, until string
	providers    []string
	statements   []string
	zone         string
	asJSON       bool
}

func newReconcileCommand() *cobra.Command {
	r := &reconciling{}
	command := &cobra.Command{
		Use:   "reconcile",
		Short: "Compare with the providers, once; say what would be mended and why, or mend it",
		Long: `Lists what the providers have, or reads settlement files, compares it with our payments, one by one and both ways, and keeps
what differs as findings: runs update them, and one that is gone closes itself. Then it says what would be mended, why, with how much
money, and what is left to people. With --apply it is mended, as far as the settings PAYSAGA_RECONCILE_… allow.

It works on the database itself, with the servers' settings, from the environment or of a running "paysaga dev". Servers may run
meanwhile; two runs never do. A run that was killed is gone on with by the next call.

A settlement file may be Stripe's balance or payout report (itemized), Adyen's settlement detail report or PayPal's settlement report,
as CSV. Its lines are held against its own control figures. A file that was read before changes nothing, unless --apply is to do what a
plan showed, some of its lines could not be read, or --zone is another one.

Exit codes: 0 nothing is open, 2 findings are open, 1 it failed, or was called wrongly.`,
		Example: `  paysaga reconcile                                    # what would be done?
  paysaga reconcile --apply
  paysaga reconcile --statement settlement_detail_report_batch_42.csv
  paysaga reconcile report --severity critical
  paysaga reconcile resolve 7a1f0c64-52d8-4c1b-9a0e-2f4b6d8e0c13 --reason 'Booked as a difference.'`,
		Args:        cobra.NoArgs,
		Annotations: map[string]string{wrongCallFails: "yes"},
		RunE:        func(cmd *cobra.Command, _ []string) error { return r.run(cmd) },
	}
	r.dir = addDirFlag(command)
	flags := command.Flags()
	flags.BoolVar(&r.once, "once", true, "do one run and end; there is no other way")
	flags.BoolVar(&r.plan, "plan", false, "find, and say what would be done (the default)")
	flags.BoolVar(&r.apply, "apply", false, "do it, too")
	flags.StringVar(&r.since, "since", "", "compare payments from this time on, such as 2026-11-30 or 2026-11-30T06:00:00Z; by itself from "+
		"where the last run ended, less PAYSAGA_RECONCILE_OVERLAP")
	flags.StringVar(&r.until, "until", "", "and before this time; by itself as far as the providers tell for sure")
	flags.StringArrayVar(&r.providers, "provider", nil, "only this provider; may be repeated")
	flags.StringArrayVar(&r.statements, "statement", nil,
		"read this settlement file instead of the providers' lists, - for standard input; may be repeated")
	flags.StringVar(&r.zone, "zone", "", "time zone of times in a settlement file that stand without one, such as Europe/Amsterdam")
	flags.BoolVar(&r.asJSON, "json", false, "print JSON")
	complete(command, "provider", allProviders())
	command.AddCommand(newReportCommand(r.dir), newShowFindingCommand(r.dir), newResolveFindingCommand(r.dir), newIgnoreFindingCommand(r.dir),
		newRunsCommand(r.dir))
	return command
}

// allProviders are those that there are adapters for.
func allProviders() []string { return strings.Fields("adyen paypal stripe") }

// requests are the runs that the call asks for: one, or one for each settlement file.
func (r *reconciling) requests(cmd *cobra.Command) (requests []reconcile.Request, closeAll func(), err error) {
	request := reconcile.Request{Mode: reconcile.ModePlan, Providers: slices.Sorted(slices.Values(r.providers)), RequestedBy: actor()}
	if r.plan && r.apply {
		return nil, nil, usageError{errors.New("--plan only says what --apply would do: use one of them")}
	}
	if r.apply {
		request.Mode = reconcile.ModeApply
	}
	if request.Since, err = readTime("--since", r.since); err != nil {
		return nil, nil, err
	}
	if request.Until, err = readTime("--until", r.until); err != nil {
		return nil, nil, err
	}
	if !request.Since.IsZero() && !request.Until.IsZero() && !request.Since.Before(request.Until) {
		return nil, nil, usageError{errors.New("--until is not after --since")}
	}
	if request.Since.After(time.Now()) {
		return nil, nil, usageError{errors.New("--since is yet to come")}
	}
	if request.Until.After(time.Now()) {
		fmt.Fprintln(cmd.ErrOrStderr(), "--until is yet to come: compared is as far as the providers tell for sure")
		request.Until = time.Time{}
	}
	if len(r.statements) == 0 {
		return []reconcile.Request{request}, func() {}, nil
	}
	return r.statementRequests(cmd, request)
}

func (r *reconciling) statementRequests(
	cmd *cobra.Command, request reconcile.Request,
) (requests []reconcile.Request, closeAll func(), err error) {
	var options statement.Options
	if len(r.providers) > 1 {
		return nil, nil, usageError{errors.New("a settlement file is one provider's: name one --provider, or none")}
	}
	if len(r.providers) == 1 {
		options.Provider = r.providers[0]
	}
	if r.zone != "" {
		if options.Zone, err = time.LoadLocation(r.zone); err != nil {
			return nil, nil, usageError{fmt.Errorf("--zone: %w", err)}
		}
	}
	var opened []*os.File
	closeAll = func() {
		for _, file := range opened {
			_ = file.Close() // they were only read
		}
	}
	for _, path := range r.statements {
		file, err := openSeekable(cmd.InOrStdin(), path)
		if err != nil {
			closeAll()
			return nil, nil, err
		}
		opened = append(opened, file)
		one := request
		one.Providers = nil // the file tells
		one.Statement = &reconcile.File{Name: path, Content: file, Options: options}
		requests = append(requests, one)
	}
	return requests, closeAll, nil
}

// openSeekable opens a file that is read twice. Standard input is put into one first, which is gone when it is closed.
func openSeekable(in io.Reader, path string) (*os.File, error) {
	if path != "-" {
		file, err := os.Open(path) //nolint:gosec // the caller names it
		if err != nil {
			return nil, fmt.Errorf("--statement: %w", err)
		}
		return file, nil
	}
	file, err := os.CreateTemp("", "paysaga-statement-*.csv")
	if err != nil {
		return nil, fmt.Errorf("keep standard input: %w", err)
	}
	_ = os.Remove(file.Name()) // its content stays until it is closed
	if _, err := io.Copy(file, in); err != nil {
		_ = file.Close()
		return nil, fmt.Errorf("read standard input: %w", err)
	}
	if _, err := file.Seek(0, io.SeekStart); err != nil {
		_ = file.Close()
		return nil, fmt.Errorf("keep standard input: %w", err)
	}
	return file, nil
}

// readTime reads a time, or a day in UTC.
func readTime(flag, text string) (time.Time, error) {
	if text == "" {
		return time.Time{}, nil
	}
	for _, form := range []string{time.RFC3339, time.DateOnly} {
		if at, err := time.Parse(form, text); err == nil {
			return at, nil
		}
	}
	return time.Time{}, usageError{fmt.Errorf("%s %q: write it as 2026-11-30 or 2026-11-30T06:00:00Z", flag, text)}
}

func (r *reconciling) run(cmd *cobra.Command) error {
	if !r.once {
		return usageError{errors.New("--once=false: what reconciles on a schedule is \"paysaga serve\", with PAYSAGA_RECONCILE_SCHEDULE")}
	}
	requests, closeAll, err := r.requests(cmd)
	if err != nil {
		return err
	}
	defer closeAll()
	c, err := loadPart(*r.dir, config.Load)
	if err != nil {
		return err
	}
	logger := newLogger(config.Config{LogFormat: c.LogFormat, LogLevel: max(c.LogLevel, slog.LevelWarn)}) // what was done is printed
	store, err := postgres.Open(cmd.Context(), c.DatabaseURL.Reveal(), reconcileConnections, c.EncryptionKeys)
	if err != nil {
		return err
	}
	defer store.Close()
	if err := checkSchema(cmd.Context(), store); err != nil {
		return err
	}
	if err := checkKeys(cmd.Context(), store); err != nil {
		return err
	}
	c.Reconcile.Account, err = reconcileAccount(cmd.Context(), store, c.Reconcile.Account, slog.New(slog.DiscardHandler)) // a report shows all
	if err != nil {
		return err
	}
	worker, drain, err := newReconcileWorker(cmd.Context(), store, c, logger)
	if err != nil {
		return err
	}
	defer drain()
	for _, provider := range r.providers {
		if !slices.Contains(worker.all, provider) {
			return usageError{fmt.Errorf("--provider %q: the settings have %v", provider, worker.all)}
		}
	}
	return r.runAll(cmd, store, worker, requests)
}

// reconcileConnections: the run itself uses one connection, the sagas that it mends a few more.
const reconcileConnections = 4

// newReconcileWorker makes a worker for a command that ends, and what hands back what it drives.
func newReconcileWorker(
	ctx context.Context, store *postgres.Store, c config.Config, logger *slog.Logger,
) (*reconciler, func(), error) {
	seen, err := newWatch(ctx, logger)
	if err != nil {
		return nil, nil, err
	}
	adapters, err := newProviders(c, seen.telemetry.Transport)
	if err != nil {
		return nil, nil, err
	}
	runner, err := newRunner(store, adapters, c, logger)
	if err != nil {
		return nil, nil, err
	}
	worker, err := newReconciler(store, runner, c, seen.telemetry, logger)
	if err != nil {
		return nil, nil, err
	}
	return worker, func() {
		drained, cancel := context.WithTimeout(context.WithoutCancel(ctx), c.DrainTimeout)
		defer cancel()
		runner.Drain(drained)
		seen.end(drained, logger)
	}, nil
}

// withOutcome reads what became of the findings that are shown.
func (r runReport) withOutcome(ctx context.Context, worker *reconciler) (runReport, error) {
	if r.Run == nil {
		return r, nil
	}
	for i := range r.Findings {
		if !r.applied {
			return r, nil
		}
		id, err := findingID(r.Findings[i].ID)
		if err != nil {
			return r, err
		}
		kept, err := worker.store.ReadFinding(ctx, "", id)
		if err != nil {
			return r, err
		}
		r.Findings[i].findingRow = newFindingRow(kept)
	}
	return r, nil
}

// failure is what a run's error means for the command: a file that was read before is none.
func failure(err error) error {
	switch {
	case errors.Is(err, reconcile.ErrReadBefore):
		return nil
	case errors.Is(err, statement.ErrUnknownFormat):
		return fmt.Errorf("%w: what is read is Stripe's balance or payout report (itemized), Adyen's settlement detail report and PayPal's "+
			"settlement report, as CSV with the header", err)
	}
	return err
}

// runAll does one run after the other. One that fails does not keep the others from being done.
func (r *reconciling) runAll(cmd *cobra.Command, store *postgres.Store, worker *reconciler, requests []reconcile.Request) error {
	var failed []error
	reports := make([]runReport, 0, len(requests))
	for _, request := range requests {
		progress := newStageProgress(cmd.ErrOrStderr())
		result, err := worker.Once(cmd.Context(), request, progress.see)
		progress.end()
		report, unread := newRunReport(request, result, worker.Rules, err).withOutcome(cmd.Context(), worker)
		if unread != nil && cmd.Context().Err() == nil {
			return unread
		}
		reports = append(reports, report)
		if !r.asJSON {
			if err := report.print(cmd.OutOrStdout()); err != nil {
				return err
			}
		}
		if cmd.Context().Err() != nil {
			return fmt.Errorf("ended on the way; the next call goes on: %w", cmd.Context().Err())
		}
		failed = append(failed, failure(err))
	}
	figures, err := store.ReadFindingFigures(cmd.Context())
	if err != nil {
		return err
	}
	var open int64
	for _, one := range figures.Open {
		open += one.Findings
	}
	if r.asJSON {
		err = printJSON(cmd, map[string]any{"runs": reports, "open_findings": open})
	} else {
		err = printOpen(cmd.OutOrStdout(), open, errors.Join(failed...) == nil)
	}
	if err := errors.Join(append(failed, err)...); err != nil {
		return err
	}
	if open > 0 {
		return &foundError{open}
	}
	return nil
}
