package sandbox

import (
	"encoding/hex"
	"errors"
	"fmt"
	"hash/fnv"
	"net"
	"net/url"
	"slices"
	"strconv"
	"time"
)

// WebhookTarget is where a provider's webhooks go and what they are signed with.
type WebhookTarget struct {
	URL string `json:"url"`
	// Secrets sign. Stripe: whsec_…, one v1 signature for each of them; Adyen: the first HMAC key, in hex; PayPal signs with
	// a certificate and takes none.
	Secrets []string `json:"-"`
	// WebhookID is PayPal's id of the webhook. It is part of what PayPal signs.
	WebhookID string `json:"webhook_id,omitempty"`
}

// WebhookManner is how webhooks arrive: as in real life, or worse.
type WebhookManner struct {
	// Duplicates is how many further copies of each are sent; 0.25 sends one more of every fourth.
	Duplicates float64 `json:"duplicates"`
	// Reorder lets each come up to reorderSpan late, so that later ones overtake it.
	Reorder bool    `json:"reorder"`
	DelayMS int64   `json:"delay_ms"` // between the event and its sending
	Loss    float64 `json:"loss"`     // the part that never arrives
	// Seed decides which are lost, doubled and late; 0 is the server's. The lot falls by provider, payment and event, never
	// by the order in which they happen.
	Seed int64 `json:"seed"`
}

// Bounds of webhooks. A queue holds more than a long demonstration makes; three further copies are what the providers' own
// retries bring at worst in a test; a delay of a minute is longer than any test waits.
const (
	maxWaitingWebhooks   = 20_000
	maxWebhookDuplicates = 10
	maxWebhookDelay      = 60_000 // milliseconds
	maxWebhookSecrets    = 5
	// reorderSpan is long against the time between two events of one payment, and short against a test's patience.
	reorderSpan = 200 * time.Millisecond
)

// ErrWebhook is the reason why webhooks cannot be set up as asked.
var ErrWebhook = errors.New("invalid webhook setting")

func (m WebhookManner) validate() error {
	switch {
	case !(m.Duplicates >= 0 && m.Duplicates <= maxWebhookDuplicates): // written so that NaN is refused too
		return fmt.Errorf("%w: duplicates must be between 0 and %d", ErrWebhook, maxWebhookDuplicates)
	case !(m.Loss >= 0 && m.Loss <= 1):
		return fmt.Errorf("%w: loss must be between 0 and 1", ErrWebhook)
	case m.DelayMS < 0 || m.DelayMS > maxWebhookDelay:
		return fmt.Errorf("%w: delay_ms must be between 0 and %d", ErrWebhook, maxWebhookDelay)
	}
	return nil
}

// validate refuses a target that cannot be sent to. anywhere allows other machines than this one.
func (t WebhookTarget) validate(provider string, anywhere bool) error {
	if !slices.Contains(knownProviders, provider) {
		return fmt.Errorf("%w: provider %q is not one of %v", ErrWebhook, provider, knownProviders)
	}
	parsed, err := url.Parse(t.URL)
	if err != nil || (parsed.Scheme != "http" && parsed.Scheme != "https") || parsed.Hostname() == "" {
		return fmt.Errorf("%w: url must be an http or https URL", ErrWebhook)
	}
	if host := parsed.Hostname(); !anywhere && host != "localhost" && !net.ParseIP(host).IsLoopback() {
		return fmt.Errorf("%w: url must be on this machine (127.0.0.1, ::1 or localhost)", ErrWebhook)
	}
	return t.validateSecrets(provider)
}

func (t WebhookTarget) validateSecrets(provider string) error {
	switch {
	case len(t.Secrets) > maxWebhookSecrets:
		return fmt.Errorf("%w: at most %d secrets", ErrWebhook, maxWebhookSecrets)
	case provider != paypalName && (len(t.Secrets) == 0 || slices.Contains(t.Secrets, "")):
		return fmt.Errorf("%w: %s needs a secret to sign with", ErrWebhook, provider)
	case provider == paypalName && t.WebhookID == "":
		return fmt.Errorf("%w: paypal needs a webhook_id to sign with", ErrWebhook)
	}
	if provider != adyenName {
		return nil
	}
	for _, secret := range t.Secrets {
		if _, err := hex.DecodeString(secret); err != nil {
			return fmt.Errorf("%w: an HMAC key of Adyen is hexadecimal", ErrWebhook) // without err: it could quote the key
		}
	}
	return nil
}

// webhook is one event on its way to the shop.
type webhook struct {
	lot string // what lots are drawn by: payment and event
	// compose writes it as it goes out to a target at a time. It is called anew for each copy and each retry.
	compose func(target WebhookTarget, at time.Time) (envelope, error)
}

// envelope is a webhook as it goes over the wire.
type envelope struct {
	body   []byte
	header map[string]string
}

// lot is a number in [0, 1) that depends on seed, purpose and event only.
func lot(seed int64, purpose, event string) float64 {
	hash := fnv.New64a()
	_, _ = hash.Write([]byte(strconv.FormatInt(seed, 10) + "\x00" + purpose + "\x00" + event)) // a hash never fails
	return unitInterval(hash.Sum64())
}

// copies are the delays with which an event's copies are to be sent; none when all are lost.
func (m WebhookManner) copies(seed int64, event string) (delays []time.Duration, lost int) {
	if m.Seed != 0 {
		seed = m.Seed
	}
	count := 1 + int(m.Duplicates)
	if lot(seed, "duplicate", event) < m.Duplicates-float64(int(m.Duplicates)) {
		count++
	}
	for i := range count {
		which := event + "\x00" + strconv.Itoa(i)
		if lot(seed, "loss", which) < m.Loss {
			lost++
			continue
		}
		delay := time.Duration(m.DelayMS) * time.Millisecond
		if m.Reorder {
			delay += time.Duration(lot(seed, "reorder", which) * float64(reorderSpan))
		}
		delays = append(delays, delay)
	}
	return delays, lost
}
