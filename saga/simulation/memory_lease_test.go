package simulation

import (
	"context"
	"slices"
	"time"

	"paysaga/saga"
)

func (m *memory) TakeOver(_ context.Context, ref saga.Ref, fence int64, lease time.Duration) (saga.Saga, error) {
	return m.take("take over", ref, fence, lease, true)
}

func (m *memory) Seize(_ context.Context, ref saga.Ref, fence int64, lease time.Duration) (saga.Saga, error) {
	return m.take("seize", ref, fence, lease, false)
}

// take is a compare-and-swap on the fencing number of a lease that has run out.
func (m *memory) take(op string, ref saga.Ref, fence int64, lease time.Duration, unlessEnded bool) (saga.Saga, error) {
	now := m.open()
	row := m.sagas[ref]
	if row == nil || row.saga.Lease.Fence != fence || row.saga.Lease.Until.After(now) || unlessEnded && row.saga.NextAt.IsZero() {
		return saga.Saga{}, saga.ErrLeaseLost
	}
	return m.grant(op, row, lease, now), nil
}

// grant gives a new lease.
func (m *memory) grant(op string, row *sagaRow, lease time.Duration, now time.Time) saga.Saga {
	kept := &row.saga
	ref := saga.Ref{AccountID: kept.AccountID, Key: kept.Key}
	kept.Lease = saga.Lease{Fence: kept.Lease.Fence + 1, Until: now.Add(lease)}
	kept.Drives++
	kept.Unrecorded++
	if !kept.NextAt.IsZero() {
		kept.NextAt = kept.Lease.Until
	}
	m.mirror(ref, kept.Lease)
	s := m.read(row, now)
	m.tell(write{op: op, ref: ref, fence: kept.Lease.Fence, grants: true, from: kept.State, after: s, at: now})
	return s
}

// ClaimDue takes the leases of due sagas, the one that is due longest first.
func (m *memory) ClaimDue(_ context.Context, limit int, lease time.Duration) ([]saga.Saga, error) {
	now := m.open()
	var due []*sagaRow
	for _, row := range m.inOrder {
		if !row.saga.NextAt.IsZero() && !row.saga.NextAt.After(now) && !row.saga.Lease.Until.After(now) {
			due = append(due, row)
		}
	}
	slices.SortStableFunc(due, func(a, b *sagaRow) int { return a.saga.NextAt.Compare(b.saga.NextAt) })
	taken := make([]saga.Saga, 0, min(limit, len(due)))
	for _, row := range due[:min(limit, len(due))] {
		taken = append(taken, m.grant("claim", row, lease, now))
	}
	return taken, nil
}

// nextDue is when a saga can be claimed next, by the database's clock.
func (m *memory) nextDue() (next time.Time, found bool) {
	for _, row := range m.inOrder {
		if row.saga.NextAt.IsZero() {
			continue
		}
		if due := latest(row.saga.NextAt, row.saga.Lease.Until); !found || due.Before(next) {
			next, found = due, true
		}
	}
	return next, found
}

func (m *memory) Renew(_ context.Context, ref saga.Ref, fence int64, lease time.Duration) error {
	return m.setLease("renew", ref, fence, lease)
}

func (m *memory) HandBack(_ context.Context, ref saga.Ref, fence int64) error {
	return m.setLease("hand back", ref, fence, 0)
}

func (m *memory) setLease(op string, ref saga.Ref, fence int64, lease time.Duration) error {
	now := m.open()
	row := m.sagas[ref]
	if row == nil || row.saga.Lease.Fence != fence {
		return saga.ErrLeaseLost
	}
	kept := &row.saga
	kept.Lease.Until = now.Add(lease)
	if !kept.NextAt.IsZero() {
		kept.NextAt = kept.Lease.Until
	}
	m.mirror(ref, kept.Lease)
	m.tell(write{op: op, ref: ref, fence: fence, from: kept.State, after: row.saga, at: now})
	return nil
}
