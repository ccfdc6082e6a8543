package storetest

import (
	"errors"
	"time"

	"github.com/google/uuid"

	"paysaga/internal/idempotency"
	"paysaga/providers"
	"paysaga/saga"
)

// paidOutcome is of a charge that took the money.
var paidOutcome = providers.Outcome{Kind: providers.Succeeded, Reference: payment}

const counting = "PUT /v1/stock/{sku}"

var someAnswer = saga.Answer{Status: 200, Headers: map[string]string{"Content-Type": "text/plain"}, Body: []byte("counted")}

func (b *bundle) claimKey(claim saga.Claim) idempotency.Held {
	b.Helper()
	held, err := b.store.ClaimKey(b.ctx, claim, b.lease)
	if err != nil {
		b.Fatalf("claim key: %v", err)
	}
	return held
}

var keys = map[string]func(*bundle){
	"a key that is over begins anew": func(b *bundle) {
		claim := claimOf(begin, "one")
		claim.Retention = 0
		s, err := b.store.Begin(b.ctx, claim, b.placing(claim, 2), lease)
		if err != nil {
			b.Fatal(err)
		}
		next := claimOf(begin, "one")
		next.Generation = 2
		if _, err := b.store.Begin(b.ctx, next, b.placing(next, 1), lease); !errors.Is(err, saga.ErrKeyTaken) || b.record(claim).Expired {
			b.Errorf("while its saga is open: %v", err)
		}
		b.apply(b.told(s, saga.CallCharge, paidOutcome))
		if !b.record(claim).Expired {
			b.Error("its window is not over")
		}
		again := claimOf(begin, "one")
		if _, err := b.store.Begin(b.ctx, again, b.placing(again, 1), lease); !errors.Is(err, saga.ErrKeyTaken) {
			b.Errorf("the same generation: %v", err)
		}
		second, err := b.store.Begin(b.ctx, next, b.placing(next, 1), lease)
		if err != nil || second.Key == s.Key {
			b.Errorf("the next generation: %v", err)
		}
		if record := b.record(next); record.Generation != 2 || record.Status != idempotency.InProgress || record.SagaKey != second.Key {
			b.Errorf("%+v", record)
		}
	},
	"the last generation of a key": func(b *bundle) {
		b.place("one")
		for name, want := range map[string]int{"one": 1, "none": 0} {
			claim := claimOf(begin, name)
			if last, err := b.store.LastGeneration(b.ctx, claim.AccountID, claim.Endpoint, claim.Key); err != nil || last != want {
				b.Errorf("%s: %d, %v", name, last, err)
			}
		}
	},
	"so many new keys a minute": func(b *bundle) {
		for i := range 3 {
			claim := claimOf(counting, string(rune('a'+i)))
			claim.KeysPerMinute = 2
			_, err := b.store.ClaimKey(b.ctx, claim, lease)
			limit, limited := errors.AsType[*idempotency.LimitError](err)
			if limited != (i == 2) || limited && (limit.PerMinute != 2 || limit.RetryAfter <= 0 || limit.RetryAfter > time.Minute) {
				b.Errorf("key %d: %v", i+1, err)
			}
			if limited {
				b.wantNoRecord(claim)
			}
		}
	},
	"a key that is held": func(b *bundle) {
		claim := claimOf(counting, "one")
		held := b.claimKey(claim)
		if _, err := b.store.ClaimKey(b.ctx, claim, lease); !errors.Is(err, saga.ErrKeyTaken) {
			b.Errorf("claimed again: %v", err)
		}
		if _, err := b.store.TakeKey(b.ctx, held, lease); !errors.Is(err, saga.ErrLeaseLost) {
			b.Errorf("taken over: %v", err)
		}
		if err := b.store.AnswerKey(b.ctx, held, someAnswer); err != nil {
			b.Fatal(err)
		}
		record := b.record(claim)
		if record.Status != idempotency.Completed || string(record.Answer.Body) != "counted" || record.SagaKey != uuid.Nil {
			b.Errorf("%+v", record)
		}
		for name, err := range map[string]error{
			"answered again": b.store.AnswerKey(b.ctx, held, someAnswer), "renewed": b.store.RenewKey(b.ctx, held, lease),
			"released": b.store.ReleaseKey(b.ctx, held), "forgotten": b.store.ForgetKey(b.ctx, held),
		} {
			if !errors.Is(err, saga.ErrLeaseLost) {
				b.Errorf("%s: %v", name, err)
			}
		}
	},
	"a key that is taken over": func(b *bundle) {
		claim := claimOf(counting, "one")
		held := b.claimKey(claim)
		if err := b.store.ReleaseKey(b.ctx, held); err != nil {
			b.Fatal(err)
		}
		taken, err := b.store.TakeKey(b.ctx, held, lease)
		if err != nil || taken.Fence == held.Fence {
			b.Fatalf("fence %d after %d, %v", taken.Fence, held.Fence, err)
		}
		if err := b.store.AnswerKey(b.ctx, held, someAnswer); !errors.Is(err, saga.ErrLeaseLost) {
			b.Errorf("the former holder answers: %v", err)
		}
		if record := b.record(claim); record.Fence != taken.Fence || record.LeaseLeft <= 0 {
			b.Errorf("%+v", record)
		}
		if err := b.store.ForgetKey(b.ctx, taken); err != nil {
			b.Error(err)
		}
		b.wantNoRecord(claim)
		if again := b.claimKey(claim); again.Fence == taken.Fence || again.Fence == held.Fence {
			b.Error("a former holder could pass for the new one")
		}
	},
}
