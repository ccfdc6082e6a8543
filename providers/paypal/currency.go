package paypal

import (
	"errors"
	"fmt"
	"regexp"
	"strconv"
	"strings"

	"paysaga/providers"
)

// errAmount is an amount in an answer of PayPal that cannot be told in ISO 4217 minor units.
var errAmount = errors.New("amount in PayPal's answer cannot be expressed")

// maxAmount is PayPal's longest amount, 999,999,999,999,999.99 (issue MAX_VALUE_EXCEEDED), in a currency's own decimals.
const maxAmount = 99_999_999_999_999_999

// decimalsOf are the decimals that PayPal takes in each currency that it takes: developer.paypal.com, "Currency codes" of the
// REST API, as of 2024. BRL, CNY and MYR are for accounts of their own country only, which PayPal itself decides. HUF and TWD have
// two decimals in ISO 4217 and none at PayPal.
var decimalsOf = map[string]int{
	"AUD": 2, "BRL": 2, "CAD": 2, "CHF": 2, "CNY": 2, "CZK": 2, "DKK": 2, "EUR": 2, "GBP": 2, "HKD": 2, "HUF": 0, "ILS": 2,
	"JPY": 0, "MXN": 2, "MYR": 2, "NOK": 2, "NZD": 2, "PHP": 2, "PLN": 2, "SEK": 2, "SGD": 2, "THB": 2, "TWD": 0, "USD": 2,
}

// valueForm is a decimal number that PayPal may answer with. Longer ones are none of ours.
var valueForm = regexp.MustCompile(`^([0-9]{1,15})(?:\.([0-9]{1,6}))?$`)

// scaleOf is how many ISO 4217 minor units make PayPal's smallest amount, and PayPal's decimals.
func scaleOf(currency string) (step int64, decimals int, ok bool) {
	exponent, known := providers.CurrencyExponent(currency)
	decimals, taken := decimalsOf[currency]
	if !known || !taken || exponent < decimals {
		return 0, 0, false
	}
	step = 1
	for range exponent - decimals {
		step *= 10
	}
	return step, decimals, true
}

// toPayPal converts to PayPal's decimal number, exactly, or gives a *providers.RequestError.
func toPayPal(money providers.Money) (amount, error) {
	step, decimals, ok := scaleOf(money.Currency)
	switch {
	case !ok:
		return amount{}, &providers.RequestError{
			Field: "currency", Code: "currency_unsupported", Detail: "is no currency that can be charged through PayPal",
		}
	case money.Amount <= 0:
		return amount{}, &providers.RequestError{Field: "amount", Code: "amount_not_positive", Detail: "must be greater than zero"}
	case money.Amount%step != 0:
		return amount{}, &providers.RequestError{
			Field: "amount", Code: "amount_not_expressible",
			Detail: fmt.Sprintf("must be a multiple of %d minor units in %s: PayPal takes no finer amount", step, money.Currency),
		}
	case money.Amount/step > maxAmount:
		return amount{}, &providers.RequestError{Field: "amount", Code: "amount_too_large", Detail: "is over PayPal's maximum"}
	}
	digits := strconv.FormatInt(money.Amount/step, 10)
	if decimals == 0 {
		return amount{Currency: money.Currency, Value: digits}, nil
	}
	if missing := decimals + 1 - len(digits); missing > 0 {
		digits = strings.Repeat("0", missing) + digits
	}
	point := len(digits) - decimals
	return amount{Currency: money.Currency, Value: digits[:point] + "." + digits[point:]}, nil
}

// fromPayPal converts an amount of an answer back to ISO 4217 minor units, exactly, or gives errAmount. Decimals that are zero may
// be missing or too many.
func fromPayPal(answered *amount) (providers.Money, error) {
	if answered == nil {
		return providers.Money{}, errAmount
	}
	exponent, known := providers.CurrencyExponent(answered.Currency)
	parts := valueForm.FindStringSubmatch(answered.Value)
	if !known || parts == nil {
		return providers.Money{}, errAmount
	}
	fraction := parts[2] + strings.Repeat("0", exponent)
	if strings.Trim(fraction[exponent:], "0") != "" {
		return providers.Money{}, errAmount
	}
	// At most 15 digits and 3 decimals: it fits, so an error would be a defect of valueForm.
	units, err := strconv.ParseInt(parts[1]+fraction[:exponent], 10, 64)
	if err != nil {
		return providers.Money{}, errAmount
	}
	return providers.Money{Amount: units, Currency: answered.Currency}, nil
}
