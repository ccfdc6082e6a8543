package config_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"pgregory.net/rapid"

	"paysaga/internal/config"
	"paysaga/internal/schedule"
	"paysaga/internal/seal"
)

// Secrets of these tests, which must never come up in an error.
const (
	databasePassword = "correct-horse-battery"
	databaseURL      = "postgres://shop:" + databasePassword + "@db.example.com:5432/paysaga"
	stripeKey        = "sk_test_51NotARealKey"
	liveStripeKey    = "sk_live_51NotARealKey"
	stripeSecret     = "whsec_51NotARealKey"
	encryptionKey    = "AAECAwQFBgcICQoLDA0ODxAREhMUFRYXGBkaGxwdHh8="
	adyenKey         = "AQEy51NotARealKey"
	hmacKey          = "51A0A4EA1CEED0FF51A0A4EA1CEED0FF51A0A4EA1CEED0FF51A0A4EA1CEED0FF"
	paypalSecret     = "EL51NotARealKey"
)

// withAdyen and withPayPal are what turns a provider on, for tests, and the given entries after it.
func withAdyen(entries ...string) []string {
	return append([]string{"ADYEN_API_KEY=" + adyenKey, "ADYEN_MERCHANT_ACCOUNT=ShopEU", "ADYEN_HMAC_KEYS=" + hmacKey}, entries...)
}

func withPayPal(entries ...string) []string {
	return append([]string{
		"PAYPAL_CLIENT_ID=client", "PAYPAL_CLIENT_SECRET=" + paypalSecret, "PAYPAL_BASE_URL=https://api-m.sandbox.paypal.com",
	}, entries...)
}

// with is a complete environment and the given entries after it. "NAME=" takes a variable out.
func with(entries ...string) []string {
	complete := []string{
		"PATH=/usr/bin", "DATABASE_URL=" + databaseURL, "STRIPE_API_KEY=" + stripeKey,
		"PAYSAGA_ENCRYPTION_KEYS=k1:" + encryptionKey,
	}
	return slices.Concat(complete, entries)
}

var ignoreRing = cmpopts.IgnoreFields(config.Config{}, "EncryptionKeys")

func defaults() config.Config {
	return config.Config{
		DatabaseURL: databaseURL, Addr: "127.0.0.1:8080", MaxBody: 65536,
		Lease: 30 * time.Second, CallTimeout: 20 * time.Second, RecoveryInterval: time.Second,
		AwaitDeadline: 30 * time.Minute, NoticeWait: 5 * time.Minute, DrainTimeout: 25 * time.Second, Retention: 720 * time.Hour,
		Idempotency: config.Idempotency{
			Mode: "enforce", MissingKey: "refuse", MismatchStatus: 422, ExpiredKeys: "new", KeysPerMinute: 100,
		},
		UpkeepInterval: 10 * time.Minute,
		Reconcile: config.Reconcile{
			Mode: "plan", Lookback: 720 * time.Hour, Overlap: 72 * time.Hour, Repairs: config.RepairNames(),
			PerFinding: config.Limit{Units: 1000}, PerRun: config.Limit{Units: 10000}, Foreign: "report",
		},

		Stripe:    config.Stripe{APIKey: stripeKey, BaseURL: "https://api.stripe.com"},
		Adyen:     config.Adyen{BaseURL: "https://checkout-test.adyen.com/v71"},
		PayPal:    config.PayPal{BaseURL: "https://api-m.paypal.com"},
		LogFormat: config.LogText, LogLevel: slog.LevelInfo,
	}
}

func TestLoadDefaults(t *testing.T) {
	t.Parallel()
	got, err := config.Load(with())
	if err != nil {
		t.Fatalf("load: %v", err)
	}
	if diff := cmp.Diff(defaults(), got, ignoreRing); diff != "" {
		t.Errorf("configuration (-want +got):\n%s", diff)
	}
	if got.EncryptionKeys == nil {
		t.Error("no encryption keys")
	}
}

