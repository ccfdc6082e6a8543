package stripe

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"net/http"
	"regexp"
	"strconv"
	"strings"
	"time"

	"paysaga/providers"
)

const (
	// maxWebhookBytes bounds an event: a payment with its charge is about 10 KiB.
	maxWebhookBytes = 1 << 20
	// maxWebhookSecrets is two for a rotation, for each of a few endpoints.
	maxWebhookSecrets = 10
	// maxSignatures is over what Stripe sends, one for each secret of an endpoint, and bounds the work that a header can ask for.
	maxSignatures = 20
	// signatureTolerance is Stripe's own: how far its clock and ours, and the way of a message, may put the two times apart. Older
	// messages may be replays, and newer ones would be good for a replay later.
	signatureTolerance = 300 * time.Second
	signatureHeader    = "Stripe-Signature"
)

var (
	// ErrSignature is wrapped by the errors of Parse about messages that none of our secrets signed, or not lately.
	ErrSignature = fmt.Errorf("stripe %w", providers.ErrSignature)
	// ErrMalformed is wrapped by the errors of Parse about signed messages that are no events.
	ErrMalformed = fmt.Errorf("stripe %w", providers.ErrMalformed)
)

var (
	webhookSecretForm = regexp.MustCompile(`^whsec_[A-Za-z0-9+/=_-]{1,250}$`)
	timestampForm     = regexp.MustCompile(`^[0-9]{1,12}$`)
	eventForm         = regexp.MustCompile(`^evt_[A-Za-z0-9_]{1,251}$`)
	eventTypeForm     = regexp.MustCompile(`^[a-z0-9_.]{1,100}$`)
	keyForm           = regexp.MustCompile(`^[A-Za-z0-9_.-]{1,64}$`)
)

// WebhookConfig sets a Webhook up.
type WebhookConfig struct {
	// Secrets are the endpoint's signing secrets (whsec_…), as many as are valid at the moment: while one is replaced, two.
	Secrets []string
}

// Webhook verifies and reads what Stripe sends. It is safe for concurrent use.
type Webhook struct {
	secrets [][]byte
}

// NewWebhook makes a Webhook, or gives an error that wraps ErrConfig and repeats no secret.
func NewWebhook(config WebhookConfig) (*Webhook, error) {
	if len(config.Secrets) == 0 || len(config.Secrets) > maxWebhookSecrets {
		return nil, fmt.Errorf("%w: 1 to %d webhook secrets are needed, not %d", ErrConfig, maxWebhookSecrets, len(config.Secrets))
	}
	webhook := &Webhook{}
	for i, secret := range config.Secrets {
		if !webhookSecretForm.MatchString(secret) {
			return nil, fmt.Errorf("%w: webhook secret %d has not the form of one (whsec_…)", ErrConfig, i+1)
		}
		webhook.secrets = append(webhook.secrets, []byte(secret)) // with its prefix, which is a part of the key
	}
	return webhook, nil
}

// Parse verifies a message on its raw bytes and reads its event: always one Notice, whatever its type, and never with an Outcome,
// as events come late and out of order: one tells that something happened, and a look at Stripe tells what. Errors wrap
// ErrSignature or ErrMalformed, and repeat nothing of the message.
//
// A payment's events carry the charge's Key, a refund's the refund's. A "charge.refunded" carries none: it tells of which payment,
// and not which refund.
func (w *Webhook) Parse(header http.Header, body []byte, now time.Time) ([]providers.Notice, error) {
	if len(body) > maxWebhookBytes {
		return nil, fmt.Errorf("%w: over %d bytes", ErrMalformed, maxWebhookBytes)
	}
	if err := w.verify(header, body, now); err != nil {
		return nil, err
	}
	notice, err := readEvent(body, now)
	if err != nil {
		return nil, err
	}
	return []providers.Notice{notice}, nil
}

// verify finds a signature by one of our secrets. It compares with all of them, always, and texts rather than bytes: hexadecimal has
// several texts for the same bytes.
func (w *Webhook) verify(header http.Header, body []byte, now time.Time) error {
	stamp, signatures, err := readSignature(header)
	if err != nil {
		return err
	}
	seconds, err := strconv.ParseInt(stamp, 10, 64)
	if err != nil {
		return fmt.Errorf("%w: the time cannot be read", ErrSignature)
	}
	if apart := now.Sub(time.Unix(seconds, 0)).Abs(); apart > signatureTolerance {
		return fmt.Errorf("%w: the time is out of tolerance", ErrSignature)
	}
	matches := false
	for _, secret := range w.secrets {
		mac := hmac.New(sha256.New, secret)
		mac.Write([]byte(stamp + "."))
		mac.Write(body)
		want := []byte(hex.EncodeToString(mac.Sum(nil)))
		for _, given := range signatures {
			matches = hmac.Equal(want, []byte(given)) || matches
		}
	}
	if !matches {
		return fmt.Errorf("%w: none fits the message", ErrSignature)
	}
	return nil
}

