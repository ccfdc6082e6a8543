package statement

import "errors"

var errEventCode = errors.New("is no transaction event code")

// isEventCode tells the form of a code: T, two digits of the group, two of the event.
func isEventCode(code string) bool { return len(code) == 5 && code[0] == 'T' && isDigits(code[1:]) }

// payPalCodes are the events that are of another kind than their group; "Transaction event codes" in PayPal's reports reference.
var payPalCodes = map[string]LineKind{
	"T1101": LinePayout, // reversal of a withdrawal to the bank
	"T1104": LinePayout, // reversal of a deposit from the bank
	"T1106": LineChargeback,
	"T1107": LineRefund,
	"T1108": LineFee, // reversal of a fee
	"T1109": LineFee, // refund of a fee
	"T1113": LineRefund,
	"T1201": LineChargeback,
	"T1202": LineChargeback, // reversal of a chargeback
	"T1205": LineChargeback, // reimbursement of a chargeback
	"T1207": LineChargeback, // rejection of a representment
	"T1208": LineChargeback, // cancellation of a chargeback
}

// payPalGroups are the groups of events that are more than an adjustment of the balance. Holds and reserves (T15, T21; T1105, T1110,
// T1111), bonuses, cards and loans are adjustments, and what is not known is one too: it moves money all the same.
var payPalGroups = map[string]LineKind{
	"T01": LineFee,
	"T02": LineExchange,
	"T03": LinePayout, // from the shop's bank
	"T04": LinePayout, // to it
}

// payPalKind is what an event books. Payments are charges where money comes in; what the shop pays to others is an adjustment.
func payPalKind(code string, gross int64) LineKind {
	if kind, ok := payPalCodes[code]; ok {
		return kind
	}
	group := code[:3]
	if group == "T00" && gross >= 0 {
		return LineCharge
	}
	if kind, ok := payPalGroups[group]; ok {
		return kind
	}
	return LineAdjustment
}
