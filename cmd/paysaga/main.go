// Command paysaga takes orders through reserve → charge → confirm, exactly once. This package only reads flags and
// settings and joins the other packages together; one file per command.
package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/signal"
	"runtime/debug"
	"strings"
	"syscall"

	"github.com/spf13/cobra"
)

// Exit codes: 0 all went well, 1 the command failed, 2 it was called wrongly; those of reconcile are told there.
const (
	exitFailed = 1
	exitUsage  = 2
)

func main() {
	os.Exit(run())
}

func run() int {
	// The first signal asks everything to finish; a second one ends the process as it would without us.
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	go func() { <-ctx.Done(); stop() }()
	root := newRootCommand()
	command, err := root.ExecuteContextC(ctx)
	if err == nil {
		return 0
	}
	if found, ok := errors.AsType[*foundError](err); ok { // it is told already
		return found.exitCode()
	}
	for _, line := range complaints(err) {
		fmt.Fprintln(os.Stderr, "paysaga:", line)
	}
	if _, ok := err.(usageError); ok { //nolint:errorlint // only what the flag parser made, never something wrapped
		fmt.Fprintf(os.Stderr, "See: %s --help\n", command.CommandPath())
		return usageCode(command)
	}
	return exitFailed
}

// complaints are an error's lines, one for each thing that is wrong. Lines that are indented, as the database driver's for
// each address that it tried, go on with the line before.
func complaints(err error) []string {
	var lines []string
	for line := range strings.SplitSeq(err.Error(), "\n") {
		rest, indented := strings.CutPrefix(line, "\t")
		switch last := len(lines) - 1; {
		case !indented || last < 0:
			lines = append(lines, line)
		case !strings.HasSuffix(lines[last], rest): // the same address may have been tried twice
			lines[last] += " " + rest
		}
	}
	return lines
}

// usageError is a mistake in how a command was called.
type usageError struct{ error }

func newRootCommand() *cobra.Command {
	root := &cobra.Command{
		Use:   "paysaga",
		Short: "Take orders through reserve → charge → confirm, exactly once",
		Long: `paysaga takes an order through reserve → charge → confirm so that any number of
repeats, timeouts and crashes gives exactly one result.

Begin with:
  paysaga demo     watch orders survive duplicates, timeouts and a killed server
  paysaga dev      a whole system on this machine, with a curl to paste

Then, on your own PostgreSQL and with your own key of a provider:
  paysaga migrate up
  paysaga keys create --account my-shop
  paysaga serve

Settings come from the environment; "paysaga serve --help" lists them.
Exit codes: 0 all went well, 1 the command failed, 2 it was called wrongly. "paysaga reconcile" has its own: 2 is that findings are open.`,
		SilenceErrors: true,
		SilenceUsage:  true,
		Version:       version(),
		Args:          cobra.NoArgs,
		RunE:          func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	root.SetFlagErrorFunc(func(_ *cobra.Command, err error) error { return usageError{err} })
	root.AddCommand(
		newDemoCommand(), newDevCommand(), newServeCommand(), newMigrateCommand(), newKeysCommand(), newOrdersCommand(), newSagasCommand(),
		newSandboxCommand(), newContractCommand(), newFixturesCommand(), newReconcileCommand(), newUpkeepCommand(),
		newResealCommand(),
	)
	wrapArguments(root)
	return root
}

// wrapArguments makes wrong arguments and missing flags usage errors, as wrong flags are.
func wrapArguments(command *cobra.Command) {
	if check := command.Args; check != nil {
		command.Args = func(cmd *cobra.Command, args []string) error {
			if err := check(cmd, args); err != nil {
				return usageError{err}
			}
			if err := cmd.ValidateRequiredFlags(); err != nil {
				return usageError{err}
			}
			return nil
		}
	}
	for _, child := range command.Commands() {
		wrapArguments(child)
	}
}

func version() string {
	info, ok := debug.ReadBuildInfo()
	if !ok {
		return "unknown"
	}
	revision := "unknown revision"
	for _, setting := range info.Settings {
		if setting.Key == "vcs.revision" {
			revision = setting.Value
		}
	}
	return info.Main.Version + " (" + revision + ", " + info.GoVersion + ")"
}
