package httpapi_test

import (
	"encoding/json"
	"net/http"
	"net/url"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"paysaga/api"
)

// The customer comes back from the challenge before anybody else has heard of it.
func TestContinue(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		body, action string
		status       int
		slug         string
	}{
		"Stripe, approved":  {paidBy("pm_card_authenticationRequired"), "approve", http.StatusOK, ""},
		"Stripe, refused":   {paidBy("pm_card_authenticationRequired"), "refuse", http.StatusPaymentRequired, "payment-declined"},
		"Stripe, not yet":   {paidBy("pm_card_authenticationRequired"), "", http.StatusAccepted, ""},
		"Stripe, held":      {heldBy("stripe", "pm_card_authenticationRequired"), "approve", http.StatusOK, ""},
		"PayPal, approved":  {payingWith(`{"provider":"paypal","method":"wallet","return_url":"https://example.com/back"}`), "approve", http.StatusOK, ""},
		"PayPal, not yet":   {payingWith(`{"provider":"paypal","method":"wallet","return_url":"https://example.com/back"}`), "", http.StatusAccepted, ""},
		"PayPal, and later": {payingWith(`{"provider":"paypal","method":"wallet","capture":"manual","return_url":"https://example.com/back"}`), "approve", http.StatusOK, ""},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := newShop(t)
			placed := s.place(t, newKeyText(), c.body)
			order, location := placed.order(t, http.StatusAccepted), placed.header.Get("Location")
			if order.DeadlineAt.IsZero() || order.NextAction == nil {
				t.Errorf("order %+v", order)
			}
			if c.action != "" {
				s.control(t, order.Payment.ProviderReference, c.action)
			}
			key := newKeyText()
			first := s.send(t, s.asking(key, location+"/continue", `{}`))
			if c.slug != "" {
				if problem := first.problem(t, c.status, c.slug); problem.Instance != location {
					t.Errorf("instance %q", problem.Instance)
				}
			} else if first.order(t, c.status); first.body != s.get(t, location).body {
				t.Errorf("the answer is not the order:\n%s\n%s", first.body, s.get(t, location).body)
			}
			before := s.footprint(t)
			sameAnswer(t, first, s.send(t, s.asking(key, location+"/continue", `{}`)))
			s.send(t, s.asking(key, location+"/continue", `{"details":{"a":"b"}}`)).
				checkRefusal(t, http.StatusUnprocessableEntity, "idempotency-key-reuse", "")
			if diff := cmp.Diff(before, s.footprint(t)); diff != "" {
				t.Errorf("a repeat changed something (-before +after):\n%s", diff)
			}
		})
	}
}

// An order that was decided meanwhile is told as it stands.
func TestContinueWhatIsDecided(t *testing.T) {
	t.Parallel()
	s := newShop(t)
	paid := s.place(t, newKeyText(), theOrder)
	again := s.ask(t, paid.header.Get("Location")+"/continue", `{}`)
	if again.order(t, http.StatusOK); again.body != paid.body {
		t.Errorf("%s\nis not\n%s", again.body, paid.body)
	}
	failed := s.place(t, newKeyText(), paidBy("pm_card_visa_chargeDeclined")).problem(t, http.StatusPaymentRequired, "payment-declined").Instance
	s.ask(t, failed+"/continue", `{}`).problem(t, http.StatusPaymentRequired, "payment-declined")
	s.ask(t, failed+"/continue", `{"details":{"number":"4242 4242 4242 4242"}}`).
		checkRefusal(t, http.StatusBadRequest, "invalid-request", "pointer /details/number")
}

// Encrypted card fields in, an action for the client library or a redirect out, and what that brings in again.
func TestContinueAdyen(t *testing.T) {
	t.Parallel()
	s := newShop(t)
	placed := s.place(t, newKeyText(), payingWith(`{"provider":"adyen","method":"stored_REDIRECT","return_url":"https://example.com/back"}`))
	order, location := placed.order(t, http.StatusAccepted), placed.header.Get("Location")
	if order.NextAction == nil || order.NextAction.URL == "" && len(order.NextAction.Action) == 0 {
		t.Fatalf("next action %+v", order.NextAction)
	}
	s.ask(t, location+"/continue", `{"details":{"redirectResult":"of another payment"}}`).
		checkRefusal(t, http.StatusUnprocessableEntity, "continue-refused", "")
	if now := s.orderNow(t, location); now.Status != api.OrderStatusAwaiting {
		t.Errorf("order is %s", now.Status)
	}
	details, err := json.Marshal(map[string]any{"details": map[string]string{"redirectResult": decide(t, actionURL(t, order), "approve")}})
	noError(t, err)
	if got := s.ask(t, location+"/continue", string(details)).order(t, http.StatusOK); got.Payment.Status != api.PaymentStatusCaptured {
		t.Errorf("payment is %s", got.Payment.Status)
	}
}

