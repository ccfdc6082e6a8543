package statement

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"strconv"
)

// maxTwins is how many different bookings without a reference a file may have, so that equal ones can be counted. Fees, payouts and
// corrections come a few times a day: years of them are less.
const maxTwins = 1 << 16

var errTwins = errors.New("is one of too many bookings without a reference: equal ones can be told apart no more")

// digest is an id for a booking that has none: of what identifies it, each part with its length before it, so that no two lists of parts
// are one. 128 bits of SHA-256.
func digest(parts ...string) string {
	hash := sha256.New()
	for _, part := range parts {
		fmt.Fprintf(hash, "%d:%s", len(part), part)
	}
	return hex.EncodeToString(hash.Sum(nil)[:16])
}

// twins counts equal bookings that have no reference of their own: the second one of a file has another id than the first, and in
// another file, where both stand again, they have the same two ids.
type twins struct{ seen map[string]int }

func newTwins() *twins { return &twins{seen: make(map[string]int)} }

func (t *twins) id(digest string) (string, error) {
	count, known := t.seen[digest]
	if !known && len(t.seen) >= maxTwins {
		return "", errTwins
	}
	t.seen[digest] = count + 1
	if count == 0 {
		return digest, nil
	}
	return digest + "-" + strconv.Itoa(count+1), nil
}
