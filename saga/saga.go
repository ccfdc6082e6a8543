package saga

import (
	"time"

	"github.com/google/uuid"

	"paysaga/providers"
)

// Saga is one order's way through its steps, as the database has it.
type Saga struct {
	AccountID  string
	Key        uuid.UUID
	Generation int // of the idempotency key; 1 for its first use
	State      State
	Failures   int       // turns in a row that brought nothing new; they lengthen the pause and are bounded
	Drives     int       // how often somebody took the lease
	Unrecorded int       // drives since the last change that was written, the running one included
	DeadlineAt time.Time // of the customer's action; zero when none runs
	Order      Order
	Steps      []Step
	Lease      Lease
	Answered   bool // the request that began it has its answer
	CreatedAt  time.Time
	UpdatedAt  time.Time
	NextAt     time.Time // when somebody must look at it again; zero when nobody must
	ReadAt     time.Time // the database's clock when this was read or last written
}

// Lease is the right to write a saga, and its answer, until somebody holds a newer one. Fence is the fencing number
// (lock_version): it grows with every holder, and the database refuses writes under an older one.
type Lease struct {
	Fence int64
	Until time.Time // by the database's clock
}

// step finds the newest attempt of a step.
func (s *Saga) step(name StepName) *Step {
	var newest *Step
	for i := range s.Steps {
		if s.Steps[i].Name == name && (newest == nil || s.Steps[i].Attempt > newest.Attempt) {
			newest = &s.Steps[i]
		}
	}
	return newest
}

// addStep opens the next attempt of a step.
func (s *Saga) addStep(name StepName, status StepStatus, provider string) *Step {
	attempt := 1
	if earlier := s.step(name); earlier != nil {
		attempt = earlier.Attempt + 1
	}
	s.Steps = append(s.Steps, Step{
		Name: name, Attempt: attempt, SubKey: SubKey(s.Key, name, attempt), Status: status, Provider: provider,
	})
	return &s.Steps[len(s.Steps)-1]
}

// chargeReference is the provider's id of the payment, as far as it is known.
func (s *Saga) chargeReference() string {
	if charge := s.step(StepCharge); charge != nil {
		return charge.ProviderReference
	}
	return ""
}

// clone copies what Advance changes, so that the saga that it was given stays as it was.
func (s *Saga) clone() Saga {
	copied := *s
	copied.Steps = append([]Step(nil), s.Steps...)
	return copied
}

// chargeRequest is the charge's call. It is the same for every repeat of an attempt.
func (s *Saga) chargeRequest(step Step) providers.ChargeRequest {
	return providers.ChargeRequest{
		Key: step.SubKey, SagaKey: s.Key.String(), OrderID: s.Order.ID.String(), Money: s.Order.Money(),
		Method: s.Order.Payment.Method, ReturnURL: s.Order.Payment.ReturnURL,
	}
}