func actionURL(t *testing.T, order api.Order) string {
	t.Helper()
	if order.NextAction.URL != "" {
		return order.NextAction.URL
	}
	var action struct {
		URL string `json:"url"`
	}
	noError(t, json.Unmarshal(order.NextAction.Action, &action))
	return action.URL
}

// decide plays the customer on Adyen's page, and gives what the way back brings.
func decide(t *testing.T, page, decision string) string {
	t.Helper()
	parsed, err := url.Parse(page)
	noError(t, err)
	form := url.Values{"decision": {decision}, "secret": {parsed.Query().Get("secret")}}
	r, err := http.NewRequestWithContext(t.Context(), http.MethodPost, page, strings.NewReader(form.Encode()))
	noError(t, err)
	r.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	client := &http.Client{CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}
	got, err := client.Do(r)
	noError(t, err)
	defer got.Body.Close()
	back, err := got.Location()
	noError(t, err)
	return back.Query().Get("redirectResult")
}

// theCard is what Adyen's client library makes of a card. The sandbox takes it for one that pays.
const theCard = `{"type":"scheme","encryptedCardNumber":"test_4111111111111111","encryptedExpiryMonth":"test_03",` +
	`"encryptedExpiryYear":"test_2030","encryptedSecurityCode":"test_737","holderName":"A. Lovelace"}`

// A method that the client library made is sent on, sealed while it is kept, and never shown.
func TestMethodData(t *testing.T) {
	t.Parallel()
	s := newShop(t)
	key, body := newKeyText(), payingWith(`{"provider":"adyen","method_data":`+theCard+`,"return_url":"https://example.com/back"}`)
	placed := s.place(t, key, body)
	placed.order(t, http.StatusCreated)
	sameAnswer(t, placed, s.place(t, key, strings.ReplaceAll(body, `":`, `" : `)))
	s.place(t, key, strings.Replace(body, "A. Lovelace", "B. Lovelace", 1)).
		checkRefusal(t, http.StatusUnprocessableEntity, "idempotency-key-reuse", "")
	s.log.Secret("a card holder", "A. Lovelace")
}

// A decline keeps the stock, and the next attempts have identifiers of their own, also at another provider.
func TestAnotherPayment(t *testing.T) {
	t.Parallel()
	s := newShop(t)
	placed := s.place(t, newKeyText(), awaitingAfter("pm_card_visa_chargeDeclined"))
	first, location := placed.order(t, http.StatusAccepted), placed.header.Get("Location")
	checkAwaitsPayment(t, s, first)
	s.ask(t, location+"/continue", `{}`).checkRefusal(t, http.StatusUnprocessableEntity, "payment-required", "pointer /payment")
	key, body := newKeyText(), `{"payment":{"method":"pm_card_chargeDeclinedInsufficientFunds"}}`
	declined := s.send(t, s.asking(key, location+"/continue", body))
	second := declined.order(t, http.StatusAccepted)
	checkAwaitsPayment(t, s, second)
	if second.Payment.Identifier != first.Payment.Identifier+"_2" || second.Payment.Decline.Bank != "insufficient_funds" {
		t.Errorf("payment %+v", second.Payment)
	}
	third := s.ask(t, location+"/continue", `{"payment":{"provider":"paypal","method":"vault_COMPLETED"}}`).order(t, http.StatusOK)
	if p := third.Payment; p.Provider != "paypal" || p.Identifier != first.Payment.Identifier+"_3" || p.Decline != nil || p.CapturedAmount != 3998 {
		t.Errorf("payment %+v", p)
	}
	sameAnswer(t, declined, s.send(t, s.asking(key, location+"/continue", body)))
	if got := s.stock(t, "TSHIRT-M"); got != "0 of 98" {
		t.Errorf("stock: %s", got)
	}
}

