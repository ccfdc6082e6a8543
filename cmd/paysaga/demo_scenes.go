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
	"paysaga/providers"
	"paysaga/providers/sandbox"
)

// scene is one thing that the tour shows. An error of play is a promise that did not hold, as a problem in the report is.
type scene struct {
	title string
	sent  string
	play  func(ctx context.Context, t *tour, r *sceneReport) error
}

func scenes(o demoOptions) []scene {
	return []scene{
		{"A plain order", "two T-shirts, 39.98 EUR", playPlainOrder},
		{"The same request again", "the same key and the same body, as after a lost answer", playReplay},
		{"The same key on another order", "the same key, but three T-shirts", playKeyReuse},
		{"Twenty at once", "twenty requests with one key at the same moment", playTwentyAtOnce},
		{"A declined card", "two T-shirts, and a card without funds", playDecline},
		{"Too little stock", "two of LAST-PIECE, of which there is one", playOutOfStock},
		{"The provider times out after taking the money", "two T-shirts, while the provider keeps its answer", playTimeout},
		{"The server is killed between charge and save", "two T-shirts, and SIGKILL once the money is taken", playKill},
		{"The storm", fmt.Sprintf("%d orders, %d at a time, while the provider misbehaves", o.orders, o.concurrency), playStorm},
	}
}

// placed is an order that was sent, with its answer.
type placed struct {
	key   string
	order api.OrderRequest
	reply reply
}

const (
	stripeProvider = "stripe"
	currency       = "EUR"

	goodCard     = "pm_card_visa"
	declinedCard = "pm_card_visa_chargeDeclinedInsufficientFunds"
	shirt        = "TSHIRT-M"
	shirtPrice   = 1999
	lastPiece    = "LAST-PIECE"
)

func shirts(quantity int64, method string) api.OrderRequest {
	return newOrder(method, api.Item{SKU: shirt, Quantity: quantity, UnitAmount: shirtPrice})
}

func newOrder(method string, items ...api.Item) api.OrderRequest {
	order := api.OrderRequest{Currency: currency, Items: items, Payment: api.PaymentRequest{Provider: stripeProvider, Method: method}}
	for _, item := range items {
		order.Amount += item.Quantity * item.UnitAmount
	}
	return order
}

func sceneKey(name string) string { return "demo-scene-" + name + "-0001" }

func playPlainOrder(ctx context.Context, t *tour, r *sceneReport) error {
	t.first = placed{key: sceneKey("plain-order"), order: shirts(2, goodCard)}
	var err error
	if t.first.reply, err = t.shop.place(ctx, t.first.key, t.first.order); err != nil {
		return err
	}
	r.CameBack = fmt.Sprintf("%s; the provider took %s", t.first.reply, t.taken(t.first.reply.orderID()))
	r.wantf(t.first.reply.status == http.StatusCreated, "the answer is %s, not 201", t.first.reply)
	r.wantf(!t.first.reply.replayed, "the first answer claims to be a repeated one")
	t.wantOneCharge(r, t.first)
	return nil
}

func playReplay(ctx context.Context, t *tour, r *sceneReport) error {
	answer, err := t.shop.send(ctx, t.first.key, t.first.order)
	if err != nil {
		return err
	}
	r.CameBack = fmt.Sprintf("%s, the same %d bytes, marked as a repeat; still one charge", answer, len(answer.body))
	r.wantf(answer.same(t.first.reply), "the answer differs from the first: %s", answer)
	r.wantf(answer.replayed, "the answer has no Idempotency-Replayed: true")
	t.wantOneCharge(r, t.first)
	return nil
}

func playKeyReuse(ctx context.Context, t *tour, r *sceneReport) error {
	before := len(t.place.sandbox.Ledger())
	answer, err := t.shop.send(ctx, t.first.key, shirts(3, goodCard))
	if err != nil {
		return err
	}
	r.CameBack = fmt.Sprintf("%s; the provider was not asked", answer)
	r.wantf(answer.status == http.StatusUnprocessableEntity && answer.word() == "idempotency-key-reuse",
		"the answer is %s, not 422 idempotency-key-reuse", answer)
	r.wantf(len(t.place.sandbox.Ledger()) == before, "the ledger grew")
	return nil
}

