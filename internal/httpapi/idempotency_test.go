package httpapi_test

import (
	"encoding/json"
	"net/http"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/uuid"

	"paysaga/api"
	"paysaga/saga"
)

// I8: one key, one answer, byte for byte. And it costs the database no write.
func TestReplay(t *testing.T) {
	t.Parallel()
	outOfStock := strings.Replace(strings.Replace(theOrder, `"quantity":2`, `"quantity":101`, 1), "3998", "201899", 1)
	for name, c := range map[string]struct {
		body   string
		status int
	}{
		"confirmed":    {theOrder, http.StatusCreated},
		"awaiting":     {paidBy("pm_card_authenticationRequired"), http.StatusAccepted},
		"declined":     {paidBy("pm_card_visa_chargeDeclined"), http.StatusPaymentRequired},
		"rejected":     {paidBy("pm_nobody_knows_this"), http.StatusUnprocessableEntity},
		"out of stock": {outOfStock, http.StatusUnprocessableEntity},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := newShop(t)
			key := newKeyText()
			first := s.place(t, key, c.body)
			if first.status != c.status || first.header.Get("Idempotency-Replayed") != "" {
				t.Fatalf("first answer: %d, replayed %q: %s", first.status, first.header.Get("Idempotency-Replayed"), first.body)
			}
			before := s.footprint(t)
			for range 3 {
				sameAnswer(t, first, s.place(t, key, c.body))
			}
			if diff := cmp.Diff(before, s.footprint(t)); diff != "" {
				t.Errorf("a replay changed something (-before +after):\n%s", diff)
			}
		})
	}
}

// sameAnswer holds a replay against the first answer.
func sameAnswer(t *testing.T, first, again answer) {
	t.Helper()
	if again.status != first.status || again.body != first.body {
		t.Errorf("first %d\n%s\nthen %d\n%s", first.status, first.body, again.status, again.body)
	}
	for _, name := range []string{"Content-Type", "Location", "Content-Length"} {
		if got, want := again.header.Get(name), first.header.Get(name); got != want {
			t.Errorf("%s: first %q, then %q", name, want, got)
		}
	}
	if got := again.header.Get("Idempotency-Replayed"); got != "true" {
		t.Errorf("Idempotency-Replayed is %q", got)
	}
}

// An order costs the database two commits, one before and one after the provider call; without a call it costs one.
func TestCommits(t *testing.T) {
	t.Parallel()
	s := newShop(t)
	lines := strings.Replace(theOrder, `{"sku"`, `{"sku":"MUG","quantity":1,"unit_amount":0},{"sku"`, 1)
	outOfStock := strings.Replace(theOrder, `{"sku"`, `{"sku":"LAST-PIECE","quantity":2,"unit_amount":0},{"sku"`, 1)
	for _, c := range []struct {
		name, body string
		commits    int
	}{
		{"happy path", theOrder, 2},
		{"several lines", lines, 2},
		{"declined", paidBy("pm_card_visa_chargeDeclined"), 2},
		{"awaiting", paidBy("pm_card_authenticationRequired"), 2},
		{"out of stock", outOfStock, 1},
	} {
		before := s.writes(t)
		s.place(t, newKeyText(), c.body)
		if got := s.writes(t) - before; got != c.commits {
			t.Errorf("%s: %d commits, want %d", c.name, got, c.commits)
		}
	}
	before := s.writes(t)
	s.get(t, "/v1/orders")
	s.get(t, "/v1/stock")
	if got := s.writes(t) - before; got != 0 {
		t.Errorf("reading: %d commits that write, want none", got)
	}
}

// The same intent in other words is the same request.
//
//nolint:paralleltest,tparallel // the repeats of one order come one after the other
func TestSameIntent(t *testing.T) {
	t.Parallel()
	s := newShop(t)
	key := newKeyText()
	const mug = `{"sku":"MUG","quantity":1,"unit_amount":500}`
	const shirt = `{"sku":"TSHIRT-M","quantity":2,"unit_amount":1999}`
	order := changed(t, changed(t, theOrder, shirt, shirt+","+mug), "3998", "4498")
	first := s.place(t, key, order)
	first.order(t, http.StatusCreated)
	for name, body := range map[string]string{
		"other blanks":      strings.ReplaceAll(strings.ReplaceAll(order, ",", " ,\n\t"), ":", " : "),
		"a fraction of 0":   changed(t, order, "4498", "4498.0"),
		"an exponent":       changed(t, order, "4498", "4.498e3"),
		"a negative one":    changed(t, order, "4498", "449800E-2"),
		"escaped letters":   changed(t, order, `"EUR"`, `"\u0045UR"`),
		"items the other":   changed(t, order, shirt+","+mug, mug+","+shirt),
		"fields the other":  reordered(t, order),
		"capture left out":  changed(t, order, `,"capture":"automatic"`, ""),
		"other metadata":    changed(t, order, `"c-9"`, `"c-10"`),
		"no metadata":       changed(t, order, `,"metadata":{"cart":"c-9"}`, ""),
		"another e-mail":    changed(t, order, "ada@example.com", "ada@example.org"),
		"with a return URL": changed(t, order, `"automatic"`, `"automatic","return_url":"https://example.com/back"`),
	} {
		t.Run(name, func(t *testing.T) { sameAnswer(t, first, s.place(t, key, body)) })
	}
	t.Run("quoted key", func(t *testing.T) { sameAnswer(t, first, s.place(t, `"`+key+`"`, order)) })
	t.Run("blanks around the key", func(t *testing.T) { sameAnswer(t, first, s.place(t, " \t"+key+" ", order)) })
	s.onlyCharge(t)
}

