package idempotency_test

import (
	"bytes"
	"context"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"

	"paysaga/internal/hygiene"
	"paysaga/internal/idempotency"
	"paysaga/internal/pgdev/pgtest"
	"paysaga/internal/postgres"
	"paysaga/internal/seal"
	"paysaga/internal/telemetry"
)

func TestMain(m *testing.M) { pgtest.Main(m) }

const (
	account  = "shop"
	endpoint = "POST /things"
	theKey   = "a-key-of-the-tests"
)

// desk is a guard with an ordinary handler behind it, over real HTTP and a database of its own.
type desk struct {
	pool   *pgxpool.Pool
	store  *postgres.Store
	config idempotency.Config
	route  idempotency.Route
	url    string
	log    *hygiene.Book

	mutex sync.Mutex
	do    http.HandlerFunc // what is behind the guard; it may be changed between requests
}

// newDesk opens a desk whose handler counts its calls in the database and answers 201.
func newDesk(t *testing.T, changes ...func(*desk)) *desk {
	t.Helper()
	ring, err := seal.NewRing(seal.GenerateKey("test"))
	noError(t, err)
	d := &desk{pool: pgtest.New(t), log: hygiene.New(t)}
	watch, err := telemetry.New(telemetry.Config{Endpoints: []string{endpoint}})
	noError(t, err)
	t.Cleanup(func() {
		d.log.Scrape(watch.Handler())
		pgtest.NameKeys(d.log, d.pool)
	})
	d.store = postgres.New(d.pool, ring)
	d.exec(t, `INSERT INTO accounts (id) VALUES ('shop')`)
	d.exec(t, `CREATE TABLE executions (at timestamptz DEFAULT now())`)
	policy := idempotency.Default()
	policy.KeysPerMinute = 0
	d.config = idempotency.Config{
		Store: d.store, Policy: policy, Lease: 30 * time.Second, Meter: watch.Idempotency(), Logger: d.log.Logger(),
	}
	d.route = idempotency.Route{Endpoint: endpoint, Read: read, Keep: idempotency.KeepSuccess, Tell: tell}
	d.do = d.created
	for _, change := range changes {
		change(d)
	}
	guard, err := idempotency.NewGuard(d.config)
	noError(t, err)
	server := httptest.NewServer(recovering(guard.Handler(d.route, http.HandlerFunc(d.handle))))
	t.Cleanup(server.Close)
	d.url = server.URL
	return d
}

// recovering is what every server has outside of its handlers.
func recovering(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		defer func() {
			if recover() != nil {
				w.WriteHeader(http.StatusInternalServerError)
			}
		}()
		next.ServeHTTP(w, r)
	})
}

// read: the whole body is the intent.
func read(_ http.ResponseWriter, r *http.Request) (string, idempotency.Fingerprint, error) {
	body, err := io.ReadAll(r.Body)
	r.Body = io.NopCloser(bytes.NewReader(body))
	if string(body) == "bad" {
		return "", idempotency.Fingerprint{}, errors.New("not a body")
	}
	return account, idempotency.NewIntent("test").String("body", string(body)).Fingerprint(), err
}

// tell names errors by their texts.
func tell(w http.ResponseWriter, _ *http.Request, result idempotency.Result, err error) {
	w.Header().Set("Protection", result.Protection)
	if err != nil {
		http.Error(w, err.Error(), http.StatusTeapot)
		return
	}
	for name, value := range result.Answer.Headers {
		w.Header().Set(name, value)
	}
	w.Header().Set("Replayed", strconv.FormatBool(result.Replayed))
	if result.BodyDigest != nil {
		w.Header().Set("Digest", string(result.BodyDigest[:4]))
	}
	w.WriteHeader(result.Answer.Status)
	_, _ = w.Write(result.Answer.Body)
}

func (d *desk) handle(w http.ResponseWriter, r *http.Request) {
	d.mutex.Lock()
	do := d.do
	d.mutex.Unlock()
	do(w, r)
}

