package main

import (
	"context"
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strings"

	"github.com/google/uuid"

	"paysaga/api"
	"paysaga/providers/sandbox"
)

// books is all that is compared at the end: what the clients were told, what paysaga keeps, what the providers took, and
// what is left in stock.
type books struct {
	answers      map[string]reply // by key, of every order that was placed
	contradicted []string
	orders       []api.Order
	begun        []api.Refund // as their requests were answered
	refunds      []api.Refund // as they are kept
	charges      []sandbox.Charge
	stockBefore  map[string]int64 // on hand, by SKU
	stockAfter   []api.Stock
}

// check is one row of the table: two numbers from different sources that must be the same.
type check struct {
	Left     figure   `json:"left"`
	Right    figure   `json:"right"`
	OK       bool     `json:"ok"`
	Problems []string `json:"problems,omitempty"`
}

type figure struct {
	What   string `json:"what"`
	Amount int64  `json:"amount"`
	money  bool
}

// maxProblems bounds how many problems a row lists: the first few show what is wrong.
const maxProblems = 5

func newCheck(left, right figure, problems []string) check {
	if left.Amount != right.Amount {
		problems = slices.Concat([]string{fmt.Sprintf("%s %s, %s %s", left, left.What, right, right.What)}, problems)
	}
	if more := len(problems) - maxProblems; more > 0 {
		problems = append(problems[:maxProblems:maxProblems], fmt.Sprintf("and %d more", more))
	}
	return check{Left: left, Right: right, OK: len(problems) == 0, Problems: problems}
}

// compare is the whole table. It is pure.
func (b books) compare() []check {
	checks := []check{b.comparePlaced(), b.compareAnswers(), b.compareEnds()}
	for _, p := range testProviders {
		checks = append(checks, b.compareCharges(p.name))
	}
	for _, p := range testProviders {
		checks = append(checks, b.compareMoney(p.name))
	}
	return append(checks, b.compareAllMoney(), b.compareRefunds(), b.compareRefunded(), b.compareHeld(), b.compareIdentifiers(),
		b.compareSold(), b.compareReserved())
}

// comparePlaced: one key is one order.
func (b books) comparePlaced() check {
	var problems []string
	kept := map[uuid.UUID]bool{}
	for _, order := range b.orders {
		if kept[order.ID] {
			problems = append(problems, fmt.Sprintf("order %s is listed twice", order.ID))
		}
		kept[order.ID] = true
	}
	for _, key := range slices.Sorted(maps.Keys(b.answers)) {
		if id := b.answers[key].orderID(); !kept[id] {
			problems = append(problems, fmt.Sprintf("the order of key %s is missing: it was answered %s", key, b.answers[key]))
		}
	}
	return newCheck(count("keys that shops sent", len(b.answers)), count("orders kept", len(b.orders)), problems)
}

// compareAnswers: what a shop was told is what became of the order, and it was never told two things.
func (b books) compareAnswers() check {
	orders := map[uuid.UUID]api.Order{}
	for _, order := range b.orders {
		orders[order.ID] = order
	}
	problems := slices.Clone(b.contradicted)
	right := 0
	for _, key := range slices.Sorted(maps.Keys(b.answers)) {
		answer := b.answers[key]
		order := orders[answer.orderID()]
		if fits(answer, order.Status) {
			right++
			continue
		}
		problems = append(problems, fmt.Sprintf("key %s was answered %s, its order %s is %q", key, answer, order.ID, order.Status))
	}
	return newCheck(count("answers", len(b.answers)), count("answers that came true", right), problems)
}

// fits: 202 says that the end is not known yet, so that any fits. Money that is held can be let go again.
func fits(answer reply, status api.OrderStatus) bool {
	switch answer.status {
	case http.StatusCreated:
		held := answer.order().Payment.Status == api.PaymentStatusAuthorized
		return status == api.OrderStatusConfirmed || held && status == api.OrderStatusCanceled
	case http.StatusAccepted:
		return ended(status)
	case http.StatusPaymentRequired:
		return status == api.OrderStatusFailed
	case http.StatusUnprocessableEntity:
		return status == api.OrderStatusFailed || status == api.OrderStatusCanceled // out-of-stock, or order-undone
	}
	return false
}

func (b books) compareEnds() check {
	var problems []string
	open := 0
	for _, order := range b.orders {
		if !ended(order.Status) || !settled(order) {
			open++
			problems = append(problems, fmt.Sprintf("order %s is %s, its saga %s", order.ID, order.Status, order.Saga.State))
		}
	}
	return newCheck(count("orders without an end", open), count("allowed", 0), problems)
}

