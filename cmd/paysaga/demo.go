package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/spf13/cobra"
)

const (
	// demoDeadline ends a demo that hangs. A slow machine needs less than two minutes.
	demoDeadline = 5 * time.Minute
	// maxDemoOrders is what a slow machine gets done within the deadline.
	maxDemoOrders = 20_000
	// maxDemoConcurrency stays below what the server drives at once, so that no order is turned away for want of room, twice
	// clicked ones included.
	maxDemoConcurrency = maxInFlight / 2
)

// demoOptions are the demo's flags.
type demoOptions struct {
	dir         string
	orders      int
	concurrency int
	seed        int64
	asJSON      bool
}

func newDemoCommand() *cobra.Command {
	var o demoOptions
	command := &cobra.Command{
		Use:   "demo",
		Short: "Watch orders survive duplicates, timeouts and a killed server at three providers; ends by itself",
		Long: `A tour of what paysaga promises, on a whole system of its own: a private PostgreSQL, the provider sandbox in the place of
Stripe, Adyen and PayPal, and "paysaga serve" as a process of its own, which is asked over HTTP as a shop would, and
killed.

It shows one thing after the other, each at all three providers. First an order, exactly once: a plain one, the same
request again, twenty at once with one key, a declined payment, too little stock, a provider that takes the money and
never answers, a server that is killed between charge and save. Then the life of a payment: a customer who must act, a
second way to pay after a decline, money that is held, captured in part, let go or not taken in time, refunds, fifty of
them at once, and webhooks that come twice, late, in any order or never.

Then it places --orders orders while all three misbehave in a dozen ways, kills the server in the middle, captures,
cancels and refunds some of them, and lays orders, ledgers and stock side by side. The same --seed meets the same orders
with the same faults; which of two orders gets the last piece is still a matter of time.

Everything is kept in DIR/demo, which is emptied at the start of the next demo; "paysaga dev" may use DIR meanwhile. No
setting of the environment is read, and no other database is touched. It takes about a minute, and gives up after five.

Exit codes: 0 every promise held, 1 one did not or the demo was interrupted, 2 it was called wrongly.`,
		Example: `  paysaga demo
  paysaga demo --seed 7 --orders 5000
  paysaga demo --json | jq '.table[] | select(.ok | not)'`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if err := o.check(); err != nil {
				return usageError{err}
			}
			return demo(cmd, o)
		},
	}
	command.Flags().StringVar(&o.dir, "dir", ".paysaga", "folder to work in, of which only DIR/demo is used")
	command.Flags().IntVar(&o.orders, "orders", 1000, "how many orders to place while the providers misbehave")
	command.Flags().IntVar(&o.concurrency, "concurrency", 32, "how many of them at a time")
	command.Flags().Int64Var(&o.seed, "seed", 1, "decides what is ordered and which calls meet which fault")
	command.Flags().BoolVar(&o.asJSON, "json", false, "print the scenes and the table as JSON")
	command.AddCommand(newDemoReconcileCommand())
	return command
}

func (o demoOptions) check() error {
	switch {
	case o.orders < 1 || o.orders > maxDemoOrders:
		return fmt.Errorf("--orders %d: use 1 to %d", o.orders, maxDemoOrders)
	case o.concurrency < 1 || o.concurrency > maxDemoConcurrency:
		return fmt.Errorf("--concurrency %d: use 1 to %d", o.concurrency, maxDemoConcurrency)
	case o.seed < 1:
		return fmt.Errorf("--seed %d: use 1 or more", o.seed)
	}
	return nil
}

