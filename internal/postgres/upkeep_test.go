package postgres_test

import (
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/jackc/pgx/v5"

	"paysaga/internal/idempotency"
	"paysaga/internal/upkeep"
	"paysaga/providers"
	"paysaga/saga"
)

// holding is a request that begins no saga and holds its key.
func (b *bundle) holding(name string) idempotency.Held {
	b.t.Helper()
	claim := requestClaim(name)
	held, err := b.store.ClaimKey(b.ctx, claim, lease)
	if err != nil {
		b.t.Fatalf("claim key: %v", err)
	}
	return held
}

// open is an order that is answered, and whose fate is not known yet.
func (b *bundle) open(name string) {
	b.t.Helper()
	b.apply(b.outcome(b.begin(name), saga.CallCharge, providers.Outcome{Kind: providers.Processing, Reference: "pay_1"}))
}

// expire ends a key's window that many days ago.
func (b *bundle) expire(key string, days int) {
	b.t.Helper()
	day := b.day(-days)
	b.exec(`SELECT paysaga_make_answers($1)`, day)
	b.exec(`WITH taken AS (
			DELETE FROM idempotency_answers a USING idempotency_keys k
			WHERE k.key = $1 AND a.account_id = k.account_id AND a.expires_on = k.answer_on AND a.id = k.answer_id RETURNING a.*
		), kept AS (INSERT INTO idempotency_answers SELECT account_id, $2::date, id, headers, body, digest FROM taken)
		UPDATE idempotency_keys SET expires_at = LEAST(now(), $2::date + time '12:00' AT TIME ZONE 'UTC'),
			answer_on = CASE WHEN answer_on IS NOT NULL THEN $2::date END WHERE key = $1`, key, day)
}

// day is a day of the database.
func (b *bundle) day(fromNow int) (day time.Time) {
	b.t.Helper()
	if err := b.pool.QueryRow(b.ctx, `SELECT (now() AT TIME ZONE 'UTC')::date + $1::int`, fromNow).Scan(&day); err != nil {
		b.t.Fatal(err)
	}
	return day
}

func (b *bundle) keyIsThere(key string) bool {
	return b.count(`SELECT count(*) FROM idempotency_keys WHERE key = $1`, key) == 1
}

// worker does upkeep for a house whose keys keep their answers for thirty days.
func (b *bundle) worker(keepExpired bool) *upkeep.Worker {
	b.t.Helper()
	worker, err := upkeep.New(upkeep.Config{
		Store: b.store, Interval: time.Hour, Retention: 30 * 24 * time.Hour, KeepExpired: keepExpired, Logger: b.log.Logger(),
	})
	if err != nil {
		b.t.Fatal(err)
	}
	return worker
}

func (b *bundle) upkeep(keepExpired bool) upkeep.Report {
	b.t.Helper()
	report, err := b.worker(keepExpired).Once(b.ctx, func(upkeep.Report) {})
	if err != nil {
		b.t.Fatalf("upkeep: %v", err)
	}
	return report
}

// What is deleted, and what never is.
func TestUpkeepDeletesKeys(t *testing.T) {
	t.Parallel()
	leaseOver := func(b *bundle, key string) {
		b.exec(`UPDATE idempotency_keys SET locked_until = now() - interval '1 hour' WHERE key = $1`, key)
	}
	for name, test := range map[string]struct {
		make    func(b *bundle) (key string)
		deleted bool
	}{
		"answered, past its window": {func(b *bundle) string {
			b.confirmed("k")
			b.expire(claimOf("k").Key, 0)
			return claimOf("k").Key
		}, true},
		"answered, in its window": {func(b *bundle) string {
			b.confirmed("k")
			return claimOf("k").Key
		}, false},
		"answered, past its window, the order open": {func(b *bundle) string {
			b.open("k")
			b.expire(claimOf("k").Key, 0)
			return claimOf("k").Key
		}, false},
		"an order nobody drives": {func(b *bundle) string {
			b.lapse(b.begin("k"))
			b.expire(claimOf("k").Key, 0)
			return claimOf("k").Key
		}, false},
		"a request that was left": {func(b *bundle) string {
			key := b.holding("k").Key
			leaseOver(b, key)
			b.expire(key, 0)
			return key
		}, true},
		"a request that was left, in its window": {func(b *bundle) string {
			key := b.holding("k").Key
			leaseOver(b, key)
			return key
		}, false},
		"a request at work": {func(b *bundle) string {
			key := b.holding("k").Key
			b.expire(key, 0)
			return key
		}, false},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := newBundle(t)
			key := test.make(b)
			worker := b.worker(false)
			plan, err := worker.Plan(b.ctx)
			if err != nil || (plan.Expired == 1) != test.deleted {
				t.Errorf("planned to delete %d, %v", plan.Expired, err)
			}
			if b.upkeep(true).Deleted != 0 || !b.keyIsThere(key) {
				t.Error("a key was deleted where expired ones are to stay")
			}
			if deleted := b.upkeep(false).Deleted; (deleted == 1) != test.deleted || b.keyIsThere(key) == test.deleted {
				t.Errorf("%d deleted", deleted)
			}
		})
	}
}

// plantExpired adds rows of keys that expired, without sagas.
func (b *bundle) plantExpired(keys int) {
	b.t.Helper()
	b.exec(`INSERT INTO idempotency_keys (account_id, endpoint, key, fingerprint, status, response_status, answer_on, answer_id, completed_at, expires_at)
		SELECT 'shop1', 'POST /v1/orders', 'planted-' || lpad(i::text, 10, '0'), decode(repeat('00', 32), 'hex'), 'COMPLETED', 201, now(), i, now(),
			now() - i * interval '1 second' FROM generate_series(1, $1::int) AS i`, keys)
}

