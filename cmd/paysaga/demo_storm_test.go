package main

import (
	"errors"
	"net/http"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/uuid"

	"paysaga/api"
	"paysaga/providers/sandbox"
)

func TestPlanIsAFunctionOfTheSeed(t *testing.T) {
	t.Parallel()
	const orders = 500
	plan := planOrders(7, orders)
	if diff := cmp.Diff(plan, planOrders(7, orders), cmp.AllowUnexported(plannedOrder{})); diff != "" {
		t.Errorf("the same seed plans otherwise the second time:\n%s", diff)
	}
	if cmp.Equal(plan, planOrders(8, orders), cmp.AllowUnexported(plannedOrder{})) {
		t.Error("another seed plans the same")
	}
}

func TestPlanHasWhatTheStormIsAbout(t *testing.T) {
	t.Parallel()
	plan := planOrders(1, 500)
	keys, skus, found := map[string]bool{}, map[string]int64{}, map[string]int{}
	for _, p := range plan {
		keys[p.key] = true
		payment := p.order.Payment
		found[payment.Provider+" "+payment.Method]++
		found[payment.Provider+" then "+string(p.then)]++
		if p.twice {
			found["twice"]++
		}
		for _, item := range p.order.Items {
			skus[item.SKU] += item.Quantity
		}
	}
	if len(keys) != len(plan) {
		t.Errorf("%d orders have %d keys", len(plan), len(keys))
	}
	want := func(name string) {
		if found[name] == 0 {
			t.Errorf("the plan has no %q", name)
		}
	}
	want("twice")
	for _, p := range testProviders {
		for _, what := range []string{p.good, p.declined, p.slow, "then capture", "then cancel", "then refund"} {
			want(p.name + " " + what)
		}
	}
	if got, want := limitedStock(plan), skus[limited]/2; got != want || want == 0 {
		t.Errorf("of what runs out %d are in stock; %d of %d expected", got, want, skus[limited])
	}
}

func TestPlannedOrdersAreSound(t *testing.T) {
	t.Parallel()
	for _, p := range planOrders(1, 500) {
		if held := p.order.Payment.Capture == api.CaptureModeManual; held != (p.then == captureHold || p.then == cancelHold) {
			t.Errorf("order %s: held %t, then %q", p.key, held, p.then)
		}
		var sum int64
		for _, item := range p.order.Items {
			sum += item.Quantity * item.UnitAmount
		}
		if sum != p.order.Amount {
			t.Errorf("order %s is about %d, its lines add up to %d", p.key, p.order.Amount, sum)
		}
	}
}

// The sandbox takes a bounded number of faults, and every call that moves money meets some at every provider.
func TestStormFaults(t *testing.T) {
	t.Parallel()
	box := sandbox.New(sandbox.Options{})
	t.Cleanup(box.Close)
	for _, fault := range sandbox.BadDay(1) {
		if err := box.AddFault(fault); err != nil {
			t.Error(err)
		}
		// After it the call may not be sent again, nothing is announced of it, and nobody can be asked.
		if fault.Provider == testProviders[1].name && fault.Kind == sandbox.FaultErrorBefore {
			t.Error("Adyen gets a fault that only time ends")
		}
	}
}

func TestRepeatAfter(t *testing.T) {
	t.Parallel()
	lost := errors.New("connection reset")
	for _, test := range []struct {
		name  string
		reply reply
		err   error
		sends int
		pause time.Duration
		again bool
	}{
		{"confirmed", reply{status: http.StatusCreated}, nil, 1, 0, false},
		{"on its way", reply{status: http.StatusAccepted}, nil, 1, 0, false},
		{"declined", reply{status: http.StatusPaymentRequired}, nil, 1, 0, false},
		{"out of stock", reply{status: http.StatusUnprocessableEntity}, nil, 1, 0, false},
		{"no API key", reply{status: http.StatusUnauthorized}, nil, 1, 0, false},
		{"lost answer", reply{}, lost, 1, 50 * time.Millisecond, true},
		{"lost answer again", reply{}, lost, 3, 200 * time.Millisecond, true},
		{"lost answer for long", reply{}, lost, 1000, 5 * time.Second, true},
		{"in progress", problemReply(409, "request-in-progress", 2*time.Second), nil, 1, 2 * time.Second, true},
		{"order busy", problemReply(409, "order-busy", time.Second), nil, 1, time.Second, true},
		{"a conflict that stays", problemReply(409, "refund-instead", 0), nil, 1, 0, false},
		{"rate limited", reply{status: http.StatusTooManyRequests, retryAfter: time.Second}, nil, 1, time.Second, true},
		{"unavailable, for very long", reply{status: http.StatusServiceUnavailable, retryAfter: time.Hour}, nil, 1, 5 * time.Second, true},
		{"server error", reply{status: http.StatusInternalServerError}, nil, 1, 50 * time.Millisecond, true},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			pause, again := repeatAfter(test.reply, test.err, test.sends)
			if pause != test.pause || again != test.again {
				t.Errorf("got %s, %t; want %s, %t", pause, again, test.pause, test.again)
			}
		})
	}
}

