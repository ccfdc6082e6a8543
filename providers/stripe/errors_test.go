package stripe

import (
	"context"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	sdk "github.com/stripe/stripe-go/v76"

	"paysaga/providers"
	"paysaga/providers/wire"
)

// stripeError is an error's body as Stripe writes it.
func stripeError(kind, code, more string) string {
	return fmt.Sprintf(`{"error":{"type":%q,"code":%q,"message":"a text that no one sees"%s}}`, kind, code, more)
}

const (
	paymentDeclined = `,"decline_code":"insufficient_funds","payment_intent":{"id":"pi_1","object":"payment_intent","amount":3998,` +
		`"currency":"eur","status":"requires_payment_method","client_secret":"pi_1_secret_x"}`
	paymentSucceeded = `{"id":"pi_1","object":"payment_intent","amount":3998,"amount_received":3998,"currency":"eur","status":"succeeded"}`
)

// TestOutcomeOfEveryAnswerToACharge holds the map of errors against what comes over the wire, through stripe-go itself.
func TestOutcomeOfEveryAnswerToACharge(t *testing.T) {
	t.Parallel()
	busy := func(code string, after time.Duration) providers.Outcome {
		return providers.Outcome{Kind: providers.Busy, Code: code, RetryAfter: after}
	}
	noted := func(headers ...string) map[string]string {
		header := map[string]string{}
		for i := 0; i < len(headers); i += 2 {
			header[headers[i]] = headers[i+1]
		}
		return header
	}
	tests := []struct {
		name   string
		answer canned
		want   providers.Outcome
	}{
		{
			"success",
			canned{status: 200, body: paymentSucceeded},
			providers.Outcome{Kind: providers.Succeeded, Reference: "pi_1", Money: providers.Money{Amount: 3998, Currency: "EUR"}},
		},
		{
			"decline",
			canned{status: 402, body: stripeError("card_error", "card_declined", paymentDeclined)},
			providers.Outcome{
				Kind: providers.Declined, Reference: "pi_1", Code: "card_declined", Money: providers.Money{Amount: 3998, Currency: "EUR"},
				Decline: &providers.Decline{Code: "card_declined", Bank: "insufficient_funds"},
			},
		},
		{
			"decline for good",
			canned{status: 402, body: stripeError("card_error", "card_declined", `,"decline_code":"lost_card"`)},
			providers.Outcome{
				Kind: providers.Declined, Code: "card_declined",
				Decline: &providers.Decline{Code: "card_declined", Bank: "lost_card", Hard: true},
			},
		},
		{
			"decline without a code",
			canned{status: 402, body: stripeError("card_error", "", "")},
			providers.Outcome{Kind: providers.Declined, Code: "card_error", Decline: &providers.Decline{Code: "card_error"}},
		},
		{
			"decline of a payment that succeeded",
			canned{status: 402, body: stripeError("card_error", "card_declined", `,"payment_intent":`+paymentSucceeded)},
			providers.Outcome{Kind: providers.Unknown, Reference: "pi_1", Code: "decline_contradicted"},
		},
		{
			"decline that is to be retried",
			canned{402, noted("Stripe-Should-Retry", "true"), stripeError("card_error", "card_declined", "")},
			busy("card_declined", 0),
		},
		{"key in use", canned{409, noted("Retry-After", "2"), stripeError("invalid_request_error", "idempotency_key_in_use", "")}, busy("idempotency_key_in_use", 2*time.Second)},
		{"key in use, in other words", canned{status: 409, body: stripeError("idempotency_error", "idempotency_key_in_use", "")}, busy("idempotency_key_in_use", 0)},
		{"lock timeout, 409", canned{status: 409, body: stripeError("invalid_request_error", "lock_timeout", "")}, busy("lock_timeout", 0)},
		{"lock timeout, 429", canned{status: 429, body: stripeError("invalid_request_error", "lock_timeout", "")}, busy("lock_timeout", 0)},
		{"rate limit", canned{429, noted("Retry-After", "7"), stripeError("invalid_request_error", "rate_limit", "")}, busy("rate_limit", 7*time.Second)},
		{"rate limit for ages", canned{429, noted("Retry-After", "99999999999"), stripeError("invalid_request_error", "rate_limit", "")}, busy("rate_limit", 10*time.Minute)},
		{"rate limit, odd pause", canned{429, noted("Retry-After", "-5"), stripeError("invalid_request_error", "rate_limit", "")}, busy("rate_limit", 0)},
		{"rate limit by something else", canned{429, noted("Retry-After", "3"), "slow down"}, providers.Outcome{Kind: providers.Unknown, Code: "unreadable_response", RetryAfter: 3 * time.Second}},
		{"key refused", canned{status: 401, body: stripeError("invalid_request_error", "api_key_expired", "")}, busy("credentials_refused", 30*time.Second)},
		{"right missing", canned{status: 403, body: stripeError("invalid_request_error", "", "")}, busy("credentials_refused", 30*time.Second)},
		{"403 by something else", canned{status: 403, body: "<html>blocked</html>"}, unknown("unreadable_response")},
		{"key with other parameters", canned{status: 400, body: stripeError("idempotency_error", "", "")}, unknown("idempotency_mismatch")},
		{"bad parameter", canned{status: 400, body: stripeError("invalid_request_error", "parameter_invalid_integer", "")}, providers.Outcome{Kind: providers.Rejected, Code: "parameter_invalid_integer"}},
		{
			"bad parameter with a name",
			canned{status: 400, body: stripeError("invalid_request_error", "resource_missing", `,"param":"payment_method"`)},
			providers.Outcome{
				Kind: providers.Rejected, Code: "resource_missing",
				Detail: "Stripe refused the parameter payment_method (resource_missing)",
			},
		},
		{
			"bad parameter with an odd name",
			canned{status: 400, body: stripeError("invalid_request_error", "resource_missing", `,"param":"Jane <jane@example.com>"`)},
			providers.Outcome{Kind: providers.Rejected, Code: "resource_missing"},
		},
		{"bad request without a code", canned{status: 400, body: stripeError("invalid_request_error", "", "")}, providers.Outcome{Kind: providers.Rejected, Code: "invalid_request_error"}},
		{"bad request with an odd code", canned{status: 400, body: stripeError("invalid_request_error", "Jane <jane@example.com>", "")}, providers.Outcome{Kind: providers.Rejected, Code: "unrecognized"}},
		{"no such method", canned{status: 404, body: stripeError("invalid_request_error", "resource_missing", "")}, providers.Outcome{Kind: providers.Rejected, Code: "resource_missing"}},
		{"bad request that is to be retried", canned{400, noted("Stripe-Should-Retry", "true"), stripeError("invalid_request_error", "x", "")}, busy("x", 0)},
		{"400 by something else", canned{status: 400, body: `{"message":"bad gateway request"}`}, unknown("unreadable_response")},
		{"400 with an error of no type", canned{status: 400, body: `{"error":{"message":"no"}}`}, unknown("unreadable_response")},
		{"server error", canned{status: 500, body: stripeError("api_error", "", "")}, unknown("server_error")},
		{"server error, later", canned{503, noted("Retry-After", "4"), stripeError("api_error", "", "")}, providers.Outcome{Kind: providers.Unknown, Code: "server_error", RetryAfter: 4 * time.Second}},
		{"server error, retry", canned{500, noted("Stripe-Should-Retry", "true"), stripeError("api_error", "", "")}, unknown("server_error")},
		{"server error, do not retry", canned{500, noted("Stripe-Should-Retry", "false"), stripeError("api_error", "", "")}, unknown("server_error_final")},
		{"server error, replayed", canned{500, noted("Idempotent-Replayed", "true"), stripeError("api_error", "", "")}, unknown("server_error_replayed")},
		{"server error in card words", canned{status: 500, body: stripeError("card_error", "card_declined", "")}, unknown("server_error")},
		{"server error with 4xx", canned{status: 400, body: stripeError("api_error", "", "")}, unknown("server_error")},
		{"gateway page", canned{status: 502, body: "<html>Bad Gateway</html>"}, unknown("server_error")},
		{"gateway page, replayed", canned{502, noted("Idempotent-Replayed", "true"), "<html>"}, unknown("server_error_replayed")},
		{"empty 500", canned{status: 500}, unknown("server_error")},
		{"error in a 200", canned{status: 200, body: stripeError("card_error", "card_declined", "")}, unknown("other_object")},
		{"empty 200", canned{status: 200}, unknown("unreadable_response")},
		{"half a 200", canned{status: 200, body: paymentSucceeded[:60]}, unknown("unreadable_response")},
		{"another payment", canned{status: 200, body: strings.Replace(paymentSucceeded, `"id"`, `"metadata":{"sub_key":"other"},"id"`, 1)}, unknown("other_payment")},
		{"redirect", canned{302, noted("Location", "/elsewhere"), paymentSucceeded}, unknown("redirected")},
		{"redirect that keeps the method", canned{307, noted("Location", "/elsewhere"), paymentSucceeded}, unknown("redirected")},
		{"endless 200", canned{status: 200, body: `{"id":"pi_1","x":"` + strings.Repeat("a", wire.MaxBody) + `"}`}, unknown("body_too_large")},
		{"endless 500", canned{status: 500, body: strings.Repeat("a", wire.MaxBody+1)}, unknown("server_error")},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			adapter := adapterAt(t, test.answer)
			if difference := cmp.Diff(test.want, adapter.Charge(t.Context(), chargeRequest())); difference != "" {
				t.Error(difference)
			}
		})
	}
}

