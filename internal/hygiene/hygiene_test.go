package hygiene_test

import (
	"encoding/hex"
	"fmt"
	"net/http"
	"strings"
	"testing"

	"paysaga/internal/hygiene"
)

// A book that finds nothing must be one that would.
func TestLeaksAreFound(t *testing.T) {
	t.Parallel()
	const key, apiKey = "key-0123456789-abcdef", "sk_live_0123456789abcdef"
	header := http.Header{"Idempotency-Key": {`"` + key + `"`}, "Authorization": {"Bearer " + apiKey}}
	const body = `{"currency":"EUR","amount":3998,"payment":{"provider":"stripe","method":"pm_card_visa_x"},"customer":{"email":"ada@example.com"},` +
		`"metadata":{"note":"a long note"}}`
	fingerprint := []byte("0123456789abcdef0123456789abcdef")
	for name, c := range map[string]struct {
		said  string
		leaks bool
	}{
		"nothing":            {"order confirmed, stripe, EUR", false},
		"the key":            {"key=" + key, true},
		"a part of the key":  {"key=" + key[:8], false},
		"the API key":        {"Authorization: " + apiKey, true},
		"the body":           {body, true},
		"a payment method":   {"method pm_card_visa_x", true},
		"an e-mail address":  {"mail to ada@example.com", true},
		"a note":             {"note: a long note", true},
		"fingerprint, hex":   {hex.EncodeToString(fingerprint), true},
		"fingerprint, HEX":   {fmt.Sprintf("%X", fingerprint), true},
		"fingerprint, bytes": {fmt.Sprintf("%v", fingerprint), true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			book := hygiene.New(t)
			book.Request(header, body)
			book.Bytes("a fingerprint", fingerprint)
			fmt.Fprintln(book, "before")
			fmt.Fprintln(book, c.said)
			found := book.Leaks()
			if (len(found) > 0) != c.leaks {
				t.Errorf("found %q", found)
			}
			for _, leak := range found {
				if !strings.Contains(leak, "in: "+c.said) {
					t.Errorf("the place is not told: %s", leak)
				}
			}
			if c.leaks {
				book.Forget() // it would fail this test when it ends
			}
		})
	}
}
