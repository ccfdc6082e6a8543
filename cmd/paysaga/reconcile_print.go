package main

import (
	"cmp"
	"errors"
	"fmt"
	"io"
	"maps"
	"slices"
	"strconv"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/google/uuid"
	"github.com/schollz/progressbar/v3"

	"paysaga/providers"
	"paysaga/reconcile"
	"paysaga/reconcile/statement"
)

// stageProgress shows how far a run is, on a terminal. How much there is nobody knows before.
type stageProgress struct {
	out   io.Writer
	bar   *progressbar.ProgressBar
	stage reconcile.Stage
}

func newStageProgress(out io.Writer) *stageProgress { return &stageProgress{out: out} }

// stages are what is done in each, and what is counted.
var stages = map[reconcile.Stage]string{
	reconcile.StageList: "reading what the providers tell", reconcile.StageMatch: "comparing our payments",
	reconcile.StageUnclaimed: "looking at what no order knows", reconcile.StageRepair: "mending",
}

func (p *stageProgress) see(run reconcile.Run) {
	if !isTerminal(p.out) {
		return
	}
	if run.Stage != p.stage || p.bar == nil {
		p.end()
		what, known := stages[run.Stage]
		if !known {
			return
		}
		p.stage = run.Stage
		p.bar = progressbar.NewOptions64(-1, progressbar.OptionSetWriter(p.out), progressbar.OptionSetDescription("    "+what),
			progressbar.OptionShowCount(), progressbar.OptionClearOnFinish(), progressbar.OptionThrottle(100*time.Millisecond))
	}
	_ = p.bar.Set64(countOf(run)) // a bar that cannot be drawn is no reason to stop
}

// countOf is what a stage counts.
func countOf(run reconcile.Run) int64 {
	switch run.Stage {
	case reconcile.StageList:
		return run.Totals.Transactions + run.Totals.Lines
	case reconcile.StageMatch:
		return run.Totals.Payments
	case reconcile.StageUnclaimed:
		return run.Totals.Unclaimed
	default:
		return run.Totals.Repaired + run.Totals.Refused
	}
}

func (p *stageProgress) end() {
	if p.bar != nil {
		_ = p.bar.Finish() // as above
		p.bar = nil
	}
}

// runReport is what a run came to, as it is printed.
type runReport struct {
	Run       *runRow           `json:"run,omitempty"`
	File      string            `json:"file,omitempty"`
	ReadAlong bool              `json:"read_before,omitempty"`
	Error     string            `json:"error,omitempty"`
	Statement *statement.Report `json:"statement,omitempty"`
	Plan      []planRow         `json:"plan"`
	Moves     map[string]int64  `json:"money_of_repairs"`
	Findings  []planned         `json:"findings"`
	More      int64             `json:"more_findings,omitempty"`

	applied bool
	exceeds []reconcile.Exceeded
}

// planRow is a repair with the findings that it is for.
type planRow struct {
	Repair   string           `json:"repair"` // "" is left to people
	What     string           `json:"what"`
	Findings int64            `json:"findings"`
	AtStake  map[string]int64 `json:"at_stake"` // by currency, in minor units
}

// planned is a finding, with what is to be done about it.
type planned struct {
	findingRow

	Do  string `json:"do"` // "" is left to people
	Why string `json:"why"`
}

// repairsInWords say what would change.
var repairsInWords = map[reconcile.Repair]string{
	reconcile.RepairNone:            "left to people",
	reconcile.RepairComplete:        "the provider has the money: complete the waiting order",
	reconcile.RepairUndo:            "the order was given up: let go of its money, or give it back, once",
	reconcile.RepairRecordRefund:    "write down what the provider gave back",
	reconcile.RepairRelease:         "free the stock that is held for nothing",
	reconcile.RepairLetGo:           "the hold is over: give the waiting order up",
	reconcile.RepairResume:          "have the order or refund go on",
	reconcile.RepairApplyWebhook:    "bring the provider's event to its order once more",
	reconcile.RepairReview:          "stop the order where it stands, for a person",
	reconcile.RepairRefundDuplicate: "give back what was taken twice",
}