// reordered writes an object with its names in the order that Go's maps are encoded in.
func reordered(t *testing.T, body string) string {
	t.Helper()
	var fields map[string]any
	noError(t, json.Unmarshal([]byte(body), &fields))
	again, err := json.Marshal(fields)
	noError(t, err)
	if string(again) == body {
		t.Fatal("the order of names is the same")
	}
	return string(again)
}

// Another intent under the same key is refused, whatever became of the first.
//
//nolint:paralleltest,tparallel // what all of them leave behind is looked at
func TestOtherIntent(t *testing.T) {
	t.Parallel()
	s := newShop(t)
	const line = `{"sku":"TSHIRT-M","quantity":2,"unit_amount":1999}`
	for _, first := range []string{theOrder, paidBy("pm_card_visa_chargeDeclined")} {
		key := newKeyText()
		s.place(t, key, first)
		before := s.footprint(t)
		for name, body := range map[string]string{
			"currency":       changed(t, first, "EUR", "USD"),
			"amount":         changed(t, changed(t, first, "3998", "4000"), "1999", "2000"),
			"quantity":       changed(t, changed(t, first, `"quantity":2`, `"quantity":1`), "1999", "3998"),
			"sku":            changed(t, first, "TSHIRT-M", "MUG"),
			"another line":   changed(t, first, line, line+`,{"sku":"MUG","quantity":1,"unit_amount":0}`),
			"method":         changed(t, first, `"pm_card`, `"pm_kard`),
			"provider":       changed(t, first, "stripe", "adyen"),
			"customer":       changed(t, first, "customer-4711", "customer-4712"),
			"customer's end": changed(t, first, `"reference":"customer-4711",`, ""),
		} {
			t.Run(name, func(t *testing.T) {
				problem := s.place(t, key, body).problem(t, http.StatusUnprocessableEntity, "idempotency-key-reuse")
				if problem.Instance != "" {
					t.Errorf("the answer tells of the first request: %s", problem.Instance)
				}
			})
		}
		if diff := cmp.Diff(before, s.footprint(t)); diff != "" {
			t.Errorf("a mismatch changed something (-before +after):\n%s", diff)
		}
	}
}

// Keys at the edges of what is allowed work, and no two of them are the same.
func TestGoodKeys(t *testing.T) {
	t.Parallel()
	s := newShop(t)
	keys := []string{
		strings.Repeat("k", 16), strings.Repeat("k", 17), strings.Repeat("k", 255), "ABCDEFGHIJKLMNOP", "abcdefghijklmnop", "Abcdefghijklmnop",
		"0123456789._~:-0", uuid.NewString(), "01J9ZQ3V5T8KX2M4N6P7R8S9TA",
	}
	seen := map[uuid.UUID]bool{}
	for _, key := range keys {
		order := s.place(t, key, theOrder).order(t, http.StatusCreated)
		if seen[order.ID] {
			t.Errorf("key %s has another one's order", key)
		}
		seen[order.ID] = true
	}
	if got := len(s.sandbox.Ledger()); got != len(keys) {
		t.Errorf("%d charges for %d keys", got, len(keys))
	}
}

// A key belongs to its account: another account's same key is another order.
func TestKeyIsTheAccounts(t *testing.T) {
	t.Parallel()
	s := newShop(t)
	key := newKeyText()
	mine := s.place(t, key, theOrder).order(t, http.StatusCreated)
	r := s.placing(key, theOrder)
	r.header.Set("Authorization", "Bearer "+s.other)
	theirs := s.send(t, r)
	order := theirs.order(t, http.StatusCreated)
	if order.ID == mine.ID || order.Payment.Identifier == mine.Payment.Identifier || theirs.header.Get("Idempotency-Replayed") != "" {
		t.Errorf("mine is %s, theirs %s", mine.Payment.Identifier, order.Payment.Identifier)
	}
	r.header.Set("Authorization", "Bearer "+s.operator) // of the first account
	if again := s.send(t, r); again.order(t, http.StatusCreated).ID != mine.ID {
		t.Error("another API key of the same account does not get its answer")
	}
	if got := len(s.sandbox.Ledger()); got != 2 {
		t.Errorf("%d charges, want 2", got)
	}
}

// I3: a key that is used again after its window is a new order, with identifiers of its own.
func TestExpiredKey(t *testing.T) {
	t.Parallel()
	s := newShop(t)
	key := newKeyText()
	first := s.place(t, key, theOrder)
	const expire = `UPDATE idempotency_keys SET expires_at = now() - interval '1 second' WHERE key = $1`
	s.exec(t, expire, key)
	other := changed(t, changed(t, theOrder, "3998", "4000"), "1999", "2000") // the old intent does not bind any more
	second := s.place(t, key, other)
	order := second.order(t, http.StatusCreated)
	want := string(saga.SubKey(saga.Key(merchantAccount, ordersEndpoint, key, 2), saga.StepCharge, 1))
	if order.ID == first.order(t, http.StatusCreated).ID || order.Payment.Identifier != want {
		t.Errorf("identifier %s, want %s", order.Payment.Identifier, want)
	}
	timeline := decoded[api.Saga](t, s.get(t, second.header.Get("Location")+"/saga"), http.StatusOK)
	if timeline.Generation != 2 {
		t.Errorf("generation %d", timeline.Generation)
	}
	sameAnswer(t, second, s.place(t, key, other))
	if got := s.get(t, first.header.Get("Location")); got.body != first.body {
		t.Errorf("the first order is another one now: %s", got.body)
	}
	if got := len(s.sandbox.Ledger()); got != 2 {
		t.Errorf("%d charges, want 2", got)
	}
}
