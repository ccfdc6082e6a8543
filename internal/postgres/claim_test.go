package postgres_test

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"paysaga/internal/idempotency"
	"paysaga/providers"
	"paysaga/saga"
)

func TestKeyIsClaimedOnce(t *testing.T) {
	t.Parallel()
	b := newBundle(t)
	s := b.begin("once")
	claim := claimOf("once")
	for range 2 {
		if _, err := b.store.Begin(b.ctx, claim, b.beginning(claim, cups(2)), lease); !errors.Is(err, saga.ErrKeyTaken) {
			t.Errorf("begin again: %v, want ErrKeyTaken", err)
		}
	}
	b.wantStock("cup", 10, 2)
	record, ok, err := b.store.LookupKey(b.ctx, account, claim.Endpoint, claim.Key)
	if err != nil || !ok {
		t.Fatal(ok, err)
	}
	if record.LeaseLeft <= 0 || record.LeaseLeft > lease || record.Expired {
		t.Errorf("lease left %s, expired %t", record.LeaseLeft, record.Expired)
	}
	if record.CreatedAt.IsZero() || !record.ExpiresAt.Equal(record.CreatedAt.Add(claim.Retention)) {
		t.Errorf("created %s, expires %s", record.CreatedAt, record.ExpiresAt)
	}
	record.LeaseLeft, record.CreatedAt, record.ExpiresAt = 0, time.Time{}, time.Time{}
	want := idempotency.Record{
		Endpoint: claim.Endpoint, Generation: 1, Fingerprint: claim.Fingerprint, Status: idempotency.InProgress, SagaKey: s.Key, Fence: 1,
	}
	if diff := cmp.Diff(want, record); diff != "" {
		t.Errorf("record (-want +got):\n%s", diff)
	}
}

// Keys are told apart by case, endpoint and account.
func TestKeysThatAreNotTheSame(t *testing.T) {
	t.Parallel()
	b := newBundle(t)
	b.exec(`INSERT INTO stock (account_id, sku, on_hand) VALUES ('shop2', 'cup', 10)`)
	claims := []saga.Claim{claimOf("abcdefgh"), claimOf("ABCDEFGH"), claimOf("abcdefgh"), claimOf("abcdefgh")}
	claims[2].Endpoint = "POST /v1/others"
	claims[3].AccountID = "shop2"
	for _, claim := range claims {
		if _, err := b.store.Begin(b.ctx, claim, b.beginning(claim, cups(2)), lease); err != nil {
			t.Errorf("begin %s %s %s: %v", claim.AccountID, claim.Endpoint, claim.Key, err)
		}
	}
	b.wantStock("cup", 10, 6)
	if _, ok, err := b.store.LookupKey(b.ctx, "shop2", claims[1].Endpoint, claims[1].Key); ok || err != nil {
		t.Errorf("another account sees the key: %t, %v", ok, err)
	}
}

// A key may be used anew once its window is over and it is answered, as the next generation and no other.
func TestExpiredKeyBeginsTheNextGeneration(t *testing.T) {
	t.Parallel()
	b := newBundle(t)
	first := b.begin("expired")
	claim := claimOf("expired")
	claim.Generation = 2
	next := b.beginning(claim, cups(1))
	refused := func(why string) {
		t.Helper()
		if _, err := b.store.Begin(b.ctx, claim, next, lease); !errors.Is(err, saga.ErrKeyTaken) {
			t.Errorf("%s: %v, want ErrKeyTaken", why, err)
		}
	}
	refused("in its window")
	b.exec(`UPDATE idempotency_keys SET expires_at = now()`)
	refused("not answered")
	b.apply(b.outcome(first, saga.CallCharge, succeeded))
	third := claim
	third.Generation = 3
	if _, err := b.store.Begin(b.ctx, third, b.beginning(third, cups(1)), lease); !errors.Is(err, saga.ErrKeyTaken) {
		t.Errorf("a generation is left out: %v, want ErrKeyTaken", err)
	}
	second, err := b.store.Begin(b.ctx, claim, next, lease)
	if err != nil {
		t.Fatalf("expired and answered: %v", err)
	}
	if second.Key == first.Key {
		t.Error("the next generation has the same saga key")
	}
	record, _, err := b.store.LookupKey(b.ctx, account, claim.Endpoint, claim.Key)
	if err != nil || record.Generation != 2 || record.SagaKey != second.Key || record.Status != idempotency.InProgress || record.Answer.Body != nil {
		t.Errorf("record %+v, %v", record, err)
	}
	b.wantStock("cup", 8, 1)
}

// An answered order can still be without an end: a new one beside it could charge the customer twice (I1).
func TestKeyDoesNotBeginAnewWhileItsOrderIsOpen(t *testing.T) {
	t.Parallel()
	b := newBundle(t)
	first := b.begin("open")
	waiting := b.outcome(first, saga.CallCharge, providers.Outcome{Kind: providers.Processing, Reference: "pay_1"})
	waited := b.apply(waiting)
	b.exec(`UPDATE idempotency_keys SET expires_at = now()`)
	claim := claimOf("open")
	claim.Generation = 2
	next := b.beginning(claim, cups(1))
	if _, err := b.store.Begin(b.ctx, claim, next, lease); !errors.Is(err, saga.ErrKeyTaken) {
		t.Errorf("while the order is open: %v, want ErrKeyTaken", err)
	}
	record, _, err := b.store.LookupKey(b.ctx, account, claim.Endpoint, claim.Key)
	if err != nil || record.Expired || string(record.Answer.Body) != answerText {
		t.Errorf("while the order is open: %+v, %v; want the stored answer", record, err)
	}
	b.apply(b.outcome(waited, saga.CallLookup, succeeded))
	if _, err := b.store.Begin(b.ctx, claim, next, lease); err != nil {
		t.Errorf("after the order's end: %v", err)
	}
}

