// Command mutants takes paysaga's guards out, one at a time, and checks that a test notices. A guard that can be taken out unnoticed is
// not tested, whatever the tests say.
//
// Nothing in the tree is changed: the mutated file takes its place by Go's -overlay, also in programs that the tests build.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"syscall"
	"time"
)

func main() {
	root := flag.String("root", ".", "the tree")
	only := flag.String("only", "", "a regular expression: only mutants whose name fits")
	check := flag.Bool("check", false, "only check that each mutant still fits the code")
	keep := flag.Bool("v", false, "show what the tests that noticed say")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if err := run(ctx, *root, *only, *check, *keep); err != nil {
		fmt.Fprintln(os.Stderr, "mutants:", err)
		stop()
		os.Exit(1)
	}
}

func run(ctx context.Context, root, only string, check, verbose bool) error {
	root, err := filepath.Abs(root)
	if err != nil {
		return fmt.Errorf("find the tree: %w", err)
	}
	which, err := regexp.Compile(only)
	if err != nil {
		return fmt.Errorf("-only: %w", err)
	}
	chosen := slices.DeleteFunc(mutants(), func(m mutant) bool { return !which.MatchString(m.name) })
	if len(chosen) == 0 {
		return fmt.Errorf("no mutant is named like %q", only)
	}
	for _, m := range chosen {
		if _, err := m.mutate(root); err != nil {
			return err
		}
	}
	if check {
		fmt.Printf("%d mutants fit the code\n", len(chosen))
		return nil
	}
	scratch, err := os.MkdirTemp("", "mutants")
	if err != nil {
		return fmt.Errorf("make a folder: %w", err)
	}
	defer os.RemoveAll(scratch)
	h := hunt{root: root, scratch: scratch, verbose: verbose}
	if err := h.healthy(ctx, chosen); err != nil {
		return err
	}
	return h.all(ctx, chosen)
}

// mutate gives the file's text without the guard.
func (m mutant) mutate(root string) (string, error) {
	raw, err := os.ReadFile(filepath.Join(root, m.file))
	if err != nil {
		return "", fmt.Errorf("%s: %w", m.name, err)
	}
	if n := strings.Count(string(raw), m.old); n != 1 {
		return "", fmt.Errorf("%s: %s has its text %d times, not once: say in tools/mutants/list.go what the guard looks like now:\n%s", m.name, m.file, n, m.old)
	}
	return strings.Replace(string(raw), m.old, m.new, 1), nil
}

// hunt runs the tests.
type hunt struct {
	root, scratch string
	verbose       bool
}

// healthy makes sure that the tests pass while nothing is mutated: else any mutant would look as if it were noticed.
func (h hunt) healthy(ctx context.Context, chosen []mutant) error {
	var commands []string
	for _, m := range chosen {
		commands = append(commands, m.noticed...)
	}
	slices.Sort(commands)
	for _, command := range slices.Compact(commands) {
		fmt.Printf("%-28s %s\n", "as it is", command)
		if output, err := h.command(ctx, "", command); err != nil {
			return fmt.Errorf("%q fails without any mutant: %w\n%s", command, err, tail(output))
		}
	}
	return nil
}

func (h hunt) all(ctx context.Context, chosen []mutant) error {
	var survived []string
	for i, m := range chosen {
		begun := time.Now()
		by, err := h.notice(ctx, m)
		if err != nil {
			return err
		}
		verdict := "noticed by: " + by
		switch {
		case by == "":
			survived = append(survived, m.name)
			verdict = "SURVIVED " + strings.Join(m.noticed, ", ")
		case slices.Contains(shown(), m.name):
			red, err := h.show(ctx, m)
			if err != nil {
				return fmt.Errorf("%s: %w", m.name, err)
			}
			verdict += fmt.Sprintf("; shown by %d of %d fixtures", red, len(shownFrom))
		}
		fmt.Printf("%2d/%d  %-34s %5.1fs  %s\n", i+1, len(chosen), m.name, time.Since(begun).Seconds(), verdict)
	}
	if len(survived) > 0 {
		return fmt.Errorf("%d of %d mutants survived: %s", len(survived), len(chosen), strings.Join(survived, ", "))
	}
	fmt.Printf("all %d mutants were noticed\n", len(chosen))
	return nil
}

