package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"paysaga/internal/config"
)

func newDevCommand() *cobra.Command {
	var address string
	command := &cobra.Command{
		Use:   "dev",
		Short: "Run a whole system on this machine: PostgreSQL, provider sandbox, API, demo stock and keys",
		Long: `Starts a private PostgreSQL (or uses an empty database that DATABASE_URL names), the provider sandbox, and the API with its
workers, puts demo stock in place, and prints a curl to paste. The sandbox stands in for Stripe, Adyen and PayPal, and
sends their webhooks to the API. It ends with Ctrl-C.

Everything is kept in the folder --dir; PostgreSQL's files go to /var/lib/paysaga where root starts it in a folder that
PostgreSQL's account cannot reach. When all is ready, DIR/dev.json holds the addresses, the keys and the settings
with which another "paysaga serve" joins the same system; it is removed on exit. The sandbox forgets its payments when
it ends, the database does not.`,
		Example: `  paysaga dev
  paysaga dev --addr 127.0.0.1:0 --dir /tmp/shop`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			dir := cmd.Flag("dir").Value.String()
			return dev(cmd.Context(), cmd.OutOrStdout(), dir, address)
		},
	}
	addDirFlag(command)
	command.Flags().StringVar(&address, "addr", cmp.Or(os.Getenv("PAYSAGA_ADDR"), "127.0.0.1:8080"),
		"address to listen on; port 0 picks a free one")
	return command
}

// dev starts what a system needs, in order, and ends it in reverse.
func dev(ctx context.Context, out io.Writer, dir, address string) error {
	if err := refuseSecondDev(ctx, dir); err != nil {
		return err
	}
	listener, err := listen(ctx, address)
	if err != nil {
		return err
	}
	defer listener.Close() //nolint:errcheck // closed already where it was served
	place, err := openPlayground(ctx, dir, slog.New(slog.NewTextHandler(os.Stderr, &slog.HandlerOptions{Level: slog.LevelWarn})), listener)
	if err != nil {
		return err
	}
	defer place.close()
	c, err := config.Load(append(os.Environ(), place.environ()...))
	if err != nil {
		return err
	}
	s, err := newSystem(ctx, c, newLogger(c))
	if err != nil {
		return err
	}
	remove, err := place.devFile(baseURL(listener)).write(dir)
	if err != nil {
		s.store.Close()
		return err
	}
	defer remove()
	printWelcome(out, place.devFile(baseURL(listener)), dir)
	ctx, stop := context.WithCancel(ctx)
	defer stop()
	ended := make(chan error, 1)
	go func() {
		select {
		case <-place.postgres.Done(): // nil, so never, for a server that is not ours
			ended <- errors.New("PostgreSQL ended; its log is in the folder \"postgres\" of " + dir)
			stop()
		case <-ctx.Done():
			ended <- nil
		}
	}()
	err = s.run(ctx, listener, role{api: true, worker: true})
	stop()
	return errors.Join(err, <-ended)
}

func printWelcome(out io.Writer, f devFile, dir string) {
	const order = `{"currency":"EUR","amount":3998,"items":[{"sku":"TSHIRT-M","quantity":2,"unit_amount":1999}],` +
		`"payment":{"provider":"stripe","method":"pm_card_visa"}}`
	fmt.Fprintf(out, `
paysaga is ready.

  API        %[1]s   (reference: %[1]s/docs)
  Sandbox    %[2]s/_sandbox/ledger
  Database   %[3]s
  For scripts: %[4]s

Place an order. Paste it twice: the second time the stored answer comes back, and nothing is charged again.

  curl -i %[1]s/v1/orders \
    -H 'Authorization: Bearer %[5]s' \
    -H 'Idempotency-Key: first-order-%[6]s' \
    -H 'Content-Type: application/json' \
    -d '%[7]s'

Or pay elsewhere, with another Idempotency-Key and one of these for "payment":

  {"provider":"adyen","method":"stored_APPROVED"}
  {"provider":"paypal","method":"wallet"}      202: open the answer's next_action.url, a page to approve or to refuse

Ctrl-C ends it. The log follows.

`, f.BaseURL, f.SandboxURL, f.DatabaseURL, filepath.Join(dir, devFileName), f.MerchantKey,
		strings.ToLower(time.Now().UTC().Format("20060102-150405")), order)
}
