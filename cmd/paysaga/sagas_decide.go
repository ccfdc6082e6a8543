package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/google/uuid"
	"github.com/spf13/cobra"

	"paysaga/api"
	shopclient "paysaga/api/client"
	"paysaga/providers"
)

// deciding is what the three commands that decide have in common.
type deciding struct {
	dir    *string
	reason string
	key    string
	yes    bool
	asJSON bool
}

func (d *deciding) addFlags(command *cobra.Command, confirms bool) {
	command.Flags().StringVar(&d.reason, "reason", "", "why, in your own words; kept in the audit log, so without names (required)")
	command.Flags().StringVar(&d.key, "idempotency-key", "", "key of this decision, to send it again; a new one unless it is set")
	command.Flags().BoolVar(&d.asJSON, "json", false, "print JSON")
	if confirms {
		command.Flags().BoolVar(&d.yes, "yes", false, "do not ask on a terminal whether to go on")
	}
	_ = command.MarkFlagRequired("reason")
}

func newSagasRetryCommand(dir *string) *cobra.Command {
	d := &deciding{dir: dir}
	command := &cobra.Command{
		Use: "retry SAGA", Short: "Let a saga go on now, with all its tries anew; nothing is charged anew", Args: cobra.ExactArgs(1),
		Example: `  paysaga sagas retry 3ffbd026-bac1-5d67-a04d-5b537230444c --reason 'The API key is right now.'`,
		RunE: func(cmd *cobra.Command, args []string) error {
			return d.decide(cmd, args[0], "", func(ctx context.Context, c *shopclient.Client, key shopclient.Key, of uuid.UUID) error {
				_, err := c.RetrySaga(ctx, key, of, d.reason)
				return err
			})
		},
	}
	d.addFlags(command, false)
	return command
}

func newSagasCancelCommand(dir *string) *cobra.Command {
	d := &deciding{dir: dir}
	command := &cobra.Command{
		Use: "cancel SAGA", Short: "Give an order up: close or give back its payment, and free its stock", Args: cobra.ExactArgs(1),
		Example: `  paysaga sagas cancel 3ffbd026-bac1-5d67-a04d-5b537230444c --reason 'The customer has called.'`,
		RunE: func(cmd *cobra.Command, args []string) error {
			const follows = "Its payment will be closed, or what was taken of it given back, and its stock freed."
			return d.decide(cmd, args[0], follows, func(ctx context.Context, c *shopclient.Client, key shopclient.Key, of uuid.UUID) error {
				_, err := c.CancelSaga(ctx, key, of, d.reason)
				return err
			})
		},
	}
	d.addFlags(command, true)
	return command
}

func newSagasResolveCommand(dir *string) *cobra.Command {
	d := &deciding{dir: dir}
	var decision api.ResolveRequest
	var as string
	command := &cobra.Command{
		Use: "resolve SAGA", Short: "Decide about a saga in review", Args: cobra.ExactArgs(1),
		Long: `Says what you have seen, or put right, at the provider. The provider is asked, where it can be, and a decision that it
contradicts is refused. --as is one of:
  taken         the money is taken, and the order shall have it: it is confirmed, its stock sold (--payment, --amount)
  nothing_kept  nothing of the customer's money is kept: the order is canceled, its stock freed (--outside-provider)
  as_it_is      the order had ended before, and stays as it ended
  given         of a refund: the customer has the money
  not_given     of a refund: the money is still the shop's`,
		Example: `  paysaga sagas resolve 3ffbd026-bac1-5d67-a04d-5b537230444c --as taken --payment pi_3PqXyZ --amount 3998 \
    --reason 'Captured there.'`,
		RunE: func(cmd *cobra.Command, args []string) error {
			decision.Resolution, decision.Reason = api.Resolution(as), d.reason
			if !decision.Resolution.Valid() {
				return usageError{fmt.Errorf("--as %q: use %s", as, strings.Join(resolutions(), ", "))}
			}
			follows := whatFollows(decision)
			return d.decide(cmd, args[0], follows, func(ctx context.Context, c *shopclient.Client, key shopclient.Key, of uuid.UUID) error {
				_, err := c.ResolveSaga(ctx, key, of, decision)
				return err
			})
		},
	}
	command.Flags().StringVar(&as, "as", "", "what you decide: "+strings.Join(resolutions(), ", ")+" (required)")
	command.Flags().StringVar(&decision.Payment, "payment", "", "of taken: the provider's id of the payment")
	command.Flags().Int64Var(&decision.Amount, "amount", 0, "of taken: what is taken in all, in minor units")
	command.Flags().BoolVar(&decision.OutsideProvider, "outside-provider", false,
		"of nothing_kept: the money went back in another way than at the provider, whose word does not count then")
	d.addFlags(command, true)
	_ = command.MarkFlagRequired("as")
	complete(command, "as", resolutions())
	return command
}

