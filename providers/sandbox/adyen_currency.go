package sandbox

import (
	"fmt"
	"strings"
)

// adyenCurrency is how Adyen counts one currency: decimals of its minor unit, and ISO 4217's.
// Source: https://docs.adyen.com/development-resources/currency-codes/.
type adyenCurrency struct{ decimals, iso int }

// maxAdyenAmount is far above what any acquirer takes, and keeps arithmetic with amounts exact.
const maxAdyenAmount = 1_000_000_000_000

var adyenCurrencies = buildAdyenCurrencies()

func buildAdyenCurrencies() map[string]adyenCurrency {
	all := make(map[string]adyenCurrency)
	add := func(like adyenCurrency, codes string) {
		for code := range strings.FieldsSeq(codes) {
			all[code] = like
		}
	}
	add(adyenCurrency{2, 2}, `AED ALL AMD ANG AOA ARS AUD AWG AZN BAM BBD BDT BGN BMD BND BOB BRL BSD BWP BYN BZD CAD CHF CNY COP CRC
		CZK DKK DOP DZD EGP ETB EUR FJD FKP GBP GEL GHS GIP GMD GTQ GYD HKD HNL HTG HUF ILS INR JMD KES KGS KHR KYD KZT LAK LBP LKR
		MAD MDL MKD MMK MNT MOP MRU MUR MVR MWK MXN MYR MZN NAD NGN NIO NOK NPR NZD PAB PEN PGK PHP PKR PLN QAR RON RSD RUB SAR SBD
		SCR SEK SGD SHP SLE SOS SRD STN SVC SZL THB TOP TRY TTD TWD TZS UAH USD UYU UZS VES WST XCD YER ZAR ZMW`)
	add(adyenCurrency{0, 0}, "DJF GNF JPY KMF KRW PYG RWF UGX VND VUV XAF XOF XPF")
	add(adyenCurrency{3, 3}, "BHD IQD JOD KWD LYD OMR TND")
	// Adyen's own: a Chilean peso and an Icelandic króna have two decimals there, an escudo and a rupiah none.
	add(adyenCurrency{2, 0}, "CLP ISK")
	add(adyenCurrency{0, 2}, "CVE IDR")
	return all
}

func powerOfTen(exponent int) int64 {
	power := int64(1)
	for range exponent {
		power *= 10
	}
	return power
}

// toISO converts Adyen's units to ISO 4217 minor units. A fraction that ISO 4217 has no unit for is cut off: 5.50 ISK are 5.
func (c adyenCurrency) toISO(amount int64) int64 {
	return amount * powerOfTen(c.iso) / powerOfTen(c.decimals)
}

// fromISO converts ISO 4217 minor units to Adyen's; ok is false when that is not exact.
func (c adyenCurrency) fromISO(amount int64) (units int64, ok bool) {
	product := amount * powerOfTen(c.decimals)
	return product / powerOfTen(c.iso), product%powerOfTen(c.iso) == 0
}

// show writes an amount for people.
func (c adyenCurrency) show(amount int64, code string) string {
	if c.decimals == 0 {
		return fmt.Sprintf("%d %s", amount, code)
	}
	unit := powerOfTen(c.decimals)
	return fmt.Sprintf("%d.%0*d %s", amount/unit, c.decimals, amount%unit, code)
}

// checkAdyenAmount refuses what Adyen cannot charge. An authorization of nothing, which checks a card, is not simulated.
func checkAdyenAmount(amount *adyenAmount) *adyenError {
	if amount == nil {
		return adyenInvalid("100", "Required object 'amount' is not provided.")
	}
	if _, known := adyenCurrencies[amount.Currency]; !known {
		return adyenInvalid("138", "Unsupported currency specified")
	}
	if amount.Value <= 0 || amount.Value > maxAdyenAmount {
		return adyenInvalid("137", "Invalid amount specified")
	}
	return nil
}
