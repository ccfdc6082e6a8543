// Package httpapi is paysaga's HTTP face: it authenticates, reads and checks requests by the contract in package api, and
// gives answers and problems. It decides nothing about sagas or keys: packages saga and idempotency do, and what they
// need to be stored goes through the ports declared here.
package httpapi

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"runtime/debug"
	"strings"
	"time"

	"github.com/getkin/kin-openapi/openapi3"
	"github.com/go-chi/chi/v5"
	"github.com/go-chi/chi/v5/middleware"
	"github.com/google/uuid"

	"paysaga/api"
	"paysaga/internal/account"
	"paysaga/internal/idempotency"
	"paysaga/saga"
)

// Store is what the API reads and writes beside sagas. Errors: saga.ErrNotFound, account.ErrUnknownKey, saga.ErrStockReserved.
type Store interface {
	Ping(ctx context.Context) error
	FindAPIKey(ctx context.Context, hash [32]byte) (account.Key, error)
	LookupKey(ctx context.Context, accountID, endpoint, key string) (idempotency.Record, bool, error)
	GetOrder(ctx context.Context, accountID string, id uuid.UUID) (saga.Saga, error)
	ListOrders(ctx context.Context, accountID string, filter saga.OrderFilter) ([]saga.Saga, error)
	Timeline(ctx context.Context, accountID string, orderID uuid.UUID) (saga.Timeline, error)
	// PutMetadata replaces the metadata of an order as it was read, and stores the answer under the key, in one transaction. Errors:
	// those of saga.Store about the key, and saga.ErrOrderChanged.
	PutMetadata(ctx context.Context, claim saga.Claim, read saga.Saga, metadata map[string]string, answer saga.Answer) error
	StockStore
	RefundStore
	ReviewStore
}

// StockStore is what the API reads and writes of stock.
type StockStore interface {
	// PutStock sets a count; where a key is held, only while it is, and with what answer makes of it stored in the same transaction.
	PutStock(
		ctx context.Context, accountID, sku string, onHand int64, held *idempotency.Held, answer func(saga.Stock) (saga.Answer, error),
	) (saga.Stock, error)
	GetStock(ctx context.Context, accountID, sku string) (saga.Stock, error)
	ListStock(ctx context.Context, accountID, after string, limit int) ([]saga.Stock, error)
}

// RefundStore is what the API reads of refunds, each as its saga.
type RefundStore interface {
	// ListRefunds gives the refunds of an order, oldest first and at most a thousand; none for an order that does not exist.
	ListRefunds(ctx context.Context, accountID string, orderID uuid.UUID) ([]saga.Saga, error)
	GetRefund(ctx context.Context, accountID string, orderID, refundID uuid.UUID) (saga.Saga, error)
}

// ReviewStore is what the API reads for operators.
type ReviewStore interface {
	// ListReviews gives sagas that have no end yet, the longest unmoved first, with their open findings and without their steps.
	ListReviews(ctx context.Context, accountID string, filter saga.ReviewFilter) ([]saga.Review, error)
	GetReview(ctx context.Context, accountID string, key uuid.UUID) (saga.Review, error)
	ListAudit(ctx context.Context, accountID string, filter saga.AuditFilter) ([]saga.AuditEntry, error)
	ReconcileStore
}

// Runner takes orders on, and requests about them; *saga.Runner is one.
type Runner interface {
	Start(ctx context.Context, claim saga.Claim, order saga.Order) (saga.Answer, error)
	Ask(ctx context.Context, claim saga.Claim, order saga.Ref, request saga.Request) (saga.Answer, error)
	Refund(ctx context.Context, claim saga.Claim, order saga.Ref, amount int64, reason string) (saga.Answer, error)
	Decide(ctx context.Context, claim saga.Claim, ref saga.Ref, decision saga.Decision) (saga.Answer, error)
	// Fitting are the decisions that a saga takes as it stands.
	Fitting(s saga.Saga) []saga.Resolution
	TakeOver(ctx context.Context, ref saga.Ref, fence int64) (saga.Answer, error)
}

// Config sets up the API.
type Config struct {
	Store  Store
	Runner Runner
	Guard  *idempotency.Guard
	// Providers are those that a reconciliation can be about.
	Providers []string
	MaxBody   int64 // bytes
	Logger    *slog.Logger
	// Webhooks takes POSTs at /webhooks/{provider} and answers them by itself. It bounds the body and verifies who sent it. Nil:
	// nothing is there.
	Webhooks http.Handler
	// Metrics answers /metrics, to whoever asks. Nil: nothing is there.
	Metrics http.Handler
	// Observe makes a middleware that sees each request with its route pattern, which stands once it is served. Nil: nobody does.
	Observe func(route func(*http.Request) string) func(http.Handler) http.Handler
}

type server struct {
	Config

	document *openapi3.T
	pages    pageCache
}

