package adyen

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"errors"
	"maps"
	"net/http"
	"regexp"
	"strings"
	"testing"
	"time"
)

// The vector of Adyen's documentation.
const (
	knownKey       = "44782DEF547AAA06C910C43932B1EB0C71FC68D9D0C057550C48EC2ACF6BA056"
	knownSignature = "coqCmt/IZ4E3CzPvMY8zTjQVL5hYJUiBRg8UU+iCWo0="
	knownString    = "7914073381342284::TestMerchant:TestPayment-1407325143704:1130:EUR:AUTHORISATION:true"
	otherKey       = "0123456789ABCDEF0123456789ABCDEF0123456789ABCDEF0123456789ABCDEF"
)

var arrival = time.Date(2026, 11, 29, 12, 0, 0, 0, time.UTC)

func webhookWith(t testing.TB, keys ...string) *Webhook {
	t.Helper()
	webhook, err := NewWebhook(WebhookConfig{HMACKeys: keys, MerchantAccount: "TestMerchant"})
	if err != nil {
		t.Fatal(err)
	}
	return webhook
}

// known is the item of the vector.
func known() map[string]any {
	return map[string]any{
		"pspReference": "7914073381342284", "merchantAccountCode": "TestMerchant", "merchantReference": "TestPayment-1407325143704",
		"amount": map[string]any{"value": 1130, "currency": "EUR"}, "eventCode": "AUTHORISATION", "success": "true",
		"eventDate": "2014-08-06T17:15:34.121+02:00", "reason": "null", "paymentMethod": "visa",
		"additionalData": map[string]any{"hmacSignature": knownSignature},
	}
}

// batchOf writes items as Adyen does.
func batchOf(t testing.TB, items ...map[string]any) []byte {
	t.Helper()
	wrapped := make([]any, 0, len(items))
	for _, item := range items {
		wrapped = append(wrapped, map[string]any{"NotificationRequestItem": item})
	}
	body, err := json.Marshal(map[string]any{"live": "false", "notificationItems": wrapped})
	if err != nil {
		t.Fatal(err)
	}
	return body
}

// signed is the item with a signature of its own by the key, written from the documentation and not from the code under test.
func signed(t testing.TB, key string, item map[string]any) map[string]any {
	t.Helper()
	field := func(from map[string]any, name string) string {
		value, ok := from[name]
		if !ok {
			return ""
		}
		text, err := json.Marshal(value)
		if err != nil {
			t.Fatal(err)
		}
		return strings.ReplaceAll(strings.Trim(string(text), `"`), `\\`, `\`)
	}
	money, ok := item["amount"].(map[string]any)
	if !ok {
		money = nil // signed as empty
	}
	joined := field(item, "pspReference") + ":" + field(item, "originalReference") + ":" + field(item, "merchantAccountCode") + ":" +
		field(item, "merchantReference") + ":" + field(money, "value") + ":" + field(money, "currency") + ":" + field(item, "eventCode") + ":" +
		field(item, "success")
	secret, err := hex.DecodeString(key)
	if err != nil {
		t.Fatal(err)
	}
	mac := hmac.New(sha256.New, secret)
	mac.Write([]byte(joined))
	additional := map[string]any{}
	if given, ok := item["additionalData"].(map[string]any); ok {
		maps.Copy(additional, given)
	}
	additional["hmacSignature"] = base64.StdEncoding.EncodeToString(mac.Sum(nil))
	copied := maps.Clone(item)
	copied["additionalData"] = additional
	return copied
}

func TestKnownVector(t *testing.T) {
	t.Parallel()
	notices, err := webhookWith(t, knownKey).Parse(nil, batchOf(t, known()), arrival)
	if err != nil || len(notices) != 1 {
		t.Fatalf("%+v, %v", notices, err)
	}
	var parsed batch
	if err := json.Unmarshal(batchOf(t, known()), &parsed); err != nil {
		t.Fatal(err)
	}
	if got := parsed.Items[0].Item.signedString(); got != knownString {
		t.Errorf("signed string %q", got)
	}
}

func TestRotation(t *testing.T) {
	t.Parallel()
	body := batchOf(t, known(), signed(t, otherKey, known()))
	for name, keys := range map[string][]string{"old first": {knownKey, otherKey}, "new first": {otherKey, knownKey}} {
		if notices, err := webhookWith(t, keys...).Parse(nil, body, arrival); err != nil || len(notices) != 2 {
			t.Errorf("%s: %+v, %v", name, notices, err)
		}
	}
	if _, err := webhookWith(t, knownKey).Parse(nil, body, arrival); !errors.Is(err, ErrSignature) {
		t.Errorf("one item of two is signed by another key: %v", err)
	}
}

// TestEverySignedByteCounts changes each byte of all that is signed, of the signature and of the key.
func TestEverySignedByteCounts(t *testing.T) {
	t.Parallel()
	webhook := webhookWith(t, knownKey)
	original := known()
	original["originalReference"] = "9913140798220028"
	body := string(batchOf(t, signed(t, knownKey, original)))
	if _, err := webhook.Parse(http.Header{}, []byte(body), arrival); err != nil {
		t.Fatal(err)
	}
	for _, part := range []string{
		`"pspReference":"7914073381342284"`, `"originalReference":"9913140798220028"`, `"merchantAccountCode":"TestMerchant"`,
		`"merchantReference":"TestPayment-1407325143704"`, `"value":1130`, `"currency":"EUR"`, `"eventCode":"AUTHORISATION"`,
		`"success":"true"`, regexp.MustCompile(`"hmacSignature":"[^"]*"`).FindString(body),
	} {
		if part == "" || !strings.Contains(body, part) {
			t.Fatalf("%q is not in %s", part, body)
		}
		for _, changed := range everyFlip(body, part) {
			if notices, err := webhook.Parse(nil, []byte(changed), arrival); err == nil {
				t.Errorf("accepted with a byte of %s changed: %s: %+v", part, changed, notices)
			}
		}
	}
	for i := range knownKey {
		changed := []byte(knownKey)
		changed[i] = "0123456789ABCDEF"[(strings.IndexByte("0123456789ABCDEF", knownKey[i])+1)%16]
		if _, err := webhookWith(t, string(changed)).Parse(nil, []byte(body), arrival); !errors.Is(err, ErrSignature) {
			t.Errorf("accepted with digit %d of the key changed: %v", i, err)
		}
	}
}

