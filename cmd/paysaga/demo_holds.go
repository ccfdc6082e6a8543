package main

import (
	"context"
	"fmt"
	"net/http"
	"time"

	"paysaga/api"
	"paysaga/providers/sandbox"
)

// The scenes about money that is held first and taken later, or not at all.

// hold places an order whose money is only held.
func (t *tour) hold(ctx context.Context, p *part, name string) (placed, error) {
	order := placed{key: p.provider.key(name), order: shirts(2, p.provider.pay(p.provider.good))}
	order.order.Payment.Capture = api.CaptureModeManual
	var err error
	if order.reply, err = t.shop.place(ctx, order.key, order.order); err != nil {
		return placed{}, err
	}
	p.wantReply("the order", order.reply, http.StatusCreated, "confirmed")
	p.wantf(order.reply.order().Payment.Status == api.PaymentStatusAuthorized, "the payment is %s, not authorized",
		order.reply.order().Payment.Status)
	t.wantMoney(&p.sceneReport, order.reply.orderID(), 0, 0, order.order.Amount)
	return order, nil
}

func playCapture(ctx context.Context, t *tour, r *sceneReport) error {
	return t.atEach(ctx, r, t.capture)
}

func (t *tour) capture(ctx context.Context, p *part) error {
	order, err := t.hold(ctx, p, "capture")
	if err != nil {
		return err
	}
	id, request := order.reply.orderID(), api.CaptureRequest{Amount: shirtPrice}
	answer, err := t.shop.ask(ctx, id, "capture", order.key, request)
	if err != nil {
		return err
	}
	p.wantf(answer.status == http.StatusOK || answer.status == http.StatusAccepted, "the capture is answered %s: %s", answer, answer.detail())
	end, err := t.waitForOrder(ctx, id, "the capture", settled)
	if err != nil {
		return err
	}
	p.wantf(end.Payment.Status == api.PaymentStatusCaptured && end.Payment.CapturedAmount == shirtPrice,
		"the payment is %s, %d are captured; %d were asked for", end.Payment.Status, end.Payment.CapturedAmount, shirtPrice)
	t.wantMoney(&p.sceneReport, id, shirtPrice, 0, 0)
	again, err := t.shop.post(ctx, ordersPath+"/"+id.String()+"/capture", order.key, request)
	if err != nil {
		return err
	}
	p.wantf(again.same(answer) && again.replayed, "the repeated capture is answered %s, not the same", again)
	late, err := t.shop.ask(ctx, id, "cancel", order.key, api.CancelRequest{})
	if err != nil {
		return err
	}
	p.wantReply("a cancel after the capture", late, http.StatusConflict, "refund-instead")
	p.CameBack = fmt.Sprintf("201 authorized; the capture %s%s; %s, none held; a cancel now: %s", answer, later(answer), t.taken(id), late)
	t.wantMoney(&p.sceneReport, id, shirtPrice, 0, 0)
	return nil
}

// later tells that a webhook brought the end.
func later(answer reply) string {
	if answer.status == http.StatusAccepted {
		return ", done by webhook"
	}
	return ""
}

func playCancel(ctx context.Context, t *tour, r *sceneReport) error {
	before, err := t.stock(ctx, shirt)
	if err != nil {
		return err
	}
	if err := t.atEach(ctx, r, t.cancel); err != nil {
		return err
	}
	return t.wantStockBack(ctx, r, before)
}

