package httpapi

import (
	"cmp"
	"encoding/json"
	"fmt"
	"net/http"

	"paysaga/providers"
	"paysaga/saga"
)

// Answerer writes the answer to a POST of an order. It is the same whoever gives it: the server that took the order, one
// that took it over, or the recovery worker.
type Answerer struct{}

var _ saga.Answerer = Answerer{}

// Answer is 201 for a confirmed order, 202 for one that is not decided yet, and a problem for one that came to nothing.
func (Answerer) Answer(s saga.Saga) (saga.Answer, error) {
	location := "/v1/orders/" + s.Order.ID.String()
	if s.State == saga.RolledBack {
		p := refusal(s)
		body, err := p.body(location)
		return saga.Answer{
			Status: p.kind.Status, Body: body, Headers: map[string]string{"Content-Type": problemContentType},
		}, err
	}
	status := http.StatusAccepted
	if s.State == saga.Completed {
		status = http.StatusCreated
	}
	body, err := json.Marshal(showOrder(s))
	if err != nil {
		return saga.Answer{}, fmt.Errorf("encode order: %w", err)
	}
	return saga.Answer{
		Status: status, Body: append(body, '\n'), Headers: map[string]string{"Content-Type": jsonContentType, "Location": location},
	}, nil
}

// refusal says why an order came to nothing.
func refusal(s saga.Saga) *problem {
	for _, step := range s.Steps {
		switch {
		case step.Name == saga.StepReserve && step.Code == saga.CodeOutOfStock:
			return newProblem(outOfStock, "%s", step.Detail)
		case step.Name == saga.StepCharge && step.Status == saga.StepFailed && step.Outcome == providers.Rejected:
			return newProblem(paymentRejected, "%s.", cmp.Or(step.Detail, "The provider refused the request ("+step.Code+")"))
		case step.Name == saga.StepCharge && step.Status == saga.StepFailed && step.Outcome == providers.Declined:
			return newProblem(paymentDeclined, "The payment was declined (%s).", declineCode(s, step))
		}
	}
	return newProblem(orderUndone, "The order could not be completed and was undone.")
}

func declineCode(s saga.Saga, charge saga.Step) string {
	decline := s.Order.Payment.Decline
	switch {
	case decline == nil:
		return charge.Code
	case decline.Bank != "":
		return decline.Code + ", " + decline.Bank
	}
	return decline.Code
}