// New makes the handler of the whole API.
func New(c Config) (http.Handler, error) {
	if c.Store == nil || c.Runner == nil || c.Guard == nil || c.Logger == nil || c.MaxBody <= 0 {
		return nil, errors.New("the API needs a store, a runner, a guard, a logger and a body limit")
	}
	document, err := api.Load()
	if err != nil {
		return nil, fmt.Errorf("load the contract: %w", err)
	}
	rendered, err := renderPages(document)
	if err != nil {
		return nil, err
	}
	s := &server{Config: c, document: document, pages: rendered}
	router := chi.NewRouter()
	router.Use(outlive)
	if c.Observe != nil {
		router.Use(c.Observe(route))
	}
	router.Use(s.logRequests, middleware.GetHead, s.catchPanics, s.secureHeaders, s.authenticate, s.operatorsOnly)
	router.NotFound(func(w http.ResponseWriter, r *http.Request) {
		s.fail(w, r, newProblem(notFound, "There is nothing at this address. The reference is at /docs."))
	})
	router.MethodNotAllowed(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Allow", strings.Join(allowedMethods(router, r.URL.Path), ", "))
		s.fail(w, r, newProblem(methodNotAllowed, "%s does not apply to this address.", r.Method))
	})
	return api.HandlerWithOptions(s, api.ChiServerOptions{
		BaseRouter: router, Middlewares: []api.MiddlewareFunc{s.checkParameters}, ErrorHandlerFunc: s.failParameter,
	}), nil
}

// ReceiveWebhook hands a provider's event on, unread. It carries no API key; its signature is in its place.
func (s *server) ReceiveWebhook(w http.ResponseWriter, r *http.Request, _ api.ProviderName) {
	if s.Webhooks == nil {
		s.fail(w, r, newProblem(notFound, "No provider is set up for webhooks."))
		return
	}
	s.Webhooks.ServeHTTP(w, r)
}

// GetMetrics hands a scrape on.
func (s *server) GetMetrics(w http.ResponseWriter, r *http.Request) {
	if s.Metrics == nil {
		s.fail(w, r, newProblem(notFound, "This server has no metrics."))
		return
	}
	s.Metrics.ServeHTTP(w, r)
}

// allowedMethods are those of the contract's methods that an address takes.
func allowedMethods(router chi.Routes, path string) []string {
	var allowed []string
	for _, method := range []string{http.MethodGet, http.MethodPatch, http.MethodPost, http.MethodPut} {
		if router.Match(chi.NewRouteContext(), method, path) {
			allowed = append(allowed, method)
		}
	}
	return allowed
}

// route is the pattern that the request met, "/v1/orders/{id}"; never the address itself, which can hold names.
func route(r *http.Request) string {
	if c := chi.RouteContext(r.Context()); c != nil && c.RoutePattern() != "" {
		return c.RoutePattern()
	}
	return "none"
}

// requestIDHeader carries the id by which an operator finds a request in the log.
const requestIDHeader = "Request-Id"

type statusRecorder struct {
	http.ResponseWriter

	status int
}

func (w *statusRecorder) WriteHeader(status int) {
	w.status = status
	w.ResponseWriter.WriteHeader(status)
}

func (w *statusRecorder) Unwrap() http.ResponseWriter { return w.ResponseWriter }

// outlive lets a request be finished whatever its client does. net/http ends a request's context as soon as the client sends
// no more, which one that only closed its half of the connection does as well: it still waits for the answer.
func outlive(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		next.ServeHTTP(w, r.WithContext(context.WithoutCancel(r.Context())))
	})
}

func (s *server) logRequests(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		begun, id := time.Now(), uuid.NewString()
		recorder := &statusRecorder{ResponseWriter: w, status: http.StatusOK}
		recorder.Header().Set(requestIDHeader, id)
		next.ServeHTTP(recorder, r)
		level := slog.LevelInfo
		if r.URL.Path == "/healthz" || r.URL.Path == "/readyz" || r.URL.Path == "/metrics" {
			level = slog.LevelDebug // asked every few seconds by whatever watches the process
		}
		s.Logger.Log(r.Context(), level, "request", "request_id", id, "method", r.Method, "route", route(r),
			"status", recorder.status, "duration_ms", time.Since(begun).Milliseconds())
	})
}

func (s *server) catchPanics(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		defer func() {
			if p := recover(); p != nil {
				s.Logger.ErrorContext(r.Context(), "handler panicked", "panic", fmt.Sprint(p), "stack", string(debug.Stack()))
				s.fail(w, r, newProblem(internalError, "The server met an error of its own. Send the request again with the same key."))
			}
		}()
		next.ServeHTTP(w, r)
	})
}

func (s *server) secureHeaders(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("X-Content-Type-Options", "nosniff")
		w.Header().Set("Cache-Control", "no-store")
		next.ServeHTTP(w, r)
	})
}
