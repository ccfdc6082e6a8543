package httpapi_test

import (
	"context"
	"net/http"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"github.com/google/uuid"

	"paysaga/api"
	"paysaga/providers"
	"paysaga/saga"
)

// withCheck puts a step before the charge that always has the same outcome.
func withCheck(outcome providers.Outcome) func(*saga.Config) {
	return func(c *saga.Config) {
		c.Policy.Steps = saga.Definition{
			saga.Reserve,
			{Name: "fraud_check", Do: func(context.Context, saga.StepRequest) providers.Outcome { return outcome }},
			saga.Charge, saga.Confirm,
		}
	}
}

// theOnlyOrder is the id of the only order that there is, as a refusal does not tell it.
func (s *shop) theOnlyOrder(t *testing.T) uuid.UUID {
	t.Helper()
	list := decoded[api.OrderList](t, s.get(t, "/v1/orders"), http.StatusOK)
	if len(list.Data) != 1 {
		t.Fatalf("orders %+v", list.Data)
	}
	return list.Data[0].ID
}

func stepsOf(steps []api.Step) string {
	told := make([]string, len(steps))
	for i, step := range steps {
		told[i] = step.Name + " " + string(step.Status)
	}
	return strings.Join(told, ", ")
}

// An order that a step refuses before the charge is shown whole, to the shop and to an operator, although it has no charge.
func TestSagaWithoutACharge(t *testing.T) {
	t.Parallel()
	s := newShop(t, withCheck(providers.Outcome{Kind: providers.Declined, Code: "too_risky"}))
	s.place(t, newKeyText(), theOrder).problem(t, http.StatusUnprocessableEntity, "step-refused")
	id := s.theOnlyOrder(t)
	order, timeline := s.orderNow(t, "/v1/orders/"+id.String()), decoded[api.Saga](t, s.get(t, "/v1/orders/"+id.String()+"/saga"), http.StatusOK)
	if order.Status != api.OrderStatusFailed || order.Payment.ProviderReference != "" || order.Payment.Decline != nil {
		t.Errorf("order %+v", order)
	}
	shown := s.sagaNow(t, id)
	const steps = "reserve undone, fraud_check failed, release done"
	if shown.State != api.SagaStateRolledBack || stepsOf(shown.Steps) != steps || stepsOf(timeline.Steps) != steps || len(shown.Decisions) > 0 {
		t.Errorf("saga %+v, timeline %s", shown, stepsOf(timeline.Steps))
	}
	want := api.Step{
		Name: "fraud_check", Attempt: 1, Status: api.StepStatusFailed, SubKey: id.String() + "_fraud_check", Outcome: "declined", Code: "too_risky",
		SentCount: 1,
	}
	if diff := cmp.Diff(want, shown.Steps[1], cmpopts.IgnoreFields(api.Step{}, "StartedAt", "FinishedAt")); diff != "" {
		t.Errorf("step (-want +got):\n%s", diff)
	}
	s.decide(t, id, "retry", `{"reason":"why"}`).checkRefusal(t, http.StatusConflict, "order-over", "")
	if charges := s.sandbox.Ledger(); len(charges) > 0 {
		t.Errorf("charges %+v", charges)
	}
}

// A step before the charge of which nobody knows the end brings the order to a person, who sees it without a charge and gives it up.
func TestSagaWithoutAChargeInReview(t *testing.T) {
	t.Parallel()
	s := newShop(t, withCheck(providers.Outcome{Kind: providers.NotFound}))
	s.place(t, newKeyText(), theOrder)
	id := s.theOnlyOrder(t)
	list := decoded[api.SagaList](t, s.getAs(t, s.operator, "/v1/sagas?state=needs_review"), http.StatusOK)
	if len(list.Data) != 1 || list.Data[0].Key != id || len(list.Data[0].Findings) != 1 {
		t.Fatalf("in review %+v", list.Data)
	}
	shown := s.sagaNow(t, id)
	if got := stepsOf(shown.Steps); shown.State != api.SagaStateNeedsReview || !strings.HasPrefix(got, "reserve done, fraud_check ") {
		t.Errorf("saga %s with %s", shown.State, got)
	}
	if diff := cmp.Diff([]api.DecisionName{"retry", "nothing_kept"}, shown.Decisions); diff != "" {
		t.Errorf("decisions (-want +got):\n%s", diff)
	}
	body := `{"resolution":"nothing_kept","reason":"The service is gone."}`
	decided := decoded[api.SagaRecord](t, s.decide(t, id, "resolve", body), http.StatusOK)
	if decided.State != api.SagaStateRolledBack || s.sagaNow(t, id).AuditLog[0].Action != "saga.nothing_kept" || len(s.sandbox.Ledger()) > 0 {
		t.Errorf("decided %+v", decided)
	}
}

// While a step is being decided elsewhere, neither the shop nor an operator can cancel the order: docs/steps.md says so.
func TestNoCancelWhileAStepIsProcessing(t *testing.T) {
	t.Parallel()
	s := newShop(t, withCheck(providers.Outcome{Kind: providers.Processing}))
	s.place(t, newKeyText(), theOrder).order(t, http.StatusAccepted)
	id := s.theOnlyOrder(t)
	s.ask(t, "/v1/orders/"+id.String()+"/cancel", `{}`).checkRefusal(t, http.StatusConflict, "order-busy", "")
	s.decide(t, id, "cancel", `{"reason":"why"}`).checkRefusal(t, http.StatusConflict, "order-busy", "")
	if shown := s.sagaNow(t, id); stepsOf(shown.Steps) != "reserve done, fraud_check pending" {
		t.Errorf("steps %s", stepsOf(shown.Steps))
	}
}
