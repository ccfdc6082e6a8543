package main

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/google/uuid"

	"paysaga/api"
)

// result is how a scenario ended.
type result string

const (
	resultHeld     result = "held"
	resultBroken   result = "broken"
	resultNotShown result = "not_shown"
)

// sighting is one scenario as it went.
type sighting struct {
	Name       string   `json:"name"`
	ClientSees string   `json:"client_sees"`
	Result     result   `json:"result"`
	Saw        string   `json:"saw,omitempty"`
	Problems   []string `json:"problems,omitempty"`
	NotShown   string   `json:"not_shown,omitempty"`
	DurationMS int64    `json:"duration_ms"`
}

// sawf adds to what was seen.
func (s *sighting) sawf(format string, args ...any) {
	if s.Saw != "" {
		s.Saw += "; "
	}
	s.Saw += fmt.Sprintf(format, args...)
}

// maxTold bounds how much of an answer a problem quotes.
const maxTold = 200

// wantf notes what does not hold.
func (s *sighting) wantf(holds bool, format string, args ...any) {
	if !holds {
		s.Problems = append(s.Problems, fmt.Sprintf(format, args...))
	}
}

// wantStatus: the answer is one of these, and tells whether it is.
func (s *sighting) wantStatus(what string, got response, statuses ...int) bool {
	ok := slices.Contains(statuses, got.status)
	s.wantf(ok, "%s: %s, not %s", what, got, strings.Trim(strings.ReplaceAll(fmt.Sprint(statuses), " ", " or "), "[]"))
	return ok
}

// wantProblem: the answer is a problem of this type (RFC 9457).
func (s *sighting) wantProblem(what string, got response, slug string, statuses ...int) {
	if !s.wantStatus(what, got, statuses...) {
		return
	}
	s.wantf(got.word() == slug, "%s: problem %q, not %q", what, got.word(), slug)
	kind := got.header.Get("Content-Type")
	s.wantf(strings.HasPrefix(kind, "application/problem+json"), "%s: Content-Type %q, not application/problem+json", what, kind)
	s.wantf(got.problem().Status == got.status, "%s: status %d in the body, %d in the head", what, got.problem().Status, got.status)
}

// wantFirst: the answer says that its request was executed.
func (s *sighting) wantFirst(what string, got response) {
	s.wantf(got.header.Get("Idempotency-Replayed") == "", "%s: marked as a repeat, Idempotency-Replayed %q", what,
		got.header.Get("Idempotency-Replayed"))
}

// storedHeaders come with an answer and are kept with it.
var storedHeaders = []string{"Content-Type", "Location"}

// wantReplay: the second answer is the first one's kept, and says so.
func (s *sighting) wantReplay(what string, first, again response) {
	s.wantf(again.status == first.status, "%s: %s, the first answer was %s", what, again, first)
	at := differsAt(first.body, again.body)
	s.wantf(at < 0, "%s: byte %d of the body differs from the first answer's", what, at)
	for _, name := range storedHeaders {
		s.wantf(again.header.Get(name) == first.header.Get(name), "%s: %s %q, in the first answer %q", what, name,
			again.header.Get(name), first.header.Get(name))
	}
	s.wantf(again.replayed(), "%s: no Idempotency-Replayed: true", what)
}

// differsAt is the place of the first byte that differs, -1 when there is none.
func differsAt(a, b []byte) int {
	for i := range min(len(a), len(b)) {
		if a[i] != b[i] {
			return i
		}
	}
	if len(a) != len(b) {
		return min(len(a), len(b))
	}
	return -1
}

// wantRetryAfter: the header tells when to come back, in whole seconds.
func (s *sighting) wantRetryAfter(what string, got response) {
	s.wantf(got.retryAfter() > 0, "%s: Retry-After %q, not a number of seconds from 1 up", what, got.header.Get("Retry-After"))
}

// wantSilence: nothing of the first request or its answer is in the head or the body.
func (s *sighting) wantSilence(what string, got response, secrets ...string) {
	var text strings.Builder
	_ = got.header.Write(&text) // a Builder takes all
	text.Write(got.body)
	for _, secret := range secrets {
		s.wantf(secret == "" || !strings.Contains(text.String(), secret), "%s: tells %q of the first request", what, secret)
	}
	s.wantf(!got.replayed(), "%s: marked as a repeat", what)
}

// wantOrder: 201 with an order, its address in Location.
func (s *sighting) wantOrder(what string, got response) bool {
	if !s.wantStatus(what, got, http.StatusCreated) {
		return false
	}
	s.wantf(got.orderID() != "", "%s: no order in the answer: %s", what, got.body[:min(len(got.body), maxTold)])
	want := ordersPath + "/" + got.orderID()
	s.wantf(strings.HasSuffix(got.header.Get("Location"), want), "%s: Location %q, not %s", what, got.header.Get("Location"), want)
	return got.orderID() != ""
}

