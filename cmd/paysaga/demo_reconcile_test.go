package main

import (
	"bytes"
	"slices"
	"strings"
	"testing"

	"github.com/google/uuid"
	"github.com/spf13/cobra"

	"paysaga/providers/sandbox"
	"paysaga/reconcile"
)

// Every kind that there is goes wrong, and every repair is done.
func TestPlantingsAreOfEveryKind(t *testing.T) {
	t.Parallel()
	kinds, repairs := map[reconcile.Kind]bool{}, map[reconcile.Repair]bool{}
	names := map[string]bool{}
	for _, p := range plantings {
		kinds[p.want.kind], repairs[p.want.repair] = true, true
		name := p.Provider + " " + p.What
		if names[name] {
			t.Errorf("%q is planted twice", name)
		}
		names[name] = true
	}
	for _, kind := range reconcile.Kinds() {
		if !kinds[kind] {
			t.Errorf("no %s is planted", kind)
		}
	}
	for _, repair := range reconcile.Repairs() {
		if !repairs[repair] {
			t.Errorf("nothing is planted that is repaired by %s", repair)
		}
	}
}

// The whole demo, with the processes that it starts.
func TestDemoReconcile(t *testing.T) {
	t.Parallel()
	dir := openFolder(t)
	var out, errOut bytes.Buffer
	command := &cobra.Command{}
	command.SetOut(&out)
	command.SetErr(&errOut)
	command.SetContext(t.Context())
	err := demoReconcile(command, reconcileDemoOptions{dir: dir, asJSON: true, environ: []string{asProgram + "=1"}})
	report := readJSON[reconcileReport](t, out.String())
	if err != nil || !report.OK {
		t.Errorf("%v\n%s", err, errOut.String())
	}
	if len(report.Planted) != len(plantings) {
		t.Errorf("%d of %d things are told", len(report.Planted), len(plantings))
	}
	for _, p := range report.Planted {
		if !p.OK || p.Kind == "" || p.Detail == "" {
			t.Errorf("%s: found as %q: %q %q", p.name(), p.Kind, p.Detail, p.Problems)
		}
	}
	if len(report.Table) == 0 || apiKeyForm.MatchString(out.String()+errOut.String()) {
		t.Errorf("nothing was compared, or an API key is told:\n%s", out.String())
	}
}

func TestDemoReconcileCalls(t *testing.T) {
	t.Parallel()
	paysaga(t, nil, "demo", "reconcile", "more").refused(t, exitUsage, "unknown command")
	if help := paysaga(t, nil, "demo", "reconcile", "--help").wellDone(t); !strings.Contains(help, "--apply") {
		t.Errorf("help: %s", help)
	}
}

const strayID = "11111111-2222-5333-8444-555555555555"

// mendedFinding is one that fits the planting "stands as declined, and is paid".
func mendedFinding() reconcile.Kept {
	return reconcile.Kept{
		Open: reconcile.Open{Finding: reconcile.Finding{
			Kind: reconcile.StatusMismatch, Severity: reconcile.Critical, Provider: atStripe, Repair: reconcile.RepairUndo, OrderID: uuid.MustParse(paidID),
		}},
		State: reconcile.FindingResolved, Resolution: reconcile.ResolutionRepaired,
	}
}

func plantedForTest() *planted {
	p := &planted{planting: planting{Provider: atStripe, What: "declined, and paid", want: wantUndone}}
	p.charge = sandbox.Charge{Provider: atStripe, ID: "pi_1", Reference: paidID}
	return p
}

