package saga

import (
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"testing"
	"time"

	"pgregory.net/rapid"

	"paysaga/providers"
)

// simulation is one order with its providers, its customer and its shop, all of whom do what chance tells them.
type simulation struct {
	*life

	t      *rapid.T
	banks  map[string]*simulated
	due    time.Time // when the saga is to be taken up; zero when nobody must
	sent   []sentNotice
	asked  int
	faulty bool // whether calls can fail and servers die
}

type sentNotice struct {
	provider string
	notice   providers.Notice
}

const (
	// mostActions is how much befalls an order before all comes to rest, and mostRounds how long that may take.
	mostActions = 40
	mostRounds  = 3000
)

// Whatever comes in whatever order, an order ends as the provider has it: with at most one charge that lives, the same money on both
// sides, and each piece of stock sold or released once (I1, I4, I5, I6, I7).
func TestAnyInterleavingEndsAsTheProviderHasIt(t *testing.T) {
	t.Parallel()
	for _, provider := range simulatedKinds {
		for _, capture := range []CaptureMode{CaptureAutomatic, CaptureManual} {
			for _, onDecline := range []OnDecline{DeclineRollsBack, DeclineAwaits} {
				payment := Payment{Provider: provider, Method: "pm_1", Capture: capture, OnDecline: onDecline}
				t.Run(fmt.Sprint(provider, " ", capture, " ", onDecline), func(t *testing.T) {
					t.Parallel()
					rapid.Check(t, func(t *rapid.T) {
						s := newSimulation(t, payment)
						for range rapid.IntRange(0, mostActions).Draw(t, "actions") {
							s.act()
						}
						s.rest()
						s.check()
					})
				})
			}
		}
	}
}

func newSimulation(t *rapid.T, payment Payment) *simulation {
	t.Helper()
	s := &simulation{t: t, faulty: true, banks: map[string]*simulated{}}
	for _, kind := range simulatedKinds {
		s.banks[kind] = newSimulated(t, kind, func(n providers.Notice) { s.send(kind, n) })
	}
	policy := testPolicy
	policy.MaxFailures, policy.MaxUnrecorded = 1<<20, 1<<20
	policy.RefundDeadline = 1 << 62 // providers end everything here
	s.life = newLife(t, policy, payment)
	s.due = s.saga.ReadAt
	return s
}

func (s *simulation) bank() *simulated { return s.banks[s.saga.Order.Payment.Provider] }

// send keeps up to three copies of a notice. Only a provider that can be asked may lose one.
func (s *simulation) send(provider string, n providers.Notice) {
	least := 0
	if n.Outcome != nil {
		least = 1
	}
	for range rapid.IntRange(least, 3).Draw(s.t, "copies") {
		s.sent = append(s.sent, sentNotice{provider, n})
	}
}

// act lets one thing happen.
func (s *simulation) act() {
	switch rapid.SampledFrom([]string{"wake", "wake", "wake", "notice", "notice", "customer", "settle", "time", "continue", "another", "cancel", "capture", "reconcile", "retry"}).
		Draw(s.t, "action") {
	case "wake":
		s.wake()
	case "notice":
		s.hearOne()
	case "customer":
		s.customer()
	case "settle":
		s.bank().settle(s.t)
	case "time":
		s.pass(rapid.SampledFrom([]time.Duration{time.Second, time.Minute, 10 * time.Minute, time.Hour, 6 * time.Hour, 24 * time.Hour, 7 * 24 * time.Hour}).Draw(s.t, "time"))
	case "continue":
		details := rapid.SampledFrom([]string{`"good"`, `"bad"`, `"other"`}).Draw(s.t, "details")
		s.ask(Request{Kind: RequestContinue, Details: json.RawMessage(details)})
	case "another":
		provider := rapid.SampledFrom(simulatedKinds).Draw(s.t, "provider")
		s.ask(Request{Kind: RequestContinue, Payment: &NewPayment{Provider: provider, Method: "pm_2"}})
	case "cancel":
		s.ask(Request{Kind: RequestCancel})
	case "reconcile":
		s.reconcile()
	case "retry":
		s.retry()
	case "capture":
		s.asked++
		s.ask(captureRequest(strconv.Itoa(s.asked), rapid.SampledFrom([]int64{0, 300, 500, 1200, 1300}).Draw(s.t, "amount"), rapid.Bool().Draw(s.t, "final")))
	}
}

func (s *simulation) pass(d time.Duration) {
	s.saga.ReadAt = s.saga.ReadAt.Add(d)
	for _, kind := range simulatedKinds {
		s.banks[kind].pass(s.saga.ReadAt)
	}
}

