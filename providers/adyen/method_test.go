package adyen

import (
	"errors"
	"strings"
	"testing"

	"paysaga/providers"
)

func TestCheck(t *testing.T) {
	t.Parallel()
	adapter := adapterTo(t, "http://localhost")
	tests := []struct {
		name   string
		money  providers.Money
		method string
		code   string
	}{
		{"stored", euros(3998), "M5N7TQ4TG5PFWR50", ""},
		{"of the sandbox", euros(3998), "stored_NOT_ENOUGH_BALANCE", ""},
		{"older, of digits", euros(3998), "8415718415172204", ""},
		{"none", euros(3998), "", "method_missing"},
		{"card number", euros(3998), "4111111111111111", "card_number_refused"},
		{"card number, grouped", euros(3998), " 4111 1111-1111 1111", "card_number_refused"},
		{"another card", euros(3998), "371449635398431", "card_number_refused"},
		{"with a line end", euros(3998), "M5N7TQ4TG5PFWR50\n", "method_invalid"},
		{"too long", euros(3998), strings.Repeat("a", 65), "method_invalid"},
		{"a path", euros(3998), "a/b", "method_invalid"},
		{"no such currency", providers.Money{Amount: 100, Currency: "ABC"}, "M5N7TQ4TG5PFWR50", "currency_unsupported"},
		{"not expressible", providers.Money{Amount: 1050, Currency: "IDR"}, "M5N7TQ4TG5PFWR50", "amount_not_expressible"},
	}
	for _, test := range tests {
		request := chargeRequest()
		request.Money, request.Method = test.money, test.method
		err := adapter.Check(request)
		if code := requestCode(err); code != test.code {
			t.Errorf("%s: %v, want %q", test.name, err, test.code)
		}
		if err != nil && test.method != "" && strings.Contains(err.Error(), strings.TrimSpace(test.method)) {
			t.Errorf("%s: error repeats the method: %v", test.name, err)
		}
	}
}

func TestCheckOfTheWholeRequest(t *testing.T) {
	t.Parallel()
	adapter := adapterTo(t, "http://localhost")
	data := func(text string) func(*providers.ChargeRequest) {
		return func(r *providers.ChargeRequest) { r.Method, r.MethodData = "", []byte(text) }
	}
	tests := []struct {
		name   string
		change func(*providers.ChargeRequest)
		code   string
	}{
		{"stored", func(*providers.ChargeRequest) {}, ""},
		{"encrypted card", data(`{"type":"scheme","encryptedCardNumber":"test_4111111111111111"}`), ""},
		{"wallet", data(`{"type":"applepay","applePayToken":"VNRWtuNlNEWkRCSm1xWndjMDFFbktkQU..."}`), ""},
		{"both", func(r *providers.ChargeRequest) { r.MethodData = []byte(`{"type":"scheme"}`) }, "method_ambiguous"},
		{"neither", func(r *providers.ChargeRequest) { r.Method = "" }, "method_missing"},
		{"the library's whole state", data(`{"paymentMethod":{"type":"scheme"},"browserInfo":{"language":"en"},"origin":"https://shop.example"}`), ""},
		{"state without a browser", data(`{"paymentMethod":{"type":"scheme"}}`), ""},
		{"state of no method", data(`{"paymentMethod":"scheme"}`), "method_data_invalid"},
		{"state with a card number", data(`{"paymentMethod":{"type":"scheme","number":"4111111111111111"}}`), "card_number_refused"},
		{"state of no browser", data(`{"paymentMethod":{"type":"scheme"},"browserInfo":"Firefox"}`), "method_data_invalid"},
		{"state of no page", data(`{"paymentMethod":{"type":"scheme"},"origin":"javascript:alert(1)"}`), "method_data_invalid"},
		{"state of a long page", data(`{"paymentMethod":{"type":"scheme"},"origin":"https://` + strings.Repeat("a", 80) + `"}`), "method_data_invalid"},
		{"no type", data(`{"encryptedCardNumber":"x"}`), "method_data_invalid"},
		{"type of another type", data(`{"type":1}`), "method_data_invalid"},
		{"no object", data(`["scheme"]`), "method_data_invalid"},
		{"null", data(`null`), "method_data_invalid"},
		{"half", data(`{"type":`), "method_data_invalid"},
		{"too large", data(`{"type":"scheme","sdkData":"` + strings.Repeat("a", maxMethodDataBytes) + `"}`), "method_data_invalid"},
		{"card number", data(`{"type":"scheme","number":"4111111111111111"}`), "card_number_refused"},
		{"security code", data(`{"type":"scheme","encryptedCardNumber":"x","cvc":"737"}`), "card_number_refused"},
		{"card number where an encrypted one should be", data(`{"type":"scheme","encryptedCardNumber":"4111111111111111"}`), "card_number_refused"},
		{"long key", func(r *providers.ChargeRequest) { r.Key = providers.SubKey(strings.Repeat("k", 65)) }, "key_invalid"},
		{"longest key", func(r *providers.ChargeRequest) { r.Key = providers.SubKey(strings.Repeat("k", 64)) }, ""},
		{"colon in the key", func(r *providers.ChargeRequest) { r.Key = "a:b" }, "key_invalid"},
		{"no key", func(r *providers.ChargeRequest) { r.Key = "" }, "key_invalid"},
		{"long order", func(r *providers.ChargeRequest) { r.OrderID = strings.Repeat("o", 81) }, "metadata_too_long"},
		{"long saga", func(r *providers.ChargeRequest) { r.SagaKey = strings.Repeat("o", 81) }, "metadata_too_long"},
		{"short customer", func(r *providers.ChargeRequest) { r.CustomerReference = "ab" }, "customer_reference_invalid"},
		{"long customer", func(r *providers.ChargeRequest) { r.CustomerReference = strings.Repeat("c", 257) }, "customer_reference_invalid"},
		{"odd return URL", func(r *providers.ChargeRequest) { r.ReturnURL = "javascript:alert(1)" }, "return_url_invalid"},
	}
	for _, test := range tests {
		request := chargeRequest()
		test.change(&request)
		if code := requestCode(adapter.Check(request)); code != test.code {
			t.Errorf("%s: %q, want %q", test.name, code, test.code)
		}
	}
}

