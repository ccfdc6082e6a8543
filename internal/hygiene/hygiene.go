// Package hygiene is for tests. It collects all that a system under test says about itself, log lines, metrics and traces, and finds
// in it what must not be there (I10): idempotency keys and their fingerprints, API keys and other secrets, what customers and their
// cards are called, and bodies of requests and answers.
package hygiene

import (
	"bytes"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"log/slog"
	"maps"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"
)

// Book keeps what was said, and what must not have been.
type Book struct {
	mutex   sync.Mutex
	said    bytes.Buffer
	secrets map[string]string // what each is, by its text
}

// New makes a book that is searched when the test ends, after all cleanups that the test registers later.
func New(tb testing.TB) *Book {
	tb.Helper()
	book := &Book{secrets: map[string]string{}}
	tb.Cleanup(func() {
		for _, leak := range book.Leaks() {
			tb.Errorf("what the system says about itself holds %s", leak)
		}
	})
	return book
}

// Write takes what was said: it is an io.Writer for handlers of logs, and for all else that is text.
func (b *Book) Write(text []byte) (int, error) {
	b.mutex.Lock()
	defer b.mutex.Unlock()
	return b.said.Write(text) //nolint:wrapcheck // never fails
}

// Logger writes everything, down to the lowest level, into the book.
func (b *Book) Logger() *slog.Logger {
	return slog.New(slog.NewJSONHandler(b, &slog.HandlerOptions{Level: slog.LevelDebug}))
}

// shortest is the length from which on a text cannot stand in a log by chance.
const shortest = 8

// Secret names a text that must not be said; what is a word for the reader of a failure. Texts of less than eight bytes are not
// looked for.
func (b *Book) Secret(what, text string) {
	b.mutex.Lock()
	defer b.mutex.Unlock()
	if len(text) >= shortest {
		b.secrets[text] = what
	}
}

// Bytes names bytes that must not be said in any of their usual spellings, such as a fingerprint.
func (b *Book) Bytes(what string, secret []byte) {
	b.Secret(what, hex.EncodeToString(secret))
	b.Secret(what, strings.ToUpper(hex.EncodeToString(secret)))
	for _, encoding := range []*base64.Encoding{base64.RawStdEncoding, base64.RawURLEncoding} {
		b.Secret(what, encoding.EncodeToString(secret))
	}
	b.Secret(what, strings.Trim(fmt.Sprint(secret), "[]")) //nolint:staticcheck // QF1010: as %v spells it
}

// Request names what a request carries: its key, its API key, and what its body tells of the customer and the payment.
func (b *Book) Request(header http.Header, body string) {
	for _, key := range header.Values("Idempotency-Key") {
		b.Secret("an idempotency key", strings.Trim(key, "\" \t"))
	}
	for _, authorization := range header.Values("Authorization") {
		if scheme, secret, ok := strings.Cut(authorization, " "); ok && strings.EqualFold(scheme, "Bearer") {
			b.Secret("an API key", secret)
		}
	}
	b.Body("a request", body)
}

// personal are the fields of requests and answers, whatever stands below them included, that belong into no log.
var personal = []string{
	"method", "method_data", "customer", "email", "metadata", "details", "reason", "return_url", "next_action", "client_secret", "reference",
}

// Body names what a body tells of the customer and the payment, and the body as a whole.
func (b *Book) Body(of, body string) {
	if len(body) > 64 { // shorter ones hold a number or two
		b.Secret("the body of "+of, strings.TrimSpace(body))
	}
	var value any
	if json.Unmarshal([]byte(body), &value) == nil {
		b.fields(of, "", false, value)
	}
}

func (b *Book) fields(of, name string, secret bool, value any) {
	switch value := value.(type) {
	case map[string]any:
		for key, below := range value {
			b.fields(of, key, secret || slices.Contains(personal, key), below)
		}
	case []any:
		for _, below := range value {
			b.fields(of, name, secret, below)
		}
	case string:
		if secret && !public(name, value) {
			b.Secret(name+" of "+of, value)
		}
	}
}

// public tells words of the contract apart that stand below a personal field.
func public(name, value string) bool {
	return name == "type" || value == "redirect" || value == "client_secret"
}

// String is all that was said.
func (b *Book) String() string {
	b.mutex.Lock()
	defer b.mutex.Unlock()
	return b.said.String()
}

// Contains tells whether a text was said: a book that knows too little finds nothing.
func (b *Book) Contains(text string) bool {
	b.mutex.Lock()
	defer b.mutex.Unlock()
	return bytes.Contains(b.said.Bytes(), []byte(text))
}

// Forget lets what was said pass.
func (b *Book) Forget() {
	b.mutex.Lock()
	defer b.mutex.Unlock()
	b.said.Reset()
}

// Leaks are the secrets that were said, each with what it is.
func (b *Book) Leaks() []string {
	b.mutex.Lock()
	defer b.mutex.Unlock()
	var found []string
	for _, secret := range slices.Sorted(maps.Keys(b.secrets)) {
		if i := bytes.Index(b.said.Bytes(), []byte(secret)); i >= 0 {
			line := b.said.Bytes()[bytes.LastIndexByte(b.said.Bytes()[:i], '\n')+1:]
			if end := bytes.IndexByte(line, '\n'); end >= 0 {
				line = line[:end]
			}
			found = append(found, b.secrets[secret]+", "+secret+", in: "+string(line[:min(len(line), 500)]))
		}
	}
	return found
}