// demo plays the tour. Whatever happens, the server and the database have ended when it returns.
func demo(cmd *cobra.Command, o demoOptions) error {
	ctx, cancel := context.WithTimeoutCause(cmd.Context(), demoDeadline, fmt.Errorf("it did not end within %s", demoDeadline))
	defer cancel()
	ctx, abort := context.WithCancelCause(ctx)
	defer abort(nil)
	begun := time.Now()
	show := newScreen(cmd.OutOrStdout(), cmd.ErrOrStderr(), o.asJSON)
	show.opening(o)
	set, err := openStage(ctx, filepath.Join(o.dir, "demo"), abort)
	if err != nil {
		return cutShort(ctx, "demo", err)
	}
	defer set.close()
	show.ready(set)
	t := &tour{stage: set, options: o, screen: show}
	err = t.play(ctx)
	if err == nil {
		err = errors.Join(t.compare(ctx), set.server.stop())
	}
	t.report.DurationMS = time.Since(begun).Milliseconds()
	err = errors.Join(err, t.report.verdict())
	t.report.OK = err == nil
	if o.asJSON {
		return errors.Join(printJSON(cmd, t.report), cutShort(ctx, "demo", err))
	}
	if ctx.Err() == nil {
		show.closing(t.report, set.dir)
	}
	return cutShort(ctx, "demo", err)
}

// cutShort tells why something ended early in place of the many errors that follow from it.
func cutShort(ctx context.Context, what string, err error) error {
	if ctx.Err() == nil || err == nil {
		return err
	}
	return fmt.Errorf("the %s was cut short: %w", what, context.Cause(ctx))
}

// tour is one demo on its way.
type tour struct {
	*stage

	options demoOptions
	screen  *screen
	first   []placed // the orders of the first scene, which the next ones repeat, in the order of testProviders
	report  demoReport
}

// demoReport is what --json prints.
type demoReport struct {
	OK         bool          `json:"ok"`
	Seed       int64         `json:"seed"`
	Scenes     []sceneReport `json:"scenes"`
	Storm      stormReport   `json:"storm"`
	Table      []check       `json:"table"`
	DurationMS int64         `json:"duration_ms"`
}

// verdict is an error with one line for each thing that did not hold.
func (r demoReport) verdict() error {
	broken := r.broken()
	if len(broken) == 0 {
		return nil
	}
	return fmt.Errorf("%d promises did not hold:\n%s", len(broken), strings.Join(broken, "\n"))
}

// broken are the things that did not hold.
func (r demoReport) broken() []string {
	var broken []string
	for _, s := range r.Scenes {
		for _, problem := range s.Problems {
			broken = append(broken, s.Title+": "+problem)
		}
	}
	for _, c := range r.Table {
		for _, problem := range c.Problems {
			broken = append(broken, c.Left.What+": "+problem)
		}
	}
	return broken
}

// sceneReport is one scene as it went.
type sceneReport struct {
	Title      string   `json:"title"`
	Sent       string   `json:"sent"`
	CameBack   string   `json:"came_back"`
	OK         bool     `json:"ok"`
	Problems   []string `json:"problems,omitempty"`
	DurationMS int64    `json:"duration_ms"`
}

// wantf notes what does not hold.
func (r *sceneReport) wantf(holds bool, format string, args ...any) {
	if !holds {
		r.Problems = append(r.Problems, fmt.Sprintf(format, args...))
	}
}

// play shows the scenes in turn, each also after one that failed.
func (t *tour) play(ctx context.Context) error {
	t.report.Seed = t.options.seed
	for i, s := range scenes(t.options) {
		r := sceneReport{Title: s.title, Sent: s.sent}
		t.screen.sceneBegins(i+1, r)
		begun := time.Now()
		if err := s.play(ctx, t, &r); err != nil {
			r.Problems = append(r.Problems, err.Error())
		}
		r.DurationMS, r.OK = time.Since(begun).Milliseconds(), len(r.Problems) == 0
		t.report.Scenes = append(t.report.Scenes, r)
		if ctx.Err() != nil {
			return context.Cause(ctx) //nolint:wrapcheck // cutShort says what it means
		}
		t.screen.sceneEnds(r)
	}
	return nil
}

// programName is how this program was called, for lines to paste.
func programName() string { return os.Args[0] }
