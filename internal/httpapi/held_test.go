package httpapi_test

import (
	"net/http"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"paysaga/api"
	"paysaga/providers/sandbox"
)

// hold places an order whose money is held, and gives its address.
func (s *shop) hold(t *testing.T, provider, method string) string {
	t.Helper()
	placed := s.place(t, newKeyText(), heldBy(provider, method))
	order := placed.order(t, http.StatusCreated)
	if order.Status != api.OrderStatusConfirmed || order.Payment.Status != api.PaymentStatusAuthorized ||
		order.Payment.Capture != api.CaptureModeManual || order.Payment.CapturedAmount != 0 || order.Payment.CapturableAmount != 3998 ||
		order.DeadlineAt.IsZero() {
		t.Fatalf("order %+v", order)
	}
	return placed.header.Get("Location")
}

// checkMoney holds an order's view of its money against the provider's.
func (s *shop) checkMoney(t *testing.T, location string, status api.PaymentStatus, captured, refunded int64) {
	t.Helper()
	order, charge := s.orderNow(t, location), s.onlyCharge(t)
	if p := order.Payment; p.Status != status || p.CapturedAmount != captured || p.RefundedAmount != refunded {
		t.Errorf("payment is %s with %d captured and %d refunded, want %s, %d, %d", p.Status, p.CapturedAmount, p.RefundedAmount, status, captured, refunded)
	}
	if charge.Captured != captured || charge.Refunded != refunded {
		t.Errorf("at the provider: %+v", charge)
	}
}

func TestCapture(t *testing.T) {
	t.Parallel()
	s := newShop(t)
	location := s.hold(t, "stripe", "pm_card_visa")
	if got := s.stock(t, "TSHIRT-M"); got != "2 of 100" {
		t.Errorf("stock: %s", got)
	}
	s.ask(t, location+"/capture", `{"amount":3999}`).checkRefusal(t, http.StatusUnprocessableEntity, "amount-too-large", "pointer /amount")
	s.ask(t, location+"/refunds", `{}`).checkRefusal(t, http.StatusConflict, "cancel-instead", "")
	key := newKeyText()
	first := s.send(t, s.asking(key, location+"/capture", `{}`))
	order := first.order(t, http.StatusOK)
	if order.Status != api.OrderStatusConfirmed || order.Payment.Status != api.PaymentStatusCaptured || !order.DeadlineAt.IsZero() ||
		strings.Contains(first.body, "capturable_amount") {
		t.Errorf("order %+v", order)
	}
	if first.body != s.get(t, location).body {
		t.Error("the answer is not the order")
	}
	before := s.footprint(t)
	sameAnswer(t, first, s.send(t, s.asking(key, location+"/capture", `{ "final" : true }`)))
	if diff := cmp.Diff(before, s.footprint(t)); diff != "" {
		t.Errorf("a replay changed something (-before +after):\n%s", diff)
	}
	s.send(t, s.asking(key, location+"/capture", `{"amount":3998}`)).checkRefusal(t, http.StatusUnprocessableEntity, "idempotency-key-reuse", "")
	s.send(t, s.asking(key, location+"/capture", `{"final":false}`)).checkRefusal(t, http.StatusUnprocessableEntity, "idempotency-key-reuse", "")
	s.ask(t, location+"/capture", `{}`).checkRefusal(t, http.StatusConflict, "nothing-to-capture", "")
	s.ask(t, location+"/cancel", `{}`).checkRefusal(t, http.StatusConflict, "refund-instead", "")
	s.checkMoney(t, location, api.PaymentStatusCaptured, 3998, 0)
	if got := s.stock(t, "TSHIRT-M"); got != "0 of 98" {
		t.Errorf("stock: %s", got)
	}
}

// A part is taken, and what is left of the hold is let go.
func TestCapturePart(t *testing.T) {
	t.Parallel()
	s := newShop(t)
	location := s.hold(t, "stripe", "pm_card_visa")
	s.ask(t, location+"/capture", `{"amount":1000,"final":false}`).
		checkRefusal(t, http.StatusUnprocessableEntity, "one-capture", "pointer /final") // Stripe takes one capture
	s.ask(t, location+"/capture", `{"amount":1999}`).order(t, http.StatusOK)
	s.checkMoney(t, location, api.PaymentStatusCaptured, 1999, 0)
	if left := s.onlyCharge(t).Authorized; left != 0 {
		t.Errorf("%d are still held", left)
	}
}