func TestPlantedIsJudged(t *testing.T) {
	t.Parallel()
	if p := plantedForTest(); !p.isFoundAs(mendedFinding()) {
		t.Error("the right finding is not the one")
	} else if p.judge(mendedFinding()); len(p.Problems) > 0 || !p.Mended {
		t.Errorf("the right finding is wrong: %q", p.Problems)
	}
	for name, wrong := range map[string]struct {
		change func(f *reconcile.Kept)
		words  string
	}{
		"of another severity": {func(f *reconcile.Kept) { f.Severity = reconcile.Low }, "it is low, not critical"},
		"of another repair":   {func(f *reconcile.Kept) { f.Repair = reconcile.RepairReview }, `what mends it is "review", not "undo"`},
		"left open":           {func(f *reconcile.Kept) { f.State, f.Resolution, f.Note = reconcile.FindingOpen, "", "refused" }, "it is open : refused"},
		"gone by itself":      {func(f *reconcile.Kept) { f.Resolution = reconcile.ResolutionHealed }, "it is resolved healed"},
	} {
		p, f := plantedForTest(), mendedFinding()
		wrong.change(&f)
		p.judge(f)
		if all := strings.Join(p.Problems, "\n"); !strings.Contains(all, wrong.words) {
			t.Errorf("%s: problems %q, want %q among them", name, all, wrong.words)
		}
		if err := (reconcileReport{Planted: []*planted{p}}).verdict(); err == nil {
			t.Errorf("%s: the verdict is good", name)
		}
	}
	for name, change := range map[string]func(f *reconcile.Kept){
		"of another kind":     func(f *reconcile.Kept) { f.Kind = reconcile.AmountMismatch },
		"of another provider": func(f *reconcile.Kept) { f.Provider = atAdyen },
		"of another order":    func(f *reconcile.Kept) { f.OrderID = uuid.MustParse(strayID) },
	} {
		f := mendedFinding()
		change(&f)
		if plantedForTest().isFoundAs(f) {
			t.Errorf("a finding %s is taken for the one", name)
		}
	}
}

func TestRunsAndLedgersAreCompared(t *testing.T) {
	t.Parallel()
	charges := func(change func(c *sandbox.Charge)) []sandbox.Charge {
		all := []sandbox.Charge{{Provider: atStripe, ID: "pi_1", Captured: 3998, Calls: 1}, {Provider: atStripe, ID: "pi_2", Captured: 1999, Calls: 1}}
		change(&all[0])
		return all
	}
	untouched := charges(func(*sandbox.Charge) {})
	tour := &reconcileTour{planted: []*planted{{planting: planting{back: 1000}}}}
	given := func(amount int64) []sandbox.Charge { return charges(func(c *sandbox.Charge) { c.Refunded = amount }) }
	tables := map[string][]string{"orders": {"a", "b"}, "sagas": {"c"}}
	for name, test := range map[string]struct {
		checks []check
		words  string // empty: all holds
	}{
		"as it should be":       {tour.compareLedgers(untouched, given(1000)), ""},
		"given back too much":   {tour.compareLedgers(untouched, given(2000)), "20.00 EUR given back by repairs, 10.00 EUR"},
		"nothing given back":    {tour.compareLedgers(untouched, untouched), "0.00 EUR given back by repairs"},
		"more than was taken":   {tour.compareLedgers(given(3000), given(4000)), "pi_1 of stripe has 4000 refunded of 3998"},
		"charged once more":     {tour.compareLedgers(untouched, charges(func(c *sandbox.Charge) { c.Captured, c.Refunded = 4000, 1000 })), "after all repairs"},
		"another payment":       {tour.compareLedgers(untouched[:1], given(1000)), "2 after all repairs"},
		"nothing done again":    {compareAgain(tables, tables, untouched, untouched), ""},
		"a row changed":         {compareAgain(tables, map[string][]string{"orders": {"a", "x"}, "sagas": {"c"}}, untouched, untouched), "of orders: x"},
		"a row is gone":         {compareAgain(tables, map[string][]string{"orders": {"a"}, "sagas": {"c"}}, untouched, untouched), "of orders 1 rows are gone"},
		"a call was made again": {compareAgain(tables, tables, untouched, charges(func(c *sandbox.Charge) { c.Calls = 2 })), "3 after it"},
	} {
		var problems []string
		for _, c := range test.checks {
			problems = append(problems, c.Problems...)
		}
		all := strings.Join(problems, "\n")
		if test.words == "" && all != "" || !strings.Contains(all, test.words) {
			t.Errorf("%s: problems %q, want %q", name, all, test.words)
		}
	}
}

func TestSpoiledLine(t *testing.T) {
	t.Parallel()
	file := "\"RH\",\"x\"\n\"SB\",\"1\",\"2\",\"3\",\"4\",\"5\"\n\"SB\",\"6\",\"7\"\n"
	spoiled, err := spoilLine([]byte(file))
	lines := slices.Collect(strings.Lines(string(spoiled)))
	if err != nil || len(lines) != 4 || lines[1] != "\"SB\",\"1\",\"2\",\"3\"\n" || strings.Replace(string(spoiled), lines[1], "", 1) != file {
		t.Errorf("%q, %v", spoiled, err)
	}
	if _, err := spoilLine([]byte("\"RH\"\n")); err == nil {
		t.Error("a file without lines is spoiled")
	}
}
