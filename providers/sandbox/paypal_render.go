package sandbox

import (
	"encoding/json"
	"net/http"
	"time"
)

// The names of two fields that many objects have.
const (
	fieldStatus = "status"
	fieldType   = "type"
)

type paypalLink struct {
	Href   string `json:"href"`
	Rel    string `json:"rel"`
	Method string `json:"method"`
}

// paypalObject is an object of PayPal's API as JSON.
type paypalObject map[string]any

// sandboxMerchant is the account that all payments go to, sandboxPayer the one that they come from.
const (
	sandboxMerchant = "SANDBXMERCHNT"
	sandboxPayer    = "SANDBXPAYER22"
)

func paypalTime(at time.Time) string { return at.UTC().Format(time.RFC3339) }

func (v paypalView) link(rel, method, path string) paypalLink {
	return paypalLink{Href: v.base + path, Rel: rel, Method: method}
}

// shown leaves out what the minimal form does not have.
func (v paypalView) shown(object paypalObject, minimal ...string) paypalObject {
	if v.full {
		return object
	}
	short := paypalObject{}
	for _, name := range append([]string{"id", fieldStatus, "links"}, minimal...) {
		if value, present := object[name]; present {
			short[name] = value
		}
	}
	return short
}

func (o *paypalOrder) show(view paypalView) any {
	object := paypalObject{
		"id": o.id, "intent": o.intent, fieldStatus: o.status, "create_time": paypalTime(o.created), "update_time": paypalTime(o.changed),
		"purchase_units": []paypalObject{o.showUnit(view)}, "links": o.links(view),
	}
	if source := o.showSource(); source != nil {
		object["payment_source"] = source
	}
	if o.status == paypalApproved || o.status == paypalCompleted {
		object["payer"] = paypalObject{"payer_id": sandboxPayer, "email_address": "payer@example.com"}
	}
	if o.status == paypalCompleted {
		return view.shown(object, "payment_source", "purchase_units", "payer")
	}
	return view.shown(object, "payment_source")
}

func (o *paypalOrder) showUnit(view paypalView) paypalObject {
	unit := paypalObject{
		"reference_id": "default", "payee": paypalObject{"email_address": "merchant@example.com", "merchant_id": sandboxMerchant},
	}
	for name, raw := range o.unit {
		unit[name] = raw
	}
	payments := paypalObject{}
	whole := paypalView{base: view.base, full: true}
	if o.authorization != nil {
		payments["authorizations"] = []any{o.authorization.showWithin(whole)}
	}
	captures := make([]any, 0, len(o.captures))
	var refunds []any
	for _, capture := range o.captures {
		captures = append(captures, capture.showWithin(whole))
		for _, refund := range capture.refunds {
			refunds = append(refunds, refund.show(whole))
		}
	}
	if len(captures) > 0 {
		payments["captures"] = captures
	}
	if refunds != nil {
		payments["refunds"] = refunds
	}
	if len(payments) > 0 {
		unit["payments"] = payments
	}
	if view.full {
		return unit
	}
	short := paypalObject{"reference_id": unit["reference_id"]}
	if len(payments) > 0 {
		short["payments"] = payments
	}
	return short
}

func (o *paypalOrder) showSource() paypalObject {
	wallet := paypalObject{"email_address": "payer@example.com", "account_id": sandboxPayer, "account_status": "VERIFIED"}
	switch o.source.kind {
	case typeCard:
		card := paypalObject{"last_digits": "1111", "brand": "VISA", fieldType: "CREDIT", "expiry": "2030-03"}
		if len(o.source.name) > 1 {
			card["name"] = o.source.name
		}
		return paypalObject{typeCard: card}
	case "":
		if o.status != paypalApproved && o.status != paypalCompleted {
			return nil
		}
		return paypalObject{paypalName: wallet}
	default:
		if o.status == paypalActionRequired {
			return paypalObject{paypalName: paypalObject{}}
		}
		return paypalObject{paypalName: wallet}
	}
}

func (o *paypalOrder) links(view paypalView) []paypalLink {
	path := "/v2/checkout/orders/" + o.id
	links := []paypalLink{view.link("self", http.MethodGet, path)}
	switch o.status {
	case paypalCreated:
		links = append(links, view.link("approve", http.MethodGet, "/checkoutnow?token="+o.id))
	case paypalActionRequired:
		links = append(links, view.link("payer-action", http.MethodGet, "/checkoutnow?token="+o.id))
	default:
	}
	if o.status == paypalCreated || o.status == paypalApproved {
		next := "capture"
		if o.intent == intentAuthorize {
			next = "authorize"
		}
		links = append(links, view.link(next, http.MethodPost, path+"/"+next))
	}
	return links
}