// TestLookupNeverConcludesFromAFailure: whatever goes wrong while asking says nothing about the charge.
func TestLookupNeverConcludesFromAFailure(t *testing.T) {
	t.Parallel()
	answers := map[string]canned{
		"400":       {status: 400, body: stripeError("invalid_request_error", "parameter_invalid_empty", "")},
		"402":       {status: 402, body: stripeError("card_error", "card_declined", "")},
		"404":       {status: 404, body: stripeError("invalid_request_error", "", "")},
		"500":       {status: 500, body: stripeError("api_error", "", "")},
		"200 empty": {status: 200}, "200 {}": {status: 200, body: `{}`}, "200 []": {status: 200, body: `[]`},
		"200 null": {status: 200, body: `null`}, "200 string": {status: 200, body: `"pi_1"`},
		"200 other object": {status: 200, body: `{"object":"list","data":[]}`},
		"200 no data":      {status: 200, body: `{"object":"search_result"}`},
		"200 null data":    {status: 200, body: `{"object":"search_result","data":null}`},
		"200 more pages":   {status: 200, body: `{"object":"search_result","data":[],"has_more":true,"next_page":"x"}`},
		"200 broken hit":   {status: 200, body: `{"object":"search_result","data":[{"metadata":{"sub_key":"` + string(testKey) + `"}}]}`},
	}
	for name, answer := range answers {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			adapter := adapterAt(t, answer)
			for _, reference := range []string{"", "pi_1"} {
				got := adapter.Lookup(t.Context(), providers.LookupRequest{Key: testKey, SagaKey: testSagaKey, Reference: reference})
				if got.Kind != providers.Unknown || got.Code == "" {
					t.Errorf("reference %q: %+v", reference, got)
				}
			}
		})
	}
}

