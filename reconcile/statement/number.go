package statement

import (
	"errors"
	"strings"

	"paysaga/providers"
)

const (
	// maxNumber is the longest number, in bytes, with its separators.
	maxNumber = 40
	// maxAmount is the largest amount in minor units. It leaves room for the sum of thousands of them, and no business has one so large.
	maxAmount = 1_000_000_000_000_000
	// maxFee is the largest part of a fee, so that feeDigits more decimals fit.
	maxFee = 1_000_000_000_000
	// feeDigits are the decimals beyond the currency's own with which parts of a fee are told.
	feeDigits = 6
)

// style is how a file writes numbers.
type style int

const (
	styleUnknown style = iota // nothing has shown it yet
	stylePoint                // 1,560.00
	styleComma                // 1.560,00
)

// errAmbiguous is a number that can be read in two ways, and nothing in the file so far tells which.
var errAmbiguous = errors.New(
	"can be read in two ways: nothing in the file tells whether its separator is that of thousands or that of decimals")

var (
	errNoNumber  = errors.New("is no number")
	errOtherWay  = errors.New("is written with other separators than the numbers before it")
	errTooLarge  = errors.New("is too large")
	errTooFine   = errors.New("has more decimals than its currency")
	errUnwritten = errors.New("is empty")
)

// number is a number as it is written, in the digits before and after its decimal separator.
type number struct {
	negative bool
	whole    string
	fraction string
	style    style // that it shows by itself
	// separator is the one separator of a number that can be read both ways, "1,560": whole and fraction are then what stands before and
	// behind it. Zero else.
	separator byte
}

// spaces and apostrophes are thousands separators and nothing else.
var thousands = strings.NewReplacer("\u00a0", " ", "\u202f", " ", "\u2009", " ", "'", " ", "\u2019", " ")

// scanNumber reads what a number shows by itself. A sign may stand before or behind it, and parentheses mean a negative one.
//
//   - With a point and a comma, the last one is the decimal separator.
//   - One that occurs more than once separates thousands.
//   - One that occurs once is the decimal separator, unless exactly three digits follow it and one to three, of which the first is no
//     zero, stand before it: then it may be either.
//   - Spaces and apostrophes separate thousands; a point or a comma beside them is the decimal separator.
//
// Thousands are groups of three digits; anything else is no number.
func scanNumber(text string) (number, error) {
	text = strings.TrimSpace(text)
	if text == "" {
		return number{}, errUnwritten
	}
	if len(text) > maxNumber {
		return number{}, errNoNumber
	}
	negative, text := scanSign(text)
	spaced := false
	if strings.ContainsFunc(text, func(char rune) bool { return char != '.' && char != ',' && (char < '0' || char > '9') }) {
		text = thousands.Replace(text)
		spaced = strings.IndexByte(text, ' ') >= 0
	}
	scanned, err := scanDigits(text, spaced)
	scanned.negative = negative
	return scanned, err
}

func scanSign(text string) (negative bool, rest string) {
	const minus = "\u2212"
	switch {
	case len(text) > 2 && text[0] == '(' && text[len(text)-1] == ')':
		return true, text[1 : len(text)-1]
	case text[0] == '+':
		return false, text[1:]
	case text[0] == '-':
		return true, strings.TrimPrefix(text[1:], " ")
	case strings.HasPrefix(text, minus):
		return true, text[len(minus):]
	case text[len(text)-1] == '-':
		return true, strings.TrimSuffix(text[:len(text)-1], " ")
	default:
		return false, text
	}
}

func scanDigits(text string, spaced bool) (number, error) {
	points, commas := strings.Count(text, "."), strings.Count(text, ",")
	switch {
	case points == 0 && commas == 0:
		whole, ok := ungroup(text, ' ')
		return number{whole: whole}, failUnless(ok && whole != "")
	case points > 0 && commas > 0:
		if strings.LastIndexByte(text, '.') > strings.LastIndexByte(text, ',') {
			return decimal(text, '.', ',', stylePoint, spaced)
		}
		return decimal(text, ',', '.', styleComma, spaced)
	case points > 1:
		whole, ok := ungroup(text, '.')
		return number{whole: whole, style: styleComma}, failUnless(ok)
	case commas > 1:
		whole, ok := ungroup(text, ',')
		return number{whole: whole, style: stylePoint}, failUnless(ok)
	case points == 1:
		return single(text, '.', stylePoint, spaced)
	default:
		return single(text, ',', styleComma, spaced)
	}
}

