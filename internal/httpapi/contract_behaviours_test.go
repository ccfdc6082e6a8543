package httpapi_test

import (
	"context"
	"fmt"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"paysaga/api"
	"paysaga/saga"
)

// unchanged runs something that must leave nothing behind.
func (s *shop) unchanged(t *testing.T, do func()) {
	t.Helper()
	before := s.footprint(t)
	do()
	if diff := cmp.Diff(before, s.footprint(t)); diff != "" {
		t.Errorf("it changed something (-before +after):\n%s", diff)
	}
}

// keyStatus is what the API tells of a key.
func (s *shop) keyStatus(t *testing.T, apiKey, endpoint, key string) answer {
	t.Helper()
	return s.getAs(t, apiKey, "/v1/idempotency-keys/"+key+"?endpoint="+url.QueryEscape(endpoint))
}

func (s *shop) checkKey(t *testing.T, e keyedEndpoint, key string, status api.KeyStatus, generation, answered int) {
	t.Helper()
	got := decoded[api.KeyRecord](t, s.keyStatus(t, s.merchant, e.endpoint, key), http.StatusOK)
	if got.Status != status || got.Generation != generation || got.ResponseStatus != answered {
		t.Errorf("the key is %s, of generation %d, answered %d; want %s, %d, %d",
			got.Status, got.Generation, got.ResponseStatus, status, generation, answered)
	}
}

// executed is an answer to a request that was carried out, under the protection of its key.
func (e keyedEndpoint) executed(t *testing.T, a answer) {
	t.Helper()
	if a.status != e.status || a.header.Get("Idempotency-Replayed") != "" || protection(a) != "" {
		t.Errorf("answered %d, replayed %q, protection %q: %s", a.status, a.header.Get("Idempotency-Replayed"), protection(a), a.body)
	}
}

func (s *shop) firstAndRepeats(t *testing.T, e keyedEndpoint) {
	t.Helper()
	key := newKeyText()
	r := e.request(s, e.path(t, s), key)
	first := s.send(t, r)
	e.executed(t, first)
	s.checkKey(t, e, key, api.KeyStatusCOMPLETED, 1, e.status)
	s.unchanged(t, func() {
		for range 3 {
			sameAnswer(t, first, s.send(t, r))
		}
	})
}

// mismatchBody is the whole answer to another intent, whatever the first was, and whatever became of it.
const mismatchBody = `{"type":"/problems/idempotency-key-reuse","title":"The Idempotency-Key belongs to another request","status":%d,` +
	`"detail":"This key was used for another request. Use a new key for a new one."}` + "\n"

// checkMismatch sends another intent under the key of a request, under both policies.
func (s *shop) checkMismatch(t *testing.T, other request) {
	t.Helper()
	s.unchanged(t, func() {
		for status, s := range map[int]*shop{http.StatusUnprocessableEntity: s, http.StatusConflict: s.under(t, conflictOnReuse)} {
			got := s.send(t, other)
			if want := fmt.Sprintf(mismatchBody, status); got.status != status || got.body != want {
				t.Errorf("answered %d %s, want %d %s", got.status, got.body, status, want)
			}
			got.header.Del("Date")
			got.header.Del("Request-Id")
			want := http.Header{
				"Content-Type": {"application/problem+json"}, "Content-Length": {strconv.Itoa(len(got.body))}, "Cache-Control": {"no-store"},
				"X-Content-Type-Options": {"nosniff"},
			}
			if diff := cmp.Diff(want, got.header); diff != "" {
				t.Errorf("header (-want +got):\n%s", diff)
			}
		}
	})
}

func (s *shop) otherFingerprint(t *testing.T, e keyedEndpoint) {
	t.Helper()
	r := e.request(s, e.path(t, s), newKeyText())
	e.executed(t, s.send(t, r))
	s.checkMismatch(t, e.another(t, s, r))
	if e.refused == nil {
		return
	}
	refused := e.request(s, "", newKeyText())
	refused.path, refused.body = e.refused(t, s)
	s.send(t, refused)
	refused.path, refused.body = e.path(t, s), e.body
	s.checkMismatch(t, refused)
}

