package main

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"sync"
	"time"

	"paysaga/api"
	"paysaga/providers/sandbox"
)

// The scenarios about requests that meet while the first one runs, or whose server or provider goes away.

const (
	// twentyAtOnce is how many repeats meet; a customer does not click as often.
	twentyAtOnce = 20
	// slowCharge is long enough that all of them meet, and shorter than a provider call may take.
	slowCharge = 1200 * time.Millisecond
)

func seeRunning(ctx context.Context, r *contractRun, s *sighting) (err error) {
	if r.sandbox != nil {
		if err := r.sandbox.upset(ctx, sandbox.Fault{Kind: sandbox.FaultSlow, DelayMS: slowCharge.Milliseconds(), Times: 1}); err != nil {
			return err
		}
		defer func() { err = errors.Join(err, r.sandbox.calm(ctx)) }()
	}
	order, key := r.order("running", 1), r.key("running")
	crowd := gather(ctx, key, order, r.shop)
	select {
	case <-crowd.met:
		// What comes now under the same key meets a request that runs, and must not be told of it either.
		other, err := r.shop.place(ctx, key, r.otherOrder(otherIntents[0]))
		if err != nil {
			return errors.Join(err, crowd.wait())
		}
		s.wantProblem("another request meanwhile", other, "idempotency-key-reuse", r.mismatchStatuses()...)
		s.wantSilence("another request meanwhile", other, tells(order, response{})[2:]...)
		s.sawf("another request meanwhile: %s", other)
	case <-crowd.ended:
		s.wantf(r.sandbox == nil, "no repeat was told 409 while the first request ran")
		s.sawf("no repeat met the first request while it ran: without the sandbox that is left to chance")
	}
	if err := crowd.wait(); err != nil {
		return err
	}
	s.wantOneOf(crowd, false)
	if !s.wantOrder("the answer to all", crowd.answers[0]) {
		return nil
	}
	return r.wantMoney(ctx, s, crowd.answers[0].orderID(), order.Amount)
}

// crowd is many clients with one request at once.
type crowd struct {
	answers [twentyAtOnce]response
	told    [twentyAtOnce][]response // before the answer: 409 and 5xx
	errs    [twentyAtOnce]error
	met     chan struct{} // closed when one of them was told to wait
	ended   chan struct{} // closed when all have their answer
}

// gather has all of them send the request, spread over the clients' servers, and repeat it until they have the answer.
func gather(ctx context.Context, key string, order api.OrderRequest, clients ...client) *crowd {
	c := &crowd{met: make(chan struct{}), ended: make(chan struct{})}
	var group sync.WaitGroup
	var once sync.Once
	for i := range twentyAtOnce {
		group.Go(func() {
			shop := clients[i%len(clients)]
			first, err := shop.place(ctx, key, order)
			if err == nil && first.inProgress() {
				once.Do(func() { close(c.met) })
			}
			if err == nil && !first.passes() {
				c.answers[i] = first
				return
			}
			c.answers[i], c.told[i], c.errs[i] = insist(ctx, shop, key, order)
			if err == nil {
				c.told[i] = append(c.told[i], first)
			}
		})
	}
	go func() { group.Wait(); close(c.ended) }()
	return c
}

func (c *crowd) wait() error {
	<-c.ended
	return errors.Join(c.errs[:]...)
}

// wantOneOf: all end with the same bytes, and at most one of them is the one that executed. It is none where a recovery worker may have
// come before all of them.
func (s *sighting) wantOneOf(c *crowd, recovered bool) {
	executed, different, waits := 0, 0, 0
	for i, answer := range c.answers {
		if !answer.replayed() {
			executed++
		}
		if !answer.same(c.answers[0]) {
			different++
		}
		for _, told := range c.told[i] {
			waits++
			s.wantProblem("a repeat meanwhile", told, "request-in-progress", http.StatusConflict)
			s.wantRetryAfter("a repeat meanwhile", told)
			s.wantSilence("a repeat meanwhile", told, c.answers[i].orderID())
		}
	}
	s.wantf(different == 0, "%d of %d answers differ from the first", different, len(c.answers))
	s.wantf(executed == 1 || executed == 0 && recovered,
		"%d of %d answers are not marked as repeats, there should be one", executed, len(c.answers))
	s.sawf("%d × %s, %d of them executed, after %d × 409", len(c.answers)-different, c.answers[0], executed, waits)
}

