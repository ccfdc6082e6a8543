package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/spf13/cobra"

	"paysaga/saga/fixture"
)

type replayOptions struct {
	databaseURL string
	update      bool
	verbose     bool
	asJSON      bool
}

func newFixturesReplayCommand() *cobra.Command {
	var o replayOptions
	command := &cobra.Command{
		Use:   "replay FILE|DIR…",
		Short: "Play fixtures with the real code and compare what comes of them",
		Long: `Plays each fixture with the real server code, adapters, HTTP and PostgreSQL against the provider sandbox, with clocks that are
moved instead of waited for, and compares what comes of it. Of a folder all *.yaml files are played, those in folders below it not.

It starts a private PostgreSQL and removes it at the end. --database-url names another one, which must be a scratch database: an empty
one (createdb scratch), which is marked and migrated, or one that was marked so. What is in it is deleted. All others are refused, and
nothing in them is changed.

A failure shows what was expected (-) and what was got (+), the invariants that do not hold, and what happened. --update writes what was
got into the files' "expect", as far as that names it; where it is empty, all that was got.

Exit codes: 0 all passed, 1 something did not or a file cannot be read, 2 it was called wrongly.`,
		Example: `  paysaga fixtures replay saga/fixture/testdata
  paysaga fixtures replay --verbose lost.yaml
  paysaga fixtures replay --json saga/fixture/testdata | jq '.fixtures[] | select(.passed | not)'`,
		Args:              cobra.MinimumNArgs(1),
		ValidArgsFunction: completeFixtures,
		RunE:              func(cmd *cobra.Command, args []string) error { return replayFixtures(cmd, args, o) },
	}
	flags := command.Flags()
	flags.StringVar(&o.databaseURL, "database-url", "", "`URL` of a scratch database to use instead of a private one; its content is deleted")
	flags.BoolVar(&o.update, "update", false, "write what was got into the files' expectations")
	flags.BoolVar(&o.verbose, "verbose", false, "tell of each fixture what happened")
	flags.BoolVar(&o.asJSON, "json", false, "print JSON")
	_ = command.RegisterFlagCompletionFunc("database-url", cobra.NoFileCompletions)
	return command
}

// completeFixtures completes folders and fixtures.
func completeFixtures(*cobra.Command, []string, string) ([]string, cobra.ShellCompDirective) {
	return []string{"yaml", "yml"}, cobra.ShellCompDirectiveFilterFileExt
}

// replay is one fixture's play.
type replay struct {
	File        string   `json:"file"`
	Description string   `json:"description,omitempty"`
	Passed      bool     `json:"passed"`
	Updated     bool     `json:"updated,omitempty"`
	DurationMS  int64    `json:"duration_ms"`
	Failure     string   `json:"failure,omitempty"`
	Timeline    []string `json:"timeline,omitempty"`

	text    []byte
	fixture *fixture.Fixture
}

func replayFixtures(cmd *cobra.Command, paths []string, o replayOptions) error {
	files, err := fixtureFiles(paths)
	if err != nil {
		return err
	}
	replays, err := readFixtures(files)
	if err != nil {
		return err
	}
	house, err := openPlayhouse(cmd.Context(), o.databaseURL, len(replays))
	if err != nil {
		return err
	}
	err = playAll(cmd.Context(), replays, house, o, newScreen(cmd.OutOrStdout(), cmd.ErrOrStderr(), o.asJSON))
	if err = errors.Join(err, house.close()); err != nil {
		return err
	}
	return tellReplays(cmd, replays, o)
}

// playAll plays as many fixtures at once as there are worlds.
func playAll(ctx context.Context, replays []*replay, house *playhouse, o replayOptions, screen *screen) error {
	bar := screen.progress("fixtures", len(replays))
	defer bar.end()
	next := make(chan *replay)
	var players sync.WaitGroup
	failed := make([]error, len(house.databases))
	for i, database := range house.databases {
		players.Go(func() {
			worlds := house.worldsOf(ctx, database)
			defer worlds.close()
			for one := range next {
				if failed[i] == nil {
					failed[i] = one.play(ctx, worlds, o)
				}
				bar.step()
			}
		})
	}
	for _, one := range replays {
		next <- one
	}
	close(next)
	players.Wait()
	return errors.Join(failed...)
}

func (r *replay) play(ctx context.Context, worlds *worlds, o replayOptions) error {
	if ctx.Err() != nil {
		return fmt.Errorf("interrupted: %w", context.Cause(ctx))
	}
	begun := time.Now()
	result, failures, err := worlds.play(ctx, r.fixture)
	r.DurationMS = time.Since(begun).Milliseconds()
	if err != nil {
		return err
	}
	r.Passed = len(failures) == 0 && result.Passed()
	if !r.Passed {
		r.Failure = strings.Join(failures, "\n")
		if len(failures) == 0 {
			r.Failure = result.Failure()
		}
	}
	if o.verbose {
		r.Timeline = result.Timeline
	}
	if differs := result.Differences != "" || r.fixture.ExpectsNothing(); !o.update || len(failures) == 0 && !differs {
		return nil
	}
	if len(failures) > 0 {
		r.Failure += "\nnot updated: it was not played to its end"
		return nil
	}
	return r.update(result)
}

var errFixtures = errors.New("not all fixtures passed")

func tellReplays(cmd *cobra.Command, replays []*replay, o replayOptions) error {
	passed := !slices.ContainsFunc(replays, func(r *replay) bool { return !r.Passed })
	var err error
	if o.asJSON {
		err = printJSON(cmd, map[string]any{"passed": passed, "fixtures": replays})
	} else {
		out := newScreen(cmd.OutOrStdout(), io.Discard, false)
		for _, one := range replays {
			one.tell(out)
		}
	}
	if err == nil && !passed {
		err = errFixtures
	}
	return err
}

func (r *replay) tell(s *screen) {
	updated := ""
	if r.Updated {
		updated = " (updated)"
	}
	fmt.Fprintf(s.out, "%s %s%s  %s\n", s.mark(r.Passed), r.File, updated, s.paint(faint, r.Description))
	if r.Failure != "" {
		fmt.Fprintf(s.out, "    %s\n", strings.ReplaceAll(strings.TrimRight(r.Failure, "\n"), "\n", "\n    "))
		return
	}
	for _, line := range r.Timeline {
		fmt.Fprintf(s.out, "    %s\n", line)
	}
}
