package adyen

import (
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"paysaga/providers"
)

const (
	paymentPSP = "9913140798220028"
	ownPSP     = "JDD6LKT8MBLZNN84"
)

// notified is the one notice of an event about ours.
func notified(t *testing.T, fields map[string]any) providers.Notice {
	t.Helper()
	item := map[string]any{
		"pspReference": ownPSP, "originalReference": paymentPSP, "merchantAccountCode": "TestMerchant", "merchantReference": string(testKey),
		"amount": map[string]any{"value": 3998, "currency": "EUR"}, "success": "true", "eventDate": "2021-01-01T00:30:00+01:00", "reason": "",
	}
	for name, value := range fields {
		item[name] = value
		if value == nil {
			delete(item, name)
		}
	}
	notices, err := webhookWith(t, knownKey).Parse(nil, batchOf(t, signed(t, knownKey, item)), arrival)
	if err != nil || len(notices) != 1 {
		t.Fatalf("%+v, %v", notices, err)
	}
	return notices[0]
}

func TestWhatEachEventSays(t *testing.T) {
	t.Parallel()
	failure := func(code string) providers.Outcome {
		return providers.Outcome{Kind: providers.Declined, Code: code, Decline: &providers.Decline{Code: code}}
	}
	is := func(kind providers.OutcomeKind, code string) providers.Outcome {
		return providers.Outcome{Kind: kind, Code: code}
	}
	data := func(pairs ...string) map[string]any {
		additional := map[string]any{}
		for i := 0; i < len(pairs); i += 2 {
			additional[pairs[i]] = pairs[i+1]
		}
		return additional
	}
	hard := failure("expired_card")
	hard.Decline = &providers.Decline{Code: "expired_card", Bank: "54", Hard: true}
	tests := []struct {
		event   string
		success string
		reason  string
		data    map[string]any
		about   providers.About
		want    providers.Outcome
	}{
		{"CAPTURE", "true", "", nil, "capture", is(providers.Succeeded, "")},
		{"CAPTURE", "true", "Transaction Recaptured", nil, "capture", is(providers.Succeeded, "")},
		{"CAPTURE", "false", "Insufficient balance on payment", nil, "capture", failure("capture_refused")},
		{"CAPTURE", "true", "", data("acquirerErrorCode", "10606", "paypalErrorCode", "10606"), "capture", is(providers.Unknown, "success_contradicted")},
		{"CAPTURE", "true", "", data("acquirerErrorCode", "0", "errorCode", ""), "capture", is(providers.Succeeded, "")},
		{"CAPTURE", "false", "", data("acquirerErrorCode", "10606"), "capture", failure("capture_refused")},
		{"CAPTURE_FAILED", "true", "Capture Failed", nil, "capture", failure("capture_failed")},
		{"CAPTURE_FAILED", "true", "Capture Failed", data("acquirerErrorCode", "1"), "capture", failure("capture_failed")},
		{"CAPTURE_FAILED", "false", "", nil, "capture", is(providers.Unknown, "success_unexpected")},
		{"CANCELLATION", "true", "", nil, "void", is(providers.Succeeded, "")},
		{"CANCELLATION", "true", "", data("errorCode", "5"), "void", is(providers.Unknown, "success_contradicted")},
		{"CANCELLATION", "false", "Transaction already captured", nil, "void", is(providers.Rejected, providers.CodeAlreadyCaptured)},
		{"CANCELLATION", "false", "Transaction has been captured, cancel not possible", nil, "void", is(providers.Rejected, providers.CodeAlreadyCaptured)},
		{"CANCELLATION", "false", "Transaction hasn't been captured", nil, "void", is(providers.Rejected, "void_refused")},
		{"CANCELLATION", "false", "Transaction has not been captured", nil, "void", is(providers.Rejected, "void_refused")},
		{"CANCELLATION", "false", "Transaction not found", nil, "void", is(providers.Rejected, "void_refused")},
		{"TECHNICAL_CANCEL", "true", "", nil, "void", is(providers.Succeeded, "")},
		{"TECHNICAL_CANCEL", "false", "", nil, "void", is(providers.Rejected, "void_refused")},
		{"CANCEL_OR_REFUND", "true", "", data("modification.action", "cancel"), "void", is(providers.Succeeded, "")},
		{"CANCEL_OR_REFUND", "true", "", data("modification.action", "refund"), "void", is(providers.Succeeded, providers.CodeRefunded)},
		{"CANCEL_OR_REFUND", "true", "", nil, "void", is(providers.Succeeded, "")},
		{"CANCEL_OR_REFUND", "false", "", data("modification.action", "refund"), "void", is(providers.Rejected, "void_refused")},
		{"REFUND", "true", "", nil, "refund", is(providers.Succeeded, "")},
		{"REFUND", "false", "Transaction hasn't been captured, refund not possible", nil, "refund", failure("refund_refused")},
		{"REFUND", "true", "", data("acquirerErrorCode", "10009"), "refund", is(providers.Unknown, "success_contradicted")},
		{"REFUND_FAILED", "true", "Refund Failed", nil, "refund", failure("refund_failed")},
		{"REFUND_FAILED", "false", "", nil, "refund", is(providers.Unknown, "success_unexpected")},
		{"REFUNDED_REVERSED", "true", "", nil, "refund", failure("refunded_reversed")},
		{"AUTHORISATION", "true", "033899:1111:03/2030", data("refusalReasonRaw", "AUTHORISED"), "charge", is(providers.Authorized, "")},
		{"AUTHORISATION", "true", "", data("acquirerErrorCode", "7"), "charge", is(providers.Unknown, "success_contradicted")},
		{"AUTHORISATION", "false", "Not enough balance", nil, "charge", failure("not_enough_balance")},
		{"AUTHORISATION", "false", "REFUSED", nil, "charge", failure("refused")},
		{"AUTHORISATION", "false", "Some text of a bank", nil, "charge", failure("refused")},
		{"AUTHORISATION", "false", "x", data("refusalReasonCode", "6", "refusalReasonRaw", "54 : Expired card"), "charge", hard},
		{"AUTHORISATION", "false", "CANCELLED", nil, "charge", is(providers.Canceled, "cancelled")},
		{"AUTHORISATION", "false", "Shopper Cancelled", nil, "charge", is(providers.Canceled, "shopper_cancelled")},
		{"EXPIRE", "true", "", nil, "charge", is(providers.Canceled, "authorization_expired")},
		{"EXPIRE", "false", "", nil, "charge", is(providers.Unknown, "success_unexpected")},
	}
	for _, test := range tests {
		t.Run(test.event+" "+test.success+" "+test.reason, func(t *testing.T) {
			t.Parallel()
			fields := map[string]any{"eventCode": test.event, "success": test.success, "reason": test.reason, "additionalData": test.data}
			if test.event == "AUTHORISATION" || test.event == "EXPIRE" {
				fields["pspReference"], fields["originalReference"] = paymentPSP, nil
			}
			got := notified(t, fields)
			want := providers.Notice{
				Type: test.event, About: test.about, Key: testKey, Payment: paymentPSP, Reference: ownPSP, Outcome: &test.want,
				At: time.Date(2020, 12, 31, 23, 30, 0, 0, time.UTC),
			}
			want.Outcome.Money, want.Outcome.Reference = euros(3998), ownPSP
			if test.about == "charge" {
				want.Reference, want.Outcome.Reference = "", paymentPSP
			}
			if want.ID = strings.Join([]string{test.event, want.Outcome.Reference, test.success, "TestMerchant"}, "|"); test.reason == "Transaction Recaptured" {
				want.ID += "|recaptured"
			}
			if difference := cmp.Diff(want, got); difference != "" {
				t.Error(difference)
			}
		})
	}
}