func TestLoadEverySetting(t *testing.T) {
	t.Parallel()
	got, err := config.Load([]string{
		"DATABASE_URL=host=/run/postgresql dbname=paysaga", "PAYSAGA_ENCRYPTION_KEYS=k1:" + encryptionKey,
		"PAYSAGA_ADDR=[::1]:0", "PAYSAGA_MAX_BODY=1024",
		"STRIPE_API_KEY=rk_live_abc\n", "STRIPE_BASE_URL=https://proxy.example.com/stripe/", "STRIPE_WEBHOOK_SECRETS=whsec_a=, whsec_b",
		"ADYEN_API_KEY=" + adyenKey, "ADYEN_MERCHANT_ACCOUNT=Shop_EU-1.2", "ADYEN_HMAC_KEYS=" + hmacKey + "," + strings.ToLower(hmacKey),
		"ADYEN_BASE_URL=https://1797a841fbb37ca7-Shop-checkout-live.adyenpayments.com/checkout/v71/", "ADYEN_RETURN_URL=https://shop.example.com/paid?at=adyen",
		"ADYEN_SEVERAL_CAPTURES=true",
		"PAYPAL_CLIENT_ID=client", "PAYPAL_CLIENT_SECRET=" + paypalSecret, "PAYPAL_WEBHOOK_ID=8PT597110X687430LKGECATA",
		"PAYPAL_WEBHOOK_VERIFY=api", "PAYPAL_CERTIFICATE_HOSTS=certs.example.com:443, 127.0.0.1:9090", "PAYPAL_BASE_URL=https://api-m.paypal.com/",
		"PAYSAGA_LEASE=100ms", "PAYSAGA_CALL_TIMEOUT=100ms", "PAYSAGA_RECOVERY_INTERVAL=10ms",
		"PAYSAGA_AWAIT_DEADLINE=1s", "PAYSAGA_NOTICE_WAIT=24h", "PAYSAGA_DRAIN_TIMEOUT=100ms", "PAYSAGA_RETENTION=168h",
		"PAYSAGA_IDEMPOTENCY_MODE=log_only", "PAYSAGA_MISSING_KEY=proceed", "PAYSAGA_MISMATCH_STATUS=409", "PAYSAGA_EXPIRED_KEYS=reject",
		"PAYSAGA_NEW_KEYS_PER_MINUTE=0", "PAYSAGA_DIGEST_ONLY=PATCH /v1/orders/{id}, PUT /v1/stock/{sku}", "PAYSAGA_UPKEEP_INTERVAL=1h",
		"PAYSAGA_RECONCILE_SCHEDULE=15  */4 * * mon-fri", "PAYSAGA_RECONCILE_MODE=apply", "PAYSAGA_RECONCILE_LOOKBACK=24h",
		"PAYSAGA_RECONCILE_OVERLAP=48h", "PAYSAGA_RECONCILE_REPAIRS=release, complete,release", "PAYSAGA_RECONCILE_FOREIGN=ignore",
		"PAYSAGA_RECONCILE_MAX_PER_FINDING=500, JPY:150000,KWD:300.5", "PAYSAGA_RECONCILE_MAX_PER_RUN=0,EUR:2000.01",
		"PAYSAGA_RECONCILE_MAX_DUPLICATE=50", "PAYSAGA_RECONCILE_ACCOUNT=my-shop_1",
		"PAYSAGA_LOG_FORMAT=json", "PAYSAGA_LOG_LEVEL=WARN",
	})
	if err != nil {
		t.Fatalf("load: %v", err)
	}
	want := config.Config{
		DatabaseURL: "host=/run/postgresql dbname=paysaga", Addr: "[::1]:0",
		MaxBody: 1024,
		Lease:   100 * time.Millisecond, CallTimeout: 100 * time.Millisecond, RecoveryInterval: 10 * time.Millisecond,
		AwaitDeadline: time.Second, NoticeWait: 24 * time.Hour, DrainTimeout: 100 * time.Millisecond, Retention: 168 * time.Hour,
		Stripe: config.Stripe{
			APIKey: "rk_live_abc", BaseURL: "https://proxy.example.com/stripe", WebhookSecrets: []config.Secret{"whsec_a=", "whsec_b"},
		},
		Adyen: config.Adyen{
			APIKey: adyenKey, MerchantAccount: "Shop_EU-1.2", HMACKeys: []config.Secret{hmacKey, config.Secret(strings.ToLower(hmacKey))},
			BaseURL: "https://1797a841fbb37ca7-Shop-checkout-live.adyenpayments.com/checkout/v71", ReturnURL: "https://shop.example.com/paid?at=adyen",
			SeveralCaptures: true,
		},
		PayPal: config.PayPal{
			ClientID: "client", ClientSecret: paypalSecret, WebhookID: "8PT597110X687430LKGECATA", WebhookVerify: config.VerifyByAPI,
			CertificateHosts: []string{"certs.example.com:443", "127.0.0.1:9090"}, BaseURL: "https://api-m.paypal.com",
		},
		Idempotency: config.Idempotency{
			Mode: "log_only", MissingKey: "proceed", MismatchStatus: 409, ExpiredKeys: "reject",
			DigestOnly: []string{"PATCH /v1/orders/{id}", "PUT /v1/stock/{sku}"},
		},
		UpkeepInterval: time.Hour,
		Reconcile: config.Reconcile{
			Schedule: schedule.Schedule{Cron: "15 */4 * * mon-fri"}, Mode: "apply", Lookback: 24 * time.Hour, Overlap: 48 * time.Hour,
			Repairs:    []string{"release", "complete"},
			PerFinding: config.Limit{Units: 500, ByCurrency: map[string]int64{"JPY": 150000, "KWD": 300500}},
			PerRun:     config.Limit{ByCurrency: map[string]int64{"EUR": 200001}}, Duplicate: config.Limit{Units: 50},
			Foreign: "ignore", Account: "my-shop_1",
		},

		LogFormat: config.LogJSON, LogLevel: slog.LevelWarn,
	}
	if diff := cmp.Diff(want, got, ignoreRing); diff != "" {
		t.Errorf("configuration (-want +got):\n%s", diff)
	}
}

