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
	heldKey, freedKey = "key-of-the-captured-order", "key-of-the-canceled-order"

	paidID, brokeID = "5f0c1a9e-7d5b-5c3e-9b1a-0f6d2c8e4a71", "8c4b5f0e-2a36-5d51-8e0f-61b7d9a3c250"
	heldID, freedID = "0b4a9c5e-1f7d-5a2b-8c3e-7d6f5e4a3b21", "9e8d7c6b-5a49-5382-9716-0f1e2d3c4b5a"
)

// soundBooks are those of four orders that agree: one paid and refunded in part at Stripe, one declined there, one that Adyen held
// and of which a part was captured, and one that PayPal held and that was canceled.
func soundBooks(t *testing.T) books {
	t.Helper()
	order := func(id string, status api.OrderStatus, quantity int64, payment api.Payment) api.Order {
		state := api.SagaStateRolledBack
		if status == api.OrderStatusConfirmed {
			state = api.SagaStateCompleted
		}
		return api.Order{
			ID: uuid.MustParse(id), Status: status, Amount: quantity * shirtPrice, Currency: currency, Payment: payment,
			Items: []api.Item{{SKU: shirt, Quantity: quantity, UnitAmount: shirtPrice}}, Saga: api.SagaSummary{State: state},
		}
	}
	paid := order(paidID, api.OrderStatusConfirmed, 2, api.Payment{Provider: "stripe", CapturedAmount: 3998, RefundedAmount: 1000})
	broke := order(brokeID, api.OrderStatusFailed, 1, api.Payment{Provider: "stripe"})
	held := order(heldID, api.OrderStatusConfirmed, 2, api.Payment{Provider: "adyen", Capture: api.CaptureModeManual, CapturedAmount: 1999})
	freed := order(freedID, api.OrderStatusCanceled, 1, api.Payment{Provider: "paypal", Capture: api.CaptureModeManual})
	asHeld := freed
	asHeld.Status, asHeld.Payment.Status = api.OrderStatusConfirmed, api.PaymentStatusAuthorized
	refund := api.Refund{ID: uuid.MustParse(heldID), OrderID: paid.ID, Amount: 1000, Status: api.RefundStatusSucceeded}
	return books{
		answers: map[string]reply{
			paidKey:  {status: http.StatusCreated, body: encode(t, paid)},
			brokeKey: {status: http.StatusPaymentRequired, body: encode(t, api.Problem{Instance: "/v1/orders/" + brokeID})},
			heldKey:  {status: http.StatusAccepted, body: encode(t, held)},
			freedKey: {status: http.StatusCreated, body: encode(t, asHeld)},
		},
		orders: []api.Order{paid, broke, held, freed},
		begun:  []api.Refund{refund}, refunds: []api.Refund{refund},
		charges: []sandbox.Charge{
			{Provider: "stripe", ID: "pi_1", Identifier: paidID + "_charge", Reference: paidID, Captured: 3998, Refunded: 1000},
			{Provider: "stripe", ID: "pi_2", Identifier: brokeID + "_charge", Reference: brokeID},
			{Provider: "adyen", ID: "PSP1", Identifier: heldID + "_charge", Reference: heldID + "_charge", Captured: 1999},
			{Provider: "paypal", ID: "ORDER1", Identifier: freedID, Reference: freedID},
		},
		stockBefore: map[string]int64{shirt: 10, mug: 5},
		stockAfter:  []api.Stock{{SKU: mug, OnHand: 5}, {SKU: shirt, OnHand: 6}},
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
	for _, c := range checks {
		if got, want := c.Left.String(), "29.98 EUR"; c.Left.What == "captured less refunded, stripe" && got != want {
			t.Errorf("money is shown as %q, want %q", got, want)
		}
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
		{"a lost order", func(b *books) { b.orders = b.orders[:3] }, "keys that shops sent", freedKey + " is missing"},
		{"a second order for a key", func(b *books) { b.orders = append(b.orders, api.Order{ID: uuid.New(), Status: api.OrderStatusFailed}) }, "keys that shops sent", "4 keys that shops sent, 5 orders kept"},
		{"an order listed twice", func(b *books) { b.orders = append(b.orders, b.orders[1]) }, "keys that shops sent", "is listed twice"},
		{"a promise that was not kept", func(b *books) { b.orders[0].Status = api.OrderStatusFailed }, "answers", paidKey + " was answered 201"},
		{"a paid order that was canceled", func(b *books) { b.orders[0].Status = api.OrderStatusCanceled }, "answers", paidKey + " was answered 201"},
		{"a refusal of a paid order", func(b *books) { b.orders[1].Status = api.OrderStatusConfirmed }, "answers", brokeKey + " was answered 402"},
		{"two answers for a key", func(b *books) { b.contradicted = []string{"key gave 201, then 402"} }, "answers", "then 402"},
		{"an order under way", func(b *books) { b.orders[1].Status = api.OrderStatusProcessing }, "orders without an end", "is processing"},
		{"an order that waits", func(b *books) { b.orders[1].Status = api.OrderStatusAwaiting }, "orders without an end", "is awaiting"},
		{"an order for a person", func(b *books) { b.orders[1].Status = api.OrderStatusInReview }, "orders without an end", "is in_review"},
		{"a hold that nobody ends", func(b *books) { b.orders[2].Saga.State = api.SagaStateAwaiting }, "orders without an end", "its saga awaiting"},
		{"a confirmed order without a charge", func(b *books) { b.charges[0].Captured = 0 }, "orders paid through stripe", "has 0 charges"},
		{"a second charge", func(b *books) { b.charges[1].Captured, b.charges[1].Reference = 3998, paidID }, "orders paid through stripe", "has 2 charges"},
		{"a charge at another provider", func(b *books) { b.charges[3].Captured, b.charges[3].Reference = 3998, paidID }, "orders paid through paypal", "ORDER1 belongs to no order that was paid there"},
		{"a charge for a failed order", func(b *books) { b.charges[1].Captured = 1999 }, "orders paid through stripe", "pi_2 belongs to no order"},
		{"a charge of nobody", func(b *books) { b.charges[1].Captured, b.charges[1].Reference = 1, "" }, "captured less refunded, stripe", "pi_2 belongs to no order"},
		{"too little money", func(b *books) { b.charges[0].Captured = 3997 }, "captured less refunded, stripe", "has 3998 captured and 1000 refunded, the ledger of stripe 3997 and 1000"},
		{"money given back that nobody asked for", func(b *books) { b.charges[2].Refunded = 1 }, "captured less refunded, adyen", "the ledger of adyen 1999 and 1"},
		{"a refund lost at the provider", func(b *books) { b.charges[0].Refunded = 0 }, "captured less refunded, stripe", "the ledger of stripe 3998 and 0"},
		{"two differences that cancel out", func(b *books) { b.charges[0].Refunded, b.charges[2].Refunded = 999, 1 }, "captured less refunded, stripe", "the ledger of stripe 3998 and 999"},
		{"money kept in all", func(b *books) { b.charges[0].Refunded = 999 }, "captured less refunded, in all", "49.97 EUR captured less refunded, in all, 49.98 EUR in all ledgers"},
		{"an order paid in part", func(b *books) { b.orders[0].Payment.CapturedAmount, b.charges[0].Captured = 3000, 3000 }, "captured less refunded, stripe", "is about 3998, and 3000 are captured"},
		{"more captured than held", func(b *books) { b.orders[2].Payment.CapturedAmount, b.charges[2].Captured = 3999, 3999 }, "captured less refunded, adyen", "is about 3998, and 3999 are captured"},
		{"more refunded than captured", func(b *books) { b.orders[2].Payment.RefundedAmount, b.charges[2].Refunded = 2000, 2000 }, "captured less refunded, adyen", "has 2000 refunded of 1999"},
		{"money kept of a canceled order", func(b *books) { b.orders[3].Payment.CapturedAmount, b.charges[3].Captured = 1999, 1999 }, "captured less refunded, paypal", "is canceled, and 1999 of its money are kept"},
		{"money left where it was declined", func(b *books) { b.charges[3].Captured, b.charges[3].Reference = 1, paidID }, "captured less refunded, paypal", "is paid through stripe, and 1 are kept at paypal"},
		{"money still held", func(b *books) { b.charges[1].Authorized = 1999 }, "still held at the providers", "still holds 1999"},
		{"a lost refund", func(b *books) { b.refunds = nil }, "refunds that shops were told of", "was about 1000, and is about 0"},
		{"a refund of nobody", func(b *books) { b.begun = nil }, "refunds that shops were told of", "0 refunds that shops were told of, 1 refunds kept"},
		{"a refund without an end", func(b *books) { b.refunds[0].Status = api.RefundStatusPending }, "refunds that shops were told of", "is pending"},
		{"a refund that the order does not know", func(b *books) { b.orders[0].Payment.RefundedAmount = 0 }, "refunds that succeeded", "has 0 refunded, its refunds are about 1000"},
		{"a failed refund that still counts", func(b *books) { b.refunds[0].Status = api.RefundStatusFailed }, "refunds that succeeded", "has 1000 refunded, its refunds are about 0"},
		{"one identifier charged twice", func(b *books) { b.charges[1].Captured, b.charges[1].Identifier = 1999, b.charges[0].Identifier }, "charges taken", "was charged 2 times"},
		{"a charge without identifier", func(b *books) { b.charges[0].Identifier = "" }, "charges taken", `identifier "stripe " was charged`},
		{"stock lost", func(b *books) { b.stockAfter[1].OnHand = 5 }, "pieces in confirmed orders", "of TSHIRT-M 5 are gone, 4 are sold"},
		{"stock of one SKU sold as another's", func(b *books) { b.stockAfter[0].OnHand, b.stockAfter[1].OnHand = 4, 7 }, "pieces in confirmed orders", "of MUG 1 are gone, 0 are sold"},
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