// TestOthersAreKept: what is not about our calls is told, and concludes nothing.
func TestOthersAreKept(t *testing.T) {
	t.Parallel()
	for name, fields := range map[string]map[string]any{
		"report":              {"eventCode": "REPORT_AVAILABLE", "pspReference": "settlement_detail_report_batch_1.csv", "merchantReference": "", "reason": "https://ca-test.adyen.com/report", "amount": nil},
		"chargeback":          {"eventCode": "CHARGEBACK"},
		"new kind":            {"eventCode": "SOMETHING_NEW"},
		"another account":     {"eventCode": "AUTHORISATION", "merchantAccountCode": "OtherMerchant"},
		"another case":        {"eventCode": "AUTHORISATION", "merchantAccountCode": "testmerchant"},
		"no currency of ours": {"eventCode": "CHARGEBACK", "amount": map[string]any{"value": 1, "currency": "XYZ"}},
	} {
		got := notified(t, fields)
		if got.About != "other" || got.Outcome != nil || got.ID == "" || got.Key != "" || got.Type != fields["eventCode"] {
			t.Errorf("%s: %+v", name, got)
		}
	}
}

func TestForeignReferencesAreNoKeys(t *testing.T) {
	t.Parallel()
	for _, reference := range []any{"", nil, "order 7", "a:b", strings.Repeat("x", 65)} {
		if got := notified(t, map[string]any{"eventCode": "CAPTURE", "merchantReference": reference}); got.Key != "" || got.About != "capture" {
			t.Errorf("%v: %+v", reference, got)
		}
	}
}