func (t *tour) cancel(ctx context.Context, p *part) error {
	order, err := t.hold(ctx, p, "cancel")
	if err != nil {
		return err
	}
	id := order.reply.orderID()
	tooMuch, err := t.shop.ask(ctx, id, "capture", order.key, api.CaptureRequest{Amount: order.order.Amount + 1})
	if err != nil {
		return err
	}
	p.wantReply("a capture of more than is held", tooMuch, http.StatusUnprocessableEntity, "amount-too-large")
	early, err := t.shop.ask(ctx, id, "refunds", order.key, api.RefundRequest{})
	if err != nil {
		return err
	}
	p.wantReply("a refund before the capture", early, http.StatusConflict, "cancel-instead")
	answer, err := t.shop.ask(ctx, id, "cancel", order.key, api.CancelRequest{})
	if err != nil {
		return err
	}
	p.wantf(answer.status == http.StatusOK || answer.status == http.StatusAccepted, "the cancel is answered %s: %s", answer, answer.detail())
	end, err := t.waitForOrder(ctx, id, "the cancel", settled)
	if err != nil {
		return err
	}
	p.wantf(end.Status == api.OrderStatusCanceled && end.Payment.Status == api.PaymentStatusVoided, "the order ended %s, its payment %s",
		end.Status, end.Payment.Status)
	p.CameBack = fmt.Sprintf("%s; a refund: %s; the cancel %s%s; nothing held or taken", tooMuch, early, answer, later(answer))
	t.wantMoney(&p.sceneReport, id, 0, 0, 0)
	return nil
}

// longestHold is a day longer than the longest hold, PayPal's. The database's clock stays as it is.
const longestHold = 30 * 24 * time.Hour

// playExpiry is the last scene, as the providers' clock cannot be set back: from then on they are so far ahead that their dated
// webhooks are refused, which Adyen's are not.
func playExpiry(ctx context.Context, t *tour, r *sceneReport) error {
	before, err := t.stock(ctx, shirt)
	if err != nil {
		return err
	}
	// What tells of the hold arrives after what tells of its end.
	if err := t.webhooks(sandbox.WebhookManner{DelayMS: time.Second.Milliseconds()}); err != nil {
		return err
	}
	held := make([]placed, len(testProviders))
	err = t.atEach(ctx, r, func(ctx context.Context, p *part) error {
		order, err := t.hold(ctx, p, "expiry")
		held[indexOf(p.provider)] = order
		return err
	})
	if err != nil {
		return err
	}
	t.webhooksAsUsual()
	t.place.sandbox.AdvanceClock(longestHold)
	err = t.atEach(ctx, r, func(ctx context.Context, p *part) error { return t.expired(ctx, p, held[indexOf(p.provider)]) })
	if err != nil {
		return err
	}
	return t.wantStockBack(ctx, r, before)
}

// expired: a provider that cannot be asked tells by its webhook; with the others, here, the shop tries to take the money.
func (t *tour) expired(ctx context.Context, p *part, order placed) error {
	id := order.reply.orderID()
	p.CameBack = "201 authorized; the provider tells that the hold is gone"
	if p.provider.polled {
		answer, err := t.shop.ask(ctx, id, "capture", order.key, api.CaptureRequest{})
		if err != nil {
			return err
		}
		p.wantReply("a capture after the hold's end", answer, http.StatusConflict, "authorization-ended")
		p.CameBack = "201 authorized; a capture now: " + answer.String()
	} else if err := t.webhooksDelivered(ctx, p.provider); err != nil {
		return err
	}
	end, err := t.waitForOrder(ctx, id, "the end of the hold", settled)
	if err != nil {
		return err
	}
	p.CameBack += fmt.Sprintf("; the order is %s, its payment %s", end.Status, end.Payment.Status)
	p.wantf(end.Status == api.OrderStatusCanceled, "the order ended %s, not canceled", end.Status)
	t.wantMoney(&p.sceneReport, id, 0, 0, 0)
	return t.wantSettledStays(ctx, p, end)
}

// wantSettledStays: what a webhook tells that was overtaken changes nothing any more.
func (t *tour) wantSettledStays(ctx context.Context, p *part, end api.Order) error {
	const looks = 20 // a second: a webhook that has arrived is applied at once
	for range looks {
		if err := wait(ctx, pollPause); err != nil {
			return err
		}
		var now api.Order
		if err := t.shop.get(ctx, ordersPath+"/"+end.ID.String(), &now); err != nil {
			return err
		}
		if !now.UpdatedAt.Equal(end.UpdatedAt) || now.Saga != end.Saga {
			p.wantf(false, "the order had ended %s, and is %s again, its saga %s", end.Status, now.Status, now.Saga.State)
			return nil
		}
	}
	return nil
}
