package saga

import (
	"context"
	"errors"
	"time"

	"paysaga/providers"
)

// patience is how long a drive keeps trying one call before it lets the saga rest.
type patience struct {
	sends  int           // at most so many sends
	within time.Duration // and no further one after this long
	pause  time.Duration // longest pause before the second send; doubled before each further one
}

var (
	// inRequest is for a client that waits: a lost connection is mended at once, a provider that hangs is not waited for
	// twice. The recovery worker goes on afterwards.
	inRequest = patience{sends: 3, within: 5 * time.Second, pause: 200 * time.Millisecond}
	// inRecovery sends once: the pauses between turns are its patience.
	inRecovery = patience{sends: 1}
)

// call makes a provider call, again with the same identifier while it brings nothing and patience lasts.
func (r *Runner) call(ctx context.Context, s Saga, call Call, p patience) Event {
	ctx, stop := r.keepLease(ctx, s)
	defer stop()
	begun, pause := time.Now(), p.pause
	event := Event{Kind: Answered, Call: call}
	for tries := 1; ; tries++ {
		outcome := r.send(ctx, s, call)
		event.Unsure = event.Unsure || event.Outcome.Kind == providers.Unknown
		event.Outcome = outcome
		if outcome.Code != providers.CodeNotSent {
			event.Sends++
		}
		again := (outcome.Kind == providers.Unknown || outcome.Kind == providers.Busy) &&
			!repeatIsUseless(outcome.Code)
		if !again || tries >= p.sends || time.Since(begun) > p.within || outcome.RetryAfter > pause {
			return event
		}
		select {
		case <-time.After(r.Jitter(pause)):
		case <-ctx.Done():
			return event
		}
		pause *= 2
	}
}

// send makes one provider call. Its intent is committed: the step is in the saga as the database has it.
func (r *Runner) send(ctx context.Context, s Saga, call Call) providers.Outcome {
	step := s.stepOfCall(call)
	ctx, cancel := context.WithTimeout(ctx, r.CallTimeout)
	defer cancel()
	begun := time.Now()
	if call == CallStep || call == CallUndo {
		outcome := r.Policy.Steps.callOwn(ctx, &s, *step)
		r.Logger.InfoContext(ctx, "step called", "order_id", s.Order.ID, "step", step.Name, "attempt", step.Attempt, "outcome", outcome.Kind,
			"code", outcome.Code, "duration_ms", time.Since(begun).Milliseconds())
		return outcome
	}
	provider, ok := r.Providers[step.Provider]
	if !ok {
		return unconfigured
	}
	outcome := dispatch(ctx, provider, &s, *step, call)
	r.Logger.InfoContext(ctx, "provider called", "order_id", s.Order.ID, "provider", step.Provider, "call", call,
		"attempt", step.Attempt, "outcome", outcome.Kind, "code", outcome.Code, "duration_ms", time.Since(begun).Milliseconds())
	return outcome
}

func dispatch(ctx context.Context, provider Provider, s *Saga, step Step, call Call) providers.Outcome {
	charge, reference, sagaKey := s.step(StepCharge), s.chargeReference(), s.Order.ID.String()
	switch call {
	case CallCharge:
		return provider.Charge(ctx, s.chargeRequest(step))
	case CallContinue:
		return provider.Continue(ctx, s.continueRequest(step))
	case CallCapture:
		return provider.Capture(ctx, providers.CaptureRequest{
			Key: step.SubKey, SagaKey: sagaKey, Reference: reference, Money: s.moneyOf(step), Final: step.Final,
		})
	case CallVoid:
		return provider.Void(ctx, s.voidRequest(step, provider.Windows()))
	case CallRefund:
		return provider.Refund(ctx, providers.RefundRequest{
			Key: step.SubKey, SagaKey: sagaKey, Reference: reference, Money: s.moneyOf(step),
		})
	case CallCheckRefund:
		return provider.LookupRefund(ctx, providers.RefundLookupRequest{
			Key: step.SubKey, Payment: reference, Reference: step.ProviderReference,
		})
	case CallLookup, CallNone, CallStep, CallUndo:
	}
	return provider.Lookup(ctx, providers.LookupRequest{
		Key: charge.SubKey, SagaKey: sagaKey, Reference: reference, SentAt: charge.StartedAt,
	})
}

// renewalsPerLease renews at a third of the lease, so that one renewal may fail and the next still comes in time.
const renewalsPerLease = 3

// keepLease renews the lease while a call is out. A lease that is lost ends the call: its result could not be written.
func (r *Runner) keepLease(ctx context.Context, s Saga) (context.Context, func()) {
	ctx, cancel := context.WithCancelCause(ctx)
	done := make(chan struct{})
	go func() {
		defer close(done)
		ticker := time.NewTicker(r.Lease / renewalsPerLease)
		defer ticker.Stop()
		for {
			select {
			case <-ctx.Done():
				return
			case <-ticker.C:
			}
			err := r.Store.Renew(ctx, Ref{s.AccountID, s.Key}, s.Lease.Fence, r.Lease)
			if errors.Is(err, ErrLeaseLost) {
				cancel(ErrLeaseLost)
			} else if err != nil && ctx.Err() == nil {
				r.Logger.WarnContext(ctx, "lease not renewed", "order_id", s.Order.ID, "error", err)
			}
		}
	}()
	return ctx, func() { cancel(context.Canceled); <-done }
}
