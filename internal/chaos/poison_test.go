//go:build unix

package chaos

import (
	"context"
	"maps"
	"net"
	"net/http"
	"net/http/httptest"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"paysaga/saga"
)

// killer stands in front of the provider, and kills whichever server sends a certain order's charge: when the provider has taken the
// money, and before it has answered. To the servers the order is poison.
type killer struct {
	system *system
	order  string // whose charge kills
	kills  atomic.Int64
	group  sync.WaitGroup // of servers that begin their next life
}

// openKiller gives the killer and the address of the provider behind it, to which a server adds its number.
func openKiller(s *system, order string) (*killer, string) {
	s.t.Helper()
	listener, err := (&net.ListenConfig{}).Listen(s.t.Context(), "tcp4", "127.0.0.1:0")
	must(s.t, err)
	k := &killer{system: s, order: order}
	server := &http.Server{Handler: k, ReadHeaderTimeout: time.Minute}
	go func() { _ = server.Serve(listener) }()
	s.t.Cleanup(func() { _ = server.Close(); k.group.Wait() })
	return k, "http://" + listener.Addr().String()
}

// ServeHTTP takes the first part of the path for the server's number.
func (k *killer) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	number, _, _ := strings.Cut(strings.TrimPrefix(r.URL.Path, "/"), "/")
	provider := http.StripPrefix("/"+number, k.system.sandbox)
	if !strings.HasPrefix(r.Header.Get("Idempotency-Key"), k.order) {
		provider.ServeHTTP(w, r)
		return
	}
	answer := httptest.NewRecorder()
	provider.ServeHTTP(answer, r)
	place, err := strconv.Atoi(number)
	if err != nil {
		panic(err) // the path is the test's own
	}
	one := k.system.servers[place-1]
	one.kill()
	k.kills.Add(1)
	ctx := k.system.t.Context()
	k.group.Go(func() { _ = one.keepStarting(ctx) }) // what keeps it from starting shows in the test's end
}

// A saga that kills every server that takes it up is counted, and put aside for a person; the others go on meanwhile (I5). Its charge,
// sent by each of its victims, is one (I1).
func TestPoisonedSaga(t *testing.T) {
	t.Parallel()
	s := openSystem(t, programUnderTest(t), 1)
	poisoned := planOrder(2, 1)
	for number := 2; poisoned.course != coursePaid || poisoned.at.name != "stripe"; number++ {
		poisoned = planOrder(2, number)
	}
	id := orderID(poisoned)
	k, provider := openKiller(s, id.String())
	for number := range 2 {
		one := s.addServer("all", "PAYSAGA_LEASE=200ms", "PAYSAGA_RECOVERY_INTERVAL=20ms",
			"STRIPE_BASE_URL="+provider+"/"+strconv.Itoa(number+1)+"/stripe")
		must(t, one.start(t.Context()))
	}
	others, over := newShops(s), make(chan struct{})
	othersDone := make(chan struct{})
	go func() { defer close(othersDone); others.buy(t.Context(), over, 1, 4) }()

	shop := newShops(s)
	ctx, leave := context.WithCancel(t.Context())
	left := make(chan struct{})
	go func() { defer close(left); shop.walk(ctx, poisoned) }()
	const first = 5
	s.until("the first victims of the poisoned saga", func() bool { return k.kills.Load() >= first })
	leave() // the shop has given up; recovery goes on alone
	<-left
	s.bringNearBound(id.String())
	s.until("the poisoned saga's review", func() bool { return s.stateOf(id.String()) == string(saga.NeedsReview) })
	kills := k.kills.Load()
	close(over)
	<-othersDone
	k.group.Wait()
	s.wantPoisonAside(k, kills, id.String())

	again, err := shop.client.CreateOrder(t.Context(), newKey(poisoned.key), poisoned.order)
	if err != nil || again.Order.Status != "in_review" {
		t.Errorf("the repeat of the poisoned order is answered %s, %v", again.Order.Status, err)
	}
	if charges := s.charges()[id]; len(charges) != 1 || int64(charges[0].Calls) != kills {
		t.Errorf("%d servers were killed by the charge of one order, and the provider has %+v", kills, charges)
	}
	for _, o := range others.purchases {
		if o.err != nil {
			t.Errorf("order %d, %s, beside the poisoned one: %v", o.number, o.course, o.err)
		}
	}
	if len(others.purchases) == 0 {
		t.Error("no other order went on")
	}
}

// bringNearBound stands for dozens of further crashes: those that were real are counted already.
func (s *system) bringNearBound(key string) {
	s.t.Helper()
	type counts struct{ Drives, Unrecorded int }
	counted := read[counts](s, `SELECT drives, unrecorded FROM sagas WHERE key = $1`, key)[0]
	if counted.Unrecorded < 5 || counted.Unrecorded > counted.Drives {
		s.t.Errorf("after five crashes %d drives are counted, %d that wrote nothing", counted.Drives, counted.Unrecorded)
	}
	s.execute(`UPDATE sagas SET unrecorded = $2 WHERE key = $1`, key, saga.DefaultPolicy().MaxUnrecorded-2)
}

func (s *system) stateOf(key string) string {
	s.t.Helper()
	type state struct{ State string }
	return read[state](s, `SELECT state FROM sagas WHERE key = $1`, key)[0].State
}

// wantPoisonAside: the finding says why, nobody takes the saga up any more, and no other saga is in review.
func (s *system) wantPoisonAside(k *killer, kills int64, key string) {
	s.t.Helper()
	found := map[string]string{}
	for _, g := range read[openSaga](s, `SELECT saga_key, order_id, '', kind, detail FROM findings WHERE resolved_at IS NULL`) {
		found[g.Key.String()] = g.Kind
	}
	if want := map[string]string{key: saga.FindingCannotBeDriven}; !maps.Equal(found, want) {
		s.t.Errorf("findings %v, want %v", found, want)
	}
	if now := k.kills.Load(); now != kills {
		s.t.Errorf("%d servers were killed after the saga was put aside", now-kills)
	}
}
