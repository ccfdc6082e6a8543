package sandbox_test

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/url"
	"strings"
	"testing"
	"time"

	"paysaga/providers/sandbox"
)

// adyen posts JSON to Adyen's API under a key; an empty key sends none.
func (b *bench) adyen(t *testing.T, path, key, body string) reply {
	t.Helper()
	header := map[string]string{"X-API-Key": "key", "Content-Type": "application/json"}
	if key != "" {
		header["Idempotency-Key"] = key
	}
	return b.do(t, http.MethodPost, "/adyen/v71"+path, body, header)
}

// adyenOrder is a payment with a stored method; more is put into the object: `,"x":1`.
func adyenOrder(code, more string) string {
	return `{"amount":{"currency":"EUR","value":3998},"merchantAccount":"Shop","reference":"ref-1","returnUrl":"https://shop.example/back?cart=9",
		"paymentMethod":{"type":"scheme","storedPaymentMethodId":"stored_` + code + `"},"shopperReference":"cus-1"` + more + `}`
}

func (r reply) want(t *testing.T, status int, pairs ...string) reply {
	t.Helper()
	if r.status != status {
		t.Fatalf("status %d, want %d: %s", r.status, status, r.body)
	}
	object := map[string]any{}
	if len(pairs) > 0 {
		object = r.json(t)
	}
	for i := 0; i+1 < len(pairs); i += 2 {
		if got := text(object, strings.Split(pairs[i], ".")...); got != pairs[i+1] {
			t.Errorf("%s is %q, want %q in %s", pairs[i], got, pairs[i+1], r.body)
		}
	}
	return r
}

func TestAdyenResultCodes(t *testing.T) {
	t.Parallel()
	for code, want := range map[string][3]string{
		"APPROVED": {"Authorised", "", ""}, "DECLINED": {"Refused", "Refused", "2"}, "REFERRAL": {"Refused", "Referral", "3"},
		"ERROR": {"Error", "Acquirer Error", "4"}, "BLOCK_CARD": {"Refused", "Blocked Card", "5"},
		"CARD_EXPIRED": {"Refused", "Expired Card", "6"}, "INVALID_AMOUNT": {"Refused", "Invalid Amount", "7"},
		"INVALID_CARD_NUMBER": {"Refused", "Invalid Card Number", "8"}, "ISSUER_UNAVAILABLE": {"Refused", "Issuer Unavailable", "9"},
		"NOT_ENOUGH_BALANCE": {"Refused", "Not enough balance", "12"}, "ACQUIRER_FRAUD": {"Refused", "Acquirer Fraud", "14"},
		"CANCELLED": {"Cancelled", "Cancelled", "15"}, "SHOPPER_CANCELLED": {"Cancelled", "Shopper Cancelled", "16"},
		"PENDING": {"Received", "", ""},
	} {
		card := strings.Replace(adyenOrder("", ""), `"storedPaymentMethodId":"stored_"`,
			`"encryptedCardNumber":"test_4111111111111111","encryptedExpiryMonth":"test_03","encryptedExpiryYear":"test_2030",
			"encryptedSecurityCode":"test_737","holderName":"`+code+`"`, 1)
		asked := adyenOrder("APPROVED", `,"additionalData":{"RequestedTestAcquirerResponseCode":"`+code+`"}`)
		for way, body := range map[string]string{"stored": adyenOrder(code, ""), "card": card, "asked": asked} {
			t.Run(code+" "+way, func(t *testing.T) {
				t.Parallel()
				b := newBench(t, sandbox.Options{})
				b.adyen(t, "/payments", "k", body).want(t, 200, "resultCode", want[0], "refusalReason", want[1], "refusalReasonCode", want[2],
					"merchantReference", "ref-1")
				captured := int64(0)
				if code == "APPROVED" {
					captured = 3998
				}
				b.wantMoney(t, want[0], 0, captured, 0)
			})
		}
	}
}

