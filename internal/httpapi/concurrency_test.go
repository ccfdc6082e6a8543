package httpapi_test

import (
	"net/http"
	"testing"
	"time"

	"paysaga/api"
	"paysaga/saga"
)

const crowd = 50 // clients at once

// I1, I8: whoever sends the same request at the same time gets the one answer, or is told to come back for it.
func TestSameRequestAtOnce(t *testing.T) {
	t.Parallel()
	s := newShop(t)
	key := newKeyText()
	r := s.placing(key, theOrder)
	pending := make([]<-chan answer, 0, crowd)
	for range crowd {
		pending = append(pending, s.sending(t, r))
	}
	answers := make([]answer, 0, crowd)
	for _, p := range pending {
		answers = append(answers, receive(t, "an answer", p))
	}
	last := s.place(t, key, theOrder)
	s.checkCrowd(t, r, answers, last)
	if got := s.onlyCharge(t); got.Captured != 3998 {
		t.Errorf("charge %+v", got)
	}
}

// I8: the same holds for what is asked of an order, although the first of the crowd changes what the order lets the others do.
func TestSameRequestAboutAnOrderAtOnce(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		place func(*testing.T, *shop) string
		path  string
		body  string
		want  int
	}{
		"capture": {func(t *testing.T, s *shop) string { t.Helper(); return s.hold(t, "stripe", "pm_card_visa") }, "/capture", `{}`, http.StatusOK},
		"cancel":  {func(t *testing.T, s *shop) string { t.Helper(); return s.hold(t, "stripe", "pm_card_visa") }, "/cancel", `{}`, http.StatusOK},
		"refund": {func(t *testing.T, s *shop) string {
			t.Helper()
			placed := s.place(t, newKeyText(), theOrder)
			placed.order(t, http.StatusCreated)
			return placed.header.Get("Location")
		}, "/refunds", `{}`, http.StatusCreated},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := newShop(t)
			r := s.asking(newKeyText(), test.place(t, s)+test.path, test.body)
			pending := make([]<-chan answer, 0, crowd)
			for range crowd {
				pending = append(pending, s.sending(t, r))
			}
			answers := make([]answer, 0, crowd)
			for _, p := range pending {
				answers = append(answers, receive(t, "an answer", p))
			}
			last := s.send(t, r)
			for _, a := range answers {
				if a.status == http.StatusConflict {
					a.problem(t, http.StatusConflict, "request-in-progress")
				} else if a.status != test.want || a.body != last.body {
					t.Errorf("answer %d\n%s\nwant\n%s", a.status, a.body, last.body)
				}
			}
		})
	}
}

// checkCrowd: each answer is the one answer, exactly one is not a replay, or it is the request to come back.
func (s *shop) checkCrowd(t *testing.T, r request, answers []answer, last answer) {
	t.Helper()
	fresh := 0
	for _, a := range answers {
		s.check(t, r, a)
		if a.status == http.StatusConflict {
			a.problem(t, http.StatusConflict, "request-in-progress")
			continue
		}
		if a.status != http.StatusCreated || a.body != last.body {
			t.Errorf("answer %d\n%s\nwant\n%s", a.status, a.body, last.body)
		}
		if a.header.Get("Idempotency-Replayed") == "" {
			fresh++
		}
	}
	if fresh != 1 {
		t.Errorf("%d answers are not replays, want one", fresh)
	}
	if got := s.footprint(t); got.Orders != 1 || got.Sagas != 1 || got.Keys != 1 {
		t.Errorf("footprint %+v", got)
	}
}

// While the first request runs, every repeat is told at once to come back, and another request under its key is refused at
// once.
func TestRepeatsWhileTheFirstRuns(t *testing.T) {
	t.Parallel()
	s := newShop(t)
	held := s.holdCharges(t)
	key := newKeyText()
	first := s.sending(t, s.placing(key, theOrder))
	receive(t, "the charge at the provider", held.arrived)
	for range 3 {
		s.place(t, key, theOrder).problem(t, http.StatusConflict, "request-in-progress")
	}
	s.place(t, key, changed(t, theOrder, "TSHIRT-M", "MUG")).problem(t, http.StatusUnprocessableEntity, "idempotency-key-reuse")
	before := s.footprint(t)
	if before.Sent != 1 || s.stock(t, "TSHIRT-M") != "2 of 100" {
		t.Errorf("footprint %+v", before)
	}
	held.release()
	answered := receive(t, "the first answer", first)
	answered.order(t, http.StatusCreated)
	sameAnswer(t, answered, s.place(t, key, theOrder))
	s.onlyCharge(t)
}

