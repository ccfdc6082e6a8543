package providers

import (
	"fmt"
	"strconv"
)

// Money is an amount in the ISO 4217 minor units of its currency: {3998, "EUR"} is 39.98 euros, {500, "JPY"} is
// 500 yen. Each adapter converts it with its provider's own exponents and refuses what that provider cannot express.
type Money struct {
	Amount   int64  // minor units, never negative
	Currency string // ISO 4217 code, upper case
}

// String gives the amount in major units for people, "39.98 EUR"; an unknown currency is shown in minor units.
func (m Money) String() string {
	exponent, ok := CurrencyExponent(m.Currency)
	if !ok || exponent == 0 {
		return strconv.FormatInt(m.Amount, 10) + " " + m.Currency
	}
	unit := int64(1)
	for range exponent {
		unit *= 10
	}
	return fmt.Sprintf("%d.%0*d %s", m.Amount/unit, exponent, m.Amount%unit, m.Currency)
}
