package main

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/google/uuid"
	"github.com/spf13/cobra"

	"paysaga/api"
	shopclient "paysaga/api/client"
	"paysaga/saga"
)

func newSagasCommand() *cobra.Command {
	command := &cobra.Command{
		Use:   "sagas",
		Short: "See what waits, and decide what no rule decides",
		Long: `Asks the API at PAYSAGA_SERVER with the key in PAYSAGA_API_KEY, which must be one of role operator; when they
are not set, the API of a running "paysaga dev". docs/runbook.md says which decision fits which finding.`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	dir := addDirFlag(command)
	command.AddCommand(
		newSagasListCommand(dir), newSagasShowCommand(dir), newSagasRetryCommand(dir), newSagasResolveCommand(dir), newSagasCancelCommand(dir))
	return command
}

func newSagasListCommand(dir *string) *cobra.Command {
	var asJSON bool
	var filter shopclient.SagaFilter
	var state, kind, cursor string
	command := &cobra.Command{
		Use: "list", Short: "List the sagas that have no end yet, the longest unmoved first", Args: cobra.NoArgs,
		Example: "  paysaga sagas list --state needs_review",
		RunE: func(cmd *cobra.Command, _ []string) error {
			client, err := newAPIClient(*dir, asOperator)
			if err != nil {
				return err
			}
			ctx, cancel := context.WithTimeout(cmd.Context(), readPatience)
			defer cancel()
			filter.State, filter.Kind = api.OpenStateFilter(state), api.SagaKind(kind)
			list, err := client.SagasPage(ctx, filter, cursor)
			if err != nil {
				return err
			}
			if asJSON {
				return printJSON(cmd, list)
			}
			return printSagas(cmd, list, time.Now())
		},
	}
	command.Flags().BoolVar(&asJSON, "json", false, "print JSON")
	states, kinds := words(saga.OpenStates()), words([]api.SagaKind{api.SagaKindOrder, api.SagaKindRefund})
	command.Flags().StringVar(&state, "state", "", "only sagas in this state: "+strings.Join(states, ", "))
	command.Flags().StringVar(&kind, "kind", "", "only sagas of this kind: "+strings.Join(kinds, ", "))
	command.Flags().StringVar(&filter.Provider, "provider", "", "only sagas paid through this provider")
	command.Flags().StringVar(&filter.Finding, "finding", "", "only sagas with an open finding of this kind")
	command.Flags().StringVar(&cursor, "cursor", "", "the next_cursor of the page before")
	command.Flags().IntVar(&filter.PageSize, "limit", 20, "sagas a page, at most 100")
	complete(command, "state", states)
	complete(command, "kind", kinds)
	return command
}

// complete offers a flag's values to the shell.
func complete(command *cobra.Command, flag string, values []string) {
	_ = command.RegisterFlagCompletionFunc(flag, cobra.FixedCompletions(values, cobra.ShellCompDirectiveNoFileComp))
}

func words[T ~string](values []T) []string {
	texts := make([]string, len(values))
	for i, value := range values {
		texts[i] = string(value)
	}
	return texts
}

func newSagasShowCommand(dir *string) *cobra.Command {
	var asJSON bool
	command := &cobra.Command{
		Use: "show SAGA", Short: "Show one saga, with all that was found and decided about it", Args: cobra.ExactArgs(1),
		Long: `Shows the saga of an order, by the order's id, or of a refund, by the refund's.`,
		RunE: func(cmd *cobra.Command, args []string) error {
			key, err := sagaKey(args[0])
			if err != nil {
				return err
			}
			client, err := newAPIClient(*dir, asOperator)
			if err != nil {
				return err
			}
			shown, err := readSaga(cmd.Context(), client, key)
			if err != nil {
				return err
			}
			if asJSON {
				return printJSON(cmd, shown)
			}
			return printSaga(cmd.OutOrStdout(), shown)
		},
	}
	command.Flags().BoolVar(&asJSON, "json", false, "print JSON")
	return command
}

func sagaKey(text string) (uuid.UUID, error) {
	key, err := uuid.Parse(text)
	if err != nil {
		return uuid.Nil, usageError{fmt.Errorf("%q is no saga's key: that is an order's id or a refund's, a UUID", text)}
	}
	return key, nil
}

func readSaga(ctx context.Context, client *shopclient.Client, key uuid.UUID) (api.SagaRecord, error) {
	ctx, cancel := context.WithTimeout(ctx, readPatience)
	defer cancel()
	return client.GetSaga(ctx, key)
}

// kindsOf are the kinds of what is open about a saga.
func kindsOf(s api.SagaRecord) string {
	var kinds []string
	for _, finding := range s.Findings {
		if finding.ResolvedAt.IsZero() {
			kinds = append(kinds, finding.Kind)
		}
	}
	return strings.Join(kinds, ", ")
}
