package stripe_test

import (
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"paysaga/providers"
	"paysaga/providers/sandbox"
	"paysaga/providers/stripe"
)

const (
	sagaKey   = "1f0d3c9e-7a52-5c1b-9d2e-0a4b6c8d9e01"
	chargeKey = providers.SubKey(sagaKey + "_charge")
	voidKey   = providers.SubKey(sagaKey + "_void")
	refundKey = providers.SubKey(sagaKey + "_refund")
)

// bench is an adapter and the sandbox that it talks to over real HTTP.
type bench struct {
	*stripe.Adapter

	sandbox *sandbox.Server
	url     string
}

func newBench(t *testing.T, timeout time.Duration) bench {
	t.Helper()
	return newBenchWith(t, timeout, sandbox.Options{})
}

func newBenchWith(t *testing.T, timeout time.Duration, options sandbox.Options) bench {
	t.Helper()
	simulated := sandbox.New(options)
	server := httptest.NewServer(simulated)
	t.Cleanup(func() { simulated.Close(); server.Close() })
	adapter, err := stripe.New(stripe.Config{APIKey: "sk_test_adapter", BaseURL: server.URL + "/stripe", CallTimeout: timeout})
	if err != nil {
		t.Fatal(err)
	}
	return bench{Adapter: adapter, sandbox: simulated, url: server.URL}
}

// control does what the customer or the bank would do.
func (b bench) control(t *testing.T, path string) {
	t.Helper()
	request, err := http.NewRequestWithContext(t.Context(), http.MethodPost, b.url+path, strings.NewReader("{}"))
	if err != nil {
		t.Fatal(err)
	}
	answer, err := http.DefaultClient.Do(request)
	if err != nil {
		t.Fatal(err)
	}
	defer answer.Body.Close()
	if answer.StatusCode/100 != 2 {
		t.Fatalf("%s answered %s", path, answer.Status)
	}
}

func (b bench) fault(t *testing.T, call sandbox.CallType, kind sandbox.FaultKind) {
	t.Helper()
	fault := sandbox.Fault{Provider: "stripe", Call: call, Kind: kind, Times: 1}
	if kind == sandbox.FaultSlow {
		fault.DelayMS = 1
	}
	if err := b.sandbox.AddFault(fault); err != nil {
		t.Fatal(err)
	}
}

// one is the only charge in the ledger.
func (b bench) one(t *testing.T) sandbox.Charge {
	t.Helper()
	ledger := b.sandbox.Ledger()
	if len(ledger) != 1 {
		t.Fatalf("%d charges in the ledger, want 1: %+v", len(ledger), ledger)
	}
	return ledger[0]
}

func (b bench) charged(t *testing.T, method string, want providers.OutcomeKind) providers.Outcome {
	t.Helper()
	outcome := b.Charge(t.Context(), order(method))
	if outcome.Kind != want {
		t.Fatalf("charge with %s: %+v, want %s", method, outcome, want)
	}
	return outcome
}

func order(method string) providers.ChargeRequest {
	return providers.ChargeRequest{
		Key: chargeKey, SagaKey: sagaKey, OrderID: "order-1",
		Money: providers.Money{Amount: 3998, Currency: "EUR"}, Method: method,
	}
}

func lookup(reference string) providers.LookupRequest {
	return providers.LookupRequest{Key: chargeKey, SagaKey: sagaKey, Reference: reference}
}

// patient is a call's time in tests that do not wait for it to run out.
const patient = 20 * time.Second

func TestChargeTakesTheMoneyOnce(t *testing.T) {
	t.Parallel()
	b := newBench(t, patient)
	first := b.charged(t, "pm_card_visa", providers.Succeeded)
	want := providers.Outcome{Kind: providers.Succeeded, Reference: first.Reference, Money: providers.Money{Amount: 3998, Currency: "EUR"}}
	if difference := cmp.Diff(want, first); difference != "" || !strings.HasPrefix(first.Reference, "pi_") {
		t.Error(difference, first.Reference)
	}
	if again := b.Charge(t.Context(), order("pm_card_visa")); !cmp.Equal(first, again) {
		t.Errorf("the repeat ended otherwise: %+v", again)
	}
	entry := b.one(t)
	if entry.Captured != 3998 || entry.Currency != "EUR" || entry.Identifier != string(chargeKey) || entry.Reference != sagaKey || entry.Calls != 2 {
		t.Errorf("ledger: %+v", entry)
	}
}

