// Package account knows who may call the API: the secrets, their hashes and the roles. It is pure; package postgres
// keeps the records.
package account

import (
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
	"errors"
	"fmt"
	"regexp"
	"time"

	"github.com/google/uuid"
)

// Role is what a key may do.
type Role string

// The roles.
const (
	Merchant Role = "merchant" // its own account's orders and stock
	Operator Role = "operator" // the same, and what repairs need
)

// ErrUnknownKey tells that no key has this secret, or that it is revoked.
var ErrUnknownKey = errors.New("unknown or revoked API key")

// Key is an API key as it is kept. The secret itself is shown once and never stored.
type Key struct {
	AccountID string
	ID        uuid.UUID
	Name      string
	Role      Role
	CreatedAt time.Time
	RevokedAt *time.Time
}

// secretPrefix lets a leaked key be recognized by scanners.
const secretPrefix = "paysaga_"

var accountID = regexp.MustCompile(`^[a-z0-9][a-z0-9_-]{0,62}$`)

// NewKey makes a key and its secret: 256 random bits, which is why a plain SHA-256 is enough to keep it by.
func NewKey(accountName, name string, role Role) (key Key, secret string, err error) {
	if !accountID.MatchString(accountName) {
		return Key{}, "", fmt.Errorf("account %q: use 1 to 63 characters of a-z 0-9 _ -, beginning with a letter or digit", accountName)
	}
	if role != Merchant && role != Operator {
		return Key{}, "", fmt.Errorf("role %q: use merchant or operator", role)
	}
	if name == "" || len(name) > 100 {
		return Key{}, "", errors.New("name: use 1 to 100 characters")
	}
	random := make([]byte, sha256.Size)
	if _, err := rand.Read(random); err != nil {
		return Key{}, "", fmt.Errorf("draw a secret: %w", err)
	}
	secret = secretPrefix + base64.RawURLEncoding.EncodeToString(random)
	return Key{AccountID: accountName, ID: uuid.New(), Name: name, Role: role}, secret, nil
}

// HashSecret is what a key is kept and found by.
func HashSecret(secret string) [32]byte { return sha256.Sum256([]byte(secret)) }
