package httpapi_test

import (
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"paysaga/api"
	"paysaga/internal/httpapi"
	"paysaga/internal/idempotency"
	"paysaga/saga"
)

// under is the same shop as another process serves it, with another policy.
func (s *shop) under(t *testing.T, changes ...func(*idempotency.Policy)) *shop {
	t.Helper()
	return s.servedBy(t, s.runner, changes...)
}

func (s *shop) servedBy(t *testing.T, runner *saga.Runner, changes ...func(*idempotency.Policy)) *shop {
	t.Helper()
	handler, err := httpapi.New(httpapi.Config{
		Store: s.store, Runner: runner, Guard: s.guard(t, changes...), MaxBody: bodyLimit, Logger: s.config.Logger,
		Providers: []string{"stripe", "paypal", "adyen"},
	})
	noError(t, err)
	another := *s
	another.runner = runner
	another.api = httptest.NewServer(handler)
	t.Cleanup(another.api.Close)
	return &another
}

func logOnly(p *idempotency.Policy)           { p.Mode = idempotency.LogOnly }
func conflictOnReuse(p *idempotency.Policy)   { p.MismatchStatus = http.StatusConflict }
func proceedWithoutKey(p *idempotency.Policy) { p.MissingKey = idempotency.ProceedMissing }
func rejectExpired(p *idempotency.Policy)     { p.ExpiredKeys = idempotency.ExpiredReject }

// protection is what an answer says of a request that was not protected.
func protection(a answer) string { return a.header.Get("Idempotency-Protection") }

// observed holds an answer against what log_only says of a request that would have been blocked.
func observed(t *testing.T, s *shop, a answer, would string) {
	t.Helper()
	if got, want := protection(a), "observed; would="+would; got != want {
		t.Errorf("Idempotency-Protection is %q, want %q", got, want)
	}
	if a.header.Get("Idempotency-Replayed") != "" {
		t.Error("a request that was carried out calls itself a replay")
	}
	if !s.log.Contains(`"endpoint":"POST /v1/orders","account":"` + merchantAccount + `","would":"` + would + `"`) {
		t.Errorf("the log does not tell of %s", would)
	}
}

// What would have been blocked is carried out, and charged: log_only protects from nothing. That no key is in the log is looked at when
// the shop closes.
func TestLogOnly(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		second func(t *testing.T, s *shop, key string) answer // after a first request with the key
		would  string
	}{
		"repeat": {func(t *testing.T, s *shop, key string) answer {
			t.Helper()
			return s.place(t, key, theOrder)
		}, "replay"},
		"another intent": {func(t *testing.T, s *shop, key string) answer {
			t.Helper()
			return s.place(t, key, changed(t, theOrder, "TSHIRT-M", "MUG"))
		}, "mismatch"},
		"expired key that is rejected": {func(t *testing.T, s *shop, key string) answer {
			t.Helper()
			s.expire(t, key)
			return s.under(t, logOnly, rejectExpired).place(t, key, theOrder)
		}, "expired"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			shop := newShop(t)
			s, key := shop.under(t, logOnly), newKeyText()
			first := s.place(t, key, theOrder)
			if first.order(t, http.StatusCreated); protection(first) != "" || s.log.Contains("would have been blocked") {
				t.Error("the first request is reported")
			}
			for charges := 2; charges <= 3; charges++ {
				again := test.second(t, s, key)
				observed(t, s, again, test.would)
				if again.order(t, http.StatusCreated).ID == first.order(t, http.StatusCreated).ID {
					t.Error("it is the first order")
				}
				if got := len(s.sandbox.Ledger()); got != charges {
					t.Errorf("%d charges, want %d", got, charges)
				}
			}
			if keys := query[int](t, s, `SELECT count(*) FROM idempotency_keys WHERE key LIKE 'unprotected-%'`); keys != 2 {
				t.Errorf("%d generated keys, want 2", keys)
			}
		})
	}
}

// A repeat of a request that runs is carried out beside it; a request whose holder is gone is taken over, as ever.
func TestLogOnlyWhileTheFirstRuns(t *testing.T) {
	t.Parallel()
	s := newShop(t).under(t, logOnly)
	held := s.holdCharges(t)
	r := s.placing(newKeyText(), theOrder)
	first := s.sending(t, r)
	receive(t, "the charge at the provider", held.arrived)
	s.gate.open()
	again := s.send(t, r)
	observed(t, s, again, "in-progress")
	again.order(t, http.StatusCreated)
	s.lapse(t)
	taker := s.send(t, r)
	if taker.order(t, http.StatusCreated); protection(taker) != "" {
		t.Errorf("the taker: %q", protection(taker))
	}
	held.release()
	late := receive(t, "the first answer", first)
	s.check(t, r, late)
	sameAnswer(t, taker, late) // it is no repeat, so it is not carried out anew
	if got := len(s.sandbox.Ledger()); got != 2 {
		t.Errorf("%d charges, want that of the first and its taker, and that of the repeat", got)
	}
}

