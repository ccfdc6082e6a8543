package stripe

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

// stripeDecimals are the decimals that Stripe gives to the currencies in which it is special, from its documentation.
var stripeDecimals = map[string]int{
	"BIF": 0, "CLP": 0, "DJF": 0, "GNF": 0, "JPY": 0, "KMF": 0, "KRW": 0, "MGA": 0, "PYG": 0, "RWF": 0, "VND": 0, "VUV": 0,
	"XAF": 0, "XOF": 0, "XPF": 0, "ISK": 2, "UGX": 2, "HUF": 2, "TWD": 2, "BHD": 3, "JOD": 3, "KWD": 3, "OMR": 3, "TND": 3,
}

func TestEveryCurrencyRoundTrips(t *testing.T) {
	t.Parallel()
	refused := map[string]bool{"IQD": true, "LYD": true}
	currencies := everyCurrency()
	if len(currencies) < 150 {
		t.Fatalf("only %d currencies found", len(currencies))
	}
	for _, currency := range currencies {
		exponent, _ := providers.CurrencyExponent(currency)
		money := providers.Money{Amount: 5000 * power(exponent), Currency: currency} // 5,000 in major units
		amount, err := toStripe(money)
		if refused[currency] {
			if code := requestCode(err); code != "currency_unsupported" {
				t.Errorf("%s: code %q, want currency_unsupported", currency, code)
			}
			continue
		}
		if err != nil {
			t.Errorf("%s: %v", currency, err)
			continue
		}
		decimals, special := stripeDecimals[currency]
		if !special {
			decimals = 2
		}
		if want := 5000 * power(decimals); amount != want {
			t.Errorf("5000 %s is %d at Stripe, want %d", currency, amount, want)
		}
		back, err := fromStripe(amount, currency)
		if err != nil || back != money {
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
		amount, err := toStripe(money)
		if err != nil {
			if requestCode(err) == "" {
				t.Fatalf("refusal without a code: %v", err)
			}
			return
		}
		if back, err := fromStripe(amount, money.Currency); err != nil || back != money {
			t.Fatalf("%v became %d and came back as %v, %v", money, amount, back, err)
		}
	})
}

func TestAmountsThatStripeTakes(t *testing.T) {
	t.Parallel()
	tests := []struct {
		money providers.Money
		want  int64
		code  string
	}{
		{money: providers.Money{Amount: 1999, Currency: "EUR"}, want: 1999},
		{money: providers.Money{Amount: 50, Currency: "EUR"}, want: 50},
		{money: providers.Money{Amount: 49, Currency: "EUR"}, code: "amount_too_small"},
		{money: providers.Money{Amount: 0, Currency: "EUR"}, code: "amount_not_positive"},
		{money: providers.Money{Amount: -1, Currency: "EUR"}, code: "amount_not_positive"},
		{money: providers.Money{Amount: 99_999_999, Currency: "EUR"}, want: 99_999_999},
		{money: providers.Money{Amount: 100_000_000, Currency: "EUR"}, code: "amount_too_large"},
		{money: providers.Money{Amount: math.MaxInt64, Currency: "EUR"}, code: "amount_too_large"},
		{money: providers.Money{Amount: 999_999_999_999, Currency: "IDR"}, want: 999_999_999_999},
		{money: providers.Money{Amount: 1_000_000_000_000, Currency: "IDR"}, code: "amount_too_large"},
		{money: providers.Money{Amount: 500, Currency: "CLP"}, want: 500},
		{money: providers.Money{Amount: 5, Currency: "ISK"}, want: 500},
		{money: providers.Money{Amount: 999_999, Currency: "ISK"}, want: 99_999_900},
		{money: providers.Money{Amount: 1_000_000, Currency: "ISK"}, code: "amount_too_large"},
		{money: providers.Money{Amount: math.MaxInt64, Currency: "UGX"}, code: "amount_too_large"},
		{money: providers.Money{Amount: 500, Currency: "MGA"}, want: 5},
		{money: providers.Money{Amount: 510, Currency: "MGA"}, code: "amount_not_expressible"},
		{money: providers.Money{Amount: 9_999_999_900, Currency: "MGA"}, want: 99_999_999},
		{money: providers.Money{Amount: 10_000_000_000, Currency: "MGA"}, code: "amount_too_large"},
		{money: providers.Money{Amount: 20_000, Currency: "UGX"}, want: 2_000_000},
		{money: providers.Money{Amount: 1050, Currency: "JPY"}, want: 1050}, // 10.50 yen cannot even be said in minor units
		{money: providers.Money{Amount: 1230, Currency: "BHD"}, want: 1230},
		{money: providers.Money{Amount: 1234, Currency: "BHD"}, code: "amount_not_expressible"},
		{money: providers.Money{Amount: 5120, Currency: "KWD"}, want: 5120},
		{money: providers.Money{Amount: 5124, Currency: "KWD"}, code: "amount_not_expressible"},
		{money: providers.Money{Amount: 50, Currency: "JPY"}, want: 50},
		{money: providers.Money{Amount: 49, Currency: "JPY"}, code: "amount_too_small"},
		{money: providers.Money{Amount: 30, Currency: "GBP"}, want: 30},
		{money: providers.Money{Amount: 17_500, Currency: "HUF"}, want: 17_500},
		{money: providers.Money{Amount: 17_499, Currency: "HUF"}, code: "amount_too_small"},
		{money: providers.Money{Amount: 100, Currency: "XXX"}, code: "currency_unsupported"},
		{money: providers.Money{Amount: 100, Currency: "eur"}, code: "currency_unsupported"},
		{money: providers.Money{Amount: 100, Currency: ""}, code: "currency_unsupported"},
	}
	for _, test := range tests {
		amount, err := toStripeCharge(test.money)
		if code := requestCode(err); amount != test.want || code != test.code {
			t.Errorf("%d %s: %d, code %q; want %d, %q", test.money.Amount, test.money.Currency, amount, code, test.want, test.code)
		}
	}
}

func TestMinimumsAreOfCurrenciesThatExist(t *testing.T) {
	t.Parallel()
	for currency, minimum := range minimums {
		money, err := fromStripe(minimum, currency)
		if err != nil {
			t.Errorf("%s: %v", currency, err)
			continue
		}
		if amount, err := toStripeCharge(money); err != nil || amount != minimum {
			t.Errorf("the minimum of %s is refused: %v", currency, err)
		}
		if _, err := toStripeCharge(providers.Money{Amount: money.Amount - 1, Currency: currency}); requestCode(err) != "amount_too_small" {
			t.Errorf("less than the minimum of %s: %v", currency, err)
		}
	}
}

func TestRefundsHaveNoMinimum(t *testing.T) {
	t.Parallel()
	if amount, err := toStripe(providers.Money{Amount: 1, Currency: "EUR"}); err != nil || amount != 1 {
		t.Errorf("1 cent: %d, %v", amount, err)
	}
}

func TestAnswersThatCannotBeExpressed(t *testing.T) {
	t.Parallel()
	tests := []struct {
		amount   int64
		currency string
	}{
		{-1, "eur"}, {501, "isk"}, {1, "ugx"}, {math.MaxInt64, "mga"}, {100, ""}, {100, "xxx"}, {100, "iqd"},
	}
	for _, test := range tests {
		if money, err := fromStripe(test.amount, test.currency); !errors.Is(err, errAmount) {
			t.Errorf("%d %q: %v, %v", test.amount, test.currency, money, err)
		}
	}
}

func requestCode(err error) string {
	if invalid, ok := errors.AsType[*providers.RequestError](err); ok {
		return invalid.Code
	}
	return ""
}
