package postgres_test

import (
	"context"
	"errors"
	"strings"
	"testing"

	"github.com/google/uuid"

	"paysaga/internal/idempotency"
	"paysaga/saga"
)

// guarded carries requests out as a server does, with a provider that says yes.
type guarded struct {
	*bundle

	guard *idempotency.Guard
}

func (b *bundle) guarded(policy idempotency.Policy) guarded {
	b.t.Helper()
	guard, err := idempotency.NewGuard(idempotency.Config{
		Store: b.store, Policy: policy, Lease: lease, Logger: b.log.Logger(),
	})
	if err != nil {
		b.t.Fatal(err)
	}
	return guarded{b, guard}
}

func policyOf(expired idempotency.ExpiredKeys) idempotency.Policy {
	p := idempotency.Default()
	p.ExpiredKeys, p.KeysPerMinute = expired, 0
	return p
}

// do is one request with a key. begin writes what it begins; the answer tells what derived from the key.
func (g guarded) do(
	claim saga.Claim, call saga.Call, begin func(ctx context.Context, claim saga.Claim) (saga.Saga, error),
) (idempotency.Result, error) {
	g.t.Helper()
	key, err := g.guard.ReadKey([]string{claim.Key})
	if err != nil {
		g.t.Fatal(err)
	}
	return g.guard.Do(g.ctx, idempotency.Call{
		AccountID: claim.AccountID, Endpoint: claim.Endpoint, Key: key, Fingerprint: claim.Fingerprint,
	}, idempotency.Work{
		Begin: func(ctx context.Context, claim saga.Claim) (saga.Answer, error) {
			s, err := begin(ctx, claim)
			if err != nil {
				return saga.Answer{}, err
			}
			change := g.outcome(s, call, succeeded)
			var derived []string
			for _, step := range s.Steps {
				if step.Provider != "" {
					derived = append(derived, string(step.SubKey))
				}
			}
			if change.Answer == nil { // it goes on
				g.t.Fatalf("%s has no answer", claim.Endpoint)
			}
			change.Answer.Body = []byte(strings.Join(derived, " "))
			_, err = g.store.Apply(ctx, change)
			return *change.Answer, err
		},
		Resume: func(context.Context, idempotency.Held, idempotency.Record) (saga.Answer, error) {
			return saga.Answer{}, errors.New("nothing is left in the middle here")
		},
	})
}

// order is a request for one cup.
func (g guarded) order(name string) (idempotency.Result, error) {
	return g.do(claimOf(name), saga.CallCharge, func(ctx context.Context, claim saga.Claim) (saga.Saga, error) {
		return g.store.Begin(ctx, claim, g.beginning(claim, cups(1)), lease)
	})
}

func (g guarded) refundOf(order saga.Saga, name string) (idempotency.Result, error) {
	return g.do(requestClaim(name), saga.CallRefund, func(ctx context.Context, claim saga.Claim) (saga.Saga, error) {
		return g.store.Begin(ctx, claim, g.refunding(g.load(order), claim, 100), lease)
	})
}

func (g guarded) captureOf(order saga.Saga, name string) (idempotency.Result, error) {
	return g.do(requestClaim(name), saga.CallCapture, func(ctx context.Context, claim saga.Claim) (saga.Saga, error) {
		return g.store.Ask(ctx, claim, g.asking(g.load(order), claim, saga.Request{Kind: saga.RequestCapture, Amount: 100}), lease)
	})
}