func TestUpkeepDeletesInBatches(t *testing.T) {
	t.Parallel()
	const keys, batch = 2500, 1000
	b := newBundle(t)
	b.plantExpired(keys)
	var steps []int
	report, err := b.worker(false).Once(b.ctx, func(r upkeep.Report) {
		if len(steps) == 0 || steps[len(steps)-1] != r.Deleted {
			steps = append(steps, r.Deleted)
		}
	})
	if err != nil || report.MoreKeys {
		t.Errorf("more %t, %v", report.MoreKeys, err)
	}
	if diff := cmp.Diff([]int{batch, 2 * batch, keys}, steps); diff != "" {
		t.Errorf("deleted in all after each batch (-want +got):\n%s", diff)
	}
	if left := b.count(`SELECT count(*) FROM idempotency_keys`); left != 0 {
		t.Errorf("%d keys are left", left)
	}
}

// A key that a request has locked at this moment is left alone, and waits for nobody.
func TestUpkeepSkipsLockedKeys(t *testing.T) {
	t.Parallel()
	b := newBundle(t)
	b.plantExpired(3)
	other, err := b.pool.Begin(b.ctx)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = other.Rollback(b.ctx) }()
	if _, err := other.Exec(b.ctx, `SELECT FROM idempotency_keys WHERE key = 'planted-0000000002' FOR UPDATE`); err != nil {
		t.Fatal(err)
	}
	if deleted := b.upkeep(false).Deleted; deleted != 2 || !b.keyIsThere("planted-0000000002") {
		t.Errorf("%d were deleted", deleted)
	}
}

// Only one works at a time, and a process that died in the middle keeps nobody out.
func TestUpkeepIsDoneByOne(t *testing.T) {
	t.Parallel()
	b := newBundle(t)
	b.plantExpired(1)
	b.expire("planted-0000000001", 14)
	die := b.otherUpkeep()
	if report := b.upkeep(false); !report.Busy || report.Deleted != 0 || report.DaysAhead == 0 {
		t.Errorf("beside another: %+v", report)
	}
	partitions, err := b.store.ListPartitions(b.ctx)
	if err != nil || len(partitions.Over()) != 1 {
		t.Fatalf("%+v, %v", partitions, err)
	}
	if err := b.store.DropPartition(b.ctx, partitions.Over()[0]); !errors.Is(err, upkeep.ErrBusy) {
		t.Errorf("drop: %v, want ErrBusy", err)
	}
	die()
	if report := b.upkeep(false); report.Busy || report.Deleted != 1 || len(report.Dropped) != 1 {
		t.Errorf("after it: %+v", report)
	}
}

// otherUpkeep is another process in the middle of its upkeep.
func (b *bundle) otherUpkeep() (die func()) {
	b.t.Helper()
	other, err := pgx.ConnectConfig(b.ctx, b.pool.Config().ConnConfig)
	if err != nil {
		b.t.Fatal(err)
	}
	if _, err := other.Exec(b.ctx, `SELECT pg_advisory_lock(hashtext('paysaga_upkeep'))`); err != nil {
		b.t.Fatal(err)
	}
	return func() {
		_ = other.Close(b.ctx)
		const held = `SELECT count(*) FROM pg_locks l JOIN pg_database d ON d.oid = l.database
			WHERE l.locktype = 'advisory' AND d.datname = current_database()`
		for b.count(held) > 0 { // until its server process has seen it
			continue
		}
	}
}

func TestUpkeepDeletesPastLimits(t *testing.T) {
	t.Parallel()
	b := newBundle(t)
	b.exec(`INSERT INTO key_limits VALUES ('long-ago', now() - interval '2 hours'), ('now', now() + interval '1 second')`)
	if report := b.upkeep(false); report.Limits != 1 || b.count(`SELECT count(*) FROM key_limits WHERE account_id = 'now'`) != 1 {
		t.Errorf("%+v", report)
	}
}

func TestUpkeepFigures(t *testing.T) {
	t.Parallel()
	b := newBundle(t)
	b.putStock("cup", 100)
	for i := range 3 {
		b.confirmed(fmt.Sprint("done-", i))
	}
	b.open("open")
	b.begin("late")
	b.exec(`UPDATE idempotency_keys SET locked_until = now() - interval '6 minutes' WHERE status = 'PROCESSING'`)
	b.exec(`UPDATE idempotency_keys SET locked_until = now() - interval '4 minutes' WHERE key = $1`, b.holding("soon").Key)
	b.event(b.held("odd"), saga.Event{Kind: saga.Abandoned})
	b.exec(`ANALYZE idempotency_keys, idempotency_answers`)
	figures, err := b.store.ReadFigures(b.ctx)
	if err != nil {
		t.Fatal(err)
	}
	want := upkeep.Figures{
		Rows: map[string]int64{"idempotency_keys": 7, "idempotency_answers": 5, "key_limits": 0}, Overdue: 1,
		OpenSagas: map[string]int64{"charging": 1, "awaiting": 1, "compensating": 0, "refunding": 0, "needs_review": 1},
	}
	if diff := cmp.Diff(want, figures); diff != "" {
		t.Errorf("figures (-want +got):\n%s", diff)
	}
}
