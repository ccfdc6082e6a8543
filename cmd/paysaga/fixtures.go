package main

import (
	"fmt"

	"github.com/spf13/cobra"

	"paysaga/saga/fixture"
)

func newFixturesCommand() *cobra.Command {
	command := &cobra.Command{
		Use:   "fixtures",
		Short: "Replay lives of payments that are written down, and write down real ones",
		Long: `A fixture is a YAML file with an order, what the provider answers, what happens and when, and what must hold at the end.
docs/fixtures.md is the manual.`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	command.AddCommand(newFixturesReplayCommand(), newFixturesExportCommand(), &cobra.Command{
		Use: "schema", Short: "Print the format's JSON Schema, for editors", Args: cobra.NoArgs,
		Example: "  paysaga fixtures schema > fixture.schema.json",
		RunE: func(cmd *cobra.Command, _ []string) error {
			fmt.Fprint(cmd.OutOrStdout(), string(fixture.Schema))
			return nil
		},
	})
	return command
}
