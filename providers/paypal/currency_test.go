package paypal

import (
	"errors"
	"maps"
	"math"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"paysaga/providers"
)

// TestEveryCurrency: each currency that PayPal takes, with how 12 of its major units and the smallest amount are written.
func TestEveryCurrency(t *testing.T) {
	t.Parallel()
	whole := map[string]int64{"HUF": 100, "JPY": 1, "TWD": 100} // the smallest amount, in ISO 4217 minor units
	all := []string{
		"AUD", "BRL", "CAD", "CHF", "CNY", "CZK", "DKK", "EUR", "GBP", "HKD", "HUF", "ILS", "JPY", "MXN", "MYR", "NOK", "NZD", "PHP", "PLN",
		"SEK", "SGD", "THB", "TWD", "USD",
	}
	if diff := cmp.Diff(all, slices.Sorted(maps.Keys(decimalsOf))); diff != "" {
		t.Errorf("currencies (-want +got):\n%s", diff)
	}
	for _, currency := range all {
		smallest, twelve, step := "0.01", "12.00", int64(1)
		if whole[currency] > 0 {
			smallest, twelve, step = "1", "12", whole[currency]
		}
		major := int64(100)
		if currency == "JPY" {
			major = 1
		}
		for units, want := range map[int64]string{step: smallest, 12 * major: twelve} {
			got, err := toPayPal(providers.Money{Amount: units, Currency: currency})
			if err != nil || got != (amount{Currency: currency, Value: want}) {
				t.Errorf("%d %s: %+v %v, want %s", units, currency, got, err, want)
			}
		}
	}
}

func TestRefusedAmounts(t *testing.T) {
	t.Parallel()
	tests := []struct {
		money providers.Money
		code  string
	}{
		{providers.Money{Amount: 0, Currency: "EUR"}, "amount_not_positive"},
		{providers.Money{Amount: -1, Currency: "EUR"}, "amount_not_positive"},
		{providers.Money{Amount: math.MinInt64, Currency: "JPY"}, "amount_not_positive"},
		{providers.Money{Amount: 1050, Currency: "HUF"}, "amount_not_expressible"},
		{providers.Money{Amount: 99, Currency: "TWD"}, "amount_not_expressible"},
		{providers.Money{Amount: 100_000_000_000_000_000, Currency: "EUR"}, "amount_too_large"},
		{providers.Money{Amount: math.MaxInt64, Currency: "JPY"}, "amount_too_large"},
		{providers.Money{Amount: 1000, Currency: "BHD"}, "currency_unsupported"},
		{providers.Money{Amount: 1000, Currency: "KWD"}, "currency_unsupported"},
		{providers.Money{Amount: 1000, Currency: "TND"}, "currency_unsupported"},
		{providers.Money{Amount: 1000, Currency: "KRW"}, "currency_unsupported"},
		{providers.Money{Amount: 1000, Currency: "INR"}, "currency_unsupported"},
		{providers.Money{Amount: 1000, Currency: "eur"}, "currency_unsupported"},
		{providers.Money{Amount: 1000, Currency: ""}, "currency_unsupported"},
	}
	for _, test := range tests {
		_, err := toPayPal(test.money)
		if invalid, ok := errors.AsType[*providers.RequestError](err); !ok || invalid.Code != test.code {
			t.Errorf("%+v: %v, want %s", test.money, err, test.code)
		}
	}
}

func TestReadAmounts(t *testing.T) {
	t.Parallel()
	tests := []struct {
		value, currency string
		want            int64 // -1: refused
	}{
		{"19.99", "EUR", 1999},
		{"0.00", "EUR", 0},
		{"5", "EUR", 500},
		{"5.1", "EUR", 510},
		{"5.100", "EUR", 510},
		{"999999999999999.99", "EUR", 99_999_999_999_999_999},
		{"500", "JPY", 500},
		{"500.00", "JPY", 500},
		{"500", "HUF", 50_000},
		{"1.234", "TND", 1234}, // the account's own money can be in a currency that is not taken
		{"5.001", "EUR", -1},
		{"500.5", "JPY", -1},
		{"-1.00", "EUR", -1},
		{"+1.00", "EUR", -1},
		{"1,000.00", "EUR", -1},
		{".50", "EUR", -1},
		{"5.", "EUR", -1},
		{"1e3", "EUR", -1},
		{" 5.00", "EUR", -1},
		{"", "EUR", -1},
		{"9999999999999999.00", "EUR", -1},
		{"5.00", "ABC", -1},
	}
	for _, test := range tests {
		got, err := fromPayPal(&amount{Currency: test.currency, Value: test.value})
		switch {
		case test.want < 0 && !errors.Is(err, errAmount):
			t.Errorf("%s %s: %+v, want a refusal", test.value, test.currency, got)
		case test.want >= 0 && (err != nil || got != providers.Money{Amount: test.want, Currency: test.currency}):
			t.Errorf("%s %s: %+v %v, want %d", test.value, test.currency, got, err, test.want)
		}
	}
	if _, err := fromPayPal(nil); !errors.Is(err, errAmount) {
		t.Error("no amount was read as one")
	}
}

// TestEveryPriceComesBack: 0.01 to 100.00, and any amount of any currency, are what they were after a round trip.
func TestEveryPriceComesBack(t *testing.T) {
	t.Parallel()
	for cents := range int64(10_000) {
		comesBack(t, providers.Money{Amount: cents + 1, Currency: "EUR"})
	}
	rapid.Check(t, func(rt *rapid.T) {
		currency := rapid.SampledFrom(slices.Sorted(maps.Keys(decimalsOf))).Draw(rt, "currency")
		step, _, _ := scaleOf(currency)
		comesBack(rt, providers.Money{Amount: rapid.Int64Range(1, 999_999_999_999_999).Draw(rt, "amount") * step, Currency: currency})
	})
}

func comesBack(t rapid.TB, money providers.Money) {
	t.Helper()
	sent, err := toPayPal(money)
	if err != nil {
		t.Fatal(err)
	}
	if back, err := fromPayPal(&sent); err != nil || back != money {
		t.Fatalf("%+v became %+v and then %+v: %v", money, sent, back, err)
	}
}
