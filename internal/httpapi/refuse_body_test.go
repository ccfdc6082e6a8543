package httpapi_test

import (
	"maps"
	"net/http"
	"slices"
	"strings"
	"testing"
)

// badBody is a body that is refused with invalid-request.
func badBody(name, body, place string) bad {
	return bad{name: name, body: body, status: http.StatusBadRequest, slug: "invalid-request", place: place}
}

// badSyntax are bodies that are no JSON, or not one value of it, or that could be read in two ways.
func badSyntax(t *testing.T) []bad {
	t.Helper()
	list := badList{
		badBody("empty body", "-", ""), badBody("blank body", " \n", ""), badBody("broken JSON", theOrder[:len(theOrder)-1], "body"),
		badBody("null", "null", "body"), badBody("array", "["+theOrder+"]", "body"), badBody("string", `"order"`, "body"), badBody("number", "1", "body"),
		badBody("trailing data", theOrder+"x", "body"), badBody("two values", theOrder+theOrder, "body"), badBody("trailing comma", changed(t, theOrder, `"c-9"}}`, `"c-9"},}`), "body"),
		badBody("comment", theOrder+"// done", "body"), badBody("single quotes", strings.ReplaceAll(theOrder, `"`, `'`), "body"),
		badBody("NaN", changed(t, theOrder, "3998", "NaN"), "pointer /amount"), badBody("byte order mark", "\ufeff"+theOrder, "body"),
		badBody("more digits than can be kept", changed(t, theOrder, "3998", "3998.00000000000000001"), "pointer /amount"),
		badBody("a quantity that is nearly whole", changed(t, theOrder, `"quantity":2`, `"quantity":2.00000000000000009`), "pointer /items/0/quantity"),
		badBody("a huge exponent", changed(t, theOrder, "3998", "3998e-999999999"), "pointer /amount"),
		badBody("invalid UTF-8", changed(t, theOrder, "c-9", "c-\xff"), "pointer /metadata/cart"),
		badBody("half a surrogate", changed(t, theOrder, "c-9", `c-\ud800`), "pointer /metadata/cart"),
		badBody("nested without end", strings.Repeat("[", bodyLimit-1), "body"),
		{name: "body over the limit", body: theOrder + strings.Repeat(" ", bodyLimit), status: http.StatusRequestEntityTooLarge, slug: "body-too-large"},
	}
	for from, duplicates := range map[string][2]string{
		`"amount":3998`:           {`"amount":3998,"amount":3998`, "/amount"},
		`"currency":"EUR"`:        {`"\u0063urrency":"EUR","currency":"EUR"`, "/currency"},
		`"quantity":2`:            {`"quantity":2,"qu\u0061ntity":3`, "/items/0/quantity"},
		`"method":"pm_card_visa"`: {`"method":"pm_card_visa","meth\u006Fd":"pm_card_visa"`, "/payment/method"},
		`"email":`:                {`"email":"bob@example.com","email":`, "/customer/email"},
		`"cart":"c-9"`:            {`"cart":"c-9","c\u0061rt":"c-10"`, "/metadata/cart"},
	} {
		list.add(badBody("duplicate "+duplicates[1], changed(t, theOrder, from, duplicates[0]), "pointer "+duplicates[1]))
	}
	for name, contentType := range map[string][]string{
		"missing": nil, "empty": {""}, "text": {"text/plain"}, "form": {"application/x-www-form-urlencoded"}, "broken": {"application/json; charset"},
		"problem": {"application/problem+json"}, "xml": {"application/xml"}, "UTF-16": {"application/json; charset=utf-16"},
	} {
		list.add(bad{
			name: "content type " + name, header: map[string][]string{"Content-Type": contentType},
			status: http.StatusUnsupportedMediaType, slug: "unsupported-media-type",
		})
	}
	return list
}

