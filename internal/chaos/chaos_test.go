//go:build unix

package chaos

import (
	"context"
	"flag"
	"fmt"
	"math/rand/v2"
	"net/http"
	"os"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"paysaga/api/client"
	"paysaga/providers/sandbox"
)

var (
	seedFlag     = flag.Uint64("seed", 1, "decides what is ordered, what breaks and when; 0 is any")
	durationFlag = flag.Duration("duration", 6*time.Second, "for how long things break")
	shoppersFlag = flag.Int("shoppers", 16, "how many orders are on their way at a time")
	// Sagas that met fault upon fault pause for minutes, and events that were searched for in vain for one.
	restFlag    = flag.Duration("rest", 5*time.Minute, "how long all may take to come to rest once nothing breaks any more")
	keepFlag    = flag.Bool("keep", false, "keep the logs of a test that passes too")
	programFlag = flag.String("program", "", "the paysaga to test; by default it is built")
)

func TestMain(m *testing.M) {
	flag.Parse()
	m.Run()
	removeProgram()
}

func programUnderTest(t testing.TB) string {
	t.Helper()
	if *programFlag != "" {
		return *programFlag
	}
	return buildProgram(t)
}

const (
	// maxOrders bounds a run, and with it the sandbox's memory.
	maxOrders = 100_000
	// maxDrawnSeed keeps a seed that nobody has chosen easy to type.
	maxDrawnSeed = 1_000_000
	// breath is between two orders of one shopper, so that the machine has time for more than orders.
	breath = 50 * time.Millisecond
)

// shops are those who buy: so many orders at a time, one after the other.
type shops struct {
	system  *system
	street  *street
	client  *client.Client
	browser *http.Client
	planned atomic.Int64

	mutex     sync.Mutex
	purchases []*purchase
}

func newShops(s *system) *shops {
	s.t.Helper()
	way := newStreet(s.servers)
	return &shops{
		system: s, street: way, client: way.client(s.t, s.apiKey),
		browser: &http.Client{
			Timeout:       attemptTimeout,
			CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
		},
	}
}

// buy places orders until the time is over, and returns when all of them have had what was planned for them.
func (s *shops) buy(ctx context.Context, over <-chan struct{}, seed uint64, shoppers int) {
	var group sync.WaitGroup
	for range shoppers {
		group.Go(func() {
			for {
				number := int(s.planned.Add(1))
				if number > maxOrders {
					return
				}
				o := s.walk(ctx, planOrder(seed, number))
				s.mutex.Lock()
				s.purchases = append(s.purchases, o)
				s.mutex.Unlock()
				select {
				case <-over:
					return
				case <-ctx.Done():
					return
				case <-time.After(breath):
				}
			}
		})
	}
	group.Wait()
}

// Everything breaks, and everything comes right: each order once, and each as its shop was told.
func TestChaos(t *testing.T) {
	t.Parallel()
	seed, length := *seedFlag, *durationFlag
	if seed == 0 {
		seed = rand.Uint64N(maxDrawnSeed) + 1
	}
	fmt.Fprintf(os.Stderr, "chaos: seed %d, %s; again with: make chaos SEED=%d DURATION=%s\n", seed, length, seed, length)
	s := openSystem(t, programUnderTest(t), int64(seed))
	for _, role := range []string{"all", "all", "api"} {
		s.addServer(role)
	}
	for _, one := range s.servers {
		must(t, one.start(t.Context()))
	}
	s.log.notef("seed %d, for %s", seed, length)
	s.badDay(int64(seed))
	plan := planBlows(seed, length, len(s.servers))
	customers := newShops(s)
	over, quiet := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(quiet)
		customers.buy(t.Context(), over, seed, *shoppersFlag)
	}()
	stop := s.tellProgress(customers, length)
	err := s.strike(t.Context(), plan)
	sleep(t.Context(), length-time.Since(s.log.begun))
	close(over)
	s.calm()
	<-quiet
	stop()
	if err != nil {
		t.Errorf("a blow could not be dealt or mended: %v", err)
	}
	s.rest()
	s.verdict(customers, seed)
	s.wantNoLeaks(customers)
}

