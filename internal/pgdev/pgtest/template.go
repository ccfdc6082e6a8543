package pgtest

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"io/fs"
	"net/url"

	"github.com/jackc/pgx/v5"

	"paysaga/migrations"
)

const (
	testDatabasePrefix = "paysaga_test_"
	templatePrefix     = "paysaga_template_"
	// fingerprintBytes of the migrations' hash go into the template's name: 64 bits never collide by accident.
	fingerprintBytes = 8
	// templateLock is the advisory lock under which one process makes the template while others wait: "pgtest" in ASCII.
	templateLock = 0x706774657374
)

// migratedTemplate gives the name of a database with today's schema to copy from, made once per server and schema.
func (s *server) migratedTemplate(ctx context.Context) (string, error) {
	s.templateMutex.Lock()
	defer s.templateMutex.Unlock()
	if s.template != "" {
		return s.template, nil
	}
	fingerprint, err := schemaFingerprint(migrations.Files)
	if err != nil {
		return "", err
	}
	name := templatePrefix + fingerprint
	if err := s.ensureTemplate(ctx, name); err != nil {
		return "", fmt.Errorf("make the template: %w", err)
	}
	s.template = name
	return name, nil
}

// ensureTemplate makes the template under another name and renames it when it is complete, so that a template is
// never seen half-made. The lock belongs to the connection: it ends with this process.
func (s *server) ensureTemplate(ctx context.Context, name string) error {
	connection, err := pgx.Connect(ctx, s.url)
	if err != nil {
		return fmt.Errorf("connect: %w", err)
	}
	defer func() { _ = connection.Close(context.WithoutCancel(ctx)) }()
	if _, err := connection.Exec(ctx, `SELECT pg_advisory_lock($1)`, int64(templateLock)); err != nil {
		return fmt.Errorf("lock: %w", err)
	}
	var exists bool
	const query = `SELECT EXISTS (SELECT FROM pg_database WHERE datname = $1)`
	if err := connection.QueryRow(ctx, query, name).Scan(&exists); err != nil {
		return fmt.Errorf("look for it: %w", err)
	}
	if exists {
		return nil
	}
	unfinished := name + "_unfinished"
	if err := s.dropDatabase(ctx, unfinished); err != nil {
		return err
	}
	if err := s.createDatabase(ctx, unfinished, "template0"); err != nil {
		return err
	}
	if _, err := migrations.Up(ctx, s.databaseURL(unfinished)); err != nil {
		return fmt.Errorf("apply the migrations: %w", err)
	}
	// Nobody may connect to it: PostgreSQL refuses to copy a database that is in use.
	return s.execute(ctx,
		"ALTER DATABASE "+quote(unfinished)+" WITH ALLOW_CONNECTIONS false",
		"ALTER DATABASE "+quote(unfinished)+" RENAME TO "+quote(name))
}

func (s *server) createDatabase(ctx context.Context, name, template string) error {
	return s.execute(ctx, "CREATE DATABASE "+quote(name)+" TEMPLATE "+quote(template))
}

func (s *server) dropDatabase(ctx context.Context, name string) error {
	return s.execute(ctx, "DROP DATABASE IF EXISTS "+quote(name)+" WITH (FORCE)")
}

// execute runs statements one by one on a connection of their own.
func (s *server) execute(ctx context.Context, statements ...string) error {
	connection, err := pgx.Connect(ctx, s.url)
	if err != nil {
		return fmt.Errorf("connect: %w", err)
	}
	defer func() { _ = connection.Close(context.WithoutCancel(ctx)) }()
	for _, statement := range statements {
		if _, err := connection.Exec(ctx, statement); err != nil {
			return fmt.Errorf("%s: %w", statement, err)
		}
	}
	return nil
}

// databaseURL is the server's URL with another database.
func (s *server) databaseURL(name string) string {
	address, err := url.Parse(s.url)
	if err != nil { // startServer checked it
		panic(err)
	}
	address.Path = "/" + name
	return address.String()
}

func quote(name string) string { return pgx.Identifier{name}.Sanitize() }

// schemaFingerprint is a hash over the names and the contents of the migrations.
func schemaFingerprint(files fs.FS) (string, error) {
	hash := sha256.New()
	names, err := fs.Glob(files, "*.sql") // sorted
	if err != nil {
		return "", fmt.Errorf("list the migrations: %w", err)
	}
	for _, name := range names {
		content, err := fs.ReadFile(files, name)
		if err != nil {
			return "", fmt.Errorf("read a migration: %w", err)
		}
		hash.Write(fmt.Appendf(nil, "%s\n%d\n%s", name, len(content), content))
	}
	return hex.EncodeToString(hash.Sum(nil)[:fingerprintBytes]), nil
}
