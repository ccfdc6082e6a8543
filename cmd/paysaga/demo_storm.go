package main

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"net/http"
	"slices"
	"strings"
	"sync"
	"time"

	"paysaga/api"
	"paysaga/providers/sandbox"
)

// stormReport is the storm in numbers.
type stormReport struct {
	Orders      int            `json:"orders"`
	SentTwice   int            `json:"sent_twice"`   // by two requests at the same moment
	Requests    int            `json:"requests"`     // POSTs in all, repeats included
	LostAnswers int            `json:"lost_answers"` // requests that ended without an answer, or with a 5xx
	ToldToWait  int            `json:"told_to_wait"` // requests answered with 409
	Answers     map[string]int `json:"answers"`      // by answer, the one that each order's key ended up with
	Later       map[string]int `json:"later"`        // by what was asked for and its answer: captures, cancels, refunds
	Faults      map[string]int `json:"faults"`       // by kind, as the sandbox counted them
	Webhooks    map[string]int `json:"webhooks"`     // delivered, copies included, and lost
	OrdersMS    int64          `json:"orders_ms"`    // until every request had its answer
	RecoveredMS int64          `json:"recovered_ms"` // until every order had its end, after that
	LaterMS     int64          `json:"later_ms"`     // until every capture, cancel and refund had its end, after that
	LaterEnds   int            `json:"later_ends"`   // orders that were answered 202, before they had an end
}

// plannedOrder is one order of the storm. With twice, the customer clicks twice: two requests with its key at once.
type plannedOrder struct {
	key   string
	order api.OrderRequest
	twice bool
	then  deed
}

// deed is what the shop does with an order later.
type deed string

const (
	nothing     deed = ""
	refundPart  deed = "refund"
	captureHold deed = "capture"
	cancelHold  deed = "cancel"
)

const (
	limited      = "LIMITED" // runs out half-way
	limitedPrice = 4900
	mug          = "MUG"
	mugPrice     = 1250
	// planStream sets the storm's random numbers apart from any other use of the same seed.
	planStream = 0x5a6a
)

// planOrders is what the storm orders: a pure function of the seed. The keys are too, so that the same orders meet the
// same faults: the sandbox draws them by the identifiers that are derived from the keys.
func planOrders(seed int64, count int) []plannedOrder {
	random := rand.New(rand.NewPCG(uint64(seed), planStream)) //nolint:gosec // a plan that can be repeated is wanted
	plan := make([]plannedOrder, count)
	for i := range plan {
		payment, then := planPayment(random)
		plan[i] = plannedOrder{
			key:   fmt.Sprintf("demo-seed-%d-order-%05d", seed, i+1),
			order: newOrder(payment, planItems(random)...),
			twice: random.IntN(10) == 0,
			then:  then,
		}
	}
	return plan
}

func planPayment(random *rand.Rand) (api.PaymentRequest, deed) {
	provider := testProviders[random.IntN(len(testProviders))]
	payment, then := provider.pay(provider.good), nothing
	switch draw := random.IntN(100); {
	case draw < 8:
		payment.Method = provider.declined
	case draw < 12:
		payment.Method = provider.slow
	case draw < 17:
		then = captureHold
	case draw < 20:
		then = cancelHold
	case draw < 30:
		then = refundPart
	}
	if then == captureHold || then == cancelHold {
		payment.Capture = api.CaptureModeManual
	}
	return payment, then
}

func planItems(random *rand.Rand) []api.Item {
	if random.IntN(12) == 0 {
		return []api.Item{{SKU: limited, Quantity: 1, UnitAmount: limitedPrice}}
	}
	items := []api.Item{{SKU: shirt, Quantity: 1 + random.Int64N(3), UnitAmount: shirtPrice}}
	if random.IntN(3) == 0 {
		items = append(items, api.Item{SKU: mug, Quantity: 1 + random.Int64N(2), UnitAmount: mugPrice})
	}
	if random.IntN(2) == 0 {
		slices.Reverse(items) // orders that name the same goods in opposite order must not wait for each other crosswise
	}
	return items
}