func TestAdyenRefusesWhatIsWrong(t *testing.T) {
	t.Parallel()
	b := newBench(t, sandbox.Options{AdyenKey: "key", AdyenMerchant: "Shop"})
	change := func(old, replacement string) string {
		return strings.Replace(adyenOrder("APPROVED", ""), old, replacement, 1)
	}
	for name, test := range map[string]struct {
		body   string
		status int
		code   string
	}{
		"broken":               {`{`, 400, "702"},
		"trailing":             {adyenOrder("APPROVED", "") + `{}`, 400, "702"},
		"unknown field":        {adyenOrder("APPROVED", `,"colour":1`), 400, "702"},
		"other case":           {change(`"returnUrl"`, `"returnURL"`), 400, "702"},
		"unknown in amount":    {change(`"value"`, `"values"`), 400, "702"},
		"wrong type":           {change(`3998`, `"3998"`), 400, "702"},
		"fraction":             {change(`3998`, `39.98`), 400, "702"},
		"no amount":            {change(`"amount":{"currency":"EUR","value":3998},`, ``), 422, "100"},
		"no value":             {change(`,"value":3998`, ``), 422, "100"},
		"zero":                 {change(`3998`, `0`), 422, "137"},
		"currency":             {change(`EUR`, `EURO`), 422, "138"},
		"no reference":         {change(`"reference":"ref-1",`, ``), 422, "130"},
		"no returnUrl":         {change(`"returnUrl":"https://shop.example/back?cart=9",`, ``), 422, "130"},
		"long reference":       {change(`ref-1`, strings.Repeat("r", 81)), 422, "702"},
		"other merchant":       {change(`Shop`, `Else`), 403, "901"},
		"unknown contract":     {change(`stored_APPROVED`, `stored_NONSENSE`), 422, "800"},
		"plain card number":    {change(`"storedPaymentMethodId":"stored_APPROVED"`, `"number":"4111111111111111"`), 403, "010"},
		"no payment method":    {change(`"paymentMethod":{"type":"scheme","storedPaymentMethodId":"stored_APPROVED"},`, ``), 422, "14_004"},
		"not simulated method": {change(`scheme`, `ideal`), 422, "14_0408"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b.adyen(t, "/payments", "", test.body).want(t, test.status, "errorCode", test.code)
		})
	}
	header := map[string]string{"X-API-Key": "other"}
	b.do(t, http.MethodPost, "/adyen/v71/payments", adyenOrder("APPROVED", ""), header).want(t, 401, "errorType", "security")
	b.do(t, http.MethodPost, "/adyen/v71/payments", adyenOrder("APPROVED", ""), nil).want(t, 401)
	b.adyen(t, "/payments", strings.Repeat("k", 65), adyenOrder("APPROVED", "")).want(t, 422)
	b.adyen(t, "/payments/ABCDEFGHIJKLMNOP/refunds", "", `{"amount":{"currency":"EUR","value":1},"merchantAccount":"Shop"}`).
		want(t, 422, "errorCode", "167")
	if len(b.Ledger()) != 0 {
		t.Errorf("refused requests left %+v", b.Ledger())
	}
}

func TestAdyenKeys(t *testing.T) {
	t.Parallel()
	b := newBench(t, sandbox.Options{})
	first := b.adyen(t, "/payments", "k1", adyenOrder("APPROVED", "")).want(t, 200)
	again := b.adyen(t, "/payments", "k1", adyenOrder("DECLINED", "")).want(t, 200)
	if first.body != again.body || again.header.Get("Idempotency-Key") != "k1" {
		t.Errorf("first %s\nagain %s %v", first.body, again.body, again.header)
	}
	b.adyen(t, "/cancels", "k1", `{"merchantAccount":"Shop","paymentReference":"ref-1"}`).want(t, 422, "errorCode", "704")
	b.AdvanceClock(7*24*time.Hour - time.Second)
	b.adyen(t, "/payments", "k1", adyenOrder("APPROVED", "")).want(t, 200)
	if entry := b.only(t); entry.Calls != 4 || entry.Identifier != "k1" || entry.Reference != "ref-1" {
		t.Errorf("ledger is %+v", entry)
	}
	b.AdvanceClock(time.Second)
	b.adyen(t, "/payments", "k1", adyenOrder("APPROVED", "")).want(t, 200)
	if len(b.Ledger()) != 2 { // forgotten: a second charge, as at Adyen
		t.Errorf("ledger is %+v", b.Ledger())
	}
}