func TestLoadAccepts(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		name  string
		entry string
	}{
		{"the sandbox over plain HTTP", "STRIPE_BASE_URL=http://127.0.0.1:9090/stripe"},
		{"an empty value as none", "PAYSAGA_LEASE= "},
		{"a port for everybody", "PAYSAGA_ADDR=:8080"},
		{"postgresql as scheme", "DATABASE_URL=postgresql://localhost/paysaga"},
		{"a call longer than the lease, which is renewed meanwhile", "PAYSAGA_LEASE=1s"},
		{"variables of the tests", "PAYSAGA_TEST_DATABASE_URL=anything"},
		{"Kubernetes' service host", "PAYSAGA_SERVICE_HOST=10.0.0.1"},
		{"Kubernetes' service port", "PAYSAGA_SERVICE_PORT_HTTP=8080"},
		{"Kubernetes' port", "PAYSAGA_PORT=tcp://10.0.0.1:8080"},
		{"Kubernetes' port address of a longer name", "PAYSAGA_SANDBOX_PORT_9090_TCP_ADDR=10.0.0.1"},
		{"other programs' variables", "PAYSAGAX=1"},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			if _, err := config.Load(with(test.entry)); err != nil {
				t.Errorf("load with %s: %v", test.entry, err)
			}
		})
	}
}

