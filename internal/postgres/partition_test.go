package postgres_test

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"paysaga/internal/idempotency"
	"paysaga/internal/upkeep"
	"paysaga/saga"
)

func (b *bundle) partitions() upkeep.Partitions {
	b.t.Helper()
	all, err := b.store.ListPartitions(b.ctx)
	if err != nil {
		b.t.Fatal(err)
	}
	return all
}

// over is the one partition whose week is over.
func (b *bundle) over() upkeep.Partition {
	b.t.Helper()
	over := b.partitions().Over()
	if len(over) != 1 {
		b.t.Fatalf("%d partitions are over", len(over))
	}
	return over[0]
}

func (b *bundle) replays(claim saga.Claim) {
	b.t.Helper()
	if record, _ := b.lookup(claim); record.Expired || string(record.Answer.Body) != answerText {
		b.t.Errorf("%s %s is not replayed: %+v", claim.Endpoint, claim.Key, record)
	}
}

// Partitions are there for every answer of the keys that begin in the next fortnight.
func TestUpkeepMakesPartitionsAhead(t *testing.T) {
	t.Parallel()
	b := newBundle(t)
	for _, p := range b.partitions().List {
		b.exec(`DROP TABLE ` + pgx.Identifier{p.Name}.Sanitize())
	}
	if ahead := b.partitions().DaysAhead(); ahead != 0 {
		t.Errorf("%d days ahead without partitions", ahead)
	}
	report := b.upkeep(false)
	if report.Made < 7 || report.Made > 8 || report.DaysAhead < 44 {
		t.Errorf("%d made, %d days ahead", report.Made, report.DaysAhead)
	}
	all := b.partitions()
	for i, p := range all.List {
		if p.Attachment != upkeep.Attached || p.To.Sub(p.From) != 7*24*time.Hour || i > 0 && !p.From.Equal(all.List[i-1].To) {
			t.Errorf("partition %+v", p)
		}
	}
	if again := b.upkeep(false); again.Made != 0 {
		t.Errorf("%d made again", again.Made)
	}
	b.confirmed("order")
	b.replays(claimOf("order"))
}

// A missing one is made by whoever needs it first.
func TestAnswerMakesItsPartition(t *testing.T) {
	t.Parallel()
	b := newBundle(t)
	for _, p := range b.partitions().List {
		b.exec(`DROP TABLE ` + pgx.Identifier{p.Name}.Sanitize())
	}
	b.confirmed("order")
	b.replays(claimOf("order"))
}

// The partition goes when its week is over, with the answers that nobody may ask for any more. Others have moved before.
func TestUpkeepDropsPartitions(t *testing.T) {
	t.Parallel()
	for name, keepExpired := range map[string]bool{"expired keys begin anew": false, "expired keys are rejected": true} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := newBundle(t)
			b.putStock("cup", 100)
			b.confirmed("ended")
			b.open("open")
			b.confirmed("longer") // its window was made longer by hand
			for _, key := range []string{"ended", "open", "longer"} {
				b.expire(claimOf(key).Key, 14)
			}
			b.exec(`UPDATE idempotency_keys SET expires_at = now() + interval '1 day' WHERE key = $1`, claimOf("longer").Key)
			b.confirmed("later")
			b.expire(claimOf("later").Key, 0) // in the week that is not over
			gone := b.over()
			report := b.upkeep(keepExpired)
			if report.Kept != 2 || !slices.Equal(report.Dropped, []string{gone.Name}) || len(report.Refused) != 0 {
				t.Errorf("report %+v", report)
			}
			if len(b.partitions().Over()) != 0 || b.count(`SELECT count(*) FROM pg_class WHERE relname = $1`, gone.Name) != 0 {
				t.Error("the partition is still there")
			}
			b.replays(claimOf("open"))
			b.replays(claimOf("longer"))
			if record, used := b.lookup(claimOf("ended")); used != keepExpired || used && !record.Expired {
				t.Errorf("used %t, record %+v", used, record)
			}
			if b.keyIsThere(claimOf("later").Key) != keepExpired {
				t.Error("the key of the running week")
			}
		})
	}
}

