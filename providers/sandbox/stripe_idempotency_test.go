package sandbox_test

import (
	"net/http"
	"net/url"
	"strings"
	"sync/atomic"
	"testing"

	"paysaga/providers/sandbox"
)

func TestKeyReplaysTheFirstAnswer(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		method string
		status int
		retry  string
	}{
		{method: "pm_card_visa", status: http.StatusOK},
		{method: "pm_card_visa_chargeDeclined", status: http.StatusPaymentRequired, retry: "false"},
		{method: "pm_nothing", status: http.StatusBadRequest},
	} {
		t.Run(test.method, func(t *testing.T) {
			t.Parallel()
			b := newBench(t, sandbox.Options{})
			form := order("payment_method", test.method)
			first := b.post(t, "/payment_intents", "k1", form)
			again := b.post(t, "/payment_intents", "k1", form)
			if first.status != test.status || again.status != test.status || first.body != again.body {
				t.Fatalf("first %d %s, again %d %s", first.status, first.body, again.status, again.body)
			}
			if first.header.Get("Idempotent-Replayed") != "" || again.header.Get("Idempotent-Replayed") != "true" {
				t.Errorf("headers: first %v, again %v", first.header, again.header)
			}
			if again.header.Get("Original-Request") != first.header.Get("Request-Id") || again.header.Get("Request-Id") == first.header.Get("Request-Id") {
				t.Errorf("request ids: first %v, again %v", first.header, again.header)
			}
			if got := again.header.Get("Stripe-Should-Retry"); got != test.retry {
				t.Errorf("Stripe-Should-Retry is %q", got)
			}
			if again.header.Get("Idempotency-Key") != "k1" {
				t.Error("the key is not echoed")
			}
		})
	}
}

func TestKeyWithoutRepeatsCreatesAnew(t *testing.T) {
	t.Parallel()
	b := newBench(t, sandbox.Options{})
	for _, key := range []string{"k1", "k2", "", ""} {
		if got := b.post(t, "/payment_intents", key, order()); got.status != http.StatusOK {
			t.Fatalf("status %d", got.status)
		}
	}
	if charges := b.Ledger(); len(charges) != 4 {
		t.Errorf("%d charges, want 4", len(charges))
	}
}

func TestKeyReusedOtherwiseIsRefused(t *testing.T) {
	t.Parallel()
	b := newBench(t, sandbox.Options{})
	created := b.post(t, "/payment_intents", "k1", order()).json(t)
	for name, answer := range map[string]reply{
		"other amount":   b.post(t, "/payment_intents", "k1", order("amount", "4000")),
		"other endpoint": b.post(t, "/refunds", "k1", url.Values{"payment_intent": {text(created, "id")}}),
		"invalid body":   b.post(t, "/payment_intents", "k1", order("amount", "x")),
	} {
		if failure := answer.failure(t); answer.status != http.StatusBadRequest || failure["type"] != "idempotency_error" {
			t.Errorf("%s: %d %v", name, answer.status, failure)
		}
	}
	if entry := b.only(t); entry.Captured != 3998 || entry.Refunded != 0 || entry.Calls != 4 {
		t.Errorf("ledger is %+v", entry)
	}
}

func TestKeyIsForgottenAfterADay(t *testing.T) {
	t.Parallel()
	b := newBench(t, sandbox.Options{})
	first := b.post(t, "/payment_intents", "k1", order())
	b.control(t, "/clock", `{"advance_ms":86399999}`, http.StatusOK)
	if again := b.post(t, "/payment_intents", "k1", order()); again.body != first.body {
		t.Error("forgotten within the day")
	}
	b.control(t, "/clock", `{"advance_ms":1}`, http.StatusOK)
	if again := b.post(t, "/payment_intents", "k1", order()); again.body == first.body || again.status != http.StatusOK {
		t.Errorf("remembered after the day: %d", again.status)
	}
	if charges := b.Ledger(); len(charges) != 2 {
		t.Errorf("%d charges: a repeat after the window is a second charge", len(charges))
	}
}

