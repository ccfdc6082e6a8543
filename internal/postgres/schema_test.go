package postgres_test

import (
	"errors"
	"maps"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/stdlib"
	"github.com/pressly/goose/v3"

	"paysaga/internal/pgdev/pgtest"
	"paysaga/migrations"
	"paysaga/reconcile"
	settlement "paysaga/reconcile/statement"
	"paysaga/saga"
)

// SQLSTATEs of a broken rule.
const (
	checkViolation   = "23514"
	uniqueViolation  = "23505"
	foreignViolation = "23503"
)

// rule is a statement that the schema must refuse, whatever code sends it.
type rule struct{ sql, code, constraint string }

// schemaRules are tried on a database with one order for two cups, whose charge is about to be sent.
func schemaRules() map[string]rule {
	check := func(constraint, sql string) rule { return rule{sql, checkViolation, constraint} }
	const newStep = `INSERT INTO saga_steps (account_id, saga_key, name, attempt, sub_key, status) SELECT account_id, key, `
	const newSaga = `INSERT INTO sagas (account_id, key, order_id, generation, locked_until, kind, state, next_attempt_at) SELECT account_id, gen_random_uuid(), order_id, 1, now(), `
	const newRefund = `INSERT INTO refunds (account_id, id, order_id, amount, status) SELECT account_id, key, order_id, `
	return map[string]rule{
		"more reserved than on hand":      check("stock_reserved_within_on_hand", `UPDATE stock SET reserved = 11`),
		"less on hand than reserved":      check("stock_reserved_within_on_hand", `UPDATE stock SET on_hand = 1`),
		"less than nothing reserved":      check("stock_reserved_within_on_hand", `UPDATE stock SET reserved = -1`),
		"a SKU without a name":            check("", `INSERT INTO stock (account_id, sku, on_hand) VALUES ('shop1', '', 1)`),
		"stock of nobody":                 {`INSERT INTO stock (account_id, sku, on_hand) VALUES ('nobody', 'cup', 1)`, foreignViolation, "stock_account_id_fkey"},
		"an account with a bad name":      check("", `INSERT INTO accounts VALUES ('Not OK')`),
		"a role outside the list":         check("", `INSERT INTO api_keys (account_id, id, name, role, hash) VALUES ('shop1', gen_random_uuid(), 'k', 'root', sha256('k'))`),
		"a hash that is none":             check("", `INSERT INTO api_keys (account_id, id, name, role, hash) VALUES ('shop1', gen_random_uuid(), 'k', 'merchant', 'k')`),
		"captured more than ordered":      check("orders_captured_within_amount", `UPDATE orders SET captured_amount = amount + 1`),
		"captured less than nothing":      check("", `UPDATE orders SET captured_amount = -1`),
		"refunded more than captured":     check("orders_refunds_within_captured", `UPDATE orders SET captured_amount = 10, refunded_amount = 11`),
		"refunded less than nothing":      check("orders_refunds_within_captured", `UPDATE orders SET refunded_amount = -1`),
		"refunding more than captured":    check("orders_refunds_within_captured", `UPDATE orders SET captured_amount = 10, refunding_amount = 11`),
		"refunding less than nothing":     check("orders_refunds_within_captured", `UPDATE orders SET captured_amount = 10, refunded_amount = 2, refunding_amount = -1`),
		"refunds beyond the capture":      check("orders_refunds_within_captured", `UPDATE orders SET captured_amount = 10, refunded_amount = 6, refunding_amount = 5`),
		"an unknown capture mode":         check("orders_capture_mode", `UPDATE orders SET capture_mode = 'later'`),
		"an unknown way to decline":       check("orders_on_decline", `UPDATE orders SET on_decline = 'ignore'`),
		"an order for nothing":            check("", `UPDATE orders SET amount = 0`),
		"an order's unknown status":       check("", `UPDATE orders SET status = 'lost'`),
		"a payment's unknown status":      check("", `UPDATE orders SET payment_status = 'lost'`),
		"a currency in small letters":     check("", `UPDATE orders SET currency = 'eur'`),
		"a line of no pieces":             check("", `UPDATE order_items SET quantity = 0`),
		"a line below nothing":            check("", `UPDATE order_items SET unit_amount = -1`),
		"a SKU in two lines":              {`INSERT INTO order_items SELECT account_id, order_id, line + 1, sku, 1, 1 FROM order_items`, uniqueViolation, ""},
		"a saga's unknown state":          check("", `UPDATE sagas SET state = 'lost'`),
		"fewer failures than none":        check("", `UPDATE sagas SET failures = -1`),
		"generation zero":                 check("", `UPDATE sagas SET generation = 0`),
		"a live saga that is never due":   check("sagas_live_have_a_next_attempt", `UPDATE sagas SET next_attempt_at = NULL`),
		"an ended saga that is due":       check("sagas_live_have_a_next_attempt", `UPDATE sagas SET state = 'completed'`),
		"a parked saga that is due":       check("sagas_live_have_a_next_attempt", `UPDATE sagas SET state = 'needs_review'`),
		"a saga without an order":         {`INSERT INTO sagas (account_id, key, order_id, generation, state, next_attempt_at, locked_until) SELECT account_id, none, none AS order_id, 1, 'started', now(), now() FROM sagas, uuid_in('00000000-0000-0000-0000-000000000000') AS none`, foreignViolation, ""},
		"an unknown kind of saga":         check("sagas_kind", `UPDATE sagas SET kind = 'gift'`),
		"a refund with the order's key":   check("sagas_one_for_the_order", `UPDATE sagas SET kind = 'refund'`),
		"a second saga for an order":      check("sagas_one_for_the_order", newSaga+`'order', 'started', now() FROM sagas`),
		"an order that is being refunded": check("sagas_state_of_its_kind", `UPDATE sagas SET state = 'refunding'`),
		"a refund that charges":           check("sagas_state_of_its_kind", newSaga+`'refund', 'charging', now() FROM sagas`),
		"a live refund that is never due": check("sagas_live_have_a_next_attempt", newSaga+`'refund', 'refunding', NULL FROM sagas`),
		"a refund of nothing":             check("refunds_amount_positive", newRefund+`0, 'pending' FROM sagas`),
		"a refund's unknown status":       check("refunds_status", newRefund+`1, 'lost' FROM sagas`),
		"a refund without a saga":         {`INSERT INTO refunds (account_id, id, order_id, amount, status) SELECT account_id, gen_random_uuid(), order_id, 1, 'pending' FROM sagas`, foreignViolation, "refunds_account_id_id_fkey"},
		"a refund without an order":       {`INSERT INTO refunds (account_id, id, order_id, amount, status) SELECT account_id, key, gen_random_uuid(), 1, 'pending' FROM sagas`, foreignViolation, "refunds_account_id_order_id_fkey"},
		"a capture below nothing":         check("saga_steps_amount_not_negative", `UPDATE saga_steps SET amount = -1`),
		"two live charges":                {newStep + `'charge', 2, 'another', 'pending' FROM sagas`, uniqueViolation, "saga_steps_one_live_charge"},
		"a second charge that is done":    {newStep + `'charge', 2, 'another', 'done' FROM sagas`, uniqueViolation, "saga_steps_one_live_charge"},
		"two calls under one identifier":  {`INSERT INTO saga_steps (account_id, saga_key, name, attempt, sub_key, status, provider) SELECT account_id, saga_key, 'refund', 1, sub_key, 'pending', provider FROM saga_steps WHERE name = 'charge'`, uniqueViolation, "saga_steps_by_sub_key"},
		"an attempt twice":                {newStep + `'charge', 1, 'another', 'failed' FROM sagas`, uniqueViolation, "saga_steps_pkey"},
		"a step's impossible name":        check("", newStep+`'Ship!', 1, 'another', 'done' FROM sagas`),
		"a step's unknown status":         check("", `UPDATE saga_steps SET status = 'lost'`),
		"attempt zero":                    check("", `UPDATE saga_steps SET attempt = 0`),
		"fewer sends than none":           check("", `UPDATE saga_steps SET sends = -1`),
		"a sub-key that is too long":      check("", `UPDATE saga_steps SET sub_key = repeat('k', 65)`),
		"a step without a saga":           {`INSERT INTO saga_steps (account_id, saga_key, name, attempt, sub_key, status) VALUES ('shop1', gen_random_uuid(), 'void', 1, 'k', 'done')`, foreignViolation, ""},
		"a reservation of nothing":        check("", `UPDATE reservations SET quantity = 0`),
		"a reservation's bad status":      check("", `UPDATE reservations SET status = 'lost', ended_at = now()`),
		"held and ended":                  check("", `UPDATE reservations SET ended_at = now()`),
		"sold without an end":             check("", `UPDATE reservations SET status = 'sold'`),
		"a key that is too short":         check("", `UPDATE idempotency_keys SET key = repeat('k', 15)`),
		"a key that is too long":          check("", `UPDATE idempotency_keys SET key = repeat('k', 256)`),
		"a fingerprint that is none":      check("", `UPDATE idempotency_keys SET fingerprint = 'print'`),
		"a key's unknown status":          check("", `UPDATE idempotency_keys SET status = 'LOST'`),
		"in progress without a lock":      check("idempotency_keys_answered_or_locked", `UPDATE idempotency_keys SET locked_until = NULL`),
		"in progress with an answer":      check("idempotency_keys_answered_or_locked", `UPDATE idempotency_keys SET response_status = 201, answer_on = now(), answer_id = 1`),
		"answered without an answer":      check("idempotency_keys_answered_or_locked", `UPDATE idempotency_keys SET status = 'COMPLETED', locked_until = NULL, completed_at = now()`),
		"an answer of the server's fault": check("", `UPDATE idempotency_keys SET status = 'FAILED', locked_until = NULL, completed_at = now(), response_status = 500, answer_on = now(), answer_id = 1`),
		"one finding twice":               {`INSERT INTO findings (account_id, saga_key, order_id, kind, detail) SELECT account_id, key, order_id, 'k', 'd' FROM sagas, generate_series(1, 2)`, uniqueViolation, "findings_one_open_of_a_kind"},
		"resolved without a word":         check("", `INSERT INTO findings (account_id, saga_key, order_id, kind, detail, resolved_at) SELECT account_id, key, order_id, 'k', 'd', now() FROM sagas`),
	}
}

