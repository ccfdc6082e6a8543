package main

import (
	"context"
	"fmt"
	"net/http"
	"strings"
	"sync"

	"paysaga/api"
	"paysaga/providers/sandbox"
)

// worstWebhooks is how a provider's webhooks come at their worst. Adyen's are never lost for good: nobody can ask Adyen, which
// therefore sends each until it is accepted.
func worstWebhooks(p testProvider, duplicates float64, seed int64) sandbox.WebhookManner {
	manner := sandbox.WebhookManner{Duplicates: duplicates, Reorder: true, DelayMS: 100, Seed: seed}
	if p.polled {
		manner.Loss = 0.4
	}
	return manner
}

func (t *tour) setWorstWebhooks(duplicates float64) error {
	for _, p := range testProviders {
		if err := t.place.sandbox.SetWebhookManner(p.name, worstWebhooks(p, duplicates, t.options.seed)); err != nil {
			return fmt.Errorf("set the webhooks up: %w", err)
		}
	}
	return nil
}

// webhookNumbers is what became of a provider's webhooks.
func (s *stage) webhookNumbers(provider string) sandbox.WebhookStatus {
	for _, status := range s.place.sandbox.Webhooks() {
		if status.Provider == provider {
			return status
		}
	}
	return sandbox.WebhookStatus{}
}

// webhooksDelivered waits until a provider has nothing to send any more.
func (s *stage) webhooksDelivered(ctx context.Context, p testProvider) error {
	ctx, cancel := context.WithTimeoutCause(ctx, longestWait, fmt.Errorf("%s are over", longestWait))
	defer cancel()
	for s.webhookNumbers(p.name).Waiting > 0 {
		if err := wait(ctx, pollPause); err != nil {
			return fmt.Errorf("wait for the webhooks of %s: %w", p.name, err)
		}
	}
	return nil
}

func playWebhooks(ctx context.Context, t *tour, r *sceneReport) error {
	if err := t.setWorstWebhooks(2); err != nil {
		return err
	}
	defer t.webhooksAsUsual()
	return t.atEach(ctx, r, t.badWebhooks)
}

// badWebhooks places orders of which the provider tells later how they ended, and refunds them: its events are about both.
func (t *tour) badWebhooks(ctx context.Context, p *part) error {
	const orders = 10
	before := t.webhookNumbers(p.provider.name)
	if err := t.wantForgeryRefused(ctx, p); err != nil {
		return err
	}
	var problems [orders]sceneReport
	var errs [orders]error
	var group sync.WaitGroup
	for i := range orders {
		group.Go(func() { errs[i] = t.slowOrder(ctx, p, fmt.Sprintf("webhooks-%02d", i+1), &problems[i]) })
	}
	group.Wait()
	for _, each := range problems {
		p.Problems = append(p.Problems, each.Problems...)
	}
	if err := summarize(errs[:]); err != nil {
		return err
	}
	after := t.webhookNumbers(p.provider.name)
	p.CameBack = fmt.Sprintf("%d events came, %d were lost, the forged one 400; %d orders paid and refunded in part, one charge each",
		after.Delivered-before.Delivered, after.Lost-before.Lost, orders)
	return nil
}

func (t *tour) slowOrder(ctx context.Context, p *part, name string, r *sceneReport) error {
	order := placed{key: p.provider.key(name), order: shirts(1, p.provider.pay(p.provider.slow))}
	var err error
	if order.reply, err = t.shop.place(ctx, order.key, order.order); err != nil {
		return err
	}
	id := order.reply.orderID()
	r.wantReply("the order", order.reply, http.StatusAccepted, "awaiting")
	end, err := t.waitForEnd(ctx, id)
	if err != nil {
		return err
	}
	r.wantf(end.Status == api.OrderStatusConfirmed, "the order ended %s, not confirmed", end.Status)
	const part = 500
	answer, err := t.shop.ask(ctx, id, "refunds", order.key, api.RefundRequest{Amount: part})
	if err != nil {
		return err
	}
	if p.provider.refundsWait {
		if err := t.atBank(ctx, answer.refund(), "settle"); err != nil {
			return err
		}
	}
	if _, err := t.waitForRefund(ctx, answer.refund(), api.RefundStatusSucceeded); err != nil {
		return err
	}
	r.wantf(takes(t.chargesOf(id)) == 1, "the provider has %s for order %s", counted(takes(t.chargesOf(id)), "charge"), id)
	t.wantMoney(r, id, order.order.Amount, part, 0)
	return nil
}

// wantForgeryRefused sends what anybody could send who knows the address.
func (t *tour) wantForgeryRefused(ctx context.Context, p *part) error {
	request, err := http.NewRequestWithContext(ctx, http.MethodPost, t.server.url+"/webhooks/"+p.provider.name,
		strings.NewReader(p.provider.forged))
	if err != nil {
		return fmt.Errorf("forge a webhook: %w", err)
	}
	answer, err := t.shop.do(request)
	if err != nil {
		return fmt.Errorf("forge a webhook: %w", err)
	}
	p.wantf(answer.status == http.StatusBadRequest, "a forged webhook is answered %d, not 400", answer.status)
	return nil
}