func TestKeyIsFreeAfterARefusalBeforeExecution(t *testing.T) {
	t.Parallel()
	b := newBench(t, sandbox.Options{})
	for name, answer := range map[string]reply{
		"no key": b.do(t, http.MethodPost, "/stripe/v1/payment_intents", order().Encode(),
			map[string]string{"Authorization": "", "Idempotency-Key": "k1"}),
		"not a key": b.do(t, http.MethodPost, "/stripe/v1/payment_intents", order().Encode(),
			map[string]string{"Authorization": "Bearer pk_test_1", "Idempotency-Key": "k1"}),
	} {
		if answer.status != http.StatusUnauthorized || answer.failure(t)["type"] != "invalid_request_error" {
			t.Errorf("%s: %d %s", name, answer.status, answer.body)
		}
	}
	if refused := b.post(t, "/payment_intents", "k1", order("currency", "xxx")); refused.status != http.StatusBadRequest {
		t.Fatalf("status %d", refused.status)
	}
	if taken := b.post(t, "/payment_intents", "k1", order()); taken.status != http.StatusOK || taken.header.Get("Idempotent-Replayed") != "" {
		t.Errorf("status %d %v", taken.status, taken.header)
	}
	if entry := b.only(t); entry.Calls != 2 {
		t.Errorf("%d calls, want the refused and the executed one", entry.Calls)
	}
}

func TestKeyTooLong(t *testing.T) {
	t.Parallel()
	b := newBench(t, sandbox.Options{})
	if got := b.post(t, "/payment_intents", strings.Repeat("k", 256), order()); got.status != http.StatusBadRequest {
		t.Errorf("256 characters: status %d", got.status)
	}
	if got := b.post(t, "/payment_intents", strings.Repeat("k", 255), order()); got.status != http.StatusOK {
		t.Errorf("255 characters: status %d", got.status)
	}
}

func TestKeyInFlightIsAConflict(t *testing.T) {
	t.Parallel()
	b := newBench(t, sandbox.Options{})
	if err := b.AddFault(sandbox.Fault{Kind: sandbox.FaultSlow, DelayMS: 60_000}); err != nil {
		t.Fatal(err)
	}
	answers := make(chan reply, 2)
	for range 2 {
		request := b.request(t, http.MethodPost, "/stripe/v1/payment_intents", order().Encode(), map[string]string{"Idempotency-Key": "k1"})
		go func() {
			answer, err := send(t, request)
			if err != nil {
				t.Error(err)
			}
			answers <- answer
		}()
	}
	conflict := <-answers // whichever came second; the other waits with the key in its hand
	if conflict.status != http.StatusConflict || conflict.header.Get("Stripe-Should-Retry") != "true" {
		t.Fatalf("conflict is %d %s", conflict.status, conflict.body)
	}
	if failure := conflict.failure(t); failure["code"] != "idempotency_key_in_use" {
		t.Errorf("conflict is %v", failure)
	}
	b.Close() // ends the other's wait
	if first := <-answers; first.status != http.StatusOK || first.header.Get("Idempotent-Replayed") != "" {
		t.Errorf("first: %d %s", first.status, first.body)
	}
	if again := b.post(t, "/payment_intents", "k1", order()); again.header.Get("Idempotent-Replayed") != "true" {
		t.Errorf("repeat: %d %v", again.status, again.header)
	}
}

func TestOneKeyManyAtOnceChargesOnce(t *testing.T) {
	t.Parallel()
	b := newBench(t, sandbox.Options{})
	var executed, other atomic.Int32
	inParallel(50, func(int) {
		answer, err := b.try(t, http.MethodPost, "/stripe/v1/payment_intents", order().Encode(), map[string]string{"Idempotency-Key": "k1"})
		switch {
		case err == nil && answer.status == http.StatusOK && answer.header.Get("Idempotent-Replayed") == "":
			executed.Add(1)
		case err == nil && (answer.status == http.StatusOK || answer.status == http.StatusConflict):
		default:
			other.Add(1)
		}
	})
	if executed.Load() != 1 || other.Load() != 0 {
		t.Errorf("%d executed, %d failed otherwise", executed.Load(), other.Load())
	}
	if entry := b.only(t); entry.Captured != 3998 || entry.Calls != 50 {
		t.Errorf("ledger is %+v", entry)
	}
}

func TestGetIgnoresKeys(t *testing.T) {
	t.Parallel()
	b := newBench(t, sandbox.Options{})
	created := b.post(t, "/payment_intents", "k1", order()).json(t)
	answer := b.do(t, http.MethodGet, "/stripe/v1/payment_intents/"+text(created, "id"), "", map[string]string{"Idempotency-Key": "k1"})
	if answer.status != http.StatusOK || answer.header.Get("Idempotent-Replayed") != "" {
		t.Errorf("%d %v", answer.status, answer.header)
	}
}