// TestMissingPayment: that Stripe does not know a payment is an answer, and one about the reference. The same words to a search,
// which finds or does not find but cannot miss, are none.
func TestMissingPayment(t *testing.T) {
	t.Parallel()
	adapter := adapterAt(t, canned{status: 404, body: stripeError("invalid_request_error", "resource_missing", "")})
	want := providers.Outcome{Kind: providers.NotFound, Reference: "pi_1", Code: "resource_missing"}
	got := adapter.Lookup(t.Context(), providers.LookupRequest{Key: testKey, SagaKey: testSagaKey, Reference: "pi_1"})
	if difference := cmp.Diff(want, got); difference != "" {
		t.Error(difference)
	}
	got = adapter.Lookup(t.Context(), providers.LookupRequest{Key: testKey, SagaKey: testSagaKey})
	if difference := cmp.Diff(unknown("resource_missing"), got); difference != "" {
		t.Error(difference)
	}
}

func TestLookupWaitsWhenStripeIsBusy(t *testing.T) {
	t.Parallel()
	adapter := adapterAt(t, canned{status: 429, header: map[string]string{"Retry-After": "1"}, body: stripeError("invalid_request_error", "rate_limit", "")})
	want := providers.Outcome{Kind: providers.Busy, Code: "rate_limit", RetryAfter: time.Second}
	got := adapter.Lookup(t.Context(), providers.LookupRequest{Key: testKey, SagaKey: testSagaKey})
	if difference := cmp.Diff(want, got); difference != "" {
		t.Error(difference)
	}
}

