package statement

import (
	"bytes"
	"errors"
	"fmt"
	"io"
)

const (
	// maxLine is the longest line, and the longest row over several lines, in bytes. The widest exports, with every optional column, have
	// rows of less than 8 KiB; what is longer is no row.
	maxLine = 64 << 10
	// maxRowLines is over how many lines quoted text may make a row go: an address or a note has a handful. It bounds how often a line is
	// looked at when a quote is not closed.
	maxRowLines = 100
	// searchChunk is how far one kind of line end is looked for before the other is: in files whose lines end with CR there is no LF.
	searchChunk = 1 << 10
)

// textLine is a line as it stands in the file.
type textLine struct {
	number  int
	text    []byte // without its end; valid until the next line is read
	open    bool   // the file ends before the line does
	tooLong bool   // longer than maxLine; the text is not there
}

func (l textLine) clone() textLine {
	l.text = bytes.Clone(l.text)
	return l
}

// lineReader reads lines that end with LF, CRLF or CR, in a buffer that never grows.
type lineReader struct {
	source     io.Reader
	buffer     []byte
	start, end int // what is read and not handed out
	ended      bool
	err        error // why it ended, where that is not the end of the file
	number     int   // of the last line
	afterCR    bool  // an LF that comes now belongs to the line before
}

func newLineReader(source io.Reader) *lineReader {
	return &lineReader{source: source, buffer: make([]byte, 2*maxLine)}
}

// next gives the next line, io.EOF after the last one, or why the file cannot be read on.
func (l *lineReader) next() (textLine, error) {
	searched := 0
	for {
		if l.afterCR && l.start < l.end {
			if l.buffer[l.start] == '\n' {
				l.start++
			}
			l.afterCR = false
		}
		pending := l.buffer[l.start:l.end]
		if at := indexLineEnd(pending[searched:]); at >= 0 {
			return l.take(searched+at, false), nil
		}
		searched = len(pending)
		if l.ended {
			return l.rest()
		}
		if searched > maxLine {
			return l.discard(), nil
		}
		l.fill()
	}
}

// rest is what stands behind the last line end.
func (l *lineReader) rest() (textLine, error) {
	switch {
	case l.err != nil:
		return textLine{}, l.err
	case l.start == l.end:
		return textLine{}, io.EOF
	default:
		return l.take(l.end-l.start, true), nil
	}
}

// take hands out the first length bytes as a line.
func (l *lineReader) take(length int, open bool) textLine {
	l.number++
	line := textLine{number: l.number, text: l.buffer[l.start : l.start+length], open: open, tooLong: length > maxLine}
	l.start += length
	if !open {
		l.afterCR = l.buffer[l.start] == '\r'
		l.start++
	}
	if line.tooLong {
		line.text = nil
	}
	return line
}

// discard passes over a line that is too long.
func (l *lineReader) discard() textLine {
	for {
		pending := l.buffer[l.start:l.end]
		at := indexLineEnd(pending)
		if at >= 0 || l.ended {
			length := at
			if at < 0 {
				length = len(pending)
			}
			line := l.take(length, at < 0)
			line.text, line.tooLong = nil, true
			return line
		}
		l.start, l.end = 0, 0
		l.fill()
	}
}

func (l *lineReader) fill() {
	if l.start > 0 {
		l.end = copy(l.buffer, l.buffer[l.start:l.end])
		l.start = 0
	}
	const patience = 100 // reads that bring nothing before the source is given up, as in bufio
	for range patience {
		count, err := l.source.Read(l.buffer[l.end:])
		l.end += count
		if err != nil {
			l.ended = true
			if !errors.Is(err, io.EOF) {
				l.err = fmt.Errorf("read settlement file: %w", err)
			}
			return
		}
		if count > 0 {
			return
		}
	}
	l.ended, l.err = true, fmt.Errorf("read settlement file: %w", io.ErrNoProgress)
}

// indexLineEnd finds the first CR or LF.
func indexLineEnd(text []byte) int {
	for from := 0; from < len(text); from += searchChunk {
		chunk := text[from:min(from+searchChunk, len(text))]
		feed := bytes.IndexByte(chunk, '\n')
		if feed >= 0 {
			chunk = chunk[:feed]
		}
		if carriage := bytes.IndexByte(chunk, '\r'); carriage >= 0 {
			return from + carriage
		}
		if feed >= 0 {
			return from + feed
		}
	}
	return -1
}
