package paypal

import (
	"net/http"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"paysaga/providers"
	"paysaga/providers/wire"
)

// TestEveryIssue goes through the table: each issue on the call where it matters, and on all others, where it must not conclude
// more than "rejected" or "unknown".
func TestEveryIssue(t *testing.T) {
	t.Parallel()
	rejected := func(issue string) providers.Outcome { return providers.Outcome{Kind: providers.Rejected, Code: issue} }
	decline := func(hard bool) func(string) providers.Outcome {
		return func(issue string) providers.Outcome {
			return providers.Outcome{Kind: providers.Declined, Code: issue, Decline: &providers.Decline{Code: issue, Hard: hard}}
		}
	}
	always := map[meaning]func(string) providers.Outcome{
		meansDeclined:     decline(false),
		meansDeclinedHard: decline(true),
		meansBusy: func(issue string) providers.Outcome {
			return providers.Outcome{Kind: providers.Busy, Code: issue, RetryAfter: operatorDelay}
		},
		meansWait:       unknown,
		meansLook:       unknown,
		meansUsedBefore: func(string) providers.Outcome { return unknown(providers.CodeIdempotencyMismatch) },
		meansExpired:    func(issue string) providers.Outcome { return providers.Outcome{Kind: providers.Canceled, Code: issue} },
		meansGone:       rejected,
		meansCaptured:   rejected,
		meansVoided:     rejected,
		meansRefunded:   rejected,
	}
	special := map[meaning]map[callKind]providers.Outcome{
		meansExpired:  {captureCall: {Kind: providers.Canceled, Code: providers.CodeAuthorizationExpired}},
		meansGone:     {captureCall: {Kind: providers.Canceled, Code: "AUTHORIZATION_VOIDED"}},
		meansCaptured: {voidCall: {Kind: providers.Rejected, Code: providers.CodeAlreadyCaptured}},
		meansVoided:   {voidCall: {Kind: providers.Succeeded, Code: codeAlreadyVoided}},
		meansRefunded: {refundCall: {Kind: providers.Succeeded, Code: providers.CodeAlreadyRefunded}},
	}
	for issue, found := range meanings {
		for _, kind := range []callKind{chargeCall, continueCall, captureCall, voidCall, refundCall} {
			want, ok := special[found][kind]
			if !ok {
				want = always[found](issue)
			}
			if diff := cmp.Diff(want, outcomeOfError(kind, refusal(422, issue))); diff != "" {
				t.Errorf("%s on call %d (-want +got):\n%s", issue, kind, diff)
			}
		}
		if got := outcomeOfError(lookupCall, refusal(422, issue)); got.Kind != providers.Unknown && got.Kind != providers.Busy {
			t.Errorf("%s on a look-up: %+v", issue, got)
		}
	}
	for _, issue := range []string{"AMOUNT_MISMATCH", "INVALID_CURRENCY_CODE", "SOMETHING_NEW", "REFUND_NOT_ALLOWED", "DECIMAL_PRECISION"} {
		if got := outcomeOfError(chargeCall, refusal(422, issue)); got != rejected(issue) {
			t.Errorf("%s: %+v", issue, got)
		}
	}
}

func refusal(status int, issue string) *callError {
	problem := &problem{Name: "UNPROCESSABLE_ENTITY", Details: []problemDetail{{Issue: issue}}}
	return &callError{CallError: &wire.CallError{Call: "x", Cause: errUnreadable, Status: status, Header: http.Header{}}, problem: problem}
}

