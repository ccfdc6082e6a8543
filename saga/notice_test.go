package saga

import (
	"fmt"
	"reflect"
	"slices"
	"testing"

	"pgregory.net/rapid"

	"paysaga/providers"
)

// anyScenes are sagas in every state, of both kinds, each as the pure core can leave it.
func anyScenes() map[string]Saga {
	reserved, confirmed := line(StepReserve, StepDone), line(StepConfirm, StepDone)
	undone, released := line(StepReserve, StepUndone), line(StepRelease, StepDone)
	second := chargeWith(StepPending)
	second.Attempt, second.ProviderReference = 2, ""
	processing := func(step Step) Step {
		step.Outcome, step.ProviderReference = providers.Processing, "accepted_1"
		return step
	}
	scenes := map[string]Saga{
		"started":               scene(Started),
		"reserved":              scene(Reserved, reserved),
		"charged":               scene(Charged, reserved, chargeWith(StepDone)),
		"completed":             scene(Completed, reserved, chargeWith(StepDone), confirmed),
		"out of stock":          scene(RolledBack, line(StepReserve, StepFailed)),
		"declined":              scene(RolledBack, undone, chargeWith(StepFailed), released),
		"voided":                scene(RolledBack, undone, chargeWith(StepUndone), line(StepVoid, StepDone), released),
		"void found nothing":    scene(RolledBack, undone, chargeWith(StepUndone), line(StepVoid, StepFailed), released),
		"refunded":              scene(RolledBack, undone, chargeWith(StepUndone), line(StepRefund, StepDone), released),
		"in review":             scene(NeedsReview, reserved, chargeWith(StepUnknown)),
		"payment wanted":        scene(Awaiting, reserved, chargeWith(StepFailed)),
		"second charge":         scene(Charging, reserved, chargeWith(StepFailed), second),
		"held":                  holding(reserved, chargeWith(StepDone)),
		"captured in part":      holding(reserved, chargeWith(StepDone), captureOf(500, StepDone)),
		"capture accepted":      holding(reserved, chargeWith(StepDone), processing(captureOf(500, StepPending))),
		"capture refused":       holding(reserved, chargeWith(StepDone), captureOf(500, StepFailed)),
		"void accepted":         scene(Compensating, reserved, chargeWith(StepPending), processing(line(StepVoid, StepPending))),
		"closing while awaited": scene(Awaiting, reserved, chargeWith(StepFailed), line(StepVoid, StepPending)),
		"refunding":             refundScene(Refunding, StepPending),
		"refund unknown":        refundScene(Refunding, StepUnknown),
		"refund given":          refundScene(Completed, StepDone),
		"refund failed":         refundScene(RolledBack, StepFailed),
		"refund in review":      refundScene(NeedsReview, StepUnknown),
	}
	for _, call := range allCalls {
		for i, s := range scenesFor(call) {
			scenes[fmt.Sprint(call, " ", i)] = s
		}
	}
	for name, s := range scenes {
		if s.Kind == "" {
			s.Kind = KindOrder
		}
		scenes[name] = s
	}
	return scenes
}

func refundScene(state State, status StepStatus) Saga {
	s := scene(Completed, line(StepReserve, StepDone), chargeWith(StepDone), line(StepConfirm, StepDone))
	step := line(StepRefund, status)
	step.Amount, step.SubKey = 500, SubKey(s.Key, StepRefund, 1)
	s.Kind, s.State, s.Steps = KindRefund, state, []Step{step}
	s.Refund = &Refund{ID: s.Key, OrderID: s.Order.ID, Amount: 500}
	show(&s, s.State)
	return s
}

