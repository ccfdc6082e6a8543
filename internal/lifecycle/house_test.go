package lifecycle_test

import (
	"context"
	"flag"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"os"
	"sync/atomic"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"

	"paysaga/internal/httpapi"
	"paysaga/internal/hygiene"
	"paysaga/internal/pgdev/pgtest"
	"paysaga/internal/postgres"
	"paysaga/internal/seal"
	"paysaga/internal/telemetry"
	"paysaga/internal/webhook"
	"paysaga/providers"
	"paysaga/providers/adyen"
	"paysaga/providers/paypal"
	"paysaga/providers/sandbox"
	"paysaga/providers/stripe"
	"paysaga/providers/wire"
	"paysaga/saga"
)

// fewerChecks is how many schedules are drawn by default for each provider. Rapid's own default of 100 takes minutes here; a search
// for rare ones sets -rapid.checks.
const fewerChecks = "20"

func TestMain(m *testing.M) {
	flag.Parse()
	asked := os.Getenv("RAPID_CHECKS") != ""
	flag.Visit(func(f *flag.Flag) { asked = asked || f.Name == "rapid.checks" })
	if !asked {
		if err := flag.Set("rapid.checks", fewerChecks); err != nil {
			panic(err)
		}
	}
	pgtest.Main(m)
}

const (
	shop       = "shop1"
	cup        = "cup"
	cupsOnHand = 1000
	// callTimeout is for calls that hang; none does here.
	callTimeout = 20 * time.Second
	lease       = 30 * time.Second
)

// tester is what testing.T and rapid.T have in common.
type tester interface {
	Helper()
	Context() context.Context
	Error(arguments ...any)
	Errorf(format string, arguments ...any)
	Fatalf(format string, arguments ...any)
	Log(arguments ...any)
	Logf(format string, arguments ...any)
	Cleanup(do func())
}

// house is the world outside the servers: the database, the providers' sandbox, and the mail that the sandbox sends.
type house struct {
	tester

	pool      *pgxpool.Pool
	ring      *seal.Ring
	sandbox   *sandbox.Server
	client    *http.Client
	url       string // of the sandbox
	ahead     *atomic.Int64
	mail      *mail
	front     *front
	overtakes *atomic.Bool // the next answer of a provider
	adapters  map[string]saga.Provider
	endpoints map[string]webhook.Endpoint
	book      *hygiene.Book // what the servers log, count and trace; searched for secrets at the end
	logger    *slog.Logger
	watch     *telemetry.Telemetry
}

// newHouse opens one on a database of its own.
func newHouse(t *testing.T, options sandbox.Options) *house {
	t.Helper()
	book := hygiene.New(t)
	h := &house{tester: t, ahead: &atomic.Int64{}, overtakes: &atomic.Bool{}, book: book, logger: book.Logger()}
	h.mail = newMail(t, h.now)
	if os.Getenv("LIFECYCLE_LOG") != "" { // what the servers do, for whoever looks into a failure
		h.logger = slog.New(slog.NewTextHandler(t.Output(), &slog.HandlerOptions{Level: slog.LevelDebug}))
	}
	var err error
	h.watch, err = telemetry.New(telemetry.Config{Endpoints: httpapi.Endpoints(), Tracers: book.Tracers()})
	h.must(err)
	t.Cleanup(func() { book.Scrape(h.watch.Handler()) })
	h.pool = newPool(t)
	h.ring, err = seal.NewRing(seal.GenerateKey("test"))
	h.must(err)
	options.Now = h.now
	options.Logger = slog.New(slog.DiscardHandler)
	options.AdyenMerchant, options.Webhooks = merchant, h.mail.targets()
	server := httptest.NewUnstartedServer(nil)
	h.url = "http://" + server.Listener.Addr().String()
	options.PublicURL = h.url // also for what the test does without a connection
	h.sandbox = sandbox.New(options)
	server.Config.Handler = h.sandbox
	server.Start()
	t.Cleanup(func() { h.sandbox.Close(); server.Close() })
	h.client = server.Client()
	h.client.CheckRedirect = func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }
	h.newAdapters(options.AdyenSeveralCaptures)
	h.exec(`INSERT INTO accounts (id) VALUES ($1)`, shop)
	h.openFront(t)
	t.Cleanup(func() { pgtest.NameKeys(book, h.pool) })
	return h.fresh(t)
}

// fresh is the same house with its stock, and without orders, payments and mail.
func (h *house) fresh(t tester) *house {
	t.Helper()
	next := *h
	next.tester = t
	next.sandbox.FlushWebhooks(next.Context()) // what is on its way comes in before the mail is emptied
	next.sandbox.Reset()
	next.ahead.Store(0)
	next.overtakes.Store(false)
	next.mail.empty()
	next.exec(`UPDATE lifecycle.clock SET ahead = '0'`)
	next.clear()
	return &next
}

// clear empties the database but for the stock.
func (h *house) clear() {
	h.Helper()
	h.exec(`DO $$ DECLARE t text; BEGIN
		FOREACH t IN ARRAY ARRAY['webhook_events', 'outbox_events', 'findings', 'refunds', 'idempotency_keys', 'idempotency_answers', 'reservations', 'saga_steps',
			'sagas', 'order_items', 'orders', 'stock'] LOOP EXECUTE 'DELETE FROM ' || t; END LOOP;
	END $$`) // TRUNCATE takes a tenth of a second
	h.exec(`INSERT INTO stock (account_id, sku, on_hand) VALUES ($1, $2, $3)`, shop, cup, cupsOnHand)
}