// Whoever still works may write its answer there.
func TestPartitionStaysForAnAnswerToCome(t *testing.T) {
	t.Parallel()
	b := newBundle(t)
	s := b.begin("late")
	b.expire(claimOf("late").Key, 14)
	b.lapse(s)
	report := b.upkeep(false)
	if len(report.Dropped) != 0 || len(report.Refused) != 1 || !strings.Contains(report.Refused[0].Reason, "1 keys") {
		t.Errorf("report %+v", report)
	}
	b.apply(b.outcome(b.seize(s), saga.CallLookup, succeeded))
	if record, _ := b.lookup(claimOf("late")); record.Status != idempotency.Completed || !record.Expired {
		t.Errorf("record %+v", record)
	}
	if report := b.upkeep(false); len(report.Dropped) != 1 || report.Deleted != 1 {
		t.Errorf("afterwards %+v", report)
	}
}

// The store does not take the worker's word for it.
func TestDropPartitionRefuses(t *testing.T) {
	t.Parallel()
	b := newBundle(t)
	b.open("open")
	b.expire(claimOf("open").Key, 14)
	over := b.over()
	var inUse *upkeep.InUseError
	if err := b.store.DropPartition(b.ctx, over); !errors.As(err, &inUse) || inUse.Keys != 1 {
		t.Errorf("needed: %v", err)
	}
	b.replays(claimOf("open"))
	for _, p := range b.partitions().List { // those whose week is not over are left, whoever asks
		if p.Name != over.Name {
			p.To = over.To
			if err := b.store.DropPartition(b.ctx, p); err != nil {
				t.Errorf("%s: %v", p.Name, err)
			}
		}
	}
	if len(b.partitions().List) < 8 {
		t.Error("a partition is gone")
	}
}

// What a run that died has left in the middle, the next one finishes.
func TestUpkeepFinishesWhatWasInterrupted(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		interrupt  func(b *bundle, name string)
		attachment upkeep.Attachment
	}{
		"between detaching and dropping": {func(b *bundle, name string) {
			b.exec(`ALTER TABLE idempotency_answers DETACH PARTITION ` + name)
		}, upkeep.Detached},
		"while it was detached": {func(b *bundle, name string) { b.detachHalf(name) }, upkeep.Detaching},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := newBundle(t)
			b.confirmed("ended")
			b.expire(claimOf("ended").Key, 14)
			gone := b.over()
			test.interrupt(b, gone.Name)
			if now := b.over(); now.Attachment != test.attachment || !now.From.Equal(gone.From) || !now.To.Equal(gone.To) {
				t.Errorf("it is %+v", now)
			}
			if report := b.upkeep(false); !slices.Equal(report.Dropped, []string{gone.Name}) || len(report.Refused) != 0 {
				t.Errorf("report %+v", report)
			}
			if len(b.partitions().Over()) != 0 {
				t.Error("the partition is still there")
			}
		})
	}
}

// detachHalf begins to detach a partition and is ended in the middle, as a transaction that reads the table does not end.
func (b *bundle) detachHalf(name string) {
	b.t.Helper()
	reader, err := b.pool.Begin(b.ctx)
	if err != nil {
		b.t.Fatal(err)
	}
	defer func() { _ = reader.Rollback(b.ctx) }()
	if _, err := reader.Exec(b.ctx, `SELECT count(*) FROM idempotency_answers`); err != nil {
		b.t.Fatal(err)
	}
	detacher, err := pgx.ConnectConfig(b.ctx, b.pool.Config().ConnConfig)
	if err != nil {
		b.t.Fatal(err)
	}
	defer func() { _ = detacher.Close(b.ctx) }()
	if _, err := detacher.Exec(b.ctx, `SET lock_timeout = '10ms'`); err != nil {
		b.t.Fatal(err)
	}
	if _, err := detacher.Exec(b.ctx, `ALTER TABLE idempotency_answers DETACH PARTITION `+name+` CONCURRENTLY`); err == nil {
		b.t.Fatal("the partition was detached beside a reader")
	}
}