func (d *desk) behave(do http.HandlerFunc) {
	d.mutex.Lock()
	defer d.mutex.Unlock()
	d.do = do
}

// created counts the call in a transaction of its own, and answers with the body that came.
func (d *desk) created(w http.ResponseWriter, r *http.Request) {
	if _, err := d.pool.Exec(r.Context(), `INSERT INTO executions DEFAULT VALUES`); err != nil {
		http.Error(w, err.Error(), http.StatusInternalServerError)
		return
	}
	w.Header().Set("Content-Type", "text/x-thing")
	w.Header().Set("Location", "/things/1")
	w.Header().Set("Retry-After", "7")
	w.Header()["Link"] = []string{"</a>", "</b>"}
	w.WriteHeader(http.StatusEarlyHints) // no answer yet
	w.WriteHeader(http.StatusCreated)
	_, _ = io.Copy(w, r.Body)
}

func (d *desk) exec(t *testing.T, statement string) {
	t.Helper()
	_, err := d.pool.Exec(t.Context(), statement)
	noError(t, err)
}

func (d *desk) count(t *testing.T, statement string) int {
	t.Helper()
	var n int
	noError(t, d.pool.QueryRow(t.Context(), statement).Scan(&n))
	return n
}

func (d *desk) executions(t *testing.T) int {
	t.Helper()
	return d.count(t, `SELECT count(*) FROM executions`)
}

type answer struct {
	status int
	header http.Header
	body   string
}

func (d *desk) try(ctx context.Context, key, body string) (answer, error) {
	r, err := http.NewRequestWithContext(ctx, http.MethodPost, d.url, strings.NewReader(body))
	if err != nil {
		return answer{}, err
	}
	if key != "" {
		r.Header.Set("Idempotency-Key", key)
	}
	d.log.Request(r.Header, body)
	got, err := http.DefaultClient.Do(r)
	if err != nil {
		return answer{}, err
	}
	defer got.Body.Close()
	text, err := io.ReadAll(got.Body)
	got.Header.Del("Date")
	return answer{got.StatusCode, got.Header, string(text)}, err
}

func (d *desk) send(t *testing.T, key, body string) answer {
	t.Helper()
	got, err := d.try(t.Context(), key, body)
	noError(t, err)
	return got
}

func (d *desk) sending(t *testing.T, key string) <-chan answer {
	t.Helper()
	answered := make(chan answer, 1)
	go func() {
		got, err := d.try(t.Context(), key, "a thing")
		if err != nil {
			t.Errorf("send: %v", err)
		}
		answered <- got
	}()
	return answered
}

func (a answer) want(t *testing.T, status int, replayed bool, body string) {
	t.Helper()
	if a.status != status || a.header.Get("Replayed") != strconv.FormatBool(replayed) || a.body != body {
		t.Errorf("answered %d, replayed %q: %q; want %d, %t: %q", a.status, a.header.Get("Replayed"), a.body, status, replayed, body)
	}
}

func (a answer) wantError(t *testing.T, err error) {
	t.Helper()
	if a.status != http.StatusTeapot || !strings.HasSuffix(a.body, err.Error()+"\n") {
		t.Errorf("answered %d: %q; want the error %q", a.status, a.body, err)
	}
}

func noError(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

const patience = 30 * time.Second // only a hang needs as long

func receive[T any](t *testing.T, from <-chan T) T {
	t.Helper()
	select {
	case value := <-from:
		return value
	case <-time.After(patience):
		t.Fatal("nothing came")
		panic("unreachable")
	}
}

// eventually asks the database and the like again until something holds.
func eventually(t *testing.T, what string, holds func() bool) {
	t.Helper()
	tick := time.NewTicker(5 * time.Millisecond)
	defer tick.Stop()
	for end := time.After(patience); !holds(); {
		select {
		case <-tick.C:
		case <-end:
			t.Fatalf("still not: %s", what)
		}
	}
}
