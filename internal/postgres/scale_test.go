//go:build scale

package postgres_test

import (
	"flag"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"
)

// A smaller table is tried with -args -keys N.
var scaleKeys = flag.Int64("keys", 10_000_000, "how many keys are in the full table")

const (
	fillBatch = 250_000
	// rounds is odd, so that the median is one of them. In each, the two tables take turns.
	rounds = 41
)

// What is done to a key costs no more among ten million than in an empty table. Asserted are the pages that each statement touches, and
// by which indexes; the times depend on the machine, and are told.
//
//nolint:paralleltest // nothing may disturb what it times
func TestTenMillionKeys(t *testing.T) {
	empty, full := newKeyTable(t), newKeyTable(t)
	begun := time.Now()
	for first := int64(1); first <= *scaleKeys; first += fillBatch {
		last := min(first+fillBatch-1, *scaleKeys)
		full.fill(first, last, *scaleKeys)
		t.Logf("%10d keys after %s", last, time.Since(begun).Round(time.Second))
	}
	filled := time.Since(begun)
	for _, k := range []*keyTable{empty, full} {
		k.begin(slowKeys)
		k.exec(`VACUUM ANALYZE`)
		k.exec(`CHECKPOINT`)
	}
	t.Logf("filled in %s, swept in %s", filled.Round(time.Second), (time.Since(begun) - filled).Round(time.Second))
	t.Log(full.sizes())

	t.Logf("%-28s %-20s %8s %8s", "pages touched", "plan", "empty", "full")
	for _, work := range keyWorks(newKeyTable(t)) {
		for _, mode := range planModes {
			t.Logf("%-28s %-20s %8d %8d", work.name, mode, empty.countPages(work, mode), full.checkPages(work, mode))
		}
	}
	t.Logf("%-28s %12s %12s %7s  %s", "median time", "empty", "full", "ratio", "middle half of the rounds")
	for _, task := range timedTasks() {
		t.Log(compare(task, empty, full))
	}
}

// sizes are those of the tables with their indexes.
func (k *keyTable) sizes() string {
	k.tb.Helper()
	rows, err := k.pool.Query(k.tb.Context(), `
		SELECT format('%-28s %8s MB, with indexes %8s MB', name, sum(pg_relation_size(oid))::bigint >> 20,
			sum(pg_total_relation_size(oid))::bigint >> 20) FROM (
			SELECT c.oid, COALESCE(i.inhparent, c.oid)::regclass::text AS name FROM pg_class c LEFT JOIN pg_inherits i ON i.inhrelid = c.oid
			WHERE c.relkind = 'r' AND c.relname LIKE 'idempotency\_%') AS tables
		GROUP BY name UNION ALL
		SELECT format('  %-42s %8s MB', c.relname, pg_relation_size(c.oid) >> 20) FROM pg_class c JOIN pg_index x ON x.indexrelid = c.oid
		WHERE x.indrelid = 'idempotency_keys'::regclass`)
	k.must(err)
	var lines []string
	for rows.Next() {
		var line string
		k.must(rows.Scan(&line))
		lines = append(lines, line)
	}
	k.must(rows.Err())
	return "sizes\n" + strings.Join(lines, "\n")
}

// countPages is for a table of which the planner may well read the whole, as it is so small.
func (k *keyTable) countPages(w keyWork, mode string) int {
	k.tb.Helper()
	statements, pages := w.statements(k), 0
	k.explain(mode, statements)
	for _, p := range k.explain(mode, statements) {
		pages += p.Hit + p.Read
	}
	return pages
}

// timedTask is done some times in a round.
type timedTask struct {
	name    string
	times   int
	prepare func(k *keyTable) // not timed
	do      func(k *keyTable)
}

func timedTasks() []timedTask {
	var known string
	return []timedTask{
		{"claim", 40, noPreparation, func(k *keyTable) { k.claim() }},
		{"claim and answer", 40, noPreparation, func(k *keyTable) { k.answer(k.claim()) }},
		{"order, begin to end", 40, noPreparation, func(k *keyTable) { k.order() }},
		{"look-up of an absent key", 40, noPreparation, func(k *keyTable) { k.lookUpAbsent() }},
		{"look-up of an answer", 40, func(k *keyTable) {
			held := k.claim()
			k.answer(held)
			known = held.Key
		}, func(k *keyTable) { k.lookUp(known, true) }},
		{"clean-up of a hundred", 4, func(k *keyTable) { k.fillExpired(4 * cleanUpSize) }, func(k *keyTable) { k.cleanUp(cleanUpSize) }},
	}
}

func noPreparation(*keyTable) {}

// compare lets the tables take turns, so that what disturbs the machine disturbs both.
func compare(task timedTask, empty, full *keyTable) string {
	for _, k := range []*keyTable{empty, full} {
		k.exec(`ANALYZE`) // a table that grows from nothing is read whole until PostgreSQL sees that it has grown
	}
	var times [2][]time.Duration
	ratios := make([]float64, 0, rounds)
	for round := range rounds {
		var took [2]time.Duration
		for i := range 2 {
			turn := (i + round) % 2
			took[turn] = task.time([]*keyTable{empty, full}[turn])
		}
		for table := range 2 {
			times[table] = append(times[table], took[table])
		}
		ratios = append(ratios, float64(took[1])/float64(took[0]))
	}
	slices.Sort(times[0])
	slices.Sort(times[1])
	slices.Sort(ratios)
	return fmt.Sprintf("%-28s %12s %12s %7.3f  %.3f to %.3f", task.name, times[0][rounds/2], times[1][rounds/2],
		ratios[rounds/2], ratios[rounds/4], ratios[rounds-1-rounds/4])
}

// time gives the time of one.
func (task timedTask) time(k *keyTable) time.Duration {
	task.prepare(k)
	begun := time.Now()
	for range task.times {
		task.do(k)
	}
	return time.Since(begun) / time.Duration(task.times)
}
