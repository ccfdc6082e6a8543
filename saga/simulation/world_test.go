package simulation

import (
	"bytes"
	"container/heap"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"paysaga/providers"
	"paysaga/saga"
	"paysaga/saga/simulation/bank"
)

// world is one run: everything that there is, and the scheduler. All that is not guarded by the mutex belongs to the scheduler's
// goroutine, which carries out every effect while all other goroutines wait.
type world struct {
	plan    plan
	begun   time.Time
	memory  *memory
	banks   map[bank.Kind]*bank.Bank
	servers []*server // those that run, or are to be started anew
	started []*server // all that ever were
	check   *checker
	seen    *tally
	log     bytes.Buffer
	logger  *slog.Logger
	tell    func(string) // of each thing that happens, in words; nil where nobody reads them

	agenda    agenda
	serial    int64
	offset    time.Duration // of the database's clock
	dirty     bool          // something changed that decides when sagas are due
	resting   bool
	counts    map[string]int // calls by kind
	identical map[string]int // calls with the same name
	requests  []*request
	met       met
	notices   int
	decisions int
	reviews   int
	digest    uint64
	steps     int
	downSince time.Time
	downUntil time.Time
	doing     *server         // whose call is being carried out
	expires   map[string]bool // payments whose hold's end is planned

	mutex    sync.Mutex
	arrived  chan struct{}
	parked   []*call
	finished []result
	active   int // clients' tries and notices on their way
	closed   bool
}

// violation is a broken invariant.
type violation struct{ invariant, text string }

func (v *violation) Error() string { return v.invariant + ": " + v.text }

// outcome is what came of a run.
type outcome struct {
	violation *violation
	seen      *tally
	met       met
	digest    uint64
	steps     int
}

// run carries a plan out in a bubble of its own.
func run(t *testing.T, p plan, tell func(string)) (o outcome) {
	t.Helper()
	o.seen = newTally()
	defer func() {
		if stuck := recover(); stuck != nil { // somebody waits for what never comes
			o.violation = &violation{"I5", fmt.Sprint(stuck)}
		}
	}()
	synctest.Test(t, func(*testing.T) {
		w := newWorld(p, tell)
		w.loop()
		w.close()
		o = outcome{w.check.violation, w.seen, w.met, w.digest, w.steps}
	})
	return o
}

func newWorld(p plan, tell func(string)) *world {
	w := &world{
		plan: p, begun: time.Now(), banks: map[bank.Kind]*bank.Bank{}, seen: newTally(), tell: tell, counts: map[string]int{},
		identical: map[string]int{}, expires: map[string]bool{}, arrived: make(chan struct{}, 1), digest: p.Seed, met: newMet(),
	}
	w.logger = slog.New(slog.NewTextHandler(&lockedLog{w: w}, &slog.HandlerOptions{Level: slog.LevelDebug}))
	w.memory = newMemory(func() time.Time { return time.Now().Add(w.offset) })
	w.check = newChecker(w)
	w.memory.wrote = func(write write) {
		w.dirty = true
		w.met.wrote(write.op)
		w.check.written(write)
	}
	w.memory.stock[stockName{shop, sku}] = &saga.Stock{SKU: sku, OnHand: p.Stock}
	for _, kind := range bank.Kinds() {
		w.banks[kind] = bank.New(kind, bank.World{
			Now: time.Now, Way: w.way, Tell: func(n providers.Notice) { w.announced(kind, n) },
			Lag: func(key providers.SubKey) time.Duration {
				// A margin stays for jumps of the database's clock.
				return time.Duration(w.unit("lag", string(key)) * w.unit("lag too", string(key)) * float64(kind.Windows().LookupDelay*2/3))
			},
			Accepted: func(key providers.SubKey, carryOut func()) {
				w.after(w.spread(time.Second, time.Hour, "accepted", string(key)), "carries out "+string(key), carryOut)
			},
		})
	}
	for i := range p.Servers {
		w.servers = append(w.servers, newServer(w, i+1, 1))
	}
	for _, e := range p.Events {
		w.after(time.Duration(e.At), "", func() { w.happen(e) })
	}
	w.after(time.Duration(p.Span), "", w.rest)
	return w
}