func newRunReport(request reconcile.Request, result reconcile.Result, rules reconcile.Rules, err error) runReport {
	report := runReport{
		Statement: result.Statement, Moves: result.Plan.Money, Plan: []planRow{}, Findings: []planned{},
		applied: request.Mode == reconcile.ModeApply, exceeds: result.Plan.Exceeds,
	}
	if request.Statement != nil {
		report.File = request.Statement.Name
	}
	if result.Run.ID != uuid.Nil {
		row := newRunRow(result.Run)
		report.Run = &row
	}
	if errors.Is(err, reconcile.ErrReadBefore) {
		report.ReadAlong = true
	} else if err != nil {
		report.Error = err.Error()
	}
	var all int64
	for _, repair := range append(reconcile.Repairs(), reconcile.RepairNone) {
		if sum, there := result.Plan.Repairs[repair]; there {
			report.Plan = append(report.Plan, planRow{string(repair), repairsInWords[repair], sum.Findings, sum.AtStake})
			all += sum.Findings
		}
	}
	for _, open := range result.Open {
		verdict := rules.Judge(open.Finding)
		report.Findings = append(report.Findings, planned{newOpenRow(open), string(verdict.Repair), verdict.Reason})
	}
	report.More = all - int64(len(result.Open))
	return report
}

func (r runReport) print(out io.Writer) error {
	if r.File != "" {
		fmt.Fprintln(out, "file", r.File)
	}
	if r.ReadAlong {
		_, err := fmt.Fprintln(out, "it was read before, and held against the payments: nothing changes")
		return err //nolint:wrapcheck // standard output
	}
	if r.Statement != nil {
		if err := printStatement(out, *r.Statement); err != nil {
			return err
		}
	}
	if r.Run == nil {
		return nil
	}
	t := r.Run.Totals
	fmt.Fprintf(out, "run %s, %s, of %s: %s\n", r.Run.ID, r.Run.Mode, strings.Join(r.Run.Providers, ", "), r.Run.State)
	if r.Run.Reason != "" {
		fmt.Fprintln(out, "  why:", r.Run.Reason)
	}
	fmt.Fprintf(out, "read: %d transactions, %d lines; compared: %d payments; known to no order: %d\n", t.Transactions, t.Lines, t.Payments,
		t.Unclaimed)
	for _, provider := range slices.Sorted(maps.Keys(t.Listed)) {
		so, behind := t.Listed[provider], ""
		if so.Behind {
			behind = ": its list is behind"
		}
		fmt.Fprintf(out, "  %s was read from %s up to %s%s\n", provider, moment(so.From), moment(so.Until), behind)
	}
	fmt.Fprintf(out, "findings: %d new, %d seen again, %d gone by themselves\n", t.Opened, t.SeenAgain, t.Healed)
	if r.applied {
		fmt.Fprintf(out, "mended, or stopped for a person: %d, refused: %d, money that they are about: %s\n",
			t.Repaired, t.Refused, sums(t.Moved))
	}
	if err := r.printPlan(out); err != nil {
		return err
	}
	return r.printFindings(out)
}

// printPlan tells the sums, by what is to be done.
func (r runReport) printPlan(out io.Writer) error {
	if len(r.Plan) == 0 {
		return nil
	}
	title := "WOULD BE DONE"
	if r.applied {
		title = "WAS TO BE DONE"
	}
	table := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	fmt.Fprintf(table, "\n%s\tFINDINGS\tMONEY\tTHAT IS\n", title)
	for _, row := range r.Plan {
		fmt.Fprintf(table, "%s\t%d\t%s\t%s\n", cmp.Or(row.Repair, "-"), row.Findings, sums(row.AtStake), row.What)
	}
	if err := table.Flush(); err != nil {
		return err //nolint:wrapcheck // standard output
	}
	fmt.Fprintf(out, "money of all repairs: %s\n", sums(r.Moves))
	for _, exceeded := range r.exceeds {
		fmt.Fprintf(out, "above the limit of a run, so nothing is done: %s\n", exceeded.Sentence())
	}
	return nil
}

