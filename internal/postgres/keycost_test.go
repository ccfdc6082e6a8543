package postgres_test

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"paysaga/internal/idempotency"
	"paysaga/internal/pgdev/pgtest"
	"paysaga/internal/postgres"
	"paysaga/internal/seal"
)

// keyTable is a store on a database of its own, whose statements are noted.
type keyTable struct {
	tb    testing.TB
	pool  *pgxpool.Pool
	store *postgres.Store
	notes *notes
	next  int64     // number of the next key or order
	clean time.Time // all that had expired until then is cleaned up
}

func newKeyTable(tb testing.TB) *keyTable {
	tb.Helper()
	k := &keyTable{tb: tb, notes: &notes{}}
	config := pgtest.New(tb).Config()
	config.ConnConfig.Tracer = k.notes
	var err error
	k.pool, err = pgxpool.NewWithConfig(tb.Context(), config)
	k.must(err)
	tb.Cleanup(k.pool.Close)
	ring, err := seal.NewRing(seal.GenerateKey("test"))
	k.must(err)
	k.store = postgres.New(k.pool, ring)
	k.exec(`INSERT INTO accounts (id) VALUES ($1)`, benchAccount)
	for i := range int64(benchSKUs) {
		_, err := k.store.PutStock(tb.Context(), benchAccount, benchSKU(i), 1_000_000_000, nil, nil)
		k.must(err)
	}
	return k
}

func (k *keyTable) must(err error) {
	k.tb.Helper()
	if err != nil {
		k.tb.Fatal(err)
	}
}

func (k *keyTable) exec(sql string, arguments ...any) {
	k.tb.Helper()
	_, err := k.pool.Exec(k.tb.Context(), sql, arguments...)
	k.must(err)
}

// fill adds the keys from first to last of a month and a day in which all came: so those of the first day have expired. Half are one
// large account's. One in twenty keeps its answer, which is enough for partitions that are not empty, and little enough for a disk.
func (k *keyTable) fill(first, last, all int64) {
	k.tb.Helper()
	k.exec(`SELECT paysaga_make_answers((now() - interval '1 day')::date)`)
	k.exec(`
		WITH filled AS (
			INSERT INTO idempotency_keys (account_id, endpoint, key, fingerprint, status, response_status, saga_key, answer_on, answer_id,
				created_at, completed_at, expires_at)
			SELECT CASE WHEN n % 2 = 0 THEN $4 ELSE 'shop-' || n % 200 END,
				(ARRAY['POST /v1/orders', 'POST /v1/orders/{id}/capture', 'POST /v1/orders/{id}/refunds', 'PUT /v1/stock/{sku}'])[1 + n / 2 % 4],
				gen_random_uuid(), sha256(n::text::bytea), CASE WHEN n % 20 = 1 THEN 'FAILED' ELSE 'COMPLETED' END,
				CASE WHEN n % 20 = 1 THEN 402 ELSE 201 END, gen_random_uuid(), ((at + interval '30 days') AT TIME ZONE 'UTC')::date,
				nextval('idempotency_answer_ids'), at, at + interval '1 second', at + interval '30 days'
			FROM generate_series($1::bigint, $2) AS n, LATERAL (SELECT now() - interval '31 days' * (1 - n::float8 / $3) AS at) AS came
			RETURNING account_id, answer_on, answer_id)
		INSERT INTO idempotency_answers (account_id, expires_on, id, headers, body)
		SELECT account_id, answer_on, answer_id, '{"Content-Type": "application/json"}', decode(repeat('2a', 500), 'hex')
		FROM filled WHERE answer_id % 20 = 0`, first, last, all, benchAccount)
}

// fillExpired adds keys that have expired.
func (k *keyTable) fillExpired(keys int64) {
	k.tb.Helper()
	k.fill(1, keys, 1<<40) // so many in a month that these all came at its beginning
}

// begin adds keys that have no answer yet, as many as an account has while its provider is slow.
func (k *keyTable) begin(keys int) {
	k.tb.Helper()
	k.exec(`
		INSERT INTO idempotency_keys (account_id, endpoint, key, fingerprint, status, locked_until, saga_key, expires_at)
		SELECT $2, 'POST /v1/orders', gen_random_uuid(), sha256(n::text::bytea), 'PROCESSING', now() + interval '1 hour', gen_random_uuid(),
			now() + interval '30 days'
		FROM generate_series(1, $1::int) AS n`, keys, benchAccount)
}

func (k *keyTable) claim() idempotency.Held {
	k.tb.Helper()
	k.next++
	held, err := k.store.ClaimKey(k.tb.Context(), benchClaimOf(keyedEndpoint, k.next), benchLease)
	k.must(err)
	return held
}

func (k *keyTable) answer(held idempotency.Held) {
	k.tb.Helper()
	k.must(k.store.AnswerKey(k.tb.Context(), held, benchAnswer()))
}

func (k *keyTable) order() {
	k.tb.Helper()
	k.next++
	benchOrder(k.tb, k.store, k.next)
}