func TestChargeInTheCurrenciesThatStripeCountsOtherwise(t *testing.T) {
	t.Parallel()
	for _, money := range []providers.Money{
		{Amount: 500, Currency: "JPY"},
		{Amount: 5000, Currency: "ISK"},
		{Amount: 20_000, Currency: "UGX"},
		{Amount: 5_000_00, Currency: "MGA"},
		{Amount: 5_120, Currency: "KWD"},
		{Amount: 2_000_00, Currency: "HUF"},
	} {
		t.Run(money.Currency, func(t *testing.T) {
			t.Parallel()
			b := newBench(t, patient)
			request := order("pm_card_visa")
			request.Money = money
			if got := b.Charge(t.Context(), request); got.Kind != providers.Succeeded || got.Money != money {
				t.Errorf("%+v", got)
			}
			if entry := b.one(t); entry.Captured != money.Amount || entry.Currency != money.Currency {
				t.Errorf("ledger: %+v", entry)
			}
		})
	}
}

func TestDeclines(t *testing.T) {
	t.Parallel()
	tests := map[string]providers.Decline{
		"pm_card_visa_chargeDeclined":             {Code: "card_declined", Bank: "generic_decline"},
		"pm_card_chargeDeclinedInsufficientFunds": {Code: "card_declined", Bank: "insufficient_funds"},
		"pm_card_chargeDeclinedLostCard":          {Code: "card_declined", Bank: "lost_card", Hard: true},
		"pm_card_chargeDeclinedStolenCard":        {Code: "card_declined", Bank: "stolen_card", Hard: true},
		"pm_card_chargeDeclinedExpiredCard":       {Code: "expired_card"},
		"pm_card_chargeDeclinedProcessingError":   {Code: "processing_error"},
	}
	for method, want := range tests {
		t.Run(method, func(t *testing.T) {
			t.Parallel()
			b := newBench(t, patient)
			outcome := b.charged(t, method, providers.Declined)
			if difference := cmp.Diff(&want, outcome.Decline); difference != "" {
				t.Error(difference)
			}
			entry := b.one(t)
			if entry.Captured != 0 || entry.ID != outcome.Reference || outcome.Money != (providers.Money{Amount: 3998, Currency: "EUR"}) {
				t.Errorf("outcome %+v, ledger %+v", outcome, entry)
			}
			if looked := b.Lookup(t.Context(), lookup(outcome.Reference)); !cmp.Equal(outcome, looked) {
				t.Errorf("looked up: %+v", looked)
			}
			if found := b.Lookup(t.Context(), lookup("")); !cmp.Equal(outcome, found) {
				t.Errorf("searched: %+v", found)
			}
			if voided := b.Void(t.Context(), providers.VoidRequest{Key: voidKey, Reference: outcome.Reference}); voided.Kind != providers.Succeeded {
				t.Errorf("voided: %+v", voided)
			}
		})
	}
}

func TestUnknownMethodIsRejected(t *testing.T) {
	t.Parallel()
	b := newBench(t, patient)
	outcome := b.charged(t, "pm_card_nothingLikeIt", providers.Rejected)
	if outcome.Code != "resource_missing" || !strings.Contains(outcome.Detail, "payment_method") {
		t.Errorf("%+v", outcome)
	}
}

func TestCustomerActs(t *testing.T) {
	t.Parallel()
	tests := map[string]struct {
		returnURL string
		action    string
		want      providers.OutcomeKind
		code      string
	}{
		"on the shop's page, approves":  {"", "approve", providers.Succeeded, ""},
		"on the shop's page, refuses":   {"", "refuse", providers.Declined, "payment_intent_authentication_failure"},
		"on the bank's page, approves":  {"https://shop.example.com/back", "approve", providers.Succeeded, ""},
		"on the bank's page, refuses":   {"https://shop.example.com/back", "refuse", providers.Declined, "payment_intent_authentication_failure"},
		"on the bank's page, goes away": {"https://shop.example.com/back", "", providers.ActionRequired, ""},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := newBench(t, patient)
			request := order("pm_card_authenticationRequired")
			request.ReturnURL = test.returnURL
			outcome := b.Charge(t.Context(), request)
			if outcome.Kind != providers.ActionRequired || outcome.NextAction == nil {
				t.Fatalf("%+v", outcome)
			}
			if onPage := outcome.NextAction.URL != ""; onPage != (test.returnURL != "") || onPage == (outcome.NextAction.ClientSecret != "") {
				t.Errorf("next action %+v", outcome.NextAction)
			}
			if entry := b.one(t); entry.Captured != 0 {
				t.Errorf("ledger: %+v", entry)
			}
			if test.action != "" {
				b.control(t, "/_sandbox/payments/"+outcome.Reference+"/"+test.action)
			}
			if looked := b.Lookup(t.Context(), lookup(outcome.Reference)); looked.Kind != test.want || looked.Code != test.code {
				t.Errorf("looked up: %+v", looked)
			}
		})
	}
}

