package httpapi_test

import (
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"paysaga/internal/httpapi"
)

// keyedEndpoint is one endpoint of the contract's table, and how its request is brought about.
type keyedEndpoint struct {
	endpoint string
	method   string
	path     func(t *testing.T, s *shop) string // makes what the request is about, and gives the request's address
	body     string
	other    string // another intent; empty: there is none but the same about another order
	status   int    // of the first answer
	again    int    // of the same request under a new key, sent second

	held     string // where at the provider the request can be held: POSTs to addresses that end so
	steps    string // of its saga, once it was left there and taken up again: name, attempt, status, recorded calls
	breaking string // where the provider is not asked: what makes the database refuse the request's write, of table $
	table    string
	operator bool   // it needs an operator's key
	single   string // why nobody ever sees it run; empty where it can be seen

	refused func(t *testing.T, s *shop) (path, body string) // a request that is refused for good
	refusal string                                          // status and type of that
	never   string                                          // why there is none
}

// behaviours are the rows of the table. Each has a key, and what the request is about, of its own.
var behaviours = []struct {
	name string
	test func(s *shop, t *testing.T, e keyedEndpoint)
	not  func(e keyedEndpoint) string // why an endpoint does not have it; empty where it does
}{
	{"first call, repeats", (*shop).firstAndRepeats, nil},
	{"other fingerprint", (*shop).otherFingerprint, nil},
	{"other account", (*shop).otherAccountsKey, nil},
	{"repeat while running", (*shop).repeatWhileRunning, oneTransaction},
	{"crash, then retries", (*shop).crashThenRetries, oneTransaction},
	{"transient failure", (*shop).transientFailure, nil},
	{"permanent failure", (*shop).permanentFailure, func(e keyedEndpoint) string {
		return e.never
	}},
	{"validation error", (*shop).validationError, nil},
	{"missing key", (*shop).missingKey, nil},
	{"expired key", (*shop).expiredKey, nil},
}

// oneTransaction: where the key is claimed and the answer stored in one transaction, nobody ever sees it run, or leaves it half done.
func oneTransaction(e keyedEndpoint) string { return e.single }

// The behaviours of an endpoint come one after the other, as they look at what each leaves behind.
func TestContractTable(t *testing.T) {
	t.Parallel()
	endpoints := keyedEndpoints()
	named := make([]string, 0, len(endpoints))
	for _, e := range endpoints {
		named = append(named, e.endpoint)
		t.Run(e.endpoint, func(t *testing.T) {
			t.Parallel()
			s := newShop(t)
			for _, b := range behaviours {
				if b.not != nil && b.not(e) != "" {
					t.Logf("%s: does not exist here: %s", b.name, b.not(e))
					continue
				}
				t.Run(b.name, func(t *testing.T) { b.test(s, t, e) })
			}
		})
	}
	if diff := cmp.Diff(httpapi.Endpoints(), named); diff != "" {
		t.Errorf("endpoints of the API that the table does not have, or the other way round (-API +table):\n%s", diff)
	}
}

