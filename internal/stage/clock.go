package stage

import (
	"context"
	"fmt"

	"github.com/jackc/pgx/v5/pgxpool"
)

// clockPath is the search path under which now() is a clock that can be moved: stage.now() stands before PostgreSQL's own. It has no space,
// which would be written in a URL in two ways.
const clockPath = "stage,pg_catalog,public"

// addClock gives a database a clock that can be moved, standing at the right time.
func addClock(ctx context.Context, pool *pgxpool.Pool) error {
	for _, statement := range []string{
		`CREATE SCHEMA IF NOT EXISTS stage`,
		`DROP TABLE IF EXISTS stage.clock`,
		`CREATE TABLE stage.clock (ahead interval NOT NULL)`,
		`INSERT INTO stage.clock VALUES ('0')`,
		`CREATE OR REPLACE FUNCTION stage.now() RETURNS timestamptz LANGUAGE sql STABLE AS
			'SELECT pg_catalog.now() + ahead FROM stage.clock'`,
		`DO $$ DECLARE c record; BEGIN
			FOR c IN SELECT table_name, column_name FROM information_schema.columns
				WHERE table_schema = 'public' AND column_default IN ('now()', 'pg_catalog.now()')
			LOOP EXECUTE format('ALTER TABLE public.%I ALTER %I SET DEFAULT stage.now()', c.table_name, c.column_name); END LOOP;
		END $$`,
	} {
		if _, err := pool.Exec(ctx, statement); err != nil {
			return fmt.Errorf("give the database a clock that can be moved: %w", err)
		}
	}
	return nil
}