func checkAwaitsPayment(t *testing.T, s *shop, order api.Order) {
	t.Helper()
	if order.Status != api.OrderStatusAwaiting || order.Payment.Status != api.PaymentStatusDeclined || order.Payment.Decline == nil ||
		order.DeadlineAt.IsZero() || order.NextAction == nil || order.NextAction.Type != api.NextActionTypePaymentMethod {
		t.Errorf("order %+v", order)
	}
	if got := s.stock(t, "TSHIRT-M"); got != "2 of 100" {
		t.Errorf("stock: %s", got)
	}
}

func TestAnotherPaymentWhileOneIsOpen(t *testing.T) {
	t.Parallel()
	s := newShop(t)
	location := s.place(t, newKeyText(), paidBy("pm_card_authenticationRequired")).header.Get("Location")
	before := s.footprint(t)
	s.ask(t, location+"/continue", `{"payment":{"method":"pm_card_mastercard"}}`).
		checkRefusal(t, http.StatusConflict, "payment-open", "pointer /payment")
	if diff := cmp.Diff(before, s.footprint(t)); diff != "" {
		t.Errorf("it changed something (-before +after):\n%s", diff)
	}
}

// Another payment that is none, each with the place that must be mended; nothing is changed.
//
//nolint:paralleltest,tparallel // what each leaves behind is looked at
func TestBadNextPayments(t *testing.T) {
	t.Parallel()
	s := newShop(t)
	location := s.place(t, newKeyText(), awaitingAfter("pm_card_visa_chargeDeclined")).header.Get("Location")
	for name, c := range map[string]struct {
		body   string
		status int
		slug   string
		place  string
	}{
		"provider unknown":   {`{"payment":{"provider":"nobody","method":"x"}}`, http.StatusUnprocessableEntity, "provider-not-configured", "pointer /payment/provider"},
		"method of another":  {`{"payment":{"method":"vault_1"}}`, http.StatusUnprocessableEntity, "payment-not-possible", "pointer /payment/method"},
		"data for Stripe":    {`{"payment":{"method_data":{"type":"scheme"}}}`, http.StatusUnprocessableEntity, "payment-not-possible", "pointer /payment/method_data"},
		"no method":          {`{"payment":{}}`, http.StatusBadRequest, "invalid-request", "pointer /payment/method"},
		"two methods":        {`{"payment":{"method":"pm_x","method_data":{"a":1}}}`, http.StatusBadRequest, "invalid-request", "pointer /payment/method_data"},
		"a card number":      {`{"payment":{"method":"4242424242424242"}}`, http.StatusBadRequest, "invalid-request", "pointer /payment/method"},
		"a card in the data": {`{"payment":{"method_data":{"n":"4242424242424242"}}}`, http.StatusBadRequest, "invalid-request", "pointer /payment/method_data/n"},
		"no URL":             {`{"payment":{"method":"pm_x","return_url":"https://"}}`, http.StatusBadRequest, "invalid-request", "pointer /payment/return_url"},
		"capture":            {`{"payment":{"method":"pm_x","capture":"manual"}}`, http.StatusBadRequest, "invalid-request", "pointer /payment/capture"},
		"both":               {`{"payment":{"method":"pm_x"},"details":{"a":"b"}}`, http.StatusBadRequest, "invalid-request", "pointer /payment"},
		"details as a text":  {`{"details":"x"}`, http.StatusBadRequest, "invalid-request", "pointer /details"},
		"details of nothing": {`{"details":{}}`, http.StatusBadRequest, "invalid-request", "pointer /details"},
		"payment as a text":  {`{"payment":"pm_x"}`, http.StatusBadRequest, "invalid-request", "pointer /payment"},
	} {
		t.Run(name, func(t *testing.T) {
			before := s.footprint(t)
			s.ask(t, location+"/continue", c.body).checkRefusal(t, c.status, c.slug, c.place)
			if diff := cmp.Diff(before, s.footprint(t)); diff != "" {
				t.Errorf("it changed something (-before +after):\n%s", diff)
			}
		})
	}
}
