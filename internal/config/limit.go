package config

import (
	"errors"
	"fmt"
	"strconv"
	"strings"

	"paysaga/providers"
)

// Limit is an amount of money: whole units of whatever currency, and other amounts for some currencies.
type Limit struct {
	Units      int64            // of any currency that ByCurrency does not name
	ByCurrency map[string]int64 // minor units
}

// maxUnits is far above what one payment is, also in currencies with small units, and far below what 64 bits hold with three decimals.
const maxUnits = 1_000_000_000_000

// In is the limit in a currency's minor units. Of a code that is no currency it is nothing.
func (l Limit) In(currency string) int64 {
	if limit, own := l.ByCurrency[currency]; own {
		return limit
	}
	exponent, ok := providers.CurrencyExponent(currency)
	if !ok {
		return 0
	}
	return l.Units * power(exponent)
}

var (
	errLimit = errors.New("is no limit of money; write whole units of any currency, and by currency what differs, " +
		"such as 1000,JPY:150000,KWD:300.500")
	errLimitFirst = errors.New("must begin with an amount for all currencies that it does not name, such as 1000,JPY:150000")
)

// parseLimit reads "1000,JPY:150000,KWD:300.500".
func parseLimit(field *Limit, value string) error {
	first, rest, more := strings.Cut(value, ",")
	units, err := parseUnits(strings.TrimSpace(first), 0)
	if err != nil && strings.Contains(first, ":") {
		return errLimitFirst
	}
	if err != nil {
		return err
	}
	limit := Limit{Units: units}
	if !more {
		*field = limit
		return nil
	}
	limit.ByCurrency = map[string]int64{}
	for part := range strings.SplitSeq(rest, ",") {
		currency, amount, ok := strings.Cut(strings.TrimSpace(part), ":")
		exponent, known := providers.CurrencyExponent(currency)
		_, twice := limit.ByCurrency[currency]
		switch {
		case !ok:
			return errLimit
		case !known:
			return fmt.Errorf("names %q, which is no currency of ISO 4217 in capital letters", currency)
		case twice:
			return fmt.Errorf("names %s twice", currency)
		}
		if limit.ByCurrency[currency], err = parseUnits(amount, exponent); err != nil {
			return fmt.Errorf("for %s: %w", currency, err)
		}
	}
	*field = limit
	return nil
}

// parseUnits reads an amount in major units, with no more decimals than it may have, as minor units.
func parseUnits(text string, exponent int) (int64, error) {
	whole, decimals, point := strings.Cut(text, ".")
	if !digits(whole) || point && !digits(decimals) {
		return 0, errLimit
	}
	switch {
	case point && exponent == 0:
		return 0, fmt.Errorf("%s has decimals, where only whole units fit", text)
	case len(decimals) > exponent:
		return 0, fmt.Errorf("%s has more than the currency's %d decimals", text, exponent)
	}
	units, err := strconv.ParseInt(whole, 10, 64)
	if err != nil || units > maxUnits {
		return 0, fmt.Errorf("%s is more than %d", text, int64(maxUnits))
	}
	if decimals == "" {
		return units * power(exponent), nil
	}
	minor, err := strconv.ParseInt(decimals+strings.Repeat("0", exponent-len(decimals)), 10, 64)
	if err != nil {
		return 0, errLimit
	}
	return units*power(exponent) + minor, nil
}

func digits(text string) bool {
	return text != "" && strings.Trim(text, "0123456789") == ""
}

func power(exponent int) int64 {
	result := int64(1)
	for range exponent {
		result *= 10
	}
	return result
}
