package sandbox

import (
	"encoding/json"
	"errors"
	"slices"
	"strings"
)

// The fields that a body may have, by the description of Checkout version 71. Anything else is refused.
var adyenKnown = map[string]map[string]bool{
	"PaymentRequest": words(`accountInfo additionalAmount additionalData amount applicationInfo authenticationData bankAccount
		billingAddress browserInfo captureDelayHours channel checkoutAttemptId company conversionId countryCode
		dateOfBirth dccQuote deliverAt deliveryAddress deliveryDate deviceFingerprint enableOneClick enablePayOut
		enableRecurring enhancedSchemeData entityType fraudOffset fundOrigin fundRecipient industryUsage installments
		lineItems localizedShopperStatement mandate mcc merchantAccount merchantOrderReference merchantRiskIndicator
		metadata mpiData order orderReference origin paymentMethod paymentValidations platformChargebackLogic
		recurringExpiry recurringFrequency recurringProcessingModel redirectFromIssuerMethod redirectToIssuerMethod
		reference returnUrl riskData sessionValidity shopperConversionId shopperEmail shopperIP shopperInteraction
		shopperLocale shopperName shopperReference shopperStatement shopperTaxInfo socialSecurityNumber splits store
		storePaymentMethod subMerchants surcharge telephoneNumber threeDS2RequestData threeDSAuthenticationOnly
		trustedShopper`),
	"PaymentDetailsRequest": words(`authenticationData details paymentData threeDSAuthenticationOnly`),
	"PaymentCaptureRequest": words(`amount applicationInfo enhancedSchemeData lineItems merchantAccount platformChargebackLogic
		reference splits
		subMerchants`),
	"PaymentCancelRequest": words(`applicationInfo enhancedSchemeData merchantAccount reference`),
	"PaymentRefundRequest": words(`amount applicationInfo capturePspReference enhancedSchemeData lineItems merchantAccount
		merchantRefundReason
		reference splits store`),
	"PaymentReversalRequest":         words(`applicationInfo enhancedSchemeData merchantAccount reference`),
	"StandalonePaymentCancelRequest": words(`applicationInfo enhancedSchemeData merchantAccount paymentReference reference`),
	"Amount":                         words(`currency value`),
}

func words(text string) map[string]bool {
	set := make(map[string]bool)
	for word := range strings.FieldsSeq(text) {
		set[word] = true
	}
	return set
}

// readAdyen reads a body of a kind strictly: known fields only, one JSON value, values of the right types.
func readAdyen(kind string, body []byte, into any) *adyenError {
	var fields adyenFields
	if err := json.Unmarshal(body, &fields); err != nil || fields == nil {
		return adyenMalformed("Invalid JSON in the request body: an object is expected")
	}
	if refusal := unknownAdyenFields(kind, fields); refusal != nil {
		return refusal
	}
	if refusal := checkAdyenAmountFields(fields["amount"]); refusal != nil {
		return refusal
	}
	if err := json.Unmarshal(body, into); err != nil {
		mismatch := new(json.UnmarshalTypeError)
		if errors.As(err, &mismatch) {
			return adyenMalformed("Unexpected input for field '%s': %s", mismatch.Field, mismatch.Value)
		}
		return adyenMalformed("Invalid JSON in the request body")
	}
	return nil
}

func checkAdyenAmountFields(raw json.RawMessage) *adyenError {
	var inner adyenFields
	if len(raw) == 0 || json.Unmarshal(raw, &inner) != nil || inner == nil {
		return nil // absent, or of a wrong type, which is found later
	}
	if refusal := unknownAdyenFields("Amount", inner); refusal != nil {
		return refusal
	}
	for _, name := range []string{"currency", "value"} {
		if len(inner[name]) == 0 {
			return adyenInvalid("100", "Required field 'amount.%s' is not provided.", name)
		}
	}
	return nil
}

func unknownAdyenFields(kind string, fields adyenFields) *adyenError {
	var unknown []string
	for name := range fields {
		if !adyenKnown[kind][name] {
			unknown = append(unknown, name)
		}
	}
	if len(unknown) == 0 {
		return nil
	}
	slices.Sort(unknown)
	return adyenMalformed("Structure of %s contains the following unknown fields: %v", kind, unknown)
}

// requireAdyen refuses the first of the fields that is empty: pairs of name and value.
func requireAdyen(pairs ...string) *adyenError {
	for i := 0; i+1 < len(pairs); i += 2 {
		if pairs[i+1] == "" {
			return adyenInvalid("130", "Required field '%s' is not provided.", pairs[i])
		}
	}
	return nil
}
