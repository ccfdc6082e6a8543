package sandbox

import (
	"fmt"
	"slices"
	"strings"
	"time"
)

func (a *stripeAPI) confirmPayment(c stripeCall) (any, *stripeError) {
	payment, refusal := a.payment(c)
	if refusal != nil {
		return nil, refusal
	}
	switch payment.status {
	case statusSucceeded:
		return nil, payment.unexpected("You cannot confirm this PaymentIntent because it has already succeeded after being previously " +
			"confirmed.")
	case statusCanceled, statusProcessing, statusRequiresCapture:
		return nil, payment.unexpected("You cannot confirm this PaymentIntent because it has a status of %s. Only a PaymentIntent with "+
			"one of the following statuses may be confirmed: requires_confirmation, requires_action.", payment.status)
	}
	method, refusal := a.attach(c, payment)
	if refusal != nil {
		return nil, refusal
	}
	trial := *payment // refused, nothing must have changed
	if method != nil {
		trial.method = method
	}
	if refusal := trial.describe(c.params); refusal != nil {
		return nil, refusal
	}
	if refusal := trial.confirmable(c); refusal != nil {
		return nil, refusal
	}
	if a.store.full() {
		return nil, storeFull()
	}
	*payment = trial
	if refusal := a.attempt(payment, c); refusal != nil {
		return nil, refusal
	}
	return payment.object(c.expand), nil
}

// confirmable refuses an attempt that Stripe would not make.
func (p *stripePayment) confirmable(c stripeCall) *stripeError {
	redirects := p.automatic != nil && p.automatic.AllowRedirects != "never"
	switch {
	case p.method == nil:
		return p.unexpected("You cannot confirm this PaymentIntent because it's missing a payment method. You can either update the " +
			"PaymentIntent with a payment method and then confirm it again, or confirm it again directly with a payment method.")
	case !slices.Contains(p.methodTypes, p.method.kind):
		return invalid("payment_intent_incompatible_payment_method", objectPaymentMethod,
			"The PaymentMethod provided (%s) is not allowed for this PaymentIntent. Please attach a PaymentMethod of one of the following "+
				"types: %s.",
			p.method.kind, strings.Join(p.methodTypes, ", "))
	case p.captureMethod == captureManual && p.method.delayed:
		return invalid("", "capture_method", "The payment method type %s does not support manual capture.", p.method.kind)
	case redirects && c.params.text("return_url") == "" && !c.params.flag("use_stripe_sdk"):
		return invalid("", "return_url", "This PaymentIntent is configured to accept payment methods enabled in your Dashboard. "+
			"Because some of these payment methods might redirect your customer off of your page, you must provide a `return_url`. If you "+
			"don't want to accept redirect-based payment methods, set `automatic_payment_methods[enabled]` to `true` and "+
			"`automatic_payment_methods[allow_redirects]` to `never` when creating Setup Intents and Payment Intents.")
	}
	return nil
}

// attempt tries to take the payment's money. A refusal by the bank comes back as the 402 to answer with.
func (a *stripeAPI) attempt(p *stripePayment, c stripeCall) *stripeError {
	p.lastError, p.next, p.returnURL = nil, nil, c.params.text("return_url")
	offSession := c.params.text("off_session")
	if !p.method.challenge {
		return a.settle(p, c.now)
	}
	switch {
	case offSession != "" && offSession != "false":
		refusal := decline("authentication_required", "authentication_required", "Your card was declined. This transaction requires "+
			"authentication.")
		return a.refuse(p, refusal, c.now)
	case c.params.flag("error_on_requires_action"):
		refusal := decline("authentication_required", "authentication_not_handled",
			"This payment required an authentication action to complete, but `error_on_requires_action` was set. When you're ready, you "+
				"can upgrade your integration to handle actions at https://stripe.com/docs/payments/payment-intents/upgrade-to-handle-actions.")
		return a.refuse(p, refusal, c.now)
	}
	p.next = &nextAction{Type: "use_stripe_sdk", UseStripeSDK: map[string]any{
		fieldType: "three_d_secure_redirect", "stripe_js": a.challengeURL(c.baseURL, p), "source": "src_" + randomText(24),
	}}
	if p.returnURL != "" && !c.params.flag("use_stripe_sdk") {
		p.next = &nextAction{Type: "redirect_to_url", RedirectToURL: &redirectToURL{ReturnURL: p.returnURL, URL: a.challengeURL(c.baseURL, p)}}
	}
	p.become(statusRequiresAction, c.now)
	return nil
}

// settle asks the bank, the customer having been authenticated as far as needed.
func (a *stripeAPI) settle(p *stripePayment, now time.Time) *stripeError {
	p.next = nil
	if p.method.decline != nil {
		return a.refuse(p, p.method.decline, now)
	}
	charge := a.store.addCharge(p, now)
	switch {
	case p.method.delayed:
		charge.status = statusPending
		p.become(statusProcessing, now)
		a.server.settleLater(func() { a.settleOne(p) })
	case p.captureMethod == captureManual:
		charge.status = statusSucceeded
		p.capturable = p.amount
		p.become(statusRequiresCapture, now)
	default:
		p.take(charge, p.amount, now)
	}
	return nil
}

// take captures the money of a charge.
func (p *stripePayment) take(charge *stripeCharge, amount int64, now time.Time) {
	charge.status, charge.captured, charge.booked = statusSucceeded, amount, now
	charge.refunded = charge.amount - amount // what a partial capture leaves over is released at once
	p.received, p.capturable = amount, 0
	p.become(statusSucceeded, now)
}

