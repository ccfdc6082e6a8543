package providers

// exponents are the minor-unit digits of the currencies in ISO 4217 (list one) in which people pay. Funds codes, metals
// and testing codes are left out.
var exponents = buildExponents()

func buildExponents() map[string]int {
	digits := map[int][]string{
		0: {
			"BIF", "CLP", "DJF", "GNF", "ISK", "JPY", "KMF", "KRW", "PYG", "RWF", "UGX", "VND", "VUV", "XAF", "XOF", "XPF",
		},
		2: {
			"AED", "AFN", "ALL", "AMD", "ANG", "AOA", "ARS", "AUD", "AWG", "AZN", "BAM", "BBD", "BDT", "BGN", "BMD", "BND",
			"BOB", "BRL", "BSD", "BTN", "BWP", "BYN", "BZD", "CAD", "CDF", "CHF", "CNY", "COP", "CRC", "CUP", "CVE", "CZK",
			"DKK", "DOP", "DZD", "EGP", "ERN", "ETB", "EUR", "FJD", "FKP", "GBP", "GEL", "GHS", "GIP", "GMD", "GTQ", "GYD",
			"HKD", "HNL", "HTG", "HUF", "IDR", "ILS", "INR", "IRR", "JMD", "KES", "KGS", "KHR", "KPW", "KYD", "KZT", "LAK",
			"LBP", "LKR", "LRD", "LSL", "MAD", "MDL", "MGA", "MKD", "MMK", "MNT", "MOP", "MRU", "MUR", "MVR", "MWK", "MXN",
			"MYR", "MZN", "NAD", "NGN", "NIO", "NOK", "NPR", "NZD", "PAB", "PEN", "PGK", "PHP", "PKR", "PLN", "QAR", "RON",
			"RSD", "RUB", "SAR", "SBD", "SCR", "SDG", "SEK", "SGD", "SHP", "SLE", "SOS", "SRD", "SSP", "STN", "SVC", "SYP",
			"SZL", "THB", "TJS", "TMT", "TOP", "TRY", "TTD", "TWD", "TZS", "UAH", "USD", "UYU", "UZS", "VED", "VES", "WST",
			"XCD", "XCG", "YER", "ZAR", "ZMW", "ZWG",
		},
		3: {"BHD", "IQD", "JOD", "KWD", "LYD", "OMR", "TND"},
	}
	all := make(map[string]int)
	for exponent, codes := range digits {
		for _, code := range codes {
			all[code] = exponent
		}
	}
	return all
}

// CurrencyExponent is how many decimals ISO 4217 gives the currency; ok is false for a code that is no currency of payment.
func CurrencyExponent(currency string) (exponent int, ok bool) {
	exponent, ok = exponents[currency]
	return exponent, ok
}