func (r runReport) printFindings(out io.Writer) error {
	if len(r.Findings) == 0 {
		return nil
	}
	title := "DO"
	if r.applied {
		title = "DID"
	}
	table := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	fmt.Fprintf(table, "\nFINDING\tKIND\tSEVERITY\tPROVIDER\tORDER\tMONEY\t%s\tWHAT, AND WHY SO\n", title)
	for _, f := range r.Findings {
		did := cmp.Or(f.Do, "-")
		if r.applied && f.Do != "" {
			did = f.outcome()
		}
		fmt.Fprintf(table, "%s\t%s\t%s\t%s\t%s\t%s\t%s\t%s\n", f.ID, f.Kind, f.Severity, cmp.Or(f.Provider, "-"), cmp.Or(f.OrderID, "-"),
			f.money(), did, strings.TrimSpace(f.Detail+" "+f.Why))
	}
	if err := table.Flush(); err != nil {
		return err //nolint:wrapcheck // standard output
	}
	if r.More > 0 {
		fmt.Fprintf(out, "and %d more: paysaga reconcile report\n", r.More)
	}
	return nil
}

// printStatement tells what a settlement file came to: its sums, its own figures, and what could not be read.
func printStatement(out io.Writer, s statement.Report) error {
	fmt.Fprintf(out, "%s, %d lines", s.Format, s.Lines)
	if !s.From.IsZero() {
		fmt.Fprintf(out, ", booked from %s to %s", s.From.Format(time.RFC3339), s.Until.Format(time.RFC3339))
	}
	fmt.Fprintln(out)
	table := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	for _, currency := range slices.Sorted(maps.Keys(s.Totals)) {
		total := s.Totals[currency]
		fmt.Fprintf(table, "total\tgross %s\tfee %s\tnet %s\n", signed(total.Gross, currency), signed(total.Fee, currency),
			signed(total.Net, currency))
	}
	for _, control := range s.Controls {
		verdict := "holds"
		if !control.Holds() {
			verdict = "DOES NOT HOLD"
		}
		fmt.Fprintf(table, "%s\tof the file %s\tof its lines %s\t%s\n", control.Name, signed(control.Told, control.Currency),
			signed(control.Counted, control.Currency), verdict)
	}
	if err := table.Flush(); err != nil {
		return err //nolint:wrapcheck // standard output
	}
	if s.Malformed > 0 {
		fmt.Fprintf(out, "%d lines cannot be read:\n", s.Malformed)
	}
	for _, fault := range s.Faults {
		fmt.Fprintf(out, "  line %d %s\n", fault.Number, fault.Sentence())
	}
	if more := s.Malformed - int64(len(s.Faults)); more > 0 {
		fmt.Fprintf(out, "  and %d more\n", more)
	}
	return nil
}

// printOpen tells how much is open; where not all was compared, nothing that is open says little.
func printOpen(out io.Writer, open int64, whole bool) error {
	text := "nothing is open"
	switch {
	case open > 0:
		text = fmt.Sprintf("findings that are open: %d; see paysaga reconcile report", open)
	case !whole:
		text = "not all was compared, and of what was found before nothing is open"
	}
	_, err := fmt.Fprintln(out, "\n"+text)
	return err //nolint:wrapcheck // standard output
}

// sums are amounts by currency, as people read them.
func sums(byCurrency map[string]int64) string {
	texts := make([]string, 0, len(byCurrency))
	for _, currency := range slices.Sorted(maps.Keys(byCurrency)) {
		texts = append(texts, providers.Money{Amount: byCurrency[currency], Currency: currency}.String())
	}
	return cmp.Or(strings.Join(texts, ", "), "none")
}

// signed is an amount that may be negative; without a currency it is a count.
func signed(amount int64, currency string) string {
	if currency == "" {
		return strconv.FormatInt(amount, 10)
	}
	if amount < 0 {
		return "-" + providers.Money{Amount: -amount, Currency: currency}.String()
	}
	return providers.Money{Amount: amount, Currency: currency}.String()
}
