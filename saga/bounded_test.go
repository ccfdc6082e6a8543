package saga_test

import (
	"context"
	"errors"
	"log/slog"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/uuid"

	"paysaga/providers"
	"paysaga/saga"
)

// silent is a database whose connection says nothing any more.
type silent struct{ saga.Store }

func hang(ctx context.Context) error {
	<-ctx.Done()
	return context.Cause(ctx)
}

func (silent) Begin(ctx context.Context, _ saga.Claim, _ saga.Change, _ time.Duration) (saga.Saga, error) {
	return saga.Saga{}, hang(ctx)
}

func (silent) Load(ctx context.Context, _ saga.Ref) (saga.Saga, error) { return saga.Saga{}, hang(ctx) }

func (silent) TakeOver(ctx context.Context, _ saga.Ref, _ int64, _ time.Duration) (saga.Saga, error) {
	return saga.Saga{}, hang(ctx)
}

func (silent) ClaimDue(ctx context.Context, _ int, _ time.Duration) ([]saga.Saga, error) {
	return nil, hang(ctx)
}

// A database that goes silent holds nobody for ever: neither a request nor recovery.
func TestSilentDatabase(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		bank := newBank()
		runner, err := saga.NewRunner(saga.Config{
			Store: silent{}, Providers: map[string]saga.Provider{"fake": bank}, Answerer: clerk{}, Logger: slog.New(slog.DiscardHandler),
			Lease: 30 * time.Second, CallTimeout: 20 * time.Second, MaxInFlight: 100, Policy: saga.DefaultPolicy(),
		})
		if err != nil {
			t.Fatal(err)
		}
		ref, claim := saga.Ref{AccountID: "shop1", Key: uuid.New()}, claimOf("silent")
		for name, call := range map[string]func() error{
			"start":     func() error { _, err := runner.Start(t.Context(), claim, cups()); return err },
			"take over": func() error { _, err := runner.TakeOver(t.Context(), ref, 1); return err },
			"refund":    func() error { _, err := runner.Refund(t.Context(), claim, ref, 1, ""); return err },
			"decide":    func() error { _, err := runner.Decide(t.Context(), claim, ref, saga.Decision{}); return err },
			"notify":    func() error { return runner.Notify(t.Context(), ref, providers.Notice{}) },
		} {
			if err := call(); !errors.Is(err, context.DeadlineExceeded) {
				t.Errorf("%s: %v", name, err)
			}
		}
		worker, err := saga.NewRecovery(runner, saga.RecoveryConfig{Interval: time.Second, Concurrency: 1})
		if err != nil {
			t.Fatal(err)
		}
		if claimed := worker.Once(t.Context()); claimed != 0 {
			t.Errorf("claimed %d", claimed)
		}
		if times, _ := bank.called(saga.CallCharge); times != 0 {
			t.Errorf("%d charges", times)
		}
		runner.Drain(t.Context())
	})
}