// A key whose row was cleaned up derives other identifiers when it is used once more: the provider would take the old ones for repeats of
// what was done long ago. Under the policy that rejects expired keys it is rejected, with a row or without.
func TestReuseAfterCleanUp(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		prepare func(b *bundle) saga.Saga
		request func(g guarded, order saga.Saga) (idempotency.Result, error)
		claim   saga.Claim
		last    func(claim saga.Claim, generation int) string // the last identifier in the answer
	}{
		"an order": {
			func(*bundle) saga.Saga { return saga.Saga{} },
			func(g guarded, _ saga.Saga) (idempotency.Result, error) { return g.order("again") },
			claimOf("again"), func(claim saga.Claim, generation int) string { return derived(claim, generation, saga.StepCharge) },
		},
		"a refund": {
			func(b *bundle) saga.Saga { return b.confirmed("order") },
			func(g guarded, order saga.Saga) (idempotency.Result, error) { return g.refundOf(order, "refund") },
			requestClaim("refund"), func(claim saga.Claim, generation int) string { return derived(claim, generation, saga.StepRefund) },
		},
		"a capture": {
			func(b *bundle) saga.Saga { return b.held("order") },
			func(g guarded, order saga.Saga) (idempotency.Result, error) { return g.captureOf(order, "capture") },
			requestClaim("capture"), func(claim saga.Claim, generation int) string { return derived(claim, generation, saga.StepCapture) },
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := newBundle(t)
			order := test.prepare(b)
			lenient, strict := b.guarded(policyOf(idempotency.ExpiredNew)), b.guarded(policyOf(idempotency.ExpiredReject))
			for generation := 1; generation <= 3; generation++ {
				request := func() (idempotency.Result, error) { return test.request(lenient, order) }
				b.begunAndReplayed(request, test.last(test.claim, generation))
				b.cleanUp(test.claim, order)
				if _, err := test.request(strict, order); !errors.Is(err, idempotency.ErrExpired) {
					t.Errorf("rejected policy, generation %d: %v", generation, err)
				}
				if b.keyIsThere(test.claim.Key) {
					t.Error("a request that was rejected has left a row")
				}
			}
		})
	}
}

// begunAndReplayed sends a request twice: it is begun, with what derives from this use of its key, and then replayed.
func (b *bundle) begunAndReplayed(request func() (idempotency.Result, error), derived string) {
	b.t.Helper()
	first, err := request()
	if err != nil || first.Replayed || !strings.HasSuffix(string(first.Answer.Body), derived) {
		b.t.Fatalf("%q, replayed %t, %v; want %q", first.Answer.Body, first.Replayed, err, derived)
	}
	again, err := request()
	if err != nil || !again.Replayed || string(again.Answer.Body) != string(first.Answer.Body) {
		b.t.Errorf("%q is not replayed: %q, %v", derived, again.Answer.Body, err)
	}
}

// cleanUp lets the key's window end, and its row be deleted. A held order is open, and with it its requests' keys: it is looked at as
// though it had ended.
func (b *bundle) cleanUp(claim saga.Claim, order saga.Saga) {
	b.t.Helper()
	b.expire(claim.Key, 0)
	if order.Key != uuid.Nil && !order.State.Ended() {
		if b.upkeep(false).Deleted != 0 {
			b.t.Fatal("the key of an open order's request was deleted")
		}
		b.exec(`UPDATE sagas SET state = 'completed', next_attempt_at = NULL WHERE key = $1`, order.Key)
		defer b.exec(`UPDATE sagas SET state = 'awaiting', next_attempt_at = now() + interval '1 hour' WHERE key = $1`, order.Key)
	}
	if b.upkeep(false).Deleted != 1 || b.keyIsThere(claim.Key) {
		b.t.Fatal("the key was not deleted")
	}
}

func derived(claim saga.Claim, generation int, step saga.StepName) string {
	return string(saga.SubKey(saga.Key(claim.AccountID, claim.Endpoint, claim.Key, generation), step, 1))
}

// Where expired keys are rejected their rows stay, so that they are rejected for good.
func TestRejectedKeysAreKept(t *testing.T) {
	t.Parallel()
	b := newBundle(t)
	strict := b.guarded(policyOf(idempotency.ExpiredReject))
	if _, err := strict.order("once"); err != nil {
		t.Fatal(err)
	}
	b.expire(claimOf("once").Key, 14)
	for range 2 { // also when the answer has gone with its partition
		if _, err := strict.order("once"); !errors.Is(err, idempotency.ErrExpired) {
			t.Errorf("%v, want ErrExpired", err)
		}
		b.upkeep(true)
	}
	if !b.keyIsThere(claimOf("once").Key) || len(b.partitions().Over()) != 0 {
		t.Error("the key is gone, or its partition is not")
	}
	if n := b.count(`SELECT count(*) FROM sagas`); n != 1 {
		t.Errorf("there are %d orders", n)
	}
}
