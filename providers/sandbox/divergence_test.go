package sandbox_test

import (
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"paysaga/providers/sandbox"
)

// diverging are the payments of the tests of divergences: 39.98 EUR, at each provider.
var diverging = map[string]struct {
	taken, held func(t *testing.T, b *bench) (id string)
	refund      func(t *testing.T, b *bench, id string) // of 10.00
	lookup      func(t *testing.T, b *bench, id string) reply
	// gone is what a hold is called that somebody voided, and one whose time ran out.
	gone map[string]string
}{
	"stripe": {
		taken: func(t *testing.T, b *bench) string {
			t.Helper()
			return text(b.post(t, "/payment_intents", "k1", order()).json(t), "id")
		},
		held: func(t *testing.T, b *bench) string {
			t.Helper()
			return text(b.post(t, "/payment_intents", "k1", order("capture_method", "manual")).json(t), "id")
		},
		refund: func(t *testing.T, b *bench, id string) {
			t.Helper()
			b.post(t, "/refunds", "r1", map[string][]string{"payment_intent": {id}, "amount": {"1000"}}).want(t, 200)
		},
		lookup: func(t *testing.T, b *bench, id string) reply {
			t.Helper()
			return b.get(t, "/stripe/v1/payment_intents/"+id)
		},
		gone: map[string]string{"voided_in_dashboard": "canceled", "authorization_expired": "canceled"},
	},
	"adyen": {
		taken: func(t *testing.T, b *bench) string {
			t.Helper()
			return text(b.adyen(t, "/payments", "k1", adyenOrder("APPROVED", `,"captureDelayHours":0`)).want(t, 200).json(t), "pspReference")
		},
		held: func(t *testing.T, b *bench) string {
			t.Helper()
			return text(b.adyen(t, "/payments", "k1", adyenOrder("APPROVED", `,"additionalData":{"manualCapture":"true"}`)).want(t, 200).json(t), "pspReference")
		},
		refund: func(t *testing.T, b *bench, id string) {
			t.Helper()
			b.adyen(t, "/payments/"+id+"/refunds", "r1", `{"merchantAccount":"Shop","amount":{"currency":"EUR","value":1000}}`).want(t, 201)
		},
		lookup: func(t *testing.T, b *bench, id string) reply {
			t.Helper()
			return b.adyen(t, "/payments/"+id+"/cancels", "", `{"merchantAccount":"Shop"}`)
		},
		gone: map[string]string{"voided_in_dashboard": "Cancelled", "authorization_expired": "Expired"},
	},
	"paypal": {
		taken: func(t *testing.T, b *bench) string {
			t.Helper()
			return text(b.pay(t, "/v2/checkout/orders", "k1", paypalOrder("CAPTURE", vault("COMPLETED"))).want(t, 201).json(t), "id")
		},
		held: func(t *testing.T, b *bench) string {
			t.Helper()
			return text(b.pay(t, "/v2/checkout/orders", "k1", paypalOrder("AUTHORIZE", vault("COMPLETED"))).want(t, 201).json(t), "id")
		},
		refund: func(t *testing.T, b *bench, id string) {
			t.Helper()
			capture := text(payment(t, b.paypal(t, "GET", "/v2/checkout/orders/"+id, "", ""), "captures"), "id")
			b.pay(t, "/v2/payments/captures/"+capture+"/refund", "r1", `{"amount":{"currency_code":"EUR","value":"10.00"}}`).want(t, 201)
		},
		lookup: func(t *testing.T, b *bench, id string) reply {
			t.Helper()
			return b.paypal(t, "GET", "/v2/checkout/orders/"+id, "", "")
		},
		gone: map[string]string{"voided_in_dashboard": "VOIDED", "authorization_expired": "VOIDED"},
	},
}