func TestAdyenTestErrors(t *testing.T) {
	t.Parallel()
	b := newBench(t, sandbox.Options{})
	ask := func(code string) string {
		return adyenOrder("APPROVED", `,"additionalData":{"RequestedTestErrorResponseCode":"`+code+`"}`)
	}
	transient := b.adyen(t, "/payments", "k1", ask("NO_CONNECTION_AVAILABLE")).want(t, 500)
	if transient.header.Get("Transient-Error") != "true" || len(b.Ledger()) != 0 {
		t.Errorf("%v, ledger %+v", transient.header, b.Ledger())
	}
	b.adyen(t, "/payments", "k1", adyenOrder("APPROVED", "")).want(t, 200, "resultCode", "Authorised") // processed afresh
	stored := b.adyen(t, "/payments", "k2", ask("IOEXCEPTION_RECEIVED")).want(t, 500)
	if again := b.adyen(t, "/payments", "k2", adyenOrder("APPROVED", "")); again.body != stored.body || again.status != 500 {
		t.Errorf("again %d %s", again.status, again.body)
	}
	if stored.header.Get("Transient-Error") != "" || b.Ledger()[1].Status != "Error" || b.Ledger()[1].Captured != 0 {
		t.Errorf("%v, ledger %+v", stored.header, b.Ledger())
	}
}

func TestAdyenFaults(t *testing.T) {
	t.Parallel()
	for fault, want := range map[string]struct {
		status int
		code   string
	}{
		`"in_progress"`: {422, "704"}, `"key_store_down"`: {503, "703"}, `"rate_limited"`: {429, "000"}, `"error_before"`: {500, "000"},
		`"error_after"`: {500, "000"},
	} {
		t.Run(fault, func(t *testing.T) {
			t.Parallel()
			b := newBench(t, sandbox.Options{})
			b.control(t, "/faults", `{"provider":"adyen","call":"charge","times":1,"match":"k","fault":`+fault+`}`, http.StatusCreated)
			b.adyen(t, "/payments", "k1", adyenOrder("APPROVED", "")).want(t, want.status, "errorCode", want.code)
			b.adyen(t, "/payments", "k1", adyenOrder("APPROVED", "")).want(t, 200, "resultCode", "Authorised")
			b.wantMoney(t, "Authorised", 0, 3998, 0)
		})
	}
}

func TestAdyenSameKeyInFlight(t *testing.T) {
	t.Parallel()
	b := newBench(t, sandbox.Options{})
	b.control(t, "/faults", `{"provider":"adyen","fault":"slow","delay_ms":300}`, http.StatusCreated)
	answers := make([]reply, 8)
	inParallel(len(answers), func(i int) { answers[i] = b.adyen(t, "/payments", "k1", adyenOrder("APPROVED", "")) })
	for _, each := range answers {
		if each.status != 200 && (each.status != 422 || !strings.Contains(each.body, `"704"`)) {
			t.Errorf("%d %s", each.status, each.body)
		}
	}
	b.wantMoney(t, "Authorised", 0, 3998, 0)
}

func TestAdyenModifications(t *testing.T) {
	t.Parallel()
	const manual = `,"additionalData":{"manualCapture":"true"}`
	amount := func(value int) string {
		return fmt.Sprintf(`{"amount":{"currency":"EUR","value":%d},"merchantAccount":"Shop","reference":"mod-1"}`, value)
	}
	const plain = `{"merchantAccount":"Shop"}`
	type money struct {
		status                         string
		authorized, captured, refunded int64
	}
	for name, test := range map[string]struct {
		more  string
		steps [][2]string // path after the payment, body
		want  money
	}{
		"held":                   {manual, nil, money{"Authorised", 3998, 0, 0}},
		"captured":               {manual, [][2]string{{"captures", amount(3998)}}, money{"Authorised", 0, 3998, 0}},
		"partly captured":        {manual, [][2]string{{"captures", amount(1000)}, {"captures", amount(1000)}}, money{"Authorised", 0, 1000, 0}},
		"too much captured":      {manual, [][2]string{{"captures", amount(3999)}}, money{"Authorised", 3998, 0, 0}},
		"canceled":               {manual, [][2]string{{"cancels", plain}, {"captures", amount(1)}}, money{"Cancelled", 0, 0, 0}},
		"canceled too late":      {"", [][2]string{{"cancels", plain}}, money{"Authorised", 0, 3998, 0}},
		"reversed held":          {manual, [][2]string{{"reversals", plain}}, money{"Cancelled", 0, 0, 0}},
		"reversed captured":      {"", [][2]string{{"reversals", plain}}, money{"Authorised", 0, 3998, 3998}},
		"reversed after partial": {"", [][2]string{{"refunds", amount(1)}, {"reversals", plain}}, money{"Authorised", 0, 3998, 1}},
		"refunded twice":         {"", [][2]string{{"refunds", amount(1000)}, {"refunds", amount(2998)}}, money{"Authorised", 0, 3998, 3998}},
		"refunded too much":      {"", [][2]string{{"refunds", amount(3000)}, {"refunds", amount(1000)}}, money{"Authorised", 0, 3998, 3000}},
		"refunded uncaptured":    {manual, [][2]string{{"refunds", amount(1)}}, money{"Authorised", 3998, 0, 0}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := newBench(t, sandbox.Options{})
			psp := text(b.adyen(t, "/payments", "k1", adyenOrder("APPROVED", test.more)).want(t, 200).json(t), "pspReference")
			for i, step := range test.steps {
				answer := b.adyen(t, "/payments/"+psp+"/"+step[0], fmt.Sprint("m", i), step[1]).
					want(t, 201, "status", "received", "paymentPspReference", psp, "merchantAccount", "Shop")
				if own := text(answer.json(t), "pspReference"); own == psp || len(own) != 16 {
					t.Errorf("the modification's pspReference is %q", own)
				}
			}
			b.wantMoney(t, test.want.status, test.want.authorized, test.want.captured, test.want.refunded)
		})
	}
}