// decimal is a number with a decimal separator and one of thousands.
func decimal(text string, separator, group byte, shows style, spaced bool) (number, error) {
	whole, fraction, _ := strings.Cut(text, string(separator))
	whole, ok := ungroup(whole, group)
	return number{whole: whole, fraction: fraction, style: shows}, failUnless(ok && !spaced && isDigits(fraction) && fraction != "")
}

// single is a number with one point or one comma, which is the decimal separator where that is all it can be.
func single(text string, separator byte, shows style, spaced bool) (number, error) {
	whole, fraction, _ := strings.Cut(text, string(separator))
	whole, ok := ungroup(whole, ' ')
	read := number{whole: whole, fraction: fraction, style: shows}
	if !spaced && len(fraction) == 3 && len(whole) >= 1 && len(whole) <= 3 && whole[0] != '0' {
		read.style, read.separator = styleUnknown, separator
	}
	return read, failUnless(ok && isDigits(fraction) && fraction != "")
}

func failUnless(ok bool) error {
	if ok {
		return nil
	}
	return errNoNumber
}

// ungroup takes the separators out of the digits before the decimal separator.
func ungroup(text string, separator byte) (digits string, ok bool) {
	if strings.IndexByte(text, separator) < 0 {
		return text, isDigits(text)
	}
	groups := strings.Split(text, string(separator))
	for at, group := range groups {
		if len(group) > 3 || len(group) < 3 && at > 0 || group == "" || !isDigits(group) {
			return "", false
		}
	}
	return strings.Join(groups, ""), true
}

func isDigits(text string) bool {
	for at := range len(text) {
		if text[at] < '0' || text[at] > '9' {
			return false
		}
	}
	return true
}

// numbers reads a file's amounts. The first number that can be read in one way only settles how all are written; one that contradicts it
// is an error, and one that could be either is one as long as nothing has settled it.
type numbers struct{ style style }

// learn looks whether one of a row's numbers settles how the file writes them, and tells whether it is settled.
func (n *numbers) learn(read row, from ...column) bool {
	for _, each := range from {
		if n.style != styleUnknown {
			return true
		}
		if scanned, err := scanNumber(read.raw(each)); err == nil {
			n.style = scanned.style
		}
	}
	return n.style != styleUnknown
}

func (n *numbers) read(text string) (number, error) {
	scanned, err := scanNumber(text)
	switch {
	case err != nil:
		return number{}, err
	case scanned.separator != 0 && n.style == styleUnknown:
		return number{}, errAmbiguous
	case scanned.separator != 0:
		if (n.style == stylePoint) != (scanned.separator == '.') {
			scanned.whole, scanned.fraction = scanned.whole+scanned.fraction, ""
		}
	case scanned.style != styleUnknown && n.style != styleUnknown && scanned.style != n.style:
		return number{}, errOtherWay
	}
	return scanned, nil
}

// amount reads an amount in major units, and gives it in ISO 4217 minor units.
func (n *numbers) amount(text, currency string) (int64, error) {
	exponent, ok := providers.CurrencyExponent(currency)
	if !ok {
		return 0, errCurrency
	}
	read, err := n.read(text)
	if err != nil {
		return 0, err
	}
	return read.scaled(exponent, maxAmount)
}

// fee reads a part of a fee, in 10^-feeDigits of a minor unit.
func (n *numbers) fee(text, currency string) (int64, error) {
	exponent, ok := providers.CurrencyExponent(currency)
	if !ok {
		return 0, errCurrency
	}
	read, err := n.read(text)
	if err != nil {
		return 0, err
	}
	return read.scaled(exponent+feeDigits, maxFee*powerOfTen(feeDigits))
}

// scaled is the number times a power of ten, exactly.
func (n number) scaled(exponent int, limit int64) (int64, error) {
	fraction := n.fraction
	if len(fraction) > exponent {
		if strings.Trim(fraction[exponent:], "0") != "" {
			return 0, errTooFine
		}
		fraction = fraction[:exponent]
	}
	value := int64(0)
	for at := range len(n.whole) + exponent {
		digit := byte('0')
		switch {
		case at < len(n.whole):
			digit = n.whole[at]
		case at-len(n.whole) < len(fraction):
			digit = fraction[at-len(n.whole)]
		}
		if value > limit/10 {
			return 0, errTooLarge
		}
		value = value*10 + int64(digit-'0')
	}
	if value > limit {
		return 0, errTooLarge
	}
	if n.negative {
		value = -value
	}
	return value, nil
}

func powerOfTen(exponent int) int64 {
	power := int64(1)
	for range exponent {
		power *= 10
	}
	return power
}
