package sandbox

import (
	"crypto/rand"
	"slices"
	"strings"
	"time"
)

// The statuses of a PaymentIntent.
const (
	statusRequiresPaymentMethod = "requires_payment_method"
	statusRequiresConfirmation  = "requires_confirmation"
	statusRequiresAction        = "requires_action"
	statusProcessing            = "processing"
	statusRequiresCapture       = "requires_capture"
	statusCanceled              = "canceled"
	statusSucceeded             = "succeeded"
)

// The statuses of charges and refunds.
const (
	statusPending = "pending"
	statusFailed  = "failed"
)

const (
	captureAutomatic = "automatic"
	captureManual    = "manual"
)

// Stripe's names of its objects, which name their ids in parameters too, and of two parameters that many rules speak of.
const (
	objectPaymentIntent = "payment_intent"
	objectPaymentMethod = "payment_method"
	objectCharge        = "charge"
	objectRefund        = "refund"
	paramAmount         = "amount"
	paramCurrency       = "currency"
)

// Bounds of the store; see the package comment.
const (
	maxStripePayments = 200_000
	maxStripeCharges  = 400_000
	maxStripeRefunds  = 400_000
)

// holdTime is how long a bank keeps an uncaptured hold before the PaymentIntent cancels itself.
const holdTime = 7 * 24 * time.Hour

// stripePayment is one PaymentIntent. Amounts are in Stripe's units. Guarded by stripeAPI.mu.
type stripePayment struct {
	id, clientSecret string
	position         int // in stripeStore.payments
	identifier       string
	created          time.Time
	changed          time.Time // when the current status was reached

	amount, capturable, received int64
	currency                     string
	status                       string
	captureMethod                string
	confirmationMethod           string
	automatic                    *automaticObject
	methodTypes                  []string
	method                       *attachedMethod
	metadata                     metadata
	customer, description        string
	receiptEmail                 string
	descriptor, descriptorSuffix string
	setupFutureUsage             string
	returnURL                    string
	next                         *nextAction
	lastError                    *stripeError
	canceledAt                   time.Time
	cancellationReason           string
	charges                      []*stripeCharge
	// announce tells the shop of a new status; nil for payments that are planted.
	announce func(*stripePayment)
}

// stripeCharge is one attempt to take a payment's money.
type stripeCharge struct {
	id       string
	payment  *stripePayment
	created  time.Time
	method   *attachedMethod
	status   string
	amount   int64
	captured int64
	refunded int64 // given back or on its way back; releasing a hold counts, as at Stripe
	failure  *stripeError
	refunds  []*stripeRefund
	booked   time.Time // when the money that was captured came onto the balance; zero before
	dispute  *stripeDispute
	settled  settled
}

// stripeDispute is money that the customer's bank took back, for good.
type stripeDispute struct {
	id     string
	at     time.Time
	amount int64
}

type stripeRefund struct {
	id       string
	charge   *stripeCharge
	created  time.Time
	amount   int64
	status   string
	reason   string
	failure  string
	failed   time.Time // when the bank sent it back; zero while it has not
	metadata metadata
}

// stripeStore is all that the simulated Stripe account holds.
type stripeStore struct {
	payments    []*stripePayment // oldest first, like the others
	charges     []*stripeCharge
	refunds     []*stripeRefund
	paymentByID map[string]*stripePayment
	chargeByID  map[string]*stripeCharge
	refundByID  map[string]*stripeRefund
	// byMetadata finds the payments that have a pair, so that a search need not read the whole account.
	byMetadata map[[2]string][]*stripePayment
}

func newStripeStore() stripeStore {
	return stripeStore{
		paymentByID: make(map[string]*stripePayment),
		chargeByID:  make(map[string]*stripeCharge),
		refundByID:  make(map[string]*stripeRefund),
		byMetadata:  make(map[[2]string][]*stripePayment),
	}
}

func (s *stripeStore) full() bool {
	return len(s.payments) >= maxStripePayments || len(s.charges) >= maxStripeCharges || len(s.refunds) >= maxStripeRefunds
}

func (s *stripeStore) addPayment(payment *stripePayment) {
	payment.position = len(s.payments)
	s.payments = append(s.payments, payment)
	s.paymentByID[payment.id] = payment
	s.index(payment, nil)
}

// index files the payment under its present pairs instead of those that it had before; a new payment had none.
func (s *stripeStore) index(payment *stripePayment, before metadata) {
	for name, value := range before {
		pair := metadataPair(name, value)
		if now, kept := payment.metadata[name]; kept && metadataPair(name, now) == pair {
			continue
		}
		s.byMetadata[pair] = slices.DeleteFunc(s.byMetadata[pair], func(each *stripePayment) bool { return each == payment })
		if len(s.byMetadata[pair]) == 0 {
			delete(s.byMetadata, pair)
		}
	}
	for name, value := range payment.metadata {
		pair := metadataPair(name, value)
		if had, known := before[name]; known && metadataPair(name, had) == pair {
			continue
		}
		s.byMetadata[pair] = append(s.byMetadata[pair], payment)
	}
}

// metadataPair ignores the value's case, as Stripe's search does.
func metadataPair(name, value string) [2]string { return [2]string{name, strings.ToLower(value)} }

func (s *stripeStore) addCharge(payment *stripePayment, now time.Time) *stripeCharge {
	charge := &stripeCharge{
		id: "ch_" + payment.id[len("pi_"):len(payment.id)-8] + randomText(8), payment: payment, created: now,
		method: payment.method, amount: payment.amount,
	}
	s.charges = append(s.charges, charge)
	s.chargeByID[charge.id] = charge
	payment.charges = append(payment.charges, charge)
	return charge
}

func (s *stripeStore) addRefund(charge *stripeCharge, amount int64, status string, now time.Time) *stripeRefund {
	refund := &stripeRefund{
		id: "re_" + charge.id[len("ch_"):len(charge.id)-8] + randomText(8), charge: charge, created: now,
		amount: amount, status: status,
	}
	charge.refunded += amount
	charge.refunds = append(charge.refunds, refund)
	s.refunds = append(s.refunds, refund)
	s.refundByID[refund.id] = refund
	return refund
}

func (p *stripePayment) latestCharge() *stripeCharge {
	if len(p.charges) == 0 {
		return nil
	}
	return p.charges[len(p.charges)-1]
}

// become moves the payment to a status.
func (p *stripePayment) become(status string, now time.Time) {
	p.status, p.changed = status, now
	if p.announce != nil {
		p.announce(p)
	}
}

// randomText is length characters of Stripe's ids. Ids are random, not seeded: a sandbox that starts again must not give out
// ids that a database remembers from before.
func randomText(length int) string {
	const alphabet = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789"
	random := make([]byte, length)
	_, _ = rand.Read(random) // never fails; it ends the program instead
	for i, each := range random {
		random[i] = alphabet[int(each)%len(alphabet)]
	}
	return string(random)
}

// stripeID looks like Stripe's: "pi_3MtwBwLkdIwHu7ix28a3tqPa".
func stripeID(prefix string) string { return prefix + randomText(23) }
