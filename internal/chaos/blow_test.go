//go:build unix

package chaos

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"time"

	"paysaga/providers/sandbox"
)

// kind is one way in which the world breaks.
type kind string

const (
	blowKill      kind = "kill"      // SIGKILL of a server, and another life after a while
	blowFreeze    kind = "freeze"    // SIGSTOP of a server, and SIGCONT later, also past its lease
	blowRoll      kind = "roll"      // all servers are replaced one after the other, by SIGTERM
	blowDatabase  kind = "database"  // PostgreSQL is stopped at once, and started again
	blowOutage    kind = "outage"    // a provider cannot be reached
	blowErrors    kind = "errors"    // a provider answers 5xx to all
	blowCut       kind = "cut"       // answers break off in the middle, on one wire of a server
	blowPartition kind = "partition" // a server's wire to the database loses everything, and then goes on or is reset
)

// wires of a server, to break one of them.
var wireNames = []string{"from the shops", "to the provider", "to the database"}

// How a partition ends.
const (
	thenReset = "then reset" // the connections are gone
	thenLate  = "then late"  // what was sent meanwhile arrives after all
)

// blow is one thing that breaks, and what mends it.
type blow struct {
	at     time.Duration // after the beginning
	length time.Duration // until it is mended
	kind   kind
	server int    // its number, where it is about one
	what   string // which wire, which provider, how it ends
	seed   uint64 // of what is drawn while it lasts
}

func (b blow) String() string {
	text := string(b.kind)
	if b.server > 0 {
		text += fmt.Sprintf(" server %d", b.server)
	}
	if b.what != "" {
		text += ", " + b.what
	}
	return fmt.Sprintf("%s for %d ms", text, b.length.Milliseconds())
}

// Times between blows: so dense that most meet what the one before has left behind, so far apart that orders get done.
const (
	shortestGap = 500 * time.Millisecond
	longestGap  = 2 * time.Second
	// longestOutage is shorter than the time for which Adyen sends a notice again, at the sandbox.
	longestOutage = 4 * time.Second
)

// blowKinds, with how many of a hundred blows are of each.
var blowKinds = []struct {
	kind  kind
	share int
}{
	{blowKill, 22}, {blowFreeze, 20}, {blowRoll, 5}, {blowDatabase, 10}, {blowOutage, 10}, {blowErrors, 5}, {blowCut, 18}, {blowPartition, 10},
}

// planBlows is a pure function of its arguments. Blows follow each other whether or not the last is mended, but one server is not hit
// twice at a time.
func planBlows(seed uint64, length time.Duration, servers int) []blow {
	const stream = 0xb10
	random := rand.New(rand.NewPCG(seed, stream))
	busy := make([]time.Duration, servers+1) // until when each is down; at 0 what hits all
	var plan []blow
	for at := between(random, 0, longestGap); at < length; at += between(random, shortestGap, longestGap) {
		b := drawBlow(random, servers)
		if b.at = at; busy[b.server] > at {
			continue
		}
		const aftermath = 500 * time.Millisecond // for a server to start
		busy[b.server] = at + b.length + aftermath
		plan = append(plan, b)
	}
	return plan
}

func between(random *rand.Rand, least, most time.Duration) time.Duration {
	return least + time.Duration(random.Int64N(int64(most-least)))
}

// drawBlow draws all of a blow but its time.
func drawBlow(random *rand.Rand, servers int) blow {
	b, one := blow{kind: drawKind(random), seed: random.Uint64()}, 1+random.IntN(servers)
	long, at := random.IntN(2) == 0, random.IntN(len(providers))
	switch b.kind {
	case blowKill:
		b.server, b.length = one, between(random, 0, time.Second)
	case blowFreeze:
		b.server, b.length = one, between(random, lease/10, lease)
		if long {
			b.length += lease
		}
	case blowCut:
		b.server, b.length, b.what = one, between(random, lease/4, lease), wireNames[random.IntN(len(wireNames))]
	case blowPartition:
		b.server, b.length, b.what = one, between(random, lease/2, 2*lease), thenReset
		if long {
			b.what = thenLate
		}
	case blowDatabase:
		b.length = between(random, 0, 500*time.Millisecond)
	case blowOutage, blowErrors:
		// Adyen asks not to repeat what was answered with a 500, and cannot be asked: only the long wait for a notice would tell.
		if b.kind == blowErrors && !providers[at].polled {
			b.kind = blowOutage
		}
		b.length, b.what = between(random, 500*time.Millisecond, longestOutage), providers[at].name
	case blowRoll:
	}
	return b
}

