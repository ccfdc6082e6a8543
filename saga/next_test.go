package saga

import (
	"testing"
	"time"

	"pgregory.net/rapid"

	"paysaga/providers"
)

func TestNext(t *testing.T) {
	t.Parallel()
	reserved := line(StepReserve, StepDone)
	open := func(outcome providers.OutcomeKind) Step {
		step := line(StepRefund, StepPending)
		step.Outcome = outcome
		return step
	}
	for name, test := range map[string]struct {
		saga Saga
		want Call
	}{
		"started":                 {scene(Started), CallNone},
		"reserved":                {scene(Reserved, reserved), CallNone},
		"charging":                {scene(Charging, reserved, line(StepCharge, StepPending)), CallCharge},
		"charging, unknown":       {scene(Charging, reserved, line(StepCharge, StepUnknown)), CallCharge},
		"charging, not begun":     {scene(Charging, Step{Name: StepCharge, Attempt: 1}), CallCharge},
		"awaiting":                {scene(Awaiting, reserved, chargeWith(StepPending)), CallLookup},
		"charged":                 {scene(Charged, reserved, chargeWith(StepDone)), CallNone},
		"compensating, void":      {scene(Compensating, chargeWith(StepPending), line(StepVoid, StepPending)), CallVoid},
		"compensating, unknown":   {scene(Compensating, chargeWith(StepPending), line(StepVoid, StepUnknown)), CallVoid},
		"compensating, voided":    {scene(Compensating, chargeWith(StepUndone), line(StepVoid, StepDone)), CallNone},
		"compensating, refund":    {scene(Compensating, chargeWith(StepDone), open("")), CallRefund},
		"compensating, busy":      {scene(Compensating, chargeWith(StepDone), open(providers.Busy)), CallRefund},
		"compensating, accepted":  {scene(Compensating, chargeWith(StepDone), open(providers.Processing)), CallCheckRefund},
		"compensating, both":      {scene(Compensating, chargeWith(StepDone), line(StepVoid, StepFailed), open("")), CallRefund},
		"compensating, refunded":  {scene(Compensating, chargeWith(StepUndone), line(StepRefund, StepDone)), CallNone},
		"compensating, no charge": {scene(Compensating, line(StepReserve, StepFailed)), CallNone},
		"completed":               {scene(Completed, reserved, chargeWith(StepDone)), CallNone},
		"rolled back":             {scene(RolledBack, line(StepReserve, StepUndone), line(StepCharge, StepFailed)), CallNone},
		"held":                    {holding(reserved, chargeWith(StepDone)), CallLookup},
		"capture":                 {holding(reserved, chargeWith(StepDone), captureOf(500, StepPending)), CallCapture},
		"capture, unknown":        {holding(reserved, chargeWith(StepDone), captureOf(500, StepUnknown)), CallCapture},
		"capture, done":           {holding(reserved, chargeWith(StepDone), captureOf(500, StepDone)), CallLookup},
		"continue":                {scene(Awaiting, reserved, chargeWith(StepPending), line(StepContinue, StepUnknown)), CallContinue},
		"continue, failed":        {scene(Awaiting, reserved, chargeWith(StepPending), line(StepContinue, StepFailed)), CallLookup},
		"payment wanted":          {scene(Awaiting, reserved, chargeWith(StepFailed)), CallNone},
		"closing while awaiting":  {scene(Awaiting, reserved, chargeWith(StepFailed), line(StepVoid, StepPending)), CallVoid},
		"refund":                  {refundScene(Refunding, StepPending), CallRefund},
		"refund, given":           {refundScene(Completed, StepDone), CallNone},
		"needs review":            {scene(NeedsReview, reserved, line(StepCharge, StepUnknown), line(StepVoid, StepUnknown)), CallNone},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if got := Next(test.saga, testPolicy.Windows); got != test.want {
				t.Errorf("Next = %q, want %q", got, test.want)
			}
		})
	}
}

// Where nobody can be asked, what was taken on, or must not be sent again, waits for its notice.
func TestNextWhereNobodyCanBeAsked(t *testing.T) {
	t.Parallel()
	reserved, windows := line(StepReserve, StepDone), deferredPolicy().Windows
	with := func(step Step, outcome providers.OutcomeKind, code string) Step {
		step.Outcome, step.Code = outcome, code
		return step
	}
	late := func(s Saga) Saga {
		s.Steps[len(s.Steps)-1].StartedAt = noon.Add(-windows.Repost)
		return s
	}
	useless := providers.CodeServerErrorFinal
	for name, test := range map[string]struct {
		saga Saga
		want Call
	}{
		"charge":            {scene(Charging, line(StepCharge, StepUnknown)), CallCharge},
		"charge, useless":   {scene(Charging, with(line(StepCharge, StepUnknown), providers.Unknown, useless)), CallNone},
		"charge, late":      {late(scene(Charging, line(StepCharge, StepUnknown))), CallNone},
		"awaiting":          {scene(Awaiting, reserved, chargeWith(StepPending)), CallNone},
		"continue":          {scene(Awaiting, reserved, chargeWith(StepPending), line(StepContinue, StepUnknown)), CallContinue},
		"continue, late":    {late(scene(Awaiting, reserved, chargeWith(StepPending), line(StepContinue, StepUnknown))), CallNone},
		"held":              {holding(reserved, chargeWith(StepDone)), CallNone},
		"capture":           {holding(reserved, chargeWith(StepDone), captureOf(500, StepUnknown)), CallCapture},
		"capture, accepted": {holding(reserved, chargeWith(StepDone), with(captureOf(500, StepPending), providers.Processing, "")), CallNone},
		"capture, late":     {late(holding(reserved, chargeWith(StepDone), captureOf(500, StepUnknown))), CallNone},
		"void":              {scene(Compensating, chargeWith(StepPending), line(StepVoid, StepUnknown)), CallVoid},
		"void, accepted":    {scene(Compensating, chargeWith(StepPending), with(line(StepVoid, StepPending), providers.Processing, "")), CallNone},
		"void, late":        {late(scene(Compensating, chargeWith(StepPending), line(StepVoid, StepUnknown))), CallVoid},
		"refund":            {refundScene(Refunding, StepUnknown), CallRefund},
		"refund, late":      {late(refundScene(Refunding, StepUnknown)), CallNone},
	} {
		if got := Next(test.saga, windows); got != test.want {
			t.Errorf("%s: %q, want %q", name, got, test.want)
		}
	}
}

