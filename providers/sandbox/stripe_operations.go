package sandbox

import (
	"maps"
	"strings"
)

const defaultPageSize = 10

// stripeOperations are all endpoints with their parameters. Parameters of kindUnsupported exist at Stripe.
func stripeOperations() []stripeOperation {
	const intents, intent = "/v1/payment_intents", "/v1/payment_intents/{id}"
	return []stripeOperation{
		{
			pattern: "POST " + intents, call: CallCharge, expands: objectPaymentIntent,
			schema: createSchema(), check: checkCreate, run: (*stripeAPI).createPayment,
		},
		{
			pattern: "POST " + intent, call: CallCharge, expands: objectPaymentIntent,
			schema: updateSchema(), check: checkMethodTypes, run: (*stripeAPI).updatePayment,
		},
		{
			pattern: "POST " + intent + "/confirm", call: CallCharge, expands: objectPaymentIntent,
			schema: confirmSchema(), check: checkReturnURL, run: (*stripeAPI).confirmPayment,
		},
		{
			pattern: "POST " + intent + "/capture", call: CallCapture, expands: objectPaymentIntent,
			schema: captureSchema(), run: (*stripeAPI).capturePayment,
		},
		{
			pattern: "POST " + intent + "/cancel", call: CallVoid, expands: objectPaymentIntent,
			schema: cancelSchema(), run: (*stripeAPI).cancelPayment,
		},
		{
			pattern: "POST /v1/refunds", call: CallRefund, expands: objectRefund,
			schema: refundSchema(), check: checkRefund, run: (*stripeAPI).createRefund,
		},
		{
			pattern: "GET " + intent, call: CallLookup, expands: objectPaymentIntent,
			schema: retrieveSchema(), run: (*stripeAPI).retrievePayment,
		},
		{
			pattern: "GET " + intents + "/search", call: CallLookup, expands: objectPaymentIntent, list: true,
			schema: searchSchema(), check: checkSearch, run: (*stripeAPI).searchPayments,
		},
		{
			pattern: "GET /v1/refunds/{id}", call: CallLookup, expands: objectRefund,
			schema: retrieveSchema(), run: (*stripeAPI).retrieveRefund,
		},
		{
			pattern: "GET /v1/charges/{id}", call: CallLookup, expands: objectCharge,
			schema: retrieveSchema(), run: (*stripeAPI).retrieveCharge,
		},
		{
			pattern: "GET " + intents, call: CallList, expands: objectPaymentIntent, list: true,
			schema: listSchema("customer"), check: checkPage, run: (*stripeAPI).listPayments,
		},
		{
			pattern: "GET /v1/refunds", call: CallList, expands: objectRefund, list: true,
			schema: listSchema(objectPaymentIntent, objectCharge), check: checkPage, run: (*stripeAPI).listRefunds,
		},
		{
			pattern: "GET /v1/charges", call: CallList, expands: objectCharge, list: true,
			schema: listSchema(objectPaymentIntent, "customer"), check: checkPage, run: (*stripeAPI).listCharges,
		},
	}
}

// withUnsupported adds parameters that exist at Stripe and are refused here with a message of their own.
func (s schema) withUnsupported(names string) schema {
	for name := range strings.FieldsSeq(names) {
		s[name] = field{kind: kindUnsupported}
	}
	return s
}

func (s schema) and(more schema) schema {
	maps.Copy(s, more)
	return s
}

func expandSchema() schema { return schema{"expand": {kind: kindTexts}} }

// describeSchema is what create, update and confirm say about a payment.
func describeSchema() schema {
	return schema{
		objectPaymentMethod:    {kind: kindText},
		"payment_method_types": {kind: kindTexts},
		"receipt_email":        {kind: kindText, maxLength: 800, unset: true},
		"setup_future_usage":   {kind: kindText, allowed: []string{"off_session", "on_session"}, unset: true},
		"capture_method":       {kind: kindText, allowed: []string{captureAutomatic, "automatic_async", captureManual}},
	}.and(expandSchema()).withUnsupported("payment_method_data payment_method_options shipping")
}

