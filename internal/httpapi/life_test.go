package httpapi_test

import (
	"bufio"
	"context"
	"fmt"
	"net"
	"net/http"
	"testing"

	"paysaga/api"
)

// A client that hangs up does not stop its order.
func TestClientHangsUp(t *testing.T) {
	t.Parallel()
	s := newShop(t)
	held := s.holdCharges(t)
	key := newKeyText()
	ctx, hangUp := context.WithCancel(t.Context())
	gone := make(chan error, 1)
	go func() {
		_, err := s.try(ctx, s.placing(key, theOrder))
		gone <- err
	}()
	receive(t, "the charge at the provider", held.arrived)
	hangUp()
	if err := receive(t, "the client's error", gone); err == nil {
		t.Fatal("the client was answered")
	}
	held.release()
	eventually(t, "order is confirmed", func() bool {
		list := decoded[api.OrderList](t, s.get(t, "/v1/orders"), http.StatusOK)
		return len(list.Data) == 1 && list.Data[0].Status == api.OrderStatusConfirmed
	})
	again := s.place(t, key, theOrder)
	again.order(t, http.StatusCreated)
	if again.header.Get("Idempotency-Replayed") != "true" {
		t.Error("the answer was not kept")
	}
	if got := s.onlyCharge(t); got.Calls != 1 {
		t.Errorf("charge %+v", got)
	}
	if s.log.Contains(`"level":"ERROR"`) {
		t.Error("a client that hangs up is logged as an error of the server")
	}
}

// A client may close its half of the connection once it has sent everything; it still waits for its answer.
func TestClientThatSendsNoMore(t *testing.T) {
	t.Parallel()
	s := newShop(t)
	for name, test := range map[string]struct {
		apiKey string
		status int
	}{"an order": {s.merchant, http.StatusCreated}, "a bad API key": {"paysaga_unknown", http.StatusUnauthorized}} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			connection, err := (&net.Dialer{}).DialContext(t.Context(), "tcp", s.api.Listener.Addr().String())
			if err != nil {
				t.Fatal(err)
			}
			defer connection.Close()
			_, err = fmt.Fprintf(connection, "POST /v1/orders HTTP/1.1\r\nHost: shop\r\nAuthorization: Bearer %s\r\nIdempotency-Key: %s\r\n"+
				"Content-Type: application/json\r\nContent-Length: %d\r\n\r\n%s", test.apiKey, newKeyText(), len(theOrder), theOrder)
			if err != nil {
				t.Fatal(err)
			}
			half, ok := connection.(*net.TCPConn)
			if !ok || half.CloseWrite() != nil {
				t.Fatal("the connection cannot be closed half")
			}
			answer, err := http.ReadResponse(bufio.NewReader(connection), nil)
			if err != nil {
				t.Fatal(err)
			}
			defer answer.Body.Close()
			if answer.StatusCode != test.status {
				t.Errorf("status %d, want %d", answer.StatusCode, test.status)
			}
		})
	}
}

// A server that stops lets its orders finish, and takes no more.
func TestDrainWaits(t *testing.T) {
	t.Parallel()
	s := newShop(t)
	held := s.holdCharges(t)
	r := s.placing(newKeyText(), theOrder)
	first := s.sending(t, r)
	receive(t, "the charge at the provider", held.arrived)
	drained := make(chan struct{})
	go func() { s.runner.Drain(context.WithoutCancel(t.Context())); close(drained) }()
	eventually(t, "further orders are turned away", func() bool {
		return s.place(t, newKeyText(), theOrder).status == http.StatusServiceUnavailable
	})
	select {
	case <-drained:
		t.Fatal("the drain did not wait for the order")
	default:
	}
	held.release()
	receive(t, "the end of the drain", drained)
	answered := receive(t, "the answer", first)
	s.check(t, r, answered)
	answered.order(t, http.StatusCreated)
}

