package stage

import (
	"bytes"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"time"

	"paysaga/providers"
	"paysaga/providers/sandbox"
	"paysaga/saga"
	"paysaga/saga/fixture"
)

// World is a stage on which fixtures are played, one after the other. It is for one goroutine.
type World struct {
	*Flow

	stage                  *Stage
	began                  time.Time
	toldCalls, toldChanges int          // how many of each News has told of
	shown                  saga.Payment // when its customer last had to act
	doomed                 int          // servers that will die like the one before
	doom                   func()
	placed                 Reply    // what placing the order was answered last
	wrong                  []string // what the shop was answered otherwise than before
}

// NewWorld makes one of a stage.
func (s *Stage) NewWorld() *World {
	s.steady.Store(true)
	return &World{stage: s}
}

var _ fixture.World = (*World)(nil)

// Open empties the world, fills its stock, and makes the order ready to be placed.
func (w *World) Open(f *fixture.Fixture) {
	w.Flow = nil
	fresh := w.stage.Fresh(w.stage.Reporter)
	fresh.PutStock(f.Stock)
	w.doomed, w.shown, w.placed = 0, saga.Payment{}, Reply{}
	w.wrong, w.toldCalls, w.toldChanges = nil, 0, 0
	w.Flow = fresh.NewFlowOf(bodyOf(fresh, f.Order))
	w.began = fresh.Now()
}

// ReportTo has another reporter told from now on.
func (w *World) ReportTo(r Reporter) { w.stage.Reporter = r }

// bodyOf is a value as the API takes it.
func bodyOf(s *Stage, value any) map[string]any {
	s.Helper()
	text, err := json.Marshal(value)
	s.Must(err)
	decoder := json.NewDecoder(bytes.NewReader(text))
	decoder.UseNumber() // amounts stay whole numbers
	var body map[string]any
	s.Must(decoder.Decode(&body))
	return body
}

// Since is how much time has passed.
func (w *World) Since() time.Duration { return w.Now().Sub(w.began) }

// Script puts lines after those that are in force.
func (w *World) Script(lines []fixture.Line) {
	for _, line := range lines {
		times := max(1, int(line.Times))
		if line.Fault != "" {
			w.Must(w.Sandbox.AddFault(sandbox.Fault{
				Provider: string(line.Provider), Call: sandbox.CallType(line.Call), Kind: sandbox.FaultKind(line.Fault), Times: times, DelayMS: 1,
			}))
			continue
		}
		told := providers.Outcome{
			Kind: providers.OutcomeKind(line.Answer.Outcome), Code: line.Answer.Code, RetryAfter: time.Duration(line.Answer.RetryAfter),
		}
		if line.Answer.Amount > 0 {
			told.Money = providers.Money{Amount: line.Answer.Amount, Currency: fmt.Sprint(w.First.Body["currency"])}
		}
		if told.Kind == providers.Declined {
			told.Decline = &providers.Decline{Code: told.Code}
		}
		lie := Lie{
			Call: saga.Call(line.Call), Provider: string(line.Provider), Outcome: told, Unsent: line.Answer.Unsent, Times: times,
			Skip: int(line.After),
		}
		if line.For > 0 {
			lie.Until = w.Now().Add(time.Duration(line.For))
		}
		w.Tell(lie)
	}
}

// Mend ends all that goes wrong at the providers.
func (w *World) Mend() {
	w.Sandbox.ClearFaults()
	w.tamper.clear()
}

// Customer decides on what the shop shows, or what it has shown last: the page may be open still.
func (w *World) Customer(act fixture.CustomerAct) {
	w.notice()
	if w.shown.NextAction != nil {
		w.details = w.Decide(w.shown.Provider, w.shown.ProviderReference, w.shown.NextAction, string(act))
	}
}

// notice remembers what the shop shows its customer.
func (w *World) notice() {
	if !w.Begun() {
		return
	}
	if payment := w.Saga().Order.Payment; payment.NextAction != nil && payment.NextAction.Type != saga.NextActionPaymentMethod {
		w.shown = payment
	}
}

