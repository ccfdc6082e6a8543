package lifecycle_test

import (
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"

	"paysaga/providers"
	"paysaga/providers/sandbox"
	"paysaga/saga"
)

const (
	stripeName = "stripe"
	adyenName  = "adyen"
	paypalName = "paypal"
)

var allProviders = []string{stripeName, adyenName, paypalName}

// The kinds of payment methods, by how they end.
const (
	pays       = "pays"
	declines   = "declines"
	asks       = "asks"       // the customer must act
	takesTime  = "takes time" // the bank answers later
	refundsLag = "refunds lag"
)

// methods are the sandbox's.
var methods = map[string]map[string]string{
	stripeName: {
		pays: "pm_card_visa", declines: "pm_card_chargeDeclinedInsufficientFunds", asks: "pm_card_authenticationRequired",
		takesTime: "pm_usBankAccount_processing", refundsLag: "pm_card_pendingRefund",
	},
	adyenName: {
		pays: "stored_APPROVED", declines: "stored_NOT_ENOUGH_BALANCE", asks: "stored_REDIRECT", takesTime: "stored_PENDING",
		refundsLag: "stored_APPROVED",
	},
	paypalName: {
		pays: "vault_COMPLETED", declines: "vault_INSTRUMENT_DECLINED", asks: "wallet", takesTime: "vault_PENDING",
		refundsLag: "vault_REFUND_PENDING",
	},
}

// identifier is what a call's key must be on the wire.
func identifier(provider string, key providers.SubKey) string {
	switch provider {
	case stripeName:
		return key.StripeIdempotencyKey()
	case adyenName:
		return key.AdyenReference()
	}
	return key.PayPalRequestID()
}

const price = 3998 // US cents: all three providers' slow methods take dollars

// twoCups is an order of two cups.
func twoCups(provider, kind string) saga.Order {
	return saga.Order{
		Currency: "USD", Amount: price, Items: []saga.Item{{SKU: cup, Quantity: 2, UnitAmount: price / 2}},
		Customer: saga.Customer{Reference: "customer-1"},
		Payment: saga.Payment{
			Provider: provider, Method: methods[provider][kind], ReturnURL: "https://shop.example/back",
			Capture: saga.CaptureAutomatic, OnDecline: saga.DeclineRollsBack,
		},
	}
}

// control plays the customer's or the bank's part. It tells whether that was possible.
func (h *house) control(path string) bool {
	h.Helper()
	answer := httptest.NewRecorder()
	h.sandbox.ServeHTTP(answer, httptest.NewRequestWithContext(h.Context(), http.MethodPost, "/_sandbox/"+path, http.NoBody))
	switch answer.Code {
	case http.StatusOK:
		return true
	case http.StatusConflict, http.StatusNotFound:
		return false
	}
	h.Fatalf("control %s: %d %s", path, answer.Code, answer.Body)
	return false
}

// decide lets the customer act on what the shop showed ("approve", "refuse"), and gives what comes back to the shop.
func (h *house) decide(provider, payment string, next *providers.NextAction, decision string) (details json.RawMessage) {
	h.Helper()
	if provider != adyenName {
		h.control("payments/" + payment + "/" + decision)
		return nil
	}
	page, err := url.Parse(next.URL)
	h.must(err)
	form := url.Values{"decision": {decision}, "secret": {page.Query().Get("secret")}}
	page.RawQuery = ""
	posted, err := http.NewRequestWithContext(h.Context(), http.MethodPost, page.String(), strings.NewReader(form.Encode()))
	h.must(err)
	posted.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	answer, err := h.client.Do(posted)
	h.must(err)
	h.must(answer.Body.Close())
	back, err := url.Parse(answer.Header.Get("Location"))
	h.must(err)
	details, err = json.Marshal(map[string]string{"redirectResult": back.Query().Get("redirectResult")})
	h.must(err)
	return details
}

// requests are all calls that the sandbox was sent.
func (h *house) requests() []sandbox.RequestRecord {
	h.Helper()
	answer := httptest.NewRecorder()
	h.sandbox.ServeHTTP(answer, httptest.NewRequestWithContext(h.Context(), http.MethodGet, "/_sandbox/requests", http.NoBody))
	var recorded struct {
		Requests []sandbox.RequestRecord `json:"requests"`
	}
	h.must(json.Unmarshal(answer.Body.Bytes(), &recorded))
	return recorded.Requests
}