// TestDivergences: each divergence does to the ledger what it says, at each provider, and a second one that does not fit does nothing.
func TestDivergences(t *testing.T) {
	t.Parallel()
	euros := func(amount, authorized, captured, refunded, back int64) sandbox.Charge {
		return sandbox.Charge{Amount: amount, Currency: "EUR", Authorized: authorized, Captured: captured, Refunded: refunded, ChargedBack: back}
	}
	dollars := euros(3998, 0, 3998, 0, 0)
	dollars.Currency = "USD"
	dearer := euros(4998, 0, 4998, 0, 0)
	dearer.Currency = "USD"
	tests := map[string]struct {
		held, refunded bool
		body           string
		want           []sandbox.Charge
		misfit         string
	}{
		"another amount":            {body: `"amount_changed","amount":4500`, want: []sandbox.Charge{euros(4500, 0, 4500, 0, 0)}, misfit: `"amount_changed","amount":-1`},
		"another currency":          {body: `"currency_changed","currency":"USD"`, want: []sandbox.Charge{dollars}, misfit: `"currency_changed","currency":"XYZ"`},
		"both":                      {body: `"currency_changed","currency":"USD","amount":4998`, want: []sandbox.Charge{dearer}, misfit: `"currency_changed"`},
		"a second one":              {body: `"duplicate"`, want: []sandbox.Charge{euros(3998, 0, 3998, 0, 0), euros(3998, 0, 3998, 0, 0)}, misfit: `"duplicate","id":"none"`},
		"none":                      {body: `"payment_lost"`, want: []sandbox.Charge{}, misfit: `"payment_lost"`},
		"no hold":                   {held: true, body: `"payment_lost"`, want: []sandbox.Charge{}, misfit: `"voided_in_dashboard"`},
		"a refund":                  {body: `"refund_in_dashboard","amount":998`, want: []sandbox.Charge{euros(3998, 0, 3998, 998, 0)}, misfit: `"refund_in_dashboard","amount":3001`},
		"a whole refund":            {body: `"refund_in_dashboard"`, want: []sandbox.Charge{euros(3998, 0, 3998, 3998, 0)}, misfit: `"refund_in_dashboard"`},
		"a refund fewer":            {refunded: true, body: `"refund_lost"`, want: []sandbox.Charge{euros(3998, 0, 3998, 0, 0)}, misfit: `"refund_lost"`},
		"captured":                  {held: true, body: `"captured_in_dashboard"`, want: []sandbox.Charge{euros(3998, 0, 3998, 0, 0)}, misfit: `"captured_in_dashboard"`},
		"captured in part":          {held: true, body: `"captured_in_dashboard","amount":1500`, want: []sandbox.Charge{euros(3998, 0, 1500, 0, 0)}, misfit: `"captured_in_dashboard"`},
		"voided":                    {held: true, body: `"voided_in_dashboard"`, want: []sandbox.Charge{euros(3998, 0, 0, 0, 0)}, misfit: `"voided_in_dashboard"`},
		"expired":                   {held: true, body: `"authorization_expired"`, want: []sandbox.Charge{euros(3998, 0, 0, 0, 0)}, misfit: `"captured_in_dashboard"`},
		"charged back":              {body: `"chargeback"`, want: []sandbox.Charge{euros(3998, 0, 3998, 0, 3998)}, misfit: `"chargeback"`},
		"charged back, the rest":    {refunded: true, body: `"chargeback"`, want: []sandbox.Charge{euros(3998, 0, 3998, 1000, 2998)}, misfit: `"refund_in_dashboard"`},
		"charged back, too much":    {refunded: true, body: `"chargeback","amount":500`, want: []sandbox.Charge{euros(3998, 0, 3998, 1000, 500)}, misfit: `"refund_in_dashboard","amount":2499`},
		"another fee in the file":   {body: `"fee_changed","amount":9`, want: []sandbox.Charge{euros(3998, 0, 3998, 0, 0)}, misfit: `"fee_changed","id":"none"`},
		"another gross in the file": {body: `"settled_amount_changed","amount":4000`, want: []sandbox.Charge{euros(3998, 0, 3998, 0, 0)}, misfit: `"settled_amount_changed"`},
	}
	for name, test := range tests {
		for provider, payments := range diverging {
			t.Run(name+", "+provider, func(t *testing.T) {
				t.Parallel()
				b := newBench(t, sandbox.Options{})
				order := payments.taken
				if test.held {
					order = payments.held
				}
				id := order(t, b)
				if test.refunded {
					payments.refund(t, b, id)
				}
				plant := func(body string, status int) {
					b.control(t, "/divergence", `{"provider":"`+provider+`","kind":`+body+`}`, status)
				}
				plant(test.body, http.StatusCreated)
				plant(test.misfit, http.StatusBadRequest)
				if diff := cmp.Diff(test.want, moneyOf(b.Ledger())); diff != "" {
					t.Errorf("ledger (-want +got):\n%s", diff)
				}
			})
		}
	}
}

// moneyOf is what a ledger says of money alone.
func moneyOf(ledger []sandbox.Charge) []sandbox.Charge {
	money := make([]sandbox.Charge, 0, len(ledger))
	for _, c := range ledger {
		money = append(money, sandbox.Charge{
			Amount: c.Amount, Currency: c.Currency, Authorized: c.Authorized, Captured: c.Captured, Refunded: c.Refunded, ChargedBack: c.ChargedBack,
		})
	}
	return money
}

