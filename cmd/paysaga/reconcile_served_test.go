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
	dev.terminate(t)
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
