package saga_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"
	"time"

	"paysaga/internal/idempotency"
	"paysaga/providers"
	"paysaga/saga"
)

// dieBefore is a server that dies before a call goes out.
func dieBefore(call saga.Call) func(context.Context, saga.Call) {
	return func(_ context.Context, made saga.Call) {
		if made == call {
			panic("the server died")
		}
	}
}

// fuse is a server's death at one of the points that it passes.
type fuse struct {
	mu   sync.Mutex
	left int // points until the server dies
	at   string
}

func (f *fuse) pass(point string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.left--
	if f.left == 0 {
		f.at = point
		panic("the server died " + point)
	}
}

// mortalStore dies around its transactions.
type mortalStore struct {
	saga.Store

	fuse *fuse
}

func (m mortalStore) Begin(ctx context.Context, claim saga.Claim, change saga.Change, lease time.Duration) (saga.Saga, error) {
	m.fuse.pass("before Begin")
	begun, err := m.Store.Begin(ctx, claim, change, lease)
	m.fuse.pass("after Begin")
	return begun, err
}

func (m mortalStore) Apply(ctx context.Context, change saga.Change) (saga.Saga, error) {
	m.fuse.pass("before Apply")
	applied, err := m.Store.Apply(ctx, change)
	m.fuse.pass("after Apply")
	return applied, err
}

// course is a way that an order goes; what befalls it on the way is the same however often a server dies.
type course struct {
	name   string
	order  saga.Order
	befall func(b *bundle, claim saga.Claim)
	end    saga.State
	paid   int // payments that the bank holds in the end
	sold   int64
}

func courses() []course {
	return []course{
		{"confirmed", cups(), func(*bundle, saga.Claim) {}, saga.Completed, 1, 2},
		{"answer lost", cups(), func(b *bundle, _ saga.Claim) {
			b.bank.on(saga.CallCharge, losesTheAnswer(), losesTheAnswer(), losesTheAnswer())
		}, saga.Completed, 1, 2},
		{"declined", cups(), func(b *bundle, _ saga.Claim) {
			declined := refuses(providers.Outcome{Kind: providers.Declined, Decline: &providers.Decline{Code: "card_declined"}})
			b.bank.on(saga.CallCharge, declined, declined, declined, declined) // as a provider repeats it under one key
		}, saga.RolledBack, 0, 0},
		{"awaited in vain", cups(), func(b *bundle, _ saga.Claim) {
			b.bank.on(saga.CallCharge, asksTheCustomer())
		}, saga.RolledBack, 0, 0},
		{"held in vain", heldCups(), func(*bundle, saga.Claim) {}, saga.RolledBack, 0, 0},
	}
}

// A server may die at any point (I1, I5, I6, I8): before and after each commit, and on both sides of a provider call.
func TestDeathAtAnyPoint(t *testing.T) {
	t.Parallel()
	for _, course := range courses() {
		t.Run(course.name, func(t *testing.T) {
			t.Parallel()
			points := course.dieEverywhere(t)
			if points < 6 { // Begin, the call and Apply, with two sides each
				t.Errorf("a server died at %d points only", points)
			}
		})
	}
}

// dieEverywhere runs the course again and again, dying one point later each time, until a server lives through it.
func (c course) dieEverywhere(t *testing.T) (points int) {
	t.Helper()
	const mostPoints = 60
	shared := newBundle(t)
	for points < mostPoints {
		b, claim := shared.fresh(t), claimOf(fmt.Sprint("death-", points))
		c.befall(b, claim)
		died := c.die(b, claim, points+1)
		c.check(b, claim, died)
		if died == "" {
			return points
		}
		points++
	}
	t.Fatalf("still dying after %d points", mostPoints)
	return points
}

// die runs the course on a server that dies at a point, and lets another one finish it. It tells where the server died.
func (c course) die(b *bundle, claim saga.Claim, point int) string {
	b.t.Helper()
	f := &fuse{left: point}
	mortal := b.newRunner(mortalStore{b.store, f})
	b.bank.hook(
		func(_ context.Context, call saga.Call) { f.pass("before the " + string(call)) },
		func(call saga.Call) { f.pass("after the " + string(call)) },
	)
	if _, err := mortal.Start(b.ctx, claim, c.order); (err == nil) != (f.at == "") {
		b.t.Errorf("died %q, yet Start gave the error %v", f.at, err)
	}
	for range 5 { // the course's later turns, unless the server is dead
		if f.at != "" {
			break
		}
		b.exec(`UPDATE sagas SET deadline_at = now() WHERE deadline_at IS NOT NULL`)
		b.lapse()
		b.recovery(mortal).Once(b.ctx)
	}
	b.bank.hook(nil, nil)
	// The client asks again; it is the only one who does when nothing was begun.
	alive := b.newRunner(b.store)
	if _, err := alive.Start(b.ctx, claim, c.order); err != nil && !errors.Is(err, saga.ErrKeyTaken) {
		b.t.Fatalf("died %s; the client's retry: %v", f.at, err)
	}
	b.recover(alive)
	return f.at
}

func (c course) check(b *bundle, claim saga.Claim, died string) {
	b.t.Helper()
	s := b.get(claim)
	if s.State != c.end {
		b.t.Errorf("died %s: state %s, want %s", died, s.State, c.end)
	}
	if held, made := b.bank.taken(); held != c.paid || made > 1 {
		b.t.Errorf("died %s: the bank holds %d payments of %d made", died, held, made)
	}
	if _, keys := b.bank.called(saga.CallCharge); keys != 1 {
		b.t.Errorf("died %s: charged under %d keys", died, keys)
	}
	b.wantStock("cup", 10-c.sold)
	if events := b.count(`SELECT count(*) FROM outbox_events WHERE type = 'order.' || $1`, s.Order.Status); events != 1 {
		b.t.Errorf("died %s: %d events of the end", died, events)
	}
	first := b.record(claim)
	if first.Status == idempotency.InProgress || len(first.Answer.Body) == 0 {
		b.t.Fatalf("died %s: no answer", died)
	}
	b.exec(`UPDATE sagas SET locked_until = now() - interval '1 day'`)
	b.recover(b.newRunner(b.store))
	if again := b.record(claim); !bytes.Equal(first.Answer.Body, again.Answer.Body) || first.Answer.Status != again.Answer.Status {
		b.t.Errorf("died %s: the answer changed from %s to %s", died, first.Answer.Body, again.Answer.Body)
	}
}
