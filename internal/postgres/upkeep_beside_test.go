package postgres_test

import (
	"testing"

	"github.com/jackc/pgx/v5"

	"paysaga/internal/idempotency"
	"paysaga/internal/postgres"
	"paysaga/saga"
)

// Requests pass while maintenance is in the middle of something. Each piece is held there by a transaction that ends only after the
// requests have: if they waited for it, they would wait for ever.
func TestRequestsPassMaintenance(t *testing.T) {
	t.Parallel()
	for name, hold := range map[string]func(b *bundle) (release func()){
		"a batch of deleted keys":         deletedKeys,
		"a partition being attached":      attachedPartition,
		"a partition being detached":      detachedPartition,
		"a partition being made and gone": droppedTable,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := newBundle(t)
			b.putStock("cup", 100)
			g := b.guarded(policyOf(idempotency.ExpiredNew))
			if _, err := g.order("before"); err != nil {
				t.Fatal(err)
			}
			b.plantExpired(10)
			b.exec(`SELECT paysaga_make_answers($1)`, b.day(-14))
			release := hold(b)
			defer release()
			g.requestsPass()
		})
	}
}

// requestsPass sends each sort of request.
func (g guarded) requestsPass() {
	g.t.Helper()
	if first, err := g.order("beside"); err != nil || first.Replayed { // claims a key, and answers
		g.t.Errorf("a new key: %v", err)
	}
	for _, name := range []string{"before", "beside"} {
		if again, err := g.order(name); err != nil || !again.Replayed {
			g.t.Errorf("a repeat: %v", err)
		}
	}
	held := g.holding("ordinary")
	if err := g.store.AnswerKey(g.ctx, held, saga.Answer{Status: 200, Headers: map[string]string{}, Body: []byte("done")}); err != nil {
		g.t.Errorf("an answer: %v", err)
	}
	planted := saga.Claim{AccountID: account, Endpoint: "POST /v1/orders", Key: "planted-0000000001"}
	if record, used := g.lookup(planted); !used || !record.Expired { // also while it is being deleted
		g.t.Errorf("an expired key: %+v", record)
	}
}

func (b *bundle) hold(statement string, arguments ...any) (release func()) {
	b.t.Helper()
	transaction, err := b.pool.Begin(b.ctx)
	if err != nil {
		b.t.Fatal(err)
	}
	if _, err := transaction.Exec(b.ctx, statement, arguments...); err != nil {
		b.t.Fatal(err)
	}
	return func() { _ = transaction.Rollback(b.ctx) }
}

func deletedKeys(b *bundle) func() {
	release := b.hold(postgres.DeleteExpired, b.day(-1), 1000)
	if free := b.count(`SELECT count(*) FROM (SELECT FROM idempotency_keys WHERE key LIKE 'planted%' FOR UPDATE SKIP LOCKED) AS free`); free != 0 {
		b.t.Errorf("%d of the expired keys are not being deleted", free)
	}
	return release
}

func attachedPartition(b *bundle) func() {
	return b.hold(`SELECT paysaga_make_answers($1)`, b.day(400))
}

func droppedTable(b *bundle) func() {
	name := pgx.Identifier{b.over().Name}.Sanitize()
	b.exec(`ALTER TABLE idempotency_answers DETACH PARTITION ` + name + ` CONCURRENTLY`)
	return b.hold(`DROP TABLE ` + name)
}

// detachedPartition waits for a reader, as it must, until that ends.
func detachedPartition(b *bundle) func() {
	b.t.Helper()
	name := pgx.Identifier{b.over().Name}.Sanitize()
	letGo := b.hold(`SELECT count(*) FROM idempotency_answers`)
	ended := make(chan error, 1)
	go func() {
		_, err := b.pool.Exec(b.ctx, `ALTER TABLE idempotency_answers DETACH PARTITION `+name+` CONCURRENTLY`)
		ended <- err
	}()
	for b.count(`SELECT count(*) FROM pg_inherits WHERE inhdetachpending`) == 0 {
		select {
		case err := <-ended:
			b.t.Fatalf("the partition was detached at once: %v", err)
		default:
		}
	}
	return func() {
		select {
		case err := <-ended:
			b.t.Errorf("the partition was detached before its reader ended: %v", err)
		default:
		}
		letGo()
		if err := <-ended; err != nil {
			b.t.Errorf("detach: %v", err)
		}
	}
}