// reconciliationRules are tried on the same database, with a run, a settlement file and a transaction in it.
func reconciliationRules() map[string]rule {
	check := func(constraint, sql string) rule { return rule{sql, checkViolation, constraint} }
	const newFinding = `INSERT INTO findings (source, account_id, saga_key, order_id, kind, detail, provider, reference, severity) SELECT `
	const newLine = `INSERT INTO settlement_lines (provider, id, file_id, number, kind, gross, fee, net, currency, booked_at) SELECT `
	return map[string]rule{
		"a run's unknown mode":           check("reconciliation_runs_mode", `UPDATE reconciliation_runs SET mode = 'guess'`),
		"a run about no provider":        check("reconciliation_runs_providers", `UPDATE reconciliation_runs SET providers = '{}'`),
		"a run's unknown state":          check("reconciliation_runs_state", `UPDATE reconciliation_runs SET state = 'lost'`),
		"a run's unknown stage":          check("reconciliation_runs_stage", `UPDATE reconciliation_runs SET stage = 'lost'`),
		"a run that nobody wants":        check("reconciliation_runs_requested_by", `UPDATE reconciliation_runs SET requested_by = ''`),
		"a run that ended and did not":   check("reconciliation_runs_end", `UPDATE reconciliation_runs SET state = 'done'`),
		"a run that ended as it runs":    check("reconciliation_runs_end", `UPDATE reconciliation_runs SET finished_at = now()`),
		"a window that ends before":      check("reconciliation_runs_window", `UPDATE reconciliation_runs SET since = now(), until = now() - interval '1 s'`),
		"a run requested by nobody":      check("reconciliation_runs_requested", `UPDATE reconciliation_runs SET state = 'requested'`),
		"a run of no file":               {`UPDATE reconciliation_runs SET statement_id = 0`, foreignViolation, "reconciliation_runs_statement"},
		"a second lease":                 {`INSERT INTO reconciliation_lease DEFAULT VALUES`, uniqueViolation, "reconciliation_lease_pkey"},
		"another second lease":           check("reconciliation_lease_single", `INSERT INTO reconciliation_lease (single) VALUES (false)`),
		"coverage of no time":            check("provider_coverage_window", `INSERT INTO provider_coverage VALUES ('fake', now(), now())`),
		"a transaction's unknown kind":   check("provider_transactions_kind", `UPDATE provider_transactions SET kind = 'gift'`),
		"a transaction without a name":   check("provider_transactions_reference", `UPDATE provider_transactions SET reference = ''`),
		"a transaction's unknown status": check("provider_transactions_status", `UPDATE provider_transactions SET status = 'lost'`),
		"a transaction's odd currency":   check("provider_transactions_currency", `UPDATE provider_transactions SET currency = 'eur'`),
		"refunded less than not told":    check("provider_transactions_refunded", `UPDATE provider_transactions SET refunded = -2`),
		"a transaction twice":            {`INSERT INTO provider_transactions SELECT * FROM provider_transactions`, uniqueViolation, "provider_transactions_pkey"},
		"a file's odd digest":            check("settlement_files_digest", `UPDATE settlement_files SET digest = 'd'`),
		"a file's unknown state":         check("settlement_files_state", `UPDATE settlement_files SET state = 'lost'`),
		"a file that is read and is not": check("settlement_files_end", `UPDATE settlement_files SET state = 'read'`),
		"a file twice":                   {`INSERT INTO settlement_files (provider, name, digest) SELECT provider, 'other', digest FROM settlement_files`, uniqueViolation, ""},
		"a line's unknown kind":          check("settlement_lines_kind", newLine+`'fake', 'b', 1, 1, 'gift', 1, 0, 1, 'EUR', now()`),
		"a line without an id":           check("settlement_lines_id", newLine+`'fake', '', 1, 1, 'fee', 1, 0, 1, 'EUR', now()`),
		"a line's odd currency":          check("settlement_lines_currency", newLine+`'fake', 'b', 1, 1, 'fee', 1, 0, 1, '', now()`),
		"a line before the first":        check("settlement_lines_number", newLine+`'fake', 'b', 1, 0, 'fee', 1, 0, 1, 'EUR', now()`),
		"a booking twice":                {newLine + `'fake', 'b', 1, 1, 'fee', 1, 0, 1, 'EUR', now() FROM generate_series(1, 2)`, uniqueViolation, "settlement_lines_pkey"},
		"a finding of an unknown finder": check("findings_source", newFinding+`'rumour', account_id, key, order_id, 'k', 'd', '', '', 'low' FROM sagas`),
		"a finding's unknown severity":   check("findings_severity", newFinding+`'saga', account_id, key, order_id, 'k', 'd', '', '', 'grave' FROM sagas`),
		"a finding of half a saga":       check("findings_saga_whole", newFinding+`'reconciliation', account_id, key, NULL, 'k', 'd', 'p', 'r', 'low' FROM sagas`),
		"a saga's finding about none":    check("findings_of_a_saga_name_it", newFinding+`'saga', '', NULL,NULL, 'k', 'd', 'p', 'r', 'low'`),
		"a finding about nothing":        check("findings_of_nobody_name_something", newFinding+`'reconciliation', '', NULL,NULL, 'k', 'd', 'p', '', 'low'`),
		"a finding about a thing twice":  {newFinding + `'reconciliation', n::text, NULL::uuid,NULL::uuid, 'k', 'd', 'p', 'r', 'low' FROM generate_series(1, 2) n`, uniqueViolation, "findings_one_open_about_a_thing"},
		"less than nothing at stake":     check("findings_at_stake", `INSERT INTO findings (account_id, saga_key, order_id, kind, detail, at_stake) SELECT account_id, key, order_id, 'k', 'd', -1 FROM sagas`),
		"an event about nothing":         check("outbox_events_about_something", `INSERT INTO outbox_events (account_id, type) VALUES ('shop1', 't')`),
		"two summaries of a day":         {`INSERT INTO outbox_events (account_id, type, data) SELECT 'shop1', 'reconciliation.summary', '{"day": "2026-01-01"}' FROM generate_series(1, 2)`, uniqueViolation, "outbox_events_one_summary_a_day"},
	}
}

