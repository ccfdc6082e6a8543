package httpapi_test

import (
	"net/http"
	"strconv"
	"testing"

	"paysaga/internal/idempotency"
)

// perMinute is so low that no test lasts until the next key is free, 20 seconds later.
const perMinute = 3

func threeAMinute(p *idempotency.Policy) { p.KeysPerMinute = perMinute }

// checkLimited holds an answer against what a limited account is told, and gives the seconds that it is to wait.
func checkLimited(t *testing.T, a answer) int {
	t.Helper()
	a.problem(t, http.StatusTooManyRequests, "too-many-new-keys")
	wait, err := strconv.Atoi(a.header.Get("Retry-After"))
	if err != nil || wait < 1 || wait > 60/perMinute {
		t.Errorf("Retry-After is %q", a.header.Get("Retry-After"))
	}
	if policy, left := a.header.Get("Ratelimit-Policy"), a.header.Get("Ratelimit"); policy != `"new-keys";q=3;w=60` ||
		left != `"new-keys";r=0;t=`+strconv.Itoa(wait) {
		t.Errorf("RateLimit-Policy is %q, RateLimit %q", policy, left)
	}
	return wait
}

// Two servers on one database: of many orders at once exactly as many are taken as the limit says. The others leave nothing.
func TestLimitOnNewKeys(t *testing.T) {
	t.Parallel()
	s := newShop(t)
	servers := [2]*shop{s.under(t, threeAMinute), s.servedBy(t, s.newRunner(t), threeAMinute)}
	requests, pending := make([]request, crowd), make([]<-chan answer, crowd)
	for i := range crowd {
		requests[i] = s.placing(newKeyText(), theOrder)
		pending[i] = servers[i%2].sending(t, requests[i])
	}
	var taken, limited []request
	for i, p := range pending {
		got := receive(t, "an answer", p)
		if s.check(t, requests[i], got); got.status == http.StatusCreated {
			taken = append(taken, requests[i])
			continue
		}
		limited = append(limited, requests[i])
		checkLimited(t, got)
	}
	if got := s.footprint(t); len(taken) != perMinute || got.Keys != perMinute || got.Orders != perMinute || got.Charges != perMinute {
		t.Fatalf("%d orders are taken, want %d: %+v", len(taken), perMinute, got)
	}
	for _, server := range servers {
		for _, r := range taken { // repeats are not counted, and not limited
			if again := server.send(t, r); again.status != http.StatusCreated || again.header.Get("Idempotency-Replayed") != "true" {
				t.Errorf("a repeat at the limit: %d %s", again.status, again.body)
			}
		}
	}
	r := s.placing(newKeyText(), theOrder)
	r.header.Set("Authorization", "Bearer "+s.other)
	servers[0].send(t, r).order(t, http.StatusCreated) // another account has its own
	wait := checkLimited(t, servers[0].send(t, limited[0]))
	s.exec(t, `UPDATE key_limits SET spent_until = spent_until - $1 * interval '1 second'`, wait)
	servers[1].send(t, limited[0]).order(t, http.StatusCreated) // with the same key, at the other server
	checkLimited(t, servers[0].send(t, limited[1]))
}

// All keyed requests share the one limit; what is refused before its claim, or comes to nothing with it, is not counted.
func TestWhatIsLimited(t *testing.T) {
	t.Parallel()
	s := newShop(t)
	location := s.hold(t, "stripe", "pm_card_visa")
	limited := s.under(t, threeAMinute)
	requests := map[string]request{
		"order": s.placing("", theOrder), "capture": s.asking("", location+"/capture", `{}`), "cancel": s.asking("", location+"/cancel", `{}`),
		"patch": {method: http.MethodPatch, path: location, body: `{"metadata":{"a":"b"}}`},
		"stock": {method: http.MethodPut, path: "/v1/stock/MUG", body: `{"on_hand":50}`},
	}
	send := func(r request) answer {
		r.header = s.placing(newKeyText(), "").header
		return limited.send(t, r)
	}
	for range 2 * perMinute {
		send(s.placing("", changed(t, theOrder, "3998", "3999"))).problem(t, http.StatusBadRequest, "invalid-request")
		send(s.placing("", changed(t, theOrder, "TSHIRT-M", "NO-SUCH-SKU"))).problem(t, http.StatusUnprocessableEntity, "unknown-sku")
		send(s.asking("", location+"/refunds", `{}`)).problem(t, http.StatusConflict, "cancel-instead")
	}
	for _, name := range []string{"order", "patch", "stock"} {
		if got := send(requests[name]); got.status >= http.StatusBadRequest {
			t.Errorf("%s: %d %s", name, got.status, got.body)
		}
	}
	s.unchanged(t, func() {
		for name, r := range requests {
			if checkLimited(t, send(r)); t.Failed() {
				t.Error(name)
			}
		}
	})
	r := requests["stock"]
	r.header = s.placing("", "").header.Clone()
	r.header.Del("Idempotency-Key")
	if got := limited.send(t, r); got.status != http.StatusOK { // without a key there is none to count
		t.Errorf("stock without a key: %d %s", got.status, got.body)
	}
}
