package httpapi_test

import (
	"context"
	"crypto/rand"
	"fmt"
	"net/http"
	"net/http/httptest"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"

	"paysaga/internal/account"
	"paysaga/internal/httpapi"
	"paysaga/internal/hygiene"
	"paysaga/internal/idempotency"
	"paysaga/internal/pgdev/pgtest"
	"paysaga/internal/postgres"
	"paysaga/internal/seal"
	"paysaga/internal/telemetry"
	"paysaga/providers/adyen"
	"paysaga/providers/paypal"
	"paysaga/providers/sandbox"
	"paysaga/providers/stripe"
	"paysaga/providers/wire"
	"paysaga/saga"
)

func TestMain(m *testing.M) { pgtest.Main(m) }

const (
	merchantAccount = "shop-one"
	otherAccount    = "shop-two"
	ordersEndpoint  = "POST /v1/orders" // the scope of an order's key
	bodyLimit       = 16 << 10          // bytes
	retention       = 30 * 24 * time.Hour
)

// shop is a whole system of its own: a database, the provider's sandbox, a runner and the API, over real HTTP.
type shop struct {
	pool    *pgxpool.Pool
	store   *postgres.Store
	sandbox *sandbox.Server
	gate    *gate // stands before the sandbox
	config  saga.Config
	runner  *saga.Runner
	api     *httptest.Server
	log     *hygiene.Book
	watch   *telemetry.Telemetry

	merchant, other, operator, otherOperator, revoked string // API keys; other ones are of another account
}

// newShop opens a shop with 100 shirts, 100 mugs and one last piece. Its log is searched for secrets when the test ends.
func newShop(t *testing.T, changes ...func(*saga.Config)) *shop {
	t.Helper()
	s := &shop{pool: pgtest.New(t), log: hygiene.New(t)}
	var err error
	s.watch, err = telemetry.New(telemetry.Config{Endpoints: httpapi.Endpoints(), Tracers: s.log.Tracers()})
	noError(t, err)
	t.Cleanup(func() { s.log.Scrape(s.watch.Handler()) })
	ring, err := seal.NewRing(seal.GenerateKey("test"))
	noError(t, err)
	s.store = postgres.New(s.pool, ring)
	s.openSandbox(t)
	s.config = saga.Config{
		Store: s.store, Answerer: httpapi.Answerer{}, Policy: saga.DefaultPolicy(), Logger: s.log.Logger(),
		Lease: 30 * time.Second, CallTimeout: 20 * time.Second, MaxInFlight: 100,
		Providers: s.adapters(t),
	}
	for _, change := range changes {
		change(&s.config)
	}
	s.runner = s.newRunner(t)
	s.api = s.serve(t, s.runner)
	s.fill(t)
	s.countWrites(t)
	t.Cleanup(func() { pgtest.NameKeys(s.log, s.pool) })
	return s
}

func (s *shop) openSandbox(t *testing.T) {
	t.Helper()
	s.sandbox = sandbox.New(sandbox.Options{Seed: 1})
	s.gate = newGate(s.sandbox)
	t.Cleanup(s.gate.server.Close)
	t.Cleanup(s.sandbox.Close)
}

func (s *shop) adapters(t *testing.T) map[string]saga.Provider {
	t.Helper()
	const apiKey, timeout = "sk_test_of_the_sandbox", 20 * time.Second
	s.log.Secret("a provider's key", apiKey)
	client := &http.Client{Transport: s.watch.Transport(wire.NewTransport())}
	byStripe, err := stripe.New(stripe.Config{
		APIKey: apiKey, BaseURL: s.gate.server.URL + "/stripe", CallTimeout: timeout, HTTPClient: client,
	})
	noError(t, err)
	byAdyen, err := adyen.New(adyen.Config{
		APIKey: apiKey, MerchantAccount: "TestMerchant", BaseURL: s.gate.server.URL + "/adyen/v71", CallTimeout: timeout,
		HTTPClient: client,
	})
	noError(t, err)
	byPayPal, err := paypal.New(paypal.Config{
		ClientID: "client-of-the-sandbox", ClientSecret: apiKey, BaseURL: s.gate.server.URL + "/paypal", CallTimeout: timeout,
		HTTPClient: client,
	})
	noError(t, err)
	return map[string]saga.Provider{
		"stripe": saga.WithBreaker(byStripe), "adyen": saga.WithBreaker(byAdyen), "paypal": saga.WithBreaker(byPayPal),
	}
}

