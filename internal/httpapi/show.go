package httpapi

import (
	"cmp"
	"maps"
	"time"

	"paysaga/api"
	"paysaga/saga"
)

// showOrder is an order as the API shows it. The payment method is never shown.
func showOrder(s saga.Saga) api.Order {
	o := s.Order
	shown := api.Order{
		ID: o.ID, Status: api.OrderStatus(o.Status), Amount: o.Amount, Currency: o.Currency, Items: []api.Item{},
		Metadata: api.Metadata{}, Payment: showPayment(s), Saga: api.SagaSummary{Key: s.Key, State: api.SagaState(s.State)},
		CreatedAt: o.CreatedAt.UTC(), UpdatedAt: o.UpdatedAt.UTC(),
	}
	for _, item := range o.Items {
		shown.Items = append(shown.Items, api.Item{SKU: item.SKU, Quantity: item.Quantity, UnitAmount: item.UnitAmount})
	}
	maps.Copy(shown.Metadata, o.Metadata)
	if o.Customer != (saga.Customer{}) {
		shown.Customer = &api.Customer{Reference: o.Customer.Reference, Email: o.Customer.Email}
	}
	if action := o.Payment.NextAction; action != nil {
		shown.NextAction = &api.NextAction{
			Type: api.NextActionType(action.Type), ClientSecret: action.ClientSecret, URL: action.URL, Action: action.Action,
		}
	}
	if s.State == saga.Awaiting {
		shown.DeadlineAt = utc(s.DeadlineAt)
	}
	return shown
}

func showPayment(s saga.Saga) api.Payment {
	p := s.Order.Payment
	shown := api.Payment{
		Provider: p.Provider, Capture: api.CaptureMode(cmp.Or(p.Capture, saga.CaptureAutomatic)), Status: api.PaymentStatus(p.Status),
		ProviderReference: p.ProviderReference,
		CapturedAmount:    p.CapturedAmount, CapturableAmount: s.Capturable(), RefundedAmount: p.RefundedAmount,
		Identifier: chargeIdentifier(s),
	}
	if p.Decline != nil {
		shown.Decline = &api.Decline{Code: p.Decline.Code, Bank: p.Decline.Bank, Hard: p.Decline.Hard}
	}
	return shown
}

// chargeIdentifier is the sub-key of the newest charge, or the one that a charge would have had.
func chargeIdentifier(s saga.Saga) string {
	if charge := s.Newest(saga.StepCharge); charge != nil {
		return string(charge.SubKey)
	}
	return string(saga.SubKey(s.Key, saga.StepCharge, 1))
}

func showTimeline(t saga.Timeline) api.Saga {
	s := t.Saga
	shown := api.Saga{
		Key: s.Key, State: api.SagaState(s.State), OrderID: s.Order.ID, Generation: s.Generation, Attempts: s.Drives,
		DeadlineAt: utc(s.DeadlineAt), NextAttemptAt: utc(s.NextAt), CreatedAt: s.CreatedAt.UTC(), UpdatedAt: s.UpdatedAt.UTC(),
		Steps: showSteps(s), Findings: []api.Finding{},
	}
	for _, finding := range t.Findings {
		shown.Findings = append(shown.Findings, api.Finding{
			ID: finding.ID, Kind: finding.Kind, Detail: finding.Detail, CreatedAt: finding.CreatedAt.UTC(),
		})
	}
	return shown
}

func showSteps(s saga.Saga) []api.Step {
	shown := make([]api.Step, 0, len(s.Steps))
	for _, step := range s.Steps {
		shown = append(shown, api.Step{
			Name: string(step.Name), Attempt: step.Attempt, Status: api.StepStatus(step.Status), SubKey: string(step.SubKey),
			Provider: step.Provider, ProviderReference: step.ProviderReference, Outcome: string(step.Outcome), Code: step.Code,
			StartedAt: utc(step.StartedAt), FinishedAt: utc(step.FinishedAt), SentCount: step.Sends,
		})
	}
	return shown
}

// utc keeps the zero time zero, which the contract leaves out.
func utc(t time.Time) time.Time {
	if t.IsZero() {
		return time.Time{}
	}
	return t.UTC()
}
