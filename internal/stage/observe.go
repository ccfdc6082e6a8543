package stage

import (
	"encoding/json"

	"github.com/google/uuid"

	"paysaga/saga"
	"paysaga/saga/fixture"
)

// Observe tells all that an expectation can speak of.
func (w *World) Observe() fixture.Expect {
	seen := fixture.Expect{
		Findings: w.Lines(`SELECT kind FROM findings WHERE resolved_at IS NULL ORDER BY created_at, id`),
		Events:   w.Lines(`SELECT type FROM outbox_events ORDER BY created_at, id`),
		Ledger:   w.ledger(), Calls: w.calls(), Stock: map[string]fixture.StockEnd{}, Answers: map[string]fixture.AnswerEnd{},
	}
	if seen.Findings == nil {
		seen.Findings = []string{}
	}
	if seen.Events == nil {
		seen.Events = []string{}
	}
	for sku := range w.stock {
		stock, err := w.Store().GetStock(w.Context(), Account, sku)
		w.Must(err)
		seen.Stock[sku] = fixture.StockEnd{OnHand: &stock.OnHand, Reserved: &stock.Reserved}
	}
	for _, r := range w.Sent {
		if got, known := w.Got[r.Name()]; known {
			seen.Answers[r.Key] = answerEnd(got)
		}
	}
	if w.Begun() {
		w.observeOrder(&seen)
	}
	return seen
}

func (w *World) observeOrder(seen *fixture.Expect) {
	s := w.Saga()
	payment := s.Order.Payment
	seen.State, seen.Transitions, seen.Steps = fixture.StateName(s.State), w.transitions(s.Key), w.steps(s)
	seen.Order = &fixture.OrderEnd{
		Status: string(s.Order.Status), Payment: string(payment.Status), Captured: &payment.CapturedAmount, Refunded: &payment.RefundedAmount,
	}
	names := map[uuid.UUID]string{}
	for _, r := range w.Sent {
		if r.Endpoint == ToRefund {
			names[r.SagaKey()] = r.Key
		}
	}
	for _, refund := range w.RefundsOf(w.First.ID) {
		if seen.Refunds == nil {
			seen.Refunds = map[string]fixture.RefundEnd{}
		}
		seen.Refunds[names[refund.Key]] = fixture.RefundEnd{
			State: fixture.StateName(refund.State), Status: string(refund.Refund.Status), Amount: &refund.Refund.Amount,
			Transitions: w.transitions(refund.Key), Steps: w.steps(refund),
		}
	}
}

// transitions are the states in which a saga was written, without those in which it stayed.
func (w *World) transitions(key uuid.UUID) []fixture.StateName {
	all := []fixture.StateName{}
	for _, one := range w.Written(key) {
		if to := fixture.StateName(one.To); len(all) == 0 || all[len(all)-1] != to {
			all = append(all, to)
		}
	}
	return all
}

func (w *World) steps(s saga.Saga) []fixture.StepEnd {
	all := make([]fixture.StepEnd, 0, len(s.Steps))
	for _, step := range s.Steps {
		end := fixture.StepEnd{
			Key: w.Derived(string(step.SubKey)), Status: string(step.Status), Outcome: fixture.OutcomeName(step.Outcome), Code: step.Code,
			Provider: fixture.ProviderName(step.Provider),
		}
		if step.Amount > 0 {
			end.Amount = &step.Amount
		}
		if step.Provider != "" {
			sends := int64(step.Sends)
			end.Sends = &sends
		}
		all = append(all, end)
	}
	return all
}

// ledger is what the providers have.
func (w *World) ledger() []fixture.PaymentEnd {
	charges, keys := w.Sandbox.Ledger(), w.SubKeys()
	all := make([]fixture.PaymentEnd, 0, len(charges))
	for _, charge := range charges {
		calls := int64(charge.Calls)
		all = append(all, fixture.PaymentEnd{
			Key: keys[charge.Identifier], Provider: fixture.ProviderName(charge.Provider), Status: charge.Status,
			Held: &charge.Authorized, Captured: &charge.Captured, Refunded: &charge.Refunded, Calls: &calls,
		})
	}
	return all
}

// calls counts what the providers were sent.
func (w *World) calls() map[fixture.CallName]int64 {
	count := map[fixture.CallName]int64{}
	for _, call := range w.Requests() {
		count[fixture.CallName(call.Call)]++
	}
	delete(count, "")
	return count
}

func answerEnd(got Reply) fixture.AnswerEnd {
	status := int64(got.Status)
	end := fixture.AnswerEnd{Status: &status, Problem: got.Problem}
	var body struct {
		Status string `json:"status"`
	}
	if err := json.Unmarshal([]byte(got.Body), &body); err == nil && got.Problem == "" {
		end.About = body.Status
	}
	return end
}
