package client_test

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"maps"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"

	"paysaga/api/client"
	"paysaga/internal/account"
	"paysaga/internal/httpapi"
	"paysaga/internal/hygiene"
	"paysaga/internal/idempotency"
	"paysaga/internal/pgdev/pgtest"
	"paysaga/internal/postgres"
	"paysaga/internal/seal"
	"paysaga/internal/telemetry"
	"paysaga/providers/sandbox"
	"paysaga/providers/stripe"
	"paysaga/providers/wire"
	"paysaga/saga"
)

func TestMain(m *testing.M) { pgtest.Main(m) }

// system is a whole paysaga with PostgreSQL and a provider's sandbox, over real HTTP.
type system struct {
	pool    *pgxpool.Pool
	sandbox *sandbox.Server
	url     string // of the API
	apiKey  string
	log     *hygiene.Book
}

const (
	shopAccount = "shop"
	cups        = 1000
)

func newSystem(t *testing.T) *system {
	t.Helper()
	s := &system{pool: pgtest.New(t), sandbox: sandbox.New(sandbox.Options{Seed: 1}), log: hygiene.New(t)}
	watch, err := telemetry.New(telemetry.Config{Endpoints: httpapi.Endpoints(), Tracers: s.log.Tracers()})
	must(t, err)
	t.Cleanup(func() {
		s.log.Scrape(watch.Handler())
		pgtest.NameKeys(s.log, s.pool)
	})
	provider := httptest.NewServer(s.sandbox)
	t.Cleanup(func() { s.sandbox.Close(); provider.Close() })
	ring, err := seal.NewRing(seal.GenerateKey("test"))
	must(t, err)
	store, logger := postgres.New(s.pool, ring), s.log.Logger()
	const providerKey = "sk_test_of_the_sandbox"
	s.log.Secret("a provider's key", providerKey)
	adapter, err := stripe.New(stripe.Config{
		APIKey: providerKey, BaseURL: provider.URL + "/stripe", CallTimeout: 20 * time.Second,
		HTTPClient: &http.Client{Transport: watch.Transport(wire.NewTransport())},
	})
	must(t, err)
	runner, err := saga.NewRunner(saga.Config{
		Store: store, Answerer: httpapi.Answerer{}, Policy: saga.DefaultPolicy(), Logger: logger, Lease: 30 * time.Second,
		CallTimeout: 20 * time.Second, MaxInFlight: 100, Providers: map[string]saga.Provider{"stripe": adapter},
	})
	must(t, err)
	policy := idempotency.Default()
	policy.KeysPerMinute = 0
	guard, err := idempotency.NewGuard(idempotency.Config{
		Store: store, Policy: policy, Lease: 30 * time.Second, Meter: watch.Idempotency(), Logger: logger,
	})
	must(t, err)
	handler, err := httpapi.New(httpapi.Config{
		Store: store, Runner: runner, Guard: guard, MaxBody: 64 << 10, Logger: logger, Metrics: watch.Handler(), Observe: watch.Middleware,
	})
	must(t, err)
	server := httptest.NewServer(handler)
	t.Cleanup(func() {
		server.Close()
		ended, cancel := context.WithCancel(context.Background())
		cancel() // nothing is left to be waited for
		runner.Drain(ended)
	})
	s.url = server.URL
	key, secret, err := account.NewKey(shopAccount, "test", account.Merchant)
	must(t, err)
	must(t, store.CreateAPIKey(t.Context(), key, account.HashSecret(secret), "test"))
	s.apiKey = secret
	s.log.Secret("an API key", secret)
	_, err = store.PutStock(t.Context(), shopAccount, "CUP", cups, nil, nil)
	must(t, err)
	return s
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// client calls through a dropper.
func (s *system) client(t *testing.T) (*client.Client, *dropper) {
	t.Helper()
	d := &dropper{to: s.url, log: s.log, first: map[string]int{}, seen: map[string]int{}, did: map[string]int{}}
	front := httptest.NewServer(d)
	t.Cleanup(func() { front.Close(); d.working.Wait() })
	c, err := client.New(client.Config{BaseURL: front.URL, APIKey: s.apiKey, MaxAttempts: 100_000}) // without pauses a running request is asked for often
	must(t, err)
	t.Cleanup(c.CloseIdleConnections)
	return client.WithoutPauses(c), d
}

// dropper stands between client and server and does to the first requests of each intent what networks do.
type dropper struct {
	to      string
	log     *hygiene.Book
	working sync.WaitGroup // requests whose client is gone

	mutex sync.Mutex
	first map[string]int // with which mishap an intent begins
	seen  map[string]int // how many requests there were of an intent
	did   map[string]int // how often each mishap happened
}

// mishaps are what can become of a request. Each is given the request and where to answer it.
var mishaps = []struct {
	name string
	do   func(*dropper, http.ResponseWriter, *http.Request, []byte)
}{
	{"lost on the way", func(_ *dropper, w http.ResponseWriter, _ *http.Request, _ []byte) { breakOff(w, nil) }},
	{"answer lost", func(d *dropper, w http.ResponseWriter, r *http.Request, body []byte) {
		d.forward(r, body)
		breakOff(w, nil)
	}},
	{"answer cut in its head", func(d *dropper, w http.ResponseWriter, r *http.Request, body []byte) {
		breakOff(w, d.forward(r, body)[:40])
	}},
	{"answer cut in its body", func(d *dropper, w http.ResponseWriter, r *http.Request, body []byte) {
		answer := d.forward(r, body)
		breakOff(w, answer[:len(answer)-1])
	}},
	{"bad gateway", func(d *dropper, w http.ResponseWriter, r *http.Request, body []byte) {
		d.forward(r, body)
		w.WriteHeader(http.StatusBadGateway)
	}},
	{"connection lost while it runs", func(d *dropper, w http.ResponseWriter, r *http.Request, body []byte) {
		later := r.Clone(context.WithoutCancel(r.Context()))
		d.working.Go(func() { d.forward(later, body) })
		breakOff(w, nil)
	}},
	{"sent twice", func(d *dropper, w http.ResponseWriter, r *http.Request, body []byte) {
		later := r.Clone(context.WithoutCancel(r.Context()))
		d.working.Go(func() { d.forward(later, body) })
		breakOff(w, d.forward(r, body)) // one of the two is told that the other one runs
	}},
}

// dropsPerIntent is how many requests of an intent go wrong, at most: one that was sent twice has its answer.
const dropsPerIntent = 5

func (d *dropper) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	body, err := io.ReadAll(r.Body)
	if err != nil {
		return
	}
	if key := r.Header.Get("Idempotency-Key"); key != "" {
		if do := d.next(key + r.URL.Path); do != nil {
			do(d, w, r, body)
			return
		}
	}
	breakOff(w, d.forward(r, body))
}