// Another account's same key is its own request, and this account's order and key do not exist for it.
func (s *shop) otherAccountsKey(t *testing.T, e keyedEndpoint) {
	t.Helper()
	key := newKeyText()
	r := e.request(s, e.path(t, s), key)
	mine := s.send(t, r)
	s.keyStatus(t, s.other, e.endpoint, key).checkRefusal(t, http.StatusNotFound, "not-found", "")
	r.header = r.header.Clone()
	r.header.Set("Authorization", "Bearer "+s.other)
	if e.operator {
		r.header.Set("Authorization", "Bearer "+s.otherOperator)
	}
	theirs := s.send(t, r)
	if strings.Contains(e.endpoint, "{id}") || strings.Contains(e.endpoint, "{saga}") || strings.Contains(e.endpoint, "{finding}") {
		theirs.checkRefusal(t, http.StatusNotFound, "not-found", "")
		s.keyStatus(t, s.other, e.endpoint, key).checkRefusal(t, http.StatusNotFound, "not-found", "")
		return
	}
	if e.executed(t, theirs); theirs.body == mine.body {
		t.Error("the other account got this one's answer")
	}
}

// running is a request that holds its key: its call at the provider gets no answer, or its write waits in the database.
type running struct {
	first  <-chan answer
	resume func() // lets it go on
	retry  func() // lets later ones through
}

func (s *shop) run(t *testing.T, e keyedEndpoint, r request) running {
	t.Helper()
	if e.held != "" {
		held := s.holdCalls(t, e.held)
		first := s.sending(t, r)
		receive(t, "the call at the provider", held.arrived)
		return running{first: first, resume: held.release, retry: s.gate.open}
	}
	lock, err := s.pool.Begin(t.Context())
	noError(t, err)
	_, err = lock.Exec(t.Context(), fmt.Sprintf(`LOCK TABLE %s IN SHARE MODE`, e.table))
	noError(t, err)
	first := s.sending(t, r)
	eventually(t, "the write waits", func() bool {
		return query[bool](t, s, `SELECT EXISTS (SELECT 1 FROM pg_locks WHERE NOT granted AND relation = $1::text::regclass)`, e.table)
	})
	return running{first: first, resume: func() { noError(t, lock.Commit(t.Context())) }}
}

func (s *shop) repeatWhileRunning(t *testing.T, e keyedEndpoint) {
	t.Helper()
	key := newKeyText()
	r := e.request(s, e.path(t, s), key)
	other := e.another(t, s, r)
	running := s.run(t, e, r)
	s.unchanged(t, func() {
		for range 2 {
			got := s.send(t, r)
			got.checkRefusal(t, http.StatusConflict, "request-in-progress", "")
			if wait := got.header.Get("Retry-After"); wait != "5" {
				t.Errorf("Retry-After %s, want 5: the most, of a fresh lease", wait)
			}
		}
	})
	s.checkKey(t, e, key, api.KeyStatusPROCESSING, 1, 0)
	s.checkMismatch(t, other)
	s.exec(t, `UPDATE idempotency_keys SET locked_until = now() + interval '1900 milliseconds' WHERE status = 'PROCESSING' AND saga_key IS NOT NULL`)
	if wait := s.send(t, r).header.Get("Retry-After"); e.held != "" && wait != "2" && wait != "1" {
		t.Errorf("Retry-After %s, want the rest of the lease", wait)
	}
	running.resume()
	first := receive(t, "the answer", running.first)
	s.check(t, r, first)
	e.executed(t, first)
	sameAnswer(t, first, s.send(t, r))
}

