package paypal

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"paysaga/providers"
)

func TestCapture(t *testing.T) {
	t.Parallel()
	open := orderJSON("COMPLETED", authorizationJSON("CREATED"))
	own := func(status, value string) string {
		return strings.ReplaceAll(captureJSON("CAP9", status, value), "_charge", "_capture")
	}
	taken := providers.Outcome{Kind: providers.Succeeded, Reference: testOrder, Money: euros10}
	tests := map[string]struct {
		order  string
		answer canned // of the capture; without a status it is not expected
		want   providers.Outcome
	}{
		"taken":                    {open, canned{status: 201, body: own("COMPLETED", "10.00")}, taken},
		"a second part":            {orderJSON("COMPLETED", authorizationJSON("PARTIALLY_CAPTURED")+","+capturesJSON(strings.ReplaceAll(captureJSON("CAP1", "COMPLETED", "5.00"), "_charge", "_capture_2"))), canned{status: 201, body: own("COMPLETED", "10.00")}, taken},
		"adopted":                  {orderJSON("COMPLETED", authorizationJSON("PARTIALLY_CAPTURED")+","+capturesJSON(own("COMPLETED", "10.00"))), canned{}, taken},
		"adopted, refunded since":  {orderJSON("COMPLETED", authorizationJSON("CAPTURED")+","+capturesJSON(own("REFUNDED", "10.00"))), canned{}, providers.Outcome{Kind: providers.Succeeded, Code: providers.CodeRefunded, Reference: testOrder, Money: euros10}},
		"adopted, other amount":    {orderJSON("COMPLETED", authorizationJSON("CAPTURED")+","+capturesJSON(own("COMPLETED", "11.00"))), canned{}, providers.Outcome{Kind: providers.Unknown, Code: codeCaptureMismatch, Reference: testOrder, Money: providers.Money{Amount: 1100, Currency: "EUR"}}},
		"pending":                  {open, canned{status: 201, body: own("PENDING", "10.00")}, providers.Outcome{Kind: providers.Processing, Code: "PENDING", Reference: testOrder, Money: euros10}},
		"declined":                 {open, canned{status: 201, body: own("DECLINED", "10.00")}, providers.Outcome{Kind: providers.Declined, Code: "DECLINED", Reference: testOrder, Money: euros10, Decline: &providers.Decline{Code: "DECLINED"}}},
		"another's answer":         {open, canned{status: 201, body: captureJSON("CAP9", "COMPLETED", "10.00")}, providers.Outcome{Kind: providers.Unknown, Code: providers.CodeOtherPayment, Reference: testOrder}},
		"refused":                  {open, unprocessable("TRANSACTION_REFUSED"), providers.Outcome{Kind: providers.Declined, Code: "TRANSACTION_REFUSED", Reference: testOrder, Decline: &providers.Decline{Code: "TRANSACTION_REFUSED"}}},
		"too much":                 {open, unprocessable("MAX_CAPTURE_AMOUNT_EXCEEDED"), providers.Outcome{Kind: providers.Rejected, Code: "MAX_CAPTURE_AMOUNT_EXCEEDED", Reference: testOrder}},
		"expired":                  {open, unprocessable("AUTHORIZATION_EXPIRED"), providers.Outcome{Kind: providers.Canceled, Code: providers.CodeAuthorizationExpired, Reference: testOrder}},
		"voided meanwhile":         {open, unprocessable("AUTHORIZATION_VOIDED"), providers.Outcome{Kind: providers.Canceled, Code: "AUTHORIZATION_VOIDED", Reference: testOrder}},
		"captured meanwhile":       {open, unprocessable("AUTHORIZATION_ALREADY_CAPTURED"), providers.Outcome{Kind: providers.Rejected, Code: "AUTHORIZATION_ALREADY_CAPTURED", Reference: testOrder}},
		"200 with an empty body":   {open, canned{status: 201}, providers.Outcome{Kind: providers.Unknown, Code: codeUnreadableResponse, Reference: testOrder}},
		"seen before":              {open, unprocessable("DUPLICATE_INVOICE_ID"), providers.Outcome{Kind: providers.Unknown, Code: providers.CodeIdempotencyMismatch, Reference: testOrder}},
		"voided":                   {orderJSON("VOIDED", authorizationJSON("VOIDED")), canned{}, providers.Outcome{Kind: providers.Canceled, Code: "VOIDED", Reference: testOrder, Money: euros39}},
		"captured":                 {orderJSON("COMPLETED", authorizationJSON("CAPTURED")), canned{}, providers.Outcome{Kind: providers.Rejected, Code: codeAuthorizationClosed, Reference: testOrder}},
		"nothing held":             {orderJSON("APPROVED", ""), canned{}, providers.Outcome{Kind: providers.Rejected, Code: codeNothingHeld, Reference: testOrder}},
		"an id that is no id":      {orderJSON("COMPLETED", strings.ReplaceAll(authorizationJSON("CREATED"), "AUTH1", "../x")), canned{}, providers.Outcome{Kind: providers.Rejected, Code: codeNothingHeld, Reference: testOrder}},
		"another saga's":           {strings.ReplaceAll(open, testSagaKey, "other"), canned{}, providers.Outcome{Kind: providers.Unknown, Code: providers.CodeOtherPayment}},
		"an order of two units":    {strings.ReplaceAll(open, `"purchase_units":[`, `"purchase_units":[{},`), canned{}, providers.Outcome{Kind: providers.Unknown, Code: codeOtherObject}},
		"a look at another object": {strings.ReplaceAll(open, testOrder, "OTHER"), canned{}, providers.Outcome{Kind: providers.Unknown, Code: codeOtherObject}},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			answers := map[string][]canned{"GET " + orderPath: ok(test.order)}
			if test.answer.status != 0 {
				answers["POST /v2/payments/authorizations/AUTH1/capture"] = []canned{test.answer}
			}
			adapter, _ := adapterAt(t, answers)
			if diff := cmp.Diff(test.want, adapter.Capture(t.Context(), captureRequest())); diff != "" {
				t.Errorf("outcome (-want +got):\n%s", diff)
			}
		})
	}
}

