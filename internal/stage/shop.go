package stage

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"path"
	"strings"
	"sync/atomic"
	"time"

	"github.com/google/uuid"

	"paysaga/api"
	"paysaga/internal/account"
	"paysaga/internal/httpapi"
	"paysaga/internal/idempotency"
	"paysaga/internal/postgres"
	"paysaga/saga"
)

// The scopes of keys, which are a part of every identifier.
const (
	ToOrder    = "POST /v1/orders"
	ToContinue = "POST /v1/orders/{id}/continue"
	ToCapture  = "POST /v1/orders/{id}/capture"
	ToCancel   = "POST /v1/orders/{id}/cancel"
	ToRefund   = "POST /v1/orders/{id}/refunds"

	// ToRetry and the others of a person's decisions are about a saga: its key is the request's ID.
	ToRetry   = "POST /v1/sagas/{saga}/retry"
	ToResolve = "POST /v1/sagas/{saga}/resolve"
	ToGiveUp  = "POST /v1/sagas/{saga}/cancel"
)

const (
	// retention is longer than any test's time.
	retention = 3 * 365 * 24 * time.Hour
	maxBody   = 64 << 10
)

// front is the address of the API. Behind it is one server after the other.
type front struct {
	url     string
	secret  string // the shop's API key
	person  string // an operator's
	current atomic.Pointer[Server]
}

// openFront serves the API over HTTP. Whatever it does goes through the server of the moment.
func (s *Stage) openFront() {
	s.Helper()
	s.front = &front{}
	policy := idempotency.Default()
	policy.Retention, policy.KeysPerMinute = retention, 0
	store := frontStore{s.Store(), s.front}
	guard, err := idempotency.NewGuard(idempotency.Config{
		Store: store, Policy: policy, Lease: lease, Meter: s.Watch.Idempotency(), Logger: s.logger,
	})
	s.Must(err)
	handler, err := httpapi.New(httpapi.Config{
		Store: store, Runner: s.front, Guard: guard, MaxBody: maxBody, Logger: s.logger,
		Metrics: s.Watch.Handler(), Observe: s.Watch.Middleware,
		Webhooks: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { s.front.current.Load().inbox.ServeHTTP(w, r) }),
	})
	s.Must(err)
	listening := httptest.NewServer(handler)
	s.Cleanup(listening.Close)
	s.front.url = listening.URL
	s.front.secret, s.front.person = s.newKey(account.Merchant), s.newKey(account.Operator)
}

func (s *Stage) newKey(role account.Role) (secret string) {
	s.Helper()
	key, secret, err := account.NewKey(Account, "stage", role)
	s.Must(err)
	s.Must(s.Store().CreateAPIKey(s.Context(), key, account.HashSecret(secret), "stage"))
	return secret
}

// frontStore is the database as the server of the moment sees it.
type frontStore struct {
	*postgres.Store

	front *front
}

func (s frontStore) LookupKey(ctx context.Context, accountID, endpoint, key string) (idempotency.Record, bool, error) {
	return s.front.current.Load().store.LookupKey(ctx, accountID, endpoint, key)
}

func (f *front) Start(ctx context.Context, claim saga.Claim, order saga.Order) (saga.Answer, error) {
	return f.current.Load().runner.Start(ctx, claim, order)
}

func (f *front) Ask(ctx context.Context, claim saga.Claim, order saga.Ref, ask saga.Request) (saga.Answer, error) {
	return f.current.Load().runner.Ask(ctx, claim, order, ask)
}

func (f *front) Refund(ctx context.Context, claim saga.Claim, order saga.Ref, amount int64, reason string) (saga.Answer, error) {
	return f.current.Load().runner.Refund(ctx, claim, order, amount, reason)
}

func (f *front) Decide(ctx context.Context, claim saga.Claim, ref saga.Ref, decision saga.Decision) (saga.Answer, error) {
	return f.current.Load().runner.Decide(ctx, claim, ref, decision)
}