// lapse lets all leases run out, as those of a dead process do.
func (s *shop) lapse(t *testing.T) {
	t.Helper()
	s.exec(t, `UPDATE sagas SET locked_until = now(), next_attempt_at = now() WHERE locked_until > now()`)
	s.exec(t, `UPDATE idempotency_keys SET locked_until = now() WHERE status = 'PROCESSING'`)
}

// expire ends a key's window.
func (s *shop) expire(t *testing.T, key string) {
	t.Helper()
	s.exec(t, `UPDATE idempotency_keys SET expires_at = now() - interval '1 second' WHERE key = $1`, key)
}

// A limit is one of the things that log_only only watches, and a malformed request is refused in every mode.
func TestLogOnlyDoesNotLimit(t *testing.T) {
	t.Parallel()
	s := newShop(t).under(t, logOnly, func(p *idempotency.Policy) { p.KeysPerMinute = 1 })
	for range 3 {
		s.place(t, newKeyText(), theOrder).order(t, http.StatusCreated)
	}
	s.place(t, "short", theOrder).problem(t, http.StatusBadRequest, "idempotency-key-invalid")
}

// A request without a key, or with a bad one: what proceeds is only what has none.
func TestProceedWithoutKey(t *testing.T) {
	t.Parallel()
	s := newShop(t).under(t, proceedWithoutKey)
	r := s.placing("", theOrder)
	s.send(t, r).checkRefusal(t, http.StatusBadRequest, "idempotency-key-invalid", "header Idempotency-Key")
	r.header.Del("Idempotency-Key")
	seen := map[string]bool{}
	for range 2 {
		unprotected, err := s.try(t.Context(), r) // the contract asks for a key
		noError(t, err)
		seen[unprotected.order(t, http.StatusCreated).ID.String()] = true
		if protection(unprotected) != "none" {
			t.Errorf("Idempotency-Protection is %q", protection(unprotected))
		}
	}
	r.body = paidBy("pm_card_visa_chargeDeclined")
	if declined, err := s.try(t.Context(), r); err != nil || declined.status != http.StatusPaymentRequired || protection(declined) != "none" {
		t.Errorf("declined: %d with %q, %v", declined.status, protection(declined), err)
	}
	r.body = changed(t, theOrder, "TSHIRT-M", "NO-SUCH-SKU")
	if refused, err := s.try(t.Context(), r); err != nil || refused.status != http.StatusUnprocessableEntity || protection(refused) != "none" {
		t.Errorf("refused: %d with %q, %v", refused.status, protection(refused), err)
	}
	if len(seen) != 2 || len(s.sandbox.Ledger()) != 3 {
		t.Errorf("%d orders, %d charges", len(seen), len(s.sandbox.Ledger()))
	}
	if protected := s.place(t, newKeyText(), theOrder); protection(protected) != "" {
		t.Errorf("a request with a key is unprotected: %q", protection(protected))
	}
}

// A key that was cleaned up, while its order is still there: the next generation, or refused, by policy.
func TestCleanedUpKey(t *testing.T) {
	t.Parallel()
	s := newShop(t)
	key := newKeyText()
	first := s.place(t, key, theOrder).order(t, http.StatusCreated)
	s.exec(t, `DELETE FROM idempotency_keys`)
	before := s.footprint(t)
	s.under(t, rejectExpired).place(t, key, theOrder).problem(t, http.StatusGone, "idempotency-key-expired")
	if diff := cmp.Diff(before, s.footprint(t)); diff != "" {
		t.Errorf("a rejected key changed something (-before +after):\n%s", diff)
	}
	second := s.place(t, key, theOrder).order(t, http.StatusCreated)
	timeline := decoded[api.Saga](t, s.get(t, "/v1/orders/"+second.ID.String()+"/saga"), http.StatusOK)
	if second.ID == first.ID || timeline.Generation != 2 || !strings.HasPrefix(second.Payment.Identifier, second.ID.String()) {
		t.Errorf("order %s of generation %d after %s", second.ID, timeline.Generation, first.ID)
	}
}
