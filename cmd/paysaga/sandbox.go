package main

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"time"

	"github.com/spf13/cobra"

	"paysaga/providers/sandbox"
)

func newSandboxCommand() *cobra.Command {
	var address string
	var options sandbox.Options
	command := &cobra.Command{
		Use:   "sandbox",
		Short: "Run a local stand-in for the payment providers",
		Long: `Runs a server that speaks the needed part of the providers' APIs with their own rules: idempotency keys, declines,
3-D Secure. It moves no money, keeps everything in memory and forgets it at the end.

  /stripe               Stripe's API: set STRIPE_BASE_URL to http://HOST:PORT/stripe and STRIPE_API_KEY to any sk_test_…
  /adyen/v71, /paypal   Adyen's Checkout API and PayPal's Orders and Payments APIs
  /_sandbox/ledger      what was charged, held and refunded
  /_sandbox/requests    the last requests
  /_sandbox/faults      POST what should go wrong, DELETE to end it
  /_sandbox/payments/ID/approve, refuse, settle, fail   POST: play the customer or the bank
  /_sandbox/refunds/ID/settle, fail                     POST: play the bank
  /_sandbox/webhooks    GET or POST where signed webhooks go and how; POST /_sandbox/webhooks/flush sends what waits
  /_sandbox/clock, /_sandbox/settings, /_sandbox/reset  POST: move its clock, set its delays, forget everything`,
		Example: `  paysaga sandbox --addr 127.0.0.1:9090
  curl -s http://127.0.0.1:9090/_sandbox/ledger
  curl -s http://127.0.0.1:9090/_sandbox/faults -d '{"provider":"stripe","call":"charge","fault":"timeout_after","times":1}'`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			listener, err := listen(cmd.Context(), address)
			if err != nil {
				return err
			}
			fmt.Fprintln(cmd.ErrOrStderr(), "sandbox listening on", baseURL(listener))
			box := sandbox.New(options)
			defer box.Close()
			server := &http.Server{Handler: box, ReadHeaderTimeout: readHeaderTimeout}
			stop := context.AfterFunc(cmd.Context(), func() { _ = server.Close() })
			defer stop()
			if err := server.Serve(listener); !errors.Is(err, http.ErrServerClosed) {
				return fmt.Errorf("serve: %w", err)
			}
			return nil
		},
	}
	command.Flags().StringVar(&address, "addr", "127.0.0.1:9090", "address to listen on; port 0 picks a free one")
	command.Flags().Int64Var(&options.Seed, "seed", 1, "seed of the faults that come by probability")
	command.Flags().DurationVar(&options.SearchDelay, "search-delay", 0, "how far the search index lags behind, as the providers' do")
	command.Flags().DurationVar(&options.SettleAfter, "settle-after", 2*time.Second,
		"when a payment in processing ends by itself; 0 for never")
	return command
}