// newRunner is another process's runner on the same database and sandbox.
func (s *shop) newRunner(t *testing.T) *saga.Runner {
	t.Helper()
	runner, err := saga.NewRunner(s.config)
	noError(t, err)
	t.Cleanup(func() {
		ended, cancel := context.WithCancel(context.Background())
		cancel() // at the end of a test nothing is waited for
		runner.Drain(ended)
	})
	return runner
}

// guard is one process's guard; the policy is the safe one, without a limit on new keys, unless it is changed.
func (s *shop) guard(t *testing.T, changes ...func(*idempotency.Policy)) *idempotency.Guard {
	t.Helper()
	policy := idempotency.Default()
	policy.KeysPerMinute = 0
	for _, change := range changes {
		change(&policy)
	}
	guard, err := idempotency.NewGuard(idempotency.Config{
		Store: s.store, Policy: policy, Lease: s.config.Lease, Meter: s.watch.Idempotency(), Logger: s.config.Logger,
	})
	noError(t, err)
	return guard
}

func (s *shop) serve(t *testing.T, runner *saga.Runner) *httptest.Server {
	t.Helper()
	handler, err := httpapi.New(httpapi.Config{
		Store: s.store, Runner: runner, Guard: s.guard(t), MaxBody: bodyLimit, Logger: s.config.Logger,
		Metrics: s.watch.Handler(), Observe: s.watch.Middleware, Providers: []string{"stripe", "paypal", "adyen"},
	})
	noError(t, err)
	server := httptest.NewServer(handler)
	t.Cleanup(server.Close)
	return server
}

// recover runs a recovery worker, as another process would, until the test ends.
func (s *shop) recover(t *testing.T) {
	t.Helper()
	worker, err := saga.NewRecovery(s.newRunner(t), saga.RecoveryConfig{Interval: 5 * time.Millisecond, Concurrency: 4})
	noError(t, err)
	ctx, stop := context.WithCancel(context.Background())
	ended := make(chan struct{})
	go func() { defer close(ended); worker.Run(ctx) }()
	t.Cleanup(func() { stop(); <-ended })
}

func (s *shop) fill(t *testing.T) {
	t.Helper()
	s.merchant = s.newKey(t, merchantAccount, account.Merchant)
	s.other = s.newKey(t, otherAccount, account.Merchant)
	s.operator = s.newKey(t, merchantAccount, account.Operator)
	s.otherOperator = s.newKey(t, otherAccount, account.Operator)
	s.revoked = s.newKey(t, merchantAccount, account.Merchant)
	s.exec(t, `UPDATE api_keys SET revoked_at = now() WHERE hash = sha256($1::text::bytea)`, s.revoked)
	for sku, onHand := range map[string]int64{"TSHIRT-M": 100, "MUG": 100, "LAST-PIECE": 1} {
		_, err := s.store.PutStock(t.Context(), merchantAccount, sku, onHand, nil, nil)
		noError(t, err)
	}
	_, err := s.store.PutStock(t.Context(), otherAccount, "TSHIRT-M", 100, nil, nil)
	noError(t, err)
}

func (s *shop) newKey(t *testing.T, accountID string, role account.Role) string {
	t.Helper()
	key, secret, err := account.NewKey(accountID, "test", role)
	noError(t, err)
	noError(t, s.store.CreateAPIKey(t.Context(), key, account.HashSecret(secret), "test"))
	s.log.Secret("an API key", secret)
	return secret
}

// countWrites has the database note each transaction that changes a row of whatever table. Transactions that are undone
// leave no note, and what other tests do in their databases is not seen.
func (s *shop) countWrites(t *testing.T) {
	t.Helper()
	s.exec(t, `
		CREATE TABLE written (transaction xid8 PRIMARY KEY);
		CREATE FUNCTION note_write() RETURNS trigger LANGUAGE plpgsql AS $$
		BEGIN
			INSERT INTO written VALUES (pg_current_xact_id()) ON CONFLICT DO NOTHING;
			RETURN NULL;
		END $$;
		DO $$
		DECLARE name text;
		BEGIN
			FOR name IN SELECT relname FROM pg_class WHERE relnamespace = 'public'::regnamespace AND relkind IN ('r', 'p')
				AND NOT relispartition AND relname <> 'written' LOOP
				EXECUTE format('CREATE TRIGGER note_write AFTER INSERT OR UPDATE OR DELETE ON %I
					FOR EACH ROW EXECUTE FUNCTION note_write()', name);
			END LOOP;
		END $$`)
}

