package main

import (
	"encoding/json"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"paysaga/api"
)

// A reconciliation that an operator asks for over HTTP is done by the workers; a settlement file of the provider is read once, and agrees.
func TestReconciliationOfARunningServer(t *testing.T) {
	t.Parallel()
	dir := openFolder(t)
	dev, file := startDev(t, dir)
	orderOnDev(t, file, http.StatusCreated, devPayment)
	asked := askForRun(t, file)
	dev.waitFor(t, `msg"?[=:]"?(reconciled)`)
	status, text := call(t, http.MethodGet, file.BaseURL+"/v1/reconciliations/"+asked.ID.String(), file.OperatorKey, "", "")
	if status != http.StatusOK {
		t.Fatalf("answered %d %s", status, text)
	}
	noError(t, json.Unmarshal([]byte(text), &asked))
	if asked.State != "done" {
		t.Errorf("it ended as %+v", asked)
	}
	if asked.Totals.Payments != 1 {
		t.Errorf("it compared %+v", asked.Totals)
	}
	status, settlement := call(t, http.MethodGet, file.SandboxURL+"/_sandbox/settlement/stripe", "", "", "")
	if status != http.StatusOK || !strings.Contains(settlement, "txn_") {
		t.Fatalf("the sandbox settles %d %s", status, settlement)
	}
	path := filepath.Join(t.TempDir(), "stripe.csv")
	noError(t, os.WriteFile(path, []byte(settlement), 0o600))
	wantWords(t, paysaga(t, nil, "reconcile", "--statement", path, "--dir", dir).wellDone(t), "stripe.csv", "nothing is open")
	again := paysaga(t, nil, "reconcile", "--statement", path, "--dir", dir)
	wantWords(t, again.stdout+again.stderr, "read before")
	wantWords(t, paysaga(t, nil, "reconcile", "--statement", path, "--apply", "--dir", dir).wellDone(t), "apply, of stripe: done", "net of all lines")
	again = paysaga(t, nil, "reconcile", "--statement", path, "--apply", "--dir", dir)
	wantWords(t, again.stdout+again.stderr, "read before")
	checkBrokenFile(t, dir, settlement)
	dev.terminate(t)
}

// checkBrokenFile: what a file's lines lack is told with the file's name, wherever somebody looks.
func checkBrokenFile(t *testing.T, dir, settlement string) {
	t.Helper()
	path := filepath.Join(t.TempDir(), "broken.csv")
	noError(t, os.WriteFile(path, []byte(settlement+"\nno row of a report\n"), 0o600))
	for range 2 { // the next version may be able to read it
		found := paysaga(t, nil, "reconcile", "--statement", path, "--dir", dir)
		wantWords(t, found.stdout, "1 lines cannot be read", "findings that are open: 1")
	}
	report := readJSON[[]findingRow](t, paysaga(t, nil, "reconcile", "report", "--format", "json", "--dir", dir).wellDone(t))
	if len(report) != 1 || report[0].Kind != "statement_mismatch" {
		t.Fatalf("found %+v", report)
	}
	wantWords(t, report[0].Detail, "Settlement file broken.csv: Lines that cannot be read: 1, the first is line")
	shown := paysaga(t, nil, "reconcile", "show", report[0].ID, "--dir", dir).wellDone(t)
	wantWords(t, shown, "file broken.csv", "1 lines cannot be read", "total", "gross")
	wantWords(t, paysaga(t, nil, "reconcile", "runs", "--dir", dir).wellDone(t), "FILE", "stripe.csv", "broken.csv")
}

func askForRun(t *testing.T, file devFile) api.Reconciliation {
	t.Helper()
	status, text := call(t, http.MethodPost, file.BaseURL+"/v1/reconciliations", file.OperatorKey, "run-on-request-0001", `{"mode":"plan"}`)
	if status != http.StatusAccepted {
		t.Fatalf("asking was answered %d %s", status, text)
	}
	var asked api.Reconciliation
	noError(t, json.Unmarshal([]byte(text), &asked))
	return asked
}
