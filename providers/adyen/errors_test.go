package adyen

import (
	"context"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"paysaga/providers"
	"paysaga/providers/wire"
)

// refusedWith is an error's body as Adyen writes it.
func refusedWith(status int, code, kind string, headers ...string) canned {
	answer := canned{status: status, header: map[string]string{}, body: fmt.Sprintf(
		`{"status":%d,"errorCode":%q,"message":"a text that no one sees","errorType":%q,"pspReference":"881611827877203B"}`, status, code, kind)}
	for i := 0; i < len(headers); i += 2 {
		answer.header[headers[i]] = headers[i+1]
	}
	return answer
}

// TestOutcomeOfEveryFailure holds the map of errors against what comes over the wire, for every call.
func TestOutcomeOfEveryFailure(t *testing.T) {
	t.Parallel()
	busy := func(code string, after time.Duration) providers.Outcome {
		return providers.Outcome{Kind: providers.Busy, Code: code, RetryAfter: after}
	}
	refused := func(code, detail string) providers.Outcome {
		return providers.Outcome{Kind: providers.Rejected, Code: code, Detail: "Adyen refused the request (error " + code + ")" + detail}
	}
	later := func(code string, after time.Duration) providers.Outcome {
		return providers.Outcome{Kind: providers.Unknown, Code: code, RetryAfter: after}
	}
	final := unknown(providers.CodeServerErrorFinal)
	tests := []struct {
		name   string
		answer canned
		want   providers.Outcome
	}{
		{"key in use, 422", refusedWith(422, "704", "validation", "transient-error", "true"), busy("request_in_progress", 0)},
		{"key in use, 409", refusedWith(409, "704", "validation", "Retry-After", "2"), busy("request_in_progress", 2*time.Second)},
		{"key in use, no header", refusedWith(422, "704", "validation"), busy("request_in_progress", 0)},
		{"memory for keys down", refusedWith(503, "703", "internal", "transient-error", "true"), busy("idempotency_store_unavailable", 0)},
		{"memory for keys down, no header", refusedWith(503, "703", "internal"), busy("idempotency_store_unavailable", 0)},
		{"rate limit", refusedWith(429, "000", "validation", "Retry-After", "7"), busy("rate_limited", 7*time.Second)},
		{"rate limit for ages", refusedWith(429, "000", "validation", "Retry-After", "99999999999"), busy("rate_limited", 10*time.Minute)},
		{"rate limit, odd pause", refusedWith(429, "000", "validation", "Retry-After", "-5"), busy("rate_limited", 0)},
		{"rate limit by something else", canned{429, map[string]string{"Retry-After": "3"}, "slow down"}, later("unreadable_response", 3*time.Second)},
		{"conflict", refusedWith(409, "999", "validation"), busy("999", 0)},
		{"key refused", refusedWith(401, "000", "security"), busy("credentials_refused", 30*time.Second)},
		{"right missing", refusedWith(403, "901", "security"), busy("credentials_refused", 30*time.Second)},
		{"403 by something else", canned{status: 403, body: "<html>blocked</html>"}, unknown("unreadable_response")},
		{"validation", refusedWith(422, "14_030", "validation"), refused("14_030", ": the return URL is missing")},
		{"validation, not transient", refusedWith(422, "138", "validation", "transient-error", "false"), refused("138", ": the currency is not supported")},
		{"validation, transient", refusedWith(422, "138", "validation", "transient-error", "true"), busy("138", 0)},
		{"not understood", refusedWith(400, "702", "validation"), refused("702", ": the request is not understood")},
		{"other error", refusedWith(422, "15_005", "validation"), refused("15_005", "")},
		{"no such call", refusedWith(404, "999", "validation"), refused("999", "")},
		{"another 4xx", refusedWith(408, "999", "validation"), unknown("unreadable_response")},
		{"odd code", refusedWith(422, "Jane <jane@example.com>", "validation"), unknown("unreadable_response")},
		{"code is a number", canned{status: 422, body: `{"errorCode":704}`}, unknown("unreadable_response")},
		{"422 by something else", canned{status: 422, body: `{"message":"no"}`}, unknown("unreadable_response")},
		{"empty 422", canned{status: 422}, unknown("unreadable_response")},
		{"server error", refusedWith(500, "000", "internal"), final},
		{"server error, not transient", refusedWith(500, "000", "internal", "transient-error", "false"), final},
		{"server error, transient", refusedWith(500, "000", "internal", "transient-error", "true", "Retry-After", "4"), later("server_error", 4*time.Second)},
		{"unsupported method", refusedWith(500, "905", "configuration"), refused("905", ": the merchant account has no such payment method")},
		{"unsupported method, variant", refusedWith(500, "905_1", "configuration"), refused("905_1", ": the merchant account has no such payment method")},
		{"other configuration", refusedWith(500, "906", "configuration"), final},
		{"905 of another type", refusedWith(500, "905", "internal"), final},
		{"gateway page", canned{status: 502, body: "<html>Bad Gateway</html>"}, unknown("server_error")},
		{"gateway page, later", canned{503, map[string]string{"Retry-After": "4"}, ""}, later("server_error", 4*time.Second)},
		{"gateway page, not transient", canned{500, map[string]string{"transient-error": "false"}, ""}, final},
		{"empty 200", canned{status: 200}, unknown("unreadable_response")},
		{"half a 200", canned{status: 200, body: authorised[:60]}, unknown("unreadable_response")},
		{"two in a 200", canned{status: 200, body: authorised + authorised}, unknown("unreadable_response")},
		{"200 of another form", canned{status: 200, body: `["Authorised"]`}, unknown("unreadable_response")},
		{"to another key", canned{200, map[string]string{"Idempotency-Key": "other"}, authorised}, unknown("other_payment")},
		{"redirect", canned{302, map[string]string{"Location": "/elsewhere"}, authorised}, unknown("redirected")},
		{"redirect that keeps the method", canned{307, map[string]string{"Location": "/elsewhere"}, authorised}, unknown("redirected")},
		{"endless 200", canned{status: 200, body: `{"x":"` + strings.Repeat("a", wire.MaxBody) + `"}`}, unknown("body_too_large")},
		{"endless 500", canned{status: 500, body: strings.Repeat("a", wire.MaxBody+1)}, unknown("server_error")},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			adapter := adapterAt(t, test.answer)
			for call, got := range map[string]providers.Outcome{
				"charge":   adapter.Charge(t.Context(), chargeRequest()),
				"continue": adapter.Continue(t.Context(), continueRequest()),
				"capture":  adapter.Capture(t.Context(), captureRequest()),
				"refund":   adapter.Refund(t.Context(), refundRequest()),
				"void":     adapter.Void(t.Context(), voidRequest()),
			} {
				if difference := cmp.Diff(test.want, got); difference != "" {
					t.Errorf("%s: %s", call, difference)
				}
			}
		})
	}
}

// TestEchoedKeyPasses: Adyen gives the key back, in any spelling of the header's name.
func TestEchoedKeyPasses(t *testing.T) {
	t.Parallel()
	adapter := adapterAt(t, canned{200, map[string]string{"idempotency-key": string(testKey)}, authorised})
	if got := adapter.Charge(t.Context(), chargeRequest()); got.Kind != providers.Succeeded {
		t.Errorf("%+v", got)
	}
}

func TestErrorsOfOtherOriginAreUnknown(t *testing.T) {
	t.Parallel()
	for _, err := range []error{context.DeadlineExceeded, http.ErrServerClosed} {
		if got := outcomeOfError(err); got.Kind != providers.Unknown {
			t.Errorf("%v: %+v", err, got)
		}
	}
}
