package sandbox

// feeSchedule is what a simulated provider keeps of a payment: a share and a fixed amount, in the provider's units of the payment's
// currency, never more than the payment. Real contracts differ by account, card and country; these are near what the providers list
// for small European shops. No provider gives its fee back with a refund.
type feeSchedule struct {
	perTenThousand int64
	fixed          int64
}

var (
	stripeFees = feeSchedule{perTenThousand: 150, fixed: 25} // 1.5 % and 0.25
	paypalFees = feeSchedule{perTenThousand: 249, fixed: 35} // 2.49 % and 0.35
	// Adyen passes the card scheme's and the bank's costs on, and adds its own.
	adyenMarkup      = feeSchedule{perTenThousand: 60}
	adyenSchemeFee   = feeSchedule{perTenThousand: 10}
	adyenInterchange = feeSchedule{perTenThousand: 20}
)

// Fees of chargebacks, in the provider's units, whatever the currency.
const (
	stripeDisputeFee = 15_00
	paypalDisputeFee = 14_00
	adyenDisputeFee  = 7_50
)

// adyenCost are the parts of what Adyen keeps of a payment.
type adyenCost struct{ markup, scheme, interchange int64 }

func adyenCosts(amount int64) adyenCost {
	return adyenCost{markup: adyenMarkup.of(amount), scheme: adyenSchemeFee.of(amount), interchange: adyenInterchange.of(amount)}
}

func (c adyenCost) sum() int64 { return c.markup + c.scheme + c.interchange }

// of is the fee on an amount, rounded half up.
func (f feeSchedule) of(amount int64) int64 {
	share := amount / 10_000 * f.perTenThousand // in two parts: PayPal's largest amount times a rate does not fit
	share += (amount%10_000*f.perTenThousand + 5_000) / 10_000
	return min(amount, share+f.fixed)
}