// badFields are bodies with fields that the contract does not have, or of other types, or without those that it needs.
func badFields(t *testing.T) []bad {
	t.Helper()
	var list badList
	for from, at := range map[string]string{`{"currency"`: "/", `{"sku"`: "/items/0/", `{"provider"`: "/payment/", `{"reference"`: "/customer/"} {
		list.add(badBody("unknown field at "+at, changed(t, theOrder, from, `{"unknown":1,`+from[1:]), "pointer "+at+"unknown"))
	}
	list.add(badBody("field in capitals", changed(t, theOrder, `"amount"`, `"Amount"`), "pointer /amount"))
	for from, at := range map[string]string{
		`"currency":"EUR",`: "/currency", `"amount":3998,`: "/amount", `"items":[{"sku":"TSHIRT-M","quantity":2,"unit_amount":1999}],`: "/items",
		`"payment":{"provider":"stripe","method":"pm_card_visa","capture":"automatic"},`: "/payment", `"sku":"TSHIRT-M",`: "/items/0/sku",
		`"quantity":2,`: "/items/0/quantity", `,"unit_amount":1999`: "/items/0/unit_amount", `"provider":"stripe",`: "/payment/provider",
		`"method":"pm_card_visa",`: "/payment/method",
	} {
		list.add(badBody("missing "+at, changed(t, theOrder, from, ""), "pointer "+at))
	}
	long := strings.Repeat("x", 501)
	for _, c := range [][3]string{
		{`"EUR"`, "978", "/currency"},
		{`3998`, `"3998"`, "/amount"},
		{`3998`, "null", "/amount"},
		{`3998`, "true", "/amount"},
		{`3998`, "[]", "/amount"},
		{`"TSHIRT-M"`, "1", "/items/0/sku"},
		{`"TSHIRT-M"`, `""`, "/items/0/sku"},
		{`"TSHIRT-M"`, `"A B"`, "/items/0/sku"},
		{`"TSHIRT-M"`, `"A\u0000B"`, "/items/0/sku"},
		{`"TSHIRT-M"`, `"TSHIRT-M\n"`, "/items/0/sku"},
		{`"TSHIRT-M"`, `"` + long + `"`, "/items/0/sku"},
		{`"quantity":2`, `"quantity":"2"`, "/items/0/quantity"},
		{`[{"sku":"TSHIRT-M","quantity":2,"unit_amount":1999}]`, "[]", "/items"},
		{`[{"sku":"TSHIRT-M","quantity":2,"unit_amount":1999}]`, "{}", "/items"},
		{`[{"sku":"TSHIRT-M","quantity":2,"unit_amount":1999}]`, "[null]", "/items/0"},
		{`{"provider":"stripe","method":"pm_card_visa","capture":"automatic"}`, `"stripe"`, "/payment"},
		{`"stripe"`, `"Stripe"`, "/payment/provider"},
		{`"automatic"`, `"later"`, "/payment/capture"},
		{`"automatic"`, `"automatic","on_decline":"wait"`, "/payment/on_decline"},
		{`"method":"pm_card_visa"`, `"method":"pm_card_visa","method_data":{"type":"scheme"}`, "/payment/method_data"},
		{`"method":"pm_card_visa"`, `"method_data":{}`, "/payment/method_data"},
		{`"method":"pm_card_visa"`, `"method_data":"scheme"`, "/payment/method_data"},
		{`"method":"pm_card_visa"`, `"method_data":{"type":"scheme","type":"scheme"}`, "/payment/method_data/type"},
		{`"method":"pm_card_visa"`, `"method_data":{"type":"a\u0000b"}`, "/payment/method_data/type"},
		{`"method":"pm_card_visa"`, `"method_data":{"encryptedCardNumber":"` + strings.Repeat("x", 15<<10) + `","n":1.00000000000000001}`, "/payment/method_data/n"},
		{`"pm_card_visa"`, `""`, "/payment/method"},
		{`"pm_card_visa"`, "null", "/payment/method"},
		{`"automatic"`, `"automatic","return_url":"ftp://example.com"`, "/payment/return_url"},
		{`"automatic"`, `"automatic","return_url":"https://"`, "/payment/return_url"},
		{`"ada@example.com"`, "1", "/customer/email"},
		{`"ada@example.com"`, `"ada"`, "/customer/email"},
		{`"ada@example.com"`, `"Ada <ada@example.com>"`, "/customer/email"},
		{`"customer-4711"`, `"a\u0000b"`, "/customer/reference"},
		{`"customer-4711"`, `"` + long + `"`, "/customer/reference"},
		{`"c-9"`, "9", "/metadata/cart"},
		{`"c-9"`, "{}", "/metadata/cart"},
		{`"c-9"`, `"` + long + `"`, "/metadata/cart"},
		{`"c-9"`, `"c\u0000"`, "/metadata/cart"},
		{`"cart"`, `"` + long[:41] + `"`, "/metadata/" + long[:41]},
		{`"cart"`, `"a\u0000"`, "/metadata/a\x00"},
		{`{"cart":"c-9"}`, `["cart"]`, "/metadata"},
	} {
		list.add(badBody("field "+c[2]+" as "+c[1][:min(len(c[1]), 20)], changed(t, theOrder, c[0], c[1]), "pointer "+c[2]))
	}
	notes := make([]string, 51)
	for i := range notes {
		notes[i] = `"n` + strings.Repeat("x", i%39) + string(rune('a'+i%26)) + strings.Repeat("y", i/39) + `":""`
	}
	list.add(badBody("51 notes", changed(t, theOrder, `"cart":"c-9"`, strings.Join(notes, ",")), "pointer /metadata"))
	return list
}

