package sandbox

import (
	"fmt"
	"slices"
	"strings"
)

// stripeCurrency is how Stripe counts one currency. Source: https://docs.stripe.com/currencies, read for 2023-10-16.
type stripeCurrency struct {
	// One ISO 4217 minor unit is numerator/denominator of Stripe's units.
	numerator, denominator int64
	decimals               int   // of Stripe's unit
	multipleOf             int64 // amounts must divide by it
	minimum                int64 // in Stripe's units
	maximum                int64
}

const (
	// maxStripeAmount: Stripe takes at most eight digits in a charge,.
	maxStripeAmount = 99_999_999
	// maxStripeRupiah: and twelve in Indonesian rupiah.
	maxStripeRupiah = 999_999_999_999
)

var stripeCurrencies = buildStripeCurrencies()

func buildStripeCurrencies() map[string]stripeCurrency {
	all := make(map[string]stripeCurrency)
	add := func(codes string, like stripeCurrency) {
		for code := range strings.FieldsSeq(codes) {
			like.minimum, like.maximum = 1, maxStripeAmount
			all[code] = like
		}
	}
	add(`usd aed afn all amd ang aoa ars aud awg azn bam bbd bdt bgn bmd bnd bob brl bsd bwp byn bzd cad cdf chf cny cop crc cve czk
		dkk dop dzd egp etb eur fjd fkp gbp gel gip gmd gtq gyd hkd htg huf idr ils inr jmd kes kgs khr kyd kzt lak lbp lkr lrd lsl mad
		mdl mkd mmk mnt mop mur mvr mwk mxn myr mzn nad ngn nio nok npr nzd pab pen pgk php pkr pln qar ron rsd rub sar sbd scr sek sgd
		shp sle sos srd szl thb tjs top try ttd twd tzs uah uyu uzs wst xcd yer zar zmw`,
		stripeCurrency{numerator: 1, denominator: 1, decimals: 2, multipleOf: 1})
	add("bif clp djf gnf jpy kmf krw pyg rwf vnd vuv xaf xof xpf", stripeCurrency{numerator: 1, denominator: 1, multipleOf: 1})
	// Zero-decimal at Stripe, two decimals in ISO 4217.
	add("mga", stripeCurrency{numerator: 1, denominator: 100, multipleOf: 1})
	// No decimals in ISO 4217, sent to Stripe with two that must be 00.
	add("isk ugx", stripeCurrency{numerator: 100, denominator: 1, decimals: 2, multipleOf: 100})
	// Three decimals, the last of which must be 0.
	add("bhd jod kwd omr tnd", stripeCurrency{numerator: 1, denominator: 1, decimals: 3, multipleOf: 10})

	setStripeLimits(all)
	return all
}

// setStripeLimits fills in what differs from the limits that hold for all.
func setStripeLimits(all map[string]stripeCurrency) {
	minimums := map[int64]string{
		30: "gbp", 50: "usd eur cad aud nzd sgd brl chf inr jpy", 100: "bgn", 200: "pln ron aed myr", 250: "dkk", 300: "nok sek",
		400: "hkd", 1000: "mxn thb", 1500: "czk", 17500: "huf",
	}
	for minimum, codes := range minimums {
		for code := range strings.FieldsSeq(codes) {
			currency := all[code]
			currency.minimum = minimum
			all[code] = currency
		}
	}
	rupiah := all["idr"]
	rupiah.maximum = maxStripeRupiah
	all["idr"] = rupiah
}

// iso converts Stripe's units to ISO 4217 minor units.
func (c stripeCurrency) iso(amount int64) int64 { return amount * c.denominator / c.numerator }

// units converts ISO 4217 minor units to Stripe's units; ok is false when that is not exact.
func (c stripeCurrency) units(iso int64) (amount int64, ok bool) {
	product := iso * c.numerator
	return product / c.denominator, product%c.denominator == 0
}

// show writes an amount as Stripe's messages do: "$0.50 usd" without the sign, "0.50 usd".
func (c stripeCurrency) show(amount int64, code string) string {
	if c.decimals == 0 {
		return fmt.Sprintf("%d %s", amount, code)
	}
	unit := int64(1)
	for range c.decimals {
		unit *= 10
	}
	return fmt.Sprintf("%d.%0*d %s", amount/unit, c.decimals, amount%unit, code)
}

// checkAmount refuses what Stripe cannot charge.
func checkAmount(amount int64, code string) *stripeError {
	currency, known := stripeCurrencies[code]
	switch {
	case !known:
		codes := make([]string, 0, len(stripeCurrencies))
		for each := range stripeCurrencies {
			codes = append(codes, each)
		}
		slices.Sort(codes)
		return invalid("", paramCurrency, "Invalid currency: %s. Stripe currently supports these currencies: %s", code,
			strings.Join(codes, ", "))
	case amount > currency.maximum:
		return invalid("amount_too_large", paramAmount, "Amount must be no more than %s", currency.show(currency.maximum, code))
	case amount%currency.multipleOf != 0:
		return invalid("parameter_invalid_integer", paramAmount,
			"Invalid amount: amounts in %s must be a multiple of %d.", code, currency.multipleOf)
	case amount < currency.minimum:
		return invalid("amount_too_small", paramAmount, "Amount must be at least %s", currency.show(currency.minimum, code))
	}
	return nil
}
