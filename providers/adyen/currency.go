package adyen

import (
	"errors"
	"fmt"
	"math"

	"paysaga/providers"
)

// errAmount is an amount in an answer of Adyen that cannot be told in ISO 4217 minor units.
var errAmount = errors.New("amount in Adyen's answer cannot be expressed")

// maxAmount keeps an amount exact in every JSON parser on its way, some of which know no integers: 2^53 - 1.
const maxAmount = 1<<53 - 1

// decimals are the currencies in which Adyen departs from ISO 4217, by its table of currency codes. All others are as in ISO; a
// currency that Adyen does not take it refuses by itself (error 138).
var decimals = map[string]int{"CLP": 2, "CVE": 0, "IDR": 0, "ISK": 2}

// scale is how a currency's ISO 4217 minor units become Adyen's: amount × times ÷ per. Only one of the two is not 1.
type scale struct{ times, per int64 }

func scaleOf(currency string) (scale, bool) {
	iso, ok := providers.CurrencyExponent(currency)
	own, departs := decimals[currency]
	switch {
	case !ok || !departs:
		return scale{times: 1, per: 1}, ok
	case own > iso:
		return scale{times: powerOfTen(own - iso), per: 1}, true
	default:
		return scale{times: 1, per: powerOfTen(iso - own)}, true
	}
}

func powerOfTen(exponent int) int64 {
	power := int64(1)
	for range exponent {
		power *= 10
	}
	return power
}

// toAdyen converts to Adyen's units, exactly, or gives a *providers.RequestError.
func toAdyen(money providers.Money) (amount, error) {
	factor, ok := scaleOf(money.Currency)
	switch {
	case !ok:
		return amount{}, &providers.RequestError{
			Field: "currency", Code: "currency_unsupported", Detail: "is no currency that can be charged through Adyen",
		}
	case money.Amount <= 0:
		return amount{}, &providers.RequestError{Field: "amount", Code: "amount_not_positive", Detail: "must be greater than zero"}
	case money.Amount%factor.per != 0:
		return amount{}, &providers.RequestError{
			Field: "amount", Code: "amount_not_expressible",
			Detail: fmt.Sprintf("must be a multiple of %d minor units in %s: Adyen takes no finer amount", factor.per, money.Currency),
		}
	case money.Amount/factor.per > maxAmount/factor.times:
		return amount{}, &providers.RequestError{Field: "amount", Code: "amount_too_large", Detail: "is too large to be sent exactly"}
	}
	return amount{Currency: money.Currency, Value: money.Amount / factor.per * factor.times}, nil
}

// fromAdyen converts an amount of an answer back to ISO 4217 minor units, exactly, or gives errAmount.
func fromAdyen(given amount) (providers.Money, error) {
	factor, ok := scaleOf(given.Currency)
	if !ok || given.Value < 0 || given.Value > math.MaxInt64/factor.per || given.Value%factor.times != 0 {
		return providers.Money{}, errAmount
	}
	return providers.Money{Amount: given.Value / factor.times * factor.per, Currency: given.Currency}, nil
}
