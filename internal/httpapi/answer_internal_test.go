package httpapi

import (
	"encoding/json"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/uuid"

	"paysaga/api"
	"paysaga/providers"
	"paysaga/saga"
)

var theKey = uuid.MustParse("5f0c1a9e-7d5b-5c3e-9b1a-0f6d2c8e4a71")

// standing is an order's saga in a state, after the given steps, in their order.
func standing(pending string, state saga.State, status saga.OrderStatus, steps ...saga.Step) saga.Saga {
	begun := time.Date(2026, 11, 30, 9, 30, 0, 0, time.UTC)
	attempts := map[saga.StepName]int{}
	for i := range steps {
		attempts[steps[i].Name]++
		steps[i].Attempt, steps[i].StartedAt = attempts[steps[i].Name], begun.Add(time.Duration(i)*time.Second)
	}
	return saga.Saga{
		Kind: saga.KindOrder, Key: theKey, State: state, Pending: pending, Steps: steps,
		Order: saga.Order{ID: theKey, Status: status, Currency: "EUR", Amount: 3998, Payment: saga.Payment{Provider: "stripe"}},
	}
}

func step(name saga.StepName, status saga.StepStatus, outcome providers.OutcomeKind, code string) saga.Step {
	return saga.Step{Name: name, Status: status, Outcome: outcome, Code: code}
}

