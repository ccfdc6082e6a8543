package main

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"strings"
	"time"

	"github.com/spf13/cobra"

	theatre "paysaga/internal/stage"
	"paysaga/providers/sandbox"
)

// reconcileDemoOptions are the flags of the demo of reconciliation.
type reconcileDemoOptions struct {
	dir    string
	asJSON bool

	environ []string // of every process that is started, beside its settings
}

func newDemoReconcileCommand() *cobra.Command {
	var o reconcileDemoOptions
	command := &cobra.Command{
		Use:   "reconcile",
		Short: "Watch every kind of divergence be planted, found, and repaired or explained; ends by itself",
		Long: `A day and a night of a shop on a whole system of its own: a private PostgreSQL, the provider sandbox in the place of Stripe,
Adyen and PayPal, and "paysaga serve".

By day orders are placed at all three providers. At night things go wrong that no request and no webhook tells: people work in
the providers' pages, webhooks are lost, the server dies with the only copy of an answer, rows of the database are damaged or
gone, settlement files have lines that do not fit. In the morning "paysaga reconcile" is run as a process of its own: once to
look, once with --apply, and once more, which must change nothing.

A table at the end tells for each thing that was planted as what it was found, and what came of it. Then the ledgers of the
providers are counted: nothing was charged, and nothing was given back twice.

Everything is kept in DIR/demo-reconcile, which is emptied at the start of the next one. No setting of the environment is read,
and no other database is touched. The clocks of database and sandbox are moved; nothing is waited for. It takes some seconds.

Exit codes: 0 all was found and every check held, 1 not so or the demo was interrupted, 2 it was called wrongly.`,
		Example: `  paysaga demo reconcile
  paysaga demo reconcile --json | jq '.planted[] | select(.ok | not)'`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error { return demoReconcile(cmd, o) },
	}
	command.Flags().StringVar(&o.dir, "dir", ".paysaga", "folder to work in, of which only DIR/demo-reconcile is used")
	command.Flags().BoolVar(&o.asJSON, "json", false, "print what was planted and found as JSON")
	return command
}

// reconcileReport is what --json prints.
type reconcileReport struct {
	OK         bool          `json:"ok"`
	Scenes     []sceneReport `json:"scenes"`
	Planted    []*planted    `json:"planted"`
	Table      []check       `json:"table"`
	DurationMS int64         `json:"duration_ms"`
}

// verdict is an error with one line for each thing that did not hold.
func (r reconcileReport) verdict() error {
	broken := demoReport{Scenes: r.Scenes, Table: r.Table}.broken()
	for _, p := range r.Planted {
		for _, problem := range p.Problems {
			broken = append(broken, p.name()+": "+problem)
		}
	}
	if len(broken) == 0 {
		return nil
	}
	return fmt.Errorf("%d things did not hold:\n%s", len(broken), strings.Join(broken, "\n"))
}

// reconcileTour is one demo of reconciliation on its way.
type reconcileTour struct {
	*tour

	mischief *theatre.Mischief
	planted  []*planted
	calm     []*planted       // orders to which nothing happens
	ledger   []sandbox.Charge // as it was in the morning
	files    []string         // settlement files
	runs     int              // of paysaga reconcile, so far
	again    []check          // of the run that must change nothing
	all      reconcileReport
}

// demoReconcile plays it. Whatever happens, the server and the database have ended when it returns.
func demoReconcile(cmd *cobra.Command, o reconcileDemoOptions) error {
	ctx, cancel := context.WithTimeoutCause(cmd.Context(), demoDeadline, fmt.Errorf("it did not end within %s", demoDeadline))
	defer cancel()
	ctx, abort := context.WithCancelCause(ctx)
	defer abort(nil)
	begun := time.Now()
	show := newScreen(cmd.OutOrStdout(), cmd.ErrOrStderr(), o.asJSON)
	show.reconcileOpening(o)
	t := newReconcileTour(o, show, abort)
	if err := t.start(ctx); err != nil {
		return cutShort(ctx, "demo", err)
	}
	defer t.close()
	defer t.mischief.Close()
	show.ready(t.stage)
	err := t.playAll(ctx)
	t.all.DurationMS = time.Since(begun).Milliseconds()
	err = errors.Join(err, t.all.verdict())
	t.all.OK = err == nil
	if o.asJSON {
		return errors.Join(printJSON(cmd, t.all), cutShort(ctx, "demo", err))
	}
	if ctx.Err() == nil {
		show.reconcileClosing(t.all, t.dir)
	}
	return cutShort(ctx, "demo", err)
}

// newReconcileTour sets up a stage on which it is yesterday evening: the database's clock, and the providers', go behind the right time
// until the morning. The clocks of servers cannot be moved.
func newReconcileTour(o reconcileDemoOptions, show *screen, fail func(error)) *reconcileTour {
	evening := func() time.Time { return time.Now().Add(-2 * halfNight) }
	set := &stage{
		dir: filepath.Join(o.dir, "demo-reconcile"), place: &playground{now: evening}, browser: newBrowser(), settings: o.environ, fail: fail,
	}
	t := &reconcileTour{tour: &tour{stage: set, screen: show}, planted: newPlanted()}
	set.prepare = func(ctx context.Context, s *stage) error {
		var err error
		if t.mischief, err = theatre.NewMischief(ctx, s.place.postgres.URL()); err != nil {
			return err
		}
		s.settings = append(s.settings, "DATABASE_URL="+t.mischief.URL(), "PAYSAGA_RECONCILE_MAX_DUPLICATE="+duplicateLimit)
		return t.mischief.Advance(ctx, -2*halfNight)
	}
	return t
}

// playAll plays day, night and morning. A scene that fails ends it, as the next ones stand on it; what was planted is told all the same.
func (t *reconcileTour) playAll(ctx context.Context) error {
	for i, s := range t.reconcileScenes() {
		r := sceneReport{Title: s.title, Sent: s.sent}
		t.screen.sceneBegins(i+1, r)
		begun := time.Now()
		failed := s.play(ctx, &r)
		if failed != nil {
			r.Problems = append(r.Problems, failed.Error())
		}
		r.DurationMS, r.OK = time.Since(begun).Milliseconds(), len(r.Problems) == 0
		t.all.Scenes = append(t.all.Scenes, r)
		if ctx.Err() != nil {
			return context.Cause(ctx) //nolint:wrapcheck // cutShort says what it means
		}
		t.screen.sceneEnds(r)
		if failed != nil {
			break
		}
	}
	t.all.Planted = t.planted
	return t.server.stop()
}