// anyNotices are notices of everything, with and without what names the step that they are about.
func anyNotices(s Saga) []providers.Notice {
	names := append(make([]providers.Notice, 0, 5+2*len(s.Steps)), []providers.Notice{
		{}, {Payment: "pay_1"}, {Payment: "pay_9"}, {Payment: "pay_1", Reference: "accepted_1"}, {Payment: "pay_1", Reference: "foreign_1"},
	}...)
	for _, step := range s.Steps {
		names = append(names, providers.Notice{Key: step.SubKey, Payment: "pay_1"}, providers.Notice{Key: step.SubKey, Payment: "pay_1", Reference: "made_1"})
	}
	codes := []string{"", providers.CodeRefunded, providers.CodeCaptureFailed, providers.CodeVoidRefused, providers.CodeAlreadyCaptured}
	notices := make([]providers.Notice, 0, len(allAbouts)*len(names)*(1+len(allOutcomes)*len(codes)))
	for _, about := range allAbouts {
		for _, named := range names {
			named.About = about
			notices = append(notices, named)
			for _, kind := range allOutcomes {
				for _, code := range codes {
					named.Outcome = &providers.Outcome{Kind: kind, Code: code, Reference: named.Reference}
					notices = append(notices, named)
				}
			}
		}
	}
	return notices
}

// Every notice in every state means something that can be carried out, and the second time nothing, unless a call is due anyway.
func TestEveryNoticeCanComeAnyTimeAndTwice(t *testing.T) {
	t.Parallel()
	for policyName, policy := range map[string]Policy{"told": deferredPolicy(), "asked": testPolicy} {
		for name, s := range anyScenes() {
			t.Run(policyName+" "+name, func(t *testing.T) {
				t.Parallel()
				for _, notice := range anyNotices(s) {
					checkTwice(t, s, notice, policy)
				}
			})
		}
	}
}

func checkTwice(t *testing.T, s Saga, notice providers.Notice, policy Policy) {
	t.Helper()
	h := hear(s, notice, policy.Windows)
	if h.event != nil && h.call != CallNone || !reflect.DeepEqual(h, hear(s, notice, policy.Windows)) {
		t.Fatalf("%+v means %+v, and then something else", notice, h)
	}
	if h.event == nil {
		return
	}
	change, err := Advance(s, *h.event, policy)
	if err != nil {
		t.Fatalf("%+v (%s) cannot be carried out: %v", notice, notice.Outcome.Kind, err)
	}
	if change.After.State == NeedsReview && change.Finding == nil {
		t.Fatalf("%+v leads to a review without a finding", notice)
	}
	checkRepeat(t, stored(change, s.ReadAt), h.event.SubKey, notice, policy)
}

// checkRepeat hears a notice again that brought the saga to where it is.
func checkRepeat(t *testing.T, s Saga, first providers.SubKey, notice providers.Notice, policy Policy) {
	t.Helper()
	again := hear(s, notice, policy.Windows)
	switch kind := notice.Outcome.Kind; {
	case again.event == nil:
		return
	case kind == providers.Busy, kind == providers.Processing, kind == providers.ActionRequired: // nothing final, and so the same again
		return
	case notice.Reference == "" && notice.Key == "" && again.event.SubKey != first:
		return // without any name it is taken for the void that is open; no provider sends such
	}
	repeated, err := Advance(s, *again.event, policy)
	if err != nil || repeated.Stock != StockNone || repeated.Refund != RefundNone || repeated.After.State != s.State {
		t.Fatalf("%+v (%+v) for the second time: %v, from %s to %s, stock %q, refund %q; steps %+v",
			notice, *notice.Outcome, err, s.State, repeated.After.State, repeated.Stock, repeated.Refund, s.Steps)
	}
}

