//go:build unix

package chaos

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"paysaga/internal/account"
	"paysaga/internal/pgdev"
	"paysaga/internal/postgres"
	"paysaga/internal/seal"
	"paysaga/migrations"
	"paysaga/providers/sandbox"
)

// Times of the servers: far shorter than in production, so that what takes minutes there takes seconds here.
const (
	lease        = 2 * time.Second
	callTimeout  = 2 * time.Second
	drainTimeout = 2 * time.Second
	// settleAfter is how long the providers take for what they do not do at once.
	settleAfter = 300 * time.Millisecond
	// awaitDeadline is how long a customer may take. The shops' customers act at once, but what they wait for may be broken for long.
	awaitDeadline = 12 * time.Second
	// noticeWait is how long a charge at Adyen waits for its notice. It is longer than all blows of one moment together, as what is
	// undone too early was not to be, and far shorter than what a shop waits, and the test at its end.
	noticeWait = 30 * time.Second
)

// system is everything that is broken and mended: database, provider, servers, and the wires between them.
type system struct {
	t       testing.TB
	dir     string
	program string
	log     *eventLog

	postgres *pgdev.Server
	database sync.RWMutex // held for writing while the database is down
	sandbox  *sandbox.Server
	sandURL  string
	apiKey   string
	settings []string
	webhooks *relay
	servers  []*server
	growing  sync.Mutex // of servers, against webhooks that come while they are put up
	sky      *sky
}

// server is one place of a server, in which one life follows another. Its wires keep their addresses.
type server struct {
	system *system
	number int // from 1
	role   string
	extra  []string // settings that differ

	front, provider, wire *relay // from the shops, to the provider, to the database

	struck sync.Mutex // held by the blow that hits it

	mutex  sync.Mutex
	life   int
	now    *process // nil while there is none
	frozen bool
	idle   level // of the present life, when it had done nothing yet
}

const shopAccount = "shop"

// openSystem starts a database and a sandbox; the servers are started by the caller.
func openSystem(t testing.TB, program string, seed int64) *system {
	t.Helper()
	s := &system{t: t, dir: workFolder(t), program: program}
	s.log = openEventLog(t, s.dir)
	var err error
	s.postgres, err = pgdev.Start(t.Context(), pgdev.Options{Dir: s.dir})
	must(t, err)
	t.Cleanup(func() { must(t, s.postgres.Remove(context.Background())) })
	_, err = migrations.Up(t.Context(), s.postgres.URL())
	must(t, err)
	s.execute(auditSchema)
	s.openSandbox(seed)
	s.sky = &sky{sandbox: s.sandbox, weather: weather{outages: map[string]sandbox.FaultKind{}}}
	s.openShop()
	s.webhooks = openRelay(t, s.anyServer)
	s.sendWebhooks()
	return s
}

// workFolder is kept when the test fails: its logs tell what happened.
func workFolder(t testing.TB) string {
	t.Helper()
	dir, err := os.MkdirTemp("", "paysaga-chaos-") //nolint:usetesting // it outlives a test that fails
	must(t, err)
	must(t, os.Chmod(dir, 0o711)) // PostgreSQL's account must be able to pass through
	t.Cleanup(func() {
		if t.Failed() || *keepFlag {
			t.Logf("the logs are in %s", dir)
			return
		}
		must(t, os.RemoveAll(dir))
	})
	return dir
}

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

var built struct {
	once    sync.Once
	program string
	err     error
}

// buildProgram builds the program once, with the flags that GOFLAGS has for this test too.
func buildProgram(t testing.TB) string {
	t.Helper()
	built.once.Do(func() {
		var dir string
		//nolint:usetesting // it is for all tests of this process
		if dir, built.err = os.MkdirTemp("", "paysaga-chaos-program-"); built.err != nil {
			return
		}
		built.program = filepath.Join(dir, "paysaga")
		output, err := exec.CommandContext(context.Background(), "go", "build", "-o", built.program, "paysaga/cmd/paysaga").CombinedOutput()
		if err != nil {
			built.err = fmt.Errorf("build paysaga: %w\n%s", err, output)
		}
	})
	must(t, built.err)
	return built.program
}

func removeProgram() {
	if built.program != "" {
		_ = os.RemoveAll(filepath.Dir(built.program))
	}
}

func (s *system) openSandbox(seed int64) {
	s.t.Helper()
	listener, err := (&net.ListenConfig{}).Listen(s.t.Context(), "tcp4", "127.0.0.1:0")
	must(s.t, err)
	s.sandURL = "http://" + listener.Addr().String()
	s.sandbox = sandbox.New(sandbox.Options{Seed: seed, SettleAfter: settleAfter, PublicURL: s.sandURL})
	server := &http.Server{Handler: s.sandbox, ReadHeaderTimeout: time.Minute}
	go func() { _ = server.Serve(listener) }()
	s.t.Cleanup(func() { s.sandbox.Close(); _ = server.Close() })
}

