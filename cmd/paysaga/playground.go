package main

import (
	"cmp"
	"context"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"time"

	"paysaga/internal/account"
	"paysaga/internal/config"
	"paysaga/internal/pgdev"
	"paysaga/internal/postgres"
	"paysaga/internal/seal"
	"paysaga/migrations"
	"paysaga/providers/sandbox"
)

// playground is what paysaga needs around it on a developer's machine: a database with its schema, keys, demo stock, and
// the provider sandbox.
type playground struct {
	postgres *pgdev.Server
	sandbox  *sandbox.Server
	listener net.Listener
	server   *http.Server
	secrets  devSecrets
	// webhooksAnywhere lets the sandbox send webhooks to other addresses than this machine's loopback ones.
	webhooksAnywhere bool
	// now is the sandbox's clock before anybody moves it; nil: the right time.
	now func() time.Time
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
)

// What the sandbox is called with. None is a secret: it takes any test key, and any name.
const (
	sandboxKey           = "sk_test_sandbox"
	sandboxAdyenKey      = "sandbox"
	sandboxMerchant      = "SandboxMerchant"
	sandboxPayPalClient  = "sandbox"
	sandboxPayPalWebhook = "SANDBOXWEBHOOK"
)

// webhookKey signs a provider's webhooks on their way from the sandbox to the API. It is made from what the folder keeps, so that
// nobody else on this machine can sign, and another server that joins goes on with the same.
func (s devSecrets) webhookKey(provider string) string {
	mac := hmac.New(sha256.New, []byte(s.EncryptionKeys))
	mac.Write([]byte("webhooks of " + provider))
	return hex.EncodeToString(mac.Sum(nil))
}

func (s devSecrets) stripeWebhookSecret() string { return "whsec_" + s.webhookKey("stripe") }

// demoStock is what a new folder has to sell.
func demoStock() map[string]int64 {
	return map[string]int64{"TSHIRT-M": 100_000, "MUG": 100_000, "LAST-PIECE": 1}
}

// openPlayground makes one whose webhooks go to the API that will be served by the listener.
func openPlayground(ctx context.Context, dir string, logger *slog.Logger, listener net.Listener) (*playground, error) {
	// PostgreSQL's account must be able to pass through; the files that are secret say so themselves.
	if err := os.MkdirAll(dir, 0o711); err != nil { //nolint:gosec // see above
		return nil, fmt.Errorf("make the folder: %w", err)
	}
	if err := refuseForeignDatabase(ctx, dir); err != nil {
		return nil, err
	}
	p := &playground{webhooksAnywhere: !isLoopback(listener)}
	var err error
	if p.postgres, err = pgdev.Resolve(ctx, os.Getenv("DATABASE_URL"), pgdev.Options{Dir: dir, Durable: true, Logger: logger}); err != nil {
		return nil, fmt.Errorf("get a PostgreSQL: %w", err)
	}
	err = p.fill(ctx, dir, logger)
	if err == nil {
		err = p.sendWebhooksTo(localURL(listener))
	}
	if err != nil {
		p.close()
		return nil, err
	}
	return p, nil
}

// refuseForeignDatabase keeps dev away from a database that others work with, also one of an older paysaga: its worker would
// charge their orders at the sandbox and confirm them.
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
	p.sandbox = sandbox.New(sandbox.Options{
		Logger: logger, Seed: 1, SettleAfter: 2 * time.Second, PublicURL: p.sandboxURL(), WebhooksAnywhere: p.webhooksAnywhere,
		Now: p.now,
	})
	p.server = &http.Server{Handler: p.sandbox, ReadHeaderTimeout: readHeaderTimeout}
	go func() {
		if err := p.server.Serve(listener); !errors.Is(err, http.ErrServerClosed) {
			logger.Error("the sandbox ended", "error", err)
		}
	}()
	return nil
}

// sendWebhooksTo says where the API is. Before it is called, the sandbox sends none.
func (p *playground) sendWebhooksTo(api string) error {
	for provider, target := range map[string]sandbox.WebhookTarget{
		"stripe": {Secrets: []string{p.secrets.stripeWebhookSecret()}},
		"adyen":  {Secrets: []string{p.secrets.webhookKey("adyen")}},
		"paypal": {WebhookID: sandboxPayPalWebhook},
	} {
		target.URL = api + "/webhooks/" + provider
		if err := p.sandbox.SetWebhookTarget(provider, target); err != nil {
			return fmt.Errorf("send the sandbox's webhooks to the API: %w", err)
		}
	}
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
		if _, err := store.PutStock(ctx, demoAccount, sku, onHand, nil, nil); err != nil {
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
		"PAYSAGA_ENCRYPTION_KEYS": p.secrets.EncryptionKeys,

		// A developer tries loads that no shop has. The environment can set the limit all the same.
		"PAYSAGA_NEW_KEYS_PER_MINUTE": cmp.Or(os.Getenv("PAYSAGA_NEW_KEYS_PER_MINUTE"), "0"),

		// The shop whose operator's key is made sees what no order knows.
		"PAYSAGA_RECONCILE_ACCOUNT": cmp.Or(os.Getenv("PAYSAGA_RECONCILE_ACCOUNT"), demoAccount),

		"STRIPE_API_KEY":         sandboxKey,
		"STRIPE_WEBHOOK_SECRETS": p.secrets.stripeWebhookSecret(),
		"STRIPE_BASE_URL":        p.sandboxURL() + "/stripe",

		"ADYEN_API_KEY":          sandboxAdyenKey,
		"ADYEN_MERCHANT_ACCOUNT": sandboxMerchant,
		"ADYEN_HMAC_KEYS":        p.secrets.webhookKey("adyen"),
		"ADYEN_BASE_URL":         p.sandboxURL() + "/adyen/v71",

		"PAYPAL_CLIENT_ID":      sandboxPayPalClient,
		"PAYPAL_CLIENT_SECRET":  sandboxPayPalClient,
		"PAYPAL_WEBHOOK_ID":     sandboxPayPalWebhook,
		"PAYPAL_WEBHOOK_VERIFY": string(config.VerifyByAPI), // nobody vouches for the sandbox's certificate
		// Also where requests go through a proxy, and PAYPAL_BASE_URL names that.
		"PAYPAL_CERTIFICATE_HOSTS": p.listener.Addr().String(),
		"PAYPAL_BASE_URL":          p.sandboxURL() + "/paypal",
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