// shownFrom are the seeds from which the simulation looks for failures to show. Most of the fixtures must show theirs.
var shownFrom = []int{1, 500, 1000}

// show has failures that the simulation finds written as fixtures, and plays them with the mutant and without it. It counts the red ones.
func (h hunt) show(ctx context.Context, m mutant) (red int, err error) {
	overlay, err := h.overlay(m)
	if err != nil {
		return 0, err
	}
	folder, err := os.MkdirTemp(h.scratch, "fixtures")
	if err != nil {
		return 0, fmt.Errorf("make a folder: %w", err)
	}
	for _, seed := range shownFrom {
		file := filepath.Join(folder, fmt.Sprintf("found-%d.yaml", seed))
		if output, err := h.command(ctx, overlay, fmt.Sprintf(sketch, seed, file)); err != nil {
			return 0, fmt.Errorf("no fixture from seed %d: %w\n%s", seed, err, tail(output))
		}
	}
	if output, err := h.command(ctx, "", fmt.Sprintf(replay, folder)); err != nil {
		return 0, fmt.Errorf("its fixtures are not green without it: %w\n%s", err, output)
	}
	output, err := h.command(ctx, overlay, fmt.Sprintf(replay, folder))
	if red = strings.Count(output, "✗"); err == nil || red == 0 {
		return 0, fmt.Errorf("none of its fixtures is red with it:\n%s", output)
	}
	return red, nil
}

// overlay mutates a file, and names the list that puts it in place of the one in the tree.
func (h hunt) overlay(m mutant) (string, error) {
	text, err := m.mutate(h.root)
	if err != nil {
		return "", err
	}
	mutated := filepath.Join(h.scratch, "mutated.go")
	if err := os.WriteFile(mutated, []byte(text), 0o600); err != nil {
		return "", fmt.Errorf("write the mutant: %w", err)
	}
	overlay := filepath.Join(h.scratch, "overlay.json")
	content := fmt.Sprintf(`{"Replace":{%q:%q}}`, filepath.Join(h.root, m.file), mutated)
	if err := os.WriteFile(overlay, []byte(content), 0o600); err != nil {
		return "", fmt.Errorf("write the overlay: %w", err)
	}
	return overlay, nil
}

// notice runs a mutant's tests until one fails, and tells which that was; none: it survived.
func (h hunt) notice(ctx context.Context, m mutant) (string, error) {
	overlay, err := h.overlay(m)
	if err != nil {
		return "", err
	}
	for _, command := range m.noticed {
		output, err := h.command(ctx, overlay, command)
		switch {
		case ctx.Err() != nil:
			return "", fmt.Errorf("stopped: %w", context.Cause(ctx))
		case err == nil:
			continue
		case strings.Contains(output, "[build failed]") || strings.Contains(output, "[setup failed]"):
			return "", fmt.Errorf("%s does not compile:\n%s", m.name, tail(output))
		}
		if h.verbose {
			fmt.Println(tail(output))
		}
		return command, nil
	}
	return "", nil
}

// longest bounds one command: a mutant may well make a test hang.
const longest = 10 * time.Minute

// command runs one in the tree, with all that it starts in a group of its own.
func (h hunt) command(ctx context.Context, overlay, line string) (string, error) {
	ctx, cancel := context.WithTimeoutCause(ctx, longest, errors.New("it did not end"))
	defer cancel()
	words := strings.Fields(line)
	command := exec.CommandContext(ctx, words[0], words[1:]...)
	command.Dir = h.root
	command.Env = os.Environ()
	if overlay != "" {
		command.Env = append(command.Env, strings.TrimSpace("GOFLAGS="+os.Getenv("GOFLAGS")+" -overlay="+overlay))
	}
	command.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	command.Cancel = func() error { return syscall.Kill(-command.Process.Pid, syscall.SIGKILL) }
	output, err := command.CombinedOutput()
	return string(output), err
}

// tail is the end of an output, where a test says what is wrong.
func tail(output string) string {
	const lines = 25
	all := strings.Split(strings.TrimSpace(output), "\n")
	return "    " + strings.Join(all[max(0, len(all)-lines):], "\n    ")
}
