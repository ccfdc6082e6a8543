package paypal

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"paysaga/providers"
)

// TestOutcomeOfOrder: every status of orders, captures and authorizations.
func TestOutcomeOfOrder(t *testing.T) {
	t.Parallel()
	made := func(status string, money providers.Money, kind providers.OutcomeKind, code string) providers.Outcome {
		outcome := providers.Outcome{Kind: kind, Code: code, Reference: testOrder, Money: money}
		if kind == providers.Declined {
			outcome.Decline = &providers.Decline{Code: status}
		}
		return outcome
	}
	captured := func(status string) string {
		return orderJSON("COMPLETED", capturesJSON(captureJSON("CAP1", status, "39.98")))
	}
	held := func(status string) string { return orderJSON("COMPLETED", authorizationJSON(status)) }
	unreadable := func(code string) providers.Outcome {
		return providers.Outcome{Kind: providers.Unknown, Code: code, Reference: testOrder, Money: euros39}
	}
	final := func(capture string) string { return strings.Replace(capture, `{`, `{"final_capture":true,`, 1) }
	ended := `"authorizations":[{"id":"AUTH1","status":"VOIDED","amount":{"currency_code":"EUR","value":"39.98"},` +
		`"update_time":"2026-03-30T00:00:00Z","expiration_time":"2026-03-30T00:00:00+0000"}]`
	tests := map[string]struct {
		order string
		want  providers.Outcome
	}{
		"CREATED":                     {strings.ReplaceAll(orderJSON("CREATED", ""), "payer-action", "approve"), providers.Outcome{Kind: providers.ActionRequired, Reference: testOrder, Money: euros39, NextAction: payHere}},
		"PAYER_ACTION_REQUIRED":       {orderJSON("PAYER_ACTION_REQUIRED", ""), providers.Outcome{Kind: providers.ActionRequired, Reference: testOrder, Money: euros39, NextAction: payHere}},
		"no page to go to":            {strings.ReplaceAll(orderJSON("PAYER_ACTION_REQUIRED", ""), "https://www.", "javascript://www."), unreadable(codeNextActionMissing)},
		"SAVED":                       {orderJSON("SAVED", ""), made("", euros39, providers.Processing, "SAVED")},
		"APPROVED":                    {orderJSON("APPROVED", ""), made("", euros39, providers.Processing, providers.CodeApproved)},
		"VOIDED":                      {orderJSON("VOIDED", ""), made("", euros39, providers.Canceled, codeOrderVoided)},
		"COMPLETED without a payment": {orderJSON("COMPLETED", ""), unreadable(codePaymentMissing)},
		"order of another status":     {orderJSON("NEW", ""), unreadable(codeStatusUnrecognized)},

		"capture COMPLETED":            {captured("COMPLETED"), made("", euros39, providers.Succeeded, "")},
		"capture PARTIALLY_REFUNDED":   {captured("PARTIALLY_REFUNDED"), made("", euros39, providers.Succeeded, providers.CodePartiallyRefunded)},
		"capture REFUNDED":             {captured("REFUNDED"), made("", euros39, providers.Canceled, providers.CodeRefunded)},
		"capture PENDING":              {captured("PENDING"), made("", euros39, providers.Processing, "PENDING")},
		"capture DECLINED":             {captured("DECLINED"), made("DECLINED", euros39, providers.Declined, "DECLINED")},
		"capture DENIED":               {captured("DENIED"), made("DENIED", euros39, providers.Declined, "DENIED")},
		"capture FAILED":               {captured("FAILED"), made("FAILED", euros39, providers.Declined, "FAILED")},
		"capture of another status":    {captured("NEW"), unreadable(codeStatusUnrecognized)},
		"capture without an id":        {strings.ReplaceAll(captured("COMPLETED"), "CAP1", ""), unreadable(codeOtherObject)},
		"capture without an amount":    {orderJSON("COMPLETED", `"captures":[{"id":"C","status":"COMPLETED"}]`), unreadable(codeAmountUnreadable)},
		"capture PENDING for a reason": {orderJSON("COMPLETED", `"captures":[{"id":"C","status":"PENDING","status_details":{"reason":"ECHECK"},"amount":{"currency_code":"EUR","value":"39.98"}}]`), made("", euros39, providers.Processing, "ECHECK")},
		"capture, hard decline":        {orderJSON("COMPLETED", `"captures":[{"id":"C","status":"DECLINED","processor_response":{"response_code":"5400"},"amount":{"currency_code":"EUR","value":"39.98"}}]`), providers.Outcome{Kind: providers.Declined, Code: "DECLINED", Reference: testOrder, Money: euros39, Decline: &providers.Decline{Code: "DECLINED", Bank: "5400", Hard: true}}},
		"capture, network says never":  {orderJSON("COMPLETED", `"captures":[{"id":"C","status":"DECLINED","processor_response":{"response_code":"5 x","payment_advice_code":"03"},"amount":{"currency_code":"EUR","value":"39.98"}}]`), providers.Outcome{Kind: providers.Declined, Code: "DECLINED", Reference: testOrder, Money: euros39, Decline: &providers.Decline{Code: "DECLINED", Bank: codeUnrecognized, Hard: true}}},
		"refund of all on its way":     {orderJSON("COMPLETED", capturesJSON(captureJSON("C", "REFUNDED", "39.98"))+","+refundsJSON(refundJSON("R", "PENDING", "39.98", ""))), made("", euros39, providers.Processing, codeRefundPending)},

		"authorization CREATED":            {held("CREATED"), made("", euros39, providers.Authorized, "")},
		"authorization PENDING":            {held("PENDING"), made("", euros39, providers.Processing, "PENDING")},
		"authorization DENIED":             {held("DENIED"), made("DENIED", euros39, providers.Declined, "DENIED")},
		"authorization VOIDED":             {held("VOIDED"), made("", euros39, providers.Canceled, "VOIDED")},
		"authorization VOIDED at its end":  {orderJSON("COMPLETED", ended), made("", euros39, providers.Canceled, providers.CodeAuthorizationExpired)},
		"authorization EXPIRED":            {held("EXPIRED"), made("", euros39, providers.Canceled, providers.CodeAuthorizationExpired)},
		"authorization CAPTURED, not seen": {held("CAPTURED"), unreadable(codePaymentMissing)},
		"authorization of another status":  {held("PARTIALLY_CREATED"), unreadable(codeStatusUnrecognized)},
		"authorization without an amount":  {orderJSON("COMPLETED", `"authorizations":[{"id":"A","status":"CREATED"}]`), unreadable(codeAmountUnreadable)},
		"a second authorization":           {orderJSON("COMPLETED", `"authorizations":[{"id":"A","status":"DENIED"},{"id":"B","status":"CREATED","amount":{"currency_code":"EUR","value":"39.98"}}]`), made("", euros39, providers.Authorized, "")},

		"captured in part":              {orderJSON("COMPLETED", authorizationJSON("PARTIALLY_CAPTURED")+","+capturesJSON(captureJSON("C", "COMPLETED", "10.00"))), made("", euros39, providers.Authorized, providers.CodePartiallyCaptured)},
		"captured in part, for good":    {orderJSON("COMPLETED", authorizationJSON("PARTIALLY_CAPTURED")+","+capturesJSON(final(captureJSON("C", "COMPLETED", "10.00")))), made("", euros10, providers.Succeeded, "")},
		"the final part was declined":   {orderJSON("COMPLETED", authorizationJSON("PARTIALLY_CAPTURED")+","+capturesJSON(captureJSON("C", "COMPLETED", "10.00"), final(captureJSON("D", "DECLINED", "29.98")))), made("", euros39, providers.Authorized, providers.CodePartiallyCaptured)},
		"captured in part, given back":  {orderJSON("COMPLETED", authorizationJSON("PARTIALLY_CAPTURED")+","+capturesJSON(captureJSON("C", "REFUNDED", "10.00"))), made("", euros39, providers.Authorized, providers.CodePartiallyCaptured)},
		"captured in part, unreadable":  {orderJSON("COMPLETED", authorizationJSON("PARTIALLY_CAPTURED")+","+capturesJSON(captureJSON("C", "OF TOMORROW", "10.00"))), unreadable(codeStatusUnrecognized)},
		"part of an unreadable hold":    {orderJSON("COMPLETED", strings.ReplaceAll(authorizationJSON("PARTIALLY_CAPTURED"), "39.98", "39,98")+","+capturesJSON(captureJSON("C", "COMPLETED", "10.00"))), unreadable(codeAmountUnreadable)},
		"captured in two parts":         {orderJSON("COMPLETED", authorizationJSON("CAPTURED")+","+capturesJSON(captureJSON("C", "COMPLETED", "10.00"), captureJSON("D", "REFUNDED", "29.98"))), made("", euros39, providers.Succeeded, providers.CodePartiallyRefunded)},
		"one part of two still pending": {orderJSON("COMPLETED", authorizationJSON("PARTIALLY_CAPTURED")+","+capturesJSON(captureJSON("C", "COMPLETED", "10.00"), captureJSON("D", "PENDING", "29.98"))), made("", euros39, providers.Authorized, providers.CodePartiallyCaptured)},
		"declined, then taken":          {orderJSON("COMPLETED", capturesJSON(captureJSON("C", "DECLINED", "39.98"), captureJSON("D", "COMPLETED", "39.98"))), made("", euros39, providers.Succeeded, "")},
		"capture declined, still held":  {orderJSON("COMPLETED", authorizationJSON("CREATED")+","+capturesJSON(captureJSON("C", "DECLINED", "10.00"))), made("", euros39, providers.Authorized, "")},
		"captured in part, then voided": {orderJSON("COMPLETED", authorizationJSON("VOIDED")+","+capturesJSON(captureJSON("C", "COMPLETED", "10.00"))), made("", euros10, providers.Succeeded, "")},
		"captures of two currencies":    {orderJSON("COMPLETED", capturesJSON(captureJSON("C", "COMPLETED", "10.00"), strings.ReplaceAll(captureJSON("D", "COMPLETED", "10.00"), "EUR", "USD"))), unreadable(codeAmountUnreadable)},

		"order of an unreadable amount": {strings.ReplaceAll(orderJSON("APPROVED", ""), "39.98", "39,98"), providers.Outcome{Kind: providers.Unknown, Code: codeAmountUnreadable, Reference: testOrder}},
		"order without an amount":       {`{"id":"A","status":"APPROVED","purchase_units":[{}]}`, providers.Outcome{Kind: providers.Processing, Code: providers.CodeApproved, Reference: "A"}},
		"no order":                      {`{}`, providers.Outcome{Kind: providers.Unknown, Code: codeOtherObject}},
		"order without an id":           {strings.ReplaceAll(orderJSON("APPROVED", ""), testOrder, ""), providers.Outcome{Kind: providers.Unknown, Code: codeOtherObject}},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var read order
			if err := json.Unmarshal([]byte(test.order), &read); err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(test.want, outcomeOfOrder(&read)); diff != "" {
				t.Errorf("outcome (-want +got):\n%s", diff)
			}
		})
	}
}

