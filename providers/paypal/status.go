package paypal

import (
	"net/url"
	"regexp"
	"slices"

	"paysaga/providers"
)

// The adapter's own codes about answers that arrived, for the timeline: with Unknown if nothing else is said.
const (
	codeOtherObject        = "other_object" // the answer is not the object asked for
	codeStatusUnrecognized = "status_unrecognized"
	codeAmountUnreadable   = "amount_unreadable"
	codeNextActionMissing  = "next_action_missing"
	codePaymentMissing     = "payment_missing" // an order that is completed, or an authorization that is captured, without a capture
	codeNotVoided          = "not_voided"      // a void answered 200 with an authorization that is not voided
	codeUnrecognized       = "unrecognized"    // PayPal's code was none
	codeOrderVoided        = "order_voided"    // with Canceled
	codeRefundPending      = "refund_pending"  // with Processing
)

// The statuses that PayPal's documents list, and DENIED, EXPIRED and PARTIALLY_CREATED, which older ones did.
const (
	statusApproved            = "APPROVED"
	statusCanceled            = "CANCELLED"
	statusCaptured            = "CAPTURED"
	statusCompleted           = "COMPLETED"
	statusCreated             = "CREATED"
	statusDeclined            = "DECLINED"
	statusDenied              = "DENIED"
	statusExpired             = "EXPIRED"
	statusFailed              = "FAILED"
	statusPartiallyCaptured   = "PARTIALLY_CAPTURED"
	statusPartiallyCreated    = "PARTIALLY_CREATED"
	statusPartiallyRefunded   = "PARTIALLY_REFUNDED"
	statusPayerActionRequired = "PAYER_ACTION_REQUIRED"
	statusPending             = "PENDING"
	statusRefunded            = "REFUNDED"
	statusSaved               = "SAVED"
	statusVoided              = "VOIDED"
)

// outcomeOfOrder tells how a payment stands. Where money was asked for, the captures and the authorization are judged and never
// the order: it is COMPLETED as well when its capture is DECLINED.
func outcomeOfOrder(o *order) providers.Outcome {
	unit, ok := o.unit()
	if !ok {
		return unknown(codeOtherObject)
	}
	outcome := outcomeOfUnit(o, unit)
	outcome.Reference = o.ID
	if outcome.Money != (providers.Money{}) || unit.Amount == nil {
		return outcome
	}
	money, err := fromPayPal(unit.Amount)
	if err != nil {
		return providers.Outcome{Kind: providers.Unknown, Reference: o.ID, Code: codeAmountUnreadable}
	}
	outcome.Money = money
	return outcome
}

func outcomeOfUnit(o *order, unit *purchaseUnit) providers.Outcome {
	held := unit.Payments.authorization()
	captured, asked := outcomeOfCaptures(unit.Payments)
	switch {
	case held == nil && asked:
		return captured
	case held == nil:
		return outcomeWithoutPayment(o)
	case asked && captured.Kind != providers.Declined:
		if captured.Kind != providers.Unknown && held.Status == statusPartiallyCaptured && !unit.Payments.hasFinalCapture() {
			return outcomeOfOpenRest(held)
		}
		return captured
	default:
		return outcomeOfAuthorization(held) // a declined capture leaves the authorization as it is
	}
}

// outcomeOfOpenRest is for an authorization of which a part is captured and the rest still held.
func outcomeOfOpenRest(held *authorization) providers.Outcome {
	money, err := fromPayPal(held.Amount)
	if err != nil {
		return unknown(codeAmountUnreadable)
	}
	return providers.Outcome{Kind: providers.Authorized, Code: providers.CodePartiallyCaptured, Money: money}
}

// outcomeWithoutPayment maps every status of an order for which no money was asked yet.
func outcomeWithoutPayment(o *order) providers.Outcome {
	switch o.Status {
	case statusCreated, statusPayerActionRequired:
		return actionRequired(o.Links)
	case statusApproved:
		return providers.Outcome{Kind: providers.Processing, Code: providers.CodeApproved}
	case statusSaved:
		return providers.Outcome{Kind: providers.Processing, Code: o.Status}
	case statusVoided:
		return providers.Outcome{Kind: providers.Canceled, Code: codeOrderVoided}
	case statusCompleted:
		return unknown(codePaymentMissing)
	default:
		return unknown(codeStatusUnrecognized)
	}
}