func TestLoadRefuses(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		name    string
		entries []string
		want    string
	}{
		{"no database", []string{"DATABASE_URL="}, "DATABASE_URL: is not set; it is written like postgres://user:password@host:5432/database"},
		{"another database", []string{"DATABASE_URL=mysql://root:" + databasePassword + "@db"}, "DATABASE_URL: is no PostgreSQL address"},
		{"a broken database URL", []string{"DATABASE_URL=postgres://a:" + databasePassword + "@db:port"}, "DATABASE_URL: is no PostgreSQL address"},
		{"a database's bare name", []string{"DATABASE_URL=" + databasePassword}, "DATABASE_URL: is no PostgreSQL address"},
		{"no encryption key", []string{"PAYSAGA_ENCRYPTION_KEYS="}, "PAYSAGA_ENCRYPTION_KEYS: is not set; it is written like k1:$(openssl rand -base64 32)"},
		{"a bare encryption key", []string{"PAYSAGA_ENCRYPTION_KEYS=" + encryptionKey}, "PAYSAGA_ENCRYPTION_KEYS: holds invalid encryption keys: key 1: has no id"},
		{"no port", []string{"PAYSAGA_ADDR=localhost"}, "PAYSAGA_ADDR: is no address"},
		{"a port's name", []string{"PAYSAGA_ADDR=localhost:http"}, "PAYSAGA_ADDR: is no address"},
		{"a port too high", []string{"PAYSAGA_ADDR=localhost:65536"}, "PAYSAGA_ADDR: is no address"},
		{"a body limit with a unit", []string{"PAYSAGA_MAX_BODY=64KiB"}, "PAYSAGA_MAX_BODY: is no number of bytes"},
		{"a body limit too low", []string{"PAYSAGA_MAX_BODY=1023"}, "PAYSAGA_MAX_BODY: is 1023; it must be between 1024 and 1048576"},
		{"a body limit too high", []string{"PAYSAGA_MAX_BODY=1048577"}, "PAYSAGA_MAX_BODY: is 1048577; it must be between 1024 and 1048576"},
		{"a number without unit", []string{"PAYSAGA_LEASE=30"}, "PAYSAGA_LEASE: is no duration"},
		{"a lease too short", []string{"PAYSAGA_LEASE=99ms"}, "PAYSAGA_LEASE: is 99ms; it must be between 100ms and 10m"},
		{"a negative lease", []string{"PAYSAGA_LEASE=-30s"}, "PAYSAGA_LEASE: is -30s; it must be between"},
		{"a lease too long", []string{"PAYSAGA_LEASE=10m1s"}, "PAYSAGA_LEASE: is 10m1s; it must be between 100ms and 10m"},
		{"retention below Stripe's window", []string{"PAYSAGA_RETENTION=23h59m"}, "PAYSAGA_RETENTION: is 23h59m; it must be between 24h and 8784h"},
		{"retention below the deadline", []string{"PAYSAGA_RETENTION=24h", "PAYSAGA_AWAIT_DEADLINE=24h"}, "PAYSAGA_RETENTION: is 24h, not longer than PAYSAGA_AWAIT_DEADLINE, 24h"},
		{"a drain shorter than a call", []string{"PAYSAGA_DRAIN_TIMEOUT=19s"}, "PAYSAGA_DRAIN_TIMEOUT: is 19s, shorter than PAYSAGA_CALL_TIMEOUT, 20s"},
		{"an unknown log format", []string{"PAYSAGA_LOG_FORMAT=xml"}, "PAYSAGA_LOG_FORMAT: must be text or json"},
		{"an unknown log level", []string{"PAYSAGA_LOG_LEVEL=info+2"}, "PAYSAGA_LOG_LEVEL: must be debug, info, warn or error"},
		{"a typing mistake", []string{"PAYSAGA_LAESE=1s"}, "PAYSAGA_LAESE: is no setting of paysaga; did you mean PAYSAGA_LEASE?"},
		{"a name in the singular", []string{"PAYSAGA_ENCRYPTION_KEY=k1:" + encryptionKey}, "did you mean PAYSAGA_ENCRYPTION_KEYS?"},
		{"a provider's name with our prefix", []string{"PAYSAGA_STRIPE_API_KEY=" + stripeKey}, "did you mean STRIPE_API_KEY?"},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			requireRefused(t, with(test.entries...), test.want)
		})
	}
}

