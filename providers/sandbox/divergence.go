package sandbox

import (
	"fmt"
	"net/http"
	"slices"
)

// divergenceKind is a way in which provider and database can disagree.
type divergenceKind string

const (
	divergenceChargeWithoutOrder divergenceKind = "charge_without_order"  // a payment that no call made; amount, currency, perhaps reference
	divergenceDuplicate          divergenceKind = "duplicate"             // a second payment like a captured one, with all its marks
	divergenceAmountChanged      divergenceKind = "amount_changed"        // amount is the new one
	divergenceCurrencyChanged    divergenceKind = "currency_changed"      // currency is the new one; the number stays, or is amount
	divergencePaymentLost        divergenceKind = "payment_lost"          // the provider forgets a payment and all that came of it
	divergenceRefundInDashboard  divergenceKind = "refund_in_dashboard"   // amount, or all that is left
	divergenceRefundLost         divergenceKind = "refund_lost"           // the provider forgets the newest refund: nothing was given back
	divergenceCaptured           divergenceKind = "captured_in_dashboard" // of a held payment: amount, or all
	divergenceVoided             divergenceKind = "voided_in_dashboard"   // of a held payment
	divergenceExpired            divergenceKind = "authorization_expired" // of a held payment, before its time
	divergenceChargeback         divergenceKind = "chargeback"            // amount, or all that is left
	// What only the settlement files tell of a captured payment.
	divergenceFee     divergenceKind = "fee_changed"            // amount is the fee that is settled; without one, a cent more
	divergenceNet     divergenceKind = "net_changed"            // amount is the net that is settled; without one, a cent less
	divergenceSettled divergenceKind = "settled_amount_changed" // amount is the gross that is settled
)

var divergenceKinds = []divergenceKind{
	divergenceChargeWithoutOrder, divergenceDuplicate, divergenceAmountChanged, divergenceCurrencyChanged, divergencePaymentLost,
	divergenceRefundInDashboard, divergenceRefundLost, divergenceCaptured, divergenceVoided, divergenceExpired, divergenceChargeback,
	divergenceFee, divergenceNet, divergenceSettled,
}

// ofHeld are those that are about money that is held. All others are about money that was taken.
func (k divergenceKind) ofHeld() bool {
	return k == divergenceCaptured || k == divergenceVoided || k == divergenceExpired
}

// fits tells whether a payment, as it stands, can diverge in this way.
func (k divergenceKind) fits(taken, held bool) bool {
	switch {
	case k == divergencePaymentLost:
		return taken || held
	case k.ofHeld():
		return held
	default:
		return taken
	}
}

// divergence is what to plant. ID, Identifier and Reference choose the payment; without any it is the newest that fits.
type divergence struct {
	Kind       divergenceKind `json:"kind"`
	Provider   string         `json:"provider,omitempty"` // empty: stripe
	ID         string         `json:"id,omitempty"`
	Identifier string         `json:"identifier,omitempty"`
	Reference  string         `json:"reference,omitempty"`
	Amount     int64          `json:"amount,omitempty"` // ISO minor units
	Currency   string         `json:"currency,omitempty"`
}

// names tells whether a divergence is about a payment, as far as it says.
func (d divergence) names(id, identifier, reference string) bool {
	return (d.ID == "" || d.ID == id) && (d.Identifier == "" || d.Identifier == identifier) && (d.Reference == "" || d.Reference == reference)
}

// settled is what a settlement file tells of a payment otherwise than it was, in the provider's units; nil where it tells the truth.
type settled struct{ gross, fee, net *int64 }

// distort plants what only a settlement file tells. fee and gross are the truth, amount is in the provider's units.
func (s *settled) distort(kind divergenceKind, amount, gross, fee int64) error {
	switch {
	case kind == divergenceFee && amount == 0:
		amount = fee + 1
	case kind == divergenceNet && amount == 0:
		amount = gross - fee - 1
	case amount <= 0:
		return fmt.Errorf("%w: amount is missing", errControl)
	}
	switch kind {
	case divergenceFee:
		s.fee = &amount
	case divergenceNet:
		s.net = &amount
	default:
		s.gross = &amount
	}
	return nil
}

// of is what the file tells of a payment.
func (s *settled) of(gross, fee int64) (toldGross, toldFee, toldNet int64) {
	toldGross, toldFee = gross, fee
	if s.gross != nil {
		toldGross = *s.gross
	}
	if s.fee != nil {
		toldFee = *s.fee
	}
	toldNet = toldGross - toldFee
	if s.net != nil {
		toldNet = *s.net
	}
	return toldGross, toldFee, toldNet
}

// errDivergence says that a divergence does not fit.
func errDivergence(reason string) error { return fmt.Errorf("%w: %s", errControl, reason) }

// noneFits is why nothing was planted: there is no such payment.
func noneFits(kind divergenceKind) error {
	if kind.ofHeld() {
		return errDivergence("no held payment has this id, identifier or reference")
	}
	return errDivergence("no captured payment has this id, identifier or reference")
}

func (s *Server) plantDivergence(w http.ResponseWriter, r *http.Request) {
	var wanted divergence
	if !s.readControl(w, r, &wanted) {
		return
	}
	if wanted.Provider == "" {
		wanted.Provider = stripeName
	}
	if !slices.Contains(divergenceKinds, wanted.Kind) {
		s.refuse(w, http.StatusBadRequest, fmt.Errorf("%w: kind %q is not one of %s", errControl, wanted.Kind, join(divergenceKinds)))
		return
	}
	for _, each := range s.simulations {
		if each.provider() != wanted.Provider {
			continue
		}
		charge, err := each.plant(wanted)
		if err != nil {
			s.refuse(w, http.StatusBadRequest, err)
			return
		}
		s.reply(w, http.StatusCreated, struct {
			Charge Charge `json:"charge"`
		}{charge})
		return
	}
	s.refuse(w, http.StatusBadRequest, fmt.Errorf("%w: provider %q is not simulated", errControl, wanted.Provider))
}
