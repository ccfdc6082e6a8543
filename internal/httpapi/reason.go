package httpapi

import (
	"regexp"
	"strings"
	"unicode"
	"unicode/utf8"
)

// checkReason keeps card numbers out of what a person writes and nothing deletes: the audit log, and the refunds.
func (p *places) checkReason(reason string) {
	if cardNumberIn(reason) {
		p.addf("/reason", "There is what looks like a card number, which must never be kept here. Name the payment by the provider's id.")
	}
}

// What a card number has: 13 to 19 digits (ISO/IEC 7812 allows 12, which no network of today gives out, and telephones have), and between
// two of its groups hardly more than a blank, a dash and a blank.
const (
	shortestCard = 13
	longestCard  = 19
	widestGap    = 3
)

// HasCardNumber tells whether a text has what looks like a card number, for whoever else keeps what a person writes.
func HasCardNumber(text string) bool { return cardNumberIn(text) }

// cardNumberIn finds a card number in what a person wrote or copied: digits of any script, with whatever stands between them that is no
// letter, a few characters at most. All groups that follow each other and together are one count, as a date of expiry may stand beside it.
func cardNumberIn(text string) bool {
	for _, groups := range digitGroups(masked(plainDigits(text))) {
		for first := range groups {
			for last := first + 1; last <= len(groups); last++ {
				digits := strings.Join(groups[first:last], "")
				if len(digits) > longestCard {
					break
				}
				if isCardNumber(digits) {
					return true
				}
			}
		}
	}
	return false
}

func isCardNumber(digits string) bool {
	if len(digits) < shortestCard || !looksLikeCard(digits) || !checkDigitFits(digits) {
		return false
	}
	return digits[0] != '2' || digits[1] >= '2' && digits[1] <= '7' // the networks' beginnings; 20 begins the years
}

// digitGroups are the runs of groups of digits that are not farther apart than the groups of one number.
func digitGroups(text string) [][]string {
	var runs [][]string
	var group strings.Builder
	gap, letters := 0, true // since the last digit; a first group begins a run
	end := func() {
		if group.Len() > 0 {
			runs[len(runs)-1] = append(runs[len(runs)-1], group.String())
			group.Reset()
		}
	}
	for _, c := range text {
		if c < '0' || c > '9' {
			end()
			gap, letters = gap+1, letters || unicode.IsLetter(c) && !unicode.Is(unicode.Lm, c) // of Lm are what some languages take for dashes
			continue
		}
		if letters || gap > widestGap {
			runs = append(runs, nil)
		}
		gap, letters = 0, false
		group.WriteRune(c)
	}
	end()
	return runs
}

// plainDigits writes the decimal digits of all scripts, such as full-width ones, as 0 to 9.
func plainDigits(text string) string {
	return strings.Map(func(c rune) rune {
		if c < utf8.RuneSelf || !unicode.IsDigit(c) {
			return c
		}
		zero := c // Unicode has the ten digits of a script in a row, and where rows follow each other, their numbers are multiples of ten
		for unicode.IsDigit(zero - 1) {
			zero--
		}
		return '0' + (c-zero)%10
	}, text)
}

var (
	// noCard are ids of orders and sagas, times and dates.
	noCard = regexp.MustCompile(`[0-9a-fA-F]{8}(-[0-9a-fA-F]{4}){3}-[0-9a-fA-F]{12}` +
		`|\b(19|20)[0-9]{2}-(0[1-9]|1[0-2])-(0[1-9]|[12][0-9]|3[01])([T ][0-9]{2}:[0-9]{2}(:[0-9]{2}([.][0-9]+)?)?)?([Z+]|\b)` +
		`|\b(0?[1-9]|[12][0-9]|3[01])[./-](0?[1-9]|[12][0-9]|3[01])[./-](19|20)[0-9]{2}\b`)
	// money is an amount with its minor units, of less than a card's digits.
	money = regexp.MustCompile(`^\pP?\p{Sc}?([0-9]{1,6}|[0-9]{1,3}([.,'][0-9]{3}){1,2})[.,][0-9]{2}\p{Sc}?\pP*$`)
)

// masked has a letter for what has many digits and is no card number.
func masked(text string) string {
	words := strings.FieldsFunc(noCard.ReplaceAllString(text, "x"), unicode.IsSpace)
	for i, word := range words {
		if money.MatchString(word) {
			words[i] = "x"
		}
	}
	return strings.Join(words, " ")
}
