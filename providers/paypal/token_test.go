package paypal

import (
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"

	"paysaga/providers"
)

var (
	paidOrder    = ok(orderJSON("COMPLETED", capturesJSON(captureJSON("CAP1", "COMPLETED", "39.98"))))
	tokenRefused = canned{status: 401, body: `{"error":"invalid_token"}`}
)

func TestTokenIsShared(t *testing.T) {
	t.Parallel()
	adapter, fake := adapterAt(t, map[string][]canned{"GET " + orderPath: paidOrder})
	for _, outcome := range atOnce(50, func() providers.Outcome { return adapter.Lookup(t.Context(), lookupRequest(testOrder)) }) {
		if outcome.Kind != providers.Succeeded {
			t.Errorf("%+v", outcome)
		}
	}
	if fake.tokens != 1 {
		t.Errorf("%d tokens for 50 calls", fake.tokens)
	}
}

// TestRefusedTokenIsRenewedOnce: all calls that hold the refused token share the next one.
func TestRefusedTokenIsRenewedOnce(t *testing.T) {
	t.Parallel()
	adapter, fake := adapterAt(t, map[string][]canned{"GET " + orderPath: paidOrder})
	if got := adapter.Lookup(t.Context(), lookupRequest(testOrder)); got.Kind != providers.Succeeded {
		t.Fatalf("%+v", got)
	}
	fake.mutex.Lock()
	fake.refused = "token-1"
	fake.mutex.Unlock()
	for _, outcome := range atOnce(50, func() providers.Outcome { return adapter.Lookup(t.Context(), lookupRequest(testOrder)) }) {
		if outcome.Kind != providers.Succeeded {
			t.Errorf("%+v", outcome)
		}
	}
	if fake.tokens != 2 {
		t.Errorf("%d tokens, want 2", fake.tokens)
	}
}

func TestRefusedTokenIsReplaced(t *testing.T) {
	t.Parallel()
	adapter, fake := adapterAt(t, map[string][]canned{"POST /v2/checkout/orders": append([]canned{tokenRefused}, paidOrder...)})
	if got := adapter.Charge(t.Context(), chargeRequest("v1")); got.Kind != providers.Succeeded {
		t.Errorf("%+v", got)
	}
	first, second := fake.seen[0], fake.seen[1]
	if first.Token != "token-1" || second.Token != "token-2" || fake.tokens != 2 {
		t.Errorf("tokens %s, %s of %d", first.Token, second.Token, fake.tokens)
	}
	second.Token = first.Token
	if diff := cmp.Diff(first, second); diff != "" {
		t.Errorf("the second sending differs:\n%s", diff)
	}
}

func TestTokenRefusedTwice(t *testing.T) {
	t.Parallel()
	adapter, fake := adapterAt(t, map[string][]canned{"POST /v2/checkout/orders": {tokenRefused}})
	want := providers.Outcome{Kind: providers.Busy, Code: providers.CodeCredentialsRefused, RetryAfter: operatorDelay}
	if got := adapter.Charge(t.Context(), chargeRequest("v1")); got != want {
		t.Errorf("%+v", got)
	}
	if fake.tokens != 2 || len(fake.calls()) != 2 {
		t.Errorf("%d tokens, calls %v", fake.tokens, fake.calls())
	}
}

// TestForgetKeepsANewerToken: a call that was refused late must not throw away what another has fetched meanwhile.
func TestForgetKeepsANewerToken(t *testing.T) {
	t.Parallel()
	adapter, fake := adapterAt(t, nil)
	tokens := adapter.client.tokens
	old, err := tokens.token(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	tokens.forget(old)
	renewed, err := tokens.token(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	tokens.forget(old)
	if again, err := tokens.token(t.Context()); err != nil || again != renewed || fake.tokens != 2 {
		t.Errorf("%v, %d tokens", err, fake.tokens)
	}
}

func TestNoToken(t *testing.T) {
	t.Parallel()
	refused := providers.Outcome{Kind: providers.Busy, Code: providers.CodeCredentialsRefused, RetryAfter: operatorDelay}
	none := providers.Outcome{Kind: providers.Busy, Code: codeNotAdmitted}
	tests := map[string]struct {
		answer canned
		want   providers.Outcome
	}{
		"wrong secret":   {canned{status: 401, body: `{"error":"invalid_client","error_description":"Client Authentication failed"}`}, refused},
		"not allowed":    {canned{status: 403, body: `{"error":"unauthorized_client"}`}, refused},
		"bad request":    {canned{status: 400, body: `{"error":"unsupported_grant_type"}`}, refused},
		"rate limit":     {canned{status: 429}, none},
		"500":            {canned{status: 500, body: `TOPSECRET`}, none},
		"empty":          {canned{status: 200}, none},
		"no token in it": {canned{status: 200, body: `{"token_type":"Bearer"}`}, none},
		"redirect":       {canned{status: 302, header: map[string]string{"Location": "https://evil.example/"}}, none},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			adapter, fake := adapterAt(t, nil)
			fake.token = []canned{test.answer}
			if got := adapter.Charge(t.Context(), chargeRequest("v1")); got != test.want {
				t.Errorf("%+v", got)
			}
			if len(fake.calls()) != 0 {
				t.Errorf("calls without a token: %v", fake.calls())
			}
		})
	}
}

func atOnce(times int, call func() providers.Outcome) []providers.Outcome {
	outcomes := make([]providers.Outcome, times)
	var group sync.WaitGroup
	for i := range outcomes {
		group.Go(func() { outcomes[i] = call() })
	}
	group.Wait()
	return outcomes
}
