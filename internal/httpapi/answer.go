package httpapi

import (
	"cmp"
	"encoding/json"
	"fmt"
	"net/http"
	"slices"
	"strings"

	"paysaga/internal/httpapi/pages"
	"paysaga/providers"
	"paysaga/saga"
)

// Answerer writes the answer to a request that is idempotent by key. It is the same whoever gives it: the server that took the
// request, one that took it over, or the recovery worker.
type Answerer struct{}

var _ saga.Answerer = Answerer{}

// Answer says how the saga stands in the words of the request that waits for it.
func (Answerer) Answer(s saga.Saga) (saga.Answer, error) {
	switch {
	case isDecision(s.Pending):
		return answerDecision(s)
	case s.Kind == saga.KindRefund:
		return answerRefund(s)
	}
	switch s.Pending {
	case continueOrderEndpoint:
		return answerContinue(s)
	case captureOrderEndpoint:
		return answerCapture(s)
	case cancelOrderEndpoint:
		return answerCancel(s)
	}
	return answerOrder(s)
}

// answerOrder is 201 for an order that is paid, or whose money is held where that was asked for, 202 for one that is not decided
// yet, and a problem for one that came to nothing.
func answerOrder(s saga.Saga) (saga.Answer, error) {
	switch {
	case s.State == saga.RolledBack:
		return problemAnswer(refusal(s), orderLocation(s))
	case paid(s):
		return orderAnswer(http.StatusCreated, s)
	}
	return orderAnswer(http.StatusAccepted, s)
}

// answerContinue tells a refusal of what the customer brought only while the order still waits because of it.
func answerContinue(s saga.Saga) (saga.Answer, error) {
	proceed := continueOfNewestCharge(s)
	switch {
	case s.State == saga.RolledBack:
		return problemAnswer(refusal(s), orderLocation(s))
	case paid(s):
		return orderAnswer(http.StatusOK, s)
	case s.State == saga.Awaiting && proceed != nil && proceed.Status == saga.StepFailed:
		return problemAnswer(refusedBy(continueRefused, "to go on", *proceed, "The order still waits."), orderLocation(s))
	}
	return orderAnswer(http.StatusAccepted, s)
}

// answerCapture is about the newest capture, as no other begins before it is answered. Money that goes back again is not told as
// taken.
func answerCapture(s saga.Saga) (saga.Answer, error) {
	capture := s.Newest(saga.StepCapture)
	switch {
	case s.State == saga.Compensating:
		return orderAnswer(http.StatusAccepted, s)
	case s.State == saga.RolledBack && anyCaptured(s):
		return problemAnswer(undone(), orderLocation(s))
	case capture != nil && capture.Status == saga.StepDone:
		return orderAnswer(http.StatusOK, s)
	case s.State == saga.RolledBack:
		return problemAnswer(newProblem(authorizationEnded, "The hold ended before the money was taken; nothing is taken."), orderLocation(s))
	case capture != nil && capture.Status == saga.StepFailed:
		after := "Read the order to see how the payment stands."
		if held(s) {
			after = "The money is still held."
		}
		return problemAnswer(refusedBy(captureRefused, "the capture", *capture, after), orderLocation(s))
	}
	return orderAnswer(http.StatusAccepted, s)
}

// answerCancel is 200 as well where a part was taken before: the order is completed with it, and the rest of the hold is given up.
func answerCancel(s saga.Saga) (saga.Answer, error) {
	taken := s.Order.Payment.CapturedAmount
	switch {
	case s.State == saga.RolledBack, s.State == saga.Completed && 0 < taken && taken < s.Order.Amount:
		return orderAnswer(http.StatusOK, s)
	case s.State == saga.Completed:
		return problemAnswer(newProblem(refundInstead, "The order's money is taken; a refund gives it back."), orderLocation(s))
	}
	return orderAnswer(http.StatusAccepted, s)
}

