package reconcile

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"strconv"
	"strings"

	"paysaga/providers"
	"paysaga/reconcile/statement"
)

// lineBatch is how many lines are written at a time.
const lineBatch = 2000

// beginStatement begins a run about a settlement file, whose content tells whether it was read before.
func (w *Worker) beginStatement(ctx context.Context, run Run, file *File) (Run, error) {
	if _, err := file.Content.Seek(0, io.SeekStart); err != nil {
		return run, fmt.Errorf("read %s: %w", file.Name, err)
	}
	hash := sha256.New()
	if _, err := io.Copy(hash, file.Content); err != nil {
		return run, fmt.Errorf("read %s: %w", file.Name, err)
	}
	reader, err := openStatement(file)
	if err != nil {
		return run, err
	}
	provider := reader.Report().Provider
	id, readTo, err := w.Store.OpenStatement(ctx, provider, file.Name, [sha256.Size]byte(hash.Sum(nil)))
	if err != nil {
		return run, err
	}
	run.Providers, run.StatementID, file.readTo = []string{provider}, id, readTo
	return w.Store.BeginRun(ctx, run, w.Lease)
}

func openStatement(file *File) (*statement.Reader, error) {
	if _, err := file.Content.Seek(0, io.SeekStart); err != nil {
		return nil, fmt.Errorf("read %s: %w", file.Name, err)
	}
	reader, err := statement.Open(file.Content, file.Options)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", file.Name, err)
	}
	return reader, nil
}

// readStatement keeps a settlement file's lines. A run that goes on reads it from the beginning, as its sums need all of it, and keeps
// what is not kept yet.
func (o *once) readStatement(ctx context.Context) error {
	reader, err := openStatement(o.request.Statement)
	if err != nil {
		return err
	}
	o.run.Totals.Lines, o.run.Totals.Malformed = 0, 0
	batch := make([]statement.Line, 0, lineBatch)
	for ended := false; !ended; {
		line, err := reader.Next()
		switch {
		case err == nil && line.Number < o.request.Statement.readTo:
			o.run.Totals.Lines++
		case err == nil:
			batch = append(batch, line)
		case errors.Is(err, io.EOF):
			ended = true
		default:
			return fmt.Errorf("%s: %w", o.request.Statement.Name, err)
		}
		if len(batch) < lineBatch && !ended {
			continue
		}
		if err := o.Store.PutLines(ctx, o.run, reader.Report().Provider, batch); err != nil {
			return err
		}
		o.run.Totals.Lines += int64(len(batch))
		batch = batch[:0]
		if err := o.save(ctx); err != nil {
			return err
		}
	}
	return o.closeStatement(ctx, reader.Report())
}

// closeStatement notes what the file came to, and a finding where it does not add up.
func (o *once) closeStatement(ctx context.Context, report statement.Report) error {
	o.result.Statement = &report
	o.run.Totals.Malformed = report.Malformed
	if err := o.Store.CloseStatement(ctx, o.run, report); err != nil {
		return err
	}
	judged := Judged{Unclaimed: []Provided{{Provider: report.Provider, Reference: o.fileReference()}}}
	if finding, ok := matchStatement(report); ok {
		finding.AccountID, finding.Reference = o.Account, o.fileReference()
		judged.Found = []Finding{finding}
	}
	if err := o.keep(ctx, judged); err != nil {
		return err
	}
	return o.next(ctx, StageMatch)
}

func (o *once) fileReference() string { return fmt.Sprintf("statement %d", o.run.StatementID) }

// matchStatement: a settlement file adds up, and all of it can be read.
func matchStatement(report statement.Report) (Finding, bool) {
	finding := Finding{Kind: StatementMismatch, Severity: High, Provider: report.Provider, There: Facts{Source: sourceStatement}}
	var sentences []string
	for _, control := range report.Controls {
		if control.Holds() {
			continue
		}
		sentences = append(sentences, fmt.Sprintf("The file's %s is %s, its lines come to %s.",
			control.Name, figure(control.Told, control.Currency), figure(control.Counted, control.Currency)))
	}
	if report.Malformed > 0 {
		sentences = append(sentences, fmt.Sprintf("Lines that cannot be read: %d, the first is line %d.",
			report.Malformed, report.Faults[0].Number))
	}
	finding.Detail = strings.Join(sentences, " ")
	return finding, finding.Detail != ""
}

// figure is one of a file's own figures, for people: an amount, which can be below zero, or without a currency a count.
func figure(told int64, currency string) string {
	switch {
	case currency == "":
		return strconv.FormatInt(told, 10)
	case told < 0:
		return "-" + providers.Money{Amount: -told, Currency: currency}.String()
	}
	return providers.Money{Amount: told, Currency: currency}.String()
}
