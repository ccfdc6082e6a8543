package saga

import (
	"encoding/json"
	"slices"
	"time"

	"github.com/google/uuid"

	"paysaga/providers"
)

// Kind is what a saga carries.
type Kind string

// The kinds.
const (
	KindOrder  Kind = "order"  // an order and its payment, until the money is taken or given up
	KindRefund Kind = "refund" // one refund of a completed order
)

// Saga is the way of one order, or of one refund, through its steps, as the database has it.
type Saga struct {
	Kind       Kind
	AccountID  string
	Key        uuid.UUID
	Generation int // of the idempotency key; 1 for its first use
	State      State
	Failures   int       // turns in a row that brought nothing new; they lengthen the pause and are bounded
	Drives     int       // how often somebody took the lease
	Unrecorded int       // drives since the last change that was written, the running one included
	DeadlineAt time.Time // of the customer's action; zero when none runs
	Order      Order
	Refund     *Refund // for KindRefund
	Steps      []Step
	Lease      Lease
	Pending    string // endpoint of the request that waits for its answer; empty when none does
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

// openStep is the newest attempt of a step, if it has no end yet.
func (s *Saga) openStep(name StepName) *Step {
	if newest := s.step(name); newest != nil && newest.open() {
		return newest
	}
	return nil
}

// chargeUndoneBy is the charge that a void or a refund is about: the newest that there was when its intent was written.
func (s *Saga) chargeUndoneBy(undoing Step) *Step {
	var newest *Step
	for i := range s.Steps {
		step := &s.Steps[i]
		later := !undoing.StartedAt.IsZero() && (step.StartedAt.IsZero() || undoing.StartedAt.Before(step.StartedAt))
		if step.Name == StepCharge && !later && (newest == nil || step.Attempt > newest.Attempt) {
			newest = step
		}
	}
	return newest
}

// isUndone tells that a void or a refund of a charge was carried out, or that its hold has ended without one.
func (s *Saga) isUndone(charge *Step) bool {
	holdEnded := charge.Status == StepUndone && (moved(charge.Outcome) || charge.Outcome == providers.Canceled)
	return holdEnded || slices.ContainsFunc(s.Steps, func(step Step) bool {
		return (step.Name == StepVoid || step.Name == StepRefund) && step.Status == StepDone && s.chargeUndoneBy(step) == charge
	})
}

// tookOrHeld tells that money of a charge was held or taken, as far as is known, even where its end is looked for anew.
func (s *Saga) tookOrHeld(charge *Step) bool { return charge.Status == StepDone || s.captured() > 0 }

// held tells that the money is held and waits for a capture.
func (s *Saga) held() bool {
	charge := s.step(StepCharge)
	return s.State == Awaiting && s.Order.Payment.Capture == CaptureManual && charge != nil && charge.Status == StepDone
}

// Newest finds the newest attempt of a step; nil where there was none.
func (s *Saga) Newest(name StepName) *Step { return s.step(name) }

// Capturable is how much money is still held for a capture to take, in minor units; zero when none is.
func (s *Saga) Capturable() int64 {
	if !s.held() {
		return 0
	}
	return s.Order.Amount - s.captured()
}

// captured is how much of the order's money is taken, in minor units.
func (s *Saga) captured() int64 {
	if s.Order.Payment.Capture != CaptureManual {
		if charge := s.step(StepCharge); charge != nil && charge.Status == StepDone {
			return s.Order.Amount
		}
		return 0
	}
	var sum int64
	for _, step := range s.Steps {
		if step.Name == StepCapture && step.Status == StepDone {
			sum += step.Amount
		}
	}
	return sum
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
	switch {
	case s.Refund.ofAnother():
		return s.Refund.Payment
	case s.Kind == KindRefund:
		return s.Order.Payment.ProviderReference
	}
	if charge := s.step(StepCharge); charge != nil {
		return charge.ProviderReference
	}
	return ""
}

// provider is who is asked for what the saga begins next.
func (s *Saga) provider() string {
	if s.Refund.ofAnother() {
		return s.Refund.Provider
	}
	return s.Order.Payment.Provider
}

// clone copies what Advance changes, so that the saga that it was given stays as it was.
func (s *Saga) clone() Saga {
	copied := *s
	copied.Steps = append([]Step(nil), s.Steps...)
	if s.Refund != nil {
		copied.Refund = new(*s.Refund)
	}
	return copied
}

// moneyOf is what a capture or a refund is about.
func (s *Saga) moneyOf(step Step) providers.Money {
	if step.Amount == 0 {
		return s.Order.Money()
	}
	return s.money(step.Amount)
}

func (s *Saga) money(amount int64) providers.Money {
	return providers.Money{Amount: amount, Currency: s.Order.Currency}
}

// forget drops what only calls needed that are over: what the customer's way back brought, and what the provider's client library
// made of a payment method.
func (s *Saga) forget() {
	for i := range s.Steps {
		if step := &s.Steps[i]; !step.open() {
			step.Details = ""
		}
	}
	charge := s.step(StepCharge)
	if decided := charge != nil && !charge.open(); decided || charge == nil && s.State.Ended() {
		s.Order.Payment.MethodData = nil
	}
}

// continueRequest is the call after the customer acted. It is the same for every repeat of an attempt.
func (s *Saga) continueRequest(step Step) providers.ContinueRequest {
	charge := s.step(StepCharge)
	request := providers.ContinueRequest{
		Key: step.SubKey, ChargeKey: charge.SubKey, Reference: charge.ProviderReference, Money: s.Order.Money(),
		ManualCapture: s.Order.Payment.Capture == CaptureManual,
	}
	if step.Details != "" {
		request.Details = json.RawMessage(step.Details)
	}
	return request
}

// voidRequest closes the newest charge. It is the same for every repeat where the provider picks its call by what it is told.
func (s *Saga) voidRequest(step Step, windows providers.Windows) providers.VoidRequest {
	request := providers.VoidRequest{
		Key: step.SubKey, ChargeKey: s.step(StepCharge).SubKey, Reference: step.Target,
		ManualCapture: s.Order.Payment.Capture == CaptureManual && s.step(StepCapture) == nil,
	}
	if request.Reference == "" && !windows.NoLookup {
		request.Reference = s.chargeReference()
	}
	return request
}

// chargeRequest is the charge's call. It is the same for every repeat of an attempt.
func (s *Saga) chargeRequest(step Step) providers.ChargeRequest {
	return providers.ChargeRequest{
		Key: step.SubKey, SagaKey: s.Key.String(), OrderID: s.Order.ID.String(), Money: s.Order.Money(),
		Method: s.Order.Payment.Method, MethodData: s.Order.Payment.MethodData, ReturnURL: s.Order.Payment.ReturnURL,
		CustomerReference: s.Order.Customer.Reference, ManualCapture: s.Order.Payment.Capture == CaptureManual,
	}
}
