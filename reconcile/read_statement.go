package reconcile

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"
	"time"

	"paysaga/providers"
	"paysaga/reconcile/statement"
)

// lineBatch is how many lines are written at a time.
const lineBatch = 2000

// beginStatement begins a run about a settlement file, which is known by its content: one that was read and held against the payments
// before is not, unless it is to be read otherwise.
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
	kept, err := w.Store.OpenStatement(ctx, provider, file.Name, [sha256.Size]byte(hash.Sum(nil)))
	if err != nil {
		return run, err
	}
	if kept.isReconciled(run.Mode) && !file.readsAnew(kept) {
		return run, ErrReadBefore
	}
	run.Providers, run.StatementID = []string{provider}, kept.ID
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

// isReconciled tells that a run about the file has done what one of this mode would. A plan can be applied; what was applied is planned
// no more.
func (k KeptStatement) isReconciled(mode Mode) bool {
	return k.IsRead && (slices.Contains(k.Reconciled, mode) || slices.Contains(k.Reconciled, ModeApply))
}

// inAnotherZone tells that the file is to be read by another time zone than before. Where none is told, the one before holds.
func (f *File) inAnotherZone(kept KeptStatement) bool {
	return f.Options.Zone != nil && f.Options.Zone.String() != kept.Zone
}

// readsAnew tells that reading the file once more may come to something else: in another zone; or some lines could not be read, which the
// next version may.
func (f *File) readsAnew(kept KeptStatement) bool {
	return f.inAnotherZone(kept) || kept.Report.Malformed > 0
}

// openKept looks how the run's file stands now that nobody else works on it. One that goes on behind the file's end goes back where the
// file is to be read otherwise, or another run has begun to.
func (o *once) openKept(ctx context.Context) (err error) {
	file := o.request.Statement
	if file == nil {
		return nil
	}
	if file.kept, err = o.Store.ReadStatement(ctx, o.run.StatementID); err != nil {
		return err
	}
	if o.run.Stage == StageList {
		return nil
	}
	if file.kept.IsRead && !file.inAnotherZone(file.kept) {
		o.result.Statement = &file.kept.Report
		return nil
	}
	o.run.Stage, o.run.Cursor = StageList, ""
	o.run.Totals.Payments, o.run.Totals.Unclaimed = 0, 0
	return nil
}

// readStatement keeps a settlement file's lines, unless all of them are kept already. A run that goes on reads it from the beginning, as
// its sums need all of it, and keeps what is not kept yet.
func (o *once) readStatement(ctx context.Context) error {
	file := o.request.Statement
	if file.kept.IsRead && !file.readsAnew(file.kept) {
		return o.judgeStatement(ctx, file.kept.Report)
	}
	reader, err := o.startReading(ctx)
	if err != nil {
		return err
	}
	if err := o.keepLines(ctx, reader); err != nil {
		return err
	}
	report, err := o.Store.CloseStatement(ctx, o.run, reader.Report())
	if err != nil {
		return err
	}
	return o.judgeStatement(ctx, report)
}

// keepLines reads the file to its end, and keeps what is not kept yet, batch by batch.
func (o *once) keepLines(ctx context.Context, reader *statement.Reader) error {
	file := o.request.Statement
	o.run.Totals.Lines, o.run.Totals.Malformed = 0, 0
	batch := make([]statement.Line, 0, lineBatch)
	for ended := false; !ended; {
		line, err := reader.Next()
		switch {
		case err == nil && line.Number <= file.kept.ReadTo:
			o.run.Totals.Lines++
		case err == nil:
			batch = append(batch, line)
		case errors.Is(err, io.EOF):
			ended = true
		default:
			return fmt.Errorf("%s: %w", file.Name, err)
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
	return nil
}

// startReading opens the file where its reading stands: at its beginning, where it was read to its end before, or in another zone.
func (o *once) startReading(ctx context.Context) (*statement.Reader, error) {
	file := o.request.Statement
	if file.Options.Zone == nil && file.kept.Zone != "" {
		zone, err := time.LoadLocation(file.kept.Zone)
		if err != nil {
			return nil, fmt.Errorf("time zone of %s: %w", file.Name, err)
		}
		file.Options.Zone = zone
	}
	if file.kept.IsRead || file.inAnotherZone(file.kept) {
		zone := ""
		if file.Options.Zone != nil {
			zone = file.Options.Zone.String()
		}
		if err := o.Store.RestartStatement(ctx, o.run, zone); err != nil {
			return nil, err
		}
		file.kept.ReadTo = 0
	}
	return openStatement(file)
}

// judgeStatement looks at what a file that is read came to: a finding where it does not add up.
func (o *once) judgeStatement(ctx context.Context, report statement.Report) error {
	o.result.Statement = &report
	o.run.Totals.Lines, o.run.Totals.Malformed = report.Lines, report.Malformed
	judged := Judged{Unclaimed: []Provided{{Provider: report.Provider, Reference: o.fileReference()}}}
	if finding, ok := matchStatement(o.request.Statement.kept.Name, report); ok {
		finding.AccountID, finding.Reference = o.Account, o.fileReference()
		judged.Found = []Finding{finding}
	}
	if err := o.keep(ctx, judged); err != nil {
		return err
	}
	return o.next(ctx, StageMatch)
}

func (o *once) fileReference() string {
	return ReferenceStatement + strconv.FormatInt(o.run.StatementID, 10)
}

// mostControls is how many figures that do not hold are told in one sentence each: a person reads no more.
const mostControls = 3

// matchStatement: a settlement file adds up, and all of it can be read.
func matchStatement(name string, report statement.Report) (Finding, bool) {
	finding := Finding{Kind: StatementMismatch, Severity: High, Provider: report.Provider, There: Facts{Source: sourceStatement}}
	var sentences []string
	wrong := 0
	for _, control := range report.Controls {
		if control.Holds() {
			continue
		}
		if wrong++; wrong <= mostControls {
			sentences = append(sentences, fmt.Sprintf("The file's %s is %s, its lines come to %s.",
				control.Name, figure(control.Told, control.Currency), figure(control.Counted, control.Currency)))
		}
	}
	if wrong > mostControls {
		sentences = append(sentences, fmt.Sprintf("Of its other figures %d do not hold either.", wrong-mostControls))
	}
	if report.Malformed > 0 {
		sentences = append(sentences, fmt.Sprintf("Lines that cannot be read: %d, the first is line %d. %s",
			report.Malformed, report.Faults[0].Number, report.Faults[0].Sentence()))
	}
	if len(sentences) == 0 {
		return Finding{}, false
	}
	finding.Detail = fmt.Sprintf("Settlement file %s: %s", name, strings.Join(sentences, " "))
	return finding, true
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
