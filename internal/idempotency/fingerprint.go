package idempotency

import (
	"crypto/sha256"
	"crypto/subtle"
	"hash"
	"strconv"
)

// Fingerprint stands for what a request means. Two requests with the same intent have the same one, however they are
// written; any difference in a significant field gives another.
type Fingerprint [sha256.Size]byte

// Equal compares in constant time, so that the time of an answer tells nothing of the stored fingerprint.
func (f Fingerprint) Equal(other Fingerprint) bool {
	return subtle.ConstantTimeCompare(f[:], other[:]) == 1
}

// Intent collects the significant fields of an operation, in a fixed order, each with its name and length.
type Intent struct{ sum hash.Hash }

// NewIntent begins with the operation's name and the version of its list of fields.
func NewIntent(operation string) *Intent {
	i := &Intent{sum: sha256.New()}
	return i.String("operation", operation)
}

// String adds a field. Name and value are written as netstrings, so that no two lists of fields can run together.
func (i *Intent) String(name, value string) *Intent {
	for _, part := range []string{name, value} {
		i.sum.Write([]byte(strconv.Itoa(len(part)) + ":" + part + ","))
	}
	return i
}

// Int adds a number.
func (i *Intent) Int(name string, value int64) *Intent {
	return i.String(name, strconv.FormatInt(value, 10))
}

// Fingerprint is the SHA-256 of all fields added so far.
func (i *Intent) Fingerprint() Fingerprint {
	return Fingerprint(i.sum.Sum(nil))
}