// requireRefused fails the test unless the settings have exactly one thing wrong with them, told with the given words.
func requireRefused(t *testing.T, environ []string, want string) {
	t.Helper()
	got, err := config.Load(environ)
	if err == nil {
		t.Fatal("no error")
	}
	if strings.Contains(err.Error(), "\n") {
		t.Errorf("more than one problem: %v", err)
	}
	if !strings.Contains(err.Error(), want) {
		t.Errorf("got %q, want it to contain %q", err, want)
	}
	var problem *config.SettingError
	if !errors.As(err, &problem) || !strings.HasPrefix(err.Error(), problem.Name+": ") {
		t.Errorf("got %q, want a *config.SettingError that begins with its variable", err)
	}
	requireNoSecrets(t, err.Error())
	if diff := cmp.Diff(config.Config{}, got); diff != "" {
		t.Errorf("a configuration came with the error (-want +got):\n%s", diff)
	}
}

func requireNoSecrets(t *testing.T, text string) {
	t.Helper()
	for _, secret := range []string{databasePassword, "51NotARealKey", hmacKey[:8], encryptionKey[:8], encryptionKey[20:28]} {
		if strings.Contains(text, secret) {
			t.Errorf("%q repeats a secret", text)
		}
	}
}

func TestLoadTellsAllProblemsAtOnce(t *testing.T) {
	t.Parallel()
	_, err := config.Load([]string{"PAYSAGA_LEASE=soon", "STRIPE_API_KEY=pk_test_x", "PAYSAGA_B=1", "PAYSAGA_A=1"})
	if err == nil {
		t.Fatal("no error")
	}
	var names []string
	for line := range strings.Lines(err.Error()) {
		name, _, _ := strings.Cut(line, ":")
		names = append(names, name)
	}
	want := []string{"DATABASE_URL", "PAYSAGA_ENCRYPTION_KEYS", "STRIPE_API_KEY", "PAYSAGA_LEASE", "PAYSAGA_A", "PAYSAGA_B"}
	if diff := cmp.Diff(want, names); diff != "" {
		t.Errorf("variables with a problem (-want +got):\n%s", diff)
	}
}

func TestLoadTellsOneMistakeOnce(t *testing.T) {
	t.Parallel()
	_, err := config.Load(with("PAYSAGA_CALL_TIMEOUT=1m", "PAYSAGA_DRAIN_TIMEOUT=never"))
	if err == nil || strings.Count(err.Error(), "PAYSAGA_DRAIN_TIMEOUT: ") != 1 || strings.Contains(err.Error(), "\n") {
		t.Errorf("got %v, want one line about PAYSAGA_DRAIN_TIMEOUT", err)
	}
}

func TestLoadNeverRepeatsSecrets(t *testing.T) {
	t.Parallel()
	// Letters that no message of the package has, so that a hit can only come from the value.
	secrets := rapid.StringMatching(`[QXZ]{4}[QXZ:/@?#%, =_-]{0,40}`)
	rapid.Check(t, func(t *rapid.T) {
		secret := secrets.Draw(t, "secret")
		for _, s := range config.Settings() {
			if !s.Secret {
				continue
			}
			for _, prefix := range []string{"", "postgres://", "sk_live_", "k1:", "whsec_a,", hmacKey + ","} {
				_, err := config.Load(with(s.Name + "=" + prefix + secret))
				if err != nil && strings.Contains(err.Error(), secret[:4]) {
					t.Errorf("%s: the error %q repeats the secret", s.Name, err)
				}
			}
		}
	})
}

