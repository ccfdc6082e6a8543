package client

import (
	"errors"
	"fmt"
	"log/slog"
	"strings"

	"github.com/google/uuid"
)

// Lengths of a key, by the API's contract.
const (
	minKeyLength = 16
	maxKeyLength = 255
)

// ErrInvalidKey is wrapped by the errors of a key that the API would not take, the zero Key included.
var ErrInvalidKey = errors.New("no valid idempotency key")

// Key is the Idempotency-Key of one intent: one order, one capture, one refund. Make it once, store it with the intent, and use it for
// all repeats. The zero Key is none, and refused by every method.
type Key struct{ text string }

// NewKey makes the key of a new intent, a random (version 4) UUID. Never call it where a request is sent, only where the intent arises:
// a key that is made anew for a repeat makes a second charge of it.
func NewKey() Key { return Key{uuid.NewString()} }

// ParseKey reads a key that was stored, or made by other means: 16 to 255 characters of A-Z a-z 0-9 . _ ~ : -. The error wraps
// ErrInvalidKey and does not repeat the text.
func ParseKey(text string) (Key, error) {
	if i := strings.IndexFunc(text, func(c rune) bool { return !keyCharacter(c) }); i >= 0 {
		return Key{}, fmt.Errorf("%w: the character at place %d is none of A-Z a-z 0-9 . _ ~ : -", ErrInvalidKey, i+1)
	}
	if len(text) < minKeyLength || len(text) > maxKeyLength {
		return Key{}, fmt.Errorf("%w: %d characters, not %d to %d", ErrInvalidKey, len(text), minKeyLength, maxKeyLength)
	}
	return Key{text}, nil
}

func keyCharacter(c rune) bool {
	return 'A' <= c && c <= 'Z' || 'a' <= c && c <= 'z' || '0' <= c && c <= '9' || strings.ContainsRune("._~:-", c)
}

// String is the whole key, to be stored; ParseKey reads it back.
func (k Key) String() string { return k.text }

// IsZero tells that there is no key.
func (k Key) IsZero() bool { return k.text == "" }

// MarshalText is for JSON and other encodings. The zero Key fails, so that no intent is stored without its key by mistake.
func (k Key) MarshalText() ([]byte, error) {
	if k.IsZero() {
		return nil, ErrInvalidKey
	}
	return []byte(k.text), nil
}

// UnmarshalText is ParseKey.
func (k *Key) UnmarshalText(text []byte) error {
	parsed, err := ParseKey(string(text))
	if err != nil {
		return err
	}
	*k = parsed
	return nil
}

// LogValue shows log/slog the beginning alone: enough to find the intent, too little to repeat it.
func (k Key) LogValue() slog.Value {
	const shown = 8 // at most half of a key
	return slog.StringValue(k.text[:min(shown, len(k.text))] + "…")
}
