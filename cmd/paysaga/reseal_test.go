package main

import (
	"encoding/json"
	"net/http"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"paysaga/internal/idempotency"
	"paysaga/internal/pgdev/pgtest"
	"paysaga/internal/postgres"
	"paysaga/internal/seal"
	"paysaga/saga"
)

type resealed struct {
	Resealed int                       `json:"resealed"`
	Unopened int                       `json:"unopened"`
	Sealed   map[string]map[string]int `json:"sealed"`
	InUse    []string                  `json:"in_use"`
	Unused   []string                  `json:"unused"`
}

// answered stores an answer under a key, sealed with the first of the keys.
func answered(t *testing.T, url, keys, name string) {
	t.Helper()
	ring, err := seal.NewRing(keys)
	noError(t, err)
	store := postgres.New(openPool(t, url), ring)
	claim := saga.Claim{
		AccountID: "shop1", Endpoint: "PUT /v1/stock/{sku}", Key: "reseal-key-" + name, Generation: 1, Retention: 1 << 50, Fingerprint: [32]byte{1},
	}
	held, err := store.ClaimKey(t.Context(), claim, 1<<40)
	noError(t, err)
	noError(t, store.AnswerKey(t.Context(), held, saga.Answer{Status: http.StatusOK, Headers: map[string]string{}, Body: []byte("body of " + name)}))
}

func TestReseal(t *testing.T) {
	t.Parallel()
	url := pgtest.URL(t)
	oldKey, newKey := seal.GenerateKey("k1"), seal.GenerateKey("k2")
	answered(t, url, oldKey, "first")
	answered(t, url, newKey, "second")
	environ := []string{"DATABASE_URL=" + url, "PAYSAGA_ENCRYPTION_KEYS=" + newKey + "," + oldKey}

	for range 2 { // a plan changes nothing
		if plan := paysaga(t, environ, "reseal", "--plan").wellDone(t); !strings.Contains(plan, "answers  k1    1\n") || !strings.Contains(plan, "answers  k2    1\n") {
			t.Errorf("plan:\n%s", plan)
		}
	}
	done := paysaga(t, environ, "reseal").wellDone(t)
	for _, want := range []string{"sealed anew with k2: 1\n", "answers  k2    2\n", "nothing needs k1 any more"} {
		if !strings.Contains(done, want) {
			t.Errorf("%q is not told:\n%s", want, done)
		}
	}
	again := readJSON[resealed](t, paysaga(t, environ, "reseal", "--json").wellDone(t))
	if again.Resealed != 0 || !cmp.Equal(again.InUse, []string{"k2"}) || !cmp.Equal(again.Unused, []string{"k1"}) || again.Sealed["answers"]["k2"] != 2 {
		t.Errorf("done again: %+v", again)
	}
	replayedWith(t, url, newKey, "first", "second") // the old key is gone
}

// replayedWith looks the answers up with these encryption keys and no others.
func replayedWith(t *testing.T, url, keys string, names ...string) {
	t.Helper()
	ring, err := seal.NewRing(keys)
	noError(t, err)
	for _, name := range names {
		record, _, err := postgres.New(openPool(t, url), ring).LookupKey(t.Context(), "shop1", "PUT /v1/stock/{sku}", "reseal-key-"+name)
		if err != nil || record.Status != idempotency.Completed || string(record.Answer.Body) != "body of "+name {
			t.Errorf("%s: %+v, %v", name, record, err)
		}
	}
}

// A value that no key opens is named, without its key's text, and makes the command fail.
func TestResealNamesWhatCannotBeOpened(t *testing.T) {
	t.Parallel()
	url := pgtest.URL(t)
	lost, newKey := seal.GenerateKey("lost"), seal.GenerateKey("k2")
	answered(t, url, lost, "first")
	run := paysaga(t, []string{"DATABASE_URL=" + url, "PAYSAGA_ENCRYPTION_KEYS=" + newKey}, "reseal", "--json")
	var told resealed
	noError(t, json.Unmarshal([]byte(run.stdout), &told))
	if run.code != exitFailed || told.Unopened != 1 || !cmp.Equal(told.InUse, []string{"lost"}) || len(told.Unused) != 0 {
		t.Errorf("exit code %d, %+v", run.code, told)
	}
	if !strings.Contains(run.stderr, "paysaga: cannot be opened: idempotency_answers: account shop1") || strings.Contains(run.stderr+run.stdout, "reseal-key") {
		t.Errorf("told %s", run.stderr)
	}
}
