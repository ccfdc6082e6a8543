package main

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"

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
		{"A plain order", "two T-shirts, 39.98 EUR, once through each provider", playPlainOrder},
		{"The same request again", "the same keys and the same bodies, as after a lost answer", playReplay},
		{"The same key on another order", "the first of the keys, but three T-shirts", playKeyReuse},
		{"Twenty at once", "twenty requests with one key at the same moment, at each provider", playTwentyAtOnce},
		{"A declined payment", "two T-shirts, and nothing to pay them with", playDecline},
		{"Too little stock", "two of LAST-PIECE, of which there is one", playOutOfStock},
		{"The provider times out after taking the money", "two T-shirts, while each provider keeps its answer", playTimeout},
		{"The server is killed between charge and save", "two T-shirts at each, and SIGKILL once the money is taken", playKill},
		{"The customer must act", "3-D Secure, a redirect, PayPal's approval; then the shop, a webhook, a poll, or all at once", playCustomer},
		{"Declined, then paid elsewhere", `"on_decline": "await", and the next provider's method after the refusal`, playElsewhere},
		{"Hold now, take later", `"capture": "manual"; then one of the two T-shirts is captured, and that is all`, playCapture},
		{"A hold is let go", "more than is held is captured, which is refused; then the order is canceled", playCancel},
		{"Money back", "10 and 15 EUR, 20 more of the 14.98 that are left; later the bank sends the first back", playRefunds},
		{"Fifty refunds at once", "fifty times 1.50 EUR of one order at the same moment: 26 fit", playRefundRace},
		{"Webhooks at their worst", "slow banks; the events come three times, late, in any order, a part never; one is forged", playWebhooks},
		{"The storm", fmt.Sprintf("%d orders, %d at a time, while all three misbehave", o.orders, o.concurrency), playStorm},
		{"Four weeks later", "money that was held at each provider, and that nobody took in time", playExpiry},
	}
}

// placed is an order that was sent, with its answer.
type placed struct {
	key   string
	order api.OrderRequest
	reply reply
}

const (
	currency   = "EUR"
	shirt      = "TSHIRT-M"
	shirtPrice = 1999
	lastPiece  = "LAST-PIECE"
	// shopPage is where customers come back to. Nobody is there: what matters is in the address.
	shopPage = "https://shop.example/back"
)

// testProvider is a provider as the sandbox plays it, with the methods that make it do something.
type testProvider struct {
	name     string
	good     string
	declined string
	customer string // the customer must act
	slow     string // the provider tells later how it ended
	polled   bool   // it can be asked how a payment stands
	// refundsWait: of a payment by the slow method, until somebody plays the bank.
	refundsWait bool
	forged      string // a webhook that it did not send
}

var testProviders = []testProvider{
	{
		name: "stripe", good: "pm_card_visa", declined: "pm_card_visa_chargeDeclinedInsufficientFunds",
		customer: "pm_card_threeDSecure2Required", slow: "pm_sepaDebit",
		polled: true, refundsWait: true,
		forged: `{"id":"evt_forged","object":"event","type":"payment_intent.succeeded"}`,
	},
	{
		name: "adyen", good: "stored_APPROVED", declined: "stored_NOT_ENOUGH_BALANCE",
		customer: "stored_REDIRECT", slow: "stored_PENDING",
		forged: `{"live":"false","notificationItems":[{"NotificationRequestItem":{"eventCode":"AUTHORISATION","success":"true"}}]}`,
	},
	{
		name: "paypal", good: "vault_COMPLETED", declined: "vault_DECLINED",
		customer: "wallet", slow: "vault_PENDING", polled: true,
		forged: `{"id":"WH-FORGED","event_type":"PAYMENT.CAPTURE.COMPLETED"}`,
	},
}

// pay is the payment of an order.
func (p testProvider) pay(method string) api.PaymentRequest {
	return api.PaymentRequest{Provider: p.name, Method: method}
}

// shirts is an order of so many T-shirts.
func shirts(quantity int64, payment api.PaymentRequest) api.OrderRequest {
	return newOrder(payment, api.Item{SKU: shirt, Quantity: quantity, UnitAmount: shirtPrice})
}

func newOrder(payment api.PaymentRequest, items ...api.Item) api.OrderRequest {
	order := api.OrderRequest{Currency: currency, Items: items, Payment: payment}
	for _, item := range items {
		order.Amount += item.Quantity * item.UnitAmount
	}
	return order
}

func (p testProvider) key(name string) string { return "demo-scene-" + name + "-" + p.name }

// part is what a scene shows at one provider.
type part struct {
	sceneReport

	provider testProvider
}