// A hint looks at once where there is something to learn, by the call that is due.
func TestHintsLookAtOnce(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		saga  Saga
		about providers.About
		want  Call
	}{
		"awaited":             {scene(Awaiting, line(StepReserve, StepDone), chargeWith(StepPending)), providers.AboutCharge, CallLookup},
		"held":                {holding(line(StepReserve, StepDone), chargeWith(StepDone)), providers.AboutCapture, CallLookup},
		"charging":            {scenesFor(CallCharge)[1], providers.AboutCharge, CallCharge},
		"void is open":        {scenesFor(CallVoid)[0], providers.AboutCharge, CallVoid},
		"paid":                {scene(Completed, line(StepReserve, StepDone), chargeWith(StepDone)), providers.AboutCharge, CallNone},
		"came to nothing":     {scene(RolledBack, line(StepReserve, StepUndone), chargeWith(StepUndone)), providers.AboutCharge, CallNone},
		"in review":           {scene(NeedsReview, line(StepReserve, StepDone), chargeWith(StepUnknown)), providers.AboutCharge, CallNone},
		"payment wanted":      {scene(Awaiting, line(StepReserve, StepDone), chargeWith(StepFailed)), providers.AboutCharge, CallNone},
		"refunding":           {refundScene(Refunding, StepUnknown), providers.AboutRefund, CallRefund},
		"refund given":        {refundScene(Completed, StepDone), providers.AboutRefund, CallCheckRefund},
		"refund given, other": {refundScene(Completed, StepDone), providers.AboutCharge, CallNone},
		"refund failed":       {refundScene(RolledBack, StepFailed), providers.AboutRefund, CallNone},
	} {
		if h := hear(test.saga, noticeOf(test.about, nil), testPolicy.Windows); h.call != test.want || h.event != nil {
			t.Errorf("%s: %+v, want %q", name, h, test.want)
		}
	}
}

// What does not go together with how the saga ended is for a person; an attempt that was overtaken is nothing.
func TestNoticesThatContradict(t *testing.T) {
	t.Parallel()
	reserved, confirmed := line(StepReserve, StepDone), line(StepConfirm, StepDone)
	first, second := chargeWith(StepFailed), chargeWith(StepDone)
	second.Attempt, second.ProviderReference = 2, "pay_2"
	taken, failed := outcomeOf(providers.Succeeded), providers.Outcome{Kind: providers.Declined, Code: providers.CodeCaptureFailed}
	ofFirst := noticeOf(providers.AboutCharge, &taken)
	ofSecond := providers.Notice{About: providers.AboutCharge, Payment: "pay_2", Outcome: &taken}
	captureFailed, foreign := noticeOf(providers.AboutCapture, &failed), noticeOf(providers.AboutCapture, &taken)
	captureFailed.Reference, foreign.Reference = "capture_1", "capture_9"
	ours := captureOf(1200, StepDone)
	ours.ProviderReference = "capture_1"
	manually := func(s Saga) Saga {
		s.Order.Payment.Capture = CaptureManual
		return s
	}
	open := captureOf(500, StepPending)
	open.ProviderReference = "capture_1"
	refunded := line(StepRefund, StepDone)
	refunded.ProviderReference = "refund_1"
	refundFailed := noticeOf(providers.AboutRefund, &failed)
	refundFailed.Reference = "refund_1"
	for name, test := range map[string]struct {
		saga    Saga
		notice  providers.Notice
		finding string // empty: nothing
	}{
		"paid after it was refused":                {scene(Awaiting, reserved, first), ofFirst, "charged_after_refusal"},
		"an earlier attempt, paid after all":       {scene(Completed, reserved, first, second, confirmed), ofFirst, "charged_after_refusal"},
		"an earlier attempt of an undone order":    {scene(RolledBack, reserved, first, line(StepRelease, StepDone), func() Step { s := second; s.Status = StepPending; return s }()), ofFirst, "charged_after_refusal"},
		"the newest attempt, again":                {scene(Completed, reserved, first, second, confirmed), ofSecond, ""},
		"an earlier attempt, refused again":        {scene(Charging, reserved, first, second), noticeOf(providers.AboutCharge, &failed), ""},
		"another payment":                          {scene(Awaiting, reserved, chargeWith(StepPending)), ofSecond, ""},
		"capture of an order failed":               {scene(Completed, reserved, chargeWith(StepDone), confirmed), captureFailed, providers.CodeCaptureFailed},
		"our capture failed":                       {manually(scene(Completed, reserved, chargeWith(StepDone), ours, confirmed)), captureFailed, providers.CodeCaptureFailed},
		"capture of an undone order failed":        {scene(RolledBack, reserved, chargeWith(StepUndone)), captureFailed, ""},
		"captured by somebody, after the end":      {manually(scene(Completed, reserved, chargeWith(StepDone), ours, confirmed)), foreign, codeCapturedAtProvider},
		"captured by somebody, beside ours":        {holding(reserved, chargeWith(StepDone), open), foreign, codeCapturedAtProvider},
		"captured by somebody, while it is void":   {manually(scene(Compensating, reserved, chargeWith(StepDone), line(StepVoid, StepPending))), foreign, ""},
		"captured as the order is about":           {scene(Completed, reserved, chargeWith(StepDone), confirmed), foreign, ""},
		"refund of an undone order came back":      {scene(RolledBack, reserved, chargeWith(StepUndone), refunded), refundFailed, "refund_failed"},
		"refund by somebody else":                  {scene(Completed, reserved, chargeWith(StepDone), confirmed), refundFailed, ""},
		"nothing that is known of the attempt":     {scene(RolledBack, line(StepReserve, StepFailed)), ofFirst, ""},
		"paid after a void that was carried out":   {scene(RolledBack, reserved, chargeWith(StepUndone), line(StepVoid, StepDone)), ofFirst, ""},
		"paid after a refund that was carried out": {scene(RolledBack, reserved, chargeWith(StepUndone), line(StepRefund, StepDone)), ofFirst, ""},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			l := &life{t: t, policy: deferredPolicy(), saga: test.saga}
			h := l.hears(test.notice)
			if test.finding == "" {
				if !h.nothing() {
					t.Fatalf("means %+v", h.event)
				}
				return
			}
			l.wantsReview(test.finding)
			if again := l.hears(test.notice); !again.nothing() {
				t.Errorf("for the second time it means %+v", again)
			}
		})
	}
}

