package main

import (
	"encoding/csv"
	"io"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/uuid"

	"paysaga/internal/pgdev/pgtest"
	"paysaga/providers"
	"paysaga/reconcile"
	"paysaga/reconcile/statement"
)

// plantOrphan has a completed order hold its stock again, as a server of another make might leave it.
const plantOrphan = `
	WITH held AS (
		UPDATE reservations SET status = 'held', ended_at = NULL WHERE saga_key = $1 RETURNING account_id, sku, quantity)
	UPDATE stock s SET reserved = s.reserved + held.quantity, on_hand = s.on_hand + held.quantity FROM held
	WHERE s.account_id = held.account_id AND s.sku = held.sku`

type reconciledRun struct {
	Run  runRow
	Plan []planRow
}

type reconciled struct {
	Runs []reconciledRun
	Open int64 `json:"open_findings"`
}

// On a running dev: nothing is open; then stock is held for nothing, which is told, mended, and gone.
func TestReconcileOnDev(t *testing.T) {
	t.Parallel()
	dir := openFolder(t)
	dev, file := startDev(t, dir)
	order := orderOnDev(t, file, http.StatusCreated, devPayment)
	reconcileOn := func(arguments ...string) ending {
		return paysaga(t, nil, append([]string{"reconcile", "--dir", dir}, arguments...)...)
	}
	wantWords(t, reconcileOn().wellDone(t), "plan, of adyen, paypal, stripe: done", "compared: 1 payments", "nothing is open")
	pool := openPool(t, file.DatabaseURL)
	_, err := pool.Exec(t.Context(), `UPDATE reconciliation_lease SET locked_until = now() + interval '1 hour'`)
	noError(t, err)
	busy := reconcileOn()
	wantWords(t, busy.stdout, "not all was compared")
	wantWords(t, busy.stderr, "another reconciliation is running")
	_, err = pool.Exec(t.Context(), `UPDATE reconciliation_lease SET locked_until = now()`)
	noError(t, err)
	_, err = pool.Exec(t.Context(), plantOrphan, order.ID)
	noError(t, err)
	_, err = pool.Exec(t.Context(), `UPDATE sagas SET updated_at = now() - interval '1 day'`)
	noError(t, err)
	_, err = pool.Exec(t.Context(), `UPDATE orders SET updated_at = now() - interval '1 day'`)
	noError(t, err)
	planned := reconcileOn("--plan")
	if planned.code != exitFound || planned.stderr != "" {
		t.Errorf("exit code %d, want %d: %s", planned.code, exitFound, planned.stderr)
	}
	wantWords(t, planned.stdout, "release", "1", "free the stock that is held for nothing", "orphan_reservation", order.ID.String(), "findings that are open: 1")
	report := paysaga(t, nil, "reconcile", "report", "--format", "csv", "--dir", dir).wellDone(t)
	rows, err := csv.NewReader(strings.NewReader(report)).ReadAll()
	noError(t, err)
	if len(rows) != 2 || rows[1][2] != "orphan_reservation" || !strings.HasSuffix(report, "\r\n") {
		t.Fatalf("report: %q", rows)
	}
	wantWords(t, planned.stdout, "stripe was read from 20", "paypal was read from 20", "adyen was read from 20")
	finding := rows[1][0]
	checkNotes(t, dir, finding)
	checkMended(t, dir, finding)
	dev.terminate(t)
}

// checkMended: what the plan said is done, once.
func checkMended(t *testing.T, dir, finding string) {
	t.Helper()
	applied := readJSON[reconciled](t, paysaga(t, nil, "reconcile", "--apply", "--json", "--dir", dir).wellDone(t))
	if applied.Open != 0 || len(applied.Runs) != 1 || applied.Runs[0].Run.Totals.Repaired != 1 || applied.Runs[0].Run.Mode != "apply" {
		t.Errorf("applied: %+v", applied)
	}
	again := readJSON[reconciled](t, paysaga(t, nil, "reconcile", "--apply", "--json", "--dir", dir).wellDone(t))
	if again.Open != 0 || again.Runs[0].Run.Totals.Repaired != 0 || again.Runs[0].Run.Totals.Opened != 0 || len(again.Runs[0].Plan) != 0 {
		t.Errorf("a second time: %+v", again)
	}
	wantWords(t, paysaga(t, nil, "reconcile", "runs", "--dir", dir).wellDone(t), applied.Runs[0].Run.ID, "adyen+paypal+stripe", "done")
	wantWords(t, paysaga(t, nil, "reconcile", "report", "--state", "resolved", "--dir", dir).wellDone(t), finding, "orphan_reservation")
}