// actionRequired sends the customer to PayPal's page.
func actionRequired(links []link) providers.Outcome {
	for _, rel := range []string{"payer-action", "approve"} { // the second is its name when no payment source was given
		for _, l := range links {
			if l.Rel == rel && isWebPage(l.Href) {
				return providers.Outcome{
					Kind:       providers.ActionRequired,
					NextAction: &providers.NextAction{Type: "redirect", URL: l.Href},
				}
			}
		}
	}
	return unknown(codeNextActionMissing) // a customer who is told nothing can do nothing
}

// isWebPage keeps "javascript:" and the like away from customers' browsers.
func isWebPage(address string) bool {
	parsed, err := url.Parse(address)
	return err == nil && (parsed.Scheme == "https" || parsed.Scheme == "http") && parsed.Host != ""
}

// authorization is the one that is open, or else the latest; nil for none. A second one comes about only after a first was denied.
func (p payments) authorization() *authorization {
	for i := range p.Authorizations {
		switch p.Authorizations[i].Status {
		case statusCreated, statusPending, statusPartiallyCaptured, statusPartiallyCreated:
			return &p.Authorizations[i]
		}
	}
	if len(p.Authorizations) == 0 {
		return nil
	}
	return &p.Authorizations[len(p.Authorizations)-1]
}

// outcomeOfAuthorization maps every status of an authorization of which nothing is captured.
func outcomeOfAuthorization(a *authorization) providers.Outcome {
	money, err := fromPayPal(a.Amount)
	if err != nil {
		return unknown(codeAmountUnreadable)
	}
	outcome := providers.Outcome{Money: money}
	switch a.Status {
	case statusCreated:
		outcome.Kind = providers.Authorized
	case statusPending:
		outcome.Kind, outcome.Code = providers.Processing, reasonOr(a.Details, a.Status)
	case statusDenied:
		return declined(money, a.Status, a.Processor)
	case statusExpired:
		outcome.Kind, outcome.Code = providers.Canceled, providers.CodeAuthorizationExpired
	case statusVoided:
		outcome.Kind, outcome.Code = providers.Canceled, a.Status
		// PayPal voids an authorization by itself at its end; the two times of its own answer tell that from our void.
		if !a.Expires.IsZero() && !a.UpdateTime.Before(a.Expires.Time) {
			outcome.Code = providers.CodeAuthorizationExpired
		}
	case statusCaptured, statusPartiallyCaptured:
		outcome.Kind, outcome.Code = providers.Unknown, codePaymentMissing
	default: // PARTIALLY_CREATED among them: other money is held than was asked for
		outcome.Kind, outcome.Code = providers.Unknown, codeStatusUnrecognized
	}
	return outcome
}

// outcomeOfCaptures tells what all captures of an order come to; asked is false without captures. Money is what was taken, before
// refunds. All given back is Canceled: a saga that takes it for paid would ship for free.
func outcomeOfCaptures(made payments) (outcome providers.Outcome, asked bool) {
	sum := tally{byKind: make(map[providers.OutcomeKind]providers.Outcome)}
	for i := range made.Captures {
		if broken, ok := sum.add(outcomeOfCapture(&made.Captures[i])); !ok {
			return broken, true
		}
	}
	for _, kind := range []providers.OutcomeKind{providers.Succeeded, providers.Processing, providers.Canceled, providers.Declined} {
		if outcome, asked = sum.byKind[kind]; asked {
			break
		}
	}
	switch {
	case outcome.Kind == providers.Succeeded:
		outcome.Money, outcome.Code = sum.taken, sum.code
	case outcome.Kind == providers.Canceled && made.hasOpenRefund():
		// A refund of all that can still fail: neither paid nor unpaid.
		outcome.Kind, outcome.Code, outcome.Money = providers.Processing, codeRefundPending, sum.taken
	case outcome.Kind == providers.Canceled:
		outcome.Money = sum.taken
	}
	return outcome, asked
}

// tally adds captures up.
type tally struct {
	byKind map[providers.OutcomeKind]providers.Outcome // the latest of each kind
	taken  providers.Money                             // before refunds
	code   string                                      // CodePartiallyRefunded once any was refunded
}

// add takes one capture in; ok is false, with the outcome of them all, if it makes the sum meaningless.
func (t *tally) add(one providers.Outcome) (broken providers.Outcome, ok bool) {
	t.byKind[one.Kind] = one
	switch one.Kind {
	case providers.Unknown:
		return one, false
	case providers.Succeeded, providers.Canceled:
		if t.taken.Currency != "" && t.taken.Currency != one.Money.Currency {
			return unknown(codeAmountUnreadable), false
		}
		t.taken = providers.Money{Amount: t.taken.Amount + one.Money.Amount, Currency: one.Money.Currency}
		if one.Code != "" {
			t.code = providers.CodePartiallyRefunded
		}
	default: // pending or declined: nothing taken
	}
	return providers.Outcome{}, true
}

