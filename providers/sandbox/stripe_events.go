package sandbox

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"strconv"
	"strings"
	"time"
)

// stripeEvent is the body of a webhook.
type stripeEvent struct {
	ID              string         `json:"id"`
	Object          string         `json:"object"`
	APIVersion      string         `json:"api_version"`
	Created         int64          `json:"created"`
	Data            map[string]any `json:"data"`
	Livemode        bool           `json:"livemode"`
	PendingWebhooks int            `json:"pending_webhooks"`
	Request         stripeCaller   `json:"request"`
	Type            string         `json:"type"`
}

// stripeCaller is the call that caused an event; both are null when no call did.
type stripeCaller struct {
	ID             *string `json:"id"`
	IdempotencyKey *string `json:"idempotency_key"`
}

// stripeEventTypes are the events of a payment that reaches a status.
var stripeEventTypes = map[string]string{
	statusRequiresPaymentMethod: "payment_intent.payment_failed",
	statusRequiresAction:        "payment_intent.requires_action",
	statusProcessing:            "payment_intent.processing",
	statusRequiresCapture:       "payment_intent.amount_capturable_updated",
	statusCanceled:              "payment_intent.canceled",
	statusSucceeded:             "payment_intent.succeeded",
}

// announcePayment tells the shop of the status that a payment has just reached. It runs under stripeAPI.mu.
func (a *stripeAPI) announcePayment(p *stripePayment) {
	event, known := stripeEventTypes[p.status]
	if !known || !a.server.outboxes[stripeName].wanted() {
		return
	}
	a.announce(p, event, p.object(nil))
}

// announceRefund tells the shop of a refund, by the charge when it is new and by itself when it has changed.
func (a *stripeAPI) announceRefund(refund *stripeRefund, fresh bool) {
	switch {
	case !a.server.outboxes[stripeName].wanted():
	case fresh:
		a.announce(refund.charge.payment, "charge.refunded", refund.charge.object(nil))
	default:
		a.announce(refund.charge.payment, "charge.refund.updated", refund.object(nil))
	}
}

func (a *stripeAPI) announce(p *stripePayment, event string, object any) {
	now := a.server.clock.now()
	body, err := json.Marshal(stripeEvent{
		ID: stripeID("evt_3"), Object: "event", APIVersion: stripeVersion, Created: now.Unix(), Data: map[string]any{"object": object},
		PendingWebhooks: 1, Request: stripeCaller{ID: orNull(a.acting.requestID), IdempotencyKey: orNull(a.acting.key)}, Type: event,
	})
	if err != nil { // only our own plain types come here
		a.server.log.Error("webhook not composed", "provider", stripeName, "error", err)
		return
	}
	a.server.outboxes[stripeName].add(webhook{
		lot: p.identifier + "\x00" + p.reference() + "\x00" + event,
		compose: func(target WebhookTarget, at time.Time) (envelope, error) {
			return envelope{body: body, header: map[string]string{"Stripe-Signature": signStripe(body, target.Secrets, at)}}, nil
		},
	})
}

// signStripe is the header with one v1 signature for each secret.
func signStripe(body []byte, secrets []string, at time.Time) string {
	stamp := strconv.FormatInt(at.Unix(), 10)
	parts := make([]string, 0, 1+len(secrets))
	parts = append(parts, "t="+stamp)
	for _, secret := range secrets {
		mac := hmac.New(sha256.New, []byte(secret))
		_, _ = fmt.Fprintf(mac, "%s.%s", stamp, body) // a hash never fails
		parts = append(parts, "v1="+hex.EncodeToString(mac.Sum(nil)))
	}
	return strings.Join(parts, ",")
}
