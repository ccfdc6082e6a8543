package saga

import (
	"slices"
	"testing"
	"time"

	"pgregory.net/rapid"

	"paysaga/providers"
)

// A provider that cannot be asked is never asked, whatever the saga (rule of its windows).
func TestNobodyAsksWhereNobodyCan(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		s := scene(rapid.SampledFrom(allStates).Draw(t, "state"))
		s.Kind = rapid.SampledFrom([]Kind{KindOrder, KindRefund}).Draw(t, "kind")
		s.Order.Payment.Capture = rapid.SampledFrom([]CaptureMode{CaptureAutomatic, CaptureManual}).Draw(t, "capture")
		names := []StepName{StepCharge, StepContinue, StepCapture, StepVoid, StepRefund}
		for i, name := range names {
			if i > 0 && rapid.Bool().Draw(t, "without") {
				continue
			}
			step := line(name, rapid.SampledFrom([]StepStatus{StepPending, StepDone, StepFailed, StepUnknown, StepUndone}).Draw(t, "status"))
			step.Outcome = rapid.SampledFrom(append([]providers.OutcomeKind{""}, allOutcomes...)).Draw(t, "outcome")
			step.Code = rapid.SampledFrom([]string{"", codeRefusedAfterSend, providers.CodeServerErrorFinal}).Draw(t, "code")
			step.StartedAt = noon.Add(-time.Duration(rapid.Int64Range(0, int64(60*24*time.Hour)).Draw(t, "age")))
			s.Steps = append(s.Steps, step)
		}
		windows := deferredPolicy().Windows
		if call := Next(s, windows); call == CallLookup || call == CallCheckRefund {
			t.Fatalf("%q is due", call)
		}
		notice := noticeOf(rapid.SampledFrom(allAbouts).Draw(t, "about"), nil)
		if h := hear(s, notice, windows); h.call == CallLookup || h.call == CallCheckRefund {
			t.Fatalf("a hint leads to %q", h.call)
		}
	})
}

// A charge whose end nobody can ask about waits for its notice, and is then undone by our own reference.
func TestUnknownChargeWaitsForItsNotice(t *testing.T) {
	t.Parallel()
	unknown, voided := unknownLife, voidedLife
	paid, refused := providers.Outcome{Kind: providers.Authorized, Money: euros(1200)}, declines()
	gone, nothing := outcomeOf(providers.Succeeded), providers.Outcome{Kind: providers.Rejected, Code: providers.CodeVoidRefused}
	captured := providers.Outcome{Kind: providers.Rejected, Code: providers.CodeAlreadyCaptured, Reference: "void_1"}
	for name, test := range map[string]struct {
		from    func(*testing.T) *life
		notices []providers.Notice
		state   State
		payment PaymentStatus
		next    Call
	}{
		"paid":                        {unknown, []providers.Notice{noticeOf(providers.AboutCharge, &paid)}, Completed, PaymentCaptured, ""},
		"refused":                     {unknown, []providers.Notice{noticeOf(providers.AboutCharge, &refused)}, RolledBack, PaymentDeclined, ""},
		"voided":                      {voided, []providers.Notice{noticeOf(providers.AboutVoid, &gone)}, RolledBack, PaymentVoided, ""},
		"nothing to void":             {voided, []providers.Notice{noticeOf(providers.AboutVoid, &nothing)}, RolledBack, PaymentVoided, ""},
		"captured":                    {voided, []providers.Notice{noticeOf(providers.AboutVoid, &captured)}, Compensating, PaymentCaptured, CallRefund},
		"paid, then voided":           {voided, []providers.Notice{noticeOf(providers.AboutCharge, &paid), noticeOf(providers.AboutVoid, &gone)}, RolledBack, PaymentVoided, ""},
		"voided, then paid":           {voided, []providers.Notice{noticeOf(providers.AboutVoid, &gone), noticeOf(providers.AboutCharge, &paid)}, RolledBack, PaymentVoided, ""},
		"nothing to void, then paid":  {voided, []providers.Notice{noticeOf(providers.AboutVoid, &nothing), noticeOf(providers.AboutCharge, &paid)}, Compensating, PaymentNone, CallVoid},
		"paid, then nothing to void":  {voided, []providers.Notice{noticeOf(providers.AboutCharge, &paid), noticeOf(providers.AboutVoid, &nothing)}, Compensating, PaymentNone, CallVoid},
		"refused, while it is voided": {voided, []providers.Notice{noticeOf(providers.AboutCharge, &refused), noticeOf(providers.AboutVoid, &nothing)}, RolledBack, PaymentVoided, ""},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			l := test.from(t)
			hearEachTwice(l, test.notices)
			if l.saga.State != test.state || l.saga.Order.Payment.Status != test.payment || l.due() != test.next {
				t.Fatalf("state %s, payment %s, %q is due; steps %+v", l.saga.State, l.saga.Order.Payment.Status, l.due(), l.saga.Steps)
			}
			if test.next == CallVoid {
				void := l.wantsStep(StepVoid, 2, StepPending)
				if void.Target != "pay_1" || l.saga.voidRequest(void, l.policy.Windows).Reference != "pay_1" {
					t.Errorf("the second void is of %q", void.Target)
				}
			}
			if effects := []StockEffect{StockReserve, StockRelease}; test.state == RolledBack && !slices.Equal(l.stock, effects) {
				t.Errorf("stock %v", l.stock)
			}
		})
	}
}

