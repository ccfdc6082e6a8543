package client_test

import (
	"encoding/json"
	"errors"
	"net/http"
	"slices"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/uuid"

	"paysaga/api"
	"paysaga/api/client"
)

func oneCup(method string, capture api.CaptureMode) api.OrderRequest {
	return api.OrderRequest{
		Currency: "EUR", Amount: 500, Items: []api.Item{{SKU: "CUP", Quantity: 1, UnitAmount: 500}},
		Payment: api.PaymentRequest{Provider: "stripe", Method: method, Capture: capture},
	}
}

const refunded = 200 // of 500: a second refund would fit, and show

// TestOneChargeEach: many customers buy at once, then get a part of their money back, over a network that drops most of what is sent. Each
// is charged once and refunded once.
func TestOneChargeEach(t *testing.T) {
	t.Parallel()
	const customers = 21
	s := newSystem(t)
	c, d := s.client(t)
	orders := make([]api.Order, customers)
	var all sync.WaitGroup
	for i := range customers {
		all.Go(func() { orders[i] = buyAndGiveBack(t, c) })
	}
	all.Wait()
	d.working.Wait()
	charges := s.chargesByIdentifier(t)
	if len(charges) != customers {
		t.Errorf("%d charges for %d customers", len(charges), customers)
	}
	for _, order := range orders {
		if charge := charges[order.Payment.Identifier]; charge.Captured != order.Amount || charge.Refunded != refunded {
			t.Errorf("order %s: %+v", order.ID, charge)
		}
	}
	if n, m := s.count(t, `SELECT count(*) FROM orders`), s.count(t, `SELECT count(*) FROM refunds`); n != customers || m != customers {
		t.Errorf("%d orders, %d refunds", n, m)
	}
	if left := s.count(t, `SELECT on_hand - reserved FROM stock`); left != cups-customers {
		t.Errorf("%d cups are left", left)
	}
	for _, mishap := range mishaps { // else the test proves less than it says
		if d.did[mishap.name] < customers/3 {
			t.Errorf("%s: %d times", mishap.name, d.did[mishap.name])
		}
	}
}

func buyAndGiveBack(t *testing.T, c *client.Client) api.Order {
	t.Helper()
	placed, err := c.CreateOrder(t.Context(), client.NewKey(), oneCup("pm_card_visa", api.CaptureModeAutomatic))
	if err != nil || placed.HTTPStatus != http.StatusCreated {
		t.Errorf("order: %+v, %v", placed.Answer, err)
		return placed.Order
	}
	back, err := c.Refund(t.Context(), client.NewKey(), placed.Order.ID, api.RefundRequest{Amount: refunded})
	if err != nil || back.HTTPStatus != http.StatusCreated || back.Refund.Status != api.RefundStatusSucceeded {
		t.Errorf("refund: %+v, %v", back, err)
	}
	return placed.Order
}

// intent is what a shop stores.
type intent struct {
	Key   client.Key       `json:"key"`
	Order api.OrderRequest `json:"order"`
}

// TestAfterACrash: a shop that comes back with what it has stored gets the answer of the order that it placed before.
func TestAfterACrash(t *testing.T) {
	t.Parallel()
	s := newSystem(t)
	before, _ := s.client(t)
	intended := intent{client.NewKey(), oneCup("pm_card_visa", api.CaptureModeAutomatic)}
	stored, err := json.Marshal(intended)
	must(t, err)
	placed, err := before.CreateOrder(t.Context(), intended.Key, intended.Order)
	must(t, err)
	var found intent
	must(t, json.Unmarshal(stored, &found))
	after, _ := s.client(t)
	again, err := after.CreateOrder(t.Context(), found.Key, found.Order)
	must(t, err)
	if difference := cmp.Diff(placed.Order, again.Order); difference != "" || !again.Replayed || len(s.chargesByIdentifier(t)) != 1 {
		t.Errorf("replayed %t: %s", again.Replayed, difference)
	}
}

