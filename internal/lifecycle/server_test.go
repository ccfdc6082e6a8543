package lifecycle_test

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/google/uuid"

	"paysaga/internal/httpapi"
	"paysaga/internal/idempotency"
	"paysaga/internal/postgres"
	"paysaga/internal/webhook"
	"paysaga/providers"
	"paysaga/saga"
)

// errDead is what a server meets that has died: nothing that it still does reaches the database.
var errDead = errors.New("the server is dead")

// server is one process of paysaga. It can die at any of its writes, before or after it; another one goes on.
type server struct {
	house  *house
	store  *mortal
	runner *saga.Runner
	inbox  *webhook.Inbox
}

func (h *house) newServer() *server {
	h.Helper()
	s := &server{house: h, store: &mortal{Store: h.store()}}
	var err error
	s.runner, err = saga.NewRunner(saga.Config{
		Store: s.store, Providers: h.overtaken(), Answerer: httpapi.Answerer{}, Policy: saga.DefaultPolicy(),
		Lease: lease, CallTimeout: callTimeout, MaxInFlight: 100, Logger: h.logger,
	})
	h.must(err)
	s.inbox, err = webhook.New(webhook.Config{
		Store: s.store, Runner: s.runner, Endpoints: h.endpoints, Lease: time.Minute,
		Interval: time.Millisecond, Concurrency: 1, Logger: h.logger,
	})
	h.must(err)
	return s
}

func (s *server) dead() bool {
	s.store.mu.Lock()
	defer s.store.mu.Unlock()
	return s.store.isDead
}

// dieAt lets the server die at the n-th of its writes from now on.
func (s *server) dieAt(n int, after bool) {
	s.store.mu.Lock()
	defer s.store.mu.Unlock()
	s.store.left, s.store.after = n, after
}

// recover drives what is due, one saga after the other, until nothing is.
func (s *server) recover() {
	s.house.Helper()
	worker, err := saga.NewRecovery(s.runner, saga.RecoveryConfig{
		Interval: time.Millisecond, Concurrency: 1,
		Reclaimed: func(endpoint string) { s.house.watch.Idempotency().OrphanReclaimed(endpoint, idempotency.ByRecovery) },
	})
	s.house.must(err)
	s.untilIdle(worker.Run)
}

// apply brings the events that are due to their sagas, one after the other, until none is.
func (s *server) apply() {
	s.house.Helper()
	s.untilIdle(s.inbox.Run)
}

// untilIdle runs a worker until it finds nothing to do.
func (s *server) untilIdle(run func(context.Context)) {
	ctx, cancel := context.WithCancel(s.house.Context())
	defer cancel()
	s.store.mu.Lock()
	s.store.idle = cancel
	s.store.mu.Unlock()
	run(ctx)
}

// mortal is the database as a server sees it.
type mortal struct {
	*postgres.Store

	mu     sync.Mutex
	left   int // writes until death; 0: it lives on
	after  bool
	isDead bool
	idle   func()
}

func (m *mortal) alive() error {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.isDead {
		return errDead
	}
	return nil
}

// strike counts a write. It tells whether the write is still done.
func (m *mortal) strike() (done, lives bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.isDead {
		return false, false
	}
	if m.left == 0 {
		return true, true
	}
	m.left--
	m.isDead = m.left == 0
	return !m.isDead || m.after, !m.isDead
}

func (m *mortal) write(do func() (saga.Saga, error)) (saga.Saga, error) {
	done, lives := m.strike()
	var written saga.Saga
	var err error
	if done {
		written, err = do()
	}
	if !lives {
		return saga.Saga{}, errDead
	}
	return written, err
}

func (m *mortal) found(n int) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if (n == 0 || m.isDead) && m.idle != nil {
		m.idle()
	}
}

func (m *mortal) Begin(ctx context.Context, claim saga.Claim, change saga.Change, lease time.Duration) (saga.Saga, error) {
	return m.write(func() (saga.Saga, error) { return m.Store.Begin(ctx, claim, change, lease) })
}

func (m *mortal) Apply(ctx context.Context, change saga.Change) (saga.Saga, error) {
	return m.write(func() (saga.Saga, error) { return m.Store.Apply(ctx, change) })
}

func (m *mortal) Ask(ctx context.Context, claim saga.Claim, change saga.Change, lease time.Duration) (saga.Saga, error) {
	return m.write(func() (saga.Saga, error) { return m.Store.Ask(ctx, claim, change, lease) })
}

func (m *mortal) Seize(ctx context.Context, ref saga.Ref, fence int64, lease time.Duration) (saga.Saga, error) {
	return m.write(func() (saga.Saga, error) { return m.Store.Seize(ctx, ref, fence, lease) })
}

func (m *mortal) TakeOver(ctx context.Context, ref saga.Ref, fence int64, lease time.Duration) (saga.Saga, error) {
	return m.write(func() (saga.Saga, error) { return m.Store.TakeOver(ctx, ref, fence, lease) })
}

func (m *mortal) Load(ctx context.Context, ref saga.Ref) (saga.Saga, error) {
	if err := m.alive(); err != nil {
		return saga.Saga{}, err
	}
	return m.Store.Load(ctx, ref)
}

func (m *mortal) LookupKey(ctx context.Context, account, endpoint, key string) (idempotency.Record, bool, error) {
	if err := m.alive(); err != nil {
		return idempotency.Record{}, false, err
	}
	return m.Store.LookupKey(ctx, account, endpoint, key)
}

func (m *mortal) Renew(ctx context.Context, ref saga.Ref, fence int64, lease time.Duration) error {
	if err := m.alive(); err != nil {
		return err
	}
	return m.Store.Renew(ctx, ref, fence, lease)
}

func (m *mortal) HandBack(ctx context.Context, ref saga.Ref, fence int64) error {
	if err := m.alive(); err != nil {
		return err
	}
	return m.Store.HandBack(ctx, ref, fence)
}

func (m *mortal) ClaimDue(ctx context.Context, limit int, lease time.Duration) (due []saga.Saga, err error) {
	defer func() { m.found(len(due)) }()
	if err := m.alive(); err != nil {
		return nil, err
	}
	return m.Store.ClaimDue(ctx, limit, lease)
}

func (m *mortal) KeepEvents(ctx context.Context, provider string, notices []providers.Notice) (int, error) {
	if err := m.alive(); err != nil {
		return 0, err
	}
	return m.Store.KeepEvents(ctx, provider, notices)
}

func (m *mortal) ClaimEvents(ctx context.Context, limit int, lease time.Duration) (due []webhook.Event, err error) {
	defer func() { m.found(len(due)) }()
	if err := m.alive(); err != nil {
		return nil, err
	}
	return m.Store.ClaimEvents(ctx, limit, lease)
}

func (m *mortal) FindSaga(ctx context.Context, provider string, notice providers.Notice) (saga.Ref, error) {
	if err := m.alive(); err != nil {
		return saga.Ref{}, err
	}
	return m.Store.FindSaga(ctx, provider, notice)
}

func (m *mortal) SettleEvent(ctx context.Context, event webhook.Event, result webhook.Result) error {
	if err := m.alive(); err != nil {
		return err
	}
	return m.Store.SettleEvent(ctx, event, result)
}

type orderID = uuid.UUID
