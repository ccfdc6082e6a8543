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
func New(t testing.TB) *pgxpool.Pool {
	t.Helper()
	config, err := pgxpool.ParseConfig(URL(t))
	if err != nil {
		t.Fatalf("test database: %v", err)
	}
	config.MaxConns = poolConnections
	pool, err := pgxpool.NewWithConfig(t.Context(), config)
	if err != nil {
		t.Fatalf("test database: %v", err)
	}
	t.Cleanup(pool.Close)
	return pool
}

// URL names the test's own, migrated database. It is dropped when the test ends, open connections or not.
func URL(t testing.TB) string {
	t.Helper()
	server := mustServer(t)
	template, err := server.migratedTemplate(t.Context())
	if err != nil {
		t.Fatalf("test database: %v", err)
	}
	return create(t, server, template)
}

// EmptyURL is like URL for a database without a schema, for tests of the migrations themselves.
func EmptyURL(t testing.TB) string {
	t.Helper()
	return create(t, mustServer(t), "template0")
}

// Main runs a package's tests and stops the server that they started. Call it from TestMain, where there is one;
// without it the server stops with the process, and its folder is removed by a later test process.
func Main(m *testing.M) {
	m.Run()
	stopServer(context.Background())
}

func mustServer(t testing.TB) *server {
	t.Helper()
	running, err := startServer()
	if err != nil {
		t.Fatalf("a test needs PostgreSQL: %v", err)
	}
	return running
}

func create(t testing.TB, on *server, template string) string {
	t.Helper()
	name := testDatabasePrefix + strings.ToLower(rand.Text())
	if err := on.createDatabase(t.Context(), name, template); err != nil {
		t.Fatalf("test database: %v", err)
	}
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), cleanupLimit)
		defer cancel()
		if err := on.dropDatabase(ctx, name); err != nil {
			t.Errorf("test database: %v", err)
		}
	})
	return on.databaseURL(name)
}
