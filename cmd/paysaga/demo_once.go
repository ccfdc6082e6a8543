package main

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"sync"
	"time"

	"github.com/google/uuid"

	"paysaga/api"
	"paysaga/providers/sandbox"
)

// The scenes about an order that is placed: exactly once, whatever is repeated, lost or killed.

func playPlainOrder(ctx context.Context, t *tour, r *sceneReport) error {
	first, sentBefore := make([]placed, len(testProviders)), t.shop.numbersNow().sent
	err := t.atEach(ctx, r, func(ctx context.Context, p *part) error {
		order := placed{key: p.provider.key("plain-order"), order: shirts(2, p.provider.pay(p.provider.good))}
		var err error
		if order.reply, err = t.shop.place(ctx, order.key, order.order); err != nil {
			return err
		}
		p.CameBack = fmt.Sprintf("%s; the provider took %s", order.reply, t.taken(order.reply.orderID()))
		p.wantReply("the order", order.reply, http.StatusCreated, "confirmed")
		t.wantOneCharge(&p.sceneReport, order)
		first[indexOf(p.provider)] = order
		return nil
	})
	t.first = first
	repeated := t.shop.numbersNow().sent-sentBefore > len(first) // a machine with too much to do can lose an answer even here
	for _, order := range first {
		r.wantf(repeated || !order.reply.replayed, "an answer that came first claims to be a repeated one")
	}
	return err
}

func indexOf(p testProvider) int {
	for i, each := range testProviders {
		if each.name == p.name {
			return i
		}
	}
	return 0 // there are no others
}

func playReplay(ctx context.Context, t *tour, r *sceneReport) error {
	return t.atEach(ctx, r, func(ctx context.Context, p *part) error {
		first := t.first[indexOf(p.provider)]
		answer, err := t.shop.send(ctx, first.key, first.order)
		if err != nil {
			return err
		}
		p.CameBack = fmt.Sprintf("%s, byte for byte, marked as a repeat; still %s", answer,
			counted(takes(t.chargesOf(first.reply.orderID())), "charge"))
		p.wantf(answer.same(first.reply), "the answer differs from the first: %s", answer)
		p.wantf(answer.replayed, "the answer has no Idempotency-Replayed: true")
		t.wantOneCharge(&p.sceneReport, first)
		return nil
	})
}

func playKeyReuse(ctx context.Context, t *tour, r *sceneReport) error {
	before := len(t.place.sandbox.Ledger())
	first := testProviders[0]
	answer, err := t.shop.send(ctx, t.first[0].key, shirts(3, first.pay(first.good)))
	if err != nil {
		return err
	}
	r.CameBack = fmt.Sprintf("%s; no provider was asked", answer)
	r.wantReply("the order", answer, http.StatusUnprocessableEntity, "idempotency-key-reuse")
	r.wantf(len(t.place.sandbox.Ledger()) == before, "the ledger grew")
	return nil
}

func playTwentyAtOnce(ctx context.Context, t *tour, r *sceneReport) error {
	defer t.place.sandbox.ClearFaults()
	waitedBefore := t.shop.numbersNow().waited
	err := t.atEach(ctx, r, t.twentyAtOnce)
	r.andThenf("%d requests were told 409 and repeated", t.shop.numbersNow().waited-waitedBefore)
	return err
}

func (t *tour) twentyAtOnce(ctx context.Context, p *part) error {
	const clients = 20
	// The charge takes a moment, so that all requests really meet while the first is being worked on.
	fault := sandbox.Fault{Provider: p.provider.name, Call: sandbox.CallCharge, Kind: sandbox.FaultSlow, DelayMS: 300, Times: 1}
	if err := t.place.sandbox.AddFault(fault); err != nil {
		return fmt.Errorf("set the provider up: %w", err)
	}
	key, order := p.provider.key("twenty-at-once"), shirts(1, p.provider.pay(p.provider.good))
	var replies [clients]reply
	var errs [clients]error
	var group sync.WaitGroup
	lostBefore := t.shop.numbersNow().lost
	for i := range clients {
		group.Go(func() { replies[i], errs[i] = t.shop.place(ctx, key, order) })
	}
	group.Wait()
	if err := errors.Join(errs[:]...); err != nil {
		return err
	}
	original, different := 0, 0
	for _, each := range replies {
		if !each.replayed {
			original++
		}
		if !each.same(replies[0]) {
			different++
		}
	}
	p.CameBack = fmt.Sprintf("%d × %s, the same bytes; the provider took %s", clients-different, replies[0], t.taken(replies[0].orderID()))
	p.wantReply("the order", replies[0], http.StatusCreated, "confirmed")
	p.wantf(different == 0, "%d answers differ", different)
	p.wantf(original == 1 || t.shop.numbersNow().lost > lostBefore, "%d answers are not marked as repeats, there should be one", original)
	t.wantOneCharge(&p.sceneReport, placed{key: key, order: order, reply: replies[0]})
	return nil
}

