package stripe

import (
	"errors"
	"fmt"
	"math"
	"strings"

	"paysaga/providers"
)

// errAmount is an amount in an answer of Stripe that cannot be told in ISO 4217 minor units.
var errAmount = errors.New("amount in Stripe's answer cannot be expressed")

const (
	// maxAmount is Stripe's longest amount: eight digits, "999,999.99" in a currency of two decimals.
	maxAmount = 99_999_999
	// maxAmountIDR is the one exception, twelve digits: a rupiah is worth that little.
	maxAmountIDR = 999_999_999_999
)

// scale is how a currency's ISO 4217 minor units become Stripe's units: amount × times ÷ per. An amount that is no
// multiple of step has no exact form at Stripe.
type scale struct {
	times, per int64
	step       int64 // in ISO minor units
}

// sameUnits holds for nearly all: the zero-decimal currencies, HUF and TWD (two decimals for charges) included.
var sameUnits = scale{times: 1, per: 1, step: 1}

// scales are the currencies in which Stripe departs from ISO 4217.
var scales = map[string]scale{
	// No decimals in ISO; Stripe wants two that are 00, from the time when these currencies had them.
	"ISK": {times: 100, per: 1, step: 1},
	"UGX": {times: 100, per: 1, step: 1},
	// Two decimals in ISO (an ariary has five iraimbilanja, ISO rounds that up), none at Stripe.
	"MGA": {times: 1, per: 100, step: 100},
	// Three decimals, of which the card networks carry two: the last digit must be 0.
	"BHD": {times: 1, per: 1, step: 10},
	"JOD": {times: 1, per: 1, step: 10},
	"KWD": {times: 1, per: 1, step: 10},
	"OMR": {times: 1, per: 1, step: 10},
	"TND": {times: 1, per: 1, step: 10},
}

// minimums are the smallest charges that Stripe takes, in Stripe's units. A currency that is not listed has a minimum that
// depends on the account's settlement currency; Stripe itself then answers amount_too_small.
var minimums = map[string]int64{
	"USD": 50, "EUR": 50, "CAD": 50, "AUD": 50, "NZD": 50, "SGD": 50, "BRL": 50, "CHF": 50, "INR": 50,
	"GBP": 30, "JPY": 50, "HUF": 175_00, "CZK": 15_00, "DKK": 2_50, "NOK": 3_00, "SEK": 3_00,
	"PLN": 2_00, "RON": 2_00, "AED": 2_00, "MYR": 2_00, "HKD": 4_00, "MXN": 10_00, "THB": 10_00, "BGN": 1_00,
}

func scaleOf(currency string) (scale, bool) {
	if departing, ok := scales[currency]; ok {
		return departing, true
	}
	exponent, ok := providers.CurrencyExponent(currency)
	// A third decimal that is not in the table above (IQD, LYD) is in none of Stripe's lists: guessing a factor of ten is out.
	return sameUnits, ok && exponent <= 2
}

// toStripe converts to Stripe's units, exactly, or gives a *providers.RequestError.
func toStripe(money providers.Money) (int64, error) {
	factor, ok := scaleOf(money.Currency)
	if !ok {
		return 0, &providers.RequestError{
			Field: "currency", Code: "currency_unsupported", Detail: "is no currency that can be charged through Stripe",
		}
	}
	if money.Amount <= 0 {
		return 0, &providers.RequestError{Field: "amount", Code: "amount_not_positive", Detail: "must be greater than zero"}
	}
	if money.Amount%factor.step != 0 {
		return 0, &providers.RequestError{
			Field: "amount", Code: "amount_not_expressible",
			Detail: fmt.Sprintf("must be a multiple of %d minor units in %s: Stripe takes no finer amount", factor.step, money.Currency),
		}
	}
	limit := int64(maxAmount)
	if money.Currency == "IDR" {
		limit = maxAmountIDR
	}
	if money.Amount > limit*factor.per/factor.times {
		return 0, &providers.RequestError{
			Field: "amount", Code: "amount_too_large",
			Detail: "is over Stripe's maximum of " +
				providers.Money{Amount: limit * factor.per / factor.times, Currency: money.Currency}.String(),
		}
	}
	return money.Amount * factor.times / factor.per, nil
}

// toStripeCharge is toStripe with Stripe's minimum for charges. Refunds have none.
func toStripeCharge(money providers.Money) (int64, error) {
	amount, err := toStripe(money)
	if err != nil {
		return 0, err
	}
	if minimum := minimums[money.Currency]; amount < minimum {
		return 0, &providers.RequestError{
			Field: "amount", Code: "amount_too_small",
			Detail: "is under Stripe's minimum of " + providers.Money{Amount: minimum, Currency: money.Currency}.String(),
		}
	}
	return amount, nil
}

// fromStripe converts an amount of an answer back to ISO 4217 minor units, exactly, or gives errAmount.
func fromStripe(amount int64, currency string) (providers.Money, error) {
	code := strings.ToUpper(currency)
	factor, ok := scaleOf(code)
	if !ok || amount < 0 || amount > math.MaxInt64/factor.per || amount%factor.times != 0 {
		return providers.Money{}, errAmount
	}
	return providers.Money{Amount: amount / factor.times * factor.per, Currency: code}, nil
}