// What a person does at the provider is taken in.
func TestNoticesOfWhatSomebodyDidAtTheProvider(t *testing.T) {
	t.Parallel()
	taken := providers.Outcome{Kind: providers.Succeeded, Reference: "capture_9", Money: euros(500)}
	capture := noticeOf(providers.AboutCapture, &taken)
	capture.Reference = "capture_9"
	l := heldLife(t, deferredPolicy())
	l.asks(captureRequest("ours", 300, false))
	l.answers(CallCapture, outcomeOf(providers.Succeeded))
	l.hears(capture)
	l.wants(Completed, OrderConfirmed, PaymentCaptured)
	l.wantsMoney(800, 0)
	if h := l.hears(capture); !h.nothing() {
		t.Errorf("once more it means %+v", h)
	}
	early := newLife(t, deferredPolicy(), manual()) // before we know that it is held
	early.answers(CallCharge, outcomeOf(providers.Unknown))
	early.hears(capture)
	early.wants(Completed, OrderConfirmed, PaymentCaptured)
	early.wantsMoney(500, 0)
	gone := outcomeOf(providers.Succeeded)
	canceled := heldLife(t, deferredPolicy())
	canceled.hears(noticeOf(providers.AboutVoid, &gone))
	canceled.wants(RolledBack, OrderCanceled, PaymentVoided)
	expired := heldLife(t, deferredPolicy())
	expired.hears(noticeOf(providers.AboutCharge, &providers.Outcome{Kind: providers.Canceled, Code: providers.CodeAuthorizationExpired}))
	expired.wants(RolledBack, OrderCanceled, PaymentVoided)
}