// compareCharges: every order that was paid through a provider has one charge there, and every charge such an order.
func (b books) compareCharges(provider string) check {
	paid, taken := map[string]bool{}, map[string][]sandbox.Charge{}
	for _, order := range b.orders {
		if order.Payment.Provider == provider && order.Payment.CapturedAmount > 0 {
			paid[order.ID.String()] = true
		}
	}
	charges := 0
	for _, charge := range b.charges {
		if charge.Provider == provider && charge.Captured > 0 {
			charges++
			taken[orderOf(charge)] = append(taken[orderOf(charge)], charge)
		}
	}
	var problems []string
	for _, id := range slices.Sorted(maps.Keys(paid)) {
		if n := len(taken[id]); n != 1 {
			problems = append(problems, fmt.Sprintf("paid order %s has %s", id, counted(n, "charge")))
		}
	}
	for _, id := range slices.Sorted(maps.Keys(taken)) {
		if !paid[id] {
			problems = append(problems, fmt.Sprintf("charge %s belongs to no order that was paid there", taken[id][0].ID))
		}
	}
	return newCheck(count("orders paid through "+provider, len(paid)), count("charges taken there", charges), problems)
}

// compareMoney: order by order, and in all, what was captured and not given back. An order that is not confirmed keeps nothing.
func (b books) compareMoney(provider string) check {
	ledger := b.ledger(provider)
	var problems []string
	var kept, held int64
	for _, order := range b.orders {
		id, payment := order.ID.String(), order.Payment
		there := ledger[id]
		delete(ledger, id)
		held += there.Captured - there.Refunded
		if payment.Provider != provider {
			if there.Captured != there.Refunded {
				problems = append(problems, fmt.Sprintf("order %s is paid through %s, and %d are kept at %s", id, payment.Provider,
					there.Captured-there.Refunded, provider))
			}
			continue
		}
		kept += payment.CapturedAmount - payment.RefundedAmount
		if payment.CapturedAmount != there.Captured || payment.RefundedAmount != there.Refunded {
			problems = append(problems, fmt.Sprintf("order %s has %d captured and %d refunded, the ledger of %s %d and %d", id,
				payment.CapturedAmount, payment.RefundedAmount, provider, there.Captured, there.Refunded))
		}
		problems = append(problems, wrongAmount(order)...)
	}
	for _, id := range slices.Sorted(maps.Keys(ledger)) {
		held += ledger[id].Captured - ledger[id].Refunded
		if ledger[id].Captured > 0 {
			problems = append(problems, fmt.Sprintf("charge %s belongs to no order", ledger[id].ID))
		}
	}
	return newCheck(figure{What: "captured less refunded, " + provider, Amount: kept, money: true},
		figure{What: "in its ledger", Amount: held, money: true}, problems)
}

// ledger adds a provider's payments up, by order.
func (b books) ledger(provider string) map[string]sandbox.Charge {
	sums := map[string]sandbox.Charge{}
	for _, charge := range b.charges {
		if charge.Provider != provider {
			continue
		}
		sum := sums[orderOf(charge)]
		sum.ID = charge.ID
		sum.Captured += charge.Captured
		sum.Refunded += charge.Refunded
		sums[orderOf(charge)] = sum
	}
	return sums
}

// wrongAmount: what is captured is the order's whole amount, but where it was held first; of what came to nothing none is kept.
func wrongAmount(order api.Order) []string {
	payment := order.Payment
	kept, manual := payment.CapturedAmount-payment.RefundedAmount, payment.Capture == api.CaptureModeManual
	switch confirmed := order.Status == api.OrderStatusConfirmed; {
	case !confirmed && kept != 0:
		return []string{fmt.Sprintf("order %s is %s, and %d of its money are kept", order.ID, order.Status, kept)}
	case confirmed && (payment.CapturedAmount == 0 || payment.CapturedAmount > order.Amount),
		confirmed && !manual && payment.CapturedAmount != order.Amount:
		return []string{fmt.Sprintf("order %s is about %d, and %d are captured", order.ID, order.Amount, payment.CapturedAmount)}
	case payment.RefundedAmount < 0 || payment.RefundedAmount > payment.CapturedAmount:
		return []string{fmt.Sprintf("order %s has %d refunded of %d", order.ID, payment.RefundedAmount, payment.CapturedAmount)}
	}
	return nil
}

// compareAllMoney is the same over all providers.
func (b books) compareAllMoney() check {
	var kept, taken int64
	for _, order := range b.orders {
		kept += order.Payment.CapturedAmount - order.Payment.RefundedAmount
	}
	for _, charge := range b.charges {
		taken += charge.Captured - charge.Refunded
	}
	return newCheck(figure{What: "captured less refunded, in all", Amount: kept, money: true},
		figure{What: "in all ledgers", Amount: taken, money: true}, nil)
}

// compareRefunds: every refund that a shop was told of is kept, and has an end.
func (b books) compareRefunds() check {
	kept := map[uuid.UUID]api.Refund{}
	var problems []string
	for _, refund := range b.refunds {
		kept[refund.ID] = refund
		if refund.Status != api.RefundStatusSucceeded && refund.Status != api.RefundStatusFailed {
			problems = append(problems, fmt.Sprintf("refund %s is %s", refund.ID, refund.Status))
		}
	}
	for _, refund := range b.begun {
		if kept[refund.ID].Amount != refund.Amount {
			problems = append(problems, fmt.Sprintf("refund %s was about %d, and is about %d", refund.ID, refund.Amount, kept[refund.ID].Amount))
		}
	}
	return newCheck(count("refunds that shops were told of", len(b.begun)), count("refunds kept", len(kept)), problems)
}

