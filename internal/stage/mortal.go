package stage

import (
	"context"
	"sync"
	"time"

	"paysaga/internal/idempotency"
	"paysaga/internal/postgres"
	"paysaga/internal/webhook"
	"paysaga/providers"
	"paysaga/saga"
)

// mishap is what happens at a write: the server dies, or its connection is cut.
type mishap struct {
	left  int // writes until then; 0: never
	after bool
	cut   bool
}

// mortal is the database as a server sees it.
type mortal struct {
	*postgres.Store

	stage  *Stage
	mu     sync.Mutex
	next   mishap
	isDead bool
	idle   func()
}

func (m *mortal) arm(next mishap) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.next = next
}

func (m *mortal) alive() error {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.isDead {
		return errDead
	}
	return nil
}

// strike counts a write. It tells whether the write is still done, and what its caller learns instead of what came of it.
func (m *mortal) strike() (done bool, err error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.isDead {
		return false, errDead
	}
	if m.next.left == 0 {
		return true, nil
	}
	m.next.left--
	if m.next.left > 0 {
		return true, nil
	}
	if m.next.cut {
		return m.next.after, errCut
	}
	m.isDead = true
	return m.next.after, errDead
}

func (m *mortal) write(do func() (saga.Saga, error)) (saga.Saga, error) {
	done, broken := m.strike()
	var written saga.Saga
	var err error
	if done {
		written, err = do()
	}
	if broken != nil {
		return saga.Saga{}, broken
	}
	return written, err
}

// record writes a change down in the stage's history.
func (m *mortal) record(change saga.Change, do func() (saga.Saga, error)) func() (saga.Saga, error) {
	return func() (saga.Saga, error) {
		written, err := do()
		if err == nil {
			m.stage.history.add(Written{Saga: change.After.Key, From: change.From, To: change.After.State, At: m.stage.Now(), Event: change.Event})
			m.stage.wrote(written)
		}
		return written, err
	}
}

func (m *mortal) found(n int) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if (n == 0 || m.isDead) && m.idle != nil {
		m.idle()
	}
}

// Begin is a write.
func (m *mortal) Begin(ctx context.Context, claim saga.Claim, change saga.Change, lease time.Duration) (saga.Saga, error) {
	return m.write(m.record(change, func() (saga.Saga, error) { return m.Store.Begin(ctx, claim, change, lease) }))
}

// Apply is a write.
func (m *mortal) Apply(ctx context.Context, change saga.Change) (saga.Saga, error) {
	return m.write(m.record(change, func() (saga.Saga, error) { return m.Store.Apply(ctx, change) }))
}

// Ask is a write.
func (m *mortal) Ask(ctx context.Context, claim saga.Claim, change saga.Change, lease time.Duration) (saga.Saga, error) {
	return m.write(m.record(change, func() (saga.Saga, error) { return m.Store.Ask(ctx, claim, change, lease) }))
}

// Seize is a write.
func (m *mortal) Seize(ctx context.Context, ref saga.Ref, fence int64, lease time.Duration) (saga.Saga, error) {
	return m.write(func() (saga.Saga, error) { return m.Store.Seize(ctx, ref, fence, lease) })
}

// TakeOver is a write.
func (m *mortal) TakeOver(ctx context.Context, ref saga.Ref, fence int64, lease time.Duration) (saga.Saga, error) {
	return m.write(func() (saga.Saga, error) { return m.Store.TakeOver(ctx, ref, fence, lease) })
}

// Load is for the living.
func (m *mortal) Load(ctx context.Context, ref saga.Ref) (saga.Saga, error) {
	if err := m.alive(); err != nil {
		return saga.Saga{}, err
	}
	return m.Store.Load(ctx, ref)
}

// LookupKey is for the living.
func (m *mortal) LookupKey(ctx context.Context, account, endpoint, key string) (idempotency.Record, bool, error) {
	if err := m.alive(); err != nil {
		return idempotency.Record{}, false, err
	}
	return m.Store.LookupKey(ctx, account, endpoint, key)
}

// Renew is for the living.
func (m *mortal) Renew(ctx context.Context, ref saga.Ref, fence int64, lease time.Duration) error {
	if err := m.alive(); err != nil {
		return err
	}
	return m.Store.Renew(ctx, ref, fence, lease)
}

// HandBack is for the living.
func (m *mortal) HandBack(ctx context.Context, ref saga.Ref, fence int64) error {
	if err := m.alive(); err != nil {
		return err
	}
	return m.Store.HandBack(ctx, ref, fence)
}

// ClaimDue is for the living.
func (m *mortal) ClaimDue(ctx context.Context, limit int, lease time.Duration) (due []saga.Saga, err error) {
	defer func() { m.found(len(due)) }()
	if err := m.alive(); err != nil {
		return nil, err
	}
	return m.Store.ClaimDue(ctx, limit, lease)
}

// KeepEvents is for the living.
func (m *mortal) KeepEvents(ctx context.Context, provider string, notices []providers.Notice) (int, error) {
	if err := m.alive(); err != nil {
		return 0, err
	}
	return m.Store.KeepEvents(ctx, provider, notices)
}

// ClaimEvents is for the living.
func (m *mortal) ClaimEvents(ctx context.Context, limit int, lease time.Duration) (due []webhook.Event, err error) {
	defer func() { m.found(len(due)) }()
	if err := m.alive(); err != nil {
		return nil, err
	}
	return m.Store.ClaimEvents(ctx, limit, lease)
}

// FindSaga is for the living.
func (m *mortal) FindSaga(ctx context.Context, provider string, notice providers.Notice) (saga.Ref, error) {
	if err := m.alive(); err != nil {
		return saga.Ref{}, err
	}
	return m.Store.FindSaga(ctx, provider, notice)
}

// SettleEvent is for the living.
func (m *mortal) SettleEvent(ctx context.Context, event webhook.Event, result webhook.Result) error {
	if err := m.alive(); err != nil {
		return err
	}
	return m.Store.SettleEvent(ctx, event, result)
}
