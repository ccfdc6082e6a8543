package sandbox_test

import (
	"net/http"
	"net/url"
	"testing"

	"github.com/google/go-cmp/cmp"

	"paysaga/providers/sandbox"
)

// made creates a payment in one of the states that a call can start from, and gives its id and its latest charge's.
func (b *bench) made(t *testing.T, pairs ...string) (payment, charge string) {
	t.Helper()
	answer := b.post(t, "/payment_intents", "", order(pairs...))
	created := answer.json(t)
	if answer.status == http.StatusPaymentRequired {
		inner, ok := answer.failure(t)["payment_intent"].(map[string]any)
		if !ok {
			t.Fatalf("no payment in %s", answer.body)
		}
		created = inner
	}
	if text(created, "id") == "" {
		t.Fatalf("created %s", answer.body)
	}
	return text(created, "id"), text(created, "latest_charge")
}

func TestCallsThatDoNotFitTheState(t *testing.T) {
	t.Parallel()
	const unexpected = "payment_intent_unexpected_state"
	for name, test := range map[string]struct {
		state  []string // pairs of the order
		path   string   // behind the payment's
		form   url.Values
		status int
		code   string
	}{
		"confirm succeeded":      {nil, "/confirm", url.Values{"payment_method": {"pm_card_visa"}}, 400, unexpected},
		"confirm held":           {[]string{"capture_method", "manual"}, "/confirm", nil, 400, unexpected},
		"confirm without method": {[]string{"confirm", "", "payment_method", ""}, "/confirm", nil, 400, unexpected},
		"confirm after decline":  {[]string{"payment_method", "pm_card_visa_chargeDeclined"}, "/confirm", nil, 400, unexpected},
		"confirm open":           {[]string{"confirm", ""}, "/confirm", nil, 200, ""},
		"confirm wrong secret":   {[]string{"confirm", ""}, "/confirm", url.Values{"client_secret": {"x"}}, 400, "payment_intent_invalid_parameter"},
		"capture succeeded":      {nil, "/capture", nil, 400, unexpected},
		"capture open":           {[]string{"confirm", ""}, "/capture", nil, 400, unexpected},
		"capture held":           {[]string{"capture_method", "manual"}, "/capture", nil, 200, ""},
		"cancel succeeded":       {nil, "/cancel", nil, 400, unexpected},
		"cancel open":            {[]string{"confirm", "", "payment_method", ""}, "/cancel", nil, 200, ""},
		"cancel unconfirmed":     {[]string{"confirm", ""}, "/cancel", nil, 200, ""},
		"cancel challenged":      {[]string{"payment_method", "pm_card_authenticationRequired"}, "/cancel", nil, 200, ""},
		"cancel with odd reason": {[]string{"confirm", ""}, "/cancel", url.Values{"cancellation_reason": {"mood"}}, 400, ""},
		"amount of succeeded":    {nil, "", url.Values{"amount": {"4000"}}, 400, unexpected},
		"amount too small":       {[]string{"confirm", ""}, "", url.Values{"amount": {"1"}}, 400, "amount_too_small"},
		"amount of open":         {[]string{"confirm", ""}, "", url.Values{"amount": {"4000"}}, 200, ""},
		"description":            {nil, "", url.Values{"description": {"x"}}, 200, ""},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := newBench(t, sandbox.Options{})
			id, _ := b.made(t, test.state...)
			before := b.get(t, "/stripe/v1/payment_intents/"+id).body
			answer := b.post(t, "/payment_intents/"+id+test.path, "k1", test.form)
			if answer.status != test.status {
				t.Fatalf("status %d: %s", answer.status, answer.body)
			}
			if test.status == http.StatusOK {
				return
			}
			if failure := answer.failure(t); text(failure, "code") != test.code || (test.code == unexpected && text(failure, "payment_intent", "id") != id) {
				t.Errorf("error is %v", failure)
			}
			if after := b.get(t, "/stripe/v1/payment_intents/"+id).body; after != before {
				t.Errorf("the refused call changed the payment from %s to %s", before, after)
			}
		})
	}
}

func TestRefundsThatAreRefused(t *testing.T) {
	t.Parallel()
	b := newBench(t, sandbox.Options{})
	paid, charge := b.made(t)
	held, heldCharge := b.made(t, "capture_method", "manual")
	crowns, _ := b.made(t, "currency", "isk", "amount", "50000")
	for name, test := range map[string]struct {
		form   url.Values
		status int
		code   string
	}{
		"nothing named":   {url.Values{}, 400, "parameter_missing"},
		"both named":      {url.Values{"payment_intent": {paid}, "charge": {charge}}, 400, "parameters_exclusive"},
		"no such payment": {url.Values{"payment_intent": {"pi_none"}}, 404, "resource_missing"},
		"no such charge":  {url.Values{"charge": {"ch_none"}}, 404, "resource_missing"},
		"only held":       {url.Values{"payment_intent": {held}}, 400, ""},
		"charge held":     {url.Values{"charge": {heldCharge}}, 400, ""},
		"too much":        {url.Values{"charge": {charge}, "amount": {"3999"}}, 400, ""},
		"nothing":         {url.Values{"charge": {charge}, "amount": {"0"}}, 400, "parameter_invalid_integer"},
		"odd reason":      {url.Values{"charge": {charge}, "reason": {"mood"}}, 400, ""},
		"a fraction":      {url.Values{"payment_intent": {crowns}, "amount": {"150"}}, 400, "parameter_invalid_integer"},
	} {
		answer := b.post(t, "/refunds", "", test.form)
		if answer.status != test.status || text(answer.failure(t), "code") != test.code {
			t.Errorf("%s: %d %s", name, answer.status, answer.body)
		}
	}
	for _, entry := range b.Ledger() {
		if entry.Refunded != 0 {
			t.Errorf("ledger is %+v", entry)
		}
	}
}