// News of a provider can open a saga again after its key's time, when the answer was dropped with its week. The key is expired then, and
// can begin anew once the saga has its end.
func TestKeyOfAReopenedSagaIsExpired(t *testing.T) {
	t.Parallel()
	b := newBundle(t)
	s := b.apply(b.outcome(b.begin("reopened"), saga.CallCharge, succeeded))
	claim := claimOf("reopened")
	claim.Generation = 2
	b.exec(`UPDATE idempotency_keys SET expires_at = now()`)
	b.exec(`DELETE FROM idempotency_answers`)
	b.exec(`UPDATE sagas SET state = 'needs_review', next_attempt_at = NULL WHERE key = $1`, s.Key)
	record, ok, err := b.store.LookupKey(b.ctx, account, claim.Endpoint, claim.Key)
	if err != nil || !ok || !record.Expired {
		t.Errorf("record %+v, %t, %v; want it expired", record, ok, err)
	}
	if _, err := b.store.Begin(b.ctx, claim, b.beginning(claim, cups(1)), lease); !errors.Is(err, saga.ErrKeyTaken) {
		t.Errorf("begin while the saga is open: %v, want ErrKeyTaken", err)
	}
	b.exec(`UPDATE sagas SET state = 'completed' WHERE key = $1`, s.Key)
	if _, err := b.store.Begin(b.ctx, claim, b.beginning(claim, cups(1)), lease); err != nil {
		t.Errorf("begin after the saga's end: %v", err)
	}
	b.exec(`UPDATE idempotency_keys SET status = 'COMPLETED', locked_until = NULL, completed_at = now(), response_status = 201, answer_on = now(), answer_id = 0`)
	if _, _, err := b.store.LookupKey(b.ctx, account, claim.Endpoint, claim.Key); err == nil {
		t.Error("an answer that is gone before its time is not told as a fault")
	}
}

func TestClaimDueTakesTheOldestAndNoMore(t *testing.T) {
	t.Parallel()
	b := newBundle(t)
	const orders = 5
	sagas := make([]saga.Saga, 0, orders)
	for i := range orders {
		s := b.begin(fmt.Sprint("due-", i))
		b.exec(`UPDATE sagas SET locked_until = now() - interval '1 day', next_attempt_at = now() - $2 * interval '1 minute' WHERE key = $1`, s.Key, i)
		sagas = append(sagas, s)
	}
	due, err := b.store.ClaimDue(b.ctx, 2, lease)
	if err != nil {
		t.Fatal(err)
	}
	if got, want := keysOf(due), keysOf(sagas[3:]); !slices.Equal(got, want) {
		t.Errorf("claimed %v, want the two oldest %v", got, want)
	}
	for _, s := range due {
		if s.Lease.Fence != 2 || s.Drives != 2 || s.Lease.Until.Before(s.ReadAt.Add(lease-time.Minute)) || len(s.Steps) != 2 || len(s.Order.Items) != 1 {
			t.Errorf("claimed saga %+v", s)
		}
	}
	// The key's lock moves with the saga's, so that a client's retry waits for the worker.
	if n := b.count(`SELECT count(*) FROM idempotency_keys WHERE lock_version = 2 AND locked_until > now()`); n != 2 {
		t.Errorf("%d keys are locked by the worker, want 2", n)
	}
}

func TestClaimDueSkipsRowsThatAreLocked(t *testing.T) {
	t.Parallel()
	b := newBundle(t)
	locked, free := b.begin("locked"), b.begin("free")
	b.lapse(locked)
	b.lapse(free)
	other, err := b.pool.Begin(b.ctx)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := other.Exec(b.ctx, `SELECT 1 FROM sagas WHERE key = $1 FOR UPDATE`, locked.Key); err != nil {
		t.Fatal(err)
	}
	due, err := b.store.ClaimDue(b.ctx, 10, lease)
	if err != nil || !slices.Equal(keysOf(due), keysOf([]saga.Saga{free})) {
		t.Errorf("claimed %v, %v; want the free one only", keysOf(due), err)
	}
	if err := other.Rollback(b.ctx); err != nil {
		t.Fatal(err)
	}
	if due, err := b.store.ClaimDue(b.ctx, 10, lease); err != nil || !slices.Equal(keysOf(due), keysOf([]saga.Saga{locked})) {
		t.Errorf("claimed %v, %v; want the other one now", keysOf(due), err)
	}
}

// One saga that cannot be read must not hold up the ones that are claimed with it.
func TestClaimDueReturnsWhatCanBeRead(t *testing.T) {
	t.Parallel()
	b := newBundle(t)
	broken, sound := b.apply(b.outcome(b.begin("broken"), saga.CallCharge, action)), b.begin("sound")
	b.exec(`UPDATE orders SET next_action = 'torn' WHERE id = $1`, broken.Order.ID)
	b.lapse(broken)
	b.lapse(sound)
	due, err := b.store.ClaimDue(b.ctx, 10, lease)
	if !slices.Equal(keysOf(due), keysOf([]saga.Saga{sound})) {
		t.Errorf("claimed %v, want the sound one", keysOf(due))
	}
	if err == nil || !strings.Contains(err.Error(), broken.Key.String()) {
		t.Errorf("error %v, want one that names the broken saga", err)
	}
}

func keysOf(sagas []saga.Saga) []string {
	keys := make([]string, 0, len(sagas))
	for _, s := range sagas {
		keys = append(keys, s.Key.String())
	}
	slices.Sort(keys)
	return keys
}
