package sandbox

import (
	"regexp"
	"strconv"
	"strings"
)

// paypalMoney is PayPal's money: a decimal in a string.
type paypalMoney struct {
	Currency string `json:"currency_code"`
	Value    string `json:"value"`
}

// paypalCurrency is how PayPal counts one currency: decimals that it takes, and ISO 4217's.
// Source: https://developer.paypal.com/reference/currency-codes/.
type paypalCurrency struct{ decimals, iso int }

var paypalCurrencies = buildPayPalCurrencies()

func buildPayPalCurrencies() map[string]paypalCurrency {
	all := map[string]paypalCurrency{"HUF": {0, 2}, "JPY": {0, 0}, "TWD": {0, 2}}
	for code := range strings.FieldsSeq("AUD BRL CAD CHF CNY CZK DKK EUR GBP HKD ILS MXN MYR NOK NZD PHP PLN SEK SGD THB USD") {
		all[code] = paypalCurrency{2, 2}
	}
	return all
}

// maxPayPalAmount is PayPal's 999999999999999.99, in cents.
const maxPayPalAmount = 99_999_999_999_999_999

// units reads money in the smallest units that PayPal takes of its currency; the issue says what is wrong with it.
func (m paypalMoney) units() (amount int64, issue string) {
	currency, known := paypalCurrencies[m.Currency]
	if !known {
		return 0, "INVALID_CURRENCY_CODE"
	}
	whole, fraction, decimal := strings.Cut(strings.TrimPrefix(m.Value, "-"), ".")
	switch {
	case !moneyShape.MatchString(m.Value):
		return 0, "INVALID_PARAMETER_SYNTAX"
	case decimal && currency.decimals == 0:
		return 0, "DECIMALS_NOT_SUPPORTED"
	case len(fraction) > currency.decimals:
		return 0, "DECIMAL_PRECISION"
	case strings.HasPrefix(m.Value, "-"):
		return 0, "CANNOT_BE_ZERO_OR_NEGATIVE"
	}
	number := whole + fraction + strings.Repeat("0", currency.decimals-len(fraction))
	amount, err := strconv.ParseInt(number, 10, 64)
	if err != nil || amount > maxPayPalAmount {
		return 0, "MAX_VALUE_EXCEEDED"
	}
	return amount, ""
}

// positive is units, nothing being wrong too.
func (m paypalMoney) positive() (amount int64, issue string) {
	amount, issue = m.units()
	if issue == "" && amount == 0 {
		issue = "CANNOT_BE_ZERO_OR_NEGATIVE"
	}
	return amount, issue
}

// moneyShape is PayPal's pattern and length for a value.
var moneyShape = regexp.MustCompile(`^-?([0-9]{1,31}|[0-9]{0,29}[.][0-9]{1,29})$`)

// money writes an amount in PayPal's units.
func money(amount int64, code string) paypalMoney {
	decimals := paypalCurrencies[code].decimals
	if decimals == 0 {
		return paypalMoney{Currency: code, Value: strconv.FormatInt(amount, 10)}
	}
	sign := ""
	if amount < 0 {
		sign, amount = "-", -amount
	}
	unit := powerOfTen(decimals)
	fraction := strconv.FormatInt(unit+amount%unit, 10)[1:] // with its leading zeros
	return paypalMoney{Currency: code, Value: sign + strconv.FormatInt(amount/unit, 10) + "." + fraction}
}

// toISO converts PayPal's units to ISO 4217 minor units.
func (c paypalCurrency) toISO(amount int64) int64 { return amount * powerOfTen(c.iso-c.decimals) }

// fromISO converts ISO 4217 minor units to PayPal's; ok is false when that is not exact.
func (c paypalCurrency) fromISO(amount int64) (units int64, ok bool) {
	factor := powerOfTen(c.iso - c.decimals)
	return amount / factor, amount%factor == 0
}