func TestLookupByReference(t *testing.T) {
	t.Parallel()
	paid := orderJSON("COMPLETED", capturesJSON(captureJSON("CAP1", "COMPLETED", "39.98")))
	tests := map[string]struct {
		answer canned
		want   providers.Outcome
	}{
		"paid":                         {canned{status: 200, body: paid}, providers.Outcome{Kind: providers.Succeeded, Reference: testOrder, Money: euros39}},
		"another attempt":              {canned{status: 200, body: strings.ReplaceAll(paid, "_charge", "_charge_2")}, providers.Outcome{Kind: providers.Unknown, Code: providers.CodeOtherPayment}},
		"another object":               {canned{status: 200, body: `{"id":"A","purchase_units":[{}]}`}, providers.Outcome{Kind: providers.Unknown, Code: codeOtherObject}},
		"empty":                        {canned{status: 200}, providers.Outcome{Kind: providers.Unknown, Code: codeUnreadableResponse, Reference: testOrder}},
		"400":                          {canned{status: 400, body: problemJSON("INVALID_REQUEST", "X")}, providers.Outcome{Kind: providers.Unknown, Code: "X", Reference: testOrder}},
		"422, declined":                {unprocessable("INSTRUMENT_DECLINED"), providers.Outcome{Kind: providers.Unknown, Code: "INSTRUMENT_DECLINED", Reference: testOrder}},
		"429":                          {canned{status: 429, header: map[string]string{"Retry-After": "0"}, body: problemJSON("RATE_LIMIT_REACHED", "")}, providers.Outcome{Kind: providers.Busy, Code: "RATE_LIMIT_REACHED", Reference: testOrder}},
		"404, in no words of PayPal's": {canned{status: 404, body: `<html>`}, providers.Outcome{Kind: providers.Unknown, Code: codeUnreadableResponse, Reference: testOrder}},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			adapter, _ := adapterAt(t, map[string][]canned{"GET " + orderPath: {test.answer}})
			if diff := cmp.Diff(test.want, adapter.Lookup(t.Context(), lookupRequest(testOrder))); diff != "" {
				t.Errorf("outcome (-want +got):\n%s", diff)
			}
		})
	}
}

func FuzzOrder(f *testing.F) {
	f.Add([]byte(orderJSON("COMPLETED", authorizationJSON("CREATED")+","+capturesJSON(captureJSON("C", "COMPLETED", "1.00"))+","+refundsJSON(refundJSON("R", "PENDING", "1.00", "")))))
	f.Add([]byte(`{"id":"A","purchase_units":[{"payments":{"captures":[null],"authorizations":[null],"refunds":[null]}}]}`))
	f.Fuzz(func(t *testing.T, body []byte) {
		var read order
		if json.Unmarshal(body, &read) != nil {
			return
		}
		outcome := outcomeOfOrder(&read)
		if outcome.Kind == providers.Succeeded && (outcome.Reference == "" || outcome.Money.Amount == 0 && !strings.Contains(string(body), "0")) {
			t.Errorf("%s: %+v", body, outcome)
		}
		if unit, ok := read.unit(); ok {
			unit.Payments.refundable(euros10)
			outcomeWithoutVoid(unit)
		}
	})
}