// readSignature reads "t=1492774577,v1=…,v1=…,v0=…". Signatures of other versions than v1 are not looked at: Stripe makes them for
// tests, and one that is taken would be a way around v1.
func readSignature(header http.Header) (stamp string, signatures []string, err error) {
	values := header.Values(signatureHeader)
	if len(values) != 1 {
		return "", nil, fmt.Errorf("%w: the header is missing or there several times", ErrSignature)
	}
	for part := range strings.SplitSeq(values[0], ",") {
		name, value, ok := strings.Cut(part, "=")
		switch {
		case !ok, name == "t" && (stamp != "" || !timestampForm.MatchString(value)):
			return "", nil, fmt.Errorf("%w: the header has not the form of one", ErrSignature)
		case name == "t":
			stamp = value
		case name == "v1" && len(signatures) == maxSignatures:
			return "", nil, fmt.Errorf("%w: over %d of them", ErrSignature, maxSignatures)
		case name == "v1":
			signatures = append(signatures, value)
		}
	}
	if stamp == "" {
		return "", nil, fmt.Errorf("%w: the time is missing", ErrSignature)
	}
	return stamp, signatures, nil
}

// event is the part of a message that is read.
type event struct {
	ID      string    `json:"id"`
	Object  string    `json:"object"`
	Type    string    `json:"type"`
	Created int64     `json:"created"`
	Data    eventData `json:"data"`
}

type eventData struct {
	Object json.RawMessage `json:"object"`
}

// eventObject is what an event is about: a payment, a charge or a refund.
type eventObject struct {
	ID       string            `json:"id"`
	Object   string            `json:"object"`
	Payment  string            `json:"payment_intent"` // of a charge or refund
	Metadata map[string]string `json:"metadata"`
}

func readEvent(body []byte, now time.Time) (providers.Notice, error) {
	var read event
	if err := json.Unmarshal(body, &read); err != nil {
		return providers.Notice{}, fmt.Errorf("%w: the body is no event", ErrMalformed) // not the cause: it quotes the body
	}
	if read.Object != "event" || !eventForm.MatchString(read.ID) || !eventTypeForm.MatchString(read.Type) {
		return providers.Notice{}, fmt.Errorf("%w: its id or type is missing or has not the form of one", ErrMalformed)
	}
	notice := providers.Notice{ID: read.ID, Type: read.Type, About: providers.AboutOther, At: now.UTC()}
	if read.Created > 0 {
		notice.At = time.Unix(read.Created, 0).UTC()
	}
	var object eventObject
	if json.Unmarshal(read.Data.Object, &object) == nil {
		tell(&notice, object)
	}
	return notice, nil
}

// tell fills in what an event says about a payment. Disputes, payouts and all that is about no call of ours stay "other".
func tell(notice *providers.Notice, object eventObject) {
	switch {
	case object.Object == objectPayment && strings.HasPrefix(notice.Type, "payment_intent."):
		notice.About, notice.Payment, notice.Key = providers.AboutCharge, idOf(paymentForm, object.ID), object.key()
	case object.Object == objectCharge && notice.Type == "charge.refunded":
		notice.About, notice.Payment = providers.AboutRefund, idOf(paymentForm, object.Payment)
	case object.Object == objectCharge && strings.HasPrefix(notice.Type, "charge."):
		notice.About, notice.Payment, notice.Key = providers.AboutCharge, idOf(paymentForm, object.Payment), object.key()
	case object.Object == objectRefund && strings.HasPrefix(strings.TrimPrefix(notice.Type, "charge."), "refund."):
		notice.About, notice.Payment, notice.Key = providers.AboutRefund, idOf(paymentForm, object.Payment), object.key()
		notice.Reference = idOf(refundForm, object.ID)
	}
}

// key is the mark that our calls leave. Other systems' marks that have not the form of ours are left out.
func (o eventObject) key() providers.SubKey {
	if mark := o.Metadata[metadataSubKey]; keyForm.MatchString(mark) {
		return providers.SubKey(mark)
	}
	return ""
}

// idOf is an id of Stripe as it is, or empty.
func idOf(form *regexp.Regexp, id string) string {
	if form.MatchString(id) {
		return id
	}
	return ""
}
