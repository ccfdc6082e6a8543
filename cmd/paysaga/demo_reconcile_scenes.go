package main

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"slices"
	"sync"
	"time"

	"paysaga/api"
	"paysaga/providers/sandbox"
)

const (
	// halfNight is more than PayPal's list is behind: what is done at midnight is listed in the morning.
	halfNight = 4 * time.Hour
	// calmOrders are placed at each provider, and nothing happens to them.
	calmOrders = 5
)

func (t *reconcileTour) reconcileScenes() []reconcileScene {
	return []reconcileScene{
		{"A day", "a few dozen orders at the three providers; then the server is killed", t.playDay},
		{"A night", "things go wrong that nobody tells", t.playNight},
		{"The morning", "paysaga reconcile, with the providers' settlement files", t.playLook},
		{"What rules allow", "paysaga reconcile --apply", t.playApply},
		{"Once more", "paysaga reconcile --apply", t.playAgain},
	}
}

// reconcileScene is a scene that stands on the one before.
type reconcileScene struct {
	title, sent string
	play        func(ctx context.Context, r *sceneReport) error
}

// playDay places the orders, and kills the server when a provider has taken the money and not answered.
func (t *reconcileTour) playDay(ctx context.Context, r *sceneReport) error {
	for _, provider := range []string{atStripe, atPayPal} { // their webhooks have a time, which the server's clock has behind it
		if err := t.place.sandbox.SetWebhookManner(provider, sandbox.WebhookManner{Loss: 1}); err != nil {
			return fmt.Errorf("set the webhooks up: %w", err)
		}
	}
	orders := t.dayOrders()
	errs := make([]error, len(orders))
	var group sync.WaitGroup
	for i, p := range orders {
		group.Go(func() { errs[i] = t.placeByDay(ctx, p, fmt.Sprintf("%02d", i+1)) })
	}
	group.Wait()
	if err := errors.Join(errs...); err != nil {
		return err
	}
	if err := t.webhooksApplied(ctx); err != nil {
		return err
	}
	if err := t.killBeforeAnswer(ctx); err != nil {
		return err
	}
	words := map[string]int{}
	for _, p := range orders {
		words[p.taken.reply.String()]++
	}
	for _, word := range slices.Sorted(maps.Keys(words)) {
		r.andThenf("%3d × %s", words[word], word)
	}
	r.andThenf("  1 × no answer: PayPal took the money, and the server is gone")
	return nil
}

// webhooksApplied waits until no provider has anything to send any more, and the inbox nothing to apply.
func (t *reconcileTour) webhooksApplied(ctx context.Context) error {
	for _, p := range testProviders {
		if err := t.webhooksDelivered(ctx, p); err != nil {
			return err
		}
	}
	ctx, cancel := context.WithTimeoutCause(ctx, longestWait, fmt.Errorf("%s are over", longestWait))
	defer cancel()
	for {
		waiting, err := t.mischief.Waiting(ctx)
		if err != nil || waiting == 0 {
			return err
		}
		if err := wait(ctx, pollPause); err != nil {
			return fmt.Errorf("wait for the inbox: %w", err)
		}
	}
}

// dayOrders are those that get an answer.
func (t *reconcileTour) dayOrders() []*planted {
	var orders []*planted
	for _, p := range t.planted {
		if p.order.status != 0 {
			orders = append(orders, p)
		}
	}
	for _, provider := range testProviders {
		for range calmOrders {
			calm := &planted{planting: planting{Provider: provider.name, order: paid}}
			orders, t.calm = append(orders, calm), append(t.calm, calm)
		}
	}
	return orders
}

func (t *reconcileTour) placeByDay(ctx context.Context, p *planted, number string) error {
	provider := p.provider()
	p.taken = placed{key: provider.key("reconcile-" + number), order: p.order.request(provider)}
	var err error
	if p.taken.reply, err = t.shop.place(ctx, p.taken.key, p.taken.order); err != nil {
		return err
	}
	if got := p.taken.reply; got.status != p.order.status || got.word() != p.order.word {
		return fmt.Errorf("an order at %s is answered %s, not %d %s: %s", p.Provider, got, p.order.status, p.order.word, got.detail())
	}
	if charges := t.chargesOf(p.taken.reply.orderID()); len(charges) == 1 {
		p.charge = charges[0]
	}
	if p.happens.day == nil {
		return nil
	}
	return p.happens.day(ctx, t, p)
}

// killBeforeAnswer has a provider take the money of an order and keep its answer until the server is killed.
func (t *reconcileTour) killBeforeAnswer(ctx context.Context) error {
	if err := t.webhooks(sandbox.WebhookManner{Loss: 1}); err != nil {
		return err
	}
	defer t.place.sandbox.ClearFaults()
	p := t.unanswered()
	if err := t.loseNextAnswer(p.provider()); err != nil {
		return err
	}
	before := map[string]bool{}
	for _, charge := range t.place.sandbox.Ledger() {
		before[charge.ID] = true
	}
	p.taken = placed{key: p.provider().key("reconcile-lost"), order: p.order.request(p.provider())}
	lost := make(chan error, 1)
	go func() {
		answer, err := t.shop.send(ctx, p.taken.key, p.taken.order)
		if err == nil {
			lost <- fmt.Errorf("the server answered %s before it was killed", answer)
			return
		}
		lost <- nil // an error is what a shop sees of a crash
	}()
	charges, err := t.nextCharges(ctx, before, 1)
	if err != nil {
		return err
	}
	p.charge = charges[p.Provider]
	if err := t.server.kill(); err != nil {
		return err
	}
	return <-lost
}

func (t *reconcileTour) unanswered() *planted {
	i := slices.IndexFunc(t.planted, func(p *planted) bool { return p.order.request != nil && p.order.status == 0 })
	return t.planted[i]
}

// refundSome has the shop give a part of an order back.
func refundSome(ctx context.Context, t *reconcileTour, p *planted) error {
	const some = 500
	answer, err := t.shop.ask(ctx, p.taken.reply.orderID(), "refunds", p.taken.key, api.RefundRequest{Amount: some})
	if err != nil {
		return err
	}
	if answer.status != http.StatusAccepted && answer.status != http.StatusCreated {
		return fmt.Errorf("the refund is answered %s: %s", answer, answer.detail())
	}
	_, err = t.waitForRefund(ctx, answer.refund(), api.RefundStatusSucceeded)
	return err
}

// playNight plants everything else, by midnight.
func (t *reconcileTour) playNight(ctx context.Context, r *sceneReport) error {
	if err := t.pass(ctx, halfNight); err != nil {
		return err
	}
	if err := t.mischief.Rest(ctx, halfNight+time.Hour); err != nil { // nobody looks at what waits before the morning
		return err
	}
	planted := map[string]int{}
	for _, p := range t.planted {
		if p.happens.night != nil {
			if err := p.happens.night(ctx, t, p); err != nil {
				p.wantf(false, "it could not be planted: %v", err)
			}
		}
		planted[p.Where]++
	}
	if err := t.pass(ctx, halfNight); err != nil {
		return err
	}
	if err := t.fetchFiles(ctx); err != nil {
		return err
	}
	for _, where := range []string{atProvider, onTheWay, inDatabase, inFile} {
		r.andThenf("%3d × %s", planted[where], where)
	}
	t.ledger = t.place.sandbox.Ledger()
	return nil
}

// pass lets time go by, for the providers and for the database.
func (t *reconcileTour) pass(ctx context.Context, time time.Duration) error {
	t.place.sandbox.AdvanceClock(time)
	return t.mischief.Advance(ctx, time)
}
