package main

import (
	"context"
	"fmt"
	"sync"

	"github.com/google/uuid"

	"paysaga/api"
)

// doLater does with the storm's orders what the plan says, while the providers go on to misbehave, and waits for the end of each.
// It counts the answers.
func (t *tour) doLater(ctx context.Context, plan []plannedOrder, replies []reply) (map[string]int, error) {
	var planned []int
	for i, p := range plan {
		if p.then != nothing {
			planned = append(planned, i)
		}
	}
	progress := t.screen.progress("captures, cancels and refunds", len(planned))
	defer progress.end()
	answers := map[string]int{}
	var mu sync.Mutex
	errs := t.inParallel(len(planned), func(n int) error {
		defer progress.step()
		p := plan[planned[n]]
		answer, err := t.doDeed(ctx, p, replies[planned[n]].orderID())
		if err != nil {
			return fmt.Errorf("%s of order %s: %w", p.then, p.key, err)
		}
		mu.Lock()
		defer mu.Unlock()
		if answer.status != 0 {
			answers[string(p.then)+" "+answer.String()]++
		}
		return nil
	})
	return answers, summarize(errs)
}

// doDeed is one of them. An order that came to nothing, for want of stock, is left alone: the answer is zero then.
func (t *tour) doDeed(ctx context.Context, p plannedOrder, id uuid.UUID) (reply, error) {
	var order api.Order
	if err := t.shop.get(ctx, ordersPath+"/"+id.String(), &order); err != nil {
		return reply{}, err
	}
	if order.Status != api.OrderStatusConfirmed {
		return reply{}, nil
	}
	if p.then == refundPart {
		return t.refundOne(ctx, p, id)
	}
	what, request := "capture", any(api.CaptureRequest{Amount: p.order.Items[0].UnitAmount})
	if p.then == cancelHold {
		what, request = "cancel", api.CancelRequest{}
	}
	answer, err := t.shop.ask(ctx, id, what, p.key, request)
	if err != nil {
		return answer, err
	}
	_, err = t.waitForOrder(ctx, id, what, settled)
	return answer, err
}

// refundOne gives the price of one piece back.
func (t *tour) refundOne(ctx context.Context, p plannedOrder, id uuid.UUID) (reply, error) {
	answer, err := t.shop.ask(ctx, id, "refunds", p.key, api.RefundRequest{Amount: p.order.Items[0].UnitAmount})
	if err != nil {
		return answer, err
	}
	_, err = t.waitForRefund(ctx, answer.refund(), api.RefundStatusSucceeded)
	return answer, err
}