func (s *simulation) customer() {
	for _, kind := range simulatedKinds {
		for _, p := range s.banks[kind].Payments() {
			told := s.saga.Order.Payment.NextAction
			p.Asked = p.Asked || told != nil && told.URL != "" && s.saga.chargeReference() == p.Reference
			if rapid.Bool().Draw(s.t, "acts") {
				s.banks[kind].act(s.t, p)
			}
		}
	}
}

// wake is the recovery worker, or the server that took the order, if it is time.
func (s *simulation) wake() {
	if s.due.IsZero() || s.saga.ReadAt.Before(s.due) {
		return
	}
	s.drive(heard{})
}

// hearOne brings one of the notices that are under way, as the worker of the inbox does.
func (s *simulation) hearOne() {
	if len(s.sent) == 0 {
		return
	}
	i := rapid.IntRange(0, len(s.sent)-1).Draw(s.t, "notice")
	one := s.sent[i]
	if !s.concerns(one) || s.saga.State == NeedsReview {
		s.sent = slices.Delete(s.sent, i, i+1)
		return
	}
	s.policy.Windows = s.bank().windows
	h := hear(s.saga, one.notice, s.policy.Windows)
	if h.nothing() || s.drive(h) {
		s.sent = slices.Delete(s.sent, i, i+1)
	}
}

// concerns is how the store finds a notice's saga: by a step's reference, the charge's, or our key. One that came first waits.
func (s *simulation) concerns(one sentNotice) bool {
	return slices.ContainsFunc(s.saga.Steps, func(step Step) bool {
		return step.Provider == one.provider && (step.SubKey == one.notice.Key || step.ProviderReference != "" &&
			(step.ProviderReference == one.notice.Reference || step.Name == StepCharge && step.ProviderReference == one.notice.Payment))
	})
}

// reconcile looks how the charge stands, and brings that to the saga.
func (s *simulation) reconcile() {
	s.policy.Windows = s.bank().windows
	if s.policy.Windows.NoLookup || s.saga.State == NeedsReview || s.saga.step(StepCharge) == nil {
		return
	}
	outcome := s.call(CallLookup).Outcome
	notice := providers.Notice{About: providers.AboutCharge, Payment: outcome.Reference, Outcome: &outcome}
	if h := hear(s.saga, notice, s.policy.Windows); !h.nothing() {
		s.drive(h)
	}
}

// retry takes the saga up where it rests. Of those in review TestDecisionsLeadToAnEnd tells.
func (s *simulation) retry() {
	if s.saga.State != NeedsReview {
		s.bring(Event{Kind: Decided, Decision: &Decision{Resolution: ResolveRetry, Actor: Repairer}})
	}
}

// ask is a request of the shop.
func (s *simulation) ask(r Request) { s.bring(Event{Kind: Asked, Request: &r}) }

// bring is what comes while nobody drives the saga, and may be refused.
func (s *simulation) bring(e Event) {
	s.policy.Windows = s.bank().windows
	change, err := Advance(s.saga, e, s.policy)
	if _, refused := errors.AsType[*RefusedError](err); refused {
		return
	}
	if err != nil {
		s.t.Fatalf("%+v in state %s: %v", e, s.saga.State, err)
	}
	s.write(change)
	if !s.rests() {
		s.drive(heard{})
	}
}

// rests tells whether the last change gave the lease back, and until when.
func (s *simulation) rests() bool {
	switch {
	case s.saga.State.Ended():
		s.due = time.Time{}
	case s.change.Pause > 0:
		s.due = s.saga.ReadAt.Add(s.change.Pause)
	default:
		return false
	}
	s.saga.Unrecorded = 0
	return true
}

// drive is the runner's: turns until the saga rests, or until the server dies. It tells whether it came to an end.
func (s *simulation) drive(first heard) bool {
	s.saga.Unrecorded++
	for range maxTurns {
		s.policy.Windows = s.bank().windows
		event, call := Event{Kind: Resume}, s.life.due()
		if !first.nothing() {
			call = first.call
		}
		if first.event != nil {
			event = *first.event
		}
		first = heard{}
		if call != CallNone {
			event = s.call(call)
		}
		if s.faulty && rapid.IntRange(0, 19).Draw(s.t, "death") == 0 {
			s.due = s.saga.ReadAt.Add(30 * time.Second)
			return false
		}
		s.apply(event)
		if s.rests() {
			return true
		}
	}
	s.t.Fatalf("no rest in %d turns; state %s, steps %+v", maxTurns, s.saga.State, s.saga.Steps)
	return false
}