// limitedStock is half of what the plan asks for.
func limitedStock(plan []plannedOrder) int64 {
	var wanted int64
	for _, p := range plan {
		for _, item := range p.order.Items {
			if item.SKU == limited {
				wanted += item.Quantity
			}
		}
	}
	return wanted / 2
}

func playStorm(ctx context.Context, t *tour, r *sceneReport) error {
	plan := planOrders(t.options.seed, t.options.orders)
	if err := t.prepareStorm(ctx, plan); err != nil {
		return err
	}
	defer t.webhooksAsUsual()
	defer t.place.sandbox.ClearFaults()
	before, sentBefore := t.shop.numbersNow(), t.webhooksSoFar()
	storm := stormReport{Orders: len(plan), Answers: map[string]int{}, Faults: map[string]int{}}
	begun := time.Now()
	replies, err := t.placeAll(ctx, plan)
	storm.OrdersMS = time.Since(begun).Milliseconds()
	err = errors.Join(err, t.finishAll(ctx))
	storm.RecoveredMS = time.Since(begun).Milliseconds() - storm.OrdersMS
	later, failed := t.doLater(ctx, plan, replies)
	storm.Later = later
	err = errors.Join(err, failed)
	for _, p := range testProviders {
		err = errors.Join(err, t.webhooksDelivered(ctx, p))
	}
	storm.LaterMS = time.Since(begun).Milliseconds() - storm.OrdersMS - storm.RecoveredMS
	for i, p := range plan {
		storm.Answers[replies[i].String()]++
		if p.twice {
			storm.SentTwice++
		}
		if replies[i].status == http.StatusAccepted {
			storm.LaterEnds++
		}
	}
	for _, fault := range t.place.sandbox.Faults() {
		storm.Faults[string(fault.Kind)] += fault.Fired
	}
	after, sentAfter := t.shop.numbersNow(), t.webhooksSoFar()
	storm.Requests, storm.LostAnswers, storm.ToldToWait = after.sent-before.sent, after.lost-before.lost, after.waited-before.waited
	storm.Webhooks = map[string]int{
		"delivered": sentAfter.Delivered - sentBefore.Delivered, "lost": sentAfter.Lost - sentBefore.Lost,
	}
	t.report.Storm = storm
	r.CameBack = storm.String()
	return err
}

// prepareStorm has the stock that the storm needs, and all providers misbehave.
func (t *tour) prepareStorm(ctx context.Context, plan []plannedOrder) error {
	if err := t.shop.putStock(ctx, limited, limitedStock(plan)); err != nil {
		return err
	}
	t.stockBefore[limited] = limitedStock(plan)
	for _, fault := range sandbox.BadDay(t.options.seed) {
		if err := t.place.sandbox.AddFault(fault); err != nil {
			return fmt.Errorf("set the providers up: %w", err)
		}
	}
	return t.setWorstWebhooks(0.5)
}

// webhooksSoFar adds the providers' webhooks up.
func (t *tour) webhooksSoFar() sandbox.WebhookStatus {
	var sum sandbox.WebhookStatus
	for _, status := range t.place.sandbox.Webhooks() {
		sum.Delivered += status.Delivered
		sum.Lost += status.Lost
	}
	return sum
}

// String tells of the storm in a few lines.
func (s stormReport) String() string {
	faults := 0
	for _, fired := range s.Faults {
		faults += fired
	}
	const perSecond = 1000
	return fmt.Sprintf("%s, in %.1f s (%d orders a second)\n%d requests, %d of them answered 409; %s sent twice at once\n"+
		"%s: %s\n%s finished by themselves later, the last %.1f s after the last answer\n"+
		"then, in %.1f s: %s\n%d webhooks came, copies included, and %d were lost on the way",
		inWords(s.Answers), float64(s.OrdersMS)/perSecond, int64(s.Orders)*perSecond/max(s.OrdersMS, 1),
		s.Requests, s.ToldToWait, counted(s.SentTwice, "order"),
		counted(faults, "fault"), inWords(s.Faults), counted(s.LaterEnds, "order"), float64(s.RecoveredMS)/perSecond,
		float64(s.LaterMS)/perSecond, inWords(s.Later), s.Webhooks["delivered"], s.Webhooks["lost"])
}