func (k *keyTable) lookUpAbsent() {
	k.tb.Helper()
	k.next++
	k.lookUp(benchClaimOf(keyedEndpoint, -k.next).Key, false)
}

func (k *keyTable) lookUp(key string, want bool) {
	k.tb.Helper()
	_, ok, err := k.store.LookupKey(k.tb.Context(), benchAccount, keyedEndpoint, key)
	if err != nil || ok != want {
		k.tb.Fatalf("look up %s: %t, %v", key, ok, err)
	}
}

// cleanUp goes on where the last time ended, as upkeep does.
func (k *keyTable) cleanUp(keys int) {
	k.tb.Helper()
	deleted, last, err := k.store.DeleteExpiredKeys(k.tb.Context(), k.clean, keys)
	if err != nil || deleted != keys {
		k.tb.Fatalf("%d of %d keys cleaned up: %v", deleted, keys, err)
	}
	k.clean = last
}

// notes are the statements that a store sends, each with its arguments.
type notes struct {
	mutex sync.Mutex
	taken []statement
}

type statement struct {
	sql       string
	arguments []any
}

func (n *notes) note(sql string, arguments []any) {
	n.mutex.Lock()
	defer n.mutex.Unlock()
	n.taken = append(n.taken, statement{sql, arguments})
}

// of gives what was sent during a call.
func (n *notes) of(call func()) []statement {
	n.mutex.Lock()
	n.taken = nil
	n.mutex.Unlock()
	call()
	n.mutex.Lock()
	defer n.mutex.Unlock()
	return n.taken
}

func (n *notes) TraceBatchStart(ctx context.Context, _ *pgx.Conn, data pgx.TraceBatchStartData) context.Context {
	for _, query := range data.Batch.QueuedQueries {
		n.note(query.SQL, query.Arguments)
	}
	return ctx
}

func (*notes) TraceBatchQuery(context.Context, *pgx.Conn, pgx.TraceBatchQueryData) {}

func (*notes) TraceBatchEnd(context.Context, *pgx.Conn, pgx.TraceBatchEndData) {}

func (n *notes) TraceQueryStart(ctx context.Context, _ *pgx.Conn, data pgx.TraceQueryStartData) context.Context {
	n.note(data.SQL, data.Args)
	return ctx
}

func (*notes) TraceQueryEnd(context.Context, *pgx.Conn, pgx.TraceQueryEndData) {}

// plan is a part of a plan that was carried out, in PostgreSQL's words.
//
//nolint:tagliatelle // see above
type plan struct {
	Node     string  `json:"Node Type"`
	Relation string  `json:"Relation Name"`
	Index    string  `json:"Index Name"`
	Loops    float64 `json:"Actual Loops"`
	Hit      int     `json:"Shared Hit Blocks"` // with all that is below
	Read     int     `json:"Shared Read Blocks"`
	Plans    []plan  `json:"Plans"`
}

// scans are the parts that have read a table of keys or answers.
func (p plan) scans() []plan {
	var scans []plan
	if strings.HasPrefix(p.Relation, "idempotency_") && strings.HasSuffix(p.Node, "Scan") && p.Loops > 0 {
		scans = append(scans, p)
	}
	for _, part := range p.Plans {
		scans = append(scans, part.scans()...)
	}
	return scans
}

// planModes are the plans that PostgreSQL may choose for a prepared statement: one for these arguments, and one for any.
var planModes = []string{"force_custom_plan", "force_generic_plan"}

// explain carries statements out, in one transaction that is undone, and gives the plans of those about keys.
func (k *keyTable) explain(mode string, statements []statement) []plan {
	k.tb.Helper()
	tx, err := k.pool.Begin(k.tb.Context())
	k.must(err)
	defer func() { k.must(tx.Rollback(context.WithoutCancel(k.tb.Context()))) }()
	_, err = tx.Exec(k.tb.Context(), `SELECT set_config('plan_cache_mode', $1, true)`, mode)
	k.must(err)
	var plans []plan
	for _, s := range statements {
		if !strings.Contains(s.sql, "idempotency_") {
			_, err = tx.Exec(k.tb.Context(), s.sql, s.arguments...)
			k.must(err)
			continue
		}
		var text []byte
		k.must(tx.QueryRow(k.tb.Context(), "EXPLAIN (ANALYZE, BUFFERS, FORMAT JSON) "+k.execution(tx, s), pgx.QueryExecModeSimpleProtocol).Scan(&text))
		var explained []struct {
			Plan plan `json:"Plan"` //nolint:tagliatelle // as above
		}
		k.must(json.Unmarshal(text, &explained))
		plans = append(plans, explained[0].Plan)
	}
	return plans
}

