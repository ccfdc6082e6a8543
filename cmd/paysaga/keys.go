package main

import (
	"context"
	"errors"
	"fmt"
	"os/user"
	"text/tabwriter"
	"time"

	"github.com/google/uuid"
	"github.com/spf13/cobra"

	"paysaga/internal/account"
	"paysaga/internal/config"
	"paysaga/internal/postgres"
)

func newKeysCommand() *cobra.Command {
	command := &cobra.Command{
		Use:   "keys",
		Short: "Create, list and revoke API keys",
		Long: `API keys let a shop's servers call the API. A key belongs to one account, whose orders and stock it sees, and
has a role. Only its hash is kept: the secret is shown once.

The database is the one that DATABASE_URL names, or that of a running "paysaga dev".`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	dir := addDirFlag(command)
	command.AddCommand(newKeysCreateCommand(dir), newKeysListCommand(dir), newKeysRevokeCommand(dir))
	return command
}

func newKeysCreateCommand(dir *string) *cobra.Command {
	var accountID, name, roleName string
	var asJSON bool
	command := &cobra.Command{
		Use:     "create",
		Short:   "Create a key and print its secret, once",
		Example: "  paysaga keys create --account my-shop --name checkout",
		Args:    cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			key, secret, err := account.NewKey(accountID, name, account.Role(roleName))
			if err != nil {
				return usageError{err}
			}
			err = withStore(cmd.Context(), *dir, func(store *postgres.Store) error {
				return store.CreateAPIKey(cmd.Context(), key, account.HashSecret(secret), actor())
			})
			if err != nil {
				return err
			}
			if asJSON {
				return printJSON(cmd, map[string]any{
					"id": key.ID, "account": key.AccountID, "name": key.Name, "role": key.Role, "secret": secret,
				})
			}
			fmt.Fprintln(cmd.OutOrStdout(), secret)
			fmt.Fprintf(cmd.ErrOrStderr(), "Key %s of account %s (%s). The secret above is shown only now.\n", key.ID, key.AccountID, key.Role)
			return nil
		},
	}
	command.Flags().StringVar(&accountID, "account", "", "account that the key belongs to; made when it is new (required)")
	command.Flags().StringVar(&name, "name", "default", "name by which people know the key")
	command.Flags().StringVar(&roleName, "role", string(account.Merchant), "what the key may do: merchant or operator")
	command.Flags().BoolVar(&asJSON, "json", false, "print JSON")
	_ = command.MarkFlagRequired("account")
	_ = command.RegisterFlagCompletionFunc("role",
		cobra.FixedCompletions([]string{string(account.Merchant), string(account.Operator)}, cobra.ShellCompDirectiveNoFileComp))
	return command
}

func newKeysListCommand(dir *string) *cobra.Command {
	var accountID string
	var asJSON bool
	command := &cobra.Command{
		Use: "list", Short: "List the keys, without their secrets", Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			return withStore(cmd.Context(), *dir, func(store *postgres.Store) error {
				keys, err := store.ListAPIKeys(cmd.Context(), accountID)
				if err != nil {
					return err
				}
				return printKeys(cmd, keys, asJSON)
			})
		},
	}
	command.Flags().StringVar(&accountID, "account", "", "only this account's keys")
	command.Flags().BoolVar(&asJSON, "json", false, "print JSON")
	return command
}

func printKeys(cmd *cobra.Command, keys []account.Key, asJSON bool) error {
	if asJSON {
		list := make([]map[string]any, 0, len(keys))
		for _, key := range keys {
			list = append(list, map[string]any{
				"id": key.ID, "account": key.AccountID, "name": key.Name, "role": key.Role, "created_at": key.CreatedAt,
				"revoked_at": key.RevokedAt,
			})
		}
		return printJSON(cmd, list)
	}
	table := tabwriter.NewWriter(cmd.OutOrStdout(), 0, 0, 2, ' ', 0)
	fmt.Fprintln(table, "ID\tACCOUNT\tROLE\tNAME\tCREATED\tREVOKED")
	for _, key := range keys {
		revoked := "-"
		if key.RevokedAt != nil {
			revoked = key.RevokedAt.UTC().Format(time.RFC3339)
		}
		fmt.Fprintf(table, "%s\t%s\t%s\t%s\t%s\t%s\n", key.ID, key.AccountID, key.Role, key.Name,
			key.CreatedAt.UTC().Format(time.RFC3339), revoked)
	}
	return table.Flush() //nolint:wrapcheck // standard output
}

func newKeysRevokeCommand(dir *string) *cobra.Command {
	return &cobra.Command{
		Use: "revoke ID", Short: "End a key at once", Args: cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			id, err := uuid.Parse(args[0])
			if err != nil {
				return usageError{fmt.Errorf("%q is no key's id; \"paysaga keys list\" shows them", args[0])}
			}
			return withStore(cmd.Context(), *dir, func(store *postgres.Store) error {
				key, err := store.RevokeAPIKey(cmd.Context(), id, actor())
				if errors.Is(err, account.ErrUnknownKey) {
					return fmt.Errorf("there is no key %s; \"paysaga keys list\" shows them", id)
				}
				if err != nil {
					return fmt.Errorf("revoke %s: %w", id, err)
				}
				fmt.Fprintf(cmd.OutOrStdout(), "revoked %s of account %s\n", key.ID, key.AccountID)
				return nil
			})
		},
	}
}

// actor is who works at this terminal, for the audit log.
func actor() string {
	current, err := user.Current()
	if err != nil {
		return "cli"
	}
	return "cli:" + current.Username
}

// withStore opens the database for a command that needs nothing else. It seals and opens nothing.
func withStore(ctx context.Context, dir string, use func(*postgres.Store) error) error {
	url, err := databaseURL(dir)
	if err != nil {
		return err
	}
	return withStoreOf(ctx, config.Config{DatabaseURL: config.Secret(url)}, use)
}

// withStoreOf opens the database that settings name for a command, with their encryption keys, if there are any.
func withStoreOf(ctx context.Context, c config.Config, use func(*postgres.Store) error) error {
	store, err := postgres.Open(ctx, c.DatabaseURL.Reveal(), 1, c.EncryptionKeys)
	if err != nil {
		return err
	}
	defer store.Close()
	if err := checkSchema(ctx, store); err != nil {
		return err
	}
	return use(store)
}
