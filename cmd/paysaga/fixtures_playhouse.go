package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"

	"paysaga/internal/pgdev"
	theatre "paysaga/internal/stage"
	"paysaga/migrations"
	"paysaga/providers/sandbox"
	"paysaga/saga/fixture"
)

// mostWorlds is how many fixtures are played at once: each waits for the database most of the time, and all share one.
const mostWorlds = 4

// playhouse is where fixtures are played: a PostgreSQL with a database for each play at the same time.
type playhouse struct {
	databases []string
	server    *pgdev.Server
	dir       string
}

func openPlayhouse(ctx context.Context, databaseURL string, plays int) (*playhouse, error) {
	if databaseURL != "" {
		return useScratch(ctx, databaseURL)
	}
	h := &playhouse{}
	if err := h.open(ctx, min(plays, mostWorlds)); err != nil {
		return nil, errors.Join(err, h.close())
	}
	return h, nil
}

// useScratch plays in the one database that the user gives away, one fixture after the other.
func useScratch(ctx context.Context, databaseURL string) (*playhouse, error) {
	if err := theatre.ClaimScratch(ctx, databaseURL); err != nil {
		return nil, err
	}
	if _, err := migrations.Up(ctx, databaseURL); err != nil {
		return nil, err
	}
	return &playhouse{databases: []string{databaseURL}}, nil
}

func (h *playhouse) open(ctx context.Context, worlds int) (err error) {
	if h.dir, err = os.MkdirTemp("", "paysaga-fixtures-"); err == nil {
		err = os.Chmod(h.dir, 0o711) //nolint:gosec // PostgreSQL's account must be able to pass through
	}
	if err != nil {
		return fmt.Errorf("make a folder: %w", err)
	}
	logger := slog.New(slog.NewTextHandler(os.Stderr, &slog.HandlerOptions{Level: slog.LevelWarn}))
	if h.server, err = pgdev.Start(ctx, pgdev.Options{Dir: h.dir, Logger: logger}); err != nil {
		return fmt.Errorf("it needs a PostgreSQL of its own, or --database-url: %w", err)
	}
	if _, err := migrations.Up(ctx, h.server.URL()); err != nil {
		return err
	}
	h.databases, err = theatre.Copies(ctx, h.server.URL(), worlds)
	return err
}

// close removes what open made.
func (h *playhouse) close() error {
	var err error
	if h.server != nil {
		err = h.server.Remove(context.Background()) // also after an interruption
	}
	if h.dir != "" {
		err = errors.Join(err, os.RemoveAll(h.dir))
	}
	return err
}

// worlds are those of one database: one for each kind of account at Adyen. They are used one at a time.
type worlds struct {
	recorder *theatre.Recorder
	database string
	opened   map[bool]*theatre.World
}

func (*playhouse) worldsOf(ctx context.Context, database string) *worlds {
	return &worlds{recorder: theatre.NewRecorder(ctx), database: database, opened: map[bool]*theatre.World{}}
}

func (w *worlds) close() { w.recorder.Close() }

// play plays a fixture in its kind of world. Failures are what kept it from being played to its end.
func (w *worlds) play(ctx context.Context, f *fixture.Fixture) (result fixture.Result, failures []string, err error) {
	if w.opened[f.SeveralCaptures] == nil {
		options := theatre.Options{DatabaseURL: w.database, Sandbox: sandbox.Options{AdyenSeveralCaptures: f.SeveralCaptures}}
		err := w.recorder.Do(func() { w.opened[f.SeveralCaptures] = theatre.New(w.recorder, options).NewWorld() })
		if err != nil {
			return result, nil, fmt.Errorf("open a stage: %w", err)
		}
	}
	world := w.opened[f.SeveralCaptures]
	failures, _ = theatre.Record(ctx, func(r *theatre.Recorder) {
		world.ReportTo(r)
		result, err = fixture.Play(f, world)
	})
	return result, failures, err
}