func TestAdyenTechnicalCancel(t *testing.T) {
	t.Parallel()
	b := newBench(t, sandbox.Options{})
	b.adyen(t, "/payments", "k1", adyenOrder("APPROVED", `,"additionalData":{"manualCapture":"true"}`)).want(t, 200)
	b.adyen(t, "/cancels", "k2", `{"merchantAccount":"Shop","paymentReference":"ref-2"}`).want(t, 201, "status", "received")
	b.wantMoney(t, "Authorised", 3998, 0, 0)
	b.adyen(t, "/cancels", "k3", `{"merchantAccount":"Shop","paymentReference":"ref-1"}`).want(t, 201, "paymentReference", "ref-1")
	b.wantMoney(t, "Cancelled", 0, 0, 0)
	b.adyen(t, "/cancels", "k4", `{"merchantAccount":"Shop"}`).want(t, 422, "errorCode", "130")
}

func TestAdyenTime(t *testing.T) {
	t.Parallel()
	b := newBench(t, sandbox.Options{SettleAfter: time.Minute})
	psp := text(b.adyen(t, "/payments", "k1", adyenOrder("APPROVED", `,"captureDelayHours":2`)).want(t, 200).json(t), "pspReference")
	b.wantMoney(t, "Authorised", 3998, 0, 0)
	b.AdvanceClock(2 * time.Hour)
	b.wantMoney(t, "Authorised", 0, 3998, 0)
	body := `{"amount":{"currency":"EUR","value":98},"merchantAccount":"Shop"}`
	refund := text(b.adyen(t, "/payments/"+psp+"/refunds", "k2", body).want(t, 201).json(t), "pspReference")
	b.wantMoney(t, "Authorised", 0, 3998, 0) // received is not done
	b.AdvanceClock(time.Minute)
	b.wantMoney(t, "Authorised", 0, 3998, 98)
	b.control(t, "/refunds/"+refund+"/fail", "", http.StatusOK)
	b.wantMoney(t, "Authorised", 0, 3998, 0)
	b.control(t, "/refunds/"+refund+"/fail", "", http.StatusConflict)
}

func TestAdyenHoldExpires(t *testing.T) {
	t.Parallel()
	b := newBench(t, sandbox.Options{})
	b.adyen(t, "/payments", "k1", adyenOrder("APPROVED", `,"additionalData":{"manualCapture":"true"}`)).want(t, 200)
	b.AdvanceClock(28 * 24 * time.Hour)
	b.wantMoney(t, "Expired", 0, 0, 0)
}

func TestAdyenCurrencies(t *testing.T) {
	t.Parallel()
	for currency, iso := range map[string]int64{"EUR": 500, "JPY": 500, "BHD": 500, "CLP": 5, "ISK": 5, "CVE": 50000, "IDR": 50000} {
		t.Run(currency, func(t *testing.T) {
			t.Parallel()
			b := newBench(t, sandbox.Options{})
			body := strings.Replace(adyenOrder("APPROVED", ""), `"EUR","value":3998`, `"`+currency+`","value":500`, 1)
			b.adyen(t, "/payments", "k1", body).want(t, 200)
			if entry := b.only(t); entry.Amount != iso || entry.Captured != iso || entry.Currency != currency {
				t.Errorf("ledger is %+v, want %d", entry, iso)
			}
		})
	}
}