// Every answer that is kept under a key: its status, the type of its problem, and where it leads.
func TestAnswers(t *testing.T) {
	t.Parallel()
	const order, refundsAt = "/v1/orders/5f0c1a9e-7d5b-5c3e-9b1a-0f6d2c8e4a71", "/v1/orders/5f0c1a9e-7d5b-5c3e-9b1a-0f6d2c8e4a71/refunds/"
	paidCharge := step(saga.StepCharge, saga.StepDone, providers.Succeeded, "")
	heldCharge := step(saga.StepCharge, saga.StepDone, providers.Authorized, "")
	open := step(saga.StepCharge, saga.StepPending, providers.ActionRequired, "")
	declined := step(saga.StepCharge, saga.StepFailed, providers.Declined, "card_declined")
	rejected := step(saga.StepCharge, saga.StepFailed, providers.Rejected, "no_such_method")
	undone := step(saga.StepCharge, saga.StepUndone, providers.Authorized, "")
	badDetails := step(saga.StepContinue, saga.StepFailed, providers.Rejected, "invalid_details")
	noStock := step(saga.StepReserve, saga.StepFailed, "", saga.CodeOutOfStock)
	captured := step(saga.StepCapture, saga.StepDone, providers.Succeeded, "")
	refused := step(saga.StepCapture, saga.StepFailed, providers.Rejected, "too_small")
	givenBack := step(saga.StepRefund, saga.StepDone, providers.Succeeded, "")
	sent := step(saga.StepCapture, saga.StepPending, providers.Processing, "")
	for name, c := range map[string]struct {
		saga     saga.Saga
		status   int
		slug     string // empty: an order
		location string
	}{
		"order, paid":         {standing(createOrderEndpoint, saga.Completed, saga.OrderConfirmed, paidCharge), http.StatusCreated, "", order},
		"order, held":         {standing(createOrderEndpoint, saga.Awaiting, saga.OrderConfirmed, heldCharge), http.StatusCreated, "", order},
		"order, awaiting":     {standing(createOrderEndpoint, saga.Awaiting, saga.OrderAwaiting, open), http.StatusAccepted, "", order},
		"order, open":         {standing(createOrderEndpoint, saga.Charging, saga.OrderProcessing, open), http.StatusAccepted, "", order},
		"order, in review":    {standing(createOrderEndpoint, saga.NeedsReview, saga.OrderInReview, open), http.StatusAccepted, "", order},
		"order, declined":     {standing(createOrderEndpoint, saga.RolledBack, saga.OrderFailed, declined), http.StatusPaymentRequired, "payment-declined", ""},
		"order, out of stock": {standing(createOrderEndpoint, saga.RolledBack, saga.OrderFailed, noStock), http.StatusUnprocessableEntity, "out-of-stock", ""},

		"continue, paid":              {standing(continueOrderEndpoint, saga.Completed, saga.OrderConfirmed, paidCharge), http.StatusOK, "", ""},
		"continue, held":              {standing(continueOrderEndpoint, saga.Awaiting, saga.OrderConfirmed, heldCharge), http.StatusOK, "", ""},
		"continue, awaiting":          {standing(continueOrderEndpoint, saga.Awaiting, saga.OrderAwaiting, open), http.StatusAccepted, "", order},
		"continue, declined":          {standing(continueOrderEndpoint, saga.RolledBack, saga.OrderFailed, rejected, declined), http.StatusPaymentRequired, "payment-declined", ""},
		"continue, rejected":          {standing(continueOrderEndpoint, saga.RolledBack, saga.OrderFailed, declined, rejected), http.StatusUnprocessableEntity, "payment-rejected", ""},
		"continue, canceled":          {standing(continueOrderEndpoint, saga.RolledBack, saga.OrderCanceled, declined), http.StatusUnprocessableEntity, "order-undone", ""},
		"continue, undone":            {standing(continueOrderEndpoint, saga.RolledBack, saga.OrderCanceled, undone), http.StatusUnprocessableEntity, "order-undone", ""},
		"continue, refused":           {standing(continueOrderEndpoint, saga.Awaiting, saga.OrderAwaiting, open, badDetails), http.StatusUnprocessableEntity, "continue-refused", ""},
		"continue, refused, paid":     {standing(continueOrderEndpoint, saga.Completed, saga.OrderConfirmed, paidCharge, badDetails), http.StatusOK, "", ""},
		"continue, refused, undone":   {standing(continueOrderEndpoint, saga.RolledBack, saga.OrderCanceled, undone, badDetails), http.StatusUnprocessableEntity, "order-undone", ""},
		"continue, in review":         {standing(continueOrderEndpoint, saga.NeedsReview, saga.OrderInReview, open, badDetails), http.StatusAccepted, "", order},
		"continue, being undone":      {standing(continueOrderEndpoint, saga.Compensating, saga.OrderProcessing, paidCharge), http.StatusAccepted, "", order},
		"continue, refused, then new": {standing(continueOrderEndpoint, saga.Awaiting, saga.OrderAwaiting, declined, badDetails, open), http.StatusAccepted, "", order},

		"capture, done":       {standing(captureOrderEndpoint, saga.Completed, saga.OrderConfirmed, heldCharge, captured), http.StatusOK, "", ""},
		"capture, of a part":  {standing(captureOrderEndpoint, saga.Awaiting, saga.OrderConfirmed, heldCharge, captured), http.StatusOK, "", ""},
		"capture, taken on":   {standing(captureOrderEndpoint, saga.Awaiting, saga.OrderConfirmed, heldCharge, captured, sent), http.StatusAccepted, "", order},
		"capture, refused":    {standing(captureOrderEndpoint, saga.Awaiting, saga.OrderConfirmed, heldCharge, refused), http.StatusUnprocessableEntity, "capture-refused", ""},
		"capture, hold ended": {standing(captureOrderEndpoint, saga.RolledBack, saga.OrderCanceled, undone, refused), http.StatusConflict, "authorization-ended", ""},
		"capture, given back": {standing(captureOrderEndpoint, saga.RolledBack, saga.OrderCanceled, heldCharge, captured, givenBack), http.StatusUnprocessableEntity, "order-undone", ""},
		"capture, a part given back": {
			standing(captureOrderEndpoint, saga.RolledBack, saga.OrderCanceled, heldCharge, captured, refused, givenBack), http.StatusUnprocessableEntity, "order-undone", "",
		},
		"capture, going back": {standing(captureOrderEndpoint, saga.Compensating, saga.OrderProcessing, heldCharge, captured), http.StatusAccepted, "", order},
		"capture, refused, and the hold given up": {
			standing(captureOrderEndpoint, saga.Compensating, saga.OrderProcessing, heldCharge, refused), http.StatusAccepted, "", order,
		},
		"capture, in review": {standing(captureOrderEndpoint, saga.NeedsReview, saga.OrderInReview, heldCharge, sent), http.StatusAccepted, "", order},

		"cancel, done":      {standing(cancelOrderEndpoint, saga.RolledBack, saga.OrderCanceled, undone), http.StatusOK, "", ""},
		"cancel, under way": {standing(cancelOrderEndpoint, saga.Compensating, saga.OrderProcessing, heldCharge), http.StatusAccepted, "", order},
		"cancel, in review": {standing(cancelOrderEndpoint, saga.NeedsReview, saga.OrderInReview, heldCharge), http.StatusAccepted, "", order},
		"cancel, of a rest": {taken(1999, standing(cancelOrderEndpoint, saga.Completed, saga.OrderConfirmed, heldCharge, captured)), http.StatusOK, "", ""},
		"cancel, all taken": {
			taken(3998, standing(cancelOrderEndpoint, saga.Completed, saga.OrderConfirmed, heldCharge, captured)), http.StatusConflict, "refund-instead", "",
		},
		"cancel, paid": {standing(cancelOrderEndpoint, saga.Completed, saga.OrderConfirmed, paidCharge), http.StatusConflict, "refund-instead", ""},

		"refund, done":      {refunding(saga.Completed, saga.RefundSucceeded, saga.StepDone, ""), http.StatusCreated, "", refundsAt + theRefund.String()},
		"refund, under way": {refunding(saga.Refunding, saga.RefundPending, saga.StepPending, ""), http.StatusAccepted, "", refundsAt + theRefund.String()},
		"refund, in review": {refunding(saga.NeedsReview, saga.RefundInReview, saga.StepUnknown, ""), http.StatusAccepted, "", refundsAt + theRefund.String()},
		"refund, refused":   {refunding(saga.RolledBack, saga.RefundFailed, saga.StepFailed, "charge_disputed"), http.StatusUnprocessableEntity, "refund-refused", ""},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			got, err := Answerer{}.Answer(c.saga)
			if err != nil {
				t.Fatal(err)
			}
			if got.Status != c.status || got.Headers["Location"] != c.location {
				t.Errorf("%d at %q, want %d at %q: %s", got.Status, got.Headers["Location"], c.status, c.location, got.Body)
			}
			checkKind(t, got, c.slug)
			if again, err := (Answerer{}).Answer(c.saga); err != nil || cmp.Diff(got, again) != "" {
				t.Errorf("answered again: %s (%v)", cmp.Diff(got, again), err)
			}
		})
	}
}

