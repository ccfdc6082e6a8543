package lifecycle_test

import (
	"fmt"
	"testing"
	"time"

	"pgregory.net/rapid"

	"paysaga/internal/stage"
	"paysaga/providers/sandbox"
	"paysaga/saga"
)

// TestInterleavings draws what happens to an order, and in which order: answers that are lost, webhooks that come never, once or
// several times, before or after anything else, a customer and a bank that decide, polls, requests of the shop, deadlines, and
// servers that die at any of their writes. In the end provider and database agree, there is one charge at most, and every
// request was answered once.
func TestInterleavings(t *testing.T) {
	t.Parallel()
	for _, provider := range stage.Providers() {
		t.Run(provider, func(t *testing.T) {
			t.Parallel()
			h := newHouse(t, sandbox.Options{AdyenSeveralCaptures: true})
			rapid.Check(t, func(t *rapid.T) { runSchedule(t, h.fresh(t), provider) })
		})
	}
}

const mostEvents = 12

// schedule is a flow whose next event is drawn.
type schedule struct {
	*flow

	t      *rapid.T
	passed time.Duration
}

func runSchedule(t *rapid.T, h house, provider string) {
	kind := rapid.SampledFrom([]string{stage.Pays, stage.Pays, stage.Declines, stage.Asks, stage.Asks, stage.TakesTime}).Draw(t, "method")
	order := stage.TwoCups(provider, kind)
	if rapid.Bool().Draw(t, "manual capture") && kind != stage.TakesTime { // Stripe holds no bank debits
		order.Payment.Capture = saga.CaptureManual
	}
	if rapid.Bool().Draw(t, "await") {
		order.Payment.OnDecline = saga.DeclineAwaits
	}
	s := &schedule{flow: h.newFlow(order), t: t}
	for range rapid.IntRange(0, 2).Draw(t, "mishaps") {
		s.mishap(sandbox.CallCharge)
	}
	s.Place()
	for range rapid.IntRange(0, mostEvents).Draw(t, "events") {
		s.event()
	}
	bank := s.bankDecision()
	s.loseWebhooks()
	s.Settle(func() { s.Bank(bank) })
	s.checkEnd()
	if t.Failed() {
		t.Fatalf("%s", s.Report())
	}
}

func (s *schedule) event() {
	events := map[string]func(){
		"mishap": s.anyMishap, "repeat": func() { s.Place() }, "webhook": s.webhook, "webhook again": s.webhook, "poll": s.Poll,
		"approve": func() { s.act(func() { s.Customer("approve") }) }, "refuse": func() { s.act(func() { s.Customer("refuse") }) },
		"bank": func() { s.Bank(s.bankDecision()) }, "continue": s.proceed, "pay otherwise": s.payOtherwise, "capture": s.takeHeld, "cancel": s.giveUp,
		"refund": s.giveBack, "deadline": func() { s.EndDeadline() }, "time": s.timePasses,
	}
	names := []string{
		"mishap", "repeat", "webhook", "webhook again", "poll", "approve", "refuse", "bank", "continue", "pay otherwise", "capture", "cancel",
		"refund", "deadline", "time",
	}
	name := rapid.SampledFrom(names).Draw(s.t, "event")
	s.t.Logf("%s", name)
	events[name]()
}

func (s *schedule) anyMishap() {
	s.mishap(rapid.SampledFrom([]sandbox.CallType{
		sandbox.CallCharge, sandbox.CallCharge, sandbox.CallCapture, sandbox.CallVoid, sandbox.CallRefund, sandbox.CallLookup,
	}).Draw(s.t, "call"))
}