// about is what payments say alike.
func about(id, status, reason string, created, changed time.Time) paypalObject {
	object := paypalObject{"id": id, fieldStatus: status, "create_time": paypalTime(created), "update_time": paypalTime(changed)}
	if reason != "" {
		object["status_details"] = paypalObject{"reason": reason}
	}
	return object
}

func (p paypalObject) label(name, value string) {
	if value != "" {
		p[name] = value
	}
}

var sellerProtection = json.RawMessage(
	`{"status":"ELIGIBLE","dispute_categories":["ITEM_NOT_RECEIVED","UNAUTHORIZED_TRANSACTION"]}`)

// showWithin is a payment as its order shows it: with what the processor said, without what the Payments API adds.
func (z *paypalAuthorization) showWithin(view paypalView) paypalObject {
	object := about(z.id, z.status, z.reason, z.created, z.changed)
	object["amount"] = money(z.amount, z.order.currency)
	object["seller_protection"] = sellerProtection
	object["expiration_time"] = paypalTime(z.expires)
	object.label("invoice_id", z.order.invoiceID)
	object.label("custom_id", z.order.customID)
	if z.response != "" && z.status == paypalDenied {
		object["processor_response"] = paypalObject{"response_code": z.response}
	}
	path := "/v2/payments/authorizations/" + z.id
	object["links"] = []paypalLink{
		view.link("self", http.MethodGet, path), view.link("capture", http.MethodPost, path+"/capture"),
		view.link("void", http.MethodPost, path+"/void"), view.link("up", http.MethodGet, "/v2/checkout/orders/"+z.order.id),
	}
	return object
}

func (z *paypalAuthorization) show(view paypalView) any {
	object := z.showWithin(view)
	object["supplementary_data"] = paypalObject{"related_ids": paypalObject{"order_id": z.order.id}}
	return view.shown(object)
}

func (c *paypalCapture) showWithin(view paypalView) paypalObject {
	currency := c.order.currency
	object := about(c.id, c.status, c.reason, c.created, c.changed)
	object["amount"] = money(c.amount, currency)
	object["final_capture"] = c.final
	object["seller_protection"] = sellerProtection
	object["disbursement_mode"] = "INSTANT"
	object.label("invoice_id", c.invoiceID)
	object.label("custom_id", c.order.customID)
	if c.taken() {
		fee := paypalFees.of(c.amount)
		object["seller_receivable_breakdown"] = paypalObject{
			"gross_amount": money(c.amount, currency), "paypal_fee": money(fee, currency), "net_amount": money(c.amount-fee, currency),
		}
	}
	if c.response != "" && c.status == paypalDeclined {
		object["processor_response"] = paypalObject{"response_code": c.response}
	}
	path := "/v2/payments/captures/" + c.id
	object["links"] = []paypalLink{
		view.link("self", http.MethodGet, path), view.link("refund", http.MethodPost, path+"/refund"),
		view.link("up", http.MethodGet, "/v2/checkout/orders/"+c.order.id),
	}
	return object
}

func (c *paypalCapture) show(view paypalView) any {
	object := c.showWithin(view)
	related := paypalObject{"order_id": c.order.id}
	if c.authorization != nil {
		related["authorization_id"] = c.authorization.id
	}
	object["supplementary_data"] = paypalObject{"related_ids": related}
	return view.shown(object)
}

func (r *paypalRefund) show(view paypalView) any {
	currency := r.capture.order.currency
	object := about(r.id, r.status, "", r.created, r.changed)
	object["amount"] = money(r.amount, currency)
	object.label("invoice_id", r.invoiceID)
	object.label("custom_id", r.customID)
	object.label("note_to_payer", r.note)
	object["seller_payable_breakdown"] = paypalObject{
		"gross_amount": money(r.amount, currency), "paypal_fee": money(0, currency), "net_amount": money(r.amount, currency),
		"total_refunded_amount": money(r.capture.refunded, currency),
	}
	object["links"] = []paypalLink{
		view.link("self", http.MethodGet, "/v2/payments/refunds/"+r.id),
		view.link("up", http.MethodGet, "/v2/payments/captures/"+r.capture.id),
	}
	return view.shown(object)
}
