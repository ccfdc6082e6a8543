//go:build unix

package chaos

import (
	"context"
	"net/http"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"

	"paysaga/providers/sandbox"
)

// cutOff is a server that is cut off from its database while the provider has its charge, and another server that is not.
type cutOff struct {
	*system

	one, other *server
	way        *street
	intent     *intent
	id         uuid.UUID
}

// newCutOff places an order at a server and cuts that off while its call is out. The provider takes longer than the lease lasts.
func newCutOff(t *testing.T) (*cutOff, <-chan told) {
	t.Helper()
	const slow = 2 * lease
	c := &cutOff{system: openSystem(t, programUnderTest(t), 1)}
	// What is slow is waited for, and the client's patience is not what ends it.
	c.one = c.addServer("api", "PAYSAGA_CALL_TIMEOUT=8s", "PAYSAGA_DRAIN_TIMEOUT=8s")
	c.other = c.addServer("all", "PAYSAGA_CALL_TIMEOUT=8s", "PAYSAGA_DRAIN_TIMEOUT=8s")
	for _, each := range c.servers {
		must(t, each.start(t.Context()))
	}
	p := planOrder(3, 1)
	for number := 2; p.course != coursePaid || p.at.name != "stripe"; number++ {
		p = planOrder(3, number)
	}
	c.id, c.way = orderID(p), newStreet(c.servers)
	c.intent = &intent{method: http.MethodPost, path: "/v1/orders", key: p.key, body: encode(p.order)}
	must(t, c.sandbox.AddFault(sandbox.Fault{Call: sandbox.CallCharge, Kind: sandbox.FaultSlow, DelayMS: slow.Milliseconds(), Times: 1}))
	must(t, c.sandbox.AddFault(sandbox.Fault{Call: sandbox.CallCharge, Kind: sandbox.FaultInProgress})) // the other server stays at work
	came := make(chan told, 1)
	go func() {
		answer, err := c.way.patient(t.Context(), c.intent, c.apiKey, c.one)
		if err != nil {
			t.Logf("the client of the server that was cut off: %v", err)
		}
		came <- answer
	}()
	c.until("the saga's first transaction", func() bool { return c.count(`SELECT count(*) FROM sagas WHERE state = 'charging'`) == 1 })
	c.one.wire.set(wireHolds, nil)
	return c, came
}

// takenOver lets the other server finish the order, and gives the answer that the database has for it.
func (c *cutOff) takenOver() told {
	c.t.Helper()
	c.sandbox.ClearFaults()
	c.until("the other server's take-over", func() bool { return c.stateOf(c.id.String()) == "completed" })
	answer, err := c.way.patient(c.t.Context(), c.intent, c.apiKey, c.other)
	must(c.t, err)
	// 202, where its first call found the provider still at work on the other server's.
	if answer.status != http.StatusCreated && answer.status != http.StatusAccepted || !answer.replayed {
		c.t.Errorf("the other server answers %s, a repeat: %t", answer, answer.replayed)
	}
	return answer
}

// wantOnce: one payment, and every write by who held the lease.
func (c *cutOff) wantOnce() {
	c.t.Helper()
	if charges := c.charges()[c.id]; len(charges) != 1 || charges[0].Captured == 0 {
		c.t.Errorf("the provider has %+v", charges)
	}
	for _, finding := range auditFences(c.writes()) {
		c.t.Error(finding)
	}
	c.wantStock()
}

// A server that is cut off from its database loses its lease. Another takes over; what the first one writes then, from what its own
// call brought, is refused, whether it arrives late or over a new connection, and whether the other one has finished or is still at
// work. Its client gets the one answer (I1, I8, I9).
func TestServerCutOffFromItsDatabase(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct{ reset, finished bool }{
		"late, the other still at work":  {},
		"late, the other has finished":   {finished: true},
		"reset, the other still at work": {reset: true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			c, answered := newCutOff(t)
			c.until("the other server's take-over", func() bool { return c.count(`SELECT max(lock_version) FROM sagas`) > 1 })
			c.until("the call of the server that is cut off", func() bool { return strings.Contains(c.one.said(), `"provider called"`) })
			if test.finished {
				c.takenOver()
			}
			if test.reset {
				c.one.wire.set(wireRefuses, nil)
			}
			c.one.wire.set(wirePasses, nil)
			first := <-answered
			answer := c.takenOver()
			if first.status == http.StatusServiceUnavailable { // it cannot know: its client asks again
				var err error
				first, err = c.way.patient(t.Context(), c.intent, c.apiKey, c.one)
				must(t, err)
			}
			if !first.same(answer) {
				t.Errorf("the server that was cut off answers %s, the other one %s", first, answer)
			}
			c.wantOnce()
		})
	}
}

// said is the log of the server's present life.
func (s *server) said() string {
	content, err := os.ReadFile(s.process().output.Name())
	must(s.system.t, err)
	return string(content)
}

// SIGTERM ends a server that is cut off, too: within its drain timeout, whatever its connections do.
func TestServerCutOffEnds(t *testing.T) {
	t.Parallel()
	c, _ := newCutOff(t)
	c.takenOver()
	if err := c.one.process().terminate(); err != nil && !strings.Contains(err.Error(), "exit status") {
		t.Error(err)
	}
	c.wantOnce()
}

func (s *system) count(query string) int {
	s.t.Helper()
	type number struct{ N int }
	return read[number](s, query)[0].N
}

// patient asks as long as it takes.
func (s *street) patient(ctx context.Context, one *intent, apiKey string, to *server) (told, error) {
	ctx, cancel := context.WithTimeout(ctx, time.Minute)
	defer cancel()
	return s.ask(ctx, one, apiKey, to)
}
