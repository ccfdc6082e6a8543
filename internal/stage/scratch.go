package stage

import (
	"context"
	"errors"
	"fmt"
	"net/url"
	"strconv"

	"github.com/jackc/pgx/v5"
)

// ErrNotScratch tells of a database that may have something of somebody's. Nothing in it was changed.
var ErrNotScratch = errors.New("the database is no scratch one, and what is in it would be deleted; make an empty one (createdb scratch) " +
	"and name that")

// looking tells of what is in a database. What belongs to the system or to an extension is nobody's.
const looking = `
	WITH own AS (SELECT oid FROM pg_catalog.pg_namespace WHERE nspname !~ '^pg_' AND nspname <> 'information_schema'),
	extensions AS (SELECT classid, objid FROM pg_catalog.pg_depend WHERE deptype = 'e'),
	things AS (
		SELECT 'schema ' || nspname AS what, 'pg_catalog.pg_namespace'::pg_catalog.regclass::oid AS class, oid FROM pg_catalog.pg_namespace
			WHERE oid IN (SELECT oid FROM own) AND nspname <> 'public'
		UNION ALL SELECT 'table ' || relname, 'pg_catalog.pg_class'::pg_catalog.regclass::oid, oid FROM pg_catalog.pg_class
			WHERE relnamespace IN (SELECT oid FROM own) AND relkind IN ('r', 'p', 'v', 'm', 'f', 'S')
		UNION ALL SELECT 'function ' || proname, 'pg_catalog.pg_proc'::pg_catalog.regclass::oid, oid FROM pg_catalog.pg_proc
			WHERE pronamespace IN (SELECT oid FROM own)
		UNION ALL SELECT 'type ' || typname, 'pg_catalog.pg_type'::pg_catalog.regclass::oid, oid FROM pg_catalog.pg_type
			WHERE typnamespace IN (SELECT oid FROM own) AND typtype IN ('e', 'd')
	)
	SELECT what FROM things WHERE (class, oid) NOT IN (SELECT classid, objid FROM extensions) ORDER BY what LIMIT 1`

// marking is what a stage leaves in a database that was empty. It names the database, so that a copy or a dump of it is no scratch one.
const (
	marking = `CREATE SCHEMA stage;
		CREATE TABLE stage.scratch_database (id bigint NOT NULL);
		COMMENT ON TABLE stage.scratch_database IS 'paysaga fixtures replay may delete all that is in this database';
		INSERT INTO stage.scratch_database SELECT oid FROM pg_catalog.pg_database WHERE datname = pg_catalog.current_database()`
	isMarked = `SELECT EXISTS (SELECT FROM stage.scratch_database JOIN pg_catalog.pg_database ON oid = id
		WHERE datname = pg_catalog.current_database())`
)

// ClaimScratch makes sure that a database is there to be emptied: it has nothing in it, and is marked now, or it was marked when it had
// nothing, and no account has come since. Call it before anything else changes the database; it changes nothing in others.
func ClaimScratch(ctx context.Context, databaseURL string) error {
	return withConnection(ctx, databaseURL, func(connection *pgx.Conn) error {
		return pgx.BeginFunc(ctx, connection, func(tx pgx.Tx) error {
			return lookAndMark(ctx, tx)
		})
	})
}

func lookAndMark(ctx context.Context, tx pgx.Tx) error {
	var thing string
	err := tx.QueryRow(ctx, looking).Scan(&thing)
	if errors.Is(err, pgx.ErrNoRows) {
		if _, err := tx.Exec(ctx, marking); err != nil {
			return fmt.Errorf("mark the scratch database: %w", err)
		}
		return nil
	}
	if err != nil {
		return fmt.Errorf("look what is in the database: %w", err)
	}
	marked, err := holds(ctx, tx, "stage.scratch_database", isMarked)
	if err != nil {
		return err
	}
	if !marked {
		return fmt.Errorf("%w (it has the %s)", ErrNotScratch, thing)
	}
	others, err := holds(ctx, tx, "public.accounts", `SELECT EXISTS (SELECT FROM public.accounts WHERE id <> $1)`, Account)
	if err != nil {
		return err
	}
	if others {
		return fmt.Errorf("%w (it was a scratch one, and has accounts now)", ErrNotScratch)
	}
	return nil
}

// holds tells what a question about a table is answered; false if there is no such table.
func holds(ctx context.Context, tx pgx.Tx, table, question string, arguments ...any) (is bool, err error) {
	err = tx.QueryRow(ctx, `SELECT pg_catalog.to_regclass($1) IS NOT NULL`, table).Scan(&is)
	if err == nil && is {
		err = tx.QueryRow(ctx, question, arguments...).Scan(&is)
	}
	if err != nil {
		return false, fmt.Errorf("look into %s: %w", table, err)
	}
	return is, nil
}

// Copies makes copies of a migrated database that nobody uses, one for each stage, on the same server. They stay until that is removed.
func Copies(ctx context.Context, databaseURL string, n int) (urls []string, err error) {
	address, err := url.Parse(databaseURL)
	if err != nil {
		return nil, errors.New("the database's URL cannot be read") // the parser's own text can hold the password
	}
	template, server := address.Path[min(1, len(address.Path)):], *address
	server.Path = "/postgres" // a database cannot be copied from within
	err = withConnection(ctx, server.String(), func(connection *pgx.Conn) error {
		for i := range n {
			name := template + "_stage_" + strconv.Itoa(i+1)
			statement := "CREATE DATABASE " + pgx.Identifier{name}.Sanitize() + " TEMPLATE " + pgx.Identifier{template}.Sanitize()
			if _, err := connection.Exec(ctx, statement); err != nil {
				return fmt.Errorf("copy the database: %w", err)
			}
			copied := *address
			copied.Path = "/" + name
			urls = append(urls, copied.String())
		}
		return nil
	})
	return urls, err
}

func withConnection(ctx context.Context, databaseURL string, use func(*pgx.Conn) error) error {
	connection, err := pgx.Connect(ctx, databaseURL)
	if err != nil {
		return fmt.Errorf("connect: %w", err)
	}
	defer func() { _ = connection.Close(context.WithoutCancel(ctx)) }()
	return use(connection)
}