// crashCallTimeout: the provider's answer is waited for longer than it takes to kill the server.
const crashCallTimeout = "PAYSAGA_CALL_TIMEOUT=2s"

// seeCrash kills a server after the provider has taken the money and before the answer is stored.
func seeCrash(ctx context.Context, r *contractRun, s *sighting) (err error) {
	victim, err := r.own.serve(ctx, crashCallTimeout)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, victim.stop()) }()
	order, key := r.order("crash", 3), r.key("crash")
	if err := r.chargeAndKill(ctx, s, victim, key, order); err != nil {
		return err
	}
	return r.own.with(ctx, func(server string) error {
		killed := time.Now()
		crowd := gather(ctx, key, order, r.shop, r.shop.at(server))
		if err := crowd.wait(); err != nil {
			return err
		}
		s.wantOneOf(crowd, true)
		s.sawf("%.1f s after the kill, at two other servers", time.Since(killed).Seconds())
		answer := crowd.answers[0]
		if !s.wantOrder("the answer to the repeats", answer) {
			return nil
		}
		if err := r.resumed(ctx, s, answer.orderID()); err != nil {
			return err
		}
		return r.wantMoney(ctx, s, answer.orderID(), order.Amount)
	})
}

// chargeAndKill sends an order to the victim and kills that when the money is taken.
func (r *contractRun) chargeAndKill(ctx context.Context, s *sighting, victim *serverProcess, key string, order api.OrderRequest) error {
	if err := r.sandbox.upset(ctx, sandbox.Fault{Kind: sandbox.FaultTimeoutAfter, Times: 1}); err != nil {
		return err
	}
	before, err := r.sandbox.ledger(ctx)
	if err != nil {
		return err
	}
	lost := make(chan error, 1)
	go func() {
		answer, err := r.shop.at(victim.url).place(ctx, key, order)
		if err == nil {
			lost <- fmt.Errorf("the server answered %s before it was killed", answer)
			return
		}
		lost <- nil // an error is what a shop sees of a crash
	}()
	if err := r.awaitCharge(ctx, len(before)); err != nil {
		return err
	}
	if err := victim.kill(); err != nil {
		return err
	}
	s.sawf("money taken, server killed")
	return errors.Join(<-lost, r.sandbox.calm(ctx))
}

// awaitCharge waits until the provider has taken money that it had not before.
func (r *contractRun) awaitCharge(ctx context.Context, before int) error {
	const often = 5 * time.Millisecond // the server shall be killed long before it stops waiting for the answer
	ctx, cancel := context.WithTimeout(ctx, longestWait)
	defer cancel()
	for {
		ledger, err := r.sandbox.ledger(ctx)
		if err != nil {
			return err
		}
		if len(ledger) > before && takes(ledger[before:]) > 0 {
			return nil
		}
		if err := wait(ctx, often); err != nil {
			return fmt.Errorf("the provider was not asked for the money: %w", err)
		}
	}
}

// resumed: the timeline shows that the order went on where it was, with the same charge sent once more.
func (r *contractRun) resumed(ctx context.Context, s *sighting, id string) error {
	var timeline api.Saga
	if err := r.shop.read(ctx, ordersPath+"/"+id+"/saga", &timeline); err != nil {
		return err
	}
	s.wantSteps(timeline, "reserve", api.StepStatusDone)
	s.wantSteps(timeline, "charge", api.StepStatusDone)
	charges, err := r.sandbox.chargesOf(ctx, id)
	if err != nil {
		return err
	}
	for _, charge := range charges {
		s.wantf(charge.Calls >= 2, "the charge was sent %s; the repeat should have sent it again", counted(charge.Calls, "time"))
		s.sawf("the provider was sent the same charge %s", counted(charge.Calls, "time"))
	}
	return nil
}

func attemptsOf(timeline api.Saga, name string) []api.Step {
	var found []api.Step
	for _, step := range timeline.Steps {
		if step.Name == name {
			found = append(found, step)
		}
	}
	return found
}

