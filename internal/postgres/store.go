// Package postgres keeps everything in PostgreSQL. It is the only package with SQL: one file per noun, each statement
// beside its scan. It has no rules of its own: what may be written is decided in package saga and enforced by the
// schema, and mapError is the one place where a broken rule of the schema becomes an error of ours.
package postgres

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgxpool"

	"paysaga/internal/seal"
	"paysaga/reconcile"
	"paysaga/saga"
)

// Store is the database. All its times are the database's.
type Store struct {
	pool *pgxpool.Pool
	ring *seal.Ring // seals what must not be read in a dump: stored answers, client secrets

	digestOnly map[string]bool // endpoints whose answers are kept as a digest
}

// New makes a store over a migrated database.
func New(pool *pgxpool.Pool, ring *seal.Ring) *Store { return &Store{pool: pool, ring: ring} }

// KeepDigestsOnly names the endpoints whose answers are kept as status, headers and SHA-256, without their body. Call it before the
// store is used.
func (s *Store) KeepDigestsOnly(endpoints []string) {
	s.digestOnly = make(map[string]bool, len(endpoints))
	for _, endpoint := range endpoints {
		s.digestOnly[endpoint] = true
	}
}

// Close ends the store's connections. One that has gone silent is left to end with the process: the pool would wait for it, for as long as
// asking the database to give up its statement takes.
func (s *Store) Close() {
	closed := make(chan struct{})
	go func() {
		defer close(closed)
		s.pool.Close()
	}()
	select {
	case <-closed:
	case <-time.After(closeTimeout):
	}
}

// closeTimeout is what the connections of a database that answers need many times over.
const closeTimeout = 2 * time.Second

// Open connects to a database and checks that it answers. maxConnections bounds its connections. A store that only keeps
// API keys needs no ring.
func Open(ctx context.Context, databaseURL string, maxConnections int32, ring *seal.Ring) (*Store, error) {
	config, err := pgxpool.ParseConfig(databaseURL)
	if err != nil {
		return nil, errors.New("DATABASE_URL is no PostgreSQL URL") // the parser's own text can hold the password
	}
	config.MaxConns = maxConnections
	config.ConnConfig.ConnectTimeout = connectTimeout
	config.PingTimeout = connectTimeout // of a connection that was idle, and may have gone silent
	config.ConnConfig.RuntimeParams["application_name"] = "paysaga"
	config.ConnConfig.RuntimeParams["statement_timeout"] = statementTimeout
	config.ConnConfig.RuntimeParams["idle_in_transaction_session_timeout"] = idleTimeout
	pool, err := pgxpool.NewWithConfig(ctx, config)
	if err != nil {
		return nil, fmt.Errorf("connect to the database: %w", err)
	}
	if err := pool.Ping(ctx); err != nil {
		pool.Close()
		return nil, fmt.Errorf("reach the database at %s:%d: %w", config.ConnConfig.Host, config.ConnConfig.Port, err)
	}
	return New(pool, ring), nil
}

// statementTimeout, in milliseconds, ends a statement that hangs on a lock. No statement of ours needs a hundredth of it.
const statementTimeout = "10000"

// idleTimeout, in milliseconds, ends a transaction whose process stands still in the middle of it: others wait for its rows, and do
// that for statementTimeout at most.
const idleTimeout = "3000"

// connectTimeout is well below a client's patience, so that a request meets a dead database as an error, not as silence.
const connectTimeout = 5 * time.Second

// What is wrong with the schema of a database that answers.
var (
	// ErrNoSchema tells that the database has no tables of paysaga.
	ErrNoSchema = errors.New("the database has no schema of paysaga")
	// ErrOldSchema tells that the database has tables of paysaga, but not all that this version works with.
	ErrOldSchema = errors.New("the database's schema is of an older paysaga")
)

// Ping reports whether the database answers and has its schema. Errors: ErrNoSchema, ErrOldSchema.
func (s *Store) Ping(ctx context.Context) error {
	var first, newest bool // the first schema's table, and the newest one's column
	row := s.pool.QueryRow(ctx, `SELECT to_regclass('sagas') IS NOT NULL,
		EXISTS (SELECT 1 FROM pg_attribute WHERE attrelid = to_regclass('findings') AND attname = 'severity')`)
	if err := row.Scan(&first, &newest); err != nil {
		return fmt.Errorf("ask the database: %w", mapError(err))
	}
	switch {
	case !first:
		return ErrNoSchema
	case !newest:
		return ErrOldSchema
	}
	return nil
}

// send runs the statements of a batch as one transaction in one round trip: without an explicit BEGIN, PostgreSQL takes a
// pipeline up to its end as one implicit transaction. Any error undoes all of it.
func (s *Store) send(ctx context.Context, batch *pgx.Batch) error {
	if err := s.pool.SendBatch(ctx, batch).Close(); err != nil {
		return mapError(err)
	}
	return nil
}

// The rules that the statements hold up by paysaga_require.
const (
	ruleLease       = "lease_lost"
	ruleKey         = "key_taken"
	ruleReservation = "reservation_lost"
	ruleSKU         = "unknown_sku"
	ruleRefundable  = "not_refundable"
	ruleLimit       = "key_limit"
	ruleOrder       = "order_changed"
	rulePayment     = "payment_of_another"
	ruleRun         = "run_lease_lost"
)

var (
	errOutOfStock  = errors.New("out of stock")
	errUnknownSKU  = errors.New("unknown SKU")
	errOverRefund  = errors.New("refunds are not within the capture")
	errLimited     = errors.New("the account has begun too many new keys")
	errNoPartition = errors.New("the partition for an answer is missing")
)

// mapError gives a broken rule of the schema its name. Anything else stays what it is: nobody knows whether it happened.
func mapError(err error) error {
	var pg *pgconn.PgError
	if !errors.As(err, &pg) {
		return err
	}
	const (
		ruleBroken      = "PS001" // raised by paysaga_require
		checkViolation  = "23514"
		uniqueViolation = "23505"
	)
	var known error
	switch pg.Code {
	case ruleBroken:
		known = brokenRule(pg.Message)
	case checkViolation, uniqueViolation:
		known = brokenConstraint(pg.ConstraintName)
		if pg.ConstraintName == "" && pg.TableName == "idempotency_answers" { // the check that a partition takes the row
			known = errNoPartition
		}
	}
	if known != nil {
		return known
	}
	if pg.ConstraintName == "" {
		return fmt.Errorf("database: %s (%s)", pg.Message, pg.Code)
	}
	return fmt.Errorf("database: %s (%s, constraint %q)", pg.Message, pg.Code, pg.ConstraintName)
}

func brokenRule(rule string) error {
	switch rule {
	case ruleLease:
		return saga.ErrLeaseLost
	case ruleKey:
		return saga.ErrKeyTaken
	case ruleReservation:
		return saga.ErrReservationLost
	case ruleSKU:
		return errUnknownSKU
	case ruleRefundable:
		return errOverRefund
	case ruleLimit:
		return errLimited
	case ruleOrder:
		return saga.ErrOrderChanged
	case rulePayment:
		return saga.ErrPaymentOfAnother
	case ruleRun:
		return reconcile.ErrLeaseLost
	}
	return nil
}

func brokenConstraint(name string) error {
	switch name {
	case "stock_reserved_within_on_hand":
		return errOutOfStock
	case "orders_refunds_within_captured":
		return errOverRefund
	case "orders_pkey", "sagas_pkey", "saga_steps_by_sub_key": // the key's row was cleaned up, what derived from it is there
		return saga.ErrGenerationUsed
	}
	return nil
}
