package statement

import (
	"bufio"
	"bytes"
	"encoding/csv"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

	"golang.org/x/text/encoding/unicode"
)

// The providers whose files can be read.
const (
	stripe = "stripe"
	adyen  = "adyen"
	paypal = "paypal"
)

const (
	// preamble is how many lines may stand before the header: blank ones, "sep=;", a title.
	preamble = 32
	// delimiters are what separates the fields; which one it is shows in the header.
	delimiters = ",;\t|"
)

// ErrUnknownFormat is a file that is of no kind that can be read.
var ErrUnknownFormat = errors.New("file is no settlement file that is known")

// ColumnsError is a settlement file that lacks columns without which its lines cannot be understood, or has one twice.
type ColumnsError struct {
	Provider string
	Missing  []string
	Twice    []string
}

// Error names the columns.
func (e *ColumnsError) Error() string {
	if len(e.Missing) > 0 {
		return fmt.Sprintf("settlement file of %s lacks the columns %s: export it with them", e.Provider, strings.Join(e.Missing, ", "))
	}
	return fmt.Sprintf("settlement file of %s has the columns %s more than once", e.Provider, strings.Join(e.Twice, ", "))
}

// Options are what may be told about a file.
type Options struct {
	// Provider is "stripe", "adyen" or "paypal"; empty where the header shall tell. A file of another one is refused.
	Provider string
	// Zone is the time zone of the provider account's reports, for times that stand without one: Stripe's "created" where the report was
	// made in another zone than UTC and has no "created_utc", and Adyen's where its TimeZone is empty or means several zones. Nil: UTC for
	// Stripe, none for Adyen.
	Zone *time.Location
}

// Open recognizes a settlement file by its header. The errors are ErrUnknownFormat, *ColumnsError, and those of the source.
func Open(source io.Reader, options Options) (*Reader, error) {
	decoded, err := decode(source)
	if err != nil {
		return nil, err
	}
	lines := newLineReader(decoded)
	for range preamble {
		line, err := lines.next()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			return nil, err
		}
		if line.tooLong || len(bytes.TrimSpace(line.text)) == 0 {
			continue
		}
		reader, err := recognize(line, lines, options)
		if err != nil {
			return nil, err
		}
		if reader != nil {
			return reader, nil
		}
	}
	return nil, ErrUnknownFormat
}

// decode makes UTF-8 of what is UTF-16, and takes the byte order mark away. UTF-16 without the mark shows by the zero beside its first
// letter.
func decode(source io.Reader) (io.Reader, error) {
	buffered := bufio.NewReader(source)
	mark, err := buffered.Peek(3)
	if err != nil && !errors.Is(err, io.EOF) {
		return nil, fmt.Errorf("read settlement file: %w", err)
	}
	if bytes.HasPrefix(mark, []byte{0xEF, 0xBB, 0xBF}) {
		_, err := buffered.Discard(3)
		return buffered, wrapSource(err)
	}
	if order, ok := utf16Order(mark); ok {
		return unicode.UTF16(order, unicode.UseBOM).NewDecoder().Reader(buffered), nil
	}
	return buffered, nil
}

func utf16Order(mark []byte) (order unicode.Endianness, ok bool) {
	switch {
	case len(mark) < 2:
		return unicode.LittleEndian, false
	case mark[0] == 0xFF && mark[1] == 0xFE, mark[0] != 0 && mark[1] == 0:
		return unicode.LittleEndian, true
	case mark[0] == 0xFE && mark[1] == 0xFF, mark[0] == 0 && mark[1] != 0:
		return unicode.BigEndian, true
	default:
		return unicode.LittleEndian, false
	}
}

func wrapSource(err error) error {
	if err != nil {
		return fmt.Errorf("read settlement file: %w", err)
	}
	return nil
}

// recognize tries a line as the header, with each delimiter. A nil reader is a line that is none.
func recognize(line textLine, lines *lineReader, options Options) (*Reader, error) {
	for at := range len(delimiters) {
		fields, ok := splitHeader(line.text, delimiters[at])
		if !ok {
			continue
		}
		reader, err := match(fields, options)
		if err != nil {
			return nil, err
		}
		if reader == nil {
			continue
		}
		if options.Provider != "" && options.Provider != reader.provider {
			return nil, fmt.Errorf("file of %s is read as one of %s: %w", reader.provider, options.Provider, ErrUnknownFormat)
		}
		reader.rows = newRowReader(lines, delimiters[at])
		if reader.provider == paypal {
			reader.take(row{number: line.number, fields: fields}) // its first line is a row like the others
		}
		return reader, nil
	}
	return nil, nil //nolint:nilnil // a line before the header is neither an error nor a file
}

func splitHeader(text []byte, delimiter byte) (fields []string, ok bool) {
	if bytes.IndexByte(text, delimiter) < 0 {
		return nil, false
	}
	reader := csv.NewReader(bytes.NewReader(text))
	reader.Comma = rune(delimiter)
	fields, err := reader.Read()
	return fields, err == nil
}

func match(fields []string, options Options) (*Reader, error) {
	head := newHeader(fields)
	switch {
	case isPayPal(fields):
		return &Reader{provider: paypal, name: "settlement report", format: newPayPal(), tally: newTally()}, nil
	case isStripe(head):
		return openStripe(head, options)
	case isAdyen(head):
		return openAdyen(head, options)
	default:
		return nil, nil //nolint:nilnil // as recognize
	}
}

// require tells which of the columns a file lacks, or has twice.
func (h header) require(provider string, names map[string]column) error {
	failure := &ColumnsError{Provider: provider}
	for name, found := range names {
		if !found.exists() {
			failure.Missing = append(failure.Missing, name)
		} else if h.twice[plainName(found.name)] {
			failure.Twice = append(failure.Twice, found.name)
		}
	}
	if len(failure.Missing)+len(failure.Twice) == 0 {
		return nil
	}
	slices.Sort(failure.Missing)
	slices.Sort(failure.Twice)
	return failure
}