func labelSchema() schema {
	return schema{
		"customer":                    {kind: kindText, maxLength: 255},
		"description":                 {kind: kindText, maxLength: 1000, unset: true},
		"metadata":                    {kind: kindTable, unset: true},
		"statement_descriptor":        {kind: kindText, maxLength: 22, unset: true},
		"statement_descriptor_suffix": {kind: kindText, maxLength: 22, unset: true},
	}.withUnsupported("application_fee_amount transfer_data transfer_group payment_method_configuration")
}

func attemptSchema() schema {
	return schema{
		"error_on_requires_action": {kind: kindFlag},
		"off_session":              {kind: kindText, allowed: []string{"true", "false", "one_off", "recurring"}},
		"return_url":               {kind: kindText},
		"use_stripe_sdk":           {kind: kindFlag},
	}.withUnsupported("mandate mandate_data radar_options")
}

func createSchema() schema {
	return schema{
		paramAmount:           {kind: kindInteger, required: true, minimum: 1},
		paramCurrency:         {kind: kindText, required: true},
		"confirm":             {kind: kindFlag},
		"confirmation_method": {kind: kindText, allowed: []string{captureAutomatic, "manual"}},
		"automatic_payment_methods": {kind: kindObject, fields: schema{
			"enabled":         {kind: kindFlag, required: true},
			"allow_redirects": {kind: kindText, allowed: []string{"always", "never"}},
		}},
	}.and(describeSchema()).and(labelSchema()).and(attemptSchema()).withUnsupported("on_behalf_of")
}

func updateSchema() schema {
	return schema{
		paramAmount:   {kind: kindInteger, minimum: 1},
		paramCurrency: {kind: kindText},
	}.and(describeSchema()).and(labelSchema())
}

func confirmSchema() schema {
	return schema{"client_secret": {kind: kindText}}.and(describeSchema()).and(attemptSchema())
}

func captureSchema() schema {
	return schema{
		"amount_to_capture":           {kind: kindInteger, minimum: 1},
		"metadata":                    {kind: kindTable, unset: true},
		"statement_descriptor":        {kind: kindText, maxLength: 22},
		"statement_descriptor_suffix": {kind: kindText, maxLength: 22},
	}.and(expandSchema()).withUnsupported("application_fee_amount final_capture transfer_data")
}

func cancelSchema() schema {
	reasons := []string{"duplicate", "fraudulent", "requested_by_customer", "abandoned"}
	return schema{"cancellation_reason": {kind: kindText, allowed: reasons}}.and(expandSchema())
}

func refundSchema() schema {
	return schema{
		paramAmount:         {kind: kindInteger, minimum: 1},
		objectCharge:        {kind: kindText},
		"metadata":          {kind: kindTable, unset: true},
		objectPaymentIntent: {kind: kindText},
		"reason":            {kind: kindText, allowed: []string{"duplicate", "fraudulent", "requested_by_customer"}},
	}.and(expandSchema()).withUnsupported("currency customer instructions_email origin refund_application_fee reverse_transfer")
}

func retrieveSchema() schema {
	return schema{"client_secret": {kind: kindText}}.and(expandSchema())
}

func pageSchema() schema {
	return schema{"limit": {kind: kindInteger, minimum: 1}}.and(expandSchema())
}

func listSchema(filters ...string) schema {
	read := schema{
		"created": {kind: kindSpan}, "ending_before": {kind: kindText}, "starting_after": {kind: kindText},
	}.and(pageSchema())
	for _, filter := range filters {
		read[filter] = field{kind: kindText}
	}
	return read
}

func searchSchema() schema {
	return schema{"query": {kind: kindText, required: true}, "page": {kind: kindText}}.and(pageSchema())
}