// Past the window a repeated refund could be a second one; and some codes say that a repeat would teach nothing.
func TestNextChecksARefundThatMustNotBeSentAgain(t *testing.T) {
	t.Parallel()
	refund := scene(Compensating, chargeWith(StepDone), line(StepRefund, StepUnknown))
	late := scene(Compensating, chargeWith(StepDone), line(StepRefund, StepUnknown))
	late.Steps[1].StartedAt = noon.Add(-testPolicy.Windows.Repost)
	useless := scene(Compensating, chargeWith(StepDone), line(StepRefund, StepUnknown))
	useless.Steps[1].Code = providers.CodeServerErrorReplayed
	for name, test := range map[string]struct {
		saga Saga
		want Call
	}{"in time": {refund, CallRefund}, "late": {late, CallCheckRefund}, "useless": {useless, CallCheckRefund}} {
		if got := Next(test.saga, testPolicy.Windows); got != test.want {
			t.Errorf("%s: %s, want %s", name, got, test.want)
		}
	}
}

func TestNextTellsTheEndOfTheRepostWindow(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		age  time.Duration
		want Call
	}{
		{0, CallCharge},
		{testPolicy.Windows.Repost - time.Microsecond, CallCharge},
		{testPolicy.Windows.Repost, CallLookup},
		{testPolicy.Windows.Repost + time.Hour, CallLookup},
	} {
		s := scene(Charging, line(StepCharge, StepUnknown))
		s.Steps[0].StartedAt = noon.Add(-test.age)
		if got := Next(s, testPolicy.Windows); got != test.want {
			t.Errorf("Next at age %s = %s, want %s", test.age, got, test.want)
		}
	}
}

// A code that makes a repeat useless stays in force, whatever the look-ups that follow bring or do not bring.
func TestUselessRepeatsAreNeverMade(t *testing.T) {
	t.Parallel()
	for _, code := range []string{
		providers.CodeServerErrorReplayed, providers.CodeServerErrorFinal, providers.CodeIdempotencyMismatch,
	} {
		s := scene(Charging, line(StepReserve, StepDone), line(StepCharge, StepPending))
		change, err := Advance(s, answered(CallCharge, providers.Outcome{Kind: providers.Unknown, Code: code}), testPolicy)
		if err != nil {
			t.Fatal(err)
		}
		for _, outcome := range []providers.Outcome{
			{Kind: providers.NotFound}, {Kind: providers.Busy, Code: "rate_limited"}, {Kind: providers.Unknown, Code: "timeout"},
		} {
			s = stored(change, noon.Add(time.Second))
			if got := Next(s, testPolicy.Windows); got != CallLookup {
				t.Fatalf("after %s: Next = %s, want a look-up", code, got)
			}
			if change, err = Advance(s, answered(CallLookup, outcome), testPolicy); err != nil {
				t.Fatal(err)
			}
		}
		if got := Next(stored(change, noon.Add(time.Minute)), testPolicy.Windows); got != CallLookup {
			t.Errorf("after %s and look-ups without an answer: Next = %s, want a look-up", code, got)
		}
	}
}

// Past the window a POST could be a second charge, whatever else is true of the saga.
func TestNeverChargesPastTheWindow(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		windows := providers.Windows{Repost: time.Duration(rapid.Int64Range(0, int64(48*time.Hour)).Draw(t, "window"))}
		past := time.Duration(rapid.Int64Range(0, int64(48*time.Hour)).Draw(t, "past"))
		charge := line(StepCharge, rapid.SampledFrom([]StepStatus{StepPending, StepUnknown}).Draw(t, "status"))
		charge.Code = rapid.SampledFrom([]string{"", "timeout", providers.CodeUnreachable}).Draw(t, "code")
		charge.StartedAt = noon.Add(-windows.Repost - past)
		s := scene(rapid.SampledFrom(allStates).Draw(t, "state"), charge)
		if got := Next(s, windows); got == CallCharge {
			t.Fatalf("charges %s after the window's end", past)
		}
	})
}