// lockedLog takes what the servers log.
type lockedLog struct{ w *world }

func (l *lockedLog) Write(text []byte) (int, error) {
	l.w.mutex.Lock()
	defer l.w.mutex.Unlock()
	return l.w.log.Write(text)
}

// item is one thing that will happen.
type item struct {
	at     time.Time
	serial int64
	words  string
	do     func()
}

// agenda is a heap of all that will happen, the next thing first.
type agenda struct{ items []*item }

func (a *agenda) Len() int { return len(a.items) }
func (a *agenda) Less(i, j int) bool {
	one, other := a.items[i], a.items[j]
	return one.at.Before(other.at) || one.at.Equal(other.at) && one.serial < other.serial
}
func (a *agenda) Swap(i, j int) { a.items[i], a.items[j] = a.items[j], a.items[i] }

// Push and Pop are the heap's; use add and next.
func (a *agenda) Push(x any) {
	if one, ok := x.(*item); ok {
		a.items = append(a.items, one)
	}
}

func (a *agenda) Pop() any {
	last := a.items[len(a.items)-1]
	a.items = a.items[:len(a.items)-1]
	return last
}

func (a *agenda) next() *item {
	first := a.items[0]
	heap.Pop(a)
	return first
}

func (w *world) after(d time.Duration, words string, do func()) { w.at(time.Now().Add(d), words, do) }

func (w *world) at(at time.Time, words string, do func()) {
	w.serial++
	heap.Push(&w.agenda, &item{at, w.serial, words, do})
}

const (
	// mostSteps bounds a run; a long one takes some thousand.
	mostSteps = 100_000
	// longestRest is how long a run may take to come to rest: longer than any deadline.
	longestRest = 120 * 24 * time.Hour
)

// loop lets one thing happen after the other, until nothing is left to happen.
func (w *world) loop() {
	for w.check.violation == nil {
		synctest.Wait()
		w.admit()
		w.settleTries()
		w.quiet()
		w.planLooks()
		if w.agenda.Len() == 0 {
			if w.active == 0 {
				if w.reviewed() {
					continue
				}
				break
			}
			w.sleep(time.Minute) // somebody waits for a timer of its own
			continue
		}
		if d := time.Until(w.agenda.items[0].at); d > 0 {
			w.sleep(d)
			continue
		}
		next := w.agenda.next()
		if next.words != "" {
			w.say(next.words)
		}
		next.do()
		if w.steps++; w.steps > mostSteps || time.Since(w.begun) > time.Duration(w.plan.Span)+longestRest {
			w.check.failf("I5", "does not come to rest: %s", w.standing())
		}
	}
	if w.check.violation == nil {
		w.check.end()
	}
}

// mostReviews is how often an operator looks at what is left for a person when all else has come to rest.
const mostReviews = 4

// reviewed has the operator decide about the sagas in review. It tells whether there were any, and hope.
func (w *world) reviewed() bool {
	inReview := slices.ContainsFunc(w.memory.inOrder, func(row *sagaRow) bool { return row.saga.State == saga.NeedsReview })
	if w.reviews++; !inReview || w.reviews > mostReviews {
		return false
	}
	w.check.reviews()
	w.operator("")
	return true
}

// sleep lets time pass, until something comes up.
func (w *world) sleep(d time.Duration) {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-w.arrived:
	}
}

// wake tells the scheduler that something came up. The mutex is held.
func (w *world) wake() {
	select {
	case w.arrived <- struct{}{}:
	default:
	}
}

// close ends all that still runs.
func (w *world) close() {
	w.mutex.Lock()
	w.closed = true
	w.mutex.Unlock()
	for _, s := range w.started {
		s.kill()
	}
	time.Sleep(time.Hour) // by the bubble's clock, which waits for nothing: longer than any pause in which somebody stands now
}