func problemReply(status int, slug string, retryAfter time.Duration) reply {
	return reply{status: status, body: []byte(`{"type":"/problems/` + slug + `"}`), retryAfter: retryAfter}
}

func TestReplyTellsItsOrder(t *testing.T) {
	t.Parallel()
	const id = "5f0c1a9e-7d5b-5c3e-9b1a-0f6d2c8e4a71"
	for name, test := range map[string]struct {
		reply reply
		want  string
	}{
		"an order":             {reply{status: http.StatusCreated, body: []byte(`{"id":"` + id + `"}`)}, id},
		"a problem of one":     {reply{status: http.StatusPaymentRequired, body: []byte(`{"instance":"/v1/orders/` + id + `"}`)}, id},
		"a problem of refunds": {reply{status: http.StatusUnprocessableEntity, body: []byte(`{"instance":"/v1/orders/` + id + `/refunds/x"}`)}, id},
		"a problem of none":    {reply{status: http.StatusConflict, body: []byte(`{}`)}, uuid.Nil.String()},
		"no answer":            {reply{}, uuid.Nil.String()},
	} {
		if got := test.reply.orderID().String(); got != test.want {
			t.Errorf("%s: got %s, want %s", name, got, test.want)
		}
	}
}

func TestShopNoticesASecondAnswer(t *testing.T) {
	t.Parallel()
	for _, path := range []string{ordersPath, ordersPath + "/1/refunds"} {
		s := newShop("")
		s.keep(path, "key", reply{status: http.StatusConflict, body: []byte("not yet")})
		s.keep(path, "key", reply{status: http.StatusCreated, body: []byte("a")})
		s.keep(path, "key", reply{status: http.StatusCreated, body: []byte("a"), replayed: true})
		s.keep(path+"/other", "key", reply{status: http.StatusCreated, body: []byte("of another path")})
		if _, _, contradicted := s.told(); len(contradicted) != 0 {
			t.Errorf("%s: a true repeat is taken for a contradiction: %q", path, contradicted)
		}
		s.keep(path, "key", reply{status: http.StatusCreated, body: []byte("b")})
		if _, _, contradicted := s.told(); len(contradicted) != 1 {
			t.Errorf("%s: got %q, want one contradiction", path, contradicted)
		}
	}
}

func TestTellParts(t *testing.T) {
	t.Parallel()
	parts := make([]part, len(testProviders))
	for i, p := range testProviders {
		parts[i].provider, parts[i].CameBack = p, "201"
	}
	parts[1].CameBack = "202"
	if got, want := tellParts(parts), "stripe, paypal  201\nadyen           202"; got != want {
		t.Errorf("got\n%s\nwant\n%s", got, want)
	}
	parts[1].CameBack = ""
	if got, want := tellParts(parts), "stripe, paypal  201"; got != want {
		t.Errorf("got\n%s\nwant\n%s", got, want)
	}
}

func TestEnded(t *testing.T) {
	t.Parallel()
	for status, want := range map[api.OrderStatus]bool{
		api.OrderStatusConfirmed: true, api.OrderStatusFailed: true, api.OrderStatusCanceled: true,
		api.OrderStatusProcessing: false, api.OrderStatusAwaiting: false, api.OrderStatusInReview: false,
	} {
		if got := ended(status); got != want {
			t.Errorf("%s: got %t, want %t", status, got, want)
		}
	}
}