// checkNotes: a finding is shown, ignored, and found again when that is over.
func checkNotes(t *testing.T, dir, finding string) {
	t.Helper()
	on := func(arguments ...string) ending {
		return paysaga(t, nil, append(append([]string{"reconcile"}, arguments...), "--dir", dir)...)
	}
	wantWords(t, on("show", finding).wellDone(t), finding, "orphan_reservation", "free the stock")
	ignored := on("ignore", finding, "--until", time.Now().AddDate(0, 0, 2).Format(time.DateOnly), "--reason", "Counted on Monday.")
	wantWords(t, ignored.wellDone(t), "ignored", "Counted on Monday.")
	wantWords(t, on("--plan").wellDone(t), "nothing is open")
	wantWords(t, on("ignore", finding, "--until", "2020-01-01", "--reason", "x").stderr, "a time to come")
	wantWords(t, on("resolve", finding, "--reason", "card 4111 1111 1111 1111").stderr, "card number")
	wantWords(t, on("--until", "2999-01-01").stderr, "yet to come")
	on("resolve", uuid.NewString(), "--reason", "x").refused(t, exitFailed, "there is no finding")
	list := readJSON[[]findingRow](t, on("report", "--format", "json", "--state", "ignored").wellDone(t))
	if len(list) != 1 || list[0].ID != finding || list[0].Reason != "Counted on Monday." || list[0].IgnoredUntil.IsZero() {
		t.Errorf("ignored: %+v", list)
	}
	url, err := databaseURL(dir)
	noError(t, err)
	_, err = openPool(t, url).Exec(t.Context(), `UPDATE findings SET ignored_until = now()`)
	noError(t, err)
}

// Standard input is read from its beginning, as a file that is named.
func TestStatementFromStandardInput(t *testing.T) {
	t.Parallel()
	file, err := openSeekable(strings.NewReader("one\ntwo\n"), "-")
	noError(t, err)
	defer file.Close()
	content, err := io.ReadAll(file)
	noError(t, err)
	if string(content) != "one\ntwo\n" {
		t.Errorf("read: %q", content)
	}
}

// A wrong call is 1 here, as 2 says that findings are open.
func TestReconcileThatIsCalledWrongly(t *testing.T) {
	t.Parallel()
	environ := []string{"DATABASE_URL=" + pgtest.URL(t)}
	for call, word := range map[string]string{
		"reconcile --plan --apply":                             "use one of them",
		"reconcile --nothing":                                  "unknown flag",
		"reconcile --once=false":                               "paysaga serve",
		"reconcile --since yesterday":                          "write it as 2026-11-30",
		"reconcile --since 2026-11-30 --until 2026-11-30":      "--until is not after --since",
		"reconcile --statement a --provider b --provider c":    "one provider's",
		"reconcile --statement a --zone Nowhere/None":          "--zone",
		"reconcile now":                                        "unknown command",
		"reconcile report --format xml":                        "use table, csv, json",
		"reconcile report --state closed":                      "use open, ignored, resolved, all",
		"reconcile --since 2999-01-01":                         "yet to come",
		"reconcile report --provider strip":                    "use adyen, paypal, stripe",
		"reconcile runs --limit -1":                            "list 1 run or more",
		"reconcile runs --limit 0":                             "list 1 run or more",
		"reconcile report --severity dire":                     "use critical, high, low",
		"reconcile resolve 1 --reason x":                       "no finding's id",
		"reconcile resolve":                                    "arg",
		"reconcile ignore " + uuid.NewString() + " --reason x": "until",
	} {
		got := paysaga(t, environ, strings.Fields(call)...)
		if got.code != exitFailed || got.stdout != "" || !strings.Contains(got.stderr, word) || !strings.Contains(got.stderr, "See: paysaga reconcile") {
			t.Errorf("%s: exit code %d, %q, %q", call, got.code, got.stdout, got.stderr)
		}
	}
	paysaga(t, environ, "reconcile", "--statement", "/no/such/file").refused(t, exitFailed, "no such file")
	paysaga(t, environ, "reconcile").refused(t, exitFailed, "PAYSAGA_ENCRYPTION_KEYS", "STRIPE_API_KEY")
}

func TestReportOfNothing(t *testing.T) {
	t.Parallel()
	environ := []string{"DATABASE_URL=" + pgtest.URL(t)}
	if got := paysaga(t, environ, "reconcile", "report", "--format", "json").wellDone(t); got != "[]\n" {
		t.Errorf("JSON %q", got)
	}
	if got := paysaga(t, environ, "reconcile", "report", "--format", "csv").wellDone(t); got != strings.Join(csvHeader, ",")+"\r\n" {
		t.Errorf("CSV %q", got)
	}
}

// No cell of a report is a formula to a spreadsheet, and every text comes back as it was.
func TestCSVCells(t *testing.T) {
	t.Parallel()
	var out strings.Builder
	noError(t, printCSV(&out, func(do func(findingRow) error) error {
		return do(findingRow{ID: "=1+1", Kind: "@SUM(A1)", Provider: "a,b", Detail: "says \"x\"\nand more", Reason: "-2", Note: "＝1", By: "plain", Amount: -5, Currency: "EUR"})
	}))
	rows, err := csv.NewReader(strings.NewReader(out.String())).ReadAll()
	noError(t, err)
	got := map[string]string{}
	for i, name := range rows[0] {
		if rows[1][i] != "" {
			got[name] = rows[1][i]
		}
	}
	want := map[string]string{
		"finding": "'=1+1", "kind": "'@SUM(A1)", "provider": "a,b", "detail": "says \"x\"\nand more", "reason": "'-2", "note": "'＝1", "by": "plain",
		"amount_minor_units": "'-5", "currency": "EUR",
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("cells (-want +got):\n%s", diff)
	}
}