// TestIdentity: the same event is the same, however often it comes; all others differ.
func TestIdentity(t *testing.T) {
	t.Parallel()
	capture := map[string]any{"eventCode": "CAPTURE"}
	first := notified(t, capture).ID
	if again := notified(t, map[string]any{"eventCode": "CAPTURE", "eventDate": "2022-01-01T00:00:00Z", "reason": "x"}).ID; again != first {
		t.Errorf("resent: %q, %q", first, again)
	}
	seen := map[string]bool{first: true}
	for name, fields := range map[string]map[string]any{
		"another code": {"eventCode": "REFUND"}, "another success": {"eventCode": "CAPTURE", "success": "false"},
		"another reference": {"eventCode": "CAPTURE", "pspReference": "OTHER"}, "another account": {"eventCode": "CAPTURE", "merchantAccountCode": "Other"},
		"recaptured": {"eventCode": "CAPTURE", "reason": "Transaction Auto-recaptured"},
		"long":       {"eventCode": "REPORT_AVAILABLE", "pspReference": strings.Repeat("x", 300)},
		"long, too":  {"eventCode": "REPORT_AVAILABLE", "pspReference": strings.Repeat("x", 301)},
	} {
		id := notified(t, fields).ID
		if seen[id] || len(id) > maxIDLength {
			t.Errorf("%s: %q", name, id)
		}
		seen[id] = true
	}
}

func TestAmountsOfNotices(t *testing.T) {
	t.Parallel()
	of := func(event string, amount any) providers.Outcome {
		return *notified(t, map[string]any{"eventCode": event, "amount": amount}).Outcome
	}
	if got := of("CAPTURE", map[string]any{"value": 50_000, "currency": "CLP"}); got.Money != (providers.Money{Amount: 500, Currency: "CLP"}) {
		t.Errorf("pesos: %+v", got)
	}
	for _, event := range []string{"CAPTURE", "REFUND", "AUTHORISATION"} {
		if got := of(event, map[string]any{"value": 50_001, "currency": "CLP"}); got.Kind != providers.Unknown || got.Code != "amount_unreadable" {
			t.Errorf("%s of half a peso: %+v", event, got)
		}
	}
	if got := of("CAPTURE_FAILED", map[string]any{"value": 50_001, "currency": "CLP"}); got.Kind != providers.Declined {
		t.Errorf("failure of half a peso: %+v", got)
	}
	if got := of("CANCELLATION", nil); got.Kind != providers.Succeeded {
		t.Errorf("without an amount: %+v", got)
	}
}

func TestDateThatCannotBeRead(t *testing.T) {
	t.Parallel()
	for _, date := range []any{nil, "", "yesterday", "2021-01-01 00:30:00"} {
		if got := notified(t, map[string]any{"eventCode": "CAPTURE", "eventDate": date}); !got.At.Equal(arrival) {
			t.Errorf("%v: %v", date, got.At)
		}
	}
}
