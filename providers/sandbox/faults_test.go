package sandbox_test

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"

	"paysaga/providers/sandbox"
)

// noAnswer stands for the status of a call that was not answered.
const noAnswer = 0

type faultCase struct {
	fault     string
	first     int    // status of the faulted answer
	readable  bool   // its body is JSON
	errorCode string // in it
	taken     bool   // the money is, before the repeat
	repeat    int    // status of the repeat
	replayed  bool
}

func TestFaults(t *testing.T) {
	t.Parallel()
	for _, test := range []faultCase{
		{fault: `"timeout_before","delay_ms":1`, first: noAnswer, repeat: 200},
		{fault: `"timeout_after","delay_ms":1`, first: noAnswer, taken: true, repeat: 200, replayed: true},
		{fault: `"error_before"`, first: 500, repeat: 200, readable: true},
		{fault: `"error_after"`, first: 500, taken: true, repeat: 200, replayed: true, readable: true},
		{fault: `"error_saved"`, first: 500, taken: true, repeat: 500, replayed: true, readable: true},
		{fault: `"reset_before"`, first: noAnswer, repeat: 200},
		{fault: `"reset_after"`, first: noAnswer, taken: true, repeat: 200, replayed: true},
		{fault: `"rate_limited"`, first: 429, repeat: 200, readable: true, errorCode: "rate_limit"},
		{fault: `"slow","delay_ms":1`, first: 200, taken: true, repeat: 200, replayed: true, readable: true},
		{fault: `"garbage_after"`, first: 502, taken: true, repeat: 200, replayed: true},
		{fault: `"empty_after"`, first: 200, taken: true, repeat: 200, replayed: true},
		{fault: `"in_progress"`, first: 409, repeat: 200, readable: true, errorCode: "idempotency_key_in_use"},
	} {
		t.Run(test.fault, func(t *testing.T) {
			t.Parallel()
			test.check(t)
		})
	}
}

func (test faultCase) check(t *testing.T) {
	t.Helper()
	b := newBench(t, sandbox.Options{})
	b.control(t, "/faults", `{"provider":"stripe","call":"charge","times":1,"match":"k","fault":`+test.fault+`}`, http.StatusCreated)
	first, err := b.try(t, http.MethodPost, "/stripe/v1/payment_intents", order().Encode(), map[string]string{"Idempotency-Key": "k1"})
	if (err != nil) != (test.first == noAnswer) || first.status != test.first {
		t.Fatalf("first: status %d, error %v", first.status, err)
	}
	if readable := json.Valid([]byte(first.body)); readable != test.readable {
		t.Errorf("first body is %q", first.body)
	}
	if test.errorCode != "" && first.failure(t)["code"] != test.errorCode {
		t.Errorf("first: %s", first.body)
	}
	if taken := len(b.Ledger()) == 1; taken != test.taken {
		t.Errorf("taken before the repeat: %v, want %v", taken, test.taken)
	}
	repeat := b.post(t, "/payment_intents", "k1", order())
	if repeat.status != test.repeat || (repeat.header.Get("Idempotent-Replayed") == "true") != test.replayed {
		t.Errorf("repeat: %d %v", repeat.status, repeat.header)
	}
	b.wantMoney(t, "succeeded", 0, 3998, 0)
	if calls, fired := b.only(t).Calls, b.Faults()[0].Fired; calls != 2 || fired != 1 {
		t.Errorf("%d calls, fired %d times", calls, fired)
	}
}

func TestTimeoutLastsUntilTheClientGivesUp(t *testing.T) {
	t.Parallel()
	b := newBench(t, sandbox.Options{})
	if err := b.AddFault(sandbox.Fault{Kind: sandbox.FaultTimeoutAfter}); err != nil {
		t.Fatal(err)
	}
	request := b.request(t, http.MethodPost, "/stripe/v1/payment_intents", order().Encode(), map[string]string{"Idempotency-Key": "k1"})
	impatient, giveUp := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() {
		_, err := send(t, request.WithContext(impatient))
		done <- err
	}()
	for b.get(t, "/_sandbox/ledger").body == `{"charges":[]}` {
		continue // until the money is taken; go test's own time limit is the bound
	}
	select {
	case err := <-done:
		t.Fatalf("answered before the client gave up: %v", err)
	default:
	}
	giveUp()
	if err := <-done; err == nil {
		t.Error("an answer came")
	}
}

func TestRateLimitTellsWhenToRetry(t *testing.T) {
	t.Parallel()
	b := newBench(t, sandbox.Options{})
	b.control(t, "/faults", `{"fault":"rate_limited","call":"list"}`, http.StatusCreated)
	answer := b.get(t, "/stripe/v1/payment_intents")
	if answer.status != http.StatusTooManyRequests || answer.header.Get("Retry-After") != "1" || answer.header.Get("Stripe-Should-Retry") != "true" {
		t.Errorf("%d %v", answer.status, answer.header)
	}
	if other := b.post(t, "/payment_intents", "k1", order()); other.status != http.StatusOK {
		t.Errorf("another call was hit: %d", other.status)
	}
}

