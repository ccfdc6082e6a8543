package postgres_test

import (
	"testing"

	"paysaga/internal/pgdev/pgtest"
	"paysaga/internal/postgres"
	"paysaga/internal/seal"
	"paysaga/saga/storetest"
)

// The store in memory, over which package saga is simulated, passes the same suite.
func TestStoreKeepsItsContract(t *testing.T) {
	t.Parallel()
	storetest.Run(t, func(t *testing.T) storetest.Store {
		t.Helper()
		ring, err := seal.NewRing(seal.GenerateKey("test"))
		if err != nil {
			t.Fatal(err)
		}
		pool := pgtest.New(t)
		if _, err := pool.Exec(t.Context(), `INSERT INTO accounts (id) VALUES ($1)`, storetest.Account); err != nil {
			t.Fatal(err)
		}
		return postgres.New(pool, ring)
	})
}