func TestOutcomeOfRefusedRefunds(t *testing.T) {
	t.Parallel()
	tests := map[string]struct {
		answer canned
		want   providers.Outcome
	}{
		"already refunded": {
			canned{status: 400, body: stripeError("invalid_request_error", "charge_already_refunded", "")},
			providers.Outcome{Kind: providers.Succeeded, Code: "already_refunded"},
		},
		"more than is left": {
			canned{status: 400, body: stripeError("invalid_request_error", "", `,"param":"amount"`)},
			providers.Outcome{
				Kind: providers.Rejected, Code: "invalid_request_error",
				Detail: "Stripe refused the parameter amount (invalid_request_error)",
			},
		},
		"disputed": {
			canned{status: 400, body: stripeError("invalid_request_error", "charge_disputed", "")},
			providers.Outcome{Kind: providers.Rejected, Code: "charge_disputed"},
		},
		"of another payment": {
			canned{status: 200, body: `{"id":"re_1","object":"refund","amount":1000,"currency":"eur","status":"succeeded","payment_intent":"pi_2"}`},
			unknown("other_payment"),
		},
		"lost": {canned{status: 500}, unknown("server_error")},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if difference := cmp.Diff(test.want, adapterAt(t, test.answer).Refund(t.Context(), refundRequest())); difference != "" {
				t.Error(difference)
			}
		})
	}
}

// TestVoidByState walks through the states in which a payment can be found, before the cancellation and in its refusal.
func TestVoidByState(t *testing.T) {
	t.Parallel()
	euros := providers.Money{Amount: 3998, Currency: "EUR"}
	state := func(status string) string {
		taken := 0
		status, isPart := strings.CutSuffix(status, ", a part taken")
		switch {
		case isPart:
			taken = 1000
		case status == "succeeded":
			taken = 3998
		}
		return fmt.Sprintf(
			`{"id":"pi_1","object":"payment_intent","amount":3998,"amount_received":%d,"currency":"eur","status":%q}`, taken, status)
	}
	refusal := func(status string) canned {
		return canned{status: 400, body: stripeError("invalid_request_error", "payment_intent_unexpected_state", `,"payment_intent":`+state(status))}
	}
	captured := providers.Outcome{Kind: providers.Rejected, Reference: "pi_1", Code: "already_captured", Money: euros}
	part := captured
	part.Money.Amount = 1000
	notYet := providers.Outcome{Kind: providers.Busy, Reference: "pi_1", Code: "not_cancelable_yet", Money: euros, RetryAfter: 30 * time.Second}
	gone := providers.Outcome{Kind: providers.Succeeded, Reference: "pi_1", Code: "already_canceled", Money: euros}
	tests := []struct {
		name   string
		before string
		answer canned
		posts  bool
		want   providers.Outcome
	}{
		{"taken", "succeeded", canned{}, false, captured},
		{"processing", "processing", canned{}, false, notYet},
		{"canceled", "canceled", canned{}, false, gone},
		{"declined", "requires_payment_method", canned{status: 200, body: state("canceled")}, true, providers.Outcome{Kind: providers.Succeeded, Reference: "pi_1", Money: euros}},
		{"waits for the customer", "requires_action", canned{status: 200, body: state("canceled")}, true, providers.Outcome{Kind: providers.Succeeded, Reference: "pi_1", Money: euros}},
		{"held", "requires_capture", canned{status: 200, body: state("canceled")}, true, providers.Outcome{Kind: providers.Succeeded, Reference: "pi_1", Money: euros}},
		{"held, a part taken", "requires_capture, a part taken", canned{}, false, captured},
		{"let go, a part taken", "canceled, a part taken", canned{}, false, part},
		{"a part taken meanwhile", "requires_capture", canned{status: 200, body: state("canceled, a part taken")}, true, part},
		{"taken meanwhile", "requires_action", refusal("succeeded"), true, captured},
		{"processing meanwhile", "requires_action", refusal("processing"), true, notYet},
		{"canceled meanwhile", "requires_action", refusal("canceled"), true, gone},
		{"refused without a reason", "requires_action", refusal("requires_action"), true, providers.Outcome{Kind: providers.Rejected, Code: "payment_intent_unexpected_state"}},
		{"answered, not canceled", "requires_action", canned{status: 200, body: state("requires_action")}, true, providers.Outcome{Kind: providers.Unknown, Reference: "pi_1", Code: "not_canceled", Money: euros}},
		{"lost", "requires_action", canned{status: 500}, true, unknown("server_error")},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			posted := make(chan string, 10)
			adapter := adapterAt(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				if r.Method == http.MethodGet {
					canned{status: 200, body: strings.Replace(state(test.before), "pi_1_", "pi_1", 1)}.ServeHTTP(w, r)
					return
				}
				posted <- r.URL.Path + " " + r.Header.Get("Idempotency-Key")
				test.answer.ServeHTTP(w, r)
			}))
			if difference := cmp.Diff(test.want, adapter.Void(t.Context(), voidRequest())); difference != "" {
				t.Error(difference)
			}
			close(posted)
			var got []string
			for each := range posted {
				got = append(got, each)
			}
			var want []string
			if test.posts {
				want = []string{"/v1/payment_intents/pi_1/cancel " + testSagaKey + "_void"}
			}
			if difference := cmp.Diff(want, got); difference != "" {
				t.Error(difference)
			}
		})
	}
}