func TestFaultsMatchLookupsByThePaymentsIdentifier(t *testing.T) {
	t.Parallel()
	b := newBench(t, sandbox.Options{})
	hit := text(b.post(t, "/payment_intents", "saga-1_charge", order()).json(t), "id")
	spared := text(b.post(t, "/payment_intents", "saga-2_charge", order("metadata[saga_key]", "saga-2")).json(t), "id")
	b.control(t, "/faults", `{"fault":"error_before","call":"lookup","match":"saga-1"}`, http.StatusCreated)
	for path, want := range map[string]int{
		"/stripe/v1/payment_intents/" + hit:                                                   500,
		"/stripe/v1/payment_intents/" + spared:                                                200,
		"/stripe/v1/payment_intents/search?query=metadata%5B%27saga_key%27%5D%3A%27saga-1%27": 500,
		"/stripe/v1/payment_intents/search?query=metadata%5B%27saga_key%27%5D%3A%27saga-2%27": 200,
		"/stripe/v1/payment_intents/search?query=metadata%5B%22saga_key%22%5D%3A%22saga-1%22": 500,
	} {
		if got := b.get(t, path); got.status != want {
			t.Errorf("%s: status %d, want %d", path, got.status, want)
		}
	}
	if calls := b.Ledger()[0].Calls; calls != 1 {
		t.Errorf("look-ups were counted as calls: %d", calls)
	}
}

// hits runs orders against a sandbox with a seeded fault, forward or backward and many at once, and gives who was hit.
func hits(t *testing.T, seed int64, workers int, backward bool) map[string]bool {
	t.Helper()
	b := newBench(t, sandbox.Options{Seed: seed})
	b.control(t, "/faults", `{"fault":"error_before","probability":0.3}`, http.StatusCreated)
	const orders = 200
	var mu sync.Mutex
	hit := make(map[string]bool)
	inParallel(workers, func(worker int) {
		for i := worker; i < orders; i += workers {
			number := i
			if backward {
				number = orders - 1 - i
			}
			key := fmt.Sprintf("order-%d", number)
			answer, err := b.try(t, http.MethodPost, "/stripe/v1/payment_intents", order().Encode(), map[string]string{"Idempotency-Key": key})
			if err != nil {
				t.Error(err)
			}
			mu.Lock()
			hit[key] = answer.status == http.StatusInternalServerError
			mu.Unlock()
		}
	})
	return hit
}

func TestProbabilityDependsOnSeedAndIdentifierOnly(t *testing.T) {
	t.Parallel()
	alone := hits(t, 7, 1, false)
	count := 0
	for _, hit := range alone {
		if hit {
			count++
		}
	}
	if count < 40 || count > 80 { // 60 expected, standard deviation 6.5
		t.Errorf("%d of 200 hit at probability 0.3", count)
	}
	if diff := cmp.Diff(alone, hits(t, 7, 16, true)); diff != "" {
		t.Errorf("another order of arrival hit others:\n%s", diff)
	}
	if cmp.Equal(alone, hits(t, 8, 1, false)) {
		t.Error("another seed hit the same")
	}
}

func TestFaultsAreCheckedStrictly(t *testing.T) {
	t.Parallel()
	b := newBench(t, sandbox.Options{})
	for _, body := range []string{
		``, `[]`, `{}`, `{"fault":"nonsense"}`, `{"fault":"slow"}`, `{"fault":"error_before","extra":1}`, `{"fault":"error_before"}{}`,
		`{"fault":"error_before","provider":"klarna"}`, `{"fault":"error_before","call":"nonsense"}`, `{"fault":"error_before","times":-1}`,
		`{"fault":"error_before","probability":1.5}`, `{"fault":"error_before","probability":-0.1}`, `{"fault":"slow","delay_ms":60001}`,
		`{"fault":"slow","delay_ms":-1}`,
	} {
		b.control(t, "/faults", body, http.StatusBadRequest)
	}
	if answer := b.control(t, "/faults", `{"fault":"nonsense"}`, http.StatusBadRequest); !strings.Contains(answer.body, "timeout_after") {
		t.Errorf("the known faults are not named: %s", answer.body)
	}
	b.control(t, "/faults", `{"fault":"slow","delay_ms":60000}`, http.StatusCreated)
	if got := b.get(t, "/_sandbox/faults"); !strings.Contains(got.body, `"fired":0`) || !strings.Contains(got.body, `"fault":"slow"`) {
		t.Errorf("faults are %s", got.body)
	}
	if got := b.do(t, http.MethodDelete, "/_sandbox/faults", "", nil); got.status != http.StatusNoContent || len(b.Faults()) != 0 {
		t.Errorf("status %d, faults %v", got.status, b.Faults())
	}
}