func keyedEndpoints() []keyedEndpoint {
	orders := func(*testing.T, *shop) string { return "/v1/orders" }
	about := func(placed, action string) func(*testing.T, *shop) string {
		return func(t *testing.T, s *shop) string {
			t.Helper()
			return s.place(t, newKeyText(), placed).header.Get("Location") + action
		}
	}
	heldByStripe := heldBy("stripe", "pm_card_visa")
	return []keyedEndpoint{
		{
			endpoint: ordersEndpoint, method: http.MethodPost, path: orders,
			body: theOrder, other: strings.Replace(theOrder, "TSHIRT-M", "MUG", 1), status: http.StatusCreated, again: http.StatusCreated,
			held: "/stripe/v1/payment_intents", steps: "reserve 1 done 0, charge 1 done 1, confirm 1 done 0",
			refused: func(*testing.T, *shop) (string, string) { return "/v1/orders", paidBy("pm_card_visa_chargeDeclined") },
			refusal: "402 payment-declined",
		},
		{
			endpoint: "POST /v1/orders/{id}/continue", method: http.MethodPost,
			path: about(awaitingAfter("pm_card_visa_chargeDeclined"), "/continue"),
			body: `{"payment":{"method":"pm_card_visa"}}`, other: `{"payment":{"method":"pm_card_mastercard"}}`,
			status: http.StatusOK, again: http.StatusOK,
			held: "/stripe/v1/payment_intents", steps: "reserve 1 done 0, charge 1 failed 1, charge 2 done 1, confirm 1 done 0",
			refused: func(t *testing.T, s *shop) (string, string) {
				t.Helper()
				placed := s.place(t, newKeyText(), paidBy("pm_card_authenticationRequired"))
				s.control(t, placed.order(t, http.StatusAccepted).Payment.ProviderReference, "refuse")
				return placed.header.Get("Location") + "/continue", `{}`
			},
			refusal: "402 payment-declined",
		},
		{
			endpoint: "POST /v1/orders/{id}/capture", method: http.MethodPost, path: about(heldByStripe, "/capture"),
			body: `{}`, other: `{"amount":1}`, status: http.StatusOK, again: http.StatusConflict,
			held: "/capture", steps: "reserve 1 done 0, charge 1 done 1, capture 1 done 1, confirm 1 done 0",
			refused: func(t *testing.T, s *shop) (string, string) {
				t.Helper()
				location := about(heldByStripe, "")(t, s)
				s.atStripe(t, "/payment_intents/"+s.orderNow(t, location).Payment.ProviderReference+"/cancel", nil)
				return location + "/capture", `{}`
			},
			refusal: "409 authorization-ended",
		},
		{
			endpoint: "POST /v1/orders/{id}/cancel", method: http.MethodPost, path: about(heldByStripe, "/cancel"),
			body: `{}`, status: http.StatusOK, again: http.StatusOK,
			held: "/cancel", steps: "reserve 1 undone 0, charge 1 undone 1, void 1 done 1, release 1 done 0",
			never: "money that is taken meanwhile is given back, and an order that does not fit is refused before the key is claimed",
		},
		{
			endpoint: "POST /v1/orders/{id}/refunds", method: http.MethodPost, path: about(theOrder, "/refunds"),
			body: `{"amount":1000}`, other: `{"amount":1001}`, status: http.StatusCreated, again: http.StatusCreated,
			held: "/refunds", steps: "refund 1 done 1",
			refused: func(t *testing.T, s *shop) (string, string) {
				t.Helper()
				location := about(theOrder, "")(t, s)
				s.atStripe(t, "/refunds", url.Values{
					"payment_intent": {s.orderNow(t, location).Payment.ProviderReference}, "amount": {"3000"},
				})
				return location + "/refunds", `{"amount":1000}`
			},
			refusal: "422 refund-refused",
		},
		{
			endpoint: "PATCH /v1/orders/{id}", method: http.MethodPatch, path: about(theOrder, ""),
			body: `{"metadata":{"note":"one"}}`, other: `{"metadata":{"note":"two"}}`, status: http.StatusOK, again: http.StatusOK,
			never: "it only sets values: what is refused is refused before anything is done, and the key is as unused as before",
			table: "orders", breaking: "NOT metadata ? 'note'", single: "key, change and answer are one transaction",
		},
		{
			endpoint: "POST /v1/sagas/{saga}/retry", method: http.MethodPost, operator: true,
			path: func(t *testing.T, s *shop) string {
				t.Helper()
				return "/v1/sagas/" + s.stuckVoid(t).String() + "/retry"
			},
			body: `{"reason":"The provider is back."}`, other: `{"reason":"The provider is back again."}`,
			status: http.StatusOK, again: http.StatusConflict,
			held: "/cancel", steps: "reserve 1 undone 0, charge 1 undone 1, void 1 done 4, release 1 done 0",
			never: "a decision that does not fit is refused before its key is claimed; what comes after one is told by the saga",
		},
		{
			endpoint: "POST /v1/sagas/{saga}/resolve", method: http.MethodPost, operator: true,
			path: func(t *testing.T, s *shop) string {
				t.Helper()
				return "/v1/sagas/" + s.inReview(t, heldByStripe, "void_refused").String() + "/resolve"
			},
			body:   `{"resolution":"nothing_kept","reason":"It went back by bank transfer.","outside_provider":true}`,
			other:  `{"resolution":"nothing_kept","reason":"It went back by a bank transfer.","outside_provider":true}`,
			status: http.StatusOK, again: http.StatusConflict,
			never: "a decision that does not fit is refused before its key is claimed",
			table: "audit_log", breaking: "action <> 'saga.nothing_kept'", single: "key, decision and answer are one transaction",
		},
		{
			endpoint: "POST /v1/sagas/{saga}/cancel", method: http.MethodPost, operator: true,
			path: func(t *testing.T, s *shop) string {
				t.Helper()
				return "/v1/sagas/" + s.inReview(t, heldByStripe, "captured_at_provider").String() + "/cancel"
			},
			body: `{"reason":"The customer has called."}`, other: `{"reason":"The customer has called again."}`,
			status: http.StatusOK, again: http.StatusOK,
			held: "/cancel", steps: "reserve 1 undone 0, charge 1 undone 1, void 1 done 1, release 1 done 0",
			never: "a decision that does not fit is refused before its key is claimed; what comes after one is told by the saga",
		},
		{
			endpoint: "POST /v1/findings/{finding}/resolve", method: http.MethodPost, operator: true,
			path: func(t *testing.T, s *shop) string {
				t.Helper()
				return "/v1/findings/" + s.divergence(t).String() + "/resolve"
			},
			body: `{"reason":"Booked as a difference."}`, other: `{"reason":"Booked as a price difference."}`,
			status: http.StatusOK, again: http.StatusOK,
			never: "what is refused is refused before anything is done, and the key is as unused as before",
			table: "findings", breaking: "resolved_at IS NULL",
		},
		{
			endpoint: "POST /v1/findings/{finding}/ignore", method: http.MethodPost, operator: true,
			path: func(t *testing.T, s *shop) string {
				t.Helper()
				return "/v1/findings/" + s.divergence(t).String() + "/ignore"
			},
			body:   `{"until":` + tomorrow + `,"reason":"The provider looks into it."}`,
			other:  `{"until":` + tomorrow + `,"reason":"The provider looks into it again."}`,
			status: http.StatusOK, again: http.StatusOK,
			never: "what is refused is refused before anything is done, and the key is as unused as before",
			table: "findings", breaking: "ignored_until IS NULL",
		},
		{
			endpoint: "POST /v1/reconciliations", method: http.MethodPost, operator: true,
			path: func(t *testing.T, s *shop) string {
				t.Helper()
				s.exec(t, `UPDATE reconciliation_runs SET state = 'done', finished_at = now()`) // none waits
				return "/v1/reconciliations"
			},
			body: `{"mode":"plan","providers":["stripe","adyen"]}`, other: `{"mode":"apply","providers":["stripe","adyen"]}`,
			status: http.StatusAccepted, again: http.StatusAccepted,
			never: "what is refused is refused before anything is done, and the key is as unused as before",
			table: "reconciliation_runs", breaking: "state <> 'requested'",
		},
		{
			endpoint: "PUT /v1/stock/{sku}", method: http.MethodPut, path: func(*testing.T, *shop) string { return "/v1/stock/MUG" },
			body: `{"on_hand":77}`, other: `{"on_hand":78}`, status: http.StatusOK, again: http.StatusOK,
			never: "it only sets values: what is refused is refused before anything is done, and the key is as unused as before",
			table: "stock", breaking: "on_hand <> 77",
		},
	}
}

func (e keyedEndpoint) request(s *shop, path, key string) request {
	r := s.asking(key, path, e.body)
	r.method = e.method
	if e.operator {
		r.header.Set("Authorization", "Bearer "+s.operator)
	}
	return r
}

// another is the request with the same key and another intent.
func (e keyedEndpoint) another(t *testing.T, s *shop, r request) request {
	t.Helper()
	r.body = e.other
	if e.other == "" {
		r.path, r.body = e.path(t, s), e.body
	}
	return r
}

// atStripe is somebody's doing in the provider's dashboard.
func (s *shop) atStripe(t *testing.T, path string, form url.Values) {
	t.Helper()
	r := httptest.NewRequestWithContext(t.Context(), http.MethodPost, "/stripe/v1"+path, strings.NewReader(form.Encode()))
	r.Header.Set("Authorization", "Bearer sk_test_of_the_sandbox")
	r.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	recorder := httptest.NewRecorder()
	s.sandbox.ServeHTTP(recorder, r)
	if recorder.Code != http.StatusOK {
		t.Fatalf("%s: %d %s", path, recorder.Code, recorder.Body)
	}
}