func TestVoid(t *testing.T) {
	t.Parallel()
	open := orderJSON("COMPLETED", authorizationJSON("CREATED"))
	gone := providers.Outcome{Kind: providers.Succeeded, Reference: testOrder}
	nothing := providers.Outcome{Kind: providers.Succeeded, Code: codeNothingToVoid, Reference: testOrder}
	already := providers.Outcome{Kind: providers.Succeeded, Code: codeAlreadyVoided, Reference: testOrder}
	captured := providers.Outcome{Kind: providers.Rejected, Code: providers.CodeAlreadyCaptured, Reference: testOrder}
	paid := captured
	paid.Money = euros39
	tests := map[string]struct {
		order  string
		answer canned // of the void; without a status it is not expected
		want   providers.Outcome
	}{
		"voided":                    {open, canned{status: 204}, gone},
		"voided, told in full":      {open, canned{status: 200, body: `{"id":"AUTH1","status":"VOIDED"}`}, gone},
		"not voided after all":      {open, canned{status: 200, body: `{"id":"AUTH1","status":"CREATED"}`}, providers.Outcome{Kind: providers.Unknown, Code: codeNotVoided, Reference: testOrder}},
		"half an answer":            {open, canned{status: 200, body: `{"id":"AUTH1",`}, providers.Outcome{Kind: providers.Unknown, Code: codeUnreadableResponse, Reference: testOrder}},
		"pending":                   {orderJSON("COMPLETED", authorizationJSON("PENDING")), canned{status: 204}, gone},
		"voided by another call":    {open, unprocessable("PREVIOUSLY_VOIDED"), already},
		"captured by another call":  {open, unprocessable("PREVIOUSLY_CAPTURED"), captured},
		"cannot be":                 {open, unprocessable("CANNOT_BE_VOIDED"), providers.Outcome{Kind: providers.Rejected, Code: "CANNOT_BE_VOIDED", Reference: testOrder}},
		"in progress":               {open, canned{status: 409, body: problemJSON("RESOURCE_CONFLICT", "PREVIOUS_REQUEST_IN_PROGRESS")}, providers.Outcome{Kind: providers.Busy, Code: "PREVIOUS_REQUEST_IN_PROGRESS", Reference: testOrder}},
		"500":                       {open, canned{status: 500, body: problemJSON("INTERNAL_SERVER_ERROR", "")}, providers.Outcome{Kind: providers.Unknown, Code: codeServerError, Reference: testOrder}},
		"voided before":             {orderJSON("COMPLETED", authorizationJSON("VOIDED")), canned{}, already},
		"expired before":            {orderJSON("COMPLETED", authorizationJSON("EXPIRED")), canned{}, already},
		"denied before":             {orderJSON("COMPLETED", authorizationJSON("DENIED")), canned{}, nothing},
		"never approved":            {orderJSON("PAYER_ACTION_REQUIRED", ""), canned{}, nothing},
		"approved, not continued":   {orderJSON("APPROVED", ""), canned{}, nothing},
		"declined":                  {orderJSON("COMPLETED", capturesJSON(captureJSON("CAP1", "DECLINED", "39.98"))), canned{}, nothing},
		"captured":                  {orderJSON("COMPLETED", capturesJSON(captureJSON("CAP1", "COMPLETED", "39.98"))), canned{}, paid},
		"captured and refunded":     {orderJSON("COMPLETED", capturesJSON(captureJSON("CAP1", "REFUNDED", "39.98"))), canned{}, paid},
		"captured, being refunded":  {orderJSON("COMPLETED", capturesJSON(captureJSON("CAP1", "REFUNDED", "39.98"))+","+refundsJSON(refundJSON("R1", "PENDING", "39.98", ""))), canned{}, paid},
		"captured in part":          {orderJSON("COMPLETED", authorizationJSON("PARTIALLY_CAPTURED")+","+capturesJSON(captureJSON("CAP1", "COMPLETED", "39.98"))), canned{}, paid},
		"captured, without capture": {orderJSON("COMPLETED", authorizationJSON("CAPTURED")), canned{}, captured},
		"being captured":            {orderJSON("COMPLETED", capturesJSON(captureJSON("CAP1", "PENDING", "39.98"))), canned{}, providers.Outcome{Kind: providers.Busy, Code: providers.CodeNotCancelableYet, Reference: testOrder, RetryAfter: operatorDelay}},
		"capture unreadable":        {orderJSON("COMPLETED", capturesJSON(captureJSON("CAP1", "NEW_STATUS", "39.98"))), canned{}, providers.Outcome{Kind: providers.Unknown, Code: codeStatusUnrecognized, Reference: testOrder}},
		"capture declined before":   {orderJSON("COMPLETED", authorizationJSON("CREATED")+","+capturesJSON(captureJSON("CAP1", "DECLINED", "10.00"))), canned{status: 204}, gone},
		"an id that is no id":       {orderJSON("COMPLETED", strings.ReplaceAll(authorizationJSON("CREATED"), "AUTH1", "../x")), canned{}, providers.Outcome{Kind: providers.Unknown, Code: codeOtherObject, Reference: testOrder}},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			answers := map[string][]canned{"GET " + orderPath: ok(test.order)}
			if test.answer.status != 0 {
				answers["POST /v2/payments/authorizations/AUTH1/void"] = []canned{test.answer}
			}
			adapter, _ := adapterAt(t, answers)
			if diff := cmp.Diff(test.want, adapter.Void(t.Context(), voidRequest())); diff != "" {
				t.Errorf("outcome (-want +got):\n%s", diff)
			}
		})
	}
}