// taken is a saga with a part of its money taken.
func taken(amount int64, s saga.Saga) saga.Saga {
	s.Order.Payment.Capture, s.Order.Payment.CapturedAmount = saga.CaptureManual, amount
	return s
}

var theRefund = uuid.MustParse("1d9b7c52-6f0e-5a4b-8a3d-2c7e9f10b645")

func refunding(state saga.State, status saga.RefundStatus, stepStatus saga.StepStatus, code string) saga.Saga {
	s := standing(createRefundEndpoint, state, saga.OrderConfirmed, step(saga.StepRefund, stepStatus, "", code))
	s.Kind, s.Key = saga.KindRefund, theRefund
	s.Refund = &saga.Refund{ID: theRefund, OrderID: theKey, Amount: 1999, Status: status}
	return s
}

// checkKind: a problem of the type, with what it left behind and the provider's reason; else no problem.
func checkKind(t *testing.T, a saga.Answer, slug string) {
	t.Helper()
	if slug == "" {
		if a.Headers["Content-Type"] != jsonContentType || strings.Contains(string(a.Body), "/problems/") {
			t.Errorf("%s is a problem: %s", a.Headers["Content-Type"], a.Body)
		}
		return
	}
	var p api.Problem
	if err := json.Unmarshal(a.Body, &p); err != nil {
		t.Fatal(err)
	}
	if p.Type != "/problems/"+slug || p.Status != a.Status || a.Headers["Content-Type"] != problemContentType ||
		!strings.HasPrefix(p.Instance, "/v1/orders/"+theKey.String()) {
		t.Errorf("want %s with its order: %s", slug, a.Body)
	}
	reasons := map[string]string{
		"continue-refused": "(invalid_details). The order still waits.", "capture-refused": "(too_small). The money is still held.",
		"refund-refused": "(charge_disputed). No money was given back.",
	}
	if !strings.Contains(p.Detail, reasons[slug]) {
		t.Errorf("the reason %q is not told: %s", reasons[slug], p.Detail)
	}
}