func (w *world) say(words string) {
	w.digest = hash(w.digest, words, int64(time.Since(w.begun)))
	if w.tell != nil {
		w.tell(fmt.Sprintf("%14s  %s", time.Since(w.begun).Round(time.Millisecond), words))
	}
}

// rest ends all faults, and has everybody bring to an end what was begun.
func (w *world) rest() {
	w.say("all faults end")
	w.resting, w.dirty = true, true
	for _, s := range w.servers {
		s.doom = nil
		if s.frozen {
			s.thaw()
		}
		if s.gone {
			s.restart()
		}
	}
	for _, kind := range bank.Kinds() {
		for _, p := range w.banks[kind].Payments() {
			w.decideLater(kind, p, 2*time.Hour)
		}
	}
	for _, r := range w.requests {
		if !r.done && !r.trying {
			w.tryLater(r, time.Second)
		}
	}
}

// decideLater has the bank decide by itself, after some time.
func (w *world) decideLater(kind bank.Kind, p *bank.Payment, longest time.Duration) {
	if p.State != bank.Moving {
		return
	}
	good := w.unit("decides", string(p.Key)) < 0.6
	w.after(w.spread(time.Minute, longest, "decides", string(p.Key)), "", func() {
		if p.State != bank.Moving {
			return
		}
		w.say(fmt.Sprintf("the bank decides about %s: %t", p.Reference, good))
		w.met.decides(w, p, good)
		w.banks[kind].Decide(p, good)
	})
}

// standing tells how the sagas stand, for a failure.
func (w *world) standing() string {
	var text strings.Builder
	for _, row := range w.memory.inOrder {
		s := w.memory.read(row, time.Now())
		fmt.Fprintf(&text, "\n  saga %s (%s): %s, order %s, payment %+v", s.Key.String()[:8], s.Kind, s.State, s.Order.Status, s.Order.Payment.Status)
		for _, step := range s.Steps {
			fmt.Fprintf(&text, "\n    %s %d: %s %s %s %s", step.Name, step.Attempt, step.Status, step.Outcome, step.Code, step.ProviderReference)
		}
	}
	for _, kind := range bank.Kinds() {
		for _, p := range w.banks[kind].Payments() {
			fmt.Fprintf(&text, "\n  payment %s for %s: %s, on hold %d, taken %d, returned %d", p.Reference, p.Key, p.State, p.OnHold, p.Taken, p.Returned)
		}
	}
	return text.String()
}

// hash mixes a name and a number into a value: FNV-1a, and the last step of splitmix64.
func hash(h uint64, name string, n int64) uint64 {
	h ^= 14695981039346656037
	for i := range len(name) {
		h = (h ^ uint64(name[i])) * 1099511628211
	}
	h = (h ^ uint64(n)) * 1099511628211
	h = (h ^ h>>30) * 0xbf58476d1ce4e5b9
	h = (h ^ h>>27) * 0x94d049bb133111eb
	return h ^ h>>31
}

// unit draws a number from zero to below one. The same names give the same number in every run of the plan.
func (w *world) unit(names ...string) float64 {
	h := w.plan.Seed
	for i, name := range names {
		h = hash(h, name, int64(i))
	}
	return float64(h>>11) / (1 << 53)
}

// spread draws a time between two, mostly near the shorter one.
func (w *world) spread(shortest, longest time.Duration, names ...string) time.Duration {
	u := w.unit(names...)
	return shortest + time.Duration(u*u*u*u*float64(longest-shortest))
}

// jitter draws a runner's pauses. It is called by many goroutines, so it goes by the time alone.
func (w *world) jitter(longest time.Duration) time.Duration {
	return time.Duration(float64(hash(w.plan.Seed, "jitter", time.Now().UnixNano()+int64(longest))>>11) / (1 << 53) * float64(longest))
}

func sorted[T any](list []T, name func(T) string) []T {
	slices.SortStableFunc(list, func(a, b T) int { return strings.Compare(name(a), name(b)) })
	return list
}
