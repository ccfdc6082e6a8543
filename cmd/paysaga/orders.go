package main

import (
	"context"
	"fmt"
	"io"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/google/uuid"
	"github.com/spf13/cobra"

	"paysaga/api"
	shopclient "paysaga/api/client"
	"paysaga/providers"
)

func newOrdersCommand() *cobra.Command {
	command := &cobra.Command{
		Use:   "orders",
		Short: "Look at orders and their timelines",
		Long: `Asks the API at PAYSAGA_SERVER with the key in PAYSAGA_API_KEY; when they are not set, the API of a running
"paysaga dev".`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	dir := addDirFlag(command)
	command.AddCommand(newOrdersGetCommand(dir), newOrdersListCommand(dir))
	return command
}

func newOrdersGetCommand(dir *string) *cobra.Command {
	var asJSON bool
	command := &cobra.Command{
		Use: "get ID", Short: "Show one order and its timeline", Args: cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			id, err := uuid.Parse(args[0])
			if err != nil {
				return usageError{fmt.Errorf("%q is no order's id, which is a UUID", args[0])}
			}
			client, err := newAPIClient(*dir, asShop)
			if err != nil {
				return err
			}
			ctx, cancel := context.WithTimeout(cmd.Context(), readPatience)
			defer cancel()
			order, err := client.GetOrder(ctx, id)
			if err != nil {
				return err
			}
			timeline, err := client.OrderSaga(ctx, id)
			if err != nil {
				return err
			}
			if asJSON {
				return printJSON(cmd, map[string]any{"order": order, "saga": timeline})
			}
			return printOrder(cmd.OutOrStdout(), order, timeline)
		},
	}
	command.Flags().BoolVar(&asJSON, "json", false, "print JSON")
	return command
}

func newOrdersListCommand(dir *string) *cobra.Command {
	var asJSON bool
	var status, provider, cursor string
	var limit int
	command := &cobra.Command{
		Use: "list", Short: "List orders, newest first", Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			client, err := newAPIClient(*dir, asShop)
			if err != nil {
				return err
			}
			ctx, cancel := context.WithTimeout(cmd.Context(), readPatience)
			defer cancel()
			filter := shopclient.OrderFilter{Status: api.OrderStatus(status), Provider: provider, PageSize: limit}
			list, err := client.OrdersPage(ctx, filter, cursor)
			if err != nil {
				return err
			}
			if asJSON {
				return printJSON(cmd, list)
			}
			return printOrders(cmd, list)
		},
	}
	command.Flags().BoolVar(&asJSON, "json", false, "print JSON")
	statuses := words([]api.OrderStatus{
		api.OrderStatusProcessing, api.OrderStatusAwaiting, api.OrderStatusConfirmed, api.OrderStatusFailed, api.OrderStatusCanceled,
		api.OrderStatusInReview,
	})
	command.Flags().StringVar(&status, "status", "", "only orders of this status: "+strings.Join(statuses, ", "))
	command.Flags().StringVar(&provider, "provider", "", "only orders paid through this provider")
	command.Flags().StringVar(&cursor, "cursor", "", "the next_cursor of the page before")
	command.Flags().IntVar(&limit, "limit", 20, "orders a page, at most 100")
	complete(command, "status", statuses)
	return command
}

func printOrders(cmd *cobra.Command, list api.OrderList) error {
	table := tabwriter.NewWriter(cmd.OutOrStdout(), 0, 0, 2, ' ', 0)
	fmt.Fprintln(table, "ID\tSTATUS\tAMOUNT\tPAYMENT\tPROVIDER\tCREATED")
	for _, o := range list.Data {
		fmt.Fprintf(table, "%s\t%s\t%s\t%s\t%s\t%s\n", o.ID, o.Status, providers.Money{Amount: o.Amount, Currency: o.Currency},
			o.Payment.Status, o.Payment.Provider, o.CreatedAt.Format(time.RFC3339))
	}
	if err := table.Flush(); err != nil {
		return err //nolint:wrapcheck // standard output
	}
	if list.NextCursor != nil {
		fmt.Fprintln(cmd.ErrOrStderr(), "more: --cursor", *list.NextCursor)
	}
	return nil
}

func printOrder(out io.Writer, o api.Order, s api.Saga) error {
	table := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	fmt.Fprintf(table, "order\t%s\nstatus\t%s\namount\t%s\npayment\t%s at %s %s\nsaga\t%s\ncreated\t%s\n",
		o.ID, o.Status, providers.Money{Amount: o.Amount, Currency: o.Currency}, o.Payment.Status, o.Payment.Provider,
		o.Payment.ProviderReference, s.State, o.CreatedAt.Format(time.RFC3339Nano))
	if !s.NextAttemptAt.IsZero() {
		fmt.Fprintf(table, "next look\t%s\n", s.NextAttemptAt.Format(time.RFC3339))
	}
	for _, item := range o.Items {
		fmt.Fprintf(table, "item\t%d × %s at %s\n", item.Quantity, item.SKU, providers.Money{Amount: item.UnitAmount, Currency: o.Currency})
	}
	fmt.Fprintln(table, "\nSTEP\tATTEMPT\tSTATUS\tOUTCOME\tCODE\tSENT\tSTARTED")
	for _, step := range s.Steps {
		fmt.Fprintf(table, "%s\t%d\t%s\t%s\t%s\t%d\t%s\n", step.Name, step.Attempt, step.Status, step.Outcome, step.Code, step.SentCount,
			step.StartedAt.Format("15:04:05.000"))
	}
	for _, finding := range s.Findings {
		fmt.Fprintf(table, "finding\t%s\t%s\n", finding.Kind, finding.Detail)
	}
	return table.Flush() //nolint:wrapcheck // standard output
}