func TestSchemaHoldsTheRules(t *testing.T) {
	t.Parallel()
	b := newBundle(t)
	b.begin("rules")
	run, _ := b.runOf(1)
	b.tell(run, payment("pay_1", ""))
	rules := schemaRules()
	maps.Copy(rules, reconciliationRules())
	for name, rule := range rules {
		_, err := b.pool.Exec(b.ctx, rule.sql)
		refused, ok := errors.AsType[*pgconn.PgError](err)
		switch {
		case !ok:
			t.Errorf("%s: %v; want it refused", name, err)
		case refused.Code != rule.code || (rule.constraint != "" && refused.ConstraintName != rule.constraint):
			t.Errorf("%s: %s by %q (%s); want %s by %q", name, refused.Code, refused.ConstraintName, refused.Message, rule.code, rule.constraint)
		}
	}
}

// What failed or was undone makes room for another attempt; nothing else does.
func TestAnotherAttemptNeedsTheLastOneClosed(t *testing.T) {
	t.Parallel()
	b := newBundle(t)
	b.begin("attempts")
	const another = `INSERT INTO saga_steps (account_id, saga_key, name, attempt, sub_key, status)
		SELECT account_id, key, 'charge', 2, 'another', 'pending' FROM sagas`
	for _, status := range []string{"pending", "unknown", "done", "failed", "undone"} {
		b.exec(`UPDATE saga_steps SET status = $1 WHERE name = 'charge'`, status)
		_, err := b.pool.Exec(b.ctx, another)
		if open := status != "failed" && status != "undone"; open == (err == nil) {
			t.Errorf("beside a charge that is %s: %v", status, err)
		}
		b.exec(`DELETE FROM saga_steps WHERE attempt = 2`)
	}
}

