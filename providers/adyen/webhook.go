package adyen

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"time"

	"paysaga/providers"
)

const (
	// maxWebhookBytes bounds a batch: Adyen sends up to six events of about 2 KiB each.
	maxWebhookBytes = 1 << 20
	// maxWebhookItems is far over six, and bounds the work that one request can ask for.
	maxWebhookItems = 100
	// maxWebhookKeys is two for a rotation, for each of a few webhooks.
	maxWebhookKeys = 10
	// hmacKeyBytes is the length of the keys that Adyen's Customer Area makes: 64 hexadecimal digits.
	hmacKeyBytes = 32
)

var (
	// ErrSignature is wrapped by Parse's error for an event that none of our keys signed.
	ErrSignature = fmt.Errorf("adyen %w", providers.ErrSignature)
	// ErrMalformed is wrapped by Parse's error for a body that is no batch of Adyen's events.
	ErrMalformed = fmt.Errorf("adyen %w", providers.ErrMalformed)
)

// Accepted is the body with which Adyen wants each webhook to be answered, with status 200.
const Accepted = "[accepted]"

// WebhookConfig sets a Webhook up.
type WebhookConfig struct {
	// HMACKeys are the hexadecimal keys of the webhooks, as many as are valid at the moment: Adyen signs with the new one at once
	// while events signed with the old one are still being resent.
	HMACKeys []string
	// MerchantAccount is whose events are ours. A company's other accounts may send theirs here as well.
	MerchantAccount string
}

// Webhook verifies and reads Adyen's webhooks. It is safe for concurrent use.
type Webhook struct {
	keys            [][]byte
	merchantAccount string
}

// NewWebhook makes a Webhook, or gives an error that wraps ErrConfig and repeats no key.
func NewWebhook(config WebhookConfig) (*Webhook, error) {
	if len(config.HMACKeys) == 0 || len(config.HMACKeys) > maxWebhookKeys {
		return nil, fmt.Errorf("%w: 1 to %d HMAC keys are needed, not %d", ErrConfig, maxWebhookKeys, len(config.HMACKeys))
	}
	if !merchantAccountForm.MatchString(config.MerchantAccount) {
		return nil, fmt.Errorf("%w: the merchant account is missing or not up to 80 of A-Z a-z 0-9 _ . -", ErrConfig)
	}
	webhook := &Webhook{merchantAccount: config.MerchantAccount}
	for i, text := range config.HMACKeys {
		key, err := hex.DecodeString(text)
		if err != nil || len(key) != hmacKeyBytes {
			return nil, fmt.Errorf("%w: HMAC key %d is not %d hexadecimal digits", ErrConfig, i+1, 2*hmacKeyBytes)
		}
		webhook.keys = append(webhook.keys, key)
	}
	return webhook, nil
}

// Parse verifies a batch and gives a notice for each of its events, in Adyen's order; now stands in for a date that cannot be read.
// One event that is not signed by any of our keys, or cannot be read, refuses the batch: ErrSignature or ErrMalformed. The header
// holds nothing that counts.
//
// What is signed is the references, the merchant account, the amount, the event's code and its success. The reason, the date and
// the additional data are not; they decide over nothing but details (see noticeOf).
func (w *Webhook) Parse(_ http.Header, body []byte, now time.Time) ([]providers.Notice, error) {
	if len(body) > maxWebhookBytes {
		return nil, fmt.Errorf("%w: over %d bytes", ErrMalformed, maxWebhookBytes)
	}
	var batch batch
	if err := json.Unmarshal(body, &batch); err != nil {
		return nil, fmt.Errorf("%w: no batch of events", ErrMalformed) // the cause quotes the body
	}
	if len(batch.Items) == 0 || len(batch.Items) > maxWebhookItems {
		return nil, fmt.Errorf("%w: %d events", ErrMalformed, len(batch.Items))
	}
	notices := make([]providers.Notice, 0, len(batch.Items))
	for i, each := range batch.Items {
		if each.Item == nil {
			return nil, fmt.Errorf("%w: event %d is missing", ErrMalformed, i+1)
		}
		if !w.isSigned(each.Item) {
			return nil, fmt.Errorf("%w: event %d", ErrSignature, i+1)
		}
		if !each.Item.isComplete() {
			return nil, fmt.Errorf("%w: event %d lacks a code, a reference, an account or its success", ErrMalformed, i+1)
		}
		notices = append(notices, w.noticeOf(each.Item, now))
	}
	return notices, nil
}

// isSigned compares with all keys, always, and texts rather than bytes: base64 has several texts for the same bytes.
func (w *Webhook) isSigned(item *item) bool {
	given := []byte(text(item.AdditionalData, "hmacSignature"))
	signed := []byte(item.signedString())
	matches := false
	for _, key := range w.keys {
		mac := hmac.New(sha256.New, key)
		mac.Write(signed)
		want := base64.StdEncoding.EncodeToString(mac.Sum(nil))
		matches = hmac.Equal([]byte(want), given) || matches
	}
	return matches
}

// batch is the body of a webhook.
//
//nolint:tagliatelle // Adyen's names
type batch struct {
	Items []wrapper `json:"notificationItems"`
}

//nolint:tagliatelle // Adyen's names
type wrapper struct {
	Item *item `json:"NotificationRequestItem"`
}

// item is one event.
//
//nolint:tagliatelle // Adyen's names
type item struct {
	PSPReference        string                     `json:"pspReference"`
	OriginalReference   string                     `json:"originalReference"`
	MerchantAccountCode string                     `json:"merchantAccountCode"`
	MerchantReference   string                     `json:"merchantReference"`
	Amount              *amount                    `json:"amount"`
	EventCode           string                     `json:"eventCode"`
	Success             string                     `json:"success"`
	Reason              string                     `json:"reason"`
	EventDate           string                     `json:"eventDate"`
	AdditionalData      map[string]json.RawMessage `json:"additionalData"`
}

// signedString joins the signed fields as they are. Adyen escapes nothing, not even the ':' that joins.
func (i *item) signedString() string {
	value := ""
	if i.Amount != nil {
		value = strconv.FormatInt(i.Amount.Value, 10)
	}
	return strings.Join([]string{
		i.PSPReference, i.OriginalReference, i.MerchantAccountCode, i.MerchantReference, value, i.currency(), i.EventCode, i.Success,
	}, ":")
}

func (i *item) currency() string {
	if i.Amount == nil {
		return ""
	}
	return i.Amount.Currency
}

// isComplete tells that the event has what makes it one. As ':' joins the signed fields, a field in which Adyen never writes one must
// have none: else the signature of one event would fit another, whose fields are cut elsewhere.
func (i *item) isComplete() bool {
	for _, field := range []string{i.PSPReference, i.OriginalReference, i.MerchantAccountCode, i.EventCode, i.currency()} {
		if strings.Contains(field, ":") {
			return false
		}
	}
	return i.PSPReference != "" && i.MerchantAccountCode != "" && i.EventCode != "" && (i.Success == yes || i.Success == no)
}

// What success can be.
const yes, no = "true", "false"