// Several captures of one hold, where the provider can.
func TestCaptureInParts(t *testing.T) {
	t.Parallel()
	s := newShop(t)
	location := s.hold(t, "paypal", "vault_COMPLETED")
	first := s.ask(t, location+"/capture", `{"amount":1000,"final":false}`).order(t, http.StatusOK)
	if first.Payment.CapturedAmount != 1000 || first.Payment.CapturableAmount != 2998 || first.DeadlineAt.IsZero() {
		t.Errorf("order %+v", first)
	}
	s.ask(t, location+"/refunds", `{}`).checkRefusal(t, http.StatusConflict, "cancel-instead", "")
	s.ask(t, location+"/capture", `{"amount":2999}`).checkRefusal(t, http.StatusUnprocessableEntity, "amount-too-large", "pointer /amount")
	s.ask(t, location+"/capture", `{}`).order(t, http.StatusOK)
	s.checkMoney(t, location, api.PaymentStatusCaptured, 3998, 0)
}

// A part is taken, more is held: a cancel completes the order with the part, and then it can be refunded.
func TestCancelOfARest(t *testing.T) {
	t.Parallel()
	s := newShop(t)
	location := s.hold(t, "paypal", "vault_COMPLETED")
	s.ask(t, location+"/capture", `{"amount":1000,"final":false}`).order(t, http.StatusOK)
	s.ask(t, location+"/refunds", `{}`).checkRefusal(t, http.StatusConflict, "cancel-instead", "")
	key := newKeyText()
	first := s.send(t, s.asking(key, location+"/cancel", `{}`))
	if order := first.order(t, http.StatusOK); order.Status != api.OrderStatusConfirmed || order.Payment.CapturableAmount != 0 || !order.DeadlineAt.IsZero() {
		t.Errorf("order %+v", order)
	}
	sameAnswer(t, first, s.send(t, s.asking(key, location+"/cancel", `{}`)))
	s.checkMoney(t, location, api.PaymentStatusCaptured, 1000, 0)
	if got := s.stock(t, "TSHIRT-M"); got != "0 of 98" {
		t.Errorf("stock: %s", got)
	}
	s.ask(t, location+"/capture", `{}`).checkRefusal(t, http.StatusConflict, "nothing-to-capture", "")
	s.ask(t, location+"/cancel", `{}`).checkRefusal(t, http.StatusConflict, "refund-instead", "")
	decoded[api.Refund](t, s.ask(t, location+"/refunds", `{}`), http.StatusCreated)
}

// Adyen takes every capture on and tells later how it ended.
func TestCaptureReceived(t *testing.T) {
	t.Parallel()
	s := newShop(t)
	location := s.hold(t, "adyen", "stored_APPROVED")
	key := newKeyText()
	first := s.send(t, s.asking(key, location+"/capture", `{}`))
	first.order(t, http.StatusAccepted)
	if got := first.header.Get("Location"); got != location {
		t.Errorf("Location is %q", got)
	}
	sameAnswer(t, first, s.send(t, s.asking(key, location+"/capture", `{}`)))
	s.ask(t, location+"/capture", `{}`).checkRefusal(t, http.StatusConflict, "order-busy", "")
}

// While a capture runs, other requests about its order are told to come back, and its own repeats as well.
func TestOrderIsBusy(t *testing.T) {
	t.Parallel()
	s := newShop(t)
	location := s.hold(t, "stripe", "pm_card_visa")
	held := s.holdCalls(t, "/capture")
	r := s.asking(newKeyText(), location+"/capture", `{}`)
	first := s.sending(t, r)
	receive(t, "the capture at the provider", held.arrived)
	s.send(t, r).checkRefusal(t, http.StatusConflict, "request-in-progress", "")
	before := s.footprint(t)
	key := newKeyText()
	s.send(t, s.asking(key, location+"/cancel", "")).checkRefusal(t, http.StatusConflict, "order-busy", "")
	if diff := cmp.Diff(before, s.footprint(t)); diff != "" {
		t.Errorf("it changed something (-before +after):\n%s", diff)
	}
	held.release()
	answered := receive(t, "the answer", first)
	s.check(t, r, answered)
	answered.order(t, http.StatusOK)
	s.send(t, s.asking(key, location+"/cancel", "")).checkRefusal(t, http.StatusConflict, "refund-instead", "") // its key is free
}

// A server that died with a request: its repeat finishes it.
func TestRepeatTakesACaptureOver(t *testing.T) {
	t.Parallel()
	s := newShop(t)
	location := s.hold(t, "stripe", "pm_card_visa")
	held := s.holdCalls(t, "/capture")
	r := s.asking(newKeyText(), location+"/capture", `{"amount":1999}`)
	first := s.sending(t, r)
	receive(t, "the capture at the provider", held.arrived)
	s.exec(t, `UPDATE sagas SET locked_until = now(), next_attempt_at = now()`)
	s.exec(t, `UPDATE idempotency_keys SET locked_until = now() WHERE status = 'PROCESSING'`)
	s.gate.open()
	second := s.send(t, r)
	second.order(t, http.StatusOK)
	held.release()
	late := receive(t, "the first answer", first)
	s.check(t, r, late)
	sameAnswer(t, second, late)
	s.checkMoney(t, location, api.PaymentStatusCaptured, 1999, 0)
}

