package paypal

import (
	"bytes"
	"context"
	"crypto"
	"crypto/rsa"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"hash/crc32"
	"net/http"
	"regexp"
	"strings"
	"time"

	"paysaga/providers"
)

var (
	// ErrSignature is wrapped by the errors of Parse about messages that PayPal did not sign, not for this webhook, or not lately.
	ErrSignature = fmt.Errorf("paypal %w", providers.ErrSignature)
	// ErrMalformed is wrapped by the errors of Parse about signed messages that are no events.
	ErrMalformed = fmt.Errorf("paypal %w", providers.ErrMalformed)
	// ErrUnavailable is wrapped by the errors of Parse when the signature could not be judged, as PayPal's certificate, or its
	// verification, was out of reach. The message is neither good nor bad: it must be sent again.
	ErrUnavailable = fmt.Errorf("paypal %w", providers.ErrUnavailable)
)

const (
	// maxEventBytes bounds an event. PayPal's are a few KiB.
	maxEventBytes = 1 << 20
	// maxMessageAge is how old a transmission may be: PayPal repeats one for 3 days, and does not say whether it signs each repeat
	// anew. Replays inside it are harmless, as events are stored once by their id.
	maxMessageAge = 73 * time.Hour
	// maxMessageLead is how far PayPal's clock may be ahead of ours.
	maxMessageLead = 5 * time.Minute
	// verifyTimeout bounds all that verifying one message may take of PayPal's patience.
	verifyTimeout = 10 * time.Second
	// signingAlgorithm is the only one that PayPal uses.
	signingAlgorithm = "SHA256withRSA"
)

// The headers' values, as PayPal's own description bounds them. Strict forms leave nothing to interpret.
var (
	transmissionIDForm = regexp.MustCompile(`^[A-Za-z0-9-]{1,50}$`)
	signatureForm      = regexp.MustCompile(`^[A-Za-z0-9+/]{1,1000}={0,2}$`)
	eventIDForm        = regexp.MustCompile(`^[A-Za-z0-9-]{1,100}$`)
	eventTypeForm      = regexp.MustCompile(`^[A-Z0-9._-]{1,100}$`)
	keyForm            = regexp.MustCompile(`^[A-Za-z0-9_-]{1,64}$`)
)

// Webhook verifies and reads what PayPal sends. It is safe for concurrent use.
type Webhook struct {
	webhookID    string
	certificates *certificates
	api          *client // nil: signatures are checked here
}

// NewWebhook makes a Webhook, or gives an error that wraps ErrConfig. It makes no call.
func NewWebhook(config Config) (*Webhook, error) {
	config, err := config.forWebhook()
	if err != nil {
		return nil, err
	}
	webhook := &Webhook{webhookID: config.WebhookID, certificates: newCertificates(config)}
	if config.VerifyByAPI {
		webhook.api = newClient(config)
	}
	return webhook, nil
}

// transmission is what the headers of a message say.
type transmission struct {
	id, time, signature, certificateURL, algorithm string

	at time.Time
}

// Parse verifies a message on its raw bytes and reads its event: always one Notice, whatever its type, and never with an Outcome:
// an event tells that something happened, and a look at PayPal tells what. Errors wrap ErrSignature, ErrMalformed or ErrUnavailable,
// and repeat nothing of the message.
//
// Most messages take no call, as PayPal's certificate is kept; with VerifyByAPI each takes one.
func (w *Webhook) Parse(header http.Header, body []byte, now time.Time) ([]providers.Notice, error) {
	if len(body) > maxEventBytes {
		return nil, fmt.Errorf("%w: over %d bytes", ErrMalformed, maxEventBytes)
	}
	sent, err := readTransmission(header, now)
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithTimeout(context.Background(), verifyTimeout)
	defer cancel()
	if w.api != nil {
		err = w.askPayPal(ctx, sent, body)
	} else {
		err = w.verify(ctx, sent, body, now)
	}
	if err != nil {
		return nil, err
	}
	notice, err := readEvent(body, sent.at)
	if err != nil {
		return nil, err
	}
	return []providers.Notice{notice}, nil
}

