package httpapi_test

import (
	"net/http"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"paysaga/api"
	"paysaga/saga"
)

func TestRefund(t *testing.T) {
	t.Parallel()
	s := newShop(t)
	location := s.place(t, newKeyText(), theOrder).header.Get("Location")
	empty := s.get(t, location+"/refunds")
	if empty.body != `{"data":[],"next_cursor":null}`+"\n" {
		t.Errorf("no refunds: %s", empty.body)
	}
	key, body := newKeyText(), `{"amount":1999,"reason":"one came back"}`
	first := s.send(t, s.asking(key, location+"/refunds", body))
	refund := decoded[api.Refund](t, first, http.StatusCreated)
	sagaKey := saga.Key(merchantAccount, "POST /v1/orders/{id}/refunds", key, 1)
	want := api.Refund{
		ID: sagaKey, OrderID: refund.OrderID, Amount: 1999, Currency: "EUR", Status: api.RefundStatusSucceeded, Reason: "one came back",
		Provider: "stripe", ProviderReference: refund.ProviderReference, Identifier: sagaKey.String() + "_refund",
		CreatedAt: refund.CreatedAt, UpdatedAt: refund.UpdatedAt,
	}
	if diff := cmp.Diff(want, refund); diff != "" || !strings.HasPrefix(refund.ProviderReference, "re_") || refund.CreatedAt.IsZero() {
		t.Errorf("refund (-want +got):\n%s", diff)
	}
	at := location + "/refunds/" + refund.ID.String()
	if got := first.header.Get("Location"); got != at {
		t.Errorf("Location is %q, want %q", got, at)
	}
	if got := s.get(t, at); got.body != first.body {
		t.Errorf("GET gives\n%s\nPOST gave\n%s", got.body, first.body)
	}
	s.checkMoney(t, location, api.PaymentStatusPartiallyRefunded, 3998, 1999)
	s.ask(t, location+"/refunds", `{"amount":2000}`).checkRefusal(t, http.StatusUnprocessableEntity, "amount-too-large", "pointer /amount")
	rest := decoded[api.Refund](t, s.ask(t, location+"/refunds", `{}`), http.StatusCreated)
	if rest.Amount != 1999 {
		t.Errorf("the rest is %d", rest.Amount)
	}
	s.checkMoney(t, location, api.PaymentStatusRefunded, 3998, 3998)
	s.ask(t, location+"/refunds", `{}`).checkRefusal(t, http.StatusUnprocessableEntity, "amount-too-large", "pointer /amount")
	before := s.footprint(t)
	sameAnswer(t, first, s.send(t, s.asking(key, location+"/refunds", body)))
	s.send(t, s.asking(key, location+"/refunds", `{"amount":1998,"reason":"one came back"}`)).
		checkRefusal(t, http.StatusUnprocessableEntity, "idempotency-key-reuse", "")
	if diff := cmp.Diff(before, s.footprint(t)); diff != "" {
		t.Errorf("a repeat changed something (-before +after):\n%s", diff)
	}
	list := decoded[api.RefundList](t, s.get(t, location+"/refunds"), http.StatusOK)
	if diff := cmp.Diff([]api.Refund{refund, rest}, list.Data); diff != "" {
		t.Errorf("list (-want +got):\n%s", diff)
	}
}

// A provider that decides later: the refund is pending, and its repeats get that answer.
func TestRefundReceived(t *testing.T) {
	t.Parallel()
	for provider, payment := range map[string]string{
		"adyen":  `{"provider":"adyen","method":"stored_APPROVED"}`,
		"paypal": `{"provider":"paypal","method":"vault_REFUND_PENDING"}`,
		"stripe": `{"provider":"stripe","method":"pm_card_pendingRefund"}`,
	} {
		t.Run(provider, func(t *testing.T) {
			t.Parallel()
			s := newShop(t)
			location := s.place(t, newKeyText(), payingWith(payment)).header.Get("Location")
			r := s.asking(newKeyText(), location+"/refunds", `{"amount":1000}`)
			first := s.send(t, r)
			refund := decoded[api.Refund](t, first, http.StatusAccepted)
			if refund.Status != api.RefundStatusPending || refund.Provider != provider || refund.ProviderReference == "" {
				t.Errorf("refund %+v", refund)
			}
			if got := s.get(t, first.header.Get("Location")); got.body != first.body {
				t.Errorf("GET gives\n%s\nPOST gave\n%s", got.body, first.body)
			}
			sameAnswer(t, first, s.send(t, r))
			s.ask(t, location+"/refunds", `{"amount":2999}`).checkRefusal(t, http.StatusUnprocessableEntity, "amount-too-large", "pointer /amount")
		})
	}
}

