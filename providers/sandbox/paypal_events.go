package sandbox

import (
	"crypto"
	"crypto/rsa"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"hash/crc32"
	"strconv"
	"time"
)

// paypalEvent is the body of a webhook.
type paypalEvent struct {
	ID              string       `json:"id"`
	EventVersion    string       `json:"event_version"`
	CreateTime      string       `json:"create_time"`
	ResourceType    string       `json:"resource_type"`
	ResourceVersion string       `json:"resource_version"`
	EventType       string       `json:"event_type"`
	Summary         string       `json:"summary"`
	Resource        any          `json:"resource"`
	Links           []paypalLink `json:"links"`
}

// The headers that carry the signature.
const (
	transmissionID   = "Paypal-Transmission-Id"
	transmissionTime = "Paypal-Transmission-Time"
	transmissionSig  = "Paypal-Transmission-Sig"
	transmissionCert = "Paypal-Cert-Url"
	transmissionAlgo = "Paypal-Auth-Algo"
	paypalAlgorithm  = "SHA256withRSA"
)

func (a *paypalAPI) announceOrder(order *paypalOrder, event string) {
	a.announce(order, "checkout-order", event, order.id, order.show)
}

func (a *paypalAPI) announceAuthorization(z *paypalAuthorization, event string) {
	a.announce(z.order, "authorization", event, z.id, z.show)
}

func (a *paypalAPI) announceCapture(capture *paypalCapture, event string) {
	a.announce(capture.order, "capture", event, capture.id, capture.show)
}

func (a *paypalAPI) announceRefund(refund *paypalRefund, event string) {
	a.announce(refund.capture.order, "refund", event, refund.id, refund.show)
}

func (a *paypalAPI) announce(order *paypalOrder, kind, event, id string, show func(paypalView) any) {
	outbox := a.server.outboxes[paypalName]
	if !outbox.wanted() {
		return
	}
	now := a.server.clock.now()
	view := paypalView{base: a.server.home() + paypalRoot, full: true}
	eventID := "WH-" + paypalID() + "-" + paypalID()
	body, err := json.Marshal(paypalEvent{
		ID: eventID, EventVersion: "1.0", CreateTime: paypalTime(now), ResourceType: kind, ResourceVersion: "2.0", EventType: event,
		Summary: event + " for " + id, Resource: show(view),
		Links: []paypalLink{view.link("self", "GET", "/v1/notifications/webhooks-events/"+eventID)},
	})
	if err != nil { // only our own plain types come here
		a.server.log.Error("webhook not composed", "provider", paypalName, "error", err)
		return
	}
	certificate := view.base + certificatePath
	transmission := uuidText()
	outbox.add(webhook{
		lot: order.identifier + "\x00" + order.reference() + "\x00" + event,
		compose: func(target WebhookTarget, at time.Time) (envelope, error) {
			letter := envelope{body: body, header: map[string]string{
				transmissionID: transmission, transmissionTime: paypalTime(at), transmissionAlgo: paypalAlgorithm, transmissionCert: certificate,
			}}
			signature, err := a.server.authority.sign(paypalMessage(transmission, paypalTime(at), target.WebhookID, body))
			letter.header[transmissionSig] = signature
			return letter, err
		},
	})
}

// paypalMessage is what PayPal signs: the body by its CRC-32 only, in unsigned decimals.
func paypalMessage(id, at, webhookID string, body []byte) string {
	return id + "|" + at + "|" + webhookID + "|" + strconv.FormatUint(uint64(crc32.ChecksumIEEE(body)), 10)
}

// verifySignature is POST /v1/notifications/verify-webhook-signature. The webhook is checked as it stands in the request,
// byte for byte, and against the webhook_id that the sandbox signs with.
func (a *paypalAPI) verifySignature(c paypalCall) (paypalResult, *paypalError) {
	var request struct {
		Algorithm string          `json:"auth_algo"`
		Cert      string          `json:"cert_url"`
		ID        string          `json:"transmission_id"`
		Signature string          `json:"transmission_sig"`
		Time      string          `json:"transmission_time"`
		WebhookID string          `json:"webhook_id"`
		Event     json.RawMessage `json:"webhook_event"`
	}
	known := words("auth_algo cert_url transmission_id transmission_sig transmission_time webhook_id webhook_event")
	if refusal := readPayPal(c.body, known, false, &request); refusal != nil {
		return paypalResult{}, refusal
	}
	for name, value := range map[string]string{
		"auth_algo": request.Algorithm, "cert_url": request.Cert, "transmission_id": request.ID, "transmission_sig": request.Signature,
		"transmission_time": request.Time, "webhook_id": request.WebhookID, "webhook_event": string(request.Event),
	} {
		if value == "" {
			return paypalResult{}, paypalBadRequest("MISSING_REQUIRED_PARAMETER", name)
		}
	}
	status := "FAILURE"
	message := paypalMessage(request.ID, request.Time, request.WebhookID, request.Event)
	own := request.WebhookID == a.server.outboxes[paypalName].target().WebhookID && request.Algorithm == paypalAlgorithm
	if own && a.server.authority.verify(message, request.Signature) == nil {
		status = "SUCCESS"
	}
	return paypalResult{
		status: 200, show: func(paypalView) any { return map[string]string{"verification_status": status} },
	}, nil
}

// sign is RSA PKCS #1 v1.5 over SHA-256, in base64.
func (y *authority) sign(message string) (string, error) {
	if err := y.found(); err != nil {
		return "", err
	}
	digest := sha256.Sum256([]byte(message))
	signature, err := rsa.SignPKCS1v15(nil, y.key, crypto.SHA256, digest[:])
	if err != nil {
		return "", fmt.Errorf("sign webhook: %w", err)
	}
	return base64.StdEncoding.EncodeToString(signature), nil
}

func (y *authority) verify(message, signature string) error {
	if err := y.found(); err != nil {
		return err
	}
	raw, err := base64.StdEncoding.DecodeString(signature)
	if err != nil {
		return fmt.Errorf("decode signature: %w", err)
	}
	digest := sha256.Sum256([]byte(message))
	if err := rsa.VerifyPKCS1v15(&y.key.PublicKey, crypto.SHA256, digest[:], raw); err != nil {
		return fmt.Errorf("verify webhook: %w", err)
	}
	return nil
}
