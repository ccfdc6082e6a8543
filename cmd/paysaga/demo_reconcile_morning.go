package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/google/go-cmp/cmp"
)

// reconcile runs "paysaga reconcile" as a process of its own, and shows what it prints but for the single findings: the table at the end
// has those.
func (t *reconcileTour) reconcile(ctx context.Context, r *sceneReport, arguments ...string) error {
	program, err := os.Executable()
	if err != nil {
		return fmt.Errorf("find this program: %w", err)
	}
	arguments = slices.Concat([]string{"reconcile"}, arguments)
	command := exec.CommandContext(ctx, program, arguments...) //nolint:gosec // this very program
	command.Env = slices.Concat(inheritedEnviron(), t.environ())
	var output, complaints bytes.Buffer
	command.Stdout, command.Stderr = &output, &complaints
	begun := time.Now()
	err = command.Run()
	if _, ended := errors.AsType[*exec.ExitError](err); err != nil && !ended {
		return fmt.Errorf("run %s: %w", strings.Join(arguments, " "), err)
	}
	t.runs++
	path := filepath.Join(t.dir, fmt.Sprintf("reconcile-%d.txt", t.runs))
	if err := os.WriteFile(path, slices.Concat(output.Bytes(), complaints.Bytes()), 0o600); err != nil {
		return fmt.Errorf("keep what was printed: %w", err)
	}
	for _, line := range shown(output.String()) {
		r.andThenf("%s", line)
	}
	code := command.ProcessState.ExitCode()
	r.andThenf("exit code %d after %.1f s; all of it is in %s", code, time.Since(begun).Seconds(), path)
	r.wantf(code == exitFound, "it ended with exit code %d, not %d: %s", code, exitFound, strings.TrimSpace(complaints.String()))
	return nil
}

// shown leaves out of what a run prints the single findings, and of a settlement file what holds.
func shown(output string) []string {
	var lines []string
	left, ofFile := false, false
	for line := range strings.SplitSeq(strings.TrimSpace(output), "\n") {
		switch {
		case strings.HasPrefix(line, "file "):
			left, ofFile = false, true
		case strings.HasPrefix(line, "findings that are open"), strings.HasPrefix(line, "nothing is open"):
			left, ofFile = false, false
		case strings.HasPrefix(line, "FINDING "), ofFile && strings.HasPrefix(line, "WOULD BE DONE "):
			left = true
		}
		holds := ofFile && (strings.HasSuffix(line, " holds") || strings.HasPrefix(line, "total "))
		if !left && !holds && line != "" {
			lines = append(lines, line)
		}
	}
	return lines
}

// playLook has reconciliation look, and do nothing.
func (t *reconcileTour) playLook(ctx context.Context, r *sceneReport) error {
	if err := t.reconcile(ctx, r); err != nil {
		return err
	}
	arguments := make([]string, 0, 2*len(t.files))
	for _, file := range t.files {
		arguments = append(arguments, "--statement", file)
	}
	if err := t.reconcile(ctx, r, arguments...); err != nil {
		return err
	}
	if difference := cmp.Diff(t.ledger, t.place.sandbox.Ledger()); difference != "" {
		r.wantf(false, "a look changed the ledgers: %s", difference)
	}
	return nil
}

// playApply has what rules allow done, and waits for what a provider does not do at once.
func (t *reconcileTour) playApply(ctx context.Context, r *sceneReport) error {
	t.webhooksAsUsual()
	if err := t.reconcile(ctx, r, "--apply"); err != nil {
		return err
	}
	if err := t.startServer(ctx); err != nil {
		return err
	}
	for _, p := range t.planted {
		if p.want.outcome != isMended || p.order.request == nil {
			continue
		}
		if _, err := t.waitForOrder(ctx, p.orderID(), "the end", settled); err != nil {
			return err
		}
	}
	return nil
}

// playAgain has it done once more: nothing is left to do. The server is stopped, so that whatever changes is changed by the run.
func (t *reconcileTour) playAgain(ctx context.Context, r *sceneReport) error {
	if err := t.server.stop(); err != nil {
		return err
	}
	before, err := t.mischief.Portrait(ctx)
	if err != nil {
		return err
	}
	ledger := t.place.sandbox.Ledger()
	if err := t.reconcile(ctx, r, "--apply"); err != nil {
		return err
	}
	after, err := t.mischief.Portrait(ctx)
	if err != nil {
		return err
	}
	t.again = compareAgain(before, after, ledger, t.place.sandbox.Ledger())
	return t.compareAll(ctx)
}
