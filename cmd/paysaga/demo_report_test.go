package main

import (
	"encoding/json"
	"net/http"
	"strings"
	"testing"

	"github.com/google/uuid"

	"paysaga/api"
	"paysaga/providers/sandbox"
)

const (
	paidKey, brokeKey = "key-of-the-paid-order", "key-of-the-failed-order"
	paidID, brokeID   = "5f0c1a9e-7d5b-5c3e-9b1a-0f6d2c8e4a71", "8c4b5f0e-2a36-5d51-8e0f-61b7d9a3c250"
)

// soundBooks are those of two orders, one confirmed and one declined, that agree.
func soundBooks(t *testing.T) books {
	t.Helper()
	paid := api.Order{
		ID: uuid.MustParse(paidID), Status: api.OrderStatusConfirmed, Amount: 3998, Currency: currency,
		Items: []api.Item{{SKU: shirt, Quantity: 2, UnitAmount: shirtPrice}},
	}
	broke := api.Order{
		ID: uuid.MustParse(brokeID), Status: api.OrderStatusFailed, Amount: 1999, Currency: currency,
		Items: []api.Item{{SKU: shirt, Quantity: 1, UnitAmount: shirtPrice}},
	}
	return books{
		answers: map[string]reply{
			paidKey:  {status: http.StatusCreated, body: encode(t, paid)},
			brokeKey: {status: http.StatusPaymentRequired, body: encode(t, api.Problem{Instance: "/v1/orders/" + brokeID})},
		},
		orders: []api.Order{paid, broke},
		charges: []sandbox.Charge{
			{ID: "pi_1", Identifier: paidID + "_charge", Reference: paidID, Amount: 3998, Currency: currency, Captured: 3998, Calls: 2},
			{ID: "pi_2", Identifier: brokeID + "_charge", Reference: brokeID, Amount: 1999, Currency: currency, Calls: 1},
		},
		stockBefore: map[string]int64{shirt: 10, mug: 5},
		stockAfter:  []api.Stock{{SKU: mug, OnHand: 5}, {SKU: shirt, OnHand: 8}},
	}
}

func encode(t *testing.T, value any) []byte {
	t.Helper()
	body, err := json.Marshal(value)
	if err != nil {
		t.Fatal(err)
	}
	return body
}

func TestCompareSoundBooks(t *testing.T) {
	t.Parallel()
	checks := soundBooks(t).compare()
	if len(checks) == 0 {
		t.Fatal("nothing was compared")
	}
	for _, c := range checks {
		if !c.OK {
			t.Errorf("%s: %v", c.Left.What, c.Problems)
		}
	}
	if got, want := checks[4].Left.String(), "39.98 EUR"; got != want {
		t.Errorf("money is shown as %q, want %q", got, want)
	}
	if err := (demoReport{Table: checks}).verdict(); err != nil {
		t.Errorf("verdict: %v", err)
	}
}

// Each case breaks one thing; the table must tell it in a row of that name, and the verdict must not be good.
func TestCompareFindsWhatIsBroken(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		name    string
		breaks  func(b *books)
		row     string
		problem string
	}{
		{"a lost order", func(b *books) { b.orders = b.orders[:1] }, "keys that shops sent", brokeKey + " is missing"},
		{"a second order for a key", func(b *books) { b.orders = append(b.orders, api.Order{ID: uuid.New(), Status: api.OrderStatusFailed}) }, "keys that shops sent", "2 keys that shops sent, 3 orders kept"},
		{"an order listed twice", func(b *books) { b.orders = append(b.orders, b.orders[1]) }, "keys that shops sent", "is listed twice"},
		{"a promise that was not kept", func(b *books) { b.orders[0].Status = api.OrderStatusFailed }, "answers", paidKey + " was answered 201"},
		{"a refusal of a paid order", func(b *books) { b.orders[1].Status = api.OrderStatusConfirmed }, "answers", brokeKey + " was answered 402"},
		{"two answers for a key", func(b *books) { b.contradicted = []string{"key gave 201, then 402"} }, "answers", "then 402"},
		{"an order under way", func(b *books) { b.orders[1].Status = api.OrderStatusProcessing }, "orders without an end", "is processing"},
		{"an order that waits", func(b *books) { b.orders[1].Status = api.OrderStatusAwaiting }, "orders without an end", "is awaiting"},
		{"an order for a person", func(b *books) { b.orders[1].Status = api.OrderStatusInReview }, "orders without an end", "is in_review"},
		{"a confirmed order without money", func(b *books) { b.charges[0].Captured = 0 }, "orders confirmed", "has 0 charges"},
		{"a second charge", func(b *books) { b.charges[1].Captured, b.charges[1].Reference = 3998, paidID }, "orders confirmed", "has 2 charges"},
		{"a charge for a failed order", func(b *books) { b.charges[1].Captured = 1999 }, "orders confirmed", "pi_2 belongs to no confirmed order"},
		{"a charge of nobody", func(b *books) { b.charges[1].Captured, b.charges[1].Reference = 1, "" }, "orders confirmed", "pi_2 belongs to no confirmed order"},
		{"too little money", func(b *books) { b.charges[0].Captured = 3997 }, "of confirmed orders", "took 3997 EUR"},
		{"money given back of a confirmed order", func(b *books) { b.charges[0].Refunded = 1 }, "of confirmed orders", "took 3997 EUR"},
		{"money still held", func(b *books) { b.charges[1].Authorized = 1999 }, "of confirmed orders", "still holds 1999"},
		{"one identifier charged twice", func(b *books) { b.charges[1].Captured, b.charges[1].Identifier = 1999, b.charges[0].Identifier }, "charges taken", "was charged 2 times"},
		{"a charge without identifier", func(b *books) { b.charges[0].Identifier = "" }, "charges taken", `identifier "" was charged`},
		{"stock lost", func(b *books) { b.stockAfter[1].OnHand = 7 }, "pieces in confirmed orders", "of TSHIRT-M 3 are gone, 2 are sold"},
		{"stock of one SKU sold as another's", func(b *books) { b.stockAfter[0].OnHand, b.stockAfter[1].OnHand = 4, 9 }, "pieces in confirmed orders", "of MUG 1 are gone, 0 are sold"},
		{"a reservation forgotten", func(b *books) { b.stockAfter[1].Reserved = 1 }, "pieces still reserved", "of TSHIRT-M 1 are reserved"},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			b := soundBooks(t)
			test.breaks(&b)
			checks := b.compare()
			if err := (demoReport{Table: checks}).verdict(); err == nil {
				t.Error("the verdict is good")
			}
			for _, c := range checks {
				if c.Left.What != test.row {
					continue
				}
				if all := strings.Join(c.Problems, "\n"); c.OK || !strings.Contains(all, test.problem) {
					t.Errorf("row %q: ok %t, problems %q; want %q among them", test.row, c.OK, all, test.problem)
				}
				return
			}
			t.Errorf("no row %q", test.row)
		})
	}
}

func TestCheckListsFewProblems(t *testing.T) {
	t.Parallel()
	c := newCheck(count("a", 1), count("b", 1), []string{"1", "2", "3", "4", "5", "6", "7"})
	if got, want := strings.Join(c.Problems, " "), "1 2 3 4 5 and 2 more"; got != want || c.OK {
		t.Errorf("got %q, ok %t; want %q, not ok", got, c.OK, want)
	}
}