func TestRefund(t *testing.T) {
	t.Parallel()
	const refundKey = testSagaKey + "_refund"
	paid := orderJSON("COMPLETED", capturesJSON(captureJSON("CAP1", "COMPLETED", "39.98")))
	two := capturesJSON(captureJSON("CAP0", "COMPLETED", "9.00"), captureJSON("CAP1", "COMPLETED", "15.00"))
	upTo := func(capture string) string {
		return strings.TrimSuffix(refundJSON("R1", "COMPLETED", "6.00", "other"), "}") + `,"links":[{"rel":"up","href":"https://api-m.paypal.com/v2/payments/captures/` + capture + `"}]}`
	}
	back := providers.Outcome{Kind: providers.Succeeded, Reference: "REF1", Money: euros10}
	tests := map[string]struct {
		order  string
		answer canned // of the refund; without a status it is not expected
		want   providers.Outcome
	}{
		"given back":                        {paid, canned{status: 201, body: refundJSON("REF1", "COMPLETED", "10.00", refundKey)}, back},
		"on its way":                        {paid, canned{status: 201, body: refundJSON("REF1", "PENDING", "10.00", refundKey)}, providers.Outcome{Kind: providers.Processing, Code: "PENDING", Reference: "REF1", Money: euros10}},
		"failed":                            {paid, canned{status: 201, body: refundJSON("REF1", "FAILED", "10.00", refundKey)}, providers.Outcome{Kind: providers.Declined, Code: "FAILED", Reference: "REF1", Money: euros10, Decline: &providers.Decline{Code: "FAILED", Hard: true}}},
		"canceled":                          {paid, canned{status: 201, body: refundJSON("REF1", "CANCELLED", "10.00", refundKey)}, providers.Outcome{Kind: providers.Canceled, Code: "CANCELLED", Reference: "REF1", Money: euros10}},
		"of another status":                 {paid, canned{status: 201, body: refundJSON("REF1", "NEW", "10.00", refundKey)}, providers.Outcome{Kind: providers.Unknown, Code: codeStatusUnrecognized, Reference: "REF1", Money: euros10}},
		"of another amount form":            {paid, canned{status: 201, body: refundJSON("REF1", "COMPLETED", "1e1", refundKey)}, providers.Outcome{Kind: providers.Unknown, Code: codeAmountUnreadable, Reference: "REF1"}},
		"another's answer":                  {paid, canned{status: 201, body: refundJSON("REF1", "COMPLETED", "10.00", refundKey+"_2")}, providers.Outcome{Kind: providers.Unknown, Code: providers.CodeOtherPayment}},
		"adopted":                           {orderJSON("COMPLETED", capturesJSON(captureJSON("CAP1", "PARTIALLY_REFUNDED", "39.98"))+","+refundsJSON(refundJSON("REF1", "COMPLETED", "10.00", refundKey))), canned{}, back},
		"another refund before":             {orderJSON("COMPLETED", capturesJSON(captureJSON("CAP1", "PARTIALLY_REFUNDED", "39.98"))+","+refundsJSON(refundJSON("R0", "COMPLETED", "10.00", refundKey+"_2"))), canned{status: 201, body: refundJSON("REF1", "COMPLETED", "10.00", refundKey)}, back},
		"all given back before":             {paid, unprocessable("CAPTURE_FULLY_REFUNDED"), providers.Outcome{Kind: providers.Succeeded, Code: providers.CodeAlreadyRefunded}},
		"capture pending":                   {paid, unprocessable("PENDING_CAPTURE"), providers.Outcome{Kind: providers.Busy, Code: "PENDING_CAPTURE", RetryAfter: operatorDelay}},
		"in progress":                       {paid, canned{status: 409, body: problemJSON("RESOURCE_CONFLICT", "PREVIOUS_REQUEST_IN_PROGRESS")}, providers.Outcome{Kind: providers.Busy, Code: "PREVIOUS_REQUEST_IN_PROGRESS"}},
		"too much":                          {paid, unprocessable("REFUND_AMOUNT_EXCEEDED"), providers.Outcome{Kind: providers.Rejected, Code: "REFUND_AMOUNT_EXCEEDED"}},
		"shop has no money":                 {paid, unprocessable("REFUND_FAILED_INSUFFICIENT_FUNDS"), providers.Outcome{Kind: providers.Declined, Code: "REFUND_FAILED_INSUFFICIENT_FUNDS", Decline: &providers.Decline{Code: "REFUND_FAILED_INSUFFICIENT_FUNDS"}}},
		"seen before":                       {paid, unprocessable("DUPLICATE_INVOICE_ID"), providers.Outcome{Kind: providers.Unknown, Code: providers.CodeIdempotencyMismatch}},
		"201 with an empty body":            {paid, canned{status: 201}, providers.Outcome{Kind: providers.Unknown, Code: codeUnreadableResponse}},
		"nothing taken":                     {orderJSON("COMPLETED", capturesJSON(captureJSON("CAP1", "DECLINED", "39.98"))), canned{}, providers.Outcome{Kind: providers.Rejected, Code: codeNothingTaken}},
		"of two, the one with room":         {orderJSON("COMPLETED", authorizationJSON("CAPTURED")+","+two), canned{status: 201, body: refundJSON("REF1", "COMPLETED", "10.00", refundKey)}, back},
		"refunds of the other do not count": {orderJSON("COMPLETED", authorizationJSON("CAPTURED")+","+two+","+refundsJSON(upTo("CAP0"))), canned{status: 201, body: refundJSON("REF1", "COMPLETED", "10.00", refundKey)}, back},
		"no room in any":                    {orderJSON("COMPLETED", authorizationJSON("CAPTURED")+","+two+","+refundsJSON(upTo("CAP1"))), canned{}, providers.Outcome{Kind: providers.Rejected, Code: codeRefundSpansCaptures}},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			answers := map[string][]canned{"GET " + orderPath: ok(test.order)}
			if test.answer.status != 0 {
				answers["POST /v2/payments/captures/CAP1/refund"] = []canned{test.answer}
			}
			adapter, _ := adapterAt(t, answers)
			if diff := cmp.Diff(test.want, adapter.Refund(t.Context(), refundRequest())); diff != "" {
				t.Errorf("outcome (-want +got):\n%s", diff)
			}
		})
	}
}