// Keys that the sandbox takes, as it takes any.
const (
	stripeSecret = "whsec_of_the_sandbox"
	adyenHMACKey = "5a6e0f1c7b2d4e8f90a1b2c3d4e5f60718293a4b5c6d7e8f9012a3b4c5d6e7f8"
	paypalHook   = "SANDBOXWEBHOOK"
)

func (s *system) openShop() {
	s.t.Helper()
	store, err := postgres.Open(s.t.Context(), s.postgres.URL(), 1, nil)
	must(s.t, err)
	defer store.Close()
	key, secret, err := account.NewKey(shopAccount, "chaos", account.Merchant)
	must(s.t, err)
	s.apiKey = secret
	must(s.t, store.CreateAPIKey(s.t.Context(), key, account.HashSecret(secret), "chaos"))
	for sku, onHand := range stockAtFirst() {
		_, err := store.PutStock(s.t.Context(), shopAccount, sku, onHand, nil, nil)
		must(s.t, err)
	}
	host, _ := strings.CutPrefix(s.sandURL, "http://")
	s.settings = []string{
		"PAYSAGA_ENCRYPTION_KEYS=" + seal.GenerateKey("k1"), "PAYSAGA_NEW_KEYS_PER_MINUTE=0", "PAYSAGA_ADDR=127.0.0.1:0",
		"PAYSAGA_LEASE=" + lease.String(), "PAYSAGA_CALL_TIMEOUT=" + callTimeout.String(), "PAYSAGA_DRAIN_TIMEOUT=" + drainTimeout.String(),
		"PAYSAGA_AWAIT_DEADLINE=" + awaitDeadline.String(), "PAYSAGA_NOTICE_WAIT=" + noticeWait.String(),
		"PAYSAGA_RECOVERY_INTERVAL=100ms", "PAYSAGA_UPKEEP_INTERVAL=1s",
		"PAYSAGA_LOG_FORMAT=json",
		"STRIPE_API_KEY=sk_test_sandbox", "STRIPE_WEBHOOK_SECRETS=" + stripeSecret,
		"ADYEN_API_KEY=sandbox", "ADYEN_MERCHANT_ACCOUNT=SandboxMerchant", "ADYEN_HMAC_KEYS=" + adyenHMACKey,
		"PAYPAL_CLIENT_ID=sandbox", "PAYPAL_CLIENT_SECRET=sandbox", "PAYPAL_WEBHOOK_ID=" + paypalHook, "PAYPAL_WEBHOOK_VERIFY=api",
		"PAYPAL_CERTIFICATE_HOSTS=" + host,
	}
}

func (s *system) sendWebhooks() {
	s.t.Helper()
	for provider, target := range map[string]sandbox.WebhookTarget{
		"stripe": {Secrets: []string{stripeSecret}}, "adyen": {Secrets: []string{adyenHMACKey}}, "paypal": {WebhookID: paypalHook},
	} {
		target.URL = "http://" + s.webhooks.address() + "/webhooks/" + provider
		must(s.t, s.sandbox.SetWebhookTarget(provider, target))
	}
}

// anyServer is where a load balancer with health checks sends a connection: to a server that runs and is not frozen.
func (s *system) anyServer() string {
	s.growing.Lock()
	servers := slices.Clone(s.servers)
	s.growing.Unlock()
	for _, one := range servers {
		one.mutex.Lock()
		now, frozen := one.now, one.frozen
		one.mutex.Unlock()
		if now != nil && !frozen && !now.ended() {
			return now.address
		}
	}
	return ""
}

// addServer makes room for one more server, with its wires.
func (s *system) addServer(role string, extra ...string) *server {
	s.t.Helper()
	one := &server{system: s, number: len(s.servers) + 1, role: role, extra: extra}
	one.front = openRelay(s.t, one.address)
	one.provider = openRelay(s.t, func() string { return strings.TrimPrefix(s.sandURL, "http://") })
	one.wire = openRelay(s.t, s.databaseAddress)
	s.growing.Lock()
	s.servers = append(s.servers, one)
	s.growing.Unlock()
	s.t.Cleanup(one.kill)
	return one
}

// databaseAddress is nowhere while the database is down.
func (s *system) databaseAddress() string {
	if !s.database.TryRLock() {
		return ""
	}
	defer s.database.RUnlock()
	config := connectionConfig(s.postgres.URL())
	return net.JoinHostPort(config.Host, strconv.Itoa(int(config.Port)))
}

func connectionConfig(url string) *pgx.ConnConfig {
	config, err := pgx.ParseConfig(url)
	if err != nil {
		panic(err) // it is the private server's own
	}
	return config
}

