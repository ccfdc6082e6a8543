package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"os"
	"strconv"
	"text/tabwriter"
	"time"

	"github.com/google/uuid"
	"github.com/spf13/cobra"

	"paysaga/api"
	"paysaga/internal/config"
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
			client, err := newAPIClient(*dir)
			if err != nil {
				return err
			}
			var order api.Order
			var timeline api.Saga
			if err := client.get(cmd.Context(), "/v1/orders/"+id.String(), &order); err != nil {
				return err
			}
			if err := client.get(cmd.Context(), "/v1/orders/"+id.String()+"/saga", &timeline); err != nil {
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
			client, err := newAPIClient(*dir)
			if err != nil {
				return err
			}
			query := url.Values{"limit": {strconv.Itoa(limit)}}
			for name, value := range map[string]string{"status": status, "provider": provider, "cursor": cursor} {
				if value != "" {
					query.Set(name, value)
				}
			}
			var list api.OrderList
			if err := client.get(cmd.Context(), "/v1/orders?"+query.Encode(), &list); err != nil {
				return err
			}
			if asJSON {
				return printJSON(cmd, list)
			}
			return printOrders(cmd, list)
		},
	}
	command.Flags().BoolVar(&asJSON, "json", false, "print JSON")
	command.Flags().StringVar(&status, "status", "", "only orders of this status")
	command.Flags().StringVar(&provider, "provider", "", "only orders paid through this provider")
	command.Flags().StringVar(&cursor, "cursor", "", "the next_cursor of the page before")
	command.Flags().IntVar(&limit, "limit", 20, "orders a page, at most 100")
	statuses := []string{
		string(api.OrderStatusProcessing), string(api.OrderStatusAwaiting), string(api.OrderStatusConfirmed),
		string(api.OrderStatusFailed), string(api.OrderStatusCanceled), string(api.OrderStatusInReview),
	}
	_ = command.RegisterFlagCompletionFunc("status", cobra.FixedCompletions(statuses, cobra.ShellCompDirectiveNoFileComp))
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

// apiClient reads from the API.
type apiClient struct{ server, key string }

func newAPIClient(dir string) (apiClient, error) {
	c := apiClient{server: os.Getenv(config.ServerVariable), key: os.Getenv(config.APIKeyVariable)}
	if c.server != "" && c.key != "" {
		return c, nil
	}
	if c.server != "" || c.key != "" {
		return apiClient{}, errors.New("set both PAYSAGA_SERVER and PAYSAGA_API_KEY, or neither")
	}
	file, err := readDevFile(dir)
	if err != nil {
		return apiClient{}, fmt.Errorf("which server? Set PAYSAGA_SERVER and PAYSAGA_API_KEY, or start \"paysaga dev\" (none runs in %s)", dir)
	}
	return apiClient{server: file.BaseURL, key: file.MerchantKey}, nil
}

func (c apiClient) get(ctx context.Context, path string, into any) error {
	const patience = 10 * time.Second
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, c.server+path, nil)
	if err != nil {
		return fmt.Errorf("ask the API: %w", err)
	}
	request.Header.Set("Authorization", "Bearer "+c.key)
	answer, err := http.DefaultClient.Do(request)
	if err != nil {
		return fmt.Errorf("ask the API: %w", err)
	}
	defer func() { _ = answer.Body.Close() }()
	const longest = 16 << 20 // a page of a hundred orders of a hundred lines is far below
	body := json.NewDecoder(io.LimitReader(answer.Body, longest))
	if answer.StatusCode != http.StatusOK {
		var p api.Problem
		if err := body.Decode(&p); err != nil || p.Detail == "" {
			return fmt.Errorf("the API answered %s", answer.Status)
		}
		return fmt.Errorf("the API answered %d: %s", answer.StatusCode, p.Detail)
	}
	if err := body.Decode(into); err != nil {
		return fmt.Errorf("read the API's answer: %w", err)
	}
	return nil
}