// badDay has the providers misbehave, and their notices come twice, late, in any order or never. Adyen's are never lost for good: nobody
// can ask Adyen, which therefore sends each until it is accepted.
func (s *system) badDay(seed int64) {
	s.t.Helper()
	s.sky.change(func(w *weather) { w.seed = seed })
	for _, p := range providers {
		manner := sandbox.WebhookManner{Duplicates: 0.5, Reorder: true, DelayMS: 50, Seed: seed}
		if p.polled {
			manner.Loss = 0.4
		}
		must(s.t, s.sandbox.SetWebhookManner(p.name, manner))
	}
}

// calm ends all that the test has the providers do.
func (s *system) calm() {
	s.t.Helper()
	s.log.notef("all is mended")
	s.sky.change(func(w *weather) { w.seed = 0; clear(w.outages) })
	for _, p := range providers {
		must(s.t, s.sandbox.SetWebhookManner(p.name, sandbox.WebhookManner{}))
	}
}

// rest waits until nothing is under way: no saga, no event, no notice.
func (s *system) rest() {
	s.t.Helper()
	ctx, cancel := context.WithTimeout(s.t.Context(), *restFlag)
	defer cancel()
	for {
		s.sandbox.FlushWebhooks(ctx)
		left := s.underWay()
		if len(left) == 0 {
			s.log.notef("all is at rest")
			return
		}
		if ctx.Err() != nil {
			s.t.Errorf("%d things are under way %s after all was mended:\n%s", len(left), *restFlag, strings.Join(left[:min(len(left), 20)], "\n"))
			return
		}
		sleep(ctx, 250*time.Millisecond)
	}
}

// underWay names what has no end yet.
func (s *system) underWay() []string {
	s.t.Helper()
	var left []string
	for _, status := range s.sandbox.Webhooks() {
		if status.Waiting > 0 {
			left = append(left, fmt.Sprintf("%d webhooks of %s wait", status.Waiting, status.Provider))
		}
	}
	type thing struct{ Text string }
	for _, one := range read[thing](s, `
		SELECT 'saga ' || key || ' of order ' || order_id || ' is ' || state || ', ' || failures || ' failures, next attempt at ' || next_attempt_at
		FROM sagas WHERE next_attempt_at IS NOT NULL
		UNION ALL
		SELECT 'event ' || event_id || ' of ' || provider || ', ' || type || ', waits: ' || last_error FROM webhook_events WHERE status = 'waiting'
		UNION ALL
		SELECT 'key ' || key || ' of ' || endpoint || ' is ' || status FROM idempotency_keys WHERE status = 'PROCESSING' AND saga_key IS NOT NULL`) {
		left = append(left, one.Text)
	}
	return left
}

// tellProgress writes a line every few seconds, where somebody looks.
func (s *system) tellProgress(customers *shops, length time.Duration) (stop func()) {
	if info, err := os.Stderr.Stat(); !testing.Verbose() && (err != nil || info.Mode()&os.ModeCharDevice == 0) {
		return func() {}
	}
	const pause = 5 * time.Second
	ctx, cancel := context.WithCancel(context.Background())
	go func() {
		for {
			if sleep(ctx, pause); ctx.Err() != nil {
				return
			}
			customers.mutex.Lock()
			orders := len(customers.purchases)
			customers.mutex.Unlock()
			_, sends, lost := customers.street.journal.numbers()
			fmt.Fprintf(os.Stderr, "chaos: %3.0f s of %.0f, %d orders, %d requests, %d without an answer\n",
				time.Since(s.log.begun).Seconds(), length.Seconds(), orders, sends, lost)
		}
	}()
	return cancel
}

// verdict lays everything side by side.
func (s *system) verdict(customers *shops, seed uint64) {
	s.t.Helper()
	again := customers.street.askAgain(s.t.Context(), s.apiKey)
	b := s.gather(customers)
	found := b.compare()
	found.general = slices.Concat(found.general, again, auditFences(s.writes()))
	intents, sends, lost := customers.street.journal.numbers()
	summary := fmt.Sprintf("%d orders, %d intents, %d requests of which %d without an answer; %s", len(b.purchases), intents, sends, lost, b.courses())
	s.log.notef("%s", summary)
	if text := found.String(); text != "" {
		s.log.notef("%s", text)
		s.t.Errorf("seed %d: %s\n%s\nwhat happened when is in %s", seed, summary, text, s.log.path)
		return
	}
	s.t.Log(summary)
}
