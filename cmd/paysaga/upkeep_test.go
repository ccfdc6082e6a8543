package main

import (
	"strconv"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"paysaga/internal/pgdev/pgtest"
)

const plantExpiredKeys = `INSERT INTO idempotency_keys
	(account_id, endpoint, key, fingerprint, status, response_status, answer_on, answer_id, completed_at, expires_at)
	SELECT 'shop1', 'POST /v1/orders', 'planted-' || lpad(i::text, 10, '0'), decode(repeat('00', 32), 'hex'), 'COMPLETED', 201, now(), i, now(),
		now() - interval '1 day' FROM generate_series(1, 1500) AS i`

type upkeepDone struct {
	KeysDeleted    int      `json:"keys_deleted"`
	PartitionsMade int      `json:"partitions_made"`
	Dropped        []string `json:"partitions_dropped"`
	DaysAhead      int      `json:"days_ahead"`
	Until          string   `json:"partitions_until"`
	Busy           bool     `json:"busy"`
}

func TestUpkeep(t *testing.T) {
	t.Parallel()
	url := pgtest.URL(t)
	pool := openPool(t, url)
	database, retention := "DATABASE_URL="+url, "PAYSAGA_RETENTION=2160h"
	environ := []string{database, retention}
	_, err := pool.Exec(t.Context(), plantExpiredKeys)
	noError(t, err)
	_, err = pool.Exec(t.Context(), `SELECT paysaga_make_answers('2026-01-07')`)
	noError(t, err)
	plan := paysaga(t, environ, "upkeep", "--plan").wellDone(t)
	for _, want := range []string{"expired keys to delete: 1500\n", "no key needs them: 1 idempotency_answers_20260105", "those of "} {
		if !strings.Contains(plan, want) {
			t.Errorf("%q is not in the plan:\n%s", want, plan)
		}
	}
	kept := readJSON[upkeepDone](t, paysaga(t, []string{database, retention, "PAYSAGA_EXPIRED_KEYS=reject"}, "upkeep", "--json").wellDone(t))
	if kept.KeysDeleted != 0 || kept.PartitionsMade == 0 || kept.DaysAhead < 14 || kept.DaysAhead > 21 || len(kept.Dropped) != 1 {
		t.Errorf("where expired keys stay: %+v", kept)
	}
	done := paysaga(t, environ, "upkeep")
	for _, want := range []string{"expired keys deleted: 1500\n", "partitions made: 0\ndays for which the answers of new keys find a partition: " + strconv.Itoa(kept.DaysAhead) + "; the last one ends on " + kept.Until, "partitions dropped: 0 \n"} {
		if !strings.Contains(done.wellDone(t), want) {
			t.Errorf("%q is not told:\n%s", want, done.stdout)
		}
	}
	if !strings.Contains(done.stderr, "expired keys deleted") {
		t.Errorf("progress: %q", done.stderr)
	}
	again := readJSON[upkeepDone](t, paysaga(t, environ, "upkeep", "--json").wellDone(t))
	if diff := cmp.Diff(upkeepDone{Dropped: []string{}, DaysAhead: kept.DaysAhead, Until: kept.Until}, again); diff != "" {
		t.Errorf("done again (-want +got):\n%s", diff)
	}
}

func TestUpkeepPartitions(t *testing.T) {
	t.Parallel()
	url := pgtest.URL(t)
	environ := []string{"DATABASE_URL=" + url}
	_, err := openPool(t, url).Exec(t.Context(), `SELECT paysaga_make_answers('2026-01-07')`)
	noError(t, err)
	list := paysaga(t, environ, "upkeep", "partitions").wellDone(t)
	for _, want := range []string{"PARTITION", "idempotency_answers_20260105  2026-01-05  2026-01-12  over   attached", "  now ", "  ahead "} {
		if !strings.Contains(list, want) {
			t.Errorf("%q is not in the list:\n%s", want, list)
		}
	}
	type partition struct{ State, Attachment string }
	type listed struct{ Partitions []partition }
	told := readJSON[listed](t, paysaga(t, environ, "upkeep", "partitions", "--json").wellDone(t))
	if len(told.Partitions) < 8 || told.Partitions[0].State != "over" || told.Partitions[0].Attachment != "attached" {
		t.Errorf("partitions %+v", told)
	}
}

func TestUpkeepAndResealRefuse(t *testing.T) {
	t.Parallel()
	database := "DATABASE_URL=" + pgtest.EmptyURL(t)
	environ := []string{database}
	paysaga(t, environ, "upkeep").refused(t, exitFailed, "migrate up")
	paysaga(t, nil, "upkeep").refused(t, exitFailed, "DATABASE_URL")
	paysaga(t, environ, "reseal").refused(t, exitFailed, "PAYSAGA_ENCRYPTION_KEYS")
	paysaga(t, []string{database, "PAYSAGA_RETENTION=1"}, "upkeep").refused(t, exitFailed, "PAYSAGA_RETENTION")
	paysaga(t, environ, "upkeep", "now").refused(t, exitUsage, "now")
}
