package main

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"strings"

	"paysaga/api"
)

// The scenarios about how a request is written: what means the same, what is refused before its key is claimed, and keys themselves.

// spelling is another way to write the same request.
type spelling struct {
	what   string
	change func(m *message, body []byte) error
}

// sameIntents are ways to write the same intent.
var sameIntents = []spelling{
	{"other blanks", func(m *message, body []byte) error {
		var spread bytes.Buffer
		err := json.Indent(&spread, body, "\r", "\t")
		m.body = spread.Bytes()
		return err //nolint:wrapcheck // the scenario says which
	}},
	{"other order of fields", func(m *message, body []byte) error {
		var fields map[string]any // encoded in the order of its names
		err := json.Unmarshal(body, &fields)
		m.body = fields
		return err //nolint:wrapcheck // the scenario says which
	}},
	{"amount with a fraction of 0", respelled(`"amount":1999,`, `"amount":1999.0,`)},
	{"amount with an exponent", respelled(`"amount":1999,`, `"amount":0.1999e4,`)},
	{"escaped letters", respelled(`"EUR"`, `"\u0045UR"`)},
	{"other metadata", respelled(`"metadata":{"scenario":"`, `"metadata":{"cart":"c-9","scenario":"another `)},
	{"trace and client headers", func(m *message, body []byte) error {
		m.body, m.header = body, map[string]string{
			"Traceparent": "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01", "User-Agent": "another-shop/2", "X-Request-Id": "4711",
		}
		return nil
	}},
}

func respelled(text, other string) func(m *message, body []byte) error {
	return func(m *message, body []byte) error {
		changed := strings.Replace(string(body), text, other, 1)
		m.body = []byte(changed)
		if changed == string(body) {
			return fmt.Errorf("the order does not have %s", text)
		}
		return nil
	}
}

func seeSameRequest(ctx context.Context, r *contractRun, s *sighting) error {
	key := r.key("same-request")
	order := r.order("same-request", 1)
	body, err := json.Marshal(order)
	if err != nil {
		return fmt.Errorf("encode the order: %w", err)
	}
	first, err := r.shop.place(ctx, key, body)
	if err != nil {
		return err
	}
	if !s.wantOrder("the first answer", first) {
		return nil
	}
	for _, other := range sameIntents {
		m := message{method: http.MethodPost, path: ordersPath, keys: []string{key}}
		if err := other.change(&m, body); err != nil {
			return fmt.Errorf("%s: %w", other.what, err)
		}
		again, err := r.shop.send(ctx, m)
		if err != nil {
			return err
		}
		s.wantReplay(other.what, first, again)
	}
	s.sawf("%d spellings, one answer", len(sameIntents))
	return r.wantMoney(ctx, s, first.orderID(), order.Amount)
}

// seeInvalid sends requests that are refused before their key is claimed, and then the mended one under the same key.
func seeInvalid(ctx context.Context, r *contractRun, s *sighting) error {
	key, order := r.key("invalid"), r.order("invalid", 1)
	wrongSum, unknownGoods := r.order("invalid", 1), r.order("invalid", 1)
	wrongSum.Amount++
	unknownGoods.Items[0].SKU = "NEVER-" + r.sku()
	for _, c := range []struct {
		what, slug string
		status     int
		body       any
	}{
		{"broken JSON", "invalid-request", http.StatusBadRequest, []byte(`{"currency":"EUR",`)},
		{"an unknown field", "invalid-request", http.StatusBadRequest, []byte(`{"coupon":1}`)},
		{"an amount that is not the sum", "invalid-request", http.StatusBadRequest, wrongSum},
		{"goods that nobody has", "unknown-sku", http.StatusUnprocessableEntity, unknownGoods},
	} {
		answer, err := r.shop.place(ctx, key, c.body)
		if err != nil {
			return err
		}
		s.wantProblem(c.what, answer, c.slug, c.status)
		s.wantFirst(c.what, answer)
		s.sawf("%s: %d", c.what, answer.status)
	}
	mended, err := r.shop.place(ctx, key, order)
	if err != nil {
		return err
	}
	s.wantFirst("the mended request", mended)
	if !s.wantOrder("the mended request", mended) {
		return nil
	}
	s.sawf("mended: %s", mended)
	return r.wantMoney(ctx, s, mended.orderID(), order.Amount)
}