// schemaObjects names everything that the migrations made in a database.
func schemaObjects(t *testing.T, url string) []string {
	t.Helper()
	connection, err := pgx.Connect(t.Context(), url)
	if err != nil {
		t.Fatal(err)
	}
	defer connection.Close(t.Context())
	rows, err := connection.Query(t.Context(), `
		SELECT relname || ' ' || relkind::text || COALESCE(': ' || pg_get_indexdef(indexrelid), '')
		FROM pg_class LEFT JOIN pg_index ON indexrelid = pg_class.oid
		WHERE relnamespace = 'public'::regnamespace AND relname NOT LIKE 'goose%'
		UNION SELECT relname || '.' || attname || ' ' || format_type(atttypid, atttypmod) || ' ' || attnotnull || ' '
			|| COALESCE(pg_get_expr(adbin, adrelid), '')
		FROM pg_attribute JOIN pg_class ON pg_class.oid = attrelid LEFT JOIN pg_attrdef ON adrelid = attrelid AND adnum = attnum
		WHERE relnamespace = 'public'::regnamespace AND relkind = 'r' AND attnum > 0 AND NOT attisdropped AND relname NOT LIKE 'goose%'
		UNION SELECT proname FROM pg_proc WHERE pronamespace = 'public'::regnamespace
		UNION SELECT conname || ' ' || pg_get_constraintdef(oid) FROM pg_constraint
		WHERE connamespace = 'public'::regnamespace AND conname NOT LIKE 'goose%' ORDER BY 1`)
	if err != nil {
		t.Fatal(err)
	}
	names, err := pgx.CollectRows(rows, pgx.RowTo[string])
	if err != nil {
		t.Fatal(err)
	}
	return names
}