// A plan tells what would change and why, the money of it by currency, and what is left to people.
func TestPlanIsTold(t *testing.T) {
	t.Parallel()
	rules := reconcile.Rules{Repairs: reconcile.Repairs(), PerFinding: units(50), PerRun: units(60), PerDuplicate: units(0)}
	result := reconcile.Result{Run: reconcile.Run{ID: uuid.New(), Mode: reconcile.ModePlan, State: reconcile.RunDone, Providers: []string{"stripe"}}}
	for _, finding := range []reconcile.Finding{
		{Kind: "status_mismatch", Repair: reconcile.RepairComplete, AtStake: providers.Money{Amount: 3998, Currency: "EUR"}, Detail: "It is paid."},
		{Kind: "status_mismatch", Repair: reconcile.RepairUndo, AtStake: providers.Money{Amount: 2500, Currency: "EUR"}, Detail: "It was given up."},
		{Kind: "status_mismatch", Repair: reconcile.RepairUndo, AtStake: providers.Money{Amount: 9999, Currency: "EUR"}, Detail: "It is large."},
		{Kind: "amount_mismatch", AtStake: providers.Money{Amount: 500, Currency: "JPY"}, Detail: "It differs."},
	} {
		result.Plan.Add(finding, rules.Judge(finding))
		result.Open = append(result.Open, reconcile.Open{Finding: finding, ID: uuid.New()})
	}
	result.Plan.Check(rules.PerRun)
	var out strings.Builder
	noError(t, newRunReport(reconcile.Request{Mode: reconcile.ModePlan}, result, rules, nil).print(&out))
	text := out.String()
	wantWords(t, text, "complete", "39.98 EUR", "the provider has the money: complete the waiting order", "undo", "25.00 EUR",
		"99.99 EUR, 500 JPY", "left to people", "money of all repairs: 64.98 EUR",
		"above the limit of a run, so nothing is done: the repairs would move 64.98 EUR, and a run may move 60.00 EUR",
		"It is large. 99.99 EUR is above the limit for one finding (50.00 EUR).", "It differs. No rule mends this; a person decides.")
}

// units is a limit of whole euros, or of whatever has two decimals.
type units int64

func (u units) In(string) int64 { return int64(u) * 100 }

// A settlement file is told with its own figures beside what its lines come to, and with what could not be read.
func TestStatementIsTold(t *testing.T) {
	t.Parallel()
	var out strings.Builder
	noError(t, printStatement(&out, statement.Report{
		Provider: "adyen", Format: "adyen settlement detail report, batch", Lines: 3, Malformed: 1,
		Faults: []statement.Fault{{Number: 4, Column: "Net Credit (NC)", Reason: "is no amount"}},
		Totals: map[string]statement.Total{"EUR": {Gross: 1000, Fee: 35, Net: -965}},
		Controls: []statement.Control{
			{Name: "payout", Currency: "EUR", Told: -965, Counted: -965}, {Name: "rows", Told: 4, Counted: 3},
		},
	}))
	wantWords(t, out.String(), "batch, 3 lines", "gross 10.00 EUR", "net -9.65 EUR", "holds", "of the file 4", "DOES NOT HOLD", "line 4 Net Credit (NC): is no amount")
}

// What a run that mends came to is told of each finding: what was only stopped was not mended.
func TestOutcomeIsTold(t *testing.T) {
	t.Parallel()
	at := time.Date(2026, 11, 30, 9, 43, 12, 0, time.UTC)
	report := runReport{Run: &runRow{Totals: reconcile.Totals{Listed: map[string]reconcile.Listed{
		"stripe": {From: at.Add(-time.Hour), Until: at}, "paypal": {From: at.Add(-time.Hour), Until: at.Add(-time.Minute), Behind: true},
	}}}, applied: true}
	for _, note := range []string{"complete", "review", "The saga waits for a person.", ""} {
		report.Findings = append(report.Findings, planned{findingRow: findingRow{Note: note}, Do: "complete"})
	}
	var out strings.Builder
	noError(t, report.print(&out))
	wantWords(t, out.String(), "DID", "done: complete", "stopped for a person", "refused: The saga waits for a person.", "nothing",
		"mended, or stopped for a person: 0", "stripe was read from 2026-11-30T08:43:12Z up to 2026-11-30T09:43:12Z\n",
		"paypal was read from 2026-11-30T08:43:12Z up to 2026-11-30T09:42:12Z: its list is behind")
}
