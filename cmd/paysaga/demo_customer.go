package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"strings"
	"sync"

	"paysaga/api"
	"paysaga/providers/sandbox"
)

// The scenes in which the customer has something to do.

func playCustomer(ctx context.Context, t *tour, r *sceneReport) error {
	defer t.webhooksAsUsual()
	return t.atEach(ctx, r, t.customerActs)
}

// customerActs plays each way in which paysaga can learn that the customer has approved. Whichever comes first, the money is taken
// once.
func (t *tour) customerActs(ctx context.Context, p *part) error {
	if err := t.place.sandbox.SetWebhookManner(p.provider.name, sandbox.WebhookManner{Loss: 1}); err != nil {
		return fmt.Errorf("set the webhooks up: %w", err)
	}
	ways := []string{"/continue"}
	if err := t.approved(ctx, p, "continue", t.continueOnce); err != nil {
		return err
	}
	if p.provider.polled {
		ways = append(ways, "a poll")
		if err := t.approved(ctx, p, "poll", nil); err != nil {
			return err
		}
	}
	if err := t.place.sandbox.SetWebhookManner(p.provider.name, sandbox.WebhookManner{}); err != nil {
		return fmt.Errorf("set the webhooks up: %w", err)
	}
	if err := t.approved(ctx, p, "webhook", nil); err != nil {
		return err
	}
	if err := t.approved(ctx, p, "all", t.continueOften); err != nil {
		return err
	}
	ways = append(ways, "a webhook", fmt.Sprintf("all at once, with %d × /continue", continues))
	p.CameBack = fmt.Sprintf("202 awaiting; then confirmed by %s; one charge each", strings.Join(ways, ", by "))
	return nil
}

// approved places an order, lets its customer approve, and has the shop do what it does then; nil is nothing.
func (t *tour) approved(ctx context.Context, p *part, way string, then func(context.Context, *part, placed, url.Values) error) error {
	order := placed{key: p.provider.key("customer-" + way), order: shirts(2, p.provider.pay(p.provider.customer))}
	order.order.Payment.ReturnURL = shopPage
	var err error
	if order.reply, err = t.shop.place(ctx, order.key, order.order); err != nil {
		return err
	}
	p.wantReply("the order", order.reply, http.StatusAccepted, "awaiting")
	t.wantMoney(&p.sceneReport, order.reply.orderID(), 0, 0, 0)
	back, err := t.decide(ctx, order.reply.order().NextAction, "approve")
	if err != nil {
		return err
	}
	if then != nil {
		if err := then(ctx, p, order, back); err != nil {
			return err
		}
	}
	end, err := t.waitForEnd(ctx, order.reply.orderID())
	if err != nil {
		return err
	}
	p.wantf(end.Status == api.OrderStatusConfirmed, "the order that a %s was to finish ended %s", way, end.Status)
	p.wantf(end.NextAction == nil, "the confirmed order still asks the customer to act")
	t.wantOneCharge(&p.sceneReport, order)
	return nil
}

// continueRequest is what a shop sends when its customer is back: Adyen wants to have what the way back brought.
func (p testProvider) continueRequest(back url.Values) (api.ContinueRequest, error) {
	if !back.Has("redirectResult") {
		return api.ContinueRequest{}, nil
	}
	details, err := json.Marshal(map[string]string{"redirectResult": back.Get("redirectResult")})
	if err != nil {
		return api.ContinueRequest{}, fmt.Errorf("encode details: %w", err)
	}
	return api.ContinueRequest{Details: details}, nil
}

func (t *tour) continueOnce(ctx context.Context, p *part, order placed, back url.Values) error {
	request, err := p.provider.continueRequest(back)
	if err != nil {
		return err
	}
	answer, err := t.shop.ask(ctx, order.reply.orderID(), "continue", order.key, request)
	if err != nil {
		return err
	}
	p.wantReply("/continue", answer, http.StatusOK, "confirmed")
	return nil
}

// continues is how often a customer reloads the page at once.
const continues = 4

// continueOften is a customer who reloads the shop's page, while the provider's webhook is on its way.
func (t *tour) continueOften(ctx context.Context, p *part, order placed, back url.Values) error {
	request, err := p.provider.continueRequest(back)
	if err != nil {
		return err
	}
	var replies [continues]reply
	var errs [continues]error
	var group sync.WaitGroup
	for i := range continues {
		group.Go(func() {
			key := fmt.Sprintf("%s-%d", order.key, i+1)
			replies[i], errs[i] = t.shop.ask(ctx, order.reply.orderID(), "continue", key, request)
		})
	}
	group.Wait()
	for _, answer := range replies {
		p.wantReply("one of several /continue at once", answer, http.StatusOK, "confirmed")
	}
	return errors.Join(errs[:]...)
}

func playElsewhere(ctx context.Context, t *tour, r *sceneReport) error {
	return t.atEach(ctx, r, t.elsewhere)
}

// elsewhere pays at the next provider what this one's bank declines. The stock stays reserved in between.
func (t *tour) elsewhere(ctx context.Context, p *part) error {
	next := testProviders[(indexOf(p.provider)+1)%len(testProviders)]
	order := placed{key: p.provider.key("elsewhere"), order: shirts(2, p.provider.pay(p.provider.declined))}
	order.order.Payment.OnDecline = api.OnDeclineAwait
	var err error
	if order.reply, err = t.shop.place(ctx, order.key, order.order); err != nil {
		return err
	}
	id := order.reply.orderID()
	p.wantReply("the declined order", order.reply, http.StatusAccepted, "awaiting")
	action := order.reply.order().NextAction
	p.wantf(action != nil && action.Type == api.NextActionTypePaymentMethod, "the declined order does not ask for another payment: %v", action)
	empty, err := t.shop.ask(ctx, id, "continue", order.key+"-empty", api.ContinueRequest{})
	if err != nil {
		return err
	}
	p.wantReply("/continue without another payment", empty, http.StatusUnprocessableEntity, "payment-required")
	other := api.ContinueRequest{Payment: &api.ContinuePayment{Provider: next.name, Method: next.good}}
	paid, err := t.shop.ask(ctx, id, "continue", order.key, other)
	if err != nil {
		return err
	}
	p.wantReply("/continue with another payment", paid, http.StatusOK, "confirmed")
	again, err := t.shop.post(ctx, ordersPath+"/"+id.String()+"/continue", order.key, other)
	if err != nil {
		return err
	}
	p.wantf(again.same(paid) && again.replayed, "the repeated /continue is answered %s, not the same", again)
	p.CameBack = fmt.Sprintf("%s, payment %s; then at %s %s; %s", order.reply, order.reply.order().Payment.Status, next.name, paid,
		t.taken(id))
	t.wantMoney(&p.sceneReport, id, order.order.Amount, 0, 0)
	for _, charge := range t.chargesOf(id) {
		p.wantf(charge.Captured == 0 || charge.Provider == next.name, "%s took the money, not %s", charge.Provider, next.name)
	}
	return nil
}
