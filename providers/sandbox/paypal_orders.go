package sandbox

import (
	"encoding/json"
	"net/http"
	"slices"
)

var (
	paypalOrderFields = words("intent payer purchase_units payment_source application_context processing_instruction")
	paypalUnitFields  = words(`reference_id amount payee payment_instruction description custom_id invoice_id soft_descriptor items
		shipping supplementary_data`)
	paypalSourceFields = words("payment_source")
)

// readPayPal reads a body strictly: known fields only. An empty body is an empty object where it may be.
func readPayPal(body []byte, known map[string]bool, optional bool, into any) *paypalError {
	if len(body) == 0 && optional {
		return nil
	}
	var fields map[string]json.RawMessage
	if err := json.Unmarshal(body, &fields); err != nil || fields == nil {
		return paypalBadRequest("MALFORMED_REQUEST_JSON", "/")
	}
	for name := range fields {
		if !known[name] {
			return paypalBadRequest("NOT_SUPPORTED", "/"+name)
		}
	}
	if err := json.Unmarshal(body, into); err != nil {
		return paypalBadRequest("INVALID_PARAMETER_SYNTAX", "/")
	}
	return nil
}

// createOrder is POST /v2/checkout/orders. With something to pay with that needs no approval, the order is paid at once.
func (a *paypalAPI) createOrder(c paypalCall) (paypalResult, *paypalError) {
	var request struct {
		Intent  string                       `json:"intent"`
		Units   []map[string]json.RawMessage `json:"purchase_units"`
		Source  json.RawMessage              `json:"payment_source"`
		Context paypalContext                `json:"application_context"`
	}
	if refusal := readPayPal(c.body, paypalOrderFields, false, &request); refusal != nil {
		return paypalResult{}, refusal
	}
	switch {
	case request.Intent == "":
		return paypalResult{}, paypalBadRequest("MISSING_REQUIRED_PARAMETER", "/intent")
	case !slices.Contains([]string{intentCapture, intentAuthorize}, request.Intent):
		return paypalResult{}, paypalBadRequest("INVALID_PARAMETER_VALUE", "/intent")
	case len(request.Units) == 0:
		return paypalResult{}, paypalBadRequest("MISSING_REQUIRED_PARAMETER", "/purchase_units")
	case len(request.Units) > 1:
		return paypalResult{}, paypalBadRequest("NOT_SUPPORTED", "/purchase_units/1")
	case len(request.Source) > 0 && c.key == "":
		return paypalResult{}, paypalBadRequest("PAYPAL_REQUEST_ID_REQUIRED", "PayPal-Request-Id")
	}
	order := &paypalOrder{
		id: paypalID(), identifier: c.key, created: c.now, changed: c.now, intent: request.Intent, status: paypalCreated,
		unit: request.Units[0],
	}
	order.source.returnURL, order.source.cancelURL = request.Context.ReturnURL, request.Context.CancelURL
	if refusal := order.readUnit(); refusal != nil {
		return paypalResult{}, refusal
	}
	source, refusal := readSource(request.Source)
	if refusal != nil {
		return paypalResult{}, refusal
	}
	if a.store.full() {
		return paypalResult{}, paypalFull()
	}
	if refusal := a.payAtOnce(order, source, c); refusal != nil {
		return paypalResult{}, refusal
	}
	a.store.orders = append(a.store.orders, order)
	a.store.orderByID[order.id] = order
	return paypalResult{status: http.StatusCreated, show: order.show}, nil
}

// payAtOnce pays a new order when its source needs nobody's approval.
func (a *paypalAPI) payAtOnce(order *paypalOrder, source *paypalSource, c paypalCall) *paypalError {
	switch {
	case source == nil:
		return nil
	case !source.pays():
		order.source = *source
		order.become(paypalActionRequired, c.now)
		return nil
	}
	order.source = *source
	return a.pay(order, c)
}

// readUnit checks the purchase unit and takes over what the sandbox acts on.
func (o *paypalOrder) readUnit() *paypalError {
	const at = "/purchase_units/@reference_id=='default'/"
	for name := range o.unit {
		if !paypalUnitFields[name] {
			return paypalBadRequest("NOT_SUPPORTED", at+name)
		}
	}
	var amount struct {
		paypalMoney

		Breakdown map[string]paypalMoney `json:"breakdown"`
	}
	if len(o.unit["amount"]) == 0 {
		return paypalBadRequest("MISSING_REQUIRED_PARAMETER", at+"amount")
	}
	if json.Unmarshal(o.unit["amount"], &amount) != nil {
		return paypalBadRequest("INVALID_PARAMETER_SYNTAX", at+"amount")
	}
	units, issue := amount.positive()
	if issue == "DECIMALS_NOT_SUPPORTED" {
		issue = "DECIMAL_PRECISION" // the Orders API has one word for both
	}
	if issue != "" {
		return moneyIssue(issue, at+"amount/value")
	}
	o.amount, o.currency = units, amount.Currency
	if refusal := o.checkBreakdown(amount.Breakdown, at); refusal != nil {
		return refusal
	}
	return o.readLabels(at)
}

func (o *paypalOrder) readLabels(at string) *paypalError {
	for name, target := range map[string]*string{"custom_id": &o.customID, "invoice_id": &o.invoiceID} {
		if raw, given := o.unit[name]; given {
			if json.Unmarshal(raw, target) != nil {
				return paypalBadRequest("INVALID_PARAMETER_SYNTAX", at+name)
			}
			if len(*target) == 0 || len(*target) > 127 {
				return paypalBadRequest("INVALID_STRING_LENGTH", at+name)
			}
		}
	}
	return nil
}