func hearEachTwice(l *life, notices []providers.Notice) {
	l.t.Helper()
	for _, notice := range notices {
		if notice.About == providers.AboutVoid {
			notice.Reference = "void_1"
		}
		l.hears(notice)
		l.hears(notice)
	}
}

// unknownLife is an order whose charge nobody can ask about.
func unknownLife(t *testing.T) *life {
	t.Helper()
	l := newLife(t, deferredPolicy(), automatic)
	l.answers(CallCharge, providers.Outcome{Kind: providers.Unknown, Code: providers.CodeServerErrorFinal})
	if l.due() != CallNone || l.change.Pause <= 0 {
		t.Fatalf("%q is due, pause %s", l.due(), l.change.Pause)
	}
	l.sleeps(l.change.Pause)
	l.wants(Charging, OrderProcessing, PaymentNone)
	return l
}

// voidedLife is the same after the wait, with its void on the way.
func voidedLife(t *testing.T) *life {
	t.Helper()
	l := unknownLife(t)
	l.wantsPause(l.saga.step(StepCharge).StartedAt.Add(testPolicy.NoticeWait).Sub(l.change.After.ReadAt))
	l.sleeps(testPolicy.NoticeWait)
	void := l.wantsStep(StepVoid, 1, StepPending)
	for range 2 { // the same in all fields, whatever was learned meanwhile
		request := l.saga.voidRequest(void, l.policy.Windows)
		if request.Reference != "" || request.ChargeKey != SubKey(l.saga.Key, StepCharge, 1) || request.Key != void.SubKey {
			t.Fatalf("voids by %+v", request)
		}
		l.saga.step(StepCharge).ProviderReference = "pay_1"
	}
	l.saga.step(StepCharge).ProviderReference = ""
	l.answers(CallVoid, providers.Outcome{Kind: providers.Processing, Reference: "void_1"})
	if l.due() != CallNone || l.saga.State != Compensating {
		t.Fatalf("state %s, %q is due", l.saga.State, l.due())
	}
	l.wantsPause(testPolicy.RefundDeadline)
	return l
}

