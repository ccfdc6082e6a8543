package designdoc

import (
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"

	"paysaga/saga"
)

// vectorFile is the file of the published test vectors.
type vectorFile struct {
	Namespace       string   `json:"saga_key_namespace"`
	PayPalNamespace string   `json:"paypal_namespace"`
	Vectors         []vector `json:"vectors"`
}

type vector struct {
	Comment    string `json:"comment"`
	Account    string `json:"account"`
	Endpoint   string `json:"endpoint"`
	Key        string `json:"key"`
	Generation int    `json:"generation"`
	Step       string `json:"step"`
	Attempt    int    `json:"attempt"`
	SagaKey    string `json:"saga_key"`
	SubKey     string `json:"sub_key"`
	PayPal     string `json:"paypal_request_id"`
}

// netstrings is the name that a saga key derives from.
func (v vector) netstrings() string {
	var name strings.Builder
	for _, part := range []string{v.Account, v.Endpoint, v.Key, strconv.Itoa(v.Generation)} {
		fmt.Fprintf(&name, "%d:%s,", len(part), part)
	}
	return name.String()
}

// vectors writes some of the published vectors, one of each kind.
func (w *writer) vectors(string) {
	kinds := []struct {
		is   string
		fits func(v vector) bool
	}{
		{"An order's charge", func(v vector) bool { return v.Step == "charge" && v.Attempt == 1 && v.Generation == 1 }},
		{"Its second attempt, after a decline", func(v vector) bool { return v.Step == "charge" && v.Attempt == 2 }},
		{"The key used again after its window", func(v vector) bool { return v.Generation == 2 }},
		{"The same key of another account", func(v vector) bool { return v.Account == "shop2" }},
		{"A capture", func(v vector) bool { return v.Step == "capture" }},
		{"A refund", func(v vector) bool { return strings.HasSuffix(v.Endpoint, "/refunds") && v.Step == "refund" }},
	}
	var rows [][]string
	for i, kind := range kinds {
		at := slices.IndexFunc(w.sources.vectors.Vectors, kind.fits)
		if at < 0 {
			w.failf("there is no test vector of the kind %q", kind.is)
			return
		}
		v := w.sources.vectors.Vectors[at]
		if got := saga.Key(v.Account, v.Endpoint, v.Key, v.Generation).String(); got != v.SagaKey {
			w.failf("the vector of %q is not what the code derives: %s", kind.is, got)
		}
		if i == 0 {
			w.put(`<dl class="vector">`)
			for _, line := range [][2]string{
				{"Name", v.netstrings()},
				{"Saga key = order id", v.SagaKey},
				{"Stripe `Idempotency-Key`", v.SubKey},
				{"Adyen `reference` and `Idempotency-Key`", v.SubKey},
				{"PayPal `PayPal-Request-Id`", v.PayPal},
			} {
				w.put(`<dt>`, w.inline(line[0]), `</dt><dd>`, w.inline("`"+line[1]+"`"), `</dd>`)
			}
			w.put(`</dl>`)
		}
		rows = append(rows, []string{
			kind.is, "`" + v.Account + "` · `" + v.Endpoint + "` · `" + v.Key + "`", strconv.Itoa(v.Generation), "`" + v.SubKey + "`",
			"`" + v.PayPal + "`",
		})
	}
	w.table(fmt.Sprintf("Some of the %d published vectors", len(w.sources.vectors.Vectors)),
		[]string{"What", "Account · endpoint · key", "Generation", "Sub-key (Stripe, Adyen)", "PayPal"}, rows)
}

// keyAlphabet is how many characters a key may be made of: A-Z a-z 0-9, and five more.
const keyAlphabet = 26 + 26 + 10 + 5

// uuidBits are those of a UUID that are not its version and variant.
const uuidBits = 122

// collisions writes how likely it is that two of a number of keys are the same, n(n-1)/2 pairs over 2^bits. It is the bound, which for
// such small numbers is the value.
func (w *writer) collisions(string) {
	const inWindow, veryMany = 3e6, 1e9 // 100,000 keys a day for 30 days; far more than anybody has
	kinds := []struct {
		what string
		bits float64
	}{
		{"UUIDv4", uuidBits},
		{"ULID, at worst: all keys of one millisecond", 80},
		{fmt.Sprintf("16 random characters of all %d", keyAlphabet), 16 * math.Log2(keyAlphabet)},
		{"16 random hexadecimal digits", 64},
		{"16 random decimal digits", 16 * math.Log2(10)},
	}
	rows := make([][]string, 0, len(kinds)+1)
	for _, k := range kinds {
		small, large := inWindow, veryMany
		if k.bits == 80 { // only keys of the same millisecond can be the same
			small, large = 1_000, 10_000
		}
		rows = append(rows, []string{
			k.what, fmt.Sprintf("%.0f", k.bits), chance(small, k.bits) + of(small), chance(large, k.bits) + of(large),
		})
	}
	w.table("Chance that two keys are the same, within one account and endpoint",
		[]string{"Key", "Random bits", "Among the keys of a window", "Among very many"}, rows)
}

func of(n float64) string { return " of " + grouped(int64(n)) }

// chance of a collision among n keys, as "1 in …".
func chance(n, bits float64) string {
	p := n * (n - 1) / 2 / math.Pow(2, bits)
	if p >= 1 {
		return "certain"
	}
	if p > 0.001 {
		return fmt.Sprintf("%.1f %%", min(100, 100*(1-math.Exp(-p))))
	}
	exponent := math.Floor(math.Log10(1 / p))
	if first := math.Round(1 / p / math.Pow(10, exponent)); first > 1 {
		return fmt.Sprintf("1 in %.0f × 10^%.0f", first, exponent)
	}
	return fmt.Sprintf("1 in 10^%.0f", exponent)
}

// grouped writes a number with commas between its thousands.
func grouped(n int64) string {
	digits := strconv.FormatInt(n, 10)
	for i := len(digits) - 3; i > 0; i -= 3 {
		digits = digits[:i] + "," + digits[i:]
	}
	return digits
}