// everyFlip is the body with each bit of the part flipped in turn. Names in another case are left out: encoding/json takes them for
// the same, so nothing has changed.
func everyFlip(body, part string) []string {
	var all []string
	start, value := strings.Index(body, part), strings.Index(part, ":")
	for i := range part {
		for bit := range 8 {
			changed := []byte(body)
			changed[start+i] ^= 1 << bit
			if i > value || !strings.EqualFold(string(changed), body) {
				all = append(all, string(changed))
			}
		}
	}
	return all
}

// TestSignedAsItIs: ':' and '\' are signed without escaping.
func TestSignedAsItIs(t *testing.T) {
	t.Parallel()
	for _, reference := range []string{`a:b`, `a\b`, `a\:b`, `:`, `\`, `Bestellung ä`} {
		item := known()
		item["merchantReference"] = reference
		notices, err := webhookWith(t, knownKey).Parse(nil, batchOf(t, signed(t, knownKey, item)), arrival)
		if err != nil || len(notices) != 1 {
			t.Errorf("%q: %v", reference, err)
		} else if notices[0].Key != "" {
			t.Errorf("%q is taken for a key", reference)
		}
	}
}

func TestCleanRefusals(t *testing.T) {
	t.Parallel()
	with := func(name string, value any) []byte {
		item := known()
		item[name] = value
		return batchOf(t, item)
	}
	without := func(name string) []byte {
		item := known()
		delete(item, name)
		return batchOf(t, item)
	}
	signedWith := func(name string, value any) []byte {
		item := known()
		item[name] = value
		return batchOf(t, signed(t, knownKey, item))
	}
	many := make([]map[string]any, maxWebhookItems+1)
	for i := range many {
		many[i] = known()
	}
	tests := map[string]struct {
		body []byte
		want error
	}{
		"additionalData missing":   {without("additionalData"), ErrSignature},
		"additionalData null":      {with("additionalData", nil), ErrSignature},
		"additionalData empty":     {with("additionalData", map[string]any{}), ErrSignature},
		"additionalData a text":    {with("additionalData", "x"), ErrMalformed},
		"signature empty":          {with("additionalData", map[string]any{"hmacSignature": ""}), ErrSignature},
		"signature null":           {with("additionalData", map[string]any{"hmacSignature": nil}), ErrSignature},
		"signature a number":       {with("additionalData", map[string]any{"hmacSignature": 1}), ErrSignature},
		"signature with a newline": {with("additionalData", map[string]any{"hmacSignature": knownSignature + "\n"}), ErrSignature},
		"signature without end":    {with("additionalData", map[string]any{"hmacSignature": strings.TrimSuffix(knownSignature, "=")}), ErrSignature},
		"amount missing":           {without("amount"), ErrSignature},
		"amount null":              {with("amount", nil), ErrSignature},
		"amount with decimals":     {with("amount", map[string]any{"value": 11.5, "currency": "EUR"}), ErrMalformed},
		"success not a text":       {with("success", true), ErrMalformed},
		"success odd, signed":      {signedWith("success", "TRUE"), ErrMalformed},
		"no event code, signed":    {signedWith("eventCode", ""), ErrMalformed},
		"no reference, signed":     {signedWith("pspReference", ""), ErrMalformed},
		"no account, signed":       {signedWith("merchantAccountCode", ""), ErrMalformed},
		"second item unsigned":     {batchOf(t, known(), map[string]any{}), ErrSignature},
		"item null":                {[]byte(`{"notificationItems":[{"NotificationRequestItem":null}]}`), ErrMalformed},
		"item missing":             {[]byte(`{"notificationItems":[{}]}`), ErrMalformed},
		"no items":                 {[]byte(`{"notificationItems":[]}`), ErrMalformed},
		"items null":               {[]byte(`{"notificationItems":null}`), ErrMalformed},
		"items missing":            {[]byte(`{}`), ErrMalformed},
		"too many items":           {batchOf(t, many...), ErrMalformed},
		"null":                     {[]byte(`null`), ErrMalformed},
		"list":                     {[]byte(`[]`), ErrMalformed},
		"empty":                    {nil, ErrMalformed},
		"form":                     {[]byte(`eventCode=AUTHORISATION&success=true`), ErrMalformed},
		"half":                     {batchOf(t, known())[:200], ErrMalformed},
		"twice":                    {append(batchOf(t, known()), batchOf(t, known())...), ErrMalformed},
		"too large":                {append(batchOf(t, known()), make([]byte, maxWebhookBytes)...), ErrMalformed},
	}
	for name, test := range tests {
		notices, err := webhookWith(t, knownKey).Parse(nil, test.body, arrival)
		if !errors.Is(err, test.want) || notices != nil {
			t.Errorf("%s: %+v, %v", name, notices, err)
		}
		if err != nil && (strings.Contains(err.Error(), knownSignature) || strings.Contains(err.Error(), "TestPayment")) {
			t.Errorf("%s: error repeats the body: %v", name, err)
		}
	}
}

// FuzzParse: no body panics, and what is accepted is what was signed.
func FuzzParse(f *testing.F) {
	refused := known()
	refused["success"], refused["reason"] = "false", "Not enough balance"
	for _, seed := range [][]byte{
		batchOf(f, known()), batchOf(f, known(), signed(f, knownKey, refused)), []byte(`{"notificationItems":[{"NotificationRequestItem":{"additionalData":null}}]}`),
		[]byte(`{"notificationItems":[{}]}`), []byte(`null`), nil, []byte(`{"notificationItems":[{"NotificationRequestItem":{"amount":{"value":1e99}}}]}`),
	} {
		f.Add(seed)
	}
	webhook := webhookWith(f, knownKey)
	f.Fuzz(func(t *testing.T, body []byte) {
		notices, err := webhook.Parse(nil, body, arrival)
		if err != nil {
			if !errors.Is(err, ErrSignature) && !errors.Is(err, ErrMalformed) {
				t.Errorf("untyped error %v", err)
			}
			return
		}
		for _, notice := range notices {
			if notice.Type != "AUTHORISATION" || notice.Payment != "7914073381342284" {
				t.Errorf("accepted what no one signed: %+v", notice)
			}
		}
	})
}

// A signature is over fields joined by ':'. Cut elsewhere, the same string must not pass for another event.
func TestOneSignatureFitsOneEvent(t *testing.T) {
	t.Parallel()
	webhook := webhookWith(t, knownKey)
	reference := known()
	reference["merchantReference"] = "TestMerchant:order_charge"
	reference = signed(t, knownKey, reference)
	if _, err := webhook.Parse(nil, batchOf(t, reference), arrival); err != nil {
		t.Fatalf("a reference with a colon: %v", err)
	}
	for name, fields := range map[string]map[string]any{
		"original":     {"originalReference": ":TestMerchant", "merchantReference": "order_charge"},
		"account":      {"merchantAccountCode": "TestMerchant:TestMerchant", "merchantReference": "order_charge"},
		"pspReference": {"pspReference": "7914073381342284:", "originalReference": "TestMerchant", "merchantAccountCode": "TestMerchant", "merchantReference": "order_charge"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			moved := maps.Clone(reference)
			maps.Copy(moved, fields)
			if _, err := webhook.Parse(nil, batchOf(t, moved), arrival); !errors.Is(err, ErrMalformed) && !errors.Is(err, ErrSignature) {
				t.Errorf("taken, with error %v", err)
			}
		})
	}
}
