package main

import (
	"errors"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"paysaga/api"
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
	keys, methods, skus, twice := map[string]bool{}, map[string]int{}, map[string]int64{}, 0
	for _, p := range plan {
		keys[p.key] = true
		methods[p.order.Payment.Method]++
		if p.twice {
			twice++
		}
		var sum int64
		for _, item := range p.order.Items {
			skus[item.SKU] += item.Quantity
			sum += item.Quantity * item.UnitAmount
		}
		if sum != p.order.Amount {
			t.Errorf("order %s is about %d, its lines add up to %d", p.key, p.order.Amount, sum)
		}
	}
	if len(keys) != len(plan) {
		t.Errorf("%d orders have %d keys", len(plan), len(keys))
	}
	for name, number := range map[string]int{"declines": methods[declinedCard], "bank debits": methods["pm_sepaDebit"], "double clicks": twice} {
		if number == 0 {
			t.Errorf("the plan has no %s", name)
		}
	}
	if got, want := limitedStock(plan), skus[limited]/2; got != want || want == 0 {
		t.Errorf("of what runs out %d are in stock; %d of %d expected", got, want, skus[limited])
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
		{"in progress", reply{status: http.StatusConflict, retryAfter: 2 * time.Second}, nil, 1, 2 * time.Second, true},
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

func TestShopNoticesASecondAnswer(t *testing.T) {
	t.Parallel()
	s := newShop("")
	s.keep("key", reply{status: http.StatusCreated, body: []byte("a")})
	s.keep("key", reply{status: http.StatusCreated, body: []byte("a"), replayed: true})
	if _, contradicted := s.told(); len(contradicted) != 0 {
		t.Errorf("a true repeat is taken for a contradiction: %q", contradicted)
	}
	s.keep("key", reply{status: http.StatusCreated, body: []byte("b")})
	if _, contradicted := s.told(); len(contradicted) != 1 {
		t.Errorf("got %q, want one contradiction", contradicted)
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

func TestAddressFinder(t *testing.T) {
	t.Parallel()
	var log recorder
	finder := &addressFinder{next: &log, found: make(chan string, 1)}
	parts := []string{
		"panic: no JSON\n{\"msg\":\"star", "ting\",\"url\":\"http://wrong\"}\n{\"msg\":\"listening\",\"ur",
		"l\":\"http://127.0.0.1:1\"}\n{\"msg\":\"listening\",", "\"url\":\"http://late\"}\n",
	}
	for _, part := range parts {
		if _, err := finder.Write([]byte(part)); err != nil {
			t.Fatal(err)
		}
	}
	if got, want := <-finder.found, "http://127.0.0.1:1"; got != want {
		t.Errorf("found %q, want %q", got, want)
	}
	if diff := cmp.Diff(strings.Join(parts, ""), string(log)); diff != "" {
		t.Errorf("the log was not passed on as it came (-want +got):\n%s", diff)
	}
}

// recorder keeps what is written.
type recorder []byte

func (r *recorder) Write(p []byte) (int, error) {
	*r = append(*r, p...)
	return len(p), nil
}