// TestTheLifeOfAnOrder sends what the methods send to the real server, over a network that drops.
func TestTheLifeOfAnOrder(t *testing.T) {
	t.Parallel()
	s := newSystem(t)
	c, d := s.client(t)
	ctx := t.Context()
	placed, err := c.CreateOrder(ctx, client.NewKey(), oneCup("pm_card_authenticationRequired", api.CaptureModeManual))
	must(t, err)
	if !placed.Pending() || placed.Order.NextAction == nil {
		t.Fatalf("%+v", placed)
	}
	id := placed.Order.ID
	s.act(t, placed.Order.Payment.ProviderReference, "approve")
	held, err := c.ContinueOrder(ctx, client.NewKey(), id, api.ContinueRequest{})
	must(t, err)
	noted, err := c.UpdateMetadata(ctx, client.NewKey(), id, api.OrderPatch{Metadata: map[string]*string{"parcel": new("42"), "cart": nil}})
	must(t, err)
	captured, err := c.CaptureOrder(ctx, client.NewKey(), id, api.CaptureRequest{Amount: 400})
	must(t, err)
	refundKey := client.NewKey()
	refund, err := c.Refund(ctx, refundKey, id, api.RefundRequest{Amount: 100, Reason: "<worn>"})
	must(t, err)
	shown, err := c.GetRefund(ctx, id, refund.Refund.ID)
	must(t, err)
	record, err := c.KeyStatus(ctx, refundKey, api.EndpointCreateRefund)
	must(t, err)
	d.working.Wait()
	charge := s.chargesByIdentifier(t)[placed.Order.Payment.Identifier]
	for what, holds := range map[string]bool{
		"held":     held.HTTPStatus == http.StatusOK && held.Order.Payment.Status == api.PaymentStatusAuthorized,
		"noted":    noted.Order.Metadata["parcel"] == "42",
		"captured": captured.Order.Payment.CapturedAmount == 400,
		"refunded": shown.Status == api.RefundStatusSucceeded && shown.Reason == "<worn>",
		"recorded": record.Status == api.KeyStatusCOMPLETED && record.ResponseStatus == http.StatusCreated,
		"once":     charge.Captured == 400 && charge.Refunded == 100,
	} {
		if !holds {
			t.Errorf("not %s: %+v", what, charge)
		}
	}
}

// TestRefusals are told in the real server's own words.
func TestRefusals(t *testing.T) {
	t.Parallel()
	s := newSystem(t)
	c, _ := s.client(t)
	ctx := t.Context()
	key := client.NewKey()
	for range 2 {
		_, err := c.CreateOrder(ctx, key, oneCup("pm_card_visa_chargeDeclined", api.CaptureModeAutomatic))
		if problem, ok := errors.AsType[*client.ProblemError](err); !ok || problem.Type != client.PaymentDeclined || !problem.Final() || !problem.Replayed {
			t.Errorf("%+v", err)
		}
	}
	canceled := holdAndCancel(t, c)
	_, reused := c.CreateOrder(ctx, key, oneCup("pm_card_visa", api.CaptureModeAutomatic))
	_, noOrder := c.GetOrder(ctx, uuid.New())
	_, noKey := c.KeyStatus(ctx, client.NewKey(), api.EndpointCreateOrder)
	_, over := c.CaptureOrder(ctx, client.NewKey(), canceled.ID, api.CaptureRequest{})
	for want, err := range map[client.ProblemType]error{client.IdempotencyKeyReuse: reused, client.OrderOver: over} {
		if problem, ok := errors.AsType[*client.ProblemError](err); !ok || problem.Type != want || problem.Final() {
			t.Errorf("%s: %v", want, err)
		}
	}
	for _, err := range []error{noOrder, noKey} {
		if !errors.Is(err, &client.ProblemError{Type: client.NotFound}) {
			t.Errorf("%v", err)
		}
	}
}

func holdAndCancel(t *testing.T, c *client.Client) api.Order {
	t.Helper()
	held, err := c.CreateOrder(t.Context(), client.NewKey(), oneCup("pm_card_visa", api.CaptureModeManual))
	must(t, err)
	canceled, err := c.CancelOrder(t.Context(), client.NewKey(), held.Order.ID)
	must(t, err)
	if canceled.Order.Status != api.OrderStatusCanceled {
		t.Errorf("%+v", canceled)
	}
	return canceled.Order
}

// TestListing goes through the real server's pages.
func TestListing(t *testing.T) {
	t.Parallel()
	s := newSystem(t)
	c, _ := s.client(t)
	placed := []uuid.UUID{holdAndCancel(t, c).ID, holdAndCancel(t, c).ID, holdAndCancel(t, c).ID}
	var listed []uuid.UUID
	for order, err := range c.ListOrders(t.Context(), client.OrderFilter{Status: api.OrderStatusCanceled, PageSize: 1}) {
		must(t, err)
		listed = append(listed, order.ID)
	}
	slices.Reverse(listed) // the newest comes first
	if difference := cmp.Diff(placed, listed); difference != "" {
		t.Error(difference)
	}
}
