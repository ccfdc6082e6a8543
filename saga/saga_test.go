package saga

import "testing"

func TestCapturable(t *testing.T) {
	t.Parallel()
	order := func(state State, capture CaptureMode, charge StepStatus, captures ...Step) Saga {
		steps := append([]Step{{Name: StepCharge, Attempt: 1, Status: charge}}, captures...)
		return Saga{Kind: KindOrder, State: state, Order: Order{Amount: 3998, Payment: Payment{Capture: capture}}, Steps: steps}
	}
	part := Step{Name: StepCapture, Attempt: 1, Status: StepDone, Amount: 1000}
	for name, c := range map[string]struct {
		saga Saga
		want int64
	}{
		"held":                      {order(Awaiting, CaptureManual, StepDone), 3998},
		"a part taken":              {order(Awaiting, CaptureManual, StepDone, part), 2998},
		"a capture refused":         {order(Awaiting, CaptureManual, StepDone, Step{Name: StepCapture, Attempt: 1, Status: StepFailed, Amount: 1000}), 3998},
		"the customer is awaited":   {order(Awaiting, CaptureManual, StepPending), 0},
		"the payment is declined":   {order(Awaiting, CaptureManual, StepFailed), 0},
		"completed with a part":     {order(Completed, CaptureManual, StepDone, part), 0},
		"the hold ended":            {order(RolledBack, CaptureManual, StepUndone), 0},
		"in review":                 {order(NeedsReview, CaptureManual, StepDone), 0},
		"taken with the charge":     {order(Completed, CaptureAutomatic, StepDone), 0},
		"nothing is charged so far": {Saga{State: Reserved, Order: Order{Amount: 3998, Payment: Payment{Capture: CaptureManual}}}, 0},
	} {
		if got := c.saga.Capturable(); got != c.want {
			t.Errorf("%s: %d, want %d", name, got, c.want)
		}
	}
}

func TestNewest(t *testing.T) {
	t.Parallel()
	s := Saga{Steps: []Step{{Name: StepCharge, Attempt: 2, Code: "b"}, {Name: StepVoid, Attempt: 3}, {Name: StepCharge, Attempt: 1, Code: "a"}}}
	if got := s.Newest(StepCharge); got == nil || got.Code != "b" {
		t.Errorf("the newest charge is %+v", got)
	}
	if got := s.Newest(StepRefund); got != nil {
		t.Errorf("the newest refund is %+v", got)
	}
}