func answerRefund(s saga.Saga) (saga.Answer, error) {
	location := orderLocation(s) + "/refunds/" + s.Refund.ID.String()
	status := http.StatusAccepted
	switch s.State {
	case saga.RolledBack:
		refund := saga.Step{}
		if newest := s.Newest(saga.StepRefund); newest != nil {
			refund = *newest
		}
		return problemAnswer(refusedBy(refundRefused, "the refund", refund, "No money was given back."), location)
	case saga.Completed:
		status = http.StatusCreated
	default: // not decided yet, or for a person to decide
	}
	return jsonAnswer(status, location, showRefund(s))
}

// paid tells that the goods are the customer's.
func paid(s saga.Saga) bool { return s.State == saga.Completed || held(s) }

// held tells that the order rests with its money held, or taken in part, for a capture.
func held(s saga.Saga) bool { return s.State == saga.Awaiting && s.Order.Status == saga.OrderConfirmed }

// anyCaptured tells that some of the held money was taken.
func anyCaptured(s saga.Saga) bool {
	return slices.ContainsFunc(s.Steps, func(step saga.Step) bool { return step.Name == saga.StepCapture && step.Status == saga.StepDone })
}

// continueOfNewestCharge is the last attempt to go on with the present payment, not with one that was declined before.
func continueOfNewestCharge(s saga.Saga) *saga.Step {
	charge, proceed := s.Newest(saga.StepCharge), s.Newest(saga.StepContinue)
	if charge == nil || proceed == nil || proceed.StartedAt.Before(charge.StartedAt) {
		return nil
	}
	return proceed
}

func orderLocation(s saga.Saga) string { return "/v1/orders/" + s.Order.ID.String() }

// orderAnswer is an order, with its address where it was made or is still to be followed.
func orderAnswer(status int, s saga.Saga) (saga.Answer, error) {
	location := orderLocation(s)
	if status == http.StatusOK {
		location = ""
	}
	return jsonAnswer(status, location, showOrder(s))
}

func jsonAnswer(status int, location string, value any) (saga.Answer, error) {
	body, err := json.Marshal(value)
	if err != nil {
		return saga.Answer{}, fmt.Errorf("encode answer: %w", err)
	}
	headers := map[string]string{"Content-Type": jsonContentType}
	if location != "" {
		headers["Location"] = location
	}
	return saga.Answer{Status: status, Body: append(body, '\n'), Headers: headers}, nil
}

// problemAnswer is a refusal that is kept under the key, and names what it left behind.
func problemAnswer(p *problem, instance string) (saga.Answer, error) {
	body, err := p.body(instance)
	return saga.Answer{Status: p.kind.Status, Body: body, Headers: map[string]string{"Content-Type": problemContentType}}, err
}

// refusal says why an order came to nothing.
func refusal(s saga.Saga) *problem {
	for _, step := range s.Steps {
		if step.Name == saga.StepReserve && step.Code == saga.CodeOutOfStock {
			return newProblem(outOfStock, "%s", step.Detail)
		}
		if step.RefusedByHouse() {
			return newProblem(stepRefused, "The step %s refused the order (%s).", step.Name, cmp.Or(step.Code, string(step.Outcome)))
		}
	}
	charge := s.Newest(saga.StepCharge)
	if charge == nil || charge.Status != saga.StepFailed || s.Order.Status == saga.OrderCanceled {
		return undone()
	}
	switch charge.Outcome {
	case providers.Rejected:
		return newProblem(paymentRejected, "%s.", cmp.Or(charge.Detail, "The provider refused the request ("+charge.Code+")"))
	case providers.Declined:
		return newProblem(paymentDeclined, "The payment was declined (%s).", declineCode(s, *charge))
	default:
		return undone()
	}
}

func undone() *problem {
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

// refusedBy says that the provider refused what a step asked for, and what follows.
func refusedBy(kind pages.ProblemType, what string, step saga.Step, follows string) *problem {
	reason := cmp.Or(step.Code, string(step.Outcome))
	if step.Detail != "" {
		reason += ": " + strings.TrimSuffix(step.Detail, ".")
	}
	return newProblem(kind, "The provider refused %s (%s). %s", what, reason, follows)
}