// next is what happens to the next request of an intent; each intent begins with another mishap. Nil: it gets through.
func (d *dropper) next(intent string) func(*dropper, http.ResponseWriter, *http.Request, []byte) {
	d.mutex.Lock()
	defer d.mutex.Unlock()
	first, known := d.first[intent]
	if !known {
		first = len(d.first)
		d.first[intent] = first
	}
	number := d.seen[intent]
	d.seen[intent]++
	if number >= dropsPerIntent {
		return nil
	}
	mishap := mishaps[(first+number)%len(mishaps)]
	d.did[mishap.name]++
	return mishap.do
}

// forward gives the server's answer as it goes over the wire.
func (d *dropper) forward(r *http.Request, body []byte) []byte {
	sent, err := http.NewRequestWithContext(context.WithoutCancel(r.Context()), r.Method, d.to+r.URL.RequestURI(), bytes.NewReader(body))
	if err != nil {
		panic(err)
	}
	maps.Copy(sent.Header, r.Header)
	d.log.Request(sent.Header, string(body))
	response, err := http.DefaultTransport.RoundTrip(sent)
	if err != nil {
		panic(err)
	}
	defer response.Body.Close()
	answer, err := httputil.DumpResponse(response, true)
	if err != nil {
		panic(err)
	}
	return answer
}

// breakOff sends the beginning of an answer, or all of it, and closes the connection.
func breakOff(w http.ResponseWriter, beginning []byte) {
	connection, _, err := http.NewResponseController(w).Hijack()
	if err != nil {
		panic(err)
	}
	_, _ = connection.Write(beginning)
	_ = connection.Close()
}

func (s *system) count(t *testing.T, statement string) (n int) {
	t.Helper()
	must(t, s.pool.QueryRow(t.Context(), statement).Scan(&n))
	return n
}

// chargesByIdentifier is the provider's ledger.
func (s *system) chargesByIdentifier(t *testing.T) map[string]sandbox.Charge {
	t.Helper()
	charges := map[string]sandbox.Charge{}
	for _, charge := range s.sandbox.Ledger() {
		if _, twice := charges[charge.Identifier]; twice {
			t.Errorf("two charges of %s", charge.Identifier)
		}
		charges[charge.Identifier] = charge
	}
	return charges
}

// act plays the customer's part at the sandbox.
func (s *system) act(t *testing.T, paymentID, action string) {
	t.Helper()
	recorder := httptest.NewRecorder()
	path := fmt.Sprintf("/_sandbox/payments/%s/%s", paymentID, action)
	s.sandbox.ServeHTTP(recorder, httptest.NewRequestWithContext(t.Context(), http.MethodPost, path, http.NoBody))
	if recorder.Code != http.StatusOK {
		t.Fatalf("%s: %d %s", path, recorder.Code, recorder.Body)
	}
}
