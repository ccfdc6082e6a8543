package sandbox

import (
	"encoding/json"
	"strings"
	"time"
)

// Bounds of the store; see the package comment.
const (
	maxPayPalOrders   = 200_000
	maxPayPalCaptures = 400_000
	maxPayPalRefunds  = 400_000
)

// The statuses of orders, authorizations, captures and refunds.
const (
	paypalCreated           = "CREATED"
	paypalApproved          = "APPROVED"
	paypalCompleted         = "COMPLETED"
	paypalActionRequired    = "PAYER_ACTION_REQUIRED"
	paypalDeclined          = "DECLINED"
	paypalDenied            = "DENIED"
	paypalPending           = "PENDING"
	paypalFailed            = "FAILED"
	paypalVoided            = "VOIDED"
	paypalCaptured          = "CAPTURED"
	paypalPartiallyCaptured = "PARTIALLY_CAPTURED"
	paypalRefunded          = "REFUNDED"
	paypalPartiallyRefunded = "PARTIALLY_REFUNDED"
)

const (
	intentCapture   = "CAPTURE"
	intentAuthorize = "AUTHORIZE"
)

// paypalAuthorizationLife is how long an authorization can be captured; its honor period of 3 days is not simulated.
const paypalAuthorizationLife = 29 * 24 * time.Hour

// paypalOrder is one order with its single purchase unit. Amounts are in the smallest units that PayPal takes. Guarded by
// paypalAPI.mu, like all below.
type paypalOrder struct {
	id, identifier   string
	created, changed time.Time
	intent, status   string
	amount           int64
	currency         string
	invoiceID        string
	customID         string
	unit             map[string]json.RawMessage // as sent
	source           paypalSource
	authorization    *paypalAuthorization
	captures         []*paypalCapture
}

type paypalAuthorization struct {
	id               string
	order            *paypalOrder
	created, changed time.Time
	status, reason   string
	response         string // of the processor, for a decline
	amount, captured int64
	expires          time.Time
	voidID           string // of the transaction that voids it, should one
}

type paypalCapture struct {
	id               string
	order            *paypalOrder
	authorization    *paypalAuthorization
	created, changed time.Time
	status, reason   string
	response         string
	amount, refunded int64
	invoiceID        string
	note             string
	final            bool
	refunds          []*paypalRefund
	booked           time.Time // when its money came onto the balance; zero before
	chargeback       paypalChargeback
	settled          settled
}

// paypalChargeback is money that the customer's bank took back, for good; zero when it took none.
type paypalChargeback struct {
	id, feeID string
	at        time.Time
	amount    int64
}

type paypalRefund struct {
	id                        string
	capture                   *paypalCapture
	created, changed          time.Time
	status                    string
	amount                    int64
	invoiceID, customID, note string
	booked                    time.Time // when its money left the balance; zero before
}

// paypalStore is all that the simulated account holds.
type paypalStore struct {
	orders         []*paypalOrder // oldest first, like the others
	captures       []*paypalCapture
	refunds        []*paypalRefund
	authorizations []*paypalAuthorization
	orderByID      map[string]*paypalOrder
	authByID       map[string]*paypalAuthorization
	captureByID    map[string]*paypalCapture
	refundByID     map[string]*paypalRefund
	paidInvoices   map[string]*paypalOrder
	refundInvoices map[string]bool
	// live are what time can change: captures and refunds that are pending, authorizations that run out.
	live []func(now time.Time) (done bool)
}

func newPayPalStore() paypalStore {
	return paypalStore{
		orderByID: make(map[string]*paypalOrder), authByID: make(map[string]*paypalAuthorization),
		captureByID: make(map[string]*paypalCapture), refundByID: make(map[string]*paypalRefund),
		paidInvoices: make(map[string]*paypalOrder), refundInvoices: make(map[string]bool),
	}
}

func (s *paypalStore) full() bool {
	return len(s.orders) >= maxPayPalOrders || len(s.refunds) >= maxPayPalRefunds || len(s.captures) >= maxPayPalCaptures
}

// paypalID is 17 characters, as PayPal's are.
func paypalID() string { return strings.ToUpper(randomText(17)) }

// orderOf finds the order that an id of any kind belongs to.
func (s *paypalStore) orderOf(id string) *paypalOrder {
	if order, known := s.orderByID[id]; known {
		return order
	}
	if authorization, known := s.authByID[id]; known {
		return authorization.order
	}
	if capture, known := s.captureByID[id]; known {
		return capture.order
	}
	if refund, known := s.refundByID[id]; known {
		return refund.capture.order
	}
	return nil
}

// identifierOf is what faults match a call without an id of its own by: that of the order it is about.
func (a *paypalAPI) identifierOf(id string) string {
	a.mu.Lock()
	defer a.mu.Unlock()
	if order := a.store.orderOf(id); order != nil {
		return order.identifier
	}
	return ""
}

// reference is what an order is filed under in the ledger.
func (o *paypalOrder) reference() string {
	if o.customID != "" {
		return o.customID
	}
	return o.invoiceID
}

// paid is the order's capture, the newest when there are several.
func (o *paypalOrder) paid() *paypalCapture {
	if len(o.captures) == 0 {
		return nil
	}
	return o.captures[len(o.captures)-1]
}

func (o *paypalOrder) become(status string, now time.Time) { o.status, o.changed = status, now }

// taken reports whether the capture holds the customer's money.
func (c *paypalCapture) taken() bool {
	return c.status == paypalCompleted || c.status == paypalRefunded || c.status == paypalPartiallyRefunded
}

// expired reports whether the authorization's time ran out before anybody captured or voided it.
func (z *paypalAuthorization) expired() bool {
	return z.status == paypalVoided && !z.changed.Before(z.expires)
}

// left is what can still be captured.
func (z *paypalAuthorization) left() int64 {
	if z.status != paypalCreated && z.status != paypalPartiallyCaptured {
		return 0
	}
	return z.amount - z.captured
}