// I9: a request whose lease ran out is taken over by its repeat. The first one, when it comes back, cannot write any more, and
// gives the answer of the second.
func TestRepeatTakesOver(t *testing.T) {
	t.Parallel()
	s := newShop(t)
	held := s.holdCharges(t)
	key := newKeyText()
	r := s.placing(key, theOrder)
	first := s.sending(t, r)
	receive(t, "the charge at the provider", held.arrived)
	s.exec(t, `UPDATE sagas SET locked_until = now(), next_attempt_at = now()`)
	s.exec(t, `UPDATE idempotency_keys SET locked_until = now()`)
	s.gate.open()
	second := s.place(t, key, theOrder)
	second.order(t, http.StatusCreated)
	if second.header.Get("Idempotency-Replayed") != "" {
		t.Error("the repeat that did the work calls itself a replay")
	}
	written := s.writes(t)
	held.release()
	late := receive(t, "the first answer", first)
	s.check(t, r, late)
	sameAnswer(t, second, late)
	if got := s.writes(t); got != written {
		t.Errorf("the holder of a lost lease wrote %d transactions", got-written)
	}
	if got := s.onlyCharge(t); got.Calls != 2 || got.Captured != 3998 {
		t.Errorf("charge %+v", got)
	}
	timeline := decoded[api.Saga](t, s.get(t, second.header.Get("Location")+"/saga"), http.StatusOK)
	if timeline.Attempts != 2 {
		t.Errorf("taken up %d times, want 2", timeline.Attempts)
	}
}

// A server that died after its first commit leaves a lease that runs out; the repeat finishes the order.
func TestRepeatFinishesADeadServersOrder(t *testing.T) {
	t.Parallel()
	s := newShop(t)
	key := newKeyText()
	abandoned := s.abandon(t, key)
	placed := s.place(t, key, theOrder)
	order := placed.order(t, http.StatusCreated)
	if order.ID != abandoned.Key || order.Status != api.OrderStatusConfirmed {
		t.Errorf("order %s is %s, want %s confirmed", order.ID, order.Status, abandoned.Key)
	}
	sameAnswer(t, placed, s.place(t, key, theOrder))
}

// Recovery finishes it as well, without any repeat, and a repeat gets the answer that recovery wrote.
func TestRecoveryFinishesADeadServersOrder(t *testing.T) {
	t.Parallel()
	s := newShop(t)
	key := newKeyText()
	location := "/v1/orders/" + s.abandon(t, key).Key.String()
	s.recover(t)
	eventually(t, "order is confirmed", func() bool {
		return s.orderNow(t, location).Status == api.OrderStatusConfirmed
	})
	again := s.place(t, key, theOrder)
	if again.order(t, http.StatusCreated); again.header.Get("Idempotency-Replayed") != "true" || again.header.Get("Location") != location {
		t.Errorf("the repeat's header: %v", again.header)
	}
	if again.body != s.get(t, location).body {
		t.Error("the answer that recovery wrote is not the order")
	}
}

// abandon does what a server does that dies right after its first commit. Its lease is over at once.
func (s *shop) abandon(t *testing.T, key string) saga.Saga {
	t.Helper()
	s.place(t, newKeyText(), theOrder) // tells the fingerprint
	fingerprint := query[[]byte](t, s, `SELECT fingerprint FROM idempotency_keys LIMIT 1`)
	begun := saga.Saga{
		AccountID: merchantAccount, Key: saga.Key(merchantAccount, ordersEndpoint, key, 1), Generation: 1, State: saga.Started,
		Order: saga.Order{
			Currency: "EUR", Amount: 3998, Items: []saga.Item{{SKU: "TSHIRT-M", Quantity: 2, UnitAmount: 1999}},
			Payment: saga.Payment{Provider: "stripe", Method: "pm_card_visa"},
		},
	}
	begun.Order.ID = begun.Key
	change, err := saga.Advance(begun, saga.Event{Kind: saga.Resume}, s.config.Policy)
	noError(t, err)
	claim := saga.Claim{
		AccountID: merchantAccount, Endpoint: ordersEndpoint, Key: key, Generation: 1, Retention: retention, Fingerprint: [32]byte(fingerprint),
	}
	stored, err := s.store.Begin(t.Context(), claim, change, 0*time.Second)
	noError(t, err)
	return stored
}
