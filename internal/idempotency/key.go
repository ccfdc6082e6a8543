// Package idempotency is the guard of every unsafe request: it decides what a request with an Idempotency-Key is, new, a repeat, or
// somebody else's key, and sees to it that each key is carried out once and has one answer.
//
// It knows no SQL and no routes: package postgres keeps the records behind Store, package httpapi brings the requests and what they
// mean, and sagas join the guard with transactions of their own.
package idempotency

import (
	"errors"
	"fmt"
	"strings"
)

// Lengths of a client's key: 16 characters are the least that chance does not repeat, 255 the most that providers take.
const (
	minKeyLength = 16
	maxKeyLength = 255
)

// ErrKeyMissing tells that a request has no Idempotency-Key header.
var ErrKeyMissing = errors.New("the Idempotency-Key header is missing")

// KeyError tells what is wrong with a key, without repeating it.
type KeyError struct{ Detail string }

func (e *KeyError) Error() string { return e.Detail }

// ParseKey reads the values of a request's Idempotency-Key header: one key of 16 to 255 characters of
// A-Z a-z 0-9 . _ ~ : -, bare or as a quoted string (draft-ietf-httpapi-idempotency-key-header). Errors: ErrKeyMissing, *KeyError.
func ParseKey(values []string) (string, error) {
	switch len(values) {
	case 0:
		return "", ErrKeyMissing
	case 1:
	default:
		return "", &KeyError{fmt.Sprintf("The request has %d Idempotency-Key headers; send one.", len(values))}
	}
	key := strings.Trim(values[0], " \t")
	if quoted, ok := strings.CutPrefix(key, `"`); ok {
		if key, ok = strings.CutSuffix(quoted, `"`); !ok {
			return "", &KeyError{"The Idempotency-Key begins with a quotation mark and does not end with one."}
		}
	}
	if key == "" {
		return "", &KeyError{"The Idempotency-Key is empty; send a new UUID for each request and the same one for its repeats."}
	}
	if i := strings.IndexFunc(key, func(c rune) bool { return !keyCharacter(c) }); i >= 0 {
		return "", &KeyError{fmt.Sprintf("The Idempotency-Key has a character at place %d that is none of A-Z a-z 0-9 . _ ~ : -", i+1)}
	}
	if len(key) < minKeyLength || len(key) > maxKeyLength {
		return "", &KeyError{fmt.Sprintf("The Idempotency-Key has %d characters; it needs %d to %d.", len(key), minKeyLength, maxKeyLength)}
	}
	return key, nil
}

func keyCharacter(c rune) bool {
	return 'A' <= c && c <= 'Z' || 'a' <= c && c <= 'z' || '0' <= c && c <= '9' || strings.ContainsRune("._~:-", c)
}