func playDecline(ctx context.Context, t *tour, r *sceneReport) error {
	before, err := t.stock(ctx, shirt)
	if err != nil {
		return err
	}
	err = t.atEach(ctx, r, func(ctx context.Context, p *part) error {
		answer, err := t.shop.place(ctx, p.provider.key("declined"), shirts(2, p.provider.pay(p.provider.declined)))
		if err != nil {
			return err
		}
		p.CameBack = answer.String() + "; nothing taken"
		p.wantReply("the order", answer, http.StatusPaymentRequired, "payment-declined")
		t.wantMoney(&p.sceneReport, answer.orderID(), 0, 0, 0)
		return nil
	})
	if err != nil {
		return err
	}
	return t.wantStockBack(ctx, r, before)
}

// wantStockBack: as much is on hand and available as before.
func (t *tour) wantStockBack(ctx context.Context, r *sceneReport, before api.Stock) error {
	after, err := t.stock(ctx, before.SKU)
	if err != nil {
		return err
	}
	r.andThenf("%d T-shirts are available, as before", after.Available)
	r.wantf(after.Available == before.Available && after.OnHand == before.OnHand, "the stock is not back: %d available, before %d",
		after.Available, before.Available)
	return nil
}

func playOutOfStock(ctx context.Context, t *tour, r *sceneReport) error {
	before := len(t.place.sandbox.Ledger())
	err := t.atEach(ctx, r, func(ctx context.Context, p *part) error {
		order := newOrder(p.provider.pay(p.provider.good), api.Item{SKU: lastPiece, Quantity: 2, UnitAmount: 4900})
		answer, err := t.shop.place(ctx, p.provider.key("out-of-stock"), order)
		if err != nil {
			return err
		}
		p.CameBack = answer.String() + "; the provider was not asked"
		p.wantReply("the order", answer, http.StatusUnprocessableEntity, "out-of-stock")
		return nil
	})
	if err != nil {
		return err
	}
	stock, err := t.stock(ctx, lastPiece)
	if err != nil {
		return err
	}
	r.wantf(len(t.place.sandbox.Ledger()) == before, "the ledger grew")
	r.wantf(stock.Available == 1, "%d pieces are available, there should be 1", stock.Available)
	return nil
}

func playTimeout(ctx context.Context, t *tour, r *sceneReport) error {
	defer t.place.sandbox.ClearFaults()
	return t.atEach(ctx, r, t.timeout)
}

func (t *tour) timeout(ctx context.Context, p *part) error {
	if err := t.loseNextAnswer(p.provider); err != nil {
		return err
	}
	order := placed{key: p.provider.key("timeout-after"), order: shirts(2, p.provider.pay(p.provider.good))}
	begun := time.Now()
	var err error
	if order.reply, err = t.shop.place(ctx, order.key, order.order); err != nil {
		return err
	}
	answered := time.Since(begun)
	end, err := t.waitForEnd(ctx, order.reply.orderID())
	if err != nil {
		return err
	}
	p.CameBack = fmt.Sprintf("%s after %.1f s", order.reply, answered.Seconds())
	if order.reply.status == http.StatusAccepted {
		p.CameBack += fmt.Sprintf(", %s after %.1f s", end.Status, time.Since(begun).Seconds())
	}
	p.CameBack += "; " + t.sentOften(end.ID)
	p.wantf(order.reply.status == http.StatusCreated || order.reply.status == http.StatusAccepted,
		"the answer is %s, not 201 or 202", order.reply)
	p.wantf(end.Status == api.OrderStatusConfirmed, "the order ended %s, not confirmed", end.Status)
	t.wantOneCharge(&p.sceneReport, order)
	t.wantSentAgain(&p.sceneReport, end.ID)
	return nil
}