// newPool connects to a database whose clock can be moved: lifecycle.now() stands before PostgreSQL's own.
func newPool(t *testing.T) *pgxpool.Pool {
	t.Helper()
	config, err := pgxpool.ParseConfig(pgtest.URL(t))
	if err != nil {
		t.Fatal(err)
	}
	config.ConnConfig.RuntimeParams["search_path"] = "lifecycle, pg_catalog, public"
	pool, err := pgxpool.NewWithConfig(t.Context(), config)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(pool.Close)
	for _, statement := range []string{
		`CREATE SCHEMA lifecycle`,
		`CREATE TABLE lifecycle.clock (ahead interval NOT NULL)`,
		`INSERT INTO lifecycle.clock VALUES ('0')`,
		`CREATE FUNCTION lifecycle.now() RETURNS timestamptz LANGUAGE sql STABLE AS
			'SELECT pg_catalog.now() + ahead FROM lifecycle.clock'`,
		`DO $$ DECLARE c record; BEGIN
			FOR c IN SELECT table_name, column_name FROM information_schema.columns
				WHERE table_schema = 'public' AND column_default IN ('now()', 'pg_catalog.now()')
			LOOP EXECUTE format('ALTER TABLE public.%I ALTER %I SET DEFAULT lifecycle.now()', c.table_name, c.column_name); END LOOP;
		END $$`,
	} {
		if _, err := pool.Exec(t.Context(), statement); err != nil {
			t.Fatal(err)
		}
	}
	return pool
}

// newAdapters makes them as production does, and the parsers of their webhooks. A message is judged by the time at which it came
// out of the sandbox, as its sender would sign each repeat anew.
func (h *house) newAdapters(severalCaptures bool) {
	h.Helper()
	const apiKey = "sk_test_lifecycle"
	for _, secret := range []string{apiKey, stripeSecret, adyenHMACKey} {
		h.book.Secret("a provider's key", secret)
	}
	client := &http.Client{Transport: h.watch.Transport(wire.NewTransport())}
	stripeAdapter, err := stripe.New(stripe.Config{
		APIKey: apiKey, BaseURL: h.url + "/stripe", CallTimeout: callTimeout, HTTPClient: client,
	})
	h.must(err)
	adyenAdapter, err := adyen.New(adyen.Config{
		APIKey: apiKey, MerchantAccount: merchant, BaseURL: h.url + "/adyen/v71", CallTimeout: callTimeout,
		SeveralCaptures: severalCaptures, HTTPClient: client,
	})
	h.must(err)
	config := paypal.Config{
		ClientID: "client", ClientSecret: apiKey, BaseURL: h.url + "/paypal", CallTimeout: callTimeout, HTTPClient: client,
		WebhookID: paypalWebhookID, VerifyByAPI: true, CertificateHosts: []string{h.url[len("http://"):]},
	}
	paypalAdapter, err := paypal.New(config)
	h.must(err)
	h.adapters = map[string]saga.Provider{stripeName: stripeAdapter, adyenName: adyenAdapter, paypalName: paypalAdapter}
	stripeParser, err := stripe.NewWebhook(stripe.WebhookConfig{Secrets: []string{stripeSecret}})
	h.must(err)
	adyenParser, err := adyen.NewWebhook(adyen.WebhookConfig{HMACKeys: []string{adyenHMACKey}, MerchantAccount: merchant})
	h.must(err)
	paypalParser, err := paypal.NewWebhook(config)
	h.must(err)
	h.endpoints = map[string]webhook.Endpoint{
		stripeName: {Parser: punctual{stripeParser}},
		adyenName:  {Parser: punctual{adyenParser}, Accepted: "[accepted]"},
		paypalName: {Parser: punctual{paypalParser}},
	}
}

func (h *house) must(err error) {
	h.Helper()
	if err != nil {
		h.Fatalf("%v", err)
	}
}

// now is the time in the house.
func (h *house) now() time.Time { return time.Now().Add(time.Duration(h.ahead.Load())) }

// pass lets time go by, in the database and at the providers.
func (h *house) pass(by time.Duration) {
	h.Helper()
	h.passAtProviders(by)
	h.exec(`UPDATE lifecycle.clock SET ahead = $1`, time.Duration(h.ahead.Load()))
}

// passAtProviders lets time go by that the database does not know of. What the providers had sent before is in the mail by then: a
// webhook that was signed before and came in after would be taken for one that was on its way for so long.
func (h *house) passAtProviders(by time.Duration) {
	h.Helper()
	h.sandbox.FlushWebhooks(h.Context())
	h.ahead.Add(int64(by))
	h.sandbox.AdvanceClock(0)
}

func (h *house) exec(sql string, arguments ...any) {
	h.Helper()
	if _, err := h.pool.Exec(h.Context(), sql, arguments...); err != nil {
		h.Fatalf("%s: %v", sql, err)
	}
}

func (h *house) count(sql string, arguments ...any) (n int64) {
	h.Helper()
	if err := h.pool.QueryRow(h.Context(), sql, arguments...).Scan(&n); err != nil {
		h.Fatalf("%s: %v", sql, err)
	}
	return n
}

// order reads one with its saga.
func (h *house) order(id orderID) saga.Saga {
	h.Helper()
	s, err := h.store().GetOrder(h.Context(), shop, id)
	h.must(err)
	return s
}

func (h *house) refundsOf(id orderID) []saga.Saga {
	h.Helper()
	refunds, err := h.store().ListRefunds(h.Context(), shop, id)
	h.must(err)
	return refunds
}

func (h *house) store() *postgres.Store { return postgres.New(h.pool, h.ring) }

// punctual reads a message as if it came in when it was sent.
type punctual struct{ webhook.Parser }

func (p punctual) Parse(header http.Header, body []byte, now time.Time) ([]providers.Notice, error) {
	if sent, err := time.Parse(time.RFC3339Nano, header.Get(sentHeader)); err == nil {
		now = sent
	}
	return p.Parser.Parse(header, body, now)
}
