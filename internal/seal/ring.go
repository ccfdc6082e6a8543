// Package seal encrypts what paysaga keeps of its answers, so that a copy of the database alone does not show them.
//
// A Ring holds one or more named AES-256-GCM keys. The first seals, all of them open: a key is replaced by putting a new
// one in front of it, and taken out when nothing sealed with it is left. The package knows nothing of where sealed bytes
// are kept; it reads no environment and writes no logs.
//
// A nonce is drawn at random for every message. NIST SP 800-38D allows 2^32 messages under one key that way: more than a
// year at 100 answers a second. A busier house puts a new key in front sooner.
package seal

import (
	"crypto/aes"
	"crypto/cipher"
	"crypto/rand"
	"encoding/base64"
	"errors"
	"fmt"
	"slices"
	"strings"
)

const (
	// keyLength is AES-256's, in bytes.
	keyLength = 32
	// maxKeyIDLength keeps the header short; a date or a key manager's short name fits. It must stay below 256, as the
	// header gives the id's length in one byte.
	maxKeyIDLength = 32
	// maxKeys bounds a ring. With yearly rotation nobody needs more than two or three at once.
	maxKeys = 16
)

// ErrInvalidSpec tells that a ring's description cannot be used. Its text never holds key material.
var ErrInvalidSpec = errors.New("invalid encryption keys")

// Ring is a set of named keys. It never changes after NewRing and may be used by any number of goroutines.
type Ring struct {
	ids  []string // in the order of the ring: the first seals
	keys map[string]cipher.AEAD
}

// NewRing reads keys written as "id:key[,id:key…]", each key the standard base64 of 32 bytes. The first one seals. An id is
// 1 to 32 characters of A-Z a-z 0-9 . _ - and stays with its key for ever, since it is written into what the key seals.
// Every error is an ErrInvalidSpec.
func NewRing(spec string) (*Ring, error) {
	entries := strings.Split(spec, ",")
	if len(entries) > maxKeys {
		return nil, fmt.Errorf("%w: %d keys, at most %d are allowed", ErrInvalidSpec, len(entries), maxKeys)
	}
	ring := &Ring{keys: make(map[string]cipher.AEAD, len(entries))}
	ids := make(map[[keyLength]byte]string, len(entries))
	for position, entry := range entries {
		id, key, err := parseKey(entry)
		if err != nil {
			return nil, fmt.Errorf("%w: key %d: %w", ErrInvalidSpec, position+1, err)
		}
		if _, taken := ring.keys[id]; taken {
			return nil, fmt.Errorf("%w: two keys have the id %q", ErrInvalidSpec, id)
		}
		if twin, taken := ids[key]; taken {
			return nil, fmt.Errorf("%w: %q and %q are the same key", ErrInvalidSpec, twin, id)
		}
		aead, err := newAEAD(key)
		if err != nil {
			return nil, fmt.Errorf("%w: key %d: %w", ErrInvalidSpec, position+1, err)
		}
		ring.ids = append(ring.ids, id)
		ring.keys[id], ids[key] = aead, id
	}
	return ring, nil
}

// GenerateKey makes a new random key in the form that NewRing reads, "id:base64". The result is a secret.
func GenerateKey(id string) string {
	key := make([]byte, keyLength)
	_, _ = rand.Read(key) // Never fails: the runtime ends the program when the system has no randomness.
	return id + ":" + base64.StdEncoding.EncodeToString(key)
}

// String names the key that seals, and no key material.
func (r *Ring) String() string {
	return fmt.Sprintf("key ring of %d, sealing with %q", len(r.keys), r.ids[0])
}

// KeyIDs names the ring's keys in their order. The first one seals.
func (r *Ring) KeyIDs() []string { return slices.Clone(r.ids) }

func newAEAD(key [keyLength]byte) (cipher.AEAD, error) {
	block, err := aes.NewCipher(key[:])
	if err != nil {
		return nil, fmt.Errorf("set up AES: %w", err)
	}
	aead, err := cipher.NewGCMWithRandomNonce(block)
	if err != nil {
		return nil, fmt.Errorf("set up GCM: %w", err)
	}
	return aead, nil
}

// What can be wrong with one key. None of these repeats a part of the entry: an entry without a colon may well be the
// bare key.
var (
	errNoID       = errors.New("has no id; write it as id:key")
	errBadID      = errors.New("the id must be 1 to 32 characters of A-Z a-z 0-9 . _ -")
	errBadKey     = errors.New("the key must be the base64 of 32 random bytes, such as `openssl rand -base64 32` prints")
	errUniformKey = errors.New("all bytes of the key are the same; it must be random")
)

func parseKey(entry string) (id string, key [keyLength]byte, err error) {
	id, encoded, found := strings.Cut(strings.TrimSpace(entry), ":")
	if !found {
		return "", key, errNoID
	}
	if !validKeyID(id) {
		return "", key, errBadID
	}
	decoded, err := base64.StdEncoding.Strict().DecodeString(encoded)
	if err != nil || len(decoded) != keyLength {
		return "", key, errBadKey // The decoder's own error would quote from the key.
	}
	key = [keyLength]byte(decoded)
	if key == [keyLength]byte([]byte(strings.Repeat(string(decoded[:1]), keyLength))) {
		return "", key, errUniformKey
	}
	return id, key, nil
}

func validKeyID(id string) bool {
	const allowed = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789._-"
	return id != "" && len(id) <= maxKeyIDLength && strings.Trim(id, allowed) == ""
}
