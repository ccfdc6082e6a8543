package adyen

import (
	"encoding/json"
	"regexp"
	"strings"

	"paysaga/providers"
)

// refusal is one of Adyen's reasons for which a payment is not authorized.
type refusal struct {
	code string // Adyen's text in one word: "Not enough balance" is not_enough_balance
	hard bool   // the same method must not be tried again
}

// refusals are Adyen's refusal reasons by refusalReasonCode. Hard are those after which the same method cannot work (wrong,
// expired, blocked), or trying it again is held against the shop (fraud, revoked). All others are soft: the customer, never the
// saga, may try again.
var refusals = map[string]refusal{
	"2":  {code: "refused"},
	"3":  {code: "referral"},
	"4":  {code: "acquirer_error"},
	"5":  {code: "blocked_card", hard: true},
	"6":  {code: "expired_card", hard: true},
	"7":  {code: "invalid_amount"},
	"8":  {code: "invalid_card_number", hard: true},
	"9":  {code: "issuer_unavailable"},
	"10": {code: "not_supported", hard: true},
	"11": {code: "3d_not_authenticated"},
	"12": {code: "not_enough_balance"},
	"14": {code: "acquirer_fraud", hard: true},
	"15": {code: "cancelled"},
	"16": {code: "shopper_cancelled"},
	"17": {code: "invalid_pin"},
	"18": {code: "pin_tries_exceeded", hard: true},
	"19": {code: "pin_validation_not_possible"},
	"20": {code: "fraud", hard: true},
	"21": {code: "not_submitted"},
	"22": {code: "fraud_cancelled", hard: true},
	"23": {code: "transaction_not_permitted"},
	"24": {code: "cvc_declined"},
	"25": {code: "restricted_card", hard: true},
	"26": {code: "revocation_of_auth", hard: true},
	"27": {code: "declined_non_generic"},
	"28": {code: "withdrawal_amount_exceeded"},
	"29": {code: "withdrawal_count_exceeded"},
	"31": {code: "issuer_suspected_fraud", hard: true},
	"32": {code: "avs_declined"},
	"33": {code: "card_requires_online_pin"},
	"34": {code: "no_checking_account_available_on_card"},
	"35": {code: "no_savings_account_available_on_card"},
	"36": {code: "mobile_pin_required"},
	"37": {code: "contactless_fallback"},
	"38": {code: "authentication_required"},
	"39": {code: "rreq_not_received_from_ds"},
	"40": {code: "current_aid_is_in_penalty_box"},
	"41": {code: "cvm_required_restart_payment"},
	"42": {code: "3ds_authentication_error"},
	"46": {code: "transaction_blocked_by_adyen_to_prevent_excessive_retry_fees", hard: true},
}

// refusalsByCode finds a refusal by its text, which is all that a webhook has.
var refusalsByCode = indexRefusals()

func indexRefusals() map[string]refusal {
	index := make(map[string]refusal, len(refusals))
	for _, each := range refusals {
		index[each.code] = each
	}
	return index
}

var (
	notOfCode = regexp.MustCompile(`[^a-z0-9]+`)
	// bankForm is the bank's own code at the head of refusalReasonRaw: "05 : Do not honor".
	bankForm = regexp.MustCompile(`^([0-9A-Z]{1,4}) ?:`)
)

// adviceNever are Mastercard's merchant advice codes that forbid a further try: 03 do not try again, 21 stop recurring payments.
var adviceNever = []string{"03", "21"}

// refusalOf finds the reason by its code, else by its text; known is false when Adyen's table has neither.
func refusalOf(code, reason string) (found refusal, known bool) {
	if found, known = refusals[code]; known {
		return found, true
	}
	found, known = refusalsByCode[strings.Trim(notOfCode.ReplaceAllString(strings.ToLower(reason), "_"), "_")]
	return found, known
}

// declined tells why a payment was refused. A reason that is not in the table is not passed on: it can be any text.
func declined(code, reason string, additional map[string]json.RawMessage) providers.Outcome {
	found, known := refusalOf(code, reason)
	if !known {
		found = refusal{code: "refused"}
	}
	decline := &providers.Decline{Code: found.code, Hard: found.hard}
	if raw := bankForm.FindStringSubmatch(text(additional, "refusalReasonRaw")); raw != nil {
		decline.Bank = raw[1]
	}
	for _, never := range adviceNever {
		if strings.HasPrefix(text(additional, "merchantAdviceCode"), never) {
			decline.Hard = true
		}
	}
	return providers.Outcome{Kind: providers.Declined, Code: decline.Code, Decline: decline}
}
