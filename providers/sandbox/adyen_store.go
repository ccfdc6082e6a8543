package sandbox

import (
	"slices"
	"strings"
	"time"
)

// Bounds of the store; see the package comment.
const (
	maxAdyenPayments      = 200_000
	maxAdyenModifications = 400_000
)

// adyenHoldTime is how long Adyen keeps an authorization that nobody captures.
const adyenHoldTime = 28 * 24 * time.Hour

// adyenPayment is one payment. Amounts are in Adyen's units. Guarded by adyenAPI.mu.
type adyenPayment struct {
	psp, identifier  string
	reference        string
	merchant         string
	returnURL        string
	redirectSecret   string // shows that the visitor of the page was sent there
	redirectResult   string // empty until the customer has decided
	methodType       string
	created, changed time.Time

	amount, held, captured, refunded int64
	currency                         string
	status                           string
	code                             adyenCode // how it ends
	manual                           bool      // waits for a capture call
	captureAt                        time.Time // when it captures itself, unless manual

	bookings []adyenBooking // oldest first
	settled  settled
}

// The kinds of an adyenBooking: Adyen's journal types.
const (
	journalSettled        = "Settled"
	journalSettledBack    = "SettledReversed"
	journalRefunded       = "Refunded"
	journalRefundReversed = "RefundedReversed"
	journalChargeback     = "Chargeback"
)

// adyenBooking is money of a payment that came or went.
type adyenBooking struct {
	kind      string
	psp       string // of the capture, refund or chargeback
	reference string // of the modification; empty where no call made it
	at        time.Time
	amount    int64 // never negative
}

func (p *adyenPayment) book(booking adyenBooking) {
	if booking.psp == "" {
		booking.psp = adyenReference()
	}
	p.bookings = append(p.bookings, booking)
}

// adyenSettledAfter is how long a capture waits before it is in a settlement: one that fails later is booked back.
const adyenSettledAfter = 24 * time.Hour

// unsettle takes a capture back.
func (p *adyenPayment) unsettle(psp string, now time.Time) {
	for _, booking := range p.bookings {
		if booking.psp == psp && booking.kind == journalSettled && now.Sub(booking.at) >= adyenSettledAfter {
			booking.kind, booking.at = journalSettledBack, now
			p.book(booking)
			return
		}
	}
	p.unbook(psp)
}

// unbook takes back a booking that was not settled.
func (p *adyenPayment) unbook(psp string) {
	p.bookings = slices.DeleteFunc(p.bookings, func(booking adyenBooking) bool { return booking.psp == psp })
}

// chargedBack is what the customer's bank took back.
func (p *adyenPayment) chargedBack() (amount int64) {
	for _, booking := range p.bookings {
		if booking.kind == journalChargeback {
			amount += booking.amount
		}
	}
	return amount
}

// left is what can still be given back.
func (p *adyenPayment) left() int64 { return p.captured - p.refunded - p.chargedBack() }

// adyenModification is a capture, cancel, refund or reversal that was received.
type adyenModification struct {
	psp, event string
	reference  string
	payment    *adyenPayment // nil for a cancel of a reference that nothing has
	merchant   string
	amount     *adyenAmount
	due        time.Time
	settled    bool
	success    bool
	reason     string
	action     string // what a reversal turned out to be
}

// adyenStore is all that the simulated account holds.
type adyenStore struct {
	payments       []*adyenPayment // oldest first
	modifications  []*adyenModification
	paymentByPSP   map[string]*adyenPayment
	byReference    map[string]*adyenPayment // the newest with it
	byResult       map[string]*adyenPayment
	modificationOf map[string]*adyenModification
	open           []*adyenModification // received, not settled
	live           []*adyenPayment      // those that time can change
}

func newAdyenStore() adyenStore {
	return adyenStore{
		paymentByPSP: make(map[string]*adyenPayment), byReference: make(map[string]*adyenPayment),
		byResult: make(map[string]*adyenPayment), modificationOf: make(map[string]*adyenModification),
	}
}

func (s *adyenStore) full() bool {
	return len(s.payments) >= maxAdyenPayments || len(s.modifications) >= maxAdyenModifications
}

func (s *adyenStore) addPayment(payment *adyenPayment) {
	s.payments = append(s.payments, payment)
	s.paymentByPSP[payment.psp] = payment
	s.byReference[payment.reference] = payment
	s.live = append(s.live, payment)
}

func (s *adyenStore) addModification(modification *adyenModification) {
	s.modifications = append(s.modifications, modification)
	s.modificationOf[modification.psp] = modification
	s.open = append(s.open, modification)
}

// adyenReference is a pspReference: 16 characters, as Adyen's are since 2021.
func adyenReference() string { return strings.ToUpper(randomText(16)) }

func (p *adyenPayment) become(status string, now time.Time) { p.status, p.changed = status, now }

// atRest reports whether time cannot change the payment any more.
func (p *adyenPayment) atRest() bool {
	return p.held == 0 && p.status != resultReceived && p.status != resultRedirect
}

func (p *adyenPayment) show() *adyenAmount {
	return &adyenAmount{Currency: p.currency, Value: p.amount}
}