func TestMigrationsGoDownAndUpAgain(t *testing.T) {
	t.Parallel()
	url := pgtest.EmptyURL(t)
	applied, err := migrations.Up(t.Context(), url)
	if err != nil || len(applied) == 0 {
		t.Fatalf("up: %v, %v", applied, err)
	}
	first := schemaObjects(t, url)
	for range applied {
		if _, err := migrations.Down(t.Context(), url); err != nil {
			t.Fatalf("down: %v", err)
		}
	}
	if left := schemaObjects(t, url); len(left) != 0 {
		t.Errorf("down left %v", left)
	}
	if again, err := migrations.Up(t.Context(), url); err != nil || !slices.Equal(again, applied) {
		t.Fatalf("up again: %v, %v", again, err)
	}
	if diff := cmp.Diff(first, schemaObjects(t, url)); diff != "" {
		t.Errorf("up again (-first +second):\n%s", diff)
	}
}

// The migration can be taken back from a database that is in use, and leaves the schema as it was before it.
func TestPaymentsMigrationGoesDownWithData(t *testing.T) {
	t.Parallel()
	const before = 1 // the version below it
	b := newBundle(t)
	url := b.pool.Config().ConnString()
	order := b.confirmed("order")
	b.refund(order, "refund", 300)
	b.ask(b.held("held"), "capture", capture)
	newest := schemaObjects(t, url)
	if _, err := migrator(t, url).DownTo(t.Context(), before); err != nil {
		t.Fatalf("down: %v", err)
	}
	empty := pgtest.EmptyURL(t)
	if _, err := migrator(t, empty).UpTo(t.Context(), before); err != nil {
		t.Fatalf("up to the older schema: %v", err)
	}
	if diff := cmp.Diff(schemaObjects(t, empty), schemaObjects(t, url)); diff != "" {
		t.Errorf("down (-the older schema +this):\n%s", diff)
	}
	for what, want := range map[string]int{
		"sagas": 2, "orders": 2, "saga_steps WHERE name = 'capture'": 0, "idempotency_keys": 3,
		"orders WHERE captured_amount = 1200 AND refunded_amount = 0": 1,
	} {
		if got := b.count(`SELECT count(*) FROM ` + what); got != want {
			t.Errorf("after down: %d %s, want %d", got, what, want)
		}
	}
	if _, err := migrations.Up(t.Context(), url); err != nil {
		t.Fatalf("up again: %v", err)
	}
	if diff := cmp.Diff(newest, schemaObjects(t, url)); diff != "" {
		t.Errorf("up again (-first +second):\n%s", diff)
	}
	b.pool.Reset() // its prepared statements are of the tables that were
	if again := b.load(order); again.Kind != saga.KindOrder || again.State != saga.Completed || again.Order.Payment.CapturedAmount != 1200 {
		t.Errorf("the order is now %+v", again)
	}
}

