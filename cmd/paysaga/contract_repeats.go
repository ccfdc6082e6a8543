package main

import (
	"context"
	"fmt"
	"net/http"

	"paysaga/api"
)

// The scenarios about one request and its repeats, one after the other.

func seeFirstCall(ctx context.Context, r *contractRun, s *sighting) error {
	order := r.order("first-call", 1)
	answer, err := r.shop.place(ctx, r.key("first-call"), order)
	if err != nil {
		return err
	}
	s.wantFirst("the first answer", answer)
	if !s.wantOrder("the first answer", answer) {
		return nil
	}
	s.sawf("%s, Location %s", answer, answer.header.Get("Location"))
	return r.wantMoney(ctx, s, answer.orderID(), order.Amount)
}

func seeRepeat(ctx context.Context, r *contractRun, s *sighting) error {
	order, key := r.order("repeat", 2), r.key("repeat")
	first, err := r.shop.place(ctx, key, order)
	if err != nil {
		return err
	}
	if !s.wantOrder("the first answer", first) {
		return nil
	}
	const repeats = 3
	for i := range repeats {
		again, err := r.shop.place(ctx, key, order)
		if err != nil {
			return err
		}
		s.wantReplay(fmt.Sprintf("repeat %d", i+1), first, again)
	}
	quoted, err := r.shop.place(ctx, `"`+key+`"`, order)
	if err != nil {
		return err
	}
	s.wantReplay("the repeat with the key in quotes", first, quoted)
	s.sawf("%d × %s, %d bytes each", repeats+1, first, len(first.body))
	return r.wantMoney(ctx, s, first.orderID(), order.Amount)
}

// variation is an order in which one thing is other than in the first request.
type variation struct {
	what   string
	change func(o *api.OrderRequest)
}

// otherIntents are changes of what counts. None has a word of the first request that must not be told.
var otherIntents = []variation{
	{"more pieces", func(o *api.OrderRequest) { o.Items[0].Quantity++; o.Amount += o.Items[0].UnitAmount }},
	{"another price", func(o *api.OrderRequest) { o.Items[0].UnitAmount += 100; o.Amount += 100 * o.Items[0].Quantity }},
	{"another currency", func(o *api.OrderRequest) { o.Currency = "USD" }},
	{"another way to pay", func(o *api.OrderRequest) { o.Payment.Method = otherMethod }},
	{"money only held", func(o *api.OrderRequest) { o.Payment.Capture = api.CaptureModeManual }},
	{"another customer", func(*api.OrderRequest) {}}, // as in each of them
}

// otherOrder has the same goods as the first, and otherwise nothing of it.
func (r *contractRun) otherOrder(v variation) api.OrderRequest {
	order := r.order("somebody-else", 1)
	v.change(&order)
	return order
}

func seeOtherRequest(ctx context.Context, r *contractRun, s *sighting) error {
	if err := r.otherRequest(ctx, s, r.shop, r.mismatchStatuses()...); err != nil || r.own == nil {
		return err
	}
	return r.own.with(ctx, func(server string) error {
		return r.otherRequest(ctx, s, r.shop.at(server), http.StatusConflict)
	}, "PAYSAGA_MISMATCH_STATUS=409")
}

// mismatchStatuses: how a server that is given was set up is not known.
func (r *contractRun) mismatchStatuses() []int {
	if r.own != nil {
		return []int{http.StatusUnprocessableEntity}
	}
	return []int{http.StatusUnprocessableEntity, http.StatusConflict}
}

func (r *contractRun) otherRequest(ctx context.Context, s *sighting, shop client, statuses ...int) error {
	name := fmt.Sprintf("other-request-%d", statuses[0])
	order, key := r.order(name, 1), r.key(name)
	first, err := shop.place(ctx, key, order)
	if err != nil {
		return err
	}
	if !s.wantOrder("the first answer", first) {
		return nil
	}
	var last response
	for _, v := range otherIntents {
		if last, err = shop.place(ctx, key, r.otherOrder(v)); err != nil {
			return err
		}
		s.wantProblem(v.what, last, "idempotency-key-reuse", statuses...)
		s.wantSilence(v.what, last, tells(order, first)...)
	}
	s.sawf("%d × %s", len(otherIntents), last)
	again, err := shop.place(ctx, key, order)
	if err != nil {
		return err
	}
	s.wantReplay("the first request after the others", first, again)
	return r.wantMoney(ctx, s, first.orderID(), order.Amount)
}

