package simulation

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"time"
)

// call is a goroutine at a boundary: on its way to the database or to a provider, or on its way back.
type call struct {
	server  *server
	actor   string // who makes it
	op      string
	name    string // of what it is about
	bank    string // the provider; empty for the store
	inquire func() // what the checker looks at as the call leaves
	work    func() // the effect
	err     error  // why there is no result
	done    chan struct{}

	sentAt    time.Time
	serial    string // actor, operation, name, and which one of those
	carried   bool   // the effect has happened
	landed    bool   // it has come back, with its result or an error; guarded by the world's mutex, as is the next one
	abandoned bool   // nobody waits for the answer any more
}

var (
	errGone    = errors.New("simulated: the server is dead")
	errNoReply = errors.New("simulated: the connection broke")
)

type actorKey struct{}

func withActor(ctx context.Context, actor string) context.Context {
	return context.WithValue(ctx, actorKey{}, actor)
}

// cross takes a goroutine over a boundary. An error of its own means that nobody knows whether the work was done.
func (w *world) cross(ctx context.Context, c *call) error {
	if actor, ok := ctx.Value(actorKey{}).(string); ok {
		c.actor = actor
	}
	c.done = make(chan struct{})
	w.mutex.Lock()
	if c.server.gone || w.closed {
		w.mutex.Unlock()
		return errGone
	}
	w.parked = append(w.parked, c)
	c.server.out = append(c.server.out, c)
	w.wake()
	w.mutex.Unlock()
	select {
	case <-c.done:
	case <-ctx.Done():
	}
	w.mutex.Lock()
	defer w.mutex.Unlock()
	c.server.out = slices.DeleteFunc(c.server.out, func(o *call) bool { return o == c })
	if !c.landed {
		c.abandoned = true
		return context.Cause(ctx)
	}
	return c.err
}

// admit takes in who has come to a boundary since. The order is that of their names, not that in which they came.
func (w *world) admit() {
	w.mutex.Lock()
	parked := w.parked
	w.parked = nil
	w.mutex.Unlock()
	sorted(parked, func(c *call) string { return c.actor + "\x00" + c.op + "\x00" + c.name })
	for _, c := range parked {
		name := c.actor + " " + c.op + " " + c.name
		w.identical[name]++
		c.serial = name + " " + strconv.Itoa(w.identical[name])
		c.sentAt = time.Now()
		if c.inquire != nil {
			c.inquire()
		}
		w.after(w.travel(c, "there"), "", func() { w.arrive(c) })
	}
}

// travel is how long a call takes in one direction.
func (w *world) travel(c *call, way string) time.Duration {
	shortest, longest, slow := 200*time.Microsecond, 3*time.Millisecond, 6*time.Second
	if c.bank != "" {
		shortest, longest, slow = 20*time.Millisecond, 600*time.Millisecond, 50*time.Second
	}
	if w.plan.Slow && !w.resting && w.unit("slow", way, c.serial) < 0.05 {
		longest = slow
		return shortest + time.Duration(w.unit("how slow", way, c.serial)*float64(longest))
	}
	return w.spread(shortest, longest, way, c.serial)
}

// arrive is a call at its goal.
func (w *world) arrive(c *call) {
	s := c.server
	if s.frozen && !c.sentAt.Before(s.frozenAt) { // the process stood still when it would have sent it
		c.sentAt = s.frozenUntil
		w.at(s.frozenUntil.Add(w.travel(c, "there")), "", func() { w.arrive(c) })
		return
	}
	gone := w.isAbandoned(c)
	if gone && w.unit("abandoned", c.serial) < 0.5 {
		return
	}
	w.say(c.serial)
	w.counts[c.op]++
	does := w.faultOf(c)
	if !w.resting && s.doom != nil && (s.doom.Call == "" || s.doom.Call == c.op) && !gone {
		doom := *s.doom
		w.seen.add("event", "crash "+string(doom.Fault))
		w.met.dies(c, doom)
		if doom.Fault == after {
			w.carryOut(c)
		}
		s.die(time.Duration(doom.For))
		return
	}
	if does != "" {
		w.met.breaksAt(w, c, does)
		w.seen.add("fault", string(does))
		w.say("  fault: " + string(does))
	}
	w.answer(c, does)
}

// answer carries a call out or not, and sends its answer or not, as its fault has it.
func (w *world) answer(c *call, does fault) {
	switch does {
	case lostBefore: // and no answer comes
		if c.bank == "" {
			w.fail(c, errNoReply)
		}
		return
	case lostAfter:
		w.carryOut(c)
		if c.bank == "" {
			w.fail(c, errNoReply)
		}
		return
	case "":
		w.carryOut(c)
	case errorAfter, finalAfter, replayed:
		w.carryOut(c)
		c.err = &faultError{does}
	default: // not carried out
		c.err = &faultError{does}
	}
	w.back(c)
}

// back brings an answer to who waits for it.
func (w *world) back(c *call) {
	w.after(w.travel(c, "back"), "", func() { w.land(c) })
}

func (w *world) land(c *call) {
	if s := c.server; s.frozen {
		w.at(s.frozenUntil, "", func() { w.land(c) })
		return
	}
	w.mutex.Lock()
	defer w.mutex.Unlock()
	if !c.abandoned && !c.landed {
		c.landed = true
		close(c.done)
	}
}

// fail ends a call with an error, as a connection that breaks does.
func (w *world) fail(c *call, err error) {
	c.err = err
	w.back(c)
}

func (w *world) carryOut(c *call) {
	if c.carried {
		return
	}
	c.carried = true
	w.doing = c.server
	c.work()
	w.doing = nil
}

func (w *world) isAbandoned(c *call) bool {
	w.mutex.Lock()
	defer w.mutex.Unlock()
	return c.abandoned
}

// faultOf is what the plan has befall a call.
func (w *world) faultOf(c *call) fault {
	if w.resting {
		return ""
	}
	now := time.Now()
	if c.bank == "" && now.Before(w.downUntil) {
		return w.unreached(c, w.downSince)
	}
	if c.bank == "" && now.Before(c.server.cutUntil) {
		return w.unreached(c, c.server.cutSince)
	}
	for _, e := range w.plan.Events {
		if w.strikes(e, c) {
			return e.Fault
		}
	}
	return ""
}

// strikes tells that an event of the plan is what befalls a call.
func (w *world) strikes(e event, c *call) bool {
	switch e.What {
	case callFails:
		return e.Call == c.op && e.Nth == w.counts[c.op] && slices.Contains(faultsOf(c), e.Fault)
	case providerDown:
		age := time.Since(w.begun) - time.Duration(e.At)
		return c.bank != "" && string(e.Provider) == c.bank && age >= 0 && age < time.Duration(e.For)
	default:
		return false
	}
}

func faultsOf(c *call) []fault {
	if c.bank == "" {
		return storeFaults
	}
	return providerFaults
}

// unreached is a call to a database that went away: one that was on its way then may have been carried out.
func (w *world) unreached(c *call, since time.Time) fault {
	if c.sentAt.Before(since) && w.unit("unreached", c.serial) < 0.5 {
		return errorAfter
	}
	return errorBefore
}

// faultError carries a fault to who made the call.
type faultError struct{ fault fault }

func (e *faultError) Error() string { return fmt.Sprintf("simulated: %s", e.fault) }
