package main

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/google/uuid"
	"github.com/spf13/cobra"

	"paysaga/internal/config"
	"paysaga/internal/pgdev"
	"paysaga/internal/postgres"
	"paysaga/saga"
	"paysaga/saga/fixture"
)

type exportOptions struct {
	account     string
	databaseURL string
	noCheck     bool
}

func newFixturesExportCommand() *cobra.Command {
	var o exportOptions
	command := &cobra.Command{
		Use:   "export ORDER_ID",
		Short: "Write an order's life down as a fixture, without anything personal",
		Long: `Reads an order's saga, its refunds, what was asked and decided about it and what was found from the database, and prints a
fixture in which the same happens: which answers the provider gave, and what its customer and the bank did, is told by how the steps stand.
Replay it to see a failure again, or to keep it as a test. Of an order that goes on, it tells how it stands now.

Amounts and shape are kept. Names, addresses, e-mails, tokens, secrets, idempotency keys, the providers' references and codes, metadata,
reasons and the words of declines are left out, SKUs renamed.

What is printed is replayed first, in a private PostgreSQL (or --database-url, which must be a scratch database, as for replay). What the
fixture does not explain is told on stderr, a line for each record. --no-check skips that; so does a machine without PostgreSQL's programs,
and says so.

It needs DATABASE_URL and the encryption keys (PAYSAGA_ENCRYPTION_KEYS), as answers are sealed; when they are not set, those of a
running "paysaga dev". An order whose requests' answers are deleted, after their window, cannot be exported any more.

Exit codes: 0 the fixture replays as it was lived, or was not checked; 1 it does not, or cannot be made; 2 it was called wrongly.`,
		Example: `  paysaga fixtures export --account my-shop 80124cdc-5bef-5275-832d-0bced0088bb0 > lost.yaml
  paysaga fixtures replay lost.yaml`,
		Args: cobra.ExactArgs(1), ValidArgsFunction: cobra.NoFileCompletions,
	}
	dir := addDirFlag(command)
	flags := command.Flags()
	flags.StringVar(&o.account, "account", "", "the shop whose order it is")
	flags.StringVar(&o.databaseURL, "database-url", "", "`URL` of a scratch database to replay it in; its content is deleted")
	flags.BoolVar(&o.noCheck, "no-check", false, "print it without replaying it")
	_ = command.MarkFlagRequired("account")
	for _, flag := range []string{"account", "database-url"} {
		_ = command.RegisterFlagCompletionFunc(flag, cobra.NoFileCompletions)
	}
	command.RunE = func(cmd *cobra.Command, args []string) error {
		id, err := uuid.Parse(args[0])
		if err != nil {
			return usageError{fmt.Errorf("%q is no order's id, which is a UUID", args[0])}
		}
		c, err := loadPart(*dir, config.LoadSealing)
		if err != nil {
			return err
		}
		return withStoreOf(cmd.Context(), c, func(store *postgres.Store) error { return exportFixture(cmd, store, id, o) })
	}
	return command
}

// errUnexplained tells that an exported fixture is another life than the one that happened.
var errUnexplained = errors.New("the fixture does not replay as it was lived; mend it by hand, or tell what is missing")

func exportFixture(cmd *cobra.Command, store *postgres.Store, id uuid.UUID, o exportOptions) error {
	life, err := store.ReadLife(cmd.Context(), o.account, id)
	if errors.Is(err, saga.ErrNotFound) {
		return fmt.Errorf("account %s has no order %s", o.account, id)
	}
	if err != nil {
		return err
	}
	exported, unexplained, err := fixture.Export(life)
	if err != nil {
		return err
	}
	text, err := fixture.ToYAML(exported)
	if err != nil {
		return err
	}
	fmt.Fprint(cmd.OutOrStdout(), "# Guards against: (say which failure this shows)\n"+text)
	if !o.noCheck {
		more, err := checkExport(cmd.Context(), text, o.databaseURL)
		if errors.Is(err, pgdev.ErrNoPrograms) || errors.Is(err, pgdev.ErrUnsupported) {
			fmt.Fprintln(cmd.ErrOrStderr(), "not replayed: there are no PostgreSQL programs here; name a scratch database with --database-url")
		} else if err != nil {
			return err
		}
		unexplained = append(unexplained, more...)
	}
	for _, one := range unexplained {
		fmt.Fprintln(cmd.ErrOrStderr(), "not explained: "+one)
	}
	if len(unexplained) > 0 {
		return errUnexplained
	}
	return nil
}

// checkExport replays what is printed. It gives the records that it does not explain.
func checkExport(ctx context.Context, text, databaseURL string) (unexplained []string, err error) {
	read, err := fixture.Read("the fixture", strings.NewReader(text))
	if err != nil {
		return nil, err
	}
	house, err := openPlayhouse(ctx, databaseURL, 1)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, house.close()) }()
	worlds := house.worldsOf(ctx, house.databases[0])
	defer worlds.close()
	result, failures, err := worlds.play(ctx, read)
	if err != nil || len(failures) > 0 {
		return failures, err
	}
	return fixture.Unexplained(read, result)
}