// mishap lets the next call of a kind go wrong, its webhook overtake its answer, or the server die. A request makes three tries.
func (s *schedule) mishap(call sandbox.CallType) {
	switch rapid.IntRange(0, 5).Draw(s.t, "mishap") {
	case 0:
		s.Overtake()
		return
	case 1, 2:
		n, after := rapid.IntRange(1, 4).Draw(s.t, "write"), rapid.Bool().Draw(s.t, "after")
		s.t.Logf("  the server dies at write %d, after it: %t", n, after)
		s.Server.DieAt(n, after)
		return
	}
	fault := sandbox.Fault{
		Call: call,
		Kind: rapid.SampledFrom([]sandbox.FaultKind{
			sandbox.FaultResetAfter, sandbox.FaultErrorAfter, sandbox.FaultGarbageAfter, sandbox.FaultTimeoutAfter, sandbox.FaultEmptyAfter,
			sandbox.FaultResetBefore, sandbox.FaultErrorBefore, sandbox.FaultRateLimited, sandbox.FaultInProgress, sandbox.FaultErrorSaved,
		}).Draw(s.t, "fault"),
		Times: rapid.SampledFrom([]int{1, 3, 3}).Draw(s.t, "times"), DelayMS: 1,
	}
	s.t.Logf("  fault %s %s %d times", fault.Call, fault.Kind, fault.Times)
	s.Must(s.Sandbox.AddFault(fault))
}

// timePasses lets more time go by than a customer has, than one of the providers remembers a key, or than Stripe holds money: in all
// less than what Adyen has accepted may take (Policy.RefundDeadline). A webhook of Adyen's takes no days.
func (s *schedule) timePasses() {
	by := rapid.SampledFrom([]time.Duration{time.Hour, 25 * time.Hour, 8 * 24 * time.Hour}).Draw(s.t, "time")
	if s.passed+by > saga.DefaultPolicy().RefundDeadline/2 {
		return
	}
	for _, one := range s.Letters() {
		if one.Provider == stage.Adyen && one.Copies == 0 {
			s.Bring(one, 1)
		}
	}
	s.passed += by
	s.Pass(by)
}

func (s *schedule) webhook() {
	letters := s.Letters()
	if len(letters) == 0 {
		return
	}
	i := rapid.IntRange(0, len(letters)-1).Draw(s.t, "which")
	copies := rapid.IntRange(1, 3).Draw(s.t, "copies")
	s.Bring(letters[i], copies)
}

// act does what needs an order.
func (s *schedule) act(what func()) {
	if s.Begun() {
		what()
	}
}

// request does what the shop does about an order that nobody works on: else it would wait for that.
func (s *schedule) request(what func()) {
	if s.Begun() && s.Free() {
		what()
	}
}

func (s *schedule) bankDecision() string {
	return rapid.SampledFrom([]string{"settle", "settle", "fail"}).Draw(s.t, "bank")
}

func (s *schedule) key(what string) string {
	return fmt.Sprintf("%s-%d", what, rapid.IntRange(1, 2).Draw(s.t, "key"))
}

func (s *schedule) proceed() {
	key := s.key("back")
	s.request(func() { s.Proceed(key) })
}

func (s *schedule) payOtherwise() {
	provider := rapid.SampledFrom(stage.Providers()).Draw(s.t, "provider")
	kind := rapid.SampledFrom([]string{stage.Pays, stage.Declines, stage.Asks}).Draw(s.t, "method")
	key := s.key("other")
	s.request(func() { s.Ask(stage.ToContinue, key, stage.OtherPayment(provider, kind)) })
}

func (s *schedule) takeHeld() {
	key := s.key("capture")
	body := stage.CapturePart(rapid.SampledFrom([]int64{0, 1000, stage.Price}).Draw(s.t, "amount"), rapid.Bool().Draw(s.t, "final"))
	s.request(func() { s.Ask(stage.ToCapture, key, body) })
}

func (s *schedule) giveUp() {
	key := s.key("cancel")
	s.request(func() { s.Ask(stage.ToCancel, key, map[string]any{}) })
}

func (s *schedule) giveBack() {
	key := s.key("refund")
	body := stage.Part(rapid.SampledFrom([]int64{0, 500, stage.Price}).Draw(s.t, "amount"))
	s.request(func() { s.Ask(stage.ToRefund, key, body) })
}

// loseWebhooks decides which are lost. Nothing but a webhook tells how Adyen's calls end, so none of those is.
func (s *schedule) loseWebhooks() {
	for _, one := range s.Letters() {
		if one.Provider != stage.Adyen && one.Copies == 0 {
			one.Lost = rapid.Bool().Draw(s.t, "lost")
		}
	}
}
