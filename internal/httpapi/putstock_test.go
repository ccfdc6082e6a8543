package httpapi_test

import (
	"crypto/sha256"
	"encoding/base64"
	"net/http"
	"testing"

	"paysaga/api"
)

// counting sets a count under a key.
func (s *shop) counting(key, sku, body string) request {
	r := s.asking(key, "/v1/stock/"+sku, body)
	r.method = http.MethodPut
	return r
}

// A repeat that comes late, after further sales, does not bring sold pieces back. Without a key it does.
func TestLateCount(t *testing.T) {
	t.Parallel()
	s := newShop(t)
	r := s.counting(newKeyText(), "TSHIRT-M", `{"on_hand":50}`)
	first := s.send(t, r)
	if stock := decoded[api.Stock](t, first, http.StatusOK); stock.OnHand != 50 || first.header.Get("Idempotency-Replayed") != "" {
		t.Errorf("stock %+v", stock)
	}
	s.place(t, newKeyText(), theOrder).order(t, http.StatusCreated)
	s.unchanged(t, func() { sameAnswer(t, first, s.send(t, r)) })
	if got := s.stock(t, "TSHIRT-M"); got != "0 of 48" {
		t.Errorf("stock: %s", got)
	}
	decoded[api.Stock](t, s.putStock(t, "TSHIRT-M", `{"on_hand":50}`), http.StatusOK)
	if got := s.stock(t, "TSHIRT-M"); got != "0 of 50" {
		t.Errorf("stock: %s", got)
	}
}

// The SKU is a part of the intent, as the order is of a request about one.
func TestCountsKeyBelongsToItsSKU(t *testing.T) {
	t.Parallel()
	s := newShop(t)
	key := newKeyText()
	decoded[api.Stock](t, s.send(t, s.counting(key, "TSHIRT-M", `{"on_hand":50}`)), http.StatusOK)
	s.unchanged(t, func() {
		s.send(t, s.counting(key, "MUG", `{"on_hand":50}`)).checkRefusal(t, http.StatusUnprocessableEntity, "idempotency-key-reuse", "")
	})
}

// A count that is refused leaves its key as unused as before: it may be right a moment later.
func TestRefusedCountLeavesItsKeyFree(t *testing.T) {
	t.Parallel()
	s := newShop(t)
	location := s.hold(t, "stripe", "pm_card_visa")
	key := newKeyText()
	s.send(t, s.counting(key, "TSHIRT-M", `{"on_hand":1}`)).checkRefusal(t, http.StatusUnprocessableEntity, "stock-reserved", "")
	s.keyStatus(t, s.merchant, "PUT /v1/stock/{sku}", key).checkRefusal(t, http.StatusNotFound, "not-found", "")
	s.ask(t, location+"/cancel", `{}`).order(t, http.StatusOK)
	decoded[api.Stock](t, s.send(t, s.counting(key, "TSHIRT-M", `{"on_hand":2}`)), http.StatusOK)
}

// Many of the same count at once are one.
func TestSameCountAtOnce(t *testing.T) {
	t.Parallel()
	s := newShop(t)
	r := s.counting(newKeyText(), "MUG", `{"on_hand":50}`)
	var pending [crowd]<-chan answer
	for i := range pending {
		pending[i] = s.sending(t, r)
	}
	fresh := 0
	for _, p := range pending {
		got := receive(t, "an answer", p)
		if s.check(t, r, got); got.status == http.StatusConflict {
			got.checkRefusal(t, http.StatusConflict, "request-in-progress", "")
		} else if decoded[api.Stock](t, got, http.StatusOK); got.header.Get("Idempotency-Replayed") == "" {
			fresh++
		}
	}
	if fresh != 1 {
		t.Errorf("%d answers that are no replays, want one", fresh)
	}
}

// Answers of an endpoint that is set so are kept as a digest: a repeat gets status, headers and that.
func TestDigestOnlyCount(t *testing.T) {
	t.Parallel()
	s := newShop(t)
	s.store.KeepDigestsOnly([]string{"PUT /v1/stock/{sku}"})
	r := s.counting(newKeyText(), "MUG", `{"on_hand":50}`)
	first := s.send(t, r)
	again, err := s.try(t.Context(), r)
	noError(t, err)
	sum := sha256.Sum256([]byte(first.body))
	if want := "sha-256=:" + base64.StdEncoding.EncodeToString(sum[:]) + ":"; again.status != http.StatusOK || again.body != "" ||
		again.header.Get("Repr-Digest") != want || again.header.Get("Idempotency-Replayed") != "true" ||
		again.header.Get("Content-Type") != "" {
		t.Errorf("%d %q with %q", again.status, again.body, again.header)
	}
	if query[bool](t, s, `SELECT EXISTS (SELECT 1 FROM idempotency_answers WHERE body IS NOT NULL)`) {
		t.Error("the body is stored")
	}
	s.place(t, newKeyText(), theOrder).order(t, http.StatusCreated)
	if !query[bool](t, s, `SELECT EXISTS (SELECT 1 FROM idempotency_answers WHERE body IS NOT NULL)`) {
		t.Error("the body of another endpoint's answer is not stored")
	}
}
