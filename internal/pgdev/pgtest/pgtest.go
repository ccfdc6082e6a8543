// Package pgtest gives each test a PostgreSQL database of its own: a copy of one migrated template, dropped when the
// test ends. Tests may run in parallel, and so may test processes.
//
// The server is the one that PAYSAGA_TEST_DATABASE_URL names (its role must be allowed to create databases), else a
// container where a Docker engine answers, else a private one (package pgdev). Each test process starts one at
// most. A test that finds no server fails: it is never skipped.
package pgtest

import (
	"context"
	"crypto/rand"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"
)

const (
	// poolConnections is enough for what a test does at once, and leaves room for the tests beside it: a private server
	// takes 200.
	poolConnections = 10
	// cleanupLimit is for dropping a database on a busy machine.
	cleanupLimit = 30 * time.Second
)

// New gives a pool of connections to the test's own, migrated database. It is closed when the test ends.
func New(tb testing.TB) *pgxpool.Pool {
	tb.Helper()
	config, err := pgxpool.ParseConfig(URL(tb))
	if err != nil {
		tb.Fatalf("test database: %v", err)
	}
	config.MaxConns = poolConnections
	pool, err := pgxpool.NewWithConfig(tb.Context(), config)
	if err != nil {
		tb.Fatalf("test database: %v", err)
	}
	tb.Cleanup(pool.Close)
	return pool
}

// URL names the test's own, migrated database. It is dropped when the test ends, open connections or not.
func URL(tb testing.TB) string {
	tb.Helper()
	server := mustServer(tb)
	template, err := server.migratedTemplate(tb.Context())
	if err != nil {
		tb.Fatalf("test database: %v", err)
	}
	return create(tb, server, template)
}

// EmptyURL is like URL for a database without a schema, for tests of the migrations themselves.
func EmptyURL(tb testing.TB) string {
	tb.Helper()
	return create(tb, mustServer(tb), "template0")
}

// Main runs a package's tests and stops the server that they started. Call it from TestMain, where there is one;
// without it the server stops with the process, and its folder is removed by a later test process.
func Main(m *testing.M) {
	m.Run()
	stopServer(context.Background())
}

func mustServer(tb testing.TB) *server {
	tb.Helper()
	running, err := startServer()
	if err != nil {
		tb.Fatalf("a test needs PostgreSQL: %v", err)
	}
	return running
}

func create(tb testing.TB, on *server, template string) string {
	tb.Helper()
	name := testDatabasePrefix + strings.ToLower(rand.Text())
	if err := on.createDatabase(tb.Context(), name, template); err != nil {
		tb.Fatalf("test database: %v", err)
	}
	tb.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), cleanupLimit)
		defer cancel()
		if err := on.dropDatabase(ctx, name); err != nil {
			tb.Errorf("test database: %v", err)
		}
	})
	return on.databaseURL(name)
}