func playTwentyAtOnce(ctx context.Context, t *tour, r *sceneReport) error {
	const clients = 20
	// The charge takes a moment, so that all requests really meet while the first is being worked on.
	fault := sandbox.Fault{Call: sandbox.CallCharge, Kind: sandbox.FaultSlow, DelayMS: 300, Times: 1}
	if err := t.place.sandbox.AddFault(fault); err != nil {
		return fmt.Errorf("set the provider up: %w", err)
	}
	defer t.place.sandbox.ClearFaults()
	key, order := sceneKey("twenty-at-once"), shirts(1, goodCard)
	waitedBefore := t.shop.numbersNow().waited
	var replies [clients]reply
	var errs [clients]error
	var group sync.WaitGroup
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
	r.CameBack = fmt.Sprintf("%d × %s, the same bytes; %d were told 409 and repeated; the provider took %s",
		clients-different, replies[0], t.shop.numbersNow().waited-waitedBefore, t.taken(replies[0].orderID()))
	r.wantf(replies[0].status == http.StatusCreated, "the answer is %s, not 201", replies[0])
	r.wantf(different == 0, "%d answers differ", different)
	r.wantf(original == 1, "%d answers are not marked as repeats, there should be one", original)
	t.wantOneCharge(r, placed{key: key, order: order, reply: replies[0]})
	return nil
}

func playDecline(ctx context.Context, t *tour, r *sceneReport) error {
	before, err := t.stock(ctx, shirt)
	if err != nil {
		return err
	}
	answer, err := t.shop.place(ctx, sceneKey("declined-card"), shirts(2, declinedCard))
	if err != nil {
		return err
	}
	after, err := t.stock(ctx, shirt)
	if err != nil {
		return err
	}
	r.CameBack = fmt.Sprintf("%s; nothing taken, %d T-shirts available as before", answer, after.Available)
	r.wantf(answer.status == http.StatusPaymentRequired, "the answer is %s, not 402", answer)
	r.wantf(after.Available == before.Available && after.OnHand == before.OnHand, "the stock is not back: %d available, before %d",
		after.Available, before.Available)
	t.wantNoMoney(r, answer.orderID())
	return nil
}

func playOutOfStock(ctx context.Context, t *tour, r *sceneReport) error {
	before := len(t.place.sandbox.Ledger())
	order := newOrder(goodCard, api.Item{SKU: lastPiece, Quantity: 2, UnitAmount: 4900})
	answer, err := t.shop.place(ctx, sceneKey("out-of-stock"), order)
	if err != nil {
		return err
	}
	stock, err := t.stock(ctx, lastPiece)
	if err != nil {
		return err
	}
	r.CameBack = fmt.Sprintf("%s; the provider was not asked", answer)
	r.wantf(answer.status == http.StatusUnprocessableEntity && answer.word() == "out-of-stock",
		"the answer is %s, not 422 out-of-stock", answer)
	r.wantf(len(t.place.sandbox.Ledger()) == before, "the ledger grew")
	r.wantf(stock.Available == 1, "%d pieces are available, there should be 1", stock.Available)
	return nil
}

func playTimeout(ctx context.Context, t *tour, r *sceneReport) error {
	if err := t.loseNextAnswer(); err != nil {
		return err
	}
	defer t.place.sandbox.ClearFaults()
	p := placed{key: sceneKey("timeout-after"), order: shirts(2, goodCard)}
	begun := time.Now()
	var err error
	if p.reply, err = t.shop.place(ctx, p.key, p.order); err != nil {
		return err
	}
	answered := time.Since(begun)
	end, err := t.waitForEnd(ctx, p.reply.orderID())
	if err != nil {
		return err
	}
	r.CameBack = fmt.Sprintf("%s after %.1f s", p.reply, answered.Seconds())
	if p.reply.status == http.StatusAccepted {
		r.CameBack += fmt.Sprintf(", %s after %.1f s", end.Status, time.Since(begun).Seconds())
	}
	r.CameBack += "; " + t.sentOften(end.ID)
	r.wantf(p.reply.status == http.StatusCreated || p.reply.status == http.StatusAccepted, "the answer is %s, not 201 or 202", p.reply)
	r.wantf(end.Status == api.OrderStatusConfirmed, "the order ended %s, not confirmed", end.Status)
	t.wantOneCharge(r, p)
	t.wantSentAgain(r, end.ID)
	return nil
}

// loseNextAnswer lets the next charge be taken, and its answer never arrive.
func (t *tour) loseNextAnswer() error {
	fault := sandbox.Fault{Call: sandbox.CallCharge, Kind: sandbox.FaultTimeoutAfter, Times: 1}
	if err := t.place.sandbox.AddFault(fault); err != nil {
		return fmt.Errorf("set the provider up: %w", err)
	}
	return nil
}

