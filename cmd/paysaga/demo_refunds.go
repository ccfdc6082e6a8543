package main

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"sync"

	"paysaga/api"
)

// The scenes about money that goes back.

func playRefunds(ctx context.Context, t *tour, r *sceneReport) error {
	return t.atEach(ctx, r, t.refunds)
}

// paid places an order that is paid at once.
func (t *tour) paid(ctx context.Context, p *part, name string) (placed, error) {
	order := placed{key: p.provider.key(name), order: shirts(2, p.provider.pay(p.provider.good))}
	var err error
	order.reply, err = t.shop.place(ctx, order.key, order.order)
	p.wantReply("the order", order.reply, http.StatusCreated, "confirmed")
	return order, err
}

func (t *tour) refunds(ctx context.Context, p *part) error {
	const first, second, tooMuch = 1000, 1500, 2000
	order, err := t.paid(ctx, p, "refunds")
	if err != nil {
		return err
	}
	id := order.reply.orderID()
	var answers [2]reply
	for i, amount := range []int64{first, second} {
		key := fmt.Sprintf("%s-%d", order.key, i+1)
		if answers[i], err = t.refundTwice(ctx, p, order, key, api.RefundRequest{Amount: amount, Reason: "one of the parts"}); err != nil {
			return err
		}
	}
	refused, err := t.shop.ask(ctx, id, "refunds", order.key+"-3", api.RefundRequest{Amount: tooMuch})
	if err != nil {
		return err
	}
	p.wantReply("the refund of too much", refused, http.StatusUnprocessableEntity, "amount-too-large")
	for _, answer := range answers {
		if _, err := t.waitForRefund(ctx, answer.refund(), api.RefundStatusSucceeded); err != nil {
			return err
		}
	}
	if err := t.wantRefunded(ctx, p, order, first+second); err != nil {
		return err
	}
	p.CameBack = fmt.Sprintf("%s twice%s, then %s; 25.00 EUR given back", answers[0], later(answers[0]), refused)
	return t.returned(ctx, p, order, answers[0].refund(), second)
}

// refundTwice asks for a refund and repeats the request, which must change nothing.
func (t *tour) refundTwice(ctx context.Context, p *part, order placed, key string, request api.RefundRequest) (reply, error) {
	id := order.reply.orderID()
	answer, err := t.shop.ask(ctx, id, "refunds", key, request)
	if err != nil {
		return reply{}, err
	}
	p.wantf(answer.status == http.StatusCreated || answer.status == http.StatusAccepted,
		"the refund is answered %s: %s", answer, answer.detail())
	again, err := t.shop.post(ctx, ordersPath+"/"+id.String()+"/refunds", key, request)
	if err != nil {
		return reply{}, err
	}
	p.wantf(again.same(answer) && again.replayed, "the repeated refund is answered %s, not the same", again)
	return answer, nil
}

// returned lets the bank send a refund back. The order has only the other one then, at the provider and here.
func (t *tour) returned(ctx context.Context, p *part, order placed, refund api.Refund, left int64) error {
	refund, err := t.waitForRefund(ctx, refund, api.RefundStatusSucceeded)
	if err != nil {
		return err
	}
	if err := t.atBank(ctx, refund, "fail"); err != nil {
		return err
	}
	failed, err := t.waitForRefund(ctx, refund, api.RefundStatusFailed)
	if err != nil {
		return err
	}
	p.CameBack += fmt.Sprintf("; the bank sends one back: %s, %s left", failed.Status, euros(left))
	return t.wantRefunded(ctx, p, order, left)
}

// wantRefunded: so much is given back, in the order as in the ledger.
func (t *tour) wantRefunded(ctx context.Context, p *part, order placed, amount int64) error {
	id := order.reply.orderID()
	var now api.Order
	if err := t.shop.get(ctx, ordersPath+"/"+id.String(), &now); err != nil {
		return err
	}
	p.wantf(now.Payment.RefundedAmount == amount && now.Payment.Status == api.PaymentStatusPartiallyRefunded,
		"the order has %d refunded and is %s, there should be %d", now.Payment.RefundedAmount, now.Payment.Status, amount)
	t.wantMoney(&p.sceneReport, id, order.order.Amount, amount, 0)
	return nil
}

func playRefundRace(ctx context.Context, t *tour, r *sceneReport) error {
	return t.atEach(ctx, r, t.refundRace)
}

func (t *tour) refundRace(ctx context.Context, p *part) error {
	const (
		refunds = 50
		each    = 150
	)
	order, err := t.paid(ctx, p, "refund-race")
	if err != nil {
		return err
	}
	var replies [refunds]reply
	var errs [refunds]error
	var group sync.WaitGroup
	for i := range refunds {
		group.Go(func() {
			key := fmt.Sprintf("%s-%02d", order.key, i+1)
			replies[i], errs[i] = t.shop.ask(ctx, order.reply.orderID(), "refunds", key, api.RefundRequest{Amount: each})
		})
	}
	group.Wait()
	if err := errors.Join(errs[:]...); err != nil {
		return err
	}
	taken := 0
	for _, answer := range replies {
		if answer.status == http.StatusCreated || answer.status == http.StatusAccepted {
			taken++
			if _, err := t.waitForRefund(ctx, answer.refund(), api.RefundStatusSucceeded); err != nil {
				return err
			}
			continue
		}
		p.wantReply("a refund that does not fit any more", answer, http.StatusUnprocessableEntity, "amount-too-large")
	}
	fit := order.order.Amount / each
	p.wantf(int64(taken) == fit, "%d refunds were accepted; %d fit", taken, fit)
	p.CameBack = fmt.Sprintf("%d accepted, %d × 422 amount-too-large; %s of %s given back", taken, refunds-taken,
		euros(int64(taken)*each), euros(order.order.Amount))
	return t.wantRefunded(ctx, p, order, fit*each)
}
