package main

import (
	"context"
	"fmt"
	"net/http"

	"paysaga/api"
)

// The scenarios about what follows an order.

// seeStepFails: the first charge is declined, another payment follows; what was reserved stays so.
func seeStepFails(ctx context.Context, r *contractRun, s *sighting) error {
	before, err := r.stock(ctx)
	if err != nil {
		return err
	}
	order, key := r.order("step-fails", 2), r.key("step-fails")
	order.Payment.Method, order.Payment.OnDecline = declinedMethod, api.OnDeclineAwait
	first, err := r.shop.place(ctx, key, order)
	if err != nil {
		return err
	}
	if !s.wantStatus("the order that is declined", first, http.StatusAccepted) {
		return nil
	}
	path := ordersPath + "/" + first.orderID()
	paid, err := r.shop.post(ctx, path+"/continue", key, payAgain(goodMethod))
	if err != nil {
		return err
	}
	s.wantStatus("the second payment", paid, http.StatusOK)
	again, err := r.shop.place(ctx, key, order)
	if err != nil {
		return err
	}
	s.wantReplay("the repeat of the order", first, again)
	var timeline api.Saga
	if err := r.shop.read(ctx, path+"/saga", &timeline); err != nil {
		return err
	}
	s.wantSteps(timeline, "reserve", api.StepStatusDone)
	s.wantSteps(timeline, "charge", api.StepStatusFailed, api.StepStatusDone)
	after, err := r.stock(ctx)
	if err != nil {
		return err
	}
	sold := before.OnHand - after.OnHand
	s.wantf(sold == 2 && after.Reserved == before.Reserved, "%d pieces are sold and %d more reserved, there should be 2 and 0", sold,
		after.Reserved-before.Reserved)
	s.sawf("%s, then %s; %d pieces sold", first, paid, sold)
	return r.wantMoney(ctx, s, first.orderID(), order.Amount)
}

// wantSteps: the timeline has exactly these attempts of a step.
func (s *sighting) wantSteps(timeline api.Saga, name string, statuses ...api.StepStatus) {
	attempts := attemptsOf(timeline, name)
	got := make([]api.StepStatus, len(attempts))
	for i, step := range attempts {
		got[i] = step.Status
	}
	s.wantf(fmt.Sprint(got) == fmt.Sprint(statuses), "the timeline has %s %v, not %v", name, got, statuses)
	s.sawf("%s %v", name, got)
}

func (r *contractRun) stock(ctx context.Context) (api.Stock, error) {
	var stock api.Stock
	err := r.shop.read(ctx, "/v1/stock/"+r.sku(), &stock)
	return stock, err
}

func payAgain(method string) api.ContinueRequest {
	return api.ContinueRequest{Payment: &api.ContinuePayment{Provider: testProviders[0].name, Method: method}}
}

// endpoint is a keyed endpoint, with a request and another one that the same key must not stand for.
type endpoint struct {
	name     string
	method   string
	path     string // below the order; "%s" is its id
	prepare  func(o *api.OrderRequest)
	body     any
	other    any // nil: the same request about another order
	statuses []int
	once     func(o api.Order) string // what is wrong with the order when all is done
}

var keyedEndpoints = []endpoint{
	{
		"PATCH", http.MethodPatch, "/v1/orders/%s", sellNow, metadata("shipped"), metadata("returned"),
		[]int{http.StatusOK},
		func(o api.Order) string { return unlessSame("metadata shipped", o.Metadata["note"], "shipped") },
	},
	{
		"continue", http.MethodPost, "/v1/orders/%s/continue",
		func(o *api.OrderRequest) { o.Payment.Method, o.Payment.OnDecline = declinedMethod, api.OnDeclineAwait },
		payAgain(goodMethod), payAgain(otherMethod),
		[]int{http.StatusOK},
		func(o api.Order) string { return unlessSame("captured", o.Payment.CapturedAmount, o.Amount) },
	},
	{
		"capture", http.MethodPost, "/v1/orders/%s/capture", holdMoney,
		api.CaptureRequest{Amount: 1000},
		api.CaptureRequest{Amount: 1001},
		[]int{http.StatusOK, http.StatusAccepted},
		func(o api.Order) string { return unlessSame("captured", o.Payment.CapturedAmount, int64(1000)) },
	},
	{
		"cancel", http.MethodPost, "/v1/orders/%s/cancel", holdMoney,
		api.CancelRequest{},
		nil,
		[]int{http.StatusOK, http.StatusAccepted},
		func(o api.Order) string { return unlessSame("captured", o.Payment.CapturedAmount, int64(0)) },
	},
	{
		"refunds", http.MethodPost, "/v1/orders/%s/refunds", sellNow,
		api.RefundRequest{Amount: 500},
		api.RefundRequest{Amount: 501},
		[]int{http.StatusCreated, http.StatusAccepted},
		func(o api.Order) string { return unlessSame("refunded", o.Payment.RefundedAmount, int64(500)) },
	},
}