// writes is how many transactions have changed something since the shop opened.
func (s *shop) writes(t *testing.T) int {
	t.Helper()
	return query[int](t, s, `SELECT count(*) FROM written`)
}

// footprint is all that a request can leave behind.
type footprint struct {
	Writes, Keys, Orders, Sagas int
	Stock                       string
	Sent                        int // requests to the provider
	Charges                     int
}

func (s *shop) footprint(t *testing.T) footprint {
	t.Helper()
	return footprint{
		Writes: s.writes(t),
		Keys:   query[int](t, s, `SELECT count(*) FROM idempotency_keys`),
		Orders: query[int](t, s, `SELECT count(*) FROM orders`),
		Sagas:  query[int](t, s, `SELECT count(*) FROM sagas`),
		Stock: query[string](t, s, `
			SELECT string_agg(format('%s/%s: %s of %s', account_id, sku, reserved, on_hand), ', ' ORDER BY account_id, sku) FROM stock`),
		Sent:    int(s.gate.sent.Load()),
		Charges: len(s.sandbox.Ledger()),
	}
}

// stock is what the merchant has of a SKU, "reserved of on hand".
func (s *shop) stock(t *testing.T, sku string) string {
	t.Helper()
	return query[string](t, s, `
		SELECT format('%s of %s', reserved, on_hand) FROM stock WHERE account_id = $1 AND sku = $2`, merchantAccount, sku)
}

func (s *shop) exec(t *testing.T, statement string, arguments ...any) {
	t.Helper()
	_, err := s.pool.Exec(t.Context(), statement, arguments...)
	noError(t, err)
}

func query[T any](t *testing.T, s *shop, statement string, arguments ...any) T {
	t.Helper()
	var value T
	noError(t, s.pool.QueryRow(t.Context(), statement, arguments...).Scan(&value))
	return value
}

// newKeyText is a new idempotency key.
func newKeyText() string { return "order-" + rand.Text() }

func noError(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// eventually waits until something holds, and fails the test when it does not within a time that only a hang needs.
func eventually(t *testing.T, what string, holds func() bool) {
	t.Helper()
	const limit, pause = 30 * time.Second, 5 * time.Millisecond
	deadline := time.NewTimer(limit)
	defer deadline.Stop()
	ticker := time.NewTicker(pause)
	defer ticker.Stop()
	for !holds() {
		select {
		case <-ticker.C:
		case <-deadline.C:
			t.Fatalf("after %s still not: %s", limit, what)
		}
	}
}

// receive waits for a value of a channel.
func receive[T any](t *testing.T, what string, from <-chan T) T {
	t.Helper()
	const limit = 30 * time.Second
	deadline := time.NewTimer(limit)
	defer deadline.Stop()
	select {
	case value := <-from:
		return value
	case <-deadline.C:
		t.Fatalf("after %s still not: %s", limit, what)
		panic("unreachable")
	}
}

// onlyCharge is the one payment of the ledger.
func (s *shop) onlyCharge(t *testing.T) sandbox.Charge {
	t.Helper()
	ledger := s.sandbox.Ledger()
	if len(ledger) != 1 {
		t.Fatalf("the ledger has %d payments, want one: %+v", len(ledger), ledger)
	}
	return ledger[0]
}

// control plays the customer's part at the sandbox.
func (s *shop) control(t *testing.T, paymentID, action string) {
	t.Helper()
	s.act(t, "payments", paymentID, action)
}

// controlRefund plays the bank's part.
func (s *shop) controlRefund(t *testing.T, refundID, action string) {
	t.Helper()
	s.act(t, "refunds", refundID, action)
}

func (s *shop) act(t *testing.T, what, id, action string) {
	t.Helper()
	recorder := httptest.NewRecorder()
	path := fmt.Sprintf("/_sandbox/%s/%s/%s", what, id, action)
	s.sandbox.ServeHTTP(recorder, httptest.NewRequestWithContext(t.Context(), http.MethodPost, path, http.NoBody))
	if recorder.Code != http.StatusOK {
		t.Fatalf("%s %s: %d %s", action, id, recorder.Code, recorder.Body)
	}
}
