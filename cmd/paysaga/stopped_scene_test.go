//go:build unix

package main

import (
	"io"
	"net/http"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"paysaga/internal/account"
	"paysaga/internal/pgdev/pgtest"
	"paysaga/internal/postgres"
	"paysaga/internal/seal"
	"paysaga/providers/sandbox"
)

// The two servers: the first is stopped, the second takes over.
const (
	stoppedServer = "stopped"
	otherServer   = "other"
)

const (
	// stoppedLease is short, as the test waits until it is over.
	stoppedLease = "PAYSAGA_LEASE=1s"
	// otherLease is not renewed while a test runs: what the rows hold then changes by what is tested alone.
	otherLease = "PAYSAGA_LEASE=10m"
)

// stoppedScene is two servers on one database, with one provider.
type stoppedScene struct {
	t        *testing.T
	database string
	pool     *pgxpool.Pool
	apiKey   string
	keys     string // encryption keys
	sandbox  *sandbox.Server
	gate     *gate
	relays   map[string]*relay
	servers  map[string]*running
	urls     map[string]string
	fences   []int64 // that were seen, of the newest leases
}

const (
	stoppedSKU   = "CUP"
	stoppedCount = 100 // cups on hand at first
)

func newStoppedScene(t *testing.T) *stoppedScene {
	t.Helper()
	s := &stoppedScene{
		t: t, database: pgtest.URL(t), keys: seal.GenerateKey("k1"), sandbox: sandbox.New(sandbox.Options{Seed: 1}),
		relays: map[string]*relay{}, servers: map[string]*running{}, urls: map[string]string{},
	}
	t.Cleanup(s.sandbox.Close)
	s.gate = openGate(t, s.sandbox)
	var err error
	s.pool, err = pgxpool.New(t.Context(), s.database)
	noError(t, err)
	t.Cleanup(s.pool.Close)
	store := postgres.New(s.pool, nil)
	key, secret, err := account.NewKey("shop", "test", account.Merchant)
	noError(t, err)
	s.apiKey = secret
	noError(t, store.CreateAPIKey(t.Context(), key, account.HashSecret(secret), "test"))
	_, err = store.PutStock(t.Context(), "shop", stoppedSKU, stoppedCount, nil, nil)
	noError(t, err)
	return s
}

// serve starts a server. One whose transactions are to be held reaches its database through a relay.
func (s *stoppedScene) serve(name string, relayed bool, role string, environ ...string) {
	s.t.Helper()
	databaseURL := s.database
	if relayed {
		s.relays[name], databaseURL = openRelay(s.t, s.database)
	}
	settings := goodSettings(databaseURL)
	settings["PAYSAGA_ENCRYPTION_KEYS"] = s.keys
	settings["STRIPE_BASE_URL"] = s.gate.url + "/" + name + "/stripe"
	settings["PAYSAGA_RECOVERY_INTERVAL"] = "50ms"
	// What is held stays held on a slow machine too.
	settings["PAYSAGA_CALL_TIMEOUT"], settings["PAYSAGA_DRAIN_TIMEOUT"] = "1m", "1m"
	server := start(s.t, append(environOf(settings), environ...), "serve", "--role", role)
	s.servers[name] = server
	s.urls[name] = server.listens(s.t)
	server.database = s.database // its own may be a relay, which holds what passes
	server.book.Secret("an API key", s.apiKey)
}

// hold holds what a server sends at a place: a call of its provider, or a transaction.
func (s *stoppedScene) hold(server string, at place, instead string) *heldMessage {
	if at.statement != "" {
		return s.relays[server].hold(s.t, at.statement)
	}
	return s.gate.hold(s.t, server, at.call, instead)
}

// await waits for what ought to come within moments.
func (s *stoppedScene) await(what string, came <-chan struct{}) {
	s.t.Helper()
	select {
	case <-came:
	case <-time.After(programLimit):
		s.t.Fatalf("%s did not come; the servers' logs:\n%s", what, s.logs())
	}
}

func (s *stoppedScene) logs() string {
	var logs strings.Builder
	for name, server := range s.servers {
		logs.WriteString(name + ":\n" + server.output.text())
	}
	return logs.String()
}

func (s *stoppedScene) signal(server string, signal syscall.Signal) {
	s.t.Helper()
	noError(s.t, s.servers[server].command.Process.Signal(signal))
}

// stoppedRequest is a request that is sent more than once.
type stoppedRequest struct{ method, path, key, body string }

func newStoppedRequest(method, path, body string) stoppedRequest {
	return stoppedRequest{method, path, "stopped-" + uuid.NewString(), body}
}