func TestLookupRefund(t *testing.T) {
	t.Parallel()
	const refundKey = testSagaKey + "_refund"
	with := func(refunds ...string) string {
		return orderJSON("COMPLETED", capturesJSON(captureJSON("CAP1", "PARTIALLY_REFUNDED", "39.98"))+","+refundsJSON(refunds...))
	}
	back := providers.Outcome{Kind: providers.Succeeded, Reference: "REF1", Money: euros10}
	missing := canned{status: 404, body: problemJSON("RESOURCE_NOT_FOUND", "INVALID_RESOURCE_ID")}
	tests := map[string]struct {
		reference string
		order     canned
		refund    canned // GET by id; without a status it is not expected
		want      providers.Outcome
	}{
		"by key":               {"", canned{status: 200, body: with(refundJSON("REF1", "COMPLETED", "10.00", refundKey))}, canned{}, back},
		"by id":                {"REF1", canned{status: 200, body: with(refundJSON("REF0", "FAILED", "1.00", "x"), refundJSON("REF1", "COMPLETED", "10.00", ""))}, canned{}, back},
		"by id, elsewhere":     {"REF1", canned{status: 200, body: with()}, canned{status: 200, body: refundJSON("REF1", "COMPLETED", "10.00", refundKey)}, back},
		"by id, another's":     {"REF1", canned{status: 200, body: with()}, canned{status: 200, body: refundJSON("REF1", "COMPLETED", "10.00", "other")}, providers.Outcome{Kind: providers.Unknown, Code: providers.CodeOtherPayment}},
		"by id, another id":    {"REF1", canned{status: 200, body: with()}, canned{status: 200, body: refundJSON("REF2", "COMPLETED", "10.00", refundKey)}, providers.Outcome{Kind: providers.Unknown, Code: providers.CodeOtherPayment}},
		"by id, nowhere":       {"REF1", canned{status: 200, body: with()}, missing, providers.Outcome{Kind: providers.NotFound, Code: "INVALID_RESOURCE_ID", Reference: "REF1"}},
		"none":                 {"", canned{status: 200, body: with(refundJSON("REF0", "COMPLETED", "10.00", "other"))}, canned{}, providers.Outcome{Kind: providers.NotFound}},
		"no order":             {"REF1", missing, canned{}, providers.Outcome{Kind: providers.NotFound, Code: "INVALID_RESOURCE_ID", Reference: "REF1"}},
		"a broken look":        {"", canned{status: 400, body: problemJSON("INVALID_REQUEST", "X")}, canned{}, providers.Outcome{Kind: providers.Unknown, Code: "X"}},
		"a broken second look": {"REF1", canned{status: 200, body: with()}, canned{status: 503}, providers.Outcome{Kind: providers.Unknown, Code: codeServerError, Reference: "REF1"}},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			answers := map[string][]canned{"GET " + orderPath: {test.order}}
			if test.refund.status != 0 {
				answers["GET /v2/payments/refunds/REF1"] = []canned{test.refund}
			}
			adapter, _ := adapterAt(t, answers)
			if diff := cmp.Diff(test.want, adapter.LookupRefund(t.Context(), refundLookup(test.reference))); diff != "" {
				t.Errorf("outcome (-want +got):\n%s", diff)
			}
		})
	}
}
