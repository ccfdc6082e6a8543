package main

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"maps"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"paysaga/internal/account"
	"paysaga/internal/config"
	"paysaga/internal/pgdev"
	"paysaga/internal/postgres"
	"paysaga/internal/seal"
	"paysaga/migrations"
	"paysaga/providers/sandbox"
)

func newDevCommand() *cobra.Command {
	var address string
	command := &cobra.Command{
		Use:   "dev",
		Short: "Run a whole system on this machine: PostgreSQL, provider sandbox, API, demo stock and keys",
		Long: `Starts a private PostgreSQL (or uses an empty database that DATABASE_URL names), the provider sandbox, and the API with its
recovery worker, puts demo stock in place, and prints a curl to paste. It ends with Ctrl-C.

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
	place, err := openPlayground(ctx, dir, slog.New(slog.NewTextHandler(os.Stderr, &slog.HandlerOptions{Level: slog.LevelWarn})))
	if err != nil {
		return err
	}
	defer place.close()
	listener, err := listen(ctx, address)
	if err != nil {
		return err
	}
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

// playground is what paysaga needs around it on a developer's machine: a database with its schema, keys, demo stock, and
// the provider sandbox.
type playground struct {
	postgres *pgdev.Server
	sandbox  *sandbox.Server
	listener net.Listener
	server   *http.Server
	secrets  devSecrets
}

// devSecrets are made once for a folder, so that keys stay valid from one start to the next.
type devSecrets struct {
	EncryptionKeys   string `json:"encryption_keys"`
	MerchantKey      string `json:"merchant_key"`
	OtherMerchantKey string `json:"other_merchant_key"`
	OperatorKey      string `json:"operator_key"`
}

const secretsFileName = "secrets.json"

func readSecrets(dir string) (devSecrets, error) {
	var secrets devSecrets
	content, err := os.ReadFile(filepath.Join(dir, secretsFileName)) //nolint:gosec // the folder is the caller's own
	if err == nil {
		err = json.Unmarshal(content, &secrets)
	}
	return secrets, err //nolint:wrapcheck // what matters is whether there are any
}

const (
	demoAccount  = "demo-shop"
	otherAccount = "other-shop"
	// sandboxKey is no secret: the sandbox takes any test key.
	sandboxKey = "sk_test_sandbox"
)

// demoStock is what a new folder has to sell.
func demoStock() map[string]int64 {
	return map[string]int64{"TSHIRT-M": 100_000, "MUG": 100_000, "LAST-PIECE": 1}
}

func openPlayground(ctx context.Context, dir string, logger *slog.Logger) (*playground, error) {
	// PostgreSQL's account must be able to pass through; the files that are secret say so themselves.
	if err := os.MkdirAll(dir, 0o711); err != nil { //nolint:gosec // see above
		return nil, fmt.Errorf("make the folder: %w", err)
	}
	if err := refuseForeignDatabase(ctx, dir); err != nil {
		return nil, err
	}
	p := &playground{}
	var err error
	if p.postgres, err = pgdev.Resolve(ctx, os.Getenv("DATABASE_URL"), pgdev.Options{Dir: dir, Durable: true, Logger: logger}); err != nil {
		return nil, fmt.Errorf("get a PostgreSQL: %w", err)
	}
	if err := p.fill(ctx, dir, logger); err != nil {
		p.close()
		return nil, err
	}
	return p, nil
}

// refuseForeignDatabase keeps dev away from a database that others work with: its worker would charge their orders at the
// sandbox and confirm them.
func refuseForeignDatabase(ctx context.Context, dir string) error {
	url := os.Getenv("DATABASE_URL")
	if url == "" {
		return nil
	}
	store, err := postgres.Open(ctx, url, 1, nil)
	if err != nil {
		return err
	}
	defer store.Close()
	if err := store.Ping(ctx); errors.Is(err, postgres.ErrNoSchema) {
		return nil
	}
	keys, err := store.ListAPIKeys(ctx, "")
	if err != nil || len(keys) == 0 {
		return err
	}
	if known, err := readSecrets(dir); err == nil {
		if _, err := store.FindAPIKey(ctx, account.HashSecret(known.MerchantKey)); err == nil {
			return nil
		}
	}
	return fmt.Errorf("DATABASE_URL names a database with API keys that paysaga dev did not make in %s, so perhaps with real orders; "+
		"unset it, or name an empty database", dir)
}

func (p *playground) fill(ctx context.Context, dir string, logger *slog.Logger) error {
	if _, err := migrations.Up(ctx, p.postgres.URL()); err != nil {
		return err
	}
	store, err := postgres.Open(ctx, p.postgres.URL(), 1, nil)
	if err != nil {
		return err
	}
	defer store.Close()
	if err := p.loadSecrets(ctx, dir, store); err != nil {
		return err
	}
	return p.startSandbox(ctx, logger)
}

func (p *playground) startSandbox(ctx context.Context, logger *slog.Logger) error {
	listener, err := listen(ctx, "127.0.0.1:0")
	if err != nil {
		return err
	}
	p.listener = listener
	p.sandbox = sandbox.New(sandbox.Options{Logger: logger, Seed: 1, SettleAfter: 2 * time.Second})
	p.server = &http.Server{Handler: p.sandbox, ReadHeaderTimeout: readHeaderTimeout}
	go func() {
		if err := p.server.Serve(listener); !errors.Is(err, http.ErrServerClosed) {
			logger.Error("the sandbox ended", "error", err)
		}
	}()
	return nil
}

// loadSecrets reads the folder's secrets. A folder without them, or a database that does not know the keys any more, gets
// new ones, with demo stock.
func (p *playground) loadSecrets(ctx context.Context, dir string, store *postgres.Store) error {
	if known, err := readSecrets(dir); err == nil {
		p.secrets = known
		if _, err := store.FindAPIKey(ctx, account.HashSecret(known.MerchantKey)); err == nil {
			return nil
		}
	}
	if p.secrets.EncryptionKeys == "" {
		p.secrets.EncryptionKeys = seal.GenerateKey("dev1")
	}
	for _, k := range []struct {
		secret  *string
		account string
		role    account.Role
	}{
		{&p.secrets.MerchantKey, demoAccount, account.Merchant},
		{&p.secrets.OtherMerchantKey, otherAccount, account.Merchant},
		{&p.secrets.OperatorKey, demoAccount, account.Operator},
	} {
		key, secret, err := account.NewKey(k.account, "dev", k.role)
		if err != nil {
			return fmt.Errorf("make a demo key: %w", err)
		}
		*k.secret = secret
		if err := store.CreateAPIKey(ctx, key, account.HashSecret(secret), "paysaga dev"); err != nil {
			return err
		}
	}
	for sku, onHand := range demoStock() {
		if _, err := store.PutStock(ctx, demoAccount, sku, onHand); err != nil {
			return err
		}
	}
	content, err := json.MarshalIndent(p.secrets, "", "  ")
	if err != nil {
		return fmt.Errorf("encode the secrets: %w", err)
	}
	return writePrivate(filepath.Join(dir, secretsFileName), append(content, '\n'))
}

func (p *playground) sandboxURL() string { return baseURL(p.listener) }

// env is how another process joins the same system.
func (p *playground) env() map[string]string {
	return map[string]string{
		"DATABASE_URL":            p.postgres.URL(),
		"STRIPE_API_KEY":          sandboxKey,
		"STRIPE_BASE_URL":         p.sandboxURL() + "/stripe",
		"PAYSAGA_ENCRYPTION_KEYS": p.secrets.EncryptionKeys,
	}
}

func (p *playground) environ() []string {
	env := p.env()
	list := make([]string, 0, len(env))
	for _, name := range slices.Sorted(maps.Keys(env)) {
		list = append(list, name+"="+env[name])
	}
	return list
}

func (p *playground) devFile(base string) devFile {
	return devFile{
		BaseURL: base, MerchantKey: p.secrets.MerchantKey, OtherMerchantKey: p.secrets.OtherMerchantKey,
		OperatorKey: p.secrets.OperatorKey, DatabaseURL: p.postgres.URL(), SandboxURL: p.sandboxURL(), PID: os.Getpid(), Env: p.env(),
	}
}

// close ends what was started, in reverse.
func (p *playground) close() {
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
	defer cancel()
	if p.server != nil {
		p.sandbox.Close()
		_ = p.server.Close()
	}
	if err := p.postgres.Stop(ctx); err != nil {
		fmt.Fprintln(os.Stderr, "paysaga: stop PostgreSQL:", err)
	}
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

Ctrl-C ends it. The log follows.

`, f.BaseURL, f.SandboxURL, f.DatabaseURL, filepath.Join(dir, devFileName), f.MerchantKey,
		strings.ToLower(time.Now().UTC().Format("20060102-150405")), order)
}