func TestBankDebit(t *testing.T) {
	t.Parallel()
	for action, want := range map[string]providers.OutcomeKind{"settle": providers.Succeeded, "fail": providers.Declined} {
		t.Run(action, func(t *testing.T) {
			t.Parallel()
			b := newBench(t, patient)
			request := order("pm_usBankAccount_processing")
			request.Money.Currency = "USD"
			outcome := b.Charge(t.Context(), request)
			if outcome.Kind != providers.Processing {
				t.Fatalf("%+v", outcome)
			}
			void := providers.VoidRequest{Key: voidKey, Reference: outcome.Reference}
			if voided := b.Void(t.Context(), void); voided.Kind != providers.Busy || voided.Code != providers.CodeNotCancelableYet {
				t.Errorf("voided too early: %+v", voided)
			}
			b.control(t, "/_sandbox/payments/"+outcome.Reference+"/"+action)
			if looked := b.Lookup(t.Context(), lookup(outcome.Reference)); looked.Kind != want {
				t.Errorf("looked up: %+v", looked)
			}
			voided := b.Void(t.Context(), void)
			if want == providers.Succeeded && (voided.Kind != providers.Rejected || voided.Code != providers.CodeAlreadyCaptured) {
				t.Errorf("voided after the end: %+v", voided)
			}
			if want == providers.Declined && voided.Kind != providers.Succeeded {
				t.Errorf("voided after the failure, under the same key: %+v", voided)
			}
		})
	}
}

func TestSearch(t *testing.T) {
	t.Parallel()
	b := newBench(t, patient)
	if found := b.Lookup(t.Context(), lookup("")); found.Kind != providers.NotFound || found.Reference != "" {
		t.Fatalf("before anything: %+v", found)
	}
	b.charged(t, "pm_card_visa_chargeDeclined", providers.Declined)
	second := order("pm_card_visa")
	second.Key += "_2"
	taken := b.Charge(t.Context(), second)
	if found := b.Lookup(t.Context(), lookup("")); found.Kind != providers.Declined {
		t.Errorf("first attempt: %+v", found)
	}
	request := lookup("")
	request.Key = second.Key
	if found := b.Lookup(t.Context(), request); !cmp.Equal(taken, found) {
		t.Errorf("second attempt: %+v, want %+v", found, taken)
	}
	request.SagaKey = "x' OR metadata['saga_key']:'" + sagaKey
	if found := b.Lookup(t.Context(), request); found.Kind == providers.Succeeded {
		t.Errorf("a search key left its quotes: %+v", found)
	}
	if missing := b.Lookup(t.Context(), lookup("pi_nothing")); missing.Kind != providers.NotFound || missing.Reference != "pi_nothing" {
		t.Errorf("a payment that Stripe does not know: %+v", missing)
	}
	if other := b.Lookup(t.Context(), lookup(taken.Reference)); other.Kind != providers.Unknown || other.Code != "other_payment" {
		t.Errorf("another attempt's payment: %+v", other)
	}
}

// TestTwoLivePayments: the same POST again after Stripe forgot its key is a second charge. A search must not pick one of them.
func TestTwoLivePayments(t *testing.T) {
	t.Parallel()
	b := newBench(t, patient)
	b.charged(t, "pm_card_visa", providers.Succeeded)
	b.sandbox.AdvanceClock(25 * time.Hour)
	b.charged(t, "pm_card_visa", providers.Succeeded)
	if found := b.Lookup(t.Context(), lookup("")); found.Kind != providers.Unknown || found.Code != providers.CodeSeveralPayments {
		t.Errorf("two: %+v", found)
	}
	ledger := b.sandbox.Ledger()
	if outcome := b.Refund(t.Context(), refundOf(ledger[1].ID, "", 3998)); outcome.Kind != providers.Succeeded {
		t.Fatalf("%+v", outcome)
	}
	if found := b.Lookup(t.Context(), lookup("")); found.Kind != providers.Succeeded || found.Reference != ledger[0].ID {
		t.Errorf("one given back: %+v", found)
	}
}

func TestRefusedCredentials(t *testing.T) {
	t.Parallel()
	server := httptest.NewServer(sandbox.New(sandbox.Options{StripeKey: "sk_test_right"}))
	t.Cleanup(server.Close)
	adapter, err := stripe.New(stripe.Config{APIKey: "sk_test_wrong", BaseURL: server.URL + "/stripe/"})
	if err != nil {
		t.Fatal(err)
	}
	want := providers.Outcome{Kind: providers.Busy, Code: providers.CodeCredentialsRefused, RetryAfter: 30 * time.Second}
	if difference := cmp.Diff(want, adapter.Charge(t.Context(), order("pm_card_visa"))); difference != "" {
		t.Error(difference)
	}
}
