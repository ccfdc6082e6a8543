package postgres_test

import (
	"errors"
	"strings"
	"testing"

	"paysaga/internal/idempotency"
	"paysaga/internal/upkeep"
	"paysaga/saga"
)

// A lease that is handed back is taken up by a worker, and whoever held it cannot write any more.
func TestRunbookHandsBackALease(t *testing.T) {
	t.Parallel()
	b := newBundle(t)
	_, procedures, _ := runbook(t)
	variables := func(s saga.Saga) map[string]string {
		return map[string]string{"account": account, "saga": s.Key.String(), "who": "ops:test"}
	}
	stuck := b.begin("stuck")
	if due, err := b.store.ClaimDue(b.ctx, 1, lease); err != nil || len(due) != 0 {
		t.Fatalf("%d are due, %v", len(due), err)
	}
	if err := b.run(procedures["hand back a lease"], variables(stuck)); err != nil {
		t.Fatal(err)
	}
	if record, _ := b.lookup(claimOf("stuck")); record.Status != idempotency.InProgress || record.LeaseLeft > 0 {
		t.Errorf("the key is %+v", record)
	}
	due, err := b.store.ClaimDue(b.ctx, 1, lease)
	if err != nil || len(due) != 1 || due[0].Key != stuck.Key {
		t.Fatalf("%d are due, %v", len(due), err)
	}
	if _, err := b.store.Apply(b.ctx, b.outcome(stuck, saga.CallCharge, succeeded)); !errors.Is(err, saga.ErrLeaseLost) {
		t.Errorf("the older holder writes: %v", err)
	}
	b.putStock("cup", 100)
	if err := b.run(procedures["hand back a lease"], variables(b.confirmed("ended"))); err == nil || !strings.Contains(err.Error(), "division by zero") {
		t.Errorf("of a saga that has ended: %v", err)
	}
}

// A released key is taken over by the next repeat, and whoever held it cannot answer any more.
func TestRunbookReleasesAKey(t *testing.T) {
	t.Parallel()
	b := newBundle(t)
	_, procedures, _ := runbook(t)
	variables := func(held idempotency.Held, begins string) map[string]string {
		return map[string]string{"account": account, "endpoint": held.Endpoint, "begins": begins, "who": "ops:test"}
	}
	held := b.holding("stuck")
	if err := b.run(procedures["release a key"], variables(held, held.Key)); err != nil {
		t.Fatal(err)
	}
	if _, err := b.store.TakeKey(b.ctx, held, lease); err != nil {
		t.Errorf("take over: %v", err)
	}
	if err := b.store.AnswerKey(b.ctx, held, saga.Answer{Status: 200, Headers: map[string]string{}}); !errors.Is(err, saga.ErrLeaseLost) {
		t.Errorf("the older holder answers: %v", err)
	}
	for name, variables := range map[string]map[string]string{
		"of none":   variables(held, "another-key"),
		"of a saga": {"account": account, "endpoint": claimOf("order").Endpoint, "begins": b.keyOf(b.begin("order")), "who": "ops:test"},
	} {
		if err := b.run(procedures["release a key"], variables); err == nil || !strings.Contains(err.Error(), "division by zero") {
			t.Errorf("%s: %v", name, err)
		}
	}
	b.exec(`INSERT INTO idempotency_keys (account_id, endpoint, key, fingerprint, status, locked_until, expires_at)
		SELECT account_id, endpoint, key || 'x', fingerprint, status, locked_until, expires_at FROM idempotency_keys WHERE key = $1`, held.Key)
	if err := b.run(procedures["release a key"], variables(held, held.Key)); err == nil {
		t.Error("of two keys that begin alike, both were released")
	}
}

func (b *bundle) keyOf(s saga.Saga) (key string) {
	b.t.Helper()
	if err := b.pool.QueryRow(b.ctx, `SELECT key FROM idempotency_keys WHERE saga_key = $1`, s.Key).Scan(&key); err != nil {
		b.t.Fatal(err)
	}
	return key
}

func TestRunbookMendsPartitions(t *testing.T) {
	t.Parallel()
	b := newBundle(t)
	_, procedures, _ := runbook(t)
	b.open("open")
	b.expire(claimOf("open").Key, 14)
	over := b.over()
	b.detachHalf(over.Name)
	if err := b.run(procedures["finish a detachment"], nil); err != nil {
		t.Fatal(err)
	}
	if now := b.over(); now.Attachment != upkeep.Detached {
		t.Errorf("it is %+v", now)
	}
	week := strings.TrimPrefix(over.Name, "idempotency_answers_")
	if err := b.run(procedures["attach again"], map[string]string{"week": week}); err != nil {
		t.Fatal(err)
	}
	if now := b.over(); now.Attachment != upkeep.Attached {
		t.Errorf("it is %+v", now)
	}
	b.replays(claimOf("open"))
}