// Somebody who reads for long, as a dump does, puts dropping off; nothing else.
func TestUpkeepDoesNotWaitForLongReaders(t *testing.T) {
	t.Parallel()
	b := newBundle(t)
	b.confirmed("ended")
	b.open("open")
	b.expire(claimOf("ended").Key, 14)
	b.expire(claimOf("open").Key, 14)
	reader, err := b.pool.Begin(b.ctx)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := reader.Exec(b.ctx, `SELECT count(*) FROM idempotency_answers`); err != nil {
		t.Fatal(err)
	}
	report := b.upkeep(false)
	if len(report.Dropped) != 0 || len(report.Refused) != 1 || report.Deleted != 1 || report.Kept != 1 {
		t.Errorf("beside a reader: %+v", report)
	}
	b.replays(claimOf("open"))
	b.confirmed("another")
	b.replays(claimOf("another"))
	if err := reader.Rollback(b.ctx); err != nil {
		t.Fatal(err)
	}
	if report := b.upkeep(false); len(report.Dropped) != 1 {
		t.Errorf("afterwards: %+v", report)
	}
}

// A table that was detached by hand, with answers that are needed, is not dropped; nor is one that only looks like ours.
func TestUpkeepLeavesTablesOfOthers(t *testing.T) {
	t.Parallel()
	b := newBundle(t)
	b.open("open")
	b.expire(claimOf("open").Key, 14)
	over := b.over()
	b.exec(`ALTER TABLE idempotency_answers DETACH PARTITION ` + over.Name)
	b.exec(`CREATE TABLE idempotency_answers_20209999 (); CREATE TABLE idempotency_answers_archive ()`)
	report := b.upkeep(false)
	if len(report.Dropped) != 0 || len(report.Refused) != 1 {
		t.Errorf("report %+v", report)
	}
	b.exec(`ALTER TABLE idempotency_answers ATTACH PARTITION ` + over.Name + ` FOR VALUES FROM ('` +
		over.From.Format(time.DateOnly) + `') TO ('` + over.To.Format(time.DateOnly) + `')`)
	b.replays(claimOf("open"))
	if report := b.upkeep(false); len(report.Dropped) != 1 || report.Kept != 1 {
		t.Errorf("attached again: %+v", report)
	}
	b.replays(claimOf("open"))
	if n := b.count(`SELECT count(*) FROM pg_class WHERE relname IN ('idempotency_answers_20209999', 'idempotency_answers_archive')`); n != 2 {
		t.Errorf("%d of the other tables are left", n)
	}
}

// Of two that need a partition at the same moment one makes it, and the other finds it there.
func TestPartitionIsMadeOnce(t *testing.T) {
	t.Parallel()
	b := newBundle(t)
	const week = `DATE '2031-01-01'`
	tx, err := b.pool.Begin(b.ctx)
	b.must(err)
	made := func(q interface {
		QueryRow(ctx context.Context, sql string, args ...any) pgx.Row
	},
	) (made bool, err error) {
		err = q.QueryRow(b.ctx, `SELECT paysaga_make_answers(`+week+`)`).Scan(&made)
		return made, err
	}
	if first, err := made(tx); err != nil || !first {
		t.Fatalf("first: %t, %v", first, err)
	}
	second := make(chan error, 1)
	go func() {
		again, err := made(b.pool)
		if again {
			err = errors.New("it was made twice")
		}
		second <- err
	}()
	b.waitForLocks(1)
	b.must(tx.Commit(b.ctx))
	if err := <-second; err != nil {
		t.Errorf("second: %v", err)
	}
}

// A partition that somebody detached before its week was over is attached again by whoever needs it.
func TestDetachedPartitionIsAttachedAgain(t *testing.T) {
	t.Parallel()
	b := newBundle(t)
	s := b.apply(b.outcome(b.begin("before"), saga.CallCharge, succeeded))
	var partition string
	b.must(b.pool.QueryRow(b.ctx, `SELECT tableoid::regclass::text FROM idempotency_answers`).Scan(&partition))
	b.exec(`ALTER TABLE idempotency_answers DETACH PARTITION ` + partition)
	b.apply(b.outcome(b.begin("after"), saga.CallCharge, succeeded))
	for _, name := range []string{"before", "after"} {
		b.replays(claimOf(name))
	}
	if s.State != saga.Completed {
		t.Errorf("it is %s", s.State)
	}
}
