package statement

import (
	"bytes"
	"encoding/csv"
	"errors"
	"io"
	"slices"
)

// row is a row of the file.
type row struct {
	number int // of its first line
	fields []string
	open   bool // the file ends before its last line does
}

// clone keeps a row beyond the next one.
func (r row) clone() row {
	r.fields = slices.Clone(r.fields)
	return r
}

// rowReader joins lines to rows, where quoted text goes over several, and splits them into fields. How rows are quoted is encoding/csv's
// matter; where a row ends is found here, since that package reads on to the end of the file where a quote is not closed. Of a row that
// cannot be read only the first line is given up: the next row begins with the line after it.
type rowReader struct {
	lines     *lineReader
	delimiter byte
	queue     []textLine // lines of a row that was given up, to be read again
	joined    []byte
	feed      feed
	csv       *csv.Reader
}

// feed gives one row to the csv.Reader, and then its end.
type feed struct {
	rest  []byte
	ended bool
}

// Read implements io.Reader.
func (f *feed) Read(into []byte) (int, error) {
	if len(into) == 0 {
		return 0, nil
	}
	count := copy(into, f.rest)
	f.rest = f.rest[count:]
	switch {
	case count > 0:
		return count, nil
	case !f.ended:
		f.ended = true
		into[0] = '\n'
		return 1, nil
	default:
		return 0, io.EOF
	}
}

func newRowReader(lines *lineReader, delimiter byte) *rowReader {
	return &rowReader{lines: lines, delimiter: delimiter}
}

// next gives the next row that is not blank. A *rowError is a row that cannot be read, after which reading goes on; io.EOF is the end.
func (r *rowReader) next() (row, error) {
	for {
		line, err := r.nextLine()
		if err != nil {
			return row{}, err
		}
		if line.tooLong {
			return row{}, &rowError{number: line.number, reason: "is longer than a row can be"}
		}
		if len(bytes.TrimSpace(line.text)) == 0 {
			continue
		}
		read, err := r.row(line)
		if err == nil && isBlank(read.fields) {
			continue
		}
		return read, err
	}
}

func (r *rowReader) nextLine() (textLine, error) {
	if len(r.queue) > 0 {
		line := r.queue[0]
		r.queue = r.queue[1:]
		return line, nil
	}
	return r.lines.next()
}

func (r *rowReader) row(first textLine) (row, error) {
	state := scanQuotes(betweenFields, first.text, r.delimiter)
	if state != inQuotes {
		return r.split(first.number, first.text, first.open)
	}
	read := []textLine{first.clone()}
	r.joined = append(r.joined[:0], first.text...)
	open := first.open
	for state == inQuotes {
		line, err := r.nextLine()
		if err != nil && !errors.Is(err, io.EOF) {
			return row{}, err
		}
		if err == nil {
			line = line.clone()
			read = append(read, line)
		}
		if err != nil || line.tooLong || len(read) > maxRowLines || len(r.joined)+len(line.text) > maxLine {
			return row{}, r.giveUp(read, "has a quoted text that does not end")
		}
		r.joined = append(append(r.joined, '\n'), line.text...)
		state = scanQuotes(state, line.text, r.delimiter)
		open = line.open
	}
	joined, err := r.split(first.number, r.joined, open)
	if err != nil {
		return row{}, r.giveUp(read, "has a quote in the wrong place")
	}
	return joined, nil
}

// giveUp makes the first of a row's lines faulty, and has the others read again.
func (r *rowReader) giveUp(read []textLine, reason string) error {
	r.queue = append(read[1:], r.queue...)
	return &rowError{number: read[0].number, reason: reason}
}

func (r *rowReader) split(number int, text []byte, open bool) (row, error) {
	if r.csv == nil {
		r.csv = csv.NewReader(&r.feed)
		r.csv.Comma = rune(r.delimiter)
		r.csv.FieldsPerRecord = -1
		r.csv.ReuseRecord = true
	}
	r.feed = feed{rest: text}
	fields, err := r.csv.Read()
	if err != nil {
		r.csv = nil // it may hold a rest of this row
		return row{}, &rowError{number: number, reason: "has a quote in the wrong place"}
	}
	return row{number: number, fields: fields, open: open}, nil
}

func isBlank(fields []string) bool {
	return !slices.ContainsFunc(fields, func(field string) bool { return field != "" })
}

// quoting is where in a row a byte stands.
type quoting int

const (
	betweenFields quoting = iota // a field begins
	inField                      // that is not quoted
	inQuotes
	afterQuote // within a quoted field: its end, or the first half of a doubled quote
)

// scanQuotes tells where a row stands behind a line: in quotes, where it goes on in the next one.
func scanQuotes(state quoting, text []byte, delimiter byte) quoting {
	if state == betweenFields && bytes.IndexByte(text, '"') < 0 {
		return inField
	}
	for _, char := range text {
		switch {
		case char == '"' && (state == betweenFields || state == afterQuote):
			state = inQuotes
		case char == '"' && state == inQuotes:
			state = afterQuote
		case state == inQuotes:
		case char == delimiter:
			state = betweenFields
		default:
			state = inField
		}
	}
	return state
}