// hasFinalCapture tells that no further capture will follow, whatever the authorization's status says.
func (p payments) hasFinalCapture() bool {
	return slices.ContainsFunc(p.Captures, func(c capture) bool {
		return c.Final && c.Status != statusDeclined && c.Status != statusDenied && c.Status != statusFailed
	})
}

func (p payments) hasOpenRefund() bool {
	return slices.ContainsFunc(p.Refunds, func(r refund) bool { return r.Status == statusPending })
}

// outcomeOfCapture maps every status of a capture.
func outcomeOfCapture(c *capture) providers.Outcome {
	money, err := fromPayPal(c.Amount)
	switch {
	case !idForm.MatchString(c.ID):
		return unknown(codeOtherObject)
	case err != nil:
		return unknown(codeAmountUnreadable)
	}
	switch c.Status {
	case statusCompleted:
		return providers.Outcome{Kind: providers.Succeeded, Money: money}
	case statusPartiallyRefunded:
		return providers.Outcome{Kind: providers.Succeeded, Code: providers.CodePartiallyRefunded, Money: money}
	case statusRefunded:
		return providers.Outcome{Kind: providers.Canceled, Code: providers.CodeRefunded, Money: money}
	case statusPending:
		return providers.Outcome{Kind: providers.Processing, Code: reasonOr(c.Details, c.Status), Money: money}
	case statusDeclined, statusDenied, statusFailed:
		return declined(money, c.Status, c.Processor)
	default:
		return unknown(codeStatusUnrecognized)
	}
}

// outcomeOfRefund maps every status of a refund. Reference is the refund's.
func outcomeOfRefund(r *refund) providers.Outcome {
	if !idForm.MatchString(r.ID) {
		return unknown(codeOtherObject)
	}
	money, err := fromPayPal(r.Amount)
	if err != nil {
		return providers.Outcome{Kind: providers.Unknown, Reference: r.ID, Code: codeAmountUnreadable}
	}
	outcome := providers.Outcome{Reference: r.ID, Money: money}
	switch r.Status {
	case statusCompleted:
		outcome.Kind = providers.Succeeded
	case statusPending:
		outcome.Kind, outcome.Code = providers.Processing, reasonOr(r.Details, r.Status)
	case statusFailed:
		outcome.Kind, outcome.Code = providers.Declined, r.Status
		outcome.Decline = &providers.Decline{Code: r.Status, Hard: true} // the refund must be made otherwise
	case statusCanceled:
		outcome.Kind, outcome.Code = providers.Canceled, r.Status
	default:
		outcome.Kind, outcome.Code = providers.Unknown, codeStatusUnrecognized
	}
	return outcome
}

// hardAdvice are the card networks' advices "do not try again" and "stop recurring payments".
var hardAdvice = []string{"03", "21"}

// hardProcessorCodes are the processor's findings after which the same card must not be tried again: 5400 expired, 9500 suspected
// fraud, 9520 lost or stolen.
var hardProcessorCodes = []string{"5400", "9500", "9520"}

func declined(money providers.Money, status string, processor processorResponse) providers.Outcome {
	hard := slices.Contains(hardProcessorCodes, processor.Code) || slices.Contains(hardAdvice, processor.Advice)
	return providers.Outcome{
		Kind: providers.Declined, Code: status, Money: money,
		Decline: &providers.Decline{Code: status, Bank: safeCode(processor.Code), Hard: hard},
	}
}

func unknown(code string) providers.Outcome {
	return providers.Outcome{Kind: providers.Unknown, Code: code}
}

// What PayPal's codes and ids look like. Anything else is not passed on: a broken answer could put anything into the timeline, and
// ids become parts of URLs.
var (
	codeForm  = regexp.MustCompile(`^[A-Z0-9_]{1,100}$`)
	idForm    = regexp.MustCompile(`^[A-Z0-9-]{1,36}$`)
	fieldForm = regexp.MustCompile(`^[A-Za-z0-9_/@=.'\[\]-]{1,200}$`)
)

// safeCode is a code of PayPal as it is, empty for none, or "unrecognized".
func safeCode(code string) string {
	if code == "" || codeForm.MatchString(code) {
		return code
	}
	return codeUnrecognized
}

func reasonOr(details statusDetails, status string) string {
	if reason := safeCode(details.Reason); reason != "" {
		return reason
	}
	return status
}