func seeNoKey(ctx context.Context, r *contractRun, s *sighting) error {
	order := r.order("no-key", 1)
	place := func(shop client, keys ...string) (response, error) {
		return shop.send(ctx, message{method: http.MethodPost, path: ordersPath, keys: keys, body: order})
	}
	for what, keys := range malformedKeys(r.key("no-key")) {
		answer, err := place(r.shop, keys...)
		if err != nil {
			return err
		}
		s.wantProblem(what, answer, "idempotency-key-invalid", http.StatusBadRequest)
	}
	s.sawf("400 for %d malformed keys", len(malformedKeys("")))
	answer, err := place(r.shop)
	if err != nil {
		return err
	}
	if r.own == nil && answer.status < http.StatusMultipleChoices { // as its operator has chosen
		s.wantUnprotected("the order without a key", answer)
		return nil
	}
	s.wantProblem("the order without a key", answer, "idempotency-key-missing", http.StatusUnprocessableEntity)
	s.sawf("none: %s", answer)
	if r.own == nil {
		return nil
	}
	return r.own.with(ctx, func(server string) error {
		first, err := place(r.shop.at(server))
		if err != nil {
			return err
		}
		second, err := place(r.shop.at(server))
		if err != nil {
			return err
		}
		s.wantUnprotected("the first order without a key", first)
		s.wantUnprotected("the second order without a key", second)
		s.wantAnother("the second order without a key", first, second)
		return nil
	}, "PAYSAGA_MISSING_KEY=proceed")
}

func malformedKeys(good string) map[string][]string {
	return map[string][]string{
		"a key too short":     {"fifteen-letters"},
		"a key too long":      {strings.Repeat("k", 256)},
		"a key with a blank":  {"contract key with blanks"},
		"an empty key":        {""},
		"a key half in quote": {`"` + good},
		"two keys":            {good + "-1", good + "-2"},
		"the same key twice":  {good, good},
	}
}

// wantUnprotected: the request was executed, and the answer says that a repeat would be as well.
func (s *sighting) wantUnprotected(what string, answer response) {
	s.wantFirst(what, answer)
	s.wantOrder(what, answer)
	got := answer.header.Get("Idempotency-Protection")
	s.wantf(got == "none", "%s: Idempotency-Protection %q, not none", what, got)
	s.sawf("Idempotency-Protection: %s", got)
}

// wantObserved: the request was executed, and the answer says what an enforcing server had made of it.
func (s *sighting) wantObserved(what, would string, answer response) {
	s.wantFirst(what, answer)
	s.wantOrder(what, answer)
	got := answer.header.Get("Idempotency-Protection")
	s.wantf(got == "observed; would="+would, "%s: Idempotency-Protection %q, not observed; would=%s", what, got, would)
	s.sawf("%s: %s", what, got)
}

func seeLogOnly(ctx context.Context, r *contractRun, s *sighting) error {
	return r.own.with(ctx, func(server string) error {
		shop, key, order := r.shop.at(server), r.key("log-only"), r.order("log-only", 1)
		first, err := shop.place(ctx, key, order)
		if err != nil {
			return err
		}
		s.wantFirst("the first answer", first)
		s.wantOrder("the first answer", first)
		s.wantf(first.header.Get("Idempotency-Protection") == "", "the first answer: Idempotency-Protection %q, not none at all",
			first.header.Get("Idempotency-Protection"))
		for _, c := range []struct {
			what, would string
			order       api.OrderRequest
		}{
			{"the repeat", "replay", order},
			{"another request", "mismatch", r.otherOrder(otherIntents[0])},
		} {
			answer, err := shop.place(ctx, key, c.order)
			if err != nil {
				return err
			}
			s.wantObserved(c.what, c.would, answer)
			s.wantAnother(c.what, first, answer)
		}
		return r.wantMoney(ctx, s, first.orderID(), order.Amount)
	}, "PAYSAGA_IDEMPOTENCY_MODE=log_only")
}
