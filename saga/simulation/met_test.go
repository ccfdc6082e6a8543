package simulation

import (
	"slices"
	"time"

	"paysaga/providers"
	"paysaga/saga/fixture"
	"paysaga/saga/simulation/bank"
)

// met is what a run came to where its plan leaves it open. A fixture must say it.
type met struct {
	writes int                   // of sagas, so far
	since  map[int]int           // how many those were as each event happened
	breaks map[int]fixture.Break // where a server died or a connection broke, by the event because of which it did
	banks  []decided
}

// decided is what a bank made of a payment that took its time.
type decided struct {
	at   time.Duration
	key  providers.SubKey // of the charge
	good bool
}

func newMet() met { return met{since: map[int]int{}, breaks: map[int]fixture.Break{}} }

// sagaWrites are the calls that a fixture counts as writes.
var sagaWrites = []string{"begin", "apply", "ask", "seize", "take over"}

func (m *met) wrote(op string) {
	if slices.Contains(sagaWrites, op) {
		m.writes++
	}
}

// dies notes at which write a server dies. At what writes nothing it dies before the next write; before a call to a provider, right after
// the write of its intent.
func (m *met) dies(c *call, doom event) {
	next := fixture.Break{Write: int64(m.writes - m.since[doom.ID] + 1), When: "before"}
	switch {
	case slices.Contains(sagaWrites, c.op):
		next.When = fixture.When(doom.Fault)
	case c.bank != "" && doom.Fault == before && next.Write > 1:
		next.Write--
		next.When = "after"
	}
	m.breaks[doom.ID] = next
}

// breaksAt notes at which write the connection to the database breaks: the first one that meets an event of the plan.
func (m *met) breaksAt(w *world, c *call, does fault) {
	if c.bank != "" || !slices.Contains(sagaWrites, c.op) {
		return
	}
	for _, e := range w.plan.Events {
		if _, known := m.breaks[e.ID]; known || !w.parts(e, c.server) && !w.strikes(e, c) {
			continue
		}
		one := fixture.Break{Write: int64(m.writes - m.since[e.ID] + 1), When: "before"}
		if does == lostAfter || does == errorAfter {
			one.When = "after"
		}
		m.breaks[e.ID] = one
		return
	}
}

// parts tells that an event of the plan stands between a server and the database now.
func (w *world) parts(e event, s *server) bool {
	age := time.Since(w.begun) - time.Duration(e.At)
	return age >= 0 && age <= time.Duration(e.For) && (e.What == databaseDown || e.What == partition && e.Server == s.number)
}

func (m *met) decides(w *world, p *bank.Payment, good bool) {
	m.banks = append(m.banks, decided{time.Since(w.begun), p.Key, good})
}