// TestLostPayments: what a provider has forgotten it cannot be asked for, and does not list; what it has beside that stays.
func TestLostPayments(t *testing.T) {
	t.Parallel()
	for provider, payments := range diverging {
		t.Run(provider, func(t *testing.T) {
			t.Parallel()
			b := newBench(t, sandbox.Options{})
			others := make([]string, 0, 2)
			plant := func(body string) string {
				var planted struct {
					Charge sandbox.Charge `json:"charge"`
				}
				answer := b.control(t, "/divergence", `{"provider":"`+provider+`","kind":`+body+`}`, http.StatusCreated)
				if err := json.Unmarshal([]byte(answer.body), &planted); err != nil {
					t.Fatal(err)
				}
				return planted.Charge.ID
			}
			others = append(others, plant(`"charge_without_order","amount":500,"currency":"EUR"`))
			id := payments.taken(t, b)
			payments.refund(t, b, id)
			others = append(others, plant(`"charge_without_order","amount":600,"currency":"EUR"`))
			if lost := plant(`"payment_lost","id":"` + id + `"`); lost != id {
				t.Errorf("lost %s, want %s", lost, id)
			}
			if answer := payments.lookup(t, b, id); answer.status/100 != 4 {
				t.Errorf("still there: %d %s", answer.status, answer.body)
			}
			left := make([]string, 0, 2)
			for _, charge := range b.Ledger() {
				left = append(left, charge.ID)
			}
			if diff := cmp.Diff(others, left); diff != "" {
				t.Errorf("left (-want +got):\n%s", diff)
			}
		})
	}
}

func TestListsAfterALoss(t *testing.T) {
	t.Parallel()
	b := newBench(t, sandbox.Options{})
	ids := make([]string, 0, 4)
	for i := range 4 {
		ids = append(ids, text(b.post(t, "/payment_intents", fmt.Sprintf("k%d", i), order()).json(t), "id"))
	}
	b.control(t, "/divergence", `{"kind":"payment_lost","id":"`+ids[2]+`"}`, http.StatusCreated)
	for path, want := range map[string][]string{
		"": {ids[3], ids[1], ids[0]}, "&starting_after=" + ids[3]: {ids[1], ids[0]}, "&ending_before=" + ids[1]: {ids[3]},
	} {
		if diff := cmp.Diff(want, b.get(t, "/stripe/v1/payment_intents?limit=5"+path).ids(t)); diff != "" {
			t.Errorf("%q (-want +got):\n%s", path, diff)
		}
	}
}

// TestHoldsThatEnd: how a hold came to its end without us is told in the provider's words, and not announced.
func TestHoldsThatEnd(t *testing.T) {
	t.Parallel()
	for provider, payments := range diverging {
		for kind, status := range payments.gone {
			t.Run(provider+", "+kind, func(t *testing.T) {
				t.Parallel()
				b := newBench(t, sandbox.Options{})
				payments.held(t, b)
				b.control(t, "/divergence", `{"provider":"`+provider+`","kind":"`+kind+`"}`, http.StatusCreated)
				if entry := b.only(t); entry.Status != status {
					t.Errorf("ledger: %+v", entry)
				}
				b.AdvanceClock(40 * 24 * time.Hour)
				if entry := b.only(t); entry.Status != status || entry.Authorized != 0 {
					t.Errorf("later: %+v", entry)
				}
			})
		}
	}
	b := newBench(t, sandbox.Options{})
	id := diverging["paypal"].held(t, b)
	b.AdvanceClock(time.Hour)
	b.control(t, "/divergence", `{"provider":"paypal","kind":"authorization_expired"}`, http.StatusCreated)
	hold := payment(t, diverging["paypal"].lookup(t, b, id), "authorizations")
	if text(hold, "expiration_time") != text(hold, "update_time") {
		t.Errorf("an expiry is told by its times: %v", hold)
	}
	b = newBench(t, sandbox.Options{})
	id = diverging["stripe"].held(t, b)
	b.control(t, "/divergence", `{"kind":"authorization_expired"}`, http.StatusCreated)
	if payment := b.get(t, "/stripe/v1/payment_intents/"+id).json(t); payment["cancellation_reason"] != "automatic" {
		t.Errorf("%v", payment)
	}
}

func TestNoNetAtPayPal(t *testing.T) {
	t.Parallel()
	b := newBench(t, sandbox.Options{})
	diverging["paypal"].taken(t, b)
	answer := b.control(t, "/divergence", `{"provider":"paypal","kind":"net_changed"}`, http.StatusBadRequest)
	if !strings.Contains(answer.body, "net") {
		t.Error(answer.body)
	}
}

// TestDisputedIsNotRefunded: money that the customer's bank took back is not given back a second time.
func TestDisputedIsNotRefunded(t *testing.T) {
	t.Parallel()
	b := newBench(t, sandbox.Options{})
	id := diverging["stripe"].taken(t, b)
	b.control(t, "/divergence", `{"kind":"chargeback"}`, http.StatusCreated)
	if failure := b.post(t, "/refunds", "r1", map[string][]string{"payment_intent": {id}}).failure(t); failure["code"] != "charge_disputed" {
		t.Errorf("%v", failure)
	}
	b.control(t, "/reset", "", http.StatusNoContent)
	id = diverging["paypal"].taken(t, b)
	capture := text(payment(t, diverging["paypal"].lookup(t, b, id), "captures"), "id")
	b.control(t, "/divergence", `{"provider":"paypal","kind":"chargeback"}`, http.StatusCreated)
	b.pay(t, "/v2/payments/captures/"+capture+"/refund", "r1", "{}").issue(t, 422, "UNPROCESSABLE_ENTITY", "REFUND_NOT_ALLOWED")
}