// call makes a provider call whose answer, or which itself, may be lost.
func (s *simulation) call(call Call) Event {
	bank := s.banks[s.saga.step(stepOf(call)).Provider]
	if bank.windows.NoLookup && (call == CallLookup || call == CallCheckRefund) {
		s.t.Fatalf("a %s call to a provider that cannot be asked", call)
	}
	fault := "none"
	if s.faulty {
		fault = rapid.SampledFrom([]string{"none", "none", "none", "none", "lost before", "lost after", "error before", "error after", "busy"}).Draw(s.t, "fault")
	}
	event := Event{Kind: Answered, Call: call, Sends: 1}
	if fault == "none" || fault == "lost after" || fault == "error after" {
		s.onlyOneLives(call)
		event.Outcome = bank.dispatch(&s.saga, call)
	}
	switch fault {
	case "lost before", "lost after":
		event.Outcome = providers.Outcome{Kind: providers.Unknown, Code: "timeout"}
	case "error before", "error after":
		event.Outcome = providers.Outcome{Kind: providers.Unknown, Code: providers.CodeServerErrorFinal}
	case "busy":
		event.Outcome = providers.Outcome{Kind: providers.Busy}
	}
	return event
}

// onlyOneLives checks, before a charge is sent, that no other one has or can still get money (I1).
func (s *simulation) onlyOneLives(call Call) {
	for kind, bank := range s.banks {
		for _, p := range bank.Payments() {
			again := p.Key == s.saga.step(StepCharge).SubKey && bank.now.Sub(p.MadeAt) < bank.windows.Repost
			if call == CallCharge && !again && bank.Live(p) {
				s.t.Fatalf("charges while payment %+v at the %s provider lives", *p, kind)
			}
		}
	}
}

// rest lets everything come to its end: no call fails any more, and every notice that was not lost arrives.
func (s *simulation) rest() {
	s.faulty = false
	for range mostRounds {
		for _, kind := range simulatedKinds {
			s.banks[kind].settle(s.t)
			for _, p := range s.banks[kind].Payments() {
				s.banks[kind].Decide(p, rapid.Bool().Draw(s.t, "decides well"))
			}
		}
		switch {
		case len(s.sent) > 0:
			s.hearOne()
		case !s.due.IsZero():
			s.pass(max(s.due.Sub(s.saga.ReadAt), 0))
			s.wake()
		case s.settled():
			return
		}
	}
	s.t.Fatalf("no rest after %d rounds; state %s, steps %+v", mostRounds, s.saga.State, s.saga.Steps)
}

func (s *simulation) settled() bool {
	for _, bank := range s.banks {
		if len(bank.pending) > 0 || bank.moving() {
			return false
		}
	}
	return true
}

func (s *simulation) check() {
	captured, refunded, held := s.truth()
	payment := s.saga.Order.Payment
	if s.saga.State == NeedsReview {
		s.checkReview()
		return
	}
	if payment.CapturedAmount-payment.RefundedAmount != captured-refunded {
		s.t.Fatalf("%s: here %d are captured and %d refunded, at the providers %d and %d; steps %+v",
			s.saga.State, payment.CapturedAmount, payment.RefundedAmount, captured, refunded, s.saga.Steps)
	}
	want := map[State][]StockEffect{Completed: {StockReserve, StockSell}, RolledBack: {StockReserve, StockRelease}}[s.saga.State]
	if !slices.Equal(s.stock, want) {
		s.t.Fatalf("%s with stock effects %v", s.saga.State, s.stock)
	}
	agrees := captured == refunded && held == 0
	if s.saga.State == Completed {
		agrees = captured > 0 && refunded == 0 && payment.Status == PaymentCaptured
	}
	if !agrees {
		s.t.Fatalf("%s, payment %s, with %d captured, %d refunded and %d held at the providers; steps %+v",
			s.saga.State, payment.Status, captured, refunded, held, s.saga.Steps)
	}
}

// truth is the money at all providers.
func (s *simulation) truth() (captured, refunded, held int64) {
	for _, bank := range s.banks {
		for _, p := range bank.Payments() {
			captured, refunded, held = captured+p.Taken, refunded+p.Returned, held+p.OnHold
		}
	}
	return captured, refunded, held
}

// checkReview: only four things are for a person here, each of which nobody can know.
func (s *simulation) checkReview() {
	if len(s.found) != 1 {
		s.t.Fatalf("in review because of %v", s.found)
	}
	step := s.saga.openStep(StepCapture)
	if step == nil {
		step = s.saga.openStep(StepRefund)
	}
	if step != nil && (s.found[0] == string(step.Name)+"_overdue" || s.found[0] == "unexpected_outcome") {
		if !s.bank().received[step.SubKey] {
			return // it must not be sent again, and was never received
		}
	}
	if captured, refunded, _ := s.truth(); s.bank().voidsTwice && captured == refunded {
		return // where nobody can ask, the two answers to one void can contradict each other
	}
	if s.found[0] != "capture_unclear" && s.found[0] != codeRefusedAfterSend {
		s.t.Fatalf("in review because of %v; steps %+v", s.found, s.saga.Steps)
	}
}
