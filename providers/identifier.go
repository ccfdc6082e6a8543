package providers

import "github.com/google/uuid"

// MaxSubKeyLength is the longest sub-key, in bytes: Adyen's Idempotency-Key takes no more.
const MaxSubKeyLength = 64

// payPalNamespace is the UUIDv5 namespace of PayPal request identifiers: UUIDv5(OID namespace, "paysaga/paypal-request-id").
// Changing it would make every retry a new payment.
var payPalNamespace = uuid.MustParse("c1a30fd9-c88b-5f95-9c39-71d4028c6f04")

// SubKey is the idempotency key of one attempt of one saga step, "<saga key>_<step>" or "<saga key>_<step>_<attempt>".
// Every identifier that goes to a provider is a pure function of it, so that a retry can never make a new one.
type SubKey string

// SagaKey is the saga's key with which a sub-key begins. ok is false for what is no sub-key: providers tell of payments that others made.
func (k SubKey) SagaKey() (key uuid.UUID, ok bool) {
	const length = len("00000000-0000-0000-0000-000000000000")
	if len(k) <= length+1 || k[length] != '_' {
		return uuid.Nil, false
	}
	key, err := uuid.Parse(string(k[:length]))
	if err != nil || key.String() != string(k[:length]) {
		return uuid.Nil, false
	}
	return key, true
}

// StripeIdempotencyKey is the Idempotency-Key header for Stripe: the sub-key itself (Stripe takes up to 255 characters).
func (k SubKey) StripeIdempotencyKey() string { return string(k) }

// AdyenReference is both Adyen's payment reference (80 characters) and its Idempotency-Key header (64): the sub-key itself.
func (k SubKey) AdyenReference() string { return string(k) }

// PayPalRequestID is the PayPal-Request-Id header: UUIDv5 of the sub-key, as PayPal's older APIs take 38 characters only.
func (k SubKey) PayPalRequestID() string {
	return uuid.NewSHA1(payPalNamespace, []byte(k)).String()
}