func drawKind(random *rand.Rand) kind {
	draw := random.IntN(100)
	for _, each := range blowKinds {
		if draw -= each.share; draw < 0 {
			return each.kind
		}
	}
	return blowKill
}

// strike carries the plan out, and returns when all is mended.
func (s *system) strike(ctx context.Context, plan []blow) error {
	var mutex sync.Mutex
	var errs []error
	var group sync.WaitGroup
	begun := time.Now()
	for _, b := range plan {
		sleep(ctx, b.at-time.Since(begun))
		if ctx.Err() != nil {
			break
		}
		s.log.notef("%s", b)
		group.Go(func() {
			err := s.deal(ctx, b)
			s.log.notef("mended: %s", b)
			if err != nil {
				mutex.Lock()
				defer mutex.Unlock()
				errs = append(errs, fmt.Errorf("%s: %w", b, err))
			}
		})
	}
	group.Wait()
	return errors.Join(errs...)
}

// deal carries one blow out and mends it. A blow at a server waits while another one holds it.
func (s *system) deal(ctx context.Context, b blow) error {
	var one *server
	if b.server > 0 {
		one = s.servers[b.server-1]
		one.struck.Lock()
		defer one.struck.Unlock()
	}
	switch b.kind {
	case blowKill:
		one.kill()
		sleep(ctx, b.length)
		return one.keepStarting(ctx)
	case blowFreeze:
		one.freeze()
		defer one.thaw()
		sleep(ctx, b.length)
	case blowRoll:
		return s.roll(ctx)
	case blowDatabase:
		return s.crashDatabase(ctx, func() error { sleep(ctx, b.length); return nil })
	case blowOutage, blowErrors:
		s.outage(ctx, b)
	case blowCut:
		wire := one.wires()[b.what]
		wire.set(wireCuts, rand.New(rand.NewPCG(b.seed, 0)))
		sleep(ctx, b.length)
		wire.set(wirePasses, nil)
	case blowPartition:
		one.wire.set(wireHolds, nil)
		sleep(ctx, b.length)
		if b.what == thenReset {
			one.wire.set(wireRefuses, nil)
		}
		one.wire.set(wirePasses, nil)
	}
	return nil
}

// roll replaces each server, as a deploy does.
func (s *system) roll(ctx context.Context) error {
	errs := make([]error, 0, 2*len(s.servers))
	for _, one := range s.servers {
		one.struck.Lock()
		errs = append(errs, one.process().terminate(), one.keepStarting(ctx)) // also where it did not end as it should
		one.struck.Unlock()
	}
	return errors.Join(errs...)
}

// outage lets no call to a provider have an effect or a good answer: it is answered 500, the connection is reset, or nothing comes until
// the caller gives up.
func (s *system) outage(ctx context.Context, b blow) {
	fault := sandbox.FaultErrorBefore
	switch {
	case b.kind == blowErrors:
	case b.seed%2 == 0:
		fault = sandbox.FaultTimeoutBefore
	default:
		fault = sandbox.FaultResetBefore
	}
	s.sky.change(func(w *weather) { w.outages[b.what] = fault })
	sleep(ctx, b.length)
	s.sky.change(func(w *weather) { delete(w.outages, b.what) })
}

// sky says how the providers behave at the moment: as on a bad day, and some of them not at all.
type sky struct {
	sandbox *sandbox.Server
	mutex   sync.Mutex
	weather weather
}

type weather struct {
	seed    int64 // 0: no bad day
	outages map[string]sandbox.FaultKind
}

// change sets the faults anew. The sandbox takes the first one that fits a call, so outages come first.
func (s *sky) change(change func(*weather)) {
	s.mutex.Lock()
	defer s.mutex.Unlock()
	change(&s.weather)
	s.sandbox.ClearFaults()
	var faults []sandbox.Fault
	for provider, kind := range s.weather.outages {
		faults = append(faults, sandbox.Fault{Provider: provider, Call: sandbox.CallAny, Kind: kind})
	}
	if s.weather.seed != 0 {
		faults = append(faults, sandbox.BadDay(s.weather.seed)...)
	}
	for _, fault := range faults {
		if err := s.sandbox.AddFault(fault); err != nil {
			panic(err) // it is written above
		}
	}
}