func resolutions() []string {
	return words([]api.Resolution{
		api.ResolutionTaken, api.ResolutionNothingKept, api.ResolutionAsItIs, api.ResolutionGiven, api.ResolutionNotGiven,
	})
}

// whatFollows tells what a decision will do.
func whatFollows(d api.ResolveRequest) string {
	switch d.Resolution {
	case api.ResolutionTaken:
		return fmt.Sprintf("The order will be confirmed, with %d minor units taken by payment %s, and its stock sold.", d.Amount, d.Payment)
	case api.ResolutionNothingKept:
		if d.OutsideProvider {
			return "The order will be canceled and its stock freed, whatever the provider tells of its payment."
		}
		return "The order will be canceled and its stock freed; the provider will be asked whether it keeps money."
	case api.ResolutionAsItIs:
		return "The order will stay as it ended. Its sums stay, too."
	case api.ResolutionGiven:
		return "The refund will count as given, against what was captured."
	case api.ResolutionNotGiven:
		return "The refund will count as not given; its sum can be refunded again."
	}
	return ""
}

// send carries a decision out.
type send func(ctx context.Context, c *shopclient.Client, key shopclient.Key, of uuid.UUID) error

// decide asks whether to go on, where that is told and somebody is there to answer, sends the decision and shows the saga afterwards.
func (d *deciding) decide(cmd *cobra.Command, about, follows string, send send) error {
	of, key, err := d.read(about)
	if err != nil {
		return err
	}
	client, err := newAPIClient(*d.dir, asOperator)
	if err != nil {
		return err
	}
	if follows != "" && !d.yes && isTerminal(os.Stdin) {
		before, err := readSaga(cmd.Context(), client, of)
		if err != nil {
			return err
		}
		if err := confirm(cmd.InOrStdin(), cmd.ErrOrStderr(), before, follows); err != nil {
			return err
		}
	}
	if err := sendPatiently(cmd.Context(), client, key, of, send); err != nil {
		return err
	}
	after, err := readSaga(cmd.Context(), client, of)
	if err != nil {
		return fmt.Errorf("it is decided; see it with \"paysaga sagas show %s\": %w", of, err)
	}
	if d.asJSON {
		return printJSON(cmd, after)
	}
	return printSaga(cmd.OutOrStdout(), after)
}

// read reads what the decision is about, and under which key it is sent.
func (d *deciding) read(about string) (of uuid.UUID, key shopclient.Key, err error) {
	of, err = sagaKey(about)
	if err != nil || d.key == "" {
		return of, shopclient.NewKey(), err
	}
	key, err = shopclient.ParseKey(d.key)
	if err != nil {
		err = usageError{fmt.Errorf("--idempotency-key: %w", err)}
	}
	return of, key, err
}

// sendPatiently tells how to send a decision again of which nobody knows whether it was made.
func sendPatiently(ctx context.Context, client *shopclient.Client, key shopclient.Key, of uuid.UUID, send send) error {
	ctx, cancel := context.WithTimeout(ctx, decidePatience)
	defer cancel()
	err := send(ctx, client, key, of)
	if _, open := errors.AsType[*shopclient.UnknownOutcomeError](err); open {
		return fmt.Errorf("%w\nSend it again with: --idempotency-key %s", err, key)
	}
	return err
}

var errNotConfirmed = errors.New("nothing is decided")

// confirm shows what is decided about and what follows, and waits for a yes.
func confirm(in io.Reader, out io.Writer, s api.SagaRecord, follows string) error {
	money := providers.Money{Amount: s.Amount, Currency: s.Currency}
	fmt.Fprintf(out, "%s %s: %s at %s, %s since %s\n", s.Kind, s.Key, money, s.Provider, s.State, s.UpdatedAt.Format(time.RFC3339))
	for _, finding := range s.Findings {
		if finding.ResolvedAt.IsZero() {
			fmt.Fprintf(out, "  %s: %s\n", finding.Kind, finding.Detail)
		}
	}
	fmt.Fprintf(out, "%s\nGo on? [y/N] ", follows)
	answer, err := bufio.NewReader(io.LimitReader(in, 64)).ReadString('\n')
	if err != nil && !errors.Is(err, io.EOF) {
		return fmt.Errorf("read your answer: %w", err)
	}
	if !slices.Contains([]string{"y", "yes"}, strings.ToLower(strings.TrimSpace(answer))) {
		return errNotConfirmed
	}
	return nil
}