// Of many retries after a crash one takes over, and goes on with the step that was left; the others are told to come back, or get its
// answer. What the first holder does when it comes back is nothing.
func (s *shop) crashThenRetries(t *testing.T, e keyedEndpoint) {
	t.Helper()
	const retries = 16
	key := newKeyText()
	r := e.request(s, e.path(t, s), key)
	release := func() (late answer, ok bool) { return answer{}, false }
	if e.held != "" {
		running := s.run(t, e, r)
		s.lapse(t)
		running.retry()
		release = func() (answer, bool) { running.resume(); return receive(t, "the first answer", running.first), true }
	} else {
		s.abandonKey(t, e, r)
	}
	charges, sent := len(s.sandbox.Ledger()), s.gate.sent.Load()
	var pending [retries]<-chan answer
	for i := range pending {
		pending[i] = s.sending(t, r)
	}
	var took []answer
	var others []answer
	for _, p := range pending {
		got := receive(t, "an answer", p)
		if s.check(t, r, got); got.status == http.StatusConflict {
			got.checkRefusal(t, http.StatusConflict, "request-in-progress", "")
		} else if got.header.Get("Idempotency-Replayed") == "" {
			took = append(took, got)
		} else {
			others = append(others, got)
		}
	}
	if len(took) != 1 {
		t.Fatalf("%d of %d retries took the request over, want one", len(took), retries)
	}
	e.executed(t, took[0])
	if late, ok := release(); ok {
		s.check(t, r, late)
		others = append(others, late)
	}
	for _, got := range append(others, s.send(t, r)) {
		sameAnswer(t, took[0], got)
	}
	if got := len(s.sandbox.Ledger()); got != charges {
		t.Errorf("%d payments at the provider, %d before the retries", got, charges)
	}
	if got := s.gate.sent.Load() - sent; e.held != "" && got != 1 {
		t.Errorf("%d calls to the provider, want the one of who took over", got)
	}
	s.checkSteps(t, e, key)
}

// abandonKey does what a server does that dies right after it has claimed a key.
func (s *shop) abandonKey(t *testing.T, e keyedEndpoint, r request) {
	t.Helper()
	model := r
	model.header = r.header.Clone()
	model.header.Set("Idempotency-Key", newKeyText())
	e.executed(t, s.send(t, model)) // tells the fingerprint
	_, err := s.store.ClaimKey(t.Context(), saga.Claim{
		AccountID: merchantAccount, Endpoint: e.endpoint, Key: r.header.Get("Idempotency-Key"), Generation: 1, Retention: retention,
		Fingerprint: [32]byte(query[[]byte](t, s, `SELECT fingerprint FROM idempotency_keys WHERE key = $1`, model.header.Get("Idempotency-Key"))),
	}, 0)
	noError(t, err)
}

// checkSteps holds the steps of a key's saga, in their order, against those of one that went well but for the one that was sent twice.
// The steps before that one are as they were: nothing is reserved or charged again.
func (s *shop) checkSteps(t *testing.T, e keyedEndpoint, key string) {
	t.Helper()
	if e.steps == "" {
		return
	}
	got := query[string](t, s, `
		SELECT string_agg(format('%s %s %s %s', t.name, t.attempt, t.status, t.sends), ', ' ORDER BY t.started_at, t.name = 'charge', t.name)
		FROM idempotency_keys k JOIN saga_steps t ON t.account_id = k.account_id AND t.saga_key = k.saga_key WHERE k.key = $1`, key)
	if got != e.steps {
		t.Errorf("steps %q, want %q", got, e.steps)
	}
	const twice = `SELECT count(*) FROM (SELECT 1 FROM reservations GROUP BY saga_key HAVING count(*) > 1) AS r`
	if n := query[int](t, s, twice); n != 0 {
		t.Errorf("%d orders have reserved twice", n)
	}
}

// A failure that passes: nothing is stored, the lease is free, and the same key works at once. With the provider it is the process that
// stops in the middle of the saga's second step; the first is not repeated.
func (s *shop) transientFailure(t *testing.T, e keyedEndpoint) {
	t.Helper()
	key := newKeyText()
	r := e.request(s, e.path(t, s), key)
	if e.held != "" {
		s.drainWhileRunning(t, e, r)
	} else {
		s.exec(t, fmt.Sprintf(`ALTER TABLE %s ADD CONSTRAINT broken CHECK (%s) NOT VALID`, e.table, e.breaking))
		s.send(t, r).checkRefusal(t, http.StatusServiceUnavailable, "unavailable", "")
		s.exec(t, fmt.Sprintf(`ALTER TABLE %s DROP CONSTRAINT broken`, e.table))
	}
	if n := query[int](t, s, `SELECT count(*) FROM idempotency_keys WHERE key = $1 AND (status <> 'PROCESSING' OR locked_until > now())`, key); n != 0 {
		t.Error("the key is answered, or its lease still runs")
	}
	first := s.send(t, r)
	e.executed(t, first)
	sameAnswer(t, first, s.send(t, r))
	s.checkSteps(t, e, key)
}

