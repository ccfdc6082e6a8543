//go:build scale

package postgres_test

import (
	"bufio"
	"context"
	"flag"
	"fmt"
	"io"
	"log/slog"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"paysaga/reconcile"
	settlement "paysaga/reconcile/statement"
)

// So many payments there are here, and as many rows in the settlement file: -args -rows N.
var scaleRows = flag.Int64("rows", 1_000_000, "how many payments are held against as many rows of a settlement file")

const (
	// paymentsBatch is how many payments are made by one statement.
	paymentsBatch = 100_000
	// scaleSteps is how often the time and the memory are told in a stage.
	scaleSteps = 10
	// Of the file's rows, some are not what was taken here, and some are of payments that nobody knows.
	oddEvery, lostEvery = 10_000, 25_000
	// scaleMemory is the most that the process may hold in memory beyond what it held before, whatever the number of rows, in bytes. A batch
	// is 2,000 lines or 500 payments: some megabytes.
	scaleMemory = 128 << 20
)

// A million payments are held against a settlement file of a million rows, from the file's first byte to the findings. Asserted are what is
// found, and that the memory does not grow with the rows; the times depend on the machine, and are told.
//
//nolint:paralleltest // nothing may disturb what it times
func TestAMillionPaymentsAgainstASettlementFile(t *testing.T) {
	b := newBundle(t)
	path := filepath.Join(t.TempDir(), "payout_reconciliation.csv")
	begun := time.Now()
	for first := int64(1); first <= *scaleRows; first += paymentsBatch {
		b.makePayments(first, min(first+paymentsBatch-1, *scaleRows))
	}
	b.exec(`VACUUM ANALYZE`)
	size := writeSettlement(t, path)
	t.Logf("made %d payments and a file of %d MB in %s; the database has %s", *scaleRows, size>>20, time.Since(begun).Round(time.Second), b.databaseSize())

	watch := watchMemory()
	result := b.reconcileFile(path, watch)
	watch.stop()
	t.Logf("peak: heap %d MB, resident %d MB (%d MB before); the database has %s", watch.heap.Load()>>20, watch.resident.Load()>>20,
		watch.before>>20, b.databaseSize())

	totals := result.Run.Totals
	odd, lost := *scaleRows/oddEvery, (*scaleRows+lostEvery-1)/lostEvery
	if totals.Lines != *scaleRows || totals.Malformed != 0 || totals.Payments < *scaleRows-lost || result.Run.State != reconcile.RunDone {
		t.Errorf("the run is %+v", result.Run)
	}
	if n := int64(b.count(`SELECT count(*) FROM findings WHERE kind = 'amount_mismatch' AND resolved_at IS NULL`)); n != odd {
		t.Errorf("%d amounts differ, want %d", n, odd)
	}
	if n := int64(b.count(`SELECT count(*) FROM findings WHERE kind = 'missing_locally' AND resolved_at IS NULL`)); n != lost {
		t.Errorf("%d payments are nobody's, want %d", n, lost)
	}
	if n := int64(b.count(`SELECT count(*) FROM findings`)); n != odd+lost {
		t.Errorf("%d findings, want %d", n, odd+lost)
	}
	if grown := watch.resident.Load() - watch.before; grown > scaleMemory {
		t.Errorf("the process grew by %d MB", grown>>20)
	}
}

// makePayments makes orders that are paid, as a server leaves them, in the order of their time.
func (b *bundle) makePayments(first, last int64) {
	b.t.Helper()
	const sql = `
		WITH made AS (
			SELECT n, md5('order' || n)::uuid AS id, now() - interval '20 days' + n * interval '1 millisecond' AS at
			FROM generate_series($1::bigint, $2::bigint) AS n
		), o AS (
			INSERT INTO orders (account_id, id, status, currency, amount, payment_provider, payment_method, payment_status, provider_reference,
				captured_amount, created_at, updated_at)
			SELECT 'shop1', id, 'confirmed', 'EUR', 1000 + n % 1000, 'stripe', 'pm_1', 'captured', 'pi_' || n, 1000 + n % 1000, at, at FROM made
		), s AS (
			INSERT INTO sagas (account_id, key, order_id, generation, state, locked_until, created_at, updated_at)
			SELECT 'shop1', id, id AS order_id, 1, 'completed', at AS locked_until, at AS created_at, at FROM made)
		INSERT INTO saga_steps (account_id, saga_key, name, attempt, sub_key, status, provider, provider_reference, outcome, started_at,
			finished_at)
		SELECT 'shop1', id, 'charge', 1, id || '_charge', 'done', 'stripe', 'pi_' || n, 'succeeded', at, at FROM made`
	// Rows that one statement makes see no others of it: the foreign keys are checked at its end.
	b.exec(sql, first, last)
}

