package saga

import (
	"context"
	"time"
)

// storeTimeout is longer than the database gives a statement, and a new connection, together.
const storeTimeout = 15 * time.Second

// boundedStore gives each call of a store an end: a connection that has gone silent, as its machine has, would else hold its saga's drive,
// and recovery, for as long as the kernel waits. What the call wrote all the same is found by whoever takes the lease next.
type boundedStore struct {
	Store

	within time.Duration
}

func within[T any](ctx context.Context, limit time.Duration, call func(context.Context) (T, error)) (T, error) {
	ctx, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	return call(ctx)
}

func (b boundedStore) Begin(ctx context.Context, claim Claim, change Change, lease time.Duration) (Saga, error) {
	return within(ctx, b.within, func(ctx context.Context) (Saga, error) { return b.Store.Begin(ctx, claim, change, lease) })
}

func (b boundedStore) Apply(ctx context.Context, change Change) (Saga, error) {
	return within(ctx, b.within, func(ctx context.Context) (Saga, error) { return b.Store.Apply(ctx, change) })
}

func (b boundedStore) Ask(ctx context.Context, claim Claim, change Change, lease time.Duration) (Saga, error) {
	return within(ctx, b.within, func(ctx context.Context) (Saga, error) { return b.Store.Ask(ctx, claim, change, lease) })
}

func (b boundedStore) Load(ctx context.Context, ref Ref) (Saga, error) {
	return within(ctx, b.within, func(ctx context.Context) (Saga, error) { return b.Store.Load(ctx, ref) })
}

func (b boundedStore) Refunds(ctx context.Context, order Ref) ([]Saga, error) {
	return within(ctx, b.within, func(ctx context.Context) ([]Saga, error) { return b.Store.Refunds(ctx, order) })
}

func (b boundedStore) Seize(ctx context.Context, ref Ref, fence int64, lease time.Duration) (Saga, error) {
	return within(ctx, b.within, func(ctx context.Context) (Saga, error) { return b.Store.Seize(ctx, ref, fence, lease) })
}

func (b boundedStore) TakeOver(ctx context.Context, ref Ref, fence int64, lease time.Duration) (Saga, error) {
	return within(ctx, b.within, func(ctx context.Context) (Saga, error) { return b.Store.TakeOver(ctx, ref, fence, lease) })
}

func (b boundedStore) ClaimDue(ctx context.Context, limit int, lease time.Duration) ([]Saga, error) {
	return within(ctx, b.within, func(ctx context.Context) ([]Saga, error) { return b.Store.ClaimDue(ctx, limit, lease) })
}

func (b boundedStore) HandBack(ctx context.Context, ref Ref, fence int64) error {
	_, err := within(ctx, b.within, func(ctx context.Context) (struct{}, error) { return struct{}{}, b.Store.HandBack(ctx, ref, fence) })
	return err
}

// renewTimeout is the least that a renewal is given: a busy database takes a second now and then.
const renewTimeout = 3 * time.Second

// Renew leaves time for another try before the lease has run out, where the lease is as long as it should be.
func (b boundedStore) Renew(ctx context.Context, ref Ref, fence int64, lease time.Duration) error {
	_, err := within(ctx, max(lease/renewalsPerLease, renewTimeout), func(ctx context.Context) (struct{}, error) {
		return struct{}{}, b.Store.Renew(ctx, ref, fence, lease)
	})
	return err
}