// crashDatabase stops PostgreSQL at once and starts it again after something.
func (s *system) crashDatabase(ctx context.Context, meanwhile func() error) error {
	s.database.Lock()
	defer s.database.Unlock()
	if err := s.postgres.Crash(); err != nil {
		return err
	}
	if err := meanwhile(); err != nil {
		return err
	}
	return s.postgres.Restart(ctx)
}

func (s *server) address() string {
	s.mutex.Lock()
	defer s.mutex.Unlock()
	if s.now == nil {
		return ""
	}
	return s.now.address
}

// start begins the next life.
func (s *server) start(ctx context.Context) error {
	s.mutex.Lock()
	s.life++
	name := fmt.Sprintf("server %d, life %d", s.number, s.life)
	s.mutex.Unlock()
	environ := slices.Concat(basics(), s.system.settings, []string{
		"DATABASE_URL=" + s.databaseURL(name),
		"STRIPE_BASE_URL=http://" + s.provider.address() + "/stripe",
		"ADYEN_BASE_URL=http://" + s.provider.address() + "/adyen/v71",
		"PAYPAL_BASE_URL=http://" + s.provider.address() + "/paypal",
	}, s.extra)
	started, err := startProcess(ctx, s.system.program, s.system.dir, name, environ, "--role", s.role)
	if err != nil {
		return err
	}
	s.mutex.Lock()
	s.now, s.frozen = started, false
	s.mutex.Unlock()
	s.system.log.notef("%s runs, pid %d", name, started.pid())
	idle, err := s.look(ctx)
	if err != nil {
		return fmt.Errorf("measure %s: %w", name, err)
	}
	s.mutex.Lock()
	s.idle = idle
	s.mutex.Unlock()
	return nil
}

// basics are what a program needs of this one's environment.
func basics() []string {
	names := []string{"PATH", "HOME", "TMPDIR"}
	for i, name := range names {
		names[i] = name + "=" + os.Getenv(name)
	}
	return names
}

// databaseURL leads through the server's wire, and tells the audit who comes there.
func (s *server) databaseURL(life string) string {
	config := connectionConfig(s.system.postgres.URL())
	return fmt.Sprintf("postgres://%s:%s@%s/%s?sslmode=disable&chaos.life=%s", config.User, config.Password, s.wire.address(), config.Database,
		url.PathEscape(life))
}

// keepStarting starts a server that may find its database or its wires broken, until it runs or the context ends.
func (s *server) keepStarting(ctx context.Context) error {
	var err error
	for ctx.Err() == nil {
		if err = s.start(ctx); err == nil {
			return nil
		}
		s.system.log.notef("server %d did not start, and is started again: %v", s.number, firstLine(err))
		sleep(ctx, 200*time.Millisecond)
	}
	return errors.Join(ctx.Err(), err)
}

func firstLine(err error) string {
	line, _, _ := strings.Cut(err.Error(), "\n")
	return line
}

// wires are the server's, by what a blow calls them.
func (s *server) wires() map[string]*relay {
	return map[string]*relay{wireNames[0]: s.front, wireNames[1]: s.provider, wireNames[2]: s.wire}
}

func (s *server) process() *process {
	s.mutex.Lock()
	defer s.mutex.Unlock()
	return s.now
}

func (s *server) kill() {
	if now := s.process(); now != nil {
		now.kill()
	}
}

func (s *server) freeze() {
	s.mutex.Lock()
	defer s.mutex.Unlock()
	s.frozen = true
	s.now.signal(syscall.SIGSTOP)
}

func (s *server) thaw() {
	s.mutex.Lock()
	defer s.mutex.Unlock()
	s.frozen = false
	s.now.signal(syscall.SIGCONT)
}

// sleep waits, unless the context ends first.
func sleep(ctx context.Context, pause time.Duration) {
	timer := time.NewTimer(pause)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-ctx.Done():
	}
}

// execute runs SQL of the test's own.
func (s *system) execute(statement string, arguments ...any) {
	s.t.Helper()
	connection, err := pgx.Connect(s.t.Context(), s.postgres.URL())
	must(s.t, err)
	defer connection.Close(context.WithoutCancel(s.t.Context()))
	_, err = connection.Exec(s.t.Context(), statement, arguments...)
	must(s.t, err)
}

// read runs a query of the test's own and gives its rows.
func read[T any](s *system, query string, arguments ...any) []T {
	s.t.Helper()
	connection, err := pgx.Connect(s.t.Context(), s.postgres.URL())
	must(s.t, err)
	defer connection.Close(context.WithoutCancel(s.t.Context()))
	rows, err := connection.Query(s.t.Context(), query, arguments...)
	must(s.t, err)
	found, err := pgx.CollectRows(rows, pgx.RowToStructByPos[T])
	must(s.t, err)
	return found
}
