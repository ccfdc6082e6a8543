package adyen

import (
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"paysaga/providers"
)

// result is an answer to a charge with a result code and more fields.
func result(code, more string) canned {
	return canned{status: http.StatusOK, body: fmt.Sprintf(`{"pspReference":%q,"resultCode":%q%s}`, testPayment, code, more)}
}

const redirectAction = `{"paymentMethodType":"scheme","url":"https://checkoutshopper-test.adyen.com/redirect?x=1","method":"GET","type":"redirect"}`

func TestOutcomeOfEveryResult(t *testing.T) {
	t.Parallel()
	at := func(kind providers.OutcomeKind, code string) providers.Outcome {
		return providers.Outcome{Kind: kind, Reference: testPayment, Code: code}
	}
	declinedFor := func(code string, hard bool) providers.Outcome {
		return providers.Outcome{
			Kind: providers.Declined, Reference: testPayment, Code: code, Decline: &providers.Decline{Code: code, Hard: hard},
		}
	}
	action := func(kind, url, raw string) providers.Outcome {
		outcome := at(providers.ActionRequired, "")
		outcome.NextAction = &providers.NextAction{Type: kind, URL: url, Action: json.RawMessage(raw)}
		return outcome
	}
	withMoney := func(outcome providers.Outcome, money providers.Money) providers.Outcome {
		outcome.Money = money
		return outcome
	}
	const threeDS2 = `{"paymentData":"Ab02","paymentMethodType":"scheme","authorisationToken":"x","subtype":"challenge","token":"eyJ","type":"threeDS2"}`
	transient := result("Error", `,"refusalReason":"Acquirer Error","refusalReasonCode":"4"`)
	transient.header = map[string]string{"transient-error": "true"}
	tests := []struct {
		name   string
		answer canned
		want   providers.Outcome // where it differs with ManualCapture, that is told below
	}{
		{"Authorised", result("Authorised", ""), at(providers.Succeeded, "")},
		{"Authorised, with an amount", canned{status: 200, body: authorised}, withMoney(at(providers.Succeeded, ""), euros(3998))},
		{"Authorised, with an amount of rupiahs", result("Authorised", `,"amount":{"currency":"IDR","value":500}`), withMoney(at(providers.Succeeded, ""), providers.Money{Amount: 50_000, Currency: "IDR"})},
		{"Authorised, with an odd amount", result("Authorised", `,"amount":{"currency":"CLP","value":501}`), at(providers.Unknown, "amount_unreadable")},
		{"Authorised, of another charge", result("Authorised", `,"merchantReference":"other"`), unknown("other_payment")},
		{"Authorised, without a reference", canned{status: 200, body: `{"resultCode":"Authorised"}`}, unknown("other_object")},
		{
			"PartiallyAuthorised",
			result("PartiallyAuthorised", `,"amount":{"currency":"EUR","value":3998},"additionalData":{"authorisedAmountValue":"2000","authorisedAmountCurrency":"EUR"}`),
			withMoney(at(providers.Succeeded, "partially_authorised"), euros(2000)),
		},
		{"PartiallyAuthorised, no part", result("PartiallyAuthorised", `,"amount":{"currency":"EUR","value":3998}`), at(providers.Unknown, "partially_authorised")},
		{"PartiallyAuthorised, odd part", result("PartiallyAuthorised", `,"additionalData":{"authorisedAmountValue":"20.00"}`), at(providers.Unknown, "partially_authorised")},
		{"PartiallyAuthorised, no currency", result("PartiallyAuthorised", `,"additionalData":{"authorisedAmountValue":"2000"}`), at(providers.Unknown, "partially_authorised")},
		{"Refused", result("Refused", `,"refusalReason":"Refused","refusalReasonCode":"2"`), declinedFor("refused", false)},
		{"Refused, by text", result("Refused", `,"refusalReason":"Not enough balance"`), declinedFor("not_enough_balance", false)},
		{"Refused, blocked card", result("Refused", `,"refusalReason":"Blocked Card","refusalReasonCode":"5"`), declinedFor("blocked_card", true)},
		{"Refused, fraud", result("Refused", `,"refusalReason":"FRAUD-CANCELLED"`), declinedFor("fraud_cancelled", true)},
		{"Refused, without a reason", result("Refused", ""), declinedFor("refused", false)},
		{"Refused, with an odd reason", result("Refused", `,"refusalReason":"Jane <jane@example.com>","refusalReasonCode":"4711"`), declinedFor("refused", false)},
		{
			"Refused, with the bank's code",
			result("Refused", `,"refusalReasonCode":"12","additionalData":{"refusalReasonRaw":"51 : Insufficient funds"}`),
			providers.Outcome{
				Kind: providers.Declined, Reference: testPayment, Code: "not_enough_balance",
				Decline: &providers.Decline{Code: "not_enough_balance", Bank: "51"},
			},
		},
		{"Refused, bank's code is text", result("Refused", `,"refusalReasonCode":"2","additionalData":{"refusalReasonRaw":"Jane Doe"}`), declinedFor("refused", false)},
		{"Refused, do not try again", result("Refused", `,"refusalReasonCode":"2","additionalData":{"merchantAdviceCode":"03 : Do not try again"}`), declinedFor("refused", true)},
		{"Refused, try again later", result("Refused", `,"refusalReasonCode":"2","additionalData":{"merchantAdviceCode":"02 : Try again later"}`), declinedFor("refused", false)},
		{"Refused, without a reference", canned{status: 200, body: `{"resultCode":"Refused","refusalReasonCode":"2"}`}, providers.Outcome{Kind: providers.Declined, Code: "refused", Decline: &providers.Decline{Code: "refused"}}},
		{"Error with a reason", result("Error", `,"refusalReason":"Acquirer Error","refusalReasonCode":"4"`), declinedFor("acquirer_error", false)},
		{"Error without a reason", result("Error", ""), at(providers.Unknown, providers.CodeServerErrorFinal)},
		{"Error with another reason", result("Error", `,"refusalReason":"IO exception received"`), at(providers.Unknown, providers.CodeServerErrorFinal)},
		{"Error, transient", transient, at(providers.Busy, "transient_error")},
		{"Cancelled", result("Cancelled", `,"refusalReason":"Shopper Cancelled","refusalReasonCode":"16"`), at(providers.Canceled, "cancelled")},
		{"RedirectShopper", result("RedirectShopper", `,"action":`+redirectAction), action("redirect", "https://checkoutshopper-test.adyen.com/redirect?x=1", redirectAction)},
		{
			"RedirectShopper by POST",
			result("RedirectShopper", `,"action":{"url":"https://acs.example","method":"POST","type":"redirect","data":{"MD":"x"}}`),
			action("adyen_action", "", `{"url":"https://acs.example","method":"POST","type":"redirect","data":{"MD":"x"}}`),
		},
		{"RedirectShopper to a script", result("RedirectShopper", `,"action":{"url":"javascript:alert(1)","method":"GET","type":"redirect"}`), at(providers.Unknown, "next_action_missing")},
		{"RedirectShopper to nowhere", result("RedirectShopper", ""), at(providers.Unknown, "next_action_missing")},
		{"RedirectShopper, no type", result("RedirectShopper", `,"action":{"url":"https://acs.example"}`), at(providers.Unknown, "next_action_missing")},
		{"RedirectShopper, null", result("RedirectShopper", `,"action":null`), at(providers.Unknown, "next_action_missing")},
		{"RedirectShopper, no object", result("RedirectShopper", `,"action":"x"`), at(providers.Unknown, "next_action_missing")},
		{"IdentifyShopper", result("IdentifyShopper", `,"action":`+threeDS2), action("adyen_action", "", threeDS2)},
		{"ChallengeShopper", result("ChallengeShopper", `,"action": `+strings.ReplaceAll(threeDS2, ",", ", ")), action("adyen_action", "", threeDS2)},
		{"PresentToShopper", result("PresentToShopper", `,"action":{"type":"voucher","reference":"107 167 1"}`), action("adyen_action", "", `{"type":"voucher","reference":"107 167 1"}`)},
		{"action before there is a reference", canned{status: 200, body: `{"resultCode":"RedirectShopper","action":` + redirectAction + `}`}, providers.Outcome{Kind: providers.ActionRequired, NextAction: &providers.NextAction{Type: "redirect", URL: "https://checkoutshopper-test.adyen.com/redirect?x=1", Action: json.RawMessage(redirectAction)}}},
		{"Pending", result("Pending", ""), at(providers.Processing, "pending")},
		{"Pending with an action", result("Pending", `,"action":{"type":"await"}`), action("adyen_action", "", `{"type":"await"}`)},
		{"Received", result("Received", ""), at(providers.Processing, "received")},
		{"AuthenticationFinished", result("AuthenticationFinished", ""), at(providers.Unknown, "status_unrecognized")},
		{"AuthenticationNotRequired", result("AuthenticationNotRequired", ""), at(providers.Unknown, "status_unrecognized")},
		{"Success", result("Success", ""), at(providers.Unknown, "status_unrecognized")},
		{"authorised", result("authorised", ""), at(providers.Unknown, "status_unrecognized")},
		{"no result", result("", ""), at(providers.Unknown, "status_unrecognized")},
		{"odd reference", canned{status: 200, body: `{"pspReference":"a b","resultCode":"Authorised"}`}, unknown("other_object")},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			adapter := adapterAt(t, test.answer)
			if difference := cmp.Diff(test.want, adapter.Charge(t.Context(), chargeRequest())); difference != "" {
				t.Error(difference)
			}
			manual := chargeRequest()
			manual.ManualCapture = true
			want := test.want
			if want.Kind == providers.Succeeded {
				want.Kind = providers.Authorized
			}
			if difference := cmp.Diff(want, adapter.Charge(t.Context(), manual)); difference != "" {
				t.Errorf("with manual capture: %s", difference)
			}
		})
	}
}

// TestRefusalTable: each reason is found by its code and by its text, and fits where codes go.
func TestRefusalTable(t *testing.T) {
	t.Parallel()
	seen := map[string]string{}
	for number, each := range refusals {
		if other, twice := seen[each.code]; twice {
			t.Errorf("%s is both %s and %s", each.code, number, other)
		}
		seen[each.code] = number
		if !codeForm.MatchString(each.code) && len(each.code) < 40 {
			t.Errorf("%q is no code", each.code)
		}
		for _, reason := range []string{each.code, strings.ToUpper(strings.ReplaceAll(each.code, "_", " ")), strings.ReplaceAll(each.code, "_", "-")} {
			if found, known := refusalOf("", reason); !known || found != each {
				t.Errorf("%q: %+v", reason, found)
			}
		}
		if found, known := refusalOf(number, "something else"); !known || found != each {
			t.Errorf("%s: %+v", number, found)
		}
	}
}
