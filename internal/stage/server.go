package stage

import (
	"context"
	"errors"
	"time"

	"paysaga/internal/httpapi"
	"paysaga/internal/idempotency"
	"paysaga/internal/webhook"
	"paysaga/saga"
)

// errDead is what a server meets that has died: nothing that it still does reaches the database.
var errDead = errors.New("the server is dead")

// errCut is what a server meets whose connection to the database broke.
var errCut = errors.New("the connection is cut")

// Server is one process of paysaga. It can die at any of its writes, before or after it; another one goes on.
type Server struct {
	stage  *Stage
	store  *mortal
	runner *saga.Runner
	inbox  *webhook.Inbox
}

// NewServer starts one beside whatever there is.
func (s *Stage) NewServer() *Server {
	s.Helper()
	v := &Server{stage: s, store: &mortal{Store: s.Store(), stage: s}}
	var err error
	v.runner, err = saga.NewRunner(saga.Config{
		Store: v.store, Providers: s.tampered(), Answerer: httpapi.Answerer{}, Policy: saga.DefaultPolicy(),
		Lease: lease, CallTimeout: callTimeout, MaxInFlight: 100, Logger: s.logger, Jitter: s.drawPause(),
	})
	s.Must(err)
	v.inbox, err = webhook.New(webhook.Config{
		Store: v.store, Runner: v.runner, Endpoints: s.Endpoints, Lease: time.Minute,
		Interval: time.Millisecond, Concurrency: 1, Logger: s.logger,
	})
	s.Must(err)
	return v
}

// Dead tells whether it has died.
func (v *Server) Dead() bool {
	v.store.mu.Lock()
	defer v.store.mu.Unlock()
	return v.store.isDead
}

// DieAt lets the server die at the n-th of its writes from now on; 0: it lives on.
func (v *Server) DieAt(n int, after bool) { v.store.arm(mishap{left: n, after: after}) }

// CutAt breaks the connection to the database at the n-th write from now on, before it or after it. The server lives.
func (v *Server) CutAt(n int, after bool) { v.store.arm(mishap{left: n, after: after, cut: true}) }

// Recover drives what is due, one saga after the other, until nothing is.
func (v *Server) Recover() {
	v.stage.Helper()
	worker, err := saga.NewRecovery(v.runner, saga.RecoveryConfig{
		Interval: time.Millisecond, Concurrency: 1,
		Reclaimed: func(endpoint string) { v.stage.Watch.Idempotency().OrphanReclaimed(endpoint, idempotency.ByRecovery) },
	})
	v.stage.Must(err)
	v.untilIdle(worker.Run)
}

// Apply brings the events that are due to their sagas, one after the other, until none is.
func (v *Server) Apply() {
	v.stage.Helper()
	v.untilIdle(v.inbox.Run)
}

// untilIdle runs a worker until it finds nothing to do.
func (v *Server) untilIdle(run func(context.Context)) {
	ctx, cancel := context.WithCancel(v.stage.Context())
	defer cancel()
	v.store.mu.Lock()
	v.store.idle = cancel
	v.store.mu.Unlock()
	run(ctx)
}

// longestInRequest is more than the longest pause for which a client's request waits, and less than the shortest between two turns.
const longestInRequest = 500 * time.Millisecond

// drawPause gives the pauses of a world: a fixture must go the same way each time, and nobody shall wait for it. Elsewhere they are
// drawn by chance.
func (s *Stage) drawPause() func(time.Duration) time.Duration {
	if !s.steady.Load() {
		return nil
	}
	return func(longest time.Duration) time.Duration {
		if longest < longestInRequest {
			return 0
		}
		return longest - 1
	}
}
