package saga

import (
	"context"
	"errors"
	"time"

	"github.com/sony/gobreaker/v2"

	"paysaga/providers"
)

// Limits of the circuit breaker of one provider in one process.
const (
	breakerWindow = 10 * time.Second // over which failures are counted
	breakerCalls  = 20               // fewer calls than this say nothing about a provider
	breakerShare  = 0.8              // of failed calls; a provider that still answers one call in five is worth asking
	breakerPause  = 5 * time.Second  // without calls, before a single one tries again
)

var errNoAnswer = errors.New("no answer")

// breaker stops calling a provider that does not answer, so that orders are turned away at once instead of waiting for
// a time-out each.
type breaker struct {
	Provider

	circuit *gobreaker.TwoStepCircuitBreaker[providers.Outcome]
}

// WithBreaker puts a circuit breaker before a provider. A call that it holds back has the outcome Busy: nothing was sent.
func WithBreaker(p Provider) Provider {
	return &breaker{Provider: p, circuit: gobreaker.NewTwoStepCircuitBreaker[providers.Outcome](gobreaker.Settings{
		Interval: breakerWindow, Timeout: breakerPause,
		ReadyToTrip: func(c gobreaker.Counts) bool {
			return c.Requests >= breakerCalls && float64(c.TotalFailures) >= breakerShare*float64(c.Requests)
		},
	})}
}

// Open reports whether calls are held back at this moment.
func (b *breaker) Open() bool { return b.circuit.State() == gobreaker.StateOpen }

func (b *breaker) Charge(ctx context.Context, r providers.ChargeRequest) providers.Outcome {
	return b.call(ctx, func() providers.Outcome { return b.Provider.Charge(ctx, r) })
}

func (b *breaker) Continue(ctx context.Context, r providers.ContinueRequest) providers.Outcome {
	return b.call(ctx, func() providers.Outcome { return b.Provider.Continue(ctx, r) })
}

func (b *breaker) Capture(ctx context.Context, r providers.CaptureRequest) providers.Outcome {
	return b.call(ctx, func() providers.Outcome { return b.Provider.Capture(ctx, r) })
}

func (b *breaker) Lookup(ctx context.Context, r providers.LookupRequest) providers.Outcome {
	return b.call(ctx, func() providers.Outcome { return b.Provider.Lookup(ctx, r) })
}

func (b *breaker) Void(ctx context.Context, r providers.VoidRequest) providers.Outcome {
	return b.call(ctx, func() providers.Outcome { return b.Provider.Void(ctx, r) })
}

func (b *breaker) Refund(ctx context.Context, r providers.RefundRequest) providers.Outcome {
	return b.call(ctx, func() providers.Outcome { return b.Provider.Refund(ctx, r) })
}

func (b *breaker) LookupRefund(ctx context.Context, r providers.RefundLookupRequest) providers.Outcome {
	return b.call(ctx, func() providers.Outcome { return b.Provider.LookupRefund(ctx, r) })
}

func (b *breaker) call(ctx context.Context, send func() providers.Outcome) providers.Outcome {
	done, err := b.circuit.Allow()
	if err != nil {
		return providers.Outcome{Kind: providers.Busy, Code: providers.CodeNotSent, RetryAfter: breakerPause}
	}
	outcome := providers.Outcome{Kind: providers.Unknown} // also what a panic counts as
	defer func() {
		silent := outcome.Kind == providers.Unknown || outcome.Code == providers.CodeUnreachable
		if silent && !errors.Is(ctx.Err(), context.Canceled) { // a call that we cut off says nothing about the provider
			done(errNoAnswer)
			return
		}
		done(nil)
	}()
	outcome = send()
	return outcome
}
