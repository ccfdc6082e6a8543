package simulation

import (
	"encoding/json"
	"flag"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"paysaga/saga"
)

var (
	seedFlag    = flag.Uint64("seed", 0, "the seed of the first run; 0: any")
	runsFlag    = flag.Int("runs", 0, "how many runs, of this seed and those after it")
	planFlag    = flag.String("plan", "", "a file with a plan, which is run instead")
	quickFlag   = flag.Bool("quick", false, "end at the first failure, and do not make it small")
	fixtureFlag = flag.String("fixture", "", "a file to which the first run that fails, made small, or the plan, is written as a fixture")
	traceFlag   = flag.Bool("trace", false, "tell all that happens in a plan, or in one run")
)

const (
	// standardSeed and standardRuns are the batch that every test run does, and of which TestBatchIsNotVacuous says what it meets.
	standardSeed = 1
	standardRuns = 1500
	// anyRuns are those of a new seed each time.
	anyRuns = 300
	// mostFailures is how many failures are told: one cause makes many.
	mostFailures = 3
)

// TestInvariants runs plans and holds each against the invariants I1 to I10.
func TestInvariants(t *testing.T) {
	t.Parallel()
	switch {
	case *planFlag != "" && *fixtureFlag != "":
		writeFixture(t, readPlan(t, *planFlag), *fixtureFlag)
	case *planFlag != "":
		runFile(t, *planFlag)
	case *runsFlag > 0:
		seed := *seedFlag
		if seed == 0 {
			seed = anySeed()
		}
		fmt.Printf("simulating %d runs from seed %d\n", *runsFlag, seed)
		b := newBatch(t, seed, *runsFlag)
		b.progress = true
		if *fixtureFlag != "" {
			b.writeFixture(*fixtureFlag)
			return
		}
		b.run()
		fmt.Printf("%s\n%d runs in %s, %d runs a second\n", b.seen, b.done.Load(), b.took.Round(time.Millisecond), b.rate())
	default:
		b := newBatch(t, anySeed(), anyRuns)
		b.run()
		t.Logf("%d runs from seed %d", b.done.Load(), b.seed)
	}
}

func anySeed() uint64 { return uint64(rand.Uint32()) }

// batch is many runs, on all cores.
type batch struct {
	t        *testing.T
	seed     uint64
	runs     int
	progress bool
	seen     *tally
	next     atomic.Int64
	done     atomic.Int64
	took     time.Duration
	mutex    sync.Mutex
	failed   []uint64
}

func newBatch(t *testing.T, seed uint64, runs int) *batch {
	t.Helper()
	return &batch{t: t, seed: seed, runs: runs, seen: newTally()}
}

func (b *batch) rate() int64 { return int64(float64(b.done.Load()) / b.took.Seconds()) }

// writeFixture writes the first run that fails.
func (b *batch) writeFixture(file string) {
	b.t.Helper()
	b.runAll()
	if len(b.failed) == 0 {
		b.t.Fatalf("%s is not written: none of %d runs from seed %d fails. PLAN= writes a plan as it is.", file, b.done.Load(), b.seed)
	}
	writeFixture(b.t, newPlan(b.failed[0]), file)
}

// run does all runs. The failures that are told are those of the lowest seeds.
func (b *batch) run() {
	b.t.Helper()
	b.runAll()
	if *quickFlag && len(b.failed) > 0 {
		b.t.Fatalf("%s; once more: make simulate SEED=%d RUNS=1", run(b.t, newPlan(b.failed[0]), nil).violation.invariant, b.failed[0])
	}
	for _, seed := range b.failed[:min(len(b.failed), mostFailures)] {
		b.t.Error(report(b.t, newPlan(seed)))
	}
}

func (b *batch) runAll() {
	begun := time.Now()
	if b.progress {
		stop := make(chan struct{})
		defer close(stop)
		go b.tell(begun, stop)
	}
	var workers sync.WaitGroup
	for range runtime.GOMAXPROCS(0) {
		workers.Go(b.work)
	}
	workers.Wait()
	b.took = time.Since(begun)
	slices.Sort(b.failed)
}

func (b *batch) work() {
	for {
		n := b.next.Add(1) - 1
		if n >= int64(b.runs) {
			return
		}
		seed := b.seed + uint64(n)
		o := run(b.t, newPlan(seed), nil)
		b.done.Add(1)
		b.seen.addAll(o.seen)
		if o.violation == nil {
			continue
		}
		b.mutex.Lock()
		b.failed = append(b.failed, seed)
		enough := len(b.failed) >= mostFailures || *quickFlag
		b.mutex.Unlock()
		if enough {
			b.next.Store(int64(b.runs))
		}
	}
}

func (b *batch) tell(begun time.Time, stop chan struct{}) {
	const every = 5 * time.Second
	ticker := time.NewTicker(every)
	defer ticker.Stop()
	for {
		select {
		case <-stop:
			return
		case <-ticker.C:
			fmt.Printf("  %d runs, %d a second\n", b.done.Load(), int64(float64(b.done.Load())/time.Since(begun).Seconds()))
		}
	}
}