// compareRefunded: the refunds that succeeded are what the orders have refunded, order by order.
func (b books) compareRefunded() check {
	sums := map[uuid.UUID]int64{}
	var given int64
	for _, refund := range b.refunds {
		if refund.Status == api.RefundStatusSucceeded {
			sums[refund.OrderID] += refund.Amount
			given += refund.Amount
		}
	}
	var problems []string
	var refunded int64
	for _, order := range b.orders {
		if order.Status != api.OrderStatusConfirmed {
			continue // undone, by paysaga itself
		}
		refunded += order.Payment.RefundedAmount
		if sums[order.ID] != order.Payment.RefundedAmount {
			problems = append(problems, fmt.Sprintf("order %s has %d refunded, its refunds are about %d", order.ID, order.Payment.RefundedAmount,
				sums[order.ID]))
		}
	}
	return newCheck(figure{What: "refunds that succeeded", Amount: given, money: true},
		figure{What: "refunded of confirmed orders", Amount: refunded, money: true}, problems)
}

// compareHeld: at the end nothing should be held.
func (b books) compareHeld() check {
	var problems []string
	var held int64
	for _, charge := range b.charges {
		held += charge.Authorized
		if charge.Authorized != 0 {
			problems = append(problems, fmt.Sprintf("charge %s still holds %d", charge.ID, charge.Authorized))
		}
	}
	return newCheck(figure{What: "still held at the providers", Amount: held, money: true}, figure{What: "allowed", money: true}, problems)
}

// compareIdentifiers: no identifier took money twice, and none is missing.
func (b books) compareIdentifiers() check {
	charges, times := 0, map[string]int{}
	for _, charge := range b.charges {
		if charge.Captured > 0 {
			charges++
			times[charge.Provider+" "+charge.Identifier]++
		}
	}
	var problems []string
	for _, identifier := range slices.Sorted(maps.Keys(times)) {
		if times[identifier] > 1 || strings.HasSuffix(identifier, " ") {
			problems = append(problems, fmt.Sprintf("identifier %q was charged %s", identifier, counted(times[identifier], "time")))
		}
	}
	return newCheck(count("charges taken", charges), count("different identifiers", len(times)), problems)
}

// compareSold: SKU by SKU, and in all.
func (b books) compareSold() check {
	sold := map[string]int64{}
	for _, order := range b.confirmed() {
		for _, item := range order.Items {
			sold[item.SKU] += item.Quantity
		}
	}
	var all, gone int64
	for _, quantity := range sold {
		all += quantity
	}
	var problems []string
	for _, stock := range b.stockAfter {
		left := b.stockBefore[stock.SKU] - stock.OnHand
		gone += left
		if left != sold[stock.SKU] {
			problems = append(problems, fmt.Sprintf("of %s %d are gone, %d are sold", stock.SKU, left, sold[stock.SKU]))
		}
	}
	return newCheck(figure{What: "pieces in confirmed orders", Amount: all}, figure{What: "pieces gone from stock", Amount: gone}, problems)
}

func (b books) compareReserved() check {
	var problems []string
	var reserved int64
	for _, stock := range b.stockAfter {
		reserved += stock.Reserved
		if stock.Reserved != 0 {
			problems = append(problems, fmt.Sprintf("of %s %d are reserved", stock.SKU, stock.Reserved))
		}
	}
	return newCheck(figure{What: "pieces still reserved", Amount: reserved}, count("allowed", 0), problems)
}

func (b books) confirmed() map[uuid.UUID]api.Order {
	confirmed := map[uuid.UUID]api.Order{}
	for _, order := range b.orders {
		if order.Status == api.OrderStatusConfirmed {
			confirmed[order.ID] = order
		}
	}
	return confirmed
}

func count(what string, number int) figure { return figure{What: what, Amount: int64(number)} }

// compare gathers the books, from the API what the API tells, and adds the table to the report.
func (t *tour) compare(ctx context.Context) error {
	b := books{charges: t.place.sandbox.Ledger(), stockBefore: t.stockBefore}
	b.answers, b.begun, b.contradicted = t.shop.told()
	var err error
	if b.orders, err = t.shop.orders(ctx, ""); err != nil {
		return err
	}
	asked := map[uuid.UUID]bool{}
	for _, refund := range b.begun {
		if asked[refund.OrderID] {
			continue
		}
		asked[refund.OrderID] = true
		kept, err := t.shop.refunds(ctx, refund.OrderID)
		if err != nil {
			return err
		}
		b.refunds = append(b.refunds, kept...)
	}
	if b.stockAfter, err = t.shop.stock(ctx); err != nil {
		return err
	}
	t.report.Table = b.compare()
	return nil
}
