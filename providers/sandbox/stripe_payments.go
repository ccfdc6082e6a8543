package sandbox

import (
	"net/url"
	"slices"
	"strings"
)

// checkCreate holds the rules among the parameters of a create call.
func checkCreate(c stripeCall) *stripeError {
	amount, _ := c.params.integer(paramAmount)
	if refusal := checkAmount(amount, c.params.text(paramCurrency)); refusal != nil {
		return refusal
	}
	if refusal := checkMethodTypes(c); refusal != nil {
		return refusal
	}
	automatic := c.params.object("automatic_payment_methods")
	if automatic.flag("enabled") && c.params.has("payment_method_types") {
		return invalid("parameters_exclusive", "automatic_payment_methods",
			"You may only specify one of these parameters: automatic_payment_methods, payment_method_types.")
	}
	if !c.params.flag("confirm") {
		for _, name := range []string{"return_url", "off_session", "error_on_requires_action"} {
			if c.params.has(name) {
				return invalid("", name, "`%s` can only be used when `confirm` is true.", name)
			}
		}
	}
	if _, refusal := (metadata{}).merge(c.params.metadata()); refusal != nil {
		return refusal
	}
	return checkReturnURL(c)
}

func checkMethodTypes(c stripeCall) *stripeError {
	for _, each := range c.params.texts("payment_method_types") {
		if !slices.Contains([]string{typeCard, typeUSBankAccount, typeSEPADebit, "link"}, each) {
			return invalid("", "payment_method_types", "The payment method type \"%s\" is invalid. The sandbox knows card, link, "+
				"us_bank_account, sepa_debit.", each)
		}
	}
	return nil
}

func checkReturnURL(c stripeCall) *stripeError {
	if refusal := checkMethodTypes(c); refusal != nil {
		return refusal
	}
	raw := c.params.text("return_url")
	if raw == "" {
		return nil
	}
	parsed, err := url.Parse(raw)
	if err != nil || parsed.Host == "" || (parsed.Scheme != "http" && parsed.Scheme != "https") {
		return invalid("url_invalid", "return_url", "Not a valid URL")
	}
	return nil
}

func (a *stripeAPI) createPayment(c stripeCall) (any, *stripeError) {
	if a.store.full() {
		return nil, storeFull()
	}
	method, refusal := a.attach(c, nil)
	if refusal != nil {
		return nil, refusal
	}
	amount, _ := c.params.integer(paramAmount)
	payment := &stripePayment{
		id: stripeID("pi_3"), identifier: c.key, created: c.now, changed: c.now, amount: amount, currency: c.params.text(paramCurrency),
		status: statusRequiresPaymentMethod, captureMethod: captureAutomatic, confirmationMethod: captureAutomatic, method: method,
		customer: c.params.text("customer"), methodTypes: c.params.texts("payment_method_types"), announce: a.announcePayment,
	}
	payment.clientSecret = payment.id + "_secret_" + randomText(25)
	if manual := c.params.text("confirmation_method"); manual != "" {
		payment.confirmationMethod = manual
	}
	payment.offer(c.params.object("automatic_payment_methods"))
	if method != nil {
		payment.status = statusRequiresConfirmation
	}
	if refusal := payment.describe(c.params); refusal != nil {
		return nil, refusal
	}
	if c.params.flag("confirm") {
		// Refused before any attempt, the payment does not come to be; a decline leaves it behind.
		if refusal := payment.confirmable(c); refusal != nil {
			refusal.PaymentIntent = nil
			return nil, refusal
		}
	}
	a.store.addPayment(payment)
	if c.params.flag("confirm") {
		if refusal := a.attempt(payment, c); refusal != nil {
			return nil, refusal
		}
	}
	return payment.object(c.expand), nil
}

// offer sets which payment methods the customer may use. Since 2023-08-16 those of the dashboard are the default.
func (p *stripePayment) offer(automatic params) {
	if len(p.methodTypes) > 0 {
		return
	}
	p.methodTypes = []string{typeCard}
	if automatic.has("enabled") && !automatic.flag("enabled") {
		return
	}
	p.automatic = &automaticObject{Enabled: true, AllowRedirects: "always"}
	if chosen := automatic.text("allow_redirects"); chosen != "" {
		p.automatic.AllowRedirects = chosen
	}
	p.methodTypes = []string{typeCard, "link", typeUSBankAccount}
	if p.currency == "eur" {
		p.methodTypes = []string{typeCard, "link", typeSEPADebit}
	}
}