// writeSettlement writes a report as Stripe makes it, with one row for each payment.
func writeSettlement(t *testing.T, path string) (size int64) {
	t.Helper()
	file, err := os.Create(path)
	if err != nil {
		t.Fatal(err)
	}
	out := bufio.NewWriterSize(file, 1<<20)
	fmt.Fprintln(out, "balance_transaction_id,created_utc,available_on_utc,currency,gross,fee,net,reporting_category,source_id,description,"+
		"payment_intent_id,charge_id,automatic_payout_id")
	day := time.Now().UTC().AddDate(0, 0, -19)
	for n := int64(1); n <= *scaleRows; n++ {
		gross, payment := 1000+n%1000, fmt.Sprintf("pi_%d", n)
		if n%oddEvery == 0 {
			gross++
		}
		if n%lostEvery == 1 {
			payment = fmt.Sprintf("pi_lost_%d", n)
		}
		at := day.Add(time.Duration(n) * time.Millisecond).Format(time.DateTime)
		fmt.Fprintf(out, "txn_%d,%s,%s,eur,%s,0.35,%s,charge,ch_%d,\"A cup, with its saucer\",%s,ch_%d,po_%d\n",
			n, at, at, inUnits(gross), inUnits(gross-35), n, payment, n, n/50_000)
	}
	if err := out.Flush(); err != nil {
		t.Fatal(err)
	}
	info, err := file.Stat()
	if err != nil {
		t.Fatal(err)
	}
	if err := file.Close(); err != nil {
		t.Fatal(err)
	}
	return info.Size()
}

func inUnits(cents int64) string { return fmt.Sprintf("%d.%02d", cents/100, cents%100) }

type noLimit struct{}

func (noLimit) In(string) int64 { return 1 << 60 }

// reconcileFile does what the command does, and tells the time of each step of rows.
func (b *bundle) reconcileFile(path string, watch *memory) reconcile.Result {
	b.t.Helper()
	file, err := os.Open(path)
	if err != nil {
		b.t.Fatal(err)
	}
	defer file.Close()
	worker, err := reconcile.New(reconcile.Config{
		Store: b.store, Repairs: noRepairs{}, Rules: reconcile.Rules{PerFinding: noLimit{}, PerRun: noLimit{}, PerDuplicate: noLimit{}},
		Policy: reconcile.DefaultPolicy(), Lookback: time.Hour, Overlap: time.Hour, Lease: time.Minute, Logger: slog.New(slog.DiscardHandler),
	})
	if err != nil {
		b.t.Fatal(err)
	}
	begun, last := time.Now(), time.Now()
	stage, done := reconcile.StageList, int64(0)
	progress := func(run reconcile.Run) {
		rows := run.Totals.Lines
		if run.Stage == reconcile.StageMatch {
			rows = run.Totals.Payments
		}
		if run.Stage == stage && rows < done+*scaleRows/scaleSteps {
			return
		}
		b.t.Logf("%-9s %9d rows after %8s, this step %8s, heap %4d MB", run.Stage, rows, time.Since(begun).Round(10*time.Millisecond),
			time.Since(last).Round(10*time.Millisecond), watch.now.Load()>>20)
		if run.Stage != stage {
			rows = 0
		}
		stage, done, last = run.Stage, rows, time.Now()
	}
	result, err := worker.Once(b.ctx, reconcile.Request{
		Mode: reconcile.ModePlan, RequestedBy: "a test",
		Statement: &reconcile.File{Name: filepath.Base(path), Content: file, Options: settlement.Options{Provider: "stripe"}},
	}, progress)
	if err != nil {
		b.t.Fatalf("reconcile: %v", err)
	}
	b.t.Logf("all of it took %s", time.Since(begun).Round(10*time.Millisecond))
	return result
}

// noRepairs are those of a plan: none of its methods may be called.
type noRepairs struct{ reconcile.Repairer }

func (b *bundle) databaseSize() (size string) {
	b.t.Helper()
	if err := b.pool.QueryRow(context.WithoutCancel(b.ctx), `SELECT pg_size_pretty(pg_database_size(current_database()))`).Scan(&size); err != nil {
		b.t.Fatal(err)
	}
	return size
}

// memory watches what the process holds.
type memory struct {
	before              int64
	now, heap, resident atomic.Int64
	ended               chan struct{}
	over                chan struct{}
}

// watchMemory looks every few milliseconds: between two looks a batch cannot come and go.
func watchMemory() *memory {
	runtime.GC() //nolint:revive // what was made before does not count
	m := &memory{before: residentBytes(), ended: make(chan struct{}), over: make(chan struct{})}
	go func() {
		defer close(m.over)
		ticker := time.NewTicker(20 * time.Millisecond)
		defer ticker.Stop()
		for {
			select {
			case <-m.ended:
				return
			case <-ticker.C:
			}
			var stats runtime.MemStats
			runtime.ReadMemStats(&stats)
			m.now.Store(int64(stats.HeapInuse))
			m.heap.Store(max(m.heap.Load(), int64(stats.HeapInuse)))
			m.resident.Store(max(m.resident.Load(), residentBytes()))
		}
	}()
	return m
}

func (m *memory) stop() {
	close(m.ended)
	<-m.over
}

// residentBytes is what Linux tells of this process; zero elsewhere.
func residentBytes() int64 {
	file, err := os.Open("/proc/self/status")
	if err != nil {
		return 0
	}
	defer file.Close()
	text, err := io.ReadAll(file)
	if err != nil {
		return 0
	}
	for line := range strings.Lines(string(text)) {
		var kilobytes int64
		if n, _ := fmt.Sscanf(line, "VmRSS: %d kB", &kilobytes); n == 1 {
			return kilobytes << 10
		}
	}
	return 0
}
