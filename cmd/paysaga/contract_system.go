package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"path/filepath"
	"slices"

	"github.com/jackc/pgx/v5" //nolint:depguard // to move a key's end in a database of its own, which no command of the store does

	"paysaga/internal/account"
	"paysaga/internal/pgdev"
	"paysaga/internal/postgres"
)

// ownSystem is what a run starts when no server is given: database and sandbox in this process, servers as children.
type ownSystem struct {
	dir       string
	temporary bool
	place     *playground
	log       *os.File
	server    *serverProcess // with the settings that the scenarios share
	environ   []string
	fail      func(error)
}

// contractSettings are those of every server of the run.
func contractSettings() []string {
	return []string{
		// A repeat shall find what a killed server left, not a worker before it.
		"PAYSAGA_RECOVERY_INTERVAL=1m",
		"PAYSAGA_NEW_KEYS_PER_MINUTE=0",
	}
}

func openOwnSystem(ctx context.Context, dir string, environ []string, fail func(error)) (*ownSystem, error) {
	s := &ownSystem{dir: dir, temporary: dir == "", place: &playground{}, environ: environ, fail: fail}
	if err := s.makeFolder(); err != nil {
		return nil, err
	}
	if err := s.open(ctx); err != nil {
		return nil, errors.Join(err, s.close(false))
	}
	return s, nil
}

func (s *ownSystem) makeFolder() error {
	var err error
	if s.temporary {
		s.dir, err = os.MkdirTemp("", "paysaga-contract-")
	} else if content, missing := os.ReadDir(s.dir); missing == nil && len(content) > 0 {
		return fmt.Errorf("%s is not empty; name another --dir, or none", s.dir)
	}
	if err == nil {
		err = os.MkdirAll(s.dir, 0o711) //nolint:gosec // PostgreSQL's account must be able to pass through
	}
	if err == nil {
		err = os.Chmod(s.dir, 0o711) //nolint:gosec // as above
	}
	if err == nil {
		s.log, err = os.OpenFile(s.logPath(), os.O_CREATE|os.O_WRONLY|os.O_APPEND, 0o600)
	}
	if err != nil {
		return fmt.Errorf("make the folder: %w", err)
	}
	return nil
}

func (s *ownSystem) open(ctx context.Context) error {
	logger := slog.New(slog.NewTextHandler(os.Stderr, &slog.HandlerOptions{Level: slog.LevelWarn}))
	var err error
	// Never the database that DATABASE_URL names: that could be one with real orders in it.
	if s.place.postgres, err = pgdev.Start(ctx, pgdev.Options{Dir: s.dir, Logger: logger}); err != nil {
		return fmt.Errorf("it needs a PostgreSQL of its own, or --server: %w", err)
	}
	if err := s.place.fill(ctx, s.dir, logger); err != nil {
		return err
	}
	if s.server, err = s.launch(ctx, s.log, s.fail, nil); err != nil {
		return err
	}
	return s.place.sendWebhooksTo(s.server.url)
}

// serve starts one more server on the same database. Should it end by itself, the scenario's requests tell.
func (s *ownSystem) serve(ctx context.Context, settings ...string) (*serverProcess, error) {
	return s.launch(ctx, s.log, func(error) {}, settings)
}

// launch gives a server the settings, of which the later ones count.
func (s *ownSystem) launch(ctx context.Context, log io.Writer, fail func(error), settings []string) (*serverProcess, error) {
	environ := slices.Concat(s.place.environ(), contractSettings(), settings, s.environ)
	return launchServer(ctx, environ, anyAddress, log, fail)
}

// with starts a server with these settings, and ends it when the scenario is through with it.
func (s *ownSystem) with(ctx context.Context, play func(server string) error, settings ...string) error {
	server, err := s.serve(ctx, settings...)
	if err != nil {
		return err
	}
	return errors.Join(play(server.url), server.stop())
}

// refuses starts a server that should not start, and gives what it says.
func (s *ownSystem) refuses(ctx context.Context, settings ...string) (refused bool, said string, err error) {
	var log bytes.Buffer // read after the process has ended
	server, err := s.launch(ctx, &log, func(error) {}, settings)
	if err == nil {
		return false, "", server.stop()
	}
	if ctx.Err() != nil {
		return false, "", context.Cause(ctx) //nolint:wrapcheck // the run says what it means
	}
	return true, log.String(), nil
}

// expire moves a key's whole window into the past, by the database's clock, which is what decides.
func (s *ownSystem) expire(ctx context.Context, key string) error {
	connection, err := pgx.Connect(ctx, s.place.postgres.URL())
	if err != nil {
		return fmt.Errorf("let a key expire: %w", err)
	}
	defer connection.Close(ctx) //nolint:errcheck // the statement has been carried out
	moved, err := connection.Exec(ctx, `
		UPDATE idempotency_keys SET created_at = created_at - (expires_at - now()) - interval '1 minute', expires_at = now() - interval '1 minute'
		WHERE key = $1`, key)
	if err != nil {
		return fmt.Errorf("let a key expire: %w", err)
	}
	if moved.RowsAffected() != 1 {
		return fmt.Errorf("let a key expire: %d rows of it", moved.RowsAffected())
	}
	return nil
}

// newAccount makes an account that no other scenario uses, and gives its API key.
func (s *ownSystem) newAccount(ctx context.Context, name string) (string, error) {
	store, err := postgres.Open(ctx, s.place.postgres.URL(), 1, nil)
	if err != nil {
		return "", err
	}
	defer store.Close()
	key, secret, err := account.NewKey(name, "contract", account.Merchant)
	if err != nil {
		return "", fmt.Errorf("make an account: %w", err)
	}
	return secret, store.CreateAPIKey(ctx, key, account.HashSecret(secret), "paysaga contract")
}

func (s *ownSystem) logPath() string { return filepath.Join(s.dir, serverLog) }

// close ends what was started, in reverse. The log stays unless it shall be forgotten; in a folder that was named it always does.
func (s *ownSystem) close(forget bool) error {
	if s.server != nil {
		_ = s.server.stop() // on Ctrl-C the terminal asks it too, and asked twice it ends at once
	}
	_ = s.log.Close() // every line that matters is in it
	if s.place.postgres == nil {
		return s.removeFolder(forget)
	}
	s.place.close()
	ctx, cancel := context.WithTimeout(context.Background(), serverStopLimit)
	defer cancel()
	if err := s.place.postgres.Remove(ctx); err != nil {
		return fmt.Errorf("remove the private PostgreSQL: %w", err)
	}
	return s.removeFolder(forget)
}

func (s *ownSystem) removeFolder(forget bool) error {
	if !s.temporary || !forget {
		return nil
	}
	if err := os.RemoveAll(s.dir); err != nil {
		return fmt.Errorf("remove the folder: %w", err)
	}
	return nil
}
