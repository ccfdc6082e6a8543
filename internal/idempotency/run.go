package idempotency

import (
	"context"
	"errors"
	"fmt"
	"time"

	"paysaga/saga"
)

// Run is Do for work that is any function. The guard claims the key in a transaction of its own, keeps the lease while the
// function runs, and stores its answer if the lease still holds then: so a function whose process was stopped for longer than that
// neither answers nor, where its own write asks for the held key, writes. A caller that goes away does not stop it.
//
// A function whose process dies, or that panics, is carried out again by the next repeat. One that must not be stores its answer in the
// transaction of its write, and says so in Held.Answered: then there is no moment at which it is done and not answered.
//
// keep tells which answers are stored for the key's window; the others make the key unused again. A 5xx is never stored, and leaves the
// request to its next repeat.
func (g *Guard) Run(
	ctx context.Context, call Call, keep func(status int) bool, do func(context.Context, *Held) saga.Answer,
) (Result, error) {
	return g.Do(ctx, call, Work{
		Begin: func(ctx context.Context, claim saga.Claim) (saga.Answer, error) {
			held, err := g.Store.ClaimKey(ctx, claim, g.Lease)
			if err != nil {
				return saga.Answer{}, fmt.Errorf("claim key: %w", err)
			}
			return g.hold(ctx, held, keep, g.Store.ForgetKey, do)
		},
		Resume: func(ctx context.Context, held Held, _ Record) (saga.Answer, error) {
			held, err := g.Store.TakeKey(ctx, held, g.Lease)
			if err != nil {
				return saga.Answer{}, fmt.Errorf("take key over: %w", err)
			}
			// The earlier holder may have done something: what it began is not forgotten.
			return g.hold(ctx, held, keep, g.Store.ReleaseKey, do)
		},
	})
}

// hold carries a function out under a key's lease. An answer that is not kept leaves the key as leave does.
func (g *Guard) hold(
	ctx context.Context, held Held, keep func(int) bool, leave func(context.Context, Held) error,
	do func(context.Context, *Held) saga.Answer,
) (saga.Answer, error) {
	ctx = context.WithoutCancel(ctx)
	returned := false
	defer func() {
		if returned || held.Answered {
			return
		}
		if err := g.Store.ReleaseKey(ctx, held); err != nil {
			g.Logger.WarnContext(ctx, "lease of a key not released", "endpoint", held.Endpoint, "error", err)
		}
	}()
	answer := g.renewing(ctx, &held, do)
	returned = true
	var err error
	switch {
	case held.Answered:
	case answer.Status >= 500: // nothing final, whatever keep says
		err = g.Store.ReleaseKey(ctx, held)
	case keep(answer.Status):
		err = g.Store.AnswerKey(ctx, held, answer)
	default:
		err = leave(ctx, held)
	}
	if err != nil {
		return saga.Answer{}, fmt.Errorf("end the lease of a key: %w", err)
	}
	return answer, nil
}

// renewsPerLease is how often a lease is renewed before it would end: so one renewal may be lost, and a slow one may be late.
const renewsPerLease = 3

// renewing prolongs the lease while a function runs, and ends the function's context when the lease is lost.
func (g *Guard) renewing(ctx context.Context, held *Held, do func(context.Context, *Held) saga.Answer) saga.Answer {
	ctx, cancel := context.WithCancelCause(ctx)
	ended := make(chan struct{})
	lease := *held // what the function writes into its own is not read here
	go func() {
		defer close(ended)
		tick := time.NewTicker(g.Lease / renewsPerLease)
		defer tick.Stop()
		for {
			select {
			case <-ctx.Done():
				return
			case <-tick.C:
			}
			// Once sent it is waited for: else it could come after the lease is handed back.
			switch err := g.Store.RenewKey(context.WithoutCancel(ctx), lease, g.Lease); {
			case errors.Is(err, saga.ErrLeaseLost):
				cancel(err)
				return
			case err != nil && ctx.Err() == nil:
				g.Logger.WarnContext(ctx, "lease of a key not renewed", "endpoint", lease.Endpoint, "error", err)
			}
		}
	}()
	defer func() {
		cancel(context.Canceled)
		<-ended
	}()
	return do(ctx, held)
}