// execution prepares a statement as the driver does, and gives the SQL that executes it.
func (k *keyTable) execution(tx pgx.Tx, s statement) string {
	k.tb.Helper()
	k.next++
	name := fmt.Sprintf("explained_%d", k.next)
	prepared, err := tx.Prepare(k.tb.Context(), name, s.sql)
	k.must(err)
	literals := make([]string, 0, len(prepared.ParamOIDs))
	for i, oid := range prepared.ParamOIDs {
		text, err := tx.Conn().TypeMap().Encode(oid, pgx.TextFormatCode, s.arguments[i], nil)
		k.must(err)
		literal := "NULL"
		if text != nil {
			literal = "'" + strings.ReplaceAll(string(text), "'", "''") + "'"
		}
		literals = append(literals, literal)
	}
	if len(literals) == 0 {
		return "EXECUTE " + name
	}
	return "EXECUTE " + name + "(" + strings.Join(literals, ", ") + ")"
}

// keyWork is something that is done to keys, as the statements of one time.
type keyWork struct {
	name       string
	statements func(k *keyTable) []statement
	limit      int // the pages that it may touch, in a table of whatever size: the ways down the indexes, and the rows' own
}

const (
	cleanUpSize = 100   // keys
	slowKeys    = 1_000 // that have no answer yet
)

// keyWorks are all that touch the keys' tables often. Those that change something are noted in another database, where they succeed, so
// that they can be done here once more.
func keyWorks(other *keyTable) []keyWork {
	order := other.notes.of(func() { other.order() })
	claim := other.notes.of(func() { other.claim() })
	other.fillExpired(cleanUpSize)
	cleanUp := other.notes.of(func() { other.cleanUp(cleanUpSize) })
	is := func(s []statement) func(*keyTable) []statement { return func(*keyTable) []statement { return s } }
	return []keyWork{
		{"claim", is(claim), 25},
		{"answer", withKey(other, other.answer), 40},
		{"renewal", withKey(other, func(held idempotency.Held) { other.must(other.store.RenewKey(other.tb.Context(), held, benchLease)) }), 25},
		{"write while the key is held", withKey(other, func(held idempotency.Held) {
			_, err := other.store.PutStock(other.tb.Context(), benchAccount, benchSKU(1), 1, &held, nil)
			other.must(err)
		}), 15},
		{"order, begin to end", is(order), 60},
		{"look-up of an absent key", func(k *keyTable) []statement {
			return k.notes.of(func() { k.lookUpAbsent() })
		}, 10},
		{"look-up of an answer", func(k *keyTable) []statement {
			held := k.claim()
			k.answer(held)
			return k.notes.of(func() { k.lookUp(held.Key, true) })
		}, 15},
		{"clean-up of a hundred", is(cleanUp), cleanUpSize * 30},
	}
}

// withKey gives the statements of what is done with a key that is held, in whatever table.
func withKey(other *keyTable, do func(idempotency.Held)) func(*keyTable) []statement {
	noted := other.claim()
	statements := other.notes.of(func() { do(noted) })
	return func(k *keyTable) []statement {
		held := k.claim()
		same := make([]statement, 0, len(statements))
		for _, s := range statements {
			same = append(same, s.with(noted.Key, held.Key, noted.Fence, held.Fence))
		}
		return same
	}
}

// with gives the statement with other arguments in place of these.
func (s statement) with(replace ...any) statement {
	s.arguments = slices.Clone(s.arguments)
	for i, argument := range s.arguments {
		for pair := range slices.Chunk(replace, 2) {
			if argument == pair[0] {
				s.arguments[i] = pair[1]
			}
		}
	}
	return s
}

// checkPages fails the test where work on a filled table reads it from one end to the other, or touches more pages than it may; it gives
// the pages.
func (k *keyTable) checkPages(w keyWork, mode string) int {
	k.tb.Helper()
	pages := 0
	statements := w.statements(k)
	k.explain(mode, statements) // what a first time reads besides, it keeps in mind
	for _, p := range k.explain(mode, statements) {
		pages += p.Hit + p.Read
		var answers int
		for _, scan := range p.scans() {
			if scan.Node != "Index Scan" && scan.Node != "Index Only Scan" {
				k.tb.Errorf("%s, %s: %s on %s", w.name, mode, scan.Node, scan.Relation)
			}
			if strings.HasPrefix(scan.Relation, "idempotency_answers") {
				answers++
			}
		}
		if answers > 1 {
			k.tb.Errorf("%s, %s: %d partitions are read, want one", w.name, mode, answers)
		}
	}
	if pages == 0 || pages > w.limit {
		k.tb.Errorf("%s, %s: %d pages touched, want 1 to %d", w.name, mode, pages, w.limit)
	}
	return pages
}

// What is done to a key costs as little in a full table as in an empty one: the pages that it touches are bounded. What a table of
// millions costs, TestTenMillionKeys measures (-tags scale).
func TestKeysCostAsLittleInAFullTable(t *testing.T) {
	t.Parallel()
	const keys = 20_000
	full := newKeyTable(t)
	full.fill(1, keys, keys)
	full.exec(`ANALYZE`)
	full.begin(slowKeys) // of which the planner knows nothing, as in a large table, where its sample has none of them
	for _, work := range keyWorks(newKeyTable(t)) {
		for _, mode := range planModes {
			pages := full.checkPages(work, mode)
			t.Logf("%-28s %-20s %4d pages", work.name, mode, pages)
		}
	}
}