// Reconciliation can be taken back from a database in which it is in use. What sagas found stays.
func TestReconciliationMigrationGoesDownWithData(t *testing.T) {
	t.Parallel()
	const before = 5 // the version below it
	b := newBundle(t)
	url := b.pool.Config().ConnString()
	order := b.paid("order", "pay_1")
	run, _ := b.runOf(1)
	b.tell(run, payment("pay_1", ""))
	b.must(b.store.PutLines(b.ctx, run, "fake", []settlement.Line{line(2, "b_1")}))
	b.judge(run, []saga.Saga{order}, ofOrder(order, reconcile.AmountMismatch), ofNobody("pay_9"))
	b.park(b.begin("parked"), saga.Finding{Kind: "k", Detail: "d"})
	if _, err := b.store.PutSummary(b.ctx); err != nil {
		t.Fatal(err)
	}
	newest := schemaObjects(t, url)
	if _, err := migrator(t, url).DownTo(t.Context(), before); err != nil {
		t.Fatalf("down: %v", err)
	}
	empty := pgtest.EmptyURL(t)
	if _, err := migrator(t, empty).UpTo(t.Context(), before); err != nil {
		t.Fatalf("up to the older schema: %v", err)
	}
	if diff := cmp.Diff(schemaObjects(t, empty), schemaObjects(t, url)); diff != "" {
		t.Errorf("down (-the older schema +this):\n%s", diff)
	}
	for what, want := range map[string]int{"orders": 2, "findings": 1, "outbox_events WHERE type LIKE 'reconciliation%'": 0} {
		if got := b.count(`SELECT count(*) FROM ` + what); got != want {
			t.Errorf("after down: %d %s, want %d", got, what, want)
		}
	}
	if _, err := migrations.Up(t.Context(), url); err != nil {
		t.Fatalf("up again: %v", err)
	}
	if diff := cmp.Diff(newest, schemaObjects(t, url)); diff != "" {
		t.Errorf("up again (-first +second):\n%s", diff)
	}
	b.pool.Reset() // its prepared statements are of the tables that were
	b.wantKept("up again", b.onlyFinding(), map[string]any{"found by": reconcile.BySaga, "state": reconcile.FindingOpen, "severity": reconcile.High})
}

// migrator goes to a version of the schema, as only tests need.
func migrator(t *testing.T, url string) *goose.Provider {
	t.Helper()
	config, err := pgx.ParseConfig(url)
	if err != nil {
		t.Fatal(err)
	}
	db := stdlib.OpenDB(*config)
	t.Cleanup(func() { _ = db.Close() })
	provider, err := goose.NewProvider(goose.DialectPostgres, db, migrations.Files)
	if err != nil {
		t.Fatal(err)
	}
	return provider
}

func TestMigrationsWithNothingToDo(t *testing.T) {
	t.Parallel()
	url := pgtest.URL(t)
	if applied, err := migrations.Up(t.Context(), url); err != nil || len(applied) != 0 {
		t.Errorf("up: %v, %v; want nothing to do", applied, err)
	}
	list, err := migrations.List(t.Context(), url)
	if err != nil || len(list) == 0 {
		t.Fatalf("list: %v, %v", list, err)
	}
	for _, status := range list {
		if !status.Applied {
			t.Errorf("%s is not applied", status.File)
		}
	}
}