// When it must stop at once, it hands its lease back, and another server goes on at once with the payment that was made.
func TestDrainHandsBack(t *testing.T) {
	t.Parallel()
	s := newShop(t)
	held := s.holdCharges(t)
	r := s.placing(newKeyText(), theOrder)
	first := s.sending(t, r)
	receive(t, "the charge at the provider", held.arrived)
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	s.runner.Drain(ended)
	answered := receive(t, "the answer", first)
	s.check(t, r, answered)
	answered.problem(t, http.StatusServiceUnavailable, "unavailable")
	if !query[bool](t, s, `SELECT bool_and(locked_until <= now() AND next_attempt_at <= now()) FROM sagas`) {
		t.Error("the lease was not handed back")
	}
	s.gate.open()
	s.api = s.serve(t, s.newRunner(t)) // another server
	finished := s.send(t, r)
	finished.order(t, http.StatusCreated)
	if got := s.onlyCharge(t); got.Calls != 2 || got.Captured != 3998 {
		t.Errorf("charge %+v", got)
	}
}

// A customer who must pass 3-D Secure: the order waits for the outcome and then goes its way. The answer that was given under
// the key stays what it was.
func TestCustomerActs(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		act     func(t *testing.T, s *shop, paymentID string)
		status  api.OrderStatus
		payment api.PaymentStatus
		stripe  string
		stock   string
	}{
		"approves": {
			func(t *testing.T, s *shop, paymentID string) { t.Helper(); s.control(t, paymentID, "approve") },
			api.OrderStatusConfirmed, api.PaymentStatusCaptured, "succeeded", "0 of 98",
		},
		"refuses": {
			func(t *testing.T, s *shop, paymentID string) { t.Helper(); s.control(t, paymentID, "refuse") },
			api.OrderStatusFailed, api.PaymentStatusDeclined, "canceled", "0 of 100",
		},
		"never comes": {
			func(t *testing.T, s *shop, _ string) {
				t.Helper()
				s.exec(t, `UPDATE sagas SET deadline_at = now() - interval '1 second'`)
			},
			api.OrderStatusCanceled, api.PaymentStatusVoided, "canceled", "0 of 100",
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := newShop(t)
			key, body := newKeyText(), paidBy("pm_card_authenticationRequired")
			placed := s.place(t, key, body)
			waiting := placed.order(t, http.StatusAccepted)
			checkWaiting(t, s, waiting)
			c.act(t, s, waiting.Payment.ProviderReference)
			s.recover(t)
			s.exec(t, `UPDATE sagas SET next_attempt_at = now()`)
			location := placed.header.Get("Location")
			eventually(t, "order is "+string(c.status), func() bool { return s.orderNow(t, location).Status == c.status })
			order := s.orderNow(t, location)
			if order.Payment.Status != c.payment || order.NextAction != nil {
				t.Errorf("payment is %s, next action %v", order.Payment.Status, order.NextAction)
			}
			charge := s.onlyCharge(t)
			taken := charge.Captured - charge.Refunded
			if charge.Status != c.stripe || taken != order.Payment.CapturedAmount {
				t.Errorf("charge %+v, order %+v", charge, order.Payment)
			}
			if got := s.stock(t, "TSHIRT-M"); got != c.stock {
				t.Errorf("stock: %s", got)
			}
			sameAnswer(t, placed, s.place(t, key, body))
		})
	}
}

func checkWaiting(t *testing.T, s *shop, order api.Order) {
	t.Helper()
	if order.Status != api.OrderStatusAwaiting || order.NextAction == nil || order.NextAction.Type != api.NextActionTypeClientSecret ||
		order.NextAction.ClientSecret == "" {
		t.Fatalf("order %+v", order)
	}
	if got := s.stock(t, "TSHIRT-M"); got != "2 of 100" {
		t.Errorf("stock: %s", got)
	}
	sealed := query[[]byte](t, s, `SELECT next_action FROM orders`)
	if len(sealed) == 0 || containsText(sealed, order.NextAction.ClientSecret) {
		t.Error("the client secret is not sealed in the database")
	}
}