// Bank decides about what takes its time.
func (w *World) Bank(act fixture.BankAct) {
	decision, about, _ := strings.Cut(string(act), "_")
	switch about {
	case "refunds":
		w.bankOnRefunds(decision)
	case "captures":
		w.bankOnPayments(decision, true)
	default:
		w.bankOnPayments(decision, false)
	}
}

func (w *World) bankOnPayments(decision string, captured bool) {
	for _, charge := range w.Sandbox.Ledger() {
		if captured == (charge.Captured > 0) {
			w.Control("payments/" + charge.ID + "/" + decision)
		}
	}
}

func (w *World) bankOnRefunds(decision string) {
	if !w.Begun() {
		return
	}
	for _, s := range append(w.RefundsOf(w.First.ID), w.Saga()) {
		for _, step := range s.Steps {
			if step.Name == saga.StepRefund && step.ProviderReference != "" {
				w.Control("refunds/" + step.ProviderReference + "/" + decision)
			}
		}
	}
}

// AtProvider lets something happen at the provider of the order's payment that nobody here asked for.
func (w *World) AtProvider(what fixture.AtProvider) {
	w.mustHaveBegun()
	payment := w.Saga().Order.Payment
	body, err := json.Marshal(map[string]any{
		"kind": what.Does, "provider": payment.Provider, "id": payment.ProviderReference, "amount": what.Amount,
	})
	w.Must(err)
	answer := httptest.NewRecorder()
	w.Sandbox.ServeHTTP(answer, httptest.NewRequestWithContext(w.Context(), http.MethodPost, "/_sandbox/divergence", bytes.NewReader(body)))
	if answer.Code != http.StatusCreated {
		w.Fatalf("at the provider: %s: %d %s", what.Does, answer.Code, answer.Body)
	}
}

// Webhooks brings those that were sent so far, or loses them.
func (w *World) Webhooks(what fixture.Webhooks) {
	if what.Overtake {
		w.Overtake()
		return
	}
	chosen := slices.DeleteFunc(w.Letters(), func(one *Letter) bool {
		return (one.Copies > 0 || one.Lost) && !what.Again || !strings.Contains(string(one.Body), what.Type)
	})
	switch {
	case what.Reverse:
		slices.Reverse(chosen)
	case len(chosen) == 0:
	case what.Which == "first":
		chosen = chosen[:1]
	case what.Which == "last":
		chosen = chosen[len(chosen)-1:]
	}
	for _, one := range chosen {
		if one.Lost = what.Lost; one.Lost {
			continue
		}
		w.Bring(one, max(1, int(what.Copies)))
	}
}

// PassAtProvider lets time pass at the provider only.
func (w *World) PassAtProvider(by time.Duration) { w.PassAtProviders(by) }

// mostWork bounds the rounds of Work. A provider that is away for a day is asked every few minutes.
const mostWork = 3000

// Work lets time pass while webhooks come and what is due is driven.
func (w *World) Work(by time.Duration) {
	until := w.Now().Add(by)
	for range mostWork {
		for _, one := range w.Letters() {
			if one.Copies == 0 && !one.Lost {
				w.Stage.Bring(one)
			}
		}
		w.revive()
		w.Server.Apply()
		w.revive()
		w.Server.Recover()
		w.revive()
		w.notice()
		left := until.Sub(w.Now())
		switch due, open := w.nextDue(); {
		case w.undelivered():
		case left <= 0:
			return
		case open:
			w.Pass(min(left, max(due, firstStep)))
		default:
			w.Pass(left)
		}
	}
	w.Fatalf("there is work without an end: %s", w.Report())
}

// Recover lets time pass until something is due, and drives it.
func (w *World) Recover() {
	if due, open := w.nextDue(); open {
		w.Pass(max(due, 0))
	}
	w.Server.Recover()
	w.revive()
}