// atEach plays a part at each provider, all at the same time. Each tells in a line what came back; those that tell the same share
// one.
func (t *tour) atEach(ctx context.Context, r *sceneReport, play func(ctx context.Context, p *part) error) error {
	parts, errs := make([]part, len(testProviders)), make([]error, len(testProviders))
	var group sync.WaitGroup
	for i, provider := range testProviders {
		parts[i].provider = provider
		group.Go(func() {
			if err := play(ctx, &parts[i]); err != nil {
				errs[i] = fmt.Errorf("%s: %w", provider.name, err)
			}
		})
	}
	group.Wait()
	for _, p := range parts {
		for _, problem := range p.Problems {
			r.Problems = append(r.Problems, p.provider.name+": "+problem)
		}
	}
	r.CameBack = tellParts(parts)
	return errors.Join(errs...)
}

// tellParts tells what came back, in one line for all that had the same.
func tellParts(parts []part) string {
	var told []string
	names := map[string][]string{}
	for _, p := range parts {
		if names[p.CameBack] == nil && p.CameBack != "" {
			told = append(told, p.CameBack)
		}
		names[p.CameBack] = append(names[p.CameBack], p.provider.name)
	}
	width := 0
	for _, line := range told {
		width = max(width, len(strings.Join(names[line], ", ")))
	}
	lines := make([]string, 0, len(told))
	for _, line := range told {
		lines = append(lines, fmt.Sprintf("%-*s  %s", width, strings.Join(names[line], ", "), line))
	}
	return strings.Join(lines, "\n")
}

// andThenf adds a line to what came back.
func (r *sceneReport) andThenf(format string, args ...any) {
	if r.CameBack != "" {
		r.CameBack += "\n"
	}
	r.CameBack += fmt.Sprintf(format, args...)
}

// wantReply notes an answer that is another one than expected: "201 confirmed". An empty word fits any.
func (r *sceneReport) wantReply(what string, got reply, status int, word string) {
	want := fmt.Sprintf("%d %s", status, word)
	r.wantf(got.status == status && (word == "" || got.word() == word), "%s is answered %s, not %s: %s", what, got, want, got.detail())
}

// wantMoney compares what the ledger has for an order with what there should be. Money that was given back counts as captured.
func (t *tour) wantMoney(r *sceneReport, id uuid.UUID, captured, refunded, held int64) {
	r.wantf(id != uuid.Nil, "the answer does not tell its order")
	sum := total(t.chargesOf(id))
	r.wantf(sum.Captured == captured && sum.Refunded == refunded && sum.Authorized == held,
		"the ledger has %d captured, %d refunded and %d held for order %s; there should be %d, %d and %d",
		sum.Captured, sum.Refunded, sum.Authorized, id, captured, refunded, held)
}

// total adds payments up.
func total(charges []sandbox.Charge) sandbox.Charge {
	var sum sandbox.Charge
	for _, charge := range charges {
		sum.Captured += charge.Captured
		sum.Refunded += charge.Refunded
		sum.Authorized += charge.Authorized
		sum.Calls += charge.Calls
	}
	return sum
}

// takes counts the payments by which money was taken.
func takes(charges []sandbox.Charge) int {
	count := 0
	for _, charge := range charges {
		if charge.Captured > 0 {
			count++
		}
	}
	return count
}

// taken tells what the ledger says was taken for an order.
func (t *tour) taken(id uuid.UUID) string {
	charges := t.chargesOf(id)
	return fmt.Sprintf("%s in %s", euros(total(charges).Captured), counted(takes(charges), "charge"))
}

// sentOften tells how often the charge's identifier reached the provider.
func (t *tour) sentOften(id uuid.UUID) string {
	return fmt.Sprintf("sent %s: %s", counted(total(t.chargesOf(id)).Calls, "time"), t.taken(id))
}

func euros(amount int64) string { return providers.Money{Amount: amount, Currency: currency}.String() }

func counted(number int, thing string) string {
	if number == 1 {
		return "1 " + thing
	}
	return fmt.Sprintf("%d %ss", number, thing)
}

// wantOneCharge: the order's whole amount is taken, in one charge, and nothing is given back.
func (t *tour) wantOneCharge(r *sceneReport, p placed) {
	id := p.reply.orderID()
	charges := t.chargesOf(id)
	r.wantf(len(charges) == 1 && takes(charges) == 1, "the provider has %s for order %s and took money by %d, there should be one",
		counted(len(charges), "payment"), id, takes(charges))
	t.wantMoney(r, id, p.order.Amount, 0, 0)
}

// wantSentAgain: the fault did happen, and the same identifier was sent again.
func (t *tour) wantSentAgain(r *sceneReport, id uuid.UUID) {
	for _, charge := range t.chargesOf(id) {
		r.wantf(charge.Calls > 1, "the charge was sent %s, so its answer was not lost", counted(charge.Calls, "time"))
	}
}