// wantAnother: two orders are not the same.
func (s *sighting) wantAnother(what string, first, second response) {
	s.wantf(first.orderID() != second.orderID(), "%s: the same order %s as before", what, first.orderID())
}

// The run's keys, goods and orders.

// key names a scenario's intent. It is this run's alone.
func (r *contractRun) key(name string) string { return "contract-" + r.id + "-" + name }

func (r *contractRun) sku() string { return "CONTRACT-" + strings.ToUpper(r.id) }

// Stripe's test payment methods, which the sandbox knows as well.
const (
	goodMethod     = "pm_card_visa"
	otherMethod    = "pm_card_mastercard"
	declinedMethod = "pm_card_visa_chargeDeclinedInsufficientFunds"
)

// order is one of so many pieces, with a customer and metadata that tell it from every other.
func (r *contractRun) order(name string, quantity int64) api.OrderRequest {
	order := newOrder(api.PaymentRequest{Provider: testProviders[0].name, Method: goodMethod},
		api.Item{SKU: r.sku(), Quantity: quantity, UnitAmount: shirtPrice})
	order.Customer = &api.Customer{Reference: "customer-" + r.id + "-" + name}
	order.Metadata = map[string]string{"scenario": "metadata-" + r.id + "-" + name}
	return order
}

// tells are the words of an order and its answer that another request must not be told.
func tells(order api.OrderRequest, answer response) []string {
	return []string{
		answer.orderID(), answer.order().Payment.ProviderReference, order.Customer.Reference, order.Metadata["scenario"],
	}
}

// wantMoney: as much was taken for an order, once.
func (r *contractRun) wantMoney(ctx context.Context, s *sighting, id string, amount int64) error {
	var order api.Order
	if err := r.shop.read(ctx, ordersPath+"/"+id, &order); err != nil {
		return err
	}
	s.wantf(order.Payment.CapturedAmount == amount, "order %s has %d captured, not %d", id, order.Payment.CapturedAmount, amount)
	if r.sandbox == nil {
		return nil
	}
	charges, err := r.sandbox.chargesOf(ctx, id)
	if err != nil {
		return err
	}
	var taken int64
	for _, charge := range charges {
		taken += charge.Captured
	}
	s.wantf(takes(charges) == 1 && taken == amount, "the provider took %d in %s for order %s, there should be one of %d", taken,
		counted(takes(charges), "charge"), id, amount)
	return nil
}

const (
	// insistLimit is longer than a lease of the run's own servers, and than a circuit breaker's pause.
	insistLimit = 12 * time.Second
	// maxSilent is how often in a row there may be no answer at all, a few pauses apart, before nobody is taken to be there.
	maxSilent = 10
)

// insist repeats a request until it has an answer that says something: as the contract asks, with the same key and body, but without
// the pauses that it asks for, so that repeats meet.
func insist(ctx context.Context, c client, key string, order any) (answer response, told []response, err error) {
	const pause = 100 * time.Millisecond
	answer, err = c.place(ctx, key, order) // it may wait for the limit on new keys, for longer than the repeats may take
	ctx, cancel := context.WithTimeoutCause(ctx, insistLimit, fmt.Errorf("%s are over", insistLimit))
	defer cancel()
	for silent := 1; ; silent++ {
		switch {
		case err == nil && !answer.passes(), errors.Is(err, errKeysLimited), err != nil && silent == maxSilent:
			return answer, told, err
		case err == nil:
			told, silent = append(told, answer), 0
		}
		if wait(ctx, pause) != nil {
			return answer, told, fmt.Errorf("no final answer under key %s, the last was %s: %w", key, answer, context.Cause(ctx))
		}
		answer, err = c.place(ctx, key, order)
	}
}

// awaitOrder asks for an order until it is as wanted.
func awaitOrder(ctx context.Context, c client, id string, status api.OrderStatus) error {
	ctx, cancel := context.WithTimeoutCause(ctx, longestWait, fmt.Errorf("%s are over", longestWait))
	defer cancel()
	for {
		var order api.Order
		if err := c.read(ctx, ordersPath+"/"+id, &order); err != nil {
			return err
		}
		if order.Status == status && order.ID != uuid.Nil {
			return nil
		}
		if err := wait(ctx, pollPause); err != nil {
			return fmt.Errorf("order %s is %s, not %s: %w", id, order.Status, status, err)
		}
	}
}