// TestInvalidCallsAreNotSent: what stripe-go would send in another form than meant.
func TestInvalidCallsAreNotSent(t *testing.T) {
	t.Parallel()
	adapter := adapterAt(t, http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		t.Errorf("%s %s was sent", r.Method, r.URL.Path)
	}))
	charge := func(change func(*providers.ChargeRequest)) providers.Outcome {
		request := chargeRequest()
		change(&request)
		return adapter.Charge(t.Context(), request)
	}
	tests := map[string]struct {
		got  providers.Outcome
		want providers.Outcome
	}{
		"amount too small": {charge(func(r *providers.ChargeRequest) { r.Money.Amount = 1 }), providers.Outcome{Kind: providers.Rejected, Code: "amount_too_small"}},
		"card number":      {charge(func(r *providers.ChargeRequest) { r.Method = "4242424242424242" }), providers.Outcome{Kind: providers.Rejected, Code: "card_number_refused"}},
		"no key":           {charge(func(r *providers.ChargeRequest) { r.Key = "" }), providers.Outcome{Kind: providers.Rejected, Code: "key_invalid"}},
		"blank key":        {charge(func(r *providers.ChargeRequest) { r.Key = " " }), providers.Outcome{Kind: providers.Rejected, Code: "key_invalid"}},
		"void of nothing":  {adapter.Void(t.Context(), providers.VoidRequest{Key: testKey}), providers.Outcome{Kind: providers.Rejected, Code: "reference_invalid"}},
		"void of a path":   {adapter.Void(t.Context(), providers.VoidRequest{Key: testKey, Reference: "pi_1/../x"}), providers.Outcome{Kind: providers.Rejected, Code: "reference_invalid"}},
		"refund of nothing": {
			adapter.Refund(t.Context(), providers.RefundRequest{Key: testKey, Money: providers.Money{Amount: 1, Currency: "EUR"}}),
			providers.Outcome{Kind: providers.Rejected, Code: "reference_invalid"},
		},
		"refund of no money": {
			adapter.Refund(t.Context(), providers.RefundRequest{Key: testKey, Reference: "pi_1", Money: providers.Money{Currency: "EUR"}}),
			providers.Outcome{Kind: providers.Rejected, Code: "amount_not_positive"},
		},
		"look-up of another object": {adapter.Lookup(t.Context(), providers.LookupRequest{Key: testKey, Reference: "ch_1"}), unknown("reference_invalid")},
		"look-up of nothing":        {adapter.Lookup(t.Context(), providers.LookupRequest{Key: testKey}), unknown("key_invalid")},
	}
	for name, test := range tests {
		test.got.Detail = "" // the sentences are TestCheck's
		if difference := cmp.Diff(test.want, test.got); difference != "" {
			t.Errorf("%s: %s", name, difference)
		}
	}
}

func TestErrorsOfOtherOriginAreUnknown(t *testing.T) {
	t.Parallel()
	for kind := range refundCall + 1 {
		for _, err := range []error{context.DeadlineExceeded, &sdk.Error{Type: sdk.ErrorTypeCard}} {
			if got := outcomeOfError(kind, err); got.Kind != providers.Unknown {
				t.Errorf("call %d, %T: %+v", kind, err, got)
			}
		}
	}
}