// checkBreakdown adds the parts of an amount up.
func (o *paypalOrder) checkBreakdown(parts map[string]paypalMoney, at string) *paypalError {
	if len(parts) == 0 {
		return nil
	}
	var sum int64
	for name, part := range parts {
		units, issue := part.units()
		if issue != "" {
			return moneyIssue(issue, at+"amount/breakdown/"+name)
		}
		if name == "discount" || name == "shipping_discount" {
			units = -units
		}
		sum += units
	}
	if sum != o.amount {
		return unprocessable("AMOUNT_MISMATCH", at+"amount/value")
	}
	return nil
}

// moneyIssue is a 400 when the text is no number, else a 422.
func moneyIssue(issue, field string) *paypalError {
	if issue == "INVALID_PARAMETER_SYNTAX" {
		return paypalBadRequest(issue, field)
	}
	return unprocessable(issue, field)
}

func (a *paypalAPI) order(c paypalCall) (*paypalOrder, *paypalError) {
	order, known := a.store.orderByID[c.id]
	if !known {
		return nil, paypalMissing()
	}
	return order, nil
}

func (a *paypalAPI) getOrder(c paypalCall) (paypalResult, *paypalError) {
	order, refusal := a.order(c)
	if refusal != nil {
		return paypalResult{}, refusal
	}
	return paypalResult{status: http.StatusOK, show: order.show}, nil
}

func (a *paypalAPI) captureOrder(c paypalCall) (paypalResult, *paypalError) {
	return a.payOrder(c, intentCapture, "ORDER_ALREADY_CAPTURED")
}

func (a *paypalAPI) authorizeOrder(c paypalCall) (paypalResult, *paypalError) {
	return a.payOrder(c, intentAuthorize, "ORDER_ALREADY_AUTHORIZED")
}

// payOrder takes or holds the money of an order that was approved, or of one that comes with something to pay with.
func (a *paypalAPI) payOrder(c paypalCall, intent, already string) (paypalResult, *paypalError) {
	var request struct {
		Source json.RawMessage `json:"payment_source"`
	}
	if refusal := readPayPal(c.body, paypalSourceFields, true, &request); refusal != nil {
		return paypalResult{}, refusal
	}
	order, refusal := a.order(c)
	if refusal != nil {
		return paypalResult{}, refusal
	}
	source, refusal := readSource(request.Source)
	if refusal != nil {
		return paypalResult{}, refusal
	}
	switch {
	case source != nil && c.key == "":
		return paypalResult{}, paypalBadRequest("PAYPAL_REQUEST_ID_REQUIRED", "PayPal-Request-Id")
	case order.intent != intent:
		return paypalResult{}, unprocessable("ACTION_DOES_NOT_MATCH_INTENT", "")
	case order.status == paypalCompleted:
		return paypalResult{}, unprocessable(already, "")
	case a.store.full():
		return paypalResult{}, paypalFull()
	}
	if refusal := order.awaitsPayer(source); refusal != nil {
		return paypalResult{}, refusal
	}
	trial := *order // refused, nothing must have changed
	if source.pays() {
		trial.source = *source
	}
	if refusal := a.payable(&trial); refusal != nil {
		return paypalResult{}, refusal
	}
	order.source = trial.source
	a.settlePayment(order, c)
	return paypalResult{status: http.StatusCreated, show: order.show}, nil
}

// awaitsPayer refuses an order that the payer has not approved and that comes with nothing that pays without.
func (o *paypalOrder) awaitsPayer(source *paypalSource) *paypalError {
	switch {
	case o.status == paypalApproved || source.pays():
		return nil
	case o.status == paypalActionRequired && !o.source.wallet:
		return unprocessable("PAYER_ACTION_REQUIRED", "")
	default:
		return unprocessable("ORDER_NOT_APPROVED", "")
	}
}

// payable refuses what PayPal's checks refuse without a capture.
func (a *paypalAPI) payable(order *paypalOrder) *paypalError {
	if issue := order.source.method.issue; issue != "" {
		return unprocessable(issue, "")
	}
	if other, paid := a.store.paidInvoices[order.invoiceID]; paid && other.id != order.id && !a.reusedInvoices {
		return unprocessable("DUPLICATE_INVOICE_ID", "/purchase_units/@reference_id=='default'/invoice_id")
	}
	return nil
}

func (a *paypalAPI) pay(order *paypalOrder, c paypalCall) *paypalError {
	if refusal := a.payable(order); refusal != nil {
		return refusal
	}
	a.settlePayment(order, c)
	return nil
}

// settlePayment captures or authorizes, by the order's intent. The order is completed even when its capture is declined.
func (a *paypalAPI) settlePayment(order *paypalOrder, c paypalCall) {
	method := order.source.method
	if order.intent == intentAuthorize {
		a.authorize(order, method, c.now)
	} else {
		capture := a.addCapture(order, order.amount, c.now)
		capture.final, capture.invoiceID = true, order.invoiceID
		a.concludeCapture(capture, method.status, method.reason, c.now)
	}
	order.become(paypalCompleted, c.now)
	a.announceOrder(order, "CHECKOUT.ORDER.COMPLETED")
}