// report makes a failing plan as small as it gets, and tells of it.
func report(t *testing.T, p plan) string {
	t.Helper()
	first := run(t, p, nil).violation
	if first == nil {
		return fmt.Sprintf("seed %d fails, and does not fail again: a run is not a function of its plan", p.Seed)
	}
	small := shrink(t, p, first.invariant)
	var trace []string
	found := run(t, small, func(line string) { trace = append(trace, line) }).violation
	var text strings.Builder
	fmt.Fprintf(&text, "%s is broken in the run of seed %d, with %d of its %d events left:\n", found.invariant, p.Seed, len(small.Events), len(p.Events))
	text.WriteString(small.story())
	fmt.Fprintf(&text, "  broken: %s\n", found.text)
	fmt.Fprintf(&text, "once more, from all of its events: make simulate SEED=%d RUNS=1\n", p.Seed)
	if file, err := keep(small); err != nil {
		fmt.Fprintf(&text, "the small plan could not be kept (%v):\n%s\n", err, small)
	} else {
		fmt.Fprintf(&text, "once more, from these: make simulate PLAN=%s\n", file)
	}
	fmt.Fprintf(&text, "as a fixture: make simulate SEED=%d RUNS=1 FIXTURE=saga/fixture/testdata/found-%d.yaml\n", p.Seed, p.Seed)
	const most = 120
	fmt.Fprintf(&text, "how it came to that:\n  %s", strings.Join(trace[max(0, len(trace)-most):], "\n  "))
	return text.String()
}

// story is a plan in words.
func (p plan) story() string {
	var text strings.Builder
	fmt.Fprintf(&text, "  %d servers that look every %s, %d pieces in stock; calls take long: %t, notices come as they like: %t; at rest after %s\n",
		p.Servers, p.Look, p.Stock, p.Slow, p.Wild, p.Span)
	for _, e := range p.Events {
		fmt.Fprintf(&text, "  %12s  %d: %s\n", time.Duration(e.At).Round(time.Millisecond), e.ID, p.words(e))
	}
	return text.String()
}

// keep writes a plan where it can be had again.
func keep(p plan) (string, error) {
	file := filepath.Join(os.TempDir(), fmt.Sprintf("paysaga-simulation-%d.json", p.Seed))
	return file, os.WriteFile(file, []byte(p.String()+"\n"), 0o600)
}

func readPlan(t *testing.T, file string) (p plan) {
	t.Helper()
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	if err := json.Unmarshal(text, &p); err != nil {
		t.Fatal(err)
	}
	return p
}

func runFile(t *testing.T, file string) {
	t.Helper()
	p := readPlan(t, file)
	var tell func(string)
	if *traceFlag {
		tell = func(line string) { fmt.Println(line) }
	}
	if v := run(t, p, tell).violation; v != nil {
		t.Error(report(t, p))
	}
}

// A batch that meets too little finds nothing.
func TestBatchIsNotVacuous(t *testing.T) {
	t.Parallel()
	if *runsFlag > 0 || *planFlag != "" {
		t.Log("another batch was asked for")
		return
	}
	b := newBatch(t, standardSeed, standardRuns)
	b.run()
	t.Logf("%d runs in %s\n%s", b.done.Load(), b.took, b.seen)
	for group, names := range mustMeet {
		for _, name := range names {
			if b.seen.count(group, name) == 0 {
				t.Errorf("no run meets %s: %s", group, name)
			}
		}
	}
}

// mustMeet is what the standard batch meets at least once.
var mustMeet = map[string][]string{
	"state": {
		"order charging", "order awaiting", "order completed", "order compensating", "order rolled_back", "order needs_review",
		"refund refunding", "refund completed", "refund rolled_back",
	},
	"fault": {
		string(lostBefore), string(lostAfter), string(errorBefore), string(errorAfter), string(finalBefore), string(finalAfter),
		string(replayed), string(busy), string(unreachable), string(refused), string(mismatch),
	},
	"event": {
		"crash before", "crash after", "freeze", "stop", "database down", "partition", "clock", "hold ends", "bank decides", "repeat", "bounce", "operator",
	},
	"notice":   {"doubled", "lost", "applied"},
	"lease":    {"begin", "ask", "claim", "seize", "take over", "lost"},
	"finding":  {saga.FindingAmountMismatch, saga.FindingRefusedAfterSend, saga.FindingUnexpectedOutcome},
	"decision": {"nothing_kept taken", "cancel taken", "not_given taken"},
	"client":   {"answer 200", "answer 201", "answer 202", "answer 402", "answer 422", "replay", "mismatch", "in progress"},
}

// The same plan gives the same run, in each detail, on any number of cores.
func TestRunIsAFunctionOfItsPlan(t *testing.T) {
	t.Parallel()
	const seeds = 60
	for seed := range uint64(seeds) {
		p := newPlan(seed)
		first := run(t, p, nil)
		for range 2 {
			if again := run(t, p, nil); again.digest != first.digest || again.steps != first.steps {
				t.Fatalf("seed %d: %d steps (%x), and then %d (%x)", seed, first.steps, first.digest, again.steps, again.digest)
			}
		}
		var read plan
		if err := json.Unmarshal([]byte(p.String()), &read); err != nil || read.String() != p.String() {
			t.Fatalf("seed %d: a plan is not what was written (%v)", seed, err)
		}
	}
}