// Deadline lets time pass until the order's deadline, and drives what is due.
func (w *World) Deadline() {
	w.mustHaveBegun()
	s := w.Saga()
	if s.DeadlineAt.IsZero() {
		w.Fatalf("the order has no deadline; it is %s", s.State)
	}
	const margin = time.Second // the pause until the deadline begins with the write, and so ends a little after it
	w.Pass(max(0, s.DeadlineAt.Sub(s.ReadAt)) + margin)
	w.Server.Recover()
	w.revive()
}

// mustHaveBegun ends the play where there is no order, and tells why.
func (w *World) mustHaveBegun() {
	if !w.Begun() {
		w.Fatalf("there is no order: placing it was answered %s %s", w.placed, w.placed.Why)
	}
}

// Crash lets the server die at one of its writes.
func (w *World) Crash(at fixture.Break) {
	w.doomed, w.doom = max(1, int(at.Servers))-1, func() { w.Server.DieAt(int(at.Write), at.When == "after") }
	w.doom()
}

// revive puts another server in place of one that has died. It can be doomed as well.
func (w *World) revive() {
	if !w.Server.Dead() {
		return
	}
	w.Flow.revive()
	if w.doomed > 0 {
		w.doomed--
		w.doom()
	}
}

// Cut breaks the server's connection to the database at one of its writes.
func (w *World) Cut(at fixture.Break) { w.Server.CutAt(int(at.Write), at.When == "after") }

// LoseReservation is what a person does to the order's reservation by hand.
func (w *World) LoseReservation() {
	w.Exec(`UPDATE stock s SET reserved = s.reserved - r.quantity FROM reservations r
		WHERE r.account_id = s.account_id AND r.sku = s.sku AND r.status = 'held'`)
	w.Exec(`UPDATE reservations SET status = 'released', ended_at = now() WHERE status = 'held'`)
}

// News are what the providers were asked, and how sagas moved, since it was last called.
func (w *World) News() (lines []string) {
	keys := w.SubKeys()
	requests := w.Requests()
	type news struct {
		at   time.Time
		text string
	}
	var all []news
	for _, call := range requests[min(w.toldCalls, len(requests)):] {
		if call.Call == "" || call.Call == sandbox.CallToken {
			continue
		}
		text := fmt.Sprintf("%s %s %s: %d", call.Provider, call.Call, keys[call.Identifier], call.Status)
		if call.Fault != "" {
			text += " (" + string(call.Fault) + ")"
		}
		all = append(all, news{call.At, text})
	}
	written := w.history.all()
	for _, one := range written[min(w.toldChanges, len(written)):] {
		if one.From == one.To && one.Event == "" {
			continue
		}
		text := fmt.Sprintf("%s: %s → %s %s", w.Derived(one.Saga.String()), one.From, one.To, one.Event)
		all = append(all, news{one.At, strings.TrimSpace(text)})
	}
	w.toldCalls, w.toldChanges = len(requests), len(written)
	slices.SortStableFunc(all, func(a, b news) int { return a.at.Compare(b.at) })
	for _, one := range all {
		since := max(one.at.Sub(w.began), 0).Truncate(time.Second)
		lines = append(lines, fmt.Sprintf("  +%-10s %s", fixture.Duration(since), one.text))
	}
	return lines
}

// Settle brings all webhooks that are not lost, and lets time pass until nothing is open.
func (w *World) Settle() { w.Flow.Settle(func() {}) }

// complaints collects errors in place of reporting them.
type complaints struct {
	Reporter

	all []string
}

// Error collects.
func (c *complaints) Error(arguments ...any) { c.all = append(c.all, fmt.Sprint(arguments...)) }

// Errorf collects.
func (c *complaints) Errorf(format string, arguments ...any) {
	c.Error(fmt.Sprintf(format, arguments...))
}

// Check gives each invariant that does not hold.
func (w *World) Check() []string {
	collected := &complaints{Reporter: w.Reporter, all: slices.Clone(w.wrong)}
	stage, flow := *w.Stage, *w.Flow
	stage.Reporter, flow.Stage = collected, &stage
	flow.CheckEnd()
	if untold := w.Untold(); untold > 0 {
		collected.Errorf("%d answers of the provider's script were not asked for", untold)
	}
	return collected.all
}
