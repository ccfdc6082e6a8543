package simulation

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"time"

	"paysaga/internal/idempotency"
	"paysaga/saga"
	"paysaga/saga/simulation/bank"
)

// deciding is where decisions go. It is no endpoint of the shop's.
const deciding = "POST /v1/sagas/{id}/decisions"

// decision is a person's word about a saga.
type decision struct {
	ref   saga.Ref
	words saga.Decision
	key   string
	tries int
}

// operator has somebody look at the sagas, as they do now and then: one in review is decided by what the provider's own pages tell, and
// one that moves by itself is given a push.
func (w *world) operator(push saga.Resolution) {
	for i, row := range w.memory.inOrder {
		s := w.memory.read(row, time.Now())
		words := saga.Decision{Resolution: push}
		if s.State == saga.NeedsReview {
			words = w.judge(s)
		}
		if words.Resolution == "" {
			continue
		}
		words.Actor, words.Reason = secret+"operator", secret+"reason"
		w.decisions++
		d := &decision{ref: saga.Ref{AccountID: s.AccountID, Key: s.Key}, words: words, key: fmt.Sprintf("%sdecision-%04d-on-%d", secret, w.decisions, i)}
		w.decideBy(d)
	}
}

// judge decides by what the provider's own pages show, which is the truth.
func (w *world) judge(s saga.Saga) saga.Decision {
	if s.Kind == saga.KindRefund {
		if w.check.givenBack(s) > 0 {
			return saga.Decision{Resolution: saga.ResolveGiven}
		}
		return saga.Decision{Resolution: saga.ResolveNotGiven}
	}
	sum := w.check.ledger(s)
	confirmed := s.Newest(saga.StepConfirm)
	switch {
	case confirmed != nil && confirmed.Status == saga.StepDone:
		return saga.Decision{Resolution: saga.ResolveAsItIs}
	case w.undoneByHand(s):
		return saga.Decision{Resolution: saga.ResolveNothingKept}
	case w.lives(s) && sum.onHold == 0 && len(sum.kept) == 1:
		for payment, amount := range sum.kept {
			return saga.Decision{Resolution: saga.ResolveTaken, Payment: payment, Amount: amount}
		}
	case w.lives(s):
		return saga.Decision{Resolution: saga.ResolveRetry}
	}
	return saga.Decision{Resolution: saga.ResolveNothingKept}
}

// undoneByHand undoes a payment of which the bank took, or holds, less than was asked for. It tells whether there was one.
func (w *world) undoneByHand(s saga.Saga) (undone bool) {
	for _, kind := range bank.Kinds() {
		for _, p := range w.banks[kind].Payments() {
			if w.check.isOf(p.Key, s.Key) && p.Money != s.Order.Money() && w.banks[kind].Live(p) {
				w.banks[kind].Undo(p)
				undone = true
			}
		}
	}
	return undone
}

// lives tells that an order has a payment that holds or keeps money, or can come to.
func (w *world) lives(s saga.Saga) bool {
	for _, kind := range bank.Kinds() {
		for _, p := range w.banks[kind].Payments() {
			if w.check.isOf(p.Key, s.Key) && w.banks[kind].Live(p) {
				return true
			}
		}
	}
	return false
}

// decideBy has a server carry a decision out, as its handler does.
func (w *world) decideBy(d *decision) {
	d.tries++
	s := w.servers[int(w.unit("desk", d.key)*float64(len(w.servers)))]
	name := fmt.Sprintf("%s decision %s try %d", s.name(), d.key, d.tries)
	w.say(fmt.Sprintf("%s: %s about %s", name, d.words.Resolution, d.ref.Key))
	w.launch(result{name: name, decision: d}, time.Minute, func(ctx context.Context, r *result) {
		var key idempotency.Key
		if key, r.err = s.guard.ReadKey([]string{d.key}); r.err != nil {
			return
		}
		call := idempotency.Call{
			AccountID: shop, Endpoint: deciding, Key: key, Fingerprint: sha256.Sum256([]byte(d.key + string(d.words.Resolution) + d.words.Payment)),
		}
		r.result, r.err = s.guard.Do(ctx, call, idempotency.Work{
			Begin: func(ctx context.Context, claim saga.Claim) (saga.Answer, error) {
				return s.runner.Decide(ctx, claim, d.ref, d.words)
			},
			Resume: func(ctx context.Context, held idempotency.Held, record idempotency.Record) (saga.Answer, error) {
				return s.runner.TakeOver(ctx, saga.Ref{AccountID: held.AccountID, Key: record.SagaKey}, record.Fence)
			},
		})
	})
}

// mostDecisions is how often a decision is repeated that nobody could take.
const mostDecisions = 12

func (w *world) decided(r result) {
	d := r.decision
	refusal, refused := errors.AsType[*saga.RefusedError](r.err)
	_, waits := errors.AsType[*idempotency.InProgressError](r.err)
	end := "taken"
	switch {
	case waits:
		end = "in progress"
	case refused:
		end = "refused: " + string(refusal.Reason)
	case r.err != nil:
		end = "error"
		w.check.plain(r.name, r.err)
	}
	w.say(r.name + ": " + end)
	w.seen.add("decision", string(d.words.Resolution)+" "+end)
	if r.err != nil && !refused && d.tries < mostDecisions {
		w.after(w.spread(time.Second, time.Minute, "decide", r.name), "", func() { w.decideBy(d) })
	}
}