func playKill(ctx context.Context, t *tour, r *sceneReport) error {
	if err := t.loseNextAnswer(); err != nil {
		return err
	}
	defer t.place.sandbox.ClearFaults()
	p := placed{key: sceneKey("killed-server"), order: shirts(2, goodCard)}
	before := len(t.place.sandbox.Ledger())
	lost := make(chan error, 1)
	go func() {
		answer, err := t.shop.send(ctx, p.key, p.order)
		if err == nil {
			err = fmt.Errorf("the server answered %s before it was killed", answer)
		} else {
			err = nil // what a shop sees of a crash
		}
		lost <- err
	}()
	charge, err := t.nextCharge(ctx, before)
	if err != nil {
		return err
	}
	if err := t.server.kill(); err != nil {
		return err
	}
	killed := time.Now()
	if err := <-lost; err != nil {
		return err
	}
	if err := t.startServer(ctx); err != nil {
		return err
	}
	id, err := uuid.Parse(charge.Reference)
	if err != nil {
		return fmt.Errorf("the charge does not tell its order: %w", err)
	}
	end, err := t.waitForEnd(ctx, id)
	if err != nil {
		return err
	}
	finished := time.Since(killed)
	if p.reply, err = t.shop.place(ctx, p.key, p.order); err != nil {
		return err
	}
	r.CameBack = fmt.Sprintf("no answer; the next server found the order, %s %.1f s after the kill; a repeat got %s\n%s",
		end.Status, finished.Seconds(), p.reply, t.sentOften(id))
	r.wantf(end.Status == api.OrderStatusConfirmed, "the order ended %s, not confirmed", end.Status)
	r.wantf(p.reply.status == http.StatusCreated && p.reply.orderID() == id, "the repeat got %s about order %s", p.reply, p.reply.orderID())
	t.wantOneCharge(r, p)
	t.wantSentAgain(r, id)
	return nil
}

// nextCharge waits until the ledger has a payment after the first so many, and its money is taken.
func (t *tour) nextCharge(ctx context.Context, before int) (sandbox.Charge, error) {
	const (
		longest = 10 * time.Second
		often   = 2 * time.Millisecond // the server shall be killed long before it stops waiting for the answer
	)
	ctx, cancel := context.WithTimeout(ctx, longest)
	defer cancel()
	for {
		if ledger := t.place.sandbox.Ledger(); len(ledger) > before && ledger[before].Captured > 0 {
			return ledger[before], nil
		}
		if err := wait(ctx, often); err != nil {
			return sandbox.Charge{}, fmt.Errorf("the provider was not asked for the money: %w", err)
		}
	}
}

// taken tells what the ledger says was taken for an order.
func (t *tour) taken(id uuid.UUID) string {
	var sum int64
	charges := 0
	for _, charge := range t.chargesOf(id) {
		sum += charge.Captured
		if charge.Captured > 0 {
			charges++
		}
	}
	return fmt.Sprintf("%s in %s", providers.Money{Amount: sum, Currency: currency}, counted(charges, "charge"))
}

// sentOften tells how often the charge's identifier reached the provider.
func (t *tour) sentOften(id uuid.UUID) string {
	calls := 0
	for _, charge := range t.chargesOf(id) {
		calls += charge.Calls
	}
	return fmt.Sprintf("the charge was sent %s: %s", counted(calls, "time"), t.taken(id))
}

func counted(number int, thing string) string {
	if number == 1 {
		return "1 " + thing
	}
	return fmt.Sprintf("%d %ss", number, thing)
}

// wantOneCharge: the order's whole amount is taken, in one charge, and nothing is given back.
func (t *tour) wantOneCharge(r *sceneReport, p placed) {
	charges := t.chargesOf(p.reply.orderID())
	if len(charges) != 1 {
		r.wantf(false, "the provider has %s for the order, there should be one", counted(len(charges), "payment"))
		return
	}
	only := charges[0]
	r.wantf(only.Captured == p.order.Amount && only.Refunded == 0 && only.Currency == p.order.Currency,
		"the provider took %d and gave back %d %s, the order is about %d", only.Captured, only.Refunded, only.Currency, p.order.Amount)
}

func (t *tour) wantNoMoney(r *sceneReport, id uuid.UUID) {
	r.wantf(id != uuid.Nil, "the answer does not tell its order")
	for _, charge := range t.chargesOf(id) {
		r.wantf(charge.Captured == 0 && charge.Authorized == 0, "the provider took %d and holds %d", charge.Captured, charge.Authorized)
	}
}

// wantSentAgain: the fault did happen, and the same identifier was sent again.
func (t *tour) wantSentAgain(r *sceneReport, id uuid.UUID) {
	for _, charge := range t.chargesOf(id) {
		r.wantf(charge.Calls > 1, "the charge was sent %s, so its answer was not lost", counted(charge.Calls, "time"))
	}
}
