package postgres_test

import (
	"context"
	"errors"
	"strings"
	"sync"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"paysaga/internal/postgres"
	"paysaga/internal/seal"
	"paysaga/saga"
)

// standstill is a store whose process stands still between taking a lease and reading what it has taken: meanwhile happens what the test
// says, once.
type standstill struct {
	meanwhile func()
	once      sync.Once
}

// TraceQueryStart sees a statement before it is sent.
func (s *standstill) TraceQueryStart(ctx context.Context, _ *pgx.Conn, data pgx.TraceQueryStartData) context.Context {
	if strings.Contains(data.SQL, "WITH ORDINALITY") { // the reading
		s.once.Do(s.meanwhile)
	}
	return ctx
}

// TraceQueryEnd does nothing.
func (*standstill) TraceQueryEnd(context.Context, *pgx.Conn, pgx.TraceQueryEndData) {}

func (b *bundle) standingStill(meanwhile func()) *postgres.Store {
	b.t.Helper()
	config := b.pool.Config()
	config.ConnConfig.Tracer = &standstill{meanwhile: meanwhile}
	pool, err := pgxpool.NewWithConfig(b.ctx, config)
	if err != nil {
		b.t.Fatal(err)
	}
	b.t.Cleanup(pool.Close)
	ring, err := seal.NewRing(seal.GenerateKey("other"))
	if err != nil {
		b.t.Fatal(err)
	}
	return postgres.New(pool, ring)
}

// A process that stands still for longer than its lease, just after it took it, does not take the next holder's lease for its own (I9).
func TestStandstillAfterTaking(t *testing.T) {
	t.Parallel()
	for name, take := range map[string]func(b *bundle, store *postgres.Store, s saga.Saga) error{
		"take over": func(b *bundle, store *postgres.Store, s saga.Saga) error {
			_, err := store.TakeOver(b.ctx, ref(s), s.Lease.Fence, lease)
			return err
		},
		"seize": func(b *bundle, store *postgres.Store, s saga.Saga) error {
			_, err := store.Seize(b.ctx, ref(s), s.Lease.Fence, lease)
			return err
		},
		"claim": func(b *bundle, store *postgres.Store, _ saga.Saga) error {
			due, err := store.ClaimDue(b.ctx, 1, lease)
			if err == nil && len(due) == 0 {
				err = saga.ErrLeaseLost
			}
			return err
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := newBundle(t)
			s := b.begin("standstill")
			b.lapse(s)
			stopped := b.standingStill(func() {
				b.lapse(s)
				if due, err := b.store.ClaimDue(b.ctx, 1, lease); err != nil || len(due) != 1 {
					t.Errorf("the next holder claims %v, %v", keysOf(due), err)
				}
			})
			if err := take(b, stopped, s); !errors.Is(err, saga.ErrLeaseLost) {
				t.Errorf("who stood still holds the lease: %v", err)
			}
			if fence := b.load(s).Lease.Fence; fence != s.Lease.Fence+2 {
				t.Errorf("the fence is %d, and was %d before two took it", fence, s.Lease.Fence)
			}
		})
	}
}
