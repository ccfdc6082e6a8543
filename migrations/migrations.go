// Package migrations holds the database's schema as numbered SQL files and applies it. The files are embedded, so that
// the binary alone can bring any PostgreSQL 14 or newer up to date.
package migrations

import (
	"context"
	"embed"
	"errors"
	"fmt"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/stdlib"
	"github.com/pressly/goose/v3"
	"github.com/pressly/goose/v3/lock"
)

// Files are the migrations, in the order of their numbers.
//
//go:embed *.sql
var Files embed.FS

// Status is one migration and whether the database has it.
type Status struct {
	File    string
	Applied bool
}

// Up brings the database to the newest schema and returns the files that it applied. Several processes may call it at
// once: a session lock lets one work while the others wait.
func Up(ctx context.Context, databaseURL string) ([]string, error) {
	return migrate(ctx, databaseURL, func(p *goose.Provider) ([]*goose.MigrationResult, error) {
		return p.Up(ctx)
	})
}

// Down takes the newest migration back and returns its file. Its data is lost.
func Down(ctx context.Context, databaseURL string) ([]string, error) {
	return migrate(ctx, databaseURL, func(p *goose.Provider) ([]*goose.MigrationResult, error) {
		result, err := p.Down(ctx)
		return []*goose.MigrationResult{result}, err //nolint:wrapcheck // wrapped by migrate
	})
}

// List tells of every migration whether the database has it.
func List(ctx context.Context, databaseURL string) ([]Status, error) {
	var list []Status
	err := withProvider(databaseURL, func(p *goose.Provider) error {
		statuses, err := p.Status(ctx)
		if err != nil {
			return fmt.Errorf("read the schema's version: %w", err)
		}
		for _, s := range statuses {
			list = append(list, Status{File: s.Source.Path, Applied: s.State == goose.StateApplied})
		}
		return nil
	})
	return list, err
}

func migrate(ctx context.Context, databaseURL string, run func(*goose.Provider) ([]*goose.MigrationResult, error)) ([]string, error) {
	var files []string
	err := withProvider(databaseURL, func(p *goose.Provider) error {
		results, err := run(p)
		if err != nil {
			return fmt.Errorf("migrate the database: %w", err)
		}
		for _, r := range results {
			files = append(files, r.Source.Path)
		}
		return ctx.Err()
	})
	return files, err
}

func withProvider(databaseURL string, use func(*goose.Provider) error) error {
	config, err := pgx.ParseConfig(databaseURL)
	if err != nil {
		return errors.New("DATABASE_URL is no PostgreSQL URL") // the parser's own text can hold the password
	}
	db := stdlib.OpenDB(*config)
	defer func() { _ = db.Close() }()
	locker, err := lock.NewPostgresSessionLocker()
	if err != nil {
		return fmt.Errorf("make the migration lock: %w", err)
	}
	provider, err := goose.NewProvider(goose.DialectPostgres, db, Files, goose.WithSessionLocker(locker), goose.WithVerbose(false))
	if err != nil {
		return fmt.Errorf("read the migrations: %w", err)
	}
	return use(provider)
}
