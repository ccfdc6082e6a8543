package sandbox

import "strings"

const (
	typeCard          = "card"
	typeUSBankAccount = "us_bank_account"
	typeSEPADebit     = "sepa_debit"
	brandVisa         = "visa"
)

// stripeMethod is how one of Stripe's test payment methods behaves. Source: https://docs.stripe.com/testing.
type stripeMethod struct {
	kind      string // its type: card, us_bank_account, sepa_debit
	brand     string // of cards
	last4     string
	challenge bool         // the bank asks for 3-D Secure first
	decline   *stripeError // the bank refuses
	delayed   bool         // the bank answers later: processing, then success or
	fails     bool         // this failure
	refund    string       // the state in which a refund starts; empty is succeeded
}

const (
	genericDecline = "Your card was declined."
	lateFailure    = "The customer's bank account could not be debited: insufficient funds."
)

var stripeMethods = buildStripeMethods()

func buildStripeMethods() map[string]stripeMethod {
	visa := stripeMethod{kind: typeCard, brand: brandVisa, last4: "4242"}
	methods := map[string]stripeMethod{}
	for name, last4 := range map[string]string{
		brandVisa: "4242", "visa_debit": "5556", "mastercard": "4444", "mastercard_debit": "8210", "mastercard_prepaid": "5100",
		"amex": "8431", "discover": "9424", "diners": "0004", "jcb": "0505", "unionpay": "0005",
	} {
		brand, _, _ := strings.Cut(name, "_")
		methods["pm_card_"+name] = stripeMethod{kind: typeCard, brand: brand, last4: last4}
	}
	for suffix, refusal := range map[string]*stripeError{
		"chargeDeclined":                  decline("card_declined", "generic_decline", genericDecline),
		"chargeDeclinedInsufficientFunds": decline("card_declined", "insufficient_funds", "Your card has insufficient funds."),
		"chargeDeclinedLostCard":          decline("card_declined", "lost_card", genericDecline),
		"chargeDeclinedStolenCard":        decline("card_declined", "stolen_card", genericDecline),
		"chargeDeclinedFraudulent":        decline("card_declined", "fraudulent", genericDecline),
		"chargeDeclinedExpiredCard":       decline("expired_card", "", "Your card has expired."),
		"chargeDeclinedIncorrectCvc":      decline("incorrect_cvc", "", "Your card's security code is incorrect."),
		"chargeDeclinedProcessingError": decline("processing_error", "", "An error occurred while processing your card. Try again in a "+
			"little bit."),
		"chargeDeclinedVelocityLimitExceeded": decline("card_declined", "card_velocity_exceeded",
			"Your card was declined for making repeated attempts too frequently or exceeding its amount limit."),
	} {
		method := visa
		method.last4, method.decline = "0002", refusal
		methods["pm_card_"+suffix] = method
		methods["pm_card_visa_"+suffix] = method
	}
	challenged := visa
	challenged.challenge, challenged.last4 = true, "3184"
	for _, name := range []string{
		"authenticationRequired", "threeDSecure2Required", "threeDSecureRequired", "authenticationRequiredOnSetup",
	} {
		methods["pm_card_"+name] = challenged
	}
	challengedDeclined := challenged
	challengedDeclined.decline = decline("card_declined", "generic_decline", genericDecline)
	methods["pm_card_threeDSecureRequiredChargeDeclined"] = challengedDeclined
	challengedPoor := challenged
	challengedPoor.decline = decline("card_declined", "insufficient_funds", "Your card has insufficient funds.")
	methods["pm_card_authenticationRequiredChargeDeclinedInsufficientFunds"] = challengedPoor
	methods["pm_card_threeDSecureOptional"] = visa

	pendingRefund, failingRefund := visa, visa
	pendingRefund.refund, failingRefund.refund = "pending", "pending"
	methods["pm_card_pendingRefund"] = pendingRefund
	methods["pm_card_refundFail"] = failingRefund

	addBankDebits(methods)
	return methods
}

func addBankDebits(methods map[string]stripeMethod) {
	for kind, prefix := range map[string]string{typeUSBankAccount: "pm_usBankAccount", typeSEPADebit: "pm_sepaDebit"} {
		debit := stripeMethod{kind: kind, last4: "6789", delayed: true, refund: "pending"}
		failing := debit
		failing.fails = true
		methods[prefix] = debit
		for _, suffix := range []string{"_success", "_processing"} {
			methods[prefix+suffix] = debit
		}
		for _, suffix := range []string{"_insufficientFunds", "_failed", "_accountClosed", "_debitNotAuthorized"} {
			methods[prefix+suffix] = failing
		}
	}
}

// attachedMethod is a payment method as it is bound to a payment: Stripe makes a new pm_1… of each test name. It never changes.
type attachedMethod struct {
	stripeMethod

	id      string
	created int64
}

func (m *attachedMethod) lateFailure() *stripeError {
	return &stripeError{Type: typeInvalidRequest, Code: "payment_intent_payment_attempt_failed", Message: lateFailure}
}
