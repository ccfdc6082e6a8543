package adyen

import (
	"errors"
	"math"
	"testing"

	"pgregory.net/rapid"

	"paysaga/providers"
)

// everyCurrency finds all currencies of ISO 4217 that the nouns know, by trying all codes of three letters.
func everyCurrency() []string {
	var all []string
	for a := 'A'; a <= 'Z'; a++ {
		for b := 'A'; b <= 'Z'; b++ {
			for c := 'A'; c <= 'Z'; c++ {
				code := string([]rune{a, b, c})
				if _, ok := providers.CurrencyExponent(code); ok {
					all = append(all, code)
				}
			}
		}
	}
	return all
}

// adyenDecimals are the decimals that are not two, from Adyen's table of currency codes.
var adyenDecimals = map[string]int{
	"BIF": 0, "CVE": 0, "DJF": 0, "GNF": 0, "IDR": 0, "JPY": 0, "KMF": 0, "KRW": 0, "PYG": 0, "RWF": 0, "UGX": 0, "VND": 0, "VUV": 0,
	"XAF": 0, "XOF": 0, "XPF": 0, "BHD": 3, "IQD": 3, "JOD": 3, "KWD": 3, "LYD": 3, "OMR": 3, "TND": 3,
}

func TestEveryCurrencyRoundTrips(t *testing.T) {
	t.Parallel()
	currencies := everyCurrency()
	if len(currencies) < 150 {
		t.Fatalf("only %d currencies found", len(currencies))
	}
	for _, currency := range currencies {
		exponent, _ := providers.CurrencyExponent(currency)
		money := providers.Money{Amount: 5000 * power(exponent), Currency: currency} // 5,000 in major units
		converted, err := toAdyen(money)
		if err != nil {
			t.Errorf("%s: %v", currency, err)
			continue
		}
		decimals, special := adyenDecimals[currency]
		if !special {
			decimals = 2
		}
		if want := 5000 * power(decimals); converted.Value != want || converted.Currency != currency {
			t.Errorf("5000 %s is %+v at Adyen, want %d", currency, converted, want)
		}
		if back, err := fromAdyen(converted); err != nil || back != money {
			t.Errorf("%s came back as %v, %v; want %v", currency, back, err, money)
		}
	}
}

func power(exponent int) int64 {
	result := int64(1)
	for range exponent {
		result *= 10
	}
	return result
}

func TestConversionIsExactOrRefused(t *testing.T) {
	t.Parallel()
	currencies := everyCurrency()
	rapid.Check(t, func(t *rapid.T) {
		money := providers.Money{
			Amount:   rapid.Int64().Draw(t, "amount"),
			Currency: rapid.SampledFrom(currencies).Draw(t, "currency"),
		}
		converted, err := toAdyen(money)
		if err != nil {
			if requestCode(err) == "" {
				t.Fatalf("refusal without a code: %v", err)
			}
			return
		}
		if back, err := fromAdyen(converted); err != nil || back != money {
			t.Fatalf("%v became %+v and came back as %v, %v", money, converted, back, err)
		}
	})
}

func TestAmountsThatAdyenTakes(t *testing.T) {
	t.Parallel()
	tests := []struct {
		money providers.Money
		want  int64
		code  string
	}{
		{money: euros(1999), want: 1999},
		{money: euros(1), want: 1},
		{money: euros(0), code: "amount_not_positive"},
		{money: euros(-1), code: "amount_not_positive"},
		{money: euros(maxAmount), want: maxAmount},
		{money: euros(maxAmount + 1), code: "amount_too_large"},
		{money: providers.Money{Amount: 500, Currency: "CLP"}, want: 50_000},
		{money: providers.Money{Amount: math.MaxInt64, Currency: "CLP"}, code: "amount_too_large"},
		{money: providers.Money{Amount: maxAmount/100 + 1, Currency: "CLP"}, code: "amount_too_large"},
		{money: providers.Money{Amount: 5, Currency: "ISK"}, want: 500},
		{money: providers.Money{Amount: 50_000, Currency: "IDR"}, want: 500},
		{money: providers.Money{Amount: 1050, Currency: "IDR"}, code: "amount_not_expressible"},
		{money: providers.Money{Amount: 100, Currency: "CVE"}, want: 1},
		{money: providers.Money{Amount: 99, Currency: "CVE"}, code: "amount_not_expressible"},
		{money: providers.Money{Amount: 500, Currency: "JPY"}, want: 500},
		{money: providers.Money{Amount: 5124, Currency: "BHD"}, want: 5124},
		{money: providers.Money{Amount: 20_000, Currency: "UGX"}, want: 20_000},
		{money: providers.Money{Amount: 1050, Currency: "MGA"}, want: 1050},
		{money: providers.Money{Amount: 100, Currency: "XXX"}, code: "currency_unsupported"},
		{money: providers.Money{Amount: 100, Currency: "eur"}, code: "currency_unsupported"},
		{money: providers.Money{Amount: 100, Currency: ""}, code: "currency_unsupported"},
	}
	for _, test := range tests {
		converted, err := toAdyen(test.money)
		if code := requestCode(err); converted.Value != test.want || code != test.code {
			t.Errorf("%d %s: %d, code %q; want %d, %q", test.money.Amount, test.money.Currency, converted.Value, code, test.want, test.code)
		}
	}
}

func TestAnswersThatCannotBeExpressed(t *testing.T) {
	t.Parallel()
	for _, given := range []amount{
		{"EUR", -1}, {"CLP", 501}, {"ISK", 1}, {"IDR", math.MaxInt64}, {"", 100}, {"XXX", 100}, {"eur", 100},
	} {
		if money, err := fromAdyen(given); !errors.Is(err, errAmount) {
			t.Errorf("%+v: %v, %v", given, money, err)
		}
	}
}

func requestCode(err error) string {
	if invalid, ok := errors.AsType[*providers.RequestError](err); ok {
		return invalid.Code
	}
	return ""
}
