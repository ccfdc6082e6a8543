package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"net"
	"net/http"
	"os"
	"slices"
	"strconv"
	"sync"
	"time"

	"paysaga/internal/config"
	"paysaga/internal/httpapi"
	"paysaga/internal/idempotency"
	"paysaga/internal/postgres"
	"paysaga/internal/upkeep"
	"paysaga/internal/webhook"
	"paysaga/saga"
)

const (
	// maxInFlight bounds the sagas that one process drives at once. Each waits for a provider most of its life, so many
	// fit; past this the clients are better served by another process.
	maxInFlight = 512
	// recoveryConcurrency is how many sagas recovery drives beside them: enough to catch up after an outage, few enough not
	// to fall on a provider that has just come back.
	recoveryConcurrency = 16
	// inboxConcurrency is how many of the providers' events are brought to their sagas at once, for the same reasons.
	inboxConcurrency = 16
	// maxConnections bounds the database connections of one process. A connection is held for a transaction only, never
	// for a provider call, so few serve many sagas.
	maxConnections = 32
	// readHeaderTimeout ends connections that send nothing.
	readHeaderTimeout = 10 * time.Second
)

var (
	errNoSchema  = errors.New("the database has no schema of paysaga yet: run \"paysaga migrate up\"")
	errOldSchema = errors.New("the database's schema is of an older paysaga: run \"paysaga migrate up\"")
)

// system is paysaga as one process runs it: the API with the webhooks, the workers, or both.
type system struct {
	store    *postgres.Store
	runner   *saga.Runner
	recovery *saga.Recovery
	inbox    *webhook.Inbox
	upkeep   *upkeep.Worker
	handler  http.Handler
	watch    watch
	drain    time.Duration
	logger   *slog.Logger

	reconciler *reconciler
}

func newSystem(ctx context.Context, c config.Config, logger *slog.Logger) (*system, error) {
	store, err := postgres.Open(ctx, c.DatabaseURL.Reveal(), maxConnections, c.EncryptionKeys)
	if err != nil {
		return nil, err
	}
	s, err := joinSystem(ctx, store, c, logger)
	if err != nil {
		store.Close()
		return nil, err
	}
	return s, nil
}

func joinSystem(ctx context.Context, store *postgres.Store, c config.Config, logger *slog.Logger) (*system, error) {
	if err := checkSchema(ctx, store); err != nil {
		return nil, err
	}
	if err := checkKeys(ctx, store); err != nil {
		return nil, err
	}
	var err error
	if c.Reconcile.Account, err = reconcileAccount(ctx, store, c.Reconcile.Account, logger); err != nil {
		return nil, err
	}
	seen, err := newWatch(ctx, logger)
	if err != nil {
		return nil, err
	}
	s, err := joinWatched(store, c, seen, logger)
	if err != nil {
		seen.end(ctx, logger)
	}
	return s, err
}

func joinWatched(store *postgres.Store, c config.Config, seen watch, logger *slog.Logger) (*system, error) {
	adapters, err := newProviders(c, seen.telemetry.Transport)
	if err != nil {
		return nil, err
	}
	runner, err := newRunner(store, adapters, c, logger)
	if err != nil {
		return nil, err
	}
	meter := seen.telemetry.Idempotency()
	recovery, err := saga.NewRecovery(runner, saga.RecoveryConfig{
		Interval: c.RecoveryInterval, Concurrency: recoveryConcurrency,
		Reclaimed: func(endpoint string) { meter.OrphanReclaimed(endpoint, idempotency.ByRecovery) },
	})
	if err != nil {
		return nil, fmt.Errorf("set up recovery: %w", err)
	}
	inbox, err := newInbox(store, runner, c, logger)
	if err != nil {
		return nil, err
	}
	keeper, err := newUpkeep(store, c, seen.telemetry.Upkeep(), logger)
	if err != nil {
		return nil, err
	}
	reconciler, err := newReconciler(store, runner, c, seen.telemetry, logger)
	if err != nil {
		return nil, err
	}
	store.KeepDigestsOnly(c.Idempotency.DigestOnly)
	guard, err := newGuard(store, c, meter, logger)
	if err != nil {
		return nil, err
	}
	handler, err := httpapi.New(httpapi.Config{
		Store: store, Runner: runner, Webhooks: inbox, Guard: guard, MaxBody: c.MaxBody, Logger: logger,
		Metrics: seen.telemetry.Handler(), Observe: seen.telemetry.Middleware, Providers: slices.Sorted(maps.Keys(adapters)),
	})
	if err != nil {
		return nil, fmt.Errorf("set up the API: %w", err)
	}
	return &system{
		store: store, runner: runner, recovery: recovery, inbox: inbox, upkeep: keeper, handler: handler, watch: seen,
		reconciler: reconciler, drain: c.DrainTimeout, logger: logger,
	}, nil
}

// newRunner makes what drives sagas.
func newRunner(
	store *postgres.Store, adapters map[string]saga.Provider, c config.Config, logger *slog.Logger,
) (*saga.Runner, error) {
	policy := saga.DefaultPolicy()
	policy.AwaitDeadline, policy.NoticeWait, policy.Steps = c.AwaitDeadline, c.NoticeWait, orderSteps()
	runner, err := saga.NewRunner(saga.Config{
		Store: store, Providers: adapters, Answerer: httpapi.Answerer{}, Policy: policy,
		Lease: c.Lease, CallTimeout: c.CallTimeout, MaxInFlight: maxInFlight, Logger: logger,
	})
	if err != nil {
		return nil, fmt.Errorf("set up the runner: %w", err)
	}
	return runner, nil
}