// readTransmission reads the headers, each of which must be there once.
func readTransmission(header http.Header, now time.Time) (transmission, error) {
	sent := transmission{}
	for name, into := range map[string]*string{
		"Paypal-Transmission-Id":   &sent.id,
		"Paypal-Transmission-Time": &sent.time,
		"Paypal-Transmission-Sig":  &sent.signature,
		"Paypal-Cert-Url":          &sent.certificateURL,
		"Paypal-Auth-Algo":         &sent.algorithm,
	} {
		values := header.Values(name)
		if len(values) != 1 || values[0] == "" {
			return transmission{}, fmt.Errorf("%w: header %s is missing or there several times", ErrSignature, name)
		}
		*into = values[0]
	}
	at, err := time.Parse(time.RFC3339, sent.time)
	switch {
	case !transmissionIDForm.MatchString(sent.id):
		return transmission{}, fmt.Errorf("%w: the transmission's id has not the form of one", ErrSignature)
	case !signatureForm.MatchString(sent.signature):
		return transmission{}, fmt.Errorf("%w: the signature has not the form of one", ErrSignature)
	case sent.algorithm != signingAlgorithm:
		return transmission{}, fmt.Errorf("%w: the algorithm is not %s", ErrSignature, signingAlgorithm)
	case err != nil:
		return transmission{}, fmt.Errorf("%w: the transmission's time cannot be read", ErrSignature)
	case at.Before(now.Add(-maxMessageAge)) || at.After(now.Add(maxMessageLead)):
		return transmission{}, fmt.Errorf("%w: the transmission's time is out of tolerance", ErrSignature)
	}
	sent.at = at
	return sent, nil
}

// verify checks the signature with PayPal's certificate.
func (w *Webhook) verify(ctx context.Context, sent transmission, body []byte, now time.Time) error {
	key, err := w.certificates.key(ctx, sent.certificateURL, now)
	if err != nil {
		return err
	}
	signature, err := base64.StdEncoding.Strict().DecodeString(sent.signature)
	if err != nil {
		return fmt.Errorf("%w: the signature is no base64", ErrSignature)
	}
	message := fmt.Sprintf("%s|%s|%s|%d", sent.id, sent.time, w.webhookID, crc32.ChecksumIEEE(body))
	digest := sha256.Sum256([]byte(message))
	if rsa.VerifyPKCS1v15(key, crypto.SHA256, digest[:], signature) != nil {
		return fmt.Errorf("%w: it does not fit the message", ErrSignature)
	}
	return nil
}

// askPayPal lets PayPal check the signature. The event goes back as the bytes that came: put into JSON anew it would have another
// checksum.
func (w *Webhook) askPayPal(ctx context.Context, sent transmission, body []byte) error {
	if !w.certificates.allowed(sent.certificateURL) {
		return fmt.Errorf("%w: the certificate is not at PayPal's", ErrSignature)
	}
	if !json.Valid(body) {
		return fmt.Errorf("%w: the body is no JSON", ErrMalformed)
	}
	question, err := json.Marshal(map[string]string{
		"auth_algo":         sent.algorithm,
		"cert_url":          sent.certificateURL,
		"transmission_id":   sent.id,
		"transmission_sig":  sent.signature,
		"transmission_time": sent.time,
		"webhook_id":        w.webhookID,
	})
	if err != nil {
		return fmt.Errorf("%w: %w", ErrUnavailable, err)
	}
	question = bytes.Join([][]byte{bytes.TrimSuffix(question, []byte("}")), []byte(`,"webhook_event":`), body, []byte("}")}, nil)
	var answer struct {
		Status string `json:"verification_status"`
	}
	err = w.api.do(ctx, request{
		name: "verify webhook signature", method: http.MethodPost, path: "/v1/notifications/verify-webhook-signature", body: question,
	}, &answer)
	switch {
	case err != nil:
		return fmt.Errorf("%w: %w", ErrUnavailable, err)
	case answer.Status == "SUCCESS":
		return nil
	case answer.Status == "FAILURE":
		return fmt.Errorf("%w: PayPal says that it is not its own", ErrSignature)
	default:
		return fmt.Errorf("%w: PayPal's answer is neither yes nor no", ErrUnavailable)
	}
}