// stoppedAnswer is what a client got.
type stoppedAnswer struct {
	Status   int
	Location string
	Body     string
	replayed bool
	retry    string
	err      error
}

// send gives the answer when it comes; the client stays connected until then.
func (s *stoppedScene) send(server string, r stoppedRequest) <-chan stoppedAnswer {
	answered := make(chan stoppedAnswer, 1)
	go func() { answered <- s.exchange(server, r) }()
	return answered
}

func (s *stoppedScene) exchange(server string, r stoppedRequest) stoppedAnswer {
	request, err := http.NewRequestWithContext(s.t.Context(), r.method, s.urls[server]+r.path, strings.NewReader(r.body))
	if err != nil {
		return stoppedAnswer{err: err}
	}
	request.Header.Set("Authorization", "Bearer "+s.apiKey)
	request.Header.Set("Content-Type", "application/json")
	request.Header.Set("Idempotency-Key", r.key)
	s.servers[server].book.Request(request.Header, r.body)
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		return stoppedAnswer{err: err}
	}
	defer response.Body.Close()
	body, err := io.ReadAll(response.Body)
	s.servers[server].book.Body("an answer", string(body))
	return stoppedAnswer{
		response.StatusCode, response.Header.Get("Location"), string(body),
		response.Header.Get("Idempotency-Replayed") == "true", response.Header.Get("Retry-After"), err,
	}
}

// get waits for the answer.
func (s *stoppedScene) get(whose string, answered <-chan stoppedAnswer) stoppedAnswer {
	s.t.Helper()
	select {
	case answer := <-answered:
		if answer.err != nil {
			s.t.Fatalf("%s: %v; the servers' logs:\n%s", whose, answer.err, s.logs())
		}
		return answer
	case <-time.After(programLimit):
		s.t.Fatalf("%s did not come; the servers' logs:\n%s", whose, s.logs())
		return stoppedAnswer{}
	}
}

// do sends a request of the preparations.
func (s *stoppedScene) do(r stoppedRequest) stoppedAnswer {
	s.t.Helper()
	answer := s.get(r.method+" "+r.path, s.send(otherServer, r))
	if answer.Status >= http.StatusBadRequest {
		s.t.Fatalf("%s %s: %d %s", r.method, r.path, answer.Status, answer.Body)
	}
	return answer
}

// awaitKey waits until a key is as wanted, by the database's clock.
func (s *stoppedScene) awaitKey(r stoppedRequest, wanted string) {
	s.t.Helper()
	for deadline := time.Now().Add(programLimit); time.Now().Before(deadline); {
		var reached bool
		err := s.pool.QueryRow(s.t.Context(), `SELECT count(*) = 1 FROM idempotency_keys WHERE key = $1 AND `+wanted, r.key).Scan(&reached)
		noError(s.t, err)
		if reached {
			return
		}
		noError(s.t, wait(s.t.Context(), pollPause))
	}
	s.t.Fatalf("the key did not become %s; the servers' logs:\n%s", wanted, s.logs())
}

// noteFence notes the fencing number of the newest lease, which the key and its saga share.
func (s *stoppedScene) noteFence(r stoppedRequest) {
	s.t.Helper()
	var key, saga int64
	err := s.pool.QueryRow(s.t.Context(), `
		SELECT k.lock_version, COALESCE(s.lock_version, k.lock_version) FROM idempotency_keys k
		LEFT JOIN sagas s ON s.account_id = k.account_id AND s.key = k.saga_key WHERE k.key = $1`, r.key).Scan(&key, &saga)
	noError(s.t, err)
	if key != saga {
		s.t.Errorf("the key's fence is %d, its saga's %d", key, saga)
	}
	s.fences = append(s.fences, key)
}

// rows are all rows that a request can change, each as PostgreSQL writes it.
func (s *stoppedScene) rows() map[string][]string {
	s.t.Helper()
	rows := map[string][]string{}
	for _, table := range []string{
		"idempotency_keys", "idempotency_answers", "sagas", "saga_steps", "orders", "order_items", "refunds", "stock", "reservations",
		"outbox_events", "findings",
	} {
		found, err := s.pool.Query(s.t.Context(), `SELECT r::text FROM `+table+` r ORDER BY 1`)
		noError(s.t, err)
		rows[table], err = pgx.CollectRows(found, pgx.RowTo[string])
		noError(s.t, err)
	}
	return rows
}

// payments are the provider's.
func (s *stoppedScene) payments() []sandbox.Charge {
	s.t.Helper()
	_, ledger := call(s.t, http.MethodGet, s.gate.url+"/"+otherServer+"/_sandbox/ledger", "", "", "")
	return readJSON[map[string][]sandbox.Charge](s.t, ledger)["charges"]
}
