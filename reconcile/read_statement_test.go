package reconcile

import (
	"testing"

	"paysaga/reconcile/statement"
)

// A file that does not add up is told in money, as people read it; one that does is no finding.
func TestMatchStatement(t *testing.T) {
	t.Parallel()
	report := statement.Report{Provider: "adyen", Controls: []statement.Control{
		{Name: "closing balance", Currency: "EUR", Told: -150, Counted: 1299},
		{Name: "lines", Told: 3, Counted: 2},
		{Name: "payout", Currency: "EUR", Told: 7, Counted: 7},
	}, Malformed: 2, Faults: []statement.Fault{{Number: 5}}}
	found, ok := matchStatement(report)
	want := "The file's closing balance is -1.50 EUR, its lines come to 12.99 EUR. The file's lines is 3, its lines come to 2. " +
		"Lines that cannot be read: 2, the first is line 5."
	if !ok || found.Kind != StatementMismatch || found.Detail != want {
		t.Errorf("%t %s %q, want %q", ok, found.Kind, found.Detail, want)
	}
	if found, ok := matchStatement(statement.Report{Controls: report.Controls[2:]}); ok {
		t.Errorf("found %+v", found)
	}
}