// An objection names its field by its way in the order's body.
func TestFieldsAreThoseOfTheOrder(t *testing.T) {
	t.Parallel()
	adapter := adapterTo(t, "http://localhost")
	for field, change := range map[string]func(r *providers.ChargeRequest){
		"payment.method":      func(r *providers.ChargeRequest) { r.Method = "" },
		"payment.method_data": func(r *providers.ChargeRequest) { r.Method, r.MethodData = "", []byte("{}") },
		"payment.return_url":  func(r *providers.ChargeRequest) { r.ReturnURL = "javascript:alert(1)" },
		"customer.reference":  func(r *providers.ChargeRequest) { r.CustomerReference = "ab" },
		"amount":              func(r *providers.ChargeRequest) { r.Money.Amount = 0 },
		"currency":            func(r *providers.ChargeRequest) { r.Money.Currency = "XXX" },
	} {
		request := chargeRequest()
		change(&request)
		invalid, ok := errors.AsType[*providers.RequestError](adapter.Check(request))
		if !ok || invalid.Field != field {
			t.Errorf("%+v, want the field %s", invalid, field)
		}
	}
}

func TestParseDetails(t *testing.T) {
	t.Parallel()
	tests := []struct {
		name, data string
		details    map[string]string
		data2      string
	}{
		{"redirect", `{"redirectResult":"X6"}`, map[string]string{"redirectResult": "X6"}, ""},
		{"client library", `{"details":{"threeDSResult":"eyJ"},"paymentData":"Ab02"}`, map[string]string{"threeDSResult": "eyJ"}, "Ab02"},
		{"none", ``, nil, ""},
		{"null", `null`, nil, ""},
		{"empty", `{}`, nil, ""},
		{"empty inside", `{"details":{}}`, nil, ""},
		{"no object inside", `{"details":"x"}`, nil, ""},
		{"no string inside", `{"redirectResult":{"a":1}}`, nil, ""},
		{"no object", `"x"`, nil, ""},
		{"too large", `{"redirectResult":"` + strings.Repeat("a", maxDetailsBytes) + `"}`, nil, ""},
	}
	for _, test := range tests {
		request, err := parseDetails([]byte(test.data))
		if test.details == nil {
			if requestCode(err) != "details_invalid" {
				t.Errorf("%s: %+v, %v", test.name, request, err)
			}
			continue
		}
		if err != nil || len(request.Details) != 1 || request.PaymentData != test.data2 {
			t.Errorf("%s: %+v, %v", test.name, request, err)
		}
		for name, value := range test.details {
			if request.Details[name] != value {
				t.Errorf("%s: %+v", test.name, request)
			}
		}
	}
}
