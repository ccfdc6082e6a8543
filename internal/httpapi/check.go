package httpapi

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"math"
	"net/mail"
	"net/url"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/go-json-experiment/json/jsontext"

	"paysaga/api"
	"paysaga/providers"
)

// places collects what must be mended in a body.
type places []api.FieldError

func (p *places) addf(pointer, format string, args ...any) {
	*p = append(*p, api.FieldError{Pointer: pointer, Detail: fmt.Sprintf(format, args...)})
}

// problem is nil where nothing must be mended.
func (p *places) problem() error {
	if len(*p) == 0 {
		return nil
	}
	return &problem{kind: invalidRequest, detail: summary(*p), errors: *p}
}

// checkOrder checks what the contract's schema cannot say, before anything is written.
func checkOrder(o api.OrderRequest) error {
	var found places
	if _, ok := providers.CurrencyExponent(o.Currency); !ok {
		found.addf("/currency", "%q is no ISO 4217 currency that people pay in.", o.Currency)
	}
	seen := map[string]bool{}
	var sum int64
	for i, item := range o.Items {
		if seen[item.SKU] {
			found.addf(fmt.Sprintf("/items/%d/sku", i), "The SKU comes twice; put its pieces on one line.")
		}
		seen[item.SKU] = true
		if item.UnitAmount > 0 && item.Quantity > (math.MaxInt64-sum)/item.UnitAmount {
			found.addf(fmt.Sprintf("/items/%d", i), "The line's amount is too large.")
			break
		}
		sum += item.Quantity * item.UnitAmount
	}
	if len(found) == 0 && sum != o.Amount {
		found.addf("/amount", "The amount is %d, the lines add up to %d.", o.Amount, sum)
	}
	found.checkPayment(o.Payment.Method, o.Payment.MethodData, o.Payment.ReturnURL)
	found.checkTexts(o)
	return found.problem()
}

// longestMetadataName is the contract's limit for a name in the metadata; OpenAPI 3.0 has no words for it.
const longestMetadataName = 40

// checkTexts checks those texts of which the schema only knows the length.
func (p *places) checkTexts(o api.OrderRequest) {
	if o.Customer != nil && o.Customer.Email != "" {
		if parsed, err := mail.ParseAddress(o.Customer.Email); err != nil || parsed.Address != o.Customer.Email {
			p.addf("/customer/email", "This is no e-mail address.")
		}
	}
	for _, name := range slices.Sorted(maps.Keys(o.Metadata)) {
		if utf8.RuneCountInString(name) > longestMetadataName {
			p.addf(string(jsontext.Pointer("/metadata").AppendToken(name)), "The name has more than %d characters.", longestMetadataName)
		}
	}
}

// longestMethodData bounds, in bytes of JSON, what is kept of a client library's object: the contract's limit. Adyen's encrypted
// card fields have some 3 KiB.
const longestMethodData = 16 << 10

const cardNumber = "This looks like a card number, which must never be sent here. Send the provider's token for it."

// checkDetails looks for a card number in what the customer's way back brought.
func (p *places) checkDetails(details json.RawMessage) {
	if pointer, found := findCard(details); found {
		p.addf("/details"+string(pointer), cardNumber)
	}
}

// checkPayment checks the payment of an order, or of its next attempt.
func (p *places) checkPayment(method string, data json.RawMessage, returnURL string) {
	if looksLikeCard(method) {
		p.addf("/payment/method", cardNumber)
	}
	const object = "/payment/method_data"
	if len(data) > longestMethodData {
		p.addf(object, "The object has more than %d bytes.", longestMethodData)
	} else if pointer, found := findCard(data); found {
		p.addf(object+string(pointer), cardNumber)
	}
	if returnURL != "" {
		if parsed, err := url.Parse(returnURL); err != nil || parsed.Hostname() == "" {
			p.addf("/payment/return_url", "This is no URL.")
		}
	}
}

// looksLikeCard recognizes 12 to 19 digits, what groups them aside, that begin as the numbers of payment cards do: lengths and
// first digits by ISO/IEC 7812. Ids of methods that Adyen stored long ago are 16 digits as well, and begin with 8 or 9.
func looksLikeCard(text string) bool {
	digits := cardDigits(text)
	if len(digits) < 12 || len(digits) > 19 || digits[0] < '2' || digits[0] > '6' {
		return false
	}
	return !strings.ContainsFunc(digits, func(c rune) bool { return c < '0' || c > '9' })
}

func cardDigits(text string) string {
	return strings.NewReplacer(" ", "", "-", "", "_", "", ".", "").Replace(text)
}

// findCard finds a card number in an object of a client library, under whatever name, and as a name. There the digits of a
// telephone number may be as many, so the check digit counts as well. Encrypted fields are long and have letters.
func findCard(object json.RawMessage) (jsontext.Pointer, bool) {
	decoder := jsontext.NewDecoder(bytes.NewReader(object))
	for {
		token, err := decoder.ReadToken()
		if errors.Is(err, io.EOF) || err != nil {
			return "", false
		}
		text := token.String()
		if kind := token.Kind(); (kind != '"' && kind != '0') || !looksLikeCard(text) || !checkDigitFits(cardDigits(text)) {
			continue
		}
		place := decoder.StackPointer()
		if looksLikeCard(place.LastToken()) {
			place = place.Parent() // not to repeat the number
		}
		return place, true
	}
}

// checkDigitFits is the check that all card numbers pass (ISO/IEC 7812-1, Luhn), and one in ten others.
func checkDigitFits(digits string) bool {
	sum := 0
	for i := range len(digits) {
		digit := int(digits[len(digits)-1-i] - '0')
		if i%2 == 1 {
			digit = digit*2 - digit/5*9
		}
		sum += digit
	}
	return sum%10 == 0
}
