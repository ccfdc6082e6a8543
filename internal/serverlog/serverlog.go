// Package serverlog finds in the JSON log of a server that was started as a process where that server listens. It knows the one line that
// tells it, and nothing else of the log.
package serverlog

import (
	"bytes"
	"encoding/json"
	"io"
)

// Finder passes a log on and finds the server's address in it. It is for one writer at a time, as exec.Cmd is.
type Finder struct {
	// Found gets the server's URL ("http://127.0.0.1:8080") once.
	Found chan string

	next  io.Writer
	begun []byte // of a line that has not ended yet
	done  bool
}

// NewFinder passes on to next.
func NewFinder(next io.Writer) *Finder { return &Finder{Found: make(chan string, 1), next: next} }

// maxSearched bounds how much of a log without an address is kept in mind: a line is far shorter.
const maxSearched = 64 << 10

// Write never searches again once the address is found.
func (f *Finder) Write(p []byte) (int, error) {
	if !f.done {
		f.search(p)
	}
	return f.next.Write(p) //nolint:wrapcheck // a Writer is transparent
}

func (f *Finder) search(p []byte) {
	f.begun = append(f.begun, p...)
	for {
		line, rest, whole := bytes.Cut(f.begun, []byte("\n"))
		if !whole {
			break
		}
		f.begun = rest
		var entry struct {
			Message string `json:"msg"`
			URL     string `json:"url"`
		}
		if json.Unmarshal(line, &entry) == nil && entry.Message == "listening" {
			f.Found <- entry.URL
			f.begun, f.done = nil, true
			return
		}
	}
	if len(f.begun) > maxSearched {
		f.begun = nil
	}
}
