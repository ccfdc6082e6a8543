package simulation

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"paysaga/internal/httpapi"
	"paysaga/internal/idempotency"
	"paysaga/saga"
	"paysaga/saga/simulation/bank"
)

// server is one process: a runner, a recovery and a guard of its own.
type server struct {
	w        *world
	number   int
	life     int // how often it was started
	runner   *saga.Runner
	guard    *idempotency.Guard
	recovery *saga.Recovery

	doom        *event // how it is going to die
	frozen      bool
	frozenAt    time.Time
	frozenUntil time.Time
	cutSince    time.Time // from the database
	cutUntil    time.Time
	nextLook    time.Time // of the recovery; zero while none is planned
	stopLooking context.CancelFunc

	gone bool    // guarded by the world's mutex
	out  []*call // those of its calls that have not come back; guarded by the world's mutex
}

const (
	lease = 30 * time.Second
	// callTimeout is not a multiple of a third of the lease: then the end of a call and a renewal would come at the same instant, and
	// which of them is seen first is chance that no seed decides.
	callTimeout = 19*time.Second + 337*time.Millisecond
)

func newServer(w *world, number, life int) *server {
	s := &server{w: w, number: number, life: life}
	w.started = append(w.started, s)
	parties := map[string]saga.Provider{}
	for _, kind := range bank.Kinds() {
		parties[string(kind)] = &teller{s, kind}
	}
	var err error
	s.runner, err = saga.NewRunner(saga.Config{
		Store: &desk{s}, Providers: parties, Answerer: httpapi.Answerer{}, Policy: saga.DefaultPolicy(), Lease: lease, CallTimeout: callTimeout,
		MaxInFlight: 64, Logger: w.logger, Jitter: w.jitter,
	})
	if err != nil {
		panic(err)
	}
	s.recovery, err = saga.NewRecovery(s.runner, saga.RecoveryConfig{Interval: time.Duration(w.plan.Look), Concurrency: 16})
	if err != nil {
		panic(err)
	}
	policy := idempotency.Default()
	policy.Retention, policy.KeysPerMinute = 400*24*time.Hour, 0 // no run takes longer
	s.guard, err = idempotency.NewGuard(idempotency.Config{Store: &desk{s}, Policy: policy, Lease: lease, Logger: w.logger})
	if err != nil {
		panic(err)
	}
	return s
}

func (s *server) name() string { return fmt.Sprintf("s%d.%d", s.number, s.life) }

// kill ends the process: nothing that it sends from now on arrives, and nothing comes back to it. What it has sent is on its way.
func (s *server) kill() {
	s.w.mutex.Lock()
	defer s.w.mutex.Unlock()
	if s.gone {
		return
	}
	s.gone = true
	if s.stopLooking != nil {
		s.stopLooking()
		s.stopLooking = nil
	}
	for _, c := range s.out {
		if !c.abandoned && !c.landed {
			c.abandoned, c.landed, c.err = true, true, errGone
			close(c.done)
		}
	}
}

// die is a crash, after which the process is started anew.
func (s *server) die(downtime time.Duration) {
	s.w.say("  " + s.name() + " dies")
	s.doom, s.frozen = nil, false
	s.kill()
	s.w.after(downtime, "", s.restart)
}

func (s *server) restart() {
	if s.w.servers[s.number-1] != s {
		return // started already
	}
	next := newServer(s.w, s.number, s.life+1)
	s.w.servers[s.number-1] = next
	s.w.dirty = true
	s.w.say(next.name() + " starts")
}

func (s *server) freeze(d time.Duration) {
	now := time.Now()
	s.frozen, s.frozenAt, s.frozenUntil = true, now, now.Add(d)
	s.w.at(s.frozenUntil, "", func() {
		if s.frozen && !time.Now().Before(s.frozenUntil) {
			s.thaw()
		}
	})
}

func (s *server) thaw() {
	s.w.say(s.name() + " wakes up")
	s.frozen, s.frozenUntil, s.w.dirty = false, time.Now(), true
}

// stop is a process that is told to stop, and is replaced by another one at once.
func (s *server) stop(within time.Duration) {
	if s.stopLooking != nil {
		s.stopLooking()
		s.stopLooking = nil
	}
	ctx, cancel := context.WithTimeout(context.Background(), within+time.Millisecond)
	s.w.mutex.Lock()
	s.w.active++
	s.w.mutex.Unlock()
	go func() {
		defer cancel()
		s.runner.Drain(ctx)
		s.w.mutex.Lock()
		s.w.active--
		s.w.wake()
		s.w.mutex.Unlock()
	}()
	s.restart()
}

// planLooks plans when each recovery looks next: shortly after something is due. Looks that would find nothing are left out, which is
// all in which this differs from looking every few seconds.
func (w *world) planLooks() {
	if !w.dirty {
		return
	}
	w.dirty = false
	due, found := w.memory.nextDue()
	if !found {
		return
	}
	at := latest(due.Add(-w.offset), time.Now())
	for _, s := range w.servers {
		if s.gone || s.frozen || s.stopLooking != nil || !s.nextLook.IsZero() && !s.nextLook.After(at.Add(time.Duration(w.plan.Look))) {
			continue
		}
		look := at.Add(time.Duration(w.unit("look", s.name(), at.String()) * float64(w.plan.Look)))
		s.nextLook = look
		w.at(look, "", func() {
			if s.nextLook.Equal(look) {
				s.look()
			}
		})
	}
}

// look has the recovery work until it has nothing more to do.
func (s *server) look() {
	s.nextLook, s.w.dirty = time.Time{}, true
	due, found := s.w.memory.nextDue()
	stopped := s.w.servers[s.number-1] != s
	if stopped || s.gone || s.frozen || s.stopLooking != nil || !found || due.Add(-s.w.offset).After(time.Now()) {
		return
	}
	ctx, cancel := context.WithCancel(withActor(context.Background(), s.name()+" recovery"))
	s.stopLooking = cancel
	go s.recovery.Run(ctx)
}

// quiet ends the work of each recovery that waits for its next look.
func (w *world) quiet() {
	for _, s := range w.servers {
		if s.stopLooking == nil {
			continue
		}
		w.mutex.Lock()
		works := slices.ContainsFunc(s.out, func(c *call) bool { return strings.HasSuffix(c.actor, "recovery") })
		w.mutex.Unlock()
		if !works {
			s.stopLooking()
			s.stopLooking, w.dirty = nil, true
		}
	}
}