type event struct {
	ID       string          `json:"id"`
	Type     string          `json:"event_type"`
	Created  stamp           `json:"create_time"`
	Resource json.RawMessage `json:"resource"`
}

// eventResource is an order, an authorization, a capture or a refund.
type eventResource struct {
	ID            string            `json:"id"`
	InvoiceID     string            `json:"invoice_id"`
	CustomID      string            `json:"custom_id"`
	Data          supplementaryData `json:"supplementary_data"`
	PurchaseUnits []purchaseUnit    `json:"purchase_units"`
}

// readEvent reads an event. Of a resource that has another shape than payments have, only what the event itself says is read.
func readEvent(body []byte, sentAt time.Time) (providers.Notice, error) {
	var read event
	if err := json.Unmarshal(body, &read); err != nil {
		return providers.Notice{}, fmt.Errorf("%w: the body is no event", ErrMalformed) // not the cause: it quotes the body
	}
	if !eventIDForm.MatchString(read.ID) || !eventTypeForm.MatchString(read.Type) {
		return providers.Notice{}, fmt.Errorf("%w: its id or type is missing or has not the form of one", ErrMalformed)
	}
	notice := providers.Notice{ID: read.ID, Type: read.Type, About: providers.AboutOther, At: read.Created.Time}
	if notice.At.IsZero() {
		notice.At = sentAt
	}
	var resource eventResource
	if json.Unmarshal(read.Resource, &resource) == nil {
		tell(&notice, resource)
	}
	return notice, nil
}

// tell fills in what the event's resource says about a payment.
func tell(n *providers.Notice, resource eventResource) {
	n.About = aboutOf(n.Type, resource)
	switch {
	case n.About == providers.AboutOther:
	case strings.HasPrefix(n.Type, "CHECKOUT."):
		n.Key, n.Payment = resource.key(), safeID(resource.ID)
	default:
		n.Key, n.Payment, n.Reference = resource.key(), safeID(resource.Data.Related.OrderID), safeID(resource.ID)
	}
}

// aboutOf tells which step an event is about. PayPal says of a capture only by its authorization whether it was a charge or the
// second half of one.
func aboutOf(eventType string, resource eventResource) providers.About {
	switch {
	case strings.HasPrefix(eventType, "PAYMENT.REFUND."),
		eventType == "PAYMENT.CAPTURE.REFUNDED", eventType == "PAYMENT.CAPTURE.REVERSED":
		return providers.AboutRefund
	case strings.HasPrefix(eventType, "PAYMENT.CAPTURE.") && resource.Data.Related.AuthorizationID != "":
		return providers.AboutCapture
	case eventType == "PAYMENT.AUTHORIZATION.VOIDED":
		return providers.AboutVoid
	case strings.HasPrefix(eventType, "PAYMENT.CAPTURE."), strings.HasPrefix(eventType, "PAYMENT.AUTHORIZATION."),
		strings.HasPrefix(eventType, "CHECKOUT.ORDER."), strings.HasPrefix(eventType, "CHECKOUT.PAYMENT-APPROVAL."):
		return providers.AboutCharge
	default:
		return providers.AboutOther
	}
}

// key is the sub-key that PayPal was given as invoice_id. A refund made in PayPal's dashboard bears the capture's. Without one it is
// the saga's key, which the resource bears as custom_id. Other systems' identifiers that have not the form of ours are left out.
func (r eventResource) key() providers.SubKey {
	invoiceID, customID := r.InvoiceID, r.CustomID
	if len(r.PurchaseUnits) == 1 {
		invoiceID, customID = r.PurchaseUnits[0].InvoiceID, r.PurchaseUnits[0].CustomID
	}
	for _, candidate := range []string{invoiceID, customID} {
		if keyForm.MatchString(candidate) {
			return providers.SubKey(candidate)
		}
	}
	return ""
}

// safeID is an id of PayPal as it is, or empty.
func safeID(id string) string {
	if idForm.MatchString(id) {
		return id
	}
	return ""
}
