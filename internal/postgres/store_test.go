package postgres_test

import (
	"errors"
	"testing"

	"paysaga/internal/postgres"
)

// A database tells whether it is empty, as nobody has migrated it, or was left at an older schema.
func TestPing(t *testing.T) {
	t.Parallel()
	b := newBundle(t)
	for _, step := range []struct {
		statement string
		want      error
	}{
		{`SELECT`, nil},
		{`ALTER TABLE findings RENAME COLUMN severity TO of_a_newer_schema`, postgres.ErrOldSchema},
		{`ALTER TABLE sagas RENAME TO of_another_program`, postgres.ErrNoSchema},
	} {
		b.exec(step.statement)
		if err := b.store.Ping(b.ctx); !errors.Is(err, step.want) {
			t.Errorf("after %s: %v, want %v", step.statement, err, step.want)
		}
	}
	b.store.Close()
	if err := b.store.Ping(b.ctx); err == nil || errors.Is(err, postgres.ErrNoSchema) || errors.Is(err, postgres.ErrOldSchema) {
		t.Errorf("without connections: %v", err)
	}
}