func TestLoadDatabaseURL(t *testing.T) {
	t.Parallel()
	got, err := config.LoadDatabaseURL([]string{"DATABASE_URL=" + databaseURL, "PAYSAGA_LEASE=broken"})
	if err != nil || got.Reveal() != databaseURL {
		t.Errorf("got %q, %v; want the URL", got.Reveal(), err)
	}
	_, err = config.LoadDatabaseURL(nil)
	var problem *config.SettingError
	if !errors.As(err, &problem) || problem.Name != "DATABASE_URL" {
		t.Errorf("without the variable: got %v, want a *config.SettingError about DATABASE_URL", err)
	}
}

func TestConfigPrintsNoSecrets(t *testing.T) {
	t.Parallel()
	c, err := config.Load(with(slices.Concat(withAdyen(), withPayPal(), []string{"STRIPE_WEBHOOK_SECRETS=" + stripeSecret})...))
	if err != nil {
		t.Fatalf("load: %v", err)
	}
	encoded, err := json.Marshal(map[string]any{"config": c})
	if err != nil {
		t.Fatalf("encode: %v", err)
	}
	var log strings.Builder
	slog.New(slog.NewTextHandler(&log, nil)).Info("start", "url", c.DatabaseURL, "config", c)
	for _, text := range []string{
		fmt.Sprintf("%v", c), fmt.Sprintf("%+v", c), fmt.Sprintf("%#v", c), string(encoded), log.String(),
	} {
		requireNoSecrets(t, text)
		if !strings.Contains(text, "[redacted]") {
			t.Errorf("%q does not show where a secret was", text)
		}
	}
}

func TestTableNamesEverySettingAndItsDefault(t *testing.T) {
	t.Parallel()
	table := config.Table()
	for _, s := range config.Settings() {
		if s.Description == "" {
			t.Errorf("%s has no description", s.Name)
		}
		if s.Required && (s.Default != "" || s.Example == "") {
			t.Errorf("%s is required: it must have an example and no default", s.Name)
		}
		want := "| `" + s.Name + "` | none | "
		if s.Default != "" {
			want = "| `" + s.Name + "` | `" + s.Default + "` | "
		}
		if !strings.Contains(table, want) {
			t.Errorf("the table has no row that begins with %q", want)
		}
	}
	if got, want := strings.Count(table, "\n"), len(config.Settings())+2; got != want {
		t.Errorf("the table has %d lines, want %d", got, want)
	}
}

// The defaults of a provider that is off are left out: to set them would be a contradiction.
func TestDefaultsAreValidWhenWrittenOut(t *testing.T) {
	t.Parallel()
	for provider, settings := range map[string][]string{
		"STRIPE_": with(),
		"ADYEN_":  with(withAdyen("STRIPE_API_KEY=")...),
		"PAYPAL_": with("STRIPE_API_KEY=", "PAYPAL_CLIENT_ID=client", "PAYPAL_CLIENT_SECRET="+paypalSecret),
	} {
		want, err := config.Load(settings)
		if err != nil {
			t.Fatalf("load: %v", err)
		}
		for _, s := range config.Settings() {
			general := s.Name == "DATABASE_URL" || strings.HasPrefix(s.Name, "PAYSAGA_")
			if s.Default != "" && (general || strings.HasPrefix(s.Name, provider)) {
				settings = append(settings, s.Name+"="+s.Default)
			}
		}
		got, err := config.Load(settings)
		if err != nil {
			t.Fatalf("load: %v", err)
		}
		if diff := cmp.Diff(want, got, ignoreRing); diff != "" {
			t.Errorf("configuration (-want +got):\n%s", diff)
		}
	}
}

func TestGeneratedKeysAreAccepted(t *testing.T) {
	t.Parallel()
	entry := "PAYSAGA_ENCRYPTION_KEYS=" + seal.GenerateKey("2027") + "," + seal.GenerateKey("2026")
	if _, err := config.Load(with(entry)); err != nil {
		t.Errorf("load: %v", err)
	}
}
