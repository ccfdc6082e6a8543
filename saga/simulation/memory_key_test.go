package simulation

import (
	"context"
	"time"

	"github.com/google/uuid"

	"paysaga/internal/idempotency"
	"paysaga/saga"
)

type keyName struct{ account, endpoint, key string }

type keyRow struct {
	name   keyName
	record idempotency.Record // without what depends on the time of reading
	until  time.Time          // of the lease; zero once it is answered
}

func nameOf(claim saga.Claim) keyName { return keyName{claim.AccountID, claim.Endpoint, claim.Key} }

// mayClaim tells whether a key was never used, or is answered and its window over, and the claim is its next generation.
func (m *memory) mayClaim(claim saga.Claim, now time.Time) error {
	row := m.keys[nameOf(claim)]
	if row == nil || m.windowOver(row, now) && row.record.Status != idempotency.InProgress && row.record.Generation == claim.Generation-1 {
		return nil
	}
	return saga.ErrKeyTaken
}

// windowOver tells that a key may begin anew: while the fate of its saga is open, it may not.
func (m *memory) windowOver(row *keyRow, now time.Time) bool {
	if row.record.ExpiresAt.After(now) {
		return false
	}
	of := m.sagas[saga.Ref{AccountID: row.name.account, Key: row.record.SagaKey}]
	return of == nil || of.saga.State == saga.Completed || of.saga.State == saga.RolledBack
}

func (m *memory) claim(claim saga.Claim, sagaKey uuid.UUID, fence int64, until, now time.Time) {
	row := &keyRow{name: nameOf(claim), until: until, record: idempotency.Record{
		Endpoint: claim.Endpoint, Generation: claim.Generation, Fingerprint: claim.Fingerprint, Status: idempotency.InProgress,
		SagaKey: sagaKey, Fence: fence, CreatedAt: now, ExpiresAt: now.Add(claim.Retention),
	}}
	m.keys[row.name] = row
	m.spend(claim, now)
}

// spentUntil is until when an account's keys of the last minute are spread.
func (m *memory) spentUntil(account string, now time.Time) time.Time {
	spent := m.spent[account]
	if spent.After(now.Add(2 * time.Minute)) {
		return now
	}
	return latest(spent, now)
}

func (m *memory) withinLimit(claim saga.Claim, now time.Time) error {
	if claim.KeysPerMinute <= 0 {
		return nil
	}
	wait := time.Minute / time.Duration(claim.KeysPerMinute)
	if m.spentUntil(claim.AccountID, now).Add(wait).After(now.Add(time.Minute)) {
		left := m.spent[claim.AccountID].Add(wait).Sub(now.Add(time.Minute))
		return &idempotency.LimitError{PerMinute: claim.KeysPerMinute, RetryAfter: min(max(left, 0), time.Minute)}
	}
	return nil
}

func (m *memory) spend(claim saga.Claim, now time.Time) {
	if claim.KeysPerMinute > 0 {
		m.spent[claim.AccountID] = m.spentUntil(claim.AccountID, now).Add(time.Minute / time.Duration(claim.KeysPerMinute))
	}
}

// waiting is the key of a saga whose request has no answer yet.
func (m *memory) waiting(ref saga.Ref) *keyRow {
	for name, row := range m.keys {
		if name.account == ref.AccountID && row.record.SagaKey == ref.Key && row.record.Status == idempotency.InProgress {
			return row
		}
	}
	return nil
}

// mirror copies a saga's lease to its key, where a repeat of the request looks for it.
func (m *memory) mirror(ref saga.Ref, lease saga.Lease) {
	if waiting := m.waiting(ref); waiting != nil {
		waiting.record.Fence, waiting.until = lease.Fence, lease.Until
	}
}

func (k *keyRow) answer(a saga.Answer, now time.Time) {
	k.record.Status, k.record.Answer, k.record.CompletedAt, k.until = idempotency.StatusOf(a.Status), a, now, time.Time{}
}

func (m *memory) LookupKey(_ context.Context, account, endpoint, key string) (idempotency.Record, bool, error) {
	now := m.open()
	row := m.keys[keyName{account, endpoint, key}]
	if row == nil {
		return idempotency.Record{}, false, nil
	}
	record := row.record
	record.Expired = m.windowOver(row, now)
	if !row.until.IsZero() {
		record.LeaseLeft = row.until.Sub(now)
	}
	if record.Expired {
		record.Answer.Body = nil
	}
	return record, true, nil
}

// maxGenerations is that of internal/postgres.
const maxGenerations = 64

func (m *memory) LastGeneration(_ context.Context, account, endpoint, key string) (int, error) {
	m.open()
	last := 0
	for generation := 1; generation <= maxGenerations; generation++ {
		derived := saga.Key(account, endpoint, key, generation)
		if m.sagas[saga.Ref{AccountID: account, Key: derived}] != nil || m.subKeys[saga.SubKey(derived, saga.StepCapture, 1)] {
			last = generation
		}
	}
	return last, nil
}

func (m *memory) ClaimKey(_ context.Context, claim saga.Claim, lease time.Duration) (idempotency.Held, error) {
	now := m.open()
	if err := m.mayClaim(claim, now); err != nil {
		return idempotency.Held{}, err
	}
	if err := m.withinLimit(claim, now); err != nil {
		return idempotency.Held{}, err
	}
	m.claim(claim, uuid.Nil, m.transactions, now.Add(lease), now)
	return idempotency.Held{
		AccountID: claim.AccountID, Endpoint: claim.Endpoint, Key: claim.Key, Generation: claim.Generation, Fence: m.transactions,
		KeysPerMinute: claim.KeysPerMinute,
	}, nil
}

// held is a key's row if it is still held under the fence, and by no saga.
func (m *memory) held(held idempotency.Held) (*keyRow, error) {
	row := m.keys[keyName{held.AccountID, held.Endpoint, held.Key}]
	if row == nil || row.record.Fence != held.Fence || row.record.Status != idempotency.InProgress || row.record.SagaKey != uuid.Nil {
		return nil, saga.ErrLeaseLost
	}
	return row, nil
}

func (m *memory) TakeKey(_ context.Context, held idempotency.Held, lease time.Duration) (idempotency.Held, error) {
	now := m.open()
	row, err := m.held(held)
	if err != nil || row.until.After(now) {
		return idempotency.Held{}, saga.ErrLeaseLost
	}
	row.record.Fence, row.until, held.Fence = m.transactions, now.Add(lease), m.transactions
	return held, nil
}

func (m *memory) RenewKey(_ context.Context, held idempotency.Held, lease time.Duration) error {
	now := m.open()
	row, err := m.held(held)
	if err == nil {
		row.until = now.Add(lease)
	}
	return err
}

func (m *memory) AnswerKey(_ context.Context, held idempotency.Held, answer saga.Answer) error {
	now := m.open()
	row, err := m.held(held)
	if err == nil {
		row.answer(answer, now)
	}
	return err
}

func (m *memory) ReleaseKey(ctx context.Context, held idempotency.Held) error {
	return m.RenewKey(ctx, held, 0)
}

func (m *memory) ForgetKey(_ context.Context, held idempotency.Held) error {
	m.open()
	row, err := m.held(held)
	if err != nil {
		return err
	}
	delete(m.keys, row.name)
	if held.KeysPerMinute > 0 {
		m.spent[held.AccountID] = m.spent[held.AccountID].Add(-time.Minute / time.Duration(held.KeysPerMinute))
	}
	return nil
}
