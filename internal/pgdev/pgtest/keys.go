package pgtest

import (
	"context"

	"github.com/jackc/pgx/v5/pgxpool"

	"paysaga/internal/hygiene"
)

// NameKeys has a book searched for all idempotency keys of a database and their fingerprints. Call it when a test ends, before its
// database is dropped. A database that the test has taken away or changed is left alone.
func NameKeys(book *hygiene.Book, pool *pgxpool.Pool) {
	ctx, cancel := context.WithTimeout(context.Background(), cleanupLimit)
	defer cancel()
	rows, err := pool.Query(ctx, `SELECT key, fingerprint FROM idempotency_keys`)
	if err != nil {
		return
	}
	defer rows.Close()
	for rows.Next() {
		var key string
		var fingerprint []byte
		if rows.Scan(&key, &fingerprint) == nil {
			book.Secret("an idempotency key", key)
			book.Bytes("a fingerprint", fingerprint)
		}
	}
}
