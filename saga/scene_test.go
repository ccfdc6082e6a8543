package saga

import (
	"slices"
	"time"

	"github.com/google/uuid"

	"paysaga/providers"
)

// The pure core is tested at fixed times, with windows that are easy to count with.
var (
	noon       = time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)
	testPolicy = Policy{
		AwaitDeadline: 30 * time.Minute, ProcessingDeadline: time.Hour, RefundDeadline: 48 * time.Hour, MaxFailures: 5,
		MaxUnrecorded: 4, NoticeWait: 5 * time.Minute, MaxCharges: 3,
		Windows: providers.Windows{Repost: 23 * time.Hour, LookupDelay: time.Hour, Hold: 7 * 24 * time.Hour, StaysPayable: true},
	}
	allAbouts = []providers.About{
		providers.AboutCharge, providers.AboutCapture, providers.AboutVoid, providers.AboutRefund, providers.AboutOther,
	}
	allCalls    = []Call{CallCharge, CallContinue, CallLookup, CallCapture, CallVoid, CallRefund, CallCheckRefund, CallStep, CallUndo}
	allOutcomes = []providers.OutcomeKind{
		providers.Succeeded, providers.Authorized, providers.Declined, providers.ActionRequired, providers.Processing,
		providers.Canceled, providers.NotFound, providers.Rejected, providers.Busy, providers.Unknown,
	}
)

// scene is a saga as the database would have it at noon, a minute after its charge was written down.
func scene(state State, steps ...Step) Saga {
	key := Key("shop1", "POST /v1/orders", "scene-0000000001", 1)
	s := Saga{
		AccountID: "shop1", Key: key, Generation: 1, State: state, Steps: steps, ReadAt: noon,
		Order: Order{
			ID: key, Currency: "EUR", Amount: 1200, Items: []Item{{SKU: "cup", Quantity: 2, UnitAmount: 600}},
			Payment: Payment{Provider: "fake", Method: "pm_1"},
		},
	}
	if state == Awaiting {
		s.DeadlineAt = noon.Add(time.Minute)
		s.Order.Payment.NextAction = &providers.NextAction{Type: "redirect", URL: "https://bank.example"}
	}
	for i := range s.Steps {
		s.Steps[i].SubKey = SubKey(key, s.Steps[i].Name, s.Steps[i].Attempt)
	}
	show(&s, s.State)
	return s
}

func line(name StepName, status StepStatus) Step {
	return Step{Name: name, Attempt: 1, Status: status, StartedAt: noon.Add(-time.Minute)}
}

// chargeWith is a charge whose payment is known.
func chargeWith(status StepStatus) Step {
	step := line(StepCharge, status)
	step.ProviderReference = "pay_1"
	return step
}

// scenesFor are sagas in which the call is due, in each state in which it can be.
func scenesFor(call Call) []Saga {
	reserved := line(StepReserve, StepDone)
	switch call {
	case CallCharge:
		return []Saga{
			scene(Charging, reserved, line(StepCharge, StepPending)),
			scene(Charging, reserved, line(StepCharge, StepUnknown)),
		}
	case CallLookup:
		late := scene(Charging, reserved, line(StepCharge, StepUnknown))
		late.Steps[1].StartedAt = noon.Add(-testPolicy.Windows.Repost)
		return []Saga{late, scene(Awaiting, reserved, chargeWith(StepPending)), holding(reserved, chargeWith(StepDone))}
	case CallContinue:
		return []Saga{
			scene(Awaiting, reserved, chargeWith(StepPending), line(StepContinue, StepPending)),
			scene(Awaiting, reserved, chargeWith(StepPending), line(StepContinue, StepUnknown)),
		}
	case CallCapture:
		return []Saga{
			holding(reserved, chargeWith(StepDone), captureOf(1200, StepPending)),
			holding(reserved, chargeWith(StepDone), captureOf(1200, StepUnknown)),
		}
	case CallVoid:
		return []Saga{
			scene(Compensating, reserved, chargeWith(StepPending), line(StepVoid, StepPending)),
			scene(Compensating, reserved, chargeWith(StepFailed), line(StepVoid, StepUnknown)),
			scene(Awaiting, reserved, chargeWith(StepFailed), line(StepVoid, StepPending)),
		}
	case CallRefund:
		return []Saga{
			scene(Compensating, reserved, chargeWith(StepDone), line(StepRefund, StepPending)),
			scene(Compensating, reserved, chargeWith(StepDone), line(StepVoid, StepFailed), line(StepRefund, StepUnknown)),
			refundScene(Refunding, StepPending), refundScene(Refunding, StepUnknown),
		}
	case CallCheckRefund:
		accepted := scene(Compensating, reserved, chargeWith(StepDone), line(StepRefund, StepPending))
		accepted.Steps[2].Outcome, accepted.Steps[2].ProviderReference = providers.Processing, "refund_1"
		refund := refundScene(Refunding, StepPending)
		refund.Steps[0].Outcome, refund.Steps[0].ProviderReference = providers.Processing, "refund_1"
		return []Saga{accepted, refund}
	case CallStep:
		return []Saga{
			scene(Reserved, reserved, line("check", StepPending)), scene(Reserved, reserved, line("check", StepUnknown)),
			scene(Charged, reserved, chargeWith(StepDone), line("ship", StepPending)),
		}
	case CallUndo:
		return []Saga{
			scene(Compensating, reserved, line("check", StepDone), chargeWith(StepFailed), line("check_undo", StepPending)),
			scene(Compensating, reserved, line("check", StepDone), line("check_undo", StepUnknown)),
		}
	case CallNone:
	}
	return nil
}

// holding is a saga whose money is held for a capture.
func holding(steps ...Step) Saga {
	s := scene(Awaiting, steps...)
	s.Order.Payment.Capture, s.Order.Payment.NextAction, s.Order.Payment.CapturedAmount = CaptureManual, nil, 0
	s.DeadlineAt = noon.Add(24 * time.Hour)
	show(&s, s.State)
	return s
}

func captureOf(amount int64, status StepStatus) Step {
	step := line(StepCapture, status)
	step.Amount = amount
	return step
}

func answered(call Call, outcome providers.Outcome) Event {
	return Event{Kind: Answered, Call: call, Outcome: outcome, Sends: 1}
}

func statusOf(s Saga, name StepName) StepStatus {
	if step := s.step(name); step != nil {
		return step.Status
	}
	return ""
}

func attempts(s Saga, name StepName) int {
	return len(slices.DeleteFunc(slices.Clone(s.Steps), func(step Step) bool { return step.Name != name }))
}

// stored is what a store makes of a change: new lines get their times.
func stored(c Change, now time.Time) Saga {
	after := c.After
	after.ReadAt = now
	for i := range after.Steps {
		if after.Steps[i].StartedAt.IsZero() {
			after.Steps[i].StartedAt = now
		}
		if !after.Steps[i].open() && after.Steps[i].FinishedAt.IsZero() {
			after.Steps[i].FinishedAt = now
		}
	}
	return after
}

func newSaga() Saga {
	s := scene(Started)
	s.ReadAt = time.Time{}
	s.Order.Status, s.Order.Payment.Status = "", ""
	s.Key = uuid.MustParse("fba0861f-d07a-58ae-88a7-cf229bfe7a8d")
	return s
}
