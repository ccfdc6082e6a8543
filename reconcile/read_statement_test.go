package reconcile

import (
	"context"
	"crypto/sha256"
	"errors"
	"io"
	"strings"
	"testing"
	"time"

	"paysaga/reconcile/statement"
)

// A file that does not add up is told in money, as people read it; one that does is no finding.
func TestMatchStatement(t *testing.T) {
	t.Parallel()
	report := statement.Report{Provider: "adyen", Controls: []statement.Control{
		{Name: "closing balance", Currency: "EUR", Told: -150, Counted: 1299},
		{Name: "lines", Told: 3, Counted: 2},
		{Name: "payout", Currency: "EUR", Told: 7, Counted: 7},
	}, Malformed: 2, Faults: []statement.Fault{{Number: 5, Column: "Net", Reason: "The field is no amount."}}}
	found, ok := matchStatement("march.csv", report)
	want := "Settlement file march.csv: The file's closing balance is -1.50 EUR, its lines come to 12.99 EUR. The file's lines is 3, its lines come to 2. " +
		"Lines that cannot be read: 2, the first is line 5. Net: The field is no amount."
	if !ok || found.Kind != StatementMismatch || found.Detail != want {
		t.Errorf("%t %s %q, want %q", ok, found.Kind, found.Detail, want)
	}
	if found, ok := matchStatement("march.csv", statement.Report{Controls: report.Controls[2:]}); ok {
		t.Errorf("found %+v", found)
	}
}

// fileStore notes by which content it was asked for a file.
type fileStore struct {
	Store

	digests [][32]byte
	kept    KeptStatement
}

func (s *fileStore) OpenStatement(_ context.Context, _, _ string, digest [32]byte) (KeptStatement, error) {
	s.digests = append(s.digests, digest)
	return s.kept, nil
}

func (*fileStore) BeginRun(_ context.Context, run Run, _ time.Duration) (Run, error) { return run, nil }

// A file is known by all of its content, wherever its reader stands: what was written to it just now stands at its end.
func TestStatementIsKnownByItsContent(t *testing.T) {
	t.Parallel()
	store := &fileStore{}
	worker := &Worker{Config{Store: store, Lease: time.Minute}}
	for i, amount := range []string{"10.00", "43.00"} {
		content := "balance_transaction_id,created_utc,available_on_utc,currency,gross,fee,net,reporting_category,source_id\n" +
			"txn_1,2026-11-30 09:00:00,2026-12-02 00:00:00,eur," + amount + ",0.00," + amount + ",charge,ch_1\n"
		reader := strings.NewReader(content)
		if _, err := reader.Seek(0, io.SeekEnd); err != nil {
			t.Fatal(err)
		}
		if _, err := worker.beginStatement(t.Context(), Run{}, &File{Name: "-", Content: reader}); err != nil {
			t.Fatal(err)
		}
		if want := sha256.Sum256([]byte(content)); store.digests[i] != want {
			t.Errorf("file of %s: digest %x, want %x", amount, store.digests[i], want)
		}
	}
}

// A file is begun again unless a run has done with it what this one would, and reading it once more comes to the same.
func TestStatementThatWasReadBefore(t *testing.T) {
	t.Parallel()
	vienna, err := time.LoadLocation("Europe/Vienna")
	if err != nil {
		t.Fatal(err)
	}
	const planned, applied = ModePlan, ModeApply
	for name, one := range map[string]struct {
		kept KeptStatement
		mode Mode
		zone *time.Location
		want error
	}{
		"half read":                    {kept: KeptStatement{}, mode: planned},
		"read, and its run was killed": {kept: KeptStatement{IsRead: true}, mode: planned},
		"planned, to be planned":       {kept: KeptStatement{IsRead: true, Reconciled: []Mode{planned}}, mode: planned, want: ErrReadBefore},
		"planned, to be applied":       {kept: KeptStatement{IsRead: true, Reconciled: []Mode{planned}}, mode: applied},
		"applied, to be planned":       {kept: KeptStatement{IsRead: true, Reconciled: []Mode{applied}}, mode: planned, want: ErrReadBefore},
		"applied, to be applied":       {kept: KeptStatement{IsRead: true, Reconciled: []Mode{planned, applied}}, mode: applied, want: ErrReadBefore},
		"in another zone":              {kept: KeptStatement{IsRead: true, Reconciled: []Mode{applied}}, mode: planned, zone: vienna},
		"in the same zone": {
			kept: KeptStatement{IsRead: true, Reconciled: []Mode{applied}, Zone: "Europe/Vienna"}, mode: planned, zone: vienna, want: ErrReadBefore,
		},
		"in the zone of before": {
			kept: KeptStatement{IsRead: true, Reconciled: []Mode{applied}, Zone: "Europe/Vienna"}, mode: planned, want: ErrReadBefore,
		},
		"with lines that could not be read": {
			kept: KeptStatement{IsRead: true, Reconciled: []Mode{applied}, Report: statement.Report{Malformed: 1}}, mode: applied,
		},
	} {
		worker := &Worker{Config{Store: &fileStore{kept: one.kept}, Lease: time.Minute}}
		content := "balance_transaction_id,created,currency,gross,fee,net,reporting_category\n"
		file := &File{Name: "a.csv", Content: strings.NewReader(content), Options: statement.Options{Zone: one.zone}}
		if _, err := worker.beginStatement(t.Context(), Run{Mode: one.mode}, file); !errors.Is(err, one.want) {
			t.Errorf("%s: %v, want %v", name, err, one.want)
		}
	}
}