// badAmounts are orders whose money does not add up or is none.
func badAmounts(t *testing.T) []bad {
	t.Helper()
	const line = `{"sku":"TSHIRT-M","quantity":2,"unit_amount":1999}`
	list := badList{
		badBody("SKU twice", changed(t, theOrder, line, line+","+line), "pointer /items/1/sku"),
		badBody("sum over the range", changed(t, theOrder, line, hugeLines(10)), "pointer /items/9"),
		badBody("101 lines", changed(t, theOrder, line, strings.Repeat(line+",", 100)+line), "pointer /items"),
	}
	for _, amount := range []string{
		"3997", "3999", "0", "-1", "-3998", "10.5", "3998.5", "1000000000000", "9223372036854775807", "9223372036854775808",
		"18446744073709555614", "1e400", "-1e400", "1e-400", "+3998", "3998.",
	} {
		list.add(badBody("amount "+amount, changed(t, theOrder, "3998", amount), "pointer /amount"))
	}
	for _, amount := range []string{"03998", "0x10"} { // a whole number, and then something that does not follow one
		list.add(badBody("amount "+amount, changed(t, theOrder, "3998", amount), "body"))
	}
	for quantity, place := range map[string]string{"0": "", "-2": "", "1.5": "", "1000001": "", "1e400": "", "2.0000001": ""} {
		list.add(badBody("quantity "+quantity, changed(t, theOrder, `"quantity":2`, `"quantity":`+quantity), "pointer /items/0/quantity"+place))
	}
	for _, price := range []string{"-1", "1000000000000", "19.99"} {
		list.add(badBody("price "+price, changed(t, theOrder, "1999", price), "pointer /items/0/unit_amount"))
	}
	for _, currency := range []string{"XXX", "XAU", "eur", "EU", "EURO", "€"} {
		list.add(badBody("currency "+currency, changed(t, theOrder, "EUR", currency), "pointer /currency"))
	}
	return list
}

// hugeLines are lines of the largest amounts that the contract lets pass one by one.
func hugeLines(count int) string {
	lines := make([]string, count)
	for i := range lines {
		lines[i] = `{"sku":"S` + string(rune('A'+i)) + `","quantity":1000000,"unit_amount":999999999999}`
	}
	return strings.Join(lines, ",")
}

