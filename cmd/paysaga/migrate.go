package main

import (
	"context"
	"errors"
	"fmt"

	"github.com/pressly/goose/v3"
	"github.com/spf13/cobra"

	"paysaga/migrations"
)

func newMigrateCommand() *cobra.Command {
	command := &cobra.Command{
		Use:   "migrate",
		Short: "Bring the database's schema up to date",
		Long:  "Applies the schema's migrations to the database that DATABASE_URL names. Several processes may do it at once.",
		Args:  cobra.NoArgs,
		RunE:  func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	dir := addDirFlag(command)
	command.AddCommand(
		&cobra.Command{
			Use: "up", Short: "Apply the migrations that the database does not have yet", Args: cobra.NoArgs,
			RunE: func(cmd *cobra.Command, _ []string) error {
				return migrate(cmd, *dir, "applied", migrations.Up)
			},
		},
		&cobra.Command{
			Use: "down", Short: "Take the newest migration back; its tables' data is lost", Args: cobra.NoArgs,
			RunE: func(cmd *cobra.Command, _ []string) error {
				return migrate(cmd, *dir, "took back", migrations.Down)
			},
		},
		&cobra.Command{
			Use: "status", Short: "Show which migrations the database has", Args: cobra.NoArgs,
			RunE: func(cmd *cobra.Command, _ []string) error { return showMigrations(cmd, *dir) },
		},
	)
	return command
}

func migrate(cmd *cobra.Command, dir, done string, do func(context.Context, string) ([]string, error)) error {
	url, err := databaseURL(dir)
	if err != nil {
		return err
	}
	files, err := do(cmd.Context(), url)
	if errors.Is(err, goose.ErrNoNextVersion) {
		fmt.Fprintln(cmd.OutOrStdout(), "there is no migration to take back")
		return nil
	}
	if err != nil {
		return err
	}
	for _, file := range files {
		fmt.Fprintln(cmd.OutOrStdout(), done, file)
	}
	if len(files) == 0 {
		fmt.Fprintln(cmd.OutOrStdout(), "the schema is up to date")
	}
	return nil
}

func showMigrations(cmd *cobra.Command, dir string) error {
	url, err := databaseURL(dir)
	if err != nil {
		return err
	}
	list, err := migrations.List(cmd.Context(), url)
	if err != nil {
		return err
	}
	for _, m := range list {
		state := "pending"
		if m.Applied {
			state = "applied"
		}
		fmt.Fprintf(cmd.OutOrStdout(), "%-8s %s\n", state, m.File)
	}
	return nil
}
