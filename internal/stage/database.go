package stage

import (
	"time"

	"github.com/jackc/pgx/v5/pgxpool"
)

// poolConnections is enough for what one play does at once. Sixteen stages fit into a private server.
const poolConnections = 10

// openDatabase connects to a database and gives it a clock that can be moved.
func openDatabase(r Reporter, url string) *pgxpool.Pool {
	r.Helper()
	config, err := pgxpool.ParseConfig(url)
	if err != nil {
		r.Fatalf("the stage's database: its URL cannot be read") // the parser's own text can hold the password
	}
	config.MaxConns = poolConnections
	config.ConnConfig.RuntimeParams["search_path"] = clockPath
	pool, err := pgxpool.NewWithConfig(r.Context(), config)
	if err != nil {
		r.Fatalf("the stage's database: %v", err)
	}
	r.Cleanup(pool.Close)
	if err := addClock(r.Context(), pool); err != nil {
		r.Fatalf("the stage's database: %v", err)
	}
	return pool
}

func (s *Stage) setDatabaseClock() {
	s.Helper()
	s.Exec(`UPDATE stage.clock SET ahead = $1`, time.Duration(s.clock.database.Load()))
}

// Clear empties the database but for the stock.
func (s *Stage) Clear() {
	s.Helper()
	s.Exec(`DO $$ DECLARE t text; BEGIN
		FOREACH t IN ARRAY ARRAY['settlement_lines', 'reconciliation_runs', 'settlement_files', 'provider_transactions', 'provider_coverage',
			'provider_compared', 'reconciliation_unclaimed', 'reconciliation_scope', 'webhook_events', 'outbox_events', 'findings', 'refunds',
			'idempotency_keys', 'idempotency_answers', 'reservations', 'saga_steps', 'sagas', 'order_items', 'orders', 'stock']
		LOOP EXECUTE 'DELETE FROM ' || t; END LOOP;
	END $$`) // TRUNCATE takes a tenth of a second
	s.Exec(`DELETE FROM audit_log WHERE action LIKE 'saga.%'`) // the next order has the same id
	s.Exec(`UPDATE reconciliation_lease SET locked_until = '-infinity', run_id = NULL, scope_of = NULL, unclaimed_of = NULL`)
	s.fillStock()
}

func (s *Stage) fillStock() {
	s.Helper()
	for sku, onHand := range s.stock {
		s.Exec(`INSERT INTO stock (account_id, sku, on_hand) VALUES ($1, $2, $3)`, Account, sku, onHand)
	}
}

// Exec executes a statement.
func (s *Stage) Exec(sql string, arguments ...any) {
	s.Helper()
	if _, err := s.Pool.Exec(s.Context(), sql, arguments...); err != nil {
		s.Fatalf("%s: %v", sql, err)
	}
}

// Count reads one number.
func (s *Stage) Count(sql string, arguments ...any) (n int64) {
	s.Helper()
	if err := s.Pool.QueryRow(s.Context(), sql, arguments...).Scan(&n); err != nil {
		s.Fatalf("%s: %v", sql, err)
	}
	return n
}

// Lines reads a column of text.
func (s *Stage) Lines(sql string, arguments ...any) (lines []string) {
	s.Helper()
	rows, err := s.Pool.Query(s.Context(), sql, arguments...)
	s.Must(err)
	defer rows.Close()
	for rows.Next() {
		var line string
		s.Must(rows.Scan(&line))
		lines = append(lines, line)
	}
	s.Must(rows.Err())
	return lines
}
