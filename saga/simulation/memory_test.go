package simulation

import (
	"context"
	"slices"
	"time"

	"github.com/google/uuid"

	"paysaga/internal/idempotency"
	"paysaga/providers"
	"paysaga/saga"
)

// memory is a database that keeps the rules of internal/postgres: each method is one transaction, carried out whole or not at all, by
// the database's clock. It is not for concurrent use: the scheduler carries one call out at a time, which is what PostgreSQL's row
// locks come to for transactions that touch the same saga.
type memory struct {
	clock func() time.Time
	wrote func(write) // told of each committed write of a saga; may be nil

	orders       map[saga.Ref]*saga.Order
	sagas        map[saga.Ref]*sagaRow
	inOrder      []*sagaRow // as they were begun
	keys         map[keyName]*keyRow
	subKeys      map[providers.SubKey]bool // of calls
	stock        map[stockName]*saga.Stock
	reservations map[saga.Ref][]reservation
	findings     []findingRow
	outbox       []string
	spent        map[string]time.Time // until when an account's new keys are spread
	transactions int64
}

type sagaRow struct {
	saga  saga.Saga // without what is kept elsewhere: the order, the key that waits
	order saga.Ref
}

type stockName struct{ account, sku string }

type reservation struct {
	sku      string
	quantity int64
	status   string // held, sold, released
}

type findingRow struct {
	ref  saga.Ref
	kind string
}

// write is one committed change of a saga, or of its lease.
type write struct {
	op     string
	ref    saga.Ref
	fence  int64 // under which it was written, or that it gave
	grants bool  // it gave a new lease
	from   saga.State
	after  saga.Saga
	change *saga.Change // nil for a write of the lease alone
	at     time.Time
}

func newMemory(clock func() time.Time) *memory {
	return &memory{
		clock: clock, orders: map[saga.Ref]*saga.Order{}, sagas: map[saga.Ref]*sagaRow{}, keys: map[keyName]*keyRow{},
		subKeys: map[providers.SubKey]bool{}, stock: map[stockName]*saga.Stock{}, reservations: map[saga.Ref][]reservation{},
		spent: map[string]time.Time{},
	}
}

// open opens a transaction: it gives the time that all of it goes by, as fine as PostgreSQL keeps it.
func (m *memory) open() time.Time {
	m.transactions++
	return m.clock().UTC().Truncate(time.Microsecond)
}

func (m *memory) tell(w write) {
	if m.wrote != nil {
		m.wrote(w)
	}
}

// read is a saga as Load gives it.
func (m *memory) read(row *sagaRow, now time.Time) saga.Saga {
	s := row.saga
	s.Order = *m.orders[row.order]
	s.Steps = inOrder(s.Steps)
	if s.Refund != nil {
		s.Refund = new(*s.Refund)
	}
	if waiting := m.waiting(saga.Ref{AccountID: s.AccountID, Key: s.Key}); waiting != nil {
		s.Pending = waiting.name.endpoint
	}
	s.ReadAt = now
	return s
}

// stepOrder is the order in which steps that began together can follow each other.
var stepOrder = []saga.StepName{
	saga.StepReserve, saga.StepCharge, saga.StepContinue, saga.StepCapture, saga.StepConfirm, saga.StepVoid, saga.StepRefund, saga.StepRelease,
}

func inOrder(steps []saga.Step) []saga.Step {
	sorted := slices.Clone(steps)
	slices.SortStableFunc(sorted, func(a, b saga.Step) int {
		if by := a.StartedAt.Compare(b.StartedAt); by != 0 {
			return by
		}
		if a.Attempt != b.Attempt {
			return a.Attempt - b.Attempt
		}
		return slices.Index(stepOrder, a.Name) - slices.Index(stepOrder, b.Name)
	})
	return sorted
}

func (m *memory) Load(_ context.Context, ref saga.Ref) (saga.Saga, error) {
	now := m.open()
	row := m.sagas[ref]
	if row == nil {
		return saga.Saga{}, saga.ErrNotFound
	}
	return m.read(row, now), nil
}

// FindSaga goes by what says most about which call a notice is of, as internal/postgres does.
func (m *memory) FindSaga(_ context.Context, provider string, n providers.Notice) (saga.Ref, error) {
	var first []providers.SubKey
	if key, err := uuid.Parse(string(n.Key)); err == nil {
		first = []providers.SubKey{saga.SubKey(key, saga.StepCharge, 1), saga.SubKey(key, saga.StepRefund, 1)}
	}
	best, place, started := saga.Ref{}, nowhere, time.Time{}
	for _, row := range m.inOrder {
		for _, step := range row.saga.Steps {
			found := placeOf(step, provider, n)
			if found == nowhere && step.Provider != "" && slices.Contains(first, step.SubKey) {
				found = lastPlace(row.saga, provider)
			}
			if found < place || found == place && found < nowhere && step.StartedAt.After(started) {
				best, place, started = saga.Ref{AccountID: row.saga.AccountID, Key: row.saga.Key}, found, step.StartedAt
			}
		}
	}
	if place == nowhere {
		return saga.Ref{}, saga.ErrNotFound
	}
	return best, nil
}

// nowhere comes after the five places at which a notice finds its saga.
const nowhere = 6

func placeOf(step saga.Step, provider string, n providers.Notice) int {
	switch {
	case step.Provider != provider || provider == "":
	case step.ProviderReference != "" && step.ProviderReference == n.Reference:
		return 1
	case step.SubKey == n.Key && step.Name != saga.StepCharge:
		return 2
	case step.ProviderReference != "" && step.ProviderReference == n.Payment && step.Name == saga.StepCharge:
		return 3
	case step.SubKey == n.Key:
		return 4
	}
	return nowhere
}

// lastPlace is for notices that bear the key of a saga instead of a step's.
func lastPlace(s saga.Saga, provider string) int {
	if slices.ContainsFunc(s.Steps, func(step saga.Step) bool { return step.Provider == provider }) {
		return nowhere - 1
	}
	return nowhere
}

var (
	_ saga.Store        = (*memory)(nil)
	_ idempotency.Store = (*memory)(nil)
)
