package postgres_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"strings"
	"sync"
	"testing"
	"time"

	"paysaga/internal/idempotency"
	"paysaga/internal/upkeep"
	"paysaga/saga"
)

// storm is many clients that use few keys, beside upkeep at full speed.
type storm struct {
	guarded

	mu      sync.Mutex
	won     map[string]int // by the key and its generation: how many requests began it
	answers map[string]string
}

const (
	stormClients = 8
	stormCalls   = 60 // of each client
	stormKeys    = 6  // of each sort
)

// One key has at most one request that begins each generation, and every repeat in its window gets that one's answer, byte for byte, while
// keys expire and are deleted, and partitions are made, detached and dropped.
func TestUniquenessBesideUpkeep(t *testing.T) {
	t.Parallel()
	b := newBundle(t)
	b.putStock("cup", 1_000_000)
	s := &storm{guarded: b.guarded(policyOf(idempotency.ExpiredNew)), won: map[string]int{}, answers: map[string]string{}}
	brief := b.guarded(policyOf(idempotency.ExpiredNew))
	brief.guard.Policy.Retention = 30 * time.Millisecond
	for i := range stormKeys {
		b.open(fmt.Sprint("open-", i)) // its window ends, and it must be answered all the same
		b.expire(claimOf(fmt.Sprint("open-", i)).Key, 14)
		b.lapse(b.begin(fmt.Sprint("left-", i))) // nobody drives it
		b.expire(claimOf(fmt.Sprint("left-", i)).Key, 0)
	}
	var clients sync.WaitGroup
	for client := range stormClients {
		clients.Go(func() {
			random := rand.New(rand.NewPCG(1, uint64(client)))
			for range stormCalls {
				i := random.IntN(stormKeys)
				s.request(s.guarded, fmt.Sprint("long-", i))
				s.request(brief, fmt.Sprint("brief-", i))
				b.replays(claimOf(fmt.Sprint("open-", i)))
			}
		})
	}
	over := make(chan struct{})
	go func() { clients.Wait(); close(over) }()
	deleted, kept, dropped := s.maintain(over)
	if deleted == 0 || kept < stormKeys || dropped == 0 {
		t.Errorf("upkeep had nothing to do: %d deleted, %d kept, %d partitions dropped", deleted, kept, dropped)
	}
	s.check()
}

// request is one with a key; its answer names its order, and so the key's generation.
func (s *storm) request(g guarded, name string) {
	begun := ""
	result, err := g.do(claimOf(name), saga.CallCharge, func(ctx context.Context, claim saga.Claim) (saga.Saga, error) {
		written, err := s.store.Begin(ctx, claim, s.beginning(claim, cups(1)), lease)
		if err == nil {
			begun = fmt.Sprintf("%s generation %d", name, claim.Generation)
		}
		return written, err
	})
	if _, waits := errors.AsType[*idempotency.InProgressError](err); waits {
		return
	}
	if err != nil {
		s.t.Errorf("%s: %v", name, err)
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if begun != "" {
		s.won[begun]++
	}
	if strings.HasPrefix(name, "long-") {
		if first, seen := s.answers[name]; seen && first != string(result.Answer.Body) {
			s.t.Errorf("%s was answered %q, and then %q", name, first, result.Answer.Body)
		}
		s.answers[name] = string(result.Answer.Body)
	}
}

// maintain does upkeep again and again, until the clients are done. Before each turn a fortnight goes by for the keys that have
// expired, so that a partition is over each time.
func (s *storm) maintain(over <-chan struct{}) (deleted, kept, dropped int) {
	const leastTurns = 4
	worker := s.worker(false)
	for turn := 0; ; turn++ {
		day := s.day(-14 - 7*(turn%3))
		s.exec(`SELECT paysaga_make_answers($1)`, day)
		s.exec(`WITH old AS (
				SELECT account_id, endpoint, key, answer_on, answer_id FROM idempotency_keys
				WHERE status <> 'PROCESSING' AND expires_at <= now() FOR UPDATE SKIP LOCKED
			), taken AS (
				DELETE FROM idempotency_answers a USING old
				WHERE a.account_id = old.account_id AND a.expires_on = old.answer_on AND a.id = old.answer_id RETURNING a.*
			), put AS (INSERT INTO idempotency_answers SELECT account_id, $1::date, id, headers, body, digest FROM taken)
			UPDATE idempotency_keys k SET answer_on = $1 FROM old
			WHERE k.account_id = old.account_id AND k.endpoint = old.endpoint AND k.key = old.key`, day)
		report, err := worker.Once(s.ctx, func(upkeep.Report) {})
		if err != nil || len(report.Refused) > 0 {
			s.t.Errorf("upkeep: %+v, %v", report.Refused, err)
		}
		deleted, kept, dropped = deleted+report.Deleted, kept+report.Kept, dropped+len(report.Dropped)
		select {
		case <-over:
			if turn >= leastTurns {
				return deleted, kept, dropped
			}
		default:
		}
	}
}

func (s *storm) check() {
	s.t.Helper()
	for begun, times := range s.won {
		if times != 1 {
			s.t.Errorf("%s was begun %d times", begun, times)
		}
	}
	// What is written is what the clients were told of: no generation is left out, none was begun unseen.
	if written, told := s.count(`SELECT count(*) FROM sagas WHERE state = 'completed'`), len(s.won); written != told {
		s.t.Errorf("%d orders are written, %d were begun", written, told)
	}
	for i := range stormKeys {
		name := fmt.Sprint("brief-", i)
		for generation := range s.generations(name) {
			if s.won[fmt.Sprintf("%s generation %d", name, generation+1)] != 1 {
				s.t.Errorf("generation %d of %s was left out", generation+1, name)
			}
		}
		s.replays(claimOf(fmt.Sprint("open-", i)))
		long, _ := s.lookup(claimOf(fmt.Sprint("long-", i)))
		if string(long.Answer.Body) != s.answers[fmt.Sprint("long-", i)] {
			s.t.Errorf("the answer of long-%d is now %q", i, long.Answer.Body)
		}
		if left, used := s.lookup(claimOf(fmt.Sprint("left-", i))); !used || left.Status != idempotency.InProgress {
			s.t.Errorf("the key of an order that nobody drives is gone: %+v", left)
		}
	}
}

// generations counts how often a key was begun.
func (s *storm) generations(name string) (count int) {
	for begun := range s.won {
		if strings.HasPrefix(begun, name+" ") {
			count++
		}
	}
	return count
}