func sellNow(*api.OrderRequest) {}

func holdMoney(o *api.OrderRequest) { o.Payment.Capture = api.CaptureModeManual }

func metadata(note string) map[string]any {
	return map[string]any{"metadata": map[string]any{"note": note}}
}

func unlessSame[T comparable](what string, got, want T) string {
	if got == want {
		return ""
	}
	return fmt.Sprintf("%s: %v, not %v", what, got, want)
}

func seeEndpoints(ctx context.Context, r *contractRun, s *sighting) error {
	for _, e := range keyedEndpoints {
		if err := r.endpoint(ctx, s, e); err != nil {
			return fmt.Errorf("%s: %w", e.name, err)
		}
	}
	return r.stockIsKeyed(ctx, s)
}

// endpoint plays first call, repeat and other request at one endpoint.
func (r *contractRun) endpoint(ctx context.Context, s *sighting, e endpoint) error {
	order := r.order("endpoint-"+e.name, 1)
	e.prepare(&order)
	placed, err := r.shop.place(ctx, r.key("endpoint-"+e.name), order)
	if err != nil {
		return err
	}
	id := placed.orderID()
	if id == "" {
		s.wantf(false, "%s: the order is answered %s", e.name, placed)
		return nil
	}
	m := message{method: e.method, path: fmt.Sprintf(e.path, id), keys: []string{r.key(e.name)}, body: e.body}
	first, err := r.shop.send(ctx, m)
	if err != nil {
		return err
	}
	s.wantFirst(e.name, first)
	if !s.wantStatus(e.name, first, e.statuses...) {
		return nil
	}
	again, err := r.shop.send(ctx, m)
	if err != nil {
		return err
	}
	s.wantReplay("the repeat of "+e.name, first, again)
	if e.other != nil {
		m.body = e.other
	} else {
		m.path = fmt.Sprintf(e.path, "00000000-0000-4000-8000-000000000000")
	}
	other, err := r.shop.send(ctx, m)
	if err != nil {
		return err
	}
	s.wantProblem("another request under the key of "+e.name, other, "idempotency-key-reuse", r.mismatchStatuses()...)
	s.wantSilence("another request under the key of "+e.name, other, placed.order().Payment.ProviderReference)
	s.sawf("%s %d", e.name, first.status)
	return r.doneOnce(ctx, s, e, id)
}

// doneOnce looks at what the requests have made of the order.
func (r *contractRun) doneOnce(ctx context.Context, s *sighting, e endpoint, id string) error {
	var order api.Order
	if err := r.shop.read(ctx, ordersPath+"/"+id, &order); err != nil {
		return err
	}
	wrong := e.once(order)
	s.wantf(wrong == "", "%s, of an order after %s, its repeat and another request", wrong, e.name)
	return nil
}

// stockIsKeyed: a count under a key is set once, and a late repeat does not bring it back.
func (r *contractRun) stockIsKeyed(ctx context.Context, s *sighting) error {
	path := "/v1/stock/" + r.sku() + "-KEYED"
	put := func(count int64, keys ...string) (response, error) {
		return r.shop.send(ctx, message{method: http.MethodPut, path: path, keys: keys, body: api.StockRequest{OnHand: count}})
	}
	key := r.key("stock")
	first, err := put(10, key)
	if err != nil {
		return err
	}
	s.wantStatus("stock", first, http.StatusOK)
	s.wantFirst("stock", first)
	if _, err := put(7); err != nil { // another count meanwhile
		return err
	}
	late, err := put(10, key)
	if err != nil {
		return err
	}
	s.wantReplay("the late repeat of a count", first, late)
	other, err := put(11, key)
	if err != nil {
		return err
	}
	s.wantProblem("another count under the same key", other, "idempotency-key-reuse", r.mismatchStatuses()...)
	var stock api.Stock
	if err := r.shop.read(ctx, path, &stock); err != nil {
		return err
	}
	const counted = 7
	s.wantf(stock.OnHand == counted, "%d are on hand after a late repeat, not the %d counted last", stock.OnHand, counted)
	s.sawf("stock %d", first.status)
	return nil
}