// The same notices in any order, and any number of times, end in the same.
func TestOrderOfNoticesDoesNotMatter(t *testing.T) {
	t.Parallel()
	paid, gone := providers.Outcome{Kind: providers.Authorized, Money: euros(1200)}, providers.Outcome{Kind: providers.Succeeded, Reference: "made_1"}
	taken := providers.Outcome{Kind: providers.Succeeded, Reference: "made_1", Money: euros(1200)}
	expired := providers.Outcome{Kind: providers.Canceled, Code: providers.CodeAuthorizationExpired}
	named := func(about providers.About, outcome *providers.Outcome) providers.Notice {
		n := noticeOf(about, outcome)
		n.Reference = "made_1"
		return n
	}
	for name, test := range map[string]struct {
		arrange func(rapid.TB) *life
		notices []providers.Notice
		state   State
		payment PaymentStatus
	}{
		"paid": {func(t rapid.TB) *life {
			l := newLife(t, deferredPolicy(), automatic)
			l.answers(CallCharge, outcomeOf(providers.Unknown))
			return l
		}, []providers.Notice{noticeOf(providers.AboutCharge, &paid), named(providers.AboutCapture, &taken)}, Completed, PaymentCaptured},
		"captured, and the rest expires": {func(t rapid.TB) *life {
			l := heldLife(t, deferredPolicy())
			l.asks(captureRequest("all", 0, true))
			l.answers(CallCapture, providers.Outcome{Kind: providers.Processing, Reference: "made_1"})
			return l
		}, []providers.Notice{noticeOf(providers.AboutCharge, &paid), named(providers.AboutCapture, &taken), noticeOf(providers.AboutCharge, &expired)}, Completed, PaymentCaptured},
		"voided": {func(t rapid.TB) *life {
			l := heldLife(t, deferredPolicy())
			l.asks(Request{Kind: RequestCancel})
			l.answers(CallVoid, providers.Outcome{Kind: providers.Processing, Reference: "made_1"})
			return l
		}, []providers.Notice{noticeOf(providers.AboutCharge, &paid), named(providers.AboutVoid, &gone)}, RolledBack, PaymentVoided},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			rapid.Check(t, func(t *rapid.T) {
				l := test.arrange(t)
				all := rapid.Permutation(slices.Concat(test.notices, test.notices)).Draw(t, "notices")
				for _, notice := range all {
					l.hears(notice)
				}
				l.wants(test.state, l.saga.Order.Status, test.payment)
			})
		})
	}
}

// A void that was sent twice, longer apart than the provider remembers its key, is carried out twice there: the first send can be what
// closed the payment, after the second had been refused and another void was written down.
func TestAnEarlierVoidsSuccessEndsTheOpenOne(t *testing.T) {
	t.Parallel()
	reserved, charge := line(StepReserve, StepDone), chargeWith(StepUnknown)
	charge.Outcome = providers.Authorized
	refused, open := line(StepVoid, StepFailed), line(StepVoid, StepPending)
	refused.ProviderReference, open.ProviderReference = "void_1", "void_3"
	open.Attempt, open.Outcome = 2, providers.Processing
	s := scene(Compensating, reserved, charge, refused, open)
	notice := providers.Notice{
		About: providers.AboutVoid, Key: s.Steps[2].SubKey, Payment: "pay_1", Reference: "void_2",
		Outcome: &providers.Outcome{Kind: providers.Succeeded, Reference: "void_2"},
	}
	windows := providers.Windows{NoLookup: true}
	h := hear(s, notice, windows)
	if h.event == nil || h.event.SubKey != s.Steps[3].SubKey {
		t.Fatalf("it was heard as %+v", h)
	}
	refusal := notice
	refusal.Outcome = &providers.Outcome{Kind: providers.Rejected, Code: providers.CodeVoidRefused}
	if h = hear(s, refusal, windows); !h.nothing() {
		t.Errorf("its refusal is no answer to the open one: %+v", h)
	}
	s.Steps[1].StartedAt = noon // another payment than the refused void was about
	s.Steps[3].StartedAt = noon
	if h = hear(s, notice, windows); !h.nothing() {
		t.Errorf("a void of an earlier payment ended that of the newest: %+v", h)
	}
}
