package statement

import (
	"errors"
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"
)

const (
	// maxText is the longest reference, in bytes. The providers' own have at most 40 characters, our sub-keys 64; a payout's description
	// in Adyen's files up to 80. An id that is made of one, with what is put beside it, still fits where 255 do.
	maxText = 200
	// maxColumns is how many columns a file may have. Stripe has some 80, and takes metadata beside them.
	maxColumns = 1000
)

var (
	errMissing  = errors.New("is missing in this line")
	errCut      = errors.New("ends before its last columns, as if it were cut off")
	errShifted  = errors.New("has more fields than there are columns, as if a separator stood in a text without quotes")
	errText     = errors.New("has characters that no reference has")
	errLongText = errors.New("is longer than any reference")
	errCurrency = errors.New("is no ISO 4217 currency of payment")
)

// column is where in a row a field stands.
type column struct {
	at   int // -1: the file has no such column
	name string
}

func (c column) exists() bool { return c.at >= 0 }

// fail is what is wrong with the column's field in a row.
func (c column) fail(reason error) error { return &fieldError{column: c.name, reason: reason.Error()} }

// header finds columns by name, in whatever order they stand.
type header struct {
	names []string // as they are written
	at    map[string]int
	twice map[string]bool
}

func newHeader(fields []string) header {
	head := header{names: make([]string, 0, len(fields)), at: make(map[string]int, len(fields)), twice: make(map[string]bool)}
	for at, field := range fields[:min(len(fields), maxColumns)] {
		name := plainName(field)
		head.names = append(head.names, strings.TrimSpace(field))
		if _, ok := head.at[name]; ok {
			head.twice[name] = true
			continue
		}
		head.at[name] = at
	}
	return head
}

// plainName is a column's name without what differs between exports: "Balance Transaction ID" and "balance_transaction_id" are one name,
// so are "TransactionID" and "Transaction  ID".
func plainName(field string) string {
	return strings.Map(func(char rune) rune {
		switch {
		case char >= 'a' && char <= 'z', char >= '0' && char <= '9':
			return char
		case char >= 'A' && char <= 'Z':
			return char - 'A' + 'a'
		default:
			return -1
		}
	}, field)
}

// column finds the first of several names that the file has.
func (h header) column(names ...string) column {
	for _, name := range names {
		if at, ok := h.at[name]; ok {
			return column{at: at, name: h.names[at]}
		}
	}
	return column{at: -1}
}

func (h header) has(name string) bool {
	_, ok := h.at[name]
	return ok
}

// equals tells a row that repeats the header, where files were put together.
func (h header) equals(fields []string) bool {
	if len(fields) != len(h.names) {
		return false
	}
	for at, field := range fields {
		if strings.TrimPrefix(strings.TrimSpace(field), "\ufeff") != strings.TrimPrefix(h.names[at], "\ufeff") {
			return false
		}
	}
	return true
}

// check tells whether a row has the columns that it should have. A shorter one passes only where what is missing, and the field before
// it, are of columns that nobody needs: last is the last one that somebody does. A last row without a line end may be cut off in its last
// field: it does not pass where that is one of those by which the booking is identified.
func (h header) check(read row, last int, identifying ...column) error {
	ends := len(read.fields) - 1
	switch {
	case read.open && slices.ContainsFunc(identifying, func(each column) bool { return each.at == ends && read.raw(each) != "" }):
		return &rowError{number: read.number, reason: errCut.Error()}
	case len(read.fields) > len(h.names):
		if !isBlank(read.fields[len(h.names):]) {
			return &rowError{number: read.number, reason: errShifted.Error()}
		}
	case len(read.fields) < len(h.names):
		if read.open || last >= ends {
			return &rowError{number: read.number, reason: errCut.Error()}
		}
	}
	return nil
}

// last is the last of the columns that are there.
func last(columns ...column) int {
	furthest := 0
	for _, column := range columns {
		furthest = max(furthest, column.at)
	}
	return furthest
}

// raw is a field's text; empty where the row has none.
func (r row) raw(from column) string {
	if from.at < 0 || from.at >= len(r.fields) {
		return ""
	}
	return strings.TrimSpace(r.fields[from.at])
}

// text is a reference that may be empty.
func (r row) text(from column) (string, error) {
	text := r.raw(from)
	if strings.ContainsFunc(text, func(letter rune) bool { return unicode.In(letter, unicode.Cc, unicode.Cf) }) { // a terminal may obey them
		return "", from.fail(errText)
	}
	switch {
	case len(text) > maxText:
		return "", from.fail(errLongText)
	case !utf8.ValidString(text):
		return "", from.fail(errText)
	}
	return text, nil
}

// texts are references that may be empty.
func (r row) texts(from ...column) ([]string, error) {
	all := make([]string, len(from))
	for at, column := range from {
		text, err := r.text(column)
		if err != nil {
			return nil, err
		}
		all[at] = text
	}
	return all, nil
}