// maxUnreachable is how many orders a server takes on whose provider does not answer, before it turns others away: a few, as its
// circuit breaker counts twenty calls, and twice as many in case of a slow machine.
const maxUnreachable = 20

// seeTransient lets the provider vanish until the server turns an order away, and come back.
func seeTransient(ctx context.Context, r *contractRun, s *sighting) error {
	if r.own == nil {
		return r.transient(ctx, s, r.shop)
	}
	return r.own.with(ctx, func(server string) error { return r.transient(ctx, s, r.shop.at(server)) }, "PAYSAGA_RECOVERY_INTERVAL=100ms")
}

func (r *contractRun) transient(ctx context.Context, s *sighting, shop client) (err error) {
	if err := r.sandbox.upset(ctx, sandbox.Fault{Kind: sandbox.FaultResetBefore}); err != nil {
		return err
	}
	defer func() { err = errors.Join(err, r.sandbox.calm(ctx)) }()
	turnedAway, key, takenOn, err := r.untilTurnedAway(ctx, s, shop)
	if err != nil || key == "" {
		return err
	}
	s.wantProblem("an order that is turned away", turnedAway, "unavailable", http.StatusServiceUnavailable)
	s.wantRetryAfter("an order that is turned away", turnedAway)
	s.sawf("provider unreachable: %d × 202, then %s", len(takenOn), turnedAway)
	if err := r.sandbox.calm(ctx); err != nil {
		return err
	}
	order := r.order(key, 1)
	answer, told, err := insist(ctx, shop, r.key(key), order)
	if err != nil {
		return err
	}
	for _, refused := range told {
		s.wantf(!refused.replayed(), "a 5xx is replayed: %s", refused)
	}
	s.wantFirst("the same key once the provider is back", answer)
	s.sawf("provider back: %s under the same key", answer)
	// The first call after the pause may be another order's, and this one wait for it.
	if s.wantStatus("the same key once the provider is back", answer, http.StatusCreated, http.StatusAccepted) {
		if err := r.confirmed(ctx, s, shop, answer, order); err != nil {
			return err
		}
	}
	return r.goesOn(ctx, s, shop, takenOn)
}

// confirmed: an order comes to its end by itself, and is charged once.
func (r *contractRun) confirmed(ctx context.Context, s *sighting, shop client, answer response, order api.OrderRequest) error {
	id := answer.orderID()
	if id == "" {
		s.wantf(false, "the %d has no order in it", answer.status)
		return nil
	}
	if err := awaitOrder(ctx, shop, id, api.OrderStatusConfirmed); err != nil {
		return err
	}
	return r.wantMoney(ctx, s, id, order.Amount)
}

// untilTurnedAway places orders until one is answered with 5xx. Those before it are taken on, with an end that is not known.
func (r *contractRun) untilTurnedAway(
	ctx context.Context, s *sighting, shop client,
) (answer response, name string, takenOn map[string]response, err error) {
	takenOn = map[string]response{}
	for i := range maxUnreachable {
		name = fmt.Sprintf("transient-%d", i+1)
		if answer, err = shop.place(ctx, r.key(name), r.order(name, 1)); err != nil {
			return answer, "", nil, err
		}
		if answer.status >= http.StatusInternalServerError {
			return answer, name, takenOn, nil
		}
		if !s.wantStatus("an order whose provider cannot be reached", answer, http.StatusAccepted) {
			return answer, "", nil, nil
		}
		takenOn[name] = answer
	}
	s.sawf("%d × 202, none was turned away", maxUnreachable)
	return answer, "", takenOn, nil
}

// goesOn: one of the orders that were taken on comes to its end. Its 202 stays what it was.
func (r *contractRun) goesOn(ctx context.Context, s *sighting, shop client, takenOn map[string]response) error {
	for name, first := range takenOn {
		order := r.order(name, 1)
		if err := r.confirmed(ctx, s, shop, first, order); err != nil {
			return err
		}
		again, err := shop.place(ctx, r.key(name), order)
		if err != nil {
			return err
		}
		s.wantReplay("the repeat of a 202", first, again)
		s.sawf("the order of a 202 is confirmed by itself")
		return nil
	}
	return nil
}
