package main

import (
	"errors"
	"fmt"

	"github.com/google/uuid"
	"github.com/spf13/cobra"

	"paysaga/internal/config"
	"paysaga/internal/postgres"
	"paysaga/saga"
	"paysaga/saga/fixture"
)

func newFixturesExportCommand() *cobra.Command {
	var account string
	command := &cobra.Command{
		Use:   "export ORDER_ID",
		Short: "Write an order's life down as a fixture, without anything personal",
		Long: `Reads an order's saga, its refunds and what was asked about it from the database, and prints a fixture in which the same happens:
what its customer and the bank did is told by how the steps ended. Replay it to see a failure again, or to keep it as a test.

Amounts and shape are kept. Names, addresses, e-mails, tokens, secrets, idempotency keys, the providers' references, metadata, reasons,
and the words and codes of declines are left out, SKUs renamed.

It needs DATABASE_URL and the encryption keys (PAYSAGA_ENCRYPTION_KEYS), as answers are sealed; when they are not set, those of a
running "paysaga dev". An order whose requests' answers are deleted, after their window, cannot be exported any more.`,
		Example: `  paysaga fixtures export --account my-shop 80124cdc-5bef-5275-832d-0bced0088bb0 > lost.yaml
  paysaga fixtures replay lost.yaml`,
		Args: cobra.ExactArgs(1), ValidArgsFunction: cobra.NoFileCompletions,
	}
	dir := addDirFlag(command)
	command.Flags().StringVar(&account, "account", "", "the shop whose order it is")
	_ = command.MarkFlagRequired("account")
	_ = command.RegisterFlagCompletionFunc("account", cobra.NoFileCompletions)
	command.RunE = func(cmd *cobra.Command, args []string) error {
		id, err := uuid.Parse(args[0])
		if err != nil {
			return usageError{fmt.Errorf("%q is no order's id, which is a UUID", args[0])}
		}
		c, err := loadPart(*dir, config.LoadSealing)
		if err != nil {
			return err
		}
		return withStoreOf(cmd.Context(), c, func(store *postgres.Store) error { return exportFixture(cmd, store, account, id) })
	}
	return command
}

func exportFixture(cmd *cobra.Command, store *postgres.Store, account string, id uuid.UUID) error {
	life, err := store.ReadLife(cmd.Context(), account, id)
	if errors.Is(err, saga.ErrNotFound) {
		return fmt.Errorf("account %s has no order %s", account, id)
	}
	if err != nil {
		return err
	}
	exported, err := fixture.Export(life)
	if err != nil {
		return err
	}
	text, err := fixture.ToYAML(exported)
	if err != nil {
		return err
	}
	fmt.Fprint(cmd.OutOrStdout(), "# Guards against: (say which failure this shows)\n"+text)
	return nil
}