func (s *shop) drainWhileRunning(t *testing.T, e keyedEndpoint, r request) {
	t.Helper()
	stopping := s.servedBy(t, s.newRunner(t))
	running := stopping.run(t, e, r)
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	stopping.runner.Drain(ended)
	cut := receive(t, "the answer", running.first)
	s.check(t, r, cut)
	cut.checkRefusal(t, http.StatusServiceUnavailable, "unavailable", "")
	running.retry()
}

func (s *shop) permanentFailure(t *testing.T, e keyedEndpoint) {
	t.Helper()
	key := newKeyText()
	r := e.request(s, "", key)
	r.path, r.body = e.refused(t, s)
	first := s.send(t, r)
	var status int
	var slug string
	_, err := fmt.Sscan(e.refusal, &status, &slug)
	noError(t, err)
	first.problem(t, status, slug)
	s.checkKey(t, e, key, api.KeyStatusFAILED, 1, status)
	s.unchanged(t, func() { sameAnswer(t, first, s.send(t, r)) })
}

// What is refused by the contract leaves the key unused.
func (s *shop) validationError(t *testing.T, e keyedEndpoint) {
	t.Helper()
	key := newKeyText()
	r := e.request(s, e.path(t, s), key)
	broken := r
	broken.body = `{"unknown":1}`
	s.unchanged(t, func() {
		s.send(t, broken).checkRefusal(t, http.StatusBadRequest, "invalid-request", "pointer /unknown")
	})
	s.keyStatus(t, s.merchant, e.endpoint, key).checkRefusal(t, http.StatusNotFound, "not-found", "")
	e.executed(t, s.send(t, r))
}

// A request without a key is refused, or carried out each time, and says so. To set a count needs none.
func (s *shop) missingKey(t *testing.T, e keyedEndpoint) {
	t.Helper()
	r := e.request(s, e.path(t, s), "")
	r.header.Del("Idempotency-Key")
	protected, proceeding := "none", s.under(t, proceedWithoutKey)
	if e.method == http.MethodPut {
		protected, proceeding = "", s
	} else {
		s.unchanged(t, func() {
			s.send(t, r).checkRefusal(t, http.StatusUnprocessableEntity, "idempotency-key-missing", "header Idempotency-Key")
		})
	}
	for _, want := range []int{e.status, e.again} {
		writes := s.writes(t)
		got, err := proceeding.try(t.Context(), r) // the contract asks for a key
		noError(t, err)
		if got.status != want || protection(got) != protected || got.header.Get("Idempotency-Replayed") != "" {
			t.Errorf("answered %d with protection %q, want %d with %q: %s", got.status, protection(got), want, protected, got.body)
		}
		if want < http.StatusBadRequest && s.writes(t) == writes {
			t.Error("nothing was carried out")
		}
	}
}

// After its window a key is a new request's, the next generation, or refused.
func (s *shop) expiredKey(t *testing.T, e keyedEndpoint) {
	t.Helper()
	key := newKeyText()
	r := e.request(s, e.path(t, s), key)
	first := s.send(t, r)
	e.executed(t, first)
	s.expire(t, key)
	s.unchanged(t, func() {
		s.under(t, rejectExpired).send(t, r).checkRefusal(t, http.StatusGone, "idempotency-key-expired", "")
	})
	again := s.send(t, r)
	if again.status != e.again || again.header.Get("Idempotency-Replayed") != "" {
		t.Errorf("answered %d, want %d: %s", again.status, e.again, again.body)
	}
	if e.again >= http.StatusBadRequest { // its order takes it no more, so the key was not used again
		s.checkKey(t, e, key, api.KeyStatusCOMPLETED, 1, e.status)
		return
	}
	s.checkKey(t, e, key, api.KeyStatusCOMPLETED, 2, e.again)
	sameAnswer(t, again, s.send(t, r))
}