func TestAnswersThatAreErrors(t *testing.T) {
	t.Parallel()
	refused := providers.Outcome{Kind: providers.Busy, Code: providers.CodeCredentialsRefused, RetryAfter: operatorDelay}
	withField := `{"name":"INVALID_REQUEST","details":[{"field":"/purchase_units/@reference_id=='default'/amount/value","issue":"INVALID_PARAMETER_SYNTAX","value":"no one sees this"}]}`
	tests := map[string]struct {
		answer canned
		want   providers.Outcome
	}{
		"400":                          {canned{status: 400, body: problemJSON("INVALID_REQUEST", "INVALID_PARAMETER_VALUE")}, providers.Outcome{Kind: providers.Rejected, Code: "INVALID_PARAMETER_VALUE"}},
		"400 without an issue":         {canned{status: 400, body: `{"name":"INVALID_REQUEST"}`}, providers.Outcome{Kind: providers.Rejected, Code: "INVALID_REQUEST"}},
		"400 about a field":            {canned{status: 400, body: withField}, providers.Outcome{Kind: providers.Rejected, Code: "INVALID_PARAMETER_SYNTAX", Detail: "PayPal refused the field /purchase_units/@reference_id=='default'/amount/value (INVALID_PARAMETER_SYNTAX)"}},
		"400 of an issue that is none": {canned{status: 400, body: `{"name":"INVALID_REQUEST","details":[{"issue":"<b>"}]}`}, providers.Outcome{Kind: providers.Rejected, Code: codeUnrecognized}},
		"400 by something else":        {canned{status: 400, body: `<html>Bad Request</html>`}, unknown(codeUnreadableResponse)},
		"400 of a name that is none":   {canned{status: 400, body: `{"name":"<b>"}`}, unknown(codeUnreadableResponse)},
		"400 without a name":           {canned{status: 400, body: `{"error":"invalid"}`}, unknown(codeUnreadableResponse)},
		"401":                          {canned{status: 401, body: problemJSON("AUTHENTICATION_FAILURE", "")}, refused},
		"401 by the gateway":           {canned{status: 401, body: `{"error":"invalid_token","error_description":"Token signature verification failed"}`}, refused},
		"403":                          {canned{status: 403, body: problemJSON("NOT_AUTHORIZED", "PERMISSION_DENIED")}, refused},
		"403 by something else":        {canned{status: 403, body: `<html>Access Denied</html>`}, unknown(codeUnreadableResponse)},
		"404":                          {canned{status: 404, body: problemJSON("RESOURCE_NOT_FOUND", "X")}, providers.Outcome{Kind: providers.Rejected, Code: "X"}},
		"409":                          {canned{status: 409, body: problemJSON("RESOURCE_CONFLICT", "PREVIOUS_REQUEST_IN_PROGRESS")}, providers.Outcome{Kind: providers.Busy, Code: "PREVIOUS_REQUEST_IN_PROGRESS"}},
		"415":                          {canned{status: 415, body: problemJSON("UNSUPPORTED_MEDIA_TYPE", "")}, providers.Outcome{Kind: providers.Rejected, Code: "UNSUPPORTED_MEDIA_TYPE"}},
		"422":                          {unprocessable("PAYEE_ACCOUNT_RESTRICTED"), providers.Outcome{Kind: providers.Rejected, Code: "PAYEE_ACCOUNT_RESTRICTED"}},
		"422, compliance":              {unprocessable("COMPLIANCE_VIOLATION"), providers.Outcome{Kind: providers.Declined, Code: "COMPLIANCE_VIOLATION", Decline: &providers.Decline{Code: "COMPLIANCE_VIOLATION", Hard: true}}},
		"429":                          {canned{status: 429, header: map[string]string{"Retry-After": "7"}, body: problemJSON("RATE_LIMIT_REACHED", "")}, providers.Outcome{Kind: providers.Busy, Code: "RATE_LIMIT_REACHED", RetryAfter: 7 * time.Second}},
		"429, for a year":              {canned{status: 429, header: map[string]string{"Retry-After": "31536000"}, body: problemJSON("RATE_LIMIT_REACHED", "")}, providers.Outcome{Kind: providers.Busy, Code: "RATE_LIMIT_REACHED", RetryAfter: 10 * time.Minute}},
		"500":                          {canned{status: 500, body: problemJSON("INTERNAL_SERVER_ERROR", "")}, unknown(codeServerError)},
		"500 that says declined":       {canned{status: 500, body: problemJSON("UNPROCESSABLE_ENTITY", "INSTRUMENT_DECLINED")}, unknown(codeServerError)},
		"503":                          {canned{status: 503, header: map[string]string{"Retry-After": "-1"}}, unknown(codeServerError)},
		"504 page":                     {canned{status: 504, header: map[string]string{"Retry-After": "3"}, body: `<html>`}, providers.Outcome{Kind: providers.Unknown, Code: codeServerError, RetryAfter: 3 * time.Second}},
		"200 without a body":           {canned{status: 200}, unknown(codeUnreadableResponse)},
		"200 with another body":        {canned{status: 200, body: `[]`}, unknown(codeUnreadableResponse)},
		"200 with null":                {canned{status: 200, body: `null`}, unknown(codeOtherObject)},
		"200 with more than a body":    {canned{status: 200, body: orderJSON("APPROVED", "") + "x"}, unknown(codeUnreadableResponse)},
		"204":                          {canned{status: 204}, unknown(codeUnreadableResponse)},
		"302":                          {canned{status: 302, header: map[string]string{"Location": "/v2/checkout/orders"}}, unknown(codeRedirected)},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			adapter, _ := adapterAt(t, map[string][]canned{"POST /v2/checkout/orders": {test.answer}})
			if diff := cmp.Diff(test.want, adapter.Charge(t.Context(), chargeRequest("v1"))); diff != "" {
				t.Errorf("outcome (-want +got):\n%s", diff)
			}
		})
	}
}