// A payment that its customer completes after the order was given up is undone, once, and the stock is not released again.
func TestLatePaymentIsUndone(t *testing.T) {
	t.Parallel()
	l := awaitingLife(t, deferredPolicy(), automatic)
	if l.due() != CallNone {
		t.Fatalf("%q is due", l.due())
	}
	l.wantsPause(testPolicy.AwaitDeadline)
	l.sleeps(testPolicy.AwaitDeadline)
	l.answers(CallVoid, providers.Outcome{Kind: providers.Processing, Reference: "void_1"})
	nothing := providers.Outcome{Kind: providers.Rejected, Code: providers.CodeVoidRefused, Reference: "void_1"}
	refusal := noticeOf(providers.AboutVoid, &nothing)
	refusal.Reference = "void_1"
	l.hears(refusal)
	l.wants(RolledBack, OrderCanceled, PaymentVoided)
	paid := providers.Outcome{Kind: providers.Authorized, Money: euros(1200)}
	l.hears(noticeOf(providers.AboutCharge, &paid))
	l.wants(Compensating, OrderProcessing, PaymentNone)
	for _, again := range []providers.Notice{refusal, noticeOf(providers.AboutCharge, &paid)} {
		if h := l.hears(again); !h.nothing() {
			t.Errorf("%s once more means %+v", again.About, h)
		}
	}
	l.answers(CallVoid, providers.Outcome{Kind: providers.Processing, Reference: "void_2"})
	back := providers.Outcome{Kind: providers.Succeeded, Code: providers.CodeRefunded, Reference: "void_2"}
	undone := noticeOf(providers.AboutVoid, &back)
	undone.Reference = "void_2"
	l.hears(undone)
	l.wants(RolledBack, OrderCanceled, PaymentRefunded)
	l.wantsMoney(1200, 1200)
	l.wantsStock(StockRelease)
	if h := l.hears(noticeOf(providers.AboutCharge, &paid)); !h.nothing() {
		t.Errorf("the payment once more means %+v", h)
	}
}

// A late payment that cannot be undone is for a person.
func TestLatePaymentThatStays(t *testing.T) {
	t.Parallel()
	l := awaitingLife(t, deferredPolicy(), automatic)
	l.asks(Request{Kind: RequestCancel})
	nothing, paid := providers.Outcome{Kind: providers.Rejected, Code: providers.CodeVoidRefused}, outcomeOf(providers.Authorized)
	l.answers(CallVoid, outcomeOf(providers.Processing))
	l.hears(noticeOf(providers.AboutVoid, &nothing))
	l.hears(noticeOf(providers.AboutCharge, &paid))
	l.answers(CallVoid, nothing)
	l.wantsStep(StepVoid, 2, StepPending)
	l.sleeps(refusedVoidWait)
	l.wantsReview("void_refused")
}

// What the provider has taken on waits for its notice up to a bound, and then for a person.
func TestAcceptedCallsWaitForTheirNotices(t *testing.T) {
	t.Parallel()
	accepted := providers.Outcome{Kind: providers.Processing, Reference: "accepted_1"}
	succeeded := providers.Outcome{Kind: providers.Succeeded, Reference: "accepted_1"}
	for name, test := range map[string]struct {
		arrange func(*testing.T) *life
		call    Call
		about   providers.About
		end     State
		overdue string
	}{
		"capture": {func(t *testing.T) *life {
			t.Helper()
			l := heldLife(t, deferredPolicy())
			l.wantsPause(l.policy.Windows.Hold)
			l.asks(captureRequest("all", 0, true))
			return l
		}, CallCapture, providers.AboutCapture, Completed, "capture_overdue"},
		"void": {func(t *testing.T) *life {
			t.Helper()
			l := heldLife(t, deferredPolicy())
			l.asks(Request{Kind: RequestCancel})
			return l
		}, CallVoid, providers.AboutVoid, RolledBack, "void_overdue"},
		"refund that undoes": {func(t *testing.T) *life {
			t.Helper()
			l := heldLife(t, deferredPolicy())
			l.asks(Request{Kind: RequestCancel})
			l.answers(CallVoid, l.coded(providers.Rejected, providers.CodeAlreadyCaptured))
			return l
		}, CallRefund, providers.AboutRefund, RolledBack, "refund_overdue"},
		"refund": {func(t *testing.T) *life {
			t.Helper()
			return refundLife(t, deferredPolicy())
		}, CallRefund, providers.AboutRefund, Completed, "refund_overdue"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			notice := noticeOf(test.about, &succeeded)
			notice.Reference = "accepted_1"
			l := test.arrange(t)
			l.answers(test.call, accepted)
			if l.due() != CallNone || l.change.Pause < testPolicy.RefundDeadline-time.Second || l.change.Pause > testPolicy.RefundDeadline {
				t.Fatalf("%q is due, pause %s", l.due(), l.change.Pause)
			}
			overdue := test.arrange(t)
			overdue.answers(test.call, accepted)
			overdue.sleeps(testPolicy.RefundDeadline)
			overdue.wantsReview(test.overdue)
			l.sleeps(testPolicy.RefundDeadline / 2)
			l.hears(notice)
			if l.saga.State != test.end {
				t.Fatalf("state %s, want %s", l.saga.State, test.end)
			}
			if h := l.hears(notice); !h.nothing() {
				t.Errorf("once more it means %+v", h)
			}
			// The notice may come before the answer does, which is lost.
			early := test.arrange(t)
			early.answers(test.call, outcomeOf(providers.Unknown))
			notice.Key = early.saga.step(stepOf(test.call)).SubKey
			early.hears(notice)
			if early.saga.State != test.end {
				t.Errorf("before the answer: state %s, want %s", early.saga.State, test.end)
			}
		})
	}
}