func TestRefundByChargeShowsEverywhere(t *testing.T) {
	t.Parallel()
	b := newBench(t, sandbox.Options{})
	payment, charge := b.made(t)
	refund := text(b.post(t, "/refunds", "", url.Values{"charge": {charge}, "amount": {"3998"}}).json(t), "id")
	for _, path := range []string{
		"/refunds", "/refunds?charge=" + charge, "/refunds?payment_intent=" + payment, "/refunds?payment_intent=" + payment + "&charge=" + charge,
	} {
		if ids := b.get(t, "/stripe/v1"+path).ids(t); len(ids) != 1 || ids[0] != refund {
			t.Errorf("%s gives %v", path, ids)
		}
	}
	shown := b.get(t, "/stripe/v1/charges/"+charge+"?expand%5B%5D=refunds&expand%5B%5D=payment_intent").json(t)
	if diff := cmp.Diff([]any{true, 3998.0, payment}, []any{shown["refunded"], shown["amount_refunded"], text(shown, "payment_intent", "id")}); diff != "" {
		t.Errorf("charge (-want +got):\n%s", diff)
	}
	for _, path := range []string{"/refunds/re_none", "/charges/ch_none"} {
		if missing := b.get(t, "/stripe/v1"+path); missing.status != http.StatusNotFound || text(missing.failure(t), "code") != "resource_missing" {
			t.Errorf("%s: %d %s", path, missing.status, missing.body)
		}
	}
	if other := b.get(t, "/stripe/v1/refunds?starting_after=re_none"); other.status != http.StatusBadRequest {
		t.Errorf("unknown cursor: %d", other.status)
	}
}

func TestWhatACaptureLeavesOverIsReleased(t *testing.T) {
	t.Parallel()
	b := newBench(t, sandbox.Options{})
	payment, _ := b.made(t, "capture_method", "manual")
	b.post(t, "/payment_intents/"+payment+"/capture", "", url.Values{"amount_to_capture": {"3000"}})
	if more := b.post(t, "/refunds", "", url.Values{"payment_intent": {payment}, "amount": {"3001"}}); more.status != http.StatusBadRequest {
		t.Errorf("more than captured was refunded: %d %s", more.status, more.body)
	}
	if all := b.post(t, "/refunds", "", url.Values{"payment_intent": {payment}}).json(t); all["amount"] != 3000.0 {
		t.Errorf("refund is %v", all)
	}
	b.wantMoney(t, "succeeded", 0, 3000, 3000)
}

func TestCanceledHoldIsReleased(t *testing.T) {
	t.Parallel()
	b := newBench(t, sandbox.Options{})
	payment, charge := b.made(t, "capture_method", "manual")
	b.post(t, "/payment_intents/"+payment+"/cancel", "", nil)
	shown := b.get(t, "/stripe/v1/charges/"+charge).json(t)
	want := map[string]any{"captured": false, "refunded": true, "amount_refunded": 3998.0, "amount_captured": 0.0}
	for name, value := range want {
		if shown[name] != value {
			t.Errorf("%s is %v, want %v", name, shown[name], value)
		}
	}
	b.wantMoney(t, "canceled", 0, 0, 0)
}

func TestPaymentRefusedBeforeItsFirstAttemptDoesNotExist(t *testing.T) {
	t.Parallel()
	b := newBench(t, sandbox.Options{})
	failure := b.post(t, "/payment_intents", "k1", order("payment_method", "")).failure(t)
	if _, shown := failure["payment_intent"]; shown || len(b.Ledger()) != 0 {
		t.Errorf("error is %v, ledger %+v", failure, b.Ledger())
	}
}

func TestControlRefusesWhatItCannotDo(t *testing.T) {
	t.Parallel()
	b := newBench(t, sandbox.Options{})
	id, _ := b.made(t)
	b.control(t, "/payments/"+id+"/approve", "", http.StatusConflict)
	b.control(t, "/payments/"+id+"/explode", "", http.StatusNotFound)
	b.control(t, "/payments/pi_none/approve", "", http.StatusNotFound)
	b.control(t, "/refunds/re_none/fail", "", http.StatusNotFound)
	b.control(t, "/clock", `{"advance_ms":-1}`, http.StatusBadRequest)
	b.control(t, "/clock", `{"advance":1}`, http.StatusBadRequest)
	b.control(t, "/settings", `{"settle_after_ms":-1}`, http.StatusBadRequest)
	if healthy := b.get(t, "/healthz"); healthy.status != http.StatusOK {
		t.Errorf("health: %d", healthy.status)
	}
	b.wantMoney(t, "succeeded", 0, 3998, 0)
}