// newGuard makes the guard of every request with a key.
func newGuard(store *postgres.Store, c config.Config, meter idempotency.Meter, logger *slog.Logger) (*idempotency.Guard, error) {
	keys := c.Idempotency
	guard, err := idempotency.NewGuard(idempotency.Config{
		Store: store, Lease: c.Lease, Meter: meter, Logger: logger,
		Policy: idempotency.Policy{
			Mode: idempotency.Mode(keys.Mode), MissingKey: idempotency.MissingKey(keys.MissingKey), MismatchStatus: keys.MismatchStatus,
			ExpiredKeys: idempotency.ExpiredKeys(keys.ExpiredKeys), Retention: c.Retention, KeysPerMinute: keys.KeysPerMinute,
		},
	})
	if err != nil {
		return nil, fmt.Errorf("set up the guard of keys: %w", err)
	}
	return guard, nil
}

// newInbox makes the inbox for webhooks. It looks for events of other processes, and for those that are due again, as often as
// recovery looks for sagas.
func newInbox(store *postgres.Store, runner *saga.Runner, c config.Config, logger *slog.Logger) (*webhook.Inbox, error) {
	endpoints, err := newWebhookEndpoints(c)
	if err != nil {
		return nil, err
	}
	inbox, err := webhook.New(webhook.Config{
		Store: store, Runner: runner, Endpoints: endpoints,
		Lease: c.Lease, Interval: c.RecoveryInterval, Concurrency: inboxConcurrency, Logger: logger,
	})
	if err != nil {
		return nil, fmt.Errorf("set up the webhooks: %w", err)
	}
	return inbox, nil
}

// checkSchema says what to do where the schema is missing or old.
func checkSchema(ctx context.Context, store *postgres.Store) error {
	switch err := store.Ping(ctx); {
	case errors.Is(err, postgres.ErrNoSchema):
		return errNoSchema
	case errors.Is(err, postgres.ErrOldSchema):
		return errOldSchema
	default:
		return err
	}
}

// checkKeys refuses to work with other encryption keys than the database's values are sealed with: no stored answer could be replayed, and
// what this process seals no other could open.
func checkKeys(ctx context.Context, store *postgres.Store) error {
	err := store.CheckKeys(ctx)
	if other, ok := errors.AsType[*postgres.OtherKeysError](err); ok {
		return fmt.Errorf("PAYSAGA_ENCRYPTION_KEYS are not this database's: %w; set the keys that its servers have, as docs/runbook.md tells "+
			"under \"Changing the encryption keys\"", other)
	}
	return err
}

// role is which part of the system a process runs.
type role struct{ api, worker bool }

// run serves until ctx ends, then lets what runs finish and hands back what does not. A nil listener serves no API.
func (s *system) run(ctx context.Context, listener net.Listener, r role) error {
	defer s.store.Close()
	ctx, stop := context.WithCancel(ctx) // also ends the workers when the API fails
	defer stop()
	var workers sync.WaitGroup
	if r.worker {
		workers.Go(func() { s.recovery.Run(ctx) })
		workers.Go(func() { s.inbox.Run(ctx) })
		workers.Go(func() { s.upkeep.Run(ctx) })
		workers.Go(func() { s.reconciler.run(ctx) })
		workers.Go(func() { s.reconciler.measure(ctx) })
	}
	server := &http.Server{
		Handler: s.handler, ReadHeaderTimeout: readHeaderTimeout, ReadTimeout: time.Minute, IdleTimeout: 2 * time.Minute,
		ErrorLog: slog.NewLogLogger(s.logger.Handler(), slog.LevelWarn),
	}
	failed := make(chan error, 1)
	if r.api {
		go func() { failed <- server.Serve(listener) }()
	}
	var err error
	select {
	case <-ctx.Done():
	case err = <-failed:
		err = fmt.Errorf("serve: %w", err)
	}
	stop()
	s.logger.Info("stopping", "drain_timeout_ms", s.drain.Milliseconds())
	drained, cancel := context.WithTimeout(context.WithoutCancel(ctx), s.drain)
	defer cancel()
	var closing sync.WaitGroup
	closing.Go(func() { s.runner.Drain(drained) })
	closing.Go(func() {
		if err := server.Shutdown(drained); err != nil {
			_ = server.Close() // who still waits has its saga's answer stored, or will find it recovered
		}
	})
	closing.Wait()
	workers.Wait()
	s.watch.end(drained, s.logger)
	s.logger.Info("stopped")
	return err
}

func newLogger(c config.Config) *slog.Logger {
	options := &slog.HandlerOptions{Level: c.LogLevel}
	if c.LogFormat == config.LogJSON {
		return slog.New(slog.NewJSONHandler(os.Stderr, options))
	}
	return slog.New(slog.NewTextHandler(os.Stderr, options))
}

func listen(ctx context.Context, address string) (net.Listener, error) {
	listener, err := (&net.ListenConfig{}).Listen(ctx, "tcp", address)
	if err != nil {
		return nil, fmt.Errorf("%w; choose another address with --addr, port 0 for any free one", err)
	}
	return listener, nil
}

func baseURL(listener net.Listener) string { return "http://" + listener.Addr().String() }

// localURL is how another program on this machine finds a listener, also one that listens on all addresses.
func localURL(listener net.Listener) string {
	if address, ok := listener.Addr().(*net.TCPAddr); ok && address.IP.IsUnspecified() {
		return "http://127.0.0.1:" + strconv.Itoa(address.Port)
	}
	return baseURL(listener)
}

// isLoopback tells whether localURL's address is one that only this machine has.
func isLoopback(listener net.Listener) bool {
	address, ok := listener.Addr().(*net.TCPAddr)
	return ok && (address.IP.IsLoopback() || address.IP.IsUnspecified())
}