func (f *front) Fitting(s saga.Saga) []saga.Resolution { return f.current.Load().runner.Fitting(s) }

func (f *front) TakeOver(ctx context.Context, ref saga.Ref, fence int64) (saga.Answer, error) {
	return f.current.Load().runner.TakeOver(ctx, ref, fence)
}

// Request is one request of the shop. The same request may be sent any number of times.
type Request struct {
	Endpoint string
	Key      string
	ID       uuid.UUID // of the order that it is about
	Body     map[string]any
}

// Decides tells a person's decision from a request of the shop.
func (r Request) Decides() bool { return strings.HasPrefix(r.Endpoint, "POST /v1/sagas/") }

// Name tells requests of a play apart.
func (r Request) Name() string {
	if r.Decides() {
		return "decision " + path.Base(r.Endpoint) + " " + r.Key
	}
	return path.Base(r.Endpoint) + " " + r.Key
}

// Header is the Idempotency-Key, of at least 16 characters.
func (r Request) Header() string {
	return fmt.Sprintf("key-%020s", strings.ReplaceAll(r.Key, " ", "-"))
}

// SagaKey is derived from the request's key alone: an order's id, a refund's, or what a capture's identifiers come from.
func (r Request) SagaKey() uuid.UUID { return saga.Key(Account, r.Endpoint, r.Header(), 1) }

// Reply is what the shop gets. Without a status the connection broke.
type Reply struct {
	Status   int
	Problem  string // the problem's type, if it is one
	Why      string // the problem in words
	Body     string
	Replayed bool
	Kept     bool // it is the one answer that is stored under the request's key
}

// String is the status, and what the body is about.
func (r Reply) String() string {
	var body struct {
		Status any `json:"status"`
	}
	if r.Problem != "" || json.Unmarshal([]byte(r.Body), &body) != nil {
		return fmt.Sprintf("%d %s", r.Status, r.Problem)
	}
	return fmt.Sprintf("%d %v", r.Status, body.Status)
}

// Send sends a request to the API. Whoever asks a server that dies gets nothing.
func (s *Stage) Send(r Request) Reply {
	s.Helper()
	address, secret := s.front.url+"/v1/orders", s.front.secret
	if r.Decides() {
		address, secret = s.front.url+"/v1/sagas", s.front.person
	}
	if r.Endpoint != ToOrder {
		address += "/" + r.ID.String() + "/" + path.Base(r.Endpoint)
	}
	body, err := json.Marshal(r.Body)
	s.Must(err)
	posted, err := http.NewRequestWithContext(s.Context(), http.MethodPost, address, bytes.NewReader(body))
	s.Must(err)
	posted.Header.Set("Content-Type", "application/json")
	posted.Header.Set("Authorization", "Bearer "+secret)
	posted.Header.Set("Idempotency-Key", r.Header())
	s.book.Request(posted.Header, string(body))
	answer, err := s.client.Do(posted)
	s.Must(err)
	defer func() { _ = answer.Body.Close() }()
	content, err := io.ReadAll(answer.Body)
	s.Must(err)
	s.book.Body("an answer", string(content))
	if s.front.current.Load().Dead() {
		return Reply{}
	}
	got := Reply{Status: answer.StatusCode, Body: string(content), Replayed: answer.Header.Get("Idempotency-Replayed") == "true"}
	if answer.Header.Get("Content-Type") == "application/problem+json" {
		var problem api.Problem
		s.Must(json.Unmarshal(content, &problem))
		got.Problem, got.Why = path.Base(problem.Type), problem.Detail
		for _, one := range problem.Errors {
			got.Why += " " + one.Pointer + ": " + one.Detail
		}
	}
	record, used, err := s.Store().LookupKey(s.Context(), Account, r.Endpoint, r.Header())
	s.Must(err)
	got.Kept = used && record.Status != idempotency.InProgress && record.Answer.Status == got.Status && string(record.Answer.Body) == got.Body
	return got
}
