package httpapi_test

import (
	"net/http"
	"testing"

	"github.com/google/go-cmp/cmp"

	"paysaga/api"
)

func TestPlaceOrder(t *testing.T) {
	t.Parallel()
	s := newShop(t)
	placed := s.place(t, newKeyText(), theOrder)
	order := placed.order(t, http.StatusCreated)
	want := api.Order{
		Status: api.OrderStatusConfirmed, Amount: 3998, Currency: "EUR",
		Items:    []api.Item{{SKU: "TSHIRT-M", Quantity: 2, UnitAmount: 1999}},
		Customer: &api.Customer{Reference: "customer-4711", Email: "ada@example.com"}, Metadata: api.Metadata{"cart": "c-9"},
		Payment: api.Payment{Provider: "stripe", Capture: api.CaptureModeAutomatic, Status: api.PaymentStatusCaptured, CapturedAmount: 3998},
		Saga:    api.SagaSummary{State: api.SagaStateCompleted},
	}
	charge := s.onlyCharge(t)
	want.ID, want.CreatedAt, want.UpdatedAt, want.Saga.Key = order.ID, order.CreatedAt, order.UpdatedAt, order.Saga.Key
	want.Payment.ProviderReference, want.Payment.Identifier = charge.ID, charge.Identifier
	if diff := cmp.Diff(want, order); diff != "" {
		t.Errorf("order (-want +got):\n%s", diff)
	}
	if charge.Captured != 3998 || charge.Calls != 1 {
		t.Errorf("charge %+v", charge)
	}
	location := placed.header.Get("Location")
	if location != "/v1/orders/"+order.ID.String() {
		t.Errorf("Location is %q", location)
	}
	if got := s.get(t, location); got.body != placed.body {
		t.Errorf("GET gives\n%s\nPOST gave\n%s", got.body, placed.body)
	}
	if got := s.stock(t, "TSHIRT-M"); got != "0 of 98" {
		t.Errorf("stock: %s", got)
	}
}

func TestTimeline(t *testing.T) {
	t.Parallel()
	s := newShop(t)
	placed := s.place(t, newKeyText(), theOrder)
	timeline := decoded[api.Saga](t, s.get(t, placed.header.Get("Location")+"/saga"), http.StatusOK)
	steps := make([]string, 0, len(timeline.Steps))
	for _, step := range timeline.Steps {
		steps = append(steps, step.Name+" "+string(step.Status))
	}
	if diff := cmp.Diff([]string{"reserve done", "charge done", "confirm done"}, steps); diff != "" {
		t.Errorf("steps (-want +got):\n%s", diff)
	}
	if timeline.State != api.SagaStateCompleted || timeline.Attempts != 1 || len(timeline.Findings) != 0 {
		t.Errorf("timeline %+v", timeline)
	}
}

// Refusals that only the saga finds: nothing is kept of the order but the answer and the record of it.
func TestRefusedOrders(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		body, slug string
		status     int
		charges    int
	}{
		"declined":              {paidBy("pm_card_visa_chargeDeclined"), "payment-declined", http.StatusPaymentRequired, 1},
		"no such method":        {paidBy("pm_nobody_knows_this"), "payment-rejected", http.StatusUnprocessableEntity, 0},
		"out of stock":          {changed(t, changed(t, theOrder, `"quantity":2`, `"quantity":101`), "3998", "201899"), "out-of-stock", http.StatusUnprocessableEntity, 0},
		"one of two is too few": {changed(t, theOrder, `{"sku"`, `{"sku":"LAST-PIECE","quantity":2,"unit_amount":0},{"sku"`), "out-of-stock", http.StatusUnprocessableEntity, 0},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := newShop(t)
			placed := s.place(t, newKeyText(), c.body)
			problem := placed.problem(t, c.status, c.slug)
			order := s.orderNow(t, problem.Instance)
			if order.Status != api.OrderStatusFailed || order.Payment.CapturedAmount != 0 {
				t.Errorf("order %+v", order)
			}
			if got := placed.header.Get("Location"); got != "" {
				t.Errorf("Location %q: a refusal made nothing", got)
			}
			s.checkNothingKept(t, c.charges)
		})
	}
}

// checkNothingKept: no stock is held or sold, and no money is taken or held by the payments that were tried.
func (s *shop) checkNothingKept(t *testing.T, payments int) {
	t.Helper()
	if shirts, last := s.stock(t, "TSHIRT-M"), s.stock(t, "LAST-PIECE"); shirts != "0 of 100" || last != "0 of 1" {
		t.Errorf("stock: %s shirts, %s last piece", shirts, last)
	}
	ledger := s.sandbox.Ledger()
	if len(ledger) != payments {
		t.Errorf("%d payments at the provider, want %d", len(ledger), payments)
	}
	for _, charge := range ledger {
		if charge.Captured != 0 || charge.Authorized != 0 {
			t.Errorf("money was taken: %+v", charge)
		}
	}
}

func TestDeclineIsTold(t *testing.T) {
	t.Parallel()
	s := newShop(t)
	problem := s.place(t, newKeyText(), paidBy("pm_card_chargeDeclinedStolenCard")).problem(t, http.StatusPaymentRequired, "payment-declined")
	got := s.orderNow(t, problem.Instance).Payment
	want := &api.Decline{Code: "card_declined", Bank: "stolen_card", Hard: true}
	if diff := cmp.Diff(want, got.Decline); diff != "" || got.Status != api.PaymentStatusDeclined {
		t.Errorf("payment is %s, decline (-want +got):\n%s", got.Status, diff)
	}
}