func seeOtherAccount(ctx context.Context, r *contractRun, s *sighting) error {
	order, key := r.order("other-account", 1), r.key("other-account")
	mine, err := r.shop.place(ctx, key, order)
	if err != nil {
		return err
	}
	if !s.wantOrder("the first account's answer", mine) {
		return nil
	}
	if err := r.hiddenFromOthers(ctx, s, key, mine, order); err != nil {
		return err
	}
	theirs, err := r.other.place(ctx, key, order)
	if err != nil {
		return err
	}
	s.wantFirst("the other account's answer under the same key", theirs)
	if s.wantOrder("the other account's answer under the same key", theirs) {
		s.wantAnother("the other account's answer under the same key", mine, theirs)
	}
	again, err := r.shop.place(ctx, key, order)
	if err != nil {
		return err
	}
	s.wantReplay("the first account's repeat", mine, again)
	s.sawf("two orders under one key")
	return r.wantMoney(ctx, s, mine.orderID(), order.Amount)
}

// hiddenFromOthers: the first account reads its order and its key, the other one finds nothing there.
func (r *contractRun) hiddenFromOthers(ctx context.Context, s *sighting, key string, mine response, order api.OrderRequest) error {
	place := ordersPath + "/" + mine.orderID()
	keyPath := "/v1/idempotency-keys/" + key
	for _, path := range []string{place, place + "/saga", place + "/refunds", keyPath} {
		own, err := r.shop.get(ctx, path)
		if err != nil {
			return err
		}
		s.wantStatus("GET "+path+" by its own account", own, http.StatusOK)
		others, err := r.other.get(ctx, path)
		if err != nil {
			return err
		}
		s.wantStatus("GET "+path+" by the other account", others, http.StatusNotFound)
		s.wantSilence("GET "+path+" by the other account", others, tells(order, mine)[1:]...) // the id is in the question
		if path == keyPath {
			got := parsed[api.KeyRecord](own)
			s.wantf(got.Endpoint == string(api.EndpointCreateOrder) && got.Status == api.KeyStatusCOMPLETED && got.Generation == 1 &&
				got.ResponseStatus == http.StatusCreated && got.SagaKey != nil && *got.SagaKey == mine.order().Saga.Key,
				"GET %s: %+v is not the record of order %s", path, got, mine.orderID())
		}
	}
	refund, err := r.other.post(ctx, place+"/refunds", r.key("other-account-refund"), api.RefundRequest{})
	if err != nil {
		return err
	}
	s.wantStatus("a refund by the other account", refund, http.StatusNotFound)
	s.sawf("404 for its order, timeline, refunds and key")
	return nil
}

// seeDeclined: two refusals for good, one by the bank and one for want of goods.
func seeDeclined(ctx context.Context, r *contractRun, s *sighting) error {
	refused := r.order("declined", 1)
	refused.Payment.Method = declinedMethod
	tooMany := r.order("out-of-stock", 10*contractStock)
	for _, c := range []struct {
		order  api.OrderRequest
		slug   string
		status int
	}{
		{refused, "payment-declined", http.StatusPaymentRequired},
		{tooMany, "out-of-stock", http.StatusUnprocessableEntity},
	} {
		key := r.key(c.slug)
		first, err := r.shop.place(ctx, key, c.order)
		if err != nil {
			return err
		}
		s.wantProblem(c.slug, first, c.slug, c.status)
		s.wantFirst(c.slug, first)
		again, err := r.shop.place(ctx, key, c.order)
		if err != nil {
			return err
		}
		s.wantReplay("the repeat after "+c.slug, first, again)
		c.order.Payment.Method, c.order.Items[0].Quantity, c.order.Amount = goodMethod, 1, c.order.Items[0].UnitAmount
		other, err := r.shop.place(ctx, key, c.order)
		if err != nil {
			return err
		}
		s.wantProblem("a mended order under the key of "+c.slug, other, "idempotency-key-reuse", r.mismatchStatuses()...)
		s.sawf("%s twice", first)
	}
	return nil
}