// A refund that fails after it was taken on.
func TestRefundFails(t *testing.T) {
	t.Parallel()
	s := newShop(t)
	location := s.place(t, newKeyText(), paidBy("pm_card_refundFail")).header.Get("Location")
	pending := s.ask(t, location+"/refunds", `{}`)
	reference := decoded[api.Refund](t, pending, http.StatusAccepted).ProviderReference
	s.controlRefund(t, reference, "fail")
	s.exec(t, `UPDATE sagas SET next_attempt_at = now() WHERE kind = 'refund'`)
	s.recover(t)
	var refund api.Refund
	eventually(t, "the refund has failed", func() bool {
		refund = decoded[api.Refund](t, s.get(t, pending.header.Get("Location")), http.StatusOK)
		return refund.Status == api.RefundStatusFailed
	})
	if refund.Code == "" {
		t.Errorf("refund %+v", refund)
	}
	if order := s.orderNow(t, location); order.Payment.RefundedAmount != 0 || order.Payment.Status != api.PaymentStatusCaptured {
		t.Errorf("payment %+v", order.Payment)
	}
}

// Many refunds at once never give back more than was taken.
func TestRefundsAtOnce(t *testing.T) {
	t.Parallel()
	s := newShop(t)
	location := s.place(t, newKeyText(), theOrder).header.Get("Location")
	requests := make([]request, crowd)
	pending := make([]<-chan answer, crowd)
	for i := range crowd {
		requests[i] = s.asking(newKeyText(), location+"/refunds", `{"amount":300}`)
		pending[i] = s.sending(t, requests[i])
	}
	given := 0
	for i, p := range pending {
		got := receive(t, "an answer", p)
		s.check(t, requests[i], got)
		switch got.status {
		case http.StatusCreated:
			given++
		case http.StatusConflict:
			got.problem(t, http.StatusConflict, "order-busy")
		default:
			got.problem(t, http.StatusUnprocessableEntity, "amount-too-large")
		}
	}
	if charge := s.onlyCharge(t); charge.Refunded != int64(given)*300 || charge.Refunded > charge.Captured || given == 0 {
		t.Errorf("%d refunds, charge %+v", given, charge)
	}
	s.checkMoney(t, location, api.PaymentStatusPartiallyRefunded, 3998, int64(given)*300)
}

// A refund is no order, and the other way round: nothing is found under the other's address.
func TestRefundIsNoOrder(t *testing.T) {
	t.Parallel()
	s := newShop(t)
	location := s.place(t, newKeyText(), theOrder).header.Get("Location")
	other := s.place(t, newKeyText(), theOrder).header.Get("Location")
	refund := decoded[api.Refund](t, s.ask(t, location+"/refunds", `{"amount":100}`), http.StatusCreated)
	orderID := strings.TrimPrefix(location, "/v1/orders/")
	for _, path := range []string{
		"/v1/orders/" + refund.ID.String(), "/v1/orders/" + refund.ID.String() + "/saga", "/v1/orders/" + refund.ID.String() + "/refunds",
		location + "/refunds/" + orderID, other + "/refunds/" + refund.ID.String(), location + "/refunds/4711",
	} {
		s.get(t, path).checkRefusal(t, http.StatusNotFound, "not-found", "")
	}
	for _, path := range []string{"/continue", "/capture", "/cancel", "/refunds"} {
		s.ask(t, "/v1/orders/"+refund.ID.String()+path, `{}`).checkRefusal(t, http.StatusNotFound, "not-found", "")
	}
}
