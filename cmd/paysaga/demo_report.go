package main

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"net/http"
	"slices"

	"github.com/google/uuid"

	"paysaga/api"
	"paysaga/providers/sandbox"
)

// books is all that is compared at the end: what the clients were told, what paysaga keeps, what the provider took, and
// what is left in stock.
type books struct {
	answers      map[string]reply // by key, of every order that was placed
	contradicted []string
	orders       []api.Order
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
	return []check{
		b.comparePlaced(), b.compareAnswers(), b.compareEnds(), b.compareCharges(), b.compareMoney(), b.compareIdentifiers(),
		b.compareSold(), b.compareReserved(),
	}
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
		if fits(answer.status, order.Status) {
			right++
			continue
		}
		problems = append(problems, fmt.Sprintf("key %s was answered %s, its order %s is %q", key, answer, order.ID, order.Status))
	}
	return newCheck(count("answers", len(b.answers)), count("answers that came true", right), problems)
}

// fits: 202 says that the end is not known yet, so that any fits.
func fits(answer int, status api.OrderStatus) bool {
	switch answer {
	case http.StatusCreated:
		return status == api.OrderStatusConfirmed
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
		if !ended(order.Status) {
			open++
			problems = append(problems, fmt.Sprintf("order %s is %s, its saga %s", order.ID, order.Status, order.Saga.State))
		}
	}
	return newCheck(count("orders without an end", open), count("allowed", 0), problems)
}

// compareCharges: every confirmed order has its charge, and every charge a confirmed order.
func (b books) compareCharges() check {
	confirmed, taken := b.confirmed(), b.taken()
	var problems []string
	for _, id := range slices.SortedFunc(maps.Keys(confirmed), compareIDs) {
		if n := len(taken[id.String()]); n != 1 {
			problems = append(problems, fmt.Sprintf("confirmed order %s has %s", id, counted(n, "charge")))
		}
	}
	charges := 0
	for _, reference := range slices.Sorted(maps.Keys(taken)) {
		charges += len(taken[reference])
		id, err := uuid.Parse(reference)
		if _, ok := confirmed[id]; err != nil || !ok {
			problems = append(problems, fmt.Sprintf("charge %s belongs to no confirmed order", taken[reference][0].ID))
		}
	}
	return newCheck(count("orders confirmed", len(confirmed)), count("charges taken", charges), problems)
}

// compareMoney: order by order, and in all. Money that is only held counts as a problem: nothing should be at the end.
func (b books) compareMoney() check {
	var problems []string
	var owed, taken int64
	confirmed := b.confirmed()
	for _, order := range confirmed {
		owed += order.Amount
	}
	for _, charge := range b.charges {
		taken += charge.Captured - charge.Refunded
		if charge.Authorized != 0 {
			problems = append(problems, fmt.Sprintf("charge %s still holds %d", charge.ID, charge.Authorized))
		}
		id, err := uuid.Parse(charge.Reference)
		order, ok := confirmed[id]
		if err == nil && ok && charge.Captured > 0 && (charge.Captured-charge.Refunded != order.Amount || charge.Currency != order.Currency) {
			problems = append(problems, fmt.Sprintf("charge %s took %d %s, order %s is about %d %s", charge.ID,
				charge.Captured-charge.Refunded, charge.Currency, id, order.Amount, order.Currency))
		}
	}
	return newCheck(figure{What: "of confirmed orders", Amount: owed, money: true},
		figure{What: "taken from customers", Amount: taken, money: true}, problems)
}

// compareIdentifiers: no identifier took money twice, and none is missing.
func (b books) compareIdentifiers() check {
	charges, times := 0, map[string]int{}
	for _, charge := range b.charges {
		if charge.Captured > 0 {
			charges++
			times[charge.Identifier]++
		}
	}
	var problems []string
	for _, identifier := range slices.Sorted(maps.Keys(times)) {
		if times[identifier] > 1 || identifier == "" {
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

// taken are the charges by which money was taken and kept, by the order that they were filed under.
func (b books) taken() map[string][]sandbox.Charge {
	taken := map[string][]sandbox.Charge{}
	for _, charge := range b.charges {
		if charge.Captured > charge.Refunded {
			taken[charge.Reference] = append(taken[charge.Reference], charge)
		}
	}
	return taken
}

func count(what string, number int) figure { return figure{What: what, Amount: int64(number)} }

func compareIDs(a, b uuid.UUID) int { return cmp.Compare(a.String(), b.String()) }

// compare gathers the books, from the API what the API tells, and adds the table to the report.
func (t *tour) compare(ctx context.Context) error {
	b := books{charges: t.place.sandbox.Ledger(), stockBefore: t.stockBefore}
	b.answers, b.contradicted = t.shop.told()
	var err error
	if b.orders, err = t.shop.orders(ctx, ""); err != nil {
		return err
	}
	if b.stockAfter, err = t.shop.stock(ctx); err != nil {
		return err
	}
	t.report.Table = b.compare()
	return nil
}