func TestAdyenRedirect(t *testing.T) {
	t.Parallel()
	for decision, want := range map[string]struct {
		result, reason string
		captured       int64
	}{"approve": {"Authorised", "", 3998}, "refuse": {"Refused", "3D Not Authenticated", 0}} {
		t.Run(decision, func(t *testing.T) {
			t.Parallel()
			b := newBench(t, sandbox.Options{})
			sent := b.adyen(t, "/payments", "k1", adyenOrder("REDIRECT", "")).
				want(t, 200, "resultCode", "RedirectShopper", "action.type", "redirect", "action.method", "GET").json(t)
			b.wantMoney(t, "RedirectShopper", 0, 0, 0)
			page, err := url.Parse(text(sent, "action", "url"))
			if err != nil {
				t.Fatal(err)
			}
			if shown := b.get(t, page.RequestURI()); shown.status != 200 || !strings.Contains(shown.body, "39.98 EUR") {
				t.Errorf("page: %d %s", shown.status, shown.body)
			}
			if stranger := b.get(t, page.Path); stranger.status != http.StatusNotFound {
				t.Errorf("without the secret: %d", stranger.status)
			}
			form := url.Values{"decision": {decision}, "secret": {page.Query().Get("secret")}}
			gone := b.do(t, http.MethodPost, page.Path, form.Encode(), map[string]string{"Content-Type": "application/x-www-form-urlencoded"})
			back, err := url.Parse(gone.header.Get("Location"))
			if gone.status != http.StatusSeeOther || err != nil || back.Query().Get("cart") != "9" {
				t.Fatalf("%d to %v: %v", gone.status, back, err)
			}
			details, _ := json.Marshal(map[string]any{"details": map[string]string{"redirectResult": back.Query().Get("redirectResult")}})
			b.adyen(t, "/payments/details", "k2", string(details)).
				want(t, 200, "resultCode", want.result, "refusalReason", want.reason, "pspReference", text(sent, "pspReference"))
			b.wantMoney(t, want.result, 0, want.captured, 0)
		})
	}
}

func TestAdyenControl(t *testing.T) {
	t.Parallel()
	for action, want := range map[string]string{"settle": "Authorised", "fail": "Refused"} {
		b := newBench(t, sandbox.Options{})
		psp := text(b.adyen(t, "/payments", "k1", adyenOrder("PENDING", "")).want(t, 200).json(t), "pspReference")
		b.control(t, "/payments/"+psp+"/"+action, "", http.StatusOK)
		if entry := b.only(t); entry.Status != want {
			t.Errorf("%s: ledger is %+v", action, entry)
		}
		b.control(t, "/payments/"+psp+"/approve", "", http.StatusConflict)
	}
}

func TestAdyenDivergences(t *testing.T) {
	t.Parallel()
	b := newBench(t, sandbox.Options{})
	b.control(t, "/divergence", `{"provider":"adyen","kind":"charge_without_order","amount":5,"currency":"CLP","reference":"x"}`, http.StatusCreated)
	b.wantMoney(t, "Authorised", 0, 5, 0)
	b.control(t, "/divergence", `{"provider":"adyen","kind":"refund_in_dashboard","amount":2,"reference":"x"}`, http.StatusCreated)
	b.wantMoney(t, "Authorised", 0, 5, 2)
	b.control(t, "/divergence", `{"provider":"adyen","kind":"amount_changed","amount":4,"reference":"x"}`, http.StatusCreated)
	b.wantMoney(t, "Authorised", 0, 4, 2)
	b.control(t, "/divergence", `{"provider":"adyen","kind":"refund_in_dashboard","amount":3}`, http.StatusBadRequest)
	b.control(t, "/divergence", `{"provider":"adyen","kind":"amount_changed","amount":1}`, http.StatusBadRequest)
	b.control(t, "/divergence", `{"provider":"adyen","kind":"duplicate"}`, http.StatusCreated)
	if ledger := b.Ledger(); len(ledger) != 2 || ledger[1].Reference != "x" || ledger[1].Identifier != "" {
		t.Errorf("ledger is %+v", ledger)
	}
}