// Held money is told to be gone while a capture of it is on its way: the capture's own notice decides.
func TestExpiryWhileACaptureIsOnItsWay(t *testing.T) {
	t.Parallel()
	expired := providers.Outcome{Kind: providers.Canceled, Code: providers.CodeAuthorizationExpired}
	taken, refused := outcomeOf(providers.Succeeded), providers.Outcome{Kind: providers.Declined, Code: "capture_refused"}
	for name, test := range map[string]struct {
		ends    *providers.Outcome
		state   State
		payment PaymentStatus
	}{
		"taken":   {&taken, Completed, PaymentCaptured},
		"refused": {&refused, RolledBack, PaymentVoided},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			l := heldLife(t, deferredPolicy())
			l.asks(captureRequest("part", 500, false))
			l.answers(CallCapture, providers.Outcome{Kind: providers.Processing, Reference: "capture_1"})
			l.hears(noticeOf(providers.AboutCharge, &expired))
			l.wants(Awaiting, OrderConfirmed, PaymentAuthorized)
			notice := noticeOf(providers.AboutCapture, test.ends)
			notice.Reference = "capture_1"
			l.hears(notice)
			if l.saga.State != test.state || l.saga.Order.Payment.Status != test.payment {
				t.Errorf("state %s, payment %s", l.saga.State, l.saga.Order.Payment.Status)
			}
		})
	}
}

// A hold that ends at the provider by itself as it is voided here is gone; one that should be there is for a person.
func TestVoidOfAHoldThatIsNotThere(t *testing.T) {
	t.Parallel()
	nothing := providers.Outcome{Kind: providers.Rejected, Code: providers.CodeVoidRefused}
	l := heldLife(t, deferredPolicy())
	l.sleeps(l.policy.Windows.Hold)
	l.answers(CallVoid, outcomeOf(providers.Processing))
	l.hears(noticeOf(providers.AboutVoid, &nothing))
	l.wants(RolledBack, OrderCanceled, PaymentVoided)
	early := func() *life {
		l := heldLife(t, deferredPolicy())
		l.asks(Request{Kind: RequestCancel})
		l.answers(CallVoid, outcomeOf(providers.Processing))
		l.hears(noticeOf(providers.AboutVoid, &nothing))
		l.hears(noticeOf(providers.AboutVoid, &nothing)) // again
		l.wantsStep(StepVoid, 1, StepPending)
		return l
	}
	explained := early()
	expired := providers.Outcome{Kind: providers.Canceled, Code: providers.CodeAuthorizationExpired}
	explained.hears(noticeOf(providers.AboutCharge, &expired))
	explained.wants(RolledBack, OrderCanceled, PaymentVoided)
	unexplained := early()
	unexplained.sleeps(refusedVoidWait)
	unexplained.wantsReview("void_refused")
}