// loseNextAnswer lets the next charge be taken, and its answer never arrive.
func (t *tour) loseNextAnswer(p testProvider) error {
	fault := sandbox.Fault{Provider: p.name, Call: sandbox.CallCharge, Kind: sandbox.FaultTimeoutAfter, Times: 1}
	if err := t.place.sandbox.AddFault(fault); err != nil {
		return fmt.Errorf("set the provider up: %w", err)
	}
	return nil
}

func playKill(ctx context.Context, t *tour, r *sceneReport) error {
	defer t.place.sandbox.ClearFaults()
	// Nobody shall tell the next server but the providers' own answers.
	if err := t.webhooks(sandbox.WebhookManner{Loss: 1}); err != nil {
		return err
	}
	defer t.webhooksAsUsual()
	before := map[string]bool{}
	for _, charge := range t.place.sandbox.Ledger() {
		before[charge.ID] = true
	}
	lost := make(chan error, len(testProviders))
	for _, p := range testProviders {
		if err := t.loseNextAnswer(p); err != nil {
			return err
		}
		go func() {
			answer, err := t.shop.send(ctx, p.key("killed-server"), shirts(2, p.pay(p.good)))
			if err == nil {
				lost <- fmt.Errorf("the server answered %s before it was killed", answer)
				return
			}
			lost <- nil // an error is what a shop sees of a crash
		}()
	}
	charges, err := t.nextCharges(ctx, before, len(testProviders))
	if err != nil {
		return err
	}
	if err := t.server.kill(); err != nil {
		return err
	}
	killed := time.Now()
	for range testProviders {
		if err := <-lost; err != nil {
			return err
		}
	}
	if err := t.startServer(ctx); err != nil {
		return err
	}
	return t.atEach(ctx, r, func(ctx context.Context, p *part) error { return t.afterKill(ctx, p, charges[p.provider.name], killed) })
}

func (t *tour) afterKill(ctx context.Context, p *part, charge sandbox.Charge, killed time.Time) error {
	id, err := uuid.Parse(orderOf(charge))
	if err != nil {
		return fmt.Errorf("the charge does not tell its order: %w", err)
	}
	end, err := t.waitForEnd(ctx, id)
	if err != nil {
		return err
	}
	finished := time.Since(killed)
	order := placed{key: p.provider.key("killed-server"), order: shirts(2, p.provider.pay(p.provider.good))}
	if order.reply, err = t.shop.place(ctx, order.key, order.order); err != nil {
		return err
	}
	p.CameBack = fmt.Sprintf("no answer; %s by the next server, %.1f s after the kill; a repeat: %s; %s",
		end.Status, finished.Seconds(), order.reply, t.sentOften(id))
	p.wantf(end.Status == api.OrderStatusConfirmed, "the order ended %s, not confirmed", end.Status)
	p.wantf(order.reply.status == http.StatusCreated && order.reply.orderID() == id,
		"the repeat got %s about order %s", order.reply, order.reply.orderID())
	t.wantOneCharge(&p.sceneReport, order)
	t.wantSentAgain(&p.sceneReport, id)
	return nil
}

// nextCharges waits until so many providers have taken money by a payment that was not there before.
func (t *tour) nextCharges(ctx context.Context, before map[string]bool, providers int) (map[string]sandbox.Charge, error) {
	const (
		longest = 10 * time.Second
		often   = 2 * time.Millisecond // the server shall be killed long before it stops waiting for the answers
	)
	ctx, cancel := context.WithTimeout(ctx, longest)
	defer cancel()
	for {
		fresh := map[string]sandbox.Charge{}
		for _, charge := range t.place.sandbox.Ledger() {
			if charge.Captured > 0 && !before[charge.ID] {
				fresh[charge.Provider] = charge
			}
		}
		if len(fresh) == providers {
			return fresh, nil
		}
		if err := wait(ctx, often); err != nil {
			return nil, fmt.Errorf("the providers were not asked for the money: %w", err)
		}
	}
}