// The outcome of a capture is not known: 202, no cancel meanwhile, and recovery finds out.
func TestCaptureOutcomeUnknown(t *testing.T) {
	t.Parallel()
	s := newShop(t)
	location := s.hold(t, "stripe", "pm_card_visa")
	noError(t, s.sandbox.AddFault(sandbox.Fault{Provider: "stripe", Call: sandbox.CallAny, Kind: sandbox.FaultErrorAfter}))
	key := newKeyText()
	first := s.send(t, s.asking(key, location+"/capture", `{}`))
	first.order(t, http.StatusAccepted)
	s.ask(t, location+"/cancel", `{}`).checkRefusal(t, http.StatusConflict, "order-busy", "")
	s.sandbox.ClearFaults()
	s.recover(t)
	eventually(t, "the money is taken", func() bool { return s.orderNow(t, location).Payment.Status == api.PaymentStatusCaptured })
	s.checkMoney(t, location, api.PaymentStatusCaptured, 3998, 0)
	sameAnswer(t, first, s.send(t, s.asking(key, location+"/capture", `{}`)))
}

func TestCancel(t *testing.T) {
	t.Parallel()
	for name, body := range map[string]string{"empty object": "{}", "no body": ""} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := newShop(t)
			location := s.hold(t, "stripe", "pm_card_visa")
			r := s.asking(newKeyText(), location+"/cancel", body)
			if body == "" {
				r.header.Del("Content-Type")
			}
			first := s.send(t, r)
			order := first.order(t, http.StatusOK)
			if order.Status != api.OrderStatusCanceled || order.Payment.Status != api.PaymentStatusVoided || !order.DeadlineAt.IsZero() {
				t.Errorf("order %+v", order)
			}
			before := s.footprint(t)
			r.body = "{}"
			r.header.Set("Content-Type", "application/json")
			sameAnswer(t, first, s.send(t, r))
			if diff := cmp.Diff(before, s.footprint(t)); diff != "" {
				t.Errorf("a replay changed something (-before +after):\n%s", diff)
			}
			if again := s.ask(t, location+"/cancel", "{}").order(t, http.StatusOK); again.Status != api.OrderStatusCanceled {
				t.Errorf("a second cancel: %+v", again)
			}
			s.ask(t, location+"/capture", `{}`).checkRefusal(t, http.StatusConflict, "order-over", "")
			s.ask(t, location+"/refunds", `{}`).checkRefusal(t, http.StatusConflict, "order-over", "")
			s.checkNothingKept(t, 1)
		})
	}
}

// A cancel of an order whose customer has not acted yet closes the payment.
func TestCancelWhileTheCustomerIsAwaited(t *testing.T) {
	t.Parallel()
	s := newShop(t)
	location := s.place(t, newKeyText(), paidBy("pm_card_authenticationRequired")).header.Get("Location")
	if order := s.ask(t, location+"/cancel", `{}`).order(t, http.StatusOK); order.Status != api.OrderStatusCanceled || order.NextAction != nil {
		t.Errorf("order %+v", order)
	}
	s.checkNothingKept(t, 1)
}

// Adyen tells by notice only whether a cancel came about.
func TestCancelReceived(t *testing.T) {
	t.Parallel()
	s := newShop(t)
	location := s.hold(t, "adyen", "stored_APPROVED")
	canceling := s.ask(t, location+"/cancel", "")
	if order := canceling.order(t, http.StatusAccepted); order.Status != api.OrderStatusProcessing {
		t.Errorf("order is %s", order.Status)
	}
	if got := canceling.header.Get("Location"); got != location {
		t.Errorf("Location is %q", got)
	}
}

// An order that a person must look at takes no requests.
func TestOrderInReview(t *testing.T) {
	t.Parallel()
	s := newShop(t)
	location := s.hold(t, "stripe", "pm_card_visa")
	s.exec(t, `UPDATE sagas SET state = 'needs_review', next_attempt_at = NULL, deadline_at = NULL`)
	for _, path := range []string{"/continue", "/capture", "/cancel", "/refunds"} {
		s.ask(t, location+path, `{}`).checkRefusal(t, http.StatusConflict, "order-in-review", "")
	}
}