// describe takes over what is said about a payment without touching its money.
func (p *stripePayment) describe(given params) *stripeError {
	if given.has("metadata") {
		merged, refusal := p.metadata.merge(given.metadata())
		if len(given.metadata()) == 0 {
			merged, refusal = metadata{}, nil
		}
		if refusal != nil {
			return refusal
		}
		p.metadata = merged
	}
	for name, target := range map[string]*string{
		"description": &p.description, "receipt_email": &p.receiptEmail, "statement_descriptor": &p.descriptor, "customer": &p.customer,
		"statement_descriptor_suffix": &p.descriptorSuffix, "setup_future_usage": &p.setupFutureUsage, "capture_method": &p.captureMethod,
	} {
		if given.has(name) {
			*target = given.text(name)
		}
	}
	if types := given.texts("payment_method_types"); len(types) > 0 {
		p.methodTypes, p.automatic = types, nil
	}
	return nil
}

// attach resolves the payment_method parameter: a test name, or the id that the payment already has.
func (a *stripeAPI) attach(c stripeCall, payment *stripePayment) (*attachedMethod, *stripeError) {
	name := c.params.text(objectPaymentMethod)
	if name == "" {
		return nil, nil
	}
	if payment != nil && payment.method != nil && payment.method.id == name {
		return payment.method, nil
	}
	method, known := stripeMethods[name]
	if !known {
		return nil, missingObject("PaymentMethod", name, objectPaymentMethod)
	}
	return &attachedMethod{stripeMethod: method, id: stripeID("pm_1"), created: c.now.Unix()}, nil
}

func (a *stripeAPI) payment(c stripeCall) (*stripePayment, *stripeError) {
	payment, known := a.store.paymentByID[c.id]
	if !known {
		return nil, missingObject(objectPaymentIntent, c.id, "intent")
	}
	a.refresh(payment, c.now)
	if secret := c.params.text("client_secret"); secret != "" && secret != payment.clientSecret {
		return nil, invalid("payment_intent_invalid_parameter", "client_secret", "The client_secret provided does not match the "+
			"client_secret associated with the PaymentIntent.")
	}
	return payment, nil
}

func (a *stripeAPI) retrievePayment(c stripeCall) (any, *stripeError) {
	payment, refusal := a.payment(c)
	if refusal != nil {
		return nil, refusal
	}
	return payment.object(c.expand), nil
}

func (a *stripeAPI) updatePayment(c stripeCall) (any, *stripeError) {
	payment, refusal := a.payment(c)
	if refusal != nil {
		return nil, refusal
	}
	open := slices.Contains([]string{statusRequiresPaymentMethod, statusRequiresConfirmation, statusRequiresAction}, payment.status)
	for _, name := range []string{paramAmount, paramCurrency, objectPaymentMethod, "payment_method_types", "capture_method"} {
		if c.params.has(name) && !open {
			return nil, payment.unexpected("This PaymentIntent's %s could not be updated because it has a status of %s. You may only "+
				"update the %s of a PaymentIntent with one of the following statuses: requires_payment_method, requires_confirmation, "+
				"requires_action.", name,
				payment.status, name)
		}
	}
	amount, currency := payment.amount, payment.currency
	if given, present := c.params.integer(paramAmount); present {
		amount = given
	}
	if given := c.params.text(paramCurrency); given != "" {
		currency = given
	}
	if refusal := checkAmount(amount, currency); refusal != nil {
		return nil, refusal
	}
	method, refusal := a.attach(c, payment)
	if refusal != nil {
		return nil, refusal
	}
	before := payment.metadata
	if refusal := payment.describe(c.params); refusal != nil {
		return nil, refusal
	}
	a.store.index(payment, before)
	payment.amount, payment.currency = amount, currency
	if method != nil {
		payment.method, payment.next = method, nil
		payment.become(statusRequiresConfirmation, c.now)
	}
	return payment.object(c.expand), nil
}

// unexpected is the refusal of a call that does not fit the payment's status; it shows the payment.
func (p *stripePayment) unexpected(format string, arguments ...any) *stripeError {
	refusal := invalid("payment_intent_unexpected_state", "", format, arguments...)
	refusal.PaymentIntent = p.object(nil)
	return refusal
}

// reference is what a payment is filed under in the ledger.
func (p *stripePayment) reference() string {
	if saga := p.metadata["saga_key"]; saga != "" {
		return saga
	}
	return p.metadata["order_id"]
}

func (p *stripePayment) ledgerEntry(calls int) Charge {
	currency := stripeCurrencies[p.currency]
	entry := Charge{
		Provider: stripeName, ID: p.id, Identifier: p.identifier, Reference: p.reference(), Amount: currency.iso(p.amount),
		Currency: strings.ToUpper(p.currency), Status: p.status, Authorized: currency.iso(p.capturable), Captured: currency.iso(p.received),
		Calls: calls,
	}
	for _, charge := range p.charges {
		for _, refund := range charge.refunds {
			if refund.status == statusSucceeded || refund.status == statusPending {
				entry.Refunded += currency.iso(refund.amount)
			}
		}
		if charge.dispute != nil {
			entry.ChargedBack += currency.iso(charge.dispute.amount)
		}
	}
	return entry
}
