//go:build unix

package chaos

import (
	"fmt"
	"math/rand/v2"

	"paysaga/api"
)

// Goods. Of limited there are too few, so that some orders come to nothing.
const (
	shirt   = "TSHIRT-M"
	mug     = "MUG"
	limited = "LIMITED"
)

func stockAtFirst() map[string]int64 {
	return map[string]int64{shirt: 1_000_000, mug: 1_000_000, limited: 4}
}

var prices = map[string]int64{shirt: 1999, mug: 1250, limited: 4900}

// method is a provider as the sandbox plays it, with the methods that make it do something.
type provider struct {
	name, good, declined, customer, slow string

	polled bool // it can be asked how a payment stands, so that its notices may be lost
}

var providers = []provider{
	{
		name: "stripe", good: "pm_card_visa", declined: "pm_card_visa_chargeDeclinedInsufficientFunds",
		customer: "pm_card_threeDSecure2Required", slow: "pm_sepaDebit", polled: true,
	},
	{name: "adyen", good: "stored_APPROVED", declined: "stored_NOT_ENOUGH_BALANCE", customer: "stored_REDIRECT", slow: "stored_PENDING"},
	{name: "paypal", good: "vault_COMPLETED", declined: "vault_DECLINED", customer: "wallet", slow: "vault_PENDING", polled: true},
}

// course is what a shop and its customer do with an order.
type course string

const (
	coursePaid      course = "paid"
	courseDeclined  course = "declined"
	courseSlow      course = "paid slowly"
	courseCustomer  course = "customer approves"
	courseRefuses   course = "customer refuses"
	courseElsewhere course = "declined, paid elsewhere"
	courseCapture   course = "held, captured"
	courseCancel    course = "held, canceled"
	courseRefund    course = "paid, refunded"
)

// courses, with how many of a hundred orders take each.
var courses = []struct {
	course course
	share  int
}{
	{coursePaid, 27},
	{courseDeclined, 8},
	{courseSlow, 8},
	{courseCustomer, 11},
	{courseRefuses, 4},
	{courseElsewhere, 6},
	{courseCapture, 13},
	{courseCancel, 8},
	{courseRefund, 15},
}

// plan is one order and what becomes of it, if nothing goes wrong.
type plan struct {
	number    int
	key       string // of the order; its other requests' keys begin with it
	course    course
	at        provider
	elsewhere provider // where it is paid after a decline
	order     api.OrderRequest
	copies    int     // how many requests ask for it at the same moment
	parts     []int64 // what is captured, or refunded one after the other; 0: all that is left
	together  bool    // all refunds at once
	comesBack bool    // the shop sends /continue when its customer is back; else a notice or a look must tell
	note      string  // written by PATCH; empty: none
}

// planOrder is a pure function of its arguments, so that the same seed plans the same orders.
func planOrder(seed uint64, number int) plan {
	random := rand.New(rand.NewPCG(seed, uint64(number)))
	at := random.IntN(len(providers))
	p := &plan{
		number: number, key: fmt.Sprintf("chaos-seed-%d-order-%05d", seed, number), at: providers[at],
		elsewhere: providers[(at+1)%len(providers)], course: drawCourse(random), copies: 1, comesBack: random.IntN(3) > 0,
	}
	if random.IntN(5) == 0 {
		p.copies = 2 + random.IntN(3)
	}
	if random.IntN(6) == 0 {
		p.note = fmt.Sprintf("note-%d", random.IntN(1000))
	}
	p.order = api.OrderRequest{Currency: "EUR", Items: drawItems(random), Payment: p.payment()}
	for _, item := range p.order.Items {
		p.order.Amount += item.Quantity * item.UnitAmount
	}
	p.drawParts(random)
	return *p
}

func drawCourse(random *rand.Rand) course {
	draw := random.IntN(100)
	for _, each := range courses {
		if draw -= each.share; draw < 0 {
			return each.course
		}
	}
	return coursePaid
}

func (p *plan) payment() api.PaymentRequest {
	payment := api.PaymentRequest{Provider: p.at.name, Method: p.at.good, ReturnURL: shopPage}
	switch p.course {
	case courseDeclined:
		payment.Method = p.at.declined
	case courseElsewhere:
		payment.Method, payment.OnDecline = p.at.declined, api.OnDeclineAwait
	case courseSlow:
		payment.Method = p.at.slow
	case courseCustomer, courseRefuses:
		payment.Method = p.at.customer
	case courseCapture, courseCancel:
		payment.Capture = api.CaptureModeManual
	case coursePaid, courseRefund:
	}
	return payment
}

func drawItems(random *rand.Rand) []api.Item {
	item := func(sku string, most int64) api.Item {
		return api.Item{SKU: sku, Quantity: 1 + random.Int64N(most), UnitAmount: prices[sku]}
	}
	if random.IntN(10) == 0 {
		return []api.Item{item(limited, 1)}
	}
	items := []api.Item{item(shirt, 3)}
	if random.IntN(3) == 0 {
		items = append(items, item(mug, 2))
	}
	if len(items) > 1 && random.IntN(2) == 0 { // orders that name the same goods in opposite order must not wait for each other crosswise
		items[0], items[1] = items[1], items[0]
	}
	return items
}

func (p *plan) drawParts(random *rand.Rand) {
	switch p.course {
	case courseCapture:
		p.parts = []int64{0}
		if random.IntN(2) == 0 {
			p.parts[0] = 1 + random.Int64N(p.order.Amount)
		}
	case courseRefund:
		left := p.order.Amount
		for range 1 + random.IntN(3) {
			part := 1 + random.Int64N(left/2)
			p.parts, left = append(p.parts, part), left-part
		}
		if p.together = random.IntN(2) == 0; !p.together && random.IntN(3) == 0 {
			p.parts = append(p.parts, 0)
		}
	default:
	}
}
