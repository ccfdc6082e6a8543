package sandbox

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"maps"
	"strconv"
	"strings"
	"time"
)

// announcePayment tells the shop of something that happened to a payment itself.
func (a *adyenAPI) announcePayment(p *adyenPayment, event string, success bool, reason string) {
	if success && event == "AUTHORISATION" {
		reason = "065696:1111:03/2030"
	}
	item := adyenItem{
		Amount: *p.show(), EventCode: event, MerchantAccountCode: p.merchant, MerchantReference: p.reference, PSPReference: p.psp,
		Reason: reason, Success: strconv.FormatBool(success),
	}
	if success && event == "AUTHORISATION" {
		item.Operations = []string{"CANCEL", "CAPTURE", "REFUND"}
	}
	a.announce(item, p.identifier)
}

// announceModification tells the shop how a modification ended.
func (a *adyenAPI) announceModification(m *adyenModification, event string, success bool, reason string) {
	item := adyenItem{
		EventCode: event, MerchantAccountCode: m.merchant, MerchantReference: m.reference, PSPReference: m.psp, Reason: reason,
		Success: strconv.FormatBool(success),
	}
	identifier := m.reference
	if p := m.payment; p != nil {
		identifier = p.identifier
		item.Amount, item.OriginalReference = *p.show(), p.psp
		if item.MerchantReference == "" {
			item.MerchantReference = p.reference
		}
	}
	if m.amount != nil {
		item.Amount = *m.amount
	}
	if m.action != "" {
		item.AdditionalData = map[string]string{"modification.action": m.action}
	}
	a.announce(item, identifier)
}

func (a *adyenAPI) announce(item adyenItem, identifier string) {
	outbox := a.server.outboxes[adyenName]
	if !outbox.wanted() {
		return
	}
	item.PaymentMethod = brandVisa
	item.EventDate = a.server.clock.now().Format(time.RFC3339)
	outbox.add(webhook{
		lot:     identifier + "\x00" + item.MerchantReference + "\x00" + item.EventCode + item.Success,
		compose: func(target WebhookTarget, _ time.Time) (envelope, error) { return composeAdyen(item, target) },
	})
}

// composeAdyen signs an item and puts it into a batch of one.
func composeAdyen(item adyenItem, target WebhookTarget) (envelope, error) {
	if len(target.Secrets) == 0 {
		return envelope{}, fmt.Errorf("%w: no HMAC key", ErrWebhook)
	}
	key, err := hex.DecodeString(target.Secrets[0])
	if err != nil {
		return envelope{}, fmt.Errorf("%w: the HMAC key is not hexadecimal", ErrWebhook)
	}
	additional := map[string]string{"hmacSignature": signAdyen(item, key)}
	maps.Copy(additional, item.AdditionalData)
	item.AdditionalData = additional
	body, err := json.Marshal(adyenNotification{Live: "false", Items: []adyenNotifiedThing{{Item: item}}})
	if err != nil {
		return envelope{}, fmt.Errorf("encode notification: %w", err)
	}
	return envelope{body: body}, nil
}

// signAdyen is the HMAC over the fields that Adyen signs, joined by colons without escaping.
func signAdyen(item adyenItem, key []byte) string {
	signed := strings.Join([]string{
		item.PSPReference, item.OriginalReference, item.MerchantAccountCode, item.MerchantReference,
		strconv.FormatInt(item.Amount.Value, 10), item.Amount.Currency, item.EventCode, item.Success,
	}, ":")
	mac := hmac.New(sha256.New, key)
	_, _ = mac.Write([]byte(signed)) // a hash never fails
	return base64.StdEncoding.EncodeToString(mac.Sum(nil))
}
