package httpapi_test

import (
	"net/http"
	"testing"
	"time"

	"paysaga/providers/sandbox"
	"paysaga/saga"
)

// I10: whatever happens to an order, logs, metrics and traces tell of it and hold no key, no API key, no client secret, no payment method and
// no customer's data. Every shop of every test is held to that when it closes; this one sees all kinds of trouble.
func TestNoSecretsInTheLog(t *testing.T) {
	t.Parallel()
	s := newShop(t, func(c *saga.Config) { c.CallTimeout = 300 * time.Millisecond })
	confirmed := s.place(t, newKeyText(), theOrder).order(t, http.StatusCreated)
	s.place(t, newKeyText(), paidBy("pm_card_authenticationRequired")).order(t, http.StatusAccepted)
	s.place(t, newKeyText(), paidBy("pm_card_visa_chargeDeclined")).problem(t, http.StatusPaymentRequired, "payment-declined")
	for _, kind := range []sandbox.FaultKind{
		sandbox.FaultTimeoutAfter, sandbox.FaultErrorAfter, sandbox.FaultResetBefore, sandbox.FaultGarbageAfter, sandbox.FaultRateLimited,
	} {
		noError(t, s.sandbox.AddFault(sandbox.Fault{Provider: "stripe", Call: sandbox.CallCharge, Kind: kind, Times: 1}))
		s.place(t, newKeyText(), theOrder)
		s.sandbox.ClearFaults()
	}
	key := newKeyText()
	s.place(t, key, changed(t, theOrder, "c-9", "c-\xff"))
	s.place(t, key, changed(t, theOrder, `"reference":"customer-4711"`, `"reference":"customer-4711","more":"customer-4711"`))
	s.exec(t, `ALTER TABLE order_items RENAME TO elsewhere`) // an error of our own
	s.place(t, key, theOrder).problem(t, http.StatusServiceUnavailable, "unavailable")
	s.getAs(t, s.merchant, "/v1/idempotency-keys/"+key)
	s.log.Scrape(s.watch.Handler())
	s.log.Secret("an e-mail address", confirmed.Customer.Email)
	for _, want := range []string{confirmed.ID.String(), "provider called", "request failed", `"outcome":"unknown"`, `span "POST /v1/orders"`, `span "provider POST 127.0.0.1"`} {
		if !s.log.Contains(want) {
			t.Errorf("%q is not in the log: it tells too little to be searched for secrets", want)
		}
	}
	if found := s.log.Leaks(); len(found) > 0 {
		t.Errorf("secrets in the log: %q", found)
	}
}
