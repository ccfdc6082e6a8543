package main

import (
	"context"
	"fmt"
	"math"
	"net/http"
	"strings"
	"sync"
	"time"

	"paysaga/api"
)

// The scenarios about what an operator can set, on servers of the run's own.

func seeExpired(ctx context.Context, r *contractRun, s *sighting) error {
	if err := r.renewed(ctx, s); err != nil {
		return err
	}
	return r.own.with(ctx, func(server string) error {
		shop, key, order := r.shop.at(server), r.key("expired-reject"), r.order("expired-reject", 1)
		first, err := shop.place(ctx, key, order)
		if err != nil {
			return err
		}
		if !s.wantOrder("the first answer", first) {
			return nil
		}
		if err := r.own.expire(ctx, key); err != nil {
			return err
		}
		late, err := shop.place(ctx, key, order)
		if err != nil {
			return err
		}
		s.wantProblem("the late repeat, where expired keys are rejected", late, "idempotency-key-expired", http.StatusGone)
		s.wantSilence("the late repeat, where expired keys are rejected", late, tells(order, first)...)
		s.sawf("rejected: %s", late)
		return r.wantMoney(ctx, s, first.orderID(), order.Amount)
	}, "PAYSAGA_EXPIRED_KEYS=reject")
}

// renewed: an expired key begins another order, its next generation, and that one is replayed from then on.
func (r *contractRun) renewed(ctx context.Context, s *sighting) error {
	key, order := r.key("expired"), r.order("expired", 1)
	first, err := r.shop.place(ctx, key, order)
	if err != nil {
		return err
	}
	if !s.wantOrder("the first answer", first) {
		return nil
	}
	if err := r.own.expire(ctx, key); err != nil {
		return err
	}
	second, err := r.shop.place(ctx, key, order)
	if err != nil {
		return err
	}
	s.wantFirst("the request after the window", second)
	if !s.wantOrder("the request after the window", second) {
		return nil
	}
	s.wantAnother("the request after the window", first, second)
	third, err := r.shop.place(ctx, key, order)
	if err != nil {
		return err
	}
	s.wantReplay("its repeat", second, third)
	var timeline api.Saga
	if err := r.shop.read(ctx, ordersPath+"/"+second.orderID()+"/saga", &timeline); err != nil {
		return err
	}
	s.wantf(timeline.Generation == 2, "the second order is of generation %d, not 2", timeline.Generation)
	s.sawf("new: another order, of generation %d", timeline.Generation)
	return r.wantMoney(ctx, s, second.orderID(), order.Amount)
}

func seeRetention(ctx context.Context, r *contractRun, s *sighting) error {
	const setting = "PAYSAGA_RETENTION"
	refused, said, err := r.own.refuses(ctx, setting+"=24h") // Adyen remembers a key for seven days
	if err != nil {
		return err
	}
	s.wantf(refused, "a server with %s=24h starts, though Adyen remembers keys for seven days", setting)
	for line := range strings.Lines(said) {
		if strings.Contains(line, setting) {
			s.sawf("%s", strings.TrimSpace(line))
			return nil
		}
	}
	s.wantf(!refused, "the server did not start, but does not name %s", setting)
	return nil
}

// The limit scenario's limit: low enough to be met by a few orders, high enough that the next key is free in seconds.
const (
	keysPerMinute = 20
	keysSent      = 2 * keysPerMinute
)

func seeLimit(ctx context.Context, r *contractRun, s *sighting) error {
	secret, err := r.own.newAccount(ctx, "contract-"+r.id)
	if err != nil {
		return err
	}
	shop := r.shop
	shop.secret = secret
	if err := shop.putStock(ctx, r.sku()); err != nil {
		return err
	}
	shop.patient = false
	setting := fmt.Sprintf("PAYSAGA_NEW_KEYS_PER_MINUTE=%d", keysPerMinute)
	return r.own.with(ctx, func(one string) error {
		return r.own.with(ctx, func(two string) error {
			return r.limit(ctx, s, shop.at(one), shop.at(two))
		}, setting)
	}, setting)
}

// limit sends many new keys at two servers at once.
func (r *contractRun) limit(ctx context.Context, s *sighting, shops ...client) error {
	begun := time.Now()
	answers, err := r.flood(ctx, shops)
	if err != nil {
		return err
	}
	accepted, refused := -1, -1 // places of one of each
	count := 0
	for i, answer := range answers {
		if answer.status != http.StatusTooManyRequests {
			s.wantOrder("a new key", answer)
			accepted, count = i, count+1
			continue
		}
		refused = i
		s.wantProblem("a new key too many", answer, "too-many-new-keys", http.StatusTooManyRequests)
		s.wantRetryAfter("a new key too many", answer)
		for _, name := range []string{"RateLimit", "RateLimit-Policy"} {
			s.wantf(answer.header.Get(name) != "", "a new key too many: no %s", name)
		}
	}
	// A key comes free each time that a minute's share has passed.
	most := keysPerMinute + int(math.Ceil(time.Since(begun).Minutes()*keysPerMinute))
	s.wantf(count >= keysPerMinute && count <= most, "%d of %d new keys were taken at two servers together, not %d to %d",
		count, keysSent, keysPerMinute, most)
	if accepted < 0 || refused < 0 {
		return nil
	}
	s.sawf("%d of %d new keys at two servers; then %s, Retry-After %s", count, keysSent, answers[refused],
		answers[refused].header.Get("Retry-After"))
	if err := r.repeatsAreFree(ctx, s, shops, accepted, answers[accepted]); err != nil {
		return err
	}
	return r.refusedKeyWorksLater(ctx, s, shops[0], refused)
}

func (r *contractRun) floodKey(i int) (key string, order api.OrderRequest) {
	name := fmt.Sprintf("limit-%d", i+1)
	return r.key(name), r.order(name, 1)
}

func (r *contractRun) flood(ctx context.Context, shops []client) ([]response, error) {
	const atOnce = 8
	answers, errs := make([]response, keysSent), make([]error, atOnce)
	var group sync.WaitGroup
	for worker := range atOnce {
		group.Go(func() {
			for i := worker; i < keysSent && errs[worker] == nil; i += atOnce {
				key, order := r.floodKey(i)
				answers[i], errs[worker] = shops[i%len(shops)].place(ctx, key, order)
			}
		})
	}
	group.Wait()
	return answers, joinFirst(errs)
}

func joinFirst(errs []error) error {
	for _, err := range errs {
		if err != nil {
			return err
		}
	}
	return nil
}

// repeatsAreFree: a key that is known is answered however often it comes, at either server.
func (r *contractRun) repeatsAreFree(ctx context.Context, s *sighting, shops []client, place int, first response) error {
	key, order := r.floodKey(place)
	for range keysPerMinute {
		for _, shop := range shops {
			again, err := shop.place(ctx, key, order)
			if err != nil {
				return err
			}
			s.wantReplay("a repeat past the limit", first, again)
		}
	}
	s.sawf("%d repeats are answered", len(shops)*keysPerMinute)
	return nil
}

// refusedKeyWorksLater: a 429 is not kept under its key.
func (r *contractRun) refusedKeyWorksLater(ctx context.Context, s *sighting, shop client, place int) error {
	key, order := r.floodKey(place)
	shop.patient = true
	answer, err := shop.place(ctx, key, order)
	if err != nil {
		return err
	}
	s.wantFirst("a refused key after Retry-After", answer)
	s.wantOrder("a refused key after Retry-After", answer)
	s.sawf("a refused key later: %s", answer)
	return nil
}