// refuse ends an attempt with the bank's refusal. The payment stays open for another method.
func (a *stripeAPI) refuse(p *stripePayment, why *stripeError, now time.Time) *stripeError {
	charge := a.store.addCharge(p, now)
	charge.status, charge.failure = statusFailed, why
	a.reopen(p, why, charge, now)
	refusal := *p.lastError
	refusal.PaymentIntent = p.object(nil)
	return &refusal
}

// reopen records why the last attempt failed and takes its method off the payment.
func (a *stripeAPI) reopen(p *stripePayment, why *stripeError, charge *stripeCharge, now time.Time) {
	last := *why
	last.PaymentMethod = p.method.object()
	last.DocURL = "https://stripe.com/docs/error-codes/" + strings.ReplaceAll(why.Code, "_", "-")
	if charge != nil {
		last.Charge = charge.id
	}
	p.lastError, p.method, p.next = &last, nil, nil
	p.become(statusRequiresPaymentMethod, now)
}

// refresh lets happen what time brings: a hold that nobody captured runs out, a slow bank answers.
func (a *stripeAPI) refresh(p *stripePayment, now time.Time) {
	_, settleAfter := a.server.settings.delays()
	switch {
	case p.status == statusRequiresCapture && now.Sub(p.changed) >= holdTime:
		p.cancel(captureAutomatic, p.changed.Add(holdTime))
	case p.status == statusProcessing && settleAfter > 0 && now.Sub(p.changed) >= settleAfter:
		a.concludeDebit(p, !p.method.fails, now)
	}
}

// concludeDebit ends a payment that was in processing.
func (a *stripeAPI) concludeDebit(p *stripePayment, paid bool, now time.Time) {
	charge := p.latestCharge()
	if paid {
		p.take(charge, p.amount, now)
		return
	}
	why := p.method.lateFailure()
	charge.status, charge.failure = statusFailed, why
	a.reopen(p, why, charge, now)
}

// authenticate ends a 3-D Secure challenge.
func (a *stripeAPI) authenticate(p *stripePayment, approved bool, now time.Time) {
	if approved {
		_ = a.settle(p, now) // a decline is kept in lastError; nobody waits for an answer here
		return
	}
	a.reopen(p, &stripeError{
		Type: typeInvalidRequest, Code: "payment_intent_authentication_failure",
		Message: "The provided PaymentMethod has failed authentication. You can provide payment_method_data or a new PaymentMethod to " +
			"attempt to fulfill this PaymentIntent again.",
	}, nil, now)
}

func (a *stripeAPI) capturePayment(c stripeCall) (any, *stripeError) {
	payment, refusal := a.payment(c)
	if refusal != nil {
		return nil, refusal
	}
	if payment.status != statusRequiresCapture {
		return nil, payment.unexpected("This PaymentIntent could not be captured because it has a status of %s. Only a PaymentIntent "+
			"with one of the following statuses may be captured: requires_capture.", payment.status)
	}
	amount, partial := c.params.integer("amount_to_capture")
	if !partial {
		amount = payment.capturable
	}
	if amount > payment.capturable {
		return nil, invalid("amount_too_large", "amount_to_capture",
			"The requested capture amount is greater than the amount you can capture for this charge.")
	}
	if multiple := stripeCurrencies[payment.currency].multipleOf; amount%multiple != 0 {
		return nil, invalid("parameter_invalid_integer", "amount_to_capture", "Amounts in %s must be a multiple of %d.",
			payment.currency, multiple)
	}
	before := payment.metadata
	if refusal := payment.describe(c.params); refusal != nil {
		return nil, refusal
	}
	a.store.index(payment, before)
	payment.take(payment.latestCharge(), amount, c.now)
	return payment.object(c.expand), nil
}

// cancelable are the statuses from which the sandbox lets a payment be canceled. Stripe can also, rarely, cancel one that is
// processing; nobody must count on it.
var cancelable = []string{statusRequiresPaymentMethod, statusRequiresCapture, statusRequiresConfirmation, statusRequiresAction}

func (a *stripeAPI) cancelPayment(c stripeCall) (any, *stripeError) {
	payment, refusal := a.payment(c)
	if refusal != nil {
		return nil, refusal
	}
	if !slices.Contains(cancelable, payment.status) {
		return nil, payment.unexpected("You cannot cancel this PaymentIntent because it has a status of %s. Only a PaymentIntent with "+
			"one of the following statuses may be canceled: %s.", payment.status, strings.Join(cancelable, ", "))
	}
	payment.cancel(c.params.text("cancellation_reason"), c.now)
	return payment.object(c.expand), nil
}

// cancel ends a payment and releases its hold.
func (p *stripePayment) cancel(reason string, now time.Time) {
	if charge := p.latestCharge(); charge != nil && p.capturable > 0 {
		charge.refunded = charge.amount
	}
	p.capturable, p.next, p.canceledAt, p.cancellationReason = 0, nil, now, reason
	p.become(statusCanceled, now)
}

func (a *stripeAPI) challengeURL(baseURL string, p *stripePayment) string {
	return fmt.Sprintf("%s/stripe/authenticate/%s?client_secret=%s", strings.TrimSuffix(baseURL, "/"), p.id, p.clientSecret)
}