// badPayments are orders that no provider of this server could charge.
func badPayments(t *testing.T) []bad {
	t.Helper()
	unpayable := func(name, body, place string) bad {
		return bad{name: name, body: body, status: http.StatusUnprocessableEntity, slug: "payment-not-possible", place: place}
	}
	costing := func(currency, amount string) string {
		body := changed(t, theOrder, `"quantity":2,"unit_amount":1999`, `"quantity":1,"unit_amount":`+amount)
		return changed(t, changed(t, body, "3998", amount), "EUR", currency)
	}
	list := badList{
		{name: "SKU unknown", body: changed(t, theOrder, "TSHIRT-M", "NO-SUCH-SKU"), status: http.StatusUnprocessableEntity, slug: "unknown-sku", place: "pointer /items/0/sku"},
		{name: "second SKU unknown", body: changed(t, theOrder, `{"sku"`, `{"sku":"MUG","quantity":1,"unit_amount":0},{"sku":"NO-SUCH","quantity":1,"unit_amount":0},{"sku"`), status: http.StatusUnprocessableEntity, slug: "unknown-sku", place: "pointer /items/1/sku"},
		{name: "provider unknown", body: changed(t, theOrder, "stripe", "nobody"), status: http.StatusUnprocessableEntity, slug: "provider-not-configured", place: "pointer /payment/provider"},
		unpayable("method of another kind", paidBy("tok_visa"), "pointer /payment/method"),
		unpayable("below Stripe's minimum", costing("EUR", "49"), "pointer /amount"),
		unpayable("finer than Stripe takes", costing("KWD", "10005"), "pointer /amount"),
		unpayable("above Stripe's maximum", costing("EUR", "100000000"), "pointer /amount"),
		unpayable("currency that Stripe does not take", costing("LYD", "10000"), "pointer /currency"),
	}
	cards := map[string]string{"plain": "4242424242424242", "grouped": "4242 4242 4242 4242", "hyphens": "4242-4242-4242-4242", "with blanks": " 4242424242424242 ", "of 19": "4000000000000000006"}
	for _, name := range slices.Sorted(maps.Keys(cards)) {
		list.add(badBody("card number "+name, paidBy(cards[name]), "pointer /payment/method"))
	}
	for name, c := range map[string][2]string{
		"as a field": {`{"type":"scheme","number":"4242424242424242"}`, "/number"}, "grouped": {`{"type":"scheme","a":{"b":["x","4242 4242-4242 4242"]}}`, "/a/b/1"},
		"as a number": {`{"type":"scheme","number":4242424242424242}`, "/number"}, "as a name": {`{"type":"scheme","4242424242424242":"x"}`, ""},
		"below one as a name": {`{"type":"scheme","4242424242424242":{"x":"4242424242424242"}}`, ""},
	} {
		body := changed(t, theOrder, `"method":"pm_card_visa"`, `"method_data":`+c[0])
		list.add(badBody("card number in an object "+name, body, "pointer /payment/method_data"+c[1]))
	}
	return list
}

// badStock are counts that cannot be set.
func badStock() []bad {
	var list badList
	put := func(name, sku, body, place string) {
		refused := badBody("stock: "+name, body, place)
		refused.method, refused.path = http.MethodPut, "/v1/stock/"+sku
		list.add(refused)
	}
	for body, place := range map[string]string{
		`{}`: "/on_hand", `{"on_hand":-1}`: "/on_hand", `{"on_hand":1.5}`: "/on_hand", `{"on_hand":1000000001}`: "/on_hand", `{"on_hand":"1"}`: "/on_hand",
		`{"on_hand":null}`: "/on_hand", `{"on_hand":1,"reserved":0}`: "/reserved", `{"on_hand":1,"on_h\u0061nd":2}`: "/on_hand",
	} {
		put(body, "MUG", body, "pointer "+place)
	}
	put("broken", "MUG", "{", "body")
	put("SKU with a blank", "A%20B", `{"on_hand":1}`, "parameter sku")
	put("SKU too long", strings.Repeat("A", 65), `{"on_hand":1}`, "parameter sku")
	return list
}