// inWords lists numbers with their names, the largest first.
func inWords(numbers map[string]int) string {
	names := slices.SortedFunc(maps.Keys(numbers), func(a, b string) int {
		if numbers[a] != numbers[b] {
			return numbers[b] - numbers[a]
		}
		return strings.Compare(a, b)
	})
	var words []string
	for _, name := range names {
		if numbers[name] > 0 {
			words = append(words, fmt.Sprintf("%d × %s", numbers[name], strings.ReplaceAll(name, "_", " ")))
		}
	}
	return strings.Join(words, ", ")
}

// placeAll places the orders, so many at a time. One that gets no answer does not keep the others back.
func (t *tour) placeAll(ctx context.Context, plan []plannedOrder) ([]reply, error) {
	progress := t.screen.progress("orders", len(plan))
	defer progress.end()
	replies := make([]reply, len(plan))
	errs := t.inParallel(len(plan), func(i int) error {
		defer progress.step()
		if i == len(plan)/2 {
			if err := t.restart(ctx); err != nil {
				return err
			}
		}
		var err error
		replies[i], err = t.placePlanned(ctx, plan[i])
		return err
	})
	return replies, summarize(errs)
}

// restart kills the server, and starts another one after a while in which shops and webhooks meet nobody.
func (t *tour) restart(ctx context.Context) error {
	const pause = 500 * time.Millisecond
	if err := t.server.kill(); err != nil {
		return err
	}
	if err := wait(ctx, pause); err != nil {
		return err
	}
	return t.startServer(ctx)
}

// inParallel works through a list, so many at a time as the demo is to have.
func (t *tour) inParallel(count int, work func(i int) error) []error {
	errs := make([]error, count)
	next := make(chan int)
	var workers sync.WaitGroup
	for range t.options.concurrency {
		workers.Go(func() {
			for i := range next {
				errs[i] = work(i)
			}
		})
	}
	for i := range count {
		next <- i
	}
	close(next)
	workers.Wait()
	return errs
}

func (t *tour) placePlanned(ctx context.Context, p plannedOrder) (reply, error) {
	var second error
	var group sync.WaitGroup
	if p.twice {
		group.Go(func() { _, second = t.shop.place(ctx, p.key, p.order) })
	}
	answer, err := t.shop.place(ctx, p.key, p.order)
	group.Wait()
	if err := errors.Join(err, second); err != nil {
		return answer, fmt.Errorf("order %s: %w", p.key, err)
	}
	return answer, nil
}

// summarize keeps the first of many errors, with their number.
func summarize(errs []error) error {
	errs = slices.DeleteFunc(slices.Clone(errs), func(err error) bool { return err == nil })
	if len(errs) == 0 {
		return nil
	}
	return fmt.Errorf("%s did not go as they should, the first: %w", counted(len(errs), "order"), errs[0])
}

// finishAll waits until no order is on its way any more. It gives up when that takes many times as long as it ought to: an event that
// was being applied when the server was killed is taken up after a minute.
func (t *tour) finishAll(ctx context.Context) error {
	const longest = 2 * time.Minute
	ctx, cancel := context.WithTimeoutCause(ctx, longest, fmt.Errorf("orders without an end after %s", longest))
	defer cancel()
	left, err := t.shop.unfinished(ctx)
	if err != nil || left == 0 {
		return err
	}
	progress := t.screen.progress("finished by themselves", left)
	defer progress.end()
	for left > 0 {
		if err := wait(ctx, pollPause); err != nil {
			return err
		}
		before := left
		if left, err = t.shop.unfinished(ctx); err != nil {
			return err
		}
		for range before - left {
			progress.step()
		}
	}
	return nil
}

// unfinished counts the orders that are still on their way.
func (s *shop) unfinished(ctx context.Context) (int, error) {
	count := 0
	for _, status := range []api.OrderStatus{api.OrderStatusProcessing, api.OrderStatusAwaiting} {
		orders, err := s.orders(ctx, status)
		if err != nil {
			return 0, err
		}
		count += len(orders)
	}
	return count, nil
}
